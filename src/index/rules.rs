//! Ignore rules: decides which entries of a directory are ignored.
//!
//! This module owns the order of precedence among `.rgignore`, `.ignore`, `.gitignore`,
//! `.git/info/exclude` and the global excludes, which equals ripgrep's. Globs are matched by the
//! `ignore` crate, or by git's own syntax. Malformed lines are skipped silently; `doctor` reports
//! them. Files that don't exist, or that this user may not read, are skipped too. Any other read
//! error is reported as [`RulesReadError`]: it may pass, and then decisions made without the file
//! would be wrong.

pub(crate) mod as_ripgrep;
mod excludes;
mod file;
mod git;
mod repository;
pub mod settings;

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::manifest::IgnoreRules;
use crate::index::names::shown;
use ignore::Match;
use ignore::gitignore::GitignoreBuilder;

use self::excludes::GlobalExcludes;
use self::file::{IgnoreFile, MAX_LINES};
use self::repository::Repository;

/// The most bytes of an ignore file that are read; the rest is not used.
const IGNORE_FILE_LIMIT: u64 = 16 << 20;

/// The files of a directory that decide about its rules, as found in its listing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlFiles {
    /// Whether `.rgignore` exists.
    pub rgignore: bool,
    /// Whether `.ignore` exists.
    pub ignore: bool,
    /// Whether `.gitignore` exists.
    pub gitignore: bool,
    /// Whether `.git` exists.
    pub git: bool,
    /// Whether `.jj` exists.
    pub jj: bool,
}

impl ControlFiles {
    /// Records `name` if it is one of these files.
    pub fn note(&mut self, name: &[u8]) {
        match name {
            b".rgignore" => self.rgignore = true,
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".git" => self.git = true,
            b".jj" => self.jj = true,
            _ => {}
        }
    }

    /// All of these files exist.
    pub const ALL: ControlFiles = ControlFiles {
        rgignore: true,
        ignore: true,
        gitignore: true,
        git: true,
        jj: true,
    };

    /// Calls `each` with the paths that decide about the rules of `dir`. Each path is passed before
    /// it is read, for example a `.git` file before its target is read from it.
    pub fn inputs(self, dir: &Path, each: &mut dyn FnMut(&Path)) {
        let names = [
            (self.rgignore, ".rgignore"),
            (self.ignore, ".ignore"),
            (self.gitignore, ".gitignore"),
            (self.git, ".git"),
            (self.jj, ".jj"),
        ];
        for (_, name) in names.iter().filter(|(found, _)| *found) {
            each(&dir.join(name));
        }
        if self.git
            && let Ok(Some(repository)) = Repository::at(dir, each)
        {
            each(&repository.common_dir.join("info/exclude"));
        }
    }

    /// Returns the files that count by `which`.
    fn counted(self, which: IgnoreRules) -> ControlFiles {
        match which {
            IgnoreRules::All | IgnoreRules::AllAndGit => self,
            IgnoreRules::None => ControlFiles::default(),
            IgnoreRules::Git => ControlFiles {
                rgignore: false,
                ignore: false,
                ..self
            },
        }
    }

    /// Returns true if there is one of these files.
    pub(crate) fn any(self) -> bool {
        self.rgignore || self.ignore || self.gitignore || self.git || self.jj
    }

    /// Checks which files exist, for directories that are not listed. A file that can't be checked
    /// counts as existing; reading it yields the error.
    pub(super) fn probe(dir: &Path) -> ControlFiles {
        let may_be = |name: &str| match dir.join(name).metadata() {
            Ok(_) => true,
            Err(error) => !is_absent(&error),
        };
        ControlFiles {
            rgignore: may_be(".rgignore"),
            ignore: may_be(".ignore"),
            gitignore: may_be(".gitignore"),
            git: may_be(".git"),
            jj: may_be(".jj"),
        }
    }
}

/// The rules that apply in one directory: its own, and those of its parents.
#[derive(Debug)]
pub struct Rules {
    parent: Option<Arc<Rules>>,
    /// Which files count, here and below.
    which: IgnoreRules,
    excludes: Arc<GlobalExcludes>,
    /// The global excludes as they apply in the repository of this directory; empty outside of
    /// repositories.
    global: Arc<IgnoreFile>,
    rgignore: IgnoreFile,
    ignore: IgnoreFile,
    gitignore: IgnoreFile,
    exclude: IgnoreFile,
    /// Whether this directory is the top of a repository. Git's rules above it don't apply inside.
    has_git: bool,
    /// Whether this directory is in a repository, so that git's rules apply at all.
    any_git: bool,
    /// Whether neither this directory nor its parents have rules.
    empty: bool,
}

impl Rules {
    /// Returns rules that ignore nothing.
    pub fn none() -> Arc<Rules> {
        Rules::top(IgnoreRules::None, GlobalExcludes::none())
    }

    fn top(which: IgnoreRules, excludes: GlobalExcludes) -> Arc<Rules> {
        Arc::new(Rules {
            parent: None,
            which,
            excludes: Arc::new(excludes),
            global: Arc::new(IgnoreFile::empty()),
            rgignore: IgnoreFile::empty(),
            ignore: IgnoreFile::empty(),
            gitignore: IgnoreFile::empty(),
            exclude: IgnoreFile::empty(),
            has_git: false,
            any_git: false,
            empty: true,
        })
    }

    /// Returns the rules that the parents of `dir` define for it, without its own; `which` says
    /// which files count. `global_excludes` is git's `core.excludesFile`, whose patterns are
    /// relative to the top of each repository. Adds files that could not be read to `unread`.
    pub fn above(
        dir: &Path,
        which: IgnoreRules,
        global_excludes: Option<&Path>,
        unread: &mut Vec<RulesReadError>,
    ) -> Arc<Rules> {
        let excludes = match global_excludes.map(read_regular_file) {
            Some(Ok(Some(text))) => GlobalExcludes::new(text, which),
            Some(Err(error)) => {
                unread.push(error);
                GlobalExcludes::none()
            }
            Some(Ok(None)) | None => GlobalExcludes::none(),
        };
        let mut rules = Rules::top(which, excludes);
        let mut parents: Vec<&Path> = dir.ancestors().skip(1).collect();
        parents.reverse();
        for parent in parents {
            rules = Rules::child(&rules, parent, ControlFiles::probe(parent), unread);
        }
        rules
    }

    /// Returns the rules of `dir`, a direct subdirectory of the directory of `parent`, given its
    /// control files. Returns the parent's rules if `dir` adds none. Files that could not be read
    /// have no rules, and are added to `unread`.
    pub fn child(
        parent: &Arc<Rules>,
        dir: &Path,
        found: ControlFiles,
        unread: &mut Vec<RulesReadError>,
    ) -> Arc<Rules> {
        let found = found.counted(parent.which);
        if !found.any() {
            return parent.clone();
        }
        // A dangling link is no repository, so the listing alone does not prove one.
        let is_git = found.git && is_there(&dir.join(".git"), unread);
        let has_git = is_git || found.jj && is_there(&dir.join(".jj"), unread);
        let exclude = match is_git.then(|| Repository::at(dir, &mut |_| {})) {
            Some(Ok(Some(repository))) => {
                let path = repository.common_dir.join("info/exclude");
                read_ignore_file(dir, &path, parent.which, unread)
            }
            Some(Err(error)) => {
                unread.push(error);
                IgnoreFile::empty()
            }
            Some(Ok(None)) | None => IgnoreFile::empty(),
        };
        let mut read = |exists: bool, name: &str| {
            if exists {
                read_ignore_file(dir, &dir.join(name), parent.which, unread)
            } else {
                IgnoreFile::empty()
            }
        };
        let rgignore = read(found.rgignore, ".rgignore");
        let ignore = read(found.ignore, ".ignore");
        let gitignore = read(found.gitignore, ".gitignore");
        let adds = ![&rgignore, &ignore, &gitignore, &exclude]
            .iter()
            .all(|rules| rules.is_empty());
        if !adds && !has_git {
            return parent.clone();
        }
        let global = match has_git {
            true => parent.excludes.for_repository(dir),
            false => parent.global.clone(),
        };
        let empty = parent.empty && !adds && global.is_empty();
        Arc::new(Rules {
            parent: Some(parent.clone()),
            which: parent.which,
            excludes: parent.excludes.clone(),
            global,
            rgignore,
            ignore,
            gitignore,
            exclude,
            has_git,
            any_git: parent.any_git || has_git,
            empty,
        })
    }

    /// Returns which files count.
    pub fn which(&self) -> IgnoreRules {
        self.which
    }

    /// Returns true if there are no rules, so that no path has to be matched.
    pub fn is_empty(&self) -> bool {
        self.empty
    }

    /// Decides about an entry of this directory, by its absolute path. Costs at most one match for
    /// each rules file at and above this directory.
    pub fn decide(&self, path: &Path, is_dir: bool) -> Verdict {
        if self.empty {
            return Verdict::Neutral;
        }
        let (mut custom, mut ignore, mut git, mut exclude) =
            (Match::None, Match::None, Match::None, Match::None);
        let mut left_repository = false;
        let mut level = Some(self);
        while let Some(rules) = level {
            if custom.is_none() && !rules.rgignore.is_empty() {
                custom = rules.rgignore.matched(path, is_dir);
            }
            if ignore.is_none() && !rules.ignore.is_empty() {
                ignore = rules.ignore.matched(path, is_dir);
            }
            if self.any_git && !left_repository {
                if git.is_none() && !rules.gitignore.is_empty() {
                    git = rules.gitignore.matched(path, is_dir);
                }
                if exclude.is_none() && !rules.exclude.is_empty() {
                    exclude = rules.exclude.matched(path, is_dir);
                }
            }
            left_repository |= rules.has_git;
            level = rules.parent.as_deref();
        }
        let global = if self.any_git && !self.global.is_empty() {
            self.global.matched(path, is_dir)
        } else {
            Match::None
        };
        match custom.or(ignore).or(git).or(exclude).or(global) {
            Match::None => Verdict::Neutral,
            Match::Ignore(_) => Verdict::Ignored,
            Match::Whitelist(_) => Verdict::Kept,
        }
    }
}

/// The decision of the ignore rules about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No rule matches.
    Neutral,
    /// The entry is ignored.
    Ignored,
    /// The entry is kept, even if its name is hidden.
    Kept,
}

/// A rules file that could not be read, although the next attempt may succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesReadError {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The reason, as text.
    pub why: String,
}

impl fmt::Display for RulesReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", shown(&self.path), self.why)
    }
}

impl RulesReadError {
    fn new(path: &Path, error: &io::Error) -> RulesReadError {
        RulesReadError {
            path: path.to_path_buf(),
            why: format!("can't be read, so its rules have no effect: {error}"),
        }
    }
}

/// Returns true if the error means that the file does not exist for this user. Then another look
/// gives the same result, unless the file's metadata change.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    if matches!(
        error.kind(),
        NotFound | NotADirectory | IsADirectory | PermissionDenied | InvalidInput
    ) {
        return true;
    }
    // A link to itself, a name that is too long, a socket or a device.
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let known = [
            Errno::LOOP,
            Errno::NAMETOOLONG,
            Errno::NXIO,
            Errno::NODEV,
            Errno::OPNOTSUPP,
        ];
        known
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }
    #[cfg(not(unix))]
    false
}

fn is_there(path: &Path, unread: &mut Vec<RulesReadError>) -> bool {
    match path.metadata() {
        Ok(_) => true,
        Err(error) => {
            if !is_absent(&error) {
                unread.push(RulesReadError::new(path, &error));
            }
            false
        }
    }
}

/// Reads an ignore file. A file that can't be read, or is not regular, has no rules.
fn read_ignore_file(
    dir: &Path,
    path: &Path,
    which: IgnoreRules,
    unread: &mut Vec<RulesReadError>,
) -> IgnoreFile {
    match read_regular_file(path) {
        Ok(Some(bytes)) => IgnoreFile::parse(dir, &bytes, which),
        Ok(None) => IgnoreFile::empty(),
        Err(error) => {
            unread.push(error);
            IgnoreFile::empty()
        }
    }
}

/// The names of the files that contain ignore rules.
pub const IGNORE_FILE_NAMES: [&str; 3] = [".rgignore", ".ignore", ".gitignore"];

/// Returns true for the name of a file or directory that decides about the eligibility of its
/// siblings and their contents.
pub fn is_control_name(name: &OsStr) -> bool {
    let mut found = ControlFiles::default();
    found.note(name.as_encoded_bytes());
    found.any()
}

/// Returns the problems of an ignore file: 1-based line numbers and messages; line 0 is the whole
/// file. Searches skip such lines silently.
pub fn malformed_lines(path: &Path) -> Vec<(usize, String)> {
    let Ok(Some(bytes)) = read_regular_file(path) else {
        return vec![(
            0,
            "the file can't be read, so its rules have no effect".to_string(),
        )];
    };
    let mut problems = Vec::new();
    if bytes.len() as u64 == IGNORE_FILE_LIMIT {
        let message = format!("only the first {IGNORE_FILE_LIMIT} bytes of the file count");
        problems.push((0, message));
    }
    for (n, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if n == MAX_LINES {
            let message = format!("only the first {MAX_LINES} lines of the file count");
            problems.push((n + 1, message));
            break;
        }
        let Ok(line) = std::str::from_utf8(line) else {
            problems.push((
                n + 1,
                "not valid UTF-8: this line and those after it have no effect".to_string(),
            ));
            break;
        };
        let mut builder = GitignoreBuilder::new("");
        if let Err(error) = builder.add_line(None, line) {
            problems.push((n + 1, format!("malformed pattern has no effect: {error}")));
        }
    }
    problems
}

/// Reads a configuration file of the tree without blocking on a pipe. Returns `None` for a file
/// that is not regular, or does not exist for this user.
pub(crate) fn read_regular_file(path: &Path) -> Result<Option<Vec<u8>>, RulesReadError> {
    let read = || {
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        }
        let file: File = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(IGNORE_FILE_LIMIT).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == IGNORE_FILE_LIMIT {
            // Half a line could be another rule.
            let end = memchr::memrchr(b'\n', &bytes).map_or(0, |feed| feed + 1);
            bytes[end..].fill(b'\n');
        }
        Ok(Some(bytes))
    };
    match read() {
        Ok(bytes) => Ok(bytes),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(RulesReadError::new(path, &error)),
    }
}

#[cfg(test)]
mod tests;
