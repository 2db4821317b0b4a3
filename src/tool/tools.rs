//! The tools: their names, their purposes, and a valid example request of each.
//!
//! This module owns the only list of tools ([`ToolName`]) and their common interface ([`Tool`]).
//! Surfaces offer the tools of the list and call them through the interface.

use std::fmt::{Debug, Display};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::tool::arguments::{refused, schema_of, written_schema_of};
use crate::tool::error::ToolError;
#[cfg(feature = "daemon")]
use crate::tool::find_code::{FIND_CODE_NAME, FindCodeRequest, FindCodeResponse};
use crate::tool::find_files::{FIND_NAME, FindResponse, find_schema};
use crate::tool::request::{SEARCH_ALIASES, SEARCH_NAME, SearchRequest};
use crate::tool::search::ToolContext;
use crate::tool::search_files::{FILES_NAME, files_schema};
use crate::tool::searcher::{ABSENT, summarized};

/// The maximum length of an unknown name in an error, in characters.
const LONGEST_NAME: usize = 80;

/// A tool that a model can call with JSON.
///
/// The trait is sealed: only this crate implements it, so that any version can add methods. A host
/// puts the tools behind a trait of its own, as the example `forge_tool` does.
///
/// All tools only read. A host passes [`name`](Tool::name), [`description`](Tool::description) and
/// [`schema`](Tool::schema) to its model, and each call of the model to
/// [`call_json`](Tool::call_json).
///
/// # Examples
///
/// ```
/// use forge_search::{ForgeSearch, Tool};
/// use serde_json::json;
///
/// # let dir = tempfile::tempdir()?;
/// # std::fs::write(dir.path().join("greeting.txt"), "hello\nworld\n")?;
/// # let root = dir.path();
/// let search = ForgeSearch::builder(root).build()?;
/// for tool in search.tools() {
///     println!("{}: {}\n{}", tool.name(), tool.description(), tool.schema());
/// }
/// let tool = search.tool("search_files")?;
/// let answer = tool.call_json(json!({"path": ".", "query": "w"}), &search.context())?;
/// assert!(answer.json.contains(r#""line_text":"world""#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Tool: Sealed + Debug + Send + Sync {
    /// Returns which of the tools this is.
    fn id(&self) -> ToolName;

    /// Answers a request in JSON with a response in JSON. Blocks.
    ///
    /// # Errors
    ///
    /// [`ToolError`], whose message tells the model how to correct the call.
    fn call_json(&self, arguments: Value, context: &ToolContext) -> Result<ToolAnswer, ToolError>;

    /// Returns the name that a model uses.
    fn name(&self) -> &'static str {
        self.id().name()
    }

    /// Returns the other names of the tool.
    fn aliases(&self) -> &'static [&'static str] {
        self.id().aliases()
    }

    /// Returns true if `name` is the name or an alias of the tool.
    fn answers_to(&self, name: &str) -> bool {
        self.id().is_named(name)
    }

    /// Returns the purpose of the tool, for a model that selects tools.
    fn description(&self) -> &'static str {
        self.id().description()
    }

    /// Returns the JSON schema of the request (draft 2020-12).
    fn schema(&self) -> Value {
        self.id().request_schema().clone()
    }

    /// Returns the JSON schema of the response (draft 2020-12). A response may have further fields.
    fn response_schema(&self) -> Value {
        self.id().response_schema()
    }

    /// Returns a summary of a call for people, in at most 200 characters.
    fn summary_of(&self, arguments: &Value) -> String {
        self.id().summary(arguments)
    }

    /// Returns false: the tools change nothing.
    fn is_side_effecting(&self) -> bool {
        false
    }

    /// Returns false: no call needs an approval.
    fn requires_approval(&self) -> bool {
        false
    }

    /// Returns the risk of a call.
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::Low
    }
}

/// Marks the tools of this crate, so that no other type is a [`Tool`].
#[doc(hidden)]
pub trait Sealed {}

/// The answer of a tool to a call in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolAnswer {
    /// The response as one line of JSON.
    pub json: String,
    /// Whether the time limit was reached, so that the response is not complete.
    pub timed_out: bool,
}

impl ToolAnswer {
    pub(crate) fn new(json: String, timed_out: bool) -> ToolAnswer {
        ToolAnswer { json, timed_out }
    }
}

/// The risk of a call. A search never needs approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RiskLevel {
    /// The call changes nothing and reads nothing outside the sandbox.
    Low,
}

/// The name of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolName {
    /// `Search`: finds lines by a regular expression or literal text.
    Search,
    /// `search_files`: finds matches below a directory, also of similar text.
    SearchFiles,
    /// `find_files`: finds files by name, glob or type.
    FindFiles,
    /// `find_code`: finds the definitions and places that a question is about.
    #[cfg(feature = "daemon")]
    FindCode,
}

impl ToolName {
    /// All tools, the preferred one first.
    #[doc(hidden)]
    pub const ALL: &[ToolName] = &[
        ToolName::Search,
        ToolName::SearchFiles,
        ToolName::FindFiles,
        #[cfg(feature = "daemon")]
        ToolName::FindCode,
    ];

    /// Returns the name of the tool.
    pub fn name(self) -> &'static str {
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
    pub fn of(name: &str) -> Result<ToolName, ToolError> {
        let mut all = ToolName::ALL.iter().copied();
        all.find(|tool| tool.is_named(name))
            .ok_or_else(|| ToolError::UnknownTool {
                name: name.chars().take(LONGEST_NAME).collect(),
            })
    }

    /// Returns the other names of the tool.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            ToolName::Search => &SEARCH_ALIASES,
            _ => &[],
        }
    }

    /// Returns a summary of any call, in at most 200 characters.
    pub(crate) fn summary(self, arguments: &Value) -> String {
        summarized(format!("{} {arguments}", self.name()))
    }

    fn is_named(self, name: &str) -> bool {
        self.name() == name || self.aliases().contains(&name)
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

    /// Returns the purpose of the tool, for a model that selects tools and gets text.
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
            ToolName::FindFiles | ToolName::FindCode => self.description(),
        }
    }

    /// Returns the purpose of the tool, for a model that selects tools and gets JSON.
    pub fn description(self) -> &'static str {
        match self {
            ToolName::Search => {
                "Search file contents for a regular expression or literal text. Results have line \
                 numbers and columns, in a fixed order. `truncated` and `timed_out` are true if \
                 results are missing."
            }
            ToolName::SearchFiles => "Search file contents",
            ToolName::FindFiles => {
                "Find files by name, glob or type, sorted by similarity, path or time of modification."
            }
            #[cfg(feature = "daemon")]
            ToolName::FindCode => {
                "Find the code that a question in words or a name is about, or that is most like the code \
                 at a line (`related`): whole definitions, the best first. Use it if the exact text is \
                 not known."
            }
        }
    }

    /// Returns the schema of requests, with descriptions of the fields.
    pub fn request_schema(self) -> &'static Value {
        static SEARCH: LazyLock<Value> = LazyLock::new(|| schema_of::<SearchRequest>(true));
        static FILES: LazyLock<Value> = LazyLock::new(files_schema);
        static FIND: LazyLock<Value> = LazyLock::new(find_schema);
        #[cfg(feature = "daemon")]
        static CODE: LazyLock<Value> = LazyLock::new(|| schema_of::<FindCodeRequest>(true));
        match self {
            ToolName::Search => &SEARCH,
            ToolName::SearchFiles => &FILES,
            ToolName::FindFiles => &FIND,
            #[cfg(feature = "daemon")]
            ToolName::FindCode => &CODE,
        }
    }

    /// Returns the schema of responses.
    pub fn response_schema(self) -> Value {
        match self {
            ToolName::Search => written_schema_of::<crate::tool::response::SearchResponse>(),
            ToolName::SearchFiles => {
                written_schema_of::<crate::tool::search_files::FilesResponse>()
            }
            ToolName::FindFiles => written_schema_of::<FindResponse>(),
            #[cfg(feature = "daemon")]
            ToolName::FindCode => written_schema_of::<FindCodeResponse>(),
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
        if fields.iter().any(|(name, _)| *name == "related") {
            // It stands in place of a question.
            request.remove("question");
        }
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
            ("related", _) => "src/a.rs:120".into(),
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
