//! Places of Unix: those of the XDG specification. On macOS, caches are in `~/Library/Caches`.
//!
//! This module guarantees that root creates no files in a directory of another user.

use std::path::{Path, PathBuf};

use super::{Variables, absolute};
use crate::tool::daemon::socket::is_foreign;

/// Returns the user's home directory.
pub(in crate::tool::cli) fn home(set: Variables<'_>) -> Option<PathBuf> {
    set("HOME").map(PathBuf::from)
}

/// Returns the directory of the user's configuration files.
pub(in crate::tool::cli) fn config_home(set: Variables<'_>) -> Option<PathBuf> {
    set("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".config")))
}

/// Returns the directory of the user's caches, if it is an absolute path and this process may use
/// it.
pub(in crate::tool::cli) fn cache_home(set: Variables<'_>) -> Option<PathBuf> {
    let home = absolute(set("HOME"));
    let cache = if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library").join("Caches"))
    } else {
        absolute(set("XDG_CACHE_HOME")).or_else(|| home.map(|home| home.join(".cache")))
    };
    // With `sudo`, root may have a user's environment. Directories that root creates there would be
    // unusable for that user.
    cache.filter(|dir| !is_foreign(dir))
}

/// Returns a text that distinguishes users who share a directory for temporary files.
pub(in crate::tool::cli) fn user(_set: Variables<'_>) -> String {
    rustix::process::geteuid().as_raw().to_string()
}
