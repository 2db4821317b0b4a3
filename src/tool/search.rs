//! The `Search` tool: from a request to a response.
//!
//! All requests of the tool take this one path, from any surface: validation, sandbox, engine,
//! response. Apart from defaults and caps the tool adds no semantics. A person's search has no
//! request: it calls the tool with a [`Question`], which `answering` answers.

mod draft;
mod explain;
#[cfg(feature = "daemon")]
mod text;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exec::answer::collect::Found;
use crate::exec::answer::outcome::{Gaps, Line};
use crate::exec::engine::EngineError;
use crate::exec::question::query::{CaseRule, Fuzziness};
use crate::exec::question::{
    FallbackPlan, FileChoice, OutputSpec, PatternSpec, Question, QuestionLimits,
};
use crate::exec::question::{Follow, IgnoreRules, TraversalOptions};
use crate::exec::schedule::Taker;
use crate::exec::sources::reach::join;
use crate::exec::stop::{CancelHandle, Clock, SystemClock};
use crate::tool::answer_notes::notes_of;
use crate::tool::answering::{Call, Summary, Target};
use crate::tool::arguments;
use crate::tool::config::SearchConfig;
use crate::tool::engines::Engines;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::indexing::Indexes;
use crate::tool::notes::Note;
use crate::tool::request::{SEARCH_NAME, SearchRequest};
use crate::tool::response::{ErrorEntry, SearchResponse, Stats};
use crate::tool::sandbox::Sandbox;
use crate::tool::searcher::{Searcher, fallback_plan, slashed, summarized, to_usize};
use crate::tool::tools::{Sealed, Tool, ToolAnswer, ToolName};
use draft::SearchDraft;

/// Evidence that a call read a file, for hosts that require a read before an edit. The type has no
/// values, since a search never counts as such a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEvidence {}

/// The context that the host passes to a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolContext {
    /// The files and directories that the call may read.
    pub sandbox: Arc<Sandbox>,
    /// The handle with which the host cancels the call.
    pub cancel: CancelHandle,
    /// Timeout for requests that set none. Falls back to `default_timeout_ms`.
    pub default_timeout: Option<Duration>,
    /// The time at which the call was received; the timeout counts from then. For example, a call
    /// that waited in a queue has less time left. Falls back to the current time.
    pub received_at: Option<Instant>,
    /// The maximum size of the response as JSON, in bytes. The response also fits
    /// `available_capacity_bytes`.
    pub max_output_bytes: Option<usize>,
    /// The space that is left in the caller's context, in bytes.
    pub available_capacity_bytes: Option<usize>,
    /// The clock for timeouts and elapsed times.
    pub clock: Arc<dyn Clock>,
    /// The path of Git's `core.excludesFile`, if any, which counts as an ignore file.
    pub global_excludes: Option<PathBuf>,
}

impl ToolContext {
    /// Creates a context without byte limits, on the system's clock.
    pub fn new(sandbox: Arc<Sandbox>) -> ToolContext {
        ToolContext {
            sandbox,
            cancel: CancelHandle::new(),
            default_timeout: None,
            received_at: None,
            max_output_bytes: None,
            available_capacity_bytes: None,
            clock: Arc::new(SystemClock),
            global_excludes: None,
        }
    }

    /// Returns the maximum size of an answer in bytes. `configured` is the configured maximum, with
    /// 0 for no limit.
    pub(super) fn max_bytes(&self, configured: u64) -> Option<usize> {
        let limits = [
            set(configured),
            self.max_output_bytes,
            self.available_capacity_bytes,
        ];
        limits.into_iter().flatten().min()
    }

    /// Returns the time from which the timeout of a call counts.
    pub(super) fn started(&self) -> Instant {
        self.received_at.unwrap_or_else(|| self.clock.now())
    }
}

/// The `Search` tool.
///
/// Cheap to share: one value serves any number of calls from any number of threads.
#[derive(Debug)]
pub struct SearchTool {
    config: SearchConfig,
    searcher: Searcher,
}

impl SearchTool {
    /// Creates the tool. The engines must be set up for the same configuration.
    pub fn new(config: SearchConfig, engines: Engines) -> SearchTool {
        let searcher = Searcher::new(SEARCH_NAME, &config, engines);
        SearchTool { config, searcher }
    }

    /// Adds indexes, which must be set up for the same configuration and engines.
    #[must_use]
    pub fn with_indexes(self, indexes: Option<Arc<Indexes>>) -> SearchTool {
        SearchTool {
            searcher: self.searcher.with_indexes(indexes),
            ..self
        }
    }

    /// Returns the engines, threads and indexes of the tool.
    #[cfg(feature = "daemon")]
    pub(super) fn searcher(&self) -> &Searcher {
        &self.searcher
    }

    /// Returns the indexes of the tool.
    pub fn indexes(&self) -> Option<&Arc<Indexes>> {
        self.searcher.indexes()
    }

    /// Returns `None` for any response: a search is never the read that an edit requires.
    pub fn read_evidence(&self, _: &SearchResponse) -> Option<ReadEvidence> {
        None
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> &SearchConfig {
        &self.config
    }

    /// Returns the engines of the tool.
    pub fn engines(&self) -> &Engines {
        self.searcher.engines()
    }

    /// Returns a summary of a call, in at most 200 characters.
    pub fn summary(&self, request: &SearchRequest) -> String {
        let path = request.path.as_deref().unwrap_or(".");
        let kind = if request.fixed_strings {
            "text"
        } else {
            "expression"
        };
        summarized(format!(
            "Search {path} for the {kind} {:?}",
            request.pattern
        ))
    }

    /// Answers a request in JSON.
    ///
    /// # Errors
    ///
    /// The errors of [`SearchTool::search`].
    pub fn call(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<SearchResponse, ToolError> {
        self.search(&SearchRequest::from_value(arguments)?, context)
    }

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// - [`ToolError::BadArgs`]: the request is invalid.
    /// - [`ToolError::SandboxViolation`]: the path must not be read, the tool is disabled, or not
    ///   even an empty response fits the limit in bytes.
    /// - [`ToolError::ExecutionFailed`]: the path does not exist, or an engine can't run.
    /// - [`ToolError::Cancelled`]: the host cancelled the call.
    ///
    /// A timeout is no error: the response has `timed_out` set.
    pub fn search(
        &self,
        request: &SearchRequest,
        context: &ToolContext,
    ) -> Result<SearchResponse, ToolError> {
        let started = context.started();
        let found = self.find(request, context)?;
        let elapsed = context.clock.now().saturating_duration_since(started);
        self.respond(request, found, elapsed, context)
    }

    /// Validates a request and searches.
    fn find(
        &self,
        request: &SearchRequest,
        context: &ToolContext,
    ) -> Result<SearchResults, ToolError> {
        let found = self.find_any_way(request, context);
        found.map_err(|error| ToolName::Search.explain(error))
    }

    fn find_any_way(
        &self,
        request: &SearchRequest,
        context: &ToolContext,
    ) -> Result<SearchResults, ToolError> {
        if !self.config.enabled {
            return Err(DenialReason::Disabled.into());
        }
        request.validate()?;
        let question = self.question(request)?;
        let mut parts = Parts::default();
        let (summary, timeout) =
            self.answer_within(&question, request.timeout_ms, context, &mut |found| {
                parts.take(found)
            })?;
        if let Some(why) = parts.root_error() {
            return Err(self.unsearchable(request.path.as_deref(), why));
        }
        let target = summary.targets.first().cloned().unwrap_or_default();
        let paths = ShownPaths::new(&target, context.sandbox.working_dir());
        #[cfg(feature = "daemon")]
        let has_match_unshown = parts.has_match_unshown();
        let (lines, errors) = parts.into_lines_and_errors(&paths, &target);
        Ok(SearchResults {
            notes: notes_of(&question, &summary, Some(timeout)),
            question,
            summary,
            target,
            lines,
            errors,
            #[cfg(feature = "daemon")]
            has_match_unshown,
        })
    }

    /// Answers a question within the timeout of its request, or the default timeout. Also returns
    /// that timeout.
    ///
    /// # Errors
    ///
    /// The errors of [`Searcher::answer`], and the failure of an engine before its first result.
    pub(super) fn answer_within(
        &self,
        question: &Question,
        timeout_ms: Option<u64>,
        context: &ToolContext,
        taker: &mut Taker<'_>,
    ) -> Result<(Summary, Duration), ToolError> {
        let timeout = match timeout_ms {
            Some(ms) => Duration::from_millis(ms),
            None => self.default_timeout(context),
        };
        let call = Call {
            context,
            timeout: Some(timeout),
            maintenance: self.config.index_maint_budget_fraction,
        };
        let summary = self.searcher.answer(question, &call, taker)?;
        match &summary.run.failure {
            Some(failure) if summary.run.totals.results == 0 => {
                Err(self.searcher.failed(failure.to_string()))
            }
            _ => Ok((summary, timeout)),
        }
    }

    /// Returns the error of a request whose path can't be searched.
    pub(super) fn unsearchable(&self, path: Option<&str>, why: &str) -> ToolError {
        let path = path.unwrap_or(".");
        self.searcher
            .failed(format!("path `{path}` can't be searched: {why}"))
    }

    /// Answers a question of a surface, see [`Searcher::answer`].
    ///
    /// # Errors
    ///
    /// The errors of [`SearchTool::search`].
    #[cfg(feature = "daemon")]
    pub(crate) fn answer(
        &self,
        question: &Question,
        call: &Call<'_>,
        taker: &mut Taker<'_>,
    ) -> Result<Summary, ToolError> {
        if !self.config.enabled {
            return Err(DenialReason::Disabled.into());
        }
        self.searcher.answer(question, call, taker)
    }

    /// Converts a request into a question: fills in defaults and checks caps.
    pub(crate) fn question(&self, request: &SearchRequest) -> Result<Question, ToolError> {
        let config = &self.config;
        let capped = |field, asked, cap| arguments::capped(ToolName::Search, field, asked, cap);
        let max_matches_per_file = capped(
            "max_matches_per_file",
            request.max_matches_per_file,
            config.max_matches_per_file,
        )?;
        let max_files = capped("max_files", request.max_files, config.max_files)?;
        let max_file_size = capped(
            "max_file_size_bytes",
            request.max_file_size_bytes,
            config.max_file_size_bytes,
        )?;
        let context = to_usize(request.context);
        Ok(Question {
            looked_for: PatternSpec {
                patterns: Some(vec![request.pattern.clone()]),
                fixed_strings: request.fixed_strings,
                word: request.word_regexp,
                whole_line: false,
                case: request.case,
                case_rule: CaseRule::Ascii,
                fuzzy: request.fuzzy.map(|level| Fuzziness::Edits(level as u8)),
            },
            files: FileChoice {
                include: request.includes().to_vec(),
                exclude: request.excludes().to_vec(),
                ..FileChoice::of(
                    request.path.iter().map(PathBuf::from).collect(),
                    traversal(request),
                )
            },
            shown: OutputSpec {
                before: context,
                after: context,
                ..OutputSpec::default()
            },
            limits: QuestionLimits {
                max_results: request.max_results.unwrap_or(config.default_max_results),
                max_matches_per_file,
                max_files,
                max_file_size,
            },
            fallback: match request.fixed_strings && request.fuzzy.is_none() {
                true => fallback_plan(config, &request.pattern),
                false => FallbackPlan::default(),
            },
        })
    }

    /// Returns the timeout of a request that sets none.
    pub(super) fn default_timeout(&self, context: &ToolContext) -> Duration {
        let configured = Duration::from_millis(self.config.default_timeout_ms);
        context.default_timeout.unwrap_or(configured)
    }

    /// Builds the response from the results.
    fn respond(
        &self,
        request: &SearchRequest,
        answered: SearchResults,
        elapsed: Duration,
        context: &ToolContext,
    ) -> Result<SearchResponse, ToolError> {
        let Summary { run, .. } = &answered.summary;
        let stderr = run.failure.as_ref().map(|failure| match failure {
            EngineError::Failed {
                message, stderr, ..
            } => stderr.clone().unwrap_or_else(|| message.clone()),
            other => other.to_string(),
        });
        // A context line without its match still proves that there is a match, just beyond the
        // limit.
        let exit_code = match (&stderr, answered.lines.is_empty()) {
            (Some(_), _) => 2,
            (None, false) => 0,
            (None, true) => 1,
        };
        let totals = run.totals;
        let stats = self.config.emit_stats.then(|| {
            let (scanned, excluded) = (totals.files_scanned, totals.files_excluded);
            let index = answered.summary.index.clone();
            let fallback = answered.summary.fallback.to_use(&answered.question);
            Stats {
                files_too_large: totals.files_too_large,
                ..Stats::new(index, scanned, excluded, elapsed).with_fallback(fallback)
            }
        });
        let response = SearchResponse {
            pattern: request.pattern.clone(),
            path: slashed(&answered.target.canonical),
            count: 0,
            matches: Vec::new(),
            truncated: run.cuts.any(),
            timed_out: answered.summary.timed_out(),
            files_scanned: totals.files_scanned,
            errors: answered.errors,
            exit_code: Some(exit_code),
            stderr,
            content: String::new(),
            stats,
        };
        let draft = SearchDraft {
            response,
            lines: answered.lines,
            notes: answered.notes,
            max_line_bytes: set(self.config.max_line_bytes),
        };
        draft.fit(context.max_bytes(self.config.max_output_bytes))
    }
}

impl Sealed for SearchTool {}

#[doc(hidden)]
impl Tool for SearchTool {
    fn id(&self) -> ToolName {
        ToolName::Search
    }

    fn summary_of(&self, arguments: &Value) -> String {
        let request = SearchRequest::from_value(arguments.clone());
        request.map_or_else(
            |_| ToolName::Search.summary(arguments),
            |request| self.summary(&request),
        )
    }

    fn call_json(&self, arguments: Value, context: &ToolContext) -> Result<ToolAnswer, ToolError> {
        let response = self.call(arguments, context)?;
        Ok(ToolAnswer::new(response.to_json(), response.timed_out))
    }
}

/// The results of a request before the response is built.
struct SearchResults {
    question: Question,
    summary: Summary,
    target: Target,
    /// The lines, each with its displayed path.
    lines: Vec<(Arc<str>, Line)>,
    errors: Vec<ErrorEntry>,
    notes: Vec<Note>,
    /// Whether a line of a binary file matches but is not shown.
    #[cfg(feature = "daemon")]
    has_match_unshown: bool,
}

/// Returns a limit of the configuration; `None` for 0, which means no limit.
pub(super) fn set(limit: u64) -> Option<usize> {
    Some(limit).filter(|limit| *limit > 0).map(to_usize)
}

/// Returns the traversal options of a request.
fn traversal(request: &SearchRequest) -> TraversalOptions {
    TraversalOptions {
        hidden: request.hidden,
        follow: match request.follow {
            true => Follow::All,
            false => Follow::Never,
        },
        rules: match request.no_ignore {
            true => IgnoreRules::None,
            false => IgnoreRules::All,
        },
        recursive: request.recursive,
    }
}

/// The parts of an answer in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<Found>);

impl Parts {
    /// Appends a part.
    pub(super) fn take(&mut self, found: Found) -> ControlFlow<()> {
        self.0.push(found);
        ControlFlow::Continue(())
    }

    /// Returns the reason why the searched path itself could not be read, if so.
    pub(super) fn root_error(&self) -> Option<&str> {
        match self.0.first() {
            Some(Found::Error(error)) if error.path.as_os_str().is_empty() => Some(&error.message),
            _ => None,
        }
    }

    /// Returns true if a line of a binary file matches but is not shown.
    #[cfg(feature = "daemon")]
    fn has_match_unshown(&self) -> bool {
        self.0.iter().any(|part| match part {
            Found::File(file) => file.outcome.gaps.hides_match(),
            Found::Listed(_) | Found::Error(_) => false,
        })
    }

    /// Returns the lines with their displayed paths, and the entries of `errors`.
    fn into_lines_and_errors(
        self,
        paths: &ShownPaths,
        target: &Target,
    ) -> (Vec<(Arc<str>, Line)>, Vec<ErrorEntry>) {
        let (mut lines, mut errors) = (Vec::new(), Vec::new());
        for part in self.0 {
            match part {
                Found::Error(error) => errors.push(ErrorEntry {
                    path: paths.show(&error.path),
                    error: error.message,
                }),
                // A search for a pattern lists no files.
                Found::Listed(_) => {}
                Found::File(file) => {
                    let path: Arc<str> = paths.show(&file.path).into();
                    let gaps = file.outcome.gaps;
                    let is_shown = !file.outcome.lines.is_empty();
                    let shown = file.outcome.lines.into_iter();
                    lines.extend(shown.map(|line| (path.clone(), line)));
                    if let Some(error) = gap_error(&gaps, target.is_file, is_shown) {
                        let path = path.to_string();
                        errors.push(ErrorEntry { path, error });
                    }
                }
            }
        }
        (lines, errors)
    }
}

/// Returns the entry in `errors` for missing lines of a file. Only binary data, and the size of a
/// file that the request names, give an entry.
pub(super) fn gap_error(gaps: &Gaps, is_named: bool, is_shown: bool) -> Option<String> {
    if let Some(size) = gaps.too_large.filter(|_| is_named) {
        return Some(format!(
            "the file has {size} bytes, more than max_file_size_bytes, and was not searched; raise \
             the limit"
        ));
    }
    let binary = gaps.binary?;
    let nul = binary.nul;
    Some(match binary.matches {
        true if is_shown => format!(
            "binary data (a NUL byte) at byte {nul}: a line there matches, and lines from there on are not shown"
        ),
        true => {
            format!("binary data (a NUL byte) at byte {nul}: a line matches, and none is shown")
        }
        false => format!("binary data (a NUL byte) at byte {nul}: no line from there on matches"),
    })
}

/// The displayed form of paths below the searched path: relative to the working directory if they
/// are inside it, otherwise absolute, and always with forward slashes.
pub(super) struct ShownPaths {
    prefix: PathBuf,
}

impl ShownPaths {
    pub(super) fn new(target: &Target, working_dir: &Path) -> ShownPaths {
        let top = match target.is_file {
            true => target.canonical.parent().unwrap_or(Path::new("/")),
            false => &target.canonical,
        };
        ShownPaths {
            prefix: top.strip_prefix(working_dir).unwrap_or(top).to_path_buf(),
        }
    }

    /// Returns the displayed form of a path. `path` is relative to the searched path, empty for the
    /// searched path itself.
    pub(super) fn show(&self, path: &Path) -> String {
        let whole = slashed(&join(&self.prefix, path));
        match whole.is_empty() {
            true => ".".to_string(),
            false => whole,
        }
    }
}

#[cfg(test)]
mod tests;
