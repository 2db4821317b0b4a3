//! Tests that the output of commands is safe if file names contain control sequences of terminals.

use forge_search::internal::tool::render::is_unsafe;
use serde_json::Value;

use super::program::{Place, text};

/// Appends `--root` to arguments.
fn at<'a>(root: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    [args, &["--root", root]].concat()
}

#[test]
fn json_of_commands_is_safe_for_terminals_and_means_the_same() {
    let place = Place::new();
    let root = place.dir().join("a\u{1b}[31m\u{202e}\u{9b}31m\u{7f}b");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("needle\u{202e}\u{85}.rs"), "a needle\n").unwrap();
    let root = root.canonicalize().unwrap();
    let named = root.to_str().unwrap();
    let told = |output: std::process::Output, args: &[&str]| -> String {
        let out = text(&output.stdout);
        assert!(!out.is_empty(), "{args:?}: {output:?}");
        let is_unsafe = |c: char| is_unsafe(c) && c != '\n';
        let all = out.clone() + &text(&output.stderr);
        assert!(!all.contains(is_unsafe), "{args:?}: {all:?}");
        out
    };
    // `ggrep status`, without a daemon and with one.
    for _ in 0..2 {
        for args in [
            &["status", "--json"][..],
            &["status", "--verbose"],
            &["status"],
        ] {
            let out = told(place.ggrep(&at(named, args)), args);
            if args.contains(&"--json") {
                let status: Value = serde_json::from_str(&out).unwrap();
                assert_eq!(status["canonical_root"], named);
            }
        }
        let asked = ["--json", "needle"];
        told(place.ggrep(&at(named, &asked)), &asked);
    }
    for args in [&["status", "--all", "--json"][..], &["status", "--all"]] {
        told(place.ggrep(args), args);
    }
    for args in [&["health", "--json"][..], &["health"]] {
        told(place.ggrep(&at(named, args)), args);
    }
    told(place.ggrep(&at(named, &["stop", "--json"])), &["stop"]);
    for args in [
        &["status", "--json"][..],
        &["index", "build"],
        &["index", "build", "--json"],
        &["index", "status"],
        &["index", "status", "--json"],
        &["index", "list"],
        &["index", "list", "--json"],
        &["index", "verify"],
        &["index", "verify", "--json"],
        &["explain", "needle"],
        &["explain", "--json", "needle"],
        &["doctor"],
        &["doctor", "--json"],
        &["--daemon", "off", "needle"],
        &["--daemon", "off", "--json", "needle"],
        &["index", "clear", "--json"],
    ] {
        let args = match args.contains(&"list") {
            true => args.to_vec(),
            false => at(named, args),
        };
        let out = told(place.forge_search(&args), &args);
        if args.contains(&"--json") {
            let means = out
                .lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok());
            let whole = serde_json::from_str::<Value>(&out).is_ok();
            assert!(means || whole, "{args:?}: {out}");
        }
    }
}
