//! Running other programs: the one place that starts a process.
//!
//! Owns spawning without a shell, the program's environment, its process group, its pipes and its end. A
//! program gets no standard input but what the caller gives it, nothing through the environment but that either, and a process group of its
//! own; its output is handed over in pieces as it arrives and never collected whole. Whatever happens, the
//! caller giving up, the stop flag, a deadline, a panic, the whole group is killed and reaped before
//! the call returns. It must not know which programs there are or what their output means.

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

use crate::exec::exit::Exit;
use crate::exec::stop::{Deadline, Stop};

#[cfg(not(unix))]
use portable as sys;
#[cfg(unix)]
use unix as sys;

/// What is kept of a program's standard error, in bytes; the rest is read and dropped.
pub(crate) const STDERR_LIMIT: usize = 64 << 10;

/// How long a wait may go on before the stop flag is looked at again.
const TICK: Duration = Duration::from_millis(3);

/// How long a killed program may take to disappear before another thread waits for it instead.
const REAP_PATIENCE: Duration = Duration::from_millis(20);

/// How often starting is tried again while the program's file is open for writing somewhere.
const BUSY_TRIES: u32 = 40;

/// A program and its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invocation<'a> {
    /// The absolute path of the program.
    pub(crate) program: &'a Path,
    /// Its arguments, handed over as they are.
    pub(crate) args: &'a [OsString],
    /// What it reads from its standard input; without it, there is nothing to read.
    pub(crate) input: Option<&'a [u8]>,
    /// Environment variables that it gets.
    pub(crate) environment: &'a [(OsString, OsString)],
    /// Bytes of addresses that it may use at most, where the system can limit them from outside.
    pub(crate) memory: Option<u64>,
}

impl<'a> Invocation<'a> {
    /// Makes one without input and limits.
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

/// What can end a run before the program does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until<'a> {
    /// The flag of the call.
    pub(crate) stop: &'a Stop,
    /// A moment of this run's own.
    pub(crate) deadline: Option<&'a Deadline>,
}

impl Until<'_> {
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

/// Why a run was ended from here.
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
    /// The bytes.
    pub(crate) bytes: &'a [u8],
}

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How the program ended; after an interruption how it was made to, where that is known yet.
    pub(crate) exit: Option<Exit>,
    /// What it wrote to its standard error, up to [`STDERR_LIMIT`] bytes.
    pub(crate) stderr: Vec<u8>,
    /// Whether it wrote more than that.
    pub(crate) stderr_cut: bool,
    /// Why it was ended from here, if it was.
    pub(crate) interrupted: Option<Interruption>,
}

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// It could not be started.
    #[error("{} could not be started: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its output could not be read.
    #[error("the output of {} could not be read: {source}", program.display())]
    Read {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl RunError {
    /// Returns true when the arguments were longer than the system allows.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self, RunError::Spawn { source, .. }
            if source.kind() == io::ErrorKind::ArgumentListTooLong)
    }
}

/// Runs a program to its end, or to an interruption, and hands its standard output to `take`.
///
/// Costs one thread switch a piece of up to 64 KiB. Returns within some milliseconds of an interruption,
/// whatever the program does, unless `take` itself does not return.
///
/// # Errors
///
/// [`RunError`]; a program that fails is no error here but part of [`Ended`].
pub(crate) fn run(
    invocation: Invocation<'_>,
    until: Until<'_>,
    take: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
) -> Result<Ended, RunError> {
    let spawn_error = |source| RunError::Spawn {
        program: invocation.program.to_path_buf(),
        source,
    };
    let mut group = spawn(invocation, until).map_err(spawn_error)?;
    let Some(pipes) = group.pipes() else {
        return Err(spawn_error(io::Error::other("it has no output pipes")));
    };
    let mut complaints = Complaints::default();
    let interrupted =
        sys::pump(&mut group, pipes, until, &mut complaints, take).map_err(|source| {
            RunError::Read {
                program: invocation.program.to_path_buf(),
                source,
            }
        })?;
    Ok(Ended {
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

/// How a program that goes on in the background has begun.
#[cfg(all(unix, feature = "cli"))]
#[derive(Debug)]
pub(crate) struct Begun {
    /// What it wrote to its standard error until it gave that up, up to [`STDERR_LIMIT`] bytes.
    pub(crate) stderr: Vec<u8>,
    /// How it ended, if it did.
    pub(crate) exit: Option<Exit>,
}

/// Starts a program that outlives this one, and waits until it gives up its standard error, which is how it says that it has begun, or
/// ends. It inherits those variables of the environment that `inherits` names, and nothing of the terminal or of what is open. Returns `None` if neither has come within `patience`; the program goes
/// on all the same.
///
/// # Errors
///
/// [`RunError`]; a program that ends at once is no error here but part of [`Begun`].
#[cfg(all(unix, feature = "cli"))]
pub(crate) fn start_in_background(
    invocation: Invocation<'_>,
    inherits: impl Fn(&str) -> bool,
    environment: &[(&str, &str)],
    patience: Duration,
) -> Result<Option<Begun>, RunError> {
    // Whatever this process was given open, a pipe that somebody reads to its end or a lock, ends with it and not with the other one.
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
    // The one place that starts programs.
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
            // What can't be read any more has ended too.
            let _ = (&mut pipe).take(STDERR_LIMIT as u64).read_to_end(&mut kept);
            let _ = io::copy(&mut pipe, &mut io::sink());
            let _ = tell.send(kept);
        });
    }
    let Ok(stderr) = told.recv_timeout(patience) else {
        return Ok(None);
    };
    // One that ends closes its standard error a moment before.
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
    Ok(Some(Begun { stderr, exit }))
}

/// Runs a program that talks to whoever sits at the terminal, an editor say, with this process's own streams and environment, and waits for its end.
///
/// # Errors
///
/// [`RunError`]
#[cfg(all(unix, feature = "cli"))]
pub(crate) fn on_terminal(invocation: Invocation<'_>) -> Result<Exit, RunError> {
    // The one place that starts programs.
    #[allow(clippy::disallowed_methods)]
    let mut command = Command::new(invocation.program);
    let ended = command.args(invocation.args).status();
    ended.map(exit_of).map_err(|source| RunError::Spawn {
        program: invocation.program.to_path_buf(),
        source,
    })
}

/// Starts this program again in its own place, with its arguments and without anything open but its standard streams; returns when that has happened
/// already, which the environment variable `done` tells.
///
/// # Errors
///
/// Those of the system.
#[cfg(all(unix, feature = "executor"))]
// What it was started with is what it is started with again.
#[allow(clippy::disallowed_methods)]
pub(crate) fn without_what_is_open(done: &str) -> io::Result<()> {
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

fn spawn(invocation: Invocation<'_>, until: Until<'_>) -> io::Result<Group> {
    // The one place that starts programs.
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
                    // It ends with the program at the latest: nobody reads the pipe then.
                    thread::Builder::new().spawn(move || {
                        use std::io::Write;
                        let _ = pipe.write_all(&input);
                    })?;
                }
                return Ok(group);
            }
            // Someone has the program's file open for writing, for example while it is being upgraded.
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

/// Environment variables that change what search programs do; what of them is inherited where the
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

/// What a program writes to its standard error.
#[derive(Debug, Default)]
struct Complaints {
    kept: Vec<u8>,
    cut: bool,
}

impl Complaints {
    fn add(&mut self, bytes: &[u8]) {
        let room = STDERR_LIMIT - self.kept.len();
        self.cut |= bytes.len() > room;
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// A running program with everything it started. Dropping it kills and reaps.
#[derive(Debug)]
struct Group {
    /// Taken away once it is reaped: its number may then belong to another program.
    child: Option<Child>,
    /// How it ended, once it is reaped.
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

    /// Kills what is left of the group, without waiting.
    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            sys::kill(child);
        }
    }

    /// Kills what is left of the group and reaps the program. Returns nothing when it does not disappear
    /// in time, because it hangs in the kernel; it is then reaped in the background.
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
                // Nobody else waits for it, so there is nothing left to wait for.
                Err(_) => return None,
            }
        }
        // Without that thread it stays a zombie until this process ends, which is all that can be done.
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

/// Makes an argument list out of what converts to arguments.
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
