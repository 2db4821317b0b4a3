//! A tree that changes all the time, and an index that has to follow. After every change, random
//! requests are answered with the index and without it. Where possible, a third way that shares no
//! code with the other two gives the answer too. All answers must be equal.
//!
//! An implementation under test is an [`Engine`]. Three environment variables size the tests:
//!
//! - `FORGE_SEARCH_TEST_OPS`: the number of changes that
//!   [`random_changes_are_seen_by_every_request`] makes;
//! - `FORGE_SEARCH_TEST_PAIRS`: the number of writes in [`pairs`], each of which is followed by a
//!   search at once;
//! - `FORGE_SEARCH_TEST_SEED`: the seed of the first tree. A mismatch names the seed of its tree;
//!   with that seed, the first tree of the next run makes the same changes.

mod changes;
mod engines;
mod pairs;
mod requests;
mod run;
mod tree;
mod words;

use std::time::Instant;

use serde_json::Value;

use crate::permissions::unprivileged;
use crate::support::GUARD;

use engines::{Alive, Known, Scanning, Suspect, Validating};
use run::{Course, Report};

/// A program that answers requests about a tree.
pub(crate) trait Engine {
    /// Answers a request: a response, or an error as JSON.
    fn search(&self, request: &Value) -> Value;

    /// Waits until the index is usable for the current tree. May build the index.
    fn settle(&self);
}

/// Reads a number from the environment.
fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text}: not a number")),
        Err(_) => default,
    }
}

fn first_seed() -> u64 {
    number("FORGE_SEARCH_TEST_SEED", 1)
}

/// The number of changes of one tree, before a new tree replaces it.
const CHANGES_OF_A_TREE: u64 = 500;

/// Makes an engine for a tree. The number is a seed.
type Make = fn(&tree::Living, u64) -> Box<dyn Engine>;

const VALIDATING: Make = |living, seed| Box::new(Validating::new(living.tree(), seed));
const ALIVE: Make = |living, seed| Box::new(Alive::new(living.tree(), seed));

/// Makes `changes` changes in one tree after another. `seed` is the seed of the first tree.
fn follow(make: Make, mut seed: u64, changes: u64) -> Report {
    let mut report = Report::default();
    while report.changes < changes {
        let course = Course {
            seed,
            changes: CHANGES_OF_A_TREE.min(changes - report.changes),
        };
        let followed = course.run(
            |living| make(living, seed),
            |living| Box::new(Scanning::new(living.tree())),
        );
        report.add(&followed.unwrap_or_else(|mismatch| panic!("{mismatch}")));
        println!("up to seed {seed}: {} changes", report.changes);
        seed += 1;
    }
    println!("{report}");
    report
}

#[test]
fn random_changes_are_seen_by_every_request() {
    let changes = number("FORGE_SEARCH_TEST_OPS", 100);
    let report = follow(VALIDATING, first_seed(), changes);
    // Proves that the index was used to exclude files: without that, the comparisons would prove
    // nothing about an index.
    report.tally.check(5);
    assert!(report.worked_out * 4 > report.tally.compared, "{report}");
}

#[test]
fn random_changes_are_seen_by_an_index_that_lives() {
    let changes = number("FORGE_SEARCH_TEST_OPS", 100);
    let mut report = follow(ALIVE, first_seed(), changes);
    // The scheduler decides how often the worker is fast enough, so the test repeats rounds until
    // enough searches have excluded files.
    let (start, mut seed) = (Instant::now(), 1_000);
    while report.tally.excluding * 3 < changes {
        assert!(start.elapsed() < GUARD, "{report}");
        report.add(&follow(ALIVE, seed, CHANGES_OF_A_TREE));
        seed += 1;
    }
    assert!(report.worked_out * 4 > report.tally.compared, "{report}");
}

/// This user can really make files and directories unreadable.
#[test]
fn random_changes_are_seen_by_whoever_may_not_read_everything() {
    unprivileged(
        "changing_tree::random_changes_are_seen_by_whoever_may_not_read_everything",
        |_| {},
        |_| {
            let changes = number("FORGE_SEARCH_TEST_OPS", 100).div_ceil(3);
            // A live index does not track changes while a directory can't be listed. It may exclude
            // no file at all, so its use is not checked.
            println!("living: {}", follow(ALIVE, first_seed(), changes));
            let report = follow(VALIDATING, first_seed(), changes);
            assert!(report.errors > 0, "everything could be read: {report}");
            report.tally.check(20);
        },
    );
}

/// Runs an engine with an error. Checks that a mismatch is found within the changes of the course.
#[track_caller]
fn check_caught(what: &str, seed: u64, make: impl Fn(&tree::Living) -> Box<dyn Engine>) {
    let course = Course {
        seed,
        changes: 3_000,
    };
    let followed = course.run(make, |living| Box::new(Scanning::new(living.tree())));
    match followed {
        Err(mismatch) => println!("{what}: caught after {} changes", mismatch.changes),
        Ok(report) => panic!("{what}: not caught: {report}"),
    }
}

#[test]
fn answers_from_memory_are_caught() {
    check_caught("the answer of an earlier call", 2, |living| {
        Box::new(engines::Remembering::new(living.tree()))
    });
}

/// Each of these engines takes a file for unchanged although its sign does not prove that, and so
/// misses new text. The numbers are seeds of trees in which the error shows soon.
#[test]
fn overlooked_changes_are_caught() {
    let planted: [(&str, u64, Suspect); 7] = [
        ("same size and time", 26, |known, now, _| {
            known.is_some_and(|known| (known.len, known.modified) == (now.len, now.modified))
        }),
        ("same size", 29, |known, now, _| {
            known.is_some_and(|known| known.len == now.len)
        }),
        ("same inode and time", 26, |known, now, _| {
            known.is_some_and(|known| (known.inode, known.modified) == (now.inode, now.modified))
        }),
        ("changed through any of two names", 26, |known, now, _| {
            known.is_some() && now.links > 1
        }),
        ("ignored before", 8, |_, _, then| then.ignored),
        ("in a new directory", 28, |_, _, then| then.new_dir),
        ("no newer than what was known", 28, |known, now, then| {
            known.is_none() && Some(now.modified) <= then.newest
        }),
    ];
    for (what, seed, suspect) in planted {
        check_caught(what, seed, move |living| {
            Box::new(Known::new(living.tree(), suspect))
        });
    }
}

/// The third way finds an error that answers with and without an index share.
#[test]
fn an_error_of_both_ways_is_caught() {
    let course = Course {
        seed: 3,
        changes: 3_000,
    };
    let wrong = |living: &tree::Living| -> Box<dyn Engine> {
        let hidden = |event: &Value| {
            let path = event["data"]["path"]["text"].as_str().unwrap();
            path.contains("/.") || path.starts_with('.')
        };
        Box::new(engines::Dropping::new(living.tree(), hidden))
    };
    let mismatch = course.run(wrong, wrong).unwrap_err();
    assert!(mismatch.what.contains("worked out"), "{mismatch}");
}
