//! forge-search: exact, ordered, bounded search over a live source tree.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
// The rules about processes, clocks and hash maps are for what is shipped.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod exec;
pub mod format;
pub mod index;
pub mod tool;
