//! The query daemon: one process that answers many clients about one tree.
//!
//! Owns the protocol of `ggrep` clients: how messages are framed ([`frame`]), what they are ([`request`], [`reply`]), how a client and a
//! daemon come to terms ([`handshake`]), what makes two daemons different ([`identity`]), and who is let in when ([`admission`]). These are
//! types and pure functions. Around them stand a [`service`], which answers without knowing of sockets, a [`server`] at a [`socket`], and
//! a [`client`]. Searching is what it is for everybody.

pub mod admission;
mod answer;
#[cfg(unix)]
pub mod client;
pub mod frame;
#[cfg(unix)]
mod gate;
mod git;
pub mod handshake;
pub mod identity;
#[cfg(unix)]
pub mod inspect;
pub mod limits;
pub mod log;
pub mod metrics;
pub(crate) mod question;
mod refusals;
pub mod reply;
pub mod report;
pub mod request;
mod retriever;
#[cfg(unix)]
pub mod server;
pub mod service;
#[cfg(unix)]
pub mod socket;
pub mod tree;
