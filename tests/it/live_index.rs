//! Tests of live indexes. The tests inject the watcher events and control the clock.
//!
//! [`Watchers`] is the watcher: it reports an event only when a test says so. [`Hands`] is the
//! clock: a test can stop it and put it forward. A [`World`] has a tree, a live index, a watcher
//! and a clock.
//!
//! No test depends on the speed of the machine. Tests hold the worker where they need it, and wait
//! for states instead of times.

mod background;
mod budgets;
pub(crate) mod double;
mod evicted;
mod links;
mod locked;
mod merging;
mod orphans;
mod real;
mod reasons;
mod safety;
mod shutdown;
mod storages;
mod telling;
mod tracking;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_search::internal::index::builder::Phase;
use forge_search::internal::index::pace::{Activity, RunningSearch};
use forge_search::internal::index::watch::{FsEvent, WatcherFactory};
use forge_search::internal::tool::config::{IndexStorage, SearchConfig};
use forge_search::internal::tool::indexing::{LiveEnvironment, ProcessIndexStatus, Report};
use forge_search::internal::tool::response::{SearchResponse, Stats};
use serde_json::{Value, json};

use crate::index_support::{LIVE, VARIANTS, Variant, agree, as_json, without_stats};
use crate::support::{GUARD, Setup, Tree, paths};

use self::double::{Hands, Hearing, Watchers};
use self::storages::How;

/// The pause between two polls of a state.
const LOOK: Duration = Duration::from_millis(2);

/// An index in mapped files.
const MAPPED: Variant = Variant {
    storage: IndexStorage::Mmap,
    ..LIVE
};

/// Files in several directories. `needle` is in three of them and in a hidden one.
const FILES: [(&str, &str); 9] = [
    ("a/one.txt", "a needle in a haystack\n"),
    ("a/two.txt", "nothing but straw\n"),
    ("a/b/three.rs", "fn needle() {}\n"),
    ("a/b/four.txt", "more straw, and hay\n"),
    ("a/b/c/five.txt", "still more straw\n"),
    ("a/b/c/six.rs", "needle and thread\n"),
    ("b/seven.txt", "a barn full of hay\n"),
    ("b/.hidden/eight.txt", "a hidden needle\n"),
    ("nine.txt", "the last straw\n"),
];

/// Raises the time limits of the product, for tests that are not about these limits.
pub(crate) fn patient(config: &mut SearchConfig) {
    config.default_timeout_ms = 600_000;
    config.index_lock_timeout_ms = 60_000;
    config.index_shutdown_timeout_ms = 60_000;
}

/// Returns how often a test repeats a step that depends on luck.
fn rounds() -> usize {
    let rounds = std::env::var("FORGE_SEARCH_TEST_ROUNDS");
    rounds.map_or(2, |rounds| rounds.parse().unwrap())
}

/// A tree with a live index, its watcher and its clock.
struct World {
    tree: Tree,
    setup: Setup,
    watchers: Arc<Watchers>,
    hands: Arc<Hands>,
}

impl World {
    /// Returns a tree with an index that is not live yet.
    fn new(how: impl Into<How>, change: impl FnOnce(&mut SearchConfig)) -> World {
        World::over(Tree::of(FILES), how, change)
    }

    fn over(tree: Tree, how: impl Into<How>, change: impl FnOnce(&mut SearchConfig)) -> World {
        let variant = how.into().variant();
        let setup = tree.setup().config(|config| {
            config.index_watch_debounce_ms = 5;
            config.index_idle_boost_ms = 0;
            patient(config);
        });
        let setup = setup.config(change).with_indexes(variant);
        World::of(tree, setup)
    }

    fn of(tree: Tree, setup: Setup) -> World {
        World {
            tree,
            setup,
            watchers: Arc::default(),
            hands: Arc::default(),
        }
    }

    /// Starts the live index and waits until it is complete.
    fn complete(how: impl Into<How>, change: impl FnOnce(&mut SearchConfig)) -> World {
        let world = World::new(how, change);
        world.live();
        world.until_complete();
        world
    }

    fn live(&self) {
        self.live_with(Arc::new(Hearing(self.watchers.clone())));
    }

    fn live_with(&self, watchers: Arc<dyn WatcherFactory>) {
        self.live_in(Arc::new(Activity::new(self.hands.clone())), watchers);
    }

    fn live_in(&self, activity: Arc<Activity>, watchers: Arc<dyn WatcherFactory>) {
        let hands = self.hands.clone();
        let around = LiveEnvironment {
            activity,
            wall: Arc::new(move || hands.wall_ns()),
            watchers,
            watcher_patience: GUARD,
            ..LiveEnvironment::new(self.setup.context().sandbox.reach().clone())
        };
        let indexes = &self.setup.kept().indexes;
        self.hands.wakes(indexes);
        indexes.live(&self.setup.config, &around).unwrap();
    }

    /// Starts the live index while a search runs. The search lasts until the returned value is
    /// dropped.
    fn live_beside_a_search(&self) -> RunningSearch {
        let activity = Arc::new(Activity::new(self.hands.clone()));
        let searching = activity.begin();
        self.live_in(activity, Arc::new(Hearing(self.watchers.clone())));
        searching
    }

    #[track_caller]
    fn until_in_phase(&self, phase: Phase) {
        let indexes = &self.setup.kept().indexes;
        self.until(phase.as_str(), |_| {
            let build = indexes.live_build(self.root());
            build.is_some_and(|build| build.phase == Some(phase))
        });
    }

    fn root(&self) -> &Path {
        self.tree.root()
    }

    fn report(&self) -> Report {
        let indexes = &self.setup.kept().indexes;
        indexes.live_report(self.root()).expect("it lives")
    }

    /// Returns the state and its reason, as users see them.
    fn index_state(&self) -> (&'static str, Option<&'static str>) {
        let index_state = self.report().index_state;
        (index_state.state().as_str(), index_state.reason())
    }

    /// Waits until `is_so` is true of the report, and returns that report.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&Report) -> bool) -> Report {
        let start = Instant::now();
        loop {
            let report = self.report();
            if is_so(&report) {
                return report;
            }
            assert!(start.elapsed() < GUARD, "{what}: {report:?}");
            std::thread::sleep(LOOK);
        }
    }

    #[track_caller]
    fn until_standing(&self, state: &str, reason: Option<&str>) -> Report {
        self.until(&format!("{state} {reason:?}"), |report| {
            let index_state = report.index_state;
            index_state.state().as_str() == state && index_state.reason() == reason
        })
    }

    #[track_caller]
    fn until_complete(&self) -> Report {
        self.until_standing("COMPLETE", None)
    }

    /// Waits until the index is complete and the worker is idle, then stops the clock. From then
    /// on, work that is due later starts only when the test puts the clock forward.
    #[track_caller]
    fn until_at_rest(&self) {
        self.until("it is complete and the worker rests", |report| {
            report.index_state.allows_exclusion() && !report.busy
        });
        self.hands.stop();
    }

    /// Waits until the worker has read every changed file. A changed file that is unread is a
    /// candidate of every search.
    #[track_caller]
    fn until_read(&self) {
        self.until("all was read", |report| {
            (report.dirty, report.unread) == (0, 0)
        });
    }

    #[track_caller]
    fn until_held(&self) {
        let start = Instant::now();
        while !self.watchers.is_held() {
            assert!(start.elapsed() < GUARD, "nothing came: {:?}", self.report());
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the status that the index publishes for other processes.
    fn told(&self) -> Vec<ProcessIndexStatus> {
        let indexes = &self.setup.kept().indexes;
        indexes.living(self.root()).expect("a root")
    }

    /// Waits until the published status has this state and this reason, and checks that it names
    /// this process.
    #[track_caller]
    fn until_told(&self, state: &str, reason: Option<&str>) -> ProcessIndexStatus {
        let start = Instant::now();
        loop {
            let told = self.told();
            assert!(told.len() <= 1, "{told:?}");
            if let Some(told) = told.into_iter().next()
                && told.index_state.state().as_str() == state
                && told.index_state.reason() == reason
            {
                assert_eq!(told.process, std::process::id());
                return told;
            }
            assert!(
                start.elapsed() < GUARD,
                "{:?}: {:?}",
                self.told(),
                self.report()
            );
            std::thread::sleep(LOOK);
        }
    }

    /// Makes the watcher report an event now.
    fn handle(&self, event: FsEvent) {
        self.watchers.handle(event);
    }

    fn hear_file(&self, path: &str) {
        self.handle(FsEvent::File(path.into()));
    }

    fn hear_subtree(&self, path: &str) {
        self.handle(FsEvent::Subtree(path.into()));
    }

    /// Wakes the worker, so that it checks whether work is due.
    fn nudge(&self) {
        // The worker may have given up watching: then there is no watcher to report the event.
        let nothing = FsEvent::Subtree("b/nothing-there".into());
        self.watchers.hear_if_any(nothing);
    }

    /// Searches, and checks that the answer equals the one without an index.
    #[track_caller]
    fn ask(&self, request: &Value) -> (Stats, SearchResponse) {
        let plain = self.setup.without_indexes().call(request.clone());
        let found = self.setup.call(request.clone());
        if let Err(why) = agree(&as_json(&plain), &as_json(&found)) {
            panic!("{request}\n  {why}\n  {:?}", self.report());
        }
        let (response, stats) = without_stats(found.unwrap());
        (stats, response)
    }

    /// Searches for a literal. Returns the files that contain it.
    #[track_caller]
    fn find(&self, text: &str) -> (Stats, BTreeSet<String>) {
        let (stats, response) = self.ask(&json!({"pattern": text}));
        (stats, paths(&response).into_iter().collect())
    }

    /// Checks that a search uses the index to exclude files.
    #[track_caller]
    fn check_used(&self, text: &str) -> BTreeSet<String> {
        let (stats, found) = self.find(text);
        assert_eq!(
            (
                stats.index_safety_state.as_str(),
                &stats.index_uncertain_reason
            ),
            ("COMPLETE", &None),
            "{:?}",
            self.report()
        );
        assert!(stats.index_exclusion_used, "{stats:?}");
        assert!(stats.candidates_excluded > 0, "{stats:?}");
        found
    }

    /// Searches until the index is used to exclude files. Every answer is checked.
    #[track_caller]
    fn until_used(&self, text: &str) {
        let start = Instant::now();
        while !self.find(text).0.index_exclusion_used {
            assert!(start.elapsed() < GUARD, "{:?}", self.report());
            std::thread::sleep(LOOK);
        }
    }

    /// Checks that a search excludes no file, and that `stats` show this state and this reason.
    #[track_caller]
    fn check_unused(&self, text: &str, state: &str, reason: Option<&str>) -> BTreeSet<String> {
        let (stats, found) = self.find(text);
        let shown = stats.index_uncertain_reason.as_deref();
        assert_eq!((stats.index_safety_state.as_str(), shown), (state, reason));
        assert!(!stats.index_exclusion_used, "{stats:?}");
        assert_eq!(stats.candidates_excluded, 0, "{stats:?}");
        found
    }

    /// Writes a file without a watcher event.
    fn write(&self, path: &str, text: &str) {
        let path = self.tree.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for World {
    /// Releases held threads: a held worker could not end.
    fn drop(&mut self) {
        self.watchers.release();
    }
}

fn set<const N: usize>(paths: [&str; N]) -> BTreeSet<String> {
    paths.map(str::to_string).into()
}

/// Returns a path of 2,500 bytes. A path of two of these is too long for the system, so no process
/// can list the directory that it names.
fn long_dir() -> String {
    vec!["l".repeat(250); 10].join("/")
}
