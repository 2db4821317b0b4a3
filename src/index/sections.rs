//! The sections of a segment that follow the rows of its blocks, such as the catalog and the names.
//!
//! This module owns their order and the section of names. A builder fills them from a tree, the
//! SQLite reader from its tables. Equal records give equal bytes, so both write the same file. The
//! callers decide about the content of the records.

use std::ffi::OsStr;
use std::io::{self, Write};

use crate::format::manifest::RuleSets;
use crate::format::section::{SectionWriter, Summary};
use crate::format::segment::{
    BlockRecord, DirRecord, FileRecord, GroupRecord, MetaRecord, NameRecord, PartRecord,
    SideRecord, VACANT, id,
};
use crate::format::sort_key::component_key;
use crate::format::wire::{Field, Writer};
use crate::index::names::name_bytes;

/// The records of a segment, in the order of arrival. Names are added in the order of their
/// records: directories, files, side list.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    pub(crate) blocks: Vec<BlockRecord>,
    pub(crate) groups: Vec<GroupRecord>,
    /// The n-grams that have rows of their own, group by group.
    pub(crate) direct: Vec<u32>,
    /// The content of the slots, block by block.
    pub(crate) slots: Vec<Slot>,
    /// The ranks of the files of the word lists, group by group.
    pub(crate) word_files: Vec<u32>,
    dirs: Writer,
    files: Writer,
    file_count: usize,
    /// The sets of ignore rules by which the root, the first directory, is eligible.
    root_sets: Option<RuleSets>,
    /// The number of files with the same sets as the root.
    as_root: u32,
    side: Writer,
    names: Writer,
    always: Vec<u8>,
}

/// A slot: a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    /// The rank of the file; [`VACANT`] for an empty slot.
    pub(crate) rank: u32,
    /// Where the part starts, in bytes.
    pub(crate) start: u32,
}

/// The error for names of more than 4 GiB in total, or a single name of more than 64 KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamesTooLong;

impl Sections {
    /// Adds a directory. `name` replaces the name in the record.
    pub(crate) fn push_dir(&mut self, name: &OsStr, dir: DirRecord) -> Result<(), NamesTooLong> {
        self.root_sets.get_or_insert(dir.sets);
        let name = self.add_name(name)?;
        DirRecord { name, ..dir }.encode(&mut self.dirs);
        Ok(())
    }

    /// Adds the file with the next rank.
    pub(crate) fn push_file(&mut self, name: &OsStr, file: FileRecord) -> Result<(), NamesTooLong> {
        let name = self.add_name(name)?;
        FileRecord { name, ..file }.encode(&mut self.files);
        let bit = self.file_count % 8;
        if bit == 0 {
            self.always.push(0);
        }
        if let Some(last) = self.always.last_mut() {
            *last |= u8::from(!file.excludable) << bit;
        }
        self.file_count += 1;
        self.as_root += u32::from(self.root_sets == Some(file.sets));
        Ok(())
    }

    /// Returns the number of files with the same sets of ignore rules as the root.
    pub(crate) fn as_root(&self) -> u32 {
        self.as_root
    }

    /// Adds a file of the side list.
    pub(crate) fn push_side(&mut self, name: &OsStr, side: SideRecord) -> Result<(), NamesTooLong> {
        let name = self.add_name(name)?;
        SideRecord { name, ..side }.encode(&mut self.side);
        Ok(())
    }

    /// Appends a name, and its ordering key if the key differs from the name.
    fn add_name(&mut self, name: &OsStr) -> Result<NameRecord, NamesTooLong> {
        let too_long = |_| NamesTooLong;
        let bytes = name_bytes(name);
        let key = component_key(name);
        let key: &[u8] = match key.as_bytes() {
            key if key == bytes => &[],
            key => key,
        };
        let record = NameRecord {
            offset: self.names.len().try_into().map_err(too_long)?,
            len: bytes.len().try_into().map_err(too_long)?,
            key_len: key.len().try_into().map_err(too_long)?,
        };
        self.names.bytes(bytes);
        self.names.bytes(key);
        Ok(record)
    }

    /// Returns the parts of all files with several parts, by rank and start.
    fn parts(&self) -> Vec<PartRecord> {
        let mut parts: Vec<PartRecord> = (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.rank != VACANT)
            .map(|(slot, &Slot { rank, start })| PartRecord { rank, start, slot })
            .collect();
        parts.sort_unstable();
        let files = parts.chunk_by(|a, b| a.rank == b.rank);
        let several = files.filter(|own| own.len() > 1);
        several.flatten().copied().collect()
    }

    /// Writes all sections after the rows, and completes the file.
    ///
    /// # Errors
    ///
    /// Any error of the output.
    pub(crate) fn write<W: Write>(
        &self,
        mut out: SectionWriter<W>,
        meta: MetaRecord,
    ) -> io::Result<Summary> {
        out.section(id::BLOCKS, records(&self.blocks).as_bytes())?;
        out.section(id::GROUPS, records(&self.groups).as_bytes())?;
        out.section(id::DIRECT, numbers(&self.direct).as_bytes())?;
        let ranks: Vec<u32> = self.slots.iter().map(|slot| slot.rank).collect();
        out.section(id::SLOTS, numbers(&ranks).as_bytes())?;
        out.section(id::DIRS, self.dirs.as_bytes())?;
        out.section(id::FILES, self.files.as_bytes())?;
        out.section(id::SIDE, self.side.as_bytes())?;
        out.section(id::NAMES, self.names.as_bytes())?;
        out.section(id::ALWAYS, &self.always)?;
        out.section(id::META, records(&[meta]).as_bytes())?;
        out.section(id::PARTS, records(&self.parts()).as_bytes())?;
        out.section(id::WORD_FILES, numbers(&self.word_files).as_bytes())?;
        out.finish()
    }
}

/// Writes the rows of a block, or a word list, to their section and returns their offset in it. The
/// offset is a multiple of 64 (a cache line), so that no row crosses a page.
///
/// # Errors
///
/// Any error of the output.
pub(crate) fn write_rows<W: Write>(out: &mut SectionWriter<W>, rows: &[u8]) -> io::Result<u64> {
    let padding = out.section_len().next_multiple_of(64) - out.section_len();
    out.write_all(&[0; 64][..padding as usize])?;
    let at = out.section_len();
    out.write_all(rows)?;
    Ok(at)
}

fn records<R: Field>(items: &[R]) -> Writer {
    let mut out = Writer::new();
    items.iter().for_each(|item| item.encode(&mut out));
    out
}

fn numbers(numbers: &[u32]) -> Writer {
    let mut out = Writer::new();
    numbers.iter().for_each(|&number| out.u32(number));
    out
}
