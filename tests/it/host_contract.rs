//! The tool's promises to its host beyond the rows of the specification: identity, fields, changes
//! during a search, broken engines, and how little it reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::time::SystemTime;

use forge_search::Tool;
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::indexing::LiveEnvironment;
use forge_search::internal::tool::request::SearchRequest;
use serde_json::{Value, json};

use crate::hooked_engines::{Hooked, broken};
use crate::index_support::{Host, VARIANTS};
use crate::support::{Setup, Tree, events, paths, stable_json};
use crate::system::{shown_path, status_of, symlink};

#[test]
fn the_library_tool_answers_to_its_name_and_aliases() {
    let tree = Tree::new();
    let tool = tree.setup().tool();
    assert_eq!(tool.name(), "Search");
    assert_eq!(tool.aliases(), ["search", "rg", "ripgrep", "ugrep", "ug"]);
    for name in ["Search", "search", "rg", "ripgrep", "ugrep", "ug"] {
        assert!(tool.answers_to(name), "{name}");
    }
    for name in ["SEARCH", "grep", "search_files", ""] {
        assert!(!tool.answers_to(name), "{name}");
    }
    assert!(!tool.is_side_effecting() && !tool.requires_approval());
    assert!(!tool.description().is_empty());
}

#[test]
fn the_summary_of_a_request_is_short() {
    let tool = Tree::new().setup().tool();
    let mut request = SearchRequest::new("é".repeat(1000));
    request.path = Some("src".to_string());
    let summary = tool.summary(&request);
    assert!(
        summary.chars().count() <= 200 && summary.contains("src"),
        "{summary}"
    );
    assert!(
        tool.summary(&SearchRequest::new("fn main"))
            .contains("fn main")
    );
}

#[test]
fn disabled_tool_denies_every_call() {
    let tree = Tree::of([("a", "m")]);
    let setup = tree.setup().config(|config| config.enabled = false);
    assert_eq!(setup.refused(json!({"pattern": "m"})).code(), "disabled");
    assert_eq!(
        setup
            .refused(json!({"pattern": "m", "path": "../x"}))
            .code(),
        "disabled"
    );
}

#[test]
fn a_search_without_any_engine_is_an_execution_failure() {
    let tree = Tree::of([("a", "m")]);
    let mut setup = tree.setup();
    setup.engines = Engines::new(Vec::new(), "neither ugrep nor rg was found".to_string());
    let error = setup.refused(json!({"pattern": "m"}));
    assert_eq!(error.code(), "execution_failed");
    assert!(error.message().contains("neither ugrep nor rg"), "{error}");
}

#[test]
fn a_response_has_exactly_the_specified_fields() {
    let tree = Tree::of([("a", "m")]);
    let value = tree.search(json!({"pattern": "m"})).to_value();
    assert_eq!(
        value,
        json!({
            "pattern": "m",
            "path": shown_path(tree.root()),
            "count": 1,
            "matches": [{"type": "match", "data": {
                "path": {"text": "a"}, "line_number": 1, "column": 1, "lines": {"text": "m"},
                "match_text": "m",
            }}],
            "truncated": false,
            "timed_out": false,
            "files_scanned": 1,
            "errors": [],
            "exit_code": 0,
            "content": "a:1:1:m\n",
        })
    );
}

/// An entry of a tree: its content, and all its metadata except the access time.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    content: Vec<u8>,
    modified: SystemTime,
    status: Vec<u64>,
}

impl Entry {
    fn of(path: &Path) -> Entry {
        let meta = path.symlink_metadata().unwrap();
        let kind = meta.file_type();
        let content = if kind.is_symlink() {
            std::fs::read_link(path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else if kind.is_file() {
            std::fs::read(path).unwrap()
        } else {
            Vec::new()
        };
        Entry {
            content,
            modified: meta.modified().unwrap(),
            status: status_of(&meta),
        }
    }
}

/// Returns the state of `dir` and of everything below it.
fn state_of(dir: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut state = BTreeMap::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(path) = todo.pop() {
        if path.symlink_metadata().unwrap().is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            todo.extend(entries.map(|entry| entry.unwrap().path()));
        }
        state.insert(path.clone(), Entry::of(&path));
    }
    state
}

/// Builds a tree with an example of everything that a search meets.
fn motley() -> Tree {
    let tree = Tree::of([
        ("a", "m\n"),
        ("d/b", "m\nneedle\n"),
        ("d/e/long", &"straw\n".repeat(9_000)),
        (".ignore", "x\n"),
        ("x", "m\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".hidden/c", "m\n"),
        (r"name\xFF", "m\n"),
        (r"line\nbreak", "m\n"),
        ("binary", "m\0m\n"),
        ("server.pem", "m\n"),
    ]);
    tree.link("link", "d/b")
        .link("dangling", "nowhere")
        .link("up", "..")
        .hard_link("d/hard", "a")
        .fifo("pipe")
        .dir("empty")
        .mode("d/e/long", 0o400);
    tree
}

/// Requests of every kind, including requests that fail or end early.
fn requests() -> Vec<Value> {
    vec![
        json!({"pattern": "m"}),
        json!({"pattern": "needle"}),
        json!({"pattern": "absent from all of it", "fixed_strings": true}),
        json!({"pattern": "m", "hidden": true, "no_ignore": true, "follow": true, "context": 2}),
        json!({"pattern": "m", "timeout_ms": 1}),
        json!({"pattern": "m", "max_results": 1}),
        json!({"pattern": "needel", "fuzzy": 2}),
        json!({"pattern": "m", "path": "d/b"}),
        json!({"pattern": "m", "path": "server.pem"}),
        json!({"pattern": "("}),
    ]
}

#[test]
fn a_search_changes_no_file() {
    let tree = motley();
    // Files next to the tree must not change either.
    let top = tree.root().parent().unwrap();
    let before = state_of(top);
    for (name, engines) in crate::support::engines() {
        let mut setup = tree.setup();
        setup.engines = engines;
        for request in requests() {
            let _refused = setup.call(request.clone());
            assert_eq!(state_of(top), before, "{name}: {request}");
        }
    }
}

/// With an index that is opened, built, or live with a file watcher, only the cache is written.
#[test]
fn neither_an_index_nor_a_watcher_changes_a_file() {
    for variant in VARIANTS {
        let tree = motley();
        let top = tree.root().parent().unwrap().to_path_buf();
        let before = state_of(&top);
        // The cache is in another directory.
        let setup = tree.setup().with_indexes(variant);
        let ask = |what: &str| {
            for request in requests() {
                let _refused = setup.call(request.clone());
                assert_eq!(state_of(&top), before, "{what}, {variant:?}: {request}");
            }
        };
        ask("without an index");
        setup.build(&Host::hasty());
        assert_eq!(state_of(&top), before, "a build, {variant:?}");
        ask("with an index");
        let indexes = setup.kept().indexes.clone();
        let around = LiveEnvironment::new(setup.context().sandbox.reach().clone());
        indexes.live(&setup.config, &around).unwrap();
        ask("beside a worker");
        let settled = indexes.wait_live(tree.root(), Duration::from_secs(60));
        assert_eq!(settled.is_some(), !variant.frozen);
        ask("with an index that lives");
        // `.ignore` was written just before the build, so the index excludes nothing until that
        // file has been read again.
        let settled = || {
            let used = setup.search(json!({"pattern": "absent from all of it"}));
            indexes.wait_live(tree.root(), Duration::from_secs(60));
            used.stats.unwrap().index_exclusion_used
        };
        assert!((0..20).any(|_| settled()), "{variant:?}");
        // A change by somebody else is the only change.
        tree.file("d/b", "m\n");
        let changed = state_of(&top);
        for request in requests() {
            let _refused = setup.call(request);
        }
        assert!(indexes.shut_down());
        assert_eq!(state_of(&top), changed, "{variant:?}");
    }
}

#[test]
fn a_file_deleted_while_searching_does_not_fail_the_call() {
    let tree = Tree::of([("a", "m\n"), ("b", "m\n"), ("c", "m\n")]);
    let gone = tree.path("b");
    let mut setup = tree.setup().threads(1);
    setup.engines = Hooked::new(move |_| {
        let _ = std::fs::remove_file(&gone);
        Ok(())
    })
    .engines();
    let response = setup.search(json!({"pattern": "m"}));
    assert_eq!(paths(&response), ["a", "c"]);
    assert_eq!(response.errors.len(), 1);
    assert_eq!(response.errors[0].path, "b");
    assert_eq!(response.files_scanned, 3);
}

#[test]
fn a_file_swapped_for_a_link_before_it_is_opened_is_not_read() {
    let tree = Tree::of([
        ("outside/secret", "m secret\n"),
        ("work/a", "m\n"),
        ("work/b", "m\n"),
    ]);
    let (target, link) = (tree.path("outside/secret"), tree.path("work/b"));
    let mut setup = Setup::new(&tree.path("work")).threads(1);
    setup.engines = Hooked::new(move |_| {
        let _ = std::fs::remove_file(&link);
        symlink(&target, &link).unwrap();
        Ok(())
    })
    .engines();
    let response = setup.search(json!({"pattern": "m"}));
    assert_eq!(paths(&response), ["a"], "{}", response.content);
    assert_eq!(response.errors[0].path, "b");
    assert!(
        response.errors[0].error.contains("symbolic link"),
        "{:?}",
        response.errors
    );
}

#[test]
fn a_directory_swapped_for_a_link_before_a_file_is_opened_is_not_entered() {
    let tree = Tree::of([("outside/b", "m secret\n"), ("work/d/b", "m\n")]);
    let (target, dir, away) = (tree.path("outside"), tree.path("work/d"), tree.path("away"));
    let mut setup = Setup::new(&tree.path("work")).threads(1);
    setup.engines = Hooked::new(move |_| {
        std::fs::rename(&dir, &away).unwrap();
        symlink(&target, &dir).unwrap();
        Ok(())
    })
    .engines();
    let response = setup.search(json!({"pattern": "m"}));
    assert_eq!(response.count, 0, "{}", response.content);
    assert_eq!(response.errors[0].path, "d/b");
}

#[test]
fn a_followed_link_whose_target_changes_before_it_is_opened_is_not_read() {
    let tree = Tree::of([
        ("outside/b", "m secret\n"),
        ("work/a", "m\n"),
        ("work/z", "x\n"),
    ]);
    tree.link("work/l", "a");
    let (secret, target) = (tree.path("outside/b"), tree.path("work/a"));
    let mut setup = Setup::new(&tree.path("work")).threads(1);
    setup.engines = Hooked::new(move |_| {
        let _ = std::fs::remove_file(&target);
        symlink(&secret, &target).unwrap();
        Ok(())
    })
    .engines();
    let response = setup.search(json!({"pattern": "m", "follow": true}));
    assert_eq!(response.count, 0, "{}", response.content);
    let failed: Vec<&str> = response.errors.iter().map(|e| e.path.as_str()).collect();
    assert_eq!(failed, ["a", "l"]);
}

#[test]
fn a_panic_of_a_worker_is_a_failure_of_the_engine() {
    let tree = Tree::of([("a", "m\n"), ("b/c", "m\n")]);
    let mut setup = tree.setup().threads(1);
    setup.engines = Hooked::new(|files| {
        assert!(
            files.iter().all(|file| file.found.name != "c"),
            "a defect in an engine"
        );
        Ok(())
    })
    .engines();
    let response = setup.search(json!({"pattern": "m"}));
    assert_eq!(events(&response), ["a:1:1:m|m"]);
    assert_eq!(response.exit_code, Some(2));
    assert!(response.stderr.unwrap().contains("ended unexpectedly"));
}

#[test]
fn a_failure_beyond_the_cut_changes_no_answer() {
    let tree = Tree::of([("a", "m\nm\n"), ("b/c", "m\n")]);
    let request = json!({"pattern": "m", "max_results": 1});
    let expected = stable_json(&tree.search(request.clone()));
    let mut setup = tree.setup().threads(1);
    setup.engines = Hooked::new(
        |files| match files.iter().any(|file| file.found.name == "c") {
            true => Err(broken()),
            false => Ok(()),
        },
    )
    .engines();
    assert_eq!(stable_json(&setup.search(request)), expected);
}

#[test]
fn a_search_that_ends_early_does_not_read_the_tree() {
    let tree = Tree::new();
    for n in 0..5_000 {
        tree.file(
            &format!("{:02}/{n:04}", n / 100),
            "needle\nneedle\nneedle\n",
        );
    }
    for threads in [1, 2, 8] {
        let searched = Arc::new(AtomicUsize::new(0));
        let counted = searched.clone();
        let mut setup = tree.setup().threads(threads);
        setup.engines = Hooked::new(move |files| {
            counted.fetch_add(files.len(), Ordering::Relaxed);
            Ok(())
        })
        .engines();
        let response = setup.search(json!({"pattern": "needle", "max_results": 200}));
        assert_eq!((response.count, response.files_scanned), (200, 67));
        let searched = searched.load(Ordering::Relaxed);
        println!("{threads} threads searched {searched} files for the first 67");
        assert!(
            searched < 1_500,
            "{searched} files were searched for the first 67"
        );
    }
}

#[test]
fn one_tool_serves_many_threads_at_once() {
    let tree = Tree::new();
    for n in 0..200 {
        tree.file(&format!("{n:03}"), format!("needle {n}\n"));
    }
    let setup = tree.setup();
    let (tool, context) = (setup.tool(), setup.context());
    let request = SearchRequest::new("needle");
    let expected = stable_json(&tool.search(&request, &context).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let answer = tool.search(&request, &context).unwrap();
                    assert_eq!(stable_json(&answer), expected);
                }
            });
        }
    });
}

#[test]
fn the_order_does_not_depend_on_how_the_root_is_named() {
    let tree = Tree::of([("d/b/x", "m"), ("d/b-c", "m"), ("d/B", "m"), ("d/é", "m")]);
    let setup = tree
        .setup()
        .sandbox(|sandbox| sandbox.allow_absolute = true);
    let relative = setup.search(json!({"pattern": "m", "path": "d"}));
    let absolute = setup.search(json!({"pattern": "m", "path": tree.path("d").to_str().unwrap()}));
    let from_above = setup.search(json!({"pattern": "m"}));
    assert_eq!(paths(&relative), ["d/B", "d/b-c", "d/b/x", "d/é"]);
    assert_eq!(stable_json(&relative), stable_json(&absolute));
    assert_eq!(relative.matches, from_above.matches);
}

#[test]
fn hard_links_are_files_of_their_own() {
    let tree = Tree::of([("a", "m")]);
    tree.hard_link("b", "a");
    assert_eq!(paths(&tree.search(json!({"pattern": "m"}))), ["a", "b"]);
}

#[test]
fn context_of_any_size_is_answered() {
    let tree = Tree::of([("a", "x\nm\nm\ny\n")]);
    for context in [u64::MAX, u64::MAX - 1, i64::MAX as u64] {
        for max_matches_per_file in [1, 50] {
            let response = tree.search(json!({
                "pattern": "m", "context": context, "max_matches_per_file": max_matches_per_file,
            }));
            let lines: Vec<u64> = response
                .matches
                .iter()
                .map(|m| m.data.line_number)
                .collect();
            let expected: &[u64] = if max_matches_per_file == 1 {
                &[1, 2, 4]
            } else {
                &[1, 2, 3, 4]
            };
            assert_eq!(lines, expected);
        }
    }
}

#[test]
fn tasks_are_as_large_as_the_engine_asks() {
    let tree = Tree::new();
    for n in 0..500 {
        tree.file(&format!("{}/{n:03}", n % 3), "m\n");
    }
    for (min_files, max_files) in [(1, 1), (1, 3), (2, 3), (10, 10), (40, 64), (1, 1000)] {
        let sizes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = sizes.clone();
        let mut setup = tree.setup().threads(2).generous();
        setup.engines = Hooked::new(move |files| {
            seen.lock().unwrap().push(files.len());
            Ok(())
        })
        .batching(min_files, max_files)
        .engines();
        assert_eq!(setup.search(json!({"pattern": "m"})).count, 500);
        let sizes = sizes.lock().unwrap();
        assert_eq!(sizes.iter().sum::<usize>(), 500);
        let largest = sizes.iter().max().unwrap();
        assert!(
            *largest <= max_files,
            "{largest} files in a task of at most {max_files}"
        );
    }
}
