//! What an index does for one request, and how that is explained.
//!
//! Owns the outcome of the decision, and everything about it that only people who ask for an explanation want to
//! know: none of that is worked out for a search. How the decision is made is not its business.

use std::path::PathBuf;

use super::elsewhere::Elsewhere;
use super::status::Condition;
use crate::exec::catalog::CatalogSource;
use crate::index::plan::{PlanDescription, SupersetSafe};
use crate::index::state::{Standing, UncertainReason};
use crate::tool::response::IndexUse;

/// What an index does for a request.
pub struct Choice {
    /// The files, from the catalog; without it the tree is walked.
    pub source: Option<CatalogSource>,
    /// What `stats` say.
    pub index: IndexUse,
    root: Option<PathBuf>,
    plan: Option<SupersetSafe>,
    /// Why nothing is left out, where there is no source.
    reason: Option<String>,
    /// Whether that is because there is no index at all.
    absent: bool,
}

/// Why a request leaves out what it leaves out.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The index root.
    pub root: Option<PathBuf>,
    /// The plan, if one was made.
    pub plan: Option<PlanDescription>,
    /// Files of the catalog that the request is about. Those with a line break in the name are not in it.
    pub in_scope: Option<u64>,
    /// Files among them that the plan could not exclude. What a search searches is these, what changed since the index
    /// was built, and what is not in the catalog.
    pub candidates: Option<u64>,
    /// Why nothing is left out, if nothing is.
    pub reason: Option<String>,
    /// Where there is no index: one of another root that may be meant.
    pub elsewhere: Option<Elsewhere>,
}

impl Choice {
    pub(super) fn new(
        source: Option<CatalogSource>,
        index: IndexUse,
        root: Option<PathBuf>,
        plan: Option<SupersetSafe>,
        unused: Option<Unused>,
    ) -> Choice {
        Choice {
            source,
            index,
            root,
            plan,
            absent: unused.as_ref().is_some_and(|unused| unused.absent),
            reason: unused.map(|unused| unused.why),
        }
    }

    /// Returns true if there is no index of what the request searches, so that one of another root may be meant.
    pub fn is_absent(&self) -> bool {
        self.absent
    }

    /// Explains the choice. Takes time in proportion to the files in scope, which a search does not need.
    pub fn explanation(&self) -> Explanation {
        // A damaged catalog is reported by the search that uses it.
        let counts = self.source.as_ref().and_then(|source| source.counts().ok());
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
            elsewhere: None,
        }
    }
}

/// Why an index is not used for a request.
#[derive(Debug)]
pub(super) struct Unused {
    /// The state.
    pub(super) standing: Standing,
    /// In words.
    pub(super) why: String,
    /// Whether there is no index of what is searched.
    pub(super) absent: bool,
}

impl Unused {
    /// A request that has no use for an index: nobody has looked whether it is that of the tree as it is
    /// (FR-LSI-SAFE-04).
    pub(super) fn unlooked(why: &str) -> Unused {
        Unused {
            standing: Standing::Uncertain(UncertainReason::OpenRequiresValidation),
            why: format!(
                "{why}; so the index was not compared with the tree, which is all that its state says: that is no reason \
                 to build it again"
            ),
            absent: false,
        }
    }

    /// A request with a key of its own, of which no index is ever made (FR-LSI-IDX-SCHED-03).
    pub(super) fn other_key(why: &str) -> Unused {
        Unused {
            standing: Standing::Absent,
            why: why.to_string(),
            absent: false,
        }
    }
}

impl From<Condition> for Unused {
    fn from(condition: Condition) -> Unused {
        Unused {
            standing: condition.standing(),
            why: condition.why().unwrap_or_default(),
            absent: condition == Condition::Absent,
        }
    }
}

/// Why nothing is left out although a plan was tested.
const EVERY_FILE: &str =
    "no file could be left out: each holds what the plan requires, or is never left out";
