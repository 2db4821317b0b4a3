//! The command line as programs and people see it: runs the real binary, checks output and exit
//! codes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::line_processes::ByTheLine;
use crate::slow_searches::slow_files;
pub(crate) use crate::slow_searches::{SLOW, slow_text};
use crate::support::GUARD;
use crate::system::shown_path;

fn tree() -> tempfile::TempDir {
    let tmp = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = tmp.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "src/main.rs",
        "fn main() {\n    greet();\n}\n\nfn greet() {}\n",
    );
    write("src/lib.rs", "// nothing\n");
    write("notes.txt", "Greet everyone\nesc \u{1b}[31mgreet\u{7}\n");
    tmp
}

/// Returns the home of a test: one for each temporary directory. In a shared home, a build by one
/// test would evict the oldest index of the others and print a notice.
fn home_of(dir: &Path) -> PathBuf {
    let homes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("homes");
    let below = dir.strip_prefix(std::env::temp_dir()).ok();
    match below.and_then(|below| below.iter().next()) {
        Some(name) => homes.join(name),
        None => homes.join("other"),
    }
}

/// Returns a command that runs `program` in `dir`, away from the user's configuration and indexes.
pub(crate) fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .env("HOME", home_of(dir))
        .env("LOCALAPPDATA", std::path::absolute(home_of(dir)).unwrap())
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("FORGE_SEARCH_CONFIG")
        // Longer timeouts, so that a busy machine changes no answer.
        .env("FORGE_SEARCH_PATIENCE_MS", "60000");
    command
}

/// Returns a command that runs `forge-search` in `dir`.
pub(crate) fn forge_search(dir: &Path) -> Command {
    command(env!("CARGO_BIN_EXE_forge-search"), dir)
}

fn run_with(dir: &Path, args: &[&str], stdin: &str) -> Output {
    let mut child = forge_search(dir)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn run(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = forge_search(dir).args(args).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_pipe_gets_one_plain_line_a_match_in_order() {
    let tree = tree();
    let (status, out, err) = run(tree.path(), &["greet"]);
    assert_eq!(
        out,
        "notes.txt:1:1:Greet everyone\n\
         notes.txt:2:10:esc \\x1b[31mgreet\\x07\n\
         src/main.rs:2:5:    greet();\n\
         src/main.rs:5:4:fn greet() {}\n"
    );
    assert_eq!((status, err.as_str()), (0, ""));
}

#[test]
fn raw_output_keeps_control_characters() {
    let tree = tree();
    let (_, out, _) = run(tree.path(), &["--raw", "-s", "greet", "notes.txt"]);
    assert_eq!(out, "notes.txt:2:10:esc \u{1b}[31mgreet\u{7}\n");
}

#[test]
fn exit_codes_are_0_1_2() {
    let tree = tree();
    assert_eq!(run(tree.path(), &["greet"]).0, 0);
    assert_eq!(run(tree.path(), &["absent"]).0, 1);
    for (args, part) in [
        (vec!["("], "invalid regular expression"),
        (vec!["x", "missing-dir"], "does not exist"),
        (vec!["--no-such-flag", "x"], "unexpected argument"),
        (vec!["x", "--set", "max_filez=3"], "max_files"),
        (vec!["x", "--set", "max_files=-3"], "max_files"),
        (vec!["x", "--root", "nowhere"], "nowhere"),
        (vec![], "a PATTERN is missing"),
    ] {
        let (status, out, err) = run(tree.path(), &args);
        assert_eq!(status, 2, "{args:?}");
        assert!(err.contains(part), "{args:?}: {err}");
        assert_eq!(out, "", "{args:?}");
    }
}

#[test]
fn flags_mean_what_they_mean_in_ripgrep() {
    let tree = tree();
    let out = |args: &[&str]| run(tree.path(), args).1;
    assert_eq!(out(&["-s", "Greet"]), "notes.txt:1:1:Greet everyone\n");
    assert_eq!(
        out(&["-i", "GREET", "-m1", "-g", "*.txt"]),
        "notes.txt:1:1:Greet everyone\n"
    );
    assert_eq!(out(&["-S", "Greet"]), "notes.txt:1:1:Greet everyone\n");
    assert_eq!(
        out(&["-F", "()", "-g", "!*.txt", "-m1"]),
        "src/main.rs:1:8:fn main() {\n"
    );
    assert_eq!(out(&["-w", "gree"]), "");
    assert_eq!(
        out(&["-A1", "-B0", "fn main"]),
        "src/main.rs:1:1:fn main() {\nsrc/main.rs-2-    greet();\n"
    );
    assert_eq!(
        out(&["-C1", "fn", "src/main.rs"]),
        "src/main.rs:1:1:fn main() {\n\
         src/main.rs-2-    greet();\n\
         --\n\
         src/main.rs-4-\n\
         src/main.rs:5:1:fn greet() {}\n"
    );
    assert_eq!(
        out(&["--no-recursive", "-s", "greet"]),
        out(&["-s", "greet", "-g", "/*.txt"])
    );
    // A pattern may be the name of a command, or start with a dash.
    assert_eq!(run(tree.path(), &["search", "call"]).0, 1);
    assert_eq!(run(tree.path(), &["--", "-x"]).0, 1);
}

#[test]
fn colours_headings_and_links_on_request() {
    let tree = tree();
    let (_, out, _) = run(tree.path(), &["--color=always", "-s", "gre+t", "src"]);
    assert_eq!(
        out,
        "\u{1b}[35msrc/main.rs\u{1b}[0m\n\
         \u{1b}[32m2\u{1b}[0m:    \u{1b}[1m\u{1b}[31mgreet\u{1b}[0m();\n\
         \u{1b}[32m5\u{1b}[0m:fn \u{1b}[1m\u{1b}[31mgreet\u{1b}[0m() {}\n"
    );
}

#[test]
fn an_answer_says_on_its_last_line_that_it_is_cut() {
    let tree = tree();
    let (status, out, err) = run(tree.path(), &["greet", "--max-results", "1"]);
    assert_eq!((status, out.lines().count(), err.as_str()), (0, 2, ""));
    let note = out.lines().last().unwrap();
    assert!(
        note.starts_with("[truncated: more than --max-results 1") && note.contains("not searched"),
        "{note}"
    );
    let (_, out, _) = run(tree.path(), &["greet", "--max-files", "1"]);
    assert!(out.contains("--max-files 1"), "{out}");
}

#[test]
fn a_person_may_name_a_path_outside_the_working_directory() {
    let tree = tree();
    let elsewhere = tempfile::tempdir().unwrap();
    let path = tree.path().canonicalize().unwrap().join("src");
    let (status, out, _) = run(elsewhere.path(), &["fn main", path.to_str().unwrap()]);
    assert_eq!(status, 0);
    assert_eq!(
        out,
        format!("{}/main.rs:1:1:fn main() {{\n", shown_path(&path))
    );
    // With `--root`, a path outside the root is refused.
    let root = elsewhere.path().to_str().unwrap();
    let (status, _, err) = run(
        elsewhere.path(),
        &["--root", root, "fn main", path.to_str().unwrap()],
    );
    assert_eq!(status, 2);
    assert!(err.contains("outside the allowed roots"), "{err}");
}

#[test]
fn json_output_is_one_event_a_line_and_a_summary() {
    let tree = tree();
    let (status, out, _) = run(tree.path(), &["--json", "-s", "greet", "src"]);
    assert_eq!(status, 0);
    let lines: Vec<Value> = out.lines().map(parsed).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["data"]["path"]["text"], "src/main.rs");
    assert_eq!(lines[0]["data"]["column"], 5);
    assert_eq!(lines[2]["type"], "summary");
    assert_eq!(lines[2]["data"]["count"], 2);
}

#[test]
fn the_command_call_answers_one_request() {
    let tree = tree();
    let request = json!({"pattern": "fn main", "path": "src"}).to_string();
    for output in [
        run_with(tree.path(), &["call", &request], ""),
        run_with(tree.path(), &["call"], &request),
        run_with(tree.path(), &["call", "--tool", "rg"], &request),
    ] {
        assert_eq!(output.status.code(), Some(0));
        let response = parsed(std::str::from_utf8(&output.stdout).unwrap());
        let top = tree.path().canonicalize().unwrap();
        assert_eq!(response["pattern"], "fn main");
        assert_eq!(response["path"], shown_path(&top.join("src")));
        assert_eq!(response["count"], 1);
        assert_eq!(response["matches"][0]["data"]["match_text"], "fn main");
        assert_eq!(response["truncated"], false);
        assert_eq!(response["timed_out"], false);
        assert_eq!(response["files_scanned"], 2);
        assert_eq!(response["errors"], json!([]));
        assert_eq!(response["exit_code"], 0);
        assert_eq!(response["content"], "src/main.rs:1:1:fn main() {\n");
        assert!(response.get("stats").is_none());
    }
}

#[test]
fn a_failed_call_prints_its_error_and_exits_with_2() {
    let tree = tree();
    for (args, stdin, code) in [
        (vec!["call"], "not json", "bad_args"),
        (vec!["call"], "", "bad_args"),
        (
            vec!["call", r#"{"pattern": "x", "patern": 1}"#],
            "",
            "bad_args",
        ),
        (
            vec!["call", r#"{"pattern": "x", "path": "../.."}"#],
            "",
            "path_outside_sandbox",
        ),
        (
            vec!["call", r#"{"pattern": "x", "path": "/"}"#],
            "",
            "path_outside_sandbox",
        ),
        (
            vec!["call", r#"{"pattern": "x", "path": ".ssh/config"}"#],
            "",
            "denied_pattern_matched",
        ),
        (
            vec!["call", r#"{"pattern": "x", "path": "no"}"#],
            "",
            "execution_failed",
        ),
        (
            vec!["call", "--tool", "grepper", r#"{"pattern": "x"}"#],
            "",
            "unknown_tool",
        ),
        (
            vec!["call", "--set", "enabled=false", r#"{"pattern": "x"}"#],
            "",
            "disabled",
        ),
        (
            vec!["call", "--set", "nonsense=1", r#"{"pattern": "x"}"#],
            "",
            "bad_args",
        ),
        (
            vec!["call", "--max-output-bytes", "10", r#"{"pattern": "fn"}"#],
            "",
            "limits_exceeded",
        ),
    ] {
        let output = run_with(tree.path(), &args, stdin);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let answer = parsed(std::str::from_utf8(&output.stdout).unwrap());
        assert_eq!(answer["error"]["code"], code, "{args:?}: {answer}");
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty());
    }
}

#[test]
fn json_lines_are_answered_in_order_by_one_process() {
    let tree = tree();
    let stdin = concat!(
        "{\"pattern\": \"fn main\"}\n",
        "broken\n",
        "\n",
        "{\"pattern\": \"absent\"}\n",
        "{\"pattern\": \"everyone\"}",
    );
    let output = run_with(tree.path(), &["call", "--jsonl"], stdin);
    assert_eq!(output.status.code(), Some(0));
    let answers: Vec<Value> = std::str::from_utf8(&output.stdout)
        .unwrap()
        .lines()
        .map(parsed)
        .collect();
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["count"], 1);
    assert_eq!(answers[1]["error"]["code"], "bad_args");
    assert_eq!(answers[2]["exit_code"], 1);
    assert_eq!(
        answers[3]["matches"][0]["data"]["path"]["text"],
        "notes.txt"
    );
}

#[test]
fn json_lines_are_answered_by_what_is_ignored_everywhere_now() {
    let tree = tree();
    let config = tempfile::tempdir().unwrap();
    let excludes = config.path().join("git/ignore");
    fs::create_dir_all(excludes.parent().unwrap()).unwrap();
    fs::create_dir(tree.path().join(".git")).unwrap();
    fs::write(tree.path().join("ignored.tmp"), "sometimes\n").unwrap();
    let mut program = forge_search(tree.path());
    program
        .env("XDG_CONFIG_HOME", config.path())
        .args(["call", "--jsonl"]);
    let mut process = ByTheLine::of(program);
    let mut count = || process.answer(&json!({"pattern": "sometimes"}))["count"].clone();
    assert_eq!(count(), 1);
    fs::write(&excludes, "*.tmp\n").unwrap();
    assert_eq!(count(), 0);
    fs::write(&excludes, "*.other\n").unwrap();
    assert_eq!(count(), 1);
    process.end();
}

#[test]
fn a_huge_line_is_refused_and_the_next_one_answered() {
    let tree = tree();
    let mut stdin = "x".repeat((16 << 20) + 5);
    stdin.push_str("\n{\"pattern\": \"everyone\"}\n");
    let output = run_with(tree.path(), &["call", "--jsonl"], &stdin);
    let answers: Vec<Value> = std::str::from_utf8(&output.stdout)
        .unwrap()
        .lines()
        .map(parsed)
        .collect();
    assert_eq!(answers.len(), 2);
    assert!(
        answers[0]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("longer than")
    );
    assert_eq!(answers[1]["count"], 1);
}

#[test]
fn stats_appear_only_when_configured() {
    let tree = tree();
    let request = r#"{"pattern": "fn main"}"#;
    let (_, out, _) = run(tree.path(), &["call", "--set", "emit_stats=true", request]);
    let stats = &parsed(&out)["stats"];
    assert_eq!(stats["stats_version"], 1);
    assert_eq!(stats["candidates_total"], stats["candidates_scanned"]);
    let (_, out, _) = run(tree.path(), &["call", request]);
    assert!(parsed(&out).get("stats").is_none());
}

#[test]
fn schema_completions_and_manual_are_printed() {
    let tree = tree();
    let (status, out, _) = run(tree.path(), &["schema"]);
    assert_eq!(status, 0);
    assert_eq!(parsed(&out)["required"], json!(["pattern"]));
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let (status, out, _) = run(tree.path(), &["completions", shell]);
        assert!(status == 0 && out.contains("max-results"), "{shell}");
    }
    let (status, page, _) = run(tree.path(), &["man"]);
    assert!(status == 0 && page.starts_with(".") && page.contains("fixed\\-strings"));
    let (status, page, _) = run(tree.path(), &["man", "call"]);
    assert!(status == 0 && page.contains("jsonl"));
    for none in [
        &["man", "nothing"][..],
        &["man", "execute-worker"],
        &["man", "index", "nothing"],
    ] {
        let (status, _, err) = run(tree.path(), none);
        assert!(status == 2 && err.contains("there is no command"), "{err}");
    }
    let (status, _, err) = run(tree.path(), &["schema", "--tool", "grepper"]);
    assert!(status == 2 && err.contains("grepper"), "{err}");
}

/// Runs a program and returns its two outputs. Skips the check with `None` if it is not installed.
fn printed_by(program: &str, args: &[&str], stdin: &str) -> Option<(String, String)> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        crate::skipped::skipped(format!("{program} is missing"));
        return None;
    };
    let mut input = child.stdin.take().unwrap();
    let text = stdin.to_string();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{program}: {output:?}");
    Some((text(&output.stdout), text(&output.stderr)))
}

#[test]
fn shells_complete_flags_commands_and_values() {
    let tree = tree();
    let script = |shell: &str| {
        let (_, script, _) = run(tree.path(), &["completions", shell]);
        let file = tree.path().join(format!("completion.{shell}"));
        fs::write(&file, script).unwrap();
        file.to_str().unwrap().to_string()
    };
    let asked = [
        ("--max-r", "--max-results"),
        ("ind", "index"),
        ("index b", "build"),
        ("index build --js", "--json"),
        ("search --hidd", "--hidden"),
        ("--color al", "always"),
    ];
    let (bash, fish, zsh) = (script("bash"), script("fish"), script("zsh"));
    for (typed, expected) in asked {
        let words: Vec<&str> = typed.split(' ').collect();
        let (last, before) = (words[words.len() - 1], words.len());
        let previous = words.iter().rev().nth(1).unwrap_or(&"forge-search");
        let ask = format!(
            "source {bash}; COMP_WORDS=(forge-search {typed}); COMP_CWORD={before}; set -- $(complete -p forge-search); \
             while [ $# -gt 0 ] && [ \"$1\" != -F ]; do shift; done; $2 forge-search '{last}' '{previous}'; echo \"${{COMPREPLY[@]}}\""
        );
        if let Some((out, err)) = printed_by("bash", &["--norc", "-c", &ask], "") {
            let mut found = out.split_whitespace();
            assert!(
                found.any(|one| one == expected),
                "bash: {typed}: {out}{err}"
            );
        }
        let ask = format!("source {fish}; complete -C 'forge-search {typed}'");
        if let Some((out, err)) = printed_by("fish", &["--no-config", "-c", &ask], "") {
            let mut found = out.lines().filter_map(|line| line.split('\t').next());
            assert!(
                found.any(|one| one == expected),
                "fish: {typed}: {out}{err}"
            );
        }
    }
    // zsh completes only input from a terminal, so the test gives it one.
    for (typed, expected) in [
        ("--max-r", "--max-results"),
        ("ind", "index"),
        ("index bu", "build"),
        ("index build --js", "--json"),
        ("schema --to", "--tool"),
        ("completions fi", "fish"),
        ("lease key", "keygen"),
    ] {
        let ask = format!(
            "zmodload zsh/zpty; zpty z zsh -f -i; \
             zpty -w z 'PS1=; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D; source {zsh}; echo rea\"\"dy'; \
             zpty -r z said '*ready*'; zpty -w -n z $'forge-search {typed}\t'; zpty -r z said '*{expected}*'; print -r -- \"$said\""
        );
        let bounded = ["60", "zsh", "-f", "-c", &ask];
        if printed_by("zsh", &["-f", "-n", &zsh], "").is_some_and(|(_, err)| err.is_empty()) {
            let Some((out, err)) = printed_by("timeout", &bounded, "") else {
                continue;
            };
            assert!(out.contains(expected), "zsh: {typed}: {out}{err}");
        }
    }
}

#[test]
fn manual_pages_have_nothing_that_roff_complains_of() {
    let tree = tree();
    for args in [
        &["man"][..],
        &["man", "index", "build"],
        &["man", "index-list"],
        &["man", "mcp"],
        &["man", "search"],
    ] {
        let (_, page, _) = run(tree.path(), args);
        // No overstriking, by which groff shows bold text.
        let flags = ["-man", "-Tutf8", "-ww", "-rLL=100n", "-P-cbou"];
        let Some((shown, complaints)) = printed_by("groff", &flags, &page) else {
            return;
        };
        assert_eq!(complaints, "", "{args:?}");
        assert!(
            shown.contains("DESCRIPTION") && shown.contains("forge"),
            "{shown}"
        );
    }
}

#[test]
fn a_command_that_was_mistyped_is_named() {
    let tree = tree();
    fs::write(tree.path().join("a.txt"), "serch\n").unwrap();
    for (args, name) in [
        (["serch", "needle"], "search"),
        (["explian", "needle"], "explain"),
        (["idnex", "build"], "index"),
    ] {
        let (status, _, err) = run(tree.path(), &args);
        assert_eq!(status, 2);
        assert!(
            err.ends_with(&format!("did you mean the command `{name}`?\n")),
            "{err}"
        );
    }
    let (status, _, err) = run(tree.path(), &["needle", "nowhere"]);
    assert_eq!((status, err.contains("did you mean")), (2, false), "{err}");
    // With an existing path, the same word is a pattern.
    assert_eq!(run(tree.path(), &["serch", "a.txt"]).0, 0);
    for (args, tip) in [
        (&["--colr", "always", "x"][..], "--color"),
        (&["index", "biuld"], "build"),
        (&["-t", "russt", "x"], "`rust`"),
        (&["--set", "max_fils=3", "x"], "`max_files`"),
    ] {
        let (status, _, err) = run(tree.path(), args);
        assert_eq!(status, 2, "{err}");
        assert!(err.contains(tip), "{err}");
    }
}

#[test]
fn doctor_reports_what_is_in_effect_and_what_needs_doing() {
    let tree = tree();
    let config = tree.path().join("config.toml");
    fs::write(&config, "[tools.search]\nmax_files = 77\n").unwrap();
    let args = [
        "doctor",
        "--json",
        "--config",
        "config.toml",
        "--set",
        "threads=3",
    ];
    let (status, out, _) = run(tree.path(), &args);
    let report = parsed(&out);
    assert_eq!(status, 0, "{report}");
    let setting = |key: &str| {
        let settings = report["config"].as_array().unwrap();
        settings
            .iter()
            .find(|setting| setting["key"] == key)
            .unwrap()
            .clone()
    };
    assert_eq!(setting("tools.search.max_files")["value"], "77");
    assert!(
        setting("tools.search.max_files")["origin"]
            .as_str()
            .unwrap()
            .ends_with("config.toml")
    );
    assert_eq!(setting("tools.search.threads")["origin"], "--set");
    assert_eq!(
        setting("tools.search.default_max_results")["origin"],
        "default"
    );
    assert_eq!(report["engines"][0]["name"], "embedded");
    assert_eq!(report["problems"], json!([]));

    fs::write(tree.path().join("src/.ignore"), "ok\n{broken\n").unwrap();
    let (status, out, _) = run(tree.path(), &["doctor"]);
    assert_eq!(status, 2);
    assert!(
        out.contains("src/.ignore:2") && out.contains("to do"),
        "{out}"
    );
}

#[test]
fn help_has_examples() {
    let tree = tree();
    for args in [
        vec!["--help"],
        vec!["call", "--help"],
        vec!["help", "search"],
    ] {
        let (status, out, _) = run(tree.path(), &args);
        assert_eq!(status, 0);
        assert!(out.contains("Examples:"), "{args:?}");
    }
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let tree = tree();
    let many = "needle in a line of some length\n".repeat(20_000);
    fs::write(tree.path().join("many.txt"), many).unwrap();
    let script = format!(
        "'{}' --max-results 20000 needle | head -n 1; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_forge-search")
    );
    let output = command("bash", tree.path())
        .args(["-c", &script])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "many.txt:1:1:needle in a line of some length\n0\n");
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn only_notes_are_taken_for_notes() {
    let tmp = tempfile::tempdir().unwrap();
    fs::write(tmp.path().join("[id].tsx"), "needle\nneedle\nneedle\n").unwrap();
    let (status, out, err) = run(tmp.path(), &["needle", "--max-results", "2"]);
    assert_eq!((status, out.lines().count(), err.as_str()), (0, 3, ""));
    assert!(out.contains("--max-results 2"), "{out}");
    let (_, out, err) = run(tmp.path(), &["-o", "needle", "--max-results", "2"]);
    assert_eq!((out.lines().count(), err.lines().count()), (2, 1), "{err}");
    assert!(
        err.starts_with("[truncated: more than --max-results 2"),
        "{err}"
    );
}

#[test]
fn messages_hold_no_terminal_commands() {
    let tree = tree();
    fs::write(tree.path().join("c\u{1b}.toml"), "tools.search.threads = 1").unwrap();
    let (status, out, _) = run(tree.path(), &["doctor", "--config", "c\u{1b}.toml"]);
    assert!(status == 0 && out.contains("c\\x1b.toml"), "{out}");
    assert!(!out.contains('\u{1b}'), "{out}");
    for args in [
        ["x", "no\u{1b}[31m"].as_slice(),
        &["x", "--root", "no\u{1b}[31m"],
        &["x", "--set", "no\u{1b}[31m=1"],
    ] {
        let (status, _, err) = run(tree.path(), args);
        assert_eq!(status, 2);
        assert!(!err.contains('\u{1b}') && err.contains("\\x1b"), "{err}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn messages_that_cannot_be_written_are_no_panic() {
    let tree = tree();
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    for (args, status) in [
        (["x", "missing"].as_slice(), 2),
        (&["greet", "--max-results", "1", "--stats"], 0),
        (&["--no-such-flag"], 2),
    ] {
        let ended = forge_search(tree.path())
            .args(args)
            .stdout(Stdio::null())
            .stderr(full())
            .status()
            .unwrap();
        assert_eq!(ended.code(), Some(status), "{args:?}");
    }
    for args in [["--help"].as_slice(), &["schema"], &["greet"]] {
        let output = forge_search(tree.path())
            .args(args)
            .stdout(full())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn absolute_paths_can_be_forbidden() {
    let tree = tree();
    let top = tree.path().canonicalize().unwrap();
    let forbid = ["--set", "tools.sandbox.allow_absolute=false"];
    let request = json!({"pattern": "fn main", "path": top.join("src")}).to_string();
    let (status, out, _) = run(tree.path(), &["call", forbid[0], forbid[1], &request]);
    assert_eq!(status, 2);
    assert_eq!(parsed(&out)["error"]["code"], "path_outside_sandbox");
    // On the command line, absolute paths are made relative where possible.
    for path in ["src", top.join("src").to_str().unwrap(), "."] {
        let (status, out, err) = run(tree.path(), &[forbid[0], forbid[1], "fn main", path]);
        assert_eq!((status, err.as_str()), (0, ""), "{path}");
        let shown = if path == "." { "./src" } else { "src" };
        assert_eq!(out, format!("{shown}/main.rs:1:1:fn main() {{\n"));
    }
}

#[cfg(unix)]
#[test]
fn with_a_root_the_working_directory_need_not_exist() {
    let tree = tree();
    let root = tree.path().canonicalize().unwrap();
    let binary = env!("CARGO_BIN_EXE_forge-search");
    let in_no_directory = |args: &str| {
        let script = format!("mkdir gone && cd gone && rmdir ../gone && '{binary}' {args}");
        let output = command("bash", tree.path())
            .args(["-c", &script])
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (status, out, err) = in_no_directory(&format!("--root '{}' 'fn main'", root.display()));
    assert_eq!((status, err.as_str()), (Some(0), ""));
    // Without a working directory, paths are printed as absolute paths.
    let shown = format!("{}/src/main.rs:1:1:fn main() {{\n", root.display());
    assert_eq!(out, shown);
    let (status, _, err) = in_no_directory("x");
    assert_eq!(status, Some(2));
    assert!(err.contains("--root"), "{err}");
    let (status, out, _) = in_no_directory("call '{\"pattern\": \"x\"}'");
    assert_eq!(status, Some(2));
    assert_eq!(parsed(&out)["error"]["code"], "bad_args");
}

#[test]
fn a_search_that_did_not_look_everywhere_does_not_say_no_match() {
    let tree = tree();
    let (status, out, err) = run(tree.path(), &["everyone", "-g", "!*.txt"]);
    assert_eq!((status, out.as_str(), err.as_str()), (1, "", ""));
    let (status, out, err) = run(tree.path(), &["main", "--max-files", "1"]);
    assert_eq!((status, err.as_str()), (2, ""));
    assert!(out.starts_with("[truncated: --max-files 1"), "{out}");
}

#[test]
fn arguments_out_of_range_are_named_as_they_were_written() {
    let tree = tree();
    for (args, part) in [
        (["x", "-m", "0"].as_slice(), "--max-count"),
        (&["x", "--max-filesize", "0"], "--max-filesize"),
        (&["x", "--timeout-ms", "0"], "--timeout-ms"),
        (&["x", "--fuzzy", "5"], "1..=4"),
    ] {
        let (status, out, err) = run(tree.path(), args);
        assert_eq!((status, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(part), "{args:?}: {err}");
    }
}

/// Waits until a process handles a signal, so that the signal alone does not end the process.
#[cfg(unix)]
fn until_caught(child: &std::process::Child, signal: rustix::process::Signal) {
    use std::time::{Duration, Instant};

    let path = format!("/proc/{}/status", child.id());
    let bit = 1 << (signal.as_raw() - 1);
    let is_caught = || {
        let status = fs::read_to_string(&path).ok()?;
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))?;
        let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
        Some(mask & bit != 0)
    };
    if !cfg!(target_os = "linux") {
        // Real time: other systems don't tell which signals a process handles.
        return std::thread::sleep(Duration::from_millis(300));
    }
    let started = Instant::now();
    while is_caught() != Some(true) {
        assert!(started.elapsed() < GUARD, "no handler");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_search_at_once() {
    use std::time::Instant;

    use rustix::process::Signal;

    let tree = tree();
    slow_files(&tree.path().join("long"));
    let mut child = forge_search(tree.path())
        .args(["--timeout-ms", "600000", SLOW, "long"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until_caught(&child, Signal::INT);
    assert!(
        child.try_wait().unwrap().is_none(),
        "the search is not expensive enough"
    );
    let started = Instant::now();
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, Signal::INT).unwrap();
    let status = child.wait().unwrap();
    // A complete search would take longer.
    assert!(started.elapsed() < GUARD);
    assert_eq!(status.code(), Some(130));
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_process_that_waits_for_a_request() {
    use std::io::Read;
    use std::time::{Duration, Instant};

    use rustix::process::Signal;

    let tree = tree();
    for (args, signal, status) in [
        (["call"].as_slice(), Signal::INT, 130),
        (&["call", "--jsonl"], Signal::INT, 130),
        (&["call", "--jsonl"], Signal::TERM, 143),
    ] {
        let mut child = forge_search(tree.path())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        if args.contains(&"--jsonl") {
            // An answer shows that the process has started and waits for the next request.
            let mut stdin = child.stdin.as_ref().unwrap();
            stdin.write_all(b"{\"pattern\": \"everyone\"}\n").unwrap();
            let mut first = [0];
            child
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut first)
                .unwrap();
        }
        until_caught(&child, signal);
        let started = Instant::now();
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        // Standard input stays open, so only the signal can end the process.
        let ended = loop {
            match child.try_wait().unwrap() {
                Some(ended) => break ended,
                None if started.elapsed() > GUARD => {
                    child.kill().unwrap();
                    panic!("{args:?} goes on after {signal:?}");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        assert_eq!(ended.code(), Some(status), "{args:?}");
    }
}
