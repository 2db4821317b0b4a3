//! Orphaned names: such as are written to and lead nowhere.
//!
//! A program that has a file open goes on writing to it after the name by which it was opened is removed, and the system tells
//! of that under this name. Which file it is can't be found out, and it may have got another name in the tree before: so
//! nothing is certain until the whole tree was looked at. Mostly it has none, like a log that was removed while a
//! server writes it; this owns the names that turned out to be such, so that the index can be used beside them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Shared;
use crate::index::dirty::Work;
use crate::index::pace::millis;

/// Between two looks at a tree, so much later that what was written before the second one shows in the times of its file.
const APART: Duration = Duration::from_secs(5);

/// How often writing to a name has to change nothing. What was heard of since a look may have been written while that look went on, and
/// found by it: only the time after that says something.
const PROVEN: u8 = 2;

/// The most names that are remembered.
const MAX_NAMES: usize = 1024;

/// Counts up with whatever was found to be otherwise, in the tree or by building.
pub(super) type Version = (u64, u64);

/// A name that was written to and led nowhere.
#[derive(Clone, Copy, Debug)]
enum Orphan {
    /// The tree was not looked at since.
    New,
    /// The tree was looked at, at this moment in milliseconds, and was at this version then; writing to it has changed nothing so often.
    Seen(u64, Version, u8),
    /// The same as `Seen`, and it was written to again since.
    Again(u64, Version, u8),
    /// Writing to it has changed no file of the tree, which was at this version then.
    Harmless(Version),
}

/// After so long a time without such names it is as if there had been none.
const QUIET_MS: u64 = 60_000;

/// How long the tree is not looked at for the sake of such names, at first and at most.
const PAUSES_MS: (u64, u64) = (1_000, 60_000);

/// The names that were written to and led nowhere.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    names: BTreeMap<PathBuf, Orphan>,
    /// When one was last taken for any file.
    last_ms: Option<u64>,
    pause_ms: u64,
    rest_until_ms: u64,
}

impl Orphans {
    /// Notes that a name is such a one and was written to. Returns true if that may have been any file.
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

    /// Notes that nothing is certain any more because of such a name. Each of a program's temporary files that are removed at once and
    /// written afterwards has another one: so that it does not keep the worker busy, the tree rests between, twice as long each time.
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

    /// Returns until when the tree is not looked at for the sake of such names.
    pub(super) fn rest_until_ms(&self) -> u64 {
        self.rest_until_ms
    }

    /// Notes that something came to be, or went, at a path or below it: names there may be those of other files from now on.
    /// Logarithmic, and linear in the names below.
    pub(super) fn forget_below(&mut self, path: &Path) {
        loop {
            let from = (Bound::Included(path), Bound::Unbounded);
            let first = self.names.range::<Path, _>(from).next();
            let Some((first, _)) = first.filter(|(first, _)| first.starts_with(path)) else {
                return;
            };
            let first = first.clone();
            self.names.remove(&first);
        }
    }

    /// Notes that the whole tree was looked at since all of them were noted. If nothing at all was found to be otherwise since that
    /// was so before, twice in a row, what was written to one meanwhile was to no file of the tree. Linear in them.
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
                // Too early to tell: more may be written at the same time of the clock by which files are stamped.
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
    /// Looks into marks of names that were not there when they were looked at. Returns why nothing is certain any more, if that
    /// is so: such a name was written to after it was gone. What was gone only after it was written to is heard of within `timeout`.
    pub(super) fn orphaned(&self, nowhere: &[Work], timeout: Duration) -> Option<String> {
        if nowhere.is_empty() {
            return None;
        }
        // Who does not hear of it in time takes it for what is worse. The same if nothing is heard any more, which others find out.
        if let Some(watching) = self.watching() {
            let _late = watching.barrier.pass(&*watching.watcher, timeout);
        }
        let mut status = self.status();
        let was_relied_on = status.is_relied_on();
        let mut why = None;
        for work in nowhere {
            if status.dirty.is_written(&work.path) && status.orphans.note(&work.path) {
                why = Some(format!(
                    "{} was removed and is still written to; it may have another name",
                    work.path.display()
                ));
            }
        }
        if why.is_some() && was_relied_on {
            status.orphans.suspect(self.ground.now_ms());
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
        // Nothing was written to it since, so that this says nothing.
        look(&mut orphans, 10_000, 3);
        assert!(orphans.note(name));
        // What was written may have been written in the middle of the look before, and found by it.
        look(&mut orphans, 15_000, 3);
        assert!(orphans.note(name));
        look(&mut orphans, 20_000, 3);
        assert!(!orphans.note(name) && !orphans.note(name));
        // Other names are other files.
        assert!(orphans.note(Path::new("a/log2")));
        // As long as nothing changes: a name may have been given to it.
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
        // Twice in a row: what changes in between begins anew.
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
