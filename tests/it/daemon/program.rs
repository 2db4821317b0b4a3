//! Tests of the programs: `forge-search serve`, `ggrep`, and searches that a daemon answers.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forge_search::internal::tool::daemon::frame::{encode, read};
use serde_json::{Value, json};

use super::schemas;
use crate::cli::command;
use crate::support::GUARD;

/// A tree with its own directories for sockets and state. Its daemons are killed when it is
/// dropped.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Makes a place whose tree has no files.
    pub(crate) fn empty() -> Place {
        let place = Place {
            dir: tempfile::tempdir().unwrap(),
        };
        let private = fs::Permissions::from_mode(0o700);
        fs::create_dir_all(place.dir.path().join("run")).unwrap();
        fs::set_permissions(place.dir.path().join("run"), private).unwrap();
        place
    }

    pub(super) fn new() -> Place {
        let place = Place::empty();
        place.write("src/delay.rs", "pub fn retry_delay() -> u64 {\n    42\n}\n");
        place.write("src/use.rs", "fn main() {\n    retry_delay();\n}\n");
        place.write("notes.txt", "esc \u{1b}[31m retry\u{9b}\u{7}\n");
        place
    }

    /// Returns the directory that holds the tree and all files of the programs.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("tree")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join("tree").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = command(program, &self.root());
        command
            .env("XDG_RUNTIME_DIR", self.dir.path().join("run"))
            .env("XDG_CACHE_HOME", self.dir.path().join("cache"))
            .env("XDG_STATE_HOME", self.dir.path().join("state"))
            .env("XDG_CONFIG_HOME", self.dir.path().join("config"))
            .env("HOME", self.dir.path().join("home"))
            .args(args)
            .stdin(Stdio::null());
        command
    }

    pub(super) fn ggrep(&self, args: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_ggrep"), args)
            .output()
            .unwrap()
    }

    pub(super) fn forge_search(&self, args: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_forge-search");
        self.command(program, args).output().unwrap()
    }

    /// Starts a daemon in the foreground, and returns once it serves.
    pub(super) fn serve(&self, args: &[&str]) -> Child {
        let program = env!("CARGO_BIN_EXE_forge-search");
        let mut child = self
            .command(program, &[&["serve"], args].concat())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        // The pipe stays open as long as the daemon may write to it.
        thread::spawn(move || said.read_to_end(&mut Vec::new()));
        child
    }

    /// Returns the process ids of this place's daemons.
    pub(super) fn daemons(&self) -> Vec<i32> {
        let run = self.dir.path().join("run");
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let asked = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let is_daemon = asked.split(|byte| *byte == 0).any(|word| word == b"serve");
            let name = format!("XDG_RUNTIME_DIR={}", run.display());
            let is_here = environment
                .split(|byte| *byte == 0)
                .any(|one| one == name.as_bytes());
            if is_daemon && is_here {
                found.push(pid);
            }
        }
        found
    }

    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.dir.path().join("run/forge-search")) else {
            return Vec::new();
        };
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "sock"))
            .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for pid in self.daemons() {
            kill(pid, rustix::process::Signal::KILL);
        }
    }
}

pub(super) fn kill(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    // The process may have ended already.
    let _ = rustix::process::kill_process(pid, signal);
}

/// Stops a process, and returns once all of its threads have stopped.
pub(super) fn halt(pid: i32) {
    kill(pid, rustix::process::Signal::STOP);
    let is_stopped = |stat: String| {
        let (_, state) = stat.rsplit_once(") ").unwrap();
        state.starts_with('T')
    };
    wait_until("all threads have stopped", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat"));
            stat.is_ok_and(is_stopped)
        })
    });
}

pub(super) fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < GUARD, "not in time: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
pub(super) fn ok(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output.stdout)
}

#[test]
fn a_question_starts_a_daemon_that_goes_on() {
    let place = Place::new();
    let first = ok(&place.ggrep(&["retry delay"]));
    assert!(
        first.starts_with("src/delay.rs:1-3 (100%, defined here, words)\n"),
        "{first}"
    );
    assert!(
        first.contains("     1  pub fn retry_delay() -> u64 {\n"),
        "{first}"
    );
    let daemons = place.daemons();
    assert_eq!(daemons.len(), 1);
    assert_eq!(ok(&place.ggrep(&["retry delay"])), first);
    assert_eq!(place.daemons(), daemons, "the same one");
    // A client in a subdirectory uses the same daemon, and gets the results of that subdirectory.
    let mut below = place.command(env!("CARGO_BIN_EXE_ggrep"), &["--json", "retry"]);
    fs::create_dir(place.root().join(".git")).unwrap();
    below.current_dir(place.root().join("src"));
    let answer: Value = serde_json::from_str(&ok(&below.output().unwrap())).unwrap();
    schemas::check("query_success", &answer);
    let paths: Vec<&str> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["src/delay.rs", "src/use.rs"]);
    assert_eq!(place.daemons(), daemons);
}

#[test]
fn twenty_clients_that_start_at_once_start_one_daemon() {
    let place = Place::new();
    let clients: Vec<Child> = (0..20)
        .map(|_| {
            place
                .command(env!("CARGO_BIN_EXE_ggrep"), &["retry delay"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut answers: Vec<String> = clients
        .into_iter()
        .map(|client| ok(&client.wait_with_output().unwrap()))
        .collect();
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(place.daemons().len(), 1);
}

#[test]
fn a_daemon_that_was_killed_is_replaced() {
    let place = Place::new();
    let first = ok(&place.ggrep(&["retry"]));
    let killed = place.daemons();
    for pid in &killed {
        kill(*pid, rustix::process::Signal::KILL);
    }
    wait_until("it is gone", || place.daemons().is_empty());
    assert_eq!(place.sockets().len(), 1, "as it left it");
    assert_eq!(ok(&place.ggrep(&["retry"])), first);
    let now = place.daemons();
    assert!(now.len() == 1 && now != killed);
}

#[test]
fn stop_ends_the_daemon_and_says_so_if_there_is_none() {
    let place = Place::new();
    ok(&place.ggrep(&["retry"]));
    assert_eq!(ok(&place.ggrep(&["stop"])), "stopped\n");
    wait_until("it is gone", || place.daemons().is_empty());
    assert_eq!(place.sockets(), Vec::<PathBuf>::new());
    let again = place.ggrep(&["stop", "--json"]);
    assert_eq!(ok(&again), "{\"stopped\":false}\n");
    let again = place.ggrep(&["stop"]);
    assert!(
        text(&again.stderr).contains("no daemon was running"),
        "{again:?}"
    );
}

#[test]
fn serve_detaches_and_there_is_only_one() {
    let place = Place::new();
    let socket = ok(&place.forge_search(&["serve", "--detach"]));
    assert_eq!(place.sockets(), [PathBuf::from(socket.trim_end())]);
    let daemons = place.daemons();
    assert_eq!(daemons.len(), 1);
    // The daemon has its own session, so it does not end with a terminal.
    let stat = fs::read_to_string(format!("/proc/{}/stat", daemons[0])).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    assert_eq!(fields[3], daemons[0].to_string(), "session of {stat}");
    assert_eq!(ok(&place.forge_search(&["serve", "--detach"])), socket);
    assert_eq!(place.daemons(), daemons);
    let second = place.forge_search(&["serve"]);
    assert_eq!(second.status.code(), Some(2));
    assert!(
        text(&second.stderr).contains("another daemon already listens"),
        "{second:?}"
    );
    assert!(!ok(&place.ggrep(&["--no-start", "retry"])).is_empty());
}

#[test]
fn a_daemon_ends_in_order_on_a_signal() {
    let place = Place::new();
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let mut daemon = place.serve(&[]);
        ok(&place.ggrep(&["--no-start", "retry"]));
        kill(i32::try_from(daemon.id()).unwrap(), signal);
        let mut ended = None;
        wait_until("it ends", || {
            ended = daemon.try_wait().unwrap();
            ended.is_some()
        });
        // A daemon that exceeds `index_shutdown_timeout_ms` exits with another status.
        assert_eq!(ended.unwrap().code(), Some(0));
        assert_eq!(place.sockets(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_daemon_that_nobody_asks_ends_by_itself() {
    let place = Place::new();
    let idle = ["--set", "tools.daemon.idle_exit_ms=300"];
    ok(&place.ggrep(&[&idle[..], &["retry"]].concat()));
    wait_until("nobody asks", || place.daemons().is_empty());
    assert_eq!(place.sockets(), Vec::<PathBuf>::new());
}

#[test]
fn a_question_that_may_not_start_a_daemon_starts_none() {
    let place = Place::new();
    let none = place.ggrep(&["--no-start", "retry"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(
        text(&none.stderr).contains("forge-search serve"),
        "{none:?}"
    );
    let none = place.ggrep(&["--no-start", "--json", "retry"]);
    let failure: Value = serde_json::from_slice(&none.stdout).unwrap();
    schemas::check("query_error", &failure);
    let own = ok(&place.ggrep(&["--no-start", "--fallback", "retry delay"]));
    assert!(place.daemons().is_empty());
    assert_eq!(ok(&place.ggrep(&["retry delay"])), own);
    // If a daemon can't be started, the error names the cause.
    let taken = place.dir.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::set_permissions(&taken, fs::Permissions::from_mode(0o755)).unwrap();
    let socket = taken.join("s.sock");
    let refused = place.ggrep(&["--socket", socket.to_str().unwrap(), "retry"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("0700"), "{refused:?}");
}

#[test]
fn wrong_questions_are_refused_before_a_daemon_is_started() {
    let place = Place::new();
    for (args, part) in [
        (&["  "][..], "the question is blank"),
        (&["x", "/nowhere/at/all"], "/nowhere/at/all"),
        (&["--set", "max_filez=1", "x"], "max_files"),
    ] {
        let refused = place.ggrep(args);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(text(&refused.stderr).contains(part), "{refused:?}");
        assert!(refused.stdout.is_empty());
        let json = place.ggrep(&[&["--json"], args].concat());
        let failure: Value = serde_json::from_slice(&json.stdout).unwrap();
        schemas::check("query_error", &failure);
        assert_eq!(failure["error"]["code"], "invalid_request");
    }
    assert!(place.daemons().is_empty());
}

#[test]
fn a_command_after_options_is_no_question() {
    let place = Place::new();
    let refused = place.ggrep(&["--set", "threads=1", "stop"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        text(&refused.stderr).contains("put it first"),
        "{refused:?}"
    );
    assert!(place.daemons().is_empty());
    let asked = place.ggrep(&["--set", "threads=1", "--", "stop"]);
    assert!(
        text(&asked.stderr).contains("nothing was found"),
        "{asked:?}"
    );
    ok(&place.ggrep(&["stop", "--set", "threads=1"]));
    wait_until("it is gone", || place.daemons().is_empty());
}

#[test]
fn named_files_are_searched_whatever_they_are_called() {
    let place = Place::new();
    place.write(".hidden", "retry in a hidden file\n");
    place.write(".ignore", "ignored.txt\n");
    place.write("ignored.txt", "retry in an ignored file\n");
    place.write("new\nline [x]*.txt", "retry in a file with an odd name\n");
    for name in [".hidden", "ignored.txt", "new\nline [x]*.txt", "src/use.rs"] {
        let answer: Value =
            serde_json::from_str(&ok(&place.ggrep(&["--json", "--raw", "retry", name]))).unwrap();
        schemas::check("query_success", &answer);
        assert_eq!(answer["results"][0]["path"], name, "{answer}");
        assert_eq!(answer["results"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn control_characters_in_files_reach_no_terminal() {
    let place = Place::new();
    place.write("na\u{1b}me.txt", "retry \u{1b}]0;x\u{7}\n");
    let safe = |bytes: &[u8]| {
        let shown = text(bytes);
        assert!(!shown.is_empty());
        shown.chars().all(|c| c == '\n' || !c.is_control())
    };
    for args in [
        &["retry"][..],
        &["--json", "retry"],
        &["--explain", "retry"],
    ] {
        let output = place.ggrep(args);
        ok(&output);
        assert!(safe(&output.stdout), "{args:?} {output:?}");
    }
    let shown = ok(&place.ggrep(&["retry"]));
    assert!(
        shown.contains("esc \\x1b[31m retry\\u{9b}\\x07")
            || shown.contains("esc \\x1b[31m retry\\x9b\\x07"),
        "{shown}"
    );
    let raw = ok(&place.ggrep(&["--raw", "retry"]));
    assert!(raw.contains("esc \u{1b}[31m retry\u{9b}\u{7}"), "{raw:?}");
    let json: Value = serde_json::from_str(&ok(&place.ggrep(&["--json", "esc"]))).unwrap();
    let content = &json["results"][0]["content"];
    assert_eq!(content, "esc \\x1b[31m retry\\x9b\\x07");
    let json = place.ggrep(&["--json", "--raw", "esc"]);
    let json: Value = serde_json::from_str(&ok(&json)).unwrap();
    let content = &json["results"][0]["content"];
    assert_eq!(content, "esc \u{1b}[31m retry\u{9b}\u{7}");
}

#[test]
fn wrong_options_are_reported_as_json_if_requested() {
    let place = Place::new();
    for args in [
        &["--json", "--limit", "0", "retry"][..],
        &["--json", "--bogus"],
        &["--json"],
        &["status", "--json", "--prometheus"],
    ] {
        let refused = place.ggrep(args);
        assert_eq!(refused.status.code(), Some(1), "{args:?}");
        let failure: Value = serde_json::from_slice(&refused.stdout).unwrap();
        schemas::check("query_error", &failure);
        assert_eq!(failure["error"]["code"], "invalid_request", "{args:?}");
        assert!(refused.stderr.is_empty(), "{refused:?}");
    }
    let asked_for = place.ggrep(&["--bogus", "--", "--json"]);
    assert!(asked_for.stdout.is_empty(), "{asked_for:?}");
}

#[test]
fn the_daemon_in_another_socket_directory_is_found() {
    let place = Place::new();
    ok(&place.ggrep(&["retry"]));
    let daemons = place.daemons();
    let ask = |args: &[&str]| {
        let mut command = place.command(env!("CARGO_BIN_EXE_ggrep"), args);
        command.env_remove("XDG_RUNTIME_DIR").output().unwrap()
    };
    let answer: Value = serde_json::from_str(&ok(&ask(&["--json", "retry"]))).unwrap();
    assert_eq!(answer["results"][0]["path"], "src/delay.rs");
    let status: Value = serde_json::from_str(&ok(&ask(&["status", "--json"]))).unwrap();
    assert_eq!(status["daemon"]["pid"].as_i64(), Some(daemons[0].into()));
    assert_eq!(place.daemons(), daemons);
}

#[test]
fn a_daemon_reports_a_log_that_can_not_be_written() {
    let place = Place::new();
    let nowhere = place.dir().join("no/such/dir/x.log");
    let refused = place.forge_search(&["serve", "--detach", "--log", nowhere.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("x.log"), "{refused:?}");
    let log = place.dir().join("x.log");
    ok(&place.forge_search(&["serve", "--detach", "--log", log.to_str().unwrap()]));
    // A running daemon keeps its log file, and no other daemon may log to the same file.
    for args in [&[][..], &["--set", "threads=1"]] {
        let args = [&["serve", "--detach", "--log", log.to_str().unwrap()], args].concat();
        let refused = place.forge_search(&args);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
    assert_eq!(place.daemons().len(), 1);
}

/// Returns how many queries the daemon has answered.
fn answered(place: &Place) -> u64 {
    let shown = ok(&place.ggrep(&["status", "--prometheus"]));
    let line = "forge_search_queries_total{outcome=\"ok\"} ";
    let found = shown.lines().find_map(|one| one.strip_prefix(line));
    found.unwrap().parse().unwrap()
}

/// Compares the output of searches with and without a daemon.
#[track_caller]
fn same(place: &Place, all: &[&[&str]]) {
    let without: Vec<Output> = all.iter().map(|args| place.forge_search(args)).collect();
    let mut daemon = place.serve(&[]);
    let before = answered(place);
    for (args, without) in all.iter().zip(without) {
        let with = place.forge_search(args);
        assert_eq!(with.status.code(), without.status.code(), "{args:?}");
        assert_eq!(text(&with.stdout), text(&without.stdout), "{args:?}");
        assert_eq!(text(&with.stderr), text(&without.stderr), "{args:?}");
    }
    // The daemon must answer more than half of the searches, or the comparison proves nothing.
    let by_daemon = answered(place) - before;
    assert!(by_daemon * 2 > all.len() as u64, "{by_daemon}");
    kill(
        i32::try_from(daemon.id()).unwrap(),
        rustix::process::Signal::TERM,
    );
    daemon.wait().unwrap();
}

#[test]
fn a_search_that_a_daemon_answers_prints_the_same_bytes() {
    let place = Place::new();
    for n in 0..300 {
        place.write(
            &format!("many/{n}.txt"),
            &"line with needle\n".repeat(n % 5),
        );
    }
    let deep = place.root().join("src");
    let other = Path::new("/usr/share/doc");
    same(
        &place,
        &[
            &["retry"],
            &["--json", "retry"],
            &["-C1", "retry"],
            &["-A1", "retry"],
            &["-i", "RETRY", "src"],
            &["-F", "delay(", deep.to_str().unwrap()],
            &["needle"],
            &["--json", "--max-results", "1000", "needle"],
            &["--max-files", "10", "needle"],
            &["-m", "1", "-g", "!many/1*", "needle"],
            &["nothing at all"],
            &["retry("],
            &["retry", "no/such/path"],
            &["--fuzzy", "1", "retri"],
            &["--timeout-ms", "100000", "retry"],
            &["--set", "nonsense=1", "retry"],
            &["--hidden", "--no-ignore", "retry"],
            &["zzz_not_there", other.to_str().unwrap()],
        ],
    );
}

fn status(place: &Place) -> Value {
    let status: Value = serde_json::from_str(&ok(&place.ggrep(&["status", "--json"]))).unwrap();
    schemas::check("status", &status);
    status
}

#[test]
fn status_and_health_are_printed_for_people_and_programs() {
    let place = Place::new();
    let none = status(&place);
    assert_eq!(none["daemon"]["running"], false);
    assert_eq!(none["canonical_root"], place.root().to_str().unwrap());
    for args in [&["health"][..], &["status", "--prometheus"]] {
        let failed = place.ggrep(args);
        assert_eq!(failed.status.code(), Some(1));
        assert!(
            text(&failed.stderr).contains("no daemon is running"),
            "{failed:?}"
        );
    }
    assert!(place.daemons().is_empty(), "asking how it is starts none");
    ok(&place.ggrep(&["retry"]));
    let one = status(&place);
    assert_eq!(one["daemon"]["running"], true);
    assert_eq!(one["daemon"]["pid"], place.daemons()[0]);
    assert_eq!(one["store_id"], none["store_id"]);
    let shown = ok(&place.ggrep(&["status", "--verbose"]));
    assert!(shown.contains("daemon.running: true\n"), "{shown}");
    assert!(shown.contains("queries.max_concurrent: 8\n"), "{shown}");
    let shown = ok(&place.ggrep(&["health"]));
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with("ok   manifest_present")),
        "{shown}"
    );
    let health: Value = serde_json::from_str(&ok(&place.ggrep(&["health", "--json"]))).unwrap();
    schemas::check("health", &health);
    let shown = ok(&place.ggrep(&["status", "--prometheus"]));
    assert!(
        shown.contains("forge_search_queries_total{outcome=\"ok\"} 1\n"),
        "{shown}"
    );
}

#[test]
fn searches_of_people_are_counted_by_the_daemon_that_answers_them() {
    let place = Place::new();
    let count = || answered(&place);
    let mut daemon = place.serve(&[]);
    ok(&place.forge_search(&["-C1", "retry"]));
    assert_eq!(count(), 1);
    // With another configuration, or with options that forbid it, the daemon is not used.
    for args in [
        &["--set", "threads=1", "retry"][..],
        &["--daemon", "off", "retry"],
        &["--index", "off", "retry"],
    ] {
        ok(&place.forge_search(args));
        assert_eq!(count(), 1, "{args:?}");
    }
    let by_daemon = [
        &["retry", "src"][..],
        &["--stats", "retry"],
        &["-j1", "retry"],
        &["--index", "auto", "--sortr", "modified", "retry"],
        &["call", r#"{"pattern": "retry"}"#],
        &["call", "--tool", "find_files", r#"{"name": "delay"}"#],
    ];
    for (nth, args) in by_daemon.iter().enumerate() {
        let said = ok(&place.forge_search(args));
        assert_eq!(count(), 2 + nth as u64, "{args:?}");
        let by_process = [args, &["--daemon", "off"][..]].concat();
        assert_eq!(said, ok(&place.forge_search(&by_process)), "{args:?}");
    }
    kill(
        i32::try_from(daemon.id()).unwrap(),
        rustix::process::Signal::TERM,
    );
    daemon.wait().unwrap();
}

#[test]
fn queries_are_logged_without_their_text() {
    let place = Place::new();
    ok(&place.ggrep(&["--mode", "debug", "--limit", "7", "retry delay"]));
    assert_eq!(
        place
            .ggrep(&["--timeout-ms", "1", "--json", "retry"])
            .status
            .code()
            .map(|code| code < 13),
        Some(true)
    );
    ok(&place.ggrep(&["stop"]));
    let dir = place.dir.path().join("state/forge-search");
    let logs: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .collect();
    assert_eq!(logs.len(), 1);
    assert_eq!(
        fs::metadata(&logs[0]).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let log = fs::read_to_string(&logs[0]).unwrap();
    assert!(!log.contains("retry") && !log.contains("delay"), "{log}");
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let query = lines
        .iter()
        .find(|line| line["target"] == "forge_search::query")
        .unwrap();
    for field in [
        "request_id",
        "profile",
        "max_results",
        "per_file",
        "snippet",
        "admission_ms",
        "snapshot_read_ms",
        "retrieve_ms",
        "rank_ms",
        "format_ms",
        "status",
    ] {
        assert!(!query[field].is_null(), "{field} in {query}");
    }
    assert_eq!(
        (&query["profile"], &query["max_results"], &query["status"]),
        (&json!("debug"), &json!(7), &json!("ok"))
    );
}

#[test]
fn stale_daemons_say_so_and_clients_go_on_to_another_one() {
    let place = Place::new();
    let config = place.dir.path().join("config/forge-search");
    fs::create_dir_all(&config).unwrap();
    let write = |threads: u32| {
        let text = format!(
            "[tools.search]\nthreads = {threads}\n[tools.daemon]\nconfig_debounce_ms = 20\n"
        );
        fs::write(config.join("config.toml"), text).unwrap();
    };
    write(1);
    let socket = ok(&place.forge_search(&["serve", "--detach"]));
    let first = place.daemons();
    let stale = |socket: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(socket.trim_end()).unwrap();
        let mut exchange = |message: &Value| -> Value {
            let frame = encode(message.to_string().as_bytes(), 1 << 20).unwrap();
            std::io::Write::write_all(&mut stream, &frame).unwrap();
            serde_json::from_slice(&read(&mut stream, 1 << 24).unwrap().unwrap()).unwrap()
        };
        exchange(
            &json!({"protocol_versions": [2], "store_id": first_store(&place), "config_fingerprint": pinned(&place)}),
        );
        let status = exchange(&json!({"type": "status"}));
        let found = exchange(&json!({"type": "search", "query": "retry"}));
        let tool =
            exchange(&json!({"type": "tool", "tool": "Search", "request": {"pattern": "retry"}}));
        (status, found, tool)
    };
    let before = status(&place);
    fs::write(
        place.dir.path().join("pinned"),
        before["config_fingerprint"].as_str().unwrap(),
    )
    .unwrap();
    write(2);
    wait_until("it is stale", || {
        stale(&socket).0["daemon"]["stale"] == true
    });
    let (status_of_old, found, tool) = stale(&socket);
    schemas::check("status", &status_of_old);
    schemas::check("query_success", &found);
    assert_eq!(status_of_old["sync"]["state"], "stale");
    assert_eq!(found["warnings"][0]["code"], "stale_config");
    assert_eq!(found["degraded"], true);
    assert_eq!(tool["count"], 3);
    // The stale daemon searches the whole tree, so it finds new edits as well.
    place.write("src/more.rs", "retry\n");
    assert_eq!(stale(&socket).2["count"], 4);
    // The client has the new configuration, and therefore starts another daemon.
    let answer: Value = serde_json::from_str(&ok(&place.ggrep(&["--json", "retry"]))).unwrap();
    assert_eq!(answer["warnings"], json!([]));
    assert_eq!(place.daemons().len(), 2);
    assert!(place.daemons().iter().any(|pid| !first.contains(pid)));
    // The old configuration returns. The stale daemon did not follow that, so a new one replaces
    // it.
    write(1);
    wait_until("the other one is stale", || {
        let answer = place.ggrep(&["--json", "retry"]);
        let answer: Value = serde_json::from_str(&ok(&answer)).unwrap();
        answer["warnings"] == json!([]) && answer["config_fingerprint"] == pinned(&place)
    });
    let status = status(&place);
    assert_eq!(status["daemon"]["stale"], false);
    assert!(!first.contains(&i32::try_from(status["daemon"]["pid"].as_i64().unwrap()).unwrap()));
}

fn first_store(place: &Place) -> String {
    forge_search::internal::tool::daemon::identity::store_id(&place.root())
}

fn pinned(place: &Place) -> String {
    fs::read_to_string(place.dir.path().join("pinned")).unwrap()
}

#[test]
fn a_configured_group_may_ask_the_daemon() {
    let place = Place::new();
    let dir = place.dir.path().join("shared");
    let socket = dir.join("s.sock");
    let shared = [
        "--set",
        "tools.daemon.group_access=true",
        "--socket",
        socket.to_str().unwrap(),
    ];
    ok(&place.ggrep(&[&shared[..], &["retry"]].concat()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&socket)), (0o770, 0o660));
    // Other users don't look for a private socket path, and can't enter a closed directory.
    let unnamed = place.ggrep(&[&shared[..2], &["retry"]].concat());
    assert_eq!(unnamed.status.code(), Some(1), "{unnamed:?}");
    assert!(text(&unnamed.stderr).contains("--socket"), "{unnamed:?}");
    let closed = place.dir().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let socket = closed.join("s.sock");
    let args = [&shared[..3], &[socket.to_str().unwrap(), "retry"]].concat();
    let refused = place.ggrep(&args);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("0770"), "{refused:?}");
}

/// The user id of `nobody`.
const NOBODY: u32 = 65_534;

#[test]
fn another_user_of_the_group_is_answered_and_a_stranger_is_not() {
    if !rustix::process::geteuid().is_root() {
        return crate::skipped::skipped_unless_root("only root can be other users");
    }
    let place = Place::new();
    let group = 54_321;
    let dir = place.dir().join("shared");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, None, Some(group)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).unwrap();
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    // Other users may have no access to the build directory.
    let program = place.dir().join("ggrep");
    crate::support::copy_program(env!("CARGO_BIN_EXE_forge-search"), &program);
    let socket = dir.join("s.sock");
    let shared = [
        "--set",
        "tools.daemon.group_access=true",
        "--socket",
        socket.to_str().unwrap(),
    ];
    let mut daemon = place.serve(&shared);
    let ask_as = |user: u32, of: u32| {
        let args = [&shared[..], &["--no-start", "--json", "retry_delay"]].concat();
        place
            .command(program.to_str().unwrap(), &args)
            .uid(user)
            .gid(of)
            .output()
            .unwrap()
    };
    let answer: Value = serde_json::from_str(&ok(&ask_as(NOBODY, group))).unwrap();
    super::schemas::check("query_success", &answer);
    assert_eq!(answer["results"][0]["path"], "src/delay.rs");
    let stranger = ask_as(NOBODY, NOBODY);
    assert_eq!(stranger.status.code(), Some(1), "{stranger:?}");
    let refused: Value = serde_json::from_slice(&stranger.stdout).unwrap();
    super::schemas::check("query_error", &refused);
    kill(
        i32::try_from(daemon.id()).unwrap(),
        rustix::process::Signal::TERM,
    );
    daemon.wait().unwrap();
}
