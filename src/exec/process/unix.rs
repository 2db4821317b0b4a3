//! Pipes, groups and signals on Unix.
//!
//! Both pipes are polled by one thread, so that nothing is left behind that could block: a program that
//! writes nothing, one that floods its standard error, one whose own children keep the pipes open.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{Complaints, Group, Interruption, Piece, Pipes, TICK, Until};

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Bytes that are still read after the program has ended, far more than a pipe holds: what comes later is
/// written by something that the program left behind.
const AFTER_THE_END: usize = 4 << 20;

/// Gives the program a group of its own and nothing of our environment or place.
pub(super) fn isolate(command: &mut Command) {
    command.process_group(0).env_clear().current_dir("/");
}

/// Limits what a program may use of addresses.
#[cfg(target_os = "linux")]
pub(super) fn limit(child: &Child, memory: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    // What this process may have itself, it can't give more of.
    let own = getrlimit(Resource::As).maximum;
    let memory = own.map_or(memory, |own| own.min(memory));
    let most = Rlimit {
        current: Some(memory),
        maximum: Some(memory),
    };
    let pid = Pid::from_raw(child.id().cast_signed());
    match prlimit(pid, Resource::As, most) {
        // It has ended by itself.
        Ok(_) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The program limits itself.
#[cfg(not(target_os = "linux"))]
pub(super) fn limit(_: &Child, _: u64) -> io::Result<()> {
    Ok(())
}

pub(super) fn signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Kills the group of a child that is not reaped yet, which is what keeps the group's number its own.
pub(super) fn kill(child: &mut Child) {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It fails when nothing of the group is left, which is what is wanted.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Hands over output until the program has ended and its pipes are empty, or until an interruption.
pub(super) fn pump(
    group: &mut Group,
    pipes: Pipes,
    until: Until<'_>,
    complaints: &mut Complaints,
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
            // What it leaves behind must not keep the pipes open.
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

/// Tells whether the program has ended, and leaves it to be reaped. Where this process ignores the end of its children, they are not kept: how it has ended
/// is unknown then, and its number may be another one's, which must not be killed.
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

/// Waits until there is something to read, for one tick at most, or not at all when the program has ended.
/// Returns false when there is nothing.
fn wait<O: AsFd, E: AsFd>(stdout: &Option<O>, stderr: &Option<E>, ended: bool) -> io::Result<bool> {
    let mut fds = Vec::with_capacity(2);
    if let Some(pipe) = stdout {
        fds.push(PollFd::new(pipe, PollFlags::IN));
    }
    if let Some(pipe) = stderr {
        fds.push(PollFd::new(pipe, PollFlags::IN));
    }
    // With both pipes closed the program is about to end: look again soon.
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
