//! Tests indexes in SQLite databases: the answers are those of other storages, the schema is the
//! reference schema, and damage to the file does no harm.

mod answers;
mod crash;
mod damage;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forge_search::internal::format::error::FormatError;
use forge_search::internal::format::manifest::KeyParts;
use forge_search::internal::index::builder::{BuildError, BuildHost, BuiltSegment, Progress};
use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::index::store::Store;
use forge_search::internal::tool::config::{IndexMode, IndexStorage, RegexStrategy};
use forge_search::internal::tool::indexing::{CachePlaces, Indexes};
use forge_search::internal::tool::response::SearchResponse;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::support::{Setup, Tree};

/// A build host with the system's clock.
struct Host<F: Fn(Progress) + Sync = fn(Progress)> {
    hears: F,
}

impl Host {
    fn new() -> Host {
        Host { hears: |_| {} }
    }
}

impl<F: Fn(Progress) + Sync> BuildHost for Host<F> {
    fn now_ns(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_nanos() as i64
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn progress(&self, progress: Progress) {
        (self.hears)(progress);
    }

    fn stopped(&self) -> bool {
        false
    }
}

/// The time that a process with little patience waits for a lock.
const HASTY: Duration = Duration::from_millis(50);

/// A tree with an index in some storage.
struct Place<'a> {
    setup: Setup,
    tree: &'a Tree,
    cache: PathBuf,
    key: OnceLock<KeyParts>,
}

impl<'a> Place<'a> {
    fn new(tree: &'a Tree, cache: &Path, storage: IndexStorage) -> Place<'a> {
        let setup = tree.setup().config(|config| {
            config.index_mode = IndexMode::On;
            config.index_storage = storage;
            config.index_path = Some(cache.to_path_buf());
            config.index_regex_strategy = RegexStrategy::Boolean;
            config.index_lock_timeout_ms = 60_000;
            config.default_timeout_ms = 600_000;
            config.emit_stats = true;
        });
        Place {
            setup,
            tree,
            cache: cache.to_path_buf(),
            key: OnceLock::new(),
        }
    }

    /// Sets a short lock timeout.
    fn hasty(mut self) -> Place<'a> {
        self.setup = self.setup.config(|config| {
            config.index_lock_timeout_ms = HASTY.as_millis() as u64;
        });
        self
    }

    /// Returns the indexes as a process that has just started sees them.
    fn indexes(&self) -> Arc<Indexes> {
        let context = self.setup.context();
        let indexes = Indexes::new(
            &self.setup.config,
            &self.setup.engines,
            &context.sandbox,
            self.setup.global_excludes.as_deref(),
            &CachePlaces::default(),
        );
        let indexes = indexes.unwrap();
        assert_eq!(indexes.fallback(), None);
        Arc::new(indexes)
    }

    fn try_build(
        &self,
        indexes: &Indexes,
        host: &dyn BuildHost,
    ) -> Result<(BuiltSegment, Arc<Snapshot>), BuildError> {
        indexes.build(self.tree.root(), self.setup.context().sandbox.reach(), host)
    }

    /// Builds the index. Returns the indexes of the building process, and the snapshot.
    fn build(&self) -> (Arc<Indexes>, Arc<Snapshot>) {
        let indexes = self.indexes();
        let (_, snapshot) = self.try_build(&indexes, &Host::new()).unwrap();
        (indexes, snapshot)
    }

    /// The key of the index, which is the same for every storage.
    fn key(&self) -> &KeyParts {
        self.key.get_or_init(|| {
            let mut other = Place::new(self.tree, &self.cache, IndexStorage::Memory);
            other.setup.global_excludes = self.setup.global_excludes.clone();
            let sandbox = other.setup.context().sandbox;
            other.indexes().status(sandbox.reach()).remove(0).key
        })
    }

    /// Opens the index as a process does that has just started.
    fn load(&self) -> Result<Option<Snapshot>, FormatError> {
        self.store().load(self.key(), &mut std::thread::sleep)
    }

    /// Opens an index that must exist and be intact. See [`Place::load`].
    #[track_caller]
    fn open(&self) -> Snapshot {
        self.load().unwrap().expect("an index")
    }

    /// Answers a request with the given indexes.
    fn answer(&self, indexes: &Arc<Indexes>, request: &Value) -> SearchResponse {
        let tool = self.setup.tool().with_indexes(Some(indexes.clone()));
        tool.call(request.clone(), &self.setup.context()).unwrap()
    }

    fn store(&self) -> Store {
        self.indexes().store().unwrap().clone()
    }

    /// The directory of the index.
    fn dir(&self) -> PathBuf {
        let mut dirs: Vec<PathBuf> = fs::read_dir(&self.cache)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(dirs.len(), 1, "{dirs:?}");
        dirs.remove(0)
    }

    fn database(&self) -> PathBuf {
        self.dir().join("index.sqlite")
    }
}

/// A directory for indexes, outside of any tree.
fn cache() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("cache");
    (dir, path)
}

/// Opens a database as another program would.
fn connect(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap()
}

/// A tree with every kind of file that an index distinguishes.
fn varied() -> Tree {
    let tree = Tree::new();
    tree.file(".gitignore", "*.ignored\n")
        .dir(".git")
        .file("x.ignored", "needle_in_a_haystack")
        .file("empty.txt", "")
        .file("tiny.txt", "ab")
        .file("sub/.ignore", "skipped/\n")
        .file("sub/skipped/file.txt", "needle_in_a_haystack")
        .file(
            "sub/deeper/Mixed.txt",
            "Needle_In_A_Haystack and KMALLOC_ARRAY(x)\n",
        )
        .file("crlf.txt", "first line\r\nneedle_in_a_haystack\r\n")
        .file("binary.bin", [0xFFu8; 300])
        .file("nul.bin", b"needle\0needle_in_a_haystack")
        .file("nfd.txt", "cafe\u{301} needle_in_a_haystack")
        .file("caf\u{e9}.txt", "composed name")
        .file("cafe\u{301}.txt", "decomposed name")
        .file("caf\u{e9}/x.txt", "composed directory")
        .file("cafe\u{301}/y.txt", "decomposed directory")
        .file("line\\nbreak.txt", "needle_in_a_haystack")
        .file("invalid-\\xFF.txt", "needle_in_a_haystack")
        .file("invalid-\\xFE.txt", "another thing")
        .file("dir-\\xFF/inside.txt", "inside_of_it")
        .file("wide.txt", "\u{1F600}\u{1F601}\u{1F602}\u{1F603} Übergröße");
    // The file is larger than a part, so it has several slots.
    let mut large = String::new();
    for n in 0..9_000u32 {
        let word = n.wrapping_mul(2_654_435_761);
        large.push_str(&format!("line {n}: {word:08x} lorem ipsum\n"));
    }
    tree.file("large.txt", &large);
    // There are enough files for blocks of several words, and for n-grams with their own rows.
    for n in 0..700u32 {
        let word = n.wrapping_mul(0x9E37_79B9);
        let name = format!("src/d{}/f{n}.rs", n % 23);
        tree.file(
            &name,
            format!("fn common_{n}() {{ let x_{word:08x} = {n}; }}\n"),
        );
    }
    tree
}
