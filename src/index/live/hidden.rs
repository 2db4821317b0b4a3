//! The hidden entries of a watched tree, which are not in its index.
//!
//! This module owns which hidden entries each directory has, as far as they are known. A call lists
//! directories that no call has listed, and events forget directories that may have changed. Hidden
//! directories are not watched, so each call walks them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::LiveIndex;
use crate::format::error::FormatError;
use crate::format::manifest::RuleSets;
use crate::index::names::is_hidden;
use crate::index::refresh::EnteredDirs;
use crate::index::rules::ControlFiles;
use crate::index::snapshot::Snapshot;
use crate::index::walk::{Entry, LookupResult, Walk, join};

/// The most hidden entries of an answer, directories included. A walk of more takes as long as
/// reading them.
const MOST_FILES: usize = 10_000;

/// The name of a repository's own directory, which is not walked.
const GIT: &str = ".git";

/// An entry that a walk finds only with hidden ones.
#[derive(Clone, Debug)]
pub(super) enum HiddenEntry {
    /// A file, by its path.
    File(PathBuf),
    /// A directory, by its path. Each call walks it.
    Dir(PathBuf),
}

/// The listing of a directory.
#[derive(Debug)]
enum Listing {
    /// The call with this number lists the directory.
    Running(u64),
    /// The hidden entries of the directory.
    Done(Vec<HiddenEntry>),
}

/// The known hidden entries.
#[derive(Debug, Default)]
pub(super) struct HiddenEntries {
    /// By the bytes of a directory's path, relative to the index root.
    dirs: BTreeMap<Vec<u8>, Listing>,
    /// The number of the last listing.
    listings: u64,
}

impl HiddenEntries {
    /// Forgets everything, because an event may have been lost, or rules may have changed.
    pub(super) fn clear(&mut self) {
        self.dirs.clear();
    }

    /// Forgets what an event about a path may have changed.
    pub(super) fn forget(&mut self, path: &Path) {
        if self.dirs.is_empty() {
            return;
        }
        let bytes = path.as_os_str().as_encoded_bytes();
        let Some(name) = path.file_name() else {
            return self.clear();
        };
        if is_hidden(name) {
            self.dirs
                .remove(key(path.parent().unwrap_or(Path::new(""))));
        }
        // The path may be a directory, or have been one.
        self.dirs.remove(bytes);
        let bound = |end: &[u8]| [bytes, end].concat();
        let (from, to) = (bound(b"/"), bound(b"0"));
        let range = (
            Bound::Included(from.as_slice()),
            Bound::Excluded(to.as_slice()),
        );
        let below = self.dirs.range::<[u8], _>(range);
        let below: Vec<Vec<u8>> = below.map(|(dir, _)| dir.clone()).collect();
        for dir in below {
            self.dirs.remove(&dir);
        }
    }

    /// Returns the entries of a directory, or the number of the listing that begins now.
    fn known(&mut self, dir: &Path) -> Result<&[HiddenEntry], u64> {
        self.listings += 1;
        let number = self.listings;
        let listing = self
            .dirs
            .entry(key(dir).to_vec())
            .or_insert(Listing::Running(number));
        match listing {
            Listing::Done(entries) => Ok(entries),
            Listing::Running(_) => {
                *listing = Listing::Running(number);
                Err(number)
            }
        }
    }

    /// Keeps the entries of a directory, unless an event or another listing came since this one
    /// began.
    fn keep(&mut self, dir: &Path, number: u64, entries: Vec<HiddenEntry>) {
        if let Some(listing) = self.dirs.get_mut(key(dir))
            && matches!(listing, Listing::Running(running) if *running == number)
        {
            *listing = Listing::Done(entries);
        }
    }
}

fn key(dir: &Path) -> &[u8] {
    dir.as_os_str().as_encoded_bytes()
}

impl LiveIndex {
    /// Returns the files below `subtree` that a walk with hidden files finds by the rules `asked`,
    /// in addition to those of a `snapshot` that this call has pinned. Paths are relative to the
    /// index root. An entry named `.git` is returned itself, in place of the files below it.
    ///
    /// Returns `None` if a directory can't be read, if a hidden directory has rules of its own, if
    /// there are too many hidden entries, or if `go_on` returns false.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub(crate) fn hidden_files(
        &self,
        snapshot: &Snapshot,
        subtree: &Path,
        asked: RuleSets,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<PathBuf>>, FormatError> {
        let (mut dirs, mut found, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let overlay = snapshot.overlay();
        overlay.each_dir(snapshot.segment(), asked, &mut |dir| {
            if dir.starts_with(subtree) {
                dirs.push(dir.to_path_buf());
            }
        })?;
        // The watcher's thread waits for the status, so nothing else is done meanwhile.
        let mut status = self.shared.status();
        for dir in dirs {
            match status.hidden.known(&dir) {
                Ok(entries) if found.len() <= MOST_FILES => found.extend_from_slice(entries),
                Ok(_) => break,
                Err(number) => unknown.push((dir, number)),
            }
        }
        drop(status);
        if found.len() > MOST_FILES {
            return Ok(None);
        }
        let Ok(walk) = self.shared.index_host.walk() else {
            return Ok(None);
        };
        let walk = walk.with_hidden();
        let mut entered = EnteredDirs::default();
        let dirs: Vec<&Path> = unknown.iter().map(|(dir, _)| &**dir).collect();
        let Some(listed) = list(&walk, &mut entered, &dirs, asked, go_on) else {
            return Ok(None);
        };
        let mut status = self.shared.status();
        for ((dir, number), entries) in unknown.iter().zip(listed) {
            found.extend_from_slice(&entries);
            status.hidden.keep(dir, *number, entries);
        }
        drop(status);
        not_indexed(found, snapshot, asked)
            .map(|found| walked(found, &walk, &mut entered, asked, go_on))
    }
}

/// Returns the entries that a snapshot does not have. A snapshot has the hidden entries that a rule
/// brings back. The rules may have changed since, so the snapshot decides.
fn not_indexed(
    entries: Vec<HiddenEntry>,
    snapshot: &Snapshot,
    asked: RuleSets,
) -> Result<Vec<HiddenEntry>, FormatError> {
    let (segment, overlay) = (snapshot.segment(), snapshot.overlay());
    let mut others = Vec::with_capacity(entries.len());
    for entry in entries {
        let is_indexed = match &entry {
            HiddenEntry::File(path) => match overlay.extra(path) {
                Some(extra) => extra.sets.hold(asked),
                None => match segment.find_file(path)? {
                    Some(rank) if overlay.dead().is_some_and(|dead| dead.contains(rank)) => false,
                    Some(rank) => segment.file(rank)?.sets.hold(asked),
                    None => false,
                },
            },
            HiddenEntry::Dir(path) => overlay.enters(segment, path, asked)?,
        };
        if !is_indexed {
            others.push(entry);
        }
    }
    Ok(others)
}

/// Lists the hidden entries of directories. Returns `None` if there are too many.
fn list(
    walk: &Walk,
    entered: &mut EnteredDirs,
    dirs: &[&Path],
    asked: RuleSets,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<Vec<HiddenEntry>>> {
    let top = walk.start();
    let top = top.places().next()?;
    let names = |dir: &Path| -> Option<Vec<OsString>> {
        let listed = go_on().then(|| top.root.open_dir_entries(&join(&top.real, dir)))?;
        let names = listed.ok()?.into_iter().map(|entry| entry.name);
        Some(names.filter(|name| is_hidden(name)).collect())
    };
    let named: Option<Vec<Vec<OsString>>> = dirs.par_iter().map(|dir| names(dir)).collect();
    let (mut all, mut count) = (Vec::with_capacity(dirs.len()), 0);
    for (dir, names) in dirs.iter().zip(named?) {
        count += names.len();
        if count > MOST_FILES {
            return None;
        }
        let mut entries = Vec::new();
        if !names.is_empty() {
            let at = go_on().then(|| entered.get(walk, dir))?.ok()??;
            let each = || names.iter().map(|name| &**name);
            for (name, found) in each().zip(walk.look(&at, each())) {
                let path = dir.join(name);
                match found {
                    LookupResult::Error(_) => return None,
                    LookupResult::File(_, _, sets) if sets.hold(asked) => {
                        entries.push(HiddenEntry::File(path));
                    }
                    LookupResult::Dir(node) if node.sets().hold(asked) => {
                        entries.push(match name == GIT {
                            true => HiddenEntry::File(path),
                            false => HiddenEntry::Dir(path),
                        });
                    }
                    _ => {}
                }
            }
        }
        all.push(entries);
    }
    Some(all)
}

/// Walks the directories among entries, and returns all files.
fn walked(
    entries: Vec<HiddenEntry>,
    walk: &Walk,
    entered: &mut EnteredDirs,
    asked: RuleSets,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<PathBuf>> {
    let (mut files, mut dirs) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            HiddenEntry::File(path) => files.push(path),
            HiddenEntry::Dir(path) => {
                let (parent, name) = path.parent().zip(path.file_name())?;
                // A directory that is gone has no files.
                let Some(at) = entered.get(walk, parent).ok()? else {
                    continue;
                };
                match walk.look(&at, std::iter::once(name)).pop() {
                    Some(LookupResult::Dir(node)) if node.sets().hold(asked) => dirs.push(node),
                    Some(LookupResult::Error(_)) => return None,
                    _ => {}
                }
            }
        }
    }
    let mut count = files.len();
    while let Some(node) = dirs.pop() {
        let mut has_rules = false;
        let mut note = |_: &Path, own: ControlFiles| has_rules |= own.any();
        for entry in walk.list_noting(&node, &|_, _| true, &mut note) {
            count += 1;
            match entry {
                Entry::File(found, sets) if sets.hold(asked) => files.push(found.logical()),
                Entry::Dir(node) => dirs.push(node),
                Entry::File(..) => {}
                Entry::Error(..) => return None,
            }
        }
        if has_rules || count > MOST_FILES || !go_on() {
            return None;
        }
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::dirty::Extent;
    use crate::index::live::status::Status;
    use crate::index::state::{IndexState, Trigger};

    /// Returns the directories of which the entries are known.
    fn known(hidden: &HiddenEntries) -> Vec<String> {
        let done = |listing: &Listing| matches!(listing, Listing::Done(_));
        let dirs = hidden.dirs.iter().filter(|(_, listing)| done(listing));
        let text = |(dir, _): (&Vec<u8>, &Listing)| String::from_utf8(dir.clone()).unwrap();
        dirs.map(text).collect()
    }

    fn listed(dirs: &[&str]) -> HiddenEntries {
        let mut hidden = HiddenEntries::default();
        for dir in dirs.iter().map(Path::new) {
            let number = hidden.known(dir).unwrap_err();
            hidden.keep(dir, number, Vec::new());
        }
        hidden
    }

    #[test]
    fn events_forget_the_directories_that_may_have_changed() {
        let all = ["", "a", "a/b", "a-b", "a0"];
        for (path, left) in [
            ("a/x", &["", "a", "a-b", "a/b", "a0"][..]),
            ("a/.x", &["", "a-b", "a/b", "a0"]),
            (".x", &["a", "a-b", "a/b", "a0"]),
            ("a", &["", "a-b", "a0"]),
            ("a/b", &["", "a", "a-b", "a0"]),
            ("", &[]),
        ] {
            let mut hidden = listed(&all);
            hidden.forget(Path::new(path));
            assert_eq!(known(&hidden), left, "{path}");
        }
    }

    #[test]
    fn marks_and_lost_events_reach_the_hidden_entries() {
        let mut status = Status {
            index_state: IndexState::Complete,
            hidden: listed(&["a", "b"]),
            ..Status::default()
        };
        status.mark(Path::new("a/.x"), Extent::File, 0);
        assert_eq!(known(&status.hidden), ["b"]);
        status.fire(&[Trigger::WatcherOverflow]);
        assert!(known(&status.hidden).is_empty());
        assert!(!status.index_state.allows_exclusion());
    }

    #[test]
    fn a_listing_is_kept_only_if_nothing_came_in_between() {
        let dir = Path::new("a");
        let mut hidden = HiddenEntries::default();
        let first = hidden.known(dir).unwrap_err();
        hidden.forget(Path::new("a/.x"));
        hidden.keep(dir, first, Vec::new());
        let second = hidden.known(dir).unwrap_err();
        let third = hidden.known(dir).unwrap_err();
        hidden.keep(dir, second, Vec::new());
        assert!(hidden.known(dir).is_err());
        hidden.keep(dir, third, Vec::new());
        assert!(known(&hidden).is_empty());
        let last = hidden.known(dir).unwrap_err();
        hidden.keep(dir, last, Vec::new());
        assert!(hidden.known(dir).unwrap().is_empty());
    }
}
