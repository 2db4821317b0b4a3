//! Limits in a person's search: every output mode reports the results or files that a limit left
//! out.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::cli::forge_search;

/// Every output mode.
const FORMS: [&[&str]; 12] = [
    &[],
    &["--heading"],
    &["--json"],
    &["--rg-json"],
    &["--vimgrep"],
    &["-o"],
    &["-c"],
    &["--count-matches"],
    &["-l"],
    &["-0", "-l"],
    &["-0", "-c"],
    &["--sortr", "path"],
];

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let long = format!("a needle and {} more\n", "much ".repeat(20));
    for (path, text) in [
        ("a.txt", "needle one\nneedle two\nneedle three\n"),
        ("b.txt", "needle\n"),
        ("large/c.txt", &"needle\n".repeat(40)),
        ("large/d.txt", &"needle\n".repeat(40)),
        ("long/e.txt", &long),
    ] {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    tree
}

fn run(dir: &Path, args: &[&[&str]]) -> Output {
    forge_search(dir).args(args.concat()).output().unwrap()
}

/// Returns standard output followed by standard error.
fn printed(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(all).unwrap()
}

/// Returns the last message of a JSON answer.
fn summary(output: &Output) -> Value {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn a_limit_that_cuts_an_answer_is_told_in_every_form() {
    let tree = tree();
    let dir = tree.path();
    for (limit, told) in [
        (
            &["--max-results", "1"][..],
            "more than --max-results 1 results exist",
        ),
        (&["--max-files", "1"], "--max-files 1 files were searched"),
        (
            &["--max-filesize", "100"],
            "larger than --max-filesize 100 bytes",
        ),
        (
            &["--set", "max_matches_per_file=1"],
            "more matches than -m 1",
        ),
    ] {
        for form in FORMS {
            let counts = form.iter().any(|flag| flag.ends_with("-l"));
            if counts && told.contains("-m 1") {
                // `-m 1` does not change which files have a match.
                continue;
            }
            let output = run(dir, &[form, limit, &["needle"]]);
            let printed = printed(&output);
            assert!(printed.contains(told), "{form:?} {limit:?}: {printed}");
            if form.contains(&"--json") {
                let is_cut = !limit.contains(&"--max-filesize");
                assert_eq!(summary(&output)["data"]["truncated"], is_cut, "{limit:?}");
            }
        }
    }
    for limit in ["--max-results", "--max-files"] {
        let listed = printed(&run(dir, &[&["--files", limit, "1"]]));
        assert!(listed.contains(&format!("{limit} 1")), "{listed}");
    }
}

#[test]
fn a_count_of_lines_that_is_asked_for_is_told_to_programs_and_else_as_by_ripgrep() {
    let tree = tree();
    let dir = tree.path();
    for form in FORMS {
        let output = run(dir, &[form, &["-m", "1", "needle"]]);
        let told = printed(&output).contains("more matches than -m 1");
        assert_eq!(told, form.contains(&"--json"), "{form:?}");
        assert_eq!(output.stderr, b"", "{form:?}");
    }
    let cut = summary(&run(dir, &[&["--json", "-m", "1", "needle"]]));
    assert_eq!(cut["data"]["truncated"], true, "{cut}");
    let whole = summary(&run(dir, &[&["--json", "-m", "40", "needle"]]));
    assert_eq!(whole["data"]["truncated"], false, "{whole}");
    assert_eq!(whole["data"]["notes"], Value::Null, "{whole}");
}

#[test]
fn a_line_that_is_shown_in_part_says_so_or_is_whole() {
    let tree = tree();
    let dir = tree.path();
    let whole = "much ".repeat(20);
    for form in FORMS {
        let output = run(dir, &[form, &["-M", "20", "needle", "long"]]);
        let told = printed(&output);
        let has_lines = !form
            .iter()
            .any(|flag| ["-o", "-c", "-l", "--count-matches"].contains(flag));
        let says = told.contains("[+") || told.contains("1 line is longer than 20 bytes");
        let is_whole = told.contains(&whole);
        assert_eq!(says || is_whole, has_lines, "{form:?}: {told}");
        assert!(!(says && is_whole), "{form:?}: {told}");
    }
    let told = summary(&run(dir, &[&["--json", "--stats", "-M", "20", "needle"]]));
    assert_eq!(told["data"]["stats"]["lines_shortened"], 1, "{told}");
}

#[test]
fn a_search_that_runs_out_of_time_says_so_in_every_form() {
    let tree = tree();
    for form in FORMS {
        let mut search = forge_search(tree.path())
            .args(form)
            .args(["--timeout-ms", "50", "needle", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Standard input stays open, so the search can end only by its timeout.
        let held = search.stdin.take();
        let output = search.wait_with_output().unwrap();
        drop(held);
        let told = printed(&output);
        assert!(told.contains("timed out after 50 ms"), "{form:?}: {told}");
        assert_eq!(output.status.code(), Some(2), "{form:?}");
    }
}

#[test]
fn files_left_out_for_their_size_are_counted_alike_everywhere() {
    let tree = tree();
    let dir = tree.path();
    let limit: &[&str] = &["--max-filesize", "100"];
    let row = |output: &Output, name: &str| -> String {
        let text = printed(output);
        let mut lines = text.lines().map(str::split_whitespace);
        let found = lines.find_map(|mut words| (words.next()? == name).then(|| words.next()));
        found
            .flatten()
            .unwrap_or_else(|| panic!("no {name}: {text}"))
            .to_string()
    };
    for form in FORMS.iter().chain(&[&["--files"][..]]) {
        let pattern: &[&str] = match form.contains(&"--files") {
            true => &[],
            false => &["needle"],
        };
        let output = run(dir, &[form, limit, &["--stats"], pattern]);
        assert!(
            printed(&output).contains("[3 files are larger")
                || printed(&output).contains("\"3 files are larger"),
            "{form:?}: {output:?}"
        );
        assert_eq!(row(&output, "files_too_large"), "3", "{form:?}");
        // The candidates are the other files.
        assert_eq!(row(&output, "candidates_total"), "5", "{form:?}");
    }
    let told = summary(&run(dir, &[&["--json", "--stats"], limit, &["needle"]]));
    assert_eq!(told["data"]["files_too_large"], 3, "{told}");
    assert_eq!(told["data"]["stats"]["files_too_large"], 3, "{told}");
    let explained = run(dir, &[&["explain"], limit, &["needle"]]);
    let text = printed(&explained);
    assert!(
        text.contains("too large   3, more than --max-filesize 100\n"),
        "{text}"
    );
    let explained = summary(&run(dir, &[&["explain", "--json"], limit, &["needle"]]));
    let files = &explained["files"];
    let counts = ["in_scope", "too_large", "searched"].map(|name| files[name].as_u64().unwrap());
    assert_eq!(counts, [5, 3, 2], "{files}");
    let none = run(dir, &[&["--stats", "needle"]]);
    assert_eq!(row(&none, "files_too_large"), "0");
}
