//! The MCP server: search for agents that speak the Model Context Protocol.
//!
//! This module owns the tools and resources of an agent, the form and size of answers, and the
//! effect of the client's directories ("roots"). A
//! [`TreeBackend`](crate::tool::daemon::tree_backend::TreeBackend) runs the searches: a daemon's,
//! or one in this process.
//! - [`transport`] reads and writes messages on standard input and output;
//! - [`server`] answers requests, [`content`] formats the answers;
//! - [`roots`] maps the client's directories to a tree.

pub mod content;
mod lenient;
mod message;
mod progress;
pub mod roots;
pub mod server;
pub mod transport;
