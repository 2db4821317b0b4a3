//! The progress of an index build, for a client that sent a progress token.

use rmcp::model::{ProgressNotificationParam, ProgressToken};

use crate::tool::indexing::BuildReport;

/// The progress of a build, as a client sees it: each report has more files than the last one.
pub(super) struct Reporting {
    token: ProgressToken,
    /// The files of the last report.
    reported: Option<u64>,
}

impl Reporting {
    /// Makes one for the token that the client sent.
    pub(super) fn new(token: ProgressToken) -> Reporting {
        Reporting {
            token,
            reported: None,
        }
    }

    /// Returns the next report of a build, if there is progress.
    pub(super) fn of(&mut self, build: &BuildReport) -> Option<ProgressNotificationParam> {
        if self.reported.is_some_and(|last| build.files_done <= last) {
            return None;
        }
        self.reported = Some(build.files_done);
        let phase = build.phase.map_or("ENUMERATE", |phase| phase.as_str());
        let (done, total) = (build.files_done, build.files_total);
        let message = match total {
            0 => format!(
                "an index is being built ({phase}); until it is complete, everything is searched"
            ),
            total => format!(
                "an index is being built ({phase}, {done} of {total} files); until it is complete, everything is searched"
            ),
        };
        // Numbers of files are exact in a float.
        let report = ProgressNotificationParam::new(self.token.clone(), done as f64);
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

    #[test]
    fn mcp_progress_is_reported_when_there_is_more_of_it() {
        let report = |phase, done, total| BuildReport {
            phase,
            files_total: total,
            files_done: done,
            elapsed_ms: 5,
            ended: false,
        };
        let token = ProgressToken(rmcp::model::NumberOrString::Number(1));
        let mut reporting = Reporting::new(token);
        let first = reporting.of(&report(None, 0, 0)).unwrap();
        assert_eq!((first.progress, first.total), (0.0, None));
        assert!(first.message.unwrap().contains("ENUMERATE"));
        assert_eq!(reporting.of(&report(Some(Phase::Tokenize), 0, 10)), None);
        let next = reporting.of(&report(Some(Phase::Tokenize), 4, 10)).unwrap();
        assert_eq!((next.progress, next.total), (4.0, Some(10.0)));
        assert!(next.message.unwrap().contains("4 of 10 files"));
        assert_eq!(reporting.of(&report(Some(Phase::Tokenize), 3, 10)), None);
    }
}
