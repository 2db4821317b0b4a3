//! Approximate matching of text in memory, in bytes a second on one core.
//!
//! The text is the sources of this crate, repeated. The bench finds the lines that may match at
//! each level. The patterns are literals, words, classes and more than 64 characters, with and
//! without pieces that the matcher can look for first.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forge_search::internal::exec::matching::fuzzy::FuzzyMatcher;
use forge_search::internal::exec::matching::pattern::Pattern;
use forge_search::internal::exec::question::query::Fold;
use forge_search::internal::exec::stop::Stop;
use grep_matcher::LineMatchKind;

/// The length of the text.
const BYTES: usize = 16 << 20;

/// The queries: a name, the pattern, whether it is a literal, and whether case counts.
const QUERIES: &[(&str, &str, bool, bool)] = &[
    ("12 characters", "kmalloc_arra", true, true),
    ("12 characters, any case", "kmalloc_arra", true, false),
    ("20 characters", "schedule_timeout_idl", true, true),
    // All pieces of this pattern are frequent.
    ("12 common characters", "let self.mut", true, true),
    (
        "100 characters",
        "the quick brown fox jumps over the lazy dog and then the quick brown fox jumps over the lazy dog ago",
        true,
        true,
    ),
    (
        "expression",
        r"(?:read|write)_sequence[0-9]+\(",
        false,
        true,
    ),
    ("classes alone", "[a-f]{6}[0-9]{6}", false, true),
];

/// Returns the ASCII characters of this crate's sources, repeated to the full length.
fn text() -> Vec<u8> {
    fn add(dir: &Path, text: &mut Vec<u8>) {
        let mut entries: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                add(&path, text);
            } else {
                let read = std::fs::read(&path).unwrap();
                text.extend(read.into_iter().filter(u8::is_ascii));
            }
        }
    }
    let mut all = Vec::new();
    add(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    all.iter().copied().cycle().take(BYTES).collect()
}

/// Counts the lines that may match, in the way that files are searched.
fn lines(matcher: &FuzzyMatcher, text: &[u8]) -> usize {
    let worker = matcher.worker(Stop::new());
    let (mut rest, mut count) = (text, 0);
    while let Some(found) = worker.find_candidate_line(rest).unwrap() {
        let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = found;
        count += 1;
        match rest[at..].iter().position(|&byte| byte == b'\n') {
            Some(feed) => rest = &rest[at + feed + 1..],
            None => break,
        }
    }
    count
}

fn matching(criterion: &mut Criterion) {
    let text = text();
    let mut group = criterion.benchmark_group("fuzzy");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .throughput(Throughput::Bytes(text.len() as u64));
    for (name, pattern, fixed, sensitive) in QUERIES {
        let fold = match sensitive {
            true => Fold::Sensitive,
            false => Fold::AsciiInsensitive,
        };
        let pattern = Pattern::compile(pattern, *fixed, fold, false).unwrap();
        for level in 1..=4 {
            let matcher = FuzzyMatcher::new(&pattern, level).unwrap();
            let found = lines(&matcher, &text);
            println!("{name}, level {level}: {found} lines");
            group.bench_function(format!("{name}/{level}"), |bencher| {
                bencher.iter(|| lines(&matcher, black_box(&text)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, matching);
criterion_main!(benches);
