//! From a [`Question`] to its answer, for every surface.
//!
//! Owns the steps of a call: compiling, finding out which paths are meant, choosing a source for
//! each, searching, and the approximate searches that follow when nothing matched. Requests,
//! responses and output are the surfaces' business.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exec::allowance::Allowance;
use crate::exec::catalog::comparing::Refusal;
use crate::exec::collect::{Found, Limits};
use crate::exec::eligible::{EligibleFile, Globs, ListSource, ORDERED, WalkSource};
use crate::exec::event::FileError;
use crate::exec::handed_out::HandedOut;
use crate::exec::indexes::Comparing;
use crate::exec::query::{Fuzziness, Query};
use crate::exec::question::{Question, QuestionError};
use crate::exec::reach::{EntryKind, join};
use crate::exec::schedule::{self, Run, RunError, RunOptions, Taker};
use crate::exec::sources::{PathSource, Sources};
use crate::exec::stop::Deadline;
use crate::format::error::FormatError;
use crate::tool::arguments;
use crate::tool::engines::Engines;
use crate::tool::error::ToolError;
use crate::tool::globs::{self, RepeatedPath};
use crate::tool::indexing;
use crate::tool::response::{FallbackSkipped, FallbackUse, IndexUse};
use crate::tool::sandbox::Resolved;
use crate::tool::search::ToolContext;
use crate::tool::search_files::FILES_NAME;
use crate::tool::searcher::{Searcher, missing, to_usize};

/// How a call is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Where it may read, its clock and its cancellation.
    pub(crate) context: &'a ToolContext,
    /// When it ends, counted from its start; `None` is never.
    pub(crate) timeout: Option<Duration>,
    /// The share of its time that may go into keeping an index up to date, see [`maintenance`].
    pub(crate) maintenance: f64,
}

/// The time from which the share for maintenance is taken where a call has no end.
const UNHURRIED: Duration = Duration::from_secs(20);

/// Returns how long a call with this timeout may spend on its index, all paths and approximate
/// searches together (FR-LSI-BUD-MAINT-01).
pub(crate) fn maintenance(timeout: Option<Duration>, fraction: f64) -> Duration {
    timeout.unwrap_or(UNHURRIED).mul_f64(fraction)
}

/// One of the paths that a question names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// The canonical path.
    pub(crate) canonical: PathBuf,
    /// It is a file, so that paths below it are empty.
    pub(crate) is_file: bool,
}

/// The end of an answer, after all its parts were handed out.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// Counts, limits that cut the answer, and how it ended.
    pub(crate) run: Run,
    /// The searched paths, as the question names them.
    pub(crate) targets: Vec<Target>,
    /// What an index had to do with it.
    pub(crate) index: IndexUse,
    /// How far the matches are from the pattern, if nothing matched as the question has it.
    pub(crate) approximate: Option<Fuzziness>,
    /// What came of approximate searches.
    pub(crate) fallback: Fallback,
    /// Globs that repeat the searched path, which are taken as others.
    pub(crate) repeated: Vec<RepeatedPath>,
}

impl Summary {
    /// The end of an answer of which nothing is known.
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

    /// Returns true if the deadline passed before the search, or an approximate one that followed,
    /// had ended.
    pub(crate) fn timed_out(&self) -> bool {
        self.run.timed_out || matches!(self.fallback.ended, Some(FallbackEnd::TimedOut(_)))
    }
}

/// What came of approximate searches after an exact one without a match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fallback {
    /// The exact search ended without a match.
    pub(crate) wanted: bool,
    /// Those that were made, in order.
    pub(crate) tried: Vec<Fuzziness>,
    /// Why they ended, if not all were made.
    pub(crate) ended: Option<FallbackEnd>,
}

impl Fallback {
    /// Returns the facts that `stats` have.
    pub(crate) fn to_use(&self, question: &Question) -> FallbackUse {
        let is_short = self.wanted && question.fallback.too_short;
        FallbackUse {
            tried: self.tried.iter().filter_map(|one| one.level()).collect(),
            skipped: match self.ended {
                Some(FallbackEnd::Found) => None,
                Some(FallbackEnd::Refused) => Some(FallbackSkipped::CapabilityMissing),
                _ => is_short.then_some(FallbackSkipped::PatternTooShort),
            },
            without_time: match self.ended {
                Some(FallbackEnd::NoTime(left) | FallbackEnd::TimedOut(left)) => left as u64,
                _ => 0,
            },
        }
    }
}

/// Why approximate searches ended before all were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FallbackEnd {
    /// The last one found a match.
    Found,
    /// No time was left for so many of them.
    NoTime(usize),
    /// The last one ran out of time, and none was left for so many others.
    TimedOut(usize),
    /// The pattern can't be searched for so.
    Refused,
    /// One of them failed.
    Failed,
}

/// A question with everything compiled and found out that does not depend on fuzziness.
struct Prepared {
    filters: Globs,
    targets: Vec<TargetFile>,
}

/// A searched path and what it is.
#[derive(Clone)]
struct TargetFile {
    resolved: Option<Resolved>,
    kind: TargetKind,
}

#[derive(Clone)]
enum TargetKind {
    File,
    Dir,
    /// It can't be searched, and the answer says why in its place.
    Missing(String),
}

impl Searcher {
    /// Answers a question: hands the parts of the answer to `taker`, in emission order and while the
    /// search goes on, and returns how it ended.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`] for a question that can't be asked, [`ToolError::SandboxViolation`]
    /// for a path that must not be read, [`ToolError::ExecutionFailed`] for a single path that
    /// can't be searched or an engine that can't run, and [`ToolError::Cancelled`].
    pub(crate) fn answer(
        &self,
        question: &Question,
        call: &Call<'_>,
        taker: &mut Taker<'_>,
    ) -> Result<Summary, ToolError> {
        let context = call.context;
        let timeout = call.timeout.unwrap_or(Duration::MAX);
        // Compiling is part of the time.
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
        let engines = match question.looked_for.patterns {
            Some(_) => self.engines_for(&query),
            None => &listing,
        };
        let engine = self.prepare(engines, &query, &options)?;
        let prepared = Prepared {
            filters,
            targets: self.targets(question, context)?,
        };
        let _searching = self.searching();
        let mut held = Held::new(!question.fallback.attempts.is_empty());
        let mut asked = Asked {
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

    /// Finds out what the paths of a question are.
    fn targets(
        &self,
        question: &Question,
        context: &ToolContext,
    ) -> Result<Vec<TargetFile>, ToolError> {
        let here = [PathBuf::from(".")];
        let paths = match question.scope.paths.as_slice() {
            [] => &here[..],
            paths => paths,
        };
        let is_alone = paths.len() == 1;
        let mut targets = Vec::with_capacity(paths.len());
        for path in paths {
            let resolved = context.sandbox.resolve_path(path)?;
            let kind = kind_of(&resolved);
            if let (TargetKind::Missing(why), true) = (&kind, is_alone) {
                let path = path.display();
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

/// Logs how a search went.
fn log_search(run: &Run, index: &IndexUse) {
    tracing::debug!(
        target: "forge_search::search",
        files = run.totals.files_scanned,
        excluded_by_index = run.totals.files_excluded,
        results = run.totals.results,
        timed_out = run.timed_out,
        index = index.standing.state().as_str(),
        reason = index.standing.reason(),
        "searched"
    );
}

/// The field that has a pattern searched for as a text.
pub(crate) const AS_TEXT: &str = "fixed_strings = true";

/// Returns the error of a question that can't be asked, in the words of a tool.
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
        // Opened once up front: a named file that can't be read is told of.
        EntryKind::File => match resolved.root.open_file(&resolved.relative) {
            Ok(_) => TargetKind::File,
            Err(error) => TargetKind::Missing(missing(&error)),
        },
        EntryKind::Symlink => TargetKind::Missing(
            "it is a symbolic link whose target does not exist or is itself".to_string(),
        ),
        EntryKind::Other => {
            TargetKind::Missing("it is neither a regular file nor a directory".to_string())
        }
    }
}

/// Returns true if everything was searched and no line matched (`ok_no_matches`, FR-LSI-EXIT-01).
fn is_ended_without_match(run: &Run) -> bool {
    let is_cut = run.cuts.max_results || run.cuts.max_files;
    run.totals.results == 0 && !is_cut && !run.timed_out && run.failure.is_none()
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

/// Parts of an answer that are held back until one of them has a match: before that, an approximate
/// search may take the place of all.
struct Held {
    parts: Vec<Found>,
    holds: bool,
    has_match: bool,
}

impl Held {
    fn new(holds: bool) -> Held {
        Held {
            parts: Vec::new(),
            holds,
            has_match: false,
        }
    }

    fn take(&mut self, found: Found, taker: &mut Taker<'_>) -> ControlFlow<()> {
        if let Found::File(file) = &found {
            self.has_match |= file.outcome.has_match();
        }
        if self.holds && !self.has_match {
            self.parts.push(found);
            return ControlFlow::Continue(());
        }
        self.hand_over(taker)?;
        taker(found)
    }

    fn hand_over(&mut self, taker: &mut Taker<'_>) -> ControlFlow<()> {
        std::mem::take(&mut self.parts)
            .into_iter()
            .try_for_each(taker)
    }

    /// Hands out the rest.
    fn flush(mut self, taker: &mut Taker<'_>) {
        // Nothing comes after it, so it does not matter whether the taker wants more.
        let _ = self.hand_over(taker);
    }
}

/// One question as it is being asked.
struct Asked<'a> {
    searcher: &'a Searcher,
    question: &'a Question,
    context: &'a ToolContext,
    prepared: &'a Prepared,
    options: &'a RunOptions,
    /// The maintenance budget, which all paths and approximate searches share.
    maintenance: Arc<Allowance>,
}

impl Asked<'_> {
    /// Searches all paths for one query.
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

    /// Returns what an index had to do with an answer of which it could not give the rest, because its
    /// catalog was not whole, or because the tree differs too much; `None` if it could.
    fn without_rest(&self, chosen: &Chosen, run: &Run) -> Option<IndexUse> {
        let indexes = self.searcher.indexes()?;
        let failed = |source: &Watched| {
            let target = self.prepared.targets.get(source.target);
            let resolved = target.and_then(|one| one.resolved.as_ref());
            let path = resolved.map_or_else(PathBuf::new, |one| one.canonical.clone());
            if let Some(error) = source.failure.get() {
                return Some(indexes.report_damage(&path, error));
            }
            let refusal = source.refusal.as_ref()?.get()?;
            if run.cuts.max_results || run.cuts.max_files {
                // A worker that was ahead came upon it. The answer ends before that.
                return None;
            }
            // What is said is said of the first path.
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

    /// Searches without an index after a source has failed, for what was not handed out by then. What was is a whole
    /// part of the answer: pages of a catalog are checked, and directories compared, before they are used.
    fn rest_by_walk(
        &self,
        index: IndexUse,
        before: &Run,
        engine: Arc<dyn crate::exec::engine::Prepared>,
        handed_out: &HandedOut,
        taker: &mut Taker<'_>,
    ) -> Result<(Run, IndexUse), ToolError> {
        let walked = self.by_walk();
        let mut rest = |found: Found| match handed_out.has(&found) {
            true => ControlFlow::Continue(()),
            false => taker(found),
        };
        let mut run = schedule::run(Sources(walked.sources), engine, self.options, &mut rest);
        if let Ok(run) = &mut run
            && run.timed_out
            && run.totals.files_scanned < before.totals.files_scanned
        {
            // It did not even come to where the first one ended.
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

    /// Searches approximately, in the order of the question's fallback, until one search finds a
    /// match. If none does, the answer is that of the exact search, whose parts are held.
    fn approximately(
        &mut self,
        summary: &mut Summary,
        exact: Held,
        taker: &mut Taker<'_>,
    ) -> Result<(), ToolError> {
        let attempts = &self.question.fallback.attempts;
        for (nth, &fuzzy) in attempts.iter().enumerate() {
            let left = attempts.len() - nth;
            if self.options.deadline.remaining().is_zero() {
                summary.fallback.ended = Some(FallbackEnd::NoTime(left));
                break;
            }
            let Ok(query) = self.question.query(Some(fuzzy)).map(Arc::new) else {
                summary.fallback.ended = Some(FallbackEnd::Refused);
                break;
            };
            let searcher = self.searcher;
            let engine = match searcher.prepare(searcher.engines_for(&query), &query, self.options)
            {
                Ok(Some(engine)) => engine,
                Ok(None) => {
                    summary.fallback.ended = Some(FallbackEnd::NoTime(left));
                    break;
                }
                Err(ToolError::Cancelled) => return Err(ToolError::Cancelled),
                Err(_) => {
                    summary.fallback.ended = Some(FallbackEnd::Refused);
                    break;
                }
            };
            summary.fallback.tried.push(fuzzy);
            let mut held = Held::new(true);
            match self.search(&query, engine, &mut |found| held.take(found, taker)) {
                Ok((run, index)) if held.has_match => {
                    summary.run = run;
                    summary.index = index;
                    summary.approximate = Some(fuzzy);
                    summary.fallback.ended = Some(FallbackEnd::Found);
                    return Ok(());
                }
                Ok((run, _)) if run.timed_out => {
                    summary.fallback.ended = Some(FallbackEnd::TimedOut(left - 1));
                    break;
                }
                Ok((run, _)) if run.failure.is_some() => {
                    summary.fallback.ended = Some(FallbackEnd::Failed);
                    break;
                }
                Ok(_) => {}
                Err(ToolError::Cancelled) => return Err(ToolError::Cancelled),
                Err(_) => {
                    summary.fallback.ended = Some(FallbackEnd::Failed);
                    break;
                }
            }
        }
        exact.flush(taker);
        Ok(())
    }

    /// Chooses a source for each path; `None` if the deadline came first.
    fn choose(&self, query: &Arc<Query>) -> Result<Option<Chosen>, RunError> {
        let mut chosen = Chosen::new();
        let mut first_index = None;
        for target in &self.prepared.targets {
            let (source, index) = match &target.kind {
                TargetKind::Dir => match self.of_dir(target, query, &mut chosen)? {
                    Some(found) => found,
                    None => return Ok(None),
                },
                _ => (
                    self.without_index(target, &chosen),
                    self.index_of_file(target, query),
                ),
            };
            first_index.get_or_insert(index);
            chosen.sources.push(source);
        }
        chosen.index = first_index.unwrap_or_else(IndexUse::not_used);
        Ok(Some(chosen))
    }

    /// Chooses sources without an index.
    fn by_walk(&self) -> Chosen {
        let mut chosen = Chosen::new();
        for target in &self.prepared.targets {
            let source = self.without_index(target, &chosen);
            chosen.sources.push(source);
        }
        chosen
    }

    fn of_dir(
        &self,
        target: &TargetFile,
        query: &Arc<Query>,
        chosen: &mut Chosen,
    ) -> Result<Option<(PathSource, IndexUse)>, RunError> {
        let Some(indexes) = self.searcher.indexes() else {
            return Ok(Some((
                self.without_index(target, chosen),
                IndexUse::not_used(),
            )));
        };
        let Some(asked) = self.for_index(target, query) else {
            return Ok(Some((
                self.without_index(target, chosen),
                self.searcher.not_chosen(),
            )));
        };
        let comparing = match self.question.looked_for.patterns.is_some() {
            true => Comparing::Along(self.maintenance.clone()),
            // A list is of the catalog as a whole.
            false => Comparing::First,
        };
        let choice = self
            .searcher
            .choose(indexes, &asked, comparing, self.options)?;
        let Some(choice) = choice else {
            return Ok(None);
        };
        self.maintenance.spend(choice.index.spent);
        let source = match choice.source {
            Some(source) => {
                chosen.watched.push(Watched {
                    target: chosen.sources.len(),
                    failure: source.failure(),
                    refusal: source.refusal(),
                });
                if source.is_cut() && self.question.scope.depth_cuts {
                    chosen.is_cut.store(true, Ordering::Relaxed);
                }
                PathSource::Catalog(Box::new(source))
            }
            None => self.without_index(target, chosen),
        };
        Ok(Some((source, choice.index)))
    }

    fn index_of_file(&self, target: &TargetFile, query: &Arc<Query>) -> IndexUse {
        match self.for_index(target, query) {
            Some(asked) if matches!(target.kind, TargetKind::File) => {
                self.searcher.facts_for_file(&asked, self.options)
            }
            _ => IndexUse::not_used(),
        }
    }

    /// Returns the files of a path by looking at the tree.
    fn without_index(&self, target: &TargetFile, chosen: &Chosen) -> PathSource {
        let Some(resolved) = &target.resolved else {
            return PathSource::List(ListSource(Vec::new()));
        };
        match &target.kind {
            TargetKind::Missing(why) => PathSource::Missing(FileError {
                target: 0,
                path: PathBuf::new(),
                message: why.clone(),
            }),
            TargetKind::File => {
                let file = EligibleFile::named(resolved);
                // Globs that start elsewhere say nothing about a file that is named.
                let scope = &self.question.scope;
                let name = Path::new(&file.found.name);
                let kept = scope.globs_from.is_some() || self.prepared.filters.keep(name, false);
                PathSource::List(ListSource(if kept { vec![file] } else { Vec::new() }))
            }
            TargetKind::Dir => {
                let source = WalkSource::over(
                    resolved,
                    self.question.scope.traversal,
                    self.context.sandbox.reach(),
                    self.context.global_excludes.as_deref(),
                    self.filters_for(resolved),
                );
                let scope = &self.question.scope;
                PathSource::Walk(Box::new(match scope.max_depth {
                    Some(depth) => {
                        let is_cut = scope.depth_cuts.then(|| chosen.is_cut.clone());
                        source.within_depth(depth, is_cut)
                    }
                    None => source,
                }))
            }
        }
    }

    /// Returns the filters by path, for paths relative to a searched path.
    fn filters_for(&self, resolved: &Resolved) -> Globs {
        let filters = self.prepared.filters.clone();
        let Some(start) = &self.question.scope.globs_from else {
            return filters;
        };
        if filters.is_empty() {
            return filters;
        }
        let start = join(self.context.sandbox.working_dir(), start);
        let below = resolved.canonical.strip_prefix(start);
        match below.unwrap_or(&resolved.canonical) {
            prefix if prefix.as_os_str().is_empty() => filters,
            prefix => filters.from_above(prefix.to_path_buf()),
        }
    }

    fn for_index(&self, target: &TargetFile, query: &Arc<Query>) -> Option<indexing::Question> {
        let resolved = target.resolved.as_ref()?;
        Some(indexing::Question {
            query: query.clone(),
            traversal: self.question.scope.traversal,
            max_depth: self.question.scope.max_depth,
            target: resolved.clone(),
            globs: self.filters_for(resolved),
            reach: self.context.sandbox.reach().clone(),
            global_excludes: self.context.global_excludes.clone(),
            maintenance: self.maintenance.left(),
            // A list leaves nothing out, and yet the catalog has it.
            pins: self.question.looked_for.patterns.is_none(),
        })
    }
}

/// Where a source that is of a catalog says that it failed.
struct Watched {
    /// The number of the searched path.
    target: usize,
    /// The catalog turned out to be damaged.
    failure: Arc<OnceLock<FormatError>>,
    /// The tree turned out to differ too much.
    refusal: Option<Arc<OnceLock<Refusal>>>,
}

/// The sources of all paths, and what is known of them.
struct Chosen {
    sources: Vec<PathSource>,
    /// Those that are of catalogs.
    watched: Vec<Watched>,
    /// An eligible file lies deeper than `max_depth`.
    is_cut: Arc<AtomicBool>,
    index: IndexUse,
}

impl Chosen {
    fn new() -> Chosen {
        Chosen {
            sources: Vec::new(),
            watched: Vec::new(),
            is_cut: Arc::default(),
            index: IndexUse::not_used(),
        }
    }
}
