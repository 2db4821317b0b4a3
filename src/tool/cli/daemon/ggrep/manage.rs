//! `ggrep status`, `health` and `stop`.

use std::io::Write;
use std::time::Duration;

use super::args::{DaemonArgs, StatusArgs};
use super::{Ended, GRACE, has_ended, meant_by, refused};
use crate::tool::cli::complain_as;
use crate::tool::cli::daemon::start::Unconnected;
use crate::tool::cli::daemon::{Meant, people};
use crate::tool::cli::setup::Environment;
use crate::tool::daemon::client::{ClientError, Connection};
use crate::tool::daemon::inspect;
use crate::tool::daemon::reply::ErrorCode;
use crate::tool::daemon::report::{Exposition, Health};
use crate::tool::daemon::request::{Asked, Request};
use crate::tool::daemon::service::payload;
use crate::tool::daemon::socket::Identity;

/// How long it may take to say how a daemon is, or that it ends.
const STATUS: Duration = Duration::from_secs(5);

/// How long it may take to check everything.
const HEALTH: Duration = Duration::from_secs(120);

/// Asks a daemon that runs how it is, or to end; `None` if there is none.
fn ask_running(meant: &Meant, asked: Asked) -> Result<Option<Vec<u8>>, Ended> {
    // Reading all of an index takes its time.
    let patience = match asked {
        Asked::Health => HEALTH,
        _ => STATUS,
    };
    let request = Request { id: None, asked };
    let caller = meant.caller(None, STATUS);
    match Connection::open(&meant.socket, &meant.store, caller) {
        Ok(mut connection) => {
            let answer = connection.ask(&request, patience)?;
            match serde_json::from_slice(&answer) {
                Ok(failure) => Err(Ended::Failed(failure)),
                Err(_) => Ok(Some(answer)),
            }
        }
        Err(ClientError::Unreachable(_) | ClientError::Gone(_)) => Ok(None),
        Err(ClientError::Refused(failure))
            if meant.named
                && request.asked == Asked::Shutdown
                && failure.error.code == ErrorCode::InvalidRequest =>
        {
            // Without --socket, it is another daemon that would end.
            let message = format!(
                "{}: a daemon of another tree or configuration listens at {}; to end that one, give the --root, --config and --set that it was started with",
                failure.error.message,
                meant.socket.display()
            );
            Err(Ended::failed(ErrorCode::InvalidRequest, message))
        }
        Err(error) => Err(refused(Unconnected::Client(error), meant)),
    }
}

/// Prints an answer: as it is, or a line for each field.
fn print(answer: &[u8], args: &DaemonArgs, out: &mut dyn Write) -> Result<(), Ended> {
    match args.json {
        true => Ok(people::print_json(answer, args.raw, out)?),
        false => {
            let value = serde_json::from_slice(answer).unwrap_or_default();
            Ok(people::print_fields(
                "",
                &value,
                &people::shown(args.raw),
                out,
            )?)
        }
    }
}

pub(super) fn status(
    args: &StatusArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Ended> {
    let meant = meant_by(&args.daemon.which, environment)?;
    if args.prometheus {
        let Some(answer) = ask_running(&meant, Asked::Metrics)? else {
            return Err(absent(&meant));
        };
        let unread =
            |error: serde_json::Error| Ended::failed(ErrorCode::Internal, error.to_string());
        let exposition: Exposition = serde_json::from_slice(&answer).map_err(unread)?;
        out.write_all(exposition.text.as_bytes())?;
        return Ok(());
    }
    let answer = match ask_running(&meant, Asked::Status)? {
        Some(answer) => answer,
        None => payload(&inspect::absent(
            &meant.store,
            &meant.root,
            &meant.config,
            environment.global_excludes.as_deref(),
        )),
    };
    print(&answer, &args.daemon, out)
}

/// Prints what was looked at. Fails if a check failed.
pub(super) fn health(
    args: &DaemonArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Ended> {
    let meant = meant_by(&args.which, environment)?;
    let answer = ask_running(&meant, Asked::Health)?.ok_or_else(|| absent(&meant))?;
    let unread = |error: serde_json::Error| Ended::failed(ErrorCode::Internal, error.to_string());
    let health: Health = serde_json::from_slice(&answer).map_err(unread)?;
    match args.json {
        true => print(&answer, args, out)?,
        false => people::print_health(&health, args.raw, out)?,
    }
    match health.ok {
        true => Ok(()),
        false => Err(Ended::Unhealthy),
    }
}

fn absent(meant: &Meant) -> Ended {
    Ended::failed(
        ErrorCode::Internal,
        format!(
            "no daemon is running for {}; `forge-search serve` or a question starts one",
            meant.root.display()
        ),
    )
}

pub(super) fn stop(
    args: &DaemonArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Ended> {
    let meant = meant_by(&args.which, environment)?;
    let before = Identity::of(&meant.socket);
    let stopped = ask_running(&meant, Asked::Shutdown)?.is_some();
    let most = Duration::from_millis(meant.config.search.index_shutdown_timeout_ms) + GRACE;
    if !has_ended(&meant, before, most) {
        return Err(Ended::failed(
            ErrorCode::Timeout,
            format!(
                "the daemon of {} has not ended after {most:?}",
                meant.root.display()
            ),
        ));
    }
    match (args.json, stopped) {
        (true, _) => writeln!(out, "{}", serde_json::json!({ "stopped": stopped }))?,
        (false, true) => writeln!(out, "stopped")?,
        (false, false) => complain_as(
            "ggrep",
            &format!("no daemon was running for {}", meant.root.display()),
        ),
    }
    Ok(())
}
