//! The verification rows of the specifications that one engine is enough for, each under its own id.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::hooked::{Hooked, broken};
use crate::support::{Setup, Tree, engines, events, paths, stable_json};

/// A tree of many files in many directories, each with matches and other lines.
fn many_files() -> Tree {
    let tree = Tree::new();
    for n in 0..300 {
        let name = format!("d{}/e{}/f{n}.txt", n % 7, n % 3);
        tree.file(
            &name,
            format!("before\nneedle {n}\nafter\nneedle again\nlast\n"),
        );
    }
    tree
}

#[test]
fn t_ls_parse_01_match_and_context_lines_become_events() {
    let tree = Tree::of([("a", "one\nxx two\nthree\n")]);
    let response = tree.search(json!({"pattern": "tw[a-z]", "context": 1}));
    let data = |line: u64, text: &str| json!({"path": {"text": "a"}, "line_number": line, "lines": {"text": text}});
    let mut found = data(2, "xx two");
    found["column"] = 4.into();
    found["match_text"] = "two".into();
    assert_eq!(
        response.to_value()["matches"],
        json!([
            {"type": "context", "data": data(1, "one")},
            {"type": "match", "data": found},
            {"type": "context", "data": data(3, "three")},
        ])
    );
}

#[test]
fn t_ls_ord_01_same_input_same_order() {
    let tree = many_files();
    let request = json!({"pattern": "needle", "max_results": 500, "context": 1});
    let first = stable_json(&tree.search(request.clone()));
    for _ in 0..10 {
        assert_eq!(stable_json(&tree.search(request.clone())), first);
    }
}

#[test]
fn t_ls_trunc_01_more_than_max_results() {
    let tree = many_files();
    let response = tree.search(json!({"pattern": "needle", "max_results": 599}));
    assert_eq!((response.count, response.truncated), (599, true));
    let response = tree.search(json!({"pattern": "needle", "max_results": 1}));
    assert_eq!((response.count, response.truncated), (1, true));
    assert_eq!(
        response.files_scanned, 1,
        "the second event is in the first file"
    );
}

#[test]
fn t_ls_trunc_02_exactly_max_results() {
    let tree = many_files();
    for max_results in [600, 601] {
        let response = tree.search(json!({"pattern": "needle", "max_results": max_results}));
        assert_eq!((response.count, response.truncated), (600, false));
        assert_eq!(response.files_scanned, 300);
    }
}

#[test]
fn t_ls_case_01_smart_case_is_ascii() {
    let tree = Tree::of([("a", "straße ÜBER über\nSTRASSE Über\n")]);
    let lines = |pattern: &str| {
        let response = tree.search(json!({"pattern": pattern}));
        let lines: Vec<u64> = response
            .matches
            .iter()
            .map(|m| m.data.line_number)
            .collect();
        lines
    };
    assert_eq!(lines("stra"), [1, 2], "no uppercase: insensitive");
    assert_eq!(lines("STRA"), [2], "ASCII uppercase: sensitive");
    assert_eq!(
        lines("Übe"),
        [1, 2],
        "other uppercase does not make it sensitive"
    );
    assert_eq!(lines("übe"), [1], "and does not fold");
    assert_eq!(
        lines("ÜbE"),
        [] as [u64; 0],
        "ASCII uppercase beside it does"
    );
}

#[test]
fn t_ls_enc_01_invalid_utf8_is_replaced() {
    let content: Vec<u8> = [b"m".as_slice(), b"\x80\xC3(\xE2\x82\xF0\x90\x80x\xFF\n"].concat();
    let tree = Tree::of([("a", content)]);
    let response = tree.search(json!({"pattern": "m"}));
    let expected = "m\u{FFFD}\u{FFFD}(\u{FFFD}\u{FFFD}x\u{FFFD}";
    assert_eq!(events(&response), [format!("a:1:1:m|{expected}")]);
    for _ in 0..3 {
        assert_eq!(
            stable_json(&tree.search(json!({"pattern": "m"}))),
            stable_json(&response)
        );
    }
}

#[test]
fn t_ls_mpf_01_stops_after_n_matches_in_a_file() {
    let tree = Tree::of([("a", "m\n".repeat(10)), ("b", "m\n".repeat(2))]);
    let response = tree.search(json!({"pattern": "m", "max_matches_per_file": 3}));
    let lines: Vec<(&str, u64)> = response
        .matches
        .iter()
        .map(|m| (m.data.path.text.as_str(), m.data.line_number))
        .collect();
    assert_eq!(lines, [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]);
    assert!(!response.truncated);
}

#[test]
fn t_ls_mf_01_stops_after_n_files() {
    let tree = many_files();
    let all = tree.search(json!({"pattern": "needle", "max_results": 1000}));
    for max_files in [1, 2, 17, 299] {
        let response =
            tree.search(json!({"pattern": "needle", "max_files": max_files, "max_results": 1000}));
        assert_eq!(response.files_scanned, max_files);
        assert!(response.truncated);
        assert_eq!(response.matches, all.matches[..2 * max_files as usize]);
    }
    let response = tree.search(json!({"pattern": "needle", "max_files": 300, "max_results": 1000}));
    assert_eq!((response.files_scanned, response.truncated), (300, false));
}

#[test]
fn t_ls_size_01_large_files_are_skipped() {
    let tree = Tree::of([
        ("a", "m".repeat(100)),
        ("b", "m".repeat(101)),
        ("c", "m".repeat(99)),
    ]);
    let response = tree.search(json!({"pattern": "m", "max_file_size_bytes": 100}));
    assert_eq!(paths(&response), ["a", "c"]);
    assert_eq!(response.files_scanned, 3);
    assert!(response.errors.is_empty());
}

#[test]
fn t_ls_excl_01_exclude_glob_leaves_files_out() {
    let tree = Tree::of([("a.rs", "m"), ("a_test.rs", "m"), ("target/b.rs", "m")]);
    let response = tree.search(json!({"pattern": "m", "exclude_glob": ["*_test.rs", "/target/"]}));
    assert_eq!(paths(&response), ["a.rs"]);
    assert_eq!(response.files_scanned, 1);
}

#[test]
fn t_ls_incl_01_include_then_exclude() {
    let tree = Tree::of([("a.rs", "m"), ("b.rs", "m"), ("a.c", "m"), ("d/a.rs", "m")]);
    let response =
        tree.search(json!({"pattern": "m", "include_glob": ["*.rs"], "exclude_glob": ["a.*"]}));
    assert_eq!(paths(&response), ["b.rs"]);
    let response = tree.search(json!({"pattern": "m", "include_glob": ["*.rs", "*.c"]}));
    assert_eq!(paths(&response), ["a.c", "a.rs", "b.rs", "d/a.rs"]);
}

#[test]
fn t_ls_rec_01_direct_children_only() {
    let tree = Tree::of([("a", "m"), ("d/b", "m"), ("d/e/c", "m")]);
    assert_eq!(
        paths(&tree.search(json!({"pattern": "m", "recursive": false}))),
        ["a"]
    );
    let below = tree.search(json!({"pattern": "m", "recursive": false, "path": "d"}));
    assert_eq!(paths(&below), ["d/b"]);
}

#[test]
fn t_ls_col_01_column_is_the_byte_offset() {
    for (line, pattern, column) in [
        ("foo", "foo", 1),
        ("  foo", "foo", 3),
        ("é foo", "foo", 4),
        ("日本語foo", "foo", 10),
        ("😀foo", "foo", 5),
        ("\tfoo", "foo", 2),
        ("fofoo", "foo", 3),
        ("a foo foo", "foo", 3),
        ("foo", "$", 4),
    ] {
        let tree = Tree::of([("a", line)]);
        let response = tree.search(json!({"pattern": pattern}));
        assert_eq!(response.matches[0].data.column, Some(column), "{line:?}");
    }
}

#[test]
fn t_ls_mtxt_01_match_text_is_the_match() {
    for (line, pattern, fixed, text) in [
        ("let foo = 1;", r"f\w+", false, "foo"),
        ("let foo = 1;", r"(f)(o+) =", false, "foo ="),
        ("a.b.c", "b.", true, "b."),
        ("FOO foo", "foo", true, "FOO"),
        ("aé日b", "é.", false, "é日"),
        ("aaa", "a*?", false, ""),
    ] {
        let tree = Tree::of([("a", line)]);
        let response = tree.search(json!({"pattern": pattern, "fixed_strings": fixed}));
        let found = response.matches[0].data.match_text.as_deref();
        assert_eq!(found, Some(text), "{line:?}");
    }
}

#[test]
fn it_ls_e2e_01_a_search_finds_what_is_there() {
    let tree = Tree::of([
        ("Cargo.toml", "[package]\nname = \"x\"\n"),
        ("src/lib.rs", "pub fn answer() -> u8 {\n    42\n}\n"),
        ("src/main.rs", "fn main() {\n    x::answer();\n}\n"),
    ]);
    for (name, engines) in engines() {
        let mut setup = tree.setup();
        setup.engines = engines;
        let response = setup.search(json!({"pattern": "answer", "include_glob": ["*.rs"]}));
        assert_eq!(
            events(&response),
            [
                "src/lib.rs:1:8:answer|pub fn answer() -> u8 {",
                "src/main.rs:2:8:answer|    x::answer();"
            ],
            "{name}"
        );
        assert_eq!(response.exit_code, Some(0), "{name}");
    }
}

#[test]
fn it_ls_exit_01_one_is_no_matches() {
    let tree = Tree::of([("a", "x")]);
    for (name, engines) in engines() {
        let mut setup = tree.setup();
        setup.engines = engines;
        let response = setup.search(json!({"pattern": "absent"}));
        assert_eq!(response.exit_code, Some(1), "{name}");
        assert_eq!(
            (response.stderr, response.errors.len()),
            (None, 0),
            "{name}"
        );
    }
}

#[test]
fn it_ls_exit_02_two_is_a_backend_error() {
    let tree = Tree::of([("a", "m\n"), ("b/c", "m\n"), ("d", "m\n")]);
    let breaking_at = |name: &'static str| {
        let engine =
            Hooked::new(
                move |files| match files.iter().any(|file| file.logical() == *name) {
                    true => Err(broken()),
                    false => Ok(()),
                },
            );
        let mut setup = tree.setup().threads(1);
        setup.engines = engine.engines();
        setup
    };
    let response = breaking_at("b/c").search(json!({"pattern": "m"}));
    assert_eq!(
        events(&response),
        ["a:1:1:m|m"],
        "what was found in order before stands"
    );
    assert_eq!(response.exit_code, Some(2));
    assert_eq!(response.stderr.as_deref(), Some("a complaint"));
    let error = breaking_at("a").refused(json!({"pattern": "m"}));
    assert_eq!(error.code(), "execution_failed");
    assert!(error.message().contains("the engine broke"), "{error}");
}

#[test]
fn it_ls_ctx_01_context_counts() {
    let tree = Tree::of([("a", "1\nm\n3\n4\nm\n6\n")]);
    let all = tree.search(json!({"pattern": "m", "context": 1}));
    assert_eq!((all.count, all.truncated), (6, false));
    for max_results in 1..=7u64 {
        let response =
            tree.search(json!({"pattern": "m", "context": 1, "max_results": max_results}));
        let shown = (max_results as usize).min(6);
        assert_eq!(response.matches, all.matches[..shown]);
        assert_eq!(response.truncated, max_results < 6);
    }
}

#[test]
fn it_ls_path_01_order_normalization_is_stable() {
    // The same names, made in two orders and in two places.
    let names = [
        "b", "a/c", "a-b", "a.b", "A", "é", "e\u{301}", "日本/x", "z/y/x", "a/b/c",
    ];
    let forward = Tree::of(names.map(|name| (name, "m")));
    let mut reversed = names;
    reversed.reverse();
    let backward = Tree::of(reversed.map(|name| (name, "m")));
    let expected = [
        "A", "a-b", "a.b", "a/b/c", "a/c", "b", "z/y/x", "e\u{301}", "é", "日本/x",
    ];
    for tree in [forward, backward] {
        assert_eq!(paths(&tree.search(json!({"pattern": "m"}))), expected);
    }
}

#[test]
fn t_lsi_base_01_without_an_index() {
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
fn t_lsi_det_01_repeated_request() {
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

/// Delays that let files that come later be finished first, in another way on every call.
fn shuffling() -> Hooked {
    let calls = AtomicUsize::new(0);
    Hooked::new(move |_| {
        let n = calls.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros((n * 7919 % 13) as u64 * 100));
        Ok(())
    })
}

#[test]
fn t_lsi_det_02_work_finished_out_of_order() {
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
fn t_lsi_det_03_composed_and_decomposed_forms() {
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
    // Patterns match bytes as they are, names order by their composed form.
    assert_eq!(lines(composed), [1, 1, 1]);
    assert_eq!(lines(decomposed), [2, 2, 2]);
}

#[test]
fn t_lsi_det_04_smart_case_with_uppercase_beyond_ascii() {
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
fn t_lsi_trunc_01_small_limit_with_context() {
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
fn t_lsi_trunc_02_chunks_do_not_move_the_cut() {
    let tree = Tree::new();
    for n in 0..60 {
        // Matches at both ends, so that contexts of neighbouring files would touch.
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
fn t_lsi_trunc_03_exactly_max_results_exist() {
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
fn t_lsi_exe_01_list_longer_than_any_command_line() {
    // Some 2.6 MB of paths, more than a process can be started with.
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
fn t_lsi_exit_01_no_matches_is_no_error_and_an_error_is_not_no_matches() {
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
fn t_lsi_exit_02_a_timeout_is_reported_and_nothing_runs_after_it() {
    let tree = Tree::of([("a", "x"), ("b", "x")]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let mut setup = tree
        .setup()
        .threads(1)
        .config(|config| config.emit_stats = true);
    setup.engines = Hooked::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        Ok(())
    })
    .batching(1, 1)
    .engines();
    let response = setup.search(json!({"pattern": "m", "timeout_ms": 20}));
    assert!(response.timed_out);
    assert!(
        response.content.contains("timed out after 20 ms"),
        "{}",
        response.content
    );
    let stats = response.stats.unwrap();
    assert!(!stats.fallback_used && stats.fuzzy_levels_tried.is_empty());
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(
        calls.load(Ordering::SeqCst),
        1,
        "no work is begun after the deadline"
    );
}

#[test]
fn t_lsi_path_01_line_feed_in_a_name() {
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
fn t_lsi_path_02_names_that_are_no_utf8() {
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
fn t_lsi_path_03_one_name_in_two_forms_is_two_files_once_each() {
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
    // Either form in a request names the directory of that form.
    let composed = tree.search(json!({"pattern": "m", "path": "caf\u{e9}"}));
    assert_eq!(paths(&composed), ["caf\u{e9}/a", "caf\u{e9}/c"]);
}

#[test]
fn t_lsi_path_04_links_do_not_lead_out() {
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
fn t_lsi_sec_01_denied_files_are_never_read() {
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
fn t_lsi_sec_02_a_search_is_not_a_read() {
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
