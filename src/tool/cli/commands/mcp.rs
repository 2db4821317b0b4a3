//! `forge-search mcp`: a Model Context Protocol server on standard input and output.
//!
//! This module owns the trees that a client can search. Clients may name roots, which restrict the
//! allowed roots of the configuration. Each restriction has a [`Backend`] of its own, which answers
//! the calls. `tool::mcp` implements the protocol.

use std::io::{self, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::service::ServerInitializeError;

use crate::format::mutex::lock;
use crate::tool::cli::answers::backend::{Backend, start_unless};
use crate::tool::cli::answers::daemon::canonical;
use crate::tool::cli::args::{McpArgs, SetupArgs};
use crate::tool::cli::setup::{Environment, load_config};
use crate::tool::cli::{Failure, complain};
use crate::tool::config::{Config, DaemonUse};
use crate::tool::daemon::tree_backend::TreeBackend;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::mcp::roots::{BackendSource, within};
use crate::tool::mcp::server::Server;
use crate::tool::mcp::transport::{LineTransport, watch_output};

/// How long shutdown waits for threads that are still searching.
const LAST: Duration = Duration::from_millis(200);

/// How long the last answers may take to be written after the client has closed its input.
const GONE: Duration = Duration::from_secs(6);

/// Maximum number of open backends; the least recently used one is closed first.
const TREES: usize = 4;

/// Serves until the client closes standard input.
pub(in crate::tool::cli) fn run(args: &McpArgs, environment: &Environment) -> Result<u8, Failure> {
    let forest = Arc::new(McpBackends::new(args, environment)?);
    // Report configuration errors before a client sends a request.
    forest.config()?;
    let server = Server::new(forest.clone(), args.max_output_bytes, args.structured);
    if io::stdin().is_terminal() {
        complain(
            "this command is for agents: it speaks the Model Context Protocol on standard input \
             and output; end it with Ctrl-D",
        );
    }
    let failed = |why: String| Failure::Tool(ToolError::failed("mcp", why));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let client = server.client();
    watch_output(client.clone())?;
    let input = BufReader::new(io::stdin());
    let transport = LineTransport::new(input, io::stdout(), client.clone())?;
    let served = runtime.block_on(async {
        let mut closed = client.closed.subscribe();
        let mut closed_early = client.closed.subscribe();
        let begun = tokio::select! {
            begun = rmcp::serve_server(server, transport) => begun,
            _ = closed_early.wait_for(|closed| *closed) => return Ok(()),
        };
        match begun {
            Ok(running) => {
                let mut ended = client.ended.subscribe();
                let gone = async {
                    // The server drops its sender only when it ends.
                    let _ = ended.wait_for(|ended| *ended).await;
                    tokio::time::sleep(GONE).await;
                };
                tokio::select! {
                    ended = running.waiting() => ended.map(|_| ()).map_err(|error| {
                        failed(format!("the server ended unexpectedly: {error}"))
                    }),
                    // The client may keep its output pipe open without reading it.
                    () = gone => Ok(()),
                    _ = closed.wait_for(|closed| *closed) => Ok(()),
                }
            }
            // Some clients start the program and close the connection at once, to check that it
            // exists.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(failed(format!(
                "the client does not speak the Model Context Protocol: {error}"
            ))),
        }
    });
    runtime.shutdown_timeout(LAST);
    forest.shut_down();
    served.map(|()| 0)
}

/// The trees of one server's clients.
struct McpBackends {
    /// The canonical root. A client whose roots exclude it gets another one.
    root: PathBuf,
    setup: SetupArgs,
    environment: Environment,
    daemon_use: Option<DaemonUse>,
    /// The open backends, by restriction. The most recently used one comes last.
    opened: Mutex<Vec<(Left, Arc<Backend>)>>,
}

/// The allowed roots that the client's roots leave; `None` if they leave all of them.
type Left = Option<Vec<PathBuf>>;

impl McpBackends {
    fn new(args: &McpArgs, environment: &Environment) -> Result<McpBackends, ToolError> {
        let named = args.setup.root.as_deref();
        let root = canonical(named.unwrap_or(Path::new(".")), environment)?;
        let home = environment.home.as_deref();
        if named.is_none() && (root.parent().is_none() || home == Some(root.as_path())) {
            return Err(ToolError::bad_args(format!(
                "the server was started in {}, which is hardly the tree to search; name the tree \
                 with --root, or have the agent start the server in it",
                root.display()
            )));
        }
        Ok(McpBackends {
            setup: args.setup.with_absolute_paths(None, environment)?,
            root,
            environment: environment.clone(),
            daemon_use: start_unless(args.no_daemon),
            opened: Mutex::default(),
        })
    }

    fn config(&self) -> Result<Config, ToolError> {
        load_config(&self.setup, &self.environment)
    }

    /// Creates the backend for a restriction of the allowed roots.
    fn one(&self, left: Option<&[PathBuf]>) -> Result<Backend, ToolError> {
        let mut setup = self.setup.clone();
        let mut root = self.root.clone();
        // Relative paths of a client start at the root.
        let allowed = self.allowed()?;
        let roots = left.unwrap_or(&allowed);
        let moves = !self.has_root(roots);
        if let Some(first) = roots.first().filter(|_| moves) {
            root.clone_from(first);
        }
        if left.is_some() || moves {
            // Write absolute paths: relative ones in the configuration start at the original root.
            let list = toml_list(roots)?;
            let indexed = self.config()?.search.index_roots;
            let indexed = match indexed.is_empty() {
                true if roots.len() > 1 => list.clone(),
                _ => {
                    let absolute = indexed.iter().map(|one| self.root.join(one));
                    toml_list(&absolute.collect::<Vec<_>>())?
                }
            };
            setup
                .set
                .push(format!("tools.sandbox.allowed_roots={list}"));
            setup
                .set
                .push(format!("tools.search.index_roots={indexed}"));
        }
        setup.root = Some(root.clone());
        Ok(Backend::new(
            root,
            setup,
            &self.environment,
            self.daemon_use,
        ))
    }

    /// Returns the allowed roots of the configuration, as canonical directories.
    fn allowed(&self) -> Result<Vec<PathBuf>, ToolError> {
        let mut allowed = Vec::new();
        for configured in &self.config()?.sandbox.allowed_roots {
            allowed.push(canonical(&self.root.join(configured), &self.environment)?);
        }
        if allowed.is_empty() {
            allowed.push(self.root.clone());
        }
        Ok(allowed)
    }

    /// Returns whether the root lies in one of the directories.
    fn has_root(&self, roots: &[PathBuf]) -> bool {
        roots.iter().any(|one| self.root.starts_with(one))
    }

    fn shut_down(&self) {
        let opened = lock(&self.opened);
        for (_, tree) in &*opened {
            tree.shut_down();
        }
    }
}

impl BackendSource for McpBackends {
    fn open(&self, client_roots: Option<&[PathBuf]>) -> Result<Arc<dyn TreeBackend>, ToolError> {
        let left = match client_roots {
            None => None,
            Some(named) => {
                let mut allowed = self.allowed()?;
                // Ignore client roots that do not exist or are no directories.
                let named: Vec<PathBuf> = named
                    .iter()
                    .filter_map(|root| root.canonicalize().ok())
                    .filter(|root| root.is_dir())
                    .collect();
                let left = within(&allowed, &named);
                if left.is_empty() {
                    let Some(attempted) = client_roots.and_then(<[PathBuf]>::first).cloned() else {
                        return Err(ToolError::bad_args(
                            "no root of the client is a directory of this machine; roots need \
                             file: URIs",
                        ));
                    };
                    return Err(DenialReason::PathOutsideSandbox {
                        resolved: attempted.clone(),
                        attempted,
                    }
                    .into());
                }
                allowed.sort();
                let mut sorted = left.clone();
                sorted.sort();
                // The order of roots only matters if relative paths start at the first one.
                (sorted != allowed || !self.has_root(&left)).then_some(left)
            }
        };
        let mut opened = lock(&self.opened);
        let one = match opened.iter().position(|(of, _)| *of == left) {
            Some(at) => opened.remove(at).1,
            None => Arc::new(self.one(left.as_deref())?),
        };
        opened.push((left, one.clone()));
        let gone = match opened.len() > TREES {
            true => Some(opened.remove(0).1),
            false => None,
        };
        drop(opened);
        if let Some(gone) = gone {
            gone.let_go();
        }
        Ok(one)
    }
}

/// Formats paths as a TOML list for `--set`.
fn toml_list(paths: &[PathBuf]) -> Result<String, ToolError> {
    let texts: Result<Vec<_>, _> = paths
        .iter()
        .map(|path| {
            let text = path.to_str().map(str::to_string);
            text.map(toml::Value::String).ok_or_else(|| {
                ToolError::bad_args(format!(
                    "the root {} is not valid UTF-8; name a directory above it",
                    path.display()
                ))
            })
        })
        .collect();
    Ok(toml::Value::Array(texts?).to_string())
}
