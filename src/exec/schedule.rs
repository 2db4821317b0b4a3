//! The ordered scheduler: many workers, one emission order.
//!
//! Every piece of work has a position in emission order. A piece expands a unit of the source, or
//! searches a run of files. A *unit* is a part of the source that is listed on demand, such as a
//! directory. Workers always take the earliest piece, so the tree is listed only as far as it is
//! searched. Pieces that finish ahead of the emission point wait in a bounded window.
//!
//! So the result is the same for any number of threads, and a search that reaches its limit early
//! has read little more than it shows. Cost: one ordered-map operation and one lock for each piece
//! of work.
//!
//! Workers search. The calling thread hands the parts of the answer to the caller, in order, and
//! watches the deadline. A search starts with one worker, and further ones start when there is work
//! for them. So an answer from a few small files pays for one thread, and an answer that needs no
//! file starts no thread.

mod state;
mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::state::{Piece, Position, State, TakenTask, Task};
use crate::exec::answer::collect::{Collector, Cuts, Found, Limits, Totals};
use crate::exec::answer::listed::ListedFiles;
use crate::exec::answer::outcome::{FileError, FileOutcome};
use crate::exec::engine::{Batching, EngineError, Prepared};
use crate::exec::sources::eligible::{EligibleFile, FileSource, Item};
use crate::exec::stop::{CancelHandle, Deadline, Stop, StopReason};
use crate::format::mutex::lock;

/// Limits of the window of finished work that can't be emitted yet: pieces, and bytes of lines.
const WINDOW_PIECES: usize = 4096;
const WINDOW_BYTES: usize = 8 << 20;

/// Bytes of lines after which a worker hands over the finished part of a piece.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of lines with which a worker waits within a file until they can be emitted.
const AHEAD_BYTES: usize = 4 << 20;

/// Bytes of an answer that may wait for the taker before workers pause, and bytes at which the
/// waiting call is woken at once.
const READY_BYTES: usize = 2 << 20;
const WORTH_WAKING: usize = 64 << 10;

/// Queued pieces, beyond one for each worker, that don't justify another worker. Measured on two
/// cores: one worker searches a dozen files of a few KiB before a second one has started.
const NOT_WORTH_A_WORKER: usize = 1;

/// How often a waiting call checks its deadline and its cancel handle.
const TICK: Duration = Duration::from_millis(4);

/// The ticks that workers get to hand over their results once a call must end.
const GRACE_TICKS: u32 = 8;

/// The most abandoned workers before new calls are refused.
const ABANDONED_LIMIT: usize = 64;

/// The ticks that a call waits when there are too many abandoned workers. Most of these only finish
/// the file that they were in when a satisfied call returned.
const PATIENCE_TICKS: u32 = 250;

/// Counts abandoned workers: those that still run although their call has returned.
#[derive(Clone, Debug, Default)]
pub struct AbandonedWorkers(Arc<AtomicUsize>);

impl AbandonedWorkers {
    /// Returns the number of abandoned workers that are still busy.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// The options of a run, besides its files and its engine.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Limits of the call.
    pub limits: Limits,
    /// Worker threads, at least 1.
    pub threads: usize,
    /// The time at which the call must return.
    pub deadline: Deadline,
    /// The handle with which the caller cancels.
    pub cancel: CancelHandle,
    /// The counter of workers that outlive their call.
    pub abandoned: AbandonedWorkers,
}

/// How a run ended, after all parts of its answer were handed out. If the source failed, these
/// parts end before the unit in which it failed, unless a limit ended the answer earlier.
///
/// All fields except `totals.files_excluded` are independent of which files the source skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The counts of the answer.
    pub totals: Totals,
    /// The limits that truncated the answer.
    pub cuts: Cuts,
    /// Whether the deadline passed first. The answer is then a prefix of the full one.
    #[serde(skip)]
    pub timed_out: bool,
    /// The failure of the engine, if any. The answer is then a prefix of the full one.
    #[serde(skip)]
    pub failure: Option<EngineError>,
}

impl Run {
    /// Returns the end of a call that ran out of time before the search could start.
    pub fn without_time() -> Run {
        Run {
            totals: Totals::default(),
            cuts: Cuts::default(),
            timed_out: true,
            failure: None,
        }
    }
}

/// Receives the parts of an answer, in emission order and while the search continues. `Break` ends
/// the search.
pub type Taker<'a> = dyn FnMut(Found) -> ControlFlow<()> + 'a;

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The caller cancelled.
    #[error("the search was cancelled")]
    Cancelled,
    /// Workers could not be started.
    #[error("{0}")]
    NoWorkers(String),
}

struct Shared<S: FileSource> {
    source: S,
    prepared: Arc<dyn Prepared>,
    batching: Batching,
    stop: Stop,
    state: Mutex<State<S::Unit>>,
    /// Signals workers that there may be work to take.
    work: Condvar,
    /// Signals the waiting call that a worker ended or the result is known.
    news: Condvar,
    abandoned: AbandonedWorkers,
    is_abandoned: AtomicBool,
}

/// Runs `task` on its own thread and waits for its value. For work that can't be interrupted.
/// Returns `None` if the deadline passes first. The thread is counted as abandoned until it ends.
///
/// # Errors
///
/// [`RunError`] if the caller cancelled or no thread could be started.
pub fn within<T: Send + 'static>(
    options: &RunOptions,
    task: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, RunError> {
    let (send, receive) = mpsc::channel();
    /// Decrements the count when the task ends, also by a panic.
    struct CountGuard(AbandonedWorkers);
    impl Drop for CountGuard {
        fn drop(&mut self) {
            self.0.0.fetch_sub(1, Ordering::AcqRel);
        }
    }
    options.abandoned.0.fetch_add(1, Ordering::AcqRel);
    let counted = CountGuard(options.abandoned.clone());
    let started = thread::Builder::new()
        .name("forge-search-compile".to_string())
        .spawn(move || {
            let value = task();
            drop(counted);
            // The receiver is gone if the deadline has passed.
            let _ = send.send(value);
        });
    if let Err(error) = started {
        return Err(RunError::NoWorkers(format!(
            "no thread could be started: {error}"
        )));
    }
    loop {
        let remaining = options.deadline.remaining();
        match receive.recv_timeout(TICK.min(remaining)) {
            Ok(value) => return Ok(Some(value)),
            Err(_) if options.cancel.is_cancelled() => return Err(RunError::Cancelled),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(RunError::NoWorkers(
                    "a worker thread ended unexpectedly".to_string(),
                ));
            }
            Err(mpsc::RecvTimeoutError::Timeout) if remaining.is_zero() => return Ok(None),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Runs a search, and hands the parts of its answer to `taker` on the calling thread. Returns when
/// the answer is complete, or at most some 35 ms after the deadline passed or the caller cancelled.
/// Parts wait in a bounded window while `taker` is busy.
///
/// # Errors
///
/// [`RunError`] if the caller cancelled or workers could not be started. Failures of the engine are
/// part of the [`Run`].
pub fn run<S: FileSource>(
    source: S,
    prepared: Arc<dyn Prepared>,
    options: &RunOptions,
    taker: &mut Taker<'_>,
) -> Result<Run, RunError> {
    let batching = prepared.batching();
    let mut state = State::new(options.limits, options.threads);
    state.enqueue(&[], items_for(&*prepared, source.start()), batching);
    state.emit();
    let first = if state.is_decided() {
        None
    } else {
        wait_for_abandoned(options)?;
        state.hire_for_any()
    };
    let shared = Arc::new(Shared {
        source,
        prepared,
        batching,
        stop: Stop::new(),
        state: Mutex::new(state),
        work: Condvar::new(),
        news: Condvar::new(),
        abandoned: options.abandoned.clone(),
        is_abandoned: AtomicBool::new(false),
    });
    if let Some(number) = first {
        worker::start(&shared, number).map_err(|error| {
            RunError::NoWorkers(format!("no worker thread could be started: {error}"))
        })?;
    }
    let flow = wait(&shared, options, taker);
    finish(&shared, flow, taker)
}

/// Returns items in the form that an engine needs.
fn items_for<U>(prepared: &dyn Prepared, items: Vec<Item<U>>) -> Vec<Item<U>> {
    match prepared.lists_all() {
        true => listed(items),
        false => items,
    }
}

/// Turns the files among items into lists.
fn listed<U>(items: Vec<Item<U>>) -> Vec<Item<U>> {
    let mut listed = Vec::new();
    let mut open: Option<ListedFiles> = None;
    for item in items {
        let passed = match &item {
            Item::File(file) => file.passed_before,
            _ => 0,
        };
        let goes_on =
            matches!((&item, &open), (Item::File(file), Some(open)) if open.target == file.target);
        if !goes_on || passed > 0 {
            listed.extend(open.take().map(Item::Listed));
        }
        if passed > 0 {
            listed.push(Item::Passed(passed));
        }
        match item {
            Item::File(file) => {
                let files = open.get_or_insert_with(|| ListedFiles::of_target(file.target));
                files.push(&file.found.dir.logical, Path::new(&file.found.name));
            }
            other => listed.push(other),
        }
    }
    listed.extend(open.map(Item::Listed));
    listed
}

/// Waits a little if too many workers of earlier calls are still busy.
fn wait_for_abandoned(options: &RunOptions) -> Result<(), RunError> {
    let mut patience = PATIENCE_TICKS;
    while options.abandoned.count() >= ABANDONED_LIMIT {
        if options.cancel.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        if patience == 0 || options.deadline.remaining().is_zero() {
            return Err(RunError::NoWorkers(format!(
                "{ABANDONED_LIMIT} workers of earlier searches are still busy; wait for them, or use simpler \
                 expressions and a smaller max_file_size_bytes"
            )));
        }
        patience -= 1;
        thread::sleep(TICK);
    }
    Ok(())
}

/// Hands out parts as they become ready, until the answer is complete or the call must end. Then
/// waits a little longer for the workers. Returns `Break` if the taker wants no more.
fn wait<S: FileSource>(
    shared: &Arc<Shared<S>>,
    options: &RunOptions,
    taker: &mut Taker<'_>,
) -> ControlFlow<()> {
    let mut state = lock(&shared.state);
    let mut grace = GRACE_TICKS;
    let mut flow = ControlFlow::Continue(());
    while state.active > 0 && !state.is_decided() {
        let mut ready = state.collector.take_ready();
        if !ready.is_empty() {
            drop(state);
            // The window has room again, so paused workers can continue.
            shared.work.notify_all();
            flow = ready.try_for_each(&mut *taker);
            if flow.is_break() {
                break;
            }
            state = lock(&shared.state);
            continue;
        }
        if shared.stop.is_raised() {
            if grace == 0 {
                break;
            }
            grace -= 1;
        } else if options.cancel.is_cancelled() {
            shared.stop.raise(StopReason::Cancelled);
            shared.work.notify_all();
        } else if options.deadline.remaining().is_zero() {
            shared.stop.raise(StopReason::TimedOut);
            shared.work.notify_all();
        }
        let tick = if shared.stop.is_raised() {
            TICK
        } else {
            // The wait must not exceed the deadline, and must not become a busy loop just before
            // it.
            TICK.min(options.deadline.remaining().max(Duration::from_micros(500)))
        };
        let (guard, waited) = shared
            .news
            .wait_timeout(state, tick)
            .unwrap_or_else(PoisonError::into_inner);
        state = guard;
        if waited.timed_out() && !shared.stop.is_raised() {
            // A search that takes this long is worth more workers.
            let numbers: Vec<usize> = iter::from_fn(|| state.hire_for_any()).collect();
            drop(state);
            for number in numbers {
                // If no thread can be started, the running workers do all of the work.
                let _ = worker::start(shared, number);
            }
            state = lock(&shared.state);
        }
    }
    shared.stop.raise(StopReason::Satisfied);
    shared.work.notify_all();
    flow
}

/// Hands out the rest of the emitted results. If the call ended early, also the results up to the
/// first gap.
fn finish<S: FileSource>(
    shared: &Shared<S>,
    flow: ControlFlow<()>,
    taker: &mut Taker<'_>,
) -> Result<Run, RunError> {
    let mut state = lock(&shared.state);
    // A worker that looked at the stop flag before it was raised waits by now.
    shared.work.notify_all();
    let reason = shared.stop.reason();
    let satisfied = state.collector.is_closed() || reason == Some(StopReason::Satisfied);
    if state.active > 0 && !state.is_done() {
        // No caller waits for these threads. They end when they next check the stop flag.
        shared.is_abandoned.store(true, Ordering::Release);
        shared.abandoned.0.fetch_add(state.active, Ordering::AcqRel);
    }
    if reason == Some(StopReason::Cancelled) {
        return Err(RunError::Cancelled);
    }
    if !satisfied && shared.source.has_failed() {
        // A repeated search continues after a complete file, so results of an incomplete file are
        // not emitted.
        state.emit();
    } else if !satisfied {
        state.emit_up_to_gap();
    }
    let timed_out = !satisfied && reason == Some(StopReason::TimedOut);
    let failure = if satisfied {
        None
    } else {
        state.failure.take()
    };
    if satisfied {
        state.collector.finish();
    }
    let mut ready = state.collector.take_ready();
    let (totals, mut cuts) = (state.collector.totals, state.collector.cuts);
    if timed_out && !cuts.any() && totals.results > 0 && state.collector.room() == 0 {
        // One more result could neither be found nor ruled out (FR-LS-06a).
        cuts.max_results = true;
    }
    drop(state);
    if flow.is_continue() {
        // These are the last parts, so the taker's answer does not matter.
        let _ = ready.try_for_each(taker);
    }
    Ok(Run {
        totals,
        cuts,
        timed_out,
        failure,
    })
}

#[cfg(test)]
mod tests;
