//! The life of a live index while searches run: its start, its states during a build, and its
//! continuation after a restart.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use forge_search::internal::format::lock::LockFile;
use forge_search::internal::format::manifest::MANIFEST_VERSION;
use forge_search::internal::format::section::FileKind;
use forge_search::internal::index::builder::Phase;
use forge_search::internal::index::watch::FsEvent;
use forge_search::internal::tool::config::{IndexMode, IndexStorage};
use forge_search::internal::tool::indexing::{CachePlaces, Indexes, LiveEnvironment};
use forge_search::internal::tool::response::Stats;
use serde_json::json;

use super::storages::How;
use super::{LIVE, MAPPED, VARIANTS, Variant, World, set};
use crate::index_support::{Host, deterministic_beside_a_worker, locked};
use crate::indexing::keys::of_version;
use crate::support::{GUARD, Tree};
use crate::system::set_mode;

#[test]
fn each_root_has_a_live_index_of_its_own() {
    let tree = Tree::of(FILES_OF_TWO);
    let mut world = World::over(tree, LIVE, |_| {});
    world.setup.config.index_roots = vec![world.tree.path("one"), world.tree.path("two")];
    world.setup = world.setup.clone().reopened();
    world.live();
    let indexes = &world.setup.kept().indexes;
    for root in ["one", "two"] {
        let root = world.tree.path(root);
        indexes.wait_live(&root, GUARD).unwrap().unwrap();
        let report = indexes.live_report(&root).unwrap();
        assert_eq!(report.index_state.state().as_str(), "COMPLETE");
        let (stats, _) =
            world.ask(&json!({"pattern": "needle", "path": root.file_name().unwrap().to_str()}));
        assert!(stats.index_exclusion_used, "{stats:?}");
    }
    assert_eq!(indexes.live_report(world.root()), None);
    // Starting them again adds no live index and no watcher.
    let starts = world.watchers.starts();
    world.live();
    assert_eq!((starts, world.watchers.starts()), (2, 2));
}

const FILES_OF_TWO: [(&str, &str); 4] = [
    ("one/needle.txt", "a needle\n"),
    ("one/straw.txt", "straw\n"),
    ("two/needle.txt", "a needle\n"),
    ("two/straw.txt", "straw\n"),
];

#[test]
fn a_build_begins_at_once_and_not_with_the_first_search() {
    let world = World::complete(MAPPED, |_| {});
    // The index is complete before the first search.
    assert_eq!(world.report().epoch, 1);
    assert_eq!(world.check_used("needle").len(), 3);
}

#[test]
fn mode_off_starts_no_live_index_and_watching_off_no_watcher() {
    let world = World::new(LIVE, |_| {});
    let mut off = world.setup.clone();
    off.config.index_mode = IndexMode::Off;
    let context = off.context();
    let indexes = Indexes::new(
        &off.config,
        &off.engines,
        &context.sandbox,
        None,
        &CachePlaces::default(),
    );
    assert!(indexes.is_none());

    let world = World::new(LIVE, |config| config.index_watch = false);
    world.live();
    let indexes = &world.setup.kept().indexes;
    indexes.wait_live(world.root(), GUARD).unwrap().unwrap();
    assert_eq!(world.watchers.starts(), 0);
    assert!(!world.report().tracking);
    assert_eq!(world.check_used("needle").len(), 3);
    world.write("a/two.txt", "a needle, too\n");
    assert_eq!(world.check_used("needle").len(), 4, "it is compared");
}

#[test]
fn searches_during_a_build_go_on_and_are_right() {
    for variant in VARIANTS.into_iter().filter(|variant| !variant.frozen) {
        let world = World::new(variant, |_| {});
        world.watchers.hold("a/b/c");
        world.live();
        world.until_held();
        for n in 0..3 {
            // The build is held. The search does not wait for it.
            assert_eq!(world.check_unused("needle", "BUILDING", None).len(), 3 + n);
            world.write(&format!("b/new{n}.txt"), "a needle\n");
            world.hear_subtree(&format!("b/new{n}.txt"));
        }
        let waited = world
            .setup
            .kept()
            .indexes
            .wait_live(world.root(), super::LOOK);
        assert_eq!(
            waited,
            Some(None),
            "whoever waits is told that it takes longer"
        );
        world.watchers.release();
        world.until_complete();
        assert_eq!(world.check_used("needle").len(), 6, "{variant:?}");
    }
}

#[test]
fn directories_are_watched_before_they_are_listed() {
    let world = World::new(LIVE, |_| {});
    let root = world.root().to_path_buf();
    // The watcher reports no event for these files.
    world.watchers.on_watch(move |dir| {
        if root.join(dir).is_dir() {
            fs::write(root.join(dir).join("late.txt"), "a needle\n").unwrap();
        }
    });
    world.live();
    world.until_complete();
    let dirs = ["", "a", "a/b", "a/b/c", "b"].map(PathBuf::from);
    assert_eq!(world.watchers.watched(), dirs.into());
    let found = world.check_used("needle");
    assert_eq!(found.len(), 3 + 5, "{found:?}");
    // New directories are also watched before they are listed.
    fs::create_dir_all(world.tree.path("b/new/deep")).unwrap();
    world.watchers.queue(FsEvent::Subtree("b/new".into()));
    world.setup.search(json!({"pattern": "needle"}));
    assert_eq!(world.check_used("needle").len(), 3 + 5 + 2);
    assert!(
        world
            .watchers
            .watched()
            .contains(&PathBuf::from("b/new/deep"))
    );
}

#[test]
fn changes_during_a_build_are_processed_after_it() {
    let world = World::new(MAPPED, |_| {});
    world.watchers.hold("a/b/c");
    world.live();
    world.until_held();
    world.hands.stop();
    // The worker has already listed the root and a.
    world.write("late.txt", "a needle\n");
    world.hear_subtree("late.txt");
    fs::remove_file(world.tree.path("a/one.txt")).unwrap();
    world.hear_subtree("a/one.txt");
    world.watchers.release();
    let report = world.until_complete();
    assert_eq!(report.dirty, 2, "{report:?}");
    let now = set(["late.txt", "a/b/three.rs", "a/b/c/six.rs"]);
    assert_eq!(world.check_used("needle"), now);
    assert_eq!(world.report().dirty, 0);
}

/// If no storage on disk is private enough, the index lives in memory. It is built the same way.
#[test]
fn a_live_index_without_private_permissions_stays_in_memory() {
    let mut world = World::new(How::OnDisk, |_| {});
    let place = world.root().parent().unwrap().join("shared");
    fs::create_dir(&place).unwrap();
    set_mode(&place, 0o755).unwrap();
    world.setup.config.index_path = Some(place.clone());
    world.setup = world.setup.clone().reopened();
    world.watchers.hold("a/b");
    world.live();
    world.until_held();
    let kept = |stats: &Stats| {
        let reason = stats.storage_fallback_reason.clone();
        (stats.storage_mode.clone(), reason)
    };
    let in_memory = || ("memory".to_string(), Some("PERMISSION_DENIED".to_string()));
    let (stats, _) = world.find("needle");
    assert_eq!(stats.index_safety_state, "BUILDING");
    assert_eq!(kept(&stats), in_memory());
    world.watchers.release();
    world.until_complete();
    world.check_used("needle");
    assert_eq!(kept(&world.find("needle").0), in_memory());
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

/// The fields about the index depend on its state. All other `stats` are the same in every state.
#[test]
fn only_stats_fields_about_the_index_change_while_a_worker_runs() {
    let world = World::new(MAPPED, |config| config.fuzzy_fallback = true);
    let requests = [
        json!({"pattern": "needle"}),
        json!({"pattern": "needle", "max_results": 2}),
        json!({"pattern": "neadle", "fixed_strings": true}),
    ];
    let stats = || requests.clone().map(|request| world.ask(&request).0);
    world.watchers.hold("a/b");
    world.live();
    world.until_held();
    let building = stats();
    world.watchers.release();
    world.until_complete();
    let complete = stats();
    world.watchers.hold("");
    world.handle(FsEvent::Overflow);
    let uncertain = stats();
    let states = [&building, &complete, &uncertain].map(|all| all[0].index_safety_state.clone());
    assert_eq!(states, ["BUILDING", "COMPLETE", "UNCERTAIN"]);
    assert!(complete[0].candidates_excluded > building[0].candidates_excluded);
    for other in [&complete, &uncertain] {
        for (one, other) in building.iter().zip(other) {
            let all = deterministic_beside_a_worker(one);
            assert_eq!(deterministic_beside_a_worker(other), all);
        }
    }
}

#[test]
fn stats_show_the_progress_of_a_running_build() {
    let world = World::new(MAPPED, |config| {
        config.index_build_max_cpu_percent = 100;
        config.index_build_throttle_ms = 3_600_000;
    });
    // Searches run all the time, so the build rests for an hour after the first files that it
    // reads.
    world.hands.stop();
    world.watchers.hold("a/b/c");
    let searching = world.live_beside_a_search();
    world.until_held();
    world.hands.put_forward(1_500);
    let build = |request| {
        let build = world.ask(&request).0.build.unwrap();
        (
            build.build_phase,
            build.build_files_total,
            build.build_files_done,
            build.build_elapsed_ms,
        )
    };
    let expected = |phase: &str, total, elapsed_ms| (phase.to_string(), total, 0, elapsed_ms);
    let needle = json!({"pattern": "needle"});
    assert_eq!(build(needle.clone()), expected("ENUMERATE", 0, 1_500));
    world.hands.put_forward(1_000);
    world.watchers.release();
    world.until_in_phase(Phase::Tokenize);
    // Every search shows the build, even the search of a single file, which uses no index.
    let one = json!({"pattern": "needle", "path": "a/one.txt"});
    for request in [&needle, &one] {
        assert_eq!(build(request.clone()), expected("TOKENIZE", 8, 2_500));
    }
    // On the wire, the fields are next to the other `stats`.
    let answer = world.setup.call(needle.clone()).unwrap().to_value();
    assert_eq!(answer["stats"]["index_safety_state"], "BUILDING");
    assert_eq!(answer["stats"]["build_phase"], "TOKENIZE");
    assert_eq!(answer["stats"]["build_files_total"], 8);
    assert_eq!(answer["stats"]["build_files_done"], 0);
    assert_eq!(answer["stats"]["build_elapsed_ms"], 2_500);
    drop(searching);
    world.until_complete();
    let indexes = &world.setup.kept().indexes;
    assert_eq!(indexes.live_build(world.root()), None);
    let answer = world.setup.call(needle).unwrap().to_value();
    let stats = answer["stats"].as_object().unwrap();
    assert!(
        stats.keys().all(|field| !field.starts_with("build_")),
        "{stats:?}"
    );
    world.check_used("needle");
}

#[test]
fn a_failed_build_is_reported_and_not_retried() {
    let world = World::new(How::OnDisk, |config| config.index_max_db_bytes = 100);
    world.live();
    let report = world.until("it failed", |report| report.why.is_some());
    assert!(report.why.unwrap().contains("index_max_db_bytes"));
    assert_eq!(
        world
            .setup
            .kept()
            .indexes
            .store()
            .unwrap()
            .list()
            .unwrap()
            .len(),
        0
    );
    world.check_unused("needle", "ABSENT", None);
    let calls = world.watchers.calls().len();
    world.hands.put_forward(1_000_000);
    world.nudge();
    world
        .setup
        .kept()
        .indexes
        .wait_live(world.root(), GUARD)
        .unwrap();
    world.check_unused("needle", "ABSENT", None);
    assert_eq!(world.watchers.calls().len(), calls);
}

#[test]
fn a_failed_build_is_retried_if_configured() {
    let world = World::new(How::OnDisk, |config| {
        config.index_max_db_bytes = 100;
        config.index_retry_on_failure = true;
    });
    world.live();
    world.until("it failed", |report| report.why.is_some());
    let calls = world.watchers.calls().len();
    world.watchers.hold("a");
    world.hands.put_forward(1_000_000);
    world.until_held();
    assert!(world.watchers.calls().len() > calls);
}

#[test]
fn a_damaged_index_is_rebuilt_in_the_background() {
    let world = World::new(How::Exactly(MAPPED), |_| {});
    world.setup.build(&Host::hasty());
    let dir = world.setup.kept().dir();
    for name in ["manifest", "segment"] {
        let setup = world.setup.clone().reopened();
        let path = files_named(&dir, name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        set_mode(&path, 0o600).unwrap();
        let own = World::of(Tree::of([("unused", "")]), setup).at(&world);
        own.watchers.hold("a");
        own.live();
        own.until_held();
        assert_eq!(own.index_state().0, "BUILDING", "{name}");
        own.check_unused("needle", "BUILDING", None);
        own.watchers.release();
        own.until_complete();
        assert_eq!(own.check_used("needle").len(), 3);
        own.setup.kept().indexes.shut_down();
    }
}

/// Returns the file of an index whose name starts with `name`.
fn files_named(dir: &std::path::Path, name: &str) -> PathBuf {
    let mut entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let found = entries.find(|path| {
        let own = path.file_name().unwrap().to_str().unwrap();
        own.starts_with(name) && !own.ends_with(".lock")
    });
    found.unwrap_or_else(|| panic!("no {name} in {dir:?}"))
}

#[test]
fn the_index_of_a_newer_program_is_left_alone() {
    let world = World::new(How::Exactly(MAPPED), |_| {});
    world.setup.build(&Host::hasty());
    let path = files_named(&world.setup.kept().dir(), "manifest");
    let bytes = of_version(FileKind::Manifest, MANIFEST_VERSION + 1);
    fs::remove_file(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    set_mode(&path, 0o600).unwrap();
    let own = World::of(Tree::of([("unused", "")]), world.setup.clone().reopened()).at(&world);
    own.live();
    let report = own.until("it was opened", |report| report.why.is_some());
    assert!(report.why.unwrap().contains("version"));
    own.check_unused("needle", "ABSENT", None);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(own.watchers.starts(), 0);
}

#[test]
fn an_index_that_another_process_is_building_is_waited_for() {
    let world = World::new(How::OnDisk, |config| config.index_lock_timeout_ms = 20);
    world.setup.build(&Host::hasty());
    let dir = world.setup.kept().dir();
    let file = match world.setup.config.index_storage {
        IndexStorage::Sqlite => "index.sqlite",
        _ => "manifest",
    };
    fs::remove_file(dir.join(file)).unwrap();
    let world = World::of(Tree::of([("unused", "")]), world.setup.clone().reopened()).at(&world);
    let lock = locked(&dir, LockFile::Writers);
    world.live();
    let report = world.until("it is locked", |report| report.why.is_some());
    assert_eq!(report.index_state.state().as_str(), "ABSENT", "{report:?}");
    world.check_unused("needle", "ABSENT", None);
    drop(lock);
    world.hands.put_forward(10_000);
    world.nudge();
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 3);
}

#[test]
fn changes_without_a_live_index_are_found_by_the_next_one() {
    for storage in [IndexStorage::Mmap, IndexStorage::Memory] {
        let variant = Variant { storage, ..LIVE };
        let world = World::complete(variant, |_| {});
        assert!(world.setup.kept().indexes.shut_down());
        world.write("a/two.txt", "a needle, too\n");
        fs::rename(world.tree.path("a/b"), world.tree.path("b/b")).unwrap();
        fs::remove_file(world.tree.path("a/one.txt")).unwrap();
        let again = World::of(Tree::of([("unused", "")]), world.setup.clone().reopened());
        let again = again.at(&world);
        again.live();
        again.until_complete();
        let now = set(["a/two.txt", "b/b/three.rs", "b/b/c/six.rs"]);
        assert_eq!(again.check_used("needle"), now);
    }
}

#[test]
fn an_index_that_is_shut_down_is_compared_with_the_tree() {
    let world = World::complete(LIVE, |_| {});
    assert!(world.setup.kept().indexes.shut_down());
    assert_eq!(world.find("needle").1.len(), 3);
    world.write("a/two.txt", "a needle, too\n");
    world.write("new/new.txt", "a needle, too\n");
    assert_eq!(world.find("needle").1.len(), 5);
    assert!(!world.report().tracking);
}

#[test]
fn living_is_of_the_surroundings_of_the_first_call() {
    let world = World::complete(LIVE, |_| {});
    let around = LiveEnvironment::new(world.setup.context().sandbox.reach().clone());
    let indexes = world.setup.kept().indexes.clone();
    indexes.live(&world.setup.config, &around).unwrap();
    world.write("b/new.txt", "a needle\n");
    world.watchers.queue(FsEvent::Subtree("b/new.txt".into()));
    assert_eq!(world.check_used("needle").len(), 4);
    assert_eq!(Arc::strong_count(&around.activity), 1);
}

impl World {
    /// Uses the tree of another world, which still owns it.
    fn at(mut self, other: &World) -> World {
        self.tree = Tree::existing(other.root());
        self
    }
}

/// With `index_watch = false`, no worker compares the tree. A caller that waits for the index
/// returns at once.
#[test]
fn an_index_that_nobody_keeps_up_to_date_is_not_waited_for() {
    let world = World::new(How::OnDisk, |config| config.index_watch = false);
    world.setup.build(&Host::hasty());
    let world = World::of(Tree::new(), world.setup.clone().reopened()).taking(world);
    world.live();
    let indexes = world.setup.kept().indexes.clone();
    let index_state = indexes.wait_live(world.root(), GUARD).unwrap();
    assert_eq!(
        index_state.unwrap().reason(),
        Some("OPEN_REQUIRES_VALIDATION")
    );
    world.check_used("needle");
}
