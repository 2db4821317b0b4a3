//! The sources of file system events.
//!
//! This module selects the operating system's way of watching. Every source reports events in the
//! types of the crate `notify`.

use std::path::Path;

use super::listener::Listener;

/// Watches directories, and reports their events to a [`Listener`].
pub(super) trait Source: Send {
    /// Watches a directory itself: no subdirectories, and no target of a symbolic link.
    fn watch(&mut self, path: &Path) -> notify::Result<()>;

    /// Watches a directory at a path that may be watched already, possibly for another directory.
    fn renew(&mut self, path: &Path) -> notify::Result<()>;

    /// Ends the watch of a directory, if there is one.
    fn unwatch(&mut self, path: &Path);
}

/// Starts the best source for this operating system.
pub(super) fn start(listener: Listener) -> notify::Result<Box<dyn Source>> {
    #[cfg(target_os = "linux")]
    return Ok(Box::new(super::queue::Queue::start(listener)?));
    #[cfg(not(target_os = "linux"))]
    return Ok(Box::new(super::library::NotifyWatcher::start(listener)?));
}
