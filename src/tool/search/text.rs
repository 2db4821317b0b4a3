//! The answer of the `Search` tool as text for a model.

use serde_json::Value;

use super::{SearchTool, ToolContext, set};
use crate::tool::error::ToolError;
use crate::tool::notes::Note;
use crate::tool::request::SearchRequest;
use crate::tool::text_answer::{TextAnswer, TextDraft, at_cap, cap};

impl SearchTool {
    /// Answers a request with text. Fields above their caps are lowered, and the text says so.
    ///
    /// # Errors
    ///
    /// Those of [`SearchTool::search`].
    pub(crate) fn call_for_text(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<TextAnswer, ToolError> {
        let config = &self.config;
        let mut request = SearchRequest::from_value(arguments)?;
        let mut notes = cap(&mut [
            (
                "max_matches_per_file",
                &mut request.max_matches_per_file,
                config.max_matches_per_file,
            ),
            ("max_files", &mut request.max_files, config.max_files),
            (
                "max_file_size_bytes",
                &mut request.max_file_size_bytes,
                config.max_file_size_bytes,
            ),
        ]);
        let answered = self.find(&request, context)?;
        notes.extend(answered.notes);
        let run = &answered.summary.run;
        let timed_out = answered.summary.timed_out();
        let draft = TextDraft {
            has_match_unshown: answered.has_match_unshown,
            at_cap: at_cap(&notes, |limit| match limit {
                Note::MaxFiles(limit) => *limit >= config.max_files,
                Note::MaxMatchesPerFile(limit) => *limit >= config.max_matches_per_file,
                Note::TooLarge { limit, .. } => *limit >= config.max_file_size_bytes,
                _ => false,
            }),
            lines: answered.lines,
            errors: answered.errors,
            notes,
            failure: run.failure.as_ref().map(ToString::to_string),
            has_context: request.context > 0,
            max_line_bytes: set(config.max_line_bytes),
            is_cut: run.cuts.any() || timed_out,
            limit: None,
        };
        let text = draft.fit(context.max_bytes(config.max_output_bytes))?;
        Ok(TextAnswer { text, timed_out })
    }
}
