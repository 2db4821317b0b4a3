//! Measurements of a live index:
//!
//! - the time of searches during its build;
//! - the delay until an edit is found;
//! - the cost of the cookie barrier;
//! - the effects of many changes at once.
//!
//! The cookie barrier proves that all changes were reported. The tree is a copy, because the bench
//! changes it: of the generated tree of 20,000 files, or of the tree that `FORGE_SEARCH_TREE`
//! names. `FORGE_SEARCH_EDITS` is the number of single edits (300). `FORGE_SEARCH_SWITCH` is the
//! number of files that change at once (20,000, and at most half of all files).
//!
//! All measurements are made once and in one process, so that the numbers are comparable.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]
// Benches measure time and ask the environment which tree to use.
#![allow(clippy::disallowed_methods)]

#[path = "support/tree.rs"]
mod tree;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forge_search::internal::index::watch::{
    Barrier, FsEvent, FsEventHandler, NativeWatchers, WatcherFactory,
};
use forge_search::internal::tool::config::{Config, IndexMode};
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::indexing::{CachePlaces, Indexes, LiveEnvironment, Report};
use forge_search::internal::tool::request::{Case, SearchRequest};
use forge_search::internal::tool::response::SearchResponse;
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use rustix::time::{ClockId, clock_gettime};
use tree::RARE;

/// A timeout that no step reaches.
const LONG: Duration = Duration::from_secs(600);

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Copies regular files and directories, and appends the copied files to `files`.
fn copy(from: &Path, to: &Path, files: &mut Vec<PathBuf>) {
    fs::create_dir_all(to).unwrap();
    let mut entries: Vec<_> = fs::read_dir(from).unwrap().map(|e| e.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &target, files);
        } else if kind.is_file() {
            fs::copy(entry.path(), &target).unwrap();
            files.push(target);
        }
    }
}

/// A tool over a tree.
struct World {
    tool: SearchTool,
    plain: SearchTool,
    context: ToolContext,
    indexes: Arc<Indexes>,
    top: PathBuf,
}

impl World {
    /// Starts the live index. A stored index is opened; otherwise, one is built in the background.
    fn live(top: &Path, cache: &Path) -> World {
        let mut config = Config::command_line_default();
        config.search.emit_stats = true;
        let mut plain = config.search.clone();
        plain.index_mode = IndexMode::Off;
        config.search.index_mode = IndexMode::On;
        let sandbox = Arc::new(Sandbox::new(&config.sandbox, top).unwrap());
        let engines = Engines::embedded();
        let places = CachePlaces {
            user_cache: Some(cache.to_path_buf()),
            temporary: None,
            ..CachePlaces::default()
        };
        let indexes = Indexes::new(&config.search, &engines, &sandbox, None, &places).unwrap();
        let indexes = Arc::new(indexes);
        let around = LiveEnvironment::new(sandbox.reach().clone());
        indexes.live(&config.search, &around).unwrap();
        World {
            plain: SearchTool::new(plain, engines.clone()),
            tool: SearchTool::new(config.search, engines).with_indexes(Some(indexes.clone())),
            context: ToolContext::new(sandbox),
            indexes,
            top: top.to_path_buf(),
        }
    }

    fn report(&self) -> Report {
        self.indexes.live_report(&self.top).unwrap()
    }

    fn is_complete(&self) -> bool {
        self.report().index_state.allows_exclusion()
    }

    /// Waits until `is_so` is true of the report. Returns the time that this took.
    fn until(&self, is_so: impl Fn(&Report) -> bool) -> Duration {
        let start = Instant::now();
        while !is_so(&self.report()) {
            assert!(start.elapsed() < LONG, "{:?}", self.report());
            std::thread::sleep(Duration::from_millis(1));
        }
        start.elapsed()
    }

    fn search(&self, request: &SearchRequest) -> (SearchResponse, Duration) {
        let start = Instant::now();
        let answer = self.tool.search(request, &self.context).unwrap();
        (answer, start.elapsed())
    }
}

fn literal(pattern: &str) -> SearchRequest {
    let mut request = SearchRequest::new(pattern);
    request.case = Case::Sensitive;
    request.fixed_strings = true;
    request
}

/// Measured times. Percentiles of them are printed.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn say(mut self, what: &str) {
        self.0.sort_unstable();
        let at = |share: f64| self.0[((self.0.len() - 1) as f64 * share).round() as usize];
        println!(
            "{what}: p50 {:.3?}, p99 {:.3?}, longest {:.3?} ({} times)",
            at(0.5),
            at(0.99),
            at(1.0),
            self.0.len()
        );
    }
}

fn is_used(answer: &SearchResponse) -> bool {
    let stats = answer.stats.as_ref();
    stats.is_some_and(|stats| stats.index_exclusion_used)
}

/// Measures full scans while the index is built, and afterwards full scans without an index.
fn beside_a_build(top: &Path, cache: &Path) -> World {
    let request = literal("nosuchidentifier_here");
    let world = World::live(top, cache);
    let start = Instant::now();
    let mut times = Times::default();
    while !world.is_complete() {
        let (answer, took) = world.search(&request);
        if !is_used(&answer) {
            times.0.push(took);
        }
    }
    println!(
        "built in the background beside searches without a pause: {:.1?}, {}",
        start.elapsed(),
        resident()
    );
    let many = times.0.len().clamp(20, 60);
    if !times.0.is_empty() {
        times.say("full scan while the index is built");
    }
    let mut times = Times::default();
    for _ in 0..many {
        let start = Instant::now();
        world.plain.search(&request, &world.context).unwrap();
        times.0.push(start.elapsed());
    }
    times.say("full scan without one");
    world
}

fn restart(top: &Path, cache: &Path) -> World {
    let start = Instant::now();
    let world = World::live(top, cache);
    world.until(|report| report.index_state.allows_exclusion());
    println!(
        "opened and compared with the tree: {:.2?}, {}",
        start.elapsed(),
        resident()
    );
    world
}

fn quiet(world: &World) {
    // In the sources of Linux and in the generated tree, a handful of files contain this word.
    let rare = match std::env::var_os("FORGE_SEARCH_TREE") {
        Some(_) => "kmalloc_array_node",
        None => RARE,
    };
    for (name, pattern, most) in [
        ("absent", "nosuchidentifier_here", None),
        ("rare", rare, None),
        ("frequent, 200 results", "return", Some(200)),
    ] {
        let mut request = literal(pattern);
        request.max_results = most.or(request.max_results);
        let mut times = Times::default();
        for _ in 0..500 {
            let (answer, took) = world.search(&request);
            assert!(is_used(&answer), "{answer:?}");
            times.0.push(took);
        }
        times.say(&format!("search, {name}"));
    }
}

/// Passes cookies to the barrier.
struct Cookies(Arc<Barrier>);

impl FsEventHandler for Cookies {
    fn handle(&self, heard: FsEvent) {
        if let FsEvent::Cookie(number) = heard {
            self.0.cookie_arrived(number);
        }
    }
}

fn barrier(top: &Path) {
    let place = tempfile::tempdir().unwrap();
    let barrier = Arc::new(Barrier::new());
    let ear = Arc::new(Cookies(barrier.clone()));
    let watcher = NativeWatchers
        .start(top, &place.path().join("cookies"), ear)
        .unwrap();
    watcher.watch(Path::new("")).unwrap();
    let pass = |what: &str| {
        let mut times = Times::default();
        for _ in 0..2_000 {
            let start = Instant::now();
            barrier.pass(&*watcher, Duration::from_secs(5)).unwrap();
            times.0.push(start.elapsed());
        }
        times.say(what);
    };
    pass("cookie barrier, nothing else happens");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = top.join("written-all-the-time");
            while !over.load(Ordering::Relaxed) {
                fs::write(&path, "again\n").unwrap();
            }
            fs::remove_file(path).unwrap();
        });
        pass("cookie barrier, beside writes without a pause");
        over.store(true, Ordering::Relaxed);
    });
}

/// Appends a line to a file.
fn edit(path: &Path, line: &str) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(format!("\n{line}\n").as_bytes()).unwrap();
}

/// Returns the processor time of all threads of this process. Unlike elapsed time, it does not
/// depend on other processes.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn edits(world: &World, files: &[PathBuf]) {
    let mut numbers = tree::Numbers(7);
    let (mut found, mut indexed) = (Times::default(), Times::default());
    let (mut beyond, mut work) = (Times::default(), Times::default());
    for n in 0..number("FORGE_SEARCH_EDITS", 300) {
        let line = format!("edit_number_{n}_of_many");
        // This search loads the pages of the index that it needs, so that the next one does not pay
        // for them.
        assert_eq!(world.search(&literal(&line)).0.count, 0);
        edit(&files[numbers.below(files.len())], &line);
        let (start, before) = (Instant::now(), processor_time());
        let (answer, first) = world.search(&literal(&line));
        found.0.push(start.elapsed());
        assert_eq!(answer.count, 1, "an edit was missed");
        assert!(is_used(&answer));
        let between = processor_time();
        // The same search again, when no change is pending.
        let (_, second) = world.search(&literal(&line));
        beyond.0.push(first.saturating_sub(second));
        let again = processor_time().saturating_sub(between);
        work.0.push((between - before).saturating_sub(again));
        if n % 10 == 0 {
            world.until(|report| (report.dirty, report.unread) == (0, 0));
            indexed.0.push(start.elapsed());
        }
    }
    found.say("an edit ended until the answer of the next search");
    beyond.say("of that, beyond what the search takes anyway");
    work.say("the same in processor time of all threads");
    indexed.say("an edit ended until its n-grams are known (index_watch_debounce_ms is 250)");
}

fn switch(world: &World, files: &[PathBuf]) {
    let many = number("FORGE_SEARCH_SWITCH", 20_000).min(files.len() / 2);
    let start = Instant::now();
    for n in 0..many {
        // The files are spread over the whole tree.
        edit(&files[n * files.len() / many], "switched_all_at_once");
    }
    println!("{many} files changed within {:.2?}", start.elapsed());
    let start = Instant::now();
    let mut request = literal("switched_all_at_once");
    request.max_results = Some(5);
    let (answer, took) = world.search(&request);
    assert_eq!(answer.count, 5);
    println!(
        "the first search afterwards: {took:.2?}, exclusion used: {}",
        is_used(&answer)
    );
    let absent = literal("nosuchidentifier_here");
    let mut times = Times::default();
    let end = |report: &Report| {
        (
            report.dirty,
            report.unread,
            report.index_state.allows_exclusion(),
        ) == (0, 0, true)
    };
    while !end(&world.report()) {
        times.0.push(world.search(&absent).1);
    }
    println!(
        "all of them read: after {:.2?}, {}",
        start.elapsed(),
        resident()
    );
    if !times.0.is_empty() {
        times.say("searches until then");
    }
}

/// Returns the memory of this process, now and at its maximum.
fn resident() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let megabytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kilobytes.map_or("?".to_string(), |kilobytes| (kilobytes / 1024).to_string())
    };
    format!(
        "resident {} MiB (without mapped files: {}), at most {} MiB",
        megabytes("VmRSS:"),
        megabytes("RssAnon:"),
        megabytes("VmHWM:")
    )
}

fn main() {
    let place = tempfile::tempdir().unwrap();
    let place_path = place.path().canonicalize().unwrap();
    let (top, cache) = (place_path.join("tree"), place_path.join("cache"));
    let given = std::env::var_os("FORGE_SEARCH_TREE").map(PathBuf::from);
    let mut files = Vec::new();
    copy(&given.unwrap_or_else(tree::generated), &top, &mut files);
    files.retain(|path| {
        let ends = path.extension().and_then(|end| end.to_str());
        ends.is_some_and(|end| ["c", "h", "rs", "toml", "md"].contains(&end))
    });
    println!("{} files to be edited", files.len());
    drop(beside_a_build(&top, &cache));
    let world = restart(&top, &cache);
    quiet(&world);
    barrier(&top);
    edits(&world, &files);
    switch(&world, &files);
}
