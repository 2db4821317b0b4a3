//! The plain files of a segment, as far as they were examined. A plain file has no byte-order mark
//! and no NUL byte, so a search sees its bytes unchanged.
//!
//! This module owns the results, in groups of files, and the rule that one thread examines a group
//! while others wait. The caller examines the files.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

/// The number of files in a group.
const GROUP: u32 = 512;

/// The pause between two attempts to look at a group that another thread examines.
const NAP: Duration = Duration::from_micros(200);

/// One bit for each file of a group.
type Bits = [u64; GROUP as usize / 64];

/// The files that a search reads as they are, by rank.
#[derive(Debug, Default)]
pub(crate) struct PlainFiles {
    groups: OnceLock<Vec<Mutex<Option<Bits>>>>,
}

/// The examined files of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainGroup {
    first: u32,
    bits: Bits,
}

impl PlainGroup {
    /// Returns whether the file is in the group, and `None` if it is in another group.
    pub(crate) fn contains(&self, rank: u32) -> Option<bool> {
        let at = rank.checked_sub(self.first).filter(|at| *at < GROUP)?;
        let word = self.bits.get(at as usize / 64)?;
        Some(word >> (at % 64) & 1 == 1)
    }
}

impl PlainFiles {
    /// Returns the group of a file, for a segment of `files` files. The first caller examines the
    /// files of the group with `examine`; it returns `None` to stop, and then the next caller
    /// begins again. Others wait meanwhile, until `is_stopped` returns true. Returns `None` after a
    /// stop.
    ///
    /// # Errors
    ///
    /// Any error of `examine`.
    pub(crate) fn group<E>(
        &self,
        rank: u32,
        files: u32,
        is_stopped: &dyn Fn() -> bool,
        mut examine: impl FnMut(u32) -> Result<Option<bool>, E>,
    ) -> Result<Option<PlainGroup>, E> {
        let count = files.div_ceil(GROUP) as usize;
        let groups = self
            .groups
            .get_or_init(|| std::iter::repeat_with(Mutex::default).take(count).collect());
        let first = rank / GROUP * GROUP;
        let Some(group) = groups.get((rank / GROUP) as usize) else {
            return Ok(None);
        };
        let Some(mut known) = lock(group, is_stopped) else {
            return Ok(None);
        };
        if let Some(bits) = *known {
            return Ok(Some(PlainGroup { first, bits }));
        }
        let mut bits = Bits::default();
        for rank in first..files.min(first + GROUP) {
            let Some(is_plain) = examine(rank)? else {
                return Ok(None);
            };
            let at = rank - first;
            bits[at as usize / 64] |= u64::from(is_plain) << (at % 64);
        }
        *known = Some(bits);
        Ok(Some(PlainGroup { first, bits }))
    }
}

/// Locks a group. Returns `None` if `is_stopped` returns true before that.
fn lock<'a>(
    group: &'a Mutex<Option<Bits>>,
    is_stopped: &dyn Fn() -> bool,
) -> Option<MutexGuard<'a, Option<Bits>>> {
    loop {
        match group.try_lock() {
            Ok(known) => return Some(known),
            Err(TryLockError::Poisoned(poisoned)) => {
                return Some(PoisonError::into_inner(poisoned));
            }
            Err(TryLockError::WouldBlock) if is_stopped() => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(NAP),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    const FILES: u32 = 1000;

    fn is_plain(rank: u32) -> bool {
        rank % 3 == 1
    }

    #[test]
    fn several_threads_examine_each_file_once() {
        let (plain, examined) = (PlainFiles::default(), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for rank in 0..FILES {
                        let group = plain.group::<Infallible>(rank, FILES, &|| false, |rank| {
                            examined.fetch_add(1, Ordering::Relaxed);
                            Ok(Some(is_plain(rank)))
                        });
                        let found = group.unwrap().unwrap().contains(rank);
                        assert_eq!(found, Some(is_plain(rank)), "{rank}");
                    }
                });
            }
        });
        assert_eq!(examined.into_inner(), FILES);
        let last = plain.group::<Infallible>(FILES - 1, FILES, &|| false, |_| Ok(None));
        assert_eq!(last.unwrap().unwrap().contains(0), None);
    }

    #[test]
    fn a_stopped_examination_leaves_its_group_to_the_next_caller() {
        let plain = PlainFiles::default();
        let stopped = plain.group::<()>(5, FILES, &|| true, |rank| Ok((rank < 9).then_some(true)));
        assert!(stopped.unwrap().is_none());
        let failed = plain.group(5, FILES, &|| false, |_| Err("damaged"));
        assert_eq!(failed.unwrap_err(), "damaged");
        let found = plain.group::<()>(5, FILES, &|| false, |rank| Ok(Some(is_plain(rank))));
        assert_eq!(found.unwrap().unwrap().contains(7), Some(true));
    }

    #[test]
    fn a_stop_ends_the_wait_for_another_thread() {
        let plain = PlainFiles::default();
        let waiting = plain.group::<()>(0, FILES, &|| false, |_| {
            let other = plain.group::<()>(0, FILES, &|| true, |_| Ok(Some(true)));
            Ok(Some(other.unwrap().is_none()))
        });
        assert_eq!(waiting.unwrap().unwrap().contains(0), Some(true));
    }
}
