//! How hard background indexing works: how much of the machine it takes, and when it gives up.
//!
//! Owns the arithmetic of throttling (`FR-LSI-BG-31`, `FR-LSI-BG-32`), what is known of searches that run beside a
//! build, the budget of a build (`FR-LSI-BUD-INIT-01`), and threads that stand back (`FR-LSI-BG-30`). It reads no
//! clock but the one that it is given, and knows neither builds nor configurations.
//!
//! A build that shares the machine with searches rests after each piece of work for as long as brings its share of
//! the processors down to the target, and for a fixed time after each batch of files. While nobody searches it does neither. A
//! rest ends as soon as that becomes so, since it would be for nobody any more. A search that starts in the middle of a batch
//! is noticed at its end; until then, what keeps the build out of the way is the priority of its threads.

mod activity;
mod budget;
mod pool;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use activity::{Activity, RunningSearch};
pub use budget::{BuildBudget, Exceeded};
pub use pool::{background_pool, stand_back};

/// The longest sleep between two looks at whether a rest is to end, in milliseconds.
const NAP_MS: u64 = 10;

/// The shortest rest in the middle of a batch, in milliseconds; less is added to the next one. Sleeping costs something itself, and is
/// not more exact than that.
const LEAST_REST_MS: u64 = 10;

/// Returns whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A source of monotonic time, injected so that nothing here has to be tested by sleeping.
pub trait Clock: Send + Sync {
    /// Returns the time since some moment in the past, in milliseconds. It never goes back.
    fn now_ms(&self) -> u64;
}

/// What a build may take of the machine while searches are being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The processors of the machine.
    pub processors: usize,
    /// The share of all of them that a build may take, in percent (`index_build_max_cpu_percent`).
    pub max_cpu_percent: u8,
    /// The pause after each batch of files beyond what the share asks for, in milliseconds (`index_build_throttle_ms`).
    pub throttle_ms: u64,
    /// How long nobody must have searched for a build to hold back no more, in milliseconds (`index_idle_boost_ms`).
    pub idle_boost_ms: u64,
}

/// What a build has just done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A batch of files.
    Batch,
    /// Anything else.
    Part,
}

impl Pace {
    /// Returns how many threads are to work at once, of those that could. Held back, as many as the share is worth: so there are
    /// processors left at any moment, and not only on average.
    pub fn threads(&self, most: usize, idle: bool) -> usize {
        if idle {
            return most.max(1);
        }
        let worth = self.processors.saturating_mul(self.percent() as usize) / 100;
        worth.clamp(1, most.max(1))
    }

    /// Returns the time to rest after `work_ms` milliseconds in which up to `threads` threads worked, in milliseconds: the least for
    /// which the share of processor time, over work and rest, is no more than it may be. After a batch comes the fixed
    /// pause on top of that.
    ///
    /// Serves `FR-LSI-BG-31`, `FR-LSI-BG-32`.
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

    /// Returns the part of a rest that the share asks for.
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

/// Holds one build to its pace.
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
    /// Rest that earlier work asked for, and that was too short for a sleep.
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

    /// Returns true while nobody searches, nor has for the time after which builds hold back no more.
    pub fn is_idle(&self) -> bool {
        self.activity.is_idle(self.pace.idle_boost_ms)
    }

    /// Returns how many threads are to work at once from now on, of those that could.
    pub fn threads(&self, most: usize) -> usize {
        self.pace.threads(most, self.is_idle())
    }

    /// Does what is no work, but waiting for something else; it asks for no rest.
    pub fn wait(&self, wait: impl FnOnce()) {
        let before_ms = self.activity.now_ms();
        wait();
        let now_ms = self.activity.now_ms();
        let waited_ms = now_ms.saturating_sub(before_ms);
        let mut state = self.lock();
        state.since_ms = state.since_ms.saturating_add(waited_ms).min(now_ms);
    }

    /// Takes the rest that the work since the last call asks for, in which up to `threads` threads worked. It is slept by `nap`, in
    /// pieces of at most 10 ms, and ends early when `nap` returns false or nobody searches any more.
    pub fn rest(&self, threads: usize, piece: Piece, nap: &mut dyn FnMut(Duration) -> bool) {
        let mut state = self.lock();
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

    /// Locks even after a panic elsewhere: numbers are always whole. A build does one thing after another, so this is never waited for.
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
