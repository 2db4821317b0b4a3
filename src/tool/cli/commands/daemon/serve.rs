//! `forge-search serve`: runs the daemon in this process, and optionally the web page.
//!
//! This module owns the start and the end of that process: locks and socket, log, resource limits,
//! and shutdown on signals. `tool::daemon` serves the clients.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::format::sys::private_dir_builder;
use crate::index::handles::Handles;
use crate::tool::cli::answers::backend::Backend;
use crate::tool::cli::answers::daemon::{DaemonEndpoint, is_own, root_of, start};
use crate::tool::cli::answers::service::{failed, live_service};
use crate::tool::cli::args::ServeArgs;
use crate::tool::cli::setup::signals::Signals;
use crate::tool::cli::setup::{Environment, logging, prepare};
use crate::tool::cli::{FAILED, Failure, complain};
use crate::tool::config::DaemonUse;
use crate::tool::daemon::identity;
use crate::tool::daemon::log::LogFile;
use crate::tool::daemon::server::{Server, Settings};
use crate::tool::daemon::socket::{DaemonRecord, InstanceLock, OwnSocket, SocketError, is_taken};
use crate::tool::error::ToolError;
use crate::tool::searcher::to_usize;
use crate::tool::web::Page;
use crate::tool::web::guard::Token;

/// Extra time for an orderly shutdown after a signal.
const MARGIN: Duration = Duration::from_secs(2);

/// Serves until a signal arrives or a client shuts the daemon down.
pub(in crate::tool::cli) fn run(
    args: &ServeArgs,
    environment: &Environment,
) -> Result<u8, Failure> {
    let named = args.tree.as_deref().or(args.setup.root.as_deref());
    let root = root_of(named, None, environment)?;
    let log = args.log.as_deref().map(|log| environment.absolute(log));
    let mut endpoint =
        DaemonEndpoint::find(&root, &args.setup, args.socket.as_deref(), environment)?;
    endpoint.log = log.transpose()?;
    if args.detach {
        let socket = start::in_background(&endpoint).map_err(|message| failed(&message))?;
        writeln!(io::stdout(), "{}", socket.display())?;
        return Ok(0);
    }
    if args.background {
        // Fails if this process already leads a session.
        let _ = rustix::process::setsid();
        be_ordinary();
    }
    many_files();
    // Lock and listen first, so that a second daemon does no work.
    let settings = settings(&endpoint, args.background);
    let refuse = |error: SocketError| failed(&error.to_string());
    let state = own_state(&endpoint, environment);
    let socket = match (listen_exclusively(&endpoint, state.as_deref()), args.http) {
        (Ok(socket), _) => socket,
        (Err(SocketError::Taken(_)), Some(address)) => {
            return serve_page_only(args, &endpoint, address, environment);
        }
        (Err(error), _) => return Err(refuse(error)),
    };
    let mut environment = environment.clone();
    let most = to_usize(endpoint.config.daemon.max_open_segments_global);
    environment.cache.handles = Handles::at_most(most);
    let environment = &environment;
    let log = log_to(&endpoint, state.as_deref())?;
    let setup = prepare(&endpoint.setup, environment, &[])?.for_files(environment);
    let signals = setup.signals.clone();
    let service = live_service(setup, &endpoint, log, environment)?;
    let cant = |error: io::Error| failed(&format!("the daemon can't be started: {error}"));
    let mut server = Server::start(service, socket, settings).map_err(cant)?;
    let _page = match args.http {
        Some(address) => {
            let tree = page_tree(&endpoint, args, environment)?.only(endpoint.clone());
            Some(page(Arc::new(tree), &endpoint, address)?)
        }
        None => None,
    };
    let end = server.ender();
    let most = settings.shutdown + MARGIN;
    signals
        .linger(move || {
            end();
            // The process ends earlier if the server is done.
            std::thread::sleep(most);
        })
        .map_err(cant)?;
    if args.background {
        give_up_terminal().map_err(cant)?;
    } else {
        complain(&format!(
            "serving {} at {}; end with Ctrl-C or `ggrep stop`",
            endpoint.root.display(),
            endpoint.socket.display()
        ));
    }
    match server.wait() {
        true => Ok(0),
        false => {
            complain(
                "some work was still running after index_shutdown_timeout_ms and was abandoned",
            );
            Ok(FAILED)
        }
    }
}

/// Takes the instance lock and listens on the socket. The lock is per tree and configuration, so
/// two daemons can't serve the same tree through two sockets. Without a state directory there is no
/// lock. The lock comes first, because listening may replace another daemon's socket.
fn listen_exclusively(
    endpoint: &DaemonEndpoint,
    state: Option<&Path>,
) -> Result<OwnSocket, SocketError> {
    let instance_lock = state
        .map(|dir| InstanceLock::take(dir, &endpoint.served))
        .transpose();
    let instance_lock = match instance_lock {
        Err(SocketError::Elsewhere(socket)) if socket == endpoint.socket => {
            return Err(match is_taken(&socket) && socket.exists() {
                true => SocketError::Taken(socket),
                false => SocketError::Lost(socket),
            });
        }
        instance_lock => instance_lock?,
    };
    let mut socket = OwnSocket::listen(&endpoint.socket, endpoint.access())?;
    if let Some(mut instance_lock) = instance_lock {
        instance_lock.note(&DaemonRecord {
            socket: endpoint.socket.clone(),
            served: endpoint.served.clone(),
            pid: std::process::id(),
            root: endpoint.root.clone(),
        })?;
        socket.keep(instance_lock);
    }
    Ok(socket)
}

/// Serves only the page, until a signal arrives. The running daemon answers for it, or a later one.
fn serve_page_only(
    args: &ServeArgs,
    endpoint: &DaemonEndpoint,
    address: SocketAddr,
    environment: &Environment,
) -> Result<u8, Failure> {
    let signals = Signals::take_over()?;
    let tree = Arc::new(page_tree(endpoint, args, environment)?);
    let page = page(tree.clone(), endpoint, address)?;
    let (tell, told) = mpsc::channel();
    let linger = signals.linger(move || {
        // Sending fails only if the main thread is already gone.
        let _ = tell.send(());
        // The process ends earlier if the page is done.
        std::thread::sleep(MARGIN);
    });
    linger.map_err(|error| failed(&format!("the page can't be served: {error}")))?;
    complain(&format!(
        "a daemon already serves {}; this process serves only the page; end it with Ctrl-C",
        endpoint.root.display()
    ));
    // Either the signal arrived, or the sender is gone.
    let _ = told.recv();
    drop(page);
    tree.shut_down();
    Ok(0)
}

/// Returns the backend of the page.
fn page_tree(
    endpoint: &DaemonEndpoint,
    args: &ServeArgs,
    environment: &Environment,
) -> Result<Backend, ToolError> {
    // Use the original arguments, not `endpoint.setup`: the usual configuration file may be created
    // later.
    let setup = args
        .setup
        .with_absolute_paths(Some(&endpoint.root), environment)?;
    let tree = Backend::new(
        endpoint.root.clone(),
        setup,
        environment,
        Some(DaemonUse::Start),
    );
    Ok(tree.named("page"))
}

/// Starts the page, and prints its URL.
fn page(
    tree: Arc<Backend>,
    endpoint: &DaemonEndpoint,
    address: SocketAddr,
) -> Result<Page, Failure> {
    let name = endpoint.root.display().to_string();
    let begun = Token::random().and_then(|token| Page::start(tree, name, address, token));
    let page = begun.map_err(|error| failed(&format!("--http {address}: {error}")))?;
    let mut out = io::stdout();
    writeln!(out, "{}", page.url())?;
    out.flush()?;
    Ok(page)
}

fn settings(endpoint: &DaemonEndpoint, background: bool) -> Settings {
    let idle = Some(endpoint.config.daemon.idle_exit_ms).filter(|ms| background && *ms > 0);
    let settings = Settings::from(&endpoint.config);
    Settings {
        idle_exit: idle.map(Duration::from_millis),
        // Reserve half of the open files for searches.
        connections: settings.connections.min(may_be_open() / 2),
        ..settings
    }
}

/// Reverts attributes that a background process inherits: the file mode mask, the priority, and
/// resource limits. Also disables core dumps, which could contain searched files.
fn be_ordinary() {
    use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit, umask};
    umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    // Users may not always raise the priority. The inherited one then stays.
    let _ = setpriority_process(None, 0);
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // If the system refuses, the old limits stay.
    let _ = setrlimit(Resource::Core, none);
    for resource in [Resource::Cpu, Resource::Fsize, Resource::As, Resource::Data] {
        let most = getrlimit(resource).maximum;
        let all = Rlimit {
            current: most,
            maximum: most,
        };
        let _ = setrlimit(resource, all);
    }
}

/// Raises the limit of open files to its maximum. Each client needs one file, and many shells allow
/// only a thousand.
fn many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    // If the system refuses, clients beyond the limit wait.
    let _ = setrlimit(Resource::Nofile, all);
}

/// Returns the maximum number of open files of this process.
fn may_be_open() -> usize {
    use rustix::process::{Resource, getrlimit};
    let most = getrlimit(Resource::Nofile).current;
    most.map_or(usize::MAX, to_usize)
}

/// Writes all log events from now on to a file, and returns its path.
///
/// # Errors
///
/// A log file that the caller named can't be opened.
fn log_to(endpoint: &DaemonEndpoint, state: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let path = match &endpoint.log {
        Some(path) => path.clone(),
        None => {
            // The name depends on the tree, not on the socket: one daemon has one log.
            let served = &endpoint.served;
            let name = identity::socket_name(&served.store_id, &served.config_fingerprint);
            let Some(state) = state else {
                logging::start("forge-search", false);
                return Ok(None);
            };
            state.join(name).with_extension("log")
        }
    };
    let log = match LogFile::open(&path, endpoint.config.daemon.max_log_bytes) {
        Ok(log) => log,
        Err(error) if endpoint.log.is_some() => {
            return Err(failed(&format!("--log {}: {error}", path.display())));
        }
        Err(error) => {
            complain(&format!(
                "the log can't be opened, so nothing is logged: {}: {error}",
                path.display()
            ));
            logging::start("forge-search", false);
            return Ok(None);
        }
    };
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(Mutex::new(log))
        .init();
    tracing::info!(target: "forge_search::daemon", pid = std::process::id(), "started");
    Ok(Some(path))
}

/// Returns the directory for locks, notes and logs of this user's daemons, if there is one. A
/// directory inside the tree is not used, because each log entry would change the tree.
fn own_state(endpoint: &DaemonEndpoint, environment: &Environment) -> Option<PathBuf> {
    let dir = environment.sockets.state_dir()?;
    // Compare canonical paths, before any directory is created.
    let is_inside = |dir: &Path| {
        let there = dir.ancestors().find_map(|dir| dir.canonicalize().ok());
        there.is_some_and(|dir| dir.starts_with(&endpoint.root))
    };
    if dir.starts_with(&endpoint.root) || is_inside(&dir) {
        return None;
    }
    private_dir_builder().recursive(true).create(&dir).ok()?;
    is_own(&dir).then_some(dir)
}

/// Detaches from the terminal. Closing standard error tells the starting process that the daemon
/// accepts clients.
fn give_up_terminal() -> io::Result<()> {
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    // The working directory would keep a directory from being removed or unmounted.
    std::env::set_current_dir("/")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
