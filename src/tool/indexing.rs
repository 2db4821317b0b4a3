//! The indexes of a tool: where they are kept, which of them a request may use, and building them.
//!
//! Owns the way from configuration to index roots, keys and a store, and the decision on each request whether
//! files may be left out. What a plan excludes and what is stale are lower layers' to say; here the answers are put
//! together, and where anything is in doubt the request is answered without an index.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::exec::catalog::{CatalogSource, Scope};
use crate::exec::eligible::Globs;
use crate::exec::query::{Fold, Query};
use crate::format::error::FormatError;
use crate::format::storage::{Privacy, Storage};
use crate::index::bloom::BloomParams;
use crate::index::builder::{BuildError, BuildHost, BuildOptions, Built, MAX_SETTLE, build};
use crate::index::casefold::Casefold;
use crate::index::inputs::Inputs;
use crate::index::key::{IndexKey, KeyInputs};
use crate::index::plan::{PlanDescription, Strategy, SupersetSafe};
use crate::index::segment::Segment;
use crate::index::snapshot::{Snapshot, Stale, StorageMode};
use crate::index::store::{Publication, Store};
use crate::index::walk::{TraversalOptions, Walk};
use crate::tool::config::{IndexMode, IndexStorage, RegexStrategy, SearchConfig};
use crate::tool::engines::Engines;
use crate::tool::response::IndexUse;
use crate::tool::sandbox::{Resolved, Sandbox};

/// What of the environment decides where indexes are kept (FR-LSI-CACHE-ROOT-01).
#[derive(Clone, Debug, Default)]
pub struct CachePlaces {
    /// The user's cache directory, such as `~/.cache`.
    pub user_cache: Option<PathBuf>,
    /// The directory of temporary files, with a name for this user in it.
    pub temporary: Option<PathBuf>,
}

/// The indexes of a tool.
#[derive(Debug)]
pub struct Indexes {
    mode: IndexMode,
    strategy: Strategy,
    frozen: bool,
    options: BuildOptions,
    store: Option<Store>,
    storage: StorageMode,
    /// Why indexes are kept elsewhere than configured.
    fallback: Option<Fallback>,
    roots: Vec<IndexRoot>,
    /// Configured roots that can't be indexed, and why.
    rejected: Vec<String>,
}

/// Why an index is not kept where it was configured to be (FR-LSI-STOR-FALLBACK-01).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The code in `stats`.
    pub code: &'static str,
    /// What happened and what to do.
    pub message: String,
}

/// A directory that is indexed.
#[derive(Debug)]
struct IndexRoot {
    path: PathBuf,
    key: IndexKey,
    traversal: TraversalOptions,
    /// Git's global excludes, and the directory that their patterns are relative to.
    global_excludes: Option<(PathBuf, PathBuf)>,
    state: Mutex<State>,
}

/// What is known of a root's index.
#[derive(Clone, Debug)]
enum State {
    /// Nobody has looked.
    Unknown,
    /// There is none.
    Absent,
    /// It is open.
    Open(Arc<Snapshot>),
    /// It is damaged: why.
    Corrupt(String),
}

/// What an index does for a request.
pub struct Choice {
    /// The files, from the catalog; without it the tree is walked.
    pub source: Option<CatalogSource>,
    /// What `stats` say.
    pub index: IndexUse,
    /// What `explain` says.
    pub explanation: Explanation,
}

/// Why a request leaves out what it leaves out.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The index root.
    pub root: Option<PathBuf>,
    /// The plan, if one was made.
    pub plan: Option<PlanDescription>,
    /// Files that the request is about.
    pub in_scope: Option<u64>,
    /// Files among them that the plan could not exclude.
    pub candidates: Option<u64>,
    /// Why nothing is left out, if nothing is.
    pub reason: Option<String>,
}

/// One root, for people and programs.
#[derive(Clone, Debug)]
pub struct RootStatus {
    /// The index root.
    pub path: PathBuf,
    /// The directory that holds the index, where it is kept in files.
    pub dir: Option<PathBuf>,
    /// The state of the index (LSI §4.2).
    pub state: &'static str,
    /// Why it is uncertain.
    pub reason: Option<&'static str>,
    /// What is wrong, in words.
    pub problem: Option<String>,
    /// The open snapshot.
    pub snapshot: Option<Arc<Snapshot>>,
}

impl Indexes {
    /// Sets up the indexes that a configuration asks for; opens none of them yet. `None` if it asks for none
    /// (`index_mode=off`, FR-LSI-ROLL-03).
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
        let engines: Vec<String> = engines.chain().iter().map(|e| e.id().to_string()).collect();
        let deny = deny_of(sandbox);
        let excludes = global_excludes.map(|path| (path, sandbox.working_dir()));
        let roots: Vec<IndexRoot> = roots
            .into_iter()
            .map(|path| {
                let traversal = TraversalOptions {
                    hidden: config.index_default_hidden,
                    follow: config.index_default_follow,
                    no_ignore: config.index_default_no_ignore,
                    recursive: true,
                };
                let key = IndexKey::new(&KeyInputs {
                    root: &path,
                    options: traversal,
                    backend: &engines.join("+"),
                    casefold: Casefold::Ascii,
                    max_tokenized_bytes: config.index_max_tokenized_bytes,
                    deny: &deny,
                    global_excludes: excludes,
                });
                IndexRoot {
                    path,
                    key,
                    traversal,
                    global_excludes: excludes
                        .map(|(path, base)| (path.to_path_buf(), base.to_path_buf())),
                    state: Mutex::new(State::Unknown),
                }
            })
            .collect();
        let (store, fallback) = match config.index_storage {
            IndexStorage::Memory => (None, None),
            IndexStorage::Mmap | IndexStorage::Sqlite => {
                open_store(config, sandbox, &roots, places)
            }
        };
        let storage = match (&store, config.index_storage) {
            (None, _) | (_, IndexStorage::Memory) => StorageMode::Memory,
            (_, IndexStorage::Mmap) => StorageMode::Mmap,
            (_, IndexStorage::Sqlite) => StorageMode::Sqlite,
        };
        Some(Indexes {
            mode: config.index_mode,
            strategy: match config.index_regex_strategy {
                RegexStrategy::RequiredLiteral => Strategy::RequiredLiteral,
                RegexStrategy::Boolean => Strategy::Boolean,
            },
            frozen: config.index_frozen,
            options: BuildOptions {
                params: BloomParams::from_config(
                    config.index_max_tokenized_bytes,
                    config.bloom_target_fp_rate,
                ),
                casefold: Casefold::Ascii,
                max_tokenized_bytes: config.index_max_tokenized_bytes,
                max_memory_bytes: config.index_max_memory_bytes,
            },
            store,
            storage,
            fallback,
            roots,
            rejected,
        })
    }

    /// Returns the mode.
    pub fn mode(&self) -> IndexMode {
        self.mode
    }

    /// Returns the store, where indexes are kept in files.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Returns why indexes are kept elsewhere than configured.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }

    /// Returns the index roots, deepest first.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Returns what is wrong with configured roots (FR-LSI-IDX-ROOT-01).
    pub fn rejected(&self) -> &[String] {
        &self.rejected
    }

    /// Decides what the index does for a request that searches a directory. Loads the index on the first call.
    ///
    /// Unless the tree is frozen this looks at each directory of the catalog below the requested one, and the files
    /// of the source are looked at before they are passed over.
    pub fn choose(
        &self,
        query: &Query,
        asked: TraversalOptions,
        target: &Resolved,
        globs: &Globs,
        sandbox: &Sandbox,
        global_excludes: Option<&Path>,
    ) -> Choice {
        let mut explanation = Explanation::default();
        let unused = |explanation: &mut Explanation, state, reason: Option<&str>, why: &str| {
            explanation.reason = Some(why.to_string());
            Choice {
                source: None,
                index: self.facts(state, reason, false),
                explanation: std::mem::take(explanation),
            }
        };
        let Some(root) = self.containing(&target.canonical) else {
            return unused(
                &mut explanation,
                "ABSENT",
                None,
                "no index root contains the path",
            );
        };
        explanation.root = Some(root.path.clone());
        let snapshot = match self.state_of(root) {
            State::Open(snapshot) => snapshot,
            State::Corrupt(why) => {
                let why = format!("the index is damaged ({why}); build it again");
                return unused(&mut explanation, "CORRUPT", None, &why);
            }
            State::Unknown | State::Absent => {
                return unused(
                    &mut explanation,
                    "ABSENT",
                    None,
                    "there is no index; build one",
                );
            }
        };
        let uncertain = |explanation: &mut Explanation, why: &str| {
            unused(
                explanation,
                "UNCERTAIN",
                Some("OPEN_REQUIRES_VALIDATION"),
                why,
            )
        };
        if (asked.hidden, asked.follow, asked.no_ignore)
            != (
                root.traversal.hidden,
                root.traversal.follow,
                root.traversal.no_ignore,
            )
        {
            // FR-LSI-IDX-SCHED-03.
            let why = "the index was built for other values of hidden, follow and no_ignore";
            return uncertain(&mut explanation, why);
        }
        if asked.follow {
            let why = "the request follows symbolic links, whose targets the index does not track";
            return uncertain(&mut explanation, why);
        }
        if !root.is_under(sandbox, global_excludes) {
            let why = "the sandbox or the global excludes are not those of the index";
            return unused(&mut explanation, "UNCERTAIN", Some("POLICY_CHANGED"), why);
        }
        if query.fuzzy.is_some() {
            return uncertain(&mut explanation, "fuzzy requests search every file");
        }
        let mut plan = SupersetSafe::for_expression(
            query.pattern.hir(),
            query.pattern.fold() == Fold::AsciiInsensitive,
            self.strategy,
        );
        explanation.plan = Some(plan.describe());
        if let Some(reason) = plan.reason() {
            return uncertain(&mut explanation, &reason.to_string());
        }
        let (Some((allowed, base)), Ok(path)) = (
            sandbox.locate(&root.path),
            target.canonical.strip_prefix(&root.path),
        ) else {
            return uncertain(
                &mut explanation,
                "the index root is no longer in the sandbox",
            );
        };
        let scope = Scope {
            root: allowed,
            base,
            path: path.to_path_buf(),
            recursive: asked.recursive,
        };
        match self.source(&snapshot, &mut plan, scope, globs) {
            Ok(Ok(source)) => {
                let (all, candidates) = source.counts();
                explanation.in_scope = Some(all);
                explanation.candidates = Some(candidates);
                Choice {
                    source: Some(source),
                    index: self.facts("COMPLETE", None, true),
                    explanation,
                }
            }
            Ok(Err(Unusable { reason, why })) => {
                unused(&mut explanation, "UNCERTAIN", Some(reason), &why)
            }
            Err(error) => {
                self.damaged(root, &error);
                let why = format!("the index is damaged ({error}); build it again");
                unused(&mut explanation, "CORRUPT", None, &why)
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
    ) -> Result<Result<CatalogSource, Unusable>, FormatError> {
        let mut stale = snapshot.incomplete();
        if stale.is_none() && !self.frozen {
            stale = snapshot.stale(&scope.root, &scope.base, &scope.path)?;
        }
        if let Some(stale) = stale {
            return Ok(Err(unusable(&stale)));
        }
        let segment = snapshot.segment();
        segment.order(plan)?;
        let candidates = segment.candidates(plan)?;
        let source = CatalogSource::new(
            snapshot.clone(),
            scope,
            globs.clone(),
            candidates,
            !self.frozen,
        )?;
        Ok(source.ok_or_else(|| Unusable {
            reason: "OPEN_REQUIRES_VALIDATION",
            why: "the directory is none that the index covers: it is hidden, ignored or new".into(),
        }))
    }

    /// Notes that the index that a request used is damaged: it is not used again before it was built anew.
    pub fn report_damage(&self, path: &Path, error: &FormatError) -> IndexUse {
        if let Some(root) = self.containing(path) {
            self.damaged(root, error);
        }
        self.facts("CORRUPT", None, false)
    }

    fn damaged(&self, root: &IndexRoot, error: &FormatError) {
        *lock(&root.state) = State::Corrupt(error.to_string());
    }

    /// Returns the deepest root that contains a canonical path (FR-LSI-IDX-ROOT-02).
    fn containing(&self, path: &Path) -> Option<&IndexRoot> {
        self.roots.iter().find(|root| path.starts_with(&root.path))
    }

    /// Returns the state of a root's index, after looking for a kept one if nobody has.
    fn state_of(&self, root: &IndexRoot) -> State {
        let mut state = lock(&root.state);
        if let State::Unknown = *state {
            *state = match &self.store {
                None => State::Absent,
                Some(store) => match store.load(root.key.parts(), &mut std::thread::sleep) {
                    Ok(Some(snapshot)) => State::Open(Arc::new(snapshot)),
                    Ok(None) => State::Absent,
                    Err(error) if error.is_corrupt() => State::Corrupt(error.to_string()),
                    // Locked, or out of reach for now: the next call looks again.
                    Err(_) => return State::Absent,
                },
            };
        }
        state.clone()
    }

    /// Returns the facts of `stats`.
    fn facts(&self, state: &str, reason: Option<&str>, used: bool) -> IndexUse {
        IndexUse {
            safety_state: state.to_string(),
            uncertain_reason: reason.map(str::to_string),
            exclusion_used: used,
            storage_mode: self.storage.as_str().to_string(),
            storage_fallback_reason: self.fallback.as_ref().map(|f| f.code.to_string()),
        }
    }

    /// Says how the index of each root is.
    pub fn status(&self) -> Vec<RootStatus> {
        let status = |root: &IndexRoot| {
            let state = self.state_of(root);
            let (name, reason, problem, snapshot) = match state {
                State::Unknown | State::Absent => ("ABSENT", None, None, None),
                State::Corrupt(why) => ("CORRUPT", None, Some(why), None),
                State::Open(snapshot) => (
                    "UNCERTAIN",
                    Some("OPEN_REQUIRES_VALIDATION"),
                    None,
                    Some(snapshot),
                ),
            };
            RootStatus {
                path: root.path.clone(),
                dir: self
                    .store
                    .as_ref()
                    .map(|store| store.dir_of(root.key.parts())),
                state: name,
                reason,
                problem,
                snapshot,
            }
        };
        self.roots.iter().map(status).collect()
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
        let Some(root) = self.roots.iter().find(|root| root.path == path) else {
            return Err(BuildError::NotARoot(path.to_path_buf()));
        };
        let Some((allowed, base)) = sandbox.locate(&root.path) else {
            return Err(BuildError::NotARoot(path.to_path_buf()));
        };
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
        let (built, snapshot) = match &self.store {
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
        *lock(&root.state) = State::Open(snapshot.clone());
        Ok((built, snapshot))
    }
}

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

impl IndexRoot {
    /// Returns true if a sandbox and global excludes make the same files eligible as those for which the index is.
    fn is_under(&self, sandbox: &Sandbox, global_excludes: Option<&Path>) -> bool {
        let asked = global_excludes.map(|path| (path, sandbox.working_dir()));
        let own = self.global_excludes.as_ref();
        deny_of(sandbox) == self.key.parts().deny_patterns
            && asked == own.map(|(path, base)| (&**path, &**base))
    }
}

/// Why a snapshot can't be used for a request.
struct Unusable {
    reason: &'static str,
    why: String,
}

fn unusable(stale: &Stale) -> Unusable {
    match stale {
        Stale::EnumerationErrors(count) => Unusable {
            reason: "ENUMERATION_ERROR",
            why: format!("{count} files or directories could not be read when the index was built"),
        },
        Stale::Input(path) => Unusable {
            reason: "ELIGIBILITY_CHANGED",
            why: format!(
                "{} changed since the index was built; build it again",
                path.display()
            ),
        },
        Stale::Dir(path) => Unusable {
            reason: "OPEN_REQUIRES_VALIDATION",
            why: match path.as_os_str().is_empty() {
                true => "the index root changed since the index was built; build it again".into(),
                false => format!(
                    "the directory {} changed since the index was built; build it again",
                    path.display()
                ),
            },
        },
    }
}

/// Locks even after a panic elsewhere: the state is replaced as a whole.
fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds the index roots, deepest first, and says which configured ones can't be (FR-LSI-IDX-ROOT-01).
fn index_roots(config: &SearchConfig, sandbox: &Sandbox) -> (Vec<PathBuf>, Vec<String>) {
    let configured: Vec<PathBuf> = match &config.index_roots[..] {
        [] => vec![sandbox.working_dir().to_path_buf()],
        roots => roots
            .iter()
            .map(|root| sandbox.working_dir().join(root))
            .collect(),
    };
    let (mut roots, mut rejected) = (Vec::new(), Vec::new());
    for root in configured {
        let shown = root.display().to_string();
        let mut reject = |why: String| rejected.push(format!("index root {shown}: {why}"));
        let canonical = match root.canonicalize() {
            Ok(canonical) => canonical,
            Err(error) => {
                reject(error.to_string());
                continue;
            }
        };
        if !canonical.is_dir() {
            reject("it is no directory".to_string());
        } else if let Some((_, relative)) = sandbox.locate(&canonical) {
            match sandbox.deny().denies_path_or_parent(&canonical, &relative) {
                Some(pattern) => reject(format!("it is denied by the pattern {pattern}")),
                None => roots.push(canonical),
            }
        } else {
            reject("it lies outside of the allowed roots".to_string());
        }
    }
    roots.sort_by(|a, b| {
        let depth = |path: &PathBuf| path.components().count();
        depth(b).cmp(&depth(a)).then_with(|| a.cmp(b))
    });
    roots.dedup();
    (roots, rejected)
}

/// Returns the denied patterns as a key has them. Relative ones depend on the allowed roots, so these belong to it.
fn deny_of(sandbox: &Sandbox) -> Vec<String> {
    let mut deny = sandbox.deny().patterns().to_vec();
    if deny
        .iter()
        .any(|pattern| !pattern.starts_with("**/") && !pattern.starts_with('/'))
    {
        let roots = sandbox.roots();
        deny.extend(
            roots
                .iter()
                .map(|root| format!("beneath {}", root.display())),
        );
    }
    deny
}

/// Opens the store; without one, says why.
fn open_store(
    config: &SearchConfig,
    sandbox: &Sandbox,
    roots: &[IndexRoot],
    places: &CachePlaces,
) -> (Option<Store>, Option<Fallback>) {
    let fall_back = |code, message| (None, Some(Fallback { code, message }));
    let root = match (&config.index_path, &places.user_cache, &places.temporary) {
        (Some(path), _, _) => sandbox.working_dir().join(path),
        (None, Some(cache), _) => cache.join("forge").join("search-index"),
        (None, None, Some(temporary)) => temporary.clone(),
        (None, None, None) => {
            let message = "no cache directory can be determined; set index_path in [tools.search]";
            return fall_back("NO_CACHE_ROOT", message.to_string());
        }
    };
    let shown = root.display().to_string();
    // The directory may not exist yet, but those above it say where it is.
    let existing = root.ancestors().find_map(|path| {
        let real = path.canonicalize().ok()?;
        Some(real.join(root.strip_prefix(path).ok()?))
    });
    let real = existing.unwrap_or_else(|| root.clone());
    if let Some(tree) = roots.iter().find(|tree| real.starts_with(&tree.path)) {
        let message = format!(
            "the index directory {shown} lies inside of the indexed tree {}; set index_path to one outside",
            tree.path.display()
        );
        return fall_back("INSIDE_TREE", message);
    }
    if let Some(pattern) = sandbox.deny().denies_path_or_parent(&real, &real) {
        let message = format!("the index directory {shown} is denied by the pattern {pattern}");
        return fall_back("DENIED", message);
    }
    let privacy = match config.index_allow_insecure_persistence {
        true => Privacy::Waived,
        false => Privacy::Required,
    };
    let timeout = Duration::from_millis(config.index_lock_timeout_ms);
    match Store::open(real, privacy, timeout) {
        Ok(store) => (Some(store), None),
        Err(error) => fall_back("PERMISSION_DENIED", error.to_string()),
    }
}
