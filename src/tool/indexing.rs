//! The indexes of a tool: where they are kept, which of them a request may use, and building them.
//!
//! Owns the way from configuration to index roots, keys and a store, and the decision on each request whether
//! files may be left out. What a plan excludes and what is stale are lower layers' to say; here the answers are put
//! together, and where anything is in doubt the request is answered without an index.
//!
//! A program that links the library sets up [`Indexes`] once, gives them to
//! [`SearchTool::with_indexes`](super::search::SearchTool::with_indexes), and has them built when it sees fit; calls
//! never build:
//!
//! ```
//! use std::sync::Arc;
//!
//! use forge_search::exec::stop::CancelHandle;
//! use forge_search::tool::config::{Config, IndexMode, IndexStorage};
//! use forge_search::tool::engines::Engines;
//! use forge_search::tool::indexing::{CachePlaces, Foreground, Indexes};
//! use forge_search::tool::sandbox::Sandbox;
//!
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("greeting.txt"), "hello\nworld\n")?;
//! # let tree = dir.path();
//! let mut config = Config::library_default();
//! config.search.index_mode = IndexMode::On;
//! config.search.index_storage = IndexStorage::Memory;
//! let sandbox = Arc::new(Sandbox::new(&config.sandbox, tree)?);
//! let engines = Engines::embedded();
//!
//! let places = CachePlaces::default();
//! let indexes = Indexes::new(&config.search, &engines, &sandbox, None, &places)
//!     .expect("index_mode is not off");
//! let host = Foreground::new(CancelHandle::new());
//! for root in indexes.roots() {
//!     indexes.ensure(root, &sandbox, &host)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod choice;
mod elsewhere;
mod host;
mod places;
mod roots;
mod status;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::exec::catalog::{CatalogSource, Look, Scope};
use crate::exec::eligible::Globs;
use crate::exec::query::{Fold, Query};
use crate::format::error::FormatError;
use crate::format::storage::Storage;
use crate::index::bloom::BloomParams;
use crate::index::builder::{BuildError, BuildHost, BuildOptions, Built, MAX_SETTLE, build};
use crate::index::casefold::Casefold;
use crate::index::inputs::Inputs;
use crate::index::key::{IndexKey, KeyInputs};
use crate::index::plan::{Strategy, SupersetSafe};
use crate::index::segment::Segment;
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::state::{Standing, UncertainReason};
use crate::index::store::{Publication, Store};
use crate::index::walk::{TraversalOptions, Walk};
use crate::tool::config::{IndexMode, RegexStrategy, SearchConfig};
use crate::tool::engines::Engines;
use crate::tool::response::IndexUse;
use crate::tool::sandbox::{Resolved, Sandbox};

pub use choice::{Choice, Explanation};
pub use elsewhere::Elsewhere;
pub use host::{Background, BuildMonitor, BuildReport, Foreground, monotonic, wall_clock_ns};
pub use places::{CachePlaces, Fallback};
pub use status::{Condition, Contents, OUT_OF_RANGE, RootStatus};

use choice::Unused;
use places::Place;
use roots::{IndexRoot, deny_of, index_roots};

/// The indexes of a tool.
#[derive(Debug)]
pub struct Indexes {
    mode: IndexMode,
    strategy: Strategy,
    frozen: bool,
    options: BuildOptions,
    store: Option<Store>,
    /// Why indexes are kept elsewhere than configured; that also shows when the directory is made.
    fallback: OnceLock<Fallback>,
    /// Why indexes are neither kept nor used.
    nowhere: Option<Fallback>,
    roots: Vec<IndexRoot>,
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
    /// The directory.
    pub target: Resolved,
    /// The globs that files have to satisfy.
    pub globs: Globs,
    /// What may be read.
    pub sandbox: Arc<Sandbox>,
    /// Git's global excludes file, if it counts.
    pub global_excludes: Option<PathBuf>,
}

impl Indexes {
    /// Sets up the indexes that a configuration asks for; opens none of them yet. `None` if it asks for none
    /// (`index_mode=off`, FR-LSI-ROLL-03).
    ///
    /// What this process may read is part of the keys, and looked at here, once. A program that gives up rights, or
    /// takes on others, sets its indexes up anew.
    pub fn new(
        config: &SearchConfig,
        engines: &Engines,
        sandbox: &Sandbox,
        global_excludes: Option<&Path>,
        places: &CachePlaces,
    ) -> Option<Indexes> {
        if config.index_mode == IndexMode::Off {
            return None;
        }
        let (roots, rejected) = index_roots(config, sandbox);
        let mut chain = engines.chain().iter();
        let listless = chain.find(|engine| !engine.capabilities().file_lists);
        let listless = listless.map(|engine| engine.id().to_string());
        let engines: Vec<String> = engines.chain().iter().map(|e| e.id().to_string()).collect();
        let deny = deny_of(sandbox);
        let excludes = global_excludes.map(|path| (path, sandbox.working_dir()));
        let traversal = TraversalOptions {
            hidden: config.index_default_hidden,
            follow: config.index_default_follow,
            no_ignore: config.index_default_no_ignore,
            recursive: true,
        };
        let bloom = BloomParams::from_config(
            config.index_max_tokenized_bytes,
            config.bloom_target_fp_rate,
        );
        let max_tokenized_bytes = BuildOptions::tokenized_bytes(
            config.index_max_tokenized_bytes,
            config.index_max_memory_bytes,
        );
        let (access, unknown) = match access::of_process() {
            Ok(access) => (access, None),
            Err(error) => (access::UNKNOWN.to_string(), Some(error)),
        };
        let roots: Vec<IndexRoot> = roots
            .into_iter()
            .map(|path| {
                let key = IndexKey::new(&KeyInputs {
                    root: &path,
                    options: traversal,
                    backend: &engines.join("+"),
                    casefold: Casefold::Ascii,
                    max_tokenized_bytes,
                    bloom,
                    deny: &deny,
                    global_excludes: excludes,
                    access: &access,
                });
                let kept = excludes.map(|(path, base)| (path.to_path_buf(), base.to_path_buf()));
                IndexRoot::new(path, key, traversal, kept)
            })
            .collect();
        let trees = roots.iter().map(|root| root.path.as_path());
        let (store, fallback, nowhere) =
            match places::choose(config, sandbox, trees, places, unknown) {
                Place::Store(store) => (Some(store), None, None),
                Place::Memory(fallback) => (None, fallback, None),
                Place::Nowhere(why) => (None, None, Some(why)),
            };
        let fallback = fallback.map_or_else(OnceLock::new, OnceLock::from);
        Some(Indexes {
            mode: config.index_mode,
            strategy: match config.index_regex_strategy {
                RegexStrategy::RequiredLiteral => Strategy::RequiredLiteral,
                RegexStrategy::Boolean => Strategy::Boolean,
            },
            frozen: config.index_frozen,
            options: BuildOptions {
                params: bloom,
                casefold: Casefold::Ascii,
                max_tokenized_bytes,
                max_memory_bytes: config.index_max_memory_bytes,
            },
            store,
            fallback,
            nowhere,
            roots,
            listless,
            rejected,
        })
    }

    /// Returns the mode.
    pub fn mode(&self) -> IndexMode {
        self.mode
    }

    /// Returns the store, where indexes are kept in files.
    pub fn store(&self) -> Option<&Store> {
        let store = self.store.as_ref();
        store.filter(|_| self.fallback.get().is_none())
    }

    /// Makes the directory in which indexes are kept, where there is none, as building one does: only then is it
    /// certain that it will do. If it does not, indexes are in memory from now on.
    pub fn make_place(&self) {
        if let Some(store) = self.store()
            && let Err(error) = store.make_root()
        {
            self.fallback.get_or_init(|| Fallback::denied(&error));
        }
    }

    /// Returns where indexes are kept, wherever they were configured to be.
    pub fn storage(&self) -> StorageMode {
        self.store().map_or(StorageMode::Memory, Store::mode)
    }

    /// Returns the directories that hold the indexes of the roots, or would, where they are kept in files.
    pub fn dirs(&self) -> impl Iterator<Item = PathBuf> {
        let dir = |root: &IndexRoot| Some(self.store()?.dir_of(root.key.parts()));
        self.roots.iter().filter_map(dir)
    }

    /// Returns why indexes are not kept where they were configured to be: in memory instead
    /// (FR-LSI-STOR-FALLBACK-01), or not at all.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.get().or(self.nowhere.as_ref())
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
        let follow = self.roots.iter().any(|root| root.traversal.follow);
        follow.then_some(status::UNTRACKED)
    }

    /// Returns what is wrong with configured roots (FR-LSI-IDX-ROOT-01).
    pub fn rejected(&self) -> &[String] {
        &self.rejected
    }

    /// Returns the index root that a search of a canonical path uses: the deepest one that contains it
    /// (FR-LSI-IDX-ROOT-02).
    pub fn root_for(&self, path: &Path) -> Option<&Path> {
        self.containing(path).map(|root| root.path.as_path())
    }

    /// Decides what the index does for a request that searches a directory. Loads the index on the first call.
    ///
    /// Unless the tree is frozen this looks at each directory of the catalog below the requested one, and the files
    /// of the source are looked at before they are passed over.
    pub fn choose(&self, question: &Question) -> Choice {
        let root = self.containing(&question.target.canonical);
        let mut plan = None;
        let decided = match root {
            None => Err(self.no_root()),
            Some(root) => self.decide(root, question, &mut plan),
        };
        self.choice(root, plan, decided)
    }

    /// Says how the index is for a request that searches a single file: there is nothing to leave out, so it is not
    /// asked. Loads it on the first call, and looks at nothing in the tree.
    pub fn choose_for_file(&self, target: &Resolved, asked: TraversalOptions) -> Choice {
        let root = self.containing(&target.canonical);
        let because = |unused: Unused| Unused {
            why: A_FILE.to_string(),
            absent: false,
            ..unused
        };
        let unused = match root.map(|root| self.opened(root, asked)) {
            None => because(self.no_root()),
            Some(Err(unused)) => because(unused),
            Some(Ok(snapshot)) => self.unlooked(&snapshot, A_FILE),
        };
        self.choice(root, None, Err(unused))
    }

    /// Says how the index is for a request whose time ended before it was known.
    pub fn not_chosen(&self) -> IndexUse {
        let unused = match self.placeless() {
            Some(condition) => condition.into(),
            None => Unused::unlooked(""),
        };
        self.facts(unused.standing, false)
    }

    fn choice(
        &self,
        root: Option<&IndexRoot>,
        plan: Option<SupersetSafe>,
        decided: Result<CatalogSource, Unused>,
    ) -> Choice {
        let root = root.map(|root| root.path.clone());
        match decided {
            Ok(source) => {
                let index = self.facts(Standing::Complete, true);
                Choice::new(Some(source), index, root, plan, None)
            }
            Err(unused) => {
                let index = self.facts(unused.standing, false);
                Choice::new(None, index, root, plan, Some(unused))
            }
        }
    }

    fn no_root(&self) -> Unused {
        let mut why = "no index root contains the path".to_string();
        let rejected = self.rejected.iter();
        rejected.for_each(|rejected| why.push_str(&format!("; {rejected}")));
        Unused {
            standing: Standing::Absent,
            why,
            absent: true,
        }
    }

    /// Opens the index of a root for a request with these options; or says why it is of no use to any such request.
    fn opened(&self, root: &IndexRoot, asked: TraversalOptions) -> Result<Arc<Snapshot>, Unused> {
        if let Some(condition) = self.placeless() {
            return Err(condition.into());
        }
        let own = root.traversal;
        if (asked.hidden, asked.follow, asked.no_ignore) != (own.hidden, own.follow, own.no_ignore)
        {
            return Err(Unused::other_key(match own.follow {
                true => status::UNTRACKED,
                false => OTHER_OPTIONS,
            }));
        }
        let snapshot = self.open(root)?;
        match own.follow && snapshot.incomplete().is_none() {
            true => Err(Condition::Untracked.into()),
            false => Ok(snapshot),
        }
    }

    /// Says how an open index is for a request that has no use for it, so that it is not compared with the tree: what
    /// is known of it without.
    fn unlooked(&self, snapshot: &Snapshot, why: &str) -> Unused {
        match (snapshot.incomplete(), self.frozen) {
            (Some(stale), _) => Unused {
                why: why.to_string(),
                ..Condition::from(stale).into()
            },
            (None, true) => Unused {
                why: why.to_string(),
                ..Condition::Usable.into()
            },
            (None, false) => Unused::unlooked(why),
        }
    }

    /// Makes the source of a request below a root; or says why there is none. Leaves the plan behind, if it comes to
    /// that.
    fn decide(
        &self,
        root: &IndexRoot,
        question: &Question,
        kept_plan: &mut Option<SupersetSafe>,
    ) -> Result<CatalogSource, Unused> {
        let Question { query, sandbox, .. } = question;
        let snapshot = self.opened(root, question.traversal)?;
        if !root.is_under(sandbox, question.global_excludes.as_deref()) {
            return Err(Unused {
                standing: Standing::Uncertain(UncertainReason::PolicyChanged),
                why: "the sandbox or the global excludes are not those of the index".to_string(),
                absent: false,
            });
        }
        if let Some(engine) = &self.listless {
            let why = format!(
                "the engine {engine} can't be given lists of files; set backend in [tools.search] to another one"
            );
            return Err(self.unlooked(&snapshot, &why));
        }
        if query.fuzzy.is_some() {
            return Err(self.unlooked(&snapshot, "fuzzy requests search every file"));
        }
        let plan = kept_plan.insert(SupersetSafe::for_expression(
            query.pattern.hir(),
            query.pattern.fold() == Fold::AsciiInsensitive,
            self.strategy,
        ));
        if let Some(reason) = plan.reason() {
            return Err(self.unlooked(&snapshot, &reason.to_string()));
        }
        let (Some((allowed, base)), Ok(path)) = (
            sandbox.locate(&root.path),
            question.target.canonical.strip_prefix(&root.path),
        ) else {
            return Err(status::outside().into());
        };
        let scope = Scope {
            root: allowed,
            base,
            path: path.to_path_buf(),
            recursive: question.traversal.recursive,
            max_file_size: query.max_file_size,
        };
        match self.source(&snapshot, plan, scope, &question.globs) {
            Ok(source) => Ok(source?),
            Err(error) => {
                root.set_damaged(&error);
                Err(Condition::Damaged(error.to_string()).into())
            }
        }
    }

    /// Makes the source of a request whose plan excludes something.
    fn source(
        &self,
        snapshot: &Arc<Snapshot>,
        plan: &mut SupersetSafe,
        scope: Scope,
        globs: &Globs,
    ) -> Result<Result<CatalogSource, Condition>, FormatError> {
        let stale = self.staleness(snapshot, &scope.root, &scope.base, &scope.path)?;
        if let Some(stale) = stale {
            return Ok(Err(stale.into()));
        }
        snapshot.segment().order(plan)?;
        let look = match self.frozen {
            true => Look::None,
            false => Look::All,
        };
        let source = CatalogSource::new(snapshot.clone(), scope, globs.clone(), plan, look)?;
        Ok(source.ok_or_else(|| Condition::Stale {
            reason: UncertainReason::OpenRequiresValidation,
            why: "the directory is none that the index covers: it is hidden, ignored or new".into(),
        }))
    }

    /// Returns true if nothing has to be opened before a request for a path can be answered; opening can take as long as
    /// reading the whole index.
    pub fn is_opened(&self, path: &Path) -> bool {
        let root = self.containing(path);
        root.is_none_or(|root| root.is_known(self.store()))
    }

    /// Notes that the index that a request used is damaged: it is not used again before it was built anew.
    pub fn report_damage(&self, path: &Path, error: &FormatError) -> IndexUse {
        if let Some(root) = self.containing(path) {
            root.set_damaged(error);
        }
        self.facts(Standing::Corrupt, false)
    }

    /// Returns the deepest root that contains a canonical path (FR-LSI-IDX-ROOT-02).
    fn containing(&self, path: &Path) -> Option<&IndexRoot> {
        self.roots.iter().find(|root| path.starts_with(&root.path))
    }

    fn root_at(&self, path: &Path) -> Option<&IndexRoot> {
        self.roots.iter().find(|root| root.path == path)
    }

    /// Returns the facts of `stats`.
    fn facts(&self, standing: Standing, used: bool) -> IndexUse {
        IndexUse {
            standing,
            exclusion_used: used,
            storage_mode: match self.nowhere {
                Some(_) => "none".to_string(),
                None => self.storage().as_str().to_string(),
            },
            storage_fallback_reason: self.fallback.get().map(|f| f.code.to_string()),
        }
    }

    /// Sees to it that the index of the root that is `path` can be used: builds it if there is none, or if it is
    /// damaged or stale. Returns what was built, if anything was.
    ///
    /// An index that can't be used because something could not be listed, because links are followed, or because a
    /// directory's times can't be held, is not built again: as long as that is so, the next one could not be used either. [`Indexes::build`] builds it whatever there is.
    ///
    /// # Errors
    ///
    /// As [`Indexes::build`].
    pub fn ensure(
        &self,
        path: &Path,
        sandbox: &Arc<Sandbox>,
        host: &dyn BuildHost,
    ) -> Result<Option<Built>, BuildError> {
        match self.condition(path, sandbox) {
            Some(Condition::Usable | Condition::Untracked | Condition::Untimed(_)) => Ok(None),
            Some(Condition::Stale {
                reason: UncertainReason::EnumerationError,
                ..
            }) => Ok(None),
            _ => self
                .build(path, sandbox, host)
                .map(|(built, _)| Some(built)),
        }
    }

    /// Builds the index of the root that is `path`, whatever there is, and puts it into use.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; what was there before stays.
    pub fn build(
        &self,
        path: &Path,
        sandbox: &Arc<Sandbox>,
        host: &dyn BuildHost,
    ) -> Result<(Built, Arc<Snapshot>), BuildError> {
        let Some(root) = self.root_at(path) else {
            return Err(BuildError::NotARoot(path.to_path_buf()));
        };
        if let Some(nowhere) = &self.nowhere {
            return Err(BuildError::NoPlace(nowhere.message.clone()));
        }
        let Some((allowed, base)) = sandbox.locate(&root.path) else {
            return Err(BuildError::NotARoot(path.to_path_buf()));
        };
        self.make_place();
        let now_ms = host.now_ns() / 1_000_000;
        let excludes = root.global_excludes.as_ref().map(|(path, _)| &**path);
        if !root.is_under(sandbox, excludes) {
            return Err(BuildError::OtherPolicy(path.to_path_buf()));
        }
        let above = match root.traversal.no_ignore {
            true => Inputs::default(),
            false => look_above(&root.path, excludes, host),
        };
        let locate = sandbox.clone();
        let walk = Walk::new(
            allowed,
            base,
            root.traversal,
            sandbox.deny().clone(),
            Arc::new(move |path: &Path| locate.locate(path)),
            excludes,
            sandbox.working_dir(),
        );
        let (built, snapshot) = match self.store() {
            Some(store) => {
                let publication = Publication {
                    key: root.key.parts(),
                    params: self.options.params,
                    above,
                    now_ms,
                };
                store.publish(&publication, host, |out| {
                    build(&walk, &self.options, host, out)
                })?
            }
            None => {
                let mut bytes = Vec::new();
                let built = build(&walk, &self.options, host, &mut bytes)?;
                let segment = Segment::open_own(Storage::from(bytes))?;
                let mut inputs = above;
                inputs.append(built.inputs.clone());
                let snapshot = Snapshot::new(
                    root.key.parts().clone(),
                    StorageMode::Memory,
                    segment,
                    inputs,
                    built.errors.len() as u64,
                );
                (built, snapshot)
            }
        };
        let snapshot = Arc::new(snapshot);
        root.set_open(self.store(), snapshot.clone());
        Ok((built, snapshot))
    }
}

/// Why no index is asked about a single file.
const A_FILE: &str = "the path is a file, which is searched whatever an index says";

/// Why the index of a root serves no request with other traversal options.
const OTHER_OPTIONS: &str = "an index is for one set of the options hidden, follow and no_ignore, and these are not \
     those of index_default_hidden, index_default_follow and index_default_no_ignore in [tools.search]";

/// Looks at what decides above the tree, after waiting for what changed just now.
fn look_above(top: &Path, excludes: Option<&Path>, host: &dyn BuildHost) -> Inputs {
    let wait = Inputs::above(top, excludes).settle_in(host.now_ns());
    if !wait.is_zero() {
        host.pause(wait.min(MAX_SETTLE));
    }
    let now_ns = host.now_ns();
    let mut above = Inputs::above(top, excludes);
    above.distrust_unsettled(now_ns);
    above
}
