//! How a file of an index comes to its name: complete, or not at all.
//!
//! Owns the order of steps that makes it so, and the names of unfinished files. Nothing else renames. A file is
//! written under a name of its own, synced, given its final name, and the directory is synced; whoever opens the
//! final name sees the old file or the new one, also after a crash or a loss of power at any step
//! (`FR-LSI-IDX-CONC-03`). It must not know what is in the files.

// Locks are the filesystem's, which the interpreter keeps from tests.
#[cfg(all(test, not(miri)))]
mod tests;

use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::{Disk, DiskFile};
use super::error::{FormatError, FormatErrorKind};
use super::lock::DirLock;

/// The longest name of a file, in bytes. Leaves room for what an unfinished file has around it.
pub const MAX_NAME_BYTES: usize = 200;

/// The end of the names of unfinished files.
const UNFINISHED: &str = ".tmp";

/// What a database library appends to the name of a file for those that it keeps beside it while it has it open.
/// [`publish_path`] knows them; a published file has none that matter.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// How many names are tried for an unfinished file. They are taken only by what earlier processes of the same
/// number left behind.
const MAX_TRIES: u32 = 1000;

/// What is collected before it is handed to the system.
const BUFFER_BYTES: usize = 256 * 1024;

/// Tells apart the unfinished files of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns whether `name` can be that of a published file: letters, digits, `.`, `_` and `-` of ASCII, no dot first, at
/// most [`MAX_NAME_BYTES`]. So a name from a file can't lead out of its directory, nor to a lock or an unfinished file.
pub fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(plain)
}

/// Writes the file `name` in the locked directory by `write`, and puts it in the place of what has that name.
///
/// When it returns `Ok`, the new file is there and survives a loss of power. When it returns an error, the old one
/// is there, unless only the last step failed, the syncing of the directory: then the new file is there, complete,
/// but a loss of power might bring back the old one. Whatever happened, it is never neither.
///
/// The output of `write` is buffered. An error that `write` returns is returned.
///
/// # Errors
///
/// [`FormatErrorKind::Io`] for anything the system refuses; [`FormatErrorKind::Refused`] for a name that [`is_plain_name`]
/// denies, or a lock that does not allow to write.
pub fn publish<T, E, F>(disk: &dyn Disk, lock: &DirLock, name: &str, write: F) -> Result<T, E>
where
    E: From<FormatError>,
    F: FnOnce(&mut dyn Write) -> Result<T, E>,
{
    let dir = lock.dir();
    let path = dir.join(name);
    let fail =
        |operation, error: io::Error| E::from(FormatError::io(operation, error).in_file(&path));
    check_use(lock, name)?;
    // In this order, so that the file is closed before an unfinished one is removed.
    let (mut unfinished, mut file) =
        Unfinished::create(disk, dir, name).map_err(|e| fail("create the new file", e))?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, &mut file);
    let written = write(&mut out).and_then(|value| {
        out.flush().map_err(|e| fail("write the new file", e))?;
        Ok(value)
    });
    // Dropped as it is, it would write what is left of a file that failed.
    drop(out.into_parts());
    let value = written?;
    unfinished
        .complete(file, &path)
        .map_err(|e| e.in_file(&path))?;
    Ok(value)
}

/// As [`publish`], for a file that says nothing any more after a loss of power: whoever opens it sees the old one or the new one,
/// but nothing is synced.
///
/// # Errors
///
/// As [`publish`].
pub fn replace(
    disk: &dyn Disk,
    lock: &DirLock,
    name: &str,
    bytes: &[u8],
) -> Result<(), FormatError> {
    let path = lock.dir().join(name);
    let fail = |operation, error: io::Error| FormatError::io(operation, error).in_file(&path);
    check_use(lock, name)?;
    let (mut unfinished, mut file) =
        Unfinished::create(disk, lock.dir(), name).map_err(|e| fail("create the new file", e))?;
    file.write_all(bytes)
        .and_then(|()| file.flush())
        .map_err(|e| fail("write the new file", e))?;
    drop(file);
    disk.rename(&unfinished.path, &path)
        .map_err(|e| fail("rename the new file", e))?;
    unfinished.exists = false;
    Ok(())
}

/// As [`publish`], for a file whose content a library writes that wants its path: `write` gets the path of an empty
/// file, and returns when everything is in it and it is closed.
///
/// Files that the library left beside it, or beside the one that is replaced, are removed: a new file must not be read
/// with what belongs to an old one.
///
/// # Errors
///
/// As [`publish`].
pub fn publish_path<T, E, F>(disk: &dyn Disk, lock: &DirLock, name: &str, write: F) -> Result<T, E>
where
    E: From<FormatError>,
    F: FnOnce(&Path) -> Result<T, E>,
{
    let dir = lock.dir();
    let path = dir.join(name);
    check_use(lock, name)?;
    // The file stays open meanwhile: on Unix closing it would give back the locks that the library has on it.
    let (mut unfinished, file) = Unfinished::create(disk, dir, name)
        .map_err(|e| E::from(FormatError::io("create the new file", e).in_file(&path)))?;
    unfinished.companions = true;
    let value = write(&unfinished.path)?;
    remove_companions(disk, &unfinished.path)?;
    remove_companions(disk, &path)?;
    unfinished
        .complete(file, &path)
        .map_err(|e| e.in_file(&path))?;
    Ok(value)
}

/// Removes what a library has left beside a file.
fn remove_companions(disk: &dyn Disk, path: &Path) -> Result<(), FormatError> {
    for end in COMPANIONS {
        let companion = with_end(path, end);
        match disk.remove(&companion) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let fail = FormatError::io("remove what belongs to a replaced file", error);
                return Err(fail.in_file(&companion));
            }
            _ => {}
        }
    }
    Ok(())
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(end);
    PathBuf::from(name)
}

/// Removes what interrupted publications left in the locked directory; returns how many files those were.
///
/// Unfinished files of live processes can't be among them: publishing takes the same lock.
///
/// # Errors
///
/// [`FormatErrorKind::Io`] if the directory can't be read or a file can't be removed; [`FormatErrorKind::Refused`] for a
/// lock that does not allow to write.
pub fn remove_leftovers(disk: &dyn Disk, lock: &DirLock) -> Result<usize, FormatError> {
    check_lock(lock)?;
    let dir = lock.dir();
    let names = disk
        .names(dir)
        .map_err(|e| FormatError::io("list the directory", e).in_file(dir))?;
    let mut removed = 0;
    for name in names.iter().filter(|name| is_unfinished(name)) {
        let path = dir.join(name);
        match disk.remove(&path) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(FormatError::io("remove what was left behind", error).in_file(&path));
            }
        }
    }
    Ok(removed)
}

/// Returns whether a file of that name is one whose publication has not ended, or was beside one.
pub fn is_unfinished(name: &OsStr) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(inner) = name.to_str().and_then(|name| {
        let name = name.strip_prefix('.')?;
        let ends = COMPANIONS.iter().filter_map(|end| name.strip_suffix(end));
        ends.chain([name])
            .find_map(|name| name.strip_suffix(UNFINISHED))
    }) else {
        return false;
    };
    let mut parts = inner.rsplitn(3, '.');
    let numbers = parts.by_ref().take(2).filter(|part| number(part)).count();
    numbers == 2 && parts.next().is_some_and(is_plain_name)
}

fn check_use(lock: &DirLock, name: &str) -> Result<(), FormatError> {
    check_lock(lock)?;
    if is_plain_name(name) {
        return Ok(());
    }
    let problem = "no file of an index can have this name";
    Err(FormatError::new(FormatErrorKind::Refused { problem }).in_file(&lock.dir().join(name)))
}

fn check_lock(lock: &DirLock) -> Result<(), FormatError> {
    if lock.is_writer() {
        return Ok(());
    }
    let problem = "the lock held on the directory does not allow to write";
    Err(FormatError::new(FormatErrorKind::Refused { problem }).in_file(lock.dir()))
}

/// A file that has not got its final name. Removed when dropped before it has, if possible: else it is left to
/// [`remove_leftovers`].
struct Unfinished<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    exists: bool,
    /// Whether a library may have left files beside it.
    companions: bool,
}

impl<'a> Unfinished<'a> {
    fn create(disk: &'a dyn Disk, dir: &Path, name: &str) -> io::Result<(Self, Box<dyn DiskFile>)> {
        let process = std::process::id();
        let mut tries = 0;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!(".{name}.{process}.{number}{UNFINISHED}"));
            tries += 1;
            match disk.create_new(&path) {
                Ok(file) => {
                    let unfinished = Self {
                        disk,
                        path,
                        exists: true,
                        companions: false,
                    };
                    return Ok((unfinished, file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => {
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives it its final name, after it was written.
    fn complete(&mut self, mut file: Box<dyn DiskFile>, path: &Path) -> Result<(), FormatError> {
        let fail = FormatError::io;
        // A library opens its file again, and may want to write.
        if !self.companions {
            file.seal();
        }
        file.sync().map_err(|e| fail("sync the new file", e))?;
        drop(file);
        self.disk
            .rename(&self.path, path)
            .map_err(|e| fail("rename the new file", e))?;
        self.exists = false;
        let dir = path.parent().unwrap_or(Path::new(""));
        self.disk
            .sync_dir(dir)
            .map_err(|e| fail("sync the directory of the new file", e))
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.exists {
            // The error that led here is the one to report.
            let _left_behind = self.disk.remove(&self.path);
            if self.companions {
                let _left_behind = remove_companions(self.disk, &self.path);
            }
        }
    }
}
