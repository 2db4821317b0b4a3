//! Stamps: metadata that tells states of a file or directory apart without reading it.
//!
//! This module owns the comparison of states and the rule for when a stamp is reliable. It reads no
//! clock.

use std::time::Duration;

use crate::format::segment::StampRecord;
use crate::index::root_dir::{EntryKind, EntryMeta};

/// The least age of the last change for a stamp to be reliable, if timestamps are fine: several
/// ticks of any kernel's clock.
const FINE_NS: i64 = 50_000_000;

/// The least age where timestamps have a resolution of one or two seconds.
const COARSE_NS: i64 = 2_100_000_000;

/// The extra age per byte of the file, for a write in progress. A single `write` call sets the
/// timestamps when it begins. A reader in the middle of the call sees the final stamp with partly
/// written text.
const NS_PER_BYTE: u64 = 100;

const SECOND_NS: i64 = 1_000_000_000;

/// The state of a file or directory, as far as metadata shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(StampRecord);

impl Stamp {
    /// Extracts the stamp from metadata. `None` if a time does not fit into 64 bits of nanoseconds,
    /// about three centuries around 1970: later changes of such a file might not show.
    pub fn of(meta: &EntryMeta) -> Option<Stamp> {
        let is_dir = meta.kind == EntryKind::Dir;
        Some(Stamp(StampRecord {
            len: if is_dir { 0 } else { meta.len },
            modified_ns: i64::try_from(meta.modified_ns).ok()?,
            changed_ns: i64::try_from(meta.changed_ns.unwrap_or(0)).ok()?,
            device: meta.identity.map_or(0, |identity| identity.device),
            inode: meta.identity.map_or(0, |identity| identity.inode),
            links: match is_dir {
                true => 0,
                false => u32::try_from(meta.links).unwrap_or(u32::MAX),
            },
        }))
    }

    /// Creates a stamp from a stored record.
    pub fn from_record(record: StampRecord) -> Stamp {
        Stamp(record)
    }

    /// Returns the record for storage.
    pub fn record(self) -> StampRecord {
        self.0
    }

    /// Returns the length of the file in bytes.
    pub fn len(self) -> u64 {
        self.0.len
    }

    /// Returns the device number and the inode number; zeros on platforms without them.
    pub fn identity(self) -> (u64, u64) {
        (self.0.device, self.0.inode)
    }

    /// Returns true if the text is the same, as far as length, identity and modification time show.
    ///
    /// The whole stamp also differs when the file gains or loses a hard link. Only a watcher of
    /// that link's directory is notified of such a change.
    pub fn same_text(self, other: Stamp) -> bool {
        let text = |stamp: Stamp| (stamp.len(), stamp.identity(), stamp.0.modified_ns);
        text(self) == text(other)
    }

    /// Returns the number of hard links; 0 for a directory.
    pub fn links(self) -> u32 {
        self.0.links
    }

    /// Returns true if every later change shows in a stamp. That takes the time of the last change,
    /// which no program can set. Windows, for example, does not report it.
    pub fn shows_all_changes(self) -> bool {
        // A Unix system always reports the time of change, and an image may have 0 for all times.
        cfg!(unix) || self.0.changed_ns != 0
    }

    /// Returns true for a file without content.
    pub fn is_empty(self) -> bool {
        self.0.len == 0
    }

    /// Returns true if every change after `now_ns` (nanoseconds since the Unix epoch) is certain to
    /// change the stamp. A second change within the same tick of the filesystem's clock leaves no
    /// trace, so the last change has to be clearly older.
    pub fn is_settled(self, now_ns: i64) -> bool {
        self.settles_after_ns() < now_ns
    }

    /// Returns the time after `now_ns` until the stamp is settled; zero if it is.
    pub fn settles_in(self, now_ns: i64) -> Duration {
        let ns = self
            .settles_after_ns()
            .saturating_sub(now_ns)
            .saturating_add(1);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
    }

    fn settles_after_ns(self) -> i64 {
        // Programs can set the modification time, but not the time of the last status change.
        let last = match self.0.changed_ns {
            0 => self.0.modified_ns,
            changed => changed,
        };
        let writing = i64::try_from(self.0.len.saturating_mul(NS_PER_BYTE)).unwrap_or(i64::MAX);
        let margin = match last % SECOND_NS {
            0 => COARSE_NS,
            _ => FINE_NS.saturating_add(writing).min(COARSE_NS),
        };
        last.saturating_add(margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::root_dir::FileIdentity;

    fn meta(changed_ns: i128) -> EntryMeta {
        EntryMeta {
            kind: EntryKind::File,
            len: 3,
            modified_ns: 5,
            changed_ns: Some(changed_ns),
            identity: Some(FileIdentity {
                device: 1,
                inode: 2,
            }),
            links: 1,
        }
    }

    #[test]
    fn any_change_of_a_file_state_shows_in_its_stamp() {
        let base = Stamp::of(&meta(7)).unwrap();
        assert_eq!(Stamp::of(&meta(7)), Some(base));
        let changes: [fn(&mut EntryMeta); 6] = [
            |meta| meta.len = 4,
            |meta| meta.modified_ns = 6,
            |meta| meta.changed_ns = Some(8),
            |meta| meta.identity = None,
            |meta| meta.links = 2,
            |meta| {
                meta.identity = Some(FileIdentity {
                    device: 2,
                    inode: 2,
                })
            },
        ];
        for change in changes {
            let mut other = meta(7);
            change(&mut other);
            assert_ne!(Stamp::of(&other), Some(base), "{other:?}");
        }
        assert_eq!(Stamp::of(&meta(i128::MAX)), None);
    }

    #[test]
    fn a_stamp_settles_when_its_tick_is_over() {
        let fine = Stamp::of(&meta(5_000_000_001)).unwrap();
        assert!(!fine.is_settled(5_000_000_001));
        assert!(!fine.is_settled(5_050_000_301));
        assert!(fine.is_settled(5_050_000_302));
        assert_eq!(fine.settles_in(5_050_000_301), Duration::from_nanos(1));
        assert_eq!(fine.settles_in(9_000_000_000), Duration::ZERO);
        let coarse = Stamp::of(&meta(5_000_000_000)).unwrap();
        assert!(!coarse.is_settled(7_100_000_000));
        assert!(coarse.is_settled(7_100_000_001));
    }

    #[test]
    fn a_file_that_takes_longer_to_write_settles_later_but_no_later_than_coarse_times() {
        let after = |len, now_ns| {
            let long = EntryMeta {
                len,
                ..meta(5_000_000_001)
            };
            Stamp::of(&long).unwrap().is_settled(now_ns)
        };
        assert!(!after(1_000_000, 5_150_000_001));
        assert!(after(1_000_000, 5_150_000_002));
        for len in [1 << 30, u64::MAX] {
            assert!(!after(len, 7_100_000_001));
            assert!(after(len, 7_100_000_002));
        }
    }

    #[test]
    fn without_a_time_of_change_an_edit_may_not_show() {
        assert!(Stamp::of(&meta(7)).unwrap().shows_all_changes());
        let unknown = EntryMeta {
            changed_ns: None,
            ..meta(7)
        };
        assert_eq!(Stamp::of(&unknown).unwrap().shows_all_changes(), cfg!(unix));
    }

    #[test]
    fn a_directory_is_its_times_and_identity() {
        let mut dir = meta(7);
        dir.kind = EntryKind::Dir;
        let base = Stamp::of(&dir);
        dir.len = 4096;
        dir.links = 9;
        assert_eq!(Stamp::of(&dir), base);
        dir.modified_ns = 6;
        assert_ne!(Stamp::of(&dir), base);
    }
}
