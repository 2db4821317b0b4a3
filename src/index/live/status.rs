//! The status of a live index: its state, its dirty marks, and the tasks that the worker still has
//! to do. (`exec::indexes::status` reports it to people and programs.)

use std::path::Path;
use std::sync::Arc;

use super::hidden::HiddenEntries;
use super::orphans::{Orphans, Version};
use super::status_file::PublishedStatus;
use crate::index::dirty::{DirtySet, Extent, Moment, Work};
use crate::index::names::{shown, unlisted};
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::state::{Action, IndexState, Trigger, UncertainReason, step};

/// The status that all threads read and write, for a moment at a time.
#[derive(Default)]
pub(super) struct Status {
    pub(super) index_state: IndexState,
    pub(super) dirty: DirtySet,
    /// The snapshot that searches use.
    pub(super) published: Option<Arc<Snapshot>>,
    /// Whether a ranked question asked for the words of files since the last merge.
    pub(super) words_wanted: bool,
    /// The earliest time of the next build with words, after one failed.
    pub(super) words_from_ms: u64,
    /// Counts replaced segments. Marks that were processed on the old segment are marked again,
    /// since the new one may lack those changes.
    pub(super) swaps: u64,
    /// Counts publications of changed knowledge about the tree.
    pub(super) findings: u64,
    /// Names that were written to and don't exist.
    pub(super) orphans: Orphans,
    /// The hidden entries of the watched directories.
    pub(super) hidden: HiddenEntries,
    /// Counts lost coverage. A reconcile that began before a loss proves nothing.
    pub(super) losses: u64,
    /// Counts confirmations that the index covers the whole tree.
    pub(super) epoch: u64,
    /// The tasks that are wanted next.
    pub(super) build_wanted: bool,
    pub(super) reconcile_wanted: bool,
    pub(super) open_wanted: bool,
    /// Why watching failed; `None` if it did not fail.
    pub(super) unwatched: Option<String>,
    /// Whether the root was missing at the last look, which may pass.
    pub(super) away: bool,
    /// Whether a search of an unwatched tree found that the index has to be rebuilt: directories or
    /// rules differ, or a directory that could not be listed can be listed now.
    pub(super) outdated: bool,
    /// Whether another watcher has to be started.
    pub(super) restart_watching: bool,
    /// The paths that were marked since the start of a build that runs while searches go on.
    pub(super) since_build: Option<DirtySet>,
    /// Why the state is not `COMPLETE`, as text for users.
    pub(super) why: Option<String>,
    /// Whether the tree is watched, so that no change goes unnoticed.
    pub(super) tracking: bool,
    /// When a change was last found.
    pub(super) news_ms: Option<u64>,
    /// Whether another process has removed the stored index, and no search has caused it to be
    /// opened again since.
    pub(super) evicted: bool,
    /// Searches since a small tree was measured, or since the index was removed.
    pub(super) calls: u64,
    /// Searches since the whole index was verified.
    pub(super) unchecked_calls: u64,
    /// How long the index stays disabled.
    pub(super) cooldown: Cooldown,
    /// Whether the worker runs a task.
    pub(super) busy: bool,
    pub(super) stop: bool,
    pub(super) ended: bool,
    /// The last run of each of the worker's long tasks.
    pub(super) works: LastTasks,
    /// The status that was last published for other processes.
    pub(super) published_status: PublishedStatus,
}

/// How long an index stays disabled after its resources were exhausted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cooldown {
    /// The index is not disabled, or it stays disabled.
    #[default]
    Off,
    /// The cooldown begins now.
    Begins,
    /// The cooldown ends at this time of the clock, in milliseconds.
    Until(u64),
}

/// A report about a live index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The state of the index.
    pub index_state: IndexState,
    /// Counts confirmations, in this process, that the index covers the whole tree.
    pub epoch: u64,
    /// The generation in use; `None` for an index in memory.
    pub generation: Option<u64>,
    /// How the index in use is stored.
    pub storage: Option<StorageMode>,
    /// Changed files and subtrees that were not looked at yet.
    pub dirty: usize,
    /// Extra files: those of which the segment has no current version.
    pub extra_files: usize,
    /// Files of the segment that are deleted or outdated.
    pub dead: u32,
    /// Extra files that were not read yet.
    pub unread: usize,
    /// Whether the tree is watched.
    pub tracking: bool,
    /// Why the tree is not watched although it should be: the problem, and a remedy.
    pub unwatched: Option<String>,
    /// Why the state is not `COMPLETE`.
    pub why: Option<String>,
    /// Whether the worker runs a task.
    pub busy: bool,
    /// The last run of each of the worker's long tasks.
    pub works: LastTasks,
}

/// The last run of each of the worker's long tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastTasks {
    /// Building the index when there was no usable one.
    pub build: Option<TaskRun>,
    /// Building a new segment while the old one is in use, to reduce the number of extra files.
    pub merge: Option<TaskRun>,
    /// Comparing the whole tree with the known state.
    pub reconcile: Option<TaskRun>,
}

/// A task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRun {
    /// When it ended, in nanoseconds since 1970.
    pub ended_ns: i64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Whether the task succeeded.
    pub succeeded: bool,
}

impl Status {
    /// Advances the state machine, and records the resulting actions.
    pub(super) fn fire(&mut self, triggers: &[Trigger]) {
        let step = step(self.index_state, triggers);
        if step.next != self.index_state || !step.next.allows_exclusion() {
            self.hidden.clear();
        }
        self.index_state = step.next;
        if matches!(step.next, IndexState::Complete | IndexState::Building) {
            self.why = None;
        }
        for action in step.actions {
            self.note(action);
        }
    }

    /// Like [`fire`](Self::fire), and records the reason as text. The old reason stays if the state
    /// did not change.
    pub(super) fn fire_because(&mut self, trigger: Trigger, why: impl Into<String>) {
        let before = self.index_state;
        self.fire(&[trigger]);
        let unexplained = match self.index_state {
            IndexState::Complete | IndexState::Building => false,
            _ => self.why.is_none(),
        };
        if self.index_state != before || unexplained {
            self.why = Some(why.into());
        }
    }

    /// Records that `errors` paths of the tree could not be listed. Another state that stays, such
    /// as a disabled index, keeps its own reason.
    pub(super) fn fire_unlisted(&mut self, errors: usize) {
        self.fire(&[Trigger::EnumerationErrors]);
        if self.lacks_listings() {
            self.why = Some(unlisted(errors as u64, ""));
        }
    }

    /// Records that the tree can't be watched, after `errors` paths of it could not be listed. A
    /// reconcile is wanted, which starts another watcher.
    pub(super) fn fire_unwatched(&mut self, why: String, errors: usize) {
        self.fire(&[Trigger::WatcherDown]);
        self.why = Some(match errors {
            1.. if self.lacks_listings() => format!("{}; also, {why}", unlisted(errors as u64, "")),
            _ => why,
        });
    }

    /// Returns true if parts of the tree could not be listed, and that is why the index is
    /// uncertain.
    pub(super) fn lacks_listings(&self) -> bool {
        self.index_state == IndexState::Uncertain(UncertainReason::EnumerationError)
    }

    /// Records an action for the worker. Actions that the caller performs itself, or that follow
    /// from the state, are ignored.
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
            // Callers clear the marks themselves, up to the moment at which they began; see
            // `clear`.
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

    /// Returns true if searches rely on the index, or will without another reconcile. All other
    /// states end only with a reconcile.
    pub(super) fn is_relied_on(&self) -> bool {
        let backlog = IndexState::Uncertain(UncertainReason::DirtyBacklog);
        self.index_state.allows_exclusion() || self.index_state == backlog
    }

    /// Fires the trigger for a failed watcher, unless that was done already; returns true if it
    /// fired. The failure may have been found by a thread that entered a directory.
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

    /// Marks a path because of an event.
    pub(super) fn mark(&mut self, path: &Path, extent: Extent, now_ms: u64) {
        if extent == Extent::Subtree {
            self.orphans.forget_below(path);
        }
        self.hidden.forget(path);
        self.dirty.mark(path, extent, now_ms);
        if let Some(since) = &mut self.since_build {
            since.mark(path, extent, now_ms);
        }
    }

    /// Returns a value that differs between two moments if a change of the tree was found in
    /// between.
    pub(super) fn version(&self) -> Version {
        (self.findings, self.swaps)
    }

    /// Removes processed marks, except those that were renewed meanwhile.
    pub(super) fn take_off(&mut self, works: &[Work]) {
        for work in works {
            self.dirty.done(work);
        }
    }

    /// Removes the marks older than `moment`, at which a build or a reconcile began.
    pub(super) fn clear(&mut self, moment: Moment) {
        self.dirty.clear_until(moment);
    }

    /// Returns true if waiting longer is useless or unnecessary.
    pub(super) fn is_settled(&self) -> bool {
        let wanted = self.build_wanted || self.reconcile_wanted || self.open_wanted;
        let nothing_to_do = !wanted && !self.busy;
        match self.index_state {
            IndexState::Complete => true,
            IndexState::Disabled(_) => true,
            IndexState::Building => false,
            IndexState::Absent | IndexState::Corrupt | IndexState::Uncertain(_) => {
                // Without a watcher, marks are not processed.
                nothing_to_do && (self.dirty.is_empty() || !self.tracking) || self.ended
            }
        }
    }

    /// Returns the generation in use.
    pub(super) fn generation(&self) -> Option<u64> {
        self.published.as_ref()?.generation()
    }

    /// Returns how the index in use is stored.
    pub(super) fn storage(&self) -> Option<StorageMode> {
        Some(self.published.as_ref()?.storage())
    }

    pub(super) fn report(&self) -> Report {
        let overlay = self.published.as_ref().map(|snapshot| snapshot.overlay());
        Report {
            index_state: self.index_state,
            epoch: self.epoch,
            generation: self.generation(),
            storage: self.storage(),
            dirty: self.dirty.len(),
            extra_files: overlay.map_or(0, |overlay| overlay.extras().len()),
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

/// Returns the message for a changed file that decides about eligibility.
pub(super) fn decisive(path: &Path) -> String {
    format!(
        "{}, which decides which files are searched, changed",
        shown(path)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::state::SafetyState;

    #[test]
    fn what_changes_no_state_is_no_reason_for_it() {
        let mut status = Status::default();
        assert_eq!(status.index_state, IndexState::Absent);
        status.fire_because(Trigger::MemoryExceeded, "memory");
        let disabled = status.index_state;
        assert_eq!(disabled.state(), SafetyState::Disabled);
        status.fire_because(Trigger::WatcherDown, "the watcher");
        status.fire_because(Trigger::EligibilityChanged, "a file with rules");
        assert_eq!(status.index_state, disabled);
        assert_eq!(status.why.as_deref(), Some("memory"));
        // A complete index, or one being built, needs no reason.
        let mut status = Status {
            index_state: IndexState::Building,
            ..Status::default()
        };
        status.fire_because(Trigger::MaintBudgetExceeded, "a slow call");
        assert_eq!(
            (status.index_state, status.why),
            (IndexState::Building, None)
        );
    }

    #[test]
    fn unlisted_files_are_the_reason_of_no_other_state() {
        let mut status = Status::default();
        status.fire_because(Trigger::MemoryExceeded, "memory");
        status.fire_unlisted(3);
        assert_eq!(status.index_state.state(), SafetyState::Disabled);
        assert_eq!(status.why.as_deref(), Some("memory"));
        let mut status = Status {
            index_state: IndexState::Complete,
            ..Status::default()
        };
        // A later count replaces an earlier one.
        for (errors, expected) in [
            (3, "3 files or directories could not be listed"),
            (1, "1 file or directory could not be listed"),
        ] {
            status.fire_unlisted(errors);
            assert!(status.lacks_listings());
            let why = status.why.as_deref().unwrap_or_default();
            assert!(why.starts_with(expected), "{why}");
        }
    }

    #[test]
    fn a_build_takes_back_the_reason_of_the_state_before() {
        let mut status = Status {
            index_state: IndexState::Uncertain(UncertainReason::EnumerationError),
            why: Some(unlisted(3, "")),
            ..Status::default()
        };
        status.fire(&[Trigger::BuildStarted]);
        assert_eq!(
            (status.index_state, status.why),
            (IndexState::Building, None)
        );
    }

    #[test]
    fn a_tree_with_unlisted_files_that_cannot_be_watched_has_both_reasons() {
        let mut status = Status {
            index_state: IndexState::Uncertain(UncertainReason::EnumerationError),
            ..Status::default()
        };
        status.fire_unwatched("no watches are left".to_string(), 3);
        let why = status.why.unwrap_or_default();
        assert!(
            why.starts_with("3 files") && why.ends_with("also, no watches are left"),
            "{why}"
        );
        // Another state has its own reason.
        let mut status = Status {
            index_state: IndexState::Complete,
            ..Status::default()
        };
        status.fire_unwatched("no watches are left".to_string(), 3);
        assert_eq!(status.why.as_deref(), Some("no watches are left"));
    }
}
