//! Starts, uses and ends the watcher that the operating system offers.
//!
//! This module owns the setup of cookies, mounts and watched directories around the library's
//! watcher, and the conversion of the library's errors to [`WatchError`], which say how to raise a
//! limit.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use notify::ErrorKind;

use crate::index::names::shown;
use crate::index::walk::is_gone;

use super::cookie::CookieDir;
use super::limits::{self, INSTANCES, WATCHES};
use super::listener::{Listener, Shared};
use super::mounts::Mounts;
use super::source::{self, Source};
use super::watched_dirs::{Identity, WatchStep};
use super::{FsEventHandler, WatchError, Watcher, WatcherFactory, lock, not_in_place};

/// Creates watchers of the operating system: inotify on Linux, FSEvents on macOS,
/// `ReadDirectoryChangesW` on Windows.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeWatchers;

impl WatcherFactory for NativeWatchers {
    fn start(
        &self,
        root: &Path,
        cookie_dir: &Path,
        handler: Arc<dyn FsEventHandler>,
    ) -> Result<Arc<dyn Watcher>, WatchError> {
        Ok(Arc::new(NativeWatcher::start(
            root,
            cookie_dir,
            handler,
            source::start,
        )?))
    }
}

pub(super) struct NativeWatcher {
    /// The canonical root.
    root: PathBuf,
    /// The identity of the root directory at the start.
    identity: Identity,
    shared: Arc<Shared>,
    /// `None` during the drop.
    inner: Mutex<Option<Box<dyn Source>>>,
    mounts: Mounts,
    cookies: CookieDir,
}

impl NativeWatcher {
    pub(super) fn start(
        root: &Path,
        cookie_dir: &Path,
        handler: Arc<dyn FsEventHandler>,
        source: fn(Listener) -> notify::Result<Box<dyn Source>>,
    ) -> Result<Self, WatchError> {
        let root = std::fs::canonicalize(root).map_err(|error| failed(&error))?;
        let identity = Identity::of(&root)
            .map_err(|error| failed(&error))?
            .ok_or(WatchError::Gone)?;
        let mounts = Mounts::open(&root).map_err(|error| failed(&error))?;
        let cookies =
            CookieDir::make(cookie_dir).map_err(|error| WatchError::Other(error.to_string()))?;
        if cookies.path().starts_with(&root) {
            let (inside, root) = (shown(cookie_dir), shown(&root));
            return Err(WatchError::Other(format!(
                "the directory of the cookie files, {inside}, is inside the tree {root}; choose a \
                 directory outside of it"
            )));
        }
        // Creating a directory may work although there is no room for a file.
        let first = cookies.touch(0);
        first.map_err(|error| {
            WatchError::Other(format!("no cookie file could be created: {error}"))
        })?;
        let shared = Arc::new(Shared::default());
        let listener = Listener {
            root: root.clone(),
            cookies: cookies.path().to_path_buf(),
            shared: Arc::clone(&shared),
            handler,
            failures: 0,
        };
        let mut inner = source(listener).map_err(|error| refused(&error))?;
        inner
            .watch(cookies.path())
            .map_err(|error| refused(&error))?;
        let watcher = Self {
            root,
            identity,
            shared,
            inner: Mutex::new(Some(inner)),
            mounts,
            cookies,
        };
        watcher.shared.is_open.store(true, Ordering::Release);
        // A failure before `is_open` was not reported.
        if watcher.is_down() {
            return Err(WatchError::Other(
                "the watcher stopped immediately".to_owned(),
            ));
        }
        Ok(watcher)
    }

    fn is_down(&self) -> bool {
        self.shared.is_down.load(Ordering::Acquire)
    }
}

impl Watcher for NativeWatcher {
    fn watch(&self, dir: &Path) -> Result<(), WatchError> {
        let is_name = |part| matches!(part, Component::Normal(_));
        if !dir.components().all(is_name) {
            let dir = dir.display();
            return Err(WatchError::Other(format!(
                "{dir} is not a path below the root"
            )));
        }
        let path = match dir.as_os_str().is_empty() {
            true => self.root.clone(),
            false => self.root.join(dir),
        };
        if let Some(mount) = self.mounts.seen_twice(&path) {
            let mount = mount.display();
            return Err(WatchError::Other(format!(
                "the filesystem mounted at {mount} is also visible elsewhere in the tree, but \
                 changes are reported at only one place"
            )));
        }
        // Held throughout: one directory at a time.
        let mut inner = lock(&self.inner);
        let Some(inner) = inner.as_mut().filter(|_| !self.is_down()) else {
            return Err(WatchError::Other("the watcher is down".to_owned()));
        };
        let known = || lock(&self.shared.known);
        // Read before the watch: if the path becomes another directory later, the identities
        // differ.
        let identity = match Identity::of(&path) {
            Ok(Some(identity)) => identity,
            gone_or_hidden => {
                if known().forget(dir) {
                    inner.unwatch(&path);
                }
                return Err(match gone_or_hidden {
                    Err(error) => failed(&error),
                    Ok(_) => WatchError::Gone,
                });
            }
        };
        let needed = known().begin(dir, identity);
        let watched = match needed {
            WatchStep::Nothing => return Ok(()),
            WatchStep::Watch => inner.watch(&path),
            WatchStep::Renew => inner.renew(&path),
        };
        match watched {
            Ok(()) => {
                known().watched(dir, identity);
                Ok(())
            }
            Err(error) => {
                inner.unwatch(&path);
                known().forget(dir);
                Err(refused(&error))
            }
        }
    }

    fn watched(&self) -> usize {
        lock(&self.shared.known).len()
    }

    fn touch(&self, n: u64) -> io::Result<()> {
        if self.is_down() {
            return Err(io::Error::other("the watcher is down"));
        }
        // No event reports renames above the root, or the removal of a root that a process has
        // open.
        if !self.is_in_place() {
            let why = not_in_place(&self.root);
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        self.cookies.touch(n)
    }

    fn is_ordered(&self) -> bool {
        cfg!(target_os = "linux")
    }

    fn mounts_changed(&self) -> bool {
        self.mounts.changed()
    }

    fn is_in_place(&self) -> bool {
        Identity::of(&self.root).is_ok_and(|identity| identity == Some(self.identity))
    }
}

impl Drop for NativeWatcher {
    fn drop(&mut self) {
        self.shared.is_open.store(false, Ordering::Release);
        lock(&self.inner).take();
    }
}

/// Converts an operating system error.
fn failed(error: &io::Error) -> WatchError {
    if is_gone(error) {
        return WatchError::Gone;
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => WatchError::Denied,
        _ => WatchError::Other(error.to_string()),
    }
}

/// Converts an error of the watching library.
fn refused(error: &notify::Error) -> WatchError {
    match &error.kind {
        ErrorKind::MaxFilesWatch => limits::reached(WATCHES),
        ErrorKind::PathNotFound => WatchError::Gone,
        ErrorKind::Io(error) if is_gone(error) => WatchError::Gone,
        ErrorKind::Io(error) if is_out_of_files(error) => limits::reached(INSTANCES),
        ErrorKind::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            WatchError::Denied
        }
        _ => WatchError::Other(error.to_string()),
    }
}

#[cfg(unix)]
fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;

    let errno = Errno::from_io_error(error);
    errno == Some(Errno::MFILE) || errno == Some(Errno::NFILE)
}

#[cfg(not(unix))]
fn is_out_of_files(_error: &io::Error) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_library_say_what_they_mean() {
        let of = |kind| refused(&notify::Error::new(kind));
        assert!(matches!(of(ErrorKind::MaxFilesWatch), WatchError::Limit(_)));
        assert_eq!(of(ErrorKind::PathNotFound), WatchError::Gone);
        let io = |kind: io::ErrorKind| of(ErrorKind::Io(kind.into()));
        assert_eq!(io(io::ErrorKind::NotFound), WatchError::Gone);
        assert_eq!(io(io::ErrorKind::NotADirectory), WatchError::Gone);
        assert_eq!(io(io::ErrorKind::PermissionDenied), WatchError::Denied);
        #[cfg(unix)]
        {
            let full = io::Error::from(rustix::io::Errno::MFILE);
            assert!(matches!(of(ErrorKind::Io(full)), WatchError::Limit(_)));
        }
    }
}
