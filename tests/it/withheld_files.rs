//! Tests that people find keys and certificates, that agents don't, and that an index never holds
//! their text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::cli::forge_search;

struct World {
    tree: tempfile::TempDir,
    cache: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let world = World {
            tree: tempfile::tempdir().unwrap(),
            cache: tempfile::tempdir().unwrap(),
        };
        for (path, text) in [
            ("a.txt", "needle in text\n"),
            ("certs/server.pem", "needle zqxvwkjj\n"),
            ("certs/x.txt", "hay\n"),
            (".ssh/config", "needle host\n"),
            ("id_rsa.pub", "needle pub\n"),
            ("z.key/readme", "needle in a directory\n"),
        ] {
            let path = world.tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        world
    }

    fn run(&self, args: &[&str]) -> Output {
        let path = self.cache.path().join("index");
        let mut command = forge_search(self.tree.path());
        let place = format!("index_path={:?}", path.to_str().unwrap());
        command.args(args).args(["--set", &place]);
        command.output().unwrap()
    }

    /// Runs a search. Returns the exit code and the printed paths.
    fn found(&self, args: &[&str]) -> (i32, Vec<String>) {
        let output = self.run(&[args, &["-l"]].concat());
        let lines = String::from_utf8(output.stdout).unwrap();
        let found = lines.lines().map(str::to_string).collect();
        (output.status.code().unwrap(), found)
    }

    /// Answers a request of an agent.
    fn call(&self, request: &Value, sets: &[&str]) -> Value {
        let request = request.to_string();
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let output = self.run(&[&["call", &request], &sets[..]].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The paths of the events of a response.
fn paths(answer: &Value) -> Vec<&str> {
    let matches = answer["matches"].as_array();
    let matches = matches.unwrap_or_else(|| panic!("{answer}")).iter();
    matches
        .map(|one| one["data"]["path"]["text"].as_str().unwrap())
        .collect()
}

/// The bytes of all files below a directory, one after the other.
fn bytes_below(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    let mut dirs: Vec<PathBuf> = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => all.extend(fs::read(path).unwrap()),
            }
        }
    }
    all
}

const OPEN: [&str; 4] = ["a.txt", "certs/server.pem", "id_rsa.pub", "z.key/readme"];

#[test]
fn people_find_keys_with_and_without_an_index() {
    let world = World::new();
    let all = [
        "a.txt",
        "certs/server.pem",
        "id_rsa.pub",
        "z.key/readme",
        ".ssh/config",
    ];
    for built in [false, true] {
        if built {
            assert!(world.run(&["index", "build"]).status.success());
        }
        let (status, found) = world.found(&["needle"]);
        assert_eq!(
            (status, found),
            (0, OPEN.map(String::from).to_vec()),
            "{built}"
        );
        let (_, mut found) = world.found(&["-uu", "needle"]);
        let mut expected = all.map(String::from).to_vec();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{built}");
        assert_eq!(world.found(&["needle", "certs/server.pem"]).0, 0);
        assert_eq!(world.found(&["zqxvwkjj"]).1, ["certs/server.pem"]);
    }
    // An edit is found with the existing index.
    fs::write(world.tree.path().join("certs/server.pem"), "other\n").unwrap();
    fs::write(world.tree.path().join("certs/new.pem"), "zqxvwkjj\n").unwrap();
    assert_eq!(world.found(&["zqxvwkjj"]).1, ["certs/new.pem"]);
}

/// A walk ignores names above the root of an agent, so an index must ignore them too.
#[test]
fn an_index_above_a_root_withholds_no_file_that_a_walk_from_there_finds() {
    let world = World::new();
    let request = json!({"pattern": "needle"}).to_string();
    let root = world.tree.path().join("z.key/d");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("readme"), "needle\n").unwrap();
    let args = ["call", &request, "--root", root.to_str().unwrap()];
    let bare = world.run(&args);
    let answer: Value = serde_json::from_slice(&bare.stdout).unwrap();
    assert_eq!(paths(&answer), ["readme"]);
    assert!(world.run(&["index", "build"]).status.success());
    assert_eq!(world.run(&args).stdout, bare.stdout);
}

#[test]
fn agents_do_not_find_them_and_count_them_nowhere() {
    let world = World::new();
    let request = json!({"pattern": "needle", "hidden": true});
    let bare = world.call(&request, &["index_mode=off"]);
    assert_eq!(paths(&bare), ["a.txt"]);
    assert_eq!(bare["files_scanned"], 2, "{bare}");
    assert!(world.run(&["index", "build"]).status.success());
    for sets in [
        &["index_mode=off"][..],
        &["index_mode=auto"],
        &["index_mode=on"],
    ] {
        for request in [
            json!({"pattern": "needle"}),
            json!({"pattern": "zqxvwkjj"}),
            json!({"pattern": "needle", "path": "certs"}),
            json!({"pattern": "needle", "include_glob": ["*.pem", "*.txt"]}),
            json!({"pattern": "needle", "max_files": 1}),
        ] {
            let answer = world.call(&request, sets);
            let other = world.call(&request, &["index_mode=off"]);
            assert_eq!(answer, other, "{request} {sets:?}");
            assert!(
                paths(&answer).iter().all(|path| *path == "a.txt"),
                "{answer}"
            );
        }
        let named = world.call(&json!({"pattern": "x", "path": "certs/server.pem"}), sets);
        assert_eq!(named["error"]["code"], "denied_pattern_matched", "{named}");
    }
}

#[test]
fn an_index_contains_the_path_of_a_secret_key_and_none_of_its_text() {
    let world = World::new();
    let built = world.run(&["index", "build", "--json"]);
    let report: Value = serde_json::from_slice(&built.stdout).unwrap();
    assert_eq!(report["indexes"][0]["by_status"]["WITHHELD"], 3, "{report}");
    let with_key = bytes_below(world.cache.path());
    assert!(with_key.windows(10).any(|part| part == b"server.pem"));
    // The entry of a key does not depend on its text, so the file is a candidate in every search.
    for pattern in ["zqxvwkjj", "absentabsent"] {
        let output = world.run(&["--stats", "-c", pattern]);
        let stats = String::from_utf8(output.stderr).unwrap();
        let of = |name: &str| {
            let mut lines = stats.lines().map(|line| line.split_whitespace());
            lines.find_map(|mut words| words.next().filter(|word| *word == name).and(words.next()))
        };
        assert_eq!(of("candidates_scanned"), Some("3"), "{pattern}: {stats}");
        assert_eq!(of("candidates_excluded"), Some("2"), "{pattern}: {stats}");
    }
}

#[test]
fn denies_that_the_configuration_sets_hold_for_everybody() {
    let world = World::new();
    let strict = ["--set", "tools.sandbox.include_default_denies=true"];
    for built in [false, true] {
        if built {
            let done = world.run(&[&["index", "build"], &strict[..]].concat());
            assert!(done.status.success());
            let kept = bytes_below(world.cache.path());
            assert!(!kept.windows(10).any(|part| part == b"server.pem"));
        }
        let (_, found) = world.found(&[&["needle"], &strict[..]].concat());
        assert_eq!(found, ["a.txt"], "{built}");
    }
    let open = ["tools.sandbox.include_default_denies=false"];
    let answer = world.call(&json!({"pattern": "needle"}), &open);
    assert_eq!(paths(&answer), OPEN);
}
