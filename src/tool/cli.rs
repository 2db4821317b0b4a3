//! The command line: arguments, output and exit codes of `forge-search` and `ggrep`.
//!
//! [`main`] parses the arguments (`args`) and calls the `run` function of one of the `commands`,
//! such as `search` or `index`. `setup` reads the environment and loads the configuration.
//! `answers` decides whether the daemon of the tree or this process answers. It uses the code of
//! one command, `explain`. The answers come from the layers below (`tool::answering`,
//! `tool::daemon`), and `output` prints them. Every failure ends as a message on standard error and
//! an exit status.

pub(in crate::tool) mod answers;
mod args;
mod commands;
mod input;
mod output;
mod setup;

#[cfg(unix)]
pub use commands::daemon::ggrep::main as ggrep;
/// The allocator of the programs. It returns unused memory to the system after half a second, even
/// while no thread allocates. A daemon thus doesn't keep the memory of a finished build.
#[cfg(all(target_os = "linux", feature = "allocator"))]
pub use tikv_jemallocator::Jemalloc as Allocator;

/// The instance of [`Allocator`] that the programs install.
#[cfg(all(target_os = "linux", feature = "allocator"))]
pub const ALLOCATOR: Allocator = tikv_jemallocator::Jemalloc;

use std::io::{self, IsTerminal, Write};

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue};

use args::{Cli, Command, flag_hints, left_out, manual};
#[cfg(unix)]
use commands::daemon::ggrep::Other;
use commands::{call, clients, doctor, explain, index, search};
#[cfg(unix)]
use commands::{daemon, execute, mcp, tui};
use output::show;
use setup::{Environment, logging, signals};

use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;
use crate::tool::tools::ToolName;

/// Exit status after an error.
const FAILED: u8 = 2;

/// Runs the program and returns its exit status.
///
/// - 0: a line matched, or a command succeeded.
/// - 1: no line matched, or no index matches the tree.
/// - 2: an error occurred, or the search ended early without a match.
/// - 130 after an interrupt, and 143 after a termination, as in shells.
pub fn main() -> u8 {
    if std::env::args_os().len() <= 1 && io::stdout().is_terminal() {
        // A user who types only the program's name needs an introduction.
        return match io::stdout().write_all(manual::SCREEN.as_bytes()) {
            Err(error) if !is_closed(&error) => FAILED,
            _ => 0,
        };
    }
    if let Some(name) = std::env::args_os().nth(1)
        && let Some(name) = name.to_str()
        && let Some(why) = left_out::reason(name)
    {
        complain(&format!("`{name}` {why}; {}", as_pattern(name)));
        return FAILED;
    }
    signals::wait_for_children();
    let (name, cli) = match Cli::parsed(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(error) => {
            let error = flag_hints::corrected(error, Cli::command());
            if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
                && let Some(hint) = flag_hints::hint(flag)
            {
                let more = match crate::tool::rg::has_flag(flag) {
                    true => format!("; `forge-search rg {flag}` is ripgrep's"),
                    false => String::new(),
                };
                complain(&format!("{flag} is not offered: {hint}{more}"));
                return FAILED;
            }
            // Help and version are not errors.
            let printed = match manual::is_short(&error) {
                true => io::stdout().write_all(manual::SCREEN.as_bytes()),
                false => error.print(),
            };
            let unwritten = printed.as_ref().is_err_and(|error| !is_closed(error));
            if let Err(error) = printed
                && unwritten
            {
                complain(&format!("the output can't be written: {error}"));
            }
            if error.use_stderr()
                && let Some(name) = std::env::args_os().nth(1)
                && let Some(name) = name.to_str().filter(|name| is_command(name))
            {
                complain(&as_pattern(name));
            }
            return if error.use_stderr() || unwritten {
                FAILED
            } else {
                0
            };
        }
    };
    if let Some(name) = name.filter(|name| !READERS.contains(&name.as_str()))
        && input::is_piped()
    {
        complain(&format!(
            "`{name}` is a command that does not read standard input, but standard input is a \
             pipe; {}; to run the command: forge-search {name} </dev/null",
            as_pattern(&name)
        ));
        return FAILED;
    }
    if !keeps_log(&cli) {
        logging::start("forge-search", cli.debug);
    }
    match run(cli) {
        Ok(status) => status,
        Err(Failure::Signal(status)) => status,
        Err(Failure::Tool(error)) => {
            complain(&error.message());
            FAILED
        }
        // The reader of the output has closed the pipe, such as `head`. That is not an error.
        Err(Failure::Output(error)) if is_closed(&error) => 0,
        Err(Failure::Output(error)) => {
            complain(&format!("the output can't be written: {error}"));
            FAILED
        }
    }
}

/// Returns whether the command writes its events to a log file. Only a daemon does; with `--detach`
/// the command starts a daemon in another process.
fn keeps_log(cli: &Cli) -> bool {
    #[cfg(unix)]
    if let Some(Command::Serve(args)) = &cli.command {
        return !args.detach;
    }
    let _ = cli;
    false
}

/// The commands that read standard input.
const READERS: [&str; 6] = ["search", "call", "mcp", "execute", "lease", "rg"];

fn is_command(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

/// Returns a hint on how to search for the name of a command.
fn as_pattern(name: &str) -> String {
    format!("to search for the word: forge-search -e {name}")
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Writes a message to standard error, with control characters escaped. A message may quote names
/// from files or callers. Write errors are ignored: there is no other place to report them.
fn complain(message: &str) {
    complain_as("forge-search", message);
}

/// Writes a message to standard error in the name of another program, as [`complain`] does.
fn complain_as(program: &str, message: &str) {
    let mut err = io::stderr().lock();
    for (n, line) in message.split('\n').enumerate() {
        let (name, colon) = if n == 0 { (program, ": ") } else { ("", "") };
        let _ = writeln!(err, "{name}{colon}{}", escape_controls(line));
    }
}

/// The reason why a command did not succeed.
enum Failure {
    Tool(ToolError),
    Output(io::Error),
    /// A signal ended the command; the exit status names the signal.
    Signal(u8),
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Failure {
        Failure::Tool(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

fn run(cli: Cli) -> Result<u8, Failure> {
    match cli.command {
        None => {
            let query = &cli.search.query;
            let status = search::run(&cli.search, &Environment::read())
                .map_err(|failure| hinted(failure, query))?;
            // The user may have mistyped a command: `forge-search statsu` searches for `statsu`.
            if status == 1
                && query.paths.is_empty()
                && io::stderr().is_terminal()
                && let Some(command) = mistyped(query)
            {
                complain(&format!(
                    "nothing was found; did you mean the command `{command}`?"
                ));
            }
            Ok(status)
        }
        Some(Command::Search(args)) => search::run(&args, &Environment::read()),
        Some(Command::Call(args)) => call::run(&args, &Environment::read()),
        Some(Command::Index { command }) => index::run(&command, &Environment::read()),
        Some(Command::Explain(args)) => explain::run(&args, &Environment::read()),
        Some(Command::Rg { args }) => Ok(crate::tool::rg::main(&args)),
        #[cfg(unix)]
        Some(Command::Ask(args)) => Ok(daemon::ggrep::finish(*args)),
        #[cfg(unix)]
        Some(Command::Status(args)) => Ok(daemon::ggrep::finish_command(Other::Status(args))),
        #[cfg(unix)]
        Some(Command::Stop(args)) => Ok(daemon::ggrep::finish_command(Other::Stop(args))),
        #[cfg(unix)]
        Some(Command::Serve(args)) => daemon::serve::run(&args, &Environment::read()),
        #[cfg(unix)]
        Some(Command::Execute(args)) => execute::run(&args, &Environment::read()),
        #[cfg(unix)]
        Some(Command::Tui(args)) => tui::run(&args, &Environment::read()),
        #[cfg(unix)]
        Some(Command::Mcp(args)) => mcp::run(&args, &Environment::read()),
        #[cfg(unix)]
        Some(Command::ExecuteWorker) => Ok(crate::tool::executor::worker::main()),
        #[cfg(unix)]
        Some(Command::Lease { command }) => execute::lease(&command, &Environment::read()),
        Some(Command::Doctor(args)) => doctor::run(&args, &Environment::read()),
        Some(Command::Setup(args)) => clients::run(&args, &Environment::read()),
        Some(Command::Schema(tool)) => {
            let schema = ToolName::of(&tool.tool)?.request_schema();
            let schema = serde_json::to_string_pretty(schema).unwrap_or_default();
            writeln!(io::stdout(), "{schema}")?;
            Ok(0)
        }
        Some(Command::Completions { shell }) => {
            io::stdout().write_all(completions(shell).as_bytes())?;
            Ok(0)
        }
        Some(Command::Man { command, dir }) => {
            match dir {
                Some(dir) => {
                    let pages = manual::write_all(&dir)?;
                    writeln!(io::stdout(), "{pages} pages in {}", show::path(&dir))?;
                }
                None => manual::print(&command)?,
            }
            Ok(0)
        }
    }
}

/// Adds a hint to a failed search in paths. For example, `forge-search indx build` searches for
/// `indx` in a path `build` that does not exist; the user meant the command `index`.
fn hinted(failure: Failure, query: &args::QueryArgs) -> Failure {
    let Failure::Tool(ToolError::ExecutionFailed { tool, message }) = failure else {
        return failure;
    };
    let message = match mistyped(query) {
        Some(command) if !query.paths.is_empty() => {
            format!("{message}; did you mean the command `{command}`?")
        }
        _ => message,
    };
    Failure::Tool(ToolError::ExecutionFailed { tool, message })
}

/// Returns the command whose name differs from the pattern by at most two edits.
fn mistyped(query: &args::QueryArgs) -> Option<String> {
    let typed = query.pattern.as_deref()?.to_str()?;
    let program = Cli::command();
    let names = program.get_subcommands().filter(|sub| !sub.is_hide_set());
    let apart = |name: &str| strsim::osa_distance(name, typed);
    let near = names
        .map(clap::Command::get_name)
        .min_by_key(|name| apart(name))?;
    (apart(near) <= 2 && near.len() > 3).then(|| near.to_string())
}

/// Returns the completion script for a shell.
fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    let mut program = completed_by(shell, &Cli::command());
    clap_complete::generate(shell, &mut program, "forge-search", &mut script);
    let script = String::from_utf8_lossy(&script);
    // Two defects of clap_complete. In bash, it writes state names in two ways if the program's
    // name has a hyphen. In fish, a flag whose value is being typed fails to parse, so nothing
    // would be completed; retry without the last word.
    let parse = "argparse -s (__fish_forge_search_global_optspecs) --";
    script
        .replace("forge__subcmd__search", "forge__search")
        .replace(
            &format!("{parse} $cmd 2>/dev/null\n"),
            &format!("{parse} $cmd 2>/dev/null\n    or {parse} $cmd[1..-2] 2>/dev/null\n"),
        )
}

/// Returns a command reduced to the visible parts that a shell completes. Fish completes nothing at
/// all if a flag is `.`, so that flag is left out. Zsh mistakes positional arguments before
/// subcommands for subcommands, so those are left out.
fn completed_by(shell: clap_complete::Shell, command: &clap::Command) -> clap::Command {
    use clap_complete::Shell;
    let commands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let commands: Vec<_> = commands.map(|sub| completed_by(shell, sub)).collect();
    let args = command.get_arguments().filter(|arg| {
        let in_the_way = shell == Shell::Zsh && arg.is_positional() && !commands.is_empty();
        !arg.is_hide_set() && !in_the_way
    });
    // Copy only the properties that completion uses. Conflict lists would name hidden arguments.
    let args = args.map(|arg| {
        let short = arg
            .get_short()
            .filter(|short| shell != Shell::Fish || *short != '.');
        let mut plain = clap::Arg::new(arg.get_id().to_string())
            .action(arg.get_action().clone())
            .value_parser(arg.get_value_parser().clone())
            .value_hint(arg.get_value_hint())
            .help(arg.get_help().cloned().unwrap_or_default())
            .short(short);
        if let Some(long) = arg.get_long() {
            plain = plain.long(long.to_string());
        }
        if let Some(count) = arg.get_num_args() {
            plain = plain.num_args(count);
        }
        plain
    });
    clap::Command::new(command.get_name().to_string())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .args(args)
        .subcommands(commands)
}
