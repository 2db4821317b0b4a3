//! Tests that random combinations of flags give the same output, however they are answered.
//!
//! Each command runs without an index, with the index of the whole tree, and with the tree's
//! daemon. It runs in the root of the tree or in a subdirectory. Edits change the tree in between.
//!
//! `FORGE_SEARCH_TEST_COMBINATIONS` sets the number of combinations.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Output;

use super::program::{Place, kill};
use crate::differential::Seeded;

/// The paths and texts of the files.
const FILES: [(&str, &str); 16] = [
    ("a.rs", "fn needle() {}\nlet hay = 1;\n\nneedle needle\n"),
    ("b.txt", "straw\nhay in a stack\nNEEDLE\n"),
    ("src/lib.rs", "mod deep;\n// needle in rust\n"),
    ("src/deep/mod.rs", "pub fn thread() {}\nhay\nhay\nneedle\n"),
    ("src/deep/er/x.py", "def needle():\n    return 'hay'\n"),
    ("src/deep/er/y.md", "# Hay\r\nneedle\r\n"),
    (
        "docs/guide.md",
        "A needle, and thread.\nta\u{17f}k \u{212a}elvin\n",
    ),
    ("docs/.hidden.md", "hidden needle\n"),
    ("docs/binary.bin", "needle before\n\0needle after\n"),
    ("target/out.txt", "ignored needle\n"),
    ("e\u{301}/n.txt", "needle\n"),
    ("\u{e9}/n.txt", "needle\n"),
    ("line\nfeed.txt", "needle in a strange name\n"),
    ("with space/s.txt", "needle\tand\u{1b}[31mcolour\n"),
    ("empty.txt", ""),
    ("no-end.txt", "hay and needle"),
];

/// The directories, relative to the root, in which the program runs.
const DIRS: [&str; 7] = [
    "",
    "src",
    "src/deep",
    "docs",
    "target",
    "e\u{301}",
    "with space",
];

const PATTERNS: [&str; 14] = [
    "needle",
    "Needle",
    "n.*le",
    "hay|straw",
    "^$",
    "absent from it",
    "needle$",
    "fn (\\w+)",
    "task",
    "kelvin",
    "\\d",
    "(",
    "needlf",
    "",
];

const FLAGS: [&str; 47] = [
    "-i",
    "-s",
    "-S",
    "-F",
    "-w",
    "-x",
    "-c",
    "--count-matches",
    "-l",
    "-o",
    "-q",
    "--json",
    "--rg-json",
    "--vimgrep",
    "--files",
    "-.",
    "--no-ignore",
    "-u",
    "-uu",
    "--no-recursive",
    "-A1",
    "-B2",
    "-C1",
    "-m1",
    "-m2",
    "-d2",
    "-trust",
    "-Trust",
    "-tpy",
    "-g*.rs",
    "-g!*.md",
    "-g/src",
    "-gdeep/",
    "--max-filesize=20",
    "--fuzzy=1",
    "--max-results=3",
    "--no-messages",
    "--trim",
    "--max-columns=20",
    "-H",
    "--no-line-number",
    "--sort=path",
    "--sortr=path",
    "-0",
    "-j1",
    "--stats",
    "-L",
];

const PATHS: [&str; 8] = [
    ".", "src", "docs", "a.rs", "absent", "../docs", "deep", "../a.rs",
];

fn arguments(rng: &mut Seeded) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    for _ in 0..rng.below(4) {
        args.push(rng.pick(&FLAGS).to_string());
    }
    if args.iter().any(|arg| arg == "--json") {
        // With `--json`, statistics are fields of the answer, and say which process answered.
        args.retain(|arg| arg != "--stats");
    }
    if rng.one_in(5) {
        args.extend(["-e", rng.pick(&PATTERNS), "-e", rng.pick(&PATTERNS)].map(str::to_string));
    } else if !args.iter().any(|arg| arg == "--files") {
        args.push(format!("--regexp={}", rng.pick(&PATTERNS)));
    }
    if rng.one_in(3) {
        args.extend((0..=rng.below(2)).map(|_| rng.pick(&PATHS).to_string()));
    }
    args
}

/// Changes a file or directory as editors, build tools and git do.
fn edit(rng: &mut Seeded, root: &Path, n: usize) {
    let (path, text) = rng.pick(&FILES);
    let path = root.join(path);
    let _ = fs::create_dir_all(path.parent().unwrap());
    let words = rng.pick(&["needle", "hay", "thread", "\u{212a}elvin"]);
    let text = format!("{words} {n}\n{text}");
    match rng.below(8) {
        0 => {
            let _ = fs::remove_file(&path);
        }
        1 => {
            let _ = fs::rename(root.join("src/deep"), root.join("src/shallow"));
        }
        2 => {
            let _ = fs::rename(root.join("src/shallow"), root.join("src/deep"));
        }
        3 => {
            let rules = rng.pick(&["target/\n", "*.md\n", "deep\n", "!target\n"]);
            let dir = rng.pick(&["", "src", "docs"]);
            fs::write(root.join(dir).join(".ignore"), rules).unwrap();
        }
        4 => {
            // A swap file that exists for a moment.
            let _ = fs::write(root.join("docs/.swp"), "needle");
            let _ = fs::remove_file(root.join("docs/.swp"));
        }
        5 => {
            let _ = fs::write(&path, text);
        }
        _ => {
            // An editor that saves by renaming.
            let new = path.with_extension("new");
            if fs::write(&new, text).is_ok() {
                let _ = fs::rename(&new, &path);
            }
        }
    }
}

/// Returns the text of an answer without the fields that depend on how it was found: the elapsed
/// times, and the bytes that were read.
pub(super) fn without_times(text: &str) -> String {
    let mut out = text.to_string();
    for name in ["elapsed_total", "elapsed"] {
        while let Some(start) = out.find(&format!("\"{name}\":{{")) {
            let end = out[start..]
                .find('}')
                .map_or(out.len(), |end| start + end + 1);
            out.replace_range(start..end, "");
        }
    }
    let name = "\"bytes_searched\":";
    let mut start = 0;
    while let Some(at) = out[start..].find(name) {
        start += at + name.len();
        let digits = out[start..].bytes().take_while(u8::is_ascii_digit).count();
        out.replace_range(start..start + digits, "");
    }
    out
}

/// Returns the exit code and the output of a run, without statistics.
fn printed(output: &Output) -> (Option<i32>, String, String) {
    let out: String = output
        .stdout
        .escape_ascii()
        .to_string()
        .replace("\\\"", "\"");
    let out = without_times(&out);
    // `--stats` says which process answered, and how.
    let is_stats = |line: &&str| line.starts_with("  ") || line.contains(" covered, ");
    let err = String::from_utf8_lossy(&output.stderr);
    let err: Vec<&str> = err.lines().filter(|line| !is_stats(line)).collect();
    (output.status.code(), out, err.join("\n"))
}

#[test]
fn process_index_and_daemon_answer_every_combination_of_flags_alike_from_every_directory() {
    let count = match std::env::var("FORGE_SEARCH_TEST_COMBINATIONS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 60,
    };
    let place = Place::new();
    let root = place.root();
    for (path, text) in FILES {
        place.write(path, text);
    }
    let no_text = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"docs/\xff.txt");
    fs::write(root.join(no_text), b"needle \xff\xfe\n").unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    place.write(".gitignore", "target/\n");
    let built = place.forge_search(&["index", "build"]);
    assert!(built.status.success(), "{built:?}");
    // Another directory for sockets, in which the command finds no daemon.
    let apart = place.dir().join("apart");
    fs::create_dir(&apart).unwrap();
    let mut daemon = place.serve(&[]);
    let mut rng = Seeded::new(24);
    let (mut asked, mut by_daemon, mut found) = (0, 0, 0);
    for n in 0..count {
        if rng.one_in(10) {
            edit(&mut rng, &root, n);
        }
        let dir = root.join(rng.pick(&DIRS));
        if !dir.is_dir() {
            continue;
        }
        let args = arguments(&mut rng);
        let run = |index: &str, is_apart: bool, more: &[&str]| {
            let mut command = place.command(env!("CARGO_BIN_EXE_forge-search"), more);
            command
                .args(&args)
                .args(["--index", index])
                .current_dir(&dir);
            if is_apart {
                command
                    .env("XDG_RUNTIME_DIR", &apart)
                    .env("XDG_STATE_HOME", &apart);
            }
            command.output().unwrap()
        };
        let plain = printed(&run("off", true, &[]));
        let indexed = printed(&run("auto", true, &[]));
        let answered = printed(&run("auto", false, &[]));
        let shown = || format!("{n}: {args:?} in {dir:?}");
        assert_eq!(indexed, plain, "an index changes {}", shown());
        assert_eq!(answered, plain, "a daemon changes {}", shown());
        found += usize::from(plain.0 == Some(0));
        if n % 5 == 0 && plain.0 != Some(2) {
            let said = run("auto", false, &["--debug"]);
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            asked += 1;
            by_daemon += usize::from(said.contains("the daemon of the tree answered"));
        }
    }
    println!(
        "combinations: {count}, {found} with matches; {by_daemon} of {asked} looked at by the daemon"
    );
    assert!(found * 8 > count, "{found} of {count}");
    assert!(by_daemon * 10 > asked * 9, "{by_daemon} of {asked}");
    kill(
        i32::try_from(daemon.id()).unwrap(),
        rustix::process::Signal::TERM,
    );
    daemon.wait().unwrap();
}
