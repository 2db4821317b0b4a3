//! A text that is ranked, and the facts about it that hold for any question: where its pieces
//! begin, and whether it is German.
//!
//! A piece is a definition with the comments above it, such as a function. The facts are remembered
//! from question to question.

use std::sync::Arc;

use super::remembered::Remembered;
use crate::index::text::without_terminator;
use crate::index::words::definition::{Kind, Language, definition};
use crate::index::words::forms::{GERMAN_WORDS, is_german_word};
use crate::index::words::names::Names;

/// Lines of the shortest piece, and of the longest.
const LINES: std::ops::RangeInclusive<usize> = 6..=50;

/// Texts whose facts are remembered, at most.
const MAX_TEXTS: usize = 1 << 12;

/// Columns by which a definition is indented at most where a piece begins.
const DEEPEST: usize = 8;

/// The text of a file.
#[derive(Clone, Debug)]
pub struct SourceText<'t> {
    pub(super) text: &'t [u8],
    /// The path of the file, which tells its language.
    pub(super) path: &'t str,
    pub(super) facts: Facts,
}

/// Facts about a text that hold for any question.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The indices of the lines at which pieces begin.
    pub(super) pieces: Arc<[usize]>,
    /// Whether it has several of the words that are frequent in German.
    pub(super) is_german: bool,
}

impl<'t> SourceText<'t> {
    /// Finds the facts about a text, or remembers them. Takes time linear in the text.
    pub fn of(text: &'t [u8], path: &'t str) -> SourceText<'t> {
        static FACTS: Remembered<Facts> = Remembered::of(MAX_TEXTS);
        let language = Language::of(path);
        let facts = FACTS.get(&[&[language as u8], text], || Facts {
            pieces: pieces(text, &line_starts(text), language).into(),
            is_german: is_german(text),
        });
        SourceText { text, path, facts }
    }
}

fn is_german(text: &[u8]) -> bool {
    let mut words = 0u32;
    Names::of(text).any(|name| {
        words |= is_german_word(&text[name]).map_or(0, |word| 1 << word);
        words.count_ones() >= GERMAN_WORDS
    })
}

/// Returns the places where lines begin, in bytes of the text. There is at least one.
pub(super) fn line_starts(text: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    starts.extend(memchr::memchr_iter(b'\n', text).map(|feed| feed + 1));
    if starts.len() > 1 && starts.last() == Some(&text.len()) {
        starts.pop();
    }
    starts
}

/// Returns the indices of the lines at which pieces begin. `starts` are the places where lines
/// begin.
fn pieces(text: &[u8], starts: &[usize], language: Language) -> Vec<usize> {
    let line = |nth: usize| {
        let end = starts.get(nth + 1).copied().unwrap_or(text.len());
        without_terminator(&text[starts[nth]..end])
    };
    let mut pieces = vec![0];
    let mut cut_at = |nth: usize| {
        let mut last = pieces.last().copied().unwrap_or(0);
        if nth < last || nth - last < *LINES.start() && nth != starts.len() {
            return;
        }
        while nth - last > *LINES.end() {
            last += LINES.end();
            pieces.push(last);
        }
        if nth > last && nth < starts.len() {
            pieces.push(nth);
        }
    };
    // Where the comments and attributes above the current line begin.
    let mut above = 1;
    for nth in 1..starts.len() {
        let here = line(nth);
        let indent = here.len() - here.trim_ascii_start().len();
        let begins = indent <= DEEPEST
            && definition(here, language).is_some_and(|found| found.kind != Kind::Variable);
        if begins {
            cut_at(above);
        }
        if !belongs_below(here) {
            above = nth + 1;
        }
    }
    cut_at(starts.len());
    pieces
}

/// Whether a line is a comment or an attribute of the definition below it.
pub(super) fn belongs_below(line: &[u8]) -> bool {
    const MARKS: [&[u8]; 9] = [
        b"//",
        b"/*",
        b"*",
        b"#[",
        b"@",
        b"--",
        b";;",
        b"template",
        b"# ",
    ];
    let line = line.trim_ascii_start();
    MARKS.iter().any(|mark| line.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_begin_at_definitions_and_the_comments_above_them() {
        let body = "    x;\n".repeat(6);
        let text = format!(
            "use a;\n/// About a.\nfn a() {{\n{body}}}\n/// About b.\n#[inline]\nfn b() {{\n{body}}}\n{}",
            "y\n".repeat(60)
        );
        let source = SourceText::of(text.as_bytes(), "a");
        assert_eq!(*source.facts.pieces, [0, 10, 60]);
    }

    #[test]
    fn a_text_with_several_frequent_words_of_german_is_german() {
        let is_german = |text: &str| SourceText::of(text.as_bytes(), "a").facts.is_german;
        assert!(is_german(
            "Die Datei ist nicht leer, und der Rest wird gelesen."
        ));
        assert!(!is_german("The file is not empty, and the rest is read."));
        assert!(!is_german("die die die die nicht"));
    }
}
