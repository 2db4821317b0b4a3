//! Claims about any request, as JSON or decoded from bytes: it is refused with a reason, or gets a
//! response. The response is complete, ordered, within its limits, and independent of the number of
//! threads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use forge_search::internal::format::sort_key::sort_key;
use forge_search::internal::tool::config::Config;
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::error::ToolError;
use forge_search::internal::tool::request::{Case, SearchRequest};
use forge_search::internal::tool::response::{Record, SearchResponse};
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use forge_search::internal::tool::search_files::{FilesRequest, FilesResponse, FilesTool};

/// The default number of events.
const MAX_RESULTS: u64 = 50;

/// Parses, executes and checks the request in `data`: JSON if it starts with a brace, else the
/// bytes of [`decode`].
pub(crate) fn run(data: &[u8]) {
    let request = if data.first() == Some(&b'{') {
        let Ok(text) = std::str::from_utf8(data) else {
            return;
        };
        if let Ok(request) = FilesRequest::from_json(text) {
            return execute_files(&request, data.len());
        }
        match SearchRequest::from_json(text) {
            Ok(request) => request,
            Err(error) => return check_error(&error),
        }
    } else {
        decode(data)
    };
    execute(request, usize::from(data.last().copied().unwrap_or(0)));
}

/// Runs a `search_files` request. Checks that one thread gives the same response, and that a
/// response with a byte budget fits.
fn execute_files(request: &FilesRequest, choice: usize) {
    let search = |threads: usize, budget: Option<usize>| {
        let mut config = Config::library_default();
        config.search.threads = threads;
        config.search_files.enabled = true;
        config.search_files.default_timeout_ms = 5_000;
        let sandbox = Sandbox::new(&config.sandbox, tree()).expect("the tree can be opened");
        let mut context = ToolContext::new(Arc::new(sandbox));
        context.max_output_bytes = budget;
        let mut answer = FilesTool::new(&config, Engines::embedded()).search(request, &context)?;
        answer.stats.elapsed_ms = 0;
        Ok::<FilesResponse, ToolError>(answer)
    };
    let whole = match search(3, None) {
        Ok(whole) => whole,
        Err(error) => return check_error(&error),
    };
    assert_eq!(whole.returned, whole.matches.len());
    assert!(whole.returned <= whole.max_results);
    if let Ok(one) = search(1, None) {
        assert_eq!(one.to_json(), whole.to_json(), "threads change the answer");
    }
    let budget = 400 + choice * 7;
    if let Ok(cut) = search(1, Some(budget)) {
        assert!(
            cut.to_json().len() <= budget,
            "the budget is {budget} bytes"
        );
        assert_eq!(cut.matches, whole.matches[..cut.returned]);
    }
}

/// Reads eight bytes of options, then the pattern, the include glob, the exclude glob and the path,
/// separated by NUL bytes.
fn decode(data: &[u8]) -> SearchRequest {
    let (options, texts) = data.split_at(data.len().min(8));
    let option = |n: usize| options.get(n).copied().unwrap_or(0);
    let flag = |n: u8| option(0) & (1 << n) != 0;
    let mut texts = texts
        .split(|byte| *byte == 0)
        .map(|text| String::from_utf8_lossy(text).into_owned());
    let mut request = SearchRequest::new(texts.next().unwrap_or_default());
    request.fixed_strings = flag(0);
    request.word_regexp = flag(1);
    request.hidden = flag(2);
    request.follow = flag(3);
    request.no_ignore = flag(4);
    request.recursive = !flag(5);
    request.case = match option(0) >> 6 {
        0 | 1 => Case::Smart,
        2 => Case::Sensitive,
        _ => Case::Insensitive,
    };
    // Small limits are the interesting ones; 255 stands for the largest number.
    let limit = |n: usize| match option(n) {
        0 => None,
        255 => Some(u64::MAX),
        small => Some(u64::from(small)),
    };
    request.context = limit(1).unwrap_or(0);
    request.max_results = limit(2);
    request.max_matches_per_file = limit(3);
    request.max_files = limit(4);
    request.max_file_size_bytes = limit(5);
    request.fuzzy = limit(6).filter(|level| *level < 8);
    let glob = |text: Option<String>| text.filter(|text| !text.is_empty()).map(|text| vec![text]);
    request.include_glob = glob(texts.next());
    request.exclude_glob = glob(texts.next());
    request.path = texts.next().filter(|path| !path.is_empty());
    request
}

/// Runs a request and checks the response. `choice` selects one comparison, because each costs a
/// search.
fn execute(mut request: SearchRequest, choice: usize) {
    // The fuzzer reports slow inputs as failures, so the timeout is short. Responses that timed out
    // may differ and are not compared.
    request.timeout_ms = Some(5_000);
    let root = tree();
    let search = |threads: usize, budget: Option<usize>| {
        let mut config = Config::library_default();
        config.search.enabled = true;
        config.search.default_max_results = MAX_RESULTS;
        config.search.threads = threads;
        let sandbox = Sandbox::new(&config.sandbox, root).expect("the tree can be opened");
        let mut context = ToolContext::new(Arc::new(sandbox));
        context.max_output_bytes = budget;
        SearchTool::new(config.search, Engines::embedded()).search(&request, &context)
    };
    let answer = search(3, None);
    match &answer {
        Ok(response) => check_response(&request, response),
        Err(error) => check_error(error),
    }
    if choice.is_multiple_of(2) {
        match (&answer, &search(1, None)) {
            (Ok(a), Ok(b)) if a.timed_out || b.timed_out => {}
            (Ok(a), Ok(b)) => assert_eq!(a.to_json(), b.to_json(), "threads change the answer"),
            (a, b) => assert_eq!(a.is_ok(), b.is_ok(), "threads change the outcome"),
        }
        return;
    }
    let budget = choice * 16;
    if let Ok(full) = &answer
        && let Ok(cut) = search(1, Some(budget))
    {
        check_response(&request, &cut);
        assert!(
            cut.to_json().len() <= budget,
            "the budget is {budget} bytes"
        );
        if !full.timed_out && !cut.timed_out {
            assert_eq!(
                cut.matches,
                full.matches[..cut.count],
                "the budget leaves a prefix"
            );
        }
    }
}

fn check_error(error: &ToolError) {
    assert!(!error.message().is_empty());
    assert!(error.to_json()["error"]["code"].is_string());
    let expected = [
        "bad_args",
        "execution_failed",
        "path_outside_sandbox",
        "denied_pattern_matched",
        "limits_exceeded",
    ];
    assert!(expected.contains(&error.code()), "{error:?}");
}

fn check_response(request: &SearchRequest, response: &SearchResponse) {
    let json: serde_json::Value =
        serde_json::from_str(&response.to_json()).expect("a response is valid JSON");
    assert_eq!(json["count"], response.matches.len());
    assert_eq!(response.count, response.matches.len());
    assert_eq!(response.pattern, request.pattern);
    let max_results = request.max_results.unwrap_or(MAX_RESULTS);
    assert!(response.count as u64 <= max_results);
    let max_files = request.max_files.unwrap_or(u64::MAX);
    assert!(response.files_scanned <= max_files);
    response.matches.iter().for_each(check_record);
    for pair in response.matches.windows(2) {
        check_order(&pair[0], &pair[1]);
    }
    // The content has a line for each event, then notes.
    let (lines, count) = (response.content.lines(), response.count);
    assert!(lines.clone().count() >= count, "{}", response.content);
    let mut notes = lines.skip(count);
    assert!(
        notes.all(|note| note.starts_with('[')),
        "{}",
        response.content
    );
    assert_eq!(response.stderr, None, "the engine failed");
}

fn check_record(record: &Record) {
    let data = &record.data;
    assert!(data.line_number >= 1 && !data.lines.text.contains('\n'));
    let (Some(column), Some(found)) = (data.column, &data.match_text) else {
        return;
    };
    let at = column as usize - 1;
    assert!(at <= data.lines.text.len());
    if !data.lines.text.contains('\u{FFFD}') {
        let there = data.lines.text.get(at..at + found.len());
        assert_eq!(
            there,
            Some(found.as_str()),
            "the match is not at its column"
        );
    }
}

fn check_order(a: &Record, b: &Record) {
    let key = |record: &Record| sort_key(Path::new(&record.data.path.text)).into_owned();
    let order = key(a).cmp(&key(b));
    assert!(!order.is_gt(), "{a:?} before {b:?}");
    // Different names with invalid bytes may look alike.
    if a.data.path == b.data.path && !a.data.path.text.contains('\u{FFFD}') {
        assert!(
            a.data.line_number < b.data.line_number,
            "{a:?} before {b:?}"
        );
    }
}

/// Returns a small tree that never changes. It is created once on each machine.
fn tree() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| {
        let top = std::env::temp_dir();
        let place = top.join("forge-search-fuzz-tree-2");
        if !place.is_dir() {
            let draft = top.join(format!("forge-search-fuzz-tree-2-{}", std::process::id()));
            plant(&draft);
            // Another process may have created the tree first. It is the same tree.
            if fs::rename(&draft, &place).is_err() {
                fs::remove_dir_all(&draft).expect("the draft is ours");
            }
        }
        place
    })
}

fn plant(root: &Path) {
    let file = |name: &str, content: &[u8]| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("it is below the root")).expect("a directory");
        fs::write(path, content).expect("a file");
    };
    file("a.txt", b"alpha\nbeta Alpha\n\ngamma 123\n");
    file("a/b.rs", b"fn main() {\n    let foo = \"bar\";\n}\n");
    file("a/crlf.txt", b"foo\r\nbar\r\r\n\r\nfoo bar\r");
    file("a-b", "\u{212A}kK sS\u{17F} éÉ e\u{301}\n".as_bytes());
    file("bin", b"foo\0bar\n");
    file("e\u{301}/x", b"foo\n");
    file("\u{e9}/x", b"foo\nfoo\n");
    file("empty", b"");
    file("invalid", b"a\xFFfoo\xC3(\n\xE2\x82\n");
    file(
        "long",
        &[b"abcdefgh ".repeat(1_000), b"\nfoo\n".to_vec()].concat(),
    );
    file(
        "late",
        &[b"foo\n".repeat(16_500), b"\0foo\n".to_vec()].concat(),
    );
    file("utf16", b"\xFF\xFEf\0o\0o\0\r\0\n\0\x3D\xD8\0\xDE");
    file(".hidden/y", b"foo\n");
    file(".ignore", b"*.log\n!keep.log\nout/\n");
    file("x.log", b"foo\n");
    file("keep.log", b"foo\n");
    file("out/z", b"foo\n");
    file("secret.pem", b"foo\n");
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let raw = root.join(std::ffi::OsStr::from_bytes(b"n\xFF\n"));
        fs::write(raw, b"foo\n").expect("a file");
        for (name, target) in [
            ("up", "."),
            ("gone", "nowhere"),
            ("etc", "/etc"),
            ("dir", "a"),
        ] {
            std::os::unix::fs::symlink(target, root.join(name)).expect("a link");
        }
    }
}
