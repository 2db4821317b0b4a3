//! Writes an index to a database.
//!
//! This module owns the order and the size of transactions. No other process knows the database
//! yet; the store publishes it after all data is in it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Statement, params};
use xxhash_rust::xxh64::xxh64;

use super::columns::from_rows;
use super::problem::Problem;
use super::row::{bytes, distinct_inputs, file_row, identity, kind_number, relative_input, text};
use super::schema::{self, APPLICATION_ID, LAYOUT_VERSION, PAGE_BYTES};
use crate::format::error::FormatError;
use crate::format::manifest::Manifest;
use crate::index::builder::{BuildError, BuildHost, Phase, Progress};
use crate::index::key::hash_of;
use crate::index::sections::Slot;
use crate::index::segment::Segment;
use crate::index::state::{IndexState, UncertainReason};

/// The approximate size of a transaction in bytes.
const BATCH_BYTES: usize = 1 << 20;

/// The assumed size of a row without its bitset, in bytes.
const ROW_BYTES: usize = 256;

/// Writes an index into the empty file at `path`: a segment that this process has built, and its
/// manifest. Waits for locks at most for `busy`, although no other process should hold one.
///
/// # Errors
///
/// [`BuildError::Stopped`] if the host cancels the build; [`BuildError::Format`] if the database
/// can't be written.
pub(crate) fn write(
    path: &Path,
    segment: &Segment,
    manifest: &Manifest,
    host: &dyn BuildHost,
    busy: Duration,
) -> Result<(), BuildError> {
    write_all(path, segment, manifest, host, busy).map_err(|problem| problem.writing(busy))
}

fn write_all(
    path: &Path,
    segment: &Segment,
    manifest: &Manifest,
    host: &dyn BuildHost,
    busy: Duration,
) -> Result<(), Problem> {
    let manifest = Manifest {
        inputs: distinct_inputs(&manifest.inputs),
        ..manifest.clone()
    };
    let db = open(path, busy)?;
    let mut writer = Writer {
        db: &db,
        segment,
        manifest: &manifest,
        hash: hash_of(&manifest.key),
        host,
        in_batch: 0,
        done: 0,
    };
    writer.begin()?;
    schema::create(&db)?;
    writer.meta()?;
    writer.key()?;
    writer.inputs()?;
    writer.dirs()?;
    writer.files()?;
    writer.side()?;
    writer.blocks()?;
    writer.finish()?;
    writer.commit()?;
    // Moves the log into the one file that is renamed.
    let left: i64 = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if left != 0 {
        let problem = "the log of the new database could not be emptied";
        return Err(FormatError::inconsistent("the database", 0, problem).into());
    }
    db.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn open(path: &Path, busy: Duration) -> Result<Connection, Problem> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(busy)?;
    db.pragma_update(None, "page_size", PAGE_BYTES)?;
    // If the filesystem does not support it, SQLite chooses another mode, which works too
    // (FR-LSI-BG-13).
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // The unfinished file is not trusted, and it is synced before it gets its final name.
    db.pragma_update(None, "synchronous", "OFF")?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "application_id", APPLICATION_ID)?;
    db.pragma_update(None, "user_version", LAYOUT_VERSION)?;
    Ok(db)
}

/// A database that is being written.
struct Writer<'a> {
    db: &'a Connection,
    segment: &'a Segment,
    manifest: &'a Manifest,
    hash: String,
    host: &'a dyn BuildHost,
    /// The approximate number of bytes in the open transaction.
    in_batch: usize,
    /// The approximate number of committed bytes.
    done: u64,
}

impl<'a> Writer<'a> {
    fn begin(&mut self) -> Result<(), Problem> {
        Ok(self.db.execute_batch("BEGIN IMMEDIATE")?)
    }

    fn commit(&mut self) -> Result<(), Problem> {
        self.db.execute_batch("COMMIT")?;
        self.done += self.in_batch as u64;
        self.in_batch = 0;
        let files = u64::from(self.segment.file_count());
        self.host.progress(Progress {
            phase: Phase::Persist,
            files_done: files,
            files_total: files,
            bytes_done: self.done,
            bytes_total: self.segment.summary().len.max(self.done),
        });
        match self.host.stopped() {
            true => Err(BuildError::Stopped.into()),
            false => Ok(()),
        }
    }

    /// Counts a written row, and commits the transaction if it is large enough.
    fn wrote(&mut self, bytes: usize) -> Result<(), Problem> {
        self.in_batch += ROW_BYTES + bytes;
        if self.in_batch < BATCH_BYTES {
            return Ok(());
        }
        self.commit()?;
        self.begin()
    }

    fn prepare(&self, sql: &str) -> Result<Statement<'a>, Problem> {
        Ok(self.db.prepare(sql)?)
    }

    /// Writes the row of the index, in the state `BUILDING`.
    fn meta(&mut self) -> Result<(), Problem> {
        let (key, state, bloom) = (
            &self.manifest.key,
            &self.manifest.state,
            &self.manifest.bloom,
        );
        if key.ngram_chars != bloom.ngram_chars {
            let problem = "key and filters differ in the length of n-grams";
            return Err(FormatError::inconsistent("the manifest", 0, problem).into());
        }
        self.prepare(
            "INSERT INTO index_meta (
               index_key_hash, schema_version, root_path_canon,
               signature_hidden, signature_follow, signature_no_ignore,
               backend_id, tokenizer_id, casefold_strategy, unicode_normalization,
               created_at_ms, last_updated_at_ms, last_accessed_at_ms,
               safety_state, coverage_epoch, enumerate_error_count,
               bloom_ngram_k, bloom_m_bits, bloom_k_hashes, bloom_hash_seed,
               bloom_target_fp_rate, bloom_basis_ngrams, max_tokenized_bytes
             ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'BUILDING', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            self.hash,
            key.schema_version,
            text(&key.root),
            key.hidden,
            key.follow,
            key.rules as u8,
            key.backend_id,
            key.tokenizer_id,
            key.casefold,
            key.unicode_normalization,
            state.created_ms,
            state.updated_ms,
            state.updated_ms,
            state.coverage_epoch.cast_signed(),
            state.enumeration_errors.cast_signed(),
            bloom.ngram_chars,
            bloom.bits.cast_signed(),
            bloom.hashes,
            bloom.seed.cast_signed(),
            f64::from_bits(bloom.target_fp_rate_bits),
            bloom.basis_ngrams.cast_signed(),
            key.max_tokenized_bytes.cast_signed(),
        ])?;
        self.wrote(0)
    }

    /// Writes the parts of the key, and the numbers of the whole segment.
    fn key(&mut self) -> Result<(), Problem> {
        let (key, meta) = (&self.manifest.key, self.segment.meta());
        let summary = self.segment.summary();
        self.prepare(
            "INSERT INTO fs_index (
               index_key_hash, implementation_version, global_excludes, excludes_base, access, sequence,
               stored_hashes, text_bytes, ngrams, segment_len, segment_checksum, manifest_checksum
             ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            self.hash,
            key.implementation_version,
            key.global_excludes,
            key.excludes_base,
            key.access,
            self.manifest.state.sequence.cast_signed(),
            meta.stored_hashes,
            meta.text_bytes.cast_signed(),
            meta.ngrams.cast_signed(),
            summary.len.cast_signed(),
            summary.checksum.cast_signed(),
            checksum(self.manifest)?.cast_signed(),
        ])?;
        let mut insert = self.prepare("INSERT INTO fs_deny_patterns VALUES (?, ?)")?;
        for (position, pattern) in key.deny_patterns.iter().enumerate() {
            insert.execute(params![position as i64, pattern])?;
            self.wrote(pattern.len())?;
        }
        Ok(())
    }

    fn inputs(&mut self) -> Result<(), Problem> {
        let mut common = self.prepare(
            "INSERT INTO eligibility_inputs (index_key_hash, input_rel_path, mtime_ns, size_bytes)
             VALUES (?, ?, ?, ?)",
        )?;
        let mut own = self.prepare("INSERT INTO fs_inputs VALUES (?, ?, ?, ?, ?, ?)")?;
        for input in &self.manifest.inputs {
            let path = text(relative_input(&self.manifest.key.root, &input.path));
            let stat = input.stat.unwrap_or_default();
            common.execute(params![
                self.hash,
                path,
                stat.mtime_ns,
                stat.size.cast_signed(),
            ])?;
            own.execute(params![
                self.hash,
                path,
                kind_number(input.stat),
                stat.ctime_ns,
                stat.dev.cast_signed(),
                stat.ino.cast_signed(),
            ])?;
            self.wrote(2 * input.path.len())?;
        }
        Ok(())
    }

    fn dirs(&mut self) -> Result<(), Problem> {
        let mut insert =
            self.prepare("INSERT INTO fs_dirs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
        for number in 0..self.segment.dir_count() {
            let dir = self.segment.dir(number)?;
            insert.execute(params![
                number,
                dir.parent,
                bytes(self.segment.name(dir.name)?),
                dir.first_rank,
                dir.end_rank,
                dir.stamp.len.cast_signed(),
                dir.stamp.modified_ns,
                dir.stamp.changed_ns,
                dir.stamp.device.cast_signed(),
                dir.stamp.inode.cast_signed(),
                dir.stamp.links,
                dir.sets.number(),
            ])?;
            self.wrote(0)?;
        }
        Ok(())
    }

    fn files(&mut self) -> Result<(), Problem> {
        let mut common = self.prepare(
            "INSERT INTO file_entries (
               file_rowid, index_key_hash, rel_path, norm_path, path_sort_key,
               size_bytes, mtime_ns, stable_file_id, readable, eligible, is_binary,
               token_status, tokenized_bytes, token_complete, last_indexed_epoch
             ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)",
        )?;
        let mut own = self.prepare("INSERT INTO fs_files VALUES (?, ?, ?, ?, ?, ?)")?;
        let epoch = self.manifest.state.coverage_epoch.cast_signed();
        for rank in 0..self.segment.file_count() {
            let file = self.segment.file(rank)?;
            let row = file_row(self.segment, &file)?;
            let path = text(&row.rel_path);
            common.execute(params![
                row_of(rank),
                self.hash,
                path,
                path,
                row.sort_key,
                file.stamp.len.cast_signed(),
                file.stamp.modified_ns,
                identity(&file.stamp),
                row.readable,
                row.is_binary,
                row.token_status,
                row.tokenized_bytes.cast_signed(),
                row.token_complete,
                epoch,
            ])?;
            own.execute(params![
                row_of(rank),
                file.dir,
                file.stamp.changed_ns,
                file.stamp.links,
                file.ngrams,
                file.sets.number(),
            ])?;
            self.wrote(5 * row.rel_path.len())?;
        }
        Ok(())
    }

    fn side(&mut self) -> Result<(), Problem> {
        let mut insert = self.prepare("INSERT INTO fs_side VALUES (?, ?, ?, ?, ?)")?;
        for n in 0..self.segment.side_count() {
            let side = self.segment.side(n)?;
            let name = self.segment.name(side.name)?;
            insert.execute(params![
                n,
                side.dir,
                side.before_rank,
                bytes(name),
                side.sets.number(),
            ])?;
            self.wrote(0)?;
        }
        Ok(())
    }

    /// Writes blocks and bitsets, group by group. All slots of a file are in one group.
    fn blocks(&mut self) -> Result<(), Problem> {
        let mut block_no = 0i64;
        let starts = self.segment.starts()?;
        for group in 0..self.segment.group_count() {
            let blocks = self.segment.blocks_of(group, &starts)?;
            let direct: Vec<u8> = self.segment.direct_of(group)?.to_le();
            let word_files: Vec<u8> = self.segment.word_files(group)?.to_le();
            let word_list = self.segment.word_list(group)?;
            self.prepare("INSERT INTO fs_groups VALUES (?, ?, ?, ?)")?
                .execute(params![group as i64, direct, word_files, word_list])?;
            self.wrote(direct.len() + word_files.len() + word_list.len())?;
            let mut insert = self.prepare("INSERT INTO fs_blocks VALUES (?, ?, ?, ?, ?, ?, ?)")?;
            let mut slots: Vec<(u32, usize, usize)> = Vec::new();
            let mut columns = Vec::new();
            for (n, block) in blocks.iter().enumerate() {
                let shape = block.shape;
                let numbers = |number: fn(&Slot) -> u32| -> Vec<u8> {
                    let numbers: Vec<u32> = block.slots.iter().map(number).collect();
                    numbers.to_le()
                };
                let (ranks, starts) = (numbers(|slot| slot.rank), numbers(|slot| slot.start));
                insert.execute(params![
                    block_no,
                    group as i64,
                    shape.files,
                    shape.lanes,
                    shape.hashed_rows,
                    ranks,
                    starts
                ])?;
                block_no += 1;
                self.wrote(ranks.len() + starts.len())?;
                let of_block = block.slots.iter().enumerate();
                slots.extend(of_block.map(|(slot, own)| (own.rank, n, slot)));
                columns.push((from_rows(&block.rows, shape), shape.files as usize));
            }
            slots.sort_unstable();
            self.bitsets(&slots, &columns)?;
        }
        Ok(())
    }

    /// Writes the bitsets of a group. `slots` has the rank, block and slot of each file part,
    /// sorted. `columns` has the columns of each block, and their number.
    fn bitsets(
        &mut self,
        slots: &[(u32, usize, usize)],
        columns: &[(Vec<u8>, usize)],
    ) -> Result<(), Problem> {
        let bloom = &self.manifest.bloom;
        let mut insert = self.prepare("INSERT INTO file_bloom VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?;
        let mut bitset = Vec::new();
        for own in slots.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(rank, ..)) = own.first() else {
                continue;
            };
            bitset.clear();
            for &(_, block, slot) in own {
                if let Some((columns, files)) = columns.get(block) {
                    let len = columns.len() / files;
                    let column = columns.get(slot * len..(slot + 1) * len);
                    bitset.extend_from_slice(column.unwrap_or_default());
                }
            }
            // The same bits serve both variants, so the second is empty.
            for (variant, bits) in [("INSENSITIVE", &bitset[..]), ("SENSITIVE", &[])] {
                insert.execute(params![
                    row_of(rank),
                    variant,
                    bloom.ngram_chars,
                    bloom.bits.cast_signed(),
                    bloom.hashes,
                    bloom.seed.cast_signed(),
                    bits,
                    self.manifest.state.updated_ms,
                ])?;
            }
            self.wrote(bitset.len())?;
        }
        Ok(())
    }

    /// Sets the state in which readers accept the index.
    fn finish(&mut self) -> Result<(), Problem> {
        let index_state = match self.manifest.state.enumeration_errors {
            0 => IndexState::Complete,
            _ => IndexState::Uncertain(UncertainReason::EnumerationError),
        };
        let (state, reason) = (index_state.state().as_str(), index_state.reason());
        self.prepare("UPDATE index_meta SET safety_state = ?, uncertain_reason = ?")?
            .execute(params![state, reason])?;
        Ok(())
    }
}

/// Returns the row id of the file with a rank.
pub(super) fn row_of(rank: u32) -> i64 {
    i64::from(rank) + 1
}

/// Returns the checksum of a whole manifest.
pub(super) fn checksum(manifest: &Manifest) -> Result<u64, FormatError> {
    Ok(xxh64(&manifest.encode()?, 0))
}

/// Converts numbers to little-endian bytes.
trait ToLe {
    fn to_le(&self) -> Vec<u8>;
}

impl ToLe for Vec<u32> {
    fn to_le(&self) -> Vec<u8> {
        self.iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    }
}
