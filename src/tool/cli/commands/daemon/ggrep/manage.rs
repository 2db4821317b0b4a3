//! The commands `ggrep status`, `health` and `stop`.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::args::{DaemonArgs, StatusArgs};
use super::human;
use super::{GRACE, GgrepError, endpoint_for, has_ended, refused};
use crate::tool::cli::answers::daemon::DaemonEndpoint;
use crate::tool::cli::answers::daemon::client::DaemonCallError;
use crate::tool::cli::complain_as;
use crate::tool::cli::setup::Environment;
use crate::tool::daemon::client::{Caller, ClientError, Connection};
use crate::tool::daemon::inspect;
use crate::tool::daemon::reply::ErrorCode;
use crate::tool::daemon::report::{Exposition, Health, Status};
use crate::tool::daemon::request::{Request, RequestBody};
use crate::tool::daemon::service::payload;
use crate::tool::daemon::socket::{Access, DaemonRecord, Identity, registered_daemons};

/// Maximum time for a status report, or for the confirmation of a shutdown.
const STATUS: Duration = Duration::from_secs(5);

/// Maximum time for a daemon to greet, when all daemons are asked.
const GLANCE: Duration = Duration::from_secs(1);

/// Maximum time for a health check.
const HEALTH: Duration = Duration::from_secs(120);

/// Sends a request about the daemon itself, such as `RequestBody::Status`. Returns `None` if no
/// daemon is running.
fn send_to_running(
    endpoint: &DaemonEndpoint,
    body: RequestBody,
) -> Result<Option<Vec<u8>>, GgrepError> {
    // A health check reads the whole index.
    let patience = match body {
        RequestBody::Health => endpoint.patience(HEALTH),
        _ => endpoint.patience(STATUS),
    };
    let request = Request { id: None, body };
    let caller = endpoint.caller(None, endpoint.patience(STATUS));
    match Connection::open(&endpoint.socket, &endpoint.served, caller) {
        Ok(mut connection) => {
            let answer = match connection.ask(&request, patience) {
                // Another process has just ended the daemon.
                Err(ClientError::Gone(_)) => return Ok(None),
                answer => answer?,
            };
            match serde_json::from_slice(&answer) {
                Ok(failure) => Err(GgrepError::Failed(failure)),
                Err(_) => Ok(Some(answer)),
            }
        }
        Err(ClientError::Unreachable(_) | ClientError::Gone(_)) => Ok(None),
        Err(ClientError::Refused(failure))
            if endpoint.named
                && request.body == RequestBody::Shutdown
                && failure.error.code == ErrorCode::InvalidRequest =>
        {
            // The socket belongs to another daemon. Suggesting to drop `--socket` would end the
            // wrong one.
            let message = format!(
                "{}: a daemon of another tree or configuration listens at {}; to end it, give the \
                 --root, --config and --set with which it was started",
                failure.error.message,
                endpoint.socket.display()
            );
            Err(GgrepError::failed(ErrorCode::InvalidRequest, message))
        }
        Err(error) => Err(refused(DaemonCallError::Client(error), endpoint)),
    }
}

/// Prints an answer as JSON, or one line per field.
fn print(answer: &[u8], args: &DaemonArgs, out: &mut dyn Write) -> Result<(), GgrepError> {
    match args.json {
        true => Ok(human::print_json(answer, args.raw, out)?),
        false => {
            let value = serde_json::from_slice(answer).unwrap_or_default();
            Ok(human::print_fields(
                "",
                &value,
                &human::shown(args.raw),
                out,
            )?)
        }
    }
}

pub(super) fn status(
    args: &StatusArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), GgrepError> {
    let endpoint = endpoint_for(&args.daemon.which, environment)?;
    if args.prometheus {
        let Some(answer) = send_to_running(&endpoint, RequestBody::Metrics)? else {
            return Err(absent(&endpoint));
        };
        let exposition: Exposition =
            serde_json::from_slice(&answer).map_err(|error| unread(&error))?;
        out.write_all(exposition.text.as_bytes())?;
        return Ok(());
    }
    if args.all {
        return status_of_all(args, environment, out);
    }
    let answer = match send_to_running(&endpoint, RequestBody::Status)? {
        Some(answer) => answer,
        None => payload(&inspect::absent(
            &endpoint.served,
            &endpoint.root,
            &endpoint.config,
            environment.excludes_at(&endpoint.root).as_deref(),
        )),
    };
    if args.daemon.json || args.verbose {
        return print(&answer, &args.daemon, out);
    }
    let row = Row::read(&answer, &endpoint.socket).ok_or_else(|| unread(&"it has other fields"))?;
    Ok(human::print_rows(&row.fields(), args.daemon.raw, out)?)
}

fn unread(why: &dyn std::fmt::Display) -> GgrepError {
    let message = format!("the daemon's answer can't be read: {why}");
    GgrepError::failed(ErrorCode::Internal, message)
}

/// A daemon in a list.
#[derive(Debug, Serialize)]
struct Row {
    tree: String,
    pid: Option<u32>,
    socket: String,
    /// The state of the index; `unknown` if the daemon does not answer.
    state: String,
    index_bytes: Option<u64>,
    since: Option<String>,
    version: Option<String>,
}

impl Row {
    fn read(status: &[u8], socket: &Path) -> Option<Row> {
        let status: Status = serde_json::from_slice(status).ok()?;
        let daemon = status.daemon;
        let state = match (daemon.running, daemon.stale) {
            (false, _) => "no daemon runs".to_string(),
            (true, true) => "the configuration has changed since the daemon started".to_string(),
            (true, false) => status.sync.state,
        };
        Some(Row {
            tree: status.canonical_root,
            pid: daemon.pid,
            socket: socket.display().to_string(),
            state,
            index_bytes: Some(status.resources.disk.store_bytes),
            since: daemon.started_at,
            version: daemon.binary_version,
        })
    }

    fn from_record(note: &DaemonRecord) -> Row {
        Row {
            tree: note.root.display().to_string(),
            pid: Some(note.pid),
            socket: note.socket.display().to_string(),
            state: "unknown".to_string(),
            index_bytes: None,
            since: None,
            version: None,
        }
    }

    fn fields(self) -> Vec<(&'static str, String)> {
        let bytes = self.index_bytes.map(|bytes| format!("{bytes} bytes"));
        let fields = [
            ("tree", Some(self.tree)),
            ("pid", self.pid.map(|pid| pid.to_string())),
            ("socket", Some(self.socket)),
            ("state", Some(self.state)),
            ("index", bytes),
            ("since", self.since),
            ("version", self.version),
        ];
        let known = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        known.collect()
    }
}

/// Prints the status of all daemons that this user's notes record.
fn status_of_all(
    args: &StatusArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), GgrepError> {
    let notes = environment
        .sockets
        .state_dir()
        .map(|dir| registered_daemons(&dir));
    let notes = notes.unwrap_or_default();
    let rows: Vec<Row> = notes
        .iter()
        .map(|note| query_status(note).unwrap_or_else(|| Row::from_record(note)))
        .collect();
    if args.daemon.json {
        let all = serde_json::json!({ "daemons": rows });
        return Ok(human::print_json(
            all.to_string().as_bytes(),
            args.daemon.raw,
            out,
        )?);
    }
    if rows.is_empty() {
        complain_as("ggrep", "no daemon of this user is running");
    }
    for (nth, row) in rows.into_iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        human::print_rows(&row.fields(), args.daemon.raw, out)?;
    }
    Ok(())
}

/// Returns a daemon's status, or `None` if it does not answer soon.
fn query_status(note: &DaemonRecord) -> Option<Row> {
    let caller = Caller {
        client_id: None,
        patience: GLANCE,
        access: Access::Owner,
    };
    let mut connection = Connection::open(&note.socket, &note.served, caller).ok()?;
    let request = Request {
        id: None,
        body: RequestBody::Status,
    };
    Row::read(&connection.ask(&request, STATUS).ok()?, &note.socket)
}

/// Prints the result of a health check. Fails if a check failed.
pub(super) fn health(
    args: &DaemonArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), GgrepError> {
    let endpoint = endpoint_for(&args.which, environment)?;
    let answer =
        send_to_running(&endpoint, RequestBody::Health)?.ok_or_else(|| absent(&endpoint))?;
    let health: Health = serde_json::from_slice(&answer).map_err(|error| unread(&error))?;
    match args.json {
        true => print(&answer, args, out)?,
        false => human::print_health(&health, args.raw, out)?,
    }
    match health.ok {
        true => Ok(()),
        false => Err(GgrepError::Negative),
    }
}

fn absent(endpoint: &DaemonEndpoint) -> GgrepError {
    GgrepError::failed(
        ErrorCode::Internal,
        format!(
            "no daemon is running for {}; `forge-search serve` or a question starts one",
            endpoint.root.display()
        ),
    )
}

pub(super) fn stop(
    args: &DaemonArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), GgrepError> {
    let endpoint = endpoint_for(&args.which, environment)?;
    let before = Identity::of(&endpoint.socket);
    let stopped = send_to_running(&endpoint, RequestBody::Shutdown)?.is_some();
    let shutdown = Duration::from_millis(endpoint.config.search.index_shutdown_timeout_ms);
    let most = endpoint.patience(shutdown + GRACE);
    if !has_ended(&endpoint, before, most) {
        return Err(GgrepError::failed(
            ErrorCode::Timeout,
            format!(
                "the daemon of {} has not ended after {most:?}",
                endpoint.root.display()
            ),
        ));
    }
    match (args.json, stopped) {
        (true, _) => writeln!(out, "{}", serde_json::json!({ "stopped": stopped }))?,
        (false, true) => writeln!(out, "stopped")?,
        (false, false) => complain_as(
            "ggrep",
            &format!("no daemon was running for {}", endpoint.root.display()),
        ),
    }
    Ok(())
}
