//! Questions about the code at a place, and answers within a budget of tokens: by the tool
//! `find_code` and by `ggrep`.

use std::fs;

use serde_json::{Value, json};

use super::program::{Place, ok, text};

/// Makes a tree with two functions that do nearly the same, and others.
fn place() -> Place {
    let place = Place::empty();
    let waits = |name: &str, field: &str| {
        format!(
            "/// Waits before the next attempt.\nfn {name}(attempt: u32, config: &RetryConfig) {{\n    \
             let backoff = config.{field} << attempt;\n    let jitter = random_jitter(backoff);\n    \
             sleep(backoff + jitter);\n}}\n"
        )
    };
    let other = "fn parse_header(text: &str) -> Option<Header> {\n    let (name, value) = \
                 text.split_once(':')?;\n    let value = value.trim();\n    let header = \
                 Header::new(name, value);\n    Some(header)\n}\n";
    place.write(
        "src/client.rs",
        &format!("{}\n{other}", waits("wait_for_server", "base")),
    );
    place.write("src/queue.rs", &waits("wait_for_job", "first"));
    place.write(
        "src/jitter.rs",
        "pub fn random_jitter(backoff: u64) -> u64 {\n    backoff / 7\n}\n",
    );
    for n in 0..6 {
        place.write(
            &format!("src/other{n}.rs"),
            &format!("fn let_config_{n}() {{\n    let x = {n};\n}}\n"),
        );
    }
    place.write("data.bin", "fn \u{0} binary\n");
    place.write("empty.rs", "");
    place.write("blank.rs", "{\n}\n");
    place
}

fn called(place: &Place, more: &[&str], request: &Value) -> Value {
    let request = request.to_string();
    let args = [&["call", "--tool", "find_code"], more, &[&request]].concat();
    serde_json::from_slice(&place.forge_search(&args).stdout).unwrap()
}

/// Returns the paths of a response with the numbers of their first lines.
fn places(answer: &Value) -> Vec<(&str, u64)> {
    let places = answer["places"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    let places = places.iter();
    let of = places.map(|place| (place["path"].as_str(), place["start_line"].as_u64()));
    of.map(|(path, line)| (path.unwrap(), line.unwrap()))
        .collect()
}

#[test]
fn code_like_that_of_a_line_is_found_and_the_line_itself_is_not() {
    let place = place();
    let answer = called(&place, &[], &json!({"related": "src/client.rs:3"}));
    let found = places(&answer);
    assert_eq!(found[0], ("src/queue.rs", 1), "{answer}");
    assert!(found.contains(&("src/jitter.rs", 1)), "{answer}");
    assert!(!found.contains(&("src/client.rs", 1)), "{answer}");
    assert_eq!(answer["truncated"], false, "{answer}");
    // Any line of the definition asks the same, with or without an index.
    let other_line = called(&place, &[], &json!({"related": "src/client.rs:6"}));
    assert_eq!(other_line, answer);
    let indexed = called(
        &place,
        &["--wait-index", "--set", "index_mode=on"],
        &json!({"related": "src/client.rs:1"}),
    );
    assert_eq!(indexed, answer);
    // So does the end of a long definition, which has no words.
    let long = "    // …\n".repeat(60);
    let text = fs::read_to_string(place.root().join("src/client.rs")).unwrap();
    let text = text.replace("jitter);\n}", &format!("jitter);\n{long}}}"));
    place.write("src/client.rs", &text);
    let last = called(&place, &[], &json!({"related": "src/client.rs:65"}));
    assert_eq!(places(&last)[0], ("src/queue.rs", 1), "{last}");
    // The path limits the results.
    let request = json!({"related": "src/client.rs:3", "path": "src/jitter.rs"});
    assert_eq!(
        places(&called(&place, &[], &request)),
        [("src/jitter.rs", 1)]
    );
}

#[test]
fn related_code_is_found_from_any_directory() {
    let place = place();
    let told = place.ggrep(&["--related", "src/client.rs:1-6", "--json", "--explain"]);
    let answer: Value = serde_json::from_str(&ok(&told)).unwrap();
    assert_eq!(answer["results"][0]["path"], "src/queue.rs", "{answer}");
    let terms = answer["explain"]["terms"].as_array().unwrap();
    assert_eq!(
        terms[0], "waitforserver",
        "the defined name is first: {terms:?}"
    );
    assert!(terms.contains(&json!("backoff")), "{terms:?}");
    let mut inside = place.command(
        env!("CARGO_BIN_EXE_forge-search"),
        &["ask", "--related", "client.rs:3", "--limit", "1", ".."],
    );
    let told = inside
        .current_dir(place.root().join("src"))
        .output()
        .unwrap();
    assert!(ok(&told).starts_with("queue.rs:2-"), "{told:?}");
    let told = place.ggrep(&["--related", "src/client.rs:3", "src/jitter.rs"]);
    assert!(ok(&told).starts_with("src/jitter.rs:1"), "{told:?}");
}

#[test]
fn a_place_without_code_is_an_error_in_the_callers_terms() {
    let place = place();
    place.write(".env.rs", "fn secret_config() {}\n");
    let denied = ["--set", "tools.sandbox.denied_patterns=[\"**/.env.rs\"]"];
    for (at, said) in [
        ("src/none.rs:1", "`src/none.rs` does not exist"),
        (
            "src/client.rs:99",
            "`src/client.rs` has 13 lines; line 99 is beyond its end",
        ),
        (
            "empty.rs:1",
            "`empty.rs` has 0 lines; line 1 is beyond its end",
        ),
        ("data.bin:1", "`data.bin` is binary"),
        ("src:1", "`src` is a directory; name a file and a line"),
        (
            "blank.rs:2",
            "`blank.rs`: other files have no words of the code at line 2",
        ),
        ("../elsewhere.rs:1", "elsewhere.rs"),
        (
            "src/client.rs",
            "`src/client.rs` is not a file and a line, such as src/a.rs:120",
        ),
        (
            "src/client.rs:0",
            "`src/client.rs:0` is not a file and a line",
        ),
    ] {
        let answer = called(&place, &[], &json!({"related": at}));
        let message = answer["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(message.contains(said), "{at}: {message}");
        let told = place.ggrep(&["--related", at]);
        assert_eq!(told.status.code(), Some(1), "{at}");
        assert_eq!(text(&told.stdout), "");
        let said = text(&told.stderr);
        assert!(
            said.starts_with("ggrep: ") && said.lines().count() == 1,
            "{at}: {said}"
        );
    }
    let answer = called(&place, &denied, &json!({"related": ".env.rs:1"}));
    assert_eq!(
        answer["error"]["code"], "denied_pattern_matched",
        "{answer}"
    );
    // A person reads the names of flags and arguments, not those of a program's fields.
    place.write("outside/b.rs", "fn config() {}\n");
    for (args, expected) in [
        (
            &["--related", ".env.rs:1"][..],
            "--related: path `.env.rs` is denied",
        ),
        (&["config", ".env.rs"], "path `.env.rs` is denied"),
        (&[" "], "the question is blank"),
        (&["--root", "src", "config", "../outside"], "path /"),
    ] {
        let told = place.ggrep(&[&denied[..], args].concat());
        assert_eq!(told.status.code(), Some(1), "{args:?}");
        let said = text(&told.stderr);
        assert!(said.starts_with(&format!("ggrep: {expected}")), "{said}");
        let json = place.ggrep(&[&denied[..], &["--json"], args].concat());
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        let message = json["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(expected), "{message}");
    }
    let both = called(
        &place,
        &[],
        &json!({"related": "src/client.rs:1", "question": "x"}),
    );
    let message = both["error"]["message"].as_str().unwrap();
    assert!(message.contains("exclude each other"), "{message}");
    let told = place.ggrep(&["--related", "src/client.rs:1", "x", "src"]);
    assert!(
        text(&told.stderr).contains("leave out the question"),
        "{told:?}"
    );
}

#[test]
fn a_larger_budget_never_shows_less_and_the_head_of_a_definition_comes_first() {
    let place = place();
    let whole = called(&place, &[], &json!({"question": "wait attempt backoff"}));
    let all = whole["places"].as_array().unwrap();
    assert!(all.len() > 2, "{whole}");
    let mut before = (0, 0);
    for budget in (1..400).step_by(7) {
        let request = json!({"question": "wait attempt backoff", "budget": budget});
        let answer = called(&place, &[], &request);
        let shown = answer["places"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"));
        let lines = |place: &Value| place["content"].as_str().unwrap().lines().count();
        let size = (shown.len(), shown.iter().map(lines).sum::<usize>());
        assert!(size >= before, "{budget}: {answer}");
        before = size;
        // The text of the answer fits the budget: paths, and lines with their numbers.
        let cost = |place: &Value| {
            let first = place["start_line"].as_u64().unwrap();
            let lines = (first..).zip(place["content"].as_str().unwrap().lines());
            let lines: usize = lines
                .map(|(n, line)| n.to_string().len() + line.len() + 2)
                .sum();
            place["path"].as_str().unwrap().len() + 1 + lines
        };
        assert!(
            shown.iter().map(cost).sum::<usize>() <= 3 * budget,
            "{budget}: {answer}"
        );
        // All but the last one are whole. The last one may begin with its head.
        for (nth, (place, whole)) in shown.iter().zip(all).enumerate() {
            if place["content"] != whole["content"] {
                assert_eq!(nth, shown.len() - 1, "{answer}");
                let head = place["content"].as_str().unwrap();
                assert!(
                    head.starts_with("fn ") || head.starts_with("pub fn "),
                    "{head}"
                );
                assert!(whole["content"].as_str().unwrap().contains(head));
            }
        }
        let is_cut = shown.len() < all.len() || shown != all;
        assert_eq!(answer["truncated"], is_cut, "{answer}");
        let notes = answer["notes"].to_string();
        assert_eq!(notes.contains("budget"), is_cut, "{notes}");
        if !is_cut {
            break;
        }
    }
    assert_eq!(before.0, all.len());
}

#[test]
fn definitions_are_printed_within_a_budget() {
    let place = place();
    let told = place.ggrep(&["--budget", "100", "wait attempt backoff"]);
    let said = ok(&told);
    assert!(
        said.contains("     1  /// Waits before the next attempt.\n"),
        "{said}"
    );
    assert!(
        text(&told.stderr).contains("limited by --budget (100)"),
        "{told:?}"
    );
    let told = place.ggrep(&["--budget", "60", "--snippet", "short", "wait"]);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    assert!(text(&told.stderr).contains("--snippet"), "{told:?}");
}
