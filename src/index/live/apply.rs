//! Processing dirty marks: looks at the marked paths and publishes a snapshot with the changes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::pin::MOUNTED;
use super::{Shared, TreeState, Watching};
use crate::format::error::FormatError;
use crate::index::dirty::Work;
use crate::index::names::shown;
use crate::index::refresh::{ChangedEntry, Cursor, Refresh};
use crate::index::state::Trigger;
use crate::index::walk::join;
use crate::index::watch::filesystem::{Reliability, reliability};
use crate::index::watch::{WatchError, not_in_place};

/// The number of dirty marks that the worker processes before it releases the lock for searches. If
/// the time is over within a portion, all marks of the portion stay.
pub(super) const PORTION: usize = 256;

/// The same number for a search. Other searches have to process the same marks, and each portion
/// costs a new snapshot.
pub(super) const SEARCH_PORTION: usize = 4096;

/// The result of processing dirty marks.
#[derive(Default)]
pub(super) struct ApplyOutcome {
    /// Whether all marks were processed. If false, all marks stay; changes that were found count
    /// nevertheless.
    pub(super) done: bool,
    /// The marks of written names that don't exist. Either the name was removed just now, or it is
    /// orphaned.
    pub(super) nowhere: Vec<Work>,
}

impl TreeState {
    /// Processes some dirty marks: looks at the marked paths and updates the snapshot. Stops early
    /// when `go_on` returns false.
    ///
    /// Costs one lookup for each mark; for a directory also one listing, and one lookup for each
    /// file below. At most one new snapshot is made, in time linear in the number of extra files.
    pub(super) fn apply(
        &mut self,
        shared: &Shared,
        works: &[Work],
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<ApplyOutcome, FormatError> {
        let mut by_dir: BTreeMap<&Path, (Vec<ChangedEntry>, Vec<&Work>)> = BTreeMap::new();
        let (now_ns, now_ms) = (
            shared.index_host.host().now_ns(),
            shared.index_host.now_ms(),
        );
        let mut cursor = Cursor::default();
        for work in works {
            match (work.path.parent(), work.path.file_name()) {
                (Some(dir), Some(name)) => {
                    let ago_ms = now_ms.saturating_sub(work.marked_at_ms);
                    let ago_ns = i64::try_from(ago_ms)
                        .unwrap_or(i64::MAX)
                        .saturating_mul(1_000_000);
                    let (names, works) = by_dir.entry(dir).or_default();
                    names.push(ChangedEntry {
                        name: name.to_os_string(),
                        received_ns: now_ns.saturating_sub(ago_ns),
                    });
                    works.push(work);
                }
                _ => {
                    self.entered.clear();
                    cursor = Cursor::whole(&self.walk);
                }
            }
        }
        let segment = self.snapshot.segment().clone();
        let watching = shared.watching();
        let enter = |dir: &Path| shared.enter(watching.as_ref(), dir);
        let refresh = Refresh {
            walk: &self.walk,
            segment: &segment,
            enter: &enter,
            now_ns,
        };
        let (dirs, works): (Vec<_>, Vec<_>) = by_dir
            .into_iter()
            .map(|(dir, (names, works))| ((dir, names), works))
            .unzip();
        let (known, entered) = (&mut self.known, &mut self.entered);
        let gone = refresh.entries(known, entered, &dirs, &mut cursor, go_on)?;
        let mut done = gone.len() == dirs.len();
        let mut nowhere = Vec::new();
        for (gone, works) in gone.iter().zip(&works) {
            let works = gone.iter().filter_map(|&at| works.get(at).copied());
            nowhere.extend(works.filter(|work| work.is_written).cloned());
        }
        let is_listing = !cursor.is_done();
        while !cursor.is_done() {
            if !go_on() {
                done = false;
                break;
            }
            refresh.step(&mut self.known, &mut cursor)?;
        }
        // This also publishes changes that another thread found but has not published. Their marks
        // may be among these, which the caller removes.
        if !self.publish_news(shared) && is_listing {
            // A listing without changes may hide a mount: the watches may be on other directories
            // than before.
            if let Some(watching) = &watching {
                shared.check_mounts(watching);
            }
        }
        Ok(ApplyOutcome { done, nowhere })
    }

    /// Publishes the current knowledge if it changed; returns true if it did.
    pub(super) fn publish_news(&mut self, shared: &Shared) -> bool {
        let is_news = self.known.take_news();
        if is_news {
            shared.status().findings += 1;
            self.publish(shared);
        }
        is_news
    }

    /// Publishes the current knowledge to searches.
    pub(super) fn publish(&mut self, shared: &Shared) {
        // Before the publication, so that a thread that sees the snapshot also sees a lost place.
        shared.check_place();
        let inputs = match self.known.take_inputs_changed() {
            true => {
                let mut inputs = self.inputs_above.clone();
                inputs.append(self.known.inputs());
                Arc::new(inputs)
            }
            false => self.snapshot.inputs().clone(),
        };
        let errors = self.known.errors().len() as u64;
        let overlay = self.known.overlay.pinned();
        self.snapshot = Arc::new(self.snapshot.later(overlay, inputs, errors));
        let mut status = shared.status();
        // The index may have been taken out of use, or replaced by another one.
        if status.published.is_some() && status.swaps == self.swap {
            status.published = Some(self.snapshot.clone());
        }
    }
}

impl Shared {
    /// Makes the index unreliable if something was mounted or unmounted. The listed or watched
    /// directories may belong to a mount that hides the tree, and that may be gone by the next
    /// search. Returns true if mounts changed.
    pub(super) fn check_mounts(&self, watching: &Watching) -> bool {
        // `mounts_changed` reports a change only once. The lock keeps other threads from passing
        // before the change is recorded.
        let mut status = self.status();
        let have_changed = watching.watcher.mounts_changed();
        if have_changed {
            // The following reconcile starts another watcher.
            status.restart_watching = true;
            status.fire_because(Trigger::WatcherOverflow, MOUNTED);
        }
        have_changed
    }

    /// Like [`check_mounts`](Self::check_mounts). Also checks that the watched root is still in
    /// place: files that look deleted may only have moved with it, and no event tells when they
    /// return.
    pub(super) fn check_place(&self) {
        let Some(watching) = self.watching() else {
            return;
        };
        self.check_mounts(&watching);
        if !watching.watcher.is_in_place() {
            let why = not_in_place(self.index_host.root());
            let mut status = self.status();
            status.unwatched.get_or_insert(why);
            status.away = true;
        }
    }

    /// Watches a directory that is about to be listed. If it can't be watched, the index can't be
    /// relied on.
    pub(super) fn enter(&self, watching: Option<&Watching>, dir: &Path) {
        let Some(watching) = watching else {
            return;
        };
        let watched = watching.watcher.watch(dir);
        // A listing that began before the watch may have missed a change.
        self.status().hidden.forget(dir);
        let root = self.index_host.root();
        if let Reliability::Unreliable(kind) = reliability(&join(root, dir)) {
            let mut status = self.status();
            status.unwatched.get_or_insert_with(|| {
                format!(
                    "{} is on a filesystem ({kind}) that does not report every change; searches \
                     compare the index with the tree instead",
                    shown(&join(root, dir))
                )
            });
        }
        match watched {
            // A directory that is gone was or will be reported by its parent. An unreadable
            // directory can't be listed either, which is counted as a listing error; once it is
            // readable, its parent reports that. The parent of the root is not watched for this, so
            // there it is an error.
            Ok(()) | Err(WatchError::Gone) => {}
            Err(WatchError::Denied) if !dir.as_os_str().is_empty() => {}
            Err(error) => {
                let mut status = self.status();
                if status.unwatched.is_none() {
                    status.unwatched = Some(error.to_string());
                }
            }
        }
    }
}
