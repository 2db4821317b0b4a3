//! A tree as the surfaces that stay ask it: agents' servers, the page, and the interactive search.
//!
//! Owns who answers for it: its daemon, or where there can be none, this process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::args::SetupArgs;
use super::daemon::Meant;
use super::daemon::serve::{self, live_service, service};
use super::daemon::start::{Unconnected, connect_or_start};
use super::explain::{WITH_STATS, to_program};
use super::setup::{Environment, Setup, prepare};
use super::signals::Signals;
use super::{Failure, complain};
use crate::exec::stop::{Clock, Deadline, SystemClock};
use crate::tool::config::{Backend, Config};
use crate::tool::daemon::client::{ClientError, Connection};
use crate::tool::daemon::handshake::Store;
use crate::tool::daemon::reply::{ErrorCode, Failure as Refusal};
use crate::tool::daemon::request::{Asked, Request, ToolCall};
use crate::tool::daemon::service::{Admitted, Service, payload};
use crate::tool::daemon::tree::{GivenUp, Tree};
use crate::tool::error::ToolError;
use crate::tool::indexing::BuildReport;
use crate::tool::request::SearchRequest;
use crate::tool::search_files::FILES_NAME;

/// How much longer than a search may take its answer is waited for.
const MARGIN: Duration = Duration::from_secs(5);

/// How long a daemon that is there may take to greet; never longer than half of the call's time. One that does not is not waited for.
const GREETING: Duration = Duration::from_secs(5);

/// How long one that did not greet in time counts as one that does not, and how long it has for it meanwhile.
const LATE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(250);

/// How long one must have had to greet, to count as one that does not.
const ENOUGH: Duration = Duration::from_secs(1);

/// How often the configuration is read, while a file that nobody has named is coming or going.
const LOOKS: u32 = 3;

/// What this process itself does for its trees; a signal ends it in order.
static LINGERING: Mutex<Vec<Weak<Mutex<Own>>>> = Mutex::new(Vec::new());

/// How long it may take until a daemon answers how it is.
const PATIENCE: Duration = Duration::from_secs(30);

/// A tree, asked by its daemon, which is started if need be, or by this process itself.
pub(super) struct OpenTree {
    root: PathBuf,
    setup: SetupArgs,
    environment: Environment,
    /// The one daemon that is asked, if it is not whichever answers for the configuration as it is now.
    only: Option<Meant>,
    /// What the daemon is told of who asks, if not the program that started this one.
    client_id: Option<String>,
    by_daemon: bool,
    /// For what is about the index and not about searching.
    beside: Mutex<Option<(Store, Arc<Setup>)>>,
    /// This process's own, where no daemon answers.
    own: Arc<Mutex<Own>>,
    /// Nobody asks it any more but who did before.
    gone: AtomicBool,
    /// The daemon that did not greet in time last, and when.
    late: Mutex<Option<(Store, Instant)>>,
    /// Said that no daemon can be started.
    told: OnceLock<()>,
}

/// A service of this process itself, and what it answers for.
type Own = Option<(Store, Arc<Service>)>;

impl OpenTree {
    /// A tree with a canonical root, which `setup` names too. Only with `by_daemon` a daemon is asked.
    pub(super) fn new(
        root: PathBuf,
        setup: SetupArgs,
        environment: &Environment,
        by_daemon: bool,
    ) -> OpenTree {
        OpenTree {
            root,
            setup,
            environment: environment.clone(),
            only: None,
            client_id: None,
            by_daemon,
            beside: Mutex::default(),
            own: Arc::default(),
            gone: AtomicBool::default(),
            late: Mutex::default(),
            told: OnceLock::new(),
        }
    }

    /// The same, asking this daemon and no other, and starting none.
    pub(super) fn only(self, daemon: Meant) -> OpenTree {
        OpenTree {
            only: Some(daemon),
            ..self
        }
    }

    /// The same, with turns of its own beside those of whatever else was started by the same program.
    pub(super) fn named(self, client: &str) -> OpenTree {
        OpenTree {
            client_id: Some(format!("{client}-{}", std::process::id())),
            ..self
        }
    }

    /// The same, saying nothing of who answers: the screen is taken.
    pub(super) fn quiet(self) -> OpenTree {
        OpenTree {
            told: OnceLock::from(()),
            ..self
        }
    }

    /// Ends what this process itself does for it, while others may still be answered: it is not asked any more.
    pub(super) fn let_go(&self) {
        self.gone.store(true, Ordering::SeqCst);
        let own = self.own().take();
        if let Some((_, service)) = own {
            service.become_stale();
        }
    }

    /// Ends what this process itself does for it.
    pub(super) fn shut_down(&self) {
        shut_down(&self.own);
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn late(&self) -> MutexGuard<'_, Option<(Store, Instant)>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns this process's own service, if it has one that answers for the configuration as it is now. One that does not is let go.
    fn own_for(&self, store: &Store) -> Option<Arc<Service>> {
        let mut own = self.own();
        let outdated = match &*own {
            Some((of, service)) if of == store => return Some(service.clone()),
            _ => own.take(),
        };
        drop(own);
        if let Some((_, service)) = outdated {
            service.become_stale();
        }
        None
    }

    /// Finds the daemon, by the configuration as it is now.
    fn meant(&self) -> Result<Meant, ToolError> {
        match &self.only {
            Some(daemon) => Ok(daemon.clone()),
            None => {
                self.looked(|| Meant::find(&self.root, &self.setup, None, &self.environment.now()))
            }
        }
    }

    /// Does what reads the configuration; again, if that fails where no file is named: there may have been one, and is none any more.
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

    fn connect(
        &self,
        meant: &Meant,
        until: &Deadline,
        greeting: Duration,
    ) -> Result<Connection, Unconnected> {
        let client_id = self.client_id.as_deref();
        match &self.only {
            None => connect_or_start(meant, client_id, until, greeting)
                .map(|(connection, _)| connection),
            Some(_) => {
                let caller = meant.caller(client_id, until.remaining());
                Connection::open(&meant.socket, &meant.store, caller).map_err(Unconnected::Client)
            }
        }
    }

    /// Asks the daemon, which may take what `time` says of its configuration.
    fn ask(
        &self,
        request: &Request,
        time: impl FnOnce(&Config) -> Duration,
        given_up: Option<&GivenUp>,
    ) -> Result<Asking, ToolError> {
        if !self.by_daemon {
            return Ok(Asking::NoDaemon);
        }
        let meant = self.meant()?;
        // Programs are found by the environment, which is the daemon's there.
        if meant.config.search.backend != Backend::Embedded {
            return Ok(Asking::NoDaemon);
        }
        if self.own_for(&meant.store).is_some() {
            return Ok(Asking::NoDaemon);
        }
        let time = time(&meant.config);
        let until = Deadline::after(time, Arc::new(SystemClock));
        let now = SystemClock.now();
        let is_late = self.late().as_ref().is_some_and(|(of, at)| {
            *of == meant.store && now.saturating_duration_since(*at) < LATE
        });
        // A call has time of its own; how a daemon is, is worth the wait.
        let greeting = match given_up {
            None => GREETING,
            Some(_) if is_late => GLANCE,
            Some(_) => GREETING.min(time.saturating_sub(MARGIN) / 2),
        };
        let mut again = true;
        loop {
            let mut connection = match self.connect(&meant, &until, greeting) {
                Ok(connection) => connection,
                Err(Unconnected::NotStarted(why)) => {
                    if self.told.set(()).is_ok() {
                        complain(&format!("this process answers by itself: {why}"));
                    }
                    return Ok(Asking::NoDaemon);
                }
                Err(Unconnected::Client(ClientError::Late(_))) => {
                    // One that had no time to speak of is not known to be late.
                    if greeting >= ENOUGH {
                        *self.late() = Some((meant.store, now));
                    }
                    return Ok(Asking::Late);
                }
                Err(Unconnected::Client(error)) => return Ok(Asking::Answered(failure(error))),
            };
            *self.late() = None;
            if let Some(given_up) = given_up
                && let Ok(hang_up) = connection.hang_up()
            {
                given_up.also(hang_up);
            }
            let answer = match connection.ask(request, until.remaining()) {
                Ok(answer) => answer,
                Err(_) if given_up.is_some_and(GivenUp::is_given_up) => {
                    return Ok(Asking::Answered(ToolError::Cancelled.to_json()));
                }
                // It ended before it answered; asking changes nothing.
                Err(ClientError::Gone(_)) if again => {
                    again = false;
                    continue;
                }
                Err(error) => return Ok(Asking::Answered(failure(error))),
            };
            let answer: Value =
                serde_json::from_slice(&answer).map_err(|error| ToolError::ExecutionFailed {
                    tool: "daemon".to_string(),
                    message: format!("the daemon's answer can't be read: {error}"),
                })?;
            // Others are being answered.
            let busy = &answer["error"];
            let wait = busy["retry_after_ms"].as_u64().map(Duration::from_millis);
            match wait.filter(|wait| busy["code"] == "busy" && *wait < until.remaining()) {
                Some(wait) if !given_up.is_some_and(GivenUp::is_given_up) => thread::sleep(wait),
                _ => return Ok(Asking::Answered(answer)),
            }
        }
    }

    /// Returns this process's own service, which it becomes by the first call that no daemon answers.
    fn service(&self) -> Result<Arc<Service>, ToolError> {
        let meant = self.meant()?;
        if let Some(service) = self.own_for(&meant.store) {
            return Ok(service);
        }
        let mut own = self.own();
        if let Some((_, service)) = own.as_ref().filter(|(of, _)| *of == meant.store) {
            return Ok(service.clone());
        }
        let environment = self.environment.now();
        let setup = self.looked(|| prepare(&self.anywhere()?, &environment, None))?;
        let setup = setup.for_files(&environment);
        let signals = setup.signals.clone();
        let service = live_service(setup, &meant, None, &environment);
        let service = service.map(Arc::new).map_err(told)?;
        linger(&self.own, &signals);
        *own = Some((meant.store, service.clone()));
        Ok(service)
    }

    /// Sets up what a command that ends has, as it is now.
    fn prepared(&self, set: Option<&str>) -> Result<Setup, ToolError> {
        let mut args = self.anywhere()?;
        args.set.extend(set.map(str::to_string));
        self.looked(|| prepare(&args, &self.environment.now(), None))
    }

    /// Returns the arguments with the root as theirs, wherever they came from.
    fn anywhere(&self) -> Result<SetupArgs, ToolError> {
        self.setup.anywhere(Some(&self.root), &self.environment)
    }

    fn beside(&self) -> Result<Arc<Setup>, ToolError> {
        let store = self.meant()?.store;
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, setup)) = beside.as_ref().filter(|(of, _)| *of == store) {
            return Ok(setup.clone());
        }
        let setup = Arc::new(self.prepared(Some(WITH_STATS))?);
        *beside = Some((store, setup.clone()));
        Ok(setup)
    }

    /// Says how the daemon is, or else this process itself.
    fn inspected<T: Serialize>(
        &self,
        asked: Asked,
        own: impl FnOnce(&Service) -> T,
    ) -> Result<Value, ToolError> {
        let asked = Request { id: None, asked };
        match self.ask(&asked, |_| PATIENCE, None)? {
            Asking::Answered(answer) => Ok(answer),
            Asking::Late => Ok(failure(ClientError::Late(GREETING))),
            Asking::NoDaemon => {
                let own = own(&*self.service()?);
                Ok(serde_json::to_value(own).unwrap_or_default())
            }
        }
    }

    /// Calls a tool: the daemon's, or else this process's own.
    fn called(&self, call: &ToolCall, given_up: &GivenUp) -> Result<Value, ToolError> {
        let asked = Request {
            id: None,
            asked: Asked::Tool(call.clone()),
        };
        let came = SystemClock.now();
        let time = |config: &Config| time_of(call, config);
        let (service, came) = match self.ask(&asked, time, Some(given_up))? {
            Asking::Answered(answer) => return Ok(answer),
            // Its time has begun.
            Asking::Late => (self.once()?, Some(came)),
            // What would be kept for it, nobody would end.
            Asking::NoDaemon if self.gone.load(Ordering::SeqCst) => (self.once()?, Some(came)),
            Asking::NoDaemon => (self.service()?, None),
        };
        let admitted = Admitted {
            id: None,
            ending: given_up.ending(),
            deadline: Deadline::after(service.time_of(call), service.clock().clone()),
            came,
            waited: Duration::ZERO,
            queued: false,
            max_response_bytes: usize::MAX,
            stands_back: false,
        };
        let answer = service.call(call, admitted).payload;
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// Sets up a service that has what a command has that ends with its search: for a call whose daemon does not greet in time, which the next one may.
    fn once(&self) -> Result<Arc<Service>, ToolError> {
        let setup = self.prepared(None)?.for_files(&self.environment);
        let service = service(setup, None, serve::Own::default());
        service.map(Arc::new).map_err(told)
    }
}

/// What came of asking a daemon.
enum Asking {
    /// This.
    Answered(Value),
    /// There is none, and none can be started.
    NoDaemon,
    /// It does not greet in time.
    Late,
}

/// Has a signal end in order what this process itself does for a tree.
fn linger(own: &Arc<Mutex<Own>>, signals: &Signals) {
    static LINGERS: OnceLock<()> = OnceLock::new();
    let all = || LINGERING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lingering = all();
    lingering.retain(|one| one.strong_count() > 0);
    if !lingering.iter().any(|one| one.as_ptr() == Arc::as_ptr(own)) {
        lingering.push(Arc::downgrade(own));
    }
    drop(lingering);
    if LINGERS.set(()).is_ok() {
        // Where that is refused, a signal ends the process at once.
        let _ = signals.linger(move || {
            let lingering = all().clone();
            for own in lingering.iter().filter_map(Weak::upgrade) {
                shut_down(&own);
            }
        });
    }
}

/// Ends what a process itself does for a tree.
fn shut_down(own: &Mutex<Own>) {
    let own = own.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, service)) = &*own {
        service.shut_down();
    }
}

/// Returns how long a daemon's answer to a call may take. It gives no call more than it is configured to.
fn time_of(call: &ToolCall, config: &Config) -> Duration {
    let asked = call.request.get("timeout_ms").and_then(Value::as_u64);
    let configured = match call.tool == FILES_NAME {
        true => config.search_files.default_timeout_ms,
        false => asked.unwrap_or(config.search.default_timeout_ms),
    };
    Duration::from_millis(configured.min(config.daemon.query_timeout_ms)) + MARGIN
}

impl Tree for OpenTree {
    fn call(&self, call: &ToolCall, given_up: &GivenUp) -> Value {
        let answer = self.called(call, given_up);
        answer.unwrap_or_else(|error| error.to_json())
    }

    fn status(&self) -> Result<Value, ToolError> {
        self.inspected(Asked::Status, |own| own.status(&Default::default()))
    }

    fn health(&self) -> Result<Value, ToolError> {
        self.inspected(Asked::Health, Service::health)
    }

    fn explain(&self, request: &SearchRequest) -> Result<Value, ToolError> {
        to_program(&*self.beside()?, request.clone())
    }

    fn building(&self) -> Option<BuildReport> {
        let own = self.own().clone();
        match own {
            Some((_, service)) => service.building(),
            None => {
                // What the daemon says of itself to everybody.
                let beside = self.beside().ok()?;
                let indexes = beside.indexes()?;
                let living = indexes.living(&self.root)?;
                living.into_iter().find_map(|one| one.build)
            }
        }
    }
}

/// Makes of why nothing could be set up what agents are told.
fn told(failure: Failure) -> ToolError {
    match failure {
        Failure::Tool(error) => error,
        _ => ToolError::Cancelled,
    }
}

/// Makes of what a client of a daemon meets what agents are told.
fn failure(error: ClientError) -> Value {
    let refusal = match error {
        ClientError::Refused(refusal) => refusal,
        error => Refusal::new(error.code(), error.to_string()),
    };
    let refusal = match refusal.error.code {
        ErrorCode::Cancelled => return ToolError::Cancelled.to_json(),
        _ => refusal,
    };
    serde_json::from_slice(&payload(&refusal)).unwrap_or_default()
}
