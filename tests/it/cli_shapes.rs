//! Other output modes, and flags that ripgrep has as well. Where ripgrep is installed, the output
//! is compared with ripgrep's.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, SystemTime};

use forge_search::internal::exec::external::detect::Tool;
use serde_json::Value;

use crate::cli::{command, forge_search};
use crate::peers::peers;
use crate::system::symlink;

/// Builds a tree for which the output modes print different results.
fn tree() -> tempfile::TempDir {
    let tmp = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &[u8]| {
        let path = tmp.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "src/main.rs",
        b"fn main() {\n    needle(needle);\n}\n\n// Needle\nfn needle() {}\n",
    );
    write("src/lib.rs", b"// nothing\n\nneedle");
    write("lib.py", b"needle = 1\n# the needle of it\n");
    write(
        "doc/a.md",
        "\u{fc}ber needle und n\u{e4}del needle\r\n".as_bytes(),
    );
    write("latin1.txt", b"caf\xe9 needle \xff needle\nneedle\n");
    write("binary.bin", b"needle\n\0\nneedle\n");
    write(
        "utf16.txt",
        &[
            0xff, 0xfe, b'n', 0, b'e', 0, b'e', 0, b'd', 0, b'l', 0, b'e', 0, b'\n', 0,
        ],
    );
    write("empty.txt", b"");
    write("Makefile", b"all: needle\n");
    write(".hidden", b"needle\n");
    write(".ignore", b"ignored\n");
    write("ignored/x.rs", b"needle\n");
    tmp
}

fn run(dir: &Path, args: &[&str]) -> Output {
    forge_search(dir).args(args).output().unwrap()
}

#[track_caller]
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() < Some(2), "{output:?}");
    text.lines().map(str::to_string).collect()
}

/// Runs ripgrep, sorted by path; returns the lines that it prints.
fn rg(program: &Path, dir: &Path, args: &[&str]) -> Vec<String> {
    let mut rg = command(program.to_str().unwrap(), dir);
    let output = rg
        .args(["--no-config", "--sort", "path"])
        .args(args)
        .arg("./")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .map(|line| line.replacen("./", "", 1))
        .collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn files_counts_types_and_patterns_are_those_of_ripgrep() {
    let tree = tree();
    let dir = tree.path();
    fs::write(dir.join("patterns"), "needle \nmain\n").unwrap();
    let both: [&[&str]; 14] = [
        &["-l", "needle"],
        &["-c", "needle"],
        &["-l", "-i", "NEEDLE", "--hidden"],
        &["--files"],
        &["--files", "-t", "rust"],
        &["--files", "-t", "make", "-t", "py"],
        &["--files", "-T", "rust", "-g", "!*.md"],
        &["-c", "-t", "rust", "-g", "src/m*", "needle"],
        &["-c", "-e", "main", "-e", "nothing"],
        &["-c", "-F", "-e", "needle(", "-e", "= 1"],
        &["-c", "-f", "patterns"],
        &["-c", "-w", "-e", "needl", "-e", "main"],
        &["-l", "--max-count", "1", "needle"],
        &["-l", "absent"],
    ];
    for program in peers(Tool::Ripgrep) {
        for args in both {
            // The two programs have different case defaults, so both get `-S`.
            let args = [args, &["-S"]].concat();
            let ours = lines(&run(dir, &args));
            let theirs = rg(&program.path, dir, &args);
            let theirs = theirs
                .into_iter()
                .filter(|line| !line.starts_with("binary.bin"));
            let ours_too = ours.iter().filter(|line| !line.starts_with("binary.bin"));
            // The two programs also order paths differently.
            assert_eq!(
                sorted(ours_too.cloned().collect()),
                sorted(theirs.collect()),
                "{args:?}"
            );
        }
        let types = String::from_utf8(run(dir, &["--type-list"]).stdout).unwrap();
        assert!(types.contains("\nrust: *.rs\n"), "{types}");
    }
}

/// Compares the exit status and the printed lines with ripgrep's, in any order of files.
#[track_caller]
fn same_as_rg(dir: &Path, args: &[&str]) {
    for program in peers(Tool::Ripgrep) {
        let ours = run(dir, &[args, &["-s", "--max-results", "1000"]].concat());
        let theirs = rg(&program.path, dir, &[args, &["-s"]].concat());
        assert_eq!(
            ours.status.code(),
            Some(theirs.is_empty().into()),
            "{args:?}"
        );
        assert_eq!(sorted(lines(&ours)), sorted(theirs), "{args:?}");
    }
}

#[test]
fn types_are_of_files_and_not_of_directories() {
    let tree = tree();
    let dir = tree.path();
    for path in ["named.rs/inner.txt", "named.rs/deep.rs", "named.rs/py/a.py"] {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "needle\n").unwrap();
    }
    for args in [
        &["-t", "rust"][..],
        &["-T", "rust"],
        &["-t", "rust", "-t", "py"],
        &["-t", "rust", "-T", "py", "-g", "!src"],
        &["-T", "rust", "-g", "!named.rs/"],
        &["-t", "txt", "-g", "named.rs/*.txt"],
        &["-T", "all"],
        &["-t", "all", "-T", "txt"],
    ] {
        same_as_rg(dir, &[&["--files"], args].concat());
        same_as_rg(
            dir,
            &[&["-l", "-g", "!binary.bin", "needle"], args].concat(),
        );
    }
}

#[test]
fn flags_that_other_tools_have_mean_the_same() {
    let tree = tree();
    let dir = tree.path();
    fs::write(dir.join("none"), "").unwrap();
    fs::write(dir.join("one"), "\n").unwrap();
    fs::write(dir.join("some"), "needle\n\n").unwrap();
    for args in [
        &["-no", "--column", "-H", "n[a-z]*"][..],
        // Here, a line never includes its terminator. ripgrep differs on the two excluded files:
        // one has CRLF line ends, and the other one an unterminated last line.
        &["-no", "--column", "x*", "-g", "!doc", "-g", "!src/lib.rs"],
        &["-no", "--column", "caf.|need"],
        &["--count-matches", "n."],
        &["--count-matches", "-i", "NEEDLE"],
        &["-c", "-x", "needle"],
        &["-c", "-x", "-F", "-e", "}", "-e", "needle"],
        &["-n", "-x", "--column", "fn .*|"],
        &["-c", "-f", "none"],
        &["-c", "-f", "one"],
        &["-c", "-f", "some"],
        &["-c", ""],
        &["-c", "-F", "-e", "", "-e", "needle"],
        &["-u", "-l", "needle"],
        &["-uu", "-l", "needle"],
        &["-l", "--max-filesize", "1K", "needle"],
        &["--files", "--max-filesize", "20"],
        &["--files", "-t", "all", "-t", "all", "-T", "md", "-T", "md"],
    ] {
        same_as_rg(
            dir,
            &[args, &["-g", "!binary.bin", "-g", "!utf16.txt"]].concat(),
        );
    }
    let quiet = run(dir, &["-q", "needle"]);
    assert_eq!(quiet.status.code(), Some(0));
    assert_eq!((quiet.stdout, quiet.stderr), (Vec::new(), Vec::new()));
    assert_eq!(run(dir, &["-q", "absent"]).status.code(), Some(1));
    let headings = run(dir, &["--heading", "-s", "needle", "src"]);
    assert_eq!(lines(&headings)[..2], ["src/lib.rs", "3:needle"]);
}

#[test]
fn each_match_has_a_line_as_in_ripgrep() {
    let tree = tree();
    for pattern in ["needle", "n.", "^", "\\bneedle\\b", "(?i)N(e+)d"] {
        let args = ["--vimgrep", "-t", "rust", "-t", "py", pattern];
        same_as_rg(tree.path(), &args);
        // Columns count the bytes of the file, also where they are not UTF-8.
        same_as_rg(tree.path(), &["--vimgrep", "-g", "latin1.txt", pattern]);
    }
}

/// Removes the fields that differ between two runs, and those that depend on the amount of output.
fn comparable(line: &str) -> Value {
    let mut value: Value = serde_json::from_str(line).unwrap();
    let data = value["data"].as_object_mut().unwrap();
    data.remove("elapsed_total");
    if let Some(stats) = data.get_mut("stats").and_then(Value::as_object_mut) {
        for varying in ["elapsed", "bytes_printed", "searches", "bytes_searched"] {
            stats.remove(varying);
        }
    }
    value
}

#[test]
fn events_are_those_of_ripgreps_json() {
    let tree = tree();
    let dir = tree.path();
    for program in peers(Tool::Ripgrep) {
        for args in [
            &["needle"][..],
            &["-C", "1", "needle"],
            &["-A", "2", "-i", "NEEDLE", "src"],
            &["n[^ ]*e", "latin1.txt"],
            &["-F", "-e", "needle", "-e", "fn"],
            &["-w", "needle", "-t", "md"],
            &["-m1", "-C2", "needle"],
            &["needle$", "src"],
            &["-m1", "-A1", "e", "-t", "rust"],
            &["absent"],
        ] {
            let ours = run(
                dir,
                &[&["--rg-json", "-s", "--max-results", "1000"], args].concat(),
            );
            let ours: Vec<Value> = lines(&ours).iter().map(|line| comparable(line)).collect();
            let mut theirs = command(program.path.to_str().unwrap(), dir);
            let theirs = theirs
                .args(["--no-config", "--json", "-s", "-j1", "--sort", "path"])
                .args(args);
            let theirs = lines(&theirs.output().unwrap());
            let theirs: Vec<Value> = theirs.iter().map(|line| comparable(line)).collect();
            // Compare by file, since the two programs list files in different orders.
            let by_file = |all: &[Value]| -> BTreeSet<String> {
                let mut files: Vec<String> = vec![String::new()];
                for one in all {
                    if one["type"] == "begin" {
                        files.push(String::new());
                    }
                    files.last_mut().unwrap().push_str(&format!("{one}\n"));
                }
                files.into_iter().filter(|file| !file.is_empty()).collect()
            };
            let (ours_by, theirs_by) = (
                by_file(&ours[..ours.len() - 1]),
                by_file(&theirs[..theirs.len() - 1]),
            );
            assert_eq!(ours_by, theirs_by, "{args:?}");
            let (ours, theirs) = (ours.last().unwrap(), theirs.last().unwrap());
            assert_eq!(ours, theirs, "{args:?}");
        }
        // With a limit of two, exactly two matches are printed.
        let cut = run(
            dir,
            &["--rg-json", "-s", "--max-results", "2", "needle", "src"],
        );
        let cut = lines(&cut);
        assert_eq!(
            cut.iter()
                .filter(|line| line.contains("\"type\":\"match\""))
                .count(),
            2
        );
    }
}

#[test]
fn files_come_in_the_order_that_is_asked_for() {
    let tree = tree();
    let dir = tree.path();
    for (nth, path) in ["src/lib.rs", "Makefile", "lib.py", "src/main.rs"]
        .iter()
        .enumerate()
    {
        let file = fs::File::options()
            .append(true)
            .open(dir.join(path))
            .unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + 1_000 * nth as u64);
        file.set_modified(at).unwrap();
    }
    let listed = |args: &[&str]| {
        let args = [
            &["-l", "-t", "rust", "-t", "py", "-t", "make", "needle"],
            args,
        ]
        .concat();
        lines(&run(dir, &args))
    };
    let by_path = listed(&[]);
    assert_eq!(by_path, ["Makefile", "lib.py", "src/lib.rs", "src/main.rs"]);
    assert_eq!(listed(&["--sort", "path"]), by_path);
    assert_eq!(
        listed(&["--sortr", "path"]),
        by_path.iter().rev().cloned().collect::<Vec<_>>()
    );
    let oldest_first = ["src/lib.rs", "Makefile", "lib.py", "src/main.rs"];
    assert_eq!(listed(&["--sort", "modified"]), oldest_first);
    assert_eq!(
        listed(&["--sortr", "modified", "--max-results", "2"]),
        ["src/main.rs", "lib.py"]
    );
    // The lines of a file stay together and in order, and the cut is reported.
    let output = run(
        dir,
        &[
            "--sortr",
            "modified",
            "--max-results",
            "3",
            "-s",
            "needle",
            "-g",
            "*.{rs,py}",
        ],
    );
    let mut text = lines(&output);
    let said = text.pop().unwrap();
    assert_eq!(
        text.iter()
            .map(|line| line.split(':').take(2).collect::<Vec<_>>().join(":"))
            .collect::<Vec<_>>(),
        ["src/main.rs:2", "src/main.rs:6", "lib.py:1"]
    );
    assert!(said.contains("more than --max-results 3"), "{said}");
}

#[test]
fn paths_may_end_with_a_zero_byte() {
    let tree = tree();
    let output = run(tree.path(), &["-0", "-l", "needle", "src"]);
    assert_eq!(output.stdout, b"src/lib.rs\0src/main.rs\0");
    let output = run(tree.path(), &["-0", "-c", "-s", "needle", "src"]);
    assert_eq!(output.stdout, b"src/lib.rs\x001\nsrc/main.rs\x002\n");
    assert_eq!(
        lines(&run(tree.path(), &["--files", "src"])),
        ["src/lib.rs", "src/main.rs"]
    );
}

#[cfg(unix)]
#[test]
fn names_for_programs_are_those_of_the_files() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let tree = tempfile::tempdir().unwrap();
    let write = |name: &[u8], text: &[u8]| {
        let path = tree.path().join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(b"d\xff/a\xfe\n", b"needle \xff needle\n");
    write(b"plain", b"needle\n");
    let told = run(tree.path(), &["-0", "-l", "needle"]);
    assert_eq!(told.stdout, b"d\xff/a\xfe\n\0plain\0");
    let told = run(
        tree.path(),
        &["--raw", "--count-matches", "needle", "-g", "!plain"],
    );
    assert_eq!(told.stdout, b"d\xff/a\xfe\n:2\n");
    let told = run(tree.path(), &["-0", "--files", "--sortr", "modified"]);
    assert_eq!(told.stdout, b"plain\0d\xff/a\xfe\n\0");
    // Two names that are displayed alike are still two files.
    write(b"d\xfe/a\xfe\n", b"\nneedle\n");
    let told = run(tree.path(), &["-0", "-l", "needle"]);
    assert_eq!(told.stdout, b"d\xfe/a\xfe\n\0d\xff/a\xfe\n\0plain\0");
    let told = run(
        tree.path(),
        &["-0", "--count-matches", "needle", "-g", "!plain"],
    );
    assert_eq!(told.stdout, b"d\xfe/a\xfe\n\x001\nd\xff/a\xfe\n\x002\n");
    let told = run(tree.path(), &["-c", "needle"]);
    assert_eq!(lines(&told).len(), 3);
}

#[test]
fn each_match_is_told_of_lines_that_are_shortened_or_approximate() {
    let tree = tempfile::tempdir().unwrap();
    let dir = tree.path();
    let long = format!("{} needle {} needle\n", "x".repeat(100), "y".repeat(100));
    fs::write(dir.join("long"), &long).unwrap();
    let short = ["--set", "max_line_bytes=30", "needle"];
    for (shape, expected) in [
        ("-o", "long:1:102:needle\nlong:1:210:needle\n".to_string()),
        ("--count-matches", "long:2\n".to_string()),
        ("--vimgrep", format!("long:1:102:{long}long:1:210:{long}")),
    ] {
        let told = run(dir, &[&[shape], &short[..]].concat());
        assert_eq!(String::from_utf8(told.stdout).unwrap(), expected);
        assert_eq!(told.stderr, b"");
    }
    fs::write(dir.join("near"), "kmalloc_array(x)\n").unwrap();
    let near = ["-F", "--set", "fuzzy_fallback=true", "kmalloc_aray"];
    for (shape, expected) in [
        ("-o", "near:1:1:kmalloc_array\n"),
        ("--count-matches", "near:1\n"),
        ("--vimgrep", "near:1:1:kmalloc_array(x)\n"),
    ] {
        let told = run(dir, &[&[shape], &near[..]].concat());
        assert_eq!(String::from_utf8(told.stdout).unwrap(), expected);
    }
    // ripgrep's format has no approximate matches, so `--rg-json` searches for exact matches only.
    let told = run(dir, &[&["--rg-json"], &near[..]].concat());
    assert_eq!(told.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&told.stdout).contains("kmalloc"));
}

#[cfg(unix)]
#[test]
fn files_behind_links_and_outside_are_looked_into_again_where_they_were_found() {
    let place = tempfile::tempdir().unwrap();
    let (out, cwd) = (place.path().join("out"), place.path().join("cwd"));
    fs::create_dir_all(out.join("sub")).unwrap();
    fs::create_dir(&cwd).unwrap();
    fs::write(out.join("sub/real"), b"needle \xff needle\n").unwrap();
    symlink("real", out.join("sub/link")).unwrap();
    symlink("sub", out.join("dir")).unwrap();
    for (at, path) in [(&cwd, "../out"), (&out, ".")] {
        let told = run(at, &["-L", "--count-matches", "needle", path]);
        let counts = lines(&told);
        assert_eq!(counts.len(), 4, "{counts:?}");
        assert!(counts.iter().all(|line| line.ends_with(":2")), "{counts:?}");
        let told = run(at, &["-L", "--rg-json", "needle", path]);
        assert_eq!(told.status.code(), Some(0), "{told:?}");
        let told = String::from_utf8(told.stdout).unwrap();
        assert_eq!(told.matches("\"type\":\"match\"").count(), 4, "{told}");
    }
}

#[test]
fn what_ends_a_line_is_no_part_of_it_in_any_shape() {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("crlf"), "a needle\r\nneedle\r").unwrap();
    let told = |args: &[&str]| String::from_utf8(run(tree.path(), args).stdout).unwrap();
    assert_eq!(
        told(&["-o", "needle$"]),
        "crlf:1:3:needle\ncrlf:2:1:needle\n"
    );
    let json = told(&["--rg-json", "needle.?$"]);
    assert_eq!(json.matches("\"type\":\"match\"").count(), 2, "{json}");
    assert_eq!(
        json.matches(r#""match":{"text":"needle"}"#).count(),
        2,
        "{json}"
    );
    assert_eq!(told(&["--count-matches", "\\s"]), "crlf:1\n");
}

#[test]
fn long_lines_with_many_matches_take_no_longer_than_they_are_long() {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("a.js"), "a".repeat(300_000)).unwrap();
    // Work that is quadratic in the length of the line would take hours.
    let told = run(tree.path(), &["--rg-json", "a"]);
    assert_eq!(told.status.code(), Some(0));
    assert!(told.stdout.len() > 6_000_000);
    let told = run(tree.path(), &["--count-matches", "a"]);
    assert_eq!(lines(&told), ["a.js:300000"]);
}

#[test]
fn what_flags_can_not_mean_is_said() {
    let tree = tree();
    for (args, said) in [
        (&["-t", "pythn", "needle"][..], "did you mean `python`"),
        (&["-v", "needle"], "without a match"),
        (&["-nU", "needle"], "within one line"),
        (&["-uuu", "needle"], "binary"),
        (&["-o", "-C2", "needle"], "lines around"),
        (&["--files", "-e", "needle"], "searches for no pattern"),
        (&["-g", "!!*.rs", "needle"], "at most one leading !"),
        (&["--max-filesize", "99999999999G", "needle"], "too large"),
        (&["-x", "-e", "a)", "-e", "(b"], "\n  a)\n   ^"),
        (&["--max-filesize", "1T", "needle"], "500K"),
        (&["--max-filesize", "0", "needle"], "1.."),
        (&["-e", "(", "-e", "x"], "\n  (\n  ^"),
        (&["-f", "absent"], "-f absent"),
        (&["-l"], "a PATTERN is missing"),
        (&["--rg-json", "--fuzzy", "1", "needle"], "--json"),
        (&["--hyperlink-format", "emacs", "needle"], "vscode"),
        (&["--files-with-match", "needle"], "--files-with-matches"),
        (&["--sort", "size", "needle"], "modified"),
    ] {
        let output = run(tree.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains(said), "{args:?}: {told}");
    }
}

/// Runs the program on a terminal and checks that it succeeds; returns the text on the screen.
#[cfg(unix)]
fn shown(dir: &Path, args: &[&str]) -> String {
    let (status, shown) = on_terminal(dir, args);
    assert_eq!(status, 0, "{args:?}");
    shown
}

/// Runs the program on a terminal; returns its exit status and the text on the screen.
#[cfg(unix)]
fn on_terminal(dir: &Path, args: &[&str]) -> (i32, String) {
    use std::io::Read;
    let (mut master, slave) = crate::support::terminal();
    let mut program = forge_search(dir);
    program
        .args(args)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdout(slave.try_clone().unwrap())
        .stderr(slave);
    let mut child = program.spawn().unwrap();
    drop(program);
    let mut shown = Vec::new();
    // The read fails once no process has the other end of the terminal open.
    let _ = master.read_to_end(&mut shown);
    let status = child.wait().unwrap().code().unwrap();
    let shown = String::from_utf8(shown).unwrap();
    (status, shown.replace("\r\n", "\n"))
}

#[cfg(unix)]
#[test]
fn a_terminal_shows_the_first_lines_and_everything_else_gets_all() {
    let tree = tempfile::tempdir().unwrap();
    let dir = tree.path();
    fs::write(dir.join("a.txt"), "a needle\n".repeat(900)).unwrap();
    let piped = |args: &[&str]| {
        let output = run(dir, args);
        assert_eq!(output.stderr, b"", "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for way in [
        &["--index", "off"][..],
        &["--index", "on"],
        &["--daemon", "off"],
    ] {
        let all = piped(&[way, &["needle"]].concat());
        assert_eq!(all.lines().count(), 900, "{way:?}");
        assert!(
            all.lines().all(|line| line.ends_with(":a needle")),
            "{way:?}"
        );
        let screen = shown(
            dir,
            &[way, &["--color", "never", "--no-heading", "needle"]].concat(),
        );
        let lines: Vec<_> = screen.lines().collect();
        assert_eq!(lines.len(), 201, "{way:?}: {screen}");
        assert!(lines[200].contains("--max-results"), "{}", lines[200]);
    }
    // A limit from a flag or from the configuration applies on terminals and elsewhere.
    let few = piped(&["--max-results", "3", "needle"]);
    assert_eq!(few.lines().count(), 4, "{few}");
    let few = piped(&["--set", "default_max_results=5", "needle"]);
    assert_eq!(few.lines().count(), 6, "{few}");
    assert_eq!(
        shown(dir, &["--color", "never", "--max-results", "0", "needle"])
            .matches("a needle")
            .count(),
        900
    );
}

#[cfg(unix)]
#[test]
fn a_command_that_was_mistyped_by_itself_is_named_to_people() {
    let tree = tree();
    let (status, said) = on_terminal(tree.path(), &["doctr"]);
    assert_eq!(status, 1);
    assert!(
        said.contains("did you mean the command `doctor`?"),
        "{said}"
    );
    let (status, said) = on_terminal(tree.path(), &["-e", "doctr"]);
    assert_eq!((status, said.as_str()), (1, ""));
    // A program that searches for this word gets no hint.
    let told = run(tree.path(), &["doctr"]);
    assert_eq!((told.status.code(), told.stderr), (Some(1), Vec::new()));
}

#[cfg(unix)]
#[test]
fn by_itself_on_a_terminal_the_program_says_on_one_screen_what_it_does() {
    let tree = tree();
    let shown = shown(tree.path(), &[]);
    assert!(shown.lines().count() <= 40, "{shown}");
    assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
    // `-h` prints the same text, and `--help` describes each flag in it.
    let short = run(tree.path(), &["-h"]);
    assert_eq!(String::from_utf8(short.stdout).unwrap(), shown);
    let long = run(tree.path(), &["--help"]);
    let long = String::from_utf8(long.stdout).unwrap();
    let known = |flag: &str| {
        let mut words = long.split(|c: char| c.is_whitespace() || ",=<[".contains(c));
        words.any(|word| word == flag)
    };
    let end = |c: char| c.is_whitespace() || ",|`".contains(c);
    let flags = shown
        .split(end)
        .filter(|word| word.starts_with('-') && word.len() > 1);
    let flags: Vec<&str> = flags.filter(|flag| *flag != "-uu").collect();
    assert!(flags.len() > 40, "{flags:?}");
    for flag in flags {
        assert!(
            known(flag) || ["-h", "--dir", "--help"].contains(&flag),
            "{flag}"
        );
    }
    for part in ["PATTERN", "index build", "mcp", "doctor", "--help"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Off the terminal, the missing pattern is an error.
    let piped = run(tree.path(), &[]);
    assert_eq!(piped.status.code(), Some(2));
    assert_eq!(piped.stdout, b"");
}

#[cfg(unix)]
#[test]
fn links_lead_to_the_line_in_the_editor_that_is_asked_for() {
    let tree = tree();
    let dir = tree.path().canonicalize().unwrap();
    let format = "editor://{host}/open?at={path}:{line}:{column}";
    let shown_with = |format: &str| shown(&dir, &["--hyperlink-format", format, "= 1", "lib.py"]);
    let shown = shown_with(format);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let link = format!(
        "\x1b]8;;editor://{}/open?at={}/lib.py:1:8\x1b\\",
        host.trim(),
        dir.display()
    );
    assert!(shown.contains(&link), "{shown:?}");
    assert!(shown_with("file").contains(&format!("\x1b]8;;file://{}/lib.py\x1b\\", dir.display())));
    assert!(!shown_with("none").contains("\x1b]8;"));
}

#[cfg(unix)]
#[test]
fn rg_json_looks_into_nothing_but_what_was_found() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(place.path().join("secret"), "a secret needle\n").unwrap();
    fs::write(tree.join(OsStr::from_bytes(b"inv\xff")), "a needle\n").unwrap();
    fs::write(tree.join("plain"), "the needle\n").unwrap();
    // A link named like the displayed form of the other file's name.
    symlink("../secret", tree.join("inv\u{fffd}")).unwrap();
    let told = run(&tree, &["--rg-json", "needle"]);
    let out = String::from_utf8(told.stdout).unwrap();
    assert!(
        out.contains("the needle") && !out.contains("secret"),
        "{out}"
    );
    assert!(out.contains(r#""lines":{"text":"a needle\n"}"#), "{out}");
    // The path is in Base64, as in ripgrep's output.
    assert!(out.contains(r#""path":{"bytes":"aW52/w=="}"#), "{out}");
    assert_eq!(told.status.code(), Some(0));
    // A second file with the same displayed name.
    fs::write(tree.join(OsStr::from_bytes(b"inv\xfe")), "a needle\n").unwrap();
    let told = run(&tree, &["--rg-json", "needle"]);
    assert_eq!(told.status.code(), Some(0));
    let out = String::from_utf8(told.stdout).unwrap();
    assert!(out.contains(r#""path":{"bytes":"aW52/w=="}"#), "{out}");
    assert!(out.contains(r#""path":{"bytes":"aW52/g=="}"#), "{out}");
    // `-n` prints the line numbers that are printed by default as well.
    let told = forge_search(&tree)
        .args(["-n", "the needle"])
        .output()
        .unwrap();
    assert_eq!(told.stdout, b"plain:1:1:the needle\n");
}
