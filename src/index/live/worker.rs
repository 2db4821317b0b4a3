//! The worker: the one thread that opens, builds, reconciles and updates an index.
//!
//! This module decides the order of tasks, and processes dirty marks. (Workers of a search are in
//! `exec::schedule`.)

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::apply::{ApplyOutcome, PORTION};
use super::building::{build, is_spread_out, is_unkept, lacks_words, measure, merge, take_over};
use super::reconcile::reconcile;
use super::status::{Cooldown, Status};
use super::{BELOW_THRESHOLD, OpenOutcome, Shared, lock, tokenize};
use crate::index::dirty::Work;
use crate::index::pace::millis;
use crate::index::snapshot::StorageMode;
use crate::index::state::{IndexState, SafetyState, Trigger, UncertainReason};

/// Retry delay for an obstacle that may pass: a lock, a watcher that could not start, or a missing
/// root.
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// Retry delay after an error that is unlikely to clear on its own.
pub(super) const LATER: Duration = Duration::from_secs(60);

/// The shortest time between two merges that only refresh distrusted files.
pub(super) const RARELY: Duration = Duration::from_secs(600);

/// Where the index is updated only by builds, the pause after a build is this many times its
/// duration.
const REST: u64 = 20;

/// The longest time that the worker waits.
const LONGEST_WAIT_MS: u64 = 60_000;

/// The most dirty marks that the worker processes before it checks for other tasks.
const ROUND: usize = 8 * PORTION;

/// The pauses in which the worker lets running searches go first, and the most of them.
const LET_SEARCH: (Duration, usize) = (Duration::from_millis(1), 250);

/// A task of the worker.
enum Task {
    End,
    Open,
    Measure,
    Build,
    Reconcile,
    Drain(Vec<Work>),
    Read,
    Merge,
    Check,
    Close,
    Look,
}

/// When to start the tasks that no event requests.
#[derive(Default)]
pub(super) struct Timers {
    pub(super) reconcile_ms: u64,
    pub(super) retry_ms: Option<u64>,
    pub(super) read_ms: Option<u64>,
    /// Whether the last files that were read may have made the overlay too large.
    pub(super) has_read: bool,
    /// The earliest time of the next merge, after one failed or the index could not be stored. It
    /// runs then if it is still wanted.
    pub(super) merge_ms: Option<u64>,
    /// Since when another process has held the lock on the index that is to be built.
    pub(super) locked_since_ms: Option<u64>,
    /// The earliest time of the next merge that only refreshes distrusted files.
    pub(super) renew_ms: u64,
    /// When to check whether the stored index still exists.
    look_ms: u64,
    /// The earliest time of the next build if the tree is not watched, or if the index was evicted.
    pub(super) rest_until_ms: u64,
}

impl Timers {
    /// Delays the next build of an index that only builds keep up to date. The delay is a multiple
    /// of the duration of the build that began at `begun_ms`.
    pub(super) fn rest(&mut self, shared: &Shared, begun_ms: u64) {
        let now_ms = shared.index_host.now_ms();
        let taken_ms = now_ms.saturating_sub(begun_ms);
        let rest_ms = taken_ms.saturating_mul(REST).max(millis(LATER));
        self.rest_until_ms = now_ms.saturating_add(rest_ms);
    }

    /// Schedules a reconcile although nothing changes: a listing error may have been a passing one
    /// of the system.
    pub(super) fn look_again(&mut self, shared: &Shared) {
        let again_ms = shared.index_host.now_ms().saturating_add(millis(LATER));
        self.reconcile_ms = self.reconcile_ms.min(again_ms);
    }
}

/// Runs tasks until [`Task::End`].
pub(super) fn run(shared: &Arc<Shared>) {
    let _ends = WorkerEndGuard(shared);
    let every = millis(shared.live_options.reconcile_every);
    let mut timers = Timers {
        reconcile_ms: shared.index_host.now_ms().saturating_add(every),
        ..Timers::default()
    };
    loop {
        let task = next(shared, &mut timers);
        if !matches!(task, Task::Open) {
            // Published before the task, since that may take long. Before the index was opened,
            // nothing is published: "absent" may be wrong.
            shared.publish_status(None);
        }
        match task {
            Task::End => return,
            Task::Open => open(shared, &mut timers),
            Task::Measure => measure(shared),
            Task::Build => build(shared, &mut timers),
            Task::Reconcile => {
                // `reconcile` may set an earlier time itself, to retry a watcher that could not
                // start.
                timers.reconcile_ms = u64::MAX;
                reconcile(shared, &mut timers);
                let next_ms = shared.index_host.now_ms().saturating_add(every);
                timers.reconcile_ms = timers.reconcile_ms.min(next_ms);
            }
            Task::Drain(works) => drain(shared, &works, &mut timers),
            Task::Read => {
                timers.read_ms = tokenize::read_some(shared);
                timers.has_read = true;
            }
            Task::Merge => merge(shared, &mut timers),
            Task::Check => check(shared),
            Task::Close => close(shared),
            Task::Look => {
                timers.look_ms = shared.index_host.now_ms().saturating_add(millis(LATER));
                if look(shared) {
                    timers.rest_until_ms = timers.rest_until_ms.max(timers.look_ms);
                }
            }
        }
    }
}

/// Waits while searches run and `may_wait` returns true, for at most a quarter of a second. Returns
/// true if it waited and the searches have ended. For work that these searches do themselves.
pub(super) fn let_searches_end(shared: &Shared, may_wait: impl Fn(&Status) -> bool) -> bool {
    let (pause, times) = LET_SEARCH;
    for time in 0..times {
        let status = shared.status();
        if status.stop || !may_wait(&status) {
            return false;
        }
        drop(status);
        if !shared.index_host.is_searching() {
            return time > 0;
        }
        shared.index_host.host().pause(pause);
    }
    false
}

/// Records on drop that the worker has ended, also after a panic.
struct WorkerEndGuard<'a>(&'a Shared);

impl Drop for WorkerEndGuard<'_> {
    fn drop(&mut self) {
        self.0.index_host.ended();
        let mut status = self.0.status();
        status.ended = true;
        // Changes are not processed any more.
        status.tracking = false;
        drop(status);
        self.0.settled.notify_all();
    }
}

/// Waits for the next task.
fn next(shared: &Shared, timers: &mut Timers) -> Task {
    let mut status = shared.status();
    loop {
        let now_ms = shared.index_host.now_ms();
        let task = due(shared, &mut status, timers, now_ms);
        status.busy = task.is_some();
        if let Some(task) = task {
            return task;
        }
        shared.settled.notify_all();
        if shared.has_news(&status) {
            drop(status);
            shared.publish_status(None);
            // There may be new work since the lock was released.
            status = shared.status();
            continue;
        }
        let debounce_ms = millis(shared.live_options.debounce).max(1);
        // Tasks that can't run in this state must not wake the worker.
        let drains = status.tracking && !status.dirty.is_empty();
        let reads = status.tracking && status.index_state == IndexState::Complete;
        let reconciles =
            shared.live_options.watch && status.reconcile_wanted && status.published.is_some();
        let quiet = status
            .news_ms
            .map(|news_ms| news_ms.saturating_add(debounce_ms));
        let cooled_ms = match status.cooldown {
            Cooldown::Until(at) => Some(at),
            Cooldown::Begins | Cooldown::Off => None,
        };
        let at = [
            cooled_ms,
            (shared.live_options.watch && status.published.is_some())
                .then_some(timers.reconcile_ms),
            timers.retry_ms,
            timers.read_ms.filter(|_| reads),
            timers
                .merge_ms
                .filter(|_| reads || !status.tracking && is_unkept(shared, &status)),
            quiet.filter(|_| reads),
            drains.then_some(now_ms.saturating_add(debounce_ms)),
            (status.outdated && !status.tracking && status.published.is_some())
                .then_some(timers.rest_until_ms),
            reconciles.then(|| status.orphans.rest_until_ms()),
            (status.evicted && status.calls > 0).then_some(timers.rest_until_ms),
            status.published.is_some().then_some(timers.look_ms),
        ];
        let wake_ms = at.into_iter().flatten().min().unwrap_or(u64::MAX);
        let wait = wake_ms.saturating_sub(now_ms).clamp(1, LONGEST_WAIT_MS);
        let wait = Duration::from_millis(wait);
        let (woken, _) = shared
            .wake
            .wait_timeout(status, wait)
            .unwrap_or_else(PoisonError::into_inner);
        status = woken;
    }
}

/// Returns the most urgent task that is due.
fn due(shared: &Shared, status: &mut Status, timers: &mut Timers, now_ms: u64) -> Option<Task> {
    if status.stop {
        return Some(Task::End);
    }
    if let Some(task) = due_for_opening(shared, status, timers, now_ms) {
        return Some(task);
    }
    status.published.as_ref()?;
    if let Some(task) = due_for_checking(shared, status, timers, now_ms) {
        return Some(task);
    }
    match status.tracking {
        true => due_for_changes(shared, status, timers, now_ms),
        false => due_unwatched(shared, status, timers, now_ms),
    }
}

/// Returns the due task that opens, closes or builds the index, or measures the tree for one.
fn due_for_opening(
    shared: &Shared,
    status: &mut Status,
    timers: &mut Timers,
    now_ms: u64,
) -> Option<Task> {
    if timers.retry_ms.is_some_and(|at| at <= now_ms) {
        timers.retry_ms = None;
        status.open_wanted = true;
    }
    // A complete index is not replaced by an opened one.
    status.open_wanted &= status.index_state != IndexState::Complete;
    if status.cooldown == Cooldown::Begins {
        let until_ms = |time| Cooldown::Until(now_ms.saturating_add(millis(time)));
        status.cooldown = shared.live_options.cooldown.map_or(Cooldown::Off, until_ms);
        // Closing also frees the memory and the watches that the index uses.
        return Some(Task::Close);
    }
    if let Cooldown::Until(at) = status.cooldown {
        // Other triggers must not end the cooldown early.
        let trigger = match at <= now_ms {
            true => Trigger::CooldownExpired,
            false => Trigger::CooldownActive,
        };
        status.open_wanted = false;
        status.fire(&[trigger]);
    }
    if std::mem::take(&mut status.open_wanted) {
        return Some(Task::Open);
    }
    let thresholds = shared.live_options.thresholds;
    if thresholds.is_some_and(|of| status.calls >= of.reeval_calls) {
        status.calls = 0;
        if status.index_state.state() == SafetyState::Disabled {
            return Some(Task::Measure);
        }
    }
    if status.words_wanted && status.index_state == BELOW_THRESHOLD {
        return Some(Task::Measure);
    }
    if status.build_wanted && timers.retry_ms.is_none() {
        status.build_wanted = false;
        return Some(Task::Build);
    }
    if status.evicted && status.calls > 0 && timers.rest_until_ms <= now_ms {
        // Another process may have built it meanwhile.
        status.evicted = false;
        return Some(Task::Open);
    }
    None
}

/// Returns the due task that checks whether the index still matches the tree.
fn due_for_checking(
    shared: &Shared,
    status: &mut Status,
    timers: &mut Timers,
    now_ms: u64,
) -> Option<Task> {
    if timers.look_ms <= now_ms {
        return Some(Task::Look);
    }
    let calls = shared.live_options.check_calls;
    if calls.is_some_and(|calls| status.unchecked_calls >= calls) {
        status.unchecked_calls = 0;
        return Some(Task::Check);
    }
    if timers.reconcile_ms <= now_ms {
        status.reconcile_wanted = true;
        // The task may have to wait. Moving the timer keeps it from becoming due again meanwhile.
        timers.reconcile_ms = now_ms.saturating_add(millis(shared.live_options.reconcile_every));
    }
    let is_orphaned = status.index_state == IndexState::Uncertain(UncertainReason::RenameUncertain);
    let rests = is_orphaned && status.orphans.rest_until_ms() > now_ms;
    if !rests && std::mem::take(&mut status.reconcile_wanted) && shared.live_options.watch {
        return Some(Task::Reconcile);
    }
    None
}

/// Returns the due task of an index without a watcher. A build replaces the merge.
fn due_unwatched(
    shared: &Shared,
    status: &mut Status,
    timers: &mut Timers,
    now_ms: u64,
) -> Option<Task> {
    // With a watcher, a reconcile finds the differences, and only changed files are read.
    if status.outdated && timers.rest_until_ms <= now_ms {
        status.outdated = false;
        return Some(Task::Build);
    }
    let again = timers.merge_ms.is_some_and(|at| at <= now_ms);
    if again && is_unkept(shared, status) {
        timers.merge_ms = Some(now_ms.saturating_add(millis(LATER)));
        return Some(Task::Build);
    }
    if timers.rest_until_ms <= now_ms && lacks_words(status, now_ms) {
        return Some(Task::Build);
    }
    None
}

/// Returns the due task for changes that the watcher has reported.
fn due_for_changes(
    shared: &Shared,
    status: &mut Status,
    timers: &mut Timers,
    now_ms: u64,
) -> Option<Task> {
    let debounce = match status.index_state {
        IndexState::Complete => shared.live_options.debounce,
        _ => Duration::ZERO,
    };
    let works = status.dirty.ready(ROUND, now_ms, debounce);
    if !works.is_empty() {
        return Some(Task::Drain(works));
    }
    if status.index_state == IndexState::Uncertain(UncertainReason::DirtyBacklog)
        && status.dirty.is_empty()
    {
        // Searches have processed all marks meanwhile.
        status.fire(&[Trigger::DirtyDrained]);
        shared.settled.notify_all();
    }
    let quiet =
        |news_ms: u64| news_ms.saturating_add(millis(shared.live_options.debounce)) <= now_ms;
    let read_wanted =
        status.news_ms.is_some_and(quiet) || timers.read_ms.is_some_and(|at| at <= now_ms);
    let has_read = std::mem::take(&mut timers.has_read);
    let again = timers.merge_ms.is_some_and(|at| at <= now_ms);
    let may_merge = timers.merge_ms.is_none() || again;
    if status.index_state == IndexState::Complete && may_merge && lacks_words(status, now_ms) {
        timers.merge_ms = None;
        return Some(Task::Merge);
    }
    if status.index_state == IndexState::Complete && (read_wanted || has_read || again) {
        let is_time = timers.renew_ms <= now_ms;
        let wanted = is_spread_out(shared, status, is_time) || again && is_unkept(shared, status);
        if again {
            timers.merge_ms = None;
        }
        if timers.merge_ms.is_none() && wanted {
            status.news_ms = None;
            timers.read_ms = None;
            return Some(Task::Merge);
        }
        if read_wanted {
            status.news_ms = None;
            timers.read_ms = None;
            return Some(Task::Read);
        }
    }
    None
}

/// Opens the stored index.
fn open(shared: &Shared, timers: &mut Timers) {
    match shared.index_host.open() {
        OpenOutcome::Open(snapshot) => match take_over(shared, snapshot) {
            Ok(()) => {
                timers.locked_since_ms = None;
                timers.retry_ms = None;
                shared.status().build_wanted = false;
                shared.fire(&[Trigger::IndexOpened]);
            }
            Err(why) => {
                // The root is gone, and may come back.
                shared.status().why = Some(why);
                timers.retry_ms = Some(shared.index_host.now_ms().saturating_add(millis(RETRY)));
            }
        },
        OpenOutcome::Absent => shared.fire(&[Trigger::IndexMissing]),
        OpenOutcome::OtherPolicy(why) => {
            shared.fire(&[Trigger::IndexMissing]);
            shared.fire_because(Trigger::PolicyChanged, why);
        }
        OpenOutcome::Damaged(why) => {
            shared.fire_because(Trigger::IntegrityFailure, why);
        }
        OpenOutcome::Unavailable(why) | OpenOutcome::OutOfTime(why) => {
            shared.fire_because(Trigger::LockTimeout, why);
            timers.retry_ms = Some(shared.index_host.now_ms().saturating_add(millis(RETRY)));
        }
    }
}

/// Processes dirty marks of files that have been quiet for some time.
fn drain(shared: &Shared, works: &[Work], timers: &mut Timers) {
    // While the index is in use, each search processes all marks.
    let is_in_use = |status: &Status| {
        let is_awaited = status.reconcile_wanted || status.open_wanted || status.build_wanted;
        status.index_state.allows_exclusion() && !is_awaited
    };
    if let_searches_end(shared, is_in_use) {
        // The next round has the marks that are left.
        return;
    }
    for portion in works.chunks(PORTION) {
        let go_on = || !shared.index_host.host().stopped();
        let (applied, errors) = {
            let Some(tree_state) = shared.tree_state() else {
                return;
            };
            let tree_state = &mut *lock(&tree_state);
            let pool = shared.index_host.pool();
            let applied = pool.install(|| tree_state.apply(shared, portion, &go_on));
            (applied, tree_state.known.errors().len())
        };
        let nowhere = match applied {
            Ok(ApplyOutcome {
                done: true,
                nowhere,
            }) => nowhere,
            Ok(ApplyOutcome { done: false, .. }) => return,
            Err(error) => {
                shared.damaged(&error);
                return;
            }
        };
        let orphaned = shared.orphaned(&nowhere, shared.live_options.watcher_patience);
        let mut status = shared.status();
        status.take_off(portion);
        if let Some(why) = orphaned {
            status.fire_because(Trigger::RenameAmbiguous, why);
        }
        status.news_ms = Some(shared.index_host.now_ms());
        if let Some(why) = status.unwatched.clone() {
            status.tracking = false;
            status.fire_unwatched(why, errors);
            return;
        }
        match (errors, status.lacks_listings()) {
            // The cause of the listing errors is gone.
            (0, true) => status.reconcile_wanted = true,
            (1.., false) => {
                status.fire_unlisted(errors);
                status.reconcile_wanted = false;
                timers.look_again(shared);
            }
            _ => {}
        }
        if status.dirty.is_empty() {
            status.fire(&[Trigger::DirtyDrained]);
        }
    }
}

/// Verifies every page and every number of the index (`index_integrity_check = "periodic"`).
fn check(shared: &Shared) {
    let snapshot = shared.status().published.clone();
    if let Some(Err(error)) = snapshot.map(|snapshot| snapshot.segment().verify()) {
        shared.damaged(&error);
    }
}

/// Checks whether another process has removed the stored index. If so, closes it, because open
/// files keep their disk space. The next search causes it to be opened or built again.
/// `rest_until_ms` limits how often, in case two indexes evict each other. Returns true if it was
/// removed.
fn look(shared: &Shared) -> bool {
    let storage = shared.status().storage();
    if storage == Some(StorageMode::Memory) || shared.index_host.is_kept() {
        return false;
    }
    {
        let mut status = shared.status();
        // A stored index that comes back has to be confirmed first.
        (status.evicted, status.calls) = (true, 0);
        let why = "the stored index was removed, by `index clear` or to make room for others \
             (index_max_indexes, index_max_db_bytes)";
        status.fire_because(Trigger::Evicted, why);
    }
    close(shared);
    shared.notify();
    true
}

/// Releases everything that is held for the tree.
fn close(shared: &Shared) {
    shared.index_host.close();
    *lock(&shared.known) = None;
    shared.unwatch();
    let mut status = shared.status();
    status.tracking = false;
    let moment = status.dirty.now();
    status.clear(moment);
}
