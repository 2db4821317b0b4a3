//! The directories that are watched, and whether their watches are still on them.
//!
//! The watching library takes a path that it knows for watched, without looking at what is there now, and drops watches by
//! itself when it reads that a directory was renamed or removed. So it is noted here what each path was when
//! it was watched, and what the library has dropped.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What tells one directory from another that has the same path later. Numbers of inodes are used again, so the time at
/// which it was made counts too, where the filesystem has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
    created: Option<SystemTime>,
}

impl Identity {
    /// Looks at the directory at `path`; `None` if there is none. The last component is no symbolic link.
    pub(super) fn of(path: &Path) -> io::Result<Option<Identity>> {
        let meta = match std::fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if !meta.is_dir() {
            return Ok(None);
        }
        Ok(Some(Identity {
            #[cfg(unix)]
            device: std::os::unix::fs::MetadataExt::dev(&meta),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&meta),
            created: meta.created().ok(),
        }))
    }
}

/// Whether the error says that a directory is not there, or not one.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The watch is being put in place.
    Pending,
    /// The watch is on the directory with this identity.
    Live(Identity),
    /// There may be a watch, on whatever.
    Doubtful,
}

/// What has to be done to have a path watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needed {
    Nothing,
    /// The library does not know the path.
    Watch,
    /// The library may know the path, and then has to forget it first.
    Renew,
}

/// The watched directories, by their paths relative to the root.
#[derive(Debug, Default)]
pub(super) struct Known {
    dirs: BTreeMap<PathBuf, State>,
}

impl Known {
    pub(super) fn len(&self) -> usize {
        self.dirs.len()
    }

    /// Begins to watch a directory that was this one a moment ago. [`watched`](Known::watched) or
    /// [`forget`](Known::forget) follows unless nothing is needed; for one directory at a time.
    pub(super) fn begin(&mut self, dir: &Path, identity: Identity) -> Needed {
        match self.dirs.get_mut(dir) {
            Some(State::Live(known)) if *known == identity => Needed::Nothing,
            Some(state) => {
                *state = State::Pending;
                Needed::Renew
            }
            None => {
                self.dirs.insert(dir.to_path_buf(), State::Pending);
                Needed::Watch
            }
        }
    }

    /// Ends what [`begin`](Known::begin) began. If the path was dropped meanwhile, it is not known whether that was before or
    /// after the watch came.
    pub(super) fn watched(&mut self, dir: &Path, identity: Identity) {
        match self.dirs.get_mut(dir) {
            Some(state @ State::Pending) => *state = State::Live(identity),
            Some(state) => *state = State::Doubtful,
            None => {
                self.dirs.insert(dir.to_path_buf(), State::Doubtful);
            }
        }
    }

    /// Takes note that a directory is not watched; returns whether the library may think it is.
    pub(super) fn forget(&mut self, dir: &Path) -> bool {
        self.dirs.remove(dir).is_some()
    }

    /// Takes note that the library drops the watches at and below `path`, after what it is telling now.
    pub(super) fn dropped(&mut self, path: &Path) {
        if path.as_os_str().is_empty() {
            self.dirs.clear();
            return;
        }
        // What is below a path follows it without a gap: paths are ordered by their components.
        loop {
            let from = (Bound::Included(path), Bound::Unbounded);
            let Some((first, _)) = self.dirs.range::<Path, _>(from).next() else {
                break;
            };
            if !first.starts_with(path) {
                break;
            }
            let first = first.clone();
            self.dirs.remove(&first);
        }
    }

    /// Takes note that the directory that was watched under this path has gone elsewhere, though the watch goes on.
    pub(super) fn moved(&mut self, path: &Path) {
        if let Some(state) = self.dirs.get_mut(path) {
            *state = State::Doubtful;
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn two() -> (Identity, Identity) {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("a"), dir.path().join("b")];
        for path in &paths {
            std::fs::create_dir(path).unwrap();
        }
        let [a, b] = paths.map(|path| Identity::of(&path).unwrap().unwrap());
        assert_ne!(a, b);
        (a, b)
    }

    #[test]
    fn identities_are_of_directories_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        assert_eq!(Identity::of(&path).unwrap(), None);
        std::fs::write(&path, "").unwrap();
        assert_eq!(Identity::of(&path).unwrap(), None);
        assert_eq!(Identity::of(&path.join("below")).unwrap(), None);
        #[cfg(unix)]
        {
            let link = dir.path().join("link");
            std::os::unix::fs::symlink(dir.path(), &link).unwrap();
            assert_eq!(Identity::of(&link).unwrap(), None);
        }
        let one = Identity::of(dir.path()).unwrap();
        assert!(one.is_some());
        assert_eq!(one, Identity::of(dir.path()).unwrap());
    }

    #[test]
    fn a_watch_is_renewed_when_it_is_on_something_else() {
        let (one, other) = two();
        let mut known = Known::default();
        let dir = Path::new("d");
        assert_eq!(known.begin(dir, one), Needed::Watch);
        known.watched(dir, one);
        assert_eq!(known.begin(dir, one), Needed::Nothing);
        assert_eq!(known.begin(dir, other), Needed::Renew);
        known.watched(dir, other);
        assert_eq!(known.begin(dir, other), Needed::Nothing);
        known.moved(dir);
        assert_eq!(known.begin(dir, other), Needed::Renew);
        assert!(known.forget(dir));
        assert!(!known.forget(dir));
        assert_eq!(known.begin(dir, other), Needed::Watch);
    }

    #[test]
    fn a_watch_dropped_while_it_is_put_in_place_is_doubtful() {
        let (one, _) = two();
        let mut known = Known::default();
        let dir = Path::new("d/e");
        known.begin(dir, one);
        known.dropped(Path::new("d"));
        known.watched(dir, one);
        assert_eq!(known.len(), 1);
        assert_eq!(known.begin(dir, one), Needed::Renew);
    }

    #[test]
    fn what_is_below_is_dropped_and_nothing_else() {
        let (one, _) = two();
        let mut known = Known::default();
        for dir in ["", "a", "a/b", "a/b/c", "a-b", "a.b/c", "ab", "b"] {
            known.begin(Path::new(dir), one);
            known.watched(Path::new(dir), one);
        }
        known.dropped(Path::new("a"));
        let left: Vec<_> = known.dirs.keys().map(|dir| dir.to_str().unwrap()).collect();
        assert_eq!(left, ["", "a-b", "a.b/c", "ab", "b"]);
        known.dropped(Path::new("none"));
        assert_eq!(known.len(), 5);
        known.dropped(Path::new(""));
        assert_eq!(known.len(), 0);
    }
}
