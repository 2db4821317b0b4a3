//! Damage to stored indexes, and builders that end before they are done. Searches answer as without
//! an index, and the next build repairs everything.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forge_search::internal::format::segment::SEGMENT_VERSION;
use forge_search::internal::format::storage::Storage;
use forge_search::internal::index::builder::{BuildError, BuildHost, Progress};
use forge_search::internal::index::segment::Segment;
use forge_search::internal::index::state::IndexState;
use forge_search::internal::tool::config::IndexStorage;
use serde_json::{Value, json};

use crate::child_processes::{self, Started};
use crate::differential::Seeded;
use crate::index_support::{Host, LIVE, VARIANTS, Variant, compare};
use crate::support::{GUARD, Setup, Tree, seeds, step};
use crate::system::{overwrite, set_mode, symlink};

const MAPPED: Variant = Variant {
    storage: IndexStorage::Mmap,
    ..LIVE
};

/// Plants 120 files in some directories, one in five with the needle. The index of the tree has
/// several pages.
fn planted() -> Tree {
    let tree = Tree::new();
    let mut rng = Seeded::new(5);
    for n in 0..120 {
        let mut text = String::new();
        for _ in 0..rng.below(300) {
            for _ in 0..2 + rng.below(8) {
                text.push(char::from(b'a' + rng.below(26) as u8));
            }
            text.push(rng.pick(&[' ', '\n', '-']));
        }
        if n % 5 == 0 {
            text.push_str("the needle\n");
        }
        tree.file(&format!("{}/{}/{n:03}-\u{E9}", n % 3, n % 7), text);
    }
    tree.file(r"0/line\nbreak", "the needle\n");
    tree
}

fn requests() -> Vec<Value> {
    vec![
        json!({"pattern": "needle"}),
        json!({"pattern": "needle", "path": "1"}),
        json!({"pattern": "NEEDLE", "case": "insensitive", "path": "2/3", "max_files": 3}),
        json!({"pattern": "the n[a-e]{2}dle", "include_glob": ["/0/**"], "max_results": 4}),
        json!({"pattern": "absent from all"}),
    ]
}

/// The files of the only index in the store.
struct Files {
    segment: PathBuf,
    manifest: PathBuf,
    segment_bytes: Vec<u8>,
    manifest_bytes: Vec<u8>,
}

impl Files {
    fn of(setup: &Setup) -> Files {
        let dir = setup.kept().dir();
        let segments: Vec<PathBuf> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
            .collect();
        let [segment] = &segments[..] else {
            panic!("not one segment, but {segments:?}");
        };
        let manifest = dir.join("manifest");
        Files {
            segment_bytes: fs::read(segment).unwrap(),
            manifest_bytes: fs::read(&manifest).unwrap(),
            segment: segment.clone(),
            manifest,
        }
    }

    fn restore(&self) {
        replace(&self.segment, &self.segment_bytes);
        replace(&self.manifest, &self.manifest_bytes);
    }
}

/// Replaces a file by a rename. Processes that have mapped the old file keep it.
fn replace(path: &Path, bytes: &[u8]) {
    let temporary = path.with_extension("new");
    fs::write(&temporary, bytes).unwrap();
    set_mode(&temporary, 0o600).unwrap();
    if path.is_dir() {
        fs::remove_dir(path).unwrap();
    }
    fs::rename(temporary, path).unwrap();
}

/// Damages bytes in one of several ways; returns a description.
fn damaged(rng: &mut Seeded, bytes: &mut Vec<u8>) -> String {
    let at = rng.below(bytes.len());
    let end = (at + 1 + rng.below(5_000)).min(bytes.len());
    match rng.below(10) {
        0..=3 => {
            bytes[at] ^= 1 << rng.below(8);
            format!("a bit of byte {at} is flipped")
        }
        4 => {
            for _ in 0..1 + rng.below(20) {
                let at = rng.below(bytes.len());
                bytes[at] = rng.next() as u8;
            }
            "some bytes are others".to_string()
        }
        5 => {
            bytes.truncate(at);
            format!("cut off at {at}")
        }
        6 => {
            let last = bytes.len() - 1 - rng.below(64.min(bytes.len() - 1));
            bytes.truncate(last);
            format!("cut off at {last}, near the end")
        }
        7 => {
            bytes[at..end].fill(0);
            format!("{at} to {end} are zero")
        }
        8 => {
            let part = bytes[at..end].to_vec();
            let to = rng.below(bytes.len() - part.len() + 1);
            bytes[to..to + part.len()].copy_from_slice(&part);
            format!("{at} to {end} are copied to {to}")
        }
        _ => {
            let more = rng.below(5_000);
            bytes.extend((0..more).map(|_| rng.next() as u8));
            format!("{more} bytes more")
        }
    }
}

/// Runs all requests with the stored index as it is now. Returns the number of requests that used
/// it.
#[track_caller]
fn answers(setup: &Setup, what: &str) -> u64 {
    let mut used = 0;
    for request in requests() {
        println!("{what}: {request}");
        used += compare(setup, &request).0.used;
    }
    used
}

/// Builds again, and checks that all requests use the index and that no other file is left.
#[track_caller]
fn repair(setup: &Setup, what: &str) {
    setup.build(&Host::hasty());
    let files = Files::of(setup);
    assert_eq!(answers(setup, what), 5, "{what}: built again");
    let names: Vec<_> = fs::read_dir(files.manifest.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let what_there_is = "two files, two locks and when it was used";
    assert_eq!(names.len(), 5, "{what_there_is}: {names:?}");
    let fresh = setup.clone().reopened();
    assert_eq!(answers(&fresh, what), 5, "{what}: built again, opened anew");
}

#[test]
fn damage_at_random_places_changes_no_answer() {
    let tree = planted();
    let (mut used, mut corrupt) = (0, 0);
    let mut built = [VARIANTS[2], VARIANTS[3]].map(|variant| {
        let setup = tree.setup().with_indexes(variant);
        setup.build(&Host::hasty());
        let files = Files::of(&setup);
        (setup, files)
    });
    for seed in 0..seeds(200) {
        let mut rng = Seeded::new(seed);
        let (setup, files) = &mut built[rng.below(2)];
        // With several pages, damage hits pages that searches read and pages that they do not read.
        assert!(files.segment_bytes.len() > 40_000);
        for _ in 0..3 {
            let (path, pristine) = match rng.one_in(3) {
                true => (&files.manifest, &files.manifest_bytes),
                false => (&files.segment, &files.segment_bytes),
            };
            let mut bytes = pristine.clone();
            let how = damaged(&mut rng, &mut bytes);
            let what = format!("seed {seed}, {}: {how}", path.display());
            replace(path, &bytes);
            let opened = setup.clone().reopened();
            used += u64::from(answers(&opened, &what) > 0);
            let sandbox = opened.context().sandbox;
            let condition = opened
                .kept()
                .indexes
                .condition(tree.root(), sandbox.reach());
            corrupt += u64::from(condition.unwrap().index_state() == IndexState::Corrupt);
            // Even if the damaged segment can be opened, it is not taken for whole.
            if path == &files.segment && bytes != *pristine {
                let opened = Segment::open(Storage::from(bytes));
                assert!(
                    opened.and_then(|segment| segment.verify()).is_err(),
                    "{what}"
                );
            }
            if rng.one_in(12) {
                repair(&opened, &what);
                *files = Files::of(setup);
                break;
            }
            files.restore();
        }
    }
    println!("{used} damaged indexes were used all the same, {corrupt} were noticed");
    assert!(corrupt > seeds(200) * 3 / 2, "{corrupt} only");
}

type Change<'a> = Box<dyn Fn(&Path) + 'a>;

/// Returns ways to put something else in the place of a file of an index. `files` are those of the
/// index, and `other` those of another index.
fn changes<'a>(files: &'a Files, other: &'a Files) -> [(&'static str, Change<'a>); 9] {
    let newer = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let version = SEGMENT_VERSION.to_le_bytes();
        let at = bytes.windows(4).position(|four| four == version).unwrap();
        bytes[at..at + 4].copy_from_slice(&99u32.to_le_bytes());
        bytes
    };
    [
        ("empty", Box::new(|path: &Path| replace(path, b""))),
        (
            "removed",
            Box::new(|path: &Path| fs::remove_file(path).unwrap()),
        ),
        (
            "another segment",
            Box::new(move |path: &Path| replace(path, &other.segment_bytes)),
        ),
        (
            "another manifest",
            Box::new(move |path: &Path| replace(path, &other.manifest_bytes)),
        ),
        (
            "its own segment",
            Box::new(move |path: &Path| replace(path, &files.segment_bytes)),
        ),
        (
            "a newer version",
            Box::new(move |path: &Path| replace(path, &newer(&files.segment_bytes))),
        ),
        (
            "a directory",
            Box::new(|path: &Path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            }),
        ),
        (
            "a link",
            Box::new(|path: &Path| {
                let aside = path.with_extension("aside");
                fs::rename(path, &aside).unwrap();
                symlink(&aside, path).unwrap();
            }),
        ),
        (
            "writable for all",
            Box::new(|path: &Path| {
                set_mode(path, 0o666).unwrap();
            }),
        ),
    ]
}

#[test]
fn other_files_in_the_place_of_an_index_change_no_answer() {
    let tree = planted();
    let other_tree = Tree::of([("a", "something else"), ("needle", "needle")]);
    let other = other_tree.setup().with_indexes(MAPPED);
    other.build(&Host::hasty());
    let other = Files::of(&other);
    let setup = tree.setup().with_indexes(MAPPED);
    setup.build(&Host::hasty());
    let files = Files::of(&setup);
    for (what, change) in changes(&files, &other) {
        for manifest in [false, true] {
            setup.build(&Host::hasty());
            let files = Files::of(&setup);
            let path = if manifest {
                &files.manifest
            } else {
                &files.segment
            };
            let what = format!("{what} in the place of {}", path.display());
            change(path);
            let opened = setup.clone().reopened();
            let same = fs::read(path).is_ok_and(|bytes| bytes == files.segment_bytes) && !manifest;
            let used = answers(&opened, &what);
            assert!(used == 0 || same, "{what}: used {used} times");
            if !path.exists() && !manifest {
                let sandbox = opened.context().sandbox;
                let condition = opened
                    .kept()
                    .indexes
                    .condition(tree.root(), sandbox.reach());
                assert_eq!(
                    condition.unwrap().index_state(),
                    IndexState::Corrupt,
                    "{what}"
                );
            }
            if path.is_dir() {
                // In the place of the manifest, a directory can't be replaced and the build fails.
                // In the place of the segment, it does no harm.
                let built = opened.build_root(tree.root(), &Host::hasty());
                assert_eq!(built.is_err(), manifest, "{what}");
                let used = if manifest { 0 } else { 5 };
                assert_eq!(answers(&opened, &what), used);
                fs::remove_dir(path).unwrap();
            }
            // The program does not remove the file that the test moved aside, so the test does.
            let _ = fs::remove_file(path.with_extension("aside"));
            repair(&opened, &what);
        }
    }
}

/// Nobody should write to a segment, but restoring a backup does.
#[test]
fn changes_under_an_open_index_are_noticed_by_the_next_call() {
    let tree = planted();
    let setup = tree.setup().with_indexes(MAPPED);
    setup.build(&Host::hasty());
    let files = Files::of(&setup);
    for seed in 0..seeds(160) {
        let mut rng = Seeded::new(seed);
        files.restore();
        let opened = setup.clone().reopened();
        if rng.one_in(2) {
            assert_eq!(answers(&opened, "as it was"), 5);
        }
        set_mode(&files.segment, 0o600).unwrap();
        let file = fs::File::options()
            .write(true)
            .open(&files.segment)
            .unwrap();
        if rng.one_in(3) {
            // Reading the missing pages of the mapped file would kill the process.
            file.set_len(rng.below(files.segment_bytes.len()) as u64)
                .unwrap();
        } else {
            for _ in 0..1 + rng.below(300) {
                let at = rng.below(files.segment_bytes.len());
                overwrite(&file, &[rng.next() as u8], at as u64).unwrap();
            }
        }
        answers(&opened, &format!("seed {seed}, changed in place"));
    }
}

/// The environment variable that makes a child build. It names the tree and, after a line feed, the
/// store.
const BUILDER: &str = "FORGE_SEARCH_TEST_BUILDER";

fn setup_at(root: &Path, store: &Path) -> Setup {
    Setup::new(root).with_indexes_at(MAPPED, store)
}

#[test]
fn a_killed_builder_leaves_the_index_as_it_was() {
    if let Ok(places) = std::env::var(BUILDER) {
        let (root, store) = places.split_once('\n').unwrap();
        let setup = setup_at(root.as_ref(), store.as_ref());
        child_processes::say_ready();
        loop {
            setup.build_root(root.as_ref(), &Host::hasty()).unwrap();
        }
    }
    let tree = planted();
    let store = tree.path("../store");
    let setup = setup_at(tree.root(), &store);
    let started = Instant::now();
    setup.build(&Host::hasty());
    let once = started.elapsed();
    let places = format!("{}\n{}", tree.root().display(), store.display());
    let name = "index_damage::a_killed_builder_leaves_the_index_as_it_was";
    let mut rng = Seeded::new(1);
    let mut left_behind = 0;
    let mut round = 0;
    // The scheduler decides whether a kill hits the builder while it writes.
    while round < 10 || left_behind == 0 {
        assert!(
            started.elapsed() < GUARD,
            "no builder was killed while it wrote"
        );
        round += 1;
        // The child builds again and again, and is killed at a random time.
        let child = Started::new(name, &[(BUILDER, &places)]);
        let wait = rng.next() % (3 * once.as_micros() as u64).max(1);
        std::thread::sleep(Duration::from_micros(wait));
        child.kill();
        let names = fs::read_dir(setup.kept().dir()).unwrap();
        left_behind += names
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().ends_with(".tmp")
            })
            .count();
        let fresh = setup_at(tree.root(), &store);
        assert_eq!(answers(&fresh, &format!("killed in round {round}")), 5);
    }
    println!("{left_behind} unfinished files were left behind");
    repair(&setup_at(tree.root(), &store), "after all");
}

/// Stops a build the `n`th time that it asks whether to stop.
struct Impatient(AtomicUsize);

impl BuildHost for Impatient {
    fn now_ns(&self) -> i64 {
        Host::hasty().now_ns()
    }

    fn pause(&self, _: Duration) {}

    fn progress(&self, _: Progress) {}

    fn stopped(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }
}

#[test]
fn a_stopped_build_leaves_the_index_as_it_was() {
    let tree = planted();
    let setup = tree.setup().with_indexes(MAPPED);
    let build = |times: usize| {
        let sandbox = setup.context().sandbox;
        let host = Impatient(AtomicUsize::new(times));
        setup
            .kept()
            .indexes
            .build(tree.root(), sandbox.reach(), &host)
    };
    // There is no index yet.
    assert!(matches!(build(0), Err(BuildError::Stopped)));
    assert_eq!(answers(&setup.clone().reopened(), "none"), 0);
    setup.build(&Host::hasty());
    let mut stops = 0;
    // Stops at each place in the long proofs, and at every twelfth place otherwise.
    for times in (0..).step_by(step()) {
        match build(times) {
            Err(BuildError::Stopped) => stops += 1,
            Err(error) => panic!("{error}"),
            Ok(_) => break,
        }
        assert_eq!(answers(&setup, "stopped"), 5);
        assert_eq!(answers(&setup.clone().reopened(), "stopped"), 5);
    }
    assert!(stops >= 2, "{stops}");
    repair(&setup, "after all");
}
