//! Eligible files: the ordered sources of files that execution works on.
//!
//! A source decides which files a request searches, in emission order. [`WalkSource`] lists
//! directories, [`ListSource`] has a fixed list, and a `CatalogSource` takes files from an index.
//! An engine never decides eligibility.

mod classes;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::GlobBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::types::Types;

use crate::exec::event::FileError;
use crate::exec::listed::ListedFiles;
use crate::exec::reach::{Reach, Resolved};
use crate::exec::stop::Stop;
use crate::index::root_dir::EntryMeta;
use crate::index::segment::words::WordHit;
use crate::index::stamp::Stamp;
use crate::index::walk::{DirNode, Entry, FoundFile, Place, TraversalOptions, Walk};
use crate::index::words::postings::FileCounts;
use crate::index::words::record::WordRecord;

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

    /// Returns the terms that a file has by its word record.
    pub(crate) fn of(&self, record: &WordRecord) -> KnownWords {
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

/// The path filters of a request: globs in gitignore syntax, and file types.
///
/// A path is kept if every filter keeps it.
#[derive(Clone, Debug)]
pub struct Globs {
    /// A kept file must match one of these globs.
    include: Option<Gitignore>,
    /// A path that matches one of these globs is not kept.
    exclude: Option<Gitignore>,
    /// Globs of which the last one that matches decides.
    ordered: Option<OrderedGlobs>,
    /// The file types to keep or to skip.
    types: Option<Types>,
    /// The searched path, relative to the directory that the globs start from.
    prefix: PathBuf,
    /// The path of the only file that is kept.
    only: Option<PathBuf>,
    /// Whether each `.git` is skipped.
    no_git_dirs: bool,
    /// The text of all filters, which identifies them.
    key: String,
}

/// Globs of ripgrep's `-g`: the last one that matches decides, and a leading `!` excludes.
#[derive(Clone, Debug)]
struct OrderedGlobs {
    globs: Gitignore,
    /// Whether a kept file must match one of the globs.
    restrict: bool,
}

impl OrderedGlobs {
    fn keep(&self, path: &Path, is_dir: bool) -> bool {
        let own = self.globs.matched(path, is_dir);
        if !own.is_none() || is_dir || !self.restrict {
            return !own.is_whitelist();
        }
        // A glob that matches a directory selects all files in it.
        let parents = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        parents.is_some_and(|dir| {
            self.globs
                .matched_path_or_any_parents(dir, true)
                .is_ignore()
        })
    }
}

/// Why a glob is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct GlobError {
    /// The request's field with the glob.
    pub field: &'static str,
    /// The problem, with the glob.
    pub message: String,
}

impl Globs {
    /// Compiles the globs of a tool's request. An empty `include` means no restriction.
    ///
    /// # Errors
    ///
    /// [`GlobError`] for an empty or invalid glob, or one that is a comment in gitignore syntax.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Globs, GlobError> {
        Ok(Globs {
            include: compile(INCLUDE, include)?,
            exclude: compile("exclude_glob", exclude)?,
            key: format!("{include:?} {exclude:?}"),
            ..Globs::none()
        })
    }

    /// Creates filters that keep every path.
    pub fn none() -> Globs {
        Globs {
            include: None,
            exclude: None,
            ordered: None,
            types: None,
            prefix: PathBuf::new(),
            only: None,
            no_git_dirs: false,
            key: String::new(),
        }
    }

    /// Creates a filter that keeps one file, given by its name, directly in the search root.
    pub fn only(name: &OsStr) -> Globs {
        Globs {
            only: Some(PathBuf::from(name)),
            key: format!("only {name:?}"),
            ..Globs::none()
        }
    }

    /// Adds globs of which the last one that matches decides. A leading `!` excludes. If at least
    /// one glob has no `!`, files without a matching glob are not kept.
    ///
    /// # Errors
    ///
    /// [`GlobError`] for an empty or invalid glob, or one that is a comment in gitignore syntax.
    pub fn and_ordered(self, globs: &[String]) -> Result<Globs, GlobError> {
        if globs.is_empty() {
            return Ok(self);
        }
        Ok(Globs {
            ordered: compile(ORDERED, globs)?.map(|compiled| OrderedGlobs {
                globs: compiled,
                restrict: globs.iter().any(|glob| !glob.starts_with('!')),
            }),
            key: format!("{} and {globs:?}", self.key),
            ..self
        })
    }

    /// Adds file types. `name` identifies them.
    #[must_use]
    pub fn and_types(self, types: Types, name: &str) -> Globs {
        Globs {
            types: Some(types).filter(|types| !types.is_empty()),
            key: format!("{} of types {name}", self.key),
            ..self
        }
    }

    /// Excludes each `.git` below the searched path, a directory or a file.
    #[must_use]
    pub fn and_no_git_dirs(self) -> Globs {
        Globs {
            key: format!("{} without .git", self.key),
            no_git_dirs: true,
            ..self
        }
    }

    /// Interprets globs relative to a directory other than the searched path. `prefix` is the
    /// searched path, relative to that directory.
    #[must_use]
    pub fn from_above(self, prefix: PathBuf) -> Globs {
        Globs {
            key: format!("{} from {prefix:?}", self.key),
            prefix,
            ..self
        }
    }

    /// Returns true if no filter is set.
    pub fn is_empty(&self) -> bool {
        self.include.is_none()
            && self.exclude.is_none()
            && self.ordered.is_none()
            && self.types.is_none()
            && self.only.is_none()
            && !self.no_git_dirs
    }

    /// Returns a text that identifies these filters.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns whether to keep a path, which is relative to the searched path. For a directory:
    /// whether anything in it can be eligible.
    pub fn keep(&self, path: &Path, is_dir: bool) -> bool {
        if let Some(only) = &self.only {
            return !is_dir && path == only;
        }
        if self.no_git_dirs && path.file_name() == Some(OsStr::new(".git")) {
            return false;
        }
        if self.prefix.as_os_str().is_empty() {
            return self.keep_from_base(path, is_dir);
        }
        self.keep_from_base(&self.prefix.join(path), is_dir)
    }

    fn keep_from_base(&self, path: &Path, is_dir: bool) -> bool {
        let excluded = |list: &Gitignore| list.matched(path, is_dir).is_ignore();
        if self.exclude.as_ref().is_some_and(excluded) {
            return false;
        }
        let kept = |list: &OrderedGlobs| list.keep(path, is_dir);
        if !self.ordered.as_ref().is_none_or(kept) {
            return false;
        }
        if is_dir {
            return true;
        }
        let of_type = |types: &Types| !types.matched(path, false).is_ignore();
        if !self.types.as_ref().is_none_or(of_type) {
            return false;
        }
        let included = |list: &Gitignore| list.matched_path_or_any_parents(path, false).is_ignore();
        self.include.as_ref().is_none_or(included)
    }
}

/// The field with the globs that a file must match.
const INCLUDE: &str = "include_glob";

/// The flag with the globs that are applied in order.
pub(crate) const ORDERED: &str = "-g";

fn compile(field: &'static str, globs: &[String]) -> Result<Option<Gitignore>, GlobError> {
    if globs.is_empty() {
        return Ok(None);
    }
    let refuse = |message: String| Err(GlobError { field, message });
    if field == INCLUDE && globs.iter().all(|glob| glob.starts_with('!')) {
        return refuse(format!(
            "{} starts with !, which undoes an earlier glob of the same list, so the list matches \
             nothing; give globs without !, in the list of excluded globs to leave files out",
            globs.join(", ")
        ));
    }
    let mut all = GitignoreBuilder::new("");
    for glob in globs {
        if glob.trim().is_empty() {
            return refuse("a glob is empty; remove it or write a pattern, such as *.rs".into());
        }
        if glob.contains('\n') {
            return refuse(format!(
                "the glob {glob:?} contains a line feed; give each glob as a separate entry"
            ));
        }
        // The gitignore parser accepts an unclosed class as a name. In a request it is a mistake.
        if let Err(error) = GlobBuilder::new(glob.trim_start_matches('!')).build() {
            return refuse(format!("the glob {glob:?} is invalid: {}", error.kind()));
        }
        if glob.starts_with('#') {
            return refuse(format!(
                "the glob {glob:?} is a comment in gitignore syntax and matches nothing; write \\# for a \
                 name that starts with #"
            ));
        }
        if let Err(error) = all.add_line(None, &classes::without_slash(glob)) {
            return refuse(format!("the glob {glob:?} is invalid: {error}"));
        }
    }
    let together = match all.build() {
        Ok(built) => return Ok(Some(built)),
        Err(error) => error,
    };
    // The invalid glob is only looked for after a failure, because building each glob takes longer
    // than many searches.
    for glob in globs {
        let mut one = GitignoreBuilder::new("");
        if let Err(error) = one.add_line(None, glob).and_then(|one| one.build()) {
            return refuse(format!("the glob {glob:?} is invalid: {error}"));
        }
    }
    refuse(format!("the globs are invalid together: {together}"))
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
    type Unit = DirNode;

    fn start(&self) -> Vec<Item<DirNode>> {
        vec![Item::Unit(self.walk.start())]
    }

    fn expand(&self, node: DirNode, stop: &Stop) -> Vec<Item<DirNode>> {
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
                Entry::Dir(node) => Item::Unit(node),
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

/// The unit of a [`ListSource`], which has no units.
#[derive(Debug)]
pub enum NoUnit {}

impl FileSource for ListSource {
    type Unit = NoUnit;

    fn start(&self) -> Vec<Item<NoUnit>> {
        self.0.iter().cloned().map(Item::File).collect()
    }

    fn expand(&self, unit: NoUnit, _: &Stop) -> Vec<Item<NoUnit>> {
        match unit {}
    }
}

#[cfg(test)]
pub(crate) mod filtered;

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(include: &[&str], exclude: &[&str]) -> Result<Globs, GlobError> {
        let own = |globs: &[&str]| {
            globs
                .iter()
                .map(|glob| glob.to_string())
                .collect::<Vec<_>>()
        };
        Globs::new(&own(include), &own(exclude))
    }

    #[test]
    fn globs_are_gitignore_syntax_anchored_at_the_root() {
        let kept = |include: &[&str], exclude: &[&str], path: &str| {
            globs(include, exclude)
                .unwrap()
                .keep(Path::new(path), false)
        };
        assert!(kept(&["*.rs"], &[], "src/a.rs"));
        assert!(!kept(&["*.rs"], &[], "src/a.c"));
        assert!(kept(&["/src/*.rs"], &[], "src/a.rs"));
        assert!(!kept(&["/src/*.rs"], &[], "lib/src/a.rs"));
        assert!(kept(&["src/"], &[], "src/deep/a.rs"));
        assert!(!kept(&["*.rs", "!gen.rs"], &[], "gen.rs"));
        assert!(!kept(&["*.rs"], &["gen*"], "gen.rs"));
        assert!(kept(&[], &["gen*"], "main.rs"));
        assert!(
            !globs(&[], &["target/"])
                .unwrap()
                .keep(Path::new("target"), true)
        );
        assert!(kept(&[], &["target/"], "target"));
    }

    #[test]
    fn the_same_globs_have_one_key_and_others_have_another() {
        let key =
            |include: &[&str], exclude: &[&str]| globs(include, exclude).unwrap().key().to_owned();
        assert_eq!(key(&["a", "b"], &["c"]), key(&["a", "b"], &["c"]));
        let all = [
            key(&["a", "b"], &["c"]),
            key(&["b", "a"], &["c"]),
            key(&["a"], &["b", "c"]),
            key(&["a\", \"b"], &["c"]),
            key(&["a"], &[]),
            key(&[], &["a"]),
            key(&[], &[]),
        ];
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn useless_globs_are_refused() {
        for (include, word) in [
            ("", "empty"),
            ("  ", "empty"),
            ("#x", "comment"),
            ("a[", "invalid"),
            ("!a", "undoes an earlier glob"),
        ] {
            let error = globs(&[include], &[]).unwrap_err();
            assert_eq!(error.field, "include_glob");
            assert!(error.message.contains(word), "{error}");
        }
        assert_eq!(globs(&[], &["{a"]).unwrap_err().field, "exclude_glob");
    }
}
