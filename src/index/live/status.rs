//! The status of a living index: its state, what is marked, and what there is to do.

use std::path::Path;
use std::sync::Arc;

use super::orphans::{Orphans, Version};
use super::saying::Said;
use crate::index::dirty::{DirtySet, Extent, Moment, Work};
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::state::{Action, Standing, Trigger, UncertainReason, step};

/// What all threads read and write, for a moment at a time.
pub(super) struct Status {
    pub(super) standing: Standing,
    pub(super) dirty: DirtySet,
    /// The state of the index that searches are given.
    pub(super) published: Option<Arc<Snapshot>>,
    /// Counts up whenever another segment took the place of the one before: what was worked off on that one may not be in
    /// this one, and is marked again.
    pub(super) swaps: u64,
    /// Counts up whenever searches are given something that is known of the tree otherwise than before.
    pub(super) findings: u64,
    /// Names that were written to and led nowhere.
    pub(super) orphans: Orphans,
    /// Counts up whenever coverage was lost: a reconcile that began before proves nothing.
    pub(super) losses: u64,
    /// Counts confirmed coverages.
    pub(super) epoch: u64,
    /// What has to be done next.
    pub(super) build_wanted: bool,
    pub(super) reconcile_wanted: bool,
    pub(super) open_wanted: bool,
    /// Whether watching failed, and why.
    pub(super) unwatched: Option<String>,
    /// Whether the root was away when it was looked at, which may pass.
    pub(super) away: bool,
    /// Whether a search has found that the index of a tree that is not watched has to be built
    /// again: directories or rules differ, or something could not be listed.
    pub(super) outdated: bool,
    /// Whether another watcher has to be started.
    pub(super) restart_watching: bool,
    /// What was marked since a build began that goes on beside searches.
    pub(super) since_build: Option<DirtySet>,
    /// Why the state is not `COMPLETE`, for people.
    pub(super) why: Option<String>,
    /// Whether the tree is watched, so that nothing changes without being noticed.
    pub(super) tracking: bool,
    /// When something was last found to have changed.
    pub(super) news_ms: Option<u64>,
    /// Whether others have removed what was kept of the index, and no search has asked for it since.
    pub(super) evicted: bool,
    /// Searches since the size of a small tree was measured, or since the index was removed.
    pub(super) calls: u64,
    /// Searches since the index was checked as a whole.
    pub(super) unchecked_calls: u64,
    /// How long there is to be no index.
    pub(super) cooldown: Cooldown,
    /// Whether the worker is at something.
    pub(super) busy: bool,
    pub(super) stop: bool,
    pub(super) ended: bool,
    /// What the worker did last.
    pub(super) works: Works,
    /// What other processes were told.
    pub(super) said: Said,
}

/// How long an index stays disabled whose resources were exhausted (FR-LSI-BUD-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cooldown {
    /// It is not, or it stays so.
    Off,
    /// From now on.
    Begins,
    /// Until then, in milliseconds of the clock.
    Until(u64),
}

impl Default for Status {
    fn default() -> Status {
        Status {
            standing: Standing::Absent,
            dirty: DirtySet::new(),
            published: None,
            swaps: 0,
            findings: 0,
            orphans: Orphans::default(),
            losses: 0,
            epoch: 0,
            build_wanted: false,
            reconcile_wanted: false,
            open_wanted: true,
            unwatched: None,
            away: false,
            outdated: false,
            restart_watching: false,
            since_build: None,
            why: None,
            tracking: false,
            news_ms: None,
            evicted: false,
            calls: 0,
            unchecked_calls: 0,
            cooldown: Cooldown::Off,
            busy: false,
            stop: false,
            ended: false,
            works: Works::default(),
            said: Said::default(),
        }
    }
}

/// How a living index is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its state.
    pub standing: Standing,
    /// Counts confirmed coverages in this process.
    pub epoch: u64,
    /// The number of the publication that is in use; unknown of one in memory.
    pub generation: Option<u64>,
    /// How what is in use is kept.
    pub storage: Option<StorageMode>,
    /// Files and subtrees that changed and were not looked at yet.
    pub dirty: usize,
    /// Files that are not as the segment has them.
    pub beside: usize,
    /// Files of the segment that are gone or not as they were.
    pub dead: u32,
    /// Files among those beside the segment that were not read yet.
    pub unread: usize,
    /// Whether the tree is watched.
    pub tracking: bool,
    /// Why it is not, although it should be: what is wrong, and what to do.
    pub unwatched: Option<String>,
    /// Why the state is not `COMPLETE`.
    pub why: Option<String>,
    /// Whether the worker is at something.
    pub busy: bool,
    /// What the worker did last.
    pub works: Works,
}

/// What the worker of an index did last, of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Works {
    /// Building the index where it could not be used.
    pub build: Option<Done>,
    /// Building another one in the place of one that is in use, so that little is beside it.
    pub merge: Option<Done>,
    /// Comparing the whole tree with what is known.
    pub reconcile: Option<Done>,
}

/// Something that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// When it ended, in nanoseconds since 1970.
    pub ended_ns: i64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Whether it did what it was for.
    pub succeeded: bool,
}

impl Status {
    /// Moves the state machine on, and notes what follows.
    pub(super) fn fire(&mut self, triggers: &[Trigger]) {
        let step = step(self.standing, triggers);
        self.standing = step.next;
        if step.next == Standing::Complete {
            self.why = None;
        }
        for action in step.actions {
            self.note(action);
        }
    }

    /// Does the same, and notes in words why; unless the state is as it was, and for another reason than this.
    pub(super) fn fire_because(&mut self, trigger: Trigger, why: impl Into<String>) {
        let before = self.standing;
        self.fire(&[trigger]);
        let unexplained = match self.standing {
            Standing::Complete | Standing::Building => false,
            _ => self.why.is_none(),
        };
        if self.standing != before || unexplained {
            self.why = Some(why.into());
        }
    }

    /// Notes an action. What the caller of the machine does at once anyway, or what follows from the state, needs none.
    fn note(&mut self, action: Action) {
        match action {
            Action::StartBuild | Action::ScheduleBuild => self.build_wanted = true,
            Action::StopBuild => self.build_wanted = false,
            Action::ScheduleReconcile => {
                self.reconcile_wanted = true;
                self.losses += 1;
            }
            Action::OpenIndex => self.open_wanted = true,
            Action::CloseIndex | Action::Delete | Action::Quarantine => self.published = None,
            Action::RaiseEpoch => self.epoch += 1,
            Action::SetCooldown => self.cooldown = Cooldown::Begins,
            Action::ClearCooldown => self.cooldown = Cooldown::Off,
            // Those who clear do it up to the moment from which they looked; see `clear`.
            Action::ClearDirty => {}
            Action::StopWatching
            | Action::StartWatching
            | Action::MarkDirty
            | Action::RemoveUnfinished
            | Action::RunBuild
            | Action::KeepCheckpoint
            | Action::RunReconcile
            | Action::PurgeDenied
            | Action::SkipMaintenance
            | Action::BypassCall
            | Action::ApplyDirty
            | Action::RecordDiagnostic => {}
        }
    }

    /// Returns true if searches rely on what is known, or will without another comparison of the tree; whatever else is the case ends
    /// with one only.
    pub(super) fn is_relied_on(&self) -> bool {
        let backlog = Standing::Uncertain(UncertainReason::DirtyBacklog);
        self.standing.allows_exclusion() || self.standing == backlog
    }

    /// Says that watching failed, if it did, where nobody has said so yet; returns whether that is so. It may have been found out by
    /// whoever entered a directory.
    pub(super) fn lose_sight(&mut self) -> bool {
        let Some(why) = self.unwatched.clone() else {
            return false;
        };
        if !self.is_relied_on() {
            return false;
        }
        self.tracking = false;
        self.fire_because(Trigger::WatcherDown, why);
        true
    }

    /// Marks what was heard of.
    pub(super) fn mark(&mut self, path: &Path, extent: Extent, now_ms: u64) {
        if extent == Extent::Subtree {
            self.orphans.forget_below(path);
        }
        self.dirty.mark(path, extent, now_ms);
        if let Some(since) = &mut self.since_build {
            since.mark(path, extent, now_ms);
        }
    }

    /// Returns what differs from moment to moment in which anything of the tree was found to be otherwise.
    pub(super) fn version(&self) -> Version {
        (self.findings, self.swaps)
    }

    /// Takes off marks that were worked off, as far as they were not renewed meanwhile.
    pub(super) fn take_off(&mut self, works: &[Work]) {
        for work in works {
            self.dirty.done(work);
        }
    }

    /// Takes off the marks of what a build or a reconcile has seen that began at a moment.
    pub(super) fn clear(&mut self, moment: Moment) {
        self.dirty.clear_until(moment);
    }

    /// Returns true if waiting longer is no use, or not needed.
    pub(super) fn is_settled(&self) -> bool {
        let wanted = self.build_wanted || self.reconcile_wanted || self.open_wanted;
        let nothing_to_do = !wanted && !self.busy;
        match self.standing {
            Standing::Complete => true,
            Standing::Disabled(_) => true,
            Standing::Building => false,
            Standing::Absent | Standing::Corrupt | Standing::Uncertain(_) => {
                // Where nobody listens, marks are not worked off.
                nothing_to_do && (self.dirty.is_empty() || !self.tracking) || self.ended
            }
        }
    }

    /// Returns the number of the publication that is in use.
    pub(super) fn generation(&self) -> Option<u64> {
        self.published.as_ref()?.generation()
    }

    /// Returns how what is in use is kept.
    pub(super) fn storage(&self) -> Option<StorageMode> {
        Some(self.published.as_ref()?.storage())
    }

    pub(super) fn report(&self) -> Report {
        let overlay = self.published.as_ref().map(|snapshot| snapshot.overlay());
        Report {
            standing: self.standing,
            epoch: self.epoch,
            generation: self.generation(),
            storage: self.storage(),
            dirty: self.dirty.len(),
            beside: overlay.map_or(0, |overlay| overlay.extras().len()),
            dead: overlay.map_or(0, |overlay| overlay.dead_count()),
            unread: overlay.map_or(0, |overlay| {
                let extras = overlay.extras().iter();
                extras.filter(|extra| extra.status().is_none()).count()
            }),
            tracking: self.tracking,
            unwatched: self.unwatched.clone(),
            why: self.why.clone(),
            busy: self.busy,
            works: self.works,
        }
    }
}

/// Says that something changed that decides about what is searched (FR-LSI-TRK-07).
pub(super) fn decisive(path: &Path) -> String {
    format!(
        "{}, which decides about what is searched, changed",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::state::SafetyState;

    #[test]
    fn what_changes_no_state_is_no_reason_for_it() {
        let mut status = Status::default();
        assert_eq!(status.standing, Standing::Absent);
        status.fire_because(Trigger::MemoryExceeded, "memory");
        let disabled = status.standing;
        assert_eq!(disabled.state(), SafetyState::Disabled);
        status.fire_because(Trigger::WatcherDown, "the watcher");
        status.fire_because(Trigger::EligibilityChanged, "a file with rules");
        assert_eq!(status.standing, disabled);
        assert_eq!(status.why.as_deref(), Some("memory"));
        // What is complete, or will be, needs no reason.
        let mut status = Status {
            standing: Standing::Building,
            ..Status::default()
        };
        status.fire_because(Trigger::MaintBudgetExceeded, "a slow call");
        assert_eq!((status.standing, status.why), (Standing::Building, None));
    }
}
