//! The query daemon: one process that answers many clients about one tree.
//!
//! Owns the protocol of `ggrep` clients: how messages are framed ([`frame`]), what they are ([`request`], [`reply`]), how a client and a
//! daemon come to terms ([`handshake`]), what makes two daemons different ([`identity`]), and who is let in when ([`admission`]). These are
//! types and pure functions; sockets and threads are elsewhere, and searching is what it is for everybody.

pub mod admission;
pub mod frame;
pub mod handshake;
pub mod identity;
pub mod limits;
pub mod reply;
pub mod request;
