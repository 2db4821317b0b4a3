//! What an index that lives says of itself to other processes: a small file for as long as it lives.
//!
//! Owns the file, where it is, and reading those of all processes. When something is to be said, and what, is the living index's to know.
//!
//! ```text
//! <cache root, or a directory for temporary files>/living/index-<process>-<n>/state          one JSON object
//!                                                                            /.writers.lock  held by the process
//! ```
//!
//! A file whose lock is free is of a process that is gone, and counts for nothing: the next index that lives removes it. Nothing here
//! is relied on by a search, so nothing here fails: what can't be written is missing, and what can't be read is passed over.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::Report;
use super::host::BuildReport;
use crate::format::disk::RealDisk;
use crate::format::error::FormatError;
use crate::format::own_dir::{OwnDir, Purpose, in_use};
use crate::format::publish::{is_unfinished, replace};
use crate::format::storage::{Privacy, Storage};
use crate::index::builder::Phase;
use crate::index::names::{name_bytes, name_from_bytes};
use crate::index::state::Standing;

/// The name of the file.
const STATE: &str = "state";

/// Directories of indexes that live.
const LIVING: Purpose = Purpose {
    prefix: "index-",
    owns: |name| name == STATE || is_unfinished(name),
};

/// What is written and read.
const VERSION: u32 = 1;

/// The longest file that is read, in bytes. None that is written comes near.
const MAX_BYTES: usize = 128 * 1024;

/// The longest explanation that is written, in characters.
const MAX_WHY: usize = 4_000;

/// Indexes that are told of. So many that live at once are an attack, or somebody's test.
const MAX_INDEXES: usize = 1_000;

/// An index that lives in some process, as it has last said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivingIndex {
    /// The number of the process.
    pub process: u32,
    /// The index root.
    pub root: PathBuf,
    /// The name of the directory that holds the index, or would: indexes of one root with different settings differ in it.
    pub index: String,
    /// The state, with its reason.
    pub standing: Standing,
    /// Why the state is not `COMPLETE`, and what to do.
    pub why: Option<String>,
    /// Whether the tree is watched.
    pub tracking: bool,
    /// Files and subtrees that changed and were not looked at yet.
    pub waiting: u64,
    /// Files that are not as the segment has them.
    pub beside: u64,
    /// The number of the publication that is in use; unknown of one in memory.
    pub generation: Option<u64>,
    /// Counts confirmed coverages in that process.
    pub epoch: u64,
    /// How far its build is, if one runs.
    pub build: Option<BuildReport>,
    /// When it said so, in milliseconds since the Unix epoch.
    pub noted_ms: i64,
}

/// The file, as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
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
    build: Option<BuildNote>,
    noted_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct BuildNote {
    phase: Option<String>,
    files_total: u64,
    files_done: u64,
    elapsed_ms: u64,
}

/// A path: a text where it is one, else its bytes.
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

    /// Returns the path; `None` for one that this system has none for.
    fn path(self) -> Option<PathBuf> {
        match self {
            Name::Text(text) => Some(text.into()),
            Name::Bytes(bytes) => name_from_bytes(&bytes).map(PathBuf::from),
        }
    }
}

impl LivingIndex {
    fn encode(&self) -> Option<Vec<u8>> {
        let short = |why: &String| why.chars().take(MAX_WHY).collect();
        let note = Note {
            version: VERSION,
            process: self.process,
            root: Name::of(&self.root),
            index: self.index.clone(),
            state: self.standing.state().as_str().to_string(),
            reason: self.standing.reason().map(str::to_string),
            why: self.why.as_ref().map(short),
            tracking: self.tracking,
            waiting: self.waiting,
            beside: self.beside,
            generation: self.generation,
            epoch: self.epoch,
            build: self.build.map(|build| BuildNote {
                phase: build.phase.map(|phase| phase.as_str().to_string()),
                files_total: build.files_total,
                files_done: build.files_done,
                elapsed_ms: build.elapsed_ms,
            }),
            noted_ms: self.noted_ms,
        };
        serde_json::to_vec(&note).ok()
    }

    /// Returns what a file says; `None` if that is nothing that this program knows.
    fn decode(bytes: &[u8]) -> Option<LivingIndex> {
        let note: Note = serde_json::from_slice(bytes).ok()?;
        if note.version != VERSION {
            return None;
        }
        let build = match note.build {
            None => None,
            Some(build) => Some(BuildReport {
                phase: match build.phase {
                    None => None,
                    Some(name) => Some(Phase::of_name(&name)?),
                },
                files_total: build.files_total,
                files_done: build.files_done,
                elapsed_ms: build.elapsed_ms,
                ended: false,
            }),
        };
        Some(LivingIndex {
            process: note.process,
            root: note.root.path()?,
            index: note.index,
            standing: Standing::of_names(&note.state, note.reason.as_deref())?,
            why: note.why,
            tracking: note.tracking,
            waiting: note.waiting,
            beside: note.beside,
            generation: note.generation,
            epoch: note.epoch,
            build,
            noted_ms: note.noted_ms,
        })
    }
}

/// Where a living index says how it is.
#[derive(Debug)]
pub(super) struct Notice {
    /// The directories to be tried, the best first.
    places: Vec<PathBuf>,
    root: PathBuf,
    index: String,
    own: Mutex<Option<OwnDir>>,
}

impl Notice {
    pub(super) fn new(places: Vec<PathBuf>, root: PathBuf, index: String) -> Notice {
        Notice {
            places,
            root,
            index,
            own: Mutex::default(),
        }
    }

    /// Puts how the index is in the place of what was said before. If that can't be written, nothing is said.
    pub(super) fn put(&self, report: &Report, build: Option<BuildReport>, noted_ms: i64) {
        let note = LivingIndex {
            process: std::process::id(),
            root: self.root.clone(),
            index: self.index.clone(),
            standing: report.standing,
            why: report.why.clone(),
            tracking: report.tracking,
            waiting: report.dirty as u64,
            beside: report.beside as u64,
            generation: report.generation,
            epoch: report.epoch,
            build,
            noted_ms,
        };
        let Some(bytes) = note.encode() else {
            return;
        };
        let mut own = self.lock();
        let written = own.as_ref().map(|own| write(own, &bytes));
        if written.is_some_and(|written| written.is_ok()) {
            return;
        }
        // What was said before is not true any more, and goes with its directory.
        *own = None;
        *own = self.places.iter().find_map(|place| {
            let made = OwnDir::make(place, LIVING).ok()?;
            write(&made, &bytes).ok()?;
            Some(made)
        });
    }

    /// Takes back what was said.
    pub(super) fn remove(&self) {
        *self.lock() = None;
    }

    /// Locks even after a panic elsewhere: there is one value, which is replaced.
    fn lock(&self) -> MutexGuard<'_, Option<OwnDir>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(own: &OwnDir, bytes: &[u8]) -> Result<(), FormatError> {
    replace(&RealDisk, own.lock(), STATE, bytes)
}

/// Returns what the indexes that live and tell of themselves in these directories say, ordered by process.
pub(super) fn living_in(places: &[PathBuf]) -> Vec<LivingIndex> {
    let mut all: Vec<LivingIndex> = places
        .iter()
        .flat_map(|place| in_use(place, LIVING, MAX_INDEXES))
        .filter_map(|dir| {
            let read = Storage::read(&dir.join(STATE), MAX_BYTES, Privacy::Required).ok()?;
            LivingIndex::decode(read.as_bytes())
        })
        .collect();
    all.sort_by(|a, b| (a.process, &a.root, &a.index).cmp(&(b.process, &b.root, &b.index)));
    all
}

// Locks are the filesystem's, which the interpreter keeps from tests.
#[cfg(all(test, unix, not(miri)))]
mod tests;
