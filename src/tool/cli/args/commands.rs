//! The arguments of commands other than searches and indexes, on every system.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{DaemonWhen, SetupArgs};

/// The name of a tool.
#[derive(Debug, Args)]
pub(in crate::tool::cli) struct ToolArgs {
    /// Use the tool NAME: Search, search_files, find_files or find_code.
    #[arg(long, value_name = "NAME", default_value = "Search")]
    pub(in crate::tool::cli) tool: String,
}

/// The arguments of `call`.
#[derive(Debug, Args)]
pub(in crate::tool::cli) struct CallArgs {
    /// Request in JSON [default: standard input].
    #[arg(conflicts_with = "jsonl")]
    pub(in crate::tool::cli) request: Option<String>,
    /// The tool to call.
    #[command(flatten)]
    pub(in crate::tool::cli) tool: ToolArgs,
    /// Read one request per line of standard input; print one response per line.
    #[arg(long)]
    pub(in crate::tool::cli) jsonl: bool,
    /// Build the index, or wait for its build, before answering the first request.
    #[arg(long)]
    pub(in crate::tool::cli) wait_index: bool,
    /// Limit each response to BYTES bytes [default: max_output_bytes of the configuration].
    #[arg(long, value_name = "BYTES")]
    pub(in crate::tool::cli) max_output_bytes: Option<usize>,
    /// Choose whether the daemon of the tree answers [default: use, or tools.daemon.searches]
    ///
    /// Has no effect with --jsonl and --wait-index. `start` starts no daemon here.
    #[arg(long, value_name = "WHEN")]
    pub(in crate::tool::cli) daemon: Option<DaemonWhen>,
    /// The root and the configuration.
    #[command(flatten)]
    pub(in crate::tool::cli) setup: SetupArgs,
}

impl CallArgs {
    /// Returns the setup arguments, with the setting that `--daemon` stands for.
    pub(in crate::tool::cli) fn setup(&self) -> SetupArgs {
        let mut setup = self.setup.clone();
        setup.set.extend(self.daemon.map(DaemonWhen::setting));
        setup
    }
}

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub(in crate::tool::cli) struct DoctorArgs {
    /// Print the report as JSON.
    #[arg(long)]
    pub(in crate::tool::cli) json: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(in crate::tool::cli) setup: SetupArgs,
}

/// The arguments of `setup`.
#[derive(Debug, Args)]
pub(in crate::tool::cli) struct SetupTargetArgs {
    /// Client to set up.
    pub(in crate::tool::cli) target: SetupTarget,
    /// Use the configuration file of the project in the working directory, instead of yours.
    #[arg(long)]
    pub(in crate::tool::cli) project: bool,
    /// Let the client search the tree at DIR, instead of the one it works in; with --project and
    /// agents-md, change the file in DIR.
    #[arg(long, value_name = "DIR")]
    pub(in crate::tool::cli) root: Option<PathBuf>,
    /// Put the link `rg` into DIR [default: a directory of yours in PATH, or ~/.local/bin]
    #[arg(long, value_name = "DIR")]
    pub(in crate::tool::cli) dir: Option<PathBuf>,
    /// Write the change; keep a copy of the file beside it.
    #[arg(long)]
    pub(in crate::tool::cli) write: bool,
    /// Take the change back: restore the former entry, or remove the entry, the paragraph or the
    /// link.
    #[arg(long, conflicts_with = "write")]
    pub(in crate::tool::cli) undo: bool,
}

/// A client that `setup` knows, or another thing that it sets up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::tool::cli) enum SetupTarget {
    /// Claude Code of Anthropic.
    Claude,
    /// Codex of OpenAI.
    Codex,
    /// The editor Cursor; its project file, or yours with --root.
    Cursor,
    /// Gemini CLI of Google.
    Gemini,
    /// The agent opencode.
    Opencode,
    /// Visual Studio Code; its project file, or yours with --root.
    Vscode,
    /// The editor Zed.
    Zed,
    /// The editor Windsurf, with --root.
    Windsurf,
    /// A link `rg` to this program, which programs call instead of ripgrep.
    Rg,
    /// A paragraph in AGENTS.md that tells models how to search.
    AgentsMd,
}
