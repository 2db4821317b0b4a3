//! The `search_files` tool: from a request to a response.
//!
//! This module owns its defaults, its caps, and the approximate searches after an exact search
//! without a match. It searches like the tool `Search`, but reports each match
//! ([`Report::Matches`]) and has its own ignore rules.

mod found;
mod request;
mod response;
#[cfg(feature = "daemon")]
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::exec::answer::collect::Cuts;
use crate::exec::matching::fuzzy::Threshold;
use crate::exec::question::query::{BinaryRule, Fuzziness, Report, Spans};
use crate::exec::question::{
    FallbackPlan, FileChoice, OutputSpec, PatternSpec, Question, QuestionLimits,
};
use crate::exec::question::{Follow, IgnoreRules, TraversalOptions};
use crate::exec::sources::reach::EntryKind;
use crate::tool::answer_notes::notes_of_globs;
use crate::tool::answering::{self, Call, Fallback, Summary};
use crate::tool::arguments;
use crate::tool::config::{Config, FilesConfig, Mode, SearchConfig};
use crate::tool::engines::Engines;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::indexing::{CachePlaces, Indexes};
use crate::tool::notes::Reader;
use crate::tool::response::ErrorEntry;
use crate::tool::sandbox::{Resolved, Sandbox};
use crate::tool::search::{ReadEvidence, ToolContext, set};
use crate::tool::searcher::{Searcher, missing, slashed, summarized, to_usize};
use crate::tool::tools::{Sealed, Tool, ToolAnswer, ToolName};

pub use request::{FILES_NAME, FilesRequest, files_schema};
pub use response::{
    FallbackEnd, FallbackStats, FilesMatch, FilesResponse, FilesStats, IndexStats, TruncatedReason,
};

use found::{AnswerParts, Shape};
use response::{FilesDraft, LARGEST};

/// The `search_files` tool.
///
/// Cheap to share: one value serves any number of calls from any number of threads.
#[derive(Debug)]
pub struct FilesTool {
    config: FilesConfig,
    /// The fraction of a call's timeout for bringing an index up to date.
    maintenance: f64,
    searcher: Searcher,
}

impl FilesTool {
    /// Creates the tool. The engines must be set up for [`FilesTool::search_config`].
    pub fn new(config: &Config, engines: Engines) -> FilesTool {
        let search = FilesTool::search_config(config);
        FilesTool {
            config: config.search_files.clone(),
            maintenance: search.index_maint_budget_fraction,
            searcher: Searcher::new(FILES_NAME, &search, engines),
        }
    }

    /// Returns the configuration of its engines and indexes: `[tools.search]`, overridden by
    /// `[tools.search_files]`.
    pub fn search_config(config: &Config) -> SearchConfig {
        config.search_files.as_search(&config.search)
    }

    /// Creates the indexes of this tool alone, like [`Indexes::new`] does for `Search`, which has
    /// other ignore rules. [`Indexes::of_both_tools`] creates indexes for both tools.
    pub fn indexes_for(
        config: &Config,
        engines: &Engines,
        sandbox: &Sandbox,
        places: &CachePlaces,
    ) -> Option<Indexes> {
        let search = FilesTool::search_config(config);
        Indexes::by_rules(&search, IgnoreRules::Git, engines, sandbox, None, places)
    }

    /// Adds indexes, which must come from [`FilesTool::indexes_for`].
    #[must_use]
    pub fn with_indexes(self, indexes: Option<Arc<Indexes>>) -> FilesTool {
        FilesTool {
            searcher: self.searcher.with_indexes(indexes),
            ..self
        }
    }

    /// Returns the indexes of the tool.
    pub fn indexes(&self) -> Option<&Arc<Indexes>> {
        self.searcher.indexes()
    }

    /// Returns `None` for any response: a search is never the read that an edit requires.
    pub fn read_evidence(&self, _: &FilesResponse) -> Option<ReadEvidence> {
        None
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> &FilesConfig {
        &self.config
    }

    /// Returns a summary of a call, in at most 200 characters.
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

    /// Answers a request in JSON.
    ///
    /// # Errors
    ///
    /// The errors of [`FilesTool::search`].
    pub fn call(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<FilesResponse, ToolError> {
        self.search(&FilesRequest::from_value(arguments)?, context)
    }

    /// Returns the timeout of a call.
    pub(super) fn default_timeout(&self, context: &ToolContext) -> Duration {
        let configured = Duration::from_millis(self.config.default_timeout_ms);
        context.default_timeout.unwrap_or(configured)
    }

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// - [`ToolError::BadArgs`]: the request is invalid.
    /// - [`ToolError::SandboxViolation`]: the path must not be read, the tool is disabled, or not
    ///   even an empty response fits the limit in bytes.
    /// - [`ToolError::ExecutionFailed`]: the path is no directory, or an engine can't run.
    /// - [`ToolError::Timeout`]: the call did not finish within its timeout.
    /// - [`ToolError::Cancelled`]: the host cancelled the call.
    pub fn search(
        &self,
        request: &FilesRequest,
        context: &ToolContext,
    ) -> Result<FilesResponse, ToolError> {
        let started = context.started();
        let found = self.find(request, context, false)?;
        let elapsed = context.clock.now().saturating_duration_since(started);
        if found.summary.run.timed_out {
            return Err(ToolError::Timeout {
                tool: FILES_NAME.to_string(),
                elapsed,
            });
        }
        self.respond(request, found, elapsed, context)
    }

    /// Validates a request and searches. With `takes_files` the path may be a file. The tool then
    /// searches it like the tool `Search` does: independent of its name, and up to binary data.
    fn find(
        &self,
        request: &FilesRequest,
        context: &ToolContext,
        takes_files: bool,
    ) -> Result<FilesResults, ToolError> {
        let found = self.find_any_way(request, context, takes_files);
        found.map_err(|error| ToolName::SearchFiles.explain(error))
    }

    fn find_any_way(
        &self,
        request: &FilesRequest,
        context: &ToolContext,
        takes_files: bool,
    ) -> Result<FilesResults, ToolError> {
        if !self.config.enabled {
            return Err(DenialReason::Disabled.into());
        }
        request.validate()?;
        let mode = request.mode.unwrap_or(self.config.mode);
        let mut question = self.question(request, mode)?;
        let target = context.sandbox.resolve(Some(&request.path))?;
        let meta = target.root.metadata(&target.relative);
        if takes_files && meta.is_ok_and(|meta| meta.kind == EntryKind::File) {
            question.files.binary = BinaryRule::UntilNul;
            question.files.max_depth = None;
            question.files.traversal.recursive = true;
        } else {
            self.check_directory(request, &target)?;
        }
        let call = Call {
            context,
            timeout: Some(self.default_timeout(context)),
            maintenance: self.maintenance,
        };
        let mut kept = AnswerParts::default();
        let summary = self
            .searcher
            .answer(&question, &call, &mut |found| kept.take(found))?;
        if let Some(why) = kept.root_error() {
            return Err(self.unsearchable(request, why));
        }
        if let Some(failure) = &summary.run.failure {
            return Err(self.searcher.failed(failure.to_string()));
        }
        Ok(FilesResults {
            mode: match summary.approximate {
                Some(_) => Mode::Fuzzy,
                None => mode,
            },
            question,
            kept,
            summary,
        })
    }

    /// Returns the minimum score of a fuzzy search.
    fn threshold(&self) -> Threshold {
        Threshold::new(self.config.fuzzy_threshold)
    }

    /// Converts a request into a question: fills in defaults and checks caps.
    fn question(&self, request: &FilesRequest, mode: Mode) -> Result<Question, ToolError> {
        let config = &self.config;
        let capped =
            |field, asked, cap| arguments::capped(ToolName::SearchFiles, field, asked, cap);
        let max_results = capped("max_results", request.max_results, config.max_results)?;
        let max_files = capped("max_files", request.max_files, config.max_files)?;
        let max_depth = capped("max_depth", request.max_depth, config.max_depth)?;
        let max_matches_per_file = capped(
            "max_matches_per_file",
            request.max_matches_per_file,
            config.max_matches_per_file,
        )?;
        let max_file_size = capped(
            "max_file_size_bytes",
            request.max_file_size_bytes,
            config.max_file_size_bytes,
        )?;
        let around = to_usize(request.context_lines);
        let follow = request.follow_symlinks.unwrap_or(config.follow_symlinks);
        let hidden = request.include_hidden.unwrap_or(config.include_hidden);
        let ignores = request
            .respect_gitignore
            .unwrap_or(config.respect_gitignore);
        Ok(Question {
            looked_for: PatternSpec {
                patterns: Some(vec![request.query.clone()]),
                fixed_strings: mode != Mode::Regex,
                case: request.case.unwrap_or(config.case),
                fuzzy: (mode == Mode::Fuzzy).then(|| Fuzziness::Score(self.threshold())),
                ..PatternSpec::default()
            },
            files: FileChoice {
                // Without subdirectories no deeper file can be missing.
                max_depth: request.recursive.then(|| to_usize(max_depth)),
                depth_cuts: true,
                include: request.include_globs.clone(),
                exclude: request.exclude_globs.clone(),
                // `.git` is a hidden name, so a search without hidden files skips it anyway.
                no_git_dirs: hidden,
                binary: BinaryRule::SkipNonText,
                ..FileChoice::of(
                    vec![PathBuf::from(&request.path)],
                    TraversalOptions {
                        hidden,
                        follow: if follow { Follow::Files } else { Follow::Never },
                        rules: if ignores {
                            IgnoreRules::Git
                        } else {
                            IgnoreRules::None
                        },
                        recursive: request.recursive,
                    },
                )
            },
            shown: OutputSpec {
                report: Report::Matches,
                spans: Spans::Each,
                before: around,
                after: around,
                ..OutputSpec::default()
            },
            limits: QuestionLimits {
                max_results,
                max_matches_per_file,
                max_files,
                max_file_size,
            },
            fallback: self.fallback(mode),
        })
    }

    /// Returns the passes after an exact search without a match. Each pass has a lower threshold
    /// than the one before.
    fn fallback(&self, mode: Mode) -> FallbackPlan {
        let config = &self.config;
        if !config.fuzzy_fallback || mode != Mode::Exact {
            return FallbackPlan::default();
        }
        let step = Threshold::new(config.fuzzy_threshold_step);
        let passes = u32::try_from(config.fuzzy_passes).unwrap_or(u32::MAX);
        let thresholds = (0..passes).map(|pass| self.threshold().lowered(step, pass));
        FallbackPlan {
            attempts: thresholds.map(Fuzziness::Score).collect(),
            too_short: false,
        }
    }

    fn check_directory(&self, request: &FilesRequest, target: &Resolved) -> Result<(), ToolError> {
        let why = match target.root.metadata(&target.relative) {
            Ok(meta) if meta.kind == EntryKind::Dir => return Ok(()),
            Ok(_) => {
                "it is not a directory; name its directory as `path`, and the file in include_globs"
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

    /// Builds the response from the results.
    fn respond(
        &self,
        request: &FilesRequest,
        answered: FilesResults,
        elapsed: Duration,
        context: &ToolContext,
    ) -> Result<FilesResponse, ToolError> {
        let FilesResults {
            mode,
            question,
            kept,
            summary,
        } = answered;
        let (totals, cuts) = (summary.run.totals, summary.run.cuts);
        let notes = notes_of_globs(&question, &summary).into_iter();
        let notes = notes.map(|note| ErrorEntry {
            path: ".".to_string(),
            error: note.text(Reader::Program),
        });
        let max_file_size = question.limits.max_file_size;
        let index = self
            .config
            .emit_stats
            .then(|| IndexStats::new(summary.index, totals.files_scanned, totals.files_excluded));
        let response = FilesResponse {
            path: slashed(Path::new(&request.path)),
            query: request.query.clone(),
            mode,
            case: request.case.unwrap_or(self.config.case),
            matches: Vec::new(),
            returned: 0,
            max_results: to_usize(question.limits.max_results),
            truncated: cuts.any(),
            truncated_reason: reason_of(cuts),
            stats: FilesStats {
                files_scanned: totals.files_scanned,
                files_matched: totals.matched_files,
                matches_total: totals.results as u64,
                elapsed_ms: elapsed.as_millis().try_into().unwrap_or(u64::MAX),
                lines_shortened: None,
                errors_left_out: None,
                files_too_large: Some(totals.files_too_large).filter(|files| *files > 0),
                fallback: fallback_stats(&summary.fallback),
                index,
            },
            errors: kept
                .errors(max_file_size)
                .into_iter()
                .chain(notes)
                .collect(),
        };
        let shape = Shape {
            around: request.context_lines,
            max_line_bytes: set(self.config.max_line_bytes),
            scored: (mode == Mode::Fuzzy).then(|| request.query.chars().count()),
        };
        let draft = FilesDraft {
            response,
            files: kept.files(),
            shape,
            limit: (!kept.is_whole()).then_some(LARGEST),
        };
        let max_bytes = context.max_bytes(self.config.max_output_bytes);
        draft.fit(max_bytes.map_or(LARGEST, |max_bytes| max_bytes.min(LARGEST)))
    }
}

impl Sealed for FilesTool {}

#[doc(hidden)]
impl Tool for FilesTool {
    fn id(&self) -> ToolName {
        ToolName::SearchFiles
    }

    fn summary_of(&self, arguments: &Value) -> String {
        let request = FilesRequest::from_value(arguments.clone());
        let any = |_| ToolName::SearchFiles.summary(arguments);
        request.map_or_else(any, |request| self.summary(&request))
    }

    fn call_json(&self, arguments: Value, context: &ToolContext) -> Result<ToolAnswer, ToolError> {
        // A timeout of this tool is an error.
        Ok(ToolAnswer::new(
            self.call(arguments, context)?.to_json(),
            false,
        ))
    }
}

/// The results of a request before the response is built.
struct FilesResults {
    /// The mode of the search that gave these results.
    mode: Mode,
    question: Question,
    kept: AnswerParts,
    summary: Summary,
}

/// Returns the reason for a truncated response: the limit that ended the search, or else a limit
/// that skipped files or matches on the way.
fn reason_of(cuts: Cuts) -> Option<TruncatedReason> {
    let reasons = [
        (cuts.max_results, TruncatedReason::MaxResults),
        (cuts.max_files, TruncatedReason::MaxFiles),
        (
            cuts.max_matches_per_file,
            TruncatedReason::MaxMatchesPerFile,
        ),
        (cuts.max_depth, TruncatedReason::MaxDepth),
    ];
    let mut applies = reasons.into_iter().filter(|(applies, _)| *applies);
    applies.next().map(|(_, reason)| reason)
}

fn fallback_stats(fallback: &Fallback) -> Option<FallbackStats> {
    let used = !fallback.tried.is_empty();
    (used || fallback.ended.is_some()).then(|| FallbackStats {
        initial_mode: Mode::Exact,
        fallback_used: used,
        fuzzy_passes_used: fallback.tried.len() as u64,
        fallback_ended: fallback.ended.and_then(|ended| match ended {
            answering::FallbackEnd::Found => None,
            answering::FallbackEnd::NoTime(_) | answering::FallbackEnd::TimedOut(_) => {
                Some(FallbackEnd::Timeout)
            }
            answering::FallbackEnd::Refused => Some(FallbackEnd::QueryTooLong),
            answering::FallbackEnd::Failed => Some(FallbackEnd::Failed),
        }),
    })
}
