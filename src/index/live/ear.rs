//! Translates the watcher's events to dirty marks and triggers.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use super::status::{Status, decisive};
use super::{Ground, lock};
use crate::index::dirty::Extent;
use crate::index::rules::is_control_name;
use crate::index::state::Trigger;
use crate::index::watch::{Barrier, Ear, Heard};

/// Handles the events for one live index. Quick: it adds a mark or fires a trigger, and never looks
/// at a file.
pub(super) struct Listener {
    pub(super) ground: Arc<dyn Ground>,
    pub(super) status: Arc<Mutex<Status>>,
    pub(super) barrier: Arc<Barrier>,
    pub(super) wake: Arc<Condvar>,
}

impl Ear for Listener {
    fn hear(&self, heard: Heard) {
        match heard {
            Heard::Cookie(number) => return self.barrier.heard(number),
            Heard::File(path) => return self.mark(&path, Extent::File),
            Heard::Subtree(path) => return self.mark(&path, Extent::Subtree),
            Heard::Overflow => {
                let mut status = lock(&self.status);
                status.mark(Path::new(""), Extent::Subtree, self.ground.now_ms());
                let why = "changes arrived faster than the watcher could process them";
                status.fire_because(Trigger::WatcherOverflow, why);
            }
            Heard::Moved => {
                let mut status = lock(&self.status);
                status.mark(Path::new(""), Extent::Subtree, self.ground.now_ms());
                let why = "a directory above the tree was renamed";
                status.fire_because(Trigger::RenameAmbiguous, why);
            }
            Heard::Down(why) => {
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

impl Listener {
    fn mark(&self, path: &Path, extent: Extent) {
        let mut status = lock(&self.status);
        // The worker polls a dirty set that has marks, so only the first mark wakes it.
        let mut news = status.dirty.is_empty();
        status.mark(path, extent, self.ground.now_ms());
        // A rules file decides about all of its directory (FR-LSI-TRK-07).
        if is_control_name(path.file_name().unwrap_or(OsStr::new(""))) {
            let dir = path.parent().unwrap_or(Path::new(""));
            status.mark(dir, Extent::Subtree, self.ground.now_ms());
            status.fire_because(Trigger::EligibilityChanged, decisive(path));
            news = true;
        }
        drop(status);
        if news {
            self.wake.notify_all();
        }
    }
}
