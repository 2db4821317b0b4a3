//! What an index does for one request, and how that is explained.
//!
//! Owns the outcome of the decision, and everything about it that only people who ask for an explanation want to
//! know: none of that is worked out for a search. How the decision is made is not its business.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::BuildReport;
use super::elsewhere::Elsewhere;
use super::status::Condition;
use crate::exec::catalog::CatalogSource;
use crate::index::plan::{PlanDescription, SupersetSafe};
use crate::index::state::Standing;

/// What an index had to do with an answer: the facts that the diagnostics of an answer are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexUse {
    /// The state of the index, with its reason.
    pub standing: Standing,
    /// Whether it was used to leave files out, even if in the end there were none.
    pub exclusion_used: bool,
    /// Where it is kept.
    pub storage_mode: String,
    /// Why it is kept elsewhere than configured.
    pub storage_fallback_reason: Option<String>,
    /// The part of the call's time that went into opening it, waiting for it, and comparing it or
    /// bringing it up to date.
    pub spent: Duration,
    /// How far its build is, while one runs in this process.
    pub build: Option<BuildReport>,
}

impl IndexUse {
    /// The facts of a search without an index.
    pub fn not_used() -> IndexUse {
        IndexUse {
            standing: Standing::Disabled(None),
            exclusion_used: false,
            storage_mode: "none".to_string(),
            storage_fallback_reason: None,
            spent: Duration::ZERO,
            build: None,
        }
    }
}

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
        unused: Option<Condition>,
    ) -> Choice {
        Choice {
            source,
            index,
            root,
            plan,
            absent: unused.as_ref().is_some_and(Condition::is_absent),
            reason: unused.and_then(|unused| unused.why()),
        }
    }

    /// Returns true if there is no index of what the request searches, so that one of another root may be meant.
    pub fn is_absent(&self) -> bool {
        self.absent
    }

    /// Explains the choice. Takes time in proportion to the files in scope, which a search does not need.
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
            elsewhere: None,
        }
    }
}

/// Why nothing is left out although a plan was tested.
const EVERY_FILE: &str =
    "no file could be left out: each holds what the plan requires, or is never left out";
