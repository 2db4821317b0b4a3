//! A response of `Search` that is not yet fitted into its number of bytes.

use std::sync::Arc;

use crate::exec::answer::outcome::Line;
use crate::tool::error::ToolError;
use crate::tool::fit::{Draft, Extent, Piece, fit};
use crate::tool::notes::{Note, closing_notes};
use crate::tool::render::push_line;
use crate::tool::response::{Record, SearchResponse, json_len, json_len_of};

/// A response without its records, and the lines for these records.
pub(super) struct SearchDraft {
    /// All fields except `matches`, `count` and `content`.
    pub(super) response: SearchResponse,
    /// The lines, each with its displayed path.
    pub(super) lines: Vec<(Arc<str>, Line)>,
    /// Notes for the reader.
    pub(super) notes: Vec<Note>,
    /// Limit on the displayed bytes of a line.
    pub(super) max_line_bytes: Option<usize>,
}

impl SearchDraft {
    /// Builds the response, in at most `max_bytes` bytes of JSON.
    ///
    /// # Errors
    ///
    /// `DenialReason::LimitsExceeded` if not even a response without records fits the limit.
    pub(super) fn fit(self, max_bytes: Option<usize>) -> Result<SearchResponse, ToolError> {
        let extent = fit(&self, max_bytes)?;
        let lines = self.lines.iter().take(extent.results);
        let records = lines.map(|(path, line)| Record::of(path, line, extent.line));
        let matches: Vec<Record> = records.collect();
        let mut content = String::new();
        matches
            .iter()
            .for_each(|record| push_line(&mut content, record));
        let shortened = matches.iter().filter(|one| one.left_out.is_some()).count();
        let bare = self.bare(extent, shortened as u64);
        Ok(SearchResponse {
            matches,
            content: content + &bare.content,
            ..bare
        })
    }

    /// Returns the response without its records.
    fn bare(&self, extent: Extent, shortened: u64) -> SearchResponse {
        let whole = &self.response;
        let mut stats = whole.stats.clone();
        if let Some(stats) = &mut stats {
            stats.lines_shortened = shortened;
        }
        let notes = extent.notes(&self.notes, whole.errors.len(), shortened);
        SearchResponse {
            pattern: whole.pattern.clone(),
            path: whole.path.clone(),
            count: extent.results,
            matches: Vec::new(),
            truncated: whole.truncated || extent.limit.is_some(),
            errors: whole.errors.iter().take(extent.errors).cloned().collect(),
            stderr: whole.stderr.clone(),
            content: closing_notes(&notes),
            stats,
            ..*whole
        }
    }
}

impl Draft for SearchDraft {
    const RESULTS: &'static str = "events";

    fn whole(&self) -> Extent {
        Extent {
            line: self.max_line_bytes,
            results: self.lines.len(),
            errors: self.response.errors.len(),
            limit: None,
        }
    }

    fn pieces(&self, line: Option<usize>) -> impl Iterator<Item = Piece> + '_ {
        let mut content = String::new();
        self.lines
            .iter()
            .enumerate()
            .map(move |(nth, (path, event))| {
                let record = Record::of(path, event, line);
                content.clear();
                push_line(&mut content, &record);
                Piece {
                    bytes: json_len_of(&record) + usize::from(nth > 0) + json_len(&content),
                    shortened: u64::from(record.left_out.is_some()),
                }
            })
    }

    fn frame(&self, extent: Extent, shortened: u64) -> usize {
        json_len_of(&self.bare(extent, shortened))
    }
}
