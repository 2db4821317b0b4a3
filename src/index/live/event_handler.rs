//! Translates the watcher's events to dirty marks and triggers.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use super::status::{Status, decisive};
use super::{IndexHost, lock};
use crate::index::dirty::Extent;
use crate::index::rules::is_control_name;
use crate::index::state::Trigger;
use crate::index::watch::{Barrier, FsEvent, FsEventHandler};

/// Handles the events for one live index. Quick: it adds a mark or fires a trigger, and never looks
/// at a file.
pub(super) struct LiveEventHandler {
    pub(super) index_host: Arc<dyn IndexHost>,
    pub(super) status: Arc<Mutex<Status>>,
    pub(super) barrier: Arc<Barrier>,
    pub(super) wake: Arc<Condvar>,
}

impl FsEventHandler for LiveEventHandler {
    fn handle(&self, event: FsEvent) {
        match event {
            FsEvent::Cookie(number) => return self.barrier.cookie_arrived(number),
            FsEvent::File(path) => return self.mark(&path, Extent::File),
            FsEvent::Subtree(path) => return self.mark(&path, Extent::Subtree),
            FsEvent::Overflow => {
                let mut status = lock(&self.status);
                status.mark(Path::new(""), Extent::Subtree, self.index_host.now_ms());
                let why = "changes arrived faster than the watcher could process them";
                status.fire_because(Trigger::WatcherOverflow, why);
            }
            FsEvent::Moved => {
                let mut status = lock(&self.status);
                status.mark(Path::new(""), Extent::Subtree, self.index_host.now_ms());
                let why = "a directory above the tree was renamed";
                status.fire_because(Trigger::RenameAmbiguous, why);
            }
            FsEvent::Down(why) => {
                {
                    let mut status = lock(&self.status);
                    status.unwatched = Some(why.clone());
                    status.tracking = false;
                    status.fire_because(Trigger::WatcherDown, why);
                }
                self.barrier.down();
            }
        }
        self.wake.notify_all();
    }
}

impl LiveEventHandler {
    fn mark(&self, path: &Path, extent: Extent) {
        let mut status = lock(&self.status);
        // The worker polls a dirty set that has marks, so only the first mark wakes it.
        let mut news = status.dirty.is_empty();
        status.mark(path, extent, self.index_host.now_ms());
        // A rules file decides about all of its directory (FR-LSI-TRK-07).
        if is_control_name(path.file_name().unwrap_or(OsStr::new(""))) {
            let dir = path.parent().unwrap_or(Path::new(""));
            status.mark(dir, Extent::Subtree, self.index_host.now_ms());
            status.fire_because(Trigger::EligibilityChanged, decisive(path));
            news = true;
        }
        drop(status);
        if news {
            self.wake.notify_all();
        }
    }
}
