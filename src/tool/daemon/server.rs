//! The server: connections, each with its requests in order.
//!
//! Owns the sockets, their time limits, and the end of everything. Each connection has two tasks: one reads, and hears at once when a request
//! is cancelled or the client goes; one answers, a request after the other. Searching happens on threads of its own, of which there are as
//! many as queries may run.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout, timeout_at};

use super::admission::{Bounds, Client, Share};
use super::frame::{Decoder, FrameError, encode};
use super::gate::{Gate, Permit};
use super::handshake::{PROTOCOL_VERSIONS, receive};
use super::inspect::Load;
use super::metrics::{Counts, Metrics, exposition};
use super::reply::{Acknowledged, ErrorCode, Failure};
use super::report::Exposition;
use super::request::{Asked, Hello, Request};
use super::service::{Admitted, Answer, Ending, Facts, Service, ended, payload};
use super::socket::{Access, Identity, OwnSocket};
use crate::exec::stop::{Deadline, StopReason};
use crate::index::pace::stand_back;
use crate::tool::config::Config;

/// Requests of one connection that are not answered yet, at most: one that comes beyond that is refused, so that whatever cancels others
/// is heard.
const PIPELINE: usize = 32;

/// Answers of one connection, refusals included, that wait to be taken in. Beyond that nothing more is read of it.
const UNSENT: usize = 1_024;

/// Bytes that are read at once.
const READ: usize = 16 << 10;

/// Bytes of requests of all connections that were read and are not begun: one that comes beyond that is refused.
const BACKLOG: usize = 64 << 20;

/// How long a connection may be silent while more than three quarters of all that there may be are in use.
const CROWDED: Duration = Duration::from_secs(10);

/// How often a silent connection looks whether there are that many.
const LOOK: Duration = Duration::from_secs(5);

/// How often it is looked whether a client has gone of which nothing is read.
const GLANCE: Duration = Duration::from_millis(50);

/// How long the end waits for what runs on threads and was told to end.
const LAST: Duration = Duration::from_millis(100);

/// How much longer than its time a search may take to notice that it is over, before its client is answered without it.
const GRACE: Duration = Duration::from_secs(1);

/// How long a stale server that ends by itself may be idle: clients have another one.
const STALE: Duration = Duration::from_secs(60);

/// How often it is looked at most whether a server is idle.
const NAP: Duration = Duration::from_millis(20);

/// Requests for the status that are answered at once. For the health it is one: that reads all of an index.
const STATUSES: usize = 4;

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Queries that run and that wait.
    pub bounds: Bounds,
    /// How long a query may take, the wait included.
    pub timeout: Duration,
    /// Bytes of a request.
    pub max_request_bytes: usize,
    /// Bytes of a response.
    pub max_response_bytes: usize,
    /// Connections at once; more wait to be accepted.
    pub connections: usize,
    /// How long a client may take to begin, and to end a message that it has begun, or to take in an answer.
    pub patience: Duration,
    /// How long a connection may be silent.
    pub idle: Duration,
    /// How long the end may take.
    pub shutdown: Duration,
    /// How long a query takes that counts as a slow one.
    pub slow: Duration,
    /// Who may use it.
    pub access: Access,
    /// How often it is looked whether the configuration has changed; a change counts when it is there twice.
    pub config_debounce: Duration,
    /// How long nobody may have asked for anything before the server ends by itself; never, if there is none.
    pub idle_exit: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::from(&Config::command_line_default())
    }
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Settings {
        let (daemon, shutdown) = (&config.daemon, config.search.index_shutdown_timeout_ms);
        let number = |cap: u64| usize::try_from(cap).unwrap_or(usize::MAX);
        Settings {
            bounds: Bounds::new(
                number(daemon.concurrent_queries()),
                number(daemon.max_query_queue_depth),
            ),
            timeout: Duration::from_millis(daemon.query_timeout_ms),
            max_request_bytes: number(daemon.max_request_bytes),
            max_response_bytes: number(daemon.max_response_bytes),
            connections: 2_048,
            patience: Duration::from_secs(30),
            idle: Duration::from_secs(30 * 60),
            shutdown: Duration::from_millis(shutdown),
            slow: Duration::from_millis(daemon.slow_query_ms),
            access: match daemon.group_access {
                true => Access::Group,
                false => Access::Owner,
            },
            config_debounce: Duration::from_millis(daemon.config_debounce_ms.max(10)),
            idle_exit: None,
        }
    }
}

/// A server that runs. It ends when it is told to, by a client or by [`Server::stop`], and when this is dropped.
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
    /// When somebody last asked for something.
    asked: Mutex<Instant>,
    /// Connections that there may be more.
    room: Arc<Semaphore>,
    /// Bytes that requests may have more which are not begun.
    backlog: Arc<Semaphore>,
    /// The socket, and which file it is.
    place: (PathBuf, Identity),
    /// Turns of those who ask for the status, and for the health.
    statuses: Semaphore,
    healths: Semaphore,
}

impl Server {
    /// Begins to serve at a socket, on threads of its own.
    ///
    /// # Errors
    ///
    /// Those of the system.
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
            // A query that does not end in time leaves its thread behind.
            .max_blocking_threads(settings.bounds.concurrent + 64)
            .thread_name("forge-search-serve")
            .enable_io()
            .enable_time()
            .build()?;
        let ending = Arc::new(watch::Sender::new(false));
        let service = Arc::new(service);
        let shared = Arc::new(Shared {
            gate: Gate::new(settings.bounds, service.clock().clone()),
            metrics: Metrics::new(settings.slow),
            asked: Mutex::new(service.clock().now()),
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

    /// Returns what was counted of queries so far, and how many run and wait.
    pub fn counts(&self) -> (Counts, usize, usize) {
        let (running, waiting) = self.shared.gate.counts();
        (self.shared.metrics.counts(), running, waiting)
    }

    /// Returns what ends the server when it is called, from any thread and without waiting.
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

    /// Ends the server: what runs or waits is answered as `cancelled`, new requests are not taken. Returns false if that took longer than
    /// is allowed and something was left behind.
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
    /// Returns whether there is little room for more connections.
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
    // What does not notice that it is over is left behind: dropping the runtime would wait for it.
    runtime.shutdown_timeout(LAST);
    // Only now may another daemon begin.
    drop(socket);
    ended
}

/// Accepts connections until the end, then waits for those that are left and for the indexes, both at once and no longer than the end may
/// take.
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
        // Nobody closes it.
        let Ok(permit) = permit else { break };
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let shared = shared.clone();
                    connections.spawn(async move {
                        connection(stream, shared).await;
                        drop(permit);
                    });
                }
                // Too many open files, say: others have to go first.
                Err(_) => sleep(Duration::from_millis(20)).await,
            },
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let service = shared.service.clone();
    let indexes = tokio::task::spawn_blocking(move || service.shut_down());
    let all = async {
        while connections.join_next().await.is_some() {}
        indexes.await.unwrap_or(false)
    };
    let ended = timeout(shared.settings.shutdown, all).await;
    ended.unwrap_or(false)
}

/// Ends the server once nobody has asked for anything for long enough.
async fn end_when_idle(shared: Arc<Shared>) {
    let Some(most) = shared.settings.idle_exit else {
        return;
    };
    let mut ending = shared.ending.subscribe();
    loop {
        let asked = *shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = shared
            .service
            .clock()
            .now()
            .saturating_duration_since(asked);
        let busy = shared.gate.counts() != (0, 0);
        let most = match shared.service.is_stale() {
            true => most.min(STALE),
            false => most,
        };
        if idle >= most && !busy {
            shared.ending.send_replace(true);
            return;
        }
        let left = most.saturating_sub(idle).clamp(NAP, STALE);
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            () = sleep(left) => {}
        }
    }
}

/// Looks whether the configuration has changed, and makes the daemon stale when it has, and stays so; ends it when its socket is gone.
async fn follow_config(shared: Arc<Shared>) {
    let mut ending = shared.ending.subscribe();
    let mut changed = false;
    loop {
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            () = sleep(shared.settings.config_debounce) => {}
        }
        if Identity::of(&shared.place.0) != Some(shared.place.1) {
            // Nobody can find it any more, and nothing keeps another one from beginning.
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

/// A request of a connection that is not answered yet.
#[derive(Debug, Default)]
struct Active {
    id: Option<String>,
    ending: Ending,
    /// Told when the ending is.
    told: Notify,
}

impl Active {
    fn end(&self, reason: StopReason) {
        self.ending.end(reason);
        self.told.notify_one();
    }
}

/// The requests of a connection that are not answered yet, in order.
#[derive(Clone, Debug, Default)]
struct Unanswered(Arc<Mutex<Vec<Arc<Active>>>>);

impl Unanswered {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Active>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: Option<String>) -> Arc<Active> {
        let active = Arc::new(Active {
            id,
            ..Active::default()
        });
        self.lock().push(active.clone());
        active
    }

    fn remove(&self, active: &Arc<Active>) {
        self.lock().retain(|one| !Arc::ptr_eq(one, active));
    }

    /// Ends those with an id; returns whether there was one.
    fn cancel(&self, id: &str) -> bool {
        let all = self.lock();
        let meant = all.iter().filter(|one| one.id.as_deref() == Some(id));
        meant.map(|one| one.end(StopReason::Cancelled)).count() > 0
    }

    fn cancel_all(&self) {
        self.lock()
            .iter()
            .for_each(|one| one.end(StopReason::Cancelled));
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn is_full(&self) -> bool {
        self.lock().len() >= PIPELINE
    }
}

/// What the reading task hands to the answering one.
enum Job {
    /// A request, when it came, and its part of the backlog.
    Ask(Asked, Arc<Active>, Instant, OwnedSemaphorePermit),
    /// Something that is said as it is.
    Say(Vec<u8>),
}

/// Serves a connection until its end.
async fn connection(stream: UnixStream, shared: Arc<Shared>) {
    let Ok(peer) = stream.peer_cred() else { return };
    let own = rustix::process::geteuid().as_raw();
    // The mode of the socket says the same, where the system looks at that.
    // What a group may is what the mode of the directory lets it.
    let is_open = shared.settings.access == Access::Group;
    if peer.uid() != own && peer.uid() != 0 && !is_open {
        return;
    }
    let (read, mut write) = stream.into_split();
    let mut reader = Reader::new(read, &shared);
    let welcomed = match reader.first(shared.settings.patience).await {
        Ok(Some(frame)) => greet(&frame, &shared),
        Ok(None) => return,
        Err(error) => Err(Failure::new(ErrorCode::InvalidRequest, error.to_string())),
    };
    let (client, share, welcome) = match welcomed {
        Ok((hello, welcome)) => {
            let client = match &hello.client_id {
                // Of another user the same name is another client.
                Some(id) => Client::Named(format!("{} {id}", peer.uid())),
                None => Client::OfUser(peer.uid()),
            };
            let share = match hello.is_batch() {
                true => Share::Batch,
                false => Share::Interactive,
            };
            (client, share, welcome)
        }
        Err(failure) => {
            // Whoever can't take it in has gone.
            let _ = send(&mut write, &payload(&failure), &shared.settings).await;
            return;
        }
    };
    if send(&mut write, &welcome, &shared.settings).await.is_err() {
        return;
    }
    let unanswered = Unanswered::default();
    let (jobs, queue) = mpsc::channel(UNSENT);
    let answering = tokio::spawn({
        let (shared, unanswered) = (shared.clone(), unanswered.clone());
        async move { answer_all(queue, write, &shared, &unanswered, &client, share).await }
    });
    reader.read_all(&jobs, &unanswered, &shared).await;
    drop(jobs);
    // What was asked is answered, if only by saying that it was cancelled.
    let _ = answering.await;
}

/// Decides about the first message.
fn greet(frame: &[u8], shared: &Shared) -> Result<(Hello, Vec<u8>), Failure> {
    let (hello, welcome) = receive(frame, shared.service.store(), &PROTOCOL_VERSIONS)?;
    Ok((hello, payload(&welcome)))
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the message did not come within {0:?}")]
    Late(Duration),
    #[error("the connection can't be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads frames.
struct Reader {
    read: OwnedReadHalf,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// What of the buffer was not taken yet.
    rest: std::ops::Range<usize>,
}

impl Reader {
    fn new(read: OwnedReadHalf, shared: &Shared) -> Reader {
        Reader {
            read,
            decoder: Decoder::new(shared.settings.max_request_bytes),
            buffer: vec![0; READ],
            rest: 0..0,
        }
    }

    /// Returns the next frame that has come already, if one has.
    fn ready(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let mut rest = &self.buffer[self.rest.clone()];
        let frame = self.decoder.take(&mut rest)?;
        self.rest.start = self.rest.end - rest.len();
        Ok(frame)
    }

    /// Waits for more bytes; returns false at the end of the stream. Losing this future loses nothing.
    async fn more(&mut self) -> io::Result<bool> {
        let read = self.read.read(&mut self.buffer).await?;
        self.rest = 0..read;
        Ok(read > 0)
    }

    /// Waits until the client has closed its end, without reading what it sent before.
    async fn gone(&self) {
        loop {
            sleep(GLANCE).await;
            let ready = self.read.ready(tokio::io::Interest::READABLE).await;
            if ready.is_ok_and(|ready| ready.is_read_closed()) {
                return;
            }
        }
    }

    /// Reads the first frame; `None` at the end of the stream.
    async fn first(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, Unread> {
        let first = async {
            loop {
                if let Some(frame) = self.ready()? {
                    return Ok(Some(frame));
                }
                if !self.more().await? {
                    self.decoder.end()?;
                    return Ok(None);
                }
            }
        };
        let first = timeout(patience, first).await;
        first.unwrap_or(Err(Unread::Late(patience)))
    }

    /// Reads requests until the client goes, something is wrong with the stream, or the daemon ends. Whatever is not answered then is
    /// cancelled.
    async fn read_all(
        &mut self,
        jobs: &mpsc::Sender<Job>,
        unanswered: &Unanswered,
        shared: &Shared,
    ) {
        let mut ending = shared.ending.subscribe();
        // When the message began that is being read, and since when nothing has come.
        let (mut begun, mut silent) = (None, tokio::time::Instant::now());
        let last = loop {
            let frame = match self.ready() {
                Ok(frame) => frame,
                Err(error) => break Some(Unread::Frame(error)),
            };
            if let Some(frame) = frame {
                begun = None;
                let job = job(&frame, unanswered, shared);
                tokio::select! {
                    _ = ending.wait_for(|ending| *ending) => break None,
                    sent = jobs.send(job) => if sent.is_err() { break None },
                    () = self.gone() => break None,
                }
                continue;
            }
            let now = tokio::time::Instant::now();
            let (patience, until) = match self.decoder.is_within() {
                // Whatever of it came meanwhile.
                true => {
                    let patience = shared.settings.patience;
                    (patience, *begun.get_or_insert(now) + patience)
                }
                false => {
                    let patience = match shared.is_crowded() {
                        true => shared.settings.idle.min(CROWDED),
                        false => shared.settings.idle,
                    };
                    (patience, (silent + patience).min(now + LOOK))
                }
            };
            let read = tokio::select! {
                _ = ending.wait_for(|ending| *ending) => break None,
                read = timeout_at(until, self.more()) => read,
                // Nobody takes in answers any more.
                () = jobs.closed() => break None,
            };
            match read {
                Ok(Ok(true)) => silent = tokio::time::Instant::now(),
                Ok(Ok(false)) => break self.decoder.end().err().map(Unread::Frame),
                Ok(Err(error)) => break Some(Unread::Io(error)),
                // Who waits for an answer is not silent.
                Err(_) if !self.decoder.is_within() && !unanswered.is_empty() => {
                    silent = tokio::time::Instant::now();
                }
                Err(_) if !self.decoder.is_within() && silent.elapsed() < patience => {}
                Err(_) => break Some(Unread::Late(patience)),
            }
        };
        if let Some(why) = last {
            let failure = Failure::new(ErrorCode::InvalidRequest, why.to_string());
            // Where there is no room for it, the client does not listen.
            let _ = jobs.try_send(Job::Say(payload(&failure)));
        }
        unanswered.cancel_all();
    }
}

/// Makes of a frame what is to be done.
fn job(frame: &[u8], unanswered: &Unanswered, shared: &Shared) -> Job {
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(refused) => {
            let failure = Failure::new(ErrorCode::InvalidRequest, refused.message);
            return Job::Say(payload(&failure.of(refused.request_id)));
        }
    };
    let bytes = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let backlog = shared.backlog.clone().try_acquire_many_owned(bytes);
    match (&request.asked, request.id) {
        (Asked::Cancel, Some(id)) => Job::Say(payload(&Acknowledged {
            done: unanswered.cancel(&id),
            request_id: Some(id),
        })),
        (_, id) if unanswered.is_full() => {
            let message = format!("{PIPELINE} requests of this connection wait for their answers");
            let failure = shared.gate.refuse(&message);
            Job::Say(payload(&failure.of(id)))
        }
        (_, id) => {
            let Ok(backlog) = backlog else {
                let failure = shared.gate.refuse("too much is waiting to be begun");
                return Job::Say(payload(&failure.of(id)));
            };
            // So that also a refusal can be told from others. In deterministic mode the id is made of what is asked.
            let id = match &request.asked {
                Asked::Search(query) if !query.deterministic => {
                    id.or_else(|| Some(shared.service.new_id()))
                }
                Asked::Tool(_) => id.or_else(|| Some(shared.service.new_id())),
                _ => id,
            };
            let active = unanswered.add(id);
            let now = shared.service.clock().now();
            *shared.asked.lock().unwrap_or_else(PoisonError::into_inner) = now;
            Job::Ask(request.asked, active, now, backlog)
        }
    }
}

async fn answer_all(
    mut queue: mpsc::Receiver<Job>,
    mut write: OwnedWriteHalf,
    shared: &Arc<Shared>,
    unanswered: &Unanswered,
    client: &Client,
    share: Share,
) {
    while let Some(job) = queue.recv().await {
        let (answer, ends) = match job {
            Job::Say(answer) => (answer, false),
            Job::Ask(asked, active, came, backlog) => {
                drop(backlog);
                let ends = asked == Asked::Shutdown;
                let coming = Coming {
                    active: &active,
                    client,
                    share,
                    came,
                };
                let answer = answer(asked, coming, shared).await;
                unanswered.remove(&active);
                (answer, ends)
            }
        };
        let sent = send(&mut write, &answer, &shared.settings).await;
        if ends {
            shared.ending.send_replace(true);
        }
        if sent.is_err() {
            unanswered.cancel_all();
            return;
        }
    }
}

async fn send(write: &mut OwnedWriteHalf, answer: &[u8], settings: &Settings) -> io::Result<()> {
    let frame = encode(answer, settings.max_response_bytes);
    let frame = match frame {
        Ok(frame) => frame,
        Err(error) => {
            let failure = Failure::new(
                ErrorCode::Internal,
                format!("the answer is too long: {error}"),
            );
            encode(&payload(&failure), usize::MAX).map_err(io::Error::other)?
        }
    };
    let written = timeout(settings.patience, write.write_all(&frame)).await;
    written.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// A request that is to be let in, and when it came.
struct Coming<'a> {
    active: &'a Arc<Active>,
    client: &'a Client,
    share: Share,
    came: Instant,
}

/// Answers a request, and counts it if it is a query.
async fn answer(asked: Asked, coming: Coming<'_>, shared: &Arc<Shared>) -> Vec<u8> {
    // How long it may wait, and what is noted of it whatever becomes of it.
    let (asked_for, facts) = match &asked {
        Asked::Search(query) => (
            query.timeout_ms.map(Duration::from_millis),
            Some(Facts::asked(query)),
        ),
        Asked::Tool(call) => (Some(shared.service.time_of(call)), None),
        Asked::Status | Asked::Health | Asked::Metrics => return inspect(asked, shared).await,
        Asked::Shutdown | Asked::Cancel => {
            return payload(&Acknowledged {
                done: true,
                request_id: coming.active.id.clone(),
            });
        }
    };
    let most = shared.settings.timeout;
    let time = asked_for.map_or(most, |time| time.min(most));
    let (came, clock) = (coming.came, shared.service.clock().clone());
    let deadline = Deadline::since(came, time, clock.clone());
    let (mut answer, waited) = match let_in(&coming, &deadline, shared).await {
        Ok(permit) => {
            let waited = clock.now().saturating_duration_since(came);
            let deadline = match &asked {
                // A tool keeps to its own time, and answers with what it has found by then.
                Asked::Tool(_) => Deadline::since(came, most, clock.clone()),
                _ => deadline,
            };
            let answer = run(asked, permit, &coming, deadline, waited, shared).await;
            (answer, waited)
        }
        Err(failure) => {
            let waited = clock.now().saturating_duration_since(came);
            (Answer::from(failure.of(coming.active.id.clone())), waited)
        }
    };
    let took = clock.now().saturating_duration_since(came);
    answer.facts = answer.facts.or(facts);
    shared.metrics.ended(&answer, waited, took);
    note(&answer, coming.active, waited, took);
    answer.payload
}

/// Writes a query to the log: what it was about stays out.
fn note(answer: &Answer, active: &Active, waited: Duration, took: Duration) {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let facts = answer.facts.clone().unwrap_or_default();
    tracing::info!(
        target: "forge_search::query",
        request_id = facts.request_id.as_deref().or(active.id.as_deref()),
        snapshot_id = facts.snapshot_id,
        profile = facts.profile,
        max_results = facts.max_results,
        per_file = facts.per_file,
        snippet = facts.snippet,
        admission_ms = ms(waited),
        snapshot_read_ms = facts.timings.snapshot_read,
        retrieve_ms = facts.timings.retrieve,
        rank_ms = facts.timings.rank,
        format_ms = facts.timings.format,
        total_ms = ms(took),
        status = answer.outcome.as_str(),
    );
}

/// Says how the daemon is. That never waits for queries, and queries don't wait for it.
async fn inspect(asked: Asked, shared: &Arc<Shared>) -> Vec<u8> {
    let (counts, (running, waiting)) = (shared.metrics.counts(), shared.gate.counts());
    if asked == Asked::Metrics {
        return payload(&Exposition {
            content_type: "text/plain; version=0.0.4; charset=utf-8".to_string(),
            text: exposition(&counts, running, waiting),
        });
    }
    let turns = match asked {
        Asked::Health => &shared.healths,
        _ => &shared.statuses,
    };
    let busy = || {
        let message = "others ask the same at this moment";
        let mut failure = Failure::new(ErrorCode::Busy, message);
        failure.error.retry_after_ms = Some(250);
        payload(&failure)
    };
    let Ok(Ok(_turn)) = timeout(shared.settings.patience, turns.acquire()).await else {
        return busy();
    };
    let service = shared.service.clone();
    let looked = tokio::task::spawn_blocking(move || match asked {
        Asked::Health => payload(&service.health()),
        _ => payload(&service.status(&Load {
            counts,
            running,
            waiting,
        })),
    });
    looked.await.unwrap_or_else(|_| {
        let message = "looking ended in an unexpected way; please report how to repeat it";
        payload(&Failure::new(ErrorCode::Internal, message))
    })
}

/// Waits at the gate, but no longer than the answer may take or is wanted.
async fn let_in(
    coming: &Coming<'_>,
    deadline: &Deadline,
    shared: &Shared,
) -> Result<Permit, Failure> {
    if let Some(reason) = coming.active.ending.reason() {
        return Err(ended(reason));
    }
    tokio::select! {
        permit = shared.gate.enter(coming.client, coming.share) => permit,
        () = sleep(deadline.remaining()) => Err(ended(StopReason::TimedOut)),
        () = coming.active.told.notified() => Err(ended(StopReason::Cancelled)),
    }
}

/// Runs a search on a thread that may block.
fn on_pool(search: impl FnOnce() -> Answer + Send + 'static) -> oneshot::Receiver<Answer> {
    let (tell, told) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        // Nobody hears it whose client has gone.
        let _ = tell.send(search());
    });
    told
}

/// Runs a search on a thread of its own with a lower priority, which threads that it starts have as well. A thread can't take that
/// back, so it ends with the search.
fn behind(search: impl FnOnce() -> Answer + Send + 'static) -> oneshot::Receiver<Answer> {
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("forge-search-behind".to_string());
    let started = thread.spawn(move || {
        stand_back();
        let _ = tell.send(search());
    });
    // Without a thread there is no answer, which is said.
    drop(started);
    told
}

/// Searches on a thread that may block.
async fn run(
    asked: Asked,
    permit: Permit,
    coming: &Coming<'_>,
    deadline: Deadline,
    waited: Duration,
    shared: &Arc<Shared>,
) -> Answer {
    let (active, came) = (coming.active, coming.came);
    let (shared, running) = (shared.clone(), active.clone());
    let left = deadline.clone();
    let (stands_back, queued) = (permit.stands_back(), permit.was_queued());
    let search = move || {
        // Until the search has really ended.
        let _permit = permit;
        let admitted = Admitted {
            id: running.id.clone(),
            ending: &running.ending,
            deadline,
            came: Some(came),
            waited,
            queued,
            max_response_bytes: shared.settings.max_response_bytes,
            stands_back,
        };
        match &asked {
            Asked::Tool(call) => shared.service.call(call, admitted),
            Asked::Search(query) => shared.service.answer(query, admitted),
            // Those are not let in.
            _ => Failure::new(ErrorCode::Internal, "this is no query").into(),
        }
    };
    let mut search = match stands_back {
        false => on_pool(search),
        true => behind(search),
    };
    let late = async {
        sleep(left.remaining()).await;
        active.ending.end(StopReason::TimedOut);
        sleep(GRACE).await;
    };
    let id = || active.id.clone();
    tokio::select! {
        answer = &mut search => answer.unwrap_or_else(|_| {
            let message = "the query ended in an unexpected way; please report how to repeat it";
            Failure::new(ErrorCode::Internal, message).of(id()).into()
        }),
        () = late => ended(StopReason::TimedOut).of(id()).into(),
    }
}
