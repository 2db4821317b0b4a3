//! The command line for people: which of several flags wins, which limits apply, where notices are
//! printed, and how errors are worded.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cli::forge_search;
use crate::support::is_long;

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (path, text) in [
        (
            "src/a.rs",
            &b"needle one\nhay\nneedle two\nneedle three\n"[..],
        ),
        ("other/b.txt", b"xx needle xx\n"),
        (
            "indented.txt",
            b"   indented needle and a tail of words that goes on\n",
        ),
        ("letters.txt", "ta\u{17f}k TASK \u{212a}elvin\n".as_bytes()),
        ("bytes", b"\xff needle\n"),
    ] {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    tree
}

/// Runs the program; returns its exit status, standard output and standard error.
fn run(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = forge_search(dir).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status = output.status.code().unwrap();
    (status, text(&output.stdout), text(&output.stderr))
}

/// Checks the output of a run that succeeds and prints nothing to standard error.
#[track_caller]
fn prints(dir: &Path, args: &[&str], expected: &str) {
    let found = run(dir, args);
    assert_eq!(found, (0, expected.to_string(), String::new()), "{args:?}");
}

const OF_A: &str = "src/a.rs:1:1:needle one\nsrc/a.rs:3:1:needle two\nsrc/a.rs:4:1:needle three\n";

#[test]
fn a_part_of_a_line_has_the_bytes_of_the_file() {
    let tree = tempfile::tempdir().unwrap();
    let line = b"x\xff caf\xe9 needle \xff\xfe caf\xe9";
    fs::write(tree.path().join("a"), [&line[..], b"\n"].concat()).unwrap();
    for (most, expected) in [
        ("9", &b"a:1:9:[+7 bytes] needle \xff[+6 bytes]\n"[..]),
        ("14", b"a:1:9:[+4 bytes]af\xe9 needle \xff\xfe [+4 bytes]\n"),
        ("99", &[b"a:1:9:", &line[..], b"\n"].concat()),
    ] {
        let output = forge_search(tree.path())
            .args(["-M", most, "needle"])
            .output();
        let found = output.unwrap().stdout;
        assert_eq!(found, expected, "{most}: {}", found.escape_ascii());
    }
}

#[test]
fn quiet_prints_nothing_whatever_else_is_asked_for() {
    let tree = tree();
    let dir = tree.path();
    for more in [
        &["needle"][..],
        &["-c", "needle"],
        &["-l", "needle"],
        &["--vimgrep", "needle"],
        &["--json", "needle"],
        &["--rg-json", "needle"],
        &["--files"],
    ] {
        for args in [[&["-q"], more].concat(), [more, &["-q"]].concat()] {
            assert_eq!(
                run(dir, &args),
                (0, String::new(), String::new()),
                "{args:?}"
            );
        }
    }
    assert_eq!(run(dir, &["-q", "-c", "absent"]).0, 1);
    // The last of `--no-messages` and `--messages` wins.
    assert_eq!(run(dir, &["--no-messages", "--messages", "absent"]).0, 1);
    for paths in [&["nowhere"][..], &["nowhere", "neither"]] {
        let told = run(dir, &[&["--no-messages", "absent"], paths].concat());
        assert_eq!(told, (2, String::new(), String::new()), "{paths:?}");
    }
}

#[test]
fn the_last_of_competing_flags_wins() {
    let tree = tree();
    let dir = tree.path();
    prints(dir, &["-s", "-i", "NEEDLE", "src"], OF_A);
    assert_eq!(run(dir, &["-i", "-s", "NEEDLE", "src"]).0, 1);
    prints(dir, &["-l", "-c", "needle", "src"], "src/a.rs:3\n");
    prints(dir, &["-c", "-l", "needle", "src"], "src/a.rs\n");
    prints(dir, &["-m1", "-m2", "-c", "needle", "src"], "src/a.rs:2\n");
    prints(dir, &["-x", "-w", "needle", "src"], OF_A);
    assert_eq!(run(dir, &["-w", "-x", "needle", "src"]).0, 1);
    prints(
        dir,
        &["-C3", "-C0", "needle", "other"],
        "other/b.txt:1:4:xx needle xx\n",
    );
    // `-p` counts as the flags that it abbreviates, at its own position.
    let plain = "other/b.txt\n1:xx needle xx\n";
    prints(dir, &["-p", "--color=never", "needle", "other"], plain);
    for flags in [
        &["--color=never", "--no-heading", "-p"][..],
        &["--color=never", "-N", "-p"],
        &["-p"],
    ] {
        let (_, out, _) = run(dir, &[flags, &["needle", "other"]].concat());
        assert!(
            out.contains("\u{1b}[") && out.lines().count() == 2,
            "{flags:?}: {out}"
        );
        assert!(
            out.lines().nth(1).unwrap().contains('1'),
            "{flags:?}: {out}"
        );
    }
    let in_line = "other/b.txt:1:4:xx needle xx\n";
    prints(
        dir,
        &["-p", "--color=never", "--no-heading", "needle", "other"],
        in_line,
    );
}

/// `-o` and `--vimgrep` are not output modes, so they do not replace `-l` or `-c` in either order.
#[test]
fn matches_by_themselves_leave_the_mode_as_it_is() {
    let tree = tree();
    let dir = tree.path();
    fs::write(dir.join("twice"), "foo foo\nfoo\n").unwrap();
    for (flags, printed) in [
        (&["-l", "-o"][..], "./twice\n"),
        (&["-o", "-l"], "./twice\n"),
        (&["-l", "--vimgrep"], "./twice\n"),
        (&["-c", "-o"], "./twice:3\n"),
        (&["-o", "-c"], "./twice:3\n"),
        (&["--count-matches", "-o"], "./twice:3\n"),
        (&["-c", "--vimgrep"], "./twice:2\n"),
    ] {
        prints(dir, &[flags, &["foo", "."]].concat(), printed);
    }
    for more in ["-o", "--vimgrep"] {
        prints(dir, &["--files", more, "other"], "other/b.txt\n");
        let json = ["--rg-json", "-s", "foo", "."];
        let (_, out, _) = run(dir, &[&json[..], &[more]].concat());
        assert!(out.starts_with("{\"type\":\"begin\""), "{more}: {out}");
    }
    let both = "./twice:1:1:foo\n./twice:1:5:foo\n./twice:2:1:foo\n";
    prints(dir, &["-o", "--vimgrep", "foo", "."], both);
}

#[test]
fn several_paths_are_searched_in_their_order() {
    let tree = tree();
    let dir = tree.path();
    let of_b = "other/b.txt:1:4:xx needle xx\n";
    prints(dir, &["needle", "src", "other"], &format!("{OF_A}{of_b}"));
    prints(
        dir,
        &["needle", "other", "src/a.rs"],
        &format!("{of_b}{OF_A}"),
    );
    prints(dir, &["--files", "other", "src"], "other/b.txt\nsrc/a.rs\n");
    let (status, out, err) = run(dir, &["needle", "other", "absent"]);
    assert_eq!((status, out.as_str()), (2, of_b));
    assert!(err.contains("absent"), "{err}");
    // Paths are relative to the working directory of the shell, wherever the root is.
    let src = dir.join("src");
    prints(&src, &["-l", "needle", "../other"], "../other/b.txt\n");
    prints(dir, &["-l", "needle", "--root", "src"], "src/a.rs\n");
}

#[test]
fn lines_are_shown_as_flags_have_it() {
    let tree = tree();
    let dir = tree.path();
    prints(dir, &["-N", "two", "src"], "src/a.rs:needle two\n");
    prints(dir, &["-I", "two", "src"], "3:8:needle two\n");
    prints(
        dir,
        &["--no-column", "two", "src"],
        "src/a.rs:3:needle two\n",
    );
    prints(
        dir,
        &["--trim", "needle", "indented.txt"],
        "indented.txt:1:13:indented needle and a tail of words that goes on\n",
    );
    let (_, out, _) = run(dir, &["-M", "10", "needle", "indented.txt"]);
    assert!(out.contains("needle") && out.contains("bytes]"), "{out}");
    assert!(!out.contains("goes on"), "{out}");
    // A matching line among the context lines of another match is printed as a match.
    prints(
        dir,
        &["-m1", "-A2", "needle", "src"],
        "src/a.rs:1:1:needle one\nsrc/a.rs-2-hay\nsrc/a.rs:3:1:needle two\n",
    );
    // Bytes that are not UTF-8 are printed unchanged.
    for args in [&["needle", "bytes"][..], &["--vimgrep", "needle", "bytes"]] {
        let output = forge_search(dir).args(args).output().unwrap();
        assert_eq!(output.stdout, b"bytes:1:3:\xff needle\n", "{args:?}");
    }
}

#[test]
fn letters_compare_as_unicode_has_them_with_and_without_an_index() {
    let tree = tree();
    let dir = tree.path();
    let cache = tempfile::tempdir().unwrap();
    let indexed = format!("index_path={:?}", cache.path().join("index"));
    let (status, _, err) = run(dir, &["index", "build", "--set", &indexed]);
    assert_eq!(status, 0, "{err}");
    for pattern in ["task", "kelvin", "ta\u{17f}k"] {
        for index in [&["--index", "off"][..], &["--set", &indexed]] {
            let args = [index, &["-o", "-I", "-N", "-i", pattern]].concat();
            let expected = match pattern {
                "kelvin" => "\u{212a}elvin\n",
                _ => "ta\u{17f}k\nTASK\n",
            };
            prints(dir, &args, expected);
        }
    }
}

#[test]
fn notes_are_no_failures_and_stand_where_scripts_expect_them() {
    let tree = tree();
    let dir = tree.path();
    let (status, out, err) = run(dir, &["--max-results", "1", "needle", "src"]);
    let last = out.lines().last().unwrap();
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(
        last.starts_with("[truncated: more than --max-results 1 "),
        "{out}"
    );
    let (_, out, _) = run(dir, &["--json", "--max-results", "1", "needle", "src"]);
    let summary: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert!(summary.to_string().contains("--max-results 1"), "{summary}");
    // `-o` is read by programs: standard output has results only, and the notice goes to standard
    // error.
    let (status, out, err) = run(dir, &["-o", "--max-results", "1", "needle", "src"]);
    assert_eq!((status, out.as_str()), (0, "src/a.rs:1:1:needle\n"));
    assert!(err.starts_with("[truncated: "), "{err}");
    prints(dir, &["--max-results", "0", "needle", "src"], OF_A);
}

#[test]
fn nothing_that_nobody_asked_for_limits_what_people_find() {
    let tree = tree();
    let dir = tree.path();
    let many = "needle\n".repeat(150_000);
    fs::write(dir.join("many"), &many).unwrap();
    prints(dir, &["-c", "needle", "many"], "many:150000\n");
    prints(dir, &["--count-matches", "needle", "many"], "many:150000\n");
    let large = format!("{}needle\n", "x\n".repeat(2_500_000));
    fs::write(dir.join("large"), &large).unwrap();
    prints(dir, &["needle", "large"], "large:2500001:1:needle\n");
    // A limit that hides a file is reported, with the name of the file if the command line names
    // it.
    let limits = [
        &["--max-filesize", "1M"][..],
        &["--set", "max_file_size_bytes=1000000"],
    ];
    for limit in limits {
        let (status, out, err) = run(dir, &[limit, &["needle", "large"]].concat());
        assert_eq!(status, 2, "{err}");
        assert!(out.contains("[1 file is larger than"), "{out}");
        assert!(err.contains("large: not searched"), "{err}");
        let (_, listed, err) = run(dir, &[limit, &["--files"]].concat());
        assert!(!listed.contains("large"), "{listed}");
        assert!(err.contains("[2 files are larger than"), "{err}");
    }
}

#[test]
fn patterns_of_megabytes_are_read() {
    let tree = tree();
    let dir = tree.path();
    let count = if is_long() { 1_000_000 } else { 40_000 };
    let mut patterns: String = (0..count)
        .map(|n| format!("one_of_many_words_{n:09}\n"))
        .collect();
    patterns.push_str("needle two\n");
    assert!(patterns.len() > 1_000_000);
    let list = tempfile::NamedTempFile::new().unwrap();
    fs::write(list.path(), patterns).unwrap();
    let list = list.path().to_str().unwrap();
    prints(dir, &["-F", "-f", list, "src"], "src/a.rs:3:1:needle two\n");
    // Patterns that are plain text do not need `-F`.
    prints(dir, &["-f", list, "src"], "src/a.rs:3:1:needle two\n");
}

#[test]
fn what_is_wrong_is_said_in_flags_and_with_the_place() {
    let tree = tree();
    let dir = tree.path();
    for (args, said) in [
        (&["a(b"][..], "\n  a(b\n   ^"),
        (&["--files-without-match", "needle"], "is not offered"),
        (
            &["-g", "*.none", "needle"],
            "no eligible file matches `*.none`",
        ),
        (&["-t", "nonsense", "needle"], "--type-list"),
        // An unknown property is not a syntax error, but its position is shown too.
        (&[r"a\p{Foo}"], "\n  a\\p{Foo}\n   ^"),
    ] {
        let (status, out, err) = run(dir, args);
        assert_ne!(status, 0, "{args:?}");
        assert!(format!("{out}{err}").contains(said), "{args:?}: {out}{err}");
    }
    let (_, _, err) = run(dir, &["--files-without-match", "needle"]);
    assert!(!err.contains("did you mean"), "{err}");
    // The error for an unknown flag names neither its opposite nor the usage of its opposite.
    for (typed, opposite) in [
        ("--no-fuzzy", "--fuzzy"),
        ("--no-vimgrep", "--vimgrep"),
        ("--no-case-sensitive", "--case-sensitive"),
        ("--no-count", "--no-column"),
    ] {
        let (status, out, err) = run(dir, &[typed, "needle"]);
        assert_eq!((status, out.as_str()), (2, ""), "{typed}");
        assert!(err.contains("Usage: forge-search [OPTIONS]"), "{err}");
        assert!(!err.replace(typed, "").contains(opposite), "{err}");
    }
    for (root, args) in [
        ("/", &["--index", "on", "x", "/"][..]),
        ("home", &["--index", "on", "x"]),
    ] {
        let mut program = forge_search(dir);
        let output = program.args(args).env("HOME", dir).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{root}: {err}");
        assert!(err.contains("--root"), "{root}: {err}");
    }
}

#[test]
fn manual_pages_of_all_commands_are_written() {
    let tree = tree();
    let dir = tree.path().join("man");
    let (status, out, err) = run(tree.path(), &["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(status, 0, "{err}");
    let pages = fs::read_dir(&dir).unwrap();
    let pages: BTreeSet<String> = pages
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(out.starts_with(&format!("{} pages", pages.len())), "{out}");
    for page in [
        "forge-search.1",
        "forge-search-index-build.1",
        "ggrep.1",
        "ggrep-stop.1",
    ] {
        let text = fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(pages.iter().all(|page| !page.contains("help")), "{pages:?}");
    let (status, _, err) = run(tree.path(), &["man", "--dir", "src/a.rs"]);
    assert_eq!(status, 2);
    assert!(err.contains("--dir src/a.rs"), "{err}");
}
