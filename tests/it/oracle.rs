//! Computes the expected answer of a search without the crate.
//!
//! This module lists and sorts the files itself. It matches one line at a time with the plain
//! `regex` crate. Patterns spell out case folding, for example `[aA]`.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use regex::bytes::Regex;
use unicode_normalization::UnicodeNormalization;

/// A pattern that the oracle can write in two ways: as the request has it, and with folding spelled
/// out.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    Literal(String),
    Expression(Vec<Piece>),
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Char(char),
    Class(Vec<char>, bool),
    Dot,
    Optional(Box<Piece>),
    Star(Box<Piece>),
    Either(Box<Piece>, Box<Piece>),
    Start,
    End,
}

const LETTERS: &[char] = &[
    'm', 'M', 'k', 'a', 'b', 'é', 'É', '-', ' ', '_', '0', '\u{212A}',
];

impl Piece {
    fn strategy() -> impl Strategy<Value = Piece> {
        let letter = prop::sample::select(LETTERS);
        let leaf = prop_oneof![
            6 => letter.clone().prop_map(Piece::Char),
            1 => (prop::collection::vec(letter, 1..3), any::<bool>()).prop_map(|(l, n)| Piece::Class(l, n)),
            1 => Just(Piece::Dot),
            1 => Just(Piece::Start),
            1 => Just(Piece::End),
        ];
        leaf.prop_recursive(2, 6, 2, |inner| {
            prop_oneof![
                inner
                    .clone()
                    .prop_map(|piece| Piece::Optional(Box::new(piece))),
                inner.clone().prop_map(|piece| Piece::Star(Box::new(piece))),
                (inner.clone(), inner).prop_map(|(a, b)| Piece::Either(Box::new(a), Box::new(b))),
            ]
        })
    }

    fn write(&self, fold: bool, out: &mut String) {
        match self {
            Piece::Char(c) if fold && c.is_ascii_alphabetic() => {
                out.push_str(&format!(
                    "[{}{}]",
                    c.to_ascii_lowercase(),
                    c.to_ascii_uppercase()
                ));
            }
            Piece::Char(c) => out.push_str(&regex::escape(&c.to_string())),
            Piece::Class(letters, negated) => {
                out.push_str(if *negated { "[^" } else { "[" });
                for &c in letters {
                    out.push_str(&regex::escape(&c.to_string()));
                    if fold && c.is_ascii_alphabetic() {
                        out.push(c.to_ascii_lowercase());
                        out.push(c.to_ascii_uppercase());
                    }
                }
                out.push(']');
            }
            Piece::Dot => out.push('.'),
            Piece::Optional(piece) => Piece::group(piece, "?", fold, out),
            Piece::Star(piece) => Piece::group(piece, "*", fold, out),
            Piece::Either(a, b) => {
                out.push_str("(?:");
                a.write(fold, out);
                out.push('|');
                b.write(fold, out);
                out.push(')');
            }
            Piece::Start => out.push('^'),
            Piece::End => out.push('$'),
        }
    }

    fn group(piece: &Piece, suffix: &str, fold: bool, out: &mut String) {
        out.push_str("(?:");
        piece.write(fold, out);
        out.push(')');
        out.push_str(suffix);
    }
}

impl Pattern {
    pub(crate) fn strategy() -> impl Strategy<Value = Pattern> {
        // The longer literals let prefilters skip files.
        let literal = prop::collection::vec(prop::sample::select(LETTERS), 1..5)
            .prop_map(|letters| Pattern::Literal(letters.into_iter().collect()));
        let expression =
            prop::collection::vec(Piece::strategy(), 1..6).prop_map(Pattern::Expression);
        prop_oneof![literal, expression]
            .prop_filter("blank", |pattern| !pattern.text().trim().is_empty())
    }

    pub(crate) fn is_literal(&self) -> bool {
        matches!(self, Pattern::Literal(_))
    }

    /// The pattern as the request has it.
    pub(crate) fn text(&self) -> String {
        match self {
            Pattern::Literal(text) => text.clone(),
            Pattern::Expression(_) => self.expression(false),
        }
    }

    fn expression(&self, fold: bool) -> String {
        let mut out = String::new();
        match self {
            Pattern::Literal(text) => text
                .chars()
                .for_each(|c| Piece::Char(c).write(fold, &mut out)),
            Pattern::Expression(pieces) => pieces.iter().for_each(|p| p.write(fold, &mut out)),
        }
        out
    }

    fn regex(&self, case: &str, word: bool) -> Regex {
        let uppercase = self.text().chars().any(|c| c.is_ascii_uppercase());
        let fold = match case {
            "sensitive" => false,
            "insensitive" => true,
            _ => !uppercase,
        };
        let expression = self.expression(fold);
        let expression = if word {
            format!(r"\b{{start-half}}(?:{expression})\b{{end-half}}")
        } else {
            expression
        };
        Regex::new(&expression).unwrap()
    }
}

/// Options of a request and limits that the oracle supports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) hidden: bool,
    pub(crate) recursive: bool,
    pub(crate) context: usize,
    pub(crate) max_results: usize,
    pub(crate) per_file: u64,
    pub(crate) max_files: u64,
    pub(crate) max_size: u64,
}

/// The answer that the oracle expects.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) events: Vec<String>,
    pub(crate) truncated: bool,
    pub(crate) files_scanned: u64,
}

/// Lists the eligible files, with paths relative to `root`.
fn list(root: &Path, world: &World) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(root.join(&dir)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            if !world.hidden && name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = dir.join(name);
            let kind = entry.file_type().unwrap();
            if kind.is_file() {
                files.push(path);
            } else if kind.is_dir() && world.recursive {
                todo.push(path);
            }
        }
    }
    in_order(files)
}

/// Sorts relative paths as answers sort them: by their NFC form, then by their bytes.
pub(crate) fn in_order(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    files.sort_by_key(|path| {
        let bytes = path.as_os_str().as_encoded_bytes().to_vec();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let key: String = text.nfc().collect();
        (key.into_bytes(), bytes)
    });
    files
}

/// Splits a text into lines. A `\r` before a line break, or at the end of the text, is removed.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
        .into_iter()
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect()
}

/// The length of the start of a file in which a NUL makes the whole file binary.
const PROBE: usize = 65_536;

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Vec<u8> {
    let pairs = bytes.chunks_exact(2);
    let units: Vec<u16> = pairs.map(|pair| unit([pair[0], pair[1]])).collect();
    let mut text = String::from_utf16_lossy(&units);
    if bytes.len() % 2 == 1 {
        text.push('\u{FFFD}');
    }
    text.into_bytes()
}

/// The part of a file that is searched, as text. It ends before the line with the first NUL, and is
/// empty for a binary file.
fn searched(bytes: &[u8]) -> Vec<u8> {
    let mut text = match bytes {
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => rest.to_vec(),
        plain => plain.to_vec(),
    };
    if let Some(nul) = text.iter().position(|&byte| byte == 0) {
        let before = text[..nul].iter().rposition(|&byte| byte == b'\n');
        text.truncate(before.filter(|_| nul >= PROBE).map_or(0, |at| at + 1));
    }
    text
}

/// Returns the events of one file, and whether more lines match than the file may show.
fn search(shown: &str, bytes: &[u8], regex: &Regex, world: &World) -> (Vec<String>, bool) {
    let text = searched(bytes);
    let lines = lines(&text);
    let found: Vec<Option<(usize, usize)>> = lines
        .iter()
        .map(|line| regex.find(line).map(|m| (m.start(), m.end())))
        .collect();
    let matching: Vec<usize> = (0..lines.len()).filter(|&n| found[n].is_some()).collect();
    let counted = &matching[..matching.len().min(world.per_file as usize)];
    let near = |n: usize| {
        counted
            .iter()
            .any(|&m| n + world.context >= m && n <= m + world.context)
    };
    let mut events = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let text = String::from_utf8_lossy(line);
        match found[n] {
            Some((start, end)) if counted.contains(&n) => {
                let hit = String::from_utf8_lossy(&line[start..end]).into_owned();
                events.push(format!("{shown}:{}:{}:{hit}|{text}", n + 1, start + 1));
            }
            // A matching line beyond the limit is not shown as context either.
            Some(_) => {}
            None if near(n) => events.push(format!("{shown}-{}-{text}", n + 1)),
            None => {}
        }
    }
    (events, counted.len() < matching.len())
}

/// Computes the answer to a request over the tree at `root`.
pub(crate) fn expected(
    root: &Path,
    pattern: &Pattern,
    case: &str,
    word: bool,
    world: &World,
) -> Expected {
    expected_among(root, &list(root, world), pattern, case, word, world)
}

/// Computes the answer if exactly these files are eligible, in this order. Paths are relative to
/// `root`. Files that can't be read have no events.
pub(crate) fn expected_among(
    root: &Path,
    files: &[PathBuf],
    pattern: &Pattern,
    case: &str,
    word: bool,
    world: &World,
) -> Expected {
    let regex = pattern.regex(case, word);
    let mut answer = Expected {
        events: Vec::new(),
        truncated: files.len() as u64 > world.max_files,
        files_scanned: 0,
    };
    for path in files.iter().take(world.max_files as usize) {
        answer.files_scanned += 1;
        let Ok(bytes) = std::fs::read(root.join(path)) else {
            continue;
        };
        if bytes.len() as u64 > world.max_size {
            continue;
        }
        let shown = path.as_os_str().to_os_string();
        let (events, is_capped) = search(&shown.to_string_lossy(), &bytes, &regex, world);
        answer.events.extend(events);
        answer.truncated |= is_capped;
        if answer.events.len() > world.max_results {
            answer.events.truncate(world.max_results);
            answer.truncated = true;
            break;
        }
    }
    answer
}
