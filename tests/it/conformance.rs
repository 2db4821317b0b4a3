//! Checks `docs/conformance.md`: every test that it names exists, and no requirement that has tests
//! is listed as missing.
//!
//! A cell of the column *tests* holds names in backticks: the name of a test function, `case:NAME`
//! for an entry of `tests/data/cases/*.toml` or `tests/data/files/*.toml`, or `fuzz:NAME` for a
//! fuzz target.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{code_only, is_ident, project_files, root};

/// The heading over the requirements that tests prove.
const PROVED: &str = "## Proved";

/// The heading over the requirements that have no tests yet.
const NOT_BUILT: &str = "## Not built yet";

/// The environment variable that, set to `1`, makes the test move rows that now have tests.
const UPDATE: &str = "UPDATE_CONFORMANCE";

/// A line of one of the two tables.
#[derive(Debug)]
struct Row {
    id: String,
    requirement: String,
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
            requirement: requirement.to_owned(),
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

/// Returns the errors in the document; `existing` has the names of all tests.
fn problems(document: &Document, existing: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut rows: BTreeMap<&str, &Row> = BTreeMap::new();
    for row in document.proved.iter().chain(&document.not_built) {
        if rows.insert(&row.id, row).is_some() {
            problems.push(format!("{} stands twice", row.id));
        }
    }
    for row in &document.proved {
        if row.tests.is_empty() {
            problems.push(format!("{} stands as proved, but names no test", row.id));
        }
        for test in &row.tests {
            if !existing.contains(test) {
                problems.push(format!("{} names `{test}`, which does not exist", row.id));
            }
        }
    }
    for row in &document.not_built {
        if !row.tests.is_empty() {
            problems.push(format!("{} stands as not built, but names tests", row.id));
        }
        let proofs = proofs(row, &rows, existing);
        if !proofs.is_empty() {
            problems.push(format!(
                "{} stands as not built, but its tests exist; run the tests with {UPDATE}=1 to move \
                 this row under '{PROVED}':\n{}",
                row.id,
                proved_line(row, &proofs)
            ));
        }
    }
    for test in existing {
        let claims = ["t_ls_", "it_ls_", "t_lsi_", "t_sfi_"]
            .iter()
            .any(|prefix| test.starts_with(prefix));
        if claims && carried_id(test, rows.keys().copied()).is_none() {
            problems.push(format!("`{test}` carries an id that stands in no table"));
        }
    }
    problems
}

/// Returns the existing tests that carry the id of `row`, in backticks.
fn proofs(row: &Row, rows: &BTreeMap<&str, &Row>, existing: &BTreeSet<String>) -> Vec<String> {
    let carries = |test: &&String| carried_id(test, rows.keys().copied()) == Some(&row.id);
    existing
        .iter()
        .filter(carries)
        .map(|test| format!("`{test}`"))
        .collect()
}

/// Formats `row` as a line of the first table.
fn proved_line(row: &Row, proofs: &[String]) -> String {
    let notes = without_plan(&row.notes);
    let line = format!(
        "| {} | {} | {} | {notes} |",
        row.id,
        row.requirement,
        proofs.join(", ")
    );
    line.replace("|  |", "| |")
}

/// Returns the document with each row that now has tests moved to the end of the first table.
fn moved(text: &str, existing: &BTreeSet<String>) -> String {
    let (document, _) = parse(text);
    let all = document.proved.iter().chain(&document.not_built);
    let rows: BTreeMap<&str, &Row> = all.map(|row| (row.id.as_str(), row)).collect();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for row in &document.not_built {
        let proofs = proofs(row, &rows, existing);
        let old = lines
            .iter()
            .rposition(|line| line.starts_with(&format!("| {} | ", row.id)));
        let Some(old) = old.filter(|_| !proofs.is_empty()) else {
            continue;
        };
        lines.remove(old);
        let boundary = lines.iter().position(|line| line == NOT_BUILT).unwrap();
        let last = lines[..boundary]
            .iter()
            .rposition(|line| line.starts_with('|'))
            .unwrap();
        lines.insert(last + 1, proved_line(row, &proofs));
    }
    lines.join("\n") + "\n"
}

/// Returns the id at the start of a test's name, as in `t_ls_trunc_01_more_than_max_results`. An id
/// that ends in `-*` covers its family, except members that have their own row.
fn carried_id<'a>(test: &str, ids: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    ids.filter(|id| {
        let slug = id.trim_end_matches("-*").to_lowercase().replace('-', "_");
        test.strip_prefix(slug.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
    .max_by_key(|id| id.len())
}

/// Returns the notes of a row without the names that were planned for its tests.
fn without_plan(notes: &str) -> &str {
    notes
        .find("planned:")
        .map_or(notes, |at| notes[..at].trim_end_matches([' ', ';']))
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

/// Returns every name that the document may use.
fn existing_tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
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
            names.insert(format!("fuzz:{}", target.trim_end_matches(".rs")));
        }
    }
    names
}

/// Returns a message for each decision that the notes cite and `decisions` does not contain.
fn unknown_decisions(document: &Document, decisions: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    for row in document.proved.iter().chain(&document.not_built) {
        for word in row.notes.split(|c: char| !c.is_alphanumeric()) {
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
    let path = root().join("docs/conformance.md");
    let mut text = std::fs::read_to_string(&path).unwrap();
    if std::env::var_os(UPDATE).is_some_and(|value| value == "1") {
        text = moved(&text, &existing_tests());
        std::fs::write(&path, &text).unwrap();
    }
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
    assert!(existing_tests().contains("tests_are_found_where_they_are"));
    assert!(existing_tests().contains("fuzz:sort_key"));
}

/// Checks a document with the rows `proved` and `not_built`; the tests `t_ls_a_01_x`, `other` and
/// `case:c` exist. Returns its only problem, or an empty text.
#[track_caller]
fn check(proved: &[&str], not_built: &[&str]) -> String {
    let head = "| id | requirement | tests | notes |\n| --- | --- | --- | --- |";
    let text = format!(
        "# Title\n\n{PROVED}\n\n{head}\n{}\n\n{NOT_BUILT}\n\n{head}\n{}\n",
        proved.join("\n"),
        not_built.join("\n")
    );
    let (document, mut found) = parse(&text);
    let existing = ["t_ls_a_01_x", "other", "case:c"].map(str::to_owned);
    found.extend(problems(&document, &existing.into_iter().collect()));
    assert!(found.len() <= 1, "{found:?}");
    found.pop().unwrap_or_default()
}

#[test]
fn a_true_document_passes() {
    let first = "| T-LS-A-01 | does a | `t_ls_a_01_x` | |";
    assert_eq!(
        check(&[first], &["| X-1 | does b | | planned: `x_1_y` |"]),
        ""
    );
    assert_eq!(
        check(&[first, "| FR-B | does b | `other`, `case:c` | D1 |"], &[]),
        ""
    );
}

#[test]
fn an_untrue_document_is_noticed() {
    let first = "| T-LS-A-01 | does a | `t_ls_a_01_x` | |";
    let missing = check(&[first, "| B | does b | `other`, `gone` | |"], &[]);
    assert_eq!(missing, "B names `gone`, which does not exist");
    let case = check(&[first, "| B | does b | `case:gone` | |"], &[]);
    assert_eq!(case, "B names `case:gone`, which does not exist");
    assert_eq!(
        check(&[first, "| B | b | `other` | |"], &["| B | b | | |"]),
        "B stands twice"
    );
    let untested = check(&[first, "| B | does b | | |"], &[]);
    assert_eq!(untested, "B stands as proved, but names no test");
    let bare = check(&[first, "| B | does b | `other` and more | |"], &[]);
    assert!(bare.contains("not `names`"), "{bare}");
    assert!(check(&[first, "| B | does b | `other` |"], &[]).contains("four cells"));
    assert!(check(&[first], &["| B | does b | `other` | |"]).contains("names tests"));
    assert!(check(&[], &[]).contains("stands in no table"));
}

#[test]
fn a_row_whose_tests_exist_is_to_be_moved() {
    let found = check(
        &[],
        &["| T-LS-A-01 | does a | | D3; planned: `t_ls_a_01_other_name` |"],
    );
    assert!(
        found.ends_with("\n| T-LS-A-01 | does a | `t_ls_a_01_x` | D3 |"),
        "{found}"
    );
    // The longest id wins: the test of `T-LS-A-01` is not one of `T-LS-A`.
    let both = ["| T-LS-A-01 | does a | `t_ls_a_01_x` | |"];
    assert_eq!(check(&both, &["| T-LS-* | the others | | |"]), "");
    assert!(check(&[], &["| T-LS-* | a family | | |"]).contains("its tests exist"));
}
