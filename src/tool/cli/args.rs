//! The arguments of the command line.
//!
//! This module owns the names, help texts and examples. Flags have ripgrep's names if they have
//! ripgrep's meaning. `parsing` parses the command line, `question` converts the arguments of a
//! search, `flag_hints` and `left_out` explain refused ones, and `manual` prints the help. The
//! `commands` act on the rest.

mod commands;
pub(in crate::tool::cli) mod flag_hints;
mod flag_order;
pub(in crate::tool::cli) mod left_out;
pub(in crate::tool::cli) mod manual;
mod parsing;
mod query;
pub(in crate::tool::cli) mod question;
#[cfg(unix)]
mod unix_commands;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::tool::cli::args::flag_order::type_rules;
#[cfg(unix)]
use crate::tool::cli::commands::daemon::ggrep::{DaemonArgs, Ggrep, StatusArgs};
pub(super) use commands::{CallArgs, DoctorArgs, SetupTarget, SetupTargetArgs, ToolArgs};
pub(super) use query::{DaemonWhen, ExplainArgs, QueryArgs, SearchArgs, SortBy, When};
#[cfg(unix)]
pub(super) use unix_commands::{ExecuteArgs, IssueArgs, LeaseCommand, McpArgs, ServeArgs, TuiArgs};

/// The headings under which the help lists flags.
const PATTERNS: &str = "Patterns";
const FILES: &str = "Files";
const OUTPUT: &str = "Output";
const LIMITS: &str = "Limits";
const HOW: &str = "Index and configuration";

const EXAMPLES: &str = "\
Examples:
  forge-search 'fn \\w+_test'                 search for a regular expression
  forge-search -F 'a[0].x' src               search src for a literal text
  forge-search -w -g '*.rs' -g '!gen/' name  search for a whole word in Rust files, except in gen
  forge-search -C2 --max-results 50 TODO     show two lines around each match, at most 50 lines
  forge-search -l -t rust unsafe             list the Rust files with a match
  forge-search index build                   build an index, which makes later searches faster
  forge-search call '{\"pattern\":\"TODO\"}'     answer one JSON request
  forge-search doctor                        show the settings in effect and problems to fix

Exit status: 0 if a line matched, 1 if no line matched, 2 after an error, or if the search stopped
early without a match.";

/// Exact, ordered, bounded search over a live source tree.
///
/// Prints the lines that match a regular expression (or, with -F, a literal text), always in the
/// same order. Reports when an answer is incomplete. Ignore files have the same effect as in
/// ripgrep.
#[derive(Debug, Parser)]
#[command(
    name = "forge-search",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    args_override_self = true,
    after_help = EXAMPLES,
    max_term_width = 100
)]
pub(super) struct Cli {
    /// The command, if it is not a search.
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    /// Print debug messages to standard error [default: warnings only]
    ///
    /// The messages name the configuration file, the process that answers and the index that is
    /// used. RUST_LOG selects other messages, for example RUST_LOG=forge_search::index=debug.
    #[arg(long, global = true)]
    pub(super) debug: bool,

    /// The search, if no command is named.
    #[command(flatten)]
    pub(super) search: SearchArgs,
}

impl Cli {
    /// Converts parsed arguments. Reads flags that depend on their order in that order.
    ///
    /// # Errors
    ///
    /// Errors of clap.
    pub(super) fn of_matches(matches: &ArgMatches) -> Result<Cli, clap::Error> {
        let mut cli = Cli::from_arg_matches(matches)?;
        match (&mut cli.command, matches.subcommand()) {
            (None, _) => cli.search.read_order(matches),
            (Some(Command::Search(args)), Some((_, matches))) => args.read_order(matches),
            (Some(Command::Explain(args)), Some((_, matches))) => {
                args.query.type_rules = type_rules(matches);
            }
            _ => {}
        }
        Ok(cli)
    }
}

/// The commands of `forge-search`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Search files for a pattern (the default command).
    #[command(after_help = EXAMPLES, args_override_self = true)]
    Search(SearchArgs),
    /// Answer JSON requests from programs.
    ///
    /// Reads one request from the argument or standard input, and prints one response. With
    /// --jsonl, each line of standard input is a request, and the responses are printed one per
    /// line, in the same order.
    #[command(after_help = "\
Examples:
  forge-search call '{\"pattern\": \"main\", \"include_glob\": [\"*.c\"]}'
  echo '{\"pattern\": \"main\"}' | forge-search call --root /srv/tree --set max_files=100000
  forge-search call --tool search_files '{\"path\": \"src\", \"query\": \"main\"}'
  forge-search call --jsonl --root . < requests.jsonl
  forge-search call --jsonl --wait-index --root /srv/tree < requests.jsonl

A failed call prints {\"error\": {\"code\": …, \"message\": …}} and, without --jsonl, exits with 2.")]
    Call(CallArgs),
    /// Build, inspect and remove indexes.
    ///
    /// An index makes searches faster and never changes an answer: files that changed since the
    /// build are searched without the index. Indexes are stored in a cache directory, which
    /// `doctor` shows.
    ///
    /// An index covers one root: the working directory, or --root. A search uses the index of the
    /// deepest indexed root that contains the searched path. If the configuration sets index_roots,
    /// only those roots have indexes.
    #[command(after_help = INDEX_EXAMPLES)]
    Index {
        /// The command for indexes.
        #[command(subcommand)]
        command: IndexCommand,
    },
    /// Show how an index narrows a search, or why it does not.
    ///
    /// Shows the text that a file must contain to be searched, the number of files left to search,
    /// and the number of files with a match. Takes at most one path. Runs in this process, so
    /// --daemon has no effect.
    #[command(
        args_override_self = true,
        after_help = "\
Examples:
  forge-search explain kmalloc_array         show the plan and the number of skipped files
  forge-search explain -i 'foo|bar' src      explain a search below src that ignores case
  forge-search explain --json -F 'a[0].x'    print one JSON object, for programs"
    )]
    Explain(ExplainArgs),
    /// Search with the command line of ripgrep, as if this program were `rg`.
    ///
    /// All arguments are those of ripgrep 15. A link named `rg` to this program does the same.
    /// `forge-search rg --help` lists the flags.
    #[command(disable_help_flag = true)]
    Rg {
        /// Arguments of ripgrep.
        #[arg(
            value_name = "ARGUMENT",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        args: Vec<OsString>,
    },
    /// Ask a question and get ranked results; same as `ggrep`.
    ///
    /// Finds the files and lines that best answer a question. A question consists of words,
    /// identifiers or a piece of code. `forge-search ask status`, `health` and `stop` manage the
    /// daemon. Use this command if `ggrep` is another program on your system.
    #[cfg(unix)]
    Ask(Box<Ggrep>),
    /// Run the daemon of a tree, which answers `ggrep` and makes searches faster.
    ///
    /// The daemon follows the tree, so its answers include every edit made before the request. It
    /// also answers searches of this program that have the same configuration. It ends on SIGINT,
    /// SIGTERM or `ggrep stop`. With --detach, it also ends after idle_exit_ms of [tools.daemon]
    /// without a request (default: 4 hours).
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search serve                         serve the tree around the working directory
  forge-search serve --detach /srv/tree      serve in the background; prints the socket
  forge-search serve --http 127.0.0.1:8080   also serve a web page; prints its URL
  forge-search serve --set tools.daemon.max_concurrent_queries=4")]
    Serve(ServeArgs),
    /// Show the daemon of a tree: process, socket, index state and start time.
    ///
    /// Same as `ggrep status`. If no daemon is running, the state says so.
    #[cfg(unix)]
    Status(StatusArgs),
    /// Stop the daemon of a tree, if one is running.
    ///
    /// Same as `ggrep stop`. Running queries are cancelled. Their clients ask another daemon, or
    /// search by themselves.
    #[cfg(unix)]
    Stop(DaemonArgs),
    /// Search interactively, with results as you type.
    ///
    /// Shows the results of `forge-search PATTERN` with the lines around them. Enter opens a result
    /// in your editor. The daemon of the tree answers, and is started if it is not running.
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search tui                           search the working directory
  forge-search tui --root /srv/tree 'fn main'
  EDITOR='code -w' forge-search tui          choose the editor; VISUAL overrides EDITOR

Keys:
  Up, Down  select a result                  F3      whole words only
  Enter     open it in the editor            F4      case
  F2        literal text or expression       F5      number of edits, as --fuzzy
  Ctrl-R    search again                     Esc     quit")]
    Tui(TuiArgs),
    /// Serve agents over the Model Context Protocol, on standard input and output.
    ///
    /// Offers the tools Search, search_files, find_files and find_code, and resources with the
    /// state of the index. Serves the working directory, or --root. A client that names roots can
    /// search only inside of them. The daemon of the tree answers, and is started if it is not
    /// running. With --no-daemon, or if no daemon can be started, this process answers.
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search mcp                           serve the working directory; an agent starts this
  forge-search mcp --root /srv/tree          serve another tree
  forge-search setup claude                  register it with a client

docs/guide/agents.md describes how to configure and instruct agents.")]
    Mcp(McpArgs),
    /// Execute one search task of a scheduler, which permits it with a signed lease.
    ///
    /// Checks the lease, and searches the scope in a separate process (limits: 30 s, 256 MB).
    /// Prints one JSON object: the result, or a failure with its code. A task that was executed
    /// before gets the same bytes again. The table [executor] of the configuration defines scopes
    /// and keys.
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search execute --lease-file task.lease task.json
  scheduler next | forge-search execute --lease-file task.lease -

Exit status: 0 after a result, 1 after a failure in JSON, 2 after any other error.")]
    Execute(ExecuteArgs),
    /// Run the worker process of execute.
    #[cfg(unix)]
    #[command(hide = true)]
    ExecuteWorker,
    /// Create keys for leases, issue leases and inspect leases.
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search lease keygen scheduler.key   write a secret key; print the public key
  forge-search lease issue --key scheduler.key --task t1 --capability SEARCH_FILES --scope docs
  forge-search lease inspect v4.public.…    print the claims and check the signature

Add the public key to keys of [executor] in the configuration.")]
    Lease {
        /// The command for leases.
        #[command(subcommand)]
        command: LeaseCommand,
    },
    /// Register this program with a coding agent or an editor; shows the change.
    ///
    /// Adds the server `forge-search mcp` to the configuration file of the client. Other entries
    /// and comments stay. Without --write, only shows the change. `rg` and `agents-md` set up a
    /// link and a paragraph instead.
    #[command(after_help = "\
Examples:
  forge-search setup claude                  show the change for Claude Code
  forge-search setup claude --write          make it
  forge-search setup claude --undo           take it back
  forge-search setup vscode --project        show the change of .vscode/mcp.json
  forge-search setup rg --write              link rg to this program
  forge-search setup agents-md --write       add a paragraph to AGENTS.md")]
    Setup(SetupTargetArgs),
    /// Print the JSON schema of a tool's request.
    Schema(ToolArgs),
    /// Show the settings in effect (engines, sandbox, index, configuration) and problems to fix.
    ///
    /// Shows where each setting that is not a default comes from. Exits with 2 if there are
    /// problems.
    Doctor(DoctorArgs),
    /// Print a completion script for a shell.
    #[command(after_help = "\
Example:
  forge-search completions bash > ~/.local/share/bash-completion/completions/forge-search")]
    Completions {
        /// Shell to print the script for.
        shell: Shell,
    },
    /// Print a manual page (roff), or write all of them.
    #[command(after_help = "\
Examples:
  forge-search man | man -l -
  forge-search man index build | man -l -
  forge-search man --dir ~/.local/share/man/man1

After the last example, `man forge-search` and `man ggrep` show the pages.")]
    Man {
        /// Write the pages of the program, of each command and of ggrep to DIR.
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        dir: Option<PathBuf>,
        /// Command whose page to print, for example `index build` [default: the program].
        command: Vec<String>,
    },
}

const INDEX_EXAMPLES: &str = "\
Examples:
  forge-search index build                   build the index of the working directory
  forge-search index status /srv/tree        show whether the index matches the tree
  forge-search index verify --all            read and check all stored indexes
  forge-search index list                    list all stored indexes with tree, size and age
  forge-search index clear /srv/tree         remove the indexes of a tree

Exit status: 0 after success, 1 if status finds no index that matches the tree, 2 after an error, or
if an index is damaged or could not be checked.";

/// The commands for indexes.
#[derive(Debug, Subcommand)]
pub(super) enum IndexCommand {
    /// Build or rebuild the index of a tree.
    ///
    /// Searches use the old index until the new one is complete.
    Build(IndexArgs),
    /// Show whether the index of a tree matches it, its contents, and later changes.
    ///
    /// Exits with 1 unless the index matches the tree. Searches may still use it.
    Status(IndexArgs),
    /// Read the indexes of a tree completely and check them for damage.
    ///
    /// Exits with 2 if an index is damaged or could not be checked.
    Verify(IndexAllArgs),
    /// List all stored indexes.
    List(IndexListArgs),
    /// Remove the indexes of a tree.
    Clear(IndexAllArgs),
}

/// A tree and its configuration.
#[derive(Clone, Debug, Args)]
pub(super) struct IndexArgs {
    /// Root of the tree; same as --root [default: the working directory].
    #[arg(value_name = "ROOT", conflicts_with = "root")]
    pub(super) tree: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// The arguments of `index list`.
#[derive(Clone, Debug, Args)]
pub(super) struct IndexListArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// One tree, or all trees.
#[derive(Clone, Debug, Args)]
pub(super) struct IndexAllArgs {
    /// Verify or remove the stored indexes of all trees.
    #[arg(long, conflicts_with = "tree")]
    pub(super) all: bool,
    /// The tree and its configuration.
    #[command(flatten)]
    pub(super) index: IndexArgs,
}

/// The root and the configuration.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct SetupArgs {
    /// Use the tree at DIR; relative paths start there [default: the working directory]
    ///
    /// For `ggrep`, `ask`, `serve`, `status` and `stop` the default is the git working tree around
    /// the working directory.
    #[arg(long, value_name = "DIR", help_heading = HOW)]
    pub(super) root: Option<PathBuf>,
    /// Read the configuration from FILE, in TOML [default: $FORGE_SEARCH_CONFIG, else
    /// forge-search/config.toml in $XDG_CONFIG_HOME or ~/.config]
    ///
    /// docs/configuration.md lists all keys.
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub(super) config: Option<PathBuf>,
    /// Set one configuration key, for example max_files=5000; repeatable.
    ///
    /// Keys of other tables than [tools.search] need a full name, for example
    /// tools.sandbox.allow_absolute=true.
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = HOW)]
    pub(super) set: Vec<String>,
}

fn at_least_one() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..)
}

/// Parses a number of bytes, such as `64M`.
fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G']) {
        None => (text, 1),
        Some(digits) => match text.to_ascii_uppercase().as_bytes().last() {
            Some(b'K') => (digits, 1 << 10),
            Some(b'M') => (digits, 1 << 20),
            _ => (digits, 1 << 30),
        },
    };
    let bytes = digits.parse::<u64>().ok();
    match bytes.and_then(|count| count.checked_mul(unit)) {
        Some(0) => Err("it is not in 1..".to_string()),
        Some(bytes) => Ok(bytes),
        None if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            Err("it is too large".to_string())
        }
        None => Err("write a number of bytes, as in 1000000, 500K, 10M or 1G".to_string()),
    }
}
