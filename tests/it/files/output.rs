//! Tests the output for hosts: JSON that fits its limit, errors that name the cause, and a tool
//! that declares itself as read-only.

use std::sync::Mutex;

use forge_search::Tool;
use forge_search::internal::exec::stop::Clock;
use forge_search::internal::tool::search_files::{TruncatedReason, files_schema};

use super::*;
use crate::support::step;

#[test]
fn output_fits_whatever_it_has_to_fit() {
    let tree = Tree::of([
        ("a", "needle \"quoted\" needle\nälter\n"),
        ("b/c", "x\nneedle\\\ny\n"),
        ("d", "\u{1}needle\u{1F600}\n"),
    ]);
    tree.link("broken", "nowhere");
    let request =
        json!({"path": ".", "query": "needle", "context_lines": 1, "follow_symlinks": true});
    for emit_stats in [false, true] {
        let files = Files::new(tree.root())
            .timeless()
            .config(|config| config.search_files.emit_stats = emit_stats);
        let whole = files.search(request.clone());
        assert_eq!((whole.returned, whole.errors.len()), (4, 1));
        let (mut refused, mut seen) = (0, BTreeSet::new());
        // The long tests try every number of bytes, and other runs some of them.
        let step = step().min(if emit_stats { 8 } else { 3 });
        for bytes in (0..whole.to_json().len() + 1_300).step_by(step) {
            let cut = Files {
                available_capacity_bytes: Some(bytes),
                max_output_bytes: Some(bytes + bytes % 3),
                ..files.clone()
            };
            let response = match cut.call(&request) {
                Ok(response) => response,
                Err(error) => {
                    assert_eq!(error.code(), "limits_exceeded");
                    assert!(seen.is_empty(), "less fits {bytes} bytes than before");
                    refused += 1;
                    continue;
                }
            };
            assert!(response.to_json().len() <= bytes, "{bytes}");
            assert_eq!(response.matches[..], whole.matches[..response.returned]);
            let complete = response.returned == 4 && response.errors.len() == 1;
            assert_eq!(response.truncated, !complete);
            let reason = (!complete).then_some(TruncatedReason::MaxOutputBytes);
            assert_eq!(response.truncated_reason, reason);
            assert_eq!(response.stats.matches_total, 4);
            seen.insert(response.returned);
        }
        assert!(refused > 0);
        assert_eq!(seen, (0..=4).collect());
    }
}

#[test]
fn lines_are_shown_in_part_at_every_length() {
    let tree = Tree::of([(
        "a",
        "äöü needle äöü needle 😀\nanother 😀 line that is long\n",
    )]);
    let request = json!({"path": ".", "query": "needle", "context_lines": 1});
    let whole = Files::new(tree.root()).search(request.clone());
    for max in 1..60 {
        let files =
            Files::new(tree.root()).config(|config| config.search_files.max_line_bytes = max);
        let response = files.search(request.clone());
        for (one, whole) in response.matches.iter().zip(&whole.matches) {
            assert_eq!((one.line, one.column), (whole.line, whole.column));
            let most = max as usize;
            assert!(one.line_text.len() <= most && one.match_text.len() <= most);
            assert!(whole.line_text.contains(&one.line_text));
            assert!(one.line_text.contains(&one.match_text) || most < 6);
            for (cut, line) in one.after.iter().zip(&whole.after) {
                assert!(cut.len() <= most && line.starts_with(cut));
            }
        }
        // Both matches are in one line, and the other line comes after both.
        let lines = [&whole.matches[0].line_text, &whole.matches[0].after[0]];
        let longer = lines
            .iter()
            .filter(|line| line.len() > max as usize)
            .count();
        let shortened = response.stats.lines_shortened.unwrap_or(0);
        assert_eq!(shortened, longer as u64, "{max}");
    }
}

#[test]
fn bytes_are_the_reason_wherever_they_cut() {
    let tree = Tree::of([("a", "needle\n".repeat(50))]);
    let request = json!({"path": ".", "query": "needle", "max_results": 10});
    let files = Files::new(tree.root()).timeless();
    let whole = files.search(request.clone());
    assert_eq!(whole.truncated_reason, Some(TruncatedReason::MaxResults));
    let cut = Files {
        max_output_bytes: Some(whole.to_json().len() - 1),
        ..files
    };
    let response = cut.search(request);
    assert!(response.returned < 10 && response.truncated);
    assert_eq!(
        response.truncated_reason,
        Some(TruncatedReason::MaxOutputBytes)
    );
}

/// A file is text only if all of it is valid UTF-8, also far from its start.
#[test]
fn what_is_no_utf_8_far_on_is_binary() {
    let mut late = b"needle\n".repeat(40_000);
    late.push(0xFF);
    let tree = Tree::of([("late", late), ("text", b"needle\n".repeat(40_000))]);
    let files =
        Files::new(tree.root()).config(|config| config.search_files.max_matches_per_file = 1);
    let response = files.search(json!({"path": ".", "query": "needle"}));
    let paths: Vec<&str> = response.matches.iter().map(|one| &*one.path).collect();
    assert_eq!((paths, response.errors.len()), (vec!["text"], 1));
    let (path, error) = (&response.errors[0].path, &response.errors[0].error);
    assert_eq!(path, "late");
    assert!(error.contains("invalid UTF-8 at byte 280000"), "{error}");
}

fn cut_to(files: &Files, bytes: usize, request: &Value) -> Result<FilesResponse, ToolError> {
    let cut = Files {
        max_output_bytes: Some(bytes),
        ..files.clone()
    };
    cut.call(request)
}

#[test]
fn only_lines_that_are_shown_count_as_shortened() {
    let long = format!("needle {}\n", "x".repeat(200));
    let tree = Tree::of([("a", &*long), ("b", &long), ("c", &long), ("d", &long)]);
    let files = Files::new(tree.root())
        .timeless()
        .config(|config| config.search_files.max_line_bytes = 50);
    let request = json!({"path": ".", "query": "needle"});
    let mut seen = BTreeSet::new();
    let least = cut_to(&files, 1, &request).unwrap_err();
    let least = least.message();
    let least = least.split_once("it needs ").unwrap().1;
    let least: usize = least.split_once('.').unwrap().0.parse().unwrap();
    for bytes in least..1_500 {
        let response = cut_to(&files, bytes, &request).unwrap();
        let shortened = response.stats.lines_shortened.unwrap_or(0);
        assert_eq!(shortened, response.returned as u64, "{bytes}");
        seen.insert(shortened);
    }
    assert_eq!(seen, (0..=4).collect());
}

/// Errors about many large files must not use up the space for matches.
#[test]
fn errors_leave_room_for_matches() {
    let mut tree: BTreeMap<String, String> = (0..300)
        .map(|n| (format!("large/{n:03}"), "x".repeat(200)))
        .collect();
    tree.insert("small".into(), "needle\n".into());
    let tree = Tree::of(
        tree.iter()
            .map(|(path, text)| (path.as_str(), text.as_str())),
    );
    let request = json!({"path": ".", "query": "needle", "max_file_size_bytes": 100});
    let whole = Files::new(tree.root()).search(request.clone());
    assert_eq!((whole.returned, whole.errors.len()), (1, 300));
    assert!(!whole.truncated);
    let files = Files {
        max_output_bytes: Some(4_000),
        ..Files::new(tree.root()).timeless()
    };
    let response = files.search(request);
    assert_eq!(response.returned, 1);
    assert!(response.truncated && response.to_json().len() <= 4_000);
    // The errors get the space that the match leaves.
    assert!(response.errors.len() > 20, "{}", response.errors.len());
    assert_eq!(response.errors[..], whole.errors[..response.errors.len()]);
}

#[test]
fn context_has_a_cap() {
    let tree = Tree::of([("a", "x\nneedle\n")]);
    let files = Files::new(tree.root());
    let with = |lines: u64| json!({"path": ".", "query": "needle", "context_lines": lines});
    assert_eq!(files.search(with(1_000)).matches[0].before, ["x"]);
    for lines in [1_001, u64::MAX] {
        let error = files.call(&with(lines)).unwrap_err();
        assert_eq!(error.code(), "bad_args");
        assert!(error.message().contains("above the cap of 1000"), "{error}");
    }
}

#[test]
fn errors_do_not_repeat_all_of_a_request() {
    let tree = Tree::of([("a", "x\n")]);
    let files = Files::new(tree.root());
    for (request, says) in [
        (
            json!({"path": ".", "query": format!("{}(", "x".repeat(60_000)), "mode": "regex"}),
            "mode = \"exact\"",
        ),
        (
            json!({"path": ".", "query": format!("\\p{{{}}}", "F".repeat(60_000)), "mode": "regex"}),
            "",
        ),
        (
            json!({"path": ".", "query": "x", "include_globs": ["[".repeat(60_000)]}),
            "include_globs",
        ),
    ] {
        let error = files.call(&request).unwrap_err();
        assert_eq!(error.code(), "bad_args");
        let message = error.message();
        assert!(message.len() < 2_000, "{} bytes", message.len());
        assert!(message.contains(says), "{message}");
    }
}

/// Without a limit of the host, a few long lines could make a response of gigabytes.
#[test]
fn no_response_is_larger_than_64_mib() {
    // Each match repeats the long path, so that few matches fill a response.
    let path = vec!["a".repeat(200); 10].join("/");
    let tree = Tree::of([(path, "ab".repeat(600_000))]);
    let files = Files::new(tree.root()).config(|config| {
        config.search_files.max_results = 35_000;
        config.search_files.max_matches_per_file = 35_000;
        // The shortest length of cut lines. The response is built again for each length that is
        // tried.
        config.search_files.max_line_bytes = 32;
    });
    let response = files.search(json!({"path": ".", "query": "a"}));
    let json = response.to_json();
    assert!(
        json.len() <= 64 << 20 && json.len() > 58 << 20,
        "{}",
        json.len()
    );
    assert_eq!(
        response.truncated_reason,
        Some(TruncatedReason::MaxOutputBytes)
    );
    assert_eq!(response.stats.matches_total, 35_000);
}

#[test]
fn the_tool_says_what_it_is() {
    let tree = Tree::of([("a", "needle")]);
    let tool = Files::new(tree.root()).tool();
    assert_eq!(tool.name(), "search_files");
    assert_eq!(tool.description(), "Search file contents");
    assert!(!tool.is_side_effecting() && !tool.requires_approval());
    assert_eq!(
        tool.risk_level(),
        forge_search::internal::tool::tools::RiskLevel::Low
    );
    let response = Files::new(tree.root()).search(json!({"path": ".", "query": "needle"}));
    assert_eq!(tool.read_evidence(&response), None);
    let mut request = FilesRequest::new("src", "x");
    assert_eq!(tool.summary(&request), r#"Search src for the text "x""#);
    request.query = "é".repeat(300);
    assert_eq!(tool.summary(&request).chars().count(), 200);
}

#[test]
fn the_schema_has_every_field_and_no_other() {
    let schema = files_schema();
    assert_eq!(schema["additionalProperties"], false);
    let mut required: Vec<&str> = schema["required"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    required.sort_unstable();
    assert_eq!(required, ["path", "query"]);
    let fields = schema["properties"].as_object().unwrap();
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "case",
            "context_lines",
            "exclude_globs",
            "follow_symlinks",
            "include_globs",
            "include_hidden",
            "max_depth",
            "max_file_size_bytes",
            "max_files",
            "max_matches_per_file",
            "max_results",
            "mode",
            "path",
            "query",
            "recursive",
            "respect_gitignore",
        ]
    );
    assert_eq!(fields["mode"]["enum"], json!(["exact", "regex", "fuzzy"]));
    assert_eq!(
        fields["case"]["enum"],
        json!(["smart", "sensitive", "insensitive"])
    );
    for (name, default) in [
        ("mode", json!("exact")),
        ("case", json!("smart")),
        ("recursive", json!(true)),
        ("context_lines", json!(0)),
        ("include_hidden", json!(false)),
        ("follow_symlinks", json!(false)),
        ("respect_gitignore", json!(true)),
    ] {
        assert_eq!(fields[name]["default"], default, "{name}");
    }
    for (name, field) in fields {
        assert!(field["description"].is_string(), "{name} is not described");
    }
}

#[test]
fn a_disabled_tool_refuses() {
    let tree = Tree::of([("a", "needle")]);
    let files = Files::new(tree.root()).config(|config| config.search_files.enabled = false);
    let error = files
        .call(&json!({"path": ".", "query": "needle"}))
        .unwrap_err();
    assert_eq!(error.code(), "disabled");
    assert!(error.message().contains("[tools.search_files]"), "{error}");
}

/// A clock that advances by a step at each read.
#[derive(Debug)]
struct Hasty {
    now: Mutex<std::time::Instant>,
    step: std::time::Duration,
}

impl Clock for Hasty {
    fn now(&self) -> std::time::Instant {
        let mut now = self.now.lock().unwrap();
        *now += self.step;
        *now
    }
}

#[test]
fn a_call_that_takes_too_long_is_an_error() {
    // The search takes longer than the detection of the timeout. If an answer came first, it would
    // count.
    let tree = Tree::of([("a", "ab".repeat(900_000))]);
    let files = Files::new(tree.root()).config(|config| {
        config.search_files.fuzzy_threshold = 0.5;
        config.search_files.default_timeout_ms = 300_000;
    });
    let long = json!({"path": ".", "query": "n".repeat(400), "mode": "fuzzy"});
    let long = FilesRequest::from_value(long).unwrap();
    let mut context = files.context();
    context.clock = Arc::new(Hasty {
        now: Mutex::new(std::time::Instant::now()),
        step: std::time::Duration::from_secs(30),
    });
    let error = files.tool().search(&long, &context).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("timeout", "Timeout"));
    assert!(
        error.message().contains("`search_files` was stopped after"),
        "{error}"
    );
    // The timeout of the host counts, and not the configured one.
    context.clock = files.context().clock;
    context.default_timeout = Some(std::time::Duration::ZERO);
    let error = files.tool().search(&long, &context).unwrap_err();
    assert_eq!(error.code(), "timeout");
    context.default_timeout = Some(std::time::Duration::from_secs(600));
    let request = FilesRequest::new(".", "abab");
    // 20 is the limit of matches from one file.
    assert_eq!(
        files.tool().search(&request, &context).unwrap().returned,
        20
    );
}

#[test]
fn a_cancelled_call_says_so() {
    // The search takes longer than the detection of the cancellation.
    let tree = Tree::of([("a", "ab".repeat(900_000))]);
    let files = Files::new(tree.root()).config(|config| config.search_files.fuzzy_threshold = 0.5);
    let context = files.context();
    context.cancel.cancel();
    let request = json!({"path": ".", "query": "n".repeat(400), "mode": "fuzzy"});
    let error = files.tool().call(request, &context).unwrap_err();
    assert_eq!(error.code(), "cancelled");
}
