//! Tracks the watched directories, and whether their watches are still on them.
//!
//! The watching library considers a known path watched, without checking the directory that is
//! there now. It also drops watches itself when it reads that a directory was renamed or removed.
//! So this module records the identity of each directory when it was watched, and the watches that
//! the library has dropped.

use crate::index::below::remove_below;
use crate::index::walk::is_gone;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Distinguishes a directory from a later one with the same path. Inode numbers are reused, so the
/// creation time counts too if the filesystem records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
    created: Option<SystemTime>,
}

impl Identity {
    /// Returns the identity of the directory at `path`; `None` if there is none. A symbolic link at
    /// `path` is not followed.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The watch is being put in place.
    Pending,
    /// The watch is on the directory with this identity.
    Live(Identity),
    /// There may be a watch, on an unknown directory.
    Doubtful,
}

/// The step that is needed to watch a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchStep {
    Nothing,
    /// Watch the path, which the library does not know.
    Watch,
    /// Renew the watch: the library may know the path, and must forget it first.
    Renew,
}

/// The watched directories, by their paths relative to the root.
#[derive(Debug, Default)]
pub(super) struct WatchedDirs {
    dirs: BTreeMap<PathBuf, State>,
}

impl WatchedDirs {
    pub(super) fn len(&self) -> usize {
        self.dirs.len()
    }

    /// Begins to watch a directory that had this identity a moment ago. Unless nothing is needed,
    /// [`watched`](WatchedDirs::watched) or [`forget`](WatchedDirs::forget) must follow before the
    /// next directory.
    pub(super) fn begin(&mut self, dir: &Path, identity: Identity) -> WatchStep {
        match self.dirs.get_mut(dir) {
            Some(State::Live(known)) if *known == identity => WatchStep::Nothing,
            Some(state) => {
                *state = State::Pending;
                WatchStep::Renew
            }
            None => {
                self.dirs.insert(dir.to_path_buf(), State::Pending);
                WatchStep::Watch
            }
        }
    }

    /// Completes a [`begin`](WatchedDirs::begin). If the path was dropped meanwhile, the order of
    /// drop and watch is unknown, so the watch is doubtful.
    pub(super) fn watched(&mut self, dir: &Path, identity: Identity) {
        match self.dirs.get_mut(dir) {
            Some(state @ State::Pending) => *state = State::Live(identity),
            Some(state) => *state = State::Doubtful,
            None => {
                self.dirs.insert(dir.to_path_buf(), State::Doubtful);
            }
        }
    }

    /// Records that a directory is not watched. Returns true if the library may consider it
    /// watched.
    pub(super) fn forget(&mut self, dir: &Path) -> bool {
        self.dirs.remove(dir).is_some()
    }

    /// Records that the library drops the watches at and below `path` after the current event.
    pub(super) fn dropped(&mut self, path: &Path) {
        remove_below(&mut self.dirs, path);
    }

    /// Records that the directory watched under this path was moved, while its watch continues.
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
        let mut known = WatchedDirs::default();
        let dir = Path::new("d");
        assert_eq!(known.begin(dir, one), WatchStep::Watch);
        known.watched(dir, one);
        assert_eq!(known.begin(dir, one), WatchStep::Nothing);
        assert_eq!(known.begin(dir, other), WatchStep::Renew);
        known.watched(dir, other);
        assert_eq!(known.begin(dir, other), WatchStep::Nothing);
        known.moved(dir);
        assert_eq!(known.begin(dir, other), WatchStep::Renew);
        assert!(known.forget(dir));
        assert!(!known.forget(dir));
        assert_eq!(known.begin(dir, other), WatchStep::Watch);
    }

    #[test]
    fn a_watch_dropped_while_it_is_put_in_place_is_doubtful() {
        let (one, _) = two();
        let mut known = WatchedDirs::default();
        let dir = Path::new("d/e");
        known.begin(dir, one);
        known.dropped(Path::new("d"));
        known.watched(dir, one);
        assert_eq!(known.len(), 1);
        assert_eq!(known.begin(dir, one), WatchStep::Renew);
    }

    #[test]
    fn what_is_below_is_dropped_and_nothing_else() {
        let (one, _) = two();
        let mut known = WatchedDirs::default();
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
