//! Merges of live indexes: changes, lost events and changed rules that arrive while the worker
//! builds a new segment are not lost.
//!
//! A merge builds a new segment from the old one and the changed files. Searches run while it does.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forge_search::internal::format::lock::{DirLock, LockFile};
use forge_search::internal::index::watch::FsEvent;
use forge_search::internal::tool::indexing::Report;

use super::World;
use super::double::REMEDY;
use super::storages::How;

/// Returns a text with many n-grams.
fn large() -> String {
    (0..400).map(|n| format!("{n:x} {}\n", n * n)).collect()
}

/// Returns a world whose merge is held at `a/b/c`. The merge has listed the root, `a` and `a/b`.
fn merging() -> World {
    let world = World::complete(How::OnDisk, |config| {
        // The large file's n-grams soon exceed the share of memory that changed files may take.
        config.index_max_memory_bytes = 8_192;
        config.index_shutdown_timeout_ms = 300;
        // While a search runs, a throttled build rests. With a stopped clock, the rest would not
        // end.
        config.index_build_throttle_ms = 0;
        config.index_build_max_cpu_percent = 100;
    });
    world.write("b/large.txt", &large());
    world.watchers.hold("a/b/c");
    world.hear_subtree("b/large.txt");
    world.until_held();
    assert_eq!(world.index_state(), ("COMPLETE", None));
    world.hands.stop();
    world
}

/// The file that the worker has just read may be the one that exceeds the limit.
#[test]
fn a_new_segment_is_built_as_soon_as_what_was_read_takes_too_much() {
    let world = World::complete(How::OnDisk, |config| config.index_max_memory_bytes = 8_192);
    world.write("b/large.txt", &large());
    world.hear_subtree("b/large.txt");
    world.until("it took over", |report| {
        report.extra_files == 0 && report.dirty == 0 && report.unread == 0
    });
    world.until("it is in the segment", |report| {
        (report.extra_files, report.dead) == (0, 0) && report.generation == Some(2)
    });
    world.check_used("needle");
    // The published status names the new generation, although the state has not changed.
    world.until("it was told", |report| {
        let told = world.told();
        told.iter()
            .map(|told| told.generation)
            .eq([report.generation])
    });
    assert_eq!(world.until_told("COMPLETE", None).generation, Some(2));
}

/// A process that opens the index later would trust the segment's entry for this file, whose size
/// and times have not changed.
#[test]
fn a_file_that_changed_without_a_change_of_size_or_times_is_soon_in_a_new_segment() {
    let world = World::complete(How::OnDisk, |_| {});
    let index_state = |report: &Report| (report.extra_files, report.dead, report.unread);
    assert_eq!(index_state(&world.report()), (0, 0, 0));
    assert_eq!(world.report().generation, Some(1));
    // The file has not changed since long before the index was built, so its size and times show no
    // change.
    world.watchers.queue(FsEvent::File("a/one.txt".into()));
    world.check_used("needle");
    let report = world.report();
    assert_eq!((report.extra_files, report.dead), (1, 1));
    let done = |report: &Report| index_state(report) == (0, 0, 0) && report.generation == Some(2);
    world.until("it took over", done);
    world.check_used("needle");
    // An event from before the merge does not count again.
    world.hands.put_forward(10_000);
    world.nudge();
    world.check_used("needle");
    assert!(done(&world.report()), "{:?}", world.report());
}

#[test]
fn what_changes_while_a_new_segment_is_built_is_seen_before_and_after() {
    let world = merging();
    assert_eq!(world.check_used("needle").len(), 3);
    // The merge has listed these directories already. A file is new, one changes, one is removed.
    world.write("new.txt", "a needle\n");
    world.write("a/two.txt", "a needle, too\n");
    fs::remove_file(world.tree.path("a/one.txt")).unwrap();
    world.watchers.queue(FsEvent::Subtree("new.txt".into()));
    world.watchers.queue(FsEvent::File("a/two.txt".into()));
    world.watchers.queue(FsEvent::Subtree("a/one.txt".into()));
    let found = world.check_used("needle");
    assert_eq!(found.len(), 4);
    assert_eq!(world.report().dirty, 0, "a search has worked that off");
    world.watchers.release();
    // All changes are marked again for the new segment.
    let report = world.until("it took over", |report| report.extra_files == 0);
    assert_eq!(report.dirty, 3, "{report:?}");
    assert_eq!(world.check_used("needle"), found);
    assert_eq!(world.report().dirty, 0);
}

/// A search that hangs while it reads a changed directory delays neither the merge nor other
/// searches.
#[test]
fn a_new_segment_is_published_while_a_search_looks_at_changes() {
    let world = merging();
    let (entered, released) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (enter, release) = (entered.clone(), released.clone());
    world.watchers.on_watch(move |dir| {
        if dir == Path::new("d") && !enter.swap(true, Ordering::SeqCst) {
            while !release.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    world.write("d/new.txt", "a needle\n");
    world.watchers.queue(FsEvent::Subtree("d".into()));
    std::thread::scope(|scope| {
        let search = scope.spawn(|| world.check_used("needle"));
        while !entered.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        world.watchers.release();
        world.until("it took over", |report| report.generation == Some(2));
        let found = world.check_used("needle");
        assert!(
            found.iter().any(|line| line.contains("d/new.txt")),
            "{found:?}"
        );
        assert!(!search.is_finished(), "it still looks at the directory");
        released.store(true, Ordering::SeqCst);
        assert_eq!(search.join().unwrap(), found);
    });
    // The search's results were about the old generation. They do not bring it back into use.
    assert_eq!(world.report().generation, Some(2));
    world.check_used("needle");
}

#[test]
fn what_is_lost_while_a_new_segment_is_built_is_compared_afterwards() {
    let world = merging();
    world.write("new.txt", "a needle\n");
    world.handle(FsEvent::Overflow);
    let reason = Some("WATCHER_OVERFLOW");
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 4);
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 4);
}

#[test]
fn rules_that_change_while_a_new_segment_is_built_count() {
    let world = merging();
    world.write(".ignore", "one.txt\n");
    world.hear_subtree(".ignore");
    let reason = Some("ELIGIBILITY_CHANGED");
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 2);
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 2);
}

#[test]
fn a_new_segment_that_outlives_the_shutdown_is_not_published() {
    let world = merging();
    let dir = world.setup.kept().dir();
    let sequence = |world: &World| {
        let listed = world.setup.kept().indexes.store().unwrap().look_at(&dir);
        listed.manifest.unwrap().state.sequence
    };
    let before = sequence(&world);
    assert!(!world.setup.kept().indexes.shut_down());
    world.watchers.release();
    let world = world.left_alone();
    assert_eq!(sequence(&world), before);
    assert_eq!(world.find("needle").1.len(), 3);
}

/// Returns a world whose merge finds a directory `d` that the watcher has not reported and can't
/// watch. `tried` is called right before the failed attempt to watch it.
fn merged_beyond_the_limit(tried: impl Fn(&World) + Send + Sync + 'static) -> Arc<World> {
    let world = Arc::new(World::complete(How::OnDisk, |config| {
        config.index_max_memory_bytes = 8_192;
        config.index_build_timeout_ms = 60 * 60 * 1_000;
    }));
    let watched = world.watchers.watched();
    world.watchers.set_limit(Some(watched.len()));
    let weak = Arc::downgrade(&world);
    world.watchers.on_watch(move |dir| {
        if let (true, Some(world)) = (dir == Path::new("d"), weak.upgrade()) {
            tried(&world);
        }
    });
    world.write("d/straw.txt", "straw\n");
    world.write("b/large.txt", &large());
    world.hear_subtree("b/large.txt");
    world
}

/// After a watcher has ended, changes cause no event until the next watcher watches the directory.
#[test]
fn another_watcher_proves_nothing_before_the_tree_was_compared() {
    let world = merged_beyond_the_limit(|world| {
        // The periodic reconcile is due and follows at once.
        world.hands.put_forward(16 * 60 * 1_000);
        world.watchers.hold("");
    });
    world.until_held();
    assert_eq!((world.watchers.starts(), world.report().dirty), (2, 0));
    world.write("nine.txt", "a needle at last\n");
    // Meanwhile, each search compares the tree itself.
    let (_, found) = world.find("needle");
    assert!(found.contains("nine.txt"), "{found:?}");
    assert_eq!(world.index_state(), ("UNCERTAIN", Some("WATCHER_DOWN")));
    world.watchers.set_limit(None);
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle"), found);
}

#[test]
fn what_a_new_segment_has_that_nobody_can_watch_is_said_at_once() {
    let world = merged_beyond_the_limit(|_| {});
    let told = world.until_told("UNCERTAIN", Some("WATCHER_DOWN"));
    assert!(!told.tracking, "{told:?}");
    assert_eq!(told.why.as_deref(), Some(REMEDY));
    assert!(world.find("straw").1.contains("d/straw.txt"));
}

/// Only the failed merge makes the worker read these files before the next change.
#[test]
fn what_was_to_be_read_is_read_although_no_new_segment_could_be_built() {
    let world = World::complete(How::OnDisk, |config| config.index_lock_timeout_ms = 1);
    let dir = world.setup.kept().dir();
    let _another =
        DirLock::exclusive(&dir, LockFile::Writers, Duration::ZERO, &mut |_| {}).unwrap();
    for n in 0..2_100 {
        world.write(&format!("many/{n}"), "straw\n");
    }
    world.hear_subtree("many");
    world.until("no new segment", |report| report.why.is_some());
    let report = world.until("all was read", |report| report.unread == 0);
    assert_eq!((report.extra_files, report.generation), (2_100, Some(1)));
}
