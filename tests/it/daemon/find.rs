//! Compares `find_files` with ripgrep's list of files, whichever process answers.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use forge_search::internal::exec::external::detect::Tool;
use serde_json::{Value, json};

use super::mcp::{Wire, shown};
use super::program::{Place, ok};
use crate::peers::peer;

/// Returns the files that ripgrep would search, or `None` without ripgrep.
fn listed_by_ripgrep(place: &Place, args: &[&str]) -> Option<BTreeSet<String>> {
    let program = peer(Tool::Ripgrep)?;
    let mut command = Command::new(program.path);
    command.args(["--no-config", "--files"]).args(args);
    let output = command.current_dir(place.root()).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(str::to_string).collect())
}

#[test]
fn process_index_and_daemon_find_the_same_files() {
    let place = Place::new();
    for path in [
        "lib/a.rs",
        "lib/b.py",
        "lib/deep/er/a_test.rs",
        "target/a.rs",
        "gone/a.rs",
        ".github/ci.yml",
    ] {
        place.write(path, "text\n");
    }
    place.write(".ignore", "target\n");
    let mut wire = Wire::greeted(&place, &["--set", "index_mode=on"]);
    let mut id = 0;
    let mut by_daemon = |request: &Value| -> Vec<String> {
        id += 1;
        let params = json!({"name": "find_files", "arguments": request});
        wire.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        let answer = wire.answer(id);
        let lines = shown(&answer).lines();
        let lines = lines.filter(|line| !line.starts_with('['));
        lines.map(str::to_string).collect()
    };
    let by_process = |request: &Value, mode: &str| -> Vec<String> {
        let request = request.to_string();
        let args = ["call", "--tool", "find_files", &request, "--set", mode];
        let answer: Value = serde_json::from_str(&ok(&place.forge_search(&args))).unwrap();
        let files = answer["files"].as_array().unwrap().iter();
        files
            .map(|file| file["path"].as_str().unwrap().to_string())
            .collect()
    };
    let edits: [&dyn Fn(); 5] = [
        &|| {},
        &|| place.write("lib/new.rs", "text\n"),
        &|| fs::rename(place.root().join("lib/deep"), place.root().join("shallow")).unwrap(),
        &|| fs::remove_dir_all(place.root().join("gone")).unwrap(),
        &|| place.write("lib/.ignore", "*.py\n"),
    ];
    for (round, edit) in edits.iter().enumerate() {
        edit();
        for (request, args) in [
            (json!({}), Some(&[][..])),
            (json!({"globs": ["*.rs"]}), Some(&["-g", "*.rs"])),
            (json!({"types": ["py"]}), Some(&["-tpy"])),
            (json!({"hidden": true}), Some(&["-."])),
            (json!({"no_ignore": true}), Some(&["--no-ignore"])),
            (json!({"max_depth": 1}), Some(&["--max-depth=1"])),
            (json!({"name": "ars"}), None),
            (json!({"name": "lib", "path": "lib"}), None),
            (json!({"sort": "modified", "max_results": 3}), None),
        ] {
            let plain = by_process(&request, "index_mode=off");
            let what = format!("{round}, {request}");
            assert_eq!(by_process(&request, "index_mode=auto"), plain, "{what}");
            assert_eq!(by_daemon(&request), plain, "{what}");
            if let Some(args) = args
                && let Some(expected) = listed_by_ripgrep(&place, args)
            {
                let found: BTreeSet<String> = plain.into_iter().collect();
                assert_eq!(found, expected, "{what}");
            }
        }
        if round == 0 {
            ok(&place.forge_search(&["index", "build"]));
        }
    }
}
