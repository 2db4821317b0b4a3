//! Pinning: what a search is given of a living index.

use std::sync::{Arc, TryLockError};
use std::time::Duration;

use super::apply::{Applied, PORTION};
use super::status::decisive;
use super::{LiveIndex, Shared, Watching};
use crate::index::pace::millis;
use crate::index::snapshot::Snapshot;
use crate::index::state::{Standing, Trigger, UncertainReason};
use crate::index::watch::BarrierError;

/// The longest sleep while somebody else works marks off.
const NAP: Duration = Duration::from_micros(200);

/// What a search is given.
#[derive(Clone, Debug)]
pub struct Pin {
    /// The state, at the moment of the pin.
    pub standing: Standing,
    /// What may be done with the index.
    pub what: Pinned,
}

/// What may be done with an index.
#[derive(Clone, Debug)]
pub enum Pinned {
    /// Files may be left out by it: it says how the tree is, as of a moment within the call. Files with several names have to
    /// be looked at first.
    Exact(Arc<Snapshot>),
    /// If there is an index, the tree is not watched, or not yet: whoever uses it compares it with the tree. Says why watching failed,
    /// if it did, and what to do.
    Unwatched(Option<String>),
    /// Nothing: why.
    Nothing(String),
}

impl LiveIndex {
    /// Pins the state of the index for one search. Everything that happened to the tree before this call is in it, or
    /// nothing is: what was heard until now is waited for and looked at, for at most `budget` (FR-LSI-BUD-MAINT-01).
    ///
    /// Costs a cookie that goes through the watcher's queue, one look at each file with rules, and one at each file that
    /// changed since the last call.
    pub fn pin(&self, budget: Duration) -> Pin {
        let shared = &*self.shared;
        let mut status = shared.status();
        // For the sake of what is done again after so many searches.
        status.calls += 1;
        status.unchecked_calls += 1;
        if shared.habits.is_due(&status) {
            shared.wake.notify_all();
        }
        let (standing, tracking) = (status.standing, status.tracking);
        let (why, unwatched) = (status.why.clone(), status.unwatched.clone());
        let has_index = status.published.is_some();
        drop(status);
        // Also before the worker has opened what is kept: whoever compares can open it as well.
        if !tracking && (has_index || standing == Standing::Absent) {
            return Pin {
                standing,
                what: Pinned::Unwatched(unwatched),
            };
        }
        if !standing.allows_exclusion() {
            return Pin::nothing(standing, why);
        }
        match shared.bring_up_to_date(budget) {
            Ok(snapshot) => Pin {
                standing: Standing::Complete,
                what: Pinned::Exact(snapshot),
            },
            Err(why) => Pin::nothing(why.0, Some(why.1)),
        }
    }
}

impl Pin {
    fn nothing(standing: Standing, why: Option<String>) -> Pin {
        Pin {
            standing,
            what: Pinned::Nothing(why.unwrap_or_else(|| match standing {
                Standing::Building => "the index is being built".to_string(),
                Standing::Absent => "there is no index yet".to_string(),
                _ => "the index is being compared with the tree".to_string(),
            })),
        }
    }
}

/// Why a call does without the index: the state, and in words.
type Bypass = (Standing, String);

impl Shared {
    /// Makes sure that the published snapshot is that of the tree as it is now.
    fn bring_up_to_date(&self, budget: Duration) -> Result<Arc<Snapshot>, Bypass> {
        let end_ms = self.ground.now_ms().saturating_add(millis(budget));
        let left = || Duration::from_millis(end_ms.saturating_sub(self.ground.now_ms()));
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
                let why = "what happened until this call could not be heard in time";
                return Err(self.lost(Trigger::MaintBudgetExceeded, why));
            }
            Err(error) => return Err(self.lost(Trigger::WatcherDown, &error.to_string())),
        }
        let (standing, snapshot, why) = loop {
            let swaps = self.status().swaps;
            self.work_off(end_ms)?;
            let status = self.status();
            // Also what others have worked off: something that can't be watched may be among that, and they have not said so yet.
            if let Some(why) = status.unwatched.clone() {
                drop(status);
                return Err(self.lost(Trigger::WatcherDown, &why));
            }
            if status.swaps == swaps {
                let why = status.why.clone().unwrap_or_default();
                break (status.standing, status.published.clone(), why);
            }
        };
        let snapshot = match snapshot {
            Some(snapshot) if standing.allows_exclusion() => snapshot,
            _ => return Err((standing, why)),
        };
        if let Some(path) = snapshot.inputs().changed() {
            return Err(self.lost(Trigger::EligibilityChanged, &decisive(&path)));
        }
        if snapshot.incomplete().is_some() {
            let why = "something could not be listed, and may hide files";
            return Err(self.lost(Trigger::EnumerationErrors, why));
        }
        Ok(snapshot)
    }

    /// Works off everything that is marked now.
    fn work_off(&self, end_ms: u64) -> Result<(), Bypass> {
        let works = {
            let status = self.status();
            if !status.standing.allows_exclusion() {
                let why = status.why.clone().unwrap_or_default();
                return Err((status.standing, why));
            }
            status.dirty.ready(usize::MAX, u64::MAX, Duration::ZERO)
        };
        if works.is_empty() {
            return Ok(());
        }
        let in_time = || self.ground.now_ms() < end_ms;
        for portion in works.chunks(PORTION) {
            let known = self.tracked();
            let mut tracked = loop {
                match known.as_ref().map(|known| known.try_lock()) {
                    None => break None,
                    Some(Ok(tracked)) => break Some(tracked),
                    Some(Err(TryLockError::Poisoned(poisoned))) => {
                        break Some(poisoned.into_inner());
                    }
                    Some(Err(TryLockError::WouldBlock)) if in_time() => std::thread::sleep(NAP),
                    Some(Err(TryLockError::WouldBlock)) => {
                        return Err(self.lost(Trigger::DirtyBacklog, TOO_MANY));
                    }
                }
            };
            let swap = tracked.as_ref().map(|tracked| tracked.swap);
            let applied = match tracked.as_mut() {
                Some(tracked) => tracked.apply(self, portion, &in_time),
                None => Ok(Applied::default()),
            };
            drop(tracked);
            if swap.is_some_and(|swap| self.status().swaps != swap) {
                // Whatever came of it was about an index that is in use no more; the marks stay, and the caller begins anew.
                return Ok(());
            }
            match applied {
                Ok(Applied {
                    done: true,
                    nowhere,
                }) => {
                    let left = Duration::from_millis(end_ms.saturating_sub(self.ground.now_ms()));
                    if let Some(why) = self.orphaned(&nowhere, left) {
                        return Err(self.lost(Trigger::RenameAmbiguous, &why));
                    }
                    let mut status = self.status();
                    if Some(status.swaps) == swap {
                        status.take_off(portion);
                    }
                }
                Ok(Applied { done: false, .. }) => {
                    return Err(self.lost(Trigger::DirtyBacklog, TOO_MANY));
                }
                Err(error) => {
                    return Err(self.lost(Trigger::IntegrityFailure, &error.to_string()));
                }
            }
        }
        // The worker reads them when nothing more happens to them.
        self.status().news_ms = Some(self.ground.now_ms());
        self.wake.notify_all();
        Ok(())
    }

    /// Notes that the index can't be relied on for now, and says so.
    fn lost(&self, trigger: Trigger, why: &str) -> Bypass {
        let standing = {
            let mut status = self.status();
            status.fire_because(trigger, why);
            match trigger {
                // What was not looked at is looked at by the worker, all of it.
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
            status.standing
        };
        self.notify();
        match standing.allows_exclusion() {
            // It was not complete any more before; this call has to do without in any case.
            true => (
                Standing::Uncertain(UncertainReason::DirtyBacklog),
                why.to_string(),
            ),
            false => (standing, why.to_string()),
        }
    }
}

pub(super) const MOUNTED: &str = "something was mounted or unmounted in or above the tree";

const TOO_MANY: &str = "more has changed than could be looked at within this call";
