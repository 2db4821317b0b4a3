//! The programs that tests compare with: where they are, and what happens where they are not.
//!
//! Continuous integration installs them and sets `FORGE_SEARCH_REQUIRE_PEERS`, so that a missing one fails. On a
//! machine that has nothing but the Rust toolchain the tests that need one are skipped, and say so.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_search::exec::detect::{Detected, SearchPath, Tool, detect};
use forge_search::exec::stop::SystemClock;

use crate::skipped::skipped;

/// The variable that names a further version of a program.
fn variable(tool: Tool) -> &'static str {
    match tool {
        Tool::Ripgrep => "FORGE_SEARCH_TEST_RG15",
        Tool::Ugrep => "FORGE_SEARCH_TEST_UGREP7",
    }
}

fn find(tool: Tool, configured: &Path) -> Result<Detected, String> {
    let path = std::env::var_os("PATH");
    let search = SearchPath {
        path: path.as_deref(),
        working_dir: Path::new("/"),
    };
    detect(tool, configured, search, Arc::new(SystemClock)).map_err(|error| error.to_string())
}

/// Finds the program on the search path.
///
/// # Panics
///
/// If it is missing although it is required.
pub(crate) fn peer(tool: Tool) -> Option<Detected> {
    match find(tool, Path::new(tool.program())) {
        Ok(detected) => Some(detected),
        Err(why) => {
            let hint = "install the packages ripgrep and ugrep, for instance by `apt-get install ripgrep ugrep`";
            skipped(format!("{why}; {hint}"));
            None
        }
    }
}

/// Finds all versions of a program that there are: the one on the search path, and a further one that the
/// environment names.
pub(crate) fn peers(tool: Tool) -> Vec<Detected> {
    let mut all: Vec<Detected> = peer(tool).into_iter().collect();
    if let Some(path) = std::env::var_os(variable(tool)) {
        let path = PathBuf::from(path);
        all.push(find(tool, &path).unwrap_or_else(|why| panic!("{}: {why}", variable(tool))));
    }
    all
}
