//! Tests programs that print their reports in another order than the files have (FR-LSI-ORD-04,
//! T-LSI-DET-02).

use std::ops::ControlFlow;

use forge_search::internal::exec::answer::collect::{Found, Limits};
use forge_search::internal::exec::question::query::Report;
use forge_search::internal::exec::schedule::{AbandonedWorkers, Run, RunOptions, run};
use forge_search::internal::exec::sources::eligible::ListSource;
use forge_search::internal::exec::stop::{CancelHandle, Deadline};

use super::*;
use crate::peers::peer;

/// A real program whose output lines are shuffled.
fn shuffling(tool: Tool, dir: &Path) -> Option<Arc<dyn Engine>> {
    let real = peer(tool)?;
    // Names and notes here contain no line feed, so each record is one line.
    let script = format!("'{}' \"$@\" | shuf", real.path.display());
    Some(fake(tool, dir, &script))
}

/// Many files, most of them with several matching lines.
fn tree() -> Tree {
    let mut tree = Tree::new();
    for n in 0..90 {
        let text = match n % 3 {
            0 => "straw\n".repeat(9),
            _ => format!("hay\nneedle {n}\nhay\nhay\nhay\nneedle and needle\n\nneedle").repeat(4),
        };
        tree.add(format!("{n:03}").as_bytes(), text.as_bytes());
    }
    tree
}

fn limited(max_results: usize) -> RunOptions {
    RunOptions {
        limits: Limits {
            max_results,
            max_files: 1_000_000,
            report: Report::Lines,
        },
        threads: 2,
        deadline: Deadline::after(std::time::Duration::from_secs(600), Arc::new(SystemClock)),
        cancel: CancelHandle::new(),
        abandoned: AbandonedWorkers::default(),
    }
}

fn scheduled(
    engine: &dyn Engine,
    options: &QueryOptions,
    tree: &Tree,
    most: usize,
) -> (Run, Vec<Found>) {
    let query = Arc::new(Query::new(&["needle"], options).unwrap());
    let prepared = engine.prepare(query).unwrap();
    let mut parts = Vec::new();
    let mut take = |part| {
        parts.push(part);
        ControlFlow::Continue(())
    };
    let source = ListSource(tree.files.clone());
    let mut run = run(source, prepared, &limited(most), &mut take).unwrap();
    assert_eq!((&run.failure, run.timed_out), (&None, false));
    // External programs don't report how many bytes they have read.
    run.totals.searched_bytes = 0;
    (run, parts)
}

#[test]
fn a_program_that_shuffles_its_reports_changes_nothing() {
    let tree = tree();
    for tool in [Tool::Ripgrep, Tool::Ugrep] {
        let dir = tempfile::tempdir().unwrap();
        let Some(engine) = shuffling(tool, dir.path()) else {
            continue;
        };
        for (before, after) in [(0, 0), (1, 2)] {
            let options = QueryOptions {
                before,
                after,
                ..options()
            };
            for most in [1, 7, 100, 1_000] {
                let expected = scheduled(&Embedded::default(), &options, &tree, most);
                assert!(!expected.1.is_empty());
                for _ in 0..3 {
                    let found = scheduled(engine.as_ref(), &options, &tree, most);
                    assert_eq!(found, expected, "{tool}, {most}");
                }
            }
        }
        // If only a few lines of a file are reported, they need not be its first ones.
        let few = QueryOptions {
            max_matches_per_file: 3,
            ..options()
        };
        for _ in 0..3 {
            agree(engine.as_ref(), "needle|hay", &few, &tree).unwrap();
        }
    }
}

#[test]
fn approximate_matches_are_put_in_order_too() {
    let Some(real) = peer(Tool::Ugrep) else {
        return;
    };
    let tree = tree();
    let dir = tempfile::tempdir().unwrap();
    let fuzzy = QueryOptions {
        fuzzy: Some(forge_search::internal::exec::question::query::Fuzziness::Edits(1)),
        fixed_strings: true,
        ..options()
    };
    let ordered = engine(real);
    let expected = search(ordered.as_ref(), "neadle", &fuzzy, &tree.files).unwrap();
    let engine = shuffling(Tool::Ugrep, dir.path()).unwrap();
    assert!(expected.iter().any(|outcome| outcome.lines.len() > 3));
    for _ in 0..3 {
        let found = search(engine.as_ref(), "neadle", &fuzzy, &tree.files).unwrap();
        assert_eq!(found, expected);
    }
}

#[test]
fn reported_lines_of_a_file_are_put_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new();
    tree.add(b"a", b"foo 1\nfoo 2\nfoo 3\n");
    tree.add(b"b", b"foo 4\n");
    let path = |name: &[u8]| {
        tree.path(name)
            .canonicalize()
            .unwrap()
            .display()
            .to_string()
    };
    let (a, b) = (path(b"a"), path(b"b"));
    let script = format!(
        "printf '{b}\\0001:x\\n{a}\\0003:x\\n{a}\\0001:x\\n{b}\\0001:x\\n{a}\\0002:x\\n{a}\\0003:x\\n'"
    );
    let engine = fake(Tool::Ripgrep, dir.path(), &script);
    agree(engine.as_ref(), "foo", &options(), &tree).unwrap();
}
