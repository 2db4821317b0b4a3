//! Reconciling: watching a tree, and comparing the whole of it with what is known.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ear::Listener;
use super::worker::{LATER, RETRY, Timers, unlisted};
use super::{Shared, Watching, lock};
use crate::format::error::FormatError;
use crate::index::pace::millis;
use crate::index::refresh::{Cursor, Refresh};
use crate::index::state::{Standing, Trigger, UncertainReason};
use crate::index::watch::Barrier;

/// How long rules are left to settle before the tree is listed by them.
const RULES_SETTLE: Duration = Duration::from_millis(60);

/// Returns what watches the tree, started if need be.
pub(super) fn watch(shared: &Shared) -> Option<Watching> {
    if !shared.habits.watch {
        return None;
    }
    let is_down = {
        let mut status = shared.status();
        std::mem::take(&mut status.restart_watching) || status.unwatched.is_some()
    };
    if !is_down && let Some(watching) = shared.watching() {
        return Some(watching);
    }
    *lock(&shared.watching) = None;
    shared.status().unwatched = None;
    let barrier = Arc::new(Barrier::new());
    let listener = Arc::new(Listener {
        ground: shared.ground.clone(),
        status: shared.status.clone(),
        barrier: barrier.clone(),
        wake: shared.wake.clone(),
    });
    let dir = shared.ground.cookie_dir();
    let started = match dir {
        Some(dir) => shared.watchers.start(shared.ground.root(), &dir, listener),
        None => {
            let why =
                "there is no directory for the cookies that prove that all changes were heard";
            shared.status().unwatched = Some(why.to_string());
            return None;
        }
    };
    match started {
        Ok(watcher) if watcher.is_ordered() => {
            let watching = Watching { watcher, barrier };
            *lock(&shared.watching) = Some(watching.clone());
            shared.fire(&[Trigger::WatcherStarted]);
            Some(watching)
        }
        Ok(_) => {
            let why = "this system tells of changes in no order, so that nothing proves that all were heard";
            shared.status().unwatched = Some(why.to_string());
            None
        }
        Err(error) => {
            shared.status().unwatched = Some(error.to_string());
            None
        }
    }
}

/// Compares the whole tree with what is known, slice by slice (FR-LSI-REC-01 to FR-LSI-REC-03).
pub(super) fn reconcile(shared: &Shared, timers: &mut Timers) {
    let watching = watch(shared);
    if watching.is_none() {
        // Each search compares for itself.
        let mut status = shared.status();
        status.tracking = false;
        status.fire(&[Trigger::WatcherDown]);
        status.reconcile_wanted = false;
        let why = status.unwatched.clone();
        status.why = why;
        timers.reconcile_ms = shared.ground.now_ms().saturating_add(millis(LATER));
        return;
    }
    if let Some(watching) = &watching {
        // From here on, later changes show.
        let _since = watching.watcher.mounts_changed();
    }
    let (moment, losses, standing) = {
        let status = shared.status();
        (status.dirty.now(), status.losses, status.standing)
    };
    shared.fire(&[Trigger::ReconcileStarted]);
    if standing == Standing::Uncertain(UncertainReason::EligibilityChanged) {
        // Rules that have only just changed are not trusted, and this would be for nothing.
        shared.ground.host().pause(RULES_SETTLE);
    }
    // Looked at before the rules are read: what changes in between shows. Nothing vouches for them before the whole tree was
    // looked at by them.
    let inputs_above = shared.ground.inputs_above();
    let mut cursor = {
        let mut tracked = lock(&shared.known);
        let Some(tracked) = tracked.as_mut() else {
            return;
        };
        match shared.ground.walk() {
            Ok(walk) => tracked.walk = walk,
            Err(why) => {
                // The root is gone; and may come again. Until then nothing would ask for this once more.
                shared.status().why = Some(why);
                timers.reconcile_ms = shared.ground.now_ms().saturating_add(millis(RETRY));
                return;
            }
        }
        tracked.entered.clear();
        Cursor::whole(&tracked.walk)
    };
    while !cursor.is_done() {
        if let Err(error) = slice(shared, watching.as_ref(), &mut cursor) {
            shared.damaged(&error);
            return;
        }
        let status = shared.status();
        if status.stop || status.losses != losses {
            // It proves nothing any more; if it is wanted, it begins anew.
            return;
        }
        drop(status);
        if !cursor.is_done() {
            shared.fire(&[Trigger::ReconcileFailed]);
            shared.say(None);
            shared.ground.host().pause(Duration::from_millis(1));
        }
    }
    let errors = {
        let mut tracked = lock(&shared.known);
        let Some(tracked) = tracked.as_mut() else {
            return;
        };
        tracked.inputs_above = inputs_above;
        tracked.known.seen_whole();
        tracked.publish(shared);
        tracked.known.errors().len()
    };
    let mut status = shared.status();
    if status.losses != losses {
        return;
    }
    status.clear(moment);
    status.tracking = status.unwatched.is_none();
    match (status.unwatched.clone(), errors) {
        (Some(why), _) => {
            status.fire_because(Trigger::WatcherDown, why);
            status.reconcile_wanted = false;
            drop(status);
            // Watches that prove nothing are others' to use.
            *lock(&shared.watching) = None;
            return;
        }
        (None, 0) => status.fire(&[Trigger::ReconcileCompleted]),
        (None, errors) => {
            status.fire(&[Trigger::EnumerationErrors]);
            // The next one would meet them too, as long as nothing changes; unless they were the system's, and pass.
            status.reconcile_wanted = false;
            status.why = Some(unlisted(errors));
            timers.reconcile_ms = shared.ground.now_ms().saturating_add(millis(LATER));
        }
    }
    status.news_ms = Some(shared.ground.now_ms());
}

/// Does one slice of a reconcile (decision D52).
fn slice(
    shared: &Shared,
    watching: Option<&Watching>,
    cursor: &mut Cursor,
) -> Result<(), FormatError> {
    let enter = |dir: &Path| shared.enter(watching, dir);
    let start_ms = shared.ground.now_ms();
    let mut files = 0;
    while !cursor.is_done() {
        // Between the batches, searches may work marks off.
        let mut tracked = lock(&shared.known);
        let Some(tracked) = tracked.as_mut() else {
            return Ok(());
        };
        let segment = tracked.snapshot.segment().clone();
        let refresh = Refresh {
            walk: &tracked.walk,
            segment: &segment,
            enter: &enter,
        };
        let known = &mut tracked.known;
        let pool = shared.ground.pool();
        files += pool.install(|| refresh.step(known, cursor))?;
        if tracked.known.take_news() {
            tracked.publish(shared);
        }
        let elapsed_ms = shared.ground.now_ms().saturating_sub(start_ms);
        if files >= shared.habits.reconcile_max_files
            || elapsed_ms >= millis(shared.habits.reconcile_max)
            || shared.ground.host().stopped()
        {
            break;
        }
    }
    Ok(())
}
