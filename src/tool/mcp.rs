//! A server for agents that speak the Model Context Protocol.
//!
//! Owns what agents are told: which tools and resources there are, what of an answer is text, how much of it there is, and which
//! directories of the client count. Searching is a [`Tree`](crate::tool::daemon::tree::Tree)'s: a daemon's,
//! or this process's own.

pub mod content;
pub mod heard;
pub mod roots;
pub mod server;
