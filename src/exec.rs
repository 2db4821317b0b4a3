//! Query execution: searches an ordered list of eligible files and returns an ordered, limited
//! answer.
//!
//! Callers (the tools, the command line, the daemon) build a [`question::Question`], which compiles
//! into a [`question::query::Query`] with a pattern of [`matching`]. A source of [`sources`] yields
//! the files in emission order: from a walk, or from the catalog of an index. [`indexes`] decides
//! for each request whether an index may be used. The scheduler ([`schedule`]) gives the files to
//! the workers of an engine: the embedded one ([`engine`]) or a program ([`external`]). [`answer`]
//! collects their results, and truncates them at the limits. Lines that a program reports are
//! confirmed in process. `process` runs programs.
//!
//! A *ranked question*, a text in words, takes another way: [`retrieve`] reads the files of a
//! source and keeps candidates, and [`rank`] decides which of them answer best.
//!
//! This module does not know where a request came from, and reads no configuration. It reads the
//! environment in three places: `process` hands variables on to programs and reads the marker of a
//! re-executed worker, and [`indexes`] puts temporary files where `TMPDIR` says.
//!
//! Callers pass deadlines and clocks. [`indexes`] has two monotonic clocks of its own: for
//! explanations and for background work. It alone reads the wall clock, through one function.

pub mod answer;
pub(crate) mod as_text;
pub mod engine;
pub mod external;
pub mod indexes;
pub mod matching;
pub(crate) mod process;
pub mod question;
pub mod rank;
pub mod retrieve;
pub mod schedule;
pub mod sources;
pub mod stop;
