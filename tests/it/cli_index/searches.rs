//! Searches with an index, and the reports about the use of the index.

use std::fs;
use std::path::Path;

use forge_search::internal::format::lock::LockFile;
use forge_search::internal::format::manifest::Manifest;
use serde_json::{Value, json};

use super::World;
use crate::clocks::ends;
use crate::index_support::locked;

#[test]
fn an_index_serves_searches_from_wherever_they_come() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let elsewhere = tempfile::tempdir().unwrap();
    let src = world.tree.join("src");
    for (dir, args) in [
        (world.tree.as_path(), ["fn greet", "."]),
        (&world.tree, ["fn greet", "src"]),
        (elsewhere.path(), ["fn greet", world.shown()]),
    ] {
        let ran = world.run_in(dir, &[args[0], args[1], "--json", "--stats"]);
        let summary: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
        let stats = &summary["data"]["stats"];
        assert_eq!(summary["data"]["count"], 1);
        assert_eq!(stats["index_safety_state"], "COMPLETE", "{args:?}");
        assert_eq!(stats["index_exclusion_used"], true, "{args:?}");
        assert!(stats["candidates_excluded"].as_u64().unwrap() >= 2);
        assert_eq!(stats["storage_mode"], "mmap");
    }
    // The index of a directory above the working directory is used.
    let ran = world.run_in(&src, &["fn greet", "--stats"]);
    assert_eq!(
        (ran.status, ran.out.as_str()),
        (0, "greet.rs:1:5:pub fn greet() {}\n")
    );
    for part in [
        "index_safety_state       COMPLETE",
        "candidates_excluded      2",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    // Configured roots are the only ones that are used.
    let ran = world.run_in(
        &src,
        &["fn greet", "--stats", "--set", "index_roots=[\".\"]"],
    );
    assert!(
        ran.err.contains("index_safety_state       ABSENT"),
        "{}",
        ran.err
    );
}

#[test]
fn the_deepest_index_that_contains_the_searched_path_is_used() {
    let world = World::new();
    world.write("src/deep/greet.rs", "fn greet() {}\n");
    world.write("src/deep/.hidden/greet.rs", "fn greet() {}\n");
    world.write("src/deep/ignored/greet.rs", "fn greet() {}\n");
    world.write("src/deep/.ignore", "ignored\n");
    let (top, src) = (world.tree.clone(), world.tree.join("src"));
    let deep = src.join("deep");
    let shown = |dir: &Path| dir.to_str().unwrap().to_string();
    let explained = |dir: &Path, path: &str| {
        let ran = world.run_in(dir, &["explain", "--json", "fn greet", path]);
        let report = ran.ok().json();
        (
            report["index"]["state"].clone(),
            report["index"]["root"].clone(),
            report["elsewhere"].clone(),
        )
    };
    let root_of = |dir: &Path, path: &str| {
        let (state, root, elsewhere) = explained(dir, path);
        assert_eq!(
            (state, elsewhere),
            ("COMPLETE".into(), Value::Null),
            "{dir:?}, {path}"
        );
        root
    };
    // There is no stored index to name.
    assert_eq!(explained(&deep, ".").0, "ABSENT");
    world.run(&["index", "build", "src"]).ok();
    for (dir, path) in [(&deep, "."), (&top, "src"), (&top, "src/deep"), (&src, ".")] {
        assert_eq!(root_of(dir, path), shown(&src), "{dir:?}, {path}");
    }
    // An index of a subdirectory is named, with the way to use it.
    let below = format!("{}, which lies below, has an index", shown(&src));
    let ran = world.run(&["explain", "fn greet"]).ok();
    for part in ["ABSENT", &below, &format!("`--root {}`", shown(&src))] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let status = |dir: &Path| world.run_in(dir, &["index", "status"]);
    let used = format!(
        "{}, which contains it, has an index, which searches use",
        shown(&src)
    );
    for (dir, said) in [(&deep, &used), (&top, &below)] {
        let ran = status(dir);
        assert_eq!(ran.status, 1);
        assert!(ran.out.contains(said), "{said}: {}", ran.out);
        let report = world.run_in(dir, &["index", "status", "--json"]).json();
        let found = &report["indexes"][0]["elsewhere"];
        assert_eq!(found["root"], shown(&src));
        assert_eq!(found["used"], said == &used);
    }
    // The index of the deepest root is used if it covers the request.
    world.run(&["index", "build"]).ok();
    assert_eq!(root_of(&deep, "."), shown(&src));
    assert_eq!(root_of(&top, "."), shown(&top));
    for path in [".hidden", "ignored"] {
        assert_eq!(explained(&deep, path).0, "UNCERTAIN", "{path}");
        let ran = world.run_in(&deep.join(path), &["fn greet"]).ok();
        assert_eq!(ran.out, "greet.rs:1:1:fn greet() {}\n");
    }
    // An index with other settings does not count.
    world.run(&["index", "clear", "src"]).ok();
    let hidden = [
        "index",
        "build",
        "--set",
        "index_default_hidden=true",
        "src",
    ];
    world.run(&hidden).ok();
    assert_eq!(root_of(&deep, "."), shown(&top));
    let farther = format!("{}, which contains it, has an index", shown(&top));
    assert!(
        status(&deep).out.contains(&farther),
        "{}",
        status(&deep).out
    );
    assert!(!status(&top).out.contains("has an index"));
    // If the options are the reason, another root would not help.
    let args = ["explain", "--json", "--hidden", "fn greet"];
    let report = world.run_in(&deep, &args).ok().json();
    assert_eq!(report["elsewhere"], Value::Null);
}

#[test]
fn every_field_of_stats_is_shown_to_people_and_programs() {
    let world = World::new();
    let fields = [
        "stats_version",
        "index_safety_state",
        "index_uncertain_reason",
        "index_exclusion_used",
        "storage_mode",
        "storage_fallback_reason",
        "fallback_used",
        "fallback_reason",
        "fuzzy_levels_tried",
        "elapsed_ms",
        "candidates_total",
        "candidates_excluded",
        "candidates_scanned",
    ];
    let ran = world.run(&["--stats", "greet"]);
    assert_eq!(ran.status, 0);
    assert!(!ran.out.contains("stats"), "{}", ran.out);
    for field in fields {
        let lines = ran.err.lines().filter(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(field) && words.next().is_some()
        });
        assert_eq!(lines.count(), 1, "{field}: {}", ran.err);
    }
    let request = r#"{"pattern": "greet"}"#;
    let answer = world
        .run(&["call", "--set", "emit_stats=true", request])
        .ok()
        .json();
    let stats = answer["stats"].as_object().unwrap();
    assert_eq!(stats.len(), fields.len());
    assert!(fields.iter().all(|field| stats.contains_key(*field)));
}

#[test]
fn nothing_is_made_where_no_index_is_built() {
    let world = World::new();
    for args in [
        ["greet"].as_slice(),
        &["greet", "src/main.rs"],
        &["call", r#"{"pattern": "greet"}"#],
        &["call", "--set", "index_mode=on", r#"{"pattern": "greet"}"#],
        &["explain", "greet"],
        &["doctor"],
        &["index", "list"],
        &["index", "verify", "--all"],
        &["index", "clear"],
    ] {
        let ran = world.run(args);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(!world.cache.exists(), "{args:?}");
    }
    assert_eq!(world.run(&["--stats", "greet"]).status, 0);
    assert_eq!(world.run(&["index", "status"]).status, 1);
    assert!(!world.cache.exists());
    world.run(&["index", "build"]).ok();
    assert_eq!(world.kept().len(), 1);
}

#[test]
fn mode_on_builds_an_index_of_even_the_smallest_tree() {
    let world = World::new();
    // A build is requested by a flag or by the configuration.
    let ran = world.run(&["--index", "auto", "fn greet"]).ok();
    assert_eq!(ran.out, "src/greet.rs:1:5:pub fn greet() {}\n");
    assert_eq!(
        world.kept().len(),
        0,
        "one that is there is used, none is made"
    );
    let on = world.run(&["--index", "on", "fn greet"]).ok();
    assert_eq!((on.out, world.kept().len()), (ran.out, 1));
    let before = fs::read(world.kept()[0].join("manifest")).unwrap();
    let sequence = || {
        let bytes = fs::read(world.kept()[0].join("manifest")).unwrap();
        Manifest::decode(bytes.into()).unwrap().state.sequence
    };
    // A usable index is not built again.
    let ran = world.run(&["--set", "index_mode=on", "--stats", "fn greet"]);
    assert!(
        ran.err.contains("index_exclusion_used     yes"),
        "{}",
        ran.err
    );
    assert_eq!(fs::read(world.kept()[0].join("manifest")).unwrap(), before);
    // A stale or damaged index is built again.
    world.write("src/new.rs", "fn greet_too() {}\n");
    let ran = world.run(&["--index", "on", "fn greet_too"]).ok();
    assert_eq!(ran.out, "src/new.rs:1:1:fn greet_too() {}\n");
    assert_eq!(sequence(), 2);
    world.damage("segment-", |bytes| bytes.truncate(99));
    world.run(&["--index", "on", "fn greet_too"]).ok();
    world.run(&["index", "verify"]).ok();
    // The last setting wins, and `off` means no index.
    let ran = world.run(&[
        "--set",
        "index_mode=on",
        "--index",
        "off",
        "--stats",
        "greet",
    ]);
    assert!(
        ran.err.contains("index_safety_state       DISABLED"),
        "{}",
        ran.err
    );
    assert_eq!(world.run(&["--index", "sometimes", "greet"]).status, 2);
}

#[test]
fn a_search_whose_index_can_not_be_built_goes_on_without_it() {
    let world = World::new();
    let inside = format!("index_path={:?}", world.tree.join("cache"));
    let ran = world.run(&["--index", "on", "--set", &inside, "fn greet"]);
    assert_eq!((ran.status, ran.out.lines().count()), (0, 1));
    assert!(ran.err.contains("indexes are not kept: "), "{}", ran.err);
    assert!(ran.err.contains("set index_path"), "{}", ran.err);
    world.run(&["index", "build"]).ok();
    world.write("src/new.rs", "fn greet_too() {}\n");
    let lock = locked(&world.kept()[0], LockFile::Writers);
    let ran = world.run(&["--index", "on", "fn greet"]);
    assert_eq!((ran.status, ran.out.lines().count()), (0, 2));
    assert!(ran.err.contains("locked"), "{}", ran.err);
    drop(lock);
    // An error in the request is reported before a build starts.
    let ran = world.run(&["--index", "on", "("]);
    assert!(ran.status == 2 && ran.err.contains("invalid regular expression"));
    assert_eq!(world.run(&["index", "status"]).status, 1);
}

#[test]
fn explain_shows_the_plan_and_what_it_leaves() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let ran = world.run(&["explain", "fn greet"]).ok();
    for part in [
        "\"fn greet\", an expression",
        "insensitive (smart case)",
        world.shown(),
        "COMPLETE",
        "a file must contain \"fn greet\"",
        "\"fn \"",
        "5 files",
        "4 (80.0 %)",
        "1 file with a match",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(!ran.out.contains("because"), "{}", ran.out);
    let explained = |args: &[&str]| {
        let args: Vec<&str> = ["explain", "--json"].iter().chain(args).copied().collect();
        world.run(&args).ok().json()
    };
    let report = explained(&["-i", "fn|grass"]);
    assert_eq!(report["plan"]["requires"], Value::Null);
    assert_eq!(report["files"]["excluded"], 0);
    assert_eq!(report["files"]["confirmed"], 4);
    assert!(
        report["reason"]
            .as_str()
            .unwrap()
            .contains("three characters")
    );
    // Files that are too large for the request are counted apart from files that the index
    // excludes.
    let settings = [
        "--set",
        "index_frozen=true",
        "--set",
        "max_file_size_bytes=5",
    ];
    let report = explained(&[&["fn greet"], &settings[..]].concat());
    assert_eq!(
        report["files"],
        json!({"in_scope": 5, "excluded": 0, "too_large": 5, "candidates_by_index": 5, "searched": 0, "confirmed": 0})
    );
    assert_eq!(report["reason"], Value::Null);
    // Some candidates do not match.
    let report = explained(&["-w", "gree", "src"]);
    assert_eq!(
        report["files"],
        json!({"in_scope": 3, "excluded": 1, "too_large": 0, "candidates_by_index": 2, "searched": 2, "confirmed": 0})
    );
    let report = explained(&["-F", "-s", "()", "-g", "*.rs"]);
    assert_eq!(
        (&report["case"], &report["fixed_strings"]),
        (&json!("sensitive"), &json!(true))
    );
    for (args, part) in [
        (
            ["--hidden", "greet"].as_slice(),
            "hidden, follow and no_ignore",
        ),
        (&["-L", "greet"], "hidden, follow and no_ignore"),
        (&["--no-ignore", "greet"], "hidden, follow and no_ignore"),
        (&["greet", "--index", "off"], "indexing is off"),
        (&["greet", "notes.txt"], "is a file"),
        (&["greet", "/etc/hostname"], "is a file"),
        (&["pub", "-g", "other.rs"], "no file could be skipped"),
    ] {
        let report = explained(args);
        let reason = report["reason"]
            .as_str()
            .unwrap_or_else(|| panic!("{args:?}: {report}"));
        assert!(reason.contains(part), "{args:?}: {reason}");
        assert_eq!(report["files"]["excluded"], 0, "{args:?}");
    }
    let report = explained(&["greet", "--no-recursive"]);
    assert_eq!(
        (
            &report["files"]["in_scope"],
            &report["files"]["candidates_by_index"]
        ),
        (&json!(2), &json!(0))
    );
    // Changed files are searched in addition to the candidates.
    world.write("hay.txt", "wet hay\n");
    let ran = world.run(&["explain", "fn greet"]).ok();
    assert!(
        ran.out
            .contains("2 files; candidates by the index: 1, and 1 because they changed"),
        "{}",
        ran.out
    );
    // Without an index, `explain` says how to build one, or builds it.
    world.run(&["index", "clear"]).ok();
    let report = explained(&["greet"]);
    assert!(report["reason"].as_str().unwrap().contains("index build"));
    assert_eq!(report["index"]["state"], "ABSENT");
    assert_eq!(
        explained(&["greet", "--index", "on"])["index"]["state"],
        "COMPLETE"
    );
    let wrong = world.run(&["explain", "("]);
    assert_eq!((wrong.status, wrong.out.as_str()), (2, ""));
}

#[test]
fn explain_shows_what_edits_leave_of_the_plan() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let ran = world.run(&["explain", "--fuzzy", "1", "fn grete"]).ok();
    for part in [
        "a file must contain /fn grete/ within 1 edit",
        "6 n-grams, of which one edit changes at most three in a row",
        "4 (80.0 %)",
        "1 file with a match",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let found = world.run(&["--fuzzy", "1", "fn grete"]).ok();
    assert_eq!(found.out.lines().count(), 1, "{}", found.out);
    let ran = world.run(&["explain", "--fuzzy", "3", "fn grete"]).ok();
    let why = "the allowed edits can change all n-grams of a match; allow fewer edits";
    assert!(ran.out.contains(why), "{}", ran.out);
}

#[test]
fn explain_says_the_numbers_of_the_search_itself() {
    let world = World::new();
    for n in 0..48 {
        world.write(&format!("many/{n}"), format!("straw {n}\n"));
    }
    world.write("bad\nname", "straw\n");
    world.write("worse\nname", "straw\n");
    world.run(&["index", "build"]).ok();
    world.write("hay.txt", "wet hay\n");
    let explain =
        |pattern: &str| world.run(&["explain", "--json", pattern]).ok().json()["files"].clone();
    let files = explain("fn greet");
    assert_eq!(
        files,
        json!({
            "in_scope": 55, "excluded": 51, "too_large": 0, "searched": 4, "candidates_by_index": 1, "confirmed": 1
        })
    );
    for pattern in ["fn greet", "straw 1", "nothing like it", "n"] {
        let ran = world.run(&["--json", "--stats", "--max-results", "100000", pattern]);
        let summary: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
        let stats = &summary["data"]["stats"];
        let files = explain(pattern);
        assert_eq!(files["in_scope"], stats["candidates_total"], "{pattern}");
        assert_eq!(files["excluded"], stats["candidates_excluded"], "{pattern}");
        assert_eq!(files["searched"], stats["candidates_scanned"], "{pattern}");
        let number = |name: &str| files[name].as_u64().unwrap();
        assert_eq!(
            number("excluded") + number("searched"),
            number("in_scope"),
            "{pattern}"
        );
    }
    let ran = world.run(&["explain", "fn greet"]).ok();
    for part in [
        "55 files",
        "51 (92.7 %)",
        "4 files; candidates by the index: 1, and 3 because",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

#[test]
fn explain_says_which_part_of_an_expression_is_not_used() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let ran = world.run(&["explain", "[a-z]{3}_[0-9]{4}_[a-z]{2}"]).ok();
    for part in [
        "not used    too many n-grams to be worth testing: /[a-zſ][a-zſ][a-zſ]/; the rest of the expression is used",
        "3,198 different n-grams",
        "3,198 different in total",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let ran = world.run(&["explain", "--json", "greet"]).ok();
    assert_eq!(ran.json()["plan"].get("unused"), None);
    assert!(
        !world
            .run(&["explain", "greet"])
            .ok()
            .out
            .contains("not used")
    );
}

#[test]
fn doctor_reports_indexes_and_what_is_wrong_with_their_place() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let report = world.run(&["doctor", "--json"]).ok().json();
    let index = &report["index"];
    assert_eq!(
        (&index["mode"], &index["storage"]),
        (&json!("auto"), &json!("mmap"))
    );
    assert_eq!(index["directory"], world.store().to_str().unwrap());
    assert_eq!(index["fallback"], Value::Null);
    assert_eq!(index["roots"][0]["root"], world.shown());
    assert_eq!(index["roots"][0]["state"], "COMPLETE");
    let inside = format!("index_path={:?}", world.tree.join("cache"));
    let ran = world.run(&[
        "doctor",
        "--set",
        &inside,
        "--set",
        "index_roots=[\".\", \"missing\"]",
    ]);
    assert_eq!(ran.status, 2);
    let (above, todo) = ran.out.split_once("\nto do\n").unwrap();
    assert!(above.contains("storage           memory"), "{above}");
    for part in ["set index_path", "missing"] {
        assert!(
            above.contains(part) && todo.contains(part),
            "{part}: {}",
            ran.out
        );
    }
    world.damage("manifest", Vec::clear);
    let ran = world.run(&["doctor"]);
    assert!(
        ran.status == 2 && ran.out.contains("CORRUPT"),
        "{}",
        ran.out
    );
    let off = world.run(&["doctor", "--set", "index_mode=off"]).ok();
    assert!(off.out.contains("mode              off"), "{}", off.out);
}

/// The search compares a large tree with its index in any case, and handles the differences itself.
#[test]
fn mode_on_rebuilds_the_index_of_a_large_tree_only_if_much_differs() {
    let world = World::new();
    for n in 0..600 {
        world.write(&format!("many/d{n}/x"), "\n");
    }
    world.write(".ignore", "none\n");
    world.run(&["index", "build"]).ok();
    let sequence = || {
        let bytes = fs::read(world.kept()[0].join("manifest")).unwrap();
        Manifest::decode(bytes.into()).unwrap().state.sequence
    };
    let check = |expected: u64| {
        let ran = world.run(&["--index", "on", "--stats", "fn greet_too"]);
        assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
        assert!(
            ran.err.contains("index_exclusion_used     yes"),
            "{}",
            ran.err
        );
        assert_eq!(sequence(), expected);
    };
    world.write("src/new.rs", "fn greet_too() {}\n");
    check(1);
    world.write(".ignore", "nothing\n");
    check(2);
    for n in 0..400 {
        world.write(&format!("many/d{n}/y"), "\n");
    }
    check(3);
}

/// A search with `--index on` builds its index only if no other process holds a lock for long, of
/// readers or of writers.
#[test]
fn a_search_that_would_build_its_index_waits_no_longer_than_its_budget() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let dir = world.kept().remove(0);
    for which in [LockFile::Readers, LockFile::Writers] {
        let lock = locked(&dir, which);
        // The index is stale now, so it has to be built again.
        world.write("src/new.rs", "fn greet_again() {}\n");
        let args = ["--index", "on", "--set", "index_lock_timeout_ms=86400000"];
        let args = [&args[..], &["--timeout-ms", "2000", "greet"]].concat();
        let mut command = world.program(&world.tree, &args);
        let output = ends(move || command.output().unwrap());
        let out = String::from_utf8(output.stdout).unwrap();
        assert_eq!(out.lines().count(), 3, "{which:?}: {out}");
        drop(lock);
        let used = world.run(&["--index", "on", "--stats", "greet"]);
        assert!(used.err.contains("COMPLETE"), "{}", used.err);
        fs::remove_file(world.tree.join("src/new.rs")).unwrap();
    }
}
