//! The answer of the `search_files` tool as text for a model.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::request::{FilesRequest, MAX_CONTEXT_LINES};
use super::{FilesTool, LARGEST};
use crate::exec::answer::outcome::Line;
use crate::tool::answer_notes::notes_of;
use crate::tool::arguments;
use crate::tool::error::ToolError;
use crate::tool::notes::Note;
use crate::tool::response::ErrorEntry;
use crate::tool::search::{ShownPaths, ToolContext, gap_error, set};
use crate::tool::text_answer::{TextAnswer, TextDraft, at_cap, cap};
use crate::tool::tools::ToolName;

impl FilesTool {
    /// Answers a request with text. Fields above their caps are lowered, and the text says so. If
    /// `path` is a file, only this file is searched. Paths are displayed relative to the working
    /// directory.
    ///
    /// # Errors
    ///
    /// Those of [`FilesTool::search`], except the timeout, which the text reports.
    pub(crate) fn call_for_text(
        &self,
        request: Value,
        context: &ToolContext,
    ) -> Result<TextAnswer, ToolError> {
        let config = &self.config;
        let mut request: FilesRequest = arguments::parse(ToolName::SearchFiles, request)?;
        let mut around = Some(request.context_lines);
        let mut notes = cap(&mut [
            ("max_results", &mut request.max_results, config.max_results),
            ("max_files", &mut request.max_files, config.max_files),
            ("max_depth", &mut request.max_depth, config.max_depth),
            (
                "max_matches_per_file",
                &mut request.max_matches_per_file,
                config.max_matches_per_file,
            ),
            (
                "max_file_size_bytes",
                &mut request.max_file_size_bytes,
                config.max_file_size_bytes,
            ),
            ("context_lines", &mut around, MAX_CONTEXT_LINES),
        ]);
        request.context_lines = around.unwrap_or_default();
        let answered = self.find(&request, context, true)?;
        let (question, summary) = (&answered.question, &answered.summary);
        let timeout = self.default_timeout(context);
        notes.extend(notes_of(question, summary, Some(timeout)));
        let target = summary.targets.first().cloned().unwrap_or_default();
        let paths = ShownPaths::new(&target, context.sandbox.working_dir());
        let mut errors = answered.kept.errors(question.limits.max_file_size);
        for error in &mut errors {
            error.path = paths.show(Path::new(&error.path));
        }
        let mut lines = Vec::new();
        for file in answered.kept.files() {
            let path: Arc<str> = paths.show(&file.path).into();
            let shown = near_a_match(&file.outcome.lines, request.context_lines);
            lines.extend(shown.map(|line| (path.clone(), line.clone())));
            let is_shown = !file.outcome.lines.is_empty();
            if let Some(error) = gap_error(&file.outcome.gaps, target.is_file, is_shown) {
                let path = path.to_string();
                errors.push(ErrorEntry { path, error });
            }
        }
        let timed_out = summary.timed_out();
        let is_whole = answered.kept.is_whole();
        let draft = TextDraft {
            has_match_unshown: answered
                .kept
                .files()
                .iter()
                .any(|file| file.outcome.gaps.hides_match()),
            lines,
            errors,
            at_cap: at_cap(&notes, |limit| match limit {
                Note::MaxResults(limit) => *limit >= config.max_results,
                Note::MaxFiles(limit) => *limit >= config.max_files,
                Note::MaxMatchesPerFile(limit) => *limit >= config.max_matches_per_file,
                Note::MaxDepth(limit) => *limit >= config.max_depth,
                Note::TooLarge { limit, .. } => *limit >= config.max_file_size_bytes,
                _ => false,
            }),
            notes,
            failure: None,
            has_context: request.context_lines > 0,
            max_line_bytes: set(config.max_line_bytes),
            is_cut: summary.run.cuts.any() || timed_out,
            limit: (!is_whole).then_some(LARGEST),
        };
        let max_bytes = context.max_bytes(config.max_output_bytes);
        let text = draft.fit(Some(
            max_bytes.map_or(LARGEST, |max_bytes| max_bytes.min(LARGEST)),
        ))?;
        Ok(TextAnswer { text, timed_out })
    }
}

/// Returns the matching lines and their context lines. A line after the last match within a limit
/// does not count as a match.
fn near_a_match(lines: &[Line], around: u64) -> impl Iterator<Item = &Line> {
    let matching = lines.iter().filter(|line| !line.spans.is_empty());
    let matching: Vec<u64> = matching.map(|line| line.number).collect();
    lines.iter().filter(move |line| {
        let next = matching.partition_point(|number| *number < line.number);
        let beside = [next.checked_sub(1), Some(next)].into_iter().flatten();
        let mut beside = beside.filter_map(|at| matching.get(at));
        beside.any(|number| number.abs_diff(line.number) <= around)
    })
}
