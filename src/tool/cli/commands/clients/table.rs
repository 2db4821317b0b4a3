//! The clients: where each keeps its configuration, and the shape of an entry in it.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::edit::{Entry, Format, Server};
use super::{Environment, NAME, SetupTarget};

/// The fields of an entry.
#[derive(Clone, Copy)]
enum Shape {
    /// `command` and `args`.
    Plain,
    /// The same with `type = "stdio"`.
    Stdio,
    /// The same with `source = "custom"`.
    Custom,
    /// `type = "local"`, and the whole command in one list.
    Local,
}

/// A program that starts servers of the Model Context Protocol.
pub(super) struct Client {
    target: SetupTarget,
    /// The name that people know.
    pub(super) title: &'static str,
    /// The user's file on Linux, macOS and Windows. `~` is the home directory, and `$CONFIG` the
    /// directory of configuration files.
    user: [&'static str; 3],
    /// A variable of the environment that names the directory of the user's file.
    directory_variable: Option<&'static str>,
    /// The file of one project, if the client has one.
    pub(super) project: Option<&'static str>,
    /// Whether a server that the user's file starts runs in the tree the user works in.
    pub(super) starts_in_tree: bool,
    /// The client's variable for the tree in the file of a project, if a server may run elsewhere.
    pub(super) root_variable: Option<&'static str>,
    format: Format,
    /// The keys that lead to the entries of all servers.
    keys: &'static [&'static str],
    shape: Shape,
}

/// All clients, in the order of the help.
pub(super) const CLIENTS: [Client; 8] = [
    Client {
        target: SetupTarget::Claude,
        title: "Claude Code",
        user: ["~/.claude.json"; 3],
        directory_variable: Some("CLAUDE_CONFIG_DIR"),
        project: Some(".mcp.json"),
        starts_in_tree: true,
        root_variable: None,
        format: Format::Json,
        keys: &["mcpServers"],
        shape: Shape::Stdio,
    },
    Client {
        target: SetupTarget::Codex,
        title: "Codex",
        user: ["~/.codex/config.toml"; 3],
        directory_variable: Some("CODEX_HOME"),
        project: Some(".codex/config.toml"),
        starts_in_tree: true,
        root_variable: None,
        format: Format::Toml,
        keys: &["mcp_servers"],
        shape: Shape::Plain,
    },
    Client {
        target: SetupTarget::Cursor,
        title: "Cursor",
        user: ["~/.cursor/mcp.json"; 3],
        directory_variable: None,
        project: Some(".cursor/mcp.json"),
        starts_in_tree: false,
        root_variable: Some("${workspaceFolder}"),
        format: Format::Json,
        keys: &["mcpServers"],
        shape: Shape::Plain,
    },
    Client {
        target: SetupTarget::Gemini,
        title: "Gemini CLI",
        user: ["~/.gemini/settings.json"; 3],
        directory_variable: None,
        project: Some(".gemini/settings.json"),
        starts_in_tree: true,
        root_variable: None,
        format: Format::Json,
        keys: &["mcpServers"],
        shape: Shape::Plain,
    },
    Client {
        target: SetupTarget::Opencode,
        title: "opencode",
        user: [
            "$CONFIG/opencode/opencode.json",
            "$CONFIG/opencode/opencode.json",
            "~/.config/opencode/opencode.json",
        ],
        directory_variable: None,
        project: Some("opencode.json"),
        starts_in_tree: true,
        root_variable: None,
        format: Format::Json,
        keys: &["mcp"],
        shape: Shape::Local,
    },
    Client {
        target: SetupTarget::Vscode,
        title: "VS Code",
        user: [
            "$CONFIG/Code/User/mcp.json",
            "~/Library/Application Support/Code/User/mcp.json",
            "$CONFIG/Code/User/mcp.json",
        ],
        directory_variable: None,
        project: Some(".vscode/mcp.json"),
        starts_in_tree: false,
        root_variable: None,
        format: Format::Json,
        keys: &["servers"],
        shape: Shape::Stdio,
    },
    Client {
        target: SetupTarget::Zed,
        title: "Zed",
        user: [
            "$CONFIG/zed/settings.json",
            "~/.config/zed/settings.json",
            "$CONFIG/Zed/settings.json",
        ],
        directory_variable: None,
        project: Some(".zed/settings.json"),
        starts_in_tree: true,
        root_variable: None,
        format: Format::Json,
        keys: &["context_servers"],
        shape: Shape::Custom,
    },
    Client {
        target: SetupTarget::Windsurf,
        title: "Windsurf",
        user: ["~/.codeium/windsurf/mcp_config.json"; 3],
        directory_variable: None,
        project: None,
        starts_in_tree: false,
        root_variable: None,
        format: Format::Json,
        keys: &["mcpServers"],
        shape: Shape::Plain,
    },
];

/// Returns the client that a target of the command names.
pub(super) fn of(target: SetupTarget) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.target == target)
}

impl Client {
    /// Returns the user's configuration file. Returns `None` if the home directory is unknown.
    pub(super) fn user_file(&self, environment: &Environment) -> Option<PathBuf> {
        let system = match () {
            () if cfg!(target_os = "macos") => 1,
            () if cfg!(windows) => 2,
            () => 0,
        };
        let user = self.user[system];
        let mut named = environment.client_dirs.iter();
        let named = named.find(|(name, _)| Some(*name) == self.directory_variable);
        let path = match named {
            Some((_, dir)) => dir.join(Path::new(user).file_name()?),
            None => match user.strip_prefix("$CONFIG/") {
                Some(rest) => environment.config_home.as_ref()?.join(rest),
                None => environment.home.as_ref()?.join(user.strip_prefix("~/")?),
            },
        };
        Some(self.existing(path))
    }

    /// Returns the path of a file that may have the ending `.jsonc` instead, which opencode reads
    /// too.
    pub(super) fn existing(&self, path: PathBuf) -> PathBuf {
        let other = path.with_extension("jsonc");
        match matches!(self.shape, Shape::Local) && !path.exists() && other.exists() {
            true => other,
            false => path,
        }
    }

    /// Returns the entry that starts a command.
    pub(super) fn entry(&self, command: &[String]) -> Entry {
        let mut fields = Vec::new();
        match self.shape {
            Shape::Plain => {}
            Shape::Stdio => fields.push(("type", json!("stdio"))),
            Shape::Custom => fields.push(("source", json!("custom"))),
            Shape::Local => fields.push(("type", json!("local"))),
        }
        let (program, args) = match command.split_first() {
            Some((program, args)) => (program.as_str(), args),
            None => ("", command),
        };
        match self.shape {
            Shape::Local => fields.extend([("command", json!(command)), ("enabled", json!(true))]),
            _ => fields.extend([("command", json!(program)), ("args", json!(args))]),
        }
        Entry::Server(Server {
            format: self.format,
            keys: self.keys,
            name: NAME,
            fields,
        })
    }
}
