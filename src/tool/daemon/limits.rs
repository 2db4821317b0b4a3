//! Limits of one query, and what is said when one was met.
//!
//! Owns the caps, their upper bounds, which no configuration can raise, and the order in which limits and warnings are told.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cap: what it is by default, and what it is at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The value that holds where nothing is configured.
    pub default: u64,
    /// The largest value that can be configured.
    pub most: u64,
}

/// Bytes of a request.
pub const MAX_REQUEST_BYTES: Cap = Cap {
    default: 1_048_576,
    most: 16 << 20,
};

/// Bytes of a response.
pub const MAX_RESPONSE_BYTES: Cap = Cap {
    default: 10_485_760,
    most: 64 << 20,
};

/// Files that are ranked.
pub const MAX_CANDIDATES: Cap = Cap {
    default: 2_000,
    most: 20_000,
};

/// Bytes of all snippets of a response.
pub const MAX_TOTAL_SNIPPET_BYTES: Cap = Cap {
    default: 256 << 10,
    most: 4 << 20,
};

/// Bytes of one snippet.
pub const MAX_SNIPPET_BYTES_PER_RESULT: Cap = Cap {
    default: 4 << 10,
    most: 64 << 10,
};

/// Segments that one query opens.
pub const MAX_OPEN_SEGMENTS_PER_QUERY: Cap = Cap {
    default: 64,
    most: 256,
};

/// Segments that a daemon has open (`IPC.MUST.005`).
pub const MAX_OPEN_SEGMENTS_GLOBAL: Cap = Cap {
    default: 512,
    most: 4_096,
};

/// Results of one query.
pub const MAX_RESULTS: Cap = Cap {
    default: 20,
    most: 1_000,
};

/// Results of one file.
pub const MAX_PER_FILE: Cap = Cap {
    default: 3,
    most: 50,
};

/// Queries that run at once.
pub const MAX_CONCURRENT_QUERIES: Cap = Cap {
    default: 8,
    most: 64,
};

/// Queries that wait.
pub const MAX_QUERY_QUEUE_DEPTH: Cap = Cap {
    default: 32,
    most: 1_024,
};

/// Milliseconds that a query may take, the wait included.
pub const QUERY_TIMEOUT_MS: Cap = Cap {
    default: 60_000,
    most: 600_000,
};

/// A cap that changed an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitHit {
    /// Which one.
    pub code: String,
    /// Its value.
    pub limit: u64,
    /// What there would have been, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "u64")]
    pub observed: Option<u64>,
    /// The file in which it was met, if it is one of a file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "String")]
    pub path_key: Option<String>,
}

/// Something that a reader of an answer has to know. Never text of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// What it is, for programs.
    pub code: String,
    /// What it is, for people.
    pub message: String,
    /// The file that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "String")]
    pub path_key: Option<String>,
}

/// What is told beside results, each once and in order: by code, then by path, bytewise.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    limits: BTreeMap<(String, Option<String>), LimitHit>,
    warnings: BTreeMap<(String, Option<String>), Warning>,
}

impl Remarks {
    /// Notes that a cap was met. Of several such remarks the one with the most observed counts, whatever order they come in.
    pub fn limit(&mut self, code: &str, limit: u64, observed: Option<u64>, path_key: Option<&str>) {
        let path_key = path_key.map(str::to_string);
        let hit = LimitHit {
            code: code.to_string(),
            limit,
            observed,
            path_key: path_key.clone(),
        };
        let kept = self.limits.entry((code.to_string(), path_key));
        kept.and_modify(|kept| kept.observed = kept.observed.max(observed))
            .or_insert(hit);
    }

    /// Warns. Of several such warnings the one whose message sorts first counts, whatever order they come in.
    pub fn warn(&mut self, code: &str, message: impl Into<String>, path_key: Option<&str>) {
        let path_key = path_key.map(str::to_string);
        let warning = Warning {
            code: code.to_string(),
            message: message.into(),
            path_key: path_key.clone(),
        };
        let kept = self.warnings.entry((code.to_string(), path_key));
        let message = warning.message.clone();
        kept.and_modify(|kept| {
            if message < kept.message {
                kept.message = message;
            }
        })
        .or_insert(warning);
    }

    /// Returns both lists.
    pub fn told(self) -> (Vec<LimitHit>, Vec<Warning>) {
        (
            self.limits.into_values().collect(),
            self.warnings.into_values().collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ggrep_limits_are_told_once_and_in_order_of_code_and_path() {
        let told = |turn: usize| {
            let mut given = vec![
                ("z", Some(1), None),
                ("a", Some(9), Some("b")),
                ("a", None, None),
                ("a", Some(2), Some("a")),
                ("a", Some(7), Some("b")),
            ];
            given.rotate_left(turn);
            let mut remarks = Remarks::default();
            for (code, observed, path) in given {
                remarks.limit(code, 5, observed, path);
                remarks.warn(code, format!("{observed:?}"), path);
            }
            remarks.told()
        };
        let (limits, warnings) = told(0);
        let shown: Vec<_> = limits
            .iter()
            .map(|hit| (hit.code.as_str(), hit.path_key.as_deref(), hit.observed))
            .collect();
        let expected = [
            ("a", None, None),
            ("a", Some("a"), Some(2)),
            ("a", Some("b"), Some(9)),
            ("z", None, Some(1)),
        ];
        assert_eq!(shown, expected);
        assert_eq!(warnings[2].message, "Some(7)");
        for turn in 1..5 {
            assert_eq!(told(turn), (limits.clone(), warnings.clone()));
        }
    }

    #[test]
    fn defaults_are_those_of_the_contract_and_within_their_bounds() {
        assert_eq!(MAX_REQUEST_BYTES.default, 1_048_576);
        assert_eq!(MAX_RESPONSE_BYTES.default, 10_485_760);
        assert_eq!(MAX_OPEN_SEGMENTS_PER_QUERY.default, 64);
        assert_eq!(MAX_OPEN_SEGMENTS_GLOBAL.default, 512);
        assert_eq!(MAX_CONCURRENT_QUERIES.default, 8);
        assert_eq!(MAX_QUERY_QUEUE_DEPTH.default, 32);
        assert_eq!(QUERY_TIMEOUT_MS.default, 60_000);
        for cap in [
            MAX_REQUEST_BYTES,
            MAX_RESPONSE_BYTES,
            MAX_CANDIDATES,
            MAX_TOTAL_SNIPPET_BYTES,
            MAX_SNIPPET_BYTES_PER_RESULT,
            MAX_OPEN_SEGMENTS_PER_QUERY,
            MAX_OPEN_SEGMENTS_GLOBAL,
            MAX_RESULTS,
            MAX_PER_FILE,
            MAX_CONCURRENT_QUERIES,
            MAX_QUERY_QUEUE_DEPTH,
            QUERY_TIMEOUT_MS,
        ] {
            assert!(0 < cap.default && cap.default <= cap.most, "{cap:?}");
        }
    }
}
