//! Where a daemon is found: a socket in a private directory, and a lock beside it.
//!
//! Owns which daemon may listen there. The lock decides, and nothing else: it ends with its process however that ends, so a socket whose lock
//! is free is a leftover.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use fs2::FileExt;

use super::handshake::Store;
use super::identity::socket_name;

/// The longest path of a socket, in bytes: what `sockaddr_un` holds with the zero at its end.
pub const LONGEST: usize = 107;

/// Why there is no daemon here.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another one answers for the same store.
    #[error("another daemon already listens at {}", .0.display())]
    Taken(PathBuf),
    /// The path is too long for a socket.
    #[error("the path of the socket, {}, has more than {LONGEST} bytes; give a shorter one with --socket", .0.display())]
    TooLong(PathBuf),
    /// Others could reach the socket.
    #[error("the directory {} of the socket {why}; it has to be a directory of this user's own with the mode {mode:04o}", dir.display())]
    Insecure {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
        /// The mode that it should have.
        mode: u32,
    },
    /// Something else is in the way.
    #[error("{} is there and is no socket; remove it, or give another path with --socket", .0.display())]
    Occupied(PathBuf),
    /// The system refuses.
    #[error("the socket {} can't be made: {error}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// Who may use a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The user whose it is.
    #[default]
    Owner,
    /// The group of the socket's directory, too.
    Group,
}

impl Access {
    /// Returns the mode of the directory.
    fn dir(self) -> u32 {
        match self {
            Access::Owner => 0o700,
            Access::Group => 0o770,
        }
    }

    /// Returns the mode of the socket and of the files beside it.
    fn file(self) -> u32 {
        match self {
            Access::Owner => 0o600,
            Access::Group => 0o660,
        }
    }
}

/// Where sockets may be, as the environment says.
#[derive(Clone, Debug, Default)]
pub struct SocketPlaces {
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
}

impl SocketPlaces {
    /// Returns where the socket of a store is: below the runtime directory, or else below the home directory. `None` where there is
    /// neither.
    pub fn path_for(&self, store: &Store) -> Option<PathBuf> {
        let runtime = self
            .runtime_dir
            .as_ref()
            .map(|dir| dir.join("forge-search"));
        let home = self
            .home
            .as_ref()
            .map(|dir| dir.join(".ggrep").join("daemon"));
        let name = socket_name(&store.store_id, &store.config_fingerprint);
        let mut paths = [runtime, home].into_iter().flatten();
        let path = paths.next()?;
        Some(path.join(name))
    }
}

/// A socket that this process listens at. It is removed when this is dropped, before the lock is given back.
#[derive(Debug)]
pub struct OwnSocket {
    path: PathBuf,
    listener: Option<UnixListener>,
    /// Which file it is, so that no other one is removed.
    identity: (u64, u64),
    _lock: File,
}

impl OwnSocket {
    /// Listens at a path, which is below a directory of this user's own; makes that directory, if there is none. What a daemon has left there
    /// that is no more is replaced.
    ///
    /// # Errors
    ///
    /// [`SocketError`].
    pub fn listen(path: &Path, access: Access) -> Result<OwnSocket, SocketError> {
        let fail = |error: io::Error| SocketError::Io {
            path: path.to_path_buf(),
            error,
        };
        if path.as_os_str().len() > LONGEST {
            return Err(SocketError::TooLong(path.to_path_buf()));
        }
        private_dir(dir_of(path), access)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(access.file())
            .open(beside(path, ".lock"))
            .map_err(fail)?;
        match lock.try_lock_exclusive() {
            Ok(()) => {}
            Err(error) if error.kind() == fs2::lock_contended_error().kind() => {
                return Err(SocketError::Taken(path.to_path_buf()));
            }
            Err(error) => return Err(fail(error)),
        }
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail(error)),
            Ok(meta) if meta.file_type().is_socket() => fs::remove_file(path).map_err(fail)?,
            Ok(_) => return Err(SocketError::Occupied(path.to_path_buf())),
        }
        let listener = UnixListener::bind(path).map_err(fail)?;
        // Nobody else can enter the directory, so nobody was here before this.
        fs::set_permissions(path, fs::Permissions::from_mode(access.file())).map_err(fail)?;
        let meta = fs::symlink_metadata(path).map_err(fail)?;
        Ok(OwnSocket {
            path: path.to_path_buf(),
            listener: Some(listener),
            identity: (meta.dev(), meta.ino()),
            _lock: lock,
        })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the listener, once.
    pub fn take_listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        let own = fs::symlink_metadata(&self.path);
        if own.is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity) {
            // Who finds it finds nobody behind it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The right to start a daemon for a socket, which one process has at a time. It ends with its process, or when this is dropped.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
}

impl Turn {
    /// Takes the turn, if nobody else has it.
    ///
    /// # Errors
    ///
    /// [`SocketError`].
    pub fn take(path: &Path, access: Access) -> Result<Option<Turn>, SocketError> {
        let fail = |error: io::Error| SocketError::Io {
            path: path.to_path_buf(),
            error,
        };
        private_dir(dir_of(path), access)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(access.file())
            .open(beside(path, ".start"))
            .map_err(fail)?;
        match lock.try_lock_exclusive() {
            Ok(()) => Ok(Some(Turn { _lock: lock })),
            Err(error) if error.kind() == fs2::lock_contended_error().kind() => Ok(None),
            Err(error) => Err(fail(error)),
        }
    }
}

/// Returns whether a daemon listens at a path: somebody holds its lock.
pub fn is_taken(path: &Path) -> bool {
    let Ok(lock) = OpenOptions::new().write(true).open(beside(path, ".lock")) else {
        return false;
    };
    lock.try_lock_exclusive().is_err()
}

fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    PathBuf::from(name)
}

/// Makes sure that a directory is there that only this user, or its group too, can enter.
fn private_dir(dir: &Path, access: Access) -> Result<(), SocketError> {
    let insecure = |why: &str| SocketError::Insecure {
        dir: dir.to_path_buf(),
        why: why.to_string(),
        mode: access.dir(),
    };
    let was_there = dir.exists();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| insecure(&format!("can't be made ({error})")))?;
    let meta = fs::symlink_metadata(dir)
        .map_err(|error| insecure(&format!("can't be looked at ({error})")))?;
    if meta.file_type().is_symlink() {
        return Err(insecure("is a symbolic link"));
    }
    let own = meta.uid() == rustix::process::geteuid().as_raw();
    let is_member = access == Access::Group && is_of_group(meta.gid());
    if !own && !is_member {
        return Err(insecure("belongs to another user"));
    }
    if access == Access::Group && own && !was_there {
        // What the mask of the process takes away is given back.
        fs::set_permissions(dir, fs::Permissions::from_mode(access.dir()))
            .map_err(|error| insecure(&format!("can't be opened for its group ({error})")))?;
        return Ok(());
    }
    if meta.mode() & 0o777 & !access.dir() != 0 {
        return Err(insecure("can be entered by others"));
    }
    Ok(())
}

/// Returns whether this process has a group.
fn is_of_group(gid: u32) -> bool {
    let own = rustix::process::getegid().as_raw() == gid;
    own || rustix::process::getgroups()
        .is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_dir() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        (dir, own)
    }

    #[test]
    fn ggrep_the_directory_is_0700_and_the_socket_0600() {
        let (_dir, own) = own_dir();
        let socket = OwnSocket::listen(&own.join("a.sock"), Access::Owner).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(socket.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(own.join("a.sock.lock")).unwrap().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn ggrep_a_group_gets_0770_and_0660_where_that_is_asked_for() {
        let (_dir, own) = own_dir();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let path = own.join("a.sock");
        let socket = OwnSocket::listen(&path, Access::Group).unwrap();
        assert_eq!((mode(&own), mode(&path)), (0o770, 0o660));
        drop(socket);
        // Who did not ask for it is not served there, and nobody where all others can enter.
        let error = OwnSocket::listen(&path, Access::Owner).unwrap_err();
        assert!(error.to_string().contains("0700"), "{error}");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o775)).unwrap();
        let error = OwnSocket::listen(&path, Access::Group).unwrap_err();
        assert!(error.to_string().contains("0770"), "{error}");
    }

    #[test]
    fn ggrep_a_second_daemon_is_refused_and_a_leftover_is_replaced() {
        let (_dir, own) = own_dir();
        let path = own.join("a.sock");
        assert!(!is_taken(&path));
        let first = OwnSocket::listen(&path, Access::Owner).unwrap();
        assert!(is_taken(&path));
        assert!(matches!(
            OwnSocket::listen(&path, Access::Owner),
            Err(SocketError::Taken(_))
        ));
        assert!(path.exists(), "the first one's socket stays");
        drop(first);
        assert!(!path.exists());
        // As a process leaves it that was killed.
        drop(UnixListener::bind(&path).unwrap());
        assert!(!is_taken(&path));
        let again = OwnSocket::listen(&path, Access::Owner).unwrap();
        // Should somebody replace it, that is not ours to remove.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "x").unwrap();
        drop(again);
        assert!(path.exists());
        assert!(matches!(
            OwnSocket::listen(&path, Access::Owner),
            Err(SocketError::Occupied(_))
        ));
    }

    #[test]
    fn ggrep_one_process_at_a_time_starts_a_daemon() {
        let (_dir, own) = own_dir();
        let path = own.join("a.sock");
        let turn = Turn::take(&path, Access::Owner).unwrap();
        assert!(turn.is_some());
        assert!(Turn::take(&path, Access::Owner).unwrap().is_none());
        let other = Turn::take(&own.join("b.sock"), Access::Owner).unwrap();
        assert!(other.is_some(), "that is about another socket");
        assert!(!is_taken(&path), "nobody listens yet");
        drop(turn);
        assert!(Turn::take(&path, Access::Owner).unwrap().is_some());
    }

    #[test]
    fn ggrep_a_directory_that_others_can_enter_is_refused() {
        let (_dir, own) = own_dir();
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o750)).unwrap();
        let error = OwnSocket::listen(&own.join("a.sock"), Access::Owner).unwrap_err();
        assert!(error.to_string().contains("0700"), "{error}");
        let link = own.with_file_name("link");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        let error = OwnSocket::listen(&link.join("a.sock"), Access::Owner).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }

    #[test]
    fn ggrep_paths_fit_into_an_address() {
        let store = Store {
            store_id: "s".repeat(64),
            config_fingerprint: "c".repeat(64),
        };
        let places = SocketPlaces {
            runtime_dir: Some(PathBuf::from("/run/user/1000")),
            home: Some(PathBuf::from("/home/x")),
        };
        let path = places.path_for(&store).unwrap();
        assert!(path.starts_with("/run/user/1000/forge-search"));
        assert!(path.as_os_str().len() < 60);
        let home = SocketPlaces {
            runtime_dir: None,
            ..places
        };
        assert!(
            home.path_for(&store)
                .unwrap()
                .starts_with("/home/x/.ggrep/daemon")
        );
        let long = PathBuf::from("/").join("x".repeat(LONGEST));
        assert!(matches!(
            OwnSocket::listen(&long, Access::Owner),
            Err(SocketError::TooLong(_))
        ));
    }
}
