//! Files of an index on Unix.
//!
//! This module guarantees privacy by owner and mode, opens without following links, and replacement
//! of files that are in use.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::super::error::FormatError;
use super::super::storage::Privacy;

/// Returns a builder of directories that only this user has access to.
pub(crate) fn private_dir_builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Returns the options to create files that only this user has access to.
pub(in super::super) fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Opens a file for writing, and creates it if it is missing. Follows no link.
pub(in super::super) fn open_to_write(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::RDWR | OFlags::CREATE, Mode::RUSR | Mode::WUSR)
}

/// Opens a file for reading. Follows no link.
pub(in super::super) fn open_to_read(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::RDONLY, Mode::empty())
}

fn open_with(path: &Path, access: OFlags, mode: Mode) -> io::Result<File> {
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, mode));
    Ok(File::from(opened?))
}

/// Renames a file. An open or mapped file of the new name lives on until it is closed.
pub(in super::super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Makes the names in a directory survive a power failure.
pub(in super::super) fn sync_dir(dir: &Path) -> io::Result<()> {
    match File::open(dir)?.sync_all() {
        // Some filesystems, mostly network filesystems, don't support this. There is no
        // alternative.
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

/// Makes a file read-only, also for this user, if the filesystem supports that.
pub(in super::super) fn seal(file: &mut File) {
    let _unless_unknown = file.set_permissions(fs::Permissions::from_mode(0o400));
}

/// Checks that this user can create files in a directory.
pub(in super::super) fn may_write_to(dir: &Path) -> io::Result<()> {
    let asked = Access::WRITE_OK | Access::EXEC_OK;
    Ok(rustix::fs::accessat(CWD, dir, asked, AtFlags::EACCESS)?)
}

/// Checks that a directory is no link, and that only this user has access to it.
pub(in super::super) fn check_dir(dir: &Path, privacy: Privacy) -> Result<(), FormatError> {
    /// The mode bits that give group or others any access.
    const SHARED: u32 = 0o077;

    let user = rustix::process::geteuid().as_raw();
    let look = |e| FormatError::io("read the metadata of the directory", e);
    let own = |meta: &Metadata, what: &str| {
        if privacy == Privacy::Waived || meta.uid() == user {
            return Ok(());
        }
        let owner = meta.uid();
        Err(FormatError::insecure(format!(
            "{what} of user {owner}, but user {user} runs this program; choose another directory"
        )))
    };
    // A trailing separator would make the system follow a link here.
    let named: PathBuf = dir.components().collect();
    let link = fs::symlink_metadata(named).map_err(look)?;
    if link.is_symlink() && privacy == Privacy::Required {
        return Err(FormatError::insecure(
            "a symbolic link; choose another directory, such as the target of the link",
        ));
    }
    let meta = fs::metadata(dir).map_err(look)?;
    if !meta.is_dir() {
        return Err(FormatError::insecure(
            "not a directory; choose another path, or move the file there out of the way",
        ));
    }
    own(&meta, "a directory")?;
    let mode = meta.mode() & 0o7777;
    if privacy == Privacy::Required && mode & SHARED != 0 {
        return Err(FormatError::insecure(format!(
            "other users have access to it (mode {mode:04o}); `chmod 700` it or choose another directory"
        )));
    }
    Ok(())
}

/// Returns true if `path` still names the open file.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns true if a file could not be opened because it is a symbolic link.
pub(in super::super) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Checks that a file is regular, and that no other user can write to it.
pub(in super::super) fn check_file(meta: &Metadata, privacy: Privacy) -> Result<(), FormatError> {
    /// The mode bits that let group or others write.
    const WRITABLE: u32 = 0o022;

    if !meta.is_file() {
        return Err(FormatError::insecure("not a regular file; delete it"));
    }
    if privacy == Privacy::Waived {
        return Ok(());
    }
    let (owner, user) = (meta.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(FormatError::insecure(format!(
            "belongs to user {owner}, but user {user} runs this program; delete it or choose \
             another directory"
        )));
    }
    let mode = meta.mode() & 0o7777;
    if mode & WRITABLE != 0 {
        return Err(FormatError::insecure(format!(
            "other users can write to it (mode {mode:04o}); delete it, or `chmod 600` if you trust its content"
        )));
    }
    Ok(())
}

/// Returns the time of the last change of content or metadata, in seconds and nanoseconds.
pub(in super::super) fn changed(meta: &Metadata) -> (i64, i64) {
    (meta.ctime(), meta.ctime_nsec())
}

/// Fills `bytes` from the position `start` of a file.
pub(in super::super) fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    file.read_exact_at(bytes, start)
}

/// Returns advice about an error that has no kind of its own.
pub(in super::super) fn remedy_of_code(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => {
            "; close some files, or raise the limit of open files (`ulimit -n`)"
        }
        Some(Errno::IO) => "; check the disk, or choose another directory",
        // The message of the system suffices.
        _ => "",
    }
}
