//! Starts a daemon, or connects to a running one.
//!
//! If several clients find no daemon at the same time, one of them takes the start lock
//! ([`StartLock`]) and starts the daemon. The others wait for that daemon.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::DaemonEndpoint;
use crate::exec::external::exit::Exit;
use crate::exec::process::{Invocation, start_in_background};
use crate::exec::stop::{Deadline, SystemClock};
use crate::tool::daemon::client::{ClientError, Connection};
use crate::tool::daemon::socket::{StartLock, is_taken};
use crate::tool::render::escape_controls;

/// Time between two attempts.
const NAP: Duration = Duration::from_millis(20);

/// Maximum time for a daemon to begin, or for an ending daemon to exit.
pub(in crate::tool::cli) const PATIENCE: Duration = Duration::from_secs(20);

/// Settings for the daemon's allocator, for builds that lack them: return unused memory soon,
/// including its address space.
const ALLOCATOR: (&str, &str) = (
    "_RJEM_MALLOC_CONF",
    "retain:false,dirty_decay_ms:500,muzzy_decay_ms:0",
);

/// Environment variables that a daemon inherits: those that locate the user's files, and those that
/// change answers or the log. Other variables, such as secrets of a shell, must not stay in a
/// process that runs for hours.
const INHERITED: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "LD_LIBRARY_PATH",
    "LLVM_PROFILE_FILE",
];

/// Prefixes of further variables that a daemon inherits.
const INHERITED_PREFIXES: [&str; 4] = ["XDG_", "LC_", "GIT_CONFIG_", "FORGE_SEARCH_"];

/// How many naps to wait for a daemon whose socket is gone. The total is longer than the daemon
/// needs to notice that and exit.
const LOST: u32 = 250;

/// How often to look for a competing daemon after a failed start.
const LOOKS: u32 = 5;

/// Starts the daemon in the background, unless one is running. Waits until the daemon accepts
/// clients, and returns its socket.
///
/// # Errors
///
/// The daemon's error message.
pub(in crate::tool::cli) fn in_background(endpoint: &DaemonEndpoint) -> Result<PathBuf, String> {
    let patience = endpoint.patience(PATIENCE);
    let until = Deadline::after(patience, Arc::new(SystemClock));
    let caller = endpoint.caller(None, patience);
    if endpoint.log.is_some()
        && Connection::open(&endpoint.socket, &endpoint.served, caller).is_ok()
    {
        return Err(
            "a daemon is already running with its own log file; end it with `ggrep stop` \
             first, or leave out --log"
                .to_string(),
        );
    }
    connect_or_start(endpoint, None, &until, patience)
        .map(|connected| connected.socket)
        .map_err(|error| match error {
            ConnectError::Client(error) => error.to_string(),
            ConnectError::NotStarted(why) => why,
        })
}

/// Starts the daemon in the background without waiting for it. If several processes do so at once,
/// one daemon survives.
pub(in crate::tool::cli) fn start_without_waiting(endpoint: &DaemonEndpoint) {
    match start(endpoint, Duration::ZERO) {
        Ok(()) | Err(ConnectError::Client(_)) => {}
        Err(ConnectError::NotStarted(why)) => {
            tracing::debug!(target: "forge_search::search", "no daemon is started: {why}");
        }
    }
}

/// The reason why there is no connection.
#[derive(Debug)]
pub(in crate::tool::cli) enum ConnectError {
    /// A daemon is running, but refuses the connection.
    Client(ClientError),
    /// No daemon is running, and starting one failed.
    NotStarted(String),
}

/// A connection to a daemon.
pub(in crate::tool::cli) struct DaemonConnection {
    pub(in crate::tool::cli) connection: Connection,
    /// The daemon's socket. It may differ from the requested one: of several daemons started at
    /// different sockets, one survives.
    pub(in crate::tool::cli) socket: PathBuf,
    /// Whether this process started the daemon.
    pub(in crate::tool::cli) is_started: bool,
}

/// Connects to a daemon, and starts it first if it is not running. If the daemon ends meanwhile,
/// starts another one. A running daemon that does not greet within `greeting` is an error.
///
/// # Errors
///
/// [`ConnectError`].
/// [`ConnectError`].
pub(in crate::tool::cli) fn connect_or_start(
    endpoint: &DaemonEndpoint,
    client_id: Option<&str>,
    until: &Deadline,
    greeting: Duration,
) -> Result<DaemonConnection, ConnectError> {
    let mut is_started = false;
    let mut endpoint = Cow::Borrowed(endpoint);
    let mut start_lock = None;
    let all = until.remaining();
    let began = Deadline::after(endpoint.patience(PATIENCE), Arc::new(SystemClock));
    let mut lost = LOST;
    while !began.remaining().is_zero() {
        let left = until.remaining();
        if left.is_zero() {
            return Err(ConnectError::Client(ClientError::Late(all)));
        }
        let caller = endpoint.caller(client_id, left.min(greeting));
        match Connection::open(&endpoint.socket, &endpoint.served, caller) {
            Ok(connection) => {
                return Ok(DaemonConnection {
                    connection,
                    socket: endpoint.socket.clone(),
                    is_started,
                });
            }
            Err(ClientError::Unreachable(_) | ClientError::Gone(_)) => {}
            Err(error) => return Err(ConnectError::Client(error)),
        }
        if let Some(other) = endpoint
            .at_recorded_socket()
            .filter(|_| !is_taken(&endpoint.socket))
        {
            (endpoint, start_lock) = (Cow::Owned(other), None);
            continue;
        }
        // The daemon notices within seconds that its socket is gone, and exits.
        if endpoint.is_noted_here() && !is_taken(&endpoint.socket) && lost > 0 {
            lost -= 1;
            thread::sleep(NAP);
            continue;
        }
        match &start_lock {
            // Check again: an earlier holder of the lock may have started a daemon.
            Some(_) if !is_taken(&endpoint.socket) => match start(&endpoint, until.remaining()) {
                Err(ConnectError::NotStarted(why)) => match first(&endpoint) {
                    Some(other) => (endpoint, start_lock) = (Cow::Owned(other), None),
                    None => return Err(ConnectError::NotStarted(why)),
                },
                started => {
                    started?;
                    is_started = true;
                }
            },
            Some(_) => thread::sleep(NAP),
            None => {
                start_lock = StartLock::take(&endpoint.socket, endpoint.access())
                    .map_err(|error| ConnectError::NotStarted(error.to_string()))?;
                if start_lock.is_none() {
                    thread::sleep(NAP);
                }
            }
        }
    }
    Err(ConnectError::NotStarted(format!(
        "no daemon answers at {}: one is starting or ending; try again",
        endpoint.socket.display()
    )))
}

/// Returns the competing daemon that made a start fail, if there is one. A daemon records its
/// socket shortly after it has taken the instance lock.
fn first(endpoint: &DaemonEndpoint) -> Option<DaemonEndpoint> {
    (0..LOOKS).find_map(|look| {
        if look > 0 {
            thread::sleep(NAP);
        }
        endpoint.at_recorded_socket()
    })
}

/// Returns whether a daemon inherits an environment variable.
fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name)
        || INHERITED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Starts the daemon from this executable, whatever its name is.
fn start(endpoint: &DaemonEndpoint, left: Duration) -> Result<(), ConnectError> {
    let not_started = |why: String| ConnectError::NotStarted(why);
    let program = std::env::current_exe().map_err(|error| {
        not_started(format!(
            "the path of this program can't be determined: {error}"
        ))
    })?;
    let mut args: Vec<OsString> = vec!["serve".into(), "--background".into()];
    args.extend(["--socket".into(), endpoint.socket.clone().into()]);
    if let Some(log) = &endpoint.log {
        args.extend(["--log".into(), log.into()]);
    }
    if let Some(root) = &endpoint.setup.root {
        args.extend(["--root".into(), root.into()]);
    }
    if let Some(config) = &endpoint.setup.config {
        args.extend(["--config".into(), config.into()]);
    }
    for setting in &endpoint.setup.set {
        args.extend(["--set".into(), setting.into()]);
    }
    let invocation = Invocation::new(&program, &args);
    let patience = endpoint.patience(PATIENCE);
    let begun = start_in_background(invocation, is_inherited, &[ALLOCATOR], left.min(patience))
        .map_err(|error| not_started(error.to_string()))?;
    match begun {
        // The start goes on in the background, so the caller may try again later.
        None if left < patience => Err(ConnectError::Client(ClientError::Late(left))),
        None => Err(not_started(format!(
            "the daemon did not start within {patience:?}"
        ))),
        // Another process has already shut the daemon down, in order.
        Some(begun) if begun.exit == Some(Exit::Code(0)) => Ok(()),
        Some(begun) if begun.exit.is_some() && !is_taken(&endpoint.socket) => {
            let said = String::from_utf8_lossy(&begun.stderr);
            let said = said.trim();
            let said = said.strip_prefix("forge-search: ").unwrap_or(said);
            let said = said.strip_prefix("ggrep: ").unwrap_or(said);
            Err(not_started(match (said, begun.exit) {
                ("", Some(exit)) => format!("the daemon ended with {exit} right after its start"),
                _ => format!("the daemon could not be started: {said}"),
            }))
        }
        Some(begun) => {
            // The daemon is running, with warnings.
            let said = String::from_utf8_lossy(&begun.stderr);
            let mut err = std::io::stderr().lock();
            for line in said.lines() {
                // If standard error is closed, nobody reads the warnings.
                let _ = writeln!(err, "{}", escape_controls(line));
            }
            Ok(())
        }
    }
}
