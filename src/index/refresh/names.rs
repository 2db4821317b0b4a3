//! Compares the names in a directory with the catalog of the snapshot.
//!
//! An editor that saves `src/main.rs` by renaming a new file to it changes the state of `src`, but
//! no name in it. Such a directory needs no catching up: the search itself checks each file before
//! it excludes it. A swap file that is still there is no reason either, if the ignore rules leave
//! it out.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::EnteredDirs;
use crate::format::error::FormatError;
use crate::index::names::name_bytes;
use crate::index::root_dir::EntryKind;
use crate::index::rules::is_control_name;
use crate::index::snapshot::{Differences, Snapshot};
use crate::index::walk::{LookupResult, Walk, join};

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

    /// Returns true if a directory has the files and subdirectories that the catalog has, and no
    /// others that are eligible. Returns false if this can't be determined, or if the directory has
    /// a new ignore file.
    ///
    /// Costs one listing of the directory, and one lookup for each name that the catalog lacks. The
    /// caller compares the ignore files that existed when the index was built.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub(crate) fn are_same(&self, number: u32) -> Result<bool, FormatError> {
        let dir = self.snapshot.segment().dir_path(number)?;
        let start = self.walk.start();
        let Some(top) = start.places().next() else {
            return Ok(false);
        };
        let Ok(entries) = top.root.open_dir_entries(&join(&top.real, dir)) else {
            return Ok(false);
        };
        let mut known = self.known(number)?;
        let mut unknown: Vec<&OsStr> = Vec::new();
        for entry in &entries {
            match known.remove(&*entry.name) {
                Some(kind) if kind == entry.kind => {}
                Some(_) => return Ok(false),
                None if is_control_name(&entry.name) => {
                    let path = join(self.walk.top(), dir).join(&entry.name);
                    if !self.inputs.contains(name_bytes(path.as_os_str())) {
                        return Ok(false);
                    }
                }
                None => unknown.push(&entry.name),
            }
        }
        if !known.is_empty() || unknown.is_empty() {
            return Ok(known.is_empty());
        }
        let entered = {
            let mut all = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(&self.walk, dir)
        };
        let Ok(Some(entered)) = entered else {
            return Ok(false);
        };
        let looked = self.walk.look(&entered, unknown.into_iter());
        let is_no_news = |found: &LookupResult| {
            matches!(found, LookupResult::LeftOut(_) | LookupResult::Nothing)
        };
        Ok(looked.iter().all(is_no_news))
    }

    /// Removes the directories that have the same names from `differences`. Compares them on the
    /// threads of the current pool.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub(crate) fn remove_same(&self, differences: &mut Differences) -> Result<(), FormatError> {
        let segment = self.snapshot.segment();
        let dirs = std::mem::take(&mut differences.dirs).into_par_iter();
        let changed = dirs.map(|path| {
            let is_same = match segment.find_dir(&path)? {
                Some(number) => self.are_same(number)?,
                None => false,
            };
            Ok((!is_same).then_some(path))
        });
        let changed: Vec<Option<PathBuf>> = changed.collect::<Result<_, FormatError>>()?;
        differences.dirs = changed.into_iter().flatten().collect();
        Ok(())
    }

    /// Returns the names of a directory in the catalog, and the kind of each.
    fn known(&self, number: u32) -> Result<BTreeMap<Cow<'_, OsStr>, EntryKind>, FormatError> {
        let segment = self.snapshot.segment();
        let mut known = BTreeMap::new();
        for &rank in segment.files_in(number)?.iter() {
            known.insert(
                Cow::Borrowed(segment.name(segment.file(rank)?.name)?),
                EntryKind::File,
            );
        }
        for &child in segment.dirs_in(number)?.iter() {
            known.insert(
                Cow::Borrowed(segment.name(segment.dir(child)?.name)?),
                EntryKind::Dir,
            );
        }
        let dir = segment.dir_path(number)?;
        for n in 0..segment.side_count() {
            let side = segment.side_path(n)?;
            if side.parent() == Some(dir) {
                let name = side.file_name().unwrap_or_default().to_os_string();
                known.insert(Cow::Owned(name), EntryKind::File);
            }
        }
        Ok(known)
    }
}

#[cfg(all(test, unix))]
mod tests;
