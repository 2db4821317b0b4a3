//! Reports tests that can't prove anything on this machine.
//!
//! The test harness can't skip tests, and hides the output of tests that pass. Each reason is
//! therefore written directly to stderr, as a line that starts with `skipped: `. `.ci/run` and
//! `.ci/test` repeat these lines at their end.

use std::fmt::Display;
use std::io::Write;

/// Environment variable that is set if the machine has all programs and rights that tests need.
const REQUIRED: &str = "FORGE_SEARCH_REQUIRE_PEERS";

/// Reports that the calling test, or a part of it, needs a program that is missing or not
/// permitted. For example, "there is no git" or "`unshare -m` is not allowed".
///
/// # Panics
///
/// If `FORGE_SEARCH_REQUIRE_PEERS` is set.
#[track_caller]
pub(crate) fn skipped(why: impl Display) {
    assert!(
        std::env::var_os(REQUIRED).is_none(),
        "{why}, although {REQUIRED} is set"
    );
    say(&why);
}

/// Reports that the calling test, or a part of it, needs several users, which only root can be.
pub(crate) fn skipped_unless_root(why: impl Display) {
    say(&why);
}

fn say(why: &dyn Display) {
    let thread = std::thread::current();
    // One write for the whole line, and no macro, because the harness captures their output.
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a thread"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn what_is_skipped_is_said_past_the_harness() {
    const CHILD: &str = "FORGE_SEARCH_TEST_SKIPS";
    if std::env::var_os(CHILD).is_some() {
        return skipped("there is no such program");
    }
    let run = |required: bool| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child
            .args([
                "--exact",
                "skipped::what_is_skipped_is_said_past_the_harness",
            ])
            .env(CHILD, "1")
            .env_remove(REQUIRED);
        if required {
            child.env(REQUIRED, "1");
        }
        let output = child.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), err)
    };
    let (passed, err) = run(false);
    let line =
        "skipped: skipped::what_is_skipped_is_said_past_the_harness: there is no such program\n";
    assert!(passed && err.contains(line), "{err}");
    let (passed, err) = run(true);
    assert!(!passed && !err.contains(line), "{err}");
}
