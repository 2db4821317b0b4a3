//! The tool `find_code`: by a daemon, by a server for agents, and by a single command.

use std::fs;

use serde_json::{Value, json};

use super::mcp::{Wire, shown};
use super::program::{Place, ok, text};

fn place() -> Place {
    let place = Place::new();
    place.write(
        "src/delay.rs",
        "/// Waits before the next attempt.\npub fn retry_delay(attempt: u32) -> u32 {\n    attempt * 2\n}\n",
    );
    place.write(
        "src/client.rs",
        "fn send() {\n    // The delay of a retry grows.\n    wait(retry_delay(1));\n}\n",
    );
    place.write("notes.md", "Nothing about that.\n");
    place
}

/// Returns the paths of a response with the numbers of their first lines.
fn places(answer: &Value) -> Vec<(String, u64)> {
    let places = answer["places"].as_array().unwrap().iter();
    let of = |place: &Value| {
        let path = place["path"].as_str().unwrap().to_string();
        (path, place["start_line"].as_u64().unwrap())
    };
    places.map(of).collect()
}

#[test]
fn a_command_and_an_agent_get_the_same_places() {
    let place = place();
    let request = json!({"question": "retry_delay", "max_results": 2});
    let by_command: Value = serde_json::from_str(&ok(&place.forge_search(&[
        "call",
        "--tool",
        "find_code",
        &request.to_string(),
    ])))
    .unwrap();
    assert_eq!(by_command["timed_out"], false, "{by_command}");
    let found = places(&by_command);
    assert_eq!(found[0], ("src/delay.rs".to_string(), 1), "{by_command}");
    assert_eq!(found.len(), 2, "{by_command}");
    let first = &by_command["places"][0];
    assert_eq!(first["kind"], "definition");
    assert_eq!(first["why"], json!(["defined here"]), "{by_command}");
    assert_eq!(first["end_line"], 4, "the whole definition");

    let mut wire = Wire::greeted(&place, &[]);
    let params = json!({"name": "find_code", "arguments": request});
    wire.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}));
    let answer = wire.answer(7);
    let told = shown(&answer);
    let definition = "src/delay.rs (defined here)\n1:/// Waits before the next attempt.\n\
                      2:pub fn retry_delay(attempt: u32) -> u32 {\n3:    attempt * 2\n4:}\n";
    assert!(told.starts_with(definition), "{told}");
    let second = format!("\n{} (words)\n{}:", found[1].0, found[1].1);
    assert!(told.contains(&second), "{told}");
}

#[test]
fn each_line_of_requests_gets_one_line_of_places() {
    let place = place();
    let requests = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        requests.path(),
        "{\"question\": \"retry delay\", \"path\": \"src/delay.rs\"}\n\
         {\"question\": \"   \"}\n[]\n{\"question\": \"no such words here\"}\n",
    )
    .unwrap();
    let output = place
        .command(
            env!("CARGO_BIN_EXE_forge-search"),
            &["call", "--tool", "find_code", "--jsonl"],
        )
        .stdin(fs::File::open(requests.path()).unwrap())
        .output()
        .unwrap();
    let said = text(&output.stdout);
    let answers: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 4, "{said}");
    assert_eq!(places(&answers[0]), [("src/delay.rs".to_string(), 1)]);
    for wrong in &answers[1..3] {
        assert_eq!(wrong["error"]["code"], "bad_args", "{wrong}");
        let message = wrong["error"]["message"].as_str().unwrap();
        assert!(message.contains("for example {\"question\""), "{message}");
    }
    assert_eq!(answers[3]["truncated"], false, "{said}");
}

#[test]
fn wrong_requests_get_errors_that_name_the_field() {
    let place = place();
    for (request, field) in [
        (json!({}), "question"),
        (json!({"question": 7}), "question"),
        (json!({"question": "x", "max_results": 0}), "max_results"),
        (json!({"question": "x", "max_results": 9000}), "max_results"),
        (json!({"question": "x", "mode": "fast"}), "mode"),
        (json!({"question": "x", "path": "../elsewhere"}), "path"),
        (json!({"question": "x", "pattern": "y"}), "pattern"),
    ] {
        let request = request.to_string();
        let output = place.forge_search(&["call", "--tool", "find_code", &request]);
        assert!(!output.status.success(), "{request}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(field), "{request}: {message}");
    }
}

/// Calls the tool by a command, and returns its response.
fn called(place: &Place, more: &[&str], request: &Value) -> Value {
    let request = request.to_string();
    let args = [&["call", "--tool", "find_code"], more, &[&request]].concat();
    serde_json::from_slice(&place.forge_search(&args).stdout).unwrap()
}

#[test]
fn a_response_has_the_text_of_the_file() {
    let place = place();
    place.write("src/odd.rs", "fn odd_name() {\r\n    \x1b\r\n}\r\n");
    let answer = called(&place, &[], &json!({"question": "odd_name"}));
    let content = answer["places"][0]["content"].as_str().unwrap();
    assert!(
        content.starts_with("fn odd_name() {\r\n    \x1b\r\n}"),
        "{answer}"
    );
    let mut wire = Wire::greeted(&place, &[]);
    let params = json!({"name": "find_code", "arguments": {"question": "odd_name"}});
    wire.send(&json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params}));
    let answer = wire.answer(8);
    let told = shown(&answer);
    let lines = "src/odd.rs (defined here)\n1:fn odd_name() {\n2:    \\x1b\n3:}\n";
    assert!(told.starts_with(lines), "{told}");
}

#[test]
fn a_disabled_tool_says_so_and_a_timeout_is_a_response() {
    let place = place();
    let request = json!({"question": "retry_delay", "timeout_ms": 1});
    let answer = called(&place, &[], &request);
    let timed_out = answer["timed_out"].as_bool().unwrap();
    let is_empty = answer["places"].as_array().unwrap().is_empty();
    assert_eq!(timed_out, is_empty, "{answer}");
    let off = ["--set", "tools.search.enabled=false"];
    let answer = called(&place, &off, &request);
    assert_eq!(answer["error"]["code"], "disabled", "{answer}");
}

#[test]
fn a_path_may_lead_through_a_link() {
    let place = place();
    std::os::unix::fs::symlink(place.root().join("src"), place.root().join("lnk")).unwrap();
    let request = json!({"question": "retry_delay", "path": "lnk/delay.rs"});
    let answer = called(&place, &[], &request);
    assert_eq!(
        places(&answer),
        [("src/delay.rs".to_string(), 1)],
        "{answer}"
    );
}
