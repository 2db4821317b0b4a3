//! One tree gives one segment: neither threads nor the order in which directories list their
//! entries change a byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_search::internal::format::section::{Container, FileKind};
use forge_search::internal::format::segment::{SEGMENT_VERSION, StampRecord, id};
use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::tool::config::IndexStorage;

use crate::differential::Seeded;
use crate::index_support::{Host, LIVE, Variant};
use crate::support::{Setup, Tree, is_long};

/// The place of a filesystem in memory, on systems that have one.
const MEMORY: &str = "/dev/shm";

/// Enough files for several batches of a build.
const FILES: usize = 1_000;

/// Plants a tree with names that sort in every way and contents of all sizes. It has enough
/// different words for several groups of blocks.
fn planted() -> Tree {
    // In a filesystem in memory, if there is one: there, directories list the newest entry first,
    // and not by hashes of names.
    let memory = Path::new(MEMORY);
    let tree = match memory.is_dir() {
        true => Tree::new_in(memory),
        false => Tree::new(),
    };
    let mut rng = Seeded::new(7);
    let word = |rng: &mut Seeded| -> String {
        let length = 3 + rng.below(9);
        (0..length)
            .map(|_| char::from(rng.pick(b"abcdefghijklmnopqrstuvwxyzABCDEFGH_0123456789")))
            .collect()
    };
    let dirs = [
        "",
        "a/",
        "a-b/",
        "a/b/",
        "\u{E9}/",
        "e\u{301}/",
        r"\xFF/",
        r"n\nl/",
    ];
    for n in 0..FILES {
        let words = match n % 40 {
            0 => 2_000,
            1..=3 => 600,
            _ => rng.below(140),
        };
        let mut text = String::new();
        for _ in 0..words {
            text.push_str(&word(&mut rng));
            text.push(rng.pick(&[' ', '\n', 'é']));
        }
        // Some files are so large that they are indexed in parts.
        let times = if n % 200 == 0 { 12 } else { 1 };
        let text = format!("{text}\n").repeat(times);
        tree.file(&format!("{}{n}", rng.pick(&dirs)), text);
    }
    tree
}

/// With little memory, a segment has several groups. With storage in memory, it must fit there as a
/// whole.
fn setup(tree: &Tree, storage: IndexStorage, memory: u64) -> Setup {
    let variant = Variant { storage, ..LIVE };
    let setup = tree
        .setup()
        .config(|config| config.index_max_memory_bytes = memory);
    setup.with_indexes(variant)
}

/// Builds with the given number of threads.
fn built(setup: &Setup, threads: usize) -> Arc<Snapshot> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    pool.install(|| setup.build(&Host::hasty()).1)
}

/// Takes every entry of a directory and its subdirectories out and puts it back in another order.
fn shuffle(dir: &Path, aside: &Path, rng: &mut Seeded) {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    for path in &paths {
        if path.is_dir() {
            shuffle(path, &aside.join("below"), rng);
        }
    }
    fs::create_dir_all(aside).unwrap();
    for path in &paths {
        fs::rename(path, aside.join(path.file_name().unwrap())).unwrap();
    }
    while !paths.is_empty() {
        let path = paths.swap_remove(rng.below(paths.len()));
        fs::rename(aside.join(path.file_name().unwrap()), path).unwrap();
    }
}

/// Returns the bytes of all sections without stamps, and the records of the other sections with
/// their stamps cleared, except for lengths.
fn without_stamps(snapshot: &Snapshot) -> (Vec<Vec<u8>>, Vec<String>) {
    let segment = snapshot.segment();
    let storage = segment.storage().clone();
    let container = Container::open(storage, FileKind::Segment, SEGMENT_VERSION).unwrap();
    let sections = [
        id::ROWS,
        id::BLOCKS,
        id::GROUPS,
        id::DIRECT,
        id::SLOTS,
        id::SIDE,
        id::NAMES,
        id::ALWAYS,
        id::META,
        id::PARTS,
        id::WORD_FILES,
    ];
    let sections = sections.map(|id| container.section(id).unwrap().all().unwrap().to_vec());
    let mut records = Vec::new();
    for number in 0..segment.dir_count() {
        let mut dir = segment.dir(number).unwrap();
        dir.stamp = StampRecord::default();
        records.push(format!("{dir:?}"));
    }
    for rank in 0..segment.file_count() {
        let mut file = segment.file(rank).unwrap();
        file.stamp = StampRecord {
            len: file.stamp.len,
            ..StampRecord::default()
        };
        records.push(format!("{file:?}"));
    }
    (sections.to_vec(), records)
}

#[test]
fn one_tree_gives_one_segment() {
    let tree = planted();
    let kept = setup(&tree, IndexStorage::Mmap, 1 << 20);
    let first = built(&kept, 1);
    assert!(first.segment().storage().is_mapped());
    let meta = first.segment().meta();
    assert!(
        meta.groups > 2 && meta.blocks > 5 && meta.side > 0,
        "{meta:?}"
    );
    first.segment().verify().unwrap();
    let bytes = first.segment().storage().as_bytes();
    let others = if is_long() { &[2, 8][..] } else { &[8] };
    for &threads in others {
        let other = built(&kept, threads);
        assert!(
            other.segment().storage().as_bytes() == bytes,
            "{threads} threads"
        );
    }
    // A published segment has the same bytes as one that is built in memory.
    let all_of = |storage| built(&setup(&tree, storage, 64 << 20), 3);
    let (memory, mapped) = (all_of(IndexStorage::Memory), all_of(IndexStorage::Mmap));
    let bytes_of = |snapshot: &Snapshot| snapshot.segment().storage().as_bytes().to_vec();
    assert!(bytes_of(&memory) == bytes_of(&mapped));
    // With the same files in another order, only the times of the last changes differ.
    let listed = |dir: &str| -> Vec<_> {
        let entries = fs::read_dir(tree.path(dir)).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    let before = listed("a");
    let aside = tree.path("../aside");
    shuffle(tree.root(), &aside, &mut Seeded::new(8));
    let after = listed("a");
    // Other filesystems may list entries in their own order, by hashes of names.
    if tree.root().starts_with(MEMORY) {
        assert_ne!(before, after);
    }
    let other = built(&kept, 2);
    let (expected, found) = (without_stamps(&first), without_stamps(&other));
    assert!(found.0 == expected.0, "a section differs");
    assert_eq!(found.1, expected.1);
}
