//! The daemon that answers a command: which one it is ([`DaemonEndpoint`]), the `client` that asks
//! it, and how it is started (`start`).
//!
//! The protocol and the daemon's work are in [`crate::tool::daemon`].

pub(in crate::tool::cli) mod client;
pub(in crate::tool::cli) mod start;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::tool::cli::args::SetupArgs;
use crate::tool::cli::setup::{Environment, load_config};
use crate::tool::config::Config;
use crate::tool::daemon::client::Caller;
use crate::tool::daemon::handshake::ServedTree;
use crate::tool::daemon::identity;
use crate::tool::daemon::socket::{Access, is_taken, registered_socket};
use crate::tool::error::ToolError;

/// The daemon that a command addresses, running or not.
#[derive(Clone, Debug)]
pub(in crate::tool::cli) struct DaemonEndpoint {
    /// The canonical root of its tree.
    pub(in crate::tool::cli) root: PathBuf,
    /// The configuration in effect.
    pub(in crate::tool::cli) config: Config,
    /// The tree and configuration that the daemon must serve.
    pub(in crate::tool::cli) served: ServedTree,
    /// The socket of the daemon.
    pub(in crate::tool::cli) socket: PathBuf,
    /// The arguments for starting the daemon.
    pub(in crate::tool::cli) setup: SetupArgs,
    /// Whether the caller named the socket.
    pub(in crate::tool::cli) named: bool,
    /// The log file, if the caller named one.
    pub(in crate::tool::cli) log: Option<PathBuf>,
    /// The directory in which all daemons of this user record their sockets.
    state: Option<PathBuf>,
    /// The client name to send if the caller gives none; derived from the parent process.
    parent: String,
    /// The minimum time to wait for the daemon, if the environment sets one.
    least_patience: Option<Duration>,
}

impl DaemonEndpoint {
    /// Finds the running daemon with this configuration for the deepest tree that contains a
    /// canonical directory. For example, the daemon of `project` answers for `project/src`.
    pub(in crate::tool::cli) fn enclosing_daemon(
        dir: &Path,
        setup: &SetupArgs,
        config: &Config,
        environment: &Environment,
    ) -> Option<DaemonEndpoint> {
        let excludes = environment.excludes_at(dir);
        // The global excludes are part of the fingerprint, so they must be equal too.
        let config_fingerprint = identity::config_fingerprint(config, excludes.as_deref());
        let state = environment.sockets.state_dir();
        dir.ancestors().find_map(|root| {
            let served = ServedTree {
                store_id: identity::store_id(root),
                config_fingerprint: config_fingerprint.clone(),
            };
            let socket = running(&served, state.as_deref(), environment)?;
            Some(DaemonEndpoint {
                root: root.to_path_buf(),
                config: config.clone(),
                served,
                socket,
                setup: setup.clone(),
                named: false,
                log: None,
                state: state.clone(),
                parent: parent(),
                least_patience: environment.least_patience,
            })
        })
    }

    /// Finds the daemon of `root`, with the configuration that the arguments name. The daemon need
    /// not be running.
    ///
    /// # Errors
    ///
    /// Problems of the configuration, and no usable place for a socket.
    pub(in crate::tool::cli) fn find(
        root: &Path,
        setup: &SetupArgs,
        socket: Option<&Path>,
        environment: &Environment,
    ) -> Result<DaemonEndpoint, ToolError> {
        // Pin the configuration file, so that a daemon started from anywhere reads the same file.
        let setup = SetupArgs {
            config: setup.config.clone().or_else(|| environment.config_file()),
            ..setup.clone()
        };
        let setup = setup.with_absolute_paths(Some(root), environment)?;
        let config = load_config(&setup, environment)?;
        let served = ServedTree {
            store_id: identity::store_id(root),
            config_fingerprint: identity::config_fingerprint(
                &config,
                environment.excludes_at(root).as_deref(),
            ),
        };
        let state = environment.sockets.state_dir();
        let path = match socket {
            Some(socket) => environment.absolute(socket)?,
            None if config.daemon.group_access => {
                return Err(ToolError::bad_args(
                    "with group_access, the socket must be in a directory of the group with the \
                     mode 0770; name the socket with --socket",
                ));
            }
            None => running(&served, state.as_deref(), environment)
                .unwrap_or_else(|| environment.sockets.path_for(&served)),
        };
        Ok(DaemonEndpoint {
            root: root.to_path_buf(),
            config,
            served,
            socket: path,
            setup,
            named: socket.is_some(),
            log: None,
            state,
            parent: parent(),
            least_patience: environment.least_patience,
        })
    }
}

/// Returns the socket of the running daemon for a tree. The socket is at the usual place, or where
/// the daemon recorded it. The two differ if the environment has changed since the daemon was
/// started.
fn running(
    served: &ServedTree,
    state: Option<&Path>,
    environment: &Environment,
) -> Option<PathBuf> {
    let usual = environment.sockets.path_for(served);
    if is_taken(&usual) {
        return Some(usual);
    }
    state
        .and_then(|state| registered_socket(state, served))
        .or_else(|| earlier(served, environment))
}

impl DaemonEndpoint {
    /// Returns how long to wait for the daemon: `usual`, or the minimum from the environment if
    /// that is longer.
    pub(in crate::tool::cli) fn patience(&self, usual: Duration) -> Duration {
        self.least_patience.map_or(usual, |least| usual.max(least))
    }

    /// Returns which users may connect.
    pub(in crate::tool::cli) fn access(&self) -> Access {
        Access::of(&self.config.daemon)
    }

    /// Returns whether the running daemon has recorded this socket.
    fn is_noted_here(&self) -> bool {
        let noted = self
            .state
            .as_ref()
            .and_then(|dir| registered_socket(dir, &self.served));
        noted.is_some_and(|noted| noted == self.socket)
    }

    /// Returns the running daemon if it has recorded another socket, and the caller named none.
    fn at_recorded_socket(&self) -> Option<DaemonEndpoint> {
        let state = self.state.as_ref().filter(|_| !self.named)?;
        let socket =
            registered_socket(state, &self.served).filter(|noted| *noted != self.socket)?;
        Some(DaemonEndpoint {
            socket,
            ..self.clone()
        })
    }

    /// Returns the identity of this client for the daemon's fair queue. Without `client_id`, the
    /// parent process names the client: the requests of one agent's many processes then share one
    /// place in the queue.
    pub(in crate::tool::cli) fn caller<'a>(
        &'a self,
        client_id: Option<&'a str>,
        patience: Duration,
    ) -> Caller<'a> {
        Caller {
            client_id: client_id.or(Some(&self.parent)),
            patience,
            access: self.access(),
        }
    }
}

/// Returns the socket of a running daemon at the place that earlier releases used.
fn earlier(served: &ServedTree, environment: &Environment) -> Option<PathBuf> {
    let name = identity::socket_name(&served.store_id, &served.config_fingerprint);
    let dir = environment.home.as_ref()?.join(".ggrep").join("daemon");
    // A directory of another user has the daemon of that user.
    let socket = is_own(&dir).then(|| dir.join(name))?;
    Some(socket).filter(|socket| is_taken(socket))
}

/// Returns whether a path is a directory of this user.
pub(in crate::tool::cli) fn is_own(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    std::fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == me)
}

/// Returns a client name for the parent process.
fn parent() -> String {
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    format!("parent-{parent}")
}

/// Returns the named root, or else the root for a place: the git working tree around it. Without a
/// git working tree, the root is the working directory if it contains the place, or else the place
/// itself.
///
/// # Errors
///
/// The place or the working directory does not exist.
pub(in crate::tool::cli) fn root_of(
    named: Option<&Path>,
    place: Option<&Path>,
    environment: &Environment,
) -> Result<PathBuf, ToolError> {
    if let Some(named) = named {
        return canonical(named, environment);
    }
    let here = || canonical(Path::new("."), environment).ok();
    let place = canonical(place.unwrap_or(Path::new(".")), environment)?;
    let dir = match place.is_dir() {
        true => place.as_path(),
        false => place.parent().unwrap_or(&place),
    };
    let around = dir.ancestors().find(|dir| dir.join(".git").exists());
    Ok(match (around, here()) {
        (Some(around), _) => around.to_path_buf(),
        (None, Some(here)) if dir.starts_with(&here) => here,
        (None, _) => dir.to_path_buf(),
    })
}

/// Makes a path absolute and resolves its links.
///
/// # Errors
///
/// The path does not exist.
pub(in crate::tool::cli) fn canonical(
    path: &Path,
    environment: &Environment,
) -> Result<PathBuf, ToolError> {
    environment.absolute(path)?.canonicalize().map_err(|error| {
        ToolError::bad_args(format!(
            "{}: {error}; name a file or directory that exists",
            path.display()
        ))
    })
}
