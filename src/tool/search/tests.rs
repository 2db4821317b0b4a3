use serde_json::json;

use super::*;
use crate::tool::config::Config;
use crate::tool::tools::RiskLevel;

fn tool(change: impl FnOnce(&mut SearchConfig)) -> (SearchTool, ToolContext, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
    let mut config = Config::library_default();
    config.search.enabled = true;
    change(&mut config.search);
    let sandbox = Sandbox::new(&config.sandbox, dir.path()).unwrap();
    let tool = SearchTool::new(config.search, Engines::embedded());
    (tool, ToolContext::new(Arc::new(sandbox)), dir)
}

#[test]
fn the_tool_has_its_name_and_aliases() {
    let (tool, _, _dir) = tool(|_| {});
    assert_eq!(tool.name(), "Search");
    assert_eq!(tool.aliases(), ["search", "rg", "ripgrep", "ugrep", "ug"]);
    assert!(
        tool.aliases()
            .iter()
            .chain([&"Search"])
            .all(|name| tool.answers_to(name))
    );
    assert!(!tool.answers_to("search_files") && !tool.answers_to("grep"));
}

#[test]
fn a_search_never_counts_as_the_read_that_an_edit_needs() {
    let (tool, context, _dir) = tool(|_| {});
    let response = tool.search(&SearchRequest::new("two"), &context).unwrap();
    // `ReadEvidence` has no values, so the result can only be `None`.
    assert_eq!(tool.read_evidence(&response), None);
    assert_eq!(std::mem::size_of::<Option<ReadEvidence>>(), 0);
    assert!(!tool.is_side_effecting() && !tool.requires_approval());
    assert_eq!(tool.risk_level(), RiskLevel::Low);
}

#[test]
fn a_summary_says_what_is_searched_in_200_characters() {
    let (tool, _, _dir) = tool(|_| {});
    let mut request = SearchRequest::new("a\u{1b}b");
    request.path = Some("src".to_string());
    assert_eq!(
        tool.summary(&request),
        r#"Search src for the expression "a\u{1b}b""#
    );
    request.pattern = "é".repeat(500);
    assert_eq!(tool.summary(&request).chars().count(), 200);
}

#[test]
fn a_disabled_tool_answers_nothing() {
    let (tool, context, _dir) = tool(|config| config.enabled = false);
    let error = tool
        .search(&SearchRequest::new("two"), &context)
        .unwrap_err();
    assert_eq!(error, ToolError::SandboxViolation(DenialReason::Disabled));
}

#[test]
fn values_of_a_request_win_over_the_defaults() {
    let (tool, mut context, dir) = tool(|config| config.default_max_results = 1);
    let count = |value: Value, context: &ToolContext| {
        let response = tool.call(value, context).unwrap();
        (response.count, response.truncated)
    };
    assert_eq!(count(json!({"pattern": "t"}), &context), (1, true));
    assert_eq!(
        count(json!({"pattern": "t", "max_results": 2}), &context),
        (2, false)
    );
    // The timeout of the request takes precedence over the host's default, and that over the
    // configured one. A search that ends before anyone reads the clock has not timed out, so this
    // search takes some time.
    std::fs::write(dir.path().join("long.dat"), "a".repeat(1_900_000)).unwrap();
    context.default_timeout = Some(Duration::ZERO);
    let request = json!({"pattern": "(?:a?){300}a{300}b", "path": "long.dat"});
    assert!(tool.call(request, &context).unwrap().timed_out);
    let request = json!({"pattern": "t", "timeout_ms": 60_000});
    assert!(!tool.call(request, &context).unwrap().timed_out);
}

#[test]
fn hard_caps_hold_and_name_their_key() {
    let (tool, context, _dir) = tool(|_| {});
    for (field, cap) in [
        ("max_matches_per_file", 50),
        ("max_files", 10_000),
        ("max_file_size_bytes", 2_000_000),
    ] {
        let request = |value: u64| json!({"pattern": "t", field: value});
        assert!(tool.call(request(cap), &context).is_ok());
        let error = tool.call(request(cap + 1), &context).unwrap_err();
        let message = error.message();
        assert_eq!(error.code(), "bad_args");
        assert!(
            message.contains(field) && message.contains(&cap.to_string()),
            "{message}"
        );
        assert!(message.contains("[tools.search]"), "{message}");
    }
}

#[test]
fn every_byte_limit_yields_a_prefix_that_fits() {
    let (tool, mut context, dir) = tool(|_| {});
    let lines: String = (0..30)
        .map(|n| format!("line {n} \"quoted\" é \u{7}\n"))
        .collect();
    std::fs::write(dir.path().join("b.txt"), lines).unwrap();
    let request = SearchRequest::new("line");
    let full = tool.search(&request, &context).unwrap();
    let whole = full.to_json().len();
    let mut shortest = None;
    for max_bytes in (0..whole + 10).step_by(7).chain(whole - 3..whole + 3) {
        context.max_output_bytes = Some(max_bytes);
        match tool.search(&request, &context) {
            Ok(response) => {
                let json = response.to_json();
                assert!(
                    json.len() <= max_bytes,
                    "{} bytes at a limit of {max_bytes}",
                    json.len()
                );
                assert_eq!(response.count, response.matches.len());
                assert_eq!(response.matches[..], full.matches[..response.count]);
                assert_eq!(response.truncated, response.count < full.count);
                assert!(!response.truncated || response.content.contains("to fit"));
                shortest = Some(shortest.map_or(max_bytes, |known: usize| known.min(max_bytes)));
                if max_bytes >= whole {
                    assert!(response == full, "cut at {max_bytes} of {whole} bytes");
                }
            }
            Err(error) => {
                assert_eq!(error.code(), "limits_exceeded");
                assert_eq!(
                    shortest, None,
                    "an answer that fit {shortest:?} does not fit {max_bytes}"
                );
            }
        }
    }
    assert!(shortest.is_some());
    // The smaller of the two limits applies.
    context.max_output_bytes = Some(whole + 10);
    context.available_capacity_bytes = shortest;
    assert_eq!(tool.search(&request, &context).unwrap().count, 0);
}

#[test]
fn the_least_of_all_byte_limits_counts() {
    let request = SearchRequest::new("o");
    let len = |configured: u64, asked: Option<usize>, lines: u64| {
        let (tool, mut context, dir) = tool(|config| {
            config.max_output_bytes = configured;
            config.max_line_bytes = lines;
        });
        std::fs::write(dir.path().join("long.txt"), "o x".repeat(1_000)).unwrap();
        context.max_output_bytes = asked;
        let response = tool.search(&request, &context).unwrap();
        (response.to_json().len(), response.truncated)
    };
    let (whole, truncated) = len(0, None, 0);
    assert!(whole > 6_000 && !truncated);
    assert_eq!(len(whole as u64, None, 0), (whole, false));
    // The line is shortened instead of dropped.
    for (configured, asked) in [(900, None), (900, Some(5_000)), (5_000, Some(900))] {
        let (cut, truncated) = len(configured, asked, 0);
        let place = format!("{cut} {configured} {asked:?}");
        assert!((500..=900).contains(&cut) && !truncated, "{place}");
    }
    let (short, truncated) = len(2_000, None, 100);
    assert!((500..1_500).contains(&short) && !truncated, "{short}");
}

#[cfg(unix)]
#[test]
fn errors_that_are_too_much_alone_are_cut_too() {
    let (tool, mut context, dir) = tool(|_| {});
    for n in 0..40 {
        std::os::unix::fs::symlink("nowhere", dir.path().join(format!("broken-{n:02}"))).unwrap();
    }
    let mut request = SearchRequest::new("two");
    request.follow = true;
    let full = tool.search(&request, &context).unwrap();
    assert_eq!((full.errors.len(), full.truncated), (40, false));
    for max_bytes in [900, 1500, 3000] {
        context.max_output_bytes = Some(max_bytes);
        let response = tool.search(&request, &context).unwrap();
        assert!(response.to_json().len() <= max_bytes);
        assert!(response.truncated && response.content.contains("entries of `errors`"));
        assert!(!response.errors.is_empty());
        assert_eq!(response.errors[..], full.errors[..response.errors.len()]);
    }
}

#[test]
fn compiling_an_expression_ends_at_the_deadline() {
    let (tool, context, _dir) = tool(|_| {});
    let request = |ms: u64| json!({"pattern": "(?:\\w{60}x){20}|t", "timeout_ms": ms});
    let started = context.clock.now();
    match tool.call(request(1), &context) {
        Ok(response) => assert!(response.timed_out && response.count == 0),
        Err(error) => assert!(error.message().contains("too large"), "{error}"),
    }
    assert!(context.clock.now() - started < Duration::from_secs(300));
    context.cancel.cancel();
    assert_eq!(
        tool.call(request(60_000), &context).unwrap_err(),
        ToolError::Cancelled
    );
}

#[test]
fn denied_patterns_hold_in_nested_roots() {
    let (_, _, dir) = tool(|_| {});
    let top = dir.path().canonicalize().unwrap();
    for path in ["sub/secrets/k.txt", "sub/open/k.txt", "secrets/k.txt"] {
        let path = top.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "needle\n").unwrap();
    }
    let mut config = Config::library_default();
    config.search.enabled = true;
    config.sandbox.allowed_roots = vec![top.clone(), top.join("sub")];
    config.sandbox.denied_patterns = vec!["secrets/**".to_string()];
    let sandbox = Sandbox::new(&config.sandbox, &top).unwrap();
    let tool = SearchTool::new(config.search, Engines::embedded());
    let context = ToolContext::new(Arc::new(sandbox));
    for path in [".", "sub"] {
        let mut request = SearchRequest::new("needle");
        request.path = Some(path.to_string());
        let response = tool.search(&request, &context).unwrap();
        assert_eq!(response.content, "sub/open/k.txt:1:1:needle\n", "{path}");
    }
    for denied in ["secrets", "sub/secrets", "sub/secrets/k.txt"] {
        let request = json!({"pattern": "needle", "path": denied});
        assert_eq!(
            tool.call(request, &context).unwrap_err().code(),
            "denied_pattern_matched"
        );
    }
}
