//! Compares `--rg-json` with ripgrep's `--json` on files with NUL bytes. Apart from times, the
//! bytes are equal.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use forge_search::internal::exec::external::detect::Tool;

use crate::cli::{command, forge_search};
use crate::differential::rg::Ripgrep;
use crate::peers::peers;
use crate::skipped::skipped;
use crate::support::{is_long, is_turn};

/// Lines of 12 bytes without a match.
fn filler(bytes: usize) -> String {
    "filler line\n".repeat(bytes / 12)
}

/// Texts with a NUL byte at every place that matters. ripgrep reads blocks of 64 KiB.
fn texts() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, text: Vec<u8>| all.push((name.to_string(), text));
    for (name, text) in [
        ("first", "\0needle\nneedle\n"),
        ("in-the-line", "x\na needle\0needle\nneedle\n"),
        ("line-before", "a needle\n\0\nb\nneedle\n"),
        ("line-after", "a\n\0\nneedle\n"),
        ("no-match", "a\n\0\nb\n"),
        ("last-byte", "a needle\nneedle\0"),
        ("returns", "a needle\r\n\0needle\r\nb\r\nneedle\r"),
        ("marked", "\u{feff}needle\nx\0needle\n"),
        ("short-lines", "n\nneedle\n\0needle\n"),
        ("no-nul", "needle\na\nneedle\n"),
    ] {
        add(&format!("early-{name}"), text.into());
    }
    // These texts have two or three blocks, or a match near the end of a block.
    for before in [65_520, 65_532, 65_544, 100_000, 131_064, 200_000, 330_000] {
        for (name, text) in [
            ("line-before", "needle one\nb \0 c\nneedle two\n"),
            ("in-the-line", "a\nneedle \0 needle\nneedle two\nb\n"),
            ("far-behind", "a \0 b\nc\nd\ne\nneedle\n"),
            ("several", "needle\0\0\nneedle\nx\0needle\n"),
        ] {
            let text = format!("a needle\n{}{text}", filler(before));
            add(&format!("late-{before}-{name}"), text.into());
        }
    }
    let far = filler(150_000);
    add("hidden", format!("{far}a \0 b\nneedle\n").into());
    add(
        "between",
        format!("{far}needle\n{far}\0\n{far}needle\n").into(),
    );
    add(
        "marked-late",
        format!("\u{feff}needle\n{far}needle\0\nneedle\n").into(),
    );
    let wide = format!("needle\n{}x\0needle\nneedle\n", filler(40_000));
    let wide = wide.encode_utf16().flat_map(u16::to_le_bytes);
    add("wide", [0xff, 0xfe].into_iter().chain(wide).collect());
    // This file must be the last one: for later files, ripgrep keeps its larger block buffer.
    let long = "x".repeat(200_000);
    add(
        "with-a-long-line",
        format!("needle\n{long}\0needle\nneedle\n").into(),
    );
    all
}

/// Removes elapsed times from the output.
fn without_times(output: &Output) -> String {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("\"elapsed") {
        let (before, time) = rest.split_at(at);
        out.push_str(before);
        rest = time.split_once('}').unwrap().1;
    }
    out + rest
}

struct Both {
    ripgrep: Ripgrep,
}

impl Both {
    /// Returns `None` without a ripgrep of the version that is imitated.
    fn find() -> Option<Both> {
        let ripgrep = Ripgrep::newest().filter(|ripgrep| ripgrep.major >= 15);
        if ripgrep.is_none() {
            skipped("no ripgrep 15: its rules for binary files can't be compared");
        }
        Some(Both { ripgrep: ripgrep? })
    }

    /// Runs both programs with the same arguments, and returns both outputs.
    fn told(&self, dir: &Path, args: &[&str], stdin: Option<&str>) -> (String, String) {
        let input = || match stdin {
            Some(path) => Stdio::from(fs::File::open(dir.join(path)).unwrap()),
            None => Stdio::null(),
        };
        let ours = [&["--rg-json", "-s", "--max-results", "0"], args].concat();
        let ours = forge_search(dir).args(&ours).stdin(input()).output();
        let mut theirs = command(self.ripgrep.program.to_str().unwrap(), dir);
        let theirs = theirs
            .args(["--no-config", "--json", "-s", "-j1", "--sort", "path"])
            .args(args)
            .stdin(input())
            .output();
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert_eq!(ours.stderr, b"", "{args:?}");
        (without_times(&ours), without_times(&theirs))
    }
}

const PATTERNS: [&[&str]; 9] = [
    &["needle"],
    &["^needle"],
    &["ne[^ ]*e"],
    &["-C1", "needle"],
    &["-A2", "needle"],
    &["-m1", "needle"],
    &["-m1", "-A3", "needle"],
    &["-m2", "-C1", "needle"],
    &["-w", "-e", "needle", "-e", "^b"],
];

/// Compares the messages of both programs about single files.
#[track_caller]
fn same(both: &Both, dir: &Path, args: &[&str], stdin: Option<&str>) {
    let (ours, theirs) = both.told(dir, args, stdin);
    let messages = |told: &str| -> Vec<String> {
        let lines = told
            .lines()
            .filter(|line| !line.contains("\"type\":\"summary\""));
        lines.map(str::to_string).collect()
    };
    let (ours, theirs) = (messages(&ours), messages(&theirs));
    let pairs = ours.iter().zip(&theirs);
    let shown: Vec<&str> = args.iter().copied().take(6).collect();
    for (ours, theirs) in pairs {
        assert_eq!(ours, theirs, "{shown:?} {stdin:?}");
    }
    assert_eq!(ours.len(), theirs.len(), "{shown:?} {stdin:?}");
}

#[test]
fn files_with_nul_bytes_have_the_messages_of_ripgrep() {
    let Some(both) = Both::find() else { return };
    let tree = tempfile::tempdir().unwrap();
    let dir = tree.path();
    let texts = texts();
    for (name, text) in &texts {
        fs::write(dir.join(name), text).unwrap();
    }
    fs::create_dir(dir.join("in")).unwrap();
    let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
    for pattern in PATTERNS {
        same(&both, dir, pattern, None);
        // ripgrep reads files in blocks if there are many, or a directory as well. It maps a few
        // files.
        same(&both, dir, &[pattern, &names].concat(), None);
        same(&both, dir, &[pattern, &[names[0], "in"]].concat(), None);
        for few in names.chunks(10) {
            same(&both, dir, &[pattern, few].concat(), None);
        }
    }
    for name in &names {
        same(&both, dir, &["needle", "-"], Some(name));
        same(&both, dir, &["-C1", "ne[^ ]*e", "-"], Some(name));
    }
    // Each line of the filler matches.
    let some = if is_long() {
        &names[..]
    } else {
        &names[20..24]
    };
    same(&both, dir, &[&["n[^ ]*e"], some].concat(), None);
}

#[test]
fn a_match_that_ripgrep_does_not_search_for_is_a_note_of_the_summary() {
    let tree = tempfile::tempdir().unwrap();
    let dir = tree.path();
    fs::write(dir.join("hidden"), filler(150_000) + "a \0 b\nneedle\n").unwrap();
    fs::write(dir.join("early"), "\0\nneedle\n").unwrap();
    fs::write(dir.join("ended"), "a\0needle\nneedle\n").unwrap();
    let told = |args: &[&str]| {
        let output = forge_search(dir).args(args).output().unwrap();
        assert_eq!(output.stderr, b"");
        without_times(&output)
    };
    let searched = forge_search(dir).args(["--rg-json", "needle"]).output();
    assert_eq!(searched.unwrap().status.code(), Some(1));
    let walked = told(&["--rg-json", "needle"]);
    assert_eq!(walked.lines().count(), 1, "{walked}");
    let note = "hidden: binary file matches (found a zero byte at offset 150002)";
    assert!(
        walked.contains(note) && !walked.contains("early"),
        "{walked}"
    );
    // A file that is an argument reports its lines. An index does not change the output.
    let named = told(&["--rg-json", "needle", "hidden"]);
    assert!(
        named.contains("\"matched_lines\":1") && !named.contains("note"),
        "{named}"
    );
    assert_eq!(told(&["--index", "on", "--rg-json", "needle"]), walked);
    // To other engines a NUL byte does not end a line. The messages are the same all the same.
    for (tool, engine, key) in [
        (Tool::Ripgrep, "backend=rg", "fallback_binary"),
        (Tool::Ugrep, "backend=ugrep", "binary"),
    ] {
        for program in peers(tool) {
            let at = format!("{key}={}", program.path.display());
            let engine = ["--rg-json", "--set", engine, "--set", at.as_str()];
            assert_eq!(told(&[&engine[..], &["needle"]].concat()), walked);
            let named = ["-F", "-x", "needle", "ended", "."];
            let ours = told(&[&["--rg-json"], &named[..]].concat());
            assert!(ours.contains("\"matched_lines\":2"), "{ours}");
            assert_eq!(told(&[&engine[..], &named].concat()), ours);
        }
    }
}

#[test]
fn a_file_that_is_not_read_at_once_has_the_messages_of_ripgrep() {
    let Some(both) = Both::find() else { return };
    let tree = tempfile::tempdir().unwrap();
    let dir = tree.path();
    let text = format!("needle\n{}a needle\0needle\nneedle\n", filler(33 << 20));
    fs::write(dir.join("large"), &text).unwrap();
    fs::write(dir.join("marked"), format!("\u{feff}{text}")).unwrap();
    fs::create_dir(dir.join("in")).unwrap();
    let all = [&[][..], &["large"], &["marked"], &["large", "in"]];
    for (nth, paths) in all.into_iter().enumerate() {
        // The long tests try both patterns, and other runs take turns.
        for (turn, pattern) in [&["needle"][..], &["-B1", "needle.?"]]
            .into_iter()
            .enumerate()
        {
            if is_turn(nth + turn, 2) {
                same(&both, dir, &[pattern, paths].concat(), None);
            }
        }
    }
}
