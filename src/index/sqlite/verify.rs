//! Verifies a whole database (`index verify`).
//!
//! This module owns the checks that loading skips: the full check of SQLite, and the columns that
//! only other programs read. These must agree with the columns that loading reads.

use std::path::Path;

use super::problem::Problem;
use super::read::{Access, Reader, in_database};
use super::row::{bytes_of, file_row};
use super::write::row_of;
use crate::format::error::FormatError;
use crate::format::manifest::Manifest;
use crate::index::segment::Segment;

/// Verifies all content of the database at `path`, and returns its manifest. Linear in its size,
/// and several times as slow as loading it.
///
/// # Errors
///
/// [`FormatError`] for the first problem found.
pub(crate) fn verify(path: &Path, access: Access) -> Result<Manifest, FormatError> {
    in_database(path, access, |reader| {
        reader.check("PRAGMA integrity_check(1)")?;
        check_none(
            reader,
            "PRAGMA foreign_key_check",
            "a row refers to a row that does not exist",
        )?;
        check_none(
            reader,
            "SELECT 1 FROM file_bloom b JOIN index_meta m
             WHERE (b.ngram_k, b.m_bits, b.k_hashes, b.hash_seed)
                IS NOT (m.bloom_ngram_k, m.bloom_m_bits, m.bloom_k_hashes, m.bloom_hash_seed)
             LIMIT 1",
            "a filter has other parameters than the index",
        )?;
        let (manifest, segment) = reader.load()?;
        segment.verify()?;
        check_files(reader, &segment)?;
        Ok(manifest)
    })
}

fn check_none(reader: &Reader<'_>, sql: &str, problem: &str) -> Result<(), Problem> {
    let mut statement = reader.db.prepare(sql)?;
    match statement.exists([])? {
        true => Err(Problem::damaged(problem)),
        false => Ok(()),
    }
}

/// Compares the columns that loading does not read.
fn check_files(reader: &Reader<'_>, segment: &Segment) -> Result<(), Problem> {
    let mut statement = reader.db.prepare(
        "SELECT file_rowid, norm_path, path_sort_key, readable, eligible, is_binary, tokenized_bytes, rel_path
         FROM file_entries ORDER BY file_rowid",
    )?;
    let mut rows = statement.query([])?;
    let mut rank = 0;
    while let Some(row) = rows.next()? {
        let expected = file_row(segment, &segment.file(rank)?)?;
        let path = Some(&expected.rel_path[..]);
        let as_expected = row.get::<_, i64>(0)? == row_of(rank)
            && bytes_of(row.get_ref(1)?) == path
            && bytes_of(row.get_ref(2)?) == Some(expected.sort_key.as_bytes())
            && row.get::<_, bool>(3)? == expected.readable
            && row.get::<_, bool>(4)?
            && row.get::<_, bool>(5)? == expected.is_binary
            && row.get::<_, i64>(6)? == expected.tokenized_bytes.cast_signed()
            && bytes_of(row.get_ref(7)?) == path;
        if !as_expected {
            return Err(Problem::damaged(format!(
                "row {} of file_entries contradicts itself",
                row_of(rank)
            )));
        }
        rank += 1;
    }
    Ok(())
}
