//! Answers calls of the tool `find_code` with the ranked places of a question.
//!
//! This module owns the mapping between the tool's request and response and those of a ranked
//! search. The search itself is that of every question: see `answer`.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value;

use super::answer::RankedSearch;
use super::limits::{LimitHit, Warning};
use super::related::{SourceLine, place_of};
use super::reply::{ErrorCode, Failure, Found, Success};
use super::request::{SearchQuery, SnippetMode};
use super::service::Service;
use crate::exec::as_text;
use crate::exec::sources::reach::Resolved;
use crate::exec::stop::millis;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::find_code::{
    CodePlace, DEFAULT_RESULTS, FIND_CODE_NAME, FindCodeDraft, FindCodeRequest, FindCodeResponse,
    PlaceKind,
};
use crate::tool::notes::Note;
use crate::tool::render::escape_name;
use crate::tool::search::ToolContext;
use crate::tool::tools::{Sealed, Tool, ToolAnswer, ToolName};

/// The tool `find_code`. A service of this process ranks the places.
pub struct FindCodeTool(LazyService);

/// A service that the first call creates.
type LazyService = LazyLock<Result<Arc<Service>, ToolError>, NewService>;

/// Creates a service.
type NewService = Box<dyn FnOnce() -> Result<Arc<Service>, ToolError> + Send>;

impl FindCodeTool {
    /// Creates the tool. The first call creates its service with `service`. If that fails, each
    /// call returns the error.
    pub fn new(
        service: impl FnOnce() -> Result<Arc<Service>, ToolError> + Send + 'static,
    ) -> FindCodeTool {
        FindCodeTool(LazyLock::new(Box::new(service)))
    }

    /// Finds the places of a request. Blocks.
    ///
    /// # Errors
    ///
    /// The errors of the service, and [`ToolError::BadArgs`] if the request is not valid. A timeout
    /// is no error: the response has `timed_out` set.
    pub fn find_code(
        &self,
        request: &FindCodeRequest,
        context: &ToolContext,
    ) -> Result<FindCodeResponse, ToolError> {
        self.0
            .as_ref()
            .map_err(Clone::clone)?
            .find_code(request, context)
    }
}

impl fmt::Debug for FindCodeTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FindCodeTool").finish_non_exhaustive()
    }
}

impl Sealed for FindCodeTool {}

#[doc(hidden)]
impl Tool for FindCodeTool {
    fn id(&self) -> ToolName {
        ToolName::FindCode
    }

    fn call_json(&self, arguments: Value, context: &ToolContext) -> Result<ToolAnswer, ToolError> {
        let request = FindCodeRequest::from_value(arguments)?;
        let found = self.find_code(&request, context)?;
        Ok(ToolAnswer::new(found.to_json(), found.timed_out))
    }
}

impl RankedSearch<'_> {
    /// Finds the places of a request. Its path may be in any allowed root.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`] if the request is not valid or the path does not exist.
    /// [`ToolError::SandboxViolation`] if the path must not be read. [`ToolError::Cancelled`], and
    /// [`ToolError::ExecutionFailed`] if the tree can't be read. A timeout is no error: the
    /// response has `timed_out` set.
    pub(super) fn find_code(
        &self,
        request: &FindCodeRequest,
        time: Duration,
        as_text: bool,
    ) -> Result<FindCodeResponse, ToolError> {
        if !self.tool.config().enabled {
            return Err(DenialReason::Disabled.into());
        }
        request.validate()?;
        let target = self.resolve("path", request.path.as_deref())?;
        let place = request.related.as_deref().and_then(place_of);
        let source = place.map(|(file, line)| {
            Ok::<_, ToolError>(SourceLine {
                file: self.resolve("related", Some(file))?,
                shown: file.to_string(),
                line,
            })
        });
        let source = source.transpose()?;
        let sandbox = &self.context.sandbox;
        let allowed = sandbox.reach().containing(&target.canonical);
        let root = match allowed {
            // The path is in another root.
            Some((allowed, _)) if !target.canonical.starts_with(self.root) => allowed.path(),
            _ => self.root,
        };
        let search = RankedSearch {
            root,
            target: Some(target),
            source,
            ..self.clone()
        };
        let query = SearchQuery {
            limit: Some(request.max_results.unwrap_or(DEFAULT_RESULTS)),
            mode: request.mode,
            related: request.related.clone(),
            budget: request.budget,
            snippet: Some(SnippetMode::Definition),
            // The text for a model escapes control characters itself.
            raw: true,
            ..SearchQuery::new(&request.question)
        };
        let working_dir = sandbox.working_dir();
        let draft = match search.answer(&query, String::new()) {
            Ok((success, _)) => draft(success, root, working_dir),
            Err(failure) if failure.error.code == ErrorCode::Timeout => timed_out(millis(time)),
            Err(failure) => return Err(of_failure(failure, request)),
        };
        let draft = FindCodeDraft { as_text, ..draft };
        draft.fit(self.context.max_bytes(self.tool.config().max_output_bytes))
    }

    /// Resolves the path in a field of a request, which must exist.
    fn resolve(&self, field: &str, path: Option<&str>) -> Result<Resolved, ToolError> {
        let resolved = self.context.sandbox.resolve(path);
        let resolved = resolved.map_err(|error| ToolName::FindCode.explain(error))?;
        if !resolved.canonical.exists() {
            let message = format!("the path `{}` does not exist", path.unwrap_or("."));
            return Err(ToolName::FindCode.wrong_field(field, message));
        }
        Ok(resolved)
    }
}

/// Turns the answer for the directory `root` into a response. Its paths are relative to the working
/// directory, or absolute if that is another one.
fn draft(mut success: Success, root: &Path, working_dir: &Path) -> FindCodeDraft {
    if root != working_dir {
        let of_results = success.results.iter_mut().map(|found| &mut found.path);
        let of_limits = success.limits_hit.iter_mut().map(|hit| &mut hit.path_key);
        let of_warnings = success.warnings.iter_mut().map(|one| &mut one.path_key);
        let of_notes = of_limits.chain(of_warnings).flatten();
        for path in of_results.chain(of_notes) {
            *path = as_text::shown(&root.join(&*path)).into_owned();
        }
    }
    let notes: Vec<Note> = success
        .limits_hit
        .iter()
        .filter_map(of_limit)
        .chain(success.warnings.iter().map(of_warning))
        .collect();
    let places: Vec<CodePlace> = success.results.into_iter().map(place).collect();
    FindCodeDraft {
        response: FindCodeResponse {
            returned: places.len() as u64,
            places,
            truncated: notes.iter().any(Note::is_cut),
            timed_out: false,
            notes: Vec::new(),
        },
        notes,
        as_text: false,
    }
}

fn place(found: Found) -> CodePlace {
    CodePlace {
        path: found.path,
        start_line: found.start_line,
        end_line: found.end_line,
        kind: match found.chunk_type.as_str() {
            "definition" => PlaceKind::Definition,
            _ => PlaceKind::Content,
        },
        why: found.why,
        match_pct: found.match_pct,
        content: found.content,
    }
}

fn timed_out(ms: u64) -> FindCodeDraft {
    FindCodeDraft {
        response: FindCodeResponse {
            places: Vec::new(),
            returned: 0,
            truncated: false,
            timed_out: true,
            notes: Vec::new(),
        },
        notes: vec![Note::NoTime(ms)],
        as_text: false,
    }
}

/// Returns the note about a limit. Further places of a file are never missed, so `per_file` has
/// none.
fn of_limit(hit: &LimitHit) -> Option<Note> {
    let note = match hit.code.as_str() {
        "per_file" => return None,
        "max_results" => Note::BestPlaces(hit.limit),
        code => Note::Limited {
            limit: code.to_string(),
            value: hit.limit,
            path: hit.path_key.as_deref().map(shown),
        },
    };
    Some(note)
}

fn of_warning(warning: &Warning) -> Note {
    Note::Warning(match &warning.path_key {
        Some(path) => format!("{}: {}", shown(path), warning.message),
        None => warning.message.clone(),
    })
}

/// Returns a path as notes show it.
fn shown(path: &str) -> String {
    escape_name(path).into_owned()
}

fn of_failure(failure: Failure, request: &FindCodeRequest) -> ToolError {
    failure.into_tool_error(FIND_CODE_NAME, |message| match request.related {
        Some(_) => ToolName::FindCode.wrong_field("related", message),
        None => ToolName::FindCode.wrong(message, &[]),
    })
}
