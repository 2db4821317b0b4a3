//! Every reason for not using an index is visible: in the `stats` of searches, in reports, and in
//! the status that other processes read.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use forge_search::internal::format::lock::LockFile;
use forge_search::internal::index::watch::FsEvent;
use forge_search::internal::tool::config::{IndexMode, SearchConfig};
use forge_search::internal::tool::indexing::Report;
use forge_search::internal::tool::search::SearchTool;
use serde_json::json;

use super::double::{Cookies, REMEDY};
use super::storages::How;
use super::{LIVE, MAPPED, World, long_dir, set};
use crate::index_support::{Host, locked};
use crate::support::Tree;
use crate::system::{set_mode, symlink};

#[test]
fn open_requires_validation_shows_until_the_tree_was_compared() {
    let world = World::new(How::OnDisk, |_| {});
    world.setup.build(&Host::hasty());
    // The watcher reports no event for this file.
    world.write("b/new.txt", "a needle\n");
    let world = World::of(Tree::new(), world.setup.clone().reopened()).taking(world);
    world.watchers.hold("a/b");
    world.live();
    world.until_held();
    let reason = "OPEN_REQUIRES_VALIDATION";
    assert_eq!(world.index_state(), ("UNCERTAIN", Some(reason)));
    // Until the worker has compared the tree, each search compares it.
    let found = world.check_used("needle");
    assert_eq!(found.len(), 4);
    assert!(
        world
            .until_told("UNCERTAIN", Some(reason))
            .generation
            .is_some()
    );
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle"), found);
    // The index was compared with the tree, not built again: the new file is outside of the
    // segment.
    assert_eq!(world.report().extra_files, 1);
}

#[test]
fn watcher_overflow_shows() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.hold("");
    world.handle(FsEvent::Overflow);
    let reason = Some("WATCHER_OVERFLOW");
    assert_eq!(world.index_state(), ("UNCERTAIN", reason));
    world.check_unused("needle", "UNCERTAIN", reason);
    assert!(world.report().why.unwrap().contains("faster"));
    let told = world.until_told("UNCERTAIN", reason);
    assert_eq!(told.why, world.report().why);
    assert_eq!(told.waiting, 1, "{told:?}");
}

#[test]
fn rename_uncertain_shows_when_a_directory_above_the_tree_was_renamed() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.hold("");
    world.handle(FsEvent::Moved);
    let reason = Some("RENAME_UNCERTAIN");
    assert_eq!(world.index_state(), ("UNCERTAIN", reason));
    world.check_unused("needle", "UNCERTAIN", reason);
    let told = world.until_told("UNCERTAIN", reason);
    assert!(told.why.unwrap().contains("above the tree was renamed"));
    world.watchers.release();
    world.until_complete();
    world.check_used("needle");
}

#[cfg(target_os = "linux")]
#[test]
fn rename_uncertain_shows_when_the_system_tells_of_a_rename_above_the_tree() {
    let world = World::new(LIVE, |_| {});
    world.live_with(std::sync::Arc::new(
        forge_search::internal::index::watch::NativeWatchers,
    ));
    world.until_complete();
    let top = world.root().parent().unwrap().to_path_buf();
    let away = top.with_extension("away");
    let epoch = world.report().epoch;
    fs::rename(&top, &away).unwrap();
    fs::rename(&away, &top).unwrap();
    let (stats, found) = world.find("needle");
    assert_eq!(found.len(), 3);
    // The worker may have compared the tree before the search.
    let reason = stats.index_uncertain_reason.as_deref();
    assert!(reason == Some("RENAME_UNCERTAIN") || world.report().epoch > epoch);
    world.until_complete();
    assert!(world.report().epoch > epoch, "it was compared");
    world.check_used("needle");
}

#[test]
fn watcher_down_shows_and_is_tried_again_after_a_minute() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.refuse(Some("no watcher today"));
    let handler = world.watchers.handler();
    world.handle(FsEvent::Down("the watcher has ended".to_string()));
    let reason = Some("WATCHER_DOWN");
    let report = world.until("it was tried", |report| {
        report.unwatched.as_deref() == Some("no watcher today")
    });
    assert_eq!(world.index_state(), ("UNCERTAIN", reason));
    assert!(!report.tracking, "{report:?}");
    assert!(!world.until_told("UNCERTAIN", reason).tracking);
    // Searches compare the tree themselves, and their answers are right.
    world.write("b/new.txt", "a needle\n");
    assert_eq!(world.find("needle").1.len(), 4);
    world.watchers.refuse(None);
    world.hands.put_forward(61_000);
    // A last event from the old watcher wakes the worker, which then looks at the clock.
    handler.handle(FsEvent::File("b/new.txt".into()));
    world.until_complete();
    assert_eq!(world.watchers.starts(), 2);
    assert_eq!(world.check_used("needle").len(), 4);
}

#[test]
fn watcher_down_shows_when_a_cookie_can_not_be_touched() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.refuse(Some("no watcher today"));
    world.watchers.set_cookies(Cookies::Fail);
    world.check_unused("needle", "UNCERTAIN", Some("WATCHER_DOWN"));
    assert!(!world.report().tracking);
}

#[test]
fn a_system_without_an_order_of_events_is_compared_by_each_search() {
    let world = World::new(LIVE, |_| {});
    world.watchers.unordered.store(true, Ordering::SeqCst);
    world.live();
    let report = world.until("it was built", |report| report.unwatched.is_some());
    assert!(report.unwatched.unwrap().contains("no fixed order"));
    world
        .setup
        .kept()
        .indexes
        .wait_live(world.root(), crate::support::GUARD)
        .unwrap();
    assert!(!world.report().tracking);
    assert_eq!(world.find("needle").1.len(), 3);
    world.write("b/new.txt", "a needle\n");
    assert_eq!(world.find("needle").1.len(), 4);
}

#[test]
fn watcher_overflow_shows_when_something_is_mounted() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.hold("");
    world.watchers.mounts_changed.store(true, Ordering::SeqCst);
    world.check_unused("needle", "UNCERTAIN", Some("WATCHER_OVERFLOW"));
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.watchers.starts(), 2, "another watcher");
    world.check_used("needle");
}

/// The watcher reports a change of mounts only once. Here, the worker learns of a due reconcile
/// first.
#[test]
fn watcher_overflow_shows_when_something_was_mounted_before_a_reconcile() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.hold("");
    world.watchers.mounts_changed.store(true, Ordering::SeqCst);
    world.hands.put_forward(100 * 3_600_000);
    // Wakes the worker, which then looks at the clock.
    world.hear_subtree("a/b");
    world.until_held();
    world.check_unused("needle", "UNCERTAIN", Some("WATCHER_OVERFLOW"));
    world.watchers.release();
    world.until_complete();
    world.check_used("needle");
}

/// The worker lists a mounted directory that is unmounted before the next search. The mounts are
/// the same before and after, so only the watcher's report of a change reveals this.
#[test]
fn what_is_mounted_while_the_worker_lists_and_not_any_more_when_a_search_comes_is_noticed() {
    for is_news in [true, false] {
        let world = World::complete(LIVE, |_| {});
        let watchers = world.watchers.clone();
        let mounted = move |dir: &Path| {
            let is_it = dir == Path::new("b") && watchers.starts() == 1;
            watchers.mounts_changed.fetch_or(is_it, Ordering::SeqCst);
        };
        world.watchers.on_watch(mounted);
        if is_news {
            world.write("b/new.txt", "a needle\n");
        }
        world.hear_subtree("b");
        let listed = || {
            let calls = world.watchers.calls();
            calls.iter().filter(|dir| **dir == Path::new("b")).count()
        };
        world.until("it was listed", |report| report.dirty == 0 && listed() > 1);
        // The directory is unmounted again.
        world.watchers.mounts_changed.store(false, Ordering::SeqCst);
        world.until("another watcher", |_| world.watchers.starts() == 2);
        world.until_complete();
        world.check_used("needle");
    }
}

#[test]
fn eligibility_changed_shows_when_a_file_with_rules_is_heard_of() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.hold("");
    world.write("a/.ignore", "one.txt\n");
    world.hear_subtree("a/.ignore");
    let reason = Some("ELIGIBILITY_CHANGED");
    assert_eq!(world.index_state(), ("UNCERTAIN", reason));
    let found = world.check_unused("needle", "UNCERTAIN", reason);
    assert_eq!(found, set(["a/b/three.rs", "a/b/c/six.rs"]));
    let told = world.until_told("UNCERTAIN", reason);
    assert!(told.why.unwrap().contains("a/.ignore"));
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle"), found);
}

#[test]
fn policy_changed_shows_to_whoever_has_another_sandbox() {
    let world = World::complete(LIVE, |_| {});
    let mut stricter = world.setup.clone();
    stricter.sandbox.denied_patterns = vec!["**/one.txt".to_string()];
    let indexes = world.setup.kept().indexes.clone();
    let tool: SearchTool = world.setup.tool().with_indexes(Some(indexes));
    let answer = tool.call(json!({"pattern": "needle"}), &stricter.context());
    let answer = answer.unwrap();
    let stats = answer.stats.unwrap();
    assert_eq!(stats.index_safety_state, "UNCERTAIN");
    assert_eq!(
        stats.index_uncertain_reason.as_deref(),
        Some("POLICY_CHANGED")
    );
    assert!(!stats.index_exclusion_used);
    // Searches with the index's own sandbox still use it.
    world.check_used("needle");
}

/// The state lasts until there is an index for the current patterns. The index that was built under
/// fewer denied patterns is removed then.
#[test]
fn policy_changed_shows_while_an_index_is_built_for_the_patterns_of_now() {
    let world = World::new(How::OnDisk, |config| config.index_lock_timeout_ms = 5);
    world.setup.build(&Host::hasty());
    let lax = world.setup.kept().dir();
    let mut setup = world.setup.clone();
    setup.sandbox.denied_patterns = vec!["**/one.txt".to_string()];
    let world = World::of(Tree::new(), setup.reopened()).taking(world);
    // A lock plays another process that has begun to build the index.
    let indexes = world.setup.kept().indexes.clone();
    let dir = indexes.dirs().next().unwrap();
    assert_ne!(dir, lax);
    fs::create_dir(&dir).unwrap();
    set_mode(&dir, 0o700).unwrap();
    let lock = locked(&dir, LockFile::Writers);
    world.live();
    let reason = Some("POLICY_CHANGED");
    let report = world.until_standing("UNCERTAIN", reason);
    assert!(report.why.unwrap().contains("denied now"));
    world.until_told("UNCERTAIN", reason);
    let found = world.check_unused("needle", "UNCERTAIN", reason);
    assert_eq!(found, set(["a/b/three.rs", "a/b/c/six.rs"]));
    assert!(!lax.exists(), "it has an entry for a/one.txt");
    drop(lock);
    world.hands.put_forward(5_000);
    world.until_complete();
    assert_eq!(world.check_used("needle"), found);
}

/// More denied patterns can make a tree too small for an index. The index for the old patterns is
/// removed in that case too.
#[test]
fn policy_changed_is_over_where_what_is_left_needs_no_index() {
    let world = World::new(How::OnDisk, |config| {
        config.index_auto_threshold_files = 7;
        config.index_auto_threshold_bytes = 1 << 20;
    });
    let world = world.auto();
    world.setup.build(&Host::hasty());
    let lax = world.setup.kept().dir();
    let mut setup = world.setup.clone();
    setup.sandbox.denied_patterns = vec!["**/one.txt".to_string()];
    let world = World::of(Tree::new(), setup.reopened()).taking(world);
    world.live();
    world.until_standing("DISABLED", Some("BELOW_THRESHOLD"));
    assert!(!lax.exists());
    world.check_unused("needle", "DISABLED", Some("BELOW_THRESHOLD"));
}

#[test]
fn dirty_backlog_shows_and_ends_when_the_worker_has_caught_up() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 0.0);
    world.hands.stop();
    world.check_used("needle");
    world.write("a/two.txt", "a needle, too\n");
    // Once the clock goes on, the worker gets as far as this directory.
    world.watchers.hold("a/b");
    world.hear_subtree("a/b");
    world.hear_file("a/two.txt");
    let reason = Some("DIRTY_BACKLOG");
    let found = world.check_unused("needle", "UNCERTAIN", reason);
    assert_eq!(found.len(), 4);
    world.until_told("UNCERTAIN", reason);
    world.until_held();
    assert_eq!(world.index_state(), ("UNCERTAIN", reason));
    let epoch = world.report().epoch;
    world.watchers.release();
    world.until_complete();
    // No event was lost, so the tree was not compared.
    assert_eq!(world.report().epoch, epoch);
    assert_eq!(world.check_used("needle"), found);
}

#[test]
fn enumeration_error_shows_until_everything_can_be_listed() {
    let world = World::complete(LIVE, |_| {});
    let aside = world.root().parent().unwrap().join("aside");
    let (outer, inner) = (world.root().join(long_dir()), aside.join(long_dir()));
    fs::create_dir_all(&outer).unwrap();
    fs::create_dir_all(&inner).unwrap();
    fs::rename(&aside, outer.join("x")).unwrap();
    world.hear_subtree(&"l".repeat(250));
    let reason = Some("ENUMERATION_ERROR");
    world.until_standing("UNCERTAIN", reason);
    world
        .setup
        .kept()
        .indexes
        .wait_live(world.root(), crate::support::GUARD)
        .unwrap();
    let plain = world
        .setup
        .without_indexes()
        .search(json!({"pattern": "needle"}));
    assert_eq!(plain.errors.len(), 1, "{plain:?}");
    world.check_unused("needle", "UNCERTAIN", reason);
    assert!(world.report().why.is_some());
    world.until_told("UNCERTAIN", reason);
    fs::rename(outer.join("x"), &aside).unwrap();
    world.hear_subtree(&format!("{}/x", long_dir()));
    world.until_complete();
    world.check_used("needle");
}

/// While an ignore file can't be read, files that it ignores count as eligible. The index does not
/// keep that result as known.
#[cfg(target_os = "linux")]
#[test]
fn enumeration_error_shows_until_all_rules_can_be_read() {
    let reason = Some("ENUMERATION_ERROR");
    for (rules, told, is_built) in [
        ("tree/a/.ignore", "a/.ignore", true),
        ("tree/a/.ignore", "a/.ignore", false),
        ("tree/a/.git", "a/.git", true),
        (".ignore", "", true),
    ] {
        let world = World::new(LIVE, |_| {});
        let above = world.root().parent().unwrap();
        let name = world.root().file_name().unwrap().to_str().unwrap();
        let rules = above.join(rules.replacen("tree", name, 1));
        // The rules are a link to the memory of this process: it exists and is a regular file, but
        // reading its first byte fails.
        let plant = || symlink("/proc/self/mem", &rules).unwrap();
        let hear = || world.hear_subtree("");
        if is_built {
            plant();
        }
        world.live();
        if !is_built {
            world.until_complete();
            plant();
            hear();
        }
        world.until_standing("UNCERTAIN", reason);
        let plain = world
            .setup
            .without_indexes()
            .search(json!({"pattern": "needle"}));
        assert_eq!(plain.errors.len(), 1, "{plain:?}");
        match told {
            "" => assert_eq!(plain.errors[0].path, rules.to_str().unwrap()),
            _ => assert_eq!(plain.errors[0].path, told),
        }
        assert!(plain.errors[0].error.contains("no effect"), "{plain:?}");
        assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 3);
        fs::remove_file(&rules).unwrap();
        if !told.ends_with("git") {
            fs::write(&rules, "*.txt\n").unwrap();
        }
        hear();
        world.hands.put_forward(61_000);
        world.nudge();
        // Right after they change, rules are not trusted.
        world.until_used("needle");
        let (_, found) = world.find("needle");
        assert!(found.len() < 3 || told.ends_with("git"), "{found:?}");
    }
}

/// A directory may fail to be listed because of the system. No change in the tree shows that the
/// error has passed.
#[test]
fn what_could_not_be_listed_is_looked_at_again_after_a_minute() {
    for is_built in [true, false] {
        let world = World::new(LIVE, |_| {});
        let aside = world.root().parent().unwrap().join("aside");
        let (outer, inner) = (world.root().join(long_dir()), aside.join(long_dir()));
        fs::create_dir_all(&outer).unwrap();
        fs::create_dir_all(&inner).unwrap();
        if is_built {
            fs::rename(&aside, outer.join("x")).unwrap();
        }
        world.live();
        if !is_built {
            world.until_complete();
            fs::rename(&aside, outer.join("x")).unwrap();
            world.hear_subtree(&"l".repeat(250));
        }
        let reason = Some("ENUMERATION_ERROR");
        world.until_standing("UNCERTAIN", reason);
        let why = world.until_told("UNCERTAIN", reason).why.unwrap();
        assert!(why.contains("make it readable"), "{why}");
        let indexes = &world.setup.kept().indexes;
        indexes
            .wait_live(world.root(), crate::support::GUARD)
            .unwrap();
        // The watcher reports no event for this rename.
        fs::rename(outer.join("x"), &aside).unwrap();
        world.hands.put_forward(61_000);
        world.nudge();
        world.until_complete();
        world.check_used("needle");
    }
}

/// Without a watcher, each search compares the tree. The worker rebuilds the index once every
/// directory can be listed, at least a minute after its last attempt. It does not build an index
/// that would be unusable again.
#[test]
fn enumeration_error_shows_where_nobody_watches_until_everything_can_be_listed() {
    for is_refused in [false, true] {
        for how in [How::Anyhow(LIVE), How::OnDisk] {
            let world = World::new(how, |config| config.index_watch = is_refused);
            if is_refused {
                world.watchers.refuse(Some("no watcher today"));
            }
            let aside = world.root().parent().unwrap().join("aside");
            let (outer, inner) = (world.root().join(long_dir()), aside.join(long_dir()));
            fs::create_dir_all(&outer).unwrap();
            fs::create_dir_all(&inner).unwrap();
            fs::rename(&aside, outer.join("x")).unwrap();
            world.live();
            let indexes = world.setup.kept().indexes.clone();
            let settled = || {
                indexes
                    .wait_live(world.root(), crate::support::GUARD)
                    .unwrap()
            };
            settled().unwrap();
            let reason = Some("ENUMERATION_ERROR");
            assert_eq!(world.index_state(), ("UNCERTAIN", reason));
            let built = world.report().works.build;
            for _ in 0..3 {
                world.check_unused("needle", "UNCERTAIN", reason);
                world.hands.put_forward(61_000);
                world.check_unused("needle", "UNCERTAIN", reason);
                settled().unwrap();
            }
            assert_eq!(world.report().works.build, built, "built for nothing");
            fs::rename(outer.join("x"), &aside).unwrap();
            world.hands.put_forward(61_000);
            world.until_used("needle");
            world.check_used("needle");
        }
    }
}

/// The report names both problems, because a new watcher alone does not make the index complete.
#[test]
fn unlisted_files_stay_a_reason_when_the_watcher_fails_later() {
    let world = World::complete(LIVE, |_| {});
    let aside = world.root().parent().unwrap().join("aside");
    let outer = world.root().join(long_dir());
    fs::create_dir_all(&outer).unwrap();
    fs::create_dir_all(aside.join(long_dir())).unwrap();
    fs::rename(&aside, outer.join("x")).unwrap();
    world.hear_subtree(&"l".repeat(250));
    world.until_standing("UNCERTAIN", Some("ENUMERATION_ERROR"));
    let indexes = world.setup.kept().indexes.clone();
    let settled = || {
        indexes
            .wait_live(world.root(), crate::support::GUARD)
            .unwrap()
    };
    settled();
    let until_both = |watcher: &str| {
        world.until(watcher, |report| {
            let why = report.why.as_deref().unwrap_or_default();
            why.starts_with("1 file or directory could not be listed") && why.ends_with(watcher)
        });
        assert_eq!(
            world.index_state(),
            ("UNCERTAIN", Some("ENUMERATION_ERROR"))
        );
    };
    // The worker can't watch one more directory. The reconcile that follows waits at the root.
    world
        .watchers
        .set_limit(Some(world.watchers.watched().len()));
    world.watchers.hold("");
    world.write("b/new/new.txt", "a needle\n");
    world.hear_subtree("b/new");
    world.until_held();
    until_both(REMEDY);
    // The reconcile meets the limit, too.
    world.watchers.release();
    settled();
    until_both(REMEDY);
    // No further watcher starts.
    world.watchers.refuse(Some("no watcher today"));
    world.hands.put_forward(61_000);
    world.nudge();
    until_both("no watcher today");
}

#[test]
fn build_budget_exceeded_shows_and_no_file_is_excluded() {
    let world = World::new(MAPPED, |config| config.index_build_max_files = 3);
    world.live();
    let reason = Some("BUILD_BUDGET_EXCEEDED");
    let report = world.until_standing("UNCERTAIN", reason);
    assert!(report.why.unwrap().contains("index_build_max_files"));
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 3);
    let told = world.until_told("UNCERTAIN", reason);
    assert!(told.why.unwrap().contains("index_build_max_files"));
    // The worker does not retry the build.
    world
        .setup
        .kept()
        .indexes
        .wait_live(world.root(), crate::support::GUARD)
        .unwrap();
    let calls = world.watchers.calls().len();
    world.hands.put_forward(100_000);
    world.nudge();
    world.check_unused("needle", "UNCERTAIN", reason);
    assert_eq!(world.watchers.calls().len(), calls);
}

#[test]
fn maint_budget_exceeded_shows_when_changes_are_not_processed_in_time() {
    let world = World::complete(LIVE, |config| {
        // The share is 100 ms; the call has far more time than that.
        config.default_timeout_ms = 600_000;
        config.index_maint_budget_fraction = 100.0 / 600_000.0;
    });
    world.watchers.set_cookies(Cookies::Lost);
    world.watchers.hold("");
    world.write("a/two.txt", "a needle, too\n");
    let reason = Some("MAINT_BUDGET_EXCEEDED");
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 4);
    assert_eq!(world.index_state(), ("UNCERTAIN", reason));
    world.until_told("UNCERTAIN", reason);
    // A comparison of the tree finds the changes that the watcher missed.
    world.watchers.set_cookies(Cookies::Heard);
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 4);
}

#[test]
fn watcher_overflow_during_build_shows_at_once_and_the_build_goes_on() {
    let world = World::new(LIVE, |_| {});
    world.watchers.hold("a/b/c");
    world.live();
    world.until_held();
    assert_eq!(world.index_state(), ("BUILDING", None));
    assert!(world.until_told("BUILDING", None).build.is_some());
    world.write("a/late.txt", "a needle\n");
    world.handle(FsEvent::Overflow);
    let reason = Some("WATCHER_OVERFLOW_DURING_BUILD");
    assert_eq!(world.index_state(), ("UNCERTAIN", reason));
    let found = world.check_unused("needle", "UNCERTAIN", reason);
    world.watchers.hold("a");
    world.watchers.nobody_waits();
    // The index is built, but used only after it was compared with the tree.
    world.until_held();
    assert_eq!(world.index_state(), ("UNCERTAIN", reason));
    world.until_told("UNCERTAIN", reason);
    world.check_unused("needle", "UNCERTAIN", reason);
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle"), found);
    assert_eq!(found.len(), 4);
}

#[test]
fn below_threshold_shows_for_a_small_tree() {
    let world = World::new(LIVE, |config| {
        config.index_auto_threshold_files = 8;
        config.index_auto_threshold_bytes = 1 << 20;
    });
    let world = world.auto();
    world.live();
    let reason = Some("BELOW_THRESHOLD");
    let report = world.until_standing("DISABLED", reason);
    assert!(report.why.unwrap().contains("index_auto_threshold_files"));
    world.check_unused("needle", "DISABLED", reason);
    world.until_told("DISABLED", reason);
    // The worker neither listed nor watched any directory for the index.
    assert_eq!(world.watchers.starts(), 0);
}

#[test]
fn thresholds_count_only_in_auto_mode() {
    let high = |config: &mut SearchConfig| {
        config.index_auto_threshold_files = 1_000;
        config.index_auto_threshold_bytes = 1 << 20;
    };
    // These worlds have `index_mode = "on"`, so the thresholds do not count.
    for variant in [LIVE, MAPPED] {
        let world = World::complete(variant, high);
        world.check_used("needle");
        let world = World::new(variant, high).auto();
        world.live();
        world.until_standing("DISABLED", Some("BELOW_THRESHOLD"));
    }
}

#[test]
fn persistence_not_permitted_shows_and_no_index_lives() {
    let mut world = World::new(How::OnDisk, |_| {});
    world.setup.config.index_path = None;
    world.setup = world.setup.clone().reopened();
    world.live();
    let indexes = &world.setup.kept().indexes;
    assert_eq!(indexes.live_report(world.root()), None);
    let reason = Some("PERSISTENCE_NOT_PERMITTED");
    world.check_unused("needle", "DISABLED", reason);
    // Every process derives this state by itself; there is no live index to publish it.
    let status = indexes
        .status(world.setup.context().sandbox.reach())
        .remove(0);
    let index_state = status.condition.index_state();
    assert_eq!(
        (index_state.state().as_str(), index_state.reason()),
        ("DISABLED", reason)
    );
    assert_eq!(status.living, []);
    assert_eq!(world.watchers.starts(), 0);
}

#[test]
fn memory_budget_exceeded_shows_when_an_index_in_memory_is_too_large() {
    let world = World::new(How::Exactly(LIVE), |config| {
        config.index_max_memory_bytes = 2_000
    });
    world.live();
    let reason = Some("MEMORY_BUDGET_EXCEEDED");
    let report = world.until_standing("DISABLED", reason);
    assert!(report.why.unwrap().contains("index_max_memory_bytes"));
    world.check_unused("needle", "DISABLED", reason);
    world.until_told("DISABLED", reason);
    // On disk, the same index is not too large.
    let world = World::complete(How::OnDisk, |config| config.index_max_memory_bytes = 2_000);
    world.check_used("needle");
}

#[test]
fn a_limit_of_watches_shows_with_what_to_do_and_searches_compare() {
    for limit in 0..6 {
        let world = World::new(MAPPED, |_| {});
        world.watchers.set_limit(Some(limit));
        world.live();
        let all = 6;
        let indexes = world.setup.kept().indexes.clone();
        indexes
            .wait_live(world.root(), crate::support::GUARD)
            .unwrap()
            .unwrap();
        let report = world.report();
        // The watcher can watch `limit` directories. All of them: the root, a, a/b, a/b/c and b.
        if limit + 1 >= all {
            assert_eq!(world.index_state(), ("COMPLETE", None));
            continue;
        }
        assert_eq!(world.index_state(), ("UNCERTAIN", Some("WATCHER_DOWN")));
        assert_eq!(report.unwatched.as_deref(), Some(REMEDY));
        assert_eq!(report.why.as_deref(), Some(REMEDY));
        assert!(!report.tracking);
        // Each search compares the tree: the first finds no change, the second finds the changes.
        assert_eq!(world.find("needle").1.len(), 3);
        world.write("a/two.txt", "a needle, too\n");
        world.write("b/new/new.txt", "a needle\n");
        assert_eq!(world.find("needle").1.len(), 5);
    }
}

/// The worker gets no events for new and removed files. A search that compares the tree lists these
/// directories again, and tells the worker about the differences.
#[test]
fn the_index_of_a_tree_that_can_not_be_watched_is_rebuilt_when_searches_find_it_outdated() {
    for is_limit in [true, false] {
        let world = World::new(LIVE, |config| config.index_watch = is_limit);
        world.watchers.set_limit(Some(2));
        // With a stopped clock, a build takes no time. The worker's rest is derived from the build
        // time.
        world.hands.stop();
        world.live();
        let indexes = world.setup.kept().indexes.clone();
        let settled = || {
            indexes
                .wait_live(world.root(), crate::support::GUARD)
                .unwrap()
        };
        settled().unwrap();
        assert!(!world.report().tracking);
        world.check_used("needle");
        for round in 0..3 {
            world.write(&format!("b/new{round}/new.txt"), "a needle\n");
            let epoch = world.report().epoch;
            let found = world.check_used("needle");
            assert_eq!(found.len(), 4 + round);
            // The worker rebuilds soon, but not after every change.
            settled().unwrap();
            world.check_used("needle");
            assert_eq!(world.report().epoch, epoch);
            world.hands.put_forward(61_000);
            world.check_used("needle");
            world.until("it is built again", |report| report.epoch == epoch + 1);
            world.check_used("needle");
        }
        // A change that the index does not cover causes no rebuild.
        // A search finds a new index before the worker has opened it, so wait for the worker.
        let epoch = world
            .until("it was built four times", |report| report.epoch == 4)
            .epoch;
        let (stats, _) = world.ask(&json!({"pattern": "needle", "path": "b/.hidden"}));
        let shown = stats.index_uncertain_reason;
        assert_eq!(shown.as_deref(), Some("OPEN_REQUIRES_VALIDATION"));
        world.hands.put_forward(61_000);
        world.ask(&json!({"pattern": "needle", "path": "b/.hidden"}));
        settled().unwrap();
        world.check_used("needle");
        assert_eq!(world.report().epoch, epoch);
    }
}

#[test]
fn a_limit_that_is_met_later_shows_too() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.set_limit(Some(5));
    world.write("b/new/new.txt", "a needle\n");
    world.watchers.queue(FsEvent::Subtree("b/new".into()));
    let (stats, found) = world.find("needle");
    assert_eq!(found.len(), 4);
    assert!(!stats.index_exclusion_used);
    let limited = |report: &Report| report.why.as_deref() == Some(REMEDY) && !report.tracking;
    world.until("the next watcher has met it too", limited);
    assert_eq!(world.index_state(), ("UNCERTAIN", Some("WATCHER_DOWN")));
    // A caller that waits for the index returns at once, because the index can't become complete.
    let indexes = world.setup.kept().indexes.clone();
    indexes
        .wait_live(world.root(), crate::support::GUARD)
        .unwrap()
        .unwrap();
    world.write("b/new/deeper/new.txt", "a needle\n");
    assert_eq!(world.find("needle").1.len(), 5);
}

impl World {
    /// Takes over the tree of another world.
    pub(super) fn taking(mut self, mut other: World) -> World {
        std::mem::swap(&mut self.tree, &mut other.tree);
        self
    }

    /// Applies the thresholds of `index_mode = "auto"`.
    pub(super) fn auto(mut self) -> World {
        self.setup.config.index_mode = IndexMode::Auto;
        self.setup = self.setup.clone().reopened();
        self
    }
}
