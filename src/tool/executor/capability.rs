//! The capabilities of tasks, and the kinds of data that they search.
//!
//! Manifests, leases and results name a capability. For example, `SEARCH_EMAILS` searches Maildirs
//! and mbox files.

use serde::{Deserialize, Serialize};

use crate::format::choices::choices;
use crate::tool::config::ScopeKind;

choices! {
    /// A capability of a task. Manifests, leases and results have its name.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    Capability {
        /// Search names of files.
        SearchFiles = "SEARCH_FILES",
        /// Search senders, recipients, subjects and texts of e-mails.
        SearchEmails = "SEARCH_EMAILS",
        /// Search text fields of records.
        SearchDatasets = "SEARCH_DATASETS",
    }
}

impl Capability {
    /// Returns the capability that searches data of a kind.
    pub fn of(kind: ScopeKind) -> Capability {
        match kind {
            ScopeKind::Files => Capability::SearchFiles,
            ScopeKind::Maildir | ScopeKind::Mbox => Capability::SearchEmails,
            ScopeKind::Sqlite | ScopeKind::Csv | ScopeKind::Jsonl => Capability::SearchDatasets,
        }
    }
}
