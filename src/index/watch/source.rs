//! Where events come from.
//!
//! Owns the choice between the systems' ways of watching. What is told is told in the words of the crate `notify`, whoever
//! tells it.

use std::path::Path;

use super::listener::Listener;

/// Watches directories, and tells a [`Listener`] of what happens in them.
pub(super) trait Source: Send {
    /// Watches a directory by itself: neither what is below it, nor what a symbolic link leads to.
    fn watch(&mut self, path: &Path) -> notify::Result<()>;

    /// Watches a directory whose path may be watched already, but maybe as that of another directory.
    fn renew(&mut self, path: &Path) -> notify::Result<()>;

    /// Does not watch it any more, if it did.
    fn unwatch(&mut self, path: &Path);
}

/// Starts what watches best on this system.
pub(super) fn start(listener: Listener) -> notify::Result<Box<dyn Source>> {
    #[cfg(target_os = "linux")]
    return Ok(Box::new(super::queue::Queue::start(listener)?));
    #[cfg(not(target_os = "linux"))]
    return Ok(Box::new(super::library::ByNotify::start(listener)?));
}
