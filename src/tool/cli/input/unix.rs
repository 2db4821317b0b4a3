//! The decision on Unix: by the kind of standard input, and by the open files of the ancestor
//! processes, in `/proc`.
//!
//! This module guarantees that a pipe is read only if a program wrote it for this command, as far
//! as the system shows that. Systems without `/proc`, such as macOS, hide who holds a pipe.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};

use super::Input;

/// How long to wait for data in a pipe whose other end the starting program holds.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// How often the files of a shell are looked at while it holds the pipe, and the time between.
const LOOKS: u32 = 25;
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Programs that make pipes between the commands they start.
const SHELLS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "ash", "busybox", "tcsh", "csh", "nu",
    "xonsh", "pwsh",
];

/// The origin of the pipe that is standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A shell made the pipe for this command.
    Shell,
    /// The starting program made the pipe, and holds its other end.
    Program,
    /// The starting program made the pipe, and no ancestor process holds its other end.
    BetweenPrograms,
    /// The pipe is the standard input of the starting shell, and an ancestor of that shell
    /// holds the other end.
    Agent,
    /// The pipe is the standard input of the starting shell, and no ancestor process holds the
    /// other end.
    Inherited,
}

/// The state of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Data,
    Nothing,
    /// The pipe has ended, and has no data left.
    End,
}

/// Decides which source a search without a path reads.
pub(in crate::tool::cli) fn decide() -> Input {
    let stdin = io::stdin();
    let Ok(stat) = fstat(stdin.as_fd()) else {
        return Input::Tree;
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Input::Stdin,
        // The two ends of a socket have different names in `/proc`, so they can't be compared.
        FileType::Socket => decide_of(Origin::Program, waiting),
        FileType::Fifo => decide_of(origin(), waiting),
        _ => Input::Tree,
    }
}

/// Decides whether to read a pipe.
fn decide_of(origin: Origin, waiting: impl Fn(Timespec) -> Waiting) -> Input {
    match origin {
        Origin::Shell => Input::Stdin,
        Origin::Program => match waiting(PATIENCE) {
            Waiting::Data => Input::Stdin,
            _ => Input::TreeBesideSilentPipe,
        },
        Origin::BetweenPrograms => match waiting(AT_ONCE) {
            Waiting::End => Input::TreeBesideSilentPipe,
            _ => Input::Stdin,
        },
        // An agent never closes its own standard input, so an open pipe without data needs no
        // message.
        Origin::Agent => match waiting(AT_ONCE) {
            Waiting::Data => Input::Stdin,
            Waiting::Nothing => Input::Tree,
            Waiting::End => Input::TreeBesideSilentPipe,
        },
        Origin::Inherited => match waiting(AT_ONCE) {
            Waiting::End => Input::TreeBesideSilentPipe,
            _ => Input::Stdin,
        },
    }
}

/// Returns whether standard input is a pipe that a shell made for this command.
pub(in crate::tool::cli) fn is_piped() -> bool {
    let stdin = io::stdin();
    let kind = fstat(stdin.as_fd()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo)) && origin() == Origin::Shell
}

/// Returns whether standard input was made for this command and has unread data, or may get some.
pub(in crate::tool::cli) fn is_unread() -> bool {
    let stdin = io::stdin();
    let Ok(stat) = fstat(stdin.as_fd()) else {
        return false;
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => stat.st_size > 0 && !is_of_parent(&stat),
        FileType::Socket => waiting(AT_ONCE) == Waiting::Data,
        FileType::Fifo => match origin() {
            Origin::Shell => waiting(AT_ONCE) != Waiting::End,
            Origin::Program | Origin::BetweenPrograms => waiting(AT_ONCE) == Waiting::Data,
            // The input belongs to a script, which may read it later.
            Origin::Agent | Origin::Inherited => false,
        },
        _ => false,
    }
}

/// Returns whether a file is also the standard input of the parent process. Returns true if the
/// system hides that.
fn is_of_parent(own: &rustix::fs::Stat) -> bool {
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let stdin = fs::metadata(format!("/proc/{parent}/fd/0"));
    stdin.map_or(true, |file| {
        // The types of these fields differ between systems.
        let (device, inode) = (i128::from(own.st_dev), i128::from(own.st_ino));
        (i128::from(file.dev()), i128::from(file.ino())) == (device, inode)
    })
}

/// Checks whether standard input has data, and waits for data for up to `patience`.
fn waiting(patience: Timespec) -> Waiting {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    if !matches!(poll(&mut fds, Some(&patience)), Ok(1..)) {
        return Waiting::Nothing;
    }
    match rustix::io::ioctl_fionread(stdin.as_fd()) {
        Ok(0) => Waiting::End,
        _ => Waiting::Data,
    }
}

/// Determines the origin of standard input, which must be a pipe.
fn origin() -> Origin {
    let Ok(own) = fs::read_link("/proc/self/fd/0") else {
        return Origin::Program;
    };
    let is_same = |path: &Path| fs::read_link(path).is_ok_and(|file| file == own);
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    let mut process = parent;
    let mut shares = false;
    while let Some(pid) = process.filter(|pid| *pid > 1) {
        let files = PathBuf::from(format!("/proc/{pid}/fd"));
        if fs::read_dir(&files).is_err() {
            break;
        }
        if is_same(&files.join("0")) {
            shares = true;
            process = parent_of(pid);
            continue;
        }
        let holds = || {
            let entries = fs::read_dir(&files).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).any(|path| is_same(&path))
        };
        let is_of_shell = !shares && parent == Some(pid) && is_shell(pid);
        let is_held = match is_of_shell {
            true => keeps(holds, || thread::sleep(LOOK_AGAIN)),
            false => holds(),
        };
        return match (is_held, shares) {
            (true, true) => Origin::Agent,
            (true, false) => Origin::Program,
            (false, true) => Origin::Inherited,
            (false, false) if parent.is_some_and(is_shell) => Origin::Shell,
            (false, false) => Origin::BetweenPrograms,
        };
    }
    match shares {
        true => Origin::Agent,
        false => Origin::Program,
    }
}

/// Returns whether a shell keeps an end of a pipe. A shell that has just started the commands of a
/// pipeline holds the pipe until it goes on.
fn keeps(holds: impl Fn() -> bool, pause: impl Fn()) -> bool {
    (0..LOOKS).all(|_| {
        let is_held = holds();
        if is_held {
            pause();
        }
        is_held
    })
}

/// Returns whether a process runs a shell.
fn is_shell(pid: i32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| SHELLS.contains(&name.trim()))
}

/// Returns the parent of a process.
fn parent_of(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_shell_that_lets_go_of_a_pipe_does_not_keep_it() {
        let looks = Cell::new(0);
        let lets_go_after = |most: u32| {
            looks.set(0);
            keeps(|| looks.get() < most, || looks.set(looks.get() + 1))
        };
        assert!(!lets_go_after(0) && looks.get() == 0);
        assert!(!lets_go_after(3) && looks.get() == 3);
        assert!(lets_go_after(u32::MAX) && looks.get() == LOOKS);
    }

    #[test]
    fn a_silent_pipe_is_waited_for_only_where_a_shell_or_a_writer_made_it() {
        use Waiting::{Data, End, Nothing};
        let table = [
            (Origin::Shell, [Input::Stdin; 3]),
            (
                Origin::Program,
                [
                    Input::Stdin,
                    Input::TreeBesideSilentPipe,
                    Input::TreeBesideSilentPipe,
                ],
            ),
            (
                Origin::BetweenPrograms,
                [Input::Stdin, Input::Stdin, Input::TreeBesideSilentPipe],
            ),
            (
                Origin::Agent,
                [Input::Stdin, Input::Tree, Input::TreeBesideSilentPipe],
            ),
            (
                Origin::Inherited,
                [Input::Stdin, Input::Stdin, Input::TreeBesideSilentPipe],
            ),
        ];
        for (origin, expected) in table {
            let found = [Data, Nothing, End].map(|waiting| decide_of(origin, |_| waiting));
            assert_eq!(found, expected, "{origin:?}");
        }
    }
}
