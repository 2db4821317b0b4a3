//! Parses one message of a client, or refuses it.
//!
//! This module owns the guarantee that every request with an id gets an answer. That includes
//! requests that the library can't parse: invalid UTF-8, lone surrogates, deep nesting, fields of
//! the wrong type.

use std::collections::BTreeMap;

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, from_str, from_value, json};

use super::lenient::make_object;

/// The methods that the server answers.
const METHODS: [&str; 6] = [
    "initialize",
    "ping",
    "resources/list",
    "resources/read",
    "tools/call",
    "tools/list",
];

/// A refused message, and the error that answers it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    id: Option<RequestId>,
    code: ErrorCode,
    message: String,
}

impl Refusal {
    /// Refuses a message without a readable id.
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal {
            id: None,
            code,
            message: message.into(),
        }
    }

    /// Makes the refusal the answer to a request.
    pub(super) fn of(self, id: RequestId) -> Refusal {
        Refusal {
            id: Some(id),
            ..self
        }
    }

    /// Serializes the answer. Its id is null if the message had no readable id.
    pub(super) fn to_json(&self) -> String {
        let error = json!({"code": self.code.0, "message": self.message});
        json!({"jsonrpc": "2.0", "id": self.id, "error": error}).to_string()
    }
}

/// The fields of a message, as raw JSON. Nesting has no limit here.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Parses a message. Returns `None` for a malformed notification, which gets no answer.
pub(super) fn read(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => {
            let message = format!(
                "the message is not valid UTF-8 at byte {}; escape such bytes or leave them out",
                error.valid_up_to()
            );
            return refuse_unreadable(&String::from_utf8_lossy(line), message);
        }
    };
    let fields = match fields(text) {
        Ok(fields) => fields,
        Err(refusal) => {
            let lossy = without_surrogates(text);
            return match self::fields(&lossy) {
                Ok(_) => refuse_unreadable(&lossy, refusal.message),
                Err(_) => Err(refusal),
            };
        }
    };
    let id = id(&fields)?;
    let refuse = |code, message: String| {
        Err(Refusal {
            id: id.clone(),
            code,
            message,
        })
    };
    let Some(method) = fields.get("method") else {
        return match is_response(&fields) {
            true => Ok(from_str(text).ok().or_else(|| unreadable_response(id))),
            false => refuse(
                ErrorCode::INVALID_REQUEST,
                "the message has no `method`".to_string(),
            ),
        };
    };
    let Ok(method) = from_str::<String>(method.get()) else {
        let message = "`method` must be a string, such as \"tools/call\"";
        return refuse(ErrorCode::INVALID_REQUEST, message.to_string());
    };
    match (from_str(text), &id) {
        (Ok(message), _) => return Ok(Some(with_arguments(message, text))),
        (Err(_), None) => return Ok(None),
        (Err(_), Some(_)) => {}
    }
    if let Err(error) = from_str::<Value>(text) {
        let message = format!("the parameters of `{method}` can't be read: {error}");
        return refuse(ErrorCode::INVALID_PARAMS, message);
    }
    if fields.get("jsonrpc").map(|version| version.get()) != Some("\"2.0\"") {
        let message = "`jsonrpc` must be \"2.0\"";
        return refuse(ErrorCode::INVALID_REQUEST, message.to_string());
    }
    match METHODS.contains(&method.as_str()) {
        true => refuse(ErrorCode::INVALID_PARAMS, wrong_params(&method)),
        false => refuse(
            ErrorCode::METHOD_NOT_FOUND,
            format!("there is no method `{method}`"),
        ),
    }
}

/// Repairs a tool call whose arguments are a JSON text, as some models write them.
fn with_arguments(message: ClientJsonRpcMessage, text: &str) -> ClientJsonRpcMessage {
    // The library recognizes the method only with parameters of the right type.
    let is_broken_call = match &message {
        JsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::CustomRequest(custom) => custom.method == "tools/call",
            _ => false,
        },
        _ => false,
    };
    if !is_broken_call {
        return message;
    }
    let mut value: Value = from_str(text).unwrap_or_default();
    match make_object(&mut value) {
        true => from_value(value).unwrap_or(message),
        false => message,
    }
}

/// Refuses a message with invalid UTF-8, under its id if that is readable.
fn refuse_unreadable(
    lossy: &str,
    message: String,
) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
    let (id, is_response) = match fields(lossy) {
        Ok(fields) => (id(&fields).unwrap_or_default(), is_response(&fields)),
        Err(_) => (None, false),
    };
    match (id, is_response) {
        (Some(id), true) => Ok(unreadable_response(Some(id))),
        (id, _) => Err(Refusal {
            id,
            code: ErrorCode::PARSE_ERROR,
            message,
        }),
    }
}

/// Replaces each escape of a surrogate, since a lone one in a field name makes the message
/// unreadable. No known field name contains one.
fn without_surrogates(text: &str) -> String {
    let is_surrogate = |escape: &str| {
        let digits = escape.get(..4).unwrap_or_default();
        matches!(u16::from_str_radix(digits, 16), Ok(0xD800..=0xDFFF))
    };
    let mut parts = text.split("\\u");
    let mut replaced = parts.next().unwrap_or_default().to_string();
    for part in parts {
        replaced.push_str("\\u");
        match is_surrogate(part) {
            true => replaced.extend(["fffd", &part[4..]]),
            false => replaced.push_str(part),
        }
    }
    replaced
}

/// Returns the failure that stands in for an unreadable response, so that the waiting request ends.
fn unreadable_response(id: Option<RequestId>) -> Option<ClientJsonRpcMessage> {
    let error = ErrorData::parse_error("the response can't be read", None);
    id.map(|id| ClientJsonRpcMessage::error(error, Some(id)))
}

/// Returns the error message for wrong parameters of a method, with an example.
pub(super) fn wrong_params(method: &str) -> String {
    let example = match method {
        "tools/call" => r#"{"name": "Search", "arguments": {"pattern": "text"}}"#,
        "resources/read" => r#"{"uri": "forge-search://status"}"#,
        _ => "{}",
    };
    format!("the parameters of `{method}` must be an object such as {example}")
}

fn fields(text: &str) -> Result<Fields<'_>, Refusal> {
    from_str(text).map_err(|error| match from_str::<IgnoredAny>(text) {
        Ok(_) => Refusal::new(
            ErrorCode::INVALID_REQUEST,
            "a message is a JSON object with `jsonrpc`, `id`, `method` and `params`",
        ),
        Err(_) => Refusal::new(
            ErrorCode::PARSE_ERROR,
            format!("the message is not valid JSON: {error}"),
        ),
    })
}

fn is_response(fields: &Fields<'_>) -> bool {
    let has = |name| fields.contains_key(name);
    !has("method") && (has("result") || has("error"))
}

/// Returns the id of a request; `None` for a message without one.
fn id(fields: &Fields<'_>) -> Result<Option<RequestId>, Refusal> {
    let id = fields.get("id").map(|id| from_str(id.get()));
    id.transpose().map_err(|_| {
        Refusal::new(
            ErrorCode::INVALID_REQUEST,
            "`id` must be a string or a whole number",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the id and the code of a refusal.
    fn refused(line: &[u8]) -> (Value, Value) {
        let refusal = read(line).unwrap_err();
        let answer: Value = from_str(&refusal.to_json()).unwrap();
        (answer["id"].clone(), answer["error"]["code"].clone())
    }

    #[test]
    fn requests_that_can_not_be_read_are_answered_with_their_id() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"x":{}1{}}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        for (line, id, code) in [
            (deep.as_bytes(), json!(7), -32602),
            (
                br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"\ud800"}}"#,
                json!("a"),
                -32602,
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}",
                json!(3),
                -32700,
            ),
            (
                br#"{"jsonrpc":"2.0","id":10,"meth\ud800od":"ping"}"#,
                json!(10),
                -32700,
            ),
            (br#"{"jsonrpc":"2.0","id":4,"method":5}"#, json!(4), -32600),
            (br#"{"jsonrpc":"2.0","id":5}"#, json!(5), -32600),
            (br#"{"id":6,"method":"ping"}"#, json!(6), -32600),
            (
                br#"{"jsonrpc":"2.0","id":8,"method":"ping","params":[5]}"#,
                json!(8),
                -32602,
            ),
            (
                br#"{"jsonrpc":"2.0","id":9,"method":"no/such","params":5}"#,
                json!(9),
                -32601,
            ),
        ] {
            let shown = String::from_utf8_lossy(&line[..line.len().min(100)]);
            assert_eq!(refused(line), (id, json!(code)), "{shown}");
        }
    }

    #[test]
    fn what_has_no_id_is_refused_with_a_null_id_or_not_answered() {
        for (line, code) in [
            (&b"{"[..], -32700),
            (b"xx", -32700),
            (b"\xff\xff", -32700),
            (b"5", -32600),
            (b"{}", -32600),
            (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        ] {
            assert_eq!(refused(line), (Value::Null, json!(code)), "{line:?}");
        }
        let unanswered = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#;
        assert!(read(unanswered).unwrap().is_none());
        // The request that waits for the response gets a failure.
        for broken in [
            &br#"{"jsonrpc":"1.0","id":1,"result":{}}"#[..],
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}",
        ] {
            let failure = read(broken).unwrap().unwrap();
            let failure = serde_json::to_value(failure).unwrap();
            assert_eq!(
                (&failure["id"], &failure["error"]["code"]),
                (&json!(1), &json!(-32700))
            );
        }
    }

    #[test]
    fn messages_are_read() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ] {
            assert!(read(line.as_bytes()).unwrap().is_some(), "{line}");
        }
    }
}
