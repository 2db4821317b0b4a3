//! The user-facing layer: requests, responses, configuration, the sandbox and the surfaces.
//!
//! Only this layer knows configuration files, the environment and the clock. Every surface is thin:
//! it converts its input into a call of one of the [`tools`].

mod answer_notes;
mod answering;
mod arguments;
mod budget;
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
#[cfg(all(unix, feature = "web"))]
pub mod web;
