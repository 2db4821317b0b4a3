//! Tracking of changes: how events mark files and directories, when marks are handled, and in which
//! order.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use forge_search::internal::index::watch::FsEvent;
use forge_search::internal::tool::indexing::Report;
use serde_json::json;

use super::{FILES, LIVE, LOOK, MAPPED, World, set};
use crate::support::{GUARD, Tree};

#[test]
fn events_received_before_a_search_are_in_its_answer() {
    for variant in [LIVE, MAPPED] {
        let world = World::complete(variant, |_| {});
        // With a stopped clock, the worker stays idle.
        world.hands.stop();
        world.write("a/two.txt", "a needle, too\n");
        // The event is still in the system's queue when the search begins.
        world.watchers.queue(FsEvent::File("a/two.txt".into()));
        assert_eq!(world.check_used("needle").len(), 4);
        fs::remove_file(world.tree.path("a/two.txt")).unwrap();
        world.watchers.queue(FsEvent::Subtree("a/two.txt".into()));
        assert_eq!(world.check_used("needle").len(), 3);
        assert_eq!(world.report().dirty, 0);
    }
}

#[test]
fn an_update_reads_only_changed_files() {
    for variant in [LIVE, MAPPED] {
        let world = World::complete(variant, |_| {});
        let listed = world.watchers.calls();
        // A search or an update that looked at more files would find these changes, which have no
        // events.
        fs::remove_dir_all(world.tree.path("b")).unwrap();
        world.write("a/b/four.txt", "changed, but not heard of\n");
        for n in 1..=3 {
            world.write("a/two.txt", &format!("a needle, change {n}\n"));
            world.hear_file("a/two.txt");
            let read = |report: &Report| (report.dirty, report.unread) == (0, 0);
            let report = world.until("it was read", |report| {
                report.extra_files == 1 && read(report)
            });
            assert_eq!(report.dead, 1, "{report:?}");
            let request = json!({"pattern": format!("change {n}"), "path": "a"});
            let (stats, response) = world.ask(&request);
            assert!(stats.index_exclusion_used && response.count == 1);
        }
        assert_eq!(world.watchers.calls(), listed);
        // An event for the whole tree makes the worker find them.
        world.hear_subtree("");
        world.until("all was found", |report| {
            (report.extra_files, report.dead) == (2, 3)
        });
    }
}

#[test]
fn a_rare_word_is_searched_in_few_files() {
    let tree = Tree::new();
    for n in 0..400 {
        tree.file(
            &format!("d{}/{n}.txt", n % 20),
            format!("straw of bale {n}\n"),
        );
    }
    tree.file("d7/rare.txt", "an unmistakable needle\n");
    let world = World::over(tree, LIVE, |_| {});
    world.live();
    world.until_complete();
    for _ in 0..3 {
        let (stats, found) = world.find("unmistakable");
        assert_eq!(found, set(["d7/rare.txt"]));
        assert_eq!(stats.candidates_total, 401);
        assert!(stats.candidates_scanned <= 4, "{stats:?}");
    }
}

#[test]
fn changed_files_and_subtrees_are_marked_dirty() {
    let world = World::complete(LIVE, |_| {});
    world.hands.stop();
    world.write("new/of/many/deep.txt", "a needle\n");
    world.write("new/top.txt", "a needle\n");
    world.write("new/of/.ignore", "*.rs\n");
    world.write("new/of/not.rs", "a needle\n");
    world.hear_subtree("new");
    world.hear_file("nine.txt");
    assert_eq!(world.report().dirty, 2);
    // A mark below a marked subtree adds nothing.
    world.hear_file("new/top.txt");
    assert_eq!(world.report().dirty, 2);
    // New rules are not trusted at first.
    world.until_used("needle");
    assert_eq!(world.check_used("needle").len(), 5);
    let dirs = ["new", "new/of", "new/of/many"].map(PathBuf::from);
    let watched = world.watchers.watched();
    assert!(dirs.iter().all(|dir| watched.contains(dir)), "{watched:?}");
    fs::rename(world.tree.path("new"), world.tree.path("b/moved")).unwrap();
    world.hear_subtree("new");
    world.hear_subtree("b/moved");
    world.until_used("needle");
    assert_eq!(world.check_used("needle").len(), 5);
    fs::remove_dir_all(world.tree.path("b/moved")).unwrap();
    fs::write(world.tree.path("b/moved"), "a needle\n").unwrap();
    world.hear_subtree("b/moved");
    assert_eq!(world.check_used("needle").len(), 4);
}

#[test]
fn dirty_marks_wait_until_no_more_events_come() {
    let world = World::complete(LIVE, |config| config.index_watch_debounce_ms = 1_000);
    world.hands.stop();
    let calls = world.watchers.calls().len();
    world.hear_subtree("a");
    world.hands.put_forward(999);
    // A second event restarts the debounce time.
    world.hear_subtree("a");
    world.hands.put_forward(999);
    std::thread::sleep(30 * super::LOOK);
    assert_eq!(world.report().dirty, 1);
    assert_eq!(world.watchers.calls().len(), calls);
    world.hands.put_forward(1);
    world.until("it was worked off", |report| report.dirty == 0);
    assert!(world.watchers.calls().len() > calls);
    assert_eq!(world.index_state(), ("COMPLETE", None));
}

#[test]
fn ignore_rules_that_change_without_events_are_noticed_by_the_next_search() {
    let tree = Tree::of(super::FILES);
    for path in [".ignore", "a/.ignore", "a/b/.rgignore"] {
        tree.file(path, "nothing at all\n");
    }
    let world = World::over(tree, LIVE, |_| {});
    world.live();
    world.until_complete();
    world.check_used("needle");
    let reason = Some("ELIGIBILITY_CHANGED");
    for (path, rules, expected) in [
        (".ignore", "c/\n", 2),
        ("a/.ignore", "one.txt\n", 1),
        (".ignore", "nothing\n", 2),
        ("a/b/.rgignore", "*.rs\n", 0),
    ] {
        world.watchers.hold("");
        world.write(path, rules);
        assert_eq!(
            world.check_unused("needle", "UNCERTAIN", reason).len(),
            expected,
            "{path}"
        );
        world.watchers.release();
        world.until_complete();
        assert_eq!(world.check_used("needle").len(), expected, "{path}");
    }
}

/// A tree that is renamed for a moment takes its rules along. No event is reported when it is back.
#[test]
fn a_root_that_disappears_for_a_while_is_compared_when_it_is_back() {
    let tree = Tree::of(super::FILES);
    tree.file("a/.ignore", "nothing at all\n");
    let world = World::over(tree, LIVE, |_| {});
    world.live();
    world.until_complete();
    world.hands.stop();
    let away = world.root().with_extension("away");
    fs::rename(world.root(), &away).unwrap();
    world.hear_file("a/.ignore");
    world.until("it was looked for", |report| {
        let why = report.why.as_deref();
        why.is_some_and(|why| why.contains("the index root is gone"))
    });
    fs::rename(&away, world.root()).unwrap();
    let reason = Some("ELIGIBILITY_CHANGED");
    assert_eq!(world.index_state(), ("UNCERTAIN", reason));
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 3);
    world.hands.put_forward(2_000);
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 3);
}

/// If the tree is renamed during a build, the index is compared or rebuilt once the tree is back.
#[test]
fn a_root_that_goes_away_while_it_is_built_is_indexed_when_it_is_there_again() {
    for last in ["", "a", "a/b", "b"] {
        let world = World::new(LIVE, |_| {});
        let (root, away) = (
            world.root().to_path_buf(),
            world.root().with_extension("away"),
        );
        world.hands.stop();
        let (from, to) = (root.clone(), away.clone());
        let done = AtomicBool::new(false);
        world.watchers.on_watch(move |dir| {
            if dir == Path::new(last) && !done.swap(true, Ordering::SeqCst) {
                fs::rename(&from, &to).unwrap();
            }
        });
        world.live();
        let why = |report: &Report| report.why.is_some() || report.unwatched.is_some();
        world.until("it was noticed", why);
        fs::rename(&away, &root).unwrap();
        // The worker retries two seconds after the root was missing.
        world.until("COMPLETE", |report| {
            world.hands.put_forward(2_000);
            report.index_state.allows_exclusion()
        });
        assert_eq!(world.check_used("needle").len(), 3, "{last}");
    }
}

#[test]
fn renames_are_followed_by_their_names_and_never_uncertain() {
    let world = World::complete(MAPPED, |_| {});
    world.hands.stop();
    let rename = |from: &str, to: &str| {
        fs::rename(world.tree.path(from), world.tree.path(to)).unwrap();
        world.watchers.queue(FsEvent::Subtree(from.into()));
        world.watchers.queue(FsEvent::Subtree(to.into()));
    };
    rename("a/one.txt", "b/uno.txt");
    assert!(world.check_used("needle").contains("b/uno.txt"));
    rename("a/b", "b/b");
    let now = set(["b/uno.txt", "b/b/three.rs", "b/b/c/six.rs"]);
    assert_eq!(world.check_used("needle"), now);
    // A rename over another file, and back.
    rename("b/uno.txt", "nine.txt");
    assert!(world.check_used("needle").contains("nine.txt"));
    rename("b/b", "a/b");
    rename("nine.txt", "a/one.txt");
    assert_eq!(
        world.check_used("needle"),
        set(["a/one.txt", "a/b/three.rs", "a/b/c/six.rs"])
    );
    // If only one name of a rename is inside the tree, only that name has an event.
    let outside = world.root().parent().unwrap().join("outside");
    fs::rename(world.tree.path("a/b"), &outside).unwrap();
    world.watchers.queue(FsEvent::Subtree("a/b".into()));
    assert_eq!(world.check_used("needle"), set(["a/one.txt"]));
    fs::rename(&outside, world.tree.path("c")).unwrap();
    world.watchers.queue(FsEvent::Subtree("c".into()));
    assert_eq!(world.check_used("needle").len(), 3);
    assert_eq!(world.report().epoch, 1);
}

#[test]
fn dirty_marks_are_processed_in_the_order_of_marking() {
    let world = World::complete(LIVE, |_| {});
    world.hands.stop();
    for n in 0..600 {
        fs::create_dir(world.tree.path(&format!("d{n}"))).unwrap();
    }
    // Marks are handled by time. Marks of the same moment are sorted by name. A portion is handled
    // before the next one.
    let marked: Vec<usize> = (0..600).map(|n| (n * 7) % 600).collect();
    for moment in marked.chunks(300) {
        moment
            .iter()
            .for_each(|n| world.hear_subtree(&format!("d{n}")));
        world.hands.put_forward(1);
    }
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = seen.clone();
    world.watchers.on_watch(move |dir| {
        note.lock().unwrap().push(dir.to_str().unwrap().to_string());
    });
    // The worker processes them. A search processes all at once.
    world.hands.put_forward(10_000);
    world.until("all were listed", |report| report.dirty == 0);
    let mut expected = Vec::new();
    for moment in marked.chunks(300) {
        let mut names: Vec<String> = moment.iter().map(|n| format!("d{n}")).collect();
        names.sort();
        expected.extend(names);
    }
    // Within a portion, directories are listed in parallel.
    let portions = |names: &[String]| {
        names
            .chunks(256)
            .map(|portion| {
                let mut portion = portion.to_vec();
                portion.sort();
                portion
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(portions(&seen.lock().unwrap()), portions(&expected));
}

#[test]
fn what_has_changed_is_read_and_left_out_again() {
    let world = World::complete(LIVE, |_| {});
    world.write("a/two.txt", "nothing at all\n");
    world.write("b/new.txt", "nothing new\n");
    world.hear_file("a/two.txt");
    world.hear_subtree("b/new.txt");
    let report = world.until("they were read", |report| {
        report.extra_files == 2 && report.unread == 0
    });
    assert_eq!(report.dead, 1);
    let (stats, _) = world.find("needle");
    assert_eq!((stats.candidates_total, stats.candidates_scanned), (9, 3));
    // The file changes again. Its old content must not exclude it.
    world.hands.stop();
    world.write("b/new.txt", "a new needle\n");
    world.watchers.queue(FsEvent::File("b/new.txt".into()));
    assert_eq!(world.check_used("needle").len(), 4);
}

/// Changes above the root are not reported in time.
#[test]
fn a_tree_that_is_away_for_a_moment_is_not_taken_for_an_empty_one() {
    let tree = Tree::of(FILES.map(|(path, text)| (format!("above/tree/{path}"), text)));
    let root = tree.path("above/tree");
    let setup = tree.setup().config(|config| {
        config.index_watch_debounce_ms = 5;
        config.index_idle_boost_ms = 0;
        config.index_roots = vec![root.clone()];
    });
    let world = World::of(tree, setup.with_indexes(LIVE));
    world.live();
    let indexes = &world.setup.kept().indexes;
    let until = |is_so: &dyn Fn(&Report) -> bool| {
        let start = std::time::Instant::now();
        while !is_so(&indexes.live_report(&root).unwrap()) {
            assert!(start.elapsed() < GUARD);
            std::thread::sleep(LOOK);
        }
    };
    until(&|report| report.index_state.allows_exclusion());
    let (above, away) = (world.tree.path("above"), world.tree.path("away"));
    fs::rename(&above, &away).unwrap();
    world.hear_file("a/one.txt");
    world.hear_subtree("a/b");
    until(&|report| report.dirty == 0 || !report.tracking);
    fs::rename(&away, &above).unwrap();
    let request = json!({"pattern": "needle", "path": "above/tree"});
    assert_eq!(world.ask(&request).1.count, 3);
    // The watcher also watches the directories above the root and reports that one was renamed. If
    // there is no watcher at the moment, the worker starts another one.
    world.watchers.hear_if_any(FsEvent::Overflow);
    until(&|report| report.index_state.allows_exclusion());
    let (stats, response) = world.ask(&request);
    assert!(
        stats.index_exclusion_used && response.count == 3,
        "{stats:?}"
    );
}
