//! Comparing directories with the index along the way: each before its files are handed out.
//!
//! Owns which directories decide about which unit of a source, which of them were looked at, and what
//! happens when one differs: the source makes its *twin*, whose snapshot was brought up to the tree,
//! and has it expand that unit and later ones. For example, a search that ends in `a/` has compared
//! neither `b/` nor what is below it.
//!
//! A directory decides about the files that stand where its own files stand or could stand: from its
//! first rank up to and including its end, where a new file would come. So a unit is right on its own
//! if each directory that touches it is as it was; units that were expanded before the twin was made
//! are as the twin would expand them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::{CatalogSource, Look, Scope};
use crate::exec::allowance::Allowance;
use crate::exec::eligible::Globs;
use crate::exec::stop::Stop;
use crate::format::error::FormatError;
use crate::index::plan::SupersetSafe;
use crate::index::refresh::catch_up::CaughtUp;
use crate::index::snapshot::{Snapshot, Stale};

/// Whether a comparison that takes long may go on.
type GoOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// Compares a snapshot with the tree as a whole, and brings it up to it.
pub(crate) type CatchUp = Box<dyn Fn(GoOn<'_>) -> Result<CaughtUp, FormatError> + Send + Sync>;

/// Why a source that compares along the way can't go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// How the tree differs can't be said: why.
    Stale(Stale),
    /// The searched directory is not one that the index covers any more.
    NotEntered,
}

/// A directory whose files a search is about.
#[derive(Debug)]
struct Dir {
    number: u32,
    first_rank: u32,
    end_rank: u32,
    /// It was looked at, and is as it was.
    is_same: AtomicBool,
}

/// A unit, and the directories that decide about it.
#[derive(Debug)]
struct Decided {
    unit: Range<u32>,
    /// Places in the list of all.
    dirs: Vec<usize>,
}

/// The comparison of one source.
pub(super) struct Comparison {
    /// By their first ranks.
    dirs: Vec<Dir>,
    /// Set when the source is cut into units.
    units: OnceLock<Vec<Decided>>,
    /// Why the source can't go on. What it yielded is not all there is then.
    refusal: Arc<OnceLock<Refusal>>,
    /// Time for looks at directories that are for nothing but the comparison.
    allowance: Arc<Allowance>,
    /// What the twin is made of.
    catch_up: CatchUp,
    globs: Globs,
    plan: SupersetSafe,
    twin: OnceLock<Option<Box<CatalogSource>>>,
}

impl Comparison {
    /// Prepares the comparison of a directory of the catalog, and of those below it if these are searched, too.
    pub(super) fn new(
        snapshot: &Snapshot,
        scope: &Scope,
        globs: Globs,
        plan: SupersetSafe,
        allowance: Arc<Allowance>,
        catch_up: CatchUp,
    ) -> Result<Comparison, FormatError> {
        let segment = snapshot.segment();
        let mut dirs = Vec::new();
        for number in 0..segment.dir_count() {
            if scope.covers(segment.dir_path(number)?) {
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
            catch_up,
            globs,
            plan,
            twin: OnceLock::new(),
        })
    }

    /// Returns where the source says why it can't go on.
    pub(super) fn refusal(&self) -> &Arc<OnceLock<Refusal>> {
        &self.refusal
    }

    /// Returns the first ranks of all directories, in their order.
    pub(super) fn first_ranks(&self) -> impl Iterator<Item = u32> {
        self.dirs.iter().map(|dir| dir.first_rank)
    }

    /// Returns how many directories were found to be as they were.
    #[cfg(test)]
    pub(super) fn same_dirs(&self) -> usize {
        let is_same = |dir: &&Dir| dir.is_same.load(Ordering::Relaxed);
        self.dirs.iter().filter(is_same).count()
    }

    /// Notes which directories decide about which unit. The last unit has what stands behind all
    /// files, too. Linear in the directories, and in the units times the depth of the tree.
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
        // A source is cut once.
        let _ = self.units.set(all);
    }

    /// Returns the directories that decide about a unit and were not found to be as they were yet, by their numbers.
    fn waiting(&self, unit: &Range<u32>) -> BTreeMap<u32, &Dir> {
        let units = self.units.get().map(Vec::as_slice).unwrap_or_default();
        let at = units.binary_search_by_key(&(unit.start, unit.end), |one| {
            (one.unit.start, one.unit.end)
        });
        // One that was not cut from the source depends on all of it.
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

    /// Looks at the directories that decide about a unit, and at those of its files that may be passed over, by directory.
    /// Returns the files that are not as they were; `None` if a directory is not, or if the time is over.
    pub(super) fn changed(
        &self,
        source: &CatalogSource,
        unit: &Range<u32>,
        by_dir: BTreeMap<u32, Vec<u32>>,
        stop: &Stop,
    ) -> Result<Option<Vec<u32>>, FormatError> {
        let (snapshot, scope) = (&source.snapshot, &source.scope);
        let waiting = self.waiting(unit);
        let alone = waiting.values().copied();
        let alone: Vec<&Dir> = alone
            .filter(|dir| !by_dir.contains_key(&dir.number))
            .collect();
        if !alone.is_empty() && !self.are_same(&alone, snapshot, scope, stop)? {
            return Ok(None);
        }
        let mut changed = Vec::new();
        for (number, ranks) in by_dir {
            if stop.is_raised() {
                break;
            }
            let look = snapshot.look_into(&scope.root, &scope.base, number, &ranks)?;
            if let Some(dir) = waiting.get(&number) {
                if !look.is_same {
                    return Ok(None);
                }
                dir.is_same.store(true, Ordering::Relaxed);
            }
            let pairs = ranks.into_iter().zip(look.files);
            changed.extend(pairs.filter(|(_, same)| !same).map(|(rank, _)| rank));
        }
        Ok(Some(changed))
    }

    /// Looks at directories in which no file is looked at.
    fn are_same(
        &self,
        dirs: &[&Dir],
        snapshot: &Snapshot,
        scope: &Scope,
        stop: &Stop,
    ) -> Result<bool, FormatError> {
        self.allowance.time(|is_in_time| {
            for dir in dirs {
                if stop.is_raised() {
                    // Nobody waits for the unit any more.
                    break;
                }
                let number = dir.number;
                if !is_in_time() || !snapshot.is_same_dir(&scope.root, &scope.base, number)? {
                    return Ok(false);
                }
                dir.is_same.store(true, Ordering::Relaxed);
            }
            Ok(true)
        })
    }

    /// Returns the twin, if there is one.
    pub(super) fn twin(&self) -> Option<&CatalogSource> {
        self.twin.get()?.as_deref()
    }

    /// Returns the twin, which the first caller makes. `None` if it can't be made: unless `stop` is raised, the source
    /// has failed then.
    pub(super) fn make_twin(&self, source: &CatalogSource, stop: &Stop) -> Option<&CatalogSource> {
        let twin = self.twin.get_or_init(|| {
            let go_on =
                |is_in_time: GoOn<'_>| (self.catch_up)(&|| !stop.is_raised() && is_in_time());
            let caught_up = self.allowance.time(go_on);
            match caught_up.and_then(|found| self.of_snapshot(source, found)) {
                Ok(Ok(twin)) => Some(Box::new(twin)),
                Ok(Err(refusal)) => {
                    if !stop.is_raised() {
                        // The first one counts, and there is only one.
                        let _ = self.refusal.set(refusal);
                    }
                    None
                }
                Err(error) => {
                    // The first one counts.
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
            // It differed a moment ago, or could not be looked at.
            CaughtUp::Same => source.snapshot.clone(),
            CaughtUp::Later(later) => Arc::new(*later),
            CaughtUp::Unknown(stale) => return Ok(Err(Refusal::Stale(stale))),
        };
        let (scope, globs) = (source.scope.clone(), self.globs.clone());
        let twin = CatalogSource::new(snapshot, scope, globs, &self.plan, Look::All)?;
        Ok(twin.ok_or(Refusal::NotEntered))
    }
}

/// Returns true if a search below a directory (relative to the index root) can compare along the way: the catalog has that directory,
/// and what decides about all of the search is as it was. That is the ignore files and the like, the directory itself and those above it.
pub(crate) fn may_wait(snapshot: &Snapshot, scope: &Scope) -> Result<bool, FormatError> {
    let path: &Path = &scope.path;
    Ok(snapshot.incomplete().is_none()
        && snapshot.is_same_down_to(&scope.root, &scope.base, path)?
        && snapshot.inputs().changed().is_none())
}

#[cfg(all(test, unix))]
mod tests;
