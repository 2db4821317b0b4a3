//! The request of the `find_files` tool: its fields, schema and validation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::arguments;
use crate::tool::error::ToolError;
use crate::tool::tools::ToolName;

/// The tool that error messages name.
const TOOL: ToolName = ToolName::FindFiles;

/// The name of the tool.
pub const FIND_NAME: &str = "find_files";

/// Limit on the files of a response.
pub(super) const MAX_RESULTS: u64 = 100_000;

/// Limit on the length of a name, in characters.
const MAX_NAME: usize = 1_000;

/// The order of the files of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sort {
    /// Sort by path.
    Path,
    /// By time of modification, newest first.
    Modified,
    /// By similarity to `name`, best first.
    Score,
}

/// A request of the `find_files` tool.
///
/// # Examples
///
/// ```
/// use forge_search::FindRequest;
///
/// let request = FindRequest::from_json(r#"{"globs": ["*.rs", "!tests/"], "path": "src"}"#)?;
/// assert_eq!(request.globs.len(), 2);
/// assert!(FindRequest::from_json(r#"{"sort": "score"}"#).is_err());
/// # Ok::<(), forge_search::ToolError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "Find files by name.")]
#[non_exhaustive]
pub struct FindRequest {
    /// Part of a path, matched fuzzily: `srlib` finds `src/lib.rs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub name: Option<String>,
    /// Globs such as `*.rs` or `!tests/`; the last one that matches decides.
    #[serde(default)]
    pub globs: Vec<String>,
    /// File types, such as `rust`.
    #[serde(default)]
    pub types: Vec<String>,
    /// The directory to search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("default" = "."))]
    pub path: Option<String>,
    /// Default: `score` with `name`, else `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Sort")]
    pub sort: Option<Sort>,
    /// Maximum files in the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1), extend("default" = 100))]
    pub max_results: Option<u64>,
    /// Maximum depth; files directly in `path` have depth 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub max_depth: Option<u64>,
    /// Include hidden files.
    #[serde(default)]
    pub hidden: bool,
    /// Include ignored files.
    #[serde(default)]
    pub no_ignore: bool,
    /// Limit on time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub timeout_ms: Option<u64>,
}

impl FindRequest {
    /// Creates a request for the files whose path is similar to `name`.
    pub fn named(name: impl Into<String>) -> FindRequest {
        FindRequest {
            name: Some(name.into()),
            ..FindRequest::default()
        }
    }

    /// Checks constraints that the types do not express.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`], which names the field, its value and the allowed values.
    pub fn validate(&self) -> Result<(), ToolError> {
        let positive = [
            ("max_results", self.max_results),
            ("max_depth", self.max_depth),
            ("timeout_ms", self.timeout_ms),
        ];
        arguments::check_positive(TOOL, &positive)?;
        match self.name.as_deref().map(str::trim) {
            Some("") => {
                let message = "`name` is empty or blank; give a part of a path, or leave it out to list all files";
                return Err(TOOL.wrong(message, &[]));
            }
            Some(name) if name.chars().count() > MAX_NAME => {
                let message = format!(
                    "`name` has more than {MAX_NAME} characters, which no path has; shorten it"
                );
                return Err(TOOL.wrong(message, &[]));
            }
            _ => {}
        }
        if self.name.is_none() && self.sort == Some(Sort::Score) {
            let message = "`sort` is \"score\", which rates paths by `name`, but `name` is \
                 missing; give it, or sort by \"path\" or \"modified\"";
            return Err(TOOL.wrong(message, &[("sort", "score".into())]));
        }
        arguments::check_globs(TOOL, "globs", &self.globs)
    }

    /// Returns the order of the response.
    pub(super) fn order(&self) -> Sort {
        match (self.sort, &self.name) {
            (Some(sort), _) => sort,
            (None, Some(_)) => Sort::Score,
            (None, None) => Sort::Path,
        }
    }
}

arguments::from_json!(FindRequest, TOOL);

/// Returns the JSON schema of the request (draft 2020-12), generated from the type.
pub fn find_schema() -> Value {
    arguments::schema_of::<FindRequest>(true)
}
