//! What a daemon does for a request that was let in.
//!
//! Owns the tools, the names of snapshots and the threads that rank. It knows no sockets: it is given a request and returns a payload.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use serde::Serialize;
use serde_json::Value;

use super::answer::{Answering, Caps, of_tool};
use super::handshake::Store;
use super::identity;
#[cfg(unix)]
use super::inspect::{Inspected, Load};
use super::limits::{LimitHit, MAX_RESULTS};
use super::metrics::Outcome;
use super::question;
use super::reply::{ErrorCode, Failure, Success, Timings};
#[cfg(unix)]
use super::report::{Health, Status};
use super::request::{SearchQuery, ToolCall};
use crate::exec::rank::{Profile, Snippet};
use crate::exec::stop::{CancelHandle, Deadline, Stop, StopReason};
use crate::index::pace::background_pool;
use crate::index::snapshot::Snapshot;
use crate::tool::config::Config;
use crate::tool::error::ToolError;
use crate::tool::indexing::{BuildReport, Indexes, WallClock};
use crate::tool::sandbox::Sandbox;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::search_files::{FILES_NAME, FilesTool};
use crate::tool::text_answer::TextAnswer;
use crate::tool::tools::ToolName;

/// Names of snapshots that are kept: those that queries which run at once may have pinned.
const KEPT_IDS: usize = 256;

/// States of ignore files whose fingerprints are kept.
const KEPT_INPUTS: usize = 4;

/// What a service is made of.
pub struct Parts {
    /// The tool `Search`, with its indexes.
    pub search: SearchTool,
    /// The tool `search_files`, with its own.
    pub files: FilesTool,
    /// Where calls may read, and their clock.
    pub context: ToolContext,
    /// Where the searches of people may read.
    pub people: Arc<Sandbox>,
    /// The canonical root.
    pub root: PathBuf,
    /// The configuration in force.
    pub config: Config,
    /// The time that ids begin with.
    pub wall: WallClock,
    /// The log of the process, if it has one.
    pub log: Option<PathBuf>,
    /// The program that is asked which files git does not know.
    pub git: Option<PathBuf>,
    /// Environment variables that lead git to the user's own configuration.
    pub git_settings: Vec<(OsString, OsString)>,
    /// The least time that git gets for an answer; some seconds at most if absent.
    pub git_patience: Option<Duration>,
    /// Computes the fingerprint of the configuration as it is now; nothing for one that never changes.
    pub fingerprint: Option<Fingerprint>,
}

/// Computes the fingerprint of the configuration as it is now.
pub type Fingerprint = Arc<dyn Fn() -> Now + Send + Sync>;

/// What the configuration is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    /// It has this fingerprint.
    Is(String),
    /// It is there, or is no more, and says nothing that can be used.
    Wrong,
    /// The system does not let it be read at this moment.
    Unreadable,
}

/// Answers requests about one tree.
pub struct Service {
    search: SearchTool,
    files: FilesTool,
    context: ToolContext,
    people: Arc<Sandbox>,
    root: PathBuf,
    store: Store,
    wall: WallClock,
    pool: ThreadPool,
    /// For queries that give way to others.
    behind: ThreadPool,
    caps: Caps,
    /// Told apart from those of other processes by this.
    born: String,
    started_ns: i64,
    config: Config,
    log: Option<PathBuf>,
    git: Option<PathBuf>,
    git_settings: Vec<(OsString, OsString)>,
    git_patience: Option<Duration>,
    /// What ends those who look how it is.
    looking: Stop,
    fingerprint: Option<Fingerprint>,
    /// Whether the configuration has changed since.
    stale: AtomicBool,
    ids: AtomicU64,
    snapshots: Mutex<VecDeque<(SnapshotKey, String)>>,
    /// Fingerprints of what decides about eligibility, by how that was when it was read, the latest last.
    ignored: Mutex<VecDeque<(String, String)>>,
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
    /// What is written to the log of an answer to a question.
    pub facts: Option<Facts>,
}

/// What is known of the answer to a question, but not what it was about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The request.
    pub request_id: Option<String>,
    /// What was searched.
    pub snapshot_id: Option<String>,
    /// How it was ranked.
    pub profile: String,
    /// How many results there may have been.
    pub max_results: u64,
    /// How many of one file.
    pub per_file: u64,
    /// How much was shown of each.
    pub snippet: String,
    /// How long each stage took.
    pub timings: Timings,
    /// How many segments were read, once that is known.
    pub segments: Option<u64>,
}

impl Facts {
    /// Returns what is known of a question before it is answered.
    pub(super) fn asked(query: &SearchQuery) -> Facts {
        let profile = Profile::from(query.mode.unwrap_or_default());
        Facts {
            profile: profile.as_str().to_string(),
            max_results: query.limit.unwrap_or(MAX_RESULTS.default),
            per_file: query.per_file.unwrap_or(profile.per_file().into()),
            snippet: Snippet::from(query.snippet.unwrap_or_default())
                .as_str()
                .to_string(),
            ..Facts::default()
        }
    }

    fn of(success: &Success, timings: Timings, segments: u64) -> Facts {
        Facts {
            request_id: Some(success.request_id.clone()),
            snapshot_id: success.snapshot_id.clone(),
            profile: success.mode.clone(),
            max_results: success.limits.max_results,
            per_file: success.limits.per_file,
            snippet: success.limits.snippet.clone(),
            timings,
            segments: Some(segments),
        }
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Answer {
        Answer {
            payload: payload(&failure),
            outcome: Outcome::Failed(failure.error.code),
            facts: None,
        }
    }
}

impl Answer {
    fn of(payload: Vec<u8>) -> Answer {
        Answer {
            payload,
            outcome: Outcome::Answered,
            facts: None,
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
    /// When it came; just now, if that is not said.
    pub came: Option<Instant>,
    /// How long it waited.
    pub waited: Duration,
    /// Whether that was for other queries.
    pub queued: bool,
    /// Bytes that the answer may have.
    pub max_response_bytes: usize,
    /// Whether it gives way to other queries.
    pub stands_back: bool,
}

impl<'a> Admitted<'a> {
    /// A request that did not wait, of the process itself: its answer may have any length.
    #[cfg(feature = "cli")]
    pub(crate) fn at_once(ending: &'a Ending, deadline: Deadline) -> Admitted<'a> {
        Admitted {
            id: None,
            ending,
            deadline,
            came: None,
            waited: Duration::ZERO,
            queued: false,
            max_response_bytes: usize::MAX,
            stands_back: false,
        }
    }
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
        let behind = background_pool(threads).map_err(std::io::Error::other)?;
        let excludes = parts.context.global_excludes.as_deref();
        let started_ns = (parts.wall)();
        let born = format!("{} {started_ns}", std::process::id());
        Ok(Service {
            store: Store {
                store_id: identity::store_id(&parts.root),
                config_fingerprint: identity::config_fingerprint(&parts.config, excludes),
            },
            search: parts.search,
            files: parts.files,
            context: parts.context,
            people: parts.people,
            root: parts.root,
            wall: parts.wall,
            pool,
            behind,
            caps: Caps::from(&parts.config.daemon),
            born,
            started_ns,
            config: parts.config,
            log: parts.log,
            git: parts.git,
            git_settings: parts.git_settings,
            git_patience: parts.git_patience,
            looking: Stop::default(),
            fingerprint: parts.fingerprint,
            stale: AtomicBool::new(false),
            ids: AtomicU64::new(0),
            snapshots: Mutex::default(),
            ignored: Mutex::default(),
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

    /// Has those who look how the daemon is end soon: it is about to end itself.
    #[cfg(unix)]
    pub fn stop_looking(&self) {
        self.looking.raise(StopReason::Cancelled);
    }

    /// Returns all indexes of the tools.
    fn indexes(&self) -> impl Iterator<Item = &Arc<Indexes>> {
        self.search.indexes().into_iter().chain(self.files_own())
    }

    /// Returns the indexes of `search_files`, where they are others than those of `Search`.
    fn files_own(&self) -> Option<&Arc<Indexes>> {
        let search = self.search.indexes();
        let is_other = |own: &&Arc<Indexes>| search.is_none_or(|search| !Arc::ptr_eq(search, own));
        self.files.indexes().filter(is_other)
    }

    /// Ends what indexes do in the background. Returns false if something was left behind.
    pub fn shut_down(&self) -> bool {
        let ended = self.indexes().map(|indexes| indexes.shut_down());
        ended.fold(true, |all, one| all & one)
    }

    /// Says how far the building of an index is, while one is being built here.
    pub fn building(&self) -> Option<BuildReport> {
        self.indexes()
            .find_map(|indexes| indexes.live_build(&self.root))
    }

    /// Returns whether the configuration has changed since.
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::SeqCst)
    }

    /// Returns whether the configuration is another one now, or is wrong, so that no client has this one. Where it can't be read at this
    /// moment nothing is known, and it counts as what it was. Blocks.
    pub fn is_outdated(&self) -> bool {
        self.fingerprint
            .as_ref()
            .is_some_and(|fingerprint| match fingerprint() {
                Now::Is(now) => now != self.store.config_fingerprint,
                Now::Wrong => true,
                Now::Unreadable => false,
            })
    }

    /// Notes that the configuration has changed: the tree is followed no more, every answer says so, and searches read all of it.
    pub fn become_stale(&self) {
        if !self.stale.swap(true, Ordering::SeqCst) {
            self.shut_down();
        }
    }

    /// Says how the daemon is. Blocks, for as long as a few files can't be looked at.
    #[cfg(unix)]
    pub fn status(&self, load: &Load) -> Status {
        let ignores = |snapshot: Option<&Snapshot>| self.ignores(snapshot);
        self.inspected(&|snapshot| self.name_of(snapshot), &ignores)
            .status(load)
    }

    /// Looks for whatever may be wrong. Blocks: reads all of the index, and asks git.
    #[cfg(unix)]
    pub fn health(&self) -> Health {
        let ignores = |snapshot: Option<&Snapshot>| self.ignores(snapshot);
        let name_of = |snapshot: &Snapshot| self.name_of(snapshot);
        let inspected = self.inspected(&name_of, &ignores);
        let (id, checks) = inspected.health();
        Health::new(self.store.store_id.clone(), id, checks)
    }

    #[cfg(unix)]
    fn inspected<'a>(
        &'a self,
        name_of: &'a dyn Fn(&Snapshot) -> String,
        ignores: &'a dyn Fn(Option<&Snapshot>) -> String,
    ) -> Inspected<'a> {
        Inspected {
            root: &self.root,
            store: &self.store,
            config: &self.config,
            context: &self.context,
            search: self.search.indexes(),
            files: self.files_own(),
            log: self.log.as_deref(),
            git: self.git.as_deref(),
            git_settings: &self.git_settings,
            git_patience: self.git_patience,
            stop: &self.looking,
            started_ns: self.started_ns,
            stale: self.is_stale(),
            name_of,
            ignores,
        }
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
        let ignores = |snapshot: Option<&Snapshot>| self.ignores(snapshot);
        let answering = Answering {
            tool: &self.search,
            context: &self.context,
            root: &self.root,
            store_id: &self.store.store_id,
            config_fingerprint: &self.store.config_fingerprint,
            name_of: &name_of,
            ignores: &ignores,
            caps: self.caps,
            pool: match admitted.stands_back {
                true => &self.behind,
                false => &self.pool,
            },
            stop: &admitted.ending.stop,
            stale: self.is_stale(),
            stands_back: admitted.stands_back,
            deadline: admitted.deadline,
            waited: admitted.waited,
            queued: admitted.queued,
        };
        match answering.answer(query, id) {
            Ok((success, timings)) => {
                let segments = u64::from(success.snapshot_id.is_some());
                let facts = Some(Facts::of(&success, timings, segments));
                Answer {
                    facts,
                    ..Answer::of(fitted(success, admitted.max_response_bytes))
                }
            }
            Err(failure) => failure.into(),
        }
    }

    /// Returns how long a call of a tool may take by its own request, or by default.
    pub fn time_of(&self, call: &ToolCall) -> Duration {
        let asked = call.request.get("timeout_ms").and_then(Value::as_u64);
        match asked {
            Some(ms) if call.tool != FILES_NAME => Duration::from_millis(ms),
            None if call.tool == question::NAME => Duration::MAX,
            _ if call.tool == FILES_NAME => self.files.default_timeout(&self.context),
            _ => self.search.default_timeout(&self.context),
        }
    }

    /// Calls a tool. Blocks. What the tool says is the answer, also of what is wrong with a request; only what ends the call from outside is
    /// said as this protocol says it.
    pub fn call(&self, call: &ToolCall, admitted: Admitted<'_>) -> Answer {
        let mut context = self.context_of(&admitted);
        // The text stands in an envelope, which the protocol's limit counts and the caller's does not.
        let envelope = if call.text { TextAnswer::envelope() } else { 0 };
        let room = admitted.max_response_bytes.saturating_sub(envelope);
        let most = call.max_output_bytes.unwrap_or(usize::MAX);
        context.max_output_bytes = match call.whole {
            true => call.max_output_bytes,
            false => Some(most.min(room)),
        };
        if call.person {
            context.sandbox = self.people.clone();
        }
        let answered = self.answered(call, &context);
        if let Ok((text, _)) = &answered
            && text.len() > admitted.max_response_bytes
        {
            let message = "the whole answer is longer than max_response_bytes of [tools.daemon]";
            return Failure::new(ErrorCode::Busy, message)
                .of(admitted.id)
                .into();
        }
        let answered = answered.map(|(text, timed_out)| (text.into_bytes(), timed_out));
        closed(answered, admitted)
    }

    /// Answers the question of a person: sends what is found with `send`, and returns the last message. Blocks.
    pub(crate) fn answer_question(
        &self,
        call: &ToolCall,
        admitted: Admitted<'_>,
        send: &question::Sender<'_>,
    ) -> Answer {
        let mut context = self.context_of(&admitted);
        context.max_output_bytes = Some(admitted.max_response_bytes);
        context.sandbox = self.people.clone();
        let request = Value::Object(call.request.clone());
        let answered = question::answer(&self.search, request, &context, send);
        closed(answered, admitted)
    }

    /// Returns the context of a call that was let in.
    fn context_of(&self, admitted: &Admitted<'_>) -> ToolContext {
        let mut context = self.context.clone();
        context.cancel = admitted.ending.cancel.clone();
        context.came = admitted.came;
        context
    }

    /// Calls a tool; returns its answer as JSON, and whether it timed out.
    fn answered(
        &self,
        call: &ToolCall,
        context: &ToolContext,
    ) -> Result<(String, bool), ToolError> {
        let request = Value::Object(call.request.clone());
        let (search, files) = (&self.search, &self.files);
        let text = match (ToolName::of(&call.tool)?, call.text) {
            (ToolName::Search, true) => search.call_for_text(request, context)?,
            (ToolName::SearchFiles, true) => files.call_for_text(request, context)?,
            (ToolName::FindFiles, true) => search.call_find_files_for_text(request, context)?,
            (ToolName::Search, false) => {
                let response = search.call(request, context)?;
                return Ok((response.to_json(), response.timed_out));
            }
            (ToolName::SearchFiles, false) => {
                return Ok((files.call(request, context)?.to_json(), false));
            }
            (ToolName::FindFiles, false) => {
                let found = search.call_find_files(request, context)?;
                return Ok((found.to_json(), found.timed_out));
            }
        };
        Ok((text.to_json(), text.timed_out))
    }

    /// Returns the id of a snapshot. One that was named keeps its name for as long as it may be asked for.
    fn name_of(&self, snapshot: &Snapshot) -> String {
        let checksum = snapshot.segment().summary().checksum;
        let overlay = snapshot.overlay();
        let is_bare = overlay.dead_count() == 0 && overlay.extras().is_empty();
        // A state of the tree in which nothing differs from the segment is the segment's.
        let sequence = if is_bare { 0 } else { snapshot.sequence() };
        let key = (checksum, snapshot.generation(), sequence);
        let mut named = self
            .snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((_, id)) = named.iter().find(|(named, _)| *named == key) {
            return id.clone();
        }
        let published = snapshot
            .published_ms()
            .and_then(|ms| u64::try_from(ms).ok());
        let (publication, ms) = match (key.2, published) {
            // As it was published, whoever opens it.
            (0, Some(ms)) => (format!("{checksum} {:?}", key.1), ms),
            // What followed changes of the tree since, or was not published, is known to this process only.
            _ => (
                format!("{checksum} {:?} {}", key.1, self.born),
                self.now_ms(),
            ),
        };
        let id = identity::snapshot_id(&self.store.store_id, ms, publication.as_bytes(), key.2);
        named.push_back((key, id.clone()));
        if named.len() > KEPT_IDS {
            named.pop_front();
        }
        id
    }

    /// Returns the fingerprint of what decides about eligibility, as a snapshot has it; without one, as far as it is known without a walk.
    /// What was read once is not read again while it is as it was.
    fn ignores(&self, snapshot: Option<&Snapshot>) -> String {
        let excludes = self.context.global_excludes.as_deref();
        let read;
        let inputs = match snapshot {
            Some(snapshot) => snapshot.inputs().as_ref(),
            None => {
                read = identity::inputs_at(&self.root, excludes);
                &read
            }
        };
        let state = format!("{:?}", inputs.list());
        let known = |ignored: &VecDeque<(String, String)>| {
            let found = ignored.iter().find(|(known, _)| *known == state);
            found.map(|(_, fingerprint)| fingerprint.clone())
        };
        let lock = || self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
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
        u64::try_from((self.wall)() / 1_000_000).unwrap_or(0)
    }
}

/// Makes the answer to a call of its last message and whether it timed out, or of why there is none.
fn closed(answered: Result<(Vec<u8>, bool), ToolError>, admitted: Admitted<'_>) -> Answer {
    match (answered, admitted.ending.reason()) {
        (Ok((text, false)), None) => Answer::of(text),
        // What was found in time is the answer, and it was not all.
        (Ok((text, true)), None) => Answer {
            outcome: Outcome::Failed(ErrorCode::Timeout),
            ..Answer::of(text)
        },
        (_, Some(reason)) => ended(reason).of(admitted.id).into(),
        (Err(error), None) => {
            let failure = of_tool(&error);
            match error {
                ToolError::Cancelled => failure.of(admitted.id).into(),
                error => Answer {
                    payload: error.to_json().to_string().into_bytes(),
                    outcome: Outcome::Failed(failure.error.code),
                    facts: None,
                },
            }
        }
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

/// Writes an answer, with as many results as there is room for; where there is room for none, without an explanation.
fn fitted(mut success: Success, most: usize) -> Vec<u8> {
    let whole = payload(&success);
    if whole.len() <= most {
        return whole;
    }
    success.limits_hit.push(LimitHit {
        code: "max_response_bytes".to_string(),
        limit: most as u64,
        observed: Some(whole.len() as u64),
        path_key: None,
    });
    success
        .limits_hit
        .sort_by(|a, b| (&a.code, &a.path_key).cmp(&(&b.code, &b.path_key)));
    let results = std::mem::take(&mut success.results);
    if payload(&success).len() > most {
        success.explain = None;
        // A note about each file takes room, too.
        success.limits_hit.retain(|hit| hit.path_key.is_none());
        success
            .warnings
            .retain(|warning| warning.path_key.is_none());
    }
    // What is taken up, and a comma for each.
    let mut len = payload(&success).len();
    for result in results {
        len += payload(&result).len() + 1;
        if len > most {
            break;
        }
        success.results.push(result);
    }
    payload(&success)
}
