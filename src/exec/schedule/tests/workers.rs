//! The number of workers that a search starts, and the end of their work.

use super::*;

#[test]
fn a_search_without_files_starts_no_worker() {
    for nodes in [
        vec![],
        vec![Node::Broken],
        vec![Node::Files(0), Node::Broken],
    ] {
        let (tree, _tmp) = Tree::new(nodes.clone());
        let fake = Fake::new(|_, _| Ok(hit(1)));
        let workers = fake.workers.clone();
        let run = run(tree, Arc::new(fake), &options(10, 10, 8)).unwrap();
        let broken = nodes.iter().filter(|n| matches!(n, Node::Broken)).count();
        assert_eq!((run.files_scanned, run.errors.len()), (0, broken));
        assert_eq!(workers.load(Ordering::Acquire), 0);
    }
}

/// Returns a state with known files and one started worker, which has taken the first piece.
fn begun(files: usize, threads: usize) -> State<(Vec<Node>, String)> {
    let (tree, _tmp) = Tree::new(vec![Node::Files(files)]);
    let batching = Fake::new(|_, _| Ok(hit(0))).batching;
    let limits = options(10, 1000, threads).limits;
    let mut state = State::new(limits, threads);
    state.enqueue(&[], tree.start(), batching);
    assert_eq!(state.hire_for_any(), Some(1));
    state.started();
    assert!(state.take(batching).is_some());
    state
}

#[test]
fn few_files_start_one_worker() {
    assert_eq!(begun(4, 8).hire_for_much(), None);
    assert_eq!(begun(12, 8).hire_for_much(), None);
    // After the first piece has taken long, the queued work justifies one more worker, but not two.
    assert_eq!(begun(4, 8).hire_for_any(), None);
    let mut state = begun(8, 8);
    assert_eq!(state.hire_for_any(), Some(2));
    assert_eq!(state.hire_for_any(), None);

    let (tree, _tmp) = Tree::new(vec![Node::Files(4)]);
    let fake = Fake::new(|_, _| Ok(hit(1)));
    let workers = fake.workers.clone();
    let run = run(tree, Arc::new(fake), &options(10, 10, 8)).unwrap();
    assert_eq!(run.count, 4);
    assert_eq!(workers.load(Ordering::Acquire), 1);
}

#[test]
fn many_files_start_workers_until_there_are_enough() {
    let mut state = begun(16, 8);
    assert_eq!(state.hire_for_much(), Some(2));
    assert_eq!(state.hire_for_much(), None);
    let mut state = begun(100, 3);
    assert_eq!(state.hire_for_much(), Some(2));
    assert_eq!(state.hire_for_much(), Some(3));
    assert_eq!(state.hire_for_much(), None);
    // If no thread can be created for the third worker, there are two workers, and no further
    // attempt is made.
    state.no_more_workers();
    assert_eq!(state.hire_for_much(), None);
    assert_eq!(state.hire_for_any(), None);
    // An idle worker takes the next piece.
    let mut state = begun(100, 8);
    state.idle = 1;
    assert_eq!((state.hire_for_much(), state.hire_for_any()), (None, None));
}

#[test]
fn a_search_that_takes_its_time_gets_every_worker_it_has_work_for() {
    // Three pieces of work; two of them last until a third worker has started.
    let (tree, _tmp) = Tree::new(vec![Node::Files(12)]);
    let workers = Arc::new(AtomicUsize::new(0));
    let seen = workers.clone();
    let mut fake = Fake::new(move |name, _| {
        let wanted = if name < "00.008" { 3 } else { 0 };
        await_that("there are enough workers", || {
            seen.load(Ordering::Acquire) >= wanted
        });
        Ok(hit(1))
    });
    fake.workers = workers.clone();
    let run = run(tree, Arc::new(fake), &options(100, 100, 8)).unwrap();
    assert_eq!(run.count, 12);
    assert_eq!(workers.load(Ordering::Acquire), 3);
}

#[test]
fn there_are_never_more_workers_than_allowed() {
    let (tree, _tmp) = Tree::new(wide(40, 40));
    let fake = Fake::new(|_, _| {
        thread::yield_now();
        Ok(hit(1))
    });
    let workers = fake.workers.clone();
    let run = run(tree, Arc::new(fake), &options(100_000, 100_000, 3)).unwrap();
    assert_eq!(run.count, 1600);
    assert!(workers.load(Ordering::Acquire) <= 3);
}

#[test]
fn a_taker_that_wants_no_more_ends_the_search() {
    let (tree, _tmp) = Tree::new(wide(90, 90));
    let patience = Instant::now() + Duration::from_secs(10);
    // The last files wait for the end, because on a busy machine the workers may be done with all
    // others before the taker gets its first part.
    let fake = Fake::new(move |name, stop| {
        while name.starts_with("89") && !stop.is_raised() && Instant::now() < patience {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(hit(1))
    });
    let seen = fake.seen.clone();
    let mut taken = 0;
    let run = crate::exec::schedule::run(
        tree,
        Arc::new(fake),
        &options(100_000, 100_000, 2),
        &mut |_| {
            taken += 1;
            match taken {
                3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        },
    );
    assert!(run.is_ok());
    assert_eq!(taken, 3);
    assert!(lock(&seen).len() < 8100);
}
