//! All integration tests, in one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// The rules about processes, clocks and hash maps are for the crate; tests start programs and
// measure time.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod cli;
mod conformance;
mod fuzz_replay;
mod layering;
mod source;
