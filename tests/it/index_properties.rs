//! Random trees and requests, answered with and without an index: the answers are equal byte for
//! byte.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::index_support::{Tally, VARIANTS, compare};
use crate::properties::{content, plant, request, settings, with};

/// Patterns for which an index can exclude files in trees of these pieces, and some for which it
/// can't.
fn pattern() -> impl Strategy<Value = String> {
    let literal = prop::collection::vec(
        prop::sample::select(vec![
            "m", "M", "k", "a", "b", " ", "-", "é", "\u{212A}", "_",
        ]),
        2..6,
    );
    let fixed = prop::sample::select(vec![
        "mm+",
        "m a",
        "(?:mm|aa)[ab ]",
        "a.*mmm",
        "m[abk]m",
        "[mM]{3}",
        "absent",
        "^m a",
        "m\\s?mm$",
        "mm\r?",
        "(?i)MMA",
        "x*",
        "é[éb]a",
        "\\bmma\\b",
        "bm?k",
        "\u{FFFD}mm",
    ]);
    prop_oneof![
        4 => literal.prop_map(|letters| letters.concat()),
        1 => fixed.prop_map(str::to_string),
    ]
}

/// Directories, with twins and hidden ones among them. The names of files differ from theirs.
const DIRS: &[&str] = &[
    "", "a", "ab", "c", "c/c", "é", "e\u{301}", ".h", r"n\nl", r"\xFF", "a/.h",
];
const FILES: &[&str] = &[
    "x", "x-y", "x.y", "B", ".f", "é", "e\u{301}", r"\xFE", r"l\nf", "日",
];

/// Pieces of contents, most of them from the patterns.
const PIECES: &[&[u8]] = &[
    b"m",
    b"mm",
    b"mma",
    b"m a",
    b"abk",
    b"bak-",
    b"MMA ",
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"_",
    b"\xFF",
    "éba".as_bytes(),
    "mé".as_bytes(),
];

fn trees() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let dir = prop::sample::select(DIRS);
    let name = prop::sample::select(FILES);
    let path = (dir, name).prop_map(|(dir, name)| {
        let slash = if dir.is_empty() { "" } else { "/" };
        format!("{dir}{slash}{name}")
    });
    let text = prop::collection::vec(prop::sample::select(PIECES), 1..30);
    let text = text.prop_map(|pieces| pieces.concat());
    prop::collection::vec((path, prop_oneof![5 => text, 1 => content()]), 1..40)
}

/// Returns requests for the whole tree, or for a directory in it.
fn asked() -> impl Strategy<Value = Value> {
    let sometimes = |choices| prop::option::weighted(0.2, prop::sample::select(choices));
    let path = sometimes(vec!["a", "ab", "c", "c/c", "é", "e\u{301}", ".h", "n\nl"]);
    let globs = sometimes(vec!["a*", "*/a", "**/b*", "/c/**", "!a", "é", "*", "[ab]"]);
    let case = prop::sample::select(vec!["smart", "sensitive", "insensitive"]);
    let size = prop::option::weighted(0.2, 1..60u64);
    let fuzzy = prop::option::weighted(0.3, 1..4u64);
    let limits = (size, fuzzy);
    (
        request(),
        pattern(),
        path,
        globs.clone(),
        globs,
        case,
        limits,
    )
        .prop_map(
            |(request, pattern, path, include, exclude, case, (size, fuzzy))| {
                let mut request = with(&request, "pattern", pattern);
                if let Some(fuzzy) = fuzzy {
                    request["fuzzy"] = fuzzy.into();
                }
                request["case"] = case.into();
                request["no_ignore"] = false.into();
                if let Some(path) = path {
                    request["path"] = path.into();
                }
                if let Some(size) = size {
                    request["max_file_size_bytes"] = size.into();
                }
                if let Some(glob) = include {
                    request["include_glob"] = json!([glob]);
                }
                if let Some(glob) = exclude {
                    request["exclude_glob"] = json!([glob]);
                }
                request
            },
        )
}

/// Runs requests of a strategy on indexes of random trees; returns how often the indexes were used.
fn check(requests: impl Strategy<Value = Vec<Value>>) -> Tally {
    let tally = std::cell::Cell::new(Tally::default());
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..settings()
    });
    let trees = (
        trees(),
        requests,
        prop::sample::select(&VARIANTS[..]),
        1..5usize,
        any::<bool>(),
    );
    runner
        .run(&trees, |(files, requests, variant, threads, hidden)| {
            let tree = plant(&files);
            let setup = tree.setup().threads(threads);
            let setup = setup.config(|config| config.index_default_hidden = hidden);
            let setup = setup.indexed(variant);
            for (n, request) in requests.iter().enumerate() {
                let request = match n % 5 {
                    0 => request.clone(),
                    _ => with(request, "hidden", hidden),
                };
                let mut all = tally.get();
                all.add(compare(&setup, &request).0);
                tally.set(all);
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    tally.get()
}

#[test]
fn random_requests_are_answered_as_without_an_index() {
    check(prop::collection::vec(asked(), 4..12)).check(16);
}

/// Each request is cut at every possible place.
#[test]
fn every_limit_cuts_at_the_same_event_with_and_without_an_index() {
    let limits = (pattern(), 0u64..3).prop_map(|(pattern, context)| {
        let base = json!({"pattern": pattern, "context": context});
        let mut requests = Vec::new();
        for n in 1..14u64 {
            requests.push(with(&base, "max_results", n));
            requests.push(with(&base, "max_files", n));
            requests.push(with(&with(&base, "max_files", n), "max_results", 14 - n));
        }
        requests
    });
    check(limits).check(6);
}
