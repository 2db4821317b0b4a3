//! Lines that may have something similar to a literal, many characters of the literal at a time.
//!
//! **Why.** Let a text of *m* characters be *i* insertions, *r* changes and *x* characters taken away from a literal of *p*, so that *m = p + i − x*. If
//! it counts by a threshold *t* of at least one half, then `i + r + x ≤ (1 − t) · max(p, p + i − x)`. If *m ≤ p*, then `i + r + x ≤ (1 − t) p`; else
//! `t · i + r + (2 − t) · x ≤ (1 − t) p`. Either way `i / 2 + r + x ≤ (1 − t) p`: an insertion costs one half at least, and everything else one. Counted in
//! halves, that is an automaton with one row for each of them.

use super::alphabet::first_char;
use crate::exec::matcher::Stopped;
use crate::exec::stop::Stop;

/// Bytes between two looks at the stop flag.
const BYTES_BETWEEN_POLLS: usize = 1 << 16;

/// The characters of a literal: each is a bit.
const MOST_CHARS: usize = 64;

/// Finds lines in which something may be similar to a literal.
#[derive(Debug)]
pub(super) struct Sieve {
    ascii: [u64; 128],
    /// Where the other characters of the literal stand, by character.
    others: Vec<(char, u64)>,
    /// The rows before anything was read; one for each half that there may be.
    start: Vec<u64>,
    last: u64,
}

impl Sieve {
    /// Makes the sieve of a literal, for so many halves. `None` for a literal that is too long, or if every line would pass.
    pub(super) fn new(literal: &[Option<char>], folds: bool, halves: usize) -> Option<Sieve> {
        if literal.len() > MOST_CHARS || halves / 2 >= literal.len() {
            return None;
        }
        let mut sieve = Sieve {
            ascii: [0; 128],
            others: Vec::new(),
            // So many characters may be taken away at the beginning.
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

    /// Returns a place in the first of some whole lines that may have something similar. Takes time in proportion to the text times the rows.
    ///
    /// # Errors
    ///
    /// [`Stopped`] when the flag was raised before the answer was known.
    pub(super) fn find(&self, lines: &[u8], stop: &Stop) -> Result<Option<usize>, Stopped> {
        // The usual numbers of rows are compiled for themselves, so that they are kept in registers.
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

    /// Returns which nodes the first character of a text matches, and how long it is.
    #[cold]
    fn other(&self, text: &[u8]) -> (u64, usize) {
        let (c, len) = first_char(text);
        let found = self.others.iter().find(|(other, _)| Some(*other) == c);
        (found.map_or(0, |(_, nodes)| *nodes), len)
    }
}

/// Reads a character that these nodes match. Returns the last row, which has what all others have.
#[inline(always)]
fn step(rows: &mut [u64], nodes: u64) -> u64 {
    // The rows one and two halves before, as they were and as they are now; there are none before the first one.
    let (mut old_one, mut new_one) = (0, 0);
    let (mut old_two, mut new_two) = (0, 0);
    for (halves, row) in rows.iter_mut().enumerate() {
        let old = *row;
        let same = (old << 1 | 1) & nodes;
        // Another character, and one that is not there; both also at the beginning.
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
