//! Read your writes: after each write, a search for the new text and one for the old text follow at
//! once.

use std::time::Instant;

use super::engines::Scanning;
use super::requests::{Asked, Truth};
use super::tree::{Living, WRITING, WRITING_IN_PLACE};
use super::{Engine, first_seed, number};
use crate::differential::Seeded;
use crate::index_support::{Tally, agree};
use crate::support::{GUARD, is_long};

/// The maximal number of writes before the index may settle again.
const UNSETTLED: usize = 10;

/// The number of writes into one tree.
const WRITES_OF_A_TREE: u64 = 500;

/// The counts of writes and answers.
#[derive(Clone, Debug, Default)]
struct Pairs {
    writes: u64,
    tally: Tally,
    /// The right answers with events, and the right answers without any.
    found: u64,
    absent: u64,
    /// The wrong answers.
    stale: Vec<String>,
}

impl Pairs {
    /// Writes into a tree `writes` times, and asks an engine after each write.
    fn run(&mut self, seed: u64, writes: u64, engine: impl Fn(&Living) -> Box<dyn Engine>) {
        let mut living = Living::new(seed);
        let engine = engine(&living);
        let mut rng = Seeded::new(seed.wrapping_mul(0xBEEF));
        let mut until_settled = 0;
        let mut kinds = WRITING;
        for _ in 0..writes {
            if until_settled == 0 {
                engine.settle();
                until_settled = 1 + rng.below(UNSETTLED);
                kinds = rng.pick(&[WRITING, WRITING_IN_PLACE]);
            }
            until_settled -= 1;
            living.change(kinds);
            self.writes += 1;
            let tokens = [Some(living.written.clone()), living.removed.clone()];
            for token in tokens.into_iter().flatten() {
                let asked = Asked::literal(&token);
                let truth = asked.truth(living.root()).unwrap();
                let answer = engine.search(&asked.request);
                self.tally.add(agree(&answer, &answer).unwrap());
                if Truth::claimed(&answer).as_ref() == Some(&truth) {
                    self.found += u64::from(!truth.events.is_empty());
                    self.absent += u64::from(truth.events.is_empty());
                } else {
                    let history = living.history().split_off(12).join("\n  ");
                    self.stale.push(format!(
                        "seed {seed}, write {}: {token}\n  {answer}\n  {truth:?}\n  {history}",
                        self.writes
                    ));
                }
            }
        }
    }

    #[track_caller]
    fn check(&self) {
        println!(
            "{} writes, {} searches at once: {} stale; {} found a token, {} none; {} used the index, {} left out \
             files, {} files in all",
            self.writes,
            self.tally.compared,
            self.stale.len(),
            self.found,
            self.absent,
            self.tally.used,
            self.tally.excluding,
            self.tally.excluded
        );
        let first = self.stale.iter().take(3).cloned().collect::<Vec<_>>();
        assert!(self.stale.is_empty(), "{}", first.join("\n"));
    }
}

#[test]
fn a_search_right_after_a_write_sees_it() {
    check(super::VALIDATING);
}

#[test]
fn a_search_right_after_a_write_sees_it_with_an_index_that_lives() {
    check(super::ALIVE);
}

fn check(make: super::Make) {
    let writes = number("FORGE_SEARCH_TEST_PAIRS", 80);
    let mut pairs = Pairs::default();
    let mut seed = first_seed();
    let start = Instant::now();
    // The scheduler decides how often a live index is fast enough, so the test repeats until enough
    // searches have excluded files.
    while pairs.writes < writes || pairs.tally.excluding * 4 < writes {
        assert!(
            pairs.writes < writes || start.elapsed() < GUARD,
            "{pairs:?}"
        );
        let some = match writes.saturating_sub(pairs.writes) {
            0 => WRITES_OF_A_TREE,
            left => WRITES_OF_A_TREE.min(left),
        };
        pairs.run(seed, some, |living| make(living, seed));
        seed += 1;
    }
    pairs.check();
    assert!(
        pairs.found * 2 > writes && pairs.absent * 10 > writes,
        "{pairs:?}"
    );
}

/// Answers from an outdated state are counted as stale.
#[test]
fn stale_answers_are_counted() {
    let mut pairs = Pairs::default();
    pairs.run(1, 60, |living| Box::new(Scanning::new(living.tree())));
    assert_eq!(pairs.stale.len(), 0);
    let late = |living: &Living| -> Box<dyn Engine> {
        Box::new(super::engines::Known::new(
            living.tree(),
            |known, now, _| known.is_some_and(|known| known.modified == now.modified),
        ))
    };
    pairs.run(1, if is_long() { 400 } else { 150 }, late);
    assert!(!pairs.stale.is_empty(), "{pairs:?}");
}
