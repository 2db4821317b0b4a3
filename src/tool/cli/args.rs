//! The arguments of the command line.
//!
//! Owns the names, help texts and examples. Flags have ripgrep's names if they have ripgrep's
//! meaning. Other modules act on the arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

#[cfg(unix)]
use super::daemon::ggrep::{DaemonArgs, Ggrep, StatusArgs};
use super::flag_order::type_rules;
use super::links::HyperlinkFormat;
use crate::exec::types::TypeRule;
use crate::tool::config::DaemonUse;

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

/// The commands.
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
    /// Offers the tools Search, search_files and find_files, and resources with the state of the
    /// index. Serves the working directory, or --root. A client that names roots can search only
    /// inside of them. The daemon of the tree answers, and is started if it is not running. With
    /// --no-daemon, or if no daemon can be started, this process answers.
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search mcp                           serve the working directory; an agent starts this
  forge-search mcp --root /srv/tree          serve another tree
  claude mcp add forge-search -- forge-search mcp

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
  forge-search index status /srv/tree        show whether the index can be used
  forge-search index verify --all            read and check all stored indexes
  forge-search index list                    list all stored indexes with tree, size and age
  forge-search index clear /srv/tree         remove the indexes of a tree

Exit status: 0 after success, 1 if status finds no usable index, 2 after an error, or if an index is
damaged or could not be checked.";

/// The commands for indexes.
#[derive(Debug, Subcommand)]
pub(super) enum IndexCommand {
    /// Build or rebuild the index of a tree.
    ///
    /// Searches use the old index until the new one is complete.
    Build(IndexArgs),
    /// Show whether the index of a tree can be used, its contents, and later changes.
    ///
    /// Exits with 1 if no index can be used.
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
    /// The tree.
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

/// The patterns, and the files to search.
#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    /// Regular expression to search for; with -e, -f or --files, the first path instead.
    pub(super) pattern: Option<OsString>,
    /// Files and directories to search; - is standard input [default: the working directory]
    ///
    /// Without a path and --root, a search reads standard input if it is a file or a pipe that the
    /// shell made.
    pub(super) paths: Vec<PathBuf>,

    /// Search for PATTERN, which may start with a dash; repeatable.
    ///
    /// A line matches if at least one pattern matches.
    #[arg(short = 'e', long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = PATTERNS)]
    pub(super) regexp: Vec<String>,
    /// Search for the patterns in FILE, one per line; - is standard input; repeatable.
    #[arg(short = 'f', long, value_name = "FILE", help_heading = PATTERNS)]
    pub(super) file: Vec<PathBuf>,
    /// Treat each PATTERN as a literal text, not as a regular expression.
    #[arg(short = 'F', long, overrides_with = "no_fixed_strings", help_heading = PATTERNS)]
    pub(super) fixed_strings: bool,
    /// Undo -F.
    #[arg(long, hide = true, overrides_with = "fixed_strings")]
    pub(super) no_fixed_strings: bool,
    /// Match whole words only.
    #[arg(short = 'w', long, overrides_with = "line_regexp", help_heading = PATTERNS)]
    pub(super) word_regexp: bool,
    /// Match whole lines only.
    #[arg(short = 'x', long, overrides_with = "word_regexp", help_heading = PATTERNS)]
    pub(super) line_regexp: bool,
    /// Ignore case, by Unicode's simple case folding.
    #[arg(short = 'i', long, overrides_with_all = ["case_sensitive", "smart_case"], help_heading = PATTERNS)]
    pub(super) ignore_case: bool,
    /// Distinguish uppercase and lowercase letters.
    #[arg(short = 's', long, overrides_with_all = ["ignore_case", "smart_case"], help_heading = PATTERNS)]
    pub(super) case_sensitive: bool,
    /// Ignore case unless PATTERN has an uppercase letter [default].
    #[arg(short = 'S', long, overrides_with_all = ["ignore_case", "case_sensitive"], help_heading = PATTERNS)]
    pub(super) smart_case: bool,
    /// Match approximately, with at most LEVEL edits (1 to 4).
    ///
    /// An edit inserts, deletes or changes one character.
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u64).range(1..=4), help_heading = PATTERNS)]
    pub(super) fuzzy: Option<u64>,

    /// Search only files that match GLOB; with a leading !, skip them; repeatable.
    ///
    /// If several globs match a file, the last one decides. Globs have the syntax of .gitignore and
    /// start at the working directory, or at --root. A glob that matches a directory covers all
    /// files in it. Files that are named as paths are always searched.
    #[arg(short = 'g', long, value_name = "GLOB", help_heading = FILES)]
    pub(super) glob: Vec<String>,
    /// Search only files of TYPE, for example rust or py; repeatable.
    ///
    /// If several -t and -T match a file, the last one decides. --type-list prints all types.
    #[arg(short = 't', long = "type", value_name = "TYPE", help_heading = FILES)]
    pub(super) types: Vec<String>,
    /// Skip files of TYPE; repeatable.
    #[arg(short = 'T', long = "type-not", value_name = "TYPE", help_heading = FILES)]
    pub(super) types_not: Vec<String>,
    /// The values of -t and -T in the order given.
    #[arg(skip)]
    pub(super) type_rules: Vec<TypeRule>,
    /// Search hidden files and directories.
    #[arg(short = '.', long, overrides_with = "no_hidden", help_heading = FILES)]
    pub(super) hidden: bool,
    /// Undo --hidden.
    #[arg(long, hide = true, overrides_with = "hidden")]
    pub(super) no_hidden: bool,
    /// Follow symbolic links that stay inside the root.
    #[arg(short = 'L', long, overrides_with = "no_follow", help_heading = FILES)]
    pub(super) follow: bool,
    /// Undo -L.
    #[arg(long, hide = true, overrides_with = "follow")]
    pub(super) no_follow: bool,
    /// Disregard ignore files such as .gitignore.
    #[arg(long, overrides_with = "ignore", help_heading = FILES)]
    pub(super) no_ignore: bool,
    /// Undo --no-ignore.
    #[arg(long, hide = true, overrides_with = "no_ignore")]
    pub(super) ignore: bool,
    /// Same as --no-ignore; -uu is the same as --no-ignore --hidden.
    #[arg(short = 'u', long, action = ArgAction::Count, help_heading = FILES)]
    pub(super) unrestricted: u8,
    /// Descend at most NUM levels of directories; 1 searches only the directory itself.
    #[arg(short = 'd', long, value_name = "NUM", value_parser = at_least_one(), help_heading = FILES)]
    pub(super) max_depth: Option<u64>,
    /// Search only the directory itself; same as -d 1.
    #[arg(long, help_heading = FILES)]
    pub(super) no_recursive: bool,
    /// Skip files larger than NUM bytes; suffixes K, M and G mean KiB, MiB and GiB.
    #[arg(long, value_name = "NUM", value_parser = size, help_heading = FILES)]
    pub(super) max_filesize: Option<u64>,

    /// Choose whether to use an index [default: auto, or tools.search.index_mode].
    #[arg(long, value_name = "MODE", help_heading = HOW)]
    pub(super) index: Option<IndexUsage>,
    /// Choose whether the daemon of the tree answers [default: use, or tools.daemon.searches].
    #[arg(long, value_name = "WHEN", help_heading = HOW)]
    pub(super) daemon: Option<DaemonWhen>,
    /// Search with NUM threads; 0 means one per processor core, at most 32 [default: 0].
    #[arg(short = 'j', long, value_name = "NUM", help_heading = HOW)]
    pub(super) threads: Option<u64>,
}

/// The headings under which the help lists flags.
const PATTERNS: &str = "Patterns";
const FILES: &str = "Files";
const OUTPUT: &str = "Output";
const LIMITS: &str = "Limits";
const HOW: &str = "Index and configuration";

/// The output modes; the last flag wins. As in ripgrep, `-o` and `--vimgrep` are no modes: they
/// select how lines are printed.
const MODES: [&str; 8] = [
    "files_with_matches",
    "count",
    "count_matches",
    "files",
    "type_list",
    "json",
    "rg_json",
    "lines",
];

/// `--daemon`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DaemonWhen {
    /// Do not ask the daemon.
    Off,
    /// Ask the daemon if it is running.
    Use,
    /// Same as use; a search of a large tree also starts a missing daemon, without waiting for it.
    Start,
}

impl DaemonWhen {
    /// Returns the configuration setting for the flag's value.
    fn setting(self) -> String {
        let value = match self {
            DaemonWhen::Off => DaemonUse::Off,
            DaemonWhen::Use => DaemonUse::Use,
            DaemonWhen::Start => DaemonUse::Start,
        };
        format!("tools.daemon.searches={value}")
    }
}

/// `--index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum IndexUsage {
    /// Use no index.
    Off,
    /// Use the index if one exists.
    Auto,
    /// Use the index; build it first if no usable one exists.
    On,
}

impl QueryArgs {
    /// Returns the setup arguments, with the settings that flags stand for.
    pub(super) fn setup(&self, setup: &SetupArgs) -> SetupArgs {
        let mode = self.index.map(|usage| match usage {
            IndexUsage::Off => "index_mode=off".to_string(),
            IndexUsage::Auto => "index_mode=auto".to_string(),
            IndexUsage::On => "index_mode=on".to_string(),
        });
        let threads = self.threads.map(|threads| format!("threads={threads}"));
        let daemon = self.daemon.map(DaemonWhen::setting);
        let mut setup = setup.clone();
        setup
            .set
            .extend(mode.into_iter().chain(threads).chain(daemon));
        setup
    }

    /// Returns whether flags set keys that don't affect answers, so that a daemon without those
    /// settings can answer.
    pub(super) fn has_settings_of_a_process(&self) -> bool {
        self.threads.is_some() || matches!(self.index, Some(IndexUsage::Auto | IndexUsage::On))
    }
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The search.
    #[command(flatten)]
    pub(super) query: QueryArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// The arguments of a search.
#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    /// The patterns, and the files to search.
    #[command(flatten)]
    pub(super) query: QueryArgs,

    /// Show NUM lines after each match.
    #[arg(short = 'A', long, value_name = "NUM", help_heading = OUTPUT)]
    pub(super) after_context: Option<u64>,
    /// Show NUM lines before each match.
    #[arg(short = 'B', long, value_name = "NUM", help_heading = OUTPUT)]
    pub(super) before_context: Option<u64>,
    /// Show NUM lines around each match.
    #[arg(short = 'C', long, value_name = "NUM", help_heading = OUTPUT)]
    pub(super) context: Option<u64>,
    /// Print only the paths of files with a match.
    #[arg(short = 'l', long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) files_with_matches: bool,
    /// Print the number of matching lines of each file with a match.
    #[arg(short = 'c', long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) count: bool,
    /// Print the number of matches in each file with a match.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) count_matches: bool,
    /// Print only the matches, each on its own line.
    #[arg(short = 'o', long, overrides_with = "lines", help_heading = OUTPUT)]
    pub(super) only_matching: bool,
    /// Print the paths of the files that would be searched, without searching.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) files: bool,
    /// Print the types for -t and -T, with their globs.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) type_list: bool,
    /// Print one line per match, for editors: path:line:column:text.
    #[arg(long, overrides_with = "lines", help_heading = OUTPUT)]
    pub(super) vimgrep: bool,
    /// Print results as JSON, one object per line, and a summary at the end.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) json: bool,
    /// Print results in the format of ripgrep's --json.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) rg_json: bool,
    /// Print no results; the exit status tells whether a line matches.
    #[arg(short = 'q', long, help_heading = OUTPUT)]
    pub(super) quiet: bool,
    /// Print lines (the default).
    #[arg(long, hide = true, overrides_with_all = MODES)]
    #[arg(overrides_with_all = ["only_matching", "vimgrep"])]
    pub(super) lines: bool,

    /// Print line numbers (the default).
    #[arg(short = 'n', long, hide = true, overrides_with = "no_line_number")]
    pub(super) line_number: bool,
    /// Omit line numbers and columns.
    #[arg(short = 'N', long, overrides_with = "line_number", help_heading = OUTPUT)]
    pub(super) no_line_number: bool,
    /// Print paths (the default).
    #[arg(short = 'H', long, hide = true, overrides_with = "no_filename")]
    pub(super) with_filename: bool,
    /// Omit paths.
    #[arg(short = 'I', long, overrides_with = "with_filename", help_heading = OUTPUT)]
    pub(super) no_filename: bool,
    /// Print columns (the default for lines without a heading).
    #[arg(long, hide = true, overrides_with = "no_column")]
    pub(super) column: bool,
    /// Omit columns.
    #[arg(long, overrides_with = "column", help_heading = OUTPUT)]
    pub(super) no_column: bool,
    /// Print the path once, above the lines of a file [default on a terminal].
    #[arg(long, overrides_with = "no_heading", help_heading = OUTPUT)]
    pub(super) heading: bool,
    /// Print the path in each line [default in a pipe].
    #[arg(long, overrides_with = "heading", help_heading = OUTPUT)]
    pub(super) no_heading: bool,
    /// Print a zero byte after each path, for xargs -0.
    #[arg(short = '0', long, help_heading = OUTPUT)]
    pub(super) null: bool,
    /// Show at most NUM bytes of each line, around its match; 0 shows all [default: 0]
    ///
    /// Has an effect on plain lines and --json. tools.search.max_line_bytes sets another default.
    #[arg(short = 'M', long, value_name = "NUM", help_heading = OUTPUT)]
    pub(super) max_columns: Option<usize>,
    /// Omit white space at the start of each line.
    #[arg(long, overrides_with = "no_trim", help_heading = OUTPUT)]
    pub(super) trim: bool,
    /// Undo --trim.
    #[arg(long, hide = true, overrides_with = "trim")]
    pub(super) no_trim: bool,
    /// Sort files by path or by modification time, oldest first [default: path]
    ///
    /// `modified` prints nothing until all files are searched.
    #[arg(long, value_name = "BY", overrides_with = "sortr", help_heading = OUTPUT)]
    pub(super) sort: Option<SortBy>,
    /// Sort files in reverse: the last path, or the newest file, comes first.
    ///
    /// Prints nothing until all files are searched.
    #[arg(long, value_name = "BY", overrides_with = "sort", help_heading = OUTPUT)]
    pub(super) sortr: Option<SortBy>,
    /// Choose when to use colours; hyperlinks also need a terminal.
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = OUTPUT)]
    pub(super) color: When,
    /// Print as on a terminal; same as --color always --heading --line-number.
    #[arg(short = 'p', long, help_heading = OUTPUT)]
    pub(super) pretty: bool,
    /// Link paths to FORMAT: none, file, vscode, vscodium, cursor, zed, idea, macvim, or a URL.
    ///
    /// A URL must contain {path}, and may contain {host}, {line} and {column}.
    #[arg(long, value_name = "FORMAT", default_value = "file", help_heading = OUTPUT)]
    pub(super) hyperlink_format: HyperlinkFormat,
    /// Print control characters as they are, instead of escaped.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) raw: bool,
    /// Print statistics about the search and its index to standard error.
    ///
    /// --json also adds them to its summary.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) stats: bool,
    /// Suppress messages about files that could not be read.
    #[arg(long, overrides_with = "messages", help_heading = OUTPUT)]
    pub(super) no_messages: bool,
    /// Print messages about files that could not be read (the default).
    #[arg(long, hide = true, overrides_with = "no_messages")]
    pub(super) messages: bool,

    /// Show at most NUM matching lines of each file; only --json reports that there are more.
    #[arg(short = 'm', long, value_name = "NUM", value_parser = at_least_one(), help_heading = LIMITS)]
    pub(super) max_count: Option<u64>,
    /// Show at most NUM lines, including context; 0 shows all [default: 200 on a terminal, else 0]
    ///
    /// The default of 200 applies to plain lines only. With -l, -c, --count-matches and --files,
    /// NUM counts files.
    #[arg(long, value_name = "NUM", help_heading = LIMITS)]
    pub(super) max_results: Option<u64>,
    /// Search at most NUM files [default: no limit].
    #[arg(long, value_name = "NUM", value_parser = at_least_one(), help_heading = LIMITS)]
    pub(super) max_files: Option<u64>,
    /// Stop the search after MS milliseconds [default: no limit].
    #[arg(long, value_name = "MS", value_parser = at_least_one(), help_heading = LIMITS)]
    pub(super) timeout_ms: Option<u64>,

    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// `--sort`, `--sortr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SortBy {
    /// Sort by path.
    Path,
    /// Sort by modification time; files with the same time by path.
    Modified,
}

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The name of a tool.
#[derive(Debug, Args)]
pub(super) struct ToolArgs {
    /// Use the tool NAME: Search, search_files or find_files.
    #[arg(long, value_name = "NAME", default_value = "Search")]
    pub(super) tool: String,
}

/// The arguments of `call`.
#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// Request in JSON [default: standard input].
    #[arg(conflicts_with = "jsonl")]
    pub(super) request: Option<String>,
    /// The tool.
    #[command(flatten)]
    pub(super) tool: ToolArgs,
    /// Read one request per line of standard input; print one response per line.
    #[arg(long)]
    pub(super) jsonl: bool,
    /// Build the index, or wait for its build, before answering the first request.
    #[arg(long)]
    pub(super) wait_index: bool,
    /// Limit each response to BYTES bytes [default: max_output_bytes of the configuration].
    #[arg(long, value_name = "BYTES")]
    pub(super) max_output_bytes: Option<usize>,
    /// Choose whether the daemon of the tree answers [default: use, or tools.daemon.searches]
    ///
    /// Has no effect with --jsonl and --wait-index. `start` starts no daemon here.
    #[arg(long, value_name = "WHEN")]
    pub(super) daemon: Option<DaemonWhen>,
    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

impl CallArgs {
    /// Returns the setup arguments, with the setting that `--daemon` stands for.
    pub(super) fn setup(&self) -> SetupArgs {
        let mut setup = self.setup.clone();
        setup.set.extend(self.daemon.map(DaemonWhen::setting));
        setup
    }
}

/// The arguments of `execute`.
#[cfg(unix)]
#[derive(Clone, Debug, Args)]
pub(super) struct ExecuteArgs {
    /// Manifest of the task: a file with one JSON object; - is standard input.
    #[arg(default_value = "-")]
    pub(super) manifest: PathBuf,
    /// Use the lease TOKEN; prefer --lease-file, because other users may see arguments.
    #[arg(long, value_name = "TOKEN", required_unless_present = "lease_file")]
    pub(super) lease: Option<String>,
    /// Read the lease from FILE; - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "lease")]
    pub(super) lease_file: Option<PathBuf>,
    /// Read the table [executor] from FILE [default: $FORGE_SEARCH_CONFIG, else
    /// forge-search/config.toml in $XDG_CONFIG_HOME or ~/.config].
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print the number of skipped records and the peak memory to standard error.
    #[arg(long)]
    pub(super) stats: bool,
}

/// The commands for leases.
#[cfg(unix)]
#[derive(Debug, Subcommand)]
pub(super) enum LeaseCommand {
    /// Create a key pair: write the secret key to a new file, and print the public key.
    ///
    /// Only you can read the file.
    Keygen {
        /// File for the secret key; must not exist.
        file: PathBuf,
    },
    /// Issue and print a lease for one task.
    Issue(IssueArgs),
    /// Print the claims of a lease, and check its signature with the configured keys.
    ///
    /// Exits with 1 if no configured key verifies the signature.
    Inspect {
        /// Lease to inspect; - is standard input.
        token: String,
        /// Read the table [executor] from FILE [default: as for execute].
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// The arguments of `lease issue`.
#[cfg(unix)]
#[derive(Debug, Args)]
pub(super) struct IssueArgs {
    /// Read the secret key from FILE; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub(super) key: PathBuf,
    /// Issue the lease for the task with this task_id.
    #[arg(long, value_name = "ID")]
    pub(super) task: String,
    /// Permit this capability_id: SEARCH_FILES, SEARCH_EMAILS or SEARCH_DATASETS.
    #[arg(long, value_name = "NAME")]
    pub(super) capability: String,
    /// Permit this target_scope, a scope of the executor's configuration.
    #[arg(long, value_name = "NAME")]
    pub(super) scope: String,
    /// End the lease SECONDS seconds from now.
    #[arg(long = "for", value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) seconds: u32,
    /// End the lease at TIME (RFC 3339, for example 2026-01-01T12:00:00Z), instead of --for.
    #[arg(long, value_name = "TIME", conflicts_with = "seconds")]
    pub(super) until: Option<jiff::Timestamp>,
}

/// The arguments of `serve`.
#[cfg(unix)]
#[derive(Clone, Debug, Args)]
pub(super) struct ServeArgs {
    /// Root of the tree [default: the git working tree around the working directory, or the
    /// working directory].
    #[arg(value_name = "ROOT", conflicts_with = "root")]
    pub(super) tree: Option<PathBuf>,
    /// Listen at PATH instead of the default socket of this tree and configuration.
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Log queries to FILE, one JSON object per line, without their text [default: a file in
    /// forge-search in $XDG_STATE_HOME or ~/.local/state].
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// Run in the background; return once the daemon accepts clients.
    #[arg(long)]
    pub(super) detach: bool,
    /// Also serve a web page at ADDRESS, for example 127.0.0.1:8080, and print its URL.
    ///
    /// ADDRESS must be a loopback address. Port 0 selects a free port. The URL contains a secret
    /// token. If a daemon is already running, this process serves only the page.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["detach", "background"])]
    pub(super) http: Option<std::net::SocketAddr>,
    /// Detach from the terminal once the daemon accepts clients; --detach runs this.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(super) background: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// The arguments of `mcp`.
#[cfg(unix)]
#[derive(Clone, Debug, Args)]
pub(super) struct McpArgs {
    /// Answer in this process; ask and start no daemon.
    #[arg(long)]
    pub(super) no_daemon: bool,
    /// Limit each answer to BYTES bytes; three bytes are about one token.
    #[arg(long, value_name = "BYTES", default_value_t = crate::tool::mcp::server::MAX_OUTPUT_BYTES)]
    pub(super) max_output_bytes: usize,
    /// Add structured content to each answer; costs about three times as many tokens.
    #[arg(long)]
    pub(super) structured: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// The arguments of `tui`.
#[cfg(unix)]
#[derive(Clone, Debug, Args)]
pub(super) struct TuiArgs {
    /// Initial pattern.
    pub(super) pattern: Option<String>,
    /// Answer in this process; ask and start no daemon.
    #[arg(long)]
    pub(super) no_daemon: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}
