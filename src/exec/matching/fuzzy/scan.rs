//! The scanner: finds lines that may match, with one bit for each automaton node.
//!
//! After each character, row *i* is the set of nodes that can be reached with at most *i* edits.
//! The scanner treats assertions as always true. So for a pattern with assertions it may find lines
//! that do not match.

use super::alphabet::{Alphabet, first_char};
use super::automaton::Automaton;
use crate::exec::matching::matcher::Stopped;
use crate::exec::stop::Stop;

/// The work between two checks of the stop flag: bytes of text, or node sets for a wide scanner.
const WORK_BETWEEN_POLLS: usize = 1 << 18;

/// Finds lines that are within some edits of a match of an automaton.
#[derive(Clone, Debug)]
pub(crate) enum Scanner {
    /// A chain of at most 64 nodes.
    Chain { last: u64 },
    /// At most 64 nodes.
    NarrowAutomaton(NarrowAutomaton),
    /// A longer chain, in blocks of 64 nodes.
    Wide { last: u64 },
}

/// The follow sets of an automaton with at most 64 nodes. Table `b` maps each combination of the
/// nodes `8b` to `8b + 7` to the union of their follow sets.
#[derive(Clone, Debug)]
pub(crate) struct NarrowAutomaton {
    first: u64,
    last: u64,
    follow: Box<[[u64; 256]]>,
}

impl Scanner {
    /// Creates the scanner of an automaton without assertions. Returns `None` if the automaton has
    /// too many nodes.
    pub(crate) fn new(automaton: &Automaton) -> Option<Scanner> {
        let nodes = automaton.nodes.len();
        if automaton.is_chain() {
            let last = 1 << ((nodes - 1) % 64);
            return Some(match nodes {
                ..=64 => Scanner::Chain { last },
                _ => Scanner::Wide { last },
            });
        }
        if nodes > 64 {
            return None;
        }
        let set = |nodes: &[u32]| nodes.iter().fold(0u64, |set, node| set | 1 << node);
        let follow: Vec<u64> = automaton.follow.iter().map(|nodes| set(nodes)).collect();
        let block = |nodes: &[u64]| {
            let mut table = [0u64; 256];
            for (bits, union) in table.iter_mut().enumerate() {
                let chosen = nodes.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1);
                *union = chosen.fold(0, |union, (_, follow)| union | follow);
            }
            table
        };
        let last = automaton
            .last
            .iter()
            .rev()
            .fold(0, |set, &last| set << 1 | u64::from(last));
        Some(Scanner::NarrowAutomaton(NarrowAutomaton {
            first: set(&automaton.first),
            last,
            follow: follow.chunks(8).map(block).collect(),
        }))
    }

    /// Returns a position in the first line that is within `level` edits of a match. `lines` holds
    /// whole lines. Takes time proportional to the text, times the levels, times the blocks of 64
    /// nodes.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the flag was raised before the answer was known.
    pub(crate) fn find(
        &self,
        alphabet: &Alphabet,
        level: u32,
        lines: &[u8],
        stop: &Stop,
    ) -> Result<Option<usize>, Stopped> {
        if let (Scanner::Wide { last }, words) = (self, alphabet.words()) {
            return wide(*last, words, alphabet, level, lines, stop);
        }
        let mut rows = vec![0; level as usize + 1];
        let mut from = 0;
        while from < lines.len() {
            if stop.is_raised() {
                return Err(Stopped);
            }
            let mut end = from.saturating_add(WORK_BETWEEN_POLLS).min(lines.len());
            let within = lines[end..].iter().take(3);
            // The part may end within a character, which has at most three more bytes.
            end += within.take_while(|byte| matches!(byte, 0x80..0xC0)).count();
            let part = Part {
                text: &lines[from..end],
                begins: from == 0,
            };
            let found = match self {
                Scanner::Chain { last } => {
                    by_level(&Chain { last: *last }, alphabet, &mut rows, part)
                }
                Scanner::NarrowAutomaton(narrow) => by_level(narrow, alphabet, &mut rows, part),
                Scanner::Wide { .. } => None,
            };
            if let Some(at) = found {
                return Ok(Some(from + at));
            }
            from = end;
        }
        Ok(None)
    }
}

/// A part of some lines.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a [u8],
    /// Whether the part starts at the start of a line.
    begins: bool,
}

/// The structure of an automaton: its first nodes, its last nodes, and the nodes that follow a set.
trait Follow {
    fn first(&self) -> u64;
    fn last(&self) -> u64;
    fn follow(&self, nodes: u64) -> u64;
}

struct Chain {
    last: u64,
}

impl Follow for Chain {
    #[inline(always)]
    fn first(&self) -> u64 {
        1
    }

    #[inline(always)]
    fn last(&self) -> u64 {
        self.last
    }

    #[inline(always)]
    fn follow(&self, nodes: u64) -> u64 {
        nodes << 1
    }
}

impl Follow for NarrowAutomaton {
    #[inline(always)]
    fn first(&self) -> u64 {
        self.first
    }

    #[inline(always)]
    fn last(&self) -> u64 {
        self.last
    }

    #[inline(always)]
    fn follow(&self, nodes: u64) -> u64 {
        let mut union = 0;
        for (at, table) in self.follow.iter().enumerate() {
            union |= table[(nodes >> (8 * at)) as usize & 255];
        }
        union
    }
}

/// Selects specialized code for the usual numbers of levels.
fn by_level(
    follow: &impl Follow,
    alphabet: &Alphabet,
    rows: &mut [u64],
    part: Part<'_>,
) -> Option<usize> {
    match rows.len() {
        1 => fixed::<1>(follow, alphabet, rows, part),
        2 => fixed::<2>(follow, alphabet, rows, part),
        3 => fixed::<3>(follow, alphabet, rows, part),
        4 => fixed::<4>(follow, alphabet, rows, part),
        5 => fixed::<5>(follow, alphabet, rows, part),
        _ => scan(follow, alphabet, rows, part),
    }
}

/// Copies the rows into an array, so that they stay in registers.
fn fixed<const N: usize>(
    follow: &impl Follow,
    alphabet: &Alphabet,
    rows: &mut [u64],
    part: Part<'_>,
) -> Option<usize> {
    let mut kept: [u64; N] = (&*rows).try_into().ok()?;
    let found = scan(follow, alphabet, &mut kept, part);
    rows.copy_from_slice(&kept);
    found
}

/// Scans a part of some lines, with one row for each number of edits.
#[inline(always)]
fn scan(
    follow: &impl Follow,
    alphabet: &Alphabet,
    rows: &mut [u64],
    part: Part<'_>,
) -> Option<usize> {
    let lines = part.text;
    let ascii = alphabet.narrow()?;
    if part.begins {
        begin(follow, rows);
    }
    let mut at = 0;
    while at < lines.len() {
        let byte = lines[at];
        let matching = match byte {
            b'\n' => {
                begin(follow, rows);
                at += 1;
                continue;
            }
            0..128 => {
                at += 1;
                ascii[byte as usize]
            }
            _ => {
                let (c, len) = first_char(&lines[at..]);
                at += len;
                alphabet.nodes(c)[0]
            }
        };
        step(follow, rows, matching);
        if rows[rows.len() - 1] & follow.last() != 0 {
            return Some(at - 1);
        }
    }
    None
}

/// Sets the rows at the start of a line: each edit allows skipping (deleting) one node.
#[inline(always)]
fn begin(follow: &impl Follow, rows: &mut [u64]) {
    let mut deleted = 0;
    for (edits, row) in rows.iter_mut().enumerate() {
        *row = match edits {
            0 => 0,
            _ => deleted | follow.first() | follow.follow(deleted),
        };
        deleted = *row;
    }
}

/// Advances the rows by a character that the nodes `matching` match.
#[inline(always)]
fn step(follow: &impl Follow, rows: &mut [u64], matching: u64) {
    let first = follow.first();
    // State of the row with one edit less: its nodes before and after the character, and the nodes
    // that follow each.
    let (mut before, mut after) = (0, 0);
    let (mut from_before, mut from_after) = (0, 0);
    for (edits, row) in rows.iter_mut().enumerate() {
        let old = *row;
        let from_old = follow.follow(old) | first;
        let matched = from_old & matching;
        *row = match edits {
            0 => matched,
            // An insertion, a replacement, or a deletion after the character.
            _ => matched | before | from_before | after | from_after,
        };
        (before, from_before) = (old, from_old);
        (after, from_after) = (*row, follow.follow(*row) | first);
    }
}

/// Scans lines with a chain of more than 64 nodes.
fn wide(
    last: u64,
    words: usize,
    alphabet: &Alphabet,
    level: u32,
    lines: &[u8],
    stop: &Stop,
) -> Result<Option<usize>, Stopped> {
    let levels = level as usize + 1;
    let per_poll = (WORK_BETWEEN_POLLS / (words * levels)).max(1);
    let mut rows = vec![0u64; words * levels];
    let initial = {
        // Row i has the first i nodes; the level may be larger than a word.
        let mut rows = rows.clone();
        for edits in 1..levels {
            for node in 0..edits.min(words * 64) {
                rows[edits * words + node / 64] |= 1 << (node % 64);
            }
        }
        rows
    };
    rows.copy_from_slice(&initial);
    let mut carries = vec![(0u64, 0u64); levels];
    let (mut at, mut until_poll) = (0, 0);
    while at < lines.len() {
        if until_poll == 0 {
            if stop.is_raised() {
                return Err(Stopped);
            }
            until_poll = per_poll;
        }
        until_poll -= 1;
        if lines[at] == b'\n' {
            rows.copy_from_slice(&initial);
            at += 1;
            continue;
        }
        let (c, len) = first_char(&lines[at..]);
        at += len;
        let matching = alphabet.nodes(c);
        // The bits that each row carries from the block before: of the old row, and of the new row.
        carries.fill((1u64, 1u64));
        for block in 0..words {
            let (mut before, mut after) = (0, 0);
            let (mut from_before, mut from_after) = (0, 0);
            for (edits, carry) in carries.iter_mut().enumerate() {
                let row = &mut rows[edits * words + block];
                let old = *row;
                let from_old = old << 1 | carry.0;
                let matched = from_old & matching[block];
                *row = match edits {
                    0 => matched,
                    _ => matched | before | from_before | after | from_after,
                };
                (before, from_before) = (old, from_old);
                (after, from_after) = (*row, *row << 1 | carry.1);
                *carry = (old >> 63, *row >> 63);
            }
        }
        if rows[levels * words - 1] & last != 0 {
            return Ok(Some(at - 1));
        }
    }
    Ok(None)
}
