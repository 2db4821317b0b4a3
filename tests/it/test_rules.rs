//! Checks a rule for tests that reviewers easily miss: no test races the clock.
//!
//! `CONTRIBUTING.md` has all of the rules. A line that needs an exception has a comment above it.
//! The comment starts with `// Real time:` and gives the reason.

use crate::project_files::{code_only, rust_files};

/// The longest sleep in a test. Tests sleep only between two looks at a state.
const LONGEST_PAUSE_MS: u64 = 50;

/// Names of the constant that bounds waiting: in integration tests, and in the unit tests of the
/// crate.
const GUARDS: [&str; 2] = ["GUARD", "LONG"];

fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.ends_with("/tests.rs")
        || path.contains("/tests/") && path.starts_with("src/")
}

/// Parses the number at the start of `text`, which may contain underscores.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_');
    let digits = text[..end.unwrap_or(text.len())].replace('_', "");
    digits.parse().ok()
}

/// Returns the milliseconds of a `sleep` call in the line, if its duration is a literal.
fn pause_ms(line: &str) -> Option<u64> {
    let (_, sleep) = line.split_once("sleep(")?;
    if let Some((_, seconds)) = sleep.split_once("from_secs(") {
        return number(seconds).map(|seconds| seconds * 1_000);
    }
    number(sleep.split_once("from_millis(")?.1)
}

/// Returns true if the line compares elapsed time with an upper bound other than a guard.
fn is_bound(line: &str) -> bool {
    // A loop that runs for some time proves that a state stays.
    if line.trim_start().starts_with("while ") {
        return false;
    }
    ["elapsed() <", "took <", "waited <"]
        .iter()
        .any(|compared| {
            let bound = line.split_once(compared).map(|(_, bound)| bound);
            let last = |bound: &str| {
                let name = bound.trim_start_matches('=').trim_start();
                let end = name.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                let path = name[..end.unwrap_or(name.len())].to_string();
                path.rsplit("::").next().unwrap_or_default().to_string()
            };
            bound.is_some_and(|bound| !GUARDS.contains(&last(bound).as_str()))
        })
}

/// Lists the lines of a test that wait for a time, or that fail on a slow machine.
fn races(path: &str, text: &str) -> Vec<String> {
    if !is_test(path) {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let code = code_only(text);
    let mut found = Vec::new();
    for (n, line) in code.lines().enumerate() {
        let is_excused = lines[n.saturating_sub(3)..n]
            .iter()
            .any(|above| above.trim_start().starts_with("// Real time:"));
        if is_excused {
            continue;
        }
        let at = n + 1;
        if pause_ms(line).is_some_and(|pause| pause > LONGEST_PAUSE_MS) {
            found.push(format!("line {at}: wait for a state, not for a time"));
        }
        if is_bound(line) {
            found.push(format!(
                "line {at}: the only upper bound on real time is `support::GUARD`"
            ));
        }
    }
    found
}

#[test]
fn tests_do_not_race_the_clock() {
    let violations: Vec<String> = rust_files()
        .iter()
        .flat_map(|file| {
            races(&file.path, &file.text)
                .into_iter()
                .map(|found| format!("{}: {found}", file.path))
        })
        .collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn a_race_with_the_clock_is_noticed() {
    let check = |path: &str, text: &str, count: usize| {
        assert_eq!(races(path, text).len(), count, "{path}: {text}");
    };
    let path = "tests/it/x.rs";
    check(
        path,
        "assert!(start.elapsed() < Duration::from_secs(5));",
        1,
    );
    check(path, "assert!(took <= Duration::from_millis(1_500));", 1);
    check(path, "assert!(start.elapsed() < GUARD);", 0);
    check(
        path,
        "assert!(start.elapsed() < crate::support::GUARD, \"late\");",
        0,
    );
    check(path, "assert!(took >= Duration::from_secs(5));", 0);
    check(path, "sleep(Duration::from_secs(1));", 1);
    check(path, "std::thread::sleep(Duration::from_millis(51));", 1);
    check(path, "std::thread::sleep(Duration::from_millis(50));", 0);
    check(path, "// sleep(Duration::from_secs(1))", 0);
    check(
        path,
        "// Real time: the limit of the system.\nsleep(Duration::from_secs(1));",
        0,
    );
    check("src/exec/a.rs", "sleep(Duration::from_secs(1));", 0);
    check("src/exec/a/tests.rs", "sleep(Duration::from_secs(1));", 1);
}
