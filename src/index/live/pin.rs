//! Pinning: hands a search the snapshot that it may use.
//!
//! This module brings the snapshot up to the moment of the call: passes the barrier, checks the
//! mounts, and processes the dirty marks, within the budget of the search. If that is not possible,
//! the search gets the reason and no snapshot.

use std::sync::{Arc, TryLockError};
use std::time::Duration;

use super::apply::{ApplyOutcome, SEARCH_PORTION};
use super::status::{Status, decisive};
use super::{LiveIndex, Shared, Watching};
use crate::index::names::unlisted;
use crate::index::pace::millis;
use crate::index::snapshot::Snapshot;
use crate::index::state::{IndexState, Trigger, UncertainReason};
use crate::index::watch::BarrierError;

/// The pause between two attempts to lock the knowledge that another thread works on.
const NAP: Duration = Duration::from_micros(200);

/// The result of pinning: the state, and the snapshot if there is a usable one.
#[derive(Clone, Debug)]
pub struct Pin {
    /// The state at the moment of the pin.
    pub index_state: IndexState,
    /// How the search may use the index.
    pub what: Pinned,
}

/// How a search may use an index.
#[derive(Clone, Debug)]
pub enum Pinned {
    /// The search may exclude files by this snapshot, which describes the tree as of a moment
    /// within the call. Files with several names (hard links) have to be checked first.
    Exact(Arc<Snapshot>),
    /// The tree is not watched. The search may use a stored index if it compares it with the tree.
    /// Holds why watching failed and a remedy, if it failed.
    Unwatched(Option<String>),
    /// The tree is not watched yet. The search may use a stored index like a process without a live
    /// index. The worker finds the differences itself.
    NotYetWatched,
    /// The index can't be used. Holds the reason.
    Nothing(String),
}

impl LiveIndex {
    /// Pins the index for one search. The snapshot contains everything that happened to the tree
    /// before this call; otherwise no snapshot is returned. Waits for pending events and processes
    /// them, for at most `budget`.
    ///
    /// Costs a cookie that passes the watcher's queue, one look at each rules file, and one look at
    /// each file that changed since the last call.
    pub fn pin(&self, budget: Duration) -> Pin {
        let shared = &*self.shared;
        let mut status = shared.status();
        // The worker runs some tasks after a number of searches.
        status.calls += 1;
        status.unchecked_calls += 1;
        if shared.live_options.is_due(&status) {
            shared.wake.notify_all();
        }
        let (index_state, tracking) = (status.index_state, status.tracking);
        let (why, unwatched) = (status.why.clone(), status.unwatched.clone());
        let has_index = status.published.is_some();
        let will_watch = shared.live_options.watch && unwatched.is_none();
        drop(status);
        // Also before the worker has opened the stored index: the search can open and compare it
        // itself.
        if !tracking && (has_index || index_state == IndexState::Absent) {
            return Pin {
                index_state,
                what: match will_watch {
                    true => Pinned::NotYetWatched,
                    false => Pinned::Unwatched(unwatched),
                },
            };
        }
        if !index_state.allows_exclusion() {
            return Pin::nothing(index_state, why);
        }
        match shared.bring_up_to_date(budget) {
            Ok(snapshot) => Pin {
                index_state: IndexState::Complete,
                what: Pinned::Exact(snapshot),
            },
            Err((index_state, why)) => Pin::nothing(index_state, why),
        }
    }
}

impl Pin {
    fn nothing(index_state: IndexState, why: Option<String>) -> Pin {
        Pin {
            index_state,
            what: Pinned::Nothing(why.unwrap_or_else(|| match index_state {
                IndexState::Building => "the index is being built".to_string(),
                IndexState::Absent => "there is no index yet".to_string(),
                _ => "the index is being compared with the tree".to_string(),
            })),
        }
    }
}

/// Why a call can't use the index: the state, and a text if there is a better one than that of
/// the state.
type Bypass = (IndexState, Option<String>);

impl Status {
    /// Describes why a search can't use the index in this state.
    fn bypass(&self) -> Bypass {
        (self.index_state, self.why.clone())
    }
}

impl Shared {
    /// Makes sure that the published snapshot describes the current tree.
    fn bring_up_to_date(&self, budget: Duration) -> Result<Arc<Snapshot>, Bypass> {
        let end_ms = self.index_host.now_ms().saturating_add(millis(budget));
        let left = || Duration::from_millis(end_ms.saturating_sub(self.index_host.now_ms()));
        let Some(watching) = self.watching() else {
            return Err(self.lost(Trigger::WatcherDown, "the tree is not watched"));
        };
        if self.check_mounts(&watching) {
            return Err(self.lost(Trigger::WatcherOverflow, MOUNTED));
        }
        let Watching { watcher, barrier } = watching;
        match barrier.pass(&*watcher, left()) {
            Ok(()) => {}
            Err(BarrierError::Late) => {
                let why = "the watcher did not report all changes before this call in time";
                return Err(self.lost(Trigger::MaintBudgetExceeded, why));
            }
            Err(error) => return Err(self.lost(Trigger::WatcherDown, &error.to_string())),
        }
        let (bypass, snapshot) = loop {
            let swaps = self.status().swaps;
            self.process_marks(end_ms)?;
            let status = self.status();
            // Another thread may have found that a directory can't be watched, and not fired the
            // trigger yet.
            if let Some(why) = status.unwatched.clone() {
                drop(status);
                return Err(self.lost(Trigger::WatcherDown, &why));
            }
            if status.swaps == swaps {
                break (status.bypass(), status.published.clone());
            }
        };
        let snapshot = match snapshot {
            Some(snapshot) if bypass.0.allows_exclusion() => snapshot,
            _ => return Err(bypass),
        };
        if let Some(path) = snapshot.inputs().changed() {
            return Err(self.lost(Trigger::EligibilityChanged, &decisive(&path)));
        }
        let errors = snapshot.enumeration_errors();
        if errors > 0 {
            return Err(self.lost(Trigger::EnumerationErrors, &unlisted(errors, "")));
        }
        Ok(snapshot)
    }

    /// Processes all current dirty marks.
    fn process_marks(&self, end_ms: u64) -> Result<(), Bypass> {
        let works = {
            let status = self.status();
            if !status.index_state.allows_exclusion() {
                return Err(status.bypass());
            }
            // So each directory is entered once, and parents come before their entries. The order
            // does not show: the search uses nothing before all are processed.
            status.dirty.by_path()
        };
        if works.is_empty() {
            return Ok(());
        }
        let in_time = || self.index_host.now_ms() < end_ms;
        for portion in works.chunks(SEARCH_PORTION) {
            let known = self.tree_state();
            let mut tree_state = loop {
                match known.as_ref().map(|known| known.try_lock()) {
                    None => break None,
                    Some(Ok(tree_state)) => break Some(tree_state),
                    Some(Err(TryLockError::Poisoned(poisoned))) => {
                        break Some(poisoned.into_inner());
                    }
                    Some(Err(TryLockError::WouldBlock)) if in_time() => std::thread::sleep(NAP),
                    Some(Err(TryLockError::WouldBlock)) => {
                        return Err(self.lost(Trigger::DirtyBacklog, TOO_MANY));
                    }
                }
            };
            let swap = tree_state.as_ref().map(|tree_state| tree_state.swap);
            let applied = match tree_state.as_mut() {
                Some(tree_state) => tree_state.apply(self, portion, &in_time),
                None => Ok(ApplyOutcome::default()),
            };
            drop(tree_state);
            if swap.is_some_and(|swap| self.status().swaps != swap) {
                // The result belongs to a replaced index. The marks stay, and the caller starts
                // over.
                return Ok(());
            }
            match applied {
                Ok(ApplyOutcome {
                    done: true,
                    nowhere,
                }) => {
                    let left =
                        Duration::from_millis(end_ms.saturating_sub(self.index_host.now_ms()));
                    if let Some(why) = self.orphaned(&nowhere, left) {
                        return Err(self.lost(Trigger::RenameAmbiguous, &why));
                    }
                    let mut status = self.status();
                    if Some(status.swaps) == swap {
                        status.take_off(portion);
                    }
                }
                Ok(ApplyOutcome { done: false, .. }) => {
                    return Err(self.lost(Trigger::DirtyBacklog, TOO_MANY));
                }
                Err(error) => {
                    return Err(self.lost(Trigger::IntegrityFailure, &error.to_string()));
                }
            }
        }
        // The worker reads the changed files once they are quiet.
        self.status().news_ms = Some(self.index_host.now_ms());
        self.wake.notify_all();
        Ok(())
    }

    /// Records that the index can't be relied on for now; returns the reason for the caller.
    fn lost(&self, trigger: Trigger, why: &str) -> Bypass {
        let index_state = {
            let mut status = self.status();
            status.fire_because(trigger, why);
            match trigger {
                // The worker reconciles the whole tree, because unprocessed changes are not known
                // one by one.
                Trigger::MaintBudgetExceeded => {
                    status.reconcile_wanted = true;
                    status.losses += 1;
                }
                Trigger::WatcherDown => {
                    status.tracking = false;
                    status.unwatched.get_or_insert_with(|| why.to_string());
                }
                _ => {}
            }
            status.index_state
        };
        self.notify();
        let index_state = match index_state.allows_exclusion() {
            // The trigger changed no state, but this call can't use the index in any case.
            true => IndexState::Uncertain(UncertainReason::DirtyBacklog),
            false => index_state,
        };
        (index_state, Some(why.to_string()))
    }
}

pub(super) const MOUNTED: &str = "a filesystem was mounted or unmounted in or above the tree";

const TOO_MANY: &str = "too many files changed to process them within this call";

#[cfg(test)]
mod tests {
    use super::*;

    /// A build may start after a search has looked at the state first.
    #[test]
    fn a_state_without_a_reason_of_its_own_has_the_text_of_the_state() {
        for (index_state, text) in [
            (IndexState::Building, "the index is being built"),
            (IndexState::Absent, "there is no index yet"),
            (
                IndexState::Uncertain(UncertainReason::OpenRequiresValidation),
                "the index is being compared with the tree",
            ),
        ] {
            let status = Status {
                index_state,
                ..Status::default()
            };
            let (index_state, why) = status.bypass();
            let pin = Pin::nothing(index_state, why);
            assert!(matches!(pin.what, Pinned::Nothing(why) if why == text));
        }
    }
}
