//! The capabilities of tasks, and the kinds of data that they search.
//!
//! Manifests, leases and results name a capability. For example, `SEARCH_EMAILS` searches Maildirs
//! and mbox files.

use serde::{Deserialize, Serialize};

use crate::tool::config::ScopeKind;

/// A capability of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Capability {
    /// Search names of files.
    SearchFiles,
    /// Search senders, recipients, subjects and texts of e-mails.
    SearchEmails,
    /// Search text fields of records.
    SearchDatasets,
}

impl Capability {
    /// All capabilities, each once.
    pub const ALL: [Capability; 3] = [
        Capability::SearchFiles,
        Capability::SearchEmails,
        Capability::SearchDatasets,
    ];

    /// Returns the name of the capability in manifests, leases and results.
    pub fn name(self) -> &'static str {
        match self {
            Capability::SearchFiles => "SEARCH_FILES",
            Capability::SearchEmails => "SEARCH_EMAILS",
            Capability::SearchDatasets => "SEARCH_DATASETS",
        }
    }

    /// Returns the capability with a name.
    pub fn named(name: &str) -> Option<Capability> {
        Capability::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns the capability that searches data of a kind.
    pub fn of(kind: ScopeKind) -> Capability {
        match kind {
            ScopeKind::Files => Capability::SearchFiles,
            ScopeKind::Maildir | ScopeKind::Mbox => Capability::SearchEmails,
            ScopeKind::Sqlite | ScopeKind::Csv | ScopeKind::Jsonl => Capability::SearchDatasets,
        }
    }
}
