//! The locks: who may be a daemon, who starts one, and where it noted that it listens.
//!
//! Owns that no file is taken for a lock that is none. What listens is its parent's.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs2::FileExt;

use super::{Access, SocketError, beside, dir_of, private_dir};
use crate::tool::daemon::handshake::Store;
use crate::tool::daemon::identity::socket_name;

/// How often a lock is tried that somebody may only be looking at, and how far apart.
const GLANCES: u32 = 5;
const GLANCE: Duration = Duration::from_millis(4);

/// How often a lock is taken whose file is removed meanwhile.
const TRIES: u32 = 100;

/// The ending of the name of a note.
const NOTE: &str = "daemon";

/// The longest note, in bytes: two paths, and what belongs to them.
const LONGEST_NOTE: u64 = 10_000;

/// A lock that this process holds. Its file is removed when this is dropped, before the lock is
/// given back.
///
/// Whoever opened the file before that locks a file that is no longer at the path. So a lock
/// counts only if its file is still there, and is taken again otherwise.
#[derive(Debug)]
pub(super) struct Held {
    path: PathBuf,
    file: File,
}

impl Held {
    /// Takes the lock at a path, if nobody else has it. Makes its file, if there is none.
    pub(super) fn take(path: &Path, access: Access) -> Result<Option<Held>, SocketError> {
        Held::take_by(path, || open_lock(path, access))
    }

    fn take_by(
        path: &Path,
        open: impl Fn() -> Result<File, SocketError>,
    ) -> Result<Option<Held>, SocketError> {
        for _ in 0..TRIES {
            let file = open()?;
            let is_locked = locked(&file).map_err(|error| SocketError::Io {
                path: path.to_path_buf(),
                error,
            })?;
            match (is_at(&file, path), is_locked) {
                (true, true) => {
                    let path = path.to_path_buf();
                    return Ok(Some(Held { path, file }));
                }
                (true, false) => return Ok(None),
                // Its holder has just removed it.
                (false, _) => {}
            }
        }
        Err(SocketError::NoLock {
            path: path.to_path_buf(),
            why: "is removed again and again; find out which program removes it".to_string(),
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            // One that stays is a leftover, which the next holder uses.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns whether a file that is open is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let both = (file.metadata(), fs::symlink_metadata(path));
    let (Ok(open), Ok(there)) = both else {
        return false;
    };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

/// Where a daemon listens, and which one it is, as it has noted for those who look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its socket.
    pub socket: PathBuf,
    /// What it answers for.
    pub store: Store,
    /// Its process.
    pub pid: u32,
    /// The root of its tree.
    pub root: PathBuf,
}

impl Note {
    /// Writes it, with a zero between two fields, since no path holds one.
    fn to_bytes(&self) -> Vec<u8> {
        let pid = self.pid.to_string();
        let fields = [
            self.socket.as_os_str().as_bytes(),
            self.store.store_id.as_bytes(),
            self.store.config_fingerprint.as_bytes(),
            pid.as_bytes(),
            self.root.as_os_str().as_bytes(),
        ];
        fields.join(&0)
    }

    /// Reads it. `None` if it is only half written, or something else.
    fn read(bytes: &[u8]) -> Option<Note> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let path = |bytes: &[u8]| Some(PathBuf::from(OsStr::from_bytes(bytes)));
        let mut fields = bytes.split(|byte| *byte == 0);
        let note = Note {
            socket: path(fields.next()?)?,
            store: Store {
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

/// The right to be the one daemon of a store and a configuration, wherever its socket is. It ends
/// with its process, or when this is dropped.
#[derive(Debug)]
pub struct Sole {
    lock: Held,
}

impl Sole {
    /// Takes the right, by a lock in a directory that all daemons of this user have. Where this
    /// one listens is to be [noted](Sole::note) then.
    ///
    /// # Errors
    ///
    /// [`SocketError::Elsewhere`] if another one has it, [`SocketError::NoLock`] if what is there
    /// is none.
    pub fn take(dir: &Path, store: &Store) -> Result<Sole, SocketError> {
        let path = note_path(dir, store);
        match Held::take_by(&path, || open_note(&path))? {
            Some(lock) => {
                // What an earlier one has noted.
                lock.file.set_len(0).map_err(|error| SocketError::Io {
                    path: path.clone(),
                    error,
                })?;
                Ok(Sole { lock })
            }
            // Should it be unreadable, the path of the lock says as much.
            None => Err(SocketError::Elsewhere(noted(dir, store).unwrap_or(path))),
        }
    }

    /// Notes where this daemon listens, and of which tree it is, for those who look for it.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn note(&mut self, note: &Note) -> Result<(), SocketError> {
        let written = self.lock.file.write_all(&note.to_bytes());
        written.map_err(|error| SocketError::Io {
            path: self.lock.path.clone(),
            error,
        })
    }
}

/// Returns the path of the note of a store's daemon.
fn note_path(dir: &Path, store: &Store) -> PathBuf {
    let name = socket_name(&store.store_id, &store.config_fingerprint);
    dir.join(name).with_extension(NOTE)
}

/// Opens the file of a note, which is a lock, too. Makes it, if there is none.
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
            let why = "is a symbolic link; find out who has put it there, and remove it";
            return Err(no_lock(why));
        }
        lock => lock.map_err(fail)?,
    };
    let meta = lock.metadata().map_err(fail)?;
    // One without a name has just been removed by its holder.
    if !meta.is_file() || meta.nlink() > 1 || meta.len() > LONGEST_NOTE {
        return Err(no_lock("is no lock, but something else; move it away"));
    }
    Ok(lock)
}

/// Returns where the daemon of a store and a configuration listens, if there is one, by its note
/// in the directory that all daemons of this user have.
pub fn noted(dir: &Path, store: &Store) -> Option<PathBuf> {
    Some(read_note(&note_path(dir, store))?.socket)
}

/// Returns the notes of all daemons that run and have noted in a directory where they listen, by
/// root.
pub fn all_noted(dir: &Path) -> Vec<Note> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let of_notes = paths.filter(|path| path.extension().is_some_and(|one| one == NOTE));
    let mut notes: Vec<Note> = of_notes.filter_map(|path| read_note(&path)).collect();
    notes.sort_by(|a, b| (&a.root, &a.socket).cmp(&(&b.root, &b.socket)));
    notes
}

/// Reads a note, if its daemon runs.
fn read_note(path: &Path) -> Option<Note> {
    // Whatever is there: nothing is waited for.
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
    Note::read(&bytes)
}

/// Takes a lock, if nobody else has it. Whoever only looks whether somebody has it has it for a moment, too.
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

/// Opens a lock, for the group of its directory too if that may use it. Makes it, if there is none.
///
/// Whoever else may write into the directory can have put anything there. So no link is followed, nothing is waited for, and the only file
/// whose mode is ever changed is one that was made just now, by its descriptor.
fn open_lock(path: &Path, access: Access) -> Result<File, SocketError> {
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
            Ok(lock) => match lock.metadata().map_err(fail)? {
                // Its holder has just removed it.
                meta if meta.nlink() == 0 => last = None,
                meta => match no_lock(&meta, access) {
                    None => return Ok(lock),
                    Some(why) => last = Some(why.to_string()),
                },
            },
            // Somebody has just removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = None,
            Err(error) if is_link(&error) => {
                let why = "is a symbolic link; find out who has put it there, and remove it";
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
        why: last.unwrap_or_else(|| "is removed again and again".to_string()),
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

/// Returns why a file that was opened is no lock.
fn no_lock(meta: &fs::Metadata, access: Access) -> Option<&'static str> {
    let own = meta.uid() == rustix::process::geteuid().as_raw();
    if !meta.is_file() || meta.len() > 0 {
        Some("is no lock, but something else; move it away")
    } else if meta.nlink() != 1 {
        Some("has other names, so it is no lock; remove it")
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

/// The right to start a daemon for a socket, which one process has at a time. It ends with its
/// process, or when this is dropped.
#[derive(Debug)]
pub struct Turn {
    _lock: Held,
}

impl Turn {
    /// Takes the turn, if nobody else has it.
    ///
    /// # Errors
    ///
    /// [`SocketError`].
    pub fn take(path: &Path, access: Access) -> Result<Option<Turn>, SocketError> {
        private_dir(dir_of(path), access)?;
        let lock = Held::take(&beside(path, ".start"), access)?;
        Ok(lock.map(|lock| Turn { _lock: lock }))
    }
}

/// Returns whether a daemon listens at a path: somebody holds its lock.
pub fn is_taken(path: &Path) -> bool {
    let path = beside(path, ".lock");
    for _ in 0..TRIES {
        match lock_options(Access::Owner).open(&path) {
            Ok(lock) if lock.try_lock_exclusive().is_err() => return true,
            Ok(lock) if is_at(&lock, &path) => return false,
            // Its holder has just removed it; another one may have made one since.
            Ok(_) => {}
            // It is somebody's who does not share it.
            Err(error) => return error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    false
}
