//! The answer to a request: the serialized message and its outcome.

use serde::Serialize;

use super::super::answer::of_tool;
use super::super::limits::{LimitHit, MAX_RESULTS};
use super::super::metrics::Outcome;
use super::super::reply::{ErrorCode, Failure, Success, Timings};
use super::super::request::SearchQuery;
use super::request::RequestContext;
use crate::exec::stop::StopReason;
use crate::tool::error::ToolError;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The serialized message.
    pub payload: Vec<u8>,
    /// How the request ended.
    pub outcome: Outcome,
    /// The log fields of a ranked search; absent for other requests.
    pub log_fields: Option<QueryLogFields>,
}

/// The log fields of a ranked search. They hold no query text and no path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryLogFields {
    /// The id of the request.
    pub request_id: Option<String>,
    /// The id of the snapshot that was searched.
    pub snapshot_id: Option<String>,
    /// The ranking profile.
    pub profile: String,
    /// The limit on results.
    pub max_results: u64,
    /// The limit on results of one file.
    pub per_file: u64,
    /// The snippet mode.
    pub snippet: String,
    /// The time that each stage took.
    pub timings: Timings,
    /// The number of segments that were read, once that is known.
    pub segments: Option<u64>,
}

impl QueryLogFields {
    /// Returns the log fields that are known before the query is answered.
    pub(in crate::tool::daemon) fn for_query(query: &SearchQuery) -> QueryLogFields {
        let profile = query.mode.unwrap_or_default();
        QueryLogFields {
            profile: profile.as_str().to_string(),
            max_results: query.limit.unwrap_or(MAX_RESULTS.default),
            per_file: query.per_file.unwrap_or(profile.per_file().into()),
            snippet: query.snippet().as_str().to_string(),
            ..QueryLogFields::default()
        }
    }

    pub(super) fn of(success: &Success, timings: Timings, segments: u64) -> QueryLogFields {
        QueryLogFields {
            request_id: Some(success.request_id.clone()),
            snapshot_id: success.snapshot_id.clone(),
            profile: success.mode.clone(),
            max_results: success.limits.max_results,
            per_file: success.limits.per_file,
            snippet: success.limits.snippet.clone(),
            timings,
            segments: Some(segments),
        }
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Answer {
        Answer {
            payload: payload(&failure),
            outcome: Outcome::Failed(failure.error.code),
            log_fields: None,
        }
    }
}

impl Answer {
    pub(super) fn of(payload: Vec<u8>) -> Answer {
        Answer {
            payload,
            outcome: Outcome::Answered,
            log_fields: None,
        }
    }
}

/// Converts the outcome of a tool call into an answer.
pub(super) fn closed(
    answered: Result<(Vec<u8>, bool), ToolError>,
    request_context: RequestContext<'_>,
) -> Answer {
    match (answered, request_context.ending.reason()) {
        (Ok((text, false)), None) => Answer::of(text),
        // A partial answer after a timeout is sent as it is, and counts as a timeout.
        (Ok((text, true)), None | Some(StopReason::TimedOut)) => Answer {
            outcome: Outcome::Failed(ErrorCode::Timeout),
            ..Answer::of(text)
        },
        (_, Some(reason)) => ended(reason).of(request_context.id).into(),
        (Err(error), None) => {
            let failure = of_tool(&error);
            match error {
                ToolError::Cancelled => failure.of(request_context.id).into(),
                error => Answer {
                    payload: error.to_json().to_string().into_bytes(),
                    outcome: Outcome::Failed(failure.error.code),
                    log_fields: None,
                },
            }
        }
    }
}

/// Returns the failure for a request that was ended from outside.
pub fn ended(reason: StopReason) -> Failure {
    match reason {
        StopReason::Cancelled => Failure::new(ErrorCode::Cancelled, "the query was cancelled"),
        _ => Failure::new(
            ErrorCode::Timeout,
            "the query was not answered within its timeout",
        ),
    }
}

/// Serializes a message.
pub fn payload(message: &impl Serialize) -> Vec<u8> {
    // The messages hold only strings, numbers and lists of them, which always serialize.
    serde_json::to_vec(message).unwrap_or_default()
}

/// Serializes an answer with as many results as fit into `most` bytes. If the answer is too long
/// even without results, the explanation and remarks about single files are dropped.
pub(super) fn fitted(mut success: Success, most: usize) -> Vec<u8> {
    let whole = payload(&success);
    if whole.len() <= most {
        return whole;
    }
    success.limits_hit.push(LimitHit {
        code: "max_response_bytes".to_string(),
        limit: most as u64,
        observed: Some(whole.len() as u64),
        path_key: None,
    });
    success
        .limits_hit
        .sort_by(|a, b| (&a.code, &a.path_key).cmp(&(&b.code, &b.path_key)));
    let results = std::mem::take(&mut success.results);
    if payload(&success).len() > most {
        success.explain = None;
        // The limits and warnings about single files take room, too.
        success.limits_hit.retain(|hit| hit.path_key.is_none());
        success
            .warnings
            .retain(|warning| warning.path_key.is_none());
    }
    // The bytes of each result, and a comma.
    let mut len = payload(&success).len();
    for result in results {
        len += payload(&result).len() + 1;
        if len > most {
            break;
        }
        success.results.push(result);
    }
    payload(&success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_query_with_a_budget_says_that_snippets_are_definitions() {
        let query = SearchQuery {
            budget: Some(100),
            ..SearchQuery::new("x")
        };
        assert_eq!(QueryLogFields::for_query(&query).snippet, "definition");
    }
}
