//! The status file of a live index: a small file that reports its state to other processes.
//!
//! This module owns the file, its location, and reading the status files of all processes. The live
//! index decides when to write the file (`live::status_file`); `index status` reads it.
//!
//! ```text
//! <cache root, or a directory for temporary files>/living/index-<process>-<n>/state          one JSON object
//!                                                                            /.writers.lock  held by the process
//! ```
//!
//! A file counts only while its process holds the lock. The next live index removes files of
//! processes that have ended. No search depends on status files, so nothing here fails: a file that
//! can't be written is missing, and a file that can't be read is skipped.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::Report;
use super::host::BuildReport;
use crate::format::disk::RealDisk;
use crate::format::error::FormatError;
use crate::format::lock_dir::{LockDir, Purpose, in_use};
use crate::format::mutex::lock;
use crate::format::publish::{is_unfinished, replace};
use crate::format::storage::{Privacy, Storage};
use crate::index::builder::Phase;
use crate::index::names::{name_bytes, name_from_bytes};
use crate::index::state::IndexState;

/// The name of the status file.
const STATE: &str = "state";

/// The directories of live indexes.
const LIVING: Purpose = Purpose {
    prefix: "index-",
    owns: |name| name == STATE || is_unfinished(name),
};

/// The version of the file format.
const VERSION: u32 = 1;

/// The longest file that is read, in bytes. The files that are written are much shorter.
const MAX_BYTES: usize = 128 * 1024;

/// The longest explanation that is written, in characters.
const MAX_WHY: usize = 4_000;

/// The most indexes that are reported. A higher number of live indexes is an attack or a test.
const MAX_INDEXES: usize = 1_000;

/// A live index in some process, as its status file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIndexStatus {
    /// The number of the process.
    pub process: u32,
    /// The index root.
    pub root: PathBuf,
    /// The name of the directory that holds the index, or that would hold it. Indexes of one root
    /// with different settings have different names.
    pub index: String,
    /// The state, with its reason code.
    pub index_state: IndexState,
    /// Why the state is not `COMPLETE`, and what to do.
    pub why: Option<String>,
    /// Whether the tree is watched.
    pub tracking: bool,
    /// Changed files and subtrees that the worker has not examined yet.
    pub waiting: u64,
    /// Files that differ from the segment.
    pub extra_files: u64,
    /// The number of the publication in use; `None` for an index in memory.
    pub generation: Option<u64>,
    /// The number of confirmed coverages in that process.
    pub epoch: u64,
    /// The progress of its build, if one runs.
    pub build: Option<BuildReport>,
    /// When the file was written, in milliseconds since the Unix epoch.
    pub noted_ms: i64,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct StatusRecord {
    version: u32,
    process: u32,
    root: Name,
    index: String,
    state: String,
    reason: Option<String>,
    why: Option<String>,
    tracking: bool,
    waiting: u64,
    beside: u64,
    generation: Option<u64>,
    epoch: u64,
    build: Option<BuildRecord>,
    noted_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct BuildRecord {
    phase: Option<String>,
    files_total: u64,
    files_done: u64,
    elapsed_ms: u64,
}

/// A path: as text if it is valid UTF-8, otherwise as bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

impl Name {
    fn of(path: &Path) -> Name {
        match path.to_str() {
            Some(text) => Name::Text(text.to_string()),
            None => Name::Bytes(name_bytes(path.as_os_str()).to_vec()),
        }
    }

    /// Returns the path; `None` if this system can't represent it.
    fn path(self) -> Option<PathBuf> {
        match self {
            Name::Text(text) => Some(text.into()),
            Name::Bytes(bytes) => name_from_bytes(&bytes).map(PathBuf::from),
        }
    }
}

impl ProcessIndexStatus {
    fn encode(&self) -> Option<Vec<u8>> {
        let short = |why: &String| why.chars().take(MAX_WHY).collect();
        let note = StatusRecord {
            version: VERSION,
            process: self.process,
            root: Name::of(&self.root),
            index: self.index.clone(),
            state: self.index_state.state().as_str().to_string(),
            reason: self.index_state.reason().map(str::to_string),
            why: self.why.as_ref().map(short),
            tracking: self.tracking,
            waiting: self.waiting,
            beside: self.extra_files,
            generation: self.generation,
            epoch: self.epoch,
            build: self.build.map(|build| BuildRecord {
                phase: build.phase.map(|phase| phase.as_str().to_string()),
                files_total: build.files_total,
                files_done: build.files_done,
                elapsed_ms: build.elapsed_ms,
            }),
            noted_ms: self.noted_ms,
        };
        serde_json::to_vec(&note).ok()
    }

    /// Parses a status file. Returns `None` if the format or a value is unknown.
    fn decode(bytes: &[u8]) -> Option<ProcessIndexStatus> {
        let note: StatusRecord = serde_json::from_slice(bytes).ok()?;
        if note.version != VERSION {
            return None;
        }
        let build = match note.build {
            None => None,
            Some(build) => Some(BuildReport {
                phase: match build.phase {
                    None => None,
                    Some(name) => Some(Phase::from_name(&name)?),
                },
                files_total: build.files_total,
                files_done: build.files_done,
                elapsed_ms: build.elapsed_ms,
                ended: false,
            }),
        };
        Some(ProcessIndexStatus {
            process: note.process,
            root: note.root.path()?,
            index: note.index,
            index_state: IndexState::of_names(&note.state, note.reason.as_deref())?,
            why: note.why,
            tracking: note.tracking,
            waiting: note.waiting,
            extra_files: note.beside,
            generation: note.generation,
            epoch: note.epoch,
            build,
            noted_ms: note.noted_ms,
        })
    }
}

/// Writes the status file of one live index.
#[derive(Debug)]
pub(super) struct StatusFile {
    /// The directories to try, in order of preference.
    places: Vec<PathBuf>,
    root: PathBuf,
    index: String,
    own: Mutex<Option<LockDir>>,
}

impl StatusFile {
    pub(super) fn new(places: Vec<PathBuf>, root: PathBuf, index: String) -> StatusFile {
        StatusFile {
            places,
            root,
            index,
            own: Mutex::default(),
        }
    }

    /// Replaces the status file. If no directory can be written, there is no status file.
    pub(super) fn put(&self, report: &Report, build: Option<BuildReport>, noted_ms: i64) {
        let note = ProcessIndexStatus {
            process: std::process::id(),
            root: self.root.clone(),
            index: self.index.clone(),
            index_state: report.index_state,
            why: report.why.clone(),
            tracking: report.tracking,
            waiting: report.dirty as u64,
            extra_files: report.extra_files as u64,
            generation: report.generation,
            epoch: report.epoch,
            build,
            noted_ms,
        };
        let Some(bytes) = note.encode() else {
            return;
        };
        let mut own = lock(&self.own);
        let written = own.as_ref().map(|own| write(own, &bytes));
        if written.is_some_and(|written| written.is_ok()) {
            return;
        }
        // The old file is outdated now, so it is removed with its directory.
        *own = None;
        *own = self.places.iter().find_map(|place| {
            let made = LockDir::make(place, LIVING).ok()?;
            write(&made, &bytes).ok()?;
            Some(made)
        });
    }

    /// Removes the status file.
    pub(super) fn remove(&self) {
        *lock(&self.own) = None;
    }
}

fn write(own: &LockDir, bytes: &[u8]) -> Result<(), FormatError> {
    replace(&RealDisk, own.lock(), STATE, bytes)
}

/// Returns the live indexes that have status files in these directories, ordered by process.
pub(super) fn living_in(places: &[PathBuf]) -> Vec<ProcessIndexStatus> {
    let mut all: Vec<ProcessIndexStatus> = places
        .iter()
        .flat_map(|place| in_use(place, LIVING, MAX_INDEXES))
        .filter_map(|dir| {
            let read = Storage::read(&dir.join(STATE), MAX_BYTES, Privacy::Required).ok()?;
            ProcessIndexStatus::decode(read.as_bytes())
        })
        .collect();
    all.sort_by(|a, b| (a.process, &a.root, &a.index).cmp(&(b.process, &b.root, &b.index)));
    all
}

// The tests need file locks, which the interpreter `miri` does not provide.
#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests;
