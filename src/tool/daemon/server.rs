//! The server: accepts connections at a socket, each with its requests in order.
//!
//! This module owns the listener, its time limits and the shutdown. Searches run on blocking
//! threads, as many at once as the gate admits.

mod connection;
mod dispatch;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::admission::Bounds;
use super::gate::Gate;
use super::metrics::{Counts, Metrics};
use super::service::Service;
use super::socket::{Access, Identity, OwnSocket};
use crate::format::mutex::lock;
use crate::tool::config::Config;
use crate::tool::searcher::to_usize;

/// The bytes of received requests that have not begun, over all connections. A further one is
/// refused.
const BACKLOG: usize = 64 << 20;

/// How long the shutdown waits for running threads that were told to end.
const LAST: Duration = Duration::from_millis(100);

/// The minimum time that a server waits for its first request, even with a shorter `idle_exit`.
const FIRST: Duration = Duration::from_secs(60);

/// The maximum idle time of a stale server with `idle_exit`: clients use another daemon already.
const STALE: Duration = Duration::from_secs(60);

/// The shortest interval of idle checks.
const NAP: Duration = Duration::from_millis(20);

/// How many `status` requests run at once. For `health` it is one, since it reads a whole index.
const STATUSES: usize = 4;

/// The settings of a server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The limits on queries that run and that wait.
    pub bounds: Bounds,
    /// The default time limit of a query, the wait included.
    pub timeout: Duration,
    /// The longest request, in bytes.
    pub max_request_bytes: usize,
    /// The longest response, in bytes.
    pub max_response_bytes: usize,
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
    /// How long a client may take for the handshake, for a message that it has begun, and to
    /// receive an answer.
    pub patience: Duration,
    /// How long a connection may be silent.
    pub idle: Duration,
    /// How long the shutdown may take.
    pub shutdown: Duration,
    /// The duration above which a query counts as slow.
    pub slow: Duration,
    /// The users that may connect.
    pub access: Access,
    /// The interval of configuration checks. A change counts once two checks in a row see it.
    pub config_debounce: Duration,
    /// The idle time after which the server ends by itself; never, if absent.
    pub idle_exit: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::from(&Config::command_line_default())
    }
}

#[doc(hidden)]
impl From<&Config> for Settings {
    fn from(config: &Config) -> Settings {
        let (daemon, shutdown) = (&config.daemon, config.search.index_shutdown_timeout_ms);
        Settings {
            bounds: Bounds::new(
                to_usize(daemon.concurrent_queries()),
                to_usize(daemon.max_query_queue_depth),
            ),
            timeout: Duration::from_millis(daemon.query_timeout_ms),
            max_request_bytes: to_usize(daemon.max_request_bytes),
            max_response_bytes: to_usize(daemon.max_response_bytes),
            connections: 2_048,
            patience: Duration::from_secs(30),
            idle: Duration::from_secs(30 * 60),
            shutdown: Duration::from_millis(shutdown),
            slow: Duration::from_millis(daemon.slow_query_ms),
            access: Access::of(daemon),
            config_debounce: Duration::from_millis(daemon.config_debounce_ms.max(10)),
            idle_exit: None,
        }
    }
}

/// A running server. It ends on a client's `shutdown`, on [`Server::stop`], and when it is dropped.
pub struct Server {
    path: PathBuf,
    ending: Arc<watch::Sender<bool>>,
    shared: Arc<Shared>,
    ended: Option<std::thread::JoinHandle<bool>>,
}

struct Shared {
    service: Arc<Service>,
    gate: Gate,
    metrics: Metrics,
    settings: Settings,
    ending: Arc<watch::Sender<bool>>,
    /// When the server started.
    began: Instant,
    /// When the last request was received; initially the start of the server.
    asked: Mutex<Instant>,
    /// Permits for further connections.
    room: Arc<Semaphore>,
    /// Permits for further bytes of requests that have not begun.
    backlog: Arc<Semaphore>,
    /// The path of the socket, and the identity of its file.
    place: (PathBuf, Identity),
    /// Permits for `status` and for `health`.
    statuses: Semaphore,
    healths: Semaphore,
}

impl Server {
    /// Starts a server at a socket, on threads of its own.
    ///
    /// # Errors
    ///
    /// The error of the system if the runtime or a thread can't start.
    pub fn start(
        service: Service,
        mut socket: OwnSocket,
        settings: Settings,
    ) -> io::Result<Server> {
        let path = socket.path().to_path_buf();
        let listener = socket
            .take_listener()
            .ok_or_else(|| io::Error::other("the socket is in use"))?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // A query that overruns its time limit leaves its thread behind, so there are spare
            // ones.
            .max_blocking_threads(settings.bounds.concurrent + 64)
            .thread_name("forge-search-serve")
            .enable_io()
            .enable_time()
            .build()?;
        let ending = Arc::new(watch::Sender::new(false));
        let service = Arc::new(service);
        let began = service.clock().now();
        let shared = Arc::new(Shared {
            began,
            gate: Gate::new(settings.bounds, service.clock().clone()),
            metrics: Metrics::new(settings.slow),
            asked: Mutex::new(began),
            room: Arc::new(Semaphore::new(settings.connections)),
            backlog: Arc::new(Semaphore::new(BACKLOG)),
            place: (path.clone(), socket.identity()),
            statuses: Semaphore::new(STATUSES),
            healths: Semaphore::new(1),
            service,
            settings,
            ending: ending.clone(),
        });
        let listener = {
            let _entered = runtime.enter();
            UnixListener::from_std(listener)?
        };
        let thread = std::thread::Builder::new().name("forge-search-serve".to_string());
        let serving = shared.clone();
        let ended = thread.spawn(move || serve(runtime, listener, &serving, socket))?;
        Ok(Server {
            path,
            ending,
            shared,
            ended: Some(ended),
        })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the counters so far, and how many queries run and wait.
    pub fn counts(&self) -> (Counts, usize, usize) {
        let (running, waiting) = self.shared.gate.counts();
        (self.shared.metrics.counts(), running, waiting)
    }

    /// Returns a function that ends the server. It can be called on any thread and does not wait.
    pub fn ender(&self) -> impl Fn() + Send + Sync + 'static {
        let ending = self.ending.clone();
        move || {
            ending.send_replace(true);
        }
    }

    /// Waits until the server has ended. Returns false if it left something behind.
    pub fn wait(&mut self) -> bool {
        let ended = self.ended.take();
        ended.is_none_or(|ended| ended.join().unwrap_or(false))
    }

    /// Ends the server: running and waiting queries get `cancelled`, new requests are not read.
    /// Returns false if that took longer than allowed and something was left behind.
    pub fn stop(&mut self) -> bool {
        self.ending.send_replace(true);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns whether more than three quarters of the connections are in use.
    fn is_crowded(&self) -> bool {
        self.room.available_permits() < self.settings.connections / 4
    }
}

fn serve(
    runtime: Runtime,
    listener: UnixListener,
    shared: &Arc<Shared>,
    socket: OwnSocket,
) -> bool {
    let ended = runtime.block_on(accept(listener, shared));
    // Threads that do not end are left behind. Dropping the runtime would wait for them.
    runtime.shutdown_timeout(LAST);
    // Only now may another daemon start.
    drop(socket);
    ended
}

/// Accepts connections until the shutdown. Then waits for the open connections and for the indexes
/// at the same time, for no longer than the shutdown may take.
async fn accept(listener: UnixListener, shared: &Arc<Shared>) -> bool {
    let mut ending = shared.ending.subscribe();
    let mut connections = JoinSet::new();
    tokio::spawn(end_when_idle(shared.clone()));
    tokio::spawn(follow_config(shared.clone()));
    loop {
        let permit = tokio::select! {
            _ = ending.wait_for(|ending| *ending) => break,
            permit = shared.room.clone().acquire_owned() => permit,
        };
        // The semaphore is never closed.
        let Ok(permit) = permit else { break };
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let shared = shared.clone();
                    connections.spawn(async move {
                        connection::serve(stream, shared).await;
                        drop(permit);
                    });
                }
                // For example too many open files: wait until some are closed.
                Err(_) => sleep(Duration::from_millis(20)).await,
            },
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    shared.service.stop_looking();
    let service = shared.service.clone();
    let indexes = tokio::task::spawn_blocking(move || service.shut_down());
    let all = async {
        while connections.join_next().await.is_some() {}
        indexes.await.unwrap_or(false)
    };
    let ended = timeout(shared.settings.shutdown, all).await;
    ended.unwrap_or(false)
}

/// Ends the server once it has been idle for long enough.
async fn end_when_idle(shared: Arc<Shared>) {
    let Some(most) = shared.settings.idle_exit else {
        return;
    };
    let mut ending = shared.ending.subscribe();
    loop {
        let asked = *lock(&shared.asked);
        let idle = shared
            .service
            .clock()
            .now()
            .saturating_duration_since(asked);
        let busy = shared.gate.counts() != (0, 0);
        let look = most;
        // A client that started the daemon may be slow to send its first request.
        let most = match asked == shared.began {
            true => most.max(FIRST),
            false => most,
        };
        let most = match shared.service.is_stale() {
            true => most.min(STALE),
            false => most,
        };
        if idle >= most && !busy {
            shared.ending.send_replace(true);
            return;
        }
        // The first request may arrive at any time.
        let left = most.saturating_sub(idle).min(look).clamp(NAP, STALE);
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            () = sleep(left) => {}
        }
    }
}

/// Makes the daemon stale, for good, when the configuration changes. Ends it when its socket is
/// gone.
async fn follow_config(shared: Arc<Shared>) {
    let mut ending = shared.ending.subscribe();
    let mut changed = false;
    loop {
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            () = sleep(shared.settings.config_debounce) => {}
        }
        if Identity::of(&shared.place.0) != Some(shared.place.1) {
            // No client can find this daemon any more, and nothing keeps another one from starting.
            tracing::warn!(target: "forge_search::daemon", "socket_gone");
            shared.ending.send_replace(true);
            return;
        }
        if shared.service.is_stale() {
            continue;
        }
        let service = shared.service.clone();
        let look = tokio::task::spawn_blocking(move || service.is_outdated());
        let now = look.await.unwrap_or(false);
        if now && changed {
            let service = shared.service.clone();
            let told = tokio::task::spawn_blocking(move || service.become_stale());
            // It ends in time; the daemon is stale in any case.
            let _ = told.await;
            tracing::warn!(target: "forge_search::daemon", "stale_config");
        }
        changed = now;
    }
}
