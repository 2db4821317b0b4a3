//! The store of results, so that a repeated request gets the same answer (EXEC §9).
//!
//! This module owns a SQLite database in WAL mode, with one row for each task. A result is stored
//! in one transaction before it is returned to a caller, and never changes. After its retention
//! time its bytes are deleted. The row stays, so that the task is not executed again. (The store of
//! indexes is `index::store`.)

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};

use super::failure::{ExecutorError, Reason};
use super::trust::{untrusted, untrusted_place};
use crate::format::sys::private_dir_builder;

/// How long to wait for other processes that write.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause between two tries where SQLite itself does not wait.
const PAUSE: Duration = Duration::from_millis(10);

/// The schema version.
const VERSION: i64 = 1;

/// A stored result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResult {
    /// The result, byte for byte.
    pub body: Vec<u8>,
    /// How many items of the source were skipped.
    pub passed_over: u64,
}

/// A store of results.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    /// Named in messages to the operator.
    path: PathBuf,
}

impl Store {
    /// Opens a store. Creates the file and its directory if they are missing.
    ///
    /// # Errors
    ///
    /// [`Reason::StoreFailed`], with details for the operator.
    pub fn open(path: &Path) -> Result<Store, ExecutorError> {
        let failed = |error: &dyn Display| failed(path, error);
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            let made = private_dir_builder().recursive(true).create(dir);
            made.map_err(|error| failed(&error))?;
        }
        if let Some((dir, why)) = untrusted_place(path) {
            return Err(self::failed(&dir, &why));
        }
        match std::fs::symlink_metadata(path) {
            // SQLite would create the target of the link with a mode that lets others read it.
            Ok(meta) if meta.is_symlink() && !path.exists() => {
                return Err(failed(
                    &"is a symbolic link without a target; name the file itself, or create it",
                ));
            }
            Ok(_) => {
                for ending in ["", "-wal", "-shm", "-journal"] {
                    let file = super::source::companion_path(path, ending);
                    let meta = std::fs::metadata(&file);
                    if let Some(why) = meta.ok().and_then(|meta| untrusted(&meta)) {
                        return Err(self::failed(&file, &why));
                    }
                }
            }
            Err(_) => made(path).map_err(|error| failed(&error))?,
        }
        Store::connect(path)
            .map_err(|error| failed(&error))?
            .map_err(|why| failed(&why))
    }

    fn connect(path: &Path) -> rusqlite::Result<Result<Store, &'static str>> {
        // The file exists by now. With a create flag, SQLite could create one that others can read.
        // Without the URI flag, the name is always a path.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        let version = |connection: &Connection| {
            connection.query_row("PRAGMA user_version", (), |row| row.get::<_, i64>(0))
        };
        let objects = "SELECT count(*) FROM sqlite_schema";
        let objects: i64 = connection.query_row(objects, (), |row| row.get(0))?;
        // Checked before the database is changed.
        match version(&connection)? {
            0 if objects > 0 => {
                return Ok(Err("is a database of another program; name another file"));
            }
            0 | VERSION => {}
            _ => return Ok(Err("was made by a later version of this program")),
        }
        write_ahead(&connection)?;
        // Deleted results must be gone from the file.
        connection.pragma_update(None, "secure_delete", true)?;
        // A returned result must survive a power failure.
        connection.pragma_update(None, "synchronous", "FULL")?;
        let setup = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if version(&setup)? == 0 {
            setup.execute_batch(
                "CREATE TABLE results (
                    task_id TEXT PRIMARY KEY NOT NULL,
                    manifest BLOB NOT NULL,
                    body BLOB,
                    passed_over INTEGER NOT NULL,
                    stored_at INTEGER NOT NULL
                ) STRICT;
                CREATE INDEX results_by_time ON results (stored_at) WHERE body IS NOT NULL;",
            )?;
            setup.pragma_update(None, "user_version", VERSION)?;
        }
        setup.commit()?;
        Ok(Ok(Store {
            connection,
            path: path.to_path_buf(),
        }))
    }

    fn failed(&self, error: &rusqlite::Error) -> ExecutorError {
        failed(&self.path, error)
    }

    /// Returns the stored result of a task, if the task was executed.
    ///
    /// # Errors
    ///
    /// [`Reason::TaskIdReused`] if it was executed with another manifest, [`Reason::ResultExpired`]
    /// if its result was deleted, and [`Reason::StoreFailed`].
    pub fn find(
        &self,
        task_id: &str,
        manifest: &[u8],
    ) -> Result<Option<StoredResult>, ExecutorError> {
        let row = self.connection.query_row(
            "SELECT manifest, body, passed_over FROM results WHERE task_id = ?1",
            [task_id],
            |row| {
                Ok((
                    row.get::<_, Vec<u8>>(0)?,
                    row.get::<_, Option<Vec<u8>>>(1)?,
                    row.get::<_, i64>(2)?,
                ))
            },
        );
        match row.optional().map_err(|error| self.failed(&error))? {
            None => Ok(None),
            Some((other, _, _)) if other != manifest => Err(Reason::TaskIdReused.into()),
            Some((_, None, _)) => Err(Reason::ResultExpired.into()),
            Some((_, Some(body), passed_over)) => Ok(Some(StoredResult {
                body,
                passed_over: u64::try_from(passed_over).unwrap_or_default(),
            })),
        }
    }

    /// Stores the result of a task, unless another process did so first; returns the stored result.
    ///
    /// # Errors
    ///
    /// The same as those of [`find`](Self::find).
    pub fn keep(
        &self,
        task_id: &str,
        manifest: &[u8],
        result: &StoredResult,
        now_s: i64,
    ) -> Result<StoredResult, ExecutorError> {
        let passed_over = i64::try_from(result.passed_over).unwrap_or(i64::MAX);
        self.connection
            .execute(
                "INSERT INTO results (task_id, manifest, body, passed_over, stored_at)
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (task_id) DO NOTHING",
                params![task_id, manifest, result.body, passed_over, now_s],
            )
            .map_err(|error| self.failed(&error))?;
        let kept = self.find(task_id, manifest)?;
        kept.ok_or_else(|| failed(&self.path, &"the stored result is gone"))
    }

    /// Deletes results that were stored before a time. Their tasks stay known.
    ///
    /// # Errors
    ///
    /// [`Reason::StoreFailed`].
    pub fn expire(&self, before_s: i64) -> Result<usize, ExecutorError> {
        let expired = self.connection.execute(
            "UPDATE results SET body = NULL WHERE body IS NOT NULL AND stored_at < ?1",
            [before_s],
        );
        let expired = expired.map_err(|error| self.failed(&error))?;
        if expired > 0 {
            // Also from the WAL. If another process reads it right now, a later call truncates it.
            let _ = self
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        }
        Ok(expired)
    }
}

fn failed(path: &Path, error: &dyn Display) -> ExecutorError {
    ExecutorError::because(
        Reason::StoreFailed,
        &format_args!("{}: {error}", path.display()),
    )
}

/// Switches to WAL mode. If several processes do so on a new database at once, SQLite fails some of
/// them immediately to avoid a deadlock, so it is tried again here.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = PATIENCE.as_millis() / PAUSE.as_millis();
    connection.busy_timeout(PAUSE)?;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if tries > 0 && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) =>
            {
                tries -= 1;
                std::thread::sleep(PAUSE);
            }
            done => {
                done?;
                return connection.busy_timeout(PATIENCE);
            }
        }
    }
}

/// Creates an empty file that only this user can read; SQLite gives its other files the same mode.
///
/// It is created under a random name and moved to its place, never through a symbolic link. It is
/// not opened again under its own name, since closing it would drop the locks of other threads.
fn made(path: &Path) -> std::io::Result<()> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    // A temporary file has the mode 0600.
    let begun = tempfile::Builder::new()
        .prefix(".results-")
        .tempfile_in(dir)?
        .into_temp_path();
    match begun.persist_noclobber(path) {
        // Another process was first.
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error),
        Ok(()) => Ok(()),
    }
}
