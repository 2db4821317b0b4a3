//! Index modes, and the rule that an index never changes an answer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forge_search::internal::exec::stop::CancelHandle;
use forge_search::internal::format::lock::{DirLock, LockFile};
use forge_search::internal::format::segment::StampRecord;
use forge_search::internal::index::bloom::BloomParams;
use forge_search::internal::index::builder::{
    BuildError, BuildHost, BuildOptions, FileReader, Progress, assemble,
};
use forge_search::internal::index::casefold::Casefold;
use forge_search::internal::index::enumerate::{DirEntry, Enumeration, FileEntry};
use forge_search::internal::index::root_dir::RootDir;
use forge_search::internal::index::stamp::Stamp;
use forge_search::internal::index::state::{IndexState, SafetyState};
use forge_search::internal::index::walk::{Place, RuleSets};
use forge_search::internal::tool::config::IndexMode;
use forge_search::internal::tool::indexing::{Condition, Foreground, wall_clock_ns};
use serde_json::{Value, json};

use super::{World, listing, manifest, needle};
use crate::clocks::ends;
use crate::index_support::{deterministic, locked};
use crate::support::Tree;
use crate::system::symlink;

#[test]
fn the_index_has_three_modes() {
    let words: Vec<&str> = IndexMode::ALL.iter().map(|mode| mode.as_str()).collect();
    assert_eq!(words, ["off", "auto", "on"]);
    let world = World::new();
    world.built();
    for (mode, used) in [
        (IndexMode::Off, false),
        (IndexMode::Auto, true),
        (IndexMode::On, true),
    ] {
        let mut setup = world.setup.clone();
        setup.config.index_mode = mode;
        let (tool, context) = setup.indexing_tool();
        assert_eq!(tool.indexes().is_some(), used);
        let response = tool.call(needle(), &context).unwrap();
        assert_eq!(response.stats.unwrap().index_exclusion_used, used, "{mode}");
    }
}

#[test]
fn mode_off_disables_the_index() {
    let world = World::new();
    world.built();
    let world = world.config(|config| config.index_mode = IndexMode::Off);
    let (tool, context) = world.setup.indexing_tool();
    assert!(
        tool.indexes().is_none(),
        "there is nothing that could be built or watched"
    );
    let opened = super::Opened { tool, context };
    let stats = world.check_unused(&opened, &needle());
    assert_eq!(stats.index_safety_state, "DISABLED");
    assert_eq!(
        (stats.storage_mode.as_str(), stats.storage_fallback_reason),
        ("none", None)
    );
    assert_eq!(
        opened.explain(&needle()).reason.as_deref(),
        Some("indexing is off (index_mode)")
    );
}

#[test]
fn an_existing_index_that_is_switched_off_is_not_used() {
    let world = World::new();
    let opened = world.built();
    world.check_used(&opened, &needle());
    let world = world.config(|config| config.index_mode = IndexMode::Off);
    let stats = world.check_unused(&world.open(), &needle());
    assert_eq!(stats.candidates_excluded, 0);
    assert_eq!(stats.candidates_scanned, 8);
}

#[test]
fn mode_off_neither_reads_nor_writes_the_cache() {
    let world = World::new().config(|config| config.index_mode = IndexMode::Off);
    world.check_unused(&world.open(), &needle());
    assert!(!world.cache.exists());
    // With the mode `off`, an existing index is not looked at, even if it is damaged and its
    // directory is not private.
    let world = world.config(|config| config.index_mode = IndexMode::On);
    world.built();
    let dir = world.cache.join(&world.kept()[0]);
    fs::write(dir.join("manifest"), "damage").unwrap();
    fs::remove_file(dir.join(LockFile::Readers.name())).ok();
    let before = listing(&world.cache);
    let world = world.config(|config| config.index_mode = IndexMode::Off);
    let stats = world.check_unused(&world.open(), &needle());
    assert_eq!(stats.index_safety_state, "DISABLED");
    assert_eq!(listing(&world.cache), before);
}

/// Damages the only index of a world. Checks that searches answer as without an index, that the
/// condition is as `expected`, and that `ensure` repairs the index.
#[track_caller]
fn check_damage(harm: impl Fn(&Path), expected: impl Fn(&Condition) -> bool) {
    let world = World::new();
    // One process has the index open before the damage, the other opens it afterwards.
    let early = world.built();
    world.check_used(&early, &needle());
    harm(&world.cache.join(&world.kept()[0]));
    let late = world.open();
    let condition = late.condition(world.tree.root());
    assert!(expected(&condition), "{condition:?}");
    world.check_unused(&late, &needle());
    world.check(&early, &needle());
    assert_eq!(late.ensure(), [true]);
    world.check_used(&late, &needle());
    world.check_used(&early, &needle());
    assert_eq!(late.ensure(), [false]);
}

fn segment(dir: &Path) -> std::path::PathBuf {
    dir.join(&manifest(dir).segment.file.name)
}

/// Replaces the bytes of a file through a new file, so that a mapping of the old file stays intact.
/// No rule-abiding program does this.
fn replace(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::remove_file(file).unwrap();
    fs::write(file, bytes).unwrap();
}

fn is_damaged(condition: &Condition) -> bool {
    matches!(condition, Condition::Damaged(_)) && condition.index_state() == IndexState::Corrupt
}

#[test]
fn a_damaged_manifest_never_fails_a_call() {
    check_damage(
        |dir| replace(&dir.join("manifest"), |bytes| bytes.truncate(100)),
        is_damaged,
    );
    check_damage(|dir| replace(&dir.join("manifest"), Vec::clear), is_damaged);
    check_damage(
        |dir| {
            replace(&dir.join("manifest"), |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x40;
            });
        },
        is_damaged,
    );
    check_damage(
        |dir| replace(&dir.join("manifest"), |bytes| bytes.fill(b'x')),
        is_damaged,
    );
}

#[test]
fn a_damaged_segment_never_fails_a_call() {
    check_damage(
        |dir| replace(&segment(dir), |bytes| bytes.truncate(bytes.len() - 1)),
        is_damaged,
    );
    check_damage(|dir| replace(&segment(dir), Vec::clear), is_damaged);
    check_damage(
        |dir| replace(&segment(dir), |bytes| bytes[3] ^= 1),
        is_damaged,
    );
}

#[test]
fn damage_that_shows_only_in_use_never_fails_a_call() {
    let world = World::new();
    world.built();
    let dir = world.cache.join(&world.kept()[0]);
    // The damage is in the pages, which are read only when a search needs them. At any place, it
    // must not change an answer.
    let segment = segment(&dir);
    let whole = fs::read(&segment).unwrap();
    let mut found = 0;
    for at in (64..whole.len() - 64).step_by(997) {
        replace(&segment, |bytes| {
            bytes.clone_from(&whole);
            bytes[at] ^= 0x10;
        });
        let opened = world.open();
        for _ in 0..2 {
            let stats = world.check(&opened, &needle());
            found += u32::from(stats.index_safety_state == "CORRUPT");
        }
    }
    assert!(found > 4, "{found}");
    assert_eq!(world.open().ensure(), [true]);
}

#[test]
fn a_missing_or_unreadable_index_never_fails_a_call() {
    let absent = |condition: &Condition| *condition == Condition::Absent;
    let damaged = |condition: &Condition| matches!(condition, Condition::Damaged(_));
    check_damage(|dir| fs::remove_dir_all(dir).unwrap(), absent);
    check_damage(|dir| fs::remove_file(dir.join("manifest")).unwrap(), absent);
    check_damage(|dir| fs::remove_file(segment(dir)).unwrap(), damaged);
}

#[test]
fn a_search_of_a_single_file_reports_the_index_state() {
    let world = World::new();
    let request = json!({"pattern": "needle", "path": "a/one.txt"});
    let check = |opened: &super::Opened, state: &str, reason: Option<&str>, storage: &str| {
        // The result does not depend on whether an earlier search has opened and validated the
        // index.
        for _ in 0..2 {
            let stats = world.check_unused(opened, &request);
            assert_eq!(stats.index_safety_state, state);
            assert_eq!(stats.index_uncertain_reason.as_deref(), reason);
            assert_eq!(stats.storage_mode, storage);
            assert_eq!(stats.candidates_excluded, 0);
            assert_eq!((stats.candidates_total, stats.candidates_scanned), (1, 1));
            opened.search(&needle());
        }
        let explained = opened.explain(&request).reason.unwrap();
        assert!(explained.contains("the path is a file"), "{explained}");
    };
    check(&world.open(), "ABSENT", None, "mmap");
    let built = world.built();
    let unlooked = Some("OPEN_REQUIRES_VALIDATION");
    check(&built, "UNCERTAIN", unlooked, "mmap");
    check(&world.open(), "UNCERTAIN", unlooked, "mmap");
    assert_eq!(
        built.explain(&request).root.as_deref(),
        Some(world.tree.root())
    );
    let dir = world.cache.join(&world.kept()[0]);
    replace(&dir.join("manifest"), Vec::clear);
    check(&world.open(), "CORRUPT", None, "mmap");
    let mut elsewhere = world.setup.clone();
    elsewhere.config.index_roots = vec![PathBuf::from("b")];
    let (tool, context) = elsewhere.indexing_tool();
    check(&super::Opened { tool, context }, "ABSENT", None, "mmap");
    let mut nowhere = world.setup.clone();
    nowhere.config.index_path = None;
    let (tool, context) = nowhere.indexing_tool();
    let reason = Some("PERSISTENCE_NOT_PERMITTED");
    check(&super::Opened { tool, context }, "DISABLED", reason, "none");
}

#[test]
fn waiting_for_an_index_lock_ends_at_the_timeout() {
    let world = World::new().config(|config| config.index_lock_timeout_ms = 20);
    let opened = world.built();
    let dir = world.cache.join(&world.kept()[0]);
    let lock = locked(&dir, LockFile::Writers);
    // A second writer has to wait; readers go on.
    world.check_used(&opened, &needle());
    world.check_used(&world.open(), &needle());
    let (indexes, sandbox) = (opened.indexes().clone(), opened.context.sandbox.clone());
    let root = world.tree.root().to_path_buf();
    let refused = ends(move || {
        let host = Foreground::new(CancelHandle::new());
        indexes.build(&root, sandbox.reach(), &host).map(drop)
    });
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("locked by another process"), "{error}");
    drop(lock);
    opened.build();
}

#[test]
fn concurrent_builds_and_searches_do_no_harm() {
    let world = World::new().config(|config| config.index_lock_timeout_ms = 60_000);
    let early = world.built();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            // Each thread plays a process of its own.
            scope.spawn(|| world.built());
            scope.spawn(|| {
                for _ in 0..40 {
                    world.check(&world.open(), &needle());
                    world.check(&early, &needle());
                }
            });
        }
    });
    world.check_used(&early, &needle());
    let dir = world.cache.join(&world.kept()[0]);
    assert_eq!(manifest(&dir).state.sequence, 4);
    let store = early.indexes().store().unwrap();
    let snapshot = store.open_at(&dir, &mut std::thread::sleep).unwrap();
    snapshot.segment().verify().unwrap();
    let segments = listing(&dir).into_keys();
    let segments = segments.filter(|path| path.extension().is_some_and(|end| end == "seg"));
    assert_eq!(segments.count(), 1, "old ones are removed");
}

#[test]
fn stats_are_deterministic_except_for_times() {
    let world = World::new().config(|config| {
        config.fuzzy_fallback = true;
        config.fuzzy_fallback_levels = vec![1, 2];
    });
    world.built();
    world.tree.file("nine.txt", "changed since\n");
    let requests = [
        needle(),
        json!({"pattern": "needle", "max_results": 1}),
        json!({"pattern": "straw", "max_files": 4}),
        json!({"pattern": "ab"}),
        json!({"pattern": "neadle", "fixed_strings": true}),
        json!({"pattern": "needle", "hidden": true}),
        json!({"pattern": "needle", "path": "a/one.txt"}),
    ];
    let mut first: Vec<Value> = Vec::new();
    for threads in [1, 2, 8] {
        let world = World {
            setup: world.setup.clone().threads(threads),
            tree: Tree::new(),
            cache: world.cache.clone(),
        };
        let opened = world.open();
        for round in 0..3 {
            let seen = requests.iter().map(|request| {
                let stats = opened.search(request).stats.unwrap();
                deterministic(&stats)
            });
            let seen: Vec<Value> = seen.collect();
            match first.is_empty() {
                true => first = seen,
                false => assert_eq!(seen, first, "{threads} threads, round {round}"),
            }
        }
    }
    // The requests have different states, so the comparison is meaningful.
    let states = first.iter().map(|stats| &stats["index_safety_state"]);
    let states: BTreeSet<String> = states.map(Value::to_string).collect();
    assert!(states.len() > 1, "{first:?}");
    assert_eq!(first[4]["fuzzy_levels_tried"], json!([1]));
}

#[test]
fn a_build_that_is_stopped_leaves_the_old_index() {
    let world = World::new();
    let opened = world.built();
    let dir = world.cache.join(&world.kept()[0]);
    let before = manifest(&dir);
    let cancel = CancelHandle::new();
    let host = Foreground::new(cancel.clone()).with_progress(|_| cancel.cancel());
    let sandbox = &opened.context.sandbox;
    let stopped = opened
        .indexes()
        .build(world.tree.root(), sandbox.reach(), &host);
    assert!(matches!(stopped, Err(BuildError::Stopped)), "{stopped:?}");
    assert_eq!(manifest(&dir), before);
    let names = listing(&dir).into_keys();
    let unfinished = names.filter(|path| path.extension().is_some_and(|end| end == "tmp"));
    assert_eq!(unfinished.count(), 0);
    world.check_used(&opened, &needle());
    world.check_used(&world.open(), &needle());
}

/// A host that stops its builds when a test says so.
#[derive(Default)]
struct Told(AtomicBool);

impl BuildHost for Told {
    fn now_ns(&self) -> i64 {
        i64::MAX
    }

    fn pause(&self, _: Duration) {}

    fn progress(&self, _: Progress) {}

    fn stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn a_build_that_is_stopped_begins_no_other_file() {
    // All files are in one batch.
    const FILES: u32 = 1_000;
    let world = World::new();
    let stamp = Stamp::from_record(StampRecord {
        len: 5,
        modified_ns: 1,
        changed_ns: 1,
        device: 1,
        inode: 1,
        links: 1,
    });
    let mut tree = Enumeration::default();
    tree.dirs.push(DirEntry {
        place: Arc::new(Place {
            root: Arc::new(RootDir::open(world.tree.root()).unwrap()),
            real: PathBuf::new(),
            logical: PathBuf::new(),
        }),
        parent: 0,
        ranks: 0..FILES,
        stamp: Some(stamp),
        sets: RuleSets::EVERY,
    });
    tree.files.extend((0..FILES).map(|n| FileEntry {
        dir: 0,
        name: format!("{n:04}").into(),
        stamp: Some(stamp),
        linked: false,
        sets: RuleSets::EVERY,
    }));
    let options = BuildOptions {
        words: true,
        params: BloomParams::from_config(1 << 20, 0.01),
        casefold: Casefold::Ascii,
        max_tokenized_bytes: 1 << 20,
        max_memory_bytes: 64 << 20,
    };
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let (host, begun) = (Told::default(), AtomicUsize::new(0));
        let read = |reader: &mut FileReader, _: usize| {
            if begun.fetch_add(1, Ordering::SeqCst) == 10 {
                host.0.store(true, Ordering::SeqCst);
            }
            reader.tokenize(Path::new("a.rs"), b"straw", stamp)
        };
        let build = || assemble(&tree, i64::MAX, &options, &host, std::io::sink(), &read);
        let stopped = pool.unwrap().install(build);
        assert!(matches!(stopped, Err(BuildError::Stopped)), "{stopped:?}");
        // Each thread finishes its current file.
        let begun = begun.into_inner();
        assert!((11..11 + threads).contains(&begun), "{begun}");
    }
}

#[test]
fn an_edit_right_after_a_build_is_found() {
    for round in 0..5 {
        let world = World::new();
        let opened = world.built();
        // The file keeps its length and changes right after the build.
        world.tree.file("a/two.txt", "nothing but needl\n");
        world.tree.file("a/b/four.txt", "more needle, and hay\n");
        let request = json!({"pattern": "needl"});
        let stats = world.check(&opened, &request);
        assert_eq!(opened.search(&request).count, 5, "round {round}: {stats:?}");
        // A new file changes its directory.
        world.tree.file("a/new.txt", "one more needle\n");
        world.check_used(&opened, &request);
        let why = opened.condition(world.tree.root()).why().unwrap();
        assert!(why.starts_with("the directory a changed since"), "{why}");
        assert_eq!(opened.ensure(), [true]);
        world.check_used(&opened, &request);
    }
}

#[test]
fn what_changed_is_said() {
    let world = World::new();
    let opened = world.built();
    let root = world.tree.root();
    let status = || {
        opened
            .indexes()
            .status(opened.context.sandbox.reach())
            .remove(0)
    };
    let contents = status().contents.unwrap();
    assert_eq!((contents.files, contents.dirs), (8, 5));
    assert_eq!((contents.changed_files, contents.always_searched), (0, 0));
    assert!(contents.built_ms.unwrap() > 1_700_000_000_000);
    assert!(contents.inputs >= 5 && contents.bytes > 0);
    assert!(status().condition.is_usable());
    // Changed files are searched, and the index stays in use.
    world.tree.file("nine.txt", "something else\n");
    assert_eq!(status().contents.unwrap().changed_files, 1);
    assert!(status().condition.is_usable());
    // Changed rules are reported. Searches list the affected directories again.
    world.tree.file(".ignore", "a\n");
    let condition = opened.condition(root);
    let why = condition.why().unwrap();
    assert_eq!(
        condition.index_state().state(),
        SafetyState::Uncertain,
        "{why}"
    );
    world.check(&opened, &needle());
    opened.build();
    assert!(opened.condition(root).is_usable());
    world.tree.file(".ignore", "b\n");
    let condition = opened.condition(root);
    assert_eq!(
        condition.index_state().reason(),
        Some("ELIGIBILITY_CHANGED")
    );
    assert!(
        condition.why().unwrap().contains(".ignore"),
        "{condition:?}"
    );
    world.check_used(&opened, &needle());
}

#[test]
fn an_index_that_another_process_builds_or_removes_is_noticed() {
    let world = World::new();
    let (here, there) = (world.open(), world.open());
    world.check_unused(&here, &needle());
    there.build();
    world.check_used(&here, &needle());
    world.tree.file("b/new.txt", "needle\n");
    there.build();
    world.check_used(&here, &needle());
    let store = there.indexes().store().unwrap();
    let dir = store.list().unwrap().remove(0).dir;
    store.remove(&dir, &mut std::thread::sleep).unwrap();
    let stats = world.check_unused(&here, &needle());
    assert_eq!(stats.index_safety_state, "ABSENT");
}

#[test]
fn only_indexes_are_removed_from_a_store() {
    let world = World::new();
    let opened = world.built();
    let store = opened.indexes().store().unwrap();
    let outside = world
        .cache
        .with_file_name("0123456789abcdef0123456789abcdef");
    let beside = world.cache.join("mine");
    let link = world.cache.join("fedcba9876543210fedcba9876543210");
    for dir in [&outside, &beside] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("manifest"), "precious").unwrap();
    }
    symlink(&outside, &link).unwrap();
    // A directory with the name of an index directory that is no index.
    let namesake = world.cache.join("d41d8cd98f00b204e9800998ecf8427e");
    fs::create_dir(&namesake).unwrap();
    fs::write(namesake.join("manifest"), "precious").unwrap();
    for dir in [
        &outside,
        &beside,
        &namesake,
        &link,
        &world.cache,
        &world.cache.join(".."),
    ] {
        assert!(
            store.remove(dir, &mut std::thread::sleep).is_err(),
            "{dir:?}"
        );
    }
    for dir in [&outside, &beside, &namesake] {
        assert_eq!(fs::read(dir.join("manifest")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "nothing is added");
    }
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn removing_an_index_leaves_the_files_of_others_beside_it() {
    let world = World::new();
    let opened = world.built();
    let store = opened.indexes().store().unwrap();
    let dir = store.list().unwrap().remove(0).dir;
    fs::write(dir.join("notes"), "precious").unwrap();
    store.remove(&dir, &mut std::thread::sleep).unwrap();
    let left: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["notes"]);
    assert_eq!(fs::read(dir.join("notes")).unwrap(), b"precious");
    assert!(store.list().unwrap().is_empty());
    // The directory can be used for a new build.
    world.built();
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn a_first_build_that_came_to_nothing_leaves_no_damaged_index() {
    let world = World::new();
    let opened = world.built();
    let store = opened.indexes().store().unwrap();
    let dir = store.list().unwrap().remove(0).dir;
    for entry in fs::read_dir(&dir).unwrap() {
        let name = entry.unwrap().file_name();
        if !name.to_string_lossy().ends_with(".lock") {
            fs::remove_file(dir.join(name)).unwrap();
        }
    }
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn a_build_beside_the_removal_of_its_directory_makes_it_again() {
    /// Removes an index while a build waits for it, as `index clear` in another process would.
    struct Clearing {
        dir: PathBuf,
        lock: Mutex<Option<DirLock>>,
    }

    impl BuildHost for Clearing {
        fn now_ns(&self) -> i64 {
            wall_clock_ns()
        }

        fn pause(&self, time: Duration) {
            std::thread::sleep(time);
        }

        fn progress(&self, _: Progress) {}

        fn waiting(&self) {
            if let Some(lock) = self.lock.lock().unwrap().take() {
                fs::remove_dir_all(&self.dir).unwrap();
                drop(lock);
            }
        }

        fn stopped(&self) -> bool {
            false
        }
    }

    let world = World::new();
    let opened = world.built();
    let dir = world.cache.join(&world.kept()[0]);
    let lock = locked(&dir, LockFile::Writers);
    let host = Clearing {
        dir: dir.clone(),
        lock: Mutex::new(Some(lock)),
    };
    let root = world.tree.root();
    let built = opened
        .indexes()
        .build(root, opened.context.sandbox.reach(), &host);
    built.unwrap();
    assert!(host.lock.lock().unwrap().is_none(), "it did not wait");
    world.check_used(&world.open(), &needle());
}
