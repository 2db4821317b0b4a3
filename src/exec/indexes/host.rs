//! Hosts of builds: [`Foreground`] for builds that a user waits for, [`Background`] for builds that
//! run alongside searches.
//!
//! A host gives a build its clock and its pauses, stops it, and receives its progress. This module
//! owns the only function of this program that reads the wall clock. `tool` calls it too; lower
//! layers get the time as a value. It guarantees that a pause ends when the build has to stop. The
//! user interface decides how progress is shown; the `index::pace` layer decides how hard a build
//! works.

mod background;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::exec::stop::CancelHandle;
use crate::index::builder::{BuildHost, Progress};

pub use background::{Background, BuildMonitor, BuildReport};

/// The longest sleep between two checks of the stop flag.
const NAP: Duration = Duration::from_millis(10);

/// Returns the time in nanoseconds since the Unix epoch.
pub fn wall_clock_ns() -> i64 {
    // The only place that reads the wall clock: timestamps of files are compared with it, and
    // indexes are dated with it.
    #[allow(clippy::disallowed_methods)]
    let now = SystemTime::now();
    match now.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

/// Returns the wall clock time in nanoseconds since the Unix epoch, as used for timestamps of
/// files. The time may jump back or forward.
pub type WallClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Returns the wall clock of the system.
pub(super) fn system_wall_clock() -> WallClock {
    Arc::new(wall_clock_ns)
}

/// Sleeps, but ends within some milliseconds after a cancellation. Returns false if it was
/// cancelled.
fn pause(time: Duration, cancel: &CancelHandle) -> bool {
    let mut left = time;
    while !left.is_zero() && !cancel.is_cancelled() {
        let nap = left.min(NAP);
        std::thread::sleep(nap);
        left -= nap;
    }
    !cancel.is_cancelled()
}

/// Runs a build on the wall clock until it ends or is cancelled.
///
/// # Examples
///
/// ```
/// use forge_search::internal::exec::stop::CancelHandle;
/// use forge_search::internal::index::builder::BuildHost;
/// use forge_search::internal::exec::indexes::Foreground;
///
/// let cancel = CancelHandle::new();
/// let host = Foreground::new(cancel.clone()).with_progress(|progress| {
///     println!("{} of {} files", progress.files_done, progress.files_total);
/// });
/// cancel.cancel();
/// assert!(host.stopped());
/// ```
pub struct Foreground<'a> {
    cancel: CancelHandle,
    callback: Option<Box<dyn Fn(Progress) + Sync + 'a>>,
    on_waiting: Option<Box<dyn Fn() + Sync + 'a>>,
}

impl<'a> Foreground<'a> {
    /// Creates a host for builds that stop when `cancel` is set. An earlier index stays in place
    /// then.
    pub fn new(cancel: CancelHandle) -> Foreground<'a> {
        Foreground {
            cancel,
            callback: None,
            on_waiting: None,
        }
    }

    /// Sets `callback` to receive the progress of the build: at the start of each phase and after
    /// each batch of files.
    #[must_use]
    pub fn with_progress(mut self, callback: impl Fn(Progress) + Sync + 'a) -> Foreground<'a> {
        self.callback = Some(Box::new(callback));
        self
    }

    /// Sets `callback` to be called while the build waits for another process that holds the index
    /// lock.
    #[must_use]
    pub fn with_waiting(mut self, callback: impl Fn() + Sync + 'a) -> Foreground<'a> {
        self.on_waiting = Some(Box::new(callback));
        self
    }
}

impl fmt::Debug for Foreground<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreground")
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

impl BuildHost for Foreground<'_> {
    fn now_ns(&self) -> i64 {
        wall_clock_ns()
    }

    fn pause(&self, time: Duration) {
        pause(time, &self.cancel);
    }

    fn progress(&self, progress: Progress) {
        if let Some(callback) = &self.callback {
            callback(progress);
        }
    }

    fn waiting(&self) {
        if let Some(callback) = &self.on_waiting {
            callback();
        }
    }

    fn stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_when_the_build_is_cancelled() {
        let cancel = CancelHandle::new();
        let host = Foreground::new(cancel.clone());
        let before = wall_clock_ns();
        host.pause(Duration::from_millis(25));
        assert!(wall_clock_ns() - before >= 25_000_000);
        cancel.cancel();
        let before = wall_clock_ns();
        host.pause(Duration::from_secs(3600));
        assert!(wall_clock_ns() - before < 60_000_000_000);
    }

    #[test]
    fn the_wall_clock_says_what_the_filesystem_says() {
        let dir = tempfile::tempdir().unwrap();
        let modified = std::fs::metadata(dir.path()).unwrap().modified().unwrap();
        let since = modified.duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        assert!((wall_clock_ns() - since).abs() < 60_000_000_000);
    }
}
