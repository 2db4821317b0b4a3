//! Orphaned names: names that are written to although they don't exist.
//!
//! A program that has a file open can write to it after its name was removed. The system reports
//! those writes under the removed name. The file may have been given another name in the tree,
//! which can't be found out. So the index is unreliable until the whole tree was compared.
//!
//! Mostly the file has no other name; for example, a log file was removed while a server writes it.
//! This module remembers the names for which that is proven, so that writes to them no longer make
//! the index unreliable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Shared;
use crate::index::below::remove_below;
use crate::index::dirty::Work;
use crate::index::names::shown;
use crate::index::pace::millis;

/// The shortest time between two looks at a tree that prove something. By then, a write before the
/// second look shows in the file's times.
const APART: Duration = Duration::from_secs(5);

/// How many times writing to a name must change nothing. One time is too few: an event since the
/// last look may be about a write during that look, which the look itself has found.
const PROVEN: u8 = 2;

/// The most names that are remembered.
const MAX_NAMES: usize = 1024;

/// Changes whenever a change is found in the tree, or a new segment is built.
pub(super) type Version = (u64, u64);

/// A name that was written to although it does not exist.
#[derive(Clone, Copy, Debug)]
enum Orphan {
    /// The tree was not compared since.
    New,
    /// The tree was compared at this time in milliseconds, with this version. Writing to the name
    /// has changed nothing this many times.
    Seen(u64, Version, u8),
    /// Like `Seen`, and the name was written to again since.
    Again(u64, Version, u8),
    /// Writing to the name has changed no file of the tree, which had this version then.
    Harmless(Version),
}

/// After this time without orphaned names, the pauses start over.
const QUIET_MS: u64 = 60_000;

/// The shortest and the longest pause between reconciles that orphaned names cause.
const PAUSES_MS: (u64, u64) = (1_000, 60_000);

/// All remembered orphaned names.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    names: BTreeMap<PathBuf, Orphan>,
    /// When a write was last suspected to change some file of the tree.
    last_ms: Option<u64>,
    pause_ms: u64,
    rest_until_ms: u64,
}

impl Orphans {
    /// Records a write to an orphaned name. Returns true if any file of the tree may have changed.
    fn note(&mut self, path: &Path) -> bool {
        if self.names.len() >= MAX_NAMES && !self.names.contains_key(path) {
            self.names.clear();
        }
        let orphan = self.names.entry(path.to_path_buf()).or_insert(Orphan::New);
        match *orphan {
            Orphan::Seen(at_ms, version, often) => *orphan = Orphan::Again(at_ms, version, often),
            Orphan::Harmless(_) => return false,
            Orphan::New | Orphan::Again(..) => {}
        }
        true
    }

    /// Records that an orphaned name has made the index unreliable. A program may keep writing to
    /// temporary files that it removes at once, each with a new name. To keep the worker from being
    /// busy with reconciles, each pause is twice as long as the one before.
    fn suspect(&mut self, now_ms: u64) {
        let since = self.last_ms.map(|last_ms| now_ms.saturating_sub(last_ms));
        self.pause_ms = match since {
            Some(since) if since < self.pause_ms.saturating_add(QUIET_MS) => {
                (2 * self.pause_ms).clamp(PAUSES_MS.0, PAUSES_MS.1)
            }
            _ => 0,
        };
        self.last_ms = Some(now_ms);
        self.rest_until_ms = now_ms.saturating_add(self.pause_ms);
    }

    /// Returns the time before which orphaned names cause no reconcile.
    pub(super) fn rest_until_ms(&self) -> u64 {
        self.rest_until_ms
    }

    /// Forgets the names at and below a path where a file appeared or was removed: they may belong
    /// to other files from now on. Takes logarithmic time, plus linear time in the number of names
    /// below.
    pub(super) fn forget_below(&mut self, path: &Path) {
        remove_below(&mut self.names, path);
    }

    /// Records that the whole tree was compared since all names were noted. A name is harmless if
    /// writing to it twice in a row was followed by comparisons that found no change. Takes linear
    /// time in the number of names.
    pub(super) fn looked_at_all(&mut self, now_ms: u64, version: Version) {
        for orphan in self.names.values_mut() {
            let is_apart = |at_ms: u64| now_ms.saturating_sub(at_ms) >= millis(APART);
            *orphan = match *orphan {
                Orphan::Again(at_ms, before, often) if before == version && is_apart(at_ms) => {
                    match often + 1 {
                        PROVEN.. => Orphan::Harmless(version),
                        often => Orphan::Seen(now_ms, version, often),
                    }
                }
                // Too early to prove anything: a later write may still get the same file time.
                Orphan::Again(at_ms, before, often) if before == version => {
                    Orphan::Seen(at_ms, before, often)
                }
                Orphan::Seen(_, before, often) if before == version => {
                    Orphan::Seen(now_ms, before, often)
                }
                Orphan::Harmless(before) if before == version => Orphan::Harmless(before),
                _ => Orphan::Seen(now_ms, version, 0),
            };
        }
    }
}

impl Shared {
    /// Examines marks of names that did not exist when they were looked at. Returns a reason if the
    /// index is unreliable: a name was written to after it was removed. If a name was removed after
    /// the write, the removal event arrives within `timeout`.
    pub(super) fn orphaned(&self, nowhere: &[Work], timeout: Duration) -> Option<String> {
        if nowhere.is_empty() {
            return None;
        }
        // If the event arrives too late, the name counts as orphaned, which is safe. A dead watcher
        // is handled elsewhere.
        if let Some(watching) = self.watching() {
            let _late = watching.barrier.pass(&*watching.watcher, timeout);
        }
        let mut status = self.status();
        let was_relied_on = status.is_relied_on();
        let mut why = None;
        for work in nowhere {
            if status.dirty.is_written(&work.path) && status.orphans.note(&work.path) {
                why = Some(format!(
                    "{} was removed but is still written to; the file may have another name",
                    shown(&work.path)
                ));
            }
        }
        if why.is_some() && was_relied_on {
            status.orphans.suspect(self.index_host.now_ms());
        }
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "a/log";

    fn look(orphans: &mut Orphans, at_ms: u64, findings: u64) {
        orphans.looked_at_all(at_ms, (findings, 0));
    }

    #[test]
    fn a_name_is_harmless_once_writing_to_it_has_changed_no_file() {
        let mut orphans = Orphans::default();
        let name = Path::new(NAME);
        assert!(orphans.note(name));
        look(&mut orphans, 0, 3);
        // The name was not written to since, so this look proves nothing.
        look(&mut orphans, 10_000, 3);
        assert!(orphans.note(name));
        // The write may have happened during the look before, and been found by it.
        look(&mut orphans, 15_000, 3);
        assert!(orphans.note(name));
        look(&mut orphans, 20_000, 3);
        assert!(!orphans.note(name) && !orphans.note(name));
        // Other names are other files.
        assert!(orphans.note(Path::new("a/log2")));
        // A change of the tree may be a new name for the file.
        look(&mut orphans, 30_000, 3);
        assert!(!orphans.note(name));
        look(&mut orphans, 40_000, 4);
        assert!(orphans.note(name));
    }

    #[test]
    fn a_name_is_not_harmless_if_anything_changed_or_too_early() {
        let mut orphans = Orphans::default();
        let name = Path::new(NAME);
        let mut now_ms = 0;
        for findings in [1, 2, 3, 4] {
            assert!(orphans.note(name));
            look(&mut orphans, now_ms, findings);
            now_ms += 10_000;
        }
        let begun_ms = now_ms;
        for later_ms in [0, 1_000, 4_999] {
            assert!(orphans.note(name), "{later_ms}");
            look(&mut orphans, begun_ms - 10_000 + later_ms, 4);
        }
        for later_ms in [5_000, 10_000] {
            assert!(orphans.note(name), "{later_ms}");
            look(&mut orphans, begun_ms - 10_000 + later_ms, 4);
        }
        assert!(!orphans.note(name));
        // The looks must be consecutive: a change in between starts over.
        let mut orphans = Orphans::default();
        for (at_ms, findings) in [(0, 1), (10_000, 1), (20_000, 2), (30_000, 2), (40_000, 2)] {
            assert!(orphans.note(name), "{at_ms}");
            look(&mut orphans, at_ms, findings);
        }
        assert!(!orphans.note(name));
    }

    #[test]
    fn the_more_there_are_the_longer_it_rests() {
        let mut orphans = Orphans::default();
        let mut now_ms = 5_000;
        for pause_ms in [
            0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
        ] {
            orphans.suspect(now_ms);
            assert_eq!(orphans.rest_until_ms(), now_ms + pause_ms);
            now_ms = orphans.rest_until_ms() + 10;
        }
        orphans.suspect(now_ms + QUIET_MS + PAUSES_MS.1);
        assert_eq!(orphans.rest_until_ms(), now_ms + QUIET_MS + PAUSES_MS.1);
    }

    #[test]
    fn what_has_the_name_later_is_another_file() {
        for path in [NAME, "a", ""] {
            let mut orphans = Orphans::default();
            for at_ms in [0, 10_000, 20_000] {
                orphans.note(Path::new(NAME));
                look(&mut orphans, at_ms, 0);
            }
            assert!(!orphans.note(Path::new(NAME)));
            for other in ["a/log/x", "a/lo", "b"] {
                orphans.forget_below(Path::new(other));
            }
            assert!(!orphans.note(Path::new(NAME)));
            orphans.forget_below(Path::new(path));
            assert!(orphans.note(Path::new(NAME)), "{path:?}");
        }
    }

    #[test]
    fn names_without_end_take_no_memory_without_end() {
        let mut orphans = Orphans::default();
        for n in 0..3 * MAX_NAMES {
            assert!(orphans.note(&Path::new("a").join(n.to_string())));
            assert!(orphans.names.len() <= MAX_NAMES);
        }
    }
}
