//! The query daemon and its client, as commands.
//!
//! Owns which daemon a command means, and how one is started. What is said to it and what it does is
//! [`crate::tool::daemon`]'s.

pub(super) mod checkup;
pub(super) mod client;
pub(super) mod ggrep;
mod people;
pub(super) mod serve;
pub(super) mod start;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::SetupArgs;
use super::setup::{Environment, load_config};
use crate::tool::config::Config;
use crate::tool::daemon::client::Caller;
use crate::tool::daemon::handshake::Store;
use crate::tool::daemon::identity;
use crate::tool::daemon::socket::{Access, is_taken, noted};
use crate::tool::error::ToolError;

/// The daemon that a command means, whether it runs or not.
#[derive(Clone, Debug)]
pub(super) struct Meant {
    /// The canonical root of its tree.
    pub(super) root: PathBuf,
    /// The configuration in effect.
    pub(super) config: Config,
    /// What it has to answer for.
    pub(super) store: Store,
    /// Where it listens.
    pub(super) socket: PathBuf,
    /// The arguments it is set up with.
    pub(super) setup: SetupArgs,
    /// Whether the socket was named by the caller.
    pub(super) named: bool,
    /// Where it is to log, if that was said.
    pub(super) log: Option<PathBuf>,
    /// The directory in which all daemons of this user note where they listen.
    state: Option<PathBuf>,
    /// Who asks, unless that is said: the program that started this one.
    parent: String,
    /// The least time that it is waited for, if the environment says one.
    least_patience: Option<Duration>,
}

impl Meant {
    /// Finds the running daemon of the deepest tree that contains a canonical directory, if it has this
    /// configuration. For example, the daemon of `project` answers for `project/src`.
    pub(super) fn around(
        dir: &Path,
        setup: &SetupArgs,
        config: &Config,
        environment: &Environment,
    ) -> Option<Meant> {
        let excludes = environment.excludes_at(dir);
        // A daemon whose tree has other global excludes has another one.
        let config_fingerprint = identity::config_fingerprint(config, excludes.as_deref());
        let state = environment.sockets.state_dir();
        dir.ancestors().find_map(|root| {
            let store = Store {
                store_id: identity::store_id(root),
                config_fingerprint: config_fingerprint.clone(),
            };
            let socket = running(&store, state.as_deref(), environment)?;
            Some(Meant {
                root: root.to_path_buf(),
                config: config.clone(),
                store,
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

    /// Finds out which one it is: that of `root`, with the configuration that the arguments name.
    ///
    /// # Errors
    ///
    /// Problems of the configuration, and no place for a socket.
    pub(super) fn find(
        root: &Path,
        setup: &SetupArgs,
        socket: Option<&Path>,
        environment: &Environment,
    ) -> Result<Meant, ToolError> {
        // A daemon that is started for it reads the same file, wherever it runs.
        let setup = SetupArgs {
            config: setup.config.clone().or_else(|| environment.config_file()),
            ..setup.clone()
        };
        let setup = setup.anywhere(Some(root), environment)?;
        let config = load_config(&setup, environment)?;
        let store = Store {
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
                    "with group_access, the socket has to be where all of the group look for it: give it with --socket, in a directory \
                     of the group's own that has the mode 0770",
                ));
            }
            None => running(&store, state.as_deref(), environment)
                .unwrap_or_else(|| environment.sockets.path_for(&store)),
        };
        Ok(Meant {
            root: root.to_path_buf(),
            config,
            store,
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

/// Returns the socket of the running daemon for a store: at its usual place, or where it has noted
/// that it listens, if another place was the usual one when it was started.
fn running(store: &Store, state: Option<&Path>, environment: &Environment) -> Option<PathBuf> {
    let usual = environment.sockets.path_for(store);
    if is_taken(&usual) {
        return Some(usual);
    }
    state
        .and_then(|state| noted(state, store))
        .or_else(|| earlier(store, environment))
}

impl Meant {
    /// Returns how long it is waited for where that usually is `usual`.
    pub(super) fn patience(&self, usual: Duration) -> Duration {
        self.least_patience.map_or(usual, |least| usual.max(least))
    }

    /// Returns who may use it.
    pub(super) fn access(&self) -> Access {
        access(&self.config)
    }

    /// Returns whether the one daemon has noted that it listens here.
    fn is_noted_here(&self) -> bool {
        let noted = self.state.as_ref().and_then(|dir| noted(dir, &self.store));
        noted.is_some_and(|noted| noted == self.socket)
    }

    /// Returns the daemon that answers in place of this one, if it has begun at another place meanwhile and nobody says where it has to be.
    fn elsewhere(&self) -> Option<Meant> {
        let state = self.state.as_ref().filter(|_| !self.named)?;
        let socket = noted(state, &self.store).filter(|noted| *noted != self.socket)?;
        Some(Meant {
            socket,
            ..self.clone()
        })
    }

    /// Returns who asks it, from a process that does not say so itself: the program that started this one. What an agent asks by many
    /// processes shares its turns with each other, not with what other agents ask.
    pub(super) fn caller<'a>(
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

/// Returns the socket of a daemon at the place for sockets of earlier releases, if one listens
/// there.
fn earlier(store: &Store, environment: &Environment) -> Option<PathBuf> {
    let name = identity::socket_name(&store.store_id, &store.config_fingerprint);
    let dir = environment.home.as_ref()?.join(".ggrep").join("daemon");
    // In somebody else's home it is somebody else's daemon.
    let socket = is_own(&dir).then(|| dir.join(name))?;
    Some(socket).filter(|socket| is_taken(socket))
}

/// Returns whether a directory is there that belongs to this user.
fn is_own(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    std::fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == me)
}

fn access(config: &Config) -> Access {
    match config.daemon.group_access {
        true => Access::Group,
        false => Access::Owner,
    }
}

/// Returns a name for the program that started this one.
fn parent() -> String {
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    format!("parent-{parent}")
}

/// Returns the root that is named, or else the one around a place: the git working tree that holds it, or, where there is none, the
/// working directory if that holds it, or the place itself.
///
/// # Errors
///
/// The place, or the working directory that it starts from, is not there.
pub(super) fn root_of(
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

/// Makes a path absolute and real.
///
/// # Errors
///
/// It is not there.
pub(super) fn canonical(path: &Path, environment: &Environment) -> Result<PathBuf, ToolError> {
    environment.absolute(path)?.canonicalize().map_err(|error| {
        ToolError::bad_args(format!(
            "{}: {error}; name a file or directory that exists",
            path.display()
        ))
    })
}
