//! The records of a segment: the content of its sections, byte for byte.
//!
//! Owns the section numbers, and the sizes and encoding of records. `index` builds a segment from
//! these records, and reads them through [`Table`] and [`Numbers`]. This module does not know
//! n-grams or candidate selection; it only encodes numbers. `docs/format.md` has the tables.

use super::error::FormatError;
use super::manifest::RuleSets;
use super::section::{Container, SectionRange, View};
use super::wire::{Reader, Writer};

/// The version of the sections of a segment.
///
/// History: 1, the first; 2 adds the sets of ignore rules under which each file and directory is
/// eligible; 3 adds the word lists.
pub const SEGMENT_VERSION: u32 = 3;

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
pub trait Record: Sized {
    /// The length in bytes.
    const LEN: usize;

    /// The name of the record in messages.
    const NAME: &'static str;

    /// Writes the record to `out`.
    fn encode(&self, out: &mut Writer);

    /// Reads a record from `reader`.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if a field has a value that no writer gives it.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError>;
}

/// Reads the sets of ignore rules under which an entry is eligible; at least one.
fn read_sets(reader: &mut Reader<'_>) -> Result<RuleSets, FormatError> {
    let number = reader.u8()?;
    RuleSets::from_number(number)
        .ok_or_else(|| reader.inconsistent("the ignore rules of an entry are unknown"))
}

/// The metadata that identifies one state of a file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampRecord {
    /// The length in bytes; zero for a directory.
    pub len: u64,
    /// The last change of the content, in nanoseconds since the Unix epoch.
    pub modified_ns: i64,
    /// The last change of content or metadata, in the same unit; zero if unavailable.
    pub changed_ns: i64,
    /// The device number; zero if unavailable.
    pub device: u64,
    /// The inode number; zero if unavailable.
    pub inode: u64,
    /// The number of hard links.
    pub links: u32,
}

impl StampRecord {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.len);
        out.i64(self.modified_ns);
        out.i64(self.changed_ns);
        out.u64(self.device);
        out.u64(self.inode);
        out.u32(self.links);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        Ok(StampRecord {
            len: reader.u64()?,
            modified_ns: reader.i64()?,
            changed_ns: reader.i64()?,
            device: reader.u64()?,
            inode: reader.u64()?,
            links: reader.u32()?,
        })
    }
}

/// A reference to a name in the section of names. If the ordering key of a name differs from the
/// name, it follows the name in the section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameRecord {
    /// The offset of the name in the section.
    pub offset: u32,
    /// The length of the name in bytes.
    pub len: u16,
    /// The length of the ordering key in bytes; zero if the name is its own key.
    pub key_len: u16,
}

impl NameRecord {
    fn encode(&self, out: &mut Writer) {
        out.u32(self.offset);
        out.u16(self.len);
        out.u16(self.key_len);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        Ok(NameRecord {
            offset: reader.u32()?,
            len: reader.u16()?,
            key_len: reader.u16()?,
        })
    }
}

/// A file of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// The number of the directory that holds the file.
    pub dir: u32,
    /// The name of the file.
    pub name: NameRecord,
    /// The code of the tokenization result.
    pub status: u8,
    /// Whether a missing n-gram excludes the file from the candidates.
    pub excludable: bool,
    /// The sets of ignore rules under which the file is eligible.
    pub sets: RuleSets,
    /// The number of distinct n-grams stored for the file.
    pub ngrams: u32,
    /// The state of the file when it was read.
    pub stamp: StampRecord,
}

impl Record for FileRecord {
    const LEN: usize = 64;
    const NAME: &'static str = "a file of the catalog";

    fn encode(&self, out: &mut Writer) {
        out.u32(self.dir);
        self.name.encode(out);
        out.u8(self.status);
        out.bool(self.excludable);
        out.u8(self.sets.number());
        out.u8(0);
        out.u32(self.ngrams);
        self.stamp.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let dir = reader.u32()?;
        let name = NameRecord::decode(reader)?;
        let status = reader.u8()?;
        let excludable = reader.bool()?;
        let sets = read_sets(reader)?;
        reader.u8()?;
        Ok(FileRecord {
            dir,
            name,
            status,
            excludable,
            sets,
            ngrams: reader.u32()?,
            stamp: StampRecord::decode(reader)?,
        })
    }
}

/// A directory that the enumeration entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirRecord {
    /// The number of the parent directory; the root is its own parent.
    pub parent: u32,
    /// The name of the directory; empty for the root.
    pub name: NameRecord,
    /// The rank of the first file below the directory. Directories whose names have equal ordering
    /// keys share their range of ranks.
    pub first_rank: u32,
    /// The rank after the last file below the directory.
    pub end_rank: u32,
    /// The sets of ignore rules under which the directory is entered.
    pub sets: RuleSets,
    /// The state of the directory when it was listed.
    pub stamp: StampRecord,
}

impl Record for DirRecord {
    const LEN: usize = 68;
    const NAME: &'static str = "a directory of the catalog";

    fn encode(&self, out: &mut Writer) {
        out.u32(self.parent);
        self.name.encode(out);
        out.u32(self.first_rank);
        out.u32(self.end_rank);
        out.u32(self.sets.number().into());
        self.stamp.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let parent = reader.u32()?;
        let name = NameRecord::decode(reader)?;
        let (first_rank, end_rank) = (reader.u32()?, reader.u32()?);
        let sets = read_sets(reader)?;
        reader.bytes(3)?;
        Ok(DirRecord {
            parent,
            name,
            first_rank,
            end_rank,
            sets,
            stamp: StampRecord::decode(reader)?,
        })
    }
}

/// A file with a line break in its path. It is not in the catalog, and always
/// searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideRecord {
    /// The number of the directory that holds the file.
    pub dir: u32,
    /// The rank of the catalog file that follows it in emission order.
    pub before_rank: u32,
    /// The name of the file.
    pub name: NameRecord,
    /// The sets of ignore rules under which the file is eligible.
    pub sets: RuleSets,
}

impl Record for SideRecord {
    const LEN: usize = 20;
    const NAME: &'static str = "a file of the side list";

    fn encode(&self, out: &mut Writer) {
        out.u32(self.dir);
        out.u32(self.before_rank);
        self.name.encode(out);
        out.u32(self.sets.number().into());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let (dir, before_rank) = (reader.u32()?, reader.u32()?);
        let name = NameRecord::decode(reader)?;
        let sets = read_sets(reader)?;
        reader.bytes(3)?;
        Ok(SideRecord {
            dir,
            before_rank,
            name,
            sets,
        })
    }
}

/// A block of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// The number of files in the block.
    pub files: u32,
    /// The number of lanes in a row, of 64 files each: 1, 2, 4 or 8.
    pub lanes: u32,
    /// The number of rows that n-grams are hashed to. The dedicated rows of single n-grams follow.
    pub hashed_rows: u32,
    /// The offset of the block's rows in the section of rows.
    pub rows_at: u64,
}

impl Record for BlockRecord {
    const LEN: usize = 24;
    const NAME: &'static str = "a block";

    fn encode(&self, out: &mut Writer) {
        out.u32(self.files);
        out.u32(self.lanes);
        out.u32(self.hashed_rows);
        out.u32(0);
        out.u64(self.rows_at);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let (files, lanes, hashed_rows) = (reader.u32()?, reader.u32()?, reader.u32()?);
        reader.u32()?;
        Ok(BlockRecord {
            files,
            lanes,
            hashed_rows,
            rows_at: reader.u64()?,
        })
    }
}

/// A part of a multi-part file. Parts are contiguous: each ends where the next one starts, and the
/// last one ends with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartRecord {
    /// The rank of the file.
    pub rank: u32,
    /// The offset of the part in the file, in bytes.
    pub start: u32,
    /// The slot with the n-grams of the part.
    pub slot: u32,
}

impl Record for PartRecord {
    const LEN: usize = 12;
    const NAME: &'static str = "a part of a file";

    fn encode(&self, out: &mut Writer) {
        out.u32(self.rank);
        out.u32(self.start);
        out.u32(self.slot);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        Ok(PartRecord {
            rank: reader.u32()?,
            start: reader.u32()?,
            slot: reader.u32()?,
        })
    }
}

/// A group of blocks: their files are so similar in size that the same n-grams get dedicated rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// The number of blocks in the group.
    pub blocks: u32,
    /// The number of n-grams with a dedicated row in each block.
    pub direct: u32,
    /// The number of files of the group's word list.
    pub word_files: u32,
    /// The offset of the word list in the section of rows.
    pub words_at: u64,
    /// The length of the word list in bytes.
    pub words_len: u64,
}

impl Record for GroupRecord {
    const LEN: usize = 32;
    const NAME: &'static str = "a group of blocks";

    fn encode(&self, out: &mut Writer) {
        out.u32(self.blocks);
        out.u32(self.direct);
        out.u32(self.word_files);
        out.u32(0);
        out.u64(self.words_at);
        out.u64(self.words_len);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let (blocks, direct, word_files) = (reader.u32()?, reader.u32()?, reader.u32()?);
        reader.u32()?;
        Ok(GroupRecord {
            blocks,
            direct,
            word_files,
            words_at: reader.u64()?,
            words_len: reader.u64()?,
        })
    }
}

/// Counts and parameters of a whole segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaRecord {
    /// The number of files in the catalog.
    pub files: u32,
    /// The number of directories.
    pub dirs: u32,
    /// The number of files in the side list.
    pub side: u32,
    /// The number of catalog files that are eligible under exactly the sets of rules of the root.
    pub as_root: u32,
    /// The number of blocks.
    pub blocks: u32,
    /// The number of groups of blocks.
    pub groups: u32,
    /// The number of characters in an n-gram.
    pub ngram_chars: u32,
    /// The number of bits of the logical filter.
    pub bloom_bits: u64,
    /// The number of bits that an n-gram sets in the logical filter.
    pub bloom_hashes: u32,
    /// The number of these bits that are stored.
    pub stored_hashes: u32,
    /// The code of the casefold strategy of the folded variant.
    pub casefold: u32,
    /// The seed of the second hash.
    pub bloom_seed: u64,
    /// The total length in bytes of the files with stored n-grams.
    pub text_bytes: u64,
    /// The number of stored n-grams, summed over the files.
    pub ngrams: u64,
}

impl Record for MetaRecord {
    const LEN: usize = 72;
    const NAME: &'static str = "the description of the segment";

    fn encode(&self, out: &mut Writer) {
        for value in [
            self.files,
            self.dirs,
            self.side,
            self.as_root,
            self.blocks,
            self.groups,
            self.ngram_chars,
            self.bloom_hashes,
            self.stored_hashes,
            self.casefold,
        ] {
            out.u32(value);
        }
        for value in [
            self.bloom_bits,
            self.bloom_seed,
            self.text_bytes,
            self.ngrams,
        ] {
            out.u64(value);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        Ok(MetaRecord {
            files: reader.u32()?,
            dirs: reader.u32()?,
            side: reader.u32()?,
            as_root: reader.u32()?,
            blocks: reader.u32()?,
            groups: reader.u32()?,
            ngram_chars: reader.u32()?,
            bloom_hashes: reader.u32()?,
            stored_hashes: reader.u32()?,
            casefold: reader.u32()?,
            bloom_bits: reader.u64()?,
            bloom_seed: reader.u64()?,
            text_bytes: reader.u64()?,
            ngrams: reader.u64()?,
        })
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
