//! Tests the verification rows of the indexing specification that concern the tool without an
//! index.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::clocks::{FakeClock, Gate, ends, until};
use crate::hooked_engines::{Hooked, broken};
use crate::support::{Setup, Tree, engines, events, paths, stable_json};
use crate::verification::many_files;

#[test]
fn a_response_without_an_index_has_the_fields_of_the_tool() {
    let tree = many_files();
    let response = tree.search(json!({"pattern": "needle 17$"}));
    let value = response.to_value();
    let fields: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        [
            "content",
            "count",
            "errors",
            "exit_code",
            "files_scanned",
            "matches",
            "path",
            "pattern",
            "timed_out",
            "truncated"
        ],
        "the fields of the contract and nothing else"
    );
    let setup = tree.setup().config(|config| config.emit_stats = true);
    let mut with_stats = setup.search(json!({"pattern": "needle 17$"}));
    let stats = with_stats.stats.take().unwrap();
    assert_eq!(stats.index_safety_state, "DISABLED");
    assert!(!stats.index_exclusion_used && !stats.fallback_used);
    assert_eq!(
        (stats.candidates_excluded, stats.candidates_scanned),
        (0, 300)
    );
    assert_eq!(with_stats, response);
}

#[test]
fn a_repeated_request_gives_the_same_answer() {
    let tree = many_files();
    for max_results in [1, 7, 250] {
        let request = json!({"pattern": "needle", "max_results": max_results, "context": 2});
        let first = tree.search(request.clone());
        for threads in [1, 2, 3, 8, 8, 8] {
            let again = tree.setup().threads(threads).search(request.clone());
            assert_eq!(
                stable_json(&again),
                stable_json(&first),
                "{threads} threads"
            );
        }
    }
}

/// An engine with delays, so that later files may be finished first. The order differs at each
/// call.
fn shuffling() -> Hooked {
    let calls = AtomicUsize::new(0);
    Hooked::new(move |_| {
        let n = calls.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros((n * 7919 % 13) as u64 * 100));
        Ok(())
    })
}

#[test]
fn work_that_finishes_out_of_order_changes_no_answer() {
    let tree = many_files();
    let request = json!({"pattern": "needle", "max_results": 450, "context": 1});
    let expected = stable_json(&tree.setup().threads(1).search(request.clone()));
    let engine = shuffling();
    for _ in 0..5 {
        let mut setup = tree.setup().threads(8);
        setup.engines = engine.clone().engines();
        assert_eq!(stable_json(&setup.search(request.clone())), expected);
    }
}

#[test]
fn composed_and_decomposed_forms_do_not_match_each_other() {
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
    let text = format!("{composed}\n{decomposed}\n");
    let tree = Tree::of([(composed, &text), (decomposed, &text), ("cafz", &text)]);
    let lines = |pattern: &str| {
        let response = tree.search(json!({"pattern": pattern}));
        assert_eq!(paths(&response), ["cafz", decomposed, composed]);
        let lines: Vec<u64> = response
            .matches
            .iter()
            .map(|m| m.data.line_number)
            .collect();
        lines
    };
    // Patterns match bytes as they are. Names are sorted by their composed form.
    assert_eq!(lines(composed), [1, 1, 1]);
    assert_eq!(lines(decomposed), [2, 2, 2]);
}

#[test]
fn smart_case_folds_no_letters_beyond_ascii() {
    let tree = Tree::of([("a", "ñandú\nÑANDÚ\nÑandú\n"), ("Ñ", "Ñandú")]);
    let found = |pattern: &str| events(&tree.search(json!({"pattern": pattern})));
    assert_eq!(
        found("Ñandú"),
        ["a:3:1:Ñandú|Ñandú", "Ñ:1:1:Ñandú|Ñandú"],
        "no letter beyond ASCII folds"
    );
    assert_eq!(
        found("Ñand"),
        ["a:2:1:ÑAND|ÑANDÚ", "a:3:1:Ñand|Ñandú", "Ñ:1:1:Ñand|Ñandú"]
    );
    assert_eq!(found("ÑAND"), ["a:2:1:ÑAND|ÑANDÚ"]);
}

#[test]
fn a_small_limit_with_context_cuts_exactly() {
    let tree = many_files();
    let all = tree.search(json!({"pattern": "needle", "context": 1, "max_results": 100_000}));
    assert!(!all.truncated);
    for max_results in [1usize, 2, 3, 4, 5, 6, 99, 1499, 1500] {
        let request = json!({"pattern": "needle", "context": 1, "max_results": max_results});
        let response = tree.search(request);
        assert_eq!(response.count, max_results);
        assert_eq!(response.matches, all.matches[..max_results]);
        assert_eq!(response.truncated, max_results < all.count);
    }
    assert_eq!(all.count, 1500);
}

#[test]
fn chunks_of_files_do_not_move_the_cut() {
    let tree = Tree::new();
    for n in 0..60 {
        // The matches are at both ends, so the contexts of neighbouring files would touch.
        tree.file(&format!("f{n:02}"), "m\na\nb\nm\n");
    }
    for max_results in [1, 39, 40, 41, 200, 1000] {
        let request = json!({"pattern": "m", "context": 1, "max_results": max_results});
        let expected = stable_json(&tree.setup().threads(1).search(request.clone()));
        for (min_files, max_files) in [(1, 1), (1, 2), (2, 3), (7, 7), (50, 1000), (1000, 1000)] {
            for threads in [1, 4] {
                let mut setup = tree.setup().threads(threads);
                setup.engines = shuffling().batching(min_files, max_files).engines();
                let found = setup.search(request.clone());
                assert_eq!(
                    stable_json(&found),
                    expected,
                    "chunks of {min_files} to {max_files}, {threads} threads"
                );
            }
        }
    }
}

#[test]
fn an_answer_with_exactly_max_results_is_whole() {
    let tree = Tree::of([("a", "x\nm\nx\n"), ("b", "x\nx\n"), ("c", "m")]);
    let response = tree.search(json!({"pattern": "m", "context": 1, "max_results": 4}));
    assert_eq!((response.count, response.truncated), (4, false));
    assert_eq!(response.files_scanned, 3);
    let response = tree.search(json!({"pattern": "m", "context": 1, "max_results": 3}));
    assert_eq!((response.count, response.truncated), (3, true));
    assert_eq!(
        response.files_scanned, 3,
        "the next event was looked for and found in the last file"
    );
}

#[test]
fn a_list_of_files_longer_than_any_command_line_is_searched() {
    // The paths have some 2.6 MB, more than the arguments of a process may have.
    let tree = Tree::new();
    let long = "x".repeat(200);
    for n in 0..12_000 {
        let text = if n % 1000 == 7 { "m\n" } else { "-\n" };
        tree.file(&format!("{:02}/{n:05}-{long}", n % 20), text);
    }
    let mut answers = Vec::new();
    for (name, engines) in engines() {
        let mut setup = tree.setup().generous();
        setup.engines = engines;
        let response = setup.search(json!({"pattern": "m"}));
        assert_eq!(
            (response.count, response.files_scanned),
            (12, 12_000),
            "{name}"
        );
        answers.push(stable_json(&response));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "every engine gives the same answer");
}

#[test]
fn no_matches_is_no_error_and_an_error_is_not_no_matches() {
    let tree = Tree::of([("a", "x")]);
    let response = tree.search(json!({"pattern": "m"}));
    assert_eq!((response.exit_code, response.count), (Some(1), 0));
    let mut setup = tree.setup();
    setup.engines = Hooked::new(|_| Err(broken())).engines();
    assert_eq!(
        setup.refused(json!({"pattern": "m"})).code(),
        "execution_failed"
    );
}

#[test]
fn a_timeout_is_reported_and_no_program_runs_after_it() {
    let tree = Tree::of([("a", "x"), ("b", "x")]);
    let (clock, gate) = (FakeClock::new(), Gate::default());
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, hands, held) = (calls.clone(), clock.clone(), gate.clone());
    let mut setup = tree.setup().threads(1).config(|config| {
        config.emit_stats = true;
        config.fuzzy_fallback = true;
    });
    setup.engines = Hooked::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        // The time runs out during the search of the first file. The search is held until the
        // answer has arrived.
        hands.jump(Duration::from_millis(20));
        held.wait();
        Ok(())
    })
    .batching(1, 1)
    .engines();
    let (tool, mut context) = (setup.tool(), setup.context());
    context.clock = Arc::new(clock);
    let request = json!({"pattern": "mmmm", "fixed_strings": true, "timeout_ms": 20});
    let response = ends(move || tool.call(request, &context).unwrap());
    assert!(response.timed_out);
    assert!(
        response.content.contains("timed out after 20 ms"),
        "{}",
        response.content
    );
    let stats = response.stats.unwrap();
    assert!(!stats.fallback_used && stats.fuzzy_levels_tried.is_empty());
    assert!(!gate.is_open());
    gate.open();
    drop(setup);
    // The worker was the last one to hold the engine.
    until("the worker has ended", || Arc::strong_count(&calls) == 1);
    assert_eq!(
        calls.load(Ordering::SeqCst),
        1,
        "no work is begun after the deadline"
    );
}

#[test]
fn a_file_with_a_line_feed_in_its_name_is_found() {
    let tree = Tree::of([
        (r"a\nb", "m\n"),
        (r"\n", "m\n"),
        (r"d\r\n/x", "m\n"),
        ("e", "m\n"),
    ]);
    let response = tree.search(json!({"pattern": "m"}));
    assert_eq!(paths(&response), ["\n", "a\nb", "d\r\n/x", "e"]);
    assert_eq!(
        response.content.lines().count(),
        4,
        "one line each, escaped"
    );
}

#[test]
fn files_with_names_that_are_not_utf8_are_found() {
    let names = [r"a\xFF", r"a\xFE", r"a\xC3", r"\xF0\x9F", r"z\x80/\x81"];
    let tree = Tree::of(names.map(|name| (name, format!("m {}\n", name.len()))));
    let response = tree.search(json!({"pattern": "m"}));
    assert_eq!(
        paths(&response),
        ["a\u{FFFD}", "z\u{FFFD}/\u{FFFD}", "\u{FFFD}"],
        "three names are shown alike, and stand together"
    );
    assert_eq!((response.count, response.errors.len()), (5, 0));
    for threads in [1, 2, 8] {
        let again = tree
            .setup()
            .threads(threads)
            .search(json!({"pattern": "m"}));
        assert_eq!(stable_json(&again), stable_json(&response));
    }
}

#[test]
fn one_name_in_two_forms_is_listed_as_two_files_once_each() {
    let tree = Tree::of([
        ("caf\u{e9}/a", "m"),
        ("cafe\u{301}/b", "m"),
        ("caf\u{e9}/c", "m"),
    ]);
    let response = tree.search(json!({"pattern": "m"}));
    assert_eq!(
        paths(&response),
        ["caf\u{e9}/a", "cafe\u{301}/b", "caf\u{e9}/c"]
    );
    assert_eq!(response.files_scanned, 3);
    // A request for one form of the name finds the directory with that form.
    let composed = tree.search(json!({"pattern": "m", "path": "caf\u{e9}"}));
    assert_eq!(paths(&composed), ["caf\u{e9}/a", "caf\u{e9}/c"]);
}

#[test]
fn links_do_not_lead_out_of_the_root() {
    let tree = Tree::of([("outside/secret", "m"), ("work/a", "m")]);
    tree.link("work/relative", "../outside")
        .link("work/absolute", "{root}/outside")
        .link("work/file", "../outside/secret")
        .link("work/again", "relative/secret")
        .link("work/in", "a");
    let setup = Setup::new(&tree.path("work"));
    assert_eq!(paths(&setup.search(json!({"pattern": "m"}))), ["a"]);
    let followed = setup.search(json!({"pattern": "m", "follow": true}));
    assert_eq!(paths(&followed), ["a", "in"]);
    let refused: Vec<&str> = followed.errors.iter().map(|e| e.path.as_str()).collect();
    assert_eq!(refused, ["absolute", "again", "file", "relative"]);
    for path in ["relative", "absolute/secret", "file", "again"] {
        let error = setup.refused(json!({"pattern": "m", "path": path}));
        assert_eq!(error.code(), "path_outside_sandbox", "{path}");
    }
}

#[test]
fn denied_files_are_never_read() {
    let tree = Tree::of([
        (".ssh/id_rsa", "m"),
        ("a/server.pem", "m"),
        ("a/secret.txt", "m"),
        ("b", "m"),
    ]);
    let opened = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = opened.clone();
    let mut setup = tree
        .setup()
        .sandbox(|sandbox| sandbox.denied_patterns = vec!["**/secret.*".into()]);
    setup.engines = Hooked::new(move |files| {
        let mut seen = seen.lock().unwrap();
        seen.extend(files.iter().map(|file| file.logical()));
        Ok(())
    })
    .engines();
    let everything = json!({"pattern": "m", "hidden": true, "no_ignore": true, "follow": true});
    assert_eq!(paths(&setup.search(everything)), ["b"]);
    assert_eq!(*opened.lock().unwrap(), [PathBuf::from("b")]);
}

#[test]
fn a_search_does_not_count_as_reading_a_file() {
    let tree = Tree::of([("a", "m")]);
    let setup = tree.setup();
    let response = setup.search(json!({"pattern": "m"}));
    assert!(setup.tool().read_evidence(&response).is_none());
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(
        keys(&response.to_value()["matches"][0]["data"]),
        ["column", "line_number", "lines", "match_text", "path"],
        "no version, hash or time of the file that could pass for evidence"
    );
}
