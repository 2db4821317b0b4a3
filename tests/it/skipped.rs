//! Tests that can prove nothing on this machine, and say so.
//!
//! The test harness knows no skipping and hides the output of tests that pass. So each reason goes
//! to the standard error past it, as a line that begins with `skipped: `; `.ci/run` repeats these
//! lines at its end.

use std::fmt::Display;
use std::io::Write;

/// Set where every program and right is there that tests need.
const REQUIRED: &str = "FORGE_SEARCH_REQUIRE_PEERS";

/// Says that the calling test, or a part of it, needs a program that is missing, or one that this
/// machine does not let work. For example, "there is no git" or "`unshare -m` is not allowed".
///
/// # Panics
///
/// If all of these have to be there.
#[track_caller]
pub(crate) fn skipped(why: impl Display) {
    assert!(
        std::env::var_os(REQUIRED).is_none(),
        "{why}, although {REQUIRED} is set"
    );
    say(&why);
}

/// Says that the calling test, or a part of it, needs another user: only root can be several.
pub(crate) fn skipped_unless_root(why: impl Display) {
    say(&why);
}

fn say(why: &dyn Display) {
    let thread = std::thread::current();
    // In one piece, and not through a macro, which the harness would capture.
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
