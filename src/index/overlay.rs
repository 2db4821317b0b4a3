//! The overlay: how a tree differs from the segment that was built of it.
//!
//! Owns which entries of the segment's catalog do not hold any more, which files there are beside them and where these stand
//! in the order, and which directories came and went. It compares nothing with a tree; who does tells it what was found. An
//! overlay is cheap to clone, and a clone never changes: that is what searches are given.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::error::FormatError;
use crate::format::sort_key::cmp_paths;
use crate::index::block::SortedGrams;
use crate::index::gram::Gram;
use crate::index::names::has_line_break;
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
    /// It is entered.
    Entered,
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
            dead_side: self.dead_side.clone(),
            extras: self.extras.clone(),
            dirs: self.dirs.clone(),
            names: BTreeMap::new(),
        }
    }

    /// Returns true if the tree does not differ.
    pub fn is_none(&self) -> bool {
        self.dead_count == 0
            && self.dead_side.is_empty()
            && self.extras.is_empty()
            && self.dirs.is_empty()
    }

    /// Returns the files of the segment that are gone or not as they were; `None` if there are none.
    pub fn dead(&self) -> Option<&RankSet> {
        (self.dead_count > 0).then_some(&*self.dead)
    }

    /// Returns how many files of the segment are gone or not as they were.
    pub fn dead_count(&self) -> u32 {
        self.dead_count
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

    /// Returns true if enumeration enters a directory (relative to the index root).
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage of the segment, here and below.
    pub fn enters(&self, segment: &Segment, dir: &Path) -> Result<bool, FormatError> {
        Ok(match self.dirs.get(dir) {
            Some(state) => *state == DirState::Entered,
            None => segment.find_dir(dir)?.is_some(),
        })
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

/// What changes an overlay: what was found in the tree.
impl Overlay {
    /// Notes that a file was found in a state. Returns true if that is news; what is known of its content is forgotten then.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage of the segment; the overlay is of no use then. So in all of these.
    pub fn found(
        &mut self,
        segment: &Segment,
        path: &Path,
        stamp: Option<Stamp>,
    ) -> Result<bool, FormatError> {
        let news = self.found_alone(segment, path, stamp)?;
        if news {
            self.found_elsewhere(segment, path, stamp)?;
        }
        Ok(news)
    }

    /// Notes for the other names of a file that was found in a state that it is in this state. Nothing else may tell: what is
    /// written, and that there is one more name, is heard of one name only. Returns true if anything is news.
    ///
    /// # Errors
    ///
    /// As [`Overlay::found`].
    pub fn found_elsewhere(
        &mut self,
        segment: &Segment,
        path: &Path,
        stamp: Option<Stamp>,
    ) -> Result<bool, FormatError> {
        let Some(stamp) = stamp.filter(|stamp| stamp.links() > 1) else {
            return Ok(false);
        };
        let mut news = false;
        let (device, inode) = stamp.identity();
        for rank in segment.with_identity(device, inode)? {
            let other = segment.path(rank)?;
            // One that is dead is gone, or an extra.
            if !self.dead.contains(rank) && other != path {
                news |= self.found_at(segment, rank, &other, Some(stamp))?;
            }
        }
        let names = self.names.get(&(device, inode)).into_iter().flatten();
        let others: Vec<(PathBuf, u32)> = names
            .filter_map(|name| self.extra(name))
            .filter(|extra| extra.stamp != Some(stamp))
            .map(|extra| (extra.path.clone(), extra.before_rank))
            .collect();
        for (other, before_rank) in others {
            news |= self.put(&other, before_rank, Some(stamp));
        }
        Ok(news)
    }

    fn found_alone(
        &mut self,
        segment: &Segment,
        path: &Path,
        stamp: Option<Stamp>,
    ) -> Result<bool, FormatError> {
        if has_line_break(path.as_os_str()) {
            return self.found_beside_catalog(segment, path, stamp);
        }
        let rank = segment.position(path)?;
        if rank >= segment.file_count() || segment.path(rank)? != path {
            return Ok(self.put(path, rank, stamp));
        }
        self.found_at(segment, rank, path, stamp)
    }

    /// Notes that the file of the segment with a rank was found in a state.
    fn found_at(
        &mut self,
        segment: &Segment,
        rank: u32,
        path: &Path,
        stamp: Option<Stamp>,
    ) -> Result<bool, FormatError> {
        let kept = Stamp::from_record(segment.file(rank)?.stamp);
        if stamp == Some(kept) {
            // As it was when it was read: also if something else was seen between.
            let revived = self.set_dead(rank, false);
            return Ok(self.remove_extra(path) || revived);
        }
        self.set_dead(rank, true);
        Ok(self.put(path, rank, stamp))
    }

    /// Notes what is directly in a directory: all eligible files with their states, and all directories that are entered, by
    /// their paths. Linear in what is in it, but for a search in the segment for each
    /// new file.
    pub fn listed(
        &mut self,
        segment: &Segment,
        dir: &Path,
        files: &[(OsString, Option<Stamp>)],
        dirs: &BTreeSet<PathBuf>,
    ) -> Result<Listed, FormatError> {
        let mut news = self.entered(segment, dir)?;
        // One of that name that was a file has become a directory.
        news |= self.no_file(segment, dir)?;
        let mut ranks: BTreeMap<OsString, u32> = BTreeMap::new();
        if let Some(number) = segment.find_dir(dir)? {
            for &rank in segment.files_in(number)? {
                ranks.insert(segment.name(segment.file(rank)?.name)?, rank);
            }
        }
        let names: BTreeSet<&OsStr> = files.iter().map(|(name, _)| &**name).collect();
        for path in self.beside_in(segment, dir)? {
            if !names.contains(path.file_name().unwrap_or_default()) {
                news |= self.no_file(segment, &path)?;
            }
        }
        // Before anything is found: a file takes its other names along, as far as they are not known to be gone.
        for (_, &rank) in ranks.iter().filter(|(name, _)| !names.contains(&***name)) {
            news |= self.set_dead(rank, true);
        }
        for (name, stamp) in files {
            let path = dir.join(name);
            news |= match ranks.get(name).copied() {
                Some(rank) => {
                    let news = self.found_at(segment, rank, &path, *stamp)?;
                    if news {
                        self.found_elsewhere(segment, &path, *stamp)?;
                    }
                    news
                }
                None => self.found(segment, &path, *stamp)?,
            };
        }
        let mut gone = self.dirs_in(segment, dir)?;
        gone.retain(|path| !dirs.contains(path));
        for path in &gone {
            news |= self.no_dir(segment, path)?;
        }
        Ok(Listed { news, gone })
    }

    /// Notes that a file with a line break in its path was found: such files are never in the catalog.
    fn found_beside_catalog(
        &mut self,
        segment: &Segment,
        path: &Path,
        stamp: Option<Stamp>,
    ) -> Result<bool, FormatError> {
        for n in 0..segment.side_count() {
            if segment.side_path(n)? == path {
                return Ok(match self.dead_side.contains(&n) {
                    true => Arc::make_mut(&mut self.dead_side).remove(&n),
                    false => false,
                });
            }
        }
        let position = segment.position(path)?;
        Ok(self.put(path, position, stamp))
    }

    /// Notes that a directory is entered.
    fn entered(&mut self, segment: &Segment, dir: &Path) -> Result<bool, FormatError> {
        let known = segment.find_dir(dir)?.is_some();
        let state = self.dirs.get(dir).copied();
        match (known, state) {
            (true, None) | (false, Some(DirState::Entered)) => Ok(false),
            (true, Some(_)) => {
                Arc::make_mut(&mut self.dirs).remove(dir);
                Ok(true)
            }
            (false, _) => {
                Arc::make_mut(&mut self.dirs).insert(dir.to_path_buf(), DirState::Entered);
                Ok(true)
            }
        }
    }

    /// Notes that a path is no eligible file. Returns true if that is news.
    pub fn no_file(&mut self, segment: &Segment, path: &Path) -> Result<bool, FormatError> {
        let mut news = self.remove_extra(path);
        if has_line_break(path.as_os_str()) {
            for n in 0..segment.side_count() {
                if segment.side_path(n)? == path && !self.dead_side.contains(&n) {
                    news |= Arc::make_mut(&mut self.dead_side).insert(n);
                }
            }
        } else if let Some(rank) = segment.find_file(path)? {
            news |= self.set_dead(rank, true);
        }
        Ok(news)
    }

    /// Notes that a path is no directory that is entered, so that nothing below it is eligible. Linear in what was.
    pub fn no_dir(&mut self, segment: &Segment, dir: &Path) -> Result<bool, FormatError> {
        let mut news = false;
        let below = self.range_below(dir);
        if self.extras[below.clone()]
            .iter()
            .any(|extra| extra.path.starts_with(dir))
        {
            let extras = Arc::make_mut(&mut self.extras);
            let (gone, kept): (Vec<Arc<Extra>>, Vec<Arc<Extra>>) = extras
                .drain(below.clone())
                .partition(|extra| extra.path.starts_with(dir));
            extras.splice(below.start..below.start, kept);
            for extra in gone {
                self.forget_name(&extra);
            }
            news = true;
        }
        if let Some(number) = segment.find_dir(dir)? {
            let own = segment.dir(number)?;
            for rank in own.first_rank..own.end_rank {
                // Twins of the directory share the range.
                let below = segment.dir_path(segment.file(rank)?.dir)?.starts_with(dir);
                news |= below && self.set_dead(rank, true);
            }
            for n in 0..segment.side_count() {
                if !self.dead_side.contains(&n) && segment.side_path(n)?.starts_with(dir) {
                    news |= Arc::make_mut(&mut self.dead_side).insert(n);
                }
            }
        }
        news |= self.leave(segment, dir)?;
        Ok(news)
    }

    /// Notes that no directory at and below a path is entered.
    fn leave(&mut self, segment: &Segment, dir: &Path) -> Result<bool, FormatError> {
        let mut news = false;
        let entered: Vec<PathBuf> = self
            .dirs
            .range::<Path, _>((Bound::Included(dir), Bound::Unbounded))
            .take_while(|(path, _)| path.starts_with(dir))
            .filter(|(_, state)| **state == DirState::Entered)
            .map(|(path, _)| path.clone())
            .collect();
        for path in entered {
            Arc::make_mut(&mut self.dirs).remove(&path);
            news = true;
        }
        let mut below: Vec<u32> = segment.find_dir(dir)?.into_iter().collect();
        while let Some(number) = below.pop() {
            below.extend_from_slice(segment.dirs_in(number)?);
            let path = segment.dir_path(number)?;
            if !self.dirs.contains_key(path) {
                Arc::make_mut(&mut self.dirs).insert(path.to_path_buf(), DirState::Gone);
                news = true;
            }
        }
        Ok(news)
    }

    /// Returns the files directly in a directory that are not in the segment's catalog, as far as is known.
    fn beside_in(&self, segment: &Segment, dir: &Path) -> Result<Vec<PathBuf>, FormatError> {
        let below = &self.extras[self.range_below(dir)];
        let own = below.iter().filter(|extra| extra.dir() == dir);
        let mut paths: Vec<PathBuf> = own.map(|extra| extra.path.clone()).collect();
        for n in 0..segment.side_count() {
            let path = segment.side_path(n)?;
            if !self.dead_side.contains(&n) && path.parent() == Some(dir) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// Returns the directories directly in a directory that are entered, as far as is known.
    fn dirs_in(&self, segment: &Segment, dir: &Path) -> Result<Vec<PathBuf>, FormatError> {
        let mut paths = Vec::new();
        if let Some(number) = segment.find_dir(dir)? {
            for &child in segment.dirs_in(number)? {
                let path = segment.dir_path(child)?;
                if self.dirs.get(path) != Some(&DirState::Gone) {
                    paths.push(path.to_path_buf());
                }
            }
        }
        let states = self
            .dirs
            .range::<Path, _>((Bound::Excluded(dir), Bound::Unbounded));
        let own = states
            .take_while(|(path, _)| path.starts_with(dir))
            .filter(|(path, state)| **state == DirState::Entered && path.parent() == Some(dir));
        paths.extend(own.map(|(path, _)| path.clone()));
        Ok(paths)
    }

    /// Takes what was read of a file, if it still is in the state in which it was read. Returns whether it is.
    pub fn read(&mut self, path: &Path, stamp: Stamp, content: Content) -> bool {
        let Ok(at) = self.extra_at(path) else {
            return false;
        };
        if self.extras[at].stamp != Some(stamp) {
            return false;
        }
        let read = Extra {
            content,
            ..Extra::clone(&self.extras[at])
        };
        Arc::make_mut(&mut self.extras)[at] = Arc::new(read);
        true
    }

    fn put(&mut self, path: &Path, before_rank: u32, stamp: Option<Stamp>) -> bool {
        let found = self.extra_at(path);
        let before = found.ok().map(|at| self.extras[at].clone());
        if let Some(before) = &before {
            // A state that is not known may be any.
            if stamp.is_some() && before.stamp == stamp {
                return false;
            }
            self.forget_name(before);
        }
        if let Some(stamp) = stamp {
            let names = self.names.entry(stamp.identity()).or_default();
            names.insert(path.to_path_buf());
        }
        let extra = Arc::new(Extra {
            path: path.to_path_buf(),
            before_rank,
            stamp,
            content: Content::Unread,
        });
        let extras = Arc::make_mut(&mut self.extras);
        match found {
            Ok(at) => extras[at] = extra,
            Err(at) => extras.insert(at, extra),
        }
        true
    }

    fn remove_extra(&mut self, path: &Path) -> bool {
        let found = self.extra_at(path);
        if let Ok(at) = found {
            let extra = Arc::make_mut(&mut self.extras).remove(at);
            self.forget_name(&extra);
        }
        found.is_ok()
    }

    fn forget_name(&mut self, extra: &Extra) {
        let Some(identity) = extra.stamp.map(Stamp::identity) else {
            return;
        };
        if let Some(names) = self.names.get_mut(&identity) {
            names.remove(&extra.path);
            if names.is_empty() {
                self.names.remove(&identity);
            }
        }
    }

    fn set_dead(&mut self, rank: u32, dead: bool) -> bool {
        if self.dead.contains(rank) == dead {
            return false;
        }
        let set = Arc::make_mut(&mut self.dead);
        let changed = match dead {
            true => set.insert(rank),
            false => set.remove(rank),
        };
        match (changed, dead) {
            (true, true) => self.dead_count += 1,
            (true, false) => self.dead_count -= 1,
            (false, _) => {}
        }
        changed
    }
}
