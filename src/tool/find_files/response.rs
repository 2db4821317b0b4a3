//! The response of the `find_files` tool, as fields and as text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::error::ToolError;
use crate::tool::fit::{Draft, Extent, Piece, fit};
use crate::tool::notes::{Note, Reader};
use crate::tool::render::escape_controls;
use crate::tool::response::{ErrorEntry, json_len, json_len_of};

/// The text of a complete response without files.
const NOTHING: &str = "[no file was found]\n";

/// The response of the `find_files` tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct FindResponse {
    /// The searched directory, as in the request.
    pub path: String,
    /// The files, in the requested order.
    pub files: Vec<FoundPath>,
    /// The number of files in the response.
    pub returned: u64,
    /// The number of files found, including those omitted from the response.
    pub total: u64,
    /// Whether files are missing because of a limit.
    pub truncated: bool,
    /// Whether the time limit was reached before all files were seen.
    pub timed_out: bool,
    /// Directories that could not be read.
    pub errors: Vec<ErrorEntry>,
    /// Notes in words: what is missing from the response, and why.
    pub notes: Vec<String>,
}

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct FoundPath {
    /// The path, relative to the working directory if the file is inside it.
    pub path: String,
    /// How well the path matches the requested `name`; higher is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<u32>,
    /// The time of last modification in milliseconds since 1970, if the files are sorted by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ms: Option<i64>,
}

impl FindResponse {
    /// Returns the response as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the response as text for people and models: one path per line, followed by notes in
    /// brackets.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            text.push_str(&file.to_line());
        }
        if self.returned == 0 && !self.truncated && !self.timed_out {
            text.push_str(NOTHING);
        }
        for entry in &self.errors {
            let path = escape_controls(&entry.path);
            text.push_str(&format!("[{path}: {}]\n", escape_controls(&entry.error)));
        }
        for note in &self.notes {
            text.push_str(&format!("[{note}]\n"));
        }
        text
    }
}

impl FoundPath {
    /// Returns the line of the file in the text.
    fn to_line(&self) -> String {
        format!("{}\n", escape_controls(&self.path))
    }
}

/// A response that is not yet fitted into its number of bytes.
pub(super) struct FindDraft {
    /// All fields except the notes.
    pub(super) response: FindResponse,
    /// The notes for the reader.
    pub(super) notes: Vec<Note>,
    /// True if the limit applies to the response as text, and not as JSON.
    pub(super) as_text: bool,
}

impl FindDraft {
    /// Builds the response, in at most `max_bytes` bytes.
    ///
    /// # Errors
    ///
    /// `DenialReason::LimitsExceeded` if not even the notes fit the limit.
    pub(super) fn fit(self, max_bytes: Option<usize>) -> Result<FindResponse, ToolError> {
        let extent = fit(&self, max_bytes)?;
        let bare = self.bare(extent);
        let mut files = self.response.files;
        files.truncate(extent.results);
        Ok(FindResponse { files, ..bare })
    }

    /// Returns the response without its files.
    fn bare(&self, extent: Extent) -> FindResponse {
        let whole = &self.response;
        let notes = extent.notes(&self.notes, whole.errors.len(), 0);
        FindResponse {
            path: whole.path.clone(),
            files: Vec::new(),
            returned: extent.results as u64,
            truncated: whole.truncated || extent.limit.is_some(),
            errors: whole.errors.iter().take(extent.errors).cloned().collect(),
            notes: notes
                .iter()
                .map(|note| note.text(Reader::Program))
                .collect(),
            ..*whole
        }
    }
}

impl Draft for FindDraft {
    const RESULTS: &'static str = "files";

    fn whole(&self) -> Extent {
        Extent {
            // Paths are never shortened.
            line: Some(0),
            results: self.response.files.len(),
            errors: self.response.errors.len(),
            limit: None,
        }
    }

    fn pieces(&self, _: Option<usize>) -> impl Iterator<Item = Piece> + '_ {
        let files = self.response.files.iter().enumerate();
        files.map(|(nth, file)| Piece {
            bytes: match self.as_text {
                true => json_len(&file.to_line()),
                false => json_len_of(file) + usize::from(nth > 0),
            },
            shortened: 0,
        })
    }

    fn frame(&self, extent: Extent, _: u64) -> usize {
        let bare = self.bare(extent);
        match self.as_text {
            true => json_len_of(&bare.to_text()),
            false => json_len_of(&bare),
        }
    }
}
