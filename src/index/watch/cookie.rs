//! The private directory of a watcher's cookies.
//!
//! This module owns the directory and its file names. Touching a cookie renames the only file to a
//! name with the number. That takes one system call, and the event carries the number.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use super::lock;
use crate::format::error::FormatError;
use crate::format::lock_dir::{LockDir, Purpose};

/// The naming scheme of cookie directories.
const COOKIES: Purpose = Purpose {
    prefix: "watch-",
    owns: |name| number(Path::new(name)).is_some(),
};

/// A directory with one cookie file, used by one watcher only. Removed on drop.
#[derive(Debug)]
pub(super) struct CookieDir {
    own: LockDir,
    #[cfg(unix)]
    opened: fs::File,
    /// The name of the file; `None` before it exists.
    current: Mutex<Option<Name>>,
}

/// The name of a cookie file: the number, and a second part that differs between two touches with
/// the same number.
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

/// Returns the number in the name of a cookie file.
pub(super) fn number(name: &Path) -> Option<u64> {
    Name::parse(name.to_str()?).map(|name| name.n)
}

impl CookieDir {
    /// Creates a directory in `parent`, and removes unused ones there.
    pub(super) fn make(parent: &Path) -> Result<CookieDir, FormatError> {
        let own = LockDir::make(parent, COOKIES)?;
        Ok(CookieDir {
            #[cfg(unix)]
            opened: fs::File::open(own.path())
                .map_err(|e| FormatError::io("open the directory", e).in_file(own.path()))?,
            own,
            current: Mutex::new(None),
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.own.path()
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
            // The file does not exist yet, or another program removed it. Creating a file raises an
            // event as renaming does.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut options = fs::OpenOptions::new();
                // Only this user may write to it, regardless of the process's umask.
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                options
                    .write(true)
                    .create_new(true)
                    .open(self.path().join(name.text()))?;
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
        fs::rename(self.path().join(old), self.path().join(new))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::format::lock::LockFile;

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
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                let file = fs::metadata(cookies.path().join(&there[0])).unwrap();
                assert_eq!(file.permissions().mode() & 0o777, 0o600);
            }
            assert_ne!(seen.last(), there.first());
            seen.append(&mut there);
        }
        // As if another program had cleaned up.
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
                        let kept = names(cookies.path());
                        let numbers = kept.iter().filter(|name| number(Path::new(name)).is_some());
                        assert_eq!(numbers.count(), 1, "{kept:?}");
                    }
                });
            }
        });
        assert_eq!(names(&parent).len(), 0);
    }
}
