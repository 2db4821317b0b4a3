//! The tables of the database.
//!
//! This module owns the schema, and the numbers that identify a database of this program.
//! `docs/format.md` describes the content of each column.

use rusqlite::Connection;

/// `application_id` of our databases: `FSix` in ASCII.
pub(super) const APPLICATION_ID: i32 = 0x4653_6978;

/// `user_version`: the layout of the tables.
///
/// History: 1, the first; 2 adds the sets of ignore rules under which each file and directory is
/// eligible; 3 adds the word lists; 4 shortens them; 5 adds names of other modules that a file
/// offers.
pub(super) const LAYOUT_VERSION: i32 = 5;

/// The page size in bytes. Most bitsets take two or three kilobytes. Pages of the usual 4,096 bytes
/// would waste a seventh of the space; these pages waste next to nothing.
pub(super) const PAGE_BYTES: u32 = 16 * 1024;

/// The tables of the reference schema (LSI Appendix E), with the same names.
const REFERENCE: &str = "
CREATE TABLE index_meta (
  index_key_hash TEXT PRIMARY KEY,
  schema_version INTEGER NOT NULL,
  root_path_canon TEXT NOT NULL,
  signature_hidden INTEGER NOT NULL,
  signature_follow INTEGER NOT NULL,
  signature_no_ignore INTEGER NOT NULL,
  backend_id TEXT NOT NULL,
  tokenizer_id TEXT NOT NULL,
  casefold_strategy TEXT NOT NULL CHECK (casefold_strategy IN ('ASCII', 'UNICODE_SIMPLE')),
  unicode_normalization TEXT NOT NULL CHECK (unicode_normalization IN ('NONE', 'NFC', 'NFD')),
  created_at_ms INTEGER NOT NULL,
  last_updated_at_ms INTEGER NOT NULL,
  last_accessed_at_ms INTEGER NOT NULL,
  safety_state TEXT NOT NULL CHECK (
    safety_state IN ('ABSENT', 'BUILDING', 'COMPLETE', 'UNCERTAIN', 'CORRUPT', 'DISABLED')
  ),
  uncertain_reason TEXT,
  disabled_until_ms INTEGER,
  coverage_epoch INTEGER NOT NULL,
  enumerate_error_count INTEGER NOT NULL,
  enumerate_ok INTEGER
    GENERATED ALWAYS AS (CASE WHEN enumerate_error_count = 0 THEN 1 ELSE 0 END) STORED,
  bloom_ngram_k INTEGER NOT NULL,
  bloom_m_bits INTEGER NOT NULL,
  bloom_k_hashes INTEGER NOT NULL,
  bloom_hash_seed INTEGER NOT NULL,
  bloom_target_fp_rate REAL NOT NULL,
  bloom_basis_ngrams INTEGER NOT NULL,
  max_tokenized_bytes INTEGER NOT NULL
);

CREATE TABLE eligibility_inputs (
  index_key_hash TEXT NOT NULL,
  input_rel_path TEXT NOT NULL,
  mtime_ns INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  hash_algo TEXT,
  content_hash BLOB,
  PRIMARY KEY (index_key_hash, input_rel_path),
  FOREIGN KEY (index_key_hash) REFERENCES index_meta(index_key_hash) ON DELETE CASCADE
);

CREATE INDEX idx_elig_inputs_key ON eligibility_inputs(index_key_hash);

CREATE TABLE file_entries (
  file_rowid INTEGER PRIMARY KEY AUTOINCREMENT,
  index_key_hash TEXT NOT NULL,
  rel_path TEXT NOT NULL,
  norm_path TEXT NOT NULL,
  path_sort_key TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  stable_file_id BLOB,
  readable INTEGER NOT NULL CHECK (readable IN (0, 1)),
  eligible INTEGER NOT NULL CHECK (eligible IN (0, 1)),
  is_binary INTEGER NOT NULL CHECK (is_binary IN (0, 1)),
  token_status TEXT NOT NULL CHECK (
    token_status IN ('FULL', 'SKIPPED_TOO_LARGE', 'SKIPPED_BINARY', 'UNREADABLE', 'ERROR')
  ),
  tokenized_bytes INTEGER NOT NULL,
  token_complete INTEGER NOT NULL CHECK (token_complete IN (0, 1)),
  last_indexed_epoch INTEGER NOT NULL,
  UNIQUE (index_key_hash, rel_path),
  FOREIGN KEY (index_key_hash) REFERENCES index_meta(index_key_hash) ON DELETE CASCADE
);

CREATE INDEX idx_file_entries_key ON file_entries(index_key_hash);

CREATE INDEX idx_file_entries_order ON file_entries(index_key_hash, path_sort_key);

CREATE INDEX idx_file_entries_stable_id ON file_entries(index_key_hash, stable_file_id);

CREATE TABLE file_bloom (
  file_rowid INTEGER NOT NULL,
  variant TEXT NOT NULL CHECK (variant IN ('SENSITIVE', 'INSENSITIVE')),
  ngram_k INTEGER NOT NULL,
  m_bits INTEGER NOT NULL,
  k_hashes INTEGER NOT NULL,
  hash_seed INTEGER NOT NULL,
  bitset BLOB NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (file_rowid, variant),
  FOREIGN KEY (file_rowid) REFERENCES file_entries(file_rowid) ON DELETE CASCADE
);

CREATE TRIGGER trg_file_bloom_params_match
BEFORE INSERT ON file_bloom
FOR EACH ROW
WHEN EXISTS (
  SELECT 1 FROM file_entries f
  JOIN index_meta m ON f.index_key_hash = m.index_key_hash
  WHERE f.file_rowid = NEW.file_rowid
    AND (m.bloom_ngram_k != NEW.ngram_k
      OR m.bloom_m_bits != NEW.m_bits
      OR m.bloom_k_hashes != NEW.k_hashes
      OR m.bloom_hash_seed != NEW.hash_seed)
)
BEGIN
  SELECT RAISE(ABORT, 'file_bloom params mismatch with index_meta');
END;

CREATE TABLE dirty_queue (
  index_key_hash TEXT NOT NULL,
  rel_path TEXT NOT NULL,
  dirty_kind TEXT NOT NULL CHECK (dirty_kind IN ('FILE', 'SUBTREE')),
  queued_at_ms INTEGER NOT NULL,
  PRIMARY KEY (index_key_hash, rel_path),
  FOREIGN KEY (index_key_hash) REFERENCES index_meta(index_key_hash) ON DELETE CASCADE
);

CREATE INDEX idx_dirty_queue_key ON dirty_queue(index_key_hash);

CREATE INDEX idx_dirty_queue_time ON dirty_queue(index_key_hash, queued_at_ms);
";

/// The tables for data without a column in the reference schema. All names start with `fs_`.
const OWN: &str = "
CREATE TABLE fs_index (
  index_key_hash TEXT PRIMARY KEY REFERENCES index_meta(index_key_hash) ON DELETE CASCADE,
  implementation_version INTEGER NOT NULL,
  global_excludes BLOB NOT NULL,
  excludes_base BLOB NOT NULL,
  access TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  stored_hashes INTEGER NOT NULL,
  text_bytes INTEGER NOT NULL,
  ngrams INTEGER NOT NULL,
  segment_len INTEGER NOT NULL,
  segment_checksum INTEGER NOT NULL,
  manifest_checksum INTEGER NOT NULL
);

CREATE TABLE fs_deny_patterns (
  position INTEGER PRIMARY KEY,
  pattern TEXT NOT NULL
);

CREATE TABLE fs_inputs (
  index_key_hash TEXT NOT NULL,
  input_rel_path TEXT NOT NULL,
  kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 4),
  ctime_ns INTEGER NOT NULL,
  device INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  PRIMARY KEY (index_key_hash, input_rel_path),
  FOREIGN KEY (index_key_hash, input_rel_path)
    REFERENCES eligibility_inputs(index_key_hash, input_rel_path) ON DELETE CASCADE
);

CREATE TABLE fs_dirs (
  dir INTEGER PRIMARY KEY,
  parent INTEGER NOT NULL,
  name BLOB NOT NULL,
  first_rank INTEGER NOT NULL,
  end_rank INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL,
  device INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  links INTEGER NOT NULL,
  rule_sets INTEGER NOT NULL CHECK (rule_sets BETWEEN 1 AND 3)
);

CREATE TABLE fs_files (
  file_rowid INTEGER PRIMARY KEY REFERENCES file_entries(file_rowid) ON DELETE CASCADE,
  dir INTEGER NOT NULL REFERENCES fs_dirs(dir),
  ctime_ns INTEGER NOT NULL,
  links INTEGER NOT NULL,
  ngrams INTEGER NOT NULL,
  rule_sets INTEGER NOT NULL CHECK (rule_sets BETWEEN 1 AND 3)
);

CREATE TABLE fs_side (
  position INTEGER PRIMARY KEY,
  dir INTEGER NOT NULL REFERENCES fs_dirs(dir),
  before_rank INTEGER NOT NULL,
  name BLOB NOT NULL,
  rule_sets INTEGER NOT NULL CHECK (rule_sets BETWEEN 1 AND 3)
);

CREATE TABLE fs_groups (
  group_no INTEGER PRIMARY KEY,
  direct BLOB NOT NULL,
  word_files BLOB NOT NULL,
  word_list BLOB NOT NULL
);

CREATE TABLE fs_blocks (
  block_no INTEGER PRIMARY KEY,
  group_no INTEGER NOT NULL REFERENCES fs_groups(group_no),
  files INTEGER NOT NULL,
  words INTEGER NOT NULL,
  hashed_rows INTEGER NOT NULL,
  ranks BLOB NOT NULL,
  starts BLOB NOT NULL
);
";

/// Creates the tables in an empty database.
pub(super) fn create(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(REFERENCE)?;
    db.execute_batch(OWN)
}

/// Lists the objects of a database: their names, and the statements that created them.
fn objects(db: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = db.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Returns true if a database has exactly our tables, indexes and triggers. Checked before any
/// table is read, so that no foreign view or virtual table can run code.
pub(super) fn is_ours(db: &Connection) -> rusqlite::Result<bool> {
    let expected = Connection::open_in_memory()?;
    create(&expected)?;
    Ok(objects(db)? == objects(&expected)?)
}
