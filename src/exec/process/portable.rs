//! Pipes and the end of a program on systems where pipes can't be polled: a thread reads each pipe.
//!
//! There is no process group to kill here, only the program itself; the search programs start no
//! other programs. If another process keeps a pipe open, its thread ends with that process,
//! possibly long after the call. The order of complaints and output is only known within the time
//! that it takes to wake a thread.

use std::io::{self, Read};
use std::ops::ControlFlow;
#[cfg(not(unix))]
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread;

#[cfg(not(unix))]
use super::UNWANTED_ENVIRONMENT;
use super::{Group, Interruption, Piece, Pipes, StderrBuffer, StopConditions, TICK};

/// The most bytes of one read, and the most pieces that wait in a channel.
const PIECE: usize = 64 << 10;
const WAITING: usize = 4;

/// The number of ticks without output after which the output of an ended program counts as
/// complete.
const QUIET_TICKS: u32 = 20;

/// Does nothing: on this system the program has to limit itself.
#[cfg(not(unix))]
pub(super) fn limit(_: &std::process::Child, _: u64) -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn isolate(command: &mut Command) {
    for name in UNWANTED_ENVIRONMENT {
        command.env_remove(name);
    }
}

#[cfg(not(unix))]
pub(super) fn signal(_: ExitStatus) -> Option<i32> {
    None
}

#[cfg(not(unix))]
pub(super) fn kill(child: &mut Child) {
    // This fails if the program has ended, which is the desired state.
    let _ = child.kill();
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
    let stdout = read_on_a_thread(pipes.stdout)?;
    let stderr = read_on_a_thread(pipes.stderr)?;
    let mut quiet = 0;
    let mut open = true;
    while quiet <= QUIET_TICKS {
        if let Some(interruption) = until.reached() {
            return Ok(Some(interruption));
        }
        let read = if open {
            stdout.recv_timeout(TICK)
        } else {
            Err(RecvTimeoutError::Disconnected)
        };
        let mut all_said = false;
        loop {
            match stderr.try_recv() {
                Ok(bytes) => {
                    complaints.add(&bytes?);
                    quiet = 0;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    all_said = true;
                    break;
                }
            }
        }
        match read {
            Ok(bytes) => {
                quiet = 0;
                let piece = Piece { bytes: &bytes? };
                if take(piece).is_break() {
                    return Ok(Some(until.reached().unwrap_or(Interruption::Enough)));
                }
            }
            // Another process may keep the pipes open after the end of the program.
            Err(RecvTimeoutError::Timeout) => quiet += u32::from(has_ended(group)?),
            Err(RecvTimeoutError::Disconnected) => {
                open = false;
                let ended = has_ended(group)?;
                if ended && all_said {
                    return Ok(None);
                }
                quiet += u32::from(ended);
                thread::sleep(TICK / 8);
            }
        }
    }
    Ok(None)
}

fn has_ended(group: &mut Group) -> io::Result<bool> {
    if let Some(child) = &mut group.child
        && let Some(status) = child.try_wait()?
    {
        group.status = Some(status);
        group.child = None;
    }
    Ok(group.child.is_none())
}

fn read_on_a_thread(
    mut pipe: impl Read + Send + 'static,
) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = sync_channel(WAITING);
    thread::Builder::new()
        .name("forge-search-pipe".to_string())
        .spawn(move || {
            let mut buffer = vec![0; PIECE];
            loop {
                let read = match pipe.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(n) => Ok(buffer[..n].to_vec()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                // The receiver is gone once the run is over.
                if sender.send(read).is_err() || failed {
                    return;
                }
            }
        })?;
    Ok(receiver)
}
