//! From a [`Question`] to its answer, for every surface that searches for lines or lists files.
//!
//! This module owns the steps of a call: compile the query, resolve the paths, choose a source for
//! each, search, and search approximately if nothing matched. If an index turns out to be damaged
//! during the search, the call searches again without it. The surfaces own requests, responses
//! and output. Ranked questions and ripgrep's command line have their own ways.

mod fallback;
mod sources;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exec::answer::collect::{Found, Limits};
use crate::exec::answer::handed_out::HandedOut;
use crate::exec::as_text::shown;
use crate::exec::question::query::{Fuzziness, Query};
use crate::exec::question::{IndexList, Question, QuestionError};
use crate::exec::schedule::{self, Run, RunError, RunOptions, Taker};
use crate::exec::sources::Sources;
use crate::exec::sources::eligible::{Globs, ORDERED};
use crate::exec::sources::reach::EntryKind;
use crate::exec::stop::Deadline;
use crate::exec::stop::allowance::Allowance;
use crate::tool::arguments;
use crate::tool::engines::Engines;
use crate::tool::error::ToolError;
use crate::tool::globs::{self, RepeatedPath};
use crate::tool::response::IndexUse;
use crate::tool::sandbox::Resolved;
use crate::tool::search::ToolContext;
use crate::tool::search_files::FILES_NAME;
use crate::tool::searcher::{Searcher, missing, to_usize};
pub(crate) use fallback::{Fallback, FallbackEnd};
use fallback::{PartsBuffer, is_ended_without_match};
use sources::{CatalogState, ChosenSources};

/// The circumstances of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The sandbox, the clock and the cancellation of the call.
    pub(crate) context: &'a ToolContext,
    /// The timeout, counted from the start of the call; `None` for no timeout.
    pub(crate) timeout: Option<Duration>,
    /// The fraction of the timeout for bringing an index up to date, see [`maintenance`].
    pub(crate) maintenance: f64,
}

/// The timeout of which the fraction for maintenance is taken if a call has no timeout.
const UNHURRIED: Duration = Duration::from_secs(20);

/// Returns the maintenance allowance of a call with this timeout, for all paths and approximate
/// searches together.
pub(crate) fn maintenance(timeout: Option<Duration>, fraction: f64) -> Duration {
    timeout.unwrap_or(UNHURRIED).mul_f64(fraction)
}

/// A searched path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// The canonical path.
    pub(crate) canonical: PathBuf,
    /// Whether it is a file. Paths relative to a file are empty.
    pub(crate) is_file: bool,
}

/// The end of an answer, after all its parts were passed on. A daemon sends the counts and the use
/// of the index to the program that asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Summary {
    /// The counts, the limits that truncated the answer, and the way it ended.
    pub(crate) run: Run,
    /// The searched paths, in the order of the question.
    #[serde(skip)]
    pub(crate) targets: Vec<Target>,
    /// The use of an index for this answer.
    pub(crate) index: IndexUse,
    /// The fuzziness of the matches, if only an approximate search matched.
    pub(crate) approximate: Option<Fuzziness>,
    /// The outcome of approximate searches.
    pub(crate) fallback: Fallback,
    /// The globs that repeat the searched path, and were therefore replaced.
    #[serde(skip)]
    pub(crate) repeated: Vec<RepeatedPath>,
}

impl Summary {
    /// Returns the summary of an answer without results.
    #[cfg(feature = "cli")]
    pub(crate) fn of_nothing() -> Summary {
        Summary {
            run: Run {
                timed_out: false,
                ..Run::without_time()
            },
            targets: Vec::new(),
            index: IndexUse::not_used(),
            approximate: None,
            fallback: Fallback::default(),
            repeated: Vec::new(),
        }
    }

    /// Returns true if the deadline passed before the search, or an approximate search after it,
    /// had ended.
    pub(crate) fn timed_out(&self) -> bool {
        self.run.timed_out || matches!(self.fallback.ended, Some(FallbackEnd::TimedOut(_)))
    }
}

/// The compiled and resolved parts of a question that do not depend on fuzziness.
struct Prepared {
    filters: Globs,
    targets: Vec<TargetFile>,
}

/// A resolved path and its kind.
#[derive(Clone)]
struct TargetFile {
    resolved: Option<Resolved>,
    kind: TargetKind,
}

#[derive(Clone)]
enum TargetKind {
    File,
    Dir,
    /// The path can't be searched, for this reason. The answer has an error in its place.
    Missing(String),
}

impl Searcher {
    /// Answers a question. Passes the parts of the answer to `taker`, in emission order and while
    /// the search runs, and returns the summary.
    ///
    /// # Errors
    ///
    /// - [`ToolError::BadArgs`]: the question is invalid.
    /// - [`ToolError::SandboxViolation`]: a path must not be read.
    /// - [`ToolError::ExecutionFailed`]: the only path can't be searched, or an engine can't run.
    /// - [`ToolError::Cancelled`]: the host cancelled the call.
    pub(crate) fn answer(
        &self,
        question: &Question,
        call: &Call<'_>,
        taker: &mut Taker<'_>,
    ) -> Result<Summary, ToolError> {
        let context = call.context;
        let timeout = call.timeout.unwrap_or(Duration::MAX);
        // Compiling counts towards the timeout.
        let deadline = Deadline::since(context.started(), timeout, context.clock.clone());
        let limits = Limits {
            max_results: to_usize(question.limits.max_results),
            report: question.shown.report,
            max_files: question.limits.max_files,
        };
        let options = self.options(limits, deadline, &context.cancel);
        let at_target = globs::at_target(question, &context.sandbox);
        let question = &*at_target.question;
        let filters = question
            .filters()
            .map_err(|error| refused(self.tool(), error))?;
        let query = question.query(question.looked_for.fuzzy);
        let query = Arc::new(query.map_err(|error| refused(self.tool(), error))?);
        let listing = Engines::listing();
        let lists =
            question.looked_for.patterns.is_none() || question.shown.by_index != IndexList::None;
        let engines = match lists {
            true => &listing,
            false => self.engines_for(&query),
        };
        let engine = self.prepare(engines, &query, &options)?;
        let prepared = Prepared {
            filters,
            targets: self.targets(question, context)?,
        };
        // The search of a small tree may end before any thread sees the cancellation.
        if context.cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let _searching = self.searching();
        let mut held = PartsBuffer::new(!question.fallback.attempts.is_empty());
        let mut asked = AnswerRun {
            searcher: self,
            question,
            context,
            prepared: &prepared,
            options: &options,
            maintenance: Arc::new(Allowance::new(
                maintenance(call.timeout, call.maintenance),
                context.clock.clone(),
            )),
        };
        let (run, index) = match engine {
            Some(engine) => asked.search(&query, engine, &mut |found| held.take(found, taker))?,
            None => (Run::without_time(), self.not_chosen()),
        };
        let targets = prepared.targets.iter().map(TargetFile::shown).collect();
        log_search(&run, &index);
        let mut summary = Summary {
            run,
            targets,
            index,
            approximate: None,
            fallback: Fallback::default(),
            repeated: at_target.repeated,
        };
        if held.has_match || !is_ended_without_match(&summary.run) {
            held.flush(taker);
            return Ok(summary);
        }
        summary.fallback.wanted = true;
        asked.approximately(&mut summary, held, taker)?;
        Ok(summary)
    }

    /// Resolves the paths of a question.
    fn targets(
        &self,
        question: &Question,
        context: &ToolContext,
    ) -> Result<Vec<TargetFile>, ToolError> {
        let here = [PathBuf::from(".")];
        let paths = match question.files.paths.as_slice() {
            [] => &here[..],
            paths => paths,
        };
        let is_alone = paths.len() == 1;
        let mut targets = Vec::with_capacity(paths.len());
        for path in paths {
            let resolved = context.sandbox.resolve_path(path)?;
            let kind = kind_of(&resolved);
            if let (TargetKind::Missing(why), true) = (&kind, is_alone) {
                let path = shown(path);
                return Err(self.failed(format!("path `{path}` can't be searched: {why}")));
            }
            targets.push(TargetFile {
                resolved: Some(resolved),
                kind,
            });
        }
        Ok(targets)
    }

    fn not_chosen(&self) -> IndexUse {
        self.indexes()
            .map_or_else(IndexUse::not_used, |indexes| indexes.not_chosen())
    }
}

/// Logs the result of a search.
fn log_search(run: &Run, index: &IndexUse) {
    tracing::debug!(
        target: "forge_search::search",
        files = run.totals.files_scanned,
        excluded_by_index = run.totals.files_excluded,
        results = run.totals.results,
        timed_out = run.timed_out,
        index = index.index_state.state().as_str(),
        reason = index.index_state.reason(),
        "searched"
    );
}

/// The setting that makes a pattern a literal text.
pub(crate) const AS_TEXT: &str = "fixed_strings = true";

/// Converts the error of an invalid question, with the field names of the tool.
pub(crate) fn refused(tool: &str, error: QuestionError) -> ToolError {
    let is_files = tool == FILES_NAME;
    let message = match error {
        QuestionError::Glob(error) => {
            let field = match (error.field, is_files) {
                (ORDERED, _) => "globs".to_string(),
                (field, true) => format!("{field}s"),
                (field, false) => field.to_string(),
            };
            format!("`{field}`: {}", error.message)
        }
        QuestionError::Pattern(error) => {
            let (field, as_text) = match is_files {
                true => ("query", "mode = \"exact\""),
                false => ("pattern", AS_TEXT),
            };
            match error.as_text {
                true => format!("`{field}`: {error}; {as_text} searches for the text as it is"),
                false => format!("`{field}`: {error}"),
            }
        }
        QuestionError::Type(error) => format!("`types`: {error}; `globs` takes globs"),
    };
    ToolError::bad_args(arguments::refused(&message))
}

fn kind_of(resolved: &Resolved) -> TargetKind {
    let meta = match resolved.root.metadata(&resolved.relative) {
        Ok(meta) => meta,
        Err(error) => return TargetKind::Missing(missing(&error)),
    };
    match meta.kind {
        EntryKind::Dir => TargetKind::Dir,
        // Opened once up front, so that an unreadable file that the question names is an error.
        EntryKind::File => match resolved.root.open_file(&resolved.relative) {
            Ok(_) => TargetKind::File,
            Err(error) => TargetKind::Missing(missing(&error)),
        },
        EntryKind::Symlink => TargetKind::Missing(
            "it is a symbolic link whose target does not exist, or a loop of links".to_string(),
        ),
        EntryKind::Other => {
            TargetKind::Missing("it is neither a regular file nor a directory".to_string())
        }
    }
}

impl TargetFile {
    fn shown(&self) -> Target {
        let resolved = self.resolved.as_ref();
        Target {
            canonical: resolved.map_or_else(PathBuf::new, |one| one.canonical.clone()),
            is_file: matches!(self.kind, TargetKind::File),
        }
    }
}

/// A question while it is being answered.
struct AnswerRun<'a> {
    searcher: &'a Searcher,
    question: &'a Question,
    context: &'a ToolContext,
    prepared: &'a Prepared,
    options: &'a RunOptions,
    /// The maintenance allowance, which all paths and approximate searches share.
    maintenance: Arc<Allowance>,
}

impl AnswerRun<'_> {
    /// Searches all paths with one query.
    fn search(
        &mut self,
        query: &Arc<Query>,
        engine: Arc<dyn crate::exec::engine::Prepared>,
        taker: &mut Taker<'_>,
    ) -> Result<(Run, IndexUse), ToolError> {
        let mut chosen = match self.choose(query) {
            Ok(Some(chosen)) => chosen,
            Ok(None) => return Ok((Run::without_time(), self.searcher.not_chosen())),
            Err(error) => return Err(self.searcher.no_run(error)),
        };
        let mut handed_out = HandedOut::default();
        let mut has_enough = false;
        let mut noting = |found: Found| {
            handed_out.note(&found);
            let flow = taker(found);
            has_enough |= flow.is_break();
            flow
        };
        let sources = Sources(std::mem::take(&mut chosen.sources));
        let before = self.maintenance.used();
        let run = schedule::run(sources, engine.clone(), self.options, &mut noting);
        let compared = self.maintenance.used().saturating_sub(before);
        chosen.index.spent += compared;
        if let Ok(run) = &run
            && !has_enough
            && let Some(index) = self.without_rest(&chosen, run)
        {
            return self.rest_by_walk(index, run, engine, &handed_out, taker);
        }
        let is_cut = chosen.is_cut;
        self.ended(run, chosen.index, &is_cut)
    }

    /// Returns the index use if a catalog source could not continue, because its catalog is damaged
    /// or the tree differs too much. `None` if no source stopped before the end of the answer.
    fn without_rest(&self, chosen: &ChosenSources, run: &Run) -> Option<IndexUse> {
        let indexes = self.searcher.indexes()?;
        let failed = |source: &CatalogState| {
            let target = self.prepared.targets.get(source.target);
            let resolved = target.and_then(|one| one.resolved.as_ref());
            let path = resolved.map_or_else(PathBuf::new, |one| one.canonical.clone());
            if let Some(error) = source.failure.get() {
                return Some(indexes.report_damage(&path, error));
            }
            let refusal = source.refusal.as_ref()?.get()?;
            if run.cuts.max_results || run.cuts.max_files {
                // A worker ahead of the others met the refusal. The answer ends before that place.
                return None;
            }
            // The index use describes the first path only.
            Some(match source.target {
                0 => IndexUse {
                    spent: chosen.index.spent,
                    ..indexes.refused(&path, refusal)
                },
                _ => chosen.index.clone(),
            })
        };
        chosen.watched.iter().find_map(failed)
    }

    /// Searches the rest without an index after a source has failed. The parts passed on so far are
    /// correct: catalog pages are checked, and directories compared, before their files are used.
    fn rest_by_walk(
        &self,
        index: IndexUse,
        before: &Run,
        engine: Arc<dyn crate::exec::engine::Prepared>,
        handed_out: &HandedOut,
        taker: &mut Taker<'_>,
    ) -> Result<(Run, IndexUse), ToolError> {
        let walked = self.by_walk();
        let mut rest = |found: Found| match handed_out.rest(found) {
            None => ControlFlow::Continue(()),
            Some(found) => taker(found),
        };
        let mut run = schedule::run(Sources(walked.sources), engine, self.options, &mut rest);
        if let Ok(run) = &mut run
            && run.timed_out
            && run.totals.files_scanned < before.totals.files_scanned
        {
            // The walk ended before the place that the failed search had reached.
            (run.totals, run.cuts) = (before.totals, before.cuts);
        }
        self.ended(run, index, &walked.is_cut)
    }

    fn ended(
        &self,
        run: Result<Run, RunError>,
        index: IndexUse,
        is_cut: &AtomicBool,
    ) -> Result<(Run, IndexUse), ToolError> {
        let mut run = run.map_err(|error| self.searcher.no_run(error))?;
        let went_through = !run.cuts.max_results && !run.cuts.max_files && !run.timed_out;
        run.cuts.max_depth = went_through && is_cut.load(Ordering::Relaxed);
        Ok((run, index))
    }
}
