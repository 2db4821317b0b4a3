//! The `find_files` tool: finds files by name.
//!
//! This module owns the request, the order of the files and the response. The files come from the
//! same search as for the tool `Search`: with the same ignore rules and sandbox, and from the
//! catalog of an index if there is one. The list is current: it includes files created just before
//! the call.

mod request;
mod response;
mod score;

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use crate::exec::answer::collect::Found;
use crate::exec::question::query::Report;
use crate::exec::question::{
    FallbackPlan, FileChoice, OutputSpec, PatternSpec, Question, QuestionLimits,
};
use crate::exec::question::{Follow, IgnoreRules, TraversalOptions};
use crate::exec::sources::types::TypeRule;
use crate::tool::answer_notes::notes_of;
use crate::tool::answering::Target;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::notes::Note;
use crate::tool::response::ErrorEntry;
use crate::tool::search::{SearchTool, ShownPaths, ToolContext};
use crate::tool::searcher::to_usize;
#[cfg(feature = "daemon")]
use crate::tool::text_answer::TextAnswer;
use crate::tool::tools::{Sealed, Tool, ToolAnswer, ToolName};

pub use request::{FIND_NAME, FindRequest, Sort, find_schema};
pub use response::{FindResponse, FoundPath};

use request::MAX_RESULTS;
use response::FindDraft;
use score::Scorer;

/// The maximum number of files in a response to a request that sets none.
const DEFAULT_RESULTS: u64 = 100;

/// A file that was found.
struct Candidate {
    /// Its path relative to the searched directory.
    path: PathBuf,
    /// The score of its path, if the request has a name.
    score: Option<u32>,
}

/// The tool `find_files`. It lists files by means of the tool `Search`.
#[derive(Clone, Debug)]
pub struct FindFilesTool(Arc<SearchTool>);

impl FindFilesTool {
    /// Creates the tool. Its configuration, engines and indexes are those of `Search`.
    pub fn new(search: Arc<SearchTool>) -> FindFilesTool {
        FindFilesTool(search)
    }
}

impl Sealed for FindFilesTool {}

#[doc(hidden)]
impl Tool for FindFilesTool {
    fn id(&self) -> ToolName {
        ToolName::FindFiles
    }

    fn call_json(&self, arguments: Value, context: &ToolContext) -> Result<ToolAnswer, ToolError> {
        let found = self.0.call_find_files(arguments, context)?;
        Ok(ToolAnswer::new(found.to_json(), found.timed_out))
    }
}

impl SearchTool {
    /// Finds files for a request in JSON.
    ///
    /// # Errors
    ///
    /// The errors of [`SearchTool::find_files`].
    pub fn call_find_files(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<FindResponse, ToolError> {
        self.find_files(&FindRequest::from_value(arguments)?, context)
    }

    /// Finds files by name. Reads no file content, and the result never counts as a read.
    ///
    /// # Errors
    ///
    /// - [`ToolError::BadArgs`]: the request is invalid.
    /// - [`ToolError::SandboxViolation`]: the path must not be read, the tool is disabled, or not
    ///   even an empty response fits the limit in bytes.
    /// - [`ToolError::ExecutionFailed`]: the path does not exist.
    /// - [`ToolError::Cancelled`]: the host cancelled the call.
    ///
    /// A timeout is no error: the response has `timed_out` set.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use forge_search::internal::tool::config::Config;
    /// use forge_search::internal::tool::engines::Engines;
    /// use forge_search::internal::tool::find_files::FindRequest;
    /// use forge_search::internal::tool::sandbox::Sandbox;
    /// use forge_search::internal::tool::search::{SearchTool, ToolContext};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::create_dir(dir.path().join("src"))?;
    /// # std::fs::write(dir.path().join("src/lib.rs"), "")?;
    /// # std::fs::write(dir.path().join("notes.md"), "")?;
    /// let mut config = Config::library_default();
    /// config.search.enabled = true;
    /// let sandbox = Arc::new(Sandbox::new(&config.sandbox, dir.path())?);
    /// let tool = SearchTool::new(config.search, Engines::embedded());
    /// let request = FindRequest::from_json(r#"{"name": "srlib"}"#)?;
    /// let found = tool.find_files(&request, &ToolContext::new(sandbox))?;
    /// assert_eq!(found.files[0].path, "src/lib.rs");
    /// assert_eq!((found.returned, found.total), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find_files(
        &self,
        request: &FindRequest,
        context: &ToolContext,
    ) -> Result<FindResponse, ToolError> {
        let draft = self.draft_of_files(request, context)?;
        draft.fit(context.max_bytes(self.config().max_output_bytes))
    }

    /// Finds files for a request in JSON, and returns them as text.
    ///
    /// # Errors
    ///
    /// The errors of [`SearchTool::find_files`].
    #[cfg(feature = "daemon")]
    pub(crate) fn call_find_files_for_text(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<TextAnswer, ToolError> {
        let request = FindRequest::from_value(arguments)?;
        let draft = FindDraft {
            as_text: true,
            ..self.draft_of_files(&request, context)?
        };
        let found = draft.fit(context.max_bytes(self.config().max_output_bytes))?;
        Ok(TextAnswer {
            text: found.to_text(),
            timed_out: found.timed_out,
        })
    }

    /// Finds files; the caller fits them into its number of bytes.
    fn draft_of_files(
        &self,
        request: &FindRequest,
        context: &ToolContext,
    ) -> Result<FindDraft, ToolError> {
        let found = self.find_files_any_way(request, context);
        found.map_err(|error| ToolName::FindFiles.explain(error))
    }

    fn find_files_any_way(
        &self,
        request: &FindRequest,
        context: &ToolContext,
    ) -> Result<FindDraft, ToolError> {
        if !self.config().enabled {
            return Err(DenialReason::Disabled.into());
        }
        request.validate()?;
        let question = self.find_question(request);
        let mut scorer = request.name.as_deref().map(Scorer::new);
        let (mut candidates, mut errors) = (Vec::new(), Vec::new());
        let mut take = |found: Found| {
            match found {
                Found::Error(error) => errors.push(error),
                // The request limits no sizes, so files are listed, not opened.
                Found::File(_) => {}
                Found::Listed(files) => {
                    for path in files.iter() {
                        let score = match &mut scorer {
                            None => Some(None),
                            Some(scorer) => scorer.score(&path).map(Some),
                        };
                        candidates.extend(score.map(|score| Candidate {
                            path: path.into_owned(),
                            score,
                        }));
                    }
                }
            }
            ControlFlow::Continue(())
        };
        let (summary, timeout) =
            self.answer_within(&question, request.timeout_ms, context, &mut take)?;
        if let Some(error) = errors
            .first()
            .filter(|error| error.path.as_os_str().is_empty())
        {
            return Err(self.unsearchable(request.path.as_deref(), &error.message));
        }
        let target = summary.targets.first().cloned().unwrap_or_default();
        let paths = ShownPaths::new(&target, context.sandbox.working_dir());
        let top = top_of(&target);
        let total = candidates.len() as u64;
        let asked = request.max_results.unwrap_or(DEFAULT_RESULTS);
        let limit = asked.min(MAX_RESULTS);
        let mut notes = notes_of(&question, &summary, Some(timeout));
        notes.extend(cut_notes(asked, limit, total));
        let files = in_order(candidates, request.order(), to_usize(limit), &top);
        let response = FindResponse {
            path: request.path.clone().unwrap_or(".".to_string()),
            files: files
                .into_iter()
                .map(|(candidate, modified_ms)| FoundPath {
                    path: paths.show(&candidate.path),
                    score: candidate.score,
                    modified_ms,
                })
                .collect(),
            returned: 0,
            total,
            truncated: summary.run.cuts.any() || total > limit,
            timed_out: summary.timed_out(),
            errors: errors
                .into_iter()
                .map(|error| ErrorEntry {
                    path: paths.show(&error.path),
                    error: error.message,
                })
                .collect(),
            notes: Vec::new(),
        };
        Ok(FindDraft {
            response,
            notes,
            as_text: false,
        })
    }

    /// Converts a request into a question.
    fn find_question(&self, request: &FindRequest) -> Question {
        let types = request.types.iter().map(|name| TypeRule {
            name: name.clone(),
            negated: false,
        });
        Question {
            looked_for: PatternSpec::default(),
            files: FileChoice {
                max_depth: request.max_depth.map(to_usize),
                depth_cuts: true,
                globs: request.globs.clone(),
                types: types.collect(),
                no_git_dirs: true,
                ..FileChoice::of(
                    request.path.iter().map(PathBuf::from).collect(),
                    TraversalOptions {
                        hidden: request.hidden,
                        follow: Follow::Never,
                        rules: match request.no_ignore {
                            true => IgnoreRules::None,
                            false => IgnoreRules::All,
                        },
                        recursive: true,
                    },
                )
            },
            shown: OutputSpec {
                report: Report::Presence,
                ..OutputSpec::default()
            },
            limits: QuestionLimits {
                max_files: self.config().max_files,
                ..QuestionLimits::NONE
            },
            fallback: FallbackPlan::default(),
        }
    }
}

/// Returns the first `limit` files in an order, with their modification time if the order needs it.
/// Equal files stay in the order of their paths.
fn in_order(
    mut candidates: Vec<Candidate>,
    sort: Sort,
    limit: usize,
    top: &Path,
) -> Vec<(Candidate, Option<i64>)> {
    match sort {
        Sort::Path => {}
        Sort::Score => candidates.sort_by_key(|candidate| Reverse(candidate.score)),
        Sort::Modified => {
            let mut timed: Vec<(Candidate, Option<i64>)> = candidates
                .into_iter()
                .map(|candidate| {
                    let modified = modified_ms(&top.join(&candidate.path));
                    (candidate, modified)
                })
                .collect();
            timed.sort_by_key(|(_, modified)| Reverse(*modified));
            timed.truncate(limit);
            return timed;
        }
    }
    candidates.truncate(limit);
    candidates
        .into_iter()
        .map(|candidate| (candidate, None))
        .collect()
}

/// Returns the modification time of a file, in milliseconds since 1970. Does not follow links.
fn modified_ms(path: &Path) -> Option<i64> {
    let modified = path.symlink_metadata().ok()?.modified().ok()?;
    let ms = match modified.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).ok()?,
        Err(before) => -i64::try_from(before.duration().as_millis()).ok()?,
    };
    Some(ms)
}

/// Returns the directory that the found paths are relative to.
fn top_of(target: &Target) -> PathBuf {
    match target.is_file {
        true => target
            .canonical
            .parent()
            .unwrap_or(Path::new("/"))
            .to_path_buf(),
        false => target.canonical.clone(),
    }
}

/// Returns the notes about found files that are not shown.
fn cut_notes(asked: u64, limit: u64, total: u64) -> Vec<Note> {
    let mut notes = Vec::new();
    if asked > limit {
        notes.push(Note::Capped {
            field: "max_results",
            asked,
            cap: limit,
        });
    }
    if total > limit {
        notes.push(Note::MaxFound { limit, total });
    }
    notes
}

#[cfg(test)]
mod tests;
