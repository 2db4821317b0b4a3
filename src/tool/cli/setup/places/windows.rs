//! Places of Windows: `%APPDATA%` for configuration, `%LOCALAPPDATA%` for caches.
//!
//! This module guarantees nothing about access rights. Both places are private to the user by
//! default.

use std::path::PathBuf;

use super::{Variables, absolute};

/// Returns `HOME`, which git for Windows also prefers, or the user's profile.
pub(in crate::tool::cli) fn home(set: Variables<'_>) -> Option<PathBuf> {
    set("HOME")
        .or_else(|| set("USERPROFILE"))
        .map(PathBuf::from)
}

pub(in crate::tool::cli) fn config_home(set: Variables<'_>) -> Option<PathBuf> {
    set("XDG_CONFIG_HOME")
        .or_else(|| set("APPDATA"))
        .map(PathBuf::from)
}

pub(in crate::tool::cli) fn cache_home(set: Variables<'_>) -> Option<PathBuf> {
    absolute(set("LOCALAPPDATA"))
}

pub(in crate::tool::cli) fn user(set: Variables<'_>) -> String {
    set("USERNAME").map_or("user".to_string(), |name| {
        name.to_string_lossy().into_owned()
    })
}
