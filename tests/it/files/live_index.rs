//! Tests the verification rows of the tool (SFI §6) with live indexes. The test controls the clock
//! and the file watcher.

use std::time::{Duration, Instant};

use forge_search::internal::index::pace::Activity;
use forge_search::internal::index::watch::FsEvent;
use forge_search::internal::tool::config::IndexStorage;
use forge_search::internal::tool::indexing::LiveEnvironment;

use super::*;
use crate::clocks::{FakeClock, Gate, until};
use crate::hooked_engines::Hooked;
use crate::live_index::double::{Hands, Hearing, Watchers};
use crate::live_index::patient;
use crate::support::GUARD;

const FILES: [(&str, &str); 4] = [
    ("a/one.txt", "a needle in a haystack\nneedle\n"),
    ("a/two.txt", "nothing but straw\n"),
    ("b/three.rs", "fn thread() {}\n"),
    ("four.txt", "the last straw\n"),
];

/// A tree with a live index.
struct World {
    tree: Tree,
    files: Files,
    watchers: Arc<Watchers>,
    hands: Arc<Hands>,
}

impl World {
    fn new(storage: IndexStorage, change: impl FnOnce(&mut Config)) -> World {
        let tree = Tree::of(FILES);
        let files = Files::new(tree.root()).config(|config| {
            config.search_files.index_watch_debounce_ms = 5;
            config.search.index_idle_boost_ms = 0;
            patient(&mut config.search);
            config.search_files.default_timeout_ms = 600_000;
        });
        let files = files
            .config(change)
            .with_indexes(Variant { storage, ..LIVE });
        let world = World {
            tree,
            files,
            watchers: Arc::default(),
            hands: Arc::default(),
        };
        let hands = world.hands.clone();
        let around = LiveEnvironment {
            activity: Arc::new(Activity::new(hands.clone())),
            wall: Arc::new(move || hands.wall_ns()),
            watchers: Arc::new(Hearing(world.watchers.clone())),
            watcher_patience: GUARD,
            ..LiveEnvironment::new(world.files.context().sandbox.reach().clone())
        };
        let config = FilesTool::search_config(&world.files.config);
        world.hands.wakes(world.files.indexes());
        world.files.indexes().live(&config, &around).unwrap();
        world
    }

    fn complete(storage: IndexStorage) -> World {
        let world = World::new(storage, |_| {});
        world.until("COMPLETE");
        world
    }

    #[track_caller]
    fn until(&self, state: &str) {
        let start = Instant::now();
        loop {
            let report = self.files.indexes().live_report(self.tree.root()).unwrap();
            if report.index_state.state().as_str() == state
                && (report.dirty, report.unread) == (0, 0)
            {
                return;
            }
            assert!(start.elapsed() < GUARD, "{state}: {report:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Searches, and checks that the answer is the same without an index.
    #[track_caller]
    fn find(&self, query: &str) -> (Vec<String>, IndexStats) {
        let request = json!({"path": ".", "query": query});
        let (response, stats) = self.files.ask(request);
        (response.matches.iter().map(compact).collect(), stats)
    }

    fn handle(&self, path: &str) {
        self.watchers.handle(FsEvent::File(path.into()));
    }
}

/// Every kind of index storage.
const STORAGES: &[IndexStorage] = &[
    IndexStorage::Memory,
    IndexStorage::Mmap,
    #[cfg(feature = "sqlite")]
    IndexStorage::Sqlite,
];

#[test]
fn an_answer_without_an_index_is_that_of_a_full_scan() {
    let tree = Tree::of(FILES);
    let files = Files::new(tree.root());
    assert!(!files.config.search_files.fuzzy_fallback);
    assert_eq!(files.config.search_files.index_mode, IndexMode::Off);
    let sandbox = files.context().sandbox;
    let places = CachePlaces::default();
    let none = FilesTool::indexes_for(&files.config, &files.engines, &sandbox, &places);
    assert!(none.is_none(), "nothing is indexed or watched");
    let response = files.search(json!({"path": ".", "query": "needle"}));
    assert_eq!(response.stats.index, None);
    // A simple reference: the test looks at each line of each file.
    let mut expected = Vec::new();
    for (path, text) in FILES {
        for (number, line) in (1..).zip(text.lines()) {
            for (at, _) in line.match_indices("needle") {
                expected.push((path.to_string(), number, at as u64 + 1));
            }
        }
    }
    let found = response.matches.iter();
    let found: Vec<_> = found
        .map(|one| (one.path.clone(), one.line, one.column))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(response.stats.files_scanned, FILES.len() as u64);
}

#[test]
fn a_tree_below_the_thresholds_is_not_indexed_in_auto_mode() {
    let world = World::new(IndexStorage::Memory, |config| {
        config.search_files.index_mode = IndexMode::Auto;
        config.search_files.index_auto_threshold_files = FILES.len() as u64;
    });
    world.until("DISABLED");
    let (found, stats) = world.find("needle");
    assert_eq!(found.len(), 2);
    assert!(!stats.index_exclusion_used, "{stats:?}");
    assert_eq!(
        stats.index_uncertain_reason.as_deref(),
        Some("BELOW_THRESHOLD")
    );
}

#[test]
fn a_tree_above_a_threshold_is_indexed_in_auto_mode() {
    let by_files = |config: &mut Config| {
        config.search_files.index_auto_threshold_files = FILES.len() as u64 - 1;
    };
    let by_bytes = |config: &mut Config| config.search_files.index_auto_threshold_bytes = 20;
    for change in [&by_files as &dyn Fn(&mut Config), &by_bytes] {
        let world = World::new(IndexStorage::Memory, |config| {
            config.search_files.index_mode = IndexMode::Auto;
            change(config);
        });
        world.until("COMPLETE");
        let (found, stats) = world.find("needle");
        assert_eq!(found.len(), 2);
        assert!(stats.index_exclusion_used, "{stats:?}");
        assert_eq!((stats.candidates_total, stats.candidates_excluded), (4, 3));
    }
}

#[test]
fn a_changed_file_is_searched_and_indexed_again() {
    for &storage in STORAGES {
        let world = World::complete(storage);
        assert_eq!(world.find("pitchfork").0.len(), 0);
        world.tree.file("a/two.txt", "a pitchfork\n");
        world.handle("a/two.txt");
        let (found, _) = world.find("pitchfork");
        assert_eq!(found, ["a/two.txt:1:3:pitchfork|a pitchfork"]);
        world.until("COMPLETE");
        let (found, stats) = world.find("straw");
        assert_eq!(found, ["four.txt:1:10:straw|the last straw"]);
        assert_eq!(stats.candidates_excluded, 3, "{stats:?}");
    }
}

#[test]
fn a_file_that_became_too_large_is_an_error_with_an_index_too() {
    let world = World::complete(IndexStorage::Memory);
    world.tree.file("a/two.txt", "x".repeat(300));
    world.tree.file("new.txt", "x".repeat(300));
    for path in ["a/two.txt", "new.txt"] {
        world.handle(path);
    }
    let request = json!({"path": ".", "query": "needle", "max_file_size_bytes": 200});
    let large = ["a/two.txt", "new.txt"];
    // Once immediately, and once after the files are in the index.
    for _ in 0..2 {
        let (response, _) = world.files.ask(request.clone());
        let paths: Vec<&str> = response.errors.iter().map(|error| &*error.path).collect();
        assert_eq!(paths, large);
        assert_eq!(response.returned, 2);
        world.until("COMPLETE");
    }
    let (_, stats) = world.files.ask(request);
    assert!(stats.index_exclusion_used, "{stats:?}");
}

#[test]
fn a_deleted_file_leaves_the_index() {
    for &storage in STORAGES {
        let world = World::complete(storage);
        std::fs::remove_file(world.tree.path("a/one.txt")).unwrap();
        world.handle("a/one.txt");
        assert_eq!(world.find("needle").0, [""; 0]);
        world.until("COMPLETE");
        let (found, stats) = world.find("needle");
        assert_eq!(found, [""; 0]);
        assert_eq!((stats.candidates_total, stats.candidates_excluded), (3, 3));
    }
}

#[test]
fn the_tree_is_compared_after_an_overflow() {
    let world = World::complete(IndexStorage::Memory);
    // The watcher sends no events for these edits.
    world.tree.file("b/new.txt", "a needle more\n");
    std::fs::remove_file(world.tree.path("four.txt")).unwrap();
    world.watchers.handle(FsEvent::Overflow);
    let (found, _) = world.find("needle");
    assert_eq!(found.len(), 3);
    world.until("COMPLETE");
    let (found, stats) = world.find("straw");
    assert_eq!(found, ["a/two.txt:1:13:straw|nothing but straw"]);
    assert!(stats.index_exclusion_used, "{stats:?}");
    assert_eq!(stats.candidates_total, 4);
}

#[test]
fn a_damaged_index_does_not_fail_a_call_of_search_files() {
    let tree = Tree::of(FILES);
    let files = Files::new(tree.root()).indexed(Variant {
        storage: IndexStorage::Mmap,
        ..LIVE
    });
    let request = json!({"path": ".", "query": "needle"});
    assert!(files.ask(request.clone()).1.index_exclusion_used);
    let listed = files.indexes().store().unwrap().list().unwrap();
    let mut damaged = 0;
    for entry in fs::read_dir(&listed[0].dir).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        for byte in &mut bytes {
            *byte ^= 0x55;
        }
        damaged += usize::from(!bytes.is_empty());
        fs::write(&path, bytes).unwrap();
    }
    assert!(damaged > 1);
    let sandbox = files.context().sandbox;
    let places = CachePlaces::default();
    let again = FilesTool::indexes_for(&files.config, &files.engines, &sandbox, &places);
    let reopened = Files {
        indexes: again.map(Arc::new),
        ..files.clone()
    };
    for files in [&files, &reopened] {
        let (response, stats) = files.ask(request.clone());
        assert_eq!(response.returned, 2);
        assert!(!stats.index_exclusion_used, "{stats:?}");
        assert_eq!(stats.index_safety_state, "CORRUPT");
    }
}

#[test]
fn a_search_without_fallback_is_exact_only() {
    let tree = Tree::of(FILES);
    let files = Files::new(tree.root());
    let response = files.search(json!({"path": ".", "query": "neadle"}));
    assert_eq!(
        (response.returned, response.stats.fallback.as_ref()),
        (0, None)
    );
    assert!(response.to_json().contains(r#""mode":"exact""#));
}

#[test]
fn an_exact_search_without_matches_is_repeated_up_to_the_passes() {
    let tree = Tree::of(FILES);
    for passes in [1, 2, 5] {
        let files = Files::new(tree.root()).config(|config| {
            config.search_files.fuzzy_fallback = true;
            config.search_files.fuzzy_passes = passes;
            config.search_files.fuzzy_threshold_step = 0.0;
        });
        let response = files.search(json!({"path": ".", "query": "nothing like it"}));
        let fallback = response.stats.fallback.clone().unwrap();
        assert_eq!(fallback.fuzzy_passes_used, passes);
        let stats = serde_json::to_value(&response.stats).unwrap();
        assert_eq!(stats["initial_mode"], "exact");
        assert_eq!(stats["fallback_used"], true);
        assert_eq!(stats["fuzzy_passes_used"], passes);
        assert!(response.to_json().contains(r#""mode":"exact""#));
    }
}

#[test]
fn a_pass_that_takes_too_long_ends_fallback_and_not_the_call() {
    // The exact search ends soon without matches. The search for similar text would take minutes.
    let tree = Tree::of([("a", "ab".repeat(8 << 20))]);
    let mut files = Files::new(tree.root()).config(|config| {
        config.search_files.fuzzy_fallback = true;
        config.search_files.fuzzy_threshold = 0.5;
        config.search_files.max_file_size_bytes = 64 << 20;
    });
    let (clock, begun) = (FakeClock::new(), Gate::default());
    let exact = begun.clone();
    files.engines = Hooked::new(move |_| {
        exact.open();
        Ok(())
    })
    .engines();
    let mut context = files.context();
    context.default_timeout = Some(Duration::from_secs(5));
    context.clock = Arc::new(clock.clone());
    let call = |query: String| {
        let request = json!({"path": ".", "query": query});
        files.tool().call(request, &context)
    };
    let ended = |response: FilesResponse| {
        assert_eq!((response.returned, response.truncated), (0, false));
        assert!(response.to_json().contains(r#""mode":"exact""#));
        let fallback = response.stats.fallback.unwrap();
        let ended = serde_json::to_value(fallback.fallback_ended).unwrap();
        (ended, fallback.fuzzy_passes_used)
    };
    // How often the exact search reads the clock depends on the scheduler, so each try waits
    // longer.
    let (start, mut looks) = (Instant::now(), 50);
    let response = loop {
        let response = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| call("n".repeat(500)));
            begun.wait();
            let before = clock.looks();
            until("it has gone on for a while", || {
                clock.looks() > before + looks
            });
            clock.jump(Duration::from_secs(5));
            waiting.join().unwrap()
        });
        // A call without time for its exact search fails.
        match response {
            Ok(response) => {
                let fallback = response.stats.fallback.as_ref().unwrap();
                if fallback.fuzzy_passes_used > 0 {
                    break response;
                }
            }
            Err(error) => assert!(matches!(error, ToolError::Timeout { .. }), "{error}"),
        }
        assert!(start.elapsed() < GUARD, "{looks} looks");
        looks *= 2;
    };
    assert_eq!(ended(response), (json!("TIMEOUT"), 1));
    // The query is longer than fuzzy search allows.
    let response = call("n".repeat(600)).unwrap();
    assert_eq!(ended(response), (json!("QUERY_TOO_LONG"), 0));
}

#[test]
fn the_first_fallback_pass_with_matches_is_the_last() {
    let world = World::new(IndexStorage::Memory, |config| {
        config.search_files.fuzzy_fallback = true;
        config.search_files.fuzzy_passes = 5;
    });
    world.until("COMPLETE");
    // A threshold of 0.8 excludes the line, and 0.7 finds it.
    let request = json!({"path": ".", "query": "haxstaxk"});
    let (response, _) = world.files.ask(request);
    assert_eq!(
        response.matches.iter().map(compact).collect::<Vec<_>>(),
        ["a/one.txt:1:15:haystack|a needle in a haystack ~0.75"]
    );
    assert!(response.to_json().contains(r#""mode":"fuzzy""#));
    let fallback = response.stats.fallback.unwrap();
    assert_eq!(fallback.fuzzy_passes_used, 2);
}

#[test]
fn a_similarity_search_excludes_only_files_that_provably_can_not_match() {
    let world = World::complete(IndexStorage::Memory);
    // Two edits in the first query are a score of about 0.9. Nine characters suffice for the edits
    // that a score of 0.8 allows, and five do not.
    for (query, used) in [
        ("a needxe in a haystaxk", true),
        ("haystack!", true),
        ("needk", false),
    ] {
        let request = json!({"path": ".", "query": query, "mode": "fuzzy"});
        let (response, stats) = world.files.ask(request);
        assert_eq!(response.stats.files_matched, 1, "{query}");
        assert_eq!(stats.index_exclusion_used, used, "{query}: {stats:?}");
        assert_eq!(
            stats.candidates_excluded,
            if used { 3 } else { 0 },
            "{query}"
        );
    }
}

#[test]
fn options_that_decide_which_files_are_eligible_make_another_index() {
    let tree = Tree::of(FILES);
    tree.file(".gitignore", "two.txt\n").dir(".git");
    let files = Files::new(tree.root()).indexed(Variant {
        storage: IndexStorage::Mmap,
        ..LIVE
    });
    let ask = |files: &Files, extra: Value| {
        let mut request = json!({"path": ".", "query": "straw"});
        let fields = request.as_object_mut().unwrap();
        fields.extend(extra.as_object().unwrap().clone());
        files.ask(request)
    };
    assert!(ask(&files, json!({})).1.index_exclusion_used);
    // Globs and depth don't need another index.
    for extra in [
        json!({"include_globs": ["*.txt"]}),
        json!({"exclude_globs": ["a/"]}),
        json!({"max_depth": 1}),
        json!({"recursive": false}),
        json!({"max_files": 1}),
        json!({"max_file_size_bytes": 5}),
    ] {
        let (_, stats) = ask(&files, extra.clone());
        assert!(stats.index_exclusion_used, "{extra}: {stats:?}");
    }
    for (extra, hits) in [
        (json!({"include_hidden": true}), 1),
        (json!({"respect_gitignore": false}), 2),
        (json!({"follow_symlinks": true}), 1),
    ] {
        let (response, stats) = ask(&files, extra.clone());
        assert_eq!(response.returned, hits, "{extra}");
        assert!(!stats.index_exclusion_used, "{extra}: {stats:?}");
    }
    let change: [fn(&mut Config); 2] = [
        |config| config.search_files.include_hidden = true,
        |config| config.search_files.respect_gitignore = false,
    ];
    for change in change {
        let other = files.clone().config(change);
        let sandbox = other.context().sandbox;
        let places = CachePlaces::default();
        let indexes = FilesTool::indexes_for(&other.config, &other.engines, &sandbox, &places);
        let other = Files {
            indexes: indexes.map(Arc::new),
            ..other
        };
        let (_, stats) = ask(&other, json!({}));
        assert_eq!(stats.index_safety_state, "ABSENT");
        for root in other.indexes().roots() {
            other
                .indexes()
                .build(root, sandbox.reach(), &Host::hasty())
                .unwrap();
        }
        assert!(ask(&other, json!({})).1.index_exclusion_used);
    }
    assert_eq!(files.indexes().store().unwrap().list().unwrap().len(), 3);
}

#[test]
fn an_ignore_file_that_changes_is_reconciled_by_the_next_call() {
    let tree = Tree::of(FILES);
    tree.dir(".git");
    let files = Files::new(tree.root()).indexed(LIVE);
    let request = json!({"path": ".", "query": "straw"});
    assert!(files.ask(request.clone()).1.index_exclusion_used);
    tree.file(".gitignore", "two.txt\n");
    let (response, stats) = files.ask(request);
    assert_eq!(response.returned, 1);
    assert!(stats.index_exclusion_used, "{stats:?}");
}
