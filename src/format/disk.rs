//! The handful of operations by which files of an index come to be and go.
//!
//! Owns the seam between this layer and the filesystem: everything that changes a directory, or opens a file in it, goes
//! through [`Disk`], so that tests can fail or stop at each single operation. It must not know in which order they are to be
//! done; that is `publish`.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Changes to a directory of index files. Each operation is either done or not when it returns, but nothing is
/// promised to survive a loss of power before [`DiskFile::sync`] and [`sync_dir`](Self::sync_dir).
pub trait Disk: fmt::Debug + Send + Sync {
    /// Makes a directory that only this user can reach into, and those above it that are missing.
    ///
    /// # Errors
    ///
    /// Those of the system, here and below. That there is anything of that name already is none.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::DirectoryNotEmpty`] if it is not empty.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;

    /// Opens a file for reading. Symbolic links are not followed, and the writer of a FIFO is not waited for.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none; the system's own for a symbolic link.
    fn open(&self, path: &Path) -> io::Result<File>;

    /// Opens a file to be locked, and makes it where there is none. For a lock that is shared (`exclusive` is false) it need
    /// not be writable: one that is there will do.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File>;

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
    /// Those of the system.
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
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        open_to_read(path)
    }

    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File> {
        let refused = match open_to_write(path) {
            Err(error) if !exclusive && may_be_readable(error.kind()) => error,
            opened => return opened,
        };
        // Where that does not work either, the first answer is the better one: there is nothing to be locked.
        open_to_read(path).map_err(|_| refused)
    }

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

/// Whether what may not be written may still be readable: in a directory without write permission, or on a filesystem
/// that is mounted read-only.
fn may_be_readable(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

#[cfg(unix)]
fn open_to_write(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};

    open_with(path, OFlags::RDWR | OFlags::CREATE, Mode::RUSR | Mode::WUSR)
}

#[cfg(unix)]
fn open_to_read(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};

    open_with(path, OFlags::RDONLY, Mode::empty())
}

#[cfg(unix)]
fn open_with(path: &Path, access: rustix::fs::OFlags, mode: rustix::fs::Mode) -> io::Result<File> {
    use rustix::fs::OFlags;

    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, mode));
    Ok(File::from(opened?))
}

#[cfg(not(unix))]
fn open_to_write(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path)
}

#[cfg(not(unix))]
fn open_to_read(path: &Path) -> io::Result<File> {
    File::open(path)
}
