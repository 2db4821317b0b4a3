//! A search for people that a running daemon answers.
//!
//! Owns when that can be: only where the answer is the same, byte for byte, as without it.

use std::path::PathBuf;
use std::time::Duration;

use super::super::args::SetupArgs;
use super::super::setup::Environment;
use super::{Meant, canonical};
use crate::tool::config::Backend;
use crate::tool::daemon::client::Connection;
use crate::tool::daemon::request::{Asked, Request, ToolCall};
use crate::tool::request::SearchRequest;
use crate::tool::response::SearchResponse;
use crate::tool::search::SearchExtras;

/// How long a daemon may take to greet: one that does not at once has no time, and the process itself has.
const GREETING: Duration = Duration::from_millis(250);

/// How long an answer is waited for at most; never longer than a quarter of the search's time. A daemon that others keep busy may not
/// cost a search what it would find by itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a daemon answers.
pub(in super::super) struct Answered {
    /// The answer.
    pub(in super::super) response: SearchResponse,
    /// What its paths are relative to.
    pub(in super::super) root: PathBuf,
    /// Where else files may be.
    pub(in super::super) allowed: Vec<PathBuf>,
}

/// Returns what a daemon answers; nothing if there is none, or if it can't be told that its answer is the one
/// that this process would give. That process then says what is wrong, where something is.
pub(in super::super) fn ask(
    request: &SearchRequest,
    extras: &SearchExtras,
    setup: &SetupArgs,
    environment: &Environment,
) -> Option<Answered> {
    let root = setup.root.clone().unwrap_or_else(|| PathBuf::from("."));
    let root = canonical(&root, environment).ok()?;
    let meant = Meant::find(&root, setup, None, environment).ok()?;
    let config = &meant.config.search;
    // Programs are found by the environment, which is the daemon's there; diagnostics are of the process that searched; and how a line
    // was shortened is not part of a response.
    if config.backend != Backend::Embedded || config.emit_stats || config.max_line_bytes > 0 {
        return None;
    }
    let mut request = request.clone();
    // Nor has it more than one list of globs.
    if !extras.and_glob.is_empty() {
        return None;
    }
    match extras.context {
        None => {}
        Some((before, after)) if before == after => {
            request.context = u64::try_from(before).ok()?;
        }
        // A request has but one number for both sides.
        Some(_) => return None,
    }
    request.validate().ok()?;
    let most = request.max_results.unwrap_or(config.default_max_results);
    let time = request.timeout_ms.unwrap_or(config.default_timeout_ms);
    let caller = meant.caller(None, GREETING);
    let mut daemon = Connection::open(&meant.socket, &meant.store, caller).ok()?;
    if daemon.welcome.binary_version != env!("CARGO_PKG_VERSION") {
        return None;
    }
    let asked = Request {
        id: None,
        asked: Asked::Tool(ToolCall::search(&request)),
    };
    let patience = Duration::from_millis(time / 4).min(PATIENCE);
    // Where it does not come in time, the connection ends, and with it what was asked.
    let answer = daemon.ask(&asked, patience).ok()?;
    let response: SearchResponse = serde_json::from_slice(&answer).ok()?;
    // Which file is meant by a name that is not UTF-8, it can't say.
    if response
        .matches
        .iter()
        .any(|found| found.data.path.text.contains(char::REPLACEMENT_CHARACTER))
    {
        return None;
    }
    // A daemon gives no query more time than it is configured to, and its answers fit into one message.
    let is_cut = response.timed_out || (response.truncated && (response.count as u64) < most);
    (!is_cut).then(|| Answered {
        response,
        root,
        allowed: meant.config.sandbox.allowed_roots.clone(),
    })
}
