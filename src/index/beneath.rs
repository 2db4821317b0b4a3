//! Opening files beneath one root and nowhere else.
//!
//! A path that was validated can be swapped for a symbolic link before it is opened. This module
//! owns the handle through which every file and directory of a root is opened so that the swap is
//! noticed by the open itself (`NFR-LS-SEC-01`): the path is resolved by the kernel relative to a
//! directory that is already open, and a symbolic link anywhere in it is an error. It must not
//! know which roots are allowed or which names are denied.
//!
//! On Linux one `openat2` call does the whole resolution. Where that call is missing or filtered,
//! and on other Unixes, the path is opened component by component without following links. Where
//! neither exists the file is opened first and its path checked afterwards.

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
    /// A directory.
    Dir,
    /// A symbolic link, whatever it leads to.
    Symlink,
    /// A device, a FIFO, a socket: nothing that can be searched.
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

/// What identifies a file on this machine, whatever names it has.
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
    /// Its length in bytes.
    pub len: u64,
    /// When its content last changed, in nanoseconds since the Unix epoch.
    pub modified_ns: i128,
    /// When its content or its metadata last changed, in nanoseconds since the Unix epoch; `None`
    /// where the platform does not tell.
    pub changed_ns: Option<i128>,
    /// Its identity; `None` where the platform does not tell.
    pub identity: Option<FileIdentity>,
    /// How many names it has (hard links).
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

    /// Tells whether the root's path still names the directory that is open here. It does not once
    /// the directory was removed, renamed or replaced; the handle then keeps serving the old one.
    pub fn is_current(&self) -> bool {
        sys::identity_at(&self.path).is_ok_and(|now| now == self.identity)
    }

    /// Opens the regular file at `rel` for reading.
    ///
    /// # Errors
    ///
    /// As [`open_file_with_meta`](RootDir::open_file_with_meta).
    pub fn open_file(&self, rel: &Path) -> io::Result<File> {
        self.open_file_with_meta(rel).map(|(file, _)| file)
    }

    /// Opens the regular file at `rel` for reading and returns the metadata that the check of its
    /// kind has already read.
    ///
    /// # Errors
    ///
    /// `InvalidInput` ("not a regular file") for anything but a regular file, `PermissionDenied`
    /// if the path is or passes through a symbolic link, and whatever else opening fails with. The
    /// message is fit for an entry in a response's `errors` (`FR-LS-ERR-06`).
    pub fn open_file_with_meta(&self, rel: &Path) -> io::Result<(File, EntryMeta)> {
        check_relative(rel)?;
        self.root.open_file(rel)
    }

    /// Lists the directory at `rel`, in the order of the filesystem, without `.` and `..`.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if the path is or passes through a symbolic link, and whatever else
    /// opening or reading the directory fails with.
    pub fn open_dir_entries(&self, rel: &Path) -> io::Result<Vec<RawEntry>> {
        check_relative(rel)?;
        self.root.entries(rel)
    }

    /// Returns the metadata of the entry at `rel`; that of the link itself if it is one.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if a directory on the way is a symbolic link, and whatever else looking
    /// the path up fails with.
    pub fn metadata(&self, rel: &Path) -> io::Result<EntryMeta> {
        check_relative(rel)?;
        self.root.metadata(rel)
    }

    /// Returns the metadata of the directory at `rel` and of the entries `names` in it; links are not followed.
    /// Opens the directory once, so that an entry costs one system call. Names that are no single component are
    /// refused one by one.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if the path is or passes through a symbolic link, and whatever else opening the
    /// directory fails with.
    pub fn stat_entries<'a>(
        &self,
        rel: &Path,
        names: impl Iterator<Item = &'a OsStr>,
    ) -> io::Result<DirStat> {
        check_relative(rel)?;
        self.root.stat_entries(rel, names)
    }
}

/// Returns true for a name that can stand in a directory.
pub(super) fn is_component(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    let separator = |byte: &u8| std::path::is_separator(char::from(*byte));
    !matches!(bytes, b"" | b"." | b"..") && !bytes.contains(&0) && !bytes.iter().any(separator)
}

fn not_a_component() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "the name is not that of an entry",
    )
}

/// The state of a directory and of entries in it.
#[derive(Debug)]
pub struct DirStat {
    /// The directory itself.
    pub dir: EntryMeta,
    /// The entries, in the order in which they were asked for.
    pub entries: Vec<io::Result<EntryMeta>>,
}

/// Returns the metadata of what is at `path`, symbolic links followed. For files outside of any root, of which
/// nothing but their state is of interest.
///
/// # Errors
///
/// Whatever looking the path up fails with.
pub fn metadata_following(path: &Path) -> io::Result<EntryMeta> {
    sys::metadata_following(path)
}

/// Refuses a path that is absolute or climbs, before anything is asked of the filesystem.
fn check_relative(rel: &Path) -> io::Result<()> {
    let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    // This runs once a file, so it looks at bytes and leaves `Path::components` alone. Bytes of
    // the encoding that are ASCII mean themselves, on every platform.
    let bytes = rel.as_os_str().as_encoded_bytes();
    if rel.has_root() || rel.is_absolute() {
        return refuse("the path is not relative to its root");
    }
    let separator = |byte: &u8| std::path::is_separator(char::from(*byte));
    if bytes.contains(&0) {
        return refuse("the path contains a NUL byte");
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
