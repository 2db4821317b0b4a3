//! Every single operation of a store fails, once or from then on, with each kind of failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_search::internal::format::manifest::KeyParts;
use forge_search::internal::index::store::{Limits, Store};

use super::disks::{Failure, Fault, Faulty};
use super::edition::{Edition, check_tidy, key, load, names, store};
use crate::support::{is_long, is_turn};

/// The failures, by their names on Linux. The numbers are those of the system that runs the test.
const FAILURES: [(&str, Failure); 7] = [
    ("EIO", Failure::Error(rustix::io::Errno::IO.raw_os_error())),
    (
        "ENOSPC",
        Failure::Error(rustix::io::Errno::NOSPC.raw_os_error()),
    ),
    (
        "EROFS",
        Failure::Error(rustix::io::Errno::ROFS.raw_os_error()),
    ),
    (
        "EACCES",
        Failure::Error(rustix::io::Errno::ACCESS.raw_os_error()),
    ),
    (
        "EMFILE",
        Failure::Error(rustix::io::Errno::MFILE.raw_os_error()),
    ),
    (
        "EINTR",
        Failure::Error(rustix::io::Errno::INTR.raw_os_error()),
    ),
    ("short write", Failure::ShortWrite),
];

/// An action on a store with at most one index.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    PublishFirst,
    PublishAgain,
    /// Publishes again where an interrupted publication has left files.
    PublishOverLeftovers,
    Remove,
    /// Publishes another index, which evicts this one.
    Evict,
    /// Makes room within the limits, and sweeps up directories that hold no index.
    Sweep,
}

const ACTS: [Act; 6] = [
    Act::PublishFirst,
    Act::PublishAgain,
    Act::PublishOverLeftovers,
    Act::Remove,
    Act::Evict,
    Act::Sweep,
];

const ONE: Limits = Limits {
    bytes: u64::MAX,
    indexes: 1,
    ..Limits::NONE
};

/// A store on which a test acts.
struct World {
    _place: tempfile::TempDir,
    root: PathBuf,
    key: KeyParts,
    other: KeyParts,
    old: Edition,
    new: Edition,
}

impl World {
    fn new() -> World {
        let place = tempfile::tempdir().unwrap();
        World {
            root: place.path().join("store"),
            _place: place,
            key: key(1),
            other: key(2),
            old: Edition::new(1),
            new: Edition::new(2),
        }
    }

    fn dir(&self) -> PathBuf {
        store(&self.root, None).dir_of(&self.key)
    }

    /// Creates the state before an act.
    fn prepare(&self, act: Act) {
        if self.root.exists() {
            fs::remove_dir_all(&self.root).unwrap();
        }
        if act == Act::PublishFirst {
            return;
        }
        let plain = store(&self.root, None);
        self.old.publish(&plain, &self.key).unwrap();
        if act == Act::PublishOverLeftovers {
            for name in [
                ".manifest.1.2.tmp",
                ".segment-2.seg.1.3.tmp",
                "segment-9.seg",
            ] {
                fs::write(self.dir().join(name), "left behind").unwrap();
            }
        }
        if act == Act::Sweep {
            let dead = plain.dir_of(&self.other);
            fs::create_dir(&dead).unwrap();
            fs::write(dead.join(".writers.lock"), "").unwrap();
            fs::write(dead.join(".segment-1.seg.1.2.tmp"), "left behind").unwrap();
            fs::create_dir(plain.dir_of(&key(3))).unwrap();
        }
    }

    /// Performs an act. Returns the message of its error.
    fn perform(&self, act: Act, store: &Store) -> Result<(), String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        match act {
            Act::PublishFirst | Act::PublishAgain | Act::PublishOverLeftovers => {
                let done = self.new.publish(store, &self.key);
                done.map(drop).map_err(|error| said(&error))
            }
            Act::Remove => {
                let done = store.remove(&self.dir(), &mut std::thread::sleep);
                done.map_err(|error| said(&error))
            }
            Act::Evict => {
                let store = store.clone().limited(ONE);
                let done = self.new.publish(&store, &self.other);
                done.map(drop).map_err(|error| said(&error))
            }
            Act::Sweep => {
                store.make_room(None);
                Ok(())
            }
        }
    }

    /// Checks that the store is in the state before the act or in the state after. Returns true for
    /// the latter.
    #[track_caller]
    fn check(&self, act: Act, done: bool, what: &str) {
        let plain = store(&self.root, None);
        let loaded = |key| load(&plain, key).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = loaded(&self.key);
        let (old, new) = (Some(&self.old.answer), Some(&self.new.answer));
        let before = if act == Act::PublishFirst { None } else { old };
        let after = match act {
            Act::Remove | Act::Evict => None,
            Act::Sweep => old,
            _ => new,
        };
        let found = found.as_ref();
        assert!(found == before || found == after, "{what}: {found:?}");
        // An index that can't be evicted is reported separately. It does not make the publication
        // fail.
        if done && act != Act::Evict {
            assert!(found == after, "{what}: it said that it was done");
        }
        if act == Act::Evict {
            let other = loaded(&self.other);
            assert!(other.is_none() && !done || other.as_ref() == new, "{what}");
        }
    }

    /// Checks that no file is left behind after the act succeeded.
    #[track_caller]
    fn check_clean(&self, act: Act, what: &str) {
        let plain = store(&self.root, None);
        let (dir, other) = (self.dir(), plain.dir_of(&self.other));
        match act {
            Act::Remove => assert!(!dir.exists(), "{what}"),
            Act::Evict => {
                assert!(!dir.exists(), "{what}: {:?}", names(&dir));
                check_tidy(&other, what);
            }
            Act::Sweep => {
                assert!(!other.exists(), "{what}: {:?}", names(&other));
                assert!(!plain.dir_of(&key(3)).exists(), "{what}");
                check_tidy(&dir, what);
            }
            _ => check_tidy(&dir, what),
        }
    }
}

/// Checks that a message says what failed, where, why, and what to do.
#[track_caller]
fn check_message(message: &str, root: &Path, name: &str, what: &str) {
    assert!(message.contains("could not "), "{what}: {message}");
    assert!(
        message.contains(root.to_str().unwrap()),
        "{what}: {message}"
    );
    let remedy = match name {
        "EIO" => "check the disk",
        "ENOSPC" => "free some space",
        "EROFS" | "EACCES" => "allow this user to write there",
        "EMFILE" => "raise the limit of open files",
        "EINTR" => "try again",
        other => panic!("{what}: {other} is no failure: {message}"),
    };
    assert!(message.contains(remedy), "{what}: {message}");
}

#[test]
fn whichever_operation_fails_the_old_index_or_the_new_one_is_there() {
    let world = World::new();
    let (mut runs, mut failed, mut steps) = (0, 0, 0);
    for act in ACTS {
        world.prepare(act);
        let counting = Faulty::new(None);
        let disk: Arc<Faulty> = counting.clone();
        world.perform(act, &store(&world.root, Some(disk))).unwrap();
        world.check(act, true, "without a fault");
        world.check_clean(act, "without a fault");
        let done = counting.done();
        println!("{act:?}: {done:?}");
        steps += done.len();
        for (at, step) in done.iter().enumerate() {
            for (n, (name, failure)) in FAILURES.into_iter().enumerate() {
                for from_then_on in [false, true] {
                    // The long proofs test all failures. Other runs test a fourth of them, by
                    // turns.
                    if !is_turn(at + n + 2 * usize::from(from_then_on), 4) {
                        continue;
                    }
                    let what = format!("{act:?}: {name} at {at} ({step}), and on: {from_then_on}");
                    world.prepare(act);
                    let fault = Fault {
                        at,
                        from_then_on,
                        failure,
                    };
                    let disk = Faulty::new(Some(fault));
                    let result = world.perform(act, &store(&world.root, Some(disk)));
                    world.check(act, result.is_ok(), &what);
                    runs += 1;
                    if let Err(message) = &result {
                        failed += 1;
                        check_message(message, &world.root, name, &what);
                    }
                    // The next process performs the act on a working disk, and removes the
                    // leftovers.
                    let plain = store(&world.root, None);
                    match world.perform(act, &plain) {
                        // The failed act has already removed the index.
                        Err(error) if act == Act::Remove => {
                            assert!(!world.dir().join("manifest").exists(), "{what}: {error}");
                            plain.make_room(None);
                        }
                        again => again.unwrap_or_else(|error| panic!("{what}: again: {error}")),
                    }
                    world.check(act, true, &what);
                    world.check_clean(act, &what);
                }
            }
        }
    }
    println!("{steps} operations, {runs} runs with faults, {failed} of which failed");
    let all = steps * 2 * FAILURES.len();
    let least = if is_long() { all } else { all / 5 };
    assert!(steps > 60 && (least..=all).contains(&runs) && failed > runs / 4);
}

/// A reader that can't open a file reports that, or finds no index. It never returns a wrong
/// answer.
#[test]
fn whichever_operation_of_a_reader_fails_the_answer_is_not_wrong() {
    let world = World::new();
    world.prepare(Act::PublishAgain);
    let counting = Faulty::new(None);
    let disk: Arc<Faulty> = counting.clone();
    let found = load(&store(&world.root, Some(disk)), &world.key).unwrap();
    assert_eq!(found.as_ref(), Some(&world.old.answer));
    let done = counting.done();
    println!("{done:?}");
    assert!(done.len() >= 3);
    for (at, step) in done.iter().enumerate() {
        for (name, failure) in FAILURES {
            let Failure::Error(_) = failure else {
                continue;
            };
            let what = format!("{name} at {at} ({step})");
            let fault = Fault {
                at,
                from_then_on: true,
                failure,
            };
            let faulty = store(&world.root, Some(Faulty::new(Some(fault))));
            let error = load(&faulty, &world.key).unwrap_err();
            assert!(!error.is_corrupt(), "{what}: {error}");
            check_message(&error.to_string(), &world.root, name, &what);
        }
    }
}
