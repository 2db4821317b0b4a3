//! The command line with indexes: runs the real binary, checks output and exit codes.

mod both_tools;
mod limits;
#[cfg(unix)]
mod live_status;
mod management;
mod searches;
#[cfg(unix)]
mod waiting;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::forge_search;

/// A tree, with a cache directory next to it.
struct World {
    _dir: tempfile::TempDir,
    tree: PathBuf,
    cache: PathBuf,
}

/// The exit status and the output of one run.
#[derive(Debug)]
struct Ran {
    status: i32,
    out: String,
    err: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// Checks that the run succeeded and printed nothing to standard error.
    #[track_caller]
    fn ok(self) -> Ran {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{}", self.out);
        self
    }
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let world = World {
            _dir: dir,
            tree: top.join("tree"),
            cache: top.join("cache"),
        };
        for (path, text) in [
            ("src/main.rs", "fn main() {\n    greet();\n}\n"),
            ("src/greet.rs", "pub fn greet() {}\n"),
            ("src/other.rs", "pub fn nothing_of_note() {}\n"),
            ("notes.txt", "everyone is welcome\n"),
            ("hay.txt", "dry grass\n"),
        ] {
            world.write(path, text);
        }
        world
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn program(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = forge_search(dir);
        command
            .args(args)
            .env("XDG_CACHE_HOME", &self.cache)
            .stdin(Stdio::null());
        command
    }

    fn run_in(&self, dir: &Path, args: &[&str]) -> Ran {
        let output = self.program(dir, args).output().unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs the program in the tree.
    fn run(&self, args: &[&str]) -> Ran {
        self.run_in(&self.tree, args)
    }

    fn store(&self) -> PathBuf {
        self.cache.join("forge/search-index")
    }

    /// Returns the directories of the stored indexes, sorted.
    fn kept(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.store()).into_iter().flatten();
        let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        dirs.sort();
        dirs
    }

    /// Changes the bytes of a file of the only index. The name of the file begins with `start`.
    fn damage(&self, start: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let dir = self.kept().remove(0);
        let names = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let file = names
            .into_iter()
            .find(|path| {
                path.file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .starts_with(start)
            })
            .unwrap();
        let mut bytes = fs::read(&file).unwrap();
        change(&mut bytes);
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
    }

    fn shown(&self) -> &str {
        self.tree.to_str().unwrap()
    }
}
