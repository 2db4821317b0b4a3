//! Tests `forge-search mcp` with clients of other projects, and message by message.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use forge_search::internal::tool::daemon::identity::socket_name;
use serde_json::{Value, json};

use super::program::{Place, halt, kill, ok, text, wait_until};
use crate::cli::{SLOW, slow_text};
use crate::slow_searches::slow_files;
use crate::support::GUARD;

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_forge-search");

/// Returns the path of an MCP client that an environment variable names.
fn peer(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(name).map(PathBuf::from);
    if found.is_none() {
        crate::skipped::skipped(format!("{name} names no client"));
    }
    found
}

/// Makes a tree with the files that the clients expect.
pub(super) fn place() -> Place {
    let place = Place::new();
    fs::remove_file(place.root().join("notes.txt")).unwrap();
    fs::create_dir_all(place.root().join("docs")).unwrap();
    fs::create_dir_all(place.dir().join("other")).unwrap();
    symlink("../edited.txt", place.root().join("src/link")).unwrap();
    let lines: String = (0..5_000)
        .map(|n| format!("a line of many {n}\n"))
        .collect();
    place.write("many.txt", &lines);
    place.write("slow.txt", &slow_text(10_000_000));
    place
}

#[test]
fn mcp_the_official_python_client_gets_what_it_asks_for() {
    let Some(python) = peer("FORGE_SEARCH_TEST_MCP_PYTHON") else {
        return;
    };
    let place = place();
    let told = place
        .command(python.to_str().unwrap(), &[])
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/clients/mcp_client.py"
        ))
        .arg(PROGRAM)
        .arg(place.root())
        .arg(place.dir().canonicalize().unwrap().join("other"))
        .output()
        .unwrap();
    let (out, err) = (text(&told.stdout), text(&told.stderr));
    assert!(told.status.success(), "{out}{err}");
    // The client used both revisions of the protocol.
    assert!(out.ends_with("spoken at last: 2026-07-28\n"), "{out}");
    assert_eq!(out.lines().count(), 17, "{out}");
}

#[test]
fn mcp_the_inspector_lists_and_calls_each_tool() {
    let Some(inspector) = peer("FORGE_SEARCH_TEST_MCP_INSPECTOR") else {
        return;
    };
    let place = place();
    let inspect = |args: &[&str]| {
        let mut command = place.command(
            inspector.to_str().unwrap(),
            &["--cli", PROGRAM, "mcp", "--structured"],
        );
        // The output goes to files. After a failure the inspector exits before a pipe has received
        // it all.
        let file = |name: &str| fs::File::create(place.dir().join(name)).unwrap();
        let status = command
            .args(args)
            .stdout(file("out"))
            .stderr(file("err"))
            .status()
            .unwrap();
        let read = |name: &str| text(&fs::read(place.dir().join(name)).unwrap());
        (status.success(), read("out"), read("err"))
    };
    let value = |args: &[&str]| -> Value {
        let mut said = Vec::new();
        // On a busy machine, a server may start more slowly than the inspector waits.
        for _ in 0..3 {
            let (succeeded, out, err) = inspect(args);
            // The inspector reports schemas that clients can't read. Here it must report nothing.
            if succeeded && err.is_empty() {
                return serde_json::from_str(&out).unwrap();
            }
            said.push(format!("{out}{err}"));
        }
        panic!("{args:?}: {said:?}");
    };
    let tools = value(&["--method", "tools/list"]);
    let names = tools["tools"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Search", "search_files", "find_files", "find_code"]);
    let call = |tool: &str, args: &[&str]| {
        let mut all = vec!["--method", "tools/call", "--tool-name", tool];
        for arg in args {
            all.extend(["--tool-arg", arg]);
        }
        all.into_iter().map(String::from).collect::<Vec<_>>()
    };
    let called = |tool: &str, args: &[&str]| -> Value {
        let all = call(tool, args);
        value(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let found = called("Search", &["pattern=retry_delay", "max_results=1"]);
    assert_eq!(found["structuredContent"]["count"], 1, "{found}");
    assert_eq!(found["structuredContent"]["truncated"], true, "{found}");
    let shown = found["content"][0]["text"].as_str().unwrap();
    assert!(shown.starts_with("src/delay.rs:1:8:pub fn"), "{shown}");
    let found = called("search_files", &["path=src", "query=retry_delay"]);
    assert_eq!(found["structuredContent"]["returned"], 2, "{found}");
    let found = called("find_files", &["name=delay"]);
    let fields = &found["structuredContent"];
    assert_eq!(fields["files"][0]["path"], "src/delay.rs", "{found}");
    assert_eq!(found["content"][0]["text"], "src/delay.rs\n");
    let refused = call("Search", &["pattern=("]);
    let refused: Vec<_> = refused.iter().map(String::as_str).collect();
    let (_, out, _) = inspect(&refused);
    assert!(out.contains("bad_args"), "{out}");
    let resources = value(&["--method", "resources/list"]);
    assert_eq!(resources["resources"].as_array().unwrap().len(), 3);
    let status = value(&[
        "--method",
        "resources/read",
        "--uri",
        "forge-search://status",
    ]);
    let status = status["contents"][0]["text"].as_str().unwrap();
    let status: Value = serde_json::from_str(status).unwrap();
    assert_eq!(status["canonical_root"], place.root().to_str().unwrap());
}

/// Returns the text of the first content block of an answer.
pub(super) fn shown(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))
}

/// Counts the matching lines in the text of an answer.
pub(super) fn found(answer: &Value) -> usize {
    let is_match = |line: &&str| {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < line.len() && rest.starts_with(':')
    };
    shown(answer).lines().filter(is_match).count()
}

/// An MCP server and its pipes. The server is killed when this value is dropped.
pub(super) struct Wire {
    pub(super) child: Child,
    pub(super) stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Messages that arrived while an answer was awaited.
    heard: Vec<Value>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Wire {
    pub(super) fn start(command: &mut Command) -> Wire {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Wire {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            heard: Vec::new(),
        }
    }

    /// Starts a server and initializes it.
    pub(super) fn greeted(place: &Place, args: &[&str]) -> Wire {
        Wire::greeted_by(place, args, json!({}))
    }

    /// Starts a server and initializes it as a client with these capabilities.
    fn greeted_by(place: &Place, args: &[&str], capabilities: Value) -> Wire {
        let mut wire = Wire::start(&mut place.command(PROGRAM, &[&["mcp"], args].concat()));
        wire.greet(capabilities);
        wire
    }

    fn greet(&mut self, capabilities: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"},
        }}));
        let about = self.answer(0);
        assert_eq!(about["result"]["serverInfo"]["name"], "forge-search");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    pub(super) fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(super) fn call(&mut self, id: u64, request: Value, meta: Value) {
        let params = json!({"name": "Search", "arguments": request, "_meta": meta});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    /// Waits for the answer to a request, and stores other messages in `heard`.
    pub(super) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Returns the next message.
    pub(super) fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Closes the pipe from which this client reads the server's output.
    pub(super) fn close_output(&mut self) {
        let closed = std::process::Command::new("true")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The new reader is at its end, because its process has ended.
        let mut closed = closed;
        self.stdout = BufReader::new(closed.stdout.take().unwrap());
        closed.wait().unwrap();
    }

    /// Closes the server's input. Returns the server's exit code and its stderr.
    pub(super) fn end(mut self) -> (Option<i32>, String) {
        self.stdin = None;
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
        (status.code(), said)
    }
}

#[test]
fn mcp_whoever_asks_for_it_is_told_how_far_the_index_is() {
    for more in [&[][..], &["--no-daemon"]] {
        let place = place();
        for n in 0..400 {
            place.write(&format!("many/{n}.txt"), &format!("file {n}\n").repeat(50));
        }
        // The build lasts as long as this test, even if nobody searches.
        let slowly = [
            "--set",
            "index_mode=on",
            "--set",
            "index_max_memory_bytes=8192",
            "--set",
            "index_build_throttle_ms=60000",
            "--set",
            "index_idle_boost_ms=3600000",
        ];
        let mut wire = Wire::greeted(&place, &[&slowly, more].concat());
        let request = json!({"pattern": SLOW, "path": "slow.txt", "timeout_ms": 1_000});
        wire.call(1, request, json!({}));
        let answer = wire.answer(1);
        assert!(shown(&answer).contains("timed out after"), "{answer}");
        // The first request has no progress token, so it gets no notifications.
        assert_eq!(wire.heard, [Value::Null; 0]);
        slow_files(&place.root().join("slow"));
        let request = json!({"pattern": SLOW, "path": "slow", "timeout_ms": 600_000});
        wire.call(2, request, json!({"progressToken": "mine"}));
        let told = |wire: &mut Wire| {
            let message = wire.next();
            assert_eq!(message["method"], "notifications/progress", "{message}");
            message
        };
        let heard: Vec<Value> = (0..3).map(|_| told(&mut wire)).collect();
        let params = json!({"requestId": 2, "reason": "enough was heard"});
        wire.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
        let progress: Vec<f64> = heard
            .iter()
            .map(|message| {
                assert_eq!(message["params"]["progressToken"], "mine");
                let said = message["params"]["message"].as_str().unwrap();
                assert!(said.contains("an index is being built"), "{said}");
                message["params"]["progress"].as_f64().unwrap()
            })
            .collect();
        assert!(progress.is_sorted_by(|a, b| a < b), "{progress:?}");
        let quick = json!({"pattern": "retry_delay", "path": "src", "timeout_ms": 600_000});
        wire.call(3, quick, json!({}));
        assert_eq!(found(&wire.answer(3)), 2);
        assert_eq!(wire.end(), (Some(0), String::new()));
    }
}

#[test]
fn mcp_a_call_in_the_process_itself_can_be_given_up() {
    let place = place();
    slow_files(&place.root().join("slow"));
    let mut wire = Wire::greeted(&place, &["--no-daemon"]);
    let request = json!({"pattern": SLOW, "path": "slow", "timeout_ms": 600_000});
    wire.call(1, request, json!({}));
    let params = json!({"requestId": 1, "reason": "not needed"});
    wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    let quick = json!({"pattern": "retry_delay", "path": "src", "timeout_ms": 600_000});
    wire.call(2, quick, json!({}));
    assert_eq!(found(&wire.answer(2)), 2);
    // The server ends with its client. The search alone would run longer than the guard.
    let began = std::time::Instant::now();
    assert_eq!(wire.end(), (Some(0), String::new()));
    assert!(began.elapsed() < GUARD);
}

#[test]
fn mcp_roots_that_are_none_of_this_machine_and_a_client_that_is_gone() {
    let place = place();
    let mut wire = Wire::greeted_by(&place, &["--no-daemon"], json!({"roots": {}}));
    wire.call(1, json!({"pattern": "retry_delay"}), json!({}));
    // The server asks for the roots, and the client answers.
    let asked = wire.answer(0);
    assert_eq!(asked["method"], "roots/list", "{asked}");
    let roots = json!({"roots": [{"uri": "https://example.org/tree"}]});
    wire.send(&json!({"jsonrpc": "2.0", "id": 0, "result": roots}));
    let answer = wire.answer(1);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let said = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("file:"), "{said}");
    drop(wire);
    // The server does not wait for a client that has closed the connection.
    let mut wire = Wire::greeted_by(&place, &["--no-daemon"], json!({"roots": {}}));
    wire.call(1, json!({"pattern": "retry_delay"}), json!({}));
    assert_eq!(wire.answer(0)["method"], "roots/list");
    wire.stdin = None;
    let answer = wire.answer(1);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let said = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("the client has disconnected"), "{said}");
    assert_eq!(wire.end().0, Some(0));
}

/// Answers the request for roots that precedes the answer to a call.
fn with_roots(wire: &mut Wire, asked: u64, roots: &[PathBuf]) {
    let question = wire.answer(asked);
    assert_eq!(question["method"], "roots/list", "{question}");
    let uri = |root: &PathBuf| json!({"uri": format!("file://{}", root.display())});
    let roots: Vec<Value> = roots.iter().map(uri).collect();
    wire.send(&json!({"jsonrpc": "2.0", "id": asked, "result": {"roots": roots}}));
}

#[test]
fn mcp_roots_that_are_files_add_nothing_and_allowed_ones_are_roots_of_paths() {
    let place = place();
    let mut wire = Wire::greeted_by(&place, &["--no-daemon"], json!({"roots": {}}));
    wire.call(1, json!({"pattern": "retry_delay"}), json!({}));
    let root = place.root();
    with_roots(&mut wire, 0, &[root.join("many.txt"), root.join("src")]);
    let answer = wire.answer(1);
    assert_eq!(found(&answer), 2, "{answer}");
    assert!(shown(&answer).contains("delay.rs\n1:"), "{answer}");
    drop(wire);
    // If the root itself is not allowed, paths are relative to the allowed directory.
    place.write("sub/x.txt", "retry_delay\n");
    let config = place.dir().join("config/forge-search");
    fs::create_dir_all(&config).unwrap();
    let allowed = format!(
        "[tools.sandbox]\nallowed_roots = [{:?}]\n",
        root.join("sub")
    );
    fs::write(config.join("config.toml"), allowed).unwrap();
    for capabilities in [json!({}), json!({"roots": {}})] {
        let has_roots = capabilities.get("roots").is_some();
        let mut wire = Wire::greeted_by(&place, &["--no-daemon"], capabilities);
        wire.call(1, json!({"pattern": "retry_delay"}), json!({}));
        if has_roots {
            with_roots(&mut wire, 0, &[root.join("sub")]);
        }
        let answer = wire.answer(1);
        assert_eq!(shown(&answer), "x.txt\n1:retry_delay\n");
    }
    // The same holds if the allowed root is relative. The file `sub/sub/y.txt` is then shown as
    // `sub/y.txt`.
    place.write("sub/sub/y.txt", "retry_delay\n");
    place.write("beside/z.txt", "retry_delay\n");
    let allowed = "[tools.sandbox]\nallowed_roots = [\"sub\"]\n";
    fs::write(config.join("config.toml"), allowed).unwrap();
    let mut wire = Wire::greeted(&place, &["--no-daemon"]);
    wire.call(1, json!({"pattern": "retry_delay"}), json!({}));
    let answer = wire.answer(1);
    let both = "sub/y.txt\n1:retry_delay\n\nx.txt\n1:retry_delay\n";
    assert_eq!(shown(&answer), both);
}

#[cfg(target_os = "linux")]
#[test]
fn mcp_roots_that_change_leave_nothing_open() {
    let place = place();
    let mut wire = Wire::greeted_by(&place, &["--no-daemon"], json!({"roots": {}}));
    let threads = |wire: &Wire| {
        let tasks = fs::read_dir(format!("/proc/{}/task", wire.child.id())).unwrap();
        tasks.count()
    };
    let mut after_some = 0;
    for n in 0..24 {
        let path = format!("d{n}/x.txt");
        place.write(&path, "here\n");
        if n > 0 {
            wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}));
        }
        wire.call(n + 1_000, json!({"pattern": "here"}), json!({}));
        with_roots(&mut wire, n, &[place.root().join(format!("d{n}"))]);
        let answer = wire.answer(n + 1_000);
        assert_eq!(found(&answer), 1, "{answer}");
        if n == 7 {
            after_some = threads(&wire);
        }
    }
    // Threads of earlier roots may take a moment to end.
    wait_until("what is not asked any more has ended", || {
        threads(&wire) <= after_some + 12
    });
    assert_eq!(wire.end().0, Some(0));
}

#[test]
fn mcp_what_a_client_that_is_gone_has_asked_for_is_given_up() {
    let place = place();
    slow_files(&place.root().join("slow"));
    let mut wire = Wire::greeted(&place, &["--no-daemon"]);
    for id in 1..9 {
        let request = json!({"pattern": SLOW, "path": "slow", "timeout_ms": 600_000});
        wire.call(id, request, json!({}));
    }
    let quick = json!({"pattern": "retry_delay", "path": "src", "timeout_ms": 600_000});
    wire.call(9, quick, json!({}));
    assert_eq!(found(&wire.answer(9)), 2);
    let began = std::time::Instant::now();
    assert_eq!(wire.end().0, Some(0));
    assert!(began.elapsed() < GUARD, "{:?}", began.elapsed());
}

#[test]
fn mcp_what_is_ignored_everywhere_counts_as_it_is_now() {
    let excludes = |place: &Place| place.dir().join("config/git/ignore");
    for more in [&[][..], &["--no-daemon"]] {
        let place = place();
        fs::create_dir(place.root().join(".git")).unwrap();
        fs::create_dir_all(excludes(&place).parent().unwrap()).unwrap();
        let mut wire = Wire::greeted(&place, more);
        let counts = [("", 2), ("use.rs\n", 1), ("*.rs\n", 0), ("", 2)];
        for (id, (ignored, count)) in (1..).zip(counts) {
            match ignored {
                "" => drop(fs::remove_file(excludes(&place))),
                _ => fs::write(excludes(&place), ignored).unwrap(),
            }
            wire.call(id, json!({"pattern": "retry_delay"}), json!({}));
            let answer = wire.answer(id);
            assert_eq!(found(&answer), count, "{ignored}: {answer}");
        }
        assert_eq!(wire.end(), (Some(0), String::new()));
    }
}

#[test]
fn mcp_a_daemon_that_does_not_greet_is_not_waited_for() {
    let place = place();
    // The server waits five seconds for the daemon, the patience of the product.
    let mut command = place.command(PROGRAM, &["mcp"]);
    command.env_remove("FORGE_SEARCH_PATIENCE_MS");
    let mut wire = Wire::start(&mut command);
    wire.greet(json!({}));
    let request = json!({"pattern": "retry_delay", "timeout_ms": 120_000});
    wire.call(1, request.clone(), json!({}));
    assert_eq!(found(&wire.answer(1)), 2);
    let daemons = place.daemons();
    assert_eq!(daemons.len(), 1);
    halt(daemons[0]);
    place.write("src/more.rs", "retry_delay\n");
    wire.call(2, request.clone(), json!({}));
    let answer = wire.answer(2);
    assert_eq!(found(&answer), 3, "{answer}");
    let params =
        json!({"name": "search_files", "arguments": {"path": "src", "query": "retry_delay"}});
    wire.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}));
    let answer = wire.answer(3);
    assert_eq!(found(&answer), 3, "{answer}");
    // Once the daemon runs again, the server uses it again.
    kill(daemons[0], rustix::process::Signal::CONT);
    wire.call(4, request, json!({}));
    assert_eq!(found(&wire.answer(4)), 3);
    assert_eq!(wire.end(), (Some(0), String::new()));
}

#[test]
fn mcp_without_a_place_for_a_daemon_the_process_answers_by_itself_and_says_so_once() {
    let place = place();
    let status = place.ggrep(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let of = |field: &str| status[field].as_str().unwrap().to_string();
    let name = socket_name(&of("store_id"), &of("config_fingerprint"));
    // A directory at the path of the daemon's lock keeps every daemon from starting.
    let lock = place.dir().join("state/forge-search").join(name);
    std::fs::create_dir_all(lock.with_extension("daemon")).unwrap();
    let mut command = place.command(PROGRAM, &["mcp"]);
    let mut wire = Wire::start(&mut command);
    wire.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }}));
    wire.answer(0);
    wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for id in 1..3 {
        wire.call(id, json!({"pattern": "retry_delay"}), json!({}));
        let answer = wire.answer(id);
        assert_eq!(found(&answer), 2, "{answer}");
    }
    let (code, said) = wire.end();
    assert_eq!(code, Some(0));
    assert_eq!(
        said.matches("this process answers by itself").count(),
        1,
        "{said}"
    );
    assert!(place.daemons().is_empty());
}

#[test]
fn mcp_what_can_not_be_served_is_said_at_once() {
    let place = place();
    let home = place.dir().join("home");
    fs::create_dir_all(&home).unwrap();
    for (dir, args, said) in [
        (
            PathBuf::from("/"),
            &["mcp"][..],
            "name the tree with --root",
        ),
        (home, &["mcp"], "name the tree with --root"),
        (place.root(), &["mcp", "--root", "nowhere"], "nowhere"),
        (
            place.root(),
            &["mcp", "--set", "index_mode=perhaps"],
            "index_mode",
        ),
    ] {
        let told = place
            .command(PROGRAM, args)
            .current_dir(dir)
            .output()
            .unwrap();
        assert_eq!(told.status.code(), Some(2), "{args:?}");
        assert!(text(&told.stderr).contains(said), "{args:?}: {told:?}");
    }
    // An empty input is no error: a user may only test whether the command exists.
    assert_eq!(ok(&place.forge_search(&["mcp"])), "");
}
