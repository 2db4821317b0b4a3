//! Tests of handshakes and requests, and of the order of answers.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use forge_search::internal::tool::daemon::admission::Bounds;
use forge_search::internal::tool::daemon::client::{Caller, ClientError, Connection};
use forge_search::internal::tool::daemon::metrics::Outcome;
use forge_search::internal::tool::daemon::reply::ErrorCode;
use forge_search::internal::tool::daemon::request::{Request, RequestBody, SearchQuery};
use forge_search::internal::tool::daemon::server::Settings;
use forge_search::internal::tool::daemon::socket::Access;
use serde_json::json;

use super::{World, small};
use crate::hooked_engines::Hooked;
use crate::support::{GUARD, Tree};

#[test]
fn a_daemon_names_its_protocol_versions_and_refuses_others() {
    let world = World::over(small(), Settings::default());
    let welcome = world.connect().ask(&world.hello());
    assert_eq!(welcome["protocol_version"], 2);
    assert_eq!(welcome["protocol_versions"], json!([1, 2]));
    assert_eq!(welcome["binary_version"], env!("CARGO_PKG_VERSION"));
    let versions = &welcome["supported_schema_versions"];
    for schema in ["query_success", "query_error", "status", "health"] {
        let own = if schema == "query_success" { 2 } else { 1 };
        assert_eq!(versions[schema], json!([own]));
    }
    let mut other = world.hello();
    other["protocol_versions"] = json!([7, 3]);
    let mut wire = world.connect();
    wire.refused(&other, "incompatible");
    wire.ends();
    other["protocol_versions"] = json!([0, 1, 2, 3]);
    assert_eq!(world.connect().ask(&other)["protocol_version"], 2);
}

#[test]
fn handshakes_for_another_store_or_configuration_are_refused() {
    let world = World::over(small(), Settings::default());
    for field in ["store_id", "config_fingerprint"] {
        let mut other = world.hello();
        other[field] = "0".repeat(64).into();
        let mut wire = world.connect();
        let said = wire.refused(&other, "invalid_request");
        assert!(said.contains(field), "{said}");
        wire.ends();
    }
}

#[test]
fn a_first_message_that_is_no_handshake_ends_the_connection() {
    let world = World::over(small(), Settings::default());
    for message in [
        json!({"type": "search", "query": "socket"}),
        json!({"type": "shutdown"}),
        json!([1]),
    ] {
        let mut wire = world.connect();
        wire.refused(&message, "invalid_request");
        wire.ends();
    }
    // The daemon still serves other clients.
    world
        .client()
        .found(json!({"type": "search", "query": "socket"}));
}

#[test]
fn answers_come_in_order_and_bad_requests_do_not_end_a_connection() {
    let world = World::over(small(), Settings::default());
    let mut wire = world.client();
    wire.send(&json!({"type": "search", "query": "socket", "request_id": "1"}));
    wire.send(&json!({"type": "nonsense", "request_id": "2"}));
    wire.send(&json!({"type": "search", "query": "unrelated", "request_id": "3"}));
    wire.send_bytes(&[0, 0, 0, 2, b'{', 0xff]);
    wire.send(&json!({"type": "tool", "tool": "Search", "request": {"pattern": "main"}}));
    assert_eq!(wire.next().unwrap()["request_id"], "1");
    assert_eq!(wire.next().unwrap()["error"]["request_id"], "2");
    assert_eq!(wire.next().unwrap()["request_id"], "3");
    assert_eq!(wire.next().unwrap()["error"]["code"], "invalid_request");
    assert_eq!(wire.next().unwrap()["count"], 1);
}

#[test]
fn tools_answer_the_same_with_and_without_a_daemon() {
    let world = World::over(small(), Settings::default());
    let mut wire = world.client();
    for request in [
        json!({"pattern": "socket"}),
        json!({"pattern": "SOCKET", "case": "insensitive", "context": 1}),
        json!({"pattern": "nowhere_at_all"}),
        json!({"pattern": "socket", "path": "src", "max_results": 2}),
        json!({"pattern": "("}),
        json!({"pattern": "x", "path": "/etc"}),
        json!({"pattern": "x", "surplus": 1}),
    ] {
        let expected = match world.tool.call(request.clone(), &world.context) {
            Ok(response) => response.to_json(),
            Err(error) => error.to_json().to_string(),
        };
        wire.send(&json!({"type": "tool", "tool": "Search", "request": request}));
        let answer = String::from_utf8(wire.payload().unwrap()).unwrap();
        assert_eq!(answer, expected, "{request}");
    }
    let files = wire.ask(&json!({"type": "tool", "tool": "search_files", "request": {"path": ".", "query": "socket"}}));
    assert!(
        files["matches"]
            .as_array()
            .is_some_and(|all| !all.is_empty()),
        "{files}"
    );
    let unknown = wire.ask(&json!({"type": "tool", "tool": "Grep", "request": {}}));
    assert_eq!(
        unknown["code"]
            .as_str()
            .or(unknown["error"]["code"].as_str()),
        Some("unknown_tool"),
        "{unknown}"
    );
}

/// A daemon with searches that block until they are released.
struct Held {
    world: World,
    entered: Arc<AtomicUsize>,
    released: Arc<AtomicBool>,
}

impl Held {
    fn new(settings: Settings) -> Held {
        let (entered, released) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (enter, release) = (entered.clone(), released.clone());
        let hook = move |_: &[_]| {
            enter.fetch_add(1, Ordering::SeqCst);
            while !release.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        let engines = Hooked::new(hook).engines();
        let tree = Tree::of([("a.txt", "needle\n")]);
        Held {
            world: World::on(tree, settings, engines, |_| {}),
            entered,
            released,
        }
    }

    /// Waits until `count` searches have begun.
    fn wait(&self, count: usize) {
        let began = Instant::now();
        while self.entered.load(Ordering::SeqCst) < count {
            assert!(began.elapsed() < GUARD);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.released.store(true, Ordering::SeqCst);
    }
}

/// A request that does not end by itself for a minute.
fn endless() -> serde_json::Value {
    let request = json!({"pattern": "needle", "timeout_ms": 60_000});
    json!({"type": "tool", "tool": "Search", "request": request, "request_id": "slow"})
}

/// Settings for one running query and at most `depth` waiting ones.
fn one_of(depth: usize) -> Settings {
    Settings {
        bounds: Bounds::new(1, depth),
        ..Settings::default()
    }
}

#[test]
fn a_running_request_is_cancelled_by_its_id() {
    let held = Held::new(Settings::default());
    let mut wire = held.world.client();
    wire.send(&endless());
    held.wait(1);
    wire.send(&json!({"type": "cancel", "request_id": "slow"}));
    wire.send(&json!({"type": "cancel", "request_id": "other"}));
    let answer = wire.next().unwrap();
    super::schemas::check("query_error", &answer);
    assert_eq!(answer["error"]["code"], "cancelled");
    assert_eq!(answer["error"]["request_id"], "slow");
    // Only the end of a daemon makes a retry useful.
    assert_eq!(answer["error"]["retry_after_ms"], serde_json::Value::Null);
    let acknowledged = wire.next().unwrap();
    super::schemas::check("acknowledged", &acknowledged);
    assert_eq!(acknowledged, json!({"done": true, "request_id": "slow"}));
    assert_eq!(wire.next().unwrap()["done"], false);
}

#[test]
fn a_deadline_holds_from_end_to_end_and_counts_the_wait() {
    let held = Held::new(Settings {
        timeout: GUARD,
        ..one_of(8)
    });
    let mut first = held.world.client_named("first");
    first.send(&endless());
    held.wait(1);
    let mut second = held.world.client_named("second");
    let query = json!({"type": "search", "query": "needle", "timeout_ms": 50, "request_id": "x"});
    assert_eq!(
        second.ask(&query)["error"],
        json!({
            "code": "timeout", "message": "the query was not answered within its timeout", "request_id": "x",
        })
    );
    drop(first);
    second.found(json!({"type": "search", "query": "needle"}));
    let (counts, _, _) = held.world.server.counts();
    assert_eq!(counts.of(Outcome::Failed(ErrorCode::Timeout)), 1);
    // The daemon's limit ends a query that has a longer timeout itself.
    let held = Held::new(Settings {
        timeout: Duration::from_secs(1),
        ..one_of(8)
    });
    let mut first = held.world.client_named("first");
    first.send(&endless());
    let answer = first.next().unwrap();
    assert_eq!(answer["error"]["code"], "timeout", "{answer}");
    // The query that timed out no longer occupies a place. On a slow machine, the next query may
    // need several tries.
    let mut late = 1;
    let mut second = held.world.client_named("second");
    let found = loop {
        let answer = second.ask(&json!({"type": "search", "query": "needle"}));
        if answer["error"]["code"] != "timeout" {
            break answer;
        }
        late += 1;
        assert!(late < GUARD.as_secs(), "{answer}");
    };
    super::schemas::check("query_success", &found);
    let (counts, running, waiting) = held.world.server.counts();
    assert_eq!(counts.of(Outcome::Failed(ErrorCode::Timeout)), late);
    assert_eq!(counts.of(Outcome::Answered), 1);
    assert_eq!((running, waiting), (0, 0));
}

#[test]
fn more_queries_than_may_wait_are_told_to_retry() {
    let held = Held::new(one_of(1));
    let mut first = held.world.client_named("first");
    first.send(&endless());
    held.wait(1);
    // One of the two waits, and the other one is refused.
    let (sender, answers) = mpsc::channel();
    for name in ["second", "third"] {
        let mut client = held.world.client_named(name);
        client.send(&endless());
        let sender = sender.clone();
        std::thread::spawn(move || {
            let answer = client.next();
            // The connection stays open until the end of the test.
            let _ = sender.send((answer, client));
        });
    }
    let (answer, _client) = answers.recv_timeout(GUARD).unwrap();
    let answer = answer.unwrap();
    super::schemas::check("query_error", &answer);
    assert_eq!(answer["error"]["code"], "busy", "{answer}");
    let retry = answer["error"]["retry_after_ms"].as_u64();
    assert!(
        retry.is_some_and(|ms| (25..=5_000).contains(&ms)),
        "{answer}"
    );
}

#[test]
fn queries_of_a_client_that_disconnects_are_cancelled() {
    let held = Held::new(one_of(8));
    let mut gone = held.world.client_named("gone");
    gone.send(&endless());
    gone.send(&endless());
    held.wait(1);
    drop(gone);
    let mut other = held.world.client_named("other");
    other.found(json!({"type": "search", "query": "needle", "timeout_ms": 30_000}));
    assert_eq!(
        held.entered.load(Ordering::SeqCst),
        1,
        "the second one never ran"
    );
}

#[test]
fn a_cancellation_behind_any_number_of_requests_is_received() {
    let held = Held::new(Settings::default());
    let mut wire = held.world.client();
    wire.send(&endless());
    held.wait(1);
    for _ in 0..40 {
        wire.send(&json!({"type": "status"}));
    }
    wire.send(&json!({"type": "cancel", "request_id": "slow"}));
    let answer = wire.next().unwrap();
    assert_eq!(answer["error"]["code"], "cancelled", "{answer}");
    // The daemon reads a limited number of requests ahead. It answers these, and refuses the
    // others.
    let answers: Vec<_> = (0..40).map(|_| wire.next().unwrap()).collect();
    let (busy, told): (Vec<_>, Vec<_>) = answers
        .iter()
        .partition(|answer| answer["error"].is_object());
    assert_eq!((told.len(), busy.len()), (31, 9));
    for answer in busy {
        super::schemas::check("query_error", answer);
        assert_eq!(answer["error"]["code"], "busy");
        assert!(answer["error"]["retry_after_ms"].is_u64());
    }
    let status = held.world.client().ask(&json!({"type": "status"}));
    assert_eq!(status["queries"]["busy_total"], 9, "they are counted");
    assert_eq!(
        wire.next().unwrap(),
        json!({"done": true, "request_id": "slow"})
    );
}

#[test]
fn a_disconnect_behind_any_number_of_requests_is_noticed() {
    let held = Held::new(one_of(8));
    let mut gone = held.world.client_named("gone");
    gone.send(&endless());
    held.wait(1);
    // These are more requests than the daemon buffers answers for, so it stops reading.
    let frame = [&19u32.to_be_bytes()[..], br#"{"type": "metrics"}"#].concat();
    gone.0
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    while gone.0.write_all(&frame).is_ok() {}
    drop(gone);
    let mut other = held.world.client_named("other");
    other.found(json!({"type": "search", "query": "needle", "timeout_ms": 30_000}));
}

#[test]
fn the_timeout_of_a_call_counts_while_it_waits() {
    let held = Held::new(one_of(8));
    let mut first = held.world.client_named("first");
    first.send(&endless());
    held.wait(1);
    let mut second = held.world.client_named("second");
    let request = json!({"pattern": "needle", "timeout_ms": 50});
    let call = json!({"type": "tool", "tool": "Search", "request": request});
    let answer = second.ask(&call);
    super::schemas::check("query_error", &answer);
    assert_eq!(answer["error"]["code"], "timeout", "{answer}");
    // Every refusal has a request id, even if the request had no id.
    assert!(answer["error"]["request_id"].is_string(), "{answer}");
    assert_eq!(held.entered.load(Ordering::SeqCst), 1);
}

#[test]
fn the_end_of_a_daemon_cancels_running_and_waiting_queries() {
    let mut held = Held::new(one_of(8));
    let mut clients: Vec<_> = (0..3)
        .map(|n| held.world.client_named(&n.to_string()))
        .collect();
    for client in &mut clients {
        client.send(&endless());
    }
    held.wait(1);
    let mut idle = held.world.client_named("idle");
    let mut last = held.world.client_named("last");
    assert_eq!(
        last.ask(&json!({"type": "shutdown"})),
        json!({"done": true})
    );
    for client in &mut clients {
        // If its request was not read yet, a client only finds the connection closed.
        if let Some(answer) = client.next() {
            super::schemas::check("query_error", &answer);
            assert_eq!(answer["error"]["code"], "cancelled", "{answer}");
            assert_eq!(answer["error"]["retry_after_ms"], 0, "{answer}");
            client.ends();
        }
    }
    idle.ends();
    assert!(held.world.server.wait(), "nothing is left behind");
    assert!(!held.world.path().exists());
    assert!(std::os::unix::net::UnixStream::connect(held.world.path()).is_err());
}

#[test]
fn the_client_of_the_library_speaks_the_same_protocol() {
    let world = World::over(small(), Settings::default());
    let caller = Caller {
        client_id: Some("me"),
        patience: GUARD,
        access: Access::Owner,
    };
    let mut connection = Connection::open(&world.path(), &world.served, caller).unwrap();
    assert_eq!(connection.welcome.protocol_version, 2);
    let request = Request {
        id: Some("x".to_string()),
        body: RequestBody::Search(SearchQuery::new("socket")),
    };
    let answer = connection.ask(&request, GUARD).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["request_id"], "x");
    let mut other = world.served.clone();
    other.config_fingerprint.clear();
    let refused = Connection::open(&world.path(), &other, caller).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    let nobody = world.path().with_file_name("nobody.sock");
    let unreachable = Connection::open(&nobody, &world.served, caller).unwrap_err();
    assert!(matches!(unreachable, ClientError::Unreachable(_)));
}
