//! The interface of every search engine, and the engines in process: [`embedded`], the default, and
//! [`list`], which reports files without opening them. [`external`](crate::exec::external) has the
//! engines that run a program.
//!
//! An engine finds the matching lines of given files. It decides neither which files are searched,
//! nor the order of results, nor where they are truncated: the scheduler and the collector do. An
//! engine gets explicit, ordered files, and emits the [`FileOutcome`]s of each file in order. A
//! large file may have several. After a stop, the remaining files have none.

pub mod embedded;
pub mod list;

use std::fmt;
use std::sync::Arc;

use crate::exec::answer::outcome::FileOutcome;
use crate::exec::matching::pattern::PatternError;
use crate::exec::question::query::Query;
use crate::exec::sources::eligible::EligibleFile;
use crate::exec::stop::Stop;

/// The identity of an engine: its kind and version. Index keys and stats have it as `backend_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineId(pub String);

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why an engine refused a query, or failed while it ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The query is invalid, too large or of an unsupported kind.
    #[error("{0}")]
    BadQuery(String),
    /// This engine lacks a capability that the query needs. Another engine may have it.
    #[error("{0}")]
    NotCapable(String),
    /// The engine failed: it could not be started, or its output could not be trusted.
    #[error("{message}")]
    Failed {
        /// The error message.
        message: String,
        /// The standard error of the program, truncated.
        stderr: Option<String>,
    },
}

impl From<PatternError> for EngineError {
    fn from(error: PatternError) -> EngineError {
        EngineError::BadQuery(error.to_string())
    }
}

/// A search engine.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Returns the engine's identity.
    fn id(&self) -> &EngineId;

    /// Returns whether the engine takes explicit lists of files. Without them, no index may leave
    /// files out.
    fn takes_file_lists(&self) -> bool {
        true
    }

    /// Compiles a query for this engine.
    ///
    /// # Errors
    ///
    /// [`EngineError::BadQuery`] if the query is invalid, and [`EngineError::NotCapable`] if this
    /// engine can't run it. Each has a message for the user.
    fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, EngineError>;
}

/// A query compiled for one engine, shared by all workers of a call.
pub trait Prepared: Send + Sync {
    /// Returns how files are grouped into tasks.
    fn batching(&self) -> Batching;

    /// Returns true if the answer is each file of the source. Then no worker is asked.
    fn lists_all(&self) -> bool {
        false
    }

    /// Creates the state of one worker.
    fn worker(&self, stop: Stop) -> Box<dyn Worker>;
}

/// How files are grouped into tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// While fewer files than this are known, workers list further before they search, if there is
    /// more to list.
    pub min_files: usize,
    /// The most files of a task.
    pub max_files: usize,
}

/// The part of a prepared query that one thread owns: buffers, automata, processes.
pub trait Worker {
    /// Searches `files` in order and emits one outcome for each, with its position in `files`, in
    /// ascending order. If the query permits parts, several outcomes of a file may follow each
    /// other; all but the last of them have `continues`. Returns early once the stop flag is
    /// raised, possibly after a last incomplete outcome. Files that were not reached then get no
    /// outcome.
    ///
    /// # Errors
    ///
    /// [`EngineError::Failed`] if the engine as a whole can't continue. Errors of single files are
    /// part of their outcomes.
    fn search(
        &mut self,
        files: &[EligibleFile],
        emit: &mut dyn FnMut(usize, FileOutcome),
    ) -> Result<(), EngineError>;
}
