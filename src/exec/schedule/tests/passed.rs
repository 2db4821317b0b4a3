//! Skipped files: the answer is the same as that of a search that reads them.

use std::fs;

use super::*;
use crate::exec::engine::Engine;
use crate::exec::engine::embedded::Embedded;
use crate::exec::question::query::{Case, Query, QueryOptions};
use crate::exec::sources::eligible::filtered::{Filtered, SkipReports};
use crate::exec::sources::eligible::{Globs, WalkSource};
use crate::index::deny::DenySet;
use crate::index::walk::{Follow, IgnoreRules, TraversalOptions, Walk};

/// Returns a pseudo-random number that is the same for the same name.
fn dice(name: &str, seed: u64) -> u64 {
    name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, b| {
        (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
    }) >> 17
}

fn said() -> impl Strategy<Value = SkipReports> {
    prop_oneof![Just(SkipReports::OnTheFile), Just(SkipReports::OneByOne)]
}

/// Asserts that two runs differ only in the skipped files, and returns the number of these.
#[track_caller]
fn check(with: Whole, without: &Whole) -> u64 {
    let excluded = with.files_excluded;
    assert_eq!(without.files_excluded, 0);
    let all_searched = Whole {
        files_excluded: 0,
        ..with
    };
    assert_eq!(&all_searched, without);
    excluded
}

/// Returns the outcome of the file with that name: events, nothing, or an error with or without
/// events.
fn outcome(name: &str) -> FileOutcome {
    let mut outcome = hit(events_in(name));
    if dice(name, 7).is_multiple_of(5) {
        outcome.error = Some("unreadable".to_string());
    }
    outcome
}

fn yields_nothing(name: &str) -> bool {
    outcome(name) == FileOutcome::nothing()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn skipping_files_changes_no_answer(
        nodes in nodes(),
        max_results in 1usize..40,
        max_files in 1u64..80,
        threads in prop::sample::select(vec![1usize, 2, 8]),
        min_files in prop::sample::select(vec![1usize, 7]),
        // This many of eight files that could be skipped are skipped.
        share in 0u64..=8,
        seed: u64,
        said in said(),
    ) {
        let engine = || {
            let mut fake = Fake::new(|name, _| {
                if name.len().is_multiple_of(3) {
                    thread::yield_now();
                }
                Ok(outcome(name))
            });
            fake.batching.min_files = min_files;
            fake
        };
        let options = options(max_results, max_files, threads);
        let (tree, _tmp) = Tree::new(nodes.clone());
        let without = run(tree, Arc::new(engine()), &options).unwrap();
        let is_passed = move |name: &str| yields_nothing(name) && dice(name, seed) % 8 < share;
        let (tree, _tmp) = Tree::new(nodes.clone());
        let source = Filtered::new(tree, said, move |file| {
            is_passed(&file.found.name.to_string_lossy())
        });
        let fake = engine();
        let seen = fake.seen.clone();
        let with = run(source, Arc::new(fake), &options).unwrap();
        prop_assert!(lock(&seen).iter().all(|name| !is_passed(name)));
        let mut names = Vec::new();
        Tree::names(&nodes, "", &mut names);
        let scanned = names.iter().take(without.files_scanned as usize);
        let expected = scanned.filter(|name| is_passed(name)).count() as u64;
        prop_assert_eq!(check(with, &without), expected);
    }
}

/// A real tree: a directory for each list of files. Each file contains the lines of the given
/// words.
fn plant(dirs: &[Vec<Vec<usize>>]) -> tempfile::TempDir {
    const WORDS: [&str; 6] = [
        "alpha",
        "beta",
        "gamma alpha",
        "",
        "delta\tx9",
        "Ünïcode beta",
    ];
    let tmp = tempfile::tempdir().unwrap();
    for (n, files) in dirs.iter().enumerate() {
        let dir = tmp.path().join(format!("d{n}"));
        fs::create_dir(&dir).unwrap();
        for (m, lines) in files.iter().enumerate() {
            let text: Vec<&str> = lines.iter().map(|&word| WORDS[word]).collect();
            fs::write(dir.join(format!("f{m}")), text.join("\n")).unwrap();
        }
    }
    tmp
}

fn walk(tmp: &tempfile::TempDir) -> WalkSource {
    let top = tmp.path().canonicalize().unwrap();
    let root = Arc::new(RootDir::open(&top).unwrap());
    let options = TraversalOptions {
        hidden: false,
        follow: Follow::Never,
        rules: IgnoreRules::None,
        recursive: true,
    };
    let deny = Arc::new(DenySet::for_roots(&[], false, &[&top]).unwrap());
    let locate = Arc::new(|_: &std::path::Path| None);
    let walk = Walk::new(root, PathBuf::new(), options, deny, locate, None);
    WalkSource::new(walk, Globs::new(&[], &[]).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The same with files on disk, the embedded engine and context lines.
    #[test]
    fn skipping_files_of_a_real_tree_changes_no_answer(
        dirs in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(0usize..6, 0..8), 0..9),
            0..5,
        ),
        pattern in prop::sample::select(vec!["alpha", "beta$", r"\w\d", "absent", "^$", "Ü", "a|e"]),
        max_results in 1usize..30,
        max_files in 1u64..40,
        max_matches_per_file in 1u64..4,
        context in 0usize..3,
        threads in prop::sample::select(vec![1usize, 2, 8]),
        share in 0u64..=8,
        seed: u64,
        said in said(),
    ) {
        let tmp = plant(&dirs);
        let search = |source: Filtered<WalkSource>, options: &RunOptions| {
            let query = Query::new(&[pattern], &QueryOptions {
                case: Case::Sensitive,
                before: context,
                after: context,
                max_results: options.limits.max_results,
                max_matches_per_file,
                max_file_size: 1 << 20,
                ..QueryOptions::default()
            }).unwrap();
            let prepared = Embedded::default().prepare(Arc::new(query)).unwrap();
            run(source, prepared, options).unwrap()
        };
        let all = Filtered::new(walk(&tmp), said, |_| false);
        let found: BTreeSet<PathBuf> = search(all, &options(100_000, 100_000, 2))
            .files
            .into_iter()
            .map(|file| file.path)
            .collect();
        let options = options(max_results, max_files, threads);
        let without = search(Filtered::new(walk(&tmp), said, |_| false), &options);
        let some = Filtered::new(walk(&tmp), said, move |file| {
            let path = file.logical();
            !found.contains(&path) && dice(&path.to_string_lossy(), seed) % 8 < share
        });
        let with = search(some, &options);
        prop_assert!(with.files_excluded <= with.files_scanned);
        check(with, &without);
    }
}

/// Runs a search over `nodes` that skips the files named by `passed`; all others have one event.
/// Compares it with the search of all files, on one thread and on several.
#[track_caller]
fn edge(nodes: &[Node], max_results: usize, max_files: u64, passed: fn(&str) -> bool) -> Whole {
    let mut results = Vec::new();
    for said in [SkipReports::OnTheFile, SkipReports::OneByOne] {
        for threads in [1, 2, 8] {
            let fake = || Fake::new(move |name, _| Ok(hit(usize::from(!passed(name)))));
            let options = options(max_results, max_files, threads);
            let (tree, _tmp) = Tree::new(nodes.to_vec());
            let without = run(tree, Arc::new(fake()), &options).unwrap();
            let (tree, _tmp) = Tree::new(nodes.to_vec());
            let source = Filtered::new(tree, said, move |file| {
                passed(&file.found.name.to_string_lossy())
            });
            let with = run(source, Arc::new(fake()), &options).unwrap();
            check(with.clone(), &without);
            results.push(with);
        }
    }
    assert!(results.iter().all(|run| *run == results[0]));
    results.swap_remove(0)
}

fn errors(run: &Whole) -> Vec<&str> {
    run.errors
        .iter()
        .map(|e| e.path.to_str().unwrap())
        .collect()
}

#[test]
fn everything_passed_over_needs_no_worker() {
    let nodes = [Node::Files(1000), Node::Broken];
    let run = edge(&nodes, 10, 5000, |_| true);
    assert_eq!((run.files_scanned, run.files_excluded), (1000, 1000));
    assert_eq!((run.count, run.truncation), (0, None));
    assert_eq!(errors(&run), ["01"]);

    let (tree, _tmp) = Tree::new(nodes.to_vec());
    let fake = Fake::new(|_, _| Ok(hit(1)));
    let workers = fake.workers.clone();
    let source = Filtered::new(tree, SkipReports::OnTheFile, |_| true);
    super::run(source, Arc::new(fake), &options(10, 5000, 8)).unwrap();
    assert_eq!(workers.load(Ordering::Acquire), 0);
}

#[test]
fn everything_passed_over_in_directories_is_counted_all_the_same() {
    let run = edge(&wide(30, 20), 10, 5000, |_| true);
    assert_eq!((run.files_scanned, run.files_excluded), (600, 600));
}

#[test]
fn max_files_within_files_passed_over() {
    // Ten files with an event each, 80 without events, ten with one event.
    let passed = |name: &str| name.starts_with("01");
    let nodes = [Node::Files(10), Node::Files(80), Node::Files(10)];
    let run = edge(&nodes, 1000, 50, passed);
    assert_eq!(run.truncation, Some(Truncation::MaxFiles));
    assert_eq!(
        (run.count, run.files_scanned, run.files_excluded),
        (10, 50, 40)
    );
    // The limit is just before a file that would be searched, and just after it.
    let run = edge(&nodes, 1000, 90, passed);
    assert_eq!(run.truncation, Some(Truncation::MaxFiles));
    assert_eq!(
        (run.count, run.files_scanned, run.files_excluded),
        (10, 90, 80)
    );
    let run = edge(&nodes, 1000, 91, passed);
    assert_eq!(run.truncation, Some(Truncation::MaxFiles));
    assert_eq!(
        (run.count, run.files_scanned, run.files_excluded),
        (11, 91, 80)
    );
}

#[test]
fn max_files_before_the_first_file_to_be_searched_needs_no_worker() {
    let (tree, _tmp) = Tree::new(vec![Node::Files(80), Node::Files(10)]);
    let fake = Fake::new(|_, _| Ok(hit(1)));
    let (workers, seen) = (fake.workers.clone(), fake.seen.clone());
    let source = Filtered::new(tree, SkipReports::OnTheFile, |file| {
        file.found.name.to_string_lossy().starts_with("00")
    });
    let run = run(source, Arc::new(fake), &options(100, 80, 8)).unwrap();
    assert_eq!(run.truncation, Some(Truncation::MaxFiles));
    assert_eq!((run.files_scanned, run.files_excluded), (80, 80));
    assert_eq!(workers.load(Ordering::Acquire), 0);
    assert!(lock(&seen).is_empty());
}

#[test]
fn max_files_exactly_at_the_end() {
    let passed = |name: &str| name.starts_with("01");
    let nodes = [Node::Files(10), Node::Files(80)];
    let run = edge(&nodes, 1000, 90, passed);
    assert_eq!((run.truncation, run.files_scanned), (None, 90));
    let run = edge(&nodes, 1000, 89, passed);
    assert_eq!(run.truncation, Some(Truncation::MaxFiles));
    assert_eq!((run.files_scanned, run.files_excluded), (89, 79));
    // The last file is the only one that is searched.
    let run = edge(&nodes, 1000, 90, |name| name != "01.079");
    assert_eq!(
        (run.truncation, run.files_scanned, run.count),
        (None, 90, 1)
    );
    let run = edge(&nodes, 1000, 89, |name| name != "01.079");
    assert_eq!(run.truncation, Some(Truncation::MaxFiles));
    assert_eq!((run.files_scanned, run.count), (89, 0));
}

#[test]
fn files_passed_over_behind_the_last_searched_one_count() {
    let nodes = [
        Node::Dir(vec![Node::Files(3), Node::Files(40)]),
        Node::Files(5),
    ];
    let run = edge(&nodes, 1000, 1000, |name| !name.starts_with("00-00"));
    assert_eq!(
        (run.count, run.files_scanned, run.files_excluded),
        (3, 48, 45)
    );
    assert_eq!(run.truncation, None);
}

#[test]
fn a_full_answer_followed_by_skipped_files_only_is_not_truncated() {
    let nodes = [Node::Files(4), Node::Files(50)];
    let passed = |name: &str| name.starts_with("01");
    // As many events as allowed, and no more events follow: every file counts.
    let run = edge(&nodes, 4, 1000, passed);
    assert_eq!(
        (run.truncation, run.count, run.files_scanned),
        (None, 4, 54)
    );
    // The fourth event proves that there are more than three. Files after its file do not count.
    let run = edge(&nodes, 3, 1000, passed);
    assert_eq!(run.truncation, Some(Truncation::MaxResults));
    assert_eq!(
        (run.count, run.files_scanned, run.files_excluded),
        (3, 4, 0)
    );
    // Files that are skipped directly before that file count.
    let nodes = [
        Node::Files(3),
        Node::Files(50),
        Node::Files(1),
        Node::Files(7),
    ];
    let run = edge(&nodes, 3, 1000, |name| {
        name.starts_with("01") || name.starts_with("03")
    });
    assert_eq!(run.truncation, Some(Truncation::MaxResults));
    assert_eq!(
        (run.count, run.files_scanned, run.files_excluded),
        (3, 54, 50)
    );
}

#[test]
fn errors_among_files_passed_over_keep_their_place() {
    let nodes = [
        Node::Broken,
        Node::Files(5),
        Node::Broken,
        Node::Files(5),
        Node::Broken,
        Node::Files(1),
        Node::Broken,
    ];
    let passed = |name: &str| !name.starts_with("05");
    assert_eq!(
        errors(&edge(&nodes, 10, 100, passed)),
        ["00", "02", "04", "06"]
    );
    assert_eq!(
        errors(&edge(&nodes, 10, 11, passed)),
        ["00", "02", "04", "06"]
    );
    // An error after the last file that the limit allows counts only if no file follows.
    assert_eq!(errors(&edge(&nodes, 10, 10, passed)), ["00", "02"]);
    assert_eq!(errors(&edge(&nodes, 10, 5, passed)), ["00"]);
    assert_eq!(
        errors(&edge(&nodes[..5], 10, 10, passed)),
        ["00", "02", "04"]
    );
    assert_eq!(errors(&edge(&nodes[..5], 10, 9, passed)), ["00", "02"]);
}

#[test]
fn files_with_passed_ones_between_them_are_still_searched_in_full_pieces() {
    let (tree, _tmp) = Tree::new(vec![Node::Files(4000)]);
    let mut fake = Fake::new(|_, _| Ok(hit(0)));
    fake.batching = Batching {
        min_files: 100,
        max_files: 200,
    };
    let tasks = fake.tasks.clone();
    let source = Filtered::new(tree, SkipReports::OneByOne, |file| {
        dice(&file.found.name.to_string_lossy(), 0).is_multiple_of(2)
    });
    let run = run(source, Arc::new(fake), &options(10, 100_000, 2)).unwrap();
    assert_eq!(run.files_scanned, 4000);
    assert!(
        run.files_excluded.abs_diff(2000) < 300,
        "{}",
        run.files_excluded
    );
    let tasks = tasks.load(Ordering::Relaxed);
    assert!(tasks <= 30, "{tasks} tasks for 2000 files");
}

#[test]
fn nothing_is_searched_beyond_a_limit_that_files_passed_over_reach() {
    // All files but one of each directory are skipped: the files after it, or the files before it.
    for kept in ["000", "039"] {
        let (tree, _tmp) = Tree::new(vec![Node::Dir(vec![Node::Files(40)]); 100]);
        let first = format!("00-00.{kept}");
        // The first file takes until other workers have found that the limit of files lies before
        // the rest.
        let fake = Fake::new(move |name, stop| {
            if name == first {
                for _ in 0..300 {
                    if !stop.is_raised() {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            Ok(hit(1))
        });
        let seen = fake.seen.clone();
        let source = Filtered::new(tree, SkipReports::OnTheFile, move |file| {
            !file.found.name.to_string_lossy().ends_with(kept)
        });
        let run = run(source, Arc::new(fake), &options(1000, 200, 4)).unwrap();
        assert_eq!(run.truncation, Some(Truncation::MaxFiles));
        assert_eq!(
            (run.count, run.files_scanned, run.files_excluded),
            (5, 200, 195)
        );
        let searched = lock(&seen).len();
        assert!(searched < 12, "{searched} of 100 files were searched for 5");
    }
}

#[test]
fn a_deadline_counts_what_was_passed_over_before_the_gap() {
    let clock = Arc::new(Jump(SystemClock.now(), AtomicBool::new(false)));
    let (tree, _tmp) = Tree::new(vec![Node::Files(30), Node::Broken, Node::Files(30)]);
    let jump = clock.clone();
    let fake = Fake::new(move |name, stop| {
        if name == "02.005" {
            jump.1.store(true, Ordering::Release);
            while !stop.is_raised() {
                thread::yield_now();
            }
            return Ok(FileOutcome {
                complete: false,
                ..hit(1)
            });
        }
        Ok(hit(1))
    });
    let mut options = options(1000, 1000, 2);
    options.deadline = Deadline::after(Duration::from_secs(10), clock);
    let source = Filtered::new(tree, SkipReports::OnTheFile, |file| {
        let name = file.found.name.to_string_lossy();
        name.starts_with("00") || name.as_ref() < "02.005"
    });
    let run = run(source, Arc::new(fake), &options).unwrap();
    assert!(run.timed_out);
    assert_eq!(shown(&run), [("02.005".to_string(), 1)]);
    assert_eq!((run.files_scanned, run.files_excluded), (36, 35));
    assert_eq!(errors(&run), ["01"]);
}
