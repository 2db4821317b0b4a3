//! Eligible files: the ordered source that execution works on.
//!
//! The source decides which files a request is about, in emission order, and execution does not care who
//! made it. Eligibility is never an engine's (FR-LSI-ELIG-01).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::exec::event::FileError;
use crate::exec::stop::Stop;
use crate::index::beneath::EntryMeta;
use crate::index::stamp::Stamp;
use crate::index::walk::{DirNode, Entry, FoundFile, Walk};

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
    /// Where in the file events can be, if that is known.
    pub(crate) within: Option<Box<Within>>,
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
}

/// The include and exclude globs of a request, in gitignore syntax, anchored at the search root; and how deep it goes.
#[derive(Clone, Debug)]
pub struct Globs {
    include: Option<Gitignore>,
    /// What a file has to match, too.
    also: Option<Gitignore>,
    exclude: Option<Gitignore>,
    /// The most components of a file's path.
    depth: Option<usize>,
    /// The path of the one file that counts.
    only: Option<PathBuf>,
    /// All of it as it was given, told apart from all others.
    key: String,
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
    /// Compiles the globs of a request. An empty `include` means no restriction (FR-LS-SRC-05).
    ///
    /// # Errors
    ///
    /// An empty or invalid glob, or one that gitignore syntax takes for a comment.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Globs, GlobError> {
        Ok(Globs {
            include: compile(INCLUDE, include)?,
            also: None,
            exclude: compile("exclude_glob", exclude)?,
            depth: None,
            only: None,
            key: format!("{include:?} {exclude:?}"),
        })
    }

    /// Keeps one file that lies directly in the search root, whatever its name is.
    pub fn only(name: &OsStr) -> Globs {
        Globs {
            include: None,
            also: None,
            exclude: None,
            depth: None,
            only: Some(PathBuf::from(name)),
            key: format!("only {name:?}"),
        }
    }

    /// Keeps only files that match one of these globs as well. An empty list means no restriction.
    ///
    /// # Errors
    ///
    /// As [`Globs::new`].
    pub fn and(self, also: &[String]) -> Result<Globs, GlobError> {
        if also.is_empty() {
            return Ok(self);
        }
        Ok(Globs {
            also: compile(INCLUDE, also)?,
            key: format!("{} and {also:?}", self.key),
            ..self
        })
    }

    /// Leaves out what is deeper: files directly in the search root have a depth of 1.
    #[must_use]
    pub fn within_depth(self, depth: usize) -> Globs {
        Globs {
            depth: Some(depth),
            key: format!("{} {depth}", self.key),
            ..self
        }
    }

    /// Returns true when there is nothing to filter.
    pub fn is_empty(&self) -> bool {
        self.include.is_none()
            && self.also.is_none()
            && self.exclude.is_none()
            && self.depth.is_none()
            && self.only.is_none()
    }

    /// Returns a name for these globs, which no others have.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Decides about a path relative to the search root. For a directory: whether anything in it can be
    /// eligible.
    pub fn keep(&self, path: &Path, is_dir: bool) -> bool {
        if let Some(only) = &self.only {
            return !is_dir && path == only;
        }
        if let Some(depth) = self.depth
            && path.components().count() + usize::from(is_dir) > depth
        {
            return false;
        }
        if let Some(exclude) = &self.exclude
            && exclude.matched(path, is_dir).is_ignore()
        {
            return false;
        }
        let mut lists = [&self.include, &self.also].into_iter().flatten();
        is_dir || lists.all(|list| list.matched_path_or_any_parents(path, false).is_ignore())
    }
}

/// The field whose globs a file has to match.
const INCLUDE: &str = "include_glob";

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
        if let Err(error) = all.add_line(None, glob) {
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
}

impl WalkSource {
    /// Creates a source over a walk, filtered by globs.
    pub fn new(walk: Walk, globs: Globs) -> WalkSource {
        WalkSource { walk, globs }
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
        let entries = if self.globs.is_empty() {
            self.walk.list(&node, &|_, _| true)
        } else {
            self.walk
                .list(&node, &|path, is_dir| self.globs.keep(path, is_dir))
        };
        entries
            .into_iter()
            .map(|entry| match entry {
                Entry::File(file) => Item::File(file.into()),
                Entry::Dir(node) => Item::Unit(node),
                Entry::Error(path, message) => Item::Error(FileError { path, message }),
            })
            .collect()
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
