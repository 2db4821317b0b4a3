//! Whole searches over a generated tree of 20,000 files: rare, absent and frequent patterns, a
//! literal and expressions, and the walk alone. Also searches in a few known files, as if an index
//! had excluded all others.
//!
//! The tree is the same on every machine. It is created once below the temporary directory, and
//! later runs use it again.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]
// Benches measure time and ask the environment where to put their tree.
#![allow(clippy::disallowed_methods)]

#[path = "support/tree.rs"]
mod tree;

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use forge_search::internal::exec::answer::collect::Limits;
use forge_search::internal::exec::question::query::{Query, QueryOptions, Report};
use forge_search::internal::exec::schedule::{self, AbandonedWorkers, RunOptions};
use forge_search::internal::exec::sources::eligible::{EligibleFile, ListSource};
use forge_search::internal::exec::stop::{CancelHandle, Deadline, SystemClock};
use forge_search::internal::index::root_dir::RootDir;
use forge_search::internal::index::walk::{FoundFile, Place};
use forge_search::internal::tool::config::Config;
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::request::SearchRequest;
use forge_search::internal::tool::response::SearchResponse;
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use tree::RARE;

/// Returns a tool with limits that no query reaches, and a context for the tree.
fn set_up(root: &Path) -> (SearchTool, ToolContext) {
    let mut config = Config::library_default();
    config.search.enabled = true;
    config.search.max_files = 1_000_000;
    config.search.max_matches_per_file = 1_000_000;
    let sandbox = Sandbox::new(&config.sandbox, root).unwrap();
    (
        SearchTool::new(config.search, Engines::embedded()),
        ToolContext::new(Arc::new(sandbox)),
    )
}

fn searches(criterion: &mut Criterion) {
    let root = tree::generated();
    let (tool, context) = set_up(&root);
    let answer = |request: &SearchRequest| -> SearchResponse {
        let response = tool.search(request, &context).unwrap();
        assert!(!response.timed_out);
        response
    };
    let mut group = criterion.benchmark_group("search");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(5));
    let mut bench =
        |name: &str, change: &dyn Fn(&mut SearchRequest), pattern: &str, events: usize| {
            let mut request = SearchRequest::new(pattern);
            request.timeout_ms = Some(600_000);
            change(&mut request);
            // Checks that the query does the intended work.
            let response = answer(&request);
            assert_eq!(response.count, events, "{name}");
            group.bench_function(name, |bencher| {
                bencher.iter(|| black_box(answer(&request)));
            });
        };
    let literal = |request: &mut SearchRequest| request.fixed_strings = true;
    bench("rare_literal", &literal, RARE, 3);
    bench("rare_literal_any_case", &|_| {}, RARE, 3);
    bench("absent_literal", &literal, "Nowhere_To_Be_Found", 0);
    bench("rare_expression", &|_| {}, r"\bzy\w+_q[a-z]{3}\b", 3);
    bench("absent_expression", &|_| {}, r"[A-Z]{3}\d{4}", 0);
    bench("frequent_200_results", &literal, "buffer", 200);
    let context = |request: &mut SearchRequest| request.context = 2;
    bench(
        "frequent_expression_with_context",
        &context,
        r"\bmatch \w+",
        200,
    );
    let many = |request: &mut SearchRequest| request.max_results = Some(20_000);
    bench("frequent_20000_results", &many, "Result", 20_000);
    // Every file is too large to be read, so only the walk is left.
    let walk = |request: &mut SearchRequest| request.max_file_size_bytes = Some(1);
    bench("walk_and_open", &walk, "x", 0);
    let none = |request: &mut SearchRequest| request.include_glob = Some(vec!["*.none".into()]);
    bench("walk_only", &none, "x", 0);
    group.finish();
}

/// Returns the first `count` files of one directory.
fn known_files(root: &Path, count: usize) -> Vec<EligibleFile> {
    let dir = PathBuf::from("crate00/src/m00");
    let root = RootDir::open(root).unwrap();
    let mut names: Vec<_> = root
        .open_dir_entries(&dir)
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.sort();
    let place = Arc::new(Place {
        root: Arc::new(root),
        real: dir.clone(),
        logical: dir,
    });
    let found = |name| FoundFile {
        dir: place.clone(),
        name,
        target: None,
    };
    let files: Vec<EligibleFile> = names
        .into_iter()
        .take(count)
        .map(|name| found(name).into())
        .collect();
    assert_eq!(files.len(), count);
    files
}

/// Benches searches in known files, from compiling the pattern to the last match, and calls on a
/// single file.
fn small_searches(criterion: &mut Criterion) {
    let root = tree::generated();
    let (tool, context) = set_up(&root);
    let engine = tool.engines().chain()[0].clone();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let mut group = criterion.benchmark_group("small");
    let patterns = [
        ("literal", "Nowhere_To_Be_Found", true),
        ("any_case", "nowhere_to_be_found", true),
        ("expression", r"\bnowhere_\w+_found\b", false),
    ];
    for (label, text, fixed) in patterns {
        let options = QueryOptions {
            fixed_strings: fixed,
            max_results: 200,
            max_matches_per_file: 1_000,
            max_file_size: 1 << 20,
            ..QueryOptions::default()
        };
        for count in [0, 1, 10, 16] {
            let files = known_files(&root, count);
            let run = || {
                let query = Query::new(&[text], &options).unwrap();
                let options = RunOptions {
                    limits: Limits {
                        max_results: 200,
                        max_files: 1_000_000,
                        report: Report::Lines,
                    },
                    threads,
                    deadline: Deadline::after(Duration::from_secs(60), Arc::new(SystemClock)),
                    cancel: CancelHandle::new(),
                    abandoned: AbandonedWorkers::default(),
                };
                let prepared = engine.prepare(Arc::new(query)).unwrap();
                let mut drop_part = |part| {
                    black_box(part);
                    ControlFlow::Continue(())
                };
                schedule::run(
                    ListSource(files.clone()),
                    prepared,
                    &options,
                    &mut drop_part,
                )
                .unwrap()
            };
            assert_eq!(run().totals.files_scanned, count as u64);
            group.bench_function(format!("{label}_in_{count}_known_files"), |bencher| {
                bencher.iter(|| black_box(run()));
            });
        }
        let mut request = SearchRequest::new(text);
        request.fixed_strings = fixed;
        request.path = Some("crate00/src/m00/f00000.rs".to_string());
        assert_eq!(tool.search(&request, &context).unwrap().files_scanned, 1);
        group.bench_function(format!("{label}_in_one_named_file"), |bencher| {
            bencher.iter(|| black_box(tool.search(&request, &context).unwrap()));
        });
    }
    group.finish();
}

criterion_group!(benches, searches, small_searches);
criterion_main!(benches);
