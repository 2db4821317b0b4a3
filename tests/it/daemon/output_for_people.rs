//! Tests the output for people of `ggrep` and of `forge-search ask`, which are the same.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::program::{Place, halt, kill, ok, text};

#[test]
fn ask_is_ggrep_by_another_name() {
    let place = Place::new();
    let asked = place.forge_search(&["ask", "retry delay"]);
    assert!(ok(&asked).starts_with("src/delay.rs:1"), "{asked:?}");
    assert_eq!(asked.stdout, place.ggrep(&["retry delay"]).stdout);
    assert_eq!(place.daemons().len(), 1, "both ask one daemon");
    let options = [
        "--limit",
        "1",
        "--mode",
        "debug",
        "--snippet",
        "none",
        "retry",
        "src",
    ];
    let asked = place.forge_search(&[&["ask"], &options[..]].concat());
    assert_eq!(ok(&asked), ok(&place.ggrep(&options)));
    let status = place.forge_search(&["ask", "status", "--json"]);
    let status: Value = serde_json::from_str(&ok(&status)).unwrap();
    assert_eq!(status["daemon"]["pid"], place.daemons()[0]);
    // After `--`, the word `status` is a query. Invalid queries are refused alike.
    assert_eq!(
        place.forge_search(&["ask", "--", "status"]).status.code(),
        Some(1)
    );
    let wrong = place.forge_search(&["ask", "  "]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    assert!(
        text(&wrong.stderr).contains("the question is blank"),
        "{wrong:?}"
    );
    assert_eq!(ok(&place.forge_search(&["ask", "stop"])), "stopped\n");
    let help = ok(&place.forge_search(&["--help"]));
    assert!(help.contains("\n  ask "), "{help}");
    let help = ok(&place.forge_search(&["ask", "--help"]));
    assert!(
        help.contains("--fallback") && help.contains("status"),
        "{help}"
    );
}

#[test]
fn printed_paths_of_a_question_can_be_opened_from_the_directory_of_the_shell() {
    let place = Place::new();
    let (top, root) = (place.dir().canonicalize().unwrap(), place.root());
    for dir in [root.join(".git"), root.join("docs"), top.join("side")] {
        fs::create_dir_all(dir).unwrap();
    }
    symlink(root.join("src"), top.join("link")).unwrap();
    let absolute = root.join("src/delay.rs");
    for (here, args, expected) in [
        (root.clone(), &["retry_delay"][..], "src/delay.rs"),
        (root.join("src"), &["retry_delay"], "delay.rs"),
        (
            root.join("docs"),
            &["retry_delay", "../src"],
            "../src/delay.rs",
        ),
        (top.join("link"), &["retry_delay"], "delay.rs"),
        (
            top.clone(),
            &["--root", "tree", "retry_delay"],
            "tree/src/delay.rs",
        ),
        (
            top.join("side"),
            &["--root", "../tree", "retry_delay"],
            absolute.to_str().unwrap(),
        ),
    ] {
        for form in [&[][..], &["--snippet", "none"]] {
            let args = [form, args].concat();
            let mut asked = place.command(env!("CARGO_BIN_EXE_ggrep"), &args);
            let shown = ok(&asked.current_dir(&here).output().unwrap());
            let path = shown.split(':').next().unwrap();
            assert_eq!(path, expected, "{here:?} {args:?}");
            assert!(here.join(path).is_file(), "{here:?} {args:?}: {shown}");
        }
    }
}

#[test]
fn paths_numbers_and_the_words_of_a_question_are_coloured_if_asked() {
    let place = Place::new();
    let asked = |color| ok(&place.ggrep(&["--color", color, "--limit", "1", "retry DELAYS"]));
    let coloured = asked("always");
    assert!(
        coloured.starts_with("\x1b[35msrc/delay.rs\x1b[0m:1"),
        "{coloured:?}"
    );
    for painted in ["\x1b[32m     1\x1b[0m  ", "\x1b[1m\x1b[31mretry\x1b[0m"] {
        assert!(coloured.contains(painted), "{coloured:?}");
    }
    let plain = regex::Regex::new("\x1b\\[[0-9]+m").unwrap();
    assert_eq!(plain.replace_all(&coloured, ""), asked("never"));
    assert_eq!(asked("auto"), asked("never"), "no terminal");
}

#[test]
fn a_question_without_results_exits_with_1() {
    let place = Place::new();
    for program in [&["ask"][..], &[]] {
        let ask = |args: &[&str]| match program {
            [] => place.ggrep(args),
            _ => place.forge_search(&[program, args].concat()),
        };
        let none = ask(&["zzz_not_there"]);
        assert_eq!(none.status.code(), Some(1), "{none:?}");
        assert_eq!(text(&none.stderr), "ggrep: nothing was found\n");
        let none = ask(&["--json", "zzz_not_there"]);
        assert_eq!(none.status.code(), Some(1), "{none:?}");
        let answer: Value = serde_json::from_slice(&none.stdout).unwrap();
        super::schemas::check("query_success", &answer);
        let none = ask(&["--no-start", "--fallback", "zzz_not_there"]);
        assert_eq!(none.status.code(), Some(1), "{none:?}");
        ok(&ask(&["retry"]));
    }
}

/// Returns a value of a table by the name of its row.
fn cell<'a>(table: &'a str, name: &str) -> &'a str {
    let mut lines = table.lines();
    let value = lines.find_map(|line| line.strip_prefix(&format!("{name:<9}")));
    value.unwrap_or_else(|| panic!("no {name} in {table}"))
}

#[test]
fn status_is_a_short_table_and_lists_all_daemons() {
    let place = Place::new();
    let none = place.ggrep(&["status", "--all"]);
    assert_eq!(ok(&none), "");
    assert!(text(&none.stderr).contains("no daemon"), "{none:?}");
    let shown = ok(&place.ggrep(&["status"]));
    assert_eq!(cell(&shown, "state"), "no daemon runs");
    ok(&place.ggrep(&["retry"]));
    let shown = ok(&place.ggrep(&["status"]));
    assert!(shown.lines().count() <= 7, "{shown}");
    assert_eq!(cell(&shown, "tree"), place.root().to_str().unwrap());
    assert_eq!(cell(&shown, "pid"), place.daemons()[0].to_string());
    assert_eq!(cell(&shown, "socket"), place.sockets()[0].to_str().unwrap());
    assert_eq!(cell(&shown, "version"), env!("CARGO_PKG_VERSION"));
    // A daemon of another tree, with another configuration.
    let other = place.dir().join("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.canonicalize().unwrap();
    let root = ["--root", other.to_str().unwrap()];
    place.ggrep(&[&root[..], &["--set", "threads=1", "retry"]].concat());
    let all = ok(&place.ggrep(&["status", "--all"]));
    let trees: Vec<&str> = all.split("\n\n").map(|one| cell(one, "tree")).collect();
    let own = place.root();
    assert_eq!(trees, [other.to_str().unwrap(), own.to_str().unwrap()]);
    // A daemon that does not answer is listed all the same.
    let stopped = cell(&all, "pid").parse().unwrap();
    halt(stopped);
    let all: Value =
        serde_json::from_str(&ok(&place.ggrep(&["status", "--all", "--json"]))).unwrap();
    kill(stopped, rustix::process::Signal::CONT);
    let daemons = all["daemons"].as_array().unwrap();
    assert_eq!(daemons.len(), 2);
    assert_eq!(
        (&daemons[0]["pid"], &daemons[0]["state"]),
        (&stopped.into(), &"unknown".into())
    );
    assert_eq!(daemons[1]["tree"], own.to_str().unwrap());
    for pid in place.daemons() {
        kill(pid, rustix::process::Signal::KILL);
    }
    // A killed process disappears from `/proc` before its last thread releases its locks.
    super::program::wait_until("notes of those are leftovers", || {
        place.daemons().is_empty() && ok(&place.ggrep(&["status", "--all"])).is_empty()
    });
}
