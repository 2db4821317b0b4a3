//! Live indexes of one process, as `index status` in another process shows them.

#[cfg(target_os = "linux")]
mod limited;

use crate::support::GUARD;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use forge_search::internal::format::lock::LockFile;
use forge_search::internal::index::state::{
    DisabledReason, IndexState, SafetyState, UncertainReason,
};
use serde_json::{Value, json};

use super::World;
use crate::index_support::locked;
use crate::line_processes::ByTheLine;
use crate::project_files::root;
use crate::system::set_mode;

/// A process with a live index.
struct Living(ByTheLine);

impl Living {
    /// Starts a process that builds its index for a tree of any size, unless `set` says otherwise.
    fn start(world: &World, set: &[&str]) -> Living {
        Living::start_with(world, set, &std::env::temp_dir())
    }

    /// Starts such a process with this directory for temporary files.
    fn start_with(world: &World, set: &[&str], temporary: &Path) -> Living {
        let mut args = vec!["call", "--jsonl", "--set", "index_mode=on"];
        args.extend(set.iter().flat_map(|set| ["--set", set]));
        let mut program = world.program(&world.tree, &args);
        program.env("TMPDIR", temporary);
        Living::of(program)
    }

    fn of(program: Command) -> Living {
        Living(ByTheLine::of(program))
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn ask(&mut self, pattern: &str) -> Value {
        self.0.answer(&json!({"pattern": pattern}))
    }

    /// Ends the process regularly.
    fn end(self) {
        self.0.end();
    }

    fn kill(self) {
        self.0.kill();
    }
}

/// Returns the live indexes that `index status` shows.
fn living(world: &World) -> Vec<Value> {
    let report = world.run(&["index", "status", "--json"]).json();
    report["indexes"][0]["living"].as_array().unwrap().clone()
}

/// Waits until there is one live index, of this process and in this state.
#[track_caller]
fn until(world: &World, process: &Living, state: &str, reason: Option<&str>) -> Value {
    let start = Instant::now();
    loop {
        let all = living(world);
        if let [one] = &all[..]
            && one["state"] == state
            && one["uncertain_reason"].as_str() == reason
        {
            assert_eq!(one["process"], process.id());
            return one.clone();
        }
        assert!(start.elapsed() < GUARD, "{all:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_index_that_lives_elsewhere_is_shown_for_as_long_as_it_lives() {
    let world = World::new();
    assert_eq!(living(&world), Vec::<Value>::new());
    assert!(!world.run(&["index", "status"]).out.contains("lives"));
    let mut process = Living::start(&world, &[]);
    let one = until(&world, &process, "COMPLETE", None);
    assert_eq!(one["tracking"], true);
    assert_eq!((&one["why"], &one["build"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&one["generation"], &one["same_settings"]),
        (&json!(1), &json!(true))
    );
    let ran = world.run(&["index", "status"]).ok();
    let id = process.id();
    assert!(
        ran.out
            .contains(&format!("in process {id}: COMPLETE, as of ")),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .contains("the tree is watched; 0 changes pending; 0 files besides generation 1")
    );
    assert_eq!(process.ask("everyone")["count"], 1);
    // For other settings, the status says that they differ. For another tree, it does not show the
    // live index.
    let other = ["index", "status", "--set", "index_default_hidden=true"];
    let text = world.run(&other).out;
    assert!(
        text.contains(&format!("in process {id}, with other settings: COMPLETE")),
        "{text}"
    );
    let deep = world.run(&["index", "status", "src"]);
    assert!(!deep.out.contains("in process"), "{}", deep.out);
    // `index clear`, `index build` and `index list` do not take the status directory for an index.
    assert_eq!(
        world.run(&["index", "list", "--json"]).ok().json()["indexes"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    world.run(&["index", "clear", "--all"]).ok();
    world.run(&["index", "build"]).ok();
    until(&world, &process, "COMPLETE", None);
    process.end();
    assert_eq!(living(&world), Vec::<Value>::new());
    assert_eq!(
        fs::read_dir(world.store().join("living")).unwrap().count(),
        0
    );
}

#[test]
fn what_is_written_is_what_the_document_lists() {
    let text = fs::read_to_string(root().join("docs/format.md")).unwrap();
    let (_, part) = text.split_once("\n### What lives\n").unwrap();
    let (part, _) = part.split_once("\n### ").unwrap();
    let fields = part.lines().filter(|line| line.starts_with("| `"));
    let fields = fields.map(|line| line.split('|').nth(1).unwrap());
    let mut listed: Vec<&str> = fields
        .flat_map(|cell| cell.split(", "))
        .map(|name| name.trim().trim_matches('`'))
        .collect();
    let world = World::new();
    let process = Living::start(&world, &[]);
    until(&world, &process, "COMPLETE", None);
    let living = world.store().join("living");
    let name = format!("index-{}-0", process.id());
    let note = fs::read(living.join(name).join("state")).unwrap();
    let note: Value = serde_json::from_slice(&note).unwrap();
    let mut written: Vec<&str> = note
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    listed.sort();
    written.sort();
    assert_eq!(written, listed);
    process.end();
}

#[test]
fn what_a_killed_process_left_is_not_shown_and_goes_with_the_next() {
    let world = World::new();
    let process = Living::start(&world, &[]);
    until(&world, &process, "COMPLETE", None);
    process.kill();
    let left = || fs::read_dir(world.store().join("living")).unwrap().count();
    assert_eq!(left(), 1);
    assert_eq!(living(&world), Vec::<Value>::new());
    assert_eq!(left(), 1, "looking changes nothing");
    let process = Living::start(&world, &[]);
    until(&world, &process, "COMPLETE", None);
    assert_eq!(left(), 1);
    process.end();
    assert_eq!(left(), 0);
}

#[test]
fn a_build_that_goes_on_elsewhere_is_shown() {
    let world = World::new();
    // The build rests for a minute after its first files, because a search has just run.
    let slow = [
        "index_build_throttle_ms=60000",
        "index_idle_boost_ms=600000",
    ];
    let mut process = Living::start(&world, &slow);
    assert_eq!(process.ask("everyone")["count"], 1);
    let start = Instant::now();
    let one = loop {
        let one = until(&world, &process, "BUILDING", None);
        if !one["build"].is_null() {
            break one;
        }
        assert!(start.elapsed() < GUARD);
    };
    assert_eq!(one["uncertain_reason"], Value::Null);
    let build = &one["build"];
    let phase = build["build_phase"].as_str().unwrap();
    assert!(["ENUMERATE", "TOKENIZE"].contains(&phase), "{build}");
    let (total, done) = (&build["build_files_total"], &build["build_files_done"]);
    assert!(done.as_u64() <= total.as_u64(), "{build}");
    assert_eq!(total, if phase == "ENUMERATE" { 0 } else { 5 }, "{build}");
    assert!(build["build_elapsed_ms"].is_u64());
    let text = world.run(&["index", "status"]).out;
    assert!(text.contains(": BUILDING, as of "), "{text}");
    assert!(text.contains("E, after "), "{text}");
    process.end();
    // The next process builds without such a rest.
    let process = Living::start(&world, &[]);
    let one = until(&world, &process, "COMPLETE", None);
    assert_eq!(one["build"], Value::Null);
    process.end();
}

#[test]
fn who_waits_for_another_process_that_writes_says_so() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let dir = world.kept().remove(0);
    fs::remove_file(dir.join("manifest")).unwrap();
    let lock = locked(&dir, LockFile::Writers);
    let mut process = Living::start(&world, &["index_lock_timeout_ms=20"]);
    let start = Instant::now();
    loop {
        let one = until(&world, &process, "ABSENT", None);
        if one["why"]
            .as_str()
            .is_some_and(|why| why.contains("locked by another process"))
        {
            break;
        }
        assert!(start.elapsed() < GUARD, "{one}");
    }
    assert_eq!(process.ask("everyone")["count"], 1);
    drop(lock);
    until(&world, &process, "COMPLETE", None);
    process.end();
}

#[test]
fn reasons_for_which_an_index_elsewhere_is_not_used_are_shown() {
    // The watcher's cookie files are stored next to the indexes if possible.
    let world = World::new();
    fs::create_dir_all(world.store()).unwrap();
    for dir in [world.store(), world.store().parent().unwrap().to_path_buf()] {
        set_mode(dir, 0o700).unwrap();
    }
    fs::write(world.store().join("cookies"), "in the way").unwrap();
    let process = Living::start(&world, &[]);
    let one = until(&world, &process, "COMPLETE", None);
    assert_eq!(one["tracking"], true);
    process.end();
    // The second place for cookie files must not be inside the tree. Without a place, the tree
    // can't be watched.
    let process = Living::start_with(&world, &[], &world.tree);
    let one = until(&world, &process, "UNCERTAIN", Some("WATCHER_DOWN"));
    assert_eq!(one["tracking"], false);
    assert!(one["why"].as_str().unwrap().contains("cookie"), "{one}");
    let text = world.run(&["index", "status"]).out;
    assert!(
        text.contains(": UNCERTAIN (WATCHER_DOWN), as of "),
        "{text}"
    );
    assert!(
        text.contains("because ") && text.contains("the tree is not watched"),
        "{text}"
    );
    process.end();
    // The build exceeds a limit, or no index is to be built.
    for (set, state, reason, why) in [
        (
            &["index_build_max_files=2"][..],
            "UNCERTAIN",
            "BUILD_BUDGET_EXCEEDED",
            "index_build_max_files",
        ),
        (
            &["index_storage=memory", "index_max_memory_bytes=1000"],
            "DISABLED",
            "MEMORY_BUDGET_EXCEEDED",
            "index_max_memory_bytes",
        ),
        (
            &["index_mode=auto"],
            "DISABLED",
            "BELOW_THRESHOLD",
            "index_auto_threshold_files",
        ),
    ] {
        let world = World::new();
        let process = Living::start(&world, set);
        let one = until(&world, &process, state, Some(reason));
        assert!(one["why"].as_str().unwrap().contains(why), "{one}");
        let text = world.run(&["index", "status"]).out;
        assert!(
            text.contains(&format!(": {state} ({reason}), as of ")),
            "{text}"
        );
        process.end();
    }
}

/// Checks each name of each state and reason, from the status file of a live index to the output of
/// `index status`.
#[test]
fn every_reason_of_appendix_d_is_shown_by_index_status() {
    let world = World::new();
    let root = fs::canonicalize(&world.tree).unwrap();
    let own = world.store().join("living/index-4321-0");
    fs::create_dir_all(&own).unwrap();
    for dir in [&own, &world.store().join("living"), &world.store()] {
        set_mode(dir, 0o700).unwrap();
    }
    let lock = locked(&own, LockFile::Writers);
    let mut seen = 0;
    for index_state in IndexState::all() {
        let (state, reason) = (index_state.state().as_str(), index_state.reason());
        let note = json!({
            "version": 1, "process": 4321, "root": root.to_str().unwrap(), "index": "0f",
            "state": state, "reason": reason, "why": format!("why it is {state}"),
            "tracking": false, "waiting": 12, "beside": 34, "generation": 56, "epoch": 7,
            "build": null, "noted_ms": 1_700_000_000_000_i64,
        });
        fs::write(own.join("state"), note.to_string()).unwrap();
        let shown = match reason {
            Some(reason) => {
                format!("with other settings: {state} ({reason}), as of 2023-11-14 22:13:20 UTC")
            }
            None => format!("with other settings: {state}, as of 2023-11-14 22:13:20 UTC"),
        };
        let text = world.run(&["index", "status"]).out;
        assert!(text.contains(&shown), "{shown}: {text}");
        assert!(
            text.contains(&format!("because why it is {state}")),
            "{text}"
        );
        assert!(
            text.contains("12 changes pending; 34 files besides generation 56"),
            "{text}"
        );
        let one = living(&world).remove(0);
        assert_eq!(
            (&one["state"], one["uncertain_reason"].as_str()),
            (&json!(state), reason)
        );
        assert_eq!(one["noted"], "2023-11-14T22:13:20.000Z");
        assert_eq!(one["coverage_epoch"], 7);
        seen += 1;
    }
    // Only the process itself knows the remedy for a limit that it has reached below the root.
    let note = json!({
        "version": 1, "process": 4321, "root": root.to_str().unwrap(), "index": "0f",
        "state": "UNCERTAIN", "reason": "WATCHER_DOWN", "why": "no more watches; raise it",
        "tracking": false, "waiting": 0, "beside": 0, "generation": 56, "epoch": 7,
        "build": null, "noted_ms": 1_700_000_000_000_i64,
    });
    let doctor = || world.run(&["doctor"]).out;
    assert!(!doctor().contains("process 4321"));
    fs::write(own.join("state"), note.to_string()).unwrap();
    let told = "process 4321 does not watch the tree, but compares it in each search: no more watches; raise it";
    assert!(doctor().contains(told), "{}", doctor());
    let reasons = UncertainReason::ALL.len() + DisabledReason::ALL.len();
    let without = SafetyState::ALL.len() - 1;
    assert_eq!(seen, reasons + without);
    // When a process ends, its lock is released and its status is no longer shown.
    drop(lock);
    assert_eq!(living(&world), Vec::<Value>::new());
}
