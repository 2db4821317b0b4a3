//! Runs the trees and requests of all cases again, with patterns long enough for an index to
//! exclude files. Every answer must equal the one without an index.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cases::{TOPICS, build, is_impossible, json_of, load, setup_of};
use crate::index_support::{Tally, VARIANTS, compare};
use crate::support::{Tree, is_long, step};

/// Files that control the search, so their content must not change.
const CONTROL: [&str; 5] = [".git", ".gitignore", ".ignore", ".rgignore", "exclude"];

/// Replaces `m` with three letters. Cases mostly search for this single letter, and an n-gram has
/// three.
fn longer(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for &byte in text {
        match byte {
            b'm' => out.extend_from_slice(b"mab"),
            b'M' => out.extend_from_slice(b"MAB"),
            _ => out.push(byte),
        }
    }
    out
}

/// Applies [`longer`] to the files of a tree.
fn lengthen(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let kind = entry.file_type().unwrap();
        if CONTROL.iter().any(|control| name == *control) {
            continue;
        }
        if kind.is_dir() {
            lengthen(&entry.path());
        } else if kind.is_file() {
            let content = fs::read(entry.path()).unwrap();
            let longer = longer(&content);
            // Large files are there for their size, so they stay as they are.
            if longer != content && content.len() < 100_000 {
                fs::write(entry.path(), longer).unwrap();
            }
        }
    }
}

/// Returns the patterns to try in place of a case's own.
fn patterns(own: &str) -> Vec<Value> {
    let text = String::from_utf8(longer(own.as_bytes())).unwrap();
    let mut patterns = vec![
        text,
        "not there".to_string(),
        "mab.*[xyz]absent".to_string(),
    ];
    patterns.dedup();
    patterns.into_iter().map(Value::from).collect()
}

#[test]
fn an_index_changes_the_answer_of_no_case() {
    let mut tally = Tally::default();
    let mut refused = 0;
    for topic in TOPICS {
        let file = load(topic);
        for (turn, case) in file.case.iter().enumerate() {
            if is_impossible(&case.name, file.nodes(case)) {
                continue;
            }
            let tree = Tree::new();
            build(&tree, file.nodes(case));
            lengthen(tree.root());
            let own = json_of(&toml::Value::Table(case.request.clone()), tree.root());
            // Each case runs with the next variant in turn, or with all of them in the long proofs.
            let count = if is_long() { VARIANTS.len() } else { 1 };
            for n in 0..count {
                let variant = VARIANTS[(turn + n) % VARIANTS.len()];
                let setup = setup_of(case, &tree)
                    .threads([1, 4][(turn + n) % 2])
                    .indexed(variant);
                // Each case also runs with some of the patterns in turn.
                let patterns = patterns(own["pattern"].as_str().unwrap_or("m"));
                let skipped = if is_long() {
                    0
                } else {
                    (turn + turn / VARIANTS.len()) % patterns.len()
                };
                let some = patterns.into_iter().skip(skipped).step_by(step().min(3));
                for pattern in some {
                    let mut request = own.clone();
                    request["pattern"] = pattern;
                    println!("{}: {request} with {variant:?}", case.name);
                    let (one, response) = compare(&setup, &request);
                    match response {
                        Some(_) => tally.add(one),
                        None => refused += 1,
                    }
                }
            }
        }
    }
    println!("{refused} were refused");
    // On Windows, only a frozen index skips files.
    tally.check(if cfg!(windows) { 5 } else { 2 });
}
