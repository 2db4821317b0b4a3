//! The transport: lines of JSON on standard input and output.
//!
//! This module owns the order of messages, batches, and the detection that a client has
//! disconnected. A client's notice that its directories have changed applies to every later
//! message. The library handles messages concurrently, so the notice is counted here, before the
//! next message is passed on.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc as sync_mpsc;
use std::sync::{Arc, Mutex};
use std::thread;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, GetMeta, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};

use super::message::{self, Refusal};
use crate::format::mutex::lock;

/// The longest line of input, in bytes.
const LONGEST: u64 = 16 << 20;

/// How many lines are read ahead.
const AHEAD: usize = 64;

/// The state of a client, as observed at its input and output.
#[derive(Debug, Default)]
pub struct ClientState {
    /// How often the client has announced that its directories have changed.
    pub changes: AtomicU64,
    /// Whether its input has ended.
    pub ended: watch::Sender<bool>,
    /// Whether it has closed the output.
    pub closed: watch::Sender<bool>,
}

/// A line of the input, without its line end.
#[derive(Debug, PartialEq)]
enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// The transport of one client.
#[derive(Debug)]
pub struct LineTransport {
    lines: mpsc::Receiver<Line>,
    /// The messages of a batch that were not passed on yet.
    ready: VecDeque<ClientJsonRpcMessage>,
    outbox: Arc<Outbox>,
    client: Arc<ClientState>,
    /// Whether a request has begun the session. Earlier messages have no effect.
    begun: bool,
}

impl LineTransport {
    /// Builds a transport that reads `input` and writes `output`, each on a thread of its own.
    ///
    /// # Errors
    ///
    /// An [`io::Error`] if a thread can't start.
    pub fn new(
        input: impl BufRead + Send + 'static,
        output: impl Write + Send + 'static,
        client: Arc<ClientState>,
    ) -> io::Result<LineTransport> {
        let (line_sender, lines) = mpsc::channel(AHEAD);
        let (writer, outgoing) = sync_mpsc::channel();
        let state = client.clone();
        named("mcp-input").spawn(move || {
            read_lines(input, &line_sender);
            state.ended.send_replace(true);
        })?;
        let state = client.clone();
        named("mcp-output").spawn(move || write_lines(output, &outgoing, &state))?;
        Ok(LineTransport {
            lines,
            ready: VecDeque::new(),
            outbox: Arc::new(Outbox {
                writer,
                batches: Mutex::default(),
                open: Mutex::default(),
            }),
            client,
            begun: false,
        })
    }

    /// Processes a line; returns its answer if it gets one immediately.
    fn take_in(&mut self, line: &Line) -> Option<String> {
        let line = match line {
            Line::Text(line) => line.trim_ascii(),
            Line::TooLong => {
                let message = format!("the message is longer than {LONGEST} bytes");
                return Some(Refusal::new(ErrorCode::PARSE_ERROR, message).to_json());
            }
        };
        match line.first() {
            None => None,
            Some(b'[') => self.take_in_batch(line),
            Some(_) => {
                let read = message::read(line).and_then(|message| self.unless_open(message));
                match read {
                    Ok(message) => {
                        self.hand_on(message);
                        None
                    }
                    Err(refusal) => Some(refusal.to_json()),
                }
            }
        }
    }

    /// Processes the messages of a batch, which only the revision 2025-03-26 has.
    fn take_in_batch(&mut self, line: &[u8]) -> Option<String> {
        let refuse = |code, message: &str| Some(Refusal::new(code, message).to_json());
        let Ok(parts) = serde_json::from_slice::<Vec<&RawValue>>(line) else {
            let message = "the message is not valid JSON, or not valid UTF-8";
            return refuse(ErrorCode::PARSE_ERROR, message);
        };
        if !self.outbox.batches().are_allowed {
            let message = "this version of the protocol has no batches; send each message on its \
                 own line";
            return refuse(ErrorCode::INVALID_REQUEST, message);
        }
        if parts.is_empty() {
            return refuse(ErrorCode::INVALID_REQUEST, "the batch is empty");
        }
        let mut batch = Batch::default();
        let mut messages = Vec::new();
        for part in parts {
            let read = message::read(part.get().as_bytes());
            match read.and_then(|message| self.unless_open(message)) {
                Ok(message) => {
                    if let Some(JsonRpcMessage::Request(request)) = &message {
                        batch.waits_for.push(request.id.clone());
                    }
                    messages.push(message);
                }
                Err(refusal) => batch.answers.push(refusal.to_json()),
            }
        }
        let complete = self.outbox.begin(batch);
        for message in messages {
            self.hand_on(message);
        }
        complete
    }

    /// Refuses a request with the id of another unanswered one.
    fn unless_open(
        &self,
        message: Option<ClientJsonRpcMessage>,
    ) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        if let Some(JsonRpcMessage::Request(request)) = &message
            && !self.outbox.open(&request.id)
        {
            let why = "another request with this id is still being answered";
            return Err(Refusal::new(ErrorCode::INVALID_REQUEST, why).of(request.id.clone()));
        }
        Ok(message)
    }

    fn hand_on(&mut self, message: Option<ClientJsonRpcMessage>) {
        match &message {
            Some(JsonRpcMessage::Request(request)) => {
                let is_initialize = matches!(request.request, ClientRequest::InitializeRequest(_));
                let meta = request.request.get_meta();
                self.begun |= is_initialize || meta.protocol_version().is_some();
            }
            Some(_) if !self.begun => return,
            _ => {}
        }
        if let Some(JsonRpcMessage::Notification(told)) = &message {
            match &told.notification {
                ClientNotification::RootsListChangedNotification(_) => {
                    self.client.changes.fetch_add(1, Ordering::SeqCst);
                }
                ClientNotification::CancelledNotification(cancelled) => {
                    // The library does not answer a cancelled request, so its batch must not wait
                    // for it.
                    if let Some(id) = &cancelled.params.request_id {
                        self.outbox.close(id);
                        self.outbox.give_up(id);
                    }
                }
                _ => {}
            }
        }
        self.ready.extend(message);
    }
}

impl Transport<RoleServer> for LineTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let sent = self.outbox.send(&item);
        async move {
            match sent {
                None => Ok(()),
                Some(sent) => written(sent).await,
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            let line = self.lines.recv().await?;
            if let Some(answer) = self.take_in(&line) {
                // No further line is read until the client has read this answer.
                written(self.outbox.write(answer)).await.ok()?;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The queue of output lines, and the state of requests and batches.
#[derive(Debug)]
struct Outbox {
    writer: sync_mpsc::Sender<Outgoing>,
    batches: Mutex<Batches>,
    /// The unanswered requests.
    open: Mutex<Vec<RequestId>>,
}

/// A line to write.
#[derive(Debug)]
struct Outgoing {
    line: String,
    written: oneshot::Sender<io::Result<()>>,
}

#[derive(Debug, Default)]
struct Batches {
    /// Whether the negotiated revision has batches.
    are_allowed: bool,
    open: Vec<Batch>,
}

/// A batch with unanswered requests.
#[derive(Debug, Default)]
struct Batch {
    waits_for: Vec<RequestId>,
    answers: Vec<String>,
}

impl Batch {
    /// Serializes the answers once all exist, if there are any.
    fn complete(&self) -> Option<String> {
        let is_complete = self.waits_for.is_empty() && !self.answers.is_empty();
        is_complete.then(|| format!("[{}]", self.answers.join(",")))
    }
}

impl Batches {
    /// Records that a request is answered, or never will be; returns the answer of its batch if
    /// that is complete now. `None` if the request belongs to no batch.
    fn settle(&mut self, id: &RequestId, answer: Option<String>) -> Option<Option<String>> {
        let is_of = |batch: &Batch| batch.waits_for.contains(id);
        let at = self.open.iter().position(is_of)?;
        let batch = self.open.get_mut(at)?;
        batch.waits_for.retain(|waiting| waiting != id);
        batch.answers.extend(answer);
        if !batch.waits_for.is_empty() {
            return Some(None);
        }
        Some(self.open.remove(at).complete())
    }
}

impl Outbox {
    fn batches(&self) -> std::sync::MutexGuard<'_, Batches> {
        lock(&self.batches)
    }

    /// Records a request. Returns false if another one with its id is unanswered.
    fn open(&self, id: &RequestId) -> bool {
        let mut open = lock(&self.open);
        let is_new = !open.contains(id);
        if is_new {
            open.push(id.clone());
        }
        is_new
    }

    /// Records that a request is answered, or never will be.
    fn close(&self, id: &RequestId) {
        let mut open = lock(&self.open);
        open.retain(|other| other != id);
    }

    /// Queues a line; returns a receiver of the outcome of writing it.
    fn write(&self, line: String) -> oneshot::Receiver<io::Result<()>> {
        let (written, sent) = oneshot::channel();
        // If the thread has ended, the receiver gets an error.
        let _ = self.writer.send(Outgoing { line, written });
        sent
    }

    /// Sends a message: immediately, or with the other answers of its batch.
    fn send(&self, item: &ServerJsonRpcMessage) -> Option<oneshot::Receiver<io::Result<()>>> {
        let line = serde_json::to_string(item).unwrap_or_default();
        let id = match item {
            JsonRpcMessage::Response(response) => {
                if let ServerResult::InitializeResult(about) = &response.result {
                    self.batches().are_allowed =
                        about.protocol_version == ProtocolVersion::V_2025_03_26;
                }
                Some(&response.id)
            }
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let Some(id) = id else {
            return Some(self.write(line));
        };
        self.close(id);
        let mut batches = self.batches();
        match batches.settle(id, Some(line.clone())) {
            None => Some(self.write(line)),
            Some(complete) => complete.map(|line| self.write(line)),
        }
    }

    /// Records a batch; returns its answer if it is complete already.
    fn begin(&self, batch: Batch) -> Option<String> {
        let complete = batch.complete();
        if !batch.waits_for.is_empty() {
            self.batches().open.push(batch);
        }
        complete
    }

    /// Records that a request will not be answered.
    fn give_up(&self, id: &RequestId) {
        let complete = self.batches().settle(id, None);
        if let Some(line) = complete.flatten() {
            // No caller waits until this is written.
            drop(self.write(line));
        }
    }
}

async fn written(sent: oneshot::Receiver<io::Result<()>>) -> io::Result<()> {
    sent.await
        .unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(format!("forge-search-{name}"))
}

/// Reads lines until the input ends or the transport is dropped.
fn read_lines(mut input: impl BufRead, lines: &mpsc::Sender<Line>) {
    loop {
        let mut line = Vec::new();
        let read = (&mut input).take(LONGEST + 1).read_until(b'\n', &mut line);
        let line = match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) | Ok(0) => return,
            Ok(count) if count as u64 > LONGEST => {
                if !line.ends_with(b"\n") && input.skip_until(b'\n').is_err() {
                    return;
                }
                Line::TooLong
            }
            Ok(_) => Line::Text(line),
        };
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Writes lines until the transport is dropped or the output is closed.
fn write_lines(
    mut output: impl Write,
    outgoing: &sync_mpsc::Receiver<Outgoing>,
    client: &ClientState,
) {
    for Outgoing { line, written } in outgoing {
        let done = output
            .write_all(line.as_bytes())
            .and_then(|()| output.write_all(b"\n"))
            .and_then(|()| output.flush());
        let is_closed = done.is_err();
        // The sender may not wait for it.
        let _ = written.send(done);
        if is_closed {
            client.closed.send_replace(true);
            return;
        }
    }
}

/// Detects that standard output was closed, also while nothing is written.
///
/// # Errors
///
/// An [`io::Error`] if the thread can't start.
pub fn watch_output(client: Arc<ClientState>) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    named("mcp-watch").spawn(move || {
        loop {
            let stdout = rustix::stdio::stdout();
            // Without requested events, `poll` reports errors and hang-ups only.
            let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
            match poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
                Ok(_) => break,
            }
        }
        client.closed.send_replace(true);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A transport with this input, whose session has begun, and its output.
    fn transport(input: &str) -> (LineTransport, Arc<ClientState>, Written) {
        let client = Arc::<ClientState>::default();
        let written = Written::default();
        let input = io::Cursor::new(input.to_string().into_bytes());
        let mut transport = LineTransport::new(input, written.clone(), client.clone()).unwrap();
        transport.begun = true;
        (transport, client, written)
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn lines(&self) -> Vec<Value> {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
            lines.collect()
        }
    }

    fn initialized(version: &str) -> ServerJsonRpcMessage {
        let result = json!({"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}});
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": 0, "result": result})).unwrap()
    }

    fn answer(id: u64) -> ServerJsonRpcMessage {
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": {}})).unwrap()
    }

    #[tokio::test]
    async fn mcp_a_change_of_directories_counts_before_the_next_message() {
        let input = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots\\/list_changed\"}\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
        let (mut transport, client, _) = transport(input);
        let changes = || client.changes.load(Ordering::SeqCst);
        assert_eq!(changes(), 0);
        transport.receive().await.unwrap();
        assert_eq!(changes(), 1);
        // The last line may lack a line end.
        assert!(matches!(
            transport.receive().await,
            Some(JsonRpcMessage::Request(_))
        ));
        assert!(transport.receive().await.is_none());
        let mut ended = client.ended.subscribe();
        ended.wait_for(|ended| *ended).await.unwrap();
    }

    #[tokio::test]
    async fn mcp_a_batch_is_answered_by_a_batch_where_the_revision_has_them() {
        let ping = |id: u64| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
        let batch = format!("[{},5,{}]\n[]\n", ping(1), ping(2));
        let (mut old, _, written) = transport(&batch);
        old.send(initialized("2025-03-26")).await.unwrap();
        for _ in 0..2 {
            old.receive().await.unwrap();
        }
        assert!(old.receive().await.is_none());
        old.send(answer(2)).await.unwrap();
        old.send(answer(1)).await.unwrap();
        let lines = written.lines();
        assert_eq!(lines[1]["error"]["code"], -32600, "an empty one");
        let answers = lines[2].as_array().unwrap();
        let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
        assert_eq!(ids, [&Value::Null, &json!(2), &json!(1)]);
        let (mut new, _, written) = transport(&batch);
        new.send(initialized("2025-06-18")).await.unwrap();
        assert!(new.receive().await.is_none());
        let lines = written.lines();
        assert_eq!(lines[1]["error"]["code"], -32600);
        assert_eq!(lines[1]["id"], Value::Null);
    }

    #[tokio::test]
    async fn mcp_a_cancelled_request_does_not_hold_up_its_batch() {
        let input = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]\n\
                     {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n";
        let (mut transport, _, written) = transport(input);
        transport.send(initialized("2025-03-26")).await.unwrap();
        for _ in 0..3 {
            transport.receive().await.unwrap();
        }
        transport.send(answer(2)).await.unwrap();
        assert_eq!(written.lines()[1].as_array().unwrap().len(), 1);
    }

    #[test]
    fn mcp_a_line_that_is_too_long_is_left_out_and_the_next_is_read() {
        let (sender, mut lines) = mpsc::channel(4);
        let most = usize::try_from(LONGEST).unwrap();
        let input = format!("{}\n{}\nx\n", "a".repeat(most + 1), "b".repeat(most - 1));
        read_lines(io::Cursor::new(input), &sender);
        assert_eq!(lines.try_recv().unwrap(), Line::TooLong);
        assert!(
            matches!(lines.try_recv().unwrap(), Line::Text(line) if line.len() as u64 == LONGEST)
        );
        assert_eq!(lines.try_recv().unwrap(), Line::Text(b"x\n".to_vec()));
    }
}
