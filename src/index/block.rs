//! Blocks: the stored form of the n-grams of up to 512 slots, one row of bits per n-gram.
//!
//! A slot is a file, or a part of a large file. Blocks treat both the same. In this module, a
//! "file" is the content of one slot. The builder encodes blocks, and
//! [`Segment`](crate::index::segment::Segment) reads their rows. This module owns the encoding of
//! the Bloom filters: the rows of each n-gram, and the bits of each row. It knows nothing of files
//! except their n-grams.
//!
//! # Encoding, and why there are no false negatives
//!
//! Row `r` of a block has one bit for each of its files. There are two kinds of rows.
//!
//! *Hashed rows* are a folded Bloom filter. The logical filter of a file has `m` bits, of which an
//! n-gram sets `b_0 … b_(k-1)`. A block with `R` hashed rows stores logical bit `b` in row
//! `floor(floor(b·2^32/m)·R/2^32)`, so that a run of logical bits shares a row. Only the first
//! [`STORED_HASHES`] of the `k` bits are stored. Both simplifications can turn "absent" into
//! "present", but never the reverse.
//!
//! *Direct rows* belong to one n-gram each and are exact. If at least one in twelve files holds an
//! n-gram, a direct row costs less than hashing. Such n-grams make up most of the n-grams of a
//! file. Direct n-grams are chosen for a group of blocks, whose files have similar sizes.
//!
//! N-grams with a line feed are not stored and count as present everywhere. Patterns never contain
//! a line feed, so no search looks them up.
//!
//! One set serves both case variants: the n-grams of the text together with their folds. A
//! case-insensitive search looks up folds, a case-sensitive one the n-grams themselves. An n-gram
//! that folds to itself, such as `foo`, is stored once, in the folded variant. `Foo` folds to
//! something else and is stored in addition. So a case-sensitive search for `foo` also gets files
//! that have only `Foo`, which is a superset.

use rayon::prelude::*;

use crate::index::bloom::BloomParams;
use crate::index::gram::{Gram, GramHash};
use crate::index::plan::BLOCK_FILES;
use crate::index::token::{ASCII_GRAMS, Tokens};

/// The number of stored bits per n-gram, of those in the logical filter.
pub const STORED_HASHES: usize = 4;

/// Hashed rows per n-gram of the file that determines the size of a block. With four hashes, the
/// false-positive rate is 1.2 %.
const ROWS_PER_GRAM: u64 = 10;

/// An n-gram gets a direct row if at least one in this many files of a group holds it. A direct row
/// is one row. Hashing takes about [`ROWS_PER_GRAM`] rows times the share of files that hold the
/// n-gram.
const DIRECT_SHARE: usize = 12;

/// Groups of fewer files have no direct rows, because the list of n-grams would take more space
/// than the rows save.
const DIRECT_MIN_FILES: usize = 64;

/// Limit on the bytes of hashed rows in a block. A larger block would be needed only for texts with
/// a hundred thousand distinct n-grams in 32 KiB, or for whole files without line breaks. Their
/// filters have more false positives.
const MAX_HASHED_BYTES: u64 = 8 << 20;

/// The number of lookups from which a table of all positions is faster.
const TABLE_LOOKUPS: u64 = 4 * ASCII_GRAMS as u64;

/// The number of files in one *lane*: 8 bytes of a row, with a bit for each file.
pub(crate) const LANE_FILES: usize = 64;

/// The positions of the stored bits of an n-gram, as fractions of the filter in units of 2^-32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread([u32; STORED_HASHES]);

impl Spread {
    /// Computes the positions of an n-gram. If the logical filter has fewer hashes than
    /// [`STORED_HASHES`], the last one is repeated.
    pub fn new(hash: GramHash, params: &BloomParams) -> Spread {
        let last = params.hashes.saturating_sub(1);
        let mut positions = [0; STORED_HASHES];
        for (i, position) in positions.iter_mut().enumerate() {
            let bit = hash.bit((i as u32).min(last), params.bits);
            *position = match bit.checked_mul(1 << 32) {
                Some(scaled) => (scaled / params.bits) as u32,
                None => ((u128::from(bit) << 32) / u128::from(params.bits)) as u32,
            };
        }
        Spread(positions)
    }

    /// Returns the row of the `i`th stored bit among `rows`.
    #[inline(always)]
    pub fn row(self, i: usize, rows: u32) -> u32 {
        ((u64::from(self.0[i]) * u64::from(rows)) >> 32) as u32
    }
}

/// Computes the positions of n-grams. A build needs the same ones thousands of times, so a table
/// has those of ASCII n-grams.
#[derive(Debug)]
pub struct Spreads {
    params: BloomParams,
    /// Empty for small builds, which take less time than the table.
    ascii: Vec<Spread>,
}

impl Spreads {
    /// Prepares for about `lookups` lookups. The table takes 32 MiB and about 70 ms of processor
    /// time.
    pub fn new(params: BloomParams, lookups: u64) -> Spreads {
        let wanted = lookups > TABLE_LOOKUPS;
        let ascii = if wanted {
            (0..ASCII_GRAMS as u32)
                .into_par_iter()
                .map(|packed| Spread::new(Gram::from_ascii(packed).hashes(), &params))
                .collect()
        } else {
            Vec::new()
        };
        Spreads { params, ascii }
    }

    #[inline(always)]
    fn ascii(&self, packed: u32) -> Spread {
        match self.ascii.get(packed as usize) {
            Some(spread) => *spread,
            None => self.of(Gram::from_ascii(packed)),
        }
    }

    fn of(&self, gram: Gram) -> Spread {
        Spread::new(gram.hashes(), &self.params)
    }
}

/// The stored n-grams of one file, without duplicates: those of its text and their folds, except
/// n-grams with a line feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileGrams {
    /// N-grams of three ASCII characters.
    ascii: Box<[u32]>,
    /// All other n-grams.
    wide: Box<[Gram]>,
}

/// Returns true if one of the three packed ASCII characters satisfies `condition`.
#[inline(always)]
fn any_char(packed: u32, condition: impl Fn(u32) -> bool) -> bool {
    condition(packed >> 14 & 0x7F) | condition(packed >> 7 & 0x7F) | condition(packed & 0x7F)
}

impl FileGrams {
    /// Collects the n-grams to store from the tokens of a file. Takes linear time.
    pub fn new(tokens: &Tokens<'_>) -> FileGrams {
        let has_lf = |packed: u32| any_char(packed, |c| c == 0x0A);
        let has_upper = |packed: u32| any_char(packed, |c| c.wrapping_sub(0x41) < 26);
        let mut ascii = Vec::with_capacity(tokens.insensitive.ascii.len());
        for &packed in tokens.insensitive.ascii {
            if !has_lf(packed) {
                ascii.push(packed);
            }
        }
        for &packed in tokens.sensitive.ascii {
            if has_upper(packed) && !has_lf(packed) {
                ascii.push(packed);
            }
        }
        let mut wide: Vec<Gram> = [tokens.insensitive.wide, tokens.sensitive.wide].concat();
        wide.retain(|gram| !gram.chars().contains(&'\n'));
        wide.sort_unstable();
        wide.dedup();
        FileGrams {
            ascii: ascii.into_boxed_slice(),
            wide: wide.into_boxed_slice(),
        }
    }

    /// Returns the number of n-grams.
    pub fn len(&self) -> usize {
        self.ascii.len() + self.wide.len()
    }

    /// Returns true if there are no n-grams.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of the n-grams, in bytes.
    pub fn footprint(&self) -> usize {
        size_of_val(&*self.ascii) + size_of_val(&*self.wide)
    }

    /// Sorts the n-grams for lookups.
    pub fn sorted(mut self) -> SortedGrams {
        self.ascii.sort_unstable();
        SortedGrams(self)
    }
}

/// The n-grams of one file, sorted for lookups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedGrams(FileGrams);

impl SortedGrams {
    /// Returns true if the file may have an n-gram. Also returns true for n-grams with a line feed,
    /// which are not stored. Takes logarithmic time.
    pub fn may_have(&self, gram: Gram) -> bool {
        match gram.to_ascii() {
            Some(packed) => {
                self.0.ascii.binary_search(&packed).is_ok() || any_char(packed, |c| c == 0x0A)
            }
            None => self.0.wide.binary_search(&gram).is_ok() || gram.chars().contains(&'\n'),
        }
    }

    /// Returns the n-grams in the form that blocks store.
    pub fn grams(&self) -> &FileGrams {
        &self.0
    }
}

/// The n-grams with direct rows in the blocks of a group.
#[derive(Debug)]
pub struct Direct {
    grams: Vec<u32>,
    /// One bit for each ASCII n-gram: set if it has a direct row.
    member: Vec<u64>,
    /// The position in `grams` of each n-gram with a direct row.
    number: Vec<u32>,
}

impl Direct {
    /// Chooses the n-grams for a group of files. Takes linear time in the n-grams of the files, and
    /// 16 MiB of memory.
    pub fn choose(files: &[FileGrams]) -> Direct {
        if files.len() < DIRECT_MIN_FILES {
            return Direct {
                grams: Vec::new(),
                member: Vec::new(),
                number: Vec::new(),
            };
        }
        let limit = files.len().div_ceil(DIRECT_SHARE) as u32;
        let mut direct = Direct {
            grams: Vec::new(),
            member: vec![0; ASCII_GRAMS / 64],
            number: vec![0; ASCII_GRAMS],
        };
        // During this loop, `number` counts the files that have the n-gram.
        for file in files {
            for &packed in &file.ascii {
                let holders = &mut direct.number[packed as usize];
                *holders += 1;
                if *holders == limit {
                    direct.grams.push(packed);
                }
            }
        }
        direct.grams.sort_unstable();
        for (number, &packed) in direct.grams.iter().enumerate() {
            direct.member[(packed / 64) as usize] |= 1 << (packed % 64);
            direct.number[packed as usize] = number as u32;
        }
        direct
    }

    /// Returns the n-grams, in ascending order of their packed form. The number of an n-gram is its
    /// position.
    pub fn grams(&self) -> &[u32] {
        &self.grams
    }

    #[inline(always)]
    fn number(&self, packed: u32) -> Option<u32> {
        let word = self.member.get((packed / 64) as usize)?;
        (word >> (packed % 64) & 1 == 1).then(|| self.number[packed as usize])
    }

    /// Returns the number of a file's n-grams that are hashed.
    pub fn hashed(&self, file: &FileGrams) -> usize {
        let ascii = file.ascii.iter();
        ascii
            .filter(|&&packed| self.number(packed).is_none())
            .count()
            + file.wide.len()
    }
}

/// The dimensions of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of files in the block, at most [`BLOCK_FILES`].
    pub files: u32,
    /// The number of lanes in a row, of 64 files each: 1, 2, 4 or 8.
    pub lanes: u32,
    /// The number of hashed rows; a multiple of 64.
    pub hashed_rows: u32,
    /// The number of direct rows, which follow the hashed rows.
    pub direct_rows: u32,
}

impl Shape {
    /// Returns the shape of a block for files with these numbers of hashed n-grams, in ascending
    /// order.
    pub fn new(hashed: &[usize], direct: &Direct) -> Shape {
        let files = hashed.len();
        // The largest eighth of the files gets somewhat fuller filters than planned.
        let reference = hashed.get(files * 7 / 8).copied().unwrap_or(0) as u64;
        let lanes = files.div_ceil(LANE_FILES).next_power_of_two() as u64;
        let most = MAX_HASHED_BYTES / (lanes * 8);
        let rows = (reference * ROWS_PER_GRAM)
            .next_multiple_of(64)
            .clamp(64, most);
        Shape {
            files: files as u32,
            lanes: lanes as u32,
            hashed_rows: rows as u32,
            direct_rows: direct.grams.len() as u32,
        }
    }

    /// Returns the number of rows of both kinds.
    pub fn rows(&self) -> u64 {
        u64::from(self.hashed_rows) + u64::from(self.direct_rows)
    }

    /// Returns the size of the rows in bytes.
    pub fn bytes(&self) -> u64 {
        self.rows() * u64::from(self.lanes) * 8
    }
}

/// Encodes the rows of a block. A row has `shape.lanes` lanes, little-endian; bit `f` of a row
/// stands for file `f`. Takes linear time in the n-grams plus the size of the result.
pub fn encode(shape: Shape, files: &[&FileGrams], direct: &Direct, spreads: &Spreads) -> Vec<u8> {
    let rows = shape.rows() as usize;
    let lanes = shape.lanes as usize;
    let mut out = vec![0u8; rows * lanes * 8];
    // Each file gets a folded filter, which fits in the cache. Then 64 filters are transposed at a
    // time.
    let filter_words = rows.div_ceil(64);
    let mut filters = vec![0u64; files.len().min(LANE_FILES) * filter_words];
    for (lane, group) in files.chunks(LANE_FILES).enumerate() {
        filters.fill(0);
        for (file, filter) in group.iter().zip(filters.chunks_exact_mut(filter_words)) {
            fill(filter, shape.hashed_rows, file, direct, spreads);
        }
        for filter_word in 0..filter_words {
            let mut square = [0u64; 64];
            for (line, filter) in square.iter_mut().zip(filters.chunks_exact(filter_words)) {
                *line = filter[filter_word];
            }
            transpose(&mut square);
            let first = filter_word * 64;
            for (row, line) in (first..rows).zip(&square) {
                let at = (row * lanes + lane) * 8;
                out[at..at + 8].copy_from_slice(&line.to_le_bytes());
            }
        }
    }
    out
}

/// Sets the bits of one file in its filter.
fn fill(
    filter: &mut [u64],
    hashed_rows: u32,
    file: &FileGrams,
    direct: &Direct,
    spreads: &Spreads,
) {
    let mut set = |row: u32| filter[(row / 64) as usize] |= 1 << (row % 64);
    for &packed in &file.ascii {
        match direct.number(packed) {
            Some(number) => set(hashed_rows + number),
            None => {
                let spread = spreads.ascii(packed);
                for i in 0..STORED_HASHES {
                    set(spread.row(i, hashed_rows));
                }
            }
        }
    }
    for &gram in &file.wide {
        let spread = spreads.of(gram);
        for i in 0..STORED_HASHES {
            set(spread.row(i, hashed_rows));
        }
    }
}

/// Transposes a square of bits: bit `j` of line `i` becomes bit `i` of line `j`.
pub(crate) fn transpose(square: &mut [u64; 64]) {
    let mut width = 32;
    let mut mask = 0x0000_0000_FFFF_FFFFu64;
    while width > 0 {
        let mut line = 0;
        while line < 64 {
            let swap = (square[line] >> width ^ square[line + width]) & mask;
            square[line] ^= swap << width;
            square[line + width] ^= swap;
            line = (line + width + 1) & !width;
        }
        width >>= 1;
        mask ^= mask << width;
    }
}

/// Splits files into blocks. Takes the numbers of hashed n-grams in ascending order and returns the
/// number of files in each block. Blocks are as full as possible, except that files with the most
/// n-grams, which differ widely, share blocks of 64.
pub fn partition(hashed: &[usize]) -> Vec<usize> {
    let mut blocks = Vec::new();
    let mut rest = hashed;
    while !rest.is_empty() {
        let mut files = rest.len().min(BLOCK_FILES);
        // Halves a block if its smaller half would waste more than half of its rows.
        while files > LANE_FILES && rest[files / 2] * 2 < rest[files * 7 / 8] {
            files /= 2;
        }
        blocks.push(files);
        rest = &rest[files..];
    }
    blocks
}

#[cfg(test)]
mod tests;
