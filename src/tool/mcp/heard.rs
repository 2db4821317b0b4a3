//! What comes from a client, looked at before anybody acts on it.
//!
//! Owns that a client's word about its directories holds for everything that it says afterwards: messages are handled side by side, so a call that follows may
//! be handled before what it follows. And that each request is answered, also one of which the protocol's library makes nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use memchr::{memchr, memmem};
use rmcp::model::ClientJsonRpcMessage;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

/// The method that stands for a request which is none: its parameters say which method was meant, and what came with it.
pub(super) const MALFORMED: &str = "forge-search/malformed";

/// What a client says when its directories have changed.
const CHANGED: &str = "notifications/roots/list_changed";

/// How it may be written. Where that is part of something else, directories are asked for once more than need be.
const WRITTEN: [&[u8]; 2] = [b"roots/list_changed", b"roots\\/list_changed"];

/// Bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// The longest line that is looked at, in bytes. The library takes none that is longer.
const LONGEST: usize = 16 << 20;

/// What is known of a client by how it is heard.
#[derive(Debug, Default)]
pub struct Client {
    /// How often it has said that its directories have changed.
    pub changes: AtomicU64,
    /// It will say nothing more.
    pub ended: watch::Sender<bool>,
}

/// A reader of lines that notes what a client says of its directories, and that it is gone, before it hands that on.
#[derive(Debug)]
pub struct Heard<R> {
    inner: R,
    client: Arc<Client>,
    chunk: Box<[u8]>,
    /// The beginning of a line.
    line: Vec<u8>,
    /// That of the line was handed on already.
    is_too_long: bool,
    /// What is to be handed on.
    out: Vec<u8>,
    /// How much of that was.
    handed: usize,
}

impl<R> Heard<R> {
    /// Notes it in `client`.
    pub fn new(inner: R, client: Arc<Client>) -> Heard<R> {
        Heard {
            inner,
            client,
            chunk: vec![0; CHUNK].into(),
            line: Vec::new(),
            is_too_long: false,
            out: Vec::new(),
            handed: 0,
        }
    }

    /// Takes in what came. Linear in it.
    fn hear(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if std::mem::take(&mut self.is_too_long) {
                self.out.extend_from_slice(line);
                continue;
            }
            self.line.extend_from_slice(line);
            self.look();
        }
        if self.is_too_long {
            self.out.extend_from_slice(bytes);
            return;
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > LONGEST {
            self.out.append(&mut self.line);
            self.line = Vec::new();
            self.is_too_long = true;
        }
    }

    /// Looks at a line, and hands it on, or what stands for it.
    fn look(&mut self) {
        let is_written = |written: &&[u8]| memmem::find(&self.line, written).is_some();
        let is_escaped = || {
            memmem::find(&self.line, b"\\u").is_some()
                && serde_json::from_slice::<Value>(&self.line)
                    .is_ok_and(|message| message["method"] == CHANGED)
        };
        if WRITTEN.iter().any(is_written) || is_escaped() {
            self.client.changes.fetch_add(1, Ordering::SeqCst);
        }
        match instead_of(&self.line) {
            Some(other) => {
                self.out.extend_from_slice(other.to_string().as_bytes());
                self.out.push(b'\n');
                self.line.clear();
            }
            None => self.out.append(&mut self.line),
        }
    }
}

/// Returns what stands for a request of which the library makes nothing, so that it would never be answered.
fn instead_of(line: &[u8]) -> Option<Value> {
    if serde_json::from_slice::<ClientJsonRpcMessage>(line).is_ok() {
        return None;
    }
    let message: Value = serde_json::from_slice(line).ok()?;
    let (id, method) = (message.get("id")?, message.get("method")?.as_str()?);
    // Who does not even begin as a client does is none.
    let is_request = (id.is_string() || id.is_i64()) && method != "initialize";
    let params = message.get("params");
    is_request.then(|| {
        json!({"jsonrpc": "2.0", "id": id, "method": MALFORMED, "params": {"method": method, "params": params}})
    })
}

impl<R: AsyncRead + Unpin> AsyncRead for Heard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.handed == this.out.len() {
            this.out.clear();
            this.handed = 0;
            let mut chunk = ReadBuf::new(&mut this.chunk);
            let read = ready!(Pin::new(&mut this.inner).poll_read(cx, &mut chunk));
            let bytes = chunk.filled().to_vec();
            if read.is_err() || bytes.is_empty() {
                this.client.ended.send_replace(true);
                read?;
                if this.line.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                // A last line without an end, which the library would not take.
                this.line.push(b'\n');
                this.look();
            }
            this.hear(&bytes);
        }
        let rest = this.out.get(this.handed..).unwrap_or_default();
        let count = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..count).unwrap_or_default());
        this.handed += count;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// What is handed on of parts, and how often directories have changed.
    fn heard(parts: &[&str]) -> (String, u64) {
        let client = Arc::<Client>::default();
        let mut heard = Heard::new(tokio::io::empty(), client.clone());
        for part in parts {
            heard.hear(part.as_bytes());
        }
        let out = String::from_utf8(heard.out).unwrap();
        (out, client.changes.load(Ordering::SeqCst))
    }

    #[test]
    fn mcp_a_change_of_directories_is_heard_however_it_comes() {
        let message = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}\n";
        assert_eq!(heard(&[message]), (message.to_string(), 1));
        assert_eq!(heard(&[message, message]).1, 2);
        for at in 0..message.len() {
            let parts = [&message[..at], &message[at..]];
            assert_eq!(heard(&parts), (message.to_string(), 1), "{at}");
        }
        for escaped in [
            "roots\\/list_changed",
            "roots/list\\u005fchanged",
            "r\\u006fots/list_changed",
        ] {
            let message = message.replace("roots/list_changed", escaped);
            assert_eq!(heard(&[&message]), (message.clone(), 1));
        }
        assert_eq!(heard(&["roots/list", "roots/list", "_change\n"]).1, 0);
    }

    #[test]
    fn mcp_a_request_that_is_none_is_handed_on_as_such() {
        let handed = |line: &str| heard(&[line, "\n"]).0;
        for same in [
            "",
            "xx",
            "{}",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ] {
            assert_eq!(handed(same), format!("{same}\n"));
        }
        let other = handed(r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":[5]}"#);
        let other: Value = serde_json::from_str(&other).unwrap();
        let expected = json!({"jsonrpc": "2.0", "id": "a", "method": MALFORMED, "params": {"method": "ping", "params": [5]}});
        assert_eq!(other, expected);
        // What is too long to be looked at is not kept.
        let long = "x".repeat(LONGEST + 1);
        let rest = "roots/list_changed\n";
        let (out, changes) = heard(&[&long, rest, "xx\n"]);
        assert_eq!((out.len(), changes), (long.len() + rest.len() + 3, 0));
    }

    #[tokio::test]
    async fn mcp_the_end_of_a_client_is_heard() {
        let client = Arc::<Client>::default();
        let mut heard = Heard::new(&b"more\nand"[..], client.clone());
        let mut bytes = [0; 5];
        heard.read_exact(&mut bytes).await.unwrap();
        assert!(!*client.ended.borrow());
        let mut rest = String::new();
        heard.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&bytes, rest.as_str()), (b"more\n", "and\n"));
        assert!(*client.ended.borrow());
    }
}
