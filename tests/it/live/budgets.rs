//! Budgets: what a search spends on maintenance, and what a build may take.

use std::time::{Duration, Instant};

use forge_search::index::watch::Heard;
use serde_json::json;

use super::double::Cookies;
use super::{LIVE, MAPPED, World};

#[test]
fn fr_lsi_bud_maint_01_a_search_spends_no_more_than_its_share_on_maintenance() {
    let world = World::complete(LIVE, |config| config.index_maint_budget_fraction = 0.02);
    world.watchers.set_cookies(Cookies::Lost);
    let start = Instant::now();
    let request = json!({"pattern": "needle", "timeout_ms": 20_000});
    let answer = world.setup.search(request);
    let took = start.elapsed();
    // 400 ms of 20 s.
    assert!(took >= Duration::from_millis(300), "{took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(!answer.timed_out);
    assert_eq!(answer.count, 3);
    let stats = answer.stats.unwrap();
    assert_eq!(
        stats.index_uncertain_reason.as_deref(),
        Some("MAINT_BUDGET_EXCEEDED")
    );
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
