//! Budgets: the time that a search spends on index maintenance, and the resources that a build may
//! take.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use forge_search::internal::index::watch::FsEvent;
use forge_search::internal::tool::request::SearchRequest;
use forge_search::internal::tool::response::SearchResponse;
use serde_json::json;

use super::double::Cookies;
use super::storages::How;
use super::{LIVE, MAPPED, World};
use crate::clocks::{FOR_EVER_MS, FakeClock, ends};

/// Searches with its own clock, on another thread.
#[track_caller]
fn search_by(world: &World, clock: FakeClock, timeout_ms: u64) -> SearchResponse {
    let mut context = world.setup.context();
    context.clock = Arc::new(clock);
    let tool = world.setup.tool();
    let request = json!({"pattern": "needle", "timeout_ms": timeout_ms});
    let request = SearchRequest::from_value(request).unwrap();
    ends(move || tool.search(&request, &context).unwrap())
}

/// A search waits for pending watcher events for its maintenance share, and no longer.
#[test]
fn a_search_spends_no_more_than_its_share_on_maintenance() {
    // The share is 172 ms of a day.
    let world = World::complete(LIVE, |config| {
        config.index_maint_budget_fraction = 0.000_002;
    });
    world.watchers.set_cookies(Cookies::Lost);
    world.watchers.hold("");
    world.write("a/two.txt", "a needle, too\n");
    let answer = search_by(&world, FakeClock::new(), FOR_EVER_MS);
    assert!(!answer.timed_out);
    assert_eq!(answer.count, 4);
    let stats = answer.stats.unwrap();
    let reason = Some("MAINT_BUDGET_EXCEEDED");
    assert_eq!(stats.index_uncertain_reason.as_deref(), reason);
    assert!(!stats.index_exclusion_used);
    world.until_told("UNCERTAIN", reason);
}

/// A call waits until the watcher has reported all changes before it, if its share allows that.
#[test]
fn a_search_waits_for_changes_within_its_share() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 0.5);
    world.watchers.set_cookies(Cookies::Late);
    world.write("a/two.txt", "a needle, too\n");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| search_by(&world, FakeClock::new(), FOR_EVER_MS));
        world.until("it waits for its cookie", |_| world.watchers.late() == 1);
        assert!(!waiting.is_finished());
        world.hear_file("a/two.txt");
        world.watchers.deliver_late();
        let answer = waiting.join().unwrap();
        assert_eq!(answer.count, 4);
        let stats = answer.stats.unwrap();
        assert_eq!(stats.index_safety_state, "COMPLETE", "{stats:?}");
        assert!(stats.index_exclusion_used);
    });
}

/// A call ends at its timeout, even if its share for maintenance is all of its time.
#[test]
fn maintenance_does_not_delay_the_end_of_a_call() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 1.0);
    world.watchers.set_cookies(Cookies::Late);
    let clock = FakeClock::new();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| search_by(&world, clock.clone(), 3_600_000));
        world.until("it waits for its cookie", |_| world.watchers.late() == 1);
        clock.jump(Duration::from_secs(3_600));
        let answer = waiting.join().unwrap();
        assert!(answer.timed_out);
        assert_eq!(answer.count, 0);
        assert!(!answer.stats.unwrap().index_exclusion_used);
    });
    // The call's thread goes on when the next event arrives.
    world.watchers.set_cookies(Cookies::Heard);
    world.watchers.deliver_late();
    world.until_complete();
    world.check_used("needle");
}

#[test]
fn maintenance_that_takes_too_long_is_skipped_and_the_index_bypassed() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 0.0);
    world.hands.stop();
    // A file changes. Handling the queued events would stop at the held directory `b`.
    world.write("a/two.txt", "a needle, too\n");
    world.watchers.queue(FsEvent::File("a/two.txt".into()));
    world.watchers.hold("b");
    world.watchers.queue(FsEvent::Subtree("b".into()));
    let (stats, found) = world.find("needle");
    assert_eq!(found.len(), 4);
    assert!(!stats.index_exclusion_used);
    assert_eq!(stats.index_safety_state, "UNCERTAIN");
    assert_eq!(
        stats.index_uncertain_reason.as_deref(),
        Some("DIRTY_BACKLOG")
    );
    // The next search shows the backlog as well. After the release, the worker catches up.
    world.check_unused("needle", "UNCERTAIN", Some("DIRTY_BACKLOG"));
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 4);
}

#[test]
fn a_build_that_exceeds_its_budget_keeps_no_search_waiting() {
    let world = World::new(MAPPED, |config| config.index_build_max_bytes = 10);
    world.watchers.hold("a/b");
    world.live();
    world.until_held();
    assert_eq!(world.check_unused("needle", "BUILDING", None).len(), 3);
    world.watchers.release();
    let reason = Some("BUILD_BUDGET_EXCEEDED");
    world.until_standing("UNCERTAIN", reason);
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 3);
}

#[test]
fn reconcile_slices_go_on_in_the_background_until_the_whole_tree_was_compared() {
    let world = World::complete(MAPPED, |config| {
        config.reconcile_max_files = 1;
        config.reconcile_max_ms = 1;
    });
    let epoch = world.report().epoch;
    world.write("b/new/new.txt", "a needle\n");
    world.handle(FsEvent::Overflow);
    world.until_complete();
    assert_eq!(world.report().epoch, epoch + 1);
    assert_eq!(world.check_used("needle").len(), 4);
}

#[test]
fn indexing_is_retried_after_a_cooldown() {
    let world = World::new(How::Exactly(LIVE), |config| {
        config.index_max_memory_bytes = 6_000;
        config.index_cooldown_ms = 1_000;
    });
    for n in 0..40 {
        world.write(&format!("large/{n}.txt"), &format!("{n} needles and more"));
    }
    world.hands.stop();
    world.live();
    let reason = Some("MEMORY_BUDGET_EXCEEDED");
    world.until_standing("DISABLED", reason);
    // An index that is not used keeps neither memory nor watches.
    world.until("nobody listens", |report| {
        !report.tracking && !world.watchers.is_heard()
    });
    fs::remove_dir_all(world.tree.path("large")).unwrap();
    world.hands.put_forward(999);
    let (_, found) = world.find("needle");
    assert_eq!(found.len(), 3);
    assert_eq!(world.index_state(), ("DISABLED", reason));
    assert_eq!(world.watchers.starts(), 1);
    world.hands.put_forward(1);
    world.until_complete();
    assert_eq!(world.watchers.starts(), 2);
    assert_eq!(world.check_used("needle").len(), 3);
}

#[test]
fn indexing_stays_disabled_without_a_cooldown() {
    let world = World::new(How::Exactly(LIVE), |config| {
        config.index_max_memory_bytes = 2_000;
        config.index_cooldown_ms = 0;
    });
    world.live();
    let reason = Some("MEMORY_BUDGET_EXCEEDED");
    world.until_standing("DISABLED", reason);
    world.until("nobody listens", |_| !world.watchers.is_heard());
    world.hands.put_forward(100 * 3_600_000);
    let (stats, _) = world.find("needle");
    assert_eq!(stats.index_safety_state, "DISABLED");
    assert_eq!(world.index_state(), ("DISABLED", reason));
    assert_eq!(world.watchers.starts(), 1);
}

/// A caller that waits for the index learns that the build failed, also if events were lost during
/// the build.
#[test]
fn a_build_that_fails_after_a_loss_is_not_waited_for() {
    let world = World::new(MAPPED, |config| config.index_build_max_files = 3);
    world.watchers.hold("a/b/c");
    world.live();
    world.until_held();
    world.handle(FsEvent::Overflow);
    world.watchers.release();
    let indexes = world.setup.kept().indexes.clone();
    let ended = indexes
        .wait_live(world.root(), crate::support::GUARD)
        .unwrap();
    assert_eq!(
        ended.map(|index_state| index_state.state().as_str()),
        Some("UNCERTAIN")
    );
    let reason = Some("WATCHER_OVERFLOW_DURING_BUILD");
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 3);
}
