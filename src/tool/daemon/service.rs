//! The service answers queries about one tree.
//!
//! In a daemon, the gate admits queries first; `status` and `health` need no permit. A service of
//! another process has no gate.
//!
//! This module owns the tools, the ids of snapshots and the threads that rank. It takes a request
//! and returns a payload; it knows no sockets. The server calls it, and so do surfaces that search
//! in their own process.

mod payload;
mod request;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rayon::ThreadPool;
use serde_json::Value;

use super::answer::RankedSearch;
use super::file_lines;
use super::handshake::ServedTree;
use super::identity;
use super::person_search;
use super::reply::{ErrorCode, Failure};
use super::request::{SearchQuery, ToolCall};
use crate::exec::stop::{Deadline, Stop, StopReason};
use crate::format::mutex::lock;
use crate::index::pace::background_pool;
use crate::index::snapshot::Snapshot;
use crate::tool::config::Config;
use crate::tool::error::ToolError;
use crate::tool::find_code::{FindCodeRequest, FindCodeResponse};
use crate::tool::find_files::FindFilesTool;
use crate::tool::indexing::{BuildReport, Indexes, WallClock, wall_clock_ns};
use crate::tool::sandbox::Sandbox;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::search_files::{FILES_NAME, FilesTool};
use crate::tool::text_answer::TextAnswer;
use crate::tool::tools::{Tool, ToolName};
pub use payload::{Answer, QueryLogFields, ended, payload};
use payload::{closed, fitted};
pub use request::{RequestContext, RequestStop};

/// How many snapshot ids the service remembers: enough for all queries that run at once.
const KEPT_IDS: usize = 256;

/// How many ignore fingerprints the service remembers.
const KEPT_INPUTS: usize = 4;

/// The parts that a service is built from.
pub struct Parts {
    /// The tool `Search`, with its indexes.
    pub search: Arc<SearchTool>,
    /// The tool `search_files`, with its indexes.
    pub files: Arc<FilesTool>,
    /// The sandbox, the clock and the limits of tool calls.
    pub context: ToolContext,
    /// The sandbox of searches that people run.
    pub people: Arc<Sandbox>,
    /// The canonical root.
    pub root: PathBuf,
    /// The configuration in force.
    pub config: Config,
    /// The wall clock; ids begin with its time.
    pub wall: WallClock,
    /// The log file of the process, if it has one.
    pub log: Option<PathBuf>,
    /// The git program, which `status` and `health` run.
    pub git: Option<PathBuf>,
    /// Environment variables that lead git to the user's own configuration.
    pub git_settings: Vec<(OsString, OsString)>,
    /// The minimum time limit of a git command; a few seconds if absent.
    pub git_patience: Option<Duration>,
    /// Computes the current fingerprint of the configuration; absent for a fixed configuration.
    pub fingerprint: Option<Fingerprint>,
}

impl Parts {
    /// Returns the parts of a service without a log, without git, and with a fixed configuration.
    pub fn new(
        search: Arc<SearchTool>,
        files: Arc<FilesTool>,
        context: ToolContext,
        people: Arc<Sandbox>,
        root: PathBuf,
        config: Config,
    ) -> Parts {
        Parts {
            search,
            files,
            context,
            people,
            root,
            config,
            wall: Arc::new(wall_clock_ns),
            log: None,
            git: None,
            git_settings: Vec::new(),
            git_patience: None,
            fingerprint: None,
        }
    }
}

/// Computes the current fingerprint of the configuration.
pub type Fingerprint = Arc<dyn Fn() -> ConfigState + Send + Sync>;

/// The current state of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigState {
    /// The configuration is valid and has this fingerprint.
    Is(String),
    /// The configuration is gone or invalid.
    Wrong,
    /// The configuration can't be read at this moment.
    Unreadable,
}

/// Answers requests about one tree.
pub struct Service {
    pub(super) parts: Parts,
    pub(super) served: ServedTree,
    pub(super) started_ns: i64,
    /// Cancels running `status` and `health` requests.
    pub(super) looking: Stop,
    find_files: FindFilesTool,
    pool: ThreadPool,
    /// The ranking threads of low-priority queries.
    behind: ThreadPool,
    /// Identifies this process in ids: its process id and its start time.
    born: String,
    /// Whether the configuration has changed since the start.
    stale: AtomicBool,
    ids: AtomicU64,
    snapshots: Mutex<VecDeque<(SnapshotKey, String)>>,
    /// Ignore fingerprints by the state of the ignore files, the latest last.
    ignored: Mutex<VecDeque<(String, String)>>,
}

/// Identifies a snapshot within this process: checksum, generation, sequence.
type SnapshotKey = (u64, Option<u64>, u64);

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("root", &self.parts.root)
            .field("served", &self.served)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// Builds a service. The caller decides whether its indexes are live indexes.
    ///
    /// # Errors
    ///
    /// The error of the system if it can't start more threads.
    pub fn new(parts: Parts) -> std::io::Result<Service> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|n| format!("forge-search-rank-{n}"))
            .build()
            .map_err(std::io::Error::other)?;
        let behind = background_pool(threads).map_err(std::io::Error::other)?;
        let excludes = parts.context.global_excludes.as_deref();
        let started_ns = (parts.wall)();
        let born = format!("{} {started_ns}", std::process::id());
        Ok(Service {
            served: ServedTree {
                store_id: identity::store_id(&parts.root),
                config_fingerprint: identity::config_fingerprint(&parts.config, excludes),
            },
            find_files: FindFilesTool::new(parts.search.clone()),
            parts,
            pool,
            behind,
            born,
            started_ns,
            looking: Stop::default(),
            stale: AtomicBool::new(false),
            ids: AtomicU64::new(0),
            snapshots: Mutex::default(),
            ignored: Mutex::default(),
        })
    }

    /// Returns the tree and the configuration that clients have to name in the handshake.
    pub fn served(&self) -> &ServedTree {
        &self.served
    }

    /// Returns the canonical root.
    pub fn root(&self) -> &Path {
        &self.parts.root
    }

    /// Returns the clock of all calls.
    pub fn clock(&self) -> &Arc<dyn crate::exec::stop::Clock> {
        &self.parts.context.clock
    }

    /// Returns a new id for a request.
    pub fn new_id(&self) -> String {
        let nth = self.ids.fetch_add(1, Ordering::Relaxed);
        identity::snapshot_id("request", self.now_ms(), self.born.as_bytes(), nth)
    }

    /// Cancels `status` and `health` requests that are running, because the daemon is about to end.
    #[cfg(unix)]
    pub fn stop_looking(&self) {
        self.looking.raise(StopReason::Cancelled);
    }

    /// Returns the indexes of all tools.
    pub(super) fn indexes(&self) -> impl Iterator<Item = &Arc<Indexes>> {
        self.parts
            .search
            .indexes()
            .into_iter()
            .chain(self.files_own())
    }

    /// Returns the indexes of `search_files` if `Search` does not share them.
    pub(super) fn files_own(&self) -> Option<&Arc<Indexes>> {
        let search = self.parts.search.indexes();
        let is_other = |own: &&Arc<Indexes>| search.is_none_or(|search| !Arc::ptr_eq(search, own));
        self.parts.files.indexes().filter(is_other)
    }

    /// Ends the background work of the indexes. Returns false if some of it did not end in time.
    pub fn shut_down(&self) -> bool {
        let ended = self.indexes().map(|indexes| indexes.shut_down());
        ended.fold(true, |all, one| all & one)
    }

    /// Returns the progress of the index build that runs in this process, if one does.
    pub fn building(&self) -> Option<BuildReport> {
        self.indexes()
            .find_map(|indexes| indexes.live_build(&self.parts.root))
    }

    /// Returns whether the configuration has changed since the start.
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::SeqCst)
    }

    /// Returns whether the configuration has changed or is invalid now. A configuration that can't
    /// be read at this moment counts as unchanged. Blocks.
    pub fn is_outdated(&self) -> bool {
        self.parts
            .fingerprint
            .as_ref()
            .is_some_and(|fingerprint| match fingerprint() {
                ConfigState::Is(now) => now != self.served.config_fingerprint,
                ConfigState::Wrong => true,
                ConfigState::Unreadable => false,
            })
    }

    /// Marks the service as stale: it stops watching the tree, every answer says so, and every
    /// search reads the whole tree.
    pub fn become_stale(&self) {
        if !self.stale.swap(true, Ordering::SeqCst) {
            self.shut_down();
        }
    }

    /// Answers a ranked search. Blocks.
    pub fn answer(&self, query: &SearchQuery, request_context: RequestContext<'_>) -> Answer {
        let id = match (&request_context.id, query.deterministic) {
            (Some(id), _) => id.clone(),
            // The id is computed from the query and its snapshot, once both are known.
            (None, true) => String::new(),
            (None, false) => self.new_id(),
        };
        let answered = self.ranked(&self.parts.context, &request_context, |ranked| {
            ranked.answer(query, id)
        });
        match answered {
            Ok((success, timings)) => {
                let segments = u64::from(success.snapshot_id.is_some());
                let log_fields = Some(QueryLogFields::of(&success, timings, segments));
                Answer {
                    log_fields,
                    ..Answer::of(fitted(success, request_context.max_response_bytes))
                }
            }
            Err(failure) => failure.into(),
        }
    }

    /// Runs a task that needs a ranked search.
    fn ranked<T>(
        &self,
        context: &ToolContext,
        request_context: &RequestContext<'_>,
        task: impl FnOnce(&RankedSearch<'_>) -> T,
    ) -> T {
        task(&RankedSearch {
            tool: &self.parts.search,
            context,
            root: &self.parts.root,
            target: None,
            source: None,
            service: self,
            caps: &self.parts.config.daemon,
            pool: match request_context.is_low_priority {
                true => &self.behind,
                false => &self.pool,
            },
            stop: &request_context.ending.stop,
            stale: self.is_stale(),
            is_low_priority: request_context.is_low_priority,
            deadline: request_context.deadline.clone(),
            waited: request_context.waited,
            queued: request_context.queued,
        })
    }

    /// Returns the time limit of a tool call: its own, or the tool's default.
    pub fn time_of(&self, call: &ToolCall) -> Duration {
        let asked = call.request.get("timeout_ms").and_then(Value::as_u64);
        match asked {
            Some(ms) if call.tool != FILES_NAME => Duration::from_millis(ms),
            None if call.tool == person_search::NAME => Duration::MAX,
            _ if call.tool == FILES_NAME => self.parts.files.default_timeout(&self.parts.context),
            _ => self.parts.search.default_timeout(&self.parts.context),
        }
    }

    /// Calls a tool. Blocks. The tool's answer is returned as it is, also if it says that the
    /// request is malformed. Only an end from outside (timeout, cancellation) gets an error of this
    /// protocol.
    pub fn call(&self, call: &ToolCall, request_context: RequestContext<'_>) -> Answer {
        let mut context = self.context_of(&request_context);
        // The protocol's limit includes the envelope around the text; the caller's limit does not.
        let envelope = if call.text { TextAnswer::envelope() } else { 0 };
        let room = request_context.max_response_bytes.saturating_sub(envelope);
        let most = call.max_output_bytes.unwrap_or(usize::MAX);
        context.max_output_bytes = match call.whole {
            true => call.max_output_bytes,
            false => Some(most.min(room)),
        };
        if call.person {
            context.sandbox = self.parts.people.clone();
        }
        let answered = self.answered(call, &context, &request_context);
        if let Ok((text, _)) = &answered
            && text.len() > request_context.max_response_bytes
        {
            let message = "the whole answer is longer than max_response_bytes of [tools.daemon]";
            return Failure::new(ErrorCode::Busy, message)
                .of(request_context.id)
                .into();
        }
        let answered = answered.map(|(text, timed_out)| (text.into_bytes(), timed_out));
        closed(answered, request_context)
    }

    /// Answers the search of a person: sends each part of the answer with `send`, and returns the
    /// last message. Blocks.
    pub(crate) fn answer_question(
        &self,
        call: &ToolCall,
        request_context: RequestContext<'_>,
        send: &person_search::Sender<'_>,
    ) -> Answer {
        let mut context = self.context_of(&request_context);
        context.max_output_bytes = Some(request_context.max_response_bytes);
        context.sandbox = self.parts.people.clone();
        let request = Value::Object(call.request.clone());
        let answered = person_search::answer(&self.parts.search, request, &context, send);
        closed(answered, request_context)
    }

    /// Returns the tool context of an admitted call.
    fn context_of(&self, request_context: &RequestContext<'_>) -> ToolContext {
        let mut context = self.parts.context.clone();
        context.cancel = request_context.ending.cancel.clone();
        context.received_at = request_context.received_at;
        context
    }

    /// Calls a tool; returns its answer as JSON, and whether it timed out.
    fn answered(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        request_context: &RequestContext<'_>,
    ) -> Result<(String, bool), ToolError> {
        let request = Value::Object(call.request.clone());
        if call.tool == file_lines::NAME {
            let lines = self.ranked(context, request_context, |ranked| {
                ranked.file_lines(request)
            })?;
            return Ok((lines, false));
        }
        let (search, files) = (&self.parts.search, &self.parts.files);
        let text = match (ToolName::of(&call.tool)?, call.text) {
            (ToolName::Search, true) => search.call_for_text(request, context)?,
            (ToolName::SearchFiles, true) => files.call_for_text(request, context)?,
            (ToolName::FindFiles, true) => search.call_find_files_for_text(request, context)?,
            (ToolName::FindCode, is_text) => {
                let request = FindCodeRequest::from_value(request)?;
                let time = self.time_of(call);
                let found = self.ranked(context, request_context, |ranked| {
                    ranked.find_code(&request, time, is_text)
                })?;
                let timed_out = found.timed_out;
                if !is_text {
                    return Ok((found.to_json(), timed_out));
                }
                let text = found.to_text();
                TextAnswer { text, timed_out }
            }
            (name, false) => {
                let tool: &dyn Tool = match name {
                    ToolName::SearchFiles => &**files,
                    ToolName::FindFiles => &self.find_files,
                    _ => &**search,
                };
                let answer = tool.call_json(request, context)?;
                return Ok((answer.json, answer.timed_out));
            }
        };
        Ok((text.to_json(), text.timed_out))
    }

    /// Answers a call of `find_code` in this process. Blocks.
    ///
    /// # Errors
    ///
    /// The errors of the tool, see [`FindCodeTool::find_code`](super::find_code::FindCodeTool).
    pub(super) fn find_code(
        &self,
        request: &FindCodeRequest,
        context: &ToolContext,
    ) -> Result<FindCodeResponse, ToolError> {
        let time = match request.timeout_ms {
            Some(ms) => Duration::from_millis(ms),
            None => self.parts.search.default_timeout(context),
        };
        let ending = RequestStop::of(context.cancel.clone());
        let deadline = Deadline::since(context.started(), time, context.clock.clone());
        let found = self.ranked(
            context,
            &RequestContext::at_once(&ending, deadline),
            |ranked| ranked.find_code(request, time, false),
        );
        match ending.reason() {
            Some(StopReason::Cancelled) => Err(ToolError::Cancelled),
            _ => found,
        }
    }

    /// Returns the id of a snapshot. An id is stable for as long as it is remembered.
    pub(super) fn name_of(&self, snapshot: &Snapshot) -> String {
        let checksum = snapshot.segment().summary().checksum;
        let overlay = snapshot.overlay();
        let is_bare = overlay.dead_count() == 0 && overlay.extras().is_empty();
        // Without changes since the build, all sequences denote the segment itself.
        let sequence = if is_bare { 0 } else { snapshot.sequence() };
        let key = (checksum, snapshot.generation(), sequence);
        let mut named = lock(&self.snapshots);
        if let Some((_, id)) = named.iter().find(|(named, _)| *named == key) {
            return id.clone();
        }
        let published = snapshot
            .published_ms()
            .and_then(|ms| u64::try_from(ms).ok());
        let (publication, ms) = match (key.2, published) {
            // Every process gives a published snapshot the same id.
            (0, Some(ms)) => (format!("{checksum} {:?}", key.1), ms),
            // Later changes of the tree, and unpublished snapshots, are known to this process only.
            _ => (
                format!("{checksum} {:?} {}", key.1, self.born),
                self.now_ms(),
            ),
        };
        let id = identity::snapshot_id(&self.served.store_id, ms, publication.as_bytes(), key.2);
        named.push_back((key, id.clone()));
        if named.len() > KEPT_IDS {
            named.pop_front();
        }
        id
    }

    /// Returns the fingerprint of the ignore files of a snapshot. Without a snapshot it covers only
    /// the files that are known without a walk. Unchanged files are not read again.
    pub(super) fn ignores(&self, snapshot: Option<&Snapshot>) -> String {
        let excludes = self.parts.context.global_excludes.as_deref();
        let read;
        let inputs = match snapshot {
            Some(snapshot) => snapshot.inputs().as_ref(),
            None => {
                read = identity::inputs_at(&self.parts.root, excludes);
                &read
            }
        };
        let state = format!("{:?}", inputs.list());
        let known = |ignored: &VecDeque<(String, String)>| {
            let found = ignored.iter().find(|(known, _)| *known == state);
            found.map(|(_, fingerprint)| fingerprint.clone())
        };
        let lock = || lock(&self.ignored);
        if let Some(known) = known(&lock()) {
            return known;
        }
        let fingerprint = identity::ignore_fingerprint(inputs);
        let mut ignored = lock();
        ignored.push_back((state, fingerprint.clone()));
        if ignored.len() > KEPT_INPUTS {
            ignored.pop_front();
        }
        fingerprint
    }

    fn now_ms(&self) -> u64 {
        u64::try_from((self.parts.wall)() / 1_000_000).unwrap_or(0)
    }
}
