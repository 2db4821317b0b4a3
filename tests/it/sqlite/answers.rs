//! Every storage holds the same index and so gives the same answers.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use forge_search::internal::exec::question::query::{Case, Query, QueryOptions};
use forge_search::internal::index::plan::{Strategy, SupersetSafe};
use forge_search::internal::index::snapshot::{Snapshot, StorageMode};
use forge_search::internal::tool::config::IndexStorage;
use serde_json::{Value, json};

use super::{Place, cache, varied};
use crate::support::{Tree, is_long};

const STORAGES: [IndexStorage; 3] = [
    IndexStorage::Memory,
    IndexStorage::Mmap,
    IndexStorage::Sqlite,
];

fn requests() -> Vec<Value> {
    let plain = [
        "needle_in_a_haystack",
        "Needle_In_A_Haystack",
        "absent_from_everything",
        "x_9e3779b9",
        "common_1",
        "lorem ipsum",
        "kmalloc_array",
        "inside_of_it",
        "Übergröße",
        "\u{1F600}\u{1F601}\u{1F602}",
        "composed",
        "ab",
    ];
    let mut all = Vec::new();
    for pattern in plain {
        for case in ["smart", "sensitive", "insensitive"] {
            all.push(json!({"pattern": pattern, "fixed_strings": true, "case": case}));
        }
        all.push(json!({"pattern": pattern, "fixed_strings": true, "word_regexp": true}));
        all.push(json!({"pattern": pattern, "fixed_strings": true, "fuzzy": 1}));
        all.push(json!({"pattern": pattern, "path": "src", "max_results": 3}));
        all.push(json!({"pattern": pattern, "include_glob": ["*.txt"], "context": 1}));
    }
    for pattern in [
        "needle_(in|out)_a_haystack",
        "x_[0-9a-f]{8}",
        "common_(1|22|333)\\(",
        "[a-z]{3}_[0-9]{3}",
        "KMALLOC|inside_of",
        ".",
    ] {
        all.push(json!({"pattern": pattern, "max_results": 50}));
    }
    // Short runs take every second request: each text in half of the ways.
    all.into_iter()
        .step_by(if is_long() { 1 } else { 2 })
        .collect()
}

#[test]
fn memory_mmap_and_sqlite_give_the_same_answers() {
    let tree = varied();
    let (_keep, path) = cache();
    let mut answers: Vec<Vec<Value>> = Vec::new();
    let mut segments: Vec<Vec<u8>> = Vec::new();
    for (n, storage) in STORAGES.into_iter().enumerate() {
        let place = Place::new(&tree, &path.join(n.to_string()), storage);
        let (built, snapshot) = place.build();
        let mut all = vec![(built, snapshot)];
        if storage != IndexStorage::Memory {
            // Another process opens the index.
            all.push((place.indexes(), Arc::new(place.open())));
        }
        for (indexes, snapshot) in all {
            assert_eq!(snapshot.storage().as_str(), storage.as_str());
            segments.push(snapshot.segment().storage().as_bytes().to_vec());
            let mut excluded = 0;
            let found = requests().into_iter().map(|request| {
                let mut response = place.answer(&indexes, &request);
                let stats = response.stats.take().unwrap();
                assert_eq!(stats.storage_mode, storage.as_str());
                excluded += stats.candidates_excluded;
                let counts = json!([
                    stats.candidates_total,
                    stats.candidates_excluded,
                    stats.index_safety_state
                ]);
                json!([request, response.to_value(), counts])
            });
            answers.push(found.collect());
            assert!(excluded > 10_000, "{excluded}");
        }
    }
    assert_eq!(answers.len(), 5);
    for other in &answers[1..] {
        for (a, b) in answers[0].iter().zip(other) {
            assert_eq!(a, b);
        }
    }
    for other in &segments[1..] {
        assert!(
            segments[0] == *other,
            "a segment differs from that in memory"
        );
    }
    // The answers are also equal to those without an index.
    for (request, answer) in requests().iter().zip(&answers[0]) {
        assert_eq!(tree.search(request.clone()).to_value(), answer[1]);
    }
}

fn candidates(snapshot: &Snapshot, pattern: &str, case: Case) -> Vec<u32> {
    let query = Query::new(
        &[pattern],
        &QueryOptions {
            fixed_strings: true,
            case,
            ..QueryOptions::default()
        },
    );
    let query = query.unwrap();
    let fold = query.pattern.fold()
        == forge_search::internal::exec::question::query::Fold::AsciiInsensitive;
    let mut plan = SupersetSafe::for_expression(query.pattern.hir(), fold, Strategy::Boolean);
    let segment = snapshot.segment();
    segment.order(&mut plan).unwrap();
    let found = segment.candidates(&plan).unwrap();
    found.files().iter(0..segment.file_count()).collect()
}

#[test]
fn memory_mmap_and_sqlite_give_the_same_candidates() {
    let tree = varied();
    let (_keep, path) = cache();
    let snapshots: Vec<Arc<Snapshot>> = STORAGES
        .into_iter()
        .enumerate()
        .map(|(n, storage)| {
            let place = Place::new(&tree, &path.join(n.to_string()), storage);
            let (_, built) = place.build();
            match storage {
                IndexStorage::Memory => built,
                _ => Arc::new(place.open()),
            }
        })
        .collect();
    let [memory, mmap, sqlite] = &snapshots[..] else {
        panic!();
    };
    assert!(mmap.segment().storage().is_mapped());
    assert!(!sqlite.segment().storage().is_mapped());
    let mut distinct = BTreeSet::new();
    for n in 0..700u32 {
        let word = n.wrapping_mul(0x9E37_79B9);
        for pattern in [
            format!("x_{word:08x}"),
            format!("common_{n}"),
            format!("LINE {}", n * 12),
            format!("{word:08x}"),
        ] {
            for case in [Case::Sensitive, Case::Insensitive] {
                let expected = candidates(memory, &pattern, case);
                assert_eq!(candidates(mmap, &pattern, case), expected, "{pattern}");
                assert_eq!(candidates(sqlite, &pattern, case), expected, "{pattern}");
                distinct.insert(expected);
            }
        }
    }
    assert!(distinct.len() > 600, "{}", distinct.len());
}

#[test]
fn every_status_and_name_is_read_back() {
    let tree = varied();
    let (_keep, path) = cache();
    let place = Place::new(&tree, &path, IndexStorage::Sqlite);
    let (_, built) = place.build();
    let read = place.open();
    assert_eq!(read.key(), built.key());
    assert_eq!(read.enumeration_errors(), built.enumeration_errors());
    let (a, b) = (built.segment(), read.segment());
    assert_eq!(a.summary(), b.summary());
    assert_eq!(a.side_count(), 1);
    let mut statuses = BTreeSet::new();
    for rank in 0..a.file_count() {
        let (x, y) = (a.file(rank).unwrap(), b.file(rank).unwrap());
        assert_eq!(x, y);
        assert_eq!(a.name(x.name).unwrap(), b.name(y.name).unwrap());
        statuses.insert((x.status, x.excludable));
    }
    assert!(statuses.len() >= 3, "{statuses:?}");
    for number in 0..a.dir_count() {
        assert_eq!(a.dir_path(number).unwrap(), b.dir_path(number).unwrap());
    }
    b.verify().unwrap();
    place
        .store()
        .check(&place.dir(), true, &mut std::thread::sleep)
        .unwrap();
}

#[test]
fn empty_trees_are_stored() {
    for tree in [
        Tree::new(),
        Tree::of([("a", "")]),
        Tree::of([("a", "only one file")]),
        Tree::of([("line\\nbreak", "only on the side list")]),
    ] {
        let (_keep, path) = cache();
        let place = Place::new(&tree, &path, IndexStorage::Sqlite);
        let (_, built) = place.build();
        let read = place.open();
        let bytes = |snapshot: &Snapshot| snapshot.segment().storage().as_bytes().to_vec();
        assert!(bytes(&built) == bytes(&read));
        let store = place.store();
        store
            .check(&place.dir(), true, &mut std::thread::sleep)
            .unwrap();
    }
}

#[test]
fn eligibility_inputs_are_read_back() {
    let tree = varied();
    let (_keep, path) = cache();
    let excludes = tempfile::tempdir().unwrap();
    let excludes = excludes.path().canonicalize().unwrap().join("excludes");
    std::fs::create_dir_all(excludes.parent().unwrap()).unwrap();
    let mut place = Place::new(&tree, &path, IndexStorage::Sqlite);
    place.setup.global_excludes = Some(excludes.clone());
    place.build();
    let request = json!({"pattern": "needle_in_a_haystack"});
    // Returns the reason why the status distrusts the index. Checks that a search handles the
    // change itself and uses the index.
    let reason = |place: &Place<'_>| {
        let stats = place.answer(&place.indexes(), &request).stats.unwrap();
        assert!(stats.index_exclusion_used, "{stats:?}");
        let status = place
            .indexes()
            .status(place.setup.context().sandbox.reach())
            .remove(0);
        status.condition.index_state().reason()
    };
    assert_eq!(reason(&place), None);
    // First an ignore file that did not exist, outside of the tree; then one inside.
    std::fs::write(&excludes, "x").unwrap();
    let changed = Some("ELIGIBILITY_CHANGED");
    assert_eq!(reason(&place), changed);
    place.build();
    assert_eq!(reason(&place), None);
    tree.file("sub/.ignore", "other/\n");
    assert_eq!(reason(&place), changed);
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            let beside = [".lock", "-shm", "-wal", "accessed"];
            !beside.iter().any(|end| name.ends_with(end))
        })
        .collect();
    names.sort();
    names
}

#[test]
fn a_directory_holds_one_index_in_one_form() {
    let tree = Tree::of([("a.txt", "something to be found")]);
    let (_keep, path) = cache();
    let sqlite = Place::new(&tree, &path, IndexStorage::Sqlite);
    let mmap = Place::new(&tree, &path, IndexStorage::Mmap);
    let sequence = || {
        let listed = mmap.store().list().unwrap();
        assert_eq!(listed.len(), 1);
        assert!(listed[0].bytes > 0);
        listed[0].manifest.as_ref().unwrap().state.sequence
    };
    sqlite.build();
    assert_eq!(names(&sqlite.dir()), ["index.sqlite"]);
    assert!(sqlite.load().unwrap().is_some());
    assert!(mmap.load().unwrap().is_none());
    assert_eq!(sequence(), 1);
    mmap.build();
    assert_eq!(names(&sqlite.dir()), ["manifest", "segment-2.seg"]);
    assert!(sqlite.load().unwrap().is_none());
    assert_eq!(sequence(), 2);
    sqlite.build();
    assert_eq!(names(&sqlite.dir()), ["index.sqlite"]);
    assert_eq!(sequence(), 3);
    let dir = sqlite.dir();
    for store in [mmap.store(), sqlite.store()] {
        store.check(&dir, true, &mut std::thread::sleep).unwrap();
    }
    assert_eq!(mmap.store().mode(), StorageMode::Mmap);
    mmap.store().remove(&dir, &mut std::thread::sleep).unwrap();
    assert!(!dir.exists());
    assert!(sqlite.load().unwrap().is_none());
}

#[cfg(unix)]
#[test]
fn all_files_of_an_sqlite_index_are_private() {
    use std::os::unix::fs::PermissionsExt;

    let tree = Tree::of([("a.txt", "something to be found")]);
    let (_keep, path) = cache();
    let place = Place::new(&tree, &path, IndexStorage::Sqlite);
    place.build();
    place.open();
    // While a reader has the database open, SQLite adds more files.
    let reader = super::connect(&place.database());
    let rows: i64 = reader
        .query_row("SELECT count(*) FROM file_entries", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1);
    let mut seen = 0;
    for entry in std::fs::read_dir(place.dir()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}
