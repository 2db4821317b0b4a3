//! Converts errors of SQLite to errors of the format layer.
//!
//! This module owns the distinction that callers act on: damage, after which the index is rebuilt,
//! and errors that may be temporary.

use std::io;
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::format::error::{FormatError, FormatErrorKind};
use crate::index::builder::BuildError;

/// The operation that failed, in messages about reading.
const READ: &str = "read the database";

/// The error that ended reading or writing a database.
#[derive(Debug)]
pub(super) enum Problem {
    Sqlite(rusqlite::Error),
    Format(FormatError),
    Build(BuildError),
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Problem {
        Problem::Sqlite(error)
    }
}

impl From<FormatError> for Problem {
    fn from(error: FormatError) -> Problem {
        Problem::Format(error)
    }
}

impl From<BuildError> for Problem {
    fn from(error: BuildError) -> Problem {
        Problem::Build(error)
    }
}

impl Problem {
    /// Builds the error for damage that SQLite did not notice.
    pub(super) fn damaged(problem: impl Into<String>) -> Problem {
        Problem::Format(FormatError::database(problem))
    }

    /// Converts the error of a read. `busy` is the time that was waited for locks.
    pub(super) fn reading(self, busy: Duration) -> FormatError {
        match self {
            Problem::Format(error) | Problem::Build(BuildError::Format(error)) => error,
            Problem::Build(error) => FormatError::io(READ, io::Error::other(error.to_string())),
            Problem::Sqlite(error) => reading(error, busy),
        }
    }

    /// Converts the error of a write. `busy` is the time that was waited for locks.
    pub(super) fn writing(self, busy: Duration) -> BuildError {
        match self {
            Problem::Build(error) => error,
            Problem::Format(error) => BuildError::Format(error),
            Problem::Sqlite(error) if is_locked(&error) => {
                BuildError::Format(FormatError::new(FormatErrorKind::Locked { waited: busy }))
            }
            // A database that is being written is not an index yet, so no error is damage of an
            // index.
            Problem::Sqlite(error) => {
                BuildError::Format(FormatError::io("write the database", io_error(&error)))
            }
        }
    }
}

/// Converts an error to one of the system. Its kind decides which remedy the message has.
fn io_error(error: &rusqlite::Error) -> io::Error {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
        Some(ErrorCode::PermissionDenied) => io::ErrorKind::PermissionDenied,
        Some(ErrorCode::ReadOnly) => io::ErrorKind::ReadOnlyFilesystem,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.to_string())
}

fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn reading(error: rusqlite::Error, busy: Duration) -> FormatError {
    /// The file ends within a page.
    const SHORT_READ: i32 = rusqlite::ffi::SQLITE_IOERR_SHORT_READ;
    if is_locked(&error) {
        return FormatError::new(FormatErrorKind::Locked { waited: busy });
    }
    let extended = error.sqlite_error().map(|error| error.extended_code);
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => FormatError::new(FormatErrorKind::NotOurs),
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::DiskFull
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::NoLargeFileSupport
            | ErrorCode::OperationInterrupted
            | ErrorCode::OutOfMemory
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly,
        ) => FormatError::io(READ, io_error(&error)),
        Some(ErrorCode::SystemIoFailure) if extended != Some(SHORT_READ) => {
            FormatError::io(READ, io_error(&error))
        }
        // Damage that SQLite found, and tables, types or values that this program did not write.
        _ => FormatError::database(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn failure(code: i32) -> Problem {
        Problem::Sqlite(rusqlite::Error::SqliteFailure(
            ffi::Error::new(code),
            Some("a message".into()),
        ))
    }

    #[test]
    fn only_damage_counts_as_a_corrupt_database() {
        let busy = Duration::from_millis(7);
        for (code, corrupt) in [
            (ffi::SQLITE_CORRUPT, true),
            (ffi::SQLITE_NOTADB, true),
            (ffi::SQLITE_ERROR, true),
            (ffi::SQLITE_MISMATCH, true),
            (ffi::SQLITE_IOERR_SHORT_READ, true),
            (ffi::SQLITE_IOERR_READ, false),
            (ffi::SQLITE_CANTOPEN, false),
            (ffi::SQLITE_NOMEM, false),
            (ffi::SQLITE_PERM, false),
            (ffi::SQLITE_READONLY, false),
            (ffi::SQLITE_BUSY, false),
            (ffi::SQLITE_LOCKED, false),
            (ffi::SQLITE_PROTOCOL, false),
        ] {
            let error = failure(code).reading(busy);
            assert_eq!(error.is_corrupt(), corrupt, "{code}: {error}");
            let BuildError::Format(error) = failure(code).writing(busy) else {
                panic!("{code}");
            };
            assert!(!error.is_corrupt(), "{code}: {error}");
        }
        let locked = failure(ffi::SQLITE_BUSY).reading(busy);
        let kind = locked.kind();
        assert!(matches!(kind, FormatErrorKind::Locked { waited } if *waited == busy));
        let text = failure(ffi::SQLITE_CORRUPT).reading(busy).to_string();
        assert!(text.contains("a message"), "{text}");
        assert!(Problem::damaged("x").reading(busy).is_corrupt());
    }

    #[test]
    fn messages_about_the_system_have_a_remedy() {
        for (code, remedy) in [
            (ffi::SQLITE_FULL, "free some space there"),
            (ffi::SQLITE_PERM, "allow this user to write there"),
            (ffi::SQLITE_READONLY, "allow this user to write there"),
        ] {
            let reading = failure(code).reading(Duration::ZERO).to_string();
            let writing = failure(code).writing(Duration::ZERO).to_string();
            for text in [reading, writing] {
                assert!(text.contains("a message"), "{text}");
                assert!(text.contains(remedy), "{text}");
            }
        }
    }
}
