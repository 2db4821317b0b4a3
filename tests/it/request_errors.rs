//! Tests mistakes in requests. On each surface, each kind of mistake in each field gets an error
//! that names the field and gives a valid example.

use std::path::Path;

use forge_search::internal::tool::config::Config;
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::error::ToolError;
use forge_search::internal::tool::find_files::{FindRequest, find_schema};
use forge_search::internal::tool::request::{SearchRequest, search_schema};
use forge_search::internal::tool::search::SearchTool;
use forge_search::internal::tool::search_files::{FilesRequest, FilesTool, files_schema};
use serde_json::{Value, json};

use crate::cli::forge_search;
use crate::line_processes::ByTheLine;
use crate::support::{Tree, step};

const TOOLS: [&str; 3] = ["Search", "search_files", "find_files"];

/// Words from the program's internals, which callers don't know.
const FOREIGN: [&str; 18] = [
    "u64",
    "i64",
    "f64",
    "usize",
    "expected struct",
    "expected a",
    "invalid type",
    "invalid value",
    "unit variant",
    "unknown variant",
    "missing field",
    "deserialize",
    "serde",
    "Option",
    "Some(",
    "None",
    "Vec<",
    "ErrorKind",
];

fn tree() -> Tree {
    Tree::of([("lib.rs", "some text\n"), ("src/b.rs", "text\n")])
}

fn schema(tool: &str) -> Value {
    match tool {
        "Search" => search_schema(),
        "search_files" => files_schema(),
        _ => find_schema(),
    }
}

/// A valid request.
fn base(tool: &str) -> Value {
    match tool {
        "Search" => json!({"pattern": "text"}),
        "search_files" => json!({"path": ".", "query": "text"}),
        _ => json!({}),
    }
}

fn with(tool: &str, fields: &[(&str, Value)]) -> Value {
    let mut request = base(tool);
    for (name, value) in fields {
        request[*name] = value.clone();
    }
    request
}

/// An invalid request, its faulty field, and whether lenient surfaces may accept it.
struct Mistake {
    request: Value,
    field: String,
    may_be_mended: bool,
}

/// Values of wrong types for each field.
fn wrong_types(tool: &str) -> Vec<Mistake> {
    let schema = schema(tool);
    let mut mistakes = Vec::new();
    for (field, schema) in schema["properties"].as_object().unwrap() {
        let mut values = vec![json!(null), json!({}), json!({"a": 1}), json!([[1]])];
        let kind = match schema["enum"].is_array() {
            true => "enum",
            false => schema["type"].as_str().unwrap(),
        };
        values.extend(match kind {
            "integer" => vec![
                json!(true),
                json!("x"),
                json!("5"),
                json!(-1),
                json!(1.5),
                json!([1]),
            ],
            "boolean" => vec![json!(0), json!("true"), json!("maybe"), json!([])],
            "string" => vec![json!(true), json!(5), json!(["x"])],
            "enum" => vec![
                json!(true),
                json!(5),
                json!("nonsense"),
                json!("SMART"),
                json!([]),
            ],
            "array" => vec![
                json!(true),
                json!(5),
                json!("*.rs"),
                json!([1]),
                json!(["a", null]),
            ],
            other => panic!("{other}"),
        });
        if kind == "integer" {
            values.extend([json!(1e30), json!(18_446_744_073_709_551_616.0)]);
            values.extend((schema["minimum"] == 1).then_some(json!(0)));
        }
        mistakes.extend(values.into_iter().map(|value| Mistake {
            request: with(tool, &[(field, value)]),
            field: field.clone(),
            may_be_mended: true,
        }));
    }
    mistakes
}

/// Invalid values of the right type.
fn wrong_values(tool: &str) -> Vec<Mistake> {
    let (text, include) = match tool {
        "Search" => ("pattern", Some(("include_glob", "exclude_glob"))),
        "search_files" => ("query", Some(("include_globs", "exclude_globs"))),
        _ => ("name", None),
    };
    let mut wrong: Vec<(&str, Vec<(&str, Value)>)> = vec![
        (text, vec![(text, json!(" \t"))]),
        (text, vec![(text, json!(""))]),
    ];
    let one = |field, value: Value| (field, vec![(field, value)]);
    for path in [
        "../x",
        "src/../lib.rs",
        "/etc",
        "absent",
        "a\0b",
        "server.pem",
    ] {
        wrong.push(one("path", json!(path)));
    }
    wrong.push(one("path", json!("x".repeat(40_000))));
    let globs: Vec<&str> = match include {
        Some((include, exclude)) => vec![include, exclude],
        None => vec!["globs"],
    };
    for field in globs {
        for glob in ["", "  ", "#x", "a[", "{a", "a\nb"] {
            wrong.push(one(field, json!([glob])));
        }
        wrong.push(one(field, json!(vec!["*.rs"; 1_001])));
        wrong.push(one(field, json!(["x".repeat(70_000)])));
        wrong.push(one(field, json!(["[".repeat(60_000)])));
    }
    if let Some((include, _)) = include {
        wrong.push(one(include, json!(["!a"])));
        let regex = match tool {
            "Search" => ("fixed_strings", json!(false)),
            _ => ("mode", json!("regex")),
        };
        for pattern in [
            "(",
            "[a",
            "*",
            r"\1",
            "(?<=x)y",
            r"\k<n>",
            "a{1000}{1000}{1000}",
            "a\nb",
        ] {
            wrong.push((text, vec![(text, json!(pattern)), regex.clone()]));
        }
        for long in ["x".repeat(70_000), format!("{}(", "x".repeat(60_000))] {
            wrong.push((text, vec![(text, json!(long)), regex.clone()]));
        }
    }
    wrong.extend(match tool {
        "Search" => vec![one("fuzzy", json!(5)), one("fuzzy", json!(0))],
        "search_files" => vec![
            one("context_lines", json!(1_001)),
            (
                "max_depth",
                vec![("recursive", json!(false)), ("max_depth", json!(2))],
            ),
            (
                text,
                vec![(text, json!("x".repeat(600))), ("mode", json!("fuzzy"))],
            ),
        ],
        _ => vec![
            ("name", vec![("sort", json!("score"))]),
            one("name", json!("x".repeat(1_001))),
            one("types", json!(["nope"])),
            one("types", json!(["rsut"])),
            one("types", json!([""])),
        ],
    });
    if tool == "Search" {
        let two = vec![("pattern", json!("te")), ("fuzzy", json!(2))];
        wrong.push(("fuzzy", two));
    }
    let mistakes = wrong.into_iter().map(|(field, fields)| Mistake {
        request: with(tool, &fields),
        field: field.to_string(),
        may_be_mended: matches!(field, "context_lines"),
    });
    mistakes.collect()
}

/// Mistakes in the request as a whole.
fn wrong_requests(tool: &str) -> Vec<Mistake> {
    let names = [
        "patern",
        "qury",
        "nam",
        "zzz",
        "contxt",
        "limit",
        "regex",
        "dir",
        "max_result",
    ];
    let mut requests: Vec<(Value, &str)> = names
        .iter()
        .map(|name| (with(tool, &[(name, json!(1))]), *name))
        .collect();
    let long = "x".repeat(100_000);
    requests.push((with(tool, &[(&long, json!(1))]), "xxx"));
    if tool != "find_files" {
        let required = if tool == "Search" { "pattern" } else { "path" };
        requests.push((json!({}), required));
    }
    for request in [
        json!(null),
        json!([]),
        json!(["x"]),
        json!("x"),
        json!(5),
        json!(true),
    ] {
        requests.push((request, "request"));
    }
    let mistakes = requests.into_iter().map(|(request, field)| Mistake {
        request,
        field: field.to_string(),
        may_be_mended: true,
    });
    mistakes.collect()
}

/// The fields with caps, which the library's defaults set low.
fn above_caps(tool: &str) -> Vec<Mistake> {
    let fields: &[&str] = match tool {
        "Search" => &["max_matches_per_file", "max_files", "max_file_size_bytes"],
        "search_files" => &[
            "max_results",
            "max_matches_per_file",
            "max_files",
            "max_file_size_bytes",
            "max_depth",
        ],
        _ => &[],
    };
    let one = |field: &&str| Mistake {
        request: with(tool, &[(field, json!(u64::MAX / 2))]),
        field: field.to_string(),
        may_be_mended: true,
    };
    fields.iter().map(one).collect()
}

fn all(tool: &str) -> Vec<Mistake> {
    let lists = [
        wrong_types(tool),
        wrong_values(tool),
        wrong_requests(tool),
        above_caps(tool),
    ];
    lists.into_iter().flatten().collect()
}

/// Checks the message of an error. Returns the example request in it, if there is one.
fn check(tool: &str, code: &str, message: &str, field: &str) -> Option<Value> {
    let place = format!("{tool}, `{field}`: {code}: {message}");
    assert!(
        message.len() < 2_500,
        "{} bytes: {}",
        message.len(),
        &place[..500]
    );
    for word in FOREIGN {
        assert!(!message.contains(word), "{word}: {place}");
    }
    assert!(!message.contains('\n'), "{place}");
    let names_field = match field {
        "request" => message.contains("the request"),
        "path" => message.contains("path"),
        // An engine that refuses an expression does not know the name of its field.
        "pattern" | "query" if message.starts_with("the regular expression is too large") => true,
        "query" if message.starts_with("the text has ") => true,
        "fuzzy" if message.starts_with("fuzzy level ") => true,
        field => message.contains(&format!("`{field}")),
    };
    assert!(names_field, "{place}");
    match code {
        "bad_args" => {
            let (_, example) = message.rsplit_once("for example ").expect(&place);
            Some(serde_json::from_str(example).expect(&place))
        }
        // A valid example depends on the tree, so these errors have none.
        "path_outside_sandbox" | "denied_pattern_matched" | "execution_failed" => {
            assert!(
                message.contains("such as `") || message.contains("include_globs"),
                "{place}"
            );
            None
        }
        other => panic!("{other}: {place}"),
    }
}

struct Library {
    search: SearchTool,
    files: FilesTool,
    context: forge_search::internal::tool::search::ToolContext,
}

impl Library {
    fn new(root: &Path) -> Library {
        let mut config = Config::library_default();
        config.search.enabled = true;
        config.search_files.enabled = true;
        let sandbox =
            forge_search::internal::tool::sandbox::Sandbox::new(&config.sandbox, root).unwrap();
        Library {
            files: FilesTool::new(&config, Engines::embedded()),
            search: SearchTool::new(config.search, Engines::embedded()),
            context: forge_search::internal::tool::search::ToolContext::new(sandbox.into()),
        }
    }

    fn call(&self, tool: &str, request: Value) -> Result<(), ToolError> {
        let context = &self.context;
        match tool {
            "Search" => self.search.call(request, context).map(drop),
            "search_files" => self.files.call(request, context).map(drop),
            _ => self.search.call_find_files(request, context).map(drop),
        }
    }
}

#[test]
fn every_mistake_in_every_field_is_answered_with_a_working_request() {
    let tree = tree();
    let library = Library::new(tree.root());
    for tool in TOOLS {
        for mistake in all(tool) {
            let Err(error) = library.call(tool, mistake.request.clone()) else {
                panic!("{tool}: {} is taken", mistake.request);
            };
            let example = check(tool, error.code(), &error.message(), &mistake.field);
            if let Some(example) = example {
                let answer = library.call(tool, example);
                assert!(
                    answer.is_ok(),
                    "{}: {}",
                    error.message(),
                    answer.unwrap_err()
                );
            }
            if let ToolError::ExecutionFailed { tool: failed, .. } = error {
                assert_eq!(failed, tool);
            }
        }
    }
}

#[test]
fn a_text_that_is_no_json_is_answered_with_a_working_request() {
    for text in [
        "",
        "{",
        "{\"pattern\": }",
        "nul",
        "{\"a\": \"\\ud800\"}",
        "{} {}",
    ] {
        let errors = [
            SearchRequest::from_json(text).unwrap_err(),
            FilesRequest::from_json(text).unwrap_err(),
            FindRequest::from_json(text).unwrap_err(),
        ];
        for (tool, error) in TOOLS.into_iter().zip(errors) {
            check(tool, error.code(), &error.message(), "request").unwrap();
        }
    }
}

/// Calls a tool of an MCP server. Returns the text of the answer, and whether it is an error.
fn ask_mcp(server: &mut ByTheLine, tool: &str, arguments: &Value) -> (String, bool) {
    let params = json!({"name": tool, "arguments": arguments});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = server.answer(&request);
    match answer["result"]["content"][0]["text"].as_str() {
        Some(text) => (text.to_string(), answer["result"]["isError"] == true),
        None => panic!("{answer}"),
    }
}

#[test]
fn mistakes_on_every_surface_are_answered_with_a_working_request() {
    let tree = tree();
    let start = |args: &[&str]| {
        let mut program = forge_search(tree.root());
        program.args(args).args(["--set", "index_mode=off"]);
        ByTheLine::of(program)
    };
    let mut server = start(&["mcp", "--no-daemon"]);
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    server.answer(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
    for tool in TOOLS {
        let mut call = start(&["call", "--jsonl", "--tool", tool]);
        let caps = above_caps(tool).len();
        let mistakes = all(tool);
        // The test of the library tries every mistake, and all surfaces parse requests alike. This
        // test therefore tries every third mistake, and all in the long tests.
        let step = step().min(3);
        for mistake in mistakes[..mistakes.len() - caps].iter().step_by(step) {
            let error = call.answer(&mistake.request)["error"].clone();
            let word = |name: &str| error[name].as_str().unwrap_or_default();
            let example = check(tool, word("code"), word("message"), &mistake.field);
            if let Some(example) = example {
                let answer = call.answer(&example);
                assert!(answer["error"].is_null(), "{error}: {answer}");
            }
            if !mistake.request.is_object() {
                continue;
            }
            let (text, failed) = ask_mcp(&mut server, tool, &mistake.request);
            if !failed {
                assert!(
                    mistake.may_be_mended,
                    "{tool}: {} is taken",
                    mistake.request
                );
                continue;
            }
            let (code, message) = text.split_once(": ").unwrap();
            if let Some(example) = check(tool, code, message, &mistake.field) {
                let (text, failed) = ask_mcp(&mut server, tool, &example);
                assert!(!failed, "{message}: {text}");
            }
        }
        call.end();
    }
    server.end();
}

#[test]
fn an_unknown_tool_is_answered_with_the_known_ones() {
    let tree = tree();
    let mut program = forge_search(tree.root());
    let answered = program
        .args(["call", "--tool", "grep", "{}"])
        .output()
        .unwrap();
    let answered: Value = serde_json::from_slice(&answered.stdout).unwrap();
    assert_eq!(answered["error"]["code"], "unknown_tool");
    let message = answered["error"]["message"].as_str().unwrap();
    for tool in TOOLS {
        assert!(message.contains(&format!("`{tool}`")), "{message}");
    }
    let help = forge_search(tree.root())
        .args(["call", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(TOOLS.iter().all(|tool| help.contains(tool)), "{help}");
}

#[test]
fn an_empty_path_is_the_working_directory_for_every_tool() {
    let tree = tree();
    let library = Library::new(tree.root());
    let found = |path: &str| {
        let search = json!({"pattern": "text", "path": path});
        let files = json!({"query": "text", "path": path});
        let find = json!({"path": path});
        let context = &library.context;
        let files = library.files.call(files, context).unwrap().matches;
        (
            library.search.call(search, context).unwrap().matches,
            files,
            library.search.call_find_files(find, context).unwrap().files,
        )
    };
    assert_eq!(found(""), found("."));
    assert_eq!(found("").2.len(), 2);
}
