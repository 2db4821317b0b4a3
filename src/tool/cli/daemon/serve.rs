//! `forge-search serve`: the daemon itself.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use super::super::args::ServeArgs;
use super::super::building;
use super::super::setup::{Environment, Setup, prepare};
use super::super::{FAILED, Failure, complain};
use super::{Meant, root_of, start};
use crate::tool::daemon::server::{Server, Settings};
use crate::tool::daemon::service::{Parts, Service};
use crate::tool::daemon::socket::OwnSocket;
use crate::tool::error::ToolError;
use crate::tool::indexing::wall_clock_ns;

/// How long a signal waits for the daemon to end in order, beyond what that may take.
const MARGIN: Duration = Duration::from_secs(2);

/// Serves until a signal comes or a client ends the daemon.
pub(in super::super) fn run(args: &ServeArgs, environment: &Environment) -> Result<u8, Failure> {
    let named = args.tree.as_deref().or(args.setup.root.as_deref());
    let root = root_of(named, None, environment)?;
    let meant = Meant::find(&root, &args.setup, args.socket.as_deref(), environment)?;
    if args.detach {
        start::in_background(&meant).map_err(|message| failed(&message))?;
        writeln!(io::stdout(), "{}", meant.socket.display())?;
        return Ok(0);
    }
    if args.background {
        // Fails where it was done already.
        let _ = rustix::process::setsid();
    }
    // First of all, so that a second daemon builds nothing.
    let socket = OwnSocket::listen(&meant.socket).map_err(|error| failed(&error.to_string()))?;
    let setup = prepare(&meant.setup, environment, None)?.for_files(environment);
    let settings = settings(&meant, args.background);
    let signals = setup.signals.clone();
    let service = live_service(setup)?;
    let cant = |error: io::Error| failed(&format!("the daemon can't be started: {error}"));
    let mut server = Server::start(service, socket, settings).map_err(cant)?;
    let end = server.ender();
    let most = settings.shutdown + settings.shutdown + MARGIN;
    signals
        .linger(move || {
            end();
            // The process ends as soon as the server has.
            std::thread::sleep(most);
        })
        .map_err(cant)?;
    if args.background {
        give_up_terminal().map_err(cant)?;
    } else {
        complain(&format!(
            "serving {} at {}; end with Ctrl-C or `ggrep stop`",
            meant.root.display(),
            meant.socket.display()
        ));
    }
    match server.wait() {
        true => Ok(0),
        false => {
            complain(
                "something was still running after index_shutdown_timeout_ms and was left behind",
            );
            Ok(FAILED)
        }
    }
}

fn settings(meant: &Meant, background: bool) -> Settings {
    let idle = Some(meant.config.daemon.idle_exit_ms).filter(|ms| background && *ms > 0);
    Settings {
        idle_exit: idle.map(Duration::from_millis),
        ..Settings::from(&meant.config)
    }
}

/// Makes a service of what was set up, with indexes that follow the tree.
fn live_service(mut setup: Setup) -> Result<Service, Failure> {
    building::follow(setup.tool.indexes(), &setup.config.search, &setup);
    let files = setup.files.take();
    if let Some(files) = &files {
        building::follow(files.indexes(), &setup.indexing_files(), &setup);
    }
    service(setup, files)
}

/// Makes a service of what was set up.
///
/// # Errors
///
/// [`ToolError::ExecutionFailed`] if there can be no more threads.
pub(super) fn service(
    setup: Setup,
    files: Option<crate::tool::search_files::FilesTool>,
) -> Result<Service, Failure> {
    let Some(files) = files.or(setup.files) else {
        return Err(failed("the tool search_files was not set up"));
    };
    Service::new(Parts {
        search: setup.tool,
        files,
        context: setup.context,
        root: setup.root,
        config: setup.config,
        wall: Arc::new(wall_clock_ns),
    })
    .map_err(|error| failed(&error.to_string()))
}

/// Lets go of the terminal, and tells whoever waits for it that clients are answered from now on.
fn give_up_terminal() -> io::Result<()> {
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

fn failed(message: &str) -> Failure {
    Failure::Tool(ToolError::ExecutionFailed {
        tool: "serve".to_string(),
        message: message.to_string(),
    })
}
