//! Refreshing: updates the knowledge about a tree, part by part.
//!
//! This module looks at paths that may have changed, and records the differences from the segment
//! in the overlay. It handles single files and whole subtrees; a reconcile is a refresh of the
//! root. Callers decide when to look at which part, and watch the tree. Each directory is announced
//! to them before it is listed, so that they can watch it first and notice later changes.

pub mod catch_up;
pub(crate) mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use crate::format::error::FormatError;
use crate::index::below::{below, remove_below};
use crate::index::enumerate::Survey;
use crate::index::inputs::Inputs;
use crate::index::overlay::Overlay;
use crate::index::root_dir::EntryKind;
use crate::index::segment::Segment;
use crate::index::stamp::Stamp;
use crate::index::walk::{DirNode, EnteredDir, LookupResult, Walk};

/// The number of directories that are listed in parallel.
const BATCH_DIRS: usize = 64;

/// The number of directories with changed entries that one thread looks at. Small in unit tests, as
/// is [`PART_DIRS`], so that they have several groups and parts.
const GROUP_DIRS: usize = if cfg!(test) { 2 } else { 32 };

/// The number of directories that are looked at while the results of as many are recorded.
const PART_DIRS: usize = if cfg!(test) { 4 } else { 256 };

/// The most directories that are remembered as entered.
const MAX_ENTERED: usize = 4096;

/// The knowledge about a tree in addition to its segment.
#[derive(Clone, Debug)]
pub struct TreeKnowledge {
    /// The differences between the tree and the segment.
    pub overlay: Overlay,
    /// The inputs of eligibility (for example ignore files) when the segment was built; empty once
    /// the whole tree was compared.
    built_inputs: Inputs,
    /// The current inputs of eligibility inside the tree, by directory.
    inputs: BTreeMap<PathBuf, Inputs>,
    inputs_changed: bool,
    /// Whether a change was found since the last [`take_news`](TreeKnowledge::take_news).
    news: bool,
    /// The paths that could not be read, and why.
    errors: BTreeMap<PathBuf, String>,
}

impl TreeKnowledge {
    /// Creates the knowledge for a segment that was just built or opened.
    pub fn new(segment: &Segment, inputs: Inputs) -> TreeKnowledge {
        TreeKnowledge {
            overlay: Overlay::none(segment),
            built_inputs: inputs,
            inputs: BTreeMap::new(),
            inputs_changed: false,
            news: false,
            errors: BTreeMap::new(),
        }
    }

    /// Records that the whole tree was compared: the inputs of the build no longer count.
    pub fn seen_whole(&mut self) {
        self.built_inputs = Inputs::default();
        self.inputs_changed = true;
    }

    /// Returns true if a change was found since the last call. The published snapshot is outdated
    /// then.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Returns true if [`TreeKnowledge::inputs`] may have changed since the last call.
    pub fn take_inputs_changed(&mut self) -> bool {
        std::mem::take(&mut self.inputs_changed)
    }

    /// Returns all known inputs of eligibility.
    pub fn inputs(&self) -> Inputs {
        let mut all = self.built_inputs.clone();
        for own in self.inputs.values() {
            all.append(own.clone());
        }
        all
    }

    /// Records the paths that a build could not read.
    pub fn set_errors(&mut self, errors: impl Iterator<Item = (PathBuf, String)>) {
        self.errors = errors.collect();
    }

    /// Returns the paths that could not be read, and why.
    pub fn errors(&self) -> &BTreeMap<PathBuf, String> {
        &self.errors
    }

    fn forget_below(&mut self, path: &Path) {
        self.inputs_changed |= remove_below(&mut self.inputs, path);
        self.news |= remove_below(&mut self.errors, path);
    }

    /// Removes the knowledge about a path that is no directory.
    fn no_dir(&mut self, segment: &Segment, path: &Path) -> Result<(), FormatError> {
        self.forget_below(path);
        self.news |= self.overlay.no_dir(segment, path)?;
        Ok(())
    }
}

/// A cache of entered directories, valid as long as no rule and no directory changes.
#[derive(Debug, Default)]
pub struct EnteredDirs {
    dirs: BTreeMap<PathBuf, Arc<EnteredDir>>,
}

impl EnteredDirs {
    /// Removes all directories from the cache.
    pub fn clear(&mut self) {
        self.dirs.clear();
    }

    /// Returns the directory at a path; `None` if a walk does not reach it.
    ///
    /// # Errors
    ///
    /// The reason, as text, if it can't be determined whether a walk reaches it.
    pub(crate) fn get(
        &mut self,
        walk: &Walk,
        path: &Path,
    ) -> Result<Option<Arc<EnteredDir>>, String> {
        let mut components: Vec<&std::ffi::OsStr> = path.iter().collect();
        let mut missing = Vec::new();
        let mut at = path.to_path_buf();
        let mut entered = loop {
            if let Some(known) = self.dirs.get(&at) {
                break known.clone();
            }
            match components.pop() {
                Some(name) => {
                    missing.push(name);
                    at.pop();
                }
                None => {
                    let Some(root) = walk.enter(&walk.start())?.map(Arc::new) else {
                        return Ok(None);
                    };
                    self.keep(PathBuf::new(), &root);
                    break root;
                }
            }
        };
        while let Some(name) = missing.pop() {
            let next = match walk.look(&entered, std::iter::once(name)).pop() {
                Some(LookupResult::Dir(node)) => walk.enter(&node)?.map(Arc::new),
                Some(LookupResult::Error(message)) => return Err(message),
                _ => None,
            };
            let Some(next) = next else {
                return Ok(None);
            };
            entered = next;
            at.push(name);
            self.keep(at.clone(), &entered);
        }
        Ok(Some(entered))
    }

    /// Returns the directories above a path, as far as a walk reaches them.
    fn down_to(&mut self, walk: &Walk, path: &Path) -> EnteredDirs {
        // If it fails, the lookup of the path fails, too, and reports the reason.
        let _ = self.get(walk, path.parent().unwrap_or(Path::new("")));
        let above = path.ancestors().skip(1);
        let above = above.filter_map(|dir| Some((dir.to_path_buf(), self.dirs.get(dir)?.clone())));
        EnteredDirs {
            dirs: above.collect(),
        }
    }

    /// Removes the directories at and below entries of a directory.
    fn forget(&mut self, dir: &Path, entries: &[ChangedEntry]) {
        for entry in entries {
            remove_below(&mut self.dirs, &dir.join(&entry.name));
        }
    }

    fn keep(&mut self, path: PathBuf, entered: &Arc<EnteredDir>) {
        if self.dirs.len() >= MAX_ENTERED {
            self.dirs.clear();
        }
        self.dirs.insert(path, entered.clone());
    }
}

/// The progress of a refresh of subtrees: the directories that remain to be listed.
#[derive(Debug, Default)]
pub struct Cursor {
    stack: Vec<DirNode>,
}

impl Cursor {
    /// Starts with the whole tree.
    pub fn whole(walk: &Walk) -> Cursor {
        Cursor {
            stack: vec![walk.start()],
        }
    }

    /// Returns true if no directory remains.
    pub fn is_done(&self) -> bool {
        self.stack.is_empty()
    }
}

/// Returns true if the whole tree can be listed now, without an error that may hide files. Stops at
/// the first error, and when `stopped` returns true. The result is false then, although the rest is
/// unknown.
///
/// Costs one listing for each directory, and one lookup for each file.
pub fn can_be_listed(walk: &Walk, stopped: &dyn Fn() -> bool) -> bool {
    let mut stack = vec![walk.start()];
    while let Some(node) = stack.pop() {
        let survey = Survey::of(walk, &node);
        if !survey.errors.is_empty() || stopped() {
            return false;
        }
        stack.extend(survey.dirs);
    }
    true
}

/// A directory entry that an event was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedEntry {
    /// The entry's name in its directory.
    pub name: OsString,
    /// When the event arrived, in nanoseconds since the Unix epoch. If it arrived after the file's
    /// stamp had settled, the stamp does not reveal the change. For example, one long write call
    /// sets the file time when it begins, and raises its event when it ends.
    pub received_ns: i64,
}

/// What was found at entries of one directory.
struct LookedAt {
    /// Whether a walk reaches the directory.
    is_entered: bool,
    /// One result for each entry.
    results: Vec<LookupResult>,
}

/// A refresh of parts of a tree.
pub struct Refresh<'a> {
    /// The walk, which decides which files are eligible.
    pub walk: &'a Walk,
    /// The segment that the overlay is based on.
    pub segment: &'a Segment,
    /// Called with each directory (relative to the index root) before it is listed.
    pub enter: &'a (dyn Fn(&Path) + Sync),
    /// A time before the refresh, in nanoseconds since the Unix epoch. Rules files that changed
    /// just before it are not trusted.
    pub now_ns: i64,
}

impl Refresh<'_> {
    /// Looks at named entries of directories, which are in the order of paths. Directories among
    /// the entries are added to `cursor`, to be listed later. Returns for each directory the
    /// indices of the entries that don't exist, if a walk reaches the directory. Returns fewer
    /// directories if `go_on` returned false. Many directories are looked at on the threads of the
    /// current pool.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; `known` is useless then.
    pub fn entries(
        &self,
        known: &mut TreeKnowledge,
        entered: &mut EnteredDirs,
        dirs: &[(&Path, Vec<ChangedEntry>)],
        cursor: &mut Cursor,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Vec<usize>>, FormatError> {
        for (dir, entries) in dirs {
            entered.forget(dir, entries);
        }
        let mut all = Vec::with_capacity(dirs.len());
        let mut looked = Vec::new();
        let mut before: &[(&Path, Vec<ChangedEntry>)] = &[];
        // One part is recorded while the next one is looked at.
        for part in dirs.chunks(PART_DIRS).chain([&[][..]]) {
            let (taken, next) = match before.is_empty() || part.is_empty() {
                true => (
                    self.take_all(known, before, looked, cursor, go_on)?,
                    self.look_all(entered, part, go_on),
                ),
                false => {
                    let (taken, next) = rayon::join(
                        || self.take_all(known, before, looked, cursor, go_on),
                        || self.look_all(entered, part, go_on),
                    );
                    (taken?, next)
                }
            };
            let is_whole = taken.len() == before.len();
            all.extend(taken);
            if !is_whole {
                break;
            }
            (before, looked) = (part, next);
        }
        Ok(all)
    }

    /// Looks at entries of some directories. The results end with `None` if `go_on` returned false.
    fn look_all(
        &self,
        entered: &mut EnteredDirs,
        dirs: &[(&Path, Vec<ChangedEntry>)],
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Option<LookedAt>> {
        let look = |entered: &mut EnteredDirs, (dir, entries): &(&Path, Vec<ChangedEntry>)| {
            go_on().then(|| self.look(entered, dir, entries))
        };
        if dirs.len() <= GROUP_DIRS {
            return dirs.iter().map(|dir| look(entered, dir)).collect();
        }
        // Reading ignore files again in each group would take longer than the rest.
        let groups: Vec<_> = dirs
            .chunks(GROUP_DIRS)
            .take_while(|_| go_on())
            .map(|group| (group, entered.down_to(self.walk, group[0].0)))
            .collect();
        let looked = groups
            .into_par_iter()
            .map(|(group, mut entered)| group.iter().map(|dir| look(&mut entered, dir)).collect());
        let looked: Vec<Vec<_>> = looked.collect();
        looked.into_iter().flatten().collect()
    }

    /// Records what was found in some directories, and returns fewer if `go_on` returned false.
    fn take_all(
        &self,
        known: &mut TreeKnowledge,
        dirs: &[(&Path, Vec<ChangedEntry>)],
        looked: Vec<Option<LookedAt>>,
        cursor: &mut Cursor,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Vec<usize>>, FormatError> {
        let mut all = Vec::with_capacity(dirs.len());
        for ((dir, entries), looked) in dirs.iter().zip(looked) {
            let Some(looked) = looked.filter(|_| go_on()) else {
                break;
            };
            all.push(self.take_entries(known, dir, entries, looked, cursor)?);
        }
        Ok(all)
    }

    /// Looks at entries of one directory.
    fn look(&self, entered: &mut EnteredDirs, dir: &Path, entries: &[ChangedEntry]) -> LookedAt {
        let dir_at = entered.get(self.walk, dir);
        let is_entered = matches!(dir_at, Ok(Some(_)));
        let results = match dir_at {
            Ok(Some(dir)) => self
                .walk
                .look(&dir, entries.iter().map(|entry| &*entry.name)),
            Ok(None) => entries.iter().map(|_| LookupResult::Nothing).collect(),
            // The entries may exist: for example, the system may just have run out of file
            // descriptors.
            Err(message) => {
                let failed = |_| LookupResult::Error(message.clone());
                entries.iter().map(failed).collect()
            }
        };
        LookedAt {
            is_entered,
            results,
        }
    }

    /// Records what was found at entries of one directory. Returns the indices of the entries that
    /// don't exist.
    fn take_entries(
        &self,
        known: &mut TreeKnowledge,
        dir: &Path,
        entries: &[ChangedEntry],
        looked: LookedAt,
        cursor: &mut Cursor,
    ) -> Result<Vec<usize>, FormatError> {
        let mut nowhere = Vec::new();
        for (at, (ChangedEntry { name, received_ns }, result)) in
            entries.iter().zip(looked.results).enumerate()
        {
            let path = dir.join(name);
            match result {
                LookupResult::File(_, meta, sets) => {
                    known.no_dir(self.segment, &path)?;
                    let stamp = Stamp::of(&meta);
                    known.news |= known.overlay.found(self.segment, &path, stamp, sets)?;
                    if let Some(stamp) = stamp.filter(|stamp| stamp.is_settled(*received_ns)) {
                        known.news |= known.overlay.distrust(self.segment, &path, stamp)?;
                    }
                }
                LookupResult::Dir(node) => cursor.stack.push(node),
                LookupResult::Nothing => {
                    known.no_dir(self.segment, &path)?;
                    known.news |= known.overlay.no_file(self.segment, &path)?;
                    if looked.is_entered {
                        nowhere.push(at);
                    }
                }
                LookupResult::LeftOut(meta) => {
                    known.no_dir(self.segment, &path)?;
                    known.news |= known.overlay.no_file(self.segment, &path)?;
                    // Other names of the file may be eligible, and no event reports them.
                    let stamp = Stamp::of(&meta).filter(|_| meta.kind == EntryKind::File);
                    known.news |= known.overlay.found_elsewhere(self.segment, &path, stamp)?;
                }
                LookupResult::Error(message) => {
                    let before = known.errors.insert(path, message.clone());
                    known.news |= before != Some(message);
                }
            }
        }
        Ok(nowhere)
    }

    /// Lists some of the remaining directories, on the threads of the current pool, and adds their
    /// subdirectories to the cursor. Returns the number of files that were looked at. Costs one
    /// listing for each directory, and one lookup for each file.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; `known` is useless then.
    pub fn step(&self, known: &mut TreeKnowledge, cursor: &mut Cursor) -> Result<u64, FormatError> {
        let from = cursor.stack.len().saturating_sub(BATCH_DIRS);
        let batch = cursor.stack.split_off(from);
        let surveys: Vec<(PathBuf, Survey)> = batch
            .par_iter()
            .map(|node| {
                let mut places = node.places().map(|place| place.logical.clone());
                let path = places.next().unwrap_or_default();
                (self.enter)(&path);
                let mut survey = Survey::of(self.walk, node);
                survey.inputs.distrust_unsettled(self.now_ns);
                (path, survey)
            })
            .collect();
        let mut files = 0;
        for (path, survey) in surveys {
            files += survey.files.len() as u64;
            self.take(known, &path, &survey)?;
            cursor.stack.extend(survey.dirs);
        }
        Ok(files)
    }

    /// Records the listing of a directory.
    fn take(
        &self,
        known: &mut TreeKnowledge,
        path: &Path,
        survey: &Survey,
    ) -> Result<(), FormatError> {
        let is_top = path.as_os_str().is_empty();
        let mut dirs = BTreeSet::new();
        for node in &survey.dirs {
            dirs.extend(node.places().map(|place| place.logical.clone()));
        }
        // An error of a subdirectory stays until that directory is listed itself: searches may use
        // the knowledge in between.
        let is_in = |other: &Path| other.parent() == Some(path) && !dirs.contains(other);
        let own = |other: &Path| other == path || is_in(other) || is_top && other.is_absolute();
        let errors = below(&known.errors, path).map(|(other, _)| other);
        let errors: Vec<PathBuf> = errors.filter(|other| own(other)).cloned().collect();
        let mut before: Vec<(PathBuf, String)> = Vec::new();
        for error in errors {
            before.extend(known.errors.remove_entry(&error));
        }
        let mut now = survey.errors.clone();
        now.sort();
        known.news |= before != now;
        known.errors.extend(now);
        let before = match survey.inputs.is_empty() {
            true => known.inputs.remove(path),
            false => known
                .inputs
                .insert(path.to_path_buf(), survey.inputs.clone()),
        };
        known.inputs_changed |= before.unwrap_or_default() != survey.inputs;
        let listed = known
            .overlay
            .listed(self.segment, path, survey.sets, &survey.files, &dirs)?;
        known.news |= listed.news;
        for gone in &listed.gone {
            known.forget_below(gone);
        }
        Ok(())
    }
}

#[cfg(all(test, unix))]
pub(crate) mod tests;
