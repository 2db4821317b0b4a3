//! The request of the `search_files` tool: its fields, schema and validation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::arguments;
use crate::tool::config::{Case, Mode};
use crate::tool::error::ToolError;
use crate::tool::tools::ToolName;

/// The tool that error messages name.
const TOOL: ToolName = ToolName::SearchFiles;

/// The name of the tool.
pub const FILES_NAME: &str = "search_files";

/// Limit on the context lines before and after each match.
pub(super) const MAX_CONTEXT_LINES: u64 = 1_000;

/// A request of the `search_files` tool. Omitted fields have the defaults of
/// `[tools.search_files]`.
///
/// # Examples
///
/// ```
/// use forge_search::FilesRequest;
///
/// let request = FilesRequest::from_json(r#"{"path": "src", "query": "fn main"}"#)?;
/// assert_eq!((request.path.as_str(), request.context_lines), ("src", 0));
/// assert!(FilesRequest::from_json(r#"{"path": "src"}"#).is_err());
/// # Ok::<(), forge_search::ToolError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "Search file contents below a directory.")]
#[non_exhaustive]
pub struct FilesRequest {
    /// The directory to search; if empty, the working directory.
    pub path: String,
    /// The text or regular expression.
    #[schemars(length(min = 1))]
    pub query: String,
    /// `exact`: literal text; `regex`: regular expression; `fuzzy`: also similar text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode", extend("default" = "exact"))]
    pub mode: Option<Mode>,
    /// `smart`: sensitive if the query has an uppercase ASCII letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Case", extend("default" = "smart"))]
    pub case: Option<Case>,
    /// Also search subdirectories.
    #[serde(default = "yes")]
    pub recursive: bool,
    /// Maximum depth; files directly in `path` have depth 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub max_depth: Option<u64>,
    /// Maximum matches in the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub max_results: Option<u64>,
    /// Maximum matches per file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub max_matches_per_file: Option<u64>,
    /// Larger files are skipped and listed in `errors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub max_file_size_bytes: Option<u64>,
    /// Maximum files to search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub max_files: Option<u64>,
    /// Context lines before and after each match.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub context_lines: u64,
    /// Search hidden files and directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool", extend("default" = false))]
    pub include_hidden: Option<bool>,
    /// Follow symbolic links to files, but not to directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool", extend("default" = false))]
    pub follow_symlinks: Option<bool>,
    /// Skip files that git ignores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool", extend("default" = true))]
    pub respect_gitignore: Option<bool>,
    /// Search only files that match one of these globs.
    #[serde(default)]
    pub include_globs: Vec<String>,
    /// Skip files that match one of these globs.
    #[serde(default)]
    pub exclude_globs: Vec<String>,
}

fn yes() -> bool {
    true
}

impl Default for FilesRequest {
    /// Returns a request with an empty path and query. The other fields are as in a JSON request
    /// that omits them.
    fn default() -> FilesRequest {
        FilesRequest {
            path: String::new(),
            query: String::new(),
            mode: None,
            case: None,
            recursive: yes(),
            max_depth: None,
            max_results: None,
            max_matches_per_file: None,
            max_file_size_bytes: None,
            max_files: None,
            context_lines: 0,
            include_hidden: None,
            follow_symlinks: None,
            respect_gitignore: None,
            include_globs: Vec::new(),
            exclude_globs: Vec::new(),
        }
    }
}

impl FilesRequest {
    /// Creates a request for `query` below `path` with every other field at its default.
    pub fn new(path: impl Into<String>, query: impl Into<String>) -> FilesRequest {
        FilesRequest {
            path: path.into(),
            query: query.into(),
            ..FilesRequest::default()
        }
    }

    /// Checks constraints that the types do not express.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`], which names the field, its value and the allowed values.
    pub fn validate(&self) -> Result<(), ToolError> {
        if self.query.trim().is_empty() {
            let message = "`query` is empty or blank; give the text to search for";
            return Err(TOOL.wrong(message, &[]));
        }
        let positive = [
            ("max_depth", self.max_depth),
            ("max_results", self.max_results),
            ("max_matches_per_file", self.max_matches_per_file),
            ("max_file_size_bytes", self.max_file_size_bytes),
            ("max_files", self.max_files),
        ];
        arguments::check_positive(TOOL, &positive)?;
        if let (false, Some(depth @ 2..)) = (self.recursive, self.max_depth) {
            let message = format!(
                "`recursive` is false and `max_depth` is {depth}, but without subdirectories the \
                 depth is 1; leave out one of the two fields"
            );
            return Err(TOOL.wrong(message, &[("max_depth", depth.into())]));
        }
        if self.context_lines > MAX_CONTEXT_LINES {
            let message = format!(
                "`context_lines` is {}, above the cap of {MAX_CONTEXT_LINES}; ask for at most that, and \
                 read the file for more",
                self.context_lines
            );
            return Err(TOOL.wrong_field("context_lines", message));
        }
        arguments::check_globs(TOOL, "include_globs", &self.include_globs)?;
        arguments::check_globs(TOOL, "exclude_globs", &self.exclude_globs)
    }
}

arguments::from_json!(FilesRequest, TOOL);

/// Returns the JSON schema of the request (draft 2020-12), generated from the type.
pub fn files_schema() -> Value {
    arguments::schema_of::<FilesRequest>(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_those_of_an_empty_request() {
        let request = FilesRequest::from_value(json!({"path": "src", "query": "x"})).unwrap();
        assert_eq!(request, FilesRequest::new("src", "x"));
        let by_default = FilesRequest {
            path: "src".to_string(),
            query: "x".to_string(),
            ..FilesRequest::default()
        };
        assert_eq!(request, by_default);
    }
}
