//! Tests the page of `forge-search serve --http`, with raw HTTP requests and in a real browser.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use forge_search::internal::tool::daemon::frame::encode;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::fake_daemons::Played;
use super::program::{Place, kill, ok, text};
use crate::cli::SLOW;
use crate::slow_searches::slow_files;
use crate::support::GUARD;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forge-search");

/// A server of the page. It is killed when this value is dropped.
struct Page {
    child: Child,
    host: String,
    token: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP response. The header is in lowercase.
struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Page {
    fn serve(place: &Place) -> Page {
        Page::with(place, &[])
    }

    fn with(place: &Place, args: &[&str]) -> Page {
        let args = [&["serve", "--http", "127.0.0.1:0"], args].concat();
        let mut child = place
            .command(PROGRAM, &args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut url).unwrap();
        let rest = url.trim_end().strip_prefix("http://").unwrap();
        let (host, token) = rest.split_once("/?token=").unwrap();
        Page {
            child,
            host: host.to_string(),
            token: token.to_string(),
        }
    }

    fn url(&self) -> String {
        format!("http://{}/?token={}", self.host, self.token)
    }

    /// Sends a request with only the given headers, apart from its length and `Connection: close`.
    fn send(&self, line: &str, headers: &[String], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let head: String = headers
            .iter()
            .map(|header| format!("{header}\r\n"))
            .collect();
        write!(
            stream,
            "{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n{head}\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    fn raw(&self, line: &str, headers: &[String], body: &str) -> Got {
        let mut all = Vec::new();
        // The server may close the connection of a refused request while it is still being written.
        let _ = self.send(line, headers, body).read_to_end(&mut all);
        let all = text(&all);
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Got {
            status: status.unwrap_or_else(|| panic!("{all:?}")),
            head: head.to_ascii_lowercase(),
            body: body.to_string(),
        }
    }

    fn headers(&self) -> Vec<String> {
        vec![
            format!("Host: {}", self.host),
            format!("Authorization: Bearer {}", self.token),
            "Content-Type: application/json".to_string(),
        ]
    }

    fn get(&self, path: &str) -> Got {
        self.raw(&format!("GET {path}"), &self.headers(), "")
    }

    fn search(&self, request: &Value) -> Got {
        self.post("/api/search", request)
    }

    fn post(&self, path: &str, request: &Value) -> Got {
        let body = request.to_string();
        self.raw(&format!("POST {path}"), &self.headers(), &body)
    }
}

#[test]
fn web_a_search_is_answered_as_the_tool_answers_it() {
    let place = Place::new();
    let page = Page::serve(&place);
    for request in [
        json!({"pattern": "retry_delay"}),
        json!({"pattern": "retry", "max_results": 1, "context": 1}),
        json!({"pattern": "nothing like it"}),
        json!({"pattern": "retry_dely", "fuzzy": 1, "include_glob": ["*.rs"]}),
    ] {
        let got = page.search(&request);
        assert_eq!(got.status, 200, "{}", got.body);
        let called = ok(&place.forge_search(&["call", &request.to_string()]));
        let called: Value = serde_json::from_str(&called).unwrap();
        assert_eq!(got.json(), called, "{request}");
    }
    // Each search sees the edits before it.
    for n in 0..20 {
        place.write("src/new.rs", &format!("fn edited_{n}() {{}}\n"));
        let found = page
            .search(&json!({"pattern": format!("edited_{n}\\b")}))
            .json();
        assert_eq!(found["count"], 1, "{n}: {found}");
    }
}

#[test]
fn web_a_ranked_question_is_answered_as_the_tool_answers_it() {
    let place = Place::new();
    let page = Page::serve(&place);
    for request in [
        json!({"question": "retry_delay"}),
        json!({"question": "delay of a retry", "max_results": 1}),
        json!({"related": "src/use.rs:1"}),
    ] {
        let got = page.post("/api/code", &request);
        assert_eq!(got.status, 200, "{}", got.body);
        assert!(got.json()["returned"].as_u64() > Some(0), "{}", got.body);
        let request = request.to_string();
        let called = ok(&place.forge_search(&["call", "--tool", "find_code", &request]));
        let called: Value = serde_json::from_str(&called).unwrap();
        assert_eq!(got.json(), called, "{request}");
    }
    let got = page.post("/api/code", &json!({"question": " "}));
    assert_eq!(got.status, 400);
    assert_eq!(got.json()["error"]["code"], "bad_args");
    let got = page.raw("POST /api/code", &page.headers()[..1], "{}");
    assert_eq!(got.status, 401);
}

#[test]
fn web_the_page_and_its_answers_are_for_its_browser_alone() {
    let place = Place::new();
    let page = Page::serve(&place);
    let host = format!("Host: {}", page.host);
    let line = format!("GET /?token={}", page.token);
    let got = page.raw(&line, std::slice::from_ref(&host), "");
    assert_eq!(got.status, 200);
    assert!(got.body.contains("<!doctype html>"), "{}", got.body);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "content-type: text/html; charset=utf-8",
    ] {
        assert!(got.head.contains(header), "{header} in {}", got.head);
    }
    assert!(!got.head.contains("access-control-allow"), "{}", got.head);
    // The page loads nothing from other servers, and contains nothing that its policy forbids.
    for path in ["/page.js", "/text.js", "/page.css"] {
        let got = page.raw(&format!("GET {path}"), std::slice::from_ref(&host), "");
        assert_eq!(got.status, 200);
        for all in [
            &got.body,
            &page.raw(&line, std::slice::from_ref(&host), "").body,
        ] {
            assert!(!all.contains("https://"), "{path}");
            assert!(
                !all.contains("style=") && !all.contains("onclick="),
                "{path}"
            );
        }
    }
    let without = [host.clone(), "Content-Type: application/json".to_string()];
    let request = json!({"pattern": "retry_delay"}).to_string();
    for (headers, status) in [
        (without.to_vec(), 401),
        (
            [&without[..], &["Authorization: Bearer 0".to_string()]].concat(),
            401,
        ),
        (
            [
                &page.headers()[..],
                &["Origin: http://evil.example".to_string()],
            ]
            .concat(),
            403,
        ),
        (
            [
                &page.headers()[..],
                &["Sec-Fetch-Site: cross-site".to_string()],
            ]
            .concat(),
            403,
        ),
        (
            [&page.headers()[1..], &["Host: evil.example".to_string()]].concat(),
            421,
        ),
    ] {
        let got = page.raw("POST /api/search", &headers, &request);
        assert_eq!(got.status, status, "{headers:?}");
        assert!(!got.body.contains("delay"), "{}", got.body);
        // A refusal must not be cached or framed either.
        assert!(got.head.contains("cache-control: no-store"), "{}", got.head);
    }
    for path in ["/../etc/passwd", "/page/index.html", "/api", "/api/search"] {
        let status = page.get(path).status;
        assert!(matches!(status, 404 | 405), "{path}: {status}");
    }
}

#[test]
fn web_a_file_is_shown_around_a_line() {
    let place = Place::new();
    let text: String = (1..=1_000).map(|n| format!("line {n}\n")).collect();
    place.write("long.txt", &text);
    place.write("a b+\u{fc}.txt", "one\r\ntwo \u{202e}\n");
    let root = place.root();
    fs::write(root.join("latin"), b"caf\xe9\n").unwrap();
    fs::write(root.join("utf16"), b"\xff\xfea\0\n\0b\0\n\0").unwrap();
    let tail = format!("{}\0", "text\n".repeat(20_000));
    fs::write(root.join("tail"), tail).unwrap();
    let page = Page::serve(&place);
    let shown = |query: &str| {
        let got = page.get(&format!("/api/file?{query}"));
        assert_eq!(got.status, 200, "{query}: {}", got.body);
        assert!(got.head.contains("content-type: application/json"));
        got.json()
    };
    let got = shown("path=long.txt&line=500");
    assert_eq!(
        (&got["path"], &got["line"], &got["first_line"]),
        (&json!("long.txt"), &json!(500), &json!(300))
    );
    assert_eq!(got["lines"][200], "line 500");
    assert_eq!(got["lines"].as_array().unwrap().len(), 401);
    assert_eq!(got["total_lines"], 1_000);
    assert_eq!(shown("path=long.txt")["line"], 1);
    assert_eq!(shown("path=long.txt&line=99999")["line"], 1_000);
    for path in ["a+b%2B%C3%BC.txt", "a%20b%2b%c3%bc.txt"] {
        let got = shown(&format!("path={path}"));
        assert_eq!(got["lines"], json!(["one", "two \u{202e}"]));
    }
    assert_eq!(shown("path=latin")["lines"], json!(["caf\u{fffd}"]));
    assert_eq!(shown("path=utf16")["lines"], json!(["a", "b"]));
    let got = shown("path=tail&line=19999");
    assert_eq!(got["total_lines"], 20_000);
    assert_eq!(got["has_binary_rest"], true);
}

#[test]
fn web_files_that_a_search_must_not_read_are_not_shown() {
    let place = Place::new();
    place.write("key.pem", "secret\n");
    place.write("denied/a.txt", "secret\n");
    place.write("large.txt", &"secret\n".repeat(20_000));
    place.write("data.bin", "secret \0\n");
    place.write("../outside.txt", "secret\n");
    let root = place.root();
    let outside = root.join("../outside.txt").canonicalize().unwrap();
    std::os::unix::fs::symlink(&outside, root.join("link.txt")).unwrap();
    let settings = [
        "--set",
        "tools.sandbox.denied_patterns=[\"denied/**\", \"**/*.pem\"]",
        "--set",
        "tools.search.max_file_size_bytes=100000",
    ];
    let page = Page::with(&place, &settings);
    for (query, code, part) in [
        ("path=key.pem", "denied_pattern_matched", "*.pem"),
        ("path=denied/a.txt", "denied_pattern_matched", "denied/**"),
        ("path=link.txt", "path_outside_sandbox", "outside"),
        ("path=../outside.txt", "path_outside_sandbox", ".."),
        ("path=%2e%2e%2foutside.txt", "path_outside_sandbox", ".."),
        ("path=/etc/passwd", "path_outside_sandbox", "/etc/passwd"),
        ("path=none.txt", "bad_args", "does not exist"),
        ("path=src", "bad_args", "a directory"),
        ("path=a%00b", "bad_args", "NUL"),
        ("path=data.bin", "bad_args", "is binary"),
        ("path=large.txt", "bad_args", "max_file_size_bytes (100000)"),
        ("path=", "bad_args", "`path` is missing"),
        ("line=1", "bad_args", "`path` is missing"),
        ("", "bad_args", "`path` is missing"),
        ("path=src/use.rs&line=x", "bad_args", "`line` is `x`"),
        ("path=src/use.rs&line=-1", "bad_args", "`line` is `-1`"),
    ] {
        let got = page.get(&format!("/api/file?{query}"));
        assert_eq!(got.status, 400, "{query}: {}", got.body);
        let error = &got.json()["error"];
        assert_eq!(error["code"], code, "{query}: {error}");
        assert!(text_of(error).contains(part), "{query}: {error}");
        assert!(!got.body.contains("secret"), "{query}");
    }
    let line = "GET /api/file?path=src/use.rs";
    for (headers, status) in [
        (vec![format!("Host: {}", page.host)], 401),
        (
            [
                &page.headers()[..],
                &["Sec-Fetch-Site: cross-site".to_string()],
            ]
            .concat(),
            403,
        ),
    ] {
        let got = page.raw(line, &headers, "");
        assert_eq!(got.status, status);
        assert!(!got.body.contains("retry"), "{}", got.body);
    }
    let token = format!("{line}&token={}", page.token);
    assert_eq!(page.raw(&token, &page.headers()[..1], "").status, 401);
    assert_eq!(
        page.post("/api/file?path=src/use.rs", &json!({})).status,
        405
    );
    assert_eq!(page.get("/api/file?path=src/use.rs").status, 200);
}

/// Returns the message of an error.
fn text_of(error: &Value) -> &str {
    error["message"].as_str().unwrap()
}

#[test]
fn web_an_unknown_path_is_answered_with_a_link_to_the_page() {
    let place = Place::new();
    let page = Page::serve(&place);
    let host = &page.headers()[..1];
    for path in [
        "/nothing",
        "/src/use.rs",
        "/%61pi/status",
        "//api/status",
        "/apiary",
    ] {
        let got = page.raw(&format!("GET {path}"), host, "");
        assert_eq!(got.status, 404, "{path}");
        assert!(got.head.contains("content-type: text/html; charset=utf-8"));
        assert!(
            got.head
                .contains("content-security-policy: default-src 'none'")
        );
        assert!(got.head.contains("x-content-type-options: nosniff"));
        assert!(got.body.contains("<a href=\"/\">"), "{}", got.body);
    }
    let got = page.get("/api/nothing");
    assert_eq!(got.status, 404);
    assert!(got.head.contains("content-type: text/plain; charset=utf-8"));
    assert_eq!(page.raw("GET /api/nothing", host, "").status, 401);
}

#[test]
fn web_what_is_wrong_with_a_request_is_said() {
    let place = Place::new();
    let page = Page::serve(&place);
    for (body, status, code) in [
        ("{\"pattern\": \"(\"}", 400, "bad_args"),
        ("{\"patern\": \"x\"}", 400, "bad_args"),
        ("[]", 400, "bad_args"),
        ("{", 400, "bad_args"),
        ("", 400, "bad_args"),
        (
            "{\"pattern\": \"x\", \"path\": \"/etc\"}",
            400,
            "path_outside_sandbox",
        ),
    ] {
        let got = page.raw("POST /api/search", &page.headers(), body);
        assert_eq!(got.status, status, "{body}: {}", got.body);
        assert_eq!(got.json()["error"]["code"], code, "{body}");
    }
    let plain = &page.headers()[..2];
    let got = page.raw("POST /api/search", plain, "{\"pattern\": \"x\"}");
    assert_eq!(got.status, 415);
    let large = " ".repeat(2 << 20);
    assert_eq!(
        page.raw("POST /api/search", &page.headers(), &large).status,
        413
    );
    let mut garbage = TcpStream::connect(&page.host).unwrap();
    garbage.write_all(b"\x16\x03\x01\x00\xff\r\n\r\n").unwrap();
    // The server either answers with an error or closes the connection.
    let _ = garbage.read_to_end(&mut Vec::new());
    assert_eq!(page.search(&json!({"pattern": "retry_delay"})).status, 200);
}

#[test]
fn web_whoever_reads_nothing_keeps_no_connection() {
    let place = Place::new();
    let page = Page::serve(&place);
    let one = format!("GET /page.js HTTP/1.1\r\nHost: {}\r\n\r\n", page.host);
    let mut silent: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(&page.host).unwrap();
            // The server may close the connection after the first response.
            let _ = stream.write_all(one.repeat(500).as_bytes());
            stream
        })
        .collect();
    let began = Instant::now();
    assert_eq!(page.search(&json!({"pattern": "retry_delay"})).status, 200);
    assert!(began.elapsed() < GUARD, "{:?}", began.elapsed());
    let mut all = Vec::new();
    let _ = silent[0].read_to_end(&mut all);
    assert_eq!(text(&all).matches("HTTP/1.1 200 OK").count(), 1);
}

#[test]
fn web_status_and_health_are_the_daemons() {
    let place = Place::new();
    let page = Page::serve(&place);
    let got = page.get("/api/status");
    assert_eq!(got.status, 200, "{}", got.body);
    let told = got.json();
    assert_eq!(told["name"], place.root().to_str().unwrap());
    assert_eq!(told["status"]["canonical_root"], told["name"]);
    assert_eq!(told["status"]["daemon"]["pid"], page.child.id());
    let health = page.get("/api/health").json();
    assert_eq!(health["store_id"], told["status"]["store_id"]);
    assert!(!health["checks"].as_array().unwrap().is_empty());
}

#[test]
fn web_a_search_ends_when_its_browser_has_gone() {
    let place = Place::new();
    // The whole search would last longer than the guard.
    slow_files(&place.root().join("slow"));
    let page = Page::serve(&place);
    let in_flight = || page.get("/api/status").json()["status"]["queries"]["in_flight"].clone();
    let request = json!({"pattern": SLOW, "path": "slow", "timeout_ms": 600_000});
    let gone = page.send("POST /api/search", &page.headers(), &request.to_string());
    let began = Instant::now();
    while in_flight() == 0 {
        assert!(began.elapsed() < GUARD, "it never began");
    }
    drop(gone);
    while in_flight() != 0 {
        assert!(began.elapsed() < GUARD, "it goes on");
    }
}

#[test]
fn web_beside_a_daemon_that_answers_already_it_is_the_page_alone() {
    let place = Place::new();
    let mut daemon = place.serve(&[]);
    let mut page = Page::serve(&place);
    let status = page.get("/api/status").json();
    assert_eq!(status["status"]["daemon"]["pid"], daemon.id());
    assert_eq!(
        page.search(&json!({"pattern": "retry_delay"})).json()["count"],
        2
    );
    // The page asks the daemon for the current configuration, also if its file was created later.
    let config = place.dir().join("config/forge-search");
    std::fs::create_dir_all(&config).unwrap();
    let file = config.join("config.toml");
    std::fs::write(&file, "[tools.search]\ndefault_max_results = 1\n").unwrap();
    let found = page.search(&json!({"pattern": "retry_delay"})).json();
    assert_eq!(found["count"], 1, "{found}");
    std::fs::remove_file(&file).unwrap();
    let found = page.search(&json!({"pattern": "retry_delay"})).json();
    assert_eq!(found["count"], 2, "{found}");
    kill(page.child.id().cast_signed(), Signal::TERM);
    assert_eq!(page.child.wait().unwrap().code(), Some(0));
    assert!(daemon.try_wait().unwrap().is_none());
    kill(daemon.id().cast_signed(), Signal::TERM);
    daemon.wait().unwrap();
}

#[test]
fn web_a_daemon_that_lacks_a_tool_of_the_page_is_said_to_be_older() {
    let place = Place::new();
    let played = Played::new(&place);
    let page = Page::serve(&place);
    let daemon = thread::spawn(move || {
        let (mut stream, asked) = played.greet();
        let message = "there is no tool `file_lines-1`; use `Search`";
        let unknown = json!({"error": {"code": "unknown_tool", "message": message}});
        let answer = encode(unknown.to_string().as_bytes(), 1 << 20).unwrap();
        stream.write_all(&answer).unwrap();
        asked
    });
    let got = page.get("/api/file?path=src/use.rs&line=1");
    let asked: Value = serde_json::from_slice(&daemon.join().unwrap()).unwrap();
    assert_eq!(asked["tool"], "file_lines-1");
    let error = got.json()["error"].clone();
    let said = error["message"].as_str().unwrap();
    assert!(
        said.contains("is older than this page") && said.contains("`ggrep stop`"),
        "{said}"
    );
    assert!(!said.contains("file_lines"), "{said}");
}

#[test]
fn web_a_daemon_with_a_page_ends_with_it() {
    let place = Place::new();
    let mut page = Page::serve(&place);
    assert_eq!(
        page.search(&json!({"pattern": "retry_delay"})).json()["count"],
        2
    );
    ok(&place.ggrep(&["stop"]));
    assert_eq!(page.child.wait().unwrap().code(), Some(0));
    // The last requests of the page have started no other daemon.
    assert_eq!(place.daemons(), [0; 0]);
    // Such requests don't keep the page from ending in order either.
    let mut page = Page::serve(&place);
    assert_eq!(page.get("/api/status").status, 200);
    kill(page.child.id().cast_signed(), Signal::TERM);
    assert_eq!(page.child.wait().unwrap().code(), Some(0));
}

#[test]
fn web_addresses_that_others_could_reach_are_refused() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let told = place.forge_search(&["serve", "--http", address]);
        assert_eq!(told.status.code(), Some(2), "{address}");
        let said = text(&told.stderr);
        assert!(said.contains("127.0.0.1 or [::1]"), "{said}");
        assert_eq!(text(&told.stdout), "");
    }
    let told = place.forge_search(&["serve", "--http", "127.0.0.1:0", "--detach"]);
    assert_eq!(told.status.code(), Some(2));
    let page = Page::serve(&place);
    let told = place.forge_search(&["serve", "--http", &page.host]);
    assert_eq!(told.status.code(), Some(2));
    let said = text(&told.stderr);
    assert!(said.contains("in use"), "{said}");
}

#[test]
fn web_a_browser_shows_what_is_found() {
    let Some(driver) = std::env::var_os("FORGE_SEARCH_TEST_CHROMEDRIVER") else {
        let why = "FORGE_SEARCH_TEST_CHROMEDRIVER names no driver of a browser";
        return crate::skipped::skipped(why);
    };
    let place = Place::new();
    for n in 0..300 {
        place.write(&format!("many/{n:03}.txt"), "one of many\n");
    }
    let page = Page::with(&place, &["--set", "index_mode=on"]);
    let shots = std::env::var_os("FORGE_SEARCH_TEST_SCREENSHOTS")
        .unwrap_or_else(|| place.dir().join("shots").into());
    std::fs::create_dir_all(&shots).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/browser.py");
    // The browser gets an own home directory.
    let told = Command::new("python3")
        .arg(script)
        .arg(&driver)
        .arg(page.url())
        .arg(place.root())
        .arg(&shots)
        .env("HOME", place.dir())
        .output()
        .unwrap();
    let (out, err) = (text(&told.stdout), text(&told.stderr));
    assert!(told.status.success(), "{out}{err}");
    assert!(out.ends_with("all is as it should be\n"), "{out}{err}");
}
