//! The one interface that every search engine implements.
//!
//! An engine says which lines of given files match. It never decides which files are searched
//! (FR-LSI-ELIG-01), in which order results appear or where they are cut: those are the scheduler's
//! and the collector's. Engines get explicit, ordered files and answer with one [`FileOutcome`] a file.

use std::fmt;
use std::sync::Arc;

use crate::exec::eligible::EligibleFile;
use crate::exec::event::FileOutcome;
use crate::exec::pattern::PatternError;
use crate::exec::query::Query;
use crate::exec::stop::Stop;

/// The identity of an engine: its kind and version, the `backend_id` of FR-LSI-BE-CAP-01.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineId(pub String);

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an engine can do (FR-LSI-BE-02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Regular expressions of the full dialect; without it only a subset is accepted, decided per
    /// pattern in [`Engine::prepare`].
    pub full_regex: bool,
    /// Approximate matching (`fuzzy`).
    pub fuzzy: bool,
    /// Explicit file lists, needed to leave files out safely.
    pub file_lists: bool,
}

/// Why an engine does not take a query or failed while running it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The query itself is unacceptable: invalid, too large or of an unsupported kind (FR-LS-SRC-02).
    #[error("{0}")]
    BadQuery(String),
    /// This engine lacks what the query needs, another one may have it (FR-LS-VAL-07).
    #[error("{0}")]
    NotCapable(String),
    /// The engine broke: it could not be started or its output could not be trusted (FR-LS-ERR-02,
    /// FR-LS-ERR-04).
    #[error("{message}")]
    Failed {
        /// What happened.
        message: String,
        /// What the program wrote to its standard error, capped.
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

    /// Returns what the engine can do.
    fn capabilities(&self) -> Capabilities;

    /// Compiles a query for this engine.
    ///
    /// # Errors
    ///
    /// [`EngineError::BadQuery`] and [`EngineError::NotCapable`], each with a message for the user.
    fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, EngineError>;
}

/// A query compiled for one engine, shared by all workers of a call.
pub trait Prepared: Send + Sync {
    /// Returns how many files one task should hold.
    fn batching(&self) -> Batching;

    /// Creates the state of one worker.
    fn worker(&self, stop: Stop) -> Box<dyn Worker>;
}

/// How files are grouped into tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Fewer files than this are only searched when no more are known yet to follow them.
    pub min_files: usize,
    /// A task never holds more files than this.
    pub max_files: usize,
}

/// The part of a prepared query that one thread owns: buffers, automata, processes.
pub trait Worker {
    /// Searches `files` in order and hands over one outcome for each, with its position in `files`, in
    /// ascending order. Returns early, possibly after a last incomplete outcome, once the stop flag is
    /// raised; files not reached then get no outcome.
    ///
    /// # Errors
    ///
    /// [`EngineError::Failed`] when the engine as a whole can't go on. Errors of single files are part
    /// of their outcome.
    fn search(
        &mut self,
        files: &[EligibleFile],
        emit: &mut dyn FnMut(usize, FileOutcome),
    ) -> Result<(), EngineError>;
}
