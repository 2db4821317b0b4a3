//! Checks `docs/conformance.md`, which links the ids of requirements and decisions to tests. Every
//! test that it names exists, and no requirement that has tests is listed as missing. The names of
//! the tests themselves begin with no id.
//!
//! A cell of the column *tests* holds names in backticks: the name of a test function, `case:NAME`
//! for an entry of `tests/data/cases/*.toml` or `tests/data/files/*.toml`, or `fuzz:NAME` for a
//! fuzz target.

use std::collections::BTreeSet;

use crate::project_files::{code_only, is_ident, project_files, root};

/// The heading over the requirements that tests prove.
const PROVED: &str = "## Proved";

/// The heading over the requirements that have no tests yet.
const NOT_BUILT: &str = "## Not built yet";

/// Words that ids of the specifications begin with, if a word of [`SPECIFICATIONS`] follows.
const KINDS: [&str; 6] = ["cfg", "fr", "it", "nfr", "sec", "t"];

/// The abbreviations of the specifications. Some ids begin with them.
const SPECIFICATIONS: [&str; 7] = ["exec", "fz", "ggrep", "ipc", "ls", "lsi", "sfi"];

/// A line of one of the two tables.
#[derive(Debug)]
struct Row {
    id: String,
    tests: Vec<String>,
    notes: String,
}

/// The two tables of the document.
#[derive(Debug, Default)]
struct Document {
    proved: Vec<Row>,
    not_built: Vec<Row>,
}

/// Reads the tables; also returns a message for each line that cannot be read.
fn parse(text: &str) -> (Document, Vec<String>) {
    let mut document = Document::default();
    let mut problems = Vec::new();
    let mut section = "";
    for (number, line) in text.lines().enumerate() {
        let mut problem =
            |what: &str| problems.push(format!("line {}: {what}: {line}", number + 1));
        if line.starts_with("## ") {
            section = line;
            continue;
        }
        let Some(cells) = line
            .strip_prefix('|')
            .and_then(|rest| rest.strip_suffix('|'))
        else {
            continue;
        };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        if cells[0] == "id" || cells[0].starts_with("---") {
            continue;
        }
        let [id, requirement, tests, notes] = cells[..] else {
            problem("a row has four cells");
            continue;
        };
        if id.is_empty() || requirement.is_empty() {
            problem("a row needs an id and what is required");
        }
        let row = Row {
            id: id.to_owned(),
            tests: backticked(tests),
            notes: notes.to_owned(),
        };
        let bare = tests
            .split('`')
            .step_by(2)
            .any(|between| !matches!(between.trim(), "" | ","));
        if bare {
            problem("the tests are not `names`, parted by commas");
        }
        match section {
            PROVED => document.proved.push(row),
            NOT_BUILT => document.not_built.push(row),
            _ => problem("a table stands under another heading"),
        }
    }
    (document, problems)
}

/// Returns the texts in backticks.
fn backticked(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Returns the errors in the document and in the names of tests; `existing` has the names of all
/// tests, each as often as there are tests with this name.
fn problems(document: &Document, existing: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    for row in document.proved.iter().chain(&document.not_built) {
        if !ids.insert(&row.id) {
            problems.push(format!(
                "{} stands twice; name all of its tests in one row",
                row.id
            ));
        }
    }
    for row in &document.proved {
        if row.tests.is_empty() {
            problems.push(format!("{} stands as proved, but names no test", row.id));
        }
        for test in &row.tests {
            match existing.iter().filter(|name| *name == test).count() {
                0 => problems.push(format!(
                    "{} names `{test}`, which does not exist; after a rename, change the row too",
                    row.id
                )),
                1 => {}
                _ => problems.push(format!(
                    "{} names `{test}`, a name that several tests have; give each its own",
                    row.id
                )),
            }
        }
    }
    for row in &document.not_built {
        let planned = backticked(&row.notes);
        if !row.tests.is_empty() || planned.iter().any(|test| existing.contains(test)) {
            problems.push(format!(
                "{} stands as not built, but has tests; move its row under '{PROVED}'",
                row.id
            ));
        }
    }
    let named = existing.iter().filter(|test| begins_with_id(test));
    problems.extend(named.map(|test| {
        format!(
            "the name of `{test}` begins with an id; name what is tested, and add the test to the \
             row of this id in docs/conformance.md"
        )
    }));
    problems
}

/// Returns true if the name of a test begins with the id of a requirement or a decision, as in
/// `t_ls_a_01_x`, `exec_5_rows_have_keys` or `d55_names_are_equal`.
fn begins_with_id(test: &str) -> bool {
    let mut words = test.split('_');
    let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let number = first.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let is_numbered = first.len() - number.len() == 1
        && number.starts_with(|c: char| c.is_ascii_digit())
        && !second.is_empty();
    is_numbered
        || SPECIFICATIONS.contains(&first)
        || KINDS.contains(&first) && SPECIFICATIONS.contains(&second)
}

/// Returns the names of the test functions in a Rust source.
fn test_functions(text: &str) -> Vec<String> {
    let code = code_only(text);
    let mut names = Vec::new();
    for (at, attribute) in code.match_indices("#[test]") {
        let rest = &code[at + attribute.len()..];
        // Other attributes may stand between the two.
        if let Some(at) = rest.find("fn ") {
            let name = rest[at + 3..].trim_start();
            names.push(name[..name.find(|c| !is_ident(c)).unwrap_or(name.len())].to_owned());
        }
    }
    names
}

/// Returns true if a file holds cases.
fn is_case_file(path: &str) -> bool {
    let dirs = ["tests/data/cases/", "tests/data/files/"];
    dirs.iter().any(|dir| path.starts_with(dir)) && path.ends_with(".toml")
}

/// Returns the names of the cases in a case file.
fn case_names(text: &str) -> Result<Vec<String>, toml::de::Error> {
    let file: toml::Table = toml::from_str(text)?;
    let cases = file.get("case").and_then(toml::Value::as_array);
    let names = cases
        .into_iter()
        .flatten()
        .filter_map(|case| case.get("name")?.as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Returns every name that the document may use, each as often as there are tests with this name.
fn existing_tests() -> Vec<String> {
    let mut names = Vec::new();
    for file in project_files() {
        if file.path.ends_with(".rs")
            && ["src/", "tests/"]
                .iter()
                .any(|dir| file.path.starts_with(dir))
        {
            names.extend(test_functions(&file.text));
        } else if is_case_file(&file.path) {
            let cases =
                case_names(&file.text).unwrap_or_else(|error| panic!("{}: {error}", file.path));
            names.extend(cases.iter().map(|name| format!("case:{name}")));
        } else if let Some(target) = file.path.strip_prefix("fuzz/fuzz_targets/") {
            names.push(format!("fuzz:{}", target.trim_end_matches(".rs")));
        }
    }
    names
}

/// Returns a message for each decision that an id or the notes cite and that `decisions` does not
/// contain.
fn unknown_decisions(document: &Document, decisions: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    for row in document.proved.iter().chain(&document.not_built) {
        let words = [&row.id, &row.notes].map(|cell| cell.split(|c: char| !c.is_alphanumeric()));
        for word in words.into_iter().flatten() {
            let number = word.strip_prefix('D').unwrap_or_default();
            let cites = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
            if cites && !decisions.contains(&format!("**{word}. ")) {
                unknown.push(format!(
                    "{} cites {word}, which docs/decisions.md does not hold",
                    row.id
                ));
            }
        }
    }
    unknown
}

#[test]
fn a_decision_that_does_not_exist_is_noticed() {
    let text = format!("{PROVED}\n| A-1 | does a | `x` | **deviation** D3, D12; not DX |\n");
    let (document, found) = parse(&text);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(
        unknown_decisions(&document, "**D3. One.** x\n**D12. Two.** y"),
        [""; 0]
    );
    assert_eq!(
        unknown_decisions(&document, "**D3. One.** x\n**D1. Two.** see D12. "),
        ["A-1 cites D12, which docs/decisions.md does not hold"]
    );
}

#[test]
fn the_document_is_true() {
    let text = std::fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    let (document, mut found) = parse(&text);
    assert!(
        !document.proved.is_empty() && !document.not_built.is_empty(),
        "no tables were found"
    );
    found.extend(problems(&document, &existing_tests()));
    assert!(
        found.is_empty(),
        "docs/conformance.md:\n{}",
        found.join("\n")
    );
}

#[test]
fn tests_are_found_where_they_are() {
    let source = "
        #[test]
        fn plain() {}
        // #[test]
        fn helper() { \"#[test] fn text\" }
        proptest! {
            #[test]
            #[cfg(unix)]
            fn property(x in 0..3) {}
        }
    ";
    assert_eq!(test_functions(source), ["plain", "property"]);
    assert_eq!(
        case_names("[[case]]\nname = \"a\"\n[[case]]\nname = \"b c\"\nfiles = {}").unwrap(),
        ["a", "b c"]
    );
    let existing = existing_tests();
    for name in ["tests_are_found_where_they_are", "fuzz:sort_key"] {
        assert!(existing.iter().any(|one| one == name), "{name}");
    }
}

/// Checks a document with the rows `proved` and `not_built`; the tests `it_does_a`, `other` and
/// `case:c` exist, and two tests named `twin`. Returns its only problem, or an empty text.
#[track_caller]
fn check(proved: &[&str], not_built: &[&str]) -> String {
    let head = "| id | requirement | tests | notes |\n| --- | --- | --- | --- |";
    let text = format!(
        "# Title\n\n{PROVED}\n\n{head}\n{}\n\n{NOT_BUILT}\n\n{head}\n{}\n",
        proved.join("\n"),
        not_built.join("\n")
    );
    let (document, mut found) = parse(&text);
    let existing = ["it_does_a", "other", "case:c", "twin", "twin"].map(str::to_owned);
    found.extend(problems(&document, &existing));
    assert!(found.len() <= 1, "{found:?}");
    found.pop().unwrap_or_default()
}

#[test]
fn a_true_document_passes() {
    let first = "| T-LS-A-01 | does a | `it_does_a` | |";
    assert_eq!(
        check(&[first], &["| X-1 | does b | | planned: `it_does_b` |"]),
        ""
    );
    assert_eq!(
        check(&[first, "| FR-B | does b | `other`, `case:c` | D1 |"], &[]),
        ""
    );
}

#[test]
fn an_untrue_document_is_noticed() {
    let first = "| T-LS-A-01 | does a | `it_does_a` | |";
    let missing = check(&[first, "| B | does b | `other`, `gone` | |"], &[]);
    assert!(missing.starts_with("B names `gone`, which does not exist"));
    let case = check(&[first, "| B | does b | `case:gone` | |"], &[]);
    assert!(case.starts_with("B names `case:gone`, which does not exist"));
    let twin = check(&[first, "| B | does b | `twin` | |"], &[]);
    assert!(twin.contains("several tests"), "{twin}");
    let twice = check(&[first, "| B | b | `other` | |"], &["| B | b | | |"]);
    assert!(twice.starts_with("B stands twice"), "{twice}");
    let untested = check(&[first, "| B | does b | | |"], &[]);
    assert_eq!(untested, "B stands as proved, but names no test");
    let bare = check(&[first, "| B | does b | `other` and more | |"], &[]);
    assert!(bare.contains("not `names`"), "{bare}");
    assert!(check(&[first, "| B | does b | `other` |"], &[]).contains("four cells"));
    for row in [
        "| B | does b | `other` | |",
        "| B | does b | | D3; planned: `other` |",
    ] {
        assert!(check(&[first], &[row]).contains("move its row"), "{row}");
    }
}

#[test]
fn names_of_tests_that_begin_with_an_id_are_noticed() {
    for name in [
        "t_ls_a_01_x",
        "fr_lsi_idx_rm_02_x",
        "nfr_sfi_rel_01_x",
        "it_ls_e2e_01_x",
        "cfg_lsi_val_01_x",
        "sec_lsi_01_x",
        "t_fz_x",
        "ipc_must_004_x",
        "exec_5_x",
        "ggrep_x",
        "d55_x",
        "d16c_x",
        "p1_x",
    ] {
        let found = problems(&Document::default(), &[name.to_owned()]);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(found[0].contains("begins with an id"), "{found:?}");
    }
    for name in [
        "it_fits_any_screen",
        "d",
        "t",
        "base64_is_read",
        "a_path_of_ls_is_read",
        "executions_end",
        "case:d55",
    ] {
        assert!(!begins_with_id(name), "{name}");
    }
}
