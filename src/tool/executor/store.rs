//! What tasks came to, kept so that whoever asks again is told the same (EXEC §9).
//!
//! Owns a database (SQLite, with a log written ahead): one row for each task. A result is stored in one transaction before it is told to anybody, and
//! never changed; when its time is over its bytes go, and the row stays, so that the task is not executed again.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};

use super::failure::{Fault, Reason};
use super::trust::{untrusted, untrusted_place};

/// How long to wait for other processes that write.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait before the next try, where the library itself does not wait.
const PAUSE: Duration = Duration::from_millis(10);

/// The version of the tables.
const VERSION: i64 = 1;

/// A result that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The result, byte for byte.
    pub body: Vec<u8>,
    /// How many things were passed over for it.
    pub passed_over: u64,
}

/// A store of results.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    /// For the operator.
    path: PathBuf,
}

impl Store {
    /// Opens a store; makes it, and the directory for it, where there is none.
    ///
    /// # Errors
    ///
    /// [`Reason::StoreFailed`], with what the system says for the operator.
    pub fn open(path: &Path) -> Result<Store, Fault> {
        let failed = |error: &dyn Display| failed(path, error);
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            private(dir).map_err(|error| failed(&error))?;
        }
        if let Some((dir, why)) = untrusted_place(path) {
            return Err(self::failed(&dir, &why));
        }
        match std::fs::symlink_metadata(path) {
            // What is made at its end would be for others to read.
            Ok(meta) if meta.is_symlink() && !path.exists() => {
                return Err(failed(
                    &"is a link that leads nowhere; name the file itself, or make it",
                ));
            }
            Ok(_) => {
                for ending in ["", "-wal", "-shm", "-journal"] {
                    let file = super::source::beside(path, ending);
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
        // It is there by now; were it not, one that others can read would be made. Its name is a path, whatever it looks like.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        let version = |connection: &Connection| {
            connection.query_row("PRAGMA user_version", (), |row| row.get::<_, i64>(0))
        };
        let objects = "SELECT count(*) FROM sqlite_schema";
        let objects: i64 = connection.query_row(objects, (), |row| row.get(0))?;
        // Before anything of it is changed.
        match version(&connection)? {
            0 if objects > 0 => {
                return Ok(Err("is a database of another program; name another file"));
            }
            0 | VERSION => {}
            _ => return Ok(Err("was made by a later version of this program")),
        }
        write_ahead(&connection)?;
        // What is given up is to be gone.
        connection.pragma_update(None, "secure_delete", true)?;
        // A result that was told must not be gone after a power cut.
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

    fn failed(&self, error: &rusqlite::Error) -> Fault {
        failed(&self.path, error)
    }

    /// Returns what a task came to, if it was executed.
    ///
    /// # Errors
    ///
    /// [`Reason::TaskIdReused`] if that was with another manifest, [`Reason::ResultExpired`] if the result is not kept any more, and
    /// [`Reason::StoreFailed`].
    pub fn find(&self, task_id: &str, manifest: &[u8]) -> Result<Option<Stored>, Fault> {
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
            Some((_, Some(body), passed_over)) => Ok(Some(Stored {
                body,
                passed_over: u64::try_from(passed_over).unwrap_or_default(),
            })),
        }
    }

    /// Keeps what a task came to, unless somebody else was first; returns what is kept.
    ///
    /// # Errors
    ///
    /// Those of [`find`](Self::find).
    pub fn keep(
        &self,
        task_id: &str,
        manifest: &[u8],
        result: &Stored,
        now_s: i64,
    ) -> Result<Stored, Fault> {
        let passed_over = i64::try_from(result.passed_over).unwrap_or(i64::MAX);
        self.connection
            .execute(
                "INSERT INTO results (task_id, manifest, body, passed_over, stored_at)
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (task_id) DO NOTHING",
                params![task_id, manifest, result.body, passed_over, now_s],
            )
            .map_err(|error| self.failed(&error))?;
        let kept = self.find(task_id, manifest)?;
        kept.ok_or_else(|| failed(&self.path, &"what was kept is gone"))
    }

    /// Gives up results that were stored before a time; their tasks stay known.
    ///
    /// # Errors
    ///
    /// [`Reason::StoreFailed`].
    pub fn expire(&self, before_s: i64) -> Result<usize, Fault> {
        let expired = self.connection.execute(
            "UPDATE results SET body = NULL WHERE body IS NOT NULL AND stored_at < ?1",
            [before_s],
        );
        let expired = expired.map_err(|error| self.failed(&error))?;
        if expired > 0 {
            // From the log, too. Where others read it at this moment, a later one does it.
            let _ = self
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        }
        Ok(expired)
    }
}

fn failed(path: &Path, error: &dyn Display) -> Fault {
    Fault::because(
        Reason::StoreFailed,
        &format_args!("{}: {error}", path.display()),
    )
}

/// Has the log written ahead. Of several that do this to a new database at once, the library refuses some at once so that they do not wait for each
/// other for ever.
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

/// Makes an empty file of this user only, as those that SQLite makes beside it are then, too. It is made under a name that nobody knows before, never through
/// a link, and never opened again under its own name: closing it would drop the locks that another thread has on it.
fn made(path: &Path) -> std::io::Result<()> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    // Its mode is 0600.
    let begun = tempfile::Builder::new()
        .prefix(".results-")
        .tempfile_in(dir)?
        .into_temp_path();
    match begun.persist_noclobber(path) {
        // Somebody else was first.
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error),
        Ok(()) => Ok(()),
    }
}

/// Makes a directory that only this user can enter.
fn private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}
