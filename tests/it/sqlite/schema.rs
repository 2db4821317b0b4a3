//! The schema of the database: it is the committed reference schema, and its constraints work.

use std::collections::BTreeMap;

use forge_search::internal::index::bloom::BloomParams;
use forge_search::internal::index::gram::Gram;
use forge_search::internal::tool::config::IndexStorage;
use rusqlite::{Connection, params};

use super::{Place, cache, connect, varied};
use crate::project_files::root;
use crate::support::Tree;

/// Returns a statement without comments, and with white space only between words.
fn dense(sql: &str) -> String {
    let code: Vec<&str> = sql
        .lines()
        .map(|line| line.split("--").next().unwrap())
        .collect();
    let mut out = String::new();
    for word in code.join(" ").split_whitespace() {
        let parts = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
        if out.ends_with(parts) && word.starts_with(parts) {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Returns the statements of the committed schema, by the name of the object that each creates.
fn committed() -> BTreeMap<String, String> {
    let path = root().join("tests/data/sqlite/schema.sql");
    let text = dense(&std::fs::read_to_string(path).unwrap());
    // A statement ends at a semicolon. The trigger's statement contains more of them.
    let mut statements: Vec<String> = Vec::new();
    for part in text.split_inclusive(';') {
        match statements.last_mut() {
            Some(open) if open.starts_with("CREATE TRIGGER") && !open.ends_with("END;") => {
                open.push_str(part);
            }
            _ => statements.push(part.to_string()),
        }
    }
    let name = |sql: &str| {
        let rest = sql.split(' ').nth(2).unwrap();
        rest.split('(').next().unwrap().to_string()
    };
    statements
        .into_iter()
        .map(|sql| (name(&sql), sql.trim_end_matches(';').to_string()))
        .collect()
}

fn published(tree: &Tree, check: impl FnOnce(&Connection)) {
    let (_keep, path) = cache();
    let place = Place::new(tree, &path, IndexStorage::Sqlite);
    place.build();
    check(&connect(&place.database()));
}

fn one<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> T {
    db.query_row(sql, [], |row| row.get(0))
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[test]
fn the_database_schema_is_the_committed_one_and_has_a_version() {
    published(&Tree::of([("a.txt", "text")]), |db| {
        let mut statement = db
            .prepare("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%'")
            .unwrap();
        let found: BTreeMap<String, String> = statement
            .query_map([], |row| {
                Ok((row.get(0)?, dense(&row.get::<_, String>(1)?)))
            })
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let expected = committed();
        let names = |all: &BTreeMap<String, String>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected));
        for (name, sql) in &expected {
            assert_eq!(&found[name], sql);
        }
        let own = expected.keys().filter(|name| name.starts_with("fs_"));
        assert_eq!((expected.len(), own.count()), (20, 8));
        assert_eq!(one::<i64>(db, "PRAGMA application_id"), 0x4653_6978);
        assert_eq!(one::<i64>(db, "PRAGMA user_version"), 5);
        assert_eq!(one::<i64>(db, "SELECT schema_version FROM index_meta"), 1);
    });
}

/// A column in SQLite's view: name, type, whether it may be null, its place in the primary key, and
/// whether it is computed.
type Column = (String, String, bool, i64, bool);

fn columns(db: &Connection, table: &str) -> Vec<Column> {
    let mut statement = db.prepare(&format!("PRAGMA table_xinfo({table})")).unwrap();
    let rows = statement.query_map([], |row| {
        let hidden: i64 = row.get(6)?;
        Ok((
            row.get(1)?,
            row.get(2)?,
            row.get::<_, bool>(3)?,
            row.get(5)?,
            hidden == 3,
        ))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn components_of_the_index_key_have_columns_of_their_own() {
    published(&varied(), |db| {
        let meta = columns(db, "index_meta");
        let of = |name: &str| meta.iter().find(|column| column.0 == name).unwrap().clone();
        let column = |name: &str, kind: &str| (name.to_string(), kind.to_string(), true, 0, false);
        for (name, kind) in [
            ("root_path_canon", "TEXT"),
            ("signature_hidden", "INTEGER"),
            ("signature_follow", "INTEGER"),
            ("signature_no_ignore", "INTEGER"),
            ("backend_id", "TEXT"),
            ("tokenizer_id", "TEXT"),
            ("casefold_strategy", "TEXT"),
            ("unicode_normalization", "TEXT"),
            ("bloom_target_fp_rate", "REAL"),
            ("max_tokenized_bytes", "INTEGER"),
        ] {
            assert_eq!(of(name), column(name, kind));
        }
        assert!(columns(db, "fs_index").contains(&column("access", "TEXT")));
        assert_eq!(of("index_key_hash").3, 1, "the primary key");
        // The column is computed and stored, so SQLite lists it only among hidden columns.
        assert!(of("enumerate_ok").4);
        assert_eq!(one::<i64>(db, "SELECT enumerate_ok FROM index_meta"), 1);
        assert!(
            db.execute("UPDATE index_meta SET enumerate_ok = 0", [])
                .is_err()
        );
        db.execute("UPDATE index_meta SET enumerate_error_count = 2", [])
            .unwrap();
        assert_eq!(one::<i64>(db, "SELECT enumerate_ok FROM index_meta"), 0);
    });
}

#[test]
fn a_database_trigger_rejects_other_filter_parameters() {
    published(&Tree::of([("a.txt", "text enough")]), |db| {
        let insert = |k: i64, bits: i64, hashes: i64, seed: i64| {
            db.execute(
                "INSERT OR REPLACE INTO file_bloom
                 SELECT file_rowid, variant, ?, ?, ?, ?, bitset, updated_at_ms FROM file_bloom",
                params![k, bits, hashes, seed],
            )
        };
        // The parameters are those of the logical filter.
        let logical = BloomParams::from_config(1 << 20, 0.01);
        assert_eq!((logical.bits, logical.hashes), (5_025_332, 7));
        let (bits, seed) = (logical.bits as i64, logical.seed.cast_signed());
        assert_eq!(insert(3, bits, 7, seed).unwrap(), 2);
        for wrong in [
            insert(4, bits, 7, seed),
            insert(3, bits - 1, 7, seed),
            insert(3, bits, 4, seed),
            insert(3, bits, 7, seed + 1),
        ] {
            let error = wrong.unwrap_err().to_string();
            assert!(error.contains("params mismatch"), "{error}");
        }
    });
}

#[test]
fn checks_and_references_of_the_database_schema_are_in_force() {
    published(&Tree::of([("a.txt", "text enough")]), |db| {
        for sql in [
            "UPDATE index_meta SET casefold_strategy = 'FULL'",
            "UPDATE index_meta SET unicode_normalization = 'NFKC'",
            "UPDATE index_meta SET safety_state = 'FINE'",
            "UPDATE file_entries SET readable = 2",
            "UPDATE file_entries SET eligible = -1",
            "UPDATE file_entries SET is_binary = 7",
            "UPDATE file_entries SET token_complete = 2",
            "UPDATE file_entries SET token_status = 'DONE'",
            "UPDATE file_bloom SET variant = 'BOTH'",
            "INSERT INTO dirty_queue VALUES ((SELECT index_key_hash FROM index_meta), 'a', 'TREE', 0)",
            "INSERT INTO file_entries SELECT 9, index_key_hash, rel_path, norm_path, path_sort_key,
               size_bytes, mtime_ns, stable_file_id, readable, eligible, is_binary, token_status,
               tokenized_bytes, token_complete, last_indexed_epoch FROM file_entries",
        ] {
            let error = db.execute(sql, []).unwrap_err().to_string();
            assert!(error.contains("constraint failed"), "{sql}: {error}");
        }
        db.pragma_update(None, "foreign_keys", true).unwrap();
        let queue = "INSERT INTO dirty_queue VALUES (?, 'a', 'SUBTREE', 0)";
        assert!(db.execute(queue, ["no such key"]).is_err());
        let hash: String = one(db, "SELECT index_key_hash FROM index_meta");
        db.execute(queue, [hash]).unwrap();
        // Deleting an index deletes all its rows in the other tables.
        db.execute("DELETE FROM index_meta", []).unwrap();
        for table in [
            "eligibility_inputs",
            "file_entries",
            "file_bloom",
            "dirty_queue",
            "fs_index",
            "fs_inputs",
            "fs_files",
        ] {
            let left: i64 = one(db, &format!("SELECT count(*) FROM {table}"));
            assert_eq!(left, 0, "{table}");
        }
    });
}

#[test]
fn the_database_is_in_write_ahead_mode_and_complete_in_itself() {
    published(&varied(), |db| {
        assert_eq!(one::<String>(db, "PRAGMA journal_mode"), "wal");
        assert_eq!(one::<String>(db, "PRAGMA integrity_check"), "ok");
        assert_eq!(
            one::<String>(db, "SELECT safety_state FROM index_meta"),
            "COMPLETE"
        );
        let reason: Option<String> = one(db, "SELECT uncertain_reason FROM index_meta");
        assert_eq!(reason, None);
        assert_eq!(one::<i64>(db, "SELECT count(*) FROM dirty_queue"), 0);
        let wal = std::path::PathBuf::from(format!("{}-wal", db.path().unwrap()));
        assert_eq!(
            std::fs::metadata(wal).unwrap().len(),
            0,
            "nothing is left in the log"
        );
    });
}

#[test]
fn a_database_contains_no_text_of_files() {
    let secret = "an_unmistakable_secret_0123456789";
    let (_keep, path) = cache();
    let tree = Tree::of([("a.txt", secret)]);
    let place = Place::new(&tree, &path, IndexStorage::Sqlite);
    place.build();
    let bytes = std::fs::read(place.database()).unwrap();
    for part in [&secret[..8], &secret[5..13], "0123456789"] {
        assert!(
            !bytes
                .windows(part.len())
                .any(|window| window == part.as_bytes()),
            "{part}"
        );
    }
}

/// The contents of the file tables, for a program that knows only the reference schema.
#[test]
fn files_that_may_be_excluded_are_marked_as_in_the_reference_schema() {
    published(&varied(), |db| {
        let row = |path: &str| {
            db.query_row(
                "SELECT token_status, token_complete, is_binary, readable, tokenized_bytes, size_bytes,
                        path_sort_key, (SELECT group_concat(variant) FROM file_bloom b
                                        WHERE b.file_rowid = f.file_rowid)
                 FROM file_entries f WHERE rel_path = ?",
                [path],
                |row| {
                    let flags = (row.get::<_, bool>(1)?, row.get::<_, bool>(2)?, row.get::<_, bool>(3)?);
                    let sizes = (row.get::<_, i64>(4)?, row.get::<_, i64>(5)?);
                    let texts: (String, String) = (row.get(0)?, row.get(6)?);
                    Ok((texts, flags, sizes, row.get::<_, Option<String>>(7)?))
                },
            )
            .unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let both = Some("INSENSITIVE,SENSITIVE".to_string());
        let texts = |status: &str, key: &str| (status.to_string(), key.to_string());
        assert_eq!(
            row("crlf.txt"),
            (
                texts("FULL", "crlf.txt"),
                (true, false, true),
                (34, 34),
                both
            )
        );
        // No n-gram proves anything about these files: one is too short, and normalization changes
        // the other.
        assert_eq!(row("tiny.txt").1, (false, false, true));
        assert_eq!(row("nfd.txt").1, (false, false, true));
        assert_eq!(row("nfd.txt").3, None);
        assert_eq!(
            row("binary.bin"),
            (
                texts("SKIPPED_BINARY", "binary.bin"),
                (false, true, true),
                (0, 300),
                None
            )
        );
        assert_eq!(row("cafe\u{301}.txt").0.1, "caf\u{e9}.txt");
        // Names that are not UTF-8 are stored unchanged.
        let blobs: i64 = one(
            db,
            "SELECT count(*) FROM file_entries WHERE typeof(rel_path) = 'blob'",
        );
        assert_eq!(blobs, 3);
        // Appendix C keeps this name out of the catalog.
        let side: Vec<u8> = one(db, "SELECT name FROM fs_side");
        assert_eq!(side, b"line\nbreak.txt");
        let sorted: Vec<i64> = db
            .prepare("SELECT file_rowid FROM file_entries ORDER BY path_sort_key, CAST(rel_path AS BLOB)")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let expected: Vec<i64> = (1..=sorted.len() as i64).collect();
        assert_eq!(
            sorted, expected,
            "rows are numbered in the order of results"
        );
    });
}

/// Returns the cells of the table below a heading of `docs/format.md`.
fn documented(heading: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/format.md")).unwrap();
    let below = text
        .lines()
        .skip_while(|line| line.trim_start_matches(['#', ' ']) != heading);
    below
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells
                .map(|cell| cell.trim().trim_matches('`').to_string())
                .collect()
        })
        .collect()
}

#[test]
fn the_document_has_the_tables_of_the_program() {
    published(&Tree::of([("a.txt", "text")]), |db| {
        let mut table = String::new();
        let described: Vec<(String, String)> = documented("Tables of our own")
            .into_iter()
            .map(|row| {
                if !row[0].is_empty() {
                    table.clone_from(&row[0]);
                }
                (table.clone(), row[1].clone())
            })
            .collect();
        let mut tables: Vec<String> = described.iter().map(|(table, _)| table.clone()).collect();
        tables.dedup();
        assert_eq!(tables.len(), 8);
        let found: Vec<(String, String)> = tables
            .iter()
            .flat_map(|table| {
                columns(db, table)
                    .into_iter()
                    .map(|column| (table.clone(), column.0))
            })
            .collect();
        assert_eq!(described, found);
        for row in &documented("SQLite")[..3] {
            let pragma = &row[0];
            let value: i64 = one(db, &format!("PRAGMA {pragma}"));
            assert!(row[1].contains(&value.to_string()), "{pragma}: {value}");
        }
    });
}

/// Looks an n-gram up in the bitset of a file, as `docs/format.md` describes it.
fn may_hold(db: &Connection, path: &str, variant: &str, gram: &str) -> bool {
    let (rank, mut bitset): (i64, Vec<u8>) = db
        .query_row(
            "SELECT file_rowid - 1, bitset FROM file_bloom JOIN file_entries USING (file_rowid)
             WHERE rel_path = ? AND variant = ?",
            params![path, variant],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    if bitset.is_empty() {
        assert_eq!(variant, "SENSITIVE");
        bitset = db
            .query_row(
                "SELECT bitset FROM file_bloom WHERE file_rowid = ? AND variant = 'INSENSITIVE'",
                [rank + 1],
                |row| row.get(0),
            )
            .unwrap();
    }
    let chars: Vec<char> = gram.chars().collect();
    let [a, b, c] = chars[..] else {
        panic!("{gram}")
    };
    let hash = Gram::new([a, b, c]).hashes();
    let packed = gram
        .is_ascii()
        .then_some((a as u32) << 14 | (b as u32) << 7 | c as u32);
    let mut statement = db
        .prepare(
            "SELECT ranks, hashed_rows, direct FROM fs_blocks JOIN fs_groups USING (group_no) ORDER BY block_no",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    let numbers = |bytes: Vec<u8>| -> Vec<u32> {
        let chunks = bytes.chunks(4);
        chunks
            .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
            .collect()
    };
    let (mut at, mut found) = (0, false);
    while let Some(row) = rows.next().unwrap() {
        let (ranks, direct) = (numbers(row.get(0).unwrap()), numbers(row.get(2).unwrap()));
        let hashed: u64 = row.get::<_, i64>(1).unwrap() as u64;
        let column = (hashed as usize + direct.len()).div_ceil(8);
        for own in ranks {
            if i64::from(own) != rank {
                continue;
            }
            let bit = |n: usize| bitset[at + n / 8] >> (n % 8) & 1 == 1;
            found |= match packed.and_then(|packed| direct.binary_search(&packed).ok()) {
                Some(number) => bit(hashed as usize + number),
                None => (0..4).all(|i| {
                    let spread = (u128::from(hash.bit(i, 5_025_332)) << 32) / 5_025_332;
                    bit(((spread as u64 * hashed) >> 32) as usize)
                }),
            };
            at += column;
        }
    }
    assert_eq!(
        at,
        bitset.len(),
        "the bitset of {path} has a column for each of its slots"
    );
    found
}

#[test]
fn stored_bitsets_answer_both_filter_variants() {
    published(&varied(), |db| {
        let path = "sub/deeper/Mixed.txt";
        for gram in ["Nee", "eed", "_In", "OC_", "Y(x"] {
            assert!(may_hold(db, path, "SENSITIVE", gram), "{gram}");
            let folded = gram.to_ascii_lowercase();
            assert!(may_hold(db, path, "INSENSITIVE", &folded), "{folded}");
        }
        let wide = ["\u{1F600}\u{1F601}\u{1F602}", "Übe", "röß"];
        for gram in wide {
            assert!(may_hold(db, "wide.txt", "SENSITIVE", gram), "{gram}");
        }
        let mut wrong = 0;
        for gram in ["qqq", "zzq", "#!%", "ÄÖÜ", "xyq", "0q0", "Zzz", "~~~"] {
            wrong += u32::from(may_hold(db, path, "SENSITIVE", gram));
        }
        assert!(wrong <= 1, "filters say that everything is there");
        // A file with several parts has several columns.
        for gram in ["lor", "m i", "899"] {
            assert!(may_hold(db, "large.txt", "INSENSITIVE", gram), "{gram}");
        }
        let slots: i64 = one(db, "SELECT sum(files) FROM fs_blocks");
        let filters: i64 = one(
            db,
            "SELECT count(*) FROM file_bloom WHERE variant = 'INSENSITIVE'",
        );
        assert!(slots > filters, "{slots} {filters}");
        let added: i64 = one(
            db,
            "SELECT sum(length(bitset)) FROM file_bloom WHERE variant = 'SENSITIVE'",
        );
        assert_eq!(added, 0);
    });
}
