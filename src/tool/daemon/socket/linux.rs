//! Sockets of Linux.
//!
//! This module guarantees that a socket is opened for a group only once it is in its final state,
//! that the kernel names the user of the other end, and that no child process inherits a
//! connection.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{Access, Identity, dir_of, open_dir};
use crate::format::sys::private_dir_builder;

/// The longest path of a socket, in bytes.
pub(super) const LONGEST: usize = 107;

/// Creates an unconnected socket, which children of this process don't inherit.
pub(in super::super) fn new_stream() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let made = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    Ok(made?)
}

/// Returns true if this user runs the process at the other end of a connection. The kernel recorded
/// its user when it started to listen.
pub(in super::super) fn is_of_this_user(stream: &UnixStream, _path: &Path) -> io::Result<bool> {
    let peer = sockopt::socket_peercred(stream)?;
    Ok(peer.uid == rustix::process::geteuid())
}

/// Listens at a path in a directory that a group can write into.
///
/// If the socket were created there directly, a member of the group could put another file of this
/// user in its place before the mode is set, and that file would be opened for the group. So the
/// socket is created in a directory that only this user can enter, through that directory's
/// descriptor, and is moved to its place at the end.
pub(super) fn bind_shared(path: &Path) -> io::Result<(UnixListener, Identity)> {
    let gid = fs::metadata(dir_of(path))?.gid();
    let private = path.with_added_extension(std::process::id().to_string());
    match private_dir_builder().create(&private) {
        // The directory may be left over from a killed process with the same id.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let bound = open_dir(&private).and_then(|dir| {
        let meta = dir.metadata()?;
        if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
            let why = format!("{} is in the way; remove it", private.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        // Short enough for a socket address, however long the path is.
        let inside = PathBuf::from(format!("/proc/self/fd/{}/s", dir.as_raw_fd()));
        match fs::remove_file(&inside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&inside)?;
        std::os::unix::fs::lchown(&inside, None, Some(gid))?;
        fs::set_permissions(&inside, fs::Permissions::from_mode(Access::Group.file()))?;
        let identity = Identity::of(&inside).ok_or(io::ErrorKind::NotFound)?;
        fs::rename(&inside, path)?;
        Ok((listener, identity))
    });
    // The directory is empty now, or only this user can enter it.
    let _ = fs::remove_dir(&private);
    bound
}
