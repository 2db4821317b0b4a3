//! Limits on stored indexes: indexes are evicted in favour of others while searches go on.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use forge_search::internal::format::lock::LockFile;
use forge_search::internal::index::builder::BuildError;
use forge_search::internal::index::store::Eviction;
use forge_search::internal::tool::config::IndexStorage;

use super::*;
use crate::index_support::locked;
use crate::support::{GUARD, SetAtEnd};

/// The storages on disk.
const STORAGES: &[IndexStorage] = &[
    IndexStorage::Mmap,
    #[cfg(feature = "sqlite")]
    IndexStorage::Sqlite,
];

/// Returns trees with indexes in one store, which has the limits that `change` sets.
fn worlds<const N: usize>(storage: IndexStorage, change: fn(&mut SearchConfig)) -> [World; N] {
    let first = World::new();
    let cache = first.cache.clone();
    let mut others = Some(first);
    std::array::from_fn(|_| {
        let mut world = others.take().unwrap_or_else(World::new);
        world.cache.clone_from(&cache);
        let cache = cache.clone();
        world.config(|config| {
            config.index_path = Some(cache);
            config.index_storage = storage;
            change(config);
        })
    })
}

/// Returns the directory of a tree's index.
fn dir(opened: &Opened) -> PathBuf {
    opened.indexes().dirs().next().unwrap()
}

fn build(world: &World) -> (Opened, Eviction) {
    let opened = world.open();
    let mut built = opened.build();
    (opened, built.remove(0).eviction)
}

fn set_accessed(dir: &Path, seconds: u64) {
    let file = File::options().write(true).open(dir.join("accessed"));
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    file.unwrap().set_modified(time).unwrap();
}

fn accessed(dir: &Path) -> SystemTime {
    fs::metadata(dir.join("accessed"))
        .unwrap()
        .modified()
        .unwrap()
}

/// Returns true if a time is within this test.
fn is_recent(time: SystemTime) -> bool {
    SystemTime::now().duration_since(time).unwrap_or_default() < Duration::from_secs(600)
}

#[test]
fn each_index_replaces_the_other_at_a_limit_of_one() {
    for storage in STORAGES {
        let [a, b] = worlds(*storage, |config| config.index_max_indexes = 1);
        let (one, nothing) = build(&a);
        assert_eq!(nothing, Eviction::default());
        a.check_used(&one, &needle());
        for _ in 0..2 {
            let (other, eviction) = build(&b);
            assert!(
                eviction.spared.is_empty() && !eviction.over_limits,
                "{eviction:?}"
            );
            let [evicted] = &eviction.evicted[..] else {
                panic!("{eviction:?}");
            };
            assert_eq!(
                (&evicted.dir, evicted.root.as_deref()),
                (&dir(&one), Some(a.tree.root()))
            );
            assert!(evicted.bytes > 0 && evicted.accessed_ms.is_some());
            assert!(!dir(&one).exists());
            b.check_used(&other, &needle());
            // A process that has the index open notices that it was evicted.
            let stats = a.check_unused(&one, &needle());
            assert_eq!(stats.index_safety_state, "ABSENT");
            let (_, eviction) = build(&a);
            assert_eq!(eviction.evicted[0].dir, dir(&other));
            a.check_used(&one, &needle());
            b.check_unused(&other, &needle());
        }
        assert_eq!(a.kept().len(), 1);
    }
}

#[test]
fn the_least_recently_used_index_is_evicted() {
    for storage in STORAGES {
        let [a, b, c] = worlds(*storage, |config| config.index_max_indexes = 2);
        let (one, other) = (a.built(), b.built());
        set_accessed(&dir(&one), 1_000);
        set_accessed(&dir(&other), 2_000);
        // Opening an index counts as a use of it.
        a.check_used(&a.open(), &needle());
        assert!(is_recent(accessed(&dir(&one))));
        let (third, eviction) = build(&c);
        assert_eq!(eviction.evicted.len(), 1, "{eviction:?}");
        assert_eq!(eviction.evicted[0].dir, dir(&other));
        assert_eq!(eviction.evicted[0].accessed_ms, Some(2_000_000));
        assert!(dir(&one).exists() && dir(&third).exists());
    }
}

#[test]
fn the_use_of_an_index_is_recorded_on_opening_and_not_by_each_search() {
    for storage in STORAGES {
        let [world] = worlds(*storage, |_| {});
        let built = world.built();
        assert!(is_recent(accessed(&dir(&built))));
        world.check_used(&built, &needle());
        let opened = world.open();
        for _ in 0..3 {
            world.check_used(&opened, &needle());
            world.check_used(&built, &needle());
            set_accessed(&dir(&built), 5_000);
        }
        assert_eq!(
            accessed(&dir(&built)),
            UNIX_EPOCH + Duration::from_secs(5_000)
        );
        let before = listing(&dir(&built));
        world.check_used(&world.open(), &needle());
        assert!(is_recent(accessed(&dir(&built))));
        // Opening writes no other file.
        let after = listing(&dir(&built));
        let stays = |(path, _): &(&PathBuf, &(u64, SystemTime))| {
            let name = path.file_name().unwrap().to_string_lossy();
            name == "manifest" || name.starts_with("segment") || name == "index.sqlite"
        };
        let kept: Vec<_> = before.iter().filter(stays).collect();
        assert_eq!(kept, after.iter().filter(stays).collect::<Vec<_>>());
        let listed = built.indexes().store().unwrap().list().unwrap();
        let ms = accessed(&dir(&built))
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis();
        assert_eq!(listed[0].accessed_ms, Some(ms as i64));
    }
}

#[test]
fn an_index_that_can_not_note_its_use_is_used_all_the_same() {
    for storage in STORAGES {
        let [world] = worlds(*storage, |_| {});
        let built = world.built();
        let accessed = dir(&built).join("accessed");
        fs::remove_file(&accessed).unwrap();
        world.check_used(&world.open(), &needle());
        assert!(!accessed.exists());
        let listed = built.indexes().store().unwrap().list().unwrap();
        let updated = listed[0].manifest.as_ref().unwrap().state.updated_ms;
        assert_eq!(listed[0].accessed_ms, Some(updated));
        // The next build records the access time again. Clearing the index removes it.
        world.built();
        assert!(accessed.exists());
        let store = built.indexes().store().unwrap();
        store.remove(&dir(&built), &mut |_| {}).unwrap();
        assert!(!dir(&built).exists());
    }
}

#[test]
fn an_index_that_is_too_large_by_itself_is_refused_and_the_previous_one_stays() {
    for storage in STORAGES {
        let [before] = worlds(*storage, |_| {});
        let built = before.built();
        let kept = listing(&dir(&built));
        let size = built.indexes().store().unwrap().list().unwrap()[0].bytes;
        // The limits range from less than the rows take to one byte too few.
        for limit in [1, size / 2, size - 1] {
            let setup = before.setup.clone();
            let setup = setup.config(|config| config.index_max_db_bytes = limit);
            let (tool, context) = setup.indexing_tool();
            let opened = Opened { tool, context };
            let host = Foreground::new(CancelHandle::new());
            let root = before.tree.root();
            let refused = opened
                .indexes()
                .build(root, opened.context.sandbox.reach(), &host);
            let error = refused.map(|(built, _)| built).unwrap_err();
            assert!(
                matches!(error, BuildError::OverLimit { limit: said, .. } if said == limit),
                "{error}"
            );
            let said = error.to_string();
            assert!(
                said.contains(&limit.to_string()) && said.contains("index_max_db_bytes"),
                "{said}"
            );
            let same = |listing: &BTreeMap<PathBuf, (u64, SystemTime)>| -> Vec<(PathBuf, (u64, SystemTime))> {
                let of_index = listing.iter().filter(|(path, _)| {
                    let name = path.file_name().unwrap().to_string_lossy();
                    !name.ends_with(".lock") && name != "accessed" && !name.ends_with("-shm") && !name.ends_with("-wal")
                });
                of_index.map(|(path, meta)| (path.clone(), *meta)).collect()
            };
            assert_eq!(
                same(&listing(&dir(&built))),
                same(&kept),
                "{storage:?} {limit}"
            );
            before.check_used(&before.open(), &needle());
        }
        let exactly = before.config(|config| config.index_max_db_bytes = size);
        let (opened, eviction) = build(&exactly);
        assert_eq!(eviction, Eviction::default());
        exactly.check_used(&opened, &needle());
    }
}

#[test]
fn the_byte_limit_counts_all_indexes() {
    for storage in STORAGES {
        let [a, b] = worlds(*storage, |_| {});
        let one = a.built();
        let size = one.indexes().store().unwrap().list().unwrap()[0].bytes;
        let b = b.config(|config| config.index_max_db_bytes = 2 * size - 1);
        let (other, eviction) = build(&b);
        assert_eq!(eviction.evicted.len(), 1, "{eviction:?}");
        assert_eq!(eviction.evicted[0].bytes, size);
        assert!(!dir(&one).exists() && dir(&other).exists());
    }
}

#[test]
fn a_locked_index_is_not_evicted_and_the_new_build_is_told() {
    for storage in STORAGES {
        let [a, b] = worlds(*storage, |config| config.index_max_indexes = 1);
        let one = a.built();
        for which in [LockFile::Writers, LockFile::Readers] {
            let lock = locked(&dir(&one), which);
            let (other, eviction) = build(&b);
            assert!(
                eviction.evicted.is_empty() && eviction.over_limits,
                "{eviction:?}"
            );
            assert_eq!(eviction.spared[0].dir, dir(&one));
            assert_eq!(eviction.spared[0].root.as_deref(), Some(a.tree.root()));
            assert_eq!(eviction.spared[0].problem, None);
            drop(lock);
            a.check_used(&one, &needle());
            b.check_used(&other, &needle());
        }
    }
}

/// While an index is built and evicted in turn, readers search with their own index objects, like
/// other processes.
#[test]
fn answers_stay_right_while_the_index_is_evicted_under_readers() {
    const READERS: usize = 4;
    const ROUNDS: usize = 25;
    for storage in STORAGES {
        let [a, b] = worlds(*storage, |config| config.index_max_indexes = 1);
        let (reader, other) = (a.built(), b.open());
        let expected = a.plain(&needle()).to_json();
        let done = AtomicBool::new(false);
        let (used, unused) = (AtomicU64::new(0), AtomicU64::new(0));
        let evicted = std::thread::scope(|scope| {
            let _at_end = SetAtEnd(&done);
            for n in 0..READERS {
                let (a, expected, done) = (&a, &expected, &done);
                let (used, unused) = (&used, &unused);
                scope.spawn(move || {
                    let mut opened = a.open();
                    let mut searches = 0;
                    while !done.load(Ordering::SeqCst) {
                        let mut response = opened.search(&needle());
                        let stats = response.stats.take().unwrap();
                        assert_eq!(response.to_json(), *expected);
                        let state = stats.index_safety_state;
                        // The index may be complete or absent, but never damaged.
                        assert!(state == "COMPLETE" || state == "ABSENT", "{state}");
                        match stats.index_exclusion_used {
                            true => used.fetch_add(1, Ordering::SeqCst),
                            false => unused.fetch_add(1, Ordering::SeqCst),
                        };
                        searches += 1;
                        if searches % (n + 2) == 0 {
                            opened = a.open();
                        }
                    }
                });
            }
            let (mut evicted, mut round) = (0, 0);
            let start = Instant::now();
            // A reader that is preempted while it holds its lock prevents the eviction.
            let is_enough = |evicted: usize| {
                let seen = [&used, &unused].map(|count| count.load(Ordering::SeqCst));
                evicted > ROUNDS / 4 && seen.into_iter().all(|count| count > 0)
            };
            while round < ROUNDS || !is_enough(evicted) {
                assert!(
                    start.elapsed() < GUARD,
                    "{evicted} evictions in {round} rounds"
                );
                round += 1;
                let (builds, gone) = match round % 2 {
                    1 => (&other, &reader),
                    _ => (&reader, &other),
                };
                let eviction = builds.build().remove(0).eviction;
                // A reader that is opening the index prevents its removal.
                assert!(
                    eviction.spared.iter().all(|one| one.problem.is_none()),
                    "{eviction:?}"
                );
                evicted += eviction.evicted.len();
                assert!(eviction.evicted.iter().all(|one| one.dir == dir(gone)));
                std::thread::sleep(Duration::from_millis(5));
            }
            evicted
        });
        let (used, unused) = (used.load(Ordering::SeqCst), unused.load(Ordering::SeqCst));
        println!(
            "{storage:?}: {evicted} evictions, {used} searches with and {unused} without the index"
        );
    }
}
