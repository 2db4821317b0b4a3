//! Standard input: the decision whether a search without a path reads it, or searches the working
//! directory.
//!
//! A *caller* is the program or shell that started this command. A shell makes a pipe for a command
//! and keeps no end of it. Another program may keep the writing end open and never write. An agent
//! may do the same through a shell: the shell passes its own standard input to the command. This
//! module distinguishes the cases by the open files of the ancestor processes, in `/proc`. If the
//! system hides those, a pipe counts only if it has data.
//!
//! | standard input | searched |
//! | --- | --- |
//! | a terminal, `/dev/null`, closed | the working directory |
//! | a file | the file |
//! | a pipe that a shell made, as in `cmd \| forge-search x` | the pipe, even if data comes late |
//! | a pipe or socket whose other end the caller holds, with data | the pipe |
//! | a pipe or socket whose other end the caller holds, without data | the working directory, with a message |
//! | a pipe that the caller, not a shell, made between two of its processes | the pipe; if it has ended, the working directory, with a message |
//! | the caller's own standard input, if an agent above holds the other end | the pipe if it has data; else the working directory, with a message if the pipe has ended |
//! | the caller's own standard input, otherwise | the pipe; if it has ended, the working directory, with a message |
//! | any of these, and `--root` is given | the root, with a message if standard input may have data for this command |

#[cfg(not(unix))]
mod portable;
pub(in crate::tool::cli) mod stdin;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
use portable as sys;
pub(super) use sys::{decide, is_piped, is_unread};
#[cfg(unix)]
use unix as sys;

/// The source that a search without a path reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The working directory.
    Tree,
    /// The root that the caller named.
    Root,
    /// The working directory, although standard input is a pipe. The caller prints a message.
    TreeBesideSilentPipe,
    /// Standard input of this process.
    Stdin,
}
