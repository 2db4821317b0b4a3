//! A host for builds alongside searches: throttled, limited by a budget, and observable from any
//! thread.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{WallClock, pause, system_wall_clock};
use crate::exec::stop::CancelHandle;
use crate::format::mutex::lock;
use crate::index::builder::{BuildHost, Phase, Progress};
use crate::index::pace::{Activity, BudgetError, BuildBudget, Pace, Pacer, Piece};

/// Runs one build alongside searches. The build pauses as configured while a search runs. It ends
/// when it exceeds its budget or is cancelled, and it reports its progress. Run the build in a
/// [`background_pool`](crate::index::pace::background_pool): the threads of that pool have a lower
/// priority.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use forge_search::internal::exec::indexes::Background;
/// use forge_search::internal::exec::stop::{CancelHandle, SystemClock};
/// use forge_search::internal::index::builder::BuildHost;
/// use forge_search::internal::index::pace::{Activity, BuildBudget, Pace};
///
/// let pace = Pace {
///     processors: 2,
///     max_cpu_percent: 50,
///     throttle_ms: 0,
///     idle_boost_ms: 1_000,
/// };
/// let budget = BuildBudget {
///     max_ms: 60_000,
///     max_files: 1_000_000,
///     max_bytes: u64::MAX,
/// };
/// let activity = Arc::new(Activity::new(Arc::new(SystemClock)));
/// let host = Background::within(pace, budget, activity, CancelHandle::new());
/// let monitor = host.monitor();
/// assert!(host.may_go_on(1_000_000, u64::MAX).is_ok());
/// assert_eq!(monitor.report().files_done, 0);
/// ```
pub struct Background {
    cancel: CancelHandle,
    pacer: Pacer,
    budget: BuildBudget,
    monitor: Arc<BuildMonitor>,
    wall: WallClock,
}

impl Background {
    /// Creates the host of a build that starts now, limited by a pace and a budget. `activity`
    /// knows the searches that the build yields to.
    pub fn within(
        pace: Pace,
        budget: BuildBudget,
        activity: Arc<Activity>,
        cancel: CancelHandle,
    ) -> Background {
        Background {
            cancel,
            pacer: Pacer::new(pace, activity.clone()),
            budget,
            monitor: Arc::new(BuildMonitor::new(activity)),
            wall: system_wall_clock(),
        }
    }

    /// Sets the wall clock of the build, instead of that of the system.
    #[must_use]
    pub fn on_wall_clock(mut self, wall: WallClock) -> Background {
        self.wall = wall;
        self
    }

    /// Returns a monitor of the build's progress. It stays usable after the host is dropped.
    pub fn monitor(&self) -> Arc<BuildMonitor> {
        self.monitor.clone()
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("cancel", &self.cancel)
            .field("pacer", &self.pacer)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.monitor.end();
    }
}

impl BuildHost for Background {
    fn now_ns(&self) -> i64 {
        (self.wall)()
    }

    fn pause(&self, time: Duration) {
        self.pacer.wait(|| {
            pause(time, &self.cancel);
        });
    }

    fn progress(&self, progress: Progress) {
        self.monitor.set(progress);
    }

    fn stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }

    fn threads(&self, most: usize) -> usize {
        self.pacer.threads(most)
    }

    fn worked(&self, threads: usize, piece: Piece) {
        self.pacer.rest(threads, piece, &mut |time| {
            // A pause never lasts longer than the rest of the time budget.
            let left_ms = self.budget.left_ms(self.monitor.elapsed_ms());
            left_ms > 0 && pause(time.min(Duration::from_millis(left_ms)), &self.cancel)
        });
    }

    fn may_go_on(&self, files: u64, bytes: u64) -> Result<(), BudgetError> {
        self.budget.check(self.monitor.elapsed_ms(), files, bytes)
    }
}

/// Reports the progress of a build to any thread at any time. The build never waits for a reader.
#[derive(Debug)]
pub struct BuildMonitor {
    activity: Arc<Activity>,
    start_ms: u64,
    seen: Mutex<LastProgress>,
}

/// The last progress that the build reported.
#[derive(Clone, Copy, Debug, Default)]
struct LastProgress {
    progress: Option<Progress>,
    end_ms: Option<u64>,
}

/// The progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildReport {
    /// The phase (`build_phase`); `None` before the first phase.
    pub phase: Option<Phase>,
    /// The number of files (`build_files_total`); zero while it is not known.
    pub files_total: u64,
    /// The number of files done (`build_files_done`).
    pub files_done: u64,
    /// The time since the start of the build, or the duration of a build that has ended, in
    /// milliseconds (`build_elapsed_ms`).
    pub elapsed_ms: u64,
    /// Whether the build has ended. Only reports of running builds are sent and stored.
    #[serde(skip)]
    pub ended: bool,
}

impl BuildMonitor {
    fn new(activity: Arc<Activity>) -> BuildMonitor {
        BuildMonitor {
            start_ms: activity.now_ms(),
            activity,
            seen: Mutex::default(),
        }
    }

    /// Returns the progress of the build.
    pub fn report(&self) -> BuildReport {
        let seen = *lock(&self.seen);
        let progress = seen.progress;
        BuildReport {
            phase: progress.map(|progress| progress.phase),
            files_total: progress.map_or(0, |progress| progress.files_total),
            files_done: progress.map_or(0, |progress| progress.files_done),
            elapsed_ms: seen
                .end_ms
                .unwrap_or_else(|| self.activity.now_ms())
                .saturating_sub(self.start_ms),
            ended: seen.end_ms.is_some(),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        self.activity.now_ms().saturating_sub(self.start_ms)
    }

    fn set(&self, progress: Progress) {
        lock(&self.seen).progress = Some(progress);
    }

    fn end(&self) {
        let now_ms = self.activity.now_ms();
        lock(&self.seen).end_ms.get_or_insert(now_ms);
    }
}
