//! The locks: which process is the daemon, which one may start it, and where it noted its socket.
//!
//! This module owns the check that no other file is taken for a lock. The parent module owns the
//! socket itself.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs2::FileExt;

use super::{Access, SocketError, dir_of, private_dir};
use crate::format::sys::is_at;
use crate::tool::daemon::handshake::ServedTree;
use crate::tool::daemon::identity::socket_name;

/// How often a lock is tried that a reader may hold for a moment, and how far apart.
const GLANCES: u32 = 5;
const GLANCE: Duration = Duration::from_millis(4);

/// How often a lock is taken again after its file was removed.
const TRIES: u32 = 100;

/// The extension of a note.
const NOTE: &str = "daemon";

/// The longest note, in bytes: two paths and the short fields.
const LONGEST_NOTE: u64 = 10_000;

/// A lock that this process holds. Dropping it removes its file, then releases the lock.
///
/// A process that opened the file before its removal locks a file that is no longer at the path. So
/// a lock counts only if its file is still there. Otherwise it is taken again.
#[derive(Debug)]
pub(super) struct HeldLock {
    path: PathBuf,
    file: File,
}

impl HeldLock {
    /// Takes the lock at a path, if it is free. Creates its file if it is missing.
    pub(super) fn take(path: &Path, access: Access) -> Result<Option<HeldLock>, SocketError> {
        HeldLock::take_by(path, || open_lock(path, access))
    }

    fn take_by(
        path: &Path,
        open: impl Fn() -> Result<File, SocketError>,
    ) -> Result<Option<HeldLock>, SocketError> {
        for _ in 0..TRIES {
            let file = open()?;
            let is_locked = locked(&file).map_err(|error| SocketError::Io {
                path: path.to_path_buf(),
                error,
            })?;
            match (is_at(&file, path).unwrap_or(false), is_locked) {
                (true, true) => {
                    let path = path.to_path_buf();
                    return Ok(Some(HeldLock { path, file }));
                }
                (true, false) => return Ok(None),
                // Its holder has just removed it.
                (false, _) => {}
            }
        }
        Err(SocketError::NoLock {
            path: path.to_path_buf(),
            why: "is removed repeatedly; find out which program removes it".to_string(),
        })
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path).unwrap_or(false) {
            // A file that stays is a leftover, which the next holder uses.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A note: where a daemon listens, and which tree it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonRecord {
    /// The path of its socket.
    pub socket: PathBuf,
    /// The tree and the configuration that it serves.
    pub served: ServedTree,
    /// Its process id.
    pub pid: u32,
    /// The root of its tree.
    pub root: PathBuf,
}

impl DaemonRecord {
    /// Serializes the note. Fields are separated by a zero byte, which no path contains.
    fn to_bytes(&self) -> Vec<u8> {
        let pid = self.pid.to_string();
        let fields = [
            self.socket.as_os_str().as_bytes(),
            self.served.store_id.as_bytes(),
            self.served.config_fingerprint.as_bytes(),
            pid.as_bytes(),
            self.root.as_os_str().as_bytes(),
        ];
        fields.join(&0)
    }

    /// Parses a note. `None` if it is incomplete or something else.
    fn read(bytes: &[u8]) -> Option<DaemonRecord> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let path = |bytes: &[u8]| Some(PathBuf::from(OsStr::from_bytes(bytes)));
        let mut fields = bytes.split(|byte| *byte == 0);
        let note = DaemonRecord {
            socket: path(fields.next()?)?,
            served: ServedTree {
                store_id: text(fields.next()?)?,
                config_fingerprint: text(fields.next()?)?,
            },
            pid: text(fields.next()?)?.parse().ok()?,
            root: path(fields.next()?)?,
        };
        let is_whole = note.socket.is_absolute() && note.root.is_absolute();
        (is_whole && fields.next().is_none()).then_some(note)
    }
}

/// The right to be the only daemon of a tree and a configuration, wherever its socket is. It ends
/// with its process, or when this is dropped.
#[derive(Debug)]
pub struct InstanceLock {
    lock: HeldLock,
}

impl InstanceLock {
    /// Takes the right: a lock in a directory that all daemons of this user share. Afterwards the
    /// daemon has to [note](InstanceLock::note) where it listens.
    ///
    /// # Errors
    ///
    /// [`SocketError::Elsewhere`] if another daemon has the right, [`SocketError::NoLock`] if the
    /// file there is no lock.
    pub fn take(dir: &Path, served: &ServedTree) -> Result<InstanceLock, SocketError> {
        let path = note_path(dir, served);
        match HeldLock::take_by(&path, || open_note(&path))? {
            Some(lock) => {
                // Removes the note of an earlier daemon.
                lock.file.set_len(0).map_err(|error| SocketError::Io {
                    path: path.clone(),
                    error,
                })?;
                Ok(InstanceLock { lock })
            }
            // If the note is unreadable, the path of the lock identifies the daemon.
            None => Err(SocketError::Elsewhere(
                registered_socket(dir, served).unwrap_or(path),
            )),
        }
    }

    /// Notes where this daemon listens, and for which tree, so that clients find it.
    ///
    /// # Errors
    ///
    /// [`SocketError::Io`] if the note can't be written.
    pub fn note(&mut self, note: &DaemonRecord) -> Result<(), SocketError> {
        let written = self.lock.file.write_all(&note.to_bytes());
        written.map_err(|error| SocketError::Io {
            path: self.lock.path.clone(),
            error,
        })
    }
}

/// Returns the path of the note of a tree's daemon.
fn note_path(dir: &Path, served: &ServedTree) -> PathBuf {
    let name = socket_name(&served.store_id, &served.config_fingerprint);
    dir.join(name).with_extension(NOTE)
}

/// Opens the file of a note, which is a lock, too. Creates it if it is missing.
fn open_note(path: &Path) -> Result<File, SocketError> {
    let no_lock = |why: &str| SocketError::NoLock {
        path: path.to_path_buf(),
        why: why.to_string(),
    };
    let fail = |error: io::Error| SocketError::Io {
        path: path.to_path_buf(),
        error,
    };
    let lock = match lock_options(Access::Owner)
        .create(true)
        .read(true)
        .open(path)
    {
        Err(error) if is_link(&error) => {
            let why = "is a symbolic link; find out who created it, and remove it";
            return Err(no_lock(why));
        }
        lock => lock.map_err(fail)?,
    };
    let meta = lock.metadata().map_err(fail)?;
    // A file without a name has just been removed by its holder.
    if !meta.is_file() || meta.nlink() > 1 || meta.len() > LONGEST_NOTE {
        return Err(no_lock("is not a lock file; move it away"));
    }
    Ok(lock)
}

/// Returns where the daemon of a tree and a configuration listens, if one runs. Reads its note in
/// `dir`, the directory that all daemons of this user share.
pub fn registered_socket(dir: &Path, served: &ServedTree) -> Option<PathBuf> {
    Some(read_note(&note_path(dir, served))?.socket)
}

/// Returns the notes of all running daemons in a directory, sorted by root.
pub fn registered_daemons(dir: &Path) -> Vec<DaemonRecord> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let of_notes = paths.filter(|path| path.extension().is_some_and(|one| one == NOTE));
    let mut notes: Vec<DaemonRecord> = of_notes.filter_map(|path| read_note(&path)).collect();
    notes.sort_by(|a, b| (&a.root, &a.socket).cmp(&(&b.root, &b.socket)));
    notes
}

/// Reads a note if its daemon runs.
fn read_note(path: &Path) -> Option<DaemonRecord> {
    // The file may be anything, for example a pipe. Opening it never waits.
    let lock = lock_options(Access::Owner)
        .write(false)
        .read(true)
        .open(path)
        .ok()?;
    if !lock.metadata().is_ok_and(|meta| meta.is_file()) || lock.try_lock_shared().is_ok() {
        return None;
    }
    let mut bytes = Vec::new();
    lock.take(LONGEST_NOTE).read_to_end(&mut bytes).ok()?;
    DaemonRecord::read(&bytes)
}

/// Takes a lock, if it is free. A process that only checks for a holder has the lock for a moment,
/// so it is tried several times.
fn locked(lock: &File) -> io::Result<bool> {
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

/// Opens a lock, also for the group of its directory if `access` says so. Creates it if it is
/// missing.
///
/// Any user who may write into the directory can have put any file there. So links are not
/// followed, opening never waits, and the mode is changed only of a newly created file, by its
/// descriptor.
fn open_lock(path: &Path, access: Access) -> Result<File, SocketError> {
    let fail = |error: io::Error| SocketError::Io {
        path: path.to_path_buf(),
        error,
    };
    let mut last = None;
    for turn in 0..GLANCES {
        if turn > 0 {
            // The process that creates it may be about to let the group use it.
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
            Ok(lock) => match lock.metadata().map_err(fail)? {
                // Its holder has just removed it.
                meta if meta.nlink() == 0 => last = None,
                meta => match no_lock(&meta, access) {
                    None => return Ok(lock),
                    Some(why) => last = Some(why.to_string()),
                },
            },
            // It was just removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = None,
            Err(error) if is_link(&error) => {
                let why = "is a symbolic link; find out who created it, and remove it";
                last = Some(why.to_string());
            }
            Err(error) => last = Some(format!("can't be opened as a lock: {error}; remove it")),
        }
        if access == Access::Owner && last.is_some() {
            break;
        }
    }
    Err(SocketError::NoLock {
        path: path.to_path_buf(),
        why: last.unwrap_or_else(|| "is removed repeatedly".to_string()),
    })
}

fn lock_options(access: Access) -> OpenOptions {
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

/// Returns why an open file is no lock.
fn no_lock(meta: &fs::Metadata, access: Access) -> Option<&'static str> {
    let own = meta.uid() == rustix::process::geteuid().as_raw();
    if !meta.is_file() || meta.len() > 0 {
        Some("is not a lock file; move it away")
    } else if meta.nlink() != 1 {
        Some("has other hard links, so it is not a lock file; remove it")
    } else if access == Access::Group && own && meta.mode() & 0o777 != access.file() {
        Some("is a lock file that the group can't use; remove it, or set its mode to 0660")
    } else {
        None
    }
}

/// Lets a group use a file, independently of the umask and the group of this process.
fn share(file: &File, gid: u32) -> io::Result<()> {
    std::os::unix::fs::fchown(file, None, Some(gid))?;
    file.set_permissions(fs::Permissions::from_mode(Access::Group.file()))
}

/// The right to start a daemon for a socket, which one process has at a time. It ends with its
/// process, or when this is dropped.
#[derive(Debug)]
pub struct StartLock {
    _lock: HeldLock,
}

impl StartLock {
    /// Takes the right to start, if it is free.
    ///
    /// # Errors
    ///
    /// [`SocketError`].
    pub fn take(path: &Path, access: Access) -> Result<Option<StartLock>, SocketError> {
        private_dir(dir_of(path), access)?;
        let lock = HeldLock::take(&path.with_added_extension("start"), access)?;
        Ok(lock.map(|lock| StartLock { _lock: lock }))
    }
}

/// Returns whether a daemon listens at a path, which means that its lock is held.
pub fn is_taken(path: &Path) -> bool {
    let path = path.with_added_extension("lock");
    for _ in 0..TRIES {
        match lock_options(Access::Owner).open(&path) {
            Ok(lock) if lock.try_lock_exclusive().is_err() => return true,
            Ok(lock) if is_at(&lock, &path).unwrap_or(false) => return false,
            // Its holder has just removed it; another process may have created one since.
            Ok(_) => {}
            // A daemon of another user that does not share it.
            Err(error) => return error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    false
}
