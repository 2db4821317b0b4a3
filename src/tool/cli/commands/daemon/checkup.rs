//! The daemon's part of `forge-search doctor`.
//!
//! This module inspects a running daemon, and collects the problems that the user should fix. Never
//! starts a daemon.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::tool::cli::answers::daemon::{DaemonEndpoint, root_of};
use crate::tool::cli::args::SetupArgs;
use crate::tool::cli::setup::Environment;
use crate::tool::daemon::client::{ClientError, Connection};
use crate::tool::daemon::report::{Health, Severity, Status};
use crate::tool::daemon::request::{Request, RequestBody};
use crate::tool::daemon::socket::is_taken;
use crate::tool::render::escape_controls;

/// Maximum time for a daemon to greet, and to report its status.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum time for a daemon's health check, which reads the whole index.
const HEALTH: Duration = Duration::from_secs(30);

/// The report about the daemon of a tree.
#[derive(Debug, Default, Serialize)]
pub(in crate::tool::cli) struct DaemonReport {
    /// The daemon's socket; if it is not running, the socket that it would use.
    socket: String,
    running: bool,
    pid: Option<u32>,
    version: Option<String>,
    /// The state of the index.
    sync: Option<String>,
    /// Whether the daemon's configuration is outdated.
    stale: Option<bool>,
    /// Warnings that require no action.
    warnings: Vec<String>,
    /// The enclosing git working tree, if its daemon is running. `ggrep` asks that daemon.
    around: Option<String>,
}

/// Inspects the daemon of a tree, and returns its report with all problems. Returns `None` if the
/// configuration is invalid or no socket is possible.
pub(in crate::tool::cli) fn examine(
    root: &Path,
    setup: &SetupArgs,
    environment: &Environment,
) -> Option<(DaemonReport, Vec<String>)> {
    let endpoint = DaemonEndpoint::find(root, setup, None, environment).ok()?;
    let mut report = DaemonReport {
        socket: endpoint.socket.display().to_string(),
        ..DaemonReport::default()
    };
    let mut problems = Vec::new();
    let caller = endpoint.caller(None, endpoint.patience(PATIENCE));
    let mut connection = match Connection::open(&endpoint.socket, &endpoint.served, caller) {
        Err(ClientError::Unreachable(_)) => {
            report.around = enclosing_tree_with_daemon(root, setup, environment);
            return Some((report, problems));
        }
        Err(error) => {
            problems.push(format!(
                "the program that listens at {} does not answer correctly: {error}; end it with \
                 `ggrep stop` or, if that fails, kill its process",
                endpoint.socket.display()
            ));
            return Some((report, problems));
        }
        Ok(connection) => connection,
    };
    report.running = true;
    report.version = Some(connection.welcome.binary_version.clone());
    let mut ask = |body, patience| connection.ask(&Request { id: None, body }, patience);
    match ask(RequestBody::Status, endpoint.patience(PATIENCE))
        .map(|answer| serde_json::from_slice::<Status>(&answer))
    {
        Ok(Ok(status)) => {
            report.pid = status.daemon.pid;
            report.sync = Some(status.sync.state);
            report.stale = Some(status.daemon.stale);
        }
        Ok(Err(_)) => {}
        Err(error) => problems.push(format!("the daemon does not report its status: {error}")),
    }
    match ask(RequestBody::Health, endpoint.patience(HEALTH))
        .map(|answer| serde_json::from_slice::<Health>(&answer))
    {
        Ok(Ok(health)) => {
            for check in health.checks {
                let said = format!("{}: {}", check.code, check.message);
                match check.severity {
                    Severity::Ok => {}
                    Severity::Warn => report.warnings.push(said),
                    Severity::Fail => problems.push(said),
                }
            }
        }
        // The daemon refused, for example because another client runs the same check.
        Ok(Err(_)) => {}
        Err(error) => problems.push(format!(
            "the daemon does not answer the health check: {error}"
        )),
    }
    Some((report, problems))
}

/// Returns the enclosing git working tree, if it is another directory and its daemon is running.
fn enclosing_tree_with_daemon(
    root: &Path,
    setup: &SetupArgs,
    environment: &Environment,
) -> Option<String> {
    let around = root_of(None, Some(root), environment).ok()?;
    let setup = SetupArgs {
        root: None,
        ..setup.clone()
    };
    let endpoint = DaemonEndpoint::find(&around, &setup, None, environment).ok()?;
    (around != root && is_taken(&endpoint.socket)).then(|| around.display().to_string())
}

impl DaemonReport {
    /// Prints the report as text.
    pub(in crate::tool::cli) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\ndaemon")?;
        let socket = escape_controls(&self.socket);
        if !self.running {
            writeln!(out, "  not running        (its socket would be {socket})")?;
            if let Some(around) = &self.around {
                let around = escape_controls(around);
                writeln!(
                    out,
                    "  around            the daemon of {around} runs; ggrep asks it, and so do \
                     searches from there"
                )?;
            }
            return Ok(());
        }
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_string());
        writeln!(out, "  socket            {socket}")?;
        if let Some(pid) = self.pid {
            writeln!(out, "  process           {pid}")?;
        }
        writeln!(
            out,
            "  version           {}",
            escape_controls(&known(&self.version))
        )?;
        let sync = known(&self.sync);
        writeln!(out, "  index             {}", escape_controls(&sync))?;
        for warning in &self.warnings {
            writeln!(out, "  warning           {}", escape_controls(warning))?;
        }
        Ok(())
    }
}
