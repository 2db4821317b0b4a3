//! A directory that belongs to one process while that process lives.
//!
//! This module owns creating such a directory, detecting that its owner is gone, and removing it.
//! File watchers use it for their cookies, and live indexes for their status. This module does not
//! know the files in a directory.
//!
//! The owner holds the writers' lock of the directory. A directory with a free lock has no owner,
//! and the next process that creates one removes it. Process ids are reused and prove nothing.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::FormatError;
use super::lock::{DirLock, LockFile, check_private_dir, create_private_dir};
use super::storage::Privacy;
use super::sys;

/// The number of names that are tried. So many directories with one process id are an attack, or a
/// broken filesystem.
const MAX_TRIES: u32 = 10_000;

/// A purpose of directories. Separates them from other entries of the parent.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    /// The prefix of the directory names.
    pub prefix: &'static str,
    /// Returns true for the names of files that belong in such a directory. A directory with any
    /// other file is not removed.
    pub owns: fn(&OsStr) -> bool,
}

/// A directory of this process, removed on drop.
#[derive(Debug)]
pub struct LockDir {
    purpose: Purpose,
    /// Tells other processes that the directory is in use.
    lock: DirLock,
    /// Dropped after the lock.
    dir: RemovedIfEmpty,
}

impl LockDir {
    /// Creates a directory in `parent`, which is created too if it is missing. Removes directories
    /// of owners that are gone.
    ///
    /// # Errors
    ///
    /// Those of [`create_private_dir`] for `parent`; [`FormatError`] if no directory can be created
    /// and locked.
    pub fn make(parent: &Path, purpose: Purpose) -> Result<LockDir, FormatError> {
        create_private_dir(parent, Privacy::Required)?;
        // File watchers report the directory by its real path.
        let parent = fs::canonicalize(parent)
            .map_err(|e| FormatError::io("resolve the directory", e).in_file(parent))?;
        sweep(&parent, purpose);
        let process = std::process::id();
        for turn in 0..MAX_TRIES {
            let path = parent.join(format!("{}{process}-{turn}", purpose.prefix));
            if let Some(made) = Self::try_make(path, purpose)? {
                return Ok(made);
            }
        }
        let error = io::ErrorKind::AlreadyExists.into();
        Err(FormatError::io("make a directory", error).in_file(&parent))
    }

    /// Creates the directory. `None` if it exists, or if a sweep removed it before it was locked.
    fn try_make(path: PathBuf, purpose: Purpose) -> Result<Option<LockDir>, FormatError> {
        match sys::private_dir_builder().create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(FormatError::io("make the directory", error).in_file(&path)),
        }
        let lock = match lock_dir(&path) {
            Ok(lock) => lock,
            Err(error) if error.is_not_found() || error.is_locked() => return Ok(None),
            Err(error) => {
                // Locking failed, so no other process owns the directory.
                clear(&path, purpose, true);
                drop(RemovedIfEmpty(path));
                return Err(error);
            }
        };
        let dir = RemovedIfEmpty(path);
        Ok(Some(LockDir { purpose, lock, dir }))
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.dir.0
    }

    /// Returns the lock on the directory.
    pub fn lock(&self) -> &DirLock {
        &self.lock
    }
}

impl Drop for LockDir {
    fn drop(&mut self) {
        let never = &mut |_: Duration| {};
        let alone = DirLock::exclusive(self.path(), LockFile::Readers, Duration::ZERO, never);
        clear(self.path(), self.purpose, alone.is_ok());
    }
}

/// A directory that is removed on drop if it is empty. Drop the locks on it first: on some systems
/// a removed lock file keeps its name until it is closed.
#[derive(Debug)]
struct RemovedIfEmpty(PathBuf);

impl Drop for RemovedIfEmpty {
    fn drop(&mut self) {
        // Another process that has just created the directory notices, and creates another.
        let _swept_another_time = fs::remove_dir(&self.0);
    }
}

/// Returns the directories in `parent` whose owners live, at most `most`, ordered by name. Changes
/// nothing and does not wait. Returns no directory if other users have access to `parent`.
pub fn in_use(parent: &Path, purpose: Purpose, most: usize) -> Vec<PathBuf> {
    let is_there = fs::symlink_metadata(parent).is_ok_and(|meta| meta.is_dir());
    if !is_there || check_private_dir(parent, Privacy::Required).is_err() {
        return Vec::new();
    }
    let mut dirs: Vec<PathBuf> = candidates(parent, purpose)
        .filter(|dir| DirLock::is_held(dir, LockFile::Writers))
        .take(most)
        .collect();
    dirs.sort();
    dirs
}

fn lock_dir(path: &Path) -> Result<DirLock, FormatError> {
    DirLock::exclusive(path, LockFile::Writers, Duration::ZERO, &mut |_| {})
}

/// Iterates over the directories of a purpose.
fn candidates(parent: &Path, purpose: Purpose) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let name = entry.file_name();
        let is_ours = name
            .to_str()
            .is_some_and(|name| name.starts_with(purpose.prefix));
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        (is_ours && is_dir).then(|| entry.path())
    })
}

/// Removes the directories in `parent` whose owners are gone. A failed removal is left to the next
/// sweep.
///
/// The sweeper holds the readers' lock exclusively and the writers' lock shared. Owners hold the
/// writers' lock exclusively, so a sweeper is never taken for an owner.
fn sweep(parent: &Path, purpose: Purpose) {
    let never = &mut |_: Duration| {};
    for dir in candidates(parent, purpose) {
        if DirLock::is_held(&dir, LockFile::Writers) {
            continue;
        }
        let alone = DirLock::exclusive(&dir, LockFile::Readers, Duration::ZERO, never);
        let Ok(alone) = alone else {
            continue;
        };
        let Ok(unused) = DirLock::shared(&dir, LockFile::Writers, Duration::ZERO, never) else {
            let _not_mine = fs::remove_file(dir.join(LockFile::Readers.name()));
            continue;
        };
        clear(&dir, purpose, true);
        drop((unused, alone));
        drop(RemovedIfEmpty(dir));
    }
}

/// Empties a directory that is the caller's own or has no owner. Foreign files stay.
///
/// `is_alone` says that the caller holds the readers' lock exclusively. Only then is that lock file
/// removed. Otherwise two sweepers could lock two files of that name, and one could remove the
/// directory of a new owner. The directory then stays for a later sweep.
fn clear(path: &Path, purpose: Purpose, is_alone: bool) {
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    for entry in entries.flatten() {
        if (purpose.owns)(&entry.file_name()) {
            let _swept_another_time = fs::remove_file(entry.path());
        }
    }
    let _swept_another_time = fs::remove_file(path.join(LockFile::Writers.name()));
    if is_alone {
        let _swept_another_time = fs::remove_file(path.join(LockFile::Readers.name()));
    }
}

// These tests need file locks and permissions, which Miri does not provide.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    const PURPOSE: Purpose = Purpose {
        prefix: "own-",
        owns: |name| name == "mine",
    };

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn name(dir: &LockDir) -> String {
        dir.path().file_name().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn directories_are_private_of_one_owner_each_and_gone_afterwards() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().canonicalize().unwrap().join("own");
        assert!(in_use(&parent, PURPOSE, 10).is_empty());
        let one = LockDir::make(&parent, PURPOSE).unwrap();
        let other = LockDir::make(&parent, PURPOSE).unwrap();
        assert_ne!(one.path(), other.path());
        fs::write(one.path().join("mine"), "").unwrap();
        #[cfg(unix)]
        for dir in [one.path(), other.path(), &parent] {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(dir).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        assert_eq!(in_use(&parent, PURPOSE, 10), [one.path(), other.path()]);
        assert_eq!(in_use(&parent, PURPOSE, 1).len(), 1);
        let left = other.path().to_path_buf();
        drop(one);
        assert_eq!(in_use(&parent, PURPOSE, 10), [left]);
        assert_eq!(names(&parent).len(), 1);
        drop(other);
        assert_eq!(names(&parent).len(), 0);
    }

    #[test]
    fn leftovers_are_removed_but_nothing_that_is_used_or_foreign() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("own");
        let used = LockDir::make(&parent, PURPOSE).unwrap();
        fs::write(used.path().join("mine"), "").unwrap();
        for (dir, files) in [
            ("own-1-0", vec!["mine", LockFile::Writers.name()]),
            ("own-2-0", vec![]),
            ("own-3-0", vec!["precious"]),
            ("other", vec!["mine"]),
        ] {
            fs::create_dir(parent.join(dir)).unwrap();
            for file in files {
                fs::write(parent.join(dir).join(file), "").unwrap();
            }
        }
        fs::write(parent.join("own-4-0"), "no directory").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(used.path(), parent.join("own-5-0")).unwrap();
        // Looking changes nothing, and these directories have no owner.
        let before = names(&parent);
        assert_eq!(in_use(&parent, PURPOSE, 10).len(), 1);
        assert_eq!(names(&parent), before);
        assert_eq!(names(&parent.join("own-2-0")).len(), 0);
        let another = LockDir::make(&parent, PURPOSE).unwrap();
        let mut expected = vec![name(&used), name(&another)];
        expected.extend(["own-3-0", "own-4-0", "other"].map(String::from));
        #[cfg(unix)]
        expected.push("own-5-0".to_owned());
        expected.sort();
        assert_eq!(names(&parent), expected);
        assert!(parent.join("own-3-0/precious").exists());
        assert!(used.path().join("mine").exists());
    }

    /// An observer sees no owner meanwhile, and a second sweeper leaves the directory to the first.
    #[test]
    fn who_cleans_up_is_taken_for_no_owner() {
        static PARENT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
        let place = tempfile::tempdir().unwrap();
        let parent = place.path().join("own");
        create_private_dir(&parent, Privacy::Required).unwrap();
        PARENT.set(parent.clone()).unwrap();
        let left = parent.join("own-1-0");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("mine"), "").unwrap();
        let looking = Purpose {
            prefix: "own-",
            // Called during the sweep.
            owns: |name| {
                let parent = PARENT.get().unwrap();
                assert_eq!(in_use(parent, PURPOSE, 10).len(), 0);
                sweep(parent, PURPOSE);
                assert!(parent.join("own-1-0").join(name).exists());
                name == "mine"
            },
        };
        sweep(&parent, looking);
        assert!(!left.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_others_can_reach_into_is_not_looked_at() {
        use std::os::unix::fs::PermissionsExt;

        let place = tempfile::tempdir().unwrap();
        let parent = place.path().join("own");
        let _own = LockDir::make(&parent, PURPOSE).unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&parent, &link).unwrap();
        assert_eq!(in_use(&link, PURPOSE, 10).len(), 0);
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(in_use(&parent, PURPOSE, 10).len(), 0);
        assert!(LockDir::make(&parent, PURPOSE).is_err());
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(in_use(&parent, PURPOSE, 10).len(), 1);
    }

    #[test]
    fn directories_made_at_once_by_many_are_all_different() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("own");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let own = LockDir::make(&parent, PURPOSE).unwrap();
                        fs::write(own.path().join("mine"), "").unwrap();
                        // And possibly a file that an observer creates for a moment.
                        let kept = names(own.path());
                        assert!(kept.contains(&"mine".to_string()) && kept.len() <= 3);
                        let seen = in_use(&parent, PURPOSE, 10);
                        assert!(seen.iter().any(|dir| dir.ends_with(name(&own))), "{seen:?}");
                    }
                });
            }
        });
        // A directory may stay if an observer looked at it while its owner ended. The next `make`
        // removes it.
        drop(LockDir::make(&parent, PURPOSE).unwrap());
        assert_eq!(names(&parent), Vec::<String>::new());
    }
}
