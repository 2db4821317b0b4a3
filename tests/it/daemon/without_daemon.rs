//! Tests queries where no daemon can run, or where it can't listen at its usual path.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use forge_search::internal::tool::daemon::handshake::ServedTree;
use forge_search::internal::tool::daemon::identity::socket_name;
use forge_search::internal::tool::daemon::socket::registered_socket;
use serde_json::Value;

use super::clients::{play_at, welcome};
use super::program::{Place, ok, text};

/// The user id of `nobody`.
const NOBODY: u32 = 65_534;

fn make(dir: &Path, mode: u32) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    dir.to_path_buf()
}

/// Runs `ggrep` with changes to the environment.
fn ggrep_with(place: &Place, environment: &[(&str, &Path)], args: &[&str]) -> Output {
    let mut command = place.command(env!("CARGO_BIN_EXE_ggrep"), args);
    command.envs(environment.iter().copied()).output().unwrap()
}

/// Starts a daemon by a query in this environment, stops it, and returns the path of its socket.
#[track_caller]
fn socket_with(place: &Place, environment: &[(&str, &Path)]) -> PathBuf {
    let answer = ggrep_with(place, environment, &["retry delay"]);
    assert!(ok(&answer).starts_with("src/delay.rs:1"), "{answer:?}");
    assert_eq!(text(&answer.stderr), "", "{environment:?}");
    let status = ok(&ggrep_with(place, environment, &["status", "--json"]));
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["daemon"]["running"], true, "{status}");
    let of = |field: &str| status[field].as_str().unwrap().to_string();
    let served = ServedTree {
        store_id: of("store_id"),
        config_fingerprint: of("config_fingerprint"),
    };
    let at = registered_socket(&place.dir().join("state/forge-search"), &served).unwrap();
    // Clients with another environment also find the daemon.
    assert!(ok(&place.ggrep(&["--no-start", "retry delay"])).starts_with("src/delay.rs:1"));
    assert_eq!(ok(&ggrep_with(place, environment, &["stop"])), "stopped\n");
    at
}

#[test]
fn an_unusable_runtime_directory_is_skipped() {
    let place = Place::new();
    let state = place.dir().join("state/forge-search/daemon");
    let missing = place.dir().join("missing");
    let file = place.dir().join("file");
    fs::write(&file, "").unwrap();
    let long = make(&place.dir().join("x".repeat(100)), 0o700);
    let entered = make(&place.dir().join("entered"), 0o700);
    make(&entered.join("forge-search"), 0o755);
    for runtime in [&missing, &file, &long, &entered] {
        let socket = socket_with(&place, &[("XDG_RUNTIME_DIR", runtime)]);
        assert_eq!(socket.parent(), Some(&*state), "{runtime:?}");
    }
    assert!(!missing.exists(), "it is the system's to make");
    // If the path below the state directory is too long as well, the socket is in a temporary
    // directory.
    let temporary = make(&place.dir().join("tmp"), 0o1777);
    let environment = [
        ("XDG_RUNTIME_DIR", &*long),
        ("XDG_STATE_HOME", &*long),
        ("TMPDIR", &*temporary),
    ];
    let answer = ggrep_with(&place, &environment, &["retry delay"]);
    assert!(ok(&answer).starts_with("src/delay.rs:1"), "{answer:?}");
    assert_eq!(
        ok(&ggrep_with(&place, &environment, &["stop"])),
        "stopped\n"
    );
    let own = temporary.join(format!(
        "forge-search-{}",
        rustix::process::geteuid().as_raw()
    ));
    for dir in [own.clone(), own.join("daemon")] {
        let mode = fs::metadata(&dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{dir:?}");
    }
}

#[test]
fn a_daemon_at_the_place_of_earlier_releases_is_found() {
    let place = Place::new();
    let status: Value = serde_json::from_str(&ok(&place.ggrep(&["status", "--json"]))).unwrap();
    let of = |field: &str| status[field].as_str().unwrap().to_string();
    let name = socket_name(&of("store_id"), &of("config_fingerprint"));
    let socket = place.dir().join("home/.ggrep/daemon").join(name);
    let program = env!("CARGO_BIN_EXE_forge-search");
    let args = ["serve", "--detach", "--socket", socket.to_str().unwrap()];
    // The daemon writes the path of its socket to another state directory.
    let elsewhere = place.dir().join("other-state");
    let mut serve = place.command(program, &args);
    ok(&serve.env("XDG_STATE_HOME", &elsewhere).output().unwrap());
    let daemons = place.daemons();
    assert!(ok(&place.ggrep(&["retry delay"])).starts_with("src/delay.rs:1"));
    assert_eq!(place.daemons(), daemons);
    assert_eq!(ok(&place.ggrep(&["stop"])), "stopped\n");
    assert_eq!(fs::read_dir(socket.parent().unwrap()).unwrap().count(), 0);
    ok(&place.ggrep(&["retry delay"]));
    assert!(!socket.exists() && place.sockets().len() == 1);
}

#[test]
fn daemons_that_end_each_time_are_not_needed_for_an_answer() {
    let place = Place::new();
    let status: Value = serde_json::from_str(&ok(&place.ggrep(&["status", "--json"]))).unwrap();
    let of = |field: &str| status[field].as_str().unwrap().to_string();
    let name = socket_name(&of("store_id"), &of("config_fingerprint"));
    let dir = make(&place.dir().join("run/forge-search"), 0o700);
    let socket = dir.join(name);
    let asked = play_at(&socket, welcome, None);
    let answer = place.ggrep(&["retry delay"]);
    assert!(ok(&answer).starts_with("src/delay.rs:1"), "{answer:?}");
    let said = text(&answer.stderr);
    assert!(
        said.contains("without a daemon") && said.contains("ended before"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let all = asked.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(all, 4, "it was tried");
    // With `--no-start`, a daemon must already run. With `--fallback` as well, the process itself
    // answers.
    let none = place.ggrep(&["--no-start", "retry delay"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let own = place.ggrep(&["--no-start", "--fallback", "--json", "retry delay"]);
    let own: Value = serde_json::from_str(&ok(&own)).unwrap();
    super::schemas::check("query_success", &own);
    assert_eq!(own["warnings"][0]["code"], "no_daemon");
    // A daemon that ends while it is told to stop counts as stopped.
    let stopped = place.ggrep(&["stop"]);
    assert_eq!(stopped.status.code(), Some(0), "{stopped:?}");
}

/// Returns the paths at and below a directory that belong to root.
fn of_root(dir: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        if meta.uid() == 0 {
            found.push(path);
        }
    }
    found
}

#[test]
fn root_leaves_nothing_in_the_directories_of_a_user() {
    if !rustix::process::geteuid().is_root() {
        return crate::skipped::skipped_unless_root("only root can be in the way of others");
    }
    let place = Place::new();
    let home = make(&place.dir().join("theirs"), 0o755);
    let dirs: Vec<PathBuf> = ["run", ".cache", ".local", ".config"]
        .iter()
        .map(|name| make(&home.join(name), 0o700))
        .collect();
    for dir in dirs.iter().chain([&home]) {
        chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let temporary = make(&place.dir().join("tmp"), 0o1777);
    let run = |program: &str, args: &[&str]| {
        let mut command = place.command(program, args);
        for name in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        let runtime = home.join("run");
        let all = [
            ("XDG_RUNTIME_DIR", &runtime),
            ("HOME", &home),
            ("TMPDIR", &temporary),
        ];
        command.envs(all).output().unwrap()
    };
    let ggrep = |args: &[&str]| run(env!("CARGO_BIN_EXE_ggrep"), args);
    let search = |args: &[&str]| run(env!("CARGO_BIN_EXE_forge-search"), args);
    assert!(ok(&ggrep(&["retry delay"])).starts_with("src/delay.rs:1"));
    ok(&search(&["--index", "on", "retry"]));
    ok(&search(&["index", "build"]));
    assert_eq!(ok(&ggrep(&["stop"])), "stopped\n");
    assert_eq!(of_root(&home), Vec::<PathBuf>::new());
    assert!(temporary.join("forge-search-0").is_dir());
}

#[test]
fn without_the_program_beside_it_ggrep_says_how_to_install_both() {
    let place = Place::new();
    let program = place.dir().join("ggrep");
    crate::support::copy_program(env!("CARGO_BIN_EXE_ggrep"), &program);
    let refused = || {
        let mut command = place.command(program.to_str().unwrap(), &["retry delay"]);
        let answer = command.output().unwrap();
        assert_eq!(answer.status.code(), Some(1), "{answer:?}");
        answer
    };
    let answer = refused();
    let beside = place.dir().join("forge-search");
    let said = text(&answer.stderr).to_string();
    let expected = format!("ggrep: {} can't be run: No such file", beside.display());
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("in one directory"), "{said}");

    // A copy of `ggrep` in place of `forge-search` does not start itself for ever.
    crate::support::copy_program(env!("CARGO_BIN_EXE_ggrep"), &beside);
    let answer = refused();
    let expected = format!("ggrep: {} is ggrep itself", beside.display());
    assert!(text(&answer.stderr).starts_with(&expected), "{answer:?}");

    let link = place.dir().join("links/ggrep");
    fs::create_dir(place.dir().join("links")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_forge-search"), &link).unwrap();
    let answer = place.command(link.to_str().unwrap(), &["retry delay"]);
    assert!(ok(&{ answer }.output().unwrap()).starts_with("src/delay.rs:1"));
}

#[test]
fn a_user_whose_home_can_only_be_read_is_answered() {
    if !rustix::process::geteuid().is_root() {
        return crate::skipped::skipped_unless_root("only root can be another user");
    }
    let place = Place::new();
    make(place.dir(), 0o755);
    let program = place.dir().join("ggrep");
    crate::support::copy_program(env!("CARGO_BIN_EXE_forge-search"), &program);
    make(&place.dir().join("home"), 0o755);
    let temporary = make(&place.dir().join("tmp"), 0o1777);
    let ggrep = |args: &[&str]| {
        let mut command = place.command(program.to_str().unwrap(), args);
        for name in ["XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        command.env("TMPDIR", &temporary).uid(NOBODY).gid(NOBODY);
        command.output().unwrap()
    };
    let answer = ggrep(&["retry delay"]);
    assert!(ok(&answer).starts_with("src/delay.rs:1"), "{answer:?}");
    assert_eq!(text(&answer.stderr), "");
    let own = temporary.join(format!("forge-search-{NOBODY}"));
    let sockets = fs::read_dir(own.join("daemon")).unwrap();
    assert_eq!(
        sockets
            .filter(|one| is_socket(&one.as_ref().unwrap().path()))
            .count(),
        1
    );
    assert_eq!(ok(&ggrep(&["stop"])), "stopped\n");
    // A directory of another user in place of the own one is not used.
    fs::remove_dir_all(&own).unwrap();
    make(&own, 0o700);
    chown(&own, Some(NOBODY + 1), None).unwrap();
    let answer = ggrep(&["--set", "threads=3", "retry delay"]);
    assert!(ok(&answer).starts_with("src/delay.rs:1"), "{answer:?}");
    let stopped = ggrep(&["stop", "--set", "threads=3"]);
    assert_eq!(stopped.status.code(), Some(0), "{stopped:?}");
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
}

fn is_socket(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "sock")
}
