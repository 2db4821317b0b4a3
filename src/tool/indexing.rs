//! The indexes of a tool: where they are kept, which of them a request may use, and building them.
//!
//! Owns the way from configuration to index roots, keys and a store, and the decision on each request whether
//! files may be left out. What a plan excludes and what is stale are lower layers' to say; here the answers are put
//! together, and where anything is in doubt the request is answered without an index.
//!
//! A program that links the library sets up [`Indexes`] once and gives them to
//! [`SearchTool::with_indexes`](super::search::SearchTool::with_indexes). If it stays, it has them [live](Indexes::live): they are
//! opened or built in the background and follow every change. Else it has them built when it sees fit; calls never build:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use forge_search::exec::stop::CancelHandle;
//! use forge_search::tool::config::{Config, IndexMode, IndexStorage};
//! use forge_search::tool::engines::Engines;
//! use forge_search::tool::indexing::{CachePlaces, Foreground, Indexes, Surroundings};
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
//!
//! let around = Surroundings::new(sandbox.clone());
//! indexes.live(&config.search, &around)?;
//! // Only tests and benchmarks wait for it.
//! indexes.wait_live(tree.canonicalize()?.as_path(), Duration::from_secs(60));
//! assert!(indexes.shut_down());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod choice;
mod elsewhere;
mod host;
mod keeping;
mod living;
mod notice;
mod places;
mod roots;
mod status;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::exec::catalog::{CatalogSource, Look, Scope};
use crate::exec::eligible::Globs;
use crate::exec::query::{Fold, Query};
use crate::format::error::FormatError;
use crate::index::bloom::BloomParams;
use crate::index::builder::{BuildError, BuildHost, BuildOptions, Built};
use crate::index::casefold::Casefold;
use crate::index::key::{IndexKey, KeyInputs};
use crate::index::live::{Pin, Pinned};
use crate::index::pace::RunningSearch;
use crate::index::plan::{Strategy, SupersetSafe};
use crate::index::snapshot::{Snapshot, Stale, StorageMode};
use crate::index::state::{Standing, UncertainReason};
use crate::index::store::Store;
use crate::index::walk::{Follow, IgnoreRules, TraversalOptions};
use crate::tool::config::{IndexMode, RegexStrategy, SearchConfig};
use crate::tool::engines::Engines;
use crate::tool::response::IndexUse;
use crate::tool::sandbox::{Resolved, Sandbox};

pub use crate::index::live::Report;
pub use choice::{Choice, Explanation};
pub use elsewhere::Elsewhere;
pub use host::{
    Background, BuildMonitor, BuildReport, Foreground, WallClock, monotonic, wall_clock_ns,
};
pub use living::Surroundings;
pub use notice::LivingIndex;
pub use places::{CachePlaces, Fallback};
pub use status::{Condition, Contents, OUT_OF_RANGE, RootStatus};

use choice::Unused;
use keeping::Keeping;
use living::Living;
use roots::{IndexRoot, deny_of, index_roots};

/// The indexes of a tool.
#[derive(Debug)]
pub struct Indexes {
    mode: IndexMode,
    strategy: Strategy,
    frozen: bool,
    keeping: Arc<Keeping>,
    roots: Vec<Arc<IndexRoot>>,
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
    /// The directory.
    pub target: Resolved,
    /// The globs that files have to satisfy.
    pub globs: Globs,
    /// What may be read.
    pub sandbox: Arc<Sandbox>,
    /// Git's global excludes file, if it counts.
    pub global_excludes: Option<PathBuf>,
    /// How long the call may spend on bringing a living index up to date (`index_maint_budget_fraction`).
    pub maintenance: Duration,
    /// Whether the snapshot is wanted although nothing can be left out by it.
    pub pins: bool,
}

/// Returns which files indexes are of, and questions are about; `rules` are the ignore rules where they count.
pub(crate) fn index_traversal(config: &SearchConfig, rules: IgnoreRules) -> TraversalOptions {
    TraversalOptions {
        hidden: config.index_default_hidden,
        follow: match config.index_default_follow {
            true => Follow::All,
            false => Follow::Never,
        },
        rules: match config.index_default_no_ignore {
            true => IgnoreRules::None,
            false => rules,
        },
        recursive: true,
    }
}

impl Indexes {
    /// Sets up the indexes that a configuration asks for, for requests by which ripgrep's ignore files count; opens none of them yet. `None` if it asks for none
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
        Indexes::by_rules(
            config,
            IgnoreRules::All,
            engines,
            sandbox,
            global_excludes,
            places,
        )
    }

    /// As [`Indexes::new`], for requests by which other ignore files count.
    pub fn by_rules(
        config: &SearchConfig,
        rules: IgnoreRules,
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
        let traversal = index_traversal(config, rules);
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
        let roots: Vec<Arc<IndexRoot>> = roots
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
                Arc::new(IndexRoot::new(path, key, traversal, kept))
            })
            .collect();
        let trees = roots.iter().map(|root| root.path.as_path());
        let place = places::choose(config, sandbox, trees, places, unknown);
        let options = BuildOptions {
            params: bloom,
            casefold: Casefold::Ascii,
            max_tokenized_bytes,
            max_memory_bytes: config.index_max_memory_bytes,
        };
        Some(Indexes {
            mode: config.index_mode,
            strategy: match config.index_regex_strategy {
                RegexStrategy::RequiredLiteral => Strategy::RequiredLiteral,
                RegexStrategy::Boolean => Strategy::Boolean,
            },
            frozen: config.index_frozen,
            keeping: Arc::new(Keeping::new(place, options, places.handles.clone())),
            roots,
            living: OnceLock::new(),
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
        self.keeping.store()
    }

    /// Makes the directory in which indexes are kept, where there is none, as building one does: only then is it
    /// certain that it will do. If it does not, indexes are in memory from now on.
    pub fn make_place(&self) {
        self.keeping.make_place();
    }

    /// Returns how many segments are open, of all indexes that were set up with the same [`CachePlaces`] (`IPC.MUST.005`).
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
        let unused = match root {
            None => because(self.no_root()),
            Some(root) => because(self.unlooked(root, asked, A_FILE)),
        };
        self.choice(root, None, Err(unused))
    }

    /// Says how the index is for a request whose time ended before it was known.
    pub fn not_chosen(&self) -> IndexUse {
        let unused = match self.placeless() {
            Some(condition) => condition.into(),
            None => Unused::unlooked(""),
        };
        self.facts(None, unused.standing, false)
    }

    fn choice(
        &self,
        root: Option<&IndexRoot>,
        plan: Option<SupersetSafe>,
        decided: Result<CatalogSource, Unused>,
    ) -> Choice {
        let path = root.map(|root| &*root.path);
        let root = path.map(Path::to_path_buf);
        match decided {
            Ok(source) => {
                let index = self.facts(path, Standing::Complete, true);
                Choice::new(Some(source), index, root, plan, None)
            }
            Err(unused) => {
                let index = self.facts(path, unused.standing, false);
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

    /// Says why the index of a root is of no use to a request with these options, whatever it is like.
    fn check_options(&self, root: &IndexRoot, asked: TraversalOptions) -> Result<(), Unused> {
        if let Some(condition) = self.placeless() {
            return Err(condition.into());
        }
        let own = root.traversal;
        if (asked.hidden, asked.follow, asked.rules) != (own.hidden, own.follow, own.rules) {
            return Err(Unused::other_key(match own.follow != Follow::Never {
                true => status::UNTRACKED,
                false => OTHER_OPTIONS,
            }));
        }
        Ok(())
    }

    /// Opens the index of a root for a request with these options; or says why it is of no use to any such request.
    fn opened(&self, root: &IndexRoot, asked: TraversalOptions) -> Result<Arc<Snapshot>, Unused> {
        self.check_options(root, asked)?;
        let own = root.traversal;
        let snapshot = self.open(root)?;
        match own.follow != Follow::Never && snapshot.incomplete().is_none() {
            true => Err(Condition::Untracked.into()),
            false => Ok(snapshot),
        }
    }

    /// Says how the index of a root is for a request that has no use for it, so that it is not compared with the tree: what
    /// is known of it without.
    fn unlooked(&self, root: &IndexRoot, asked: TraversalOptions, why: &str) -> Unused {
        if let Some(living) = self.living_at(&root.path) {
            if let Err(unused) = self.check_options(root, asked) {
                return unused;
            }
            return Unused {
                standing: living.index.report().standing,
                why: why.to_string(),
                absent: false,
            };
        }
        let snapshot = match self.opened(root, asked) {
            Ok(snapshot) => snapshot,
            Err(unused) => return unused,
        };
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
        let asked = question.traversal;
        let living = self.living_at(&root.path);
        let opened = match living {
            Some(_) => self.check_options(root, asked).map(|()| None)?,
            None => Some(self.opened(root, asked)?),
        };
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
            return Err(self.unlooked(root, asked, &why));
        }
        let (hir, strategy) = (query.pattern.hir(), self.strategy);
        let fold = query.pattern.fold() == Fold::AsciiInsensitive;
        let plan = kept_plan.insert(match query.fuzzy {
            None => SupersetSafe::for_expression(hir, fold, strategy),
            Some(fuzziness) => {
                let chars = query.pattern.original().chars().count();
                let edits = fuzziness.max_edits(chars).unwrap_or(u32::MAX);
                SupersetSafe::nearly(hir, fold, strategy, edits)
            }
        });
        if let Some(reason) = plan.reason()
            && !question.pins
        {
            return Err(self.unlooked(root, asked, &reason.to_string()));
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
            reports: query.reports,
        };
        let source = match (living, opened) {
            (Some(living), _) => match living.index.pin(question.maintenance) {
                Pin {
                    what: Pinned::Exact(snapshot),
                    ..
                } => self.source(&snapshot, plan, scope, &question.globs, Look::Linked),
                Pin {
                    what: Pinned::Unwatched(unwatched),
                    ..
                } => {
                    let snapshot = self.opened(root, asked)?;
                    let mut outdated = false;
                    let compared =
                        self.compared(&snapshot, plan, scope, &question.globs, &mut outdated);
                    living.index.report_comparison(&snapshot, outdated);
                    let unwatched = unwatched.filter(|_| outdated);
                    compared.map(|source| source.map_err(|stale| stale.unwatched(unwatched)))
                }
                Pin {
                    standing,
                    what: Pinned::Nothing(why),
                } => {
                    return Err(Unused {
                        standing,
                        why,
                        absent: false,
                    });
                }
            },
            (None, Some(snapshot)) => {
                self.compared(&snapshot, plan, scope, &question.globs, &mut false)
            }
            (None, None) => return Err(Condition::Absent.into()),
        };
        match source {
            Ok(source) => Ok(source?),
            Err(error) => {
                root.set_damaged(&error);
                if let Some(living) = living {
                    living.index.report_damage(&error);
                }
                Err(Condition::Damaged(error.to_string()).into())
            }
        }
    }

    /// Makes the source of a request whose plan excludes something, after comparing the index with the tree. Says in `outdated` whether
    /// building it again would help.
    fn compared(
        &self,
        snapshot: &Arc<Snapshot>,
        plan: &mut SupersetSafe,
        scope: Scope,
        globs: &Globs,
        outdated: &mut bool,
    ) -> Result<Result<CatalogSource, Condition>, FormatError> {
        let stale = self.staleness(snapshot, &scope.root, &scope.base, &scope.path)?;
        if let Some(stale) = stale {
            *outdated = matches!(stale, Stale::Input(_) | Stale::Dir(_));
            return Ok(Err(stale.into()));
        }
        let look = match self.frozen {
            true => Look::None,
            false => Look::All,
        };
        self.source(snapshot, plan, scope, globs, look)
    }

    /// Makes the source of a request whose plan excludes something.
    fn source(
        &self,
        snapshot: &Arc<Snapshot>,
        plan: &mut SupersetSafe,
        scope: Scope,
        globs: &Globs,
        look: Look,
    ) -> Result<Result<CatalogSource, Condition>, FormatError> {
        snapshot.segment().order(plan)?;
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
    pub(super) fn searching(&self) -> Option<RunningSearch> {
        let living = self.living.get()?.first()?;
        Some(living.activity.begin())
    }

    /// Returns the deepest root that contains a canonical path (FR-LSI-IDX-ROOT-02).
    fn containing(&self, path: &Path) -> Option<&IndexRoot> {
        let mut roots = self.roots.iter();
        roots
            .find(|root| path.starts_with(&root.path))
            .map(|root| &**root)
    }

    fn root_at(&self, path: &Path) -> Option<&IndexRoot> {
        let mut roots = self.roots.iter();
        roots.find(|root| root.path == path).map(|root| &**root)
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
        self.keeping.build(root, sandbox, host, None, true)
    }
}

/// Why no index is asked about a single file.
const A_FILE: &str = "the path is a file, which is searched whatever an index says";

/// Why the index of a root serves no request with other traversal options.
const OTHER_OPTIONS: &str = "an index is for one set of the options hidden, follow and no_ignore, and these are not \
     those of index_default_hidden, index_default_follow and index_default_no_ignore in [tools.search]";
