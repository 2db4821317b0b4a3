//! The check that only this user can have written a file.
//!
//! This module owns the rules about owners and modes of the database of results, the file of a
//! secret key, and their directories.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Write permission for the group or for all.
const BY_OTHERS: u32 = 0o022;

/// Write permission for all.
const BY_ALL: u32 = 0o002;

/// Only the owner of a file can remove or rename it.
const STICKY: u32 = 0o1000;

/// Returns why another user may have written a file; `None` if only this user can.
pub(crate) fn untrusted(meta: &Metadata) -> Option<&'static str> {
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Some("belongs to another user, who could have changed it; use a file of your own");
    }
    let is_open = meta.is_file() && meta.mode() & BY_OTHERS != 0;
    is_open.then_some("can be written by others; take that right away with `chmod go-w`")
}

/// Returns a directory in which another user could replace this file, and why. For a link it also
/// checks the directories of the target.
pub(crate) fn untrusted_place(path: &Path) -> Option<(PathBuf, &'static str)> {
    let named = std::path::absolute(path).ok();
    let real = fs::canonicalize(path).ok();
    let mut files = named.into_iter().chain(real);
    files.find_map(|file| {
        let dir = file.parent()?;
        let own = replaceable(dir, BY_OTHERS, true).map(|why| (dir.to_path_buf(), why));
        own.or_else(|| {
            let mut above = dir.ancestors().skip(1);
            above.find_map(|dir| Some((dir.to_path_buf(), replaceable(dir, BY_ALL, false)?)))
        })
    })
}

/// Returns why another user can replace the files of a directory: by one of these permissions, or,
/// with `or_owner`, as its owner.
fn replaceable(dir: &Path, rights: u32, or_owner: bool) -> Option<&'static str> {
    let meta = fs::metadata(dir).ok()?;
    let own = [rustix::process::geteuid().as_raw(), 0];
    if or_owner && !own.contains(&meta.uid()) {
        return Some(
            "belongs to another user, who could put another file there; use a directory of your own",
        );
    }
    let is_open = meta.mode() & rights != 0 && meta.mode() & STICKY == 0;
    is_open.then_some(
        "can be written by others, who could put another file there; take that right away with `chmod go-w`",
    )
}
