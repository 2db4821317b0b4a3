//! Standard input: whether a search without a path is of it, or of the working directory.
//!
//! | standard input | searched |
//! | --- | --- |
//! | a terminal, `/dev/null`, closed | the working directory |
//! | a file | the file |
//! | a pipe that a shell made, as in `cmd \| forge-search x` | the pipe, which is waited for |
//! | a pipe or socket that the starting program made, with data | the pipe |
//! | such a one without data | the working directory, and a message says so |
//! | anything, and `--root` is given | the root; a message says that input made for this command is not searched |
//! | one that the starting shell or script has as its own standard input | it, if it has data or somebody else than an agent above may still write; else the working directory, and where it has ended a message says so |
//!
//! A shell makes a pipe for a command and keeps no end of it. A program that starts a command may
//! keep the other end open without ever writing; so does an agent, whose shell hands its own
//! standard input down. Both are told from a shell's pipe by the open files of the processes above
//! this one. Where the system does not show those, a pipe counts only if it has data.

/// The source of a search without a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The working directory.
    Tree,
    /// The root that was named.
    Root,
    /// The working directory, although standard input is an open pipe.
    TreeBesideSilentPipe,
    /// Standard input.
    Stdin,
}

/// Decides what a search without a path is of.
#[cfg(unix)]
pub(super) fn decide() -> Input {
    unix::decide()
}

/// Returns true if standard input is a pipe that was made for this command.
#[cfg(unix)]
pub(super) fn is_piped() -> bool {
    unix::is_piped()
}

/// Returns true if standard input was made for this command, and has data that nobody reads, or may
/// get some.
#[cfg(unix)]
pub(super) fn is_unread() -> bool {
    unix::is_unread()
}

/// Returns true if standard input was made for this command, and has data that nobody reads, or may
/// get some.
#[cfg(not(unix))]
pub(super) fn is_unread() -> bool {
    false
}

/// Decides what a search without a path is of: never of standard input where it can't be looked at.
#[cfg(not(unix))]
pub(super) fn decide() -> Input {
    Input::Tree
}

/// Returns true if standard input is a pipe that was made for this command.
#[cfg(not(unix))]
pub(super) fn is_piped() -> bool {
    false
}

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{FileType, fstat};

    use super::Input;

    /// How long a pipe that the starting program holds may take until it has data.
    const PATIENCE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };

    const AT_ONCE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };

    /// Programs that make pipes between the commands that they start.
    const SHELLS: [&str; 14] = [
        "sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "ash", "busybox", "tcsh", "csh", "nu",
        "xonsh", "pwsh",
    ];

    /// Where the pipe that is standard input comes from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Origin {
        /// A shell made it for this command.
        Shell,
        /// The starting program made it, and holds its other end.
        Program,
        /// The starting program made it, and another process holds its other end, or none does.
        BetweenPrograms,
        /// It is the standard input of the starting shell, and a process above that holds its other
        /// end.
        Agent,
        /// It is the standard input of the starting shell, and no process above holds its other end.
        Inherited,
    }

    /// What a pipe has to read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Waiting {
        Data,
        Nothing,
        /// It ended without data.
        End,
    }

    pub(super) fn decide() -> Input {
        let stdin = io::stdin();
        let Ok(stat) = fstat(stdin.as_fd()) else {
            return Input::Tree;
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Input::Stdin,
            // The two ends of a socket have nothing in common that could be compared.
            FileType::Socket => decide_of(Origin::Program, waiting),
            FileType::Fifo => decide_of(origin(), waiting),
            _ => Input::Tree,
        }
    }

    /// Decides about a pipe.
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
            // An agent keeps its own standard input open for as long as it lives: of that nothing is said.
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

    pub(super) fn is_piped() -> bool {
        let stdin = io::stdin();
        let kind = fstat(stdin.as_fd()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        matches!(kind, Ok(FileType::Fifo)) && origin() == Origin::Shell
    }

    pub(super) fn is_unread() -> bool {
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
                // It is that of a script, which may read it later.
                Origin::Agent | Origin::Inherited => false,
            },
            _ => false,
        }
    }

    /// Returns true if a file is the standard input of the starting process, too, or nobody can
    /// tell.
    fn is_of_parent(own: &rustix::fs::Stat) -> bool {
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        let stdin = fs::metadata(format!("/proc/{parent}/fd/0"));
        stdin.map_or(true, |file| {
            (file.dev(), file.ino()) == (own.st_dev, own.st_ino)
        })
    }

    /// Looks whether standard input has data, and waits a little for some.
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

    /// Finds out where standard input, a pipe, comes from.
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
            let Ok(entries) = fs::read_dir(&files) else {
                break;
            };
            if is_same(&files.join("0")) {
                shares = true;
                process = parent_of(pid);
                continue;
            }
            let mut paths = entries.flatten().map(|entry| entry.path());
            return match (paths.any(|path| is_same(&path)), shares) {
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

    /// Returns true if a process runs a shell.
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
        use super::*;

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
}
