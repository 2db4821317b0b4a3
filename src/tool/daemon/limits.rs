//! Limits of one query, and the notes about limits that were reached.
//!
//! This module owns the order of limits and warnings in an answer. The caps themselves, with upper
//! bounds that no configuration can raise, are defined with their configuration keys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::tool::config::caps::*;

/// A limit that changed a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LimitHit {
    /// The name of the limit.
    pub code: String,
    /// The value of the limit.
    pub limit: u64,
    /// The value without the limit, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "u64")]
    pub observed: Option<u64>,
    /// The file to which the limit was applied, if it is a limit per file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "String")]
    pub path_key: Option<String>,
}

/// A warning about a response. It never contains text of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Warning {
    /// The name of the warning, for programs.
    pub code: String,
    /// The warning in words, for people.
    pub message: String,
    /// The file that the warning is about, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "String")]
    pub path_key: Option<String>,
}

/// The remarks about an answer, each once, sorted by code, then by path, bytewise.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    limits: BTreeMap<(String, Option<String>), LimitHit>,
    warnings: BTreeMap<(String, Option<String>), Warning>,
}

impl Remarks {
    /// Records that a cap was reached. Of remarks with the same code and path the largest observed
    /// value counts.
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

    /// Records a warning. Of warnings with the same code and path the message that sorts first
    /// counts.
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
    pub fn into_parts(self) -> (Vec<LimitHit>, Vec<Warning>) {
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
    fn limits_are_reported_once_and_in_order_of_code_and_path() {
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
            remarks.into_parts()
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
}
