//! Tests which daemons clients trust, and how clients handle faulty daemons.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use forge_search::internal::tool::daemon::frame::{encode, read};
use serde_json::{Value, json};

use super::program::{Place, halt, kill, ok, text, wait_until};

/// Plays a daemon that answers each handshake with `greet` and each later message with `answer`.
/// Returns its socket, and a counter of the messages after the handshakes.
fn play(
    place: &Place,
    greet: impl Fn(&Value) -> Value + Send + 'static,
    answer: Option<Value>,
) -> (PathBuf, Arc<AtomicUsize>) {
    let dir = place.dir().join("played");
    fs::create_dir_all(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    let socket = dir.join("s.sock");
    let asked = play_at(&socket, greet, answer);
    (socket, asked)
}

/// Plays a daemon as [`play`] does, at a given socket path.
pub(super) fn play_at(
    socket: &Path,
    greet: impl Fn(&Value) -> Value + Send + 'static,
    answer: Option<Value>,
) -> Arc<AtomicUsize> {
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Ok(Some(hello)) = read(&mut stream, 1 << 20) else {
                continue;
            };
            let mut said = greet(&serde_json::from_slice(&hello).unwrap());
            loop {
                let frame = encode(said.to_string().as_bytes(), 1 << 20).unwrap();
                // The client may have closed the connection.
                if std::io::Write::write_all(&mut stream, &frame).is_err() {
                    break;
                }
                match (read(&mut stream, 1 << 20), &answer) {
                    (Ok(Some(_)), answer) => {
                        counted.fetch_add(1, Ordering::SeqCst);
                        let Some(answer) = answer else { break };
                        said = answer.clone();
                    }
                    _ => break,
                }
            }
        }
    });
    asked
}

/// The handshake response of the daemon that the client expects.
pub(super) fn welcome(hello: &Value) -> Value {
    json!({
        "protocol_version": 2, "protocol_versions": [2], "binary_version": "9.9.9",
        "supported_schema_versions": {"query_success": [2], "query_error": [1], "status": [1], "health": [1]},
        "store_id": hello["store_id"], "config_fingerprint": hello["config_fingerprint"],
    })
}

/// A handshake response as from [`welcome`], with another value in one field.
fn welcome_but(field: &'static str, value: Value) -> impl Fn(&Value) -> Value + Send + 'static {
    move |hello| {
        let mut said = welcome(hello);
        said[field] = value.clone();
        said
    }
}

#[test]
fn each_error_of_a_daemon_has_its_exit_status() {
    let place = Place::new();
    for (code, status) in [
        ("busy", 10),
        ("timeout", 11),
        ("cancelled", 12),
        ("incompatible", 13),
        ("invalid_request", 1),
        ("internal", 1),
    ] {
        let error = json!({"error": {"code": code, "message": "so it is", "retry_after_ms": 7}});
        let (socket, _) = play(&place, welcome, Some(error.clone()));
        let args = ["--socket", socket.to_str().unwrap(), "x"];
        let failed = place.ggrep(&args);
        assert_eq!(failed.status.code(), Some(status), "{failed:?}");
        assert_eq!(text(&failed.stderr), "ggrep: so it is; try again in 7 ms\n");
        let failed = place.ggrep(&[&["--json"], &args[..]].concat());
        assert_eq!(failed.status.code(), Some(status));
        assert_eq!(
            serde_json::from_slice::<Value>(&failed.stdout).unwrap(),
            error
        );
    }
}

#[test]
fn a_daemon_of_another_protocol_is_not_asked() {
    let place = Place::new();
    let error = json!({"error": {"code": "incompatible", "message": "this daemon speaks 7"}});
    let (socket, asked) = play(&place, move |_| error.clone(), None);
    for args in [&["x"][..], &["--fallback", "x"], &["stop"]] {
        let socket = ["--socket", socket.to_str().unwrap()];
        let failed = match args {
            ["stop"] => place.ggrep(&[args, &socket].concat()),
            args => place.ggrep(&[&socket, args].concat()),
        };
        assert_eq!(failed.status.code(), Some(13), "{failed:?}");
        assert!(text(&failed.stderr).contains("speaks 7"), "{failed:?}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    assert!(place.daemons().is_empty());
}

#[test]
fn a_daemon_that_answers_for_another_tree_is_asked_nothing() {
    let place = Place::new();
    for (field, value, status) in [
        ("protocol_version", json!(7), 13),
        ("store_id", json!("0".repeat(64)), 1),
        ("config_fingerprint", json!("0".repeat(64)), 1),
    ] {
        let found = json!({"type": "not reached"});
        let (socket, asked) = play(&place, welcome_but(field, value), Some(found));
        let refused = place.ggrep(&["--socket", socket.to_str().unwrap(), "x"]);
        assert_eq!(refused.status.code(), Some(status), "{field}: {refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 0, "{field}");
    }
    // A daemon with the expected values gets the query.
    let error = json!({"error": {"code": "internal", "message": "so it is"}});
    let (socket, asked) = play(&place, welcome, Some(error));
    place.ggrep(&["--socket", socket.to_str().unwrap(), "x"]);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn a_daemon_of_the_first_protocol_is_asked_only_for_fields_that_it_knows() {
    let place = Place::new();
    let error = json!({"error": {"code": "internal", "message": "so it is"}});
    let first = |hello: &Value| welcome_but("protocol_version", json!(1))(hello);
    let (socket, asked) = play(&place, first, Some(error));
    let socket = socket.to_str().unwrap();
    for more in [
        &["--related", "src/delay.rs:1"][..],
        &["--budget", "9", "x"],
    ] {
        let refused = place.ggrep(&[&["--socket", socket], more].concat());
        assert_eq!(refused.status.code(), Some(13), "{refused:?}");
        assert!(
            text(&refused.stderr).contains("`ggrep stop`"),
            "{refused:?}"
        );
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    place.ggrep(&["--socket", socket, "x"]);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn a_client_without_a_name_is_named_after_its_parent_program() {
    let place = Place::new();
    let (tell, told) = std::sync::mpsc::channel();
    let greet = move |hello: &Value| {
        tell.send(hello["client_id"].clone()).unwrap();
        welcome(hello)
    };
    let error = json!({"error": {"code": "internal", "message": "so it is"}});
    let (socket, _) = play(&place, greet, Some(error));
    place.ggrep(&["--socket", socket.to_str().unwrap(), "x"]);
    let own = format!("parent-{}", std::process::id());
    assert_eq!(told.recv().unwrap(), own);
    place.ggrep(&[
        "--socket",
        socket.to_str().unwrap(),
        "--client-id",
        "me",
        "x",
    ]);
    assert_eq!(told.recv().unwrap(), "me");
}

#[test]
fn programs_ignore_fields_of_daemons_that_they_do_not_know() {
    let place = Place::new();
    let found = json!({
        "schema_version": 2, "request_id": "r", "store_id": "s", "config_fingerprint": "c", "ignore_fingerprint": "i",
        "query_fingerprint": "q", "embed_config_fingerprint": "e", "snapshot_id": null, "degraded": true, "new": 1,
        "git": {"head_sha": null, "dirty": null, "untracked_included": true, "new": 1}, "mode": "balanced",
        "limits": {"max_results": 1, "per_file": 1, "snippet": "short", "new": 1},
        "limits_hit": [{"code": "max_results", "limit": 1, "new": 1}],
        "warnings": [{"code": "w", "message": "be warned", "new": {}}],
        "timings_ms": {"admission": 0, "snapshot_read": 0, "retrieve": 0, "rank": 0, "format": 0, "new": 0},
        "results": [{"path": "p", "score": 1.5, "match_pct": 100, "content": "text", "chunk_type": "content", "why": ["words"],
            "start_line": 1, "end_line": 1, "is_anchor": true, "new": []}],
    });
    let (socket, _) = play(&place, welcome_but("new", json!(1)), Some(found));
    let output = place.ggrep(&["--socket", socket.to_str().unwrap(), "x"]);
    assert!(ok(&output).starts_with("p:1 (100%, words)\n"), "{output:?}");
    assert!(text(&output.stderr).contains("be warned"), "{output:?}");
}

#[test]
fn one_daemon_answers_for_a_tree_wherever_its_socket_is() {
    let place = Place::new();
    let (first, second) = (place.dir().join("a/s.sock"), place.dir().join("b/s.sock"));
    let mut daemon = place.serve(&["--socket", first.to_str().unwrap()]);
    let refused = place.forge_search(&["serve", "--socket", second.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(
        text(&refused.stderr).contains(first.to_str().unwrap()),
        "{refused:?}"
    );
    let refused = place.ggrep(&["--socket", second.to_str().unwrap(), "retry"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        text(&refused.stderr).contains(first.to_str().unwrap()),
        "{refused:?}"
    );
    // A client without `--socket` finds the daemon at its unusual socket.
    assert!(!ok(&place.ggrep(&["retry"])).is_empty());
    assert_eq!(place.daemons().len(), 1);
    // Another configuration needs another daemon.
    let other = ["--set", "threads=1", "retry"];
    assert!(!ok(&place.ggrep(&other)).is_empty());
    kill(
        i32::try_from(daemon.id()).unwrap(),
        rustix::process::Signal::TERM,
    );
    daemon.wait().unwrap();
    assert!(
        !ok(&place.ggrep(&["retry"])).is_empty(),
        "now there is room for it"
    );
}

#[test]
fn a_daemon_keeps_no_file_of_the_client_that_started_it_open() {
    let place = Place::new();
    let ggrep = env!("CARGO_BIN_EXE_ggrep");
    // If the daemon held the pipe open, `cat` would wait until the daemon ends.
    let mut shell = place
        .command("sh", &["-c", &format!("{ggrep} retry 9>&1 | cat")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the pipe ends", || shell.try_wait().unwrap().is_some());
    assert_eq!(place.daemons().len(), 1);
    let open = fs::read_dir(format!("/proc/{}/fd", place.daemons()[0])).unwrap();
    let pipes = open.filter(|entry| {
        let target = fs::read_link(entry.as_ref().unwrap().path()).unwrap_or_default();
        target.to_string_lossy().starts_with("pipe:")
    });
    assert_eq!(pipes.count(), 0);
}

#[test]
fn a_daemon_whose_socket_is_gone_ends() {
    let place = Place::new();
    let quick = ["--set", "tools.daemon.config_debounce_ms=20"];
    ok(&place.ggrep(&[&quick[..], &["retry"]].concat()));
    fs::remove_dir_all(place.dir().join("run/forge-search")).unwrap();
    wait_until("it has noticed", || place.daemons().is_empty());
}

#[test]
fn a_daemon_that_does_not_answer_delays_no_client_for_long() {
    let place = Place::new();
    let mut daemon = place.serve(&[]);
    let pid = i32::try_from(daemon.id()).unwrap();
    halt(pid);
    // The daemon stays halted, so a command that ends has not waited for it. The patience is that
    // of the product: tests otherwise set a longer one.
    let ask = |program: &str, args: &[&str]| {
        let mut command = place.command(program, args);
        command.env_remove("FORGE_SEARCH_PATIENCE_MS");
        command.output().unwrap()
    };
    let program = env!("CARGO_BIN_EXE_forge-search");
    let found = ask(program, &["--timeout-ms", "600000", "retry"]);
    assert!(ok(&found).contains("src/delay.rs"));
    let late = ask(
        env!("CARGO_BIN_EXE_ggrep"),
        &["--timeout-ms", "300", "retry"],
    );
    assert_eq!(late.status.code(), Some(11), "{late:?}");
    assert!(
        text(&late.stderr).contains("did not answer within"),
        "{late:?}"
    );
    kill(pid, rustix::process::Signal::CONT);
    kill(pid, rustix::process::Signal::TERM);
    daemon.wait().unwrap();
}

/// Counts the end of a block, even by a panic.
struct CountAtEnd<'a>(&'a AtomicUsize);

impl Drop for CountAtEnd<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn questions_are_all_answered_while_daemons_end() {
    let place = Place::new();
    let over = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let _over = CountAtEnd(&over);
                for _ in 0..15 {
                    let answer = place.ggrep(&["retry delay"]);
                    assert!(ok(&answer).starts_with("src/delay.rs:1"), "{answer:?}");
                }
            });
        }
        scope.spawn(|| {
            while over.load(Ordering::SeqCst) < 2 {
                let stopped = place.ggrep(&["stop"]);
                // The status 11 means that the daemon did not end in time. This test is only about
                // answers.
                assert!(matches!(stopped.status.code(), Some(0 | 11)), "{stopped:?}");
                thread::sleep(Duration::from_millis(30));
            }
        });
    });
}

#[test]
fn a_daemon_of_another_configuration_is_not_asked() {
    let place = Place::new();
    let mut daemon = place.serve(&["--socket", place.dir().join("run/x.sock").to_str().unwrap()]);
    let socket = place.dir().join("run/x.sock");
    let args = ["--socket", socket.to_str().unwrap(), "retry"];
    assert!(!ok(&place.ggrep(&args)).is_empty());
    let other = place.ggrep(&[&["--set", "threads=1"], &args[..]].concat());
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    assert!(
        text(&other.stderr).contains("leave out --socket"),
        "{other:?}"
    );
    kill(
        i32::try_from(daemon.id()).unwrap(),
        rustix::process::Signal::TERM,
    );
    daemon.wait().unwrap();
}

/// A Python script that answers as the expected daemon would, but as another user.
const IMPOSTOR: &str = r#"
import json, os, socket, struct, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listens", flush=True)
connection, _ = listener.accept()
def exactly(count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data
def read():
    return json.loads(exactly(struct.unpack(">I", exactly(4))[0]))
def write(message):
    text = json.dumps(message).encode()
    connection.sendall(struct.pack(">I", len(text)) + text)
hello = read()
write({"protocol_version": 2, "protocol_versions": [2], "binary_version": "9.9.9",
    "supported_schema_versions": {"query_success": [2], "query_error": [1], "status": [1], "health": [1]},
    "store_id": hello["store_id"], "config_fingerprint": hello["config_fingerprint"]})
print("asked", read(), flush=True)
"#;

#[test]
fn another_users_daemon_is_asked_nothing() {
    if !rustix::process::geteuid().is_root() {
        return crate::skipped::skipped_unless_root("only root can be another user");
    }
    let place = Place::new();
    let dir = place.dir().join("theirs");
    fs::create_dir_all(&dir).unwrap();
    // The other user can now listen there, and clients can reach the socket.
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let socket = dir.join("s.sock");
    let mut impostor = place.command("python3", &["-c", IMPOSTOR, socket.to_str().unwrap()]);
    let Ok(mut impostor) = impostor.stdout(Stdio::piped()).spawn() else {
        return crate::skipped::skipped("there is no python3");
    };
    wait_until("it listens", || socket.exists());
    let refused = place.ggrep(&["--no-start", "--socket", socket.to_str().unwrap(), "retry"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        text(&refused.stderr).contains("another user"),
        "{refused:?}"
    );
    let said = {
        use std::io::Read;
        let mut said = String::new();
        let out = impostor.stdout.as_mut().unwrap();
        out.read_to_string(&mut said).unwrap();
        said
    };
    assert_eq!(said, "listens\n", "it was not even greeted");
    impostor.wait().unwrap();
}
