//! Atomic publication of index files: a file is complete under its final name, or absent.
//!
//! This module owns the order of the steps, and the names of unfinished files. Only this module
//! renames them. It writes a file under a temporary name, syncs it, renames it to the final name,
//! and syncs the directory. A reader of the final name sees the old file or the new one, also after
//! a crash or a power failure at any step. `replace` renames without syncing, for files that may be
//! lost. Callers hold the writers' lock. This module does not know the content of the files.

use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::{Disk, DiskFile};
use super::error::{FormatError, FormatErrorKind};
use super::lock::DirLock;

/// The longest name of a file, in bytes. Leaves room for the affixes of an unfinished file.
pub const MAX_NAME_BYTES: usize = 200;

/// The suffix of unfinished files.
const UNFINISHED: &str = ".tmp";

/// The suffixes of the companion files that SQLite keeps next to an open database. [`publish_path`]
/// removes them; a published file does not need them.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The number of names that are tried for an unfinished file. A name is taken only by a leftover of
/// an earlier process with the same process id.
const MAX_TRIES: u32 = 1000;

/// The size of the write buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// The number of the next unfinished file of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns true if `name` is allowed for a published file: ASCII letters, digits, `.`, `_` and `-`,
/// no leading dot, at most [`MAX_NAME_BYTES`]. So a name from a file can't lead to another
/// directory, to a lock or to an unfinished file.
pub fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(plain)
}

/// Writes the file `name` in the locked directory with `write`, and replaces the old file of that
/// name.
///
/// After `Ok`, the new file survives a power failure. After an error, the old file is still there,
/// with one exception: if only the sync of the directory failed, the complete new file is there,
/// and a power failure may restore the old one. In no case are both missing.
///
/// The output of `write` is buffered. An error of `write` is returned.
///
/// # Errors
///
/// [`FormatErrorKind::Io`] if the system refuses an operation. [`FormatErrorKind::Refused`] if
/// [`is_plain_name`] rejects the name, or if the lock does not allow writing.
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
        UnfinishedFile::create(disk, dir, name).map_err(|e| fail("create the new file", e))?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, &mut file);
    let written = write(&mut out).and_then(|value| {
        out.flush().map_err(|e| fail("write the new file", e))?;
        Ok(value)
    });
    // Dropping the `BufWriter` itself would write the rest of a failed file.
    drop(out.into_parts());
    let value = written?;
    unfinished
        .complete(file, &path)
        .map_err(|e| e.in_file(&path))?;
    Ok(value)
}

/// Replaces a file as [`publish`] does, but syncs nothing. For a file that is meaningless after a
/// power failure. A reader sees the old file or the new one.
///
/// # Errors
///
/// Those of [`publish`].
pub fn replace(
    disk: &dyn Disk,
    lock: &DirLock,
    name: &str,
    bytes: &[u8],
) -> Result<(), FormatError> {
    let path = lock.dir().join(name);
    let fail = |operation, error: io::Error| FormatError::io(operation, error).in_file(&path);
    check_use(lock, name)?;
    let (mut unfinished, mut file) = UnfinishedFile::create(disk, lock.dir(), name)
        .map_err(|e| fail("create the new file", e))?;
    file.write_all(bytes)
        .and_then(|()| file.flush())
        .map_err(|e| fail("write the new file", e))?;
    drop(file);
    disk.rename(&unfinished.path, &path)
        .map_err(|e| fail("rename the new file", e))?;
    unfinished.exists = false;
    Ok(())
}

/// Publishes a file as [`publish`] does, but a library writes it by path. `write` receives the path
/// of an empty file. When it returns, the file must be complete and closed.
///
/// Removes the companion files that the library left next to the new file and the replaced one: a
/// new file must not be read with companions of an old one.
///
/// # Errors
///
/// Those of [`publish`].
pub fn publish_path<T, E, F>(disk: &dyn Disk, lock: &DirLock, name: &str, write: F) -> Result<T, E>
where
    E: From<FormatError>,
    F: FnOnce(&Path) -> Result<T, E>,
{
    let dir = lock.dir();
    let path = dir.join(name);
    check_use(lock, name)?;
    // The file stays open: on Unix, closing it would release the library's locks on it.
    let (mut unfinished, file) = UnfinishedFile::create(disk, dir, name)
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

/// Removes the companion files of a database.
fn remove_companions(disk: &dyn Disk, path: &Path) -> Result<(), FormatError> {
    for end in COMPANIONS {
        let companion = with_end(path, end);
        match disk.remove(&companion) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let fail = FormatError::io("remove a companion of the replaced file", error);
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

/// Removes the leftovers of interrupted publications in the locked directory. Returns their number.
///
/// Files of live processes can't be among them: publishing takes the same lock.
///
/// # Errors
///
/// [`FormatErrorKind::Io`] if the directory can't be read or a file can't be removed.
/// [`FormatErrorKind::Refused`] if the lock does not allow writing.
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
                return Err(
                    FormatError::io("remove a file of an interrupted write", error).in_file(&path),
                );
            }
        }
    }
    Ok(removed)
}

/// Returns true if `name` is that of an unfinished file, or of a companion of one.
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
    let problem = "this is not a valid name of an index file";
    Err(FormatError::new(FormatErrorKind::Refused { problem }).in_file(&lock.dir().join(name)))
}

fn check_lock(lock: &DirLock) -> Result<(), FormatError> {
    if lock.is_writer() {
        return Ok(());
    }
    let problem = "the lock held on the directory does not permit writing";
    Err(FormatError::new(FormatErrorKind::Refused { problem }).in_file(lock.dir()))
}

/// A file without its final name. Drop removes it; if that fails, [`remove_leftovers`] does later.
struct UnfinishedFile<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    exists: bool,
    /// Whether a library may have left companion files.
    companions: bool,
}

impl<'a> UnfinishedFile<'a> {
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

    /// Gives the written file its final name.
    fn complete(&mut self, mut file: Box<dyn DiskFile>, path: &Path) -> Result<(), FormatError> {
        let fail = FormatError::io;
        // The library opens the file again, and may write to it.
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

impl Drop for UnfinishedFile<'_> {
    fn drop(&mut self) {
        if self.exists {
            // The error that caused the drop is the one to report.
            let _left_behind = self.disk.remove(&self.path);
            if self.companions {
                let _left_behind = remove_companions(self.disk, &self.path);
            }
        }
    }
}

// These tests need file locks, which Miri does not provide.
#[cfg(all(test, not(miri)))]
mod tests;
