//! Tests clients of a daemon that the test plays: a daemon that is busy, and one that ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use forge_search::internal::tool::daemon::frame::{encode, read};
use serde_json::{Value, json};

use super::program::{Place, ok, text};
use super::schemas;

/// A daemon that a test plays, at the socket path of the tree's daemon.
pub(super) struct Played {
    listener: std::os::unix::net::UnixListener,
    served: forge_search::internal::tool::daemon::handshake::ServedTree,
    socket: PathBuf,
    /// The lock that a running daemon holds.
    _lock: fs::File,
}

impl Played {
    pub(super) fn new(place: &Place) -> Played {
        use forge_search::internal::tool::daemon::socket::SocketPlaces;
        let status: Value = serde_json::from_str(&ok(&place.ggrep(&["status", "--json"]))).unwrap();
        let named = |name: &str| status[name].as_str().unwrap().to_string();
        let served = forge_search::internal::tool::daemon::handshake::ServedTree {
            store_id: named("store_id"),
            config_fingerprint: named("config_fingerprint"),
        };
        let places = SocketPlaces {
            runtime_dir: Some(place.dir().join("run")),
            ..SocketPlaces::default()
        };
        let socket = places.path_for(&served);
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(socket.parent().unwrap(), private).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let lock = fs::File::create(socket.with_added_extension("lock")).unwrap();
        lock.lock().unwrap();
        Played {
            listener,
            served,
            socket,
            _lock: lock,
        }
    }

    /// Makes the handshake with a client. Returns the connection, and the client's request.
    pub(super) fn greet(&self) -> (std::os::unix::net::UnixStream, Vec<u8>) {
        use forge_search::internal::tool::daemon::handshake::{PROTOCOL_VERSIONS, receive};
        let (mut stream, _) = self.listener.accept().unwrap();
        let hello = read(&mut stream, 1 << 20).unwrap().unwrap();
        let (_, welcome) = receive(&hello, &self.served, &PROTOCOL_VERSIONS).unwrap();
        let welcome = serde_json::to_vec(&welcome).unwrap();
        std::io::Write::write_all(&mut stream, &encode(&welcome, 1 << 20).unwrap()).unwrap();
        let asked = read(&mut stream, 1 << 20).unwrap().unwrap();
        (stream, asked)
    }
}

#[test]
fn a_busy_daemon_costs_a_search_a_quarter_of_its_time() {
    let place = Place::new();
    let alone = ok(&place.forge_search(&["retry"]));
    let played = Played::new(&place);
    // The daemon makes the handshake, reads the request, and never answers.
    let busy = thread::spawn(move || {
        let (mut stream, asked) = played.greet();
        // The client closes the connection.
        assert!(read(&mut stream, 1 << 20).unwrap().is_none());
        asked
    });
    let began = Instant::now();
    let found = place.forge_search(&["--timeout-ms", "24000", "retry"]);
    let took = began.elapsed();
    assert_eq!(ok(&found), alone);
    // If it had waited longer, there would be no time left for an answer.
    assert!(took >= Duration::from_secs(6), "{took:?}");
    let asked: Value = serde_json::from_slice(&busy.join().unwrap()).unwrap();
    assert_eq!(asked["type"], "tool");
}

#[test]
fn a_question_cancelled_by_the_end_of_its_daemon_is_still_answered() {
    let cancelled = json!({"error": {
        "code": "cancelled", "message": "the daemon ended before it answered", "retry_after_ms": 0,
    }});
    schemas::check("query_error", &cancelled);
    for (args, daemons) in [
        (&[][..], 1),
        (&["--no-start", "--fallback"], 0),
        (&["--no-start"], 0),
    ] {
        let place = Place::new();
        let played = Played::new(&place);
        let cancelled = cancelled.clone();
        let ended = thread::spawn(move || {
            let (mut stream, asked) = played.greet();
            // A daemon that is stopped does the same: it accepts no clients any more, and cancels
            // queries.
            fs::remove_file(&played.socket).unwrap();
            drop(played);
            let answer = encode(cancelled.to_string().as_bytes(), 1 << 20).unwrap();
            std::io::Write::write_all(&mut stream, &answer).unwrap();
            asked
        });
        let answer = place.ggrep(&[args, &["retry delay"]].concat());
        let asked: Value = serde_json::from_slice(&ended.join().unwrap()).unwrap();
        assert_eq!(asked["type"], "search");
        match args {
            ["--no-start"] => {
                assert_eq!(answer.status.code(), Some(1), "{answer:?}");
                let said = text(&answer.stderr);
                assert!(said.contains("no daemon answers"), "{said}");
            }
            _ => assert!(ok(&answer).starts_with("src/delay.rs:1"), "{answer:?}"),
        }
        assert_eq!(place.daemons().len(), daemons, "{args:?}");
    }
}
