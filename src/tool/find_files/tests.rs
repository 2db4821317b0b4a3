use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::*;
use crate::tool::config::Config;
use crate::tool::engines::Engines;
use crate::tool::sandbox::Sandbox;

const FILES: [&str; 9] = [
    "Cargo.toml",
    "src/lib.rs",
    "src/library/main.rs",
    "src/main.rs",
    "tests/lib_test.rs",
    "tests/surprise/libel.txt",
    "target/lib.rs",
    ".hidden/lib.rs",
    "docs/gr\u{fc}n.md",
];

struct World {
    dir: tempfile::TempDir,
    tool: SearchTool,
    context: ToolContext,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        for (n, path) in (0u64..).zip(FILES) {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "text\n").unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 - n);
            file.set_modified(time).unwrap();
        }
        fs::write(dir.path().join(".ignore"), "target\n").unwrap();
        let mut config = Config::library_default();
        config.search.enabled = true;
        let sandbox = Arc::new(Sandbox::new(&config.sandbox, dir.path()).unwrap());
        World {
            tool: SearchTool::new(config.search, Engines::embedded()),
            context: ToolContext::new(sandbox),
            dir,
        }
    }

    fn find(&self, request: Value) -> FindResponse {
        self.tool.call_find_files(request, &self.context).unwrap()
    }

    fn paths(&self, request: Value) -> Vec<String> {
        let found = self.find(request).files.into_iter();
        found.map(|file| file.path).collect()
    }

    fn refused(&self, request: Value) -> String {
        let answer = self.tool.call_find_files(request, &self.context);
        answer.unwrap_err().message()
    }
}

#[test]
fn files_are_found_by_glob_type_depth_and_directory() {
    let world = World::new();
    let all = world.paths(json!({}));
    assert_eq!(
        all,
        [
            "Cargo.toml",
            "docs/gr\u{fc}n.md",
            "src/lib.rs",
            "src/library/main.rs",
            "src/main.rs",
            "tests/lib_test.rs",
            "tests/surprise/libel.txt"
        ]
    );
    assert_eq!(world.paths(json!({"types": ["rust"]})), all[2..6]);
    assert_eq!(
        world.paths(json!({"globs": ["*.rs", "!tests/"]})),
        all[2..5]
    );
    assert_eq!(
        world.paths(json!({"globs": ["main.rs"], "path": "src"})),
        ["src/library/main.rs", "src/main.rs"]
    );
    assert_eq!(
        world.paths(json!({"max_depth": 1, "path": "src"})),
        ["src/lib.rs", "src/main.rs"]
    );
    let shallow = world.find(json!({"max_depth": 1, "path": "src"}));
    assert!(shallow.truncated);
    let note = "truncated: files in directories deeper than max_depth = 1 were not searched";
    assert!(shallow.notes[0].starts_with(note), "{:?}", shallow.notes);
    // If there is no deeper file, no file is missing.
    let whole = world.find(json!({"max_depth": 2, "path": "src"}));
    assert!(!whole.truncated && whole.notes.is_empty());
    let every = world.find(json!({"hidden": true, "no_ignore": true}));
    assert_eq!(every.total, 10);
}

#[test]
fn rules_that_bring_all_back_show_nothing_of_git() {
    let world = World::new();
    fs::create_dir_all(world.dir.path().join(".git/sub")).unwrap();
    fs::write(world.dir.path().join(".git/sub/q.txt"), "").unwrap();
    fs::write(
        world.dir.path().join(".gitignore"),
        "*\n!*/\n!*.txt\n!.git/**\n",
    )
    .unwrap();
    for hidden in [false, true] {
        let found = world.paths(json!({"globs": ["*.txt"], "hidden": hidden}));
        assert_eq!(found, ["tests/surprise/libel.txt"], "{hidden}");
    }
    // A path that names the directory includes it.
    let named = world.paths(json!({"path": ".git", "name": "q.txt"}));
    assert_eq!(named, [".git/sub/q.txt"]);
}

#[test]
fn a_name_typed_in_part_finds_the_best_path_first() {
    let world = World::new();
    let found = world.find(json!({"name": "srlib"}));
    assert_eq!(found.files[0].path, "src/lib.rs");
    let scores: Vec<u32> = found.files.iter().map(|file| file.score.unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    assert!(found.total >= 3 && found.notes.is_empty(), "{found:?}");
    // Words match in any order; an uppercase letter makes case count.
    assert_eq!(world.paths(json!({"name": "main src"})).len(), 2);
    assert_eq!(world.paths(json!({"name": "cargo"})), ["Cargo.toml"]);
    assert_eq!(world.paths(json!({"name": "Lib"})), Vec::<String>::new());
    assert_eq!(
        world.paths(json!({"name": "lib", "sort": "path"})),
        [
            "src/lib.rs",
            "src/library/main.rs",
            "tests/lib_test.rs",
            "tests/surprise/libel.txt"
        ]
    );
    let none = world.find(json!({"name": "zzz"}));
    assert_eq!((none.total, none.truncated), (0, false));
    assert_eq!(none.to_text(), "[no file was found]\n");
}

#[test]
fn the_file_that_was_changed_last_comes_first() {
    let world = World::new();
    let found = world.find(json!({"sort": "modified", "types": ["rust"]}));
    let times: Vec<i64> = found
        .files
        .iter()
        .map(|file| file.modified_ms.unwrap())
        .collect();
    assert_eq!(times, [999_000, 998_000, 997_000, 996_000]);
    let path = world.dir.path().join("tests/lib_test.rs");
    fs::write(path, "now\n").unwrap();
    let found = world.paths(json!({"sort": "modified", "types": ["rust"], "max_results": 1}));
    assert_eq!(found, ["tests/lib_test.rs"]);
}

#[test]
fn what_is_missing_is_said() {
    let world = World::new();
    let found = world.find(json!({"max_results": 2}));
    assert_eq!((found.returned, found.total, found.truncated), (2, 7, true));
    let note = "truncated: 7 files were found, and 2 are shown. Narrow name, globs or path, or raise max_results";
    let shown = format!("Cargo.toml\ndocs/gr\u{fc}n.md\n[{note}]\n");
    assert_eq!(found.to_text(), shown);
    let capped = world.find(json!({"max_results": 1_000_001}));
    assert_eq!(
        capped.notes,
        ["max_results = 1000001 is above the limit of 100000, which was used instead"]
    );
    // Each byte limit gives the longest list that fits.
    let whole = world.find(json!({})).to_json().len();
    let mut context = world.context.clone();
    let mut returned = 0;
    for bytes in 0..=whole + 100 {
        context.max_output_bytes = Some(bytes);
        let Ok(found) = world.tool.call_find_files(json!({}), &context) else {
            assert_eq!(returned, 0, "{bytes}");
            continue;
        };
        assert!(found.to_json().len() <= bytes, "{bytes}");
        assert!(found.returned >= returned, "{bytes}");
        assert_eq!(found.truncated, found.returned < 7, "{bytes}");
        assert_eq!(found.files.len() as u64, found.returned);
        returned = found.returned;
    }
    assert_eq!(returned, 7);
    let none = world.find(json!({"globs": ["/src/src/*"]}));
    assert!(
        none.notes[0].contains("no eligible file matches"),
        "{none:?}"
    );
}

#[test]
fn wrong_requests_name_the_field() {
    let world = World::new();
    for (request, said) in [
        (json!({"sort": "score"}), "`name` is missing"),
        (json!({"name": "  "}), "`name` is empty"),
        (
            json!({"max_results": 0}),
            "`max_results` must be at least 1",
        ),
        (json!({"globs": ["{"]}), "glob"),
        (json!({"types": ["nope"]}), "nope"),
        (json!({"query": "x"}), "query"),
        (json!({"path": "absent"}), "does not exist"),
        (json!({"path": "../x"}), "`..` component"),
    ] {
        let message = world.refused(request.clone());
        assert!(message.contains(said), "{request}: {message}");
    }
}
