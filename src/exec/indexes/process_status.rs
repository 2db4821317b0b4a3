//! The status file of a live index: a small file that reports its state to other processes.
//!
//! Owns the file, its location, and reading the status files of all processes. The live index
//! decides when to write the file (`live::status_file`); `index status` reads it.
//!
//! ```text
//! <cache root, or a directory for temporary files>/living/index-<process>-<n>/state          one JSON object
//!                                                                            /.writers.lock  held by the process
//! ```
//!
//! A file counts only while its process holds the lock. The next live index removes files of
//! processes that have ended. No search depends on status files, so nothing here fails: a file that
//! can't be written is missing, and a file that can't be read is skipped.

use std::path::PathBuf;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::Report;
use super::host::BuildReport;
use crate::exec::as_text;
use crate::format::disk::RealDisk;
use crate::format::error::FormatError;
use crate::format::lock_dir::{LockDir, Purpose, in_use};
use crate::format::mutex::lock;
use crate::format::publish::{is_unfinished, replace};
use crate::format::storage::{Privacy, Storage};
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIndexStatus {
    /// The number of the process.
    pub process: u32,
    /// The index root.
    #[serde(with = "as_text::path")]
    pub root: PathBuf,
    /// The name of the directory that holds the index, or that would hold it. Indexes of one root
    /// with different settings have different names.
    pub index: String,
    /// The state, with its reason code.
    #[serde(flatten, with = "state_names")]
    pub index_state: IndexState,
    /// Why the state is not `COMPLETE`, and what to do.
    pub why: Option<String>,
    /// Whether the tree is watched.
    pub tracking: bool,
    /// Changed files and subtrees that the worker has not examined yet.
    pub waiting: u64,
    /// Files that differ from the segment.
    #[serde(rename = "beside")]
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
#[derive(Serialize, Deserialize)]
struct StatusRecord<T> {
    version: u32,
    #[serde(flatten)]
    status: T,
}

/// The fields `state` and `reason`.
mod state_names {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    use crate::index::state::IndexState;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Names<T> {
        state: T,
        reason: Option<T>,
    }

    pub(super) fn serialize<S: Serializer>(of: &IndexState, to: S) -> Result<S::Ok, S::Error> {
        let (state, reason) = (of.state().as_str(), of.reason());
        Names { state, reason }.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<IndexState, D::Error> {
        let Names::<String> { state, reason } = Deserialize::deserialize(from)?;
        let known = IndexState::of_names(&state, reason.as_deref());
        known.ok_or_else(|| D::Error::custom("the state is unknown"))
    }
}

impl ProcessIndexStatus {
    fn encode(&self) -> Option<Vec<u8>> {
        let record = StatusRecord {
            version: VERSION,
            status: self,
        };
        serde_json::to_vec(&record).ok()
    }

    /// Parses a status file. Returns `None` if the format or a value is unknown.
    fn decode(bytes: &[u8]) -> Option<ProcessIndexStatus> {
        let record: StatusRecord<ProcessIndexStatus> = serde_json::from_slice(bytes).ok()?;
        (record.version == VERSION).then_some(record.status)
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
        let short = |why: &String| why.chars().take(MAX_WHY).collect();
        let note = ProcessIndexStatus {
            process: std::process::id(),
            root: self.root.clone(),
            index: self.index.clone(),
            index_state: report.index_state,
            why: report.why.as_ref().map(short),
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
