//! Denied patterns that change while there are indexes: no index contains a file that is denied now
//! (SEC-LSI-02).

use std::fs;
use std::path::{Path, PathBuf};

use forge_search::internal::exec::stop::CancelHandle;
use forge_search::internal::format::lock::LockFile;
use forge_search::internal::index::builder::BuiltSegment;
use forge_search::internal::tool::config::IndexStorage;
use forge_search::internal::tool::indexing::Foreground;
use serde_json::{Value, json};

use super::{Opened, World};
use crate::index_support::{VARIANTS, locked};
use crate::index_unfinished::Ending;
use crate::support::Tree;

/// A name that only one file has. Some patterns deny it.
const DENIED: &str = "tell-nobody.secret";

fn tree() -> Tree {
    Tree::of([
        ("src/open.txt", "a needle\n"),
        ("src/other.txt", "straw\n"),
        (&format!("src/{DENIED}"), "a needle\n"),
    ])
}

/// Returns a world for each storage on disk.
fn worlds() -> impl Iterator<Item = World> {
    let storages = VARIANTS.iter().map(|variant| variant.storage);
    let mut storages: Vec<IndexStorage> = storages
        .filter(|storage| *storage != IndexStorage::Memory)
        .collect();
    storages.dedup();
    storages
        .into_iter()
        .map(|storage| World::over(tree()).config(|config| config.index_storage = storage))
}

impl World {
    /// Returns a process with these denied patterns in addition to the defaults.
    fn under(&self, patterns: &[&str]) -> Opened {
        let mut setup = self.setup.clone();
        setup.sandbox.denied_patterns = patterns.iter().map(|one| (*one).to_string()).collect();
        let (tool, context) = setup.indexing_tool();
        Opened { tool, context }
    }

    /// Returns the directories of indexes in the cache.
    fn indexes(&self) -> Vec<PathBuf> {
        let names = self.kept().into_iter();
        let names = names.filter(|name| name.len() == 32);
        names.map(|name| self.cache.join(name)).collect()
    }
}

fn request() -> Value {
    json!({"pattern": "needle", "no_ignore": false})
}

fn build(opened: &Opened) -> BuiltSegment {
    opened.build().remove(0)
}

/// Returns true if any file below a directory contains a text.
fn holds(dir: &Path, text: &str) -> bool {
    fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = fs::read(path).unwrap();
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

fn state(opened: &Opened) -> (String, Option<String>) {
    let stats = opened.search(&request()).stats.unwrap();
    (stats.index_safety_state, stats.index_uncertain_reason)
}

fn policy_changed() -> (String, Option<String>) {
    let reason = Some("POLICY_CHANGED".to_string());
    ("UNCERTAIN".to_string(), reason)
}

#[test]
fn an_index_that_was_built_under_fewer_patterns_is_removed_by_the_next_build() {
    for world in worlds() {
        let lax = world.under(&["**/*.old"]);
        let built = build(&lax);
        assert_eq!(built.meta.files, 3);
        assert!(holds(&world.cache, DENIED));
        let strict = world.under(&["**/*.old", "**/*.secret"]);
        // Searches do not use the old index, and report why there is no usable one.
        assert_eq!(state(&strict), policy_changed());
        assert_eq!(strict.search(&request()).count, 1);
        let why = strict.condition(world.tree.root()).why().unwrap();
        assert!(why.contains("denied now"), "{why}");
        let eviction = build(&strict).eviction;
        assert_eq!(eviction.purged.len(), 1);
        let purged = eviction.purged[0].root.as_deref();
        assert_eq!(purged, Some(world.tree.root()));
        assert!(eviction.evicted.is_empty() && eviction.unpurged.is_empty());
        assert!(!holds(&world.cache, DENIED));
        assert_eq!(world.indexes().len(), 1);
        assert_eq!(state(&strict), ("COMPLETE".to_string(), None));
        // A process that has the old index open may use it or not. Its answers are right.
        let found = lax.search(&request());
        assert_eq!(found.count, 2);
    }
}

#[test]
fn denied_patterns_that_change_back_and_forth_leave_no_index_behind() {
    for world in worlds() {
        let strict = ["**/*.secret"];
        build(&world.under(&strict));
        // With fewer patterns, the other index has no forbidden entry, so it stays.
        let lax = world.under(&[]);
        assert_eq!(state(&lax), policy_changed());
        assert!(build(&lax).eviction.purged.is_empty());
        assert_eq!(world.indexes().len(), 2);
        // With the patterns back, the first index is still usable. The other one is removed without
        // a build.
        let again = world.under(&strict);
        assert_eq!(state(&again), ("COMPLETE".to_string(), None));
        assert!(holds(&world.cache, DENIED));
        assert_eq!(again.ensure(), [false]);
        assert!(!holds(&world.cache, DENIED));
        assert_eq!(world.indexes().len(), 1);
        // These are other patterns, but as many.
        let other = world.under(&["**/*.txt"]);
        assert_eq!(state(&other), policy_changed());
        assert_eq!(other.ensure(), [true]);
        assert_eq!(world.indexes().len(), 1);
        assert!(holds(&world.cache, DENIED) && !holds(&world.cache, "open.txt"));
    }
}

#[test]
fn an_outdated_index_in_use_is_removed_the_next_time() {
    for world in worlds() {
        build(&world.under(&[]));
        let dir = world.indexes().remove(0);
        let strict = world.under(&["**/*.secret"]);
        for which in [LockFile::Readers, LockFile::Writers] {
            let lock = locked(&dir, which);
            let eviction = build(&strict).eviction;
            assert!(eviction.purged.is_empty());
            assert_eq!(eviction.unpurged.len(), 1, "{which:?}");
            assert_eq!(
                (&eviction.unpurged[0].dir, &eviction.unpurged[0].problem),
                (&dir, &None)
            );
            drop(lock);
            assert!(holds(&dir, DENIED));
        }
        assert_eq!(build(&strict).eviction.purged.len(), 1);
        assert!(!dir.exists() && !holds(&world.cache, DENIED));
    }
}

/// The index of another tree is not touched.
#[test]
fn indexes_of_other_trees_stay() {
    for world in worlds() {
        let other = World {
            tree: tree(),
            setup: world.setup.clone(),
            cache: world.cache.clone(),
        };
        let mut elsewhere = other.setup.clone();
        elsewhere.working_dir = other.tree.root().to_path_buf();
        let (tool, context) = elsewhere.indexing_tool();
        build(&Opened { tool, context });
        build(&world.under(&["**/*.secret"]));
        assert_eq!(world.indexes().len(), 2);
        assert!(holds(&world.cache, DENIED));
    }
}

/// A stopped build has stored names, too.
#[test]
fn remains_of_an_unfinished_build_under_fewer_patterns_are_removed() {
    let world = World::over(tree());
    for n in 0..3_000 {
        world
            .tree
            .file(&format!("many/{n}.txt"), format!("straw {n}\n"));
    }
    let lax = world.under(&[]);
    let host = Ending::after(1);
    let sandbox = &lax.context.sandbox;
    let stopped = lax
        .indexes()
        .build(world.tree.root(), sandbox.reach(), &host);
    assert!(stopped.is_err());
    let dir = world.indexes().remove(0);
    assert!(dir.join("unfinished").exists() && holds(&dir, DENIED));
    let strict = world.under(&["**/*.secret"]);
    assert_eq!(state(&strict), policy_changed());
    let host = Foreground::new(CancelHandle::new());
    let sandbox = &strict.context.sandbox;
    let built = strict
        .indexes()
        .build(world.tree.root(), sandbox.reach(), &host);
    assert_eq!(built.unwrap().0.eviction.purged.len(), 1);
    assert!(!holds(&world.cache, DENIED));
}
