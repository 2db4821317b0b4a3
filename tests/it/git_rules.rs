//! Compares generated `.gitignore` patterns with the behaviour of git itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use forge_search::internal::format::manifest::IgnoreRules;
use forge_search::internal::index::rules::{ControlFiles, Rules, Verdict};

use crate::differential::Seeded;
use crate::skipped::skipped;
use crate::support::git_in;

/// Pieces of patterns. Pieces that are special to git are frequent.
const PIECES: &[&str] = &[
    "a",
    "b",
    "c",
    "ab",
    "x",
    "log",
    ".",
    ".log",
    "/",
    "/",
    "/",
    "/",
    "*",
    "*",
    "**",
    "**",
    "***",
    "?",
    "[",
    "]",
    "[!",
    "[^",
    "[a",
    "-",
    "[ab]",
    "[!a]",
    "[^b]",
    "[a-c]",
    "[+-9]",
    "[/]",
    "[!/]",
    "[]a]",
    "[!]a]",
    "[[:alpha:]]",
    "[[:punct:]]",
    "[[:digit:][:lower:]]",
    "[[:no:]]",
    "[[:",
    ":]",
    "[a-",
    "[z-a]",
    r"[\]]",
    r"[a\-c]",
    "\\",
    r"\*",
    r"\[",
    r"\\",
    r"\/",
    r"\ ",
    r"\a",
    " ",
    "  ",
    "\t",
    "!",
    "#",
    "{",
    ",",
    "}",
    "{a,b}",
    "é",
    "[é]",
    "$",
    "+",
    "(",
    ")",
    "|",
    "^",
    "~",
    "\r",
    "**/",
    "/**",
    "/**/",
    "*/",
    "a/",
    "/a",
    "a**",
    "**a",
    "*.log",
    "[:space:]",
    "[[:space:]]",
    "[--0]",
    "[.-0]",
];

fn pattern(random: &mut Seeded) -> String {
    let mut line = String::new();
    if random.below(5) == 0 {
        line.push('!');
    }
    if random.below(4) == 0 {
        line.push('/');
    }
    for _ in 0..1 + random.below(5) {
        line.push_str(random.pick(PIECES));
    }
    if random.below(4) == 0 {
        line.push('/');
    }
    line
}

/// Parts of the paths that the patterns are tried on.
const PARTS: &[&str] = &[
    "a",
    "b",
    "c",
    "ab",
    "ba",
    "aa",
    "abc",
    "a.log",
    ".log",
    "x",
    "xa",
    "a b",
    "a ",
    " ",
    "-",
    "a-b",
    "[",
    "]",
    "[a]",
    "!",
    "#",
    "!a",
    "\\",
    "a\\",
    "*",
    "?",
    "é",
    "{a,b}",
    "+",
    "..a",
    "a.b",
    "0",
    "1a",
    "$",
    "^",
    "a\tb",
    "a\t",
    "**",
    "~",
    "(",
    "[:alpha:]",
    ":",
    "a/b",
    "a/a",
    "b/a",
    "a/b/c",
    "a/x/b",
    "ab/x/a",
    "x/y",
    "a/.log",
    "b/a.log",
    "a/b/a/b",
    "c/-/a",
    "a/]/b",
    "a/ /b",
    "x/é/a",
    "a/\\/b",
    "a/*/b",
];

/// Returns the number of pattern files to compare with git. `FORGE_SEARCH_TEST_PATTERNS` sets
/// another number.
fn files() -> usize {
    let asked = std::env::var("FORGE_SEARCH_TEST_PATTERNS");
    asked.map_or(3_000, |count| count.parse().unwrap())
}

/// A pattern file in its own directory, and the paths there that git is asked about.
struct Asked {
    dir: String,
    text: String,
    paths: Vec<(String, bool)>,
}

fn asked(number: usize, random: &mut Seeded) -> Asked {
    let lines = (0..1 + random.below(3)).map(|_| pattern(random));
    let text = lines.collect::<Vec<_>>().join("\n") + ["", "\n", "\r\n"][random.below(3)];
    let mut paths = BTreeMap::new();
    for _ in 0..20 {
        let path = match random.below(3) {
            0 => format!("{}/{}", random.pick(PARTS), random.pick(PARTS)),
            _ => random.pick(PARTS).to_string(),
        };
        paths.insert(path, false);
    }
    // Git checks whether a path is a directory, so some paths are created as directories.
    for path in paths.keys().cloned().collect::<Vec<_>>() {
        if random.below(5) == 0 {
            for above in Path::new(&path).ancestors() {
                if let Some(is_dir) = above.to_str().and_then(|above| paths.get_mut(above)) {
                    *is_dir = true;
                }
            }
        }
    }
    Asked {
        dir: format!("d{number}"),
        text,
        paths: paths.into_iter().collect(),
    }
}

/// Asks git about all paths: whether each is ignored, and by which pattern.
fn answers(top: &Path, all: &[Asked]) -> Vec<(bool, String)> {
    let mut input = Vec::new();
    for asked in all {
        let dir = top.join(&asked.dir);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(".gitignore"), &asked.text).unwrap();
        for (path, is_dir) in &asked.paths {
            if *is_dir {
                fs::create_dir_all(dir.join(path)).unwrap();
            }
            input.extend_from_slice(format!("{}/{path}\0", asked.dir).as_bytes());
        }
    }
    let args = ["check-ignore", "--stdin", "-z", "-v", "-n", "--no-index"];
    let mut git = git_in(top, &args);
    let mut child = git
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let fields: Vec<&str> = text.split_terminator('\0').collect();
    fields
        .chunks(4)
        .map(|fields| {
            let pattern = fields[2];
            let is_ignored = !pattern.is_empty() && !pattern.starts_with('!');
            (is_ignored, pattern.to_string())
        })
        .collect()
}

/// Returns true if the rules ignore the path or a directory above it.
fn is_ignored(rules: &Rules, top: &Path, path: &str, is_dir: bool) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let ignores = |path: &Path, is_dir| rules.decide(path, is_dir) == Verdict::Ignored;
    let is_above = |end: &usize| ignores(&top.join(parts[..*end].join("/")), true);
    (1..parts.len()).any(|end| is_above(&end)) || ignores(&top.join(path), is_dir)
}

/// Returns the rules for a directory with a pattern file, in a repository.
fn rules_of(dir: &Path) -> Arc<Rules> {
    let mut unread = Vec::new();
    let above = Rules::above(dir, IgnoreRules::Git, None, &mut unread);
    let found = ControlFiles {
        gitignore: true,
        ..ControlFiles::default()
    };
    let rules = Rules::child(&above, dir, found, &mut unread);
    assert_eq!(unread, []);
    rules
}

#[test]
fn generated_patterns_match_the_same_paths_as_in_git() {
    let count = files();
    let mut random = Seeded::new(83);
    let (mut compared, mut ignored, mut wrong) = (0, 0, Vec::new());
    for first in (0..count).step_by(2_000) {
        let tmp = tempfile::tempdir().unwrap();
        let top = tmp.path().canonicalize().unwrap();
        let Ok(mut init) = git_in(&top, &["init", "-q"]).spawn() else {
            return skipped("there is no git");
        };
        assert!(init.wait().unwrap().success());
        let numbers = first..count.min(first + 2_000);
        let all: Vec<Asked> = numbers.map(|number| asked(number, &mut random)).collect();
        let mut answers = answers(&top, &all).into_iter();
        for asked in &all {
            let dir = top.join(&asked.dir);
            let rules = rules_of(&dir);
            for (path, is_dir) in &asked.paths {
                let (expected, by) = answers.next().unwrap();
                (compared, ignored) = (compared + 1, ignored + usize::from(expected));
                if is_ignored(&rules, &dir, path, *is_dir) != expected {
                    wrong.push(format!(
                        "{:?}: git ignores {path:?} (directory: {is_dir}): {expected}, by {by:?}",
                        asked.text
                    ));
                }
            }
        }
        assert!(answers.next().is_none());
    }
    let some: Vec<&String> = wrong.iter().take(30).collect();
    assert!(wrong.is_empty(), "{} of {compared}: {some:#?}", wrong.len());
    // Without enough paths of both kinds, the comparison proves nothing.
    assert!(
        ignored * 20 > compared && ignored < compared,
        "{ignored} of {compared}"
    );
    println!("{count} files of patterns, {compared} paths, {ignored} of them ignored, as by git");
}
