//! Tables of SQLite databases.
//!
//! A database is never written, also not by what reading one may do by itself: it is opened for reading only, and where that would have to write
//! (a journal that is left of a crash), it fails. Reading is one transaction, so that it sees one state.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};

use super::{Steady, beside};
use crate::tool::executor::failure::Reason;
use crate::tool::executor::order::{Key, Order, Place};
use crate::tool::executor::search::{Fields, Record, Source, Visit};

/// How often to try again to open a database that can't be opened at a moment, and how long to wait before that. What has come to be there since this
/// process gave up reading anything else can't be opened at all: the host tries again with another one.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// How long to wait for a program that keeps a database to itself while it writes.
const PATIENCE: Duration = Duration::from_secs(5);

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    location: PathBuf,
    table: String,
    key: String,
}

impl Table {
    pub(super) fn open(location: &Path, table: String, key: String) -> Result<Table, Reason> {
        // Whether it is there, and a file.
        Steady::open(location)?;
        Ok(Table {
            location: location.to_path_buf(),
            table,
            key,
        })
    }

    /// Opens the database, with locks where it can be: one that keeps a log beside it can't be opened so where that log is not there and can't be
    /// made. It is all in one file then, which has to stay as it is, and is returned with that.
    fn connect(&self) -> Result<(Connection, Option<Steady>), Reason> {
        let mut tries = TRIES;
        loop {
            match self.try_to_connect() {
                // Whoever closes it takes away what another one is about to open.
                Err(Reason::ScopeUnreadable) if tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(PAUSE);
                }
                connected => return connected,
            }
        }
    }

    fn try_to_connect(&self) -> Result<(Connection, Option<Steady>), Reason> {
        let is_beside = |ending: &str| beside(&self.location, ending).exists();
        let is_alone = !is_beside("-wal") && !is_beside("-journal");
        let refused = |error: &rusqlite::Error| {
            use ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
            matches!(code(error), Some(CannotOpen | PermissionDenied | ReadOnly))
        };
        let wrong = |error| wrong(&error);
        match connect(&self.location, false) {
            Err(error) if refused(&error) && is_alone => {
                // Before anything is read of it.
                let state = Steady::open(&self.location)?;
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
    // Nothing that a database holds may run, and nothing may be written, to temporary files either.
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192; PRAGMA query_only = ON; BEGIN;")?;
    // Only with a first look does a transaction begin.
    connection.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))?;
    Ok(connection)
}

/// Writes a path as a URI.
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

/// Writes a name as one.
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
    /// Hands over one row after the other, as they are stored; passes over those whose key is nothing or no number and no text.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let (connection, unlocked) = self.connect()?;
        let passed_over = scan_table(&connection, &self.table, &self.key, visit)?;
        if let Some(file) = unlocked {
            file.unchanged()?;
        }
        Ok(passed_over)
    }
}

/// Returns a value of a row. Where there is no memory for a text in UTF-8, in which it is not stored, there is none, which the library takes for impossible.
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
    // Views and virtual tables are what a database makes of them, not what is in it.
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
        // Every row has this one, unless the table is made without; then there is no such column.
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
