//! Checks the pictures of the documents: each one has a text for readers who don't see it, and no
//! picture is committed that no document shows.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;

use super::links::{documents, resolve};
use super::{Document, split_blocks};
use crate::project_files::{project_files, root};

/// The size limit of a picture. Each new version of a picture stays in the history of the project.
const LARGEST_BYTES: u64 = 150_000;

/// A picture that a document shows.
#[derive(Debug, PartialEq)]
struct Picture {
    /// The path relative to the project's root, with forward slashes.
    path: String,
    /// The text alternative.
    text: String,
}

/// Returns the pictures that a document shows.
fn pictures(document: &Document) -> Vec<Picture> {
    let (_, prose) = split_blocks(&document.text);
    let picture = Regex::new(r"!\[([^\]]*)\]\(\s*([^)\s]+)[^)]*\)").unwrap();
    picture
        .captures_iter(&prose.join("\n"))
        .map(|found| Picture {
            path: resolve(&document.path, &found[2])
                .to_string_lossy()
                .replace('\\', "/"),
            text: found[1].to_string(),
        })
        .collect()
}

/// Returns true if a path has the ending of a picture.
fn is_picture(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    ["svg", "png", "gif", "jpg", "jpeg", "webp"].contains(&ending)
}

/// Returns a sentence for each fault of the pictures that are shown or committed.
fn faults(shown: &[Picture], committed: &[String]) -> Vec<String> {
    let shown_paths: BTreeSet<&str> = shown.iter().map(|one| one.path.as_str()).collect();
    let absent = shown_paths
        .iter()
        .filter(|path| !committed.iter().any(|one| one == *path))
        .map(|path| format!("{path}: there is no such picture"));
    let unused = committed
        .iter()
        .filter(|path| !shown_paths.contains(path.as_str()))
        .map(|path| format!("{path}: no document shows this picture"));
    let untold = shown
        .iter()
        .filter(|one| one.text.is_empty())
        .map(|one| format!("{}: the picture has no text alternative", one.path));
    absent.chain(unused).chain(untold).collect()
}

#[test]
fn every_picture_is_committed_shown_and_has_a_text_alternative() {
    let shown: Vec<Picture> = documents().iter().flat_map(pictures).collect();
    let committed: Vec<String> = project_files()
        .into_iter()
        .map(|file| file.path)
        .filter(|path| is_picture(path))
        .collect();
    assert!(committed.len() > 3, "only {committed:?} were found");
    let mut faults = faults(&shown, &committed);
    for path in committed {
        let size = fs::metadata(root().join(&path)).unwrap().len();
        if size > LARGEST_BYTES {
            faults.push(format!("{path}: {size} bytes, more than {LARGEST_BYTES}"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn faults_of_pictures_are_found() {
    let document = Document {
        path: "docs/guide/a.md".to_string(),
        text: "![A b](../b.svg) [c](c.png)\n```\n![d](d.svg)\n```\n![](e.png \"e\")".to_string(),
    };
    let picture = |path: &str, text: &str| Picture {
        path: path.to_string(),
        text: text.to_string(),
    };
    let shown = pictures(&document);
    assert_eq!(
        shown,
        [
            picture("docs/b.svg", "A b"),
            picture("docs/guide/e.png", "")
        ]
    );
    let committed = ["docs/guide/e.png", "docs/f.svg"].map(String::from);
    assert!(committed.iter().all(|path| is_picture(path)));
    assert!(!is_picture("docs/guide/a.md"));
    assert_eq!(
        faults(&shown, &committed),
        [
            "docs/b.svg: there is no such picture",
            "docs/f.svg: no document shows this picture",
            "docs/guide/e.png: the picture has no text alternative",
        ]
    );
}
