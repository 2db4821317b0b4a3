//! The filesystem operations on index files.
//!
//! This module owns the trait [`Disk`]. Every change to a directory, and every opening of a file in
//! it, goes through the trait, so that tests can fail or stop at each operation. This module does
//! not know the order of the operations; `publish` does.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::sys;

/// Operations on a directory of index files. Each operation is either done or not done when it
/// returns. It survives a power failure only after [`DiskFile::sync`] and
/// [`sync_dir`](Self::sync_dir).
pub trait Disk: fmt::Debug + Send + Sync {
    /// Creates a directory with access for this user only, and its missing parents.
    ///
    /// # Errors
    ///
    /// Those of the system, here and below. An existing entry of that name is not an error.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::DirectoryNotEmpty`] if it is not empty.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;

    /// Opens a file for reading. Does not follow symbolic links, and does not wait for the writer
    /// of a FIFO.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if the file is missing; the system's own error for a symbolic
    /// link.
    fn open(&self, path: &Path) -> io::Result<File>;

    /// Opens a file for locking, and creates it if it is missing. For a shared lock (`exclusive` is
    /// false), an existing file that is only readable suffices.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File>;

    /// Creates a file for writing, with access for this user only.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if an entry of that name exists.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, and replaces an existing file of the new name.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if the file is missing.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory survive a power failure.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Returns the names in a directory, in no particular order.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>>;
}

/// A file that is being written.
pub trait DiskFile: io::Write {
    /// Makes the written bytes survive a power failure.
    ///
    /// # Errors
    ///
    /// Those of the system. The content is then unknown, and a retry proves nothing.
    fn sync(&mut self) -> io::Result<()>;

    /// Makes the file read-only, also for this user, if the filesystem supports that. A precaution:
    /// nothing depends on it.
    fn seal(&mut self) {}
}

/// The filesystem of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let mut builder = sys::private_dir_builder();
        match builder.recursive(true).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        sys::open_to_read(path)
    }

    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File> {
        let refused = match sys::open_to_write(path) {
            Err(error) if !exclusive && may_be_readable(error.kind()) => error,
            opened => return opened,
        };
        // If reading fails as well, the first error explains better why there is nothing to lock.
        sys::open_to_read(path).map_err(|_| refused)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = sys::private_file_options();
        Ok(Box::new(options.write(true).create_new(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        sys::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        sys::sync_dir(dir)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(dir)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect()
    }
}

impl DiskFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    fn seal(&mut self) {
        sys::seal(self);
    }
}

/// Returns true if a file that can't be written may still be readable: in a directory without write
/// permission, or on a filesystem that is mounted read-only.
fn may_be_readable(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}
