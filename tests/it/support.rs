//! Shared helpers of the tests: trees in temporary directories, tools, requests and checks.
//!
//! Only this file constructs configurations, sandboxes, engines and tools. A change of their
//! constructors is therefore a change in one place.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use forge_search::internal::exec::engine::Engine;
use forge_search::internal::exec::external::detect::Tool;
use forge_search::internal::exec::external::ripgrep::Ripgrep;
use forge_search::internal::exec::external::ugrep::Ugrep;
use forge_search::internal::format::sort_key::cmp_paths;
use forge_search::internal::tool::config::{Config, SandboxConfig, SearchConfig};
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::error::ToolError;
use forge_search::internal::tool::indexing::{CachePlaces, Indexes};
use forge_search::internal::tool::request::SearchRequest;
use forge_search::internal::tool::response::{Record, SearchResponse};
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use serde_json::Value;

use crate::index_support::Kept;
use crate::peers::peers;
use crate::system::{fifo, name_of, set_mode, symlink};

/// Guards against hangs: the longest time that a test waits for a state. It is the only upper bound
/// on real time in this suite. A test that passes never waits this long.
pub(crate) const GUARD: Duration = Duration::from_secs(300);

/// Returns true if the long tests run: with `FORGE_SEARCH_TEST_SEEDS=all`.
pub(crate) fn is_long() -> bool {
    match std::env::var("FORGE_SEARCH_TEST_SEEDS").as_deref() {
        Ok("all") => true,
        Ok(other) => panic!("FORGE_SEARCH_TEST_SEEDS={other}: only `all` is known"),
        Err(_) => false,
    }
}

/// The step through the cases of a test: 1 in the long tests, else 12, for every twelfth case.
pub(crate) fn step() -> usize {
    if is_long() { 1 } else { 12 }
}

/// Returns true if the `nth` case runs: always in the long tests, else for one case in `one_in`.
pub(crate) fn is_turn(nth: usize, one_in: usize) -> bool {
    is_long() || nth.is_multiple_of(one_in)
}

/// The number of seeds of a test with generated cases: all in the long tests, else a twelfth.
pub(crate) fn seeds(all: u64) -> u64 {
    all.div_ceil(step() as u64)
}

/// Copies a program to a path from which any user can start it.
///
/// `cp` writes the copy, not this process. The system refuses to run a program while a process has
/// it open for writing. Children that other tests start meanwhile would inherit this process' open
/// file.
pub(crate) fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to).status();
    assert!(copied.unwrap().success());
    set_mode(to, 0o755).unwrap();
}

/// Writes a shell script that can be run at once. `cp` writes it, as in [`copy_program`].
pub(crate) fn write_script(path: &Path, script: &str) {
    let text = tempfile::NamedTempFile::new().unwrap();
    fs::write(text.path(), format!("#!/bin/sh\n{script}\n")).unwrap();
    copy_program(text.path(), path);
}

/// Prepares a git command for a tree. It ignores the settings of the user and of the system.
pub(crate) fn git_in(top: &Path, args: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(top).args(args);
    for name in [
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_WORK_TREE",
        "XDG_CONFIG_HOME",
    ] {
        git.env_remove(name);
    }
    git.env("HOME", top.join(".git"));
    git.env("GIT_CONFIG_NOSYSTEM", "1").stdin(Stdio::null());
    git
}

/// Runs git in a tree, without the settings of the user and of the system, and returns its output.
pub(crate) fn git(top: &Path, args: &[&str]) -> std::io::Result<Vec<u8>> {
    let output = git_in(top, args).output()?;
    assert!(output.status.success(), "{output:?}");
    Ok(output.stdout)
}

/// The engines that every case runs on: the embedded one and each peer that is installed.
pub(crate) fn engines() -> Vec<(&'static str, Engines)> {
    let mut all = vec![("embedded", Engines::embedded())];
    let alone = |engine: Arc<dyn Engine>| Engines::new(vec![engine], String::new());
    for detected in peers(Tool::Ripgrep) {
        all.push(("rg", alone(Arc::new(Ripgrep::new(detected)))));
    }
    for detected in peers(Tool::Ugrep) {
        all.push(("ugrep", alone(Arc::new(Ugrep::new(detected)))));
    }
    all
}

/// The library's default configuration, with the tool enabled.
pub(crate) fn config() -> SearchConfig {
    let mut config = Config::library_default().search;
    config.enabled = true;
    config
}

/// A configuration with caps so high that no test reaches them.
pub(crate) fn generous() -> SearchConfig {
    let mut config = config();
    config.default_max_results = 10_000_000;
    config.max_matches_per_file = 10_000_000;
    config.max_files = 10_000_000;
    config.max_file_size_bytes = 1 << 40;
    config.default_timeout_ms = 600_000;
    config
}

/// A directory to search. It is removed when it is dropped.
pub(crate) struct Tree {
    /// `None` for the tree of another process, which removes the directory itself.
    _dir: Option<tempfile::TempDir>,
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        Tree::new_in(&std::env::temp_dir())
    }

    /// Makes a tree inside the directory `place`, and thus on the filesystem of `place`.
    pub(crate) fn new_in(place: &Path) -> Tree {
        let dir = tempfile::Builder::new()
            .prefix("forge-search-test-")
            .tempdir_in(place)
            .unwrap();
        let root = dir.path().canonicalize().unwrap().join("tree");
        fs::create_dir(&root).unwrap();
        let _dir = Some(dir);
        Tree { _dir, root }
    }

    /// Wraps a tree that another process has made.
    pub(crate) fn existing(root: &Path) -> Tree {
        let root = root.to_path_buf();
        Tree { _dir: None, root }
    }

    /// Builds a tree of files from pairs of a name (escaped as for [`unescape`]) and a content.
    pub(crate) fn of<N: AsRef<str>, B: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (N, B)>,
    ) -> Tree {
        let tree = Tree::new();
        for (name, content) in files {
            tree.file(name.as_ref(), content);
        }
        tree
    }

    /// The canonical path of the tree's root.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The absolute path of an entry. `name` is escaped as for [`unescape`].
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name_of(unescape(name)))
    }

    fn place(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Tree {
        fs::write(self.place(name), content).unwrap();
        self
    }

    pub(crate) fn dir(&self, name: &str) -> &Tree {
        fs::create_dir_all(self.path(name)).unwrap();
        self
    }

    /// Makes a symbolic link. `{root}` in the target stands for the root of the tree.
    pub(crate) fn link(&self, name: &str, target: &str) -> &Tree {
        let target = target.replace("{root}", self.root.to_str().unwrap());
        symlink(name_of(unescape(&target)), self.place(name)).unwrap();
        self
    }

    pub(crate) fn hard_link(&self, name: &str, to: &str) -> &Tree {
        fs::hard_link(self.path(to), self.place(name)).unwrap();
        self
    }

    pub(crate) fn fifo(&self, name: &str) -> &Tree {
        fifo(&self.place(name)).unwrap();
        self
    }

    pub(crate) fn mode(&self, name: &str, mode: u32) -> &Tree {
        set_mode(self.path(name), mode).unwrap();
        self
    }

    /// Returns a setup over this tree with the embedded engine, which every machine has.
    pub(crate) fn setup(&self) -> Setup {
        Setup::new(&self.root)
    }

    /// Answers a request given as JSON, with the default setup.
    pub(crate) fn search(&self, request: Value) -> SearchResponse {
        self.setup().search(request)
    }
}

/// Decodes `\xFF` to a byte, and `\n`, `\r` and `\\` as usual. All other characters stay as they
/// are.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'\\' {
            out.push(first);
            continue;
        }
        let (&kind, tail) = rest.split_first().expect("an escape at the end of a name");
        rest = tail;
        match kind {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b'\\' => out.push(b'\\'),
            b'x' => {
                let digits = std::str::from_utf8(&rest[..2]).unwrap();
                out.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &rest[2..];
            }
            other => panic!("unknown escape \\{}", char::from(other)),
        }
    }
    out
}

/// Edits a file and restores its modification time afterwards.
pub(crate) fn keeping_time(path: &Path, edit: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let before = fs::metadata(path)?.modified()?;
    edit()?;
    File::options()
        .write(true)
        .open(path)?
        .set_modified(before)?;
    assert_eq!(fs::metadata(path)?.modified()?, before);
    Ok(())
}

/// Everything that a call depends on, except for the request.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) engines: Engines,
    pub(crate) config: SearchConfig,
    pub(crate) sandbox: SandboxConfig,
    pub(crate) working_dir: PathBuf,
    pub(crate) global_excludes: Option<PathBuf>,
    pub(crate) max_output_bytes: Option<usize>,
    pub(crate) available_capacity_bytes: Option<usize>,
    /// The indexes that the tool may use.
    pub(crate) kept: Option<Kept>,
}

impl Setup {
    pub(crate) fn new(working_dir: &Path) -> Setup {
        Setup {
            engines: Engines::embedded(),
            config: config(),
            sandbox: Config::library_default().sandbox,
            working_dir: working_dir.to_path_buf(),
            global_excludes: None,
            max_output_bytes: None,
            available_capacity_bytes: None,
            kept: None,
        }
    }

    pub(crate) fn config(mut self, change: impl FnOnce(&mut SearchConfig)) -> Setup {
        change(&mut self.config);
        self
    }

    pub(crate) fn generous(mut self) -> Setup {
        self.config = generous();
        self
    }

    pub(crate) fn threads(self, threads: usize) -> Setup {
        self.config(|config| config.threads = threads)
    }

    pub(crate) fn sandbox(mut self, change: impl FnOnce(&mut SandboxConfig)) -> Setup {
        change(&mut self.sandbox);
        self
    }

    pub(crate) fn tool(&self) -> SearchTool {
        let indexes = self.kept.as_ref().map(|kept| kept.indexes.clone());
        SearchTool::new(self.config.clone(), self.engines.clone()).with_indexes(indexes)
    }

    /// Returns a tool with the indexes that the configuration asks for, and the context of its
    /// calls, as a new process would have them. Without an `index_path` there is no directory for
    /// indexes.
    pub(crate) fn indexing_tool(&self) -> (SearchTool, ToolContext) {
        let context = self.context();
        let indexes = Indexes::new(
            &self.config,
            &self.engines,
            &context.sandbox,
            self.global_excludes.as_deref(),
            &CachePlaces::default(),
        );
        (self.tool().with_indexes(indexes.map(Arc::new)), context)
    }

    pub(crate) fn context(&self) -> ToolContext {
        let sandbox = Sandbox::new(&self.sandbox, &self.working_dir).unwrap();
        let mut context = ToolContext::new(Arc::new(sandbox));
        context.global_excludes = self.global_excludes.clone();
        context.max_output_bytes = self.max_output_bytes;
        context.available_capacity_bytes = self.available_capacity_bytes;
        context
    }

    /// Answers a request and returns the response or the error. Every response is checked with
    /// [`check_response`].
    pub(crate) fn call(&self, request: Value) -> Result<SearchResponse, ToolError> {
        let parsed = SearchRequest::from_value(request)?;
        self.run(&parsed)
    }

    /// Does the same as [`Setup::call`] for a parsed request.
    pub(crate) fn run(&self, request: &SearchRequest) -> Result<SearchResponse, ToolError> {
        let response = self.tool().search(request, &self.context())?;
        check_response(request, &response);
        Ok(response)
    }

    #[track_caller]
    pub(crate) fn search(&self, request: Value) -> SearchResponse {
        match self.call(request.clone()) {
            Ok(response) => response,
            Err(error) => panic!("{request}: {}", error.to_json()),
        }
    }

    #[track_caller]
    pub(crate) fn refused(&self, request: Value) -> ToolError {
        match self.call(request.clone()) {
            Ok(response) => panic!("{request} was answered: {}", response.to_json()),
            Err(error) => error,
        }
    }
}

/// Checks the invariants that hold for every response to `request`.
#[track_caller]
pub(crate) fn check_response(request: &SearchRequest, response: &SearchResponse) {
    let json: Value = serde_json::from_str(&response.to_json()).expect("a response is valid JSON");
    assert_eq!(json, response.to_value(), "both ways of serialising agree");
    let fields = json.as_object().unwrap();
    for field in [
        "pattern",
        "path",
        "count",
        "matches",
        "truncated",
        "timed_out",
        "files_scanned",
        "errors",
        "content",
    ] {
        assert!(fields.contains_key(field), "`{field}` is missing");
    }
    assert_eq!(response.count, response.matches.len(), "count");
    assert_eq!(response.pattern, request.pattern, "the pattern is echoed");
    if let Some(max) = request.max_results {
        assert!(response.count as u64 <= max, "more than max_results events");
    }
    for record in &response.matches {
        check_record(record);
    }
    for pair in response.matches.windows(2) {
        check_order(&pair[0], &pair[1]);
    }
    let lines = response.content.lines().count();
    let notes = response
        .content
        .lines()
        .rev()
        .take_while(|line| line.starts_with('[') && line.ends_with(']'))
        .count();
    assert!(lines >= response.count, "content shows every event");
    if response.truncated || response.timed_out {
        assert!(notes > 0, "a cut answer says so: {}", response.content);
    } else {
        // Only a search for a literal announces matches of fuzzy fallback.
        let may_be_near = request.fixed_strings && request.fuzzy.is_none();
        let notes = response.content.lines().skip(response.count);
        let is_said = |note: &str| {
            note.contains(" longer than ")
                || note.contains(" larger than max_file_size_bytes")
                || note.starts_with("[no file was searched")
                || note.starts_with("[the glob `")
                || may_be_near && note.starts_with("[no line contains the exact text")
        };
        let notes = notes.filter(|note| is_said(note)).count();
        assert_eq!(
            lines - notes,
            response.count,
            "content shows nothing but events"
        );
    }
}

fn check_record(record: &Record) {
    let data = &record.data;
    assert!(data.line_number >= 1);
    assert!(!data.path.text.is_empty());
    assert!(!data.lines.text.contains('\n'), "no line feeds in a line");
    match (&data.column, &data.match_text) {
        (Some(column), Some(text)) => {
            assert!(record.is_match());
            assert!(*column >= 1);
            // The column of a cut line counts from the start of the whole line.
            let before = record.left_out.map_or(0, |left_out| left_out.before);
            // Replacement characters can make the shown line longer than the line in the file,
            // never shorter.
            assert!(
                *column as usize <= before + data.lines.text.len() + 1,
                "{data:?}"
            );
            if !data.lines.text.contains('\u{FFFD}') {
                let at = *column as usize - 1 - before;
                assert_eq!(
                    data.lines.text.get(at..at + text.len()),
                    Some(text.as_str()),
                    "the match stands at its column: {data:?}"
                );
            }
        }
        (None, None) => assert!(!record.is_match()),
        _ => panic!("column and match_text go together: {data:?}"),
    }
}

fn check_order(a: &Record, b: &Record) {
    let (x, y) = (&a.data, &b.data);
    // Names that differ only in invalid bytes have the same shown path, and thus equal keys.
    let key = |path: &str| {
        forge_search::internal::format::sort_key::sort_key(Path::new(path)).into_owned()
    };
    let paths = key(&x.path.text).cmp(&key(&y.path.text));
    assert!(!paths.is_gt(), "{x:?} before {y:?}");
    if x.path.text == y.path.text && !x.path.text.contains('\u{FFFD}') {
        assert!(cmp_paths(Path::new(&x.path.text), Path::new(&y.path.text)).is_eq());
        assert!(x.line_number < y.line_number, "{x:?} before {y:?}");
    }
}

/// Formats an event as one line: `path:line:column:match|text` for a match, `path-line-text` for
/// context.
pub(crate) fn compact(record: &Record) -> String {
    let data = &record.data;
    let (path, line, text) = (&data.path.text, data.line_number, &data.lines.text);
    match (&data.column, &data.match_text) {
        (Some(column), Some(found)) => format!("{path}:{line}:{column}:{found}|{text}"),
        _ => format!("{path}-{line}-{text}"),
    }
}

/// The events of a response, one line each, as from [`compact`].
pub(crate) fn events(response: &SearchResponse) -> Vec<String> {
    response.matches.iter().map(compact).collect()
}

/// The paths with matches, in order and without repetitions.
pub(crate) fn paths(response: &SearchResponse) -> Vec<String> {
    let mut paths: Vec<String> = response
        .matches
        .iter()
        .map(|record| record.data.path.text.clone())
        .collect();
    paths.dedup();
    paths
}

/// The response as JSON. Responses with `stats` are refused, because their times differ between
/// runs.
pub(crate) fn stable_json(response: &SearchResponse) -> String {
    assert!(response.stats.is_none(), "stats hold wall-clock times");
    response.to_json()
}

/// Makes a terminal. Returns the end that reads the shown text, and the end that programs are
/// given.
#[cfg(unix)]
pub(crate) fn terminal() -> (std::fs::File, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = std::fs::File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    (std::fs::File::from(master), slave)
}

/// Sets a flag when a block ends, even by a panic. Threads that run until the flag is set would
/// otherwise keep a failed test from ending.
pub(crate) struct SetAtEnd<'a>(pub(crate) &'a std::sync::atomic::AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}
