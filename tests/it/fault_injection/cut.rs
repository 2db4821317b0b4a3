//! Files of an index that are truncated or overwritten while processes use them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::edition::{Edition, answer, key, names, store};
use super::times;
use crate::child_processes;
use crate::cli::forge_search;
use crate::differential::Seeded;
use crate::support::{GUARD, SetAtEnd};

/// The environment variable that gives a child the path of its store.
const STORE: &str = "FORGE_SEARCH_TEST_CUT";

/// The environment variable that tells a child whether to map files.
const MAPPED: &str = "FORGE_SEARCH_TEST_CUT_MAPPED";

/// The unit that has a checksum, in bytes.
const PAGE: usize = 4096;

/// Returns the segment in a directory, and makes it writable.
fn segment(dir: &Path) -> PathBuf {
    let name = names(dir)
        .into_iter()
        .find(|name| name.starts_with("segment-"));
    let path = dir.join(name.expect("a segment"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Truncates a segment and restores it in place, repeatedly. Counts the truncations.
fn cut_until(path: &Path, cuts: &AtomicU64, done: &AtomicBool) {
    let bytes = fs::read(path).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    let mut rng = Seeded::new(3);
    while !done.load(Ordering::Relaxed) {
        let len = rng.below(bytes.len());
        file.set_len(len as u64).unwrap();
        std::thread::sleep(Duration::from_micros(rng.below(2_000) as u64));
        // Makes the file longer than before, or as long with zeros at the end, or whole.
        match rng.below(3) {
            0 => file.set_len(bytes.len() as u64 + 10).unwrap(),
            1 => file.set_len(bytes.len() as u64).unwrap(),
            _ => std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap(),
        }
        std::thread::sleep(Duration::from_micros(rng.below(2_000) as u64));
        cuts.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_program_neither_crashes_nor_errs_when_its_index_is_cut_off() {
    let wanted = 10 * times();
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for n in 0..300 {
        let rare = if n % 50 == 0 { "a rare needle\n" } else { "" };
        let text: String = (0..40)
            .map(|line| format!("x{n}x{}x straw\n", n * line))
            .collect();
        fs::write(tree.join(format!("{n}.txt")), text + rare).unwrap();
    }
    let program = || {
        let mut command = forge_search(&tree);
        command.env("XDG_CACHE_HOME", place.path().join("cache"));
        command
    };
    let build = || {
        let built = program().args(["index", "build"]).output().unwrap();
        assert!(built.status.success());
    };
    build();
    let dir = place.path().join("cache/forge/search-index");
    let dir = dir.join(&names(&dir)[0]);
    let mut child = program()
        .args(["call", "--jsonl", "--set", "emit_stats=true"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |pattern: &str| {
        writeln!(stdin, "{}", json!({"pattern": pattern})).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the program is gone");
        let answer: Value = serde_json::from_str(&line).unwrap();
        let stats = &answer["stats"];
        let used = stats["index_exclusion_used"].as_bool().unwrap();
        (answer["count"].as_u64().unwrap(), used, stats.to_string())
    };
    let (count, used, stats) = ask("rare needle");
    assert_eq!((count, used), (6, true), "{stats}");
    let over = AtomicBool::new(false);
    let (mut asked, mut used, mut single) = (0, 0, 0);
    let cuts = AtomicU64::new(0);
    let started = Instant::now();
    let path = segment(&dir);
    std::thread::scope(|scope| {
        scope.spawn(|| cut_until(&path, &cuts, &over));
        let _even_after_a_panic = SetAtEnd(&over);
        while single < wanted || cuts.load(Ordering::Relaxed) < 20 * wanted {
            assert!(
                started.elapsed() < GUARD,
                "{cuts:?} cuts, {single} processes"
            );
            for (pattern, count) in [("rare needle", 6), ("absent", 0), ("x17x0x straw", 1)] {
                let (found, with_index, _) = ask(pattern);
                assert_eq!(found, count, "{pattern}");
                asked += 1;
                used += u64::from(with_index);
            }
            // Another process opens the index while it is damaged.
            let found = program().arg("rare needle").output().unwrap();
            let out = String::from_utf8_lossy(&found.stdout);
            assert!(found.status.success(), "{:?}: {out}", found.status);
            assert_eq!(out.matches("a rare needle").count(), 6, "{out}");
            single += 1;
        }
    });
    let cuts = cuts.into_inner();
    println!(
        "{cuts} cuts, {asked} requests to one process, {used} with the index; {single} processes"
    );
    build();
    let (count, _, stats) = ask("rare needle");
    assert_eq!(count, 6, "{stats}");
    // A new process uses the rebuilt index.
    let found = program().args(["--stats", "rare needle"]).output().unwrap();
    let said = String::from_utf8_lossy(&found.stderr);
    assert!(
        found.status.success() && said.contains("COMPLETE"),
        "{said}"
    );
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A damage to an open file.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The file is truncated to nothing.
    Off,
    /// The file keeps its length, but the page with this number is zero.
    Hole(usize),
}

/// Starts a child that opens an index and waits. Damages the segment, then lets the child read it.
/// Returns the child's exit status and the number of pages in the file.
fn look_after_a_cut(mapped: bool, cut: Cut) -> (ExitStatus, usize) {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("store");
    let edition = Edition::of(1, 1_200);
    let plain = store(&root, None);
    edition.publish(&plain, &key(1)).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .arg(
            "fault_injection::cut::a_library_that_reads_files_is_safe_from_those_that_cut_them_off",
        )
        .env(STORE, &root)
        .env(MAPPED, mapped.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "the child ended");
    }
    let path = segment(&plain.dir_of(&key(1)));
    let file = File::options().write(true).open(&path).unwrap();
    let pages = fs::read(&path).unwrap().len().div_ceil(PAGE);
    match cut {
        Cut::Off => file.set_len(0).unwrap(),
        Cut::Hole(page) => {
            let hole = [0; PAGE];
            std::os::unix::fs::FileExt::write_all_at(&file, &hole, (page * PAGE) as u64).unwrap();
        }
    }
    drop(child.stdin.take());
    (child.wait().unwrap(), pages)
}

#[test]
fn a_library_that_reads_files_is_safe_from_those_that_cut_them_off() {
    if let Some(root) = std::env::var_os(STORE) {
        let mapped = std::env::var(MAPPED).unwrap() == "true";
        let store = store(Path::new(&root), None).mapped(mapped);
        let opened = store.load(&key(1), &mut std::thread::sleep);
        let opened = opened.unwrap().unwrap();
        child_processes::pause();
        // The answer is right, or the damage is noticed.
        match answer(opened.segment()) {
            Ok(found) => assert_eq!(found, Edition::of(1, 1_200).answer),
            Err(error) => assert!(error.is_corrupt(), "{error}"),
        }
        return;
    }
    let (status, pages) = look_after_a_cut(false, Cut::Off);
    assert!(status.success(), "{status:?}");
    // Damage in a page that was not read before is noticed by its checksum. The last page holds the
    // lists, which were read at the opening.
    for page in (1..pages - 1).step_by(3) {
        let (status, _) = look_after_a_cut(false, Cut::Hole(page));
        assert!(status.success(), "{page} of {pages}: {status:?}");
    }
    // This is the documented limit of mapped files: the system kills a process that reads past the
    // new end. Reading instead of mapping avoids it.
    let (status, _) = look_after_a_cut(true, Cut::Off);
    assert_eq!(status.signal(), Some(rustix::process::Signal::BUS.as_raw()));
}
