//! Finds git's directories for a working tree.
//!
//! This module reads `.git` files, which worktrees, submodules and separate git directories use.

use std::path::{Path, PathBuf};

use super::{RulesReadError, is_absent, read_regular_file};
use crate::index::names::name_from_bytes;

/// The directories of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// The git directory of the working tree.
    pub(super) git_dir: PathBuf,
    /// The directory that all worktrees share, with `info/exclude` and `config`; often the same as
    /// `git_dir`.
    pub(super) common_dir: PathBuf,
}

impl Repository {
    /// Finds the repository whose working tree has its top at `dir`. Calls `each` with every file
    /// that decides about the location, before the file is read.
    ///
    /// # Errors
    ///
    /// The file that exists but could not be read.
    pub(super) fn at(
        dir: &Path,
        each: &mut dyn FnMut(&Path),
    ) -> Result<Option<Repository>, RulesReadError> {
        let dot_git = dir.join(".git");
        let git_dir = match dot_git.metadata() {
            Ok(metadata) if metadata.is_file() => match path_in(&dot_git, b"gitdir: ")? {
                // A relative path is relative to `dir`, not to the current directory.
                Some(target) => dir.join(target),
                None => return Ok(None),
            },
            Ok(_) => {
                return Ok(Some(Repository {
                    git_dir: dot_git.clone(),
                    common_dir: dot_git,
                }));
            }
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(RulesReadError::new(&dot_git, &error)),
        };
        let shared = git_dir.join("commondir");
        each(&shared);
        let common_dir = match path_in(&shared, b"")? {
            Some(target) => git_dir.join(target),
            // A submodule, or a separate git directory: there are no other worktrees.
            None => git_dir.clone(),
        };
        Ok(Some(Repository {
            git_dir,
            common_dir,
        }))
    }
}

/// Returns the path that follows a prefix in a file.
fn path_in(file: &Path, prefix: &[u8]) -> Result<Option<PathBuf>, RulesReadError> {
    let Some(bytes) = read_regular_file(file)? else {
        return Ok(None);
    };
    let Some(path) = bytes.strip_prefix(prefix) else {
        return Ok(None);
    };
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let end = path.iter().rposition(|byte| !is_break(byte));
    let path = end.map(|end| &path[..=end]);
    Ok(path.and_then(name_from_bytes).map(PathBuf::from))
}
