//! Each reason for which an index is not used can be seen: in `stats` of searches, in reports, and by other processes.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use forge_search::format::lock::LockFile;
use forge_search::index::watch::Heard;
use forge_search::tool::config::{IndexMode, SearchConfig};
use forge_search::tool::indexing::Report;
use forge_search::tool::search::SearchTool;
use serde_json::json;

use super::double::{Cookies, REMEDY};
use super::storages::How;
use super::{LIVE, MAPPED, World, long_dir, set};
use crate::index_support::{Host, locked};
use crate::support::Tree;

#[test]
fn fr_lsi_bg_50_open_requires_validation_until_the_tree_was_compared() {
    let world = World::new(How::OnDisk, |_| {});
    world.setup.build(&Host::hasty());
    // Nobody saw that.
    world.write("b/new.txt", "a needle\n");
    let world = World::of(Tree::new(), world.setup.clone().reopened()).taking(world);
    world.watchers.hold("a/b");
    world.live();
    world.until_held();
    let reason = "OPEN_REQUIRES_VALIDATION";
    assert_eq!(world.standing(), ("UNCERTAIN", Some(reason)));
    // Searches compare it themselves meanwhile.
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
    // It was compared, not built anew.
    assert_eq!(world.report().beside, 1);
}

#[test]
fn watcher_overflow_shows() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.hold("");
    world.hear(Heard::Overflow);
    let reason = Some("WATCHER_OVERFLOW");
    assert_eq!(world.standing(), ("UNCERTAIN", reason));
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
    world.hear(Heard::Moved);
    let reason = Some("RENAME_UNCERTAIN");
    assert_eq!(world.standing(), ("UNCERTAIN", reason));
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
        forge_search::index::watch::NativeWatchers,
    ));
    world.until_complete();
    let top = world.root().parent().unwrap().to_path_buf();
    let away = top.with_extension("away");
    let epoch = world.report().epoch;
    fs::rename(&top, &away).unwrap();
    fs::rename(&away, &top).unwrap();
    let (stats, found) = world.find("needle");
    assert_eq!(found.len(), 3);
    // The worker may have been faster.
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
    let ear = world.watchers.ear();
    world.hear(Heard::Down("the watcher has ended".to_string()));
    let reason = Some("WATCHER_DOWN");
    let report = world.until("it was tried", |report| {
        report.unwatched.as_deref() == Some("no watcher today")
    });
    assert_eq!(world.standing(), ("UNCERTAIN", reason));
    assert!(!report.tracking, "{report:?}");
    assert!(!world.until_told("UNCERTAIN", reason).tracking);
    // Searches compare for themselves, and are right.
    world.write("b/new.txt", "a needle\n");
    assert_eq!(world.find("needle").1.len(), 4);
    world.watchers.refuse(None);
    world.hands.put_forward(61_000);
    // A last word of the old one, so that the worker looks at the clock.
    ear.hear(Heard::File("b/new.txt".into()));
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
    assert!(report.unwatched.unwrap().contains("no order"));
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

/// The watcher says once that mounts changed. A reconcile that is only due is told first here.
#[test]
fn watcher_overflow_shows_when_something_was_mounted_before_a_reconcile() {
    let world = World::complete(LIVE, |_| {});
    world.watchers.hold("");
    world.watchers.mounts_changed.store(true, Ordering::SeqCst);
    world.hands.put_forward(100 * 3_600_000);
    // Wakes whoever looks at the clock.
    world.hear_subtree("a/b");
    world.until_held();
    world.check_unused("needle", "UNCERTAIN", Some("WATCHER_OVERFLOW"));
    world.watchers.release();
    world.until_complete();
    world.check_used("needle");
}

/// What is listed meanwhile is not what is there afterwards, and nothing else tells: the mounts are what they were.
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
        // It is unmounted.
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
    assert_eq!(world.standing(), ("UNCERTAIN", reason));
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
    // The others go on with it.
    world.check_used("needle");
}

/// Until there is an index for the patterns of now; the one that was built under fewer of them is
/// gone then.
#[test]
fn policy_changed_shows_while_an_index_is_built_for_the_patterns_of_now() {
    let world = World::new(How::OnDisk, |config| config.index_lock_timeout_ms = 5);
    world.setup.build(&Host::hasty());
    let lax = world.setup.kept().dir();
    let mut setup = world.setup.clone();
    setup.sandbox.denied_patterns = vec!["**/one.txt".to_string()];
    let world = World::of(Tree::new(), setup.reopened()).taking(world);
    // Another process has begun to build it.
    let indexes = world.setup.kept().indexes.clone();
    let dir = indexes.dirs().next().unwrap();
    assert_ne!(dir, lax);
    fs::create_dir(&dir).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&dir, private).unwrap();
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

/// A tree with more denied patterns may be too small for an index.
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
fn fr_lsi_bud_03_dirty_backlog_shows_and_ends_when_the_worker_has_caught_up() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 0.0);
    world.hands.stop();
    world.check_used("needle");
    world.write("a/two.txt", "a needle, too\n");
    // The worker gets no further than that, once it may.
    world.watchers.hold("a/b");
    world.hear_subtree("a/b");
    world.hear_file("a/two.txt");
    let reason = Some("DIRTY_BACKLOG");
    let found = world.check_unused("needle", "UNCERTAIN", reason);
    assert_eq!(found.len(), 4);
    world.until_told("UNCERTAIN", reason);
    world.until_held();
    assert_eq!(world.standing(), ("UNCERTAIN", reason));
    let epoch = world.report().epoch;
    world.watchers.release();
    world.until_complete();
    // Nothing had been lost, so nothing was compared.
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

/// Without rules that can't be read just now, more is eligible than should be, and none of it is kept as known.
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
        // There, regular, and not readable from its first byte on: the memory of this process.
        let plant = || std::os::unix::fs::symlink("/proc/self/mem", &rules).unwrap();
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
        // The rules may have changed too recently at first.
        world.until_used("needle");
        let (_, found) = world.find("needle");
        assert!(found.len() < 3 || told.ends_with("git"), "{found:?}");
    }
}

/// What keeps a directory from being listed may be the system's fault, of which nothing in the tree tells that it has passed.
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
        world.until_standing("UNCERTAIN", Some("ENUMERATION_ERROR"));
        let indexes = &world.setup.kept().indexes;
        indexes
            .wait_live(world.root(), crate::support::GUARD)
            .unwrap();
        // Nobody hears of that.
        fs::rename(outer.join("x"), &aside).unwrap();
        world.hands.put_forward(61_000);
        world.nudge();
        world.until_complete();
        world.check_used("needle");
    }
}

/// Where the tree is not watched, each search compares. The index is built again once everything
/// can be listed, a minute after the last time at the earliest; an index that would be of no use
/// either is not built.
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
            assert_eq!(world.standing(), ("UNCERTAIN", reason));
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

#[test]
fn t_lsi_safe_05_build_budget_exceeded_shows_and_nothing_is_left_out() {
    let world = World::new(MAPPED, |config| config.index_build_max_files = 3);
    world.live();
    let reason = Some("BUILD_BUDGET_EXCEEDED");
    let report = world.until_standing("UNCERTAIN", reason);
    assert!(report.why.unwrap().contains("index_build_max_files"));
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 3);
    let told = world.until_told("UNCERTAIN", reason);
    assert!(told.why.unwrap().contains("index_build_max_files"));
    // It is not tried again and again.
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
fn fr_lsi_bud_maint_01_maint_budget_exceeded_shows_when_changes_are_not_heard_in_time() {
    let world = World::complete(LIVE, |config| {
        // 100 ms of a call that has far more time than it needs.
        config.default_timeout_ms = 600_000;
        config.index_maint_budget_fraction = 100.0 / 600_000.0;
    });
    world.watchers.set_cookies(Cookies::Lost);
    world.watchers.hold("");
    world.write("a/two.txt", "a needle, too\n");
    let reason = Some("MAINT_BUDGET_EXCEEDED");
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 4);
    assert_eq!(world.standing(), ("UNCERTAIN", reason));
    world.until_told("UNCERTAIN", reason);
    // What was not heard is found by comparing.
    world.watchers.set_cookies(Cookies::Heard);
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 4);
}

#[test]
fn fr_lsi_bg_62_watcher_overflow_during_build_shows_at_once_and_the_build_goes_on() {
    let world = World::new(LIVE, |_| {});
    world.watchers.hold("a/b/c");
    world.live();
    world.until_held();
    assert_eq!(world.standing(), ("BUILDING", None));
    assert!(world.until_told("BUILDING", None).build.is_some());
    world.write("a/late.txt", "a needle\n");
    world.hear(Heard::Overflow);
    let reason = Some("WATCHER_OVERFLOW_DURING_BUILD");
    assert_eq!(world.standing(), ("UNCERTAIN", reason));
    let found = world.check_unused("needle", "UNCERTAIN", reason);
    world.watchers.hold("a");
    world.watchers.nobody_waits();
    // Built; and compared with the tree before it is used.
    world.until_held();
    assert_eq!(world.standing(), ("UNCERTAIN", reason));
    world.until_told("UNCERTAIN", reason);
    world.check_unused("needle", "UNCERTAIN", reason);
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle"), found);
    assert_eq!(found.len(), 4);
}

#[test]
fn fr_lsi_bg_05_below_threshold_shows() {
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
    // Nothing was listed for it, nor watched.
    assert_eq!(world.watchers.starts(), 0);
}

#[test]
fn cfg_lsi_idx_02_thresholds_count_only_with_auto() {
    let high = |config: &mut SearchConfig| {
        config.index_auto_threshold_files = 1_000;
        config.index_auto_threshold_bytes = 1 << 20;
    };
    // These have index_mode = "on".
    for variant in [LIVE, MAPPED] {
        let world = World::complete(variant, high);
        world.check_used("needle");
        let world = World::new(variant, high).auto();
        world.live();
        world.until_standing("DISABLED", Some("BELOW_THRESHOLD"));
    }
}

#[test]
fn t_lsi_safe_07_persistence_not_permitted_shows_and_nothing_lives() {
    let mut world = World::new(How::OnDisk, |_| {});
    world.setup.config.index_path = None;
    world.setup = world.setup.clone().reopened();
    world.live();
    let indexes = &world.setup.kept().indexes;
    assert_eq!(indexes.live_report(world.root()), None);
    let reason = Some("PERSISTENCE_NOT_PERMITTED");
    world.check_unused("needle", "DISABLED", reason);
    // Any process sees for itself.
    let status = indexes
        .status(world.setup.context().sandbox.reach())
        .remove(0);
    let standing = status.condition.standing();
    assert_eq!(
        (standing.state().as_str(), standing.reason()),
        ("DISABLED", reason)
    );
    assert_eq!(status.living, []);
    assert_eq!(world.watchers.starts(), 0);
}

#[test]
fn fr_lsi_stor_fallback_02_memory_budget_exceeded_shows_when_an_index_in_memory_is_too_large() {
    let world = World::new(How::Exactly(LIVE), |config| {
        config.index_max_memory_bytes = 2_000
    });
    world.live();
    let reason = Some("MEMORY_BUDGET_EXCEEDED");
    let report = world.until_standing("DISABLED", reason);
    assert!(report.why.unwrap().contains("index_max_memory_bytes"));
    world.check_unused("needle", "DISABLED", reason);
    world.until_told("DISABLED", reason);
    // In files it is no larger than it may be.
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
        // The root, a, a/b, a/b/c and b.
        if limit + 1 >= all {
            assert_eq!(world.standing(), ("COMPLETE", None));
            continue;
        }
        assert_eq!(world.standing(), ("UNCERTAIN", Some("WATCHER_DOWN")));
        assert_eq!(report.unwatched.as_deref(), Some(REMEDY));
        assert_eq!(report.why.as_deref(), Some(REMEDY));
        assert!(!report.tracking);
        // Without changes, comparing shows that nothing has changed; then, that something has.
        assert_eq!(world.find("needle").1.len(), 3);
        world.write("a/two.txt", "a needle, too\n");
        world.write("b/new/new.txt", "a needle\n");
        assert_eq!(world.find("needle").1.len(), 5);
    }
}

/// Nobody hears of what comes and goes there. Searches that compare list it anew, and say so to the worker.
#[test]
fn fr_lsi_bg_50_where_a_tree_can_not_be_watched_the_index_is_built_again_when_searches_find_it_outdated()
 {
    for is_limit in [true, false] {
        let world = World::new(LIVE, |config| config.index_watch = is_limit);
        world.watchers.set_limit(Some(2));
        // A build takes no time: how long the worker rests follows from that.
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
            // Soon, but not each time that something changes.
            settled().unwrap();
            world.check_used("needle");
            assert_eq!(world.report().epoch, epoch);
            world.hands.put_forward(61_000);
            world.check_used("needle");
            world.until("it is built again", |report| report.epoch == epoch + 1);
            world.check_used("needle");
        }
        // What the index does not cover is no reason.
        // Searches find what was built before the worker has taken it over.
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
    world.watchers.queue(Heard::Subtree("b/new".into()));
    let (stats, found) = world.find("needle");
    assert_eq!(found.len(), 4);
    assert!(!stats.index_exclusion_used);
    let limited = |report: &Report| report.why.as_deref() == Some(REMEDY) && !report.tracking;
    world.until("the next watcher has met it too", limited);
    assert_eq!(world.standing(), ("UNCERTAIN", Some("WATCHER_DOWN")));
    // Whoever waits for it is told that it will not come to more.
    let indexes = world.setup.kept().indexes.clone();
    indexes
        .wait_live(world.root(), crate::support::GUARD)
        .unwrap()
        .unwrap();
    world.write("b/new/deeper/new.txt", "a needle\n");
    assert_eq!(world.find("needle").1.len(), 5);
}

impl World {
    /// With the tree and the hands of another one.
    pub(super) fn taking(mut self, mut other: World) -> World {
        std::mem::swap(&mut self.tree, &mut other.tree);
        self
    }

    /// With the thresholds of `index_mode = "auto"`.
    pub(super) fn auto(mut self) -> World {
        self.setup.config.index_mode = IndexMode::Auto;
        self.setup = self.setup.clone().reopened();
        self
    }
}
