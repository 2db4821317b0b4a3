//! The overlay: how a tree differs from the segment that was built of it.
//!
//! Owns which entries of the segment's catalog do not hold any more, which files there are beside them and where these stand
//! in the order, and which directories came and went. It compares nothing with a tree; who does tells it what was found. An
//! overlay is cheap to clone, and a clone never changes: that is what searches are given.

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

/// A file that is not in the segment, or not as it is there.
#[derive(Clone, Debug)]
pub struct Extra {
    /// Its path, relative to the index root.
    pub path: PathBuf,
    /// The rank of the file of the segment that follows it.
    pub before_rank: u32,
    /// Its state, where that could be found out.
    pub stamp: Option<Stamp>,
    /// The sets of ignore rules that leave it in.
    pub sets: RuleSets,
    /// What is known of its content.
    pub content: Content,
}

/// What is known of the content of a file.
#[derive(Clone, Debug, Default)]
pub enum Content {
    /// Nothing yet, so that it is never left out.
    #[default]
    Unread,
    /// It was read, and is never left out: why.
    Always(TokenStatus),
    /// It was read as a whole; the n-grams of its parts.
    Grams(Arc<[SortedGrams]>),
}

impl Extra {
    /// Returns the directory that it is in.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Returns its name there.
    pub fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Returns what became of the file when it was read; `None` if it was not.
    pub fn status(&self) -> Option<TokenStatus> {
        match &self.content {
            Content::Unread => None,
            Content::Always(status) => Some(*status),
            Content::Grams(_) => Some(TokenStatus::Full),
        }
    }
}

/// A directory that is not as the segment has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirState {
    /// It is not entered any more.
    Gone,
    /// It is entered, by these sets of ignore rules.
    Entered(RuleSets),
}

/// What followed from the listing of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Whether anything of it was news.
    pub news: bool,
    /// Directories that were in it and are not any more.
    pub gone: Vec<PathBuf>,
}

/// How a tree differs from a segment.
#[derive(Clone, Debug)]
pub struct Overlay {
    dead: Arc<RankSet>,
    dead_count: u32,
    /// Those of the dead that are in the state in which they were read, and yet not as they were.
    distrusted: Arc<BTreeSet<u32>>,
    /// Numbers of the side list.
    dead_side: Arc<BTreeSet<u32>>,
    /// In emission order.
    extras: Arc<Vec<Arc<Extra>>>,
    dirs: Arc<BTreeMap<PathBuf, DirState>>,
    /// The extras of each file, by device and inode. What searches are given has none: they do not ask.
    names: BTreeMap<(u64, u64), BTreeSet<PathBuf>>,
}

impl Overlay {
    /// Returns the overlay of a tree that does not differ.
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

    /// Returns the overlay as searches are given it, which does not change.
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

    /// Returns the files of the segment that are gone or not as they were; `None` if there are none.
    pub fn dead(&self) -> Option<&RankSet> {
        (self.dead_count > 0).then_some(&*self.dead)
    }

    /// Returns how many files of the segment are gone or not as they were.
    pub fn dead_count(&self) -> u32 {
        self.dead_count
    }

    /// Returns the files of the segment whose states don't vouch for what was read of them, by their ranks.
    pub fn distrusted(&self) -> &BTreeSet<u32> {
        &self.distrusted
    }

    /// Returns the memory that n-grams take, in bytes. Linear in the files beside the segment.
    pub fn footprint(&self) -> u64 {
        let grams = self.extras.iter().filter_map(|extra| match &extra.content {
            Content::Grams(parts) => Some(parts),
            Content::Unread | Content::Always(_) => None,
        });
        grams
            .flat_map(|parts| parts.iter())
            .map(|part| part.grams().footprint() as u64)
            .sum()
    }

    /// Returns true if a file of the segment's side list is gone.
    pub fn is_side_dead(&self, n: u32) -> bool {
        self.dead_side.contains(&n)
    }

    /// Returns the files beside those of the segment, in emission order.
    pub fn extras(&self) -> &[Arc<Extra>] {
        &self.extras
    }

    /// Returns true if enumeration enters a directory (relative to the index root) by the sets of ignore rules `asked`.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage of the segment, here and below.
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

    /// Returns the file beside the segment that has a path.
    pub fn extra(&self, path: &Path) -> Option<&Arc<Extra>> {
        let at = self.extra_at(path).ok()?;
        self.extras.get(at)
    }

    fn extra_at(&self, path: &Path) -> Result<usize, usize> {
        self.extras
            .binary_search_by(|extra| cmp_paths(&extra.path, path))
    }

    /// Returns the files beside the segment that are below a directory, by their places. Where names sort as equal, there
    /// may be others between them.
    fn range_below(&self, dir: &Path) -> Range<usize> {
        if dir.as_os_str().is_empty() {
            return 0..self.extras.len();
        }
        // The separator, and the character after it: between them sorts what is below, whatever else the name begins.
        let with = |end: &str| {
            let mut path = dir.as_os_str().to_os_string();
            path.push(end);
            PathBuf::from(path)
        };
        let before = |bound: &Path| {
            self.extras
                .partition_point(|extra| cmp_paths(&extra.path, bound).is_lt())
        };
        before(&with("/"))..before(&with("0"))
    }

    /// Returns the files beside the segment that a plan can't rule out, by their places.
    pub fn candidates(&self, plan: &SupersetSafe) -> RankSet {
        let count = u32::try_from(self.extras.len()).unwrap_or(u32::MAX);
        let mut found = RankSet::empty(count);
        // Each part of a file is one for the plan.
        let mut parts: Vec<(u32, &SortedGrams)> = Vec::new();
        for (at, extra) in (0u32..).zip(self.extras.iter()) {
            match &extra.content {
                Content::Grams(own) => parts.extend(own.iter().map(|part| (at, part))),
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

/// The n-grams of parts of files, as a block.
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
