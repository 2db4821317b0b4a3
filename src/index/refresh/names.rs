//! Compares the names in a directory with the catalog of the snapshot.
//!
//! An editor that saves `src/main.rs` by renaming a new file to it changes the state of `src`, but
//! no name in it. Such a directory needs no catching up: the search itself checks each file before
//! it excludes it. A swap file that is still there is no reason either, if the ignore rules leave
//! it out.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::EnteredDirs;
use crate::format::error::FormatError;
use crate::format::mutex::lock;
use crate::index::names::name_bytes;
use crate::index::root_dir::EntryKind;
use crate::index::rules::is_control_name;
use crate::index::snapshot::{Differences, Snapshot};
use crate::index::walk::{DirNode, IgnoreRules, LookupResult, Walk, join};

/// Compares the names in directories of a tree with the catalog of a snapshot.
pub(crate) struct NameComparison {
    snapshot: Arc<Snapshot>,
    walk: Walk,
    /// The paths of the ignore files and similar files that existed when the index was built.
    inputs: BTreeSet<Vec<u8>>,
    entered: Mutex<EnteredDirs>,
}

impl NameComparison {
    /// Prepares comparisons. `walk` starts at the index root and has its current rules.
    pub(crate) fn new(snapshot: Arc<Snapshot>, walk: Walk) -> NameComparison {
        let inputs = snapshot.inputs().list().iter();
        let inputs = inputs.filter(|input| input.stat.is_some());
        NameComparison {
            inputs: inputs.map(|input| input.path.clone()).collect(),
            snapshot,
            walk,
            entered: Mutex::default(),
        }
    }

    /// Returns the walk, which decides which files are eligible.
    pub(crate) fn walk(&self) -> &Walk {
        &self.walk
    }

    /// Returns true if a directory has the files that the catalog has, and no other file or
    /// subdirectory that is eligible. A subdirectory that is gone does not count, since it differs
    /// itself. Returns false also if the directory has a new ignore file, if its names can't be
    /// found out, or if `go_on` returns false.
    ///
    /// Costs one listing of the directory, and another one with a match for each ignore file if it
    /// has names that the catalog lacks. The caller compares the ignore files that existed when the
    /// index was built.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub(crate) fn are_same(
        &self,
        number: u32,
        go_on: &dyn Fn() -> bool,
    ) -> Result<bool, FormatError> {
        let segment = self.snapshot.segment();
        let dir = segment.dir_path(number)?;
        let start = self.walk.start();
        let Some(top) = start.places().next().filter(|_| go_on()) else {
            return Ok(false);
        };
        let Ok(entries) = top.root.open_dir_entries(&join(&top.real, dir)) else {
            return Ok(false);
        };
        let mut files = self.files(number)?;
        let mut unknown: BTreeSet<&OsStr> = BTreeSet::new();
        for entry in &entries {
            let is_file = entry.kind == EntryKind::File;
            if files.remove(&*entry.name) {
                if !is_file {
                    return Ok(false);
                }
            } else if self.is_control_file(&entry.name) {
                let path = join(self.walk.top(), dir).join(&entry.name);
                if !self.inputs.contains(name_bytes(path.as_os_str())) {
                    return Ok(false);
                }
            } else if is_file || segment.find_dir(&dir.join(&entry.name))?.is_none() {
                unknown.insert(&entry.name);
            } else if entry.kind != EntryKind::Dir {
                return Ok(false);
            }
        }
        if !files.is_empty() || unknown.is_empty() {
            return Ok(files.is_empty());
        }
        let Some(node) = self.node(dir).filter(|_| go_on()) else {
            return Ok(false);
        };
        let is_unknown =
            |path: &Path, _: bool| path.file_name().is_some_and(|name| unknown.contains(name));
        Ok(self.walk.list(&node, &is_unknown).is_empty())
    }

    /// Returns true for the name of an ignore file or a similar file, if the walk reads these.
    fn is_control_file(&self, name: &OsStr) -> bool {
        self.walk.options().rules != IgnoreRules::None && is_control_name(name)
    }

    /// Returns a directory as the walk finds it in its parent directory. Returns `None` if it does
    /// not find it.
    fn node(&self, dir: &Path) -> Option<DirNode> {
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
            return Some(self.walk.start());
        };
        let entered = {
            let mut all = lock(&self.entered);
            all.get(&self.walk, parent).ok()??
        };
        match self.walk.look(&entered, std::iter::once(name)).pop()? {
            LookupResult::Dir(node) => Some(node),
            _ => None,
        }
    }

    /// Removes the directories that have the same names from `differences`, while `go_on` returns
    /// true. Compares them on the threads of the current pool.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub(crate) fn remove_same(
        &self,
        differences: &mut Differences,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), FormatError> {
        let segment = self.snapshot.segment();
        let dirs = std::mem::take(&mut differences.dirs).into_par_iter();
        let changed = dirs.map(|path| {
            let is_same = match segment.find_dir(&path)? {
                Some(number) => self.are_same(number, go_on)?,
                None => false,
            };
            Ok((!is_same).then_some(path))
        });
        let changed: Vec<Option<PathBuf>> = changed.collect::<Result<_, FormatError>>()?;
        differences.dirs = changed.into_iter().flatten().collect();
        Ok(())
    }

    /// Returns the names of the files of a directory that the index has.
    fn files(&self, number: u32) -> Result<BTreeSet<&OsStr>, FormatError> {
        let segment = self.snapshot.segment();
        let mut names = BTreeSet::new();
        for &rank in segment.files_in(number)?.iter() {
            names.insert(segment.name(segment.file(rank)?.name)?);
        }
        // Files whose paths have a line break are in a list of their own.
        for n in 0..segment.side_count() {
            let side = segment.side(n)?;
            if side.dir == number {
                names.insert(segment.name(side.name)?);
            }
        }
        Ok(names)
    }
}

#[cfg(all(test, unix))]
mod tests;
