//! Matching: from the texts of a user to the lines that match.
//!
//! [`pattern`] translates the texts into one normal form (`normalize`), which `compiled` turns into
//! automata and `literal_set` into a search for many literals. [`matcher`] finds matches in a line
//! within a bounded time (`stepper`), after `prefilter` has left out most of a large file.
//! [`fuzzy`] finds lines that almost match.

mod compiled;
pub mod fuzzy;
mod literal_set;
pub mod matcher;
mod normalize;
pub mod pattern;
pub(in crate::exec) mod prefilter;
pub mod stepper;
