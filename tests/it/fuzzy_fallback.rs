//! Fuzzy fallback (LSI §9): when a literal without a match is searched approximately, and how the
//! answer reports it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forge_search::internal::tool::request::SearchRequest;
use forge_search::internal::tool::response::{SearchResponse, Stats};
use serde_json::{Value, json};

use crate::clocks::{FakeClock, Gate, until};
use crate::hooked_engines::{Hooked, broken};
use crate::index_support::{Host, LIVE, compare};
use crate::support::{Setup, Tree, engines, events, stable_json};

/// Lines one and two edits away from `needle`, and no line with `needle` itself.
fn near() -> Tree {
    Tree::of([
        ("one.txt", "straw\nthe neadle of a compass\nstraw\n"),
        ("two.txt", "a noodle\n"),
        ("none.txt", "nothing but straw\n"),
    ])
}

fn falling_back(tree: &Tree) -> Setup {
    tree.setup().config(|config| {
        config.fuzzy_fallback = true;
        config.emit_stats = true;
    })
}

fn literal(pattern: &str) -> Value {
    json!({"pattern": pattern, "fixed_strings": true})
}

/// Returns the response without its `stats`, and the `stats`.
fn ask(setup: &Setup, request: Value) -> (SearchResponse, Stats) {
    let mut response = setup.search(request);
    let stats = response.stats.take().unwrap();
    (response, stats)
}

/// Asserts that no approximate search ran.
#[track_caller]
fn check_unused(stats: &Stats) {
    assert!(!stats.fallback_used);
    assert_eq!(stats.fallback_reason, None);
    assert!(stats.fuzzy_levels_tried.is_empty());
    assert_eq!(stats.fallback_passes_skipped, 0);
}

#[test]
fn fuzzy_fallback_is_off_by_default() {
    let tree = near();
    let setup = tree.setup().config(|config| config.emit_stats = true);
    let (response, stats) = ask(&setup, literal("needle"));
    assert_eq!((response.count, response.exit_code), (0, Some(1)));
    check_unused(&stats);
    assert_eq!(stats.fallback_skipped_reason, None);
}

#[test]
fn fuzzy_levels_are_tried_in_order_until_one_has_a_match() {
    let tree = near();
    for (name, engines) in engines() {
        if name == "rg" {
            continue;
        }
        for (pattern, tried, found) in [
            (
                "needle",
                &[1][..],
                "one.txt:2:5:neadle|the neadle of a compass",
            ),
            ("noddel", &[1, 2], "two.txt:1:3:noodl|a noodle"),
        ] {
            let mut setup = falling_back(&tree);
            setup.engines = engines.clone();
            let (response, stats) = ask(&setup, literal(pattern));
            let fuzzy = json!({"pattern": pattern, "fixed_strings": true, "fuzzy": tried.len()});
            let (asked, _) = ask(&setup, fuzzy);
            assert_eq!(stats.fuzzy_levels_tried, tried, "{name} {pattern}");
            assert!(stats.fallback_used, "{name}");
            let reason = stats.fallback_reason.as_deref();
            assert_eq!(reason, Some("LITERAL_NO_MATCHES"));
            assert_eq!(stats.fallback_skipped_reason, None);
            assert_eq!(events(&response), events(&asked), "{name}");
            if name == "embedded" {
                assert_eq!(events(&response), [found]);
            }
            assert_eq!((response.count, response.exit_code), (1, Some(0)));
            assert!(!response.truncated && !response.timed_out);
            // The answer tells readers that its matches are approximate.
            let note = format!("within {} edit", tried.len());
            assert!(response.content.contains(&note), "{}", response.content);
            assert!(!asked.content.contains("edit"), "{}", asked.content);
        }
    }
}

#[test]
fn fuzzy_levels_are_tried_in_the_configured_order() {
    let tree = near();
    for (levels, tried) in [
        (vec![2, 1], vec![2]),
        (vec![4], vec![4]),
        (vec![1], vec![1]),
    ] {
        let setup = falling_back(&tree).config(|config| config.fuzzy_fallback_levels = levels);
        let (response, stats) = ask(&setup, literal("needle"));
        assert_eq!(stats.fuzzy_levels_tried, tried);
        assert_eq!(response.count, if tried == [1] { 1 } else { 2 });
    }
    let (response, stats) = ask(&falling_back(&tree), literal("chrysanthemum"));
    assert_eq!(stats.fuzzy_levels_tried, [1, 2, 3]);
    assert!(stats.fallback_used);
    assert_eq!((response.count, response.exit_code), (0, Some(1)));
    assert_eq!(response.content, "");
    // Apart from `stats`, the answer is the same as without fallback.
    let (without, _) = ask(
        &tree.setup().config(|config| config.emit_stats = true),
        literal("chrysanthemum"),
    );
    assert_eq!(stable_json(&response), stable_json(&without));
}

#[test]
fn only_literals_without_a_level_fall_back() {
    let tree = near();
    let setup = falling_back(&tree);
    for request in [
        json!({"pattern": "needle"}),
        json!({"pattern": "chrysanthemum", "fixed_strings": true, "fuzzy": 1}),
        // The literal itself has matches.
        json!({"pattern": "straw", "fixed_strings": true}),
        json!({"pattern": "straw", "fixed_strings": true, "max_results": 1}),
        // The search was cut, so it is unknown whether the literal has a match.
        json!({"pattern": "needle", "fixed_strings": true, "max_files": 1}),
    ] {
        let (response, stats) = ask(&setup, request.clone());
        check_unused(&stats);
        assert_eq!(stats.fallback_skipped_reason, None, "{request}");
        assert!(!response.content.contains("edit"), "{request}");
    }
    // With `word_regexp`, whole words are compared.
    let word = |pattern| json!({"pattern": pattern, "fixed_strings": true, "word_regexp": true});
    let (response, stats) = ask(&setup, word("needle"));
    assert_eq!((response.count, stats.fuzzy_levels_tried), (1, vec![1]));
    let (response, stats) = ask(&setup, word("compa"));
    assert_eq!((response.count, stats.fuzzy_levels_tried), (1, vec![1, 2]));
}

#[test]
fn short_patterns_are_not_looked_for_approximately() {
    let tree = near();
    let (response, stats) = ask(&falling_back(&tree), literal("né-"));
    check_unused(&stats);
    assert_eq!(response.count, 0);
    let reason = |stats: &Stats| stats.fallback_skipped_reason.clone();
    assert_eq!(reason(&stats).as_deref(), Some("PATTERN_TOO_SHORT"));
    // The minimum length is in characters, not bytes.
    let setup = falling_back(&tree).config(|config| config.fuzzy_min_pattern_len = 3);
    let (_, stats) = ask(&setup, literal("öß"));
    assert_eq!(reason(&stats).as_deref(), Some("PATTERN_TOO_SHORT"));
    let (response, stats) = ask(&setup, literal("stö"));
    assert_eq!(
        (response.count, stats.fuzzy_levels_tried.clone()),
        (3, vec![1])
    );
    assert_eq!(reason(&stats), None);
    // A level with as many edits as the pattern has characters is skipped: every line would match.
    let (response, stats) = ask(&setup, literal("ZZZ"));
    assert_eq!(
        (response.count, stats.fuzzy_levels_tried.clone()),
        (0, vec![1, 2])
    );
    assert_eq!(reason(&stats).as_deref(), Some("PATTERN_TOO_SHORT"));
}

#[test]
fn fallback_attempts_honor_the_request() {
    let tree = Tree::of([
        ("a.rs", "x\nNEADLE\ny\n"),
        ("a.txt", "neadle\n"),
        (".hidden.rs", "neadle\n"),
        (".ignore", "ignored.rs\n"),
        ("ignored.rs", "neadle\n"),
        ("sub/b.rs", "neadle neodle\nneadle\n"),
    ]);
    let setup = falling_back(&tree);
    let base = json!({"pattern": "needle", "fixed_strings": true, "include_glob": ["*.rs"]});
    let paths = |changes: Value| {
        let mut request = base.clone();
        for (key, value) in changes.as_object().unwrap() {
            request[key] = value.clone();
        }
        let (response, stats) = ask(&setup, request.clone());
        assert_eq!(stats.fuzzy_levels_tried, [1], "{request}");
        request["fuzzy"] = 1.into();
        let (asked, _) = ask(&setup, request);
        assert_eq!(response.matches, asked.matches);
        assert_eq!(
            (response.truncated, response.files_scanned, &response.path),
            (asked.truncated, asked.files_scanned, &asked.path)
        );
        events(&response)
    };
    let (a, b) = (
        "a.rs:2:1:NEADLE|NEADLE",
        "sub/b.rs:1:1:neadle|neadle neodle",
    );
    let second = "sub/b.rs:2:1:neadle|neadle";
    assert_eq!(paths(json!({})), [a, b, second]);
    assert_eq!(paths(json!({"case": "sensitive"})), [b, second]);
    assert_eq!(paths(json!({"hidden": true})).len(), 4);
    assert_eq!(paths(json!({"no_ignore": true})).len(), 4);
    assert_eq!(paths(json!({"recursive": false})), [a]);
    assert_eq!(paths(json!({"path": "sub"})), [b, second]);
    assert_eq!(paths(json!({"max_results": 1})), [a]);
    assert_eq!(paths(json!({"max_matches_per_file": 1})), [a, b]);
    assert_eq!(paths(json!({"context": 1})).len(), 5);
}

/// Answers a request with a clock that advances by `step` before each file. Returns the response,
/// its stats, and the number of searched files.
fn stepping(tree: &Tree, step: Duration, timeout_ms: u64) -> (SearchResponse, Stats, usize) {
    let (clock, over) = (FakeClock::new(), Gate::default());
    let (hands, ended) = (clock.clone(), over.clone());
    let searched = Arc::new(AtomicUsize::new(0));
    let counted = searched.clone();
    let mut setup = falling_back(tree).threads(1);
    setup.engines = Hooked::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        hands.jump(step);
        let looks = hands.looks();
        // A call that has its answer does not read the clock any more.
        until("the call has looked at the clock", || {
            hands.looks() > looks + 2 || ended.is_open()
        });
        Ok(())
    })
    .batching(1, 1)
    .engines();
    let mut context = setup.context();
    context.clock = Arc::new(clock);
    let mut request = literal("chrysanthemum");
    request["timeout_ms"] = timeout_ms.into();
    let request = SearchRequest::from_value(request).unwrap();
    let mut response = setup.tool().search(&request, &context).unwrap();
    over.open();
    let stats = response.stats.take().unwrap();
    (response, stats, searched.load(Ordering::SeqCst))
}

#[test]
fn all_fallback_attempts_share_the_timeout_of_the_request() {
    let tree = Tree::of([("a", "x\n"), ("b", "x\n")]);
    let second = Duration::from_secs(1);
    // Two files and four searches take eight seconds.
    let (response, stats, searched) = stepping(&tree, second, 8_500);
    assert!(!response.timed_out);
    assert_eq!(
        (stats.fuzzy_levels_tried.clone(), searched),
        (vec![1, 2, 3], 8)
    );
    assert_eq!(
        (stats.fallback_passes_skipped, stats.elapsed_ms),
        (0, 8_000)
    );
    // The time ends in the middle of the second attempt.
    let (response, stats, searched) = stepping(&tree, second, 5_000);
    assert!(response.timed_out);
    assert!(response.content.contains("timed out after 5000 ms"));
    assert_eq!(stats.fuzzy_levels_tried, [1, 2]);
    assert_eq!((stats.fallback_passes_skipped, searched), (1, 5));
    // No time is left for an attempt, but the literal itself was searched everywhere.
    let (response, stats, searched) = stepping(&tree, second, 1_999);
    assert!(searched == 2 && (response.timed_out || stats.fallback_passes_skipped == 3));
    assert!(stats.fuzzy_levels_tried.is_empty() && !stats.fallback_used);
}

#[test]
fn context_alone_is_no_match() {
    // The first event of level 1 is the line before the match, and the limit cuts off the match.
    let tree = Tree::of([("a", "noodle\n"), ("b", "straw\nneadle\n")]);
    let mut request = literal("needle");
    request["context"] = 1.into();
    request["max_results"] = 1.into();
    let (response, stats) = ask(&falling_back(&tree), request.clone());
    assert_eq!(stats.fuzzy_levels_tried, [1, 2]);
    assert_eq!(events(&response), ["a:1:1:noodle|noodle"]);
    let setup = falling_back(&tree).config(|config| config.fuzzy_fallback_levels = vec![1]);
    let (response, stats) = ask(&setup, request);
    assert_eq!(stats.fuzzy_levels_tried, [1]);
    assert_eq!((response.count, response.exit_code), (0, Some(1)));
}

/// Also covers FR-LSI-EXIT-03, FR-LSI-FUZ-03 and FR-LSI-FUZ-04.
#[test]
fn only_a_search_that_found_nothing_is_repeated() {
    let tree = near();
    // A search that fails returns an error.
    let mut setup = falling_back(&tree).threads(1);
    setup.engines = Hooked::new(|_| Err(broken())).engines();
    let error = setup.call(literal("needle")).unwrap_err();
    assert_eq!(error.code(), "execution_failed");
    // An attempt that fails does not change the answer of the exact search.
    let calls = Arc::new(Mutex::new(0));
    let counted = calls.clone();
    setup.engines = Hooked::new(move |_| {
        let mut calls = counted.lock().unwrap();
        *calls += 1;
        if *calls > 1 { Err(broken()) } else { Ok(()) }
    })
    .batching(100, 100)
    .engines();
    let (response, stats) = ask(&setup, literal("needle"));
    assert_eq!((response.count, response.exit_code), (0, Some(1)));
    assert_eq!(stats.fuzzy_levels_tried, [1]);
    assert_eq!(*calls.lock().unwrap(), 2);
}

#[test]
fn an_engine_without_fuzzy_search_has_no_fallback() {
    let tree = near();
    for (name, engines) in engines() {
        let mut setup = falling_back(&tree);
        let capable = name != "rg";
        setup.engines = engines;
        let (response, stats) = ask(&setup, literal("needle"));
        assert_eq!(stats.fallback_used, capable, "{name}");
        if !capable {
            check_unused(&stats);
            let reason = stats.fallback_skipped_reason.as_deref();
            assert_eq!(reason, Some("CAPABILITY_MISSING"), "{name}");
            assert_eq!(response.count, 0);
        }
    }
}

#[test]
fn fuzzy_fallback_is_the_same_with_an_index() {
    let tree = near();
    let setup = falling_back(&tree).with_indexes(LIVE);
    setup.build(&Host::patient());
    for (pattern, used) in [("needle", 1), ("chrysanthemum", 1), ("noddel", 0)] {
        let (tally, response) = compare(&setup, &literal(pattern));
        assert_eq!(tally.used, used, "{pattern}");
        assert!(response.is_some());
    }
}
