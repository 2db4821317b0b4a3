//! The `forge-search` program. Called as `ggrep`, it asks ranked questions; called as `rg`, it has
//! ripgrep's command line.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", feature = "allocator"))]
#[global_allocator]
static ALLOCATOR: forge_search::internal::tool::cli::Allocator =
    forge_search::internal::tool::cli::ALLOCATOR;

fn main() -> ExitCode {
    #[cfg(unix)]
    if is_called("ggrep") {
        return ExitCode::from(forge_search::internal::tool::cli::ggrep());
    }
    ExitCode::from(match forge_search::internal::tool::rg::arguments() {
        Some(args) => forge_search::internal::tool::rg::main(&args),
        None => forge_search::internal::tool::cli::main(),
    })
}

/// Returns whether the program was called by this name.
#[cfg(unix)]
fn is_called(name: &str) -> bool {
    let program = std::env::args_os().next();
    program.is_some_and(|program| std::path::Path::new(&program).file_name() == Some(name.as_ref()))
}
