//! The decision on one request: whether an index may exclude files from the search, and which
//! index.
//!
//! A search asks for one decision per request ([`Indexes::choose`]). Owns the order of the checks
//! and the time limit for them (`index_maint_budget_fraction`). The limit covers opening the index,
//! waiting for threads and processes that hold it, and comparing it with the tree. When the time is
//! over, the request is answered without the index.

use std::path::Path;
use std::sync::Arc;

use super::choice::IndexDecision;
use super::roots::{IndexRoot, Waits};
use super::searched_tree::SearchedTree;
use super::status::{self, Condition};
use super::{Indexes, Question};
use crate::exec::allowance::Allowance;
use crate::exec::catalog::comparing::{Refusal, TreeDifferences, may_wait};
use crate::exec::catalog::{CatalogSource, ChangeCheck, Scope};
use crate::exec::eligible::Globs;
use crate::exec::indexes::IndexUse;
use crate::exec::query::Fold;
use crate::exec::stop::{CancelHandle, Deadline, SystemClock};
use crate::format::error::FormatError;
use crate::index::live::{Pin, Pinned};
use crate::index::plan::SupersetSafe;
use crate::index::refresh::catch_up::CaughtUp;
use crate::index::snapshot::{Snapshot, Stale};
use crate::index::state::{IndexState, UncertainReason};
use crate::index::walk::{Follow, RuleSets, TraversalOptions};

/// The largest result limit that a few files with a frequent text can fill.
const FEW_RESULTS: usize = 1_000;

/// From this number of files on, querying the index takes longer than searching a few hundred
/// files.
const MANY_FILES: u32 = 8_192;

/// The share of files from which on a text counts as frequent.
const FREQUENT: f64 = 0.25;

const SOON_FULL: &str = "many files contain the text, and the search stops after few results";

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
    /// The maintenance budget.
    pub(crate) budget: &'a Deadline,
    /// Cancels the call that waits for the decision.
    pub(crate) cancel: &'a CancelHandle,
}

impl DecisionTime<'_> {
    /// Returns true while the budget lasts and the call is not cancelled.
    fn is_left(self) -> bool {
        !self.budget.remaining().is_zero() && !self.cancel.is_cancelled()
    }
}

impl Indexes {
    /// Decides whether an index serves a request that searches a directory. Opens the index on the
    /// first call.
    ///
    /// Unless the tree is frozen, this compares each directory of the catalog below the requested
    /// one with the tree, and the source examines each file before it skips that file. Waiting and
    /// comparing take no longer than [`Question::maintenance`].
    pub fn choose(&self, question: &Question) -> IndexDecision {
        let budget = Deadline::after(question.maintenance, Arc::new(SystemClock));
        let time = DecisionTime {
            budget: &budget,
            cancel: &CancelHandle::new(),
        };
        self.choose_within(question, &ComparisonMode::First, time)
    }

    /// Decides like [`Indexes::choose`], within an explicit time.
    pub(crate) fn choose_within(
        &self,
        question: &Question,
        comparing: &ComparisonMode,
        time: DecisionTime<'_>,
    ) -> IndexDecision {
        let root = self.containing(&question.target.canonical);
        let mut plan = None;
        let decided = match &root {
            None => Err(self.no_root()),
            Some(root) => self.decide(root, question, comparing, time, &mut plan),
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
        budget: Option<&Deadline>,
    ) -> IndexDecision {
        let root = self.containing(path);
        let root = root.as_deref();
        let unused = match root {
            None => self.no_root(),
            Some(root) => {
                let waits = budget.map_or_else(Waits::default, Waits::until);
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

    /// Returns the decision on a request whose maintenance budget ended before any other decision.
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
        question: &Question,
        comparing: &ComparisonMode,
        time: DecisionTime<'_>,
        kept_plan: &mut Option<SupersetSafe>,
    ) -> Result<CatalogSource, Condition> {
        let reach = &question.reach;
        let (asked, sets) = match question.by_index.is_ruled_out() {
            false => (question.traversal, question.traversal.rules.sets()),
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
        let waits = Waits::until(time.budget);
        let living = self.living_at(&root.path);
        let with_hidden = question.by_index.has_hidden();
        if living.is_none() && with_hidden {
            return Err(Condition::unchecked_condition(UNWATCHED));
        }
        if living.is_none() && question.by_index.needs_texts() {
            return Err(self.unchecked_condition(root, asked, waits, NO_DAEMON));
        }
        let opened = match living {
            Some(_) => self.check_options(root, asked).map(|()| None)?,
            None => Some(self.opened(root, asked, waits)?),
        };
        if !root.is_under(reach, asked.rules, question.global_excludes.as_deref()) {
            return Err(Condition::NotUsed {
                index_state: IndexState::Uncertain(UncertainReason::PolicyChanged),
                why: "the index was built with another sandbox or other global excludes"
                    .to_string(),
            });
        }
        if let Some(engine) = &self.listless {
            let why = format!(
                "the engine {engine} does not accept lists of files; set backend in [tools.search] \
                 to another engine"
            );
            return Err(self.unchecked_condition(root, asked, waits, &why));
        }
        let plan = kept_plan.insert(self.plan(question));
        if let Some(reason) = plan.reason()
            && !question.pins
        {
            return Err(self.unchecked_condition(root, asked, waits, &reason.to_string()));
        }
        let (Some((allowed, base)), Ok(path)) = (
            root.locate(reach),
            question.target.canonical.strip_prefix(&root.path),
        ) else {
            return Err(status::outside());
        };
        if !root.answers_for(path, reach) {
            return Err(Condition::other_key(BELOW_WITHHELD));
        }
        let scope = Scope {
            root: allowed,
            base,
            path: path.to_path_buf(),
            recursive: question.traversal.recursive,
            max_file_size: question.query.max_file_size,
            withholds: reach.withholds(),
            lists: question.lists,
            by_index: question.by_index,
            sets,
            max_depth: question.max_depth,
            words: question.words.clone(),
        };
        if let Some(living) = living.filter(|_| question.words.is_some()) {
            living.index.want_words();
        }
        let source = match (living, opened) {
            (Some(living), _) => match living.index.pin(time.budget.remaining()) {
                Pin {
                    what: Pinned::Exact(snapshot),
                    ..
                } => snapshot.segment().order(plan).and_then(|_| {
                    let source =
                        self.source(&snapshot, plan, scope, &question.globs, ChangeCheck::Linked)?;
                    match source {
                        Ok(source) if with_hidden => {
                            let go_on = || time.is_left();
                            let hidden =
                                living.index.hidden_files(&snapshot, path, sets, &go_on)?;
                            let hidden =
                                hidden.ok_or_else(|| Condition::unchecked_condition(HIDDEN));
                            Ok(hidden.map(|files| source.listing(&files)))
                        }
                        source => Ok(source),
                    }
                }),
                Pin {
                    what: Pinned::Unwatched(_),
                    ..
                } if with_hidden => {
                    return Err(Condition::unchecked_condition(UNWATCHED));
                }
                Pin {
                    what: Pinned::Unwatched(unwatched),
                    ..
                } => {
                    let snapshot = self.opened(root, asked, waits)?;
                    let mut outdated = false;
                    let ordered = snapshot.segment().order(plan);
                    let compared = ordered.and_then(|_| {
                        self.compared(root, question, &snapshot, plan, scope, time, &mut outdated)
                    });
                    living.index.report_comparison(&snapshot, outdated);
                    let unwatched = unwatched.filter(|_| outdated);
                    compared.map(|source| source.map_err(|stale| stale.unwatched(unwatched)))
                }
                Pin {
                    index_state,
                    what: Pinned::Nothing(why),
                } => {
                    return Err(Condition::NotUsed { index_state, why });
                }
            },
            (None, Some(snapshot)) => {
                let along = match (snapshot.segment().order(plan), comparing) {
                    (Err(error), _) => Err(error),
                    (Ok(share), _) if is_soon_full(question, &snapshot, share) => {
                        return Err(self.unchecked_condition(root, asked, waits, SOON_FULL));
                    }
                    (Ok(_), ComparisonMode::First) => Ok(None),
                    (Ok(_), ComparisonMode::Along(allowance)) => {
                        self.along(root, question, &snapshot, plan, &scope, allowance)
                    }
                };
                match along.transpose() {
                    Some(source) => source.map(Ok),
                    None => self.compared(root, question, &snapshot, plan, scope, time, &mut false),
                }
            }
            (None, None) => return Err(Condition::Absent),
        };
        match source {
            Ok(source) => source,
            Err(error) => {
                root.set_damaged(&error);
                if let Some(living) = living {
                    living.index.report_damage(&error);
                }
                Err(Condition::Damaged(error.to_string()))
            }
        }
    }

    /// Returns the plan that says which files the index can exclude for a request.
    fn plan(&self, question: &Question) -> SupersetSafe {
        let query = &question.query;
        let (hir, strategy) = (query.pattern.hir(), self.strategy);
        let fold = query.pattern.fold() != Fold::Sensitive;
        match query.fuzzy {
            None => SupersetSafe::for_expression(hir, fold, strategy),
            Some(fuzziness) => {
                let chars = query.pattern.original().chars().count();
                let edits = fuzziness.max_edits(chars).unwrap_or(u32::MAX);
                SupersetSafe::nearly(hir, fold, strategy, edits)
            }
        }
    }

    /// Compares the index with the tree, lists changed directories again, and builds the source of
    /// a request. Sets `outdated` if building the index again would help.
    #[allow(clippy::too_many_arguments)]
    fn compared(
        &self,
        root: &Arc<IndexRoot>,
        question: &Question,
        snapshot: &Arc<Snapshot>,
        plan: &SupersetSafe,
        scope: Scope,
        time: DecisionTime<'_>,
        outdated: &mut bool,
    ) -> Result<Result<CatalogSource, Condition>, FormatError> {
        let caught_up = match (snapshot.incomplete(), self.frozen) {
            (Some(stale), _) => CaughtUp::Unknown(stale),
            (None, true) => CaughtUp::Same,
            (None, false) => {
                let tree = SearchedTree::new(root, &question.reach, snapshot, &scope);
                tree.catch_up(&|| time.is_left())?
            }
        };
        let snapshot = match caught_up {
            CaughtUp::Same => snapshot.clone(),
            CaughtUp::Later(later) => {
                *outdated = true;
                Arc::new(*later)
            }
            CaughtUp::Unknown(stale) => {
                *outdated = match stale {
                    // The next build may be able to list everything.
                    Stale::Input(_) | Stale::Dir(_) | Stale::EnumerationErrors(_) => true,
                    Stale::Untimed(_) | Stale::Unprovable | Stale::Unfinished => false,
                };
                return Ok(Err(stale.into()));
            }
        };
        let look = match self.frozen {
            true => ChangeCheck::None,
            false => ChangeCheck::All,
        };
        self.source(&snapshot, plan, scope, &question.globs, look)
    }

    /// Builds a source that compares each directory when it reaches it. Returns `None` if
    /// everything has to be compared first.
    fn along(
        &self,
        root: &Arc<IndexRoot>,
        question: &Question,
        snapshot: &Arc<Snapshot>,
        plan: &SupersetSafe,
        scope: &Scope,
        allowance: &Arc<Allowance>,
    ) -> Result<Option<CatalogSource>, FormatError> {
        if self.frozen
            || scope.max_depth.is_some()
            || allowance.left().is_zero()
            || !may_wait(snapshot, scope)?
        {
            return Ok(None);
        }
        let tree = SearchedTree::new(root, &question.reach, snapshot, scope);
        let (snapshot, scope) = (snapshot.clone(), scope.clone());
        let (globs, allowance) = (question.globs.clone(), allowance.clone());
        CatalogSource::comparing_along(snapshot, scope, globs, plan, allowance, Box::new(tree))
    }

    /// Builds the source of a request whose plan excludes files.
    fn source(
        &self,
        snapshot: &Arc<Snapshot>,
        plan: &SupersetSafe,
        scope: Scope,
        globs: &Globs,
        look: ChangeCheck,
    ) -> Result<Result<CatalogSource, Condition>, FormatError> {
        let source = CatalogSource::new(snapshot.clone(), scope, globs.clone(), plan, look)?;
        Ok(source.ok_or_else(not_entered))
    }
}

/// Returns true if searching files in order finds enough results sooner than the index can exclude
/// files. For example, the first few hundred files of any source tree contain 200 lines with
/// `return`.
fn is_soon_full(question: &Question, snapshot: &Snapshot, share: f64) -> bool {
    !question.pins
        && question.query.max_results_per_file <= FEW_RESULTS
        && snapshot.segment().file_count() >= MANY_FILES
        && share >= FREQUENT
}

/// Returns the condition for a search of a directory that is not in the index.
fn not_entered() -> Condition {
    Condition::Stale {
        reason: UncertainReason::OpenRequiresValidation,
        why: "the index does not cover the directory: it is hidden, ignored or new".into(),
    }
}

/// The reason when the maintenance budget ended before any decision.
const UNDECIDED: &str = "the index could not be opened and compared with the tree";

/// Why no index of a parent directory serves a search below a directory with a denied name.
const BELOW_WITHHELD: &str = "the directory is inside a directory that the default denied patterns \
     name, so no index of a parent directory has its text";

/// Why an index is not used for a single file.
const A_FILE: &str = "the path is a file, which is always searched, with or without an index";

/// Why an index without a daemon does not list the files that are read as they are.
const NO_DAEMON: &str = "only a daemon knows which files are read as they are";

/// Why an index of a tree that is not watched does not list hidden files.
const UNWATCHED: &str = "only a daemon that watches the tree knows its hidden files";

/// Why the hidden files of a tree are not listed.
const HIDDEN: &str = "the hidden files could not be listed: they are too many, a hidden directory \
     has its own ignore rules or can't be read, or the time was over";

/// Why the index of a root does not serve requests with other traversal options.
const OTHER_OPTIONS: &str = "the options hidden, follow and no_ignore differ from those of the \
     index, which are index_default_hidden, index_default_follow and index_default_no_ignore in \
     [tools.search]";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_decision_goes_on_until_its_budget_ends_or_the_call_is_cancelled() {
        let after = |time| Deadline::after(time, Arc::new(SystemClock));
        let (long, over) = (after(Duration::MAX), after(Duration::ZERO));
        let cancel = CancelHandle::new();
        let within = |budget| DecisionTime {
            budget,
            cancel: &cancel,
        };
        assert!(within(&long).is_left());
        assert!(!within(&over).is_left());
        cancel.cancel();
        assert!(!within(&long).is_left());
    }
}
