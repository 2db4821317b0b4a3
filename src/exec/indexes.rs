//! The indexes that searches can use: opening them, keeping them up to date, and deciding on each
//! request whether one serves it.
//!
//! [`Indexes`] has one index for each root. [`Indexes::choose`] decides about a request in four
//! steps: find the root, open its index, compare it with the tree (or pin the state that a watcher
//! keeps up to date), and make a plan of what it can exclude. In doubt the request is answered
//! without an index.
//!
//! This module reads no configuration: [`Settings`] and [`LiveSettings`] say all that it needs.

pub(crate) mod access;
mod choice;
mod decision;
mod elsewhere;
pub(crate) mod host;
mod keeping;
mod living;
mod notice;
mod place;
mod roots;
mod status;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::exec::eligible::Globs;
use crate::exec::query::Query;
use crate::exec::reach::{Reach, Resolved};
use crate::exec::stop::Deadline;
use crate::format::error::FormatError;
use crate::index::builder::{BuildError, BuildHost, BuildOptions, Built};
use crate::index::handles::Handles;
use crate::index::plan::Strategy;
use crate::index::snapshot::StorageMode;
use crate::index::state::UncertainReason;
use crate::index::store::Store;
use crate::index::walk::{Follow, TraversalOptions};

pub use crate::index::builder::Phase;
pub use crate::index::live::Report;
pub use crate::index::pace::RunningSearch;
pub use crate::index::snapshot::Snapshot;
pub use crate::index::state::Standing;
pub use choice::{Choice, Explanation, IndexUse};
pub(crate) use decision::Comparing;
pub use elsewhere::Elsewhere;
pub use host::{
    Background, BuildMonitor, BuildReport, Foreground, WallClock, monotonic, wall_clock_ns,
};
pub use living::{LiveSettings, Surroundings};
pub use notice::LivingIndex;
pub use place::{Fallback, Place};
pub use status::{Condition, Contents, OUT_OF_RANGE, RootStatus};

use keeping::{Keeping, is_listable};
use living::Living;
use roots::{IndexRoot, RootKeys, Waits};

/// The indexes of one set of roots.
#[derive(Debug)]
pub struct Indexes {
    strategy: Strategy,
    frozen: bool,
    keeping: Arc<Keeping>,
    roots: Vec<Arc<IndexRoot>>,
    /// What the keys of all roots have in common.
    keys: RootKeys,
    /// Other directories that were looked at for an index, where those count.
    found: Option<Mutex<BTreeMap<PathBuf, Arc<IndexRoot>>>>,
    /// The indexes that live, if any do.
    living: OnceLock<Vec<Living>>,
    /// An engine that can't be given lists of files, so that nothing can be left out (FR-LSI-BE-CAP-02).
    listless: Option<String>,
    /// Configured roots that can't be indexed, and why.
    rejected: Vec<String>,
}

/// A request for a directory, as far as an index decides about it.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is searched for.
    pub query: Arc<Query>,
    /// Which files are eligible.
    pub traversal: TraversalOptions,
    /// The most components of a file's path below the directory, if there is a limit.
    pub max_depth: Option<usize>,
    /// The directory.
    pub target: Resolved,
    /// The globs that files have to satisfy.
    pub globs: Globs,
    /// The directories that may be read, and the denied names.
    pub reach: Arc<Reach>,
    /// Git's global excludes file, if it counts.
    pub global_excludes: Option<PathBuf>,
    /// How long the call may spend on its index (`index_maint_budget_fraction`): on waiting for
    /// others that open or lock it, and on bringing it up to date or comparing it with the tree.
    pub maintenance: Duration,
    /// Whether the snapshot is wanted although nothing can be left out by it.
    pub pins: bool,
}

/// What indexes are made of, and for. All of it belongs to the key of an index, or says where the index
/// is kept and how it is built.
#[derive(Debug)]
pub struct Settings {
    /// Canonical paths of the directories that are indexed, deepest first.
    pub roots: Vec<PathBuf>,
    /// Why other directories that were to be indexed are not, one sentence each.
    pub rejected: Vec<String>,
    /// Which files are indexed.
    pub traversal: TraversalOptions,
    /// The names of the engines, joined by `+`.
    pub backend: String,
    /// The name of an engine that can't be given lists of files: then nothing can be left out
    /// (FR-LSI-BE-CAP-02).
    pub listless: Option<String>,
    /// How much of a regular expression a plan considers.
    pub strategy: Strategy,
    /// Whether the trees are known not to change, so that they are never compared.
    pub frozen: bool,
    /// How an index is built.
    pub build: BuildOptions,
    /// The allowed roots and denied patterns by which indexes are built.
    pub reach: Arc<Reach>,
    /// Git's global excludes file, if it counts.
    pub global_excludes: Option<PathBuf>,
    /// The rights of this process, as text.
    pub access: String,
    /// Where indexes are kept.
    pub place: Place,
    /// Counts the segments that are open.
    pub handles: Handles,
}

impl Indexes {
    /// Sets up indexes; opens none of them yet.
    pub fn of(settings: Settings) -> Indexes {
        let keys = RootKeys {
            traversal: settings.traversal,
            backend: settings.backend,
            max_tokenized_bytes: settings.build.max_tokenized_bytes,
            bloom: settings.build.params,
            deny: settings.reach.key_patterns(),
            global_excludes: settings.global_excludes,
            access: settings.access,
        };
        let roots = settings.roots.into_iter();
        Indexes {
            strategy: settings.strategy,
            frozen: settings.frozen,
            keeping: Arc::new(Keeping::new(
                settings.place,
                settings.build,
                settings.handles,
            )),
            roots: roots.map(|path| Arc::new(keys.root(path))).collect(),
            keys,
            found: None,
            living: OnceLock::new(),
            listless: settings.listless,
            rejected: settings.rejected,
        }
    }

    /// Returns the store, where indexes are kept in files.
    pub fn store(&self) -> Option<&Store> {
        self.keeping.store()
    }

    /// Makes the directory in which indexes are kept, where there is none, as building one does: only then is it
    /// certain that it will do. If it does not, indexes are in memory from now on.
    pub fn make_place(&self) {
        self.keeping.make_place();
    }

    /// Returns how many segments are open, of all indexes that were set up with the same places and caches (`IPC.MUST.005`).
    pub fn open_segments(&self) -> usize {
        self.keeping.handles().open()
    }

    /// Returns where indexes are kept, wherever they were configured to be.
    pub fn storage(&self) -> StorageMode {
        self.keeping.storage()
    }

    /// Returns the directories that hold the indexes of the roots, or would, where they are kept in files.
    pub fn dirs(&self) -> impl Iterator<Item = PathBuf> {
        let dir = |root: &Arc<IndexRoot>| Some(self.store()?.dir_of(root.key.parts()));
        self.roots.iter().filter_map(dir)
    }

    /// Returns why indexes are not kept where they were configured to be: in memory instead
    /// (FR-LSI-STOR-FALLBACK-01), or not at all.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.keeping.fallback()
    }

    /// Says why those indexes that are kept can be used but not brought up to date, and what to do; `None` if they can, or if none is
    /// kept. What has changed in a tree since is compared by each search then.
    pub fn unwritable(&self) -> Option<String> {
        let error = self.store()?.check_writable().err()?;
        Some(format!(
            "{error}; so no index there can be built or brought up to date. Make it writable, or set index_path in \
             [tools.search] to a directory that is"
        ))
    }

    /// Returns why other users may be able to read the indexes that are kept, as
    /// `index_allow_insecure_persistence` allows; `None` if they are not.
    pub fn exposed(&self) -> Option<String> {
        self.keeping.exposed()
    }

    /// Returns why an index would end with this process, and what to do; `None` if it is kept.
    pub fn unkept(&self) -> Option<String> {
        match (self.store(), self.fallback()) {
            (Some(_), _) => None,
            (None, Some(fallback)) => Some(fallback.message.clone()),
            (None, None) => {
                Some("index_storage = \"memory\"; set it to \"mmap\" in [tools.search]".to_string())
            }
        }
    }

    /// Returns the index roots, deepest first.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Returns why no index that is built leaves out anything, and what to do; `None` if that is not so.
    pub fn untracked(&self) -> Option<&'static str> {
        let follow = self
            .roots
            .iter()
            .any(|root| root.traversal.follow != Follow::Never);
        follow.then_some(status::UNTRACKED)
    }

    /// Returns what is wrong with configured roots (FR-LSI-IDX-ROOT-01).
    pub fn rejected(&self) -> &[String] {
        &self.rejected
    }

    /// Returns the index root that a search of a canonical path uses: the deepest one that contains it
    /// (FR-LSI-IDX-ROOT-02).
    pub fn root_for(&self, path: &Path) -> Option<PathBuf> {
        self.containing(path).map(|root| root.path.clone())
    }

    /// Returns true if nothing has to be opened before a request for a path can be answered; opening can take as long as
    /// reading the whole index.
    pub fn is_opened(&self, path: &Path) -> bool {
        let root = self.containing(path);
        root.is_none_or(|root| self.living_at(&root.path).is_none() && root.is_known(self.store()))
    }

    /// Notes that the index that a request used is damaged: it is not used again before it was built anew.
    pub fn report_damage(&self, path: &Path, error: &FormatError) -> IndexUse {
        if let Some(root) = self.containing(path) {
            root.set_damaged(error);
            if let Some(living) = self.living_at(&root.path) {
                living.index.report_damage(error);
            }
        }
        self.facts(None, Standing::Corrupt, false)
    }

    /// Notes that a search runs, until the value is dropped: indexes that live hold back meanwhile.
    pub(crate) fn searching(&self) -> Option<RunningSearch> {
        let living = self.living.get()?.first()?;
        Some(living.activity.begin())
    }

    /// Lets searches use the index of any directory that contains what they search. For example, a
    /// search in `project/src` uses the index of `project`. Nothing is built for such a directory.
    #[cfg(feature = "cli")]
    #[must_use]
    pub(crate) fn finding_roots(self) -> Indexes {
        Indexes {
            found: Some(Mutex::default()),
            ..self
        }
    }

    /// Returns the deepest root that contains a canonical path (FR-LSI-IDX-ROOT-02). Where roots are
    /// found, that is the deepest with an index, unless one of the others lives in this process.
    fn containing(&self, path: &Path) -> Option<Arc<IndexRoot>> {
        let own = self.roots.iter().find(|root| path.starts_with(&root.path));
        if own.is_some_and(|own| self.living_at(&own.path).is_some()) {
            return own.cloned();
        }
        self.find_root(path).or_else(|| own.cloned())
    }

    /// Finds the deepest directory that contains a path and has an index. One look at one file for
    /// each directory above the path.
    fn find_root(&self, path: &Path) -> Option<Arc<IndexRoot>> {
        let (found, store) = (self.found.as_ref()?, self.store()?);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        path.ancestors().find_map(|dir| {
            let root = match self.roots.iter().find(|root| root.path == dir) {
                Some(root) => root,
                None => found
                    .entry(dir.to_path_buf())
                    .or_insert_with(|| Arc::new(self.keys.root(dir.to_path_buf()))),
            };
            let publication = store.publication(root.key.parts());
            publication.map(|_| root.clone())
        })
    }

    fn root_at(&self, path: &Path) -> Option<&IndexRoot> {
        let mut roots = self.roots.iter();
        roots.find(|root| root.path == path).map(|root| &**root)
    }

    /// Sees to it that the index of the root that is `path` can be used: builds it if there is none, or if it is
    /// damaged or stale. Returns what was built, if anything was.
    ///
    /// An index that can't be used because links are followed, or because a directory's times can't
    /// be held, is not built again: the next one could not be used either. Where something could
    /// not be listed, the tree is listed again, and the index is built if there is no error now.
    /// [`Indexes::build`] builds it in any case.
    ///
    /// # Errors
    ///
    /// As [`Indexes::build`].
    pub fn ensure(
        &self,
        path: &Path,
        reach: &Arc<Reach>,
        host: &dyn BuildHost,
    ) -> Result<Option<Built>, BuildError> {
        self.ensure_within(path, reach, host, None)
    }

    /// Sees to the index as [`Indexes::ensure`] does, for a search that follows: it waits for others that lock or
    /// open it no longer than `budget`, and does without after that. Since the search compares the index with the
    /// tree and catches up, the index of a tree with more than 512 directories that is stale is built again only if an ignore file
    /// changed, or if a quarter of a sample of its directories differs.
    ///
    /// # Errors
    ///
    /// As [`Indexes::build`].
    #[cfg(feature = "cli")]
    pub(crate) fn ensure_for_search(
        &self,
        path: &Path,
        reach: &Arc<Reach>,
        host: &dyn BuildHost,
        budget: &Deadline,
    ) -> Result<Option<Built>, BuildError> {
        self.ensure_within(path, reach, host, Some(budget))
    }

    fn ensure_within(
        &self,
        path: &Path,
        reach: &Arc<Reach>,
        host: &dyn BuildHost,
        search: Option<&Deadline>,
    ) -> Result<Option<Built>, BuildError> {
        let Some(root) = self.root_at(path) else {
            let found = self.find_root(path);
            return match found.is_some_and(|found| found.path == path) {
                // Each search compares it with the tree.
                true => Ok(None),
                false => Err(BuildError::NotARoot(path.to_path_buf())),
            };
        };
        if let Some(store) = self.store() {
            // Building the index would do it too, but it may be usable as it is.
            store.purge_laxer(root.key.parts());
        }
        let waits = Waits {
            budget: search,
            host: Some(host),
        };
        let condition = match search {
            Some(_) => self.condition_before_search(root, reach, waits),
            None => self.condition_of(root, reach, waits).0,
        };
        if host.stopped() {
            return Err(BuildError::Stopped);
        }
        let is_useless = match condition {
            Condition::Usable | Condition::Untracked | Condition::Untimed(_) => true,
            Condition::Stale { reason, .. } => match reason {
                UncertainReason::EnumerationError => !is_listable(root, reach, host),
                // Another process has it locked.
                UncertainReason::MaintBudgetExceeded => true,
                _ => false,
            },
            _ => false,
        };
        if is_useless {
            return Ok(None);
        }
        let patience = waits.left();
        let built = self
            .keeping
            .build(root, reach, host, None, true, patience)?;
        Ok(Some(built.0))
    }

    /// Builds the index of the root that is `path`, whatever there is, and puts it into use.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; what was there before stays.
    pub fn build(
        &self,
        path: &Path,
        reach: &Arc<Reach>,
        host: &dyn BuildHost,
    ) -> Result<(Built, Arc<Snapshot>), BuildError> {
        let Some(root) = self.root_at(path) else {
            return Err(BuildError::NotARoot(path.to_path_buf()));
        };
        self.keeping
            .build(root, reach, host, None, true, Duration::MAX)
    }
}
