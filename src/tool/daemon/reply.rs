//! The answers of a daemon.
//!
//! This module owns the shapes of responses, on which clients rely. Every field is present unless
//! its doc says otherwise, `null` occurs only where its schema allows it, and new fields need a new
//! `schema_version`. The schemas in `docs/schemas/` are generated from these types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::handshake::ServedTree;
use super::limits::{LimitHit, Warning};
use super::report::{Exposition, Health, Status};
use super::request::{Hello, MAX_ID_CHARS, SearchQuery, ToolCall};
use crate::exec::rank::Reason;
use crate::format::choices::choices;
use crate::tool::arguments::written_schema_of;
use crate::tool::error::ToolError;
use crate::tool::render::escape_lines;

/// The version of the schemas of failures, `status` and `health`.
pub const SCHEMA_VERSION: u64 = 1;

/// The version of the schema of responses to `search`. Version 2 added `why` to results.
pub const QUERY_SCHEMA_VERSION: u64 = 2;

choices! {
    /// The reason for a failed request, for programs.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    ErrorCode {
        /// Too many queries are waiting. Retry later.
        Busy = "busy",
        /// The time limit was reached.
        Timeout = "timeout",
        /// The client cancelled the request, or the daemon is shutting down.
        Cancelled = "cancelled",
        /// The request is not valid.
        InvalidRequest = "invalid_request",
        /// An unexpected error occurred in the daemon.
        Internal = "internal",
        /// Client and daemon have no protocol version in common.
        Incompatible = "incompatible",
    }
}

impl ErrorCode {
    /// Returns the exit status of a program that fails with the code.
    pub fn exit_status(self) -> u8 {
        match self {
            ErrorCode::Busy => 10,
            ErrorCode::Timeout => 11,
            ErrorCode::Cancelled => 12,
            ErrorCode::Incompatible => 13,
            ErrorCode::InvalidRequest | ErrorCode::Internal => 1,
        }
    }
}

/// The response to a request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Failure {
    /// The reason for the failure.
    pub error: FailureDetails,
}

/// The reason for a failed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct FailureDetails {
    /// The error code, for programs.
    pub code: ErrorCode,
    /// The error message, for people.
    pub message: String,
    /// When to retry, in milliseconds from now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "u64")]
    pub retry_after_ms: Option<u64>,
    /// The snapshot that the request searched, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "String")]
    pub snapshot_id: Option<String>,
    /// The id of the request, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "String")]
    pub request_id: Option<String>,
}

impl Failure {
    /// Converts the failure of a call of a tool. `refused` makes the error of an invalid request.
    pub(super) fn into_tool_error(
        self,
        tool: &str,
        refused: impl FnOnce(String) -> ToolError,
    ) -> ToolError {
        let message = self.error.message;
        match self.error.code {
            ErrorCode::InvalidRequest => refused(message),
            ErrorCode::Cancelled => ToolError::Cancelled,
            _ => ToolError::failed(tool, message),
        }
    }

    /// Builds a failure. Control characters in the message are escaped.
    pub fn new(code: ErrorCode, message: impl AsRef<str>) -> Failure {
        Failure {
            error: FailureDetails {
                code,
                message: escape_lines(message.as_ref()).into_owned(),
                retry_after_ms: None,
                snapshot_id: None,
                request_id: None,
            },
        }
    }

    /// Adds the id of the request.
    #[must_use]
    pub fn of(mut self, request_id: Option<String>) -> Failure {
        self.error.request_id = request_id;
        self
    }
}

/// The schema versions of the messages that a daemon sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct SchemaVersions {
    /// Versions of responses to `search`.
    pub query_success: Vec<u64>,
    /// Versions of failures.
    pub query_error: Vec<u64>,
    /// Versions of responses to `status`.
    pub status: Vec<u64>,
    /// Versions of responses to `health`.
    pub health: Vec<u64>,
}

impl SchemaVersions {
    /// Returns the versions that this program writes.
    pub fn own() -> SchemaVersions {
        let own = || vec![SCHEMA_VERSION];
        SchemaVersions {
            query_success: vec![QUERY_SCHEMA_VERSION],
            query_error: own(),
            status: own(),
            health: own(),
        }
    }
}

/// The response to a handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Welcome {
    /// The protocol version of this connection.
    pub protocol_version: i64,
    /// All protocol versions that the daemon supports.
    #[schemars(length(min = 1))]
    pub protocol_versions: Vec<i64>,
    /// The release of the daemon, such as `0.1.0`.
    pub binary_version: String,
    /// The schema versions of the daemon's messages.
    pub supported_schema_versions: SchemaVersions,
    /// The id of the daemon's tree: a hash of its root's path.
    pub store_id: String,
    /// The fingerprint of the daemon's configuration.
    pub config_fingerprint: String,
}

impl Welcome {
    pub(super) fn new(version: i64, versions: &[i64], own: &ServedTree) -> Welcome {
        Welcome {
            protocol_version: version,
            protocol_versions: versions.to_vec(),
            binary_version: env!("CARGO_PKG_VERSION").to_string(),
            supported_schema_versions: SchemaVersions::own(),
            store_id: own.store_id.clone(),
            config_fingerprint: own.config_fingerprint.clone(),
        }
    }
}

/// The state of the git repository, as far as it was determined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Git {
    /// The id of the commit that is checked out, if known.
    pub head_sha: Option<String>,
    /// Whether the working tree differs from that commit; `null` if not determined.
    pub dirty: Option<bool>,
    /// Whether untracked files are searched. They are, unless ignored.
    pub untracked_included: bool,
}

/// The limits on the size of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct LimitsInForce {
    /// Maximum number of results.
    pub max_results: u64,
    /// Maximum number of results from one file.
    pub per_file: u64,
    /// The length of snippets: `short`, `long` or `none`.
    pub snippet: String,
    /// Further limits, by name.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The duration of each stage of a query, in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Timings {
    /// Waiting in the queue.
    pub admission: u64,
    /// Opening a snapshot.
    pub snapshot_read: u64,
    /// Finding and reading files.
    pub retrieve: u64,
    /// Ranking the results.
    pub rank: u64,
    /// Writing the response.
    pub format: u64,
}

/// The score of a result, in ten-thousandths. It is always written with four decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score(pub u64);

impl Serialize for Score {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000);
        let raw = serde_json::value::RawValue::from_string(text);
        raw.map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Score, D::Error> {
        let score = f64::deserialize(deserializer)?;
        Ok(Score((score * 10_000.0).round() as u64))
    }
}

/// Removes the default of a field that only daemons of older releases leave out.
fn without_default(schema: &mut schemars::Schema) {
    schema.remove("default");
}

/// One result: lines of a file that match a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Found {
    /// The path of the file, relative to the root.
    pub path: String,
    /// The score; higher is better.
    #[schemars(with = "f64")]
    pub score: Score,
    /// The score in percent of the best score.
    pub match_pct: u64,
    /// The snippet: the text of the lines shown.
    pub content: String,
    /// `definition` if a name is defined here, else `content`.
    pub chunk_type: String,
    /// The parts of the score that decided: the largest one, and the second one if it is at least
    /// half as large.
    #[serde(default)]
    #[schemars(required, length(min = 1, max = 2), transform = without_default)]
    pub why: Vec<Reason>,
    /// The number of the first line shown, starting at 1.
    pub start_line: u64,
    /// The number of the last line shown.
    pub end_line: u64,
    /// Whether this is the best result of its file.
    pub is_anchor: bool,
}

/// The response to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Success {
    /// The version of this schema.
    #[schemars(extend("const" = QUERY_SCHEMA_VERSION))]
    pub schema_version: u64,
    /// The id of the request.
    pub request_id: String,
    /// The id of the tree: a hash of its root's path.
    pub store_id: String,
    /// The fingerprint of the daemon's configuration.
    pub config_fingerprint: String,
    /// The fingerprint of the ignore files that apply.
    pub ignore_fingerprint: String,
    /// The fingerprint of the question.
    pub query_fingerprint: String,
    /// The fingerprint of the embedding configuration: of the word table, and of the rules by which
    /// texts are split.
    pub embed_config_fingerprint: String,
    /// The snapshot that was searched; `null` if the tree itself was searched.
    pub snapshot_id: Option<String>,
    /// Whether no snapshot was used. The response then reflects the tree at the time of reading.
    pub degraded: bool,
    /// The state of the git repository.
    pub git: Option<Git>,
    /// The purpose of the search.
    #[schemars(extend("enum" = ["balanced", "discovery", "implementation", "planning", "debug"]))]
    pub mode: String,
    /// The limits on the size of the response.
    pub limits: LimitsInForce,
    /// The limits that changed the response.
    pub limits_hit: Vec<LimitHit>,
    /// Warnings about the response.
    pub warnings: Vec<Warning>,
    /// The duration of each stage; absent in deterministic mode.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "Timings")]
    pub timings_ms: Option<Timings>,
    /// The results, best first.
    pub results: Vec<Found>,
    /// How the ranking was computed; only if requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "Map<String, Value>")]
    pub explain: Option<Map<String, Value>>,
}

/// The response to `cancel` and `shutdown`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Acknowledged {
    /// Whether the request had an effect: a request was cancelled, or the daemon shuts down.
    pub done: bool,
    /// The id of the cancelled request, or else of this request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "String")]
    pub request_id: Option<String>,
}

/// Returns the name and the schema of each message, as in `docs/schemas/`.
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("handshake_request", written_schema_of::<Hello>()),
        ("handshake_response", written_schema_of::<Welcome>()),
        ("request", request_schema()),
        ("query_success", written_schema_of::<Success>()),
        ("query_error", written_schema_of::<Failure>()),
        ("acknowledged", written_schema_of::<Acknowledged>()),
        ("status", written_schema_of::<Status>()),
        ("health", written_schema_of::<Health>()),
        ("metrics", written_schema_of::<Exposition>()),
    ]
}

/// Returns the schema of requests: one variant for each value of `type`.
fn request_schema() -> Value {
    let bare = |kind: &str| {
        (
            kind.to_string(),
            json!({ "properties": {}, "required": [] }),
        )
    };
    let kinds = [
        ("search".to_string(), written_schema_of::<SearchQuery>()),
        ("tool".to_string(), written_schema_of::<ToolCall>()),
        bare("status"),
        bare("health"),
        bare("metrics"),
        bare("cancel"),
        bare("shutdown"),
    ];
    let all = kinds.into_iter().map(|(kind, fields)| {
        let mut properties = fields["properties"].clone();
        if let Value::Object(properties) = &mut properties {
            // Fields without a value are left out, so `null` is not allowed.
            for field in properties.values_mut() {
                if let Some(Value::Array(kinds)) = field.get_mut("type") {
                    kinds.retain(|kind| kind != "null");
                }
                if let Some(Value::Array(ways)) = field.get_mut("anyOf") {
                    ways.retain(|way| way["type"] != "null");
                }
            }
        }
        properties["type"] = json!({ "const": kind });
        properties["request_id"] = json!({
            "description": "An id that the client chooses, without control characters. For `cancel`, the id of the request to cancel.",
            "type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS,
        });
        // Fields that default to false are optional.
        let optional = ["explain", "deterministic", "raw"];
        let mut required = vec![json!("type")];
        let named = fields["required"].as_array().into_iter().flatten().cloned();
        required.extend(named.filter(|name| !optional.contains(&name.as_str().unwrap_or_default())));
        if kind == "cancel" {
            required.push(json!("request_id"));
        }
        let mut schema = json!({
            "title": kind, "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        });
        if kind == "search" {
            schema["oneOf"] = json!([{ "required": ["query"] }, { "required": ["related"] }]);
        }
        schema
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Request",
        "oneOf": all.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_have_words_and_exit_statuses() {
        let shown = ErrorCode::ALL
            .iter()
            .map(|code| (code.as_str(), code.exit_status()));
        let expected = [
            ("busy", 10),
            ("timeout", 11),
            ("cancelled", 12),
            ("invalid_request", 1),
            ("internal", 1),
            ("incompatible", 13),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn a_failure_omits_unknown_fields() {
        let failure = Failure::new(ErrorCode::Busy, "no");
        let text = serde_json::to_string(&failure).unwrap();
        assert_eq!(text, r#"{"error":{"code":"busy","message":"no"}}"#);
        let failure = failure.of(Some("r".to_string()));
        let text = serde_json::to_string(&failure).unwrap();
        assert!(
            text.ends_with(r#""message":"no","request_id":"r"}}"#),
            "{text}"
        );
    }

    #[test]
    fn clients_ignore_fields_they_do_not_know() {
        let text = r#"{"error":{"code":"busy","message":"no","new":1},"more":2}"#;
        let failure: Failure = serde_json::from_str(text).unwrap();
        assert_eq!(failure, Failure::new(ErrorCode::Busy, "no"));
    }

    #[test]
    fn every_score_has_four_decimals() {
        for (score, text) in [(0, "0.0000"), (1, "0.0001"), (123_400, "12.3400")] {
            assert_eq!(serde_json::to_string(&Score(score)).unwrap(), text);
            assert_eq!(serde_json::from_str::<Score>(text).unwrap(), Score(score));
        }
    }
}
