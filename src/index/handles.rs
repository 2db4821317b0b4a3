//! Counts open segments, up to a limit.
//!
//! This module owns the count, which several stores may share. A segment is open while any snapshot
//! of it is in use. A replaced segment stays open until the last search that pinned it ends. The
//! caller decides what to do when the limit is reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter of open segments, which several stores may share.
#[derive(Clone, Debug)]
pub struct Handles(Arc<Count>);

#[derive(Debug)]
struct Count {
    open: AtomicUsize,
    most: usize,
}

/// One open segment. Dropping the handle decrements the counter.
#[derive(Debug)]
pub struct Handle(Arc<Count>);

/// The error for reaching the limit of open segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{most} segments are open, the most that max_open_segments_global of [tools.daemon] allows; \
     another attempt follows when searches that use older segments have ended"
)]
pub struct HandleLimitError {
    /// The largest number of open segments.
    pub most: usize,
}

impl Default for Handles {
    /// Creates a counter without a limit.
    fn default() -> Handles {
        Handles::at_most(usize::MAX)
    }
}

impl Handles {
    /// Creates a counter with a limit.
    pub fn at_most(most: usize) -> Handles {
        Handles(Arc::new(Count {
            open: AtomicUsize::new(0),
            most,
        }))
    }

    /// Returns the number of open segments.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    /// Counts one more open segment.
    ///
    /// # Errors
    ///
    /// [`HandleLimitError`] if the limit is reached.
    pub fn take(&self) -> Result<Handle, HandleLimitError> {
        let most = self.0.most;
        self.0
            .open
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| {
                (open < most).then_some(open + 1)
            })
            .map(|_| Handle(self.0.clone()))
            .map_err(|_| HandleLimitError { most })
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
    fn no_more_segments_are_open_than_may_be() {
        let handles = Handles::at_most(2);
        let (first, second) = (handles.take().unwrap(), handles.take().unwrap());
        assert_eq!(handles.take().unwrap_err(), HandleLimitError { most: 2 });
        assert_eq!(handles.open(), 2);
        drop(first);
        let third = handles.clone().take().unwrap();
        assert!(handles.take().is_err());
        drop((second, third));
        assert_eq!(handles.open(), 0);
        assert!(Handles::default().take().is_ok());
    }
}
