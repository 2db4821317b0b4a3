//! The `forge-search` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(forge_search::tool::cli::main())
}
