//! Who runs a search: a worker process with limits, or a function.
//!
//! Owns the limits of EXEC §8. A worker that needs more time or memory is killed with all that it started, and nothing of what it found is told.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::confine::Confined;
use super::failure::{Fault, Reason};
use super::search::Found;
use super::worker::{Answer, Job, MEMORY, Message, Told};
use crate::exec::exit::Exit;
use crate::exec::process::{Ended, Interruption, Invocation, Until, run};
use crate::exec::stop::{Clock, Deadline, Stop, SystemClock};
use crate::tool::config::ScopeKind;

/// How long a search may take (EXEC §8).
pub const TIME: Duration = Duration::from_secs(30);

/// How long a database that can't be opened at a moment is tried again by default, and how long to wait
/// before that.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// Bytes that an answer may have.
const MOST: usize = 64 << 20;

/// Code points of a worker's last line that are told.
const SAID: usize = 500;

/// What runs searches.
pub trait Host: Send + Sync {
    /// Runs one.
    ///
    /// # Errors
    ///
    /// Why there is no result.
    fn run(&self, job: &Job) -> Result<Done, Fault>;
}

/// What a search has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// What was found.
    pub found: Found,
    /// The most memory that was in use for it, in KiB, if that is known.
    pub peak_kib: Option<u64>,
    /// How the search was confined; nothing where it ran in no process of its own.
    pub confined: Option<Confined>,
}

/// A function: for sources in memory, and for tests. It has no limits.
impl<F: Fn(&Job) -> Result<Done, Reason> + Send + Sync> Host for F {
    fn run(&self, job: &Job) -> Result<Done, Fault> {
        Ok(self(job)?)
    }
}

/// A program that is a worker when it is started with certain arguments.
#[derive(Clone)]
pub struct Worker {
    /// The program. It has to become the worker itself: one that starts another process for it would be taken for a host that has ended.
    pub program: PathBuf,
    /// The arguments that make it call [`main`](super::worker::main).
    pub args: Vec<OsString>,
    /// How long it may take; [`TIME`] at most.
    pub time: Duration,
    /// Bytes of addresses that it may use; [`MEMORY`] at most.
    pub memory: u64,
    /// How long a database that can't be opened at a moment is tried again.
    pub patience: Duration,
    /// What tells the time.
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
    /// Makes one with the limits of the specification.
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

    /// Tells a worker what to do, and waits for its answer.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn ask(&self, told: &Told) -> Result<Answer, Fault> {
        let deadline = Deadline::after(self.time.min(TIME), self.clock.clone());
        self.ask_until(told, &deadline)
    }

    fn ask_until(&self, told: &Told, deadline: &Deadline) -> Result<Answer, Fault> {
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
        let until = Until {
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
        let ended = ended.map_err(|error| Fault::because(Reason::WorkerAbsent, &error))?;
        match (ended.interrupted, ended.exit) {
            (Some(Interruption::Enough), _) => Err(Reason::Output.into()),
            (Some(_), _) => Err(Reason::Time.into()),
            // How it has ended can't be known where children are not waited for (SIGCHLD is ignored). An answer is whole, or it can't be read.
            (None, Some(Exit::Code(0)) | None) => serde_json::from_slice(&output)
                .map_err(|_| Fault::because(reason(&ended), &said(&ended))),
            (None, _) => Err(Fault::because(reason(&ended), &said(&ended))),
        }
    }
}

/// Says how a worker has ended, with the last line of what it said.
fn said(ended: &Ended) -> String {
    let how = match ended.exit {
        Some(exit) => format!("the worker ended with {exit}"),
        None => "the worker ended".to_string(),
    };
    let stderr = String::from_utf8_lossy(&ended.stderr);
    let mut lines = stderr.lines().rev().map(str::trim);
    // What a panic says of itself comes before what could be done to learn more.
    match lines.find(|line| !line.is_empty() && !line.starts_with("note: ")) {
        Some(line) => {
            let line: String = line.chars().take(SAID).collect();
            format!("{how}: {line}")
        }
        None => format!("{how} and said nothing"),
    }
}

/// Says why a worker has ended without an answer.
fn reason(ended: &Ended) -> Reason {
    // What Rust says when memory is refused; it can't go on then.
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
    fn run(&self, job: &Job) -> Result<Done, Fault> {
        let told = Told::Search(job.clone());
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
                    return Ok(Done {
                        found,
                        peak_kib,
                        confined,
                    });
                }
                // Whoever writes a database makes what lies beside it, and takes it away. A worker can open only what was there when it began.
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
