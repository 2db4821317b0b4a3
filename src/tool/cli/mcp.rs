//! `forge-search mcp`: a server for agents.
//!
//! Owns which trees there are for a client, and who answers for them: a daemon, or this process.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use serde_json::Value;

use super::args::{McpArgs, SetupArgs};
use super::daemon::serve::live_service;
use super::daemon::start::{Unconnected, connect_or_start};
use super::daemon::{Meant, canonical};
use super::explain::{WITH_STATS, to_program};
use super::setup::{Environment, Setup, load_config, prepare};
use super::{Failure, complain};
use crate::exec::stop::{Deadline, SystemClock};
use crate::tool::config::{Backend, Config};
use crate::tool::daemon::client::ClientError;
use crate::tool::daemon::reply::{ErrorCode, Failure as Refusal};
use crate::tool::daemon::request::{Asked, Request, ToolCall};
use crate::tool::daemon::service::{Admitted, Service, payload};
use crate::tool::engines::Engines;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::indexing::BuildReport;
use crate::tool::mcp::roots::within;
use crate::tool::mcp::server::Server;
use crate::tool::mcp::tree::{GivenUp, Tree, Trees};
use crate::tool::request::SearchRequest;
use crate::tool::search::SearchTool;
use crate::tool::search_files::{FILES_NAME, FilesTool};

/// How much longer than a search may take its answer is waited for.
const MARGIN: Duration = Duration::from_secs(5);

/// How long it may take until a daemon answers how it is.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the end waits for threads that still search.
const LAST: Duration = Duration::from_millis(200);

/// Serves until the client closes standard input.
pub(super) fn run(args: &McpArgs, environment: &Environment) -> Result<u8, Failure> {
    let forest = Arc::new(Forest::new(args, environment)?);
    let config = forest.config()?;
    let embedded = Engines::embedded();
    let search = SearchTool::new(config.search.clone(), embedded.clone());
    let files = FilesTool::new(&config, embedded);
    let server = Server::new(forest.clone(), &search, &files, args.max_output_bytes);
    if io::stdin().is_terminal() {
        complain(
            "this is for agents: it speaks the Model Context Protocol on standard input and output; end with Ctrl-D",
        );
    }
    let failed = |why: String| {
        Failure::Tool(ToolError::ExecutionFailed {
            tool: "mcp".to_string(),
            message: why,
        })
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let served =
        runtime.block_on(async {
            let served = rmcp::serve_server(server, stdio_pipes()).await;
            match served {
                Ok(running) => running.waiting().await.map(|_| ()).map_err(|error| {
                    failed(format!("the server ended in an unexpected way: {error}"))
                }),
                // A client that says nothing is one that only looks whether there is a program.
                Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
                Err(error) => Err(failed(format!(
                    "the client does not speak the Model Context Protocol: {error}"
                ))),
            }
        });
    runtime.shutdown_timeout(LAST);
    forest.shut_down();
    served.map(|()| 0)
}

/// The trees of the clients of one server.
struct Forest {
    /// The canonical root, unless a client's roots leave another one.
    root: PathBuf,
    setup: SetupArgs,
    environment: Environment,
    by_daemon: bool,
    /// By what is left of the allowed roots.
    opened: Mutex<BTreeMap<Option<Vec<PathBuf>>, Arc<One>>>,
}

impl Forest {
    fn new(args: &McpArgs, environment: &Environment) -> Result<Forest, ToolError> {
        let named = args.setup.root.as_deref();
        let root = canonical(named.unwrap_or(Path::new(".")), environment)?;
        let home = environment.sockets.home.as_deref();
        if named.is_none() && (root.parent().is_none() || home == Some(root.as_path())) {
            return Err(ToolError::bad_args(format!(
                "this was started in {}, which is hardly the tree that is to be searched; name it with --root, or have the agent start \
                 this in the tree",
                root.display()
            )));
        }
        let file = args.setup.config.as_ref();
        Ok(Forest {
            setup: SetupArgs {
                root: None,
                // Wherever a daemon runs.
                config: file.map(|file| environment.absolute(file)).transpose()?,
                set: args.setup.set.clone(),
            },
            root,
            environment: environment.clone(),
            by_daemon: !args.no_daemon,
            opened: Mutex::default(),
        })
    }

    fn config(&self) -> Result<Config, ToolError> {
        load_config(&self.setup, &self.environment)
    }

    /// Sets up what is left of the allowed roots: all of them, or these.
    fn one(&self, left: Option<&[PathBuf]>) -> Result<One, ToolError> {
        let mut setup = self.setup.clone();
        let mut root = self.root.clone();
        if let Some(left) = left {
            // What a client's paths are relative to.
            if let Some(first) = left.first()
                && !left.iter().any(|one| root.starts_with(one))
            {
                root.clone_from(first);
            }
            let list = toml_list(left)?;
            setup
                .set
                .push(format!("tools.sandbox.allowed_roots={list}"));
            if left.len() > 1 && self.config()?.search.index_roots.is_empty() {
                setup.set.push(format!("tools.search.index_roots={list}"));
            }
        }
        setup.root = Some(root.clone());
        Ok(One {
            root,
            setup,
            environment: self.environment.clone(),
            // Programs are found by the environment, which is the daemon's there.
            by_daemon: self.by_daemon && self.config()?.search.backend == Backend::Embedded,
            beside: OnceLock::new(),
            own: Mutex::default(),
            told: OnceLock::new(),
        })
    }

    fn shut_down(&self) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        for one in opened.values() {
            if let Some(service) = &*one.own() {
                service.shut_down();
            }
        }
    }
}

impl Trees for Forest {
    fn open(&self, client_roots: Option<&[PathBuf]>) -> Result<Arc<dyn Tree>, ToolError> {
        let left = match client_roots {
            None => None,
            Some(named) => {
                let config = self.config()?;
                let mut allowed = Vec::new();
                for configured in &config.sandbox.allowed_roots {
                    allowed.push(canonical(&self.root.join(configured), &self.environment)?);
                }
                if allowed.is_empty() {
                    allowed.push(self.root.clone());
                }
                // One that is not there has nothing.
                let named: Vec<PathBuf> = named
                    .iter()
                    .filter_map(|root| root.canonicalize().ok())
                    .collect();
                let left = within(&allowed, &named);
                let first = client_roots.and_then(<[PathBuf]>::first);
                if left.is_empty() {
                    let attempted = first.cloned().unwrap_or_default();
                    return Err(DenialReason::PathOutsideSandbox {
                        resolved: attempted.clone(),
                        attempted,
                    }
                    .into());
                }
                allowed.sort();
                let mut sorted = left.clone();
                sorted.sort();
                (sorted != allowed).then_some(left)
            }
        };
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = opened.get(&left) {
            return Ok(one.clone());
        }
        let one = Arc::new(self.one(left.as_deref())?);
        opened.insert(left, one.clone());
        Ok(one)
    }
}

/// Writes paths as a list for `--set`.
fn toml_list(paths: &[PathBuf]) -> Result<String, ToolError> {
    let texts: Result<Vec<_>, _> = paths
        .iter()
        .map(|path| {
            let text = path.to_str().map(str::to_string);
            text.map(toml::Value::String).ok_or_else(|| {
                ToolError::bad_args(format!(
                    "the root {} is not valid UTF-8; name a directory above it",
                    path.display()
                ))
            })
        })
        .collect();
    Ok(toml::Value::Array(texts?).to_string())
}

/// A tree.
struct One {
    root: PathBuf,
    setup: SetupArgs,
    environment: Environment,
    by_daemon: bool,
    /// For what is about the index and not about searching.
    beside: OnceLock<Setup>,
    /// This process's own, where no daemon answers.
    own: Mutex<Option<Arc<Service>>>,
    /// Said that no daemon can be started.
    told: OnceLock<()>,
}

impl One {
    fn own(&self) -> std::sync::MutexGuard<'_, Option<Arc<Service>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the daemon, by the configuration as it is now.
    fn meant(&self) -> Result<Meant, ToolError> {
        Meant::find(&self.root, &self.setup, None, &self.environment)
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
            let (mut connection, _) = match connect_or_start(&meant, None, &until) {
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
                    tool: "mcp".to_string(),
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

impl Tree for One {
    fn call(&self, call: &ToolCall, given_up: &GivenUp) -> Value {
        let answer = self.called(call, given_up);
        answer.unwrap_or_else(|error| error.to_json())
    }

    fn status(&self) -> Result<Value, ToolError> {
        let asked = Request {
            id: None,
            asked: Asked::Status,
        };
        if let Some(answer) = self.ask(&asked, |_| PATIENCE, None)? {
            return Ok(answer);
        }
        let status = self.service()?.status(&Default::default());
        Ok(serde_json::to_value(status).unwrap_or_default())
    }

    fn health(&self) -> Result<Value, ToolError> {
        let asked = Request {
            id: None,
            asked: Asked::Health,
        };
        if let Some(answer) = self.ask(&asked, |_| PATIENCE, None)? {
            return Ok(answer);
        }
        let health = self.service()?.health();
        Ok(serde_json::to_value(health).unwrap_or_default())
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
