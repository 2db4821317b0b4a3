//! Trees that can't be listed completely for a moment: files that were hidden then are found later
//! (FR-LSI-SAFE-COMPLETE-01).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forge_search::internal::exec::stop::CancelHandle;
use forge_search::internal::index::builder::{BuildHost, Progress};
use forge_search::internal::tool::config::IndexStorage;
use forge_search::internal::tool::indexing::{Condition, Foreground};

use super::{Opened, World, needle};
use crate::index_support::VARIANTS;

/// A host that calls a function before a directory is listed.
struct Meddling<F> {
    host: Foreground<'static>,
    act: F,
}

impl<F: Fn(&Path) + Sync> Meddling<F> {
    fn new(act: F) -> Meddling<F> {
        let host = Foreground::new(CancelHandle::new());
        Meddling { host, act }
    }
}

impl<F: Fn(&Path) + Sync> BuildHost for Meddling<F> {
    fn now_ns(&self) -> i64 {
        self.host.now_ns()
    }

    fn pause(&self, time: Duration) {
        self.host.pause(time);
    }

    fn progress(&self, _: Progress) {}

    fn entering(&self, dir: &Path) {
        (self.act)(dir);
    }

    fn stopped(&self) -> bool {
        false
    }
}

/// Builds the only index. Returns the number of its errors.
fn build_with(opened: &Opened, root: &Path, host: &dyn BuildHost) -> usize {
    let sandbox = &opened.context.sandbox;
    let (built, _) = opened.indexes().build(root, sandbox.reach(), host).unwrap();
    built.errors.len()
}

fn is_unlisted(condition: &Condition) -> bool {
    condition.index_state().reason() == Some("ENUMERATION_ERROR")
}

/// Returns a world for each storage.
fn worlds() -> impl Iterator<Item = World> {
    let mut storages: Vec<IndexStorage> = VARIANTS.iter().map(|one| one.storage).collect();
    storages.dedup();
    storages
        .into_iter()
        .map(|storage| World::new().config(|config| config.index_storage = storage))
}

#[test]
fn a_directory_that_vanishes_while_the_tree_is_listed_is_no_error_of_the_index() {
    for world in worlds() {
        for n in 0..3 {
            world
                .tree
                .file(&format!("gone/{n}/needle.txt"), "a needle\n");
        }
        let root = world.tree.root().to_path_buf();
        let host = Meddling::new(|dir: &Path| {
            if dir.parent() == Some(Path::new("gone")) {
                fs::remove_dir_all(root.join(dir)).unwrap();
            }
        });
        let opened = world.open();
        assert_eq!(build_with(&opened, &root, &host), 0);
        let condition = opened.condition(&root);
        assert!(condition.is_usable(), "{condition:?}");
        world.check_used(&opened, &needle());
    }
}

/// If a tree changes faster than it can be listed, its index has errors. The next use builds it
/// again.
#[test]
fn where_directories_vanish_all_the_time_the_next_use_builds_the_index_again() {
    for world in worlds() {
        let root = world.tree.root().to_path_buf();
        let place = |n: usize| root.join(format!("gone{n}"));
        fs::create_dir(place(0)).unwrap();
        let rounds = AtomicUsize::new(0);
        let host = Meddling::new(|dir: &Path| {
            let n = rounds.load(Ordering::SeqCst);
            if root.join(dir) == place(n) {
                fs::create_dir(place(n + 1)).unwrap();
                fs::remove_dir(place(n)).unwrap();
                rounds.store(n + 1, Ordering::SeqCst);
            }
        });
        let opened = world.open();
        assert_eq!(build_with(&opened, &root, &host), 1);
        assert_eq!(
            rounds.load(Ordering::SeqCst),
            3,
            "it is not listed for ever"
        );
        let condition = opened.condition(&root);
        assert!(is_unlisted(&condition), "{condition:?}");
        let stats = world.check_unused(&opened, &needle());
        let reason = stats.index_uncertain_reason.as_deref();
        assert_eq!(reason, Some("ENUMERATION_ERROR"));
        // This is the way of `--index on` and `call --wait-index`.
        assert_eq!(opened.ensure(), [true]);
        world.check_used(&opened, &needle());
        assert_eq!(opened.ensure(), [false]);
    }
}

/// A directory with a path that is too long for the system can't be listed, by any user.
#[test]
fn what_can_not_be_listed_is_looked_at_again_by_each_use_and_built_once_it_can_be() {
    for world in worlds() {
        let long: PathBuf = std::iter::repeat_n("l".repeat(250), 10).collect();
        let aside = world.tree.root().parent().unwrap().join("aside");
        let (outer, inner) = (world.tree.root().join(&long), aside.join(&long));
        fs::create_dir_all(&outer).unwrap();
        fs::create_dir_all(&inner).unwrap();
        fs::rename(&aside, outer.join("x")).unwrap();
        let opened = world.open();
        opened.build();
        assert!(is_unlisted(&opened.condition(world.tree.root())));
        // A build would have the same error, so there is none.
        assert_eq!(opened.ensure(), [false]);
        world.check_unused(&opened, &needle());
        fs::rename(outer.join("x"), &aside).unwrap();
        assert!(is_unlisted(&opened.condition(world.tree.root())));
        assert_eq!(opened.ensure(), [true]);
        world.check_used(&opened, &needle());
    }
}
