//! From configuration to the indexes of a tool: the indexed directories, the storage, and how
//! indexes are built and kept current.
//!
//! This module owns the selection and validation of index roots.
//! [`exec::indexes`](crate::exec::indexes) decides how a request uses an index.
//!
//! A program that links the library creates [`Indexes`] once and passes them to
//! [`SearchTool::with_indexes`](super::search::SearchTool::with_indexes). A long-running program
//! makes them [live](Indexes::live): they are opened or built in the background and follow every
//! change. Any other program builds them explicitly; calls never build:
//!
//! ```
//! use std::time::Duration;
//!
//! use forge_search::internal::exec::stop::CancelHandle;
//! use forge_search::internal::tool::config::{Config, IndexMode, IndexStorage};
//! use forge_search::internal::tool::engines::Engines;
//! use forge_search::internal::tool::indexing::{CachePlaces, Foreground, Indexes, LiveEnvironment};
//! use forge_search::internal::tool::sandbox::Sandbox;
//!
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("greeting.txt"), "hello\nworld\n")?;
//! # let tree = dir.path();
//! let mut config = Config::library_default();
//! config.search.index_mode = IndexMode::On;
//! config.search.index_storage = IndexStorage::Memory;
//! let sandbox = Sandbox::new(&config.sandbox, tree)?;
//! let engines = Engines::embedded();
//!
//! let places = CachePlaces::default();
//! let indexes = Indexes::new(&config.search, &engines, &sandbox, None, &places)
//!     .expect("index_mode is not off");
//! let host = Foreground::new(CancelHandle::new());
//! for root in indexes.roots() {
//!     indexes.ensure(root, sandbox.reach(), &host)?;
//! }
//!
//! let environment = LiveEnvironment::new(sandbox.reach().clone());
//! indexes.live(&config.search, &environment)?;
//! // Only tests and benchmarks wait for a live index.
//! indexes.wait_live(tree.canonicalize()?.as_path(), Duration::from_secs(60));
//! assert!(indexes.shut_down());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod places;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::exec::as_text::shown;
use crate::exec::indexes::{Place, Settings, access};
use crate::exec::stop::CancelHandle;
use crate::index::bloom::BloomParams;
use crate::index::builder::BuildOptions;
use crate::index::casefold::Casefold;
use crate::index::live::{LiveOptions, Thresholds};
use crate::index::pace::{Activity, BuildBudget, Pace};
use crate::index::plan::Strategy;
use crate::index::walk::{Follow, IgnoreRules, TraversalOptions};
use crate::tool::config::{Config, IndexMode, IntegrityCheck, RegexStrategy, SearchConfig};
use crate::tool::engines::Engines;
use crate::tool::sandbox::Sandbox;
use crate::tool::search_files::FilesTool;

pub use crate::exec::indexes::{
    Background, BuildMonitor, BuildReport, Condition, Contents, Explanation, Fallback, Foreground,
    IndexDecision, IndexRequest, Indexes, LiveEnvironment, LiveSettings, OUT_OF_RANGE,
    OtherRootIndex, ProcessIndexStatus, Report, RootStatus, WallClock, wall_clock_ns,
};
pub use places::CachePlaces;

/// Returns the traversal of indexes and questions. `rules` are the ignore rules, unless the
/// configuration disables them.
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
    /// Creates the indexes of a configuration, for requests with ripgrep's ignore files. Opens no
    /// index yet. `None` if `index_mode` is `off`.
    ///
    /// The keys contain the access rights of the process, which are read once, here. A program that
    /// changes its rights has to create its indexes again.
    pub fn new(
        config: &SearchConfig,
        engines: &Engines,
        sandbox: &Sandbox,
        global_excludes: Option<&Path>,
        places: &CachePlaces,
    ) -> Option<Indexes> {
        let rules = IgnoreRules::All;
        Indexes::by_rules(config, rules, engines, sandbox, global_excludes, places)
    }

    /// Creates indexes like [`Indexes::new`], for requests with other ignore files.
    pub fn by_rules(
        config: &SearchConfig,
        rules: IgnoreRules,
        engines: &Engines,
        sandbox: &Sandbox,
        global_excludes: Option<&Path>,
        places: &CachePlaces,
    ) -> Option<Indexes> {
        let traversal = index_traversal(config, rules);
        Indexes::set_up(
            config,
            traversal,
            &[engines],
            sandbox,
            global_excludes,
            places,
        )
    }

    /// Creates the indexes of both tools, one for each root. A file that both tools find is in the
    /// index once, and the catalog records the ignore rules by which each file is eligible.
    /// `engines` are those of `Search` and of `search_files`. The settings in `[tools.search]`
    /// decide how the indexes are kept current.
    ///
    /// `None` in these cases, and then each tool needs its own indexes ([`Indexes::new`] and
    /// [`FilesTool::indexes_for`](super::search_files::FilesTool::indexes_for)):
    ///
    /// - One of the tools has no indexes.
    /// - The tools differ in the storage of indexes, or in the hidden and ignored files in them.
    /// - One of the engines can't search a list of files.
    pub fn of_both_tools(
        config: &Config,
        engines: [&Engines; 2],
        sandbox: &Sandbox,
        global_excludes: Option<&Path>,
        places: &CachePlaces,
    ) -> Option<Indexes> {
        let chains = engines.iter().flat_map(|engines| engines.chain());
        let mut able = chains.map(|engine| engine.takes_file_lists());
        if !able.all(|able| able)
            || !can_share_index(&config.search, &FilesTool::search_config(config))
        {
            return None;
        }
        let (search, rules) = (&config.search, IgnoreRules::AllAndGit);
        let traversal = index_traversal(search, rules);
        Indexes::set_up(
            search,
            traversal,
            &engines,
            sandbox,
            global_excludes,
            places,
        )
    }

    fn set_up(
        config: &SearchConfig,
        traversal: TraversalOptions,
        engines: &[&Engines],
        sandbox: &Sandbox,
        global_excludes: Option<&Path>,
        places: &CachePlaces,
    ) -> Option<Indexes> {
        if config.index_mode == IndexMode::Off {
            return None;
        }
        let (roots, rejected) = index_roots(config, sandbox);
        let mut chains = engines.iter().flat_map(|engines| engines.chain());
        let listless = chains.find(|engine| !engine.takes_file_lists());
        let listless = listless.map(|engine| engine.id().to_string());
        let mut backends: Vec<String> = engines.iter().map(|engines| ids(engines)).collect();
        backends.dedup();
        let (access, unknown) = match access::of_process() {
            Ok(access) => (access, None),
            Err(error) => (access::UNKNOWN.to_string(), Some(error)),
        };
        let trees = roots.iter().map(PathBuf::as_path);
        let place = places::choose(config, sandbox, trees, places, unknown);
        log(config, &rejected, &place);
        Some(Indexes::of(Settings {
            roots,
            rejected,
            traversal,
            backend: backends.join(","),
            listless,
            strategy: match config.index_regex_strategy {
                RegexStrategy::RequiredLiteral => Strategy::RequiredLiteral,
                RegexStrategy::Boolean => Strategy::Boolean,
            },
            frozen: config.index_frozen,
            build: build_options(config),
            reach: sandbox.reach().clone(),
            global_excludes: global_excludes.map(Path::to_path_buf),
            access,
            place,
            handles: places.handles.clone(),
        }))
    }

    /// Starts the live indexes of all roots with the settings of a configuration, see
    /// [`Indexes::live_as`].
    ///
    /// # Errors
    ///
    /// An error of the system if a thread can't be started.
    pub fn live(
        &self,
        config: &SearchConfig,
        environment: &LiveEnvironment,
    ) -> std::io::Result<()> {
        let settings = LiveSettings {
            live_options: live_options(config, environment),
            pace: pace(config),
            budget: budget(config),
            keeps_unfinished: config.index_checkpoint_on_shutdown,
        };
        self.live_as(&settings, environment)
    }
}

impl Background {
    /// Creates the host of a build that starts now, with the pace and the budget of a
    /// configuration, see [`Background::within`].
    pub fn new(config: &SearchConfig, activity: Arc<Activity>, cancel: CancelHandle) -> Background {
        Background::within(pace(config), budget(config), activity, cancel)
    }
}

/// Returns true if two tools can share an index: both have one, at the same place, with the same
/// files except for ignore rules.
fn can_share_index(one: &SearchConfig, other: &SearchConfig) -> bool {
    let of = |config: &SearchConfig| {
        (
            config.enabled,
            config.index_mode == IndexMode::Off,
            config.index_storage,
            config.index_path.clone(),
            config.index_default_hidden,
            config.index_default_follow,
            config.index_default_no_ignore,
        )
    };
    of(one) == of(other)
}

/// Returns the names of engines in the form of an index key.
fn ids(engines: &Engines) -> String {
    let ids = engines.chain().iter().map(|engine| engine.id().to_string());
    ids.collect::<Vec<_>>().join("+")
}

fn build_options(config: &SearchConfig) -> BuildOptions {
    BuildOptions {
        words: false,
        params: BloomParams::from_config(
            config.index_max_tokenized_bytes,
            config.bloom_target_fp_rate,
        ),
        casefold: Casefold::Ascii,
        max_tokenized_bytes: BuildOptions::tokenized_bytes(
            config.index_max_tokenized_bytes,
            config.index_max_memory_bytes,
        ),
        max_memory_bytes: config.index_max_memory_bytes,
    }
}

fn pace(config: &SearchConfig) -> Pace {
    Pace {
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        max_cpu_percent: config.index_build_max_cpu_percent,
        throttle_ms: config.index_build_throttle_ms,
        idle_boost_ms: config.index_idle_boost_ms,
    }
}

fn budget(config: &SearchConfig) -> BuildBudget {
    BuildBudget {
        max_ms: config.index_build_timeout_ms,
        max_files: config.index_build_max_files,
        max_bytes: config.index_build_max_bytes,
    }
}

fn live_options(config: &SearchConfig, environment: &LiveEnvironment) -> LiveOptions {
    LiveOptions {
        watch: config.index_watch,
        debounce: Duration::from_millis(config.index_watch_debounce_ms),
        reconcile_max_files: config.reconcile_max_files,
        reconcile_max: Duration::from_millis(config.reconcile_max_ms),
        reconcile_every: environment.reconcile_every,
        watcher_patience: environment.watcher_patience,
        merge_files: environment.merge_files,
        thresholds: (config.index_mode == IndexMode::Auto).then_some(Thresholds {
            files: config.index_auto_threshold_files,
            bytes: config.index_auto_threshold_bytes,
            reeval_calls: config.index_auto_reeval_calls,
        }),
        check_calls: (config.index_integrity_check == IntegrityCheck::Periodic)
            .then_some(config.index_integrity_period_calls),
        retry: config.index_retry_on_failure,
        cooldown: match config.index_cooldown_ms {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        },
        shutdown: Duration::from_millis(config.index_shutdown_timeout_ms),
    }
}

/// Logs the rejected roots, and that indexes are not stored as configured. The lack of a default
/// place is a warning only if the configuration requires an index.
fn log(config: &SearchConfig, rejected: &[String], place: &Place) {
    for why in rejected {
        tracing::warn!(target: "forge_search::index", "{why}");
    }
    let (Place::Memory(Some(fallback)) | Place::Nowhere(fallback)) = place else {
        return;
    };
    let message = format!("indexes are not kept: {}", fallback.message);
    if config.index_path.is_some() || config.index_mode == IndexMode::On {
        tracing::warn!(target: "forge_search::index", code = fallback.code, "{message}");
    } else {
        tracing::debug!(target: "forge_search::index", code = fallback.code, "{message}");
    }
}

/// Returns the index roots, deepest first, and the reasons why configured ones were rejected.
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
        match validate(&root, sandbox) {
            Ok(canonical) => roots.push(canonical),
            Err(why) => rejected.push(format!("index root {}: {why}", shown(&root))),
        }
    }
    roots.sort_by(|a, b| {
        let depth = |path: &PathBuf| path.components().count();
        depth(b).cmp(&depth(a)).then_with(|| a.cmp(b))
    });
    roots.dedup();
    (roots, rejected)
}

/// Returns the canonical path of an index root, or the problem with its remedy.
fn validate(root: &Path, sandbox: &Sandbox) -> Result<PathBuf, String> {
    let canonical = root.canonicalize().map_err(|error| {
        format!("{error}; name a directory that exists in index_roots of [tools.search]")
    })?;
    if !canonical.is_dir() {
        return Err(
            "it is not a directory; name a directory in index_roots of [tools.search]".to_string(),
        );
    }
    let Some((_, relative)) = sandbox.reach().locate(&canonical) else {
        return Err(
            "it is outside the allowed roots; add it to allowed_roots of [tools.sandbox], or \
             remove it from index_roots of [tools.search]"
                .to_string(),
        );
    };
    match sandbox
        .reach()
        .indexed_deny()
        .denies_path_or_parent(&canonical, &relative)
    {
        Some(pattern) => Err(format!(
            "it is denied by the pattern {pattern}; remove it from index_roots of [tools.search], or the \
             pattern from denied_patterns of [tools.sandbox]"
        )),
        None => Ok(canonical),
    }
}
