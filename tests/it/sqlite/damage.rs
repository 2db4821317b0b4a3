//! Damaged databases: searches answer as without an index and report the reason. Damaged data is
//! never used.

use std::fs;
use std::path::Path;
use std::time::Instant;

use forge_search::internal::format::error::{FormatError, FormatErrorKind};
use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::tool::config::{IndexStorage, IntegrityCheck};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{HASTY, Place, cache, connect};
use crate::support::Tree;
use crate::system::{set_mode, symlink};

/// The size of a page of the databases, in bytes.
const PAGE: usize = 16_384;

/// Returns a small tree that fills every table.
fn small() -> Tree {
    let tree = Tree::new();
    tree.dir(".git")
        .file(".gitignore", "*.ignored\n")
        .file("sub/.ignore", "x\n")
        .file("line\\nbreak.txt", "on the side list")
        .file("cafe\u{301}.txt", "needle of a decomposed name");
    for n in 0..80u32 {
        let word = n.wrapping_mul(0x9E37_79B9);
        tree.file(
            &format!("sub/f{n}.txt"),
            format!("common words, x_{word:08x}\n"),
        );
    }
    tree
}

/// An index of the tree, which tests can damage and restore repeatedly.
struct Subject<'a> {
    place: Place<'a>,
    good: Vec<u8>,
    segment: Vec<u8>,
    answer: Value,
}

fn request() -> Value {
    json!({"pattern": "x_9e3779b9", "fixed_strings": true})
}

fn bytes_of(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.segment().storage().as_bytes().to_vec()
}

impl<'a> Subject<'a> {
    fn new(tree: &'a Tree, cache: &Path) -> Subject<'a> {
        let place = Place::new(tree, cache, IndexStorage::Sqlite);
        let (_, snapshot) = place.build();
        Subject {
            good: fs::read(place.database()).unwrap(),
            segment: bytes_of(&snapshot),
            answer: tree.search(request()).to_value(),
            place,
        }
    }

    /// Replaces the bytes of the database.
    fn put(&self, bytes: &[u8]) {
        let path = self.place.database();
        for end in ["", "-wal", "-shm", "-journal"] {
            let _there_may_be_none = fs::remove_file(format!("{}{end}", path.display()));
        }
        fs::write(&path, bytes).unwrap();
        self.make_private(&path);
    }

    fn make_private(&self, path: &Path) {
        set_mode(path, 0o600).unwrap();
    }

    /// Restores the database, and changes it as another program would.
    fn change(&self, change: impl FnOnce(&Connection)) {
        self.put(&self.good);
        let db = connect(&self.place.database());
        change(&db);
        db.close().unwrap();
    }

    /// Loads the index. Returns true if its segment is the one that was written.
    fn load(&self) -> Result<bool, FormatError> {
        let snapshot = self.place.load()?;
        Ok(bytes_of(&snapshot.expect("there is an index")) == self.segment)
    }

    fn verify(&self) -> Result<(), FormatError> {
        let store = self.place.store();
        store.check(&self.place.dir(), true, &mut std::thread::sleep)
    }

    /// Searches like a new process. Returns the state in the answer.
    #[track_caller]
    fn search(&self) -> String {
        let mut response = self.place.answer(&self.place.indexes(), &request());
        let stats = response.stats.take().unwrap();
        assert_eq!(response.to_value(), self.answer, "the answer is the same");
        assert_eq!(stats.storage_mode, "sqlite");
        assert_eq!(
            stats.index_exclusion_used,
            stats.index_safety_state == "COMPLETE"
        );
        stats.index_safety_state
    }

    #[track_caller]
    fn check_corrupt(&self, what: &str) {
        let error = self.load().expect_err(what);
        assert!(error.is_corrupt(), "{what}: {error}");
        assert_eq!(self.search(), "CORRUPT", "{what}");
        assert!(self.verify().is_err(), "{what}");
    }
}

#[test]
fn flipped_bytes_of_a_database_are_found_or_do_not_matter() {
    let (tree, (_keep, path)) = (small(), cache());
    let subject = Subject::new(&tree, &path);
    assert_eq!(subject.search(), "COMPLETE");
    let len = subject.good.len();
    let random = (0..300usize).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20);
    let (mut corrupt, mut same) = (0, 0);
    for (n, at) in (0..100).chain(random.map(|at| at % len)).enumerate() {
        let mut bytes = subject.good.clone();
        bytes[at] ^= 1 << (n % 8);
        subject.put(&bytes);
        match subject.load() {
            Ok(is_same) => {
                assert!(is_same, "byte {at} changed the index");
                same += 1;
            }
            Err(error) if error.is_corrupt() => corrupt += 1,
            Err(error) => {
                let kind = error.kind();
                // The flip has made the version of SQLite's format or of this program's format too
                // new.
                let newer = matches!(kind, FormatErrorKind::NewerVersion { .. });
                assert!(newer || at < 100, "byte {at}: {error}");
            }
        }
        if n % 20 == 0 {
            subject.search();
        }
    }
    assert!(corrupt > 50 && same > 10, "{corrupt} {same}");
}

#[test]
fn a_database_cut_short_is_damaged() {
    let (tree, (_keep, path)) = (small(), cache());
    let subject = Subject::new(&tree, &path);
    let len = subject.good.len();
    let pages = [0, 1, 2, len / PAGE / 2, len / PAGE - 1];
    let within = [
        1,
        15,
        16,
        99,
        100,
        4096,
        PAGE - 1,
        PAGE + 1,
        len / 2,
        len - 4_000,
    ];
    for keep in pages.map(|page| page * PAGE).into_iter().chain(within) {
        subject.put(&subject.good[..keep]);
        subject.check_corrupt(&format!("{keep} of {len} bytes"));
    }
    // SQLite reads missing bytes of the last page as zeros, and the missing byte was zero.
    subject.put(&subject.good[..len - 1]);
    assert!(subject.load().unwrap());
}

#[test]
fn a_file_that_is_no_database_counts_as_damaged() {
    let (tree, (_keep, path)) = (small(), cache());
    let subject = Subject::new(&tree, &path);
    for bytes in [
        &b"no database at all"[..],
        &[0; 40_000],
        &[0xFF; 40_000],
        &subject.segment,
    ] {
        subject.put(bytes);
        subject.check_corrupt("no database");
    }
    // A new build repairs the database.
    subject.place.build();
    assert_eq!(subject.search(), "COMPLETE");
}

#[test]
fn databases_of_other_versions_and_programs_are_told_apart() {
    let (tree, (_keep, path)) = (small(), cache());
    let subject = Subject::new(&tree, &path);
    let set = |pragma: &str, value: i64| {
        subject.change(|db| db.pragma_update(None, pragma, value).unwrap());
        subject.load().unwrap_err()
    };
    let error = set("application_id", 1);
    assert!(matches!(error.kind(), FormatErrorKind::NotOurs), "{error}");
    subject.check_corrupt("another application");
    let error = set("user_version", 0);
    let unknown = matches!(
        error.kind(),
        FormatErrorKind::UnknownVersion { found: 0, .. }
    );
    assert!(unknown, "{error}");
    subject.check_corrupt("no version");
    // The database of a newer program is left alone.
    let error = set("user_version", 6);
    let kind = error.kind();
    let newer = matches!(
        kind,
        FormatErrorKind::NewerVersion {
            found: 6,
            supported: 5,
            ..
        }
    );
    assert!(newer, "{error}");
    assert!(!error.is_corrupt());
    assert_eq!(subject.search(), "ABSENT");
    let error = subject.verify().unwrap_err();
    assert!(!error.is_corrupt(), "{error}");
}

#[test]
fn a_database_with_another_schema_is_not_used() {
    let (tree, (_keep, path)) = (small(), cache());
    let subject = Subject::new(&tree, &path);
    for sql in [
        "CREATE TABLE more (x)",
        "CREATE VIEW more AS SELECT 1",
        "CREATE INDEX more ON fs_dirs(parent)",
        "DROP INDEX idx_dirty_queue_key",
        "DROP TRIGGER trg_file_bloom_params_match",
        "DROP TABLE fs_side",
        "ALTER TABLE fs_side ADD COLUMN more",
        "ALTER TABLE fs_side RENAME TO fs_sides",
        // An endless query in place of a table.
        "DROP TABLE fs_deny_patterns; CREATE VIEW fs_deny_patterns AS
           WITH RECURSIVE n(position) AS (SELECT 1 UNION ALL SELECT position + 1 FROM n)
           SELECT position, 'x' AS pattern FROM n",
    ] {
        subject.change(|db| db.execute_batch(sql).unwrap());
        subject.check_corrupt(sql);
    }
}

/// The columns that no search reads. Other programs can use them. They are derived from other
/// columns, or times.
const DERIVED: [&str; 9] = [
    "file_entries.norm_path",
    "file_entries.path_sort_key",
    "file_entries.readable",
    "file_entries.eligible",
    "file_entries.is_binary",
    "file_entries.tokenized_bytes",
    "file_bloom.m_bits",
    "file_bloom.k_hashes",
    "file_bloom.hash_seed",
];
const FREE: [&str; 8] = [
    "index_meta.last_accessed_at_ms",
    "index_meta.uncertain_reason",
    "index_meta.disabled_until_ms",
    "eligibility_inputs.hash_algo",
    "eligibility_inputs.content_hash",
    "file_entries.last_indexed_epoch",
    "file_bloom.updated_at_ms",
    // The database has one index, so no search looks it up by its hash.
    "file_entries.index_key_hash",
];

/// Returns the table, name and type of each column.
fn columns(db: Connection) -> Vec<(String, String, String)> {
    let columns = db
        .prepare(
            "SELECT t.name, c.name, c.type FROM sqlite_master t JOIN pragma_table_xinfo(t.name) c
             WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND c.hidden = 0
             ORDER BY t.name, c.cid",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    db.close().unwrap();
    columns
}

/// Returns an SQL expression for another value of the same type: one other byte, or a number plus
/// one.
fn other_value(table: &str, column: &str, kind: &str) -> String {
    match format!("{table}.{column}").as_str() {
        // The directory determines the other components, so this changes the last one.
        "file_entries.rel_path" => "substr(rel_path, 1, length(rel_path) - 1) || '?'".to_string(),
        // The index has no words: no file is in a list.
        "fs_groups.word_files" => "x'00000000'".to_string(),
        "index_meta.casefold_strategy" => "'UNICODE_SIMPLE'".to_string(),
        "index_meta.unicode_normalization" => "'NFD'".to_string(),
        "index_meta.safety_state" => "'BUILDING'".to_string(),
        "index_meta.bloom_target_fp_rate" => "0.02".to_string(),
        "file_entries.token_status" => "'ERROR'".to_string(),
        "file_bloom.variant" => "'INSENSITIVE'".to_string(),
        "fs_inputs.kind" => "(kind + 1) % 5".to_string(),
        _ if ["readable", "eligible", "is_binary", "token_complete"].contains(&column)
            || column.starts_with("signature_") =>
        {
            format!("1 - {column}")
        }
        _ => match kind {
            "TEXT" => format!("'x' || substr({column}, 2)"),
            "BLOB" => format!("CAST(X'07' || substr({column}, 2) AS BLOB)"),
            _ => format!("{column} + 1"),
        },
    }
}

#[test]
fn changed_values_in_a_database_are_detected() {
    let (tree, (_keep, path)) = (small(), cache());
    let subject = Subject::new(&tree, &path);
    subject.put(&subject.good);
    let columns = columns(connect(&subject.place.database()));
    assert!(columns.len() > 80, "{}", columns.len());
    let mut outcomes = [0; 4];
    for (table, column, kind) in &columns {
        let name = format!("{table}.{column}");
        let value = other_value(table, column, kind);
        let mut changed = 0;
        subject.change(|db| {
            db.pragma_update(None, "ignore_check_constraints", true)
                .unwrap();
            db.pragma_update(None, "foreign_keys", false).unwrap();
            let sql = format!(
                "UPDATE OR REPLACE {table} SET {column} = coalesce({value}, 1)
                 WHERE rowid = (SELECT max(rowid) FROM {table})"
            );
            changed = db
                .execute(&sql, [])
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
        });
        if changed == 0 {
            assert_eq!(table, "dirty_queue", "{name}");
            outcomes[0] += 1;
            continue;
        }
        let loaded = subject.load();
        if DERIVED.contains(&name.as_str()) {
            assert!(loaded.unwrap(), "{name}");
            let error = subject.verify().expect_err(&name);
            assert!(error.is_corrupt(), "{name}: {error}");
            outcomes[1] += 1;
        } else if FREE.contains(&name.as_str()) || name == "file_bloom.ngram_k" {
            assert!(loaded.unwrap(), "{name}");
            outcomes[2] += 1;
        } else {
            let error = loaded.expect_err(&name);
            assert!(error.is_corrupt(), "{name}: {error}");
            outcomes[3] += 1;
        }
    }
    assert!(outcomes[3] > 55, "{outcomes:?}");
    // The worst error of an index: it excludes files that match.
    subject.change(|db| {
        let sql = "UPDATE file_bloom SET bitset = zeroblob(length(bitset))";
        assert!(db.execute(sql, []).unwrap() > 100);
    });
    subject.check_corrupt("empty filters");
    for sql in [
        "DELETE FROM file_bloom WHERE variant = 'SENSITIVE' AND file_rowid = 3",
        "DELETE FROM file_bloom WHERE file_rowid = 3",
        "DELETE FROM file_entries WHERE file_rowid = 3",
        "UPDATE fs_files SET rule_sets = rule_sets % 3 + 1 WHERE file_rowid = 3",
        "DELETE FROM fs_blocks",
        "DELETE FROM fs_groups",
        "DELETE FROM fs_index",
        "DELETE FROM index_meta",
        "DELETE FROM eligibility_inputs",
        "INSERT INTO fs_side VALUES (7, 0, 0, 'x', 3)",
        "INSERT INTO fs_deny_patterns SELECT count(*), 'x' FROM fs_deny_patterns",
        "DELETE FROM fs_deny_patterns WHERE position = 0",
        "UPDATE fs_blocks SET words = 8",
        "UPDATE fs_blocks SET files = 4000000000",
        "UPDATE fs_blocks SET hashed_rows = 4294967295",
        "UPDATE fs_blocks SET hashed_rows = 0",
        "UPDATE fs_blocks SET ranks = X'01'",
        "UPDATE fs_index SET segment_len = 9223372036854775807",
        "UPDATE fs_index SET segment_len = -1",
        "UPDATE file_entries SET file_rowid = 9223372036854775807 WHERE file_rowid = 5",
        "UPDATE file_entries SET stable_file_id = X'01' WHERE file_rowid = 5",
        "UPDATE fs_dirs SET name = 7",
        "UPDATE fs_dirs SET parent = 'text'",
    ] {
        subject.change(|db| {
            db.pragma_update(None, "foreign_keys", false).unwrap();
            db.execute(sql, [])
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
        });
        subject.check_corrupt(sql);
    }
}

#[test]
fn waiting_for_a_locked_database_ends_at_the_configured_time() {
    let (tree, (_keep, path)) = (small(), cache());
    let mut subject = Subject::new(&tree, &path);
    subject.place = subject.place.hasty();
    let db = connect(&subject.place.database());
    db.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
    db.execute_batch("BEGIN EXCLUSIVE; UPDATE index_meta SET last_accessed_at_ms = 7")
        .unwrap();
    let started = Instant::now();
    let error = subject.load().unwrap_err();
    let waited = started.elapsed();
    assert!(
        matches!(error.kind(), FormatErrorKind::Locked { .. }),
        "{error}"
    );
    assert!(!error.is_corrupt());
    assert!(waited >= HASTY, "{waited:?}");
    // The same process checks the database again on its next call.
    let indexes = subject.place.indexes();
    let state = || {
        let stats = subject.place.answer(&indexes, &request()).stats.unwrap();
        stats.index_safety_state
    };
    assert_eq!(subject.search(), "ABSENT");
    assert_eq!(state(), "ABSENT");
    db.execute_batch("ROLLBACK").unwrap();
    db.close().unwrap();
    assert_eq!(state(), "COMPLETE");
}

#[test]
fn a_check_on_opening_finds_damage_that_loading_does_not_meet() {
    let (tree, (_keep, path)) = (small(), cache());
    let mut subject = Subject::new(&tree, &path);
    let db = connect(&subject.place.database());
    let page: i64 = db
        .query_row(
            "SELECT rootpage FROM sqlite_master WHERE name = 'idx_dirty_queue_time'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    db.close().unwrap();
    let mut bytes = subject.good.clone();
    bytes[(page as usize - 1) * PAGE] = 0xFF;
    subject.put(&bytes);
    subject.check_corrupt("an index that is never read");
    subject.place.setup.config.index_integrity_check = IntegrityCheck::Off;
    assert_eq!(subject.search(), "COMPLETE");
    assert!(subject.verify().unwrap_err().is_corrupt());
}

#[test]
fn files_beside_the_database_do_no_harm() {
    let (tree, (_keep, path)) = (small(), cache());
    let subject = Subject::new(&tree, &path);
    let beside = |end: &str| format!("{}{end}", subject.place.database().display());
    for end in ["-wal", "-shm", "-journal"] {
        for bytes in [&b"garbage"[..], &[0xFF; 70_000], &[0; 100]] {
            subject.put(&subject.good);
            fs::write(beside(end), bytes).unwrap();
            let state = subject.search();
            assert!(
                ["COMPLETE", "CORRUPT", "ABSENT"].contains(&state.as_str()),
                "{end}: {state}"
            );
        }
    }
    // The log of a program that wrote to the database and died. Its changes are noticed. A new
    // index is not read together with this log.
    subject.put(&subject.good);
    let db = connect(&subject.place.database());
    db.execute(
        "UPDATE file_bloom SET bitset = zeroblob(length(bitset))",
        [],
    )
    .unwrap();
    let log = fs::read(beside("-wal")).unwrap();
    assert!(log.len() > 10_000);
    drop(db);
    subject.put(&subject.good);
    fs::write(beside("-wal"), &log).unwrap();
    assert_eq!(subject.search(), "CORRUPT");
    subject.put(&subject.good);
    fs::write(beside("-wal"), &log).unwrap();
    subject.place.build();
    assert!(fs::metadata(beside("-wal")).map_or(true, |meta| meta.len() == 0));
    assert_eq!(subject.search(), "COMPLETE");
}

#[test]
fn a_database_that_others_can_change_is_not_used() {
    let (tree, (_keep, path)) = (small(), cache());
    let mut subject = Subject::new(&tree, &path);
    let file = subject.place.database();
    set_mode(&file, 0o666).unwrap();
    let error = subject.load().unwrap_err();
    assert!(
        matches!(error.kind(), FormatErrorKind::Insecure { .. }),
        "{error}"
    );
    assert_eq!(subject.search(), "ABSENT");
    subject.place.setup.config.index_allow_insecure_persistence = true;
    assert_eq!(subject.search(), "COMPLETE");
    subject.place.setup.config.index_allow_insecure_persistence = false;
    // The target of a link is not read either.
    let elsewhere = path.join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    subject.make_private(&elsewhere);
    symlink(&elsewhere, &file).unwrap();
    let store = subject.place.store();
    let error = store
        .load(subject.place.key(), &mut std::thread::sleep)
        .unwrap_err();
    assert!(
        matches!(error.kind(), FormatErrorKind::Insecure { .. }),
        "{error}"
    );
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let error = store
        .load(subject.place.key(), &mut std::thread::sleep)
        .unwrap_err();
    assert!(
        matches!(error.kind(), FormatErrorKind::Insecure { .. }),
        "{error}"
    );
}
