//! What the tests of the index share: indexes over test trees in every way of keeping them, and the
//! comparison of answers with those that are given without an index.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forge_search::format::lock::{DirLock, LockFile};
use forge_search::index::builder::{BuildError, BuildHost, Built, Progress};
use forge_search::index::snapshot::Snapshot;
use forge_search::tool::config::{Config, IndexMode, IndexStorage, RegexStrategy, SearchConfig};
use forge_search::tool::error::ToolError;
use forge_search::tool::indexing::{CachePlaces, Indexes};
use forge_search::tool::response::{SearchResponse, Stats};
use serde_json::Value;

use crate::support::Setup;

/// How an index is kept and used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) storage: IndexStorage,
    /// Whether the user vouches that the tree does not change.
    pub(crate) frozen: bool,
    pub(crate) strategy: RegexStrategy,
}

impl Variant {
    const fn new(storage: IndexStorage, frozen: bool, strategy: RegexStrategy) -> Variant {
        Variant {
            storage,
            frozen,
            strategy,
        }
    }
}

/// Every way of keeping an index, with trees that may change and trees that do not.
pub(crate) const VARIANTS: [Variant; if cfg!(feature = "sqlite") { 6 } else { 4 }] = [
    Variant::new(IndexStorage::Memory, false, RegexStrategy::Boolean),
    Variant::new(IndexStorage::Memory, true, RegexStrategy::RequiredLiteral),
    Variant::new(IndexStorage::Mmap, false, RegexStrategy::RequiredLiteral),
    Variant::new(IndexStorage::Mmap, true, RegexStrategy::Boolean),
    #[cfg(feature = "sqlite")]
    Variant::new(IndexStorage::Sqlite, false, RegexStrategy::Boolean),
    #[cfg(feature = "sqlite")]
    Variant::new(IndexStorage::Sqlite, true, RegexStrategy::RequiredLiteral),
];

/// The variant that looks at everything on each call, which is what most tests are about.
pub(crate) const LIVE: Variant = VARIANTS[0];

/// Someone who has an index built.
#[derive(Debug)]
pub(crate) struct Host {
    /// How far the clock is ahead.
    ahead: Duration,
}

impl Host {
    /// A clock on which all changes so far are long past, so that a build need not wait. Only for trees that
    /// nobody changes before the comparison is over.
    pub(crate) fn hasty() -> Host {
        Host {
            ahead: Duration::from_secs(3_600),
        }
    }

    /// The system's clock.
    pub(crate) fn patient() -> Host {
        Host {
            ahead: Duration::ZERO,
        }
    }
}

impl BuildHost for Host {
    fn now_ns(&self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        (now.unwrap() + self.ahead).as_nanos().try_into().unwrap()
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn progress(&self, _: Progress) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// The indexes of a setup, with the directory in which they are kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) indexes: Arc<Indexes>,
    /// Removed with the last of the setups.
    _place: Option<Arc<tempfile::TempDir>>,
}

impl Kept {
    /// The directory of the only index in the store.
    pub(crate) fn dir(&self) -> PathBuf {
        let store = self.indexes.store().unwrap();
        let listed = store.list().unwrap();
        assert_eq!(listed.len(), 1);
        listed[0].dir.clone()
    }
}

impl Setup {
    /// Lets the tool use indexes, none of which is built yet. Their roots are the allowed ones, unless some are
    /// configured.
    pub(crate) fn with_indexes(self, variant: Variant) -> Setup {
        let place = Arc::new(tempfile::tempdir().unwrap());
        let store = place.path().join("store");
        self.with_indexes_in(variant, &store, Some(place))
    }

    /// The same, kept in a directory that is not removed.
    pub(crate) fn with_indexes_at(self, variant: Variant, store: &Path) -> Setup {
        self.with_indexes_in(variant, store, None)
    }

    fn with_indexes_in(
        mut self,
        variant: Variant,
        store: &Path,
        place: Option<Arc<tempfile::TempDir>>,
    ) -> Setup {
        let roots: Vec<PathBuf> = {
            let context = self.context();
            let roots = context.sandbox.reach().roots();
            roots.into_iter().map(Path::to_path_buf).collect()
        };
        let config = &mut self.config;
        config.index_mode = IndexMode::On;
        config.index_storage = variant.storage;
        config.index_frozen = variant.frozen;
        config.index_regex_strategy = variant.strategy;
        config.index_path = Some(store.to_path_buf());
        config.emit_stats = true;
        if config.index_roots.is_empty() {
            config.index_roots = roots;
        }
        self.opened(place)
    }

    /// Opens the store of these indexes anew, as another process would.
    pub(crate) fn reopened(self) -> Setup {
        let place = self.kept()._place.clone();
        self.opened(place)
    }

    fn opened(mut self, place: Option<Arc<tempfile::TempDir>>) -> Setup {
        let context = self.context();
        let places = CachePlaces::default();
        let global = self.global_excludes.as_deref();
        let sandbox = &context.sandbox;
        let engines = &self.engines;
        // Half of what is compared with a walk uses an index that `search_files` has too.
        let is_shared = self.config.index_regex_strategy == RegexStrategy::RequiredLiteral;
        let shared = is_shared.then(|| {
            let both = agreeing(&self.config);
            Indexes::of_both_tools(&both, [engines, engines], sandbox, global, &places)
        });
        let own = || Indexes::new(&self.config, engines, sandbox, global, &places);
        let indexes = shared.flatten().or_else(own).unwrap();
        self.kept = Some(Kept {
            indexes: Arc::new(indexes),
            _place: place,
        });
        self
    }

    /// The indexes.
    #[track_caller]
    pub(crate) fn kept(&self) -> &Kept {
        self.kept.as_ref().expect("a setup with indexes")
    }

    /// Builds the index of every root; returns what was built for the last one, the least deep.
    pub(crate) fn build(&self, host: &Host) -> (Built, Arc<Snapshot>) {
        let indexes = &self.kept().indexes;
        let roots: Vec<PathBuf> = indexes.roots().map(Path::to_path_buf).collect();
        let mut built = roots.iter().map(|root| self.build_root(root, host));
        built.next_back().expect("a root").unwrap()
    }

    /// Builds the index of one root.
    pub(crate) fn build_root(
        &self,
        root: &Path,
        host: &Host,
    ) -> Result<(Built, Arc<Snapshot>), BuildError> {
        let sandbox = self.context().sandbox;
        self.kept().indexes.build(root, sandbox.reach(), host)
    }

    /// Lets the tool use indexes that are built at once. Nobody may change the tree from here on.
    pub(crate) fn indexed(self, variant: Variant) -> Setup {
        let setup = self.with_indexes(variant);
        setup.build(&Host::hasty());
        setup
    }

    /// The same without indexes.
    pub(crate) fn without_indexes(&self) -> Setup {
        let mut plain = self.clone();
        plain.kept = None;
        plain.config.index_mode = IndexMode::Off;
        plain
    }
}

/// Returns a configuration by which `search_files` indexes what `Search` does.
pub(crate) fn agreeing(search: &SearchConfig) -> Config {
    let mut config = Config::library_default();
    config.search = search.clone();
    let files = &mut config.search_files;
    files.enabled = search.enabled;
    files.index_mode = search.index_mode;
    files.index_storage = search.index_storage;
    files.index_path = search.index_path.clone();
    files.include_hidden = search.index_default_hidden;
    files.respect_gitignore = !search.index_default_no_ignore;
    config
}

/// What an index had to do with answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Answers that were compared.
    pub(crate) compared: u64,
    /// Of these, the ones for which an index was used.
    pub(crate) used: u64,
    /// Of these, the ones in which it left files out.
    pub(crate) excluding: u64,
    /// Files that were left out, all in all.
    pub(crate) excluded: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.compared += other.compared;
        self.used += other.used;
        self.excluding += other.excluding;
        self.excluded += other.excluded;
    }

    /// Checks that the comparison proves something: that files were left out in one of so many answers.
    #[track_caller]
    pub(crate) fn check(&self, one_in: u64) {
        println!("{self:?}");
        assert!(
            self.compared > 0 && self.excluding * one_in >= self.compared,
            "files were left out too rarely: {self:?}"
        );
    }
}

/// Takes `stats` out of a response, the one thing that an index may change.
pub(crate) fn without_stats(mut response: SearchResponse) -> (SearchResponse, Stats) {
    let stats = response.stats.take().expect("stats");
    (response, stats)
}

/// The fields of `stats` that are best effort in every process (FR-LSI-STAT-03).
const BEST_EFFORT: [&str; 6] = [
    "elapsed_ms",
    "fallback_passes_skipped",
    "build_phase",
    "build_files_total",
    "build_files_done",
    "build_elapsed_ms",
];

/// The fields that are best effort as well in a process in which the index lives.
const LIVING: [&str; 7] = [
    "index_safety_state",
    "index_uncertain_reason",
    "index_exclusion_used",
    "storage_mode",
    "storage_fallback_reason",
    "candidates_excluded",
    "candidates_scanned",
];

/// The fields that are deterministic in every process.
const DETERMINISTIC: [&str; 6] = [
    "stats_version",
    "fallback_used",
    "fallback_reason",
    "fuzzy_levels_tried",
    "fallback_skipped_reason",
    "candidates_total",
];

/// The fields of `stats` that depend on nothing but the request, the tree and what is kept.
///
/// # Panics
///
/// If there is a field of no class.
pub(crate) fn deterministic(stats: &Stats) -> Value {
    without(stats, &BEST_EFFORT)
}

/// The fields among them that do not depend on how far an index is that lives.
pub(crate) fn deterministic_beside_a_worker(stats: &Stats) -> Value {
    without(stats, &[&BEST_EFFORT[..], &LIVING].concat())
}

fn without(stats: &Stats, fields: &[&str]) -> Value {
    let mut stats = serde_json::to_value(stats).unwrap();
    let all = stats.as_object_mut().unwrap();
    let known = [&BEST_EFFORT[..], &LIVING, &DETERMINISTIC].concat();
    for field in all.keys() {
        assert!(known.contains(&field.as_str()), "{field} is of no class");
    }
    all.retain(|field, _| !fields.contains(&field.as_str()));
    stats
}

/// An answer as JSON, be it a response or a refusal.
pub(crate) fn as_json(answer: &Result<SearchResponse, ToolError>) -> Value {
    match answer {
        Ok(response) => response.to_value(),
        Err(error) => error.to_json(),
    }
}

/// Checks that an answer given with an index is the one given without, apart from `stats`; else says how they differ.
/// Answers are as [`as_json`] makes them.
pub(crate) fn agree(expected: &Value, found: &Value) -> Result<Tally, String> {
    let parts = |answer: &Value| {
        let mut rest = answer.clone();
        // How many bytes the least response needs depends on the numbers in its stats.
        if let Some(Value::String(message)) = rest.pointer_mut("/error/message")
            && let Some(at) = message.find("; it needs ")
        {
            message.truncate(at);
        }
        let stats = rest.as_object_mut().and_then(|all| all.remove("stats"));
        (rest, stats)
    };
    let (expected, _) = parts(expected);
    let (found, stats) = parts(found);
    let shown = stats.clone().unwrap_or_default();
    if found != expected {
        return Err(format!(
            "with an index    {found}\n  without an index {expected}\n  {shown}"
        ));
    }
    let mut tally = Tally {
        compared: 1,
        ..Tally::default()
    };
    let Some(timed_out) = found.get("timed_out") else {
        // Refused both times.
        return Ok(tally);
    };
    let number = |name: &str| shown[name].as_u64();
    let (total, excluded) = (number("candidates_total"), number("candidates_excluded"));
    let (Some(total), Some(excluded), Some(scanned)) =
        (total, excluded, number("candidates_scanned"))
    else {
        return Err(format!("no stats: {shown}"));
    };
    let used = shown["index_exclusion_used"] == true;
    let sound = *timed_out == false
        && found["files_scanned"] == total
        && excluded + scanned == total
        && (used || excluded == 0);
    if !sound {
        return Err(format!("{found} does not go with {shown}"));
    }
    tally.used = u64::from(used);
    tally.excluding = u64::from(excluded > 0);
    tally.excluded = excluded;
    Ok(tally)
}

/// Answers a request with and without the indexes of `setup` and checks that the answers are equal byte for
/// byte; `None` if the request was refused both times.
#[track_caller]
pub(crate) fn compare(setup: &Setup, request: &Value) -> (Tally, Option<SearchResponse>) {
    let expected = setup.without_indexes().call(request.clone());
    let found = setup.call(request.clone());
    match agree(&as_json(&expected), &as_json(&found)) {
        Ok(tally) => (tally, found.ok().map(|found| without_stats(found).0)),
        Err(why) => panic!("{request}\n  {why}"),
    }
}

/// Locks an index that nobody else has locked.
pub(crate) fn locked(dir: &Path, file: LockFile) -> DirLock {
    let mut wait = |_| panic!("the lock is free");
    DirLock::exclusive(dir, file, Duration::ZERO, &mut wait).unwrap()
}
