//! The messages of clients: a handshake, then requests, one JSON object a frame.
//!
//! This module owns the shapes and their validation. Every error in a message is found here. Its
//! text says how to correct the message, and quotes only short parts of it.

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::limits::{MAX_PER_FILE, MAX_RESULTS, QUERY_TIMEOUT_MS};
use super::related::{no_place, place_of};
pub use crate::exec::rank::{Profile as Mode, Snippet as SnippetMode};
use crate::tool::find_code::FIND_CODE_NAME;
use crate::tool::request::{SEARCH_NAME, SearchRequest};
use crate::tool::unique_fields::UniqueFields;

/// The most characters of an id that a client chooses.
pub const MAX_ID_CHARS: usize = 128;

/// The bytes of a token of a budget. Code has three to four bytes for each token of a model.
pub const BYTES_PER_TOKEN: u64 = 3;

/// The largest budget of a question, in tokens.
pub const MAX_BUDGET: u64 = 1_000_000;

/// Half of the most characters of a client's text that an error message quotes.
const SHOWN: usize = 80;

/// The reason why a message is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// The problem, and the allowed values.
    pub message: String,
    /// The id of the request, if it could be read.
    pub request_id: Option<String>,
}

impl RequestError {
    fn new(message: impl Into<String>) -> RequestError {
        RequestError {
            message: message.into(),
            request_id: None,
        }
    }
}

/// The first message of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = one_way_to_give_versions)]
pub struct Hello {
    /// The protocol versions that the client supports.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "Vec<i64>", length(min = 1))]
    pub protocol_versions: Option<Vec<i64>>,
    /// The protocol version that the client supports, instead of a list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "i64")]
    pub protocol_version: Option<i64>,
    /// The id of the tree that the client wants to search: a hash of its root's path.
    pub store_id: String,
    /// The fingerprint of the client's configuration.
    pub config_fingerprint: String,
    /// The name of the client, for fair scheduling between clients.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "String")]
    pub client_id: Option<String>,
    /// The capabilities of the client. `batch`: it accepts lower priority than other clients.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "Vec<String>")]
    pub client_capabilities: Option<Vec<String>>,
}

fn one_way_to_give_versions(schema: &mut schemars::Schema) {
    let ways = serde_json::json!([
        { "required": ["protocol_versions"] },
        { "required": ["protocol_version"] },
    ]);
    schema.insert("oneOf".to_string(), ways);
}

impl Hello {
    /// Parses a handshake.
    ///
    /// # Errors
    ///
    /// [`RequestError`] for any other message.
    pub fn parse(payload: &[u8]) -> Result<Hello, RequestError> {
        let hello: Hello = typed(Value::Object(object(payload)?), "the handshake")?;
        match (&hello.protocol_versions, hello.protocol_version) {
            (None, None) => {
                return Err(RequestError::new(
                    "the handshake lacks protocol_versions, a list such as [2]",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(RequestError::new(
                    "the handshake has both protocol_versions and protocol_version; give one of them",
                ));
            }
            (Some(versions), None) if versions.is_empty() => {
                return Err(RequestError::new(
                    "protocol_versions is empty; list at least one",
                ));
            }
            _ => {}
        }
        if let Some(id) = &hello.client_id {
            check_id("client_id", id)?;
        }
        Ok(hello)
    }

    /// Returns the versions that the client speaks.
    pub fn versions(&self) -> Vec<i64> {
        let one = self.protocol_version.into_iter();
        let many = self.protocol_versions.iter().flatten().copied();
        one.chain(many).collect()
    }

    /// Returns whether the client accepts to wait for others.
    pub fn is_batch(&self) -> bool {
        let mut capabilities = self.client_capabilities.iter().flatten();
        capabilities.any(|one| one == "batch")
    }
}

/// A question (`type` = `search`), answered with ranked results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchQuery {
    /// The question in words. Absent if `related` is present.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub query: String,
    /// A file and a line, such as `/srv/tree/src/a.rs:120`, instead of a question: finds code like
    /// the code there. The path is absolute and inside the root.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub related: Option<String>,
    /// Maximum number of results, 1–1000; default 20.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<u64>,
    /// Maximum number of results from one file, 1–50; the default depends on the mode.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_file: Option<u64>,
    /// The purpose of the search; default `balanced`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mode: Option<Mode>,
    /// The file or directory to search, as an absolute path inside the root; default the root.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// The length of snippets; default `short`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub snippet: Option<SnippetMode>,
    /// Maximum size of all results in tokens of three bytes, 1–1000000. Results are whole
    /// definitions then; of the first one that does not fit, the lines from its head on are shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget: Option<u64>,
    /// Whether the response has the field `explain`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub explain: bool,
    /// Whether equal questions about the same snapshot get identical bytes.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub deterministic: bool,
    /// Whether names and text are not escaped. Otherwise control characters, line separators and
    /// direction marks are escaped, for example as `\x1b`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub raw: bool,
    /// Time limit in milliseconds, 1–600000. `query_timeout_ms` of `[tools.daemon]` is the default
    /// and the maximum.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout_ms: Option<u64>,
}

impl SearchQuery {
    /// Builds a query for words, with defaults for all other fields.
    pub fn new(query: impl Into<String>) -> SearchQuery {
        SearchQuery {
            query: query.into(),
            ..SearchQuery::default()
        }
    }

    fn check(&self) -> Result<(), RequestError> {
        let within = |name: &str, value: Option<u64>, most: u64| match value {
            Some(value) if value == 0 || value > most => Err(RequestError::new(format!(
                "{name} is {value}; 1 to {most} are allowed"
            ))),
            _ => Ok(()),
        };
        within("limit", self.limit, MAX_RESULTS.most)?;
        within("per_file", self.per_file, MAX_PER_FILE.most)?;
        within("timeout_ms", self.timeout_ms, QUERY_TIMEOUT_MS.most)?;
        within("budget", self.budget, MAX_BUDGET)?;
        if self.budget.is_some() && self.snippet() != SnippetMode::Definition {
            return Err(RequestError::new(
                "snippet is not `definition`, but a budget is for whole definitions; leave out one \
                 of them",
            ));
        }
        match &self.related {
            None if self.query.trim().is_empty() => {
                Err(RequestError::new("query is blank; give at least one word"))
            }
            None => Ok(()),
            Some(_) if !self.query.is_empty() => Err(RequestError::new(
                "query and related are both present; give one of them",
            )),
            Some(place) if place_of(place).is_none() => Err(RequestError::new(format!(
                "related: {}",
                no_place(&shown(place))
            ))),
            Some(_) => Ok(()),
        }
    }

    /// Returns the length of snippets. With a budget, they are definitions unless the query says
    /// otherwise.
    pub fn snippet(&self) -> SnippetMode {
        let default = match self.budget {
            Some(_) => SnippetMode::Definition,
            None => SnippetMode::default(),
        };
        self.snippet.unwrap_or(default)
    }
}

/// A call of a tool (`type` = `tool`). The response is the tool's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The name of the tool: `Search`, `search_files`, `find_files` or `find_code`.
    pub tool: String,
    /// The request of the tool.
    pub request: Map<String, Value>,
    /// Maximum size of the response in bytes, if less than the daemon allows. Results at the end
    /// are omitted, and the response says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "usize")]
    pub max_output_bytes: Option<usize>,
    /// Return `text`, grouped by file, and `timed_out` instead of the tool's own fields. The size
    /// limit then applies to the text. Limits above their cap are lowered, and the text says so.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub text: bool,
    /// Search as a person's own search does: the default denied patterns apply only if the
    /// configuration sets them.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub person: bool,
    /// Fail with `busy` if the response is larger than the daemon allows, instead of shortening it.
    /// The caller can then search without the daemon.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub whole: bool,
}

impl ToolCall {
    fn has_field_of_version_2(&self) -> bool {
        let has = |field: &str| self.request.contains_key(field);
        self.tool == FIND_CODE_NAME && (has("related") || has("budget"))
    }

    /// Builds a call of the tool `Search`. Fields without a value are left out.
    pub fn search(request: &SearchRequest) -> ToolCall {
        let mut fields = match serde_json::to_value(request) {
            Ok(Value::Object(fields)) => fields,
            // A request holds only names and plain values, so it always serializes to an object.
            _ => Map::new(),
        };
        fields.retain(|_, value| !value.is_null());
        ToolCall {
            tool: SEARCH_NAME.to_string(),
            request: fields,
            ..ToolCall::default()
        }
    }
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum RequestBody {
    /// A search with ranked results.
    Search(SearchQuery),
    /// A call of a tool.
    Tool(ToolCall),
    /// The state of the daemon.
    Status,
    /// The health checks.
    Health,
    /// The counters, for Prometheus.
    Metrics,
    /// Cancels another request of this connection.
    Cancel,
    /// Ends the daemon.
    Shutdown,
}

/// A request after the handshake.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Request {
    /// The id that the client chose, if any; for [`RequestBody::Cancel`] the id of the other
    /// request.
    #[serde(rename = "request_id", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The body of the request.
    #[serde(flatten)]
    pub body: RequestBody,
}

impl Request {
    /// Parses a request.
    ///
    /// # Errors
    ///
    /// [`RequestError`] for any other message.
    pub fn parse(payload: &[u8]) -> Result<Request, RequestError> {
        let mut fields = object(payload)?;
        let id = match fields.remove("request_id") {
            None => None,
            Some(Value::String(id)) => {
                check_id("request_id", &id)?;
                Some(id)
            }
            Some(_) => return Err(RequestError::new("request_id is not a string")),
        };
        let refused = |refused: RequestError| RequestError {
            request_id: id.clone(),
            ..refused
        };
        let body = RequestBody::from_fields(fields).map_err(refused)?;
        if body == RequestBody::Cancel && id.is_none() {
            return Err(RequestError::new(
                "cancel lacks request_id, the id of the request to cancel",
            ));
        }
        Ok(Request { id, body })
    }

    /// Serializes the request as a client sends it.
    pub fn to_value(&self) -> Value {
        // Strings, numbers and lists of them always serialize.
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl RequestBody {
    /// Returns the lowest version of the protocol that has all fields of the request.
    pub fn protocol_version(&self) -> i64 {
        match self {
            RequestBody::Search(query) if query.related.is_some() || query.budget.is_some() => 2,
            RequestBody::Tool(call) if call.has_field_of_version_2() => 2,
            _ => 1,
        }
    }

    fn from_fields(mut fields: Map<String, Value>) -> Result<RequestBody, RequestError> {
        let kind = match fields.remove("type") {
            Some(Value::String(kind)) => kind,
            Some(_) => return Err(RequestError::new("type is not a string")),
            None => {
                return Err(RequestError::new(format!(
                    "the request lacks type; {TYPES}"
                )));
            }
        };
        let bare = |body: RequestBody| match fields.keys().next() {
            None => Ok(body),
            Some(field) => Err(RequestError::new(format!(
                "unknown field `{}`; {kind} takes no fields",
                shown(field)
            ))),
        };
        match kind.as_str() {
            "search" => {
                let query: SearchQuery = typed(Value::Object(fields), "search")?;
                query.check()?;
                Ok(RequestBody::Search(query))
            }
            "tool" => typed(Value::Object(fields), "tool").map(RequestBody::Tool),
            "status" => bare(RequestBody::Status),
            "health" => bare(RequestBody::Health),
            "metrics" => bare(RequestBody::Metrics),
            "cancel" => bare(RequestBody::Cancel),
            "shutdown" => bare(RequestBody::Shutdown),
            other => Err(RequestError::new(format!(
                "unknown type `{}`; {TYPES}",
                shown(other)
            ))),
        }
    }
}

const TYPES: &str = "search, tool, status, health, metrics, cancel and shutdown are known";

fn object(payload: &[u8]) -> Result<Map<String, Value>, RequestError> {
    match serde_json::from_slice(payload) {
        Ok(Value::Object(fields)) => {
            match serde_json::from_slice::<UniqueFields<IgnoredAny>>(payload) {
                Ok(_) => Ok(fields),
                Err(error) => Err(RequestError::new(shown(&error.to_string()))),
            }
        }
        Ok(_) => Err(RequestError::new("the message is not a JSON object")),
        Err(error) => Err(RequestError::new(format!(
            "the message is not valid JSON: {error}"
        ))),
    }
}

fn typed<T: DeserializeOwned>(value: Value, what: &str) -> Result<T, RequestError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let at = match path.as_str() {
            "." => String::new(),
            path => format!("{}: ", shown(path)),
        };
        RequestError::new(format!("{what}: {at}{}", shown(&error.inner().to_string())))
    })
}

fn check_id(name: &str, id: &str) -> Result<(), RequestError> {
    id_error(id).map_or(Ok(()), |why| {
        Err(RequestError::new(format!("{name} {why}")))
    })
}

/// Returns why an id of a client is refused, if it is.
pub(crate) fn id_error(id: &str) -> Option<String> {
    let fits = !id.is_empty() && id.chars().count() <= MAX_ID_CHARS;
    let is_plain = fits && !id.chars().any(char::is_control);
    (!is_plain).then(|| {
        format!("must have 1 to {MAX_ID_CHARS} characters, none of them a control character")
    })
}

/// Returns the beginning of a client's text.
fn shown(text: &str) -> String {
    match text.chars().nth(SHOWN * 2) {
        None => text.to_string(),
        Some(_) => text.chars().take(SHOWN * 2).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests;
