//! Restores an index from a database.
//!
//! Trusts nothing in the database: every number is checked before use, and the restored segment
//! must have the checksum that the writer stored.

mod catalog;
mod rows;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rayon::prelude::*;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};

use super::columns::{column_bytes, to_rows};
use super::problem::Problem;
use super::row::{absolute_input, bytes_of, kind_of};
use super::schema::{self, APPLICATION_ID, LAYOUT_VERSION};
use super::write::checksum;
use crate::format::error::{FormatError, FormatErrorKind};
use crate::format::manifest::{
    BloomParams, EligibilityInput, FileRef, IgnoreRules, InputStat, KeyParts, Manifest,
    PublicationState, SegmentRef,
};
use crate::format::section::{FileKind, SectionWriter, Summary};
use crate::format::segment::{BlockRecord, GroupRecord, MetaRecord, SEGMENT_VERSION, id};
use crate::format::storage::{ALIGNMENT, Privacy, Storage, check_private};
use crate::index::block::{LANE_FILES, Shape};
use crate::index::casefold::Casefold;
use crate::index::plan::BLOCK_FILES;
use crate::index::sections::{Sections, Slot, write_rows};
use crate::index::segment::Segment;
use crate::index::state::SafetyState;
use crate::index::store::DATABASE;
use rows::{number, numbers, read_columns};

/// How a database is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Whether other users may have write access to the database.
    pub(crate) privacy: Privacy,
    /// The longest wait for a lock.
    pub(crate) busy: Duration,
    /// Whether SQLite checks the whole file first (`PRAGMA quick_check`).
    pub(crate) check: bool,
}

/// Reads the index in the database at `path`. Linear in its size.
///
/// # Errors
///
/// [`FormatError`], which [is corrupt](FormatError::is_corrupt) if the index should be rebuilt, and
/// [is not found](FormatError::is_not_found) if there is no database.
pub(crate) fn load(path: &Path, access: Access) -> Result<(Manifest, Segment), FormatError> {
    in_database(path, access, |reader| reader.load())
}

/// Reads the manifest of the index in a database.
///
/// # Errors
///
/// Those of [`load`].
pub(crate) fn load_manifest(path: &Path, access: Access) -> Result<Manifest, FormatError> {
    in_database(path, access, |reader| reader.manifest())
}

/// Opens a database, and runs `work` in one read transaction.
pub(super) fn in_database<T>(
    path: &Path,
    access: Access,
    work: impl FnOnce(&Reader<'_>) -> Result<T, Problem>,
) -> Result<T, FormatError> {
    let len = check_private(path, access.privacy)?;
    let run = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(access.busy)?;
        db.pragma_update(None, "trusted_schema", false)?;
        db.pragma_update(None, "cell_size_check", true)?;
        db.execute_batch("BEGIN")?;
        let reader = Reader { db: &db, len };
        reader.identify()?;
        if access.check {
            reader.check("PRAGMA quick_check(1)")?;
        }
        work(&reader)
    };
    run().map_err(|problem| problem.reading(access.busy).in_file(path))
}

/// An opened database.
pub(super) struct Reader<'a> {
    pub(super) db: &'a Connection,
    /// The length of the file in bytes.
    len: u64,
}

/// A block, as the tables store it.
struct KeptBlock {
    shape: Shape,
    ranks: Vec<u32>,
    starts: Vec<u32>,
}

/// A group of blocks, as the tables store it.
struct KeptGroup {
    direct: Vec<u32>,
    /// The ranks of the files of the word list.
    word_files: Vec<u32>,
    blocks: Vec<KeptBlock>,
}

impl Reader<'_> {
    /// Checks that the database is an index of this program, has a supported version, and has
    /// exactly our tables.
    fn identify(&self) -> Result<(), Problem> {
        let number = |pragma| self.db.pragma_query_value(None, pragma, |row| row.get(0));
        let (application, version): (i32, i32) =
            (number("application_id")?, number("user_version")?);
        if application != APPLICATION_ID {
            return Err(FormatError::new(FormatErrorKind::NotOurs).into());
        }
        let (found, what) = (version.cast_unsigned(), "the database");
        if version > LAYOUT_VERSION {
            let supported = LAYOUT_VERSION.cast_unsigned();
            return Err(FormatError::new(FormatErrorKind::NewerVersion {
                what,
                found,
                supported,
            })
            .into());
        }
        if version != LAYOUT_VERSION {
            return Err(FormatError::new(FormatErrorKind::UnknownVersion { what, found }).into());
        }
        match schema::is_ours(self.db)? {
            true => Ok(()),
            false => Err(Problem::damaged(
                "its tables are not the tables of an index",
            )),
        }
    }

    /// Runs one of SQLite's own checks.
    pub(super) fn check(&self, pragma: &str) -> Result<(), Problem> {
        let says: String = self.db.query_row(pragma, [], |row| row.get(0))?;
        match says.as_str() {
            "ok" => Ok(()),
            _ => Err(Problem::damaged(says)),
        }
    }

    /// Reads the index.
    pub(super) fn load(&self) -> Result<(Manifest, Segment), Problem> {
        let manifest = self.manifest()?;
        let segment = self.segment(&manifest)?;
        Ok((manifest, segment))
    }

    fn manifest(&self) -> Result<Manifest, Problem> {
        let meta = self.db.query_row(
            "SELECT m.*, f.* FROM index_meta m JOIN fs_index f USING (index_key_hash)",
            [],
            |row| self.read_meta(row),
        );
        let (mut manifest, noted) = match meta.optional()? {
            Some(read) => read?,
            None => return Err(Problem::damaged("it has no index")),
        };
        manifest.key.deny_patterns = self.deny_patterns()?;
        manifest.inputs = self.inputs(&manifest.key.root)?;
        manifest.segment.files = self.count("SELECT count(*) FROM file_entries")?;
        // A manifest that can't be encoded was not written by this program.
        let found =
            checksum(&manifest).map_err(|error| Problem::damaged(error.kind().to_string()))?;
        match found == noted {
            true => Ok(manifest),
            false => Err(Problem::damaged(
                "the stored description of the index does not match its checksum",
            )),
        }
    }

    /// Reads a manifest without its lists, and its stored checksum.
    fn read_meta(&self, row: &Row<'_>) -> rusqlite::Result<Result<(Manifest, u64), Problem>> {
        let state: String = row.get("safety_state")?;
        let readable = [SafetyState::Complete, SafetyState::Uncertain];
        if !readable.iter().any(|readable| readable.as_str() == state) {
            let problem = format!("the index in it is {state}");
            return Ok(Err(Problem::damaged(problem)));
        }
        let root = bytes_of(row.get_ref("root_path_canon")?);
        let Some(rules) = IgnoreRules::from_number(row.get("signature_no_ignore")?) else {
            return Ok(Err(Problem::damaged("the set of ignore rules is unknown")));
        };
        let key = KeyParts {
            root: root.unwrap_or_default().to_vec(),
            hidden: row.get("signature_hidden")?,
            follow: row.get("signature_follow")?,
            rules,
            backend_id: row.get("backend_id")?,
            unicode_normalization: row.get("unicode_normalization")?,
            casefold: row.get("casefold_strategy")?,
            tokenizer_id: row.get("tokenizer_id")?,
            ngram_chars: row.get("bloom_ngram_k")?,
            max_tokenized_bytes: number(row, "max_tokenized_bytes")?,
            deny_patterns: Vec::new(),
            global_excludes: row.get("global_excludes")?,
            excludes_base: row.get("excludes_base")?,
            access: row.get("access")?,
            schema_version: row.get("schema_version")?,
            implementation_version: row.get("implementation_version")?,
        };
        let rate: f64 = row.get("bloom_target_fp_rate")?;
        let bloom = BloomParams {
            bits: number(row, "bloom_m_bits")?,
            hashes: row.get("bloom_k_hashes")?,
            ngram_chars: key.ngram_chars,
            seed: number(row, "bloom_hash_seed")?,
            basis_ngrams: number(row, "bloom_basis_ngrams")?,
            target_fp_rate_bits: rate.to_bits(),
        };
        let manifest = Manifest {
            key,
            bloom,
            state: PublicationState {
                sequence: number(row, "sequence")?,
                created_ms: row.get("created_at_ms")?,
                updated_ms: row.get("last_updated_at_ms")?,
                coverage_epoch: number(row, "coverage_epoch")?,
                enumeration_errors: number(row, "enumerate_error_count")?,
            },
            segment: SegmentRef {
                file: FileRef {
                    name: DATABASE.to_string(),
                    len: number(row, "segment_len")?,
                    checksum: number(row, "segment_checksum")?,
                },
                files: 0,
            },
            inputs: Vec::new(),
        };
        Ok(Ok((manifest, number(row, "manifest_checksum")?)))
    }

    fn deny_patterns(&self) -> Result<Vec<String>, Problem> {
        let sql = "SELECT position, pattern FROM fs_deny_patterns ORDER BY position";
        let mut statement = self.db.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut patterns = Vec::new();
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(0)? != patterns.len() as i64 {
                return Err(Problem::damaged("a denied pattern is missing"));
            }
            patterns.push(row.get(1)?);
        }
        Ok(patterns)
    }

    fn inputs(&self, root: &[u8]) -> Result<Vec<EligibilityInput>, Problem> {
        let mut statement = self.db.prepare(
            "SELECT input_rel_path, kind, size_bytes, mtime_ns, ctime_ns, device, inode
             FROM eligibility_inputs JOIN fs_inputs USING (index_key_hash, input_rel_path)",
        )?;
        let mut rows = statement.query([])?;
        let mut inputs = Vec::new();
        while let Some(row) = rows.next()? {
            let path = bytes_of(row.get_ref(0)?).unwrap_or_default();
            let kind = kind_of(row.get(1)?)
                .ok_or_else(|| Problem::damaged("an eligibility input is of no known kind"))?;
            let stat = InputStat {
                kind: kind.unwrap_or_default(),
                size: number(row, 2)?,
                mtime_ns: row.get(3)?,
                ctime_ns: row.get(4)?,
                dev: number(row, 5)?,
                ino: number(row, 6)?,
            };
            inputs.push(EligibilityInput {
                path: absolute_input(root, path),
                stat: kind.map(|_| stat),
            });
        }
        inputs.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(inputs)
    }

    fn count(&self, sql: &str) -> Result<u64, Problem> {
        let count: i64 = self.db.query_row(sql, [], |row| row.get(0))?;
        Ok(count.cast_unsigned())
    }

    /// Restores the segment, byte for byte.
    fn segment(&self, manifest: &Manifest) -> Result<Segment, Problem> {
        let expected = Summary {
            len: manifest.segment.file.len,
            checksum: manifest.segment.file.checksum,
        };
        let groups = self.groups()?;
        let mut out = Vec::new();
        out.try_reserve_exact(self.expected_len(&groups, expected.len)? + ALIGNMENT)
            .map_err(|_| {
                FormatError::io("hold it in memory", std::io::ErrorKind::OutOfMemory.into())
            })?;
        let mut sections = Sections::default();
        let (dirs, files, side) = self.catalog(&mut sections)?;
        let mut writer =
            SectionWriter::new(&mut out, FileKind::Segment, SEGMENT_VERSION).map_err(unwritten)?;
        writer.begin(id::ROWS).map_err(unwritten)?;
        self.write_groups(&groups, &mut sections, &mut writer)?;
        writer.end().map_err(unwritten)?;
        let bloom = &manifest.bloom;
        let casefold = Casefold::from_name(&manifest.key.casefold)
            .ok_or_else(|| Problem::damaged("the case folding of its n-grams is unknown"))?;
        let sql = "SELECT stored_hashes, text_bytes, ngrams FROM fs_index";
        let (stored_hashes, text_bytes, ngrams) = self.db.query_row(sql, [], |row| {
            Ok((row.get(0)?, number(row, 1)?, number(row, 2)?))
        })?;
        let meta = MetaRecord {
            files,
            dirs,
            side,
            as_root: sections.as_root(),
            blocks: sections.blocks.len() as u32,
            groups: sections.groups.len() as u32,
            ngram_chars: bloom.ngram_chars,
            bloom_bits: bloom.bits,
            bloom_hashes: bloom.hashes,
            stored_hashes,
            casefold: casefold.number(),
            bloom_seed: bloom.seed,
            text_bytes,
            ngrams,
        };
        if sections.write(writer, meta).map_err(unwritten)? != expected {
            return Err(Problem::damaged(
                "the stored segment does not match its checksum",
            ));
        }
        Ok(Segment::open_own(Storage::from(out))?)
    }

    /// Writes the rows of all blocks and the words of all groups, and notes where they are.
    fn write_groups<W: Write>(
        &self,
        groups: &[KeptGroup],
        sections: &mut Sections,
        writer: &mut SectionWriter<W>,
    ) -> Result<(), Problem> {
        let sql = "SELECT file_rowid, variant, bitset FROM file_bloom ORDER BY rowid";
        let mut statement = self.db.prepare(sql)?;
        let mut rows = statement.query([])?;
        for (group_no, group) in (0i64..).zip(groups) {
            let columns = read_columns(&mut rows, &group.blocks)?;
            let blocks: Vec<(&KeptBlock, Vec<u8>)> = group.blocks.iter().zip(columns).collect();
            for some in blocks.chunks(rayon::current_num_threads().max(1)) {
                let turned: Vec<Vec<u8>> = some
                    .par_iter()
                    .map(|(block, columns)| to_rows(columns, block.shape))
                    .collect();
                for ((block, _), rows) in some.iter().zip(turned) {
                    sections.blocks.push(BlockRecord {
                        files: block.shape.files,
                        lanes: block.shape.lanes,
                        hashed_rows: block.shape.hashed_rows,
                        rows_at: write_rows(writer, &rows).map_err(unwritten)?,
                    });
                    let slots = block.ranks.iter().zip(&block.starts);
                    let slots = slots.map(|(&rank, &start)| Slot { rank, start });
                    sections.slots.extend(slots);
                }
            }
            let words = self.word_list(group_no)?;
            sections.groups.push(GroupRecord {
                blocks: group.blocks.len() as u32,
                direct: group.direct.len() as u32,
                word_files: group.word_files.len() as u32,
                words_at: write_rows(writer, &words).map_err(unwritten)?,
                words_len: words.len() as u64,
            });
            sections.word_files.extend_from_slice(&group.word_files);
            sections.direct.extend_from_slice(&group.direct);
        }
        if rows.next()?.is_some() {
            return Err(Problem::damaged(
                "a filter belongs to a file without a slot",
            ));
        }
        Ok(())
    }

    /// Returns the length of the segment if it is plausible. So no memory is reserved for an
    /// unchecked number.
    fn expected_len(&self, groups: &[KeptGroup], noted: u64) -> Result<usize, Problem> {
        let blocks = groups.iter().flat_map(|group| &group.blocks);
        let rows: u64 = blocks.map(|block| block.shape.bytes() + 64).sum();
        // Page checksums, and the catalog, whose records are shorter than their rows in the tables.
        let most = rows + rows / 512 + 2 * self.len + (1 << 20);
        usize::try_from(noted)
            .ok()
            .filter(|_| rows <= noted + 64 && noted <= most)
            .ok_or_else(|| Problem::damaged("its size differs from the stored size"))
    }

    /// Reads the word list of a group.
    fn word_list(&self, group_no: i64) -> Result<Vec<u8>, Problem> {
        let sql = "SELECT word_list FROM fs_groups WHERE group_no = ?";
        Ok(self.db.query_row(sql, [group_no], |row| row.get(0))?)
    }

    /// Reads the tables of groups and blocks.
    fn groups(&self) -> Result<Vec<KeptGroup>, Problem> {
        let wrong = |problem: &str| Problem::damaged(format!("in the table of blocks, {problem}"));
        let mut statement = self
            .db
            .prepare("SELECT group_no, direct, word_files FROM fs_groups ORDER BY group_no")?;
        let mut rows = statement.query([])?;
        let mut groups: Vec<KeptGroup> = Vec::new();
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(0)? != groups.len() as i64 {
                return Err(wrong("a group is missing"));
            }
            groups.push(KeptGroup {
                direct: numbers(row, 1)?.ok_or_else(|| wrong("a list of n-grams is cut short"))?,
                word_files: numbers(row, 2)?
                    .ok_or_else(|| wrong("a list of files is cut short"))?,
                blocks: Vec::new(),
            });
        }
        let mut statement = self.db.prepare(
            "SELECT block_no, group_no, files, words, hashed_rows, ranks, starts FROM fs_blocks ORDER BY block_no",
        )?;
        let mut rows = statement.query([])?;
        let (mut block_no, mut group_no, mut bits) = (0i64, 0i64, 0u64);
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(1)?;
            let group = usize::try_from(number).ok().and_then(|n| groups.get_mut(n));
            let Some(group) = group.filter(|_| row.get(0) == Ok(block_no) && number >= group_no)
            else {
                return Err(wrong("a block is missing or belongs to no group"));
            };
            (block_no, group_no) = (block_no + 1, number);
            let shape = Shape {
                files: row.get(2)?,
                lanes: row.get(3)?,
                hashed_rows: row.get(4)?,
                direct_rows: group.direct.len() as u32,
            };
            let ranks = numbers(row, 5)?.ok_or_else(|| wrong("a list of files is cut short"))?;
            let starts = numbers(row, 6)?.ok_or_else(|| wrong("a list of places is cut short"))?;
            let files = shape.files as usize;
            if !(1..=BLOCK_FILES).contains(&files)
                || shape.lanes as usize != files.div_ceil(LANE_FILES).next_power_of_two()
                || shape.hashed_rows == 0
                || (ranks.len(), starts.len()) != (files, files)
            {
                return Err(wrong("a block has an impossible shape"));
            }
            bits += column_bytes(shape) * u64::from(shape.files);
            // All columns are stored in this file, so they can't be longer.
            if bits > self.len {
                return Err(wrong("the blocks are larger than the database"));
            }
            group.blocks.push(KeptBlock {
                shape,
                ranks,
                starts,
            });
        }
        Ok(groups)
    }
}

/// The error of writing the segment to memory.
fn unwritten(error: std::io::Error) -> FormatError {
    FormatError::io("write the segment to memory", error)
}
