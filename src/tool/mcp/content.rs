//! The form of an answer for an agent: text, and optionally the same data as fields.
//!
//! This module owns the split into text and fields. Without fields, the tool has written the text.
//! With fields, this module lays out the lines with [`render`](crate::tool::render).

use serde_json::{Map, Value, json};

use crate::exec::as_text::files_or_directories;
use crate::tool::find_code::FindCodeResponse;
use crate::tool::find_files::FindResponse;
use crate::tool::notes::{Note, closing_notes};
use crate::tool::render::push_line;
use crate::tool::response::{Record, RecordData, RecordKind, Text};

/// The text of a complete answer without matches.
const NOTHING: &str = "[no line matches]\n";

/// The answer to a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The text for a model.
    pub text: String,
    /// The data as fields, if the server is configured for them.
    pub fields: Option<Value>,
    /// Whether the call failed.
    pub failed: bool,
}

impl Content {
    /// Converts the answer of a tool: text alone, a response with fields, or a failure. Linear in
    /// its size.
    pub fn of(answer: Value) -> Content {
        if let Some(error) = answer.get("error") {
            let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
            return Content {
                text: format!("{}: {}", text("code"), text("message")),
                fields: None,
                failed: true,
            };
        }
        let mut fields = answer;
        if let Some(Value::String(text)) = fields.get_mut("text").map(Value::take) {
            return Content {
                text,
                fields: None,
                failed: false,
            };
        }
        if fields.get("places").is_some()
            && let Ok(found) = serde_json::from_value::<FindCodeResponse>(fields.clone())
        {
            return Content {
                text: found.to_text(),
                fields: Some(fields),
                failed: false,
            };
        }
        if fields.get("files").is_some()
            && let Ok(found) = serde_json::from_value::<FindResponse>(fields.clone())
        {
            return Content {
                text: found.to_text(),
                fields: Some(fields),
                failed: false,
            };
        }
        let lines = match fields.as_object_mut().and_then(|map| map.remove("content")) {
            Some(Value::String(lines)) => lines,
            _ => lines_of_files(&fields),
        };
        // A cut answer does not prove that nothing matches.
        let is_cut = ["truncated", "timed_out"].map(|name| fields.get(name) == Some(&true.into()));
        let mut text = match has_lines(&fields) || is_cut.contains(&true) {
            true => lines,
            false => format!("{NOTHING}{lines}"),
        };
        let errors = fields.get("errors").and_then(Value::as_array);
        if let Some(count) = errors.map(Vec::len).filter(|count| *count > 0) {
            text.push_str(&format!(
                "[{} could not be searched: see `errors`]\n",
                files_or_directories(count as u64)
            ));
        }
        Content {
            text,
            fields: Some(fields),
            failed: false,
        }
    }
}

fn has_lines(fields: &Value) -> bool {
    let matches = fields.get("matches").and_then(Value::as_array);
    matches.is_some_and(|matches| !matches.is_empty())
}

/// Formats the matches of `search_files`, each with its context lines.
fn lines_of_files(fields: &Value) -> String {
    let mut text = String::new();
    let matches = fields.get("matches").and_then(Value::as_array);
    let matches = matches.into_iter().flatten().filter_map(Value::as_object);
    for (nth, one) in matches.enumerate() {
        let list = |name: &str| one.get(name).and_then(Value::as_array);
        let (before, after) = (list("before"), list("after"));
        let has_context = [before, after].iter().flatten().any(|all| !all.is_empty());
        if has_context && nth > 0 {
            text.push_str("--\n");
        }
        let line = number(one, "line");
        let before = before.into_iter().flatten().filter_map(Value::as_str);
        let first = line.saturating_sub(before.clone().count() as u64);
        for (context, number) in before.zip(first..) {
            push_line(&mut text, &record(one, number, None, context));
        }
        let shown = one.get("line_text").and_then(Value::as_str);
        let column = Some(number(one, "column"));
        push_line(
            &mut text,
            &record(one, line, column, shown.unwrap_or_default()),
        );
        let after = after.into_iter().flatten().filter_map(Value::as_str);
        for (context, number) in after.zip(line + 1..) {
            push_line(&mut text, &record(one, number, None, context));
        }
    }
    let most = fields.get("max_results").and_then(Value::as_u64);
    let most = most.unwrap_or_default();
    match fields.get("truncated_reason").and_then(Value::as_str) {
        Some("max_results") => text.push_str(&closing_notes(&[Note::MaxResults(most)])),
        Some(reason) => text.push_str(&format!(
            "[truncated: {reason}; matches are missing. Narrow the query, path or globs]\n"
        )),
        None => {}
    }
    text
}

fn number(one: &Map<String, Value>, name: &str) -> u64 {
    one.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn record(one: &Map<String, Value>, line: u64, column: Option<u64>, text: &str) -> Record {
    let path = one.get("path").and_then(Value::as_str).unwrap_or_default();
    Record {
        kind: match column {
            Some(_) => RecordKind::Match,
            None => RecordKind::Context,
        },
        data: RecordData {
            path: Text {
                text: path.to_string(),
            },
            line_number: line,
            column,
            lines: Text {
                text: text.to_string(),
            },
            match_text: None,
        },
        left_out: None,
    }
}

/// Converts the schema of a response to that of its fields, without the text. The result is
/// portable: number formats are removed, and each place has one type. Descriptions are removed too,
/// since each byte costs tokens.
pub fn fields_schema(mut response: Value) -> Map<String, Value> {
    make_portable(&mut response);
    if let Some(properties) = response
        .get_mut("properties")
        .and_then(Value::as_object_mut)
    {
        properties.remove("content");
    }
    if let Some(required) = response.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "content");
    }
    match response {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn make_portable(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // A field may have one of these names; its value is a schema then, not a string.
            for word in ["description", "format", "title", "$schema"] {
                if map.get(word).is_some_and(Value::is_string) {
                    map.remove(word);
                }
            }
            map.values_mut().for_each(make_portable);
            if let Some(Value::Array(types)) = map.get("type").cloned() {
                let branches = types.into_iter().map(|kind| {
                    let mut branch = match kind == "null" {
                        true => Map::new(),
                        false => map.clone(),
                    };
                    branch.insert("type".to_string(), kind);
                    Value::Object(branch)
                });
                let branches: Vec<Value> = branches.collect();
                *schema = json!({ "anyOf": branches });
            }
        }
        Value::Array(list) => list.iter_mut().for_each(make_portable),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_the_text_of_a_response_stands_beside_its_fields() {
        let content = Content::of(json!({
            "count": 1, "matches": [{}], "errors": [], "content": "a:1:1:x\n", "truncated": false,
        }));
        assert_eq!(content.text, "a:1:1:x\n");
        let fields = content.fields.unwrap();
        assert_eq!(fields.get("content"), None);
        assert_eq!(fields["count"], 1);
        assert!(!content.failed);
        let nothing = Content::of(json!({
            "count": 0, "matches": [], "errors": [{}, {}], "content": "[cut off]\n",
        }));
        assert_eq!(
            nothing.text,
            "[no line matches]\n[cut off]\n[2 files or directories could not be searched: see `errors`]\n"
        );
        let one = Content::of(json!({"count": 0, "errors": [{}], "content": ""}));
        assert_eq!(
            one.text,
            "[no line matches]\n[1 file or directory could not be searched: see `errors`]\n"
        );
    }

    #[test]
    fn mcp_of_what_was_cut_it_is_not_said_that_there_is_nothing() {
        for cut in ["truncated", "timed_out"] {
            let mut response = json!({
                "count": 0, "matches": [], "errors": [], "content": "[cut off]\n", "truncated": false, "timed_out": false,
            });
            assert!(Content::of(response.clone()).text.starts_with(NOTHING));
            response[cut] = true.into();
            assert_eq!(Content::of(response).text, "[cut off]\n");
        }
    }

    #[test]
    fn mcp_the_schema_of_fields_has_no_text_and_no_words() {
        let schema = fields_schema(json!({
            "$schema": "x", "title": "T", "description": "d", "type": "object",
            "required": ["content", "title"],
            "properties": {
                "content": {"type": "string"},
                "title": {"type": "integer", "format": "uint", "description": "d"},
                "any": {"anyOf": [{"type": "null"}, {"type": "number", "format": "double"}]},
                "either": {"type": ["object", "null"], "properties": {"type": {"type": "string"}}},
            },
        }));
        let expected = json!({
            "type": "object", "required": ["title"],
            "properties": {
                "title": {"type": "integer"},
                "any": {"anyOf": [{"type": "null"}, {"type": "number"}]},
                "either": {"anyOf": [
                    {"type": "object", "properties": {"type": {"type": "string"}}}, {"type": "null"},
                ]},
            },
        });
        assert_eq!(Value::Object(schema), expected);
    }

    #[test]
    fn mcp_a_failure_has_its_code_and_its_message() {
        let failed =
            Content::of(json!({"error": {"code": "bad_args", "message": "`pattern` is empty"}}));
        assert!(failed.failed);
        assert_eq!(failed.text, "bad_args: `pattern` is empty");
        assert_eq!(failed.fields, None);
        let text = Content::of(json!({"text": "a\n1:x\n", "timed_out": false}));
        assert_eq!((text.text.as_str(), text.fields), ("a\n1:x\n", None));
    }

    #[test]
    fn mcp_matches_of_search_files_are_written_with_the_lines_around_them() {
        let content = Content::of(json!({
            "matches": [
                {"path": "a.c", "line": 3, "column": 5, "line_text": "int x;", "before": ["one", "two"], "after": ["four"]},
                {"path": "b.c", "line": 1, "column": 1, "line_text": "x\u{1b}", "before": [], "after": ["y"]},
                {"path": "c.c", "line": 9, "column": 2, "line_text": " x", "before": [], "after": []},
            ],
            "max_results": 3, "truncated": true, "truncated_reason": "max_results", "errors": [],
        }));
        let lines: Vec<&str> = content.text.lines().collect();
        assert_eq!(
            lines[..8],
            [
                "a.c-1-one",
                "a.c-2-two",
                "a.c:3:5:int x;",
                "a.c-4-four",
                "--",
                "b.c:1:1:x\\x1b",
                "b.c-2-y",
                "c.c:9:2: x",
            ]
        );
        assert!(lines[8].starts_with("[truncated: more than max_results = 3"));
        assert_eq!(lines.len(), 9);
    }
}
