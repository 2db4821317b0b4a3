//! forge-search answers searches over a live source tree exactly as a full scan would: the same events, in
//! the same order, cut at the same place, and it says plainly when an answer is incomplete.
//!
//! # A tour
//!
//! [`tool::search::SearchTool`] is the `Search` tool. A host gives each call a [`tool::search::ToolContext`]
//! with a sandbox, a cancellation handle and byte budgets; the request is a
//! [`tool::request::SearchRequest`], the answer a [`tool::response::SearchResponse`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use forge_search::tool::config::Config;
//! use forge_search::tool::engines::Engines;
//! use forge_search::tool::request::SearchRequest;
//! use forge_search::tool::sandbox::Sandbox;
//! use forge_search::tool::search::{SearchTool, ToolContext};
//!
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("greeting.txt"), "hello\nworld\n")?;
//! # let tree = dir.path();
//! let mut config = Config::library_default();
//! config.search.enabled = true;
//!
//! let sandbox = Sandbox::new(&config.sandbox, tree)?;
//! let tool = SearchTool::new(config.search, Engines::embedded());
//! let response = tool.search(&SearchRequest::new("w.rld"), &ToolContext::new(Arc::new(sandbox)))?;
//!
//! assert_eq!(response.count, 1);
//! assert_eq!(response.content, "greeting.txt:2:1:world\n");
//! assert!(!response.truncated && !response.timed_out);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An index makes searches of large trees faster and changes no answer; [`tool::indexing`] shows how a program
//! has one built.
//!
//! What a host has to know of an answer stands in three fields: `truncated`, `timed_out` and `errors`. With none of them set, the answer is all there is in the files that are
//! searched, which are not hidden, ignored, binary, denied or too large; but for what `max_matches_per_file` leaves out, where a request has that.
//!
//! # Layers
//!
//! [`tool`] knows users, [`exec`] knows what requests mean, [`index`] knows files, [`mod@format`] knows bytes. Each
//! uses only itself and what stands after it in this list.
//!
//! The examples `forge_tool` and `many_calls` are programs that do all of that: a tool behind an agent's own trait, with cancellation and a budget of
//! bytes; and calls from several tasks, each of which sees every edit before it.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `cli` (default) | the programs `forge-search` and `ggrep`, with all but `sqlite` of what follows |
//! | `daemon` | the query daemon and its clients |
//! | `executor` | tasks with signed leases; compiles SQLite |
//! | `mcp` | a server for agents that speak the Model Context Protocol |
//! | `web` | a page for a browser on the same machine |
//! | `sqlite` | `index_storage = "sqlite"`; compiles SQLite |
//!
//! Without default features the crate is the library alone.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
// The rules about processes, clocks and hash maps are for what is shipped.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod exec;
pub mod format;
pub mod index;
pub mod tool;
