//! Reads a segment: its catalog of files and directories, and its blocks of n-grams.
//!
//! The store opens segments. Searches and live indexes read them through snapshots, and the builder
//! reads earlier ones to copy blocks. This module interprets the sections of a segment file and
//! validates them. Opening a segment checks that its tables agree with each other; numbers of files
//! and names are checked when they are used. A [`Segment`] can be in memory or in a mapped file.
//!
//! `candidates` evaluates plans over the blocks, `words` looks terms up in word lists, `content`
//! hands out blocks to be copied, `by_dir` lists the content of directories, and `find` finds files
//! and directories by their paths.

mod by_dir;
pub mod candidates;
pub(crate) mod content;
mod find;
pub mod words;

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::format::error::FormatError;
use crate::format::manifest::RuleSets;
use crate::format::section::{Container, FileKind, SectionRange, Summary};
use crate::format::segment::{
    BlockRecord, DirRecord, FileRecord, GroupRecord, MetaRecord, NameRecord, Numbers, PartRecord,
    SEGMENT_VERSION, SideRecord, Table, VACANT, id,
};
use crate::format::sort_key::component_key;
use crate::format::storage::Storage;
use crate::index::block::{LANE_FILES, STORED_HASHES, Shape};
use crate::index::bloom::BloomParams;
use crate::index::casefold::Casefold;
use crate::index::gram::{NGRAM_CHARS, SECOND_SEED};
use crate::index::names::{name_bytes, name_from_bytes};
use crate::index::plain_files::PlainFiles;
use crate::index::plan::BLOCK_FILES;
use crate::index::ranks::RankSet;
use crate::index::root_dir::is_component;
use crate::index::segment::by_dir::ByDir;
use crate::index::segment::words::WordList;

/// Limit on the mean length of directory paths, in bytes. Operating systems do not open much longer
/// paths. Without the limit, a few records of a damaged catalog could expand to gigabytes.
const MAX_MEAN_PATH: usize = 4096;

/// An opened segment.
#[derive(Debug)]
pub struct Segment {
    container: Container,
    meta: MetaRecord,
    params: BloomParams,
    casefold: Casefold,
    files: Table,
    dirs: Table,
    side: Table,
    names: SectionRange,
    always: SectionRange,
    parts: Table,
    slots: Numbers,
    direct: Numbers,
    word_files: Numbers,
    word_ranks: OnceLock<RankSet>,
    groups: Vec<Group>,
    paths: OnceLock<DirPaths>,
    by_dir: OnceLock<ByDir>,
    /// Inode, device and rank of each file, sorted.
    by_identity: OnceLock<Vec<(u64, u64, u32)>>,
    /// The files that a search reads as they are, as far as they were examined.
    pub(crate) plain_files: PlainFiles,
}

/// A group of blocks.
#[derive(Debug)]
struct Group {
    /// The positions of its direct n-grams in the list of all groups.
    direct: Range<usize>,
    blocks: Vec<Block>,
    words: WordList,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    shape: Shape,
    /// The offset of its rows in the file.
    rows_at: usize,
    first_slot: usize,
}

/// The paths of all directories, by number and sorted.
#[derive(Debug)]
struct DirPaths {
    paths: Vec<PathBuf>,
    /// The numbers of directories, sorted by the bytes of their paths.
    sorted: Vec<u32>,
}

impl Segment {
    /// Opens a segment and checks its tables, in time that depends only on the number of blocks.
    /// Pages are checked when they are first read.
    ///
    /// # Errors
    ///
    /// [`FormatError`]. If it [is corrupt](FormatError::is_corrupt), no process can use the
    /// segment.
    pub fn open(storage: Storage) -> Result<Segment, FormatError> {
        Segment::new(Container::open(
            storage,
            FileKind::Segment,
            SEGMENT_VERSION,
        )?)
    }

    /// Opens a segment that this process has just written to memory, without checking its pages.
    ///
    /// # Errors
    ///
    /// Those of [`Segment::open`].
    pub fn open_own(storage: Storage) -> Result<Segment, FormatError> {
        Segment::new(Container::open_own(
            storage,
            FileKind::Segment,
            SEGMENT_VERSION,
        )?)
    }

    fn new(container: Container) -> Result<Segment, FormatError> {
        let meta: MetaRecord =
            Table::find::<MetaRecord>(&container, id::META, 1)?.get(container.view(), 0)?;
        let wrong = |problem| FormatError::inconsistent("the segment", 0, problem);
        if meta.ngram_chars as usize != NGRAM_CHARS
            || meta.stored_hashes as usize != STORED_HASHES
            || meta.bloom_seed != SECOND_SEED
            || meta.bloom_bits == 0
            || meta.bloom_hashes == 0
        {
            return Err(wrong("its n-grams are stored in an unknown way"));
        }
        let casefold = Casefold::from_number(meta.casefold)
            .ok_or_else(|| wrong("the case folding of its n-grams is unknown"))?;
        if meta.as_root > meta.files {
            return Err(wrong("it has fewer files than eligible files"));
        }
        if meta.dirs == 0 {
            return Err(wrong("it has no root"));
        }
        let always = container.section(id::ALWAYS)?.range();
        if always.len() != (meta.files as usize).div_ceil(8) {
            return Err(wrong(
                "its list of files that are always searched has a wrong length",
            ));
        }
        let slots = Numbers::find(&container, id::SLOTS)?;
        let direct = Numbers::find(&container, id::DIRECT)?;
        let word_files = Numbers::find(&container, id::WORD_FILES)?;
        let groups = read_groups(&container, &meta, &slots, &direct, &word_files)?;
        Ok(Segment {
            params: BloomParams {
                ngram_chars: meta.ngram_chars,
                bits: meta.bloom_bits,
                hashes: meta.bloom_hashes,
                seed: meta.bloom_seed,
                ..BloomParams::default()
            },
            casefold,
            files: Table::find::<FileRecord>(&container, id::FILES, meta.files)?,
            dirs: Table::find::<DirRecord>(&container, id::DIRS, meta.dirs)?,
            side: Table::find::<SideRecord>(&container, id::SIDE, meta.side)?,
            names: container.section(id::NAMES)?.range(),
            always,
            parts: Table::find_any::<PartRecord>(&container, id::PARTS)?,
            slots,
            direct,
            word_files,
            word_ranks: OnceLock::new(),
            groups,
            meta,
            container,
            paths: OnceLock::new(),
            by_dir: OnceLock::new(),
            by_identity: OnceLock::new(),
            plain_files: PlainFiles::default(),
        })
    }

    /// Returns the metadata record of the segment.
    pub fn meta(&self) -> &MetaRecord {
        &self.meta
    }

    /// Returns the length and the checksum of the segment file.
    pub fn summary(&self) -> Summary {
        self.container.summary()
    }

    /// Returns the bytes of the segment.
    pub fn storage(&self) -> &Storage {
        self.container.storage()
    }

    /// Returns the number of files in the catalog.
    pub fn file_count(&self) -> u32 {
        self.meta.files
    }

    /// Returns true if each file of the catalog is eligible by the sets of ignore rules `asked`.
    /// Takes constant time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn all_hold(&self, asked: RuleSets) -> Result<bool, FormatError> {
        Ok(self.meta.as_root == self.meta.files && self.dir(0)?.sets.hold(asked))
    }

    /// Returns the number of directories in the catalog.
    pub fn dir_count(&self) -> u32 {
        self.meta.dirs
    }

    /// Returns the number of files on the side list.
    pub fn side_count(&self) -> u32 {
        self.meta.side
    }

    /// Reads the file with the given rank, in constant time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged and must not be used any longer.
    pub fn file(&self, rank: u32) -> Result<FileRecord, FormatError> {
        let file: FileRecord = self.files.get(self.container.view(), rank)?;
        self.check_dir(file.dir)?;
        check_named(file.name)?;
        Ok(file)
    }

    /// Reads the directory with the given number, in constant time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn dir(&self, number: u32) -> Result<DirRecord, FormatError> {
        let dir: DirRecord = self.dirs.get(self.container.view(), number)?;
        let is_root = number == 0 && dir.parent == 0;
        if !is_root && dir.parent >= number {
            return Err(inconsistent("a directory is listed before its parent"));
        }
        if !is_root {
            check_named(dir.name)?;
        }
        if dir.first_rank > dir.end_rank || dir.end_rank > self.meta.files {
            return Err(inconsistent(
                "a directory refers to files that do not exist",
            ));
        }
        Ok(dir)
    }

    /// Reads a file of the side list, in constant time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn side(&self, n: u32) -> Result<SideRecord, FormatError> {
        let side: SideRecord = self.side.get(self.container.view(), n)?;
        self.check_dir(side.dir)?;
        check_named(side.name)?;
        // A merge with the catalog would never reach such a file.
        if side.before_rank > self.meta.files {
            return Err(inconsistent(
                "a file is listed before a file that does not exist",
            ));
        }
        Ok(side)
    }

    /// Reads a name. The result is empty or a single path component, so it leads to no other
    /// directory.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn name(&self, name: NameRecord) -> Result<&OsStr, FormatError> {
        let bytes =
            self.container
                .view()
                .bytes_in(self.names, name.offset as usize, name.len.into())?;
        name_from_bytes(bytes)
            .filter(|name| name.is_empty() || is_component(name))
            .ok_or_else(|| inconsistent("a name is not valid on this system"))
    }

    /// Reads the ordering key of a name.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn sort_key(&self, name: NameRecord) -> Result<&[u8], FormatError> {
        let (offset, len) = match name.key_len {
            0 => (name.offset as usize, name.len),
            len => (name.offset as usize + usize::from(name.len), len),
        };
        self.container
            .view()
            .bytes_in(self.names, offset, len.into())
    }

    /// Returns the path of a directory, relative to the root. The first call computes all paths.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn dir_path(&self, number: u32) -> Result<&Path, FormatError> {
        let paths = &self.paths()?.paths;
        paths
            .get(number as usize)
            .map(PathBuf::as_path)
            .ok_or_else(|| inconsistent("a directory that does not exist"))
    }

    /// Returns the path of a file, relative to the root.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn path(&self, rank: u32) -> Result<PathBuf, FormatError> {
        let file = self.file(rank)?;
        Ok(self.dir_path(file.dir)?.join(self.name(file.name)?))
    }

    /// Returns the path of a file of the side list, relative to the root.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn side_path(&self, n: u32) -> Result<PathBuf, FormatError> {
        let side = self.side(n)?;
        Ok(self.dir_path(side.dir)?.join(self.name(side.name)?))
    }

    fn paths(&self) -> Result<&DirPaths, FormatError> {
        if let Some(paths) = self.paths.get() {
            return Ok(paths);
        }
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut bytes_left = MAX_MEAN_PATH.saturating_mul(self.meta.dirs as usize);
        for number in 0..self.meta.dirs {
            let dir = self.dir(number)?;
            // `dir` ensures that the parent has a lower number. The root has no parent.
            let parent = paths.get(dir.parent as usize);
            let path = match parent {
                None => PathBuf::new(),
                Some(parent) => {
                    let len = parent.as_os_str().len() + 1 + usize::from(dir.name.len);
                    bytes_left = bytes_left.checked_sub(len).ok_or_else(|| {
                        inconsistent("the paths of directories are impossibly long")
                    })?;
                    let mut path = PathBuf::with_capacity(len);
                    path.push(parent);
                    path.push(self.name(dir.name)?);
                    path
                }
            };
            paths.push(path);
        }
        let mut sorted: Vec<u32> = (0..self.meta.dirs).collect();
        sorted.sort_by(|&a, &b| {
            let bytes = |n: u32| name_bytes(paths[n as usize].as_os_str());
            bytes(a).cmp(bytes(b))
        });
        Ok(self.paths.get_or_init(|| DirPaths { paths, sorted }))
    }

    /// Checks every page and every number (`index verify`). Takes linear time in the size of the
    /// segment.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for the first problem.
    pub fn verify(&self) -> Result<(), FormatError> {
        self.container.verify_all()?;
        self.paths()?;
        let mut seen = RankSet::empty(self.meta.files);
        let mut repeated = 0;
        for slot in 0..self.slots.len() {
            let rank = self.slots.get(self.container.view(), slot)?;
            if rank == VACANT {
                continue;
            }
            repeated += usize::from(seen.contains(rank));
            if !seen.insert(rank) {
                return Err(inconsistent("a slot refers to a file that does not exist"));
            }
        }
        self.verify_parts(repeated)?;
        self.verify_words()?;
        for rank in 0..self.meta.files {
            let file = self.file(rank)?;
            self.check_name(file.name)?;
            if file.excludable != seen.contains(rank) {
                return Err(inconsistent(
                    "a file has a slot but is not excludable, or the other way \
                     round",
                ));
            }
        }
        let always = self
            .container
            .view()
            .bytes_in(self.always, 0, self.always.len())?;
        let always = RankSet::from_bytes(always, self.meta.files);
        if (0..self.meta.files).any(|rank| seen.contains(rank) == always.contains(rank)) {
            return Err(inconsistent(
                "a file is neither in a slot nor always a candidate, or both",
            ));
        }
        for n in 0..self.meta.side {
            self.check_name(self.side(n)?.name)?;
        }
        for number in 0..self.meta.dirs {
            self.check_name(self.dir(number)?.name)?;
        }
        for group in &self.groups {
            let mut last = None;
            for at in group.direct.clone() {
                let packed = Some(self.direct.get(self.container.view(), at)?);
                // Lookups use binary search.
                if packed <= last {
                    return Err(inconsistent(
                        "n-grams with rows of their own are not sorted",
                    ));
                }
                last = packed;
            }
        }
        Ok(())
    }

    fn check_name(&self, name: NameRecord) -> Result<(), FormatError> {
        let key = self.sort_key(name)?;
        match component_key(self.name(name)?).as_bytes() == key {
            true => Ok(()),
            false => Err(inconsistent("an ordering key is not that of its name")),
        }
    }

    fn check_dir(&self, number: u32) -> Result<(), FormatError> {
        match number < self.meta.dirs {
            true => Ok(()),
            false => Err(inconsistent("a file is in a directory that does not exist")),
        }
    }
}

/// Checks that an entry of a directory has a name.
fn check_named(name: NameRecord) -> Result<(), FormatError> {
    match name.len {
        0 => Err(inconsistent("an entry has no name")),
        _ => Ok(()),
    }
}

fn inconsistent(problem: &'static str) -> FormatError {
    FormatError::inconsistent("the catalog", 0, problem)
}

/// Reads the groups and blocks, and checks that they agree with each other.
fn read_groups(
    container: &Container,
    meta: &MetaRecord,
    slots: &Numbers,
    direct: &Numbers,
    word_files: &Numbers,
) -> Result<Vec<Group>, FormatError> {
    let wrong = |problem| FormatError::inconsistent("the table of blocks", 0, problem);
    let rows = container.section(id::ROWS)?.range();
    let group_table = Table::find::<GroupRecord>(container, id::GROUPS, meta.groups)?;
    let block_table = Table::find::<BlockRecord>(container, id::BLOCKS, meta.blocks)?;
    let view = container.view();
    let (mut first_slot, mut first_direct, mut next_block) = (0usize, 0usize, 0u32);
    let mut first_file = 0usize;
    let mut groups = Vec::new();
    for n in 0..meta.groups {
        let record: GroupRecord = group_table.get(view, n)?;
        let direct_end = first_direct + record.direct as usize;
        if direct_end > direct.len() || record.blocks > meta.blocks - next_block {
            return Err(wrong(
                "a group refers to blocks or n-grams that do not exist",
            ));
        }
        let words_at = usize::try_from(record.words_at).unwrap_or(usize::MAX);
        let words_len = usize::try_from(record.words_len).unwrap_or(usize::MAX);
        let mut group = Group {
            direct: first_direct..direct_end,
            blocks: Vec::new(),
            words: WordList {
                range: rows.part(words_at, words_len)?,
                first_file,
                files: record.word_files,
            },
        };
        first_file += record.word_files as usize;
        first_direct = direct_end;
        for _ in 0..record.blocks {
            let block: BlockRecord = block_table.get(view, next_block)?;
            next_block += 1;
            let shape = Shape {
                files: block.files,
                lanes: block.lanes,
                hashed_rows: block.hashed_rows,
                direct_rows: record.direct,
            };
            if block.files == 0
                || block.files as usize > BLOCK_FILES
                || !matches!(block.lanes, 1 | 2 | 4 | 8)
                || (block.lanes as usize) * LANE_FILES < block.files as usize
                || block.hashed_rows == 0
                || !block.rows_at.is_multiple_of(64)
            {
                return Err(wrong("a block has an impossible shape"));
            }
            let at = usize::try_from(block.rows_at).unwrap_or(usize::MAX);
            let len = usize::try_from(shape.bytes()).unwrap_or(usize::MAX);
            group.blocks.push(Block {
                shape,
                rows_at: rows.part(at, len)?.start(),
                first_slot,
            });
            first_slot += block.files as usize;
        }
        groups.push(group);
    }
    if next_block != meta.blocks
        || first_direct != direct.len()
        || first_slot != slots.len()
        || first_file != word_files.len()
    {
        return Err(wrong("groups, blocks and slots do not add up"));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests;
