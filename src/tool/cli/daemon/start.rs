//! Finding a daemon, or starting one.
//!
//! Owns that of many clients that find none, one starts it and all others wait for that.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::Meant;
use crate::exec::exit::Exit;
use crate::exec::process::{Invocation, start_in_background};
use crate::exec::stop::{Deadline, SystemClock};
use crate::tool::daemon::client::{ClientError, Connection};
use crate::tool::daemon::socket::{Turn, is_taken};
use crate::tool::render::escape_controls;

/// How long to wait before looking again.
const NAP: Duration = Duration::from_millis(20);

/// How long a daemon may take to begin, or one that is about to end to be gone.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// How the allocator gives memory back, where it was not built to do so already: soon, and with its addresses.
const ALLOCATOR: (&str, &str) = (
    "_RJEM_MALLOC_CONF",
    "retain:false,dirty_decay_ms:500,muzzy_decay_ms:0",
);

/// What a daemon takes over of the environment of whoever starts it: what says where the user's
/// files are, and what changes its answers or its log. Nothing else of a shell, such as secrets
/// that a program was given, stays in a process that lives for hours.
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

/// How the names of other such variables begin.
const INHERITED_PREFIXES: [&str; 4] = ["XDG_", "LC_", "GIT_CONFIG_", "FORGE_SEARCH_"];

/// How often it is looked whether a daemon whose socket is gone has ended; with the naps between, for longer than it takes to see that.
const LOST: u32 = 250;

/// How often it is looked for the one that was first, where a daemon could not be started.
const LOOKS: u32 = 5;

/// Starts the daemon in the background, if none is running, and returns when clients are answered, and where.
///
/// # Errors
///
/// What it says of why it can't begin.
pub(super) fn in_background(meant: &Meant) -> Result<PathBuf, String> {
    let patience = meant.patience(PATIENCE);
    let until = Deadline::after(patience, Arc::new(SystemClock));
    let caller = meant.caller(None, patience);
    if meant.log.is_some() && Connection::open(&meant.socket, &meant.store, caller).is_ok() {
        return Err("a daemon answers already, which logs where it was told to; end it with `ggrep stop` first, or leave out --log".to_string());
    }
    connect_or_start(meant, None, &until, patience)
        .map(|connected| connected.socket)
        .map_err(|error| match error {
            Unconnected::Client(error) => error.to_string(),
            Unconnected::NotStarted(why) => why,
        })
}

/// Starts the daemon in the background, and does not wait until it has begun. Of several that are started at once, one goes on.
pub(in super::super) fn without_waiting(meant: &Meant) {
    match start(meant, Duration::ZERO) {
        Ok(()) | Err(Unconnected::Client(_)) => {}
        Err(Unconnected::NotStarted(why)) => {
            tracing::debug!(target: "forge_search::search", "no daemon is started: {why}");
        }
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(in super::super) enum Unconnected {
    /// There is a daemon, but it refuses.
    Client(ClientError),
    /// There is none, and none could be started.
    NotStarted(String),
}

/// A daemon that is connected to.
pub(in super::super) struct Connected {
    pub(in super::super) connection: Connection,
    /// Where it listens: of several that are started at once at different places, one goes on.
    pub(in super::super) socket: PathBuf,
    /// Whether this process has started it.
    pub(in super::super) is_started: bool,
}

/// Connects to the daemon that is meant; starts it first, if there is none, and if it just ended, another one. One that is there and does
/// not greet within `greeting` is late.
///
/// # Errors
///
/// [`Unconnected`].
pub(in super::super) fn connect_or_start(
    meant: &Meant,
    client_id: Option<&str>,
    until: &Deadline,
    greeting: Duration,
) -> Result<Connected, Unconnected> {
    let mut is_started = false;
    let mut meant = Cow::Borrowed(meant);
    let mut turn = None;
    let all = until.remaining();
    let began = Deadline::after(meant.patience(PATIENCE), Arc::new(SystemClock));
    let mut lost = LOST;
    while !began.remaining().is_zero() {
        let left = until.remaining();
        if left.is_zero() {
            return Err(Unconnected::Client(ClientError::Late(all)));
        }
        let caller = meant.caller(client_id, left.min(greeting));
        match Connection::open(&meant.socket, &meant.store, caller) {
            Ok(connection) => {
                return Ok(Connected {
                    connection,
                    socket: meant.socket.clone(),
                    is_started,
                });
            }
            Err(ClientError::Unreachable(_) | ClientError::Gone(_)) => {}
            Err(error) => return Err(Unconnected::Client(error)),
        }
        if let Some(other) = meant.elsewhere().filter(|_| !is_taken(&meant.socket)) {
            (meant, turn) = (Cow::Owned(other), None);
            continue;
        }
        // It sees that itself within seconds, and ends.
        if meant.is_noted_here() && !is_taken(&meant.socket) && lost > 0 {
            lost -= 1;
            thread::sleep(NAP);
            continue;
        }
        match &turn {
            // What held it may be gone by now, or has just begun.
            Some(_) if !is_taken(&meant.socket) => match start(&meant, until.remaining()) {
                Err(Unconnected::NotStarted(why)) => match first(&meant) {
                    Some(other) => (meant, turn) = (Cow::Owned(other), None),
                    None => return Err(Unconnected::NotStarted(why)),
                },
                started => {
                    started?;
                    is_started = true;
                }
            },
            Some(_) => thread::sleep(NAP),
            None => {
                turn = Turn::take(&meant.socket, meant.access())
                    .map_err(|error| Unconnected::NotStarted(error.to_string()))?;
                if turn.is_none() {
                    thread::sleep(NAP);
                }
            }
        }
    }
    Err(Unconnected::NotStarted(format!(
        "no daemon answers at {} although one is being started, or is about to end; try again",
        meant.socket.display()
    )))
}

/// Returns the daemon because of which another one could not begin, if that is why: it notes where it listens just after it has the right to.
fn first(meant: &Meant) -> Option<Meant> {
    (0..LOOKS).find_map(|look| {
        if look > 0 {
            thread::sleep(NAP);
        }
        meant.elsewhere()
    })
}

/// Returns whether a daemon takes a variable of the environment over.
fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name)
        || INHERITED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Starts it: this very program, whatever it is called.
fn start(meant: &Meant, left: Duration) -> Result<(), Unconnected> {
    let not_started = |why: String| Unconnected::NotStarted(why);
    let program = std::env::current_exe()
        .map_err(|error| not_started(format!("this program can't find itself: {error}")))?;
    let mut args: Vec<OsString> = vec!["serve".into(), "--background".into()];
    args.extend(["--socket".into(), meant.socket.clone().into()]);
    if let Some(log) = &meant.log {
        args.extend(["--log".into(), log.into()]);
    }
    if let Some(root) = &meant.setup.root {
        args.extend(["--root".into(), root.into()]);
    }
    if let Some(config) = &meant.setup.config {
        args.extend(["--config".into(), config.into()]);
    }
    for setting in &meant.setup.set {
        args.extend(["--set".into(), setting.into()]);
    }
    let invocation = Invocation::new(&program, &args);
    let patience = meant.patience(PATIENCE);
    let begun = start_in_background(invocation, is_inherited, &[ALLOCATOR], left.min(patience))
        .map_err(|error| not_started(error.to_string()))?;
    match begun {
        // It goes on; whoever has no more time asks again later.
        None if left < patience => Err(Unconnected::Client(ClientError::Late(left))),
        None => Err(not_started(format!(
            "the daemon did not begin within {patience:?}"
        ))),
        // Somebody has ended it again already, and it did that in order.
        Some(begun) if begun.exit == Some(Exit::Code(0)) => Ok(()),
        Some(begun) if begun.exit.is_some() && !is_taken(&meant.socket) => {
            let said = String::from_utf8_lossy(&begun.stderr);
            let said = said.trim();
            let said = said.strip_prefix("forge-search: ").unwrap_or(said);
            let said = said.strip_prefix("ggrep: ").unwrap_or(said);
            Err(not_started(match (said, begun.exit) {
                ("", Some(exit)) => format!("the daemon ended with {exit} as soon as it began"),
                _ => format!("the daemon could not be started: {said}"),
            }))
        }
        Some(begun) => {
            // It goes on, and something is not as it should be.
            let said = String::from_utf8_lossy(&begun.stderr);
            let mut err = std::io::stderr().lock();
            for line in said.lines() {
                // Where it can't be written, there is nobody to tell.
                let _ = writeln!(err, "{}", escape_controls(line));
            }
            Ok(())
        }
    }
}
