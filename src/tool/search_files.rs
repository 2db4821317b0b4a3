//! The `search_files` tool: from a request to a response.
//!
//! Owns its defaults, caps and fuzzy fallback. What is searched, and how, is what the tool `Search` uses too; this one reports each match
//! (`Reports::Matches`), and its rules for which files are eligible are its own.

mod fallback;
mod found;
mod request;
mod response;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::exec::collect::{Limits, Truncation};
use crate::exec::eligible::Globs;
use crate::exec::engine::Prepared;
use crate::exec::event::FileError;
use crate::exec::fuzzy::Threshold;
use crate::exec::query::{Fuzziness, Query, QueryOptions, Reports};
use crate::exec::schedule::{Run, RunOptions};
use crate::exec::stop::Deadline;
use crate::index::beneath::EntryKind;
use crate::index::walk::{Follow, IgnoreRules, TraversalOptions};
use crate::tool::arguments;
use crate::tool::config::{Case, Config, FilesConfig, Mode, SearchConfig};
use crate::tool::engines::Engines;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::indexing::{CachePlaces, Indexes, Question};
use crate::tool::response::{ErrorEntry, IndexUse};
use crate::tool::sandbox::{Resolved, Sandbox};
use crate::tool::search::{ReadEvidence, RiskLevel, ToolContext};
use crate::tool::searcher::{Searcher, missing, slashed, summarized, to_usize};

pub use request::{FILES_NAME, FilesRequest, files_schema};
pub use response::{
    FallbackEnd, FallbackStats, FilesMatch, FilesResponse, FilesStats, IndexStats, TruncatedReason,
};

use found::{Shape, matches};
use response::LARGEST;

/// The `search_files` tool.
///
/// Cheap to share; one value serves any number of calls from any number of threads.
#[derive(Debug)]
pub struct FilesTool {
    config: FilesConfig,
    /// The share of a call's time that may go into keeping an index up to date.
    maintenance: f64,
    searcher: Searcher,
    /// What looks for what is similar: no program finds all of it (`FR-SFI-FUZ-07`).
    similar: Engines,
}

impl FilesTool {
    /// Creates the tool with engines that were set up for its configuration, [`FilesTool::search_config`].
    pub fn new(config: &Config, engines: Engines) -> FilesTool {
        let search = FilesTool::search_config(config);
        FilesTool {
            config: config.search_files.clone(),
            maintenance: search.index_maint_budget_fraction,
            searcher: Searcher::new(FILES_NAME, &search, engines),
            similar: Engines::embedded(),
        }
    }

    /// Returns the configuration of its engines and indexes: that of `[tools.search]` with what `[tools.search_files]` says instead.
    pub fn search_config(config: &Config) -> SearchConfig {
        config.search_files.as_search(&config.search)
    }

    /// Sets up the indexes that its configuration asks for; as [`Indexes::new`], and apart from those of the tool `Search`: other
    /// files are eligible here.
    pub fn indexes_for(
        config: &Config,
        engines: &Engines,
        sandbox: &Sandbox,
        places: &CachePlaces,
    ) -> Option<Indexes> {
        let search = FilesTool::search_config(config);
        Indexes::by_rules(&search, IgnoreRules::Git, engines, sandbox, None, places)
    }

    /// Lets the tool use indexes that were set up by [`FilesTool::indexes_for`].
    #[must_use]
    pub fn with_indexes(self, indexes: Option<Arc<Indexes>>) -> FilesTool {
        FilesTool {
            searcher: self.searcher.with_indexes(indexes),
            ..self
        }
    }

    /// Returns the indexes.
    pub fn indexes(&self) -> Option<&Arc<Indexes>> {
        self.searcher.indexes()
    }

    /// Returns the name of the tool: `search_files`.
    pub fn name(&self) -> &'static str {
        FILES_NAME
    }

    /// Returns what the tool does, for a model that is to choose it.
    pub fn description(&self) -> &'static str {
        "Search file contents"
    }

    /// Returns the JSON schema of the request (draft 2020-12).
    pub fn schema(&self) -> Value {
        files_schema()
    }

    /// Returns the JSON schema of the response (draft 2020-12). Further fields may be there.
    pub fn response_schema(&self) -> Value {
        arguments::written_schema_of::<FilesResponse>()
    }

    /// Returns false: a search changes nothing.
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
    pub fn read_evidence(&self, _: &FilesResponse) -> Option<ReadEvidence> {
        None
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> &FilesConfig {
        &self.config
    }

    /// Says in at most 200 characters what a call would do.
    pub fn summary(&self, request: &FilesRequest) -> String {
        let kind = match request.mode.unwrap_or(self.config.mode) {
            Mode::Exact => "the text",
            Mode::Regex => "the expression",
            Mode::Fuzzy => "what is similar to",
        };
        summarized(format!(
            "Search {} for {kind} {:?}",
            request.path, request.query
        ))
    }

    /// Answers a request given as JSON.
    ///
    /// # Errors
    ///
    /// As [`FilesTool::search`].
    pub fn call(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<FilesResponse, ToolError> {
        self.search(&FilesRequest::from_value(arguments)?, context)
    }

    /// Returns how long a call may take.
    pub(super) fn default_timeout(&self, context: &ToolContext) -> Duration {
        let configured = Duration::from_millis(self.config.default_timeout_ms);
        context.default_timeout.unwrap_or(configured)
    }

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`] for an invalid request, [`ToolError::SandboxViolation`] for a path that must not be read or a disabled tool,
    /// [`ToolError::ExecutionFailed`] for a path that is no directory or an engine that can't run, [`ToolError::Timeout`], and
    /// [`ToolError::Cancelled`].
    pub fn search(
        &self,
        request: &FilesRequest,
        context: &ToolContext,
    ) -> Result<FilesResponse, ToolError> {
        if !self.config.enabled {
            return Err(DenialReason::Disabled.into());
        }
        let started = context.started();
        request.validate()?;
        let plan = self.plan(request)?;
        let timeout = self.default_timeout(context);
        // Compiling the query and the globs is part of the time.
        let deadline = Deadline::since(started, timeout, context.clock.clone());
        let globs = Globs::new(&request.include_globs, &request.exclude_globs)
            .map_err(|error| arguments::refused(&format!("{}s: {}", error.field, error.message)))?
            .within_depth(plan.max_depth);
        let options = self
            .searcher
            .options(plan.limits, deadline, &context.cancel);
        let query = plan.query(request, plan.mode, self.threshold())?;
        let prepared = self.prepare(&query, &options)?;
        let target = context.sandbox.resolve(Some(&request.path))?;
        self.check_directory(request, &target)?;
        let _searching = self.searcher.searching();
        let question = Question {
            query,
            traversal: plan.traversal,
            target,
            globs,
            sandbox: context.sandbox.clone(),
            global_excludes: None,
            maintenance: timeout.mul_f64(self.maintenance),
            pins: false,
        };
        let found = self.run(request, &question, prepared, &options)?;
        let elapsed = || context.clock.now().saturating_duration_since(started);
        if found.run.timed_out {
            return Err(ToolError::Timeout {
                tool: FILES_NAME.to_string(),
                elapsed: elapsed(),
            });
        }
        let found = self.or_similar(found, request, &plan, question, &options)?;
        self.respond(request, &plan, found, elapsed(), context)
    }

    /// Returns the least score of a fuzzy search.
    fn threshold(&self) -> Threshold {
        Threshold::new(self.config.fuzzy_threshold)
    }

    /// Fills in defaults and checks caps.
    fn plan(&self, request: &FilesRequest) -> Result<Plan, ToolError> {
        let config = &self.config;
        let capped = |field, asked, cap| arguments::capped("tools.search_files", field, asked, cap);
        let max_results = capped("max_results", request.max_results, config.max_results)?;
        let max_files = capped("max_files", request.max_files, config.max_files)?;
        let max_depth = capped("max_depth", request.max_depth, config.max_depth)?;
        Ok(Plan {
            mode: request.mode.unwrap_or(config.mode),
            case: request.case.unwrap_or(config.case),
            limits: Limits {
                max_results: to_usize(max_results),
                max_files,
                reports: Reports::Matches,
            },
            max_depth: if request.recursive {
                to_usize(max_depth)
            } else {
                1
            },
            max_matches_per_file: capped(
                "max_matches_per_file",
                request.max_matches_per_file,
                config.max_matches_per_file,
            )?,
            max_file_size: capped(
                "max_file_size_bytes",
                request.max_file_size_bytes,
                config.max_file_size_bytes,
            )?,
            traversal: TraversalOptions {
                hidden: request.include_hidden.unwrap_or(config.include_hidden),
                follow: match request.follow_symlinks.unwrap_or(config.follow_symlinks) {
                    true => Follow::Files,
                    false => Follow::Never,
                },
                rules: match request
                    .respect_gitignore
                    .unwrap_or(config.respect_gitignore)
                {
                    true => IgnoreRules::Git,
                    false => IgnoreRules::None,
                },
                recursive: request.recursive,
            },
        })
    }

    /// Compiles a query; nothing if the deadline came first.
    fn prepare(
        &self,
        query: &Arc<Query>,
        options: &RunOptions,
    ) -> Result<Option<Arc<dyn Prepared>>, ToolError> {
        let engines = match query.fuzzy {
            Some(_) => &self.similar,
            None => self.searcher.engines(),
        };
        self.searcher.prepare(engines, query, options)
    }

    fn check_directory(&self, request: &FilesRequest, target: &Resolved) -> Result<(), ToolError> {
        let why = match target.root.metadata(&target.relative) {
            Ok(meta) if meta.kind == EntryKind::Dir => return Ok(()),
            Ok(_) => {
                "it is no directory; name the one that it is in, and the file in include_globs"
                    .to_string()
            }
            Err(error) => missing(&error),
        };
        Err(self.unsearchable(request, &why))
    }

    fn unsearchable(&self, request: &FilesRequest, why: &str) -> ToolError {
        let message = format!("path `{}` can't be searched: {why}", request.path);
        self.searcher.failed(message)
    }

    /// Searches the directory.
    fn run(
        &self,
        request: &FilesRequest,
        question: &Question,
        prepared: Option<Arc<dyn Prepared>>,
        options: &RunOptions,
    ) -> Result<Found, ToolError> {
        let (run, index) = self.searcher.run_dir(question, prepared, options);
        let run = run.map_err(|error| self.searcher.no_run(error))?;
        if let Some(FileError { path, message }) = run.errors.first()
            && path.as_os_str().is_empty()
        {
            return Err(self.unsearchable(request, message));
        }
        if let Some(failure) = run.failure {
            return Err(self.searcher.failed(failure.to_string()));
        }
        Ok(Found {
            run,
            index,
            mode: None,
            fallback: None,
        })
    }

    fn respond(
        &self,
        request: &FilesRequest,
        plan: &Plan,
        found: Found,
        elapsed: Duration,
        context: &ToolContext,
    ) -> Result<FilesResponse, ToolError> {
        let Found {
            run,
            index,
            mode,
            fallback,
        } = found;
        let mode = mode.unwrap_or(plan.mode);
        let errors = run.errors.iter().map(|error| ErrorEntry {
            path: slashed(&error.path),
            error: error.message.clone(),
        });
        let index = self
            .config
            .emit_stats
            .then(|| IndexStats::new(index, run.files_scanned, run.files_excluded));
        let response = FilesResponse {
            path: slashed(Path::new(&request.path)),
            query: request.query.clone(),
            mode,
            case: plan.case,
            matches: Vec::new(),
            returned: 0,
            max_results: plan.limits.max_results,
            truncated: run.truncation.is_some(),
            truncated_reason: run.truncation.map(|truncation| match truncation {
                Truncation::MaxResults => TruncatedReason::MaxResults,
                Truncation::MaxFiles => TruncatedReason::MaxFiles,
            }),
            stats: FilesStats {
                files_scanned: run.files_scanned,
                files_matched: run.files.len() as u64,
                matches_total: run.count as u64,
                elapsed_ms: elapsed.as_millis().try_into().unwrap_or(u64::MAX),
                lines_shortened: None,
                fallback,
                index,
            },
            errors: errors.collect(),
        };
        let set = |bytes: u64| Some(bytes).filter(|bytes| *bytes > 0).map(to_usize);
        let shape = Shape {
            around: request.context_lines,
            max_line_bytes: set(self.config.max_line_bytes),
            scored: (mode == Mode::Fuzzy).then(|| request.query.chars().count()),
        };
        let limits = [
            Some(LARGEST),
            set(self.config.max_output_bytes),
            context.max_output_bytes,
            context.available_capacity_bytes,
        ];
        let budget = limits.into_iter().flatten().min().unwrap_or(LARGEST);
        let is_whole = !run.files.iter().any(|file| file.is_left_out);
        response.filled(matches(&run.files, shape), is_whole, budget)
    }
}

/// A validated request with its defaults filled in.
struct Plan {
    mode: Mode,
    case: Case,
    limits: Limits,
    max_depth: usize,
    max_matches_per_file: u64,
    max_file_size: u64,
    traversal: TraversalOptions,
}

impl Plan {
    /// Makes the query of a request in a mode.
    fn query(
        &self,
        request: &FilesRequest,
        mode: Mode,
        threshold: Threshold,
    ) -> Result<Arc<Query>, ToolError> {
        let around = to_usize(request.context_lines);
        let options = QueryOptions {
            fixed_strings: mode != Mode::Regex,
            word: false,
            case: self.case.into(),
            before: around,
            after: around,
            max_results: self.limits.max_results,
            max_matches_per_file: self.max_matches_per_file,
            max_file_size: self.max_file_size,
            fuzzy: (mode == Mode::Fuzzy).then_some(Fuzziness::Score(threshold)),
            reports: Reports::Matches,
        };
        match Query::new(&request.query, &options) {
            Ok(query) => Ok(Arc::new(query)),
            Err(error) => Err(arguments::refused(&error.to_string())),
        }
    }
}

/// What a search found.
struct Found {
    run: Run,
    /// What an index had to do with it.
    index: IndexUse,
    /// How it was found, if not as it was asked for.
    mode: Option<Mode>,
    /// What came of fuzzy fallback.
    fallback: Option<FallbackStats>,
}
