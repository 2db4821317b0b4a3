//! When searches may rely on an index: every way in which coverage is lost, and how it is restored.

use std::fs;
use std::path::Path;

use forge_search::internal::index::watch::FsEvent;

use super::{LIVE, MAPPED, World, rounds, set};
use crate::support::Tree;

#[test]
fn no_file_is_excluded_after_a_watcher_overflow_until_it_was_reconciled() {
    let world = World::complete(MAPPED, |_| {});
    let before = set(["a/one.txt", "a/b/three.rs", "a/b/c/six.rs"]);
    for round in 0..rounds().max(3) {
        assert_eq!(world.check_used("needle"), before);
        let epoch = world.report().epoch;
        // The watcher reports no event for these changes.
        world.write("a/two.txt", "needle in it now\n");
        world.write("new/dir/new.txt", "a new needle\n");
        fs::remove_file(world.tree.path("a/one.txt")).unwrap();
        fs::rename(world.tree.path("a/b"), world.tree.path("c")).unwrap();
        world.watchers.hold("b");
        world.handle(FsEvent::Overflow);
        let now = set(["a/two.txt", "new/dir/new.txt", "c/three.rs", "c/c/six.rs"]);
        let reason = Some("WATCHER_OVERFLOW");
        assert_eq!(world.check_unused("needle", "UNCERTAIN", reason), now);
        world.until_held();
        // The same holds during the reconcile.
        assert_eq!(world.check_unused("needle", "UNCERTAIN", reason), now);
        world.watchers.release();
        world.until_complete();
        assert_eq!(world.check_used("needle"), now);
        assert_eq!(world.report().epoch, epoch + 1);
        assert!(world.watchers.watched().contains(Path::new("new/dir")));
        // The changes are reverted without events, and events are lost a second time during the
        // reconcile.
        fs::rename(world.tree.path("c"), world.tree.path("a/b")).unwrap();
        fs::remove_dir_all(world.tree.path("new")).unwrap();
        world.watchers.hold("b");
        world.handle(FsEvent::Overflow);
        world.until_held();
        world.write("a/one.txt", "a needle in a haystack\n");
        world.write("a/two.txt", "nothing but straw\n");
        world.handle(FsEvent::Overflow);
        world.watchers.release();
        world.until_complete();
        println!("round {round}: {:?}", world.report());
    }
}

#[test]
fn no_file_is_excluded_after_a_change_of_an_ignore_file_until_it_was_reconciled() {
    let world = World::complete(LIVE, |_| {});
    let reason = Some("ELIGIBILITY_CHANGED");
    let hear_of = |path: &str| {
        world.watchers.hold("b");
        world.hear_subtree(path);
    };
    let check = |expected: usize| {
        assert_eq!(
            world.check_unused("needle", "UNCERTAIN", reason).len(),
            expected
        );
        world.watchers.release();
        world.until_complete();
        assert_eq!(world.check_used("needle").len(), expected);
    };
    world.write(".ignore", "c/\n");
    hear_of(".ignore");
    check(2);
    world.write("a/.gitignore", "one.txt\n");
    hear_of("a/.gitignore");
    // A `.gitignore` counts only in a repository.
    check(2);
    fs::create_dir(world.tree.path(".git")).unwrap();
    hear_of(".git");
    check(1);
    fs::remove_file(world.tree.path(".ignore")).unwrap();
    hear_of(".ignore");
    check(2);
    // A new directory that contains rules is reported as one subtree.
    fs::create_dir_all(world.tree.path("new/deep")).unwrap();
    world.write("new/deep/needle.txt", "a needle\n");
    world.write("new/deep/other.txt", "a needle\n");
    world.write("new/.ignore", "other.txt\n");
    world.watchers.queue(FsEvent::Subtree("new".into()));
    assert_eq!(world.find("needle").1.len(), 3);
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 3);
}

#[test]
fn a_reconcile_beyond_its_budget_stays_uncertain_and_answers_are_right() {
    // Each directory takes one slice of the reconcile.
    let tree = Tree::of([("nine.txt", "the last straw\n")]);
    for n in 0..130 {
        tree.file(&format!("d{n:03}/straw.txt"), format!("straw {n}\n"));
    }
    tree.file("d000/deep/needle.txt", "a needle\n");
    let world = World::over(tree, LIVE, |config| config.reconcile_max_files = 1);
    world.live();
    world.until_complete();
    world.write("d001/straw.txt", "a needle, unheard\n");
    world.watchers.hold("d000/deep");
    world.handle(FsEvent::Overflow);
    world.until_held();
    let reason = Some("WATCHER_OVERFLOW");
    let found = world.check_unused("needle", "UNCERTAIN", reason);
    assert_eq!(found, set(["d000/deep/needle.txt", "d001/straw.txt"]));
    world.watchers.release();
    // The reconcile continues from where it stopped, and completes.
    world.until_complete();
    assert_eq!(world.check_used("needle"), found);
}

#[test]
fn the_first_trigger_in_rank_gives_the_reason() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 0.0);
    world.hands.stop();
    world.watchers.hold("a/b");
    world.hear_subtree("a/b");
    world.check_unused("needle", "UNCERTAIN", Some("DIRTY_BACKLOG"));
    world.until_held();
    // A loss of coverage ranks above a maintenance backlog.
    world.handle(FsEvent::Overflow);
    world.check_unused("needle", "UNCERTAIN", Some("WATCHER_OVERFLOW"));
    // Of two losses, the first one is shown. Both have to be repaired.
    world.write(".ignore", "c/\n");
    world.hear_subtree(".ignore");
    world.check_unused("needle", "UNCERTAIN", Some("WATCHER_OVERFLOW"));
    world.watchers.release();
    // Right after they change, rules are not trusted.
    world.until_used("needle");
    assert_eq!(world.check_used("needle").len(), 2);
}

#[test]
fn a_tree_that_has_grown_beyond_the_thresholds_is_indexed_after_some_calls() {
    let world = World::new(MAPPED, |config| {
        config.index_auto_threshold_files = 20;
        config.index_auto_threshold_bytes = 1 << 20;
        config.index_auto_reeval_calls = 5;
    });
    let world = world.auto();
    world.live();
    let reason = Some("BELOW_THRESHOLD");
    world.until_standing("DISABLED", reason);
    for _ in 0..12 {
        world.check_unused("needle", "DISABLED", reason);
    }
    for n in 0..20 {
        world.write(&format!("more/{n}.txt"), "more straw\n");
    }
    world.watchers.hold("more");
    let mut calls = 0;
    while !world.watchers.is_held() && calls < 1_000 {
        world.find("needle");
        calls += 1;
        std::thread::sleep(super::LOOK);
    }
    // The build is never retried before it is due.
    assert!(calls >= 1, "{calls}");
    world.until_held();
    assert_eq!(world.index_state(), ("BUILDING", None));
    world.watchers.release();
    world.until_complete();
    world.check_used("needle");
}

#[test]
fn a_tree_of_many_bytes_is_above_the_threshold_too() {
    let world = World::new(LIVE, |config| {
        config.index_auto_threshold_files = 1_000;
        config.index_auto_threshold_bytes = 50;
    });
    let world = world.auto();
    world.live();
    world.until_complete();
    world.check_used("needle");
}

#[test]
fn lost_changes_are_found_by_comparing_the_tree() {
    let world = World::complete(MAPPED, |_| {});
    for (lost, reason) in [
        (FsEvent::Overflow, "WATCHER_OVERFLOW"),
        (FsEvent::Down("it has ended".to_string()), "WATCHER_DOWN"),
    ] {
        world.write("a/two.txt", &format!("a needle {reason}\n"));
        world.watchers.hold("a");
        world.handle(lost);
        assert_eq!(world.index_state(), ("UNCERTAIN", Some(reason)));
        assert!(world.find(reason).1.contains("a/two.txt"));
        world.watchers.release();
        world.until_complete();
        assert_eq!(world.check_used(reason).len(), 1);
    }
    assert_eq!(world.watchers.starts(), 2, "one that is down is replaced");
}

/// The wall clock decides which files are checked again. It never changes an answer, whenever it is
/// set and to any time.
#[test]
fn a_clock_that_is_set_back_or_forward_beside_a_living_index_changes_no_answer() {
    const YEARS: i64 = 20 * 365 * 86_400;

    for begins in [0, YEARS, -YEARS] {
        let world = World::new(MAPPED, |_| {});
        world.hands.skew(begins);
        world.live();
        world.until_complete();
        assert_eq!(world.find("needle").1.len(), 3);
        for (round, seconds) in [YEARS, -YEARS, -1, 1, 0, -YEARS, 0].into_iter().enumerate() {
            world.hands.skew(seconds);
            // The text grows with each round, so the file's size differs even if the filesystem's
            // times are coarse.
            let marker = format!("marker{round}x");
            let text = format!("needle {}{marker}\n", "straw ".repeat(round));
            world.write("a/two.txt", &text);
            world.hear_file("a/two.txt");
            assert_eq!(world.find("needle").1.len(), 4);
            let (stats, found) = world.find(&marker);
            assert_eq!(found, set(["a/two.txt"]));
            assert!(
                stats.index_exclusion_used || begins < 0,
                "{begins} {seconds}: {stats:?} {:?}",
                world.report()
            );
            fs::rename(world.tree.path("a/two.txt"), world.tree.path("b/two.txt")).unwrap();
            world.handle(FsEvent::Subtree("a/two.txt".into()));
            world.handle(FsEvent::Subtree("b/two.txt".into()));
            assert_eq!(world.find(&marker).1, set(["b/two.txt"]));
            fs::remove_file(world.tree.path("b/two.txt")).unwrap();
            world.handle(FsEvent::Subtree("b/two.txt".into()));
            assert_eq!(world.find("needle").1.len(), 3);
        }
        // When the clock is right and the whole tree was compared, the worker reads every file.
        world.write("a/two.txt", "the last of the needles\n");
        world.hear_file("a/two.txt");
        assert_eq!(world.find("needle").1.len(), 4);
        if begins >= 0 {
            world.until_read();
            world.check_used("needle");
        }
    }
}
