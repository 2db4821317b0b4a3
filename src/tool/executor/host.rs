//! The host of a task runs its search: in a worker process with limits, or as a function.
//!
//! This module owns the limits of EXEC §8. A worker that exceeds its time or memory is killed with
//! all its child processes, and its partial result is dropped. (The host of an index build is
//! another interface, `index::builder`'s.)

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::confine::Confinement;
use super::failure::{ExecutorError, Reason};
use super::search::Found;
use super::worker::{Answer, Job, MEMORY, Message, WorkerRequest};
use crate::exec::external::exit::Exit;
use crate::exec::process::{Interruption, Invocation, RunEnd, StopConditions, run};
use crate::exec::stop::{Clock, Deadline, Stop, SystemClock};
use crate::tool::config::ScopeKind;

/// The time limit of a search (EXEC §8).
pub const TIME: Duration = Duration::from_secs(30);

/// The default time during which a temporarily unreadable database is tried again, and the pause
/// between two tries.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// The longest answer of a worker, in bytes.
const MOST: usize = 64 << 20;

/// The most code points of a worker's last line that are reported.
const SAID: usize = 500;

/// Runs searches for an executor.
pub trait Host: Send + Sync {
    /// Runs one search.
    ///
    /// # Errors
    ///
    /// The reason why there is no result.
    fn run(&self, job: &Job) -> Result<HostResult, ExecutorError>;
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostResult {
    /// The results that were found.
    pub found: Found,
    /// The peak memory of the search in KiB, if known.
    pub peak_kib: Option<u64>,
    /// How the search was confined; absent without a process of its own.
    pub confined: Option<Confinement>,
}

/// A function as a host: for sources in memory, and for tests. It has no limits.
impl<F: Fn(&Job) -> Result<HostResult, Reason> + Send + Sync> Host for F {
    fn run(&self, job: &Job) -> Result<HostResult, ExecutorError> {
        Ok(self(job)?)
    }
}

/// A host that starts a program as a worker.
#[derive(Clone)]
pub struct Worker {
    /// The program. It has to become the worker itself: a child process of it would find that its
    /// parent is not the host.
    pub program: PathBuf,
    /// The arguments that make the program call [`main`](super::worker::main).
    pub args: Vec<OsString>,
    /// The time limit; [`TIME`] at most.
    pub time: Duration,
    /// The limit on the address space in bytes; [`MEMORY`] at most.
    pub memory: u64,
    /// How long a temporarily unreadable database is tried again.
    pub patience: Duration,
    /// The clock of the time limits.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// Builds a host with the limits of the specification.
    pub fn new(program: PathBuf, args: Vec<OsString>) -> Worker {
        Worker {
            program,
            args,
            time: TIME,
            memory: MEMORY,
            patience: PATIENCE,
            clock: Arc::new(SystemClock),
        }
    }

    /// Sends a request to a worker, and waits for its answer.
    ///
    /// # Errors
    ///
    /// The reason why there is no answer.
    pub fn ask(&self, told: &WorkerRequest) -> Result<Answer, ExecutorError> {
        let deadline = Deadline::after(self.time.min(TIME), self.clock.clone());
        self.ask_until(told, &deadline)
    }

    fn ask_until(
        &self,
        told: &WorkerRequest,
        deadline: &Deadline,
    ) -> Result<Answer, ExecutorError> {
        let message = Message {
            host: std::process::id(),
            told: told.clone(),
        };
        let input = serde_json::to_vec(&message).map_err(|_| Reason::WorkerFailed)?;
        let stop = Stop::default();
        let mut output = Vec::new();
        let invocation = Invocation {
            input: Some(&input),
            memory: Some(self.memory.min(MEMORY)),
            ..Invocation::new(&self.program, &self.args)
        };
        let until = StopConditions {
            stop: &stop,
            deadline: Some(deadline),
        };
        let ended = run(invocation, until, &mut |piece| {
            output.extend_from_slice(piece.bytes);
            match output.len() > MOST {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let ended = ended.map_err(|error| ExecutorError::because(Reason::WorkerAbsent, &error))?;
        match (ended.interrupted, ended.exit) {
            (Some(Interruption::Enough), _) => Err(Reason::Output.into()),
            (Some(_), _) => Err(Reason::Time.into()),
            // The exit status is unknown if SIGCHLD is ignored. A truncated answer does not parse.
            (None, Some(Exit::Code(0)) | None) => serde_json::from_slice(&output)
                .map_err(|_| ExecutorError::because(reason(&ended), &describe_end(&ended))),
            (None, _) => Err(ExecutorError::because(
                reason(&ended),
                &describe_end(&ended),
            )),
        }
    }
}

/// Describes how a worker ended, with the last line of its standard error.
fn describe_end(ended: &RunEnd) -> String {
    let how = match ended.exit {
        Some(exit) => format!("the worker ended with {exit}"),
        None => "the worker ended".to_string(),
    };
    let stderr = String::from_utf8_lossy(&ended.stderr);
    let mut lines = stderr.lines().rev().map(str::trim);
    // Skips the notes that follow a panic message.
    match lines.find(|line| !line.is_empty() && !line.starts_with("note: ")) {
        Some(line) => {
            let line: String = line.chars().take(SAID).collect();
            format!("{how}: {line}")
        }
        None => format!("{how} without a message"),
    }
}

/// Returns why a worker ended without an answer.
fn reason(ended: &RunEnd) -> Reason {
    // Rust prints this message when an allocation fails, and aborts.
    let said = b"memory allocation of ";
    let refused = memchr::memmem::find(&ended.stderr, said).is_some();
    match ended.exit {
        _ if refused => Reason::Memory,
        Some(Exit::Signal(signal)) if signal == rustix::process::Signal::XCPU.as_raw() => {
            Reason::Time
        }
        _ => Reason::WorkerFailed,
    }
}

impl Host for Worker {
    fn run(&self, job: &Job) -> Result<HostResult, ExecutorError> {
        let told = WorkerRequest::Search(job.clone());
        let deadline = Deadline::after(self.time.min(TIME), self.clock.clone());
        let patience = Deadline::after(self.patience, self.clock.clone());
        loop {
            match self.ask_until(&told, &deadline)? {
                Answer::Found {
                    found,
                    peak_kib,
                    confined,
                } => {
                    let confined = Some(confined);
                    return Ok(HostResult {
                        found,
                        peak_kib,
                        confined,
                    });
                }
                // A writer creates and removes the files next to a database. A worker can open only
                // files that existed when it was confined, so a new worker tries again.
                Answer::Failed(Reason::ScopeUnreadable)
                    if job.scope.kind == ScopeKind::Sqlite && !patience.remaining().is_zero() =>
                {
                    std::thread::sleep(PAUSE);
                }
                Answer::Failed(reason) => return Err(reason.into()),
                Answer::Tried { .. } => return Err(Reason::WorkerFailed.into()),
            }
        }
    }
}
