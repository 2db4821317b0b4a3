//! Matching of many literals at once: a file of ten thousand words, or of ten megabytes of them.
//!
//! An expression with so many alternatives would exceed the size limit of automata. So the
//! Aho-Corasick algorithm finds the literals, in time linear in the text. A set matches the same
//! lines, at the same positions, as the expression that joins its literals with `|`: the leftmost
//! match, and of several with the same start the literal that was given first.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, Input, MatchKind};
use grep_matcher::LineMatchKind;
use memchr::{memchr, memrchr};
use unicode_case_mapping::case_folded;

use crate::exec::answer::outcome::Span;
use crate::exec::matching::matcher::Stopped;
use crate::exec::matching::pattern::PatternError;
use crate::exec::question::query::Fold;
use crate::exec::stop::Stop;

/// The most bytes that the literals of a set may have together.
pub(crate) const SET_LIMIT: usize = 32 << 20;

/// The bytes between two checks of the stop flag.
const BYTES_BETWEEN_POLLS: usize = 1 << 18;

/// Literals, compiled for finding all of them together.
#[derive(Debug)]
pub(crate) struct LiteralSet {
    /// The automaton of the folded literals, without empty ones.
    automaton: AhoCorasick,
    fold: Fold,
    word: bool,
    /// The folded literals, if only whole lines match.
    lines: Option<BTreeSet<Vec<u8>>>,
    /// Whether the empty literal is in the set. Then every line matches.
    has_empty: bool,
    has_carriage_return: bool,
}

impl LiteralSet {
    /// Compiles literals into a set.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if the literals are too long together, or one contains a line feed.
    pub(crate) fn new(
        literals: &[String],
        fold: Fold,
        word: bool,
        whole_line: bool,
    ) -> Result<LiteralSet, PatternError> {
        let bytes: usize = literals.iter().map(String::len).sum();
        if bytes > SET_LIMIT {
            return Err(PatternError::new(format!(
                "the patterns have {bytes} bytes together, more than the {SET_LIMIT} allowed in a \
                 search; search for some of them at a time"
            )));
        }
        if let Some(nth) = literals.iter().position(|one| one.contains('\n')) {
            return Err(PatternError {
                pattern: Some(nth),
                ..PatternError::new(
                    "a pattern contains a line feed, but a match lies within one line".to_string(),
                )
            });
        }
        let folded = |text: &String| match fold {
            Fold::Sensitive | Fold::AsciiInsensitive => text.clone().into_bytes(),
            Fold::UnicodeInsensitive => text.chars().map(folded).collect::<String>().into_bytes(),
        };
        let texts: Vec<Vec<u8>> = literals.iter().map(folded).collect();
        let shown = texts.iter().filter(|text| !text.is_empty());
        let automaton = AhoCorasickBuilder::new()
            .match_kind(match word {
                true => MatchKind::Standard,
                false => MatchKind::LeftmostFirst,
            })
            .ascii_case_insensitive(fold != Fold::Sensitive)
            .build(shown)
            .map_err(|error| {
                PatternError::new(format!("the patterns are too large together: {error}"))
            })?;
        let of_line = |text: &Vec<u8>| match fold {
            Fold::Sensitive => text.clone(),
            _ => text.to_ascii_lowercase(),
        };
        Ok(LiteralSet {
            automaton,
            fold,
            word,
            lines: whole_line.then(|| texts.iter().map(of_line).collect()),
            has_empty: texts.iter().any(Vec::is_empty),
            has_carriage_return: literals.iter().any(|one| one.contains('\r')),
        })
    }

    /// Returns true if a carriage return before a line's end could change the matches.
    pub(crate) fn sees_carriage_return(&self) -> bool {
        self.has_carriage_return || self.lines.is_some() || self.has_empty
    }

    /// Finds the leftmost match that starts at or after `from` in a line.
    pub(crate) fn find(&self, line: &[u8], from: usize) -> Option<Span> {
        if let Some(lines) = &self.lines {
            let is_match = from == 0 && self.is_one_of(lines, line);
            return is_match.then_some(Span {
                start: 0,
                end: line.len(),
                edits: 0,
            });
        }
        let found = match self.fold {
            Fold::UnicodeInsensitive if !line.is_ascii() => {
                let text = FoldedLine::new(line);
                let from = text.position(from);
                let found = self.find_folded(&text.bytes, from);
                found.map(|span| text.original(span))
            }
            _ => self.find_folded(line, from),
        };
        let empty = (self.has_empty && !self.word).then_some(Span {
            start: from,
            end: from,
            edits: 0,
        });
        match (found, empty) {
            // If both start here, the literal that was given first would count. The longer one is
            // kept, because an empty match next to it shows nothing.
            (Some(found), Some(empty)) if found.start > empty.start => Some(empty),
            (found, empty) => found.or(empty),
        }
    }

    fn is_one_of(&self, lines: &BTreeSet<Vec<u8>>, line: &[u8]) -> bool {
        match self.fold {
            Fold::Sensitive => lines.contains(line),
            Fold::UnicodeInsensitive if !line.is_ascii() => {
                lines.contains(&FoldedLine::new(line).bytes.to_ascii_lowercase())
            }
            _ => lines.contains(&line.to_ascii_lowercase()),
        }
    }

    fn find_folded(&self, line: &[u8], from: usize) -> Option<Span> {
        let span = |found: aho_corasick::Match| Span {
            start: found.start(),
            end: found.end(),
            edits: 0,
        };
        let input = Input::new(line).range(from..);
        if !self.word {
            return self.automaton.find(input).map(span);
        }
        // Of the literals between word boundaries, the leftmost match counts, and at the same start
        // the literal that was given first.
        let all = self.automaton.find_overlapping_iter(input);
        let bounded = all.filter(|found| {
            !ends_in_word(&line[..found.start()]) && !starts_with_word(&line[found.end()..])
        });
        bounded
            .min_by_key(|found| (found.start(), found.pattern()))
            .map(span)
    }

    /// Looks for a matching line, and returns a position in it.
    pub(crate) fn find_candidate_line(
        &self,
        text: &[u8],
        stop: &Stop,
    ) -> Result<Option<LineMatchKind>, Stopped> {
        let by_line = self.lines.is_some()
            || self.has_empty
            || self.word
            || (self.fold == Fold::UnicodeInsensitive && !text.is_ascii());
        let mut from = 0;
        while from < text.len() {
            if stop.is_raised() {
                return Err(Stopped);
            }
            let end = window_end(text, from);
            let window = &text[from..end];
            let found = match by_line {
                true => self.first_line(window),
                false => self.automaton.find(window).map(|found| found.start()),
            };
            if let Some(at) = found {
                return Ok(Some(LineMatchKind::Confirmed(from + at)));
            }
            from = end;
        }
        Ok(None)
    }

    /// Returns a position in the first matching line of `text`.
    fn first_line(&self, text: &[u8]) -> Option<usize> {
        let mut start = 0;
        while start < text.len() {
            let rest = &text[start..];
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            if let Some(span) = self.find(&rest[..end], 0) {
                return Some(start + span.start);
            }
            start += end + 1;
        }
        None
    }
}

/// Returns the end of a window of whole lines that starts at `from`.
fn window_end(text: &[u8], from: usize) -> usize {
    let most = from.saturating_add(BYTES_BETWEEN_POLLS);
    if most >= text.len() {
        return text.len();
    }
    match memrchr(b'\n', &text[from..most]) {
        Some(feed) => from + feed + 1,
        None => memchr(b'\n', &text[most..]).map_or(text.len(), |feed| most + feed + 1),
    }
}

/// Returns the simple case folding of a character.
fn folded(c: char) -> char {
    case_folded(c)
        .and_then(|folded| char::from_u32(folded.get()))
        .unwrap_or(c)
}

fn ends_in_word(text: &[u8]) -> bool {
    let (last, _) = bstr::decode_last_utf8(text);
    last.is_some_and(is_word)
}

fn starts_with_word(text: &[u8]) -> bool {
    let (first, _) = bstr::decode_utf8(text);
    first.is_some_and(is_word)
}

fn is_word(c: char) -> bool {
    regex_syntax::try_is_word_character(c).unwrap_or(c == '_' || c.is_alphanumeric())
}

/// A line with folded characters, and the original positions of these.
struct FoldedLine {
    bytes: Vec<u8>,
    /// For each folded byte, and for the end, its original position in the line.
    from: Vec<usize>,
}

impl FoldedLine {
    fn new(line: &[u8]) -> FoldedLine {
        let mut bytes = Vec::with_capacity(line.len());
        let mut from = Vec::with_capacity(line.len() + 1);
        let mut at = 0;
        while at < line.len() {
            let (c, len) = bstr::decode_utf8(&line[at..]);
            let start = bytes.len();
            match c {
                Some(c) => bytes.extend_from_slice(folded(c).encode_utf8(&mut [0; 4]).as_bytes()),
                // Invalid bytes match nothing and stay unchanged.
                None => bytes.extend_from_slice(&line[at..at + len]),
            }
            from.extend(std::iter::repeat_n(at, bytes.len() - start));
            at += len;
        }
        from.push(line.len());
        FoldedLine { bytes, from }
    }

    /// Returns the first folded position whose original position is `at` or later.
    fn position(&self, at: usize) -> usize {
        self.from.partition_point(|&from| from < at)
    }

    /// Returns the original span of a span in the folded line.
    fn original(&self, span: Span) -> Span {
        let at = |position: usize| self.from.get(position).copied().unwrap_or_default();
        Span {
            start: at(span.start),
            end: at(span.end),
            edits: span.edits,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exec::answer::outcome::LineSpans;
    use crate::exec::matching::matcher::LineMatcher;
    use crate::exec::matching::pattern::Pattern;
    use crate::exec::question::query::{Case, CaseRule, QueryOptions, Spans};

    const PIECES: [&str; 14] = [
        "a", "ab", "b", "K", "k", "\u{212A}", "s", "\u{17F}", "É", "é", " ", "_", "-", "aa",
    ];

    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..8)
            .prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        /// A set matches the same lines and positions as the expression of alternatives.
        #[test]
        fn a_set_matches_as_its_alternatives_do(
            literals in prop::collection::vec(text(), 1..6),
            lines in prop::collection::vec(text(), 1..6),
            case in prop::sample::select(vec![Case::Sensitive, Case::Insensitive, Case::Smart]),
            unicode: bool,
            (word, whole_line) in prop::sample::select(vec![(false, false), (true, false), (false, true)]),
        ) {
            // The position of the empty literal in the order decides which match is shown.
            let mut literals = literals;
            literals.retain(|one| !one.is_empty());
            literals.push("ab".to_string());
            let case_rule = if unicode { CaseRule::Unicode } else { CaseRule::Ascii };
            let options = QueryOptions {
                fixed_strings: true, word, whole_line, case, case_rule,
                ..QueryOptions::default()
            };
            let pattern = Pattern::of(&literals, &options).unwrap();
            let expression = LineMatcher::new(&pattern).unwrap().worker(Stop::new());
            let set = LiteralSet::new(&literals, pattern.fold(), word, whole_line).unwrap();
            for line in &lines {
                let expected = expression.spans_in_line(line.as_bytes(), Spans::First, 1).unwrap();
                let found: LineSpans = set.find(line.as_bytes(), 0).into_iter().collect();
                prop_assert_eq!(&found, &expected, "{:?} in {:?}", &literals, line);
            }
            let text = lines.join("\n");
            let candidate = set.find_candidate_line(text.as_bytes(), &Stop::new()).unwrap();
            let first = lines.iter().position(|line| set.find(line.as_bytes(), 0).is_some());
            let line_of = |kind| match kind {
                LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at) => {
                    text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count()
                }
            };
            prop_assert_eq!(candidate.map(line_of), first);
        }
    }

    #[test]
    fn ten_megabytes_of_literals_are_found() {
        let literals: Vec<String> = (0..500_000).map(|n| format!("word{n:016}")).collect();
        let set = LiteralSet::new(&literals, Fold::AsciiInsensitive, false, false).unwrap();
        let line = b"x WORD0000000000499999 y";
        let span = set.find(line, 0).unwrap();
        assert_eq!(&line[span.start..span.end], b"WORD0000000000499999");
        assert!(set.find(b"word0000000000500000", 0).is_none());
        let long = vec!["x".repeat(SET_LIMIT + 1)];
        let error = LiteralSet::new(&long, Fold::Sensitive, false, false).unwrap_err();
        assert!(error.message.contains("at a time"), "{error}");
    }
}
