//! The program as a stand-in for ripgrep: `forge-search rg`, or any call under the name `rg`.
//!
//! This module owns ripgrep's command line: its flags, defaults, output, messages and exit
//! statuses. Nothing of the other surfaces applies to results: no limits, no denied patterns, no
//! sandbox. The crates that ripgrep is made of walk (`ignore`), search (`grep-searcher`,
//! `grep-regex`) and print (`grep-printer`). The daemon of a tree, or an index, may say which files
//! need not be read.
//!
//! `candidates` asks through `cli::answers::candidates`, which sends a `Question` as a person's
//! search does. `flags` has the table of flags, `args` parses, `plan` decides, `walk`, `candidates`
//! and `feed` find files, `search` reads them, and `print` prints.

mod args;
mod candidates;
mod feed;
mod flags;
mod generate;
mod help;
mod hyperlinks;
mod messages;
mod output;
mod patterns;
mod plan;
mod print;
mod search;
mod walk;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use args::{Args, Mode, Special};
use plan::Plan;

/// The name of the program whose command line this is.
const NAME: &str = "rg";

/// Exit status if something was found.
const FOUND: u8 = 0;

/// Exit status if nothing was found.
const NOT_FOUND: u8 = 1;

/// Exit status after an error.
const FAILED: u8 = 2;

/// Returns the long names of all flags, including aliases and negations.
#[cfg(test)]
pub(super) fn flag_names() -> impl Iterator<Item = &'static str> {
    flags::all().flat_map(flags::Flag::names)
}

/// Why a call ended early.
#[derive(Debug)]
enum Failure {
    Message(String),
    /// Standard output can't be written.
    Output(io::Error),
    /// A signal ended the call. The exit status names it.
    Signal(u8),
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Message(message)
    }
}

/// The parts of the surroundings that decide about a call.
#[derive(Debug)]
struct Surroundings {
    /// The file with more arguments.
    config: Option<PathBuf>,
    working_dir: io::Result<PathBuf>,
    /// The shell's name for the working directory.
    shell_dir: Option<PathBuf>,
    /// The name of the Linux distribution, inside of Windows.
    wsl_distribution: Option<String>,
}

impl Surroundings {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place of this surface that reads them"
    )]
    fn read() -> Surroundings {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Surroundings {
            config: set("RIPGREP_CONFIG_PATH").map(PathBuf::from),
            working_dir: std::env::current_dir(),
            shell_dir: set("PWD").map(PathBuf::from),
            wsl_distribution: set("WSL_DISTRO_NAME").and_then(|name| name.into_string().ok()),
        }
    }

    /// Returns the working directory, by its name in the shell if the system does not tell.
    fn working_dir(&self) -> Result<PathBuf, String> {
        match (&self.working_dir, &self.shell_dir) {
            (Ok(dir), _) | (Err(_), Some(dir)) => Ok(dir.clone()),
            (Err(error), None) => Err(format!(
                "the working directory can't be determined: {error}; change to an existing one"
            )),
        }
    }
}

/// Returns the arguments for ripgrep's command line, if this process was called for it: as `rg`, or
/// with `rg` as the first argument.
pub fn arguments() -> Option<Vec<OsString>> {
    arguments_of(std::env::args_os().collect())
}

fn arguments_of(mut args: Vec<OsString>) -> Option<Vec<OsString>> {
    let program = args.first().map(Path::new).and_then(Path::file_stem);
    let taken = match program {
        Some(program) if program == NAME => 1,
        _ if args.get(1).is_some_and(|arg| arg == NAME) => 2,
        _ => return None,
    };
    Some(args.split_off(taken))
}

/// Returns whether a flag, as it was typed, is one of ripgrep's.
pub(in crate::tool) fn has_flag(typed: &str) -> bool {
    let name = typed.split(['=', ' ']).next().unwrap_or(typed);
    match name.strip_prefix("--") {
        Some(long) => flags::with_long(long).is_some(),
        None => name.chars().nth(1).and_then(flags::with_short).is_some(),
    }
}

/// Runs one call and returns its exit status: 0 if something was found, 1 if not, 2 after an error.
pub fn main(args: &[OsString]) -> u8 {
    match run(args) {
        Ok(status) => status,
        // The reader of the output has closed the pipe, such as `head`. That is not an error.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => FOUND,
        Err(Failure::Output(error)) => {
            messages::complain(&error.to_string());
            FAILED
        }
        Err(Failure::Message(message)) => {
            messages::complain(&message);
            FAILED
        }
        Err(Failure::Signal(status)) => status,
    }
}

fn run(typed: &[OsString]) -> Result<u8, Failure> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the statistics have the time of the whole call"
    )]
    let started = Instant::now();
    let surroundings = Surroundings::read();
    let args = args::parse(typed, surroundings.config.as_deref())?;
    if let Some(special) = args.special {
        return answer(special);
    }
    if let Mode::Generate(generated) = args.mode {
        return show(&generate::text(generated)).map(|()| FOUND);
    }
    search(args, &surroundings, started)
}

fn search(args: Args, surroundings: &Surroundings, started: Instant) -> Result<u8, Failure> {
    let reporter = args.reporter();
    let plan = Plan::new(args, surroundings)?;
    let found = match plan.args.mode {
        Mode::Types => print::types(&plan).map_err(Failure::Output)?,
        Mode::Files => search::list(&plan, &reporter)?,
        _ if !plan.can_match() => false,
        _ => search::run(&plan, &reporter, started)?,
    };
    Ok(match (found, reporter.has_failed()) {
        (true, failed) if !failed || plan.args.quiet => FOUND,
        (_, true) => FAILED,
        (_, false) => NOT_FOUND,
    })
}

/// Answers a question about the program itself.
fn answer(special: Special) -> Result<u8, Failure> {
    let text = match special {
        Special::Help => help::short(),
        Special::LongHelp => help::long(),
        Special::Version => help::version(),
        Special::LongVersion => help::long_version(),
        Special::Pcre2Version => format!("{}.", patterns::NO_PCRE2),
    };
    show(&text)?;
    Ok(match special {
        Special::Pcre2Version => NOT_FOUND,
        _ => FOUND,
    })
}

fn show(text: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{}", text.trim_end()).map_err(Failure::Output)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn the_name_or_the_first_argument_chooses_the_command_line() {
        let of = |typed: &[&str]| {
            let found = arguments_of(typed.iter().map(OsString::from).collect());
            found.map(|args| args.join(OsStr::new(" ")))
        };
        assert_eq!(of(&["rg", "-n", "x"]).unwrap(), "-n x");
        assert_eq!(of(&["/usr/bin/rg", "rg"]).unwrap(), "rg");
        assert_eq!(of(&["bin/rg.exe"]).unwrap(), "");
        assert_eq!(of(&["forge-search", "rg", "-n", "x"]).unwrap(), "-n x");
        assert_eq!(of(&["forge-search", "rg"]).unwrap(), "");
        assert_eq!(of(&["forge-search", "-e", "rg"]), None);
        assert_eq!(of(&["forge-search"]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn flags_of_ripgrep_are_known() {
        for flag in ["-v", "--replace=X", "--no-unicode", "-P"] {
            assert!(has_flag(flag), "{flag}");
        }
        for flag in ["-R", "--exclude-dir", "--perl-regexp", "-", ""] {
            assert!(!has_flag(flag), "{flag}");
        }
    }
}
