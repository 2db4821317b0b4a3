//! Runs `tests/data/cases/*.toml` on every engine, with and without an index. Each file is a topic,
//! and each entry is a claim.
//!
//! A file holds `[trees.NAME]` tables, each a tree, and `[[case]]` entries. An entry has `name`,
//! `requirements`, `tree` (a name or its own table), `request` and `expect`. A tree maps a file
//! name, escaped as for `support::unescape`, to a text or to a table:
//!
//! - `{ text = "…", mode = 0o644 }`, `{ hex = "ff fe" }`, `{ repeat = "ab\n", bytes = 65536 }`,
//!   `{ parts = ["…", { hex = "00" }] }`: a file;
//! - `{ link = "target" }`, `{ fifo = true }`, `{ dir = true }`.
//!
//! An engine that cannot answer a request is listed in `refused_on` with a part of its refusal,
//! which the test checks. An engine that gives another answer is listed in `not_on` with the
//! reason. A case whose tree can't exist on this system is skipped.
//!
//! Expected events are lines in the form of `support::compact`, in which `⟦x*1000⟧` is `x` a
//! thousand times. In requests, link targets and expectations, `{root}` is the absolute path of the
//! tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::error::ToolError;
use forge_search::internal::tool::response::{ErrorEntry, SearchResponse};
use serde::Deserialize;
use serde_json::Value;

use crate::index_support::{LIVE, VARIANTS, Variant};
use crate::skipped::skipped;
use crate::support::{Setup, Tree, engines, events, is_long, unescape};
use crate::system::{has_links, shown_path, why_no_name};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseFile {
    #[serde(default)]
    trees: BTreeMap<String, BTreeMap<String, Node>>,
    pub(crate) case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Node {
    Text(String),
    Other(Description),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Description {
    text: Option<String>,
    hex: Option<String>,
    repeat: Option<String>,
    bytes: Option<usize>,
    parts: Vec<Node>,
    link: Option<String>,
    fifo: bool,
    dir: bool,
    mode: Option<u32>,
}

impl Node {
    fn is_link(&self) -> bool {
        matches!(self, Node::Other(node) if node.link.is_some())
    }

    /// Returns the content of a file.
    fn content(&self) -> Vec<u8> {
        let node = match self {
            Node::Text(text) => return text.clone().into_bytes(),
            Node::Other(node) => node,
        };
        match (&node.text, &node.hex, &node.repeat) {
            (Some(text), None, None) => text.clone().into_bytes(),
            (None, Some(hex), None) => bytes_of_hex(hex),
            (None, None, Some(unit)) => {
                let bytes = node.bytes.expect("`repeat` needs `bytes`");
                unit.bytes().cycle().take(bytes).collect()
            }
            _ => {
                assert!(!node.parts.is_empty(), "{node:?} is no file");
                node.parts.iter().flat_map(Node::content).collect()
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum TreeRef {
    Name(String),
    Own(BTreeMap<String, Node>),
}

impl TreeRef {
    /// Returns the nodes of the tree; `trees` are the named trees of the file.
    pub(crate) fn nodes<'a>(
        &'a self,
        trees: &'a BTreeMap<String, BTreeMap<String, Node>>,
    ) -> &'a BTreeMap<String, Node> {
        match self {
            TreeRef::Name(name) => trees
                .get(name)
                .unwrap_or_else(|| panic!("no tree is called {name}")),
            TreeRef::Own(nodes) => nodes,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    requirements: Vec<String>,
    tree: TreeRef,
    pub(crate) request: toml::Table,
    /// Keys of `[tools.search]` that differ from the library's defaults.
    #[serde(default)]
    config: BTreeMap<String, u64>,
    #[serde(default)]
    sandbox: SandboxKeys,
    /// The working directory, relative to the top of the tree.
    #[serde(default)]
    working_dir: String,
    global_excludes: Option<String>,
    max_output_bytes: Option<usize>,
    available_capacity_bytes: Option<usize>,
    /// Engines that cannot answer the request, each with a part of its refusal.
    #[serde(default)]
    refused_on: BTreeMap<String, String>,
    /// Engines for which the expectation does not hold, each with the reason.
    #[serde(default)]
    not_on: BTreeMap<String, String>,
    expect: Expect,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SandboxKeys {
    allowed_roots: Vec<String>,
    denied_patterns: Vec<String>,
    allow_absolute: bool,
    no_default_denies: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Expect {
    Error(ExpectError),
    Answer(ExpectAnswer),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectError {
    pub(crate) error: String,
    pub(crate) message: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectAnswer {
    events: Vec<String>,
    files_scanned: u64,
    #[serde(default)]
    truncated: bool,
    #[serde(default)]
    timed_out: bool,
    /// The expected errors as `path|fragment of the message`, in order.
    #[serde(default)]
    errors: Vec<String>,
    /// Default: 0 with matches, 1 without.
    exit_code: Option<i32>,
    path: Option<String>,
    content: Option<String>,
    /// Fragments of the closing note.
    #[serde(default)]
    note: Vec<String>,
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    hex.split_whitespace()
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

/// Returns true if this system can't hold the tree of a case, and says why.
pub(crate) fn is_impossible(case: &str, nodes: &BTreeMap<String, Node>) -> bool {
    let why = nodes.iter().find_map(|(name, node)| match node {
        Node::Other(node) if node.fifo && cfg!(windows) => Some("directories hold no pipes"),
        node if node.is_link() && !has_links() => Some("no links can be created"),
        _ => why_no_name(&unescape(name)),
    });
    why.inspect(|why| skipped(format!("case {case}: {why}")))
        .is_some()
}

pub(crate) fn build(tree: &Tree, nodes: &BTreeMap<String, Node>) {
    // On Windows, a link to a directory is created after its target.
    let (links, others): (Vec<_>, Vec<_>) = nodes.iter().partition(|(_, node)| node.is_link());
    for (name, node) in others.into_iter().chain(links) {
        match node {
            Node::Other(node) if node.link.is_some() => {
                tree.link(name, node.link.as_deref().unwrap())
            }
            Node::Other(node) if node.fifo => tree.fifo(name),
            Node::Other(node) if node.dir => tree.dir(name),
            // A text may contain the path of the tree, as a worktree's `.git` does.
            Node::Text(text) => tree.file(name, in_root(text, tree.root())),
            Node::Other(_) => tree.file(name, node.content()),
        };
        if let Node::Other(node) = node
            && let Some(mode) = node.mode
        {
            tree.mode(name, mode);
        }
    }
}

/// Expands each `⟦x*3⟧` to `xxx`.
pub(crate) fn unfold(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once('⟦') {
        let (inner, after) = tail.split_once('⟧').expect("an open ⟦");
        let (unit, times) = inner.rsplit_once('*').expect("⟦text*times⟧");
        out.push_str(before);
        out.push_str(&unit.repeat(times.parse().unwrap()));
        rest = after;
    }
    out.push_str(rest);
    out
}

pub(crate) fn in_root(text: &str, root: &Path) -> String {
    text.replace("{root}", &shown_path(root))
}

pub(crate) fn json_of(value: &toml::Value, root: &Path) -> Value {
    match value {
        toml::Value::String(text) => in_root(text, root).into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(truth) => (*truth).into(),
        toml::Value::Array(items) => items.iter().map(|item| json_of(item, root)).collect(),
        toml::Value::Table(table) => table
            .iter()
            .map(|(key, value)| (key.clone(), json_of(value, root)))
            .collect(),
        toml::Value::Datetime(_) => panic!("no request holds a date"),
    }
}

pub(crate) fn setup_of(case: &Case, tree: &Tree) -> Setup {
    let root = tree.root();
    let mut setup = Setup::new(&root.join(&case.working_dir));
    for (key, &value) in &case.config {
        let config = &mut setup.config;
        match key.as_str() {
            "default_max_results" => config.default_max_results = value,
            "default_timeout_ms" => config.default_timeout_ms = value,
            "max_matches_per_file" => config.max_matches_per_file = value,
            "max_files" => config.max_files = value,
            "max_file_size_bytes" => config.max_file_size_bytes = value,
            "max_line_bytes" => config.max_line_bytes = value,
            other => panic!("cases can't set `{other}`"),
        }
    }
    let keys = &case.sandbox;
    setup = setup.sandbox(|sandbox| {
        sandbox.allowed_roots = keys
            .allowed_roots
            .iter()
            .map(|path| PathBuf::from(in_root(path, root)))
            .collect();
        sandbox.denied_patterns = keys
            .denied_patterns
            .iter()
            .map(|pattern| in_root(pattern, root))
            .collect();
        sandbox.allow_absolute = keys.allow_absolute;
        sandbox.include_default_denies = !keys.no_default_denies;
    });
    setup.global_excludes = case.global_excludes.as_ref().map(|name| tree.path(name));
    setup.max_output_bytes = case.max_output_bytes;
    setup.available_capacity_bytes = case.available_capacity_bytes;
    setup
}

pub(crate) fn check_error(expected: &ExpectError, error: &ToolError, root: &Path) {
    assert_eq!(error.code(), expected.error, "{error}");
    let message = error.message();
    for fragment in &expected.message {
        let fragment = in_root(fragment, root);
        assert!(
            message.contains(&fragment),
            "the message does not say {fragment:?}: {message}"
        );
    }
}

fn check_answer(expected: &ExpectAnswer, response: &SearchResponse, root: &Path) {
    let wanted: Vec<String> = expected
        .events
        .iter()
        .map(|line| in_root(&unfold(line), root))
        .collect();
    let found = events(response);
    assert!(
        found == wanted,
        "events\n  expected {}\n  found    {}",
        shown(&wanted),
        shown(&found)
    );
    assert_eq!(response.truncated, expected.truncated, "truncated");
    assert_eq!(response.timed_out, expected.timed_out, "timed_out");
    assert_eq!(
        response.files_scanned, expected.files_scanned,
        "files_scanned"
    );
    check_entries(&expected.errors, &response.errors, root);
    let any_match = response.matches.iter().any(|record| record.is_match());
    let exit_code = expected.exit_code.unwrap_or(i32::from(!any_match));
    assert_eq!(response.exit_code, Some(exit_code), "exit_code");
    assert_eq!(response.stderr, None, "stderr");
    let path = in_root(expected.path.as_deref().unwrap_or("{root}"), root);
    if expected.path.is_some() {
        assert_eq!(response.path, path, "path");
    }
    if let Some(content) = &expected.content {
        assert_eq!(response.content, in_root(content, root), "content");
    }
    for fragment in &expected.note {
        let note: Vec<&str> = response.content.lines().skip(response.count).collect();
        assert!(
            note.join("\n").contains(fragment.as_str()),
            "the note does not say {fragment:?}: {note:?}"
        );
    }
}

/// Checks entries of `errors` against `path|fragment of the message`, in order.
pub(crate) fn check_entries(expected: &[String], entries: &[ErrorEntry], root: &Path) {
    let errors: Vec<String> = entries
        .iter()
        .map(|entry| format!("{}|{}", entry.path, entry.error))
        .collect();
    let fits = errors.len() == expected.len()
        && errors.iter().zip(expected).all(|(found, wanted)| {
            let (path, fragment) = wanted.split_once('|').expect("path|fragment");
            let (at, message) = found.split_once('|').unwrap();
            at == in_root(path, root) && message.contains(fragment)
        });
    assert!(fits, "errors {errors:?}, expected {expected:?}");
}

/// Formats the first 40 events for a failure message; cuts long lines.
fn shown(events: &[String]) -> String {
    let mut text = String::from("[");
    for event in events.iter().take(40) {
        let cut: String = event.chars().take(200).collect();
        text.push_str(&format!("\n    {cut:?}"));
    }
    if events.len() > 40 {
        text.push_str(&format!("\n    … {} in all", events.len()));
    }
    text.push_str("\n  ]");
    text
}

/// Returns true for ids such as `FR-LS-SRC-01`, `NFR-LS-COR-02`, `D10` (a decision) or
/// `T-LS-COL-01`.
pub(crate) fn is_requirement(id: &str) -> bool {
    let decision = id.strip_prefix('D').is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit())
            && rest.chars().all(|c| c.is_ascii_alphanumeric())
    });
    let specified = ["FR-", "NFR-", "CFG-", "SEC-", "T-", "IT-"]
        .iter()
        .any(|prefix| id.starts_with(prefix));
    decision || specified
}

fn cases_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases")
}

pub(crate) fn load(topic: &str) -> CaseFile {
    let path = cases_dir().join(format!("{topic}.toml"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(crate) fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
        .unwrap_or_default()
}

impl CaseFile {
    /// Returns the tree of a case.
    pub(crate) fn nodes<'a>(&'a self, case: &'a Case) -> &'a BTreeMap<String, Node> {
        case.tree.nodes(&self.trees)
    }
}

/// The setting of one run: the number of threads, and the variant of the index or no index.
type Way = (usize, Option<Variant>);

/// Returns the settings in which an engine runs the `nth` case: all of them in the long proofs, a
/// rotating selection otherwise. An external engine does not see how an index is stored, so one
/// variant is enough.
fn ways(engine: &str, nth: usize) -> Vec<Way> {
    let all = VARIANTS.len();
    match engine {
        "embedded" if is_long() => [1, 4]
            .into_iter()
            .map(|threads| (threads, None))
            .chain(
                VARIANTS
                    .into_iter()
                    .zip([1, 4].into_iter().cycle())
                    .map(|(variant, threads)| (threads, Some(variant))),
            )
            .collect(),
        "embedded" => vec![
            (1, None),
            (4, None),
            (1, Some(VARIANTS[nth % all])),
            (4, Some(VARIANTS[(nth + all / 2) % all])),
        ],
        _ => {
            let external = [(1, None), (4, None), (1, Some(LIVE))];
            if is_long() {
                external.to_vec()
            } else {
                vec![external[nth % 3]]
            }
        }
    }
}

/// Runs one case on one engine, once for each setting.
fn run_case(file: &CaseFile, case: &Case, engines: &Engines, ways: &[Way], expected: &Expect) {
    let tree = Tree::new();
    build(&tree, file.nodes(case));
    let request = json_of(&toml::Value::Table(case.request.clone()), tree.root());
    for &(threads, index) in ways {
        let mut setup = setup_of(case, &tree).threads(threads);
        setup.engines = engines.clone();
        if let Some(variant) = index {
            setup = setup.indexed(variant);
        }
        check_case(&setup, &request, expected, tree.root());
    }
}

fn check_case(setup: &Setup, request: &Value, expected: &Expect, root: &Path) {
    match (expected, setup.call(request.clone())) {
        (Expect::Error(expected), Err(error)) => check_error(expected, &error, root),
        (Expect::Answer(expected), Ok(response)) => check_answer(expected, &response, root),
        (Expect::Error(_), Ok(response)) => {
            panic!("an error was expected, not {}", response.to_json())
        }
        (Expect::Answer(_), Err(error)) => panic!("refused: {}", error.to_json()),
    }
}

fn run_topic(topic: &str) {
    let file = load(topic);
    let engines = engines();
    let known: BTreeSet<&str> = engines.iter().map(|(name, _)| *name).collect();
    let mut failures = Vec::new();
    let mut names = BTreeSet::new();
    let mut ran = 0;
    for (nth, case) in file.case.iter().enumerate() {
        assert!(names.insert(&case.name), "{} stands twice", case.name);
        assert!(
            !case.requirements.is_empty() && case.requirements.iter().all(|id| is_requirement(id)),
            "{}: bad requirement ids {:?}",
            case.name,
            case.requirements
        );
        for (engine, reason) in case.not_on.iter().chain(&case.refused_on) {
            assert!(
                ["embedded", "rg", "ugrep"].contains(&engine.as_str()) && reason.len() > 10,
                "{}: an exclusion names an engine and gives its reason",
                case.name
            );
        }
        if is_impossible(&case.name, file.nodes(case)) {
            continue;
        }
        for (engine, engines) in &engines {
            if case.not_on.contains_key(*engine) {
                continue;
            }
            ran += 1;
            let refusal = case.refused_on.get(*engine).map(|message| ExpectError {
                error: "bad_args".to_string(),
                message: vec![message.clone()],
            });
            let refusal = refusal.map(Expect::Error);
            let expected = refusal.as_ref().unwrap_or(&case.expect);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                run_case(&file, case, engines, &ways(engine, nth), expected)
            }));
            if let Err(panic) = outcome {
                failures.push(format!(
                    "{topic}: {} on {engine}: {}",
                    case.name,
                    message_of(panic.as_ref())
                ));
            }
        }
    }
    println!("{topic}: {ran} cases on {known:?}");
    assert!(
        failures.is_empty(),
        "{} of {ran} failed:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

macro_rules! topics {
    ($($topic:ident),* $(,)?) => {
        pub(crate) const TOPICS: &[&str] = &[$(stringify!($topic)),*];
        $(
            #[test]
            fn $topic() {
                run_topic(stringify!($topic));
            }
        )*
    };
}

topics! {
    binary,
    case,
    context,
    encoding,
    errors,
    fuzzy,
    globs,
    hidden,
    ignore_rules,
    limits,
    line_ends,
    links,
    literal,
    names,
    order,
    output,
    regex,
    request,
    sandbox,
    scope,
    size,
    unsupported,
    word,
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
    let mut names = BTreeSet::new();
    for topic in TOPICS {
        for case in load(topic).case {
            assert!(
                names.insert(case.name.clone()),
                "{} stands twice",
                case.name
            );
        }
    }
}

#[test]
fn repetitions_are_written_out() {
    assert_eq!(unfold("a⟦xy*3⟧b⟦-*0⟧"), "axyxyxyb");
}
