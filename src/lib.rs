//! forge-search searches a live source tree and answers exactly as a full scan would: the same
//! lines, in the same order, truncated at the same place. An incomplete answer says so.
//!
//! ```
//! use forge_search::{ForgeSearch, SearchRequest};
//!
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("greeting.txt"), "hello\nworld\n")?;
//! # let root = dir.path();
//! let search = ForgeSearch::builder(root).live().build()?;
//! let answer = search.search(&SearchRequest::new("w.rld"))?;
//! assert_eq!(answer.content, "greeting.txt:2:1:world\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A tour
//!
//! - **Start**: [`ForgeSearch::builder`] sets everything up. [`ForgeSearchBuilder::live`] adds an
//!   index that follows every change of the tree. The index makes searches of large trees faster
//!   and changes no answer.
//! - **Tools**: each tool has a request and a response. A method of [`ForgeSearch`] answers with
//!   these types, and the trait [`Tool`] answers a model in JSON.
//! - **Calls**: a [`ToolContext`] belongs to a call. It has the [`Sandbox`], a [`CancelHandle`],
//!   and limits in bytes. [`ForgeSearch::context`] creates one.
//! - **Errors**: a failed call returns a [`ToolError`]. Its [`code`](ToolError::code) is stable for
//!   programs, and its [`message`](ToolError::message) tells the caller how to correct the call.
//! - **Configuration**: [`ForgeSearchBuilder::configure`] changes the [`Config`], and a [`Loader`]
//!   reads TOML.
//!
//! | tool | finds | request | response |
//! | --- | --- | --- | --- |
//! | `Search` | lines, by a regular expression or literal text | [`SearchRequest`] | [`SearchResponse`] |
//! | `search_files` | matches below a directory, also of similar text | [`FilesRequest`] | [`FilesResponse`] |
//! | `find_files` | files, by name, glob or type | [`FindRequest`] | [`FindResponse`] |
//! | `find_code` | definitions and places, by a question in words (feature `daemon`) | `FindCodeRequest` | `FindCodeResponse` |
//!
//! # Is an answer complete?
//!
//! Three fields of a [`SearchResponse`] tell: `truncated`, `timed_out` and `errors`. If all three
//! are unset or empty, the answer holds every match in the searched files, except those that the
//! request's `max_matches_per_file` cuts. By default, hidden, ignored, binary, denied and too large
//! files are not searched.
//!
//! # Asynchronous callers
//!
//! Calls read files and compute, so a task runs them on a thread that may block. A guard of the
//! call's [`CancelHandle`] cancels the call if the task is dropped, for example by a timeout or a
//! `select!`:
//!
//! ```
//! use forge_search::{ForgeSearch, SearchRequest, SearchResponse, ToolError};
//!
//! async fn search(
//!     search: &ForgeSearch,
//!     request: SearchRequest,
//! ) -> Result<SearchResponse, ToolError> {
//!     let context = search.context();
//!     // Cancels the call when this future is dropped.
//!     let _guard = context.cancel.cancel_on_drop();
//!     let search = search.with_context(context);
//!     let answer = tokio::task::spawn_blocking(move || search.search(&request));
//!     answer.await.unwrap_or_else(|error| match error.try_into_panic() {
//!         Ok(panic) => std::panic::resume_unwind(panic),
//!         // The runtime is being shut down.
//!         Err(_) => Err(ToolError::Cancelled),
//!     })
//! }
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("greeting.txt"), "hello\nworld\n")?;
//! # let tools = ForgeSearch::builder(dir.path()).build()?;
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # let answer = runtime.block_on(search(&tools, SearchRequest::new("w.rld")))?;
//! # assert_eq!(answer.count, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Three examples are complete programs:
//!
//! - `asynchronous` shows that a dropped future ends its search.
//! - `forge_tool` puts the tools behind an agent's own trait, with cancellation and a byte budget.
//! - `many_calls` searches from several tasks. Each call sees every edit made before it.
//!
//! # Known problems
//!
//! - **Network mounts.** NFS, SMB, FUSE and similar filesystems report no changes that another
//!   machine makes. A live index does not trust them: each call compares the tree with the index
//!   first, or reads the tree. Answers stay exact, and take longer.
//! - **Inotify limits.** On Linux a live index watches each directory. All programs of a user share
//!   the limit `fs.inotify.max_user_watches`. If a tree has more directories than are left, calls
//!   compare the tree instead. To raise the limit: `sysctl fs.inotify.max_user_watches=1048576`.
//! - **Containers.** A container shares the inotify limits of its host. Changes that are made
//!   outside of a bind mount may raise no events, for example with Docker Desktop. Set
//!   `index_watch = false` there: then each call compares the tree.
//! - **Mapped files.** With [`ForgeSearchBuilder::index_dir`], the index is mapped into memory. If
//!   another program truncates its files, the system ends the process. `index_map = false` prevents
//!   that, and copies the pages that are read.
//! - **Development profiles.** Without optimization, a live index takes five times as long to
//!   build, and a search up to twenty times as long. For example, the index of 390 MB of source
//!   code takes 16 s instead of 3 s on two cores. These lines in the `Cargo.toml` of the host's
//!   workspace optimize this crate and the crates that list, split and compare text. The rest of
//!   the program stays as it is:
//!
//!   ```toml
//!   [profile.dev.package]
//!   forge-search.opt-level = 2
//!   regex-automata.opt-level = 2
//!   aho-corasick.opt-level = 2
//!   memchr.opt-level = 2
//!   ignore.opt-level = 2
//!   globset.opt-level = 2
//!   rayon.opt-level = 2
//!   rayon-core.opt-level = 2
//!   crossbeam-deque.opt-level = 2
//!   crossbeam-epoch.opt-level = 2
//!   xxhash-rust.opt-level = 2
//!   crc32fast.opt-level = 2
//!   bitvec.opt-level = 2
//!   ```
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `allocator` (default) | the allocator of the programs; compiles jemalloc on Linux |
//! | `cli` (default) | the programs `forge-search` and `ggrep`, and all features below except `sqlite` |
//! | `daemon` | the tool `find_code`; the query daemon and its clients |
//! | `executor` | tasks with signed leases; compiles SQLite |
//! | `mcp` | a server for agents that speak the Model Context Protocol |
//! | `web` | a page for a browser on the same machine |
//! | `sqlite` | `index_storage = "sqlite"`; compiles SQLite |
//!
//! Without default features the crate is the library alone: no command line, no async runtime and
//! no server.
//!
//! # Stability
//!
//! A version promises the items of this page. The module `internal`, which is hidden, belongs to
//! the tests and programs of this package and can change in any version. Warnings are emitted with
//! `tracing`, with targets that begin with `forge_search::`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
// The lints about processes, clocks and hash maps apply to shipped code only.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

// The Rust examples of the guide and the README are tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../docs/guide/library.md")]
    struct Guide;

    #[doc = include_str!("../README.md")]
    struct Readme;
}

mod exec;
mod format;
mod index;
mod tool;

// The entry point, and the tools for a model.
pub use crate::tool::forge_search::{ForgeSearch, ForgeSearchBuilder};
pub use crate::tool::tools::{RiskLevel, Tool, ToolAnswer, ToolName};

// The context of a call, and its failure.
pub use crate::exec::stop::{CancelGuard, CancelHandle, Clock, SystemClock};
pub use crate::tool::error::{DenialReason, ToolError};
pub use crate::tool::sandbox::Sandbox;
pub use crate::tool::search::ToolContext;

// The tool `Search`.
pub use crate::tool::request::{Case, SearchRequest};
pub use crate::tool::response::{
    BuildStats, ErrorEntry, LeftOut, Record, RecordData, RecordKind, SearchResponse, Stats, Text,
};

// The tool `search_files`.
pub use crate::tool::config::Mode as FilesMode;
pub use crate::tool::search_files::{
    FallbackEnd as FilesFallbackEnd, FallbackStats as FilesFallbackStats, FilesMatch, FilesRequest,
    FilesResponse, FilesStats, IndexStats as FilesIndexStats, TruncatedReason,
};

// The tool `find_files`.
pub use crate::tool::find_files::{FindRequest, FindResponse, FoundPath, Sort};

// The tool `find_code`.
#[cfg(feature = "daemon")]
pub use crate::exec::rank::Reason as CodePlaceReason;
#[cfg(feature = "daemon")]
pub use crate::tool::daemon::request::Mode as FindCodeMode;
#[cfg(feature = "daemon")]
pub use crate::tool::find_code::{CodePlace, FindCodeRequest, FindCodeResponse, PlaceKind};

// The configuration.
pub use crate::tool::config::{
    Backend, Config, ConfigError, FilesBackend, FilesConfig, IndexMode, IndexStorage,
    IntegrityCheck, Loader, Origin, Problem as ConfigProblem, Profile, RegexStrategy,
    SandboxConfig, SearchConfig,
};

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
