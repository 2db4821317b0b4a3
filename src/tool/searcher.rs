//! What the tools have in common: from a query to what it finds.
//!
//! Owns the engines, the indexes and the threads of a tool, when an index is asked about a request, and what happens when it turns out to be
//! damaged in use. What an index answers is for the indexes to decide; what requests and responses are, for the tools.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::exec::collect::Limits;
use crate::exec::eligible::{FileSource, WalkSource};
use crate::exec::engine::Prepared;
use crate::exec::query::Query;
use crate::exec::schedule::{self, Abandoned, Run, RunError, RunOptions};
use crate::exec::stop::{CancelHandle, Deadline};
use crate::index::pace::RunningSearch;
use crate::index::snapshot::Snapshot;
use crate::index::walk::Walk;
use crate::tool::config::SearchConfig;
use crate::tool::engines::Engines;
use crate::tool::error::ToolError;
use crate::tool::indexing::{Choice, Indexes, Question};
use crate::tool::response::IndexUse;

/// Patterns of at most this cost are compiled on the calling thread: that takes a few milliseconds.
const COST_COMPILED_IN_PLACE: usize = 2_000;

/// What is done with the files that a request is about.
pub(super) trait Work {
    /// What comes of it.
    type Found;

    /// Works through them.
    fn through<S: FileSource>(&self, source: S) -> Result<Self::Found, RunError>;

    /// What comes of it without any time.
    fn without_time(&self) -> Self::Found;
}

/// Searching them.
struct Search<'a> {
    prepared: Option<Arc<dyn Prepared>>,
    options: &'a RunOptions,
}

impl Work for Search<'_> {
    type Found = Run;

    fn through<S: FileSource>(&self, source: S) -> Result<Run, RunError> {
        run_source(source, self.prepared.clone(), self.options)
    }

    fn without_time(&self) -> Run {
        Run::without_time()
    }
}

/// What searches for a tool.
#[derive(Debug)]
pub(super) struct Searcher {
    /// The name of the tool.
    tool: &'static str,
    engines: Engines,
    /// Worker threads of a call. Asking the system how many it has takes longer than searching a few files.
    threads: usize,
    abandoned: Abandoned,
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
            threads,
            abandoned: Abandoned::default(),
            indexes: None,
            is_frozen: config.index_frozen,
            emit_stats: config.emit_stats,
        }
    }

    pub(super) fn with_indexes(self, indexes: Option<Arc<Indexes>>) -> Searcher {
        Searcher { indexes, ..self }
    }

    pub(super) fn indexes(&self) -> Option<&Arc<Indexes>> {
        self.indexes.as_ref()
    }

    pub(super) fn engines(&self) -> &Engines {
        &self.engines
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

    /// Searches a directory: with what an index leaves of it, or by a walk.
    pub(super) fn run_dir(
        &self,
        question: &Question,
        prepared: Option<Arc<dyn Prepared>>,
        options: &RunOptions,
    ) -> (Result<Run, RunError>, IndexUse) {
        let search = Search { prepared, options };
        let (run, index, _) = self.over_dir(question, options, &search);
        (run, index)
    }

    /// Has the files of a directory worked through: what an index leaves of them, or all that a walk finds. Returns what the index did, and
    /// the snapshot that was pinned, if one was.
    pub(super) fn over_dir<W: Work>(
        &self,
        question: &Question,
        options: &RunOptions,
        work: &W,
    ) -> (Result<W::Found, RunError>, IndexUse, Option<Arc<Snapshot>>) {
        let mut facts = IndexUse::not_used();
        if let Some(indexes) = &self.indexes {
            facts = indexes.not_chosen();
            let choice = match self.choose(indexes, question, options) {
                Ok(Some(choice)) => choice,
                Ok(None) => return (Ok(work.without_time()), facts, None),
                Err(error) => return (Err(error), facts, None),
            };
            facts = choice.index;
            if let Some(source) = choice.source {
                let failure = source.failure();
                let snapshot = source.pinned().cloned();
                let found = work.through(source);
                match failure.get() {
                    None => return (found, facts, snapshot),
                    // What was found does not count: the catalog was not whole.
                    Some(error) => facts = indexes.report_damage(&question.target.canonical, error),
                }
            }
        }
        let walk = walk(question);
        let source = WalkSource::new(walk, question.globs.clone());
        (work.through(source), facts, None)
    }

    /// Returns what `stats` say of the index when a single file is searched. Nobody else wants to know, so without
    /// them nothing is opened; and nobody waits for it beyond the deadline.
    pub(super) fn facts_for_file(&self, question: &Question, options: &RunOptions) -> IndexUse {
        let Some(indexes) = self.indexes.as_ref().filter(|_| self.emit_stats) else {
            return IndexUse::not_used();
        };
        let (opened, target) = (indexes.clone(), question.target.clone());
        let asked = question.traversal;
        let choose = move || opened.choose_for_file(&target, asked).index;
        let facts = schedule::within(options, choose).ok().flatten();
        facts.unwrap_or_else(|| indexes.not_chosen())
    }

    /// Asks the index about a request; nothing if the deadline came first.
    fn choose(
        &self,
        indexes: &Arc<Indexes>,
        question: &Question,
        options: &RunOptions,
    ) -> Result<Option<Choice>, RunError> {
        if self.is_frozen && indexes.is_opened(&question.target.canonical) {
            return Ok(Some(indexes.choose(question)));
        }
        // Looking at many directories, or opening an index, can't be interrupted.
        let (indexes, question) = (indexes.clone(), question.clone());
        schedule::within(options, move || indexes.choose(&question))
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

/// Searches the files of a source; without a query, since there was no time to compile it, none.
pub(super) fn run_source<S: FileSource>(
    source: S,
    prepared: Option<Arc<dyn Prepared>>,
    options: &RunOptions,
) -> Result<Run, RunError> {
    match prepared {
        Some(prepared) => schedule::run(source, prepared, options),
        None => Ok(Run::without_time()),
    }
}

/// Prepares the walk of a request over a directory.
fn walk(question: &Question) -> Walk {
    let Question {
        target, sandbox, ..
    } = question;
    let allowed = sandbox.clone();
    Walk::new(
        target.root.clone(),
        target.relative.clone(),
        question.traversal,
        sandbox.deny().clone(),
        Arc::new(move |path: &Path| allowed.locate(path)),
        question.global_excludes.as_deref(),
        sandbox.working_dir(),
    )
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

/// Says why a path that was asked for can't be searched.
pub(super) fn missing(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_string(),
        io::ErrorKind::PermissionDenied => format!("it is not readable ({error})"),
        _ => error.to_string(),
    }
}

pub(super) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
