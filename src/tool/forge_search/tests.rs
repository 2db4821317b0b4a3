use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::*;

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).unwrap();
}

/// Returns a tree with one file.
fn tree(name: &str, text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), name, text);
    dir
}

fn text_of(path: &Path) -> String {
    crate::exec::as_text::shown(&path.canonicalize().unwrap()).into_owned()
}

#[test]
fn every_tool_answers_in_json_by_each_of_its_names() {
    let dir = tree("retry.rs", "fn retry_limit() -> u32 {\n    3\n}\n");
    let search = ForgeSearch::builder(dir.path()).build().unwrap();
    let names: Vec<_> = search.tools().iter().map(|tool| tool.id()).collect();
    assert_eq!(names, ToolName::ALL);
    let requests = [
        ("rg", json!({"pattern": "retry_limit"})),
        ("search_files", json!({"path": ".", "query": "retry_limit"})),
        ("find_files", json!({"name": "retry"})),
        #[cfg(feature = "daemon")]
        ("find_code", json!({"question": "retry limit"})),
    ];
    for (name, request) in requests {
        let tool = search.tool(name).unwrap();
        assert!(tool.answers_to(name) && tool.schema()["properties"].is_object());
        assert!(tool.summary_of(&request).contains("retry"), "{name}");
        let answer = tool.call_json(request, &search.context()).unwrap();
        assert!(answer.json.contains("retry.rs"), "{name}: {}", answer.json);
        assert!(!answer.timed_out);
        let error = tool.call_json(json!({"wrong": 1}), &search.context());
        assert_eq!(error.unwrap_err().code(), "bad_args");
    }
    assert_eq!(search.tool("edit").unwrap_err().code(), "unknown_tool");
}

#[test]
fn several_roots_have_paths_and_indexes_of_their_own() {
    let (one, two) = (tree("a.txt", "needle one\n"), tree("b.txt", "needle two\n"));
    let outside = tree("c.txt", "needle three\n");
    let search = ForgeSearch::builder(one.path())
        .add_root(two.path())
        .live()
        .build()
        .unwrap();
    // Windows can't prove that an index is current.
    let usable = search.wait_live(Duration::from_secs(60));
    assert_eq!(usable, cfg!(not(windows)));
    assert_eq!(search.root(), one.path().canonicalize().unwrap());
    let found = |path: Option<String>| {
        let mut request = SearchRequest::new("needle");
        request.path = path;
        search.search(&request).map(|answer| answer.content)
    };
    assert_eq!(found(None).unwrap(), "a.txt:1:1:needle one\n");
    assert_eq!(
        found(Some(text_of(one.path()))).unwrap(),
        found(None).unwrap()
    );
    let in_other = text_of(two.path());
    assert_eq!(
        found(Some(in_other.clone())).unwrap(),
        format!("{in_other}/b.txt:1:1:needle two\n")
    );
    let refused = found(Some(text_of(outside.path()))).unwrap_err();
    assert_eq!(refused.code(), "path_outside_sandbox");
    // Each index follows its own tree.
    write(two.path(), "d.txt", "needle four\n");
    assert_eq!(found(Some(in_other)).unwrap().lines().count(), 2);
    assert!(search.shut_down());
    assert_eq!(found(None).unwrap(), "a.txt:1:1:needle one\n");
}

#[test]
fn a_single_root_refuses_absolute_paths_as_configured() {
    let dir = tree("a.txt", "needle\n");
    let search = ForgeSearch::builder(dir.path()).build().unwrap();
    let mut request = SearchRequest::new("needle");
    request.path = Some(text_of(dir.path()));
    let refused = search.search(&request).unwrap_err();
    assert_eq!(refused.code(), "path_outside_sandbox");
}

#[test]
fn a_stored_index_is_used_by_the_next_program() {
    let (dir, cache) = (tree("a.txt", "needle\n"), tempfile::tempdir().unwrap());
    let index_dir = cache.path().join("index");
    let mut config = Config::library_default();
    config.search.enabled = true;
    config.search.emit_stats = true;
    // Windows can't prove that an index is current.
    config.search.index_frozen = cfg!(windows);
    let open = || {
        ForgeSearch::builder(dir.path())
            .config(config.clone())
            .index_dir(&index_dir)
            .build()
            .unwrap()
    };
    let used = |search: &ForgeSearch| {
        let answer = search.search(&SearchRequest::new("absent")).unwrap();
        answer.stats.unwrap().index_exclusion_used
    };
    let first = open();
    assert!(!used(&first));
    first.build_index().unwrap();
    drop(first);
    assert!(used(&open()));
}

#[test]
fn a_cancelled_context_cancels_its_calls_only() {
    let dir = tree("a.txt", "needle\n");
    let search = ForgeSearch::builder(dir.path()).build().unwrap();
    let context = search.context();
    drop(context.cancel.cancel_on_drop());
    let cancelled = search.with_context(context.clone());
    let request = SearchRequest::new("needle");
    assert_eq!(cancelled.search(&request), Err(ToolError::Cancelled));
    for tool in search.tools() {
        let request = match tool.name() {
            "Search" => json!({"pattern": "needle"}),
            "search_files" => json!({"path": ".", "query": "needle"}),
            "find_files" => json!({"name": "a"}),
            _ => json!({"question": "needle"}),
        };
        let answer = tool.call_json(request, &context);
        assert_eq!(answer, Err(ToolError::Cancelled), "{}", tool.name());
    }
    assert_eq!(search.search(&request).unwrap().count, 1);
}

#[test]
fn a_wrong_setup_is_an_error_that_names_its_cause() {
    let dir = tree("a.txt", "needle\n");
    let missing = dir.path().join("missing");
    let error = ForgeSearch::builder(&missing).build().unwrap_err();
    assert!(error.message().contains("missing: "), "{error}");
    let error = ForgeSearch::builder(dir.path()).add_root(&missing).build();
    assert_eq!(error.unwrap_err().code(), "bad_args");
    let mut config = Config::library_default();
    config.search.max_files = 0;
    let error = ForgeSearch::builder(dir.path()).config(config).build();
    assert!(error.unwrap_err().message().contains("max_files"));
}
