//! forge-search: exact, ordered, bounded search over a live source tree.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod exec;
pub mod format;
pub mod index;
pub mod tool;
