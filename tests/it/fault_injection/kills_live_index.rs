//! The real program, killed while it keeps a live index: during a first build, during a merge,
//! while it saves a stopped build, and while it resumes that build.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::edition::{check_tidy, names};
use super::program::World;
use super::times;
use crate::differential::Seeded;
use crate::support::GUARD;

/// The settings of the program. A batch is small, so a build can be stopped between two batches. A
/// build rests between batches, because a search has just run. One edited file makes a merge worth
/// it.
const HABITS: [&str; 5] = [
    "index_mode=on",
    "index_max_memory_bytes=8192",
    "index_watch_debounce_ms=5",
    "index_idle_boost_ms=60000",
    "index_build_throttle_ms=4",
];

fn with_habits<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let live_options = HABITS.iter().flat_map(|habit| ["--set", habit]);
    args.iter().copied().chain(live_options).collect()
}

/// The moment at which the program is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Aim {
    FirstBuild,
    /// While it saves a stopped build, after a signal.
    Checkpoint,
    /// While it resumes a stopped build.
    Resumption,
    Merge,
}

const AIMS: [Aim; 4] = [
    Aim::FirstBuild,
    Aim::Checkpoint,
    Aim::Resumption,
    Aim::Merge,
];

/// The program with a live index. It answers one request a line. It is killed when dropped.
struct Living {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Drop for Living {
    fn drop(&mut self) {
        // The program may have ended already.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

impl Living {
    fn start(world: &World) -> Living {
        let args = with_habits(&["call", "--jsonl", "--set", "emit_stats=true"]);
        let mut child = world.start_with(&args, Stdio::piped());
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Living {
            child,
            stdin,
            stdout,
        }
    }

    fn ask(&mut self, pattern: &str) -> Value {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{}", json!({"pattern": pattern})).unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| {
            let mut said = String::new();
            let ended = self.kill();
            let mut stderr = self.child.stderr.take().unwrap();
            stderr.read_to_string(&mut said).unwrap();
            panic!("{error}: {line}; {ended}: {said}")
        })
    }

    /// Searches until the index is complete and used.
    fn ask_until_complete(&mut self, pattern: &str) -> Value {
        let started = Instant::now();
        loop {
            let answer = self.ask(pattern);
            let stats = &answer["stats"];
            if stats["index_safety_state"] == "COMPLETE" && stats["index_exclusion_used"] == true {
                return answer;
            }
            assert!(started.elapsed() < GUARD, "{stats}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(&mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    /// Closes the input, so that the program ends regularly.
    #[track_caller]
    fn end(mut self) {
        self.stdin = None;
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

/// Returns the files with matches in an answer.
fn paths(answer: &Value) -> BTreeSet<String> {
    let matches = answer["matches"].as_array().unwrap().iter();
    let paths = matches.map(|one| one["data"]["path"]["text"].as_str().unwrap());
    paths.map(String::from).collect()
}

/// A tree that is edited, and the test's knowledge about it.
struct Edited {
    world: World,
    rng: Seeded,
    edits: u64,
    /// The files that contain the needle of the last edit.
    marked: BTreeSet<String>,
}

impl Edited {
    fn new() -> Edited {
        Edited {
            world: World::new(),
            rng: Seeded::new(5),
            edits: 0,
            marked: BTreeSet::new(),
        }
    }

    fn needle(&self) -> String {
        format!("the needle of edit {}x", self.edits)
    }

    /// Writes a new needle to some files, one of which may be new. May remove another file.
    fn edit(&mut self) {
        self.edits += 1;
        self.marked.clear();
        for _ in 0..3 {
            let (dir, file) = (self.rng.below(8), self.rng.below(42));
            let path = format!("{dir}/{file}.txt");
            let lines = (0..60).map(|_| format!("{:x}\n", self.rng.next()));
            let text: String = lines.collect();
            let text = text + &self.needle() + "\n";
            self.world.write(&path, text);
            self.marked.insert(path);
        }
        let (dir, file) = (self.rng.below(8), self.rng.below(42));
        let path = format!("{dir}/{file}.txt");
        if self.rng.one_in(2) && !self.marked.contains(&path) {
            let _unless_gone = fs::remove_file(self.world.top().join("tree").join(path));
        }
    }

    /// Edits until a merge has begun to write. Searches after each edit, because the program
    /// decides about a merge only when a file changes. Each search must find the last edit, however
    /// far the index is.
    #[track_caller]
    fn edit_until_merging(&mut self, living: &mut Living, before: &BTreeSet<String>) {
        let started = Instant::now();
        loop {
            self.edit();
            let answer = living.ask(&self.needle());
            self.check(&answer, "edited");
            if self.writes(before, Duration::from_millis(50)) {
                return;
            }
            assert!(started.elapsed() < GUARD, "nothing is merged: {answer}");
        }
    }

    /// Checks that an answer has the files with the needle of the last edit.
    #[track_caller]
    fn check(&self, answer: &Value, what: &str) {
        assert_eq!(paths(answer), self.marked, "{what}");
    }

    /// Returns a line of a random file. The file may be unedited.
    fn any_line(&mut self) -> String {
        loop {
            let path = format!("{}/{}.txt", self.rng.below(8), self.rng.below(40));
            if let Ok(text) = fs::read_to_string(self.world.top().join("tree").join(path)) {
                let lines: Vec<&str> = text.lines().collect();
                return self.rng.pick(&lines).to_string();
            }
        }
    }

    /// Returns the files that contain a line, by reading every file.
    fn files_with(&self, line: &str) -> BTreeSet<String> {
        let tree = self.world.top().join("tree");
        let dirs = (0..8).map(|dir| dir.to_string());
        let files = dirs.flat_map(|dir| {
            let names = names(&tree.join(&dir)).into_iter();
            names.map(move |name| format!("{dir}/{name}"))
        });
        let holds = |path: &String| fs::read_to_string(tree.join(path)).unwrap().contains(line);
        files.filter(holds).collect()
    }

    /// Checks the index and an answer with new processes, which did not build it.
    #[track_caller]
    fn check_from_outside(&self, what: &str) {
        let verified = self.world.run(&with_habits(&["index", "verify"]));
        let said = String::from_utf8_lossy(&verified.stderr);
        let there = self.world.has_index();
        assert_eq!(verified.status.success(), there, "{what}: {said}");
        let listed = self.world.ok(&with_habits(&["index", "list", "--json"]));
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let listed = listed["indexes"].as_array().unwrap();
        // A segment without a manifest is listed with the reason why it is not usable.
        let is_sound = |one: &&Value| one["damaged"].is_null() && one["unchecked"].is_null();
        let sound = listed.iter().filter(is_sound);
        assert_eq!(sound.count(), usize::from(there), "{what}: {listed:?}");
        let request = json!({"pattern": self.needle()}).to_string();
        let args = with_habits(&["call", &request, "--set", "emit_stats=true"]);
        let answer: Value = serde_json::from_str(&self.world.ok(&args)).unwrap();
        self.check(&answer, what);
        let stats = &answer["stats"];
        let absent = stats["index_safety_state"] == "ABSENT";
        assert_eq!(absent, !there, "{what}: {stats}");
        assert!(there || stats["index_exclusion_used"] == false, "{what}");
    }

    /// Returns true if a stopped build is saved.
    fn has_unfinished(&self) -> bool {
        let mut kept = self.world.kept().into_iter();
        kept.any(|dir| dir.join("unfinished").exists())
    }

    /// Waits until a build has begun to write. Returns false after the time `most`.
    fn writes(&self, before: &BTreeSet<String>, most: Duration) -> bool {
        let started = Instant::now();
        while self.world.unfinished().is_subset(before) {
            if started.elapsed() > most {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }

    fn sleep_up_to(&mut self, time: Duration) {
        let micros = self.rng.next() % (time.as_micros() as u64).max(1);
        std::thread::sleep(Duration::from_micros(micros));
    }

    fn forget_index(&self) {
        let cache = self.world.top().join("cache");
        if cache.exists() {
            fs::remove_dir_all(cache).unwrap();
        }
    }

    /// Stops a first build with a signal. Returns the time until it ended, if the build was saved.
    fn checkpoint(&mut self, building: Duration) -> Option<Duration> {
        self.forget_index();
        let mut living = Living::start(&self.world);
        living.ask("needle");
        self.writes(&BTreeSet::new(), GUARD);
        self.sleep_up_to(building / 2);
        let started = Instant::now();
        living.send(Signal::TERM);
        assert_eq!(living.child.wait().unwrap().code(), Some(143));
        let took = started.elapsed();
        let kept = self.has_unfinished() && !self.world.has_index();
        kept.then_some(took)
    }

    /// Runs the program until its index is complete and was published again. Checks that no other
    /// file is left.
    #[track_caller]
    fn live_on(&mut self, what: &str) {
        let mut living = Living::start(&self.world);
        let answer = living.ask_until_complete(&self.needle());
        self.check(&answer, what);
        for _ in 0..10 {
            let line = self.any_line();
            let found = paths(&living.ask_until_complete(&line));
            assert_eq!(found, self.files_with(&line), "{what}: {line}");
        }
        let dir = self.world.kept().remove(0);
        let manifest = || fs::read(dir.join("manifest")).unwrap();
        let before = manifest();
        let left = self.world.unfinished();
        self.edit_until_merging(&mut living, &left);
        let started = Instant::now();
        while manifest() == before || !self.world.unfinished().is_empty() {
            assert!(started.elapsed() < GUARD, "{what}: nothing is published");
            let answer = living.ask(&self.needle());
            self.check(&answer, what);
        }
        living.end();
        check_tidy(&dir, what);
        assert_eq!(
            names(&self.world.store().join("cookies")),
            [""; 0],
            "{what}"
        );
    }
}

/// The durations of the operations that are to be interrupted.
#[derive(Debug)]
struct Times {
    building: Duration,
    keeping: Duration,
    merging: Duration,
}

impl Times {
    fn measure(edited: &mut Edited) -> Times {
        edited.forget_index();
        let mut living = Living::start(&edited.world);
        living.ask("needle");
        assert!(edited.writes(&BTreeSet::new(), GUARD));
        let started = Instant::now();
        living.ask_until_complete("needle");
        let building = started.elapsed();
        edited.edit_until_merging(&mut living, &BTreeSet::new());
        let started = Instant::now();
        while !edited.world.unfinished().is_empty() {
            assert!(started.elapsed() < GUARD);
        }
        let merging = started.elapsed();
        living.end();
        let keeping = (0..50).find_map(|_| edited.checkpoint(building));
        let keeping = keeping.expect("what a stopped build has done is kept");
        Times {
            building,
            keeping,
            merging,
        }
    }
}

/// Runs the program and kills it at a moment. Returns true if the kill interrupted the intended
/// operation.
fn shoot(edited: &mut Edited, aim: Aim, times: &Times) -> bool {
    match aim {
        Aim::FirstBuild | Aim::Checkpoint => edited.forget_index(),
        Aim::Resumption => {
            let mut tries = 0..8;
            if tries.all(|_| edited.checkpoint(times.building).is_none()) {
                return false;
            }
        }
        Aim::Merge if edited.world.has_index() => {}
        Aim::Merge => {
            edited.world.ok(&with_habits(&["index", "build"]));
        }
    }
    let mut living = Living::start(&edited.world);
    let answer = living.ask(&edited.needle());
    edited.check(&answer, "at first");
    let before = edited.world.unfinished();
    let building = match aim {
        Aim::Merge => {
            living.ask_until_complete(&edited.needle());
            edited.edit_until_merging(&mut living, &before);
            times.merging
        }
        // The build may have been done before the answer.
        _ => {
            edited.writes(&before, Duration::from_millis(200));
            match aim {
                Aim::FirstBuild => times.building / 2,
                Aim::Resumption => times.building / 8,
                _ => times.building / 4,
            }
        }
    };
    if !edited.rng.one_in(4) {
        edited.sleep_up_to(building);
    }
    if aim == Aim::Checkpoint {
        living.send(Signal::TERM);
        edited.sleep_up_to(times.keeping);
    }
    let status = living.kill();
    let left = !edited.world.unfinished().is_subset(&before);
    let there = edited.world.has_index();
    let in_time = status.code().is_none();
    // The old files stay until there are better ones.
    assert!(aim != Aim::Merge || there);
    assert!(aim != Aim::Resumption || there || edited.has_unfinished());
    match aim {
        Aim::Merge => in_time && there && left,
        // A kill after the build was saved also counts, as long as the process had not ended.
        Aim::Checkpoint => in_time && !there && (left || edited.has_unfinished()),
        Aim::FirstBuild | Aim::Resumption => in_time && !there && left,
    }
}

#[test]
fn a_program_that_is_killed_while_its_index_lives_leaves_one_or_none() {
    let wanted = 2 * times() - 1;
    let start = Instant::now();
    let mut edited = Edited::new();
    edited.edit();
    let mut times = Times::measure(&mut edited);
    println!("{times:?}");
    let (mut hits, mut shots) = ([0; AIMS.len()], [0; AIMS.len()]);
    let (mut rounds, mut kept, mut lives) = (0, 0, 0);
    // The scheduler decides whether a kill comes in time, so the test repeats rounds until enough
    // of them did.
    while hits.iter().any(|hits| *hits < wanted) {
        assert!(
            start.elapsed() < GUARD * self::times() as u32,
            "{rounds} rounds: {hits:?} of {AIMS:?}"
        );
        rounds += 1;
        if rounds % 40 == 0 {
            // The speed of the machine may have changed, so measure again.
            times = Times::measure(&mut edited);
        }
        let lacking = (0..AIMS.len()).filter(|n| hits[*n] < wanted);
        let which = edited.rng.pick(&lacking.collect::<Vec<_>>());
        let aim = AIMS[which];
        shots[which] += 1;
        hits[which] += u64::from(shoot(&mut edited, aim, &times));
        let what = format!("round {rounds}, {aim:?}");
        kept += u64::from(edited.has_unfinished());
        if edited.rng.one_in(2) {
            edited.edit();
        }
        edited.check_from_outside(&what);
        if edited.rng.one_in(5) {
            edited.live_on(&what);
            lives += 1;
        }
    }
    edited.live_on("at last");
    println!(
        "{rounds} rounds, {hits:?} hits of {shots:?} shots at {AIMS:?}; a stopped build was kept after {kept} of them; {} next lives",
        lives + 1
    );
}
