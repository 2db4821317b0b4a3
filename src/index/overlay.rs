//! The overlay: the differences between a tree and the segment that was built from it.
//!
//! This module owns three kinds of differences: dead files (deleted or outdated in the segment),
//! extra files with their positions in emission order, and changed directories. Extra files that
//! were read have their n-grams and words here, so searches can exclude them before the next build.
//!
//! The overlay never compares anything with the tree: callers record their findings. An overlay is
//! cheap to clone. Searches get a clone, which never changes.

mod changes;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::error::FormatError;
use crate::format::manifest::RuleSets;
use crate::format::sort_key::cmp_paths;
use crate::index::block::SortedGrams;
use crate::index::gram::Gram;
use crate::index::plan::{BLOCK_FILES, BlockRows, Mask, Scratch, SupersetSafe};
use crate::index::ranks::RankSet;
use crate::index::segment::Segment;
use crate::index::stamp::Stamp;
use crate::index::token::TokenStatus;
use crate::index::words::counts::WordCounts;

/// An extra file: one that is not in the segment, or differs from the segment's version.
#[derive(Clone, Debug)]
pub struct Extra {
    /// The path, relative to the index root.
    pub path: PathBuf,
    /// The rank of the segment file that follows it.
    pub before_rank: u32,
    /// The stamp of its metadata; `None` if it could not be read.
    pub stamp: Option<Stamp>,
    /// The sets of ignore rules by which it is eligible.
    pub sets: RuleSets,
    /// The n-grams of the content, if it was read.
    pub content: Content,
}

/// The indexed content of an extra file.
#[derive(Clone, Debug, Default)]
pub enum Content {
    /// Not read yet; such a file is never excluded.
    #[default]
    Unread,
    /// Read, but never excluded, for this reason.
    Always(TokenStatus),
    /// The file was read completely.
    Read(Arc<ReadContent>),
}

/// The indexed content of an extra file that was read completely.
#[derive(Debug)]
pub struct ReadContent {
    /// The n-grams of its parts.
    pub grams: Vec<SortedGrams>,
    /// Its words, if the whole content is text.
    pub words: Option<WordCounts>,
}

impl ReadContent {
    /// Returns the memory that the content takes, in bytes.
    fn footprint(&self) -> usize {
        let grams = self.grams.iter().map(|part| part.grams().footprint());
        grams.sum::<usize>() + self.words.as_ref().map_or(0, WordCounts::footprint)
    }
}

impl Extra {
    /// Returns the directory that contains the file.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Returns the file's name in its directory.
    pub fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Returns the words of the file, if its whole content was read and is text.
    pub fn words(&self) -> Option<&WordCounts> {
        match &self.content {
            Content::Read(read) => read.words.as_ref(),
            Content::Unread | Content::Always(_) => None,
        }
    }

    /// Returns the result of reading the file; `None` if it was not read.
    pub fn status(&self) -> Option<TokenStatus> {
        match &self.content {
            Content::Unread => None,
            Content::Always(status) => Some(*status),
            Content::Read(_) => Some(TokenStatus::Full),
        }
    }
}

/// The state of a directory that differs from the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirState {
    /// The directory is not entered any more.
    Gone,
    /// The directory is entered, by these sets of ignore rules.
    Entered(RuleSets),
}

/// The result of recording the listing of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingChange {
    /// Whether anything changed.
    pub news: bool,
    /// Subdirectories that were known and are gone.
    pub gone: Vec<PathBuf>,
}

/// The differences between a tree and a segment.
#[derive(Clone, Debug)]
pub struct Overlay {
    dead: Arc<RankSet>,
    dead_count: u32,
    /// The dead files whose stamps are unchanged although their content may differ.
    distrusted: Arc<BTreeSet<u32>>,
    /// Dead files of the side list, by their numbers.
    dead_side: Arc<BTreeSet<u32>>,
    /// In the order of output.
    extras: Arc<Vec<Arc<Extra>>>,
    dirs: Arc<BTreeMap<PathBuf, DirState>>,
    /// The extra files of each device and inode number. Empty in the clones of searches, which
    /// don't need it.
    names: BTreeMap<(u64, u64), BTreeSet<PathBuf>>,
}

impl Overlay {
    /// Returns the overlay of a tree without differences.
    pub fn none(segment: &Segment) -> Overlay {
        Overlay {
            dead: Arc::new(RankSet::empty(segment.file_count())),
            dead_count: 0,
            distrusted: Arc::default(),
            dead_side: Arc::default(),
            extras: Arc::default(),
            dirs: Arc::default(),
            names: BTreeMap::new(),
        }
    }

    /// Returns an immutable clone for searches.
    pub fn pinned(&self) -> Overlay {
        Overlay {
            dead: self.dead.clone(),
            dead_count: self.dead_count,
            distrusted: self.distrusted.clone(),
            dead_side: self.dead_side.clone(),
            extras: self.extras.clone(),
            dirs: self.dirs.clone(),
            names: BTreeMap::new(),
        }
    }

    /// Returns the segment files that are deleted or outdated; `None` if there are none.
    pub fn dead(&self) -> Option<&RankSet> {
        (self.dead_count > 0).then_some(&*self.dead)
    }

    /// Returns the number of segment files that are deleted or outdated.
    pub fn dead_count(&self) -> u32 {
        self.dead_count
    }

    /// Returns the ranks of the segment files whose stamps don't prove that their content is
    /// unchanged.
    pub fn distrusted(&self) -> &BTreeSet<u32> {
        &self.distrusted
    }

    /// Returns the memory used by n-grams and words, in bytes. Takes linear time in the number of
    /// extra files.
    pub fn footprint(&self) -> u64 {
        let read = self.extras.iter().filter_map(|extra| match &extra.content {
            Content::Read(read) => Some(read.footprint() as u64),
            Content::Unread | Content::Always(_) => None,
        });
        read.sum()
    }

    /// Returns true if a file of the segment's side list is dead.
    pub fn is_side_dead(&self, n: u32) -> bool {
        self.dead_side.contains(&n)
    }

    /// Returns the extra files, in the order of output.
    pub fn extras(&self) -> &[Arc<Extra>] {
        &self.extras
    }

    /// Returns true if enumeration enters a directory (relative to the index root) by the sets of
    /// ignore rules `asked`.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn enters(
        &self,
        segment: &Segment,
        dir: &Path,
        asked: RuleSets,
    ) -> Result<bool, FormatError> {
        let sets = match self.dirs.get(dir) {
            Some(DirState::Entered(sets)) => Some(*sets),
            Some(DirState::Gone) => None,
            None => match segment.find_dir(dir)? {
                Some(number) => Some(segment.dir(number)?.sets),
                None => None,
            },
        };
        Ok(sets.is_some_and(|sets| sets.hold(asked)))
    }

    /// Calls `each` with the directories that enumeration enters by the sets of rules `asked`.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub(crate) fn each_dir(
        &self,
        segment: &Segment,
        asked: RuleSets,
        each: &mut dyn FnMut(&Path),
    ) -> Result<(), FormatError> {
        for number in 0..segment.dir_count() {
            let path = segment.dir_path(number)?;
            if !self.dirs.contains_key(path) && segment.dir(number)?.sets.hold(asked) {
                each(path);
            }
        }
        for (path, state) in &*self.dirs {
            if let DirState::Entered(sets) = state
                && sets.hold(asked)
            {
                each(path);
            }
        }
        Ok(())
    }

    /// Returns the extra file at a path.
    pub fn extra(&self, path: &Path) -> Option<&Arc<Extra>> {
        let at = self.extra_at(path).ok()?;
        self.extras.get(at)
    }

    fn extra_at(&self, path: &Path) -> Result<usize, usize> {
        self.extras
            .binary_search_by(|extra| cmp_paths(&extra.path, path))
    }

    /// Returns the index range of the extra files below a directory. If names sort as equal, other
    /// files may be in the range.
    fn range_below(&self, dir: &Path) -> Range<usize> {
        if dir.as_os_str().is_empty() {
            return 0..self.extras.len();
        }
        // The bounds are the separator and the character after it. Only paths below the directory
        // sort between them, not those of names that begin the same.
        let with = |end: &str| {
            let mut path = dir.as_os_str().to_os_string();
            path.push(end);
            PathBuf::from(path)
        };
        let before = |extras: &[Arc<Extra>], bound: &Path| {
            extras.partition_point(|extra| cmp_paths(&extra.path, bound).is_lt())
        };
        let start = before(&self.extras, &with("/"));
        let rest = &self.extras[start..];
        let end = with("0");
        match rest.first() {
            // Mostly there are none.
            Some(first) if cmp_paths(&first.path, &end).is_lt() => {
                start..start + before(rest, &end)
            }
            _ => start..start,
        }
    }

    /// Returns the indices of the extra files that a plan can't rule out.
    pub fn candidates(&self, plan: &SupersetSafe) -> RankSet {
        let count = u32::try_from(self.extras.len()).unwrap_or(u32::MAX);
        let mut found = RankSet::empty(count);
        // The plan treats each part of a file as a file.
        let mut parts: Vec<(u32, &SortedGrams)> = Vec::new();
        for (at, extra) in (0u32..).zip(self.extras.iter()) {
            match &extra.content {
                Content::Read(own) => parts.extend(own.grams.iter().map(|part| (at, part))),
                Content::Unread | Content::Always(_) => {
                    found.insert(at);
                }
            }
        }
        let mut scratch = Scratch::default();
        for block in parts.chunks(BLOCK_FILES) {
            let mut rows = GramRows {
                parts: block,
                grams: plan.grams(),
            };
            let mask = plan.evaluate(&mut rows, Mask::first(block.len()), &mut scratch);
            for (n, (at, _)) in block.iter().enumerate() {
                if mask.0[n / 64] >> (n % 64) & 1 == 1 {
                    found.insert(*at);
                }
            }
        }
        found
    }
}

/// A block of n-gram sets, one for each part of a file.
struct GramRows<'a> {
    parts: &'a [(u32, &'a SortedGrams)],
    grams: &'a [Gram],
}

impl BlockRows for GramRows<'_> {
    fn mask(&mut self, gram: u32, within: &Mask) -> Mask {
        let Some(&gram) = self.grams.get(gram as usize) else {
            return *within;
        };
        let mut mask = Mask::EMPTY;
        for (word, &bits) in within.0.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let part = self.parts.get(word * 64 + bit);
                if part.is_none_or(|(_, part)| part.may_have(gram)) {
                    mask.0[word] |= 1 << bit;
                }
            }
        }
        mask
    }
}
