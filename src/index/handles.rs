//! How many segments are open at once (`IPC.MUST.005`).
//!
//! Owns the count and its bound. A segment is open for as long as any snapshot of it is in use: one that was replaced stays open
//! while a search that has pinned it runs. What happens where one more would be too many is said by whoever opens it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A count of open segments, which several stores may share.
#[derive(Clone, Debug)]
pub struct Handles(Arc<Count>);

#[derive(Debug)]
struct Count {
    open: AtomicUsize,
    most: usize,
}

/// One open segment. It counts until this is dropped.
#[derive(Debug)]
pub struct Handle(Arc<Count>);

/// There are as many open segments as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{most} segments are open, and no more may be (max_open_segments_global of [tools.daemon]); it is tried again when searches \
     that use older ones have ended"
)]
pub struct TooMany {
    /// The bound.
    pub most: usize,
}

impl Default for Handles {
    /// Counts without a bound.
    fn default() -> Handles {
        Handles::at_most(usize::MAX)
    }
}

impl Handles {
    /// Counts, up to a bound.
    pub fn at_most(most: usize) -> Handles {
        Handles(Arc::new(Count {
            open: AtomicUsize::new(0),
            most,
        }))
    }

    /// Returns how many segments are open.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    /// Counts one more.
    ///
    /// # Errors
    ///
    /// [`TooMany`].
    pub fn take(&self) -> Result<Handle, TooMany> {
        let most = self.0.most;
        self.0
            .open
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| {
                (open < most).then_some(open + 1)
            })
            .map(|_| Handle(self.0.clone()))
            .map_err(|_| TooMany { most })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipc_must_005_no_more_segments_are_open_than_may_be() {
        let handles = Handles::at_most(2);
        let (first, second) = (handles.take().unwrap(), handles.take().unwrap());
        assert_eq!(handles.take().unwrap_err(), TooMany { most: 2 });
        assert_eq!(handles.open(), 2);
        drop(first);
        let third = handles.clone().take().unwrap();
        assert!(handles.take().is_err());
        drop((second, third));
        assert_eq!(handles.open(), 0);
        assert!(Handles::default().take().is_ok());
    }
}
