//! The real program, killed or stopped while it builds.

use std::collections::BTreeSet;
use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use forge_search::internal::format::lock::LockFile;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::edition::check_tidy;
use super::program::World;
use super::times;
use crate::differential::Seeded;
use crate::support::GUARD;

#[test]
fn a_program_that_is_killed_while_it_builds_leaves_an_index_or_none() {
    let kills = 8 * times();
    let world = World::new();
    let started = Instant::now();
    world.ok(&["index", "build"]);
    let once = started.elapsed();
    let mut rng = Seeded::new(1);
    let start = Instant::now();
    let (mut round, mut in_time, mut left_behind, mut first_builds) = (0, 0, 0, 0);
    // The scheduler decides whether a kill comes in time, so the test repeats rounds until enough
    // of them did.
    while in_time < kills || left_behind * 5 < kills {
        assert!(
            start.elapsed() < GUARD * times() as u32,
            "{round} rounds, {in_time} kills in time, {left_behind} left an unfinished file"
        );
        round += 1;
        if rng.one_in(5) {
            // This round starts without an index.
            let cache = world.top().join("cache");
            // There is no cache if an earlier child was killed before it created one.
            if cache.exists() {
                fs::remove_dir_all(cache).unwrap();
            }
            first_builds += 1;
        }
        world.write("marker.txt", format!("the needle of round {round}x\n"));
        let (before, had) = (world.unfinished(), world.has_index());
        let mut child = world.start(&["index", "build"]);
        // In half of the rounds, wait until the build writes. Kill half of those builds at once.
        let seen = rng.one_in(2) && world.writes(&mut child, &before);
        let wait = rng.next() % (once.as_micros() as u64).max(1);
        if !seen || rng.one_in(2) {
            std::thread::sleep(Duration::from_micros(wait));
        }
        child.kill().unwrap();
        in_time += u64::from(child.wait().unwrap().code().is_none());
        left_behind += u64::from(!world.unfinished().is_subset(&before));
        let status = world.run(&["index", "verify"]);
        let said = String::from_utf8_lossy(&status.stderr).into_owned();
        let there = world.has_index();
        assert!(there || !had, "round {round}: the index is gone");
        assert_eq!(status.status.success(), there, "round {round}: {said}");
        // Answers are right at any time.
        let found = world.ok(&[&format!("of round {round}x")]);
        assert!(found.contains("marker.txt"), "round {round}: {found}");
        if rng.one_in(3) {
            world.ok(&["index", "build"]);
            world.ok(&["index", "verify"]);
            let kept = world.kept();
            assert_eq!(kept.len(), 1);
            check_tidy(&kept[0], "built after a kill");
        }
    }
    world.ok(&["index", "build"]);
    check_tidy(&world.kept()[0], "built at last");
    println!(
        "{in_time} kills in {round} rounds: {left_behind} left an unfinished file, {first_builds} hit a first build"
    );
}

/// A stopped process, which is killed when a test fails.
struct Stopped(Option<Child>);

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Waits until a process that was told to stop has stopped or ended. Returns true if it stopped and
/// its file is unfinished.
fn stopped_at_work(world: &World, child: &Child) -> bool {
    let either = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let state = waitid(WaitId::Pid(Pid::from_child(child)), either).unwrap();
    state.unwrap().stopped() && !world.unfinished().is_empty()
}

#[test]
fn a_writer_that_is_stopped_keeps_the_lock_and_nobody_from_searching() {
    let rounds = 2 * times();
    let world = World::new();
    world.ok(&["index", "build"]);
    let mut longest = Duration::ZERO;
    let (mut done, mut round) = (0, 0);
    let start = Instant::now();
    while done < rounds {
        assert!(
            start.elapsed() < GUARD * times() as u32,
            "{done} of {round} were stopped in time"
        );
        round += 1;
        world.write("marker.txt", format!("the needle of round {round}x\n"));
        let mut stalled = world.start(&["index", "build"]);
        if !world.writes(&mut stalled, &BTreeSet::new()) {
            // The process has ended. Its id may belong to another process already, so it gets no
            // signal.
            continue;
        }
        kill_process(Pid::from_child(&stalled), Signal::STOP).unwrap();
        let at_work = stopped_at_work(&world, &stalled);
        let mut stalled = Stopped(Some(stalled));
        if !at_work {
            // The process was too fast to be stopped.
            continue;
        }
        done += 1;
        let dir = world.kept().remove(0);
        let before = fs::read(dir.join("manifest")).unwrap();
        // Readers go on with the existing index.
        let needle = format!("of round {round}x");
        for _ in 0..3 {
            let found = world.ok(&["--index", "auto", &needle]);
            assert!(found.contains("marker.txt"), "{found}");
        }
        world.ok(&["index", "verify"]);
        // Other writers give up after `index_lock_timeout_ms`, and say why.
        let started = Instant::now();
        let timeout = "index_lock_timeout_ms=300";
        let other = world.run(&["index", "build", "--set", timeout]);
        let waited = started.elapsed();
        longest = longest.max(waited);
        let said = String::from_utf8_lossy(&other.stderr);
        assert!(!other.status.success());
        assert!(said.contains("locked by another process"), "{said}");
        assert!(said.contains("try again"), "{said}");
        assert!(waited >= Duration::from_millis(300), "{waited:?}");
        // A search that would build an index goes on without a stored index.
        let found = world.run(&["--index", "on", "--set", timeout, &needle]);
        let out = String::from_utf8_lossy(&found.stdout);
        assert!(
            found.status.success() && out.contains("marker.txt"),
            "{out}"
        );
        assert_eq!(fs::read(dir.join("manifest")).unwrap(), before);
        assert!(!world.unfinished().is_empty());
        // Once the process is continued, it ends with success.
        let stalled = stalled.0.take().unwrap();
        kill_process(Pid::from_child(&stalled), Signal::CONT).unwrap();
        let ended = stalled.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{said}");
        assert_ne!(fs::read(dir.join("manifest")).unwrap(), before);
        check_tidy(&dir, "after it went on");
        assert!(dir.join(LockFile::Writers.name()).exists());
        world.ok(&["index", "verify"]);
        world.ok(&["index", "build"]);
    }
    println!("{rounds} stopped writers; others gave up after {longest:?} at most");
}
