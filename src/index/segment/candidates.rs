//! Evaluates a plan over the blocks of a segment: which files, and which of their parts, may match.
//!
//! A search calls [`Segment::order`] and [`Segment::candidates`]. Before it reads a candidate, it
//! asks [`Segment::spans`] for the parts to read. This module finds the rows of each n-gram and
//! turns the resulting bits into sets of files and slots. (The candidates of `rg` are lists made
//! from these.)

use std::ops::Range;

use super::{Block, Group, Segment, inconsistent};
use crate::format::error::FormatError;
use crate::format::section::{Summary, View};
use crate::format::segment::{PartRecord, VACANT};
use crate::index::block::{LANE_FILES, STORED_HASHES, Spread};
use crate::index::gram::Gram;
use crate::index::plan::{BlockRows, FOLD, Mask, Scratch, SupersetSafe};
use crate::index::ranks::RankSet;
use crate::index::segment::words::WordHits;

/// Number of blocks that are sampled for the frequency of n-grams.
const SAMPLES: usize = 3;

/// The files that a plan cannot exclude, and their parts that it cannot exclude. Only
/// [`Segment::candidates`] creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    files: RankSet,
    /// The slots of candidate parts. A file with slots is a candidate if one of its slots is.
    slots: RankSet,
    /// Identifies the segment of the files and slots.
    of: Summary,
    /// True if no part of a file is excluded.
    is_everything: bool,
}

impl Candidates {
    /// Returns the files, by rank in the segment.
    pub fn files(&self) -> &RankSet {
        &self.files
    }

    /// Returns the files of a segment that have a hit, and those without a word record.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn with_words(segment: &Segment, hits: &WordHits) -> Result<Candidates, FormatError> {
        let count = segment.file_count();
        let mut files = RankSet::of_range(0..count, count);
        files.subtract(segment.word_ranks()?);
        files.unite(&hits.ranks(count));
        Ok(Candidates {
            files,
            slots: RankSet::empty(0),
            of: segment.summary(),
            is_everything: true,
        })
    }

    /// Adds files that are searched regardless of their content.
    pub fn include(&mut self, files: &RankSet) {
        self.files.unite(files);
    }
}

impl Segment {
    /// Returns the candidates: the files for which the plan cannot prove that nothing matches.
    ///
    /// Takes some tens of microseconds for a literal over 100,000 files. For each block of 512
    /// slots, it reads a few rows of 64 bytes, until no slot is left. All files are candidates if
    /// the plan excludes nothing, or if the segment folds n-grams in another way than plans do.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn candidates(&self, plan: &SupersetSafe) -> Result<Candidates, FormatError> {
        let slot_count = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        if self.casefold != FOLD || plan.reason().is_some() {
            return Ok(Candidates {
                files: RankSet::of_range(0..self.meta.files, self.meta.files),
                slots: RankSet::of_range(0..slot_count, slot_count),
                of: self.summary(),
                is_everything: true,
            });
        }
        let view = self.container.view();
        let always = view.bytes_in(self.always, 0, self.always.len())?;
        let mut files = RankSet::from_bytes(always, self.meta.files);
        let mut slots = RankSet::empty(slot_count);
        let mut scratch = Scratch::default();
        let spreads: Vec<Spread> = self.spreads(plan.grams());
        for group in &self.groups {
            let lookups = self.lookups(view, group, plan.grams(), &spreads)?;
            for block in &group.blocks {
                let mut rows = Rows::new(view, block, &lookups);
                let live = Mask::first(block.shape.files as usize);
                let found = plan.evaluate(&mut rows, live, &mut scratch);
                if let Some(error) = rows.error {
                    return Err(error);
                }
                for (lane, &bits) in found.0.iter().enumerate() {
                    let first = block.first_slot + lane * LANE_FILES;
                    let mut bits = bits;
                    slots.insert_lane(first, bits);
                    while bits != 0 {
                        let slot = first + bits.trailing_zeros() as usize;
                        bits &= bits - 1;
                        let rank = self.slots.get(view, slot)?;
                        if rank != VACANT && !files.insert(rank) {
                            return Err(inconsistent(
                                "a slot refers to a file that does not exist",
                            ));
                        }
                    }
                }
            }
        }
        Ok(Candidates {
            files,
            slots,
            of: self.summary(),
            is_everything: false,
        })
    }

    /// Orders the tests of a plan by the frequency of its n-grams in a few sampled blocks. Returns
    /// the share of sampled files that the plan cannot exclude, from 0 to 1; 1 if there are no
    /// blocks.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn order(&self, plan: &mut SupersetSafe) -> Result<f64, FormatError> {
        let view = self.container.view();
        let count: usize = self.groups.iter().map(|group| group.blocks.len()).sum();
        let wanted: Vec<usize> = (1..=SAMPLES).map(|n| count * n / (SAMPLES + 1)).collect();
        let grams = plan.grams().to_vec();
        let spreads = self.spreads(&grams);
        let mut frequencies = vec![0u32; grams.len()];
        let (mut kept, mut sampled) = (0, 0);
        let mut scratch = Scratch::default();
        let mut number = 0;
        for group in &self.groups {
            let within: Vec<&Block> = group
                .blocks
                .iter()
                .enumerate()
                .filter(|(n, _)| wanted.contains(&(number + n)))
                .map(|(_, block)| block)
                .collect();
            number += group.blocks.len();
            if within.is_empty() {
                continue;
            }
            let lookups = self.lookups(view, group, &grams, &spreads)?;
            for block in within {
                let mut rows = Rows::new(view, block, &lookups);
                let all = Mask::first(block.shape.files as usize);
                for (n, frequency) in frequencies.iter_mut().enumerate() {
                    *frequency += rows.mask(n as u32, &all).count();
                }
                kept += plan.evaluate(&mut rows, all, &mut scratch).count();
                sampled += block.shape.files;
                if let Some(error) = rows.error {
                    return Err(error);
                }
            }
        }
        let mut next = frequencies.into_iter();
        plan.order_by(|_| next.next().unwrap_or(0));
        Ok(match sampled {
            0 => 1.0,
            _ => f64::from(kept) / f64::from(sampled),
        })
    }

    /// Returns the byte ranges of a candidate file in which the expression may match, in order.
    ///
    /// Returns `None` if it may match anywhere: the file is not stored in parts, all its parts are
    /// candidates, or `candidates` belongs to another segment. Takes logarithmic time in the number
    /// of all parts, plus linear time in the parts of the file.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn spans(
        &self,
        rank: u32,
        candidates: &Candidates,
    ) -> Result<Option<Vec<Range<u64>>>, FormatError> {
        if candidates.is_everything || candidates.of != self.summary() {
            return Ok(None);
        }
        let view = self.container.view();
        let part = |n: u32| self.parts.get::<PartRecord>(view, n);
        let (mut low, mut high) = (0, self.parts.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match part(middle)?.rank < rank {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let mut spans: Vec<Range<u64>> = Vec::new();
        let mut ruled_out = false;
        let mut n = low;
        while n < self.parts.len() {
            let own = part(n)?;
            if own.rank != rank {
                break;
            }
            n += 1;
            let next = match n < self.parts.len() {
                true => Some(part(n)?).filter(|next| next.rank == rank),
                false => None,
            };
            let end = match next {
                Some(next) => next.start.into(),
                None => self.file(rank)?.stamp.len,
            };
            let span = u64::from(own.start)..end;
            // A search would skip the bytes before the first part.
            if span.start >= span.end || (n == low + 1 && span.start != 0) {
                return Err(inconsistent("parts of a file are not in order"));
            }
            if !candidates.slots.contains(own.slot) {
                ruled_out = true;
                continue;
            }
            match spans.last_mut() {
                Some(last) if last.end == span.start => last.end = span.end,
                _ => spans.push(span),
            }
        }
        Ok(ruled_out.then_some(spans))
    }

    /// Checks that each file in several slots has exactly that many parts, in order, without gaps.
    /// `repeated` is the number of slots beyond one per file.
    pub(super) fn verify_parts(&self, repeated: usize) -> Result<(), FormatError> {
        let view = self.container.view();
        let mut before: Option<PartRecord> = None;
        let mut files = 0;
        for n in 0..self.parts.len() {
            let part: PartRecord = self.parts.get(view, n)?;
            let first = before.is_none_or(|before| before.rank != part.rank);
            files += usize::from(first);
            let in_order = match before {
                Some(before) => before < part,
                None => true,
            };
            if !in_order
                || first != (part.start == 0)
                || u64::from(part.start) >= self.file(part.rank)?.stamp.len
            {
                return Err(inconsistent("parts of a file are not in order"));
            }
            if self.slots.get(view, part.slot as usize)? != part.rank {
                return Err(inconsistent("a part is in the slot of another file"));
            }
            before = Some(part);
        }
        match self.parts.len() as usize == files + repeated {
            true => Ok(()),
            false => Err(inconsistent(
                "a file has different numbers of parts and slots",
            )),
        }
    }

    fn spreads(&self, grams: &[Gram]) -> Vec<Spread> {
        let spread = |gram: &Gram| Spread::new(gram.hashes(), &self.params);
        grams.iter().map(spread).collect()
    }

    /// Finds the rows of n-grams in the blocks of a group. Takes logarithmic time in the group's
    /// list for each n-gram.
    fn lookups(
        &self,
        view: View<'_>,
        group: &Group,
        grams: &[Gram],
        spreads: &[Spread],
    ) -> Result<Vec<Lookup>, FormatError> {
        let mut lookups = Vec::with_capacity(grams.len());
        for (gram, spread) in grams.iter().zip(spreads) {
            // N-grams with a line feed are not stored and count as present everywhere.
            if gram.chars().contains(&'\n') {
                lookups.push(Lookup::Everywhere);
                continue;
            }
            let mut found = Lookup::Hashed(*spread);
            if let Some(packed) = gram.to_ascii() {
                let (mut low, mut high) = (group.direct.start, group.direct.end);
                while low < high {
                    let middle = low + (high - low) / 2;
                    let value = self.direct.get(view, middle)?;
                    if value == packed {
                        found = Lookup::Direct((middle - group.direct.start) as u32);
                        break;
                    }
                    if value < packed {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
            }
            lookups.push(found);
        }
        Ok(lookups)
    }
}

/// The location of an n-gram in the blocks of a group.
#[derive(Clone, Copy, Debug)]
enum Lookup {
    Everywhere,
    Direct(u32),
    Hashed(Spread),
}

/// The rows of one block.
struct Rows<'a> {
    view: View<'a>,
    rows_at: usize,
    row_bytes: usize,
    hashed_rows: u32,
    lookups: &'a [Lookup],
    /// Holds a row of a segment that is read on demand.
    room: Vec<u8>,
    error: Option<FormatError>,
}

impl<'a> Rows<'a> {
    #[inline]
    fn new(view: View<'a>, block: &Block, lookups: &'a [Lookup]) -> Rows<'a> {
        Rows {
            view,
            rows_at: block.rows_at,
            row_bytes: block.shape.lanes as usize * 8,
            hashed_rows: block.shape.hashed_rows,
            lookups,
            room: Vec::new(),
            error: None,
        }
    }

    /// Removes the files from `mask` that do not have their bit in the row.
    #[inline]
    fn narrow(&mut self, mask: &mut Mask, row: u32) {
        let at = self.rows_at + row as usize * self.row_bytes;
        match self.view.row(at, self.row_bytes, &mut self.room) {
            Ok(bytes) => {
                let (lanes, _) = bytes.as_chunks::<8>();
                for (lane, bytes) in mask.0.iter_mut().zip(lanes) {
                    *lane &= u64::from_le_bytes(*bytes);
                }
            }
            // The caller checks for an error before it uses the mask.
            Err(error) => self.error = Some(error),
        }
    }
}

impl BlockRows for Rows<'_> {
    #[inline]
    fn mask(&mut self, gram: u32, within: &Mask) -> Mask {
        let mut mask = *within;
        match self.lookups.get(gram as usize) {
            Some(&Lookup::Direct(number)) => self.narrow(&mut mask, self.hashed_rows + number),
            Some(&Lookup::Hashed(spread)) => {
                for i in 0..STORED_HASHES {
                    self.narrow(&mut mask, spread.row(i, self.hashed_rows));
                    if mask.is_zero() {
                        break;
                    }
                }
            }
            Some(Lookup::Everywhere) | None => {}
        }
        mask
    }
}
