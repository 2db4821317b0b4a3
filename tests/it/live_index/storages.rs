//! A live index behaves the same in memory, in mapped files and in SQLite.
//!
//! One test here takes an index of each storage through a whole life. The other tests of this
//! directory use the storage that they name, or the one in `FORGE_SEARCH_TEST_STORAGE`. `.ci/prove`
//! runs all of them with each storage.

use std::collections::BTreeSet;
use std::fs;

use forge_search::internal::index::watch::FsEvent;
use forge_search::internal::tool::config::IndexStorage;

use super::{LIVE, MAPPED, World, set};
use crate::index_support::{VARIANTS, Variant};

/// The environment variable that names the storage of all tests that accept any storage.
const STORAGE: &str = "FORGE_SEARCH_TEST_STORAGE";

/// Returns the storages of this build.
fn storages() -> Vec<IndexStorage> {
    let live = VARIANTS.iter().filter(|variant| !variant.frozen);
    live.map(|variant| variant.storage).collect()
}

/// The storage of an index, and how much of it a test depends on.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// This storage, or any other.
    Anyhow(Variant),
    /// Any storage on disk, so that the index outlives the process.
    OnDisk,
    /// This storage only.
    Exactly(Variant),
}

impl From<Variant> for How {
    fn from(variant: Variant) -> How {
        How::Anyhow(variant)
    }
}

impl How {
    /// Returns the storage for this run. `FORGE_SEARCH_TEST_STORAGE` may replace it.
    pub(super) fn variant(self) -> Variant {
        let asked = asked();
        match self {
            How::Exactly(variant) => variant,
            How::Anyhow(variant) => Variant {
                storage: asked.unwrap_or(variant.storage),
                ..variant
            },
            How::OnDisk => Variant {
                storage: asked
                    .filter(|asked| *asked != IndexStorage::Memory)
                    .unwrap_or(MAPPED.storage),
                ..MAPPED
            },
        }
    }
}

/// Returns the storage in `FORGE_SEARCH_TEST_STORAGE`, if it is set.
fn asked() -> Option<IndexStorage> {
    let asked = std::env::var(STORAGE).ok()?;
    let storage = IndexStorage::from_name(&asked).filter(|storage| storages().contains(storage));
    Some(storage.unwrap_or_else(|| panic!("{STORAGE}={asked}: not in this build")))
}

/// Takes an index of one storage through a whole life. Returns the answers of each stage.
fn life(storage: IndexStorage) -> Vec<BTreeSet<String>> {
    let variant = Variant { storage, ..LIVE };
    let world = World::complete(How::Exactly(variant), |_| {});
    let mut stages = vec![world.check_used("needle")];

    // A file changes in place, another one is new, a third one is removed.
    world.write("a/two.txt", "a needle, too\n");
    world.hear_file("a/two.txt");
    world.write("c/new.txt", "a new needle\n");
    world.hear_subtree("c");
    fs::remove_file(world.tree.path("a/one.txt")).unwrap();
    world.hear_subtree("a/one.txt");
    stages.push(world.check_used("needle"));
    world.until_read();
    stages.push(world.check_used("needle"));

    // A directory is renamed.
    fs::rename(world.tree.path("a/b"), world.tree.path("d")).unwrap();
    world.hear_subtree("a/b");
    world.hear_subtree("d");
    world.until_read();
    stages.push(world.check_used("needle"));

    // The watcher loses events: every file is searched until the tree was compared.
    world.write("nine.txt", "a needle that nobody heard of\n");
    world.handle(FsEvent::Overflow);
    world.until_complete();
    world.until_used("needle");
    stages.push(world.check_used("needle"));

    // An ignore file hides a directory, and shows it again.
    world.write(".ignore", "d/\n");
    world.hear_file(".ignore");
    world.until_used("needle");
    stages.push(world.check_used("needle"));
    fs::remove_file(world.tree.path(".ignore")).unwrap();
    world.hear_subtree(".ignore");
    world.until_used("needle");
    stages.push(world.check_used("needle"));
    stages
}

/// Serves `FR-LSI-IDX-STOR-01`: the storage makes no visible difference in any stage of an index's
/// life.
#[test]
fn a_live_index_behaves_alike_in_memory_in_files_and_in_sqlite() {
    let storages = storages();
    assert_eq!(storages.len(), if cfg!(feature = "sqlite") { 3 } else { 2 });
    for storage in storages {
        let stages = life(storage);
        let (one, two, three, six) = ("a/one.txt", "a/two.txt", "a/b/three.rs", "a/b/c/six.rs");
        let edited = set([two, three, six, "c/new.txt"]);
        let moved = set([two, "c/new.txt", "d/c/six.rs", "d/three.rs"]);
        let found = set([two, "c/new.txt", "d/c/six.rs", "d/three.rs", "nine.txt"]);
        let hidden = set([two, "c/new.txt", "nine.txt"]);
        let expected = [
            set([one, three, six]),
            edited.clone(),
            edited,
            moved,
            found.clone(),
            hidden,
            found,
        ];
        assert_eq!(stages, expected, "{storage:?}");
    }
}
