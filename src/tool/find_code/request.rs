//! The request of the `find_code` tool: its fields, schema and validation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::arguments;
use crate::tool::config::caps::MAX_RESULTS;
use crate::tool::daemon::related::{no_place, place_of};
use crate::tool::daemon::request::{MAX_BUDGET, Mode};
use crate::tool::error::ToolError;
use crate::tool::tools::ToolName;

/// The tool that error messages name.
const TOOL: ToolName = ToolName::FindCode;

/// The name of the tool.
pub const FIND_CODE_NAME: &str = "find_code";

/// The number of places in a response to a request that sets none.
pub(crate) const DEFAULT_RESULTS: u64 = 10;

/// A request of the `find_code` tool.
///
/// # Examples
///
/// ```
/// use forge_search::FindCodeRequest;
///
/// let request = FindCodeRequest::from_json(r#"{"question": "where are retries limited"}"#)?;
/// assert_eq!(request.max_results, None);
/// assert!(FindCodeRequest::from_json(r#"{"question": " "}"#).is_err());
/// let request = FindCodeRequest::from_json(r#"{"related": "src/a.rs:120", "budget": 2000}"#)?;
/// assert_eq!(request.budget, Some(2000));
/// # Ok::<(), forge_search::ToolError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "Find the code that a question is about.")]
#[non_exhaustive]
pub struct FindCodeRequest {
    /// A question in words, or a name: `where are retries limited`, `retry_delay`. Needed unless
    /// `related` is given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// A file and a line, such as `src/a.rs:120`, instead of a question: finds the code most like
    /// the piece of code at that line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub related: Option<String>,
    /// The file or directory to search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("default" = "."))]
    pub path: Option<String>,
    /// Maximum places in the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1, max = 1000), extend("default" = 10))]
    pub max_results: Option<u64>,
    /// Maximum size of all places in tokens of three bytes. Of the first definition that does not
    /// fit, the lines from its head on are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1, max = MAX_BUDGET))]
    pub budget: Option<u64>,
    /// The purpose: `discovery` prefers many files, `implementation` definitions, `planning`
    /// documents and interfaces, `debug` uses and tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode", extend("default" = "balanced"))]
    pub mode: Option<Mode>,
    /// Limit on time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub timeout_ms: Option<u64>,
}

impl FindCodeRequest {
    /// Creates a request with a question in words, or a name.
    pub fn new(question: impl Into<String>) -> FindCodeRequest {
        FindCodeRequest {
            question: question.into(),
            ..FindCodeRequest::default()
        }
    }

    /// Creates a request for the code most like the code at a place, such as `src/a.rs:120`.
    pub fn related_to(place: impl Into<String>) -> FindCodeRequest {
        FindCodeRequest {
            related: Some(place.into()),
            ..FindCodeRequest::default()
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
            ("timeout_ms", self.timeout_ms),
            ("budget", self.budget),
        ];
        arguments::check_positive(TOOL, &positive)?;
        let is_asked = !self.question.trim().is_empty();
        match &self.related {
            None if !is_asked => {
                let message = "`question` is missing, empty or blank; ask in words, or give a name, or \
                               give a file and a line as `related`";
                return Err(TOOL.wrong(message, &[]));
            }
            Some(_) if is_asked => {
                let message = "`question` and `related` exclude each other; give one of them";
                return Err(TOOL.wrong(message, &[]));
            }
            Some(place) if place_of(place).is_none() => {
                let message = format!("`related`: {}", no_place(place));
                return Err(TOOL.wrong_field("related", message));
            }
            _ => {}
        }
        let within = |field: &str, value: Option<u64>, most: u64| match value {
            Some(asked) if asked > most => {
                let message = format!("`{field}` is {asked}; 1 to {most} are allowed");
                Err(TOOL.wrong_field(field, message))
            }
            _ => Ok(()),
        };
        within("max_results", self.max_results, MAX_RESULTS.most)?;
        within("budget", self.budget, MAX_BUDGET)
    }
}

arguments::from_json!(FindCodeRequest, TOOL);
