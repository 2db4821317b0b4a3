//! Decides when the status of a live index is published for other processes.
//!
//! The status is published when the state, its reason, `tracking` or the generation in use has
//! changed, and periodically during a build. `tracking` is true while a watcher reports changes;
//! the *generation* is the number of the published index. The worker and the threads of a build
//! publish; a search never does. The [`IndexHost`](super::IndexHost) writes the file.

use std::time::Duration;

use super::status::Status;
use super::{Shared, lock};
use crate::index::pace::millis;
use crate::index::state::IndexState;

/// The shortest time between two publications of a build's progress.
pub(super) const PROGRESS: Duration = Duration::from_secs(1);

/// The status that was published last.
#[derive(Debug, Default)]
pub(super) struct PublishedStatus {
    fields: Option<StatusFields>,
    /// When it was published; `None` if the next progress is to be published at once.
    at_ms: Option<u64>,
}

/// The fields that are worth publishing when they change.
#[derive(Debug, PartialEq, Eq)]
struct StatusFields {
    index_state: IndexState,
    tracking: bool,
    why: Option<String>,
    /// Other processes can find later generations themselves, but not which one this process uses.
    generation: Option<u64>,
}

impl StatusFields {
    fn of(status: &Status) -> StatusFields {
        StatusFields {
            index_state: status.index_state,
            tracking: status.tracking,
            why: status.why.clone(),
            generation: status.generation(),
        }
    }

    /// Returns true if the status still has these values.
    fn hold(&self, status: &Status) -> bool {
        (self.index_state, self.tracking, self.generation)
            == (status.index_state, status.tracking, status.generation())
            && self.why == status.why
    }
}

impl PublishedStatus {
    /// Returns true if the status changed since it was published, or if it was published at least
    /// `every` ago.
    fn is_due(status: &Status, now_ms: u64, every: Option<Duration>) -> bool {
        // Don't publish before the worker has looked for a stored index, nor during shutdown.
        let Some(fields) = &status.published_status.fields else {
            return !status.stop && !status.open_wanted;
        };
        let is_old = |every: Duration| {
            let at_ms = status.published_status.at_ms;
            at_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= millis(every))
        };
        !status.stop && (!fields.hold(status) || every.is_some_and(is_old))
    }

    /// Makes the next progress due at once, because a build begins.
    pub(super) fn begin(&mut self) {
        self.at_ms = None;
    }

    /// Records the current status as published.
    fn note(status: &mut Status, now_ms: u64) {
        status.published_status = PublishedStatus {
            fields: Some(StatusFields::of(status)),
            at_ms: Some(now_ms),
        };
    }
}

impl Shared {
    /// Returns true if the status differs from the published one.
    pub(super) fn has_news(&self, status: &Status) -> bool {
        PublishedStatus::is_due(status, self.index_host.now_ms(), None)
    }

    /// Publishes the status if it changed, or if it was last published at least `every` ago. Takes
    /// the lock on the status, and releases it before writing.
    pub(super) fn publish_status(&self, every: Option<Duration>) {
        let _in_order = lock(&self.status_file);
        let report = {
            let mut status = self.status();
            let now_ms = self.index_host.now_ms();
            if !PublishedStatus::is_due(&status, now_ms, every) {
                return;
            }
            PublishedStatus::note(&mut status, now_ms);
            status.report()
        };
        self.index_host.write_status(&report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::state::UncertainReason;

    /// Publishes if it is due; returns true if it was.
    fn publish_if_due(status: &mut Status, now_ms: u64, every: Option<Duration>) -> bool {
        let is_due = PublishedStatus::is_due(status, now_ms, every);
        if is_due {
            PublishedStatus::note(status, now_ms);
        }
        is_due
    }

    #[test]
    fn each_change_is_said_once_and_nothing_else() {
        let mut status = Status {
            open_wanted: true,
            ..Status::default()
        };
        assert!(
            !publish_if_due(&mut status, 0, None),
            "it was not looked at yet"
        );
        status.open_wanted = false;
        assert!(publish_if_due(&mut status, 0, None));
        assert!(!publish_if_due(&mut status, u64::MAX, None));
        let changes: [fn(&mut Status); 6] = [
            |status| status.index_state = IndexState::Building,
            |status| status.index_state = IndexState::Complete,
            |status| status.tracking = true,
            |status| status.index_state = IndexState::Uncertain(UncertainReason::WatcherOverflow),
            |status| status.why = Some("lost".to_string()),
            |status| status.index_state = IndexState::Uncertain(UncertainReason::DirtyBacklog),
        ];
        for (n, change) in changes.into_iter().enumerate() {
            change(&mut status);
            // Regardless of the clock.
            assert!(publish_if_due(&mut status, 7, None), "{n}");
            assert!(!publish_if_due(&mut status, 7, None), "{n}");
        }
        // Values that change many times a second are not published.
        status.mark(
            std::path::Path::new("a"),
            crate::index::dirty::Extent::File,
            8,
        );
        status.calls += 1;
        assert!(!publish_if_due(&mut status, 8, None));
        // After the index was opened once, changes are published, also while it is reopened.
        status.open_wanted = true;
        status.index_state = IndexState::Absent;
        assert!(publish_if_due(&mut status, 8, None));
        status.stop = true;
        status.index_state = IndexState::Complete;
        assert!(!publish_if_due(&mut status, 9, None), "it ends");
    }

    #[test]
    fn how_far_a_build_is_is_said_after_a_second_and_not_before() {
        let mut status = Status {
            open_wanted: false,
            index_state: IndexState::Building,
            ..Status::default()
        };
        let every = Some(PROGRESS);
        assert!(publish_if_due(&mut status, 5_000, every));
        for (now_ms, is_due) in [
            (5_000, false),
            (5_999, false),
            (6_000, true),
            (6_001, false),
            (6_999, false),
            // The next second begins with the late publication.
            (9_500, true),
            (10_400, false),
            (10_500, true),
        ] {
            assert_eq!(
                publish_if_due(&mut status, now_ms, every),
                is_due,
                "{now_ms}"
            );
        }
        // A change of state is published at once and restarts the second.
        status.index_state = IndexState::Uncertain(UncertainReason::WatcherOverflowDuringBuild);
        assert!(publish_if_due(&mut status, 10_600, every));
        assert!(!publish_if_due(&mut status, 11_500, every));
        assert!(publish_if_due(&mut status, 11_600, every));
        // The first progress of another build is published at once.
        status.published_status.begin();
        assert!(!publish_if_due(&mut status, 11_600, None));
        assert!(publish_if_due(&mut status, 11_600, every));
        assert!(!publish_if_due(&mut status, 11_600, every));
        status.stop = true;
        assert!(!publish_if_due(&mut status, 20_000, every));
    }
}
