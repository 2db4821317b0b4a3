//! Exclusion is a filter over the files that a search without an index looks at, in their order. In
//! doubt, nothing is excluded.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::index::token::TokenStatus;
use forge_search::internal::tool::request::SearchRequest;
use serde_json::{Value, json};

use crate::differential::Seeded;
use crate::differential::ignores::plant;
use crate::hooked_engines::Hooked;
use crate::index_support::{Host, LIVE, VARIANTS, compare};
use crate::support::{Setup, Tree, engines, is_turn, paths, seeds};

/// Returns all files that an index knows, with those on the side list in their places.
fn known(snapshot: &Snapshot) -> Vec<String> {
    let segment = snapshot.segment();
    let shown = |dir: u32, name| {
        let dir = segment.dir_path(dir).unwrap();
        let path = dir.join(segment.name(name).unwrap());
        path.to_string_lossy().into_owned()
    };
    let mut side = (0..segment.side_count())
        .map(|n| segment.side(n).unwrap())
        .peekable();
    let mut known = Vec::new();
    for rank in 0..=segment.file_count() {
        while let Some(file) = side.next_if(|file| file.before_rank <= rank) {
            known.push(shown(file.dir, file.name));
        }
        if rank < segment.file_count() {
            let file = segment.file(rank).unwrap();
            known.push(shown(file.dir, file.name));
        }
    }
    assert!(side.next().is_none());
    known
}

#[test]
fn the_catalog_lists_the_same_files_as_a_walk() {
    let (mut files, mut fewer) = (0, 0);
    for seed in 0..seeds(80) {
        let mut rng = Seeded::new(7_000 + seed);
        let tree = Tree::new();
        plant(&tree, &mut rng, "", 3);
        // Files on the side list, a denied file, and entries that are not files.
        tree.file(r"one\nm", "m\n")
            .file(r"src\n/\r", "m\n")
            .file("server.pem", "m\n")
            .dir("empty")
            .link("link", "empty");
        for options in 0..4 {
            let (hidden, no_ignore) = (options & 1 == 1, options & 2 == 2);
            let setup = tree.setup().generous().config(|config| {
                config.index_default_hidden = hidden;
                config.index_default_no_ignore = no_ignore;
            });
            let setup = setup.with_indexes(LIVE);
            let (_, snapshot) = setup.build(&Host::hasty());
            // Each file has a match of `m`, so the files with events are the eligible ones.
            let request = |pattern: &str| json!({"pattern": pattern, "hidden": hidden, "no_ignore": no_ignore});
            let walked = setup.without_indexes().search(request("m"));
            let walked = paths(&walked);
            let what = format!("seed {seed}, hidden {hidden}, no_ignore {no_ignore}");
            assert_eq!(known(&snapshot), walked, "{what}");
            // With the index, the same number of files is counted.
            let (tally, response) = compare(&setup, &request("nothing like it"));
            assert_eq!(tally.used, 1, "{what}");
            assert_eq!(
                response.unwrap().files_scanned,
                walked.len() as u64,
                "{what}"
            );
            files += walked.len();
            fewer += usize::from(options > 0 && walked.len() < 20);
        }
    }
    assert!(
        files as u64 > 70 * seeds(80) && fewer > 0,
        "{files} {fewer}"
    );
}

/// Names that sort in every way.
const NAMES: [&str; 20] = [
    "a",
    "a-b",
    "a.c",
    "a0",
    r"a\nb",
    "B",
    "b/c-d",
    "b/c.d/e",
    "b/c/d",
    r"b/\r",
    "b/c/\u{E9}",
    "b/c/e\u{301}",
    "\u{E9}/x",
    "e\u{301}/x",
    "\u{E9}/y",
    "e\u{301}/y",
    r"\xFF",
    r"\xFE",
    "z/z/z",
    "z/zz",
];

/// Returns a setup, and the list in which its engine records the files that it is given.
fn watched(tree: &Tree) -> (Setup, Arc<Mutex<Vec<PathBuf>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let engine = Hooked::new(move |files| {
        let paths = files
            .iter()
            .map(|file| file.found.dir.logical.join(&file.found.name));
        noted.lock().unwrap().extend(paths);
        Ok(())
    });
    let mut setup = tree.setup().threads(1);
    setup.engines = engine.engines();
    (setup, seen)
}

#[test]
fn exclusion_is_a_stable_filter() {
    for (nth, variant) in VARIANTS.into_iter().enumerate() {
        let tree = Tree::new();
        for (n, name) in NAMES.iter().enumerate() {
            let text = ["needle\n", "straw\n", "hay\nneedle\n\nneedle\n"][n % 3];
            tree.file(name, text);
            tree.file(&format!("{name}.straw"), "straw\n");
        }
        let (setup, seen) = watched(&tree);
        let searched = |setup: &Setup| {
            seen.lock().unwrap().clear();
            setup.search(json!({"pattern": "needle"}));
            std::mem::take(&mut *seen.lock().unwrap())
        };
        let setup = setup.with_indexes(variant);
        setup.build(&Host::patient());
        let all = searched(&setup.without_indexes());
        assert_eq!(all.len(), 2 * NAMES.len());
        let check = |most: usize| {
            let some = searched(&setup);
            assert!(
                (14..=most).contains(&some.len()),
                "{variant:?}: {}",
                some.len()
            );
            // Searched files come in the order that they have among all files.
            let filtered: Vec<PathBuf> = all
                .iter()
                .filter(|path| some.contains(path))
                .cloned()
                .collect();
            assert_eq!(some, filtered, "{variant:?}");
            // So every limit cuts at the same place. Each variant tries a third of the limits, or
            // all of them in the long proofs.
            let setups = [1, 4].map(|threads| setup.clone().threads(threads));
            for max in (1..=22).filter(|max| is_turn(max + 2 * nth, 3)) {
                let setup = &setups[max % 2];
                for context in [0, 1] {
                    let request =
                        json!({"pattern": "needle", "max_results": max, "context": context});
                    assert_eq!(compare(setup, &request).0.used, 1);
                }
            }
            for max in (1..=all.len() + 1).filter(|max| is_turn(max + 2 * nth, 3)) {
                let request = json!({"pattern": "needle", "max_files": max});
                assert_eq!(compare(&setups[max % 2], &request).0.used, 1);
            }
        };
        // Names with line breaks are searched, whatever the content of the files.
        check(20);
        // Files that changed since the build are searched too, in their places.
        if !variant.frozen {
            tree.file("a-b", "a needle, new here\n");
            tree.file("b/c/d.straw", "fresh straw\n");
            tree.file("e\u{301}/x", "a needle\nand a needle\n");
            check(24);
        }
    }
}

/// Checks that a request is answered as without an index, because no index is used.
#[track_caller]
fn check_unused(setup: &Setup, request: &Value) {
    let (tally, response) = compare(setup, request);
    assert_eq!(tally.used, 0, "{request} uses the index");
    assert!(response.is_some(), "{request} is refused");
}

fn haystack() -> Tree {
    Tree::of([
        ("hay.txt", "hay\n"),
        ("more/hay.txt", "hay, and more hay\n"),
        ("more/needle.txt", "a needle\n"),
        ("more/.hidden/needle.txt", "a needle\n"),
        ("other.txt", "a nedle, a Kelvin\u{212A}, caf\u{E9}\n"),
    ])
}

#[test]
fn no_file_is_excluded_if_the_answer_could_change() {
    let tree = haystack();
    let setup = tree.setup().with_indexes(LIVE);
    setup.build(&Host::patient());
    let used = |request: &Value| compare(&setup, request).0.excluding == 1;
    assert!(used(&json!({"pattern": "needle"})));
    // The pattern is in doubt.
    for pattern in [
        "ne",
        ".",
        "needle|ha",
        "(needle)?",
        "n.*e",
        r"(?-u:\xE9)needle|(?-u:[^a])",
        "cafe\u{301}",
        "ca\u{FFFD}",
        r"\w{3}",
    ] {
        check_unused(&setup, &json!({"pattern": pattern}));
    }
    // The set of files is in doubt.
    for option in ["hidden", "follow", "no_ignore"] {
        check_unused(&setup, &json!({"pattern": "needle", option: true}));
    }
    for path in ["more/.hidden", "hay.txt"] {
        check_unused(&setup, &json!({"pattern": "needle", "path": path}));
    }
    // The engine cannot take lists of files.
    let mut listless = tree.setup();
    listless.engines = Hooked::new(|_| Ok(())).without_lists().engines();
    let listless = listless.with_indexes(LIVE);
    listless.build(&Host::patient());
    check_unused(&listless, &json!({"pattern": "needle"}));
    // After a change, the directory is listed anew and the index is still used.
    tree.file("new.txt", "a needle\n");
    assert!(used(&json!({"pattern": "needle"})));
}

#[test]
fn smart_case_chooses_the_filter_variant_by_ascii_letters() {
    let tree = Tree::of([
        ("lower.txt", "ñandú marathon\n"),
        ("upper.txt", "ÑANDÚ MARATHON\n"),
        ("mixed.txt", "Ñandú MARATHON\n"),
        ("other.txt", "an ostrich race\n"),
    ]);
    let setup = tree.setup().with_indexes(LIVE);
    setup.build(&Host::patient());
    for (pattern, expected) in [
        // These have no capital letter of ASCII: ASCII letters match in both cases, and others as
        // written.
        ("Ñandú", ["mixed.txt"].as_slice()),
        ("Ñand", &["mixed.txt", "upper.txt"]),
        ("ú mara", &["lower.txt", "mixed.txt"]),
        ("marathon", &["lower.txt", "mixed.txt", "upper.txt"]),
        // These have a capital letter of ASCII, and match as written.
        ("MARATHON", &["mixed.txt", "upper.txt"]),
        ("ú MARA", &["mixed.txt"]),
        ("ÑAND", &["upper.txt"]),
    ] {
        let request = json!({"pattern": pattern, "fixed_strings": true, "case": "smart"});
        let (tally, response) = compare(&setup, &request);
        assert_eq!(paths(&response.unwrap()), expected, "{pattern}");
        assert!(tally.excluding == 1 && tally.excluded > 0, "{pattern}");
        let mut first = None;
        for _ in 0..3 {
            let answer = setup.search(request.clone());
            let stats = answer.stats.unwrap();
            let counts = (stats.candidates_excluded, stats.candidates_scanned);
            assert_eq!(*first.get_or_insert(counts), counts, "{pattern}");
        }
    }
}

#[test]
fn no_file_is_excluded_for_an_engine_that_takes_no_list_of_files() {
    let tree = haystack();
    let request = json!({"pattern": "needle"});
    for lists in [true, false] {
        let engine = Hooked::new(|_| Ok(()));
        let engine = match lists {
            true => engine,
            false => engine.without_lists(),
        };
        let mut setup = tree.setup();
        setup.engines = engine.engines();
        let setup = setup.with_indexes(LIVE);
        setup.build(&Host::patient());
        let (tally, response) = compare(&setup, &request);
        assert_eq!(
            (tally.used, tally.excluding),
            match lists {
                true => (1, 1),
                false => (0, 0),
            }
        );
        assert_eq!(response.unwrap().count, 1);
    }
    // One engine in the chain that cannot take lists is enough.
    let mut setup = tree.setup();
    let mut chain = setup.engines.chain().to_vec();
    let listless = Hooked::new(|_| Ok(())).without_lists().engines();
    chain.extend(listless.chain().iter().cloned());
    setup.engines = forge_search::internal::tool::engines::Engines::new(chain, String::new());
    let setup = setup.with_indexes(LIVE);
    setup.build(&Host::patient());
    check_unused(&setup, &request);
    // All real engines can take lists.
    for (name, engines) in engines() {
        let mut setup = tree.setup();
        setup.engines = engines;
        let setup = setup.with_indexes(LIVE);
        setup.build(&Host::patient());
        assert_eq!(compare(&setup, &request).0.excluding, 1, "{name}");
    }
}

#[test]
fn fuzzy_requests_exclude_only_files_that_no_edits_can_explain() {
    let tree = Tree::of([
        ("exact.txt", "a needle in a haystack\n"),
        ("near.txt", "a neeedle, and more\n"),
        ("far.txt", "the nests of a puddle\n"),
        ("straw.txt", "nothing but straw\n"),
    ]);
    let mut fuzzy = 0;
    for (name, engines) in engines() {
        let mut setup = tree.setup();
        let capable = name != "rg";
        setup.engines = engines;
        let setup = setup.with_indexes(LIVE);
        setup.build(&Host::patient());
        for (level, count, excludes) in [(1, 2, true), (2, 2, false)] {
            let request = json!({"pattern": "needle", "fixed_strings": true, "fuzzy": level});
            // The decision does not depend on whether the engine can answer.
            let parsed = SearchRequest::from_value(request.clone()).unwrap();
            let explanation = setup.tool().explain(&parsed, &setup.context()).unwrap();
            assert_eq!(explanation.reason.is_none(), excludes, "{name} {level}");
            match excludes {
                true => assert_eq!(
                    explanation.plan.unwrap().to_string(),
                    "/needle/ within 1 edit"
                ),
                false => assert!(explanation.reason.unwrap().contains("edits"), "{name}"),
            }
            let (tally, response) = compare(&setup, &request);
            assert_eq!(response.is_some(), capable, "{name}");
            if let Some(response) = response {
                assert_eq!(response.count, count, "{name} {level}");
                assert_eq!(tally.used, u64::from(excludes), "{name} {level}");
                assert_eq!(tally.excluding, u64::from(excludes), "{name} {level}");
                fuzzy += 1;
            }
        }
    }
    assert!(fuzzy >= 2, "{fuzzy}");
}

#[test]
fn what_globs_and_a_subtree_leave_is_found_out_once() {
    let tree = Tree::of([
        ("a/one.c", "needle"),
        ("a/two.h", "needle"),
        ("b/three.c", "hay"),
    ]);
    let setup = tree.setup().with_indexes(LIVE);
    let (_, snapshot) = setup.build(&Host::hasty());
    let ask = |include: &str, path: &str, pattern: &str| {
        let request = json!({"pattern": pattern, "include_glob": [include], "path": path});
        compare(&setup, &request);
        snapshot.kept_sets()
    };
    compare(&setup, &json!({"pattern": "needle"}));
    // The root's range has all files, so the only kept set is that of the files that are too large.
    assert_eq!(snapshot.kept_sets(), 1);
    assert_eq!(ask("*.c", ".", "needle"), 2);
    // Another pattern uses the same set of files.
    assert_eq!(ask("*.c", ".", "absent"), 2);
    assert_eq!(ask("*.c", "a", "needle"), 3);
    assert_eq!(ask("*.h", "a", "needle"), 4);
    assert_eq!(ask("*.c", ".", "needle"), 4);
    for n in 0..40 {
        ask(&format!("{n}*"), ".", "needle");
    }
    let most = snapshot.kept_sets();
    assert!((5..44).contains(&most), "{most}");
}

#[test]
fn only_completely_tokenized_files_are_excluded() {
    let filler = "some text without it\n";
    let tree = Tree::new();
    tree.file("a", "the needle\n")
        .file("b", filler)
        .file("large", filler.repeat(300))
        .file("binary", [0xFF; 200])
        .file("decomposed", "e\u{301}te\u{301}\n")
        .file("short", "ab");
    for variant in VARIANTS {
        let setup = tree
            .setup()
            .config(|config| config.index_max_tokenized_bytes = 4_096);
        let setup = setup.with_indexes(variant);
        let (built, _) = setup.build(&Host::hasty());
        assert_eq!(built.excludable, 2);
        let (tally, response) = compare(&setup, &json!({"pattern": "needle"}));
        assert_eq!((tally.used, tally.excluded), (1, 1), "{variant:?}");
        assert_eq!(paths(&response.unwrap()), ["a"]);
    }
}

#[test]
fn a_file_whose_ngrams_take_too_much_memory_is_never_left_out() {
    // The n-grams of this file take eight times its bytes: all are different, and so are their
    // folds.
    let mut rng = Seeded::new(77);
    let mut cyrillic = String::new();
    while cyrillic.len() < 900_000 {
        for _ in 0..80 {
            cyrillic.push(char::from_u32(0x410 + rng.below(32) as u32).unwrap());
            cyrillic.push(char::from(b'A' + rng.below(26) as u8));
        }
        cyrillic.push('\n');
    }
    let ascii = "some text without it\n".repeat(43_000);
    let tree = Tree::of([("a", "the needle\n"), ("b", "nothing\n"), ("ascii", &ascii)]);
    tree.file("cyrillic", &cyrillic)
        .file("larger", ascii.repeat(2));
    let left_out = |memory: u64| {
        let setup = tree
            .setup()
            .config(|config| config.index_max_memory_bytes = memory);
        let setup = setup.with_indexes(LIVE);
        let (built, snapshot) = setup.build(&Host::hasty());
        snapshot.segment().verify().unwrap();
        let (tally, response) = compare(&setup, &json!({"pattern": "needle"}));
        assert_eq!(
            (tally.used, paths(&response.unwrap())),
            (1, vec!["a".into()])
        );
        let too_large = built.by_status[TokenStatus::SkippedTooLarge as usize];
        (built.excludable, tally.excluded, too_large)
    };
    assert_eq!(left_out(512 << 20), (4, 3, 1));
    // Of four megabytes, two are for the text and the n-grams of one file, and one is for the text.
    assert_eq!(left_out(4 << 20), (3, 2, 1));
}

#[test]
fn the_filter_variant_is_that_of_the_search() {
    let tree = Tree::of([("lower", "abcd\n"), ("upper", "ABCD\n"), ("z", "nothing\n")]);
    for variant in VARIANTS {
        let setup = tree.setup().with_indexes(variant);
        setup.build(&Host::hasty());
        let excluded = |pattern: &str, case: &str| {
            let request = json!({"pattern": pattern, "case": case});
            let (tally, response) = compare(&setup, &request);
            (tally.excluded, paths(&response.unwrap()).len())
        };
        assert_eq!(excluded("ABCD", "sensitive"), (2, 1), "{variant:?}");
        assert_eq!(excluded("ABCD", "smart"), (2, 1), "{variant:?}");
        assert_eq!(excluded("ABCD", "insensitive"), (1, 2), "{variant:?}");
        assert_eq!(excluded("abcd", "smart"), (1, 2), "{variant:?}");
        // A pattern that equals its fold is looked up among the folded n-grams, which gives a
        // superset.
        assert_eq!(excluded("abcd", "sensitive"), (1, 1), "{variant:?}");
    }
}
