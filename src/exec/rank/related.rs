//! Questions that are made of a piece of code.
//!
//! This module owns the choice of the words that tell a piece from others: the names that it
//! defines, and the words that few files have.

use std::collections::BTreeSet;
use std::ops::Range;

use super::source_text::{SourceText, line_starts};
use super::terms::WEAK;
use crate::index::words::definition::{Kind, Language, definition};
use crate::index::words::forms::{FormKind, each_form};
use crate::index::words::names::Names;

/// Words of a piece that are looked up, the first ones.
const MAX_WORDS: usize = 96;

/// Words of a question that is made of a piece.
const ASKED_WORDS: usize = 12;

/// Bytes of the longest word that counts.
const MAX_WORD_BYTES: usize = 64;

/// Finds the piece of a text that has a line, and returns its bytes. A piece is a definition with
/// the comments above it.
///
/// # Errors
///
/// The number of lines of the text, if it has fewer.
pub fn piece_at(text: &[u8], path: &str, line: u64) -> Result<Range<usize>, u64> {
    let starts = line_starts(text);
    let lines = if text.is_empty() { 0 } else { starts.len() };
    let nth = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    if nth >= lines {
        return Err(lines as u64);
    }
    let pieces = SourceText::of(text, path).facts.pieces;
    let next = pieces.partition_point(|first| *first <= nth);
    let first = next.checked_sub(1).and_then(|piece| pieces.get(piece));
    let byte_of = |line: Option<&usize>| line.and_then(|line| starts.get(*line)).copied();
    let start = byte_of(first).unwrap_or(0);
    Ok(start..byte_of(pieces.get(next)).unwrap_or(text.len()))
}

/// A word of a piece: a name, or a part of one.
#[derive(Clone, Debug)]
struct Word {
    text: String,
    /// Its term in texts.
    key: u32,
    /// The terms of its parts.
    parts: Vec<u32>,
    /// How often the piece has it.
    count: u32,
    /// Whether the piece defines it.
    is_defined: bool,
}

/// The words of a piece of code, each once.
#[derive(Clone, Debug, Default)]
pub struct PieceWords(Vec<Word>);

impl PieceWords {
    /// Collects the words of a piece: the names that it defines, then names and parts of names in
    /// the order of their first appearance.
    pub fn of(piece: &[u8], path: &str) -> PieceWords {
        let mut words = PieceWords::default();
        let language = Language::of(path);
        for line in piece.split(|byte| *byte == b'\n') {
            if let Some(found) = definition(line, language)
                && matches!(found.kind, Kind::Type | Kind::Function)
            {
                words.add_name(found.last(line), true);
            }
        }
        for name in Names::of(piece) {
            words.add_name(&piece[name], false);
        }
        words
    }

    /// Returns the terms of the words in texts, in ascending order.
    pub fn keys(&self) -> Vec<u32> {
        let keys: BTreeSet<u32> = self.0.iter().map(|word| word.key).collect();
        keys.into_iter().collect()
    }

    /// Returns a question of the most telling words: the defined names, then words by how few of
    /// `files` have them. `with` returns how many of these files have a term. A word that no file
    /// has but the piece's own finds nothing else, so it is left out; `is_own_counted` says whether
    /// the piece's file is one of `files`. Returns `None` if no word is left.
    pub fn question(
        &self,
        files: u64,
        is_own_counted: bool,
        with: impl Fn(u32) -> u64,
    ) -> Option<String> {
        let own = u64::from(is_own_counted);
        let rarity = |word: &Word| {
            let with = with(word.key) as f64;
            let rarity = (1.0 + (files as f64 - with + 0.5).max(0.0) / (with + 0.5)).ln();
            rarity * (1.0 + f64::from(word.count).ln())
        };
        let mut telling: Vec<(&Word, f64)> = self
            .0
            .iter()
            .filter(|word| word.is_defined || with(word.key) > own)
            .map(|word| (word, rarity(word)))
            .collect();
        // The sort is stable, so equal words keep their order in the piece.
        telling.sort_by(|(a, of_a), (b, of_b)| {
            let by_definition = b.is_defined.cmp(&a.is_defined);
            by_definition.then(of_b.total_cmp(of_a))
        });
        let (mut chosen, mut known): (Vec<&str>, BTreeSet<u32>) = Default::default();
        for (word, _) in telling {
            // A part of a chosen name is asked for already.
            if chosen.len() < ASKED_WORDS && !known.contains(&word.key) {
                chosen.push(&word.text);
                known.insert(word.key);
                known.extend(&word.parts);
            }
        }
        (!chosen.is_empty()).then(|| chosen.join(" "))
    }

    /// Adds a name, and its parts.
    fn add_name(&mut self, name: &[u8], is_defined: bool) {
        let Some(text) = std::str::from_utf8(name).ok() else {
            return;
        };
        if text.len() > MAX_WORD_BYTES || text.starts_with(|first: char| first.is_ascii_digit()) {
            return;
        }
        let (mut whole, mut parts) = (None, Vec::new());
        each_form(name, |form| match form.kind {
            FormKind::Whole => whole = Some(form.key),
            kind if kind.is_part() => parts.push((form.key, form.at)),
            _ => {}
        });
        let keys: Vec<u32> = parts.iter().map(|(key, _)| *key).collect();
        if let Some(key) = whole {
            self.add(text, key, keys, is_defined);
        }
        for (key, at) in parts {
            let Some(part) = text.get(at) else { continue };
            if part.len() >= WEAK && (whole.is_none() || !is_defined) {
                self.add(part, key, Vec::new(), is_defined);
            }
        }
    }

    fn add(&mut self, text: &str, key: u32, parts: Vec<u32>, is_defined: bool) {
        if let Some(known) = self.0.iter_mut().find(|word| word.key == key) {
            known.count += 1;
        } else if self.0.len() < MAX_WORDS {
            self.0.push(Word {
                text: text.to_string(),
                key,
                parts,
                count: 1,
                is_defined,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::words::forms::whole;

    const TEXT: &str = "use std::fs;\n\n/// Waits.\nfn retry_delay(attempt: u32) -> u32 {\n    \
                        let base = back_off(attempt);\n    base * 2\n}\n\n/// Reads.\nfn \
                        read_all(path: &str) -> String {\n    fs::read(path)\n        .map(text)\n    \
                        // The rest.\n    finish()\n}\n";

    #[test]
    fn a_line_is_in_the_piece_of_its_definition() {
        let piece = |line| piece_at(TEXT.as_bytes(), "a.rs", line).map(|at| &TEXT[at]);
        assert_eq!(piece(9), piece(15));
        assert!(piece(11).unwrap().starts_with("/// Reads.\nfn read_all"));
        assert!(piece(5).unwrap().ends_with("}\n\n"));
        assert_eq!(piece(16), Err(15));
        assert_eq!(piece_at(b"", "a.rs", 1), Err(0));
        assert_eq!(piece_at(b"x", "a.rs", 1), Ok(0..1));
    }

    #[test]
    fn the_defined_name_comes_first_then_rare_words() {
        let words = PieceWords::of(TEXT.as_bytes(), "a.rs");
        let rare = whole(b"back_off");
        let with = |key: u32| if key == rare { 2 } else { 50 };
        let question = words.question(100, true, with).unwrap();
        let asked: Vec<&str> = question.split(' ').collect();
        assert_eq!(asked[..3], ["retry_delay", "read_all", "back_off"]);
        assert_eq!(asked.len(), ASKED_WORDS);
        assert!(
            !asked.contains(&"retry") && !asked.contains(&"off"),
            "{question}"
        );
        // A word that no other file has finds nothing.
        let alone = words.question(100, true, |_| 1).unwrap();
        assert_eq!(alone, "retry_delay read_all");
        assert_eq!(
            PieceWords::of(b"{ 1 + 0x2f; }\n", "a.rs").question(9, true, |_| 5),
            None
        );
    }

    #[test]
    fn the_words_of_a_piece_are_bounded() {
        let many: Vec<String> = (0..5000).map(|n| format!("name{n}")).collect();
        let words = PieceWords::of(many.join(" ").as_bytes(), "a.rs");
        assert_eq!(words.keys().len(), MAX_WORDS);
        let long = "x".repeat(MAX_WORD_BYTES + 1);
        assert_eq!(PieceWords::of(long.as_bytes(), "a.rs").keys(), [0; 0]);
    }
}
