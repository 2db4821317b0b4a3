//! The same life, however the index is kept: in memory, in mapped files, in SQLite.
//!
//! Most tests of this directory are about none of them. They are run in child processes, once with each way of keeping an index;
//! those that are about one of them, or about what is on a disk, say so by [`How`].

use std::collections::BTreeSet;
use std::process::Command;

use forge_search::tool::config::IndexStorage;

use super::MAPPED;
use crate::index_support::{VARIANTS, Variant};

/// Says in the environment how indexes are to be kept. Without it, each test does it in its own way.
const STORAGE: &str = "FORGE_SEARCH_TEST_STORAGE";

/// The ways of keeping an index that this build knows.
fn storages() -> Vec<IndexStorage> {
    let live = VARIANTS.iter().filter(|variant| !variant.frozen);
    live.map(|variant| variant.storage).collect()
}

/// How an index is kept, and what of that a test is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// So, or in any other way.
    Anyhow(Variant),
    /// In files or in a database, so that it outlives the process.
    OnDisk,
    /// So, and in no other way.
    Exactly(Variant),
}

impl From<Variant> for How {
    fn from(variant: Variant) -> How {
        How::Anyhow(variant)
    }
}

impl How {
    /// How it is kept in this process, which may have been asked to keep all of them in one way.
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

/// How indexes are to be kept that may be kept anyhow, if something is said about it.
fn asked() -> Option<IndexStorage> {
    let asked = std::env::var(STORAGE).ok()?;
    let storage = IndexStorage::from_word(&asked).filter(|storage| storages().contains(storage));
    Some(storage.unwrap_or_else(|| panic!("{STORAGE}={asked}: not in this build")))
}

/// Serves `FR-LSI-IDX-STOR-01`: what is shown of the life of an index does not depend on where it is.
#[test]
fn fr_lsi_idx_stor_01_an_index_lives_alike_in_memory_in_files_and_in_sqlite() {
    let own = "live::storages::";
    let mut ran: Vec<BTreeSet<String>> = Vec::new();
    for storage in storages() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["live::", "--skip", own])
            .env(STORAGE, storage.as_str())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "with indexes kept in {}:\n{said}",
            storage.as_str()
        );
        let passed = said.lines().filter_map(|line| {
            let name = line.strip_prefix("test ")?.strip_suffix(" ... ok")?;
            Some(name.to_string())
        });
        let passed: BTreeSet<String> = passed.collect();
        println!(
            "{}: {} tests of a living index",
            storage.as_str(),
            passed.len()
        );
        ran.push(passed);
    }
    assert_eq!(ran.len(), if cfg!(feature = "sqlite") { 3 } else { 2 });
    assert!(ran[0].len() > 70, "{:?}", ran[0]);
    assert!(ran.iter().all(|passed| *passed == ran[0]));
}
