//! Snippets: the lines of a file that an answer shows.
//!
//! This module splits a text into pieces of code, finds the best pieces and the best line of each,
//! and decides how many lines are shown around it. For example, [`Snippet::Definition`] shows the
//! whole definition with the comments above it.

use std::cmp::Ordering;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::Hit;
use super::meaning::Comparison;
use super::pieces::{PieceMatch, PieceScores};
use super::score::Rarities;
use super::source_text::{SourceText, belongs_below, line_starts};
use crate::format::choices::choices;
use crate::index::text::without_terminator;
use crate::index::words::counts::file_stem;
use crate::index::words::definition::{Kind, Language, definition};

choices! {
    /// The length of snippets.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    Snippet {
        /// Show three lines.
        #[default]
        Short = "short",
        /// Show fifteen lines.
        Long = "long",
        /// Show the whole definition around the best line, with the comments above it, at most 50
        /// lines.
        Definition = "definition",
        /// Show no text.
        None = "none",
    }
}

impl Snippet {
    fn around(self) -> u64 {
        match self {
            Snippet::Short => 1,
            Snippet::Long => 7,
            Snippet::Definition | Snippet::None => 0,
        }
    }
}

/// Some consecutive lines of a file around a line with terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The number of the first line, from 1.
    pub start_line: u64,
    /// The number of the last line.
    pub end_line: u64,
    /// Where the first line starts, in bytes of the text.
    pub start: usize,
    /// Where the last line ends without its terminator, in bytes of the text.
    pub end: usize,
    /// Where the first hit of the best line starts, in bytes of the text.
    pub at: usize,
    /// The score of the best line, for comparing chunks of one file.
    pub worth: u32,
    /// Whether the best line defines a name.
    pub defines: bool,
}

/// The best places of a text, and how well its pieces answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunks {
    /// The best places, the best first. They do not overlap, and lie in different pieces.
    pub best: Vec<Chunk>,
    /// The scores of the pieces.
    pub scores: PieceScores,
}

/// A piece with hits.
struct Place<'t> {
    worth: f64,
    /// The text of the piece.
    text: &'t [u8],
    /// Its best line.
    line: Line,
    /// Its lines, from 0.
    piece: Range<usize>,
}

impl Place<'_> {
    /// Compares places: the better one first, then the earlier one.
    fn compare(&self, other: &Self) -> Ordering {
        let by_worth = other.worth.total_cmp(&self.worth);
        by_worth.then(self.line.number.cmp(&other.line.number))
    }
}

/// A line with hits.
struct Line {
    number: u64,
    at: usize,
    terms: u64,
    whole: u32,
    defines: u32,
    asked: u32,
}

impl Line {
    fn worth(&self) -> u32 {
        self.asked + 4 * self.terms.count_ones() + 2 * self.defines.min(4) + self.whole.min(8)
    }
}

/// How much a test counts in a file that also has other code.
const OF_TESTS: f64 = 0.6;

/// The weight of the likeness of the meanings of a piece and the question.
const LIKENESS: f64 = 1.5;

/// The best pieces of a file are compared with the meaning of the question: so many of them, and so
/// many bytes of each.
const COMPARED_PIECES: usize = 8;
const COMPARED_BYTES: usize = 1000;

/// Finds the best places of a text.
///
/// `hits` are in ascending order of their starts. `rarities` say how much each term counts.
/// `meaning` compares pieces with the question, beside their terms. Takes one pass over the text,
/// and sorts the pieces with hits.
#[expect(
    clippy::too_many_lines,
    reason = "one pass over the text, then one over the places"
)]
pub fn chunks(
    source: &SourceText<'_>,
    hits: &[Hit],
    rarities: Rarities<'_>,
    snippet: Snippet,
    most: usize,
    meaning: Option<&mut Comparison<'_>>,
) -> Chunks {
    let (text, pieces) = (source.text, &source.facts.pieces);
    let starts = line_starts(text);
    let mut best: Vec<Place> = Vec::new();
    let mut scores = PieceScores::default();
    let mut rest = hits;
    for (nth, piece) in pieces.iter().enumerate() {
        let next = pieces.get(nth + 1).copied().unwrap_or(starts.len());
        let end = starts.get(next).copied().unwrap_or(text.len() + 1);
        let count = rest.partition_point(|hit| hit.start < end);
        let (inside, after) = rest.split_at(count);
        rest = after;
        if let Some(line) = best_line(inside, &starts, *piece) {
            let part = &text[starts[*piece]..end.min(text.len())];
            let factor = if is_test(part) { OF_TESTS } else { 1.0 };
            let found = PieceMatch::of(inside, rarities, end.saturating_sub(starts[*piece]));
            scores.raise_to(&found.scores, factor);
            best.push(Place {
                worth: factor * found.worth(),
                text: part,
                line,
                piece: *piece..next,
            });
        }
    }
    best.sort_by(Place::compare);
    if let Some(comparison) = meaning {
        let name = file_stem(source.path).as_bytes();
        for place in best.iter_mut().take(COMPARED_PIECES) {
            let piece = &place.text[..place.text.len().min(COMPARED_BYTES)];
            let of_piece = comparison.likeness(&[piece, name]);
            scores.likeness = scores.likeness.max(of_piece);
            place.worth += LIKENESS * of_piece;
        }
        best.sort_by(Place::compare);
    }
    let count = starts.len() as u64;
    let mut chosen: Vec<Chunk> = Vec::new();
    for Place {
        worth, line, piece, ..
    } in &best
    {
        if chosen.len() >= most {
            break;
        }
        let inside = |chunk: &Chunk| (chunk.start_line..=chunk.end_line).contains(&line.number);
        if chosen.iter().any(inside) {
            continue;
        }
        let (mut first, mut last) = match snippet {
            Snippet::Definition => (piece.start as u64 + 1, (piece.end as u64).min(count)),
            // A signature comes first.
            Snippet::Short if line.defines > 0 => (line.number, (line.number + 2).min(count)),
            _ => (
                line.number.saturating_sub(snippet.around()).max(1),
                (line.number + snippet.around()).min(count),
            ),
        };
        for other in &chosen {
            if other.end_line < line.number {
                first = first.max(other.end_line + 1);
            } else {
                last = last.min(other.start_line - 1);
            }
        }
        let at = |number: u64| {
            usize::try_from(number)
                .ok()
                .and_then(|n| starts.get(n))
                .copied()
        };
        let start = at(first - 1).unwrap_or(0);
        let lines = text.get(start..at(last).unwrap_or(text.len()));
        let end = start + lines.map_or(0, |lines| without_terminator(lines).len());
        chosen.push(Chunk {
            start_line: first,
            end_line: last,
            start,
            end,
            at: line.at,
            // Finite, and not negative.
            worth: (worth * 1000.0).min(1e9) as u32,
            defines: line.defines > 0,
        });
    }
    Chunks {
        best: chosen,
        scores,
    }
}

/// Returns which line of a piece is its head, from 0: the first one that defines a name, or else
/// the first one that is no comment.
pub fn head_of(piece: &str, path: &str) -> usize {
    let language = Language::of(path);
    let defines = |line: &str| {
        definition(line.as_bytes(), language).is_some_and(|found| found.kind != Kind::Variable)
    };
    let is_code = |line: &str| !line.trim().is_empty() && !belongs_below(line.as_bytes());
    let head = piece.lines().position(defines);
    head.or_else(|| piece.lines().position(is_code))
        .unwrap_or(0)
}

/// Whether a piece is a test of Rust, which may stand in the file that it tests.
fn is_test(piece: &[u8]) -> bool {
    let lines = piece.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut above = lines.take_while(|line| line.is_empty() || belongs_below(line));
    above.any(|line| line == b"#[test]" || line == b"#[tokio::test]")
}

/// Returns the line of a piece that says most; the first of equal ones. `first` is the index of its
/// first line.
fn best_line(hits: &[Hit], starts: &[usize], first: usize) -> Option<Line> {
    let mut best: Option<Line> = None;
    let mut line: Option<Line> = None;
    let mut nth = first;
    let take = |line: Option<Line>, best: &mut Option<Line>| {
        let Some(line) = line else { return };
        if best.as_ref().is_none_or(|best| line.worth() > best.worth()) {
            *best = Some(line);
        }
    };
    for hit in hits {
        while starts.get(nth + 1).is_some_and(|start| *start <= hit.start) {
            nth += 1;
        }
        let number = nth as u64 + 1;
        if line.as_ref().is_none_or(|line| line.number != number) {
            take(line.take(), &mut best);
        }
        let line = line.get_or_insert(Line {
            number,
            at: hit.start,
            terms: 0,
            whole: 0,
            defines: 0,
            asked: 0,
        });
        line.terms |= 1 << (hit.term % 64);
        line.whole += u32::from(hit.whole);
        line.defines += u32::from(hit.defines);
        line.asked = line.asked.max(hit.asked);
    }
    take(line, &mut best);
    best
}

#[cfg(test)]
mod tests {
    use super::super::{TermRarities, Terms, hits};
    use super::*;

    fn found(text: &str, snippet: Snippet, most: usize) -> Vec<(u64, u64, String)> {
        let terms = Terms::new("needle hay").unwrap();
        let source = SourceText::of(text.as_bytes(), "a.rs");
        let mut hits = hits(&terms, &source, || false);
        hits.sort_by_key(|hit| hit.start);
        let shown = |chunk: Chunk| {
            let content = text[chunk.start..chunk.end].to_string();
            (chunk.start_line, chunk.end_line, content)
        };
        let rarity = TermRarities::new(vec![1.0; terms.words().len()]);
        let rarities = Rarities {
            text: &rarity,
            name: &rarity,
            pairs: Some(&rarity),
        };
        let chunks = chunks(&source, &hits, rarities, snippet, most, None);
        chunks.best.into_iter().map(shown).collect()
    }

    #[test]
    fn the_head_of_a_piece_is_its_definition_or_its_first_code() {
        let head = |text| head_of(text, "a.rs");
        assert_eq!(head("/// Waits.\n#[inline]\nfn wait() {\n}"), 2);
        assert_eq!(head("// A note.\n\nuse std::fs;\n"), 2);
        assert_eq!(head("// A note."), 0);
        assert_eq!(head(""), 0);
    }

    #[test]
    fn the_best_piece_is_first_and_no_line_is_shown_twice() {
        let body = "    x;\n".repeat(8);
        let text = format!(
            "fn a() {{\n    hay();\n{body}}}\n/// About it.\nfn b() {{\n    hay(needle);\n{body}}}\n"
        );
        let shown = found(&text, Snippet::Short, 3);
        let places: Vec<(u64, u64)> = shown
            .iter()
            .map(|(first, last, _)| (*first, *last))
            .collect();
        assert_eq!(places, [(13, 15), (1, 3)]);
        assert_eq!(shown[0].2, "fn b() {\n    hay(needle);\n    x;");
        assert_eq!(found(&text, Snippet::Short, 1).len(), 1);
        let none = found(&text, Snippet::None, 3);
        assert_eq!(none[0], (14, 14, "    hay(needle);".to_string()));
    }

    #[test]
    fn a_test_in_the_file_is_behind_the_code_that_it_tests() {
        let text = "#[test]\nfn needle_is_needle() {\n    needle();\n    needle();\n    1;\n    2;\n}\n\
                    fn needle() {\n    1;\n    2;\n    3;\n    4;\n    5;\n}\n";
        let lines: Vec<(u64, u64)> = found(text, Snippet::None, 2)
            .into_iter()
            .map(|(first, last, _)| (first, last))
            .collect();
        assert_eq!(lines, [(8, 8), (2, 2)]);
    }

    #[test]
    fn ends_of_lines_and_of_texts_are_no_part_of_what_is_shown() {
        for (text, shown) in [
            ("hay", "hay"),
            ("hay\n", "hay"),
            ("hay\r\n", "hay"),
            ("\n\nhay\r\nx\r\n", "\nhay\r\nx"),
            ("hay\n\n", "hay\n"),
        ] {
            assert_eq!(found(text, Snippet::Short, 1)[0].2, shown, "{text:?}");
        }
    }
}
