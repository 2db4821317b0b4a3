//! Tests `call --jsonl` for all tools, during edits of the tree.
//!
//! A process with a live index and a process without an index get the same requests, and must give
//! the same bytes. The tree has hostile names, and some processes have an output limit. The test
//! itself computes the error that a request must get.
//!
//! `FORGE_SEARCH_TEST_REQUESTS` sets the number of requests.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::forge_search;
use crate::differential::Seeded;
use crate::line_processes::ByTheLine;

/// Names of files and directories that are hard to print, to match or to sort.
const NAMES: [&[u8]; 16] = [
    b"a",
    b"b.rs",
    b"B.rs",
    b"-e",
    b"with space",
    b"line\nfeed",
    b"tab\tand\x1b[31m",
    b"\xff\xfe.rs",
    "e\u{301}".as_bytes(),
    "\u{e9}".as_bytes(),
    b"[x].rs",
    b"{b}",
    b"#c",
    b".hidden",
    b"k.pem",
    b".ssh",
];

const TEXTS: [&[u8]; 12] = [
    b"needle\n",
    b"Needle in hay\n",
    b"hay\n",
    b"\n",
    b"straw needle straw needle\r\n",
    b"\xff needle \xfe\n",
    "ta\u{17f}k \u{212a}elvin Stra\u{df}e\n".as_bytes(),
    b"task kelvin\n",
    b"\0",
    b"no line feed",
    b"needlf nedle\n",
    b"{\"json\": \"needle\"}\n",
];

const PATTERNS: [&str; 14] = [
    "needle",
    "Needle",
    "n.*le",
    "hay|straw",
    "task",
    "kelvin",
    r"\bneedle\b",
    "^$",
    "absent from it all",
    "needle straw",
    r"[xyz]needle",
    "(",
    "json\": \"",
    r"\d+x",
];

const GLOBS: [&str; 10] = [
    "*.rs", "a/", "/a/**", "!b.rs", "./a/*", "[[]x].rs", "\\{b\\}", "src/**", "a/*", "./-e/**",
];

/// Paths that requests contain.
const PATHS: [&str; 10] = [
    ".", "", "a", "b.rs", "-e", "absent", "e\u{301}", ".ssh", "a/k.pem", "../a",
];

/// The output limits of each tool in bytes. `None` is no limit; the others truncate most answers.
const LIMITS: [(&str, &[Option<usize>]); 3] = [
    ("Search", &[None, Some(700), Some(2_500)]),
    ("search_files", &[None, Some(600), Some(1_500)]),
    ("find_files", &[None, Some(500)]),
];

/// Starts a process that answers requests line by line.
fn start(root: &Path, cache: &Path, tool: &str, sets: &[&str]) -> ByTheLine {
    let mut program = forge_search(root);
    program.args(["call", "--jsonl", "--tool", tool]);
    for table in ["search", "search_files"] {
        program.args(["--set", &format!("tools.{table}.index_path={cache:?}")]);
        for set in sets {
            program.args(["--set", &format!("tools.{table}.{set}")]);
        }
    }
    ByTheLine::of(program)
}

fn some_path(rng: &mut Seeded, root: &Path) -> PathBuf {
    let mut path = root.to_path_buf();
    for _ in 0..=rng.below(3) {
        path.push(OsStr::from_bytes(rng.pick(&NAMES)));
    }
    path
}

/// Makes a random change. Errors are ignored.
fn edit(rng: &mut Seeded, root: &Path) {
    let path = some_path(rng, root);
    match rng.below(10) {
        0 => {
            let _ = fs::remove_file(&path);
        }
        1 => {
            let _ = fs::remove_dir_all(&path);
        }
        2 => {
            let _ = fs::rename(&path, some_path(rng, root));
        }
        3 => {
            let rules: &[u8] = rng.pick(&[&b"*.rs\n"[..], b"a\n", b"!*\n", b""]);
            let name = rng.pick(&[".ignore", ".gitignore"]);
            fs::write(root.join(name), rules).unwrap();
        }
        _ => {
            let _ = fs::create_dir_all(path.parent().unwrap());
            let text: Vec<u8> = (0..=rng.below(6))
                .flat_map(|_| rng.pick(&TEXTS).to_vec())
                .collect();
            let times = if rng.one_in(12) { 400 } else { 1 };
            let _ = fs::write(&path, text.repeat(times));
        }
    }
}

/// Sets some of these fields, each in one request of the given number.
fn set_some(rng: &mut Seeded, request: &mut Value, fields: &[(&str, usize, &[Value])]) {
    for (name, n, values) in fields {
        if rng.one_in(*n) {
            request[*name] = rng.pick(values);
        }
    }
}

/// Sets some limits, each in one request of the given number, to at most the given maximum.
fn set_limits(rng: &mut Seeded, request: &mut Value, fields: &[(&str, usize, usize)]) {
    for (name, n, most) in fields {
        if rng.one_in(*n) {
            request[*name] = (1 + rng.below(*most)).into();
        }
    }
}

fn a_glob(rng: &mut Seeded, root: &Path) -> String {
    match rng.one_in(8) {
        true => format!("{}/a/**", root.display()),
        false => rng.pick(&GLOBS).to_string(),
    }
}

fn set_globs(rng: &mut Seeded, request: &mut Value, root: &Path, fields: &[&str]) {
    for name in fields {
        if rng.one_in(5) {
            request[*name] = json!([a_glob(rng, root), "*"]);
        }
    }
}

fn request(rng: &mut Seeded, tool: &str, root: &Path) -> Value {
    let yes = [json!(true)];
    let no = [json!(false)];
    let cases = [json!("sensitive"), json!("insensitive"), json!("smart")];
    let path = rng.pick(&PATHS);
    match tool {
        "Search" => {
            let mut request = json!({"pattern": rng.pick(&PATTERNS), "timeout_ms": 600_000});
            let fields = [
                ("fixed_strings", 3, &yes[..]),
                ("case", 4, &cases),
                ("word_regexp", 6, &yes),
                ("hidden", 3, &yes),
                ("no_ignore", 3, &yes),
                ("follow", 6, &yes),
                ("recursive", 9, &no),
                ("path", 4, &[json!(path)]),
            ];
            set_some(rng, &mut request, &fields);
            let limits = [
                ("context", 4, 4),
                ("max_results", 3, 20),
                ("max_matches_per_file", 4, 4),
                ("max_files", 5, 12),
                ("max_file_size_bytes", 5, 400),
                ("fuzzy", 8, 2),
            ];
            set_limits(rng, &mut request, &limits);
            set_globs(rng, &mut request, root, &["include_glob", "exclude_glob"]);
            request
        }
        "search_files" => {
            let path = if rng.one_in(2) { "." } else { path };
            let mut request = json!({"query": rng.pick(&PATTERNS), "path": path});
            let modes = [
                json!("exact"),
                json!("regex"),
                json!("regex"),
                json!("fuzzy"),
            ];
            let fields = [
                ("mode", 2, &modes[..]),
                ("case", 4, &cases),
                ("recursive", 9, &no),
                ("include_hidden", 3, &yes),
                ("respect_gitignore", 3, &no),
                ("follow_symlinks", 6, &yes),
            ];
            set_some(rng, &mut request, &fields);
            let limits = [
                ("context_lines", 4, 3),
                ("max_results", 3, 20),
                ("max_matches_per_file", 4, 4),
                ("max_files", 5, 12),
                ("max_depth", 6, 3),
                ("max_file_size_bytes", 5, 400),
            ];
            set_limits(rng, &mut request, &limits);
            set_globs(rng, &mut request, root, &["include_globs", "exclude_globs"]);
            request
        }
        _ => {
            let mut request = json!({"timeout_ms": 600_000});
            let names = [
                "a",
                "brs",
                "B",
                "e\u{301}",
                "k",
                "a/b",
                "x]",
                "nothing of it",
            ];
            let names = names.map(Value::from);
            let sorts = [json!("path"), json!("modified"), json!("score")];
            let fields = [
                ("name", 2, &names[..]),
                ("types", 8, &[json!(["rust"]), json!(["no such type"])]),
                ("path", 3, &[json!(path)]),
                ("sort", 3, &sorts),
                ("hidden", 3, &yes),
                ("no_ignore", 3, &yes),
            ];
            set_some(rng, &mut request, &fields);
            let limits = [("max_results", 3, 20), ("max_depth", 5, 3)];
            set_limits(rng, &mut request, &limits);
            if rng.one_in(3) {
                request["globs"] = json!([a_glob(rng, root)]);
            }
            request
        }
    }
}

/// Returns the code of the error that a request must get, or `None` for a valid request.
fn refusal(tool: &str, request: &Value, root: &Path) -> Option<&'static str> {
    let is_regex = match tool {
        "Search" => request["fixed_strings"] != true,
        _ => request["mode"] == "regex",
    };
    let text = if tool == "Search" { "pattern" } else { "query" };
    let is_bad = match tool {
        "find_files" => {
            (request["sort"] == "score" && request["name"].is_null())
                || request["types"] == json!(["no such type"])
        }
        _ => request[text] == "(" && is_regex,
    };
    let too_deep = request["max_depth"].as_u64() > Some(1);
    let bad = is_bad.then_some("bad_args");
    // `search_files` checks its path before the query, and the other tools after it.
    match tool {
        "search_files" if request["recursive"] == false && too_deep => Some("bad_args"),
        "search_files" => refused_path(tool, request, root).or(bad),
        _ => bad.or_else(|| refused_path(tool, request, root)),
    }
}

/// Returns the code of the error that the path of a request causes.
fn refused_path(tool: &str, request: &Value, root: &Path) -> Option<&'static str> {
    let path = request["path"].as_str().unwrap_or(".");
    match path {
        "../a" => return Some("path_outside_sandbox"),
        ".ssh" | "a/k.pem" => return Some("denied_pattern_matched"),
        _ => {}
    }
    let found = fs::metadata(root.join(path));
    let is_there = found.is_ok_and(|meta| meta.is_dir() || tool != "search_files");
    (!is_there).then_some("execution_failed")
}

/// Checks an error: it is the expected one, or the limit is too small for any answer.
fn check_error(tool: &str, request: &Value, error: &Value, limit: Option<usize>, root: &Path) {
    let code = error["code"].as_str().unwrap();
    let place = format!("{tool}: {request}: {error}");
    // A pattern may be too short for this many edits. This is checked before the path.
    if code == "bad_args" && request["fuzzy"].is_u64() {
        let message = error["message"].as_str().unwrap();
        let is_invalid = refusal(tool, request, root) == Some("bad_args");
        assert!(
            message.contains("fuzzy level") || message.contains("`fuzzy`") || is_invalid,
            "{place}"
        );
        return;
    }
    match refusal(tool, request, root) {
        Some(expected) => assert_eq!(code, expected, "{place}"),
        None => {
            assert_eq!(code, "limits_exceeded", "{place}");
            let message = error["message"].as_str().unwrap();
            let (_, needed) = message.split_once("it needs ").expect(&place);
            let (needed, _) = needed.split_once('.').expect(&place);
            assert!(
                needed.parse::<usize>().unwrap() > limit.expect(&place),
                "{place}"
            );
        }
    }
}

/// Returns the file and the line of each result. A result without a line has the line 0.
fn results(tool: &str, answer: &Value) -> Vec<(String, u64)> {
    let list = if tool == "find_files" {
        "files"
    } else {
        "matches"
    };
    let each = answer[list].as_array().unwrap().iter();
    let one = |one: &Value| {
        let (path, line) = match tool {
            "Search" => (&one["data"]["path"]["text"], &one["data"]["line_number"]),
            _ => (&one["path"], &one["line"]),
        };
        (
            path.as_str().unwrap().to_string(),
            line.as_u64().unwrap_or(0),
        )
    };
    each.map(one).collect()
}

/// Checks one answer by itself.
fn check(tool: &str, request: &Value, text: &str, limit: Option<usize>, root: &Path) -> Value {
    let answer: Value = serde_json::from_str(text).unwrap();
    if answer["error"].is_object() {
        check_error(tool, request, &answer["error"], limit, root);
        return answer;
    }
    let place = format!("{tool}: {request}: {text}");
    assert_eq!(refusal(tool, request, root), None, "{place}");
    assert!(limit.is_none_or(|limit| text.len() <= limit), "{place}");
    let number = if tool == "Search" {
        "count"
    } else {
        "returned"
    };
    assert_eq!(answer[number], results(tool, &answer).len(), "{place}");
    let is_cut = answer["truncated"] == true;
    let is_said = match tool {
        "Search" => {
            let said = answer["content"].as_str().unwrap();
            said.contains("\n[truncated: ") || said.starts_with("[truncated: ")
        }
        "search_files" => !answer["truncated_reason"].is_null(),
        _ => answer["notes"].to_string().contains("\"truncated: "),
    };
    assert_eq!(is_cut, is_said, "{place}");
    assert!(answer["timed_out"] != true, "{place}");
    answer
}

/// Removes the elapsed time from the answer of `search_files`.
fn timeless(text: &str) -> String {
    let Some((before, after)) = text.split_once("\"elapsed_ms\":") else {
        return text.to_string();
    };
    format!(
        "{before}{}",
        after.trim_start_matches(|c: char| c.is_ascii_digit())
    )
}

/// Two processes that get the same requests: one with a live index, and one without an index.
struct Pair {
    tool: &'static str,
    limit: Option<usize>,
    indexed: ByTheLine,
    plain: ByTheLine,
}

fn start_pairs(root: &Path, cache: &Path) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (tool, limits) in LIMITS {
        for limit in limits {
            let most = format!("max_output_bytes={}", limit.unwrap_or(0));
            let with = |mode: &str| start(root, cache, tool, &[mode, &most, "max_line_bytes=200"]);
            pairs.push(Pair {
                tool,
                limit: *limit,
                indexed: with("index_mode=on"),
                plain: with("index_mode=off"),
            });
        }
    }
    pairs
}

#[test]
fn answers_by_the_line_are_those_without_an_index_and_errors_those_of_the_request() {
    let requests = match std::env::var("FORGE_SEARCH_TEST_REQUESTS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 300,
    };
    let tree = tempfile::tempdir().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let root = tree.path();
    // `search_files` applies git's ignore rules only in a repository.
    fs::create_dir(root.join(".git")).unwrap();
    let mut rng = Seeded::new(2027);
    for _ in 0..60 {
        edit(&mut rng, root);
    }
    let mut pairs = start_pairs(root, cache.path());
    let (mut failed, mut found, mut cut) = (0, 0, 0);
    for n in 0..requests {
        for _ in 0..rng.below(4) {
            edit(&mut rng, root);
        }
        let at = n % pairs.len();
        let (tool, limit) = (pairs[at].tool, pairs[at].limit);
        let request = request(&mut rng, tool, root);
        let one = pairs[at].indexed.ask(&request);
        let other = pairs[at].plain.ask(&request);
        let answer = check(tool, &request, &one, limit, root);
        let plain = check(tool, &request, &other, limit, root);
        // The elapsed time has more or fewer digits, so a different number of matches may fit.
        if tool != "search_files" || limit.is_none() {
            assert_eq!(timeless(&one), timeless(&other), "{tool}: {request}");
        }
        failed += usize::from(answer["error"].is_object());
        if answer["error"].is_object() {
            continue;
        }
        found += usize::from(!results(tool, &answer).is_empty());
        cut += usize::from(answer["truncated"] == true);
        if limit.is_some() {
            // A truncated answer is a prefix of the whole answer.
            let mut unlimited = pairs.iter_mut().filter(|pair| pair.limit.is_none());
            let unlimited = unlimited.find(|pair| pair.tool == tool).unwrap();
            let whole = unlimited.plain.ask(&request);
            let whole = results(tool, &check(tool, &request, &whole, None, root));
            for answer in [&answer, &plain] {
                let shown = results(tool, answer);
                assert!(
                    whole.starts_with(&shown),
                    "{tool}: {request}: {shown:?} {whole:?}"
                );
            }
        }
    }
    for pair in pairs {
        pair.indexed.end();
        pair.plain.end();
    }
    println!("requests by the line: {requests}, {failed} refused, {found} with results, {cut} cut");
    assert!(
        found * 4 > requests && cut * 20 > requests && failed * 20 > requests,
        "{found} found, {cut} cut, {failed} failed"
    );
}
