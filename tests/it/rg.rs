//! Tests ripgrep's command line without a ripgrep: its call by name or argument, its files, and its
//! streams.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::Tree;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forge-search");

/// Prepares a call under the name `rg`, without standard input.
pub(crate) fn rg() -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .arg0("rg")
        .env_remove("RIPGREP_CONFIG_PATH")
        .stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs a call in a directory: its exit status, standard output and standard error.
fn run(dir: &Path, args: &[&str]) -> (i32, String, String) {
    output(rg().args(args).current_dir(dir))
}

/// Returns the output of a call that finds something and has no message.
fn found(dir: &Path, args: &[&str]) -> String {
    let (status, out, err) = run(dir, args);
    assert_eq!((status, err.as_str()), (0, ""), "{args:?}");
    out
}

#[test]
fn the_name_and_the_argument_are_the_same_call() {
    let tree = Tree::of([("a", "foo\n"), ("serve", "serve\n")]);
    assert_eq!(found(tree.root(), &["foo"]), "a:foo\n");
    // A word that is a command elsewhere is a pattern here.
    assert_eq!(found(tree.root(), &["serve"]), "serve:serve\n");
    let mut command = Command::new(PROGRAM);
    command
        .args(["rg", "foo"])
        .current_dir(tree.root())
        .stdin(Stdio::null());
    assert_eq!(output(&mut command), (0, "a:foo\n".into(), String::new()));
}

#[test]
fn the_version_is_one_that_clients_of_ripgrep_accept() {
    let tree = Tree::new();
    for flag in ["-V", "--version"] {
        let out = found(tree.root(), &[flag]);
        assert!(out.starts_with("ripgrep 15.2.0 (forge-search "), "{out}");
    }
    assert!(found(tree.root(), &["-h"]).contains("--no-ignore-vcs"));
}

#[test]
fn paths_are_printed_as_they_were_typed() {
    let tree = Tree::of([("sub/a", "foo\n"), ("b", "foo\n")]);
    let root = tree.root();
    let absolute = root.join("sub/a");
    let absolute = absolute.to_str().unwrap();
    for (args, expected) in [
        (&["--sort=path", "foo"][..], "b:foo\nsub/a:foo\n"),
        (&["--sort=path", "foo", "."], "./b:foo\n./sub/a:foo\n"),
        (&["foo", "sub"], "sub/a:foo\n"),
        (&["foo", "sub/a"], "foo\n"),
        (&["foo", absolute], "foo\n"),
        (&["-H", "foo", absolute], &format!("{absolute}:foo\n")),
        (&["-c", "foo", "b", "sub/../b"], "b:1\nsub/../b:1\n"),
    ] {
        let sorted = ["--sort=path", "-N"].iter().chain(args).copied();
        assert_eq!(
            found(root, &sorted.collect::<Vec<_>>()),
            expected,
            "{args:?}"
        );
    }
}

#[test]
fn exit_statuses_and_messages_are_those_of_ripgrep() {
    let tree = Tree::of([("a", "foo\n")]);
    assert_eq!(
        run(tree.root(), &["bar"]),
        (1, String::new(), String::new())
    );
    let (status, out, err) = run(tree.root(), &["foo", "a", "missing"]);
    assert_eq!((status, out.as_str()), (2, "a:foo\n"));
    assert!(
        err.starts_with("rg: missing: ") && err.lines().count() == 1,
        "{err}"
    );
    assert_eq!(run(tree.root(), &["-q", "foo", "a", "missing"]).0, 0);
    let silent = run(tree.root(), &["--no-messages", "foo", "missing"]);
    assert_eq!(silent, (2, String::new(), String::new()));
    for (args, message) in [
        (&["(", "a"][..], "regex parse error:"),
        (&["-P", "foo"], "PCRE2 is not available"),
        (
            &["--hiden", "foo"],
            "unrecognized flag --hiden\n\nsimilar flags",
        ),
        (&["-g", "{", "foo"], "error parsing glob '{'"),
        (
            &["-t", "nonesuch", "foo"],
            "unrecognized file type: nonesuch",
        ),
        (&["-g", "nothing", "foo"], "No files were searched"),
        (&[], "ripgrep requires at least one pattern"),
    ] {
        let (status, out, err) = run(tree.root(), args);
        assert_eq!((status, out.as_str()), (2, ""), "{args:?}");
        assert!(
            err.starts_with(&format!("rg: {message}")),
            "{args:?}: {err}"
        );
    }
    assert_eq!(run(tree.root(), &["--pcre2-version"]).0, 1);
}

#[test]
fn standard_input_is_searched_if_it_is_a_pipe_and_no_path_is_given() {
    let tree = Tree::of([("a", "foo in a file\n")]);
    let piped = |args: &[&str]| {
        let mut child = rg()
            .args(args)
            .current_dir(tree.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(b"foo piped\n")
            .unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    assert_eq!(piped(&["foo"]), "foo piped\n");
    assert_eq!(piped(&["foo", "-"]), "foo piped\n");
    assert_eq!(piped(&["foo", "a"]), "foo in a file\n");
    assert_eq!(piped(&["-f", "-"]), "");
    assert_eq!(piped(&["--files"]), "a\n");
}

#[test]
fn a_match_is_printed_before_the_input_ends() {
    let tree = Tree::new();
    let mut child = rg()
        .args(["--line-buffered", "foo"])
        .current_dir(tree.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"a foo\nmore\n").unwrap();
    let mut first = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut first).unwrap();
    assert_eq!(first, "a foo\n");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_closed_output_is_no_error() {
    let long = "foo\n".repeat(100_000);
    let tree = Tree::of([("a", &long), ("b", &long)]);
    // With one thread, the match whose line can't be written does not count. ripgrep does the same.
    for (threads, status) in [("-j1", 1), ("-j2", 0)] {
        let mut child = rg()
            .args([threads, "foo"])
            .current_dir(tree.root())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{threads}");
        assert!(output.stderr.is_empty(), "{threads}");
    }
}

#[test]
fn large_results_of_several_files_do_not_mix() {
    const LINES: usize = 20_000;

    let tree = Tree::of([("small.txt", "needle\n")]);
    for name in ["a", "b", "c", "d"] {
        let line = |n| format!("{n} needle {}\n", name.repeat(60));
        let text: String = (1..=LINES).map(line).collect();
        tree.file(&format!("{name}.txt"), text);
    }
    for args in [
        &["-j4", "-n", "needle"][..],
        &["-j4", "-n", "-C1", "needle"],
        &["-j4", "-n", "--color=always", "needle"],
    ] {
        let (code, out, err) = run(tree.root(), args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        let (mut order, mut last, mut separators) = (Vec::new(), 0, 0);
        for line in out.lines() {
            if line == "--" {
                separators += 1;
                continue;
            }
            let plain = strip_ansi(line);
            let (path, rest) = plain.split_once(':').unwrap();
            let number: usize = rest.split(':').next().unwrap().parse().unwrap();
            match order.last() == Some(&path.to_string()) {
                true => assert_eq!(number, last + 1, "{args:?}: {line}"),
                false => {
                    assert_eq!(number, 1, "{args:?}: {line}");
                    order.push(path.to_string());
                }
            }
            last = number;
        }
        order.sort();
        assert_eq!(order, ["a.txt", "b.txt", "c.txt", "d.txt", "small.txt"]);
        assert_eq!(separators, if args.contains(&"-C1") { 4 } else { 0 });
        assert_eq!(out.lines().count(), 4 * LINES + 1 + separators);
    }
}

/// Returns the text without the escape sequences of colours.
fn strip_ansi(text: &str) -> String {
    let parts = text.split('\x1b').enumerate();
    let without = parts.map(|(nth, part)| match nth {
        0 => part,
        _ => part.split_once('m').map_or("", |(_, rest)| rest),
    });
    without.collect()
}

#[test]
fn case_is_folded_by_the_rules_of_unicode() {
    let tree = Tree::of([("a", "Привет\nkelvin \u{212a}\n\u{17f}\nΣ\n")]);
    let count = |args: &[&str]| found(tree.root(), &[args, &["-c", "a"]].concat());
    for pattern in ["привет", "\u{212a}ELVIN", "^s$", "ς"] {
        assert_eq!(count(&["-i", pattern]), "1\n", "{pattern}");
    }
    assert_eq!(count(&["-S", "привет"]), "1\n");
    assert_eq!(run(tree.root(), &["-S", "ПРИВЕТ", "a"]).0, 1);
    assert_eq!(
        run(tree.root(), &["-i", "--no-unicode", "привет", "a"]).0,
        1
    );
}

#[test]
fn nothing_is_left_out_that_ripgrep_prints() {
    let many = "foo\n".repeat(100_001);
    let tree = Tree::of([("many", many.as_bytes()), ("key.pem", b"foo\n")]);
    tree.file("latin1", b"caf\xe9 foo\n".as_slice())
        .file("binary", b"foo\0".as_slice())
        .link("outside", "/dev/null");
    assert_eq!(found(tree.root(), &["-c", "foo", "many"]), "100001\n");
    assert_eq!(found(tree.root(), &["foo", "key.pem"]), "foo\n");
    let raw = rg()
        .args(["foo", "latin1"])
        .current_dir(tree.root())
        .output();
    assert_eq!(raw.unwrap().stdout, b"caf\xe9 foo\n");
    let binary = found(tree.root(), &["foo", "binary"]);
    assert!(binary.starts_with("binary file matches"), "{binary}");
    let listed = found(tree.root(), &["-l", "--sort=path", "foo"]);
    assert_eq!(listed, "key.pem\nlatin1\nmany\n");
}

#[test]
fn a_configuration_file_comes_first_and_can_be_turned_off() {
    let tree = Tree::of([("a", "FOO\n"), ("rc", "# case\n-i\n\n--max-count=0\n")]);
    let with = |args: &[&str]| {
        let config = tree.path("rc");
        output(
            rg().args(args)
                .env("RIPGREP_CONFIG_PATH", config)
                .current_dir(tree.root()),
        )
    };
    assert_eq!(with(&["-m1", "foo", "a"]).1, "FOO\n");
    assert_eq!(with(&["foo", "a"]).0, 1);
    assert_eq!(with(&["--no-config", "-m1", "foo", "a"]).0, 1);
    let (_, _, err) = output(
        rg().args(["FOO", "a"])
            .env("RIPGREP_CONFIG_PATH", tree.path("missing"))
            .current_dir(tree.root()),
    );
    assert!(err.starts_with("rg: failed to read the file specified in RIPGREP_CONFIG_PATH"));
}

#[test]
fn generated_texts_can_be_read_by_their_programs() {
    let tree = Tree::new();
    for kind in ["man", "complete-bash", "complete-zsh", "complete-fish"] {
        let text = found(tree.root(), &["--generate", kind]);
        assert!(text.contains("no") && text.contains("ignore"), "{kind}");
    }
    let script = found(tree.root(), &["--generate=complete-bash"]);
    tree.file("script", script);
    let checked = Command::new("bash")
        .arg("-n")
        .arg(tree.path("script"))
        .status();
    assert!(checked.unwrap().success());
}

#[test]
fn debug_messages_go_to_standard_error() {
    let tree = Tree::of([("a", "foo\n")]);
    let (status, out, err) = run(tree.root(), &["--debug", "foo"]);
    assert_eq!((status, out.as_str()), (0, "a:foo\n"));
    assert!(err.contains("rg: DEBUG|forge_search::tool::rg"), "{err}");
}

#[test]
fn the_crates_of_ripgrep_have_the_versions_of_ripgrep_15_2() {
    let lock = include_str!("../../Cargo.lock");
    for (name, version) in [
        ("globset", "0.4.19"),
        ("grep-cli", "0.1.12"),
        ("grep-matcher", "0.1.9"),
        ("grep-printer", "0.3.1"),
        ("grep-regex", "0.1.14"),
        ("grep-searcher", "0.1.17"),
        ("ignore", "0.4.29"),
    ] {
        let package = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        assert!(lock.contains(&package), "{name}");
        assert_eq!(lock.matches(&format!("name = \"{name}\"\n")).count(), 1);
    }
}

#[test]
fn without_a_required_repository_a_linked_worktree_has_no_excludes() {
    let tree = Tree::of([
        ("main/.git/info/exclude", "excluded\n"),
        ("main/.git/worktrees/linked/commondir", "../..\n"),
        ("linked/excluded", "foo\n"),
    ]);
    let git = tree.path("main/.git/worktrees/linked");
    tree.file("linked/.git", format!("gitdir: {}\n", git.display()));
    let linked = tree.path("linked");
    assert_eq!(run(&linked, &["foo"]).0, 2);
    let args = ["--no-require-git", "foo"];
    assert_eq!(found(&linked, &args), "excluded:foo\n");
}

#[test]
fn rules_below_the_depth_limit_are_read() {
    let tree = Tree::of([("a", "foo\n"), ("deep/.ignore", "[z-a]\n")]);
    let (status, out, err) = run(tree.root(), &["-d1", "foo"]);
    assert_eq!((status, out.as_str()), (0, "a:foo\n"));
    assert!(
        err.contains("deep/.ignore: line 1: error parsing glob"),
        "{err}"
    );
}
