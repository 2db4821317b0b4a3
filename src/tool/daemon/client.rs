//! The client's end of one connection to a daemon.
//!
//! This module owns the handshake, the check of the daemon's user, and the reading of answers. It
//! blocks, up to the timeouts that it is given. It neither starts a daemon nor retries:
//! `cli::answers::daemon` decides about both. (`cli::answers::daemon::client` asks for commands
//! through it.)

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::frame::{self, encode};
use super::handshake::{PROTOCOL_VERSIONS, ServedTree, check};
use super::limits::MAX_RESPONSE_BYTES;
use super::reply::{ErrorCode, Failure, Welcome};
use super::request::{Hello, Request};
use super::service::payload;
use super::socket::{Access, is_of_this_user, new_stream};
use crate::tool::searcher::to_usize;

/// A connection to a daemon after the handshake.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    /// The daemon's part of the handshake.
    pub welcome: Welcome,
}

/// The caller of a daemon.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The name of the client, for fairness. The unnamed clients of a user count as one.
    pub client_id: Option<&'a str>,
    /// How long the handshake may take.
    pub patience: Duration,
    /// The users that may run the daemon: this one, or with [`Access::Group`] any that can open the
    /// socket.
    pub access: Access,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon listens at the socket.
    #[error("no daemon answers at the socket: {0}")]
    Unreachable(io::Error),
    /// The connection ended before the answer: the daemon was shutting down, or was killed.
    #[error("the daemon ended before it answered: {0}")]
    Gone(io::Error),
    /// No answer was received in time.
    #[error("the daemon did not answer within {0:?}")]
    Late(Duration),
    /// The daemon refuses, or it is not the expected one.
    #[error("{}", .0.error.message)]
    Refused(Failure),
    /// The connection failed, or the bytes that were received are no answer.
    #[error("the daemon did not answer: {0}")]
    Broken(io::Error),
}

impl ClientError {
    /// Returns the code of the failure.
    pub fn code(&self) -> ErrorCode {
        match self {
            ClientError::Refused(failure) => failure.error.code,
            ClientError::Late(_) => ErrorCode::Timeout,
            ClientError::Unreachable(_) | ClientError::Gone(_) | ClientError::Broken(_) => {
                ErrorCode::Internal
            }
        }
    }

    /// Converts an error of the connection.
    fn of(error: io::Error, patience: Duration) -> ClientError {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match error.kind() {
            _ if is_late(&error) => ClientError::Late(patience),
            BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => {
                ClientError::Gone(error)
            }
            _ => ClientError::Broken(error),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

impl Connection {
    /// Connects and performs the handshake.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if the daemon at the socket is not the expected one.
    pub fn open(
        path: &Path,
        served: &ServedTree,
        caller: Caller<'_>,
    ) -> Result<Connection, ClientError> {
        let patience = caller.patience.max(Duration::from_millis(1));
        let stream = connect(path, patience).map_err(|error| match is_late(&error) {
            true => ClientError::Late(patience),
            false => ClientError::Unreachable(error),
        })?;
        check_peer(&stream, path, caller.access)?;
        let hello = Hello {
            protocol_versions: Some(PROTOCOL_VERSIONS.to_vec()),
            protocol_version: None,
            store_id: served.store_id.clone(),
            config_fingerprint: served.config_fingerprint.clone(),
            client_id: caller.client_id.map(str::to_string),
            client_capabilities: None,
        };
        let answer = exchange(&stream, &payload(&hello), patience)?;
        let welcome = serde_json::from_slice(&answer).map_err(|_| refusal(&answer))?;
        check(&welcome, served).map_err(ClientError::Refused)?;
        Ok(Connection { stream, welcome })
    }

    /// Returns a function that closes the connection from another thread, which cancels its
    /// requests.
    ///
    /// # Errors
    ///
    /// An [`io::Error`] if the socket can't be duplicated.
    pub fn hang_up(&self) -> io::Result<impl FnOnce() + Send + 'static> {
        let stream = self.stream.try_clone()?;
        Ok(move || {
            // The connection may have ended already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        })
    }

    /// Sends a request, and returns the payload of the answer, which may be a failure. Each read
    /// and write may take `patience`.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn ask(&mut self, request: &Request, patience: Duration) -> Result<Vec<u8>, ClientError> {
        let patience = patience.max(Duration::from_millis(1));
        exchange(&self.stream, &payload(&request.to_value()), patience)
    }

    /// Returns the next message of an answer with several, after [`Connection::ask`] returned the
    /// first.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`ClientError::Late`] if it is not received within `patience`.
    #[cfg(feature = "cli")]
    pub(crate) fn next(&mut self, patience: Duration) -> Result<Vec<u8>, ClientError> {
        let patience = patience.max(Duration::from_millis(1));
        let set = self.stream.set_read_timeout(Some(patience));
        set.map_err(|error| ClientError::of(error, patience))?;
        match frame::read(&mut &self.stream, longest()) {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(ClientError::of(error, patience)),
        }
    }
}

/// Checks that this user runs the daemon, unless daemons are shared. Another user's could answer
/// anything.
fn check_peer(stream: &UnixStream, path: &Path, access: Access) -> Result<(), ClientError> {
    if access == Access::Owner && !is_of_this_user(stream, path).map_err(ClientError::Broken)? {
        let message = "the daemon that listens at the socket belongs to another user";
        let failure = Failure::new(ErrorCode::InvalidRequest, message);
        return Err(ClientError::Refused(failure));
    }
    Ok(())
}

/// Connects. Waits for at most `patience` if the queue of connections is full.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    use rustix::net::{SocketAddrUnix, sockopt};
    let socket = new_stream()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Parses a failure.
fn refusal(answer: &[u8]) -> ClientError {
    match serde_json::from_slice(answer) {
        Ok(failure) => ClientError::Refused(failure),
        Err(error) => ClientError::Broken(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// Returns the longest message, in bytes.
fn longest() -> usize {
    to_usize(MAX_RESPONSE_BYTES.most)
}

fn exchange(
    mut stream: &UnixStream,
    message: &[u8],
    patience: Duration,
) -> Result<Vec<u8>, ClientError> {
    let of = |error| ClientError::of(error, patience);
    stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.set_write_timeout(Some(patience)))
        .map_err(of)?;
    let cap = longest();
    let frame = encode(message, cap).map_err(io::Error::other);
    let sent = frame.and_then(|frame| stream.write_all(&frame));
    // A daemon that refuses a message may have sent the reason before it closed the connection.
    match (frame::read(&mut stream, cap), sent) {
        (Ok(Some(answer)), _) => Ok(answer),
        (_, Err(error)) | (Err(error), Ok(())) => Err(of(error)),
        (Ok(None), Ok(())) => Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_client_waits_no_longer_than_its_timeout() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let served = ServedTree {
            store_id: "s".to_string(),
            config_fingerprint: "c".to_string(),
        };
        let caller = Caller {
            client_id: None,
            patience: Duration::from_millis(30),
            access: Access::Owner,
        };
        let open = || Connection::open(&path, &served, caller);
        assert!(matches!(open(), Err(ClientError::Unreachable(_))));
        // Nothing accepts, until the queue of connections is full.
        let _listener = UnixListener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        let full = loop {
            match connect(&path, Duration::from_millis(30)) {
                Ok(stream) if waiting.len() < 500 => waiting.push(stream),
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
        };
        let error = open().unwrap_err();
        assert_eq!(error.code(), ErrorCode::Timeout, "{error}");
        // If the system allows that many waiting connections, the handshake timed out instead.
        assert!(full.is_none_or(|error| is_late(&error)));
    }
}
