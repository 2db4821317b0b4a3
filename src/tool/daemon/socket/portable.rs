//! Sockets of Unix systems other than Linux, such as macOS.
//!
//! This module guarantees that the file of a socket that a client uses belongs to this user, and so
//! the process that created it does. A child that another thread starts while a connection is
//! opened may inherit the connection.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, chmodat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{Access, Identity, dir_of};

/// The longest path of a socket, in bytes. The shortest limit of these systems.
pub(super) const LONGEST: usize = 103;

/// Creates an unconnected socket, which later children of this process don't inherit.
pub(in super::super) fn new_stream() -> io::Result<OwnedFd> {
    let flags = SocketFlags::empty();
    let made = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fcntl_setfd(&made, FdFlags::CLOEXEC)?;
    Ok(made)
}

/// Returns true if the file of the socket belongs to this user. Only this user or root can create
/// such a file.
pub(in super::super) fn is_of_this_user(_stream: &UnixStream, path: &Path) -> io::Result<bool> {
    let file = fs::metadata(path)?;
    Ok(file.uid() == rustix::process::geteuid().as_raw())
}

/// Listens at a path in a directory that a group can write into. These systems can change the mode
/// of a file without following links.
pub(super) fn bind_shared(path: &Path) -> io::Result<(UnixListener, Identity)> {
    let gid = fs::metadata(dir_of(path))?.gid();
    let listener = UnixListener::bind(path)?;
    let identity = Identity::of(path).ok_or(io::ErrorKind::NotFound)?;
    std::os::unix::fs::lchown(path, None, Some(gid))?;
    let mode = Mode::from_raw_mode(Access::Group.file().try_into().map_err(io::Error::other)?);
    chmodat(CWD, path, mode, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((listener, identity))
}
