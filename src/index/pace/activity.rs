//! Counts running searches, and records when the last one ended.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use super::{Clock, millis};

/// Tells whether searches are running. Searches update it and builds read it; neither ever waits
/// for the other.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use forge_search::internal::index::pace::{Activity, SystemClock};
///
/// let activity = Arc::new(Activity::new(Arc::new(SystemClock)));
/// let running = activity.begin();
/// assert!(!activity.is_idle(0));
/// drop(running);
/// assert!(activity.is_idle(0));
/// assert!(!activity.is_idle(3_600_000));
/// ```
pub struct Activity {
    clock: Arc<dyn Clock>,
    start: Instant,
    running: AtomicUsize,
    ended_ms: AtomicU64,
}

impl Activity {
    /// Creates a record without running searches. It starts as if a search had just ended, because
    /// a program that was just started is likely to search soon.
    pub fn new(clock: Arc<dyn Clock>) -> Activity {
        Activity {
            start: clock.now(),
            running: AtomicUsize::new(0),
            ended_ms: AtomicU64::new(0),
            clock,
        }
    }

    /// Records that a search begins. The search ends when the returned value is dropped.
    #[must_use = "the search counts as ended when this is dropped"]
    pub fn begin(self: &Arc<Self>) -> RunningSearch {
        self.running.fetch_add(1, Ordering::AcqRel);
        RunningSearch(self.clone())
    }

    /// Returns the number of running searches.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Returns true if no search is running and the last one ended at least `for_ms` milliseconds
    /// ago.
    pub fn is_idle(&self, for_ms: u64) -> bool {
        // Read in this order: a search stores its end time before it decrements the counter.
        self.running() == 0
            && self
                .now_ms()
                .saturating_sub(self.ended_ms.load(Ordering::Acquire))
                >= for_ms
    }

    /// Returns the time of the clock since the record was created, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        millis(self.clock.now().saturating_duration_since(self.start))
    }
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activity")
            .field("running", &self.running)
            .field("ended_ms", &self.ended_ms)
            .finish_non_exhaustive()
    }
}

/// A running search. Dropping it ends the search.
#[derive(Debug)]
pub struct RunningSearch(Arc<Activity>);

impl Drop for RunningSearch {
    fn drop(&mut self) {
        let activity = &self.0;
        let now_ms = activity.now_ms();
        activity.ended_ms.fetch_max(now_ms, Ordering::AcqRel);
        activity.running.fetch_sub(1, Ordering::AcqRel);
    }
}
