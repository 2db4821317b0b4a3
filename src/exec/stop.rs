//! Stopping: deadlines, cancellation, and answers that need no more work, visible to every worker.
//!
//! Owns the flag that long work polls. Workers never read a clock. The thread that waits for them
//! reads it, through the [`Clock`] that it was given, and raises the flag.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// A source of monotonic time, injected so that deadlines can be tested without sleeping.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the current instant.
    fn now(&self) -> Instant;
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        // This is the one place that reads the monotonic clock.
        #[allow(clippy::disallowed_methods)]
        Instant::now()
    }
}

/// Why a search was stopped before it had read everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// All results that the response can contain are known.
    Satisfied,
    /// The deadline passed (FR-LS-07).
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
/// let cancel = forge_search::internal::exec::stop::CancelHandle::new();
/// let for_the_tool = cancel.clone();
/// cancel.cancel();
/// assert!(for_the_tool.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<AtomicBool>);

impl CancelHandle {
    /// Creates a handle that is not cancelled.
    pub fn new() -> CancelHandle {
        CancelHandle::default()
    }

    /// Creates a handle for a flag that other code raises, such as a signal handler.
    pub fn from_flag(flag: Arc<AtomicBool>) -> CancelHandle {
        CancelHandle(flag)
    }

    /// Cancels the search, which returns within 50 ms.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns true once [`CancelHandle::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The flag that workers poll between steps.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicU8>);

impl Stop {
    /// Creates a flag that is not raised.
    pub fn new() -> Stop {
        Stop::default()
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
            .0
            .compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns the reason once the flag was raised. Costs one atomic load.
    pub fn reason(&self) -> Option<StopReason> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(StopReason::Satisfied),
            2 => Some(StopReason::TimedOut),
            3 => Some(StopReason::Cancelled),
            _ => Some(StopReason::Failed),
        }
    }

    /// Returns true once the flag was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
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
