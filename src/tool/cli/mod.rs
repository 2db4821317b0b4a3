//! The command line: a thin surface over the tool.
//!
//! Owns arguments, output and exit codes. Every answer comes from [`crate::tool::search::SearchTool`].

mod again;
mod args;
mod backend;
mod building;
mod call;
#[cfg(unix)]
mod daemon;
mod doctor;
#[cfg(unix)]
mod execute;
mod explain;
mod flag_hints;
mod flag_order;
mod here;
mod index;
mod input;
mod links;
mod logging;
#[cfg(unix)]
mod manual;
mod mcp;
mod output;
mod progress;
mod question;
mod search;
mod setup;
mod show;
mod signals;
mod stats;
mod stdin;
#[cfg(unix)]
mod tui;

#[cfg(unix)]
pub use daemon::ggrep::main as ggrep;
/// The allocator of the programs. It returns memory that is unused for half a second to the system,
/// also while no thread allocates, so a daemon doesn't keep the memory of a finished build.
#[cfg(all(target_os = "linux", feature = "allocator"))]
pub use tikv_jemallocator::Jemalloc as Allocator;

/// The instance of [`Allocator`] that the programs install.
#[cfg(all(target_os = "linux", feature = "allocator"))]
pub const ALLOCATOR: Allocator = tikv_jemallocator::Jemalloc;

use std::io::{self, IsTerminal, Write};

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue};

use args::{Cli, Command};
#[cfg(unix)]
use daemon::ggrep::Other;
use setup::Environment;

use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;
use crate::tool::tools::ToolName;

/// Exit status when something went wrong.
const FAILED: u8 = 2;

/// Runs the program and returns its exit status: 0 if a line matched or a command succeeded, 1 if no line
/// matched or there is no index that can be used, 2 if something went wrong or the search ended early without a
/// match, 130 after an interrupt and 143 after a termination, as shells have it.
pub fn main() -> u8 {
    if std::env::args_os().len() <= 1 && io::stdout().is_terminal() {
        // Whoever types nothing but the name wants to know what it is.
        return match io::stdout().write_all(manual::SCREEN.as_bytes()) {
            Err(error) if !is_closed(&error) => FAILED,
            _ => 0,
        };
    }
    signals::wait_for_children();
    let parsed = Cli::command()
        .try_get_matches()
        .and_then(|matches| Ok((named(&matches), Cli::of_matches(&matches)?)));
    let (name, cli) = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let error = flag_hints::corrected(error, Cli::command());
            if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
                && let Some(hint) = flag_hints::hint(flag)
            {
                complain(&format!("{flag} is not offered: {hint}"));
                return FAILED;
            }
            // Help and version are no failures.
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
                && let Some(name) = std::env::args().nth(1).filter(|name| is_command(name))
            {
                complain(&as_pattern(&name));
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
            "`{name}` is a command, which does not read the pipe that is its standard input; {}; to run the command: \
             forge-search {name} </dev/null",
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
        // Whoever read the output has seen enough.
        Err(Failure::Output(error)) if is_closed(&error) => 0,
        Err(Failure::Output(error)) => {
            complain(&format!("the output can't be written: {error}"));
            FAILED
        }
    }
}

/// Returns whether the command writes its events to a log file, as a daemon does.
fn keeps_log(cli: &Cli) -> bool {
    #[cfg(unix)]
    if let Some(Command::Serve(args)) = &cli.command {
        return !args.detach;
    }
    let _ = cli;
    false
}

/// The commands that read standard input.
const READERS: [&str; 5] = ["search", "call", "mcp", "execute", "lease"];

/// Returns the command that was named, if one was.
fn named(matches: &clap::ArgMatches) -> Option<String> {
    matches.subcommand_name().map(str::to_string)
}

fn is_command(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

/// Says how to search for the name of a command.
fn as_pattern(name: &str) -> String {
    format!("to search for the word: forge-search -e {name}")
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Writes a message to standard error, its control characters escaped: it may name what a file or a caller
/// made up. Where it can't be written, there is nobody left to tell.
fn complain(message: &str) {
    complain_as("forge-search", message);
}

/// The same for a program of another name.
fn complain_as(program: &str, message: &str) {
    let mut err = io::stderr().lock();
    for (n, line) in message.split('\n').enumerate() {
        let (name, colon) = if n == 0 { (program, ": ") } else { ("", "") };
        let _ = writeln!(err, "{name}{colon}{}", escape_controls(line));
    }
}

/// Why a command did not succeed.
enum Failure {
    Tool(ToolError),
    Output(io::Error),
    /// A signal ended it; the exit status says which.
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
            // Whoever sits there may have meant another thing than to search for that.
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

/// Adds the command that may have been meant to the failure of a search for a word like it, in a path that is not there.
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

/// Returns the command that is nearly what is searched for.
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

/// Returns what completes this program in a shell.
fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    let mut program = completed_by(shell, &Cli::command());
    clap_complete::generate(shell, &mut program, "forge-search", &mut script);
    let script = String::from_utf8_lossy(&script);
    // For a program with a hyphen in its name the library writes the states of bash's commands in two ways. And in fish, a flag whose value is being typed
    // is not complete, so that nothing would be completed.
    let parse = "argparse -s (__fish_forge_search_global_optspecs) --";
    script
        .replace("forge__subcmd__search", "forge__search")
        .replace(
            &format!("{parse} $cmd 2>/dev/null\n"),
            &format!("{parse} $cmd 2>/dev/null\n    or {parse} $cmd[1..-2] 2>/dev/null\n"),
        )
}

/// Returns a command as a shell can complete it: without what is hidden. Fish takes no full stop for a flag, and completes none at all where one is; zsh takes
/// what stands before commands for them.
fn completed_by(shell: clap_complete::Shell, command: &clap::Command) -> clap::Command {
    use clap_complete::Shell;
    let commands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let commands: Vec<_> = commands.map(|sub| completed_by(shell, sub)).collect();
    let args = command.get_arguments().filter(|arg| {
        let in_the_way = shell == Shell::Zsh && arg.is_positional() && !commands.is_empty();
        !arg.is_hide_set() && !in_the_way
    });
    // Only what completing is about, without what may be together, which names what is hidden.
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
