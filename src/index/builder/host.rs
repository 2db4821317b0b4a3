//! Hosts: what a build asks of whoever runs it, and what it tells.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::index::pace::{Exceeded, Piece};

/// What a build asks of whoever runs it.
pub trait BuildHost: Sync {
    /// Returns the time in nanoseconds since the Unix epoch.
    fn now_ns(&self) -> i64;

    /// Waits.
    fn pause(&self, time: Duration);

    /// Hears how far the build is.
    fn progress(&self, progress: Progress);

    /// Hears of each directory (relative to the index root) before it is listed.
    fn entering(&self, _dir: &Path) {}

    /// Hears, before each pause for it, that another process has the index locked.
    fn waiting(&self) {}

    /// Returns true when the build is to end.
    fn stopped(&self) -> bool;

    /// Returns true if what a build has done that is stopped, or that takes more than it may, is to be kept, for the next one to
    /// go on from (`FR-LSI-BG-41`). It then takes some time to end.
    fn keeps_unfinished(&self) -> bool {
        false
    }

    /// Returns how many threads are to work on the next batch of files, of the `most` that could (`FR-LSI-BG-31`).
    fn threads(&self, most: usize) -> usize {
        most
    }

    /// Hears that a piece of work is done on which up to `threads` threads worked since the last one. A host that
    /// holds builds back returns after a rest.
    fn worked(&self, _threads: usize, _piece: Piece) {}

    /// Says whether a build may go on that is to tokenize so many files with so many bytes in all, as far as that is known yet, and
    /// zero before. Asked after the tree is listed and after each batch.
    ///
    /// # Errors
    ///
    /// [`Exceeded`] ends the build; what it has done until then is kept if [that is wanted](Self::keeps_unfinished)
    /// (`FR-LSI-BUD-INIT-02`).
    fn may_go_on(&self, _files: u64, _bytes: u64) -> Result<(), Exceeded> {
        Ok(())
    }
}

/// How far a build is (FR-LSI-BG-21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// Files done.
    pub files_done: u64,
    /// Files there are; zero while that is not known.
    pub files_total: u64,
    /// Bytes done.
    pub bytes_done: u64,
    /// Bytes there are.
    pub bytes_total: u64,
}

/// The phases of a build (FR-LSI-BG-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Files are listed.
    Enumerate,
    /// Files are read.
    Tokenize,
    /// The segment is completed and published.
    Persist,
    /// The new index comes into use.
    Activate,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Phase; 4] = [
        Phase::Enumerate,
        Phase::Tokenize,
        Phase::Persist,
        Phase::Activate,
    ];

    /// Returns the phase that has a name.
    pub fn of_name(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.as_str() == name)
    }

    /// Returns the name that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Enumerate => "ENUMERATE",
            Phase::Tokenize => "TOKENIZE",
            Phase::Persist => "PERSIST",
            Phase::Activate => "ACTIVATE",
        }
    }
}
