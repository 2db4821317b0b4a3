//! The outcome of a large file arrives in several parts.

use super::*;

/// Returns the number of lines of a file. Called before each part with the number of parts so far.
type LinesOf = dyn Fn(&str, usize) -> usize + Send + Sync;

/// An engine that reports each line of a file in a part of its own.
struct InParts {
    lines: Arc<LinesOf>,
    /// The bytes of a line.
    line_bytes: usize,
    /// The number of parts that workers have passed on, by file.
    passed_on: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl InParts {
    fn new(
        line_bytes: usize,
        lines: impl Fn(&str, usize) -> usize + Send + Sync + 'static,
    ) -> InParts {
        InParts {
            lines: Arc::new(lines),
            line_bytes,
            passed_on: Arc::default(),
        }
    }
}

struct PartsWorker {
    lines: Arc<LinesOf>,
    line_bytes: usize,
    passed_on: Arc<Mutex<BTreeMap<String, usize>>>,
    stop: Stop,
}

impl Prepared for InParts {
    fn batching(&self) -> Batching {
        Batching {
            min_files: 1,
            max_files: 4,
        }
    }

    fn worker(&self, stop: Stop) -> Box<dyn Worker> {
        Box::new(PartsWorker {
            lines: self.lines.clone(),
            line_bytes: self.line_bytes,
            passed_on: self.passed_on.clone(),
            stop,
        })
    }
}

impl Worker for PartsWorker {
    fn search(
        &mut self,
        files: &[EligibleFile],
        emit: &mut dyn FnMut(usize, FileOutcome),
    ) -> Result<(), EngineError> {
        for (n, file) in files.iter().enumerate() {
            let name = file.found.name.to_string_lossy().into_owned();
            let mut passed_on = 0;
            while passed_on < (self.lines)(&name, passed_on) {
                if self.stop.is_raised() {
                    emit(
                        n,
                        FileOutcome {
                            complete: false,
                            ..FileOutcome::nothing()
                        },
                    );
                    return Ok(());
                }
                let mut line = hit(1).lines.remove(0);
                line.number += passed_on as u64;
                line.text = vec![b'x'; self.line_bytes].into();
                emit(n, FileOutcome::part(vec![line]));
                passed_on += 1;
                *lock(&self.passed_on).entry(name.clone()).or_default() += 1;
            }
            emit(
                n,
                FileOutcome {
                    searched_bytes: 7,
                    ..FileOutcome::nothing()
                },
            );
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn parts_of_files_make_the_same_answer_as_whole_files(
        nodes in nodes(),
        max_results in 1usize..40,
        max_files in 1u64..60,
        threads in 1usize..5,
        line_bytes in prop::sample::select(vec![1, AHEAD_BYTES / 2]),
    ) {
        let options = options(max_results, max_files, threads);
        let (tree, _tmp) = Tree::new(nodes.clone());
        let whole = run(tree, Arc::new(Fake::new(|name, _| Ok(hit(events_in(name))))), &options);
        let whole = whole.unwrap();
        let (tree, _tmp) = Tree::new(nodes);
        let parts = InParts::new(line_bytes, |name, _| events_in(name));
        let parts = run(tree, Arc::new(parts), &options).unwrap();
        prop_assert_eq!(shown(&parts), shown(&whole));
        let of_run = |run: &Whole| {
            let (count, scanned) = (run.count, run.files_scanned);
            (count, scanned, run.errors.clone(), run.truncation, run.failure.clone())
        };
        prop_assert_eq!(of_run(&parts), of_run(&whole));
    }
}

#[test]
fn a_file_counts_once_whatever_the_number_of_its_parts() {
    let (tree, _tmp) = Tree::new(vec![Node::Files(3)]);
    let parts = InParts::new(1, |name, _| if name == "00.001" { 0 } else { 5 });
    let run = super::super::run(tree, Arc::new(parts), &options(1000, 1000, 2), &mut |_| {
        ControlFlow::Continue(())
    });
    let totals = run.unwrap().totals;
    assert_eq!((totals.results, totals.matched_files), (10, 2));
    assert_eq!((totals.files_scanned, totals.searched_bytes), (3, 21));
}

#[test]
fn the_first_parts_of_a_file_are_handed_out_while_it_is_searched() {
    let (tree, _tmp) = Tree::new(vec![Node::Files(2)]);
    let taken = Arc::new(AtomicUsize::new(0));
    let seen = taken.clone();
    let parts = InParts::new(1, move |_, passed_on| {
        if passed_on == 1 {
            await_that("the first part is handed out", || {
                seen.load(Ordering::Acquire) > 0
            });
        }
        3
    });
    let run = super::super::run(tree, Arc::new(parts), &options(1000, 1000, 1), &mut |_| {
        taken.fetch_add(1, Ordering::AcqRel);
        ControlFlow::Continue(())
    });
    assert_eq!(run.unwrap().totals.results, 6);
}

/// Two directories of one large file each. The first file is held back until the second one is
/// `ahead` megabytes ahead.
fn held_back(ahead: usize) -> InParts {
    let passed_on: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let seen = passed_on.clone();
    let lines = move |name: &str, parts: usize| {
        if name.starts_with("00") && parts == 0 {
            await_that("the second file is ahead", || {
                lock(&seen)
                    .get("01-00.000")
                    .is_some_and(|parts| *parts >= ahead)
            });
        }
        20
    };
    InParts {
        passed_on,
        ..InParts::new(1 << 20, lines)
    }
}

fn two_dirs() -> Vec<Node> {
    vec![Node::Dir(vec![Node::Files(1)]); 2]
}

#[test]
fn a_worker_waits_within_a_file_that_is_not_next() {
    let (tree, _tmp) = Tree::new(two_dirs());
    let most = AHEAD_BYTES >> 20;
    // The last of these parts makes the worker wait, so it is not passed on before the others are
    // emitted.
    let parts = held_back(most - 1);
    let passed_on = parts.passed_on.clone();
    let mut ahead_at_first = None;
    let run = super::super::run(tree, Arc::new(parts), &options(1000, 1000, 2), &mut |_| {
        ahead_at_first.get_or_insert_with(|| lock(&passed_on)["01-00.000"]);
        ControlFlow::Continue(())
    });
    assert_eq!(run.unwrap().totals.results, 40);
    assert_eq!(ahead_at_first, Some(most - 1));
}

#[test]
fn a_call_that_ends_also_ends_workers_that_wait_within_a_file() {
    let (tree, _tmp) = Tree::new(two_dirs());
    let parts = held_back((AHEAD_BYTES >> 20) - 1);
    let options = options(1000, 1000, 2);
    let run = super::super::run(tree, Arc::new(parts), &options, &mut |_| {
        ControlFlow::Break(())
    });
    assert!(run.is_ok());
    await_that("all workers end", || options.abandoned.count() == 0);
}
