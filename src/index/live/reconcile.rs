//! Reconciling: starts the watcher, and compares the whole tree with the known state.

use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::event_handler::LiveEventHandler;
use super::pin::MOUNTED;
use super::status::Status;
use super::worker::{LATER, RETRY, Timers, let_searches_end};
use super::{Shared, Watching, lock};
use crate::format::error::FormatError;
use crate::index::names::shown;
use crate::index::pace::millis;
use crate::index::refresh::{Cursor, Refresh};
use crate::index::state::{IndexState, Trigger, UncertainReason};
use crate::index::watch::{Barrier, BarrierError, WatchError, Watcher};

/// How long to let changed rules settle before the tree is listed by them.
const RULES_SETTLE: Duration = Duration::from_millis(60);

/// Returns the tree's watcher, and starts one if necessary. The error is the time after which to
/// retry.
pub(super) fn watch(shared: &Shared) -> Result<Watching, Duration> {
    if !shared.live_options.watch {
        return Err(LATER);
    }
    let is_down = {
        let mut status = shared.status();
        // A new watcher proves nothing until the tree was compared.
        if status.lose_sight() {
            // The caller does the comparison that this state asks for.
            status.reconcile_wanted = false;
        }
        std::mem::take(&mut status.restart_watching) || status.unwatched.is_some()
    };
    if !is_down && let Some(watching) = shared.watching() {
        return Ok(watching);
    }
    shared.unwatch();
    {
        let mut status = shared.status();
        status.unwatched = None;
        status.away = false;
    }
    let barrier = Arc::new(Barrier::new());
    let listener = Arc::new(LiveEventHandler {
        index_host: shared.index_host.clone(),
        status: shared.status.clone(),
        barrier: barrier.clone(),
        wake: shared.wake.clone(),
    });
    match start(shared, &listener) {
        Ok(watcher) => {
            let watching = Watching { watcher, barrier };
            *lock(&shared.watching) = Some(watching.clone());
            shared.fire(&[Trigger::WatcherStarted]);
            Ok(watching)
        }
        Err((why, again)) => {
            shared.status().unwatched = Some(why);
            Err(again)
        }
    }
}

/// Starts a watcher, with its cookies in the best directory that works. Several candidates are
/// tried, because a stored index may be usable where nothing can be written any more. The error is
/// the reason, and the time after which to retry.
fn start(
    shared: &Shared,
    listener: &Arc<LiveEventHandler>,
) -> Result<Arc<dyn Watcher>, (String, Duration)> {
    let mut first = None;
    for dir in shared.index_host.cookie_dirs() {
        let root = shared.index_host.root();
        match shared.watchers.start(root, &dir, listener.clone()) {
            Ok(watcher) if watcher.is_ordered() => return Ok(watcher),
            Ok(_) => {
                return Err((BarrierError::Unordered.to_string(), LATER));
            }
            Err(WatchError::Gone) => {
                let root = shown(root);
                return Err((format!("{root} does not exist at the moment"), RETRY));
            }
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    let why = match first {
        Some(error) => error.to_string(),
        None => "there is no directory for the cookie files, which prove that all changes were \
             reported"
            .to_string(),
    };
    Err((why, LATER))
}

/// Compares the whole tree with the known state, slice by slice.
pub(super) fn reconcile(shared: &Shared, timers: &mut Timers) {
    // Until then, searches compare the tree themselves, and would take twice as long beside this.
    let_searches_end(shared, |status| !status.tracking);
    if shared.status().stop {
        return;
    }
    let watching = match watch(shared) {
        Ok(watching) => watching,
        Err(again) => {
            do_without_watcher(shared, timers, again);
            return;
        }
    };
    {
        // Changes from here on are detected. Earlier changes may not have reached any search yet,
        // and the watcher won't report them. So the index is not reliable until the tree was
        // compared.
        let mut status = shared.status();
        if watching.watcher.mounts_changed() && status.is_relied_on() {
            status.fire_because(Trigger::WatcherOverflow, MOUNTED);
            // This reconcile is the one that the trigger asks for.
            status.reconcile_wanted = false;
        }
    }
    let begun_ms = shared.index_host.now_ms();
    let (moment, losses, index_state) = {
        let mut status = shared.status();
        // Hidden entries are not compared, so they are listed again.
        status.hidden.clear();
        (status.dirty.now(), status.losses, status.index_state)
    };
    shared.fire(&[Trigger::ReconcileStarted]);
    if index_state == IndexState::Uncertain(UncertainReason::EligibilityChanged) {
        // Recently changed rules are not trusted, so an immediate reconcile would be useless.
        shared.index_host.host().pause(RULES_SETTLE);
    }
    // Read before the rules, so that a change in between is detected. These inputs count only after
    // the whole tree was walked by the rules.
    let inputs_above = shared.index_host.inputs_above();
    let Some(mut cursor) = start_over(shared, timers) else {
        return;
    };
    while !cursor.is_done() {
        if let Err(error) = slice(shared, &watching, &mut cursor) {
            shared.damaged(&error);
            return;
        }
        let status = shared.status();
        if status.stop || status.losses != losses {
            // This reconcile proves nothing any more. If one is still wanted, it starts over.
            return;
        }
        drop(status);
        if !cursor.is_done() {
            shared.fire(&[Trigger::ReconcileFailed]);
            shared.publish_status(None);
            shared.index_host.host().pause(Duration::from_millis(1));
        }
    }
    let errors = {
        let Some(tree_state) = shared.tree_state() else {
            return;
        };
        let mut tree_state = lock(&tree_state);
        tree_state.inputs_above = inputs_above;
        tree_state.known.seen_whole();
        tree_state.publish(shared);
        tree_state.known.errors().len()
    };
    let done = shared.done(begun_ms, errors == 0);
    let mut status = shared.status();
    if status.losses != losses {
        return;
    }
    status.works.reconcile = Some(done);
    status.clear(moment);
    let version = status.version();
    status
        .orphans
        .looked_at_all(shared.index_host.now_ms(), version);
    status.tracking = status.unwatched.is_none();
    if status.tracking {
        // The reconcile has found the differences that earlier searches had reported.
        status.outdated = false;
    }
    conclude(shared, timers, status, errors);
}

/// Notes that there is no watcher, and when to try again.
fn do_without_watcher(shared: &Shared, timers: &mut Timers, again: Duration) {
    let tree_state = shared.tree_state();
    let errors = tree_state.map_or(0, |tree_state| lock(&tree_state).known.errors().len());
    // Without a watcher, each search compares the tree itself.
    let mut status = shared.status();
    status.tracking = false;
    if let Some(why) = status.unwatched.clone() {
        status.fire_unwatched(why, errors);
    }
    status.reconcile_wanted = false;
    timers.reconcile_ms = shared.index_host.now_ms().saturating_add(millis(again));
}

/// Reads the rules again, and begins at the top of the tree. Returns `None` if there is no tree.
fn start_over(shared: &Shared, timers: &mut Timers) -> Option<Cursor> {
    let tree_state = shared.tree_state()?;
    let mut tree_state = lock(&tree_state);
    match shared.index_host.walk() {
        Ok(walk) => tree_state.walk = walk,
        Err(why) => {
            // The root is gone, and may come back. Without a timer, nothing would request
            // another reconcile.
            shared.status().why = Some(why);
            timers.reconcile_ms = shared.index_host.now_ms().saturating_add(millis(RETRY));
            return None;
        }
    }
    tree_state.entered.clear();
    Some(Cursor::whole(&tree_state.walk))
}

/// Updates the state after the whole tree was compared. `errors` is the number of paths that could
/// not be listed.
fn conclude(
    shared: &Shared,
    timers: &mut Timers,
    mut status: MutexGuard<'_, Status>,
    errors: usize,
) {
    match (status.unwatched.clone(), errors) {
        (Some(why), errors) => {
            status.fire_unwatched(why, errors);
            status.reconcile_wanted = false;
            let again = if status.away { RETRY } else { LATER };
            timers.reconcile_ms = shared.index_host.now_ms().saturating_add(millis(again));
            drop(status);
            // Watches that prove nothing are released for other processes.
            shared.unwatch();
            return;
        }
        (None, 0) => status.fire(&[Trigger::ReconcileCompleted]),
        (None, errors) => {
            status.fire_unlisted(errors);
            // As long as nothing changes, the next reconcile would fail the same way, so it waits.
            // The error may be a passing one of the system, so it is retried later.
            status.reconcile_wanted = false;
            timers.reconcile_ms = shared.index_host.now_ms().saturating_add(millis(LATER));
        }
    }
    status.news_ms = Some(shared.index_host.now_ms());
}

/// Runs one slice of a reconcile (decision D52).
fn slice(shared: &Shared, watching: &Watching, cursor: &mut Cursor) -> Result<(), FormatError> {
    let enter = |dir: &Path| shared.enter(Some(watching), dir);
    let start_ms = shared.index_host.now_ms();
    let mut files = 0;
    while !cursor.is_done() {
        // Locked for one batch at a time, so that searches can process marks in between.
        let Some(tree_state) = shared.tree_state() else {
            return Ok(());
        };
        let tree_state = &mut *lock(&tree_state);
        let segment = tree_state.snapshot.segment().clone();
        let refresh = Refresh {
            walk: &tree_state.walk,
            segment: &segment,
            enter: &enter,
            now_ns: shared.index_host.host().now_ns(),
        };
        let known = &mut tree_state.known;
        let pool = shared.index_host.pool();
        files += pool.install(|| refresh.step(known, cursor))?;
        tree_state.publish_news(shared);
        let elapsed_ms = shared.index_host.now_ms().saturating_sub(start_ms);
        if files >= shared.live_options.reconcile_max_files
            || elapsed_ms >= millis(shared.live_options.reconcile_max)
            || shared.index_host.host().stopped()
        {
            break;
        }
    }
    Ok(())
}
