//! Compares the external engines with the embedded one, using the real programs.
//!
//! `crate::peers` finds the installed versions.

mod agreement;
mod fuzzy;
mod shuffled;
mod trouble;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_search::internal::exec::answer::outcome::FileOutcome;
use forge_search::internal::exec::engine::embedded::Embedded;
use forge_search::internal::exec::engine::{Engine, EngineError};
use forge_search::internal::exec::external::detect::{Detected, Tool};
use forge_search::internal::exec::external::ripgrep::Ripgrep;
use forge_search::internal::exec::external::ugrep::Ugrep;
use forge_search::internal::exec::question::query::{Case, Query, QueryOptions};
use forge_search::internal::exec::sources::eligible::EligibleFile;
use forge_search::internal::exec::stop::{Stop, SystemClock};
use forge_search::internal::index::root_dir::RootDir;
use forge_search::internal::index::walk::{FoundFile, Place};

use crate::peers::peers;

fn engine(detected: Detected) -> Arc<dyn Engine> {
    match detected.tool {
        Tool::Ripgrep => Arc::new(Ripgrep::new(detected)),
        Tool::Ugrep => Arc::new(Ugrep::new(detected)),
    }
}

/// Returns one engine for each installed program of a kind.
fn engines_of(tool: Tool) -> Vec<Arc<dyn Engine>> {
    peers(tool).into_iter().map(engine).collect()
}

fn engines() -> Vec<Arc<dyn Engine>> {
    let mut engines = engines_of(Tool::Ripgrep);
    engines.extend(engines_of(Tool::Ugrep));
    engines
}

/// Returns an engine that runs a script in place of the program.
fn fake(tool: Tool, dir: &Path, script: &str) -> Arc<dyn Engine> {
    let path = dir.join(tool.program());
    crate::support::write_script(&path, script);
    engine(Detected {
        tool,
        path,
        version: tool.oldest(),
    })
}

/// A directory with its files, in the order in which they are searched.
struct Tree {
    dir: tempfile::TempDir,
    place: Arc<Place>,
    files: Vec<EligibleFile>,
}

impl Tree {
    fn new() -> Tree {
        let dir = tempfile::tempdir().unwrap();
        let root = RootDir::open(&dir.path().canonicalize().unwrap()).unwrap();
        let place = Arc::new(Place {
            root: Arc::new(root),
            real: PathBuf::new(),
            logical: PathBuf::new(),
        });
        Tree {
            dir,
            place,
            files: Vec::new(),
        }
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.dir.path().join(std::ffi::OsStr::from_bytes(name))
    }

    fn add(&mut self, name: &[u8], content: &[u8]) {
        std::fs::write(self.path(name), content).unwrap();
        self.list(name);
    }

    /// Adds a name to the list, whether or not the file exists.
    fn list(&mut self, name: &[u8]) {
        use std::os::unix::ffi::OsStrExt;
        let found = FoundFile {
            dir: self.place.clone(),
            name: std::ffi::OsStr::from_bytes(name).to_os_string(),
            target: None,
        };
        self.files.push(found.into());
    }
}

fn options() -> QueryOptions {
    QueryOptions {
        max_results: 1000,
        max_matches_per_file: 1000,
        max_file_size: 64 << 20,
        ..QueryOptions::default()
    }
}

/// Searches all files as one task.
fn search(
    engine: &dyn Engine,
    pattern: &str,
    options: &QueryOptions,
    files: &[EligibleFile],
) -> Result<Vec<FileOutcome>, EngineError> {
    let query = Arc::new(Query::new(&[pattern], options).unwrap());
    let mut outcomes = Vec::new();
    engine
        .prepare(query)?
        .worker(Stop::new())
        .search(files, &mut |n, outcome| {
            assert_eq!(n, outcomes.len(), "outcomes come in order");
            outcomes.push(outcome);
        })?;
    Ok(outcomes)
}

fn embedded(pattern: &str, options: &QueryOptions, files: &[EligibleFile]) -> Vec<FileOutcome> {
    search(&Embedded::default(), pattern, options, files).unwrap()
}

/// Clears the number of searched bytes, which external programs do not report.
fn comparable(mut outcomes: Vec<FileOutcome>) -> Vec<FileOutcome> {
    for outcome in &mut outcomes {
        outcome.searched_bytes = 0;
    }
    outcomes
}

/// Asserts that an engine answers like the embedded one; returns its error if it gives no answer.
fn agree(
    engine: &dyn Engine,
    pattern: &str,
    options: &QueryOptions,
    tree: &Tree,
) -> Result<(), EngineError> {
    let found = comparable(search(engine, pattern, options, &tree.files)?);
    let expected = comparable(embedded(pattern, options, &tree.files));
    assert_eq!(found.len(), expected.len());
    for ((file, found), expected) in tree.files.iter().zip(&found).zip(&expected) {
        let bytes = std::fs::read(tree.dir.path().join(&file.found.name)).unwrap_or_default();
        assert_eq!(
            found,
            expected,
            "{} for {pattern:?} in {:?}, {options:?}, content {:?}",
            engine.id(),
            file.found.name,
            String::from_utf8_lossy(&bytes[..bytes.len().min(2000)])
        );
    }
    Ok(())
}
