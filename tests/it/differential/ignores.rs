//! Compares the eligible files of trees with generated ignore files with ripgrep's.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::json;

use super::Seeded;
use super::rg::{Ripgrep, parse_files};
use crate::support::{Tree, seeds};

pub(crate) const DIRS: &[&str] = &["a", "b", "build", "src", ".cfg", "x.d"];
pub(crate) const FILES: &[&str] = &[
    "a", "b", "main.rs", "lib.rs", "a.log", "b.tmp", ".env", ".a", "#n", "!n", "z z", "é.log",
];

/// Names and globs for rules.
const PARTS: &[&str] = &[
    "a",
    "b",
    "build",
    "src",
    ".cfg",
    "x.d",
    "main.rs",
    "*.log",
    "*.rs",
    "*.tmp",
    ".*",
    "*",
    "?",
    "[ab]",
    "[!a]*",
    "*.{log,tmp}",
    "**",
    "é*",
    "ma?n.rs",
    ".env",
    "x*",
    r"\#n",
    r"z\ z",
];

fn rule(rng: &mut Seeded) -> String {
    let mut rule = String::new();
    if rng.one_in(4) {
        rule.push('!');
    }
    if rng.one_in(4) {
        rule.push('/');
    }
    rule.push_str(rng.pick(PARTS));
    while rng.one_in(4) {
        rule.push('/');
        rule.push_str(rng.pick(PARTS));
    }
    if rng.one_in(4) {
        rule.push('/');
    }
    if rng.one_in(12) {
        rule.push_str("  ");
    }
    rule
}

/// Generates the text of an ignore file.
pub(crate) fn rules(rng: &mut Seeded) -> String {
    let mut text = String::new();
    for _ in 0..1 + rng.below(4) {
        match rng.below(12) {
            0 => text.push_str("# a note"),
            1 => {}
            _ => text.push_str(&rule(rng)),
        }
        text.push_str(if rng.one_in(10) { "\r\n" } else { "\n" });
    }
    text
}

/// Plants files, directories and ignore files below `dir`.
pub(crate) fn plant(tree: &Tree, rng: &mut Seeded, dir: &str, depth: usize) {
    let at = |name: &str| {
        if dir.is_empty() {
            name.to_string()
        } else {
            format!("{dir}/{name}")
        }
    };
    for name in FILES {
        if rng.one_in(2) {
            tree.file(&at(name), "m\n");
        }
    }
    for (name, odds) in [(".gitignore", 2), (".ignore", 4), (".rgignore", 6)] {
        if rng.one_in(odds) {
            let text = rules(rng);
            tree.file(&at(name), format!("{text}# m\n"));
        }
    }
    if rng.one_in(if dir.is_empty() { 2 } else { 12 }) {
        tree.file(&at(".git/info/exclude"), format!("{}# m\n", rules(rng)));
    }
    if depth > 0 {
        for name in DIRS {
            let taken = tree.path(&at(name)).exists();
            if rng.one_in(3) && !taken {
                plant(tree, rng, &at(name), depth - 1);
            }
        }
    }
}

/// The directories of the tree, as paths relative to its root. The root itself comes first.
fn directories(tree: &Tree) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut todo = vec![tree.root().to_path_buf()];
    while let Some(dir) = todo.pop() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() && !path.ends_with(".git") && !path.ends_with("info") {
                let below = path.strip_prefix(tree.root()).unwrap();
                found.push(below.to_str().unwrap().to_string());
                todo.push(path);
            }
        }
    }
    found
}

/// Returns the eligible files. Every file holds a match, so they are the files with events.
fn eligible(tree: &Tree, dir: &str, hidden: bool, no_ignore: bool) -> BTreeSet<PathBuf> {
    let mut request = json!({"pattern": "m", "hidden": hidden, "no_ignore": no_ignore});
    if !dir.is_empty() {
        request["path"] = dir.into();
    }
    let response = tree.setup().generous().search(request);
    assert!(response.errors.is_empty(), "{:?}", response.errors);
    let found: BTreeSet<PathBuf> = response
        .matches
        .iter()
        .map(|record| {
            PathBuf::from(&record.data.path.text)
                .strip_prefix(dir)
                .unwrap()
                .to_path_buf()
        })
        .collect();
    assert_eq!(found.len() as u64, response.files_scanned);
    found
}

#[test]
fn generated_ignore_files_leave_the_files_of_ripgrep() {
    let Some(rg) = Ripgrep::newest() else { return };
    let (mut compared, mut files) = (0, 0);
    for seed in 0..seeds(160) {
        let mut rng = Seeded::new(seed);
        let tree = Tree::new();
        plant(&tree, &mut rng, "", 3);
        let directories = directories(&tree);
        for round in 0..4 {
            let dir = match round {
                0 | 1 => String::new(),
                _ => rng.pick(&directories),
            };
            let (hidden, no_ignore) = (rng.one_in(2), rng.one_in(6));
            let mut args = vec!["--files".to_string(), "-0".to_string()];
            args.extend(hidden.then(|| "--hidden".to_string()));
            args.extend(no_ignore.then(|| "--no-ignore".to_string()));
            let output = rg.run(&tree.root().join(&dir), &args);
            let expected: BTreeSet<PathBuf> = parse_files(&output).into_iter().collect();
            let found = eligible(&tree, &dir, hidden, no_ignore);
            let missing: Vec<_> = expected.difference(&found).collect();
            let extra: Vec<_> = found.difference(&expected).collect();
            assert!(
                missing.is_empty() && extra.is_empty(),
                "seed {seed}, in {dir:?}, hidden {hidden}, no_ignore {no_ignore}: ripgrep {} has {missing:?} \
                 beyond ours, we have {extra:?} beyond its",
                rg.major
            );
            compared += 1;
            files += found.len();
        }
    }
    println!(
        "{compared} sets of eligible files, {files} files in all, are equal to ripgrep {}'s",
        rg.major
    );
}
