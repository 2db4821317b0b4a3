use super::DisabledReason as No;
use super::SafetyState::{Absent, Building, Complete, Corrupt, Disabled, Uncertain};
use super::UncertainReason as Why;
use super::*;

/// Returns all states with their reasons.
fn standings() -> Vec<IndexState> {
    let mut all = vec![
        IndexState::Complete,
        IndexState::Absent,
        IndexState::Building,
        IndexState::Corrupt,
        IndexState::Disabled(None),
    ];
    all.extend(Why::ALL.iter().copied().map(IndexState::Uncertain));
    all.extend(No::ALL.iter().copied().map(disabled));
    all
}

fn disabled(why: No) -> IndexState {
    IndexState::Disabled(Some(why))
}

fn in_states(states: &[SafetyState]) -> impl Iterator<Item = IndexState> {
    let all = standings().into_iter();
    all.filter(|current| states.contains(&current.state()))
}

/// Checks a row: the next state after the trigger in each of the states, with any reason.
#[track_caller]
fn check(trigger: Trigger, from: &[SafetyState], next: IndexState) {
    for current in in_states(from) {
        let step = step(current, &[trigger]);
        if current.state() == next.state() {
            assert_eq!(
                step.next.state(),
                next.state(),
                "{trigger:?} in {current:?}"
            );
        } else {
            assert_eq!(step.next, next, "{trigger:?} in {current:?}");
        }
    }
}

/// Checks that a trigger does not change the state.
#[track_caller]
fn stays(trigger: Trigger, from: &[SafetyState]) {
    for current in in_states(from) {
        assert_eq!(step(current, &[trigger]).next, current, "{trigger:?}");
    }
}

/// Checks that a trigger has an effect only in some states.
#[track_caller]
fn ignored_but_in(trigger: Trigger, states: &[SafetyState]) {
    let others: Vec<SafetyState> = SafetyState::ALL
        .iter()
        .copied()
        .filter(|state| !states.contains(state))
        .collect();
    for current in in_states(&others) {
        let expected = Step {
            next: current,
            actions: Vec::new(),
        };
        assert_eq!(step(current, &[trigger]), expected, "{trigger:?}");
    }
}

#[track_caller]
fn does(trigger: Trigger, from: SafetyState, actions: &[Action]) {
    for current in in_states(&[from]) {
        let all = step(current, &[trigger]).actions;
        assert!(actions.iter().all(|action| all.contains(action)), "{all:?}");
    }
}

const NOT_DISABLED: [SafetyState; 5] = [Absent, Building, Complete, Uncertain, Corrupt];
const OPENABLE: [SafetyState; 4] = [Absent, Corrupt, Uncertain, Complete];

#[test]
fn rows_index_mode_off_disables() {
    check(
        Trigger::ModeOff,
        SafetyState::ALL,
        IndexState::Disabled(None),
    );
    for &from in SafetyState::ALL {
        let all = [Action::StopWatching, Action::ClearDirty, Action::CloseIndex];
        does(Trigger::ModeOff, from, &all);
    }
    // It overrides the earlier reason for disabling the index.
    let before = disabled(No::MemoryBudgetExceeded);
    assert_eq!(
        step(before, &[Trigger::ModeOff]).next,
        IndexState::Disabled(None)
    );
}

#[test]
fn rows_no_place_disables() {
    let trigger = Trigger::PersistenceNotPermitted;
    let why = disabled(No::PersistenceNotPermitted);
    check(trigger, &NOT_DISABLED, why);
    ignored_but_in(trigger, &NOT_DISABLED);
    does(
        trigger,
        Complete,
        &[Action::StopWatching, Action::RecordDiagnostic],
    );
}

#[test]
fn rows_a_cooldown_is_waited_for() {
    for current in in_states(&[Disabled]) {
        let active = step(current, &[Trigger::CooldownActive]);
        assert_eq!((active.next, active.actions), (current, Vec::new()));
        let expired = step(current, &[Trigger::CooldownExpired]);
        assert_eq!(expired.next, IndexState::Absent);
        assert_eq!(expired.actions, [Action::ClearCooldown, Action::OpenIndex]);
    }
    ignored_but_in(Trigger::CooldownActive, &[Disabled]);
    ignored_but_in(Trigger::CooldownExpired, &[Disabled]);
}

#[test]
fn rows_a_missing_index_is_absent() {
    check(Trigger::IndexMissing, &NOT_DISABLED, IndexState::Absent);
    ignored_but_in(Trigger::IndexMissing, &NOT_DISABLED);
}

#[test]
fn rows_thresholds() {
    let why = disabled(No::BelowThreshold);
    check(Trigger::BelowThreshold, &[Absent], why);
    ignored_but_in(Trigger::BelowThreshold, &[Absent]);
    let grown = step(disabled(No::BelowThreshold), &[Trigger::AboveThreshold]);
    assert_eq!(grown.next, IndexState::Absent);
    assert_eq!(grown.actions, [Action::StartBuild]);
    for other in standings().into_iter().filter(|now| *now != why) {
        assert_eq!(step(other, &[Trigger::AboveThreshold]).next, other);
    }
}

#[test]
fn rows_a_lock_that_is_not_had_changes_no_state() {
    stays(Trigger::LockTimeout, SafetyState::ALL);
    for from in NOT_DISABLED {
        does(
            Trigger::LockTimeout,
            from,
            &[Action::SkipMaintenance, Action::BypassCall],
        );
    }
    ignored_but_in(Trigger::LockTimeout, &NOT_DISABLED);
}

#[test]
fn rows_a_mismatch_builds_again() {
    check(Trigger::Mismatch, &NOT_DISABLED, IndexState::Building);
    ignored_but_in(Trigger::Mismatch, &NOT_DISABLED);
    let all = [Action::Quarantine, Action::ClearDirty, Action::StartBuild];
    does(Trigger::Mismatch, Complete, &all);
}

#[test]
fn rows_damage_is_corrupt() {
    check(
        Trigger::IntegrityFailure,
        &NOT_DISABLED,
        IndexState::Corrupt,
    );
    ignored_but_in(Trigger::IntegrityFailure, &NOT_DISABLED);
    let all = [
        Action::Quarantine,
        Action::ClearDirty,
        Action::ScheduleBuild,
    ];
    does(Trigger::IntegrityFailure, Complete, &all);
}

#[test]
fn rows_builds() {
    check(Trigger::BuildStarted, &OPENABLE, IndexState::Building);
    ignored_but_in(Trigger::BuildStarted, &OPENABLE);
    check(Trigger::BuildCompleted, &[Building], IndexState::Complete);
    does(
        Trigger::BuildCompleted,
        Building,
        &[Action::RaiseEpoch, Action::ClearDirty],
    );
    let why = IndexState::Uncertain(Why::BuildBudgetExceeded);
    check(Trigger::BuildBudgetExceeded, &[Building], why);
    does(
        Trigger::BuildBudgetExceeded,
        Building,
        &[Action::KeepCheckpoint],
    );
    check(Trigger::BuildFailedClean, &[Building], IndexState::Absent);
    check(Trigger::BuildFailedDirty, &[Building], IndexState::Corrupt);
    does(Trigger::BuildFailedDirty, Building, &[Action::Quarantine]);
    for trigger in [
        Trigger::BuildCompleted,
        Trigger::BuildBudgetExceeded,
        Trigger::BuildFailedClean,
        Trigger::BuildFailedDirty,
    ] {
        ignored_but_in(trigger, &[Building, Uncertain]);
    }
}

#[test]
fn rows_a_build_that_lost_events_does_not_become_complete() {
    for lost in [
        Trigger::WatcherOverflow,
        Trigger::WatcherDown,
        Trigger::EligibilityChanged,
        Trigger::PolicyChanged,
        Trigger::EnumerationErrors,
        Trigger::RenameAmbiguous,
    ] {
        let during = step(IndexState::Building, &[lost]).next;
        assert_eq!(during.state(), Uncertain, "{lost:?}");
        let built = step(during, &[Trigger::BuildCompleted]);
        assert_eq!(built.next, during);
        assert_eq!(built.actions, [Action::ScheduleReconcile]);
        // Both triggers at the same moment.
        let both = step(IndexState::Building, &[Trigger::BuildCompleted, lost]).next;
        assert_eq!(both, during);
    }
    let overflow = step(IndexState::Building, &[Trigger::WatcherOverflow]).next;
    assert_eq!(
        overflow,
        IndexState::Uncertain(Why::WatcherOverflowDuringBuild)
    );
}

#[test]
fn rows_an_opened_index_is_uncertain() {
    let why = IndexState::Uncertain(Why::OpenRequiresValidation);
    check(Trigger::IndexOpened, &OPENABLE, why);
    ignored_but_in(Trigger::IndexOpened, &OPENABLE);
    let all = [Action::StartWatching, Action::ScheduleReconcile];
    does(Trigger::IndexOpened, Complete, &all);
}

#[test]
fn rows_watchers() {
    stays(Trigger::WatcherStarted, SafetyState::ALL);
    let overflow = IndexState::Uncertain(Why::WatcherOverflow);
    check(Trigger::WatcherOverflow, &[Complete, Uncertain], overflow);
    does(
        Trigger::WatcherOverflow,
        Complete,
        &[Action::MarkDirty, Action::ScheduleReconcile],
    );
    ignored_but_in(Trigger::WatcherOverflow, &[Complete, Uncertain, Building]);
    let down = IndexState::Uncertain(Why::WatcherDown);
    check(Trigger::WatcherDown, &[Complete], down);
    ignored_but_in(Trigger::WatcherDown, &[Complete, Uncertain, Building]);
    // Processing known changes does not restore this lost coverage.
    let backlog = step(
        IndexState::Uncertain(Why::DirtyBacklog),
        &[Trigger::WatcherDown],
    )
    .next;
    assert_eq!(
        step(backlog, &[Trigger::DirtyDrained]).next,
        IndexState::Uncertain(Why::WatcherDown)
    );
}

#[test]
fn rows_eligibility_and_policy() {
    let both = [Complete, Uncertain];
    let why = IndexState::Uncertain(Why::EligibilityChanged);
    check(Trigger::EligibilityChanged, &both, why);
    does(
        Trigger::EligibilityChanged,
        Complete,
        &[Action::MarkDirty, Action::ScheduleReconcile],
    );
    let why = IndexState::Uncertain(Why::PolicyChanged);
    check(Trigger::PolicyChanged, &both, why);
    does(
        Trigger::PolicyChanged,
        Uncertain,
        &[Action::PurgeDenied, Action::ScheduleReconcile],
    );
    ignored_but_in(
        Trigger::EligibilityChanged,
        &[Complete, Uncertain, Building],
    );
    // If there is no index for the current patterns, there was one for others.
    check(Trigger::PolicyChanged, &[Absent], why);
    ignored_but_in(
        Trigger::PolicyChanged,
        &[Complete, Absent, Uncertain, Building],
    );
}

#[test]
fn rows_enumeration_errors() {
    let from = [Complete, Building, Uncertain];
    let why = IndexState::Uncertain(Why::EnumerationError);
    check(Trigger::EnumerationErrors, &from, why);
    ignored_but_in(Trigger::EnumerationErrors, &from);
}

#[test]
fn rows_eviction_and_memory() {
    check(Trigger::Evicted, &NOT_DISABLED, IndexState::Absent);
    does(
        Trigger::Evicted,
        Complete,
        &[Action::Delete, Action::ClearDirty],
    );
    let why = disabled(No::MemoryBudgetExceeded);
    check(Trigger::MemoryExceeded, &NOT_DISABLED, why);
    does(
        Trigger::MemoryExceeded,
        Complete,
        &[Action::SetCooldown, Action::SkipMaintenance],
    );
    for trigger in [Trigger::Evicted, Trigger::MemoryExceeded] {
        ignored_but_in(trigger, &NOT_DISABLED);
    }
}

#[test]
fn rows_what_changed_is_worked_off_in_time_or_not() {
    check(Trigger::DirtyApplied, &[Complete], IndexState::Complete);
    let why = IndexState::Uncertain(Why::DirtyBacklog);
    check(Trigger::DirtyBacklog, &[Complete], why);
    does(Trigger::DirtyBacklog, Complete, &[Action::BypassCall]);
    let why = IndexState::Uncertain(Why::MaintBudgetExceeded);
    check(Trigger::MaintBudgetExceeded, &[Complete], why);
    does(
        Trigger::MaintBudgetExceeded,
        Complete,
        &[Action::SkipMaintenance, Action::BypassCall],
    );
    for trigger in [
        Trigger::DirtyApplied,
        Trigger::DirtyBacklog,
        Trigger::MaintBudgetExceeded,
    ] {
        ignored_but_in(trigger, &[Complete]);
    }
    for current in standings() {
        let expected = match current == IndexState::Uncertain(Why::DirtyBacklog) {
            true => IndexState::Complete,
            false => current,
        };
        assert_eq!(step(current, &[Trigger::DirtyDrained]).next, expected);
    }
}

#[test]
fn rows_reconciling() {
    for &why in Why::ALL {
        let current = IndexState::Uncertain(why);
        assert_eq!(step(current, &[Trigger::ReconcileStarted]).next, current);
        assert_eq!(step(current, &[Trigger::ReconcileFailed]).next, current);
        let done = step(current, &[Trigger::ReconcileCompleted]);
        assert_eq!(done.next, IndexState::Complete);
        assert_eq!(done.actions, [Action::RaiseEpoch, Action::ClearDirty]);
    }
    for trigger in [
        Trigger::ReconcileStarted,
        Trigger::ReconcileFailed,
        Trigger::ReconcileCompleted,
    ] {
        ignored_but_in(trigger, &[Uncertain]);
    }
}

#[test]
fn rows_renames() {
    check(Trigger::RenameApplied, &[Complete], IndexState::Complete);
    let why = IndexState::Uncertain(Why::DirtyBacklog);
    check(Trigger::RenameBacklog, &[Complete], why);
    let why = IndexState::Uncertain(Why::RenameUncertain);
    check(Trigger::RenameAmbiguous, &[Complete], why);
    ignored_but_in(Trigger::RenameApplied, &[Complete]);
    ignored_but_in(Trigger::RenameBacklog, &[Complete]);
    ignored_but_in(Trigger::RenameAmbiguous, &[Complete, Uncertain, Building]);
}

#[test]
fn the_most_severe_index_state_wins() {
    use Trigger::{Evicted, IntegrityFailure, MemoryExceeded, Mismatch, ModeOff, WatcherOverflow};
    let next = |triggers: &[Trigger]| step(IndexState::Complete, triggers).next.state();
    assert_eq!(next(&[ModeOff, IntegrityFailure]), Disabled);
    assert_eq!(next(&[IntegrityFailure, WatcherOverflow]), Corrupt);
    assert_eq!(next(&[WatcherOverflow, Mismatch]), Uncertain);
    assert_eq!(next(&[Mismatch, Evicted]), Building);
    assert_eq!(next(&[Evicted, Trigger::DirtyApplied]), Absent);
    assert_eq!(next(&[Evicted, MemoryExceeded]), Disabled);
    // A trigger that does not count deletes nothing.
    let actions = step(IndexState::Complete, &[WatcherOverflow, Evicted]).actions;
    assert!(!actions.contains(&Action::Delete), "{actions:?}");
}

#[test]
fn classes_of_triggers_decide_between_equal_states() {
    let next = |triggers: &[Trigger]| step(IndexState::Complete, triggers).next;
    let both = [Trigger::MemoryExceeded, Trigger::PersistenceNotPermitted];
    assert_eq!(next(&both), disabled(No::PersistenceNotPermitted));
    let both = [Trigger::DirtyBacklog, Trigger::WatcherOverflow];
    assert_eq!(next(&both), IndexState::Uncertain(Why::WatcherOverflow));
    let both = [Trigger::IndexOpened, Trigger::MaintBudgetExceeded];
    assert_eq!(next(&both), IndexState::Uncertain(Why::MaintBudgetExceeded));
    // The same class: the order of the table decides.
    let both = [Trigger::EligibilityChanged, Trigger::WatcherOverflow];
    let step = step(IndexState::Complete, &both);
    assert_eq!(step.next, IndexState::Uncertain(Why::WatcherOverflow));
    assert_eq!(step.actions, [Action::MarkDirty, Action::ScheduleReconcile]);
}

#[test]
fn reasons_are_overwritten_by_higher_classes_only() {
    let next = |why, trigger| step(IndexState::Uncertain(why), &[trigger]).next;
    let overflow = Trigger::WatcherOverflow;
    assert_eq!(
        next(Why::DirtyBacklog, overflow),
        IndexState::Uncertain(Why::WatcherOverflow)
    );
    assert_eq!(
        next(Why::OpenRequiresValidation, overflow),
        IndexState::Uncertain(Why::WatcherOverflow)
    );
    assert_eq!(
        next(Why::EligibilityChanged, overflow),
        IndexState::Uncertain(Why::EligibilityChanged)
    );
    let opened = next(Why::BuildBudgetExceeded, Trigger::IndexOpened);
    assert_eq!(opened, IndexState::Uncertain(Why::BuildBudgetExceeded));
    // Whether or not the reason changes, everything has to be compared again.
    let step = step(IndexState::Uncertain(Why::EligibilityChanged), &[overflow]);
    assert!(step.actions.contains(&Action::ScheduleReconcile));
}

/// Every state with every set of up to three triggers.
#[test]
fn any_triggers_at_one_moment() {
    let all = Trigger::ALL;
    let mut sets: Vec<Vec<Trigger>> = vec![Vec::new()];
    for (a, &first) in all.iter().enumerate() {
        sets.push(vec![first]);
        for (b, &second) in all.iter().enumerate().skip(a + 1) {
            sets.push(vec![first, second]);
            sets.extend(all[b + 1..].iter().map(|&third| vec![first, second, third]));
        }
    }
    assert_eq!(sets.len(), 1 + 34 + 34 * 33 / 2 + 34 * 33 * 32 / 6);
    for current in standings() {
        let alone = |trigger: &Trigger| step(current, std::slice::from_ref(trigger));
        // A trigger requires a state if it has a row with one.
        let asks = |trigger: &Trigger| {
            let mut rows = TABLE.iter().filter(|row| row.trigger == *trigger);
            rows.any(|row| row.applies(current) && row.effect != Effect::None)
        };
        for set in &sets {
            let step = step(current, set);
            let next = step.next;
            // P1.
            let asked = set.iter().filter(|trigger| asks(trigger));
            let states = asked.clone().map(|trigger| alone(trigger).next.state());
            let severest = states.max().unwrap_or(current.state());
            assert_eq!(next.state(), severest, "{current:?} {set:?}");
            // P2 and P4: the next state is one that a trigger of the first class requires alone.
            let same = asked.filter(|trigger| alone(trigger).next.state() == severest);
            let class = same.clone().map(|trigger| trigger.class()).min();
            let mut first = same.filter(|trigger| Some(trigger.class()) == class);
            match class {
                None => assert_eq!(next, current, "{set:?}"),
                Some(_) => assert!(
                    first.any(|trigger| alone(trigger).next == next),
                    "{current:?} {set:?}"
                ),
            }
            // P3.
            assert_eq!(next.allows_exclusion(), next.state() == Complete);
            // Coverage is regained only at the end of a build, of a reconcile, or of the remaining
            // changes.
            if next.allows_exclusion() && !current.allows_exclusion() {
                let gains = [
                    Trigger::BuildCompleted,
                    Trigger::ReconcileCompleted,
                    Trigger::DirtyDrained,
                ];
                assert!(set.iter().any(|trigger| gains.contains(trigger)), "{set:?}");
            }
            // A trigger that makes coverage uncertain is never ignored, except where no search
            // relies on the index anyway.
            if set.iter().any(|trigger| trigger.class() == Class::Coverage) {
                assert!(!next.allows_exclusion(), "{current:?} {set:?}");
            }
            // Each action occurs once, and belongs to one of the triggers.
            let mut seen = step.actions.clone();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), step.actions.len());
            let mut own = set.iter().flat_map(|trigger| alone(trigger).actions);
            let known: Vec<Action> = own.by_ref().collect();
            assert!(step.actions.iter().all(|action| known.contains(action)));
            // The order of the triggers does not matter.
            let mut turned = set.clone();
            turned.reverse();
            assert_eq!(super::step(current, &turned), step);
        }
    }
}

#[test]
fn every_trigger_has_a_row_and_every_reason_a_trigger() {
    for trigger in Trigger::ALL {
        assert!(
            TABLE.iter().any(|row| row.trigger == trigger),
            "{trigger:?}"
        );
    }
    assert!(TABLE.iter().all(|row| Trigger::ALL.contains(&row.trigger)));
    for &why in Why::ALL {
        assert!(why.class().is_some(), "{why:?}");
    }
    for &why in No::ALL {
        let gives = Effect::Become(disabled(why));
        assert!(TABLE.iter().any(|row| row.effect == gives), "{why:?}");
    }
    // Rows of the same trigger apply to different states.
    for (n, row) in TABLE.iter().enumerate() {
        for other in &TABLE[n + 1..] {
            let same = row.trigger == other.trigger;
            assert!(
                !same
                    || row
                        .states()
                        .all(|state| !other.states().any(|known| known == state)),
                "{row:?}"
            );
        }
    }
}
