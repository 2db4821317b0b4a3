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

/// How it is written that directories have changed. Where that is part of something else, they are asked for once more than need be.
const CHANGED: [&[u8]; 2] = [b"roots/list_changed", b"roots\\/list_changed"];

/// How much of what came before may be the beginning of that.
const LONGEST: usize = 18;

/// A reader that counts how often a client says that its directories have changed, before it hands that on.
#[derive(Debug)]
pub struct Heard<R> {
    inner: R,
    /// The end of what came so far.
    tail: Vec<u8>,
    changes: Arc<AtomicU64>,
}

impl<R> Heard<R> {
    /// Counts in `changes`.
    pub fn new(inner: R, changes: Arc<AtomicU64>) -> Heard<R> {
        Heard {
            inner,
            tail: Vec::new(),
            changes,
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        if CHANGED
            .iter()
            .any(|changed| memmem::find(&self.tail, changed).is_some())
        {
            self.changes.fetch_add(1, Ordering::SeqCst);
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
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let new = buf.filled().get(before..).unwrap_or_default();
        self.hear(new);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_a_change_of_directories_is_heard_however_it_comes() {
        let heard = |parts: &[&str]| {
            let changes = Arc::new(AtomicU64::new(0));
            let mut heard = Heard::new(tokio::io::empty(), changes.clone());
            for part in parts {
                heard.hear(part.as_bytes());
            }
            changes.load(Ordering::SeqCst)
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
}
