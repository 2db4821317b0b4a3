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
  forge-search 'fn \\w+_test'                 search the working directory for an expression
  forge-search -F 'a[0].x' src               search src for a text
  forge-search -w -g '*.rs' -g '!gen/' name  whole words, only in Rust files, not in gen
  forge-search -C2 --max-results 50 TODO     two lines around each match, at most 50 lines
  forge-search -l -t rust unsafe             the Rust files that hold it
  forge-search index build                   index the working directory, so that later searches read less
  forge-search call '{\"pattern\":\"TODO\"}'     one JSON request, one JSON response
  forge-search doctor                        what is in effect here, and what needs doing

Exit status: 0 if a line matched, 1 if none did, 2 if something went wrong or the search ended before
it had looked everywhere and found nothing.";

/// Exact, ordered, bounded search over a live source tree.
///
/// Finds the lines that match a regular expression (or, with -F, a text), always in the same order, and says so
/// when an answer is incomplete. Ignore files count as in ripgrep.
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
    /// What to do other than search.
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    /// Print to standard error what the program does: the configuration it reads, who answers, and
    /// how an index is used.
    ///
    /// RUST_LOG chooses more closely, as in RUST_LOG=forge_search::index=debug. By default only
    /// warnings are printed.
    #[arg(long, global = true)]
    pub(super) debug: bool,

    /// The search, when no command is named.
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
    /// Search for people (the default when no command is named).
    #[command(after_help = EXAMPLES, args_override_self = true)]
    Search(SearchArgs),
    /// Answer JSON requests, for programs.
    ///
    /// Takes one request as an argument or from standard input and prints one response. With --jsonl, each
    /// line of standard input is a request and is answered by one line, in order.
    #[command(after_help = "\
Examples:
  forge-search call '{\"pattern\": \"main\", \"include_glob\": [\"*.c\"]}'
  echo '{\"pattern\": \"main\"}' | forge-search call --root /srv/tree --set max_files=100000
  forge-search call --tool search_files '{\"path\": \"src\", \"query\": \"main\"}'
  forge-search call --jsonl --root . < requests.jsonl
  forge-search call --jsonl --wait-index --root /srv/tree < requests.jsonl

A failed call prints {\"error\": {\"code\": …, \"message\": …}} and, without --jsonl, exits with 2.")]
    Call(CallArgs),
    /// Build, look at and remove indexes.
    ///
    /// An index is kept in a cache directory (doctor says which). It never changes an answer: what changed since it
    /// was built is searched as if there were no index.
    ///
    /// An index is of one root: the working directory, or --root. A search uses the index of the deepest directory
    /// that contains what it searches and has one, or the deepest of index_roots, where the configuration has any.
    #[command(after_help = INDEX_EXAMPLES)]
    Index {
        /// What to do.
        #[command(subcommand)]
        command: IndexCommand,
    },
    /// Say what an index does for a search, and why where it does nothing.
    ///
    /// Shows what a file must hold to be searched, how many files that leaves, and in how many of them there is
    /// a match.
    #[command(
        args_override_self = true,
        after_help = "\
Examples:
  forge-search explain kmalloc_array         the plan, and how many files are left out
  forge-search explain -i 'foo|bar[0-9]' src below src, without case
  forge-search explain --json -F 'a[0].x'    the same for programs"
    )]
    Explain(ExplainArgs),
    /// Ask the tree's daemon a question: the same program as `ggrep`, where that is the name of another one.
    ///
    /// Finds the files and the lines in them that answer best what is asked in words, identifiers or a piece of code. `forge-search ask status`,
    /// `health` and `stop` are about the daemon.
    #[cfg(unix)]
    Ask(Box<Ggrep>),
    /// Start the query daemon of a tree, which answers `ggrep` and, where the configuration is the same, this program's searches.
    ///
    /// It follows the tree, so that an answer is there within milliseconds and knows every edit made before it was asked for. It ends
    /// on SIGINT and SIGTERM, by `ggrep stop`, and, with --detach, when nobody has asked for long (idle_exit_ms of [tools.daemon]).
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search serve                         the tree around the working directory, in the foreground
  forge-search serve --detach /srv/tree      in the background; prints the socket
  forge-search serve --http 127.0.0.1:8080   with a page for a browser; prints its address
  forge-search serve --set tools.daemon.max_concurrent_queries=4")]
    Serve(ServeArgs),
    /// Say how the daemon of a tree is: what it follows, how its index is, since when it runs.
    ///
    /// The same as `ggrep status`.
    #[cfg(unix)]
    Status(StatusArgs),
    /// End the daemon of a tree, if one runs.
    ///
    /// The same as `ggrep stop`. Those who were asking it ask another daemon, or answer by themselves.
    #[cfg(unix)]
    Stop(DaemonArgs),
    /// Search interactively: results as you type, the lines around them, and your editor at the one you choose.
    ///
    /// Shows what `forge-search PATTERN` prints, from the tree's daemon, which is started if need be and has every edit that was made before.
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search tui                           in the working directory
  forge-search tui --root /srv/tree 'fn main'
  EDITOR='code -w' forge-search tui          Enter opens the line in that editor; VISUAL comes before EDITOR

Keys: Up and Down choose, Enter edits, F2 text or expression, F3 whole words, F4 case, F5 edits, Ctrl-R again, Esc quits.")]
    Tui(TuiArgs),
    /// Serve agents that speak the Model Context Protocol, on standard input and output.
    ///
    /// Offers the tools Search, search_files and find_files, and resources that say how the index is. The tree is the working directory, or --root; of that,
    /// a client that has roots gets what lies in them. The tree's daemon answers, and is started if need be; with --no-daemon, and where none can
    /// be started, this process does.
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search mcp                           what an agent is configured to start in the tree that it works in
  forge-search mcp --root /srv/tree          the same for a tree elsewhere
  claude mcp add forge-search -- forge-search mcp

How agents are configured, and what they should know, is in docs/agents.md.")]
    Mcp(McpArgs),
    /// Execute one search task that a scheduler has handed out with a signed lease.
    ///
    /// Checks the lease, searches the configured scope in a process of its own with limits (30 s, 256 MB), and prints one JSON object: the result, or a
    /// failure with its code. A task that was executed already is answered with the same bytes. Scopes and keys are in [executor] of the configuration.
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search execute --lease-file task.lease task.json
  scheduler next | forge-search execute --lease-file task.lease -

Exit status: 0 after a result, 1 after a failure that was printed, 2 if something else went wrong.")]
    Execute(ExecuteArgs),
    /// The worker of execute.
    #[cfg(unix)]
    #[command(hide = true)]
    ExecuteWorker,
    /// Make keys for leases, issue leases and look at them.
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  forge-search lease keygen scheduler.key           writes a secret key; prints the public one, for keys of [executor]
  forge-search lease issue --key scheduler.key --task t1 --capability SEARCH_FILES --scope docs --for 300
  forge-search lease inspect v4.public.…            what a lease says, and whether its signature holds")]
    Lease {
        /// What to do.
        #[command(subcommand)]
        command: LeaseCommand,
    },
    /// Print the JSON schema of a tool's request.
    Schema(ToolArgs),
    /// Say what is in effect here (engines, sandbox, configuration) and what needs doing.
    Doctor(DoctorArgs),
    /// Print a completion script for a shell.
    #[command(after_help = "\
Example:
  forge-search completions bash > ~/.local/share/bash-completion/completions/forge-search")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page (roff) of the program, or of one of its commands; or write all of them.
    #[command(after_help = "\
Examples:
  forge-search man | man -l -
  forge-search man index build | man -l -
  forge-search man --dir ~/.local/share/man/man1   then: man forge-search, man ggrep")]
    Man {
        /// Write the pages of the program, of each command and of ggrep into this directory.
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        dir: Option<PathBuf>,
        /// The command whose page to print, as in `index build`.
        command: Vec<String>,
    },
}

const INDEX_EXAMPLES: &str = "\
Examples:
  forge-search index build                   index the working directory
  forge-search index status /srv/tree        is it still that of the tree, and if not, what changed
  forge-search index verify --all            read all of every index and check it
  forge-search index list                    every index, with its tree, size and age
  forge-search index clear /srv/tree         remove the index of that tree

Exit status: 0 if all is well, 1 if status finds no index that can be used, 2 if something went
wrong, is damaged, or could not be checked (which need not mean damage).";

/// What to do with indexes.
#[derive(Debug, Subcommand)]
pub(super) enum IndexCommand {
    /// Build the index of a tree, or build it again.
    ///
    /// Until the new index is complete, searches use the old one.
    Build(IndexArgs),
    /// Say whether the index of a tree can be used, what is in it, and what changed since.
    Status(IndexArgs),
    /// Read all of the indexes of a tree and check every page and every number.
    Verify(IndexAllArgs),
    /// List every index that is kept.
    List(IndexListArgs),
    /// Remove the indexes of a tree.
    Clear(IndexAllArgs),
}

/// Which tree, and with which configuration.
#[derive(Clone, Debug, Args)]
pub(super) struct IndexArgs {
    /// Directory to which the command refers, as with --root [default: the working directory].
    #[arg(value_name = "ROOT", conflicts_with = "root")]
    pub(super) tree: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Where and how.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// How a list is printed, and of which store.
#[derive(Clone, Debug, Args)]
pub(super) struct IndexListArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Where and how.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// Which tree, or all.
#[derive(Clone, Debug, Args)]
pub(super) struct IndexAllArgs {
    /// All indexes that are kept, of whatever tree.
    #[arg(long, conflicts_with = "tree")]
    pub(super) all: bool,
    /// Which tree.
    #[command(flatten)]
    pub(super) index: IndexArgs,
}

/// Where to search and with which configuration.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct SetupArgs {
    /// Directory beneath which everything is searched; relative paths start there.
    #[arg(long, value_name = "DIR", help_heading = HOW)]
    pub(super) root: Option<PathBuf>,
    /// Configuration file (TOML; docs/configuration.md has all keys) [default: $FORGE_SEARCH_CONFIG, else
    /// forge-search/config.toml in $XDG_CONFIG_HOME or ~/.config].
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub(super) config: Option<PathBuf>,
    /// Set a configuration key of [tools], as in max_files=5000 (of [tools.search]) or tools.sandbox.allow_absolute=true; repeatable.
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
    /// The regular expression to search for. Where -e, -f or --files is given, this is the first path.
    pub(super) pattern: Option<OsString>,
    /// Files or directories to search [default: the working directory]; - is standard input.
    pub(super) paths: Vec<PathBuf>,

    /// Search for PATTERN, also for one that starts with a dash; repeatable: a line matches if one pattern does.
    #[arg(short = 'e', long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = PATTERNS)]
    pub(super) regexp: Vec<String>,
    /// Search for the patterns in FILE, one a line (- is standard input); repeatable.
    #[arg(short = 'f', long, value_name = "FILE", help_heading = PATTERNS)]
    pub(super) file: Vec<PathBuf>,
    /// Search for PATTERN as a text, not as an expression.
    #[arg(short = 'F', long, overrides_with = "no_fixed_strings", help_heading = PATTERNS)]
    pub(super) fixed_strings: bool,
    /// Undo -F.
    #[arg(long, hide = true, overrides_with = "fixed_strings")]
    pub(super) no_fixed_strings: bool,
    /// Match only between word boundaries.
    #[arg(short = 'w', long, overrides_with = "line_regexp", help_heading = PATTERNS)]
    pub(super) word_regexp: bool,
    /// Match only whole lines.
    #[arg(short = 'x', long, overrides_with = "word_regexp", help_heading = PATTERNS)]
    pub(super) line_regexp: bool,
    /// Compare letters without case, by Unicode's simple case folding.
    #[arg(short = 'i', long, overrides_with_all = ["case_sensitive", "smart_case"], help_heading = PATTERNS)]
    pub(super) ignore_case: bool,
    /// Compare letters with case.
    #[arg(short = 's', long, overrides_with_all = ["ignore_case", "smart_case"], help_heading = PATTERNS)]
    pub(super) case_sensitive: bool,
    /// Compare with case only if PATTERN has an uppercase letter [default].
    #[arg(short = 'S', long, overrides_with_all = ["ignore_case", "case_sensitive"], help_heading = PATTERNS)]
    pub(super) smart_case: bool,
    /// Match texts within LEVEL edits of the pattern, 1 to 4: characters inserted, left out or changed.
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u64).range(1..=4), help_heading = PATTERNS)]
    pub(super) fuzzy: Option<u64>,

    /// Search only files that match GLOB, or with a leading ! no such files. The last glob that matches decides.
    ///
    /// Globs have the syntax of .gitignore and are relative to the working directory. A glob that
    /// matches a directory is for all files in it. Files that are named as paths are exempt.
    #[arg(short = 'g', long, value_name = "GLOB", help_heading = FILES)]
    pub(super) glob: Vec<String>,
    /// Search only files of TYPE, such as rust or py; repeatable, and the last -t or -T for a file decides.
    #[arg(short = 't', long = "type", value_name = "TYPE", help_heading = FILES)]
    pub(super) types: Vec<String>,
    /// Search no files of TYPE; repeatable.
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
    /// Follow symbolic links, within the root.
    #[arg(short = 'L', long, overrides_with = "no_follow", help_heading = FILES)]
    pub(super) follow: bool,
    /// Undo -L.
    #[arg(long, hide = true, overrides_with = "follow")]
    pub(super) no_follow: bool,
    /// Disregard ignore files.
    #[arg(long, overrides_with = "ignore", help_heading = FILES)]
    pub(super) no_ignore: bool,
    /// Undo --no-ignore.
    #[arg(long, hide = true, overrides_with = "no_ignore")]
    pub(super) ignore: bool,
    /// Like --no-ignore; twice, like --no-ignore --hidden.
    #[arg(short = 'u', long, action = ArgAction::Count, help_heading = FILES)]
    pub(super) unrestricted: u8,
    /// Search no deeper than NUM directories; 1 is the directory itself.
    #[arg(short = 'd', long, value_name = "NUM", value_parser = at_least_one(), help_heading = FILES)]
    pub(super) max_depth: Option<u64>,
    /// Search only the directory itself, like -d 1.
    #[arg(long, help_heading = FILES)]
    pub(super) no_recursive: bool,
    /// Skip files larger than NUM bytes; with K, M or G behind it, KiB, MiB or GiB.
    #[arg(long, value_name = "NUM", value_parser = size, help_heading = FILES)]
    pub(super) max_filesize: Option<u64>,

    /// Whether to use an index: never, if there is one, or always, building it first where none can be used
    /// [default: auto, or index_mode of the configuration].
    #[arg(long, value_name = "MODE", help_heading = HOW)]
    pub(super) index: Option<IndexUsage>,
    /// Whether the daemon of the tree answers: never, if it runs, or so that one is started in the background
    /// where none runs and the tree is large [default: use, or searches of the configuration].
    #[arg(long, value_name = "WHEN", help_heading = HOW)]
    pub(super) daemon: Option<DaemonWhen>,
    /// Search with NUM threads; 0 chooses.
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
    /// Never.
    Off,
    /// If it runs.
    Use,
    /// If it runs; where none does, one is started for the searches that follow.
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
    /// Never.
    Off,
    /// If there is one.
    Auto,
    /// Always; built first where that is needed.
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

/// An explanation.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The search.
    #[command(flatten)]
    pub(super) query: QueryArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Where and how.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// A search for people.
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
    /// Print only the path of each file with a match.
    #[arg(short = 'l', long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) files_with_matches: bool,
    /// Print how many lines match in each file with a match.
    #[arg(short = 'c', long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) count: bool,
    /// Print how many matches there are in each file with a match.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) count_matches: bool,
    /// Print each match by itself, on a line of its own.
    #[arg(short = 'o', long, overrides_with = "lines", help_heading = OUTPUT)]
    pub(super) only_matching: bool,
    /// Print the path of each file that would be searched, and search none.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) files: bool,
    /// Print the types that -t and -T know, with their globs.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) type_list: bool,
    /// Print a line for each match, for editors: path:line:column:text.
    #[arg(long, overrides_with = "lines", help_heading = OUTPUT)]
    pub(super) vimgrep: bool,
    /// Print results as JSON, one object a line, then a summary.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) json: bool,
    /// Print the JSON that ripgrep prints with --json.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(super) rg_json: bool,
    /// Print nothing, whatever else is asked for; the exit status says whether a line matches.
    #[arg(short = 'q', long, help_heading = OUTPUT)]
    pub(super) quiet: bool,
    /// Print lines, which is the default.
    #[arg(long, hide = true, overrides_with_all = MODES)]
    #[arg(overrides_with_all = ["only_matching", "vimgrep"])]
    pub(super) lines: bool,

    /// Print line numbers, which is the default.
    #[arg(short = 'n', long, hide = true, overrides_with = "no_line_number")]
    pub(super) line_number: bool,
    /// Print neither line numbers nor columns.
    #[arg(short = 'N', long, overrides_with = "line_number", help_heading = OUTPUT)]
    pub(super) no_line_number: bool,
    /// Print paths, which is the default.
    #[arg(short = 'H', long, hide = true, overrides_with = "no_filename")]
    pub(super) with_filename: bool,
    /// Print no paths.
    #[arg(short = 'I', long, overrides_with = "with_filename", help_heading = OUTPUT)]
    pub(super) no_filename: bool,
    /// Print columns, which is the default where lines have no heading.
    #[arg(long, hide = true, overrides_with = "no_column")]
    pub(super) column: bool,
    /// Print no columns.
    #[arg(long, overrides_with = "column", help_heading = OUTPUT)]
    pub(super) no_column: bool,
    /// Print the path above the lines of a file, as on a terminal.
    #[arg(long, overrides_with = "no_heading", help_heading = OUTPUT)]
    pub(super) heading: bool,
    /// Print the path in each line, as in a pipe.
    #[arg(long, overrides_with = "heading", help_heading = OUTPUT)]
    pub(super) no_heading: bool,
    /// End each path with a zero byte, for xargs -0.
    #[arg(short = '0', long, help_heading = OUTPUT)]
    pub(super) null: bool,
    /// Show at most NUM bytes of a line, around its match, in plain lines and --json; 0 shows all.
    #[arg(short = 'M', long, value_name = "NUM", help_heading = OUTPUT)]
    pub(super) max_columns: Option<usize>,
    /// Leave out the white space at the start of each line.
    #[arg(long, overrides_with = "no_trim", help_heading = OUTPUT)]
    pub(super) trim: bool,
    /// Undo --trim.
    #[arg(long, hide = true, overrides_with = "trim")]
    pub(super) no_trim: bool,
    /// Show files by path, or by time of modification, the oldest first; the latter searches all files first.
    #[arg(long, value_name = "BY", overrides_with = "sortr", help_heading = OUTPUT)]
    pub(super) sort: Option<SortBy>,
    /// Show files in the reverse order: the last path, or the file modified last, first.
    #[arg(long, value_name = "BY", overrides_with = "sort", help_heading = OUTPUT)]
    pub(super) sortr: Option<SortBy>,
    /// When to use colours and hyperlinks.
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = OUTPUT)]
    pub(super) color: When,
    /// Print as on a terminal: --color always --heading --line-number.
    #[arg(short = 'p', long, help_heading = OUTPUT)]
    pub(super) pretty: bool,
    /// The target of hyperlinks: none, file, vscode, vscodium, cursor, zed, idea or macvim; or a URL with {path} and,
    /// if you like, {host}, {line} and {column}.
    #[arg(long, value_name = "FORMAT", default_value = "file", help_heading = OUTPUT)]
    pub(super) hyperlink_format: HyperlinkFormat,
    /// Print control characters as they are instead of escaping them.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) raw: bool,
    /// Print to standard error how the answer came about and what an index had to do with it; with --json as part of
    /// the summary.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) stats: bool,
    /// Print no messages about files that could not be read.
    #[arg(long, overrides_with = "messages", help_heading = OUTPUT)]
    pub(super) no_messages: bool,
    /// Print messages about files that could not be read, which is the default.
    #[arg(long, hide = true, overrides_with = "no_messages")]
    pub(super) messages: bool,

    /// Show at most NUM matching lines of a file; --json says where there are more.
    #[arg(short = 'm', long, value_name = "NUM", value_parser = at_least_one(), help_heading = LIMITS)]
    pub(super) max_count: Option<u64>,
    /// Show at most NUM lines, context included; with -l, -c and --files NUM files; 0 shows all
    /// [default: 200 lines on a terminal, else all].
    #[arg(long, value_name = "NUM", help_heading = LIMITS)]
    pub(super) max_results: Option<u64>,
    /// Search at most NUM files.
    #[arg(long, value_name = "NUM", value_parser = at_least_one(), help_heading = LIMITS)]
    pub(super) max_files: Option<u64>,
    /// Stop after MS milliseconds [default: never].
    #[arg(long, value_name = "MS", value_parser = at_least_one(), help_heading = LIMITS)]
    pub(super) timeout_ms: Option<u64>,

    /// Where and how.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// `--sort`, `--sortr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SortBy {
    /// By path.
    Path,
    /// By the time of the last modification, and by path where that is the same.
    Modified,
}

/// When to do something for terminals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Which tool is meant.
#[derive(Debug, Args)]
pub(super) struct ToolArgs {
    /// The tool: Search, search_files or find_files.
    #[arg(long, value_name = "NAME", default_value = "Search")]
    pub(super) tool: String,
}

/// Requests as JSON.
#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// The request as JSON [default: standard input].
    #[arg(conflicts_with = "jsonl")]
    pub(super) request: Option<String>,
    /// The tool.
    #[command(flatten)]
    pub(super) tool: ToolArgs,
    /// One request a line of standard input, one answer a line.
    #[arg(long)]
    pub(super) jsonl: bool,
    /// Build the index, or wait for it, until it can be used, before the first request is answered.
    #[arg(long)]
    pub(super) wait_index: bool,
    /// Bytes that a response may have at most.
    #[arg(long, value_name = "BYTES")]
    pub(super) max_output_bytes: Option<usize>,
    /// Whether the daemon of the tree answers [default: use, or searches of the configuration].
    #[arg(long, value_name = "WHEN")]
    pub(super) daemon: Option<DaemonWhen>,
    /// Where and how.
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

/// A task.
#[cfg(unix)]
#[derive(Clone, Debug, Args)]
pub(super) struct ExecuteArgs {
    /// The manifest, a file with one JSON object; - is standard input.
    #[arg(default_value = "-")]
    pub(super) manifest: PathBuf,
    /// The lease, a token (others on this machine may see arguments; a file is better).
    #[arg(long, value_name = "TOKEN", required_unless_present = "lease_file")]
    pub(super) lease: Option<String>,
    /// A file with the lease.
    #[arg(long, value_name = "FILE", conflicts_with = "lease")]
    pub(super) lease_file: Option<PathBuf>,
    /// Configuration file with the table [executor] [default: $FORGE_SEARCH_CONFIG, else forge-search/config.toml in $XDG_CONFIG_HOME or ~/.config].
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print to standard error what was passed over, and what the search took.
    #[arg(long)]
    pub(super) stats: bool,
}

/// What to do with leases.
#[cfg(unix)]
#[derive(Debug, Subcommand)]
pub(super) enum LeaseCommand {
    /// Make a key: the secret one goes to a new file that only you can read, the public one is printed.
    Keygen {
        /// The file; must not be there yet.
        file: PathBuf,
    },
    /// Issue a lease for one task, and print it.
    Issue(IssueArgs),
    /// Print what a lease says, and whether its signature holds with a configured key.
    Inspect {
        /// The lease; - is standard input.
        token: String,
        /// Configuration file with the table [executor].
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// A lease.
#[cfg(unix)]
#[derive(Debug, Args)]
pub(super) struct IssueArgs {
    /// The file with the secret key.
    #[arg(long, value_name = "FILE")]
    pub(super) key: PathBuf,
    /// The task_id.
    #[arg(long, value_name = "ID")]
    pub(super) task: String,
    /// The capability_id: SEARCH_FILES, SEARCH_EMAILS or SEARCH_DATASETS.
    #[arg(long, value_name = "NAME")]
    pub(super) capability: String,
    /// The target_scope.
    #[arg(long, value_name = "NAME")]
    pub(super) scope: String,
    /// How many seconds from now it is valid.
    #[arg(long = "for", value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) seconds: u32,
    /// Until when it is valid, in place of --for: RFC 3339, such as 2026-01-01T12:00:00Z.
    #[arg(long, value_name = "TIME", conflicts_with = "seconds")]
    pub(super) until: Option<jiff::Timestamp>,
}

/// A daemon.
#[cfg(unix)]
#[derive(Clone, Debug, Args)]
pub(super) struct ServeArgs {
    /// The tree [default: the git working tree around the working directory, or that directory].
    #[arg(value_name = "ROOT", conflicts_with = "root")]
    pub(super) tree: Option<PathBuf>,
    /// Listen here instead of where clients look by themselves.
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Log queries here, one JSON object a line, without what they are about [default: a file in forge-search in $XDG_STATE_HOME or
    /// ~/.local/state].
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// Go on in the background, and return as soon as clients are answered.
    #[arg(long)]
    pub(super) detach: bool,
    /// Serve a page for a browser as well, at an address of this machine alone, such as 127.0.0.1:8080; with port 0, any that is free. Prints
    /// the address to open, which has a token. Where a daemon answers already, the page is served beside it.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["detach", "background"])]
    pub(super) http: Option<std::net::SocketAddr>,
    /// Give up the terminal once clients are answered; what --detach runs.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(super) background: bool,
    /// Where and how.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// A server for agents.
#[cfg(unix)]
#[derive(Clone, Debug, Args)]
pub(super) struct McpArgs {
    /// Answer in this process instead of by the tree's daemon.
    #[arg(long)]
    pub(super) no_daemon: bool,
    /// Bytes that the answer to a call may have; three make about a token.
    #[arg(long, value_name = "BYTES", default_value_t = crate::tool::mcp::server::MAX_OUTPUT_BYTES)]
    pub(super) max_output_bytes: usize,
    /// Add structured content to each answer, for clients that need it; text alone costs a third.
    #[arg(long)]
    pub(super) structured: bool,
    /// Where and how.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// An interactive search.
#[cfg(unix)]
#[derive(Clone, Debug, Args)]
pub(super) struct TuiArgs {
    /// What to begin with.
    pub(super) pattern: Option<String>,
    /// Answer in this process instead of by the tree's daemon.
    #[arg(long)]
    pub(super) no_daemon: bool,
    /// Where and how.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// A check-up.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Where and how.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}
