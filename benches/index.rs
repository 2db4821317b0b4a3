//! The index: building, opening, selecting candidates, whole searches, and the costs for a tree of
//! a million files.
//!
//! The default tree is generated and has 20,000 files. `FORGE_SEARCH_TREE` names a real tree, which
//! must not change during the run. `FORGE_SEARCH_FILES` is the size of the synthetic catalog
//! (1,000,000).

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]
// Benches measure time and ask the environment which tree to use.
#![allow(clippy::disallowed_methods)]

#[path = "support/indexed.rs"]
mod indexed;
#[path = "support/tree.rs"]
mod tree;

use std::ffi::OsString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group};
use forge_search::internal::format::segment::StampRecord;
use forge_search::internal::format::storage::Storage;
use forge_search::internal::index::bloom::BloomParams;
use forge_search::internal::index::builder::{BuildOptions, FileReader, assemble};
use forge_search::internal::index::casefold::Casefold;
use forge_search::internal::index::enumerate::{DirEntry, Enumeration, FileEntry};
use forge_search::internal::index::plan::{Strategy, SupersetSafe};
use forge_search::internal::index::root_dir::RootDir;
use forge_search::internal::index::segment::Segment;
use forge_search::internal::index::stamp::Stamp;
use forge_search::internal::index::walk::{Place, RuleSets};
use forge_search::internal::tool::config::Config;
use forge_search::internal::tool::request::{Case, SearchRequest};
use indexed::{Host, indexed};
use tree::{Numbers, RARE, WORDS};

fn real_tree(criterion: &mut Criterion) {
    let given = std::env::var_os("FORGE_SEARCH_TREE").map(PathBuf::from);
    let real = given.is_some();
    let top = given.unwrap_or_else(tree::generated);
    let (indexed, snapshot) = indexed(&top, Config::command_line_default());
    let mut group = criterion.benchmark_group("index");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(20));
    group.bench_function("build", |bencher| {
        let top = indexed.sandbox.working_dir();
        bencher.iter(|| {
            indexed
                .indexes
                .build(top, indexed.sandbox.reach(), &Host)
                .unwrap()
        });
    });
    // This limit is the default for programs that link the library.
    let mut config = Config::command_line_default();
    config.search.index_max_tokenized_bytes = 1 << 20;
    let (small, _) = self::indexed::indexed(&top, config);
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
    group
        .sample_size(50)
        .measurement_time(Duration::from_secs(3));
    let segment = snapshot.segment();
    let patterns: &[(&str, &str)] = match real {
        true => &[
            ("rare", "kmalloc_array_node"),
            ("absent", "nosuchidentifier_here"),
            ("frequent", "return"),
            ("two literals", "kmalloc.*GFP_ATOMIC"),
            ("alternation", "kmalloc_array|kvmalloc_node"),
            ("classes", "[a-z]{3}_[0-9]{4}_[a-z]{2}"),
        ],
        false => &[
            ("rare", RARE),
            ("absent", "nosuchidentifier_here"),
            ("frequent", "return"),
        ],
    };
    for (name, pattern) in patterns {
        for (case, fold) in [("sensitive", false), ("insensitive", true)] {
            let folded = match fold {
                true => format!("(?i-u:{pattern})"),
                false => pattern.to_string(),
            };
            let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
            let hir = parser.parse(&folded).unwrap();
            group.bench_function(format!("candidates, {name}, {case}"), |bencher| {
                bencher.iter(|| {
                    let mut plan = SupersetSafe::for_expression(&hir, fold, Strategy::Boolean);
                    segment.order(&mut plan).unwrap();
                    black_box(segment.candidates(&plan).unwrap())
                });
            });
        }
    }
    for (name, pattern) in patterns {
        let mut request = SearchRequest::new(*pattern);
        request.case = Case::Sensitive;
        let with = indexed.tool.search(&request, &indexed.context).unwrap();
        let without = indexed.plain.search(&request, &indexed.context).unwrap();
        assert_eq!(with, without, "{pattern}");
        group.bench_function(format!("search, {name}, 200 results"), |bencher| {
            bencher.iter(|| indexed.tool.search(&request, &indexed.context).unwrap());
        });
    }
    group.finish();
}

/// Lists `count` files, 20 in each directory.
fn small_files(count: usize, root: &Arc<RootDir>, stamp: Stamp) -> Enumeration {
    let mut tree = Enumeration::default();
    let place = |logical: PathBuf| {
        Arc::new(Place {
            root: root.clone(),
            real: logical.clone(),
            logical,
        })
    };
    tree.dirs.push(DirEntry {
        place: place(PathBuf::new()),
        parent: 0,
        ranks: 0..count,
        stamp: Some(stamp),
        sets: RuleSets::EVERY,
    });
    for rank in 0..count {
        if rank % 20 == 0 {
            tree.dirs.push(DirEntry {
                place: place(PathBuf::from(format!("package-{:06}", rank / 20))),
                parent: 0,
                ranks: rank..(rank + 20).min(count),
                stamp: Some(stamp),
                sets: RuleSets::EVERY,
            });
        }
        tree.files.push(FileEntry {
            dir: tree.dirs.len() as u32 - 1,
            name: OsString::from(format!("module_{:02}.c", rank % 20)),
            stamp: Some(stamp),
            linked: false,
            sets: RuleSets::EVERY,
        });
    }
    tree
}

/// Benches a catalog of a million small files in 50,000 directories. The words of the texts have a
/// long-tailed distribution.
fn million(criterion: &mut Criterion) {
    let count = std::env::var("FORGE_SEARCH_FILES").map_or(1_000_000, |text| text.parse().unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let root = Arc::new(RootDir::open(&scratch.path().canonicalize().unwrap()).unwrap());
    let stamp = Stamp::from_record(StampRecord {
        len: 1_500,
        modified_ns: 1,
        changed_ns: 1,
        device: 1,
        inode: 1,
        links: 1,
    });
    let tree = small_files(count, &root, stamp);
    let options = BuildOptions {
        words: false,
        params: BloomParams::from_config(1 << 20, 0.01),
        casefold: Casefold::Ascii,
        max_tokenized_bytes: 1 << 20,
        max_memory_bytes: 512 << 20,
    };
    let read = |reader: &mut FileReader, rank: usize| {
        let mut numbers = Numbers(rank as u64);
        let mut text = String::new();
        while text.len() < 1_500 {
            // A common word, or one of 100,000 words of decreasing frequency.
            let rarity = 1 + numbers.below(100_000);
            if numbers.below(3) == 0 {
                text.push_str(&format!("w{:x}_q", numbers.below(rarity)));
            } else {
                text.push_str(WORDS[numbers.below(WORDS.len())]);
            }
            text.push(if numbers.below(8) == 0 { '\n' } else { ' ' });
        }
        reader.tokenize(Path::new("a.rs"), text.as_bytes(), stamp)
    };
    let path = scratch.path().join("million.seg");
    let file = std::fs::File::create(&path).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))
            .unwrap();
    }
    let out = std::io::BufWriter::with_capacity(1 << 20, file);
    let built = assemble(&tree, i64::MAX, &options, &Host, out, &read).unwrap();
    drop(tree);
    println!(
        "{} files, segment of {} MB",
        built.meta.files,
        built.summary.len / 1_000_000
    );
    // Another process measures memory: here, it would reuse memory that the build has freed.
    let program = std::env::current_exe().unwrap();
    let status = Command::new(program)
        .arg("--bench")
        .env(AT_REST, &path)
        .status();
    assert!(status.unwrap().success());
    let segment = Segment::open(Storage::map(&path).unwrap()).unwrap();
    let mut group = criterion.benchmark_group("a million files");
    group
        .sample_size(30)
        .measurement_time(Duration::from_secs(3));
    for pattern in ["w1869f_q", "nosuchidentifier_here", "config_of"] {
        group.bench_function(format!("candidates, {pattern}"), |bencher| {
            bencher.iter(|| {
                let mut plan = SupersetSafe::for_literal(pattern, false);
                segment.order(&mut plan).unwrap();
                black_box(segment.candidates(&plan).unwrap())
            });
        });
    }
    group.finish();
}

/// The environment variable that makes a process measure the memory of an opened segment. Its value
/// is the segment's path.
const AT_REST: &str = "FORGE_SEARCH_AT_REST";

/// Opens a segment and lets it answer, so that it fills its caches. Prints the memory that it takes
/// in addition to the mapping.
fn at_rest(path: &Path) {
    let before = resident();
    let segment = Segment::open(Storage::map(path).unwrap()).unwrap();
    segment.find_dir(Path::new("package-000001")).unwrap();
    let plan = SupersetSafe::for_literal("nosuchidentifier_here", false);
    drop(segment.candidates(&plan).unwrap());
    if let (Some(before), Some(after)) = (before, resident()) {
        let each = after.saturating_sub(before) as f64 / f64::from(segment.file_count());
        println!("memory at rest beside the mapping: {each:.1} bytes a file");
    }
}

/// Returns the anonymous memory of this process, in bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

criterion_group!(benches, real_tree, million);

fn main() {
    match std::env::var_os(AT_REST) {
        Some(path) => at_rest(Path::new(&path)),
        None => {
            benches();
            Criterion::default().configure_from_args().final_summary();
        }
    }
}
