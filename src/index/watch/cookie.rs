//! The private directory of a watcher's cookies.
//!
//! Owns the directory, its lock and the names in it. Touching a cookie renames the one file that is there to a name with
//! the number: one system call, and the event carries the number.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::lock;
use crate::format::error::FormatError;
use crate::format::lock::{DirLock, LockFile, create_private_dir};
use crate::format::storage::Privacy;

/// The names of the directories begin like this.
const PREFIX: &str = "watch-";

/// How many names are tried. So many watchers of one process number are an attack, or a broken filesystem.
const MAX_TRIES: u32 = 10_000;

/// A directory with one cookie file, which nobody else has. It is removed when dropped.
#[derive(Debug)]
pub(super) struct CookieDir {
    path: PathBuf,
    #[cfg(unix)]
    opened: fs::File,
    /// The name of the file; `None` before there is one.
    current: Mutex<Option<Name>>,
    /// Tells others that the directory is in use.
    _lock: DirLock,
}

/// The name of a cookie file: the number, and a second part that makes two touches with the same number differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    n: u64,
    is_odd: bool,
}

impl Name {
    fn parse(name: &str) -> Option<Name> {
        let (n, turn) = name.split_once('.')?;
        let is_odd = match turn {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        let n = n.parse().ok()?;
        Some(Name { n, is_odd })
    }

    fn text(self) -> String {
        format!("{}.{}", self.n, u8::from(self.is_odd))
    }
}

/// Returns the number of the cookie that a file in the directory of the cookies is.
pub(super) fn number(name: &Path) -> Option<u64> {
    Name::parse(name.to_str()?).map(|name| name.n)
}

impl CookieDir {
    /// Makes a directory in `parent`, and removes those there that nobody uses any more.
    pub(super) fn make(parent: &Path) -> Result<CookieDir, FormatError> {
        create_private_dir(parent, Privacy::Required)?;
        // Events have the paths that were watched.
        let parent = fs::canonicalize(parent)
            .map_err(|e| FormatError::io("resolve the directory", e).in_file(parent))?;
        sweep(&parent);
        let process = std::process::id();
        for turn in 0..MAX_TRIES {
            let path = parent.join(format!("{PREFIX}{process}-{turn}"));
            if let Some(made) = Self::try_make(path)? {
                return Ok(made);
            }
        }
        Err(FormatError::io(
            "make a directory for cookies",
            io::ErrorKind::AlreadyExists.into(),
        )
        .in_file(&parent))
    }

    /// Makes the directory, unless it is there, or is swept away before it is locked.
    fn try_make(path: PathBuf) -> Result<Option<CookieDir>, FormatError> {
        let fail = |error| FormatError::io("make the directory", error).in_file(&path);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(false);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(fail(error)),
        }
        let lock = match lock_dir(&path) {
            Ok(lock) => lock,
            Err(error) if error.is_not_found() || error.is_locked() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(CookieDir {
            #[cfg(unix)]
            opened: fs::File::open(&path).map_err(fail)?,
            path,
            current: Mutex::new(None),
            _lock: lock,
        }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Touches the cookie with number `n`.
    pub(super) fn touch(&self, n: u64) -> io::Result<()> {
        let mut current = lock(&self.current);
        let is_odd = current.is_some_and(|name| !name.is_odd);
        let name = Name { n, is_odd };
        let renamed = match *current {
            Some(old) => self.rename(&old.text(), &name.text()),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        match renamed {
            // The first one, or somebody cleaned up. Making a file is heard like renaming one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::File::create_new(self.path.join(name.text()))?;
            }
            renamed => renamed?,
        }
        *current = Some(name);
        Ok(())
    }

    #[cfg(unix)]
    fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.opened, old, &self.opened, new)?)
    }

    #[cfg(not(unix))]
    fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        fs::rename(self.path.join(old), self.path.join(new))
    }
}

impl Drop for CookieDir {
    fn drop(&mut self) {
        clear(&self.path);
    }
}

fn lock_dir(path: &Path) -> Result<DirLock, FormatError> {
    DirLock::exclusive(path, LockFile::Writers, Duration::ZERO, &mut |_| {})
}

/// Removes the directories in `parent` whose owners are gone. What can't be removed is left to the next one.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        // Whoever has just made it and is about to lock it finds out and makes another one.
        if let Ok(_held) = lock_dir(&path) {
            clear(&path);
        }
    }
}

/// Removes a directory of cookies; the caller holds its lock. A directory with anything else in it stays.
fn clear(path: &Path) {
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    for entry in entries.flatten() {
        if number(Path::new(&entry.file_name())).is_some() {
            let _swept_another_time = fs::remove_file(entry.path());
        }
    }
    let _swept_another_time = fs::remove_file(path.join(LockFile::Writers.name()));
    let _swept_another_time = fs::remove_dir(path);
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn each_touch_gives_the_one_file_another_name() {
        let parent = tempfile::tempdir().unwrap();
        let cookies = CookieDir::make(&parent.path().join("cookies")).unwrap();
        let mut seen = Vec::new();
        for n in [1, 2, 2, 2, 1, u64::MAX] {
            cookies.touch(n).unwrap();
            let mut there = names(cookies.path());
            there.retain(|name| name != LockFile::Writers.name());
            assert_eq!(there.len(), 1, "{there:?}");
            assert_eq!(number(Path::new(&there[0])), Some(n));
            assert_ne!(seen.last(), there.first());
            seen.append(&mut there);
        }
        // As after somebody cleaned up.
        fs::remove_file(cookies.path().join(seen.last().unwrap())).unwrap();
        cookies.touch(7).unwrap();
        assert_eq!(names(cookies.path()).len(), 2);
        for other in [
            "",
            "7",
            "7.",
            "7.2",
            ".writers.lock",
            "x.0",
            "7.0.0",
            "-1.0",
        ] {
            assert_eq!(number(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn directories_are_private_of_one_watcher_each_and_gone_afterwards() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("cookies");
        let one = CookieDir::make(&parent).unwrap();
        let other = CookieDir::make(&parent).unwrap();
        assert_ne!(one.path(), other.path());
        one.touch(1).unwrap();
        other.touch(1).unwrap();
        #[cfg(unix)]
        for dir in [one.path(), other.path(), &parent] {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(dir).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        drop(one);
        assert_eq!(names(&parent).len(), 1);
        drop(other);
        assert_eq!(names(&parent).len(), 0);
    }

    #[test]
    fn leftovers_are_removed_but_nothing_that_is_used_or_foreign() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("cookies");
        let used = CookieDir::make(&parent).unwrap();
        used.touch(1).unwrap();
        let used_name = used
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        for (dir, files) in [
            ("watch-1-0", vec!["5.1", LockFile::Writers.name()]),
            ("watch-2-0", vec![]),
            ("watch-3-0", vec!["precious"]),
            ("other", vec!["5.1"]),
        ] {
            fs::create_dir(parent.join(dir)).unwrap();
            for file in files {
                fs::write(parent.join(dir).join(file), "").unwrap();
            }
        }
        let another = CookieDir::make(&parent).unwrap();
        let another_name = another
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let mut expected = vec![used_name, another_name, "watch-3-0".into(), "other".into()];
        expected.sort();
        assert_eq!(names(&parent), expected);
        assert!(parent.join("watch-3-0/precious").exists());
        used.touch(2).unwrap();
        assert_eq!(names(used.path()).len(), 2);
    }

    #[test]
    fn directories_made_at_once_by_many_are_all_different() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("cookies");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..50 {
                        let cookies = CookieDir::make(&parent).unwrap();
                        cookies.touch(n).unwrap();
                        cookies.touch(n).unwrap();
                        assert_eq!(names(cookies.path()).len(), 2);
                    }
                });
            }
        });
        assert_eq!(names(&parent).len(), 0);
    }
}
