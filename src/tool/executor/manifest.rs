//! Manifests of the executor: the description of a task. (The manifest of an index is another
//! file.)
//!
//! Owns the two steps of reading one. The first step parses it as far as possible, since the lease
//! is checked before the content of the manifest matters. The second step validates the query, the
//! number of results and the scope, each with a reason of its own (EXEC §3).

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::capability::Capability;
use super::failure::Reason;
use crate::tool::unique_fields::UniqueFields;

/// The longest manifest, in bytes.
pub const MAX_MANIFEST: usize = 1 << 20;

/// The most fields of a manifest that is read. More are refused as unreadable.
const MAX_FIELDS: usize = 64;

/// The longest query, in code points (EXEC §3).
pub const MAX_QUERY: usize = 4_096;

/// The largest number of requested results (EXEC §3).
pub const MAX_RESULTS: u32 = 1_000;

/// A validated manifest. Its serialized form identifies the task's content in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// The id of the task.
    pub task_id: String,
    /// The capability to use.
    pub capability_id: Capability,
    /// The scope to search.
    pub target_scope: String,
    /// The text to search for, without the space around it.
    pub query: String,
    /// The largest number of results.
    pub max_results: u32,
}

/// A parsed manifest whose fields are not validated yet.
#[derive(Debug)]
pub(super) struct UncheckedManifest {
    fields: UniqueFields<Box<RawValue>>,
    /// Whether the manifest was valid UTF-8.
    utf8: bool,
}

impl UncheckedManifest {
    /// Parses a manifest as far as possible.
    pub(super) fn read(bytes: &[u8]) -> Option<UncheckedManifest> {
        if bytes.len() > MAX_MANIFEST {
            return None;
        }
        let text = String::from_utf8_lossy(bytes);
        let fields: UniqueFields<_> = serde_json::from_str(&text).ok()?;
        let utf8 = matches!(text, Cow::Borrowed(_));
        (fields.0.len() <= MAX_FIELDS).then_some(UncheckedManifest { fields, utf8 })
    }

    fn raw(&self, name: &str) -> Option<&RawValue> {
        self.fields.0.get(name).map(|value| &**value)
    }

    /// Returns a field if it is a string.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// Validates the fields, the query and the number of results.
    pub(super) fn validate(
        &self,
        task_id: String,
        capability_id: Capability,
        target_scope: String,
    ) -> Result<Manifest, Reason> {
        const KNOWN: [&str; 5] = [
            "task_id",
            "capability_id",
            "target_scope",
            "query",
            "max_results",
        ];
        // Invalid UTF-8 anywhere counts as an invalid query.
        if !self.utf8 {
            return Err(Reason::QueryNotText);
        }
        if self.fields.0.keys().any(|name| !KNOWN.contains(&&**name)) {
            return Err(Reason::FieldUnknown);
        }
        let query = self.text("query").ok_or(Reason::QueryNotText)?;
        let query = query.trim();
        if !(1..=MAX_QUERY).contains(&query.chars().count()) {
            return Err(Reason::QueryLength);
        }
        let max_results = self
            .raw("max_results")
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .filter(|max| (1..=MAX_RESULTS).contains(max))
            .ok_or(Reason::MaxResults)?;
        Ok(Manifest {
            task_id,
            capability_id,
            target_scope,
            query: query.to_string(),
            max_results,
        })
    }
}
