//! The indexes that searches can use: opening them, keeping them up to date, and deciding for each
//! searched directory (an [`IndexRequest`]) whether to use one.
//!
//! [`Indexes`] has one index for each root. `Indexes::choose_within` decides about a request in
//! four steps, and [`Indexes::choose`] does so for explanations:
//!
//! 1. Find the root that contains the searched directory.
//! 2. Find its index: the live index of this process, or the stored one, which is opened.
//! 3. Make a plan: the n-grams by which the index excludes files.
//! 4. Make a source of files. A live index is pinned. A stored index is compared with the tree: by
//!    the decision before the search, or by the source during the search.
//!
//! In doubt, the request is answered without an index.
//!
//! This module reads no configuration: the caller passes [`Settings`] and [`LiveSettings`].

pub(crate) mod access;
mod choice;
mod decision;
pub(crate) mod host;
mod index_storage;
mod live_root;
mod other_roots;
mod place;
mod process_status;
mod roots;
mod searched_tree;
mod status;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::exec::question::IndexList;
use crate::exec::question::query::Query;
use crate::exec::sources::eligible::{Globs, WantedWords};
use crate::exec::sources::reach::{Reach, Resolved};
use crate::exec::stop::Deadline;
use crate::format::error::FormatError;
use crate::format::mutex::lock;
use crate::index::builder::{BuildError, BuildHost, BuildOptions, BuildRequest, BuiltSegment};
use crate::index::casefold::Casefold;
use crate::index::handles::Handles;
use crate::index::key::KeyInputs;
use crate::index::plan::Strategy;
use crate::index::snapshot::StorageMode;
use crate::index::state::UncertainReason;
use crate::index::store::Store;
use crate::index::walk::{Follow, TraversalOptions};

pub use crate::index::builder::Phase;
pub use crate::index::live::Report;
pub use crate::index::pace::RunningSearch;
pub use crate::index::snapshot::Snapshot;
pub use crate::index::state::IndexState;
pub use choice::{Explanation, IndexDecision, IndexUse};
pub(crate) use decision::{ComparisonMode, DecisionTime};
pub use host::{Background, BuildMonitor, BuildReport, Foreground, WallClock, wall_clock_ns};
pub use live_root::{LiveEnvironment, LiveSettings};
pub use other_roots::OtherRootIndex;
pub use place::{Fallback, Place};
pub use process_status::ProcessIndexStatus;
pub use status::{Condition, Contents, OUT_OF_RANGE, RootStatus};

use index_storage::{IndexStorage, is_listable};
use live_root::LiveRoot;
use roots::{IndexRoot, Waits};

/// The indexes of one set of roots.
#[derive(Debug)]
pub struct Indexes {
    strategy: Strategy,
    frozen: bool,
    index_storage: Arc<IndexStorage>,
    roots: Vec<Arc<IndexRoot>>,
    /// The settings that the index keys of all roots share.
    key_inputs: KeyInputs,
    /// Other directories that were checked for an index, by path. `None` if searches use only the
    /// index roots.
    found: Option<Mutex<BTreeMap<PathBuf, Arc<IndexRoot>>>>,
    /// The live indexes of this process. Unset until they start.
    living: OnceLock<Vec<LiveRoot>>,
    /// An engine that can't take lists of files. With one, no file can be left out.
    listless: Option<String>,
    /// Why some configured roots can't be indexed, one message each.
    rejected: Vec<String>,
}

/// The parts of a request for one directory that decide whether an index is used.
#[derive(Clone, Debug)]
pub struct IndexRequest {
    /// The compiled search.
    pub query: Arc<Query>,
    /// Which files are eligible.
    pub traversal: TraversalOptions,
    /// The most components of a file's path below the directory, if there is a limit.
    pub max_depth: Option<usize>,
    /// The searched directory.
    pub target: Resolved,
    /// The globs that files must satisfy.
    pub globs: Globs,
    /// The directories that may be read, and the denied patterns.
    pub reach: Arc<Reach>,
    /// Git's global excludes file, if the search uses it.
    pub global_excludes: Option<PathBuf>,
    /// The time that the call may spend on its index (`index_maint_budget_fraction`): on waiting
    /// for others that open or lock it, and on updating it or comparing it with the tree.
    pub maintenance: Duration,
    /// Whether the caller wants the snapshot even if the index excludes no file.
    pub pins: bool,
    /// Whether a list of all files is wanted. The query is not looked for then.
    pub lists: bool,
    /// The terms of a ranked question.
    pub words: Option<Arc<WantedWords>>,
    /// The list of files that is wanted in place of results. For files that the index rules out,
    /// the options of the index apply.
    pub by_index: IndexList,
}

/// The settings of a set of indexes. Each is part of an index's key, or says where the index is
/// kept or how it is built.
#[derive(Debug)]
pub struct Settings {
    /// Canonical paths of the directories that are indexed, deepest first.
    pub roots: Vec<PathBuf>,
    /// Why other configured directories can't be indexed, one sentence each.
    pub rejected: Vec<String>,
    /// Which files are indexed.
    pub traversal: TraversalOptions,
    /// The names of the engines of a tool, joined by `+`. Those of several tools are joined by `,`.
    pub backend: String,
    /// The name of an engine that can't take lists of files. With one, no file can be left out.
    pub listless: Option<String>,
    /// The part of a regular expression that a plan considers.
    pub strategy: Strategy,
    /// Whether the trees are known not to change. If true, indexes are never compared with them.
    pub frozen: bool,
    /// How an index is built.
    pub build: BuildOptions,
    /// The allowed roots and denied patterns that apply to indexes.
    pub reach: Arc<Reach>,
    /// Git's global excludes file, if the search uses it.
    pub global_excludes: Option<PathBuf>,
    /// The access rights of this process, as text.
    pub access: String,
    /// Where indexes are kept.
    pub place: Place,
    /// The counter of open segments.
    pub handles: Handles,
}

impl Indexes {
    /// Creates the set of indexes without opening any of them.
    pub fn of(settings: Settings) -> Indexes {
        let key_inputs = KeyInputs {
            options: settings.traversal,
            backend: settings.backend,
            casefold: Casefold::Ascii,
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
            index_storage: Arc::new(IndexStorage::new(
                settings.place,
                settings.build,
                settings.handles,
            )),
            roots: roots
                .map(|path| Arc::new(IndexRoot::new(path, &key_inputs)))
                .collect(),
            key_inputs,
            found: None,
            living: OnceLock::new(),
            listless: settings.listless,
            rejected: settings.rejected,
        }
    }

    /// Returns the store, if indexes are kept in files.
    pub fn store(&self) -> Option<&Store> {
        self.index_storage.store()
    }

    /// Creates the directory for indexes if it is missing. Only then is it certain that the
    /// directory can be used. If it can't, indexes are kept in memory from now on.
    pub fn make_place(&self) {
        self.index_storage.make_place();
    }

    /// Returns the number of open segments, over all indexes that share places and caches.
    pub fn open_segments(&self) -> usize {
        self.index_storage.handles().open()
    }

    /// Returns where indexes are actually kept, which may differ from the configuration.
    pub fn storage(&self) -> StorageMode {
        self.index_storage.storage()
    }

    /// Returns the index directory of each root, whether or not it exists. Empty if indexes are not
    /// kept in files.
    pub fn dirs(&self) -> impl Iterator<Item = PathBuf> {
        let dir = |root: &Arc<IndexRoot>| Some(self.store()?.dir_of(&root.key));
        self.roots.iter().filter_map(dir)
    }

    /// Returns why indexes are not kept in the configured place. They are kept in memory instead,
    /// or not at all.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.index_storage.fallback()
    }

    /// Returns why the stored indexes can't be updated, and how to change that. `None` if they can,
    /// or if indexes are not kept in files. Searches still use a read-only index: each one compares
    /// it with the tree.
    pub fn unwritable(&self) -> Option<String> {
        let error = self.store()?.check_writable().err()?;
        Some(format!(
            "{error}; so indexes there can't be built or updated. Make the directory writable, or \
             set index_path in [tools.search] to a writable directory"
        ))
    }

    /// Returns why other users may be able to read the stored indexes, which
    /// `index_allow_insecure_persistence` permits. `None` if they can't.
    pub fn exposed(&self) -> Option<String> {
        self.index_storage.exposed()
    }

    /// Returns why an index would end with this process, and how to change that. `None` if it is
    /// kept in files.
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

    /// Returns why the indexes can't exclude files, and how to change that. `None` if they can.
    /// They can't if symbolic links are followed, because changes behind links are not tracked.
    pub fn untracked(&self) -> Option<&'static str> {
        let follow = self
            .roots
            .iter()
            .any(|root| root.traversal.follow != Follow::Never);
        follow.then_some(status::UNTRACKED)
    }

    /// Returns the messages about configured roots that can't be indexed.
    pub fn rejected(&self) -> &[String] {
        &self.rejected
    }

    /// Returns the index root that a search of a canonical path uses: the deepest one that contains
    /// the path.
    pub fn root_for(&self, path: &Path) -> Option<PathBuf> {
        self.containing(path).map(|root| root.path.clone())
    }

    /// Returns true if a request for a path can be answered without opening an index first. Opening
    /// can take as long as reading the whole index.
    pub fn is_opened(&self, path: &Path) -> bool {
        let root = self.containing(path);
        root.is_none_or(|root| self.living_at(&root.path).is_none() && root.is_known(self.store()))
    }

    /// Records that the index that a request used is damaged. It is not used again before it is
    /// rebuilt.
    pub fn report_damage(&self, path: &Path, error: &FormatError) -> IndexUse {
        if let Some(root) = self.containing(path) {
            self.set_damaged(&root, error);
        }
        self.index_use(None, IndexState::Corrupt, false)
    }

    fn set_damaged(&self, root: &IndexRoot, error: &FormatError) {
        root.set_damaged(error);
        if let Some(living) = self.living_at(&root.path) {
            living.index.report_damage(error);
        }
    }

    /// Records that a search runs, until the value is dropped. Live indexes work less meanwhile.
    pub(crate) fn searching(&self) -> Option<RunningSearch> {
        let living = self.living.get()?.first()?;
        Some(living.activity.begin())
    }

    /// Lets searches use the index of any directory that contains the searched path. For example, a
    /// search in `project/src` uses the index of `project`. Nothing is built for such a directory.
    #[cfg(feature = "cli")]
    #[must_use]
    pub(crate) fn finding_roots(self) -> Indexes {
        Indexes {
            found: Some(Mutex::default()),
            ..self
        }
    }

    /// Returns the deepest root that contains a canonical path. With
    /// `finding_roots` that is the deepest directory with an index, unless the configured root is
    /// live in this process.
    fn containing(&self, path: &Path) -> Option<Arc<IndexRoot>> {
        let own = self.roots.iter().find(|root| path.starts_with(&root.path));
        if own.is_some_and(|own| self.living_at(&own.path).is_some()) {
            return own.cloned();
        }
        self.find_root(path).or_else(|| own.cloned())
    }

    /// Finds the deepest directory that contains a path and has an index. Costs one look at one
    /// file for each directory above the path.
    fn find_root(&self, path: &Path) -> Option<Arc<IndexRoot>> {
        let (found, store) = (self.found.as_ref()?, self.store()?);
        let mut found = lock(found);
        path.ancestors().find_map(|dir| {
            let root = match self.roots.iter().find(|root| root.path == dir) {
                Some(root) => root,
                None => found.entry(dir.to_path_buf()).or_insert_with(|| {
                    Arc::new(IndexRoot::new(dir.to_path_buf(), &self.key_inputs))
                }),
            };
            let publication = store.publication(&root.key);
            publication.map(|_| root.clone())
        })
    }

    fn root_at(&self, path: &Path) -> Option<&IndexRoot> {
        let mut roots = self.roots.iter();
        roots.find(|root| root.path == path).map(|root| &**root)
    }

    /// Ensures that the index of the root `path` can be used: builds the index if it is missing,
    /// damaged or stale. Returns the result of the build, or `None` if nothing was built.
    ///
    /// An index is not rebuilt if the new one would be unusable for the same reason: links are
    /// followed, or the times of a directory can't be stored. If a directory could not be listed,
    /// the tree is listed again, and the index is rebuilt only if that succeeds. [`Indexes::build`]
    /// always builds.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if `path` is not an index root, the host stops the build, or the build fails.
    pub fn ensure(
        &self,
        path: &Path,
        reach: &Arc<Reach>,
        host: &dyn BuildHost,
    ) -> Result<Option<BuiltSegment>, BuildError> {
        self.ensure_within(path, reach, host, None)
    }

    /// Ensures the index like [`Indexes::ensure`], for a search that follows. Waits at most until
    /// `deadline` for others that lock or open the index, and continues without it after that.
    ///
    /// The search itself compares the index with the tree and catches up with small differences. So
    /// the stale index of a tree with more than 512 directories is rebuilt only in two cases: an
    /// ignore file changed, or a quarter of a sample of the directories differs.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if `path` is not an index root, the host stops the build, or the build fails.
    #[cfg(feature = "cli")]
    pub(crate) fn ensure_for_search(
        &self,
        path: &Path,
        reach: &Arc<Reach>,
        host: &dyn BuildHost,
        deadline: &Deadline,
    ) -> Result<Option<BuiltSegment>, BuildError> {
        self.ensure_within(path, reach, host, Some(deadline))
    }

    fn ensure_within(
        &self,
        path: &Path,
        reach: &Arc<Reach>,
        host: &dyn BuildHost,
        search: Option<&Deadline>,
    ) -> Result<Option<BuiltSegment>, BuildError> {
        let Some(root) = self.root_at(path) else {
            let found = self.find_root(path);
            return match found.is_some_and(|found| found.path == path) {
                // Each search compares this index with the tree.
                true => Ok(None),
                false => Err(BuildError::NotARoot(path.to_path_buf())),
            };
        };
        if let Some(store) = self.store() {
            // A build would purge too, but the index may be usable without a build.
            store.purge_laxer(&root.key);
        }
        let waits = Waits {
            deadline: search,
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
                // Another process has locked the index.
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
            .index_storage
            .build(root, reach, host, BuildRequest::full(), patience)?;
        Ok(Some(built.0))
    }

    /// Builds the index of the root `path` even if a usable one exists, and puts the new one into
    /// use.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if `path` is not an index root, the host stops the build, or the build fails.
    /// The earlier index stays then.
    pub fn build(
        &self,
        path: &Path,
        reach: &Arc<Reach>,
        host: &dyn BuildHost,
    ) -> Result<(BuiltSegment, Arc<Snapshot>), BuildError> {
        let Some(root) = self.root_at(path) else {
            return Err(BuildError::NotARoot(path.to_path_buf()));
        };
        self.index_storage
            .build(root, reach, host, BuildRequest::full(), Duration::MAX)
    }
}
