//! A tree as the surfaces that stay ask it: agents' servers, the page, and the interactive search.
//!
//! Owns who answers for it: its daemon, or where there can be none, this process.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::args::SetupArgs;
use super::daemon::Meant;
use super::daemon::serve::live_service;
use super::daemon::start::{Unconnected, connect_or_start};
use super::explain::{WITH_STATS, to_program};
use super::setup::{Environment, Setup, prepare};
use super::{Failure, complain};
use crate::exec::stop::{Deadline, SystemClock};
use crate::tool::config::Config;
use crate::tool::daemon::client::{ClientError, Connection};
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
    beside: OnceLock<Setup>,
    /// This process's own, where no daemon answers.
    own: Mutex<Option<Arc<Service>>>,
    /// Said that no daemon can be started.
    told: OnceLock<()>,
}

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
            beside: OnceLock::new(),
            own: Mutex::default(),
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

    /// Ends what this process itself does for it.
    pub(super) fn shut_down(&self) {
        if let Some(service) = &*self.own() {
            service.shut_down();
        }
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Option<Arc<Service>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the daemon, by the configuration as it is now.
    fn meant(&self) -> Result<Meant, ToolError> {
        match &self.only {
            Some(daemon) => Ok(daemon.clone()),
            None => Meant::find(&self.root, &self.setup, None, &self.environment),
        }
    }

    fn connect(&self, meant: &Meant, until: &Deadline) -> Result<Connection, Unconnected> {
        let client_id = self.client_id.as_deref();
        match &self.only {
            None => connect_or_start(meant, client_id, until).map(|(connection, _)| connection),
            Some(_) => {
                let caller = meant.caller(client_id, until.remaining());
                Connection::open(&meant.socket, &meant.store, caller).map_err(Unconnected::Client)
            }
        }
    }

    /// Asks the daemon, which may take what `time` says of its configuration; nothing if there is none and none can be started.
    fn ask(
        &self,
        request: &Request,
        time: impl FnOnce(&Config) -> Duration,
        given_up: Option<&GivenUp>,
    ) -> Result<Option<Value>, ToolError> {
        if !self.by_daemon || self.own().is_some() {
            return Ok(None);
        }
        let meant = self.meant()?;
        let until = Deadline::after(time(&meant.config), Arc::new(SystemClock));
        let mut again = true;
        loop {
            let mut connection = match self.connect(&meant, &until) {
                Ok(connection) => connection,
                Err(Unconnected::NotStarted(why)) => {
                    if self.told.set(()).is_ok() {
                        complain(&format!("this process answers by itself: {why}"));
                    }
                    return Ok(None);
                }
                Err(Unconnected::Client(error)) => return Ok(Some(failure(error))),
            };
            if let Some(given_up) = given_up
                && let Ok(hang_up) = connection.hang_up()
            {
                given_up.also(hang_up);
            }
            let answer = match connection.ask(request, until.remaining()) {
                Ok(answer) => answer,
                Err(_) if given_up.is_some_and(GivenUp::is_given_up) => {
                    return Ok(Some(ToolError::Cancelled.to_json()));
                }
                // It ended before it answered; asking changes nothing.
                Err(ClientError::Gone(_)) if again => {
                    again = false;
                    continue;
                }
                Err(error) => return Ok(Some(failure(error))),
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
                _ => return Ok(Some(answer)),
            }
        }
    }

    /// Returns this process's own service, which it becomes by the first call that no daemon answers.
    fn service(&self) -> Result<Arc<Service>, ToolError> {
        let mut own = self.own();
        if let Some(service) = &*own {
            return Ok(service.clone());
        }
        let meant = self.meant()?;
        let setup = prepare(&meant.setup, &self.environment, None)?.for_files(&self.environment);
        let signals = setup.signals.clone();
        let service = match live_service(setup, &meant, None, &self.environment) {
            Ok(service) => Arc::new(service),
            Err(Failure::Tool(error)) => return Err(error),
            Err(_) => return Err(ToolError::Cancelled),
        };
        let ending = service.clone();
        // Where that is refused, a signal ends the process at once.
        let _ = signals.linger(move || {
            ending.shut_down();
        });
        *own = Some(service.clone());
        Ok(service)
    }

    fn beside(&self) -> Result<&Setup, ToolError> {
        if let Some(setup) = self.beside.get() {
            return Ok(setup);
        }
        let mut args = self.setup.clone();
        args.set.push(WITH_STATS.to_string());
        let setup = prepare(&args, &self.environment, None)?;
        Ok(self.beside.get_or_init(|| setup))
    }

    /// Says how the daemon is, or else this process itself.
    fn inspected<T: Serialize>(
        &self,
        asked: Asked,
        own: impl FnOnce(&Service) -> T,
    ) -> Result<Value, ToolError> {
        let asked = Request { id: None, asked };
        if let Some(answer) = self.ask(&asked, |_| PATIENCE, None)? {
            return Ok(answer);
        }
        let own = own(&*self.service()?);
        Ok(serde_json::to_value(own).unwrap_or_default())
    }

    /// Calls a tool: the daemon's, or else this process's own.
    fn called(&self, call: &ToolCall, given_up: &GivenUp) -> Result<Value, ToolError> {
        let asked = Request {
            id: None,
            asked: Asked::Tool(call.clone()),
        };
        let time = |config: &Config| time_of(call, config);
        if let Some(answer) = self.ask(&asked, time, Some(given_up))? {
            return Ok(answer);
        }
        let service = self.service()?;
        let admitted = Admitted {
            id: None,
            ending: given_up.ending(),
            deadline: Deadline::after(service.time_of(call), service.clock().clone()),
            came: None,
            waited: Duration::ZERO,
            queued: false,
            max_response_bytes: usize::MAX,
            stands_back: false,
        };
        let answer = service.call(call, admitted).payload;
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }
}

/// Returns how long a daemon's answer to a call may take.
fn time_of(call: &ToolCall, config: &Config) -> Duration {
    let asked = call.request.get("timeout_ms").and_then(Value::as_u64);
    let configured = match call.tool == FILES_NAME {
        true => config.search_files.default_timeout_ms,
        false => asked.unwrap_or(config.search.default_timeout_ms),
    };
    Duration::from_millis(configured.max(config.daemon.query_timeout_ms)) + MARGIN
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
        to_program(self.beside()?, request.clone())
    }

    fn building(&self) -> Option<BuildReport> {
        let own = self.own().clone();
        match own {
            Some(service) => service.building(),
            None => {
                // What the daemon says of itself to everybody.
                let indexes = self.beside().ok()?.indexes()?;
                let living = indexes.living(&self.root)?;
                living.into_iter().find_map(|one| one.build)
            }
        }
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
