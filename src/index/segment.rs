//! Reading a segment: its catalog, and which of its files may hold what a plan requires.
//!
//! Owns the interpretation of a segment's sections. Nothing read from the bytes is believed before it was
//! checked: what tables say is held against each other when a segment is opened, numbers of files and names when
//! they are used. A segment in memory and one in a mapping are the same type.

mod by_dir;
pub mod candidates;
pub(crate) mod content;

use std::ffi::OsString;
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
use crate::format::sort_key::{cmp_paths, component_key};
use crate::format::storage::Storage;
use crate::index::beneath::is_component;
use crate::index::block::{STORED_HASHES, Shape, WORD_FILES};
use crate::index::bloom::BloomParams;
use crate::index::casefold::Casefold;
use crate::index::gram::{NGRAM_CHARS, SECOND_SEED};
use crate::index::names::{name_bytes, name_from_bytes};
use crate::index::plan::BLOCK_FILES;
use crate::index::ranks::RankSet;
use crate::index::segment::by_dir::ByDir;

/// The most bytes that paths of directories have on average. No system opens much longer ones; a damaged catalog
/// could have a few records stand for gigabytes.
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
    groups: Vec<Group>,
    paths: OnceLock<DirPaths>,
    by_dir: OnceLock<ByDir>,
    /// Inode, device and rank of each file, in this order.
    by_identity: OnceLock<Vec<(u64, u64, u32)>>,
}

/// A group of blocks.
#[derive(Debug)]
struct Group {
    /// Where its n-grams with rows of their own are in the list of all.
    direct: Range<usize>,
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    shape: Shape,
    /// Where its rows start in the file.
    rows_at: usize,
    first_slot: usize,
}

/// The paths of all directories, by number and by path.
#[derive(Debug)]
struct DirPaths {
    paths: Vec<PathBuf>,
    /// Numbers of directories, in the order of the bytes of their paths.
    sorted: Vec<u32>,
}

impl Segment {
    /// Opens a segment. Checks its tables, in time that depends on the number of blocks only; pages are checked
    /// when they are touched.
    ///
    /// # Errors
    ///
    /// [`FormatError`], which [is corrupt](FormatError::is_corrupt) where the segment is of no use to anybody.
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
    /// As [`Segment::open`].
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
            return Err(wrong(
                "its n-grams are not stored as this program stores them",
            ));
        }
        let casefold = Casefold::from_number(meta.casefold)
            .ok_or_else(|| wrong("its n-grams are folded in no known way"))?;
        if meta.as_root > meta.files {
            return Err(wrong("it has fewer files than it says are eligible"));
        }
        if meta.dirs == 0 {
            return Err(wrong("it has no root"));
        }
        let always = container.section(id::ALWAYS)?.range();
        if always.len() != (meta.files as usize).div_ceil(8) {
            return Err(wrong(
                "its list of files that are never left out has another length",
            ));
        }
        let slots = Numbers::find(&container, id::SLOTS)?;
        let direct = Numbers::find(&container, id::DIRECT)?;
        let groups = read_groups(&container, &meta, &slots, &direct)?;
        Ok(Segment {
            params: BloomParams {
                ngram_chars: meta.ngram_chars,
                basis_ngrams: 0,
                target_fp_rate: 0.0,
                bits: meta.bloom_bits,
                hashes: meta.bloom_hashes,
                seed: meta.bloom_seed,
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
            groups,
            meta,
            container,
            paths: OnceLock::new(),
            by_dir: OnceLock::new(),
            by_identity: OnceLock::new(),
        })
    }

    /// Returns what the segment says about itself.
    pub fn meta(&self) -> &MetaRecord {
        &self.meta
    }

    /// Returns the length and the checksum of the file.
    pub fn summary(&self) -> Summary {
        self.container.summary()
    }

    /// Returns the bytes of the segment.
    pub fn storage(&self) -> &Storage {
        self.container.storage()
    }

    /// Returns how many files the catalog has.
    pub fn file_count(&self) -> u32 {
        self.meta.files
    }

    /// Returns true if each file of the catalog is eligible by the sets of ignore rules `asked`. Constant time.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn all_hold(&self, asked: RuleSets) -> Result<bool, FormatError> {
        Ok(self.meta.as_root == self.meta.files && self.dir(0)?.sets.hold(asked))
    }

    /// Returns how many directories it has.
    pub fn dir_count(&self) -> u32 {
        self.meta.dirs
    }

    /// Returns how many files are on the side list.
    pub fn side_count(&self) -> u32 {
        self.meta.side
    }

    /// Reads the file with a rank. Constant time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the segment is of no use then. So in the other methods.
    pub fn file(&self, rank: u32) -> Result<FileRecord, FormatError> {
        let file: FileRecord = self.files.get(self.container.view(), rank)?;
        self.check_dir(file.dir)?;
        check_named(file.name)?;
        Ok(file)
    }

    /// Reads the directory with a number. Constant time.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn dir(&self, number: u32) -> Result<DirRecord, FormatError> {
        let dir: DirRecord = self.dirs.get(self.container.view(), number)?;
        let is_root = number == 0 && dir.parent == 0;
        if !is_root && dir.parent >= number {
            return Err(inconsistent(
                "a directory stands before the one that holds it",
            ));
        }
        if !is_root {
            check_named(dir.name)?;
        }
        if dir.first_rank > dir.end_rank || dir.end_rank > self.meta.files {
            return Err(inconsistent("a directory has files that do not exist"));
        }
        Ok(dir)
    }

    /// Reads a file of the side list. Constant time.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn side(&self, n: u32) -> Result<SideRecord, FormatError> {
        let side: SideRecord = self.side.get(self.container.view(), n)?;
        self.check_dir(side.dir)?;
        check_named(side.name)?;
        // It would never be reached.
        if side.before_rank > self.meta.files {
            return Err(inconsistent("a file stands before one that does not exist"));
        }
        Ok(side)
    }

    /// Reads a name. It is that of an entry of a directory, or empty: it leads nowhere else.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn name(&self, name: NameRecord) -> Result<OsString, FormatError> {
        let bytes =
            self.container
                .view()
                .bytes_in(self.names, name.offset as usize, name.len.into())?;
        name_from_bytes(bytes)
            .filter(|name| name.is_empty() || is_component(name))
            .ok_or_else(|| inconsistent("a name is none on this system"))
    }

    /// Reads the ordering key of a name.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn sort_key(&self, name: NameRecord) -> Result<&[u8], FormatError> {
        let (offset, len) = match name.key_len {
            0 => (name.offset as usize, name.len),
            len => (name.offset as usize + usize::from(name.len), len),
        };
        self.container
            .view()
            .bytes_in(self.names, offset, len.into())
    }

    /// Returns the path of a directory relative to the root. All paths are put together on the first call.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn dir_path(&self, number: u32) -> Result<&Path, FormatError> {
        let paths = &self.paths()?.paths;
        paths
            .get(number as usize)
            .map(PathBuf::as_path)
            .ok_or_else(|| inconsistent("a directory that does not exist"))
    }

    /// Finds a directory by its path relative to the root; `None` if enumeration did not enter it. Logarithmic in
    /// the number of directories.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn find_dir(&self, path: &Path) -> Result<Option<u32>, FormatError> {
        let DirPaths { paths, sorted } = self.paths()?;
        let bytes = |path: &Path| name_bytes(path.as_os_str()).to_vec();
        let wanted = bytes(path);
        let at = sorted.binary_search_by(|&number| {
            let path = paths.get(number as usize).map(PathBuf::as_path);
            name_bytes(path.unwrap_or(Path::new("")).as_os_str()).cmp(&wanted)
        });
        Ok(at.ok().and_then(|at| sorted.get(at).copied()))
    }

    /// Returns the path of a file relative to the root.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn path(&self, rank: u32) -> Result<PathBuf, FormatError> {
        let file = self.file(rank)?;
        Ok(self.dir_path(file.dir)?.join(self.name(file.name)?))
    }

    /// Returns the rank of the first file that does not come before a path in emission order: where the path is, or would
    /// be. Logarithmic in the number of files.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn position(&self, path: &Path) -> Result<u32, FormatError> {
        let (mut low, mut high) = (0, self.meta.files);
        while low < high {
            let middle = low + (high - low) / 2;
            match cmp_paths(&self.path(middle)?, path).is_lt() {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    /// Finds a file by its path relative to the root. Logarithmic in the number of files.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
    pub fn find_file(&self, path: &Path) -> Result<Option<u32>, FormatError> {
        let rank = self.position(path)?;
        let found = rank < self.meta.files && self.path(rank)? == path;
        Ok(found.then_some(rank))
    }

    /// Returns the path of a file of the side list relative to the root.
    ///
    /// # Errors
    ///
    /// As [`Segment::file`].
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
            // `dir` has checked that the parent comes first. The root has none.
            let parent = paths.get(dir.parent as usize);
            let path = match parent {
                None => PathBuf::new(),
                Some(parent) => {
                    let len = parent.as_os_str().len() + 1 + usize::from(dir.name.len);
                    bytes_left = bytes_left
                        .checked_sub(len)
                        .ok_or_else(|| inconsistent("directories have paths that none can have"))?;
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

    /// Checks every page and every number (`index verify`). Linear in the size of the segment.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
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
                return Err(inconsistent("a slot has a file that does not exist"));
            }
        }
        self.verify_parts(repeated)?;
        for rank in 0..self.meta.files {
            let file = self.file(rank)?;
            self.check_name(file.name)?;
            if file.excludable != seen.contains(rank) {
                return Err(inconsistent("a file without a slot may not be left out"));
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
                // They are looked for by halving.
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
        match component_key(&self.name(name)?).as_bytes() == key {
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

/// Makes sure that an entry of a directory has a name.
fn check_named(name: NameRecord) -> Result<(), FormatError> {
    match name.len {
        0 => Err(inconsistent("an entry has no name")),
        _ => Ok(()),
    }
}

fn inconsistent(problem: &'static str) -> FormatError {
    FormatError::inconsistent("the catalog", 0, problem)
}

/// Reads groups and blocks and holds them against each other.
fn read_groups(
    container: &Container,
    meta: &MetaRecord,
    slots: &Numbers,
    direct: &Numbers,
) -> Result<Vec<Group>, FormatError> {
    let wrong = |problem| FormatError::inconsistent("the table of blocks", 0, problem);
    let rows = container.section(id::ROWS)?.range();
    let group_table = Table::find::<GroupRecord>(container, id::GROUPS, meta.groups)?;
    let block_table = Table::find::<BlockRecord>(container, id::BLOCKS, meta.blocks)?;
    let view = container.view();
    let (mut first_slot, mut first_direct, mut next_block) = (0usize, 0usize, 0u32);
    let mut groups = Vec::new();
    for n in 0..meta.groups {
        let record: GroupRecord = group_table.get(view, n)?;
        let direct_end = first_direct + record.direct as usize;
        if direct_end > direct.len() || record.blocks > meta.blocks - next_block {
            return Err(wrong("a group has more than there is"));
        }
        let mut group = Group {
            direct: first_direct..direct_end,
            blocks: Vec::new(),
        };
        first_direct = direct_end;
        for _ in 0..record.blocks {
            let block: BlockRecord = block_table.get(view, next_block)?;
            next_block += 1;
            let shape = Shape {
                files: block.files,
                words: block.words,
                hashed_rows: block.hashed_rows,
                direct_rows: record.direct,
            };
            if block.files == 0
                || block.files as usize > BLOCK_FILES
                || !matches!(block.words, 1 | 2 | 4 | 8)
                || (block.words as usize) * WORD_FILES < block.files as usize
                || block.hashed_rows == 0
                || !block.rows_at.is_multiple_of(64)
            {
                return Err(wrong("a block has a shape that none can have"));
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
    if next_block != meta.blocks || first_direct != direct.len() || first_slot != slots.len() {
        return Err(wrong("groups, blocks and slots do not add up"));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests;
