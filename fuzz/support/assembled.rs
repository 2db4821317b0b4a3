//! Segments of texts that are in memory only, and searches in such texts. Several harnesses use
//! them.

use std::ffi::OsString;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forge_search::internal::exec::engine::embedded::FileSearcher;
use forge_search::internal::exec::matching::matcher::LineMatcher;
use forge_search::internal::exec::question::query::{Case, Fold, Query, QueryOptions};
use forge_search::internal::exec::stop::Stop;
use forge_search::internal::format::segment::StampRecord;
use forge_search::internal::index::bloom::BloomParams;
use forge_search::internal::index::builder::{
    BuildError, BuildHost, BuildOptions, BuiltSegment, FileReader, Progress, assemble,
};
use forge_search::internal::index::casefold::Casefold;
use forge_search::internal::index::enumerate::{DirEntry, Enumeration, FileEntry, SideEntry};
use forge_search::internal::index::plan::{Strategy, SupersetSafe};
use forge_search::internal::index::root_dir::RootDir;
use forge_search::internal::index::stamp::Stamp;
use forge_search::internal::index::walk::{Place, RuleSets};

/// The maximal length of a text that is tokenized.
pub(crate) const MAX_TEXT: u64 = 1 << 20;

/// A tree that is not on the disk.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// The path, the number of the parent and the ranks of each directory. Parents come first.
    pub(crate) dirs: Vec<(PathBuf, u32, Range<u32>)>,
    /// The number of the directory, the name and the text of each file, by rank.
    pub(crate) files: Vec<(u32, OsString, Vec<u8>)>,
    /// The files with line breaks in their names: the number of the directory, the rank that
    /// follows, and the name.
    pub(crate) side: Vec<(u32, u32, OsString)>,
}

/// Builds the segment of a tree, with n-grams folded in this way.
pub(crate) fn assembled(texts: &Texts, casefold: Casefold) -> Vec<u8> {
    let mut out = Vec::new();
    assemble_to(texts, casefold, &mut out).expect("memory takes everything");
    out
}

/// Builds the segment of a tree into an output that may fail.
pub(crate) fn assemble_to(
    texts: &Texts,
    casefold: Casefold,
    out: &mut dyn Write,
) -> Result<BuiltSegment, BuildError> {
    let mut tree = Enumeration::default();
    for (path, parent, ranks) in &texts.dirs {
        tree.dirs.push(DirEntry {
            place: Arc::new(Place {
                root: root().clone(),
                real: path.clone(),
                logical: path.clone(),
            }),
            parent: *parent,
            ranks: ranks.clone(),
            stamp: Some(stamp(0)),
            sets: RuleSets::EVERY,
        });
    }
    for (dir, name, text) in &texts.files {
        tree.files.push(FileEntry {
            dir: *dir,
            name: name.clone(),
            stamp: Some(stamp(text.len())),
            linked: false,
            sets: RuleSets::EVERY,
        });
    }
    for (dir, before_rank, name) in &texts.side {
        tree.side.push(SideEntry {
            dir: *dir,
            before_rank: *before_rank,
            name: name.clone(),
            sets: RuleSets::EVERY,
        });
    }
    let options = BuildOptions {
        words: true,
        params: BloomParams::from_config(MAX_TEXT, 0.01),
        casefold,
        max_tokenized_bytes: MAX_TEXT,
        max_memory_bytes: 1 << 20,
    };
    let read = |reader: &mut FileReader, rank: usize| {
        let (_, _, text) = &texts.files[rank];
        reader.tokenize(Path::new("a.rs"), text, stamp(text.len()))
    };
    assemble(&tree, i64::MAX, &options, &Nobody, out, &read)
}

/// Returns the stamp of a file that has not changed for a long time.
fn stamp(len: usize) -> Stamp {
    Stamp::from_record(StampRecord {
        len: len as u64,
        modified_ns: 1,
        changed_ns: 1,
        device: 1,
        inode: 1,
        links: 1,
    })
}

/// Returns an existing directory, whose contents do not matter.
fn root() -> &'static Arc<RootDir> {
    static ROOT: OnceLock<Arc<RootDir>> = OnceLock::new();
    ROOT.get_or_init(|| {
        let place = Path::new(".").canonicalize().expect("a working directory");
        Arc::new(RootDir::open(&place).expect("a working directory"))
    })
}

/// A build host that never stops a build and shows no progress.
struct Nobody;

impl BuildHost for Nobody {
    fn now_ns(&self) -> i64 {
        i64::MAX
    }

    fn pause(&self, _time: Duration) {}

    fn progress(&self, _progress: Progress) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// A pattern with its options.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) pattern: String,
    pub(crate) fixed: bool,
    pub(crate) word: bool,
    pub(crate) fold: bool,
}

/// A prepared search.
pub(crate) struct Search {
    query: Arc<Query>,
    matcher: LineMatcher,
}

impl Asked {
    /// Prepares the search; `None` if the pattern is refused.
    pub(crate) fn prepare(&self) -> Option<Search> {
        let options = QueryOptions {
            fixed_strings: self.fixed,
            word: self.word,
            case: match self.fold {
                true => Case::Insensitive,
                false => Case::Sensitive,
            },
            max_results: 1,
            max_matches_per_file: 1,
            max_file_size: u64::MAX,
            ..QueryOptions::default()
        };
        let query = Arc::new(Query::new(&[&self.pattern], &options).ok()?);
        let matcher = LineMatcher::new(&query.pattern).ok()?;
        Some(Search { query, matcher })
    }
}

impl Search {
    /// Plans the search with every strategy.
    pub(crate) fn plans(&self) -> Vec<SupersetSafe> {
        let pattern = &self.query.pattern;
        let fold = pattern.fold() == Fold::AsciiInsensitive;
        let mut plans: Vec<SupersetSafe> = [Strategy::RequiredLiteral, Strategy::Boolean]
            .into_iter()
            .map(|strategy| SupersetSafe::for_expression(pattern.hir(), fold, strategy))
            .collect();
        if pattern.is_fixed() {
            plans.push(SupersetSafe::for_literal(pattern.original(), fold));
        }
        plans
    }

    /// Returns true if a file with this text must not be excluded.
    pub(crate) fn finds(&self, text: &[u8]) -> bool {
        let mut searcher = FileSearcher::new(self.query.clone(), &self.matcher, Stop::new());
        let outcome = searcher.search_bytes(text);
        assert!(outcome.complete);
        outcome.has_match() || outcome.error.is_some()
    }
}
