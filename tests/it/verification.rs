//! Tests the verification rows of the tool's specification that need only one engine.

use serde_json::json;

use crate::hooked_engines::{Hooked, broken};
use crate::support::{Tree, engines, events, paths, stable_json};

/// A tree of many files in many directories. Each file has matches and other lines.
pub(crate) fn many_files() -> Tree {
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
fn match_and_context_lines_become_events() {
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
fn the_same_input_gives_the_same_order() {
    let tree = many_files();
    let request = json!({"pattern": "needle", "max_results": 500, "context": 1});
    let first = stable_json(&tree.search(request.clone()));
    for _ in 0..10 {
        assert_eq!(stable_json(&tree.search(request.clone())), first);
    }
}

#[test]
fn more_events_than_max_results_are_truncated() {
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
fn exactly_max_results_events_are_not_truncated() {
    let tree = many_files();
    for max_results in [600, 601] {
        let response = tree.search(json!({"pattern": "needle", "max_results": max_results}));
        assert_eq!((response.count, response.truncated), (600, false));
        assert_eq!(response.files_scanned, 300);
    }
}

#[test]
fn smart_case_ignores_capitals_outside_ascii() {
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
fn invalid_utf8_is_replaced_in_events() {
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
fn a_search_stops_after_n_matches_in_a_file() {
    let tree = Tree::of([("a", "m\n".repeat(10)), ("b", "m\n".repeat(2))]);
    let response = tree.search(json!({"pattern": "m", "max_matches_per_file": 3}));
    let lines: Vec<(&str, u64)> = response
        .matches
        .iter()
        .map(|m| (m.data.path.text.as_str(), m.data.line_number))
        .collect();
    assert_eq!(lines, [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]);
    assert!(response.truncated);
    let whole = tree.search(json!({"pattern": "m", "max_matches_per_file": 10}));
    assert!(!whole.truncated && whole.count == 12);
}

#[test]
fn a_search_stops_after_n_files() {
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
fn files_over_the_size_limit_are_skipped() {
    let tree = Tree::of([
        ("a", "m".repeat(100)),
        ("b", "m".repeat(101)),
        ("c", "m".repeat(99)),
    ]);
    let response = tree.search(json!({"pattern": "m", "max_file_size_bytes": 100}));
    assert_eq!(paths(&response), ["a", "c"]);
    assert_eq!(response.files_scanned, 3);
    assert!(response.errors.is_empty());
    let note = "[1 file is larger than max_file_size_bytes = 100 bytes";
    assert!(response.content.contains(note), "{}", response.content);
}

#[test]
fn an_exclude_glob_excludes_files() {
    let tree = Tree::of([("a.rs", "m"), ("a_test.rs", "m"), ("target/b.rs", "m")]);
    let response = tree.search(json!({"pattern": "m", "exclude_glob": ["*_test.rs", "/target/"]}));
    assert_eq!(paths(&response), ["a.rs"]);
    assert_eq!(response.files_scanned, 1);
}

#[test]
fn an_exclude_glob_is_applied_after_an_include_glob() {
    let tree = Tree::of([("a.rs", "m"), ("b.rs", "m"), ("a.c", "m"), ("d/a.rs", "m")]);
    let response =
        tree.search(json!({"pattern": "m", "include_glob": ["*.rs"], "exclude_glob": ["a.*"]}));
    assert_eq!(paths(&response), ["b.rs"]);
    let response = tree.search(json!({"pattern": "m", "include_glob": ["*.rs", "*.c"]}));
    assert_eq!(paths(&response), ["a.c", "a.rs", "b.rs", "d/a.rs"]);
}

#[test]
fn a_search_without_recursion_takes_direct_children_only() {
    let tree = Tree::of([("a", "m"), ("d/b", "m"), ("d/e/c", "m")]);
    assert_eq!(
        paths(&tree.search(json!({"pattern": "m", "recursive": false}))),
        ["a"]
    );
    let below = tree.search(json!({"pattern": "m", "recursive": false, "path": "d"}));
    assert_eq!(paths(&below), ["d/b"]);
}

#[test]
fn the_column_of_an_event_is_a_byte_offset() {
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
fn the_match_text_of_an_event_is_the_match() {
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
fn a_search_finds_every_matching_line() {
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
fn exit_code_1_means_no_matches() {
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
fn exit_code_2_means_a_backend_error() {
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
fn context_counts_towards_max_results() {
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
fn the_order_of_names_does_not_depend_on_the_order_of_creation() {
    // The same names, created in two orders in two trees.
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
