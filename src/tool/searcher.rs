//! A searcher holds the engines, indexes and threads of a tool. `answering` and `over_dir` search
//! with it.
//!
//! This module owns the preparation of queries, the questions to the indexes, and the time limits
//! for decisions of an index. The indexes decide whether an index serves a request. The tools own
//! requests and responses.

#[cfg(feature = "daemon")]
mod over_dir;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::exec::answer::collect::Limits;
use crate::exec::as_text::shown;
use crate::exec::engine::Prepared;
use crate::exec::indexes::{ComparisonMode, DecisionTime, RunningSearch};
use crate::exec::question::FallbackPlan;
use crate::exec::question::query::{Fuzziness, Query};
use crate::exec::schedule::{self, AbandonedWorkers, RunError, RunOptions};
use crate::exec::stop::{CancelHandle, Deadline};
use crate::tool::config::SearchConfig;
use crate::tool::engines::Engines;
use crate::tool::error::ToolError;
use crate::tool::indexing::{IndexDecision, IndexRequest, Indexes};
use crate::tool::response::IndexUse;

/// The maximum number of threads that query the indexes, including abandoned ones. If the storage
/// of indexes hangs, no more threads hang with it.
const ASKING_LIMIT: usize = 128;

/// Patterns up to this cost are compiled on the calling thread, within a few milliseconds.
const COST_COMPILED_IN_PLACE: usize = 2_000;

/// The engines, threads and indexes with which a tool searches.
#[derive(Debug)]
pub(super) struct Searcher {
    /// The name of the tool.
    tool: &'static str,
    engines: Engines,
    /// The engine for similarity searches, which external programs can't run.
    similar: Engines,
    /// The number of worker threads of a call. Cached, since the system call takes longer than
    /// searching a few files.
    threads: usize,
    abandoned: AbandonedWorkers,
    /// The abandoned threads that wait for a decision of an index.
    asking: AbandonedWorkers,
    indexes: Option<Arc<Indexes>>,
    /// Whether the user guarantees that indexed trees do not change.
    is_frozen: bool,
    /// Whether responses report the use of an index.
    emit_stats: bool,
}

impl Searcher {
    pub(super) fn new(tool: &'static str, config: &SearchConfig, engines: Engines) -> Searcher {
        let threads = match config.threads {
            0 => std::thread::available_parallelism()
                .map_or(2, usize::from)
                .min(32),
            n => n,
        };
        Searcher {
            tool,
            engines,
            similar: Engines::embedded(),
            threads,
            abandoned: AbandonedWorkers::default(),
            asking: AbandonedWorkers::default(),
            indexes: None,
            is_frozen: config.index_frozen,
            emit_stats: config.emit_stats,
        }
    }

    pub(super) fn with_indexes(self, indexes: Option<Arc<Indexes>>) -> Searcher {
        Searcher { indexes, ..self }
    }

    /// Returns the name of the tool.
    pub(super) fn tool(&self) -> &'static str {
        self.tool
    }

    pub(super) fn indexes(&self) -> Option<&Arc<Indexes>> {
        self.indexes.as_ref()
    }

    pub(super) fn engines(&self) -> &Engines {
        &self.engines
    }

    /// Returns the engines for a query: similarity searches have their own.
    pub(super) fn engines_for(&self, query: &Query) -> &Engines {
        match query.fuzzy {
            Some(Fuzziness::Score(_)) => &self.similar,
            _ => &self.engines,
        }
    }

    /// Builds the options of a call.
    pub(super) fn options(
        &self,
        limits: Limits,
        deadline: Deadline,
        cancel: &CancelHandle,
    ) -> RunOptions {
        RunOptions {
            limits,
            threads: self.threads,
            deadline,
            cancel: cancel.clone(),
            abandoned: self.abandoned.clone(),
        }
    }

    /// Registers a running search until the value is dropped.
    pub(super) fn searching(&self) -> Option<RunningSearch> {
        self.indexes.as_ref()?.searching()
    }

    /// Compiles the query for one of these engines. `None` if the deadline came first. An expensive
    /// pattern is compiled on a thread that the call can abandon.
    ///
    /// # Errors
    ///
    /// The errors of [`Engines::prepare`], and [`ToolError::Cancelled`].
    pub(super) fn prepare(
        &self,
        engines: &Engines,
        query: &Arc<Query>,
        options: &RunOptions,
    ) -> Result<Option<Arc<dyn Prepared>>, ToolError> {
        if query.pattern.cost() <= COST_COMPILED_IN_PLACE {
            return engines.prepare(query.clone(), self.tool).map(Some);
        }
        let (engines, query, tool) = (engines.clone(), query.clone(), self.tool);
        match schedule::within(options, move || engines.prepare(query, tool)) {
            Ok(prepared) => prepared.transpose(),
            Err(error) => Err(self.no_run(error)),
        }
    }

    /// Returns the `stats` about the index when a single file is searched. Only `stats` need them,
    /// so without `emit_stats` no index is opened. The maintenance allowance and the deadline limit
    /// the time.
    pub(super) fn facts_for_file(&self, request: &IndexRequest, options: &RunOptions) -> IndexUse {
        let Some(indexes) = self.indexes.as_ref().filter(|_| self.emit_stats) else {
            return IndexUse::not_used();
        };
        let (opened, path) = (indexes.clone(), request.target.canonical.clone());
        let asked = request.traversal;
        let describe = move |deadline: &Deadline| {
            let choice = opened.describe_for_file(&path, asked, Some(deadline));
            choice.index
        };
        let facts = self.within_allowance(request.maintenance, options, describe);
        let out_of_time = || indexes.out_of_time(&request.target.canonical).index;
        facts.ok().flatten().unwrap_or_else(out_of_time)
    }

    /// Asks the indexes whether one serves a request, within the request's maintenance allowance.
    /// `None` if the deadline of the call came first. `comparing` says when directories are
    /// compared.
    pub(super) fn choose(
        &self,
        indexes: &Arc<Indexes>,
        request: &IndexRequest,
        comparing: ComparisonMode,
        options: &RunOptions,
    ) -> Result<Option<IndexDecision>, RunError> {
        let before = options.deadline.remaining();
        let path = &request.target.canonical;
        let choice = if self.is_frozen && indexes.is_opened(path) {
            let deadline = options.deadline.part(request.maintenance);
            let time = DecisionTime {
                deadline: &deadline,
                cancel: &options.cancel,
            };
            Some(indexes.choose_within(request, &comparing, time))
        } else {
            let (indexes, asked) = (indexes.clone(), request.clone());
            let cancel = options.cancel.clone();
            let choose = move |deadline: &Deadline| {
                let cancel = &cancel;
                indexes.choose_within(&asked, &comparing, DecisionTime { deadline, cancel })
            };
            self.within_allowance(request.maintenance, options, choose)?
        };
        let after = options.deadline.remaining();
        let mut choice = match choice {
            None if after.is_zero() => return Ok(None),
            None => indexes.out_of_time(path),
            Some(choice) => choice,
        };
        choice.index.spent = before.saturating_sub(after);
        Ok(Some(choice))
    }

    /// Runs `ask` on its own thread, with the end of the allowance as its deadline. `None` if `ask`
    /// does not return in time: reading a database, or a directory that hangs, can't be
    /// interrupted.
    ///
    /// `ask` may exceed the allowance by half of the remaining time. The other half is left for the
    /// search.
    fn within_allowance<T: Send + 'static>(
        &self,
        allowance: Duration,
        options: &RunOptions,
        ask: impl FnOnce(&Deadline) -> T + Send + 'static,
    ) -> Result<Option<T>, RunError> {
        if self.asking.count() >= ASKING_LIMIT {
            return Ok(None);
        }
        let left = options.deadline.remaining();
        let longest = allowance.saturating_add(left.saturating_sub(allowance) / 2);
        let deadline = options.deadline.part(allowance);
        let options = RunOptions {
            deadline: options.deadline.part(longest),
            abandoned: self.asking.clone(),
            ..options.clone()
        };
        schedule::within(&options, move || ask(&deadline))
    }

    /// Converts the error of a call that could not run.
    pub(super) fn no_run(&self, error: RunError) -> ToolError {
        match error {
            RunError::Cancelled => ToolError::Cancelled,
            RunError::NoWorkers(message) => self.failed(message),
        }
    }

    /// Returns the error of a call that failed.
    pub(super) fn failed(&self, message: String) -> ToolError {
        ToolError::failed(self.tool, message)
    }
}

/// Formats a path with forward slashes and U+FFFD for invalid UTF-8.
pub(super) fn slashed(path: &Path) -> String {
    shown(path).into_owned()
}

/// Truncates a summary to 200 characters.
pub(super) fn summarized(text: String) -> String {
    if text.chars().count() <= 200 {
        return text;
    }
    text.chars().take(199).chain(['…']).collect()
}

/// The message about a path that does not exist.
pub(super) const ABSENT: &str = "it does not exist";

/// Returns the reason why a requested path can't be searched.
pub(super) fn missing(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => ABSENT.to_string(),
        io::ErrorKind::PermissionDenied => format!("it is not readable ({error})"),
        _ => error.to_string(),
    }
}

pub(super) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Returns the approximate searches that follow an exact search without a match: one for each
/// configured level for which the text is long enough.
pub(crate) fn fallback_plan(config: &SearchConfig, text: &str) -> FallbackPlan {
    if !config.fuzzy_fallback {
        return FallbackPlan::default();
    }
    let length = text.chars().count();
    let is_long_enough =
        |level: &u8| length >= config.fuzzy_min_pattern_len && length > usize::from(*level);
    let levels = config.fuzzy_fallback_levels.iter().copied();
    let long_enough: Vec<u8> = levels.filter(is_long_enough).collect();
    FallbackPlan {
        too_short: long_enough.len() < config.fuzzy_fallback_levels.len(),
        attempts: long_enough.into_iter().map(Fuzziness::Edits).collect(),
    }
}
