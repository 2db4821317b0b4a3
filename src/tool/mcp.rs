//! The MCP server (Model Context Protocol) for agents.
//!
//! Owns the tools and resources of the protocol, the form and size of answers, and the selection
//! among the client's directories. A [`Tree`](crate::tool::daemon::tree::Tree) runs the searches:
//! in a daemon or in this process.

pub mod content;
mod lenient;
mod message;
mod progress;
pub mod roots;
pub mod server;
pub mod transport;
