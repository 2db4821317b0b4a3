//! Query execution: searches an ordered list of eligible files and returns an ordered, limited
//! answer.
//!
//! Callers (the tools, the command line, the daemon) build a [`question::Question`], which compiles
//! into a [`query::Query`]. A source ([`eligible::FileSource`]) yields the files in emission order:
//! from a walk ([`eligible`]), or from the catalog of an index ([`catalog`]). [`indexes`] decides
//! for each request whether an index may be used. The scheduler ([`schedule`]) gives the files to
//! the workers of an engine ([`engine`]), and the collector ([`collect`]) truncates the results at
//! the limits. Lines that an external program reports are confirmed in process (`confirm`).
//!
//! A *ranked question*, a text in words, takes another way: [`retrieve`] reads the files of a
//! source and keeps candidates, and [`rank`] decides which of them answer best.
//!
//! This module does not know where a request came from. It reads no configuration and no
//! environment. Deadlines and monotonic clocks come from the caller; only [`indexes`] reads the
//! wall clock, through one function.

pub(crate) mod allowance;
pub(crate) mod as_text;
pub mod catalog;
pub(crate) mod choices;
pub mod collect;
mod compiled;
mod confirm;
pub mod detect;
pub mod eligible;
pub mod embedded;
pub mod engine;
pub mod event;
pub mod exit;
mod external;
pub mod fuzzy;
#[cfg(all(unix, feature = "daemon"))]
pub(crate) mod git;
pub(crate) mod handed_out;
pub mod indexes;
pub mod line_sink;
pub mod list;
pub mod listed;
mod literal_set;
pub mod matcher;
mod normalize;
pub mod pattern;
mod prefilter;
pub(crate) mod process;
pub mod query;
pub mod question;
pub mod rank;
pub mod reach;
mod records;
pub mod retrieve;
pub mod ripgrep;
pub mod schedule;
pub mod sources;
pub mod stepper;
pub mod stop;
mod superset;
pub mod types;
pub mod ugrep;
