//! A tree of real sources: a copy of some of this crate's dependencies. Every machine that can
//! build the crate has them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::project_files::dependencies;
use crate::support::Tree;

/// The number of files, enough to contain every kind of text.
const FILES: usize = 1_000;

/// The size of the largest files in bytes. Larger ones are generated tables, which take most of the
/// time and test nothing new.
const LARGEST: u64 = 300_000;

/// Returns every regular file below `dir`.
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

/// Copies files into a tree until it has [`FILES`] of them.
///
/// Files with NUL bytes are left out, because ripgrep detects binary files by other rules.
pub(crate) fn tree() -> Tree {
    let tree = Tree::new();
    let mut copied = 0;
    for package in dependencies() {
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
