//! Tests `forge-search mcp` message by message: malformed messages, arguments as models write them,
//! and the size of an answer.

use std::io::Write;

use serde_json::{Value, json};

use forge_search::internal::exec::external::detect::Tool;

use super::mcp::{PROGRAM, Wire, found, place, shown};
use super::program::{text, wait_until};
use crate::peers::peer;

#[test]
fn mcp_messages_that_can_not_be_read_are_answered() {
    let place = place();
    let mut wire = Wire::greeted(&place, &["--no-daemon"]);
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":"deep","method":"ping","params":{{"x":{}{}}}}}"#,
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    let call = r#"{"jsonrpc":"2.0","id":"half","method":"tools/call","params":{"name":"Search","arguments":{"pattern":"\ud800"}}}"#;
    for (bytes, id, code) in [
        (&b"{"[..], Value::Null, -32700),
        (b"{]}", Value::Null, -32700),
        (b"[]", Value::Null, -32600),
        (b"null", Value::Null, -32600),
        (b"{\"jsonrpc\": \"2.0\"}", Value::Null, -32600),
        (b"\xef\xbf\xbd\x00", Value::Null, -32700),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":\"raw\",\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}",
            json!("raw"),
            -32700,
        ),
        (call.as_bytes(), json!("half"), -32602),
        (deep.as_bytes(), json!("deep"), -32602),
        (
            br#"{"jsonrpc":"2.0","id":"kind","method":5}"#,
            json!("kind"),
            -32600,
        ),
        (
            br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            Value::Null,
            -32600,
        ),
        (
            br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            Value::Null,
            -32600,
        ),
    ] {
        let stdin = wire.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.write_all(b"\n\n").unwrap();
        let answer = wire.next();
        let line = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(code)),
            "{line}: {answer}"
        );
    }
    // Arguments may be a string that contains JSON.
    let params = json!({"name": "Search", "arguments": "{\"pattern\": \"retry_delay\"}"});
    wire.send(&json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params}));
    assert_eq!(found(&wire.answer(8)), 2);
    wire.call(9, json!({"pattern": "retry_delay"}), json!({}));
    assert_eq!(found(&wire.answer(9)), 2);
    assert_eq!(wire.end(), (Some(0), String::new()));
}

#[test]
fn mcp_messages_before_the_first_request_have_no_effect() {
    let place = place();
    let mut wire = Wire::start(&mut place.command(PROGRAM, &["mcp", "--no-daemon"]));
    for early in [
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!({"jsonrpc": "2.0", "method": "no/such"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ] {
        wire.send(&early);
    }
    wire.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }}));
    assert_eq!(wire.answer(0)["result"]["protocolVersion"], "2025-06-18");
    // Two running requests can't have the same id.
    let slow = json!({"pattern": crate::cli::SLOW, "path": "slow.txt", "timeout_ms": 600_000});
    wire.call(5, slow, json!({}));
    wire.call(5, json!({"pattern": "retry_delay"}), json!({}));
    assert_eq!(wire.answer(5)["error"]["code"], -32600);
}

#[test]
fn mcp_the_text_says_what_it_leaves_out() {
    let place = place();
    place.write(".env", "retry_delay hidden\n");
    place.write("bin.dat", "retry_delay first\n\0\n");
    place.write(
        "near.txt",
        "needle one\nfoo\nneedle two\nbar\nbaz\nqux\nneedle three\n",
    );
    let mut wire = Wire::greeted(&place, &["--no-daemon"]);
    let mut asked = 0;
    let mut ask = |tool: &str, arguments: Value| {
        asked += 1;
        let params = json!({"name": tool, "arguments": arguments});
        wire.send(
            &json!({"jsonrpc": "2.0", "id": asked, "method": "tools/call", "params": params}),
        );
        shown(&wire.answer(asked)).to_string()
    };
    for tool in ["Search", "search_files"] {
        let pattern = |path: &str, more: Value| {
            let name = if tool == "Search" { "pattern" } else { "query" };
            let mut arguments = json!({name: "retry_delay", "path": path});
            let more = more.as_object().unwrap().clone();
            arguments.as_object_mut().unwrap().extend(more);
            arguments
        };
        let text = ask(tool, pattern(".env", json!({})));
        assert_eq!(text, ".env\n1:retry_delay hidden\n", "{tool}");
        let text = ask(tool, pattern("bin.dat", json!({})));
        assert!(!text.contains("no line matches"), "{tool}: {text}");
        assert!(
            text.contains("a line matches, and none is shown"),
            "{tool}: {text}"
        );
        let (include, exclude) = match tool {
            "Search" => ("include_glob", "exclude_glob"),
            _ => ("include_globs", "exclude_globs"),
        };
        let text = ask(tool, pattern("src/delay.rs", json!({include: ["*.c"]})));
        assert!(
            text.contains("no eligible file matches `*.c`"),
            "{tool}: {text}"
        );
        let text = ask(tool, pattern("src", json!({exclude: "*"})));
        assert!(
            text.contains("no eligible file matches `!*`"),
            "{tool}: {text}"
        );
    }
    let request =
        json!({"query": "needle t", "path": "near.txt", "context_lines": 2, "max_results": 1});
    let text = ask("search_files", request);
    assert!(
        text.starts_with("near.txt\n1-needle one\n2-foo\n3:needle two\n4-bar\n5-baz\n["),
        "{text}"
    );
    // If a limit can't be raised, the text does not suggest it.
    let text = ask(
        "search_files",
        json!({"query": "a", "path": ".", "max_results": 9_999}),
    );
    let capped =
        "more matches than max_matches_per_file = 20 and show only the first. Narrow the pattern]";
    assert!(text.contains(capped) && !text.contains("raise"), "{text}");
}

#[test]
fn mcp_a_batch_is_answered_where_the_revision_has_them() {
    let place = place();
    let mut wire = Wire::start(&mut place.command(PROGRAM, &["mcp", "--no-daemon"]));
    wire.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }}));
    let about = wire.answer(0);
    assert_eq!(about["result"]["protocolVersion"], "2025-03-26");
    let call = |id: u64| {
        let params = json!({"name": "Search", "arguments": {"pattern": "retry_delay"}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    wire.send(&json!([told, call(1), call(2), 7]));
    let answers = wire.next();
    let mut ids: Vec<_> = answers.as_array().unwrap().iter().collect();
    ids.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(ids[0]["error"]["code"], -32600, "{answers}");
    assert_eq!((&ids[1]["id"], &ids[2]["id"]), (&json!(1), &json!(2)));
    assert_eq!((found(ids[1]), found(ids[2])), (2, 2));
    assert_eq!(wire.end(), (Some(0), String::new()));
}

#[test]
fn mcp_the_process_ends_when_nobody_reads_its_output() {
    let place = place();
    let mut wire = Wire::greeted(&place, &["--no-daemon"]);
    // The input stays open, and the client sends no request.
    wire.close_output();
    wait_until("the server has ended", || {
        wire.child.try_wait().unwrap().is_some()
    });
    assert!(wire.stdin.is_some());
}

#[test]
fn mcp_arguments_with_a_clear_meaning_are_taken() {
    let place = place();
    let mut wire = Wire::greeted(&place, &["--no-daemon"]);
    let mut asked = 0;
    let mut ask = |tool: &str, arguments: Value| {
        asked += 1;
        let params = json!({"name": tool, "arguments": arguments});
        wire.send(
            &json!({"jsonrpc": "2.0", "id": asked, "method": "tools/call", "params": params}),
        );
        let answer = wire.answer(asked);
        (
            shown(&answer).to_string(),
            answer["result"]["isError"] == true,
        )
    };
    let delay = "src/delay.rs\n1:pub fn retry_delay";
    for (tool, arguments) in [
        (
            "Search",
            json!({"pattern": "retry_delay", "max_results": "1", "path": null}),
        ),
        (
            "rg",
            json!({"pattern": "retry_delay", "include_glob": "delay.rs", "hidden": "false"}),
        ),
        (
            "search_files",
            json!({"query": "retry_delay", "path": "src/delay.rs"}),
        ),
        (
            "search_files",
            json!({"query": "retry_delay", "path": "src", "include_globs": "delay.rs", "case": "Sensitive"}),
        ),
    ] {
        let (text, failed) = ask(tool, arguments.clone());
        assert!(text.starts_with(delay) && !failed, "{arguments}: {text}");
        assert!(!text.contains("use.rs"), "{arguments}: {text}");
    }
    for (tool, arguments) in [
        (
            "Search",
            json!({"pattern": "retry", "max_files": 1_000_000_000}),
        ),
        (
            "search_files",
            json!({"query": "retry", "path": ".", "max_results": 1_000_000}),
        ),
        (
            "search_files",
            json!({"query": "retry", "path": ".", "context_lines": 1_000_000}),
        ),
    ] {
        let (text, failed) = ask(tool, arguments.clone());
        assert!(
            !failed && text.contains("src/delay.rs"),
            "{arguments}: {text}"
        );
        assert!(
            text.contains("which was used instead]"),
            "{arguments}: {text}"
        );
    }
    for (arguments, part) in [
        (json!({"pattern": "x", "context": "two"}), "2"),
        (json!({"pattern": "x", "hidden": "perhaps"}), "true"),
        (json!({"pattern": ["x"]}), "\"text\""),
        (json!({"patern": "x"}), "did you mean `pattern`?"),
        (json!({}), "`pattern`"),
        (json!({"pattern": "x", "case": "loud"}), "smart"),
        (
            json!({"pattern": "x", "include_glob": {"a": 1}}),
            "[\"*.rs\"]",
        ),
    ] {
        let (text, failed) = ask("Search", arguments.clone());
        assert!(
            failed && text.starts_with("bad_args: "),
            "{arguments}: {text}"
        );
        assert!(text.contains(part), "{arguments}: {text}");
        for rust in [
            "u64",
            "i64",
            "bool",
            "invalid type",
            "map",
            "sequence",
            "struct",
        ] {
            assert!(!text.contains(rust), "{arguments}: {text}");
        }
    }
}

#[test]
fn mcp_an_answer_costs_little_more_than_ripgreps_lines() {
    let Some(program) = peer(Tool::Ripgrep) else {
        return;
    };
    let place = place();
    for n in 0..30 {
        let lines: String = (0..20)
            .map(|m| format!("    let value_{m} = compute(input, {m}); // step {m} of {n}\n"))
            .collect();
        place.write(&format!("lib/module_{n}/part.rs"), &lines);
    }
    let mut wire = Wire::greeted(&place, &["--no-daemon"]);
    for (id, (pattern, context)) in (1..).zip([
        ("retry_delay", 0),
        ("step 7 ", 0),
        ("value_1[0-9] = .*of 2", 0),
        ("compute\\(input, 3\\)", 1),
        ("step 19 of", 2),
    ]) {
        let arguments = json!({"pattern": pattern, "context": context, "max_results": 100_000});
        wire.call(id, arguments, json!({}));
        let answer = wire.answer(id);
        let sent = answer.to_string().len();
        let rg = std::process::Command::new(&program.path)
            .args(["--heading", "-n", "--sort=path", "-C"])
            .args([&context.to_string(), pattern, "."])
            .current_dir(place.root())
            .output()
            .unwrap();
        let lines = text(&rg.stdout).replace("./", "");
        assert_eq!(shown(&answer), lines, "{pattern}");
        let told = shown(&answer).len();
        println!(
            "{pattern}: rg {} bytes, told {told}, sent {sent}",
            rg.stdout.len()
        );
        assert!(told * 100 <= rg.stdout.len() * 115, "{pattern}");
    }
}

#[test]
fn mcp_parameters_that_are_none_are_named() {
    let place = place();
    let mut wire = Wire::greeted(&place, &["--no-daemon"]);
    for (id, (method, params, code)) in [
        (
            "tools/call",
            json!({"name": "Search", "arguments": [1]}),
            -32602,
        ),
        ("tools/call", json!({"name": 5}), -32602),
        ("tools/call", json!({}), -32602),
        ("resources/read", json!({"uri": 5}), -32602),
        ("tools/call", json!([]), -32602),
        ("tools/call", json!({"name": "Search", "_meta": 5}), -32602),
        ("ping", json!([]), -32602),
        ("tools/list", json!("x"), -32602),
        ("resources/list", json!([]), -32602),
        ("no/such", json!({}), -32601),
        ("no/such", json!(5), -32601),
    ]
    .into_iter()
    .enumerate()
    {
        let id = id as u64 + 1;
        wire.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = wire.answer(id);
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
    assert_eq!(wire.end(), (Some(0), String::new()));
}
