//! All integration tests, in one binary.

mod cli;
