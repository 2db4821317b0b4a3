//! The sandbox: the paths that a call may reach.
//!
//! This module owns the validation of paths, and the choice of the allowed roots. [`Reach`] keeps
//! their open handles. The sandbox returns a root and a path relative to it. The caller opens that
//! path through [`RootDir`](crate::index::root_dir::RootDir), which detects a path that was swapped
//! for a link since. The sandbox knows no patterns of searches and reads no file.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub use super::config::SandboxConfig;
use super::error::{DenialReason, ToolError};
use crate::exec::as_text::shown;
use crate::exec::sources::reach::Reach;
use crate::index::deny::DenySet;

pub use crate::exec::sources::reach::Resolved;

/// The maximum length of a path in bytes. No supported system opens a longer one.
const MAX_PATH_BYTES: usize = 32_768;

/// The allowed roots and denied patterns in force, and the working directory of relative paths.
#[derive(Debug)]
pub struct Sandbox {
    working_dir: PathBuf,
    reach: Arc<Reach>,
    allow_absolute: bool,
}

impl Sandbox {
    /// Opens the allowed roots and compiles the denied patterns. No index has an entry for a denied
    /// file.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`] if the working directory or a root does not exist, is no directory or
    /// can't be opened, or if a pattern is invalid.
    pub fn new(config: &SandboxConfig, working_dir: &Path) -> Result<Self, ToolError> {
        let working_dir = canonical_directory(working_dir).map_err(|error| {
            let shown = shown(working_dir);
            ToolError::bad_args(format!(
                "the working directory `{shown}` can't be used: {error}"
            ))
        })?;
        let mut paths = Vec::new();
        for configured in &config.allowed_roots {
            paths.push(canonical_root(configured, &working_dir)?);
        }
        if paths.is_empty() {
            paths.push(working_dir.clone());
        }
        // Duplicates are common: a command that names several files of a directory has that
        // directory as the root of each.
        paths.sort();
        paths.dedup();
        // A pattern relative to one root also applies when another root inside it is searched.
        let beneath: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let deny = DenySet::for_roots(
            &config.denied_patterns,
            config.include_default_denies,
            &beneath,
        )
        .map_err(|error| ToolError::bad_args(format!("in `[tools.sandbox]`: {error}")))?;
        let reach =
            Reach::open(paths, Arc::new(deny)).map_err(|(path, error)| bad_root(&path, &error))?;
        Ok(Self {
            working_dir,
            reach: Arc::new(reach),
            allow_absolute: config.allow_absolute,
        })
    }

    /// Validates the path of a request. A missing or empty path means the working directory.
    ///
    /// It does not check that the path exists: opening it later reports that reliably.
    ///
    /// # Errors
    ///
    /// - [`ToolError::BadArgs`]: the path has a NUL byte or is too long.
    /// - [`ToolError::SandboxViolation`]: the path is absolute although that is not allowed, has a
    ///   `..` component, leads outside the allowed roots, or is denied; checked in this order.
    /// - [`ToolError::ExecutionFailed`]: the root of the path can no longer be opened.
    #[doc(hidden)]
    pub fn resolve(&self, path: Option<&str>) -> Result<Resolved, ToolError> {
        let path = path.filter(|path| !path.is_empty()).unwrap_or(".");
        self.resolve_path(Path::new(path))
    }

    /// Validates a path like [`Sandbox::resolve`]; the path need not be UTF-8.
    ///
    /// # Errors
    ///
    /// The errors of [`Sandbox::resolve`].
    #[doc(hidden)]
    pub fn resolve_path(&self, attempted: &Path) -> Result<Resolved, ToolError> {
        check_text(attempted)?;
        let outside = |resolved: &Path| {
            ToolError::SandboxViolation(DenialReason::PathOutsideSandbox {
                attempted: attempted.to_path_buf(),
                resolved: resolved.to_path_buf(),
            })
        };
        // 1. Absolute paths need permission.
        if is_absolute(attempted) && !self.allow_absolute {
            return Err(outside(attempted));
        }
        // 2. `..` is never allowed, wherever the path would lead.
        if attempted
            .components()
            .any(|part| part == Component::ParentDir)
        {
            return Err(outside(attempted));
        }
        // 3. Relative paths start at the working directory; joining an absolute one replaces it.
        let joined = self.working_dir.join(attempted);
        // 4. and 5. Links are resolved in the existing part of the path; the rest is appended.
        let canonical = canonicalize_existing(&joined);
        // 6. The result must be inside an allowed root,
        let Some((root, relative)) = self.reach.containing(&canonical) else {
            return Err(outside(&canonical));
        };
        // 7. and neither the path nor a directory above it may be denied.
        if let Some(pattern) = self
            .reach
            .deny()
            .denies_path_or_parent(&canonical, &relative)
        {
            return Err(DenialReason::DeniedPatternMatched {
                attempted: attempted.to_path_buf(),
                pattern: pattern.to_owned(),
            }
            .into());
        }
        let root = root.current().map_err(|error| {
            let path = shown(root.path());
            let message = format!("the allowed root `{path}` can no longer be opened: {error}");
            ToolError::failed("sandbox", message)
        })?;
        Ok(Resolved {
            canonical,
            root,
            relative,
        })
    }

    /// Shares indexes with the callers of another sandbox, see [`Reach::sharing_indexes_with`].
    #[must_use]
    #[doc(hidden)]
    pub fn sharing_indexes_with(self, other: &Sandbox) -> Self {
        Self {
            reach: Arc::new(self.reach.sharing_indexes_with(&other.reach)),
            ..self
        }
    }

    /// Returns the allowed roots and the denied patterns.
    #[doc(hidden)]
    pub fn reach(&self) -> &Arc<Reach> {
        &self.reach
    }

    /// Returns the canonical working directory.
    pub fn working_dir(&self) -> &Path {
        &self.working_dir
    }
}

fn check_text(path: &Path) -> Result<(), ToolError> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.contains(&0) {
        return Err(ToolError::bad_args(
            "the path contains a NUL byte, which no path can have; remove it",
        ));
    }
    if bytes.len() > MAX_PATH_BYTES {
        return Err(ToolError::bad_args(format!(
            "the path is {} bytes long; at most {MAX_PATH_BYTES} are allowed",
            bytes.len()
        )));
    }
    Ok(())
}

/// Returns true if joining the path to the working directory would leave that directory. On Windows
/// such a path need not be absolute.
fn is_absolute(path: &Path) -> bool {
    path.is_absolute()
        || path.has_root()
        || matches!(path.components().next(), Some(Component::Prefix(_)))
}

/// Canonicalizes the deepest existing ancestor and appends the rest of the path.
///
/// An ancestor that can't be canonicalized, for example because of permissions or a loop of links,
/// counts as missing. So the result for a path outside the roots does not reveal whether the path
/// exists. For a path inside the roots, opening it reports the reason.
fn canonicalize_existing(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        let Ok(canonical) = fs::canonicalize(ancestor) else {
            continue;
        };
        let Ok(rest) = path.strip_prefix(ancestor) else {
            continue;
        };
        // Joining an empty rest would append a slash. `components` skips `.` and extra slashes.
        let mut rebuilt = canonical;
        rebuilt.extend(rest.components());
        return rebuilt;
    }
    path.components().collect()
}

fn canonical_directory(path: &Path) -> io::Result<PathBuf> {
    let canonical = fs::canonicalize(path)?;
    if fs::metadata(&canonical)?.is_dir() {
        Ok(canonical)
    } else {
        Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "it is not a directory",
        ))
    }
}

fn canonical_root(configured: &Path, working_dir: &Path) -> Result<PathBuf, ToolError> {
    if configured.as_os_str().is_empty() {
        return Err(ToolError::bad_args(
            "`tools.sandbox.allowed_roots` has an empty entry; remove it or write `.` for the \
             working directory",
        ));
    }
    canonical_directory(&working_dir.join(configured)).map_err(|error| {
        if configured.starts_with("~") {
            let error = io::Error::new(error.kind(), format!("{error} (`~` is not expanded here)"));
            return bad_root(configured, &error);
        }
        bad_root(configured, &error)
    })
}

fn bad_root(path: &Path, error: &io::Error) -> ToolError {
    ToolError::bad_args(format!(
        "`tools.sandbox.allowed_roots`: `{}` can't be used: {error}; name a directory that exists",
        shown(path)
    ))
}

#[cfg(test)]
mod tests;
