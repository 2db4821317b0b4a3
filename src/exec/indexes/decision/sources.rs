//! The file source of one request: from the live index of its root, or from the stored one.
//!
//! `Indexes::choose_within` calls these steps in order: [`RequestBelowRoot::index`],
//! [`RequestBelowRoot::check_settings`], [`RequestBelowRoot::part`], and then the step of the kind
//! of index. Each step can find that the index does not serve the request.

use std::sync::Arc;

use super::{ComparisonMode, DecisionTime, Indexes, not_entered};
use crate::exec::indexes::IndexRequest;
use crate::exec::indexes::live_root::LiveRoot;
use crate::exec::indexes::roots::{IndexRoot, Waits};
use crate::exec::indexes::searched_tree::SearchedTree;
use crate::exec::indexes::status::{self, Condition};
use crate::exec::sources::catalog::comparing::{TreeDifferences, may_wait};
use crate::exec::sources::catalog::{CatalogSource, ChangeCheck, RequestedPart};
use crate::exec::stop::allowance::Allowance;
use crate::format::error::FormatError;
use crate::index::live::{Pin, Pinned};
use crate::index::plan::SupersetSafe;
use crate::index::refresh::catch_up::CaughtUp;
use crate::index::snapshot::{Snapshot, Stale};
use crate::index::state::{IndexState, UncertainReason};
use crate::index::walk::{RuleSets, TraversalOptions};

/// The largest result limit that a few files with a frequent text can fill.
const FEW_RESULTS: usize = 1_000;

/// From this number of files on, querying the index takes longer than searching a few hundred
/// files.
const MANY_FILES: u32 = 8_192;

/// The share of files from which on a text counts as frequent.
const FREQUENT: f64 = 0.25;

const SOON_FULL: &str = "many files contain the text, and the search stops after few results";

/// A request that searches a directory of an index root.
#[derive(Clone, Copy)]
pub(super) struct RequestBelowRoot<'a> {
    pub(super) indexes: &'a Indexes,
    pub(super) root: &'a Arc<IndexRoot>,
    pub(super) request: &'a IndexRequest,
    pub(super) time: DecisionTime<'a>,
    /// The traversal options that the index has to serve.
    pub(super) asked: TraversalOptions,
}

/// The index of a root.
pub(super) enum RootIndex<'a> {
    /// The index that this process keeps up to date.
    Live(&'a LiveRoot),
    /// The index that was stored at the end of its last build or update.
    Stored(Arc<Snapshot>),
}

/// Why a request gets no source.
pub(super) enum NoSource {
    /// The index does not serve the request.
    Unused(Condition),
    /// The index can't be read.
    Unreadable(FormatError),
}

impl From<Condition> for NoSource {
    fn from(condition: Condition) -> NoSource {
        NoSource::Unused(condition)
    }
}

impl From<FormatError> for NoSource {
    fn from(error: FormatError) -> NoSource {
        NoSource::Unreadable(error)
    }
}

impl<'a> RequestBelowRoot<'a> {
    /// Returns the condition of the index for this request, which does not use it.
    pub(super) fn not_used(&self, why: &str) -> Condition {
        self.indexes
            .unchecked_condition(self.root, self.asked, self.waits(), why)
    }

    fn waits(&self) -> Waits<'a> {
        Waits::until(self.time.deadline)
    }

    fn opened(&self) -> Result<Arc<Snapshot>, Condition> {
        self.indexes.opened(self.root, self.asked, self.waits())
    }

    /// Returns the index of the root if it has the files that the request lists, by its traversal
    /// options. Opens a stored index.
    pub(super) fn index(&self) -> Result<RootIndex<'a>, Condition> {
        let by_index = self.request.by_index;
        match self.indexes.living_at(&self.root.path) {
            Some(live) => {
                self.indexes.check_options(self.root, self.asked)?;
                Ok(RootIndex::Live(live))
            }
            None if by_index.has_hidden() => Err(Condition::unchecked_condition(UNWATCHED)),
            None if by_index.needs_texts() => Err(self.not_used(NO_DAEMON)),
            None => Ok(RootIndex::Stored(self.opened()?)),
        }
    }

    /// Checks that the index was built with the sandbox and the global excludes of the request, and
    /// that the engine accepts lists of files.
    pub(super) fn check_settings(&self) -> Result<(), Condition> {
        let (request, rules) = (self.request, self.asked.rules);
        let excludes = request.global_excludes.as_deref();
        if !self.root.is_under(&request.reach, rules, excludes) {
            return Err(Condition::NotUsed {
                index_state: IndexState::Uncertain(UncertainReason::PolicyChanged),
                why: "the index was built with another sandbox or other global excludes"
                    .to_string(),
            });
        }
        match &self.indexes.listless {
            None => Ok(()),
            Some(engine) => Err(self.not_used(&format!(
                "the engine {engine} does not accept lists of files; set backend in [tools.search] \
                 to another engine"
            ))),
        }
    }

    /// Returns the part of the catalog that the request is about. `sets` are the rule sets by which
    /// its files are eligible.
    pub(super) fn part(&self, sets: RuleSets) -> Result<RequestedPart, Condition> {
        let request = self.request;
        let reach = &request.reach;
        let (Some((allowed, base)), Ok(path)) = (
            self.root.locate(reach),
            request.target.canonical.strip_prefix(&self.root.path),
        ) else {
            return Err(status::outside());
        };
        if !self.root.answers_for(path, reach) {
            return Err(Condition::other_key(BELOW_WITHHELD));
        }
        Ok(RequestedPart {
            root: allowed,
            base,
            path: path.to_path_buf(),
            recursive: request.traversal.recursive,
            max_file_size: request.query.max_file_size,
            withholds: reach.withholds(),
            lists: request.lists,
            by_index: request.by_index,
            sets,
            max_depth: request.max_depth,
            words: request.words.clone(),
        })
    }

    /// Builds the source from the live index. If the tree is not watched, the stored index is
    /// compared with the tree.
    pub(super) fn live_source(
        &self,
        live: &LiveRoot,
        comparing: &ComparisonMode,
        plan: &mut SupersetSafe,
        part: RequestedPart,
    ) -> Result<CatalogSource, NoSource> {
        let with_hidden = self.request.by_index.has_hidden();
        if part.words.is_some() {
            live.index.want_words();
        }
        let Pin { index_state, what } = live.index.pin(self.time.deadline.remaining());
        match what {
            Pinned::Exact(snapshot) => {
                snapshot.segment().order(plan)?;
                let (path, sets) = (part.path.clone(), part.sets);
                let source = self.source(&snapshot, plan, part, ChangeCheck::Linked)?;
                if !with_hidden {
                    return Ok(source);
                }
                let go_on = || self.time.is_left();
                let hidden = live.index.hidden_files(&snapshot, &path, sets, &go_on)?;
                let hidden = hidden.ok_or_else(|| Condition::unchecked_condition(HIDDEN))?;
                Ok(source.listing(&hidden))
            }
            Pinned::Unwatched(_) | Pinned::NotYetWatched if with_hidden => {
                Err(Condition::unchecked_condition(UNWATCHED).into())
            }
            Pinned::NotYetWatched => {
                let snapshot = self.opened()?;
                live.index.report_opened(&snapshot, None);
                self.stored_source(&snapshot, comparing, plan, part)
            }
            Pinned::Unwatched(unwatched) => {
                let snapshot = self.opened()?;
                let mut outdated = false;
                let source = match snapshot.segment().order(plan) {
                    Ok(_) => self.compared(&snapshot, plan, part, &mut outdated),
                    Err(error) => Err(error.into()),
                };
                live.index.report_opened(&snapshot, Some(outdated));
                let unwatched = unwatched.filter(|_| outdated);
                source.map_err(|error| match error {
                    NoSource::Unused(stale) => stale.unwatched(unwatched).into(),
                    unreadable @ NoSource::Unreadable(_) => unreadable,
                })
            }
            Pinned::Nothing(why) => Err(Condition::NotUsed { index_state, why }.into()),
        }
    }

    /// Builds the source from the stored index, which is compared with the tree before the search
    /// or along with it.
    pub(super) fn stored_source(
        &self,
        snapshot: &Arc<Snapshot>,
        comparing: &ComparisonMode,
        plan: &mut SupersetSafe,
        part: RequestedPart,
    ) -> Result<CatalogSource, NoSource> {
        let share = snapshot.segment().order(plan)?;
        if self.is_soon_full(snapshot, share) {
            return Err(self.not_used(SOON_FULL).into());
        }
        let along = match comparing {
            ComparisonMode::First => None,
            ComparisonMode::Along(allowance) => self.along(snapshot, plan, &part, allowance)?,
        };
        match along {
            Some(source) => Ok(source),
            None => self.compared(snapshot, plan, part, &mut false),
        }
    }

    /// Returns true if searching files in order finds enough results sooner than the index can
    /// exclude files. For example, the first few hundred files of any source tree contain 200 lines
    /// with `return`. `share` is the share of the files that contain the text.
    fn is_soon_full(&self, snapshot: &Snapshot, share: f64) -> bool {
        !self.request.pins
            && self.request.query.max_results_per_file() <= FEW_RESULTS
            && snapshot.segment().file_count() >= MANY_FILES
            && share >= FREQUENT
    }

    /// Compares the index with the tree, lists changed directories again, and builds the source.
    /// Sets `outdated` if building the index again would help.
    fn compared(
        &self,
        snapshot: &Arc<Snapshot>,
        plan: &SupersetSafe,
        part: RequestedPart,
        outdated: &mut bool,
    ) -> Result<CatalogSource, NoSource> {
        let frozen = self.indexes.frozen;
        let caught_up = match (snapshot.incomplete(), frozen) {
            (Some(stale), _) => CaughtUp::Unknown(stale),
            (None, true) => CaughtUp::Same,
            (None, false) => self
                .searched_tree(snapshot, &part)
                .catch_up(&|| self.time.is_left())?,
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
                return Err(Condition::from(stale).into());
            }
        };
        let look = match frozen {
            true => ChangeCheck::None,
            false => ChangeCheck::All,
        };
        self.source(&snapshot, plan, part, look)
    }

    /// Builds a source that compares each directory when it reaches it. Returns `None` if
    /// everything has to be compared first.
    fn along(
        &self,
        snapshot: &Arc<Snapshot>,
        plan: &SupersetSafe,
        part: &RequestedPart,
        allowance: &Arc<Allowance>,
    ) -> Result<Option<CatalogSource>, FormatError> {
        if self.indexes.frozen
            || part.max_depth.is_some()
            || allowance.left().is_zero()
            || !may_wait(snapshot, part)?
        {
            return Ok(None);
        }
        let tree = self.searched_tree(snapshot, part);
        let (snapshot, part) = (snapshot.clone(), part.clone());
        let (globs, allowance) = (self.request.globs.clone(), allowance.clone());
        CatalogSource::comparing_along(snapshot, part, globs, plan, allowance, Box::new(tree))
    }

    fn searched_tree(&self, snapshot: &Arc<Snapshot>, part: &RequestedPart) -> SearchedTree {
        SearchedTree::new(self.root, &self.request.reach, snapshot, part)
    }

    /// Builds the source, from which the plan excludes files.
    fn source(
        &self,
        snapshot: &Arc<Snapshot>,
        plan: &SupersetSafe,
        part: RequestedPart,
        look: ChangeCheck,
    ) -> Result<CatalogSource, NoSource> {
        let globs = self.request.globs.clone();
        let source = CatalogSource::new(snapshot.clone(), part, globs, plan, look)?;
        source.ok_or_else(|| not_entered().into())
    }
}

/// Why no index of a parent directory serves a search below a directory with a denied name.
const BELOW_WITHHELD: &str = "the directory is inside a directory that the default denied patterns \
     name, so no index of a parent directory has its text";

/// Why an index without a daemon does not list the files that are read as they are.
const NO_DAEMON: &str = "only a daemon knows which files are read as they are";

/// Why an index of a tree that is not watched does not list hidden files.
const UNWATCHED: &str = "only a daemon that watches the tree knows its hidden files";

/// Why the hidden files of a tree are not listed.
const HIDDEN: &str = "the hidden files could not be listed: they are too many, a hidden directory \
     has its own ignore rules or can't be read, or the time was over";
