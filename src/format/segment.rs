//! The records of a segment: the content of its sections, byte for byte.
//!
//! This module owns the section numbers, and the sizes and encoding of records. `index` builds a
//! segment from these records, and reads them through [`Table`] and [`Numbers`]. This module does
//! not know n-grams or candidate selection; it only encodes numbers. `docs/format.md` has the
//! tables.

use super::error::FormatError;
use super::manifest::RuleSets;
use super::section::{Container, SectionRange, View};
use super::wire::{Field, Reader, Writer};

/// The version of the sections of a segment.
///
/// History: 1, the first; 2 adds the sets of ignore rules under which each file and directory is
/// eligible; 3 adds the word lists; 4 shortens them; 5 adds names of other modules that a file
/// offers.
pub const SEGMENT_VERSION: u32 = 5;

/// The rank in an empty slot, whose file was deleted or was read again for another slot.
pub const VACANT: u32 = u32::MAX;

/// The numbers of the sections.
pub mod id {
    /// The rows of all blocks, and the word lists of all groups, group by group.
    pub const ROWS: u32 = 1;
    /// A [`BlockRecord`](super::BlockRecord) for each block.
    pub const BLOCKS: u32 = 2;
    /// A [`GroupRecord`](super::GroupRecord) for each group of blocks.
    pub const GROUPS: u32 = 3;
    /// The n-grams with a dedicated row, in ascending order per group, four bytes each.
    pub const DIRECT: u32 = 4;
    /// The rank of the file in each slot, block by block, four bytes each;
    /// [`VACANT`](super::VACANT) in an empty slot.
    pub const SLOTS: u32 = 5;
    /// A [`DirRecord`](super::DirRecord) for each directory, parents before children.
    pub const DIRS: u32 = 6;
    /// A [`FileRecord`](super::FileRecord) for each file, in order of rank.
    pub const FILES: u32 = 7;
    /// A [`SideRecord`](super::SideRecord) for each file outside of the catalog.
    pub const SIDE: u32 = 8;
    /// Names and ordering keys.
    pub const NAMES: u32 = 9;
    /// One bit per rank, set for files that are always candidates.
    pub const ALWAYS: u32 = 10;
    /// One [`MetaRecord`](super::MetaRecord) for the whole segment.
    pub const META: u32 = 11;
    /// A [`PartRecord`](super::PartRecord) for each slot of a multi-part file, by rank and start.
    pub const PARTS: u32 = 12;
    /// The rank of each file of the word lists, list by list, four bytes each;
    /// [`VACANT`](super::VACANT) for a file that is gone.
    pub const WORD_FILES: u32 = 13;
}

/// A record of fixed length in a section.
pub trait Record: Field {
    /// The name of the record in messages.
    const NAME: &'static str;
}

impl Field for RuleSets {
    const LEN: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.u8(self.number());
    }

    /// Reads the sets of ignore rules under which an entry is eligible; at least one.
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let number = reader.u8()?;
        RuleSets::from_number(number)
            .ok_or_else(|| reader.inconsistent("the ignore rules of an entry are unknown"))
    }
}

/// Defines a record with its encoding: the fields in their order, without gaps. `+ [0; 3]` after a
/// type adds three bytes, which readers skip. The text in parentheses is the name of the record in
/// messages. A record that is only a part of other records has no such name. For example, this
/// record takes eight bytes:
///
/// ```text
/// record! {
///     /// A file with a flag.
///     FlagRecord("the flag of a file") {
///         /// The rank of the file.
///         rank: u32,
///         /// The flag.
///         flag: bool + [0; 3],
///     }
/// }
/// ```
macro_rules! record {
    ($(
        $(#[$about:meta])+
        $name:ident $(($what:literal))? {
            $( $(#[$says:meta])+ $field:ident: $type:ident $(+ [0; $gap:literal])?, )+
        }
    )+) => {$(
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$says])+ pub $field: $type, )+
        }

        impl Field for $name {
            const LEN: usize = 0 $( + <$type as Field>::LEN $(+ $gap)? )+;

            #[inline]
            fn encode(&self, out: &mut Writer) {
                $( self.$field.encode(out); $(out.bytes(&[0; $gap]);)? )+
            }

            #[inline]
            fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
                $( let $field = Field::decode(reader)?; $(reader.bytes($gap)?;)? )+
                Ok($name { $($field),+ })
            }
        }

        $(impl Record for $name {
            const NAME: &'static str = $what;
        })?
    )+};
}

record! {
    /// The metadata that identifies one state of a file or directory.
    #[derive(Default)]
    StampRecord {
        /// The length in bytes; zero for a directory.
        len: u64,
        /// The last change of the content, in nanoseconds since the Unix epoch.
        modified_ns: i64,
        /// The last change of content or metadata, in the same unit; zero if unavailable.
        changed_ns: i64,
        /// The device number; zero if unavailable.
        device: u64,
        /// The inode number; zero if unavailable.
        inode: u64,
        /// The number of hard links.
        links: u32,
    }

    /// A reference to a name in the section of names. If the ordering key of a name differs from
    /// the name, it follows the name in the section.
    #[derive(Default)]
    NameRecord {
        /// The offset of the name in the section.
        offset: u32,
        /// The length of the name in bytes.
        len: u16,
        /// The length of the ordering key in bytes; zero if the name is its own key.
        key_len: u16,
    }

    /// A file of the catalog.
    FileRecord("a file of the catalog") {
        /// The number of the directory that holds the file.
        dir: u32,
        /// The name of the file.
        name: NameRecord,
        /// The code of the tokenization result.
        status: u8,
        /// Whether a missing n-gram excludes the file from the candidates.
        excludable: bool,
        /// The sets of ignore rules under which the file is eligible.
        sets: RuleSets + [0; 1],
        /// The number of distinct n-grams stored for the file.
        ngrams: u32,
        /// The state of the file when it was read.
        stamp: StampRecord,
    }

    /// A directory that the enumeration entered.
    DirRecord("a directory of the catalog") {
        /// The number of the parent directory; the root is its own parent.
        parent: u32,
        /// The name of the directory; empty for the root.
        name: NameRecord,
        /// The rank of the first file below the directory. Directories whose names have equal
        /// ordering keys share their range of ranks.
        first_rank: u32,
        /// The rank after the last file below the directory.
        end_rank: u32,
        /// The sets of ignore rules under which the directory is entered.
        sets: RuleSets + [0; 3],
        /// The state of the directory when it was listed.
        stamp: StampRecord,
    }

    /// A file with a line break in its path. It is not in the catalog, and always
    /// searched.
    SideRecord("a file of the side list") {
        /// The number of the directory that holds the file.
        dir: u32,
        /// The rank of the catalog file that follows it in emission order.
        before_rank: u32,
        /// The name of the file.
        name: NameRecord,
        /// The sets of ignore rules under which the file is eligible.
        sets: RuleSets + [0; 3],
    }

    /// A block of files.
    BlockRecord("a block") {
        /// The number of files in the block.
        files: u32,
        /// The number of lanes in a row, of 64 files each: 1, 2, 4 or 8.
        lanes: u32,
        /// The number of rows that n-grams are hashed to. The dedicated rows of single n-grams
        /// follow.
        hashed_rows: u32 + [0; 4],
        /// The offset of the block's rows in the section of rows.
        rows_at: u64,
    }

    /// A part of a multi-part file. Parts are contiguous: each ends where the next one starts, and
    /// the last one ends with the file.
    #[derive(PartialOrd, Ord)]
    PartRecord("a part of a file") {
        /// The rank of the file.
        rank: u32,
        /// The offset of the part in the file, in bytes.
        start: u32,
        /// The slot with the n-grams of the part.
        slot: u32,
    }

    /// A group of blocks: their files are so similar in size that the same n-grams get dedicated
    /// rows.
    GroupRecord("a group of blocks") {
        /// The number of blocks in the group.
        blocks: u32,
        /// The number of n-grams with a dedicated row in each block.
        direct: u32,
        /// The number of files of the group's word list.
        word_files: u32 + [0; 4],
        /// The offset of the word list in the section of rows.
        words_at: u64,
        /// The length of the word list in bytes.
        words_len: u64,
    }

    /// Counts and parameters of a whole segment.
    MetaRecord("the description of the segment") {
        /// The number of files in the catalog.
        files: u32,
        /// The number of directories.
        dirs: u32,
        /// The number of files in the side list.
        side: u32,
        /// The number of catalog files that are eligible under exactly the sets of rules of the
        /// root.
        as_root: u32,
        /// The number of blocks.
        blocks: u32,
        /// The number of groups of blocks.
        groups: u32,
        /// The number of characters in an n-gram.
        ngram_chars: u32,
        /// The number of bits that an n-gram sets in the logical filter.
        bloom_hashes: u32,
        /// The number of these bits that are stored.
        stored_hashes: u32,
        /// The code of the casefold strategy of the folded variant.
        casefold: u32,
        /// The number of bits of the logical filter.
        bloom_bits: u64,
        /// The seed of the second hash.
        bloom_seed: u64,
        /// The total length in bytes of the files with stored n-grams.
        text_bytes: u64,
        /// The number of stored n-grams, summed over the files.
        ngrams: u64,
    }
}

/// A section of records, read one at a time.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    range: SectionRange,
    count: u32,
}

impl Table {
    /// Finds the section `id`, which must contain `count` records of type `R`.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the section is missing or has another length.
    pub fn find<R: Record>(
        container: &Container,
        id: u32,
        count: u32,
    ) -> Result<Table, FormatError> {
        let range = container.section(id)?.range();
        if range.len() as u64 != u64::from(count) * R::LEN as u64 {
            return Err(FormatError::inconsistent(
                R::NAME,
                range.start() as u64,
                "the section and the segment have different numbers of records",
            ));
        }
        Ok(Table { range, count })
    }

    /// Finds the section `id`, which must contain any number of records of type `R`.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the section is missing, or does not consist of whole records.
    pub fn find_any<R: Record>(container: &Container, id: u32) -> Result<Table, FormatError> {
        let count = container.section(id)?.range().len() / R::LEN;
        Table::find::<R>(container, id, u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Returns the number of records.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Returns true if there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Reads record `n`. `R` must be the type that the table was found for. Constant time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for a damaged page, an `n` beyond the last record, and a value that no
    /// writer writes.
    #[inline]
    pub fn get<R: Record>(&self, view: View<'_>, n: u32) -> Result<R, FormatError> {
        let bytes = view.bytes_in(self.range, n as usize * R::LEN, R::LEN)?;
        R::decode(&mut Reader::new(bytes, R::NAME))
    }
}

/// A section of four-byte numbers.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    range: SectionRange,
}

impl Numbers {
    /// Finds the section `id`.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the section is missing, or its length is not a multiple of four.
    pub fn find(container: &Container, id: u32) -> Result<Numbers, FormatError> {
        let range = container.section(id)?.range();
        if !range.len().is_multiple_of(4) {
            return Err(FormatError::inconsistent(
                "a list of numbers",
                range.start() as u64,
                "its length is not a multiple of four",
            ));
        }
        Ok(Numbers { range })
    }

    /// Returns the count of numbers.
    pub fn len(&self) -> usize {
        self.range.len() / 4
    }

    /// Returns true if there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Reads number `n`. Constant time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for a damaged page, and for an `n` beyond the last number.
    #[inline]
    pub fn get(&self, view: View<'_>, n: usize) -> Result<u32, FormatError> {
        let bytes = view.bytes_in(self.range, n * 4, 4)?;
        Ok(bytes.try_into().map_or(0, u32::from_le_bytes))
    }
}

#[cfg(test)]
mod tests;
