//! A server for agents that speak the Model Context Protocol.
//!
//! Owns what an agent gets: the tools and resources, the form and size of an answer, and which
//! directories of the client count. A [`Tree`](crate::tool::daemon::tree::Tree) searches: a
//! daemon's, or this process's own.

pub mod content;
mod lenient;
mod message;
mod progress;
pub mod roots;
pub mod server;
pub mod transport;
