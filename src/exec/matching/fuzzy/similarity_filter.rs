//! A filter for lines that may contain a text similar to a literal. Bit-parallel: one machine word
//! holds all characters of the literal.
//!
//! **Why.** Let the literal have *p* characters and the text *m*. They differ by *i* insertions,
//! *r* replacements and *x* deletions, so *m = p + i − x*. If the text reaches a threshold *t*,
//! then `i + r + x ≤ (1 − t) · max(p, m)`. The filter requires that *t* is at least one half. There
//! are two cases:
//!
//! - If *m ≤ p*, then `i + r + x ≤ (1 − t) · p`.
//! - Otherwise, with *p + i − x* for *m*, `t · i + r + (2 − t) · x ≤ (1 − t) · p`.
//!
//! Since *t* is between one half and one, `i / 2 + r + x ≤ (1 − t) · p` holds in both cases. So an
//! insertion costs at least one half, and every other edit costs at least one. The automaton counts
//! in halves and has one row for each number of halves.

use super::alphabet::first_char;
use crate::exec::matching::matcher::Stopped;
use crate::exec::stop::Stop;

/// Bytes between two checks of the stop flag.
const BYTES_BETWEEN_POLLS: usize = 1 << 16;

/// The most characters of a literal: each is one bit.
const MOST_CHARS: usize = 64;

/// Finds lines that may contain a text similar to a literal.
#[derive(Debug)]
pub(super) struct SimilarityFilter {
    ascii: [u64; 128],
    /// The positions of the non-ASCII characters in the literal.
    others: Vec<(char, u64)>,
    /// The rows before the first character; one row for each number of halves.
    start: Vec<u64>,
    last: u64,
}

impl SimilarityFilter {
    /// Creates the sieve of a literal for a budget of `halves`. Returns `None` if the literal is
    /// too long, or if every line would pass.
    pub(super) fn new(
        literal: &[Option<char>],
        folds: bool,
        halves: usize,
    ) -> Option<SimilarityFilter> {
        if literal.len() > MOST_CHARS || halves / 2 >= literal.len() {
            return None;
        }
        let mut sieve = SimilarityFilter {
            ascii: [0; 128],
            others: Vec::new(),
            // That many characters may be deleted at the beginning.
            start: (0..=halves).map(|row| (1 << (row / 2)) - 1).collect(),
            last: 1 << literal.len().checked_sub(1)?,
        };
        for (at, c) in literal.iter().enumerate() {
            let c = (*c)?;
            let bit = 1 << at;
            match u8::try_from(c).ok().filter(u8::is_ascii) {
                Some(byte) => {
                    sieve.ascii[usize::from(byte)] |= bit;
                    if folds {
                        sieve.ascii[usize::from(byte.to_ascii_uppercase())] |= bit;
                    }
                }
                None => match sieve.others.iter_mut().find(|(other, _)| *other == c) {
                    Some((_, bits)) => *bits |= bit,
                    None => sieve.others.push((c, bit)),
                },
            }
        }
        Some(sieve)
    }

    /// Returns a position in the first line that may contain a similar text. `lines` holds whole
    /// lines. Takes time proportional to the text times the rows.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the flag was raised before the answer was known.
    pub(super) fn find(&self, lines: &[u8], stop: &Stop) -> Result<Option<usize>, Stopped> {
        // The usual numbers of rows have specialized code, which keeps the rows in registers.
        match self.start.len() {
            2 => self.find_in::<2>(lines, stop),
            3 => self.find_in::<3>(lines, stop),
            4 => self.find_in::<4>(lines, stop),
            5 => self.find_in::<5>(lines, stop),
            6 => self.find_in::<6>(lines, stop),
            7 => self.find_in::<7>(lines, stop),
            8 => self.find_in::<8>(lines, stop),
            9 => self.find_in::<9>(lines, stop),
            10 => self.find_in::<10>(lines, stop),
            11 => self.find_in::<11>(lines, stop),
            12 => self.find_in::<12>(lines, stop),
            13 => self.find_in::<13>(lines, stop),
            _ => self.find_by(lines, &mut self.start.clone(), stop),
        }
    }

    fn find_in<const N: usize>(&self, lines: &[u8], stop: &Stop) -> Result<Option<usize>, Stopped> {
        let mut rows = [0; N];
        rows.copy_from_slice(&self.start);
        self.find_by(lines, &mut rows, stop)
    }

    #[inline(always)]
    fn find_by(
        &self,
        lines: &[u8],
        rows: &mut [u64],
        stop: &Stop,
    ) -> Result<Option<usize>, Stopped> {
        let mut at = 0;
        while at < lines.len() {
            if stop.is_raised() {
                return Err(Stopped);
            }
            let poll = at.saturating_add(BYTES_BETWEEN_POLLS).min(lines.len());
            while at < poll {
                let byte = lines[at];
                if byte == b'\n' {
                    rows.copy_from_slice(&self.start[..rows.len()]);
                    at += 1;
                    continue;
                }
                let (nodes, len) = match self.ascii.get(usize::from(byte)) {
                    Some(nodes) => (*nodes, 1),
                    None => self.other(&lines[at..]),
                };
                if step(rows, nodes) & self.last != 0 {
                    return Ok(Some(at));
                }
                at += len;
            }
        }
        Ok(None)
    }

    /// Returns the nodes that the first character of a text matches, and the length of the
    /// character in bytes.
    #[cold]
    fn other(&self, text: &[u8]) -> (u64, usize) {
        let (c, len) = first_char(text);
        let found = self.others.iter().find(|(other, _)| Some(*other) == c);
        (found.map_or(0, |(_, nodes)| *nodes), len)
    }
}

/// Advances the rows by a character that `nodes` match. Returns the last row, which contains the
/// bits of all other rows.
#[inline(always)]
fn step(rows: &mut [u64], nodes: u64) -> u64 {
    // The rows one and two halves below, before and after this character; empty below the first
    // row.
    let (mut old_one, mut new_one) = (0, 0);
    let (mut old_two, mut new_two) = (0, 0);
    for (halves, row) in rows.iter_mut().enumerate() {
        let old = *row;
        let same = (old << 1 | 1) & nodes;
        // A replacement and a deletion, both also at the beginning.
        let edited = match halves {
            0 | 1 => 0,
            _ => (old_two | new_two) << 1 | 1,
        };
        let new = same | edited | old_one | new_one;
        *row = new;
        (old_two, new_two) = (old_one, new_one);
        (old_one, new_one) = (old, new);
    }
    new_one
}
