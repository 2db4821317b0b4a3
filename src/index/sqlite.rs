//! An index in an SQLite database (`index_storage = "sqlite"`).
//!
//! This module owns the database: its tables, writing a built segment into them, and restoring the
//! same segment from them, byte for byte. The specification of the index prescribes some of the
//! tables, the *reference schema* (LSI, Appendix E). `store::database` decides when to write and
//! which database to open. No query runs in the database: it is read into memory once, and the
//! restored segment answers the queries.
//!
//! # How it is written and read
//!
//! One connection writes the database under the name of an unfinished file. It uses write-ahead
//! mode, and transactions of about a megabyte. Then the log is checkpointed into the database, and
//! the database is closed, synced and renamed over the old one (`publish_path`).
//!
//! No process writes to the database under its final name. So a reader with a read-only connection
//! sees one whole index, never waits for a build, and finds the old index after a crash. Writing
//! into the published file instead would need two generations of each table, or a transaction as
//! long as the build. A cancelled build would leave its pages behind.
//!
//! The loaded data is compared with the checksums of the segment and of the manifest. A change in
//! any column that the segment is restored from is reported as damage, whether SQLite notices it or
//! not.

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
