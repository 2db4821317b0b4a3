//! Tests how a daemon handles clients that violate the protocol.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use forge_search::internal::tool::daemon::server::Settings;
use serde_json::json;

use super::program::{Place, kill, ok};
use super::{Wire, World, small};
use crate::support::GUARD;

fn hasty() -> Settings {
    Settings {
        patience: Duration::from_millis(200),
        idle: Duration::from_millis(600),
        ..Settings::default()
    }
}

/// The resident memory of a process, in KiB.
fn resident(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Makes the handshake. A client that is too slow for a daemon with little patience tries again.
fn greeted(world: &World, name: &str) -> Wire {
    let mut hello = world.hello();
    hello["client_id"] = name.into();
    loop {
        let mut wire = world.connect();
        wire.send(&hello);
        let answer = wire.next().unwrap();
        if answer["protocol_version"] == 2 {
            return wire;
        }
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("did not come within"), "{message}");
    }
}

#[test]
fn a_message_over_the_cap_is_refused_unread() {
    // The daemon is a separate process, whose memory no other test uses.
    let place = Place::new();
    let mut daemon = place.serve(&["--set", "index_mode=off"]);
    let status = ok(&place.ggrep(&["status", "--json", "--set", "index_mode=off"]));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let hello = json!({
        "protocol_versions": [2],
        "store_id": status["store_id"],
        "config_fingerprint": status["config_fingerprint"],
    });
    let socket = place.sockets()[0].clone();
    let client = || {
        let stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(GUARD)).unwrap();
        let mut wire = Wire(stream);
        assert_eq!(wire.ask(&hello)["protocol_version"], 2);
        wire
    };
    let search = json!({"type": "search", "query": "retry"});
    client().found(search.clone());
    let before = resident(daemon.id());
    let mut wires = Vec::new();
    for _ in 0..50 {
        let mut wire = client();
        wire.send_bytes(&(64u32 << 20).to_be_bytes());
        let answer = wire.next().unwrap();
        super::schemas::check("query_error", &answer);
        assert_eq!(answer["error"]["code"], "invalid_request");
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains("1048576")
        );
        wire.ends();
        wires.push(wire);
    }
    let after = resident(daemon.id());
    assert!(after < before + 64 * 1024, "{before} KiB, now {after}");
    // A message of the largest allowed size is read, and refused because it is not JSON.
    let mut wire = client();
    wire.send_bytes(&(1u32 << 20).to_be_bytes());
    wire.send_bytes(&vec![b'x'; 1 << 20]);
    let answer = wire.next().unwrap();
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("not valid JSON")
    );
    wire.found(search);
    kill(daemon.id().cast_signed(), rustix::process::Signal::TERM);
    daemon.wait().unwrap();
}

#[test]
fn garbage_and_messages_cut_off_end_their_own_connection_only() {
    let world = World::over(small(), Settings::default());
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 64],
        &[0, 0],
        &[0, 0, 0, 9, b'{'],
        b"",
    ] {
        for greeted in [false, true] {
            let mut wire = match greeted {
                true => world.client(),
                false => world.connect(),
            };
            wire.send_bytes(bytes);
            wire.0.shutdown(Shutdown::Write).unwrap();
            if let Some(answer) = wire.next() {
                super::schemas::check("query_error", &answer);
                assert_eq!(answer["error"]["code"], "invalid_request", "{bytes:?}");
            }
            wire.ends();
        }
    }
    world
        .client()
        .found(json!({"type": "search", "query": "socket"}));
}

#[test]
fn slow_and_silent_clients_are_not_waited_for() {
    let world = World::over(small(), hasty());
    let mut silent = world.connect();
    let mut idle = greeted(&world, "idle");
    // The client may be late already. It gets an error all the same.
    let mut halfway = greeted(&world, "halfway");
    let _ = halfway.0.write_all(&[0, 0]);
    // Single bytes don't keep the connection open for ever. This message would take six hours.
    let mut dripping = greeted(&world, "dripping");
    let _ = dripping.0.write_all(&(1u32 << 20).to_be_bytes());
    let mut drops = dripping.0.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        while drops.write_all(b"{").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    for wire in [&mut silent, &mut halfway, &mut idle, &mut dripping] {
        let answer = wire.next().unwrap();
        assert_eq!(answer["error"]["code"], "invalid_request");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("did not come within"), "{message}");
    }
    drip.join().unwrap();
    for wire in [&mut silent, &mut halfway, &mut idle] {
        wire.ends();
    }
}

#[test]
fn a_client_that_does_not_read_does_not_delay_others() {
    let settings = Settings {
        patience: hasty().patience,
        ..Settings::default()
    };
    let world = World::over(small(), settings);
    let mut deaf = greeted(&world, "deaf");
    let query = json!({"type": "search", "query": "socket", "snippet": "long"}).to_string();
    let length = u32::try_from(query.len()).unwrap().to_be_bytes();
    deaf.0
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // The client writes until the socket's buffers are full.
    while deaf
        .0
        .write_all(&length)
        .and_then(|()| deaf.0.write_all(query.as_bytes()))
        .is_ok()
    {}
    let mut other = greeted(&world, "other");
    for _ in 0..20 {
        other.found(json!({"type": "search", "query": "socket"}));
    }
}

#[test]
fn many_connections_at_once_are_all_answered() {
    let world = World::over(small(), Settings::default());
    let mut wires: Vec<_> = (0..200)
        .map(|n| world.client_named(&format!("c{n}")))
        .collect();
    for round in 0..3 {
        for wires in wires.chunks_mut(16) {
            wires
                .iter_mut()
                .for_each(|wire| wire.send(&json!({"type": "search", "query": "socket"})));
            for wire in wires {
                let answer = wire.next().unwrap();
                assert!(answer["results"].is_array(), "{round}: {answer}");
            }
        }
    }
}
