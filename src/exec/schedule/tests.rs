mod failures;
mod listing;
mod parts;
mod passed;
mod workers;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::exec::answer::outcome::{FileAnswer, Line, LineKind, Span};
use crate::exec::engine::Worker;
use crate::exec::question::query::Report;
use crate::exec::stop::{Clock, SystemClock};
use crate::index::root_dir::RootDir;
use crate::index::walk::{FoundFile, Place};

/// A tree of numbered files: a node is a number of files, followed by more nodes.
#[derive(Clone, Debug)]
enum Node {
    Files(usize),
    Dir(Vec<Node>),
    Broken,
}

struct Tree(Vec<Node>, Arc<Place>);

impl Tree {
    fn new(nodes: Vec<Node>) -> (Tree, tempfile::TempDir) {
        let tmp = tempfile::tempdir().unwrap();
        let root = RootDir::open(&tmp.path().canonicalize().unwrap()).unwrap();
        let place = Place {
            root: Arc::new(root),
            real: PathBuf::new(),
            logical: PathBuf::new(),
        };
        (Tree(nodes, Arc::new(place)), tmp)
    }

    fn items(&self, nodes: &[Node], path: &str) -> Vec<Item<(Vec<Node>, String)>> {
        let mut items = Vec::new();
        for (n, node) in nodes.iter().enumerate() {
            let at = format!("{path}{n:02}");
            match node {
                Node::Files(count) => items.extend((0..*count).map(|file| {
                    Item::File(
                        FoundFile {
                            dir: self.1.clone(),
                            name: OsString::from(format!("{at}.{file:03}")),
                            target: None,
                        }
                        .into(),
                    )
                })),
                Node::Dir(inner) => items.push(Item::Unit((inner.clone(), format!("{at}-")))),
                Node::Broken => items.push(Item::Error(FileError {
                    target: 0,
                    path: PathBuf::from(at),
                    message: "broken".to_string(),
                })),
            }
        }
        items
    }

    /// The names of all files, in order.
    fn names(nodes: &[Node], path: &str, out: &mut Vec<String>) {
        for (n, node) in nodes.iter().enumerate() {
            let at = format!("{path}{n:02}");
            match node {
                Node::Files(count) => out.extend((0..*count).map(|file| format!("{at}.{file:03}"))),
                Node::Dir(inner) => Tree::names(inner, &format!("{at}-"), out),
                Node::Broken => {}
            }
        }
    }
}

impl FileSource for Tree {
    type Unit = (Vec<Node>, String);

    fn start(&self) -> Vec<Item<Self::Unit>> {
        self.items(&self.0, "")
    }

    fn expand(&self, (nodes, path): Self::Unit, _: &Stop) -> Vec<Item<Self::Unit>> {
        self.items(&nodes, &path)
    }
}

/// The behaviour of the fake engine for one file.
type Behaviour = dyn Fn(&str, &Stop) -> Result<FileOutcome, EngineError> + Send + Sync;

struct Fake {
    behaviour: Arc<Behaviour>,
    batching: Batching,
    /// Names of all files that were searched.
    seen: Arc<Mutex<BTreeSet<String>>>,
    tasks: Arc<AtomicUsize>,
    /// The number of workers that were started.
    workers: Arc<AtomicUsize>,
}

impl Fake {
    fn new(
        behaviour: impl Fn(&str, &Stop) -> Result<FileOutcome, EngineError> + Send + Sync + 'static,
    ) -> Fake {
        Fake {
            behaviour: Arc::new(behaviour),
            batching: Batching {
                min_files: 1,
                max_files: 8,
            },
            seen: Arc::default(),
            tasks: Arc::default(),
            workers: Arc::default(),
        }
    }
}

struct FakeWorker {
    behaviour: Arc<Behaviour>,
    stop: Stop,
    seen: Arc<Mutex<BTreeSet<String>>>,
    tasks: Arc<AtomicUsize>,
}

impl Prepared for Fake {
    fn batching(&self) -> Batching {
        self.batching
    }

    fn worker(&self, stop: Stop) -> Box<dyn Worker> {
        self.workers.fetch_add(1, Ordering::AcqRel);
        Box::new(FakeWorker {
            behaviour: self.behaviour.clone(),
            stop,
            seen: self.seen.clone(),
            tasks: self.tasks.clone(),
        })
    }
}

impl Worker for FakeWorker {
    fn search(
        &mut self,
        files: &[EligibleFile],
        emit: &mut dyn FnMut(usize, FileOutcome),
    ) -> Result<(), EngineError> {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        for (n, file) in files.iter().enumerate() {
            if self.stop.is_raised() {
                break;
            }
            let name = file.found.name.to_string_lossy().into_owned();
            let outcome = (self.behaviour)(&name, &self.stop)?;
            lock(&self.seen).insert(name);
            emit(n, outcome);
        }
        Ok(())
    }
}

fn hit(count: usize) -> FileOutcome {
    let line = |n: usize| Line {
        kind: LineKind::Match,
        number: n as u64 + 1,
        text: Box::from(*b"x"),
        spans: [Span {
            start: 0,
            end: 1,
            edits: 0,
        }]
        .into(),
        place: None,
    };
    FileOutcome {
        lines: (0..count).map(line).collect(),
        matched_lines: count as u64,
        matches: count as u64,
        ..FileOutcome::nothing()
    }
}

/// Returns the limit that ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truncation {
    MaxResults,
    MaxFiles,
}

/// A run with all parts of its answer.
#[derive(Clone, Debug, PartialEq)]
struct Whole {
    files: Vec<FileAnswer>,
    errors: Vec<FileError>,
    count: usize,
    files_scanned: u64,
    files_excluded: u64,
    truncation: Option<Truncation>,
    timed_out: bool,
    failure: Option<EngineError>,
}

/// Runs a search and keeps all parts of its answer.
fn run<S: FileSource>(
    source: S,
    prepared: Arc<dyn Prepared>,
    options: &RunOptions,
) -> Result<Whole, RunError> {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    let run = super::run(source, prepared, options, &mut |found| {
        match found {
            Found::File(file) => files.push(file),
            Found::Listed(listed) => files.extend(listed.iter().map(|path| FileAnswer {
                target: listed.target,
                path: path.into_owned(),
                outcome: FileOutcome::listed(),
            })),
            Found::Error(error) => errors.push(error),
        }
        ControlFlow::Continue(())
    })?;
    let Run { totals, cuts, .. } = run;
    assert_eq!(totals.errors, errors.len() as u64);
    Ok(Whole {
        files,
        errors,
        count: totals.results,
        files_scanned: totals.files_scanned,
        files_excluded: totals.files_excluded,
        truncation: match (cuts.max_results, cuts.max_files) {
            (true, _) => Some(Truncation::MaxResults),
            (_, true) => Some(Truncation::MaxFiles),
            _ => None,
        },
        timed_out: run.timed_out,
        failure: run.failure,
    })
}

/// How long a test waits before it counts as hung.
const GUARD: Duration = Duration::from_secs(300);

fn options(max_results: usize, max_files: u64, threads: usize) -> RunOptions {
    RunOptions {
        limits: Limits {
            max_results,
            max_files,
            report: Report::Lines,
        },
        threads,
        deadline: Deadline::after(GUARD, Arc::new(SystemClock)),
        cancel: CancelHandle::new(),
        abandoned: AbandonedWorkers::default(),
    }
}

fn shown(run: &Whole) -> Vec<(String, u64)> {
    let lines = run.files.iter().flat_map(|file| {
        let name = file.path.to_string_lossy().into_owned();
        let lines = file.outcome.lines.iter();
        lines.map(move |line| (name.clone(), line.number))
    });
    lines.collect()
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let leaf = prop_oneof![
        4 => (0usize..20).prop_map(Node::Files),
        1 => Just(Node::Broken),
    ];
    let node = leaf.prop_recursive(4, 24, 5, |inner| {
        prop::collection::vec(inner, 0..5).prop_map(Node::Dir)
    });
    prop::collection::vec(node, 0..6)
}

/// Returns the number of events of a file, from 0 to 3.
fn events_in(name: &str) -> usize {
    name.bytes().map(usize::from).sum::<usize>() % 4
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Files finish in any order, since their work takes different times, on any number of threads.
    /// The answer is always that of a sequential search.
    #[test]
    fn the_order_of_completion_never_shows(
        nodes in nodes(),
        max_results in 1usize..40,
        max_files in 1u64..60,
        threads in 1usize..5,
        min_files in 1usize..12,
    ) {
        let mut names = Vec::new();
        Tree::names(&nodes, "", &mut names);
        let mut expected = Vec::new();
        let (mut scanned, mut truncated) = (0, None);
        'files: for (n, name) in names.iter().enumerate() {
            if n as u64 == max_files {
                truncated = Some(Truncation::MaxFiles);
                break;
            }
            scanned += 1;
            for line in 0..events_in(name) {
                if expected.len() == max_results {
                    truncated = Some(Truncation::MaxResults);
                    break 'files;
                }
                expected.push((name.clone(), line as u64 + 1));
            }
        }
        let (tree, _tmp) = Tree::new(nodes);
        let mut fake = Fake::new(|name, _| {
            if name.len() % 3 == 0 {
                thread::yield_now();
            }
            Ok(hit(events_in(name)))
        });
        fake.batching.min_files = min_files;
        let run = run(tree, Arc::new(fake), &options(max_results, max_files, threads)).unwrap();
        prop_assert_eq!(shown(&run), expected);
        prop_assert_eq!(run.truncation, truncated);
        prop_assert_eq!(run.files_scanned, scanned);
        prop_assert!(!run.timed_out);
        prop_assert_eq!(run.failure, None);
    }
}

/// Waits until a condition holds; panics if that takes too long.
fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let began = SystemClock.now();
    while !is_so() {
        assert!(SystemClock.now() - began < GUARD, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn wide(dirs: usize, files: usize) -> Vec<Node> {
    vec![Node::Dir(vec![Node::Files(files)]); dirs]
}

#[test]
fn an_early_limit_leaves_the_rest_of_the_tree_alone() {
    let (tree, _tmp) = Tree::new(wide(90, 90));
    let fake = Fake::new(|_, _| Ok(hit(1)));
    let seen = fake.seen.clone();
    let run = run(tree, Arc::new(fake), &options(20, 1_000_000, 2)).unwrap();
    assert_eq!(run.count, 20);
    assert_eq!(run.truncation, Some(Truncation::MaxResults));
    assert_eq!(run.files_scanned, 21);
    let touched = lock(&seen).len();
    assert!(
        touched < 400,
        "{touched} of 8100 files were searched for 20 results"
    );
}

/// A clock that stands still until the worker hangs, and then jumps far ahead.
#[derive(Debug)]
struct Jump(Instant, AtomicBool);
impl Clock for Jump {
    fn now(&self) -> Instant {
        let ahead = Duration::from_secs(u64::from(self.1.load(Ordering::Acquire)) * 3600);
        self.0 + ahead
    }
}

#[test]
fn a_deadline_yields_the_prefix_before_the_gap() {
    let clock = Arc::new(Jump(SystemClock.now(), AtomicBool::new(false)));
    let (tree, _tmp) = Tree::new(vec![Node::Files(30)]);
    let jump = clock.clone();
    let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let searched = seen.clone();
    // File 13 answers only in part after the stop, which comes when all earlier files were
    // searched.
    let mut fake = Fake::new(move |name, stop| {
        if name != "00.013" {
            return Ok(hit(1));
        }
        while lock(&searched).range(..name.to_string()).count() < 13 {
            thread::yield_now();
        }
        jump.1.store(true, Ordering::Release);
        while !stop.is_raised() {
            thread::yield_now();
        }
        Ok(FileOutcome {
            complete: false,
            ..hit(2)
        })
    });
    fake.seen = seen;
    let mut options = options(1000, 1000, 2);
    options.deadline = Deadline::after(Duration::from_secs(10), clock);
    let run = run(tree, Arc::new(fake), &options).unwrap();
    assert!(run.timed_out);
    let expected: Vec<(String, u64)> = (0..13)
        .map(|n| (format!("00.{n:03}"), 1))
        .chain([("00.013".to_string(), 1), ("00.013".to_string(), 2)])
        .collect();
    assert_eq!(shown(&run), expected);
    assert_eq!(run.files_scanned, 14);
    assert_eq!(run.truncation, None);
}

#[test]
fn cancelling_ends_the_call_without_a_result() {
    let (tree, _tmp) = Tree::new(wide(10, 10));
    let options = options(1000, 1000, 2);
    let cancel = options.cancel.clone();
    let fake = Fake::new(move |name, stop| {
        if name == "03-00.004" {
            cancel.cancel();
            while !stop.is_raised() {
                thread::yield_now();
            }
        }
        Ok(hit(1))
    });
    assert_eq!(
        run(tree, Arc::new(fake), &options).unwrap_err(),
        RunError::Cancelled
    );
}

#[test]
fn errors_after_the_end_are_not_reported() {
    let nodes = vec![
        Node::Broken,
        Node::Files(2),
        Node::Broken,
        Node::Files(2),
        Node::Broken,
    ];
    let run_with = |max_results, max_files| {
        let (tree, _tmp) = Tree::new(nodes.clone());
        let fake = Fake::new(|_, _| Ok(hit(1)));
        let run = run(tree, Arc::new(fake), &options(max_results, max_files, 2)).unwrap();
        let errors: Vec<String> = run
            .errors
            .iter()
            .map(|error| error.path.to_string_lossy().into_owned())
            .collect();
        (errors.join(" "), run.files_scanned)
    };
    assert_eq!(run_with(100, 100), ("00 02 04".to_string(), 4));
    // The third event, beyond the limit, is in the third file.
    assert_eq!(run_with(2, 100), ("00 02".to_string(), 3));
    assert_eq!(run_with(1, 100), ("00".to_string(), 2));
    assert_eq!(run_with(100, 2), ("00".to_string(), 2));
    // Exactly as many files as allowed: no file is cut off.
    assert_eq!(run_with(100, 4), ("00 02 04".to_string(), 4));
}

#[test]
fn engines_with_costly_tasks_get_full_ones() {
    let (tree, _tmp) = Tree::new(wide(50, 7));
    let mut fake = Fake::new(|_, _| Ok(hit(0)));
    fake.batching = Batching {
        min_files: 100,
        max_files: 200,
    };
    let tasks = fake.tasks.clone();
    let run = run(tree, Arc::new(fake), &options(10, 100_000, 2)).unwrap();
    assert_eq!(run.files_scanned, 350);
    let tasks = tasks.load(Ordering::Relaxed);
    assert!(tasks <= 8, "{tasks} tasks for 350 files");
}

#[test]
fn a_worker_hands_over_what_it_has_before_it_holds_too_much() {
    let (tree, _tmp) = Tree::new(vec![Node::Files(40), Node::Dir(vec![Node::Files(3)])]);
    let mut fake = Fake::new(|_, _| {
        let mut outcome = hit(1);
        outcome.lines[0].text = vec![b'x'; PIECE_BYTES / 2].into();
        Ok(outcome)
    });
    fake.batching.max_files = 1000;
    let run = run(tree, Arc::new(fake), &options(100, 100, 2)).unwrap();
    let mut names = Vec::new();
    Tree::names(
        &[Node::Files(40), Node::Dir(vec![Node::Files(3)])],
        "",
        &mut names,
    );
    let expected: Vec<(String, u64)> = names.into_iter().map(|name| (name, 1)).collect();
    assert_eq!(shown(&run), expected);
    assert_eq!(run.failure, None);
}

#[test]
fn nothing_is_searched_behind_what_is_known_to_be_enough() {
    // The first file takes until other workers have found everything that can be shown.
    let (tree, _tmp) = Tree::new(vec![Node::Files(4000)]);
    let fake = Fake::new(|name, stop| {
        if name == "00.000" {
            for _ in 0..300 {
                if !stop.is_raised() {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(hit(1))
    });
    let seen = fake.seen.clone();
    let run = run(tree, Arc::new(fake), &options(20, 1_000_000, 4)).unwrap();
    assert_eq!((run.count, run.files_scanned), (20, 21));
    let searched = lock(&seen).len();
    assert!(
        searched < 200,
        "{searched} of 4000 files were searched for 20 results"
    );
}

#[test]
fn the_first_part_is_handed_out_while_the_search_goes_on() {
    let (tree, _tmp) = Tree::new(vec![Node::Files(40)]);
    let taken = Arc::new(AtomicBool::new(false));
    let seen = taken.clone();
    // The last file is searched only after the first one was passed to the caller.
    let fake = Fake::new(move |name, _| {
        await_that("the first file is handed out", || {
            name != "00.039" || seen.load(Ordering::Acquire)
        });
        Ok(hit(1))
    });
    let options = options(1000, 1000, 2);
    let run = super::run(tree, Arc::new(fake), &options, &mut |_| {
        taken.store(true, Ordering::Release);
        ControlFlow::Continue(())
    });
    let run = run.unwrap();
    assert_eq!((run.totals.results, run.failure), (40, None));
}

#[test]
fn workers_wait_for_a_taker_that_is_slow() {
    let (tree, _tmp) = Tree::new(wide(60, 4));
    let mut fake = Fake::new(|_, _| {
        let mut outcome = hit(1);
        outcome.lines[0].text = vec![b'x'; 1 << 20].into();
        Ok(outcome)
    });
    fake.batching.max_files = 1;
    let searched = fake.seen.clone();
    let (mut taken, mut most_ahead) = (0, 0);
    let run = super::run(tree, Arc::new(fake), &options(1000, 1000, 2), &mut |_| {
        if taken == 0 {
            // Long enough for the workers to search everything, if nothing paused them.
            for _ in 0..200 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        taken += 1;
        most_ahead = most_ahead.max(lock(&searched).len() - taken);
        ControlFlow::Continue(())
    });
    assert_eq!(run.unwrap().totals.results, 240);
    // The files that are being passed on, as many that are ready or wait for an earlier piece, and
    // those that are being searched.
    let limit = 2 * (READY_BYTES + WINDOW_BYTES) / (1 << 20) + 4;
    assert!(
        most_ahead <= limit,
        "{most_ahead} files of a megabyte waited"
    );
}
