//! The commands of `forge-search`: `search` is `forge-search PATTERN`, `clients` is `forge-search
//! setup`, `execute` also has `lease`, and `daemon` has `serve` and the program `ggrep`. The other
//! modules have the names of their commands.

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
