//! Tests how comments are written: short lines, at least three words, nouns instead of pronouns.
//!
//! `CONTRIBUTING.md` has the rules. The ratios are a sign that a text is hard to read, so they are
//! checked for each layer as a whole.

use crate::project_files::{self, SourceFile, check, enforce};

/// The most columns of a comment line, its indentation included.
const MAX_COLUMNS: usize = 100;

/// The fewest words of a documentation comment.
const MIN_WORDS: usize = 3;

/// Words that stand in for a noun, and how many of them 10,000 words of comments may have.
const STAND_INS: [(&[&str], usize); 2] = [
    (&["what"], 20),
    (&["whoever", "whatever", "whose", "whichever"], 8),
];

/// Returns the text of a comment line, without the slashes and the indentation.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start().strip_prefix("//")?;
    Some(line.trim_start_matches(['/', '!']).trim())
}

/// Returns the comment lines of a file that are prose: number, line and text. Code blocks and
/// tables are left out.
fn prose(text: &str) -> Vec<(usize, &str, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(text) = comment(line) else {
            in_code = false;
            continue;
        };
        if text.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !text.starts_with('|') {
            found.push((number, line, text));
        }
    }
    found
}

/// Finds comment lines that are too long, unless they are one word, such as an address.
fn long_lines(_path: &str, text: &str) -> Vec<String> {
    let is_long = |line: &str, text: &str| line.chars().count() > MAX_COLUMNS && text.contains(' ');
    let lines = prose(text).into_iter();
    lines
        .filter(|(_, line, text)| is_long(line, text))
        .map(|(number, ..)| format!("line {number} is longer than {MAX_COLUMNS} columns"))
        .collect()
}

/// Finds documentation comments that have too few words.
fn short_docs(_path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = None;
    for (number, line) in (0..).zip(text.lines().chain([""])) {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        match doc {
            Some(doc) => *words.get_or_insert(0) += doc.split_whitespace().count(),
            None => {
                if words.take().is_some_and(|words| words < MIN_WORDS) {
                    found.push(format!("line {number} says too little of its item"));
                }
            }
        }
    }
    found
}

/// Finds requirement ids in documentation comments of the library, such as `X-Y-01`. A user of the
/// library does not know them; `docs/conformance.md` has them.
fn requirement_ids(path: &str, text: &str) -> Vec<String> {
    let is_doc = |line: &str| path.starts_with("src/") && line.starts_with("//");
    let lines = prose(text).into_iter();
    lines
        .filter(|(_, line, _)| is_doc(line.trim_start()) && !line.trim_start().starts_with("// "))
        .filter(|(.., text)| text.split(is_not_in_id).any(is_requirement_id))
        .map(|(number, ..)| format!("line {number} has a requirement id; say the rule instead"))
        .collect()
}

fn is_not_in_id(c: char) -> bool {
    !c.is_ascii_alphanumeric() && c != '-' && c != '.'
}

/// Returns true for ids such as `FR-X-01a` and `IPC.MUST.001`.
fn is_requirement_id(word: &str) -> bool {
    let mut parts = word.trim_end_matches('.').split(['-', '.']);
    let is_kind = |part: &str| part.len() > 1 && part.bytes().all(|b| b.is_ascii_uppercase());
    let first = parts.next().unwrap_or_default();
    let number = parts.next_back().unwrap_or_default();
    let middle: Vec<&str> = parts.collect();
    is_kind(first)
        && number.len() > 1
        && number.starts_with(|c: char| c.is_ascii_digit())
        && !middle.is_empty()
        && middle
            .iter()
            .all(|part| part.bytes().all(|b| b.is_ascii_uppercase()))
}

/// Returns the words of all comments: how many there are, and how many are among `wanted`.
fn ratio(files: &[SourceFile], wanted: &[&str]) -> (usize, usize) {
    let (mut all, mut found) = (0, 0);
    for file in files {
        for (_, _, text) in prose(&file.text) {
            for word in text.split(|char: char| !char.is_ascii_alphabetic() && char != '\'') {
                all += usize::from(!word.is_empty());
                found += usize::from(wanted.contains(&word.to_ascii_lowercase().as_str()));
            }
        }
    }
    (all, found)
}

/// Returns the Rust files of the project, except those of evaluation sets in other languages.
fn rust_files() -> Vec<SourceFile> {
    let mut files = project_files::rust_files();
    files.retain(|file| !file.path.starts_with("benches/ranking/languages/"));
    files
}

#[test]
fn comment_lines_have_at_most_100_columns() {
    enforce(long_lines, rust_files());
}

#[test]
fn a_long_comment_line_is_noticed() {
    let long = format!("/// {}", "word ".repeat(20));
    let text = format!("{long}\n// {}\n", "x".repeat(200));
    assert!(long_lines("a.rs", &text)[0].starts_with("line 1 "));
    check(long_lines, "a.rs", &text, 1);
    check(
        long_lines,
        "a.rs",
        &format!("/// ```\n{long}\n/// ```\n"),
        0,
    );
}

#[test]
fn documentation_has_at_least_three_words() {
    enforce(short_docs, rust_files());
}

#[test]
fn short_documentation_is_noticed() {
    let text = "/// The limit.\nlimit: u64,\n/// A\n/// limit it is.\nx";
    assert!(short_docs("a.rs", text)[0].starts_with("line 1 "));
    check(short_docs, "a.rs", text, 1);
    check(short_docs, "a.rs", "//! Decides.", 1);
}

#[test]
fn documentation_has_no_requirement_ids() {
    enforce(requirement_ids, rust_files());
}

#[test]
fn a_requirement_id_is_noticed() {
    let text = "/// A limit (`FR-LS-02a`).\n/// A byte (IPC.MUST.005).\n// FR-LS-02: a test.";
    check(requirement_ids, "src/a.rs", text, 2);
    check(requirement_ids, "tests/it/a.rs", text, 0);
    let text = "/// UTF-8, SHA-256, ISO-8859-1, `1.2.3` and `FR-LS`.";
    check(requirement_ids, "src/a.rs", text, 0);
}

#[test]
fn comments_have_nouns() {
    for layer in [
        "src/format",
        "src/index",
        "src/exec",
        "src/tool",
        "tests/it",
        "fuzz",
    ] {
        let mut files = rust_files();
        files.retain(|file| file.path.starts_with(layer));
        for (words, most) in STAND_INS {
            let (all, found) = ratio(&files, words);
            assert!(all > 500, "{layer} has {all} words of comments");
            assert!(
                found * 10_000 <= most * all,
                "{layer}: {found} of {all} words of comments are {words:?}; name the things"
            );
        }
    }
}
