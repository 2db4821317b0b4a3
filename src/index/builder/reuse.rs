//! Incremental builds: reuses the blocks of an earlier segment for unchanged files.
//!
//! This module compares the tree with the segment, and decides which groups of blocks are worth
//! copying. Blocks are copied unchanged, except that slots get the new ranks of their files, which
//! are the positions in the new catalog. The slots of files that are gone or changed become vacant.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::groups::CatalogData;
use crate::format::error::FormatError;
use crate::format::segment::VACANT;
use crate::format::sort_key::cmp_paths;
use crate::index::enumerate::Enumeration;
use crate::index::segment::Segment;
use crate::index::stamp::Stamp;
use crate::index::token::TokenStatus;

/// Limit on the copied groups, since each group adds a little to every search. Files of the smaller
/// groups are read again.
const MAX_GROUPS: usize = 24;

/// A group is copied if at least one of this many slots has an unchanged file.
const LIVE_SHARE: usize = 2;

/// An earlier segment of a tree.
#[derive(Clone, Copy, Debug)]
pub struct EarlierSegment<'a> {
    segment: &'a Segment,
    distrusted: &'a BTreeSet<u32>,
}

impl<'a> EarlierSegment<'a> {
    /// Uses all files of the segment.
    pub fn new(segment: &'a Segment) -> EarlierSegment<'a> {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        EarlierSegment {
            segment,
            distrusted: &NONE,
        }
    }

    /// Uses a segment except some files, given by rank: their stamps do not prove that the content
    /// is unchanged.
    pub fn without(segment: &'a Segment, distrusted: &'a BTreeSet<u32>) -> EarlierSegment<'a> {
        EarlierSegment {
            segment,
            distrusted,
        }
    }

    /// Returns true if the segment has the words of its files.
    pub fn has_words(&self) -> bool {
        self.segment.has_words()
    }
}

/// The reusable parts of an earlier segment.
pub(super) struct Reuse<'a> {
    pub(super) segment: &'a Segment,
    /// The copied groups, in their order.
    pub(super) groups: Vec<usize>,
    /// The new rank of each file of the segment; [`VACANT`] for files that are not reused.
    pub(super) ranks: Vec<u32>,
    /// The catalog data of each reused file, by new rank.
    pub(super) kept: Vec<Option<CatalogData>>,
}

impl<'a> Reuse<'a> {
    /// Compares a tree with an earlier segment of it. Takes linear time in the files of both.
    pub(super) fn of(
        earlier: EarlierSegment<'a>,
        tree: &Enumeration,
    ) -> Result<Reuse<'a>, FormatError> {
        let segment = earlier.segment;
        let mut reuse = Reuse {
            segment,
            groups: Vec::new(),
            ranks: same_files(earlier, tree)?,
            kept: vec![None; tree.files.len()],
        };
        reuse.choose_groups()?;
        for (old, &new) in (0u32..).zip(&reuse.ranks) {
            if new == VACANT {
                continue;
            }
            let file = segment.file(old)?;
            if let Some(kept) = reuse.kept.get_mut(new as usize) {
                *kept = Some(CatalogData {
                    status: TokenStatus::Full,
                    excludable: true,
                    stamp: Some(Stamp::from_record(file.stamp)),
                    settled: true,
                    ngrams: file.ngrams,
                });
            }
        }
        Ok(reuse)
    }

    /// Chooses the groups that are worth copying, and marks the files of all other groups as not
    /// reused.
    fn choose_groups(&mut self) -> Result<(), FormatError> {
        let segment = self.segment;
        let mut worth: Vec<(usize, usize)> = Vec::new();
        for group in 0..segment.group_count() {
            let ranks = segment.ranks_of(group)?;
            let live = ranks
                .iter()
                .filter(|&&old| self.new_rank(old) != VACANT)
                .count();
            if live > 0 && live * LIVE_SHARE >= ranks.len() {
                worth.push((live, group));
            }
        }
        // The groups with most live files come first; ties keep their order.
        worth.sort_by_key(|&(live, group)| (std::cmp::Reverse(live), group));
        worth.truncate(MAX_GROUPS);
        self.groups = worth.into_iter().map(|(_, group)| group).collect();
        self.groups.sort_unstable();
        for group in 0..segment.group_count() {
            if self.groups.binary_search(&group).is_err() {
                for old in segment.ranks_of(group)? {
                    if let Some(rank) = self.ranks.get_mut(old as usize) {
                        *rank = VACANT;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the new rank of a file of the segment.
    pub(super) fn new_rank(&self, old: u32) -> u32 {
        self.ranks.get(old as usize).copied().unwrap_or(VACANT)
    }
}

/// Returns, for each excludable file of a segment, its rank in the tree if the file is unchanged;
/// [`VACANT`] for all other files.
fn same_files(earlier: EarlierSegment<'_>, tree: &Enumeration) -> Result<Vec<u32>, FormatError> {
    let segment = earlier.segment;
    let mut ranks = vec![VACANT; segment.file_count() as usize];
    let mut dirs = Vec::with_capacity(tree.dirs.len());
    for dir in &tree.dirs {
        dirs.push(segment.find_dir(&dir.place.logical)?);
    }
    let (mut new, mut old) = (0, 0);
    // Both lists are in emission order.
    while let Some(file) = tree.files.get(new) {
        if old >= segment.file_count() {
            break;
        }
        let before = segment.file(old)?;
        let dir = dirs.get(file.dir as usize).copied().flatten();
        let same = dir == Some(before.dir) && segment.name(before.name)? == file.name;
        let order = match same {
            true => Ordering::Equal,
            false => {
                let dir = tree
                    .dirs
                    .get(file.dir as usize)
                    .map(|dir| &dir.place.logical);
                let path = dir.map(|dir| dir.join(&file.name)).unwrap_or_default();
                cmp_paths(&path, &segment.path(old)?)
            }
        };
        match order {
            Ordering::Less => new += 1,
            Ordering::Greater => old += 1,
            Ordering::Equal => {
                let known = Stamp::from_record(before.stamp);
                let unchanged = file.stamp == Some(known) && known.shows_all_changes();
                let trusted = !earlier.distrusted.contains(&old);
                if unchanged && before.excludable && same && trusted {
                    ranks[old as usize] = new as u32;
                }
                (new, old) = (new + 1, old + 1);
            }
        }
    }
    Ok(ranks)
}
