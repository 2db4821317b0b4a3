//! Builds that end before they are done: their work is kept, and the next build continues from it.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use forge_search::internal::format::segment::StampRecord;
use forge_search::internal::format::storage::Storage;
use forge_search::internal::index::builder::{BuildError, BuildHost, Phase, Progress};
use forge_search::internal::index::pace::{BudgetError, Piece};
use forge_search::internal::index::segment::Segment;
use forge_search::internal::tool::config::IndexStorage;
use serde_json::json;

use crate::index_support::{VARIANTS, Variant};
use crate::support::{Setup, Tree};

/// Enough files for more than two batches.
const FILES: u64 = 2_500;

/// Ends a build after some batches, or lets it finish.
pub(crate) struct Ending {
    after: Option<u64>,
    by_budget: bool,
    keeps: bool,
    batches: AtomicU64,
    ended: AtomicBool,
    /// The number of files that the build has to read.
    to_read: AtomicU64,
}

impl Ending {
    pub(crate) fn after(batches: u64) -> Ending {
        Ending {
            after: Some(batches),
            by_budget: false,
            keeps: true,
            batches: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            to_read: AtomicU64::new(0),
        }
    }

    fn never() -> Ending {
        Ending {
            after: None,
            ..Ending::after(0)
        }
    }
}

impl BuildHost for Ending {
    fn now_ns(&self) -> i64 {
        // An hour ahead, so that no change is recent.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        (now.unwrap() + Duration::from_secs(3_600)).as_nanos() as i64
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn progress(&self, progress: Progress) {
        if progress.phase == Phase::Tokenize && progress.files_done == 0 {
            self.to_read.store(progress.files_total, Ordering::SeqCst);
        }
    }

    fn stopped(&self) -> bool {
        self.ended.load(Ordering::SeqCst) && !self.by_budget
    }

    fn keeps_unfinished(&self) -> bool {
        self.keeps
    }

    fn worked(&self, _: usize, piece: Piece) {
        if piece == Piece::Batch {
            let batches = self.batches.fetch_add(1, Ordering::SeqCst) + 1;
            if Some(batches) == self.after {
                self.ended.store(true, Ordering::SeqCst);
            }
        }
    }

    fn may_go_on(&self, _: u64, _: u64) -> Result<(), BudgetError> {
        match self.by_budget && self.ended.load(Ordering::SeqCst) {
            true => Err(BudgetError::Time { limit: 1, found: 2 }),
            false => Ok(()),
        }
    }
}

fn tree() -> Tree {
    let tree = Tree::new();
    for n in 0..FILES {
        let name = format!("d{}/f{n}", n % 40);
        tree.dir(&format!("d{}", n % 40));
        tree.file(&name, format!("some text with number{n}x in it\n"));
    }
    tree
}

fn build(setup: &Setup, host: &Ending) -> Result<(), BuildError> {
    let context = setup.context();
    let indexes = &setup.kept().indexes;
    let built = indexes.build(&setup.working_dir, context.sandbox.reach(), host);
    built.map(|_| ())
}

/// Returns the files in the directory of the index, except hidden files, locks and `accessed`.
fn names(setup: &Setup) -> Vec<String> {
    let root = setup.kept().indexes.store().unwrap().root().to_path_buf();
    let mut dirs = fs::read_dir(root).unwrap().map(|dir| dir.unwrap().path());
    let dir = dirs.find(|dir| dir.is_dir()).unwrap();
    let mut names: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.') && !name.ends_with("lock") && name != "accessed")
        .collect();
    names.sort();
    names
}

fn check_answers(setup: &Setup, numbers: impl Iterator<Item = u64>) {
    for n in numbers {
        let response =
            setup.search(json!({"pattern": format!("number{n}x"), "fixed_strings": true}));
        assert_eq!(response.count, 1, "{n}");
    }
}

/// Returns the variant with mapped files, where unfinished builds are stored.
fn mapped() -> Variant {
    VARIANTS[2]
}

#[test]
fn a_build_continues_where_the_last_one_ended() {
    let tree = tree();
    let setup = tree.setup().generous().with_indexes(mapped());
    let first = Ending::after(1);
    assert!(matches!(build(&setup, &first), Err(BuildError::Stopped)));
    assert_eq!(first.to_read.load(Ordering::SeqCst), FILES);
    // An unfinished build is not an index: it excludes no files, and the store does not list it.
    assert_eq!(names(&setup), ["segment-1.seg", "unfinished"]);
    assert!(
        setup
            .kept()
            .indexes
            .store()
            .unwrap()
            .list()
            .unwrap()
            .is_empty()
    );
    check_answers(&setup, [3, 2_000].into_iter());
    // Files that changed meanwhile are read again, whether or not the first build had read them.
    tree.file("d3/f3", "some text with number3x in it, and more\n");
    tree.file("d0/f2000", "some text with number2000x in it, and more\n");
    fs::remove_file(tree.path("d1/f1")).unwrap();
    let second = Ending::after(1);
    assert!(matches!(build(&setup, &second), Err(BuildError::Stopped)));
    let left = second.to_read.load(Ordering::SeqCst);
    assert!(left < FILES - 1_000 && left > 100, "{left}");
    assert_eq!(names(&setup), ["segment-2.seg", "unfinished"]);
    let last = Ending::never();
    build(&setup, &last).unwrap();
    assert!(last.to_read.load(Ordering::SeqCst) < left - 100);
    assert_eq!(names(&setup), ["manifest", "segment-3.seg"]);
    let store = setup.kept().indexes.store().unwrap();
    store.check(&setup.kept().dir(), true, &mut |_| {}).unwrap();
    let numbers = (0..FILES).step_by(101).filter(|n| *n != 1);
    check_answers(&setup, numbers.chain([3, 2_000]));
    println!("{FILES} files, then {left}, then {:?}", last.to_read);
}

/// The next build can tell read files from unread ones: only files that were read have a stamp.
#[test]
fn files_that_an_unfinished_build_did_not_read_are_read_by_the_next() {
    let tree = tree();
    let setup = tree.setup().generous().with_indexes(mapped());
    assert!(build(&setup, &Ending::after(1)).is_err());
    let root = setup.kept().indexes.store().unwrap().root().to_path_buf();
    let segments = fs::read_dir(root).unwrap().filter_map(|dir| {
        let bytes = fs::read(dir.unwrap().path().join("segment-1.seg")).ok()?;
        Some(Segment::open(Storage::from(bytes)).unwrap())
    });
    let segment = segments.last().expect("a segment");
    assert_eq!(u64::from(segment.file_count()), FILES);
    let (mut read, mut unread) = (0, 0);
    for rank in 0..segment.file_count() {
        let file = segment.file(rank).unwrap();
        let none = file.stamp == StampRecord::default();
        assert_eq!(file.excludable, !none, "{:?}", segment.path(rank));
        match none {
            true => unread += 1,
            false => read += 1,
        }
    }
    println!("{read} files were read, {unread} were not");
    assert!(read > 1_000 && unread > 1_000);
}

#[test]
fn work_done_within_the_build_budget_is_kept() {
    let tree = tree();
    let setup = tree.setup().generous().with_indexes(mapped());
    let first = Ending {
        by_budget: true,
        ..Ending::after(1)
    };
    assert!(matches!(
        build(&setup, &first),
        Err(BuildError::BudgetExceeded(BudgetError::Time { .. }))
    ));
    assert_eq!(names(&setup), ["segment-1.seg", "unfinished"]);
    check_answers(&setup, [0, 2_499].into_iter());
    let last = Ending::never();
    build(&setup, &last).unwrap();
    assert!(last.to_read.load(Ordering::SeqCst) < FILES - 1_000);
    check_answers(&setup, (0..FILES).step_by(97));
}

#[test]
fn an_unfinished_build_stays_beside_the_index_before_it() {
    let tree = tree();
    let setup = tree.setup().generous().with_indexes(mapped());
    build(&setup, &Ending::never()).unwrap();
    assert!(build(&setup, &Ending::after(1)).is_err());
    assert_eq!(
        names(&setup),
        ["manifest", "segment-1.seg", "segment-2.seg", "unfinished"]
    );
    check_answers(&setup, [5].into_iter());
    build(&setup, &Ending::never()).unwrap();
    assert_eq!(names(&setup), ["manifest", "segment-3.seg"]);
}

#[test]
fn nothing_is_kept_that_nobody_wants_or_that_is_nothing() {
    let tree = tree();
    let setup = tree.setup().generous().with_indexes(mapped());
    let unwanted = Ending {
        keeps: false,
        ..Ending::after(1)
    };
    assert!(build(&setup, &unwanted).is_err());
    assert!(names(&setup).is_empty(), "{:?}", names(&setup));
    let at_once = Ending::after(0);
    at_once.ended.store(true, Ordering::SeqCst);
    assert!(build(&setup, &at_once).is_err());
    assert!(names(&setup).is_empty(), "{:?}", names(&setup));
}

/// Flips one bit in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_unfinished_build_is_not_continued() {
    for which in ["segment-1.seg", "unfinished"] {
        let tree = tree();
        let setup = tree.setup().generous().with_indexes(mapped());
        assert!(build(&setup, &Ending::after(1)).is_err());
        let root = setup.kept().indexes.store().unwrap().root().to_path_buf();
        let mut dirs = fs::read_dir(root).unwrap().map(|dir| dir.unwrap().path());
        let dir = dirs.find(|dir| dir.is_dir()).unwrap();
        damage(&dir.join(which));
        let last = Ending::never();
        build(&setup, &last).unwrap();
        assert_eq!(last.to_read.load(Ordering::SeqCst), FILES, "{which}");
        check_answers(&setup, [7, 1_234].into_iter());
    }
}

/// Records the phases of a build.
struct Phases(std::sync::Mutex<Vec<Phase>>);

impl BuildHost for Phases {
    fn now_ns(&self) -> i64 {
        Ending::never().now_ns()
    }

    fn pause(&self, _: Duration) {}

    fn progress(&self, progress: Progress) {
        let mut phases = self.0.lock().unwrap();
        if phases.last() != Some(&progress.phase) {
            phases.push(progress.phase);
        }
    }

    fn stopped(&self) -> bool {
        false
    }
}

#[test]
fn a_build_goes_through_its_phases_in_order() {
    for variant in VARIANTS.into_iter().filter(|variant| !variant.frozen) {
        let tree = Tree::of([("a.txt", "some text\n"), ("d/b.txt", "another one\n")]);
        let setup = tree.setup().with_indexes(variant);
        let (host, sandbox) = (Phases(Default::default()), setup.context().sandbox);
        let indexes = &setup.kept().indexes;
        indexes
            .build(&setup.working_dir, sandbox.reach(), &host)
            .unwrap();
        let phases: Vec<&str> = host.0.lock().unwrap().iter().map(|p| p.as_str()).collect();
        let mut expected = vec!["ENUMERATE", "TOKENIZE", "PERSIST"];
        if variant.storage != IndexStorage::Memory {
            expected.push("ACTIVATE");
        }
        assert_eq!(phases, expected, "{variant:?}");
    }
}
