//! The request of the `Search` tool: its fields, their schema and the allowed values. Other tools
//! have request types of their own.
//!
//! This module owns the request of the tool `Search`. Agents, the page, the library and `call` send
//! it. `forge-search PATTERN` and `rg` build a `Question` instead. Validation here needs neither
//! configuration nor files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::arguments;
use crate::tool::error::ToolError;
use crate::tool::tools::ToolName;

const TOOL: ToolName = ToolName::Search;

/// The name of the tool.
pub const SEARCH_NAME: &str = "Search";

/// The other names of the tool.
pub const SEARCH_ALIASES: [&str; 5] = ["search", "rg", "ripgrep", "ugrep", "ug"];

pub use crate::tool::config::Case;

/// A request of the `Search` tool. Omitted fields have their defaults.
///
/// # Examples
///
/// ```
/// use forge_search::SearchRequest;
///
/// let request = SearchRequest::from_json(r#"{"pattern": "fn main", "include_glob": ["*.rs"]}"#)?;
/// assert_eq!(request.pattern, "fn main");
/// assert!(SearchRequest::from_json(r#"{"pattern": "x", "contxt": 2}"#)
///     .unwrap_err()
///     .to_string()
///     .contains("did you mean `context`"));
/// # Ok::<(), forge_search::ToolError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "Search file contents. Omitted fields have their defaults.")]
#[non_exhaustive]
pub struct SearchRequest {
    /// A regular expression, or literal text with `fixed_strings`.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// A file or directory; by default the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path: Option<String>,
    /// How case matters.
    #[serde(default)]
    pub case: Case,
    /// Take the pattern as literal text.
    #[serde(default)]
    pub fixed_strings: bool,
    /// Match only whole words.
    #[serde(default)]
    pub word_regexp: bool,
    /// Search only files that match one of these globs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub include_glob: Option<Vec<String>>,
    /// Skip files that match one of these globs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub exclude_glob: Option<Vec<String>>,
    /// Old name of `include_glob`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub glob: Option<Vec<String>>,
    /// Also search subdirectories.
    #[serde(default = "yes")]
    pub recursive: bool,
    /// Search hidden files and directories.
    #[serde(default)]
    pub hidden: bool,
    /// Follow symbolic links.
    #[serde(default)]
    pub follow: bool,
    /// Search ignored files.
    #[serde(default)]
    pub no_ignore: bool,
    /// Context lines before and after each match.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub context: u64,
    /// Maximum number of lines: matches and context lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1), extend("default" = 200))]
    pub max_results: Option<u64>,
    /// Maximum matching lines per file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub max_matches_per_file: Option<u64>,
    /// Maximum files to search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub max_files: Option<u64>,
    /// Larger files are skipped, and counted in a note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub max_file_size_bytes: Option<u64>,
    /// Time limit; the response then has the results so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1), extend("default" = 20000))]
    pub timeout_ms: Option<u64>,
    /// Match approximately, with at most this many edits (1 to 4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1, max = 4))]
    pub fuzzy: Option<u64>,
}

fn yes() -> bool {
    true
}

impl Default for SearchRequest {
    /// Returns a request with an empty pattern. The other fields are as in a JSON request that
    /// omits them.
    fn default() -> SearchRequest {
        SearchRequest {
            pattern: String::new(),
            path: None,
            case: Case::default(),
            fixed_strings: false,
            word_regexp: false,
            include_glob: None,
            exclude_glob: None,
            glob: None,
            recursive: yes(),
            hidden: false,
            follow: false,
            no_ignore: false,
            context: 0,
            max_results: None,
            max_matches_per_file: None,
            max_files: None,
            max_file_size_bytes: None,
            timeout_ms: None,
            fuzzy: None,
        }
    }
}

impl SearchRequest {
    /// Creates a request for `pattern` with every other field at its default.
    pub fn new(pattern: impl Into<String>) -> SearchRequest {
        SearchRequest {
            pattern: pattern.into(),
            ..SearchRequest::default()
        }
    }

    /// Checks the values beyond their types.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`] for the first invalid value.
    pub fn validate(&self) -> Result<(), ToolError> {
        if self.pattern.trim().is_empty() {
            let message =
                "`pattern` is empty or blank; give the text or regular expression to search for";
            return Err(TOOL.wrong(message, &[]));
        }
        let positive = [
            ("max_results", self.max_results),
            ("max_matches_per_file", self.max_matches_per_file),
            ("max_files", self.max_files),
            ("max_file_size_bytes", self.max_file_size_bytes),
            ("timeout_ms", self.timeout_ms),
        ];
        arguments::check_positive(TOOL, &positive)?;
        arguments::check_globs(TOOL, "include_glob", self.includes())?;
        arguments::check_globs(TOOL, "exclude_glob", self.excludes())?;
        if let Some(level) = self.fuzzy
            && !(1..=4).contains(&level)
        {
            let message = format!("`fuzzy` must be 1, 2, 3 or 4, not {level}");
            return Err(TOOL.wrong_field("fuzzy", message));
        }
        Ok(())
    }

    /// Returns the include globs in force: `include_glob`, or else its older name `glob`.
    #[doc(hidden)]
    pub fn includes(&self) -> &[String] {
        self.include_glob
            .as_ref()
            .or(self.glob.as_ref())
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the exclude globs.
    #[doc(hidden)]
    pub fn excludes(&self) -> &[String] {
        self.exclude_glob.as_deref().unwrap_or_default()
    }
}

arguments::from_json!(SearchRequest, TOOL);

/// Returns the JSON schema of the request (draft 2020-12), generated from the type.
pub fn search_schema() -> Value {
    arguments::schema_of::<SearchRequest>(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::arguments::{MAX_GLOB_BYTES, MAX_GLOBS};

    /// The normative schema of requests.
    const NORMATIVE: &str = include_str!("../../tests/data/search_request.schema.json");

    #[test]
    fn the_generated_request_schema_is_the_normative_one() {
        let normative: Value = serde_json::from_str(NORMATIVE).unwrap();
        assert_eq!(search_schema(), normative);
    }

    fn refused(value: Value) -> String {
        match SearchRequest::from_value(value) {
            Err(ToolError::BadArgs { message }) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unknown_fields_are_refused_with_the_nearest_known_field() {
        assert!(refused(json!({"pattern": "x", "patern": 1})).contains("`pattern`"));
        assert!(refused(json!({"pattern": "x", "zzz": 1})).contains("known fields are"));
    }

    #[test]
    fn blank_patterns_and_numbers_below_their_minimum_are_refused() {
        for (value, part) in [
            (json!({}), "pattern"),
            (json!({"pattern": ""}), "empty or blank"),
            (json!({"pattern": " \t\n"}), "empty or blank"),
            (json!({"pattern": 5}), "`pattern`"),
            (json!({"pattern": "x", "context": -1}), "`context`"),
            (json!({"pattern": "x", "context": 1.5}), "`context`"),
            (json!({"pattern": "x", "max_results": 0}), "at least 1"),
            (json!({"pattern": "x", "timeout_ms": 0}), "at least 1"),
            (json!({"pattern": "x", "max_files": 0}), "at least 1"),
            (
                json!({"pattern": "x", "max_matches_per_file": 0}),
                "at least 1",
            ),
            (
                json!({"pattern": "x", "max_file_size_bytes": 0}),
                "at least 1",
            ),
            (json!({"pattern": "x", "fuzzy": 0}), "1, 2, 3 or 4"),
            (json!({"pattern": "x", "fuzzy": 5}), "1, 2, 3 or 4"),
            (json!({"pattern": "x", "case": "Smart"}), "`case`"),
            (json!({"pattern": "x", "hidden": "yes"}), "`hidden`"),
            (
                json!({"pattern": "x", "include_glob": "*.rs"}),
                "`include_glob`",
            ),
            (
                json!({"pattern": "x", "include_glob": ["a", 3]}),
                "include_glob[1]",
            ),
            (json!({"pattern": "x", "path": null}), "leave the field out"),
            (
                json!({"pattern": "x", "max_results": 1e30}),
                "`max_results`",
            ),
            (json!(["x"]), "an array"),
            (json!("x"), "a string"),
        ] {
            let message = refused(value.clone());
            assert!(message.contains(part), "{value}: {message}");
        }
    }

    #[test]
    fn globs_are_bounded_in_number_and_length() {
        let request = |globs: Vec<String>| json!({"pattern": "x", "exclude_glob": globs});
        assert!(SearchRequest::from_value(request(vec!["*.rs".into(); MAX_GLOBS])).is_ok());
        for globs in [
            vec!["*.rs".into(); MAX_GLOBS + 1],
            vec!["x".repeat(MAX_GLOB_BYTES + 1)],
        ] {
            let message = refused(request(globs));
            assert!(message.contains("`exclude_glob`") && message.contains("at most 1000"));
        }
    }

    #[test]
    fn messages_are_short_whatever_the_request_holds() {
        let long = "x".repeat(5_000_000);
        for value in [
            json!({"pattern": "x", long.clone(): 1}),
            json!({"pattern": "x", "hidden": long.clone()}),
            json!({"pattern": "x", "case": long}),
        ] {
            let message = refused(value);
            assert!(message.len() < 1000, "{} bytes", message.len());
        }
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let request = SearchRequest::from_value(json!({"pattern": "x"})).unwrap();
        assert_eq!(request, SearchRequest::new("x"));
        let by_default = SearchRequest {
            pattern: "x".to_string(),
            ..SearchRequest::default()
        };
        assert_eq!(request, by_default);
        assert!(request.recursive && !request.hidden && !request.follow && !request.no_ignore);
        let request = SearchRequest::from_value(json!({"pattern": "x", "context": 2.0})).unwrap();
        assert_eq!(request.context, 2);
    }

    #[test]
    fn include_glob_wins_over_glob() {
        let request = |value: Value| SearchRequest::from_value(value).unwrap();
        assert_eq!(
            request(json!({"pattern": "x", "glob": ["a"]})).includes(),
            ["a"]
        );
        let both = request(json!({"pattern": "x", "glob": ["a"], "include_glob": ["b"]}));
        assert_eq!(both.includes(), ["b"]);
        let empty = request(json!({"pattern": "x", "glob": ["a"], "include_glob": []}));
        assert!(empty.includes().is_empty());
    }
}
