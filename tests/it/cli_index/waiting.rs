//! Waiting for builds: `--wait-index`, signals, and the display on a terminal.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use forge_search::internal::format::lock::LockFile;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::World;
use crate::index_support::locked;
use crate::support::GUARD;

#[test]
fn wait_index_answers_with_an_index_from_the_first_request_on() {
    let world = World::new();
    let request = r#"{"pattern": "fn greet"}"#;
    let call = |args: &[&str]| {
        let all: Vec<&str> = ["call", "--set", "emit_stats=true"]
            .iter()
            .chain(args)
            .copied()
            .chain([request])
            .collect();
        world.run(&all)
    };
    // Without `--wait-index`, a call never builds an index, in any mode.
    for mode in ["index_mode=auto", "index_mode=on"] {
        let answer = call(&["--set", mode]).ok().json();
        assert_eq!(answer["stats"]["index_safety_state"], "ABSENT");
    }
    for args in [
        ["--wait-index", "--set", "index_storage=memory"].as_slice(),
        &["--wait-index"],
        &["--wait-index", "--set", "index_mode=on"],
    ] {
        let answer = call(args).ok().json();
        assert_eq!(answer["count"], 1);
        assert_eq!(
            answer["stats"]["index_safety_state"], "COMPLETE",
            "{args:?}"
        );
        assert_eq!(answer["stats"]["candidates_excluded"], 4, "{args:?}");
    }
    let ran = call(&["--wait-index", "--set", "index_mode=off"]);
    assert_eq!((ran.status, ran.err.as_str()), (2, ""));
    assert_eq!(ran.json()["error"]["code"], "bad_args");
    let ran = call(&["--wait-index", "--set", "index_roots=[\"missing\"]"]);
    assert_eq!(ran.status, 2);
    let message = ran.json()["error"]["message"].as_str().unwrap().to_string();
    assert!(message.contains("missing"), "{message}");
}

#[test]
fn wait_index_waits_for_whoever_is_building() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    world.write("src/new.rs", "fn greet_too() {}\n");
    let lock = locked(&world.kept()[0], LockFile::Writers);
    let args = [
        "call",
        "--wait-index",
        "--set",
        "emit_stats=true",
        "--set",
        "index_lock_timeout_ms=20",
        r#"{"pattern": "greet_too"}"#,
    ];
    let mut child = world.program(&world.tree, &args);
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    // Real time: twenty times the timeout of the lock, after which the process would have ended.
    std::thread::sleep(Duration::from_millis(400));
    assert!(child.try_wait().unwrap().is_none(), "it did not wait");
    drop(lock);
    let mut out = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["stats"]["index_exclusion_used"], true, "{answer}");
    assert_eq!(answer["count"], 1);
}

#[test]
fn wait_index_does_not_wait_for_ever_for_whoever_has_the_lock() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let dir = world.kept().remove(0);
    fs::remove_file(dir.join("manifest")).unwrap();
    let _lock = locked(&dir, LockFile::Writers);
    let request = r#"{"pattern": "everyone"}"#;
    for form in ["--jsonl", request] {
        let args = [
            "call",
            "--wait-index",
            "--set",
            "index_lock_timeout_ms=20",
            "--set",
            "index_build_timeout_ms=400",
            form,
        ];
        let mut child = world
            .program(&world.tree, &args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{request}").unwrap();
        drop(stdin);
        let ran = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(answer["count"], 1);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(said.contains("searches start without it"), "{form}: {said}");
        assert!(said.contains("another process"), "{form}: {said}");
    }
}

#[test]
fn a_build_beside_another_waits_until_that_has_ended() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    world.write("src/new.rs", "fn greet_too() {}\n");
    let lock = locked(&world.kept()[0], LockFile::Writers);
    let mut command = world.program(&world.tree, &["index", "build"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Real time: longer than a search waits for a lock, after which the build would have given up.
    std::thread::sleep(Duration::from_millis(600));
    assert!(child.try_wait().unwrap().is_none(), "it did not wait");
    drop(lock);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    let waiting = "forge-search: waiting for another process that holds the lock of the index\n";
    assert_eq!(said.matches(waiting).count(), 1, "{said}");
    // A configured timeout counts.
    let _lock = locked(&world.kept()[0], LockFile::Writers);
    let hasty = world.run(&["index", "build", "--set", "index_lock_timeout_ms=20"]);
    let said = format!("{hasty:?}");
    assert!(said.contains("locked by another process"), "{said}");
}

/// Starts a process that answers one request a line, the first one with a usable index.
fn by_the_line(world: &World) -> (Child, ChildStdin, BufReader<ChildStdout>) {
    let args = [
        "call",
        "--jsonl",
        "--wait-index",
        "--set",
        "emit_stats=true",
    ];
    let mut child = world
        .program(&world.tree, &args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdin, stdout)
}

#[test]
fn requests_by_the_line_see_what_changes_between_them() {
    let world = World::new();
    let (mut child, mut stdin, mut stdout) = by_the_line(&world);
    let mut ask = || {
        stdin.write_all(b"{\"pattern\": \"everyone\"}\n").unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        (
            answer["count"].as_u64().unwrap(),
            answer["stats"]["index_exclusion_used"].as_bool().unwrap(),
        )
    };
    assert_eq!(ask(), (1, true));
    world.write("hay.txt", "everyone\n");
    assert_eq!(ask(), (2, true));
    world.write("new.txt", "everyone\n");
    assert_eq!(ask(), (3, true));
    // Another process rebuilds the index. This process keeps the one that it has open.
    world.run(&["index", "build"]).ok();
    assert_eq!(ask(), (3, true));
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Adds so many files to a tree that a build takes a while.
fn add_many_files(world: &World) {
    for dir in 0..20 {
        for file in 0..100 {
            let text: String = (0..800).map(|n| format!("{dir} {file} {n}\n")).collect();
            world.write(&format!("many/{dir}/{file}.txt"), text);
        }
    }
}

/// Waits until a build has begun to write. It does so before it reads any file.
fn wait_for_unfinished_file(world: &World, child: &mut Child) {
    let started = Instant::now();
    loop {
        let dirs = world.kept().into_iter();
        let files = dirs.flat_map(|dir| fs::read_dir(dir).unwrap());
        let mut names = files.map(|entry| entry.unwrap().file_name());
        if names.any(|name| name.to_str().unwrap().ends_with(".tmp")) {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "the build ended early");
        assert!(started.elapsed() < GUARD);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_signal_stops_a_build_and_leaves_the_old_index() {
    let world = World::new();
    // When the signal arrives, each of these builds would still take minutes.
    let slowly = [
        "--set",
        "index_max_memory_bytes=8192",
        "--set",
        "index_build_throttle_ms=250",
    ];
    world.run(&[&["index", "build"], &slowly[..]].concat()).ok();
    let manifest = fs::read(world.kept()[0].join("manifest")).unwrap();
    add_many_files(&world);
    let search = ["--index", "on", "greet"];
    for (args, signal, status) in [
        (["index", "build"].as_slice(), Signal::INT, 130),
        (&["index", "build"], Signal::TERM, 143),
        (&search, Signal::INT, 130),
        (
            &["call", "--wait-index", "{\"pattern\": \"greet\"}"],
            Signal::INT,
            130,
        ),
    ] {
        let mut child = world.program(&world.tree, args);
        let mut child = child
            .args(slowly)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_unfinished_file(&world, &mut child);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        let mut names: Vec<String> = fs::read_dir(&world.kept()[0])
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| !name.ends_with(".lock"));
        names.sort();
        assert_eq!(names, ["accessed", "manifest", "segment-1.seg"], "{args:?}");
        assert_eq!(
            fs::read(world.kept()[0].join("manifest")).unwrap(),
            manifest
        );
    }
    world
        .run(&[&["index", "verify"], &slowly[..]].concat())
        .ok();
}

/// Runs a build with a terminal as its standard error. Returns the output on the terminal.
fn build_on_a_terminal(world: &World, environment: &[(&str, &str)]) -> String {
    on_a_terminal(world, &["index", "build", "--json"], environment, |_| {})
}

/// Runs the program with a terminal as its standard error. Returns the output on the terminal.
/// `seen` gets all output so far whenever there is more.
fn on_a_terminal(
    world: &World,
    args: &[&str],
    environment: &[(&str, &str)],
    mut seen: impl FnMut(&str),
) -> String {
    let (mut master, slave) = crate::support::terminal();
    let mut program = world.program(&world.tree, args);
    program
        .env("TERM", "xterm")
        .envs(environment.iter().copied());
    let mut child = program
        .stdout(Stdio::piped())
        .stderr(slave)
        .spawn()
        .unwrap();
    // The command holds a copy of the terminal's other end. Without it, the child has the last one.
    drop(program);
    let (mut shown, mut bytes) = (Vec::new(), [0; 4096]);
    // Reading fails when the other end is closed.
    while let Ok(count @ 1..) = master.read(&mut bytes) {
        shown.extend_from_slice(&bytes[..count]);
        seen(&String::from_utf8_lossy(&shown));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_terminal_sees_how_far_a_build_is_and_a_pipe_does_not() {
    let world = World::new();
    add_many_files(&world);
    let shown = build_on_a_terminal(&world, &[]);
    for part in ["listing files", "reading, ", "of 2,005 files", "left"] {
        assert!(shown.contains(part), "{part}: {shown:?}");
    }
    // A bar without a total must not be shown.
    assert!(!shown.contains("0/0"), "{shown:?}");
    assert_eq!(build_on_a_terminal(&world, &[("TERM", "dumb")]), "");
    assert_eq!(world.run(&["index", "build"]).ok().err, "");
}

#[test]
fn a_terminal_sees_that_another_process_is_waited_for() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    world.write("src/new.rs", "fn greet_too() {}\n");
    let request = r#"{"pattern": "greet_too"}"#;
    for timeout in ["index_lock_timeout_ms=20", "index_lock_timeout_ms=600000"] {
        let dir = world.kept().remove(0);
        let mut lock = Some(locked(&dir, LockFile::Writers));
        let args = ["call", "--wait-index", "--set", timeout, request];
        let waits = "waiting for another process";
        let shown = on_a_terminal(&world, &args, &[], |shown| {
            if shown.contains(waits) {
                lock = None;
            }
        });
        let waiting = shown.find(waits).expect(&shown);
        // Listing and reading a tree of this size may take less time than the interval of the
        // display.
        let phases = ["listing files", "reading", "writing the index"];
        let building = phases.iter().filter_map(|phase| shown.find(phase)).min();
        assert!(
            building.is_some_and(|building| waiting < building),
            "{shown:?}"
        );
        world.write(&format!("src/{}.rs", timeout.len()), "fn other() {}\n");
    }
}

/// Live indexes are shut down regularly, at the end of the input and by a signal between calls
/// (FR-LSI-BG-40).
#[test]
fn what_lives_is_ended_in_order() {
    for (signal, code) in [
        (None, 0),
        (Some(Signal::TERM), 143),
        (Some(Signal::INT), 130),
    ] {
        let world = World::new();
        let (mut child, mut stdin, mut stdout) = by_the_line(&world);
        stdin.write_all(b"{\"pattern\": \"everyone\"}\n").unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        assert!(line.contains("\"index_exclusion_used\":true"), "{line}");
        let cookies = world.store().join("cookies");
        let own = || fs::read_dir(&cookies).map_or(0, |entries| entries.count());
        assert!(own() > 0, "nothing is watched");
        match signal {
            // The signal arrives between calls: there is no request.
            Some(signal) => kill_process(Pid::from_child(&child), signal).unwrap(),
            None => drop(stdin),
        }
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal:?}");
        assert_eq!(own(), 0, "{signal:?}: a watcher was left behind");
    }
}
