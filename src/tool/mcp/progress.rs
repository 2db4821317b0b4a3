//! The progress of an index build, for a client that sent a progress token.

use std::time::{Duration, Instant};

use rmcp::model::{ProgressNotificationParam, ProgressToken};

use crate::tool::indexing::BuildReport;

/// The longest interval between two reports of a running build.
const SILENCE: Duration = Duration::from_secs(1);

/// How much the number of a report grows if no file was added. The protocol requires growth.
const SIGN_OF_LIFE: f64 = 0.001;

/// The progress reports of a build. The number of each report is larger than the last.
pub(super) struct BuildProgress {
    token: ProgressToken,
    /// The number of the last report, and its time.
    reported: Option<(f64, Instant)>,
}

impl BuildProgress {
    /// Builds the reports for the token of a client.
    pub(super) fn new(token: ProgressToken) -> BuildProgress {
        BuildProgress {
            token,
            reported: None,
        }
    }

    /// Returns the next report of a build if files were added, or if a second has passed since the
    /// last.
    pub(super) fn of(
        &mut self,
        build: &BuildReport,
        now: Instant,
    ) -> Option<ProgressNotificationParam> {
        // File counts are exact in a float.
        let files = build.files_done as f64;
        let progress = match self.reported {
            Some((last, at)) if files <= last => {
                let is_silent = now.saturating_duration_since(at) >= SILENCE;
                is_silent.then_some(last + SIGN_OF_LIFE)?
            }
            _ => files,
        };
        self.reported = Some((progress, now));
        let phase = build.phase.map_or("ENUMERATE", |phase| phase.as_str());
        let (done, total) = (build.files_done, build.files_total);
        let message = match total {
            0 => format!(
                "an index is being built ({phase}); until it is complete, searches read the whole \
                 tree"
            ),
            total => format!(
                "an index is being built ({phase}, {done} of {total} files); until it is complete, \
                 searches read the whole tree"
            ),
        };
        let report = ProgressNotificationParam::new(self.token.clone(), progress);
        let report = match total {
            0 => report,
            total => report.with_total(total as f64),
        };
        Some(report.with_message(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::indexes::Phase;
    use crate::exec::stop::{Clock, SystemClock};

    #[test]
    fn mcp_progress_is_reported_when_there_is_more_of_it() {
        let began = SystemClock.now();
        let after = |ms| began + Duration::from_millis(ms);
        let report = |phase, done, total| BuildReport {
            phase,
            files_total: total,
            files_done: done,
            elapsed_ms: 5,
            ended: false,
        };
        let token = ProgressToken(rmcp::model::NumberOrString::Number(1));
        let mut reporting = BuildProgress::new(token);
        let first = reporting.of(&report(None, 0, 0), began).unwrap();
        assert_eq!((first.progress, first.total), (0.0, None));
        assert!(first.message.unwrap().contains("ENUMERATE"));
        let at_rest = report(Some(Phase::Tokenize), 0, 10);
        assert_eq!(reporting.of(&at_rest, after(999)), None);
        let next = report(Some(Phase::Tokenize), 4, 10);
        let next = reporting.of(&next, after(999)).unwrap();
        assert_eq!((next.progress, next.total), (4.0, Some(10.0)));
        assert!(next.message.unwrap().contains("4 of 10 files"));
        // A build that adds no file is still reported once a second, with a growing number.
        let at_rest = report(Some(Phase::Tokenize), 3, 10);
        assert_eq!(reporting.of(&at_rest, after(1_998)), None);
        let mut last = 4.0;
        for n in 2..5 {
            let alive = reporting.of(&at_rest, after(n * 1_000)).unwrap();
            assert!(alive.progress > last && alive.progress < 5.0, "{alive:?}");
            assert_eq!(reporting.of(&at_rest, after(n * 1_000 + 999)), None);
            last = alive.progress;
        }
        let next = report(Some(Phase::Tokenize), 5, 10);
        assert_eq!(reporting.of(&next, after(4_999)).unwrap().progress, 5.0);
    }
}
