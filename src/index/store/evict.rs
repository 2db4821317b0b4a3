//! How much is kept: limits, and what goes when they are exceeded.
//!
//! Owns the order in which indexes go (`FR-LSI-IDX-RM-02`), and that none goes while somebody writes or opens it (`FR-LSI-IDX-RM-03`). How
//! a directory is emptied is the store's to know.
//!
//! An index goes under the locks of writers and of readers, which are not waited for: who holds one is using the index. The file
//! without which there is none goes first. Whoever opens the index then finds none; whoever has it open keeps it. Where other
//! files can't be removed, because a system does not let go of mapped ones, what remains is no index, and the next who makes
//! room tries again.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keep::Terms;
use super::{DATABASE, FORMS, Listed, Store, UNFINISHED, empty, is_hash, is_there, size_of_dir};
use crate::format::disk::Disk;
use crate::format::error::{FormatError, FormatErrorKind};
use crate::format::lock::{DirLock, LockFile};
use crate::index::builder::{BuildError, Built};
use crate::index::key::root_of;

/// How much a store keeps (`FR-LSI-IDX-RM-01`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all indexes together (`index_max_db_bytes`).
    pub bytes: u64,
    /// Bytes of one index (`index_max_store_bytes`).
    pub one: u64,
    /// Indexes (`index_max_indexes`).
    pub indexes: u64,
}

impl Limits {
    /// No limits.
    pub const NONE: Limits = Limits {
        bytes: u64::MAX,
        one: u64::MAX,
        indexes: u64::MAX,
    };

    /// Checks that an index of so many bytes can be kept at all.
    pub(super) fn check(&self, bytes: u64) -> Result<(), BuildError> {
        let limit = self.bytes.min(self.one);
        match bytes > limit {
            true => Err(self.over(limit)),
            false => Ok(()),
        }
    }

    /// Says that an index would take more than a limit, and which.
    fn over(&self, limit: u64) -> BuildError {
        let key = match self.one < self.bytes {
            true => "index_max_store_bytes",
            false => "index_max_db_bytes",
        };
        BuildError::OverLimit { limit, key }
    }
}

/// What had to go to keep limits, and what could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// The indexes that are gone, in this order.
    pub evicted: Vec<Evicted>,
    /// Those that should have gone before others, or before the limits were kept.
    pub spared: Vec<Spared>,
    /// Whether more is kept than should be.
    pub over_limits: bool,
    /// Those that were removed because they were built under fewer denied patterns.
    pub purged: Vec<Evicted>,
    /// Those that should have been removed for that.
    pub unpurged: Vec<Spared>,
}

/// An index that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The directory that it had.
    pub dir: PathBuf,
    /// Its tree, if that was known.
    pub root: Option<PathBuf>,
    /// Its size, in bytes.
    pub bytes: u64,
    /// When it was last used, in milliseconds since the Unix epoch, if that was known.
    pub accessed_ms: Option<i64>,
}

/// An index whose turn it was to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spared {
    /// Its directory.
    pub dir: PathBuf,
    /// Its tree, if that is known.
    pub root: Option<PathBuf>,
    /// Why it is still there; `None` if it is in use.
    pub problem: Option<String>,
}

impl Store {
    /// Removes indexes until the limits are kept, the one that was not used for longest first, and before it such of which nobody
    /// knows; of several the largest, then the one whose key has the lowest hash. The one in the directory `but` stays, and so do those that somebody writes or
    /// opens right now. What an earlier removal had to leave behind goes too.
    ///
    /// Serves `FR-LSI-IDX-RM-01`, `FR-LSI-IDX-RM-02`, `FR-LSI-IDX-RM-03`.
    pub fn make_room(&self, but: Option<&Path>) -> Eviction {
        self.sweep(but);
        // What can't be listed can't be removed either; the store's next user will be told.
        let mut kept = self.list_with_unfinished().unwrap_or_default();
        let limits = self.terms.limits;
        let mut bytes = kept
            .iter()
            .fold(0u64, |sum, one| sum.saturating_add(one.bytes));
        // What remains of others takes space, and could not be removed just now.
        kept.retain(|one| has_index(&one.dir));
        let mut indexes = kept.len() as u64;
        kept.sort_by(|a, b| {
            let rank = |one: &Listed| (one.accessed_ms, Reverse(one.bytes));
            rank(a).cmp(&rank(b)).then_with(|| a.dir.cmp(&b.dir))
        });
        let mut done = Eviction::default();
        for one in kept.iter().filter(|one| Some(&*one.dir) != but) {
            if indexes <= limits.indexes && bytes <= limits.bytes {
                break;
            }
            let removed = self.evict(one);
            let gone = !has_index(&one.dir);
            let root = one.manifest.as_ref().ok();
            let root = root.and_then(|manifest| root_of(&manifest.key));
            let dir = one.dir.clone();
            if !gone {
                let problem = removed.err().filter(|error| !error.is_locked());
                let problem = problem.map(|error| error.to_string());
                done.spared.push(Spared { dir, root, problem });
                continue;
            }
            // What could not be removed with it still takes space.
            bytes = bytes.saturating_sub(one.bytes.saturating_sub(size_of_dir(&dir)));
            indexes -= 1;
            if removed.is_err_and(|error| error.is_not_found()) {
                // Somebody else was faster.
                continue;
            }
            done.evicted.push(Evicted {
                dir,
                root,
                bytes: one.bytes,
                accessed_ms: one.accessed_ms,
            });
        }
        done.over_limits = indexes > limits.indexes || bytes > limits.bytes;
        done
    }

    /// Removes an index, unless it is in use or was since it was looked at.
    fn evict(&self, seen: &Listed) -> Result<(), FormatError> {
        let disk = &*self.terms.disk;
        let _readers = lock_now(disk, &seen.dir, LockFile::Readers)?;
        let writers = lock_now(disk, &seen.dir, LockFile::Writers)?;
        if self.look_at(&seen.dir).accessed_ms != seen.accessed_ms {
            let waited = Duration::ZERO;
            return Err(FormatError::new(FormatErrorKind::Locked { waited }));
        }
        empty(disk, &writers)
    }

    /// Removes directories of this store without an index: what a first build that was killed left behind, or a removal that
    /// was not allowed to end.
    fn sweep(&self, but: Option<&Path>) {
        let disk = &*self.terms.disk;
        let names = disk.names(&self.root).unwrap_or_default();
        let names = names
            .into_iter()
            .filter(|name| is_hash(&name.to_string_lossy()));
        let dirs = names.map(|name| self.root.join(name));
        for dir in dirs.filter(|dir| Some(&**dir) != but) {
            if !self.has(&dir) {
                // The last that a removal leaves. Whoever is making it just now finds it gone, and makes it again.
                let _unless_not_empty = disk.remove_dir(&dir);
                continue;
            }
            if has_index(&dir) {
                continue;
            }
            // Whoever holds one of the locks is building, or about to find that there is nothing.
            let _unless_impossible = lock_now(disk, &dir, LockFile::Readers).and_then(|_readers| {
                let writers = lock_now(disk, &dir, LockFile::Writers)?;
                match has_index(&dir) {
                    true => Ok(()),
                    false => empty(disk, &writers),
                }
            });
        }
    }
}

/// Returns whether a directory has an index, whatever its form, also of one that this build can't read.
fn has_index(dir: &Path) -> bool {
    let forms = FORMS.iter().any(|form| is_there(*form, dir));
    // What a build has left that is to go on is worth as much.
    forms || dir.join(DATABASE).exists() || dir.join(UNFINISHED).exists()
}

/// Takes a lock that nobody holds.
pub(super) fn lock_now(
    disk: &dyn Disk,
    dir: &Path,
    which: LockFile,
) -> Result<DirLock, FormatError> {
    DirLock::exclusive_on(disk, dir, which, Duration::ZERO, &mut |_| {})
}

/// An output that takes no more than an index may be.
pub(super) struct Bounded<'a> {
    out: &'a mut dyn io::Write,
    left: u64,
    exceeded: bool,
}

impl Bounded<'_> {
    /// Runs a build, and ends it when it has written too much.
    pub(super) fn run(
        terms: &Terms,
        out: &mut dyn io::Write,
        build: impl FnOnce(&mut dyn io::Write) -> Result<Built, BuildError>,
    ) -> Result<Built, BuildError> {
        let limit = terms.limits.bytes.min(terms.limits.one);
        let mut bounded = Bounded {
            out,
            left: limit,
            exceeded: false,
        };
        let built = build(&mut bounded);
        match bounded.exceeded {
            true => Err(terms.limits.over(limit)),
            false => built,
        }
    }
}

impl io::Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.exceeded = true;
            return Err(io::Error::other("more than an index may take"));
        }
        let written = self.out.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

// Locks are the filesystem's, which the interpreter keeps from tests.
#[cfg(all(test, not(miri)))]
mod tests;
