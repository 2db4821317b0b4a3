//! Which files would be searched, as the answer of an engine that looks into none.
//!
//! Owns nothing but that: order, limits, errors and cancellation are those of every search.

use std::sync::Arc;

use crate::exec::eligible::EligibleFile;
use crate::exec::engine::{
    Batching, Capabilities, Engine, EngineError, EngineId, Prepared, Worker,
};
use crate::exec::event::{Event, EventKind, FileOutcome};
use crate::exec::query::Query;
use crate::exec::stop::Stop;

/// Files that are looked at between two looks at the stop flag.
const BATCH: usize = 1_024;

/// An engine that has one event for each file, on no line, whatever is asked.
#[derive(Debug)]
pub struct Lister(Which);

#[derive(Debug)]
struct Which {
    id: EngineId,
    /// Files that are too large are left out, for which each is looked at.
    by_size: bool,
}

impl Default for Lister {
    fn default() -> Lister {
        Lister(Which {
            id: EngineId("list".to_string()),
            by_size: false,
        })
    }
}

impl Lister {
    /// The same, without files that are larger than a query searches, for which the system is asked about each.
    pub fn of_size() -> Lister {
        Lister(Which {
            by_size: true,
            ..Lister::default().0
        })
    }
}

impl Engine for Lister {
    fn id(&self) -> &EngineId {
        &self.0.id
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            full_regex: true,
            fuzzy: false,
            file_lists: true,
        }
    }

    fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, EngineError> {
        Ok(Arc::new(Listing {
            most: self.0.by_size.then_some(query.max_file_size),
        }))
    }
}

#[derive(Debug)]
struct Listing {
    /// The largest size of a file, if that counts.
    most: Option<u64>,
}

impl Prepared for Listing {
    fn batching(&self) -> Batching {
        Batching {
            min_files: 1,
            max_files: BATCH,
        }
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
    /// Says whether a file would be searched, as far as its size goes. One that can't be looked at would be.
    fn is_small(&self, file: &EligibleFile) -> bool {
        !self.most.is_some_and(|most| {
            let meta = std::fs::metadata(file.absolute());
            meta.is_ok_and(|meta| meta.len() > most)
        })
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
            if !self.is_small(file) {
                emit(nth, FileOutcome::nothing());
                continue;
            }
            let event = Event {
                kind: EventKind::Match {
                    column: 1,
                    text: String::new(),
                },
                line_number: 0,
                line: String::new(),
                each: Vec::new(),
            };
            let outcome = FileOutcome {
                events: vec![event],
                ..FileOutcome::nothing()
            };
            emit(nth, outcome);
        }
        Ok(())
    }
}
