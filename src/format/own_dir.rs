//! A directory that belongs to one process, for as long as that lives.
//!
//! Owns how such a directory is made beside those of others, how it is seen that its owner is gone, and how it goes. It must not
//! know what is kept in one.
//!
//! The owner holds the writers' lock of the directory, so that a directory whose lock is free has no owner any more: the next one
//! who makes a directory there removes it. Numbers of processes are used again, and say nothing.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::FormatError;
use super::lock::{DirLock, LockFile, check_private_dir, create_private_dir};
use super::storage::Privacy;

/// How many names are tried. So many directories of one process number are an attack, or a broken filesystem.
const MAX_TRIES: u32 = 10_000;

/// What tells the directories of one purpose from whatever else is beside them.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    /// How the names of the directories begin.
    pub prefix: &'static str,
    /// Whether a file of that name in one of them is of that purpose. A directory with anything else in it is not removed.
    pub owns: fn(&OsStr) -> bool,
}

/// A directory of this process. It is removed when dropped.
#[derive(Debug)]
pub struct OwnDir {
    path: PathBuf,
    purpose: Purpose,
    /// Tells others that the directory is in use.
    lock: DirLock,
}

impl OwnDir {
    /// Makes a directory in `parent`, which is made too where there is none, and removes those there that nobody uses any more.
    ///
    /// # Errors
    ///
    /// As [`create_private_dir`] for `parent`; [`FormatError`] if no directory can be made in it and locked.
    pub fn make(parent: &Path, purpose: Purpose) -> Result<OwnDir, FormatError> {
        create_private_dir(parent, Privacy::Required)?;
        // Whoever watches the directory hears of it by its real path.
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

    /// Makes the directory, unless it is there, or is swept away before it is locked.
    fn try_make(path: PathBuf, purpose: Purpose) -> Result<Option<OwnDir>, FormatError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(false);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(FormatError::io("make the directory", error).in_file(&path)),
        }
        let lock = match lock_dir(&path) {
            Ok(lock) => lock,
            Err(error) if error.is_not_found() || error.is_locked() => return Ok(None),
            Err(error) => {
                // Where there are no locks, nobody else is in it.
                clear(&path, purpose, true);
                return Err(error);
            }
        };
        Ok(Some(OwnDir {
            path,
            purpose,
            lock,
        }))
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the lock on it.
    pub fn lock(&self) -> &DirLock {
        &self.lock
    }
}

impl Drop for OwnDir {
    fn drop(&mut self) {
        let never = &mut |_: Duration| {};
        let alone = DirLock::exclusive(&self.path, LockFile::Readers, Duration::ZERO, never);
        clear(&self.path, self.purpose, alone.is_ok());
    }
}

/// Returns the directories in `parent` whose owners live, at most `most` of them, ordered by name. Changes nothing, and waits for
/// nobody. There are none where `parent` is not this user's alone.
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

/// Removes the directories in `parent` whose owners are gone. What can't be removed is left to the next one.
///
/// Who does that is alone by the readers' lock, and shares the writers' lock, which only owners hold alone: nobody takes one who
/// cleans up for an owner.
fn sweep(parent: &Path, purpose: Purpose) {
    let never = &mut |_: Duration| {};
    for dir in candidates(parent, purpose) {
        if DirLock::is_held(&dir, LockFile::Writers) {
            continue;
        }
        let alone = DirLock::exclusive(&dir, LockFile::Readers, Duration::ZERO, never);
        let Ok(_alone) = alone else {
            continue;
        };
        // Whoever has just made it and is about to lock it finds out and makes another one.
        match DirLock::shared(&dir, LockFile::Writers, Duration::ZERO, never) {
            Ok(_unused) => clear(&dir, purpose, true),
            Err(_) => {
                let _not_mine = fs::remove_file(dir.join(LockFile::Readers.name()));
            }
        }
    }
}

/// Removes a directory; the caller is its owner, or sees to it that there is none. One with anything else in it stays.
///
/// Only who `is_alone`, by the readers' lock, removes the file of that lock: else two could be alone by two files of that name, and take
/// the directory from an owner who came meanwhile. Then it stays, and goes another time.
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
        let _swept_another_time = fs::remove_dir(path);
    }
}

// Locks and permissions are the filesystem's, which the interpreter keeps from tests.
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

    fn name(dir: &OwnDir) -> String {
        dir.path().file_name().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn directories_are_private_of_one_owner_each_and_gone_afterwards() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().canonicalize().unwrap().join("own");
        assert!(in_use(&parent, PURPOSE, 10).is_empty());
        let one = OwnDir::make(&parent, PURPOSE).unwrap();
        let other = OwnDir::make(&parent, PURPOSE).unwrap();
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
        let used = OwnDir::make(&parent, PURPOSE).unwrap();
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
        // Looking changes nothing, and none of these has an owner.
        let before = names(&parent);
        assert_eq!(in_use(&parent, PURPOSE, 10).len(), 1);
        assert_eq!(names(&parent), before);
        assert_eq!(names(&parent.join("own-2-0")).len(), 0);
        let another = OwnDir::make(&parent, PURPOSE).unwrap();
        let mut expected = vec![name(&used), name(&another)];
        expected.extend(["own-3-0", "own-4-0", "other"].map(String::from));
        #[cfg(unix)]
        expected.push("own-5-0".to_owned());
        expected.sort();
        assert_eq!(names(&parent), expected);
        assert!(parent.join("own-3-0/precious").exists());
        assert!(used.path().join("mine").exists());
    }

    /// Whoever looks meanwhile sees no owner, and who cleans up as well leaves it to the first.
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
            // Asked while it is cleaned up.
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
        let _own = OwnDir::make(&parent, PURPOSE).unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&parent, &link).unwrap();
        assert_eq!(in_use(&link, PURPOSE, 10).len(), 0);
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(in_use(&parent, PURPOSE, 10).len(), 0);
        assert!(OwnDir::make(&parent, PURPOSE).is_err());
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
                        let own = OwnDir::make(&parent, PURPOSE).unwrap();
                        fs::write(own.path().join("mine"), "").unwrap();
                        // And maybe what somebody leaves for a moment who looks whether it is used.
                        let kept = names(own.path());
                        assert!(kept.contains(&"mine".to_string()) && kept.len() <= 3);
                        let seen = in_use(&parent, PURPOSE, 10);
                        assert!(seen.iter().any(|dir| dir.ends_with(name(&own))), "{seen:?}");
                    }
                });
            }
        });
        // One stays whose owner went while another looked whether it had one. The next who comes removes it.
        drop(OwnDir::make(&parent, PURPOSE).unwrap());
        assert_eq!(names(&parent), Vec::<String>::new());
    }
}
