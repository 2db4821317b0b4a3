//! An index in an SQLite database (`index_storage = "sqlite"`, FR-LSI-IDX-STOR-01).
//!
//! Owns the database: its tables, how a built index is written to them, and how the very same segment is put together
//! from them. It does not decide when to write or which database to open, and no query ever runs in it: what is
//! opened is read into memory once, and answered from there like any other index.
//!
//! # How it is written and read
//!
//! A database is written under the name of an unfinished file, by one connection, in write-ahead mode and in
//! transactions of about a megabyte; then the log is emptied into it, it is closed, synced and renamed over the one before
//! (`publish_path`). Under its final name nobody writes to it. So a reader, with a read-only connection, sees
//! one whole index or the other, never waits for a build, and a crash at any moment leaves the old one (FR-LSI-BG-13,
//! FR-LSI-IDX-CONC-03). Writing into the published file instead would need two generations of each table in it, or a
//! transaction as long as the build, and a build that is given up would leave its pages behind.
//!
//! What is read is held against checksums of the segment and of the manifest: bytes that changed in any column that
//! counts make the database damaged, whether SQLite notices or not.

mod columns;
mod problem;
mod read;
mod row;
mod schema;
mod verify;
mod write;

pub(crate) use read::{Access, load, load_manifest};
pub(crate) use verify::verify;
pub(crate) use write::write;
