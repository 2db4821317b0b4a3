//! A tool over a tree with a published index, for benches.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forge_search::internal::index::builder::{BuildHost, Progress};
use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::tool::config::{Config, IndexMode};
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::indexing::{CachePlaces, Indexes};
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};

/// A build host that never stops a build and shows no progress.
pub(crate) struct Host;

impl BuildHost for Host {
    fn now_ns(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i64::try_from(now.as_nanos()).unwrap()
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn progress(&self, _: Progress) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// A tool over a tree, with a published index.
pub(crate) struct Indexed {
    pub(crate) tool: SearchTool,
    pub(crate) plain: SearchTool,
    pub(crate) indexes: Arc<Indexes>,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) context: ToolContext,
    _cache: tempfile::TempDir,
}

/// Builds the index of a tree. The index is frozen, so the tree must not change.
pub(crate) fn indexed(top: &Path, config: Config) -> (Indexed, Arc<Snapshot>) {
    let cache = tempfile::tempdir().unwrap();
    let mut config = config;
    config.search.index_mode = IndexMode::On;
    config.search.index_frozen = true;
    let sandbox = Arc::new(Sandbox::new(&config.sandbox, top).unwrap());
    let engines = Engines::embedded();
    let places = CachePlaces {
        user_cache: Some(cache.path().to_path_buf()),
        temporary: None,
        ..CachePlaces::default()
    };
    let indexes = Indexes::new(&config.search, &engines, &sandbox, None, &places).unwrap();
    let indexes = Arc::new(indexes);
    let (built, snapshot) = indexes
        .build(sandbox.working_dir(), sandbox.reach(), &Host)
        .unwrap();
    let size = built.summary.len as f64 / built.meta.text_bytes as f64;
    println!(
        "{} files, {} MB of text, index {:.2} % of it",
        built.meta.files,
        built.meta.text_bytes / 1_000_000,
        size * 100.0
    );
    let plain = SearchTool::new(config.search.clone(), engines.clone());
    let tool = SearchTool::new(config.search.clone(), engines).with_indexes(Some(indexes.clone()));
    let indexed = Indexed {
        tool,
        plain,
        indexes,
        context: ToolContext::new(sandbox.clone()),
        sandbox,
        _cache: cache,
    };
    (indexed, snapshot)
}
