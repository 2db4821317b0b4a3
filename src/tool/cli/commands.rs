//! The commands, one module for each. `search` is `forge-search PATTERN`, and `daemon` has the
//! commands around the query daemon, with `ggrep`.

pub(in crate::tool::cli) mod call;
pub(in crate::tool::cli) mod clients;
#[cfg(unix)]
pub(in crate::tool::cli) mod daemon;
pub(in crate::tool::cli) mod doctor;
#[cfg(unix)]
pub(in crate::tool::cli) mod execute;
pub(in crate::tool::cli) mod explain;
pub(in crate::tool::cli) mod index;
#[cfg(unix)]
pub(in crate::tool::cli) mod mcp;
pub(in crate::tool::cli) mod search;
#[cfg(unix)]
pub(in crate::tool::cli) mod tui;
