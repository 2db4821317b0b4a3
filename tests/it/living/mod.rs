//! A tree that changes all the time, and an index that has to keep up: after every change random requests are
//! answered with the index, without it, and, where that can be done, by a third way that shares nothing with the
//! other two but the files. All answers must be the same.
//!
//! What is tested stands behind [`Engine`]. Three variables of the environment size the tests:
//!
//! - `FORGE_SEARCH_TEST_OPS`: changes that [`random_changes_are_seen_by_every_request`] makes;
//! - `FORGE_SEARCH_TEST_PAIRS`: writes that [`pairs`] follows by a search at once;
//! - `FORGE_SEARCH_TEST_SEED`: the seed of the first tree. A mismatch tells the seed of its tree; with that one
//!   here, the first tree of the next run goes through the same.

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

/// Whatever answers requests about a tree.
pub(crate) trait Engine {
    /// Answers a request: a response, or a refusal as JSON.
    fn search(&self, request: &Value) -> Value;

    /// Waits until the index can be used for what the tree is now; may build it.
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

/// Changes that one tree goes through before the next one takes its place.
const CHANGES_OF_A_TREE: u64 = 500;

/// Makes an engine for a tree; given the seed.
type Make = fn(&tree::Living, u64) -> Box<dyn Engine>;

const VALIDATING: Make = |living, seed| Box::new(Validating::new(living.tree(), seed));
const ALIVE: Make = |living, seed| Box::new(Alive::new(living.tree(), seed));

/// Follows trees through so many changes, the first of which has a seed.
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
    // Without this, nothing that is said above would be about an index.
    report.tally.check(5);
    assert!(report.worked_out * 4 > report.tally.compared, "{report}");
}

#[test]
fn random_changes_are_seen_by_an_index_that_lives() {
    let changes = number("FORGE_SEARCH_TEST_OPS", 100);
    let mut report = follow(ALIVE, first_seed(), changes);
    // How often the worker is fast enough for files to be left out is for the scheduler to say.
    let (start, mut seed) = (Instant::now(), 1_000);
    while report.tally.excluding * 3 < changes {
        assert!(start.elapsed() < GUARD, "{report}");
        report.add(&follow(ALIVE, seed, CHANGES_OF_A_TREE));
        seed += 1;
    }
    assert!(report.worked_out * 4 > report.tally.compared, "{report}");
}

/// Where files and directories really become unreadable.
#[test]
fn random_changes_are_seen_by_whoever_may_not_read_everything() {
    unprivileged(
        "living::random_changes_are_seen_by_whoever_may_not_read_everything",
        |_| {},
        |_| {
            let changes = number("FORGE_SEARCH_TEST_OPS", 100).div_ceil(3);
            // One that lives tracks nothing as long as something can't be listed, and may leave out nothing at all.
            println!("living: {}", follow(ALIVE, first_seed(), changes));
            let report = follow(VALIDATING, first_seed(), changes);
            assert!(report.errors > 0, "everything could be read: {report}");
            report.tally.check(20);
        },
    );
}

/// Runs an engine that is wrong and checks that a mismatch shows within so many changes.
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

/// Each of these engines takes files for unchanged from signs that are no proof, and so misses text
/// that is new. The numbers are seeds of trees in which that shows soon.
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

/// What is wrong with and without an index shows as well.
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
