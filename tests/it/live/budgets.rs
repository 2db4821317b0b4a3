//! Budgets: what a search spends on maintenance, and what a build may take.

use std::fs;
use std::time::{Duration, Instant};

use forge_search::index::watch::Heard;
use forge_search::tool::response::SearchResponse;
use serde_json::{Value, json};

use super::double::Cookies;
use super::storages::How;
use super::{LIVE, MAPPED, World};

#[test]
fn fr_lsi_bud_maint_01_a_search_spends_no_more_than_its_share_on_maintenance() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 0.02);
    world.watchers.set_cookies(Cookies::Lost);
    let request = json!({"pattern": "needle", "timeout_ms": 20_000});
    let (took, answer) = quickest(&world, &request, Duration::from_millis(800));
    // 400 ms of 20 s.
    assert!(took >= Duration::from_millis(300), "{took:?}");
    assert!(took < Duration::from_millis(800), "{took:?}");
    assert!(!answer.timed_out);
    assert_eq!(answer.count, 3);
    let stats = answer.stats.unwrap();
    assert_eq!(
        stats.index_uncertain_reason.as_deref(),
        Some("MAINT_BUDGET_EXCEEDED")
    );
}

/// Even if maintenance may take all of a call's time, the call ends when it has to.
#[test]
fn nfr_lsi_perf_03_maintenance_does_not_delay_the_end_of_a_call() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 1.0);
    world.watchers.set_cookies(Cookies::Lost);
    for timeout_ms in [50, 400] {
        let request = json!({"pattern": "needle", "timeout_ms": timeout_ms});
        let limit = Duration::from_millis(timeout_ms + 150);
        let (took, answer) = quickest(&world, &request, limit);
        assert!(took < limit, "{took:?}");
        // What was left of the time is up to the machine; a full answer is the same as any other.
        assert!(answer.timed_out || answer.count == 3, "{answer:?}");
        let stats = answer.stats.unwrap();
        assert!(!stats.index_exclusion_used);
        world.until_complete();
    }
}

/// Searches until it takes no longer than that, which may be for what else the machine is doing; the last of ten tries counts. Each finds
/// the index complete.
fn quickest(world: &World, request: &Value, enough: Duration) -> (Duration, SearchResponse) {
    let mut tries = (0..10).map(|_| {
        world.until_complete();
        let start = Instant::now();
        let answer = world.setup.search(request.clone());
        (start.elapsed(), answer)
    });
    let mut last = tries.next().unwrap();
    while last.0 >= enough
        && let Some(next) = tries.next()
    {
        last = next;
    }
    last
}

#[test]
fn fr_lsi_bud_02_maintenance_that_takes_too_long_is_skipped_and_the_index_bypassed() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 0.0);
    world.hands.stop();
    // A tenth of the tree changes.
    world.write("a/two.txt", "a needle, too\n");
    world.watchers.queue(Heard::File("a/two.txt".into()));
    world.watchers.hold("b");
    world.watchers.queue(Heard::Subtree("b".into()));
    let (stats, found) = world.find("needle");
    assert_eq!(found.len(), 4);
    assert!(!stats.index_exclusion_used);
    assert_eq!(stats.index_safety_state, "UNCERTAIN");
    assert_eq!(
        stats.index_uncertain_reason.as_deref(),
        Some("DIRTY_BACKLOG")
    );
    // The next one as well, as long as that is so; then the worker has made up for it.
    world.check_unused("needle", "UNCERTAIN", Some("DIRTY_BACKLOG"));
    world.watchers.release();
    world.until_complete();
    assert_eq!(world.check_used("needle").len(), 4);
}

#[test]
fn fr_lsi_bud_init_03_a_build_that_runs_out_of_its_budget_keeps_no_search_waiting() {
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
fn fr_lsi_rec_01_and_fr_lsi_rec_02_slices_go_on_in_the_background_until_all_was_compared() {
    let world = World::complete(MAPPED, |config| {
        config.reconcile_max_files = 1;
        config.reconcile_max_ms = 1;
    });
    let epoch = world.report().epoch;
    world.write("b/new/new.txt", "a needle\n");
    world.hear(Heard::Overflow);
    world.until_complete();
    assert_eq!(world.report().epoch, epoch + 1);
    assert_eq!(world.check_used("needle").len(), 4);
}

#[test]
fn fr_lsi_bud_04_after_a_cooldown_indexing_is_tried_again() {
    let world = World::new(How::Exactly(LIVE), |config| {
        config.index_max_memory_bytes = 4_000;
        config.index_cooldown_ms = 1_000;
    });
    for n in 0..40 {
        world.write(&format!("large/{n}.txt"), &format!("{n} needles and more"));
    }
    world.hands.stop();
    world.live();
    let reason = Some("MEMORY_BUDGET_EXCEEDED");
    world.until_standing("DISABLED", reason);
    // Neither memory nor watches are kept for what is not used.
    world.until("nobody listens", |report| {
        !report.tracking && !world.watchers.is_heard()
    });
    fs::remove_dir_all(world.tree.path("large")).unwrap();
    world.hands.put_forward(999);
    let (_, found) = world.find("needle");
    assert_eq!(found.len(), 3);
    assert_eq!(world.standing(), ("DISABLED", reason));
    assert_eq!(world.watchers.starts(), 1);
    world.hands.put_forward(1);
    world.until_complete();
    assert_eq!(world.watchers.starts(), 2);
    assert_eq!(world.check_used("needle").len(), 3);
}

#[test]
fn fr_lsi_bud_04_without_a_cooldown_indexing_stays_disabled() {
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
    assert_eq!(world.standing(), ("DISABLED", reason));
    assert_eq!(world.watchers.starts(), 1);
}

/// Whoever waits is told, also when coverage was lost while the build went on.
#[test]
fn a_build_that_fails_after_a_loss_is_not_waited_for() {
    let world = World::new(MAPPED, |config| config.index_build_max_files = 3);
    world.watchers.hold("a/b/c");
    world.live();
    world.until_held();
    world.hear(Heard::Overflow);
    world.watchers.release();
    let indexes = world.setup.kept().indexes.clone();
    let ended = indexes.wait_live(world.root(), super::LONG).unwrap();
    assert_eq!(
        ended.map(|standing| standing.state().as_str()),
        Some("UNCERTAIN")
    );
    let reason = Some("WATCHER_OVERFLOW_DURING_BUILD");
    assert_eq!(world.check_unused("needle", "UNCERTAIN", reason).len(), 3);
}
