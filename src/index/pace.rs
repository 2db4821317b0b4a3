//! Pacing: limits how much of the machine background indexing uses, and how long a build may take.
//!
//! This module owns the throttling arithmetic, the record of searches that run during a build, the
//! budget of a build, low-priority threads, and [`SystemClock`]. All else gets a clock as an
//! argument. This module knows neither builds nor configurations.
//!
//! While searches run, a build rests after each piece of work, so that its share of the processors
//! stays within the target. After each batch of files it rests for an additional fixed time. Once
//! no search has run for a configured time, the build stops resting, and a rest in progress ends
//! early. A search that starts within a batch is noticed at the end of the batch. Until then, the
//! low priority of the build's threads protects the search.

mod activity;
mod budget;
mod pool;

use crate::format::mutex::lock;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use activity::{Activity, RunningSearch};
pub use budget::{BudgetError, BuildBudget};
pub use pool::{background_pool, lower_thread_priority};

/// The longest sleep before checking whether a rest has to end, in milliseconds.
const NAP_MS: u64 = 10;

/// The shortest rest within a batch, in milliseconds; shorter ones are added to the next rest.
/// Sleeping has a cost, and is not more precise than this.
const LEAST_REST_MS: u64 = 10;

/// Returns a duration in whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A source of monotonic time, passed in so that tests need not sleep.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the current instant.
    fn now(&self) -> Instant;
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        // Other modules get a clock as an argument; this is the usual one.
        #[allow(clippy::disallowed_methods)]
        Instant::now()
    }
}

/// The resources that a build may use while searches run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The number of processors of the machine.
    pub processors: usize,
    /// The share of all processors that a build may use, in percent
    /// (`index_build_max_cpu_percent`).
    pub max_cpu_percent: u8,
    /// The additional pause after each batch of files, in milliseconds (`index_build_throttle_ms`).
    pub throttle_ms: u64,
    /// How long no search must have run before a build is not throttled, in milliseconds
    /// (`index_idle_boost_ms`).
    pub idle_boost_ms: u64,
}

/// The kind of work that a build has just done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A batch of files.
    Batch,
    /// Any other part of the work.
    Part,
}

impl Pace {
    /// Returns the number of threads that may work at once, of `most`. A throttled build gets as
    /// many as its share is worth, so that processors stay free at any moment and not only on
    /// average.
    pub fn threads(&self, most: usize, idle: bool) -> usize {
        if idle {
            return most.max(1);
        }
        let worth = self.processors.saturating_mul(self.percent() as usize) / 100;
        worth.clamp(1, most.max(1))
    }

    /// Returns how long to rest, in milliseconds, after up to `threads` threads worked for
    /// `work_ms` milliseconds. The rest is the shortest that keeps the share of processor time,
    /// over work and rest, within the limit. After a batch, the fixed pause is added.
    pub fn rest_after(&self, work_ms: u64, threads: usize, piece: Piece, idle: bool) -> u64 {
        if idle {
            return 0;
        }
        let fixed = match piece {
            Piece::Batch => self.throttle_ms,
            Piece::Part => 0,
        };
        self.owed_after(work_ms, threads).saturating_add(fixed)
    }

    /// Returns the part of a rest that the processor share requires.
    fn owed_after(&self, work_ms: u64, threads: usize) -> u64 {
        let threads = threads.max(1) as u128;
        let taken = (u128::from(work_ms) * 100).saturating_mul(threads);
        let all = self.processors.max(1) as u128 * u128::from(self.percent());
        let whole = u64::try_from(taken.div_ceil(all)).unwrap_or(u64::MAX);
        whole.saturating_sub(work_ms)
    }

    fn percent(&self) -> u8 {
        self.max_cpu_percent.clamp(1, 100)
    }
}

/// Throttles one build.
#[derive(Debug)]
pub struct Pacer {
    pace: Pace,
    activity: Arc<Activity>,
    state: Mutex<Work>,
}

/// The work since the last rest.
#[derive(Clone, Copy, Debug)]
struct Work {
    since_ms: u64,
    /// Rest that is due for earlier work, but was too short for a sleep.
    owed_ms: u64,
}

impl Pacer {
    /// Creates the pacer of a build that starts now.
    pub fn new(pace: Pace, activity: Arc<Activity>) -> Pacer {
        let state = Mutex::new(Work {
            since_ms: activity.now_ms(),
            owed_ms: 0,
        });
        Pacer {
            pace,
            activity,
            state,
        }
    }

    /// Returns true if no search runs or has run for `idle_boost_ms`.
    pub fn is_idle(&self) -> bool {
        self.activity.is_idle(self.pace.idle_boost_ms)
    }

    /// Returns the number of threads that may work at once from now on, of `most`.
    pub fn threads(&self, most: usize) -> usize {
        self.pace.threads(most, self.is_idle())
    }

    /// Runs `wait`, which waits for something else. Its duration does not count as work.
    pub fn wait(&self, wait: impl FnOnce()) {
        let before_ms = self.activity.now_ms();
        wait();
        let now_ms = self.activity.now_ms();
        let waited_ms = now_ms.saturating_sub(before_ms);
        let mut state = lock(&self.state);
        state.since_ms = state.since_ms.saturating_add(waited_ms).min(now_ms);
    }

    /// Rests for the work that up to `threads` threads did since the last call. Calls `nap` to
    /// sleep for at most 10 ms at a time. Ends early if `nap` returns false, or once
    /// [`is_idle`](Pacer::is_idle) returns true.
    pub fn rest(&self, threads: usize, piece: Piece, nap: &mut dyn FnMut(Duration) -> bool) {
        let mut state = lock(&self.state);
        let start_ms = self.activity.now_ms();
        let work_ms = start_ms.saturating_sub(state.since_ms);
        let mut now_ms = start_ms;
        let idle = self.is_idle();
        let asked = self.pace.rest_after(work_ms, threads, piece, idle);
        let due_ms = state.owed_ms.saturating_add(asked);
        if piece == Piece::Part && due_ms < LEAST_REST_MS && !idle {
            state.owed_ms = due_ms;
        } else {
            while !self.is_idle() {
                let left_ms = due_ms.saturating_sub(now_ms.saturating_sub(start_ms));
                if left_ms == 0 || !nap(Duration::from_millis(left_ms.min(NAP_MS))) {
                    break;
                }
                now_ms = self.activity.now_ms();
            }
            state.owed_ms = 0;
        }
        state.since_ms = now_ms;
    }
}

#[cfg(test)]
mod tests;
