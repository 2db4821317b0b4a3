//! Processor time of building an index and of searches with it, summed over all threads. The bench
//! `index` measures elapsed time instead. For Unix only.
//!
//! The default tree is generated and has 20,000 files. `FORGE_SEARCH_TREE` names a real tree, which
//! must not change during the run. The patterns for real trees are meant for the sources of Linux.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]
// Benches measure time and ask the environment which tree to use.
#![allow(clippy::disallowed_methods)]

#[path = "support/indexed.rs"]
mod indexed;
#[path = "support/tree.rs"]
mod tree;

use std::path::PathBuf;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, criterion_group, criterion_main};
use forge_search::internal::tool::config::Config;
use forge_search::internal::tool::request::{Case, SearchRequest};
use indexed::{Host, indexed};
use rustix::time::{ClockId, clock_gettime};
use tree::RARE;

/// Processor time of this process.
struct Processor;

impl Measurement for Processor {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn end(&self, started: Duration) -> Duration {
        self.start() - started
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// The queries: a name, the pattern, whether it is a literal, and the maximal number of results.
const QUERIES: &[(&str, &str, bool, u64)] = &[
    ("rare", "kmalloc_array_node", true, 200),
    ("absent", "nosuchidentifier_here", true, 200),
    ("frequent, 200 results", "return", true, 200),
    ("alternation", "kmalloc_array|kvmalloc_node", false, ALL),
    ("classes", "[a-z]{3}_[0-9]{4}_[a-z]{2}", false, ALL),
    ("393 lines", "spin_trylock", true, ALL),
    (
        "420 lines, words of other names",
        "list_splice_init",
        true,
        ALL,
    ),
    ("17,848 lines", "spin_lock_irqsave", true, ALL),
    ("63,171 lines", "dev_err(", true, ALL),
];

const GENERATED: &[(&str, &str, bool, u64)] = &[
    ("rare", RARE, true, 200),
    ("absent", "nosuchidentifier_here", true, 200),
    ("frequent, 200 results", "return", true, 200),
];

const ALL: u64 = 100_000_000;

fn processor(criterion: &mut Criterion<Processor>) {
    let given = std::env::var_os("FORGE_SEARCH_TREE").map(PathBuf::from);
    let queries = match given {
        Some(_) => QUERIES,
        None => GENERATED,
    };
    let top = given.unwrap_or_else(tree::generated);
    let mut config = Config::command_line_default();
    config.search.index_max_tokenized_bytes = 1 << 20;
    let (small, _) = indexed(&top, config);
    let mut group = criterion.benchmark_group("processor time");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(20));
    group.bench_function("build, files up to 1 MiB", |bencher| {
        let top = small.sandbox.working_dir();
        bencher.iter(|| {
            small
                .indexes
                .build(top, small.sandbox.reach(), &Host)
                .unwrap()
        });
    });
    drop(small);
    let (indexed, _) = indexed(&top, Config::command_line_default());
    group.measurement_time(Duration::from_secs(5));
    for &(name, pattern, fixed_strings, wanted) in queries {
        let mut request = SearchRequest::new(pattern);
        request.case = Case::Sensitive;
        request.fixed_strings = fixed_strings;
        request.max_results = Some(wanted);
        request.timeout_ms = Some(600_000);
        let with = indexed.tool.search(&request, &indexed.context).unwrap();
        let without = indexed.plain.search(&request, &indexed.context).unwrap();
        assert_eq!(with, without, "{pattern}");
        println!("{name}: {} results", with.count);
        group.bench_function(name, |bencher| {
            bencher.iter(|| indexed.tool.search(&request, &indexed.context).unwrap());
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(Processor);
    targets = processor
}
criterion_main!(benches);
