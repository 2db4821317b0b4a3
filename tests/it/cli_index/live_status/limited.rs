//! A tree with more directories than the system allows this user to watch.

use std::process::Command;

use serde_json::json;

use super::{Living, World, living};
use crate::support::GUARD;

/// The number of extra directories in the tree.
const DIRS: usize = 30;

/// A shell script that limits the number of watches and runs a program.
const LIMITED: &str =
    r#"echo "$1" >/proc/sys/user/max_inotify_watches || exit 77; shift; exec "$@""#;

/// Returns the arguments of a shell in its own namespace, with a limit on the number of watches.
fn shell(limit: usize) -> Vec<String> {
    let shell = ["unshare", "-Ur", "sh", "-c", LIMITED, "sh"];
    let mut words: Vec<String> = shell.map(str::to_string).into();
    words.push(limit.to_string());
    words
}

fn may_limit() -> bool {
    let words = shell(7);
    let tried = Command::new(&words[0])
        .args(&words[1..])
        .arg("true")
        .output();
    tried.is_ok_and(|tried| tried.status.success())
}

/// Returns the command, run by such a shell.
fn limited(command: &Command, limit: usize) -> Command {
    let words = shell(limit);
    let mut wrapped = Command::new(&words[0]);
    wrapped
        .args(&words[1..])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        wrapped.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

fn rounds() -> usize {
    let rounds = std::env::var("FORGE_SEARCH_TEST_ROUNDS");
    rounds.map_or(4, |rounds| rounds.parse().unwrap())
}

/// Returns a tree, and the number of watches that it takes.
fn wide() -> (World, usize) {
    let world = World::new();
    for n in 0..DIRS {
        world.write(&format!("d{n}/straw.txt"), "dry grass\n");
    }
    // The root, `src` and the extra directories; the directories above the root, and the directory
    // of the cookies.
    let above = world.tree.ancestors().skip(1).count();
    (world, 2 + DIRS + above + 1)
}

/// Searches until the index has settled. Returns its state.
fn settled(world: &World, process: &mut Living) -> serde_json::Value {
    let start = std::time::Instant::now();
    loop {
        assert_eq!(process.ask("greet")["count"], 2);
        let all = living(world);
        if let [one] = &all[..]
            && (one["state"] == "COMPLETE" || one["uncertain_reason"] == "WATCHER_DOWN")
        {
            return one.clone();
        }
        assert!(start.elapsed() < GUARD, "{all:?}");
    }
}

#[test]
fn reaching_the_system_limit_of_watches_shows_and_loses_no_match() {
    if !may_limit() {
        return crate::skipped::skipped("no limit of watches can be set");
    }
    let (rounds, mut met) = (rounds(), 0);
    for round in 0..rounds {
        let (world, needed) = wide();
        let limit = 1 + round * (needed + 4) / rounds.max(2);
        let args = [
            "call",
            "--jsonl",
            "--set",
            "index_mode=on",
            "--set",
            "emit_stats=true",
        ];
        let mut process = Living::of(limited(&world.program(&world.tree, &args), limit));
        let one = settled(&world, &mut process);
        let is_met = limit < needed;
        assert_eq!(
            one["uncertain_reason"] == "WATCHER_DOWN",
            is_met,
            "{limit}: {one}"
        );
        assert_eq!(one["tracking"] == json!(false), is_met, "{limit}: {one}");
        if is_met {
            met += 1;
            let why = one["why"].as_str().unwrap();
            let remedy =
                format!("({limit}) is reached; raise it with `sysctl user.max_inotify_watches=");
            assert!(why.contains(&remedy), "{why}");
        }
        // The next answer contains every change, in watched and unwatched directories.
        for n in 0..DIRS + 8 {
            world.write(&format!("d{n}/new.txt"), "greet them\n");
            let answer = process.ask("greet");
            assert_eq!(answer["count"], 3 + n, "{limit} {n}");
            let shown = &answer["stats"]["index_uncertain_reason"];
            if is_met && answer["stats"]["index_safety_state"] == "UNCERTAIN" {
                assert_eq!(shown, "WATCHER_DOWN", "{limit} {n}");
            }
        }
        process.end();
        // `doctor` reports the limit even before there is a live index.
        let args = ["doctor", "--set", "index_mode=on"];
        let doctor = limited(&world.program(&world.tree, &args), limit)
            .output()
            .unwrap();
        let said = String::from_utf8(doctor.stdout).unwrap();
        let names = said.contains("`sysctl user.max_inotify_watches=");
        assert_eq!(names, is_met, "{limit}: {said}");
    }
    println!("a limit of watches in {rounds} processes, met by {met} of them at the start");
    assert!(met > 0);
}
