//! When an index was last used.
//!
//! Owns the file that says so: empty, in the index's directory, and its time of last change is that of the last use. So no use writes
//! anything that matters, and all processes that use an index say so in one place. Who uses an index
//! seldom enough to be evicted is decided elsewhere.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Store;
use crate::format::disk::Disk;
use crate::format::manifest::KeyParts;

/// The name of the file in an index's directory.
pub(super) const ACCESSED: &str = "accessed";

/// How long a use stands for those after it, in milliseconds.
const INTERVAL_MS: i64 = 60_000;

/// Remembers when a use of an index was last noted, so that not each search writes: no more than one a minute does.
#[derive(Debug)]
pub struct AccessNotes(AtomicI64);

impl Default for AccessNotes {
    fn default() -> AccessNotes {
        AccessNotes(AtomicI64::new(AccessNotes::NEVER))
    }
}

impl AccessNotes {
    const NEVER: i64 = i64::MIN;

    /// Returns whether a use at `now_ms`, in milliseconds since the Unix epoch, is to be noted; if so, the next one is not
    /// before a minute has passed. A clock that was set back is no reason to wait.
    pub fn is_due(&self, now_ms: i64) -> bool {
        let last_ms = self.0.load(Ordering::Acquire);
        let recent = last_ms..last_ms.saturating_add(INTERVAL_MS);
        if last_ms != AccessNotes::NEVER && recent.contains(&now_ms) {
            return false;
        }
        // Of several at a time, one notes it.
        let (order, failed) = (Ordering::AcqRel, Ordering::Acquire);
        self.0
            .compare_exchange(last_ms, now_ms, order, failed)
            .is_ok()
    }

    /// Forgets the last use: the next one is noted.
    pub fn reset(&self) {
        self.0.store(AccessNotes::NEVER, Ordering::Release);
    }
}

impl Store {
    /// Notes that the index with a key was used at `now_ms`, in milliseconds since the Unix epoch. Where that can't be written,
    /// or there is no index any more, nothing happens: the worst that follows is that the wrong index is removed first.
    ///
    /// Serves `FR-LSI-IDX-RM-02`.
    pub fn note_access(&self, key: &KeyParts, now_ms: i64) {
        // Not made here: somebody may just be removing the directory, and would find it not empty.
        let _unless_impossible = set_time(&self.dir_of(key).join(ACCESSED), now_ms);
    }
}

/// Notes the first use of an index, whose directory the caller has locked for writing.
pub(super) fn note_first(disk: &dyn Disk, dir: &Path, now_ms: i64) {
    let path = dir.join(ACCESSED);
    // It may be there; if it can't be made, the time at which the index was built has to do.
    let _unless_impossible = disk.create_new(&path).map(drop);
    let _unless_impossible = set_time(&path, now_ms);
}

/// Returns when the index in a directory was last used, in milliseconds since the Unix epoch; `None` if nobody has noted
/// that.
pub(super) fn last(dir: &Path) -> Option<i64> {
    let meta = fs::symlink_metadata(dir.join(ACCESSED)).ok()?;
    let modified = meta.is_file().then(|| meta.modified().ok())??;
    Some(match modified.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    })
}

fn set_time(path: &Path, now_ms: i64) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let time = SystemTime::checked_add(&UNIX_EPOCH, Duration::from_millis(now_ms.max(0) as u64));
    let time = time.ok_or(io::ErrorKind::InvalidInput)?;
    File::options().write(true).open(path)?.set_modified(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(miri))]
    use crate::format::disk::RealDisk;

    #[test]
    fn a_use_is_noted_once_a_minute() {
        let notes = AccessNotes::default();
        assert!(notes.is_due(i64::MAX));
        notes.reset();
        assert!(notes.is_due(1_000));
        assert!(!notes.is_due(1_000));
        assert!(!notes.is_due(60_999));
        assert!(notes.is_due(61_000));
        assert!(!notes.is_due(61_001));
        notes.reset();
        assert!(notes.is_due(61_002));
        // The clock was set back.
        assert!(notes.is_due(61_001));
        assert!(!notes.is_due(61_002));
    }

    #[cfg(not(miri))]
    #[test]
    fn the_time_of_the_last_use_is_that_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(last(dir.path()), None);
        note_first(&RealDisk, dir.path(), 12_345);
        assert_eq!(last(dir.path()), Some(12_345));
        note_first(&RealDisk, dir.path(), 99_999_999_999);
        assert_eq!(last(dir.path()), Some(99_999_999_999));
        let path = dir.path().join(ACCESSED);
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        // Anything else of that name is left as it is.
        fs::remove_file(&path).unwrap();
        assert!(set_time(&path, 1).is_err());
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        assert!(set_time(&path, 1).is_err());
        assert_eq!(last(dir.path()), None);
    }
}
