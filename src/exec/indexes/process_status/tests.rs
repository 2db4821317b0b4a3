use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::*;
use crate::format::lock::{DirLock, LockFile};
use crate::index::builder::Phase;
use crate::index::live::LastTasks;

fn living(index_state: IndexState) -> ProcessIndexStatus {
    ProcessIndexStatus {
        process: std::process::id(),
        root: PathBuf::from("/some/tree"),
        index: "0123".to_string(),
        index_state,
        why: Some("changes arrived faster than the watcher could process them".to_string()),
        tracking: true,
        waiting: 3,
        extra_files: 2,
        generation: Some(7),
        epoch: 4,
        build: Some(BuildReport {
            phase: Some(Phase::Tokenize),
            files_total: 10,
            files_done: 5,
            elapsed_ms: 1_500,
            ended: false,
        }),
        noted_ms: 1_700_000_000_123,
    }
}

fn report_of(living: &ProcessIndexStatus) -> Report {
    Report {
        index_state: living.index_state,
        epoch: living.epoch,
        generation: living.generation,
        storage: None,
        dirty: living.waiting as usize,
        extra_files: living.extra_files as usize,
        dead: 0,
        unread: 0,
        tracking: living.tracking,
        unwatched: None,
        why: living.why.clone(),
        busy: false,
        works: LastTasks::default(),
    }
}

fn put(status_file: &StatusFile, living: &ProcessIndexStatus) {
    status_file.put(&report_of(living), living.build, living.noted_ms);
}

/// Returns a notice in a new directory, which is removed with the first value.
fn status_file() -> (tempfile::TempDir, Vec<PathBuf>, StatusFile) {
    let dir = tempfile::tempdir().unwrap();
    let places = vec![dir.path().canonicalize().unwrap().join("living")];
    let status_file = StatusFile::new(places.clone(), "/some/tree".into(), "0123".to_string());
    (dir, places, status_file)
}

/// Returns the only directory of an index.
fn own_dir(places: &[PathBuf]) -> PathBuf {
    let mut dirs = fs::read_dir(&places[0]).unwrap();
    let dir = dirs.next().unwrap().unwrap().path();
    assert!(dirs.next().is_none());
    dir
}

#[test]
fn every_reason_of_every_state_is_read_as_it_was_written() {
    let (_dir, places, status_file) = status_file();
    assert_eq!(living_in(&places), []);
    for index_state in IndexState::all() {
        let one = living(index_state);
        put(&status_file, &one);
        assert_eq!(living_in(&places), [one], "{index_state:?}");
    }
    for phase in [None]
        .into_iter()
        .chain(Phase::ALL.iter().copied().map(Some))
    {
        let mut one = living(IndexState::Building);
        one.build.as_mut().unwrap().phase = phase;
        put(&status_file, &one);
        assert_eq!(living_in(&places), [one]);
    }
    let bare = ProcessIndexStatus {
        why: None,
        build: None,
        generation: None,
        ..living(IndexState::Absent)
    };
    put(&status_file, &bare);
    assert_eq!(living_in(&places), [bare]);
    // There is one state file, independently of earlier states, and no other files.
    let own = own_dir(&places);
    let mut names: Vec<_> = fs::read_dir(&own)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [LockFile::Writers.name(), STATE]);
    for (path, mode) in [(own.join(STATE), 0o600), (own, 0o700)] {
        let meta = fs::symlink_metadata(path).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, mode);
    }
    status_file.remove();
    assert_eq!(living_in(&places), []);
    assert_eq!(fs::read_dir(&places[0]).unwrap().count(), 0);
    // There is no status until the next one is written.
    put(&status_file, &living(IndexState::Complete));
    assert_eq!(living_in(&places).len(), 1);
}

#[test]
fn a_path_of_any_bytes_is_read_as_it_was_written() {
    use std::os::unix::ffi::OsStrExt;

    let (_dir, places, _) = status_file();
    let long = [b'\xff'; 4_095];
    for name in [&b"/a b/\xc3\xa4\n"[..], b"/\xff\xfe/x", &long] {
        let root = PathBuf::from(std::ffi::OsStr::from_bytes(name));
        let status_file = StatusFile::new(places.clone(), root.clone(), "0123".to_string());
        let mut one = living(IndexState::Complete);
        one.why = Some("\u{1}".repeat(100_000));
        put(&status_file, &one);
        let read = living_in(&places);
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].root, root);
        assert_eq!(read[0].why.as_ref().unwrap().len(), MAX_WHY);
    }
}

#[test]
fn what_is_no_note_is_passed_over() {
    let (_dir, places, status_file) = status_file();
    let good = living(IndexState::Complete);
    put(&status_file, &good);
    let lock_of = |name: &str| {
        let dir = places[0].join(name);
        fs::create_dir(&dir).unwrap();
        let zero = std::time::Duration::ZERO;
        let lock = DirLock::exclusive(&dir, LockFile::Writers, zero, &mut |_| {}).unwrap();
        (dir.join(STATE), lock)
    };
    let private = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let text = String::from_utf8(good.encode().unwrap()).unwrap();
    let mut locks = Vec::new();
    let mut bad = |name: &str, bytes: &[u8]| {
        let (path, lock) = lock_of(&format!("index-{name}"));
        private(&path, bytes);
        locks.push(lock);
    };
    bad("empty", b"");
    bad("half", &text.as_bytes()[..text.len() / 2]);
    bad("binary", &[0xff; 1_000]);
    bad("array", b"[1, 2]");
    bad("deep", "[".repeat(100_000).as_bytes());
    for (name, from, to) in [
        ("version", "\"version\":1", "\"version\":2"),
        ("state", "COMPLETE", "PERFECT"),
        ("reason", "\"reason\":null", "\"reason\":\"WATCHER_DOWN\""),
        ("phase", "TOKENIZE", "DREAM"),
        ("number", "\"waiting\":3", "\"waiting\":-3"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        bad(name, text.replace(from, to).as_bytes());
    }
    // A valid file with more bytes after it than are read.
    bad(
        "huge",
        format!("{text}{}", " ".repeat(MAX_BYTES)).as_bytes(),
    );
    bad("writable", text.as_bytes());
    let mode = fs::Permissions::from_mode(0o622);
    fs::set_permissions(places[0].join("index-writable").join(STATE), mode).unwrap();
    bad("foreign", text.as_bytes());
    let foreign = places[0].join("index-foreign").join(STATE);
    // Only root can change the owner of a file; for other users this case is skipped.
    if std::os::unix::fs::chown(&foreign, Some(12_345), None).is_err() {
        fs::remove_file(&foreign).unwrap();
    }
    // No file, a link to a valid file, and a file that would block forever.
    let (_, lock) = lock_of("index-none");
    locks.push(lock);
    let (path, lock) = lock_of("index-link");
    symlink(own_of(&places).join(STATE), path).unwrap();
    locks.push(lock);
    let (path, lock) = lock_of("index-fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    locks.push(lock);
    let (path, lock) = lock_of("index-dir");
    fs::create_dir(path).unwrap();
    locks.push(lock);
    // A lock that is not a file, and a valid file without a locked lock file.
    fs::create_dir_all(places[0].join("index-odd").join(LockFile::Writers.name())).unwrap();
    private(&places[0].join("index-odd").join(STATE), text.as_bytes());
    fs::create_dir(places[0].join("index-dead")).unwrap();
    private(&places[0].join("index-dead").join(STATE), text.as_bytes());
    assert_eq!(living_in(&places), [good]);
    drop(locks);
    // Unknown fields come from a later version of the program.
    let (path, _lock) = lock_of("index-later");
    private(
        &path,
        text.replace('{', "{\"more\":{},")
            .replace("\"more\":{\"more\":{},},", "\"more\":{},")
            .as_bytes(),
    );
    assert_eq!(living_in(&places).len(), 2);
}

/// Returns the directory of the notice when there are other directories.
fn own_of(places: &[PathBuf]) -> PathBuf {
    places[0].join(format!("index-{}-0", std::process::id()))
}

#[test]
fn where_nothing_can_be_written_nothing_is_said_and_what_was_said_is_gone() {
    let (dir, places, status_file) = status_file();
    put(&status_file, &living(IndexState::Complete));
    // Another process removes the directory: it is created again.
    fs::remove_dir_all(&places[0]).unwrap();
    put(&status_file, &living(IndexState::Building));
    assert_eq!(living_in(&places)[0].index_state, IndexState::Building);
    // The directory can't be created any more, even by root: the old state is removed.
    fs::remove_dir_all(&places[0]).unwrap();
    fs::write(&places[0], "in the way").unwrap();
    put(&status_file, &living(IndexState::Corrupt));
    assert_eq!(living_in(&places), []);
    // Another place is tried.
    let other = dir.path().canonicalize().unwrap().join("other");
    let places = vec![places[0].clone(), other.clone()];
    let status_file = StatusFile::new(places.clone(), "/some/tree".into(), "0123".to_string());
    put(&status_file, &living(IndexState::Complete));
    assert_eq!(living_in(&places).len(), 1);
    assert_eq!(living_in(&[other]).len(), 1);
    // A status file that can't be replaced is removed.
    let state = own_of(&places[1..]).join(STATE);
    fs::remove_file(&state).unwrap();
    fs::create_dir(&state).unwrap();
    put(&status_file, &living(IndexState::Corrupt));
    let read = living_in(&places);
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].index_state, IndexState::Corrupt);
    status_file.remove();
    assert_eq!(living_in(&places), []);
}

#[test]
fn what_a_process_left_that_is_gone_is_removed_by_the_next() {
    let (_dir, places, status_file) = status_file();
    put(&status_file, &living(IndexState::Complete));
    let dead = places[0].join("index-99999999-0");
    fs::create_dir(&dead).unwrap();
    for name in [STATE, LockFile::Writers.name(), ".state.99999999.0.tmp"] {
        fs::write(dead.join(name), "{}").unwrap();
    }
    assert_eq!(living_in(&places).len(), 1);
    assert!(dead.exists(), "looking removes nothing");
    let other = StatusFile::new(places.clone(), "/other".into(), "4567".to_string());
    put(&other, &living(IndexState::Building));
    assert!(!dead.exists());
    assert_eq!(living_in(&places).len(), 2);
}
