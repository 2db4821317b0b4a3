//! Live indexes that are evicted in favour of others (FR-LSI-IDX-RM-02, the row "evicted" of LSI
//! §4.2.2).

use std::fs;

use forge_search::internal::index::watch::FsEvent;

use super::storages::How;
use super::{FILES, World, patient};
use crate::index_support::Host;
use crate::support::Tree;

/// Longer than the interval in which a worker checks that its index is still on disk.
const LOOKS_MS: u64 = 61_000;

/// Returns two worlds with indexes in one store, which holds at most `most` indexes, and the
/// directory of that store.
fn two(most: u64) -> ([World; 2], tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let worlds = [(); 2].map(|()| {
        let tree = Tree::of(FILES);
        let setup = tree.setup().config(|config| {
            config.index_watch_debounce_ms = 5;
            config.index_idle_boost_ms = 0;
            config.index_max_indexes = most;
            patient(config);
        });
        let store = place.path().join("store");
        let setup = setup.with_indexes_at(How::OnDisk.variant(), &store);
        World::of(tree, setup)
    });
    (worlds, place)
}

impl World {
    /// Checks that a search is answered without an index, and makes the worker build it.
    #[track_caller]
    fn check_absent(&self, text: &str) {
        // Without this hold, the build could finish before the search looks for the index, and the
        // search would use it.
        self.watchers.hold("");
        self.check_unused(text, "ABSENT", None);
        self.watchers.release();
    }
}

fn kept(world: &World) -> usize {
    let store = world.setup.kept().indexes.store().unwrap();
    store.list().unwrap().len()
}

#[test]
fn an_evicted_live_index_takes_no_space() {
    let ([a, b], _place) = two(1);
    a.live();
    a.until_at_rest();
    a.check_used("needle");
    // The other index evicts it.
    b.live();
    b.until_at_rest();
    b.check_used("needle");
    assert_eq!(kept(&a), 1);
    // The evicted index still works from its open files. The worker notices the eviction at its
    // next check.
    a.check_used("needle");
    a.hands.put_forward(LOOKS_MS);
    a.nudge();
    let why = a.until_standing("ABSENT", None).why.unwrap();
    assert!(why.contains("index_max_indexes"), "{why}");
    a.until("nothing is watched", |report| !report.tracking);
    assert_eq!(a.until_told("ABSENT", None).why, Some(why));
    // Without a search, the index stays absent.
    a.hands.put_forward(1_000_000);
    a.until("nothing is done", |report| {
        report.index_state.state().as_str() == "ABSENT"
    });
    b.check_used("needle");
    // The next search is answered without an index and triggers a build, which evicts the other
    // index.
    a.check_absent("needle");
    a.until_complete();
    a.check_used("needle");
    b.hands.put_forward(LOOKS_MS);
    b.nudge();
    b.until_standing("ABSENT", None);
    assert_eq!(kept(&b), 1);
}

#[test]
fn indexes_that_evict_each_other_rest_between() {
    let ([a, b], _place) = two(1);
    a.live();
    a.until_at_rest();
    b.setup.build(&Host::hasty());
    a.hands.put_forward(LOOKS_MS);
    a.nudge();
    let before = a.until_standing("ABSENT", None).epoch;
    for _ in 0..5 {
        a.check_unused("needle", "ABSENT", None);
    }
    let report = a.report();
    assert_eq!(
        (report.index_state.state().as_str(), report.epoch),
        ("ABSENT", before)
    );
    a.hands.put_forward(LOOKS_MS);
    // The worker may have started already, because of the earlier searches.
    a.find("needle");
    a.until_complete();
}

#[test]
fn an_index_that_was_cleared_while_it_lives_is_built_for_the_next_search() {
    let ([a, _], _place) = two(2);
    a.live();
    a.until_at_rest();
    let dir = a.setup.kept().dir();
    fs::remove_dir_all(&dir).unwrap();
    a.hands.put_forward(LOOKS_MS);
    a.nudge();
    a.until_standing("ABSENT", None);
    a.hands.put_forward(LOOKS_MS);
    a.check_absent("needle");
    a.until_complete();
    assert!(dir.is_dir());
    a.write("a/two.txt", "a needle\n");
    a.hear_file("a/two.txt");
    assert_eq!(a.check_used("needle").len(), 4);
}

/// The worker opens the other process's index. A search that finds differences before the worker
/// has compared the tree does not cause a rebuild.
#[test]
fn an_index_built_by_another_process_is_compared_and_not_rebuilt() {
    let ([a, _], _place) = two(2);
    a.live();
    a.until_at_rest();
    fs::remove_dir_all(a.setup.kept().dir()).unwrap();
    a.hands.put_forward(LOOKS_MS);
    a.nudge();
    a.until_standing("ABSENT", None);
    let (_, built) = a.setup.build(&Host::hasty());
    let generation = built.generation();
    assert!(generation.is_some());
    a.write("b/new.txt", "a needle\n");
    a.check_used("needle");
    a.hands.put_forward(LOOKS_MS);
    let (_, found) = a.find("needle");
    // Each of the two searches may have made the worker open the index.
    a.until("opened and compared", |report| {
        let index_state = report.index_state.state().as_str();
        (index_state, report.generation, report.extra_files) == ("COMPLETE", generation, 1)
    });
    a.until_used("needle");
    assert_eq!(a.find("needle").1, found);
    // Later, without a watcher, the worker does not rebuild either: no search has found a
    // difference since.
    a.watchers.refuse(Some("there is no watcher in this test"));
    a.handle(FsEvent::Down(
        "the watcher of the test has ended".to_string(),
    ));
    a.until_standing("UNCERTAIN", Some("WATCHER_DOWN"));
    a.hands.put_forward(1_000_000);
    a.nudge();
    let indexes = a.setup.kept().indexes.clone();
    indexes
        .wait_live(a.root(), crate::support::GUARD)
        .unwrap()
        .unwrap();
    assert_eq!(a.report().generation, generation);
}

/// This world's own build failed, and the worker does not retry it.
#[test]
fn what_another_process_has_built_is_taken_up_by_the_next_search() {
    let world = World::new(How::OnDisk, |config| config.index_max_db_bytes = 1_000);
    world.live();
    let why = world
        .until("it failed", |report| report.why.is_some())
        .why
        .unwrap();
    assert!(why.contains("index_max_db_bytes"), "{why}");
    let more = world
        .setup
        .clone()
        .config(|config| config.index_max_db_bytes = 1 << 30);
    more.reopened().build(&Host::hasty());
    world.write("b/new/new.txt", "a needle\n");
    let (_, found) = world.find("needle");
    assert_eq!(found.len(), 4);
    world.until_complete();
    assert_eq!(world.check_used("needle"), found);
    assert_eq!(world.report().extra_files, 1);
}
