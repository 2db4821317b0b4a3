//! Tests watchers on the real filesystem. Nothing here sleeps: a barrier proves that all events
//! were reported.

mod cost;
mod follower;
#[cfg(target_os = "linux")]
mod unheard;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::*;

/// A timeout that no test reaches.
const LONG: Duration = Duration::from_secs(60);

/// Starts a source of events.
type Start = fn(listener::Listener) -> notify::Result<Box<dyn source::Source>>;

std::thread_local! {
    /// The source of events for the scenes of a test.
    static START: std::cell::Cell<Start> = const { std::cell::Cell::new(source::start) };
}

/// Runs the tests of this system's source also with the crate `notify`.
#[cfg(target_os = "linux")]
#[test]
fn the_crate_that_other_systems_watch_with_does_as_well() {
    START.set(|listener| Ok(Box::new(library::NotifyWatcher::start(listener)?)));
    what_happens_in_a_watched_directory_is_heard_before_a_barrier();
    attributes_are_heard_of_and_reading_is_not();
    only_directories_below_the_root_are_watched();
    watching_again_changes_nothing_while_the_directory_is_the_same();
    a_renamed_directory_is_watched_again_under_its_new_name();
    a_directory_renamed_there_and_back_is_watched_again();
    a_directory_replaced_by_another_is_watched_again();
    cookies_are_heard_in_order_and_with_the_same_number_twice();
    lost_events_are_heard_of_and_everything_can_be_watched_again();
    a_root_that_is_removed_or_renamed_ends_it();
    a_root_removed_while_it_is_open_lets_nobody_through();
    a_dropped_watcher_leaves_nothing_behind_and_says_nothing();
    a_watcher_whose_cookies_are_removed_is_down();
    trees_and_cookies_that_will_not_do_are_refused();
    a_root_behind_a_link_is_watched();
}

/// Records the events that it handles.
#[derive(Default)]
pub(super) struct Notes {
    heard: Mutex<Vec<FsEvent>>,
    barrier: Barrier,
    /// While true, the watcher's thread waits.
    is_held: Mutex<bool>,
    released: Condvar,
}

impl FsEventHandler for Notes {
    fn handle(&self, heard: FsEvent) {
        let held = lock(&self.is_held);
        drop(self.released.wait_while(held, |held| *held).unwrap());
        let cookie = match &heard {
            FsEvent::Cookie(n) => Some(*n),
            _ => None,
        };
        let is_down = matches!(heard, FsEvent::Down(_));
        lock(&self.heard).push(heard);
        if let Some(n) = cookie {
            self.barrier.cookie_arrived(n);
        }
        if is_down {
            self.barrier.down();
        }
    }
}

/// A tree, a watcher of it, and the recorded events.
pub(super) struct Scene {
    base: tempfile::TempDir,
    cookies: tempfile::TempDir,
    notes: Arc<Notes>,
    watcher: Arc<dyn Watcher>,
}

impl Scene {
    /// Creates a scene without watched directories.
    fn new() -> Scene {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("above/root")).unwrap();
        let notes = Arc::new(Notes::default());
        let handler: Arc<dyn FsEventHandler> = notes.clone();
        let root = base.path().join("above/root");
        let cookies = tempfile::tempdir().unwrap();
        let dir = cookies.path().join("cookies");
        let watcher = native::NativeWatcher::start(&root, &dir, handler, START.get()).unwrap();
        Scene {
            watcher: Arc::new(watcher),
            base,
            cookies,
            notes,
        }
    }

    /// Creates directories, and watches them and the root.
    fn watching(dirs: &[&str]) -> Scene {
        let scene = Scene::new();
        scene.watcher.watch(Path::new("")).unwrap();
        for dir in dirs {
            fs::create_dir(scene.at(dir)).unwrap();
            scene.watch(dir);
        }
        scene.heard();
        scene
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.path().join("above/root").join(path)
    }

    #[track_caller]
    fn watch(&self, dir: &str) {
        self.watcher.watch(Path::new(dir)).unwrap();
    }

    fn write(&self, path: &str) {
        fs::write(self.at(path), "x").unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.at(from), self.at(to)).unwrap();
    }

    /// Returns the events since the last call, without cookies.
    #[track_caller]
    fn heard(&self) -> Vec<FsEvent> {
        self.notes.barrier.pass(&*self.watcher, LONG).unwrap();
        let mut heard = std::mem::take(&mut *lock(&self.notes.heard));
        heard.retain(|heard| !matches!(heard, FsEvent::Cookie(_)));
        heard
    }

    /// Checks that a write to a file in the directory is reported.
    #[track_caller]
    fn check_live(&self, dir: &str) {
        self.heard();
        let file = format!("{dir}/probe");
        self.write(&file);
        let heard = self.heard();
        assert!(heard.contains(&FsEvent::File(file.into())), "{heard:?}");
    }

    fn hold(&self, held: bool) {
        *lock(&self.notes.is_held) = held;
        self.notes.released.notify_all();
    }

    /// Waits until the watcher reports that it is down.
    fn wait_for_down(&self) {
        while !matches!(lock(&self.notes.heard).last(), Some(FsEvent::Down(_))) {
            std::thread::yield_now();
        }
    }
}

fn file(path: &str) -> FsEvent {
    FsEvent::File(path.into())
}

fn subtree(path: &str) -> FsEvent {
    FsEvent::Subtree(path.into())
}

#[test]
fn what_happens_in_a_watched_directory_is_heard_before_a_barrier() {
    let scene = Scene::watching(&["d"]);
    assert_eq!(scene.watcher.watched(), 2);
    scene.write("d/f");
    let heard = scene.heard();
    assert!(heard.contains(&subtree("d/f")) && heard.contains(&file("d/f")));
    scene.write("top");
    assert!(scene.heard().contains(&file("top")));
    scene.rename("d/f", "d/g");
    let heard = scene.heard();
    assert!(heard.contains(&subtree("d/f")) && heard.contains(&subtree("d/g")));
    let file = fs::File::options()
        .append(true)
        .open(scene.at("d/g"))
        .unwrap();
    file.set_len(100).unwrap();
    assert!(scene.heard().contains(&self::file("d/g")));
    fs::remove_file(scene.at("d/g")).unwrap();
    assert!(scene.heard().contains(&subtree("d/g")));
    fs::create_dir(scene.at("d/e")).unwrap();
    assert!(scene.heard().contains(&subtree("d/e")));
    fs::hard_link(scene.at("top"), scene.at("d/link")).unwrap();
    assert!(scene.heard().contains(&subtree("d/link")));
}

#[cfg(unix)]
#[test]
fn attributes_are_heard_of_and_reading_is_not() {
    use std::os::unix::fs::PermissionsExt;

    let scene = Scene::watching(&["d"]);
    scene.write("d/f");
    scene.heard();
    fs::read(scene.at("d/f")).unwrap();
    assert_eq!(fs::read_dir(scene.at("d")).unwrap().count(), 1);
    assert_eq!(scene.heard(), []);
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(scene.at("d"), private.clone()).unwrap();
    assert!(scene.heard().contains(&subtree("d")));
    fs::set_permissions(scene.at("d/f"), private).unwrap();
    assert!(scene.heard().contains(&subtree("d/f")));
}

/// No other event reports a write through a mapping.
#[cfg(target_os = "linux")]
#[test]
fn closing_a_file_that_could_be_written_to_is_heard_of() {
    let scene = Scene::watching(&["d"]);
    scene.write("d/f");
    scene.heard();
    let open = fs::OpenOptions::new().write(true).open(scene.at("d/f"));
    assert_eq!(scene.heard(), []);
    drop(open);
    assert_eq!(scene.heard(), [FsEvent::File("d/f".into())]);
}

#[test]
fn only_directories_below_the_root_are_watched() {
    let scene = Scene::watching(&["d"]);
    scene.write("d/f");
    for gone in ["none", "none/below", "d/f", "d/f/below"] {
        let refused = scene.watcher.watch(Path::new(gone));
        assert_eq!(refused, Err(WatchError::Gone), "{gone}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("d", scene.at("link")).unwrap();
        let refused = scene.watcher.watch(Path::new("link"));
        assert_eq!(refused, Err(WatchError::Gone));
    }
    for outside in ["..", "d/../..", "/", "/tmp"] {
        let refused = scene.watcher.watch(Path::new(outside));
        assert!(matches!(refused, Err(WatchError::Other(_))), "{outside}");
    }
    assert_eq!(scene.watcher.watched(), 2);
    fs::remove_dir_all(scene.at("d")).unwrap();
    scene.heard();
    assert_eq!(scene.watcher.watched(), 1);
    assert_eq!(scene.watcher.watch(Path::new("d")), Err(WatchError::Gone));
}

#[test]
fn watching_again_changes_nothing_while_the_directory_is_the_same() {
    let scene = Scene::watching(&["d"]);
    for _ in 0..3 {
        scene.watch("d");
        scene.watch("");
    }
    assert_eq!(scene.watcher.watched(), 2);
    scene.check_live("d");
}

/// Some time after a rename, the library drops the watches at and below the old name. If the new
/// name was watched before, watching it again must restore it.
#[test]
fn a_renamed_directory_is_watched_again_under_its_new_name() {
    let scene = Scene::watching(&["a", "a/s"]);
    for _ in 0..200 {
        scene.rename("a", "b");
        // This may or may not happen before the events of the rename are read.
        scene.watch("b");
        scene.watch("b/s");
        let heard = scene.heard();
        assert!(heard.contains(&subtree("a")) && heard.contains(&subtree("b")));
        scene.watch("b");
        scene.watch("b/s");
        scene.check_live("b");
        scene.check_live("b/s");
        scene.rename("b", "a");
        scene.heard();
        scene.watch("a");
        scene.watch("a/s");
        scene.check_live("a");
        scene.check_live("a/s");
        assert_eq!(scene.watcher.watched(), 3);
    }
}

#[test]
fn a_directory_renamed_there_and_back_is_watched_again() {
    let scene = Scene::watching(&["a", "a/s"]);
    for early in [false, true].repeat(100) {
        scene.rename("a", "b");
        scene.rename("b", "a");
        if early {
            scene.watch("a");
            scene.watch("a/s");
        }
        assert!(scene.heard().contains(&subtree("a")));
        scene.watch("a");
        scene.watch("a/s");
        scene.check_live("a");
        scene.check_live("a/s");
    }
}

#[test]
fn a_directory_replaced_by_another_is_watched_again() {
    let scene = Scene::watching(&["a"]);
    for turn in 0..300 {
        fs::create_dir(scene.at("new")).unwrap();
        match turn % 3 {
            0 => fs::remove_dir_all(scene.at("a")).unwrap(),
            1 => scene.rename("a", "old"),
            _ => {
                // Replaces an empty directory, in one step.
                for entry in fs::read_dir(scene.at("a")).unwrap() {
                    fs::remove_file(entry.unwrap().path()).unwrap();
                }
            }
        }
        scene.rename("new", "a");
        if turn % 2 == 0 {
            scene.watch("a");
        }
        assert!(scene.heard().contains(&subtree("a")));
        scene.watch("a");
        scene.check_live("a");
        if turn % 3 == 1 {
            fs::remove_dir_all(scene.at("old")).unwrap();
        }
    }
}

#[test]
fn cookies_are_heard_in_order_and_with_the_same_number_twice() {
    let scene = Scene::new();
    let touched = [1, 2, 2, 7, 1];
    for n in touched {
        scene.watcher.touch(n).unwrap();
    }
    while lock(&scene.notes.heard).len() < touched.len() {
        std::thread::yield_now();
    }
    assert_eq!(*lock(&scene.notes.heard), touched.map(FsEvent::Cookie));
}

#[cfg(target_os = "linux")]
#[test]
fn lost_events_are_heard_of_and_everything_can_be_watched_again() {
    let scene = Scene::watching(&["a", "b", "b/s"]);
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queue: usize = queue.trim().parse().unwrap();
    scene.hold(true);
    scene.write("first");
    let (one, other) = (scene.at("a/1"), scene.at("a/2"));
    fs::write(&one, "").unwrap();
    for _ in 0..queue / 2 {
        // Two events for each rename: twice as many as the queue can hold.
        fs::rename(&one, &other).unwrap();
        fs::rename(&other, &one).unwrap();
    }
    // The queue is full, so this is not reported.
    fs::remove_dir_all(scene.at("b")).unwrap();
    fs::create_dir_all(scene.at("b/s")).unwrap();
    scene.hold(false);
    while !lock(&scene.notes.heard).contains(&FsEvent::Overflow) {
        std::thread::yield_now();
    }
    for dir in ["", "a", "b", "b/s"] {
        scene.watch(dir);
    }
    for dir in ["a", "b", "b/s"] {
        scene.check_live(dir);
    }
}

#[test]
fn a_root_that_is_removed_or_renamed_ends_it() {
    for way in ["remove", "rename", "above"] {
        let scene = Scene::watching(&["d"]);
        match way {
            "remove" => fs::remove_dir_all(scene.at("")).unwrap(),
            "rename" => scene.rename("", "../elsewhere"),
            _ => {
                let above = scene.base.path().join("above");
                fs::rename(&above, scene.base.path().join("elsewhere")).unwrap();
            }
        }
        // The move of a parent is not reported, but no barrier can be passed.
        if way != "above" {
            scene.wait_for_down();
            let refused = scene.watcher.watch(Path::new("d"));
            assert!(matches!(refused, Err(WatchError::Other(_))), "{refused:?}");
        }
        scene.watcher.touch(1_000).unwrap_err();
        scene.notes.barrier.pass(&*scene.watcher, LONG).unwrap_err();
    }
}

/// As long as a process has a directory open, no event reports its removal.
#[test]
fn a_root_removed_while_it_is_open_lets_nobody_through() {
    let scene = Scene::watching(&[]);
    #[cfg(unix)]
    let _open = fs::File::open(scene.at("")).unwrap();
    fs::remove_dir(scene.at("")).unwrap();
    scene.watcher.touch(1_000).unwrap_err();
    fs::create_dir(scene.at("")).unwrap();
    scene.watcher.touch(1_001).unwrap_err();
}

#[test]
fn a_dropped_watcher_leaves_nothing_behind_and_says_nothing() {
    let scene = Scene::watching(&["d"]);
    let Scene {
        base: _base,
        cookies,
        notes,
        watcher,
    } = scene;
    let left = || {
        fs::read_dir(cookies.path().join("cookies"))
            .unwrap()
            .count()
    };
    assert_eq!(left(), 1);
    drop(watcher);
    assert_eq!(left(), 0);
    // The library's thread holds the other one until it ends.
    while Arc::strong_count(&notes) > 1 {
        std::thread::yield_now();
    }
    let heard = lock(&notes.heard);
    assert!(
        !heard.iter().any(|heard| matches!(heard, FsEvent::Down(_))),
        "{heard:?}"
    );
}

#[test]
fn a_watcher_whose_cookies_are_removed_is_down() {
    let scene = Scene::watching(&[]);
    fs::remove_dir_all(scene.cookies.path().join("cookies")).unwrap();
    // The directory is still open, so only touching a cookie shows the removal.
    scene.notes.barrier.pass(&*scene.watcher, LONG).unwrap_err();
}

#[test]
fn trees_and_cookies_that_will_not_do_are_refused() {
    let base = tempfile::tempdir().unwrap();
    let start = |root: &str, cookies: &str| {
        let handler = Arc::new(Notes::default());
        let (root, cookies) = (base.path().join(root), base.path().join(cookies));
        let refused = NativeWatchers.start(&root, &cookies, handler.clone()).err();
        assert_eq!(*lock(&handler.heard), []);
        refused
    };
    fs::write(base.path().join("file"), "").unwrap();
    fs::create_dir(base.path().join("root")).unwrap();
    assert_eq!(start("none", "cookies"), Some(WatchError::Gone));
    assert_eq!(start("file", "cookies"), Some(WatchError::Gone));
    let inside = start("root", "root/cookies").unwrap();
    assert!(inside.to_string().contains("inside the tree"), "{inside}");
    assert_eq!(
        fs::read_dir(base.path().join("root/cookies"))
            .unwrap()
            .count(),
        0
    );
    assert!(matches!(start("root", "file"), Some(WatchError::Other(_))));
    assert_eq!(start("root", "cookies"), None);
}

/// Events have the paths that were watched; the root may be given through a symbolic link.
#[cfg(unix)]
#[test]
fn a_root_behind_a_link_is_watched() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir_all(base.path().join("real/d")).unwrap();
    std::os::unix::fs::symlink("real", base.path().join("link")).unwrap();
    let notes = Arc::new(Notes::default());
    let handler: Arc<dyn FsEventHandler> = notes.clone();
    let cookies = base.path().join("cookies");
    let watcher = NativeWatchers
        .start(&base.path().join("link"), &cookies, handler)
        .unwrap();
    watcher.watch(Path::new("d")).unwrap();
    fs::write(base.path().join("link/d/f"), "x").unwrap();
    notes.barrier.pass(&*watcher, LONG).unwrap();
    assert!(lock(&notes.heard).contains(&file("d/f")));
}
