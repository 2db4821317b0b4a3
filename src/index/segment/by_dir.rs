//! Lists the content of directories, and the names of a file with hard links.
//!
//! Catalog records only refer to their parents. The first call that needs a reverse table builds it
//! from the whole catalog; cheaper calls scan a part of the catalog.

use std::borrow::Cow;

use super::Segment;
use crate::format::error::FormatError;
use crate::index::ranks::RankSet;

/// The direct content of each directory.
#[derive(Debug)]
pub(super) struct ByDir {
    files: Lists,
    dirs: Lists,
    linked: RankSet,
}

/// A list of numbers for each owner, in contiguous memory.
#[derive(Debug)]
struct Lists {
    /// The start of each owner's list, followed by the end of the last list.
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Builds the lists. `owners` has the owner of each item, by number of the item. Items with an
    /// unknown owner are dropped.
    fn of_owners(owners: &[u32], count: u32) -> Lists {
        let mut starts = vec![0u32; count as usize + 1];
        let known = |owner: &&u32| **owner < count;
        for owner in owners.iter().filter(known) {
            starts[*owner as usize + 1] += 1;
        }
        for n in 1..starts.len() {
            starts[n] += starts[n - 1];
        }
        let mut next = starts.clone();
        let mut items = vec![0u32; starts.last().map_or(0, |end| *end as usize)];
        for (item, owner) in (0u32..).zip(owners).filter(|(_, owner)| known(owner)) {
            let at = &mut next[*owner as usize];
            items[*at as usize] = item;
            *at += 1;
        }
        Lists { starts, items }
    }

    fn of(&self, owner: u32) -> &[u32] {
        let owner = owner as usize;
        match (self.starts.get(owner), self.starts.get(owner + 1)) {
            (Some(&start), Some(&end)) => &self.items[start as usize..end as usize],
            _ => &[],
        }
    }
}

impl Segment {
    /// Returns the ranks of the files directly in a directory. Reads these files and one file of
    /// each subdirectory, unless the table of the whole catalog exists already.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn files_in(&self, number: u32) -> Result<Cow<'_, [u32]>, FormatError> {
        if let Some(known) = self.by_dir.get() {
            return Ok(Cow::Borrowed(known.files.of(number)));
        }
        let own = self.dir(number)?;
        let mut found = Vec::new();
        let mut rank = own.first_rank;
        while rank < own.end_rank {
            let dir = self.file(rank)?.dir;
            if dir == number {
                found.push(rank);
                rank += 1;
                continue;
            }
            // The files below a subdirectory follow each other without a gap. Other directories
            // share this range if their names have the same ordering key. Their files are skipped
            // one by one.
            rank = match self.child_above(dir, number)? {
                Some(child) => self.dir(child)?.end_rank.max(rank + 1),
                None => rank + 1,
            };
        }
        Ok(Cow::Owned(found))
    }

    /// Returns the direct subdirectory of `above` that is `dir` or contains it. Returns `None` if
    /// `above` does not contain `dir`.
    fn child_above(&self, dir: u32, above: u32) -> Result<Option<u32>, FormatError> {
        let mut at = dir;
        loop {
            let parent = self.dir(at)?.parent;
            if parent == above {
                return Ok(Some(at));
            }
            // A directory has a higher number than its parent. The root is its own parent.
            if parent >= at {
                return Ok(None);
            }
            at = parent;
        }
    }

    /// Returns the numbers of the directories directly in a directory. Scans all directories below
    /// it, unless the table of the whole catalog exists already.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn dirs_in(&self, number: u32) -> Result<Cow<'_, [u32]>, FormatError> {
        if let Some(known) = self.by_dir.get() {
            return Ok(Cow::Borrowed(known.dirs.of(number)));
        }
        let end = self.dir(number)?.end_rank;
        let mut found = Vec::new();
        for other in number + 1..self.meta.dirs {
            let dir = self.dir(other)?;
            if dir.first_rank > end {
                break;
            }
            if dir.parent == number {
                found.push(other);
            }
        }
        Ok(Cow::Owned(found))
    }

    /// Returns the files with more than one hard link. The first call scans the whole catalog.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn linked(&self) -> Result<&RankSet, FormatError> {
        Ok(&self.by_dir()?.linked)
    }

    /// Returns the ranks of all names of one file, given its device and inode. The first call scans
    /// and sorts the whole catalog; later calls take logarithmic time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn with_identity(&self, device: u64, inode: u64) -> Result<Vec<u32>, FormatError> {
        let known = match self.by_identity.get() {
            Some(known) => known,
            None => {
                let mut all = Vec::with_capacity(self.meta.files as usize);
                for rank in 0..self.meta.files {
                    let stamp = self.file(rank)?.stamp;
                    all.push((stamp.inode, stamp.device, rank));
                }
                all.sort_unstable();
                self.by_identity.get_or_init(|| all)
            }
        };
        let first = known.partition_point(|&(i, d, _)| (i, d) < (inode, device));
        let rest = known.iter().skip(first);
        let same = rest.take_while(|&&(i, d, _)| (i, d) == (inode, device));
        Ok(same.map(|&(_, _, rank)| rank).collect())
    }

    fn by_dir(&self) -> Result<&ByDir, FormatError> {
        if let Some(known) = self.by_dir.get() {
            return Ok(known);
        }
        let mut linked = RankSet::empty(self.meta.files);
        let mut dirs_of_files = Vec::with_capacity(self.meta.files as usize);
        for rank in 0..self.meta.files {
            let file = self.file(rank)?;
            dirs_of_files.push(file.dir);
            if file.stamp.links > 1 {
                linked.insert(rank);
            }
        }
        let mut parents = Vec::with_capacity(self.meta.dirs as usize);
        for number in 0..self.meta.dirs {
            // No directory contains the root.
            parents.push(match number {
                0 => u32::MAX,
                _ => self.dir(number)?.parent,
            });
        }
        Ok(self.by_dir.get_or_init(|| ByDir {
            files: Lists::of_owners(&dirs_of_files, self.meta.dirs),
            dirs: Lists::of_owners(&parents, self.meta.dirs),
            linked,
        }))
    }
}
