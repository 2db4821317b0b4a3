//! The socket of a daemon, in a private directory, and the lock next to it.
//!
//! This module owns the decision which daemon may listen there. Only the lock decides. It is
//! released when its process ends, however that happens, so a socket without a held lock is a
//! leftover.

#[cfg(target_os = "linux")]
mod linux;
mod lock;
mod places;
#[cfg(not(target_os = "linux"))]
mod portable;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[cfg(target_os = "linux")]
use self::linux as sys;
use self::lock::HeldLock;
pub use self::lock::{
    DaemonRecord, InstanceLock, StartLock, is_taken, registered_daemons, registered_socket,
};
pub use self::places::{SocketPlaces, is_foreign};
#[cfg(not(target_os = "linux"))]
use self::portable as sys;
pub(super) use self::sys::{is_of_this_user, new_stream};
use crate::format::sys::private_dir_builder;
use crate::tool::config::DaemonConfig;

/// The longest path of a socket, in bytes: the size of `sockaddr_un` without the final zero.
pub const LONGEST: usize = sys::LONGEST;

/// The reason why no daemon can listen here.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon answers for the same tree.
    #[error("another daemon already listens at {}", .0.display())]
    Taken(PathBuf),
    /// The path is too long for a socket.
    #[error("the path of the socket, {}, has more than {LONGEST} bytes; give a shorter path with \
         --socket", .0.display())]
    TooLong(PathBuf),
    /// Other users could reach the socket.
    #[error("the directory {} of the socket {why}; it must belong to this user and have the mode \
         {mode:04o}", dir.display())]
    Insecure {
        /// The directory of the socket.
        dir: PathBuf,
        /// The problem with the directory.
        why: String,
        /// The mode that it should have.
        mode: u32,
    },
    /// Another daemon answers for the same tree at another socket.
    #[error("another daemon serves this tree and configuration at {}; use it with --socket, or end \
         it with `ggrep stop --socket`", .0.display())]
    Elsewhere(PathBuf),
    /// Another daemon answers for the same tree, but its socket is gone.
    #[error("a daemon of this tree and configuration runs, but its socket {} is gone or not \
         visible from here; the daemon ends when it notices that the socket is gone. If it runs in \
         its own container or sandbox, end it there, or search without it (--fallback)", .0.display())]
    Lost(PathBuf),
    /// The file in place of the lock is no lock, or is not for this user.
    #[error("{} {why}", path.display())]
    NoLock {
        /// The path of the lock.
        path: PathBuf,
        /// The problem with the file, and how to solve it.
        why: String,
    },
    /// The path exists and is no socket.
    #[error("{} exists and is not a socket; remove it, or give another path with --socket", .0.display())]
    Occupied(PathBuf),
    /// The system refuses.
    #[error("the socket {} can't be created: {error}", path.display())]
    Io {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// The users that may use a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Its own user.
    #[default]
    Owner,
    /// Also the group of the socket's directory.
    Group,
}

impl Access {
    /// Returns the access that a configuration gives.
    pub(crate) fn of(config: &DaemonConfig) -> Access {
        match config.group_access {
            true => Access::Group,
            false => Access::Owner,
        }
    }

    /// Returns the mode of the directory.
    fn dir(self) -> u32 {
        match self {
            Access::Owner => 0o700,
            Access::Group => 0o770,
        }
    }

    /// Returns the mode of the socket and of the files next to it.
    fn file(self) -> u32 {
        match self {
            Access::Owner => 0o600,
            Access::Group => 0o660,
        }
    }
}

/// A socket that this process listens at. Dropping it removes the socket, then releases the lock.
#[derive(Debug)]
pub struct OwnSocket {
    path: PathBuf,
    listener: Option<UnixListener>,
    /// The identity of the socket file, so that no other file is removed.
    identity: Identity,
    /// Released before the socket's lock, so that the next owner of that lock also gets this one.
    instance_lock: Option<InstanceLock>,
    /// Removed and released last.
    _lock: HeldLock,
}

/// The identity of a socket file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    dev: u64,
    ino: u64,
    /// The creation time, since systems reuse inode numbers.
    made: Option<SystemTime>,
}

/// Returns when a file was created. Falls back to the last write, since sockets are never written
/// to.
fn made(meta: &fs::Metadata) -> Option<SystemTime> {
    meta.created().or_else(|_| meta.modified()).ok()
}

impl Identity {
    /// Returns the identity of the file at a path; `None` without a file.
    pub fn of(path: &Path) -> Option<Identity> {
        let meta = fs::symlink_metadata(path).ok()?;
        Some(Identity {
            dev: meta.dev(),
            ino: meta.ino(),
            made: made(&meta),
        })
    }
}

/// Listens at a path in a directory that other users can't enter.
fn bind_own(path: &Path) -> io::Result<(UnixListener, Identity)> {
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(Access::Owner.file()))?;
    let identity = Identity::of(path).ok_or(io::ErrorKind::NotFound)?;
    Ok((listener, identity))
}

/// Opens a directory that is no symbolic link.
fn open_dir(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    options.open(path)
}

impl OwnSocket {
    /// Listens at a path below a directory of this user, which is created if it is missing. The
    /// leftover socket of a former daemon is replaced.
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
        let Some(lock) = HeldLock::take(&path.with_added_extension("lock"), access)? else {
            return Err(SocketError::Taken(path.to_path_buf()));
        };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail(error)),
            Ok(meta) if meta.file_type().is_socket() => fs::remove_file(path).map_err(fail)?,
            Ok(_) => return Err(SocketError::Occupied(path.to_path_buf())),
        }
        let (listener, identity) = match access {
            Access::Owner => bind_own(path),
            Access::Group => sys::bind_shared(path),
        }
        .map_err(fail)?;
        Ok(OwnSocket {
            path: path.to_path_buf(),
            listener: Some(listener),
            identity,
            instance_lock: None,
            _lock: lock,
        })
    }

    /// Keeps the right to be the only daemon until this is dropped.
    pub fn keep(&mut self, instance_lock: InstanceLock) {
        self.instance_lock = Some(instance_lock);
    }

    /// Returns the identity of the socket file.
    pub fn identity(&self) -> Identity {
        self.identity
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
        if Identity::of(&self.path) == Some(self.identity) {
            // Removed first: the socket has no daemon any more.
            let _ = fs::remove_file(&self.path);
        }
        // The next owner of the socket's lock has to get this one, too.
        self.instance_lock = None;
    }
}

fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Makes sure that a directory exists that only this user, or also its group, can enter.
fn private_dir(dir: &Path, access: Access) -> Result<(), SocketError> {
    let insecure = |why: &str| SocketError::Insecure {
        dir: dir.to_path_buf(),
        why: why.to_string(),
        mode: access.dir(),
    };
    let was_there = dir.exists();
    private_dir_builder()
        .recursive(true)
        .create(dir)
        .map_err(|error| insecure(&format!("can't be created ({error})")))?;
    let meta = fs::symlink_metadata(dir)
        .map_err(|error| insecure(&format!("can't be examined ({error})")))?;
    if meta.file_type().is_symlink() {
        return Err(insecure("is a symbolic link"));
    }
    let own = meta.uid() == rustix::process::geteuid().as_raw();
    let is_member = access == Access::Group && is_of_group(meta.gid());
    if !own && !is_member {
        return Err(insecure("belongs to another user"));
    }
    if access == Access::Group && own && !was_there {
        // Restores the mode bits that the umask of the process has cleared.
        open_dir(dir)
            .and_then(|dir| dir.set_permissions(fs::Permissions::from_mode(access.dir())))
            .map_err(|error| insecure(&format!("can't be opened for its group ({error})")))?;
        return Ok(());
    }
    if meta.mode() & 0o777 & !access.dir() != 0 {
        return Err(insecure("can be entered by others"));
    }
    if access == Access::Group && meta.mode() & 0o777 != access.dir() {
        return Err(insecure("can't be entered by its group"));
    }
    Ok(())
}

/// Returns whether this process belongs to a group.
fn is_of_group(gid: u32) -> bool {
    let own = rustix::process::getegid().as_raw() == gid;
    own || rustix::process::getgroups()
        .is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == gid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::daemon::handshake::ServedTree;

    fn own_dir() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        (dir, own)
    }

    #[test]
    fn the_socket_directory_is_0700_and_the_socket_0600() {
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
    fn a_configured_group_gets_0770_and_0660() {
        let (_dir, own) = own_dir();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let path = own.join("a.sock");
        let socket = OwnSocket::listen(&path, Access::Group).unwrap();
        assert_eq!((mode(&own), mode(&path)), (0o770, 0o660));
        // The umask of the process does not matter.
        assert_eq!(mode(&own.join("a.sock.lock")), 0o660);
        drop(socket);
        // A daemon without group access refuses that directory, and every daemon one that all users
        // can enter.
        let error = OwnSocket::listen(&path, Access::Owner).unwrap_err();
        assert!(error.to_string().contains("0700"), "{error}");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o775)).unwrap();
        let error = OwnSocket::listen(&path, Access::Group).unwrap_err();
        assert!(error.to_string().contains("0770"), "{error}");
    }

    #[test]
    fn only_files_of_the_daemon_are_opened_for_a_group() {
        let (_dir, own) = own_dir();
        let path = own.join("a.sock");
        drop(OwnSocket::listen(&path, Access::Group).unwrap());
        let left: Vec<_> = fs::read_dir(&own)
            .unwrap()
            .map(|one| one.unwrap().file_name())
            .collect();
        assert!(left.is_empty(), "{left:?}");
        let private = own.join("private");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        for ending in ["lock", "start"] {
            let lock = path.with_added_extension(ending);
            let refused = || {
                let error = match ending {
                    "lock" => OwnSocket::listen(&path, Access::Group).unwrap_err(),
                    _ => StartLock::take(&path, Access::Group).unwrap_err(),
                };
                assert!(matches!(error, SocketError::NoLock { .. }), "{error}");
                error.to_string()
            };
            let put = |text: &str| {
                let _ = fs::remove_file(&lock);
                fs::write(&private, text).unwrap();
                fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
            };
            put("secret");
            std::os::unix::fs::symlink(&private, &lock).unwrap();
            assert!(refused().contains("symbolic link"));
            assert!(!is_taken(&path));
            assert_eq!(mode(&private), 0o600);
            put("");
            fs::hard_link(&private, &lock).unwrap();
            assert!(refused().contains("other hard links"));
            assert_eq!(mode(&private), 0o600);
            for text in ["", "secret"] {
                put(text);
                fs::rename(&private, &lock).unwrap();
                assert!(refused().contains("lock"));
                assert_eq!(mode(&lock), 0o600);
            }
            put("");
            #[cfg(target_os = "linux")]
            {
                use rustix::fs::{CWD, Mode, mkfifoat};
                mkfifoat(CWD, &lock, Mode::RWXU).unwrap();
                refused();
                fs::remove_file(&lock).unwrap();
            }
        }
        // A link in place of the socket is not touched, either.
        put_link(&private, &path);
        assert!(matches!(
            OwnSocket::listen(&path, Access::Group),
            Err(SocketError::Occupied(_))
        ));
        assert_eq!(mode(&private), 0o600);
    }

    fn put_link(target: &Path, link: &Path) {
        std::os::unix::fs::symlink(target, link).unwrap();
    }

    #[test]
    fn a_second_daemon_is_refused_and_a_leftover_is_replaced() {
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
        // A killed process leaves such a socket behind.
        drop(UnixListener::bind(&path).unwrap());
        assert!(!is_taken(&path));
        let again = OwnSocket::listen(&path, Access::Owner).unwrap();
        // A file that has replaced the socket is not removed.
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
    fn one_process_at_a_time_starts_a_daemon() {
        let (_dir, own) = own_dir();
        let path = own.join("a.sock");
        let start_lock = StartLock::take(&path, Access::Owner).unwrap();
        assert!(start_lock.is_some());
        assert!(StartLock::take(&path, Access::Owner).unwrap().is_none());
        let other = StartLock::take(&own.join("b.sock"), Access::Owner).unwrap();
        assert!(other.is_some(), "that is about another socket");
        assert!(!is_taken(&path), "nobody listens yet");
        drop(start_lock);
        assert!(StartLock::take(&path, Access::Owner).unwrap().is_some());
    }

    #[test]
    fn a_socket_directory_that_others_can_enter_is_refused() {
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
    fn a_socket_path_that_is_too_long_for_an_address_is_refused() {
        let long = PathBuf::from("/").join("x".repeat(LONGEST));
        assert!(matches!(
            OwnSocket::listen(&long, Access::Owner),
            Err(SocketError::TooLong(_))
        ));
    }

    #[test]
    fn a_daemon_that_has_ended_leaves_no_files_behind() {
        let (dir, own) = own_dir();
        let served = ServedTree {
            store_id: "s".to_string(),
            config_fingerprint: "c".to_string(),
        };
        let path = own.join("a.sock");
        let note = DaemonRecord {
            socket: path.clone(),
            served: served.clone(),
            pid: 7,
            root: PathBuf::from("/new\nline"),
        };
        let state = dir.path().join("state");
        fs::create_dir(&state).unwrap();
        let left = |dir: &Path| fs::read_dir(dir).unwrap().count();
        let start_lock = StartLock::take(&path, Access::Owner).unwrap();
        let mut instance_lock = InstanceLock::take(&state, &served).unwrap();
        instance_lock.note(&note).unwrap();
        let mut socket = OwnSocket::listen(&path, Access::Owner).unwrap();
        socket.keep(instance_lock);
        assert_eq!(registered_daemons(&state), [note]);
        assert_eq!(registered_socket(&state, &served), Some(path.clone()));
        assert!(
            matches!(InstanceLock::take(&state, &served), Err(SocketError::Elsewhere(at)) if at == path)
        );
        assert_eq!((left(&own), left(&state)), (3, 1));
        drop(start_lock);
        drop(socket);
        assert_eq!((left(&own), left(&state)), (0, 0));
        assert_eq!(registered_daemons(&state), []);
    }

    #[test]
    fn locks_that_are_removed_by_their_holders_have_one_holder_at_a_time() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let (_dir, own) = own_dir();
        let path = own.join("a.sock");
        let (holders, most, turns) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while turns.load(Ordering::SeqCst) < 500 {
                        let Ok(Some(start_lock)) = StartLock::take(&path, Access::Owner) else {
                            continue;
                        };
                        most.fetch_max(
                            holders.fetch_add(1, Ordering::SeqCst) + 1,
                            Ordering::SeqCst,
                        );
                        turns.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                        drop(start_lock);
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
    }
}
