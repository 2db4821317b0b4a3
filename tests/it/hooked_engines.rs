//! Engines for tests: the embedded engine with a hook before each search, and the error of an
//! engine that fails.

use std::fmt;
use std::sync::Arc;

use forge_search::internal::exec::answer::outcome::FileOutcome;
use forge_search::internal::exec::engine::embedded::Embedded;
use forge_search::internal::exec::engine::{
    Batching, Engine, EngineError, EngineId, Prepared, Worker,
};
use forge_search::internal::exec::question::query::Query;
use forge_search::internal::exec::sources::eligible::EligibleFile;
use forge_search::internal::exec::stop::Stop;
use forge_search::internal::tool::engines::Engines;

/// Called before a run of files is searched; an error makes the engine fail there.
pub(crate) type Hook = dyn Fn(&[EligibleFile]) -> Result<(), EngineError> + Send + Sync;

/// The embedded engine behind a hook. The test may choose the size of its tasks.
#[derive(Clone)]
pub(crate) struct Hooked {
    id: EngineId,
    inner: Arc<Embedded>,
    batching: Option<Batching>,
    takes_file_lists: bool,
    hook: Arc<Hook>,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").finish_non_exhaustive()
    }
}

impl Hooked {
    pub(crate) fn new(
        hook: impl Fn(&[EligibleFile]) -> Result<(), EngineError> + Send + Sync + 'static,
    ) -> Hooked {
        Hooked {
            id: EngineId("hooked".to_string()),
            inner: Arc::new(Embedded::default()),
            batching: None,
            takes_file_lists: true,
            hook: Arc::new(hook),
        }
    }

    pub(crate) fn batching(mut self, min_files: usize, max_files: usize) -> Hooked {
        self.batching = Some(Batching {
            min_files,
            max_files,
        });
        self
    }

    /// Makes the engine report that it cannot take lists of files.
    pub(crate) fn without_lists(mut self) -> Hooked {
        self.takes_file_lists = false;
        self
    }

    pub(crate) fn engines(self) -> Engines {
        Engines::new(vec![Arc::new(self)], String::new())
    }
}

impl Engine for Hooked {
    fn id(&self) -> &EngineId {
        &self.id
    }

    fn takes_file_lists(&self) -> bool {
        self.takes_file_lists
    }

    fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, EngineError> {
        Ok(Arc::new(PreparedHooked {
            inner: self.inner.prepare(query)?,
            batching: self.batching,
            hook: self.hook.clone(),
        }))
    }
}

struct PreparedHooked {
    inner: Arc<dyn Prepared>,
    batching: Option<Batching>,
    hook: Arc<Hook>,
}

impl Prepared for PreparedHooked {
    fn batching(&self) -> Batching {
        self.batching.unwrap_or_else(|| self.inner.batching())
    }

    fn worker(&self, stop: Stop) -> Box<dyn Worker> {
        Box::new(WorkerHooked {
            inner: self.inner.worker(stop),
            hook: self.hook.clone(),
        })
    }
}

struct WorkerHooked {
    inner: Box<dyn Worker>,
    hook: Arc<Hook>,
}

impl Worker for WorkerHooked {
    fn search(
        &mut self,
        files: &[EligibleFile],
        emit: &mut dyn FnMut(usize, FileOutcome),
    ) -> Result<(), EngineError> {
        (self.hook)(files)?;
        self.inner.search(files, emit)
    }
}

/// Returns the error of a program that failed.
pub(crate) fn broken() -> EngineError {
    EngineError::Failed {
        message: "the engine broke".to_string(),
        stderr: Some("a complaint".to_string()),
    }
}
