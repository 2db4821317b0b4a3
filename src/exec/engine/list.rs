//! Listing: an engine that reports each eligible file without opening it.
//!
//! `answer::listed` has the paths in compact form. Order, limits, errors and cancellation are those
//! of every search. The query's report is `Report::Presence`. A worker is only needed to ask for
//! the sizes of files.

use std::sync::Arc;

use crate::exec::answer::outcome::FileOutcome;
use crate::exec::engine::{Batching, Engine, EngineError, EngineId, Prepared, Worker};
use crate::exec::question::query::Query;
use crate::exec::sources::eligible::EligibleFile;
use crate::exec::stop::Stop;

/// The most files of one task.
const BATCH: usize = 1_024;

/// An engine that reports each file as if it matched. If the query has a largest size, it asks the
/// system for the size of each file.
#[derive(Debug)]
pub struct ListEngine(EngineId);

impl Default for ListEngine {
    fn default() -> ListEngine {
        ListEngine(EngineId("list".to_string()))
    }
}

impl Engine for ListEngine {
    fn id(&self) -> &EngineId {
        &self.0
    }

    fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, EngineError> {
        Ok(Arc::new(Listing {
            most: Some(query.max_file_size).filter(|most| *most < u64::MAX),
        }))
    }
}

#[derive(Debug)]
struct Listing {
    /// The largest size of a file, if there is one.
    most: Option<u64>,
}

impl Prepared for Listing {
    fn batching(&self) -> Batching {
        Batching {
            min_files: 1,
            max_files: BATCH,
        }
    }

    fn lists_all(&self) -> bool {
        self.most.is_none()
    }

    fn worker(&self, stop: Stop) -> Box<dyn Worker> {
        Box::new(Names {
            stop,
            most: self.most,
        })
    }
}

struct Names {
    stop: Stop,
    most: Option<u64>,
}

impl Names {
    /// Returns the size of a file that is too large. A file without readable metadata counts as
    /// small enough.
    fn size_beyond(&self, file: &EligibleFile) -> Option<u64> {
        let most = self.most?;
        let meta = std::fs::metadata(file.absolute()).ok()?;
        Some(meta.len()).filter(|size| *size > most)
    }
}

impl Worker for Names {
    fn search(
        &mut self,
        files: &[EligibleFile],
        emit: &mut dyn FnMut(usize, FileOutcome),
    ) -> Result<(), EngineError> {
        for (nth, file) in files.iter().enumerate() {
            if self.stop.is_raised() {
                break;
            }
            let outcome = match self.size_beyond(file) {
                Some(size) => FileOutcome::too_large(size),
                None => FileOutcome::listed(),
            };
            emit(nth, outcome);
        }
        Ok(())
    }
}
