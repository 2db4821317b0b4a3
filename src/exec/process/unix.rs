//! Pipes, process groups and signals on Unix.
//!
//! One thread polls both pipes, so a call can't block. For example, a program may write nothing,
//! flood its standard error, or leave children that keep the pipes open.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{Group, Interruption, Piece, Pipes, StderrBuffer, StopConditions, TICK};

/// The most bytes of one read.
const PIECE: usize = 64 << 10;

/// The most bytes that are still read after the program has ended, far more than a pipe holds.
/// Later bytes come from a process that the program left behind.
const AFTER_THE_END: usize = 4 << 20;

/// Gives the program its own process group, an empty environment and the root directory as its
/// working directory.
pub(super) fn isolate(command: &mut Command) {
    command.process_group(0).env_clear().current_dir("/");
}

/// Limits the address space of a program.
#[cfg(target_os = "linux")]
pub(super) fn limit(child: &Child, memory: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    // A process can't grant more than its own limit.
    let own = getrlimit(Resource::As).maximum;
    let memory = own.map_or(memory, |own| own.min(memory));
    let most = Rlimit {
        current: Some(memory),
        maximum: Some(memory),
    };
    let pid = Pid::from_raw(child.id().cast_signed());
    match prlimit(pid, Resource::As, most) {
        // The program has ended already.
        Ok(_) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Does nothing: on this system the program has to limit itself.
#[cfg(not(target_os = "linux"))]
pub(super) fn limit(_: &Child, _: u64) -> io::Result<()> {
    Ok(())
}

pub(super) fn signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Kills the process group of a child that has not been reaped. Until it is reaped, its group
/// number can't be reused.
pub(super) fn kill(child: &mut Child) {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // This fails if no process of the group is left, which is the desired state.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Passes output to `take` until the program has ended and its pipes are empty, or until an
/// interruption.
pub(super) fn pump(
    group: &mut Group,
    pipes: Pipes,
    until: StopConditions<'_>,
    complaints: &mut StderrBuffer,
    take: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
) -> io::Result<Option<Interruption>> {
    ioctl_fionbio(&pipes.stdout, true)?;
    ioctl_fionbio(&pipes.stderr, true)?;
    let mut stdout = Some(pipes.stdout);
    let mut stderr = Some(pipes.stderr);
    let mut buffer = vec![0; PIECE];
    let mut ended = false;
    let mut left = AFTER_THE_END;
    loop {
        if let Some(interruption) = until.reached() {
            return Ok(Some(interruption));
        }
        if !ended && has_ended(group)? {
            ended = true;
            // Processes that the program leaves behind must not keep the pipes open.
            group.kill();
        }
        let idle = !wait(&stdout, &stderr, ended)?;
        if ended && (idle || left == 0) {
            return Ok(None);
        }
        let read = match &mut stdout {
            Some(pipe) => read(pipe, &mut buffer)?,
            None => Read1::Later,
        };
        loop {
            let mut bytes = [0; 4096];
            let Some(pipe) = &mut stderr else { break };
            match self::read(pipe, &mut bytes)? {
                Read1::Bytes(n) => {
                    complaints.add(&bytes[..n]);
                    left = left.saturating_sub(if ended { n } else { 0 });
                    if until.reached().is_some() || left == 0 {
                        break;
                    }
                }
                Read1::End => stderr = None,
                Read1::Later => break,
            }
        }
        match read {
            Read1::Bytes(n) => {
                left = left.saturating_sub(if ended { n } else { 0 });
                let piece = Piece {
                    bytes: &buffer[..n],
                };
                if take(piece).is_break() {
                    return Ok(Some(until.reached().unwrap_or(Interruption::Enough)));
                }
            }
            Read1::End => stdout = None,
            Read1::Later => {}
        }
    }
}

/// Returns whether the program has ended, without reaping it. If this process ignores `SIGCHLD`,
/// the system reaps children itself. Then the exit status is unknown, and the process number may
/// belong to another process, which must not be killed.
fn has_ended(group: &mut Group) -> io::Result<bool> {
    let Some(pid) = group
        .child
        .as_ref()
        .and_then(|child| Pid::from_raw(child.id().cast_signed()))
    else {
        return Ok(true);
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(pid), options) {
        Ok(status) => Ok(status.is_some()),
        Err(Errno::INTR) => Ok(false),
        Err(Errno::CHILD) => {
            group.child = None;
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits until a pipe has data, for one tick at most, or not at all if the program has ended.
/// Returns false if there is no data.
fn wait<O: AsFd, E: AsFd>(stdout: &Option<O>, stderr: &Option<E>, ended: bool) -> io::Result<bool> {
    let mut fds = Vec::with_capacity(2);
    if let Some(pipe) = stdout {
        fds.push(PollFd::new(pipe, PollFlags::IN));
    }
    if let Some(pipe) = stderr {
        fds.push(PollFd::new(pipe, PollFlags::IN));
    }
    // When both pipes are closed, the program is about to end, so the wait is short.
    let tick = match (ended, fds.is_empty()) {
        (true, _) => 0,
        (false, true) => 200_000,
        (false, false) => TICK.subsec_nanos().into(),
    };
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: tick,
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(!ended),
        Err(error) => Err(error.into()),
    }
}

enum Read1 {
    Bytes(usize),
    End,
    Later,
}

fn read(pipe: &mut impl Read, buffer: &mut [u8]) -> io::Result<Read1> {
    match pipe.read(buffer) {
        Ok(0) => Ok(Read1::End),
        Ok(n) => Ok(Read1::Bytes(n)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Read1::Later),
            _ => Err(error),
        },
    }
}
