//! Eligible files: the ordered source that execution works on.
//!
//! The source decides which files a request is about, in emission order, and execution does not care who
//! made it. Eligibility is never an engine's (FR-LSI-ELIG-01).

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
use crate::exec::reach::{Reach, Resolved};
use crate::exec::stop::Stop;
use crate::index::beneath::EntryMeta;
use crate::index::stamp::Stamp;
use crate::index::walk::{DirNode, Entry, FoundFile, Place, TraversalOptions, Walk};

/// An eligible file that is to be searched.
///
/// A source may know that some eligible files have no event and no error under the query. It then *passes
/// them over*: they are counted as if they had been searched, and no one looks at them (FR-LSI-STABLE-01).
#[derive(Clone, Debug)]
pub struct EligibleFile {
    /// The file.
    pub found: FoundFile,
    /// How many eligible files directly before this one, in emission order, were passed over. The count rides
    /// on the file so that files with passed ones between them still make up one piece of work.
    pub passed_before: u64,
    /// The state in which the source knows the file, if it knows one.
    pub stamp: Option<Stamp>,
    /// Where in the file matches can be, if that is known.
    pub(crate) within: Option<Box<Within>>,
    /// Which of the searched paths the file lies in, from 0.
    pub target: usize,
    /// The request names this file itself.
    pub is_named: bool,
}

impl EligibleFile {
    /// Returns the one file that a request names.
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

/// What a source knows about the inside of a file: no line outside of some parts matches the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Within {
    spans: Vec<Range<u64>>,
    stamp: Option<Stamp>,
}

impl Within {
    /// Notes the parts in which lines may match: ranges of bytes, of whole lines, in ascending order. `stamp` is the state
    /// of the file for which this is known; `None` if the user vouches for it.
    pub(crate) fn new(spans: Vec<Range<u64>>, stamp: Option<Stamp>) -> Within {
        Within { spans, stamp }
    }

    /// Returns the parts in which lines may match.
    pub(crate) fn spans(&self) -> &[Range<u64>] {
        &self.spans
    }

    /// Returns true if it is still known when the file is found to be like this.
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

    /// Opens the file beneath its root; nothing on the way may have become a symbolic link.
    ///
    /// # Errors
    ///
    /// Any error of opening, in words fit for the `errors` of a response.
    pub fn open(&self) -> io::Result<(File, EntryMeta)> {
        self.found.open()
    }
}

/// What a source yields when a unit is expanded, in emission order.
#[derive(Debug)]
pub enum Item<U> {
    /// A file to be searched.
    File(EligibleFile),
    /// So many eligible files that are passed over. Where a file to be searched follows in the same expansion,
    /// the count may as well ride on it; the two ways mean the same.
    Passed(u64),
    /// More, to be expanded when its turn comes.
    Unit(U),
    /// Something that could not be enumerated.
    Error(FileError),
}

/// An ordered, lazily expanded source of eligible files.
///
/// A source passes over only files of which it can prove that they have neither an event nor an error.
pub trait FileSource: Send + Sync + 'static {
    /// A part of the source that is not expanded yet.
    type Unit: Send;

    /// Returns the whole source, unexpanded.
    fn start(&self) -> Vec<Item<Self::Unit>>;

    /// Expands a unit into its items, in emission order. May return early once `stop` is raised.
    fn expand(&self, unit: Self::Unit, stop: &Stop) -> Vec<Item<Self::Unit>>;

    /// Returns true once the expansion of a unit has failed: then that unit and later ones may lack
    /// files. Units that were expanded before are whole.
    fn has_failed(&self) -> bool {
        false
    }
}

/// The filters of a request by path: globs in gitignore syntax, and types of files.
///
/// All of them restrict: a path is kept if every filter keeps it.
#[derive(Clone, Debug)]
pub struct Globs {
    /// A file has to match one of these globs.
    include: Option<Gitignore>,
    /// Nothing that matches one of these globs is kept.
    exclude: Option<Gitignore>,
    /// Globs of which the last one that matches decides.
    ordered: Option<OrderedGlobs>,
    /// Types of files.
    types: Option<Types>,
    /// The directory of the searched path, relative to the directory that the globs start from.
    prefix: PathBuf,
    /// The path of the one file that counts.
    only: Option<PathBuf>,
    /// Whether each `.git` is left out.
    no_git_dirs: bool,
    /// All of it as it was given, told apart from all others.
    key: String,
}

/// Globs as ripgrep's `-g` takes them: the last one that matches decides, and a leading `!` excludes.
#[derive(Clone, Debug)]
struct OrderedGlobs {
    globs: Gitignore,
    /// Whether a file has to match one of them to be kept.
    restrict: bool,
}

impl OrderedGlobs {
    fn keep(&self, path: &Path, is_dir: bool) -> bool {
        let own = self.globs.matched(path, is_dir);
        if !own.is_none() || is_dir || !self.restrict {
            return !own.is_whitelist();
        }
        // A glob that matches a directory is for all files in it.
        let parents = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        parents.is_some_and(|dir| {
            self.globs
                .matched_path_or_any_parents(dir, true)
                .is_ignore()
        })
    }
}

/// Why a glob is refused (FR-LS-VAL-06).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct GlobError {
    /// The request field.
    pub field: &'static str,
    /// What is wrong, with the glob.
    pub message: String,
}

impl Globs {
    /// Compiles the globs of a tool's request. An empty `include` means no restriction
    /// (FR-LS-SRC-05).
    ///
    /// # Errors
    ///
    /// An empty or invalid glob, or one that gitignore syntax takes for a comment.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Globs, GlobError> {
        Ok(Globs {
            include: compile(INCLUDE, include)?,
            exclude: compile("exclude_glob", exclude)?,
            key: format!("{include:?} {exclude:?}"),
            ..Globs::none()
        })
    }

    /// Keeps everything.
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

    /// Keeps one file, given by its name, that lies directly in the search root.
    pub fn only(name: &OsStr) -> Globs {
        Globs {
            only: Some(PathBuf::from(name)),
            key: format!("only {name:?}"),
            ..Globs::none()
        }
    }

    /// Adds globs of which the last one that matches decides. A leading `!` excludes; if at least
    /// one glob has none, other files are not kept.
    ///
    /// # Errors
    ///
    /// As [`Globs::new`].
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

    /// Adds types of files; `name` tells them apart from all others.
    #[must_use]
    pub fn and_types(self, types: Types, name: &str) -> Globs {
        Globs {
            types: Some(types).filter(|types| !types.is_empty()),
            key: format!("{} of types {name}", self.key),
            ..self
        }
    }

    /// Leaves out each `.git` below the searched path, be it a directory or a file.
    #[must_use]
    pub fn and_no_git_dirs(self) -> Globs {
        Globs {
            key: format!("{} without .git", self.key),
            no_git_dirs: true,
            ..self
        }
    }

    /// Lets globs start from a directory other than the searched path, which lies at `prefix`
    /// below it.
    #[must_use]
    pub fn from_above(self, prefix: PathBuf) -> Globs {
        Globs {
            key: format!("{} from {prefix:?}", self.key),
            prefix,
            ..self
        }
    }

    /// Returns true when there is nothing to filter.
    pub fn is_empty(&self) -> bool {
        self.include.is_none()
            && self.exclude.is_none()
            && self.ordered.is_none()
            && self.types.is_none()
            && self.only.is_none()
            && !self.no_git_dirs
    }

    /// Returns a name for these filters, which no others have.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Decides about a path relative to the searched path. For a directory: whether anything in it
    /// can be eligible.
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

/// The field whose globs a file has to match.
const INCLUDE: &str = "include_glob";

/// The flag whose globs are taken in order.
pub(crate) const ORDERED: &str = "-g";

fn compile(field: &'static str, globs: &[String]) -> Result<Option<Gitignore>, GlobError> {
    if globs.is_empty() {
        return Ok(None);
    }
    let refuse = |message: String| Err(GlobError { field, message });
    if field == INCLUDE && globs.iter().all(|glob| glob.starts_with('!')) {
        return refuse(format!(
            "{} only takes back, so the list matches nothing; a leading ! undoes an earlier glob of the same \
             list. Give globs without !, in the list of those to be left out if that is meant",
            globs.join(", ")
        ));
    }
    let mut all = GitignoreBuilder::new("");
    for glob in globs {
        if glob.trim().is_empty() {
            return refuse(
                "a glob is empty; leave it out or write what to match, such as *.rs".into(),
            );
        }
        if glob.contains('\n') {
            return refuse(format!(
                "the glob {glob:?} holds a line feed; give each glob as an entry of its own"
            ));
        }
        // The gitignore parser takes an unclosed class for a name; in a request it is a slip.
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
    // Which one is it? Only now, because building takes longer than many a search.
    for glob in globs {
        let mut one = GitignoreBuilder::new("");
        if let Err(error) = one.add_line(None, glob).and_then(|one| one.build()) {
            return refuse(format!("the glob {glob:?} is invalid: {error}"));
        }
    }
    refuse(format!("the globs are invalid together: {together}"))
}

/// Eligible files found by walking the tree.
pub struct WalkSource {
    walk: Walk,
    globs: Globs,
    /// The most components of a file's path.
    max_depth: Option<usize>,
    /// Raised once an eligible file is known to lie deeper, if that is asked for.
    is_cut: Option<Arc<AtomicBool>>,
}

impl WalkSource {
    /// Creates a source over a directory that may be read, filtered by globs.
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

    /// Leaves out files whose path has more components; those directly in the top have one. Raises
    /// `is_cut`, if there is one, when at least one such file exists.
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

    /// Returns true for a directory whose files lie too deep.
    fn is_too_deep(&self, node: &DirNode) -> bool {
        let depth = |place: &Arc<Place>| place.logical.components().count();
        let depth = node.places().next().map_or(0, depth);
        self.max_depth.is_some_and(|max| depth >= max)
    }

    /// Looks for an eligible file in a directory that lies too deep, until one is found.
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

/// A [`ListSource`] has no parts.
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
            ("!a", "only takes back"),
        ] {
            let error = globs(&[include], &[]).unwrap_err();
            assert_eq!(error.field, "include_glob");
            assert!(error.message.contains(word), "{error}");
        }
        assert_eq!(globs(&[], &["{a"]).unwrap_err().field, "exclude_glob");
    }
}
