//! Opens files beneath one root, and nowhere else.
//!
//! An attacker may replace a validated path by a symbolic link before it is opened. This module
//! owns the handle that opens every file and directory of a root, so that the open itself detects
//! the replacement. The kernel resolves the path relative to a directory that is already open, and
//! any symbolic link in it is an error. This module does not know the allowed roots or the denied
//! patterns.
//!
//! On Linux, one `openat2` call does the whole resolution. If that call is missing or filtered, and
//! on other Unixes, the path is opened component by component without following links (`unix`). On
//! other systems, the file is opened first and its path checked afterwards (`portable`).

#[cfg(any(not(unix), test))]
mod portable;
#[cfg(unix)]
mod unix;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[cfg(not(unix))]
use portable as sys;
#[cfg(unix)]
use unix as sys;

/// An open directory beneath which files are opened, symbolic links refused.
///
/// On Unix it is a handle, and follows the directory when it is renamed. Elsewhere it is a path.
#[derive(Debug)]
pub struct RootDir {
    path: PathBuf,
    identity: Option<FileIdentity>,
    root: sys::Root,
}

/// The kind of a directory entry, symbolic links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory, not a link to one.
    Dir,
    /// A symbolic link, regardless of its target.
    Symlink,
    /// A device, a FIFO or a socket, which can't be searched.
    Other,
}

/// One entry of a directory, as the filesystem lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEntry {
    /// The entry's name within its directory.
    pub name: OsString,
    /// The entry's kind.
    pub kind: EntryKind,
}

/// The identity of a file on this machine, the same for all its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The device the file is on.
    pub device: u64,
    /// The file's number on that device.
    pub inode: u64,
}

/// The metadata of an entry, symbolic links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryMeta {
    /// The entry's kind.
    pub kind: EntryKind,
    /// The length in bytes.
    pub len: u64,
    /// When the content last changed, in nanoseconds since the Unix epoch.
    pub modified_ns: i128,
    /// When the content or the metadata last changed, in nanoseconds since the Unix epoch; `None`
    /// if the platform does not report it.
    pub changed_ns: Option<i128>,
    /// The identity; `None` if the platform does not report it.
    pub identity: Option<FileIdentity>,
    /// The number of names (hard links).
    pub links: u64,
}

impl RootDir {
    /// Opens the root at `canonical`, an absolute path without symbolic links.
    ///
    /// # Errors
    ///
    /// An error if the path is relative, passes through a symbolic link, is not a directory or
    /// can't be opened.
    pub fn open(canonical: &Path) -> io::Result<Self> {
        if !canonical.is_absolute() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path is not absolute",
            ));
        }
        let root = sys::Root::open(canonical)?;
        let identity = root.metadata(Path::new(""))?.identity;
        Ok(Self {
            path: canonical.to_path_buf(),
            identity,
            root,
        })
    }

    /// Returns the path this root was opened at.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the root's path still names the open directory. It does not after the
    /// directory was removed, renamed or replaced; the handle keeps serving the old one.
    pub fn is_current(&self) -> bool {
        sys::identity_at(&self.path).is_ok_and(|now| now == self.identity)
    }

    /// Opens the regular file at `rel` for reading.
    ///
    /// # Errors
    ///
    /// The same errors as [`open_file_with_meta`](RootDir::open_file_with_meta).
    pub fn open_file(&self, rel: &Path) -> io::Result<File> {
        self.open_file_with_meta(rel).map(|(file, _)| file)
    }

    /// Opens the regular file at `rel` for reading. Also returns its metadata, which the check of
    /// its kind reads anyway.
    ///
    /// # Errors
    ///
    /// `InvalidInput` ("not a regular file") for anything but a regular file, `PermissionDenied` if
    /// the path is or passes through a symbolic link, and any other error of opening the file. The
    /// message is fit for an entry in a response's `errors`.
    pub fn open_file_with_meta(&self, rel: &Path) -> io::Result<(File, EntryMeta)> {
        check_relative(rel)?;
        self.root.open_file(rel)
    }

    /// Lists the directory at `rel`, in the order of the filesystem, without `.` and `..`.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if the path is or passes through a symbolic link, and any other error of
    /// opening or reading the directory.
    pub fn open_dir_entries(&self, rel: &Path) -> io::Result<Vec<RawEntry>> {
        check_relative(rel)?;
        self.root.entries(rel)
    }

    /// Returns the metadata of the entry at `rel`; if it is a link, that of the link itself.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if a directory on the way is a symbolic link, and any other error of
    /// looking the path up.
    pub fn metadata(&self, rel: &Path) -> io::Result<EntryMeta> {
        check_relative(rel)?;
        self.root.metadata(rel)
    }

    /// Returns the metadata of the directory at `rel` and of the entries `names` in it, without
    /// following links. Opens the directory once, so each entry costs one system call. A name that
    /// is no single component gets an error of its own.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if the path is or passes through a symbolic link, and any other error of
    /// opening the directory.
    pub fn stat_entries<'a>(
        &self,
        rel: &Path,
        names: impl Iterator<Item = &'a OsStr>,
    ) -> io::Result<DirStat> {
        check_relative(rel)?;
        self.root.stat_entries(rel, names)
    }
}

/// Returns true if a directory entry can have this name.
pub(super) fn is_component(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    let is_excluded = |byte: &u8| *byte == 0 || std::path::is_separator(char::from(*byte));
    !matches!(bytes, b"" | b"." | b"..") && !bytes.iter().any(is_excluded)
}

fn not_a_component() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "the name is not a valid name of a directory entry",
    )
}

/// The metadata of a directory and of entries in it.
#[derive(Debug)]
pub struct DirStat {
    /// The directory itself.
    pub dir: EntryMeta,
    /// The entries, in the order of the requested names.
    pub entries: Vec<io::Result<EntryMeta>>,
}

/// Returns the metadata at `path`, with symbolic links followed. For files outside of any root, of
/// which only the metadata is used.
///
/// # Errors
///
/// Any error of looking the path up.
pub fn metadata_following(path: &Path) -> io::Result<EntryMeta> {
    sys::metadata_following(path)
}

/// Rejects a path that is absolute or contains `..`, before the filesystem is accessed.
fn check_relative(rel: &Path) -> io::Result<()> {
    let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    // This runs once for each file, so it looks at bytes instead of `Path::components`. ASCII bytes
    // of the encoding stand for themselves on every platform.
    let bytes = rel.as_os_str().as_encoded_bytes();
    if rel.has_root() || rel.is_absolute() {
        return refuse("the path is not relative to its root");
    }
    let separator = |byte: &u8| std::path::is_separator(char::from(*byte));
    if bytes.contains(&0) {
        return refuse("the path contains a NUL byte");
    }
    // `name::$DATA` is another name of the same file, which no denied pattern would match.
    if cfg!(windows) && bytes.contains(&b':') {
        return refuse("the path names a stream of a file");
    }
    if bytes.split(separator).any(|part| part == b"..") {
        return refuse("the path contains a `..` component");
    }
    Ok(())
}

fn not_a_regular_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

fn symbolic_link() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "is or passes through a symbolic link",
    )
}

#[cfg(test)]
mod tests;
