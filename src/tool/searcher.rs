//! What the tools have in common: from a query to what it finds.
//!
//! Owns the engines, the indexes and the threads of a tool, when an index is asked about a request, and what happens when it turns out to be
//! damaged in use. What an index answers is for the indexes to decide; what requests and responses are, for the tools.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::exec::collect::Limits;
use crate::exec::engine::Prepared;
use crate::exec::indexes::{Comparing, RunningSearch};
use crate::exec::query::{Fuzziness, Query};
use crate::exec::question::FallbackPlan;
use crate::exec::schedule::{self, Abandoned, RunError, RunOptions};
use crate::exec::stop::{CancelHandle, Deadline};
use crate::tool::config::SearchConfig;
use crate::tool::engines::Engines;
use crate::tool::error::ToolError;
use crate::tool::indexing::{Choice, Indexes, Question};
use crate::tool::response::IndexUse;

#[cfg(feature = "daemon")]
mod working;

#[cfg(feature = "daemon")]
pub(super) use working::Work;

/// Calls that may be asking for an index at once, also those that gave up waiting for an answer. A
/// directory of indexes that hangs costs no more threads than this.
const ASKING_LIMIT: usize = 128;

/// Patterns of at most this cost are compiled on the calling thread: that takes a few milliseconds.
const COST_COMPILED_IN_PLACE: usize = 2_000;

/// What searches for a tool.
#[derive(Debug)]
pub(super) struct Searcher {
    /// The name of the tool.
    tool: &'static str,
    engines: Engines,
    /// Searches by similarity: no program finds all of it (`FR-SFI-FUZ-07`).
    similar: Engines,
    /// Worker threads of a call. Asking the system how many it has takes longer than searching a few files.
    threads: usize,
    abandoned: Abandoned,
    /// The threads that ask for an index.
    asking: Abandoned,
    indexes: Option<Arc<Indexes>>,
    /// Whether the user vouches that indexed trees do not change.
    is_frozen: bool,
    /// Whether anybody wants to know what an index had to do with an answer.
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
            abandoned: Abandoned::default(),
            asking: Abandoned::default(),
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

    /// Returns the engines for a query.
    pub(super) fn engines_for(&self, query: &Query) -> &Engines {
        match query.fuzzy {
            Some(Fuzziness::Score(_)) => &self.similar,
            _ => &self.engines,
        }
    }

    /// Makes the options of a call.
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

    /// Notes that a search runs, until the value is dropped.
    pub(super) fn searching(&self) -> Option<RunningSearch> {
        self.indexes.as_ref()?.searching()
    }

    /// Compiles the query for one of these engines; nothing if the deadline came first. What may take long is compiled on a thread that
    /// can be left behind.
    ///
    /// # Errors
    ///
    /// That of [`Engines::prepare`], and [`ToolError::Cancelled`].
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

    /// Returns what `stats` say of the index when a single file is searched. Nobody else wants to know, so without
    /// them nothing is opened; and nobody waits for it beyond the deadline.
    pub(super) fn facts_for_file(&self, question: &Question, options: &RunOptions) -> IndexUse {
        let Some(indexes) = self.indexes.as_ref().filter(|_| self.emit_stats) else {
            return IndexUse::not_used();
        };
        let (opened, path) = (indexes.clone(), question.target.canonical.clone());
        let asked = question.traversal;
        let describe = move |budget: &Deadline| {
            let choice = opened.describe_for_file(&path, asked, Some(budget));
            choice.index
        };
        let facts = self.within_budget(question.maintenance, options, describe);
        let out_of_time = || indexes.out_of_time(&question.target.canonical).index;
        facts.ok().flatten().unwrap_or_else(out_of_time)
    }

    /// Asks the index about a request, for no longer than the request's maintenance budget; nothing
    /// if the deadline of the call came first. `comparing` says when directories are compared.
    pub(super) fn choose(
        &self,
        indexes: &Arc<Indexes>,
        question: &Question,
        comparing: Comparing,
        options: &RunOptions,
    ) -> Result<Option<Choice>, RunError> {
        let before = options.deadline.remaining();
        let path = &question.target.canonical;
        let choice = if self.is_frozen && indexes.is_opened(path) {
            let budget = options.deadline.part(question.maintenance);
            Some(indexes.choose_within(question, &comparing, &budget))
        } else {
            let (indexes, asked) = (indexes.clone(), question.clone());
            let choose = move |budget: &Deadline| indexes.choose_within(&asked, &comparing, budget);
            self.within_budget(question.maintenance, options, choose)?
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

    /// Runs `ask` on a thread of its own, with the end of a budget as its deadline. Returns nothing
    /// if it does not return in time: reading a database, or a directory that hangs, can't be
    /// interrupted. That may take half of the time beyond the budget, so that the other half is
    /// left for the search.
    fn within_budget<T: Send + 'static>(
        &self,
        budget: Duration,
        options: &RunOptions,
        ask: impl FnOnce(&Deadline) -> T + Send + 'static,
    ) -> Result<Option<T>, RunError> {
        if self.asking.count() >= ASKING_LIMIT {
            return Ok(None);
        }
        let left = options.deadline.remaining();
        let longest = budget.saturating_add(left.saturating_sub(budget) / 2);
        let budget = options.deadline.part(budget);
        let options = RunOptions {
            deadline: options.deadline.part(longest),
            abandoned: self.asking.clone(),
            ..options.clone()
        };
        schedule::within(&options, move || ask(&budget))
    }

    /// Returns the error of a call that could not run.
    pub(super) fn no_run(&self, error: RunError) -> ToolError {
        match error {
            RunError::Cancelled => ToolError::Cancelled,
            RunError::NoWorkers(message) => self.failed(message),
        }
    }

    /// Returns the error of a call that failed.
    pub(super) fn failed(&self, message: String) -> ToolError {
        ToolError::ExecutionFailed {
            tool: self.tool.to_string(),
            message,
        }
    }
}

/// Writes a path with forward slashes; what is no UTF-8 in it as U+FFFD.
pub(super) fn slashed(path: &Path) -> String {
    let text = path.to_string_lossy();
    if std::path::MAIN_SEPARATOR == '/' {
        text.into_owned()
    } else {
        text.replace(std::path::MAIN_SEPARATOR, "/")
    }
}

/// Cuts what is said of a call to 200 characters.
pub(super) fn summarized(text: String) -> String {
    if text.chars().count() <= 200 {
        return text;
    }
    text.chars().take(199).chain(['…']).collect()
}

/// The words about a path that is not there.
pub(super) const ABSENT: &str = "it does not exist";

/// Says why a path that was asked for can't be searched.
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

/// Returns the approximate searches that follow an exact search for a text without a match: those of
/// the configured levels for which the text is long enough (FR-LSI-FUZ-01, FR-LSI-FUZ-G-01).
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
