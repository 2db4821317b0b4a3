//! The one client of daemons: the rules between a command and the daemon that answers it.
//!
//! Owns how long a daemon may take to greet and to answer, when it is asked again, and when it is
//! given up, so that the command answers by itself. Every surface asks through [`Client::ask`]; they
//! differ in their [`Rules`] only.

use std::io;
use std::thread;
use std::time::Duration;

use super::Meant;
use super::start::{Unconnected, connect_or_start};
use crate::exec::stop::Deadline;
use crate::tool::daemon::client::{ClientError, Connection};
use crate::tool::daemon::reply::{ErrorCode, Failure};
use crate::tool::daemon::request::Request;
use crate::tool::daemon::tree::GivenUp;

/// How often a daemon is asked once more, because the one before ended without an answer. Asking changes nothing, so it can be
/// repeated.
const AGAIN: u32 = 3;

/// How a command deals with a daemon.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Rules<'a> {
    /// The name under which it asks, for fairness between clients; that of the program that started
    /// this one if absent.
    pub(in super::super) client_id: Option<&'a str>,
    /// A daemon is started where none runs.
    pub(in super::super) starts: bool,
    /// How long a daemon may take to greet.
    pub(in super::super) greeting: Duration,
    /// How long the first message of an answer may take, if that is less than until the end.
    pub(in super::super) first_message: Duration,
    /// Where the daemon has too much to do, it is asked again when it says so.
    pub(in super::super) waits_while_busy: bool,
    /// A daemon of another release is not asked: its answer may be another one.
    pub(in super::super) same_release: bool,
}

/// A daemon that has begun to answer.
pub(in super::super) struct Answering {
    /// Where further messages come from.
    pub(in super::super) connection: Connection,
    /// The first message, or all of the answer.
    pub(in super::super) first: Vec<u8>,
    /// Whether the daemon was started for it.
    pub(in super::super) is_started: bool,
}

/// Why no daemon answers.
#[derive(Debug)]
pub(in super::super) enum Unanswered {
    /// None runs, and none was to be started.
    NotRunning(io::Error),
    /// None runs, and none could be started: this says why.
    NoDaemon(String),
    /// One runs, and has not greeted in time.
    LateGreeting(ClientError),
    /// Each one that was asked ended before it answered: this is the last that was heard of one.
    Ended(Result<Vec<u8>, ClientError>),
    /// The caller gave the request up.
    GivenUp,
    /// The daemon is one of another release.
    OtherRelease,
    /// The daemon refuses, or what it says can't be used.
    Client(ClientError),
}

/// A request to the daemon of a tree.
pub(in super::super) struct Client<'a> {
    /// Which daemon.
    pub(in super::super) daemon: &'a Meant,
    /// How it is dealt with.
    pub(in super::super) rules: Rules<'a>,
    /// When there has to be an answer.
    pub(in super::super) until: &'a Deadline,
    /// Who may give the request up meanwhile.
    pub(in super::super) given_up: Option<&'a GivenUp>,
}

impl Client<'_> {
    /// Asks, and returns what the daemon says, which may be a failure of the request.
    ///
    /// # Errors
    ///
    /// [`Unanswered`].
    pub(in super::super) fn ask(&self, request: &Request) -> Result<Answering, Unanswered> {
        let mut left = AGAIN;
        let mut is_started = false;
        loop {
            let (mut connection, was_started) = self.connect()?;
            is_started |= was_started;
            if self.rules.same_release
                && connection.welcome.binary_version != env!("CARGO_PKG_VERSION")
            {
                return Err(Unanswered::OtherRelease);
            }
            if let Some(given_up) = self.given_up
                && let Ok(hang_up) = connection.hang_up()
            {
                given_up.also(hang_up);
            }
            let patience = self.until.remaining().min(self.rules.first_message);
            let answer = connection.ask(request, patience);
            if self.given_up.is_some_and(GivenUp::is_given_up) {
                return Err(Unanswered::GivenUp);
            }
            if is_over(&answer) {
                if left == 0 {
                    return Err(Unanswered::Ended(answer));
                }
                left -= 1;
                continue;
            }
            let first = answer.map_err(Unanswered::Client)?;
            match self.retry_after(&first) {
                Some(wait) => thread::sleep(wait),
                None => {
                    return Ok(Answering {
                        connection,
                        first,
                        is_started,
                    });
                }
            }
        }
    }

    /// Connects; returns also whether the daemon was started for it.
    fn connect(&self) -> Result<(Connection, bool), Unanswered> {
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
            Connection::open(&self.daemon.socket, &self.daemon.store, caller)
                .map(|connection| (connection, false))
                .map_err(Unconnected::Client)
        };
        connected.map_err(|error| match error {
            Unconnected::NotStarted(why) => Unanswered::NoDaemon(why),
            Unconnected::Client(ClientError::Unreachable(error)) => Unanswered::NotRunning(error),
            Unconnected::Client(error @ ClientError::Late(_)) => Unanswered::LateGreeting(error),
            Unconnected::Client(error @ ClientError::Gone(_)) => Unanswered::Ended(Err(error)),
            Unconnected::Client(error) => Unanswered::Client(error),
        })
    }

    /// Returns when to ask again, if the daemon has too much to do at the moment and there is time to wait.
    fn retry_after(&self, answer: &[u8]) -> Option<Duration> {
        let refusal = failure_of(answer)?.error;
        let wait = Duration::from_millis(refusal.retry_after_ms?);
        let is_worth_it = refusal.code == ErrorCode::Busy && wait < self.until.remaining();
        (self.rules.waits_while_busy && is_worth_it).then_some(wait)
    }
}

/// Returns whether the daemon was about to end: it was gone before it answered, or took back what it
/// had begun. This client cancels nothing by its id, so a cancellation is never its user's.
fn is_over(answer: &Result<Vec<u8>, ClientError>) -> bool {
    match answer {
        Err(ClientError::Gone(_)) => true,
        Ok(answer) => {
            failure_of(answer).is_some_and(|failure| failure.error.code == ErrorCode::Cancelled)
        }
        Err(_) => false,
    }
}

/// Reads an answer that is a failure of the daemon, and not one that a tool tells of.
pub(in super::super) fn failure_of(answer: &[u8]) -> Option<Failure> {
    // No other answer begins so.
    answer.starts_with(b"{\"error\"").then_some(())?;
    serde_json::from_slice(answer).ok()
}
