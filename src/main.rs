//! The `forge-search` program.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", feature = "allocator"))]
#[global_allocator]
static ALLOCATOR: forge_search::internal::tool::cli::Allocator =
    forge_search::internal::tool::cli::ALLOCATOR;

fn main() -> ExitCode {
    ExitCode::from(match forge_search::internal::tool::rg::arguments() {
        Some(args) => forge_search::internal::tool::rg::main(&args),
        None => forge_search::internal::tool::cli::main(),
    })
}
