//! Asks a daemon for a command: starts it if necessary, waits, retries, and gives up in time for
//! the command to answer itself.
//!
//! Commands that want an answer use [`Client::ask`], and differ only in their [`Rules`], such as
//! how long the daemon may take to greet. Commands that inspect or stop a daemon,
//! such as `ggrep stop`, open the connection themselves.
//! [`tool::daemon::client`](crate::tool::daemon::client) owns the connection.

use std::io;
use std::thread;
use std::time::Duration;

use super::DaemonEndpoint;
use super::start::{ConnectError, connect_or_start};
use crate::exec::stop::Deadline;
use crate::tool::daemon::client::{ClientError, Connection};
use crate::tool::daemon::reply::{ErrorCode, Failure};
use crate::tool::daemon::request::Request;
use crate::tool::daemon::tree_backend::CallCancel;

/// How often to retry if the daemon ends without an answer. Requests change nothing, so retries are
/// safe.
const AGAIN: u32 = 3;

/// The rules of a command for its daemon.
#[derive(Clone, Copy, Debug)]
pub(in crate::tool::cli) struct Rules<'a> {
    /// The client name, for fairness between clients. Absent: a name for the parent process.
    pub(in crate::tool::cli) client_id: Option<&'a str>,
    /// Whether to start a daemon if no daemon is running.
    pub(in crate::tool::cli) starts: bool,
    /// Maximum time for the daemon to greet.
    pub(in crate::tool::cli) greeting: Duration,
    /// Maximum time for the first message of an answer, if less than the time until the deadline.
    pub(in crate::tool::cli) first_message: Duration,
    /// Whether to retry a request that the daemon refused as busy, after the time that the daemon
    /// gave.
    pub(in crate::tool::cli) waits_while_busy: bool,
    /// Whether to reject daemons of other releases, as their answers may differ.
    pub(in crate::tool::cli) same_release: bool,
}

/// The beginning of a daemon's answer.
pub(in crate::tool::cli) struct AnswerStart {
    /// The connection, for further messages.
    pub(in crate::tool::cli) connection: Connection,
    /// The first message, which may be the whole answer.
    pub(in crate::tool::cli) first: Vec<u8>,
    /// Whether the client started the daemon.
    pub(in crate::tool::cli) is_started: bool,
}

/// The reason why no daemon answers.
#[derive(Debug)]
pub(in crate::tool::cli) enum DaemonCallError {
    /// No daemon is running, and the rules forbid to start one.
    NotRunning(io::Error),
    /// No daemon is running, and starting one failed for this reason.
    NoDaemon(String),
    /// A daemon is running, but did not greet in time.
    LateGreeting(ClientError),
    /// Every daemon that was asked ended before it answered. Has the outcome of the last attempt.
    Ended(Result<Vec<u8>, ClientError>),
    /// The caller cancelled the request.
    GivenUp,
    /// The daemon belongs to another release.
    OtherRelease,
    /// The daemon refused the request, or its answer is invalid.
    Client(ClientError),
}

/// The client for one request to the daemon of a tree.
pub(in crate::tool::cli) struct Client<'a> {
    /// The daemon to ask.
    pub(in crate::tool::cli) daemon: &'a DaemonEndpoint,
    /// The rules for asking.
    pub(in crate::tool::cli) rules: Rules<'a>,
    /// The deadline of the answer.
    pub(in crate::tool::cli) until: &'a Deadline,
    /// The handle with which the caller may cancel the request.
    pub(in crate::tool::cli) call_cancel: Option<&'a CallCancel>,
}

impl Client<'_> {
    /// Sends a request and returns the daemon's answer, which may be an error of the request.
    ///
    /// # Errors
    ///
    /// [`DaemonCallError`], if no daemon answers.
    pub(in crate::tool::cli) fn ask(
        &self,
        request: &Request,
    ) -> Result<AnswerStart, DaemonCallError> {
        let mut left = AGAIN;
        let mut is_started = false;
        loop {
            let (mut connection, was_started) = self.connect()?;
            is_started |= was_started;
            let is_other = connection.welcome.binary_version != env!("CARGO_PKG_VERSION");
            let is_older = connection.welcome.protocol_version < request.body.protocol_version();
            if self.rules.same_release && is_other || is_older {
                return Err(DaemonCallError::OtherRelease);
            }
            if let Some(call_cancel) = self.call_cancel
                && let Ok(hang_up) = connection.hang_up()
            {
                call_cancel.on_cancel(hang_up);
            }
            let patience = self.until.remaining().min(self.rules.first_message);
            let answer = connection.ask(request, patience);
            if self.call_cancel.is_some_and(CallCancel::is_cancelled) {
                return Err(DaemonCallError::GivenUp);
            }
            if is_over(&answer) {
                if left == 0 {
                    return Err(DaemonCallError::Ended(answer));
                }
                left -= 1;
                continue;
            }
            let first = answer.map_err(DaemonCallError::Client)?;
            match self.retry_after(&first) {
                Some(wait) => thread::sleep(wait),
                None => {
                    return Ok(AnswerStart {
                        connection,
                        first,
                        is_started,
                    });
                }
            }
        }
    }

    /// Connects to the daemon. The flag says whether the client started it.
    fn connect(&self) -> Result<(Connection, bool), DaemonCallError> {
        let Rules {
            client_id,
            starts,
            greeting,
            ..
        } = self.rules;
        let connected = if starts {
            connect_or_start(self.daemon, client_id, self.until, greeting)
                .map(|connected| (connected.connection, connected.is_started))
        } else {
            let patience = self.until.remaining().min(greeting);
            let caller = self.daemon.caller(client_id, patience);
            Connection::open(&self.daemon.socket, &self.daemon.served, caller)
                .map(|connection| (connection, false))
                .map_err(ConnectError::Client)
        };
        connected.map_err(|error| match error {
            ConnectError::NotStarted(why) => DaemonCallError::NoDaemon(why),
            ConnectError::Client(ClientError::Unreachable(error)) => {
                DaemonCallError::NotRunning(error)
            }
            ConnectError::Client(error @ ClientError::Late(_)) => {
                DaemonCallError::LateGreeting(error)
            }
            ConnectError::Client(error @ ClientError::Gone(_)) => {
                DaemonCallError::Ended(Err(error))
            }
            ConnectError::Client(error) => DaemonCallError::Client(error),
        })
    }

    /// Returns how long to wait before a retry, if the daemon is busy and the deadline allows the
    /// wait.
    fn retry_after(&self, answer: &[u8]) -> Option<Duration> {
        let refusal = failure_of(answer)?.error;
        let wait = Duration::from_millis(refusal.retry_after_ms?);
        let is_worth_it = refusal.code == ErrorCode::Busy && wait < self.until.remaining();
        (self.rules.waits_while_busy && is_worth_it).then_some(wait)
    }
}

/// Returns whether the daemon was shutting down: it closed the connection, or cancelled the
/// request. This client never cancels by id, so a cancellation does not come from the user.
fn is_over(answer: &Result<Vec<u8>, ClientError>) -> bool {
    match answer {
        Err(ClientError::Gone(_)) => true,
        Ok(answer) => {
            failure_of(answer).is_some_and(|failure| failure.error.code == ErrorCode::Cancelled)
        }
        Err(_) => false,
    }
}

/// Parses an answer that is an error of the daemon. Returns `None` for an error that a tool
/// reports.
pub(in crate::tool::cli) fn failure_of(answer: &[u8]) -> Option<Failure> {
    // Only a daemon's error begins like this.
    answer.starts_with(b"{\"error\"").then_some(())?;
    serde_json::from_slice(answer).ok()
}
