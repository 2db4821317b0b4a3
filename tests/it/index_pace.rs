//! Builds during searches: they slow down, keep within their budgets, and report progress to any
//! thread.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use forge_search::internal::exec::stop::CancelHandle;
use forge_search::internal::index::builder::{BuildError, BuildHost, BuiltSegment, Progress};
use forge_search::internal::index::pace::{Activity, BudgetError, Piece, background_pool};
use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::tool::config::SearchConfig;
use forge_search::internal::tool::indexing::{Background, BuildMonitor, Condition};

use crate::clocks::{FakeClock, TickingClock, until};
use crate::index_support::{Host, VARIANTS, Variant};
use crate::support::{SetAtEnd, Setup, Tree};

fn stepping_activity() -> Arc<Activity> {
    Arc::new(Activity::new(Arc::new(TickingClock::new())))
}

/// Plants files of some kilobytes each; 3,000 of them take more than one batch.
fn tree(files: usize) -> Tree {
    let tree = Tree::new();
    for n in 0..files {
        let line = format!("line {n} of something that is in no other file {}\n", n * n);
        tree.file(&format!("d{}/f{n}.txt", n % 7), line.repeat(1 + n % 40));
    }
    tree
}

fn build_with(
    setup: &Setup,
    host: &dyn BuildHost,
) -> Result<(BuiltSegment, Arc<Snapshot>), BuildError> {
    let context = setup.context();
    let indexes = &setup.kept().indexes;
    let root = indexes.roots().next().unwrap();
    indexes.build(root, context.sandbox.reach(), host)
}

fn condition(setup: &Setup) -> Condition {
    let indexes = &setup.kept().indexes;
    let root = indexes.roots().next().unwrap();
    indexes
        .condition(root, setup.context().sandbox.reach())
        .unwrap()
}

/// Returns the names of all files below a directory, except locks.
fn files_below(dir: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return BTreeSet::new();
    };
    entries
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => files_below(&path),
                false => BTreeSet::from([path.display().to_string()]),
            }
        })
        .filter(|name| !name.ends_with(".lock"))
        .collect()
}

/// Runs a build that exceeds its budget, once without and once with an earlier index. Checks that
/// it changed nothing; returns the exceeded budget.
fn ends(
    variant: Variant,
    tree: &Tree,
    change: fn(&mut SearchConfig),
    activity: Arc<Activity>,
) -> BudgetError {
    let mut why = None;
    for before in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("store");
        let setup = tree.setup().with_indexes_at(variant, &store);
        if before {
            setup.build(&Host::hasty());
        }
        let (condition_before, files_before) = (condition(&setup), files_below(&store));
        let mut config = setup.config.clone();
        change(&mut config);
        let host = Background::new(&config, activity.clone(), CancelHandle::new());
        match build_with(&setup, &host) {
            Err(BuildError::BudgetExceeded(exceeded)) => why = Some(exceeded),
            other => panic!("{variant:?}: {:?}", other.map(|(built, _)| built)),
        }
        assert_eq!(condition(&setup), condition_before, "{variant:?}");
        assert_eq!(files_below(&store), files_before, "{variant:?}");
        assert_eq!(condition_before.is_usable(), before, "{variant:?}");
    }
    why.unwrap()
}

#[test]
fn too_many_files_end_a_build_and_nothing_is_published() {
    let tree = tree(30);
    for variant in VARIANTS {
        let change = |config: &mut SearchConfig| config.index_build_max_files = 29;
        let exceeded = ends(variant, &tree, change, stepping_activity());
        let (limit, found) = (29, 30);
        assert_eq!(exceeded, BudgetError::Files { limit, found });
    }
}

#[test]
fn too_many_bytes_end_a_build_and_nothing_is_published() {
    let tree = Tree::of([("a.txt", "x".repeat(700)), ("b.txt", "y".repeat(400))]);
    for variant in VARIANTS {
        let change = |config: &mut SearchConfig| config.index_build_max_bytes = 1_099;
        let exceeded = ends(variant, &tree, change, stepping_activity());
        let (limit, found) = (1_099, 1_100);
        assert_eq!(exceeded, BudgetError::Bytes { limit, found });
    }
}

#[test]
fn too_long_a_time_ends_a_build_and_nothing_is_published() {
    let tree = tree(3_000);
    for variant in VARIANTS {
        let change = |config: &mut SearchConfig| {
            // The clock is read a few times for each batch.
            config.index_build_timeout_ms = 12;
            config.index_idle_boost_ms = 0;
        };
        let exceeded = ends(variant, &tree, change, stepping_activity());
        assert!(
            matches!(
                exceeded,
                BudgetError::Time {
                    limit: 12,
                    found: 13..
                }
            ),
            "{exceeded:?}"
        );
    }
}

#[test]
fn a_tree_just_within_the_budget_is_indexed() {
    // The large file is not read and does not count.
    let tree = Tree::of([
        ("a.txt", "x".repeat(700)),
        ("large.txt", "y".repeat(2_000_000)),
    ]);
    for variant in VARIANTS {
        let setup = tree.setup().with_indexes(variant);
        let mut config = setup.config.clone();
        config.index_build_max_files = 2;
        config.index_build_max_bytes = 700;
        let host = Background::new(&config, stepping_activity(), CancelHandle::new());
        build_with(&setup, &host).unwrap();
        assert!(condition(&setup).is_usable(), "{variant:?}");
    }
}

#[test]
fn a_throttled_build_makes_the_same_index() {
    let tree = tree(3_000);
    let setup = tree.setup().with_indexes(VARIANTS[0]);
    let (expected, _) = setup.build(&Host::hasty());
    let pool = background_pool(3).unwrap();
    for (percent, searching) in [(1, false), (34, true), (100, true)] {
        let activity = stepping_activity();
        let running = searching.then(|| activity.begin());
        let mut config = setup.config.clone();
        config.index_build_max_cpu_percent = percent;
        config.index_build_throttle_ms = 1;
        config.index_idle_boost_ms = 0;
        let host = Background::new(&config, activity, CancelHandle::new());
        let (built, _) = pool.install(|| build_with(&setup, &host)).unwrap();
        assert_eq!(built.summary, expected.summary);
        drop(running);
    }
}

/// A host that adds up the pauses of a build, by the clock of the searches.
struct Watched {
    inner: Background,
    activity: Arc<Activity>,
    batches: AtomicU64,
    rested_ms: AtomicU64,
}

impl BuildHost for Watched {
    fn now_ns(&self) -> i64 {
        self.inner.now_ns()
    }

    fn pause(&self, time: Duration) {
        self.inner.pause(time);
    }

    fn progress(&self, progress: Progress) {
        self.inner.progress(progress);
    }

    fn stopped(&self) -> bool {
        self.inner.stopped()
    }

    fn threads(&self, most: usize) -> usize {
        self.inner.threads(most)
    }

    fn worked(&self, threads: usize, piece: Piece) {
        if piece != Piece::Batch {
            return self.inner.worked(threads, piece);
        }
        let before_ms = self.activity.now_ms();
        self.batches.fetch_add(1, Ordering::SeqCst);
        self.inner.worked(threads, piece);
        let rested_ms = self.activity.now_ms() - before_ms;
        self.rested_ms.fetch_add(rested_ms, Ordering::SeqCst);
    }

    fn may_go_on(&self, files: u64, bytes: u64) -> Result<(), BudgetError> {
        self.inner.may_go_on(files, bytes)
    }
}

#[test]
fn a_build_rests_only_while_searches_run() {
    let tree = tree(3_000);
    let setup = tree.setup().with_indexes(VARIANTS[0]);
    let mut config = setup.config.clone();
    config.index_build_max_cpu_percent = 100;
    config.index_build_throttle_ms = 40;
    config.index_idle_boost_ms = 0;
    for searching in [false, true] {
        let activity = stepping_activity();
        let running = searching.then(|| activity.begin());
        let host = Watched {
            inner: Background::new(&config, activity.clone(), CancelHandle::new()),
            activity,
            batches: AtomicU64::new(0),
            rested_ms: AtomicU64::new(0),
        };
        build_with(&setup, &host).unwrap();
        drop(running);
        let batches = host.batches.load(Ordering::SeqCst);
        let rested_ms = host.rested_ms.load(Ordering::SeqCst);
        assert!(batches >= 3, "{batches}");
        let rested = format!("{rested_ms} ms in {batches} batches");
        match searching {
            true => assert!(rested_ms >= batches * 40, "{rested}"),
            // Each reading of the clock adds one millisecond.
            false => assert!(rested_ms < batches * 20, "{rested}"),
        }
    }
}

#[test]
fn a_rest_ends_when_the_build_is_stopped() {
    let tree = tree(3_000);
    let setup = tree.setup().with_indexes(VARIANTS[0]);
    let mut config = setup.config.clone();
    // By a clock that stands still, a pause never ends.
    config.index_build_throttle_ms = 3_600_000;
    let activity = Arc::new(Activity::new(Arc::new(FakeClock::new())));
    let _searching = activity.begin();
    let cancel = CancelHandle::new();
    let host = Watched {
        inner: Background::new(&config, activity.clone(), cancel.clone()),
        activity,
        batches: AtomicU64::new(0),
        rested_ms: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        let build = scope.spawn(|| build_with(&setup, &host).map(|(built, _)| built));
        until("the first batch is done, and it rests", || {
            host.batches.load(Ordering::SeqCst) == 1
        });
        assert!(!build.is_finished());
        cancel.cancel();
        until("it is stopped", || build.is_finished());
        let stopped = build.join().unwrap();
        assert!(matches!(stopped, Err(BuildError::Stopped)), "{stopped:?}");
    });
    assert_eq!(host.batches.load(Ordering::SeqCst), 1);
    assert_eq!(
        condition(&setup),
        condition(&tree.setup().with_indexes(VARIANTS[0]))
    );
}

#[test]
fn a_rest_is_no_longer_than_the_build_budget() {
    let tree = tree(3_000);
    let setup = tree.setup().with_indexes(VARIANTS[0]);
    let mut config = setup.config.clone();
    config.index_build_throttle_ms = 3_600_000;
    config.index_build_timeout_ms = 300;
    let activity = stepping_activity();
    let _searching = activity.begin();
    let host = Background::new(&config, activity, CancelHandle::new());
    let ended = build_with(&setup, &host).map(|(built, _)| built);
    match ended {
        Err(BuildError::BudgetExceeded(BudgetError::Time { limit: 300, found })) => {
            // The clock is read some more times before the build ends.
            assert!((301..340).contains(&found), "{found}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn build_progress_shows_from_any_thread() {
    let tree = tree(3_000);
    let setup = tree.setup().with_indexes(VARIANTS[2]);
    let activity = stepping_activity();
    let _searching = activity.begin();
    let mut config = setup.config.clone();
    config.index_build_throttle_ms = 20;
    let host = Background::new(&config, activity, CancelHandle::new());
    let monitor: Arc<BuildMonitor> = host.monitor();
    let before = monitor.report();
    assert_eq!(
        (before.phase, before.files_total, before.ended),
        (None, 0, false)
    );
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let at_end = SetAtEnd(&done);
        let watching = scope.spawn(|| {
            let mut seen = Vec::new();
            while !done.load(Ordering::SeqCst) {
                seen.push(monitor.report());
                std::thread::sleep(Duration::from_millis(1));
            }
            seen
        });
        let built = build_with(&setup, &host).map(|(built, _)| built);
        drop(at_end);
        built.unwrap();
        watching.join().unwrap()
    });
    for pair in seen.windows(2) {
        assert!(pair[0].elapsed_ms <= pair[1].elapsed_ms);
        assert!(pair[0].files_done <= pair[1].files_done);
    }
    let phases: BTreeSet<&str> = seen
        .iter()
        .filter_map(|report| Some(report.phase?.as_str()))
        .collect();
    assert!(phases.contains("TOKENIZE"), "{phases:?}");
    assert!(
        seen.iter()
            .any(|report| report.files_total == 3_000 && report.files_done < 3_000)
    );
    let last = monitor.report();
    assert_eq!(last.phase.unwrap().as_str(), "ACTIVATE");
    assert_eq!(
        (last.files_done, last.files_total, last.ended),
        (3_000, 3_000, false)
    );
    drop(host);
    let ended = monitor.report();
    assert!(ended.ended);
    // The report does not change as the clock goes on.
    assert_eq!(monitor.report(), ended);
}
