//! Watches a tree for changes, and proves that all earlier changes were reported.
//!
//! This module owns the events, the watched directories, the cookies and the barrier built on them.
//! It does not know how events are used: the [`FsEventHandler`] of its caller adds dirty marks, and
//! other code walks and debounces.
//!
//! # How no change is lost
//!
//! Each directory is watched on its own, by a call that returns once the watch is in place.
//! Subdirectories need watches of their own. (The recursive modes of watching libraries add watches
//! to new directories with a delay, and never report changes made before.) The user of a watcher
//! therefore
//!
//! 1. marks each reported path at once, and for [`FsEvent::Subtree`] everything below it,
//! 2. then watches every directory of a marked subtree, also if it was watched before, and always
//!    before listing it,
//! 3. then walks the watched directories, and only then removes the mark.
//!
//! [`Watcher::watch`] makes a promise for the path of a directory. After it returns, every change
//! in the directory at this path is reported. The watch may fail to cover the directory, because it
//! was renamed or replaced meanwhile. Then the watcher reports a `Subtree` at or above the path,
//! and the steps above start again.
//!
//! After [`FsEvent::Overflow`], any path may have changed. On Linux all watches are gone too, and
//! every directory has to be watched again. After [`FsEvent::Down`], or when
//! [`Watcher::mounts_changed`] returns true, the watcher is useless and another one has to be
//! started.
//!
//! # Cookies
//!
//! On Linux the events of all directories arrive in one queue, in the order of the changes. A
//! *cookie* is a change made on purpose, in a private directory watched by the same queue. When its
//! event arrives, all earlier events have arrived; [`Barrier::pass`] waits for that.
//!
//! Changes that raise no event are beyond any barrier: writes through a shared mapping before its
//! file is closed, changes under a file's other names, and changes by other machines
//! ([`filesystem`]). Renames above the root raise no event either, but [`Watcher::touch`] detects
//! them.

mod barrier;
mod cookie;
pub mod filesystem;
pub mod limits;
mod watched_dirs;
// Linux uses this module in tests only.
#[cfg(any(test, not(target_os = "linux")))]
mod library;
mod listener;
mod mounts;
mod native;
#[cfg(target_os = "linux")]
mod queue;
mod source;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::format::mutex::lock;
use crate::index::names::shown;

pub use self::barrier::{Barrier, BarrierError};
pub use self::native::NativeWatchers;

/// An event of a watched tree. Paths are relative to the index root; the empty path is the root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FsEvent {
    /// A file was written to: the content or the metadata at this path may differ.
    File(PathBuf),
    /// Anything at and below this path may have been created, removed or changed.
    Subtree(PathBuf),
    /// The cookie with this number arrived: all events before its touch have been reported.
    Cookie(u64),
    /// Events were lost.
    Overflow,
    /// A directory above the root was renamed, and maybe renamed back. A look at the tree meanwhile
    /// found nothing, or another tree.
    Moved,
    /// No more events will be reported. Holds the reason.
    Down(String),
}

/// Handles the events of a watcher.
pub trait FsEventHandler: Send + Sync {
    /// Handles one event; events come in the order of the queue. Runs on the watcher's thread and
    /// delays later events, so it must be quick. It must not call [`Watcher::watch`], which waits
    /// for that thread, nor wait for a thread that does.
    fn handle(&self, event: FsEvent);
}

/// Watches directories of one tree. Dropping it ends the watches; a few events may still be
/// reported meanwhile.
pub trait Watcher: Send + Sync {
    /// Watches the directory at `dir`, relative to the root (empty: the root), without its
    /// subdirectories. The watch is in place when this returns. A directory may be watched again,
    /// which detects that its path has become another directory.
    ///
    /// Renewing a watch may lose events during the call. So callers walk the directory afterwards,
    /// also when it was watched before.
    ///
    /// # Errors
    ///
    /// [`WatchError`]; the directory is not watched then.
    fn watch(&self, dir: &Path) -> Result<(), WatchError>;

    /// Returns the number of watched directories.
    fn watched(&self) -> usize;

    /// Touches the private cookie file with number `n`. [`FsEvent::Cookie`] with this number is
    /// reported after all earlier events.
    ///
    /// # Errors
    ///
    /// If the file can't be touched, if the watcher is down, or if the root's path no longer leads
    /// to the watched directory. All of these are as final as [`FsEvent::Down`].
    fn touch(&self, n: u64) -> io::Result<()>;

    /// Returns true if the events of all directories arrive in one order. Otherwise cookies prove
    /// nothing.
    fn is_ordered(&self) -> bool;

    /// Returns true if mounts at, above or below the root changed since the last call, or since the
    /// watcher was started. The watches may then be on directories that a mount hides.
    fn mounts_changed(&self) -> bool;

    /// Returns true if the root's path leads to the watched directory. It may not, because a
    /// directory above the root was renamed, which raises no event.
    fn is_in_place(&self) -> bool {
        true
    }
}

/// The reason why a directory or a tree can't be watched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WatchError {
    /// A limit of the system is reached. The message names the limit and how to raise it.
    #[error("{0}")]
    Limit(String),
    /// The directory does not exist, or not any more.
    #[error("there is no such directory")]
    Gone,
    /// The user may not read the directory, and so can't list it either.
    #[error("the directory can't be read")]
    Denied,
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

/// Creates watchers of trees.
pub trait WatcherFactory: Send + Sync {
    /// Starts a watcher for the tree at `root`; no directory is watched yet. The watcher creates
    /// its own directory for cookies in `cookie_dir`, which is created if needed and may be shared
    /// by many watchers and processes. `cookie_dir` must be outside of every searched tree.
    ///
    /// # Errors
    ///
    /// [`WatchError`] if a limit is reached, if the root does not exist, or if the system can't
    /// watch for another reason.
    fn start(
        &self,
        root: &Path,
        cookie_dir: &Path,
        handler: Arc<dyn FsEventHandler>,
    ) -> Result<Arc<dyn Watcher>, WatchError>;
}

/// Returns the reason why a watcher whose root is not in place proves nothing.
pub(crate) fn not_in_place(root: &Path) -> String {
    let root = shown(root);
    format!("{root} is no longer the watched directory: it was moved, removed or replaced")
}

#[cfg(test)]
mod tests;
