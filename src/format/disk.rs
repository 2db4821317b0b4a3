//! The handful of operations by which files of an index come to be and go.
//!
//! Owns the seam between this layer and the filesystem: everything that changes a directory goes through [`Disk`], so
//! that tests can fail or stop at each single operation. It must not know in which order they are to be
//! done; that is `publish`.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Changes to a directory of index files. Each operation is either done or not when it returns, but nothing is
/// promised to survive a loss of power before [`DiskFile::sync`] and [`sync_dir`](Self::sync_dir).
pub trait Disk: Send + Sync {
    /// Creates a file for writing that only this user can open.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if there is anything of that name.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, replacing what has it.
    ///
    /// # Errors
    ///
    /// Those of the system, here and below.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory survive a loss of power.
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
    /// Makes what was written survive a loss of power.
    ///
    /// # Errors
    ///
    /// Those of the system. The content is then unknown, and trying again proves nothing.
    fn sync(&mut self) -> io::Result<()>;

    /// Lets nobody open it for writing any more, this user included, where the filesystem knows how: a precaution,
    /// without which everything works.
    fn seal(&mut self) {}
}

/// The filesystem.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Box::new(options.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    #[cfg(unix)]
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match File::open(dir)?.sync_all() {
            // Some filesystems, of networks mostly, do not know how; there is nothing better to be had there.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            done => done,
        }
    }

    /// Directories can't be opened for that here; the filesystem orders renames by itself.
    #[cfg(not(unix))]
    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
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

    #[cfg(unix)]
    fn seal(&mut self) {
        use std::os::unix::fs::PermissionsExt;
        let _unless_unknown = self.set_permissions(fs::Permissions::from_mode(0o400));
    }
}
