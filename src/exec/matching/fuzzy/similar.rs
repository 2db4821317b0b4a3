//! Texts that are similar to a literal, by the share of characters that need no edit (D68 in
//! `docs/decisions.md`).
//!
//! **Definition.** Let a text have *m* characters, a literal *p* characters, and let them differ by
//! *d* edits. The score of the text is `1 − d / max(p, m)`. A text *qualifies* if it is not empty,
//! its score reaches the threshold *t*, and *m* is at most `4p`. The match of a line is the
//! qualifying text with the highest score, then the earliest start, then the shortest length. The
//! next matches are the best of the qualifying texts that do not overlap earlier matches.
//!
//! **Algorithm.** The score of a text reaches the threshold if `d ≤ (1 − t) · max(p, m)`. That is
//! the case if and only if one of two conditions holds:
//!
//! - `d ≤ (1 − t) · p`, or
//! - `d − (1 − t) · m ≤ 0`.
//!
//! The left side of each is a sum over the steps of an alignment. So each needs one dynamic
//! programming table, of which only one column is kept at a time. The two tables show for each
//! position of the line whether a qualifying text ends there.
//!
//! At the first such position, the best text that starts before it becomes the candidate. If a
//! better text overlaps the candidate, that text becomes the candidate instead, and so on. The last
//! candidate is a match: a text with a higher score does not overlap it. The part of the line to
//! the left of the match is searched again on its own. So matches are found from left to right, and
//! the search reads no more of a line than the requested matches need.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use grep_matcher::LineMatchKind;
use memchr::{memchr, memrchr};
use serde::{Deserialize, Serialize};

use super::alphabet::first_char;
use super::similarity_filter::SimilarityFilter;
use super::{FuzzyMatcher, FuzzyWorker, Span};
use crate::exec::answer::outcome::LineSpans;
use crate::exec::matching::matcher::Stopped;
use crate::exec::matching::pattern::{Pattern, PatternError};
use crate::exec::question::query::Fold;
use crate::exec::stop::Stop;

/// The score 1 in millionths.
const ONE: u32 = 1_000_000;

/// The most characters of a literal.
const LITERAL_LIMIT: usize = 512;

/// The longest match, as a multiple of the characters of the literal.
const LONGEST: usize = 4;

/// The shortest piece, in characters, that filters well enough.
const PIECE: usize = 3;

/// Table cells that are computed between two checks of the stop flag.
const WORK_BETWEEN_POLLS: usize = 1 << 18;

/// The lowest score of a match. Stored in millionths, so that 0.8 minus two times 0.1 is exactly
/// 0.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Threshold(u32);

impl Threshold {
    /// Creates a threshold from a number, which is clamped to the range from 0 to 1. A number
    /// between two millionths is rounded down, so that no text with exactly that score is lost.
    pub fn new(score: f64) -> Threshold {
        let millionths = score.clamp(0.0, 1.0) * f64::from(ONE);
        let nearest = millionths.round();
        // A binary fraction can't represent 0.7 exactly, so a tiny difference is ignored.
        let is_meant = (millionths - nearest).abs() < 1e-6;
        // The cast turns NaN into 0.
        Threshold(if is_meant {
            nearest
        } else {
            millionths.floor()
        } as u32)
    }

    /// Returns the threshold lowered by `times` steps, at least 0.
    pub fn lowered(self, step: Threshold, times: u32) -> Threshold {
        Threshold(self.0.saturating_sub(step.0.saturating_mul(times)))
    }

    /// Returns the threshold as a number.
    pub fn score(self) -> f64 {
        f64::from(self.0) / f64::from(ONE)
    }

    /// Returns the most edits of a qualifying text, for a literal of `chars` characters. Returns
    /// `None` if every text is within that number of edits.
    pub fn max_edits(self, chars: usize) -> Option<u32> {
        // A text with d edits has at most p + d characters, so d ≤ (1 − t)(p + d).
        let (chars, kept) = (chars as u64, u64::from(self.0));
        let most = (chars * (u64::from(ONE) - kept)).checked_div(kept)?;
        u32::try_from(most)
            .ok()
            .filter(|most| u64::from(*most) < chars)
    }

    /// Returns the most half edits of a qualifying text: an insertion counts one, other edits count
    /// two. Returns `None` below a threshold of one half.
    fn halves(self, chars: usize) -> Option<usize> {
        let edits = (u64::from(ONE - self.0) * 2 * chars as u64) / u64::from(ONE);
        usize::try_from(edits).ok().filter(|_| self.0 >= ONE / 2)
    }

    /// Returns true if a text with that many edits reaches the threshold. `longer` is the number of
    /// characters of the text or the literal, whichever is longer.
    fn allows(self, edits: u32, longer: usize) -> bool {
        u64::from(edits) * u64::from(ONE) <= u64::from(ONE - self.0) * longer as u64
    }
}

/// Returns the score of a text with `text_chars` characters that differs by `edits` from a literal.
pub fn score(edits: u32, literal_chars: usize, text_chars: usize) -> f64 {
    let longer = literal_chars.max(text_chars).max(1);
    1.0 - f64::from(edits) / longer as f64
}

/// A literal compiled for similarity search, shared by the workers of a call.
#[derive(Clone, Debug)]
pub struct SimilarMatcher(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    literal: Vec<Option<char>>,
    folds: bool,
    threshold: Threshold,
    /// The longest match, in characters.
    longest: usize,
    /// Finds lines with a text within the maximum number of edits; `None` if it would not filter.
    near: Option<FuzzyMatcher>,
    /// Finds lines that may contain a qualifying text; `None` if it would not filter.
    sieve: Option<SimilarityFilter>,
}

impl SimilarMatcher {
    /// Compiles a literal for texts with at least the score `threshold`.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern is not a literal, or if it is empty or too long. The message
    /// says what to do.
    pub fn new(pattern: &Pattern, threshold: Threshold) -> Result<SimilarMatcher, PatternError> {
        if !pattern.is_fixed() || pattern.word() {
            return Err(PatternError::new(
                "a search by similarity takes only literal text".to_string(),
            ));
        }
        let folds = pattern.fold() != Fold::Sensitive;
        let literal: Vec<Option<char>> = pattern
            .original()
            .chars()
            .map(|c| Some(folded(c, folds)))
            .collect();
        let chars = literal.len();
        if chars == 0 || chars > LITERAL_LIMIT {
            return Err(PatternError::new(format!(
                "the text has {chars} characters, but a search by similarity takes 1 to \
                 {LITERAL_LIMIT}; search for a part of it"
            )));
        }
        let sieve = match threshold.halves(chars) {
            Some(halves) => SimilarityFilter::new(&literal, folds, halves),
            None => None,
        };
        let near = match threshold.max_edits(chars) {
            // If the unchanged pieces are short, most lines contain one, so `near` does not filter.
            Some(edits) if sieve.is_none() || chars >= PIECE * (edits as usize + 1) => {
                Some(FuzzyMatcher::new(pattern, edits)?)
            }
            _ => None,
        };
        let longest = match (chars as u64 * u64::from(ONE)).checked_div(threshold.0.into()) {
            Some(longest) => usize::try_from(longest).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        Ok(SimilarMatcher(Arc::new(Compiled {
            literal,
            folds,
            threshold,
            longest: longest.min(LONGEST * chars),
            near,
            sieve,
        })))
    }

    /// Creates the matcher of one worker.
    pub fn worker(&self, stop: Stop) -> SimilarWorker {
        SimilarWorker {
            near: self.0.near.as_ref().map(|near| near.worker(stop.clone())),
            tables: RefCell::new(Tables::default()),
            compiled: self.0.clone(),
            stop,
        }
    }
}

fn folded(c: char, folds: bool) -> char {
    if folds { c.to_ascii_lowercase() } else { c }
}

/// The matcher of one worker.
#[derive(Debug)]
pub struct SimilarWorker {
    compiled: Arc<Compiled>,
    near: Option<FuzzyWorker>,
    tables: RefCell<Tables>,
    stop: Stop,
}

/// Buffers that are reused between lines.
#[derive(Debug, Default)]
struct Tables {
    /// The characters of the line, and the byte offset of each, followed by the length of the line.
    chars: Vec<Option<char>>,
    starts: Vec<usize>,
    /// For each prefix of the literal: the fewest edits of a text that ends here.
    edits: Vec<u32>,
    /// The same, minus the share `1 − t` for each character of the text, in millionths.
    worth: Vec<i64>,
}

/// The best match so far.
#[derive(Clone, Copy, Debug)]
struct Best {
    start: usize,
    end: usize,
    edits: u32,
    longer: usize,
}

impl Best {
    /// Returns true if a text with `edits` edits has a higher score.
    fn is_worse_than(&self, edits: u32, longer: usize) -> bool {
        u64::from(edits) * (self.longer as u64) < u64::from(self.edits) * longer as u64
    }
}

/// The tables that a search of one line uses.
struct Columns<'a> {
    edits: &'a mut Vec<u32>,
    worth: &'a mut Vec<i64>,
}

impl SimilarWorker {
    /// Finds at most `most` matches of a line without its terminator, from left to right. Takes
    /// time proportional to the line times the literal. Each match takes at most the literal times
    /// the square of the longest match.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the flag was raised before the answer was known.
    pub fn find_in_line(
        &self,
        line: &[u8],
        most: usize,
        out: &mut LineSpans,
    ) -> Result<(), Stopped> {
        let mut tables = self.tables.borrow_mut();
        let Tables {
            chars,
            starts,
            edits,
            worth,
        } = &mut *tables;
        self.decode(line, chars, starts);
        let mut columns = Columns { edits, worth };
        let mut found = Vec::new();
        self.find_within(
            chars,
            0,
            most.saturating_sub(out.len()),
            &mut columns,
            &mut found,
        )?;
        out.extend(found.iter().map(|best| Span {
            start: starts[best.start],
            end: starts[best.end],
            edits: best.edits,
        }));
        Ok(())
    }

    /// Finds the matches in `chars`, starting at `from`. Calls itself for the part before a match
    /// that replaced an earlier, worse match. Scores decrease with each level of recursion, and
    /// there are few different scores.
    fn find_within(
        &self,
        chars: &[Option<char>],
        mut from: usize,
        most: usize,
        columns: &mut Columns<'_>,
        out: &mut Vec<Best>,
    ) -> Result<(), Stopped> {
        let longest = self.compiled.longest;
        while out.len() < most && from < chars.len() {
            let Some(first_end) = self.first_end(chars, from, columns)? else {
                break;
            };
            let mut starts = from.max(first_end.saturating_sub(longest))..first_end;
            let mut best = None;
            loop {
                let better = self.better(chars, starts.clone(), best)?;
                let Some(found) = better else { break };
                best = better;
                starts = starts.end..found.end;
            }
            let Some(best) = best else {
                // The text that ends here is longer than a match may be, and so are texts that
                // start earlier.
                from = first_end;
                continue;
            };
            if best.start >= first_end {
                self.find_within(&chars[..best.start], from, most, columns, out)?;
            }
            if out.len() < most {
                out.push(best);
            }
            from = best.end;
        }
        Ok(())
    }

    /// Returns a position in the first line that may match. `lines` holds whole lines.
    ///
    /// # Errors
    ///
    /// As [`find_in_line`](Self::find_in_line).
    pub fn find_candidate_line(&self, lines: &[u8]) -> Result<Option<LineMatchKind>, Stopped> {
        let mut from = 0;
        while from < lines.len() {
            let place = match (&self.near, &self.compiled.sieve) {
                (Some(near), _) => {
                    let found = near.find_candidate_line(&lines[from..])?;
                    found.map(|(LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at))| at)
                }
                (None, Some(sieve)) => sieve.find(&lines[from..], &self.stop)?,
                (None, None) => Some(0),
            };
            let Some(place) = place else {
                return Ok(None);
            };
            let (start, end) = line_at(lines, from + place);
            if self.stop.is_raised() {
                return Err(Stopped);
            }
            let line = &lines[start..end];
            from = end + 1;
            if let (Some(_), Some(sieve)) = (&self.near, &self.compiled.sieve)
                && sieve.find(line, &self.stop)?.is_none()
            {
                continue;
            }
            let mut found = LineSpans::new();
            self.find_in_line(line, 1, &mut found)?;
            if let Some(span) = found.first() {
                return Ok(Some(LineMatchKind::Confirmed(start + span.start)));
            }
        }
        Ok(None)
    }

    fn decode(&self, line: &[u8], chars: &mut Vec<Option<char>>, starts: &mut Vec<usize>) {
        chars.clear();
        starts.clear();
        let mut at = 0;
        while at < line.len() {
            let (c, len) = first_char(&line[at..]);
            chars.push(c.map(|c| folded(c, self.compiled.folds)));
            starts.push(at);
            at += len;
        }
        starts.push(line.len());
    }

    /// Returns the first end of a qualifying text that starts at or after `from`.
    fn first_end(
        &self,
        chars: &[Option<char>],
        from: usize,
        columns: &mut Columns<'_>,
    ) -> Result<Option<usize>, Stopped> {
        let Compiled {
            literal, threshold, ..
        } = &*self.compiled;
        let Columns { edits, worth } = columns;
        let rows = literal.len() + 1;
        edits.clear();
        edits.extend(0..rows as u32);
        worth.clear();
        worth.extend((0..rows as i64).map(|row| row * i64::from(ONE)));
        // The cost of a text character that is an edit, and of one that is not.
        let other = i64::from(threshold.0);
        let same = other - i64::from(ONE);
        let between_polls = (WORK_BETWEEN_POLLS / rows).max(1);
        for (at, &c) in chars.iter().enumerate().skip(from) {
            if (at - from) % between_polls == between_polls - 1 && self.stop.is_raised() {
                return Err(Stopped);
            }
            let (mut edits_before, mut worth_before) = (0, 0);
            for row in 1..rows {
                let is_same = c.is_some() && c == literal[row - 1];
                let changed = edits_before + u32::from(!is_same);
                edits_before = edits[row];
                edits[row] = changed.min(edits[row] + 1).min(edits[row - 1] + 1);
                let changed = worth_before + if is_same { same } else { other };
                worth_before = worth[row];
                worth[row] = changed
                    .min(worth[row] + other)
                    .min(worth[row - 1] + i64::from(ONE));
            }
            if threshold.allows(edits[rows - 1], literal.len()) || worth[rows - 1] <= 0 {
                return Ok(Some(at + 1));
            }
        }
        Ok(None)
    }

    /// Returns the best qualifying text that starts in a range, if it is better than `than`.
    fn better(
        &self,
        chars: &[Option<char>],
        starts: Range<usize>,
        than: Option<Best>,
    ) -> Result<Option<Best>, Stopped> {
        let Compiled {
            literal,
            threshold,
            longest,
            ..
        } = &*self.compiled;
        let rows = literal.len() + 1;
        let mut column: Vec<u32> = Vec::with_capacity(rows);
        let (mut best, mut found) = (than, None);
        for start in starts {
            if self.stop.is_raised() {
                return Err(Stopped);
            }
            column.clear();
            column.extend(0..rows as u32);
            for (len, &c) in (1..=*longest).zip(&chars[start..]) {
                let mut before = column[0];
                column[0] = len as u32;
                let mut least = column[0];
                for row in 1..rows {
                    let is_same = c.is_some() && c == literal[row - 1];
                    let changed = before + u32::from(!is_same);
                    before = column[row];
                    column[row] = changed.min(column[row] + 1).min(column[row - 1] + 1);
                    least = least.min(column[row]);
                }
                let is_better = |edits, longer| match &best {
                    None => threshold.allows(edits, longer),
                    Some(best) => best.is_worse_than(edits, longer),
                };
                // No longer text with this start has fewer edits than `least`.
                if !is_better(least, (*longest).max(literal.len())) {
                    break;
                }
                let (edits, longer) = (column[rows - 1], len.max(literal.len()));
                if is_better(edits, longer) {
                    let end = start + len;
                    found = Some(Best {
                        start,
                        end,
                        edits,
                        longer,
                    });
                    best = found;
                }
            }
        }
        Ok(found)
    }
}

/// Returns the start and the end of the line at a position, without its line feed.
fn line_at(lines: &[u8], at: usize) -> (usize, usize) {
    let start = memrchr(b'\n', &lines[..at]).map_or(0, |feed| feed + 1);
    let end = memchr(b'\n', &lines[at..]).map_or(lines.len(), |feed| at + feed);
    (start, end)
}

#[cfg(test)]
mod tests;
