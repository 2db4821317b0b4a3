//! The parts of an answer, from the outcome of one file to the limits of the whole.
//!
//! [`line_sink`] makes an [`outcome::FileOutcome`] of the matching lines of a text, and [`listed`]
//! has paths without lines. [`collect`] truncates the outcomes exactly at the limits, in emission
//! order. `handed_out` lets a second search continue an answer that broke off.

pub mod collect;
pub(crate) mod handed_out;
pub mod line_sink;
pub mod listed;
pub mod outcome;
