//! Watching a tree for changes, and the proof that every change so far has been heard.
//!
//! Owns what can be heard of a tree, the directories that are watched, the cookies and the barrier made of them. It must
//! not know what becomes of a change: the one who listens marks, walks and debounces.
//!
//! # How nothing gets lost
//!
//! A directory is watched by itself, by a call that returns when the watch is in place; what is below it needs watches of
//! its own. (The recursive modes of watching libraries add watches to new directories some time after those came to be,
//! and what happens there in between is never heard.) The listener therefore
//!
//! 1. marks what it hears of at once, [`Heard::Subtree`] with everything below it,
//! 2. then watches every directory of a marked subtree, again if it was watched before, a directory before it is listed,
//! 3. then walks what it watches, and only then takes the mark away.
//!
//! [`Watcher::watch`] promises for the path of a directory: from its return on, whatever happens in what has this path
//! is heard, or a `Subtree` at or above the path is heard, for which the above starts again. The second is for directories that
//! are renamed or replaced meanwhile.
//!
//! After [`Heard::Overflow`] everything is unknown, and on Linux nothing is watched any more: every directory has to be watched
//! again. After [`Heard::Down`], or when [`Watcher::mounts_changed`], the watcher
//! is of no use any more: another one has to be started.
//!
//! # Cookies
//!
//! On Linux the events of all directories arrive in one queue, in the order in which things happened. Something that
//! is made to happen now, a *cookie* in a private directory watched by the same queue, arrives when everything earlier
//! has arrived. [`Barrier::pass`] waits for that. What raises no event is beyond any barrier: writes through a shared
//! mapping before its file is closed, a file's other names, other machines ([`filesystem`]), and renames above the root, which
//! [`Watcher::touch`] notices instead.

mod barrier;
mod cookie;
pub mod filesystem;
mod known;
pub mod limits;
// On Linux the tests have it.
#[cfg(any(test, not(target_os = "linux")))]
mod library;
mod listener;
mod mounts;
mod native;
#[cfg(target_os = "linux")]
mod queue;
mod source;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

pub use self::barrier::{Barrier, BarrierError};
pub use self::native::NativeWatchers;

/// What is heard of a tree. Paths are relative to the index root; the empty one is the root itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heard {
    /// The content or the metadata of what has this path may differ: a file was written to.
    File(PathBuf),
    /// Whatever is at and below this path may have come, gone or changed.
    Subtree(PathBuf),
    /// The cookie with this number arrived: everything that happened before it was touched has been heard.
    Cookie(u64),
    /// Events were lost.
    Overflow,
    /// A directory above the root was renamed, and maybe back again: whoever looked at the tree meanwhile has not found it, or found
    /// another.
    Moved,
    /// Nothing more will be heard, for this reason.
    Down(String),
}

/// Hears what happens.
pub trait Ear: Send + Sync {
    /// Takes what happened, in the order of the queue. Runs on the watcher's thread and keeps the following events waiting,
    /// so it must be quick; it must neither call [`Watcher::watch`], which waits for that thread, nor wait for somebody who does.
    fn hear(&self, heard: Heard);
}

/// Watches directories of one tree. Dropping it ends the watches; a few events may still be heard while it is dropped.
pub trait Watcher: Send + Sync {
    /// Watches the directory at `dir`, relative to the root (empty: the root), but not what is below. When it returns, the watch is in
    /// place. Watching again is fine, and finds out whether the path has become another directory.
    ///
    /// Renewing the watch of a directory may leave out what happens in it during the call. Whoever watches a directory walks it
    /// afterwards, also when it was watched before.
    ///
    /// # Errors
    ///
    /// [`WatchError`]. The directory is not watched then.
    fn watch(&self, dir: &Path) -> Result<(), WatchError>;

    /// Returns the number of directories watched.
    fn watched(&self) -> usize;

    /// Touches the private cookie file with number `n`: [`Heard::Cookie`] with it is heard after everything that happened before.
    ///
    /// # Errors
    ///
    /// When the file can't be touched, when the watcher is down, and when the root's path does not lead to the directory any more for
    /// which the watcher was started. That is as good as [`Heard::Down`].
    fn touch(&self, n: u64) -> io::Result<()>;

    /// Returns whether the events of all directories arrive in one order, so that cookies prove anything.
    fn is_ordered(&self) -> bool;

    /// Returns whether mounts at, above or below the root changed since the last call, or since the watcher was started. Then the
    /// watches may be on what is hidden now.
    fn mounts_changed(&self) -> bool;

    /// Returns true if the root is the directory that is watched, and not away or replaced because something above it was renamed, of
    /// which nobody hears.
    fn is_in_place(&self) -> bool {
        true
    }
}

/// Why a directory or a tree can't be watched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WatchError {
    /// A limit of the system is reached. Says which, and how to raise it.
    #[error("{0}")]
    Limit(String),
    /// There is no such directory, or not any more.
    #[error("there is no such directory")]
    Gone,
    /// This user may not read the directory, so nobody can list it either.
    #[error("the directory can't be read")]
    Denied,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// Makes watchers.
pub trait WatcherFactory: Send + Sync {
    /// Starts a watcher for the tree at `root`, of which no directory is watched yet. Its cookies are in a directory of its own in
    /// `cookie_dir`, which is made if needed, may be shared by many watchers and processes, and must be outside of every tree
    /// that is searched.
    ///
    /// # Errors
    ///
    /// [`WatchError`]: a limit, no root, or whatever else keeps the system from watching.
    fn start(
        &self,
        root: &Path,
        cookie_dir: &Path,
        ear: Arc<dyn Ear>,
    ) -> Result<Arc<dyn Watcher>, WatchError>;
}

/// Locks, also after a thread panicked: nothing here is left half done where something can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
