//! The tool `search_files`. Runs `tests/data/files/*.toml` on every engine, with and without an
//! index. Each file is a topic, and each entry is a claim. The submodules test behaviour that needs
//! more than one request and its answer.
//!
//! Trees are written as in `cases`. Expected matches are lines in the form of [`compact`], in which
//! `⟦x*1000⟧` is `x` a thousand times.

mod git;
mod live_index;
mod oracle;
mod output;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_search::internal::format::sort_key::cmp_paths;
use forge_search::internal::tool::config::{
    Config, IndexMode, Loader, Origin, Profile, RegexStrategy,
};
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::error::ToolError;
use forge_search::internal::tool::indexing::{CachePlaces, Indexes};
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::ToolContext;
use forge_search::internal::tool::search_files::{
    FilesMatch, FilesRequest, FilesResponse, FilesTool, IndexStats,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cases::{
    ExpectError, Node, TreeRef, build, check_entries, check_error, in_root, is_impossible,
    is_requirement, json_of, message_of, unfold,
};
use crate::clocks::FakeClock;
use crate::index_support::{Host, LIVE, VARIANTS, Variant, agreeing};
use crate::support::{Tree, engines};

/// Everything besides the request that a call of `search_files` depends on.
#[derive(Clone)]
pub(crate) struct Files {
    engines: Engines,
    config: Config,
    root: PathBuf,
    max_output_bytes: Option<usize>,
    available_capacity_bytes: Option<usize>,
    indexes: Option<Arc<Indexes>>,
    /// The clock of calls, if it is not the system's.
    clock: Option<FakeClock>,
    /// The directory is removed with the last clone.
    place: Arc<tempfile::TempDir>,
}

impl Files {
    pub(crate) fn new(root: &Path) -> Files {
        let mut config = Config::library_default();
        config.search_files.enabled = true;
        Files {
            engines: Engines::embedded(),
            config,
            root: root.to_path_buf(),
            max_output_bytes: None,
            available_capacity_bytes: None,
            indexes: None,
            clock: None,
            place: Arc::new(tempfile::tempdir().unwrap()),
        }
    }

    fn config(mut self, change: impl FnOnce(&mut Config)) -> Files {
        change(&mut self.config);
        self
    }

    fn context(&self) -> ToolContext {
        let sandbox = Sandbox::new(&self.config.sandbox, &self.root).unwrap();
        let mut context = ToolContext::new(Arc::new(sandbox));
        context.max_output_bytes = self.max_output_bytes;
        context.available_capacity_bytes = self.available_capacity_bytes;
        if let Some(clock) = &self.clock {
            context.clock = Arc::new(clock.clone());
        }
        context
    }

    /// Uses a clock that stands still, so that `elapsed_ms` always has one digit.
    fn timeless(mut self) -> Files {
        self.clock = Some(FakeClock::new());
        self
    }

    /// Sets up indexes, but does not build them.
    fn with_indexes(self, variant: Variant) -> Files {
        let mut files = self.config(|config| {
            config.search.index_frozen = variant.frozen;
            config.search.index_regex_strategy = variant.strategy;
            let files = &mut config.search_files;
            if files.index_mode == IndexMode::Off {
                files.index_mode = IndexMode::On;
            }
            files.index_storage = variant.storage;
            files.emit_stats = true;
        });
        files.config.search_files.index_path = Some(files.place.path().join("store"));
        let sandbox = files.context().sandbox;
        let places = CachePlaces::default();
        // One of the two strategies shares its index with `Search`, so that half of the comparisons
        // test a shared index.
        let shared = (variant.strategy == RegexStrategy::RequiredLiteral).then(|| {
            let search = FilesTool::search_config(&files.config);
            let engines = [&files.engines, &files.engines];
            Indexes::of_both_tools(&agreeing(&search), engines, &sandbox, None, &places)
        });
        let own = || FilesTool::indexes_for(&files.config, &files.engines, &sandbox, &places);
        let indexes = shared.flatten().or_else(own);
        files.indexes = Some(Arc::new(indexes.unwrap()));
        files
    }

    /// Sets up indexes and builds them. The tree must not change afterwards.
    fn indexed(self, variant: Variant) -> Files {
        let files = self.with_indexes(variant);
        let sandbox = files.context().sandbox;
        for root in files.indexes().roots() {
            let built = files.indexes().build(root, sandbox.reach(), &Host::hasty());
            built.unwrap();
        }
        files
    }

    fn indexes(&self) -> &Arc<Indexes> {
        self.indexes.as_ref().expect("indexes")
    }

    fn without_indexes(&self) -> Files {
        let mut plain = self.clone();
        plain.indexes = None;
        plain.config(|config| config.search_files.index_mode = IndexMode::Off)
    }

    fn tool(&self) -> FilesTool {
        FilesTool::new(&self.config, self.engines.clone()).with_indexes(self.indexes.clone())
    }

    /// Answers a request. A response has passed [`check_response`].
    fn call(&self, request: &Value) -> Result<FilesResponse, ToolError> {
        let request = FilesRequest::from_value(request.clone())?;
        let response = self.tool().search(&request, &self.context())?;
        check_response(&request, &response);
        Ok(response)
    }

    #[track_caller]
    fn search(&self, request: Value) -> FilesResponse {
        match self.call(&request) {
            Ok(response) => response,
            Err(error) => panic!("{request}: {}", error.to_json()),
        }
    }

    /// Answers a request, and checks that the answer equals the one without an index. Returns the
    /// answer and the index's statistics.
    #[track_caller]
    fn ask(&self, request: Value) -> (FilesResponse, IndexStats) {
        let plain = self.without_indexes().search(request.clone());
        let found = self.search(request.clone());
        let index = found.stats.index.clone().expect("stats");
        assert_eq!(comparable(&found), comparable(&plain), "{request}");
        (found, index)
    }
}

/// Formats a response as JSON, without the fields that may differ between two runs.
fn comparable(response: &FilesResponse) -> String {
    let mut response = response.clone();
    response.stats.elapsed_ms = 0;
    response.stats.index = None;
    response.to_json()
}

/// Checks the properties that every response has.
#[track_caller]
fn check_response(request: &FilesRequest, response: &FilesResponse) {
    let json: Value = serde_json::from_str(&response.to_json()).expect("a response is valid JSON");
    let fields: Vec<&str> = json
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let mut expected = vec![
        "path",
        "query",
        "mode",
        "case",
        "matches",
        "returned",
        "max_results",
        "truncated",
        "truncated_reason",
        "stats",
        "errors",
    ];
    let mut sorted = fields.clone();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    for field in [
        "files_scanned",
        "files_matched",
        "matches_total",
        "elapsed_ms",
    ] {
        assert!(json["stats"][field].is_u64(), "{field}");
    }
    assert_eq!(response.returned, response.matches.len());
    assert!(response.returned <= response.max_results);
    assert!(response.matches.len() as u64 <= response.stats.matches_total);
    assert_eq!(response.truncated, response.truncated_reason.is_some());
    assert_eq!(response.query, request.query);
    let fuzzy = json["mode"] == "fuzzy";
    for one in &response.matches {
        assert!(one.line >= 1 && one.column >= 1);
        assert_eq!(one.score.is_some(), fuzzy);
        assert!(one.score.is_none_or(|score| (0.0..=1.0).contains(&score)));
        let around = request.context_lines as usize;
        assert!(one.before.len() <= around && one.after.len() <= around);
        if response.stats.lines_shortened.is_none() {
            let start = one.column as usize - 1;
            let shown = one.line_text.get(start..start + one.match_text.len());
            assert_eq!(shown, Some(one.match_text.as_str()), "{one:?}");
        }
    }
    for pair in response.matches.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        let paths = cmp_paths(Path::new(&a.path), Path::new(&b.path));
        let order = paths.then((a.line, a.column).cmp(&(b.line, b.column)));
        assert!(
            order.is_lt() || a.path.contains('\u{FFFD}'),
            "{a:?} before {b:?}"
        );
    }
}

/// Formats a match as `path:line:column:match|line`. ` ~score` follows, then ` <` and ` >` with the
/// lines before and after the match, separated by `/`.
fn compact(one: &FilesMatch) -> String {
    let FilesMatch {
        path,
        line,
        column,
        match_text,
        line_text,
        ..
    } = one;
    let mut text = format!("{path}:{line}:{column}:{match_text}|{line_text}");
    if let Some(score) = one.score {
        text += &format!(" ~{score:?}");
    }
    for (sign, lines) in [('<', &one.before), ('>', &one.after)] {
        if !lines.is_empty() {
            text += &format!(" {sign}{}", lines.join("/"));
        }
    }
    text
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    #[serde(default)]
    trees: BTreeMap<String, BTreeMap<String, Node>>,
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    requirements: Vec<String>,
    tree: TreeRef,
    request: toml::Table,
    /// The table `[tools.search_files]`.
    #[serde(default)]
    config: toml::Table,
    /// The table `[tools.sandbox]`.
    #[serde(default)]
    sandbox: toml::Table,
    max_output_bytes: Option<usize>,
    available_capacity_bytes: Option<usize>,
    /// Engines that cannot answer the request, each with a part of its refusal.
    #[serde(default)]
    refused_on: BTreeMap<String, String>,
    expect: Expect,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Expect {
    Error(ExpectError),
    Answer(ExpectAnswer),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectAnswer {
    matches: Vec<String>,
    files_scanned: Option<u64>,
    files_matched: Option<u64>,
    matches_total: Option<u64>,
    truncated_reason: Option<String>,
    mode: Option<String>,
    case: Option<String>,
    path: Option<String>,
    max_results: Option<usize>,
    lines_shortened: Option<u64>,
    /// The number of fuzzy passes, where fallback was tried.
    passes: Option<u64>,
    /// The expected errors as `path|fragment of the message`, in order.
    #[serde(default)]
    errors: Vec<String>,
}

fn check_answer(expected: &ExpectAnswer, response: &FilesResponse, root: &Path) {
    let wanted: Vec<String> = expected.matches.iter().map(|line| unfold(line)).collect();
    let found: Vec<String> = response.matches.iter().map(compact).collect();
    assert_eq!(found, wanted, "matches");
    let json: Value = serde_json::from_str(&response.to_json()).unwrap();
    let reason = match &expected.truncated_reason {
        Some(reason) => json!(reason),
        None => Value::Null,
    };
    assert_eq!(json["truncated_reason"], reason);
    let stats = &json["stats"];
    let numbers = [
        ("files_scanned", expected.files_scanned),
        ("files_matched", expected.files_matched),
        ("matches_total", expected.matches_total),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            assert_eq!(stats[name], number, "{name}");
        }
    }
    if let Some(path) = &expected.path {
        assert_eq!(response.path, in_root(path, root));
    }
    for (name, word) in [("mode", &expected.mode), ("case", &expected.case)] {
        if let Some(word) = word {
            assert_eq!(json[name], *word, "{name}");
        }
    }
    if let Some(max) = expected.max_results {
        assert_eq!(response.max_results, max);
    }
    assert_eq!(response.stats.lines_shortened, expected.lines_shortened);
    let fallback = response.stats.fallback.as_ref();
    assert_eq!(fallback.map(|used| used.fuzzy_passes_used), expected.passes);
    check_entries(&expected.errors, &response.errors, root);
}

fn check_case(files: &Files, request: &Value, expected: &Expect, root: &Path) {
    match (expected, files.call(request)) {
        (Expect::Error(expected), Err(error)) => check_error(expected, &error, root),
        (Expect::Answer(expected), Ok(response)) => check_answer(expected, &response, root),
        (Expect::Error(_), Ok(response)) => {
            panic!("an error was expected, not {}", response.to_json())
        }
        (Expect::Answer(_), Err(error)) => panic!("refused: {}", error.to_json()),
    }
}

impl Case {
    /// Returns the library's default configuration with the keys that the case sets.
    fn config(&self, root: &Path) -> Config {
        let mut tables = toml::Table::new();
        let mut tools = toml::Table::new();
        tools.insert("search_files".into(), self.config.clone().into());
        tools.insert("sandbox".into(), self.sandbox.clone().into());
        tables.insert("tools".into(), tools.into());
        let text = in_root(&toml::to_string(&tables).unwrap(), root);
        let loader = Loader::new(Profile::Library).toml_str(text, Origin::Set);
        loader
            .set("tools.search_files.enabled=true")
            .build()
            .unwrap()
    }

    fn run(&self, file: &CaseFile, engines: &Engines, indexes: &[Variant], expected: &Expect) {
        let tree = Tree::new();
        build(&tree, self.tree.nodes(&file.trees));
        let request = json_of(&toml::Value::Table(self.request.clone()), tree.root());
        for (turn, threads) in [1, 4].into_iter().enumerate() {
            let mut files = Files::new(tree.root());
            files.config = self.config(tree.root());
            files.config.search.threads = threads;
            files.engines = engines.clone();
            files.max_output_bytes = self.max_output_bytes;
            files.available_capacity_bytes = self.available_capacity_bytes;
            // The matches that fit depend on the room that `stats` may take, so all runs emit them.
            files.config.search_files.emit_stats = true;
            check_case(&files, &request, expected, tree.root());
            // Each index is searched either by one thread or by several.
            for &variant in indexes.iter().skip(turn).step_by(2) {
                let indexed = files.clone().indexed(variant);
                check_case(&indexed, &request, expected, tree.root());
            }
        }
    }
}

fn cases_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/files")
}

fn load(topic: &str) -> CaseFile {
    let path = cases_dir().join(format!("{topic}.toml"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn run_topic(topic: &str) {
    let file = load(topic);
    let mut failures = Vec::new();
    let mut ran = 0;
    for case in &file.case {
        assert!(
            !case.requirements.is_empty() && case.requirements.iter().all(|id| is_requirement(id)),
            "{}: bad requirement ids {:?}",
            case.name,
            case.requirements
        );
        if is_impossible(&case.name, case.tree.nodes(&file.trees)) {
            continue;
        }
        for (engine, engines) in engines() {
            // An external engine does not see how an index is stored.
            let indexes = match engine {
                "embedded" => &VARIANTS[..],
                _ => &[LIVE],
            };
            ran += 1;
            let refusal = case.refused_on.get(engine).map(|message| {
                assert!(message.len() > 10, "{}: why", case.name);
                Expect::Error(ExpectError {
                    error: "bad_args".to_string(),
                    message: vec![message.clone()],
                })
            });
            let expected = refusal.as_ref().unwrap_or(&case.expect);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                case.run(&file, &engines, indexes, expected)
            }));
            if let Err(panic) = outcome {
                let message = message_of(panic.as_ref());
                failures.push(format!("{topic}: {} on {engine}: {message}", case.name));
            }
        }
    }
    println!("{topic}: {ran} cases");
    assert!(
        failures.is_empty(),
        "{} of {ran} failed:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

macro_rules! topics {
    ($($topic:ident),* $(,)?) => {
        const TOPICS: &[&str] = &[$(stringify!($topic)),*];
        $(
            #[test]
            fn $topic() {
                run_topic(stringify!($topic));
            }
        )*
    };
}

topics! {
    around,
    eligible,
    errors,
    fallback,
    limits,
    matching,
    similar,
    text,
}

#[test]
fn no_case_file_is_forgotten() {
    let found: BTreeSet<String> = fs::read_dir(cases_dir())
        .unwrap()
        .map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".toml").unwrap_or(&name).to_string()
        })
        .collect();
    let listed: BTreeSet<String> = TOPICS.iter().map(|topic| topic.to_string()).collect();
    assert_eq!(found, listed);
    // Case names are unique in the whole suite, so that documents can refer to them.
    let mut names: BTreeSet<String> = crate::cases::TOPICS
        .iter()
        .flat_map(|topic| crate::cases::load(topic).case)
        .map(|case| case.name)
        .collect();
    for case in TOPICS.iter().flat_map(|topic| load(topic).case) {
        assert!(
            names.insert(case.name.clone()),
            "{} stands twice",
            case.name
        );
    }
}
