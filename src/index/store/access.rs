//! The time of the last use of an index.
//!
//! This module owns the file `accessed` in the directory of each index. The file is empty; its
//! modification time is the time of the last use. So a use never writes index data, and all
//! processes share one time. Searches call `Store::note_access`; eviction reads the time.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Store;
use crate::format::disk::Disk;
use crate::format::manifest::KeyParts;

/// The name of the file in the directory of an index.
pub(super) const ACCESSED: &str = "accessed";

/// The shortest interval between two writes of the last use, in milliseconds.
const INTERVAL_MS: i64 = 60_000;

/// The time of the last noted use of an index. Limits writes to one per minute.
#[derive(Debug)]
pub struct AccessNotes(AtomicI64);

impl Default for AccessNotes {
    fn default() -> AccessNotes {
        AccessNotes(AtomicI64::new(AccessNotes::NEVER))
    }
}

impl AccessNotes {
    const NEVER: i64 = i64::MIN;

    /// Returns true if the use at `now_ms`, in milliseconds since the Unix epoch, should be
    /// written. The next one is then due after a minute, or at once if the clock was set back.
    pub fn is_due(&self, now_ms: i64) -> bool {
        let last_ms = self.0.load(Ordering::Acquire);
        let recent = last_ms..last_ms.saturating_add(INTERVAL_MS);
        if last_ms != AccessNotes::NEVER && recent.contains(&now_ms) {
            return false;
        }
        // Of several concurrent callers, one writes.
        let (order, failed) = (Ordering::AcqRel, Ordering::Acquire);
        self.0
            .compare_exchange(last_ms, now_ms, order, failed)
            .is_ok()
    }

    /// Forgets the last use: the next one is due at once.
    pub fn reset(&self) {
        self.0.store(AccessNotes::NEVER, Ordering::Release);
    }
}

impl Store {
    /// Records that the index of `key` was used at `now_ms`, in milliseconds since the Unix epoch.
    /// A write error or a missing index is ignored: at worst, eviction removes the wrong index
    /// first.
    pub fn note_access(&self, key: &KeyParts, now_ms: i64) {
        // Does not create the file: another process may be removing the directory, and a new file
        // would keep it from being empty.
        let _unless_impossible = set_time(&self.dir_of(key).join(ACCESSED), now_ms);
    }
}

/// Records the first use of an index. The caller has locked the directory for writing.
pub(super) fn note_first(disk: &dyn Disk, dir: &Path, now_ms: i64) {
    let path = dir.join(ACCESSED);
    // The file may exist. If it can't be created, eviction uses the build time.
    let _unless_impossible = disk.create_new(&path).map(drop);
    let _unless_impossible = set_time(&path, now_ms);
}

/// Returns the time of the last use of the index in a directory, in milliseconds since the Unix
/// epoch; `None` if no use was recorded.
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
        // A directory or a missing file is left alone.
        fs::remove_file(&path).unwrap();
        assert!(set_time(&path, 1).is_err());
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        assert!(set_time(&path, 1).is_err());
        assert_eq!(last(dir.path()), None);
    }
}
