//! Private directories of indexes, and the locks on them.
//!
//! This module owns access to a directory. [`create_private_dir`] creates directories that only
//! this user can access. [`DirLock`] is an advisory file lock. Each directory has two locks: a
//! writer holds the writers' lock, and readers share the readers' lock while they open files.
//! Eviction takes both. The store and `lock_dir` use both. This module does not know the files in a
//! directory. It reads no clock: the caller passes in the function that waits.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::{Disk, RealDisk};
use super::error::{FormatError, FormatErrorKind};
use super::storage::Privacy;
use super::sys::{check_dir, is_at, may_write_to};

/// The first pause between two attempts to take a lock. It doubles up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The longest pause between two attempts.
const LAST_PAUSE: Duration = Duration::from_millis(50);

/// The number of times that a lock file may be deleted right after it was opened. More indicates an
/// attack or a broken filesystem.
const MAX_STALE: u32 = 100;

/// Creates a directory and its missing parents with access for this user only. Accepts an existing
/// directory that is private.
///
/// A symbolic link in its place is refused: it may point elsewhere tomorrow, or for other users.
/// Existing parents are not checked. A user who can rename entries in a parent can disturb this
/// program, but can't read the directory.
///
/// # Errors
///
/// [`FormatErrorKind::Insecure`] for anything that is not a directory. Unless `privacy` is waived,
/// also for a directory of another user, and for one that other users have access to, even if the
/// filesystem does not support permissions. The caller then keeps the index in memory.
/// [`FormatErrorKind::Io`] if the directory can't be created.
pub fn create_private_dir(dir: &Path, privacy: Privacy) -> Result<(), FormatError> {
    create_private_dir_on(&RealDisk, dir, privacy)
}

/// Creates a private directory as [`create_private_dir`] does, on a given disk.
///
/// # Errors
///
/// Those of [`create_private_dir`].
pub fn create_private_dir_on(
    disk: &dyn Disk,
    dir: &Path,
    privacy: Privacy,
) -> Result<(), FormatError> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    // `check_dir` then rejects any other file of that name.
    disk.make_dir(dir)
        .and_then(|()| {
            missing
                .into_iter()
                .try_for_each(|made| sync_above(disk, made))
        })
        .map_err(|e| FormatError::io("create the directory", e))
        .and_then(|()| check_dir(dir, privacy))
        .map_err(|e| e.in_file(dir))
}

/// Makes a new directory survive a power failure.
fn sync_above(disk: &dyn Disk, made: &Path) -> io::Result<()> {
    let Some(above) = made.parent().filter(|above| above.file_name().is_some()) else {
        return Ok(());
    };
    match disk.sync_dir(above) {
        // This user can't sync a parent that is writable but not readable.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// Checks a directory as [`create_private_dir`] does, and creates nothing. A missing directory
/// passes if it can be created.
///
/// # Errors
///
/// Those of [`create_private_dir`]. A problem that only a new directory shows, such as a filesystem
/// without permissions, is not found.
pub fn check_private_dir(dir: &Path, privacy: Privacy) -> Result<(), FormatError> {
    let checked = match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => can_make_dir(dir),
        _ => check_dir(dir, privacy),
    };
    checked.map_err(|e| e.in_file(dir))
}

/// Checks that a missing directory can be created.
fn can_make_dir(dir: &Path) -> Result<(), FormatError> {
    let fail = |error| FormatError::io("create the directory", error);
    let above = dir
        .ancestors()
        .skip(1)
        .find_map(|above| match fs::metadata(above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some((above, found)),
        });
    let Some((above, found)) = above else {
        return Err(fail(io::ErrorKind::NotFound.into()));
    };
    if !found.map_err(fail)?.is_dir() {
        return Err(fail(io::ErrorKind::NotADirectory.into()));
    }
    may_write_to(above).map_err(fail)
}

/// Checks that files can be created in a directory, and creates no file. A missing directory passes
/// if it can be created.
///
/// # Errors
///
/// [`FormatError`] with the system's reason: missing permissions, or a filesystem mounted
/// read-only.
pub fn check_writable(dir: &Path) -> Result<(), FormatError> {
    let checked = match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => can_make_dir(dir),
        _ => may_write_to(dir).map_err(|e| FormatError::io("write to the directory", e)),
    };
    checked.map_err(|e| e.in_file(dir))
}

/// The subject of a lock on a directory. Each has its own lock file, which stays after the unlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockFile {
    /// Changes to the directory. The process that builds, publishes or cleans up holds it
    /// exclusively.
    Writers,
    /// Use of its files. Readers share it while they choose and open files. A process takes it
    /// exclusively to make sure that no reader is active.
    Readers,
}

impl LockFile {
    /// Returns the name of the lock file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Writers => ".writers.lock",
            Self::Readers => ".readers.lock",
        }
    }
}

/// A lock on a directory, released on drop.
#[derive(Debug)]
pub struct DirLock {
    file: File,
    dir: PathBuf,
    which: LockFile,
    exclusive: bool,
}

impl DirLock {
    /// Takes an exclusive lock.
    ///
    /// While another holder has the lock, calls `wait` with the time until the next attempt, for at
    /// most `timeout` in total (`index_lock_timeout_ms`). A timeout of zero never calls it. A lock
    /// that this process holds blocks like any other.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Locked`] after `timeout`. [`FormatErrorKind::Io`] if the directory is
    /// missing, if the lock file can't be opened, or if the filesystem does not support locks.
    pub fn exclusive(
        dir: &Path,
        which: LockFile,
        timeout: Duration,
        wait: &mut dyn FnMut(Duration),
    ) -> Result<Self, FormatError> {
        Self::exclusive_on(&RealDisk, dir, which, timeout, wait)
    }

    /// Takes a lock as [`exclusive`](Self::exclusive) does, on a given disk.
    ///
    /// # Errors
    ///
    /// Those of [`exclusive`](Self::exclusive).
    pub fn exclusive_on(
        disk: &dyn Disk,
        dir: &Path,
        which: LockFile,
        timeout: Duration,
        wait: &mut dyn FnMut(Duration),
    ) -> Result<Self, FormatError> {
        let mut wait = go_on_after(wait);
        Self::acquire_while(disk, dir, (which, true), timeout, &mut wait)
    }

    /// Takes a lock that other shared locks allow and exclusive locks exclude. Waits like
    /// [`exclusive`](Self::exclusive).
    ///
    /// # Errors
    ///
    /// Those of [`exclusive`](Self::exclusive). Without write permission, an existing lock file
    /// suffices.
    pub fn shared(
        dir: &Path,
        which: LockFile,
        timeout: Duration,
        wait: &mut dyn FnMut(Duration),
    ) -> Result<Self, FormatError> {
        let mut wait = go_on_after(wait);
        Self::acquire_while(&RealDisk, dir, (which, false), timeout, &mut wait)
    }

    /// Returns true if a process, this one included, holds the lock exclusively. Creates no file
    /// and does not wait.
    pub fn is_held(dir: &Path, which: LockFile) -> bool {
        let Ok(file) = RealDisk.open(&dir.join(which.name())) else {
            return false;
        };
        let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
        let is_held = is_file && try_lock(&file, false).is_ok_and(|taken| !taken);
        // As on drop: a child process may have inherited the descriptor.
        let _closing_follows = fs2::FileExt::unlock(&file);
        is_held
    }

    /// Returns the locked directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns true if the holder may change the directory.
    pub fn is_writer(&self) -> bool {
        self.exclusive && self.which == LockFile::Writers
    }

    /// Takes a lock, exclusively if the second part of `lock` is true. Stops when `wait` returns
    /// false, which means that the caller was cancelled.
    ///
    /// # Errors
    ///
    /// Those of [`exclusive`](Self::exclusive), and [`FormatErrorKind::Locked`] if the caller was
    /// cancelled.
    pub fn acquire_while(
        disk: &dyn Disk,
        dir: &Path,
        lock: (LockFile, bool),
        timeout: Duration,
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<Self, FormatError> {
        let (which, exclusive) = lock;
        let path = dir.join(which.name());
        let fail = |operation, error| FormatError::io(operation, error).in_file(&path);
        let mut waited = Duration::ZERO;
        let mut pause = FIRST_PAUSE;
        let mut stale = 0;
        let mut goes_on = true;
        loop {
            let file = disk
                .open_lock(&path, exclusive)
                .map_err(|e| fail("open the lock file", e))?;
            match try_once(&file, &path, exclusive).map_err(|e| fail("lock the lock file", e))? {
                LockAttempt::Taken => {
                    return Ok(Self {
                        file,
                        dir: dir.to_path_buf(),
                        which,
                        exclusive,
                    });
                }
                LockAttempt::Stale if stale < MAX_STALE => {
                    stale += 1;
                    continue;
                }
                LockAttempt::Stale | LockAttempt::Busy => {}
            }
            if waited >= timeout || !goes_on {
                return Err(FormatError::new(FormatErrorKind::Locked { waited }).in_file(dir));
            }
            let step = pause.min(timeout - waited);
            goes_on = wait(step);
            waited += step;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

/// Wraps a `wait` function of a caller that is never cancelled.
pub(crate) fn go_on_after(wait: &mut dyn FnMut(Duration)) -> impl FnMut(Duration) -> bool {
    |time| {
        wait(time);
        true
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing the file is not enough while a starting child process has inherited the
        // descriptor.
        let _closing_follows = fs2::FileExt::unlock(&self.file);
    }
}

/// The result of one attempt to lock an open file.
#[derive(Debug, PartialEq, Eq)]
enum LockAttempt {
    Taken,
    Busy,
    /// Locked, but the last holder deleted the file with the directory's content. Later processes
    /// lock another file.
    Stale,
}

fn try_once(file: &File, path: &Path, exclusive: bool) -> io::Result<LockAttempt> {
    if !try_lock(file, exclusive)? {
        return Ok(LockAttempt::Busy);
    }
    // Checked only now: while this process holds the lock, the file can't be deleted.
    let taken = is_at(file, path)?;
    Ok(if taken {
        LockAttempt::Taken
    } else {
        LockAttempt::Stale
    })
}

/// Takes the lock if it is free. Returns false if another holder has it.
fn try_lock(file: &File, exclusive: bool) -> io::Result<bool> {
    loop {
        let locked = if exclusive {
            fs2::FileExt::try_lock_exclusive(file)
        } else {
            fs2::FileExt::try_lock_shared(file)
        };
        match locked {
            Ok(()) => return Ok(true),
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
                return Ok(false);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

// These tests need file locks and permissions, which Miri does not provide.
#[cfg(all(test, not(miri)))]
mod tests;
