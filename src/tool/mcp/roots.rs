//! The directories ("roots") that a client says it works in.
//!
//! This module owns their format, and their intersection with the sandbox. A client can narrow the
//! searched directories, but never widen them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::tool::daemon::tree_backend::TreeBackend;
use crate::tool::error::ToolError;

/// Opens the trees of clients.
pub trait BackendSource: Send + Sync {
    /// Returns the tree of a client that works in certain directories, restricted to them. A client
    /// that lists no directories works in the directory where the server was started.
    ///
    /// # Errors
    ///
    /// No directory may be searched, or the configuration is not valid.
    fn open(&self, client_roots: Option<&[PathBuf]>) -> Result<Arc<dyn TreeBackend>, ToolError>;
}

/// Returns the path of a `file:` URI; `None` for other URIs and for files on other machines.
pub fn path_of(uri: &str) -> Option<PathBuf> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(with_host) => {
            let start = with_host.find('/')?;
            let (host, path) = with_host.split_at(start);
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return None;
            }
            path
        }
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    if !bytes.starts_with(b"/") || bytes.contains(&0) {
        return None;
    }
    Some(PathBuf::from(os_string(bytes)))
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Returns the intersection of two sets of canonical directories: allowed roots below one of the
/// client's, and the client's below an allowed one. The result keeps the order of the client's
/// directories, without duplicates and without nested ones.
pub fn within(allowed: &[PathBuf], client: &[PathBuf]) -> Vec<PathBuf> {
    let mut both: Vec<&Path> = Vec::new();
    for theirs in client {
        for ours in allowed {
            if theirs.starts_with(ours) {
                both.push(theirs);
            } else if ours.starts_with(theirs) {
                both.push(ours);
            }
        }
    }
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in &both {
        let has_wider = both
            .iter()
            .any(|other| other != path && path.starts_with(other));
        if !has_wider && !kept.iter().any(|other| other == path) {
            kept.push(path.to_path_buf());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_roots_are_file_uris_of_this_machine() {
        let read = |uri: &str| path_of(uri).map(|path| path.to_string_lossy().into_owned());
        for (uri, path) in [
            ("file:///srv/tree", Some("/srv/tree")),
            ("FILE:///srv/a%20tree%2Fx", Some("/srv/a tree/x")),
            ("file://localhost/srv", Some("/srv")),
            ("file:/srv", Some("/srv")),
            ("file:///", Some("/")),
            ("file:///srv/%C3%BC?x#y", Some("/srv/ü")),
            ("file://server/share", None),
            ("file://", None),
            ("file:relative", None),
            ("file:///nul%00", None),
            ("https://example.org/", None),
            ("/srv/tree", None),
            ("", None),
        ] {
            assert_eq!(read(uri).as_deref(), path, "{uri}");
        }
    }

    #[test]
    fn mcp_of_two_lists_of_roots_what_both_allow_is_left() {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (allowed, client, left) in [
            (&["/a"][..], &["/a"][..], &["/a"][..]),
            (&["/a"], &["/a/b", "/a/c"], &["/a/b", "/a/c"]),
            (&["/a/b", "/a/c"], &["/a"], &["/a/b", "/a/c"]),
            (&["/a"], &["/b"], &[]),
            (&["/a"], &["/ab"], &[]),
            (&["/a"], &["/a/b", "/a", "/a"], &["/a"]),
            (&["/a/b"], &["/a", "/a/b/c"], &["/a/b"]),
            (&["/a", "/b"], &["/b/x", "/a/y", "/c"], &["/b/x", "/a/y"]),
            (&["/"], &["/a"], &["/a"]),
            (&["/a"], &[], &[]),
        ] {
            assert_eq!(
                within(&paths(allowed), &paths(client)),
                paths(left),
                "{allowed:?} {client:?}"
            );
        }
    }
}
