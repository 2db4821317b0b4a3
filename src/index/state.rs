//! The index safety state machine (LSI §4.2): which state follows from what has happened, and what has to be done.
//!
//! Owns the states, what triggers a transition, the table of transitions and the rules of precedence. It is a function of
//! its arguments: no I/O, no clock, no memory. Whoever runs it finds out what has happened and carries out the actions.

pub mod table;

use serde::{Deserialize, Serialize};

use crate::index::state::table::{Class, Effect, Row, TABLE};

/// An index safety state (FR-LSI-SAFE-01). Ordered by severity, the least severe first (LSI §4.2.1, P1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SafetyState {
    /// There is a valid index, and its coverage is confirmed.
    Complete,
    /// There is no index.
    Absent,
    /// An index is being built.
    Building,
    /// There may be an index, but its coverage is not certain.
    Uncertain,
    /// The data of the index are damaged.
    Corrupt,
    /// There is to be no index.
    Disabled,
}

impl SafetyState {
    /// All of them, the least severe first.
    pub const ALL: [SafetyState; 6] = [
        SafetyState::Complete,
        SafetyState::Absent,
        SafetyState::Building,
        SafetyState::Uncertain,
        SafetyState::Corrupt,
        SafetyState::Disabled,
    ];

    /// Returns the name that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            SafetyState::Complete => "COMPLETE",
            SafetyState::Absent => "ABSENT",
            SafetyState::Building => "BUILDING",
            SafetyState::Uncertain => "UNCERTAIN",
            SafetyState::Corrupt => "CORRUPT",
            SafetyState::Disabled => "DISABLED",
        }
    }
}

/// Why coverage is not certain (LSI Appendix D).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum UncertainReason {
    /// The index was opened and not yet compared with the tree.
    OpenRequiresValidation,
    /// The watcher dropped events.
    WatcherOverflow,
    /// The watcher stopped, or there is none.
    WatcherDown,
    /// An ignore file or the like changed.
    EligibilityChanged,
    /// The sandbox or the denied patterns changed.
    PolicyChanged,
    /// Changes could not be worked off in time.
    DirtyBacklog,
    /// Something was renamed, and it is not known what from.
    RenameUncertain,
    /// Something could not be listed, and may hide files.
    EnumerationError,
    /// The build ran out of its budget.
    BuildBudgetExceeded,
    /// Maintenance within a call ran out of its budget.
    MaintBudgetExceeded,
    /// The watcher dropped events during a build.
    WatcherOverflowDuringBuild,
}

impl UncertainReason {
    /// All of them.
    pub const ALL: [UncertainReason; 11] = [
        UncertainReason::OpenRequiresValidation,
        UncertainReason::WatcherOverflow,
        UncertainReason::WatcherDown,
        UncertainReason::EligibilityChanged,
        UncertainReason::PolicyChanged,
        UncertainReason::DirtyBacklog,
        UncertainReason::RenameUncertain,
        UncertainReason::EnumerationError,
        UncertainReason::BuildBudgetExceeded,
        UncertainReason::MaintBudgetExceeded,
        UncertainReason::WatcherOverflowDuringBuild,
    ];

    /// Returns the name that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            UncertainReason::OpenRequiresValidation => "OPEN_REQUIRES_VALIDATION",
            UncertainReason::WatcherOverflow => "WATCHER_OVERFLOW",
            UncertainReason::WatcherDown => "WATCHER_DOWN",
            UncertainReason::EligibilityChanged => "ELIGIBILITY_CHANGED",
            UncertainReason::PolicyChanged => "POLICY_CHANGED",
            UncertainReason::DirtyBacklog => "DIRTY_BACKLOG",
            UncertainReason::RenameUncertain => "RENAME_UNCERTAIN",
            UncertainReason::EnumerationError => "ENUMERATION_ERROR",
            UncertainReason::BuildBudgetExceeded => "BUILD_BUDGET_EXCEEDED",
            UncertainReason::MaintBudgetExceeded => "MAINT_BUDGET_EXCEEDED",
            UncertainReason::WatcherOverflowDuringBuild => "WATCHER_OVERFLOW_DURING_BUILD",
        }
    }

    /// Returns the class of the triggers that give this reason.
    fn class(self) -> Option<Class> {
        let gives = Effect::Become(Standing::Uncertain(self));
        let rows = TABLE.iter().filter(|row| row.effect == gives);
        rows.map(|row| row.trigger.class()).min()
    }
}

/// Why there is to be no index (LSI Appendix D).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DisabledReason {
    /// The tree is too small to need one.
    BelowThreshold,
    /// There is no place for one.
    PersistenceNotPermitted,
    /// In memory it takes more than it may.
    MemoryBudgetExceeded,
}

impl DisabledReason {
    /// All of them.
    pub const ALL: [DisabledReason; 3] = [
        DisabledReason::BelowThreshold,
        DisabledReason::PersistenceNotPermitted,
        DisabledReason::MemoryBudgetExceeded,
    ];

    /// Returns the name that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            DisabledReason::BelowThreshold => "BELOW_THRESHOLD",
            DisabledReason::PersistenceNotPermitted => "PERSISTENCE_NOT_PERMITTED",
            DisabledReason::MemoryBudgetExceeded => "MEMORY_BUDGET_EXCEEDED",
        }
    }
}

/// A state with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Standing {
    /// [`SafetyState::Complete`].
    Complete,
    /// [`SafetyState::Absent`].
    Absent,
    /// [`SafetyState::Building`].
    Building,
    /// [`SafetyState::Uncertain`].
    Uncertain(UncertainReason),
    /// [`SafetyState::Corrupt`].
    Corrupt,
    /// [`SafetyState::Disabled`]; without a reason by `index_mode = "off"`.
    Disabled(Option<DisabledReason>),
}

impl Standing {
    /// Returns the state.
    pub fn state(self) -> SafetyState {
        match self {
            Standing::Complete => SafetyState::Complete,
            Standing::Absent => SafetyState::Absent,
            Standing::Building => SafetyState::Building,
            Standing::Uncertain(_) => SafetyState::Uncertain,
            Standing::Corrupt => SafetyState::Corrupt,
            Standing::Disabled(_) => SafetyState::Disabled,
        }
    }

    /// Returns the name of the reason (`uncertain_reason`), if there is one.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Standing::Uncertain(reason) => Some(reason.as_str()),
            Standing::Disabled(reason) => reason.map(DisabledReason::as_str),
            _ => None,
        }
    }

    /// All of them, with each reason.
    pub fn all() -> impl Iterator<Item = Standing> {
        let plain = [
            Standing::Complete,
            Standing::Absent,
            Standing::Building,
            Standing::Corrupt,
            Standing::Disabled(None),
        ];
        let uncertain = UncertainReason::ALL.map(Standing::Uncertain);
        let disabled = DisabledReason::ALL.map(|reason| Standing::Disabled(Some(reason)));
        plain.into_iter().chain(uncertain).chain(disabled)
    }

    /// Returns the one whose state and reason have these names.
    pub fn of_names(state: &str, reason: Option<&str>) -> Option<Standing> {
        Standing::all()
            .find(|standing| (standing.state().as_str(), standing.reason()) == (state, reason))
    }

    /// Returns true if files may be left out, given a plan that is safe for the request (FR-LSI-SAFE-02,
    /// FR-LSI-SAFE-03, P3).
    pub fn allows_exclusion(self) -> bool {
        self == Standing::Complete
    }
}

/// Something that has happened, or is the case now (LSI §4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// `index_mode = "off"` became effective.
    ModeOff,
    /// There is no place for an index at all.
    PersistenceNotPermitted,
    /// The index is disabled for some time, which has not passed.
    CooldownActive,
    /// That time has passed, and `index_mode` is not `off`.
    CooldownExpired,
    /// The index could not be opened because there is none.
    IndexMissing,
    /// The tree is smaller than both thresholds of `index_mode = "auto"`.
    BelowThreshold,
    /// A tree that was smaller has grown beyond one of them (FR-LSI-BG-06).
    AboveThreshold,
    /// A lock could not be had within `index_lock_timeout_ms`.
    LockTimeout,
    /// What is kept has another schema, key or tokenizer.
    Mismatch,
    /// What is kept is damaged.
    IntegrityFailure,
    /// The background indexer begins a build.
    BuildStarted,
    /// A build is done; everything was listed, and nothing hid files.
    BuildCompleted,
    /// A build ran out of its time, files or bytes.
    BuildBudgetExceeded,
    /// A build failed before anything was written.
    BuildFailedClean,
    /// A build failed after something was written.
    BuildFailedDirty,
    /// The index was opened; schema, key and integrity are right.
    IndexOpened,
    /// The watcher runs.
    WatcherStarted,
    /// The watcher dropped events.
    WatcherOverflow,
    /// The watcher stopped, or could not be started.
    WatcherDown,
    /// An ignore file or the like changed.
    EligibilityChanged,
    /// The sandbox or the denied patterns changed.
    PolicyChanged,
    /// Something could not be listed, and may hide files.
    EnumerationErrors,
    /// The index has to make room for others.
    Evicted,
    /// An index in memory takes more than it may.
    MemoryExceeded,
    /// Changes were worked off at the start of a call.
    DirtyApplied,
    /// They were not, within the call's budget.
    DirtyBacklog,
    /// Maintenance within the call ran out of its budget.
    MaintBudgetExceeded,
    /// All changes were worked off, and the watcher has dropped nothing since the last epoch.
    DirtyDrained,
    /// A reconcile begins.
    ReconcileStarted,
    /// A reconcile is done, resolves the reason, and nothing hid files.
    ReconcileCompleted,
    /// A reconcile ran out of its budget, or found what may hide files.
    ReconcileFailed,
    /// A rename with both names known was applied.
    RenameApplied,
    /// One was not, within the budget.
    RenameBacklog,
    /// Something was renamed, and it is not known from what, or what else it concerns.
    RenameAmbiguous,
}

impl Trigger {
    /// All of them.
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

    /// Returns the class that decides between triggers of equal severity (LSI §4.2.1, P2).
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

/// Something that has to be done. That nothing may be left out follows from the state and is no action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Stop the build, if there is one.
    StopBuild,
    /// Stop watching.
    StopWatching,
    /// Watch the tree, if that is wanted.
    StartWatching,
    /// Forget which files changed before what is in the index was read.
    ClearDirty,
    /// Note the files or subtrees that the trigger concerns as changed.
    MarkDirty,
    /// Close the index.
    CloseIndex,
    /// Open the index, if there is one.
    OpenIndex,
    /// Put what is kept out of use, and delete it.
    Quarantine,
    /// Remove what an unfinished build has written.
    RemoveUnfinished,
    /// Delete the index.
    Delete,
    /// Begin to build.
    StartBuild,
    /// List and read the tree, without keeping searches waiting.
    RunBuild,
    /// Build again when that is possible.
    ScheduleBuild,
    /// Keep what there is of an unfinished build.
    KeepCheckpoint,
    /// Count the coverage epoch up.
    RaiseEpoch,
    /// Compare the index with the tree, from the beginning.
    ScheduleReconcile,
    /// Go on comparing.
    RunReconcile,
    /// Take denied files out of the index.
    PurgeDenied,
    /// Note until when the index is disabled, if there is a cooldown.
    SetCooldown,
    /// Forget until when the index was disabled.
    ClearCooldown,
    /// Leave the rest of maintenance to later.
    SkipMaintenance,
    /// Do without the index in this call.
    BypassCall,
    /// Work off what changed.
    ApplyDirty,
    /// Note what happened, for people.
    RecordDiagnostic,
}

/// What follows from something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The next state.
    pub next: Standing,
    /// What has to be done, in this order; each once.
    pub actions: Vec<Action>,
}

/// Returns what follows when all of `triggers` are the case at one moment; their order does not matter.
///
/// A trigger without a row for the current state changes nothing. Of the others those count whose next state is the most
/// severe (P1), in the order of their classes (P2) and then of the table; the first of them gives the reason, unless the
/// index is uncertain already for a reason of at least the same class (P4). The actions of all that count are carried out: two
/// events that both make coverage uncertain concern different files. What does not count is not carried out; if it still is
/// the case at the next moment, it is a trigger again.
pub fn step(current: Standing, triggers: &[Trigger]) -> Step {
    let mut rows: Vec<&Row> = TABLE
        .iter()
        .filter(|row| triggers.contains(&row.trigger) && row.applies(current))
        .collect();
    // Stable: rows of one class stay in the order of the table.
    rows.sort_by_key(|row| row.trigger.class());
    let asked = rows.iter().filter_map(|row| row.effect.on(current));
    let severest = asked.map(Standing::state).max();
    let counts = |row: &Row| match row.effect.on(current) {
        // What changes no state goes with any other.
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
        (Standing::Uncertain(known), Some((row, Standing::Uncertain(_))))
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
