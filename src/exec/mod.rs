//! Query execution: what a request means, over an ordered list of eligible files.
//!
//! Owns patterns, engines, the ordered scheduler, limits and deadlines. It does not know where a request
//! came from, reads no configuration, no environment and no clock that it was not handed.

pub mod collect;
pub mod eligible;
pub mod embedded;
pub mod engine;
pub mod event;
mod fold;
pub mod matcher;
pub mod pattern;
mod probe;
pub mod query;
pub mod schedule;
pub mod stepper;
pub mod stop;
