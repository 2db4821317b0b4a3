//! Search of standard input: one text, read line by line as it arrives.
//!
//! A thread reads and searches the input, and sends matching lines to the caller's thread. The
//! caller can thus stop at its deadline while the input is still open.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::exec::answer::collect::{Cuts, Found, Totals};
use crate::exec::answer::outcome::{FileAnswer, FileOutcome, Line};
use crate::exec::engine::embedded::FileSearcher;
use crate::exec::matching::matcher::LineMatcher;
use crate::exec::question::Question;
use crate::exec::question::query::{Query, Report};
use crate::exec::schedule::{Run, Taker};
use crate::exec::stop::{Deadline, Stop, StopReason, SystemClock};
use crate::tool::answering::{Fallback, Summary, Target};
use crate::tool::error::ToolError;
use crate::tool::response::IndexUse;

/// Maximum matching lines in the channel between the threads.
const WAITING_LINES: usize = 1024;

/// A message of the searching thread.
enum SearchMessage {
    Line(Line),
    End(FileOutcome),
}

/// A reader that records whether any input arrived.
struct InputObserver<R> {
    from: R,
    has_input: Arc<AtomicBool>,
}

impl<R: Read> Read for InputObserver<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        if read > 0 {
            self.has_input.store(true, Ordering::Relaxed);
        }
        Ok(read)
    }
}

/// Searches standard input, and hands its lines to `taker` as they are found. A signal ends the
/// process. The flag says whether any input arrived.
///
/// # Errors
///
/// [`ToolError::BadArgs`] for an invalid question.
pub(in crate::tool::cli) fn search(
    question: &Question,
    timeout: Option<Duration>,
    taker: &mut Taker<'_>,
) -> Result<(Summary, bool), ToolError> {
    let wrong = |error: String| ToolError::bad_args(error);
    let query = question.query(question.looked_for.fuzzy);
    let query = Arc::new(query.map_err(|error| wrong(error.to_string()))?);
    let matcher = LineMatcher::of(&query).map_err(|error| wrong(error.to_string()))?;
    let timeout = timeout.unwrap_or(Duration::MAX);
    let deadline = Deadline::after(timeout, Arc::new(SystemClock));
    let stop = Stop::new();
    let (send, receive) = sync_channel(WAITING_LINES);
    let (own, own_stop) = (query.clone(), stop.clone());
    let has_input = Arc::new(AtomicBool::new(false));
    let noted = has_input.clone();
    let started = thread::Builder::new().spawn(move || {
        let mut searcher = FileSearcher::new(own, &matcher, own_stop);
        let mut take = |line: Line| send.send(SearchMessage::Line(line)).is_ok();
        let input = InputObserver {
            from: io::stdin().lock(),
            has_input: noted,
        };
        let outcome = searcher.search_input(input, &mut take);
        // The receiver is gone if the deadline has passed.
        let _ = send.send(SearchMessage::End(outcome));
    });
    started.map_err(|error| {
        let message = format!("no thread could be started: {error}");
        ToolError::failed("forge-search", message)
    })?;
    let mut input = ReceiverState::new(&query);
    let mut timed_out = false;
    loop {
        match receive.recv_timeout(deadline.remaining()) {
            Ok(SearchMessage::Line(line)) => {
                if input.line(line, taker).is_break() {
                    break;
                }
            }
            Ok(SearchMessage::End(outcome)) => {
                // This is the last message.
                let _ = input.end(outcome, taker);
                break;
            }
            Err(RecvTimeoutError::Timeout) => {
                timed_out = true;
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    stop.raise(StopReason::Satisfied);
    let summary = Summary {
        run: Run {
            totals: input.totals,
            cuts: input.cuts,
            timed_out,
            failure: None,
        },
        targets: vec![Target::default()],
        index: IndexUse::not_used(),
        approximate: None,
        fallback: Fallback::default(),
        repeated: Vec::new(),
    };
    Ok((summary, has_input.load(Ordering::Relaxed)))
}

/// The state of the search on the receiving side.
struct ReceiverState<'a> {
    query: &'a Query,
    totals: Totals,
    cuts: Cuts,
}

impl ReceiverState<'_> {
    fn new(query: &Query) -> ReceiverState<'_> {
        ReceiverState {
            query,
            totals: Totals {
                files_scanned: 1,
                ..Totals::default()
            },
            cuts: Cuts::default(),
        }
    }

    fn line(&mut self, line: Line, taker: &mut Taker<'_>) -> ControlFlow<()> {
        // The query reports one line more than the maximum.
        if self.totals.results + 1 >= self.query.max_results_per_file() {
            self.cuts.max_results = true;
            return ControlFlow::Break(());
        }
        self.totals.results += 1;
        self.totals.matched_files |= u64::from(line.is_match());
        let mut outcome = FileOutcome::nothing();
        outcome.matched_lines = u64::from(line.is_match());
        outcome.matches = line.spans.len() as u64;
        outcome.lines.push(line);
        taker(part(outcome))
    }

    fn end(&mut self, mut outcome: FileOutcome, taker: &mut Taker<'_>) -> ControlFlow<()> {
        self.totals.searched_bytes = outcome.searched_bytes;
        self.totals.matched_files |= u64::from(outcome.has_match());
        self.cuts.max_matches_per_file = outcome.gaps.more_matches;
        if matches!(self.query.report, Report::Lines | Report::Matches) {
            // Lines were already handed out and counted one by one.
            (outcome.matched_lines, outcome.matches) = (0, 0);
        } else {
            self.totals.results = usize::from(outcome.has_match());
        }
        if let Some(message) = outcome.error.take() {
            self.totals.errors += 1;
            taker(Found::Error(crate::exec::answer::outcome::FileError {
                target: 0,
                path: PathBuf::new(),
                message,
            }))?;
        }
        taker(part(outcome))
    }
}

/// Converts an outcome to a part of the answer. Standard input has no path.
fn part(outcome: FileOutcome) -> Found {
    Found::File(FileAnswer {
        target: 0,
        path: PathBuf::new(),
        outcome,
    })
}
