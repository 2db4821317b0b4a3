//! Catching up: finds the differences between a tree and a snapshot for one search.
//!
//! A process that does not watch the tree compares it with the snapshot, before a search or along
//! with it. Once a difference was found along the way, [`catch_up`] compares the rest at once. It
//! lists again only directories whose names changed, and subtrees with changed ignore rules. For
//! example, a new file `src/new.rs` changes the names in `src`. That directory is listed, and
//! `new.rs` becomes an extra file in the overlay. `names` finds directories whose state changed and
//! whose names are the same.
//!
//! Files in unchanged directories are not looked at here: the search checks each of them before it
//! excludes it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::{BATCH_DIRS, EnteredDirs, Refresh, TreeKnowledge};
use crate::format::error::FormatError;
use crate::format::manifest::InputStat;
use crate::format::sort_key::cmp_paths;
use crate::index::enumerate::Survey;
use crate::index::inputs::Inputs;
use crate::index::root_dir::RootDir;
use crate::index::rules::is_control_name;
use crate::index::snapshot::{Differences, Snapshot, Stale};
use crate::index::walk::{DirNode, LookupResult, Walk};

/// Up to this many changed directories are always listed again.
const MANY_DIRS: usize = 512;

/// In a large tree, this many directories are sampled. If at least one in `SAMPLED_SHARE` of them
/// changed, the tree counts as very different.
const SAMPLED_DIRS: usize = 64;
const SAMPLED_SHARE: usize = 4;

/// The result of a comparison.
#[derive(Debug)]
pub enum CaughtUp {
    /// The directories and rules of the tree are the same as in the snapshot.
    Same,
    /// The tree differs. This snapshot of the same segment describes it.
    Later(Box<Snapshot>),
    /// The differences could not be determined. Holds the reason.
    Unknown(Stale),
}

/// Updates a snapshot to the current tree, as far as a search below `subtree` (relative to the
/// index root) depends on it. `differences` are those below and above `subtree`; `walk` decides
/// which files are eligible. The result is [`Stale::Unfinished`] if `go_on` returns false.
///
/// Costs one listing for each directory that is changed, new, or below changed rules, and one
/// lookup for each file in it.
///
/// # Errors
///
/// [`FormatError`] if the segment is damaged; the snapshot is useless then.
pub fn catch_up(
    snapshot: &Snapshot,
    differences: &Differences,
    walk: &Walk,
    subtree: &Path,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<CaughtUp, FormatError> {
    if differences.is_empty() {
        return Ok(CaughtUp::Same);
    }
    if let Some(path) = differences.dirs.first()
        && is_too_much(differences.dirs.len(), snapshot)
    {
        return Ok(CaughtUp::Unknown(Stale::Dir(path.clone())));
    }
    let mut catching = TreeComparison {
        snapshot,
        walk,
        subtree,
        known: TreeKnowledge::new(snapshot.segment(), Inputs::default()),
        entered: EnteredDirs::default(),
        recorded: recorded(snapshot.inputs()),
        listed: BTreeMap::new(),
    };
    let mut waiting = VecDeque::new();
    for start in catching.starts(differences) {
        if !go_on() {
            return Ok(CaughtUp::Unknown(Stale::Unfinished));
        }
        waiting.extend(catching.enter(&start)?);
    }
    if let Some(stale) = catching.list(waiting, go_on)? {
        return Ok(CaughtUp::Unknown(stale));
    }
    let errors = catching.known.errors().len() as u64;
    Ok(match errors {
        0 => {
            let overlay = catching.known.overlay.pinned();
            let own = catching.known.inputs();
            let inputs = match own.is_empty() && differences.inputs.is_empty() {
                true => snapshot.inputs().clone(),
                false => {
                    let mut all = Inputs::clone(snapshot.inputs());
                    all.append(own);
                    Arc::new(all)
                }
            };
            let later = snapshot.later(overlay, inputs, 0);
            CaughtUp::Later(Box::new(later))
        }
        _ => CaughtUp::Unknown(Stale::EnumerationErrors(errors)),
    })
}

/// Returns true if so many directories changed that searching all files is as fast as catching up.
fn is_too_much(differing: usize, snapshot: &Snapshot) -> bool {
    differing > MANY_DIRS && differing > snapshot.segment().dir_count() as usize / 2
}

/// Returns why the index should be rebuilt instead of caught up; `None` to catch up. Reasons are:
/// an ignore file changed, so that each search would list everything below it; any directory of a
/// small tree changed; or so many of a sample of a large tree that [`catch_up`] may give up. `base`
/// is the index root beneath `root`. Costs one lookup for each input, and for at most 512
/// directories.
///
/// # Errors
///
/// [`FormatError`] if the segment is damaged; the snapshot is useless then.
pub(crate) fn differs_much(
    snapshot: &Snapshot,
    root: &RootDir,
    base: &Path,
) -> Result<Option<Stale>, FormatError> {
    if let Some(stale) = snapshot.unprovable()? {
        return Ok(Some(stale));
    }
    if let Some(path) = snapshot.inputs().changed() {
        return Ok(Some(Stale::Input(path)));
    }
    let segment = snapshot.segment();
    let count = segment.dir_count() as usize;
    let (looks, enough) = match count <= MANY_DIRS {
        true => (count, 1),
        false => (SAMPLED_DIRS, SAMPLED_DIRS / SAMPLED_SHARE),
    };
    let mut differing = 0;
    for nth in 0..looks {
        let number = u32::try_from(count * nth / looks).unwrap_or(u32::MAX);
        let Some(stale) = snapshot.stale_dir(root, base, number)? else {
            continue;
        };
        differing += 1;
        // If the time of a directory does not fit into a stamp, no index of it is useful.
        if differing >= enough || matches!(stale, Stale::Untimed(_)) {
            return Ok(Some(stale));
        }
    }
    Ok(None)
}

/// Returns the recorded state of each input of a snapshot, by path.
fn recorded(inputs: &Inputs) -> BTreeMap<Vec<u8>, Option<InputStat>> {
    let list = inputs.list().iter();
    list.map(|input| (input.path.clone(), input.stat)).collect()
}

/// A directory to be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Start {
    path: PathBuf,
    /// Whether the whole subtree is listed; otherwise, only new subdirectories are.
    whole: bool,
}

/// A comparison in progress.
struct TreeComparison<'a> {
    snapshot: &'a Snapshot,
    walk: &'a Walk,
    subtree: &'a Path,
    known: TreeKnowledge,
    entered: EnteredDirs,
    recorded: BTreeMap<Vec<u8>, Option<InputStat>>,
    /// The directories that were listed, and whether their whole subtrees are.
    listed: BTreeMap<PathBuf, bool>,
}

impl TreeComparison<'_> {
    /// Returns the directories where listing starts, parents first and in the order of their files,
    /// so that files are appended to the overlay. Directories below a whole subtree are omitted.
    fn starts(&self, differences: &Differences) -> Vec<Start> {
        let owners = differences.inputs.iter();
        let wholes: BTreeSet<PathBuf> = owners.map(|path| self.owner(path)).collect();
        let is_below = |path: &Path| path.ancestors().skip(1).any(|dir| wholes.contains(dir));
        let dirs = differences.dirs.iter().map(|path| (path, false));
        let all = wholes.iter().map(|path| (path, true)).chain(dirs);
        let mut starts: Vec<Start> = all
            .filter(|(path, whole)| !is_below(path) && (*whole || !wholes.contains(*path)))
            .map(|(path, whole)| Start {
                path: path.clone(),
                whole,
            })
            .collect();
        starts.sort_by(|a, b| cmp_paths(&a.path, &b.path));
        starts
    }

    /// Returns the directory, relative to the index root, whose rules an input decides about: the
    /// one that contains the ignore file or the `.git`. An input elsewhere, for example in the git
    /// directory that a `.git` file names, may decide about any directory. The result is the root
    /// then.
    fn owner(&self, input: &Path) -> PathBuf {
        let Ok(path) = input.strip_prefix(self.walk.top()) else {
            return PathBuf::new();
        };
        let is_plain = path.iter().all(|name| name != "..");
        let above: PathBuf = path.iter().take_while(|name| *name != ".git").collect();
        let name = path.file_name().unwrap_or_default();
        match (is_plain, above.as_path() == path) {
            (true, false) => above,
            (true, true) if is_control_name(name) => {
                path.parent().unwrap_or(Path::new("")).to_path_buf()
            }
            _ => PathBuf::new(),
        }
    }

    /// Finds a directory in the tree, and records it if it does not exist any more.
    fn enter(&mut self, start: &Start) -> Result<Option<(DirNode, bool)>, FormatError> {
        let path = &start.path;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Some((self.walk.start(), start.whole)));
        };
        let looked = match self.entered.get(self.walk, parent) {
            Ok(Some(dir)) => self.walk.look(&dir, std::iter::once(name)).pop(),
            Ok(None) => None,
            Err(message) => Some(LookupResult::Error(message)),
        };
        match looked {
            Some(LookupResult::Dir(node)) => return Ok(Some((node, start.whole))),
            Some(LookupResult::Error(message)) => {
                self.known.errors.insert(path.clone(), message);
            }
            Some(LookupResult::File(..) | LookupResult::LeftOut(_) | LookupResult::Nothing)
            | None => {
                self.known.no_dir(self.snapshot.segment(), path)?;
            }
        }
        Ok(None)
    }

    /// Lists directories and the required ones below them. Returns the reason if it had to stop.
    fn list(
        &mut self,
        mut waiting: VecDeque<(DirNode, bool)>,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Stale>, FormatError> {
        while !waiting.is_empty() {
            if !go_on() {
                return Ok(Some(Stale::Unfinished));
            }
            let batch: Vec<(DirNode, bool)> = waiting
                .drain(..waiting.len().min(BATCH_DIRS))
                .filter(|(node, whole)| self.is_due(&path_of(node), *whole))
                .collect();
            let walk = self.walk;
            let surveys: Vec<Survey> = batch
                .par_iter()
                .map(|(node, _)| Survey::of(walk, node))
                .collect();
            for ((node, whole), survey) in batch.into_iter().zip(surveys) {
                self.take(&path_of(&node), whole, survey, &mut waiting)?;
            }
        }
        Ok(None)
    }

    /// Returns true if a directory was not listed to this extent yet, and records that it is now.
    fn is_due(&mut self, path: &Path, whole: bool) -> bool {
        match self.listed.get(path) {
            Some(already) if *already || !whole => false,
            _ => {
                self.listed.insert(path.to_path_buf(), whole);
                true
            }
        }
    }

    /// Records the listing of a directory, and adds its subdirectories to be listed to `waiting`.
    fn take(
        &mut self,
        path: &Path,
        whole: bool,
        survey: Survey,
        waiting: &mut VecDeque<(DirNode, bool)>,
    ) -> Result<(), FormatError> {
        let segment = self.snapshot.segment();
        let refresh = Refresh {
            walk: self.walk,
            segment,
            enter: &|_| {},
            now_ns: 0,
        };
        refresh.take(&mut self.known, path, &survey)?;
        let whole = whole || !self.has_rules_of(&survey);
        for node in survey.dirs {
            let path = path_of(&node);
            if !path.starts_with(self.subtree) && !self.subtree.starts_with(&path) {
                continue;
            }
            let is_new = segment.find_dir(&path)?.is_none();
            if whole || is_new {
                waiting.push_back((node, true));
            }
        }
        Ok(())
    }

    /// Returns true if the rules files of a directory are the same as at build time. Files that
    /// were removed since are among the differences.
    fn has_rules_of(&self, survey: &Survey) -> bool {
        let mut inputs = survey.inputs.list().iter();
        inputs.all(|input| self.recorded.get(&input.path) == Some(&input.stat))
    }
}

/// Returns the path of a node of a single directory, relative to the index root.
fn path_of(node: &DirNode) -> PathBuf {
    let mut places = node.places();
    places
        .next()
        .map_or_else(PathBuf::new, |place| place.logical.clone())
}

#[cfg(all(test, unix))]
mod tests;
