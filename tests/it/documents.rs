//! Checks the documents: their shell examples run as shown, their links lead somewhere, and their
//! pictures exist.
//!
//! This module reads documents and their fenced blocks. `examples` runs the shell examples on the
//! tree that `tree` makes, `links` follows the links, and `pictures` looks at the pictures.

mod examples;
mod links;
mod pictures;
mod tree;

use std::fs;

use crate::project_files::root;

/// A document of the project.
struct Document {
    /// The path relative to the project's root, with forward slashes.
    path: String,
    text: String,
}

impl Document {
    fn read(path: &str) -> Document {
        Document {
            path: path.to_string(),
            text: fs::read_to_string(root().join(path)).unwrap(),
        }
    }
}

/// Returns the documents below a directory of the project, in order of their paths.
fn documents_below(dir: &str) -> Vec<Document> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(root().join(dir))
        .unwrap()
        .map(|entry| entry.unwrap())
        .collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let path = format!("{dir}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(documents_below(&path));
        } else if path.ends_with(".md") {
            found.push(Document::read(&path));
        }
    }
    found
}

/// A fenced block of a document.
struct Block {
    language: String,
    /// The number of the first line inside the fence.
    first_line: usize,
    /// The lines, without the indentation of the fence.
    lines: Vec<String>,
}

/// Splits a document into its fenced blocks and the lines around them. Lines of blocks are empty in
/// the second part, so the numbers of the other lines stay.
fn split_blocks(text: &str) -> (Vec<Block>, Vec<&str>) {
    let (mut blocks, mut prose) = (Vec::new(), Vec::new());
    let mut open: Option<(usize, Block)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let indent = line.len() - line.trim_start().len();
        let fence = line.trim_start().strip_prefix("```");
        prose.push(if open.is_none() && fence.is_none() {
            line
        } else {
            ""
        });
        match (&mut open, fence) {
            (None, Some(language)) => {
                let block = Block {
                    language: language.trim().to_string(),
                    first_line: number + 1,
                    lines: Vec::new(),
                };
                open = Some((indent, block));
            }
            (Some(_), Some(_)) => blocks.extend(open.take().map(|(_, block)| block)),
            (Some((outer, block)), None) => {
                let own = line.get(indent.min(*outer)..).unwrap_or_default();
                block.lines.push(own.to_string());
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    (blocks, prose)
}

#[test]
fn blocks_are_split_from_the_lines_around_them() {
    let text = "a\n```sh\nls\n```\n- b\n\n  ```console\n  $ ls\n    c\n  ```\nd\n";
    let (blocks, prose) = split_blocks(text);
    let found: Vec<_> = blocks
        .iter()
        .map(|block| {
            (
                block.language.as_str(),
                block.first_line,
                block.lines.join("|"),
            )
        })
        .collect();
    let expected = [
        ("sh", 3, "ls".to_string()),
        ("console", 8, "$ ls|  c".to_string()),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        prose,
        ["a", "", "", "", "- b", "", "", "", "", "", "d"],
        "lines keep their numbers"
    );
}
