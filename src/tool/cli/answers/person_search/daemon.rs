//! The part of a person's search that concerns the daemon of the tree: asking it, and starting it
//! for later searches.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::PersonSearch;
use crate::exec::answer::collect::Found;
use crate::exec::answer::handed_out::HandedOut;
use crate::exec::question::{Follow, Question};
use crate::exec::schedule::Taker;
use crate::exec::stop::{Deadline, SystemClock};
use crate::tool::answering::Summary;
use crate::tool::cli::answers::building::refuse_wide;
use crate::tool::cli::answers::daemon::client::{AnswerStart, Client, Rules};
use crate::tool::cli::answers::daemon::{DaemonEndpoint, canonical, root_of, start};
use crate::tool::cli::setup::Setup;
use crate::tool::config::{Backend, DaemonUse, IndexMode};
use crate::tool::daemon::person_search::{Message, QuestionCall};
use crate::tool::daemon::request::{Request, RequestBody};

/// Maximum time for a daemon to greet. A daemon that is slower than that is busy, and this process
/// can search itself.
const GREETING: Duration = Duration::from_millis(250);

/// Maximum time to wait for each message; never more than a quarter of the search's time. A busy
/// daemon must not use up the time in which this process could search itself. A daemon that has
/// begun to search sends a message twice a second.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum bytes of an answer to take from the daemon; then this process continues itself. An index
/// excludes few files of a search with that many matches, and lines found in this process need no
/// socket. Measured with 2 GB of matching lines: 16 s, versus 44 s by the daemon alone.
const MUCH: usize = 32 << 20;

/// The outcome of asking a daemon.
enum DaemonOutcome {
    /// The whole answer.
    All(Box<Summary>),
    /// The taker stopped reading.
    Enough,
    /// No daemon is running, or it broke off. This process has to search for the missing parts.
    NotAll,
}

impl PersonSearch<'_> {
    /// Starts the daemon of the enclosing tree for later searches, without waiting for it. Does so
    /// only if the configuration asks for it, and if this search read enough files to justify an
    /// index.
    pub(super) fn start_daemon(&self, setup: &Setup, files: u64) {
        let search = &self.config.search;
        let is_large = files > search.index_auto_threshold_files;
        let is_wanted = self.config.daemon.searches == DaemonUse::Start;
        if !is_wanted || !is_large || search.index_mode == IndexMode::Off {
            return;
        }
        let started =
            root_of(self.setup.root.as_deref(), None, self.environment).and_then(|root| {
                refuse_wide(setup, self.environment, &root)?;
                DaemonEndpoint::find(&root, self.setup, None, self.environment)
            });
        match started {
            Ok(daemon) => start::start_without_waiting(&daemon),
            Err(error) => tracing::debug!(
                target: "forge_search::search",
                "no daemon is started: {}",
                error.message()
            ),
        }
    }

    /// Hands the daemon's results to `taker`, and records them in `handed_out`. Returns the summary
    /// if the daemon gave the whole answer.
    pub(super) fn by_daemon(
        &self,
        handed_out: &mut HandedOut,
        taker: &mut Taker<'_>,
    ) -> Option<Summary> {
        if self.config.daemon.searches == DaemonUse::Off {
            return None;
        }
        match self.ask_daemon(handed_out, taker) {
            DaemonOutcome::All(summary) => Some(*summary),
            // The taker has stopped, so nobody reads the summary.
            DaemonOutcome::Enough => Some(Summary::of_nothing()),
            DaemonOutcome::NotAll => None,
        }
    }

    fn ask_daemon(&self, handed_out: &mut HandedOut, taker: &mut Taker<'_>) -> DaemonOutcome {
        let answering = self
            .find()
            .and_then(|(daemon, question)| self.begin(&daemon, question));
        match answering {
            Some(answering) => self.read(answering, handed_out, taker),
            None => DaemonOutcome::NotAll,
        }
    }

    /// Finds the daemon, and rewrites the question so that its paths start at the daemon's root.
    fn find(&self) -> Option<(DaemonEndpoint, Question)> {
        // External engines are found by `PATH`, and the daemon may have another one. The socket of
        // a group's daemon has no usual place.
        let config = self.of_daemon;
        if config.search.backend != Backend::Embedded || config.daemon.group_access {
            return None;
        }
        let root = self.setup.root.as_deref().unwrap_or(Path::new("."));
        let root: PathBuf = canonical(root, self.environment).ok()?;
        let daemon = DaemonEndpoint::enclosing_daemon(&root, self.setup, config, self.environment)?;
        let below = root.strip_prefix(&daemon.root).ok()?;
        let question = self.question.clone();
        if below.as_os_str().is_empty() {
            return Some((daemon, question));
        }
        // The daemon's root is wider, so it may follow links to places that this search must not
        // reach.
        if question.files.traversal.follow != Follow::Never {
            return None;
        }
        let question = question.from_above(below);
        Some((daemon, question))
    }

    fn patience(&self) -> Duration {
        let quarter = self.timeout.map(|timeout| timeout / 4);
        let most = self.environment.patience(PATIENCE);
        quarter.map_or(most, |quarter| quarter.min(most))
    }

    fn begin(&self, daemon: &DaemonEndpoint, question: Question) -> Option<AnswerStart> {
        let call = QuestionCall {
            question,
            timeout_ms: self
                .timeout
                .and_then(|timeout| u64::try_from(timeout.as_millis()).ok()),
        };
        let request = Request {
            id: None,
            body: RequestBody::Tool(call.to_call()),
        };
        let until = Deadline::after(Duration::MAX, Arc::new(SystemClock));
        let client = Client {
            daemon,
            rules: Rules {
                client_id: None,
                starts: false,
                greeting: daemon.patience(GREETING),
                first_message: self.patience(),
                waits_while_busy: false,
                same_release: true,
            },
            until: &until,
            call_cancel: None,
        };
        client.ask(&request).ok()
    }

    /// Reads the messages of an answer. A late message ends the connection, which cancels the
    /// question.
    fn read(
        &self,
        mut answering: AnswerStart,
        handed_out: &mut HandedOut,
        taker: &mut Taker<'_>,
    ) -> DaemonOutcome {
        let mut message = Ok(answering.first);
        let (mut first_lines, mut bytes) = (Vec::new(), 0);
        loop {
            let read = message.map(|message| {
                bytes += message.len();
                serde_json::from_slice(&message)
            });
            let parts = match read {
                Ok(Ok(Message::Parts(parts))) => parts,
                Ok(Ok(Message::Lines(lines))) => {
                    first_lines.extend(lines);
                    Vec::new()
                }
                Ok(Ok(Message::End {
                    summary,
                    is_broken_off: false,
                })) => return DaemonOutcome::All(summary),
                _ => return DaemonOutcome::NotAll,
            };
            for mut part in parts {
                if let Found::File(file) = &mut part {
                    first_lines.append(&mut file.outcome.lines);
                    file.outcome.lines = std::mem::take(&mut first_lines);
                }
                handed_out.note(&part);
                if taker(part).is_break() {
                    return DaemonOutcome::Enough;
                }
            }
            if bytes > MUCH {
                return DaemonOutcome::NotAll;
            }
            message = answering.connection.next(self.patience());
        }
    }
}
