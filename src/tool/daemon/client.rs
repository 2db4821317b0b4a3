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
        let mut stream = UnixStream::connect(path).map_err(ClientError::Unreachable)?;
        let patience = Some(patience.max(Duration::from_millis(1)));
        stream
            .set_read_timeout(patience)
            .and_then(|()| stream.set_write_timeout(patience))
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
