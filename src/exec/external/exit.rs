//! Classifies how a run of an external program ended.
//!
//! This module owns the exit classes. Also decides, for each program, which messages on standard
//! error are about single files. Exit codes alone are not enough: ugrep 3 returns 0 or 1 although a
//! file could not be read, and ripgrep and ugrep 7 return 2 although there are matches. The
//! functions are pure: their result depends only on [`RunObservations`].

use std::fmt;

use crate::exec::external::detect::Tool;
use crate::exec::stop::StopReason;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The program returned this code.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Observations about one run.
#[derive(Clone, Copy, Debug)]
pub struct RunObservations<'a> {
    /// The program that ran.
    pub tool: Tool,
    /// The number of lines that the program reported.
    pub reports: u64,
    /// Whether part of the output could not be parsed.
    pub garbled: bool,
    /// The program's standard error, decoded. Names of searched files that look like messages are
    /// replaced.
    pub stderr: &'a str,
    /// How the program ended, if known.
    pub exit: Option<Exit>,
    /// Why this process stopped the program, if it did.
    pub stopped: Option<StopReason>,
}

/// The class of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The program ended by itself and reported lines.
    OkWithMatches,
    /// The program ended by itself and reported no line.
    OkNoMatches,
    /// The program was stopped because nobody needs more output: the response is full, or the call
    /// was cancelled.
    Truncated,
    /// The program was stopped because the time was up.
    TimedOut,
    /// The reports may be incomplete.
    BackendError,
}

/// Classifies a run. A stop by this process decides first, because the exit code is then a
/// consequence of the stop. Then reports, standard error and signals decide, and the exit code
/// last.
pub fn classify(observed: &RunObservations<'_>) -> Completion {
    match observed.stopped {
        Some(StopReason::TimedOut) => return Completion::TimedOut,
        Some(StopReason::Satisfied | StopReason::Cancelled | StopReason::Failed) => {
            return Completion::Truncated;
        }
        None => {}
    }
    if observed.garbled {
        return Completion::BackendError;
    }
    let by_reports = if observed.reports > 0 {
        Completion::OkWithMatches
    } else {
        Completion::OkNoMatches
    };
    match observed.exit {
        // "Matches found", but no report arrived: output was lost.
        Some(Exit::Code(0)) if observed.reports == 0 => Completion::BackendError,
        Some(Exit::Code(0 | 1)) if is_fatal(observed.tool, observed.stderr) => {
            Completion::BackendError
        }
        Some(Exit::Code(0 | 1)) => by_reports,
        Some(Exit::Code(2)) if is_about_files(observed.tool, observed.stderr) => by_reports,
        Some(Exit::Code(_) | Exit::Signal(_)) | None => Completion::BackendError,
    }
}

/// Returns whether standard error says that the program gave up.
fn is_fatal(tool: Tool, stderr: &str) -> bool {
    match tool {
        Tool::Ripgrep => false,
        Tool::Ugrep => stderr
            .lines()
            .any(|line| line.starts_with("ugrep: error: ")),
    }
}

/// Returns whether standard error holds only messages about single files, at least one. Standard
/// error may be truncated. That does no harm, because a program that gives up writes little.
fn is_about_files(tool: Tool, stderr: &str) -> bool {
    let mut lines = stderr.lines().filter(|line| !line.trim().is_empty());
    let about_file = |line: &str| match tool {
        // Both forms, with and without the program's name in front, end in the system's error.
        Tool::Ripgrep => line
            .rsplit_once(" (os error ")
            .is_some_and(|(_, number)| is_closed_number(number)),
        Tool::Ugrep => line.starts_with("ugrep: warning: "),
    };
    let Some(first) = lines.next() else {
        return false;
    };
    about_file(first) && lines.all(about_file)
}

fn is_closed_number(text: &str) -> bool {
    text.strip_suffix(')')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Completion::{BackendError, OkNoMatches, OkWithMatches, TimedOut, Truncated};
    use Tool::{Ripgrep, Ugrep};

    const RG_GONE: &str =
        "/t/a: IO error for operation on /t/a: No such file or directory (os error 2)\n";
    const RG_NEW_GONE: &str =
        "rg: /t/a: IO error for operation on /t/a: Permission denied (os error 13)\n";
    const RG_SYNTAX: &str = "regex parse error:\n    a(\n     ^\nerror: unclosed group\n";
    const UG_GONE: &str = "ugrep: warning: /t/a: No such file or directory\n";
    const UG_SYNTAX: &str =
        "ugrep: error: error at position 6\n(?m)a(\n      \\___mismatched ( )\n\n";
    const UG_OPTION: &str = "ugrep: invalid option --bogus, did you mean --bool?\n";

    fn class(tool: Tool, reports: u64, stderr: &str, exit: Exit) -> Completion {
        classify(&RunObservations {
            tool,
            reports,
            garbled: false,
            stderr,
            exit: Some(exit),
            stopped: None,
        })
    }

    #[test]
    fn exit_codes_are_classified_with_the_reports() {
        for tool in [Ripgrep, Ugrep] {
            for (reports, code, expected) in [
                (3, 0, OkWithMatches),
                (0, 1, OkNoMatches),
                (0, 2, BackendError),
                (3, 2, BackendError),
                (0, 3, BackendError),
                (3, 127, BackendError),
                (0, -1, BackendError),
                // Contradictions: lost output is an error; a report counts as a match.
                (0, 0, BackendError),
                (3, 1, OkWithMatches),
            ] {
                let found = class(tool, reports, "", Exit::Code(code));
                assert_eq!(found, expected, "{tool} {reports} {code}");
            }
        }
    }

    #[test]
    fn complaints_about_files_do_not_fail_the_run() {
        for (tool, reports, stderr, code, expected) in [
            (Ripgrep, 3, RG_GONE, 2, OkWithMatches),
            (Ripgrep, 0, RG_NEW_GONE, 2, OkNoMatches),
            (
                Ripgrep,
                0,
                &format!("{RG_GONE}{RG_NEW_GONE}"),
                2,
                OkNoMatches,
            ),
            (Ripgrep, 0, RG_SYNTAX, 2, BackendError),
            (
                Ripgrep,
                3,
                &format!("{RG_GONE}thread 'main' panicked\n"),
                2,
                BackendError,
            ),
            (
                Ripgrep,
                0,
                "rg: unrecognized flag --bogus\n",
                2,
                BackendError,
            ),
            (Ripgrep, 0, "something (os error )\n", 2, BackendError),
            (Ugrep, 3, UG_GONE, 0, OkWithMatches),
            (Ugrep, 0, UG_GONE, 1, OkNoMatches),
            (Ugrep, 3, UG_GONE, 2, OkWithMatches),
            (Ugrep, 0, UG_GONE, 2, OkNoMatches),
            (Ugrep, 0, UG_SYNTAX, 2, BackendError),
            (Ugrep, 0, UG_SYNTAX, 1, BackendError),
            (Ugrep, 0, &format!("{UG_GONE}{UG_SYNTAX}"), 2, BackendError),
            (Ugrep, 0, UG_OPTION, 2, BackendError),
        ] {
            let found = class(tool, reports, stderr, Exit::Code(code));
            assert_eq!(found, expected, "{tool} {reports} {code} {stderr}");
        }
    }

    #[test]
    fn signals_unknown_exit_codes_and_garbled_output_are_backend_errors() {
        for tool in [Ripgrep, Ugrep] {
            assert_eq!(class(tool, 3, "", Exit::Signal(11)), BackendError);
            for unknown in [3, 4, 77, 126, 127, 255, -1] {
                let found = class(tool, 3, UG_GONE, Exit::Code(unknown));
                assert_eq!(found, BackendError, "{unknown}");
            }
            let mut observed = RunObservations {
                tool,
                reports: 3,
                garbled: true,
                stderr: "",
                exit: Some(Exit::Code(0)),
                stopped: None,
            };
            assert_eq!(classify(&observed), BackendError);
            observed.garbled = false;
            observed.exit = None;
            assert_eq!(classify(&observed), BackendError);
        }
    }

    #[test]
    fn a_run_that_was_stopped_is_classified_by_its_reason() {
        for (reason, expected) in [
            (StopReason::Satisfied, Truncated),
            (StopReason::Cancelled, Truncated),
            (StopReason::Failed, Truncated),
            (StopReason::TimedOut, TimedOut),
        ] {
            for exit in [Some(Exit::Signal(9)), Some(Exit::Code(0)), None] {
                let observed = RunObservations {
                    tool: Ripgrep,
                    reports: 0,
                    garbled: true,
                    stderr: RG_SYNTAX,
                    exit,
                    stopped: Some(reason),
                };
                assert_eq!(classify(&observed), expected);
            }
        }
    }
}
