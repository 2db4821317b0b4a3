//! Refreshing: bringing what is known of a tree up to what is there now, part by part.
//!
//! Owns the way from a path that may have changed to the overlay that says so, for single files and for whole subtrees. A
//! whole tree is a subtree: a reconcile is a refresh of the root. Who watches the tree, and when which part is looked at, is
//! decided elsewhere; here each directory is announced before it is listed, so that what changes afterwards is noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use crate::format::error::FormatError;
use crate::index::beneath::EntryKind;
use crate::index::enumerate::Survey;
use crate::index::inputs::Inputs;
use crate::index::overlay::Overlay;
use crate::index::segment::Segment;
use crate::index::stamp::Stamp;
use crate::index::walk::{DirNode, EnteredDir, Looked, Walk};

/// Directories that are listed at once.
const BATCH_DIRS: usize = 64;

/// The most directories that are remembered as entered.
const MAX_ENTERED: usize = 4096;

/// What is known of a tree beside its segment.
#[derive(Clone, Debug)]
pub struct Known {
    /// How the tree differs from the segment.
    pub overlay: Overlay,
    /// What decides about eligibility, as it was when the segment was built; until the whole tree was looked at since.
    built_inputs: Inputs,
    /// What decides about eligibility inside the tree, by directory.
    inputs: BTreeMap<PathBuf, Inputs>,
    inputs_changed: bool,
    /// Whether anything was news since somebody last asked.
    news: bool,
    /// What could not be read, and why.
    errors: BTreeMap<PathBuf, String>,
}

impl Known {
    /// Begins with a segment that was just built or opened.
    pub fn new(segment: &Segment, inputs: Inputs) -> Known {
        Known {
            overlay: Overlay::none(segment),
            built_inputs: inputs,
            inputs: BTreeMap::new(),
            inputs_changed: false,
            news: false,
            errors: BTreeMap::new(),
        }
    }

    /// Notes that the whole tree was looked at: what decided when the segment was built has no say any more.
    pub fn seen_whole(&mut self) {
        self.built_inputs = Inputs::default();
        self.inputs_changed = true;
    }

    /// Returns true if anything was found to be otherwise since this was last asked: then what searches are given is of
    /// yesterday.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Returns true if [`Known::inputs`] may be others than when this was last asked.
    pub fn take_inputs_changed(&mut self) -> bool {
        std::mem::take(&mut self.inputs_changed)
    }

    /// Returns everything that is known to decide about eligibility.
    pub fn inputs(&self) -> Inputs {
        let mut all = self.built_inputs.clone();
        for own in self.inputs.values() {
            all.append(own.clone());
        }
        all
    }

    /// Notes what a build could not read.
    pub fn set_errors(&mut self, errors: impl Iterator<Item = (PathBuf, String)>) {
        self.errors = errors.collect();
    }

    /// Returns what could not be read.
    pub fn errors(&self) -> &BTreeMap<PathBuf, String> {
        &self.errors
    }

    fn forget_below(&mut self, path: &Path) {
        self.inputs_changed |= remove_below(&mut self.inputs, path);
        self.news |= remove_below(&mut self.errors, path);
    }

    /// Forgets what is known of a path that is no directory.
    fn no_dir(&mut self, segment: &Segment, path: &Path) -> Result<(), FormatError> {
        self.forget_below(path);
        self.news |= self.overlay.no_dir(segment, path)?;
        Ok(())
    }
}

/// Removes what a map has at and below a path. Returns whether there was anything.
fn remove_below<T>(map: &mut BTreeMap<PathBuf, T>, path: &Path) -> bool {
    let from = (Bound::Included(path), Bound::Unbounded);
    let paths: Vec<PathBuf> = map
        .range::<Path, _>(from)
        .map(|(below, _)| below)
        .take_while(|below| below.starts_with(path))
        .cloned()
        .collect();
    for path in &paths {
        map.remove(path);
    }
    !paths.is_empty()
}

/// Directories that were entered, remembered as long as no rule and no directory changes.
#[derive(Debug, Default)]
pub struct Entered {
    dirs: BTreeMap<PathBuf, Arc<EnteredDir>>,
}

impl Entered {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.dirs.clear();
    }

    /// Returns the directory at a path; `None` if a walk does not get there.
    ///
    /// # Errors
    ///
    /// Says why it could not be found out whether one does.
    fn get(&mut self, walk: &Walk, path: &Path) -> Result<Option<Arc<EnteredDir>>, String> {
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
                Some(Looked::Dir(node)) => walk.enter(&node)?.map(Arc::new),
                Some(Looked::Error(message)) => return Err(message),
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

    fn keep(&mut self, path: PathBuf, entered: &Arc<EnteredDir>) {
        if self.dirs.len() >= MAX_ENTERED {
            self.dirs.clear();
        }
        self.dirs.insert(path, entered.clone());
    }
}

/// Subtrees that are being refreshed: the directories that remain to be listed.
#[derive(Debug, Default)]
pub struct Cursor {
    stack: Vec<DirNode>,
}

impl Cursor {
    /// Begins with a whole tree.
    pub fn whole(walk: &Walk) -> Cursor {
        Cursor {
            stack: vec![walk.start()],
        }
    }

    /// Returns true if nothing remains.
    pub fn is_done(&self) -> bool {
        self.stack.is_empty()
    }
}

/// Returns true if a whole tree can be listed now, without an error that may hide files. Ends at
/// the first error, and when `stopped` returns true: whether the rest can be listed is unknown
/// then.
///
/// Costs one listing a directory and one look at each file.
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

/// An entry of a directory of which something was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name there.
    pub name: OsString,
    /// When, in nanoseconds since the Unix epoch. What is heard of a file after its state has settled is of a change that the state
    /// does not show: a single call that overwrites it notes the time when it begins, and is heard of when it ends.
    pub heard_ns: i64,
}

/// A refresh of parts of a tree.
pub struct Refresh<'a> {
    /// The walk that decides what is eligible.
    pub walk: &'a Walk,
    /// The segment.
    pub segment: &'a Segment,
    /// Hears of each directory (relative to the index root) before it is listed.
    pub enter: &'a (dyn Fn(&Path) + Sync),
    /// A moment before anything is looked at, in nanoseconds since the Unix epoch: rules that have only just changed then are
    /// not trusted.
    pub now_ns: i64,
}

impl Refresh<'_> {
    /// Looks at entries of one directory by their names. Directories among them are left to `cursor`, which lists them from
    /// now on. Returns the places among `names` of those that lead nowhere, although a walk gets to the directory.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage of the segment; it is of no use then. So below.
    pub fn entries(
        &self,
        known: &mut Known,
        entered: &mut Entered,
        dir: &Path,
        names: &[Named],
        cursor: &mut Cursor,
    ) -> Result<Vec<usize>, FormatError> {
        let mut nowhere = Vec::new();
        let dir_at = entered.get(self.walk, dir);
        let is_entered = matches!(dir_at, Ok(Some(_)));
        let looked = match dir_at {
            Ok(Some(dir)) => self.walk.look(&dir, names.iter().map(|named| &*named.name)),
            Ok(None) => names.iter().map(|_| Looked::Nothing).collect(),
            // They may be there: nothing is gone because the system had, say, no file descriptor left.
            Err(message) => {
                let failed = |_| Looked::Error(message.clone());
                names.iter().map(failed).collect()
            }
        };
        for (at, (Named { name, heard_ns }, looked)) in names.iter().zip(looked).enumerate() {
            let path = dir.join(name);
            remove_below(&mut entered.dirs, &path);
            match looked {
                Looked::File(_, meta, sets) => {
                    known.no_dir(self.segment, &path)?;
                    let stamp = Stamp::of(&meta);
                    known.news |= known.overlay.found(self.segment, &path, stamp, sets)?;
                    if let Some(stamp) = stamp.filter(|stamp| stamp.is_settled(*heard_ns)) {
                        known.news |= known.overlay.distrust(self.segment, &path, stamp)?;
                    }
                }
                Looked::Dir(node) => cursor.stack.push(node),
                Looked::Nothing => {
                    known.no_dir(self.segment, &path)?;
                    known.news |= known.overlay.no_file(self.segment, &path)?;
                    if is_entered {
                        nowhere.push(at);
                    }
                }
                Looked::LeftOut(meta) => {
                    known.no_dir(self.segment, &path)?;
                    known.news |= known.overlay.no_file(self.segment, &path)?;
                    // Other names of it may be eligible, and nothing else tells of them.
                    let stamp = Stamp::of(&meta).filter(|_| meta.kind == EntryKind::File);
                    known.news |= known.overlay.found_elsewhere(self.segment, &path, stamp)?;
                }
                Looked::Error(message) => {
                    let before = known.errors.insert(path, message.clone());
                    known.news |= before != Some(message);
                }
            }
        }
        Ok(nowhere)
    }

    /// Lists some of the directories that remain, on the threads of the current pool, and leaves those in them to the cursor.
    /// Returns how many files were looked at. One listing a directory and one look a file.
    ///
    /// # Errors
    ///
    /// As [`Refresh::entries`].
    pub fn step(&self, known: &mut Known, cursor: &mut Cursor) -> Result<u64, FormatError> {
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

    /// Notes what was found in a directory.
    fn take(&self, known: &mut Known, path: &Path, survey: &Survey) -> Result<(), FormatError> {
        let is_top = path.as_os_str().is_empty();
        let mut dirs = BTreeSet::new();
        for node in &survey.dirs {
            dirs.extend(node.places().map(|place| place.logical.clone()));
        }
        // What is wrong with a directory in it is said when that is listed itself, and until then it is as wrong as it was: searches may
        // be given what is known in between.
        let is_in = |other: &Path| other.parent() == Some(path) && !dirs.contains(other);
        let own = |other: &Path| other == path || is_in(other) || is_top && other.is_absolute();
        let errors: Vec<PathBuf> = known
            .errors
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .map(|(other, _)| other)
            .take_while(|other| other.starts_with(path))
            .filter(|other| own(other))
            .cloned()
            .collect();
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

pub mod catch_up;
#[cfg(all(test, unix))]
pub(crate) mod changing;
#[cfg(all(test, unix))]
mod tests;
