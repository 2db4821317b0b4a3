//! Blocks: the n-grams of up to 512 slots, stored so that one row answers for all of them. A slot is a file, or a part of a
//! large one; to a block they are the same, and called files.
//!
//! Owns the stored encoding of the Bloom filters: which row an n-gram is in, and how rows are filled. It knows
//! nothing of files beyond their n-grams.
//!
//! # What is stored, and why nothing is ever missed
//!
//! Row `r` of a block has one bit for each of its files. There are two kinds of rows.
//!
//! *Hashed rows* are the folded Bloom filter. The logical filter of a file has `m` bits, of which an n-gram sets
//! `b_0 … b_(k-1)`. A block with `R` hashed rows stores logical bit `b` in row `floor(floor(b·2^32/m)·R/2^32)`, so
//! that a run of logical bits shares a row, and looks at the first [`STORED_HASHES`] of the `k` bits only. Both can
//! turn "absent" into "present" and never the reverse.
//!
//! *Direct rows* belong to one n-gram each, and are exact. An n-gram that a twelfth of the files hold
//! costs less in a row of its own than hashed, and those are most of what files hold. Which n-grams these are is
//! decided for a group of blocks, whose files are alike in size.
//!
//! N-grams with a line feed are not stored and count as present everywhere: no pattern contains a line feed, so
//! nobody asks.
//!
//! One set serves both variants: the n-grams of the text together with their folds. An insensitive search asks
//! for folds, a sensitive one for the n-grams themselves. The variants differ in n-grams that fold to something
//! else, and no fold is one of these; so an n-gram that is its own fold is answered from the folded variant, a
//! superset, and nothing is stored twice.

use rayon::prelude::*;

use crate::index::bloom::BloomParams;
use crate::index::gram::{Gram, GramHash};
use crate::index::plan::BLOCK_FILES;
use crate::index::token::{ASCII_GRAMS, Tokens};

/// How many of the logical filter's bits of an n-gram are stored.
pub const STORED_HASHES: usize = 4;

/// Hashed rows for each n-gram of the files that decide the size of a block. With four hashes, an n-gram that a
/// file lacks is taken for present in 1.2 % of cases.
const ROWS_PER_GRAM: u64 = 10;

/// An n-gram that one in so many files of a group holds gets a row of its own: less than [`ROWS_PER_GRAM`] would
/// make such a row larger than what it replaces.
const DIRECT_SHARE: usize = 12;

/// Groups of fewer files have no direct rows: their list would be larger than what it saves.
const DIRECT_MIN_FILES: usize = 64;

/// The most bytes of hashed rows in a block. Only texts with a hundred thousand different n-grams in 32 KiB, or
/// whole files without line breaks, would need more; theirs are fuller than planned.
const MAX_HASHED_BYTES: u64 = 8 << 20;

/// Lookups from which on computing all positions at once pays.
const TABLE_LOOKUPS: u64 = 4 * ASCII_GRAMS as u64;

/// Files in one word of a row.
pub(crate) const WORD_FILES: usize = 64;

/// The positions of an n-gram's stored bits, as fractions of the filter in units of 2^-32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread([u32; STORED_HASHES]);

impl Spread {
    /// Computes the positions of an n-gram. Where the logical filter has fewer hashes than are stored, its
    /// last one is repeated.
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

/// Computes the positions of n-grams. A build asks for the same ones thousands of times, so those of ASCII
/// n-grams come from a table.
#[derive(Debug)]
pub struct Spreads {
    params: BloomParams,
    /// Empty for small builds, which are done before the table would be.
    ascii: Vec<Spread>,
}

impl Spreads {
    /// Prepares for looking up about `lookups` positions. The table takes 32 MiB and some 70 ms of processor time.
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

/// The n-grams of one file that are stored, each once: those of its text and their folds, without those
/// that have a line feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileGrams {
    /// N-grams of three ASCII characters.
    ascii: Box<[u32]>,
    /// All others.
    wide: Box<[Gram]>,
}

/// Returns true if one of the three packed ASCII characters satisfies a condition.
#[inline(always)]
fn any_char(packed: u32, condition: impl Fn(u32) -> bool) -> bool {
    condition(packed >> 14 & 0x7F) | condition(packed >> 7 & 0x7F) | condition(packed & 0x7F)
}

impl FileGrams {
    /// Takes from the tokens of a file what is stored. Linear in their number.
    pub fn new(tokens: &Tokens<'_>) -> FileGrams {
        let has_lf = |packed: u32| any_char(packed, |c| c == 0x0A);
        let has_upper = |packed: u32| any_char(packed, |c| c.wrapping_sub(0x41) < 26);
        let folded = tokens.insensitive.ascii.iter().copied();
        let own = tokens.sensitive.ascii.iter().copied();
        let mut ascii = Vec::with_capacity(tokens.insensitive.ascii.len());
        ascii.extend(folded.filter(|&packed| !has_lf(packed)));
        ascii.extend(own.filter(|&packed| has_upper(packed) && !has_lf(packed)));
        let mut wide: Vec<Gram> = [tokens.insensitive.wide, tokens.sensitive.wide].concat();
        wide.retain(|gram| !gram.chars().contains(&'\n'));
        wide.sort_unstable();
        wide.dedup();
        FileGrams {
            ascii: ascii.into_boxed_slice(),
            wide: wide.into_boxed_slice(),
        }
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.ascii.len() + self.wide.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory that they take, in bytes.
    pub fn footprint(&self) -> usize {
        size_of_val(&*self.ascii) + size_of_val(&*self.wide)
    }

    /// Sorts them, so that single ones can be looked up.
    pub fn sorted(mut self) -> SortedGrams {
        self.ascii.sort_unstable();
        SortedGrams(self)
    }
}

/// The n-grams of one file, in an order in which they can be looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedGrams(FileGrams);

impl SortedGrams {
    /// Returns true if the file has an n-gram; also for those with a line feed, which are not stored. Logarithmic in their
    /// number.
    pub fn may_have(&self, gram: Gram) -> bool {
        match gram.to_ascii() {
            Some(packed) => {
                self.0.ascii.binary_search(&packed).is_ok() || any_char(packed, |c| c == 0x0A)
            }
            None => self.0.wide.binary_search(&gram).is_ok() || gram.chars().contains(&'\n'),
        }
    }

    /// Returns them, to be stored in blocks.
    pub fn grams(&self) -> &FileGrams {
        &self.0
    }
}

/// The n-grams that have rows of their own in the blocks of a group.
#[derive(Debug)]
pub struct Direct {
    grams: Vec<u32>,
    /// One bit for each ASCII n-gram: is it in the list?
    member: Vec<u64>,
    /// Its number in the list, if it is.
    number: Vec<u32>,
}

impl Direct {
    /// Chooses the n-grams for a group of files. Linear in the n-grams of the files; takes 16 MiB.
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
        // Until all files are counted, the number of an n-gram is the number of files that have it.
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

    /// Returns the n-grams, in ascending order of their packed form; the number of one is its place.
    pub fn grams(&self) -> &[u32] {
        &self.grams
    }

    #[inline(always)]
    fn number(&self, packed: u32) -> Option<u32> {
        let word = self.member.get((packed / 64) as usize)?;
        (word >> (packed % 64) & 1 == 1).then(|| self.number[packed as usize])
    }

    /// Returns how many of a file's n-grams are hashed.
    pub fn hashed(&self, file: &FileGrams) -> usize {
        let ascii = file.ascii.iter();
        ascii
            .filter(|&&packed| self.number(packed).is_none())
            .count()
            + file.wide.len()
    }
}

/// The shape of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Files in the block, at most [`BLOCK_FILES`].
    pub files: u32,
    /// Words of 64 files in a row: 1, 2, 4 or 8.
    pub words: u32,
    /// Rows that n-grams are hashed to; a multiple of 64.
    pub hashed_rows: u32,
    /// Rows of single n-grams, after those.
    pub direct_rows: u32,
}

impl Shape {
    /// Returns the shape of a block for files with these numbers of hashed n-grams, in ascending order.
    pub fn new(hashed: &[usize], direct: &Direct) -> Shape {
        let files = hashed.len();
        // The few files beyond the last eighth's first are a little fuller than planned.
        let reference = hashed.get(files * 7 / 8).copied().unwrap_or(0) as u64;
        let words = files.div_ceil(WORD_FILES).next_power_of_two() as u64;
        let most = MAX_HASHED_BYTES / (words * 8);
        let rows = (reference * ROWS_PER_GRAM)
            .next_multiple_of(64)
            .clamp(64, most);
        Shape {
            files: files as u32,
            words: words as u32,
            hashed_rows: rows as u32,
            direct_rows: direct.grams.len() as u32,
        }
    }

    /// Returns the number of rows of both kinds.
    pub fn rows(&self) -> u64 {
        u64::from(self.hashed_rows) + u64::from(self.direct_rows)
    }

    /// Returns the size of the block's rows in bytes.
    pub fn bytes(&self) -> u64 {
        self.rows() * u64::from(self.words) * 8
    }
}

/// Encodes the rows of a block, each `shape.words` little-endian words, bit `f` of a row standing for file `f`.
/// Linear in the n-grams plus the size of the result.
pub fn encode(shape: Shape, files: &[&FileGrams], direct: &Direct, spreads: &Spreads) -> Vec<u8> {
    let rows = shape.rows() as usize;
    let words = shape.words as usize;
    let mut out = vec![0u8; rows * words * 8];
    // One folded filter a file, which stays in the cache, then 64 of them turned over at once.
    let filter_words = rows.div_ceil(64);
    let mut filters = vec![0u64; files.len().min(WORD_FILES) * filter_words];
    for (word, group) in files.chunks(WORD_FILES).enumerate() {
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
                let at = (row * words + word) * 8;
                out[at..at + 8].copy_from_slice(&line.to_le_bytes());
            }
        }
    }
    out
}

/// Sets the bits of one file.
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

/// Cuts files into blocks: given their numbers of hashed n-grams in ascending order, returns how many go into
/// each. Blocks are as full as can be, except that the files with the most n-grams, which differ widely, share
/// blocks of 64.
pub fn partition(hashed: &[usize]) -> Vec<usize> {
    let mut blocks = Vec::new();
    let mut rest = hashed;
    while !rest.is_empty() {
        let mut files = rest.len().min(BLOCK_FILES);
        // Halve a block while the smaller half would waste more than half of its share of the rows.
        while files > WORD_FILES && rest[files / 2] * 2 < rest[files * 7 / 8] {
            files /= 2;
        }
        blocks.push(files);
        rest = &rest[files..];
    }
    blocks
}

#[cfg(test)]
mod tests;
