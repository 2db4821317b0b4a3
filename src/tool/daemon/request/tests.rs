use serde_json::json;

use super::*;

fn parse(value: Value) -> Result<Request, RequestError> {
    Request::parse(value.to_string().as_bytes())
}

#[test]
fn requests_are_read_as_they_are_written() {
    let query = SearchQuery {
        limit: Some(7),
        mode: Some(Mode::Debug),
        snippet: Some(SnippetMode::None),
        explain: true,
        raw: true,
        ..SearchQuery::new("open socket")
    };
    let mut request = Map::new();
    request.insert("pattern".to_string(), "x".into());
    let call = ToolCall {
        tool: "Search".to_string(),
        request,
        max_output_bytes: Some(4_096),
        text: true,
        person: true,
        whole: true,
    };
    for body in [
        RequestBody::Search(query),
        RequestBody::Tool(call),
        RequestBody::Cancel,
        RequestBody::Shutdown,
    ] {
        let id = Some("a b-1".to_string());
        let request = Request { id, body };
        assert_eq!(parse(request.to_value()), Ok(request));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_mistake_in_a_daemon_request_is_named() {
    for (value, said) in [
        (json!([]), "not a JSON object"),
        (json!({}), "lacks type"),
        (json!({"type": 1}), "type is not a string"),
        (json!({"type": "serach"}), "unknown type `serach`"),
        (json!({"type": "shutdown", "x": 1}), "unknown field `x`"),
        (json!({"type": "search"}), "query is blank"),
        (json!({"type": "search", "query": " "}), "query is blank"),
        (json!({"type": "search", "query": 1}), "query: invalid type"),
        (
            json!({"type": "search", "query": "x", "limit": 0}),
            "limit is 0; 1 to 1000",
        ),
        (
            json!({"type": "search", "query": "x", "limit": 1001}),
            "limit is 1001",
        ),
        (
            json!({"type": "search", "query": "x", "limit": -1}),
            "limit: invalid value",
        ),
        (
            json!({"type": "search", "query": "x", "per_file": 51}),
            "1 to 50",
        ),
        (
            json!({"type": "search", "query": "x", "budget": 0}),
            "budget is 0; 1 to 1000000",
        ),
        (
            json!({"type": "search", "query": "x", "budget": 9, "snippet": "short"}),
            "snippet is not `definition`",
        ),
        (
            json!({"type": "search", "query": "x", "related": "/a.rs:1"}),
            "query and related are both present",
        ),
        (
            json!({"type": "search", "related": "/a.rs"}),
            "`/a.rs` is not a file and a line",
        ),
        (
            json!({"type": "search", "query": "x", "mode": "fast"}),
            "unknown variant `fast`",
        ),
        (
            json!({"type": "search", "query": "x", "snippet": 3}),
            "snippet",
        ),
        (
            json!({"type": "search", "query": "x", "bare": true}),
            "unknown field `bare`",
        ),
        (
            json!({"type": "tool", "tool": "Search"}),
            "missing field `request`",
        ),
        (
            json!({"type": "tool", "tool": "Search", "request": []}),
            "request: invalid type",
        ),
        (json!({"type": "cancel"}), "cancel lacks request_id"),
        (
            json!({"type": "shutdown", "request_id": 1}),
            "request_id is not a string",
        ),
        (
            json!({"type": "shutdown", "request_id": ""}),
            "1 to 128 characters",
        ),
        (
            json!({"type": "shutdown", "request_id": "\u{1b}"}),
            "control character",
        ),
    ] {
        let refused = parse(value.clone()).unwrap_err();
        assert!(refused.message.contains(said), "{value}: {refused}");
    }
    let refused = parse(json!({"type": "x", "request_id": "me"})).unwrap_err();
    assert_eq!(refused.request_id.as_deref(), Some("me"));
    for bytes in [&b"\xff\xfe"[..], b"{\"type\":", b"", &b"[".repeat(100_000)] {
        let refused = Request::parse(bytes).unwrap_err();
        assert!(refused.message.contains("not valid JSON"), "{refused}");
    }
}

#[test]
fn a_request_with_a_duplicate_field_is_refused() {
    for text in [
        r#"{"type":"status","type":"shutdown"}"#,
        r#"{"type":"status","request_id":"a","request_id":"a"}"#,
        r#"{"type":"search","query":"x","qu\u0065ry":"y"}"#,
    ] {
        let refused = Request::parse(text.as_bytes()).unwrap_err();
        assert!(refused.message.contains("occurs twice"), "{refused}");
    }
    let hello = r#"{"protocol_version":1,"store_id":"a","config_fingerprint":"c","store_id":"b"}"#;
    let refused = Hello::parse(hello.as_bytes()).unwrap_err();
    assert!(
        refused.message.contains("`store_id` occurs twice"),
        "{refused}"
    );
    let long = "x".repeat(100_000);
    let text = format!(r#"{{"type":"status","{long}":1,"{long}":1}}"#);
    let refused = Request::parse(text.as_bytes()).unwrap_err();
    assert!(refused.message.len() < 1000, "{}", refused.message.len());
}

#[test]
fn messages_repeat_nothing_long() {
    let long = "x".repeat(100_000);
    for value in [
        json!({"type": long}),
        json!({"type": "shutdown", &long: 1}),
        json!({"type": "search", "query": "x", "mode": long}),
        json!({"type": "search", "query": "x", &long: 1}),
    ] {
        let refused = parse(value).unwrap_err();
        assert!(refused.message.len() < 1000, "{}", refused.message.len());
    }
}

#[test]
fn a_handshake_gives_its_versions_in_one_of_two_ways() {
    let hello = |mut fields: Value| {
        fields["store_id"] = "s".into();
        fields["config_fingerprint"] = "c".into();
        Hello::parse(fields.to_string().as_bytes())
    };
    assert_eq!(
        hello(json!({"protocol_versions": [1, 2]}))
            .unwrap()
            .versions(),
        [1, 2]
    );
    assert_eq!(
        hello(json!({"protocol_version": 3})).unwrap().versions(),
        [3]
    );
    for (fields, said) in [
        (json!({}), "lacks protocol_versions"),
        (json!({"protocol_versions": []}), "empty"),
        (
            json!({"protocol_versions": [1], "protocol_version": 1}),
            "both",
        ),
        (json!({"protocol_versions": ["1"]}), "protocol_versions[0]"),
        (
            json!({"protocol_version": 1, "type": "shutdown"}),
            "unknown field `type`",
        ),
        (json!({"protocol_version": 1, "client_id": ""}), "client_id"),
    ] {
        let refused = hello(fields.clone()).unwrap_err();
        assert!(refused.message.contains(said), "{fields}: {refused}");
    }
    let batch = hello(json!({"protocol_version": 1, "client_capabilities": ["batch"]}));
    assert!(batch.unwrap().is_batch());
}

#[test]
fn fields_of_version_2_are_not_sent_over_version_1() {
    let call = |tool: &str, request: Value| {
        let request = request.as_object().cloned().unwrap_or_default();
        let body = json!({"type": "tool", "tool": tool, "request": request});
        parse(body).unwrap().body.protocol_version()
    };
    assert_eq!(call("find_code", json!({"question": "retry"})), 1);
    assert_eq!(call("find_code", json!({"related": "a.rs:1"})), 2);
    assert_eq!(
        call("find_code", json!({"question": "retry", "budget": 9})),
        2
    );
    assert_eq!(call("Search", json!({"pattern": "x", "budget": 9})), 1);
}
