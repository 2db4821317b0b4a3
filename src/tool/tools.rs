//! The tools: their names, their purposes, and a valid example request of each.
//!
//! Owns the only list of tools. Surfaces offer these tools and dispatch calls by it.

use std::fmt::Display;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::tool::arguments::refused;
use crate::tool::error::ToolError;
#[cfg(feature = "daemon")]
use crate::tool::find_code::{FIND_CODE_NAME, find_code_schema};
use crate::tool::find_files::{FIND_NAME, find_schema};
#[cfg(feature = "daemon")]
use crate::tool::request::names_search;
use crate::tool::request::{SEARCH_NAME, described_search_schema};
use crate::tool::search_files::{FILES_NAME, files_schema};
use crate::tool::searcher::ABSENT;

/// The maximum length of an unknown name in an error, in characters.
#[cfg(feature = "daemon")]
const LONGEST_NAME: usize = 80;

/// The name of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolName {
    Search,
    SearchFiles,
    FindFiles,
    #[cfg(feature = "daemon")]
    FindCode,
}

impl ToolName {
    /// All tools, the preferred one first.
    pub(crate) const ALL: &[ToolName] = &[
        ToolName::Search,
        ToolName::SearchFiles,
        ToolName::FindFiles,
        #[cfg(feature = "daemon")]
        ToolName::FindCode,
    ];

    /// Returns the name of the tool.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ToolName::Search => SEARCH_NAME,
            ToolName::SearchFiles => FILES_NAME,
            ToolName::FindFiles => FIND_NAME,
            #[cfg(feature = "daemon")]
            ToolName::FindCode => FIND_CODE_NAME,
        }
    }

    /// Returns the tool with this name or alias.
    ///
    /// # Errors
    ///
    /// [`ToolError::UnknownTool`] for any other name.
    #[cfg(feature = "daemon")]
    pub(crate) fn of(name: &str) -> Result<ToolName, ToolError> {
        let mut all = ToolName::ALL.iter().copied();
        let own = all.find(|tool| tool.name() == name);
        let alias = names_search(name).then_some(ToolName::Search);
        own.or(alias).ok_or_else(|| ToolError::UnknownTool {
            name: name.chars().take(LONGEST_NAME).collect(),
        })
    }

    /// Returns all names as a list in words: "`a`, `b` or `c`".
    pub(crate) fn listed() -> String {
        let mut names: Vec<String> = ToolName::ALL
            .iter()
            .map(|tool| format!("`{}`", tool.name()))
            .collect();
        let last = names.pop().unwrap_or_default();
        format!("{} or {last}", names.join(", "))
    }

    /// Returns the title of the tool for people.
    #[cfg(all(unix, feature = "mcp"))]
    pub(crate) fn title(self) -> &'static str {
        match self {
            ToolName::Search => "Search a source tree",
            ToolName::SearchFiles => "Search the files in a directory",
            ToolName::FindFiles => "Find files in a source tree",
            ToolName::FindCode => "Find the code that a question is about",
        }
    }

    /// Returns the purpose of the tool, for a model that selects tools.
    #[cfg(all(unix, feature = "mcp"))]
    pub(crate) fn about(self) -> &'static str {
        match self {
            ToolName::Search => {
                "Search file contents for a regular expression or literal text. If results are \
                 missing, a last line in brackets says so."
            }
            ToolName::SearchFiles => {
                "Search file contents below a directory for literal text, a regular expression, or \
                 similar text (mode `fuzzy`)."
            }
            ToolName::FindFiles => {
                "Find files by name, glob or type, sorted by similarity, path or time of modification."
            }
            ToolName::FindCode => {
                "Find the code that a question in words or a name is about: whole definitions, the best \
                 first. Use it if the exact text is not known."
            }
        }
    }

    /// Returns the schema of requests, with descriptions of the fields.
    pub(crate) fn request_schema(self) -> &'static Value {
        static SEARCH: LazyLock<Value> = LazyLock::new(described_search_schema);
        static FILES: LazyLock<Value> = LazyLock::new(files_schema);
        static FIND: LazyLock<Value> = LazyLock::new(find_schema);
        #[cfg(feature = "daemon")]
        static CODE: LazyLock<Value> = LazyLock::new(find_code_schema);
        match self {
            ToolName::Search => &SEARCH,
            ToolName::SearchFiles => &FILES,
            ToolName::FindFiles => &FIND,
            #[cfg(feature = "daemon")]
            ToolName::FindCode => &CODE,
        }
    }

    /// Returns the schema of responses.
    #[cfg(all(unix, feature = "mcp"))]
    pub(crate) fn response_schema(self) -> Value {
        use crate::tool::arguments::written_schema_of;
        match self {
            ToolName::Search => written_schema_of::<crate::tool::response::SearchResponse>(),
            ToolName::SearchFiles => {
                written_schema_of::<crate::tool::search_files::FilesResponse>()
            }
            ToolName::FindFiles => crate::tool::find_files::find_response_schema(),
            ToolName::FindCode => crate::tool::find_code::find_code_response_schema(),
        }
    }

    /// Returns a valid request that contains these fields.
    fn example(self, fields: &[(&str, Value)]) -> Value {
        let base = match self {
            ToolName::Search => json!({"pattern": "text"}),
            ToolName::SearchFiles => json!({"path": ".", "query": "text"}),
            ToolName::FindFiles => json!({"name": "lib.rs"}),
            #[cfg(feature = "daemon")]
            ToolName::FindCode => json!({"question": "where are retries limited"}),
        };
        let mut request = match base {
            Value::Object(request) => request,
            _ => Map::new(),
        };
        let fields = fields.iter().cloned();
        request.extend(fields.map(|(name, value)| (name.to_string(), value)));
        Value::Object(request)
    }

    /// Creates the error of an invalid request. The error includes a valid request that contains
    /// `fields`.
    pub(crate) fn wrong(self, message: impl Display, fields: &[(&str, Value)]) -> ToolError {
        let message = message.to_string();
        let message = refused(&message);
        let example = self.example(fields);
        ToolError::bad_args(format!("{message}; for example {example}"))
    }

    /// Creates the error of an invalid field. The error includes a valid request with that field.
    pub(crate) fn wrong_field(self, field: &str, message: impl Display) -> ToolError {
        self.wrong(message, &[(field, self.example_of(field))])
    }

    /// Returns a valid value of a field.
    fn example_of(self, field: &str) -> Value {
        let schema = &self.request_schema()["properties"][field];
        match (field, schema["type"].as_str()) {
            ("path", _) => ".".into(),
            ("types", _) => json!(["rust"]),
            ("name", _) => "lib.rs".into(),
            ("question", _) => "where are retries limited".into(),
            (_, Some("array")) => json!(["*.rs"]),
            (_, Some("boolean")) => true.into(),
            (_, Some("integer")) => schema["default"]
                .as_u64()
                .filter(|n| *n > 0)
                .unwrap_or(2)
                .into(),
            _ => match schema["enum"].as_array().and_then(|words| words.first()) {
                Some(word) => word.clone(),
                None => "text".into(),
            },
        }
    }

    /// Adapts an error from a later stage to the tool. An invalid request gets an example of a
    /// valid one.
    pub(crate) fn explain(self, error: ToolError) -> ToolError {
        match error {
            ToolError::BadArgs { message } if !message.contains("; for example {") => {
                self.wrong(message, &[])
            }
            ToolError::ExecutionFailed { tool, message } => ToolError::ExecutionFailed {
                // `find_files` uses the searcher of `Search`.
                tool: match tool == SEARCH_NAME {
                    true => self.name().to_string(),
                    false => tool,
                },
                message: match message.ends_with(ABSENT) {
                    true => format!("{message}; name a path that exists, such as `.`"),
                    false => message,
                },
            },
            other => other,
        }
    }
}
