//! Follows the links of the documents: each relative link leads to a file, and each anchor to a
//! heading.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use super::{Document, documents_below, split_blocks};
use crate::project_files::root;

/// Returns the documents whose links are checked.
pub(super) fn documents() -> Vec<Document> {
    let mut all: Vec<Document> = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "packages/README.md",
    ]
    .map(Document::read)
    .into();
    all.extend(documents_below("docs"));
    all
}

/// Returns the targets of the links in a text. Code has none.
fn targets(text: &str) -> Vec<String> {
    let (_, prose) = split_blocks(text);
    let code = Regex::new("`[^`]*`").unwrap();
    let prose = prose.join("\n");
    let prose = code.replace_all(&prose, "");
    let link = Regex::new(r"\]\(\s*([^)\s]+)[^)]*\)|(?m)^\s*\[[^\]]+\]:\s*(\S+)").unwrap();
    link.captures_iter(&prose)
        .filter_map(|found| found.get(1).or_else(|| found.get(2)))
        .map(|target| target.as_str().to_string())
        .collect()
}

/// Returns the anchors of the headings in a text, as GitHub and mdbook name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let (_, prose) = split_blocks(text);
    let mut found = BTreeSet::new();
    let headings = prose.iter().filter(|line| line.starts_with('#'));
    for heading in headings {
        let name = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = name
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|n| format!("{anchor}-{n}"));
        let mut names = std::iter::once(anchor.clone()).chain(numbered);
        found.extend(names.find(|name| !found.contains(name)));
    }
    found
}

/// Resolves a relative path from the directory of a document, without looking at the disk.
pub(super) fn resolve(from: &str, target: &str) -> PathBuf {
    let mut path = Path::new(from).parent().unwrap().to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{from}: {target} leaves the project"),
            other => path.push(other),
        }
    }
    path
}

/// Returns a sentence if a link of a document leads nowhere.
fn fault(document: &Document, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    let path = if file.is_empty() {
        PathBuf::from(&document.path)
    } else {
        resolve(&document.path, file)
    };
    if !root().join(&path).exists() {
        return Some(format!(
            "{}: {target}: there is no such file",
            document.path
        ));
    }
    let anchor = anchor?;
    let is_known = anchors(&Document::read(path.to_str().unwrap()).text).contains(anchor);
    (!is_known).then(|| format!("{}: {target}: there is no such heading", document.path))
}

#[test]
fn every_link_of_the_documents_leads_to_a_file_and_a_heading() {
    let mut count = 0;
    let mut faults = Vec::new();
    for document in documents() {
        let targets = targets(&document.text);
        count += targets.len();
        faults.extend(targets.iter().filter_map(|target| fault(&document, target)));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert!(count > 50, "only {count} links were found");
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let text = "# One `two`: three\n[a](b.md) `[c](d)` [e\nf](#one-two-three)\n```\n[g](h)\n```\n\
        ## Same\n## Same\n![i](j.svg \"k\")\n[l]: m.md\n";
    assert_eq!(targets(text), ["b.md", "#one-two-three", "j.svg", "m.md"]);
    let expected = ["one-two-three", "same", "same-1"].map(String::from);
    assert_eq!(anchors(text), BTreeSet::from(expected));
    let document = Document::read("docs/guide/searching.md");
    for (target, is_fault) in [
        ("indexing.md#build-one", false),
        ("#patterns", false),
        ("../../README.md", false),
        ("https://example.org/absent", false),
        ("absent.md", true),
        ("indexing.md#absent", true),
        ("#absent", true),
    ] {
        assert_eq!(fault(&document, target).is_some(), is_fault, "{target}");
    }
}
