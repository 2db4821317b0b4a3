//! Answers requests about one tree, by its daemon or by this process.
//!
//! A [`Backend`] decides which of the two answers, for MCP servers, the web page, the interactive
//! search and `call`. If no daemon answers, it sets up a service in this process and keeps it for
//! later calls.
//!
//! `ggrep` decides for itself, and calls [`by_this_process`] if no daemon can answer. A person's
//! search and `rg` do not use this module: `person_search` decides for them. All of them ask
//! daemons with the one [`Client`]. (`SearchBackend`, the configured engine, is unrelated.)

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::exec::stop::{Clock, Deadline, SystemClock};
use crate::format::mutex::lock;
use crate::tool::cli::answers::daemon::DaemonEndpoint;
use crate::tool::cli::answers::daemon::client::{Client, DaemonCallError, Rules, failure_of};
use crate::tool::cli::answers::explained::to_program;
use crate::tool::cli::answers::service::{live_service, plain_service};
use crate::tool::cli::args::SetupArgs;
use crate::tool::cli::setup::signals::Signals;
use crate::tool::cli::setup::{Environment, Setup, prepare};
use crate::tool::cli::{Failure, complain};
use crate::tool::config::{Backend as SearchBackend, Config, DaemonUse};
use crate::tool::daemon::client::ClientError;
use crate::tool::daemon::handshake::ServedTree;
use crate::tool::daemon::reply::{ErrorCode, Failure as Refusal};
use crate::tool::daemon::request::{Request, RequestBody, SearchQuery, ToolCall};
use crate::tool::daemon::service::{RequestContext, RequestStop, Service, payload};
use crate::tool::daemon::tree_backend::{CallCancel, TreeBackend};
use crate::tool::error::ToolError;
use crate::tool::indexing::BuildReport;
use crate::tool::request::SearchRequest;
use crate::tool::search_files::FILES_NAME;
use crate::tool::searcher::to_usize;

/// Extra time to wait for an answer, beyond the time limit of the search itself.
const MARGIN: Duration = Duration::from_secs(5);

/// Maximum time for a running daemon to greet; for a call also at most half of the call's time. A
/// daemon that is later than that is not asked.
const GREETING: Duration = Duration::from_secs(5);

/// How long a daemon counts as late after it failed to greet in time. Meanwhile calls wait for its
/// greeting only for `GLANCE`.
const LATE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(250);

/// Minimum time that a daemon must have had to greet before it counts as late.
const ENOUGH: Duration = Duration::from_secs(1);

/// How often to try reading the configuration, if the usual file appears or disappears meanwhile.
const LOOKS: u32 = 3;

/// The services of this process. A signal shuts them down in order.
static LINGERING: Mutex<Vec<Weak<Mutex<LocalService>>>> = Mutex::new(Vec::new());

/// How long to wait for a daemon's `status` or `health`.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answering side for one tree: its daemon, started if necessary, or this process.
pub(in crate::tool::cli) struct Backend {
    root: PathBuf,
    setup: SetupArgs,
    environment: Environment,
    /// The only daemon to ask. Absent: the daemon for the configuration in effect.
    only: Option<DaemonEndpoint>,
    /// The client name to send to the daemon. Absent: a name for the program that started this
    /// process.
    client_id: Option<String>,
    /// Whether to ask a daemon, and to start one. Absent: as configured, without starting one.
    daemon_use: Option<DaemonUse>,
    /// The setup for `explain` and `building`, with the tree that it belongs to.
    local_setup: Mutex<Option<(ServedTree, Arc<Setup>)>>,
    /// The service of this process, used while no daemon answers.
    own: Arc<Mutex<LocalService>>,
    /// [`Backend::let_go`] was called: this process keeps no service any more.
    gone: AtomicBool,
    /// The daemon that failed to greet in time most recently, and the time of that.
    late: Mutex<Option<(ServedTree, Instant)>>,
    /// A daemon was started for this backend.
    started: AtomicBool,
    /// Set once the message that no daemon can be started was printed, or must not be printed.
    warned: OnceLock<()>,
}

/// A service of this process, and the tree that it answers for.
type LocalService = Option<(ServedTree, Arc<Service>)>;

impl Backend {
    /// Creates a backend for a canonical root, which must also be the root in `setup`. `daemon_use`
    /// says whether to ask a daemon, and to start one. If it is absent, the configuration decides
    /// whether to ask a running daemon.
    pub(in crate::tool::cli) fn new(
        root: PathBuf,
        setup: SetupArgs,
        environment: &Environment,
        daemon_use: Option<DaemonUse>,
    ) -> Backend {
        Backend {
            root,
            setup,
            environment: environment.clone(),
            only: None,
            client_id: None,
            daemon_use,
            local_setup: Mutex::default(),
            own: Arc::default(),
            gone: AtomicBool::default(),
            late: Mutex::default(),
            started: AtomicBool::default(),
            warned: OnceLock::new(),
        }
    }

    /// Restricts the backend to one daemon, and starts none.
    pub(in crate::tool::cli) fn only(self, daemon: DaemonEndpoint) -> Backend {
        Backend {
            only: Some(daemon),
            ..self
        }
    }

    /// Gives the backend a client name of its own. The daemon then schedules its requests
    /// separately from those of other processes that the same program started.
    pub(in crate::tool::cli) fn named(self, client: &str) -> Backend {
        Backend {
            client_id: Some(format!("{client}-{}", std::process::id())),
            ..self
        }
    }

    /// Suppresses messages about who answers, for a surface that owns the screen.
    pub(in crate::tool::cli) fn quiet(self) -> Backend {
        Backend {
            warned: OnceLock::from(()),
            ..self
        }
    }

    /// Returns whether a daemon was started for this backend. That daemon goes on running.
    pub(in crate::tool::cli) fn has_started(&self) -> bool {
        self.started.load(Ordering::SeqCst)
    }

    /// Stops the background work of this process's service. Running calls go on without an index,
    /// and later calls get a one-shot service.
    pub(in crate::tool::cli) fn let_go(&self) {
        self.gone.store(true, Ordering::SeqCst);
        let own = self.own().take();
        if let Some((_, service)) = own {
            service.become_stale();
        }
    }

    /// Shuts down the service of this process.
    pub(in crate::tool::cli) fn shut_down(&self) {
        shut_down(&self.own);
    }

    fn own(&self) -> MutexGuard<'_, LocalService> {
        lock(&self.own)
    }

    fn late(&self) -> MutexGuard<'_, Option<(ServedTree, Instant)>> {
        lock(&self.late)
    }

    /// Returns the service of this process if it matches the configuration in effect. Drops an
    /// outdated one.
    fn own_for(&self, served: &ServedTree) -> Option<Arc<Service>> {
        let mut own = self.own();
        let outdated = match &*own {
            Some((of, service)) if of == served => return Some(service.clone()),
            _ => own.take(),
        };
        drop(own);
        if let Some((_, service)) = outdated {
            service.become_stale();
        }
        None
    }

    /// Finds the daemon for the configuration in effect.
    fn endpoint(&self) -> Result<DaemonEndpoint, ToolError> {
        match &self.only {
            Some(daemon) => Ok(daemon.clone()),
            None => self
                .looked(|| DaemonEndpoint::find(&self.root, &self.setup, None, &self.environment)),
        }
    }

    /// Runs `read`, which reads the configuration, and retries errors if no file was named. The
    /// usual file may have been removed between looking and reading.
    fn looked<T>(&self, read: impl Fn() -> Result<T, ToolError>) -> Result<T, ToolError> {
        let mut done = read();
        for _ in 1..LOOKS {
            if done.is_ok() || self.setup.config.is_some() {
                break;
            }
            done = read();
        }
        done
    }

    /// Asks the daemon. `time` computes the time limit from the daemon's configuration.
    fn ask(
        &self,
        request: &Request,
        time: impl FnOnce(&Config) -> Duration,
        call_cancel: Option<&CallCancel>,
    ) -> Result<DaemonReply, ToolError> {
        if self.daemon_use == Some(DaemonUse::Off) {
            return Ok(DaemonReply::NoDaemon);
        }
        let endpoint = self.endpoint()?;
        if self.daemon_use.is_none() && endpoint.config.daemon.searches == DaemonUse::Off {
            return Ok(DaemonReply::NoDaemon);
        }
        // External engines are found by `PATH`, and the daemon may have another one.
        if endpoint.config.search.backend != SearchBackend::Embedded {
            return Ok(DaemonReply::NoDaemon);
        }
        if self.own_for(&endpoint.served).is_some() {
            return Ok(DaemonReply::NoDaemon);
        }
        let time = time(&endpoint.config);
        let now = SystemClock.now();
        let is_late = self.late().as_ref().is_some_and(|(of, at)| {
            *of == endpoint.served && now.saturating_duration_since(*at) < LATE
        });
        // A call has a time limit, and this process can answer it instead. `status` can afford the
        // full wait.
        let greeting = match call_cancel {
            None => endpoint.patience(GREETING),
            Some(_) if is_late => GLANCE,
            Some(_) => endpoint
                .patience(GREETING)
                .min(time.saturating_sub(MARGIN) / 2),
        };
        let client = Client {
            daemon: &endpoint,
            rules: Rules {
                client_id: self.client_id.as_deref(),
                starts: self.daemon_use == Some(DaemonUse::Start) && self.only.is_none(),
                greeting,
                first_message: Duration::MAX,
                waits_while_busy: true,
                same_release: self.daemon_use.is_none(),
            },
            until: &Deadline::after(time, Arc::new(SystemClock)),
            call_cancel,
        };
        match client.ask(request) {
            Ok(answering) => {
                *self.late() = None;
                self.started
                    .fetch_or(answering.is_started, Ordering::SeqCst);
                Ok(DaemonReply::Answered(answering.first))
            }
            // No other daemon can be asked.
            Err(DaemonCallError::NotRunning(error)) if self.only.is_some() => Ok(
                DaemonReply::Answered(failure(ClientError::Unreachable(error))),
            ),
            Err(DaemonCallError::NotRunning(_)) => Ok(DaemonReply::NoDaemon),
            Err(DaemonCallError::NoDaemon(why)) => {
                if self.warned.set(()).is_ok() {
                    complain(&format!("this process answers by itself: {why}"));
                }
                Ok(DaemonReply::NoDaemon)
            }
            Err(DaemonCallError::LateGreeting(_)) => {
                // After a very short wait, a missing greeting proves nothing.
                if greeting >= ENOUGH {
                    *self.late() = Some((endpoint.served, now));
                }
                Ok(DaemonReply::Late)
            }
            Err(DaemonCallError::OtherRelease) => Ok(DaemonReply::NoDaemon),
            Err(DaemonCallError::Ended(_)) => Ok(DaemonReply::Late),
            Err(DaemonCallError::GivenUp) => Ok(DaemonReply::Answered(cancelled())),
            Err(DaemonCallError::Client(error)) => Ok(DaemonReply::Answered(failure(error))),
        }
    }

    /// Returns the service of this process. The first call that no daemon answers creates it.
    pub(in crate::tool::cli) fn service(&self) -> Result<Arc<Service>, ToolError> {
        let endpoint = self.endpoint()?;
        if let Some(service) = self.own_for(&endpoint.served) {
            return Ok(service);
        }
        let mut own = self.own();
        if let Some((_, service)) = own.as_ref().filter(|(of, _)| *of == endpoint.served) {
            return Ok(service.clone());
        }
        let environment = &self.environment;
        let setup = self.looked(|| prepare(&self.with_absolute_paths()?, environment, &[]))?;
        let setup = setup.for_files(environment);
        let signals = setup.signals.clone();
        let service = live_service(setup, &endpoint, None, environment);
        let service = service.map(Arc::new).map_err(to_tool_error)?;
        linger(&self.own, &signals);
        *own = Some((endpoint.served, service.clone()));
        Ok(service)
    }

    /// Prepares a setup for a one-shot command, with the configuration in effect.
    fn prepared(&self) -> Result<Setup, ToolError> {
        let args = self.with_absolute_paths()?;
        self.looked(|| prepare(&args, &self.environment, &[]))
    }

    /// Returns the arguments with this backend's root and with absolute paths.
    fn with_absolute_paths(&self) -> Result<SetupArgs, ToolError> {
        self.setup
            .with_absolute_paths(Some(&self.root), &self.environment)
    }

    fn local_setup(&self) -> Result<Arc<Setup>, ToolError> {
        let served = self.endpoint()?.served;
        let mut local_setup = lock(&self.local_setup);
        if let Some((_, setup)) = local_setup.as_ref().filter(|(of, _)| *of == served) {
            return Ok(setup.clone());
        }
        let setup = Arc::new(self.prepared()?);
        *local_setup = Some((served, setup.clone()));
        Ok(setup)
    }

    /// Returns the status or health of the daemon, or else of this process.
    fn inspected<T: Serialize>(
        &self,
        body: RequestBody,
        own: impl FnOnce(&Service) -> T,
    ) -> Result<Value, ToolError> {
        let asked = Request { id: None, body };
        match self.ask(&asked, |_| PATIENCE, None)? {
            DaemonReply::Answered(answer) => read(&answer),
            DaemonReply::Late => read(&failure(ClientError::Late(GREETING))),
            DaemonReply::NoDaemon => {
                let own = own(&*self.service()?);
                Ok(serde_json::to_value(own).unwrap_or_default())
            }
        }
    }

    /// Calls a tool of the daemon. Returns `None` if this process has to answer.
    ///
    /// # Errors
    ///
    /// Problems of the configuration.
    pub(in crate::tool::cli) fn called_by_daemon(
        &self,
        call: &ToolCall,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        Ok(match self.ask_tool(call, &CallCancel::default())? {
            DaemonReply::Answered(answer) if failure_of(&answer).is_none() => Some(answer),
            _ => None,
        })
    }

    /// Sends a tool call to the daemon.
    fn ask_tool(
        &self,
        call: &ToolCall,
        call_cancel: &CallCancel,
    ) -> Result<DaemonReply, ToolError> {
        let request = Request {
            id: None,
            body: RequestBody::Tool(call.clone()),
        };
        self.ask(&request, |config| time_of(call, config), Some(call_cancel))
    }

    /// Calls a tool of the daemon, or else of this process.
    fn called(&self, call: &ToolCall, call_cancel: &CallCancel) -> Result<Value, ToolError> {
        let received_at = SystemClock.now();
        let (service, received_at) = match self.ask_tool(call, call_cancel)? {
            DaemonReply::Answered(answer) => return read(&answer),
            // The time that was spent on the daemon counts for the call.
            DaemonReply::Late => (self.once()?, Some(received_at)),
            // After `let_go` nobody would shut down a service that is kept, so use a one-shot
            // service.
            DaemonReply::NoDaemon if self.gone.load(Ordering::SeqCst) => {
                (self.once()?, Some(received_at))
            }
            DaemonReply::NoDaemon => (self.service()?, None),
        };
        let deadline = Deadline::after(service.time_of(call), service.clock().clone());
        let admitted = RequestContext {
            received_at,
            ..RequestContext::at_once(call_cancel.ending(), deadline)
        };
        let answer = service.call(call, admitted).payload;
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// Creates a service for one call only. It serves calls whose daemon fails to greet in time; a
    /// later call may reach the daemon.
    pub(in crate::tool::cli) fn once(&self) -> Result<Arc<Service>, ToolError> {
        let setup = self.prepared()?.for_files(&self.environment);
        let service = plain_service(setup);
        service.map(Arc::new).map_err(to_tool_error)
    }
}

/// Answers a question of `ggrep` without a daemon. The time spent on looking for a daemon counts.
///
/// # Errors
///
/// Problems of the configuration and of the root.
pub(in crate::tool::cli) fn by_this_process(
    endpoint: &DaemonEndpoint,
    query: &SearchQuery,
    until: &Deadline,
    environment: &Environment,
) -> Result<Vec<u8>, ToolError> {
    let setup = prepare(&endpoint.setup, environment, &[])?.for_files(environment);
    let clock = setup.context.clock.clone();
    let service = plain_service(setup).map_err(to_tool_error)?;
    let daemon = &endpoint.config.daemon;
    let most = query.timeout_ms.unwrap_or(daemon.query_timeout_ms);
    let most = Duration::from_millis(most.min(daemon.query_timeout_ms)).min(until.remaining());
    let ending = RequestStop::default();
    let admitted = RequestContext {
        max_response_bytes: to_usize(daemon.max_response_bytes),
        ..RequestContext::at_once(&ending, Deadline::after(most, clock))
    };
    Ok(service.answer(query, admitted).payload)
}

/// Returns how a long-running surface uses the daemon of its tree.
pub(in crate::tool::cli) fn start_unless(no_daemon: bool) -> Option<DaemonUse> {
    Some(if no_daemon {
        DaemonUse::Off
    } else {
        DaemonUse::Start
    })
}

/// The outcome of asking a daemon.
enum DaemonReply {
    /// The daemon's answer.
    Answered(Vec<u8>),
    /// No daemon is running, or this process must not ask it.
    NoDaemon,
    /// A daemon is running, but fails to greet in time or ends before it answers.
    Late,
}

/// Registers a service of this process, so that a signal shuts it down in order.
fn linger(own: &Arc<Mutex<LocalService>>, signals: &Signals) {
    static LINGERS: OnceLock<()> = OnceLock::new();
    let all = || lock(&LINGERING);
    let mut lingering = all();
    lingering.retain(|one| one.strong_count() > 0);
    if !lingering.iter().any(|one| one.as_ptr() == Arc::as_ptr(own)) {
        lingering.push(Arc::downgrade(own));
    }
    drop(lingering);
    if LINGERS.set(()).is_ok() {
        // If the system refuses, a signal ends the process at once.
        let _ = signals.linger(move || {
            let lingering = all().clone();
            for own in lingering.iter().filter_map(Weak::upgrade) {
                shut_down(&own);
            }
        });
    }
}

/// Shuts down the service of this process for a tree.
fn shut_down(own: &Mutex<LocalService>) {
    let own = lock(own);
    if let Some((_, service)) = &*own {
        service.shut_down();
    }
}

/// Returns how long to wait for a daemon's answer to a call. The daemon limits each call to its
/// configured time.
fn time_of(call: &ToolCall, config: &Config) -> Duration {
    let asked = call.request.get("timeout_ms").and_then(Value::as_u64);
    let configured = match call.tool == FILES_NAME {
        true => config.search_files.default_timeout_ms,
        false => asked.unwrap_or(config.search.default_timeout_ms),
    };
    Duration::from_millis(configured.min(config.daemon.query_timeout_ms)) + MARGIN
}

impl TreeBackend for Backend {
    fn call(&self, call: &ToolCall, call_cancel: &CallCancel) -> Value {
        let answer = self.called(call, call_cancel);
        answer.unwrap_or_else(|error| error.to_json())
    }

    fn status(&self) -> Result<Value, ToolError> {
        self.inspected(RequestBody::Status, |own| own.status(&Default::default()))
    }

    fn health(&self) -> Result<Value, ToolError> {
        self.inspected(RequestBody::Health, Service::health)
    }

    fn explain(&self, request: &SearchRequest) -> Result<Value, ToolError> {
        to_program(&*self.local_setup()?, request)
    }

    fn building(&self) -> Option<BuildReport> {
        let own = self.own().clone();
        match own {
            Some((_, service)) => service.building(),
            None => {
                // A daemon publishes the status of its live index in a file, for all processes.
                let local_setup = self.local_setup().ok()?;
                let indexes = local_setup.indexes()?;
                let living = indexes.living(&self.root)?;
                living.into_iter().find_map(|one| one.build)
            }
        }
    }
}

/// Converts a setup failure into the error that agents see.
fn to_tool_error(failure: Failure) -> ToolError {
    match failure {
        Failure::Tool(error) => error,
        _ => ToolError::Cancelled,
    }
}

/// Converts an error of the daemon client into the JSON that agents see.
fn failure(error: ClientError) -> Vec<u8> {
    let refusal = match error {
        ClientError::Refused(refusal) => refusal,
        error => Refusal::new(error.code(), error.to_string()),
    };
    let refusal = match refusal.error.code {
        ErrorCode::Cancelled => return cancelled(),
        _ => refusal,
    };
    payload(&refusal)
}

fn cancelled() -> Vec<u8> {
    ToolError::Cancelled.to_json().to_string().into_bytes()
}

/// Parses the answer of a daemon.
fn read(answer: &[u8]) -> Result<Value, ToolError> {
    serde_json::from_slice(answer).map_err(|error| {
        let message = format!("the daemon's answer can't be read: {error}");
        ToolError::failed("daemon", message)
    })
}
