//! The `forge-search` program.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", feature = "allocator"))]
#[global_allocator]
static ALLOCATOR: forge_search::tool::cli::Allocator = forge_search::tool::cli::ALLOCATOR;

fn main() -> ExitCode {
    ExitCode::from(forge_search::tool::cli::main())
}
