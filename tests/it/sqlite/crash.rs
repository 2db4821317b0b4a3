//! Writers that are interrupted at any moment, and readers at the same time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use forge_search::internal::index::builder::{BuildError, BuildHost, Phase, Progress};
use forge_search::internal::tool::config::IndexStorage;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::{Host, Place, cache};
use crate::child_processes::{self, Started};
use crate::clocks::until;
use crate::support::{GUARD, SetAtEnd, Tree};

/// Returns a tree whose database takes several transactions.
fn large() -> Tree {
    let tree = Tree::of([("marker.txt", "before the change")]);
    for file in 0..5u64 {
        let mut text = String::new();
        let mut state = file + 1;
        while text.len() < 300_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Line ends make the index cut the text into parts.
            text.push(match text.len() % 80 {
                79 => '\n',
                _ => char::from(b' ' + ((state >> 40) % 95) as u8),
            });
        }
        tree.file(&format!("random/{file}.txt"), text);
    }
    tree
}

/// Returns the number of the publication that readers find.
fn published(place: &Place<'_>) -> Option<u64> {
    let listed = place.store().list().unwrap();
    let manifest = listed.first()?.manifest.as_ref().ok()?;
    Some(manifest.state.sequence)
}

fn leftovers(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".tmp")).collect()
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
    let mode = fs::metadata(from).unwrap().permissions();
    fs::set_permissions(to, mode).unwrap();
}

#[test]
fn a_crash_at_any_moment_leaves_the_old_index() {
    let tree = large();
    let (_keep, path) = cache();
    let place = Place::new(&tree, &path, IndexStorage::Sqlite);
    let (_keep_copies, copies) = cache();
    let taken: Mutex<Vec<(PathBuf, Phase)>> = Mutex::default();
    // Copies the files on disk in the middle of a build: a crash would leave these.
    let host = Host {
        hears: |progress: Progress| {
            let mut taken = taken.lock().unwrap();
            let copy = copies.join(taken.len().to_string());
            if path.exists() {
                copy_dir(&path, &copy);
                taken.push((copy, progress.phase));
            }
        },
    };
    let check = |before: Option<u64>| {
        let mut unfinished = 0;
        for (copy, phase) in taken.lock().unwrap().drain(..) {
            let found = Place::new(&tree, &copy, IndexStorage::Sqlite);
            let expected = match phase {
                Phase::Activate => Some(before.unwrap_or(0) + 1),
                _ => before,
            };
            assert_eq!(published(&found), expected, "{phase:?}");
            let loaded = found.load().unwrap();
            assert_eq!(loaded.is_some(), expected.is_some(), "{phase:?}");
            let left = leftovers(&found.dir());
            if phase == Phase::Persist && left.iter().any(|name| name.ends_with("-wal")) {
                unfinished += 1;
                // The next build removes the leftovers.
                if unfinished % 3 == 1 {
                    found.build();
                    assert_eq!(published(&found), Some(before.unwrap_or(0) + 1));
                    assert_eq!(leftovers(&found.dir()), [""; 0]);
                }
            }
            fs::remove_dir_all(&copy).unwrap();
        }
        assert!(
            unfinished >= 3,
            "there were several transactions: {unfinished}"
        );
    };
    place.try_build(&place.indexes(), &host).unwrap();
    check(None);
    tree.file("marker.txt", "after the change");
    place.try_build(&place.indexes(), &host).unwrap();
    check(Some(1));
    assert_eq!(leftovers(&place.dir()), [""; 0]);
}

/// A host that stops a build while the database is being written.
struct Stopping(AtomicUsize);

impl BuildHost for Stopping {
    fn now_ns(&self) -> i64 {
        Host::new().now_ns()
    }

    fn pause(&self, time: std::time::Duration) {
        std::thread::sleep(time);
    }

    fn progress(&self, progress: Progress) {
        if progress.phase == Phase::Persist && progress.bytes_done > 0 {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= 2
    }
}

#[test]
fn a_build_that_is_stopped_while_writing_leaves_nothing() {
    let tree = large();
    let (_keep, path) = cache();
    let place = Place::new(&tree, &path, IndexStorage::Sqlite);
    for before in [None, Some(1)] {
        let host = Stopping(AtomicUsize::new(0));
        let error = place.try_build(&place.indexes(), &host).unwrap_err();
        assert!(matches!(error, BuildError::Stopped), "{error}");
        assert_eq!(published(&place), before);
        assert_eq!(leftovers(&place.dir()), [""; 0]);
        if before.is_none() {
            place.build();
        }
    }
    place.open();
}

/// The environment variables that give a child its directories.
const CHILD_TREE: &str = "FORGE_SEARCH_TEST_SQLITE_TREE";
const CHILD_CACHE: &str = "FORGE_SEARCH_TEST_SQLITE_CACHE";

fn start(test: &str, tree: &Path, cache: &Path) -> Started {
    Started::new(test, &[(CHILD_TREE, tree), (CHILD_CACHE, cache)])
}

#[test]
fn a_writer_that_is_killed_leaves_the_old_index() {
    if let Some(root) = std::env::var_os(CHILD_TREE) {
        let cache = PathBuf::from(std::env::var_os(CHILD_CACHE).unwrap());
        let tree = Tree::existing(Path::new(&root));
        let place = Place::new(&tree, &cache, IndexStorage::Sqlite);
        let ready = AtomicBool::new(false);
        let host = Host {
            hears: |progress: Progress| {
                let writing = progress.phase == Phase::Persist && progress.bytes_done > 1_500_000;
                if writing && !ready.swap(true, Ordering::Relaxed) {
                    child_processes::pause();
                }
            },
        };
        place.try_build(&place.indexes(), &host).unwrap();
        return;
    }
    let tree = large();
    let (_keep, path) = cache();
    let place = Place::new(&tree, &path, IndexStorage::Sqlite);
    let hasty = Place::new(&tree, &path, IndexStorage::Sqlite).hasty();
    let test = "sqlite::crash::a_writer_that_is_killed_leaves_the_old_index";
    for before in [None, Some(1)] {
        let child = start(test, tree.root(), &path);
        // The child holds the lock, which readers do not need.
        let error = hasty.try_build(&hasty.indexes(), &Host::new()).unwrap_err();
        assert!(error.to_string().contains("locked"), "{error}");
        assert_eq!(published(&place), before);
        child.kill();
        let left = leftovers(&place.dir());
        assert!(left.iter().any(|name| name.ends_with(".tmp")), "{left:?}");
        assert!(left.iter().any(|name| name.ends_with("-wal")), "{left:?}");
        assert_eq!(published(&place), before);
        if before.is_none() {
            assert!(place.load().unwrap().is_none());
            place.build();
            assert_eq!(leftovers(&place.dir()), [""; 0]);
        }
    }
    place.open();
    // For comparison, this child is not killed.
    let child = start(test, tree.root(), &path);
    child.finish();
    assert_eq!(published(&place), Some(2));
    assert_eq!(leftovers(&place.dir()), [""; 0]);
}

#[test]
fn readers_see_one_index_or_the_other_while_a_writer_publishes() {
    const ROUNDS: u64 = 12;

    let tree = Tree::of([("marker.txt", "version_0_of_it")]);
    for n in 0..200u32 {
        tree.file(
            &format!("d{}/f{n}.txt", n % 7),
            format!("some text of file {n}\n"),
        );
    }
    let (_keep, path) = cache();
    let place = Place::new(&tree, &path, IndexStorage::Sqlite);
    place.build();
    // A program that keeps the old database open.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let old = Connection::open_with_flags(place.database(), flags).unwrap();
    let count = |db: &Connection, sql: &str| -> i64 {
        db.query_row(sql, [], |row| row.get(0))
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    let epoch = "SELECT coverage_epoch FROM index_meta";
    assert_eq!(count(&old, epoch), 1);
    let done = AtomicBool::new(false);
    let loads = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let _at_end = SetAtEnd(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    place.open().segment().verify().unwrap();
                    let now = published(&place).unwrap();
                    assert!(now >= last, "{now} after {last}");
                    last = now;
                    // Any other program can read the database too.
                    let db = Connection::open_with_flags(place.database(), flags).unwrap();
                    db.busy_timeout(GUARD).unwrap();
                    assert_eq!(count(&db, "SELECT count(*) FROM file_entries"), 201);
                    assert_eq!(count(&db, "SELECT count(*) FROM file_bloom"), 402);
                    loads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 1..=ROUNDS {
            tree.file("marker.txt", format!("version_{round}_of_it"));
            place.build();
            // A search uses the published index at once.
            let request = json!({"pattern": format!("version_{round}_of_it")});
            let response = place.answer(&place.indexes(), &request);
            assert_eq!(response.count, 1);
            assert_eq!(response.stats.unwrap().index_safety_state, "COMPLETE");
        }
        until("it was read often", || loads.load(Ordering::Relaxed) >= 4);
    });
    assert_eq!(published(&place), Some(ROUNDS + 1));
    assert_eq!(
        count(&old, epoch),
        1,
        "whoever has the old one open keeps it"
    );
    assert_eq!(count(&old, "SELECT count(*) FROM file_bloom"), 402);
}

#[test]
fn a_search_with_an_open_index_does_not_wait_for_a_build() {
    let tree = Tree::of([("a.txt", "something to be found")]);
    let (_keep, path) = cache();
    let place = Place::new(&tree, &path, IndexStorage::Sqlite);
    let (indexes, _) = place.build();
    let request = json!({"pattern": "something"});
    let searched = AtomicUsize::new(0);
    let host = Host {
        // Searches run in the middle of each phase of a build, in the same process and in another
        // one.
        hears: |_: Progress| {
            for indexes in [indexes.clone(), place.indexes()] {
                let response = place.answer(&indexes, &request);
                assert_eq!(response.count, 1);
                assert_eq!(response.stats.unwrap().index_safety_state, "COMPLETE");
                searched.fetch_add(1, Ordering::Relaxed);
            }
        },
    };
    place.try_build(&place.indexes(), &host).unwrap();
    assert!(searched.load(Ordering::Relaxed) >= 8);
}
