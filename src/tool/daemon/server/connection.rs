//! One connection: reads its requests, and answers them in order.
//!
//! This module owns two tasks. The reading task notices at once when a request is cancelled or the
//! client disconnects. The answering task answers one request after the other.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, timeout, timeout_at};

use super::dispatch::{PendingRequest, answer, note};
use super::{Settings, Shared};
use crate::exec::stop::StopReason;
use crate::format::mutex::lock;
use crate::tool::daemon::admission::{Client, Share};
use crate::tool::daemon::frame::{Decoder, FrameError, encode};
use crate::tool::daemon::handshake::{PROTOCOL_VERSIONS, receive};
use crate::tool::daemon::person_search;
use crate::tool::daemon::reply::{Acknowledged, ErrorCode, Failure};
use crate::tool::daemon::request::{Hello, Request, RequestBody};
use crate::tool::daemon::service::{Answer, RequestStop, payload};
use crate::tool::daemon::socket::Access;

/// The most unanswered requests of one connection. A further one is refused instead of delaying the
/// reading task, so that cancellations still arrive.
const PIPELINE: usize = 32;

/// The most unsent answers of one connection, refusals included. At the limit the server stops
/// reading from it.
const UNSENT: usize = 1_024;

/// How many messages of an answer may wait to be sent before its search pauses.
const PARTS: usize = 4;

/// How long a client may take to receive a message of an answer, except for the last one.
const SLOW: Duration = Duration::from_secs(5);

/// The interval of keep-alive messages while a search sends nothing else.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// The size of a read, in bytes.
const READ: usize = 16 << 10;

/// How long a connection may be silent while more than three quarters of all connections are in
/// use.
const CROWDED: Duration = Duration::from_secs(10);

/// How often a silent connection checks for that.
const LOOK: Duration = Duration::from_secs(5);

/// How often the server checks whether a client has disconnected while it reads nothing from it.
const GLANCE: Duration = Duration::from_millis(50);

/// An unanswered request of a connection.
#[derive(Debug, Default)]
pub(super) struct Active {
    pub(super) id: Option<String>,
    pub(super) ending: RequestStop,
    /// Notified when `ending` is set.
    pub(super) stop_signal: Notify,
    /// Whether the client cancelled the request by its id.
    is_cancelled: AtomicBool,
}

impl Active {
    fn end(&self, reason: StopReason) {
        self.ending.end(reason);
        self.stop_signal.notify_one();
    }

    /// Returns whether the client itself cancelled the request by its id.
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }
}

/// The unanswered requests of a connection, in order.
#[derive(Clone, Debug, Default)]
struct PendingRequests(Arc<Mutex<Vec<Arc<Active>>>>);

impl PendingRequests {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Active>>> {
        lock(&self.0)
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

    /// Cancels the requests with an id; returns whether there was one.
    fn cancel(&self, id: &str) -> bool {
        let all = self.lock();
        let meant = all.iter().filter(|one| one.id.as_deref() == Some(id));
        let cancelled = meant.map(|one| {
            one.is_cancelled.store(true, Ordering::SeqCst);
            one.end(StopReason::Cancelled);
        });
        cancelled.count() > 0
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

/// A job that the reading task hands to the answering task.
enum Job {
    /// A request, when it was received, and its part of the backlog. The request is boxed, since
    /// each connection allocates its queue at the start.
    Ask(Box<RequestBody>, Arc<Active>, Instant, OwnedSemaphorePermit),
    /// A message to send as it is.
    Say(Vec<u8>),
}

/// Serves a connection until its end.
pub(super) async fn serve(stream: UnixStream, shared: Arc<Shared>) {
    let Ok(peer) = stream.peer_cred() else { return };
    let own = rustix::process::geteuid().as_raw();
    // Not every system checks the mode of the socket, so the user is checked here as well. Members
    // of the group are admitted by the mode of the directory.
    let is_open = shared.settings.access == Access::Group;
    if peer.uid() != own && peer.uid() != 0 && !is_open {
        return;
    }
    let (read, mut write) = stream.into_split();
    let mut reader = Reader::new(read, &shared);
    let welcomed = match reader.first(&shared).await {
        Ok(Some(frame)) => greet(&frame, &shared),
        Ok(None) => return,
        Err(error) => Err(Failure::new(ErrorCode::InvalidRequest, error.to_string())),
    };
    let (client, share, welcome) = match welcomed {
        Ok((hello, welcome)) => {
            let client = match &hello.client_id {
                // The same name of another user is another client.
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
            // A client that can't receive the failure has disconnected.
            let _ = send(&mut write, &payload(&failure), &shared.settings).await;
            return;
        }
    };
    if send(&mut write, &welcome, &shared.settings).await.is_err() {
        return;
    }
    let unanswered = PendingRequests::default();
    let (jobs, queue) = mpsc::channel(UNSENT);
    let answering = tokio::spawn({
        let (shared, unanswered) = (shared.clone(), unanswered.clone());
        async move { answer_all(queue, write, &shared, &unanswered, &client, share).await }
    });
    reader.read_all(&jobs, &unanswered, &shared).await;
    drop(jobs);
    // Every request gets an answer, if only that it was cancelled.
    let _ = answering.await;
}

/// Checks the first message, and returns the handshake and its answer.
fn greet(frame: &[u8], shared: &Shared) -> Result<(Hello, Vec<u8>), Failure> {
    let (hello, welcome) = receive(frame, shared.service.served(), &PROTOCOL_VERSIONS)?;
    Ok((hello, payload(&welcome)))
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the message did not come within {0:?}")]
    Late(Duration),
    #[error("the connection can't be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads the frames of a connection.
struct Reader {
    read: OwnedReadHalf,
    decoder: Decoder,
    /// The last bytes that were read. A silent connection has no buffer.
    buffer: Vec<u8>,
    /// Where the unread rest of the buffer begins.
    taken: usize,
}

impl Reader {
    fn new(read: OwnedReadHalf, shared: &Shared) -> Reader {
        Reader {
            read,
            decoder: Decoder::new(shared.settings.max_request_bytes),
            buffer: Vec::new(),
            taken: 0,
        }
    }

    /// Returns the next frame if all of it has been read.
    fn ready(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let mut rest = self.buffer.get(self.taken..).unwrap_or_default();
        let frame = self.decoder.take(&mut rest)?;
        self.taken = self.buffer.len() - rest.len();
        if rest.is_empty() {
            (self.buffer, self.taken) = (Vec::new(), 0);
        }
        Ok(frame)
    }

    /// Waits for more bytes; returns false at the end of the stream. Cancel safe.
    async fn more(&mut self) -> io::Result<bool> {
        loop {
            self.read.readable().await?;
            let mut buffer = vec![0; READ];
            match self.read.try_read(&mut buffer) {
                Ok(read) => {
                    buffer.truncate(read);
                    (self.buffer, self.taken) = (buffer, 0);
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the client has closed its end, without reading anything.
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
    async fn first(&mut self, shared: &Shared) -> Result<Option<Vec<u8>>, ReadError> {
        let began = tokio::time::Instant::now();
        loop {
            if let Some(frame) = self.ready()? {
                return Ok(Some(frame));
            }
            let patience = match shared.is_crowded() {
                true => shared.settings.patience.min(CROWDED),
                false => shared.settings.patience,
            };
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(ReadError::Late(patience));
            }
            match timeout(left.min(LOOK), self.more()).await {
                Ok(Ok(true)) | Err(_) => {}
                Ok(Ok(false)) => {
                    self.decoder.end()?;
                    return Ok(None);
                }
                Ok(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// Reads requests until the client disconnects, the stream is malformed, or the daemon ends.
    /// Then cancels every unanswered request.
    async fn read_all(
        &mut self,
        jobs: &mpsc::Sender<Job>,
        unanswered: &PendingRequests,
        shared: &Shared,
    ) {
        let mut ending = shared.ending.subscribe();
        // When the current message began, and since when the connection has been silent.
        let (mut begun, mut silent) = (None, tokio::time::Instant::now());
        let last = loop {
            let frame = match self.ready() {
                Ok(frame) => frame,
                Err(error) => break Some(ReadError::Frame(error)),
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
                // Further bytes don't extend the time limit of a message that has begun.
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
                // The answering task has ended.
                () = jobs.closed() => break None,
            };
            match read {
                Ok(Ok(true)) => silent = tokio::time::Instant::now(),
                Ok(Ok(false)) => break self.decoder.end().err().map(ReadError::Frame),
                Ok(Err(error)) => break Some(ReadError::Io(error)),
                // A client that waits for an answer is not silent.
                Err(_) if !self.decoder.is_within() && !unanswered.is_empty() => {
                    silent = tokio::time::Instant::now();
                }
                Err(_) if !self.decoder.is_within() && silent.elapsed() < patience => {}
                Err(_) => break Some(ReadError::Late(patience)),
            }
        };
        if let Some(why) = last {
            let failure = Failure::new(ErrorCode::InvalidRequest, why.to_string());
            // If the queue is full, the client does not read its answers.
            let _ = jobs.try_send(Job::Say(payload(&failure)));
        }
        unanswered.cancel_all();
    }
}

/// Turns a frame into a job.
fn job(frame: &[u8], unanswered: &PendingRequests, shared: &Shared) -> Job {
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(wrong) => {
            let failure = Failure::new(ErrorCode::InvalidRequest, wrong.message);
            return refused(failure.of(wrong.request_id), shared);
        }
    };
    let bytes = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let backlog = shared.backlog.clone().try_acquire_many_owned(bytes);
    match (&request.body, request.id) {
        (RequestBody::Cancel, Some(id)) => Job::Say(payload(&Acknowledged {
            done: unanswered.cancel(&id),
            request_id: Some(id),
        })),
        (_, id) if unanswered.is_full() => {
            let message = format!("{PIPELINE} requests of this connection are waiting for answers");
            refused(shared.gate.refuse(&message).of(id), shared)
        }
        (_, id) => {
            let Ok(backlog) = backlog else {
                let failure = shared
                    .gate
                    .refuse("too many bytes of requests are waiting to start");
                return refused(failure.of(id), shared);
            };
            // An id lets clients tell refusals apart. In deterministic mode it is computed from the
            // query.
            let needs_one = match &request.body {
                RequestBody::Search(query) => !query.deterministic,
                body => matches!(body, RequestBody::Tool(_)),
            };
            let id = id.or_else(|| needs_one.then(|| shared.service.new_id()));
            let active = unanswered.add(id);
            let now = shared.service.clock().now();
            *lock(&shared.asked) = now;
            Job::Ask(Box::new(request.body), active, now, backlog)
        }
    }
}

/// Refuses a request before it gets to the gate. It counts like a refusal by the gate.
fn refused(failure: Failure, shared: &Shared) -> Job {
    let answer = Answer::from(failure);
    shared.metrics.refused(&answer);
    note(&answer, None, Duration::ZERO, Duration::ZERO, shared);
    Job::Say(answer.payload)
}

async fn answer_all(
    mut queue: mpsc::Receiver<Job>,
    mut write: OwnedWriteHalf,
    shared: &Arc<Shared>,
    unanswered: &PendingRequests,
    client: &Client,
    share: Share,
) {
    while let Some(job) = queue.recv().await {
        let (answer, ends) = match job {
            Job::Say(answer) => (answer, false),
            Job::Ask(body, active, received_at, backlog) => {
                drop(backlog);
                let ends = *body == RequestBody::Shutdown;
                let (parts, mut sent) = mpsc::channel(PARTS);
                let pending = PendingRequest {
                    parts,
                    active: &active,
                    client,
                    share,
                    received_at,
                };
                let answering = answer(*body, pending, shared);
                let answer = send_parts(answering, &mut sent, &mut write, &shared.settings).await;
                unanswered.remove(&active);
                match answer {
                    Ok(answer) => (answer, ends),
                    Err(_) => {
                        unanswered.cancel_all();
                        return;
                    }
                }
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

/// Sends the messages of an answer while the search produces them; returns the last one, unsent.
///
/// # Errors
///
/// An [`io::Error`] if the client does not receive a message in time.
async fn send_parts(
    answering: impl Future<Output = Vec<u8>>,
    parts: &mut mpsc::Receiver<Vec<u8>>,
    write: &mut OwnedWriteHalf,
    settings: &Settings,
) -> io::Result<Vec<u8>> {
    // A search of a slow client keeps its permit for no longer than this.
    let settings = Settings {
        patience: settings.patience.min(SLOW),
        ..*settings
    };
    let mut answering = pin!(answering);
    let mut has_begun = false;
    let last = loop {
        tokio::select! {
            // Messages that were queued before the last one are sent first.
            biased;
            Some(part) = parts.recv() => {
                has_begun = true;
                send(write, &part, &settings).await?;
            }
            last = &mut answering => break last,
            () = sleep(SIGN_OF_LIFE), if has_begun => {
                send(write, &person_search::going_on(), &settings).await?;
            }
        }
    };
    while let Ok(part) = parts.try_recv() {
        send(write, &part, &settings).await?;
    }
    Ok(last)
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
