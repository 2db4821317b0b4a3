//! The worker: the one thread on which an index is opened, built, reconciled and brought up to date.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::apply::PORTION;
use super::ear::Listener;
use super::status::Status;
use super::{Opened, Shared, Tracked, Watching, lock, tokenize};
use crate::format::error::{FormatError, FormatErrorKind};
use crate::index::builder::BuildError;
use crate::index::dirty::{DirtySet, Work};
use crate::index::enumerate::Survey;
use crate::index::inputs::Inputs;
use crate::index::refresh::{Cursor, Entered, Known, Refresh};
use crate::index::snapshot::Snapshot;
use crate::index::stamp::Stamp;
use crate::index::state::{SafetyState, Standing, Trigger, UncertainReason};
use crate::index::watch::Barrier;

/// How long something that may pass is waited for before it is tried again: a lock, or a watch that could not be had.
const RETRY: Duration = Duration::from_secs(2);

/// How long rules are left to settle before the tree is listed by them.
const RULES_SETTLE: Duration = Duration::from_millis(60);

/// The same for what failed and hardly passes by itself.
const LATER: Duration = Duration::from_secs(60);

/// A new segment is built when one in so many files is not as the segment has them, or when their n-grams take this share of
/// the memory that an index may have.
const MERGE_SHARE: usize = 8;

/// The worker looks around at least this often.
const LONGEST_WAIT_MS: u64 = 60_000;

/// Marks that are worked off by the worker before it looks at what else there is.
const ROUND: usize = 8 * PORTION;

/// Something to be done.
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
}

/// When what is to be done next that nobody asks for.
struct Timers {
    reconcile_ms: u64,
    retry_ms: Option<u64>,
    read_ms: Option<u64>,
    /// Not before this, after one that failed.
    merge_ms: Option<u64>,
}

/// Runs until it is told to end.
pub(super) fn run(shared: &Arc<Shared>) {
    let _ends = Ends(shared);
    let every = millis(shared.habits.reconcile_every);
    let mut timers = Timers {
        reconcile_ms: shared.ground.now_ms().saturating_add(every),
        retry_ms: None,
        read_ms: None,
        merge_ms: None,
    };
    loop {
        match next(shared, &mut timers) {
            Task::End => return,
            Task::Open => open(shared, &mut timers),
            Task::Measure => measure(shared),
            Task::Build => build(shared, &mut timers),
            Task::Reconcile => {
                // Where the tree can't be watched, that is tried again earlier.
                timers.reconcile_ms = u64::MAX;
                reconcile(shared, &mut timers);
                let next_ms = shared.ground.now_ms().saturating_add(every);
                timers.reconcile_ms = timers.reconcile_ms.min(next_ms);
            }
            Task::Drain(works) => drain(shared, &works),
            Task::Read => timers.read_ms = tokenize::read_some(shared),
            Task::Merge => merge(shared, &mut timers),
            Task::Check => check(shared),
        }
    }
}

/// Says that the worker has ended, however it did.
struct Ends<'a>(&'a Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let mut status = self.0.status();
        status.ended = true;
        // Nobody keeps up with the tree any more.
        status.tracking = false;
        drop(status);
        self.0.settled.notify_all();
    }
}

/// Waits for something to do.
fn next(shared: &Shared, timers: &mut Timers) -> Task {
    let mut status = shared.status();
    loop {
        let now_ms = shared.ground.now_ms();
        let task = due(shared, &mut status, timers, now_ms);
        status.busy = task.is_some();
        if let Some(task) = task {
            return task;
        }
        shared.settled.notify_all();
        let debounce_ms = millis(shared.habits.debounce).max(1);
        // What is not done in this state is not waited for either.
        let drains = status.tracking && !status.dirty.is_empty();
        let reads = status.tracking && status.standing == Standing::Complete;
        let quiet = status
            .news_ms
            .map(|news_ms| news_ms.saturating_add(debounce_ms));
        let at = [
            (shared.habits.watch && status.published.is_some()).then_some(timers.reconcile_ms),
            timers.retry_ms,
            timers.read_ms.filter(|_| reads),
            quiet.filter(|_| reads),
            drains.then_some(now_ms.saturating_add(debounce_ms)),
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

/// Returns what is to be done first of what is due.
fn due(shared: &Shared, status: &mut Status, timers: &mut Timers, now_ms: u64) -> Option<Task> {
    if status.stop {
        return Some(Task::End);
    }
    if timers.retry_ms.is_some_and(|at| at <= now_ms) {
        timers.retry_ms = None;
        status.open_wanted = true;
    }
    if std::mem::take(&mut status.open_wanted) {
        return Some(Task::Open);
    }
    let thresholds = shared.habits.thresholds;
    if thresholds.is_some_and(|of| status.calls >= of.reeval_calls) {
        status.calls = 0;
        if status.standing.state() == SafetyState::Disabled {
            return Some(Task::Measure);
        }
    }
    if status.build_wanted && timers.retry_ms.is_none() {
        status.build_wanted = false;
        return Some(Task::Build);
    }
    status.published.as_ref()?;
    let calls = shared.habits.check_calls;
    if calls.is_some_and(|calls| status.unchecked_calls >= calls) {
        status.unchecked_calls = 0;
        return Some(Task::Check);
    }
    if timers.reconcile_ms <= now_ms {
        status.reconcile_wanted = true;
    }
    if shared.habits.watch && std::mem::take(&mut status.reconcile_wanted) {
        return Some(Task::Reconcile);
    }
    if !status.tracking {
        return None;
    }
    let debounce = match status.standing {
        Standing::Complete => shared.habits.debounce,
        _ => Duration::ZERO,
    };
    let works = status.dirty.ready(ROUND, now_ms, debounce);
    if !works.is_empty() {
        return Some(Task::Drain(works));
    }
    if status.standing == Standing::Uncertain(UncertainReason::DirtyBacklog)
        && status.dirty.is_empty()
    {
        // Others were faster.
        status.fire(&[Trigger::DirtyDrained]);
        shared.settled.notify_all();
    }
    let quiet = |news_ms: u64| news_ms.saturating_add(millis(shared.habits.debounce)) <= now_ms;
    let again = timers.read_ms.is_some_and(|at| at <= now_ms);
    if status.standing == Standing::Complete && (status.news_ms.is_some_and(quiet) || again) {
        status.news_ms = None;
        timers.read_ms = None;
        return match timers.merge_ms.is_none_or(|at| at <= now_ms) && is_spread_out(shared, status)
        {
            true => Some(Task::Merge),
            false => Some(Task::Read),
        };
    }
    None
}

/// Returns true if so much differs from the segment that a new one is worth its price: each search pays for what is beside the
/// segment.
fn is_spread_out(shared: &Shared, status: &Status) -> bool {
    let Some(snapshot) = &status.published else {
        return false;
    };
    let (overlay, files) = (snapshot.overlay(), snapshot.segment().file_count() as usize);
    let most = (files / MERGE_SHARE).max(shared.habits.merge_files);
    overlay.extras().len() > most
        || overlay.dead_count() as usize > most
        || overlay.footprint() > shared.ground.options().max_memory_bytes / MERGE_SHARE as u64
}

/// Builds a new segment of the tree as it is, while searches go on with what there is (decision D53). What is marked meanwhile is marked
/// again when the new one takes over.
fn merge(shared: &Shared, timers: &mut Timers) {
    let Some(watching) = shared.watching() else {
        return;
    };
    let (losses, earlier) = {
        let mut status = shared.status();
        status.since_build = Some(DirtySet::new());
        (status.losses, status.published.clone())
    };
    let enter = |dir: &Path| shared.enter(Some(&watching), dir);
    let ground = &shared.ground;
    let earlier = earlier.as_ref().map(|snapshot| &**snapshot.segment());
    let built = ground.pool().install(|| ground.build(&enter, earlier));
    let built = built.map_err(|error| match error {
        BuildError::Format(error) if error.is_corrupt() => damaged(shared, &error),
        error => {
            timers.merge_ms = Some(ground.now_ms().saturating_add(millis(LATER)));
            if matches!(error, BuildError::OverMemory { .. }) {
                shared.fire(&[Trigger::MemoryExceeded]);
            }
            shared.status().why = Some(error.to_string());
        }
    });
    let new = built.and_then(|(built, snapshot)| {
        let mut new = tracked_of(shared, &snapshot).map_err(|_| ())?;
        new.known.set_errors(built.errors.into_iter());
        Ok(new)
    });
    let Ok(new) = new else {
        shared.status().since_build = None;
        return;
    };
    timers.merge_ms = None;
    // All at once. Whoever works marks off has the lock on what is known: what was worked off on the old one until now, and
    // what is on its way, is marked again; and a search that pins notices that it has to begin anew.
    let mut tracked = lock(&shared.known);
    let mut status = shared.status();
    let now_ms = ground.now_ms();
    let since = status.since_build.take();
    for (path, extent) in since.iter().flat_map(DirtySet::iter) {
        status.dirty.mark(path, extent, now_ms);
    }
    if status.published.is_some() {
        status.published = Some(new.snapshot.clone());
    }
    status.swaps += 1;
    *tracked = Some(new);
    // What was lost meanwhile may be missing in the new one too.
    status.reconcile_wanted |= status.losses != losses;
    status.news_ms = Some(now_ms);
}

/// Opens what is kept (FR-LSI-BG-50, FR-LSI-BG-52).
fn open(shared: &Shared, timers: &mut Timers) {
    match shared.ground.open() {
        Opened::Open(snapshot) => match take_over(shared, snapshot) {
            Ok(()) => shared.fire(&[Trigger::IndexOpened]),
            Err(why) => shared.status().why = Some(why),
        },
        Opened::Absent => shared.fire(&[Trigger::IndexMissing]),
        Opened::Damaged(why) => {
            shared.fire(&[Trigger::IntegrityFailure]);
            shared.status().why = Some(why);
        }
        Opened::Unavailable(why) => {
            shared.fire(&[Trigger::LockTimeout]);
            shared.status().why = Some(why);
            timers.retry_ms = Some(shared.ground.now_ms().saturating_add(millis(RETRY)));
        }
    }
}

/// Puts a snapshot into use that nothing is known about beside it.
fn take_over(shared: &Shared, snapshot: Arc<Snapshot>) -> Result<(), String> {
    let new = tracked_of(shared, &snapshot)?;
    let mut tracked = lock(&shared.known);
    let mut status = shared.status();
    status.published = Some(snapshot);
    status.swaps += 1;
    *tracked = Some(new);
    Ok(())
}

/// Begins to follow the tree from the state of a snapshot.
fn tracked_of(shared: &Shared, snapshot: &Arc<Snapshot>) -> Result<Tracked, String> {
    Ok(Tracked {
        known: Known::new(snapshot.segment(), Inputs::clone(snapshot.inputs())),
        entered: Entered::default(),
        // If the rules above have changed since, the inputs of the snapshot say so.
        walk: shared.ground.walk()?,
        inputs_above: Inputs::default(),
        snapshot: snapshot.clone(),
    })
}

/// Finds out whether the tree is large enough for an index (FR-LSI-BG-05, FR-LSI-BG-06).
fn measure(shared: &Shared) {
    if !is_small(shared) {
        shared.fire(&[Trigger::AboveThreshold]);
    }
}

/// Returns true if the tree is below both thresholds. Ends as soon as it is not.
fn is_small(shared: &Shared) -> bool {
    let Some(thresholds) = shared.habits.thresholds else {
        return false;
    };
    // Without a walk there is nothing to build either, which a build says.
    let Ok(walk) = shared.ground.walk() else {
        return false;
    };
    let mut stack = vec![walk.start()];
    let (mut files, mut bytes) = (0u64, 0u64);
    while let Some(node) = stack.pop() {
        let survey = Survey::of(&walk, &node);
        files += survey.files.len() as u64;
        let stamps = survey.files.iter().filter_map(|(_, stamp)| *stamp);
        bytes = stamps.map(Stamp::len).fold(bytes, u64::saturating_add);
        if files > thresholds.files || bytes > thresholds.bytes {
            return false;
        }
        if shared.status().stop {
            return true;
        }
        stack.extend(survey.dirs);
    }
    true
}

/// Builds the index.
fn build(shared: &Shared, timers: &mut Timers) {
    let (is_first, standing) = {
        let status = shared.status();
        (status.published.is_none(), status.standing)
    };
    if standing == Standing::Absent && is_small(shared) {
        shared.fire(&[Trigger::BelowThreshold]);
        shared.status().why = Some(
            "the tree is below index_auto_threshold_files and index_auto_threshold_bytes, and is searched without an index"
                .to_string(),
        );
        return;
    }
    // From before the tree is listed (FR-LSI-BG-60).
    let watching = watch(shared);
    let (moment, losses) = {
        let mut status = shared.status();
        status.reconcile_wanted = false;
        (status.dirty.now(), status.losses)
    };
    shared.fire(&[Trigger::BuildStarted]);
    let enter = |dir: &Path| shared.enter(watching.as_ref(), dir);
    let ground = &shared.ground;
    let built = ground.pool().install(|| ground.build(&enter, None));
    match built {
        Ok((built, snapshot)) => {
            let mut errors = Vec::new();
            errors.extend(built.errors);
            if let Err(why) = take_over(shared, snapshot) {
                shared.fire(&[Trigger::BuildFailedClean]);
                shared.status().why = Some(why);
                return;
            }
            if let Some(tracked) = lock(&shared.known).as_mut() {
                tracked.known.set_errors(errors.iter().cloned());
            }
            let mut status = shared.status();
            status.clear(moment);
            status.tracking = watching.is_some() && status.unwatched.is_none();
            // If coverage was lost meanwhile, the state says so, and a reconcile follows.
            let mut triggers = vec![Trigger::BuildCompleted];
            if !errors.is_empty() {
                triggers = vec![Trigger::EnumerationErrors];
            }
            status.fire(&triggers);
            // Nothing has changed since that listing would find; marks and time say when to look again.
            if status.losses != losses && !errors.is_empty() {
                status.reconcile_wanted = false;
            }
            if !status.tracking {
                status.reconcile_wanted = false;
            }
            let unwatched = status.unwatched.clone();
            if let Some(why) = &unwatched {
                // It is complete, but nobody hears of what changes from now on.
                status.fire(&[Trigger::WatcherDown]);
                status.reconcile_wanted = false;
                status.why = Some(why.clone());
            }
            status.news_ms = Some(shared.ground.now_ms());
            drop(status);
            if unwatched.is_some() {
                timers.reconcile_ms = shared.ground.now_ms().saturating_add(millis(LATER));
                // Watches that prove nothing are others' to use.
                *lock(&shared.watching) = None;
            }
        }
        Err(error) => failed(shared, timers, &error, is_first),
    }
    shared.wake.notify_all();
}

/// Notes that a build came to nothing.
fn failed(shared: &Shared, timers: &mut Timers, error: &BuildError, is_first: bool) {
    let now_ms = shared.ground.now_ms();
    let again = |time: Duration| Some(now_ms.saturating_add(millis(time)));
    match error {
        BuildError::Stopped => shared.fire(&[Trigger::BuildFailedClean]),
        BuildError::BudgetExceeded(_) => shared.fire(&[Trigger::BuildBudgetExceeded]),
        BuildError::OverMemory { .. } => shared.fire(&[Trigger::MemoryExceeded]),
        // Another process builds it: what that publishes is opened.
        BuildError::Format(error) if matches!(error.kind(), FormatErrorKind::Locked { .. }) => {
            shared.fire(&[Trigger::BuildFailedClean]);
            timers.retry_ms = again(RETRY);
        }
        // Publishing is one rename: whatever failed, what was there before is still there.
        _ => {
            shared.fire(&[Trigger::BuildFailedClean]);
            if shared.habits.retry || !is_first {
                timers.retry_ms = again(LATER);
            }
        }
    }
    let mut status = shared.status();
    status.why = Some(error.to_string());
    status.build_wanted = false;
    if status.published.is_none() {
        // Whatever was lost meanwhile: there is nothing to compare with the tree.
        status.reconcile_wanted = false;
    }
}

/// Returns what watches the tree, started if need be.
fn watch(shared: &Shared) -> Option<Watching> {
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
fn reconcile(shared: &Shared, timers: &mut Timers) {
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
                shared.status().why = Some(why);
                return;
            }
        }
        tracked.entered.clear();
        Cursor::whole(&tracked.walk)
    };
    while !cursor.is_done() {
        if let Err(error) = slice(shared, watching.as_ref(), &mut cursor) {
            damaged(shared, &error);
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
            status.fire(&[Trigger::WatcherDown]);
            status.why = Some(why);
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

/// Works off what is marked and has been quiet for some time.
fn drain(shared: &Shared, works: &[Work]) {
    for portion in works.chunks(PORTION) {
        let go_on = || !shared.ground.host().stopped();
        let (applied, errors) = {
            let mut tracked = lock(&shared.known);
            let Some(tracked) = tracked.as_mut() else {
                return;
            };
            let pool = shared.ground.pool();
            let applied = pool.install(|| tracked.apply(shared, portion, &go_on));
            (applied, tracked.known.errors().len())
        };
        let mut status = shared.status();
        match applied {
            Ok(true) => {
                for work in portion {
                    status.dirty.done(work);
                }
            }
            Ok(false) => return,
            Err(error) => {
                drop(status);
                damaged(shared, &error);
                return;
            }
        }
        status.news_ms = Some(shared.ground.now_ms());
        if status.unwatched.is_some() {
            status.tracking = false;
            status.fire(&[Trigger::WatcherDown]);
            status.why = status.unwatched.clone();
            return;
        }
        let enumeration = Standing::Uncertain(UncertainReason::EnumerationError);
        match (errors, status.standing == enumeration) {
            // What hid files is gone.
            (0, true) => status.reconcile_wanted = true,
            (1.., false) => {
                status.fire(&[Trigger::EnumerationErrors]);
                status.reconcile_wanted = false;
                status.why = Some(unlisted(errors));
            }
            _ => {}
        }
        if status.dirty.is_empty() {
            status.fire(&[Trigger::DirtyDrained]);
        }
    }
}

/// Checks every page and every number of the index (`index_integrity_check = "periodic"`).
fn check(shared: &Shared) {
    let snapshot = shared.status().published.clone();
    if let Some(Err(error)) = snapshot.map(|snapshot| snapshot.segment().verify()) {
        damaged(shared, &error);
    }
}

/// Says that something could not be listed.
fn unlisted(errors: usize) -> String {
    format!(
        "{errors} files or directories could not be listed, and more may be hidden behind them; make them readable, or \
         deny them"
    )
}

/// Takes a damaged index out of use.
fn damaged(shared: &Shared, error: &FormatError) {
    shared.fire(&[Trigger::IntegrityFailure]);
    shared.status().why = Some(error.to_string());
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
