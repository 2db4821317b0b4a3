//! Requests by the line beside edits: a process whose index lives, and one without an index, are asked the same and have to give the
//! same bytes, with hostile names in the tree and limits of the output.
//!
//! `FORGE_SEARCH_TEST_REQUESTS` is how many requests are made.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::by_the_line::ByTheLine;
use crate::cli::forge_search;
use crate::differential::Seeded;

/// Names of files and directories, with what is hard to print, to match or to sort.
const NAMES: [&[u8]; 16] = [
    b"a",
    b"b.rs",
    b"B.rs",
    b"-e",
    b"with space",
    b"line\nfeed",
    b"tab\tand\x1b[31m",
    b"\xff\xfe.rs",
    "e\u{301}".as_bytes(),
    "\u{e9}".as_bytes(),
    b"[x].rs",
    b"{b}",
    b"#c",
    b".hidden",
    b"k.pem",
    b".ssh",
];

const TEXTS: [&[u8]; 12] = [
    b"needle\n",
    b"Needle in hay\n",
    b"hay\n",
    b"\n",
    b"straw needle straw needle\r\n",
    b"\xff needle \xfe\n",
    "ta\u{17f}k \u{212a}elvin Stra\u{df}e\n".as_bytes(),
    b"task kelvin\n",
    b"\0",
    b"no line feed",
    b"needlf nedle\n",
    b"{\"json\": \"needle\"}\n",
];

const PATTERNS: [&str; 14] = [
    "needle",
    "Needle",
    "n.*le",
    "hay|straw",
    "task",
    "kelvin",
    r"\bneedle\b",
    "^$",
    "absent from it all",
    "needle straw",
    r"[xyz]needle",
    "(",
    "json\": \"",
    r"\d+x",
];

const GLOBS: [&str; 8] = [
    "*.rs", "a/", "/a/**", "!b.rs", "./a/*", "[[]x].rs", "\\{b}", "src/**",
];

/// Starts a process that answers by the line.
fn start(root: &Path, cache: &Path, sets: &[&str]) -> ByTheLine {
    let cache = format!("index_path={cache:?}");
    let mut program = forge_search(root);
    program.args(["call", "--jsonl", "--set", &cache]);
    program.args(sets.iter().flat_map(|set| ["--set", set]));
    ByTheLine::of(program)
}

fn some_path(rng: &mut Seeded, root: &Path) -> PathBuf {
    let mut path = root.to_path_buf();
    for _ in 0..=rng.below(3) {
        path.push(OsStr::from_bytes(rng.pick(&NAMES)));
    }
    path
}

/// Changes something; what can't be done at this place is left.
fn edit(rng: &mut Seeded, root: &Path) {
    let path = some_path(rng, root);
    match rng.below(10) {
        0 => {
            let _ = fs::remove_file(&path);
        }
        1 => {
            let _ = fs::remove_dir_all(&path);
        }
        2 => {
            let _ = fs::rename(&path, some_path(rng, root));
        }
        3 => {
            let rules: &[u8] = rng.pick(&[&b"*.rs\n"[..], b"a\n", b"!*\n", b""]);
            fs::write(root.join(".ignore"), rules).unwrap();
        }
        _ => {
            let _ = fs::create_dir_all(path.parent().unwrap());
            let text: Vec<u8> = (0..=rng.below(6))
                .flat_map(|_| rng.pick(&TEXTS).to_vec())
                .collect();
            let times = if rng.one_in(12) { 400 } else { 1 };
            let _ = fs::write(&path, text.repeat(times));
        }
    }
}

fn request(rng: &mut Seeded) -> Value {
    let mut request = json!({"pattern": rng.pick(&PATTERNS), "timeout_ms": 60_000});
    let mut set = |name: &str, value: Value| request[name] = value;
    if rng.one_in(3) {
        set("fixed_strings", true.into());
    }
    if rng.one_in(4) {
        set(
            "case",
            rng.pick(&["sensitive", "insensitive", "smart"]).into(),
        );
    }
    for (name, n) in [
        ("word_regexp", 6),
        ("hidden", 3),
        ("no_ignore", 3),
        ("follow", 6),
    ] {
        if rng.one_in(n) {
            set(name, true.into());
        }
    }
    for (name, n, most) in [
        ("context", 4, 4),
        ("max_results", 3, 20),
        ("max_matches_per_file", 4, 4),
        ("max_files", 5, 12),
        ("max_file_size_bytes", 5, 400),
        ("fuzzy", 8, 2),
    ] {
        if rng.one_in(n) {
            set(name, (1 + rng.below(most)).into());
        }
    }
    for (name, n) in [("include_glob", 5), ("exclude_glob", 5)] {
        if rng.one_in(n) {
            set(name, json!([rng.pick(&GLOBS), "*"]));
        }
    }
    if rng.one_in(6) {
        set(
            "path",
            rng.pick(&["a", "b.rs", "-e", "absent", "e\u{301}"]).into(),
        );
    }
    request
}

/// What has to be true of each answer by itself.
fn check(request: &Value, text: &str, limit: Option<usize>) {
    let answer: Value = serde_json::from_str(text).unwrap();
    if let Some(limit) = limit {
        assert!(
            text.len() <= limit || answer["error"].is_object(),
            "{request}: {} bytes",
            text.len()
        );
    }
    if answer["error"].is_object() {
        return;
    }
    let matches = answer["matches"].as_array().unwrap();
    assert_eq!(answer["count"], matches.len(), "{request}");
    let said = answer["content"].as_str().unwrap();
    let is_cut = answer["truncated"] == true;
    assert_eq!(
        is_cut,
        said.contains("\n[truncated: ") || said.starts_with("[truncated: "),
        "{request}: {said}"
    );
    assert_eq!(answer["timed_out"], false, "{request}");
}

#[test]
fn d106_answers_by_the_line_are_those_without_an_index_whatever_changes() {
    let requests = match std::env::var("FORGE_SEARCH_TEST_REQUESTS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 500,
    };
    let tree = tempfile::tempdir().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let root = tree.path();
    let mut rng = Seeded::new(2027);
    for _ in 0..60 {
        edit(&mut rng, root);
    }
    let limits = [None, Some(700), Some(2_500)];
    let mut pairs = limits.map(|limit| {
        let most = format!("max_output_bytes={}", limit.unwrap_or(0));
        let with = |mode: &str| start(root, cache.path(), &[mode, &most, "max_line_bytes=200"]);
        (with("index_mode=on"), with("index_mode=off"))
    });
    let (mut failed, mut found, mut cut) = (0, 0, 0);
    for n in 0..requests {
        for _ in 0..rng.below(4) {
            edit(&mut rng, root);
        }
        let request = request(&mut rng);
        let at = n % limits.len();
        let (indexed, plain) = &mut pairs[at];
        let (one, other) = (indexed.ask(&request), plain.ask(&request));
        assert_eq!(one, other, "{request}");
        check(&request, &one, limits[at]);
        failed += usize::from(one.starts_with("{\"error\""));
        found += usize::from(one.contains("\"matches\":[{"));
        cut += usize::from(one.contains("\"truncated\":true"));
    }
    for (indexed, plain) in pairs {
        indexed.end();
        plain.end();
    }
    println!("requests by the line: {requests}, {failed} refused, {found} with matches, {cut} cut");
    assert!(
        found * 4 > requests && cut * 20 > requests,
        "{found} found, {cut} cut"
    );
}
