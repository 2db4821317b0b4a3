//! Tests of queries and their answers.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use forge_search::internal::tool::config::{Embed, IndexMode, IndexStorage};
use forge_search::internal::tool::daemon::server::Settings;
use serde_json::{Value, json};

use super::{World, small};
use crate::support::{GUARD, Tree};

fn search(query: &str) -> Value {
    json!({"type": "search", "query": query})
}

fn paths(answer: &Value) -> Vec<&str> {
    let results = answer["results"].as_array().unwrap();
    results
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect()
}

/// Repeats a query until the answer comes from the index.
pub(super) fn with_snapshot(world: &World, query: &Value) -> Value {
    let began = Instant::now();
    loop {
        let answer = world.client().found(query.clone());
        if answer["snapshot_id"].is_string() {
            return answer;
        }
        assert!(began.elapsed() < GUARD, "{answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Repeats a query until the index knows the words of all files with a result. Before, the first
/// ranked question has it build another segment, which is another snapshot.
pub(super) fn with_words(world: &World, query: &Value) {
    let mut query = query.clone();
    query["explain"] = json!(true);
    let began = Instant::now();
    loop {
        let answer = with_snapshot(world, &query);
        let counts = &answer["explain"]["candidates"];
        let count = |name: &str| counts[name].as_u64().unwrap();
        if count("files_known_to_index") == count("files_with_any") {
            return;
        }
        assert!(began.elapsed() < GUARD, "{answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_small_tree_is_indexed_once_a_question_asks_for_it() {
    let world = World::with(small(), Settings::default(), |config| {
        config.search.index_mode = IndexMode::Auto;
    });
    let health = || super::inspect::health(&world).to_string();
    let began = Instant::now();
    while !health().contains("the tree is below") {
        assert!(began.elapsed() < GUARD, "{}", health());
        std::thread::sleep(Duration::from_millis(5));
    }
    let asked = search("open_socket");
    let before = world.client().found(asked.clone());
    with_words(&world, &asked);
    assert_eq!(with_snapshot(&world, &asked)["results"], before["results"]);
}

#[test]
fn an_index_whose_words_are_too_large_stays_as_it_is() {
    let many: String = (0..4_000).map(|n| format!("w{n}x\n")).collect();
    let tree = Tree::of([("many.txt", &*many), ("few.txt", "w17x\n")]);
    let world = World::with(tree, Settings::default(), |config| {
        config.search.index_storage = IndexStorage::Memory;
        config.search.index_max_memory_bytes = 110_000;
    });
    let status = || super::inspect::status(&world);
    let first = with_snapshot(&world, &search("w17x"));
    let began = Instant::now();
    while status()["sync"]["last_result"] != "failed" {
        assert!(began.elapsed() < GUARD, "{}", status());
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..3 {
        let answer = world.client().found(search("w17x"));
        assert_eq!(answer["degraded"], false, "{answer}");
        assert_eq!(answer["results"], first["results"]);
    }
}

#[test]
fn definitions_come_first_and_files_without_a_term_are_not_listed() {
    let world = World::over(small(), Settings::default());
    let answer = with_snapshot(&world, &search("open_socket"));
    let found = paths(&answer);
    assert_eq!(found[0], "src/socket.rs");
    let all: BTreeSet<&str> = found.into_iter().collect();
    let expected = [
        "docs/guide.md",
        "src/main.rs",
        "src/socket.rs",
        "tests/socket_test.rs",
    ];
    assert_eq!(all.into_iter().collect::<Vec<_>>(), expected);
    let best = &answer["results"][0];
    assert_eq!(best["match_pct"], 100);
    assert_eq!(best["chunk_type"], "definition");
    assert_eq!(best["why"][0], "defined here", "{best}");
    assert_eq!(
        (best["start_line"].as_u64(), best["end_line"].as_u64()),
        (Some(2), Some(4))
    );
    let content = best["content"].as_str().unwrap();
    assert!(content.starts_with("pub fn "), "the signature: {content}");
    assert_eq!(answer["degraded"], false);
    assert_eq!(answer["mode"], "balanced");
    assert_eq!(answer["limits"]["max_results"], 20);
}

#[test]
fn results_of_questions_are_the_same_with_and_without_an_index() {
    let with = World::over(small(), Settings::default());
    let without = World::with(small(), Settings::default(), |config| {
        config.search.index_mode = IndexMode::Off;
    });
    for query in [
        "open_socket",
        "socket fn",
        "fn",
        "->",
        "zzzz",
        "unrelated main",
    ] {
        let with = with_snapshot(&with, &search(query));
        let without = without.client().found(search(query));
        assert_eq!(with["results"], without["results"], "{query}");
        assert_eq!(without["degraded"], true);
        assert_eq!(without["snapshot_id"], Value::Null);
    }
}

#[test]
fn related_code_is_the_same_with_and_without_the_words_of_an_index() {
    let with = World::over(small(), Settings::default());
    with_words(&with, &search("socket"));
    let without = World::with(small(), Settings::default(), |config| {
        config.search.index_mode = IndexMode::Off;
    });
    let related = |world: &World| {
        let place = format!("{}/src/socket.rs:2", world.tree.root().display());
        let query = json!({"type": "search", "related": place, "explain": true});
        world.client().found(query)
    };
    let (with, without) = (related(&with), related(&without));
    assert_eq!(with["results"], without["results"]);
    assert_eq!(with["explain"]["terms"], without["explain"]["terms"]);
    // The index knows all files. That of the piece is read: without the piece, its name is left.
    let counts = &with["explain"]["candidates"];
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!(count("files_known_to_index") + 1, count("files_with_any"));
    let found = paths(&with);
    assert_eq!(found[0], "src/main.rs", "{with}");
    assert!(!found.contains(&"src/socket.rs"), "{with}");
}

#[test]
fn deterministic_answers_are_equal_byte_for_byte() {
    let world = World::over(small(), Settings::default());
    let query = json!({
        "type": "search", "query": "socket open fn", "deterministic": true, "explain": true,
    });
    with_words(&world, &query);
    let first = with_snapshot(&world, &query);
    assert!(first.get("timings_ms").is_none());
    let bytes = |_: u8| {
        let mut wire = world.client();
        wire.send(&query);
        wire.payload().unwrap()
    };
    let one = bytes(0);
    for n in 1..20 {
        assert_eq!(bytes(n), one);
    }
    // Scores always have four decimals.
    let text = String::from_utf8(one).unwrap();
    for score in text.split("\"score\":").skip(1) {
        let score = score.split(',').next().unwrap();
        assert_eq!(score.split('.').nth(1).map(str::len), Some(4), "{score}");
    }
    // Another query has another id.
    let other = json!({"type": "search", "query": "socket", "deterministic": true});
    assert_ne!(
        world.client().found(other)["request_id"],
        first["request_id"]
    );
    // Without `deterministic`, each answer has its own id.
    let mut wire = world.client();
    let ids: BTreeSet<String> = (0..5)
        .map(|_| wire.found(search("socket"))["request_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 5);
}

#[test]
fn a_path_restricts_a_question_and_one_outside_of_the_root_is_refused() {
    let world = World::over(small(), Settings::default());
    let mut wire = world.client();
    let root = world.tree.root().to_str().unwrap().to_string();
    let at = |path: String| json!({"type": "search", "query": "open_socket", "path": path});
    let within = wire.found(at(format!("{root}/src")));
    assert_eq!(
        paths(&within)
            .into_iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>(),
        ["src/main.rs", "src/socket.rs"]
    );
    let file = wire.found(at(format!("{root}/src/main.rs")));
    assert_eq!(paths(&file), ["src/main.rs"]);
    assert_eq!(
        paths(&wire.found(at(root.clone()))).len(),
        paths(&wire.found(search("open_socket"))).len()
    );
    for path in [
        "src".to_string(),
        "/etc".to_string(),
        format!("{root}/../tree/src"),
        format!("{root}x"),
        format!("{root}/nowhere"),
    ] {
        let said = wire.refused(&at(path.clone()), "invalid_request");
        assert!(said.contains("path"), "{path}: {said}");
    }
}

#[test]
fn a_path_that_a_link_leads_out_of_the_root_is_refused() {
    let other = Tree::of([("secret.rs", "open_socket\n")]);
    let outside = other.root().to_path_buf();
    let tree = small();
    std::os::unix::fs::symlink(&outside, tree.path("out")).unwrap();
    let root = tree.root().to_path_buf();
    // The path is refused even if the sandbox allows the link's target.
    let world = World::with(tree, Settings::default(), |config| {
        config.sandbox.allowed_roots = vec![root.clone(), outside.clone()];
    });
    let mut wire = world.client();
    for path in ["out", "out/secret.rs"] {
        let path = root.join(path).to_str().unwrap().to_string();
        let asked = json!({"type": "search", "query": "open_socket", "path": path});
        let said = wire.refused(&asked, "invalid_request");
        assert!(said.contains("path"), "{said}");
    }
}

#[test]
fn modes_and_limits_shape_the_answer_to_a_question() {
    let files = (0..8).map(|n| {
        (
            format!("src/{n}.rs"),
            "fn a() {\n    needle();\n\n\n\n\n}\n\n".repeat(3),
        )
    });
    let docs = (0..8).map(|n| {
        (
            format!("docs/{n}.md"),
            format!("needle needle needle needle\n{}", "\n".repeat(23)),
        )
    });
    let world = World::over(Tree::of(files.chain(docs)), Settings::default());
    let mut wire = world.client();
    let mut ask = |more: Value| {
        let mut query = search("needle");
        query
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        wire.found(query)
    };
    let docs = |answer: &Value| {
        paths(answer)
            .iter()
            .filter(|path| path.ends_with(".md"))
            .count()
    };
    // A question for a guide ranks documents first. They get at most 15 % of an answer of ten.
    let guide = json!({"query": "needle guide", "mode": "implementation", "limit": 10});
    let answer = ask(guide);
    assert_eq!((docs(&answer), paths(&answer).len()), (2, 10));
    let answer = ask(json!({"mode": "planning", "limit": 10}));
    assert_eq!(docs(&answer), 6);
    let answer = ask(json!({"mode": "discovery", "limit": 16}));
    let distinct: BTreeSet<&str> = paths(&answer).into_iter().collect();
    assert_eq!(distinct.len(), 16, "each file once");
    let answer = ask(json!({"per_file": 2, "limit": 100}));
    let first = paths(&answer)
        .iter()
        .filter(|path| **path == "src/0.rs")
        .count();
    assert_eq!(first, 2);
    let answer = ask(json!({"snippet": "none"}));
    assert_eq!(answer["results"][0]["content"], "");
    let long = ask(json!({"snippet": "long", "path": world.tree.root().join("src/0.rs")}));
    assert_eq!(
        (
            long["results"][0]["start_line"].as_u64(),
            long["results"][0]["end_line"].as_u64()
        ),
        (Some(1), Some(9))
    );
}

#[test]
fn caps_that_change_an_answer_are_reported() {
    let long = format!("needle {}\n", "x".repeat(10_000));
    let latin = b"needle caf\xe9\n".to_vec();
    let tree = Tree::of([("a.txt", long.into_bytes()), ("b.txt", latin)]);
    let world = World::over(tree, Settings::default());
    let answer = world.client().found(search("needle"));
    let hit = &answer["limits_hit"][0];
    assert_eq!(hit["code"], "max_snippet_bytes_per_result");
    assert_eq!(
        (hit["limit"].as_u64(), hit["observed"].as_u64()),
        (Some(4096), Some(10_007))
    );
    assert_eq!(hit["path_key"], "a.txt");
    let warning = &answer["warnings"][0];
    assert_eq!(
        (warning["code"].as_str(), warning["path_key"].as_str()),
        (Some("invalid_utf8"), Some("b.txt"))
    );
    let words: Vec<String> = (b'b'..)
        .filter(|letter| !b"aeiouy".contains(letter))
        .take(8)
        .flat_map(|letter| ["bz", "cz", "fz", "gz", "kz"].map(|end| (letter, end)))
        .map(|(letter, end)| format!("word{}{end}", char::from(letter)))
        .collect();
    assert_eq!(words.len(), 40);
    let answer = world.client().found(search(&words.join(" ")));
    assert_eq!(
        answer["limits_hit"][0],
        json!({"code": "max_query_terms", "limit": 32, "observed": 40})
    );
    // An answer that is too large loses its last results, and reports this.
    let files = (0..100).map(|n| (format!("{n:03}.txt"), "needle".to_string()));
    let small = Settings {
        max_response_bytes: 4_000,
        ..Settings::default()
    };
    let world = World::over(Tree::of(files), small);
    let answer = world
        .client()
        .found(json!({"type": "search", "query": "needle", "limit": 100}));
    let codes: Vec<_> = answer["limits_hit"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| &hit["code"])
        .collect();
    assert_eq!(codes, ["max_response_bytes"]);
    let length = answer.to_string().len();
    assert!(length <= 4_000, "{length}");
    // The answer is filled as far as there is room.
    assert!(length > 3_600 && paths(&answer).len() > 5, "{length}");
}

#[test]
fn caps_of_files_places_and_text_are_kept_and_reported() {
    let files = (0..12).map(|n| {
        (
            format!("{n:02}.txt"),
            "fn a() {\n    needle\n\n\n\n\n}\n\n".repeat(4),
        )
    });
    let tree = Tree::of(files);
    let world = World::with(tree, Settings::default(), |config| {
        config.daemon.max_candidates = 3;
        config.daemon.max_total_snippet_bytes = 20;
    });
    let told = |answer: &Value| -> Vec<(String, u64, Option<u64>)> {
        let hits = answer["limits_hit"].as_array().unwrap().iter();
        hits.map(|hit| {
            let code = hit["code"].as_str().unwrap().to_string();
            (
                code,
                hit["limit"].as_u64().unwrap(),
                hit["observed"].as_u64(),
            )
        })
        .collect()
    };
    let ask = |more: Value| {
        let mut query = json!({"type": "search", "query": "needle", "deterministic": true});
        query
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        with_snapshot(&world, &query)
    };
    with_words(&world, &search("needle"));
    let answer = ask(json!({"per_file": 2}));
    let expected = [
        ("max_candidates", 3, Some(12)),
        ("max_total_snippet_bytes", 20, None),
        ("per_file", 2, None),
    ];
    let expected = expected.map(|(code, limit, seen)| (code.to_string(), limit, seen));
    assert_eq!(told(&answer), expected);
    // Files with equal scores come in order, with two places of each. The text is cut at its limit.
    let found = paths(&answer);
    assert_eq!(found.len(), 6);
    assert!(found.iter().all(|path| *path < "03.txt"), "{found:?}");
    let shown = answer["results"].as_array().unwrap().iter();
    let bytes: usize = shown
        .map(|one| one["content"].as_str().unwrap().len())
        .sum();
    assert!((1..=20).contains(&bytes), "{bytes}");
    let limited = ask(json!({"limit": 2, "per_file": 50}));
    // Twenty files are read for any limit, so all places are counted.
    assert_eq!(told(&limited)[1], ("max_results".to_string(), 2, Some(12)));
    // Two places of each of three files come first. A third place of a file is missing only if
    // there is room for a seventh result.
    for (limit, is_missing) in [(1, false), (6, false), (7, true)] {
        let answer = ask(json!({"limit": limit, "per_file": 2}));
        let has_note = told(&answer).iter().any(|(code, ..)| code == "per_file");
        assert_eq!(has_note, is_missing, "{limit}: {answer}");
    }
    // The answer is the same on any number of threads, and at each repetition.
    for _ in 0..10 {
        assert_eq!(ask(json!({"per_file": 2})), answer);
    }
}

#[test]
fn cut_snippets_still_show_the_match() {
    let long = "x".repeat(6_000);
    let tree = Tree::of([
        ("line.txt", format!("{long}\nthe needle\n{long}\n")),
        ("wide.txt", format!("{long}{long} needle {long}\n")),
    ]);
    let world = World::over(tree, Settings::default());
    let answer = world.client().found(search("needle"));
    for (path, lines) in [("wide.txt", (1, 1)), ("line.txt", (1, 3))] {
        let results = answer["results"].as_array().unwrap();
        let one = results.iter().find(|one| one["path"] == path).unwrap();
        let content = one["content"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(
            content.contains("needle") && content.len() <= 4_096,
            "{one}"
        );
        let shown = (one["start_line"].as_u64(), one["end_line"].as_u64());
        let (first, last) = lines;
        assert_eq!(shown, (Some(first), Some(last)), "{}", one["path"]);
    }
    // If there is no room for the line before, the answer states which lines it shows.
    let tight = World::with(
        Tree::of([(
            "a.txt",
            format!("{}\n{} needle\n", "y".repeat(300), "z".repeat(90)),
        )]),
        Settings::default(),
        |config| config.daemon.max_snippet_bytes_per_result = 64,
    );
    let answer = tight.client().found(search("needle"));
    let one = &answer["results"][0];
    assert!(
        one["content"].as_str().unwrap().ends_with("needle"),
        "{one}"
    );
    assert_eq!(
        (&one["start_line"], &one["end_line"]),
        (&json!(2), &json!(2))
    );
}

#[test]
fn hits_in_binary_data_are_reported_with_and_without_an_index() {
    let world = |mode| {
        let late = format!("{}\0\na needle\n", "text\n".repeat(20_000));
        let tree = Tree::of([
            ("early.bin", "\0 a needle\n".to_string()),
            ("late.txt", late),
            ("small.txt", "a needle\n".to_string()),
            ("without.txt", format!("{}\0\n", "text\n".repeat(20_000))),
        ]);
        World::with(tree, Settings::default(), |config| {
            config.search.index_mode = mode
        })
    };
    let within = |world: &World, path: &str| {
        let mut asked = search("needle");
        asked["path"] = world.tree.path(path).to_str().unwrap().into();
        asked
    };
    let indexed = world(IndexMode::On);
    let plain = world(IndexMode::Off);
    for (path, found, told) in [
        ("", &["small.txt"][..], Some("late.txt")),
        ("late.txt", &[], Some("late.txt")),
        // The whole file is binary. The warning appears only if the query names the file.
        ("early.bin", &[], Some("early.bin")),
        ("without.txt", &[], None),
    ] {
        for answer in [
            with_snapshot(&indexed, &within(&indexed, path)),
            plain.client().found(within(&plain, path)),
        ] {
            assert_eq!(paths(&answer), found, "{path}: {answer}");
            let warnings = answer["warnings"].as_array().unwrap();
            let warning = warnings.iter().find(|one| one["code"] == "binary");
            let about = warning.map(|one| one["path_key"].as_str().unwrap());
            assert_eq!(about, told, "{path}: {answer}");
        }
    }
}

#[test]
fn too_large_files_are_counted_with_and_without_an_index() {
    let world = |mode| {
        let tree = Tree::of([
            ("large/a.txt", "a needle\n".repeat(300)),
            ("large/b.txt", "nothing\n".repeat(300)),
            ("small.txt", "a needle\n".to_string()),
        ]);
        World::with(tree, Settings::default(), |config| {
            config.search.max_file_size_bytes = 1_000;
            config.search.index_mode = mode;
        })
    };
    let indexed = world(IndexMode::On);
    let said = "2 files are larger than max_file_size_bytes = 1000 bytes and were not searched";
    for answer in [
        with_snapshot(&indexed, &search("needle")),
        world(IndexMode::Off).client().found(search("needle")),
    ] {
        assert_eq!(paths(&answer), ["small.txt"]);
        let warnings = answer["warnings"].as_array().unwrap();
        let warning = warnings.iter().find(|one| one["code"] == "too_large");
        let message = warning.unwrap_or_else(|| panic!("{answer}"))["message"].as_str();
        assert!(message.unwrap().starts_with(said), "{answer}");
    }
}

#[test]
fn meanings_rank_files_unless_they_are_turned_off() {
    let tree = || {
        let right = "fn erase(disk: &Disk) {\n    remove(disk);\n}\n";
        let wrong = "fn color(disk: &Disk) {\n    paint(disk);\n}\n";
        Tree::of([("src/a.rs", wrong), ("src/b.rs", right)])
    };
    let first = |embed: Embed| {
        let world = World::with(tree(), Settings::default(), |config| {
            config.daemon.embed = embed;
        });
        let query = json!({"type": "search", "query": "delete from disk", "explain": true});
        let answer = with_snapshot(&world, &query);
        let method = answer["explain"]["retrievers"]["dense"]["method"].clone();
        let fingerprint = answer["embed_config_fingerprint"].clone();
        (answer["results"][0]["path"].clone(), method, fingerprint)
    };
    let (with, method, one) = first(Embed::Words);
    assert_eq!((with, method), (json!("src/b.rs"), json!("word_table")));
    let (without, method, other) = first(Embed::Off);
    assert_eq!((without, method), (json!("src/a.rs"), Value::Null));
    assert_ne!(one, other);
}

#[test]
fn explain_gives_numbers_and_no_text() {
    let world = World::over(small(), Settings::default());
    let answer = with_snapshot(
        &world,
        &json!({"type": "search", "query": "open_socket it", "explain": true, "snippet": "none"}),
    );
    let explain = &answer["explain"];
    let dense = &explain["retrievers"]["dense"];
    assert_eq!(dense["method"], "word_table", "{explain}");
    assert_eq!(dense["words"], 20_000, "{explain}");
    assert_eq!(explain["snapshot_id"], answer["snapshot_id"]);
    assert_eq!(explain["terms"], json!(["opensocket", "open", "socket"]));
    // `it` says nothing about a file.
    assert_eq!(explain["looked_for"], explain["terms"]);
    assert_eq!(explain["candidates"]["files_in_scope"], 6);
    assert_eq!(explain["candidates"]["files_with_any"], 4);
    assert_eq!(explain["candidates"]["ranked_by_kind"]["docs"], 1);
    assert_eq!(explain["index"]["state"], "COMPLETE");
    assert_eq!(explain["admission"]["queued"], false);
    assert!(!answer.to_string().contains("Opens a socket"));
}

#[test]
fn a_question_sees_an_earlier_edit_and_has_a_snapshot_of_its_own() {
    let world = World::over(small(), Settings::default());
    let before = with_snapshot(&world, &search("brand_new"));
    assert!(paths(&before).is_empty());
    for n in 0..20 {
        let name = format!("src/new{n}.rs");
        fs::write(world.tree.path(&name), format!("fn brand_new{n}() {{}}\n")).unwrap();
        let answer = world.client().found(search(&format!("brand_new{n}")));
        assert!(paths(&answer).contains(&name.as_str()), "{n}: {answer}");
        if answer["snapshot_id"].is_string() {
            assert_ne!(answer["snapshot_id"], before["snapshot_id"]);
        }
    }
    // Once the daemon has read all recent writes, a snapshot keeps its id.
    let began = Instant::now();
    let id = |query: &str| with_snapshot(&world, &search(query))["snapshot_id"].clone();
    while id("x") != id("y") {
        assert!(began.elapsed() < GUARD);
    }
}

#[test]
fn ignore_files_count_for_questions_and_have_a_fingerprint() {
    let world = World::over(small(), Settings::default());
    let before = with_snapshot(&world, &search("open_socket"));
    fs::write(world.tree.path(".ignore"), "docs\n").unwrap();
    let after = world.client().found(search("open_socket"));
    assert!(!paths(&after).contains(&"docs/guide.md"));
    let after = with_snapshot(&world, &search("open_socket"));
    assert_ne!(after["ignore_fingerprint"], before["ignore_fingerprint"]);
    assert_eq!(after["config_fingerprint"], before["config_fingerprint"]);
    assert!(world.indexes.is_some());
}

/// Without a watcher, the index holds old states of edited files. A search finds the edits all the
/// same.
#[test]
fn edits_made_while_no_daemon_ran_are_found_at_once() {
    let cache = tempfile::tempdir().unwrap();
    let change = |config: &mut forge_search::internal::tool::config::Config| {
        config.search.index_storage = forge_search::internal::tool::config::IndexStorage::Mmap;
        config.search.index_path = Some(cache.path().join("index"));
    };
    let world = World::with(small(), Settings::default(), change);
    with_snapshot(&world, &search("open_socket"));
    let tree = world.into_tree();
    fs::write(tree.path("src/other.rs"), "pub fn open_socket_too() {}\n").unwrap();
    // There is no watcher, so each search compares the index with the tree.
    let world = World::with(tree, Settings::default(), |config| {
        change(config);
        config.search.index_watch = false;
    });
    let answer = world.client().found(search("open_socket_too"));
    assert_eq!(paths(&answer)[0], "src/other.rs", "{answer}");
    assert_eq!(answer["warnings"], json!([]));
    assert!(answer["snapshot_id"].is_null() && answer["degraded"] == true);
}

/// Returns all characters that a terminal or a reader could take for something other than text.
fn unsafe_characters() -> String {
    let controls = ('\u{1}'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
    let marks = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'];
    let marks = marks.into_iter().chain('\u{202a}'..='\u{202e}');
    let all = controls.chain(marks).chain('\u{2066}'..='\u{2069}');
    all.collect()
}

#[test]
fn answers_contain_no_terminal_commands_unless_raw_output_is_requested() {
    let odd = unsafe_characters();
    let name = format!("na{odd}me.txt");
    // The line keeps its tab. Line breaks and NUL are removed.
    let inside: String = odd.chars().filter(|c| !"\n\r\0".contains(*c)).collect();
    let text = format!("before\nneedle {inside} after\n");
    let world = World::over(Tree::of([(&*name, &*text)]), Settings::default());
    let mut wire = world.client();
    let safe = |text: &str, but: &str| {
        let is_safe = |c: char| but.contains(c) || (!c.is_control() && !odd.contains(c));
        text.chars().all(is_safe)
    };
    let asked = json!({"type": "search", "query": "needle", "explain": true});
    let answer = wire.found(asked.clone());
    let found = &answer["results"][0];
    let (path, content) = (found["path"].as_str(), found["content"].as_str());
    let (path, content) = (path.unwrap(), content.unwrap());
    assert!(
        safe(path, "") && path.starts_with("na\\x01\\x02"),
        "{path:?}"
    );
    assert!(safe(content, "\n\t"), "{content:?}");
    assert!(content.starts_with("before\nneedle \\x01"), "{content:?}");
    assert!(content.contains("\\u{61c}\\u{200e}") && content.contains("\\x7f\\x80"));
    assert!(content.ends_with("\\u{2069} after"), "{content:?}");
    // These checks are on decoded strings, so escapes of JSON would not pass them. With `raw`, the
    // answer has the characters of the file.
    let mut raw = asked.clone();
    raw["raw"] = true.into();
    let answer = wire.found(raw.clone());
    assert_eq!(answer["results"][0]["path"], name);
    let content = answer["results"][0]["content"].as_str().unwrap();
    assert!(content.contains(&inside), "{content:?}");
    // Other fields with paths, and error messages, are safe as well.
    let cut = World::with(
        Tree::of([(&*name, &*text)]),
        Settings::default(),
        |config| config.daemon.max_snippet_bytes_per_result = 20,
    );
    let mut wire = cut.client();
    let answer = wire.found(asked.clone());
    let content = answer["results"][0]["content"].as_str().unwrap();
    assert!(
        content.len() <= 20,
        "the cap is on what is shown: {content:?}"
    );
    let of_limit = answer["limits_hit"][0]["path_key"].as_str().unwrap();
    assert!(safe(of_limit, ""), "{of_limit:?}");
    let mut wrong = asked;
    wrong["path"] = format!("/{odd}").into();
    let message = wire.refused(&wrong, "invalid_request");
    assert!(safe(&message, "\n\t"), "{message:?}");
    wrong[format!("field{odd}")] = 1.into();
    let message = wire.refused(&wrong, "invalid_request");
    assert!(safe(&message, "\n\t"), "{message:?}");
}
