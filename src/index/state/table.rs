//! The transition table, row by row.
//!
//! This module defines the effect of a single trigger. [`step`](super::step) combines several
//! triggers of one moment.

use super::SafetyState::{Absent, Building, Complete, Corrupt, Disabled, Uncertain};
use super::{Action, DisabledReason, IndexState, SafetyState, Trigger, UncertainReason};

/// The classes of triggers, the highest precedence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The index is to be disabled.
    HardDisable,
    /// The index data are damaged.
    Corruption,
    /// The index data have another schema, key or tokenizer.
    Mismatch,
    /// Coverage is no longer confirmed.
    Coverage,
    /// Disk space, memory and locks.
    Resources,
    /// Progress and results of builds.
    Build,
    /// Processing of changes.
    Maintenance,
    /// Opening an index, and starting a watcher.
    Access,
}

/// The effect of a trigger on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The trigger requires no state.
    None,
    /// The trigger requires the current state with its reason.
    Stay,
    /// The trigger requires this state.
    Become(IndexState),
}

impl Effect {
    /// Returns the state that is required in `current`; `None` if any is acceptable.
    pub fn on(self, current: IndexState) -> Option<IndexState> {
        match self {
            Effect::None => None,
            Effect::Stay => Some(current),
            Effect::Become(next) => Some(next),
        }
    }
}

/// The effect of one trigger in some states.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The trigger that has the effect.
    pub trigger: Trigger,
    /// The states in which it has this effect.
    pub from: &'static [SafetyState],
    /// States in addition to those of the specification, so that no case is missed (D49).
    pub also: &'static [SafetyState],
    /// The only state with its reason in which the row applies; `None` for all.
    pub only: Option<IndexState>,
    /// The effect on the state.
    pub effect: Effect,
    /// The required actions.
    pub actions: &'static [Action],
}

impl Row {
    /// Returns true if the row applies to this state.
    pub fn applies(&self, current: IndexState) -> bool {
        self.states().any(|state| state == current.state())
            && self.only.is_none_or(|only| only == current)
    }

    /// Returns the states in which the row applies.
    pub fn states(&self) -> impl Iterator<Item = SafetyState> {
        self.from.iter().chain(self.also).copied()
    }

    const fn only(self, only: IndexState) -> Row {
        Row {
            only: Some(only),
            ..self
        }
    }

    const fn does(self, actions: &'static [Action]) -> Row {
        Row { actions, ..self }
    }

    const fn also_in(self, also: &'static [SafetyState]) -> Row {
        Row { also, ..self }
    }
}

const fn row(trigger: Trigger, from: &'static [SafetyState], effect: Effect) -> Row {
    Row {
        trigger,
        from,
        also: &[],
        only: None,
        effect,
        actions: &[],
    }
}

const fn uncertain(reason: UncertainReason) -> Effect {
    Effect::Become(IndexState::Uncertain(reason))
}

const fn disabled(reason: Option<DisabledReason>) -> Effect {
    Effect::Become(IndexState::Disabled(reason))
}

const COMPLETE: Effect = Effect::Become(IndexState::Complete);
const ABSENT: Effect = Effect::Become(IndexState::Absent);
const BUILDING: Effect = Effect::Become(IndexState::Building);
const CORRUPT: Effect = Effect::Become(IndexState::Corrupt);

const ANY: &[SafetyState] = SafetyState::ALL;
const NOT_DISABLED: &[SafetyState] = &[Complete, Absent, Building, Uncertain, Corrupt];
const OPENABLE: &[SafetyState] = &[Absent, Corrupt, Uncertain, Complete];
const COVERED: &[SafetyState] = &[Complete, Uncertain];

/// The actions of every transition that disables the index.
const SHUT: &[Action] = &[
    Action::StopBuild,
    Action::StopWatching,
    Action::ClearDirty,
    Action::CloseIndex,
];

/// The actions whenever coverage is lost. The paths of the event are marked. Only a comparison with
/// the whole tree that begins later restores coverage.
const LOST: &[Action] = &[Action::MarkDirty, Action::ScheduleReconcile];

/// All rows. Rows of the same trigger apply to different states.
pub const TABLE: &[Row] = &[
    row(Trigger::ModeOff, ANY, disabled(None)).does(SHUT),
    row(
        Trigger::PersistenceNotPermitted,
        NOT_DISABLED,
        disabled(Some(DisabledReason::PersistenceNotPermitted)),
    )
    .does(&[
        Action::StopBuild,
        Action::StopWatching,
        Action::ClearDirty,
        Action::CloseIndex,
        Action::RecordDiagnostic,
    ]),
    row(Trigger::CooldownActive, &[Disabled], Effect::Stay),
    row(Trigger::CooldownExpired, &[Disabled], ABSENT)
        .does(&[Action::ClearCooldown, Action::OpenIndex]),
    row(Trigger::IndexMissing, NOT_DISABLED, ABSENT).does(&[Action::ScheduleBuild]),
    row(
        Trigger::BelowThreshold,
        &[Absent],
        disabled(Some(DisabledReason::BelowThreshold)),
    ),
    row(Trigger::AboveThreshold, &[Disabled], ABSENT)
        .only(IndexState::Disabled(Some(DisabledReason::BelowThreshold)))
        .does(&[Action::StartBuild]),
    row(Trigger::LockTimeout, NOT_DISABLED, Effect::None)
        .does(&[Action::SkipMaintenance, Action::BypassCall]),
    row(Trigger::Mismatch, NOT_DISABLED, BUILDING).does(&[
        Action::Quarantine,
        Action::ClearDirty,
        Action::StartBuild,
    ]),
    row(Trigger::IntegrityFailure, NOT_DISABLED, CORRUPT).does(&[
        Action::Quarantine,
        Action::ClearDirty,
        Action::ScheduleBuild,
    ]),
    row(Trigger::BuildStarted, OPENABLE, BUILDING).does(&[Action::RunBuild]),
    row(Trigger::BuildCompleted, &[Building], COMPLETE)
        .does(&[Action::RaiseEpoch, Action::ClearDirty]),
    // Coverage was lost during the build (FR-LSI-BG-62).
    row(Trigger::BuildCompleted, &[], Effect::None)
        .does(&[Action::ScheduleReconcile])
        .also_in(&[Uncertain]),
    row(
        Trigger::BuildBudgetExceeded,
        &[Building],
        uncertain(UncertainReason::BuildBudgetExceeded),
    )
    .does(&[Action::KeepCheckpoint]),
    row(Trigger::BuildFailedClean, &[Building], ABSENT)
        .does(&[Action::RemoveUnfinished, Action::RecordDiagnostic])
        .also_in(&[Uncertain]),
    row(Trigger::BuildFailedDirty, &[Building], CORRUPT)
        .does(&[Action::Quarantine, Action::RecordDiagnostic])
        .also_in(&[Uncertain]),
    // The build continued after coverage was lost, and may still fail.
    row(Trigger::BuildBudgetExceeded, &[], Effect::None)
        .does(&[Action::KeepCheckpoint])
        .also_in(&[Uncertain]),
    row(
        Trigger::IndexOpened,
        OPENABLE,
        uncertain(UncertainReason::OpenRequiresValidation),
    )
    .does(&[Action::StartWatching, Action::ScheduleReconcile]),
    row(Trigger::WatcherStarted, COVERED, Effect::None).does(&[Action::MarkDirty]),
    row(
        Trigger::WatcherOverflow,
        COVERED,
        uncertain(UncertainReason::WatcherOverflow),
    )
    .does(LOST),
    row(
        Trigger::WatcherOverflow,
        &[Building],
        uncertain(UncertainReason::WatcherOverflowDuringBuild),
    )
    .does(LOST),
    row(
        Trigger::WatcherDown,
        &[Complete],
        uncertain(UncertainReason::WatcherDown),
    )
    .does(&[Action::ScheduleReconcile])
    .also_in(&[Building, Uncertain]),
    row(
        Trigger::EligibilityChanged,
        COVERED,
        uncertain(UncertainReason::EligibilityChanged),
    )
    .does(LOST)
    .also_in(&[Building]),
    row(
        Trigger::PolicyChanged,
        COVERED,
        uncertain(UncertainReason::PolicyChanged),
    )
    .does(&[Action::PurgeDenied, Action::ScheduleReconcile])
    .also_in(&[Absent, Building]),
    row(
        Trigger::EnumerationErrors,
        &[Complete, Building, Uncertain],
        uncertain(UncertainReason::EnumerationError),
    )
    .does(&[Action::ScheduleReconcile]),
    row(Trigger::Evicted, NOT_DISABLED, ABSENT).does(&[
        Action::StopBuild,
        Action::Delete,
        Action::ClearDirty,
    ]),
    row(
        Trigger::MemoryExceeded,
        NOT_DISABLED,
        disabled(Some(DisabledReason::MemoryBudgetExceeded)),
    )
    .does(&[
        Action::StopBuild,
        Action::StopWatching,
        Action::ClearDirty,
        Action::CloseIndex,
        Action::SetCooldown,
        Action::SkipMaintenance,
    ]),
    row(Trigger::DirtyApplied, &[Complete], Effect::Stay).does(&[Action::ApplyDirty]),
    row(
        Trigger::DirtyBacklog,
        &[Complete],
        uncertain(UncertainReason::DirtyBacklog),
    )
    .does(&[Action::BypassCall]),
    row(
        Trigger::MaintBudgetExceeded,
        &[Complete],
        uncertain(UncertainReason::MaintBudgetExceeded),
    )
    .does(&[Action::SkipMaintenance, Action::BypassCall]),
    row(Trigger::DirtyDrained, &[Uncertain], COMPLETE)
        .only(IndexState::Uncertain(UncertainReason::DirtyBacklog)),
    row(Trigger::ReconcileStarted, &[Uncertain], Effect::Stay).does(&[Action::RunReconcile]),
    row(Trigger::ReconcileCompleted, &[Uncertain], COMPLETE)
        .does(&[Action::RaiseEpoch, Action::ClearDirty]),
    row(Trigger::ReconcileFailed, &[Uncertain], Effect::Stay),
    row(Trigger::RenameApplied, &[Complete], Effect::Stay)
        .does(&[Action::MarkDirty, Action::ApplyDirty]),
    row(
        Trigger::RenameBacklog,
        &[Complete],
        uncertain(UncertainReason::DirtyBacklog),
    )
    .does(&[Action::MarkDirty]),
    row(
        Trigger::RenameAmbiguous,
        &[Complete],
        uncertain(UncertainReason::RenameUncertain),
    )
    .does(LOST)
    .also_in(&[Building, Uncertain]),
];
