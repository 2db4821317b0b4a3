//! The crate `notify`: FSEvents on macOS, `ReadDirectoryChangesW` on Windows, kqueue on BSD.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use notify::{
    Config, EventKindMask, RecommendedWatcher, RecursiveMode, WatchPathConfig, Watcher as _,
};

use super::listener::{Listener, Shared};
use super::source::Source;

/// The crate's recommended watcher for the current system.
pub(super) struct NotifyWatcher {
    /// `None` during the drop.
    inner: Option<RecommendedWatcher>,
    shared: Arc<Shared>,
}

impl NotifyWatcher {
    pub(super) fn start(listener: Listener) -> notify::Result<NotifyWatcher> {
        let shared = Arc::clone(&listener.shared);
        // Only events about changes: one search by another program opens every file of the tree.
        let config = Config::default()
            .with_event_kinds(EventKindMask::CORE)
            .with_follow_symlinks(false);
        let inner = RecommendedWatcher::new(listener, config)?;
        Ok(NotifyWatcher {
            inner: Some(inner),
            shared,
        })
    }
}

impl Source for NotifyWatcher {
    fn watch(&mut self, path: &Path) -> notify::Result<()> {
        let by_itself =
            WatchPathConfig::new(RecursiveMode::NonRecursive).with_dereference_symlinks(false);
        match &mut self.inner {
            Some(inner) => inner.watch_with(path, by_itself),
            None => Err(notify::Error::watch_not_found()),
        }
    }

    fn renew(&mut self, path: &Path) -> notify::Result<()> {
        // The library may have dropped the watch already.
        self.unwatch(path);
        self.watch(path)
    }

    fn unwatch(&mut self, path: &Path) {
        if let Some(inner) = &mut self.inner {
            let _not_known_any_more = inner.unwatch(path);
        }
    }
}

impl Drop for NotifyWatcher {
    fn drop(&mut self) {
        let inner = self.inner.take();
        if self.shared.has_ended.load(Ordering::Acquire) {
            // On drop, the library ends its thread, and panics if the thread has already ended.
            std::mem::forget(inner);
        }
    }
}
