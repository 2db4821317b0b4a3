//! Approximate matching: finds lines that contain a text within a few edits of a match of the
//! pattern.
//!
//! An edit inserts, deletes or replaces one character, which is a Unicode scalar value. An invalid
//! byte sequence counts as one character that differs from every other. Three stages narrow the
//! search down, and no stage drops a line that matches:
//!
//! 1. `pieces`: a line must contain one of several pieces of the pattern unchanged.
//! 2. `scan`: bit-parallel sets of automaton nodes, one set for each number of edits.
//! 3. `align`: the exact alignment, which decides where the match of a line is.
//!
//! The searcher creates a [`FuzzyWorker`] for each thread. This module knows patterns and bytes; it
//! reads no files.

mod align;
mod alphabet;
mod automaton;
mod pieces;
mod scan;
mod similar;
mod similarity_filter;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use grep_matcher::LineMatchKind;
use memchr::{memchr, memrchr};
use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_syntax::hir::Hir;

use align::Aligner;
use alphabet::Alphabet;
use automaton::{Automaton, AutomatonError, NODE_LIMIT};
use pieces::PIECE_LIMIT;
use scan::Scanner;

use crate::exec::answer::outcome::Span;
use crate::exec::matching::matcher::Stopped;
use crate::exec::matching::pattern::{Pattern, PatternError, REGEX_SIZE_LIMIT};
use crate::exec::stop::Stop;

pub use similar::{SimilarMatcher, SimilarWorker, Threshold, score};

/// The number of bytes after which the search decides whether looking for pieces pays off.
const TRIAL: usize = 32 << 10;

/// Looking for pieces pays off while at most one byte in `WORTH` is in lines with a piece but
/// without a match.
const WORTH: usize = 2;

/// Bytes between two checks of the stop flag while pieces are searched; few in tests, since test
/// texts are short.
const BYTES_BETWEEN_POLLS: usize = if cfg!(test) { 16 } else { 1 << 18 };

/// A pattern compiled for approximate matching, shared by the workers of a call.
#[derive(Clone, Debug)]
pub struct FuzzyMatcher(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    level: u32,
    automaton: Automaton,
    alphabet: Alphabet,
    scan: Option<Scan>,
    /// Whether every line that the scanner finds is a match.
    is_exact: bool,
    pieces: Option<Regex>,
}

/// The scanner, and the alphabet of the automaton without assertions.
#[derive(Debug)]
struct Scan {
    scanner: Scanner,
    /// `None` if the pattern has no assertions; then the alphabet of the full automaton is used.
    alphabet: Option<Alphabet>,
}

impl FuzzyMatcher {
    /// Compiles a pattern for matches within `level` edits.
    ///
    /// # Errors
    ///
    /// Returns an error if `level` is not less than the number of characters of the shortest match,
    /// since every line would match (decision D27d). Also for a pattern that matches bytes which
    /// are not characters, or that is too large. The message says what to do.
    pub fn new(pattern: &Pattern, level: u32) -> Result<FuzzyMatcher, PatternError> {
        let hir = pattern.full_hir();
        let automaton = Automaton::new(&hir, true).map_err(refused)?;
        if let Some(shortest) = automaton.min_len
            && shortest <= level as usize
        {
            return Err(PatternError::new(too_short(shortest, level)));
        }
        let alphabet = Alphabet::new(&automaton);
        let is_exact = hir.properties().look_set().is_empty();
        let scan = match is_exact {
            true => Scanner::new(&automaton).map(|scanner| Scan {
                scanner,
                alphabet: None,
            }),
            false => {
                let weak = Automaton::new(&hir, false).map_err(refused)?;
                Scanner::new(&weak).map(|scanner| Scan {
                    scanner,
                    alphabet: Some(Alphabet::new(&weak)),
                })
            }
        };
        Ok(FuzzyMatcher(Arc::new(Compiled {
            level,
            automaton,
            alphabet,
            scan,
            is_exact,
            pieces: pieces::pieces(&hir, level).and_then(|pieces| compile(&pieces)),
        })))
    }

    /// Creates the matcher of one worker.
    pub fn worker(&self, stop: Stop) -> FuzzyWorker {
        FuzzyWorker {
            aligner: RefCell::new(Aligner::new(&self.0.automaton)),
            compiled: self.0.clone(),
            tried: Cell::new(PieceStats::default()),
            pieces: self.0.pieces.clone(),
            stop,
        }
    }
}

fn refused(why: AutomatonError) -> PatternError {
    PatternError::new(match why {
        AutomatonError::Bytes => {
            "a fuzzy search counts edits of characters, but the pattern matches \
             bytes that are not characters; remove (?-u:…) from it"
                .to_string()
        }
        AutomatonError::TooLarge => format!(
            "the pattern is too large for a fuzzy search: it has more than {NODE_LIMIT} characters \
             with its repetitions written out, or too many alternatives; use smaller counted \
             repetitions, or a part of it"
        ),
    })
}

fn too_short(shortest: usize, level: u32) -> String {
    let most = match shortest {
        0 | 1 => "search exactly, or search for something longer".to_string(),
        _ => format!(
            "use {} at most, or search for something longer",
            shortest - 1
        ),
    };
    format!(
        "fuzzy level {level} allows as many edits as the shortest match of the pattern has \
         characters ({shortest}), so every line would match; {most}"
    )
}

/// Compiles pieces into one regular expression. Returns `None` if that fails, or if a piece is so
/// short that most lines contain it.
fn compile(pieces: &[Hir]) -> Option<Regex> {
    let short = |piece: &Hir| piece.properties().minimum_len().is_none_or(|len| len < 2);
    if pieces.iter().any(short) {
        return None;
    }
    let config = Regex::config()
        .utf8_empty(false)
        .nfa_size_limit(Some(REGEX_SIZE_LIMIT))
        .dfa(false)
        .onepass(false);
    let any = Hir::alternation(pieces.to_vec());
    Regex::builder().configure(config).build_from_hir(&any).ok()
}

/// How useful the search for pieces was so far.
#[derive(Clone, Copy, Debug, Default)]
struct PieceStats {
    bytes: usize,
    /// Bytes in lines with a piece but without a match.
    wasted: usize,
}

/// The matcher of one worker.
#[derive(Debug)]
pub struct FuzzyWorker {
    compiled: Arc<Compiled>,
    aligner: RefCell<Aligner>,
    tried: Cell<PieceStats>,
    pieces: Option<Regex>,
    stop: Stop,
}

impl FuzzyWorker {
    /// Finds the best match in a line without its terminator: fewest edits first, then the earliest
    /// start, then the earliest end.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the flag was raised before the answer was known.
    pub fn find_in_line(&self, line: &[u8]) -> Result<Option<Span>, Stopped> {
        let compiled = &*self.compiled;
        let mut aligner = self.aligner.borrow_mut();
        aligner.best(
            &compiled.automaton,
            &compiled.alphabet,
            compiled.level,
            line,
            &self.stop,
        )
    }

    /// Returns a position in the first line that may match. `lines` holds whole lines.
    ///
    /// # Errors
    ///
    /// As [`find_in_line`](Self::find_in_line).
    pub fn find_candidate_line(&self, lines: &[u8]) -> Result<Option<LineMatchKind>, Stopped> {
        // The position from which pieces are searched, and the start of the line that contains it.
        let (mut from, mut begin) = (0, 0);
        while from < lines.len() {
            let Some(pieces) = self.pieces.as_ref().filter(|_| self.pays()) else {
                let found = self.scan(&lines[begin..])?;
                return Ok(found.map(|kind| shifted(kind, begin)));
            };
            if self.stop.is_raised() {
                return Err(Stopped);
            }
            let until = from.saturating_add(BYTES_BETWEEN_POLLS).min(lines.len());
            // A piece may extend beyond that position.
            let end = until.saturating_add(4 * PIECE_LIMIT).min(lines.len());
            let found = pieces.search_half(&Input::new(lines).range(from..end));
            let mut tried = self.tried.get();
            let Some(found) = found else {
                tried.bytes += until - from;
                self.tried.set(tried);
                begin = memrchr(b'\n', &lines[from..until]).map_or(begin, |feed| from + feed + 1);
                from = until;
                continue;
            };
            let at = found.offset() - 1;
            let start = memrchr(b'\n', &lines[from..at]).map_or(begin, |feed| from + feed + 1);
            let end = memchr(b'\n', &lines[at..]).map_or(lines.len(), |feed| at + feed);
            let kind = self.scan(&lines[start..end])?;
            tried.bytes += end.saturating_sub(from);
            if kind.is_none() {
                tried.wasted += end - start;
            }
            self.tried.set(tried);
            if let Some(kind) = kind {
                return Ok(Some(shifted(kind, start)));
            }
            from = end + 1;
            begin = from;
        }
        Ok(None)
    }

    /// Returns true if looking for pieces has paid off so far.
    fn pays(&self) -> bool {
        let tried = self.tried.get();
        tried.bytes < TRIAL || tried.wasted.saturating_mul(WORTH) <= tried.bytes
    }

    /// Returns a position in the first line that may match, without looking for pieces.
    fn scan(&self, lines: &[u8]) -> Result<Option<LineMatchKind>, Stopped> {
        let compiled = &*self.compiled;
        if let Some(scan) = &compiled.scan {
            let alphabet = scan.alphabet.as_ref().unwrap_or(&compiled.alphabet);
            let found = scan
                .scanner
                .find(alphabet, compiled.level, lines, &self.stop)?;
            return Ok(found.map(|at| match compiled.is_exact {
                true => LineMatchKind::Confirmed(at),
                false => LineMatchKind::Candidate(at),
            }));
        }
        let mut from = 0;
        for line in lines.split(|&byte| byte == b'\n') {
            // A short line is searched to its end without a check of the flag.
            if self.stop.is_raised() {
                return Err(Stopped);
            }
            if let Some(span) = self.find_in_line(line)? {
                return Ok(Some(LineMatchKind::Confirmed(from + span.start)));
            }
            from += line.len() + 1;
        }
        Ok(None)
    }
}

fn shifted(kind: LineMatchKind, by: usize) -> LineMatchKind {
    match kind {
        LineMatchKind::Confirmed(at) => LineMatchKind::Confirmed(by + at),
        LineMatchKind::Candidate(at) => LineMatchKind::Candidate(by + at),
    }
}

#[cfg(test)]
mod tests;
