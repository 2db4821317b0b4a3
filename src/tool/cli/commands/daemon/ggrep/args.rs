//! The arguments of `ggrep`: a ranked question with its options, or a command about daemons such as
//! `status`. `forge-search ask` has the same.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::tool::cli::args::{SetupArgs, When};
use crate::tool::daemon::limits::{MAX_PER_FILE, MAX_RESULTS, QUERY_TIMEOUT_MS};
use crate::tool::daemon::request::{MAX_BUDGET, Mode, SearchQuery, SnippetMode, id_error};

const EXAMPLES: &str = "\
Examples:
  ggrep 'where is the retry delay computed'   find the places that answer a question best
  ggrep --mode debug 'lock order' drivers     search below drivers, ranked for finding a defect
  ggrep --json --limit 5 parse_header         print one JSON object, for programs
  ggrep --related src/lock.rs:120             find the code most like the code there
  ggrep --budget 4000 'retry delay'           print definitions of at most 4,000 tokens
  ggrep --explain scheduler                   show how the answer was computed
  ggrep status                                show the daemon of this tree
  ggrep health                                check the index and everything else the daemon needs
  ggrep stop                                  stop the daemon
  ggrep -- status                             ask the question `status`, which is also a command

A question starts the daemon of the tree if it is not running.

Exit status:
  0   an answer
  1   nothing found, or any other error
  10  the daemon is busy
  11  the time limit was exceeded
  12  the query was cancelled
  13  client and daemon have no common protocol version";

/// Ranked search over a source tree, answered by a daemon that follows the tree.
///
/// Finds the files and lines that best answer a question. A question consists of words, identifiers
/// or a piece of code. For an exact and complete search for a pattern, use forge-search.
#[derive(Debug, Parser)]
#[command(
    name = "ggrep",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = EXAMPLES,
    max_term_width = 100
)]
pub(in crate::tool::cli) struct Ggrep {
    /// The command, if it is not a question.
    #[command(subcommand)]
    pub(super) command: Option<Other>,
    /// The question, if no command is named.
    #[command(flatten)]
    pub(super) question: QuestionArgs,
}

/// The commands of `ggrep`.
#[derive(Debug, Subcommand)]
pub(in crate::tool::cli) enum Other {
    /// Show the daemon of a tree: process, socket, index state and start time.
    ///
    /// --verbose and --json also show queries, resources and how the index follows the tree.
    Status(StatusArgs),
    /// Check the index of the daemon, its watches and its budgets.
    ///
    /// Reads the whole index. Exits with 1 if a check fails or no daemon is running.
    Health(DaemonArgs),
    /// Stop the daemon, if one is running.
    ///
    /// Running queries are cancelled. Their clients ask another daemon, or search by themselves.
    Stop(DaemonArgs),
    /// Print a completion script for a shell.
    Completions {
        /// Shell to print the script for.
        shell: Shell,
    },
    /// Print the manual page (roff).
    Man,
}

impl Other {
    /// Returns whether the answer, or the error, must be printed as JSON.
    pub(super) fn is_json(&self) -> bool {
        match self {
            Other::Stop(args) | Other::Health(args) => args.json,
            Other::Status(args) => args.daemon.json,
            Other::Completions { .. } | Other::Man => false,
        }
    }
}

/// The choice of a daemon.
#[derive(Clone, Debug, Args)]
pub(super) struct WhichArgs {
    /// Ask the daemon at the socket PATH [default: the daemon of this tree and configuration].
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// The root and the configuration.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// The arguments of `ggrep health` and `ggrep stop`.
#[derive(Clone, Debug, Args)]
pub(in crate::tool::cli) struct DaemonArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Print control characters as they are, instead of escaped.
    #[arg(long)]
    pub(super) raw: bool,
    /// The daemon that is meant.
    #[command(flatten)]
    pub(super) which: WhichArgs,
}

/// The arguments of `ggrep status`.
#[derive(Clone, Debug, Args)]
pub(in crate::tool::cli) struct StatusArgs {
    /// Print the metrics of the daemon in the text format of Prometheus.
    #[arg(long, conflicts_with = "json")]
    pub(super) prometheus: bool,
    /// List all daemons of this user.
    #[arg(long, conflicts_with_all = ["prometheus", "verbose"])]
    pub(super) all: bool,
    /// Print all fields.
    #[arg(long, short)]
    pub(super) verbose: bool,
    /// The daemon and the output format.
    #[command(flatten)]
    pub(super) daemon: DaemonArgs,
}

/// The arguments of a question.
#[derive(Clone, Debug, Args)]
pub(super) struct QuestionArgs {
    /// Question in words, identifiers or code; put -- before one that starts with a dash.
    #[arg(required_unless_present = "related")]
    pub(super) query: Option<String>,
    /// File or directory to search [default: the working directory, or all of --root].
    pub(super) path: Option<PathBuf>,

    /// Find the code most like that at a place, instead of asking a question.
    ///
    /// The piece of code at the line of FILE is compared: a definition, at most 50 lines of a
    /// longer one, or several short ones. It is no result itself.
    #[arg(long, value_name = "FILE:LINE")]
    pub(super) related: Option<String>,
    /// Print whole definitions, as many as fit into NUM tokens of three bytes.
    ///
    /// The best ones come first. Of the first one that does not fit, the lines from its head on are
    /// printed.
    #[arg(long, value_name = "NUM", conflicts_with = "snippet", value_parser = clap::value_parser!(u64).range(1..=MAX_BUDGET))]
    pub(super) budget: Option<u64>,
    /// Rank results for a purpose [default: balanced].
    #[arg(long, value_name = "MODE")]
    pub(super) mode: Option<Mode>,
    /// Show at most NUM results [default: 20].
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u64).range(1..=MAX_RESULTS.most))]
    pub(super) limit: Option<u64>,
    /// Show at most NUM results of each file [default: 3, or 1 with --mode discovery].
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u64).range(1..=MAX_PER_FILE.most))]
    pub(super) per_file: Option<u64>,
    /// Choose how many lines to show of each result [default: short, or definition with --json].
    #[arg(long, value_name = "HOW")]
    pub(super) snippet: Option<SnippetMode>,
    /// Give up after MS milliseconds [default and maximum: tools.daemon.query_timeout_ms].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=QUERY_TIMEOUT_MS.most))]
    pub(super) timeout_ms: Option<u64>,
    /// Print equal bytes for equal questions about the same snapshot of the tree.
    ///
    /// Omits times and the git commit.
    #[arg(long)]
    pub(super) deterministic: bool,
    /// Add to the answer how it was computed.
    #[arg(long)]
    pub(super) explain: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Print control characters as they are, instead of escaped.
    #[arg(long)]
    pub(super) raw: bool,

    /// Choose when to colour paths, line numbers and the words of the question.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) color: When,

    /// Do not start a daemon; fail if none is running.
    #[arg(long)]
    pub(super) no_start: bool,
    /// Search in this process if no daemon answers, even with --no-start or --socket.
    ///
    /// Without these two flags this is the default.
    #[arg(long)]
    pub(super) fallback: bool,
    /// Identify the client as ID [default: a name for the parent process]
    ///
    /// The daemon shares its time fairly between clients, not between requests.
    #[arg(long, value_name = "ID", value_parser = client_id)]
    pub(super) client_id: Option<String>,
    /// The daemon to ask.
    #[command(flatten)]
    pub(super) which: WhichArgs,
}

/// Parses a client id.
fn client_id(id: &str) -> Result<String, String> {
    id_error(id).map_or_else(|| Ok(id.to_string()), Err)
}

impl ValueEnum for Mode {
    fn value_variants<'a>() -> &'a [Mode] {
        &Mode::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Mode::Balanced => "For any purpose",
            Mode::Discovery => "For exploring unfamiliar code",
            Mode::Implementation => "For writing code",
            Mode::Planning => "For planning a change",
            Mode::Debug => "For finding a defect",
        };
        Some(PossibleValue::new(self.as_str()).help(help))
    }
}

impl ValueEnum for SnippetMode {
    fn value_variants<'a>() -> &'a [SnippetMode] {
        &SnippetMode::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            SnippetMode::Short => "Show three lines",
            SnippetMode::Long => "Show fifteen lines",
            SnippetMode::Definition => {
                "Show the whole definition, with the comments above it, at most 50 lines"
            }
            SnippetMode::None => "Show no lines",
        };
        Some(PossibleValue::new(self.as_str()).help(help))
    }
}

impl QuestionArgs {
    /// Builds the query for an absolute path and an absolute place.
    pub(super) fn query(&self, path: Option<String>, related: Option<String>) -> SearchQuery {
        SearchQuery {
            limit: self.limit,
            per_file: self.per_file,
            mode: self.mode,
            path,
            related,
            // A program that reads the answer wants to see what it asked for, not only where it is.
            snippet: self
                .snippet
                .or(self.json.then_some(SnippetMode::Definition)),
            explain: self.explain,
            deterministic: self.deterministic,
            raw: self.raw,
            timeout_ms: self.timeout_ms,
            budget: self.budget,
            ..SearchQuery::new(self.query.clone().unwrap_or_default())
        }
    }
}
