//! The `Search` tool: from a request to a response.
//!
//! Owns the one path on which every surface's request goes: validation, sandbox, engine, answer. It adds no
//! semantics of its own beyond defaults and caps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exec::collect::{Limits, Truncation};
use crate::exec::eligible::{EligibleFile, Globs, ListSource};
use crate::exec::engine::{EngineError, Prepared};
use crate::exec::event::FileError;
use crate::exec::query::{Fuzziness, Query, QueryOptions, Reports};
use crate::exec::schedule::{Run, RunOptions};
use crate::exec::stop::{CancelHandle, Clock, Deadline, SystemClock};
use crate::index::beneath::EntryKind;
use crate::index::walk::{Follow, FoundFile, IgnoreRules, Place, TraversalOptions};
use crate::tool::arguments;
use crate::tool::budget::fit;
use crate::tool::config::SearchConfig;
use crate::tool::engines::Engines;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::indexing::{Indexes, Question};
use crate::tool::render::Note;
use crate::tool::request::{
    SEARCH_ALIASES, SEARCH_NAME, SearchRequest, names_search, search_schema,
};
use crate::tool::response::{ErrorEntry, FallbackUse, IndexUse, Record, SearchResponse, Stats};
use crate::tool::sandbox::{Resolved, Sandbox};
use crate::tool::searcher::{Searcher, missing, run_source, slashed, summarized, to_usize};
use crate::tool::shorten::shorten;

/// How much harm a call can do; a search can do none worth asking about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RiskLevel {
    /// Nothing is changed and nothing outside the sandbox is read.
    Low,
}

/// Evidence that a file was read in the sense of stale-file protection. This type has no values: nothing
/// that a search does counts as such a read, and a host can see that from here (SEC-LSI-CACHE-01,
/// NFR-LS-SEC-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEvidence {}

/// What the host gives to a call.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// Where the call may read.
    pub sandbox: Arc<Sandbox>,
    /// With which the host cancels the call.
    pub cancel: CancelHandle,
    /// The timeout when the request has none; the configured one if this is none either.
    pub default_timeout: Option<Duration>,
    /// When the call came, from where its time counts: one that had to wait before it was made has less of it left. Now, if this is none.
    pub came: Option<Instant>,
    /// Bytes that the response may have as JSON; it also has to fit `available_capacity_bytes`.
    pub max_output_bytes: Option<usize>,
    /// Bytes that are left in the caller's context.
    pub available_capacity_bytes: Option<usize>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Git's `core.excludesFile`, if there is one; it counts as an ignore file.
    pub global_excludes: Option<PathBuf>,
}

impl ToolContext {
    /// Creates a context without byte limits, on the system's clock.
    pub fn new(sandbox: Arc<Sandbox>) -> ToolContext {
        ToolContext {
            sandbox,
            cancel: CancelHandle::new(),
            default_timeout: None,
            came: None,
            max_output_bytes: None,
            available_capacity_bytes: None,
            clock: Arc::new(SystemClock),
            global_excludes: None,
        }
    }

    /// Returns from when on the time of a call counts.
    pub(super) fn started(&self) -> Instant {
        self.came.unwrap_or_else(|| self.clock.now())
    }
}

/// What a surface may ask for that a request can't say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchExtras {
    /// Context lines before and after a match, in place of `context` on both sides.
    pub context: Option<(usize, usize)>,
    /// Globs one of which a file has to match beside one of `include_glob`.
    pub and_glob: Vec<String>,
}

/// The `Search` tool.
///
/// Cheap to share; one value serves any number of calls from any number of threads.
#[derive(Debug)]
pub struct SearchTool {
    config: SearchConfig,
    searcher: Searcher,
}

impl SearchTool {
    /// Creates the tool with engines that were set up for the same configuration.
    pub fn new(config: SearchConfig, engines: Engines) -> SearchTool {
        let searcher = Searcher::new(SEARCH_NAME, &config, engines);
        SearchTool { config, searcher }
    }

    /// Lets the tool use indexes that were set up for the same configuration and engines.
    #[must_use]
    pub fn with_indexes(self, indexes: Option<Arc<Indexes>>) -> SearchTool {
        SearchTool {
            searcher: self.searcher.with_indexes(indexes),
            ..self
        }
    }

    /// Returns what searches.
    #[cfg(feature = "daemon")]
    pub(super) fn searcher(&self) -> &Searcher {
        &self.searcher
    }

    /// Returns the indexes.
    pub fn indexes(&self) -> Option<&Arc<Indexes>> {
        self.searcher.indexes()
    }

    /// Returns the name of the tool: `Search`.
    pub fn name(&self) -> &'static str {
        SEARCH_NAME
    }

    /// Returns its other names (FR-LS-01).
    pub fn aliases(&self) -> &'static [&'static str] {
        &SEARCH_ALIASES
    }

    /// Returns true if `name` names this tool.
    pub fn answers_to(&self, name: &str) -> bool {
        names_search(name)
    }

    /// Returns what the tool does, for a model that is to choose it.
    pub fn description(&self) -> &'static str {
        "Search file contents for a regular expression or literal. Results come in a fixed order with line \
         numbers and columns; `truncated` and `timed_out` say when something is missing."
    }

    /// Returns the JSON schema of the request (draft 2020-12).
    pub fn schema(&self) -> Value {
        search_schema()
    }

    /// Returns the JSON schema of the response (draft 2020-12). Further fields may be there.
    pub fn response_schema(&self) -> Value {
        arguments::written_schema_of::<SearchResponse>()
    }

    /// Returns false: a search changes nothing (NFR-LS-SEC-02).
    pub fn is_side_effecting(&self) -> bool {
        false
    }

    /// Returns false: a search needs no approval.
    pub fn requires_approval(&self) -> bool {
        false
    }

    /// Returns the risk of a call.
    pub fn risk_level(&self) -> RiskLevel {
        RiskLevel::Low
    }

    /// Returns nothing, for any response: a search is never the read that an edit needs first.
    pub fn read_evidence(&self, _: &SearchResponse) -> Option<ReadEvidence> {
        None
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> &SearchConfig {
        &self.config
    }

    /// Returns the engines.
    pub fn engines(&self) -> &Engines {
        self.searcher.engines()
    }

    /// Says in at most 200 characters what a call would do.
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

    /// Answers a request given as JSON.
    ///
    /// # Errors
    ///
    /// As [`SearchTool::search`].
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
    /// [`ToolError::BadArgs`] for an invalid request, [`ToolError::SandboxViolation`] for a path that must not
    /// be read or a disabled tool, [`ToolError::ExecutionFailed`] for a path that does not exist or an engine
    /// that can't run, and [`ToolError::Cancelled`]. A deadline is no error: the response says `timed_out`.
    pub fn search(
        &self,
        request: &SearchRequest,
        context: &ToolContext,
    ) -> Result<SearchResponse, ToolError> {
        self.search_with(request, SearchExtras::default(), context)
    }

    /// Answers a request of a surface that can ask for more than the request type says.
    ///
    /// # Errors
    ///
    /// As [`SearchTool::search`].
    pub fn search_with(
        &self,
        request: &SearchRequest,
        extras: SearchExtras,
        context: &ToolContext,
    ) -> Result<SearchResponse, ToolError> {
        if !self.config.enabled {
            return Err(DenialReason::Disabled.into());
        }
        let started = context.started();
        request.validate()?;
        let plan = self.plan(request, &extras, context)?;
        // Compiling the pattern and the globs is part of the time.
        let deadline = Deadline::since(started, plan.timeout, context.clock.clone());
        let globs = Globs::new(request.includes(), request.excludes())
            .and_then(|globs| globs.and(&extras.and_glob))
            .map_err(|error| arguments::refused(&error.to_string()))?;
        let searcher = &self.searcher;
        let options = searcher.options(plan.limits, deadline, &context.cancel);
        let prepared = searcher.prepare(searcher.engines(), &plan.query, &options)?;
        let target = context.sandbox.resolve(request.path.as_deref())?;
        let _searching = searcher.searching();
        let question = question(request, &plan, target, globs, context);
        let found = self.run(request, &question, prepared, &options)?;
        let found = self.or_approximately(found, request, &plan, question, &options)?;
        let elapsed = context.clock.now().saturating_duration_since(started);
        self.respond(request, found, &plan, elapsed, context)
    }

    /// Fills in defaults and checks caps (FR-LS-VAL-08, CFG-LS-03 to CFG-LS-05).
    fn plan(
        &self,
        request: &SearchRequest,
        extras: &SearchExtras,
        context: &ToolContext,
    ) -> Result<Plan, ToolError> {
        let config = &self.config;
        let capped = |field, asked, cap| arguments::capped("tools.search", field, asked, cap);
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
        let max_results = to_usize(request.max_results.unwrap_or(config.default_max_results));
        let timeout = match request.timeout_ms {
            Some(ms) => Duration::from_millis(ms),
            None => self.default_timeout(context),
        };
        let both = to_usize(request.context);
        let (before, after) = extras.context.unwrap_or((both, both));
        let options = QueryOptions {
            fixed_strings: request.fixed_strings,
            word: request.word_regexp,
            case: request.case.into(),
            before,
            after,
            max_results,
            max_matches_per_file,
            max_file_size,
            fuzzy: request.fuzzy.map(|level| Fuzziness::Edits(level as u8)),
            reports: Reports::Lines,
        };
        let query = Query::new(&request.pattern, &options)
            .map_err(|error| arguments::refused(&error.to_string()))?;
        Ok(Plan {
            maintenance: timeout.mul_f64(config.index_maint_budget_fraction),
            query: Arc::new(query),
            options,
            limits: Limits {
                max_results,
                max_files,
                reports: Reports::Lines,
            },
            timeout,
        })
    }

    /// Returns how long a call may take whose request does not say so.
    pub(super) fn default_timeout(&self, context: &ToolContext) -> Duration {
        let configured = Duration::from_millis(self.config.default_timeout_ms);
        context.default_timeout.unwrap_or(configured)
    }

    /// Searches the target.
    fn run(
        &self,
        request: &SearchRequest,
        question: &Question,
        prepared: Option<Arc<dyn Prepared>>,
        options: &RunOptions,
    ) -> Result<Found, ToolError> {
        let target = &question.target;
        let unreadable = |why: &str| {
            self.searcher.failed(format!(
                "path `{}` can't be searched: {why}",
                request.path.as_deref().unwrap_or(".")
            ))
        };
        let meta = target
            .root
            .metadata(&target.relative)
            .map_err(|error| unreadable(&missing(&error)))?;
        let working_dir = question.sandbox.working_dir();
        let run = match meta.kind {
            EntryKind::File => {
                // Opened once up front: a named file that can't be read fails the call.
                target
                    .root
                    .open_file(&target.relative)
                    .map_err(|error| unreadable(&missing(&error)))?;
                let file = single_file(target);
                let kept = question.globs.keep(Path::new(&file.found.name), false);
                let files = if kept { vec![file] } else { Vec::new() };
                let shown = Shown::new(target.canonical.parent(), working_dir);
                let run = run_source(ListSource(files), prepared, options);
                let facts = self.searcher.facts_for_file(question, options);
                (run, shown, facts)
            }
            EntryKind::Dir => {
                let shown = Shown::new(Some(&target.canonical), working_dir);
                let (run, facts) = self.searcher.run_dir(question, prepared, options);
                (run, shown, facts)
            }
            EntryKind::Symlink => {
                return Err(unreadable(
                    "it is a symbolic link whose target does not exist or is itself",
                ));
            }
            EntryKind::Other => {
                return Err(unreadable("it is neither a regular file nor a directory"));
            }
        };
        match run {
            (Ok(run), shown, index) => {
                // The root itself could not be listed.
                if let Some(FileError { path, message }) = run.errors.first()
                    && path.as_os_str().is_empty()
                {
                    return Err(unreadable(message));
                }
                Ok(Found {
                    run,
                    shown,
                    index,
                    path: slashed(&target.canonical),
                    approximate: None,
                    attempts: FallbackUse::default(),
                })
            }
            (Err(error), ..) => Err(self.searcher.no_run(error)),
        }
    }

    fn respond(
        &self,
        request: &SearchRequest,
        found: Found,
        plan: &Plan,
        elapsed: Duration,
        context: &ToolContext,
    ) -> Result<SearchResponse, ToolError> {
        let Found {
            run,
            shown,
            index,
            path,
            approximate,
            attempts,
        } = found;
        let (failure, stderr) = match run.failure {
            Some(EngineError::Failed { message, stderr }) => (Some(message), stderr),
            Some(other) => (Some(other.to_string()), None),
            None => (None, None),
        };
        if let Some(message) = &failure
            && run.count == 0
        {
            return Err(self.searcher.failed(message.clone()));
        }
        let mut notes = Vec::new();
        notes.extend(approximate.map(Note::Approximate));
        match run.truncation {
            Some(Truncation::MaxResults) => notes.push(Note::MaxResults(plan.limits.max_results)),
            Some(Truncation::MaxFiles) => notes.push(Note::MaxFiles(plan.limits.max_files)),
            None => {}
        }
        if run.timed_out {
            let ms = plan.timeout.as_millis().try_into().unwrap_or(u64::MAX);
            notes.push(Note::Deadline(ms));
        }
        let mut matches = Vec::with_capacity(run.count);
        for file in run.files {
            let path = shown.show(&file.path);
            let name = shown.name(&file.path);
            matches.extend(file.events.into_iter().map(|event| Record {
                name: name.clone(),
                ..Record::new(&path, event)
            }));
        }
        if let max @ 1.. = self.config.max_line_bytes {
            matches
                .iter_mut()
                .for_each(|record| shorten(record, to_usize(max)));
            let is_long = matches.iter().any(|record| record.left_out.is_some());
            notes.extend(is_long.then_some(Note::LongLines(max)));
        }
        // Context alone says that there is a match too, just beyond the cut.
        let exit_code = match (&failure, matches.is_empty()) {
            (Some(_), _) => 2,
            (None, false) => 0,
            (None, true) => 1,
        };
        let errors = run
            .errors
            .into_iter()
            .map(|error| ErrorEntry {
                path: shown.show(&error.path),
                error: error.message,
            })
            .collect();
        let response = SearchResponse {
            pattern: request.pattern.clone(),
            path,
            count: matches.len(),
            matches,
            truncated: run.truncation.is_some(),
            timed_out: run.timed_out,
            files_scanned: run.files_scanned,
            errors,
            exit_code: Some(exit_code),
            stderr: stderr.or(failure),
            content: String::new(),
            stats: self.config.emit_stats.then(|| {
                let (scanned, excluded) = (run.files_scanned, run.files_excluded);
                Stats::new(index, scanned, excluded, elapsed).with_fallback(attempts)
            }),
        };
        let configured = Some(self.config.max_output_bytes)
            .filter(|max| *max > 0)
            .map(to_usize);
        let limits = [
            configured,
            context.max_output_bytes,
            context.available_capacity_bytes,
        ];
        let budget = limits.into_iter().flatten().min();
        fit(response, notes, budget)
    }
}

/// Returns what a request asks of a walk.
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

/// Returns what a request asks of an index.
fn question(
    request: &SearchRequest,
    plan: &Plan,
    target: Resolved,
    globs: Globs,
    context: &ToolContext,
) -> Question {
    Question {
        query: plan.query.clone(),
        traversal: traversal(request),
        target,
        globs,
        sandbox: context.sandbox.clone(),
        global_excludes: context.global_excludes.clone(),
        maintenance: plan.maintenance,
        pins: false,
    }
}

/// A validated request with its defaults filled in.
struct Plan {
    query: Arc<Query>,
    /// What of the request the query was made of.
    options: QueryOptions,
    limits: Limits,
    timeout: Duration,
    /// How much of it may go into keeping an index up to date (FR-LSI-BUD-MAINT-01).
    maintenance: Duration,
}

/// What a search found.
struct Found {
    run: Run,
    /// How its paths are shown.
    shown: Shown,
    /// What an index had to do with it.
    index: IndexUse,
    /// What was searched.
    path: String,
    /// Within how many edits, if it was not looked for as it is.
    approximate: Option<u8>,
    /// What came of looking for it approximately.
    attempts: FallbackUse,
}

/// How paths below the search root are shown: relative to the working directory where they are inside it,
/// else absolute; always with forward slashes.
struct Shown {
    prefix: PathBuf,
}

impl Shown {
    fn new(top: Option<&Path>, working_dir: &Path) -> Shown {
        let top = top.unwrap_or(Path::new("/"));
        let prefix = top.strip_prefix(working_dir).unwrap_or(top).to_path_buf();
        Shown { prefix }
    }

    fn show(&self, path: &Path) -> String {
        if path.as_os_str().is_empty() {
            let prefix = slashed(&self.prefix);
            return if prefix.is_empty() {
                ".".to_string()
            } else {
                prefix
            };
        }
        slashed(&self.prefix.join(path))
    }

    /// Returns the path itself, where it can't be shown as it is.
    fn name(&self, path: &Path) -> Option<Arc<Path>> {
        let is_shown = path.to_str().is_some() && self.prefix.to_str().is_some();
        (!is_shown).then(|| self.prefix.join(path).into())
    }
}

/// Returns the one file that is searched.
pub(super) fn single_file(target: &Resolved) -> EligibleFile {
    let dir = target
        .relative
        .parent()
        .unwrap_or(Path::new(""))
        .to_path_buf();
    let place = Place {
        root: target.root.clone(),
        real: dir,
        logical: PathBuf::new(),
    };
    let found = FoundFile {
        dir: Arc::new(place),
        name: target
            .relative
            .file_name()
            .unwrap_or_default()
            .to_os_string(),
        target: None,
    };
    found.into()
}

mod explain;
mod fallback;

#[cfg(test)]
mod tests;
