//! The user-facing layer: requests, responses, configuration, the sandbox and the surfaces.
//!
//! Only this layer reads configuration files and the environment, and passes them down as values
//! (`exec` names two exceptions). The layers below read a clock in two places only:
//! `exec::indexes::host` has the wall clock, and `index::pace` the monotonic clock. This layer uses
//! these clocks too, except for the time of `rg --stats` and the servers that run on tokio.
//!
//! A *surface* is a way in: the command line (`cli`), ripgrep's command line (`rg`), agents
//! (`mcp`), the web page (`web`), tasks with a lease (`executor`), and the library itself
//! (`forge_search`). The query daemon (`daemon`) answers for several of them. A surface is thin. It
//! converts its input into one of these:
//!
//! - A call of a tool ([`tools`]), with a request in JSON or as a type. Agents, the web page, the
//!   interactive search, `forge-search call` and the library do this.
//! - A question for `answering`. `forge-search PATTERN` does this, and the search tools convert
//!   their requests into one.
//! - A ranked question, a text in words, for `daemon::service`. `ggrep` and the tool `find_code` do
//!   this.
//!
//! Two surfaces search by themselves. `rg` runs ripgrep's own crates, and only asks an index which
//! files need not be read. The executor searches the sources of its configuration, not the trees of
//! the other surfaces.

mod answer_notes;
mod answering;
mod arguments;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
// Without sockets, only the parts of it that tools share are used.
#[cfg(feature = "daemon")]
#[cfg_attr(not(unix), allow(dead_code))]
pub mod daemon;
pub mod engines;
pub mod error;
#[cfg(all(unix, feature = "executor"))]
pub mod executor;
#[cfg(feature = "daemon")]
pub mod find_code;
pub mod find_files;
mod fit;
pub mod forge_search;
mod globs;
pub mod indexing;
#[cfg(all(unix, feature = "mcp"))]
pub mod mcp;
pub mod notes;
pub mod render;
pub mod request;
pub mod response;
#[cfg(feature = "cli")]
pub mod rg;
pub mod sandbox;
pub mod search;
pub mod search_files;
mod searcher;
mod shorten;
#[cfg(feature = "daemon")]
mod text_answer;
pub mod tools;
#[cfg(any(feature = "daemon", all(unix, feature = "executor")))]
mod unique_fields;
#[cfg(all(unix, feature = "web"))]
pub mod web;
