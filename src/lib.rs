//! forge-search searches a live source tree and answers exactly as a full scan would: the same
//! events, in the same order, truncated at the same place. An incomplete answer says so.
//!
//! # A tour
//!
//! [`tool::search::SearchTool`] is the `Search` tool. A host gives each call a
//! [`tool::search::ToolContext`] with a sandbox, a cancellation handle and byte budgets. The
//! request is a [`tool::request::SearchRequest`], the answer a [`tool::response::SearchResponse`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use forge_search::internal::tool::config::Config;
//! use forge_search::internal::tool::engines::Engines;
//! use forge_search::internal::tool::request::SearchRequest;
//! use forge_search::internal::tool::sandbox::Sandbox;
//! use forge_search::internal::tool::search::{SearchTool, ToolContext};
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
//! An index makes searches of large trees faster and changes no answer. [`tool::indexing`] shows
//! how a program builds one.
//!
//! Three fields tell a host whether an answer is complete: `truncated`, `timed_out` and `errors`.
//! If all three are unset or empty, the answer holds every match in the searched files, except
//! those that the request's `max_matches_per_file` cuts. By default, hidden, ignored, binary,
//! denied and too large files are not searched.
//!
//! # Layers
//!
//! [`tool`] knows users, [`exec`] knows the semantics of requests, [`index`] knows files,
//! [`mod@format`] knows bytes. Each layer uses only itself and the layers after it in this list.
//!
//! Two examples are complete programs. `forge_tool` puts the tool behind an agent's own trait, with
//! cancellation and a byte budget. `many_calls` searches from several tasks, each of which sees
//! every edit made before its call.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `cli` (default) | the programs `forge-search` and `ggrep`, and all features below except `sqlite` |
//! | `daemon` | the query daemon and its clients |
//! | `executor` | tasks with signed leases; compiles SQLite |
//! | `mcp` | a server for agents that speak the Model Context Protocol |
//! | `web` | a page for a browser on the same machine |
//! | `sqlite` | `index_storage = "sqlite"`; compiles SQLite |
//!
//! Without default features the crate is the library alone.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
// The lints about processes, clocks and hash maps apply to shipped code only.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

mod exec;
mod format;
mod index;
mod tool;

/// The modules behind the public items, for the tests, the benchmarks, the fuzz targets and the
/// programs of this package. Anything in it can change in any version.
#[doc(hidden)]
pub mod internal {
    /// The semantics of requests.
    pub mod exec {
        pub use crate::exec::*;
    }
    /// The bytes of paths and of stored indexes.
    pub mod format {
        pub use crate::format::*;
    }
    /// The files of a tree, and the indexes of their text.
    pub mod index {
        pub use crate::index::*;
    }
    /// The tools, their configuration and the surfaces.
    pub mod tool {
        pub use crate::tool::*;
    }
}
