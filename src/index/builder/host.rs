//! The interface between a build and its caller, the *host* of the build.
//!
//! The host provides the clock, the pauses, the limits and the number of threads. It can stop the
//! build, and it receives its progress.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::format::choices::choices;
use crate::index::pace::{BudgetError, Piece};

/// The host of a build: provides time, limits and cancellation, and receives progress reports.
pub trait BuildHost: Sync {
    /// Returns the time in nanoseconds since the Unix epoch.
    fn now_ns(&self) -> i64;

    /// Sleeps for the given time.
    fn pause(&self, time: Duration);

    /// Receives a progress report.
    fn progress(&self, progress: Progress);

    /// Is called with each directory, relative to the index root, before it is listed.
    fn entering(&self, _dir: &Path) {}

    /// Is called before each pause in which the build waits for another process to unlock the
    /// index.
    fn waiting(&self) {}

    /// Returns true if the build must stop.
    fn stopped(&self) -> bool;

    /// Returns true if the result of a stopped or over-budget build is kept, so that the next build
    /// can continue from it. Completing that result takes some time.
    fn keeps_unfinished(&self) -> bool {
        false
    }

    /// Returns the number of threads for the next batch of files; `most` is the limit.
    fn threads(&self, most: usize) -> usize {
        most
    }

    /// Is called after each piece of work, with the number of threads that may have worked on it. A
    /// host that throttles builds returns after a pause.
    fn worked(&self, _threads: usize, _piece: Piece) {}

    /// Decides whether the build may continue, given the number and total bytes of the files to
    /// tokenize. Both are zero until the tree is listed. Is called during the listing, after it,
    /// and after each batch.
    ///
    /// # Errors
    ///
    /// [`BudgetError`] ends the build. Its result until then is kept if
    /// [`keeps_unfinished`](Self::keeps_unfinished) says so.
    fn may_go_on(&self, _files: u64, _bytes: u64) -> Result<(), BudgetError> {
        Ok(())
    }
}

/// The progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// The number of completed files.
    pub files_done: u64,
    /// The number of files in total; zero while unknown.
    pub files_total: u64,
    /// The number of completed bytes.
    pub bytes_done: u64,
    /// The number of bytes in total.
    pub bytes_total: u64,
}

choices! {
    /// The phases of a build.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    Phase {
        /// The tree is listed.
        Enumerate = "ENUMERATE",
        /// Files are read and tokenized.
        Tokenize = "TOKENIZE",
        /// The segment is completed and published.
        Persist = "PERSIST",
        /// Searches start to use the new index.
        Activate = "ACTIVATE",
    }
}
