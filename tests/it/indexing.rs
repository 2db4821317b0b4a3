//! Indexes as the tool uses them: which index a request gets, where indexes are stored, and that
//! they never change an answer.

mod budget;
pub(crate) mod keys;
mod limits;
mod modes;
mod places;
mod policy;
mod roots;
mod safety;
mod unlisted;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use forge_search::internal::exec::stop::CancelHandle;
use forge_search::internal::format::manifest::Manifest;
use forge_search::internal::index::builder::BuiltSegment;
use forge_search::internal::tool::config::{IndexMode, SearchConfig};
use forge_search::internal::tool::indexing::{Condition, Explanation, Foreground, Indexes};
use forge_search::internal::tool::request::SearchRequest;
use forge_search::internal::tool::response::{SearchResponse, Stats};
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use serde_json::{Value, json};

use crate::clocks::FOR_EVER_MS;
use crate::support::{Setup, Tree};

/// A tree, with a place for its indexes next to it.
struct World {
    tree: Tree,
    setup: Setup,
    cache: PathBuf,
}

/// Files in several directories; `needle` is in three of them.
const FILES: [(&str, &str); 9] = [
    ("a/one.txt", "a needle in a haystack\n"),
    ("a/two.txt", "nothing but straw\n"),
    ("a/b/three.rs", "fn needle() {}\n"),
    ("a/b/four.txt", "more straw, and hay\n"),
    ("a/b/c/five.txt", "still more straw\n"),
    ("a/b/c/six.rs", "NEEDLE and thread\n"),
    ("b/seven.txt", "a barn full of hay\n"),
    ("b/.hidden/eight.txt", "a hidden needle\n"),
    ("nine.txt", "the last straw\n"),
];

impl World {
    fn new() -> World {
        World::over(Tree::of(FILES))
    }

    fn over(tree: Tree) -> World {
        let cache = tree.root().parent().unwrap().join("cache");
        let setup = tree.setup().config(|config| {
            config.index_mode = IndexMode::Auto;
            config.index_path = Some(cache.clone());
            config.emit_stats = true;
        });
        World { tree, setup, cache }
    }

    fn config(mut self, change: impl FnOnce(&mut SearchConfig)) -> World {
        change(&mut self.setup.config);
        self
    }

    /// Opens the tool as another process would.
    fn open(&self) -> Opened {
        let (tool, context) = self.setup.indexing_tool();
        Opened { tool, context }
    }

    /// Opens the tool and builds the index of every root.
    fn built(&self) -> Opened {
        let opened = self.open();
        opened.build();
        opened
    }

    /// Returns the answer without an index.
    fn plain(&self, request: &Value) -> SearchResponse {
        let setup = self.setup.clone().config(|config| {
            config.index_mode = IndexMode::Off;
            config.emit_stats = false;
        });
        // Nothing is left out for lack of time, on a busy machine either.
        let mut request = request.clone();
        request["timeout_ms"] = FOR_EVER_MS.into();
        setup.search(request)
    }

    /// Returns the names in the store, sorted.
    fn kept(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.cache)
            .map(|entries| {
                entries
                    .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                    .collect()
            })
            .unwrap_or_default();
        names.sort();
        names
    }

    /// Searches, and checks that the answer equals the one without an index. Returns the `stats`.
    #[track_caller]
    fn check(&self, opened: &Opened, request: &Value) -> Stats {
        let mut response = opened.search(request);
        let stats = response.stats.take().unwrap();
        assert_eq!(
            response.to_json(),
            self.plain(request).to_json(),
            "{request}"
        );
        assert_eq!(stats.candidates_total, response.files_scanned, "{request}");
        assert_eq!(
            stats.candidates_total,
            stats.candidates_excluded + stats.candidates_scanned
        );
        assert!(stats.index_exclusion_used || stats.candidates_excluded == 0);
        stats
    }

    /// Checks a request for which an index must exclude files.
    #[track_caller]
    fn check_used(&self, opened: &Opened, request: &Value) -> Stats {
        let stats = self.check(opened, request);
        assert_eq!(stats.index_safety_state, "COMPLETE", "{request}: {stats:?}");
        assert_eq!(stats.index_uncertain_reason, None);
        assert!(stats.index_exclusion_used, "{request}: {stats:?}");
        assert!(stats.candidates_excluded > 0, "{request}: {stats:?}");
        stats
    }

    /// Checks a request for which no index may exclude files.
    #[track_caller]
    fn check_unused(&self, opened: &Opened, request: &Value) -> Stats {
        let stats = self.check(opened, request);
        assert!(!stats.index_exclusion_used, "{request}: {stats:?}");
        stats
    }
}

/// A tool with its indexes.
struct Opened {
    tool: SearchTool,
    context: ToolContext,
}

impl Opened {
    fn indexes(&self) -> &Arc<Indexes> {
        self.tool.indexes().expect("indexing is not off")
    }

    fn roots(&self) -> Vec<PathBuf> {
        self.indexes().roots().map(PathBuf::from).collect()
    }

    fn build(&self) -> Vec<BuiltSegment> {
        let host = Foreground::new(CancelHandle::new());
        let build = |root: PathBuf| {
            let built = self
                .indexes()
                .build(&root, self.context.sandbox.reach(), &host);
            built.unwrap().0
        };
        self.roots().into_iter().map(build).collect()
    }

    /// Makes all indexes usable. Returns for each root whether that took a build.
    fn ensure(&self) -> Vec<bool> {
        let host = Foreground::new(CancelHandle::new());
        let ensure = |root: PathBuf| {
            let built = self
                .indexes()
                .ensure(&root, self.context.sandbox.reach(), &host);
            built.unwrap().is_some()
        };
        self.roots().into_iter().map(ensure).collect()
    }

    fn condition(&self, root: &Path) -> Condition {
        let condition = self.indexes().condition(root, self.context.sandbox.reach());
        condition.expect("an index root")
    }

    fn search(&self, request: &Value) -> SearchResponse {
        self.tool.call(request.clone(), &self.context).unwrap()
    }

    fn explain(&self, request: &Value) -> Explanation {
        let request = SearchRequest::from_value(request.clone()).unwrap();
        self.tool.explain(&request, &self.context).unwrap()
    }
}

fn needle() -> Value {
    json!({"pattern": "needle"})
}

/// Returns the entries below a directory, each with its length and its modification time. The time
/// of `accessed` files, which record the last use of an index, is left out.
fn listing(top: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![top.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                todo.push(path.clone());
            }
            let written = match path.ends_with("accessed") {
                true => SystemTime::UNIX_EPOCH,
                false => meta.modified().unwrap(),
            };
            found.insert(path, (meta.len(), written));
        }
    }
    found
}

/// Reads the manifest in the directory of an index.
fn manifest(dir: &Path) -> Manifest {
    let bytes = fs::read(dir.join("manifest")).unwrap();
    Manifest::decode(bytes.into()).unwrap()
}
