//! The index safety state machine: computes the next state and the required actions from triggers.
//!
//! This module owns the states, the triggers, the transition table and the rules of precedence. It
//! is a pure function: no I/O, no clock, no memory. The caller, the live index, detects triggers
//! and carries out the actions.

pub mod table;

use serde::{Deserialize, Serialize};

use crate::format::choices::choices;
use crate::index::state::table::{Class, Effect, Row, TABLE};

choices! {
    /// An index safety state. Ordered by severity, the least severe first.
    #[derive(PartialOrd, Ord)]
    SafetyState {
        /// There is a valid index, and it is confirmed to cover the whole tree.
        Complete = "COMPLETE",
        /// There is no index.
        Absent = "ABSENT",
        /// An index is being built.
        Building = "BUILDING",
        /// There may be an index, but its coverage is not confirmed.
        Uncertain = "UNCERTAIN",
        /// The index data are damaged.
        Corrupt = "CORRUPT",
        /// The index is disabled.
        Disabled = "DISABLED",
    }
}

choices! {
    /// Why coverage is not confirmed (LSI Appendix D).
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    UncertainReason {
        /// The index was opened and not yet compared with the tree.
        OpenRequiresValidation = "OPEN_REQUIRES_VALIDATION",
        /// The watcher dropped events.
        WatcherOverflow = "WATCHER_OVERFLOW",
        /// The watcher stopped, or could not start.
        WatcherDown = "WATCHER_DOWN",
        /// An ignore file, or another input of eligibility, changed.
        EligibilityChanged = "ELIGIBILITY_CHANGED",
        /// The sandbox or the denied patterns changed.
        PolicyChanged = "POLICY_CHANGED",
        /// Changes could not be processed in time.
        DirtyBacklog = "DIRTY_BACKLOG",
        /// A file or directory was renamed, and its old name is unknown.
        RenameUncertain = "RENAME_UNCERTAIN",
        /// A directory or file could not be listed, and may hide files.
        EnumerationError = "ENUMERATION_ERROR",
        /// The build exceeded its budget.
        BuildBudgetExceeded = "BUILD_BUDGET_EXCEEDED",
        /// Maintenance within a call exceeded its budget.
        MaintBudgetExceeded = "MAINT_BUDGET_EXCEEDED",
        /// The watcher dropped events during a build.
        WatcherOverflowDuringBuild = "WATCHER_OVERFLOW_DURING_BUILD",
    }
}

impl UncertainReason {
    /// Returns the class of the triggers that lead to this reason.
    fn class(self) -> Option<Class> {
        let gives = Effect::Become(IndexState::Uncertain(self));
        let rows = TABLE.iter().filter(|row| row.effect == gives);
        rows.map(|row| row.trigger.class()).min()
    }
}

choices! {
    /// Why the index is disabled (LSI Appendix D).
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    DisabledReason {
        /// The tree is too small to need one.
        BelowThreshold = "BELOW_THRESHOLD",
        /// There is no permitted place to store an index.
        PersistenceNotPermitted = "PERSISTENCE_NOT_PERMITTED",
        /// An index in memory exceeds its memory limit.
        MemoryBudgetExceeded = "MEMORY_BUDGET_EXCEEDED",
    }
}

/// A state together with its reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IndexState {
    /// The state [`SafetyState::Complete`].
    Complete,
    /// The state [`SafetyState::Absent`].
    #[default]
    Absent,
    /// The state [`SafetyState::Building`].
    Building,
    /// The state [`SafetyState::Uncertain`], with its reason.
    Uncertain(UncertainReason),
    /// The state [`SafetyState::Corrupt`].
    Corrupt,
    /// The state [`SafetyState::Disabled`]; `None` if disabled by `index_mode = "off"`.
    Disabled(Option<DisabledReason>),
}

impl IndexState {
    /// Returns the state without its reason.
    pub fn state(self) -> SafetyState {
        match self {
            IndexState::Complete => SafetyState::Complete,
            IndexState::Absent => SafetyState::Absent,
            IndexState::Building => SafetyState::Building,
            IndexState::Uncertain(_) => SafetyState::Uncertain,
            IndexState::Corrupt => SafetyState::Corrupt,
            IndexState::Disabled(_) => SafetyState::Disabled,
        }
    }

    /// Returns the name of the reason (`uncertain_reason`); `None` if the state has no reason.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            IndexState::Uncertain(reason) => Some(reason.as_str()),
            IndexState::Disabled(reason) => reason.map(DisabledReason::as_str),
            _ => None,
        }
    }

    /// Returns all states, with each of their reasons.
    pub fn all() -> impl Iterator<Item = IndexState> {
        let plain = [
            IndexState::Complete,
            IndexState::Absent,
            IndexState::Building,
            IndexState::Corrupt,
            IndexState::Disabled(None),
        ];
        let uncertain = UncertainReason::ALL
            .iter()
            .copied()
            .map(IndexState::Uncertain);
        let disabled = DisabledReason::ALL
            .iter()
            .map(|reason| IndexState::Disabled(Some(*reason)));
        plain.into_iter().chain(uncertain).chain(disabled)
    }

    /// Returns the value with these names of state and reason.
    pub fn of_names(state: &str, reason: Option<&str>) -> Option<IndexState> {
        IndexState::all().find(|index_state| {
            (index_state.state().as_str(), index_state.reason()) == (state, reason)
        })
    }

    /// Returns true if a search may exclude files by the index, provided that its plan is safe for
    /// the request.
    pub fn allows_exclusion(self) -> bool {
        self == IndexState::Complete
    }
}

/// An event or a condition that may change the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// `index_mode = "off"` took effect.
    ModeOff,
    /// There is no permitted place to store an index.
    PersistenceNotPermitted,
    /// The cooldown of a disabled index has not ended.
    CooldownActive,
    /// The cooldown has ended, and `index_mode` is not `off`.
    CooldownExpired,
    /// The index could not be opened because it does not exist.
    IndexMissing,
    /// The tree is below both thresholds of `index_mode = "auto"`.
    BelowThreshold,
    /// A small tree has grown beyond a threshold.
    AboveThreshold,
    /// A lock was not acquired within `index_lock_timeout_ms`.
    LockTimeout,
    /// The stored index has another schema, key or tokenizer.
    Mismatch,
    /// The stored index is damaged.
    IntegrityFailure,
    /// The background indexer begins a build.
    BuildStarted,
    /// A build has finished; everything was listed, so no file is hidden.
    BuildCompleted,
    /// A build exceeded its limit of time, files or bytes.
    BuildBudgetExceeded,
    /// A build failed before it wrote anything.
    BuildFailedClean,
    /// A build failed after it had written data.
    BuildFailedDirty,
    /// The index was opened; its schema, key and integrity are valid.
    IndexOpened,
    /// The watcher was started.
    WatcherStarted,
    /// The watcher dropped events.
    WatcherOverflow,
    /// The watcher stopped, or could not be started.
    WatcherDown,
    /// An ignore file, or another input of eligibility, changed.
    EligibilityChanged,
    /// The sandbox or the denied patterns changed.
    PolicyChanged,
    /// A directory or file could not be listed, and may hide files.
    EnumerationErrors,
    /// The index was evicted to make room for others.
    Evicted,
    /// An index in memory exceeds its memory limit.
    MemoryExceeded,
    /// Changes were processed at the start of a call.
    DirtyApplied,
    /// Changes could not be processed within the call's budget.
    DirtyBacklog,
    /// Maintenance within the call exceeded its budget.
    MaintBudgetExceeded,
    /// All changes were processed, and the watcher has lost no event since the last epoch.
    DirtyDrained,
    /// A reconcile begins.
    ReconcileStarted,
    /// A reconcile has finished and resolves the reason; no file is hidden.
    ReconcileCompleted,
    /// A reconcile exceeded its budget, or found an error that may hide files.
    ReconcileFailed,
    /// A rename with both names known was processed.
    RenameApplied,
    /// A rename could not be processed within the budget.
    RenameBacklog,
    /// A file or directory was renamed, and its old name or the affected files are unknown.
    RenameAmbiguous,
}

impl Trigger {
    /// All triggers, in the order of their definition.
    pub const ALL: [Trigger; 34] = [
        Trigger::ModeOff,
        Trigger::PersistenceNotPermitted,
        Trigger::CooldownActive,
        Trigger::CooldownExpired,
        Trigger::IndexMissing,
        Trigger::BelowThreshold,
        Trigger::AboveThreshold,
        Trigger::LockTimeout,
        Trigger::Mismatch,
        Trigger::IntegrityFailure,
        Trigger::BuildStarted,
        Trigger::BuildCompleted,
        Trigger::BuildBudgetExceeded,
        Trigger::BuildFailedClean,
        Trigger::BuildFailedDirty,
        Trigger::IndexOpened,
        Trigger::WatcherStarted,
        Trigger::WatcherOverflow,
        Trigger::WatcherDown,
        Trigger::EligibilityChanged,
        Trigger::PolicyChanged,
        Trigger::EnumerationErrors,
        Trigger::Evicted,
        Trigger::MemoryExceeded,
        Trigger::DirtyApplied,
        Trigger::DirtyBacklog,
        Trigger::MaintBudgetExceeded,
        Trigger::DirtyDrained,
        Trigger::ReconcileStarted,
        Trigger::ReconcileCompleted,
        Trigger::ReconcileFailed,
        Trigger::RenameApplied,
        Trigger::RenameBacklog,
        Trigger::RenameAmbiguous,
    ];

    /// Returns the class, which decides between triggers of equal severity.
    pub fn class(self) -> Class {
        match self {
            Trigger::ModeOff
            | Trigger::PersistenceNotPermitted
            | Trigger::CooldownActive
            | Trigger::CooldownExpired => Class::HardDisable,
            Trigger::IntegrityFailure => Class::Corruption,
            Trigger::Mismatch => Class::Mismatch,
            Trigger::WatcherOverflow
            | Trigger::WatcherDown
            | Trigger::EligibilityChanged
            | Trigger::PolicyChanged
            | Trigger::EnumerationErrors
            | Trigger::RenameAmbiguous => Class::Coverage,
            Trigger::LockTimeout | Trigger::Evicted | Trigger::MemoryExceeded => Class::Resources,
            Trigger::BelowThreshold
            | Trigger::AboveThreshold
            | Trigger::BuildStarted
            | Trigger::BuildCompleted
            | Trigger::BuildBudgetExceeded
            | Trigger::BuildFailedClean
            | Trigger::BuildFailedDirty => Class::Build,
            Trigger::DirtyApplied
            | Trigger::DirtyBacklog
            | Trigger::MaintBudgetExceeded
            | Trigger::DirtyDrained
            | Trigger::ReconcileStarted
            | Trigger::ReconcileCompleted
            | Trigger::ReconcileFailed
            | Trigger::RenameApplied
            | Trigger::RenameBacklog => Class::Maintenance,
            Trigger::IndexMissing | Trigger::IndexOpened | Trigger::WatcherStarted => Class::Access,
        }
    }
}

/// A required action. Not excluding files follows from the state and is no action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Stop the build, if there is one.
    StopBuild,
    /// Stop watching the tree.
    StopWatching,
    /// Watch the tree, if watching is enabled.
    StartWatching,
    /// Remove the marks of changes that the index already contains.
    ClearDirty,
    /// Mark the files or subtrees of the trigger as changed.
    MarkDirty,
    /// Close the index.
    CloseIndex,
    /// Open the index, if there is one.
    OpenIndex,
    /// Take the stored index out of use, and delete it.
    Quarantine,
    /// Remove the files of an unfinished build.
    RemoveUnfinished,
    /// Delete the index.
    Delete,
    /// Begin to build.
    StartBuild,
    /// List and read the tree, without blocking searches.
    RunBuild,
    /// Schedule another build.
    ScheduleBuild,
    /// Keep the result of an unfinished build.
    KeepCheckpoint,
    /// Increment the coverage epoch.
    RaiseEpoch,
    /// Schedule a complete comparison of the index with the tree.
    ScheduleReconcile,
    /// Continue the comparison.
    RunReconcile,
    /// Remove denied files from the index.
    PurgeDenied,
    /// Set the end of the cooldown, if one is configured.
    SetCooldown,
    /// Clear the end of the cooldown.
    ClearCooldown,
    /// Postpone the rest of the maintenance.
    SkipMaintenance,
    /// Run this call without the index.
    BypassCall,
    /// Process the changes.
    ApplyDirty,
    /// Record a diagnostic for users.
    RecordDiagnostic,
}

/// The result of a transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The next state.
    pub next: IndexState,
    /// The required actions, in order and without repetitions.
    pub actions: Vec<Action>,
}

/// Returns the transition for all `triggers` of one moment; their order does not matter.
///
/// Triggers without a row for the current state have no effect. Of the other triggers, those count
/// whose next state is the most severe (P1). They are ordered by class (P2), then by the table. The
/// first of them gives the reason; but an uncertain index keeps its reason if that is of at least
/// the same class (P4).
///
/// The actions of all triggers that count are required: for example, two events that both make
/// coverage uncertain concern different files. The actions of the others are not. If such a
/// condition persists, it is a trigger again at the next moment.
pub fn step(current: IndexState, triggers: &[Trigger]) -> Step {
    let mut rows: Vec<&Row> = TABLE
        .iter()
        .filter(|row| triggers.contains(&row.trigger) && row.applies(current))
        .collect();
    // The sort is stable: rows of one class stay in the order of the table.
    rows.sort_by_key(|row| row.trigger.class());
    let asked = rows.iter().filter_map(|row| row.effect.on(current));
    let severest = asked.map(IndexState::state).max();
    let counts = |row: &Row| match row.effect.on(current) {
        // A row that changes no state counts together with any other.
        None => true,
        Some(next) => Some(next.state()) == severest,
    };
    rows.retain(|row| counts(row));
    let mut actions = Vec::new();
    for &action in rows.iter().flat_map(|row| row.actions) {
        if !actions.contains(&action) {
            actions.push(action);
        }
    }
    let decided = rows
        .iter()
        .find_map(|row| Some((row, row.effect.on(current)?)));
    let next = match (current, decided) {
        (_, None) => current,
        (IndexState::Uncertain(known), Some((row, IndexState::Uncertain(_))))
            if known.class() <= Some(row.trigger.class()) =>
        {
            current
        }
        (_, Some((_, next))) => next,
    };
    Step { next, actions }
}

#[cfg(test)]
mod tests;
