//! Tests which searches of a daemon find keys and certificates in a tree.

use serde_json::json;

use super::mcp::{Wire, found};
use super::program::{Place, kill, ok, text};

#[test]
fn a_daemon_finds_keys_for_people_and_not_for_agents() {
    let place = Place::new();
    place.write("certs/server.pem", "retry_delay in a key\n");
    let mut daemon = place.serve(&["--set", "index_mode=on"]);
    let person = |more: &[&str]| {
        let output =
            place.forge_search(&[&["-l", "retry_delay", "--set", "index_mode=on"], more].concat());
        (ok(&output), text(&output.stderr))
    };
    let (alone, _) = person(&["--set", "threads=1"]);
    assert!(alone.starts_with("certs/server.pem\n"), "{alone}");
    // The daemon also finds edited and new files.
    for name in ["certs/server.pem", "certs/new.pem"] {
        place.write(name, "retry_delay in a key\n");
        let (found, said) = person(&["--debug"]);
        assert!(said.contains("the daemon of the tree answered"), "{said}");
        assert!(found.contains(name), "{found}");
    }
    let mut wire = Wire::greeted(&place, &["--set", "index_mode=on"]);
    for (id, path) in [(1, "."), (2, "certs")] {
        wire.call(
            id,
            json!({"pattern": "retry_delay", "path": path}),
            json!({}),
        );
        let answer = wire.answer(id);
        assert_eq!(found(&answer), if id == 1 { 2 } else { 0 }, "{answer}");
    }
    wire.call(
        3,
        json!({"pattern": "x", "path": "certs/new.pem"}),
        json!({}),
    );
    assert_eq!(wire.answer(3)["result"]["isError"], true);
    assert_eq!(wire.end().0, Some(0));
    assert_eq!(place.daemons().len(), 1, "the same one answers agents");
    kill(
        i32::try_from(daemon.id()).unwrap(),
        rustix::process::Signal::TERM,
    );
    daemon.wait().unwrap();
}
