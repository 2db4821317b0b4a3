//! Reads the project's own files, for tests that check rules about sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A file of the project that is or could be committed.
pub(crate) struct SourceFile {
    /// The path relative to the project's root, with forward slashes.
    pub(crate) path: String,
    /// The content. Invalid UTF-8 is replaced.
    pub(crate) text: String,
}

/// A rule: returns a sentence for each violation in a file.
pub(crate) type Rule = fn(path: &str, text: &str) -> Vec<String>;

/// Panics with every violation of `rule` in `files`.
#[track_caller]
pub(crate) fn enforce(rule: Rule, files: Vec<SourceFile>) {
    assert!(
        files.len() > 3,
        "the rule was applied to {} files only",
        files.len()
    );
    let violations: Vec<String> = files
        .iter()
        .flat_map(|file| {
            rule(&file.path, &file.text)
                .into_iter()
                .map(|found| format!("{}: {found}", file.path))
        })
        .collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

/// Checks that `rule` objects to `text` at `path` exactly `count` times.
#[track_caller]
pub(crate) fn check(rule: Rule, path: &str, text: &str, count: usize) {
    let violations = rule(path, text);
    assert_eq!(violations.len(), count, "{path}: {text}\n{violations:?}");
}

/// The root directory of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every file that is or could be committed: all files that ignore files don't exclude,
/// hidden files included.
pub(crate) fn project_files() -> Vec<SourceFile> {
    let walk = ignore::WalkBuilder::new(root())
        .hidden(false)
        .require_git(false)
        // Other ignore files are left out: the result must not depend on the place of the checkout.
        .parents(false)
        .git_global(false)
        .git_exclude(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_path(Ord::cmp)
        .build();
    let mut files = Vec::new();
    for entry in walk {
        let entry = entry.unwrap();
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path().strip_prefix(root()).unwrap();
        files.push(SourceFile {
            path: path.to_string_lossy().replace('\\', "/"),
            text: String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned(),
        });
    }
    files
}

/// The target platform of the compiler, for example `x86_64-unknown-linux-gnu`.
fn host() -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_string()
}

/// The source directories of the crates that this build depends on, sorted by name and version.
pub(crate) fn dependencies() -> Vec<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--offline", "--locked", "--format-version", "1"]);
    // Cargo downloads only the crates of its platform and features.
    command.args(["--filter-platform", &host()]);
    if !cfg!(feature = "allocator") {
        command.args(["--no-default-features", "--features", "cli"]);
    }
    if cfg!(feature = "sqlite") {
        command.args(["--features", "sqlite"]);
    }
    let output = command.current_dir(root()).output().unwrap();
    assert!(
        output.status.success(),
        "the sources of the dependencies are needed; run `cargo fetch` first: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found: Vec<PathBuf> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| package["source"].is_string())
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            manifest.parent().unwrap().to_path_buf()
        })
        // The lock file also names crates of other platforms. Cargo does not download those.
        .filter(|dir| dir.is_dir())
        .collect();
    found.sort_by_key(|dir| dir.file_name().unwrap().to_os_string());
    found
}

/// The source directory of the crate called `name`, which this build depends on.
pub(crate) fn dependency(name: &str) -> PathBuf {
    let is_it = |dir: &PathBuf| {
        let dir_name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let version = dir_name
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('-'));
        version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    dependencies().into_iter().find(is_it).unwrap()
}

/// The Rust files among the project's files.
pub(crate) fn rust_files() -> Vec<SourceFile> {
    project_files()
        .into_iter()
        .filter(|file| file.path.ends_with(".rs"))
        .collect()
}

/// Replaces comments and the contents of string and character literals with blanks, so that only
/// code is left. Line breaks stay in place.
pub(crate) fn code_only(text: &str) -> String {
    let source: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < source.len() {
        let end = literal_end(&source, at);
        if end == at {
            code.push(source[at]);
            at += 1;
            continue;
        }
        code.extend(
            source[at..end]
                .iter()
                .map(|c| if *c == '\n' { '\n' } else { ' ' }),
        );
        at = end;
    }
    code
}

/// Returns the end of the comment or literal that starts at `at`, or `at` if neither starts there.
fn literal_end(source: &[char], at: usize) -> usize {
    let next = |offset: usize| source.get(at + offset).copied();
    match source[at] {
        '/' if next(1) == Some('/') => (at..source.len())
            .find(|i| source[*i] == '\n')
            .unwrap_or(source.len()),
        '/' if next(1) == Some('*') => block_comment_end(source, at),
        '"' => string_end(source, at + 1),
        'r' if at == 0 || !is_ident(source[at - 1]) || is_string_prefix(source, at) => {
            let hashes = source[at + 1..].iter().take_while(|c| **c == '#').count();
            if next(1 + hashes) == Some('"') {
                raw_string_end(source, at + 2 + hashes, hashes)
            } else {
                at
            }
        }
        '\'' => match (next(1), next(2)) {
            (Some('\\'), _) => {
                let close = (at + 3..source.len()).find(|i| source[*i] == '\'');
                close.map_or(source.len(), |i| i + 1)
            }
            (Some(_), Some('\'')) => at + 3,
            // A lifetime.
            _ => at,
        },
        _ => at,
    }
}

/// Returns true if the `r` at `at` follows the `b` or `c` of a byte or C string.
fn is_string_prefix(source: &[char], at: usize) -> bool {
    matches!(source[at - 1], 'b' | 'c') && (at < 2 || !is_ident(source[at - 2]))
}

fn block_comment_end(source: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at + 1 < source.len() {
        match (source[at], source[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') if depth == 1 => return at + 2,
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    source.len()
}

fn string_end(source: &[char], mut at: usize) -> usize {
    while at < source.len() {
        match source[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    source.len()
}

fn raw_string_end(source: &[char], mut at: usize, hashes: usize) -> usize {
    while at < source.len() {
        let rest = &source[at + 1..];
        if source[at] == '"' && rest.iter().take_while(|c| **c == '#').count() >= hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    source.len()
}

/// Removes white space from `text`, except for one space between two names.
pub(crate) fn dense(text: &str) -> String {
    let mut dense = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if dense.ends_with(is_ident) && word.starts_with(is_ident) {
            dense.push(' ');
        }
        dense.push_str(word);
    }
    dense
}

/// Returns true if `c` can be part of an identifier.
pub(crate) fn is_ident(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The line numbers, from 1, of the lines that contain `word` as a whole word.
pub(crate) fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    let lines = code.lines().enumerate();
    lines
        .filter(|(_, line)| has_word(line, word))
        .map(|(index, _)| index + 1)
        .collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_ident) && !after.is_some_and(is_ident)
    })
}

#[test]
fn code_only_blanks_comments_and_literals() {
    let check = |source: &str, expected: &str| assert_eq!(code_only(source), expected, "{source}");
    check("a // b\nc", "a     \nc");
    check("a /* b /* c */ d */ e", "a                   e");
    check(r#"f("x\"y", z)"#, "f(      , z)");
    check(r##"f(r#"a"b"#, z)"##, "f(        , z)");
    check(r##"f(br"a", r"\", cr#"""#)"##, "f(b    ,     , c      )");
    check(
        "f('a', '\\'', '\\u{41}', b'\"', \"'\")",
        "f(   ,     ,         , b   ,    )",
    );
    check(
        "fn f<'a>(x: &'a str, r: for_r)",
        "fn f<'a>(x: &'a str, r: for_r)",
    );
    check("\"a\nb\" c", "  \n   c");
    check("var\"s\"", "var   ");
}

#[test]
fn dense_text_keeps_names_apart() {
    assert_eq!(
        dense("use a :: {b as c,\n d };\n  fn f"),
        "use a::{b as c,d};fn f"
    );
}

#[test]
fn words_are_found_whole() {
    assert_eq!(
        lines_with_word("unsafe {}\nunsafe_code\n(unsafe)", "unsafe"),
        [1, 3]
    );
}

#[test]
fn project_files_are_the_committed_ones() {
    let paths: Vec<String> = project_files().into_iter().map(|file| file.path).collect();
    for expected in [
        ".ci/run",
        ".gitignore",
        "Cargo.toml",
        "src/lib.rs",
        "tests/it/project_files.rs",
    ] {
        assert!(
            paths.iter().any(|path| path == expected),
            "{expected} is missing"
        );
    }
    assert!(
        !paths
            .iter()
            .any(|path| path.starts_with("target/") || path.starts_with(".git/"))
    );
}
