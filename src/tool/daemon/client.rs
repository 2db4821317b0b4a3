//! A client: one connection to a daemon.
//!
//! Owns the handshake and what is read back. It blocks, for at most as long as it is told to.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::frame::{self, encode};
use super::handshake::{PROTOCOL_VERSIONS, Store};
use super::limits::MAX_RESPONSE_BYTES;
use super::reply::{ErrorCode, Failure, Welcome};
use super::request::{Hello, Request};
use super::service::payload;

/// A connection to a daemon that has been greeted.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    /// What the daemon said of itself.
    pub welcome: Welcome,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is nobody at the socket.
    #[error("no daemon answers at the socket: {0}")]
    Unreachable(io::Error),
    /// The daemon refuses.
    #[error("{}", .0.error.message)]
    Refused(Failure),
    /// The connection failed, or what came is no answer.
    #[error("the daemon did not answer: {0}")]
    Broken(io::Error),
}

impl ClientError {
    /// Returns the code of the failure.
    pub fn code(&self) -> ErrorCode {
        match self {
            ClientError::Refused(failure) => failure.error.code,
            ClientError::Broken(error) if is_late(error) => ErrorCode::Timeout,
            ClientError::Unreachable(_) | ClientError::Broken(_) => ErrorCode::Internal,
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
    /// Connects and greets. Each answer may take `patience`.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn open(
        path: &Path,
        store: &Store,
        client_id: Option<&str>,
        patience: Duration,
    ) -> Result<Connection, ClientError> {
        let patience = patience.max(Duration::from_millis(1));
        let mut stream = connect(path, patience).map_err(|error| match is_late(&error) {
            true => ClientError::Broken(error),
            false => ClientError::Unreachable(error),
        })?;
        stream
            .set_read_timeout(Some(patience))
            .and_then(|()| stream.set_write_timeout(Some(patience)))
            .map_err(ClientError::Broken)?;
        let hello = Hello {
            protocol_versions: Some(PROTOCOL_VERSIONS.to_vec()),
            protocol_version: None,
            store_id: store.store_id.clone(),
            config_fingerprint: store.config_fingerprint.clone(),
            client_id: client_id.map(str::to_string),
            client_capabilities: None,
        };
        let answer = exchange(&mut stream, &payload(&hello))?;
        match serde_json::from_slice(&answer) {
            Ok(welcome) => Ok(Connection { stream, welcome }),
            Err(_) => Err(refusal(&answer)),
        }
    }

    /// Asks, and returns the payload of the answer, whatever it says.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broken`].
    pub fn ask(&mut self, request: &Request) -> Result<Vec<u8>, ClientError> {
        exchange(&mut self.stream, &payload(&request.to_value()))
    }
}

/// Connects. Where a daemon has as many clients as it takes, and more wait, that is waited for no longer than `patience`.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Reads a failure.
fn refusal(answer: &[u8]) -> ClientError {
    match serde_json::from_slice(answer) {
        Ok(failure) => ClientError::Refused(failure),
        Err(error) => ClientError::Broken(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

fn exchange(stream: &mut UnixStream, message: &[u8]) -> Result<Vec<u8>, ClientError> {
    let cap = usize::try_from(MAX_RESPONSE_BYTES.most).unwrap_or(usize::MAX);
    let frame = encode(message, cap).map_err(io::Error::other);
    let sent = frame.and_then(|frame| stream.write_all(&frame));
    // A daemon that refuses a message may have said why before it closed.
    match (frame::read(stream, cap), sent) {
        (Ok(Some(answer)), _) => Ok(answer),
        (_, Err(error)) | (Err(error), Ok(())) => Err(ClientError::Broken(error)),
        (Ok(None), Ok(())) => Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn ggrep_a_client_waits_no_longer_than_it_is_told_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let store = Store {
            store_id: "s".to_string(),
            config_fingerprint: "c".to_string(),
        };
        let open = || Connection::open(&path, &store, None, Duration::from_millis(30));
        assert!(matches!(open(), Err(ClientError::Unreachable(_))));
        // Nobody accepts, until no more can even wait for it.
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
        // Where the system lets that many wait, it was the greeting that was not answered.
        assert!(full.is_none_or(|error| is_late(&error)));
    }
}
