//! Private directories of indexes, and the locks on them.
//!
//! Owns access to a directory. [`create_private_dir`] creates directories that only this user can
//! access. [`DirLock`] is an advisory file lock, by which writers take turns. The store and
//! `lock_dir` use both. This module does not know the files in a directory. It reads no clock: the
//! caller passes in the function that waits.

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
        Self::shared_on(&RealDisk, dir, which, timeout, wait)
    }

    /// Takes a lock as [`shared`](Self::shared) does, on a given disk.
    ///
    /// # Errors
    ///
    /// Those of [`shared`](Self::shared).
    pub fn shared_on(
        disk: &dyn Disk,
        dir: &Path,
        which: LockFile,
        timeout: Duration,
        wait: &mut dyn FnMut(Duration),
    ) -> Result<Self, FormatError> {
        let mut wait = go_on_after(wait);
        Self::acquire_while(disk, dir, (which, false), timeout, &mut wait)
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
mod tests {
    use super::*;

    fn never(pause: Duration) {
        panic!("waited {pause:?} for a lock that is free");
    }

    fn take(dir: &Path, exclusive: bool, timeout_ms: u64) -> (Result<DirLock, FormatError>, u128) {
        let mut waited = 0;
        let mut wait = |pause: Duration| waited += pause.as_millis();
        let timeout = Duration::from_millis(timeout_ms);
        let lock = if exclusive {
            DirLock::exclusive(dir, LockFile::Writers, timeout, &mut wait)
        } else {
            DirLock::shared(dir, LockFile::Writers, timeout, &mut wait)
        };
        (lock, waited)
    }

    #[test]
    fn whether_a_lock_is_held_can_be_seen_without_taking_it() {
        let dir = tempfile::tempdir().unwrap();
        let held = || DirLock::is_held(dir.path(), LockFile::Writers);
        assert!(!held());
        let none = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(none, 0, "looking made a file");
        let lock = take(dir.path(), true, 0).0.unwrap();
        assert!(held() && held());
        assert!(!DirLock::is_held(dir.path(), LockFile::Readers));
        drop(lock);
        assert!(!held());
        // Shared locks don't count here.
        let _shared = take(dir.path(), false, 0).0.unwrap();
        assert!(!held());
    }

    #[test]
    fn a_free_lock_is_taken_at_once_and_again_after_it_was_given_back() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let zero = Duration::ZERO;
            let lock = DirLock::exclusive(dir.path(), LockFile::Writers, zero, &mut never).unwrap();
            assert_eq!(lock.dir(), dir.path());
            assert!(lock.is_writer());
            let other = DirLock::exclusive(dir.path(), LockFile::Readers, zero, &mut never);
            assert!(!other.unwrap().is_writer());
        }
    }

    #[test]
    fn waiting_is_bounded_and_added_up() {
        let dir = tempfile::tempdir().unwrap();
        let (held, _) = take(dir.path(), true, 0);
        for exclusive in [true, false] {
            for timeout in [0, 1, 2, 500] {
                let (refused, waited) = take(dir.path(), exclusive, timeout);
                let error = refused.unwrap_err();
                assert_eq!(waited, u128::from(timeout));
                let kind = error.kind();
                assert!(
                    matches!(kind, FormatErrorKind::Locked { waited } if waited.as_millis() == u128::from(timeout)),
                    "{kind:?}"
                );
                assert!(!error.is_corrupt());
                assert_eq!(error.path(), Some(dir.path()));
            }
        }
        drop(held);
        assert!(take(dir.path(), true, 0).0.is_ok());
    }

    #[test]
    fn whoever_has_to_stop_waits_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let (held, _) = take(dir.path(), true, 0);
        let mut pauses = 0;
        let mut wait = |_| {
            pauses += 1;
            pauses < 3
        };
        let (lock, day) = ((LockFile::Writers, true), Duration::from_secs(86_400));
        let refused = DirLock::acquire_while(&RealDisk, dir.path(), lock, day, &mut wait);
        let error = refused.unwrap_err();
        // Pauses of 1, 2 and 4 milliseconds.
        let waited = Duration::from_millis(7);
        assert!(matches!(error.kind(), FormatErrorKind::Locked { waited: is } if *is == waited));
        assert_eq!(pauses, 3);
        drop(held);
        let lock = DirLock::acquire_while(&RealDisk, dir.path(), lock, day, &mut |_| false);
        assert!(lock.is_ok());
    }

    #[test]
    fn a_lock_given_back_while_waiting_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let mut held = Some(take(dir.path(), true, 0).0.unwrap());
        let mut pauses = 0;
        let mut wait = |_| {
            pauses += 1;
            if pauses == 3 {
                held = None;
            }
        };
        let timeout = Duration::from_secs(1);
        let lock = DirLock::exclusive(dir.path(), LockFile::Writers, timeout, &mut wait);
        assert!(lock.unwrap().is_writer());
        assert_eq!(pauses, 3);
    }

    #[test]
    fn shared_locks_keep_out_exclusive_ones_only() {
        let dir = tempfile::tempdir().unwrap();
        let (first, _) = take(dir.path(), false, 0);
        let (second, _) = take(dir.path(), false, 0);
        assert!(!first.as_ref().unwrap().is_writer());
        drop(first);
        assert!(take(dir.path(), true, 0).0.is_err());
        drop(second);
        assert!(take(dir.path(), true, 0).0.is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn a_deleted_lock_file_locks_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LockFile::Writers.name());
        let (held, _) = take(dir.path(), true, 0);
        let early = RealDisk.open_lock(&path, true).unwrap();
        assert_eq!(try_once(&early, &path, true).unwrap(), LockAttempt::Busy);
        // As a process that clears the directory does: delete the file, then unlock.
        fs::remove_file(&path).unwrap();
        drop(held);
        assert_eq!(try_once(&early, &path, true).unwrap(), LockAttempt::Stale);
        let late = RealDisk.open_lock(&path, true).unwrap();
        assert_eq!(try_once(&early, &path, true).unwrap(), LockAttempt::Stale);
        assert_eq!(try_once(&late, &path, true).unwrap(), LockAttempt::Taken);
        assert!(take(dir.path(), true, 0).0.is_err());
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let error = take(&dir.path().join("none"), true, 0).0.unwrap_err();
        assert!(error.is_not_found(), "{error}");
    }

    #[cfg(unix)]
    mod permissions {
        use std::os::unix::fs::{PermissionsExt, symlink};

        use super::*;

        fn mode(path: &Path) -> u32 {
            fs::metadata(path).unwrap().permissions().mode() & 0o7777
        }

        fn chmod(path: &Path, mode: u32) {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }

        #[track_caller]
        fn check_insecure(path: &Path, needle: &str) {
            let error = create_private_dir(path, Privacy::Required).unwrap_err();
            let kind = error.kind();
            assert!(matches!(kind, FormatErrorKind::Insecure { .. }), "{kind:?}");
            let text = error.to_string();
            assert!(text.contains(needle), "{text}");
            assert!(!error.is_corrupt());
        }

        #[test]
        fn new_directories_are_private_all_the_way_down() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a/b/c");
            create_private_dir(&path, Privacy::Required).unwrap();
            for path in [&path, path.parent().unwrap(), &dir.path().join("a")] {
                assert_eq!(mode(path), 0o700);
            }
            create_private_dir(&path, Privacy::Required).unwrap();
            let lock = take(&path, true, 0).0.unwrap();
            assert_eq!(mode(&lock.dir().join(LockFile::Writers.name())), 0o600);
        }

        #[test]
        fn a_directory_others_can_reach_into_is_refused() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            create_private_dir(&path, Privacy::Required).unwrap();
            for bits in [0o750, 0o710, 0o705, 0o701, 0o777] {
                chmod(&path, bits);
                check_insecure(&path, "other users have access");
                create_private_dir(&path, Privacy::Waived).unwrap();
                assert_eq!(mode(&path), bits, "what is there is not changed");
            }
        }

        #[test]
        fn a_check_makes_nothing_and_says_what_making_would() {
            let dir = tempfile::tempdir().unwrap();
            let check = |path: &Path| {
                let checked = check_private_dir(path, Privacy::Required);
                checked.map_err(|error| error.to_string())
            };
            let path = dir.path().join("a/b");
            check(&path).unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
            create_private_dir(&path, Privacy::Required).unwrap();
            check(&path).unwrap();
            check(&path.join("c")).unwrap();
            fs::write(dir.path().join("file"), "").unwrap();
            symlink("nowhere", dir.path().join("link")).unwrap();
            chmod(&path, 0o750);
            for refused in [&path, &dir.path().join("file"), &dir.path().join("link")] {
                let same = create_private_dir(refused, Privacy::Required).unwrap_err();
                assert_eq!(check(refused), Err(same.to_string()));
            }
            check_private_dir(&path, Privacy::Waived).unwrap();
            check(&dir.path().join("file/below")).unwrap_err();
            // An administrator may write despite the mode.
            chmod(&path, 0o500);
            let writes = fs::create_dir(path.join("probe")).is_ok();
            assert_eq!(check(&path.join("c/d")).is_ok(), writes);
            chmod(&path, 0o700);
        }

        #[test]
        fn what_is_no_directory_is_refused() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            fs::write(&path, "").unwrap();
            check_insecure(&path, "not a directory");
            let link = dir.path().join("link");
            symlink(&path, &link).unwrap();
            check_insecure(&link, "a symbolic link");
        }

        #[test]
        fn a_link_in_the_place_of_the_directory_is_refused() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            create_private_dir(&path, Privacy::Required).unwrap();
            let link = dir.path().join("link");
            symlink(&path, &link).unwrap();
            for link in [link.clone(), link.join(""), link.join(".")] {
                check_insecure(&link, "a symbolic link; choose another directory");
            }
            create_private_dir(&link, Privacy::Waived).unwrap();
            // A link in a parent is accepted.
            create_private_dir(&link.join("b"), Privacy::Required).unwrap();
            assert!(path.join("b").is_dir());
        }

        /// Only an administrator can change the owner.
        #[test]
        fn what_belongs_to_others_is_refused() {
            if !rustix::process::geteuid().is_root() {
                return;
            }
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            create_private_dir(&path, Privacy::Required).unwrap();
            std::os::unix::fs::lchown(&path, Some(12345), None).unwrap();
            check_insecure(&path, "a directory of user 12345");
            create_private_dir(&path, Privacy::Waived).unwrap();
        }
    }
}
