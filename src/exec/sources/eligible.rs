//! Eligible files: the ordered sources of files that execution works on.
//!
//! A source decides which files a request searches, in emission order. [`WalkSource`] lists
//! directories, [`ListSource`] has a fixed list, and a `CatalogSource` takes files from an index.
//! An engine never decides eligibility.

mod classes;
#[cfg(test)]
pub(crate) mod filtered;
mod globs;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exec::answer::listed::ListedFiles;
use crate::exec::answer::outcome::FileError;
use crate::exec::sources::reach::{Reach, Resolved};
use crate::exec::stop::Stop;
use crate::index::root_dir::EntryMeta;
use crate::index::segment::words::WordHit;
use crate::index::stamp::Stamp;
use crate::index::walk::{DirNode, Entry, FoundFile, Place, TraversalOptions, Walk};
use crate::index::words::counts::WordCounts;
use crate::index::words::postings::FileCounts;
pub(crate) use globs::ORDERED;
pub use globs::{GlobError, Globs};

/// An eligible file to be searched.
///
/// A source may know that some eligible files have neither results nor errors under the query. It
/// *skips* them: they are counted as if they had been searched, but not opened.
#[derive(Clone, Debug)]
pub struct EligibleFile {
    /// The location of the file.
    pub found: FoundFile,
    /// The number of skipped files directly before this one, in emission order. The file carries
    /// this count so that files with skipped ones between them still form one piece of work.
    pub passed_before: u64,
    /// The state in which the source recorded the file, if known.
    pub stamp: Option<Stamp>,
    /// The parts of the file that can contain matches, if known.
    pub(crate) within: Option<Box<CandidateSpans>>,
    /// The terms of a ranked question that the file has, if known.
    pub(crate) words: Option<Box<KnownWords>>,
    /// The index of the searched path that contains the file, from 0.
    pub target: usize,
    /// Whether the request names this file itself.
    pub is_named: bool,
}

impl EligibleFile {
    /// Creates the source's entry for a file that a request names.
    pub(crate) fn named(target: &Resolved) -> EligibleFile {
        let dir = target.relative.parent().unwrap_or(Path::new(""));
        let place = Place {
            root: target.root.clone(),
            real: dir.to_path_buf(),
            logical: PathBuf::new(),
        };
        let name = target.relative.file_name().unwrap_or_default();
        let found = FoundFile {
            dir: Arc::new(place),
            name: name.to_os_string(),
            target: None,
        };
        EligibleFile {
            is_named: true,
            ..found.into()
        }
    }
}

/// The terms of a ranked question by which files are looked for.
#[derive(Debug)]
pub struct WantedWords {
    /// The terms of texts that matter to the question.
    pub keys: Vec<u32>,
    /// For each key, whether a file is looked for by it. The others only count for the order.
    pub is_wanted: Vec<bool>,
}

impl WantedWords {
    /// Returns true if files are looked for by a hit.
    pub(crate) fn wants(&self, hit: &WordHit) -> bool {
        self.is_wanted.get(hit.term as usize) == Some(&true)
    }

    /// Returns the terms that a file has by its word counts.
    pub(crate) fn of(&self, record: &WordCounts) -> KnownWords {
        let hits = (0u32..).zip(&self.keys).filter_map(|(term, key)| {
            let entry = record.get(*key)?;
            Some(WordHit {
                term,
                count: entry.count,
                marks: entry.marks,
            })
        });
        KnownWords {
            counts: record.into(),
            hits: hits.collect(),
        }
    }
}

/// The terms of a ranked question that a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownWords {
    pub(crate) counts: FileCounts,
    pub(crate) hits: Vec<WordHit>,
}

/// The parts of a file outside of which no line matches the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CandidateSpans {
    spans: Vec<Range<u64>>,
    stamp: Option<Stamp>,
}

impl CandidateSpans {
    /// Records the parts in which lines may match: ranges of bytes, of whole lines, in ascending
    /// order. `stamp` is the state of the file for which this holds. `None` if the user guarantees
    /// that the file does not change.
    pub(crate) fn new(spans: Vec<Range<u64>>, stamp: Option<Stamp>) -> CandidateSpans {
        CandidateSpans { spans, stamp }
    }

    /// Returns the parts in which lines may match.
    pub(crate) fn spans(&self) -> &[Range<u64>] {
        &self.spans
    }

    /// Returns true if the parts are valid for a file with this metadata.
    pub(crate) fn holds(&self, meta: &EntryMeta) -> bool {
        self.stamp
            .is_none_or(|stamp| Stamp::of(meta) == Some(stamp))
    }
}

impl From<FoundFile> for EligibleFile {
    fn from(found: FoundFile) -> EligibleFile {
        EligibleFile {
            found,
            passed_before: 0,
            stamp: None,
            within: None,
            words: None,
            target: 0,
            is_named: false,
        }
    }
}

impl EligibleFile {
    /// Returns the path through which the file was reached, relative to the search root.
    pub fn logical(&self) -> PathBuf {
        self.found.logical()
    }

    /// Returns the real absolute path.
    pub fn absolute(&self) -> PathBuf {
        self.found.absolute()
    }

    /// Opens the file beneath its root. Fails if a part of the path has become a symbolic link.
    ///
    /// # Errors
    ///
    /// Any error of opening. Its text is fit for the `errors` of a response.
    pub fn open(&self) -> io::Result<(File, EntryMeta)> {
        self.found.open()
    }
}

/// An item that a source yields when a unit is expanded, in emission order.
#[derive(Debug)]
pub enum Item<U> {
    /// A file to be searched.
    File(EligibleFile),
    /// Files that are listed without being opened. A source yields them only if the request asks
    /// for a list.
    Listed(ListedFiles),
    /// A number of skipped files. If a file to be searched follows in the same expansion,
    /// [`EligibleFile::passed_before`] may hold the count instead, with the same meaning.
    Passed(u64),
    /// A unit to be expanded later, at its place in the order.
    Unit(U),
    /// An entry that could not be listed.
    Error(FileError),
}

/// A part of a walk or of a catalog that is not expanded yet. Its source expands it.
#[derive(Debug)]
pub enum PathUnit {
    /// A directory to be listed.
    Dir(DirNode),
    /// A range of ranks in a catalog.
    Ranks(Range<u32>),
}

/// An ordered, lazily expanded source of eligible files.
///
/// A source skips only files that provably have neither results nor errors.
pub trait FileSource: Send + Sync + 'static {
    /// A part of the source that is not expanded yet.
    type Unit: Send;

    /// Returns the whole source, unexpanded.
    fn start(&self) -> Vec<Item<Self::Unit>>;

    /// Expands a unit into its items, in emission order. May return early once `stop` is raised.
    fn expand(&self, unit: Self::Unit, stop: &Stop) -> Vec<Item<Self::Unit>>;

    /// Returns true once the expansion of a unit has failed. That unit and later ones may lack
    /// files then. Units that were expanded before are complete.
    fn has_failed(&self) -> bool {
        false
    }
}

/// A source that walks the tree to find eligible files.
pub struct WalkSource {
    walk: Walk,
    globs: Globs,
    /// The most components of a file's path, if there is a limit.
    max_depth: Option<usize>,
    /// Set once an eligible file is known to lie deeper. `None` if the caller need not know.
    is_cut: Option<Arc<AtomicBool>>,
}

impl WalkSource {
    /// Creates a source of the files below a directory, filtered by globs.
    pub(crate) fn over(
        target: &Resolved,
        traversal: TraversalOptions,
        reach: &Arc<Reach>,
        global_excludes: Option<&Path>,
        globs: Globs,
    ) -> WalkSource {
        let (root, beneath) = (target.root.clone(), target.relative.clone());
        let deny = reach.deny();
        let walk = reach.walk(root, beneath, traversal, deny, global_excludes);
        WalkSource::new(walk, globs)
    }

    /// Creates a source over a walk, filtered by globs.
    pub fn new(walk: Walk, globs: Globs) -> WalkSource {
        WalkSource {
            walk,
            globs,
            max_depth: None,
            is_cut: None,
        }
    }

    /// Excludes files with more than `max_depth` components in their paths. A file directly in the
    /// searched directory has one. Sets `is_cut`, if given, when at least one such file exists.
    #[must_use]
    pub fn within_depth(self, max_depth: usize, is_cut: Option<Arc<AtomicBool>>) -> WalkSource {
        WalkSource {
            max_depth: Some(max_depth),
            is_cut,
            ..self
        }
    }

    fn list(&self, node: &DirNode) -> Vec<Entry> {
        if self.globs.is_empty() {
            return self.walk.list(node, &|_, _| true);
        }
        self.walk
            .list(node, &|path, is_dir| self.globs.keep(path, is_dir))
    }

    /// Returns true if the files of a directory lie too deep.
    fn is_too_deep(&self, node: &DirNode) -> bool {
        let depth = |place: &Arc<Place>| place.logical.components().count();
        let depth = node.places().next().map_or(0, depth);
        self.max_depth.is_some_and(|max| depth >= max)
    }

    /// Looks for an eligible file below a directory that lies too deep. Stops at the first one.
    fn look_deeper(&self, node: DirNode, stop: &Stop) {
        let Some(is_cut) = &self.is_cut else {
            return;
        };
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            if stop.is_raised() || is_cut.load(Ordering::Relaxed) {
                return;
            }
            for entry in self.list(&node) {
                match entry {
                    Entry::File(..) => is_cut.store(true, Ordering::Relaxed),
                    Entry::Dir(node) => open.push(node),
                    Entry::Error(..) => {}
                }
            }
        }
    }
}

impl FileSource for WalkSource {
    type Unit = PathUnit;

    fn start(&self) -> Vec<Item<PathUnit>> {
        vec![Item::Unit(PathUnit::Dir(self.walk.start()))]
    }

    fn expand(&self, unit: PathUnit, stop: &Stop) -> Vec<Item<PathUnit>> {
        let PathUnit::Dir(node) = unit else {
            return Vec::new();
        };
        if stop.is_raised() {
            return Vec::new();
        }
        let mut items = Vec::new();
        for entry in self.list(&node) {
            items.push(match entry {
                Entry::File(file, _) => Item::File(file.into()),
                Entry::Dir(node) if self.is_too_deep(&node) => {
                    self.look_deeper(node, stop);
                    continue;
                }
                Entry::Dir(node) => Item::Unit(PathUnit::Dir(node)),
                Entry::Error(path, message) => Item::Error(FileError {
                    target: 0,
                    path,
                    message,
                }),
            });
        }
        items
    }
}

/// A fixed, ordered list of eligible files.
#[derive(Clone, Debug)]
pub struct ListSource(pub Vec<EligibleFile>);

impl FileSource for ListSource {
    type Unit = PathUnit;

    fn start(&self) -> Vec<Item<PathUnit>> {
        self.0.iter().cloned().map(Item::File).collect()
    }

    fn expand(&self, _: PathUnit, _: &Stop) -> Vec<Item<PathUnit>> {
        Vec::new()
    }
}

/// A path that can't be searched, with its error.
#[derive(Debug)]
pub struct MissingSource(pub FileError);

impl FileSource for MissingSource {
    type Unit = PathUnit;

    fn start(&self) -> Vec<Item<PathUnit>> {
        vec![Item::Error(self.0.clone())]
    }

    fn expand(&self, _: PathUnit, _: &Stop) -> Vec<Item<PathUnit>> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
