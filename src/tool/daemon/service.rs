//! What a daemon does for a request that was let in.
//!
//! Owns the tools, the names of snapshots and the threads that rank. It knows no sockets: it is given a request and returns a payload.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rayon::ThreadPool;
use serde::Serialize;
use serde_json::Value;

use super::answer::{Answering, Caps, of_tool};
use super::handshake::Store;
use super::identity;
use super::metrics::Outcome;
use super::reply::{ErrorCode, Failure, Success};
use super::request::{SearchQuery, ToolCall};
use crate::exec::stop::{CancelHandle, Deadline, Stop, StopReason};
use crate::index::snapshot::Snapshot;
use crate::tool::config::Config;
use crate::tool::error::ToolError;
use crate::tool::indexing::WallClock;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::search_files::{FILES_NAME, FilesTool};

/// Names of snapshots that are kept: those that queries which run at once may have pinned.
const KEPT_IDS: usize = 256;

/// What a service is made of.
pub struct Parts {
    /// The tool `Search`, with its indexes.
    pub search: SearchTool,
    /// The tool `search_files`, with its own.
    pub files: FilesTool,
    /// Where calls may read, and their clock.
    pub context: ToolContext,
    /// The canonical root.
    pub root: PathBuf,
    /// The configuration in force.
    pub config: Config,
    /// The time that ids begin with.
    pub wall: WallClock,
}

/// Answers requests about one tree.
pub struct Service {
    search: SearchTool,
    files: FilesTool,
    context: ToolContext,
    root: PathBuf,
    store: Store,
    wall: WallClock,
    pool: ThreadPool,
    caps: Caps,
    /// Told apart from those of other processes by this.
    born: String,
    ids: AtomicU64,
    snapshots: Mutex<VecDeque<(SnapshotKey, String)>>,
}

/// What tells one snapshot of this process from another.
type SnapshotKey = (u64, Option<u64>, u64);

/// What ends a request that runs.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    stop: Stop,
    cancel: CancelHandle,
}

impl Ending {
    /// Ends it; the first reason stays.
    pub fn end(&self, reason: StopReason) {
        self.stop.raise(reason);
        self.cancel.cancel();
    }

    /// Returns the reason once it was ended.
    pub fn reason(&self) -> Option<StopReason> {
        self.stop.reason()
    }
}

/// What a request was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The payload.
    pub payload: Vec<u8>,
    /// How the request ended.
    pub outcome: Outcome,
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Answer {
        Answer {
            payload: payload(&failure),
            outcome: Outcome::Failed(failure.error.code),
        }
    }
}

impl Answer {
    fn of(payload: Vec<u8>) -> Answer {
        Answer {
            payload,
            outcome: Outcome::Answered,
        }
    }
}

/// A request that was let in.
pub struct Admitted<'a> {
    /// The id that the client gave it.
    pub id: Option<String>,
    /// What ends it.
    pub ending: &'a Ending,
    /// When its answer has to be there.
    pub deadline: Deadline,
    /// How long it waited.
    pub waited: Duration,
    /// Bytes that the answer may have.
    pub max_response_bytes: usize,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("root", &self.root)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// Sets a service up. Its indexes live, or are brought up to date, as whoever made them sees fit.
    ///
    /// # Errors
    ///
    /// That of the system if there can be no more threads.
    pub fn new(parts: Parts) -> std::io::Result<Service> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|n| format!("forge-search-rank-{n}"))
            .build()
            .map_err(std::io::Error::other)?;
        let excludes = parts.context.global_excludes.as_deref();
        let born = format!("{} {}", std::process::id(), (parts.wall)());
        Ok(Service {
            store: Store {
                store_id: identity::store_id(&parts.root),
                config_fingerprint: identity::config_fingerprint(&parts.config, excludes),
            },
            search: parts.search,
            files: parts.files,
            context: parts.context,
            root: parts.root,
            wall: parts.wall,
            pool,
            caps: Caps::from(&parts.config.daemon),
            born,
            ids: AtomicU64::new(0),
            snapshots: Mutex::default(),
        })
    }

    /// Returns what clients have to mean.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the canonical root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the clock of all calls.
    pub fn clock(&self) -> &Arc<dyn crate::exec::stop::Clock> {
        &self.context.clock
    }

    /// Makes an id that no other request has.
    pub fn new_id(&self) -> String {
        let nth = self.ids.fetch_add(1, Ordering::Relaxed);
        identity::snapshot_id("request", self.now_ms(), self.born.as_bytes(), nth)
    }

    /// Ends what indexes do in the background. Returns false if something was left behind.
    pub fn shut_down(&self) -> bool {
        let all = [self.search.indexes(), self.files.indexes()];
        let ended = all.into_iter().flatten().map(|indexes| indexes.shut_down());
        ended.fold(true, |all, one| all & one)
    }

    /// Answers a question. Blocks.
    pub fn answer(&self, query: &SearchQuery, admitted: Admitted<'_>) -> Answer {
        let id = match (&admitted.id, query.deterministic) {
            (Some(id), _) => id.clone(),
            // Made of what is asked, once that is known.
            (None, true) => String::new(),
            (None, false) => self.new_id(),
        };
        let name_of = |snapshot: &Snapshot| self.name_of(snapshot);
        let answering = Answering {
            tool: &self.search,
            context: &self.context,
            root: &self.root,
            store_id: &self.store.store_id,
            config_fingerprint: &self.store.config_fingerprint,
            name_of: &name_of,
            caps: self.caps,
            pool: &self.pool,
            stop: &admitted.ending.stop,
            deadline: admitted.deadline,
            waited: admitted.waited,
        };
        match answering.answer(query, id) {
            Ok(success) => Answer::of(fitted(success, admitted.max_response_bytes)),
            Err(failure) => failure.into(),
        }
    }

    /// Calls a tool. Blocks. What the tool says is the answer, also of what is wrong with a request; only what ends the call from outside is
    /// said as this protocol says it.
    pub fn call(&self, call: &ToolCall, admitted: Admitted<'_>) -> Answer {
        let mut context = self.context.clone();
        context.cancel = admitted.ending.cancel.clone();
        context.max_output_bytes = Some(admitted.max_response_bytes);
        let request = Value::Object(call.request.clone());
        let answered = if self.search.answers_to(&call.tool) {
            let response = self.search.call(request, &context);
            response.map(|response| response.to_json())
        } else if call.tool == FILES_NAME {
            self.files
                .call(request, &context)
                .map(|response| response.to_json())
        } else {
            let name = call.tool.chars().take(80).collect();
            Err(ToolError::UnknownTool { name })
        };
        match (answered, admitted.ending.reason()) {
            (Ok(text), None) => Answer::of(text.into_bytes()),
            (_, Some(reason)) => ended(reason).of(admitted.id).into(),
            (Err(error), None) => {
                let failure = of_tool(&error);
                match error {
                    ToolError::Cancelled => failure.of(admitted.id).into(),
                    error => Answer {
                        payload: error.to_json().to_string().into_bytes(),
                        outcome: Outcome::Failed(failure.error.code),
                    },
                }
            }
        }
    }

    /// Returns the id of a snapshot. One that was named keeps its name for as long as it may be asked for.
    fn name_of(&self, snapshot: &Snapshot) -> String {
        let checksum = snapshot.segment().summary().checksum;
        let key = (checksum, snapshot.generation(), snapshot.sequence());
        let mut named = self
            .snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((_, id)) = named.iter().find(|(named, _)| *named == key) {
            return id.clone();
        }
        // What followed changes of the tree is known to this process only.
        let publication = match key.2 {
            0 => format!("{checksum} {:?}", key.1),
            _ => format!("{checksum} {:?} {}", key.1, self.born),
        };
        let id = identity::snapshot_id(
            &self.store.store_id,
            self.now_ms(),
            publication.as_bytes(),
            key.2,
        );
        named.push_back((key, id.clone()));
        if named.len() > KEPT_IDS {
            named.pop_front();
        }
        id
    }

    fn now_ms(&self) -> u64 {
        u64::try_from((self.wall)() / 1_000_000).unwrap_or(0)
    }
}

/// Returns what is said of a request that was ended from outside.
pub fn ended(reason: StopReason) -> Failure {
    match reason {
        StopReason::Cancelled => Failure::new(ErrorCode::Cancelled, "the query was cancelled"),
        _ => Failure::new(ErrorCode::Timeout, "the query was not answered in its time"),
    }
}

/// Writes a message.
pub fn payload(message: &impl Serialize) -> Vec<u8> {
    // Strings, numbers and lists of them can always be written.
    serde_json::to_vec(message).unwrap_or_default()
}

/// Writes an answer, with as many results as there is room for.
fn fitted(mut success: Success, most: usize) -> Vec<u8> {
    let all = success.results.len();
    loop {
        let bytes = payload(&success);
        if bytes.len() <= most || success.results.is_empty() {
            return bytes;
        }
        success.results.truncate(success.results.len() / 2);
        let code = "max_response_bytes";
        success.limits_hit.retain(|hit| hit.code != code);
        success.limits_hit.push(super::limits::LimitHit {
            code: code.to_string(),
            limit: most as u64,
            observed: Some(all as u64),
            path_key: None,
        });
        success
            .limits_hit
            .sort_by(|a, b| (&a.code, &a.path_key).cmp(&(&b.code, &b.path_key)));
    }
}
