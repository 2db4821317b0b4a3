//! Saying how the index is, for other processes to see.
//!
//! Owns when that is done: by the worker, or on a thread of a build, never by a search; when the state, its reason, what is said of it or
//! the publication in use has changed, and from time to time while a build goes on. Where it is said is the ground's to know.

use std::time::Duration;

use super::status::Status;
use super::{Shared, lock};
use crate::index::pace::millis;
use crate::index::state::Standing;

/// How often it is said how far a build is, at most.
pub(super) const PROGRESS: Duration = Duration::from_secs(1);

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct Said {
    words: Option<Words>,
    /// When that was; `None` if it is to be said again as soon as there is any progress.
    at_ms: Option<u64>,
}

/// What is worth saying when it changes.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    standing: Standing,
    tracking: bool,
    why: Option<String>,
    /// Others can look at what was published since; which of it is in use here, nobody else knows.
    generation: Option<u64>,
}

impl Words {
    fn of(status: &Status) -> Words {
        Words {
            standing: status.standing,
            tracking: status.tracking,
            why: status.why.clone(),
            generation: status.generation(),
        }
    }

    /// Returns true if they are what would be said now.
    fn hold(&self, status: &Status) -> bool {
        (self.standing, self.tracking, self.generation)
            == (status.standing, status.tracking, status.generation())
            && self.why == status.why
    }
}

impl Said {
    /// Returns true if something else is to be said by now; or the same again after `every`.
    fn is_due(status: &Status, now_ms: u64, every: Option<Duration>) -> bool {
        // Nobody wants to hear of one that ends, nor of one of which nobody has looked whether it is there.
        let Some(words) = &status.said.words else {
            return !status.stop && !status.open_wanted;
        };
        let is_old = |every: Duration| {
            let at_ms = status.said.at_ms;
            at_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= millis(every))
        };
        !status.stop && (!words.hold(status) || every.is_some_and(is_old))
    }

    /// Has the next progress said whenever that comes: a build begins.
    pub(super) fn begin(&mut self) {
        self.at_ms = None;
    }

    /// Notes that it is said how the index is.
    fn note(status: &mut Status, now_ms: u64) {
        status.said = Said {
            words: Some(Words::of(status)),
            at_ms: Some(now_ms),
        };
    }
}

impl Shared {
    /// Returns true if how the index is differs from what was said of it.
    pub(super) fn has_news(&self, status: &Status) -> bool {
        Said::is_due(status, self.ground.now_ms(), None)
    }

    /// Says how the index is, if that differs from what was said last; or if that was said `every` ago. Takes the lock on the status,
    /// and gives it back before anything is written.
    pub(super) fn say(&self, every: Option<Duration>) {
        let _in_order = lock(&self.saying);
        let report = {
            let mut status = self.status();
            let now_ms = self.ground.now_ms();
            if !Said::is_due(&status, now_ms, every) {
                return;
            }
            Said::note(&mut status, now_ms);
            status.report()
        };
        self.ground.noted(&report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::state::UncertainReason;

    /// Says it if it is due; returns whether it was.
    fn says(status: &mut Status, now_ms: u64, every: Option<Duration>) -> bool {
        let is_due = Said::is_due(status, now_ms, every);
        if is_due {
            Said::note(status, now_ms);
        }
        is_due
    }

    #[test]
    fn each_change_is_said_once_and_nothing_else() {
        let mut status = Status::default();
        assert!(!says(&mut status, 0, None), "it was not looked at yet");
        status.open_wanted = false;
        assert!(says(&mut status, 0, None));
        assert!(!says(&mut status, u64::MAX, None));
        let changes: [fn(&mut Status); 6] = [
            |status| status.standing = Standing::Building,
            |status| status.standing = Standing::Complete,
            |status| status.tracking = true,
            |status| status.standing = Standing::Uncertain(UncertainReason::WatcherOverflow),
            |status| status.why = Some("lost".to_string()),
            |status| status.standing = Standing::Uncertain(UncertainReason::DirtyBacklog),
        ];
        for (n, change) in changes.into_iter().enumerate() {
            change(&mut status);
            // Whatever the clock says.
            assert!(says(&mut status, 7, None), "{n}");
            assert!(!says(&mut status, 7, None), "{n}");
        }
        // What comes and goes many times a second is none of it.
        status.mark(
            std::path::Path::new("a"),
            crate::index::dirty::Extent::File,
            8,
        );
        status.calls += 1;
        assert!(!says(&mut status, 8, None));
        // What was opened once is there, also while it is opened again.
        status.open_wanted = true;
        status.standing = Standing::Absent;
        assert!(says(&mut status, 8, None));
        status.stop = true;
        status.standing = Standing::Complete;
        assert!(!says(&mut status, 9, None), "it ends");
    }

    #[test]
    fn how_far_a_build_is_is_said_after_a_second_and_not_before() {
        let mut status = Status {
            open_wanted: false,
            standing: Standing::Building,
            ..Status::default()
        };
        let every = Some(PROGRESS);
        assert!(says(&mut status, 5_000, every));
        for (now_ms, is_due) in [
            (5_000, false),
            (5_999, false),
            (6_000, true),
            (6_001, false),
            (6_999, false),
            // As far behind as it is.
            (9_500, true),
            (10_400, false),
            (10_500, true),
        ] {
            assert_eq!(says(&mut status, now_ms, every), is_due, "{now_ms}");
        }
        // What changes is said at once, and the second begins with it.
        status.standing = Standing::Uncertain(UncertainReason::WatcherOverflowDuringBuild);
        assert!(says(&mut status, 10_600, every));
        assert!(!says(&mut status, 11_500, every));
        assert!(says(&mut status, 11_600, every));
        // The first progress of another build is said at once.
        status.said.begin();
        assert!(!says(&mut status, 11_600, None));
        assert!(says(&mut status, 11_600, every));
        assert!(!says(&mut status, 11_600, every));
        status.stop = true;
        assert!(!says(&mut status, 20_000, every));
    }
}
