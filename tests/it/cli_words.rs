//! The wording of errors on the command line: they name flags, not the fields of tool requests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use forge_search::internal::exec::external::detect::Tool;

use crate::cli::{command, forge_search};
use crate::peers::peers;

/// Words with an underscore that a person types: configuration keys, tool names, and the
/// capabilities of leases.
fn typed_words() -> BTreeSet<String> {
    let keys = include_str!("../../docs/configuration.md");
    let keys = keys.lines().filter_map(|line| line.strip_prefix("| `"));
    let keys = keys.filter_map(|row| row.split_once('`'));
    let names = [
        "search_files",
        "find_files",
        "find_code",
        "SEARCH_FILES",
        "SEARCH_EMAILS",
        "SEARCH_DATASETS",
    ];
    let keys = keys.map(|(key, _)| key.to_string());
    keys.chain(names.map(String::from)).collect()
}

/// Returns the words of a text that look like request fields.
fn fields(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '`');
    let is_field = |word: &str| {
        let name = word.trim_matches('`');
        let is_quoted = word.len() > name.len() + 1 && REQUEST_FIELDS.contains(&name);
        is_quoted || name.trim_matches('_').contains('_')
    };
    let fields = words.filter(|word| is_field(word));
    fields
        .map(|word| word.trim_matches('`').to_string())
        .collect()
}

/// Request fields without an underscore. They count as fields only in backticks.
const REQUEST_FIELDS: [&str; 7] = [
    "pattern", "path", "fuzzy", "case", "context", "hidden", "follow",
];

/// Checks that an error names no request field, except allowed or typed ones.
#[track_caller]
fn check(dir: &Path, program: &str, args: &[&str], allowed: &BTreeSet<String>) {
    let output = command(program, dir).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !said.is_empty() && output.status.code() != Some(0),
        "{args:?}: {output:?}"
    );
    let is_typed = |field: &str| args.iter().any(|arg| arg.contains(field));
    let found = fields(&said).into_iter();
    let found: Vec<String> = found
        .filter(|field| !allowed.contains(field) && !is_typed(field))
        .collect();
    assert!(found.is_empty(), "{args:?} names {found:?}: {said}");
}

/// Calls that the program refuses.
const REFUSED: &[&[&str]] = &[
    &["--fuzzy", "2", "ab"],
    &["--fuzzy", "2", "a?"],
    &["--fuzzy", "1", "(?-u:\\xff)abc"],
    &["--fuzzy", "1", "(abc){3000}"],
    &["-F", "--fuzzy", "1", "a"],
    &["--fuzzy", "9", "abc"],
    &["explain", "--fuzzy", "2", "ab"],
    &["--rg-json", "--fuzzy", "1", "needle"],
    &["a(b"],
    &["(?=x)"],
    &["\\1"],
    &["a\nb"],
    &["-g", "[z", "x"],
    &["-g", "", "x"],
    &["-g", "#x", "x"],
    &["-g", "!!x", "x"],
    &["-g", "a\nb", "x"],
    &["-t", "pythn", "x"],
    &["-f", "absent"],
    &["needle", "absent"],
    &["needle", "-", "."],
    &["needle", "/dev/null"],
    &["-uuu", "x"],
    &["-o", "-C1", "x"],
    &["--files", "-e", "x"],
    &["--files", "-m1"],
    &["-l"],
    &["-d", "0", "x"],
    &["-m", "0", "x"],
    &["-j", "x", "x"],
    &["--sort", "size", "x"],
    &["--index", "maybe", "x"],
    &["--daemon", "x", "x"],
    &["--hyperlink-format", "x{no}", "x"],
    &["--timeout-ms", "0", "x"],
    &["--max-filesize", "1T", "x"],
    &["--max-filesize", "1", "x", "file"],
    &["--root", "absent", "x"],
    &["--config", "absent", "x"],
    &["--set", "nokey=1", "x"],
    &["--set", "max_files=0", "x"],
    &["--set", "a", "x"],
    &["--set", "tools.sandbox.allowed_roots=[\"/absent\"]", "x"],
    &["--set", "tools.search.enabled=false", "x"],
    &["--set", "tools.sandbox.allow_absolute=false", "x", "/etc"],
    &[
        "--set",
        "backend=auto",
        "--set",
        "binary=absent",
        "--set",
        "fallback_binary=absent",
        "x",
    ],
    &["index", "build", "absent"],
    &["index", "verify", "absent"],
    &["index", "build", "--set", "index_mode=off"],
    &["explain", "x", "file", "file"],
    &["explain", "a(b"],
    &["man", "nothing"],
    &["schema", "--tool", "x"],
    #[cfg(unix)]
    &["serve", "--http", "1.2.3.4:80"],
    #[cfg(unix)]
    &["execute", "--lease", "x", "absent"],
    #[cfg(unix)]
    &[
        "lease",
        "issue",
        "--key",
        "absent",
        "--task",
        "t",
        "--capability",
        "X",
        "--scope",
        "s",
    ],
    #[cfg(unix)]
    &["tui"],
    #[cfg(unix)]
    &["ask", "  "],
    #[cfg(unix)]
    &["ask", "--client-id", "", "x"],
    #[cfg(unix)]
    &["ask", "--client-id", "a\nb", "x"],
    #[cfg(unix)]
    &["ask", "--limit", "0", "x"],
    #[cfg(unix)]
    &["ask", "x", "absent"],
];

#[test]
fn refusals_name_flags_and_no_fields_of_requests() {
    let tree = tempfile::tempdir().unwrap();
    let dir = tree.path();
    fs::write(dir.join("file"), "a needle\n").unwrap();
    let allowed = typed_words();
    let forge_search = env!("CARGO_BIN_EXE_forge-search");
    let long = "x".repeat(70_000);
    let too_long: &[&[&str]] = &[
        &[&long],
        #[cfg(unix)]
        &["ask", &long[..5000]],
    ];
    for args in REFUSED.iter().chain(too_long) {
        check(dir, forge_search, args, &allowed);
    }
    for (tool, key, patterns) in [
        (
            Tool::Ripgrep,
            "fallback_binary",
            &[&["--fuzzy", "1", "needle"][..]][..],
        ),
        (
            Tool::Ugrep,
            "binary",
            &[
                &["--fuzzy", "1", "-w", "needle"],
                &["--fuzzy", "1", "n.*e"],
                &["--fuzzy", "1", "-F", "abc\rd"],
                &["--fuzzy", "4", "abc"],
                &["\\w+"],
            ],
        ),
    ] {
        for program in peers(tool) {
            let backend = format!("backend={}", tool.program());
            let program = format!("{key}={}", program.path.display());
            let engine = ["--set", &backend, "--set", &program];
            for pattern in patterns {
                check(dir, forge_search, &[&engine, *pattern].concat(), &allowed);
            }
        }
    }
}

#[test]
fn fields_are_told_from_other_words() {
    assert_eq!(
        fields("raise max_results, or `fuzzy`; max results"),
        ["max_results", "fuzzy"]
    );
    assert_eq!(fields("the pattern `x` and -g 'a_b' _ __ x"), ["a_b"]);
}

#[test]
fn an_unknown_flag_is_answered_by_none_that_means_another_thing() {
    let tree = tempfile::tempdir().unwrap();
    let said = |args: &[&str]| {
        let output = forge_search(tree.path()).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for unknown in [
        "--no-such",
        "--no-fuzzy",
        "--no-count",
        "--nocolor",
        "--unhidden",
        "--frobnicate",
    ] {
        let said = said(&[unknown, "x"]);
        assert!(
            said.contains(unknown) && !said.contains("similar"),
            "{said}"
        );
    }
    for (unknown, meant) in [
        (&["--no-recursve", "x"][..], "'--no-recursive'"),
        (&["--jsno", "x"], "'--json'"),
        (&["--sorr=path", "x"], "'--sort', '--sortr'"),
        (&["index", "build", "--jsno"], "'--json'"),
        (&["--case-insensitive", "x"], "-i ignores case"),
    ] {
        let said = said(unknown);
        assert!(said.contains(meant), "{unknown:?}: {said}");
    }
    // A similar flag of another command is not suggested.
    let other = said(&["index", "build", "--fuzy"]);
    assert!(!other.contains("similar"), "{other}");
}
