//! The time that a call may spend on its index (`index_maint_budget_fraction`): waiting for locks,
//! and comparing the index with the tree. The clocks are test doubles.

use std::sync::Arc;

use forge_search::internal::exec::stop::Clock;
use forge_search::internal::format::lock::LockFile;
use forge_search::internal::tool::config::IndexStorage;
use forge_search::internal::tool::request::SearchRequest;
use forge_search::internal::tool::response::{SearchResponse, Stats};
use forge_search::internal::tool::search::SearchTool;
use serde_json::{Value, json};

use super::{FILES, Opened, World, needle};
use crate::clocks::{FOR_EVER_MS, FakeClock, TickingClock, ends};
use crate::index_support::{VARIANTS, locked};
use crate::support::Tree;

/// Returns the storages on disk of this build.
fn on_disk() -> Vec<IndexStorage> {
    let storages = VARIANTS.iter().map(|variant| variant.storage);
    let mut storages: Vec<IndexStorage> = storages
        .filter(|storage| *storage != IndexStorage::Memory)
        .collect();
    storages.dedup();
    storages
}

/// Searches on another thread, with a clock of the test.
#[track_caller]
fn search(opened: &Opened, clock: impl Clock + 'static, request: Value) -> SearchResponse {
    let mut context = opened.context.clone();
    context.clock = Arc::new(clock);
    let tool = SearchTool::new(opened.tool.config().clone(), opened.tool.engines().clone())
        .with_indexes(Some(opened.indexes().clone()));
    let request = SearchRequest::from_value(request).unwrap();
    ends(move || tool.search(&request, &context).unwrap())
}

/// Checks that an answer is complete although its index could not be used in time.
#[track_caller]
fn check_out_of_time(world: &World, found: SearchResponse, request: &Value) -> Stats {
    let mut found = found;
    let stats = found.stats.take().unwrap();
    assert!(!found.timed_out);
    assert_eq!(found.to_json(), world.plain(request).to_json());
    let reason = stats.index_uncertain_reason.as_deref();
    assert_eq!(
        (stats.index_safety_state.as_str(), reason),
        ("UNCERTAIN", Some("MAINT_BUDGET_EXCEEDED"))
    );
    assert!(!stats.index_exclusion_used && stats.candidates_excluded == 0);
    stats
}

#[test]
fn a_locked_index_takes_no_more_than_the_maintenance_budget() {
    for storage in on_disk() {
        let world = World::new().config(|config| {
            config.index_storage = storage;
            config.index_lock_timeout_ms = FOR_EVER_MS;
        });
        world.built();
        let dir = world.cache.join(&world.kept()[0]);
        let lock = locked(&dir, LockFile::Readers);
        // A quarter of the timeout is spent waiting.
        let request = json!({"pattern": "needle", "timeout_ms": 400});
        for request in [
            &request,
            &json!({"pattern": "needle", "timeout_ms": 400, "path": "a"}),
        ] {
            let found = search(&world.open(), FakeClock::new(), request.clone());
            check_out_of_time(&world, found, request);
        }
        // The search of a single file asks for the index only because of `stats`.
        let file = json!({"pattern": "needle", "timeout_ms": 400, "path": "a/one.txt"});
        let found = search(&world.open(), FakeClock::new(), file.clone());
        check_out_of_time(&world, found, &file);
        let opened = world.open();
        let found = search(&opened, FakeClock::new(), request.clone());
        check_out_of_time(&world, found, &request);
        drop(lock);
        // The process does not remember the failure.
        world.check_used(&opened, &needle());
    }
}

#[test]
fn a_lock_timeout_that_is_shorter_than_the_budget_counts() {
    for storage in on_disk() {
        let world = World::new().config(|config| {
            config.index_storage = storage;
            config.index_lock_timeout_ms = 20;
        });
        world.built();
        let dir = world.cache.join(&world.kept()[0]);
        let lock = locked(&dir, LockFile::Readers);
        let opened = world.open();
        let request = json!({"pattern": "needle", "timeout_ms": FOR_EVER_MS});
        let mut found = search(&opened, FakeClock::new(), request.clone());
        let stats = found.stats.take().unwrap();
        assert_eq!(found.to_json(), world.plain(&request).to_json());
        // The state of the index is unknown, and nothing has changed.
        assert_eq!(
            (
                stats.index_safety_state.as_str(),
                stats.index_uncertain_reason
            ),
            ("ABSENT", None)
        );
        let condition = opened.condition(world.tree.root());
        assert!(condition.why().unwrap().contains("locked"), "{condition:?}");
        drop(lock);
        world.check_used(&opened, &needle());
    }
}

/// One call opens the index, and waits for the lock of another process as long as it may. Another
/// call of the same process waits for the first call no longer than its own budget.
#[test]
fn a_call_waits_for_another_that_opens_the_index_within_its_own_budget() {
    for storage in on_disk() {
        let world = World::new().config(|config| {
            config.index_storage = storage;
            config.index_lock_timeout_ms = FOR_EVER_MS;
        });
        world.built();
        let dir = world.cache.join(&world.kept()[0]);
        let lock = locked(&dir, LockFile::Readers);
        let opened = world.open();
        let patient = json!({"pattern": "needle", "timeout_ms": FOR_EVER_MS});
        let short = json!({"pattern": "needle", "timeout_ms": 40});
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| search(&opened, FakeClock::new(), patient.clone()));
            for _ in 0..20 {
                let found = search(&opened, FakeClock::new(), short.clone());
                check_out_of_time(&world, found, &short);
            }
            assert!(!waiting.is_finished());
            drop(lock);
            let mut found = waiting.join().unwrap();
            assert!(found.stats.take().unwrap().index_exclusion_used);
            assert_eq!(found.to_json(), world.plain(&patient).to_json());
        });
        world.check_used(&opened, &needle());
    }
}

/// SQLite has its own locks. A process that repairs or copies a database holds them.
#[cfg(feature = "sqlite")]
#[test]
fn a_locked_database_takes_no_more_than_the_maintenance_budget() {
    let world = World::new().config(|config| {
        config.index_storage = IndexStorage::Sqlite;
        config.index_lock_timeout_ms = FOR_EVER_MS;
    });
    world.built();
    let file = world.cache.join(&world.kept()[0]).join("index.sqlite");
    let db = rusqlite::Connection::open(file).unwrap();
    let exclusive = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE index_meta SET last_accessed_at_ms = 7";
    db.execute_batch(exclusive).unwrap();
    let request = json!({"pattern": "needle", "timeout_ms": 400});
    let opened = world.open();
    let found = search(&opened, FakeClock::new(), request.clone());
    check_out_of_time(&world, found, &request);
    db.execute_batch("ROLLBACK").unwrap();
    drop(db);
    world.check_used(&opened, &needle());
}

/// Returns a tree with more directories than the budgets of these tests have milliseconds. The
/// directories contain no files directly: a search opens the directories of its files without
/// spending budget.
fn many_directories() -> Tree {
    let tree = Tree::of(FILES);
    for n in 0..400 {
        tree.file(&format!("many/d{n:03}/below/straw.txt"), "straw\n");
    }
    tree
}

/// Returns a request whose timeout never ends the search.
fn endless(pattern: &str) -> Value {
    json!({"pattern": pattern, "timeout_ms": 10_000_000})
}

#[test]
fn comparing_the_index_with_the_tree_ends_with_the_budget() {
    for storage in on_disk() {
        let world = World::over(many_directories()).config(|config| {
            config.index_storage = storage;
        });
        world.built();
        // These budgets are 200 ms and 20,000 ms. The clock advances 1 ms each time it is read.
        let (short, long) = (0.000_02, 0.002);
        for (fraction, is_used) in [(0.0, false), (short, false), (long, true), (1.0, true)] {
            let world = World {
                setup: world.setup.clone(),
                tree: Tree::existing(world.tree.root()),
                cache: world.cache.clone(),
            };
            let world = world.config(|config| config.index_maint_budget_fraction = fraction);
            let request = endless("needle");
            let found = search(&world.open(), TickingClock::new(), request.clone());
            if !is_used {
                check_out_of_time(&world, found, &request);
                continue;
            }
            let stats = found.stats.unwrap();
            assert_eq!(
                stats.index_safety_state, "COMPLETE",
                "{fraction}: {stats:?}"
            );
            assert!(stats.index_exclusion_used, "{fraction}: {stats:?}");
        }
        // A search of another directory compares only that directory.
        let world = world.config(|config| config.index_maint_budget_fraction = short);
        let request = json!({"pattern": "needle", "timeout_ms": 10_000_000, "path": "a/b"});
        let opened = world.open();
        let found = search(&opened, TickingClock::new(), request);
        assert!(found.stats.unwrap().index_exclusion_used);
    }
}

#[test]
fn all_attempts_of_a_call_share_one_budget() {
    let world = World::over(many_directories()).config(|config| {
        config.fuzzy_fallback = true;
        config.fuzzy_fallback_levels = vec![1, 2];
    });
    world.tree.file("long.txt", "a most unusual haystack\n");
    world.built();
    let mut states = Vec::new();
    // A comparison reads the clock at least 400 times, and there are three. The call that waits for
    // a comparison also reads the clock, some hundred times if the machine is busy.
    for fraction in [0.000_048, 0.000_1, 0.000_3] {
        let mut setup = world.setup.clone();
        setup.config.index_maint_budget_fraction = fraction;
        let (tool, context) = setup.indexing_tool();
        let opened = Opened { tool, context };
        // The pattern matches within two edits, and not within one.
        let request = json!({"pattern": "a most XXusual haystack", "fixed_strings": true, "timeout_ms": 10_000_000});
        let found = search(&opened, TickingClock::new(), request);
        assert_eq!(found.count, 1, "{found:?}");
        let stats = found.stats.unwrap();
        assert_eq!(stats.fuzzy_levels_tried, [1, 2]);
        states.push((stats.index_safety_state, stats.index_uncertain_reason));
    }
    let exceeded = || {
        let reason = Some("MAINT_BUDGET_EXCEEDED".to_string());
        ("UNCERTAIN".to_string(), reason)
    };
    let complete = ("COMPLETE".to_string(), None);
    assert_eq!(states, [exceeded(), exceeded(), complete]);
}

/// The budgets of a build count only for builds that no caller waits for.
#[test]
fn a_build_that_somebody_waits_for_has_no_budget() {
    let world = World::new().config(|config| {
        config.index_build_max_files = 1;
        config.index_build_max_bytes = 1;
        config.index_build_timeout_ms = 1;
    });
    let opened = world.open();
    // `ensure` is the way of `--index on` and `call --wait-index`; `build` is the way of
    // `index build`.
    assert_eq!(opened.ensure(), [true]);
    world.check_used(&opened, &needle());
    assert_eq!(opened.build()[0].unfinished, None);
    world.check_used(&opened, &needle());
}

/// With `index_frozen`, the user guarantees that the tree does not change. So no comparison is
/// made.
#[test]
fn a_frozen_tree_needs_no_maintenance() {
    let world = World::over(many_directories()).config(|config| {
        config.index_frozen = true;
        config.index_maint_budget_fraction = 0.0;
    });
    let opened = world.built();
    let found = search(&opened, TickingClock::new(), endless("needle"));
    assert!(found.stats.unwrap().index_exclusion_used);
    // The same holds if the index has to be opened first, without a lock of another process.
    let found = search(&world.open(), TickingClock::new(), endless("needle"));
    assert!(found.stats.unwrap().index_exclusion_used);
}
