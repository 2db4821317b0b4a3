//! The status that a live index publishes for other processes: its place, its updates, and its
//! removal at the end.

use std::fs;
use std::path::PathBuf;

use forge_search::internal::index::builder::Phase;
use forge_search::internal::index::watch::FsEvent;
use forge_search::internal::tool::config::IndexStorage;

use super::storages::How;
use super::{LIVE, MAPPED, VARIANTS, World};
use crate::index_support::Host;
use crate::support::Tree;
use crate::system::set_mode;

impl World {
    /// Waits until the worker has tried to watch `dir` and is held.
    #[track_caller]
    fn until_watched_and_held(&self, dir: &str) {
        self.until("it is there", |_| {
            let calls = self.watchers.calls();
            calls.contains(&PathBuf::from(dir)) && self.watchers.is_held()
        });
    }
}

/// Returns the directories with published statuses.
fn dirs(world: &World) -> Vec<PathBuf> {
    let store = world
        .setup
        .kept()
        .indexes
        .store()
        .unwrap()
        .root()
        .join("living");
    let entries = fs::read_dir(store).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn other_processes_are_told_from_the_first_build_to_the_end() {
    for variant in VARIANTS.into_iter().filter(|variant| !variant.frozen) {
        let world = World::new(How::Exactly(variant), |_| {});
        assert_eq!(world.told(), []);
        world.hands.stop();
        world.watchers.hold("a/b/c");
        world.live();
        world.until_held();
        let told = world.until_told("BUILDING", None);
        let build = told.build.unwrap();
        assert_eq!(
            (build.phase, build.files_total, build.files_done),
            (Some(Phase::Enumerate), 0, 0)
        );
        assert_eq!((told.root.as_path(), told.generation), (world.root(), None));
        world.watchers.release();
        world.until_complete();
        let told = world.until_told("COMPLETE", None);
        assert!(
            told.tracking && told.build.is_none() && told.why.is_none(),
            "{told:?}"
        );
        assert_eq!((told.epoch, told.waiting, told.extra_files), (1, 0, 0));
        let kept = variant.storage != IndexStorage::Memory;
        assert_eq!(told.generation, kept.then_some(1), "{variant:?}");
        // `status` shows it together with the state on disk.
        let indexes = &world.setup.kept().indexes;
        let status = indexes
            .status(world.setup.context().sandbox.reach())
            .remove(0);
        assert_eq!(status.living, [told]);
        assert!(indexes.shut_down());
        assert_eq!(world.told(), [], "{variant:?}");
    }
}

#[test]
fn how_far_a_build_is_is_told_once_a_second_by_the_clock_of_the_index() {
    let world = World::new(MAPPED, |config| {
        config.index_build_max_cpu_percent = 100;
        config.index_build_throttle_ms = 3_600_000;
    });
    world.hands.stop();
    world.watchers.hold("a/b");
    let searching = world.live_beside_a_search();
    world.until_held();
    let elapsed_ms = || world.until_told("BUILDING", None).build.unwrap().elapsed_ms;
    assert_eq!(elapsed_ms(), 0);
    world.hands.put_forward(999);
    world.watchers.hold("a/b/c");
    world.watchers.nobody_waits();
    world.until_watched_and_held("a/b/c");
    // The worker has entered another directory, but within the same second.
    assert_eq!(elapsed_ms(), 0);
    world.hands.put_forward(1);
    world.watchers.release();
    world.until_in_phase(Phase::Tokenize);
    let build = world.until_told("BUILDING", None).build.unwrap();
    assert_eq!(build.elapsed_ms, 1_000);
    assert_eq!(build.phase, Some(Phase::Enumerate), "it was told of before");
    drop(searching);
    world.until_complete();
    assert_eq!(world.until_told("COMPLETE", None).build, None);
}

#[test]
fn each_of_several_indexes_of_a_root_is_told_of_and_what_is_left_behind_is_none() {
    let one = World::complete(How::OnDisk, |_| {});
    one.until_told("COMPLETE", None);
    // Plays the status that a killed process has left.
    let own = dirs(&one).remove(0);
    let dead = own.with_file_name("index-1-0");
    fs::create_dir(&dead).unwrap();
    for entry in fs::read_dir(&own).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dead.join(path.file_name().unwrap())).unwrap();
    }
    assert_eq!(one.told().len(), 1);
    let mut other = World::of(Tree::new(), one.setup.clone().reopened());
    other.tree = Tree::existing(one.root());
    other.live();
    other.until_complete();
    let start = std::time::Instant::now();
    while one.told().len() < 2 {
        assert!(start.elapsed() < crate::support::GUARD);
    }
    assert!(!dead.exists());
    assert!(other.setup.kept().indexes.shut_down());
    assert_eq!(one.told().len(), 1);
    // Eviction and removal of indexes keep the status.
    let store = one.setup.kept().indexes.store().unwrap();
    assert_eq!(store.list().unwrap().len(), 1);
    store.make_room(None);
    let dir = one.setup.kept().dir();
    store.remove(&dir, &mut |_| {}).unwrap();
    assert_eq!(one.told().len(), 1);
}

#[test]
fn where_nothing_can_be_told_everything_else_goes_on() {
    let world = World::new(How::OnDisk, |_| {});
    world.setup.build(&Host::hasty());
    let living = world
        .setup
        .kept()
        .indexes
        .store()
        .unwrap()
        .root()
        .join("living");
    // A file blocks the first place for statuses, so the index uses the second one.
    fs::write(&living, "in the way").unwrap();
    let before = world;
    let tree = Tree::existing(before.root());
    let world = World::of(tree, before.setup.clone().reopened());
    world.live();
    world.until_complete();
    world.until_told("COMPLETE", None);
    assert_eq!(fs::read_to_string(&living).unwrap(), "in the way");
    // A directory that other users can write to is not used.
    fs::remove_file(&living).unwrap();
    fs::create_dir(&living).unwrap();
    set_mode(&living, 0o777).unwrap();
    world.watchers.hold("");
    world.handle(FsEvent::Overflow);
    world.until_told("UNCERTAIN", Some("WATCHER_OVERFLOW"));
    assert_eq!(fs::read_dir(&living).unwrap().count(), 0);
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 3);
}

#[test]
fn an_index_that_is_left_behind_tells_nothing_more_when_it_ends() {
    let world = World::complete(LIVE, |config| config.index_shutdown_timeout_ms = 100);
    world.watchers.hold("a");
    world.handle(FsEvent::Overflow);
    world.until_held();
    assert!(!world.setup.kept().indexes.shut_down());
    world.watchers.release();
    let world = world.left_alone();
    assert_eq!(world.told(), []);
}
