//! What comes from a client, looked at before anybody acts on it.
//!
//! Owns that a client's word about its directories holds for everything that it says afterwards: messages are handled side by side, so a call that follows may
//! be handled before what it follows.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use memchr::memmem;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

/// How it is written that directories have changed. Where that is part of something else, they are asked for once more than need be.
const CHANGED: [&[u8]; 2] = [b"roots/list_changed", b"roots\\/list_changed"];

/// How much of what came before may be the beginning of that.
const LONGEST: usize = 18;

/// What is known of a client by how it is heard.
#[derive(Debug, Default)]
pub struct Client {
    /// How often it has said that its directories have changed.
    pub changes: AtomicU64,
    /// It will say nothing more.
    pub ended: watch::Sender<bool>,
}

/// A reader that notes what a client says of its directories, and that it is gone, before it hands that on.
#[derive(Debug)]
pub struct Heard<R> {
    inner: R,
    /// The end of what came so far.
    tail: Vec<u8>,
    client: Arc<Client>,
}

impl<R> Heard<R> {
    /// Notes it in `client`.
    pub fn new(inner: R, client: Arc<Client>) -> Heard<R> {
        Heard {
            inner,
            tail: Vec::new(),
            client,
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        if CHANGED
            .iter()
            .any(|changed| memmem::find(&self.tail, changed).is_some())
        {
            self.client.changes.fetch_add(1, Ordering::SeqCst);
            self.tail.clear();
        }
        let keep = self.tail.len().saturating_sub(LONGEST);
        self.tail.drain(..keep);
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Heard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let had_room = buf.remaining() > 0;
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        let new = buf.filled().get(before..).unwrap_or_default();
        if read.is_err() || (new.is_empty() && had_room) {
            self.client.ended.send_replace(true);
        }
        self.hear(new);
        Poll::Ready(read)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn mcp_a_change_of_directories_is_heard_however_it_comes() {
        let heard = |parts: &[&str]| {
            let client = Arc::<Client>::default();
            let mut heard = Heard::new(tokio::io::empty(), client.clone());
            for part in parts {
                heard.hear(part.as_bytes());
            }
            client.changes.load(Ordering::SeqCst)
        };
        let message = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
        assert_eq!(heard(&[message]), 1);
        assert_eq!(heard(&[message, "\n", message]), 2);
        for at in 0..message.len() {
            assert_eq!(heard(&[&message[..at], &message[at..]]), 1, "{at}");
        }
        let bytes: Vec<String> = message.chars().map(String::from).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        assert_eq!(heard(&bytes), 1);
        assert_eq!(
            heard(&[r#"{"method":"notifications\/roots\/list_changed"}"#]),
            1
        );
        assert_eq!(heard(&["roots/list", "roots/list", "_change"]), 0);
        assert!(CHANGED.iter().all(|changed| changed.len() <= LONGEST + 1));
    }

    #[tokio::test]
    async fn mcp_the_end_of_a_client_is_heard() {
        let client = Arc::<Client>::default();
        let mut heard = Heard::new(&b"more"[..], client.clone());
        let mut bytes = [0; 4];
        heard.read_exact(&mut bytes).await.unwrap();
        assert!(!*client.ended.borrow());
        assert_eq!(heard.read(&mut bytes).await.unwrap(), 0);
        assert!(*client.ended.borrow());
    }
}
