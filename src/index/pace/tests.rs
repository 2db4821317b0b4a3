use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;

/// A clock that the test advances.
#[derive(Debug)]
struct Told {
    start: Instant,
    passed_ms: AtomicU64,
}

impl Told {
    fn now_ms(&self) -> u64 {
        self.passed_ms.load(Ordering::SeqCst)
    }

    fn pass(&self, ms: u64) {
        self.passed_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for Told {
    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.now_ms())
    }
}

fn pace(processors: usize, max_cpu_percent: u8) -> Pace {
    Pace {
        processors,
        max_cpu_percent,
        throttle_ms: 0,
        idle_boost_ms: 1_000,
    }
}

fn activity() -> (Arc<Told>, Arc<Activity>) {
    let clock = Arc::new(Told {
        start: Instant::now(),
        passed_ms: AtomicU64::new(0),
    });
    let activity = Arc::new(Activity::new(clock.clone()));
    (clock, activity)
}

/// Rests on the test's clock; returns for how long.
fn rest(pacer: &Pacer, clock: &Told, threads: usize, piece: Piece) -> u64 {
    let before = clock.now_ms();
    pacer.rest(threads, piece, &mut |time| {
        assert!(time <= Duration::from_millis(NAP_MS));
        clock.pass(time.as_millis() as u64);
        true
    });
    clock.now_ms() - before
}

proptest! {
    /// After each rest at the end of a batch, all work so far is within its share of all
    /// processors.
    #[test]
    fn a_build_never_exceeds_its_share_of_the_processors(
        processors in 1usize..130,
        percent in 1u8..=100,
        throttle_ms in 0u64..30,
        pieces in prop::collection::vec((0u64..400, 1usize..130, any::<bool>()), 1..60),
    ) {
        let (clock, activity) = activity();
        let _searching = activity.begin();
        let pacer = Pacer::new(Pace { throttle_ms, ..pace(processors, percent) }, activity.clone());
        let (mut taken, mut batches) = (0u128, 0u64);
        for (work_ms, threads, whole) in pieces {
            let threads = threads.min(processors);
            clock.pass(work_ms);
            taken += u128::from(work_ms) * threads as u128;
            let piece = if whole { Piece::Batch } else { Piece::Part };
            let rested = rest(&pacer, &clock, threads, piece);
            let all = u128::from(clock.now_ms()) * processors as u128 * u128::from(percent);
            if whole {
                batches += 1;
                prop_assert!(rested >= throttle_ms);
                prop_assert!(taken * 100 <= all, "{taken} of {all}");
            } else {
                // The postponed rest is bounded.
                let slack = u128::from(LEAST_REST_MS) * processors as u128 * u128::from(percent);
                prop_assert!(taken * 100 <= all + slack);
            }
        }
        prop_assert!(clock.now_ms() >= batches * throttle_ms);
    }

    /// The rest is the shortest that suffices.
    #[test]
    fn a_build_rests_no_longer_than_necessary(
        work_ms in 0u64..1_000_000,
        processors in 1usize..130,
        threads in 1usize..130,
        percent in 1u8..=100,
    ) {
        let rest_ms = pace(processors, percent).rest_after(work_ms, threads, Piece::Part, false);
        let within = |rest_ms: u64| {
            let all = u128::from(work_ms + rest_ms) * processors as u128 * u128::from(percent);
            u128::from(work_ms) * threads as u128 * 100 <= all
        };
        prop_assert!(within(rest_ms));
        prop_assert!(rest_ms == 0 || !within(rest_ms - 1));
    }
}

#[test]
fn half_of_two_processors_is_one_thread_without_rests() {
    let pace = Pace {
        throttle_ms: 10,
        ..pace(2, 50)
    };
    assert_eq!(pace.threads(2, false), 1);
    assert_eq!(pace.rest_after(200, 1, Piece::Part, false), 0);
    assert_eq!(pace.rest_after(200, 1, Piece::Batch, false), 10);
    assert_eq!(pace.rest_after(200, 2, Piece::Batch, false), 210);
    // A share of less than one processor is one thread that rests.
    assert_eq!(pace.threads(0, false), 1);
    let less = Pace {
        processors: 1,
        ..pace
    };
    assert_eq!(less.threads(2, false), 1);
    assert_eq!(less.rest_after(200, 1, Piece::Part, false), 200);
}

#[test]
fn values_beyond_reason_do_not_overflow() {
    let pace = Pace {
        processors: 0,
        max_cpu_percent: 0,
        throttle_ms: u64::MAX,
        idle_boost_ms: u64::MAX,
    };
    let rest = pace.rest_after(u64::MAX, usize::MAX, Piece::Batch, false);
    assert_eq!(rest, u64::MAX);
    assert_eq!(pace.threads(usize::MAX, false), 1);
}

#[test]
fn the_idle_boost_turns_on_and_off_exactly_at_the_limit() {
    let (clock, activity) = activity();
    let pacer = Pacer::new(pace(8, 25), activity.clone());
    let is = |idle: bool| {
        assert_eq!(pacer.is_idle(), idle);
        assert_eq!(pacer.threads(8), if idle { 8 } else { 2 });
    };
    // From the start, as if a search had just ended.
    is(false);
    clock.pass(999);
    is(false);
    clock.pass(1);
    is(true);
    let one = activity.begin();
    is(false);
    let other = activity.begin();
    assert_eq!(activity.running(), 2);
    clock.pass(5_000);
    is(false);
    drop(one);
    clock.pass(5_000);
    is(false);
    drop(other);
    is(false);
    clock.pass(999);
    is(false);
    clock.pass(1);
    is(true);
}

#[test]
fn a_build_is_not_held_back_while_nobody_searches() {
    let (clock, activity) = activity();
    let pace = Pace {
        throttle_ms: 10,
        ..pace(2, 50)
    };
    let pacer = Pacer::new(pace, activity.clone());
    clock.pass(1_000);
    assert_eq!(rest(&pacer, &clock, 2, Piece::Batch), 0);
    clock.pass(300);
    assert_eq!(rest(&pacer, &clock, 2, Piece::Batch), 0);
    let _searching = activity.begin();
    // Work done while no search ran needs no rest, except the piece in which the search started.
    clock.pass(100);
    assert_eq!(rest(&pacer, &clock, 2, Piece::Batch), 110);
}

#[test]
fn a_rest_ends_when_nobody_searches_any_more() {
    let (clock, activity) = activity();
    let pacer = Pacer::new(pace(1, 1), activity.clone());
    // The rest would take 99 times as long. After one second without a search, it ends.
    clock.pass(500);
    assert_eq!(rest(&pacer, &clock, 1, Piece::Batch), 500);
    assert!(pacer.is_idle());
}

#[test]
fn a_rest_ends_when_whoever_naps_says_so() {
    let (clock, activity) = activity();
    let _searching = activity.begin();
    let pacer = Pacer::new(pace(1, 1), activity);
    clock.pass(1_000);
    let mut naps = 0;
    pacer.rest(1, Piece::Batch, &mut |time| {
        clock.pass(time.as_millis() as u64);
        naps += 1;
        naps < 3
    });
    assert_eq!(naps, 3);
    assert_eq!(clock.now_ms(), 1_000 + 3 * NAP_MS);
}

#[test]
fn waiting_is_no_work() {
    let (clock, activity) = activity();
    let _searching = activity.begin();
    let pacer = Pacer::new(pace(1, 50), activity);
    clock.pass(30);
    pacer.wait(|| clock.pass(5_000));
    clock.pass(20);
    assert_eq!(rest(&pacer, &clock, 1, Piece::Batch), 50);
    pacer.wait(|| clock.pass(5_000));
    assert_eq!(rest(&pacer, &clock, 1, Piece::Batch), 0);
}

#[test]
fn short_rests_within_a_batch_are_put_together() {
    let (clock, activity) = activity();
    let _searching = activity.begin();
    let pacer = Pacer::new(pace(1, 50), activity);
    let mut rests = Vec::new();
    for _ in 0..4 {
        clock.pass(4);
        rests.push(rest(&pacer, &clock, 1, Piece::Part));
    }
    assert_eq!(rests, [0, 0, 12, 0]);
    assert_eq!(rest(&pacer, &clock, 1, Piece::Batch), 4);
}

#[test]
fn a_build_budget_says_which_limit_is_exceeded() {
    let budget = BuildBudget {
        max_ms: 10,
        max_files: 20,
        max_bytes: 30,
    };
    assert_eq!(budget.check(10, 20, 30), Ok(()));
    let (limit, found) = (10, 11);
    assert_eq!(
        budget.check(11, 21, 31),
        Err(BudgetError::Time { limit, found })
    );
    let (limit, found) = (20, 21);
    assert_eq!(
        budget.check(10, 21, 31),
        Err(BudgetError::Files { limit, found })
    );
    let (limit, found) = (30, 31);
    let bytes = budget.check(10, 20, 31).unwrap_err();
    assert_eq!(bytes, BudgetError::Bytes { limit, found });
    let said = bytes.to_string();
    assert!(said.contains("31") && said.contains("index_build_max_bytes = 30"));
    // Without limits, nothing is exceeded.
    let none = BuildBudget::default();
    assert_eq!(none.check(u64::MAX, u64::MAX, u64::MAX), Ok(()));
    assert_eq!((none.left_ms(5), budget.left_ms(4)), (u64::MAX, 6));
    assert_eq!(budget.left_ms(11), 0);
}
