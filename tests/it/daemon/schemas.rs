//! Tests of the message schemas. Those in `docs/schemas/` must equal the ones that the types
//! generate, and every message in every test is validated.

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

use forge_search::internal::tool::daemon::reply::{ErrorCode, schemas};
use forge_search::internal::tool::daemon::request::{
    Mode, Request, RequestBody, SearchQuery, SnippetMode, ToolCall,
};
use serde_json::{Value, json};

use crate::project_files::root;

fn validators() -> &'static BTreeMap<&'static str, jsonschema::Validator> {
    static ALL: OnceLock<BTreeMap<&'static str, jsonschema::Validator>> = OnceLock::new();
    ALL.get_or_init(|| {
        let compiled = |(name, schema): (&'static str, Value)| {
            (name, jsonschema::draft202012::new(&schema).unwrap())
        };
        schemas().into_iter().map(compiled).collect()
    })
}

/// Fails if a message violates its schema.
#[track_caller]
pub(super) fn check(name: &str, message: &Value) {
    let errors: Vec<String> = validators()[name]
        .iter_errors(message)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {message}\n{errors:?}");
}

/// Fails if a message is no valid answer of a daemon. Answers of tools have no schema here.
#[track_caller]
pub(super) fn check_answer(answer: &Value) {
    let kinds = [
        ("results", "query_success"),
        ("daemon", "status"),
        ("checks", "health"),
        ("content_type", "metrics"),
        ("done", "acknowledged"),
        ("supported_schema_versions", "handshake_response"),
    ];
    let kind = kinds.iter().find(|(field, _)| answer.get(field).is_some());
    let code = answer["error"]["code"].as_str();
    match (kind, code) {
        (Some((_, name)), _) => check(name, answer),
        (None, Some(code)) if ErrorCode::NAMES.contains(&code) => check("query_error", answer),
        (None, _) => assert!(answer.is_object(), "{answer}"),
    }
}

#[test]
fn daemon_requests_conform_to_their_schema() {
    let all = [
        RequestBody::Search(SearchQuery {
            limit: Some(1),
            per_file: Some(2),
            mode: Some(Mode::Debug),
            path: Some("/x".to_string()),
            snippet: Some(SnippetMode::Long),
            explain: true,
            deterministic: true,
            raw: true,
            timeout_ms: Some(5),
            ..SearchQuery::new("x")
        }),
        RequestBody::Search(SearchQuery::new("x")),
        RequestBody::Tool(ToolCall {
            tool: "Search".to_string(),
            ..ToolCall::default()
        }),
        RequestBody::Tool(ToolCall {
            tool: "search_files".to_string(),
            request: serde_json::Map::new(),
            max_output_bytes: Some(1),
            text: true,
            person: true,
            whole: true,
        }),
        RequestBody::Status,
        RequestBody::Health,
        RequestBody::Metrics,
        RequestBody::Cancel,
        RequestBody::Shutdown,
    ];
    for body in all {
        let id = Some("me".to_string());
        check("request", &Request { id, body }.to_value());
    }
    // The daemon refuses the requests that the schema refuses.
    for wrong in [
        json!({}),
        json!({"type": "other"}),
        json!({"type": "status", "x": 1}),
        json!({"type": "cancel"}),
        json!({"type": "search"}),
        json!({"type": "search", "query": "x", "mode": "fast"}),
        json!({"type": "search", "query": "x", "limit": "1"}),
        json!({"type": "search", "query": "x", "raw": 1}),
        json!({"type": "tool", "tool": "Search"}),
        json!({"type": "tool", "tool": "Search", "request": []}),
        json!({"type": "status", "request_id": ""}),
    ] {
        assert!(!validators()["request"].is_valid(&wrong), "{wrong}");
        assert!(
            Request::parse(wrong.to_string().as_bytes()).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn the_documented_schemas_are_those_of_the_types() {
    let dir = root().join("docs").join("schemas");
    let mut names = Vec::new();
    for (name, schema) in schemas() {
        let path = dir.join(format!("{name}.schema.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, text, "{}: run with UPDATE_SCHEMAS=1", path.display());
        names.push(format!("{name}.schema.json"));
    }
    names.sort();
    let mut kept: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(kept, names);
}

/// The required fields are part of the contract. A change of the schemas needs a change here.
#[test]
fn schemas_require_the_fields_of_the_contract_and_allow_no_others() {
    let all: BTreeMap<_, _> = schemas().into_iter().collect();
    let sorted = |value: &Value| {
        let mut names: Vec<String> = serde_json::from_value(value.clone()).unwrap();
        names.sort();
        names.join(" ")
    };
    for (name, required) in [
        ("handshake_request", "config_fingerprint store_id"),
        (
            "handshake_response",
            "binary_version config_fingerprint protocol_version protocol_versions store_id supported_schema_versions",
        ),
        ("query_error", "error"),
        (
            "query_success",
            "config_fingerprint degraded embed_config_fingerprint git ignore_fingerprint limits limits_hit mode \
             query_fingerprint request_id results schema_version snapshot_id store_id warnings",
        ),
    ] {
        assert_eq!(sorted(&all[name]["required"]), required, "{name}");
        assert_eq!(all[name]["additionalProperties"], false, "{name}");
    }
    let success = &all["query_success"]["properties"];
    assert_eq!(success["schema_version"]["const"], 2);
    let result = &success["results"]["items"];
    assert_eq!(result["additionalProperties"], false);
    assert_eq!(result["properties"]["score"]["type"], "number");
    assert_eq!(success["timings_ms"]["additionalProperties"], false);
    assert_eq!(
        all["query_error"]["properties"]["error"]["additionalProperties"],
        false
    );
}

/// Lists the required fields of a schema with their paths. Every object must forbid other fields.
fn required(schema: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(items) = schema.get("items") {
        required(items, &format!("{at}[]"), found);
    }
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    assert_eq!(schema["additionalProperties"], false, "{at}");
    let names: Vec<String> = serde_json::from_value(schema["required"].clone()).unwrap();
    for (name, field) in fields {
        assert!(names.contains(name), "{at}.{name} is optional");
        found.push(format!("{at}.{name}"));
        required(field, &format!("{at}.{name}"), found);
    }
}

#[test]
fn status_and_health_have_the_fields_of_the_contract() {
    let all: BTreeMap<_, _> = schemas().into_iter().collect();
    let fields = |name: &str| {
        let mut found = Vec::new();
        required(&all[name], "", &mut found);
        found.sort();
        found
    };
    let expected = |tables: &[(&str, &str)]| {
        let mut expected: Vec<String> = tables
            .iter()
            .flat_map(|(at, names)| {
                names
                    .split_whitespace()
                    .map(move |name| format!("{at}.{name}"))
            })
            .collect();
        expected.sort();
        expected
    };
    let status = expected(&[
        (
            "",
            "schema_version store_id canonical_root config_fingerprint ignore_fingerprint daemon snapshot sync queries \
             resources performance",
        ),
        (
            ".daemon",
            "running pid started_at binary_version protocol_version stale supported_schema_versions",
        ),
        (
            ".snapshot",
            "active_snapshot_id head_sha dirty untracked_included degraded created_at",
        ),
        (
            ".sync",
            "state last_sync_at last_result last_duration_ms staging_txn_id",
        ),
        (
            ".queries",
            "max_concurrent max_queue_depth timeout_ms in_flight queue_depth busy_total timeouts_total slow_total",
        ),
        (".resources", "embed_global disk open_handles"),
        (
            ".resources.embed_global",
            "max_concurrent in_use stale_lock",
        ),
        (
            ".resources.disk",
            "store_bytes store_budget_bytes cache_bytes cache_budget_bytes log_bytes log_budget_bytes",
        ),
        (".resources.open_handles", "segments_open segments_budget"),
        (
            ".performance",
            "query_latency_p50_ms query_latency_p95_ms query_latency_budget_p50_ms query_latency_budget_p95_ms \
             segments_touched_max segments_touched_budget publish_time_last_ms publish_time_budget_ms gc_time_last_ms \
             gc_time_budget_ms compaction_time_last_ms compaction_time_budget_ms",
        ),
    ]);
    let found = fields("status");
    // The field is null or an object with the fields of the handshake response.
    let found: Vec<String> = found
        .into_iter()
        .filter(|name| !name.starts_with(".daemon.supported_schema_versions."))
        .collect();
    assert_eq!(found, status);
    let health = expected(&[
        ("", "schema_version store_id active_snapshot_id ok checks"),
        (".checks[]", "code severity message"),
    ]);
    assert_eq!(fields("health"), health);
    let severity = &all["health"]["properties"]["checks"]["items"]["properties"]["severity"];
    let words: Vec<&str> = match severity.get("enum") {
        Some(words) => words
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect(),
        None => severity["oneOf"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["const"].as_str())
            .collect(),
    };
    assert_eq!(words, ["ok", "warn", "fail"]);
}
