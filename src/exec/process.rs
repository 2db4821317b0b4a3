//! Running other programs: this module starts all processes of the library.
//!
//! [`run`] starts a program without a shell or a terminal, in a process group of its own. The
//! program gets no standard input except the bytes that the caller gives. On Unix its environment
//! has only `LC_ALL=C` and the caller's variables. Its output is handed over in pieces as it
//! arrives, and never collected whole. The whole group is killed and reaped before [`run`] returns,
//! for any reason: the caller has enough, the stop flag, a deadline, or a panic.
//!
//! Other programs are started with less distance to this process:
//!
//! - `start_in_background` is for a daemon. It outlives this process, and inherits the environment
//!   variables that the caller accepts.
//! - `on_terminal` is for an editor, which a shell may start. It has the streams, the environment
//!   and the group of this process.
//! - `for_reader` is for the programs of `rg --pre` and `rg -z`. Another library runs them, in the
//!   group of this process.
//! - `reexec_without_open_files` replaces this process by a new run of its own program.
//!
//! This module knows neither the programs nor the meaning of their output. Only `git` below it
//! knows a program.

#[cfg(all(unix, feature = "daemon"))]
pub(crate) mod git;
#[cfg(any(not(unix), test))]
mod portable;
#[cfg(unix)]
mod unix;

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::exec::external::exit::Exit;
use crate::exec::stop::{Deadline, Stop};

#[cfg(not(unix))]
use portable as sys;
#[cfg(unix)]
use unix as sys;

/// The bytes of a program's standard error that are kept. The rest is read and dropped.
pub(crate) const STDERR_LIMIT: usize = 64 << 10;

/// The longest wait between two checks of the stop flag.
const TICK: Duration = Duration::from_millis(3);

/// How long a killed program may take to disappear. After that another thread waits for it. Tests
/// wait longer, because they check how the program ended, also on a busy machine.
const REAP_PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 10_000 } else { 20 });

/// The number of retries while the program's file is open for writing somewhere.
const BUSY_TRIES: u32 = 40;

/// A program and its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invocation<'a> {
    /// The absolute path of the program.
    pub(crate) program: &'a Path,
    /// Its arguments, passed on unchanged.
    pub(crate) args: &'a [OsString],
    /// The bytes of its standard input. If `None`, standard input is empty.
    pub(crate) input: Option<&'a [u8]>,
    /// Environment variables that the program gets.
    pub(crate) environment: &'a [(OsString, OsString)],
    /// The most bytes of address space, where the system can limit it from outside.
    pub(crate) memory: Option<u64>,
}

impl<'a> Invocation<'a> {
    /// Creates an invocation without input, environment and limits.
    pub(crate) fn new(program: &'a Path, args: &'a [OsString]) -> Invocation<'a> {
        Invocation {
            program,
            args,
            input: None,
            environment: &[],
            memory: None,
        }
    }
}

/// The conditions that end a run before the program ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopConditions<'a> {
    /// The stop flag of the call.
    pub(crate) stop: &'a Stop,
    /// A deadline of this run alone.
    pub(crate) deadline: Option<&'a Deadline>,
}

impl StopConditions<'_> {
    fn reached(&self) -> Option<Interruption> {
        if self.stop.is_raised() {
            return Some(Interruption::Stopped);
        }
        if self
            .deadline
            .is_some_and(|deadline| deadline.remaining().is_zero())
        {
            return Some(Interruption::TimedOut);
        }
        None
    }
}

/// Why this process ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The stop flag was raised.
    Stopped,
    /// The run's own deadline passed.
    TimedOut,
    /// The caller wanted no more output.
    Enough,
}

/// A piece of a program's standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    /// The bytes of the piece.
    pub(crate) bytes: &'a [u8],
}

/// The end of a run.
#[derive(Debug)]
pub(crate) struct RunEnd {
    /// How the program ended. `None` if that is not known yet after an interruption.
    pub(crate) exit: Option<Exit>,
    /// Its standard error, up to [`STDERR_LIMIT`] bytes.
    pub(crate) stderr: Vec<u8>,
    /// Whether the program wrote more than that.
    pub(crate) stderr_cut: bool,
    /// Why this process ended the program, if it did.
    pub(crate) interrupted: Option<Interruption>,
}

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The program could not be started.
    #[error("{} could not be started: {source}", program.display())]
    Spawn {
        /// The path of the program.
        program: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The output of the program could not be read.
    #[error("the output of {} could not be read: {source}", program.display())]
    Read {
        /// The path of the program.
        program: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl RunError {
    /// Returns true if the arguments were longer than the system allows.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self, RunError::Spawn { source, .. }
            if source.kind() == io::ErrorKind::ArgumentListTooLong)
    }
}

/// Runs a program until it ends or is interrupted, and hands its standard output to `take`.
///
/// Costs one thread switch for each piece of up to 64 KiB. Returns within some milliseconds of an
/// interruption, even if the program does not react, unless `take` itself does not return.
///
/// # Errors
///
/// [`RunError`] if the program can't be started or its output can't be read. A program that fails
/// is not an error here: [`RunEnd`] tells how it ended.
pub(crate) fn run(
    invocation: Invocation<'_>,
    until: StopConditions<'_>,
    take: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
) -> Result<RunEnd, RunError> {
    let spawn_error = |source| RunError::Spawn {
        program: invocation.program.to_path_buf(),
        source,
    };
    let mut group = spawn(invocation, until).map_err(spawn_error)?;
    let Some(pipes) = group.pipes() else {
        return Err(spawn_error(io::Error::other("it has no output pipes")));
    };
    let mut complaints = StderrBuffer::default();
    let interrupted =
        sys::pump(&mut group, pipes, until, &mut complaints, take).map_err(|source| {
            RunError::Read {
                program: invocation.program.to_path_buf(),
                source,
            }
        })?;
    Ok(RunEnd {
        exit: group.end().map(exit_of),
        stderr: complaints.kept,
        stderr_cut: complaints.cut,
        interrupted,
    })
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), sys::signal(status)) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}

/// The start of a program that continues in the background.
#[cfg(all(unix, feature = "cli"))]
#[derive(Debug)]
pub(crate) struct BackgroundStart {
    /// Its standard error until the program closed it, up to [`STDERR_LIMIT`] bytes.
    pub(crate) stderr: Vec<u8>,
    /// How the program ended, if it did.
    pub(crate) exit: Option<Exit>,
}

/// Starts a program that outlives this process, and waits until it is ready or ends. The program
/// signals that it is ready by closing its standard error. Returns `None` if neither happens within
/// `patience`; the program continues then.
///
/// The program inherits the environment variables that `inherits` accepts. It inherits neither the
/// terminal nor open files.
///
/// # Errors
///
/// [`RunError`] if the program can't be started. A program that ends at once is not an error here:
/// [`BackgroundStart`] tells how it ended.
#[cfg(all(unix, feature = "cli"))]
pub(crate) fn start_in_background(
    invocation: Invocation<'_>,
    inherits: impl Fn(&str) -> bool,
    environment: &[(&str, &str)],
    patience: Duration,
) -> Result<Option<BackgroundStart>, RunError> {
    // Open files of this process, such as a pipe that somebody reads to its end or a lock, must not
    // stay open in the other one.
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
    // This module is the one place that starts programs.
    #[allow(clippy::disallowed_methods)]
    let mut command = Command::new(invocation.program);
    command
        .args(invocation.args)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(&inherits)))
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| RunError::Spawn {
        program: invocation.program.to_path_buf(),
        source,
    })?;
    let (tell, told) = std::sync::mpsc::channel();
    if let Some(mut pipe) = child.stderr.take() {
        thread::spawn(move || {
            use std::io::Read;
            let mut kept = Vec::new();
            // A pipe that can't be read counts as closed.
            let _ = (&mut pipe).take(STDERR_LIMIT as u64).read_to_end(&mut kept);
            let _ = io::copy(&mut pipe, &mut io::sink());
            let _ = tell.send(kept);
        });
    }
    let Ok(stderr) = told.recv_timeout(patience) else {
        return Ok(None);
    };
    // A program that ends closes its standard error a moment before it can be reaped.
    let mut exit = None;
    for _ in 0..BUSY_TRIES {
        if let Ok(Some(status)) = child.try_wait() {
            exit = Some(exit_of(status));
            break;
        }
        if stderr.is_empty() {
            break;
        }
        thread::sleep(TICK);
    }
    Ok(Some(BackgroundStart { stderr, exit }))
}

/// Runs an interactive program, such as an editor, with this process's own streams and environment.
/// Waits until it ends.
///
/// # Errors
///
/// [`RunError`] if the program can't be started.
#[cfg(all(unix, feature = "cli"))]
pub(crate) fn on_terminal(invocation: Invocation<'_>) -> Result<Exit, RunError> {
    // This module is the one place that starts programs.
    #[allow(clippy::disallowed_methods)]
    let mut command = Command::new(invocation.program);
    let ended = command.args(invocation.args).status();
    ended.map(exit_of).map_err(|source| RunError::Spawn {
        program: invocation.program.to_path_buf(),
        source,
    })
}

/// Prepares a program whose output another library reads. The program is in the process group of
/// this process, so that a terminal's signals reach both. If `input` is given, it is the program's
/// argument and its standard input.
///
/// # Errors
///
/// The error of the system if `input` can't be opened.
#[cfg(feature = "cli")]
pub(crate) fn for_reader(program: &Path, input: Option<&Path>) -> io::Result<Command> {
    // This module is the one place that starts programs.
    #[allow(clippy::disallowed_methods)]
    let mut command = Command::new(program);
    match input {
        Some(input) => command.arg(input).stdin(std::fs::File::open(input)?),
        None => command.stdin(Stdio::null()),
    };
    Ok(command)
}

/// Replaces this process by a new run of the same program, with the same arguments and no open
/// files except the standard streams. Returns `Ok` if this has happened already: the new run has
/// the environment variable `done`.
///
/// # Errors
///
/// The error of the system if the program can't be started again.
#[cfg(all(unix, feature = "executor"))]
// The new run gets the arguments and the environment of this one.
#[allow(clippy::disallowed_methods)]
pub(crate) fn reexec_without_open_files(done: &str) -> io::Result<()> {
    use std::os::unix::process::CommandExt;
    if std::env::var_os(done).is_some() {
        return Ok(());
    }
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    let mut command = Command::new(std::env::current_exe()?);
    Err(command.arg0(name).args(args).env(done, "1").exec())
}

fn spawn(invocation: Invocation<'_>, until: StopConditions<'_>) -> io::Result<Group> {
    // This module is the one place that starts programs.
    #[allow(clippy::disallowed_methods)]
    let mut command = Command::new(invocation.program);
    command
        .args(invocation.args)
        .stdin(match invocation.input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    sys::isolate(&mut command);
    command.env("LC_ALL", "C").envs(
        invocation
            .environment
            .iter()
            .map(|(name, value)| (name, value)),
    );
    let mut tries = 0;
    loop {
        match command.spawn() {
            Ok(mut child) => {
                let input = child.stdin.take().zip(invocation.input);
                let group = Group {
                    child: Some(child),
                    status: None,
                };
                if let Some((child, memory)) = group.child.as_ref().zip(invocation.memory) {
                    sys::limit(child, memory)?;
                }
                if let Some((mut pipe, input)) = input {
                    let input = input.to_vec();
                    // This thread ends with the program at the latest: then the pipe has no reader.
                    thread::Builder::new().spawn(move || {
                        use std::io::Write;
                        let _ = pipe.write_all(&input);
                    })?;
                }
                return Ok(group);
            }
            // Another process has the program's file open for writing, for example during an
            // upgrade.
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy
                    && tries < BUSY_TRIES
                    && until.reached().is_none() =>
            {
                tries += 1;
                thread::sleep(TICK);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Environment variables that change how search programs behave. They are removed where the
/// environment can't be emptied.
#[cfg_attr(unix, allow(dead_code))]
pub(crate) const UNWANTED_ENVIRONMENT: [&str; 6] = [
    "RIPGREP_CONFIG_PATH",
    "GREP_OPTIONS",
    "GREP_COLOR",
    "GREP_COLORS",
    "GREP_EDIT",
    "GREP_PATH",
];

struct Pipes {
    stdout: ChildStdout,
    stderr: ChildStderr,
}

/// The standard error of a program.
#[derive(Debug, Default)]
struct StderrBuffer {
    kept: Vec<u8>,
    cut: bool,
}

impl StderrBuffer {
    fn add(&mut self, bytes: &[u8]) {
        let room = STDERR_LIMIT - self.kept.len();
        self.cut |= bytes.len() > room;
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// A running program and every process that it started. Dropping the group kills it and reaps the
/// program.
#[derive(Debug)]
struct Group {
    /// `None` once the program is reaped: another process may have its number then.
    child: Option<Child>,
    /// How the program ended, once it is reaped.
    status: Option<ExitStatus>,
}

impl Group {
    fn pipes(&mut self) -> Option<Pipes> {
        let child = self.child.as_mut()?;
        Some(Pipes {
            stdout: child.stdout.take()?,
            stderr: child.stderr.take()?,
        })
    }

    /// Kills the rest of the group, without waiting.
    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            sys::kill(child);
        }
    }

    /// Kills the rest of the group and reaps the program. Returns `None` if the program hangs in
    /// the kernel and does not disappear in time. A background thread reaps it then.
    fn end(&mut self) -> Option<ExitStatus> {
        self.kill();
        let Some(mut child) = self.child.take() else {
            return self.status;
        };
        let mut pause = Duration::from_micros(50);
        let mut waited = Duration::ZERO;
        while waited < REAP_PATIENCE {
            match child.try_wait() {
                Ok(Some(status)) => {
                    self.status = Some(status);
                    return self.status;
                }
                Ok(None) => {
                    thread::sleep(pause);
                    waited += pause;
                    pause = (pause * 2).min(TICK);
                }
                // No other thread waits for this child, so there is no status to wait for.
                Err(_) => return None,
            }
        }
        // If the thread can't start, the program stays a zombie until this process ends.
        let _ = thread::Builder::new()
            .name("forge-search-reap".to_string())
            .spawn(move || child.wait());
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Collects arguments into a list.
pub(crate) fn arguments<I>(args: I) -> Vec<OsString>
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    args.into_iter()
        .map(|arg| arg.as_ref().to_os_string())
        .collect()
}

#[cfg(all(test, unix))]
pub(crate) mod tests;
