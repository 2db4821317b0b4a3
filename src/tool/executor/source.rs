//! The sources of records that tasks search: directories, mail, databases and files of records.
//!
//! This module owns the reading of each kind, read-only and in bounded memory, and the errors of
//! that. It does not know the query. (The sources of a search are in `exec::sources`.)

mod csv;
mod dirs;
mod files;
mod jsonl;
mod mail;
mod sqlite;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use mail::scan_mbox;

use super::failure::Reason;
use super::search::Source;
use crate::tool::config::{ScopeConfig, ScopeKind};
use crate::tool::indexing::wall_clock_ns;

/// The size of a read, in bytes.
const BUFFER: usize = 1 << 20;

/// Opens the data of a scope.
///
/// # Errors
///
/// [`Reason::ScopeMissing`], [`Reason::ScopeDenied`] or [`Reason::ScopeUnreadable`] if it can't be
/// read. [`Reason::SourceMalformed`] if it is obviously of another kind.
pub fn open(scope: &ScopeConfig) -> Result<Box<dyn Source>, Reason> {
    let location = scope
        .location
        .canonicalize()
        .map_err(|error| unavailable(&error))?;
    let key = || scope.primary_key.clone().ok_or(Reason::SourceMalformed);
    Ok(match scope.kind {
        ScopeKind::Files => Box::new(files::Tree::open(&location)?),
        ScopeKind::Maildir => Box::new(mail::Maildir::open(&location)?),
        ScopeKind::Mbox => Box::new(mail::Mbox::open(&location)?),
        ScopeKind::Sqlite => {
            let table = scope.table.clone().ok_or(Reason::SourceMalformed)?;
            Box::new(sqlite::Table::open(&location, table, key()?)?)
        }
        ScopeKind::Csv => Box::new(csv::Csv::open(&location, key()?)?),
        ScopeKind::Jsonl => Box::new(jsonl::Jsonl::open(&location, key()?)?),
    })
}

/// Converts an error of reading data into a reason.
pub fn unavailable(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::NotFound => Reason::ScopeMissing,
        io::ErrorKind::PermissionDenied => Reason::ScopeDenied,
        io::ErrorKind::OutOfMemory => Reason::Memory,
        _ => Reason::ScopeUnreadable,
    }
}

/// Returns the path with an ending added to its name.
pub(super) fn companion_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    name.into()
}

/// The minimum age of the last change. A file system may give two changes within this time the same
/// timestamp.
const SETTLED: Duration = Duration::from_millis(20);

/// How often to wait for that age.
const SETTLING: u32 = 10;

/// A file that must not change while it is read.
#[derive(Debug)]
struct StableFile {
    file: File,
    was: State,
}

/// The state of a file: device, inode, length, and the times of the last changes.
#[derive(Debug, PartialEq, Eq)]
struct State([i128; 5]);

impl State {
    fn of(file: &File) -> Result<State, Reason> {
        use std::os::unix::fs::MetadataExt;
        let meta = file.metadata().map_err(|error| unavailable(&error))?;
        let time = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Ok(State([
            meta.dev().into(),
            meta.ino().into(),
            meta.len().into(),
            time(meta.mtime(), meta.mtime_nsec()),
            time(meta.ctime(), meta.ctime_nsec()),
        ]))
    }

    fn changed_ns(&self) -> i128 {
        self.0[4]
    }
}

/// Returns how long to wait until a further change would get another timestamp than `changed_ns`.
fn unsettled(changed_ns: i128) -> Option<Duration> {
    let age = i128::from(wall_clock_ns()) - changed_ns;
    // A time in the future was written by another clock.
    let age = Duration::from_nanos(u64::try_from(age).ok()?);
    SETTLED.checked_sub(age).filter(|rest| !rest.is_zero())
}

impl StableFile {
    fn open(path: &Path) -> Result<StableFile, Reason> {
        // Opening another kind of file, such as a pipe, might wait for ever.
        let meta = std::fs::metadata(path).map_err(|error| unavailable(&error))?;
        if !meta.is_file() {
            return Err(Reason::ScopeUnreadable);
        }
        let file = File::open(path).map_err(|error| unavailable(&error))?;
        let meta = file.metadata().map_err(|error| unavailable(&error))?;
        if !meta.is_file() {
            return Err(Reason::ScopeUnreadable);
        }
        let mut was = State::of(&file)?;
        for _ in 0..SETTLING {
            let Some(rest) = unsettled(was.changed_ns()) else {
                break;
            };
            std::thread::sleep(rest);
            was = State::of(&file)?;
        }
        Ok(StableFile { file, was })
    }

    /// Fails if the file has changed.
    fn unchanged(&self) -> Result<(), Reason> {
        match State::of(&self.file)? == self.was {
            true => Ok(()),
            false => Err(Reason::SourceChanged),
        }
    }
}
