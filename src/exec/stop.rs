//! Stopping: deadlines, cancellation, and answers that need no more work, visible to every worker.
//!
//! This module owns the flag that long work polls. Workers never read a clock. The thread that
//! waits for them reads it, through the [`Clock`] that it was given, and raises the flag.
//! `allowance` is the budget of a call for one kind of work.

pub(crate) mod allowance;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

pub(crate) use crate::index::pace::millis;
pub use crate::index::pace::{Clock, SystemClock};

/// Why a search was stopped before it had read everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// All results that the response can contain are known.
    Satisfied,
    /// The deadline passed.
    TimedOut,
    /// The caller cancelled.
    Cancelled,
    /// An engine failed in a way that makes further work pointless.
    Failed,
}

/// A handle with which a caller cancels a search that runs on another thread.
///
/// # Examples
///
/// ```
/// let cancel = forge_search::CancelHandle::new();
/// let for_the_tool = cancel.clone();
/// cancel.cancel();
/// assert!(for_the_tool.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelHandle {
    flag: Arc<AtomicBool>,
    /// The flags of the handles whose cancellation also cancels this one.
    parents: Vec<Arc<AtomicBool>>,
}

impl CancelHandle {
    /// Creates a handle that is not cancelled.
    pub fn new() -> CancelHandle {
        CancelHandle::default()
    }

    /// Creates a handle for a flag that other code raises, such as a signal handler.
    pub fn from_flag(flag: Arc<AtomicBool>) -> CancelHandle {
        CancelHandle {
            flag,
            parents: Vec::new(),
        }
    }

    /// Creates a handle for a part of the work, such as one of several searches. Cancelling this
    /// handle cancels the child, but cancelling the child does not cancel this handle. Each level
    /// of children adds a flag to look at.
    ///
    /// # Examples
    ///
    /// ```
    /// let turn = forge_search::CancelHandle::new();
    /// let (one, other) = (turn.child(), turn.child());
    /// one.cancel();
    /// assert!(!turn.is_cancelled() && !other.is_cancelled());
    /// turn.cancel();
    /// assert!(other.is_cancelled());
    /// ```
    #[must_use]
    pub fn child(&self) -> CancelHandle {
        let mut parents = self.parents.clone();
        parents.push(self.flag.clone());
        CancelHandle {
            flag: Arc::default(),
            parents,
        }
    }

    /// Cancels the search, which returns within 50 ms.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Release);
    }

    /// Returns a guard that cancels the search when it is dropped. A task that awaits a search
    /// keeps the guard: if the task is dropped, the search ends. The guard also cancels after the
    /// search has ended, so it needs a handle of its own: see [`CancelHandle::child`].
    pub fn cancel_on_drop(&self) -> CancelGuard {
        CancelGuard(self.clone())
    }

    /// Returns true once [`CancelHandle::cancel`] was called, for this handle or for one that it is
    /// a [`child`](CancelHandle::child) of.
    pub fn is_cancelled(&self) -> bool {
        let mut flags = std::iter::once(&self.flag).chain(&self.parents);
        flags.any(|flag| flag.load(Ordering::Acquire))
    }
}

/// Cancels a search when it is dropped, see [`CancelHandle::cancel_on_drop`].
#[derive(Debug)]
pub struct CancelGuard(CancelHandle);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The flag that workers poll between steps.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    state: Arc<AtomicU8>,
    /// A handle whose cancellation also raises the flag.
    cancel: Option<CancelHandle>,
}

impl Stop {
    /// Creates a flag that is not raised.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Creates a flag that counts as raised once `cancel` is cancelled.
    pub fn cancelled_by(cancel: CancelHandle) -> Stop {
        Stop {
            cancel: Some(cancel),
            ..Stop::default()
        }
    }

    /// Raises the flag. The first reason is kept.
    pub fn raise(&self, reason: StopReason) {
        let code = match reason {
            StopReason::Satisfied => 1,
            StopReason::TimedOut => 2,
            StopReason::Cancelled => 3,
            StopReason::Failed => 4,
        };
        // If another thread was faster, its reason is kept.
        let _ = self
            .state
            .compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns the reason once the flag was raised. Costs an atomic load or two.
    pub fn reason(&self) -> Option<StopReason> {
        match self.state.load(Ordering::Relaxed) {
            0 if self.is_cancelled() => Some(StopReason::Cancelled),
            0 => None,
            1 => Some(StopReason::Satisfied),
            2 => Some(StopReason::TimedOut),
            3 => Some(StopReason::Cancelled),
            _ => Some(StopReason::Failed),
        }
    }

    /// Returns true once the flag was raised.
    pub fn is_raised(&self) -> bool {
        self.state.load(Ordering::Relaxed) != 0 || self.is_cancelled()
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelHandle::is_cancelled)
    }
}

/// The time at which a call must have returned.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    clock: Arc<dyn Clock>,
}

impl Deadline {
    /// Creates the deadline `timeout` after now.
    pub fn after(timeout: Duration, clock: Arc<dyn Clock>) -> Deadline {
        let now = clock.now();
        Deadline::since(now, timeout, clock)
    }

    /// Creates the deadline `timeout` after `start`. If the timeout is too long for the platform's
    /// clock, the deadline is in a hundred years.
    pub fn since(start: Instant, timeout: Duration, clock: Arc<dyn Clock>) -> Deadline {
        const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let at = start
            .checked_add(timeout)
            .or_else(|| start.checked_add(FAR))
            .unwrap_or(start);
        Deadline { at, clock }
    }

    /// Returns the deadline of a part of the call that begins now and may take `time`. It is never
    /// later than the deadline of the call.
    #[must_use]
    pub fn part(&self, time: Duration) -> Deadline {
        let part = Deadline::after(time, self.clock.clone());
        match part.at < self.at {
            true => part,
            false => self.clone(),
        }
    }

    /// Returns the remaining time, zero if the deadline has passed.
    pub fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let stop = Stop::new();
        assert_eq!(stop.reason(), None);
        stop.raise(StopReason::TimedOut);
        stop.raise(StopReason::Cancelled);
        assert_eq!(stop.reason(), Some(StopReason::TimedOut));
        assert!(stop.is_raised());
    }

    #[test]
    fn a_cancelled_handle_raises_the_flag() {
        let cancel = CancelHandle::new();
        let stop = Stop::cancelled_by(cancel.clone());
        assert!(!stop.is_raised());
        drop(cancel.cancel_on_drop());
        assert!(stop.is_raised());
        assert_eq!(stop.reason(), Some(StopReason::Cancelled));
    }

    #[test]
    fn a_child_is_cancelled_with_its_parent_only() {
        let parent = CancelHandle::new();
        let (child, other) = (parent.child(), parent.child());
        drop(child.cancel_on_drop());
        assert!(child.is_cancelled() && !parent.is_cancelled() && !other.is_cancelled());
        let grandchild = other.child();
        parent.cancel();
        assert!(other.is_cancelled() && grandchild.is_cancelled());
        assert!(parent.child().is_cancelled());
    }

    #[test]
    fn an_endless_timeout_does_not_overflow() {
        let deadline = Deadline::after(Duration::MAX, Arc::new(SystemClock));
        assert!(deadline.remaining() > Duration::from_secs(3600));
    }

    #[test]
    fn a_part_ends_no_later_than_the_whole() {
        let hour = Duration::from_secs(3600);
        let deadline = Deadline::after(hour, Arc::new(SystemClock));
        assert!(deadline.part(hour / 2).remaining() <= hour / 2);
        assert!(deadline.part(2 * hour).remaining() <= hour);
        assert!(deadline.part(Duration::ZERO).remaining().is_zero());
    }
}
