//! The `forge-search` command line.
fn main() {}
