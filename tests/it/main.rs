//! All integration tests, in one binary.

mod cli;
mod engines;
