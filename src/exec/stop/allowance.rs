//! The time that a call allows for one kind of work: comparing and updating an index. `indexes`
//! and `sources::catalog` spend it in portions, on several threads.
//!
//! This module owns how the portions add up: while several threads work at once, that time counts
//! once.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::exec::stop::{Clock, Deadline};
use crate::format::mutex::lock;

/// The time that a call allows for one kind of work.
#[derive(Debug)]
pub(crate) struct Allowance {
    clock: Arc<dyn Clock>,
    most: Duration,
    pieces: Mutex<Pieces>,
}

#[derive(Debug, Default)]
struct Pieces {
    /// Threads that spend time now.
    active: usize,
    /// When the first of these threads started.
    since: Option<Instant>,
    /// The time that was spent before.
    used: Duration,
}

impl Allowance {
    /// Creates an allowance of `most`.
    pub(crate) fn new(most: Duration, clock: Arc<dyn Clock>) -> Allowance {
        Allowance {
            clock,
            most,
            pieces: Mutex::default(),
        }
    }

    /// Returns the spent time, without pieces that are still running.
    pub(crate) fn used(&self) -> Duration {
        lock(&self.pieces).used
    }

    /// Returns the remaining time, without pieces that are still running.
    pub(crate) fn left(&self) -> Duration {
        self.most.saturating_sub(self.used())
    }

    /// Subtracts time that was measured elsewhere.
    pub(crate) fn spend(&self, time: Duration) {
        let mut pieces = lock(&self.pieces);
        pieces.used = pieces.used.saturating_add(time);
    }

    /// Runs `work` and subtracts its time. `work` gets a function that returns true while time
    /// remains.
    pub(crate) fn time<T>(&self, work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> T) -> T {
        let now = self.clock.now();
        let deadline = {
            let mut pieces = lock(&self.pieces);
            pieces.active += 1;
            let since = *pieces.since.get_or_insert(now);
            let left = self.most.saturating_sub(pieces.used);
            Deadline::since(since, left, self.clock.clone())
        };
        let value = work(&|| !deadline.remaining().is_zero());
        let now = self.clock.now();
        let mut pieces = lock(&self.pieces);
        pieces.active -= 1;
        if pieces.active == 0
            && let Some(since) = pieces.since.take()
        {
            let time = now.saturating_duration_since(since);
            pieces.used = pieces.used.saturating_add(time);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::exec::stop::SystemClock;

    /// A clock that a test advances.
    #[derive(Debug)]
    struct Moved(Instant, AtomicU64);

    impl Moved {
        fn on(&self, ms: u64) {
            self.1.fetch_add(ms, Ordering::Relaxed);
        }
    }

    impl Clock for Moved {
        fn now(&self) -> Instant {
            self.0 + Duration::from_millis(self.1.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn pieces_add_up_and_threads_at_once_count_once() {
        let ms = Duration::from_millis;
        let clock = Arc::new(Moved(SystemClock.now(), AtomicU64::new(0)));
        let allowance = Allowance::new(ms(100), clock.clone());
        allowance.spend(ms(10));
        allowance.time(|is_in_time| {
            clock.on(20);
            allowance.time(|_| clock.on(30));
            clock.on(30);
            assert!(is_in_time());
        });
        assert_eq!((allowance.used(), allowance.left()), (ms(90), ms(10)));
        clock.on(1000);
        allowance.time(|is_in_time| {
            clock.on(9);
            assert!(is_in_time());
            clock.on(1);
            assert!(!is_in_time());
        });
        assert_eq!((allowance.used(), allowance.left()), (ms(100), ms(0)));
    }
}
