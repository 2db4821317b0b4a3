//! Tests where daemons listen and log, and how they handle unsuitable files at these paths.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::program::{Place, kill, ok, text, wait_until};

fn fifo(path: &Path) {
    use rustix::fs::{CWD, Mode, mkfifoat};
    mkfifoat(CWD, path, Mode::RWXU).unwrap();
}

/// Waits until a program ends, at most [`GUARD`](crate::support::GUARD).
fn in_time(mut command: Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("it ends", || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

#[test]
fn rule_files_and_git_files_that_are_no_files_delay_no_client() {
    let place = Place::new();
    let ggrep = |args: &[&str]| place.command(env!("CARGO_BIN_EXE_ggrep"), args);
    fifo(&place.root().join(".git"));
    fifo(&place.root().join(".ignore"));
    std::os::unix::fs::symlink("/dev/zero", place.root().join(".gitignore")).unwrap();
    let status = ok(&in_time(ggrep(&["status", "--json"])));
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["daemon"]["running"], false);
    assert!(ok(&in_time(ggrep(&["retry delay"]))).contains("src/delay.rs"));
    for args in [&["status"][..], &["health"], &["stop"]] {
        ok(&in_time(ggrep(args)));
    }
}

#[test]
fn a_file_that_is_no_log_is_left_as_it_is() {
    let place = Place::new();
    let precious = place.dir().join("precious");
    let written = "text\n".repeat(100_000);
    fs::write(&precious, &written).unwrap();
    let pipe = place.dir().join("pipe");
    fifo(&pipe);
    for log in [&precious, &pipe] {
        let args = ["serve", "--detach", "--log", log.to_str().unwrap()];
        let mut serve = place.command(env!("CARGO_BIN_EXE_forge-search"), &args);
        serve.arg("--set").arg("tools.daemon.max_log_bytes=65536");
        let refused = in_time(serve);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = text(&refused.stderr);
        assert!(said.contains(log.to_str().unwrap()), "{said}");
        assert!(said.contains("not the log of a daemon"), "{said}");
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), written);
    assert!(!place.dir().join("precious.1").exists());
    wait_until("none goes on", || place.daemons().is_empty());
    ok(&place.ggrep(&["retry"]));
}

#[test]
fn the_log_of_a_tool_call_has_no_fields_of_questions() {
    let place = Place::new();
    ok(&place.forge_search(&["serve", "--detach"]));
    ok(&place.forge_search(&["retry"]));
    ok(&place.ggrep(&["stop"]));
    let logs = fs::read_dir(place.dir().join("state/forge-search")).unwrap();
    let mut logs = logs.map(|entry| entry.unwrap().path());
    let log = logs.find(|path| path.extension().is_some_and(|ending| ending == "log"));
    let log = fs::read_to_string(log.unwrap()).unwrap();
    let mut lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let call = lines
        .find(|line| line["target"] == "forge_search::query")
        .unwrap();
    for field in ["profile", "max_results", "per_file", "snippet", "rank_ms"] {
        assert!(call[field].is_null(), "{field} in {call}");
    }
    for field in ["request_id", "admission_ms", "total_ms", "status"] {
        assert!(!call[field].is_null(), "{field} not in {call}");
    }
}

/// Makes a runtime directory, in which daemons put sockets.
fn another_run(place: &Place, name: &str) -> PathBuf {
    let run = place.dir().join(name);
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    run
}

#[test]
fn a_leftover_hides_no_daemon_that_listens_elsewhere() {
    let place = Place::new();
    ok(&place.ggrep(&["retry"]));
    let daemons = place.daemons();
    let name = place.sockets()[0].file_name().unwrap().to_os_string();
    let run = another_run(&place, "run2");
    fs::create_dir(run.join("forge-search")).unwrap();
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(run.join("forge-search"), private).unwrap();
    // A daemon that is killed leaves its socket behind.
    drop(UnixListener::bind(run.join("forge-search").join(name)).unwrap());
    let ask = |args: &[&str]| {
        let mut command = place.command(env!("CARGO_BIN_EXE_ggrep"), args);
        command.env("XDG_RUNTIME_DIR", &run).output().unwrap()
    };
    let status: Value = serde_json::from_str(&ok(&ask(&["status", "--json"]))).unwrap();
    assert_eq!(status["daemon"]["pid"].as_i64(), Some(daemons[0].into()));
    assert!(ok(&ask(&["retry delay"])).contains("src/delay.rs"));
    assert_eq!(place.daemons(), daemons);
}

#[test]
fn clients_that_start_daemons_in_several_places_at_once_end_at_one() {
    for _ in 0..3 {
        let place = Place::new();
        let runs: Vec<PathBuf> = (0..6)
            .map(|n| another_run(&place, &format!("run{n}")))
            .collect();
        let clients: Vec<Child> = runs
            .iter()
            .map(|run| {
                place
                    .command(env!("CARGO_BIN_EXE_ggrep"), &["retry delay"])
                    .env("XDG_RUNTIME_DIR", run)
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let answers: Vec<Output> = clients
            .into_iter()
            .map(|client| client.wait_with_output().unwrap())
            .collect();
        // This client also finds the daemon, and no other daemon is left.
        ok(&place.ggrep(&["stop"]));
        let stopped = place.ggrep(&["stop"]);
        assert!(text(&stopped.stderr).contains("no daemon was running"));
        for answer in answers {
            assert!(ok(&answer).starts_with("src/delay.rs:1"), "{answer:?}");
        }
    }
}

#[test]
fn stop_names_the_owner_of_a_daemon_that_it_does_not_end() {
    let place = Place::new();
    let socket = place.dir().join("run/x.sock");
    let socket = socket.to_str().unwrap();
    let mut daemon = place.serve(&["--socket", socket, "--set", "threads=1"]);
    let refused = place.ggrep(&["stop", "--socket", socket]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = text(&refused.stderr);
    assert!(!said.contains("leave out"), "{said}");
    assert!(
        said.contains("--set with which it was started") && said.contains(socket),
        "{said}"
    );
    ok(&place.ggrep(&["stop", "--socket", socket, "--set", "threads=1"]));
    daemon.wait().unwrap();
}

#[test]
fn a_lock_that_is_a_link_is_refused_and_its_target_left_alone() {
    let place = Place::new();
    let dir = place.dir().join("shared");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).unwrap();
    let private = place.dir().join("private");
    fs::write(&private, "").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    let socket = dir.join("e.sock");
    let shared = [
        "--set",
        "tools.daemon.group_access=true",
        "--socket",
        socket.to_str().unwrap(),
    ];
    for ending in ["start", "lock"] {
        let link = dir.join(format!("e.sock.{ending}"));
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&private, &link).unwrap();
        let refused = place.ggrep(&[&shared[..], &["retry"]].concat());
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = text(&refused.stderr);
        assert!(
            said.contains("symbolic link") && said.contains(link.to_str().unwrap()),
            "{said}"
        );
        let mode = fs::metadata(&private).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_file(&link).unwrap();
    }
    let mut daemon = place.serve(&shared);
    ok(&place.ggrep(&[&shared[..], &["retry"]].concat()));
    let pid = i32::try_from(daemon.id()).unwrap();
    kill(pid, rustix::process::Signal::TERM);
    daemon.wait().unwrap();
}

/// Starts a background daemon, and waits until its index is in use.
fn indexed(place: &Place) -> [&'static str; 2] {
    let sets = ["--set", "index_mode=on"];
    ok(&place.forge_search(&[&["serve", "--detach"], &sets[..]].concat()));
    wait_until("the index is there", || {
        let told = ok(&place.ggrep(&[&["status", "--json"], &sets[..]].concat()));
        told.contains("\"degraded\":false")
    });
    sets
}

#[test]
fn a_file_that_gets_or_loses_a_name_elsewhere_is_still_found() {
    let place = Place::new();
    let sets = indexed(&place);
    let asked = || ok(&place.ggrep(&[&sets[..], &["retry delay"]].concat()));
    let before = asked();
    assert!(before.contains("src/delay.rs:1"), "{before}");
    let other = place.dir().join("elsewhere");
    fs::hard_link(place.root().join("src/delay.rs"), &other).unwrap();
    assert_eq!(asked(), before);
    fs::remove_file(&other).unwrap();
    assert_eq!(asked(), before);
}

#[test]
fn a_file_in_the_place_of_the_second_lock_is_neither_written_to_nor_waited_for() {
    let place = Place::new();
    ok(&place.ggrep(&["retry delay"]));
    let state = place.dir().join("state/forge-search");
    let lock = fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "daemon"))
        .unwrap();
    ok(&place.ggrep(&["stop"]));
    let precious = place.dir().join("precious");
    fs::write(&precious, "kept").unwrap();
    assert!(!lock.exists(), "a daemon that has ended leaves no lock");
    let told = || {
        let told = place.ggrep(&["--timeout-ms", "20000", "retry delay"]);
        assert!(ok(&told).contains("src/delay.rs:1"), "{told:?}");
        text(&told.stderr)
    };
    std::os::unix::fs::symlink(&precious, &lock).unwrap();
    let said = told();
    assert!(said.contains("symbolic link"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
    let json = ok(&place.ggrep(&["--json", "retry delay"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    super::schemas::check("query_success", &json);
    assert_eq!(json["warnings"][0]["code"], "no_daemon");
    let none = place.ggrep(&["--no-start", "retry delay"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    fs::remove_file(&lock).unwrap();
    fifo(&lock);
    let said = told();
    assert!(said.contains("not a lock file"), "{said}");
    fs::remove_file(&lock).unwrap();
    ok(&place.ggrep(&["retry delay"]));
}

#[test]
fn a_daemon_whose_socket_was_removed_is_waited_for_and_replaced() {
    let place = Place::new();
    ok(&place.ggrep(&["retry delay"]));
    let first = place.daemons();
    fs::remove_dir_all(place.dir().join("run/forge-search")).unwrap();
    let answer = place.ggrep(&["retry delay"]);
    assert!(ok(&answer).contains("src/delay.rs:1"), "{answer:?}");
    wait_until("the first one has ended", || place.daemons() != first);
    assert_eq!(place.daemons().len(), 1);
}

#[test]
fn a_refused_daemon_leaves_the_socket_of_the_other_one_alone() {
    let place = Place::new();
    ok(&place.ggrep(&["retry delay"]));
    let socket = place.sockets()[0].clone();
    let mut lock = socket.as_os_str().to_os_string();
    lock.push(".lock");
    fs::remove_file(lock).unwrap();
    let refused = place.forge_search(&["serve"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(socket.exists());
    assert_eq!(place.daemons().len(), 1);
    ok(&place.ggrep(&["retry delay"]));
}

#[test]
fn a_daemon_follows_changes_of_the_global_excludes_also_at_a_relative_path() {
    let place = Place::new();
    place.write("src/ignored.rs", "fn ignored_delay() {}\n");
    // Git's global excludes only count in repositories.
    fs::create_dir(place.root().join(".git")).unwrap();
    let dir = place.dir().join("config/git");
    fs::create_dir_all(&dir).unwrap();
    // The path is relative to the directory in which this test starts all programs.
    fs::write(dir.join("config"), "[core]\nexcludesFile = excludes\n").unwrap();
    place.write("excludes", "nothing\n");
    let sets = ["--set", "tools.daemon.config_debounce_ms=50"];
    let status = || -> Value {
        let told = ok(&place.ggrep(&[&["status", "--json"], &sets[..]].concat()));
        serde_json::from_str(&told).unwrap()
    };
    // The exit code is 1 if there are no results.
    let asked = || {
        let told = place.ggrep(&[&sets[..], &["ignored_delay"]].concat());
        assert!(matches!(told.status.code(), Some(0 | 1)), "{told:?}");
        text(&told.stdout)
    };
    assert!(asked().contains("src/ignored.rs"));
    let before = status();
    place.write("excludes", "ignored.rs\n");
    // Real time: the daemon checks the file several times meanwhile, and must not become stale.
    std::thread::sleep(std::time::Duration::from_millis(400));
    // The question has the index follow the new rules.
    assert!(!asked().contains("src/ignored.rs"));
    wait_until("the index has the new rules", || {
        status()["ignore_fingerprint"] != before["ignore_fingerprint"]
    });
    let after = status();
    assert_eq!(after["daemon"]["stale"], false);
    assert_eq!(after["daemon"]["pid"], before["daemon"]["pid"]);
    assert_eq!(after["config_fingerprint"], before["config_fingerprint"]);
}

#[test]
fn a_daemon_that_ends_leaves_no_git_process_behind() {
    let place = Place::new();
    let git = |args: &[&str]| {
        let mut git = place.command("git", args);
        assert!(git.current_dir(place.root()).status().unwrap().success());
    };
    git(&["init", "-q"]);
    let exclude = place.root().join(".git/info/exclude");
    let _ = fs::remove_file(&exclude);
    fs::create_dir_all(exclude.parent().unwrap()).unwrap();
    fifo(&exclude);
    let mut daemon = place.serve(&[]);
    let asked = || {
        // Git waits for a writer, because the exclude file is a FIFO.
        let name = place.root().into_os_string().into_string().unwrap();
        let all = Command::new("ps").args(["-eo", "args"]).output().unwrap();
        text(&all.stdout)
            .lines()
            .filter(|line| line.contains(&name) && line.contains("ls-files"))
            .count()
    };
    std::thread::scope(|scope| {
        let health = scope.spawn(|| place.ggrep(&["health"]));
        wait_until("git is asked", || asked() > 0);
        kill(daemon.id().cast_signed(), rustix::process::Signal::TERM);
        assert_eq!(daemon.wait().unwrap().code(), Some(0));
        let told = health.join().unwrap();
        assert_eq!(told.status.code(), Some(12), "{told:?}");
    });
    assert_eq!(asked(), 0);
}
