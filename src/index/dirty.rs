//! The dirty set: which files and subtrees may differ from what an index says of them (FR-LSI-TRK-05).
//!
//! Owns the marks and the order in which they are worked off. Times are handed in; it reads no clock and no file. Paths are
//! relative to the index root. A mark counts from the moment it is made: what is marked is searched. Only working it off
//! waits until nothing more happens to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::format::sort_key::sort_key;
use crate::index::pace::millis;

/// The most marks that are kept. Beyond them, files are marked by their directories, and then everything is.
pub const MAX_MARKS: usize = 1 << 16;

/// A mark is worked off after so many times the debounce interval, even if its file goes on changing.
const PATIENCE: u32 = 20;

/// What a mark is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// One file, or whatever has this path.
    File,
    /// Everything at and below the path.
    Subtree,
}

/// What was marked, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    extent: Extent,
    /// When it was marked first, in milliseconds.
    queued_at_ms: u64,
    /// When it was marked last.
    marked_at_ms: u64,
    /// The number of the last of all marks that it stands for.
    number: u64,
    /// Whether the last that was heard of exactly this path is that it was written to, and not that it came or went.
    is_written: bool,
}

/// Something to be worked off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The path, relative to the index root.
    pub path: PathBuf,
    /// What has to be looked at.
    pub extent: Extent,
    /// When it was marked last, in milliseconds.
    pub marked_at_ms: u64,
    /// Whether the last that was heard of exactly this path is that it was written to, and not that it came or went.
    pub is_written: bool,
    number: u64,
}

/// A moment among the marks: what was marked up to it can be told from what was marked later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// The marks of one index.
#[derive(Clone, Debug, Default)]
pub struct DirtySet {
    marks: BTreeMap<PathBuf, Mark>,
    /// Oldest first, then by the ordering key (FR-LSI-TRK-10).
    queue: BTreeSet<(u64, String, PathBuf)>,
    marked: u64,
}

impl DirtySet {
    /// Creates a set without marks.
    pub fn new() -> DirtySet {
        DirtySet::default()
    }

    /// Returns true if nothing is marked.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Returns the number of marks; one of a subtree counts once.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Returns the moment after all marks made so far.
    pub fn now(&self) -> Moment {
        Moment(self.marked)
    }

    /// Returns true if a path, or a directory above it, is marked. Logarithmic in the marks, for each component.
    pub fn contains(&self, path: &Path) -> bool {
        self.marks.contains_key(path) || self.above(path).is_some()
    }

    /// Returns true if a path is marked because it was written to, and nothing was heard of its coming or going since.
    /// Logarithmic in the marks.
    pub fn is_written(&self, path: &Path) -> bool {
        self.marks.get(path).is_some_and(|mark| mark.is_written)
    }

    /// Marks again what another set has marked, at the times at which it was marked last.
    pub fn mark_again(&mut self, other: &DirtySet) {
        for (path, mark) in &other.marks {
            self.mark(path, mark.extent, mark.marked_at_ms);
            if let Some(own) = self.marks.get_mut(path) {
                own.is_written = mark.is_written;
            }
        }
    }

    /// Marks a file or a subtree. A mark that covers it already is renewed instead: whatever is being done about that one
    /// may have come too early.
    pub fn mark(&mut self, path: &Path, extent: Extent, now_ms: u64) {
        self.marked += 1;
        if let Some(above) = self.above(path).map(Path::to_path_buf) {
            self.renew(&above, now_ms);
            return;
        }
        let known = self.marks.get(path).copied();
        let mut mark = Mark {
            extent: known.map_or(extent, |known| known.extent.max(extent)),
            queued_at_ms: known.map_or(now_ms, |known| known.queued_at_ms.min(now_ms)),
            marked_at_ms: now_ms,
            number: self.marked,
            is_written: extent == Extent::File,
        };
        if mark.extent == Extent::Subtree {
            for below in self.below(path) {
                // As old as the oldest of what it stands for.
                if let Some(covered) = self.remove(&below) {
                    mark.queued_at_ms = mark.queued_at_ms.min(covered.queued_at_ms);
                }
            }
        }
        self.insert(path, mark);
        if self.marks.len() > MAX_MARKS {
            self.coarsen();
        }
    }

    /// Marks everything.
    pub fn mark_all(&mut self, now_ms: u64) {
        self.mark(Path::new(""), Extent::Subtree, now_ms);
    }

    /// Returns what is to be worked off next, at most `limit` marks: the oldest first, ties by the ordering key. What was
    /// marked within the last `debounce` waits, unless it has waited for long already (FR-LSI-TRK-06). Linear in what is
    /// older than that.
    pub fn ready(&self, limit: usize, now_ms: u64, debounce: Duration) -> Vec<Work> {
        let debounce_ms = millis(debounce);
        let patience_ms = debounce_ms.saturating_mul(PATIENCE.into());
        let is_ready = |mark: &Mark| {
            now_ms.saturating_sub(mark.marked_at_ms) >= debounce_ms
                || now_ms.saturating_sub(mark.queued_at_ms) >= patience_ms
        };
        // In the order of their ages: what was marked first within the last interval is followed by nothing that is ready.
        let queued = self.queue.iter();
        let old = queued
            .take_while(|(queued_at_ms, _, _)| now_ms.saturating_sub(*queued_at_ms) >= debounce_ms);
        let marks = old.filter_map(|(_, _, path)| Some((path, self.marks.get(path)?)));
        marks
            .filter(|(_, mark)| is_ready(mark))
            .take(limit)
            .map(|(path, mark)| Work {
                path: path.clone(),
                extent: mark.extent,
                marked_at_ms: mark.marked_at_ms,
                is_written: mark.is_written,
                number: mark.number,
            })
            .collect()
    }

    /// Takes a mark off that was worked off; not if it was renewed meanwhile. Returns true if it is off.
    pub fn done(&mut self, work: &Work) -> bool {
        let known = self.marks.get(&work.path);
        let same = known.is_some_and(|mark| mark.number == work.number);
        if same {
            self.remove(&work.path);
        }
        same
    }

    /// Takes all marks off that were made before a moment and not renewed since: a build or a reconcile that began then has
    /// seen what they are about.
    pub fn clear_until(&mut self, moment: Moment) {
        let off: Vec<PathBuf> = self
            .marks
            .iter()
            .filter(|(_, mark)| mark.number <= moment.0)
            .map(|(path, _)| path.clone())
            .collect();
        for path in off {
            self.remove(&path);
        }
    }

    /// Returns the directory above a path that is marked as a subtree.
    fn above(&self, path: &Path) -> Option<&Path> {
        let mut above = path.ancestors().skip(1);
        above.find_map(|dir| {
            let (dir, mark) = self.marks.get_key_value(dir)?;
            (mark.extent == Extent::Subtree).then_some(dir.as_path())
        })
    }

    /// Returns what is marked below a path. Paths are ordered by their components, so they follow each other.
    fn below(&self, path: &Path) -> Vec<PathBuf> {
        let after = (Bound::Excluded(path), Bound::Unbounded);
        let marks = self.marks.range::<Path, _>(after);
        marks
            .map(|(below, _)| below)
            .take_while(|below| below.starts_with(path))
            .cloned()
            .collect()
    }

    fn renew(&mut self, path: &Path, now_ms: u64) {
        if let Some(mark) = self.marks.get_mut(path) {
            mark.marked_at_ms = now_ms;
            mark.number = self.marked;
        }
    }

    fn insert(&mut self, path: &Path, mark: Mark) {
        self.remove(path);
        self.queue.insert(place(path, &mark));
        self.marks.insert(path.to_path_buf(), mark);
    }

    fn remove(&mut self, path: &Path) -> Option<Mark> {
        let mark = self.marks.remove(path)?;
        self.queue.remove(&place(path, &mark));
        Some(mark)
    }

    /// Marks directories instead of what is in them; everything, if that is not enough.
    fn coarsen(&mut self) {
        let marks = std::mem::take(&mut self.marks);
        self.queue.clear();
        let mut dirs: BTreeMap<PathBuf, Mark> = BTreeMap::new();
        for (path, mark) in marks {
            let dir = match mark.extent {
                Extent::File => path.parent().unwrap_or(Path::new("")).to_path_buf(),
                Extent::Subtree => path,
            };
            let merged = dirs.entry(dir).or_insert(mark);
            *merged = merged.with(&mark);
        }
        if dirs.len() > MAX_MARKS / 2 {
            let all = dirs.into_values().reduce(|all, mark| all.with(&mark));
            dirs = all.map(|mark| (PathBuf::new(), mark)).into_iter().collect();
        }
        // Directories above come first, so that they take in what is below.
        for (dir, mark) in dirs {
            match self.above(&dir).map(Path::to_path_buf) {
                Some(above) => {
                    if let Some(known) = self.remove(&above) {
                        self.insert(&above, known.with(&mark));
                    }
                }
                None => self.insert(&dir, mark),
            }
        }
    }
}

/// Returns where a mark stands in the queue.
fn place(path: &Path, mark: &Mark) -> (u64, String, PathBuf) {
    let key = sort_key(path).into_owned();
    (mark.queued_at_ms, key, path.to_path_buf())
}

impl Mark {
    /// Returns the mark of a subtree that stands for both.
    fn with(&self, other: &Mark) -> Mark {
        Mark {
            extent: Extent::Subtree,
            queued_at_ms: self.queued_at_ms.min(other.queued_at_ms),
            marked_at_ms: self.marked_at_ms.max(other.marked_at_ms),
            number: self.number.max(other.number),
            is_written: false,
        }
    }
}

#[cfg(test)]
mod tests;
