//! The real program with its tree and its cache, for tests that kill it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use super::edition::names;
use crate::cli::forge_search;
use crate::support::GUARD;

/// A tree for the real program, and a cache next to it.
pub(super) struct World {
    place: tempfile::TempDir,
}

impl World {
    pub(super) fn new() -> World {
        let place = tempfile::tempdir().unwrap();
        let world = World { place };
        for dir in 0..8 {
            for file in 0..40 {
                let text: String = (0..60)
                    .map(|n| format!("line {dir} {file} {n}\n"))
                    .collect();
                world.write(&format!("{dir}/{file}.txt"), text);
            }
        }
        world.write("marker.txt", "the needle of round 0x\n");
        world
    }

    pub(super) fn top(&self) -> &Path {
        self.place.path()
    }

    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.top().join("tree").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn start(&self, args: &[&str]) -> Child {
        self.start_with(args, Stdio::null())
    }

    pub(super) fn start_with(&self, args: &[&str], stdin: Stdio) -> Child {
        let mut command = forge_search(&self.top().join("tree"));
        command
            .args(args)
            .env("XDG_CACHE_HOME", self.top().join("cache"))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    pub(super) fn run(&self, args: &[&str]) -> Output {
        self.start(args).wait_with_output().unwrap()
    }

    #[track_caller]
    pub(super) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {err}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn store(&self) -> PathBuf {
        self.top().join("cache/forge/search-index")
    }

    /// Returns the directories of indexes.
    pub(super) fn kept(&self) -> Vec<PathBuf> {
        let store = self.store();
        let names = names(&store).into_iter();
        let indexes = names.filter(|name| name != "cookies");
        indexes.map(|name| store.join(name)).collect()
    }

    /// Returns true if there is an index, that is, a manifest.
    pub(super) fn has_index(&self) -> bool {
        self.kept().iter().any(|dir| dir.join("manifest").exists())
    }

    /// Returns the names of temporary files: they are being written, or their writers did not
    /// finish.
    pub(super) fn unfinished(&self) -> BTreeSet<String> {
        let names = self.kept().into_iter().flat_map(|dir| names(&dir));
        names.filter(|name| name.ends_with(".tmp")).collect()
    }

    /// Waits until a build has begun to write, and so holds the lock. Returns false if the build
    /// ended unseen, because the test had no processor in time. `before` are the files that earlier
    /// builds left.
    pub(super) fn writes(&self, child: &mut Child, before: &BTreeSet<String>) -> bool {
        let started = Instant::now();
        while self.unfinished().is_subset(before) {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(started.elapsed() < GUARD);
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }
}
