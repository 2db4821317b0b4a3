//! Tests that the reports of `status`, `health` and `metrics` are true.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_search::internal::index::handles::Handles;
use forge_search::internal::index::root_dir::metadata_following;
use forge_search::internal::index::stamp::Stamp;
use forge_search::internal::tool::config::{Config, IndexMode, IndexStorage};
use forge_search::internal::tool::daemon::server::Settings;
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::indexing::{
    CachePlaces, Indexes, LiveEnvironment, wall_clock_ns,
};
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use serde_json::{Value, json};

use super::program::{Place, halt, kill, ok, text};
use super::queries::{with_snapshot, with_words};
use super::{World, schemas, small};
use crate::support::{GUARD, Tree};

fn search(query: &str) -> Value {
    json!({"type": "search", "query": query})
}

pub(super) fn status(world: &World) -> Value {
    let status = world.client().ask(&json!({"type": "status"}));
    schemas::check("status", &status);
    status
}

/// Waits until the daemon is idle, and returns its status.
fn idle(world: &World) -> Value {
    let began = Instant::now();
    loop {
        let status = status(world);
        if status["sync"]["state"] == "idle" {
            return status;
        }
        assert!(began.elapsed() < GUARD, "{status}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn health(world: &World) -> Value {
    let health = world.client().ask(&json!({"type": "health"}));
    schemas::check("health", &health);
    health
}

#[track_caller]
pub(super) fn severity<'a>(health: &'a Value, code: &str) -> (&'a str, &'a str) {
    let checks = health["checks"].as_array().unwrap();
    let check = checks
        .iter()
        .find(|check| check["code"] == code)
        .unwrap_or_else(|| panic!("{code} is not in {health}"));
    (
        check["severity"].as_str().unwrap(),
        check["message"].as_str().unwrap(),
    )
}

/// Repeats a query until the daemon is idle and the status names the snapshot of the answer.
///
/// A file that was written just before the query is read once more later, which makes another
/// snapshot.
fn settled(world: &World, query: &Value) -> (Value, Value) {
    let began = Instant::now();
    loop {
        let (answer, status) = (with_snapshot(world, query), idle(world));
        if status["snapshot"]["active_snapshot_id"] == answer["snapshot_id"] {
            return (answer, status);
        }
        assert!(began.elapsed() < GUARD, "{answer} {status}");
    }
}

/// Starts a daemon that stores its index in files below a directory.
fn kept(tree: Tree, cache: &Path, change: impl FnOnce(&mut Config)) -> World {
    World::with(tree, Settings::default(), |config| {
        config.search.index_storage = IndexStorage::Mmap;
        config.search.index_path = Some(cache.join("index"));
        change(config);
    })
}

#[test]
fn status_reports_the_searched_tree_and_the_queries() {
    let cache = tempfile::tempdir().unwrap();
    let world = kept(small(), cache.path(), |_| {});
    let (answer, first) = settled(&world, &search("socket"));
    assert_eq!(first["canonical_root"], world.tree.root().to_str().unwrap());
    assert_eq!(first["store_id"], answer["store_id"]);
    assert_eq!(first["config_fingerprint"], answer["config_fingerprint"]);
    assert_eq!(first["ignore_fingerprint"], answer["ignore_fingerprint"]);
    assert_eq!(first["snapshot"]["degraded"], false);
    assert_eq!(first["daemon"]["running"], true);
    assert_eq!(first["daemon"]["pid"], std::process::id());
    assert_eq!(first["daemon"]["stale"], false);
    assert_eq!(first["sync"]["last_result"], "ok");
    assert_eq!(first["queries"]["max_concurrent"], 8);
    let disk = &first["resources"]["disk"];
    let size: u64 = walk(&cache.path().join("index"))
        .iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "seg"))
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    let stored = disk["store_bytes"].as_u64().unwrap();
    assert!(
        size > 0 && stored >= size && stored < size + 65_536,
        "{disk} {size}"
    );
    assert_eq!(disk["cache_bytes"], disk["store_bytes"]);
    assert!(
        first["resources"]["open_handles"]["segments_open"]
            .as_u64()
            .unwrap()
            >= 1
    );
    // All times have the same format.
    let created = first["snapshot"]["created_at"].as_str().unwrap();
    let started = first["daemon"]["started_at"].as_str().unwrap();
    for time in [created, started] {
        assert!(
            time.parse::<jiff::Timestamp>().is_ok() && time.len() == 20,
            "{time}"
        );
    }
    // An edit makes another snapshot, and query latencies are measured.
    let late = json!({"type": "search", "query": "socket", "limit": 0});
    world.client().refused(&late, "invalid_request");
    fs::write(world.tree.path("src/new.rs"), "fn socket_new() {}\n").unwrap();
    let (_, second) = settled(&world, &search("socket_new"));
    assert_ne!(second["snapshot"], first["snapshot"]);
    assert!(second["performance"]["query_latency_p95_ms"].is_u64());
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(walk(&path)),
            path => found.push(path),
        }
    }
    found
}

#[test]
fn health_makes_every_required_check_and_finds_nothing_in_a_sound_index() {
    let cache = tempfile::tempdir().unwrap();
    let world = kept(small(), cache.path(), |_| {});
    let (answer, _) = settled(&world, &search("socket"));
    let health = health(&world);
    assert_eq!(health["ok"], true, "{health}");
    assert_eq!(health["active_snapshot_id"], answer["snapshot_id"]);
    for code in [
        "manifest_present",
        "segments_present",
        "tombstones_enforced",
        "path_safety",
        "casefold_collisions",
        "catalog_drift",
        "repo_hygiene",
        "artifact_integrity",
        "segment_growth",
        "disk_store",
        "disk_cache",
        "disk_log",
        "word_table",
        "embed_limiter",
        "open_handles",
        "watcher",
    ] {
        assert_eq!(severity(&health, code).0, "ok", "{code}: {health}");
    }
    assert!(
        severity(&health, "catalog_drift").1.contains("6 of 6"),
        "{health}"
    );
}

#[test]
fn health_finds_damaged_and_missing_files() {
    let cache = tempfile::tempdir().unwrap();
    let world = kept(small(), cache.path(), |_| {});
    with_words(&world, &search("socket"));
    let files = walk(&cache.path().join("index"));
    let manifest = files
        .iter()
        .find(|path| path.file_name().is_some_and(|name| name == "manifest"))
        .unwrap();
    let away = manifest.with_file_name("elsewhere");
    fs::rename(manifest, &away).unwrap();
    let without = health(&world);
    assert_eq!(without["ok"], false);
    assert_eq!(
        severity(&without, "manifest_present").0,
        "fail",
        "{without}"
    );
    fs::rename(&away, manifest).unwrap();
    let segment = files
        .iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "seg"))
        .unwrap();
    let whole = fs::read(segment).unwrap();
    let mut damaged = whole.clone();
    let at = damaged.len() - 100;
    damaged[at] ^= 0x10;
    fs::write(segment, damaged).unwrap();
    let found = health(&world);
    assert_eq!(severity(&found, "segments_present").0, "fail", "{found}");
    assert_eq!(found["ok"], false);
}

#[test]
fn health_warns_of_colliding_names_and_of_leftovers() {
    let cache = tempfile::tempdir().unwrap();
    let tree = Tree::of([("src/A.rs", "fn a() {}\n"), ("src/a.rs", "fn a() {}\n")]);
    let world = kept(tree, cache.path(), |_| {});
    with_words(&world, &search("fn"));
    let files = walk(&cache.path().join("index"));
    let manifest = files.iter().find(|path| path.ends_with("manifest"));
    let dir = manifest.unwrap().parent().unwrap();
    // Publishing a state removes leftovers, so the leftover is written afterwards.
    idle(&world);
    fs::write(dir.join(".manifest.1.2.tmp"), "begun").unwrap();
    let began = Instant::now();
    let health = loop {
        let health = health(&world);
        // Temporary files that are new may belong to a writer and don't count as leftovers yet.
        let (_, message) = severity(&health, "artifact_integrity");
        if !message.contains("being written") {
            break health;
        }
        assert!(began.elapsed() < GUARD, "{health}");
    };
    assert_eq!(health["ok"], true, "a warning is no failure: {health}");
    let (found, message) = severity(&health, "casefold_collisions");
    assert!(
        found == "warn" && message.starts_with("1 of 2 paths "),
        "{message}"
    );
    assert_eq!(
        severity(&health, "artifact_integrity").0,
        "warn",
        "{health}"
    );
}

#[test]
fn health_counts_tombstones_and_files_that_git_does_not_know() {
    let cache = tempfile::tempdir().unwrap();
    let world = kept(small(), cache.path(), |_| {});
    with_words(&world, &search("socket"));
    fs::remove_file(world.tree.path("src/other.rs")).unwrap();
    world.client().found(search("socket"));
    let found = health(&world);
    let (severity_of, message) = severity(&found, "tombstones_enforced");
    assert!(
        severity_of == "ok" && message.contains("of the segment: 1;"),
        "{message}"
    );
    assert!(
        severity(&found, "segment_growth")
            .1
            .contains("1 tombstones"),
        "{found}"
    );
    // If git is installed, the tree becomes a repository.
    let made = std::process::Command::new("git")
        .args(["init", "-q"])
        .arg(world.tree.root())
        .status();
    if made.is_ok_and(|status| status.success()) {
        let found = health(&world);
        let (severity, message) = severity(&found, "repo_hygiene");
        assert!(
            severity == "warn" && message.starts_with("5 files"),
            "{message}"
        );
        assert!(
            message.ends_with("find text in those that are not hidden"),
            "{message}"
        );
    }
}

#[test]
fn health_reports_no_problem_for_a_followed_link() {
    let elsewhere = Tree::of([("far.txt", "socket\n")]);
    let tree = Tree::of([("near.txt", "socket\n"), ("two.txt", "socket\n")]);
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, tree.path(name)).unwrap();
    link(Path::new("near.txt"), "link.txt");
    link(&elsewhere.path("far.txt"), "far.txt");
    link(elsewhere.root(), "dir");
    let roots = vec![tree.root().to_path_buf(), elsewhere.root().to_path_buf()];
    let world = World::with(tree, Settings::default(), |config| {
        config.search.index_default_follow = true;
        config.search.index_mode = IndexMode::Off;
        config.sandbox.allowed_roots = roots;
    });
    let found = health(&world);
    let (severity_of, message) = severity(&found, "path_safety");
    assert!(
        severity_of == "ok" && message.starts_with("5 paths "),
        "{message}"
    );
    let (severity_of, message) = severity(&found, "casefold_collisions");
    assert_eq!(severity_of, "ok", "{message}");
}

#[test]
fn health_compares_paths_with_and_without_an_index() {
    let cache = tempfile::tempdir().unwrap();
    let tree = || {
        Tree::of([
            ("s/One.txt", "socket\n"),
            ("s/one.txt", "socket\n"),
            ("s/two.txt", "socket\n"),
        ])
    };
    let without = World::with(tree(), Settings::default(), |config| {
        config.search.index_mode = IndexMode::Off;
    });
    let (severity_of, message) = {
        let found = health(&without);
        let (severity, message) = severity(&found, "casefold_collisions");
        (severity.to_string(), message.to_string())
    };
    assert_eq!(
        (severity_of.as_str(), message.starts_with("1 of 3 paths ")),
        ("warn", true),
        "{message}"
    );
    let world = kept(tree(), cache.path(), |_| {});
    // Otherwise another segment, which lacks the edits at first, may follow an answer.
    with_words(&world, &search("socket"));
    let of = |world: &World| {
        world.client().found(search("socket"));
        let found = health(world);
        severity(&found, "casefold_collisions").0.to_string()
    };
    assert_eq!(of(&world), "warn");
    // The colliding file is removed, and later another one is added.
    fs::remove_file(world.tree.path("s/One.txt")).unwrap();
    assert_eq!(of(&world), "ok");
    fs::write(world.tree.path("s/TWO.txt"), "socket\n").unwrap();
    assert_eq!(of(&world), "warn");
}

#[test]
fn an_index_over_its_budget_is_not_kept_and_the_last_one_stays() {
    let cache = tempfile::tempdir().unwrap();
    let (root, kept_bytes) = {
        let world = kept(small(), cache.path(), |_| {});
        with_words(&world, &search("socket"));
        let bytes = status(&world)["resources"]["disk"]["store_bytes"].clone();
        (world.tree, bytes)
    };
    let world = kept(root, cache.path(), |config| {
        config.search.index_max_store_bytes = 10
    });
    let answer = with_snapshot(&world, &search("open_socket"));
    assert_eq!(answer["degraded"], false, "what was kept is used");
    let status = status(&world);
    assert_eq!(status["resources"]["disk"]["store_bytes"], kept_bytes);
    let found = health(&world);
    assert_eq!(severity(&found, "disk_store").0, "fail", "{found}");
    assert_eq!(found["ok"], false);
    // A file that the stored index can't include is searched all the same.
    fs::write(world.tree.path("src/new.rs"), "fn socket_new() {}\n").unwrap();
    let answer = with_snapshot(&world, &search("socket_new"));
    assert_eq!(answer["results"][0]["path"], "src/new.rs");
}

#[test]
fn status_reports_a_refused_build() {
    let cache = tempfile::tempdir().unwrap();
    let world = kept(small(), cache.path(), |config| {
        config.search.index_max_store_bytes = 10
    });
    let began = Instant::now();
    while status(&world)["sync"]["last_result"] != "failed" {
        assert!(began.elapsed() < GUARD, "{}", status(&world));
        std::thread::sleep(Duration::from_millis(5));
    }
    let found = health(&world);
    let (severity_of, message) = severity(&found, "manifest_present");
    assert!(
        severity_of == "warn" && message.contains("10 bytes"),
        "{found}"
    );
    let (severity_of, message) = severity(&found, "disk_store");
    assert!(
        severity_of == "warn" && message.contains("raise the limit"),
        "{found}"
    );
    let kept: Vec<_> = walk(&cache.path().join("index"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "seg"))
        .collect();
    assert_eq!(kept, Vec::<PathBuf>::new());
    let answer = world.client().found(search("open_socket"));
    assert_eq!(answer["degraded"], true);
    assert!(!answer["results"].as_array().unwrap().is_empty());
}

#[test]
fn health_says_that_the_root_is_gone() {
    let world = World::over(small(), Settings::default());
    let away = world.tree.root().with_extension("away");
    fs::rename(world.tree.root(), &away).unwrap();
    let found = health(&world);
    assert_eq!(severity(&found, "root_present").0, "fail", "{found}");
    assert_eq!(found["ok"], false);
    world.client().refused(&search("socket"), "internal");
    fs::rename(&away, world.tree.root()).unwrap();
    assert_eq!(severity(&health(&world), "root_present").0, "ok");
}

#[test]
fn a_stored_snapshot_has_one_id_in_every_process() {
    let cache = tempfile::tempdir().unwrap();
    let asked = json!({"type": "search", "query": "open_socket", "deterministic": true});
    let tree = small();
    // If a file was written just now, another write might keep its time. Readers of an index
    // therefore read such files again.
    let began = Instant::now();
    let is_settled = |path: PathBuf| {
        let stamp = Stamp::of(&metadata_following(&path).unwrap()).unwrap();
        stamp.is_settled(wall_clock_ns())
    };
    while !walk(tree.root()).into_iter().all(is_settled) {
        assert!(began.elapsed() < GUARD, "files never settle");
        std::thread::sleep(Duration::from_millis(20));
    }
    let world = kept(tree, cache.path(), |_| {});
    with_words(&world, &asked);
    let world = kept(world.into_tree(), cache.path(), |_| {});
    let first = with_snapshot(&world, &asked);
    let (created, before) = (status(&world)["snapshot"].clone(), idle(&world));
    assert_eq!(before["snapshot"], created);
    let world = kept(world.into_tree(), cache.path(), |_| {});
    assert_eq!(with_snapshot(&world, &asked), first);
    assert_eq!(status(&world)["snapshot"], created);
}

#[test]
fn metrics_are_printed_for_prometheus() {
    let world = World::over(small(), Settings::default());
    world.client().found(search("socket"));
    let metrics = world.client().ask(&json!({"type": "metrics"}));
    schemas::check("metrics", &metrics);
    let text = metrics["text"].as_str().unwrap();
    assert!(
        text.contains("forge_search_queries_total{outcome=\"ok\"} 1\n"),
        "{text}"
    );
    let more = json!({"type": "metrics", "x": 1});
    world.client().refused(&more, "invalid_request");
}

#[test]
fn low_impact_mode_runs_fewer_queries() {
    let world = World::with(small(), Settings::default(), |config| {
        config.daemon.low_impact = true;
    });
    assert_eq!(status(&world)["queries"]["max_concurrent"], 2);
    assert_eq!(Settings::from(&low_impact()).bounds.concurrent, 2);
}

fn low_impact() -> Config {
    let mut config = Config::command_line_default();
    config.daemon.low_impact = true;
    config
}

/// A merge needs two open segments for a moment. With a limit of one, no merge happens, and the
/// index that is in use stays. With a limit of two, the merge succeeds.
#[test]
fn a_segment_too_many_is_not_opened_and_the_one_in_use_stays() {
    for most in [1, 2] {
        let tree = small();
        let mut config = Config::command_line_default();
        config.search.index_mode = IndexMode::On;
        config.search.index_storage = IndexStorage::Memory;
        config.search.index_watch_debounce_ms = 5;
        let sandbox = Arc::new(Sandbox::new(&config.sandbox, tree.root()).unwrap());
        let engines = Engines::embedded();
        let places = CachePlaces {
            handles: Handles::at_most(most),
            ..CachePlaces::default()
        };
        let indexes = Indexes::new(&config.search, &engines, &sandbox, None, &places).unwrap();
        let indexes = Arc::new(indexes);
        let around = LiveEnvironment {
            merge_files: 2,
            ..LiveEnvironment::new(sandbox.reach().clone())
        };
        indexes.live(&config.search, &around).unwrap();
        indexes.wait_live(tree.root(), GUARD);
        assert_eq!(indexes.open_segments(), 1);
        let tool =
            SearchTool::new(config.search.clone(), engines).with_indexes(Some(indexes.clone()));
        let context = ToolContext::new(sandbox);
        for n in 0..20 {
            fs::write(
                tree.path(&format!("src/n{n}.rs")),
                format!("fn needle{n}() {{}}\n"),
            )
            .unwrap();
        }
        let merged = || {
            let report = indexes.live_report(tree.root()).unwrap();
            report.works.merge.map(|merge| merge.succeeded)
        };
        let began = Instant::now();
        while merged().is_none() && began.elapsed() < GUARD {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            merged(),
            Some(most == 2),
            "{:?}",
            indexes.live_report(tree.root())
        );
        assert!(indexes.open_segments() <= most);
        let found = tool
            .call(json!({"pattern": "needle\\d+"}), &context)
            .unwrap();
        assert_eq!(found.count, 20);
        indexes.shut_down();
    }
}

#[test]
fn doctor_reports_the_daemon_and_starts_none() {
    let place = Place::new();
    let doctor = || -> Value {
        let told = place.forge_search(&["doctor", "--json"]);
        assert_eq!(told.status.code(), Some(0), "{told:?}");
        serde_json::from_slice(&told.stdout).unwrap()
    };
    let none = doctor();
    assert_eq!(none["daemon"]["running"], false);
    assert_eq!(place.daemons(), [0; 0]);
    let mut daemon = place.serve(&[]);
    let told = doctor();
    assert_eq!(told["daemon"]["pid"], daemon.id());
    assert_eq!(told["daemon"]["stale"], false);
    assert_eq!(told["daemon"]["socket"], none["daemon"]["socket"]);
    let shown = ok(&place.forge_search(&["doctor"]));
    assert!(
        shown.contains(&format!("  process           {}\n", daemon.id())),
        "{shown}"
    );
    // In a subdirectory `doctor` names this daemon: `ggrep` uses it there, and searches do not.
    std::fs::create_dir(place.root().join(".git")).unwrap();
    let below = || {
        let mut doctor = place.command(env!("CARGO_BIN_EXE_forge-search"), &["doctor"]);
        ok(&doctor
            .current_dir(place.root().join("src"))
            .output()
            .unwrap())
    };
    let shown = below();
    let around = format!("the daemon of {} runs", place.root().display());
    assert!(
        shown.contains("not running") && shown.contains(&around),
        "{shown}"
    );
    // A daemon that hangs is a problem, for which `doctor` names a remedy.
    halt(daemon.id().cast_signed());
    let mut hasty = place.command(env!("CARGO_BIN_EXE_forge-search"), &["doctor"]);
    let told = hasty.env_remove("FORGE_SEARCH_PATIENCE_MS").output();
    let told = told.unwrap();
    assert_eq!(told.status.code(), Some(2), "{told:?}");
    let said = text(&told.stdout);
    assert!(said.contains("ggrep stop"), "{said}");
    kill(daemon.id().cast_signed(), rustix::process::Signal::KILL);
    daemon.wait().unwrap();
    assert!(!below().contains("around"), "{}", below());
}
