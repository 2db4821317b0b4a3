//! Git's settings that decide about ignored files: `core.excludesFile`.
//!
//! This module owns the syntax of git's configuration files, their precedence and their includes. A
//! repository's own settings are used only for the name of a file with patterns; no program that
//! they name is run.

mod syntax;

use std::path::{Path, PathBuf};

use super::git::matches_path;
use super::read_regular_file;
use super::repository::Repository;
use crate::index::names::{name_bytes, name_from_bytes};

use self::syntax::Setting;

/// How deep files may include others; the same limit as git's.
const MOST_INCLUDED: usize = 10;

/// The most files that are read, including all includes.
const MOST_FILES: usize = 1_000;

/// The locations of git's settings of the system and of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingFiles {
    /// The files, in the order in which git reads them: a later value overrides an earlier one.
    pub files: Vec<PathBuf>,
    /// The user's home directory, which replaces `~`.
    pub home: Option<PathBuf>,
    /// The excludes file if no setting names one.
    pub usual: Option<PathBuf>,
}

/// Returns the file that git's `core.excludesFile` names for the directory `dir`, whether or not it
/// exists. The settings of the system, of the user, and of the repository of `dir` count.
///
/// A relative name is relative to the top of the working tree. `includeIf` supports `gitdir`,
/// `gitdir/i` and `onbranch`. Reading a file stops at a line that git would reject.
///
/// # Examples
///
/// ```
/// use forge_search::internal::index::rules::settings::{SettingFiles, excludes_file};
///
/// let dir = tempfile::tempdir()?;
/// let file = dir.path().join("gitconfig");
/// std::fs::write(&file, "[core]\n  excludesFile = ~/ignored\n")?;
/// let settings = SettingFiles {
///     files: vec![file],
///     home: Some("/home/u".into()),
///     usual: None,
/// };
/// assert_eq!(excludes_file(&settings, dir.path()), Some("/home/u/ignored".into()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn excludes_file(settings: &SettingFiles, dir: &Path) -> Option<PathBuf> {
    let found = dir.ancestors().find_map(|top| {
        let repository = Repository::at(top, &mut |_| {}).ok().flatten()?;
        Some((top, repository))
    });
    let (top, repository) = found.map_or((dir, None), |(top, found)| (top, Some(found)));
    let mut reading = Reading {
        home: settings.home.as_deref(),
        repository: repository.as_ref(),
        named: None,
        of_worktrees: false,
        files: 0,
    };
    for file in &settings.files {
        reading.read(file, 0);
    }
    // Only the repository's own file can enable a separate file for each worktree.
    reading.of_worktrees = false;
    if let Some(repository) = &repository {
        reading.read(&repository.common_dir.join("config"), 0);
        if reading.of_worktrees {
            reading.read(&repository.git_dir.join("config.worktree"), 0);
        }
    }
    match &reading.named {
        None => settings.usual.clone(),
        // An empty name disables the excludes file.
        Some(path) if path.is_empty() => None,
        Some(path) => Some(top.join(reading.path_of(path)?)),
    }
}

/// The state while settings are read.
struct Reading<'a> {
    home: Option<&'a Path>,
    repository: Option<&'a Repository>,
    /// The last value of `core.excludesFile`.
    named: Option<Vec<u8>>,
    /// The last value of `extensions.worktreeConfig`.
    of_worktrees: bool,
    files: usize,
}

impl Reading<'_> {
    fn read(&mut self, file: &Path, depth: usize) {
        self.files += 1;
        if self.files > MOST_FILES {
            return;
        }
        let Ok(Some(bytes)) = read_regular_file(file) else {
            return;
        };
        syntax::each_setting(&bytes, &mut |setting| self.take(setting, file, depth));
    }

    fn take(&mut self, setting: &Setting<'_>, file: &Path, depth: usize) {
        let Setting {
            section,
            subsection,
            key,
            value,
        } = setting;
        match (*section, *subsection, *key, *value) {
            (b"core", None, b"excludesfile", Some(value)) => self.named = Some(value.to_vec()),
            (b"extensions", None, b"worktreeconfig", value) => {
                self.of_worktrees = value.is_none_or(is_true);
            }
            (b"include", None, b"path", Some(value)) => self.include(value, file, depth),
            (b"includeif", Some(condition), b"path", Some(value))
                if self.holds(condition, file) =>
            {
                self.include(value, file, depth);
            }
            _ => {}
        }
    }

    fn include(&mut self, path: &[u8], file: &Path, depth: usize) {
        let beside = file.parent().unwrap_or(Path::new(""));
        if let Some(path) = self.path_of(path)
            && depth < MOST_INCLUDED
        {
            self.read(&beside.join(path), depth + 1);
        }
    }

    /// Returns the path that a value names; `None` if it starts at an unknown home directory.
    fn path_of(&self, value: &[u8]) -> Option<PathBuf> {
        if value.starts_with(b"%(prefix)/") {
            return None;
        }
        let Some(rest) = value.strip_prefix(b"~") else {
            return name_from_bytes(value).map(PathBuf::from);
        };
        if rest.is_empty() {
            return self.home.map(Path::to_path_buf);
        }
        // A name before the slash would be another user's.
        let below = name_from_bytes(rest.strip_prefix(b"/")?)?;
        Some(self.home?.join(below))
    }

    /// Returns true if the condition of an `includeIf` in `file` holds.
    fn holds(&self, condition: &[u8], file: &Path) -> bool {
        let holds = if let Some(pattern) = condition.strip_prefix(b"gitdir:") {
            self.is_in(pattern, false, file)
        } else if let Some(pattern) = condition.strip_prefix(b"gitdir/i:") {
            self.is_in(pattern, true, file)
        } else if let Some(pattern) = condition.strip_prefix(b"onbranch:") {
            self.is_on(pattern)
        } else {
            None
        };
        holds.unwrap_or(false)
    }

    /// Returns true if a pattern matches the git directory's real path, or the path by which it was
    /// found.
    fn is_in(&self, pattern: &[u8], any_case: bool, file: &Path) -> Option<bool> {
        let git_dir = &self.repository?.git_dir;
        let mut whole = match pattern.strip_prefix(b"~") {
            Some(b"") => name_bytes(self.real_home()?.as_os_str()).to_vec(),
            Some(rest) if rest.starts_with(b"/") => {
                [name_bytes(self.real_home()?.as_os_str()), rest].concat()
            }
            Some(_) => return None,
            None => pattern.to_vec(),
        };
        // The directory of the file is compared literally, not as a pattern.
        let mut plain = Vec::new();
        if let Some(rest) = whole.strip_prefix(b"./") {
            let real = file.canonicalize().ok()?;
            plain = [name_bytes(real.parent()?.as_os_str()), b"/"].concat();
            whole = rest.to_vec();
        } else if !whole.starts_with(b"/") {
            whole.splice(0..0, *b"**/");
        }
        with_all_below(&mut whole);
        if any_case {
            plain.make_ascii_lowercase();
            whole.make_ascii_lowercase();
        }
        let matches = |path: &Path| {
            let mut text = name_bytes(path.as_os_str()).to_vec();
            if any_case {
                text.make_ascii_lowercase();
            }
            let rest = text.strip_prefix(&plain[..]);
            rest.is_some_and(|rest| matches_path(&whole, rest))
        };
        let real = git_dir.canonicalize().ok();
        Some(real.is_some_and(|real| matches(&real)) || matches(git_dir))
    }

    fn real_home(&self) -> Option<PathBuf> {
        let home = self.home?;
        Some(home.canonicalize().unwrap_or_else(|_| home.to_path_buf()))
    }

    /// Returns true if a pattern matches the name of the current branch.
    fn is_on(&self, pattern: &[u8]) -> Option<bool> {
        let head = self.repository?.git_dir.join("HEAD");
        let head = read_regular_file(&head).ok()??;
        let name = head.strip_prefix(b"ref:")?.trim_ascii();
        let branch = name.strip_prefix(b"refs/heads/")?;
        let mut pattern = pattern.to_vec();
        with_all_below(&mut pattern);
        Some(matches_path(&pattern, branch))
    }
}

/// Extends a pattern that ends with a slash to everything below.
fn with_all_below(pattern: &mut Vec<u8>) {
    if pattern.ends_with(b"/") {
        pattern.extend_from_slice(b"**");
    }
}

fn is_true(value: &[u8]) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(&value[..], b"true" | b"yes" | b"on" | b"1")
}
