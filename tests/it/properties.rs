//! Tests properties of answers over random trees and requests.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::index_support::VARIANTS;
use crate::oracle::{Pattern, World, expected};
use crate::support::{Setup, Tree, events, seeds, stable_json};

/// Names that are difficult to sort, hide or tell apart: prefixes of each other, bytes on both
/// sides of `/`, names with equal sort keys, and invalid bytes.
const NAMES: &[&str] = &[
    "a", "a-b", "a.b", "a0", "ab", "B", "b", "c", ".h", "é", "e\u{301}", r"\xFF", r"\xFE",
    "\u{FFFD}", "z z", r"n\nl", "日",
];

/// Pieces of file contents: text that matches often, every kind of line end, and invalid bytes.
const PIECES: &[&[u8]] = &[
    b"m",
    b"M",
    b"k",
    b"\xE2\x84\xAA",
    b"a",
    b"b",
    b" ",
    b"-",
    b"_",
    b"\n",
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b"mm",
    b"m a",
    "é".as_bytes(),
    "É".as_bytes(),
    b"\xFF",
    b"\xC3",
    b"\t",
    b"0",
];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(NAMES).prop_map(str::to_string)
}

pub(crate) fn content() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..40);
    let text = pieces.prop_map(|pieces| pieces.concat());
    let marked = (
        prop::sample::select(vec![&b"\xEF\xBB\xBF"[..], b"\x00", b"\xFF\xFEm\x00"]),
        text.clone(),
    )
        .prop_map(|(mark, text)| [mark, &text].concat());
    prop_oneof![9 => text, 1 => marked]
}

/// Files by path. A file whose path another file needs as a directory is left out of the tree.
pub(crate) fn files() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let path = prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/"));
    prop::collection::vec((path, content()), 0..12)
}

pub(crate) fn plant(files: &[(String, Vec<u8>)]) -> Tree {
    let tree = Tree::new();
    for (name, content) in files {
        let path = tree.path(name);
        let blocked = path.is_dir() || path.ancestors().skip(1).any(|above| above.is_file());
        if !blocked {
            tree.file(name, content);
        }
    }
    tree
}

fn pattern() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "m", "M", "mm?", "^m", "m$", "^$", "m|k", "[^m]", ".", "x*", "a.*b", r"\bm\b", "é", r"\s",
        "m\r?", "k",
    ])
    .prop_map(str::to_string)
}

pub(crate) fn request() -> impl Strategy<Value = Value> {
    (
        pattern(),
        prop::option::of(1u64..8),
        0u64..4,
        prop::option::of(1u64..4),
        prop::option::of(1u64..6),
        any::<(bool, bool, bool)>(),
    )
        .prop_map(
            |(pattern, max_results, context, per_file, max_files, flags)| {
                let (hidden, word, recursive) = flags;
                let mut request = json!({
                    "pattern": pattern, "context": context, "hidden": hidden, "word_regexp": word,
                    "recursive": recursive,
                });
                let mut set = |key: &str, value: Option<u64>| {
                    if let Some(value) = value {
                        request[key] = value.into();
                    }
                };
                set("max_results", max_results);
                set("max_matches_per_file", per_file);
                set("max_files", max_files);
                request
            },
        )
}

/// The settings of each property. `PROPTEST_CASES` sets the number of cases.
pub(crate) fn settings() -> ProptestConfig {
    let default = ProptestConfig::default();
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => default,
        None => ProptestConfig {
            cases: u32::try_from(seeds(200)).unwrap(),
            ..default
        },
    }
}

pub(crate) fn with(request: &Value, key: &str, value: impl Into<Value>) -> Value {
    let mut request = request.clone();
    request[key] = value.into();
    request
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn the_answer_is_the_oracles(
        files in files(),
        pattern in Pattern::strategy(),
        case in prop::sample::select(vec!["smart", "sensitive", "insensitive"]),
        word: bool,
        hidden: bool,
        recursive: bool,
        context in 0usize..4,
        max_results in prop_oneof![1usize..12, Just(1000)],
        per_file in prop_oneof![1u64..4, Just(1000)],
        max_files in prop_oneof![1u64..6, Just(1000)],
        max_size in prop_oneof![1u64..60, Just(1000)],
        index in prop::option::of(prop::sample::select(&VARIANTS[..])),
    ) {
        let tree = plant(&files);
        let world = World { hidden, recursive, context, max_results, per_file, max_files, max_size };
        let wanted = expected(tree.root(), &pattern, case, word, &world);
        let mut setup = tree.setup().generous().threads(2);
        if let Some(variant) = index {
            setup.config.index_default_hidden = hidden;
            setup = setup.indexed(variant);
        }
        let response = setup.search(json!({
            "pattern": pattern.text(), "fixed_strings": pattern.is_literal(), "case": case,
            "word_regexp": word, "hidden": hidden, "recursive": recursive, "context": context,
            "max_results": max_results, "max_matches_per_file": per_file, "max_files": max_files,
            "max_file_size_bytes": max_size,
        }));
        prop_assert_eq!(events(&response), wanted.events);
        prop_assert_eq!(response.truncated, wanted.truncated);
        prop_assert_eq!(response.files_scanned, wanted.files_scanned);
        prop_assert!(response.errors.is_empty());
    }

    #[test]
    fn max_results_cuts_a_prefix(files in files(), request in request()) {
        let tree = plant(&files);
        let all = tree.search(with(&request, "max_results", 100_000));
        let shorter = |n: u64| tree.search(with(&request, "max_results", n));
        let mut before = shorter(1);
        for n in 1..(all.count as u64 + 2).min(12) {
            let next = shorter(n + 1);
            prop_assert_eq!(&before.matches[..], &next.matches[..before.count]);
            prop_assert_eq!(&before.matches[..], &all.matches[..before.count]);
            let more = next.count > before.count;
            // If no other limit cuts the answer, it is truncated exactly if one more result would
            // be shown.
            let others = ["max_files", "max_matches_per_file"];
            let other = others.iter().any(|limit| request.get(*limit).is_some());
            if !(other && next.truncated) {
                prop_assert_eq!(before.truncated, more, "{} of {}", n, all.count);
            }
            prop_assert!(!more || before.truncated);
            prop_assert!(before.files_scanned <= next.files_scanned);
            before = next;
        }
    }

    #[test]
    fn threads_and_order_of_creation_change_nothing(
        files in files(),
        request in request(),
        order in any::<prop::sample::Index>(),
    ) {
        let tree = plant(&files);
        let single = tree.setup().threads(1).search(request.clone());
        let expected = stable_json(&single);
        for threads in [2, 8] {
            let found = tree.setup().threads(threads).search(request.clone());
            prop_assert_eq!(stable_json(&found), expected.as_str(), "{} threads", threads);
        }
        // The files that were planted, in another order. Files that others replaced by directories
        // stay out.
        let mut planted: Vec<(String, Vec<u8>)> = Vec::new();
        let mut seen = BTreeSet::new();
        for (name, _) in &files {
            let path = tree.path(name);
            if path.is_file() && seen.insert(name.clone()) {
                planted.push((name.clone(), std::fs::read(path).unwrap()));
            }
        }
        if !planted.is_empty() {
            let at = order.index(planted.len());
            planted.rotate_left(at);
            planted.reverse();
        }
        let other = plant(&planted).search(request);
        prop_assert_eq!(&single.matches, &other.matches);
        prop_assert_eq!(single.files_scanned, other.files_scanned);
        prop_assert_eq!(single.truncated, other.truncated);
        prop_assert_eq!(single.content, other.content);
    }

    #[test]
    fn every_byte_budget_yields_a_valid_prefix(
        files in files(),
        request in request(),
        budgets in prop::collection::vec(1usize..4000, 1..8),
    ) {
        let tree = plant(&files);
        let full = tree.search(request.clone());
        let length = full.to_json().len();
        for budget in budgets.into_iter().chain([length - 1, length, length + 1, length + 200]) {
            let setup = Setup { max_output_bytes: Some(budget), ..tree.setup() };
            match setup.call(request.clone()) {
                Ok(cut) => {
                    let text = cut.to_json();
                    prop_assert!(text.len() <= budget, "{} bytes of {}", text.len(), budget);
                    let value: Value = serde_json::from_str(&text).unwrap();
                    prop_assert_eq!(value["count"].as_u64(), Some(cut.matches.len() as u64));
                    prop_assert_eq!(&cut.matches[..], &full.matches[..cut.count]);
                    prop_assert!(cut.count == full.count || cut.truncated);
                    if cut.count < full.count {
                        prop_assert!(cut.content.contains("output was cut"));
                    }
                    prop_assert_eq!(cut.files_scanned, full.files_scanned);
                }
                Err(error) => {
                    prop_assert_eq!(error.code(), "limits_exceeded");
                    prop_assert!(budget < length, "{} bytes were allowed, {} needed", budget, length);
                    let bare = full.to_json().len() - full.matches.iter()
                        .map(|record| serde_json::to_string(record).unwrap().len()).sum::<usize>();
                    prop_assert!(budget < bare + 400, "{} bytes are enough for an empty answer", budget);
                }
            }
        }
        // A budget of exactly the size of the answer truncates nothing more.
        let roomy = Setup { available_capacity_bytes: Some(length + 20), ..tree.setup() };
        prop_assert_eq!(stable_json(&roomy.search(request)), stable_json(&full));
    }

    #[test]
    fn any_bytes_as_content_are_survived(
        content in prop::collection::vec(any::<u8>(), 0..300),
        request in request(),
        follow: bool,
    ) {
        let tree = Tree::of([("a", &content), ("b/c", &content)]);
        tree.link("l", "b");
        let response = tree.search(with(&request, "follow", follow));
        prop_assert!(response.files_scanned >= 1);
        // The same bytes give the same events in every file.
        let under = |top: &str| -> Vec<String> {
            let prefix = format!("{top}:");
            let context = format!("{top}-");
            events(&response).iter().filter_map(|event| {
                event.strip_prefix(&prefix).or_else(|| event.strip_prefix(&context)).map(str::to_string)
            }).collect()
        };
        if !response.truncated && request["recursive"] == true {
            prop_assert_eq!(under("a"), under("b/c"));
        }
    }

    #[test]
    fn any_bytes_as_names_are_survived(
        names in prop::collection::vec(prop::collection::vec(1u8..=255, 1..40), 1..6),
        request in request(),
    ) {
        let tree = Tree::new();
        let mut made = BTreeSet::new();
        for mut name in names {
            name.retain(|byte| *byte != b'/');
            if name.is_empty() || name == b"." || name == b".." {
                continue;
            }
            let escaped: String = name.iter().map(|byte| format!("\\x{byte:02X}")).collect();
            tree.file(&escaped, "m\n");
            made.insert(name);
        }
        let request = with(&with(&request, "hidden", true), "no_ignore", true);
        let request = with(&with(&request, "pattern", "m"), "max_results", 100);
        let response = tree.search(request.clone());
        if request.get("max_files").is_none() && !made.iter().any(|name| is_denied(name)) {
            prop_assert_eq!(response.count, made.len());
        }
        prop_assert_eq!(response.content.lines().count() >= response.count, true);
    }

    #[test]
    fn any_pattern_is_answered_or_refused_with_a_reason(
        pattern in "\\PC{0,20}|[a-z(){}\\[\\]*+?|\\\\^$.,0-9-]{0,16}",
        case in prop::sample::select(vec!["smart", "sensitive", "insensitive"]),
        fixed: bool,
        word: bool,
    ) {
        let tree = Tree::of([("a", format!("x {pattern} y\nm\n"))]);
        let request = json!({
            "pattern": pattern, "case": case, "fixed_strings": fixed, "word_regexp": word,
        });
        match tree.setup().call(request) {
            Ok(response) => {
                // A literal is found in the line that holds it, except for whole words next to
                // letters.
                if fixed && !word && !pattern.contains('\n') {
                    prop_assert!(response.count >= 1);
                }
            }
            Err(error) => {
                prop_assert_eq!(error.code(), "bad_args");
                prop_assert!(!error.message().is_empty());
            }
        }
    }
}

/// Returns true if a default deny pattern matches a name.
fn is_denied(name: &[u8]) -> bool {
    name.starts_with(b"id_rsa") || name.ends_with(b".pem") || name.ends_with(b".key")
}
