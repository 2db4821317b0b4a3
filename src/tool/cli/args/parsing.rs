//! Parsing the command line of `forge-search`.
//!
//! clap needs a description of all flags of all commands before it parses anything. That takes
//! longer than the rest of a short search. So the command line is first parsed as a search, with
//! the flags of a search only. The whole description decides all else: commands, help and errors.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory};

use super::{Cli, SearchArgs};

/// The names of all commands, with those that only some systems have.
const COMMANDS: &[&str] = &[
    "search",
    "call",
    "index",
    "explain",
    "rg",
    "ask",
    "serve",
    "status",
    "stop",
    "tui",
    "mcp",
    "execute",
    "execute-worker",
    "lease",
    "setup",
    "schema",
    "doctor",
    "fix",
    "completions",
    "man",
    "help",
];

impl Cli {
    /// Parses the arguments of the process, the name of the program first. Also returns the name of
    /// the command, if there is one.
    ///
    /// # Errors
    ///
    /// Errors of clap. Requests for help are errors, too.
    pub(in crate::tool::cli) fn parsed(
        args: Vec<OsString>,
    ) -> Result<(Option<String>, Cli), clap::Error> {
        let matches = match as_search(&args) {
            Some(matches) => matches,
            None => Cli::command().try_get_matches_from(args)?,
        };
        let name = matches.subcommand_name().map(str::to_string);
        Ok((name, Cli::of_matches(&matches)?))
    }
}

/// Parses the arguments of a search without a command. `None` if they may be something else.
fn as_search(args: &[OsString]) -> Option<ArgMatches> {
    let is_command = |arg: &OsString| COMMANDS.iter().any(|name| arg == name);
    if args.iter().skip(1).any(is_command) {
        return None;
    }
    let debug = Arg::new("debug").long("debug").action(ArgAction::SetTrue);
    let search = clap::Command::new("forge-search").args_override_self(true);
    let search = SearchArgs::augment_args(search).arg(debug);
    search.try_get_matches_from(args).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_commands_are_listed() {
        let mut program = Cli::command();
        program.build();
        for command in program.get_subcommands() {
            for name in command.get_all_aliases().chain([command.get_name()]) {
                assert!(COMMANDS.contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn a_search_is_parsed_as_by_the_whole_description() {
        for line in [
            "TODO",
            "TODO src docs",
            "-e TODO -e FIXME --debug",
            "--debug -w -i TODO -- -x",
            "-t rust -T py -t c TODO",
            "--color never -p TODO",
            "-p --no-heading TODO",
            "-C2 -A3 --max-results 7 --max-results 9 -F a.b",
            "--files -g *.rs --sort path",
            "-f patterns.txt --root / --set max_files=1 x",
            "-uu --json x",
            "",
        ] {
            let args: Vec<OsString> = std::iter::once("forge-search")
                .chain(line.split_whitespace())
                .map(OsString::from)
                .collect();
            let whole = Cli::command().try_get_matches_from(&args);
            let whole = whole.and_then(|matches| Cli::of_matches(&matches));
            let search = as_search(&args).map(|matches| Cli::of_matches(&matches));
            match (whole, search) {
                (Ok(whole), Some(Ok(search))) => {
                    assert_eq!(format!("{whole:?}"), format!("{search:?}"), "{line}");
                }
                (whole, search) => {
                    assert!(whole.is_err() && search.is_none(), "{line}: {whole:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_search_is_left_to_the_whole_description() {
        for line in [
            "index status",
            "TODO index",
            "--help",
            "-V",
            "--no-such-flag x",
            "help",
        ] {
            let args = std::iter::once("forge-search").chain(line.split_whitespace());
            let args: Vec<OsString> = args.map(OsString::from).collect();
            assert!(as_search(&args).is_none(), "{line}");
        }
    }
}
