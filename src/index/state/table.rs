//! The table of transitions (LSI §4.2.2), row by row.
//!
//! Owns what follows from one trigger alone. How several at one moment get along is not its business.

use super::SafetyState::{Absent, Building, Complete, Corrupt, Disabled, Uncertain};
use super::{Action, DisabledReason, SafetyState, Standing, Trigger, UncertainReason};

/// The classes of triggers, the one that comes first before the others (LSI §4.2.1, P2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// There is to be no index.
    HardDisable,
    /// Data are damaged.
    Corruption,
    /// Data are of another schema, key or tokenizer.
    Mismatch,
    /// What is covered is no longer certain.
    Coverage,
    /// Room, memory, locks.
    Resources,
    /// Builds.
    Build,
    /// Changes are worked off.
    Maintenance,
    /// Opening and the like.
    Access,
}

/// What a trigger does to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It asks for nothing.
    None,
    /// It asks to stay in this state, for the same reason.
    Stay,
    /// It asks for another.
    Become(Standing),
}

impl Effect {
    /// Returns what is asked for in a state, if anything is.
    pub fn on(self, current: Standing) -> Option<Standing> {
        match self {
            Effect::None => None,
            Effect::Stay => Some(current),
            Effect::Become(next) => Some(next),
        }
    }
}

/// A row: what follows from one trigger in some states.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The trigger.
    pub trigger: Trigger,
    /// The states in which it has this effect.
    pub from: &'static [SafetyState],
    /// States beside those of the specification, so that nothing is missed (D49).
    pub also: &'static [SafetyState],
    /// The only state with its reason in which it has, if it depends on that.
    pub only: Option<Standing>,
    /// What it does to the state.
    pub effect: Effect,
    /// What has to be done.
    pub actions: &'static [Action],
}

impl Row {
    /// Returns true if the row is about an index in this state.
    pub fn applies(&self, current: Standing) -> bool {
        self.states().any(|state| state == current.state())
            && self.only.is_none_or(|only| only == current)
    }

    /// Iterates over the states that it is about.
    pub fn states(&self) -> impl Iterator<Item = SafetyState> {
        self.from.iter().chain(self.also).copied()
    }

    const fn only(self, only: Standing) -> Row {
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
    Effect::Become(Standing::Uncertain(reason))
}

const fn disabled(reason: Option<DisabledReason>) -> Effect {
    Effect::Become(Standing::Disabled(reason))
}

const COMPLETE: Effect = Effect::Become(Standing::Complete);
const ABSENT: Effect = Effect::Become(Standing::Absent);
const BUILDING: Effect = Effect::Become(Standing::Building);
const CORRUPT: Effect = Effect::Become(Standing::Corrupt);

const ANY: &[SafetyState] = &SafetyState::ALL;
const NOT_DISABLED: &[SafetyState] = &[Complete, Absent, Building, Uncertain, Corrupt];
const OPENABLE: &[SafetyState] = &[Absent, Corrupt, Uncertain, Complete];
const COVERED: &[SafetyState] = &[Complete, Uncertain];

/// What is done whenever an index is disabled.
const SHUT: &[Action] = &[
    Action::StopBuild,
    Action::StopWatching,
    Action::ClearDirty,
    Action::CloseIndex,
];

/// What is done whenever coverage is lost: what the event concerns is marked, and only a comparison with all of the
/// tree that begins afterwards restores it.
const LOST: &[Action] = &[Action::MarkDirty, Action::ScheduleReconcile];

/// All rows. Those of one trigger are about different states.
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
        .only(Standing::Disabled(Some(DisabledReason::BelowThreshold)))
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
    // Its coverage was lost while it ran (FR-LSI-BG-62).
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
    // The build went on when coverage was lost, and may still fail.
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
        .only(Standing::Uncertain(UncertainReason::DirtyBacklog)),
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
