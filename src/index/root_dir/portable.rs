//! Opens files beneath a directory by their full paths.
//!
//! For systems without directory-relative opens. The path of an open file is checked before the
//! file is used: no part of it is a link, and it still names the open file. Where files have no
//! identity (`std_meta`), a replacement that is undone between the two steps is not detected.
//!
//! The submodules read metadata: `windows` with the identity and the number of links, `std_meta`
//! with the standard library alone.

#[cfg(not(windows))]
mod std_meta;
#[cfg(windows)]
mod windows;

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(not(windows))]
use std_meta as sys;
#[cfg(windows)]
use windows as sys;

use super::{
    DirStat, EntryKind, EntryMeta, FileIdentity, RawEntry, is_component, not_a_component,
    not_a_regular_file, symbolic_link,
};

/// The root's canonical path.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
}

impl Root {
    pub(super) fn open(canonical: &Path) -> io::Result<Self> {
        if fs::canonicalize(canonical)? != canonical {
            return Err(symbolic_link());
        }
        if !fs::metadata(canonical)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(Self {
            path: canonical.to_path_buf(),
        })
    }

    pub(super) fn open_file(&self, rel: &Path) -> io::Result<(File, EntryMeta)> {
        let path = self.path.join(rel);
        // Opening a FIFO or a device could block, or have an effect.
        let before = fs::symlink_metadata(&path)?;
        if before.is_symlink() {
            return Err(symbolic_link());
        }
        if !before.is_file() {
            return Err(not_a_regular_file());
        }
        let file = sys::open(&path)?;
        self.check(rel, true)?;
        let meta = sys::metadata_of(&file)?;
        if sys::metadata(&path, false)?.identity != meta.identity {
            return Err(replaced());
        }
        if meta.kind != EntryKind::File {
            return Err(not_a_regular_file());
        }
        Ok((file, meta))
    }

    pub(super) fn entries(&self, rel: &Path) -> io::Result<Vec<RawEntry>> {
        let listing = fs::read_dir(self.path.join(rel))?;
        self.check(rel, true)?;
        let mut entries = Vec::new();
        for entry in listing {
            let entry = entry?;
            let kind = match entry.file_type() {
                Ok(kind) => kind_of(kind),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // Treated as a file, it is opened, and that reports the error.
                Err(_) => EntryKind::File,
            };
            entries.push(RawEntry {
                name: entry.file_name(),
                kind,
            });
        }
        Ok(entries)
    }

    pub(super) fn metadata(&self, rel: &Path) -> io::Result<EntryMeta> {
        let meta = sys::metadata(&self.path.join(rel), false)?;
        self.check(rel, false)?;
        Ok(meta)
    }

    pub(super) fn stat_entries<'a>(
        &self,
        rel: &Path,
        names: impl Iterator<Item = &'a OsStr>,
    ) -> io::Result<DirStat> {
        let entries = names
            .map(|name| match is_component(name) {
                true => self.metadata(&rel.join(name)),
                false => Err(not_a_component()),
            })
            .collect();
        let dir = self.metadata(rel)?;
        match dir.kind {
            EntryKind::Dir => Ok(DirStat { dir, entries }),
            EntryKind::Symlink => Err(symbolic_link()),
            _ => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        }
    }

    /// Checks that no component of `rel` is a symbolic link (the last one only `with_end`), and
    /// that the path stays beneath the root.
    fn check(&self, rel: &Path, with_end: bool) -> io::Result<()> {
        let checked = if with_end { Some(rel) } else { rel.parent() };
        let Some(checked) = checked else {
            return Ok(());
        };
        let mut path = self.path.clone();
        for part in checked.components() {
            path.push(part);
            if fs::symlink_metadata(&path)?.is_symlink() {
                return Err(symbolic_link());
            }
        }
        // Links are not the only way out: a junction does not look like a link in its metadata.
        if fs::canonicalize(&path)?.starts_with(&self.path) {
            Ok(())
        } else {
            Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "leads out of its allowed root",
            ))
        }
    }
}

/// The error for a path that another program has just given to another file.
fn replaced() -> io::Error {
    io::Error::new(
        io::ErrorKind::WouldBlock,
        "is being replaced by another program; search again",
    )
}

#[cfg_attr(unix, allow(dead_code))]
pub(super) fn metadata_following(path: &Path) -> io::Result<EntryMeta> {
    sys::metadata(path, true)
}

/// Returns the identity of the entry that `path` names now; a link at its end is not followed.
#[cfg_attr(unix, allow(dead_code))]
pub(super) fn identity_at(path: &Path) -> io::Result<Option<FileIdentity>> {
    sys::metadata(path, false).map(|meta| meta.identity)
}

fn kind_of(kind: fs::FileType) -> EntryKind {
    if kind.is_symlink() {
        EntryKind::Symlink
    } else if kind.is_dir() {
        EntryKind::Dir
    } else if kind.is_file() {
        EntryKind::File
    } else {
        EntryKind::Other
    }
}

/// Converts metadata. Identity and time of change are missing.
fn meta_of(meta: &Metadata) -> EntryMeta {
    EntryMeta {
        kind: kind_of(meta.file_type()),
        len: meta.len(),
        modified_ns: meta.modified().map_or(0, since_epoch),
        changed_ns: None,
        identity: None,
        links: 1,
    }
}

fn since_epoch(time: SystemTime) -> i128 {
    let signed = |nanoseconds: u128| i128::try_from(nanoseconds).unwrap_or(i128::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => signed(after.as_nanos()),
        Err(before) => -signed(before.duration().as_nanos()),
    }
}
