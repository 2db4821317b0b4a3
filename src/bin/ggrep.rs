//! The `ggrep` program: asks the query daemon of a tree, and starts it where there is none.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", feature = "allocator"))]
#[global_allocator]
static ALLOCATOR: forge_search::tool::cli::Allocator = forge_search::tool::cli::ALLOCATOR;

#[cfg(unix)]
fn main() -> ExitCode {
    ExitCode::from(forge_search::tool::cli::ggrep())
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("ggrep: the query daemon needs Unix sockets; use forge-search");
    ExitCode::FAILURE
}
