//! Limits on stored indexes: the messages when an index is evicted in favour of another.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use forge_search::internal::format::lock::LockFile;
use serde_json::{Value, json};

use super::{Ran, World};
use crate::index_support::locked;
use crate::support::SetAtEnd;

const ONE: &str = "index_max_indexes=1";

/// Returns two trees with indexes in one store.
fn two() -> (World, World) {
    let (one, mut other) = (World::new(), World::new());
    other.cache.clone_from(&one.cache);
    (one, other)
}

fn build(world: &World, set: &str) -> Ran {
    world.run(&["index", "build", "--set", set])
}

fn build_json(world: &World, set: &str) -> Value {
    let ran = world.run(&["index", "build", "--json", "--set", set]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    ran.json()["indexes"][0].clone()
}

#[test]
fn build_says_which_index_made_room() {
    let (one, other) = two();
    one.run(&["index", "build"]).ok();
    let first = one.kept();
    let ran = build(&other, ONE);
    assert_eq!(ran.status, 0);
    for part in [
        "to make room",
        "index_max_indexes",
        one.shown(),
        "last used",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(one.kept().len(), 1);
    let report = build_json(&one, ONE);
    assert_eq!(report["evicted"][0]["root"], other.shown());
    assert!(report["evicted"][0]["bytes"].as_u64().unwrap() > 1_000);
    assert!(
        report["evicted"][0]["accessed"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    assert_eq!(
        (&report["not_evicted"], &report["over_limits"]),
        (&json!([]), &json!(false))
    );
    assert_eq!(one.kept(), first);
    // A second build evicts no index.
    assert_eq!(build_json(&one, ONE)["evicted"], json!([]));
    build(&one, ONE).ok();
}

#[test]
fn a_search_that_builds_its_index_says_so_too() {
    let (one, other) = two();
    one.run(&["index", "build"]).ok();
    let ran = other.run(&["--index", "on", "--set", ONE, "greet"]);
    assert_eq!(ran.status, 0);
    assert!(
        ran.err.contains("to make room") && ran.err.contains(one.shown()),
        "{}",
        ran.err
    );
}

#[test]
fn build_says_what_could_not_make_room() {
    let (one, other) = two();
    one.run(&["index", "build"]).ok();
    let dir = one.kept().remove(0);
    let lock = locked(&dir, LockFile::Writers);
    let ran = build(&other, ONE);
    assert_eq!(ran.status, 0);
    for part in ["is in use", "the stored indexes exceed", one.shown()] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let report = build_json(&other, ONE);
    assert_eq!(report["not_evicted"][0]["dir"], dir.to_str().unwrap());
    assert_eq!(report["over_limits"], true);
    drop(lock);
    assert!(dir.exists());
}

#[test]
fn an_index_that_is_too_large_is_refused_with_what_to_do() {
    let world = World::new();
    let ran = build(&world, "index_max_db_bytes=100");
    assert_eq!(ran.status, 2);
    assert!(
        ran.err.contains("100 bytes that index_max_db_bytes"),
        "{}",
        ran.err
    );
    let list = world.run(&["index", "list", "--json"]).ok().json();
    assert_eq!(list["indexes"], json!([]));
    // Searches work without the index.
    let ran = world.run(&["--index", "on", "--set", "index_max_db_bytes=100", "greet"]);
    assert_eq!(ran.status, 0);
    assert!(
        ran.err.contains("the search reads the whole tree"),
        "{}",
        ran.err
    );
}

#[test]
fn list_says_when_an_index_was_used() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let list = || world.run(&["index", "list", "--json"]).ok().json()["indexes"][0].clone();
    let built = list();
    assert!(built["accessed"].as_str().unwrap() >= built["built"].as_str().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(20));
    world.run(&["greet"]).ok();
    let used = list();
    assert!(used["accessed"].as_str().unwrap() > built["accessed"].as_str().unwrap());
    assert_eq!(used["built"], built["built"]);
    // A check of the index does not count as a use.
    world.run(&["index", "verify"]).ok();
    assert_eq!(list(), used);
    let shown = world.run(&["index", "list"]).ok().out;
    assert!(shown.contains("  used "), "{shown}");
}

#[test]
fn searching_processes_never_notice_that_their_index_is_evicted() {
    let (one, other) = two();
    let search = || {
        one.run(&[
            "call",
            "--set",
            "emit_stats=true",
            r#"{"pattern": "greet"}"#,
        ])
    };
    let mut plain = search().ok().json();
    assert_eq!(plain["stats"]["index_safety_state"], "ABSENT");
    plain["stats"].take();
    let done = AtomicBool::new(false);
    let used = AtomicU64::new(0);
    let seen = std::thread::scope(|scope| {
        let at_end = SetAtEnd(&done);
        let searching = || {
            let mut states = BTreeSet::new();
            while !done.load(Ordering::SeqCst) {
                let mut found = search().ok().json();
                let stats = found["stats"].take();
                assert_eq!(found, plain);
                used.fetch_add(
                    u64::from(stats["index_exclusion_used"] == true),
                    Ordering::SeqCst,
                );
                states.insert(stats["index_safety_state"].as_str().unwrap().to_string());
            }
            states
        };
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(searching)).collect();
        let mut evicted = 0;
        for _ in 0..8 {
            for world in [&one, &other] {
                evicted += build_json(world, ONE)["evicted"].as_array().unwrap().len();
            }
        }
        drop(at_end);
        assert!(evicted > 4, "{evicted}");
        let seen = readers.into_iter().map(|reader| reader.join().unwrap());
        seen.reduce(|all, some| &all | &some).unwrap()
    });
    // The index may be complete or absent, but never damaged.
    let expected: BTreeSet<String> = ["ABSENT", "COMPLETE"].map(String::from).into();
    assert!(seen.is_subset(&expected), "{seen:?}");
    println!("{used:?} searches with the index, {seen:?}");
    let left: Vec<PathBuf> = one.kept();
    assert!(!left.is_empty());
}
