//! Comparing directories with the index during a search: each directory before its files are
//! returned.
//!
//! A [`CatalogSource`] uses this module if nothing watches the tree and the decision allows it.
//! This module owns the mapping from each unit of the source to the directories that affect it, and
//! the record of compared directories. For example, a search that ends in `a/` has compared neither
//! `b/` nor its subdirectories.
//!
//! A directory is unchanged if its stamp is. Otherwise its names are compared: saving a file by
//! renaming a new one to it changes the stamp of the directory, but no name in it. If a name
//! differs, too, the source builds its *twin*: a source with a snapshot that matches the tree. The
//! twin expands that unit and all later units. If no twin can be built, the source stops with a
//! [`Refusal`]. The caller then walks for the rest.
//!
//! A directory affects a range of ranks: those of the files below it, and the rank after the last
//! one, because a new file may be inserted before it. A unit is correct if all directories that
//! affect it are unchanged. Only such units are expanded before the twin is built, so the twin
//! would have the same files in them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::{CatalogSource, ChangeCheck, RequestedPart};
use crate::exec::sources::eligible::Globs;
use crate::exec::stop::Stop;
use crate::exec::stop::allowance::Allowance;
use crate::format::error::FormatError;
use crate::index::plan::SupersetSafe;
use crate::index::refresh::catch_up::CaughtUp;
use crate::index::snapshot::{Snapshot, Stale};

/// Returns whether a long comparison may continue.
pub(crate) type GoOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// Finds the differences between the snapshot of a source and the tree.
pub(crate) trait TreeDifferences: Send + Sync {
    /// Returns true if a directory, given by its number, has exactly the eligible names that the
    /// snapshot has. Returns false also if `go_on` returns false.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the snapshot is damaged.
    fn has_same_names(&self, dir: u32, go_on: GoOn<'_>) -> Result<bool, FormatError>;

    /// Compares the snapshot with the whole tree, and updates it to match the tree.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the snapshot is damaged.
    fn catch_up(&self, go_on: GoOn<'_>) -> Result<CaughtUp, FormatError>;
}

/// Why a source that compares during the search can't continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The differences of the tree could not be determined, for this reason.
    Stale(Stale),
    /// The index no longer covers the searched directory.
    NotEntered,
}

/// A directory with files in the part that is searched.
#[derive(Debug)]
struct Dir {
    number: u32,
    first_rank: u32,
    end_rank: u32,
    /// Whether the directory was compared and is unchanged.
    is_same: AtomicBool,
}

/// A unit, and the directories that affect it.
#[derive(Debug)]
struct Decided {
    unit: Range<u32>,
    /// Positions in [`Comparison::dirs`].
    dirs: Vec<usize>,
}

/// The comparison of one source with the tree.
pub(super) struct Comparison {
    /// Sorted by first rank.
    dirs: Vec<Dir>,
    /// Set when the source is split into units.
    units: OnceLock<Vec<Decided>>,
    /// Why the source can't continue. Its files so far are incomplete then.
    refusal: Arc<OnceLock<Refusal>>,
    /// The time budget for examining directories only to compare them.
    allowance: Arc<Allowance>,
    tree: Box<dyn TreeDifferences>,
    /// The inputs for building the twin.
    globs: Globs,
    plan: SupersetSafe,
    twin: OnceLock<Option<Box<CatalogSource>>>,
}

impl Comparison {
    /// Prepares the comparison of the requested directory, and of its subdirectories in a recursive
    /// search.
    pub(super) fn new(
        snapshot: &Snapshot,
        part: &RequestedPart,
        globs: Globs,
        plan: SupersetSafe,
        allowance: Arc<Allowance>,
        tree: Box<dyn TreeDifferences>,
    ) -> Result<Comparison, FormatError> {
        let segment = snapshot.segment();
        let mut dirs = Vec::new();
        for number in 0..segment.dir_count() {
            if part.covers(segment.dir_path(number)?) {
                let dir = segment.dir(number)?;
                dirs.push(Dir {
                    number,
                    first_rank: dir.first_rank,
                    end_rank: dir.end_rank,
                    is_same: AtomicBool::new(false),
                });
            }
        }
        dirs.sort_by_key(|dir| dir.first_rank);
        Ok(Comparison {
            dirs,
            units: OnceLock::new(),
            refusal: Arc::default(),
            allowance,
            tree,
            globs,
            plan,
            twin: OnceLock::new(),
        })
    }

    /// Returns the cell in which the source stores why it can't continue.
    pub(super) fn refusal(&self) -> &Arc<OnceLock<Refusal>> {
        &self.refusal
    }

    /// Returns the first ranks of all directories, in ascending order.
    pub(super) fn first_ranks(&self) -> impl Iterator<Item = u32> {
        self.dirs.iter().map(|dir| dir.first_rank)
    }

    /// Returns the number of directories that were found unchanged.
    #[cfg(test)]
    pub(super) fn same_dirs(&self) -> usize {
        let is_same = |dir: &&Dir| dir.is_same.load(Ordering::Relaxed);
        self.dirs.iter().filter(is_same).count()
    }

    /// Records which directories affect which unit. The last unit is also affected by directories
    /// after all files. Linear in the directories, and in the units times the depth of the tree.
    pub(super) fn assign(&self, units: &[Range<u32>]) {
        let mut all = Vec::with_capacity(units.len());
        let mut open: Vec<usize> = Vec::new();
        let mut dirs = (0..self.dirs.len()).peekable();
        let end = units.last().map(|unit| unit.end);
        for unit in units {
            let is_last = Some(unit.end) == end;
            open.retain(|&at| self.dirs[at].end_rank >= unit.start);
            let begins = |&at: &usize| self.dirs[at].first_rank < unit.end || is_last;
            open.extend(std::iter::from_fn(|| dirs.next_if(begins)));
            all.push(Decided {
                unit: unit.clone(),
                dirs: open.clone(),
            });
        }
        // A source is split only once.
        let _ = self.units.set(all);
    }

    /// Returns the directories that affect a unit and were not found unchanged yet, by number.
    fn waiting(&self, unit: &Range<u32>) -> BTreeMap<u32, &Dir> {
        let units = self.units.get().map(Vec::as_slice).unwrap_or_default();
        let at = units.binary_search_by_key(&(unit.start, unit.end), |one| {
            (one.unit.start, one.unit.end)
        });
        // A unit that was not split from the source depends on all directories.
        let every: Vec<usize>;
        let dirs = match at {
            Ok(at) => &units[at].dirs,
            Err(_) => {
                every = (0..self.dirs.len()).collect();
                &every
            }
        };
        let dirs = dirs.iter().map(|&at| &self.dirs[at]);
        dirs.filter(|dir| !dir.is_same.load(Ordering::Relaxed))
            .map(|dir| (dir.number, dir))
            .collect()
    }

    /// Examines the directories that affect a unit, and the files of the unit that may be skipped
    /// (`by_dir`). Returns the files that changed. Returns `None` if a directory changed, or if the
    /// time is over.
    pub(super) fn changed(
        &self,
        source: &CatalogSource,
        unit: &Range<u32>,
        by_dir: BTreeMap<u32, Vec<u32>>,
        stop: &Stop,
    ) -> Result<Option<Vec<u32>>, FormatError> {
        let (snapshot, part) = (&source.snapshot, &source.part);
        let waiting = self.waiting(unit);
        let alone = waiting.values().copied();
        let alone: Vec<&Dir> = alone
            .filter(|dir| !by_dir.contains_key(&dir.number))
            .collect();
        if !alone.is_empty() && !self.are_same(&alone, snapshot, part, stop)? {
            return Ok(None);
        }
        let mut changed = Vec::new();
        for (number, ranks) in by_dir {
            if stop.is_raised() {
                break;
            }
            let look = snapshot.look_into(&part.root, &part.base, number, &ranks)?;
            if let Some(dir) = waiting.get(&number) {
                let same_names = || {
                    let go_on = |is_in_time: GoOn<'_>| {
                        let go_on = || !stop.is_raised() && is_in_time();
                        self.tree.has_same_names(number, &go_on)
                    };
                    self.allowance.time(go_on)
                };
                if !look.is_same && !same_names()? {
                    return Ok(None);
                }
                dir.is_same.store(true, Ordering::Relaxed);
            }
            let pairs = ranks.into_iter().zip(look.files);
            changed.extend(pairs.filter(|(_, same)| !same).map(|(rank, _)| rank));
        }
        Ok(Some(changed))
    }

    /// Examines directories without examining their files. Returns false if one changed, or if the
    /// time is over.
    fn are_same(
        &self,
        dirs: &[&Dir],
        snapshot: &Snapshot,
        part: &RequestedPart,
        stop: &Stop,
    ) -> Result<bool, FormatError> {
        self.allowance.time(|is_in_time| {
            for dir in dirs {
                if stop.is_raised() {
                    // The search has stopped, so the unit is not needed any more.
                    break;
                }
                let number = dir.number;
                if !is_in_time() {
                    return Ok(false);
                }
                let is_same = snapshot.is_same_dir(&part.root, &part.base, number)?;
                let go_on = || !stop.is_raised() && is_in_time();
                if !is_same && !self.tree.has_same_names(number, &go_on)? {
                    return Ok(false);
                }
                dir.is_same.store(true, Ordering::Relaxed);
            }
            Ok(true)
        })
    }

    /// Returns the twin if it was built.
    pub(super) fn twin(&self) -> Option<&CatalogSource> {
        self.twin.get()?.as_deref()
    }

    /// Returns the twin; the first caller builds it. Returns `None` if it can't be built; then the
    /// source has failed, unless `stop` is raised.
    pub(super) fn make_twin(&self, source: &CatalogSource, stop: &Stop) -> Option<&CatalogSource> {
        let twin = self.twin.get_or_init(|| {
            let go_on =
                |is_in_time: GoOn<'_>| self.tree.catch_up(&|| !stop.is_raised() && is_in_time());
            let caught_up = self.allowance.time(go_on);
            match caught_up.and_then(|found| self.of_snapshot(source, found)) {
                Ok(Ok(twin)) => Some(Box::new(twin)),
                Ok(Err(refusal)) => {
                    if !stop.is_raised() {
                        // `set` fails only if the cell is set already, and there is only one
                        // refusal.
                        let _ = self.refusal.set(refusal);
                    }
                    None
                }
                Err(error) => {
                    // The first error counts.
                    let _ = source.failure.set(error);
                    None
                }
            }
        });
        twin.as_deref()
    }

    fn of_snapshot(
        &self,
        source: &CatalogSource,
        found: CaughtUp,
    ) -> Result<Result<CatalogSource, Refusal>, FormatError> {
        let snapshot = match found {
            // The tree differed a moment ago, or could not be examined.
            CaughtUp::Same => source.snapshot.clone(),
            CaughtUp::Later(later) => Arc::new(*later),
            CaughtUp::Unknown(stale) => return Ok(Err(Refusal::Stale(stale))),
        };
        let (part, globs) = (source.part.clone(), self.globs.clone());
        // A comparison replaces the overlay of a snapshot, not its segment.
        let known = Some(source.in_segment.clone());
        let look = ChangeCheck::All;
        let twin = CatalogSource::with(known, snapshot, part, globs, &self.plan, look)?;
        Ok(twin.ok_or(Refusal::NotEntered))
    }
}

/// Returns true if a search below a directory (relative to the index root) can compare during the
/// search. This requires that the catalog contains the directory and that everything that affects
/// the whole search is unchanged: ignore files and similar files, the directory itself, and its
/// parent directories.
pub(crate) fn may_wait(snapshot: &Snapshot, part: &RequestedPart) -> Result<bool, FormatError> {
    let path: &Path = &part.path;
    Ok(snapshot.incomplete().is_none()
        && snapshot.unprovable()?.is_none()
        && snapshot.is_same_down_to(&part.root, &part.base, path)?
        && snapshot.inputs().changed().is_none())
}

#[cfg(all(test, unix))]
mod tests;
