//! Where answers come from: the daemon of the tree, or this process.
//!
//! `person_search` decides who answers a person's search. `backend` decides for MCP servers, the
//! page, the interactive search and `call`. `ggrep` decides for itself. `candidates` asks for `rg`
//! which files have to be read. It asks through `person_search`.
//!
//! All of them use `daemon` to find, ask and start a daemon. `service` creates the service of this
//! process, `building` waits for index builds, and `explained` explains how an index narrows a
//! search.

#[cfg(unix)]
pub(in crate::tool::cli) mod backend;
pub(in crate::tool::cli) mod building;
pub(in crate::tool) mod candidates;
#[cfg(unix)]
pub(in crate::tool::cli) mod daemon;
pub(in crate::tool::cli) mod explained;
pub(in crate::tool::cli) mod person_search;
#[cfg(unix)]
pub(in crate::tool::cli) mod service;
