//! The decision on one [`IndexRequest`]: whether an index may exclude files from the search, and
//! which index.
//!
//! A search asks for one decision for each searched directory (`Indexes::choose_within`). An
//! explanation asks with [`Indexes::choose`]. This module owns the order of the checks and the time
//! limit for them (`index_maint_budget_fraction`). The limit covers opening the index, waiting for
//! threads and processes that hold it, and comparing it with the tree. When the time is over, the
//! request is answered without the index.

mod sources;

use std::path::Path;
use std::sync::Arc;

use self::sources::{NoSource, RequestBelowRoot, RootIndex};
use super::choice::IndexDecision;
use super::roots::{IndexRoot, Waits};
use super::status::{self, Condition};
use super::{IndexRequest, Indexes};
use crate::exec::indexes::IndexUse;
use crate::exec::sources::catalog::CatalogSource;
use crate::exec::sources::catalog::comparing::Refusal;
use crate::exec::stop::allowance::Allowance;
use crate::exec::stop::{CancelHandle, Deadline, SystemClock};
use crate::index::plan::SupersetSafe;
use crate::index::snapshot::Snapshot;
use crate::index::state::{IndexState, UncertainReason};
use crate::index::walk::{Follow, RuleSets, TraversalOptions};

/// When the directories of a tree without a watcher are compared with the index.
#[derive(Clone, Debug)]
pub(crate) enum ComparisonMode {
    /// All directories are compared before the decision, which then holds for the whole search.
    First,
    /// Each directory is compared just before the source returns its files, within this time. If a
    /// comparison fails, the source stops early ([`CatalogSource::refusal`]).
    Along(Arc<Allowance>),
}

/// The time that a decision may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecisionTime<'a> {
    /// When the maintenance allowance ends.
    pub(crate) deadline: &'a Deadline,
    /// Cancels the call that waits for the decision.
    pub(crate) cancel: &'a CancelHandle,
}

impl DecisionTime<'_> {
    /// Returns true while the allowance lasts and the call is not cancelled.
    fn is_left(self) -> bool {
        !self.deadline.remaining().is_zero() && !self.cancel.is_cancelled()
    }
}

impl Indexes {
    /// Decides whether an index serves a request that searches a directory. Opens the index on the
    /// first call.
    ///
    /// Unless the tree is frozen, this compares each directory of the catalog below the requested
    /// one with the tree, and the source examines each file before it skips that file. Waiting and
    /// comparing take no longer than [`IndexRequest::maintenance`].
    pub fn choose(&self, request: &IndexRequest) -> IndexDecision {
        let deadline = Deadline::after(request.maintenance, Arc::new(SystemClock));
        let time = DecisionTime {
            deadline: &deadline,
            cancel: &CancelHandle::new(),
        };
        self.choose_within(request, &ComparisonMode::First, time)
    }

    /// Decides like [`Indexes::choose`], within an explicit time.
    pub(crate) fn choose_within(
        &self,
        request: &IndexRequest,
        comparing: &ComparisonMode,
        time: DecisionTime<'_>,
    ) -> IndexDecision {
        let root = self.containing(&request.target.canonical);
        let mut plan = None;
        let decided = match &root {
            None => Err(self.no_root()),
            Some(root) => self.decide(root, request, comparing, time, &mut plan),
        };
        self.choice(root.as_deref(), plan, decided)
    }

    /// Returns the index facts for a search whose source stopped early with `refusal`. After that
    /// point the search did not use the index to skip files.
    pub(crate) fn refused(&self, path: &Path, refusal: &Refusal) -> IndexUse {
        let condition = match refusal {
            Refusal::Stale(stale) => Condition::from(stale.clone()),
            Refusal::NotEntered => not_entered(),
        };
        let root = self.containing(path);
        let root = root.as_deref().map(|root| &*root.path);
        self.index_use(root, condition.index_state(), false)
    }

    /// Describes the index for a request that searches a single file. No index skips a file that
    /// the request names. Opens the index on the first call, and does not examine the tree.
    pub fn choose_for_file(&self, path: &Path, asked: TraversalOptions) -> IndexDecision {
        self.describe_for_file(path, asked, None)
    }

    /// Describes the index like [`Indexes::choose_for_file`], with a deadline.
    pub(crate) fn describe_for_file(
        &self,
        path: &Path,
        asked: TraversalOptions,
        deadline: Option<&Deadline>,
    ) -> IndexDecision {
        let root = self.containing(path);
        let root = root.as_deref();
        let unused = match root {
            None => self.no_root(),
            Some(root) => {
                let waits = deadline.map_or_else(Waits::default, Waits::until);
                self.unchecked_condition(root, asked, waits, A_FILE)
            }
        };
        self.choice(root, None, Err(unused.not_used(A_FILE)))
    }

    /// Returns the index facts for a request whose time ended before the decision.
    pub fn not_chosen(&self) -> IndexUse {
        let unused = self.placeless();
        let unused = unused.unwrap_or_else(|| Condition::unchecked_condition(""));
        self.index_use(None, unused.index_state(), false)
    }

    /// Returns the decision on a request whose maintenance allowance ended before any other
    /// decision.
    pub(crate) fn out_of_time(&self, path: &Path) -> IndexDecision {
        let unused = Condition::out_of_time(UNDECIDED);
        self.choice(self.containing(path).as_deref(), None, Err(unused))
    }

    fn choice(
        &self,
        root: Option<&IndexRoot>,
        plan: Option<SupersetSafe>,
        decided: Result<CatalogSource, Condition>,
    ) -> IndexDecision {
        let path = root.map(|root| &*root.path);
        let root = path.map(Path::to_path_buf);
        match decided {
            Ok(source) => {
                let index = self.index_use(path, IndexState::Complete, true);
                IndexDecision::new(Some(source), index, root, plan, None)
            }
            Err(unused) => {
                let index = self.index_use(path, unused.index_state(), false);
                IndexDecision::new(None, index, root, plan, Some(unused))
            }
        }
    }

    fn no_root(&self) -> Condition {
        let mut why = "no index root contains the path".to_string();
        let rejected = self.rejected.iter();
        rejected.for_each(|rejected| why.push_str(&format!("; {rejected}")));
        Condition::NoRoot(why)
    }

    /// Checks whether the index of a root serves requests with these traversal options,
    /// independently of its state.
    fn check_options(&self, root: &IndexRoot, asked: TraversalOptions) -> Result<(), Condition> {
        if let Some(condition) = self.placeless() {
            return Err(condition);
        }
        let own = root.traversal;
        let is_asked_of = (asked.hidden, asked.follow) == (own.hidden, own.follow);
        if !(is_asked_of && own.rules.serve(asked.rules)) {
            return Err(Condition::other_key(match own.follow != Follow::Never {
                true => status::UNTRACKED,
                false => OTHER_OPTIONS,
            }));
        }
        Ok(())
    }

    /// Opens the index of a root for a request with these options, or returns why no such request
    /// can use the index.
    fn opened(
        &self,
        root: &IndexRoot,
        asked: TraversalOptions,
        waits: Waits<'_>,
    ) -> Result<Arc<Snapshot>, Condition> {
        self.check_options(root, asked)?;
        let own = root.traversal;
        let snapshot = self.open(root, waits)?;
        match own.follow != Follow::Never && snapshot.incomplete().is_none() {
            true => Err(Condition::Untracked),
            false => Ok(snapshot),
        }
    }

    /// Describes the index of a root for a request that does not use it. Does not compare the index
    /// with the tree.
    fn unchecked_condition(
        &self,
        root: &IndexRoot,
        asked: TraversalOptions,
        waits: Waits<'_>,
        why: &str,
    ) -> Condition {
        if let Some(living) = self.living_at(&root.path) {
            if let Err(unused) = self.check_options(root, asked) {
                return unused;
            }
            return Condition::NotUsed {
                index_state: living.index.report().index_state,
                why: why.to_string(),
            };
        }
        let snapshot = match self.opened(root, asked, waits) {
            Ok(snapshot) => snapshot,
            Err(unused) => return unused,
        };
        match (snapshot.incomplete(), self.frozen) {
            (Some(stale), _) => Condition::from(stale).not_used(why),
            (None, true) => Condition::Usable.not_used(why),
            (None, false) => Condition::unchecked_condition(why),
        }
    }

    /// Builds the file source of a request below a root, or returns why all files have to be
    /// searched. `kept_plan` receives the plan if one was made.
    fn decide(
        &self,
        root: &Arc<IndexRoot>,
        request: &IndexRequest,
        comparing: &ComparisonMode,
        time: DecisionTime<'_>,
        kept_plan: &mut Option<SupersetSafe>,
    ) -> Result<CatalogSource, Condition> {
        let (asked, sets) = match request.by_index.is_ruled_out() {
            false => (request.traversal, request.traversal.rules.sets()),
            // A file that the index rules out stays ruled out under any options.
            true => {
                let own = TraversalOptions {
                    follow: Follow::Never,
                    recursive: true,
                    ..root.traversal
                };
                (own, RuleSets::NONE)
            }
        };
        let below = RequestBelowRoot {
            indexes: self,
            root,
            request,
            time,
            asked,
        };
        let index = below.index()?;
        below.check_settings()?;
        let plan = kept_plan.insert(request.query.superset(self.strategy));
        if let Some(reason) = plan.reason()
            && !request.pins
        {
            return Err(below.not_used(&reason.to_string()));
        }
        let part = below.part(sets)?;
        let source = match index {
            RootIndex::Live(live) => below.live_source(live, comparing, plan, part),
            RootIndex::Stored(snapshot) => below.stored_source(&snapshot, comparing, plan, part),
        };
        source.map_err(|error| match error {
            NoSource::Unused(condition) => condition,
            NoSource::Unreadable(error) => {
                self.set_damaged(root, &error);
                Condition::Damaged(error.to_string())
            }
        })
    }
}

/// Returns the condition for a search of a directory that is not in the index.
fn not_entered() -> Condition {
    Condition::Stale {
        reason: UncertainReason::OpenRequiresValidation,
        why: "the index does not cover the directory: it is hidden, ignored or new".into(),
    }
}

/// The reason when the maintenance allowance ended before any decision.
const UNDECIDED: &str = "the index could not be opened and compared with the tree";

/// Why an index is not used for a single file.
const A_FILE: &str = "the path is a file, which is always searched, with or without an index";

/// Why the index of a root does not serve requests with other traversal options.
const OTHER_OPTIONS: &str = "the options hidden, follow and no_ignore differ from those of the \
     index, which are index_default_hidden, index_default_follow and index_default_no_ignore in \
     [tools.search]";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_decision_goes_on_until_its_deadline_or_the_call_is_cancelled() {
        let after = |time| Deadline::after(time, Arc::new(SystemClock));
        let (long, over) = (after(Duration::MAX), after(Duration::ZERO));
        let cancel = CancelHandle::new();
        let within = |deadline| DecisionTime {
            deadline,
            cancel: &cancel,
        };
        assert!(within(&long).is_left());
        assert!(!within(&over).is_left());
        cancel.cancel();
        assert!(!within(&long).is_left());
    }
}
