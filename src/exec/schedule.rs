//! The ordered scheduler: many workers, one emission order.
//!
//! Every piece of work has a position in emission order: expanding a unit of the source, or searching a run of
//! files. Workers always take the earliest piece, so that the tree is listed only as far as it is searched;
//! what they finish ahead of the emission point waits in a bounded window. The result is therefore the same
//! for any number of threads, and a search whose limit is reached early has touched little more than what it
//! shows. Cost: one ordered-map operation and one lock per piece of work.
//!
//! Nothing is searched on the calling thread, which has to return on time. A search starts with one worker;
//! further ones start when there is work for them, so that an answer from a few small files pays for one
//! thread, and one that needs no file for none.

use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use self::state::{Piece, State, Taken, Task, footprint};
use crate::exec::collect::{Collector, Cuts, Found, Limits, Totals};
use crate::exec::eligible::{EligibleFile, FileSource, Item};
use crate::exec::engine::{Batching, EngineError, Prepared};
use crate::exec::event::{FileError, FileOutcome};
use crate::exec::stop::{CancelHandle, Deadline, Stop, StopReason};

/// Finished but not yet emittable work: at most so many pieces, and so many bytes of events.
const WINDOW_PIECES: usize = 4096;
const WINDOW_BYTES: usize = 8 << 20;

/// Bytes of events after which a worker hands over what it has of a piece.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of an answer that may wait to be taken before workers pause, and those for which the
/// waiting call is woken at once.
const READY_BYTES: usize = 2 << 20;
const WORTH_WAKING: usize = 64 << 10;

/// Pieces of work besides one for each worker that are not worth one more. Measured on two cores: a dozen files
/// of a few KiB are searched by one worker before a second one has started.
const NOT_WORTH_A_WORKER: usize = 1;

/// How often a waiting call looks at its deadline and its cancel handle.
const TICK: Duration = Duration::from_millis(4);

/// How many ticks workers get to hand over what they have once a call must end.
const GRACE_TICKS: u32 = 8;

/// Workers that may be stuck in work nobody waits for any more, before new calls are refused.
const ABANDONED_LIMIT: usize = 64;

/// How many ticks a call waits for such workers when there are too many of them. Most are only finishing the
/// file they were in when a satisfied call returned.
const PATIENCE_TICKS: u32 = 250;

/// Counts the workers that did not notice in time that their call had ended.
#[derive(Clone, Debug, Default)]
pub struct Abandoned(Arc<AtomicUsize>);

impl Abandoned {
    /// Returns how many such workers are still busy.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// What a run needs besides its files and its engine.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Limits of the call.
    pub limits: Limits,
    /// Worker threads, at least 1.
    pub threads: usize,
    /// When the call must return.
    pub deadline: Deadline,
    /// The caller's handle.
    pub cancel: CancelHandle,
    /// Where workers that outlive their call are counted.
    pub abandoned: Abandoned,
}

/// How a run ended, after all parts of its answer were handed out. Where the source has failed, these
/// are the parts before the unit in which it did, unless a limit ended the answer there.
///
/// Apart from `totals.files_excluded` it does not depend on which files the source passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The counts of the answer.
    pub totals: Totals,
    /// The limits that cut it.
    pub cuts: Cuts,
    /// The deadline passed first: the answer is a prefix of the full one.
    pub timed_out: bool,
    /// The engine failed: the answer is a prefix of the full one.
    pub failure: Option<EngineError>,
}

impl Run {
    /// The end of a call whose time was over before the search could start.
    pub fn without_time() -> Run {
        Run {
            totals: Totals::default(),
            cuts: Cuts::default(),
            timed_out: true,
            failure: None,
        }
    }
}

/// Takes the parts of an answer, in emission order and while the search goes on. `Break` ends the
/// search: nobody wants more of it.
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
    /// Signals workers that there may be something to take.
    work: Condvar,
    /// Signals the waiting call that a worker ended or the result is known.
    news: Condvar,
    abandoned: Abandoned,
    is_abandoned: AtomicBool,
}

/// Locks even after a panic elsewhere: the state is only ever changed in consistent steps, and a worker that
/// panicked is reported as a failure of the engine.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `task` on a thread of its own and waits for its value until the deadline passes or the caller cancels;
/// nothing then, and the thread is counted as abandoned until it ends. For work that can't be interrupted.
///
/// # Errors
///
/// [`RunError`], when the caller cancelled or no thread could be started.
pub fn within<T: Send + 'static>(
    options: &RunOptions,
    task: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, RunError> {
    let (send, receive) = mpsc::channel();
    /// Gives the count back however the task ends, a panic included.
    struct Counted(Abandoned);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.0.fetch_sub(1, Ordering::AcqRel);
        }
    }
    options.abandoned.0.fetch_add(1, Ordering::AcqRel);
    let counted = Counted(options.abandoned.clone());
    let started = thread::Builder::new()
        .name("forge-search-compile".to_string())
        .spawn(move || {
            let value = task();
            drop(counted);
            // Nobody waits any more when the deadline has passed.
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
/// the answer is complete, the deadline has passed or the caller cancelled; at the latest some
/// 35 ms after that. Parts wait in a bounded window while `taker` is busy.
///
/// # Errors
///
/// [`RunError`]; failures of the engine are part of the [`Run`].
pub fn run<S: FileSource>(
    source: S,
    prepared: Arc<dyn Prepared>,
    options: &RunOptions,
    taker: &mut Taker<'_>,
) -> Result<Run, RunError> {
    let batching = prepared.batching();
    let mut state = State::new(options.limits, options.threads);
    state.enqueue(&[], source.start(), batching);
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

/// Waits a little while too many workers of earlier calls are still busy.
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

/// Hands out what is ready until the answer is complete or the call must end, then waits a little
/// longer for the workers. `Break` if the taker wants no more.
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
            // There is room again for the work of those who wait.
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
            // The deadline itself is not slept through, and not waited for in a busy loop either.
            TICK.min(options.deadline.remaining().max(Duration::from_micros(500)))
        };
        let (guard, waited) = shared
            .news
            .wait_timeout(state, tick)
            .unwrap_or_else(PoisonError::into_inner);
        state = guard;
        if waited.timed_out() && !shared.stop.is_raised() {
            // What has taken this long is worth more workers.
            let numbers: Vec<usize> = iter::from_fn(|| state.hire_for_any()).collect();
            drop(state);
            for number in numbers {
                // The workers that run will do all of the work.
                let _ = worker::start(shared, number);
            }
            state = lock(&shared.state);
        }
    }
    shared.stop.raise(StopReason::Satisfied);
    shared.work.notify_all();
    flow
}

/// Hands out the rest of what was emitted, and on a forced end what is known up to the first gap.
fn finish<S: FileSource>(
    shared: &Shared<S>,
    flow: ControlFlow<()>,
    taker: &mut Taker<'_>,
) -> Result<Run, RunError> {
    let mut state = lock(&shared.state);
    let reason = shared.stop.reason();
    let satisfied = state.collector.is_closed() || reason == Some(StopReason::Satisfied);
    if state.active > 0 && !state.is_done() {
        // These threads hold nothing that anyone waits for; they end when they next look at the flag.
        shared.is_abandoned.store(true, Ordering::Release);
        shared.abandoned.0.fetch_add(state.active, Ordering::AcqRel);
    }
    if reason == Some(StopReason::Cancelled) {
        return Err(RunError::Cancelled);
    }
    if !satisfied && shared.source.has_failed() {
        // Whoever searches again for the rest takes it up behind a whole file.
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
        // One result more could neither be seen nor ruled out (FR-LS-06a).
        cuts.max_results = true;
    }
    drop(state);
    if flow.is_continue() {
        // Nothing comes after this, so it does not matter whether the taker wants more.
        let _ = ready.try_for_each(taker);
    }
    Ok(Run {
        totals,
        cuts,
        timed_out,
        failure,
    })
}

mod state;
mod worker;

#[cfg(test)]
mod tests;
