//! The query daemon: one process that answers the queries of many clients about one tree.
//!
//! The layers, from the wire to the search:
//! - [`frame`] delimits messages, [`request`] and [`reply`] define them;
//! - [`handshake`] negotiates the protocol version, [`identity`] computes the ids that both sides
//!   compare;
//! - [`server`] owns the connections of a [`socket`], [`client`] is the other end;
//! - [`admission`] decides which query runs, waits or is refused; `gate` lets the tasks of the
//!   server wait for that;
//! - [`service`] answers queries about the tree. It knows nothing of sockets, and it searches with
//!   the same tools as every surface without a daemon.
//!
//! [`tree_backend`] is the interface of agents, the page and the interactive search to a daemon or
//! a service. `inspect` answers `status` and `health`.
//!
//! A service gets four kinds of queries:
//! - a call of a tool;
//! - the lines of a file around a place (`file_lines`), which the page shows;
//! - a person's search (`person_search`), which it answers in parts;
//! - a ranked question: `retriever` finds candidates, `answer` ranks and writes them. The tool
//!   [`find_code`] asks one too.

pub mod admission;
mod answer;
#[cfg(unix)]
pub mod client;
pub(crate) mod file_lines;
pub mod find_code;
pub mod frame;
#[cfg(unix)]
mod gate;
mod git;
pub mod handshake;
pub mod identity;
#[cfg(unix)]
pub mod inspect;
pub mod limits;
#[cfg(unix)]
pub mod log;
pub mod metrics;
pub(crate) mod person_search;
mod refusals;
pub(crate) mod related;
pub mod reply;
pub mod report;
pub mod request;
mod retriever;
#[cfg(unix)]
pub mod server;
pub mod service;
#[cfg(unix)]
pub mod socket;
pub mod tree_backend;
