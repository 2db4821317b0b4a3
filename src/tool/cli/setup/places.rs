//! The places of a user's files: home directory, configuration and caches.
//!
//! This module owns where each system keeps them. It reads no environment: `setup` passes in the
//! variables.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::ffi::OsString;
use std::path::PathBuf;

pub(in crate::tool::cli) use sys::{cache_home, config_home, home, user};
#[cfg(unix)]
use unix as sys;
#[cfg(windows)]
use windows as sys;

/// Looks up a variable of the environment. Empty variables are unset.
pub(in crate::tool::cli) type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Returns a path from the environment. Relative paths are ignored.
pub(in crate::tool::cli) fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}
