//! Where records come from: directories, mail, databases and files of records.
//!
//! Owns reading each kind, read-only and in bounded memory, and what goes wrong with that. Nothing here knows what is searched for.

mod csv;
mod dirs;
mod files;
mod jsonl;
mod mail;
mod memory;
mod sqlite;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use mail::scan_mbox;
pub use memory::InMemory;

use super::failure::Reason;
use super::search::Source;
use crate::tool::config::{ScopeConfig, ScopeKind};

/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;

/// Opens the data of a scope.
///
/// # Errors
///
/// [`Reason::ScopeMissing`], [`Reason::ScopeDenied`] or [`Reason::ScopeUnreadable`] if it can't be read, and [`Reason::SourceMalformed`] where
/// it shows at once that it is of another kind.
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

/// Says why data can't be had.
pub fn unavailable(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::NotFound => Reason::ScopeMissing,
        io::ErrorKind::PermissionDenied => Reason::ScopeDenied,
        io::ErrorKind::OutOfMemory => Reason::Memory,
        _ => Reason::ScopeUnreadable,
    }
}

/// Returns what lies beside a file under its name with an ending.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    name.into()
}

/// A file that has to stay as it is while it is read.
#[derive(Debug)]
struct Steady {
    file: File,
    was: (u64, Option<std::time::SystemTime>),
}

impl Steady {
    fn open(path: &Path) -> Result<Steady, Reason> {
        // Opening anything else might wait for ever.
        let meta = std::fs::metadata(path).map_err(|error| unavailable(&error))?;
        if !meta.is_file() {
            return Err(Reason::ScopeUnreadable);
        }
        let file = File::open(path).map_err(|error| unavailable(&error))?;
        let meta = file.metadata().map_err(|error| unavailable(&error))?;
        if !meta.is_file() {
            return Err(Reason::ScopeUnreadable);
        }
        let was = (meta.len(), meta.modified().ok());
        Ok(Steady { file, was })
    }

    /// Says that it has changed, if it has.
    fn unchanged(&self) -> Result<(), Reason> {
        let meta = self.file.metadata().map_err(|error| unavailable(&error))?;
        match (meta.len(), meta.modified().ok()) == self.was {
            true => Ok(()),
            false => Err(Reason::SourceChanged),
        }
    }
}
