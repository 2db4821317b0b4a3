//! Globs that choose files, in the syntax of ignore files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::types::Types;

use super::classes;

/// The path filters of a request: globs in gitignore syntax, and file types.
///
/// A path is kept if every filter keeps it.
#[derive(Clone, Debug, Default)]
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
    pub(super) fn keep(&self, path: &Path, is_dir: bool) -> bool {
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
        Globs::default()
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
