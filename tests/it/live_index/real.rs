//! The system's own watcher: storms of renames during searches, and lost events.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use forge_search::internal::index::watch::{
    FsEvent, FsEventHandler, NativeWatchers, WatchError, Watcher, WatcherFactory,
};
use serde_json::json;

use super::{LIVE, MAPPED, World, rounds};
use crate::support::{GUARD, SetAtEnd, Tree, paths};

/// The number of renames in one storm.
const RENAMES: usize = 2_000;

#[test]
fn a_storm_of_renames_during_searches_loses_no_match() {
    let tree = Tree::new();
    for n in 0..40 {
        tree.file(&format!("d{n}/sub/straw{n}.txt"), format!("straw {n}\n"));
        tree.file(&format!("d{n}/needle{n}.txt"), format!("needle {n}\n"));
    }
    tree.file("still/needle.txt", "a needle that stays\n");
    let world = World::over(tree, LIVE, |_| {});
    world.live_with(Arc::new(NativeWatchers));
    world.until_complete();
    for round in 0..rounds() {
        let (ended, searches) = (AtomicBool::new(false), AtomicUsize::new(0));
        let start = Instant::now();
        std::thread::scope(|scope| {
            let _at_end = SetAtEnd(&ended);
            for _ in 0..2 {
                scope.spawn(|| {
                    while !ended.load(Ordering::SeqCst) {
                        let answer = world.setup.search(json!({"pattern": "that stays"}));
                        assert_eq!(paths(&answer), ["still/needle.txt"]);
                        searches.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            // The renames go round: each takes the name that the rename before it has freed.
            let mut free = world.tree.path("free");
            for n in 0..RENAMES {
                let name = match n % 41 {
                    40 => "free".to_string(),
                    n => format!("d{n}"),
                };
                let from = world.tree.path(&name);
                if from != free && fs::rename(&from, &free).is_ok() {
                    free = from;
                }
            }
            let first = world.tree.path("d0/written.txt");
            if let Some(dir) = first.parent().filter(|dir| dir.is_dir()) {
                fs::write(dir.join("written.txt"), format!("needle written {round}\n")).unwrap();
            }
        });
        // Search at once, in any state of the worker.
        let (stats, found) = world.find("needle");
        assert_eq!(
            found.len() - found.iter().filter(|p| p.ends_with("written.txt")).count(),
            41
        );
        world.until_complete();
        world.until_read();
        world.check_used("needle");
        println!(
            "round {round}: {RENAMES} renames in {:?}, {} searches beside, then {} {:?}",
            start.elapsed(),
            searches.load(Ordering::SeqCst),
            stats.index_safety_state,
            stats.index_uncertain_reason
        );
    }
}

/// The system's watcher, which loses all events while a test says so.
#[derive(Clone, Default)]
struct Losing {
    loses: Arc<AtomicBool>,
    /// The number of overflows that were reported.
    told: Arc<AtomicUsize>,
}

struct LosingHandler {
    of: Losing,
    lost: AtomicBool,
    handler: Arc<dyn FsEventHandler>,
}

impl FsEventHandler for LosingHandler {
    fn handle(&self, event: FsEvent) {
        match (self.of.loses.load(Ordering::SeqCst), &event) {
            (true, FsEvent::File(_) | FsEvent::Subtree(_)) => {
                self.lost.store(true, Ordering::SeqCst);
            }
            _ => {
                // Like the kernel's queue: the overflow is reported before any later event.
                if self.lost.swap(false, Ordering::SeqCst) {
                    self.of.told.fetch_add(1, Ordering::SeqCst);
                    self.handler.handle(FsEvent::Overflow);
                }
                self.handler.handle(event);
            }
        }
    }
}

impl WatcherFactory for Losing {
    fn start(
        &self,
        root: &std::path::Path,
        cookie_dir: &std::path::Path,
        handler: Arc<dyn FsEventHandler>,
    ) -> Result<Arc<dyn Watcher>, WatchError> {
        let (of, lost) = (self.clone(), AtomicBool::new(false));
        let handler = Arc::new(LosingHandler { of, lost, handler });
        NativeWatchers.start(root, cookie_dir, handler)
    }
}

#[test]
fn events_that_the_system_loses_lose_no_match() {
    let tree = Tree::new();
    for n in 0..60 {
        tree.file(&format!("d{}/{n}.txt", n % 7), format!("straw {n}\n"));
    }
    let world = World::over(tree, MAPPED, |_| {});
    let losing = Losing::default();
    let loses = losing.loses.clone();
    world.live_with(Arc::new(losing.clone()));
    world.until_complete();
    for round in 0..rounds() {
        let told_before = losing.told.load(Ordering::SeqCst);
        loses.store(true, Ordering::SeqCst);
        for n in 0..30 {
            world.write(
                &format!("d{}/{n}.txt", n % 7),
                &format!("needle {round} {n}\n"),
            );
            world.write(
                &format!("new{round}/{n}/x.txt"),
                &format!("needle {round} new\n"),
            );
        }
        // The first call learns that events were lost. Neither this call nor a later one misses a
        // match. The first call excludes files only if the whole tree was compared during the call.
        // That is rare: it happens only if other work slows the call down.
        let needle = format!("needle {round} ");
        let (stats, found) = world.find(&needle);
        assert_eq!(found.len(), 60, "{stats:?}");
        assert!(losing.told.load(Ordering::SeqCst) > told_before);
        loses.store(false, Ordering::SeqCst);
        let start = Instant::now();
        world.until_complete();
        world.until_read();
        assert_eq!(world.check_used(&needle).len(), 60);
        assert!(start.elapsed() < GUARD);
        println!(
            "round {round}: {:?}, complete again after {:?}",
            stats.index_uncertain_reason,
            start.elapsed()
        );
    }
}
