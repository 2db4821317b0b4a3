//! The response of the `find_files` tool, as fields and as text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::budget::too_small;
use crate::tool::error::ToolError;
use crate::tool::notes::{Note, Reader};
use crate::tool::render::escape_controls;
use crate::tool::response::ErrorEntry;

/// The text of a complete answer without a file.
const NOTHING: &str = "[no file was found]\n";

/// The response of the `find_files` tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindResponse {
    /// The searched directory, as the request names it.
    pub path: String,
    /// The files, in the order that was asked for.
    pub files: Vec<FoundPath>,
    /// How many there are in the response.
    pub returned: u64,
    /// How many were found, those that are not in the response included.
    pub total: u64,
    /// Whether files are missing because of a limit.
    pub truncated: bool,
    /// Whether the time ended before all files were seen.
    pub timed_out: bool,
    /// Directories that could not be read.
    pub errors: Vec<ErrorEntry>,
    /// What is missing and why, in words.
    pub notes: Vec<String>,
}

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundPath {
    /// Its path, relative to the working directory where it lies there.
    pub path: String,
    /// How well the path matches the name that was given; higher is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<u32>,
    /// When it was last modified, in milliseconds since 1970, where the order is by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ms: Option<i64>,
}

impl FindResponse {
    /// Returns the response as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Writes the response for people and models: a path a line, and notes in brackets below.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            text.push_str(&escape_controls(&file.path));
            text.push('\n');
        }
        if self.files.is_empty() && !self.truncated && !self.timed_out {
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

    /// Leaves out files from the end until the response has at most `budget` bytes as JSON, and so
    /// has its text; then entries of `errors`.
    ///
    /// # Errors
    ///
    /// A budget that not even the notes fit.
    pub(super) fn fit(mut self, budget: Option<usize>) -> Result<FindResponse, ToolError> {
        self.returned = self.files.len() as u64;
        let Some(budget) = budget.filter(|budget| self.to_json().len() > *budget) else {
            return Ok(self);
        };
        self.truncated = true;
        self.notes.push(Note::Bytes(budget).text(Reader::Program));
        let with = |files: usize, errors: usize| FindResponse {
            files: self.files[..files].to_vec(),
            errors: self.errors[..errors].to_vec(),
            returned: files as u64,
            notes: self.notes.clone(),
            path: self.path.clone(),
            ..self
        };
        let fits = |files: usize, errors: usize| with(files, errors).to_json().len() <= budget;
        let least = with(0, 0).to_json().len();
        if least > budget {
            return Err(too_small(budget, "files", |_| least));
        }
        let errors = most(self.errors.len(), |errors| fits(0, errors));
        let files = most(self.files.len(), |files| fits(files, errors));
        Ok(with(files, errors))
    }
}

/// Returns the largest number up to `all` that fits; a smaller number fits if a larger one does.
fn most(all: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut least, mut beyond) = (0, all + 1);
    while least + 1 < beyond {
        let middle = least + (beyond - least) / 2;
        match fits(middle) {
            true => least = middle,
            false => beyond = middle,
        }
    }
    least
}
