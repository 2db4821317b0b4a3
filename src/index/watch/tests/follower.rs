//! Tests the protocol by which no change is lost, as a user of watchers would run it: mark, then
//! watch, then walk. One thread follows the tree. Another one creates, moves, fills and removes
//! directories, and checks after a barrier that every difference is marked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::super::*;
use super::LONG;

/// The files of a tree, with their content.
type Files = BTreeMap<PathBuf, String>;

#[derive(Clone, Default)]
struct State {
    /// Marked subtrees, with the number of the last mark.
    marks: BTreeMap<PathBuf, u64>,
    number: u64,
    files: Files,
    lost: Vec<FsEvent>,
}

#[derive(Default)]
struct Follower {
    state: Mutex<State>,
    marked: Condvar,
    barrier: Barrier,
    is_over: AtomicBool,
}

impl FsEventHandler for Follower {
    fn handle(&self, heard: FsEvent) {
        match heard {
            FsEvent::Cookie(n) => self.barrier.cookie_arrived(n),
            FsEvent::File(path) | FsEvent::Subtree(path) => self.mark(path),
            lost => lock(&self.state).lost.push(lost),
        }
    }
}

impl Follower {
    fn mark(&self, path: PathBuf) {
        let mut state = lock(&self.state);
        state.number += 1;
        let number = state.number;
        state.marks.insert(path, number);
        drop(state);
        self.marked.notify_all();
    }

    /// Processes marks. A mark stays until its subtree is watched and walked.
    fn run(&self, root: &Path, watcher: &dyn Watcher) {
        loop {
            let state = lock(&self.state);
            let idle =
                |state: &mut State| state.marks.is_empty() && !self.is_over.load(Ordering::SeqCst);
            let state = self.marked.wait_while(state, idle).unwrap();
            let Some((path, number)) = state.marks.iter().next().map(|(p, n)| (p.clone(), *n))
            else {
                return;
            };
            drop(state);
            let mut found = Files::new();
            walk(root, &path, Some(watcher), &mut found);
            let mut state = lock(&self.state);
            state.files.retain(|file, _| !file.starts_with(&path));
            state.files.append(&mut found);
            if state.marks.get(&path) == Some(&number) {
                state.marks.remove(&path);
            }
        }
    }

    fn now(&self) -> State {
        lock(&self.state).clone()
    }
}

impl State {
    /// Checks that every difference from the truth is marked; returns true if nothing is marked.
    fn check(&self, truth: &Files, round: u64) -> bool {
        assert_eq!(self.lost, [], "round {round}");
        let paths: BTreeSet<_> = truth.keys().chain(self.files.keys()).collect();
        for path in paths {
            let (is, known) = (truth.get(path), self.files.get(path));
            let is_marked = |above: &Path| self.marks.contains_key(above);
            assert!(
                is == known || path.ancestors().any(is_marked),
                "round {round}: {} is {is:?}, not {known:?}, which went unheard; marks: {:?}",
                path.display(),
                self.marks,
            );
        }
        self.marks.is_empty()
    }
}

/// Collects the files at and below `path`. With a watcher, watches each directory before it is
/// listed.
fn walk(root: &Path, path: &Path, watcher: Option<&dyn Watcher>, found: &mut Files) {
    let at = if path.as_os_str().is_empty() {
        root.to_path_buf()
    } else {
        root.join(path)
    };
    let Ok(meta) = fs::symlink_metadata(&at) else {
        return;
    };
    if meta.is_file() {
        if let Ok(text) = fs::read_to_string(&at) {
            found.insert(path.to_path_buf(), text);
        }
        return;
    }
    if let Some(watcher) = watcher {
        match watcher.watch(path) {
            Ok(()) => {}
            // Its removal or renaming will be reported.
            Err(WatchError::Gone) => return,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
    let Ok(entries) = fs::read_dir(&at) else {
        return;
    };
    for entry in entries.flatten() {
        walk(root, &path.join(entry.file_name()), watcher, found);
    }
}

/// A pseudo-random number generator (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Changes a tree. It uses few names, so that they are soon reused.
struct Changer {
    root: PathBuf,
    chance: Chance,
    version: u64,
}

impl Changer {
    fn all(&self, dirs: bool) -> Vec<PathBuf> {
        fn collect(at: &Path, dirs: bool, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                let is_dir = path.is_dir();
                if is_dir == dirs {
                    found.push(path.clone());
                }
                if is_dir {
                    collect(&path, dirs, found);
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.root, dirs, &mut found);
        found.sort();
        found
    }

    fn any_dir(&mut self) -> PathBuf {
        let mut dirs = self.all(true);
        dirs.push(self.root.clone());
        dirs.swap_remove(self.chance.below(dirs.len()))
    }

    fn name(&mut self, names: &[&str]) -> String {
        names[self.chance.below(names.len())].to_owned()
    }

    fn text(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Makes a random change, if it is possible.
    fn change(&mut self) {
        const DIRS: [&str; 3] = ["a", "b", "c"];
        const FILES: [&str; 3] = ["1", "2", "3"];
        let (dir, text) = (self.any_dir(), self.text());
        match self.chance.below(12) {
            0..4 => {
                let file = dir.join(self.name(&FILES));
                fs::write(file, text).unwrap();
            }
            4..7 => {
                // A directory that is filled before it can be watched.
                let below = dir.join(self.name(&DIRS)).join(self.name(&DIRS));
                if below.components().count() < self.root.components().count() + 4 {
                    fs::create_dir_all(&below).unwrap();
                    fs::write(below.join(self.name(&FILES)), text).unwrap();
                }
            }
            7..10 => {
                // Renamed, and then written to under the new name.
                let to = self.any_dir().join(self.name(&DIRS));
                if dir != self.root && fs::rename(&dir, &to).is_ok() {
                    fs::write(to.join(self.name(&FILES)), text).unwrap();
                }
            }
            10 => {
                let files = self.all(false);
                if !files.is_empty() {
                    let from = &files[self.chance.below(files.len())];
                    fs::rename(from, dir.join(self.name(&FILES))).unwrap();
                }
            }
            _ => {
                if dir != self.root {
                    fs::remove_dir_all(dir).unwrap();
                }
            }
        }
    }

    /// Writes to every existing file.
    fn write_everywhere(&mut self) {
        for file in self.all(false) {
            let text = self.text();
            fs::write(file, text).unwrap();
        }
    }

    fn truth(&self) -> Files {
        let mut files = Files::new();
        walk(&self.root, Path::new(""), None, &mut files);
        files
    }
}

#[test]
fn whatever_differs_after_a_barrier_is_marked() {
    const ROUNDS: u64 = 2_000;
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("root");
    fs::create_dir(&root).unwrap();
    let follower = Arc::new(Follower::default());
    let handler: Arc<dyn FsEventHandler> = follower.clone();
    let watcher = NativeWatchers
        .start(&root, &base.path().join("cookies"), handler)
        .unwrap();
    follower.mark(PathBuf::new());
    let mut changer = Changer {
        root: root.clone(),
        chance: Chance(0x9E37_79B9_7F4A_7C15),
        version: 0,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| follower.run(&root, &*watcher));
        let _over = Over(&follower);
        let mut caught_up = 0;
        for round in 0..ROUNDS {
            for _ in 0..=round % 7 {
                changer.change();
            }
            if round % 10 == 0 {
                changer.write_everywhere();
            }
            follower.barrier.pass(&*watcher, LONG).unwrap();
            let after = follower.now();
            let truth = changer.truth();
            let mut is_clean = after.check(&truth, round);
            // From time to time it catches up, and then must know everything.
            while round % 20 == 0 && !is_clean {
                std::thread::yield_now();
                is_clean = follower.now().check(&truth, round);
            }
            caught_up += u64::from(is_clean);
        }
        println!("nothing was marked after {caught_up} of {ROUNDS} rounds");
        assert!(caught_up >= ROUNDS / 20, "{caught_up}");
    });
}

/// Ends the following thread, also after a failed check.
struct Over<'a>(&'a Follower);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let _state = lock(&self.0.state);
        self.0.is_over.store(true, Ordering::SeqCst);
        self.0.marked.notify_all();
    }
}
