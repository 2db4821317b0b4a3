//! The shutdown of live indexes: it ends in time from every state, and the worker does no work
//! after it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_search::internal::format::lock::{DirLock, LockFile};
use forge_search::internal::index::builder::Phase;
use forge_search::internal::index::watch::{FsEvent, NativeWatchers};

use super::storages::How;
use super::{LIVE, LOOK, MAPPED, World};
use crate::index_support::Host;
use crate::support::GUARD;

impl World {
    /// Abandons the index and waits until its worker has ended. Then opens the indexes on disk
    /// again, as another process would.
    pub(super) fn left_alone(mut self) -> World {
        let kept = self.setup.clone().reopened();
        self.setup = kept;
        let start = Instant::now();
        // The worker owns a reference to the clock until it ends.
        while Arc::strong_count(&self.hands) > 1 {
            assert!(
                start.elapsed() < GUARD,
                "{}",
                Arc::strong_count(&self.hands)
            );
            std::thread::sleep(LOOK);
        }
        self
    }
}

/// The end of input and a signal may both request a shutdown. The second request must not end the
/// process before the first shutdown is done.
#[test]
fn a_second_shutdown_waits_for_the_first() {
    let world = World::new(How::OnDisk, |_| {});
    let shut_down = || {
        let indexes = world.setup.kept().indexes.clone();
        std::thread::spawn(move || indexes.shut_down())
    };
    world.watchers.hold("a/b/c");
    world.live();
    world.until_held();
    let (first, second) = (shut_down(), shut_down());
    std::thread::sleep(20 * LOOK);
    assert!(!first.is_finished() && !second.is_finished());
    // The shutdown waits for the watcher too, after the worker has ended.
    world.watchers.hold_ends();
    world.watchers.hold("");
    world.watchers.nobody_waits();
    world.until("the worker has ended", |report| !report.tracking);
    std::thread::sleep(20 * LOOK);
    assert!(!first.is_finished() && !second.is_finished());
    world.watchers.release();
    assert!(first.join().unwrap() && second.join().unwrap());
}

/// Only the first shutdown waits for a worker that does not end. If each one waited, all of them
/// together would take longer than the guard.
#[test]
fn each_caller_of_a_shutdown_waits_only_once() {
    const LATER: usize = 1_000;

    let world = World::new(How::OnDisk, |config| config.index_shutdown_timeout_ms = 500);
    world.watchers.hold("a/b/c");
    world.live();
    world.until_held();
    let start = Instant::now();
    let all = [(); 4].map(|()| {
        let indexes = world.setup.kept().indexes.clone();
        std::thread::spawn(move || indexes.shut_down())
    });
    for one in all {
        assert!(!one.join().unwrap(), "it was left behind");
    }
    assert!(start.elapsed() >= Duration::from_millis(500));
    for n in 0..LATER {
        assert!(!world.setup.kept().indexes.shut_down());
        assert!(start.elapsed() < GUARD, "{n} of {LATER}");
    }
    world.watchers.release();
}

#[test]
fn a_shutdown_ends_the_worker_and_its_watcher() {
    let world = World::complete(How::OnDisk, |_| {});
    world.write("a/two.txt", "a needle, too\n");
    world.hear_file("a/two.txt");
    assert!(world.setup.kept().indexes.shut_down());
    assert!(!world.report().tracking);
    // The published index is usable for the next process.
    assert_eq!(
        world
            .setup
            .kept()
            .indexes
            .store()
            .unwrap()
            .list()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(world.find("needle").1.len(), 4);
    assert!(world.setup.kept().indexes.shut_down(), "once more");
}

/// Returns the targets of this process's open descriptors.
#[cfg(target_os = "linux")]
fn descriptors() -> Vec<String> {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let links = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let links = links.map(|link| link.to_str().unwrap().to_string());
    let mut links: Vec<String> = links.filter(|link| !link.ends_with("/fd")).collect();
    links.sort();
    links
}

/// Returns the number of threads of this process with a name that starts with `name`.
#[cfg(target_os = "linux")]
fn threads(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|comm| comm.starts_with(name)).count()
}

/// Returns the index directories below `dir` with a held lock.
#[cfg(target_os = "linux")]
fn held_locks(dir: &Path) -> Vec<PathBuf> {
    let mut held = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let own = [LockFile::Writers, LockFile::Readers].into_iter();
            held.extend(
                own.filter(|lock| DirLock::is_held(&path, *lock))
                    .map(|_| path.clone()),
            );
            held.extend(held_locks(&path));
        }
    }
    held
}

/// Runs a test in a process of its own. Returns false in that process.
#[cfg(target_os = "linux")]
fn was_run_alone(name: &str) -> bool {
    const CHILD: &str = "FORGE_SEARCH_TEST_SHUTDOWN";
    if std::env::var_os(CHILD).is_some() {
        return false;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    true
}

/// Other tests of this process open descriptors too, so this test runs in a process of its own.
#[cfg(target_os = "linux")]
#[test]
fn a_shutdown_releases_all_locks_descriptors_and_threads() {
    let name = "live_index::shutdown::a_shutdown_releases_all_locks_descriptors_and_threads";
    if was_run_alone(name) {
        return;
    }
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < GUARD, "{what}: {:?}", descriptors());
            std::thread::sleep(LOOK);
        }
    };
    for (how, in_a_build) in [
        (How::Anyhow(LIVE), false),
        (How::OnDisk, false),
        (How::OnDisk, true),
    ] {
        let before = descriptors();
        let mut world = World::new(how, |_| {});
        let searching = match in_a_build {
            true => {
                world.watchers.hold("a/b");
                let searching = world.live_beside_a_search();
                world.until_held();
                Some(searching)
            }
            false => {
                world.live_with(Arc::new(NativeWatchers));
                world.until_complete();
                world.check_used("needle");
                assert!(descriptors().iter().any(|link| link.contains("inotify")));
                None
            }
        };
        assert!(threads("forge-search-in") > 0);
        let indexes = world.setup.kept().indexes.clone();
        let place = indexes.store().map(|store| store.root().to_path_buf());
        let own = format!("index-{}-", std::process::id());
        assert_eq!(world.told().len(), 1);
        if in_a_build {
            // The build holds the write lock.
            until("it builds", &|| {
                !held_locks(place.as_deref().unwrap()).is_empty()
            });
            let watchers = world.watchers.clone();
            let ending = indexes.clone();
            let ends = std::thread::spawn(move || ending.shut_down());
            watchers.release();
            assert!(ends.join().unwrap());
        } else {
            assert!(indexes.shut_down());
        }
        // Searches keep the open segment and the root of the sandbox. All other descriptors are
        // closed.
        let root = world.root().to_str().unwrap();
        let is_used = |link: &String| link.ends_with(".seg") || link == root;
        // The watcher's thread closes its own descriptors, and the system lists a thread for a
        // moment after its end. So wait.
        until("all is given back", &|| {
            let after = descriptors().into_iter().filter(|link| !is_used(link));
            after.eq(before.iter().cloned()) && threads("forge-search-in") == 0
        });
        assert_eq!(world.told(), []);
        let temporary = std::env::temp_dir().join(format!(
            "forge-search-living-{}",
            rustix::process::geteuid().as_raw()
        ));
        for place in place.iter().chain([&temporary]) {
            let held: Vec<PathBuf> = held_locks(place);
            let ours =
                |path: &&PathBuf| *place != temporary || path.to_str().unwrap().contains(&own);
            assert_eq!(held.iter().find(ours), None, "{held:?}");
        }
        drop(searching);
        drop(indexes);
        world.setup.kept = None;
        until("all is closed", &|| descriptors() == before);
    }
}

#[test]
fn a_shutdown_before_the_first_write_leaves_no_files() {
    let world = World::new(How::OnDisk, |_| {});
    world.watchers.hold("a/b/c");
    world.live();
    world.until_held();
    let indexes = world.setup.kept().indexes.clone();
    let ends = std::thread::spawn(move || indexes.shut_down());
    // The build ends when the held call returns.
    std::thread::sleep(10 * LOOK);
    world.watchers.release();
    assert!(ends.join().unwrap(), "in time");
    let store = world.setup.kept().indexes.store().unwrap();
    assert!(
        store
            .list()
            .unwrap()
            .iter()
            .all(|listed| listed.manifest.is_err())
    );
    assert_eq!(world.index_state().0, "ABSENT");
    // The next process starts from the directories that are left.
    let again = world.setup.clone().reopened();
    assert_eq!(
        again.kept().indexes.store().unwrap().mode().as_str(),
        again.config.index_storage.as_str()
    );
    again.build(&Host::hasty());
}

#[test]
fn a_build_that_can_not_end_in_time_is_abandoned_and_publishes_nothing() {
    let world = World::new(How::OnDisk, |config| config.index_shutdown_timeout_ms = 200);
    world.watchers.hold("a/b");
    world.live();
    world.until_held();
    let start = Instant::now();
    assert!(!world.setup.kept().indexes.shut_down());
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(200), "{took:?}");
    // The abandoned build holds no resource that searches need.
    assert_eq!(world.find("needle").1.len(), 3);
    world.watchers.release();
    let world = world.left_alone();
    let store = world.setup.kept().indexes.store().unwrap();
    assert!(
        store
            .list()
            .unwrap()
            .iter()
            .all(|listed| listed.manifest.is_err())
    );
    assert_eq!(world.find("needle").1.len(), 3);
}

#[test]
fn a_reconcile_that_can_not_end_in_time_is_abandoned() {
    let world = World::complete(MAPPED, |config| config.index_shutdown_timeout_ms = 200);
    world.watchers.hold("a");
    world.handle(FsEvent::Overflow);
    world.until_held();
    assert!(!world.setup.kept().indexes.shut_down());
    world.write("a/two.txt", "a needle, too\n");
    assert_eq!(world.find("needle").1.len(), 4);
    world.watchers.release();
    std::thread::sleep(10 * LOOK);
    // The reconcile was not completed, so it proves nothing.
    assert_ne!(world.index_state().0, "COMPLETE");
    let world = world.left_alone();
    fs::write(world.tree.path("a/two.txt"), "straw\n").unwrap();
    assert_eq!(world.find("needle").1.len(), 3);
}

#[test]
fn dropping_the_indexes_ends_them() {
    let mut world = World::complete(MAPPED, |_| {});
    let hands = world.hands.clone();
    world.setup.kept = None;
    // One reference is this one, the other belongs to the world.
    assert_eq!(Arc::strong_count(&hands), 2);
}

#[test]
fn dropping_the_indexes_ends_a_build() {
    let mut world = World::new(MAPPED, |config| {
        // While a search runs, the build rests for an hour after its first files.
        config.index_build_throttle_ms = 3_600_000;
        config.index_idle_boost_ms = 600_000;
    });
    let searching = world.live_beside_a_search();
    world.until_in_phase(Phase::Tokenize);
    assert_eq!(world.index_state().0, "BUILDING");
    let hands = world.hands.clone();
    world.setup.kept = None;
    drop(searching);
    assert_eq!(Arc::strong_count(&hands), 2);
}
