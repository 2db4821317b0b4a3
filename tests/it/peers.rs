//! Finds the programs that tests compare with, and skips tests without them.
//!
//! Continuous integration installs the programs and sets `FORGE_SEARCH_REQUIRE_PEERS`, so that a
//! missing one fails. On a machine with only the Rust toolchain, the tests that need a program are
//! skipped, and say so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use forge_search::internal::exec::external::detect::{Detected, SearchPath, Tool, detect};

use crate::clocks::FakeClock;
use crate::skipped::skipped;

/// The environment variable that names another version of a program.
fn variable(tool: Tool) -> &'static str {
    match tool {
        Tool::Ripgrep => "FORGE_SEARCH_TEST_RG15",
        Tool::Ugrep => "FORGE_SEARCH_TEST_UGREP7",
    }
}

/// Finds a program. All tests together ask it for its version only once.
fn find(tool: Tool, configured: &Path) -> Result<Detected, String> {
    type Found = BTreeMap<(Tool, PathBuf), Result<Detected, String>>;
    static FOUND: LazyLock<Mutex<Found>> = LazyLock::new(Mutex::default);
    let mut found = FOUND.lock().unwrap();
    let key = (tool, configured.to_path_buf());
    let known = found.entry(key);
    known.or_insert_with(|| look(tool, configured)).clone()
}

fn look(tool: Tool, configured: &Path) -> Result<Detected, String> {
    let path = std::env::var_os("PATH");
    let search = SearchPath {
        path: path.as_deref(),
        working_dir: Path::new("/"),
    };
    // The clock stands still, so no program exceeds its time.
    let clock = Arc::new(FakeClock::new());
    detect(tool, configured, search, clock).map_err(|error| error.to_string())
}

/// Finds the program in `PATH`.
///
/// # Panics
///
/// If the program is missing although it is required.
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

/// Finds all versions of a program: the one in `PATH`, and the one that the environment names.
pub(crate) fn peers(tool: Tool) -> Vec<Detected> {
    let mut all: Vec<Detected> = peer(tool).into_iter().collect();
    if let Some(path) = std::env::var_os(variable(tool)) {
        let path = PathBuf::from(path);
        all.push(find(tool, &path).unwrap_or_else(|why| panic!("{}: {why}", variable(tool))));
    }
    all
}
