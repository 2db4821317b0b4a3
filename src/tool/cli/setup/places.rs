//! The places of a user's files: home directory, configuration and caches.
//!
//! Owns where each system keeps them. Reads no environment: `setup` passes in the variables.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(unix)]
use unix as sys;
#[cfg(windows)]
use windows as sys;

/// Looks up a variable of the environment. Empty variables are unset.
pub(in crate::tool::cli) type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Returns the user's home directory.
pub(in crate::tool::cli) fn home(set: Variables<'_>) -> Option<PathBuf> {
    sys::home(set)
}

/// Returns the directory of the user's configuration files.
pub(in crate::tool::cli) fn config_home(set: Variables<'_>) -> Option<PathBuf> {
    sys::config_home(set)
}

/// Returns the directory of the user's caches, if it is an absolute path and this process may use
/// it.
pub(in crate::tool::cli) fn cache_home(set: Variables<'_>) -> Option<PathBuf> {
    sys::cache_home(set)
}

/// Returns a text that distinguishes users who share a directory for temporary files.
pub(in crate::tool::cli) fn user(set: Variables<'_>) -> String {
    sys::user(set)
}

/// Returns a path from the environment. Relative paths are ignored.
pub(in crate::tool::cli) fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}
