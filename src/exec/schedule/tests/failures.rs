//! Engines and workers that fail, or do not end.

use std::time::Instant;

use super::*;
use crate::exec::engine::Worker;
use crate::exec::stop::{Clock, SystemClock};

#[test]
fn a_worker_that_never_looks_up_is_left_behind_and_counted() {
    let release = Arc::new(AtomicBool::new(false));
    let (tree, _tmp) = Tree::new(vec![Node::Files(3)]);
    let hold = release.clone();
    let clock = Arc::new(Jump(SystemClock.now(), AtomicBool::new(false)));
    let jump = clock.clone();
    let fake = Fake::new(move |name, _| {
        jump.1.store(name == "00.001", Ordering::Release);
        while name == "00.001" && !hold.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(hit(1))
    });
    let mut options = options(1000, 1000, 1);
    options.deadline = Deadline::after(Duration::from_secs(10), clock);
    let abandoned = options.abandoned.clone();
    // The worker is blocked until this call has returned.
    let run = run(tree, Arc::new(fake), &options).unwrap();
    assert!(run.timed_out);
    assert_eq!(shown(&run), [("00.000".to_string(), 1)]);
    assert_eq!(abandoned.count(), 1);
    release.store(true, Ordering::Release);
    await_that("the worker that ended is not counted", || {
        abandoned.count() == 0
    });
}

#[test]
fn too_many_abandoned_workers_refuse_the_next_call() {
    let options = options(1, 1, 1);
    options
        .abandoned
        .0
        .store(ABANDONED_LIMIT, Ordering::Release);
    let (tree, _tmp) = Tree::new(vec![Node::Files(1)]);
    let error = run(tree, Arc::new(Fake::new(|_, _| Ok(hit(1)))), &options).unwrap_err();
    assert!(matches!(error, RunError::NoWorkers(message) if message.contains("still busy")));
}

/// A clock that ends an abandoned worker when it is read for the tenth time.
#[derive(Debug)]
struct Finishing(AtomicUsize, AbandonedWorkers);

impl Clock for Finishing {
    fn now(&self) -> Instant {
        if self.0.fetch_add(1, Ordering::AcqRel) == 10 {
            self.1.0.fetch_sub(1, Ordering::AcqRel);
        }
        SystemClock.now()
    }
}

#[test]
fn workers_that_are_only_finishing_do_not_refuse_the_next_call() {
    let mut options = options(10, 10, 1);
    let busy = options.abandoned.clone();
    busy.0.store(ABANDONED_LIMIT, Ordering::Release);
    let clock = Finishing(AtomicUsize::new(0), busy.clone());
    options.deadline = Deadline::after(GUARD, Arc::new(clock));
    let (tree, _tmp) = Tree::new(vec![Node::Files(1)]);
    let run = run(tree, Arc::new(Fake::new(|_, _| Ok(hit(1)))), &options).unwrap();
    assert_eq!((run.count, busy.count()), (1, ABANDONED_LIMIT - 1));
}

#[test]
fn an_engine_that_leaves_files_out_is_a_failure_and_not_a_hang() {
    struct Lazy;
    impl Prepared for Lazy {
        fn batching(&self) -> Batching {
            Batching {
                min_files: 2,
                max_files: 8,
            }
        }
        fn worker(&self, _: Stop) -> Box<dyn Worker> {
            Box::new(Lazy)
        }
    }
    impl Worker for Lazy {
        fn search(
            &mut self,
            _: &[EligibleFile],
            emit: &mut dyn FnMut(usize, FileOutcome),
        ) -> Result<(), EngineError> {
            emit(0, hit(1));
            Ok(())
        }
    }
    let (tree, _tmp) = Tree::new(vec![Node::Files(20)]);
    let run = run(tree, Arc::new(Lazy), &options(100, 100, 2)).unwrap();
    assert!(!run.timed_out);
    assert_eq!(run.count, 1);
    assert!(matches!(run.failure, Some(EngineError::Failed { .. })));
}

#[test]
fn a_failing_engine_yields_the_prefix_and_the_failure() {
    let (tree, _tmp) = Tree::new(vec![Node::Files(40)]);
    let fail = EngineError::Failed {
        message: "out of order".to_string(),
        stderr: None,
    };
    let error = fail.clone();
    let fake = Fake::new(move |name, _| {
        if name == "00.017" {
            Err(error.clone())
        } else {
            Ok(hit(1))
        }
    });
    let run = run(tree, Arc::new(fake), &options(1000, 1000, 1)).unwrap();
    assert_eq!(run.failure, Some(fail));
    let expected: Vec<(String, u64)> = (0..17).map(|n| (format!("00.{n:03}"), 1)).collect();
    assert_eq!(shown(&run), expected);
}

#[test]
fn a_panic_in_a_worker_is_a_failure_and_not_a_hang() {
    let (tree, _tmp) = Tree::new(vec![Node::Files(40)]);
    let fake = Fake::new(|name, _| {
        assert!(name != "00.020", "planted");
        Ok(hit(1))
    });
    let run = run(tree, Arc::new(fake), &options(1000, 1000, 2)).unwrap();
    assert!(matches!(run.failure, Some(EngineError::Failed { .. })));
    assert!(run.count <= 20);
}

#[test]
fn a_task_that_panics_gives_its_count_back() {
    let options = options(1, 1, 1);
    let error = within(&options, || -> u8 { panic!("planted") }).unwrap_err();
    assert!(matches!(error, RunError::NoWorkers(_)));
    assert_eq!(within(&options, || 7).unwrap(), Some(7));
    assert_eq!(options.abandoned.count(), 0);
}
