//! Files that a program writes through a name that was removed (decision D55).

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forge_search::internal::index::watch::{FsEvent, NativeWatchers};
use serde_json::json;

use super::{LIVE, LOOK, MAPPED, World};

const UNCERTAIN: Option<&str> = Some("RENAME_UNCERTAIN");

/// Set in a child process that runs one test alone.
const ALONE: &str = "FORGE_SEARCH_TEST_ALONE";

/// Longer than the shortest interval between two comparisons that the worker counts as separate.
const APART_MS: u64 = 6_000;

/// Waits until the index is certain again, whatever the pause before the next comparison.
fn until_certain(world: &World) {
    world.until("it is certain again", |report| {
        world.hands.put_forward(1_000);
        report.index_state.allows_exclusion()
    });
}

/// Returns open files whose first name is gone, or that never had one, and the other name that each
/// has in the tree.
#[cfg(target_os = "linux")]
fn renamed_by_links(world: &World) -> Vec<(File, &'static str)> {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
    use std::os::fd::AsRawFd;

    let tree = &world.tree;
    let mut linked = File::create(tree.path("a/linked.tmp")).unwrap();
    linked.write_all(b"straw\n").unwrap();
    fs::hard_link(tree.path("a/linked.tmp"), tree.path("b/linked.txt")).unwrap();
    fs::remove_file(tree.path("a/linked.tmp")).unwrap();

    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut files = vec![(linked, "b/linked.txt")];
    // Not every filesystem can create a file without a name.
    match openat(CWD, tree.path("a"), flags, Mode::RUSR | Mode::WUSR) {
        Ok(nameless) => {
            let mut nameless = File::from(nameless);
            nameless.write_all(b"straw\n").unwrap();
            let by = format!("/proc/self/fd/{}", nameless.as_raw_fd());
            let to = tree.path("b/nameless.txt");
            linkat(CWD, by, CWD, to, AtFlags::SYMLINK_FOLLOW).unwrap();
            files.push((nameless, "b/nameless.txt"));
        }
        Err(error) => println!("LEFT OUT: a file that begins without a name: {error}"),
    }
    files
}

#[cfg(target_os = "linux")]
#[test]
fn text_written_through_a_removed_name_is_found_by_the_next_search() {
    let world = World::new(MAPPED, |_| {});
    world.live_with(Arc::new(NativeWatchers));
    world.until_complete();
    let mut files = renamed_by_links(&world);
    world.until_read();
    for round in 0..3 {
        for (file, path) in &mut files {
            until_certain(&world);
            world.until_used("needle");
            world.until_read();
            // There is no other change and no other writer. The only event names the removed name.
            file.write_all(format!("round{round}\n").as_bytes())
                .unwrap();
            let (_, found) = world.find(&format!("round{round}"));
            assert!(found.contains(*path), "{path} {round}: {found:?}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_come_and_go_do_not_count_as_writes_to_removed_names() {
    if std::env::var_os(ALONE).is_none() {
        // Processes that other tests start inherit this process's open files for a moment. Such a
        // process may be the last to close a file, which sends an event.
        let name =
            "live_index::orphans::files_that_come_and_go_do_not_count_as_writes_to_removed_names";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let world = World::new(MAPPED, |_| {});
    world.live_with(Arc::new(NativeWatchers));
    world.until_complete();
    let epoch = world.report().epoch;
    std::thread::scope(|scope| {
        let temporary = scope.spawn(|| {
            for n in 0..2_000 {
                let path = world.tree.path(&format!("a/{n}.tmp"));
                fs::write(&path, "straw\n").unwrap();
                match n % 3 {
                    0 => fs::rename(&path, world.tree.path("a/kept.txt")).unwrap(),
                    _ => fs::remove_file(&path).unwrap(),
                }
            }
        });
        while !temporary.is_finished() {
            let answer = world.setup.search(json!({"pattern": "needle"}));
            assert_eq!(answer.stats.unwrap().index_uncertain_reason, None);
        }
    });
    world.until_complete();
    assert_eq!(world.report().epoch, epoch, "nothing had to be compared");
}

#[test]
fn a_write_to_a_removed_name_makes_the_index_uncertain() {
    let world = World::complete(LIVE, |_| {});
    // The result is the same if the event arrives long before the search.
    for at_once in [true, false] {
        world.watchers.hold("");
        match at_once {
            true => world.watchers.queue(FsEvent::File("a/gone".into())),
            false => {
                world.hear_file("a/gone");
                world.until_standing("UNCERTAIN", UNCERTAIN);
            }
        }
        world.check_unused("needle", "UNCERTAIN", UNCERTAIN);
        let why = world.report().why.unwrap();
        assert!(why.contains("a/gone was removed"), "{why}");
        world.watchers.release();
        world.until_complete();
    }
    // The file was removed after it was written, and the event of the removal arrives in time.
    world.hands.stop();
    world.watchers.queue(FsEvent::File("a/late".into()));
    world.watchers.queue(FsEvent::Subtree("a/late".into()));
    world.check_used("needle");
    // The directory is gone too. Its removal has an event of its own, so the index stays certain.
    world.watchers.queue(FsEvent::File("a/away/file".into()));
    world.check_used("needle");
}

#[test]
fn a_removed_name_of_no_file_of_the_tree_prevents_exclusion_only_briefly() {
    let world = World::complete(LIVE, |_| {});
    let write = || {
        world.hands.put_forward(APART_MS);
        world.watchers.queue(FsEvent::File("a/server.log".into()));
        let (stats, _) = world.find("needle");
        until_certain(&world);
        stats.index_uncertain_reason
    };
    let first = [write(), write(), write(), write(), write()];
    let uncertain = || UNCERTAIN.map(str::to_string);
    let expected = [uncertain(), uncertain(), uncertain(), None, None];
    assert_eq!(first, expected);
    // For some time, another file has that name.
    world.write("a/server.log", "straw\n");
    world.hear_subtree("a/server.log");
    fs::remove_file(world.tree.path("a/server.log")).unwrap();
    world.hear_subtree("a/server.log");
    world.check_used("needle");
    assert_eq!(write(), uncertain());
    // The written file is in the tree, under another name for which there is no event.
    world.write("a/two.txt", "a needle\n");
    assert_eq!(write(), uncertain());
    assert!(world.check_used("a needle").contains("a/two.txt"));
    world.write("a/two.txt", "no more\n");
    assert_eq!(write(), uncertain());
    assert!(!world.check_used("a needle").contains("a/two.txt"));
}

/// A program removes each temporary file at once and writes it afterwards.
#[test]
fn an_endless_stream_of_names_does_not_keep_the_worker_busy() {
    let world = World::complete(LIVE, |_| {});
    world.hands.stop();
    let listed = || {
        world
            .watchers
            .calls()
            .iter()
            .filter(|dir| dir.as_os_str().is_empty())
            .count()
    };
    let before = listed();
    for n in 0..200 {
        // Ten names a second.
        world.hands.put_forward(100);
        world
            .watchers
            .queue(FsEvent::File(format!("a/temporary{n}").into()));
        assert_eq!(world.find("needle").1.len(), 3);
        std::thread::sleep(LOOK);
    }
    // Comparisons are due at once and after 1, 2, 4 and 8 seconds. There are fewer if the worker
    // had to wait for a processor.
    let compared = listed() - before;
    assert!(compared <= 5, "{compared}");
    // The first search after that receives the events that were queued since.
    for _ in 0..2 {
        until_certain(&world);
        world.find("needle");
    }
    until_certain(&world);
    world.check_used("needle");
}

/// Two programs write one file, and one of them uses the removed name. An event for the other name
/// does not explain an event for the removed name.
#[test]
fn a_removed_name_stays_unexplained_while_other_files_change() {
    let world = World::complete(LIVE, |_| {});
    for round in 0..4 {
        world.hands.put_forward(APART_MS);
        world.write("a/two.txt", &format!("straw {}\n", "x".repeat(round)));
        world.watchers.queue(FsEvent::File("a/two.txt".into()));
        world.watchers.queue(FsEvent::File("a/gone.tmp".into()));
        world.find("needle");
        until_certain(&world);
    }
    world.until_used("needle");
    world.until_read();
    world.write("a/two.txt", "a needle, written by the name that is gone\n");
    world.watchers.queue(FsEvent::File("a/gone.tmp".into()));
    assert_eq!(world.find("needle").1.len(), 4);
}

/// A write in the middle of a comparison is found by that comparison, but its event arrives
/// afterwards. If the next comparison then finds no change, that does not prove that the removed
/// name belongs to no file of the tree.
#[test]
fn writes_during_a_comparison_of_the_tree_do_not_count_for_the_next_one() {
    let world = Arc::new(World::complete(LIVE, |_| {}));
    world.hands.stop();
    let gone = || FsEvent::File("a/gone.tmp".into());
    // In each round, the comparison finds the write.
    for round in 0..6 {
        world.hands.put_forward(100);
        world.write("a/b/four.txt", &format!("straw {}\n", "x".repeat(round)));
        world.watchers.queue(gone());
        world.find("needle");
        if round == 5 {
            let weak = Arc::downgrade(&world);
            let done = AtomicBool::new(false);
            world.watchers.on_watch(move |dir| {
                if dir == Path::new("a/b") && !done.swap(true, Ordering::SeqCst) {
                    let world = weak.upgrade().unwrap();
                    world.write("a/b/four.txt", "the last for some time\n");
                    world.handle(FsEvent::File("a/gone.tmp".into()));
                }
            });
        }
        until_certain(&world);
        world.watchers.on_watch(|_| {});
    }
    // The worker handles the event from the middle of the comparison now. It rests before the next
    // comparison.
    world.find("needle");
    until_certain(&world);
    world.until("all was read", |report| {
        world.hands.put_forward(100);
        world.find("needle");
        report.unread == 0 && report.index_state.allows_exclusion()
    });
    world.write("a/b/four.txt", "a needle, later\n");
    world.watchers.queue(gone());
    assert_eq!(world.find("needle").1.len(), 4);
}
