//! All integration tests, in one binary.

mod cli;
#[cfg(unix)]
mod engines;
