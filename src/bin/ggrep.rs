//! The `ggrep` program: queries the daemon of a tree, and starts the daemon if it is not running.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", feature = "allocator"))]
#[global_allocator]
static ALLOCATOR: forge_search::internal::tool::cli::Allocator =
    forge_search::internal::tool::cli::ALLOCATOR;

#[cfg(unix)]
fn main() -> ExitCode {
    ExitCode::from(forge_search::internal::tool::cli::ggrep())
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("ggrep: the query daemon needs Unix sockets; use forge-search");
    ExitCode::FAILURE
}
