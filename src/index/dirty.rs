//! The dirty set: the files and subtrees that may differ from the index.
//!
//! This module owns the marks and the order in which the worker processes them. Callers pass in
//! the time; this module reads no clock and no file. Paths are relative to the index root. A mark
//! counts at once: a search always looks at marked files. Only the processing by the worker is
//! debounced, that is, waits until the file is quiet.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::time::Duration;

use crate::format::sort_key::cmp_paths;
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
///
/// Very many may be made at once, for example by a `git checkout`, so marking and processing a path
/// have to be cheap: a few comparisons of bytes.
#[derive(Clone, Debug, Default)]
pub struct DirtySet {
    /// By path, compared bytewise: the paths below `a` follow `a/`, without others in between.
    marks: BTreeMap<OsString, Mark>,
    /// The number of marked subtrees. Mostly there are none, so none has to be looked for.
    subtrees: usize,
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

    /// Returns true if the path is marked because of a write, without a creation or removal since.
    /// Takes logarithmic time in the number of marks.
    pub fn is_written(&self, path: &Path) -> bool {
        let mark = self.marks.get(clean(path).as_os_str());
        mark.is_some_and(|mark| mark.is_written)
    }

    /// Marks all paths of another set again, with the times of their last marks.
    pub fn mark_again(&mut self, other: &DirtySet) {
        for (path, mark) in &other.marks {
            self.mark(Path::new(path), mark.extent, mark.marked_at_ms);
            if let Some(own) = self.marks.get_mut(path) {
                own.is_written = mark.is_written;
            }
        }
    }

    /// Marks a file or a subtree. If an existing mark covers it, that mark is renewed, because its
    /// current processing may have come too early.
    pub fn mark(&mut self, path: &Path, extent: Extent, now_ms: u64) {
        let path = &*clean(path);
        self.marked += 1;
        let number = self.marked;
        if let Some(above) = self.above_mut(path) {
            above.marked_at_ms = now_ms;
            above.number = number;
            return;
        }
        let is_written = extent == Extent::File;
        if let Some(mark) = self.marks.get_mut(path.as_os_str())
            && mark.extent >= extent
        {
            mark.queued_at_ms = mark.queued_at_ms.min(now_ms);
            (mark.marked_at_ms, mark.number, mark.is_written) = (now_ms, number, is_written);
            return;
        }
        let mut mark = Mark {
            extent,
            queued_at_ms: now_ms,
            marked_at_ms: now_ms,
            number,
            is_written,
        };
        if extent == Extent::Subtree {
            // A mark is as old as the oldest mark that it covers.
            let own = self.remove(path.as_os_str());
            for covered in own.into_iter().chain(self.remove_below(path)) {
                mark.queued_at_ms = mark.queued_at_ms.min(covered.queued_at_ms);
            }
        }
        self.insert(path.as_os_str().to_owned(), mark);
        if self.marks.len() > MAX_MARKS {
            self.coarsen();
        }
    }

    /// Returns the marks to process next, at most `limit`: the oldest first, ties by the ordering
    /// key. Marks made within the last `debounce` wait, unless they have waited too long already.
    /// Takes linear time in the number of marks.
    pub fn ready(&self, limit: usize, now_ms: u64, debounce: Duration) -> Vec<Work> {
        let debounce_ms = millis(debounce);
        let patience_ms = debounce_ms.saturating_mul(PATIENCE.into());
        let is_ready = |mark: &Mark| {
            now_ms.saturating_sub(mark.marked_at_ms) >= debounce_ms
                || now_ms.saturating_sub(mark.queued_at_ms) >= patience_ms
        };
        let marks = self.marks.iter();
        let mut ready: Vec<_> = marks.filter(|(_, mark)| is_ready(mark)).collect();
        let order = |(a, of_a): &(&OsString, &Mark), (b, of_b): &(&OsString, &Mark)| {
            let by_age = of_a.queued_at_ms.cmp(&of_b.queued_at_ms);
            by_age.then_with(|| cmp_paths(Path::new(a), Path::new(b)))
        };
        if limit < ready.len() {
            ready.select_nth_unstable_by(limit, order);
            ready.truncate(limit);
        }
        ready.sort_unstable_by(order);
        ready.into_iter().map(work).collect()
    }

    /// Returns all marks, by path: parents come before their entries, and entries of one directory
    /// follow each other, but for those of its subdirectories.
    pub fn by_path(&self) -> Vec<Work> {
        self.marks.iter().map(work).collect()
    }

    /// Removes a processed mark, unless it was renewed meanwhile. Returns true if it was removed.
    pub fn done(&mut self, work: &Work) -> bool {
        let path = work.path.as_os_str();
        let known = self.marks.get(path);
        let same = known.is_some_and(|mark| mark.number == work.number);
        if same {
            self.remove(path);
        }
        same
    }

    /// Removes all marks made before a moment and not renewed since. A build or reconcile that
    /// began at this moment has seen their changes.
    pub fn clear_until(&mut self, moment: Moment) {
        self.marks.retain(|_, mark| mark.number > moment.0);
        self.subtrees = self.marks.values().filter(|mark| mark.is_subtree()).count();
    }

    /// Returns the mark of the directory above a path that is marked as a subtree.
    fn above_mut(&mut self, path: &Path) -> Option<&mut Mark> {
        let dir = self.dir_above(path)?;
        self.marks.get_mut(dir)
    }

    /// Returns the directory above a path that is marked as a subtree.
    fn dir_above<'a>(&self, path: &'a Path) -> Option<&'a OsStr> {
        if self.subtrees == 0 {
            return None;
        }
        let mut above = path.ancestors().skip(1).map(Path::as_os_str);
        above.find(|&dir| self.marks.get(dir).is_some_and(Mark::is_subtree))
    }

    fn insert(&mut self, path: OsString, mark: Mark) {
        self.subtrees += usize::from(mark.is_subtree());
        self.marks.insert(path, mark);
    }

    fn remove(&mut self, path: &OsStr) -> Option<Mark> {
        let mark = self.marks.remove(path)?;
        self.subtrees -= usize::from(mark.is_subtree());
        Some(mark)
    }

    /// Removes the marks below a path, and returns them.
    fn remove_below(&mut self, path: &Path) -> Vec<Mark> {
        // With a separator at the end, except for the empty path. Only longer paths follow.
        let start = path.join("").into_os_string();
        let is_below = |other: &&OsString| {
            let bytes = other.as_encoded_bytes();
            bytes.starts_with(start.as_encoded_bytes())
        };
        let after = (Bound::Excluded(&*start), Bound::Unbounded);
        let below = self.marks.range::<OsStr, _>(after).map(|(other, _)| other);
        let below: Vec<OsString> = below.take_while(is_below).cloned().collect();
        below
            .iter()
            .filter_map(|other| self.remove(other))
            .collect()
    }

    /// Replaces marks of files by marks of their directories; if that is not enough, by one mark of
    /// the whole tree.
    fn coarsen(&mut self) {
        let marks = std::mem::take(&mut self.marks);
        self.subtrees = 0;
        let mut dirs: BTreeMap<OsString, Mark> = BTreeMap::new();
        for (path, mark) in marks {
            let dir = match mark.extent {
                Extent::File => Path::new(&path)
                    .parent()
                    .map_or(OsString::new(), Into::into),
                Extent::Subtree => path,
            };
            let merged = dirs.entry(dir).or_insert(mark);
            *merged = merged.with(&mark);
        }
        if dirs.len() > MAX_MARKS / 2 {
            let all = dirs.into_values().reduce(|all, mark| all.with(&mark));
            dirs = all
                .map(|mark| (OsString::new(), mark))
                .into_iter()
                .collect();
        }
        // Parent directories come first, so that they cover the marks below.
        for (dir, mark) in dirs {
            match self.above_mut(Path::new(&dir)) {
                Some(above) => *above = above.with(&mark),
                None => self.insert(dir, mark),
            }
        }
    }
}

/// Returns a path with one kind of separator. Only Windows has two.
fn clean(path: &Path) -> Cow<'_, Path> {
    match MAIN_SEPARATOR {
        '/' => Cow::Borrowed(path),
        _ => Cow::Owned(path.components().collect()),
    }
}

fn work((path, mark): (&OsString, &Mark)) -> Work {
    Work {
        path: PathBuf::from(path),
        extent: mark.extent,
        marked_at_ms: mark.marked_at_ms,
        is_written: mark.is_written,
        number: mark.number,
    }
}

impl Mark {
    fn is_subtree(&self) -> bool {
        self.extent == Extent::Subtree
    }

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
