//! Helpers for the tests of the index: indexes over test trees in every variant, and the comparison
//! of answers with and without an index.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forge_search::internal::format::lock::{DirLock, LockFile};
use forge_search::internal::index::builder::{BuildError, BuildHost, BuiltSegment, Progress};
use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::tool::config::{
    Config, IndexMode, IndexStorage, RegexStrategy, SearchConfig,
};
use forge_search::internal::tool::error::ToolError;
use forge_search::internal::tool::indexing::{CachePlaces, Indexes};
use forge_search::internal::tool::response::{SearchResponse, Stats};
use serde_json::Value;

use crate::support::Setup;

/// How an index is stored and used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) storage: IndexStorage,
    /// The user guarantees that the tree does not change.
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

/// Every way to store an index, for trees that may change and for frozen trees.
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

/// The variant that compares everything with the tree on each call. Most tests use it.
pub(crate) const LIVE: Variant = VARIANTS[0];

/// The host of a build in a test.
#[derive(Debug)]
pub(crate) struct Host {
    /// How far the clock is ahead of the system's.
    ahead: Duration,
}

impl Host {
    /// Returns a host for which all changes are long past, so that a build need not wait. The tree
    /// must not change before the comparison is over.
    pub(crate) fn hasty() -> Host {
        Host {
            ahead: Duration::from_secs(3_600),
        }
    }

    /// Returns a host with the system's clock.
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

/// The indexes of a setup, with the directory in which they are stored.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) indexes: Arc<Indexes>,
    /// The directory is removed with the last clone of the setup.
    _place: Option<Arc<tempfile::TempDir>>,
}

impl Kept {
    /// Returns the directory of the only index in the store.
    pub(crate) fn dir(&self) -> PathBuf {
        let store = self.indexes.store().unwrap();
        let listed = store.list().unwrap();
        assert_eq!(listed.len(), 1);
        listed[0].dir.clone()
    }
}

impl Setup {
    /// Lets the tool use indexes, but does not build them. Their roots are the configured ones, or
    /// else the allowed ones.
    pub(crate) fn with_indexes(self, variant: Variant) -> Setup {
        let place = Arc::new(tempfile::tempdir().unwrap());
        let store = place.path().join("store");
        self.with_indexes_in(variant, &store, Some(place))
    }

    /// Does the same with a store in a directory that is not removed.
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

    /// Opens the store of these indexes again, as another process would.
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
        // One of the two strategies shares its index with `search_files`, so that half of the
        // comparisons test a shared index.
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

    /// Returns the indexes, which must be set up.
    #[track_caller]
    pub(crate) fn kept(&self) -> &Kept {
        self.kept.as_ref().expect("a setup with indexes")
    }

    /// Builds the index of the last root, which is the least deep, and returns the result.
    pub(crate) fn build(&self, host: &Host) -> (BuiltSegment, Arc<Snapshot>) {
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
    ) -> Result<(BuiltSegment, Arc<Snapshot>), BuildError> {
        let sandbox = self.context().sandbox;
        self.kept().indexes.build(root, sandbox.reach(), host)
    }

    /// Lets the tool use indexes, and builds them. The tree must not change afterwards.
    pub(crate) fn indexed(self, variant: Variant) -> Setup {
        let setup = self.with_indexes(variant);
        setup.build(&Host::hasty());
        setup
    }

    /// Returns the same setup without indexes.
    pub(crate) fn without_indexes(&self) -> Setup {
        let mut plain = self.clone();
        plain.kept = None;
        plain.config.index_mode = IndexMode::Off;
        plain
    }
}

/// Returns a configuration in which `search_files` indexes the same files as `Search`.
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

/// How often an index was used for answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Answers that were compared.
    pub(crate) compared: u64,
    /// Compared answers for which an index was used.
    pub(crate) used: u64,
    /// Compared answers for which an index excluded files.
    pub(crate) excluding: u64,
    /// Excluded files, in total.
    pub(crate) excluded: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.compared += other.compared;
        self.used += other.used;
        self.excluding += other.excluding;
        self.excluded += other.excluded;
    }

    /// Checks that the comparison proves something: files were excluded for at least one in
    /// `one_in` answers.
    #[track_caller]
    pub(crate) fn check(&self, one_in: u64) {
        println!("{self:?}");
        assert!(
            self.compared > 0 && self.excluding * one_in >= self.compared,
            "files were left out too rarely: {self:?}"
        );
    }
}

/// Separates the `stats` of a response, the only part that an index may change.
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

/// The fields that are best effort too in a process with a live index.
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

/// Returns the fields of `stats` that depend only on the request, the tree and the stored indexes.
///
/// # Panics
///
/// Panics if a field is in no class.
pub(crate) fn deterministic(stats: &Stats) -> Value {
    without(stats, &BEST_EFFORT)
}

/// Returns those of these fields that do not depend on the progress of a live index.
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

/// Converts an answer to JSON, whether it is a response or an error.
pub(crate) fn as_json(answer: &Result<SearchResponse, ToolError>) -> Value {
    match answer {
        Ok(response) => response.to_value(),
        Err(error) => error.to_json(),
    }
}

/// Checks that an answer with an index equals the one without it, apart from `stats`. The error
/// describes the difference. Answers are in the form of [`as_json`].
pub(crate) fn agree(expected: &Value, found: &Value) -> Result<Tally, String> {
    let parts = |answer: &Value| {
        let mut rest = answer.clone();
        // The size of the smallest response depends on the numbers in its stats.
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
        // Both calls were refused.
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

/// Answers a request with and without the indexes of `setup`, and checks that the answers are equal
/// byte for byte. The response is `None` if both calls were refused.
#[track_caller]
pub(crate) fn compare(setup: &Setup, request: &Value) -> (Tally, Option<SearchResponse>) {
    let expected = setup.without_indexes().call(request.clone());
    let found = setup.call(request.clone());
    match agree(&as_json(&expected), &as_json(&found)) {
        Ok(tally) => (tally, found.ok().map(|found| without_stats(found).0)),
        Err(why) => panic!("{request}\n  {why}"),
    }
}

/// Locks an index that is not locked.
pub(crate) fn locked(dir: &Path, file: LockFile) -> DirLock {
    let mut wait = |_| panic!("the lock is free");
    DirLock::exclusive(dir, file, Duration::ZERO, &mut wait).unwrap()
}
