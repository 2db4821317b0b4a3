//! Files of an index on Windows.
//!
//! This module guarantees opens without following links, and handles that keep no other program
//! from renaming or deleting. Access control lists are neither set nor checked: a directory below
//! the user's profile is private by inheritance.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use super::super::error::FormatError;
use super::super::storage::Privacy;

/// Opens a link itself, not its target (`FILE_FLAG_OPEN_REPARSE_POINT`).
const LINK_ITSELF: u32 = 0x0020_0000;

/// The error of opening or replacing a file that another program uses (`ERROR_SHARING_VIOLATION`).
const IN_USE: i32 = 32;

/// How often a rename is tried while another program has the replaced file open.
const RENAMES: u32 = 50;

/// The pause between two of these attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns a builder of directories. Their access rights are those of the parent.
pub(crate) fn private_dir_builder() -> DirBuilder {
    DirBuilder::new()
}

/// Returns the options to create files. Their access rights are those of the directory.
pub(in super::super) fn private_file_options() -> OpenOptions {
    OpenOptions::new()
}

/// Opens a file for writing, and creates it if it is missing. A link is opened itself.
pub(in super::super) fn open_to_write(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(LINK_ITSELF).open(path)
}

/// Opens a file for reading. A link is opened itself, and [`check_file`] refuses it.
pub(in super::super) fn open_to_read(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(LINK_ITSELF).open(path)
}

/// Renames a file. On filesystems other than NTFS, this fails while another program has the
/// replaced file open. Readers close the manifest at once, so the rename is tried again.
pub(in super::super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    for _ in 1..RENAMES {
        match fs::rename(from, to) {
            Err(error) if is_in_use(&error) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    fs::rename(from, to)
}

fn is_in_use(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied || error.raw_os_error() == Some(IN_USE)
}

/// Does nothing: directories can't be synced here, and the filesystem orders renames itself.
#[allow(clippy::unnecessary_wraps)]
pub(in super::super) fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Does nothing: a read-only file could not be replaced here.
pub(in super::super) fn seal(_file: &mut File) {}

/// Does nothing: access control lists are not checked.
#[allow(clippy::unnecessary_wraps)]
pub(in super::super) fn may_write_to(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Checks that a directory is one. Access control lists are not checked.
pub(in super::super) fn check_dir(dir: &Path, privacy: Privacy) -> Result<(), FormatError> {
    let look = |e| FormatError::io("read the metadata of the directory", e);
    if fs::symlink_metadata(dir).map_err(look)?.is_symlink() && privacy == Privacy::Required {
        return Err(FormatError::insecure(
            "a symbolic link; choose another directory, such as the target of the link",
        ));
    }
    if fs::metadata(dir).map_err(look)?.is_dir() {
        return Ok(());
    }
    Err(FormatError::insecure(
        "not a directory; choose another path, or move the file there out of the way",
    ))
}

/// Returns true if `path` still names the open file. An open file can be removed and replaced here
/// too, by programs that share it.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let identity = |file: &File| {
        let info = winapi_util::file::information(file)?;
        Ok::<_, io::Error>((info.volume_serial_number(), info.file_index()))
    };
    match open_to_read(path) {
        Ok(named) => Ok(identity(file)? == identity(&named)?),
        // A removed file that is still open denies access.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) || is_in_use(&error) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Returns false: an open succeeds for a link, and opens the link.
pub(in super::super) fn is_link(_error: &io::Error) -> bool {
    false
}

/// Checks that a file is regular. Access control lists are not checked.
pub(in super::super) fn check_file(meta: &Metadata, _privacy: Privacy) -> Result<(), FormatError> {
    match meta.is_file() {
        true => Ok(()),
        false => Err(FormatError::insecure("not a regular file; delete it")),
    }
}

/// Returns zeros: the time of the last change is not available.
pub(in super::super) fn changed(_meta: &Metadata) -> (i64, i64) {
    (0, 0)
}

/// Fills `bytes` from the position `start` of a file. Moves the position of the handle.
pub(in super::super) fn read_exact_at(
    file: &File,
    mut bytes: &mut [u8],
    mut start: u64,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_read(bytes, start) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                bytes = &mut bytes[read..];
                start += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns no advice: the messages of the system suffice.
pub(in super::super) fn remedy_of_code(_error: &io::Error) -> &'static str {
    ""
}
