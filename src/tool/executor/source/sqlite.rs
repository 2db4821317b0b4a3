//! Tables of SQLite databases.
//!
//! The database is never written, not even by SQLite itself: it is opened read-only, and if SQLite
//! had to write (a journal is left over from a crash), reading fails. One transaction reads
//! everything, so it sees one state.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};

use super::{StableFile, companion_path};
use crate::tool::executor::failure::Reason;
use crate::tool::executor::order::{Key, Order, Place};
use crate::tool::executor::search::{Fields, Record, Source, Visit};

/// How often to try to open a temporarily unreadable database, and the pause between two tries.
/// Files that were created after the confinement can't be opened at all; the host starts another
/// worker then.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// How long to wait for a program that has locked the database.
const PATIENCE: Duration = Duration::from_secs(5);

/// A table of a database.
#[derive(Debug)]
pub(super) struct Table {
    location: PathBuf,
    table: String,
    key: String,
}

impl Table {
    pub(super) fn open(location: &Path, table: String, key: String) -> Result<Table, Reason> {
        // Checks that it exists and is a file.
        StableFile::open(location)?;
        Ok(Table {
            location: location.to_path_buf(),
            table,
            key,
        })
    }

    /// Opens the database, with locks if possible. A database in WAL mode can't be opened with
    /// locks if its WAL is missing and can't be created. All data is in one file then. It is
    /// returned as a [`StableFile`] file, because it must not change.
    fn connect(&self) -> Result<(Connection, Option<StableFile>), Reason> {
        let mut tries = TRIES;
        loop {
            match self.try_to_connect() {
                // A program that closes the database may remove files that this process is about to
                // open.
                Err(Reason::ScopeUnreadable) if tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(PAUSE);
                }
                connected => return connected,
            }
        }
    }

    fn try_to_connect(&self) -> Result<(Connection, Option<StableFile>), Reason> {
        let is_beside = |ending: &str| companion_path(&self.location, ending).exists();
        let is_alone = !is_beside("-wal") && !is_beside("-journal");
        let refused = |error: &rusqlite::Error| {
            use ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
            matches!(code(error), Some(CannotOpen | PermissionDenied | ReadOnly))
        };
        let wrong = |error| wrong(&error);
        match connect(&self.location, false) {
            Err(error) if refused(&error) && is_alone => {
                // The state is recorded before the first read.
                let state = StableFile::open(&self.location)?;
                Ok((connect(&self.location, true).map_err(wrong)?, Some(state)))
            }
            locked => Ok((locked.map_err(wrong)?, None)),
        }
    }
}

fn connect(location: &Path, immutable: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(uri(location, immutable), flags)?;
    connection.busy_timeout(PATIENCE)?;
    // Code in the database must not run, and nothing may be written, not even temporary files.
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192; PRAGMA query_only = ON; BEGIN;")?;
    // A transaction begins with its first read.
    connection.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))?;
    Ok(connection)
}

/// Formats a path as a URI.
fn uri(location: &Path, immutable: bool) -> String {
    use std::fmt::Write;
    let mut uri = String::from("file:");
    for &byte in location.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            uri.push(byte.into());
        } else {
            // Writing to a string does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str(if immutable {
        "?mode=ro&immutable=1"
    } else {
        "?mode=ro"
    });
    uri
}

/// Quotes a name for SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

fn wrong(error: &rusqlite::Error) -> Reason {
    match code(error) {
        Some(ErrorCode::OutOfMemory) => Reason::Memory,
        Some(ErrorCode::PermissionDenied) => Reason::ScopeDenied,
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly) => {
            Reason::ScopeUnreadable
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Reason::ScopeLocked,
        _ => Reason::SourceMalformed,
    }
}

impl Source for Table {
    /// Visits each row, in storage order; skips rows whose key is neither a number nor a text.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let (connection, unlocked) = self.connect()?;
        let passed_over = scan_table(&connection, &self.table, &self.key, visit)?;
        if let Some(file) = unlocked {
            file.unchanged()?;
        }
        Ok(passed_over)
    }
}

/// Returns a value of a row. If a text can't be converted to UTF-8 for lack of memory, the library
/// panics; this returns [`Reason::Memory`] instead.
fn value<'a>(row: &'a Row<'_>, column: usize) -> Result<ValueRef<'a>, Reason> {
    let get = std::panic::AssertUnwindSafe(|| row.get_ref(column));
    match std::panic::catch_unwind(get) {
        Ok(value) => value.map_err(|error| wrong(&error)),
        Err(panic) => {
            let said = panic.downcast_ref::<&str>().copied();
            let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            match said.is_some_and(|said| said.contains("with NULL data")) {
                true => Err(Reason::Memory),
                false => std::panic::resume_unwind(panic),
            }
        }
    }
}

fn scan_table(
    connection: &Connection,
    table: &str,
    key: &str,
    visit: &mut Visit<'_>,
) -> Result<u64, Reason> {
    let wrong = |error: rusqlite::Error| wrong(&error);
    // Views and virtual tables are computed, not stored, so they are refused.
    let is_ordinary = connection.query_row(
        "SELECT 1 FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name = ?1 COLLATE NOCASE",
        [table],
        |_| Ok(()),
    );
    match is_ordinary {
        Ok(()) => {}
        Err(rusqlite::Error::QueryReturnedNoRows) => return Err(Reason::SourceMalformed),
        Err(error) => return Err(wrong(error)),
    }
    let mut rows = connection
        .prepare(&format!("SELECT * FROM {}", quoted(table)))
        .map_err(wrong)?;
    let names: Vec<String> = rows.column_names().map(String::from).collect();
    let named = names.iter().position(|name| name.eq_ignore_ascii_case(key));
    let at = match named {
        Some(at) => at,
        // Every row has a `rowid`, unless the table was created without; then there is no such
        // column.
        None if key.eq_ignore_ascii_case("rowid") => {
            let sql = format!("SELECT *, rowid FROM {}", quoted(table));
            rows = connection
                .prepare(&sql)
                .map_err(|_| Reason::SourceMalformed)?;
            names.len()
        }
        None => return Err(Reason::SourceMalformed),
    };
    let mut rows = rows.query(()).map_err(wrong)?;
    let (mut fields, mut passed_over, mut nth) = (Fields::default(), 0, 0);
    while let Some(row) = rows.next().map_err(wrong)? {
        nth += 1;
        let key = match value(row, at)? {
            ValueRef::Integer(whole) => (Key::whole(whole), whole.to_string()),
            ValueRef::Real(real) => (Key::real(real), format!("{real:?}")),
            ValueRef::Text(text) => {
                let text = String::from_utf8_lossy(text).into_owned();
                (Key::Text(text.clone()), text)
            }
            ValueRef::Null | ValueRef::Blob(_) => {
                passed_over += 1;
                continue;
            }
        };
        fields.clear();
        for (column, name) in names.iter().enumerate() {
            if let ValueRef::Text(text) = value(row, column)? {
                fields.push(name, &String::from_utf8_lossy(text));
            }
        }
        visit(Record {
            fields: &fields,
            id: &|| key.1.clone(),
            order: &|| Order::Key(key.0.clone(), Place::Nth(nth)),
        });
    }
    Ok(passed_over)
}
