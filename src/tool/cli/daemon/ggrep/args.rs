//! The arguments of `ggrep`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::tool::cli::args::SetupArgs;
use crate::tool::daemon::limits::{MAX_PER_FILE, MAX_RESULTS, QUERY_TIMEOUT_MS};
use crate::tool::daemon::request::{Mode, SearchQuery, SnippetMode, id_error};

const EXAMPLES: &str = "\
Examples:
  ggrep 'where is the retry delay computed'   the best places for a question, of the tree around here
  ggrep --mode debug 'lock order' drivers     only below drivers, ranked for finding a defect
  ggrep --json --limit 5 parse_header         one JSON object, for programs
  ggrep --explain scheduler                   how the answer came about
  ggrep status                                what the daemon of this tree does; --verbose, --all
  ggrep health                                checks everything that it relies on
  ggrep stop                                  ends it
  ggrep -- status                             a question that is the name of a command

A daemon is started where there is none. Exit status: 0 after an answer, 1 if nothing was found; 10 if the daemon is busy, 11 if there was not enough time, 12 if the query was cancelled, 13 if client and daemon speak no
common version of their protocol, 1 after any other error.";

/// Ranked search over a source tree, answered by a daemon that follows the tree.
///
/// Finds the files and the lines in them that answer best what is asked in words, identifiers or a piece of code. For exact and
/// complete answers to an expression there is forge-search.
#[derive(Debug, Parser)]
#[command(
    name = "ggrep",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = EXAMPLES,
    max_term_width = 100
)]
pub(in super::super::super) struct Ggrep {
    /// What to do other than search.
    #[command(subcommand)]
    pub(super) command: Option<Other>,
    /// The question, when no command is named.
    #[command(flatten)]
    pub(super) question: QuestionArgs,
}

/// What can be asked of a daemon but a question.
#[derive(Debug, Subcommand)]
pub(in super::super::super) enum Other {
    /// Say what the daemon does: what it searches, how that is kept up to date, queries, resources.
    Status(StatusArgs),
    /// Check everything that the daemon relies on: reads all of its index.
    Health(DaemonArgs),
    /// End the daemon, if there is one: what it is asked at that moment is answered as cancelled.
    Stop(DaemonArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
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

/// Which daemon.
#[derive(Clone, Debug, Args)]
pub(super) struct WhichArgs {
    /// The socket of the daemon, where it is not where it would be looked for.
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Where and how.
    #[command(flatten)]
    pub(super) setup: SetupArgs,
}

/// A command for a daemon.
#[derive(Clone, Debug, Args)]
pub(in super::super::super) struct DaemonArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Print control characters as they are instead of escaping them.
    #[arg(long)]
    pub(super) raw: bool,
    /// Which one.
    #[command(flatten)]
    pub(super) which: WhichArgs,
}

/// `ggrep status`.
#[derive(Clone, Debug, Args)]
pub(in super::super::super) struct StatusArgs {
    /// Print what was counted in the text format of Prometheus.
    #[arg(long, conflicts_with = "json")]
    pub(super) prometheus: bool,
    /// List all daemons of this user that note where they listen.
    #[arg(long, conflicts_with_all = ["prometheus", "verbose"])]
    pub(super) all: bool,
    /// Print every field.
    #[arg(long, short)]
    pub(super) verbose: bool,
    /// Which daemon, and how to print.
    #[command(flatten)]
    pub(super) daemon: DaemonArgs,
}

/// A question.
#[derive(Clone, Debug, Args)]
pub(super) struct QuestionArgs {
    /// What is looked for; after --, one that starts with a dash.
    #[arg(required = true)]
    pub(super) query: Option<String>,
    /// File or directory to search [default: the working directory].
    pub(super) path: Option<PathBuf>,

    /// What the answer is for [default: balanced].
    #[arg(long, value_name = "MODE")]
    pub(super) mode: Option<ModeArg>,
    /// The most results [default: 20].
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u64).range(1..=MAX_RESULTS.most))]
    pub(super) limit: Option<u64>,
    /// The most results of one file [default: what the mode says].
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u64).range(1..=MAX_PER_FILE.most))]
    pub(super) per_file: Option<u64>,
    /// How much to show of each place [default: short].
    #[arg(long, value_name = "HOW")]
    pub(super) snippet: Option<SnippetArg>,
    /// Give up after so many milliseconds [default: query_timeout_ms of [tools.daemon]].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=QUERY_TIMEOUT_MS.most))]
    pub(super) timeout_ms: Option<u64>,
    /// Answer an equal question about the same snapshot with equal bytes, without times.
    #[arg(long)]
    pub(super) deterministic: bool,
    /// Say how the answer came about.
    #[arg(long)]
    pub(super) explain: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Print control characters as they are instead of escaping them.
    #[arg(long)]
    pub(super) raw: bool,

    /// Ask a daemon that runs; don't start one.
    #[arg(long)]
    pub(super) no_start: bool,
    /// Where no daemon answers, search in this process.
    #[arg(long)]
    pub(super) fallback: bool,
    /// Who asks. Requests of one client share their turns with each other, not with those of others.
    #[arg(long, value_name = "ID", value_parser = client_id)]
    pub(super) client_id: Option<String>,
    /// Which daemon.
    #[command(flatten)]
    pub(super) which: WhichArgs,
}

/// Parses a client id.
fn client_id(id: &str) -> Result<String, String> {
    id_error(id).map_or_else(|| Ok(id.to_string()), Err)
}

/// `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeArg {
    /// Anything.
    Balanced,
    /// Finding one's way.
    Discovery,
    /// Writing code.
    Implementation,
    /// Planning a change.
    Planning,
    /// Finding a defect.
    Debug,
}

/// `--snippet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SnippetArg {
    /// Three lines.
    Short,
    /// Fifteen lines.
    Long,
    /// None.
    None,
}

impl QuestionArgs {
    pub(super) fn query(&self, path: Option<String>) -> SearchQuery {
        SearchQuery {
            limit: self.limit,
            per_file: self.per_file,
            mode: self.mode.map(|mode| match mode {
                ModeArg::Balanced => Mode::Balanced,
                ModeArg::Discovery => Mode::Discovery,
                ModeArg::Implementation => Mode::Implementation,
                ModeArg::Planning => Mode::Planning,
                ModeArg::Debug => Mode::Debug,
            }),
            path,
            snippet: self.snippet.map(|snippet| match snippet {
                SnippetArg::Short => SnippetMode::Short,
                SnippetArg::Long => SnippetMode::Long,
                SnippetArg::None => SnippetMode::None,
            }),
            explain: self.explain,
            deterministic: self.deterministic,
            raw: self.raw,
            timeout_ms: self.timeout_ms,
            ..SearchQuery::new(self.query.clone().unwrap_or_default())
        }
    }
}
