//! Eviction: keeps the store within its limits.
//!
//! This module owns the order in which indexes are evicted. It guarantees that no index is evicted
//! while a process writes or opens it. `Store::publish` calls `Store::make_room`; the store empties
//! the directories.
//!
//! Evicting an index takes both locks of its directory without waiting: a held lock means that the
//! index is in use. The manifest or database is removed first, so that a later open finds no index.
//! Processes that have the index open keep it. Some systems don't remove mapped files; such
//! leftovers are not an index, and the next eviction tries again.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::storage_format::StoreSettings;
use super::{
    DATABASE, FORMS, Store, StoredIndex, UNFINISHED, empty, is_hash, is_there, size_of_dir,
};
use crate::format::disk::Disk;
use crate::format::error::{FormatError, FormatErrorKind};
use crate::format::lock::{DirLock, LockFile};
use crate::index::builder::{BuildError, BuiltSegment};
use crate::index::key::root_of;

/// Size and count limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest total size of all indexes, in bytes (`index_max_db_bytes`).
    pub bytes: u64,
    /// The largest size of one index, in bytes (`index_max_store_bytes`).
    pub one: u64,
    /// The largest number of indexes (`index_max_indexes`).
    pub indexes: u64,
}

impl Limits {
    /// Limits that allow everything.
    pub const NONE: Limits = Limits {
        bytes: u64::MAX,
        one: u64::MAX,
        indexes: u64::MAX,
    };

    /// Checks that an index of `bytes` bytes can be kept at all.
    pub(super) fn check(&self, bytes: u64) -> Result<(), BuildError> {
        let limit = self.bytes.min(self.one);
        match bytes > limit {
            true => Err(self.over(limit)),
            false => Ok(()),
        }
    }

    /// Returns the error for an index that exceeds `limit`.
    fn over(&self, limit: u64) -> BuildError {
        let key = match self.one < self.bytes {
            true => "index_max_store_bytes",
            false => "index_max_db_bytes",
        };
        BuildError::OverLimit { limit, key }
    }
}

/// The result of an eviction or a purge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// The evicted indexes, in the order of eviction.
    pub evicted: Vec<Evicted>,
    /// The indexes that were due for eviction and are still there.
    pub spared: Vec<NotEvicted>,
    /// Whether the store still exceeds its limits.
    pub over_limits: bool,
    /// The indexes that were purged because they were built under fewer denied patterns.
    pub purged: Vec<Evicted>,
    /// The indexes that were due to be purged and are still there.
    pub unpurged: Vec<NotEvicted>,
}

/// An index that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The directory of the index.
    pub dir: PathBuf,
    /// The root of the indexed tree, if known.
    pub root: Option<PathBuf>,
    /// The size of the index, in bytes.
    pub bytes: u64,
    /// The last use, in milliseconds since the Unix epoch, if known.
    pub accessed_ms: Option<i64>,
}

/// An index that was due for removal and is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotEvicted {
    /// The directory of the index.
    pub dir: PathBuf,
    /// The root of the indexed tree, if known.
    pub root: Option<PathBuf>,
    /// Why the removal failed; `None` if the index is in use.
    pub problem: Option<String>,
}

impl Store {
    /// Evicts indexes until the limits are kept. The index that was unused for longest goes first,
    /// an index of unknown last use before it. Among equals, the largest goes first, then the one
    /// whose key has the lowest hash. The index in the directory `but` stays, and so do indexes
    /// that a process writes or opens. Also removes leftovers of earlier removals.
    pub fn make_room(&self, but: Option<&Path>) -> Eviction {
        self.sweep(but);
        // An unreadable directory can't be emptied either; the next use reports the error.
        let mut kept = self.list_with_unfinished().unwrap_or_default();
        let limits = self.settings.limits;
        let mut bytes = kept
            .iter()
            .fold(0u64, |sum, one| sum.saturating_add(one.bytes));
        // Leftovers that `sweep` could not remove take space, but are not indexes.
        kept.retain(|one| has_index(&one.dir));
        let mut indexes = kept.len() as u64;
        kept.sort_by(|a, b| {
            let rank = |one: &StoredIndex| (one.accessed_ms, Reverse(one.bytes));
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
                done.spared.push(NotEvicted { dir, root, problem });
                continue;
            }
            // Files that could not be removed still take space.
            bytes = bytes.saturating_sub(one.bytes.saturating_sub(size_of_dir(&dir)));
            indexes -= 1;
            if removed.is_err_and(|error| error.is_not_found()) {
                // Another process removed the index first.
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

    /// Removes an index, unless it is in use or was used since `seen` was read.
    fn evict(&self, seen: &StoredIndex) -> Result<(), FormatError> {
        let disk = &*self.settings.disk;
        let readers = lock_now(disk, &seen.dir, LockFile::Readers)?;
        let writers = lock_now(disk, &seen.dir, LockFile::Writers)?;
        if self.look_at(&seen.dir).accessed_ms != seen.accessed_ms {
            let waited = Duration::ZERO;
            return Err(FormatError::new(FormatErrorKind::Locked { waited }));
        }
        empty(disk, writers, Some(readers))
    }

    /// Removes directories without an index: leftovers of a first build that was killed, or of a
    /// removal that failed midway.
    fn sweep(&self, but: Option<&Path>) {
        let disk = &*self.settings.disk;
        let names = disk.names(&self.root).unwrap_or_default();
        let names = names
            .into_iter()
            .filter(|name| is_hash(&name.to_string_lossy()));
        let dirs = names.map(|name| self.root.join(name));
        for dir in dirs.filter(|dir| Some(&**dir) != but) {
            if !self.has(&dir) {
                // An empty directory. A writer that is creating it finds it gone and creates it
                // again.
                let _unless_not_empty = disk.remove_dir(&dir);
                continue;
            }
            if has_index(&dir) {
                continue;
            }
            // A lock holder is building, or is about to find no index.
            let _unless_impossible = lock_now(disk, &dir, LockFile::Readers).and_then(|readers| {
                let writers = lock_now(disk, &dir, LockFile::Writers)?;
                match has_index(&dir) {
                    true => Ok(()),
                    false => empty(disk, writers, Some(readers)),
                }
            });
        }
    }
}

/// Returns true if a directory has an index in any storage mode, even one that this build can't
/// read.
fn has_index(dir: &Path) -> bool {
    let forms = FORMS.iter().any(|form| is_there(*form, dir));
    // An unfinished build counts too: the next build continues it.
    forms || dir.join(DATABASE).exists() || dir.join(UNFINISHED).exists()
}

/// Takes an exclusive lock, or fails at once if it is held.
pub(super) fn lock_now(
    disk: &dyn Disk,
    dir: &Path,
    which: LockFile,
) -> Result<DirLock, FormatError> {
    DirLock::exclusive_on(disk, dir, which, Duration::ZERO, &mut |_| {})
}

/// An output that refuses more bytes than the limits allow for one index.
pub(super) struct Bounded<'a> {
    out: &'a mut dyn io::Write,
    left: u64,
    exceeded: bool,
}

impl Bounded<'_> {
    /// Runs a build, and stops it when its output exceeds the limit.
    pub(super) fn run(
        settings: &StoreSettings,
        out: &mut dyn io::Write,
        build: impl FnOnce(&mut dyn io::Write) -> Result<BuiltSegment, BuildError>,
    ) -> Result<BuiltSegment, BuildError> {
        let limit = settings.limits.bytes.min(settings.limits.one);
        let mut bounded = Bounded {
            out,
            left: limit,
            exceeded: false,
        };
        let built = build(&mut bounded);
        match bounded.exceeded {
            true => Err(settings.limits.over(limit)),
            false => built,
        }
    }
}

impl io::Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.exceeded = true;
            return Err(io::Error::other("the index exceeds its size limit"));
        }
        let written = self.out.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

// These tests need file locks, which Miri does not provide.
#[cfg(all(test, not(miri)))]
mod tests;
