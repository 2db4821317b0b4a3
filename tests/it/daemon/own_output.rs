//! Tests that a search skips the file that its answer is written to: in a process, with an index,
//! and by a daemon.

use std::fs::{self, File};

use super::mcp::PROGRAM;
use super::program::{Place, ok, text};

/// The content of the file before the search.
const BEFORE: &str = "an old needle\n";

/// Runs a command whose output is appended to `out.txt` in the tree, and returns the appended text.
fn added(place: &Place, args: &[&str]) -> String {
    place.write("out.txt", BEFORE);
    let out = place.root().join("out.txt");
    let file = File::options().append(true).open(&out).unwrap();
    let status = place.command(PROGRAM, args).stdout(file).status().unwrap();
    assert!(status.success(), "{args:?}");
    let content = fs::read_to_string(out).unwrap();
    content.strip_prefix(BEFORE).unwrap().to_string()
}

#[test]
fn a_file_that_the_answer_is_written_to_is_not_searched() {
    let place = Place::new();
    for n in 0..300 {
        place.write(&format!("many/{n}.txt"), "a needle\n");
    }
    place.write("out.txt", BEFORE);
    ok(&place
        .command(PROGRAM, &["index", "build"])
        .output()
        .unwrap());
    let forms = [
        &["needle"][..],
        &["-l", "needle"],
        &["-c", "needle"],
        &["--vimgrep", "needle"],
        &["--json", "needle"],
        &["--rg-json", "needle"],
        &["--sortr", "path", "needle"],
        &["--fuzzy", "1", "needla"],
        &["needle", ".", "many"],
    ];
    let ways = [
        &["--daemon", "off", "--index", "off"][..],
        &["--daemon", "off", "--index", "on"],
        &["--daemon", "off", "--set", "backend=auto"],
        &["--daemon", "use"],
    ];
    for (form, said) in [
        (
            &["explain", "needle"][..],
            "which is searched only if its path is given",
        ),
        (
            &["explain", "--json", "needle"],
            "\"leaves_out_own_output\":true",
        ),
    ] {
        let explained = added(&place, form).replace("\": ", "\":");
        assert!(explained.contains(said), "{explained}");
    }
    let mut daemon = None;
    for way in ways {
        if way == ["--daemon", "use"] {
            daemon = Some(place.serve(&[]));
        }
        for form in forms {
            let args = [way, form].concat();
            let found = added(&place, &args);
            assert!(found.contains("299.txt"), "{args:?}: {found}");
            assert!(!found.contains("out.txt"), "{args:?}: {found}");
        }
        // If a path argument names the file, it is searched. If the answer goes elsewhere, it is
        // searched too.
        let named = added(&place, &[way, &["needle", "out.txt"]].concat());
        assert_eq!(named, "out.txt:1:8:an old needle\n", "{way:?}");
        place.write("out.txt", BEFORE);
        let piped = place.command(PROGRAM, &[way, &["-l", "old needle"]].concat());
        assert_eq!(
            text(&{ piped }.output().unwrap().stdout),
            "out.txt\n",
            "{way:?}"
        );
    }
    drop(daemon);
}
