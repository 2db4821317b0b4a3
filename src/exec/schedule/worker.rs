//! One worker of a search: takes the earliest piece of work, runs it, and returns its outcomes.
//!
//! A worker runs on a thread of its own, which the scheduler starts. This module owns the worker's
//! loop and the completion of a piece. It guarantees that a call learns of the end of a worker,
//! even after a panic. `state.rs` decides which piece comes next. (The interface `Worker` of an
//! engine searches; this worker calls it.)

use std::io;

use super::*;
use crate::exec::engine::Worker;

/// Reports the end of a worker, also after a panic.
struct WorkerEndGuard<'a, S: FileSource>(&'a Shared<S>);

impl<S: FileSource> Drop for WorkerEndGuard<'_, S> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        if thread::panicking() {
            state.failure = Some(EngineError::Failed {
                message: "a search worker ended unexpectedly; please report the request"
                    .to_string(),
                stderr: None,
            });
            self.0.stop.raise(StopReason::Failed);
        }
        state.active -= 1;
        left(self.0, state);
    }
}

/// Notifies all waiting threads that a worker was removed.
fn left<S: FileSource>(shared: &Shared<S>, state: MutexGuard<'_, State<S::Unit>>) {
    if shared.is_abandoned.load(Ordering::Acquire) {
        shared.abandoned.0.fetch_sub(1, Ordering::AcqRel);
    }
    drop(state);
    shared.work.notify_all();
    shared.news.notify_all();
}

/// Starts worker `number`, which the state has counted already. Removes it from the state again if
/// no thread can be created. Takes about as long as searching a few small files.
pub(super) fn start<S: FileSource>(shared: &Arc<Shared<S>>, number: usize) -> io::Result<()> {
    let own = shared.clone();
    let started = thread::Builder::new()
        .name(format!("forge-search-{number}"))
        .spawn(move || work(&own));
    started.map(drop).inspect_err(|_| {
        let mut state = lock(&shared.state);
        state.no_more_workers();
        left(shared, state);
    })
}

/// Runs the loop of one worker.
fn work<S: FileSource>(shared: &Arc<Shared<S>>) {
    let _leaving = WorkerEndGuard(shared);
    let mut worker = shared.prepared.worker(shared.stop.clone());
    lock(&shared.state).started();
    loop {
        let mut state = lock(&shared.state);
        let taken = loop {
            if shared.stop.is_raised() {
                return;
            }
            if let Some(taken) = state.take(shared.batching) {
                break taken;
            }
            if state.is_done() {
                return;
            }
            state.idle += 1;
            state = shared
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        };
        let hired = state.hire_for_much();
        drop(state);
        if let Some(number) = hired {
            // If the new worker can't start, this worker continues alone.
            let _ = start(shared, number);
        }
        match taken {
            TakenTask::Expand(position, unit) => {
                let items = shared.source.expand(unit, &shared.stop);
                let items = items_for(&*shared.prepared, items);
                if shared.source.has_failed() {
                    shared.stop.raise(StopReason::Failed);
                }
                if shared.stop.is_raised() {
                    // The listing may be incomplete, so its position stays a gap.
                    return;
                }
                let mut state = lock(&shared.state);
                state.enqueue(&position, items, shared.batching);
                state.running.remove(&position);
                advance(shared, state, State::emit);
            }
            TakenTask::Search(pieces) => {
                if !search(shared, worker.as_mut(), pieces) {
                    return;
                }
            }
        }
    }
}

/// Searches pieces as one task of the engine. Returns false if the worker should end.
fn search<S: FileSource>(
    shared: &Shared<S>,
    worker: &mut dyn Worker,
    mut pieces: VecDeque<Piece>,
) -> bool {
    if pieces.len() == 1
        && shared.batching.min_files <= 1
        && let Some(piece) = pieces.pop_front()
    {
        return match search_one_by_one(shared, worker, &piece) {
            Ok(going) => going,
            Err(error) => fail(shared, error),
        };
    }
    let files: Arc<Vec<EligibleFile>> = match pieces.front() {
        Some(first) if pieces.len() == 1 => first.files.clone(),
        _ => Arc::new(
            pieces
                .iter()
                .flat_map(|piece| piece.files.iter().cloned())
                .collect(),
        ),
    };
    let mut before = 0;
    let mut whole = true;
    let result = worker.search(&files, &mut |n, outcome| {
        // The engine answers in order. So a piece is done when the first file of the next piece is
        // answered.
        while let Some(piece) = pieces.front() {
            if n < before + piece.files.len() {
                lock(&piece.slot).push((n - before, outcome));
                return;
            }
            before += piece.files.len();
            if let Some(piece) = pieces.pop_front() {
                whole &= complete(shared, piece);
            }
        }
    });
    while result.is_ok()
        && let Some(piece) = pieces.pop_front()
    {
        whole &= complete(shared, piece);
    }
    // A gap that no worker fills would make the call wait until its deadline.
    match result {
        Err(error) => fail(shared, error),
        Ok(()) if !whole && !shared.stop.is_raised() => fail(shared, unanswered()),
        Ok(()) => !shared.stop.is_raised(),
    }
}

/// Returns the error for an engine that skips a file although nothing stopped it.
fn unanswered() -> EngineError {
    EngineError::Failed {
        message: "the search engine reported no result for some files; please report the request"
            .to_string(),
        stderr: None,
    }
}

/// Ends the call with a failure, unless another reason ended it before. Returns false.
fn fail<S: FileSource>(shared: &Shared<S>, error: EngineError) -> bool {
    let mut state = lock(&shared.state);
    if !shared.stop.is_raised() {
        state.failure = Some(error);
        shared.stop.raise(StopReason::Failed);
    }
    false
}

/// Searches the files of one piece. When the lines reach [`PIECE_BYTES`], puts the other files
/// back into the queue, so that the memory of a worker does not grow with the number of files.
fn search_one_by_one<S: FileSource>(
    shared: &Shared<S>,
    worker: &mut dyn Worker,
    piece: &Piece,
) -> Result<bool, EngineError> {
    let Piece {
        position,
        files,
        slot,
    } = piece;
    let mut bytes = 0;
    for (n, file) in files.iter().enumerate() {
        let mut complete = false;
        worker.search(std::slice::from_ref(file), &mut |_, outcome| {
            complete = outcome.complete && !outcome.continues;
            let continues = outcome.continues;
            bytes += outcome.footprint();
            lock(slot).push((n, outcome));
            if continues && emit_part(shared, position, bytes) {
                bytes = 0;
            }
        })?;
        if !complete {
            return if shared.stop.is_raised() {
                Ok(false)
            } else {
                Err(unanswered())
            };
        }
        if n + 1 < files.len() && bytes < PIECE_BYTES {
            continue;
        }
        let mut state = lock(&shared.state);
        state.running.remove(position);
        let outcomes = std::mem::take(&mut *lock(slot));
        if n + 1 == files.len() {
            state.finish(position.clone(), files.clone(), outcomes);
        } else {
            let child = |index: u32| [&position[..], &[index]].concat().into_boxed_slice();
            let done = Arc::new(files[..=n].to_vec());
            state.finish(child(0), done, outcomes);
            state
                .queued
                .insert(child(1), Task::Search(files[n + 1..].to_vec()));
        }
        advance(shared, state, State::emit);
        break;
    }
    Ok(!shared.stop.is_raised())
}

/// Emits the outcomes so far of a piece that is searched, if it is the next to be emitted. Waits
/// for that if `bytes`, the size of these outcomes, is too much to keep. Returns true if they were
/// emitted.
///
/// One worker is always at the gap, because workers take the earliest work. So the waiting ends.
fn emit_part<S: FileSource>(shared: &Shared<S>, position: &Position, bytes: usize) -> bool {
    let mut state = lock(&shared.state);
    while !shared.stop.is_raised() {
        let is_at_gap = state.is_at_gap(position);
        if is_at_gap && state.collector.ready_bytes() < READY_BYTES {
            advance(shared, state, State::emit_up_to_gap);
            return true;
        }
        if !is_at_gap && bytes < AHEAD_BYTES {
            break;
        }
        state.paused += 1;
        state = shared
            .work
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
        state.paused -= 1;
    }
    false
}

/// Moves a searched piece into the window. If an outcome is missing or incomplete, returns false,
/// and the position stays a gap.
fn complete<S: FileSource>(shared: &Shared<S>, piece: Piece) -> bool {
    let mut state = lock(&shared.state);
    {
        let outcomes = lock(&piece.slot);
        let whole = outcomes.len() == piece.files.len() && outcomes.iter().all(|(_, o)| o.complete);
        if !whole {
            return false;
        }
    }
    state.running.remove(&piece.position);
    let outcomes = std::mem::take(&mut *lock(&piece.slot));
    state.finish(piece.position, piece.files, outcomes);
    advance(shared, state, State::emit);
    true
}

/// Emits work with `emit`, and notifies waiting threads.
fn advance<S: FileSource>(
    shared: &Shared<S>,
    mut state: MutexGuard<'_, State<S::Unit>>,
    emit: impl FnOnce(&mut State<S::Unit>),
) {
    let mut has_news = false;
    if shared.stop.reason().is_none() {
        let ready_before = state.collector.ready_bytes();
        emit(&mut state);
        if state.collector.is_closed() {
            shared.stop.raise(StopReason::Satisfied);
        }
        let ready = state.collector.ready_bytes();
        // The first part of an answer is passed on at once, later parts in larger pieces or at the
        // next tick.
        let is_first = ready > 0 && !std::mem::replace(&mut state.has_emitted, ready > 0);
        let is_much = ready_before < WORTH_WAKING && ready >= WORTH_WAKING;
        has_news = state.is_decided() || is_first || is_much;
    }
    let waiting = state.idle > 0 || state.paused > 0;
    // Released first, because a woken thread needs the lock.
    drop(state);
    if has_news {
        shared.news.notify_all();
    }
    if waiting {
        shared.work.notify_all();
    }
}
