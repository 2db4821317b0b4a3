//! The locks: who may be a daemon, who starts one, and where it noted that it listens.
//!
//! Owns that no file is taken for a lock that is none. What listens is its parent's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs2::FileExt;

use super::{Access, LONGEST, SocketError, beside, dir_of, private_dir};
use crate::tool::daemon::handshake::Store;
use crate::tool::daemon::identity::socket_name;

/// How often a lock is tried that somebody may only be looking at, and how far apart.
const GLANCES: u32 = 5;
const GLANCE: Duration = Duration::from_millis(4);

/// The right to be the one daemon of a store and a configuration, wherever its socket is. It ends with its process, or when this is dropped.
#[derive(Debug)]
pub struct Sole {
    path: PathBuf,
    lock: File,
}

impl Sole {
    /// Takes the right, by a lock in a directory that all daemons of this user have. Where this one listens is to be [noted](Sole::note) then.
    ///
    /// # Errors
    ///
    /// [`SocketError::Elsewhere`] if another one has it, [`SocketError::NoLock`] if what is there is none.
    pub fn take(dir: &Path, store: &Store) -> Result<Sole, SocketError> {
        let name = socket_name(&store.store_id, &store.config_fingerprint);
        let path = dir.join(name).with_extension("daemon");
        let fail = |error: io::Error| SocketError::Io {
            path: path.clone(),
            error,
        };
        let no_lock = |why: &str| SocketError::NoLock {
            path: path.clone(),
            why: why.to_string(),
        };
        let mut lock = match lock_options(Access::Owner)
            .create(true)
            .read(true)
            .open(&path)
        {
            Err(error) if is_link(&error) => {
                let why = "is a symbolic link; find out who has put it there, and remove it";
                return Err(no_lock(why));
            }
            lock => lock.map_err(fail)?,
        };
        let meta = lock.metadata().map_err(fail)?;
        if !meta.is_file() || meta.nlink() != 1 || meta.len() > LONGEST as u64 {
            return Err(no_lock("is no lock, but something else; move it away"));
        }
        if !locked(&lock).map_err(fail)? {
            let mut text = String::new();
            // Should it be unreadable, the path of the lock says as much.
            let _ = lock.read_to_string(&mut text);
            let other = Some(PathBuf::from(text.trim_end())).filter(|path| path.is_absolute());
            return Err(SocketError::Elsewhere(other.unwrap_or(path)));
        }
        // What an earlier one has noted.
        lock.set_len(0).map_err(fail)?;
        Ok(Sole { path, lock })
    }

    /// Notes where this daemon listens, for those who look for it.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn note(&mut self, socket: &Path) -> Result<(), SocketError> {
        let text = socket.as_os_str().as_encoded_bytes();
        self.lock.write_all(text).map_err(|error| SocketError::Io {
            path: self.path.clone(),
            error,
        })
    }
}

/// Returns where the daemon of a store and a configuration listens, if there is one, by what it has noted in the directory that all daemons
/// of this user have.
pub fn noted(dir: &Path, store: &Store) -> Option<PathBuf> {
    let name = socket_name(&store.store_id, &store.config_fingerprint);
    let path = dir.join(name).with_extension("daemon");
    // Whatever is there: nothing is waited for.
    let lock = lock_options(Access::Owner)
        .write(false)
        .read(true)
        .open(path)
        .ok()?;
    if !lock.metadata().is_ok_and(|meta| meta.is_file()) || lock.try_lock_shared().is_ok() {
        return None;
    }
    let mut text = String::new();
    lock.take(2 * LONGEST as u64)
        .read_to_string(&mut text)
        .ok()?;
    Some(PathBuf::from(text.trim_end())).filter(|path| path.is_absolute())
}

/// Takes a lock, if nobody else has it. Whoever only looks whether somebody has it has it for a moment, too.
pub(super) fn locked(lock: &File) -> io::Result<bool> {
    for turn in 0..GLANCES {
        match lock.try_lock_exclusive() {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() != fs2::lock_contended_error().kind() => return Err(error),
            Err(_) if turn + 1 < GLANCES => std::thread::sleep(GLANCE),
            Err(_) => {}
        }
    }
    Ok(false)
}

/// Opens a lock, for the group of its directory too if that may use it. Makes it, if there is none.
///
/// Whoever else may write into the directory can have put anything there. So no link is followed, nothing is waited for, and the only file
/// whose mode is ever changed is one that was made just now, by its descriptor.
pub(super) fn open_lock(path: &Path, access: Access) -> Result<File, SocketError> {
    let fail = |error: io::Error| SocketError::Io {
        path: path.to_path_buf(),
        error,
    };
    let mut last = None;
    for turn in 0..GLANCES {
        if turn > 0 {
            // Whoever makes it may be about to let the group use it.
            std::thread::sleep(GLANCE);
        }
        match lock_options(access).create_new(true).open(path) {
            Ok(lock) => {
                if access == Access::Group {
                    let gid = fs::metadata(dir_of(path)).map_err(fail)?.gid();
                    share(&lock, gid).map_err(fail)?;
                }
                return Ok(lock);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fail(error)),
        }
        match lock_options(access).open(path) {
            Ok(lock) => match no_lock(&lock.metadata().map_err(fail)?, access) {
                None => return Ok(lock),
                Some(why) => last = Some(why.to_string()),
            },
            // Somebody has just removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = None,
            Err(error) if is_link(&error) => {
                let why = "is a symbolic link; find out who has put it there, and remove it";
                last = Some(why.to_string());
            }
            Err(error) => last = Some(format!("can't be opened as a lock: {error}; remove it")),
        }
        if access == Access::Owner {
            break;
        }
    }
    Err(SocketError::NoLock {
        path: path.to_path_buf(),
        why: last.unwrap_or_else(|| "is removed again and again".to_string()),
    })
}

pub(super) fn lock_options(access: Access) -> OpenOptions {
    use rustix::fs::OFlags;
    let mut options = OpenOptions::new();
    options
        .write(true)
        .mode(access.file())
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Returns why a file that was opened is no lock.
fn no_lock(meta: &fs::Metadata, access: Access) -> Option<&'static str> {
    let own = meta.uid() == rustix::process::geteuid().as_raw();
    if !meta.is_file() || meta.len() > 0 {
        Some("is no lock, but something else; move it away")
    } else if meta.nlink() != 1 {
        Some("has other names, or none, so it is no lock; remove it")
    } else if access == Access::Group && own && meta.mode() & 0o777 != access.file() {
        Some("is a lock that the group can't use; remove it, or set its mode to 0660")
    } else {
        None
    }
}

/// Lets a group use a file, whatever the mask and the group of this process are.
fn share(file: &File, gid: u32) -> io::Result<()> {
    std::os::unix::fs::fchown(file, None, Some(gid))?;
    file.set_permissions(fs::Permissions::from_mode(Access::Group.file()))
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
        let lock = open_lock(&beside(path, ".start"), access)?;
        match lock.try_lock_exclusive() {
            Ok(()) => Ok(Some(Turn { _lock: lock })),
            Err(error) if error.kind() == fs2::lock_contended_error().kind() => Ok(None),
            Err(error) => Err(fail(error)),
        }
    }
}

/// Returns whether a daemon listens at a path: somebody holds its lock.
pub fn is_taken(path: &Path) -> bool {
    match lock_options(Access::Owner).open(beside(path, ".lock")) {
        Ok(lock) => lock.try_lock_exclusive().is_err(),
        // It is somebody's who does not share it.
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}
