//! The dirty set: the files and subtrees that may differ from the index.
//!
//! This module owns the marks and the order in which the worker processes them. Callers pass in
//! the time; this module reads no clock and no file. Paths are relative to the index root. A mark
//! counts at once: a search always looks at marked files. Only the processing by the worker is
//! debounced, that is, waits until the file is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::format::sort_key::sort_key;
use crate::index::pace::millis;

/// The most marks that are kept. Beyond this, files are marked by their directories, and then the
/// whole tree.
pub const MAX_MARKS: usize = 1 << 16;

/// A mark waits for at most this many debounce intervals, even if its file keeps changing.
const PATIENCE: u32 = 20;

/// The scope of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// The single entry at the path, of any kind.
    File,
    /// Everything at and below the path.
    Subtree,
}

/// The state of one mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    extent: Extent,
    /// When it was first made, in milliseconds.
    queued_at_ms: u64,
    /// When it was last made or renewed, in milliseconds.
    marked_at_ms: u64,
    /// The number of the latest of all marks that it covers.
    number: u64,
    /// Whether the last event for exactly this path was a write, and not a creation or removal.
    is_written: bool,
}

/// A mark to be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The path, relative to the index root.
    pub path: PathBuf,
    /// The scope to look at.
    pub extent: Extent,
    /// When the path was last marked, in milliseconds.
    pub marked_at_ms: u64,
    /// Whether the last event for exactly this path was a write, and not a creation or removal.
    pub is_written: bool,
    number: u64,
}

/// A moment that separates earlier marks from later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// The marks of one index.
#[derive(Clone, Debug, Default)]
pub struct DirtySet {
    marks: BTreeMap<PathBuf, Mark>,
    /// Oldest first, ties by the ordering key.
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

    /// Returns the number of marks; a subtree counts as one.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Returns the moment after all marks made so far.
    pub fn now(&self) -> Moment {
        Moment(self.marked)
    }

    /// Returns true if the path, or a directory above it, is marked. Takes logarithmic time in the
    /// number of marks for each component.
    pub fn contains(&self, path: &Path) -> bool {
        self.marks.contains_key(path) || self.above(path).is_some()
    }

    /// Returns true if the path is marked because of a write, without a creation or removal since.
    /// Takes logarithmic time in the number of marks.
    pub fn is_written(&self, path: &Path) -> bool {
        self.marks.get(path).is_some_and(|mark| mark.is_written)
    }

    /// Marks all paths of another set again, with the times of their last marks.
    pub fn mark_again(&mut self, other: &DirtySet) {
        for (path, mark) in &other.marks {
            self.mark(path, mark.extent, mark.marked_at_ms);
            if let Some(own) = self.marks.get_mut(path) {
                own.is_written = mark.is_written;
            }
        }
    }

    /// Marks a file or a subtree. If an existing mark covers it, that mark is renewed, because its
    /// current processing may have come too early.
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
                // A mark is as old as the oldest mark that it covers.
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

    /// Marks the whole tree.
    pub fn mark_all(&mut self, now_ms: u64) {
        self.mark(Path::new(""), Extent::Subtree, now_ms);
    }

    /// Returns the marks to process next, at most `limit`: the oldest first, ties by the ordering
    /// key. Marks made within the last `debounce` wait, unless they have waited too long already.
    /// Takes linear time in the number of older marks.
    pub fn ready(&self, limit: usize, now_ms: u64, debounce: Duration) -> Vec<Work> {
        let debounce_ms = millis(debounce);
        let patience_ms = debounce_ms.saturating_mul(PATIENCE.into());
        let is_ready = |mark: &Mark| {
            now_ms.saturating_sub(mark.marked_at_ms) >= debounce_ms
                || now_ms.saturating_sub(mark.queued_at_ms) >= patience_ms
        };
        // The queue is ordered by age: after a mark that was first made within the last interval,
        // no mark is ready.
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

    /// Removes a processed mark, unless it was renewed meanwhile. Returns true if it was removed.
    pub fn done(&mut self, work: &Work) -> bool {
        let known = self.marks.get(&work.path);
        let same = known.is_some_and(|mark| mark.number == work.number);
        if same {
            self.remove(&work.path);
        }
        same
    }

    /// Removes all marks made before a moment and not renewed since. A build or reconcile that
    /// began at this moment has seen their changes.
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

    /// Returns the marks below a path. Paths are ordered by components, so these follow each other.
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

    /// Replaces marks of files by marks of their directories; if that is not enough, by one mark of
    /// the whole tree.
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
        // Parent directories come first, so that they cover the marks below.
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

/// Returns the position of a mark in the queue.
fn place(path: &Path, mark: &Mark) -> (u64, String, PathBuf) {
    let key = sort_key(path).into_owned();
    (mark.queued_at_ms, key, path.to_path_buf())
}

impl Mark {
    /// Returns a subtree mark that covers both.
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
