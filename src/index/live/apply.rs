//! Working marks off: from what may have changed to a snapshot that says what did.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::pin::MOUNTED;
use super::{Shared, Tracked, Watching};
use crate::format::error::FormatError;
use crate::index::dirty::Work;
use crate::index::refresh::{Cursor, Named, Refresh};
use crate::index::state::Trigger;
use crate::index::walk::join;
use crate::index::watch::WatchError;
use crate::index::watch::filesystem::{Reliability, reliability};

/// Marks that are worked off before others may have the lock.
pub(super) const PORTION: usize = 256;

/// What came of working marks off.
#[derive(Default)]
pub(super) struct Applied {
    /// Whether it was finished. If not, the marks have to stay, and what was found counts nevertheless.
    pub(super) done: bool,
    /// Those of names that were written to and lead nowhere: either they were removed just now, or they are orphaned.
    pub(super) nowhere: Vec<Work>,
}

impl Tracked {
    /// Works off some marks: looks at what they are about, and makes the snapshot say so. Ends early when `go_on` returns false.
    ///
    /// One lookup a mark, and for directories one listing and one look at each file below. The snapshot is made anew at most
    /// once, in time linear in the files beside the segment.
    pub(super) fn apply(
        &mut self,
        shared: &Shared,
        works: &[Work],
        go_on: &dyn Fn() -> bool,
    ) -> Result<Applied, FormatError> {
        let mut by_dir: BTreeMap<&Path, (Vec<Named>, Vec<&Work>)> = BTreeMap::new();
        let (now_ns, now_ms) = (shared.ground.host().now_ns(), shared.ground.now_ms());
        let mut cursor = Cursor::default();
        for work in works {
            match (work.path.parent(), work.path.file_name()) {
                (Some(dir), Some(name)) => {
                    let ago_ms = now_ms.saturating_sub(work.marked_at_ms);
                    let ago_ns = i64::try_from(ago_ms)
                        .unwrap_or(i64::MAX)
                        .saturating_mul(1_000_000);
                    let (names, works) = by_dir.entry(dir).or_default();
                    names.push(Named {
                        name: name.to_os_string(),
                        heard_ns: now_ns.saturating_sub(ago_ns),
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
        let (mut done, mut nowhere) = (true, Vec::new());
        for (dir, (names, works)) in by_dir {
            if !go_on() {
                done = false;
                break;
            }
            let known = &mut self.known;
            let entered = &mut self.entered;
            let gone = refresh.entries(known, entered, dir, &names, &mut cursor)?;
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
        // Also what somebody else has found and not published yet: the marks of it may be among these, and are off now.
        if !self.publish_news(shared) && is_listing {
            // The watches may be on something else than before.
            if let Some(watching) = &watching {
                shared.check_mounts(watching);
            }
        }
        Ok(Applied { done, nowhere })
    }

    /// Gives searches what is known now, if anything was found to be otherwise; returns whether that is so.
    pub(super) fn publish_news(&mut self, shared: &Shared) -> bool {
        let is_news = self.known.take_news();
        if is_news {
            shared.status().findings += 1;
            self.publish(shared);
        }
        is_news
    }

    /// Gives searches what is known now.
    pub(super) fn publish(&mut self, shared: &Shared) {
        // Before it: whoever sees it sees this too.
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
        // It may have been taken out of use meanwhile, or another one may be in use.
        if status.published.is_some() && status.swaps == self.swap {
            status.published = Some(self.snapshot.clone());
        }
    }
}

impl Shared {
    /// Notes that nothing is certain any more if something was mounted or unmounted: what was listed may be what hides the tree, and
    /// what is watched as well. By the time of the next search the mounts may be what they were. Returns whether that is so.
    pub(super) fn check_mounts(&self, watching: &Watching) -> bool {
        // It is said once only. Nobody may get through before it is noted.
        let mut status = self.status();
        let have_changed = watching.watcher.mounts_changed();
        if have_changed {
            // The reconcile that follows starts another watcher.
            status.restart_watching = true;
            status.fire_because(Trigger::WatcherOverflow, MOUNTED);
        }
        have_changed
    }

    /// Does the same, and if the root is not where it is looked for: what is taken for gone may only be away, and nobody hears of it
    /// when it is back.
    pub(super) fn check_place(&self) {
        let Some(watching) = self.watching() else {
            return;
        };
        self.check_mounts(&watching);
        if !watching.watcher.is_in_place() {
            let root = self.ground.root().display();
            let why = format!("{root} is not the directory any more that was watched");
            let mut status = self.status();
            status.unwatched.get_or_insert(why);
            status.away = true;
        }
    }

    /// Watches a directory that is about to be listed. One that can't be watched means that nothing is certain any more.
    pub(super) fn enter(&self, watching: Option<&Watching>, dir: &Path) {
        let Some(watching) = watching else {
            return;
        };
        let watched = watching.watcher.watch(dir);
        let root = self.ground.root();
        if let Reliability::Unreliable(kind) = reliability(&join(root, dir)) {
            let mut status = self.status();
            status.unwatched.get_or_insert_with(|| {
                format!(
                    "{} is on a filesystem ({kind}) on which files can be changed without a sign of it; searches compare \
                     the index with the tree instead",
                    join(root, dir).display()
                )
            });
        }
        match watched {
            // What is gone was reported where it was, or will be. What can't be read can't be listed, which is an error of its
            // own, and once it can, its directory tells; that of the root is not watched for such.
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
