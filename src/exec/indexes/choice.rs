//! The contribution of an index to one request, and its explanation.
//!
//! [`IndexDecision`] is the result of the decision in `decision.rs`. This module owns the facts for
//! `stats` ([`IndexUse`]) and the details that only an explanation needs ([`Explanation`]). A
//! search never computes these details. This module does not make the decision.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::BuildReport;
use super::other_roots::OtherRootIndex;
use super::status::Condition;
use crate::exec::sources::catalog::CatalogSource;
use crate::index::plan::{PlanDescription, SupersetSafe};
use crate::index::state::IndexState;

/// The facts about the use of an index in one answer. Diagnostics of the answer are made from them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexUse {
    /// The state of the index, with its reason code.
    #[serde(rename = "standing")]
    pub index_state: IndexState,
    /// Whether the index was used to exclude files, even if it excluded none.
    pub exclusion_used: bool,
    /// Where the index is stored.
    pub storage_mode: String,
    /// Why the index is not stored in the configured place.
    pub storage_fallback_reason: Option<String>,
    /// The part of the call's time that was spent on opening the index, waiting for it, and
    /// comparing or updating it.
    pub spent: Duration,
    /// The progress of the index build, while one runs in this process.
    pub build: Option<BuildReport>,
}

impl IndexUse {
    /// Returns the facts of a search without an index.
    pub fn not_used() -> IndexUse {
        IndexUse {
            index_state: IndexState::Disabled(None),
            exclusion_used: false,
            storage_mode: "none".to_string(),
            storage_fallback_reason: None,
            spent: Duration::ZERO,
            build: None,
        }
    }
}

/// The decision on one request: the file source, if an index serves the request, and the facts for
/// `stats`.
pub struct IndexDecision {
    /// The files to search, from the catalog. Without a source the search walks the tree.
    pub source: Option<CatalogSource>,
    /// The index facts for `stats`.
    pub index: IndexUse,
    root: Option<PathBuf>,
    plan: Option<SupersetSafe>,
    /// Why no file is excluded, if there is no source.
    reason: Option<String>,
    /// Whether the reason is that there is no index.
    absent: bool,
}

/// Why a request excludes the files that it excludes, or why it excludes no files.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The index root.
    pub root: Option<PathBuf>,
    /// The plan, if one was made.
    pub plan: Option<PlanDescription>,
    /// Files of the catalog that are eligible for the request. Files with a line break in the name
    /// are not in the catalog.
    pub in_scope: Option<u64>,
    /// Files of `in_scope` that the plan could not exclude. In addition the search reads files that
    /// changed after the build and files that are not in the catalog.
    pub candidates: Option<u64>,
    /// Why no file is excluded, if that is so.
    pub reason: Option<String>,
    /// If there is no index: an index of another root that the user may have meant.
    pub other_root_index: Option<OtherRootIndex>,
}

impl IndexDecision {
    pub(super) fn new(
        source: Option<CatalogSource>,
        index: IndexUse,
        root: Option<PathBuf>,
        plan: Option<SupersetSafe>,
        unused: Option<Condition>,
    ) -> IndexDecision {
        IndexDecision {
            source,
            index,
            root,
            plan,
            absent: unused.as_ref().is_some_and(Condition::is_absent),
            reason: unused.and_then(|unused| unused.why()),
        }
    }

    /// Returns true if no index covers the path of the request. An index of another root may be
    /// meant then.
    pub fn is_absent(&self) -> bool {
        self.absent
    }

    /// Explains the decision. Takes time in proportion to the files in scope; a search does not
    /// need it.
    pub fn explanation(&self) -> Explanation {
        let counts = self.source.as_ref().map(|source| source.counts());
        let every_file = counts.is_some_and(|(all, candidates)| candidates == all && all > 0);
        Explanation {
            root: self.root.clone(),
            plan: self.plan.as_ref().map(SupersetSafe::describe),
            in_scope: counts.map(|(all, _)| all),
            candidates: counts.map(|(_, candidates)| candidates),
            reason: match every_file {
                true => Some(EVERY_FILE.to_string()),
                false => self.reason.clone(),
            },
            other_root_index: None,
        }
    }
}

/// The reason if the plan was applied but excluded no file.
const EVERY_FILE: &str =
    "no file could be skipped: each may contain what the plan requires, or is always searched";
