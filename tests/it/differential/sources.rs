//! A tree of real sources: a copy of part of what this crate is built from, which is on every machine that
//! could build it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::Tree;

/// As many files as are enough to hold every kind of text.
const FILES: usize = 2_000;

/// Generated tables of megabytes would take most of the time and show nothing new.
const LARGEST: u64 = 300_000;

/// The platform that the compiler is for.
fn host() -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_string()
}

/// The directories of the packages that the crate depends on, without the crate itself.
fn packages() -> Vec<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1"])
        // What only other platforms need is not fetched by building for this one.
        .args(["--filter-platform", &host()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "the sources of the dependencies are needed; run `cargo fetch` first: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found: Vec<PathBuf> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| package["source"].is_string())
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            manifest.parent().unwrap().to_path_buf()
        })
        // A locked package that this platform does not need may not have been fetched.
        .filter(|dir| dir.is_dir())
        .collect();
    found.sort_by_key(|dir| dir.file_name().unwrap().to_os_string());
    found
}

/// Every regular file below `dir`.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                todo.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

/// Copies files into a tree until there are enough of them. Files with NUL bytes are left out: what is binary
/// is decided differently by design.
pub(crate) fn tree() -> Tree {
    let tree = Tree::new();
    let mut copied = 0;
    for package in packages() {
        for file in files_below(&package) {
            if copied == FILES {
                return tree;
            }
            if file.metadata().unwrap().len() > LARGEST {
                continue;
            }
            let content = fs::read(&file).unwrap();
            if content.contains(&0) {
                continue;
            }
            let below = file.strip_prefix(package.parent().unwrap()).unwrap();
            let place = tree.root().join(below);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, content).unwrap();
            copied += 1;
        }
    }
    assert!(
        copied > FILES / 2,
        "only {copied} files of the dependencies' sources were found"
    );
    tree
}
