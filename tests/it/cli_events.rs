//! Events on standard error: warnings by default, everything with `--debug` or `RUST_LOG`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::forge_search;

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("a.txt"), "needle\n").unwrap();
    fs::write(tree.path().join("b.txt"), "hay\n").unwrap();
    tree
}

/// Runs a search that must find the line; returns its standard error.
#[track_caller]
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines, "a.txt:1:1:needle\n", "{said}");
    said
}

fn search(dir: &Path, args: &[&str]) -> Command {
    let mut command = forge_search(dir);
    command.args(args).arg("needle");
    command
}

#[test]
fn a_search_without_problems_is_silent() {
    let tree = tree();
    assert_eq!(said(&mut search(tree.path(), &[])), "");
}

#[test]
fn a_refused_root_causes_one_warning() {
    let tree = tree();
    let refused = ["--set", "index_roots=[\".\", \"nowhere\"]"];
    let warned = said(&mut search(tree.path(), &refused));
    assert!(warned.starts_with("forge-search: index root "), "{warned}");
    assert!(warned.contains("nowhere: "), "{warned}");
    assert_eq!(warned.lines().count(), 1, "{warned}");
    // Both tools open indexes of the same roots, and the warning is printed once.
    let mut call = forge_search(tree.path());
    call.args(["call", "--jsonl"]).args(refused);
    let mut child = call
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let request = b"{\"pattern\": \"needle\"}\n";
    child.stdin.take().unwrap().write_all(request).unwrap();
    let output = child.wait_with_output().unwrap();
    let warned = String::from_utf8(output.stderr).unwrap();
    assert_eq!(warned.matches("nowhere").count(), 1, "{warned}");
}

#[test]
fn a_refused_index_path_causes_a_warning() {
    let tree = tree();
    let warned = said(&mut search(
        tree.path(),
        &["--set", "index_path=\"inside\""],
    ));
    assert!(warned.contains("indexes are not kept: "), "{warned}");
    assert!(
        warned.contains("lies inside of the indexed tree"),
        "{warned}"
    );
    let silent =
        said(search(tree.path(), &["--set", "index_path=\"inside\""]).env("RUST_LOG", "off"));
    assert_eq!(silent, "");
}

#[test]
fn a_build_that_fails_in_the_background_causes_a_warning() {
    let tree = tree();
    let mut call = forge_search(tree.path());
    call.args(["call", "--jsonl", "--wait-index"]).args([
        "--set",
        "index_mode=on",
        "--set",
        "index_storage=\"memory\"",
        "--set",
        "index_max_memory_bytes=1",
    ]);
    let mut child = call
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let request = b"{\"pattern\": \"needle\"}\n";
    child.stdin.take().unwrap().write_all(request).unwrap();
    let output = child.wait_with_output().unwrap();
    let warned = String::from_utf8(output.stderr).unwrap();
    assert!(warned.contains("was not built: "), "{warned}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"count\":1"));
}

#[test]
fn debug_and_rust_log_choose_what_is_printed() {
    let tree = tree();
    let told = said(&mut search(tree.path(), &["--debug"]));
    assert!(
        told.contains("forge-search: debug: forge_search::search: searched files=2 "),
        "{told}"
    );
    let chosen = said(search(tree.path(), &[]).env("RUST_LOG", "forge_search::search=debug"));
    assert!(chosen.contains("searched files=2"), "{chosen}");
    assert!(!chosen.contains("forge_search::index"), "{chosen}");
    let wrong = said(search(tree.path(), &[]).env("RUST_LOG", "forge_search=loud"));
    assert!(
        wrong.contains("RUST_LOG=forge_search=loud is ignored: "),
        "{wrong}"
    );
    // Escape sequences in a file name must not reach the terminal.
    let named = tree.path().join("no\u{1b}[31mwhere.toml");
    let output = forge_search(tree.path())
        .args(["needle", "--debug", "--config"])
        .arg(&named)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        !told.contains('\u{1b}') && told.contains("where.toml"),
        "{told}"
    );
}
