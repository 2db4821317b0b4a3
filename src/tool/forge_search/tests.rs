use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::tool::config::{Backend, FilesBackend, IndexStorage};

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
        assert!(tool.answers_to(name));
        for (field, schema) in tool.schema()["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{name}: {field}");
        }
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

#[cfg(feature = "daemon")]
#[test]
fn find_code_answers_for_each_root_and_validates_its_request() {
    let retry = "fn retry_limit() -> u32 {\n    3\n}\n";
    let (one, two) = (tree("one.rs", retry), tree("two.rs", retry));
    std::fs::create_dir(two.path().join("deep")).unwrap();
    write(two.path(), "deep/three.rs", retry);
    let search = ForgeSearch::builder(one.path()).add_root(two.path());
    let search = search.build().unwrap();
    let found = |path: Option<String>| {
        let mut request = FindCodeRequest::new("retry limit");
        request.path = path;
        let places = search.find_code(&request).unwrap().places;
        let mut paths: Vec<_> = places.into_iter().map(|place| place.path).collect();
        paths.sort();
        paths
    };
    assert_eq!(found(None), ["one.rs"]);
    assert_eq!(found(Some(text_of(one.path()))), ["one.rs"]);
    let in_other = text_of(two.path());
    let of = |name: &str| format!("{}/{name}", text_of(two.path()));
    assert_eq!(
        found(Some(in_other.clone())),
        [of("deep/three.rs"), of("two.rs")]
    );
    assert_eq!(found(Some(of("deep"))), [of("deep/three.rs")]);
    assert_eq!(found(Some(of("two.rs"))), [of("two.rs")]);

    // Notes name files as places do.
    std::fs::write(two.path().join("odd.rs"), b"fn odd_words() {} // \xff\n").unwrap();
    let mut request = FindCodeRequest::new("odd words");
    request.path = Some(in_other);
    let notes = search.find_code(&request).unwrap().notes;
    assert!(
        notes.iter().any(|note| note.contains(&of("odd.rs"))),
        "{notes:?}"
    );

    let mut request = FindCodeRequest::new("retry limit");
    request.max_results = Some(0);
    let error = search.find_code(&request).unwrap_err();
    assert!(error.message().contains("`max_results`"), "{error}");
    request = FindCodeRequest::new(" ");
    let error = search.find_code(&request).unwrap_err();
    assert!(error.message().contains("empty or blank"), "{error}");
}

#[test]
fn an_absolute_path_inside_the_root_is_accepted() {
    let (dir, outside) = (tree("a.txt", "needle\n"), tree("b.txt", "needle\n"));
    let search = ForgeSearch::builder(dir.path()).build().unwrap();
    let mut request = SearchRequest::new("needle");
    request.path = Some(text_of(dir.path()));
    assert_eq!(
        search.search(&request).unwrap().content,
        "a.txt:1:1:needle\n"
    );
    request.path = Some(text_of(outside.path()));
    let refused = search.search(&request).unwrap_err();
    assert_eq!(refused.code(), "path_outside_sandbox");
}

#[test]
fn further_roots_do_not_widen_a_narrowed_sandbox() {
    let (one, two) = (tree("secret.txt", "needle\n"), tree("b.txt", "needle\n"));
    std::fs::create_dir(one.path().join("src")).unwrap();
    write(one.path(), "src/a.txt", "needle\n");
    // The first root is named again, in another way.
    let again = one.path().join("src").join("..");
    let search = ForgeSearch::builder(one.path())
        .configure(|config| {
            config.search.emit_stats = true;
            config.sandbox.allowed_roots = vec!["src".into()];
        })
        .add_root(again)
        .add_root(two.path())
        .live()
        .build()
        .unwrap();
    let is_live = search.wait_live(Duration::from_secs(60));
    assert_eq!(is_live, cfg!(target_os = "linux"));
    let found = |path: Option<String>, pattern: &str| {
        let mut request = SearchRequest::new(pattern);
        request.path = path;
        search.search(&request)
    };
    for path in [None, Some(text_of(one.path())), Some("secret.txt".into())] {
        let refused = found(path.clone(), "needle").unwrap_err();
        assert_eq!(refused.code(), "path_outside_sandbox", "{path:?}");
    }
    let (part, other) = (text_of(&one.path().join("src")), text_of(two.path()));
    for path in ["src", &part, &other] {
        let path = Some(path.to_string());
        assert_eq!(found(path.clone(), "needle").unwrap().count, 1, "{path:?}");
        // Each allowed directory has an index.
        let stats = found(path, "absent").unwrap().stats.unwrap();
        assert_eq!(stats.index_exclusion_used, !cfg!(windows));
    }
}

#[test]
fn a_stored_index_is_used_by_the_next_program() {
    let (dir, cache) = (tree("a.txt", "needle\n"), tempfile::tempdir().unwrap());
    let index_dir = cache.path().join("index");
    let open = || {
        ForgeSearch::builder(dir.path())
            .configure(|config| {
                config.search.emit_stats = true;
                // Windows can't prove that an index is current.
                config.search.index_frozen = cfg!(windows);
            })
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
fn a_disabled_tool_is_not_offered_and_has_no_index() {
    let dir = tree("a.txt", "needle\n");
    let builder = ForgeSearch::builder(dir.path());
    let builder = builder.configure(|config| config.search_files.enabled = false);
    let search = builder.live().build().unwrap();
    let names: Vec<_> = search.tools().iter().map(|tool| tool.id()).collect();
    assert!(names.contains(&ToolName::Search) && !names.contains(&ToolName::SearchFiles));
    assert_eq!(search.index_roots().count(), 1);
    let is_live = search.wait_live(Duration::from_secs(60));
    assert_eq!(is_live, cfg!(target_os = "linux"));
    assert_eq!(
        search.search(&SearchRequest::new("needle")).unwrap().count,
        1
    );
    let request = FilesRequest::new(".", "needle");
    let by_type = search.search_files(&request).unwrap_err();
    let by_name = search.tool("search_files").unwrap_err();
    assert_eq!((by_type.code(), &by_type), ("disabled", &by_name));

    let builder = ForgeSearch::builder(dir.path()).config(Config::library_default());
    let search = builder.live().build().unwrap();
    assert!(search.tools().is_empty() && search.index_roots().count() == 0);
    assert!(!search.wait_live(Duration::ZERO));
    assert_eq!(search.tool("rg").unwrap_err().code(), "disabled");
    let error = search.find_files(&FindRequest::named("a")).unwrap_err();
    assert_eq!(error.code(), "disabled");
    #[cfg(feature = "daemon")]
    {
        let error = search.find_code(&FindCodeRequest::new("a")).unwrap_err();
        assert_eq!(error.code(), "disabled");
    }
}

#[test]
fn an_index_directory_that_cannot_be_used_is_refused() {
    let (dir, cache) = (tree("a.txt", "needle\n"), tempfile::tempdir().unwrap());
    let refused = |index_dir: &Path| {
        let builder = ForgeSearch::builder(dir.path()).index_dir(index_dir);
        let error = builder.build().unwrap_err();
        assert_eq!(error.code(), "bad_args");
        error.message()
    };
    let inside = refused(&dir.path().join("cache"));
    for part in ["/cache lies inside of the indexed tree", "set `index_dir`"] {
        assert!(inside.contains(part), "{inside}");
    }
    write(cache.path(), "file", "");
    let below_file = refused(&cache.path().join("file/index"));
    let index = format!("{}index", std::path::MAIN_SEPARATOR);
    let failed = format!("file{index}: could not ");
    for part in [&failed, "`index_dir`"] {
        assert!(below_file.contains(part), "{below_file}");
    }
    assert!(refused(Path::new("")).contains("name an absolute path"));

    let builder = ForgeSearch::builder(dir.path());
    let builder = builder.configure(|config| config.search.index_storage = IndexStorage::Memory);
    let error = builder.index_dir(cache.path().join("index")).build();
    let error = error.unwrap_err().message();
    assert!(error.contains("`index_storage` is \"memory\""), "{error}");

    let index_dir = cache.path().join("index");
    let search = ForgeSearch::builder(dir.path()).index_dir(&index_dir);
    let search = search.build().unwrap();
    std::fs::remove_dir_all(&index_dir).unwrap();
    write(cache.path(), "index", "");
    let error = search.build_index().unwrap_err();
    assert_eq!(error.code(), "execution_failed");
    let message = error.message();
    assert!(
        message.contains("indexes can't be stored") && message.contains(&index),
        "{message}"
    );
}

#[cfg(unix)]
#[test]
fn a_relative_index_directory_starts_at_the_current_directory() {
    let (dir, cache) = (tree("a.txt", "needle\n"), tempfile::tempdir().unwrap());
    let index_dir = cache.path().canonicalize().unwrap().join("index");
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(index_dir.strip_prefix("/").unwrap());
    let builder = ForgeSearch::builder(dir.path()).index_dir(relative);
    builder.build().unwrap().build_index().unwrap();
    assert!(index_dir.is_dir());
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
fn a_context_of_a_cancelled_host_is_cancelled_and_counts_its_own_time() {
    let dir = tree("a.txt", "needle\n");
    let search = ForgeSearch::builder(dir.path()).build().unwrap();
    let mut of_host = search.context();
    of_host.received_at = Some(of_host.clock.now());
    let turn = of_host.cancel.clone();
    let search = search.with_context(of_host);
    let one = search.context();
    assert_eq!(one.received_at, None);
    drop(one.cancel.cancel_on_drop());
    assert!(!turn.is_cancelled() && !search.context().cancel.is_cancelled());
    turn.cancel();
    let request = SearchRequest::new("needle");
    let search = search.with_context(search.context());
    assert_eq!(search.search(&request), Err(ToolError::Cancelled));
}

#[test]
fn a_wrong_setup_is_an_error_that_names_its_cause() {
    let dir = tree("a.txt", "needle\n");
    let missing = dir.path().join("missing");
    let error = ForgeSearch::builder(&missing).build().unwrap_err();
    assert!(error.message().contains("missing: "), "{error}");
    let error = ForgeSearch::builder(dir.path()).add_root(&missing).build();
    assert_eq!(error.unwrap_err().code(), "bad_args");
    let file = dir.path().join("a.txt");
    let of_first = ForgeSearch::builder(&file).build().unwrap_err();
    let of_other = ForgeSearch::builder(dir.path()).add_root(&file).build();
    for error in [of_first, of_other.unwrap_err()] {
        let message = "a.txt: it is not a directory; name a directory";
        assert!(error.message().contains(message), "{error}");
    }
    let error = ForgeSearch::builder(dir.path())
        .configure(|config| config.search.max_files = 0)
        .build();
    assert!(error.unwrap_err().message().contains("max_files"));
    let error = ForgeSearch::builder(dir.path())
        .configure(|config| config.search.backend = Backend::Rg)
        .build();
    let message = "`backend` of [tools.search] is \"rg\"";
    assert!(error.unwrap_err().message().contains(message));
    let of_files = ForgeSearch::builder(dir.path()).configure(|config| {
        config.search_files.backend = FilesBackend::Ugrep;
    });
    let error = of_files.clone().build().unwrap_err();
    assert!(error.message().contains("set it to \"native\""), "{error}");
    let changes: [fn(&mut Config); 2] = [
        |config| config.search.index_frozen = true,
        |config| config.search.index_default_follow = true,
    ];
    for change in changes {
        let builder = ForgeSearch::builder(dir.path()).configure(change);
        let error = builder.live().build().unwrap_err();
        assert!(error.message().contains("leave out `live`"), "{error}");
    }
    let disabled = of_files.configure(|config| config.search_files.enabled = false);
    assert!(disabled.build().is_ok());
}
