//! Changes without a watcher event: writes through other names of a file, and rules above the tree
//! (decisions D16a, D16c).

use std::fs;

use forge_search::internal::index::watch::FsEvent;

use super::{LIVE, MAPPED, World, set};
use crate::support::Tree;

#[test]
fn text_written_through_a_name_outside_of_the_tree_is_found() {
    let tree = Tree::of(super::FILES);
    let outside = tree.root().parent().unwrap().join("outside");
    fs::hard_link(tree.path("a/two.txt"), &outside).unwrap();
    let world = World::over(tree, MAPPED, |_| {});
    world.live();
    world.until_complete();
    for n in 0..3 {
        fs::write(&outside, format!("a needle, {n}\n")).unwrap();
        assert!(world.check_used("needle").contains("a/two.txt"));
        fs::write(&outside, format!("straw, {n}\n")).unwrap();
        assert!(!world.check_used("needle").contains("a/two.txt"));
    }
    // The same for a file that is not in the segment.
    world.write("a/new.txt", "straw\n");
    let other = world.root().parent().unwrap().join("other");
    fs::hard_link(world.tree.path("a/new.txt"), &other).unwrap();
    world.hear_subtree("a/new.txt");
    world.until("it was read", |report| {
        report.extra_files == 1 && report.unread == 0
    });
    fs::write(&other, "a needle by another name\n").unwrap();
    assert!(world.check_used("needle").contains("a/new.txt"));
}

#[test]
fn an_event_for_one_name_counts_for_all_names_of_a_file() {
    let world = World::complete(LIVE, |_| {});
    world.hands.stop();
    // The name is created and written through before the worker handles an event.
    fs::hard_link(world.tree.path("a/two.txt"), world.tree.path("b/too.txt")).unwrap();
    fs::write(world.tree.path("b/too.txt"), "a needle\n").unwrap();
    world.watchers.queue(FsEvent::Subtree("b/too.txt".into()));
    assert_eq!(
        world.check_used("a needle"),
        set(["a/one.txt", "a/two.txt", "b/too.txt"])
    );
    fs::write(world.tree.path("a/two.txt"), "straw again\n").unwrap();
    world.watchers.queue(FsEvent::File("a/two.txt".into()));
    assert_eq!(world.check_used("a needle"), set(["a/one.txt"]));
    assert_eq!(world.check_used("straw again").len(), 2);
    // One name is removed. The other name's file is looked at too, although the watcher reported no
    // event for it.
    fs::remove_file(world.tree.path("b/too.txt")).unwrap();
    world.watchers.queue(FsEvent::Subtree("b/too.txt".into()));
    assert_eq!(world.check_used("straw again"), set(["a/two.txt"]));
    fs::write(world.tree.path("a/two.txt"), "a needle\n").unwrap();
    world.watchers.queue(FsEvent::File("a/two.txt".into()));
    assert_eq!(world.check_used("a needle").len(), 2);
}

#[test]
fn each_search_checks_rules_that_cause_no_events() {
    let tree = Tree::of(super::FILES);
    tree.dir(".git/info");
    let above = tree.root().parent().unwrap().to_path_buf();
    let global = above.join("global-excludes");
    let setup = {
        let mut setup = tree.setup();
        setup.config.index_watch_debounce_ms = 5;
        setup.global_excludes = Some(global.clone());
        setup.with_indexes(LIVE)
    };
    let world = World::of(tree, setup);
    world.live();
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 3);
    let reason = Some("ELIGIBILITY_CHANGED");
    let exclude = world.tree.path(".git/info/exclude");
    let ignore = above.join(".ignore");
    for path in [&exclude, &global, &ignore] {
        for (rules, expected) in [("one.txt\n", 2), ("one.txt\nc/\n", 1), ("", 3)] {
            world.watchers.hold("");
            fs::write(path, rules).unwrap();
            let found = world.check_unused("needle", "UNCERTAIN", reason);
            assert_eq!(found.len(), expected, "{path:?}");
            world.watchers.release();
            world.until_complete();
            assert_eq!(world.check_used("needle"), found, "{path:?}");
        }
        world.watchers.hold("");
        fs::remove_file(path).unwrap();
        world.check_unused("needle", "UNCERTAIN", reason);
        world.watchers.release();
        world.until_complete();
    }
}
