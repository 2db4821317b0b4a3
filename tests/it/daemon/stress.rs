//! Stress tests of the daemon: an independent client, malformed frames, load during edits, and
//! kills at random moments.
//!
//! Environment variables set the amounts: `FORGE_SEARCH_TEST_FRAMES` (default 2,000),
//! `FORGE_SEARCH_TEST_LOAD_SECONDS` (2), `FORGE_SEARCH_TEST_CLIENTS` (16) and
//! `FORGE_SEARCH_TEST_KILLS` (8).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use forge_search::internal::tool::daemon::frame::{encode, read};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::program::{Place, kill, ok, text, wait_until};
use super::schemas;
use crate::cli::SLOW;
use crate::slow_searches::slow_files;
use crate::support::GUARD;

/// Returns a number from an environment variable, or the default `otherwise`.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// A pseudorandom number generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// A connection after the handshake.
struct Talk(UnixStream);

impl Talk {
    fn open(socket: &Path, hello: &Value) -> Talk {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(GUARD)).unwrap();
        let mut talk = Talk(stream);
        let welcome = talk.ask(hello);
        assert_eq!(welcome["protocol_version"], 2, "{welcome}");
        talk
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.send(message.to_string().as_bytes());
        self.next()
    }

    fn next(&mut self) -> Value {
        let answer = read(&mut self.0, 1 << 26).unwrap().expect("an answer");
        let answer = serde_json::from_slice(&answer).unwrap();
        schemas::check_answer(&answer);
        answer
    }

    fn send(&mut self, payload: &[u8]) {
        self.0
            .write_all(&encode(payload, 1 << 26).unwrap())
            .unwrap();
    }
}

/// Returns the socket of the daemon and a client's handshake request.
fn greeting(place: &Place, sets: &[&str]) -> (PathBuf, Value) {
    let status = ok(&place.ggrep(&[&["status", "--json"], sets].concat()));
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["daemon"]["running"], true);
    let hello = json!({
        "protocol_versions": [2],
        "store_id": status["store_id"],
        "config_fingerprint": status["config_fingerprint"],
    });
    (place.sockets()[0].clone(), hello)
}

/// Returns the resident memory in KiB and the number of open files of a process.
fn held(pid: i32) -> (u64, usize) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let memory = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (
        memory,
        fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
    )
}

/// The most memory in KiB that a daemon may hold, if it held `before` KiB after warming up.
///
/// The allocator of the programs returns unused memory half a second after its last use. The limit
/// adds five percent and `pages` KiB, for pages of the program and of threads that were not needed
/// before. Without the feature `allocator`, tests use the C library's allocator, which returns only
/// a part.
fn most_memory(before: u64, pages: u64) -> u64 {
    if cfg!(feature = "allocator") {
        before * 105 / 100 + pages
    } else {
        before * 3 + 65_536
    }
}

#[test]
fn an_independent_client_agrees_with_the_protocol() {
    for mode in ["off", "on"] {
        let place = Place::new();
        let set = format!("index_mode={mode}");
        let sets = ["--set", &set];
        ok(&place.forge_search(&[&["serve", "--detach"], &sets[..]].concat()));
        let (socket, hello) = greeting(&place, &sets);
        if mode == "on" {
            // Before, the first question has the index replaced by one with words.
            wait_until("the index has words", || {
                let asked = ["--json", "--explain", "retry delay"];
                let told = ok(&place.ggrep(&[&asked, &sets[..]].concat()));
                let told: Value = serde_json::from_str(&told).unwrap();
                let counts = &told["explain"]["candidates"];
                counts["files_known_to_index"] == counts["files_with_any"]
            });
        }
        let client = Command::new("python3")
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/clients/daemon_client.py"
            ))
            .arg(&socket)
            .arg(hello["store_id"].as_str().unwrap())
            .arg(hello["config_fingerprint"].as_str().unwrap())
            .arg(place.root())
            .arg(mode)
            .output();
        let client = match client {
            Err(_) => return crate::skipped::skipped("there is no python3"),
            Ok(client) => client,
        };
        let (out, err) = (text(&client.stdout), text(&client.stderr));
        assert!(client.status.success(), "{mode}: {out}{err}");
        assert_eq!(out.lines().count(), 6, "{mode}: {out}");
    }
}

/// Makes a random payload: random bytes, or a request that is nearly valid.
fn nonsense(dice: &mut Dice) -> Vec<u8> {
    let mut payload = match dice.roll(4) {
        0 => (0..dice.roll(200)).map(|_| dice.roll(256) as u8).collect(),
        1 => format!("{{\"type\":\"search\",\"query\":{}}}", "[".repeat(dice.roll(300))).into_bytes(),
        2 => json!({"type": "search", "query": "retry", "limit": dice.roll(3), "mode": dice.roll(9)}).to_string().into_bytes(),
        _ => json!({"type": "tool", "tool": "Search", "request": {"pattern": "retry", "context": "x"}}).to_string().into_bytes(),
    };
    for _ in 0..dice.roll(4) {
        if !payload.is_empty() {
            let at = dice.roll(payload.len());
            payload[at] = dice.roll(256) as u8;
        }
    }
    // A valid request to shut down would end the daemon, so it becomes an empty payload.
    match serde_json::from_slice::<Value>(&payload) {
        Ok(value) if value["type"] == "shutdown" => Vec::new(),
        _ => payload,
    }
}

#[test]
fn senseless_frames_do_no_harm_and_leave_nothing_behind() {
    let place = Place::new();
    ok(&place.forge_search(&["serve", "--detach"]));
    let (socket, hello) = greeting(&place, &[]);
    let pid = place.daemons()[0];
    let count = number("FORGE_SEARCH_TEST_FRAMES", 2_000);
    let fire = |count: u64, seed: u64| {
        let mut dice = Dice(seed);
        let mut sent = 0;
        while sent < count {
            let mut talk = Talk::open(&socket, &hello);
            // Every fiftieth message is a valid query, which must be answered.
            for turn in 0..200.min(count - sent) {
                if turn % 50 == 49 {
                    let found = talk.ask(&json!({"type": "search", "query": "retry_delay"}));
                    assert_eq!(found["results"][0]["path"], "src/delay.rs", "{found}");
                } else {
                    talk.send(&nonsense(&mut dice));
                    talk.next();
                }
                sent += 1;
            }
            // The connection ends in the middle of garbage, sometimes after an orderly shutdown.
            let garbage: Vec<u8> = (0..dice.roll(64)).map(|_| dice.roll(256) as u8).collect();
            let _ = talk.0.write_all(&garbage);
            if dice.roll(2) == 0 {
                let _ = talk.0.shutdown(std::net::Shutdown::Write);
                let _ = talk.0.read_to_end(&mut Vec::new());
            }
        }
    };
    // Warm up: this allocates the memory and opens the files that stay in use.
    fire(count / 4, 1);
    // Real time: a daemon doesn't tell when it has returned its memory.
    thread::sleep(Duration::from_millis(200));
    let before = held(pid);
    fire(count, 2);
    let began = Instant::now();
    loop {
        let after = held(pid);
        if after.0 <= most_memory(before.0, 1_024) && after.1 <= before.1 {
            println!("{count} frames: {before:?} before, {after:?} after (KiB, open files)");
            break;
        }
        assert!(
            began.elapsed() < GUARD,
            "{before:?} before, {after:?} after"
        );
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(place.daemons(), [pid], "the same one");
}

/// The number of files that are edited. Each file contains a name that no other file contains.
const SLOTS: usize = 3_000;

/// Returns the name in the file of a slot. A ranked search finds it as one term.
fn name_of(slot: usize) -> String {
    let letter = |digit: u8| char::from(b"bcfghkmnpq"[usize::from(digit - b'0')]);
    let letters: String = slot.to_string().bytes().map(letter).collect();
    format!("slot{letters}x")
}

/// The load on a daemon: files that are edited, clients that ask about them, and counts and times
/// over all clients.
struct Load {
    socket: PathBuf,
    hello: Value,
    /// The answers about constant files, which never change.
    expected: BTreeMap<usize, Value>,
    /// For each slot, the version that was written last.
    written: Vec<AtomicU64>,
    /// For each slot, the version that is being written, or was written last.
    begun: Vec<AtomicU64>,
    over: AtomicBool,
    answered: AtomicU64,
    edits: AtomicU64,
    busy: AtomicU64,
    times: Mutex<Vec<Duration>>,
}

impl Load {
    /// Asks the daemon about the constant files, before any file is edited.
    fn before_edits(socket: PathBuf, hello: Value) -> Load {
        let mut talk = Talk::open(&socket, &hello);
        let expected = (0..25).map(|n| (n, talk.ask(&tool_call(format!("constant{n} ")))));
        let zeros = || (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Load {
            expected: expected.collect(),
            socket,
            hello,
            written: zeros(),
            begun: zeros(),
            over: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            edits: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            times: Mutex::default(),
        }
    }

    /// Edits files until the load is over: a hundred edits a second.
    fn edit(&self, root: &Path) {
        let (mut edits, start) = (0u64, Instant::now());
        while !self.over.load(Ordering::SeqCst) {
            // The files are edited in turn, so that enough files soon differ from the segment to
            // cause a merge.
            let slot = edits as usize % SLOTS;
            let next = self.begun[slot].fetch_add(1, Ordering::SeqCst) + 1;
            fs::write(
                root.join(format!("edited/{slot}.txt")),
                format!("{} version {next} end\n", name_of(slot)),
            )
            .unwrap();
            self.written[slot].store(next, Ordering::SeqCst);
            edits += 1;
            self.edits.store(edits, Ordering::SeqCst);
            let due = Duration::from_millis(edits * 10);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }

    /// Asks random questions as one client until the load is over, and checks the answers.
    fn ask(&self, number: u64) {
        let mut hello = self.hello.clone();
        hello["client_id"] = format!("client{number}").into();
        let mut talk = Talk::open(&self.socket, &hello);
        let mut dice = Dice(100 + number);
        let mut times = Vec::new();
        while !self.over.load(Ordering::SeqCst) {
            let began = Instant::now();
            let what = dice.roll(3);
            let slot = dice.roll(SLOTS);
            let before = self.written[slot].load(Ordering::SeqCst);
            let n = dice.roll(25);
            let answer = match what {
                0 => talk.ask(&tool_call(format!("constant{n} "))),
                1 => talk.ask(&tool_call(format!("{} version \\d+ end", name_of(slot)))),
                _ => talk.ask(&json!({"type": "search", "query": name_of(slot), "limit": 3})),
            };
            let after = self.begun[slot].load(Ordering::SeqCst);
            if answer["error"]["code"] == "busy" {
                self.busy.fetch_add(1, Ordering::SeqCst);
                let ms = answer["error"]["retry_after_ms"].as_u64().unwrap();
                thread::sleep(Duration::from_millis(ms.min(50)));
                continue;
            }
            times.push(began.elapsed());
            self.answered.fetch_add(1, Ordering::SeqCst);
            match what {
                0 => assert_eq!(answer, self.expected[&n]),
                1 => check_line(&answer, before, after),
                _ => check_ranked(&answer, slot, before, after),
            }
        }
        self.times.lock().unwrap().extend(times);
    }

    /// Waits until there were many answers and edits, and the daemon has published another state
    /// than `first`. In a longer run it must also have merged segments. Returns early if a client
    /// has ended.
    fn until_published(
        &self,
        first: &Value,
        seconds: u64,
        status: impl Fn() -> Value,
        has_ended: impl Fn() -> bool,
    ) {
        let began = Instant::now();
        let before = &first["snapshot"]["active_snapshot_id"];
        assert!(before.is_string(), "{first}");
        loop {
            let (answered, edits) = (&self.answered, &self.edits);
            let is_much = answered.load(Ordering::SeqCst) > 10 * seconds
                && edits.load(Ordering::SeqCst) > 20 * seconds
                && began.elapsed() >= Duration::from_secs(seconds);
            let amid = is_much.then(&status);
            let is_enough = amid.as_ref().is_some_and(|amid| {
                let now = &amid["snapshot"]["active_snapshot_id"];
                let is_merged = amid["performance"]["compaction_time_last_ms"].is_u64();
                now.is_string() && now != before && (is_merged || seconds < 40)
            });
            if is_enough || has_ended() {
                break;
            }
            assert!(
                began.elapsed() < GUARD + Duration::from_secs(seconds),
                "{answered:?} answers, {edits:?} edits: {amid:?}"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Describes the counts and times.
    fn report(&self) -> String {
        let mut times = std::mem::take(&mut *self.times.lock().unwrap());
        times.sort();
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        format!(
            "{:?} edits: {:?} answered, {:?} busy, p50 {:?}, p99 {:?}, most {:?}",
            self.edits,
            self.answered,
            self.busy,
            at(50),
            at(99),
            at(100)
        )
    }
}

/// Returns a request to search for a pattern.
fn tool_call(pattern: String) -> Value {
    json!({"type": "tool", "tool": "Search", "request": {"pattern": pattern}})
}

/// Returns the version in a line of an edited file.
fn version_in(line: &str, answer: &Value) -> u64 {
    let rest = line
        .split("version ")
        .nth(1)
        .unwrap_or_else(|| panic!("{answer}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// Checks that a search found a version from `before` to `after`.
#[track_caller]
fn check_line(answer: &Value, before: u64, after: u64) {
    // A write truncates the file for a moment.
    assert!(answer["count"] == 1 || after > before, "{answer}");
    if answer["count"] == 1 {
        let line = answer["matches"][0]["data"]["lines"]["text"].as_str();
        let found = version_in(line.unwrap(), answer);
        assert!(
            before <= found && found <= after,
            "{before} <= {found} <= {after}"
        );
    }
}

/// Checks that a ranked search found the file of a slot, in a version from `before` to `after`.
#[track_caller]
fn check_ranked(answer: &Value, slot: usize, before: u64, after: u64) {
    let results = answer["results"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    // A file that changes while it is read is left out, and a warning says so.
    assert!(
        !results.is_empty() || after > before || !answer["warnings"].as_array().unwrap().is_empty(),
        "{answer}"
    );
    if let Some(one) = results.first() {
        assert_eq!(one["path"], format!("edited/{slot}.txt"));
        let found = version_in(one["content"].as_str().unwrap(), answer);
        assert!(
            before <= found && found <= after,
            "{before} <= {found} <= {after}"
        );
    }
}

#[test]
fn every_answer_is_right_and_publishing_goes_on_under_load_and_edits() {
    let place = Place::new();
    for n in 0..2_500 {
        place.write(
            &format!("stable/{}/{n}.txt", n % 50),
            &format!("constant{} text\nof file {n}\n", n % 25),
        );
    }
    for slot in 0..SLOTS {
        place.write(
            &format!("edited/{slot}.txt"),
            &format!("{} version 0 end\n", name_of(slot)),
        );
    }
    let sets = [
        "--set",
        "index_mode=on",
        "--set",
        "index_watch_debounce_ms=20",
    ];
    ok(&place.forge_search(&[&["serve", "--detach"], &sets[..]].concat()));
    let status = || -> Value {
        serde_json::from_str(&ok(
            &place.ggrep(&[&["status", "--json"], &sets[..]].concat())
        ))
        .unwrap()
    };
    wait_until("the index is there", || status()["sync"]["state"] == "idle");
    let (socket, hello) = greeting(&place, &sets);
    let first = status();
    let load = Load::before_edits(socket, hello);
    assert_eq!(load.expected[&3]["count"], 100);
    let seconds = number("FORGE_SEARCH_TEST_LOAD_SECONDS", 2);
    let clients = number("FORGE_SEARCH_TEST_CLIENTS", 16);
    let load = Arc::new(load);
    let editing = thread::spawn({
        let (load, root) = (load.clone(), place.root());
        move || load.edit(&root)
    });
    let asking: Vec<_> = (0..clients)
        .map(|number| {
            let load = load.clone();
            thread::spawn(move || load.ask(number))
        })
        .collect();
    let has_ended = || asking.iter().any(thread::JoinHandle::is_finished);
    load.until_published(&first, seconds, status, has_ended);
    load.over.store(true, Ordering::SeqCst);
    for client in asking {
        client.join().unwrap();
    }
    editing.join().unwrap();
    println!("{clients} clients, {seconds} s, {}", load.report());
}

/// Phases of a daemon's life in which the test kills it.
const PHASES: [&str; 6] = [
    "begins",
    "listens",
    "builds or compares",
    "follows",
    "answers",
    "ends",
];

#[test]
fn a_daemon_that_is_killed_at_any_moment_is_replaced_by_a_correct_one() {
    let place = Place::new();
    for n in 0..400 {
        place.write(&format!("many/{n}.txt"), &format!("needle {n}\n"));
    }
    let sets = ["--set", "index_mode=on"];
    let kills = number("FORGE_SEARCH_TEST_KILLS", 8);
    let mut dice = Dice(5);
    for turn in 0..kills {
        let args = [&["serve", "--background"], &sets[..]].concat();
        let program = env!("CARGO_BIN_EXE_forge-search");
        let mut daemon = place
            .command(program, &args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let file = format!("many/{}.txt", turn % 400);
        let edit = || place.write(&file, &format!("needle {turn} edited\n"));
        let listens = || wait_until("it listens", || !place.sockets().is_empty());
        let state = || -> Value {
            let told = ok(&place.ggrep(&[&["status", "--json"], &sets[..]].concat()));
            serde_json::from_str::<Value>(&told).unwrap()["sync"]["state"].clone()
        };
        // The kills take turns through the phases.
        let phase = PHASES[usize::try_from(turn).unwrap() % PHASES.len()];
        match phase {
            "begins" => {
                thread::sleep(Duration::from_millis(dice.roll(30) as u64));
                edit();
            }
            "listens" => {
                listens();
                edit();
            }
            "builds or compares" => {
                edit();
                listens();
                thread::sleep(Duration::from_millis(dice.roll(40) as u64));
            }
            "follows" => {
                wait_until("it follows the tree", || state() == "idle");
                edit();
                thread::sleep(Duration::from_millis(dice.roll(300) as u64));
            }
            "answers" => {
                listens();
                edit();
                let mut client = place.command(
                    env!("CARGO_BIN_EXE_ggrep"),
                    &[&["--no-start"], &sets[..], &["needle"]].concat(),
                );
                let client = client.stdout(Stdio::null()).stderr(Stdio::null());
                let mut client = client.spawn().unwrap();
                thread::sleep(Duration::from_millis(dice.roll(30) as u64));
                daemon.kill().unwrap();
                // The client may have an answer or not, because it must not start another daemon.
                assert!(matches!(client.wait().unwrap().code(), Some(0 | 1)));
            }
            _ => {
                listens();
                edit();
                kill(i32::try_from(daemon.id()).unwrap(), Signal::TERM);
                thread::sleep(Duration::from_millis(dice.roll(20) as u64));
            }
        }
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        let answer =
            ok(&place.ggrep(&[&sets[..], &["--json", "--limit", "1000", "needle"]].concat()));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(
            answer["results"].as_array().unwrap().len(),
            400,
            "turn {turn}, killed while it {phase}: {answer}"
        );
        let edited =
            ok(&place
                .forge_search(&[&sets[..], &["-F", &format!("needle {turn} edited")]].concat()));
        assert!(edited.starts_with(&file), "turn {turn}: {edited}");
        assert_eq!(
            ok(&place.ggrep(&[&["stop"], &sets[..]].concat())),
            "stopped\n"
        );
    }
}

#[test]
fn a_signal_cancels_running_queries_and_the_daemon_ends_in_time() {
    let place = Place::new();
    // The search would last longer than the guard.
    slow_files(&place.root().join("slow"));
    let sets = [
        "--set",
        "index_mode=off",
        "--set",
        "index_shutdown_timeout_ms=300000",
    ];
    let mut daemon = place.serve(&sets);
    let status = ok(&place.ggrep(&[&["status", "--json"], &sets[..]].concat()));
    let status: Value = serde_json::from_str(&status).unwrap();
    let hello = json!({
        "protocol_versions": [2],
        "store_id": status["store_id"],
        "config_fingerprint": status["config_fingerprint"],
    });
    let socket = place.sockets()[0].clone();
    let mut talk = Talk::open(&socket, &hello);
    // The search must still run when the signal arrives.
    let slow = json!({"type": "tool", "tool": "Search", "request": {"pattern": SLOW, "timeout_ms": 600_000}, "request_id": "slow"});
    talk.send(slow.to_string().as_bytes());
    let mut other = Talk::open(&socket, &hello);
    wait_until("it runs", || {
        other.ask(&json!({"type": "status"}))["queries"]["in_flight"] == 1
    });
    let began = Instant::now();
    kill(i32::try_from(daemon.id()).unwrap(), Signal::TERM);
    let answer = talk.next();
    assert_eq!(answer["error"]["code"], "cancelled", "{answer}");
    assert_eq!(answer["error"]["request_id"], "slow");
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    assert!(began.elapsed() < GUARD, "{:?}", began.elapsed());
}

#[test]
fn a_thousand_clients_at_once_are_all_answered() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, all).unwrap();
    let place = Place::new();
    // The files of an index would count, too.
    let sets = ["--set", "index_mode=off"];
    ok(&place.forge_search(&[&["serve", "--detach"], &sets[..]].concat()));
    let (socket, hello) = greeting(&place, &sets);
    let pid = place.daemons()[0];
    let question = json!({"type": "search", "query": "retry_delay"}).to_string();
    // The first question loads the word table.
    let mut first = Talk::open(&socket, &hello);
    first.send(question.as_bytes());
    first.next();
    let before = held(pid);
    for _ in 0..3 {
        let mut talks: Vec<Talk> = (0..1_000).map(|_| Talk::open(&socket, &hello)).collect();
        assert!(held(pid).1 >= 1_000);
        for some in talks.chunks_mut(8) {
            // All clients without an id count as one client of their user, so some of these queries
            // wait.
            some.iter_mut()
                .for_each(|talk| talk.send(question.as_bytes()));
            for talk in some {
                let answer = talk.next();
                assert_eq!(answer["results"][0]["path"], "src/delay.rs", "{answer}");
            }
        }
        drop(talks);
        wait_until("they are gone", || held(pid).1 <= before.1);
    }
    let most = most_memory(before.0, 4_096);
    let after = held(pid).0;
    wait_until("its memory is given back", || held(pid).0 <= most);
    println!(
        "1,000 connections, three times: {} KiB before, {after} at once after, {} later",
        before.0,
        held(pid).0
    );
}
