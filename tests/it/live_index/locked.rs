//! Live indexes while another process holds the write lock for long, for example because it was
//! stopped (FR-LSI-IDX-CONC-02).

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forge_search::internal::format::lock::{DirLock, LockFile};
use forge_search::internal::index::snapshot::StorageMode;
use forge_search::internal::tool::config::{IntegrityCheck, SearchConfig};
use forge_search::internal::tool::response::Stats;

use super::storages::How;
use super::{LOOK, World, patient};
use crate::index_support::{Host, locked};
use crate::support::{GUARD, Tree};
use crate::system::set_mode;

/// Longer than the worker waits for the other process.
const PATIENCE_MS: u64 = 61_000;

/// Returns a world without a usable index, the write lock that another process would hold during
/// its build, and the directory of the index.
fn beside_a_writer() -> (World, DirLock, PathBuf) {
    beside_a_writer_with(|_| {})
}

fn beside_a_writer_with(change: impl Fn(&mut SearchConfig)) -> (World, DirLock, PathBuf) {
    let world = World::new(How::OnDisk, |config| {
        config.index_lock_timeout_ms = 5;
        change(config);
    });
    build_by_another(&world);
    let dir = world.setup.kept().dir();
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "lock") {
            fs::remove_file(path).unwrap();
        }
    }
    let world = World::of(Tree::new(), world.setup.clone().reopened()).taking(world);
    let lock = locked(&dir, LockFile::Writers);
    world.live();
    (world, lock, dir)
}

/// Builds the index as another process would, which waits for the lock.
fn build_by_another(world: &World) {
    let another = world.setup.clone().config(patient);
    another.reopened().build(&Host::hasty());
}

fn storage(stats: &Stats) -> (&str, Option<&str>) {
    let reason = stats.storage_fallback_reason.as_deref();
    (&stats.storage_mode, reason)
}

#[test]
fn the_index_state_stays_while_another_process_writes() {
    let (world, lock, _dir) = beside_a_writer();
    let start = Instant::now();
    let why = world
        .until("it says why", |report| report.why.is_some())
        .why;
    assert!(why.unwrap().contains("locked by another process"));
    // This loop lasts longer than the worker's retry interval.
    while start.elapsed() < Duration::from_millis(300) {
        world.hands.put_forward(50);
        assert_eq!(world.index_state(), ("ABSENT", None));
        std::thread::sleep(LOOK);
    }
    world.check_unused("needle", "ABSENT", None);
    // When the other process has ended, the worker opens or builds the index.
    drop(lock);
    world.hands.put_forward(5_000);
    world.until_complete();
    let stats = world.find("needle").0;
    assert_eq!(storage(&stats), (world.kept_as().as_str(), None));
}

#[test]
fn an_index_is_built_in_memory_while_another_writer_does_not_end() {
    let (world, lock, dir) = beside_a_writer();
    world.until("it says why", |report| report.why.is_some());
    let start = Instant::now();
    while world.index_state().0 != "COMPLETE" {
        assert!(start.elapsed() < GUARD, "{:?}", world.report());
        world.hands.put_forward(1_000);
        std::thread::sleep(LOOK);
    }
    assert!(start.elapsed() < GUARD);
    world.check_used("needle");
    let stats = world.find("needle").0;
    assert_eq!(storage(&stats), ("memory", Some("LOCKED")));
    assert_eq!(world.report().storage, Some(StorageMode::Memory));
    // The index in memory follows changes like any other. It writes nothing to disk.
    world.write("a/two.txt", "a needle\n");
    world.hear_file("a/two.txt");
    assert_eq!(world.check_used("needle").len(), 4);
    world.hands.put_forward(PATIENCE_MS);
    world.nudge();
    world.until_read();
    assert_eq!(world.check_used("needle").len(), 4);
    assert_eq!(world.report().storage, Some(StorageMode::Memory));
    let names = || fs::read_dir(&dir).unwrap().count();
    assert!(names() <= 2, "the locks");
    // Once the lock is free, the index is stored on disk.
    drop(lock);
    world.hands.put_forward(PATIENCE_MS);
    world.nudge();
    let kept = world.kept_as();
    world.until("it is kept", |report| report.storage == Some(kept));
    assert_eq!(world.check_used("needle").len(), 4);
    let stats = world.find("needle").0;
    assert_eq!(storage(&stats), (kept.as_str(), None));
    assert!(names() > 2);
}

impl World {
    /// Returns the storage mode of the index on disk.
    fn kept_as(&self) -> StorageMode {
        self.setup.kept().indexes.storage()
    }
}

/// An index that does not fit into memory must be stored on disk, so the worker waits for the lock.
#[test]
fn an_index_that_takes_too_much_memory_waits_for_the_other_process() {
    let (world, lock, _dir) = beside_a_writer_with(|config| config.index_max_memory_bytes = 600);
    let start = Instant::now();
    while !world.report().why.is_some_and(|why| why.contains("memory")) {
        assert!(start.elapsed() < GUARD, "{:?}", world.report());
        world.hands.put_forward(1_000);
        std::thread::sleep(LOOK);
    }
    assert_eq!(world.index_state(), ("ABSENT", None));
    drop(lock);
    world.until("it is kept", |report| {
        world.hands.put_forward(1_000);
        report.index_state.allows_exclusion() && report.storage == Some(world.kept_as())
    });
}

#[test]
fn an_index_in_memory_is_stored_later_even_without_a_watcher() {
    let (world, lock, _dir) = beside_a_writer_with(|config| {
        config.index_watch = false;
        // Each search makes the worker check the index.
        config.index_integrity_check = IntegrityCheck::Periodic;
        config.index_integrity_period_calls = 1;
    });
    let in_time = |what: &str, storage: StorageMode| {
        world.until(what, |report| {
            world.hands.put_forward(1_000);
            world.find("needle");
            report.index_state.allows_exclusion() && report.storage == Some(storage)
        });
    };
    in_time("it is in memory", StorageMode::Memory);
    world.check_used("needle");
    drop(lock);
    in_time("it is kept", world.kept_as());
    world.check_used("needle");
}

#[test]
fn an_earlier_writer_is_not_taken_for_a_current_one() {
    let (world, lock, dir) = beside_a_writer();
    world.until("it says why", |report| report.why.is_some());
    drop(lock);
    build_by_another(&world);
    world.hands.put_forward(5_000);
    world.until_complete();
    // An hour later the index is removed, and another process begins to build it. The first wait
    // for a writer must not count for this one.
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    set_mode(&dir, 0o700).unwrap();
    let lock = locked(&dir, LockFile::Writers);
    world.hands.put_forward(3_600_000);
    world.nudge();
    world.until_standing("ABSENT", None);
    world.hands.put_forward(PATIENCE_MS);
    world.find("needle");
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        world.hands.put_forward(50);
        assert_eq!(world.index_state(), ("ABSENT", None));
        std::thread::sleep(LOOK);
    }
    drop(lock);
    world.hands.put_forward(5_000);
    world.until_complete();
    assert_eq!(world.report().storage, Some(world.kept_as()));
}

/// A retry that was planned while the lock was held does not reopen an index that a search has
/// found since.
#[test]
fn a_complete_index_is_not_opened_again() {
    let (world, lock, _dir) = beside_a_writer();
    world.hands.stop();
    world.until("it says why", |report| report.why.is_some());
    drop(lock);
    build_by_another(&world);
    // The next search makes the worker open it.
    world.find("needle");
    let epoch = world.until_complete().epoch;
    world.write("a/two.txt", "a needle\n");
    world.hear_file("a/two.txt");
    assert_eq!(world.check_used("needle").len(), 4);
    world.hands.put_forward(3_000);
    world.nudge();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(100) {
        assert_eq!(world.find("needle").1.len(), 4);
        assert_eq!(world.index_state(), ("COMPLETE", None));
    }
    assert_eq!(world.report().epoch, epoch, "it was compared again");
}
