//! The arguments of the commands that need daemons or the executor, which only Unix has.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::SetupArgs;

/// The arguments of `execute`.
#[derive(Clone, Debug, Args)]
pub(in crate::tool::cli) struct ExecuteArgs {
    /// Manifest of the task: a file with one JSON object; - is standard input.
    #[arg(default_value = "-")]
    pub(in crate::tool::cli) manifest: PathBuf,
    /// Use the lease TOKEN; prefer --lease-file, because other users may see arguments.
    #[arg(long, value_name = "TOKEN", required_unless_present = "lease_file")]
    pub(in crate::tool::cli) lease: Option<String>,
    /// Read the lease from FILE; - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "lease")]
    pub(in crate::tool::cli) lease_file: Option<PathBuf>,
    /// Read the table [executor] from FILE [default: $FORGE_SEARCH_CONFIG, else
    /// forge-search/config.toml in $XDG_CONFIG_HOME or ~/.config].
    #[arg(long, value_name = "FILE")]
    pub(in crate::tool::cli) config: Option<PathBuf>,
    /// Print the number of skipped records and the peak memory to standard error.
    #[arg(long)]
    pub(in crate::tool::cli) stats: bool,
}

/// The commands for leases.
#[derive(Debug, Subcommand)]
pub(in crate::tool::cli) enum LeaseCommand {
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
#[derive(Debug, Args)]
pub(in crate::tool::cli) struct IssueArgs {
    /// Read the secret key from FILE; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub(in crate::tool::cli) key: PathBuf,
    /// Issue the lease for the task with this task_id.
    #[arg(long, value_name = "ID")]
    pub(in crate::tool::cli) task: String,
    /// Permit this capability_id: SEARCH_FILES, SEARCH_EMAILS or SEARCH_DATASETS.
    #[arg(long, value_name = "NAME")]
    pub(in crate::tool::cli) capability: String,
    /// Permit this target_scope, a scope of the executor's configuration.
    #[arg(long, value_name = "NAME")]
    pub(in crate::tool::cli) scope: String,
    /// End the lease SECONDS seconds from now.
    #[arg(long = "for", value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::tool::cli) seconds: u32,
    /// End the lease at TIME (RFC 3339, for example 2026-01-01T12:00:00Z), instead of --for.
    #[arg(long, value_name = "TIME", conflicts_with = "seconds")]
    pub(in crate::tool::cli) until: Option<jiff::Timestamp>,
}

/// The arguments of `serve`.
#[derive(Clone, Debug, Args)]
pub(in crate::tool::cli) struct ServeArgs {
    /// Root of the tree [default: the git working tree around the working directory, or the
    /// working directory].
    #[arg(value_name = "ROOT", conflicts_with = "root")]
    pub(in crate::tool::cli) tree: Option<PathBuf>,
    /// Listen at PATH instead of the default socket of this tree and configuration.
    #[arg(long, value_name = "PATH")]
    pub(in crate::tool::cli) socket: Option<PathBuf>,
    /// Log queries to FILE, one JSON object per line, without their text [default: a file in
    /// forge-search in $XDG_STATE_HOME or ~/.local/state].
    #[arg(long, value_name = "FILE")]
    pub(in crate::tool::cli) log: Option<PathBuf>,
    /// Run in the background; return once the daemon accepts clients.
    #[arg(long)]
    pub(in crate::tool::cli) detach: bool,
    /// Also serve a web page at ADDRESS, for example 127.0.0.1:8080, and print its URL.
    ///
    /// ADDRESS must be a loopback address. Port 0 selects a free port. The URL contains a secret
    /// token. If a daemon is already running, this process serves only the page.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["detach", "background"])]
    pub(in crate::tool::cli) http: Option<std::net::SocketAddr>,
    /// Detach from the terminal once the daemon accepts clients; --detach runs this.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(in crate::tool::cli) background: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(in crate::tool::cli) setup: SetupArgs,
}

/// The arguments of `mcp`.
#[derive(Clone, Debug, Args)]
pub(in crate::tool::cli) struct McpArgs {
    /// Answer in this process; ask and start no daemon.
    #[arg(long)]
    pub(in crate::tool::cli) no_daemon: bool,
    /// Limit each answer to BYTES bytes; three bytes are about one token.
    #[arg(long, value_name = "BYTES", default_value_t = crate::tool::mcp::server::MAX_OUTPUT_BYTES)]
    pub(in crate::tool::cli) max_output_bytes: usize,
    /// Add structured content to each answer; costs about three times as many tokens.
    #[arg(long)]
    pub(in crate::tool::cli) structured: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(in crate::tool::cli) setup: SetupArgs,
}

/// The arguments of `tui`.
#[derive(Clone, Debug, Args)]
pub(in crate::tool::cli) struct TuiArgs {
    /// Pattern to start with.
    pub(in crate::tool::cli) pattern: Option<String>,
    /// Answer in this process; ask and start no daemon.
    #[arg(long)]
    pub(in crate::tool::cli) no_daemon: bool,
    /// Neither show nor keep the patterns of earlier runs.
    #[arg(long)]
    pub(in crate::tool::cli) no_history: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(in crate::tool::cli) setup: SetupArgs,
}
