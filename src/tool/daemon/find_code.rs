//! Answers calls of the tool `find_code` with the ranked places of a question.
//!
//! Owns the mapping between the tool's request and response and those of a ranked search. The
//! search itself is that of every question: see `answer`.

use std::path::Path;
use std::time::Duration;

use super::answer::RankedSearch;
use super::limits::{LimitHit, Warning};
use super::reply::{ErrorCode, Failure, Found, Success};
use super::request::{SearchQuery, SnippetMode};
use crate::tool::error::ToolError;
use crate::tool::find_code::{
    CodePlace, DEFAULT_RESULTS, FIND_CODE_NAME, FindCodeDraft, FindCodeRequest, FindCodeResponse,
    PlaceKind,
};
use crate::tool::notes::Note;
use crate::tool::tools::ToolName;

impl RankedSearch<'_> {
    /// Finds the places of a request.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`] if the question has no word, or the path is outside of the root.
    /// [`ToolError::Cancelled`], and [`ToolError::ExecutionFailed`] if the tree can't be read. A
    /// timeout is no error: the response has `timed_out` set.
    pub(super) fn find_code(
        &self,
        request: &FindCodeRequest,
        time: Duration,
        as_text: bool,
    ) -> Result<FindCodeResponse, ToolError> {
        let working_dir = self.context.sandbox.working_dir();
        let path = request.path.as_deref().map(|path| working_dir.join(path));
        let query = SearchQuery {
            limit: Some(request.max_results.unwrap_or(DEFAULT_RESULTS)),
            mode: request.mode,
            path: path.map(|path| path.to_string_lossy().into_owned()),
            snippet: Some(SnippetMode::Definition),
            ..SearchQuery::new(&request.question)
        };
        let draft = match self.answer(&query, String::new()) {
            Ok((success, _)) => draft(success, self.root, working_dir),
            Err(failure) if failure.error.code == ErrorCode::Timeout => {
                let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                timed_out(ms)
            }
            Err(failure) => return Err(of_failure(failure)),
        };
        let draft = FindCodeDraft { as_text, ..draft };
        draft.fit(self.context.budget(self.tool.config().max_output_bytes))
    }
}

fn draft(success: Success, root: &Path, working_dir: &Path) -> FindCodeDraft {
    let notes: Vec<Note> = success
        .limits_hit
        .iter()
        .filter_map(of_limit)
        .chain(success.warnings.iter().map(of_warning))
        .collect();
    let places = success.results.into_iter().map(|found| CodePlace {
        path: match root == working_dir {
            true => found.path.clone(),
            false => root.join(&found.path).to_string_lossy().into_owned(),
        },
        ..place(found)
    });
    let places: Vec<CodePlace> = places.collect();
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
            path: hit.path_key.clone(),
        },
    };
    Some(note)
}

fn of_warning(warning: &Warning) -> Note {
    Note::Warning(match &warning.path_key {
        Some(path) => format!("{path}: {}", warning.message),
        None => warning.message.clone(),
    })
}

fn of_failure(failure: Failure) -> ToolError {
    let message = failure.error.message;
    match failure.error.code {
        ErrorCode::InvalidRequest => ToolName::FindCode.wrong(message, &[]),
        ErrorCode::Cancelled => ToolError::Cancelled,
        _ => ToolError::ExecutionFailed {
            tool: FIND_CODE_NAME.to_string(),
            message,
        },
    }
}
