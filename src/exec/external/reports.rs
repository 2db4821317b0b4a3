//! The lines that one run of an external program reports, collected by file until the program ends.
//!
//! The adapter adds each [`LineReport`] as it arrives, and takes one [`FileReport`] for each file
//! at the end. A program is asked to keep the order of its files, but nothing relies on that order.
//! For example, `b:1`, `a:3`, `a:1` are line 1 of `b` and lines 1 and 3 of `a`.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::exec::external::confirm::{Approximate, Reported};
use crate::exec::external::report_parser::{LineReport, ReportError};

/// The most lines that are kept of all files of a run. Later lines are searched in process.
const LINES_LIMIT: usize = 1 << 20;

/// The reports about the files of one run.
#[derive(Debug)]
pub(super) struct Reports<'a> {
    names: &'a [OsString],
    /// The indices of the names, sorted by the bytes of the names.
    sorted: Vec<usize>,
    /// The most lines that are kept of one file.
    lines_per_file: u64,
    /// The reports by index of the file name.
    by_file: BTreeMap<usize, FileReport>,
    /// The file of the last report. Most reports name the same file as the one before.
    last: Option<usize>,
    /// The number of reports so far.
    count: u64,
    /// The number of lines that are kept.
    kept: usize,
}

impl<'a> Reports<'a> {
    /// Creates an empty collection for the files `names`, which must be unique.
    pub(super) fn new(names: &'a [OsString], lines_per_file: u64) -> Reports<'a> {
        let mut sorted: Vec<usize> = (0..names.len()).collect();
        sorted.sort_unstable_by_key(|&at| names[at].as_encoded_bytes());
        Reports {
            names,
            sorted,
            lines_per_file,
            by_file: BTreeMap::new(),
            last: None,
            count: 0,
            kept: 0,
        }
    }

    /// Returns the number of reports.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds a report. Returns true: the program may go on.
    ///
    /// # Errors
    ///
    /// [`ReportError`] if the report names a file that is not in `names`.
    pub(super) fn add(&mut self, reported: LineReport<'_>) -> Result<bool, ReportError> {
        self.count += 1;
        let file = self.file_of(reported.path)?;
        self.last = Some(file);
        // An approximate match can't be found in process, so every one is kept.
        let room = match reported.place {
            Some(_) => usize::MAX,
            None => LINES_LIMIT.saturating_sub(self.kept),
        };
        let limit = usize::try_from(self.lines_per_file).unwrap_or(usize::MAX);
        let report = self.by_file.entry(file).or_default();
        let before = report.len();
        report.add(reported, limit.min(before.saturating_add(room)));
        self.kept += report.len() - before;
        Ok(true)
    }

    /// Returns the reports with the indices of their files in `names`.
    pub(super) fn into_files(self) -> impl Iterator<Item = (usize, FileReport)> {
        self.by_file.into_iter()
    }

    fn file_of(&self, path: &[u8]) -> Result<usize, ReportError> {
        let name = |at: usize| self.names[at].as_encoded_bytes();
        if let Some(last) = self.last.filter(|&last| name(last) == path) {
            return Ok(last);
        }
        match self.sorted.binary_search_by(|&at| name(at).cmp(path)) {
            Ok(found) => Ok(self.sorted[found]),
            Err(_) => Err(ReportError(format!(
                "a report about {:?}, which was not to be searched",
                String::from_utf8_lossy(path)
            ))),
        }
    }
}

/// The lines that were reported for one file, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct FileReport {
    lines: Vec<u64>,
    places: Vec<Approximate>,
    /// The line of the last report.
    last: u64,
    /// Whether a line was reported after a later one.
    is_shuffled: bool,
    /// Whether there may be more lines than those that are kept.
    is_cut: bool,
}

/// The lines of a report in ascending order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ordered {
    /// The reported lines, by number.
    Lines(Reported),
    /// By place, one a line.
    Places(Vec<Approximate>),
    /// Any line may match: some lines were dropped, and it is not known which.
    Unknown,
}

impl FileReport {
    /// Returns how many lines are kept.
    fn len(&self) -> usize {
        self.lines.len() + self.places.len()
    }

    /// Adds a report; `limit` is how many lines are kept.
    fn add(&mut self, reported: LineReport<'_>, limit: usize) {
        if reported.line == self.last {
            return;
        }
        self.is_shuffled |= reported.line < self.last;
        self.last = reported.line;
        if self.len() >= limit {
            self.is_cut = true;
            return;
        }
        match reported.place {
            Some((start, text)) => self.places.push(Approximate {
                line: reported.line,
                start,
                text: text.to_vec(),
            }),
            None => self.lines.push(reported.line),
        }
        // The program may have stopped reading the file here.
        self.is_cut |= self.len() >= limit;
    }

    /// Puts the lines in order.
    pub(super) fn into_wanted(mut self) -> Ordered {
        if self.is_cut && self.is_shuffled {
            return Ordered::Unknown;
        }
        if self.places.is_empty() {
            self.lines.sort_unstable();
            self.lines.dedup();
            return Ordered::Lines(Reported {
                lines: self.lines,
                and_rest: self.is_cut,
            });
        }
        self.places.sort_by_key(|place| (place.line, place.start));
        self.places.dedup_by_key(|place| place.line);
        Ordered::Places(self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(line: u64, place: Option<(usize, &[u8])>) -> LineReport<'_> {
        LineReport {
            path: b"/a",
            line,
            place,
        }
    }

    fn lines(lines: &[u64], and_rest: bool) -> Ordered {
        Ordered::Lines(Reported {
            lines: lines.to_vec(),
            and_rest,
        })
    }

    /// Adds lines to an empty report.
    fn report(of: &[u64], limit: usize) -> Ordered {
        let mut report = FileReport::default();
        of.iter()
            .for_each(|&line| report.add(reported(line, None), limit));
        report.into_wanted()
    }

    #[test]
    fn reports_are_kept_up_to_a_limit() {
        assert_eq!(report(&[1, 1, 2, 5], 4), lines(&[1, 2, 5], false));
        assert_eq!(report(&[1, 2, 5, 6], 4), lines(&[1, 2, 5, 6], true));
        assert_eq!(report(&[1, 2, 5, 6, 7, 8], 4), lines(&[1, 2, 5, 6], true));
    }

    #[test]
    fn lines_in_any_order_are_put_in_order() {
        assert_eq!(report(&[5, 1, 2, 1, 5], 9), lines(&[1, 2, 5], false));
        // Only the program knows which lines were dropped.
        assert_eq!(report(&[5, 1, 2, 3], 4), Ordered::Unknown);
        assert_eq!(report(&[1, 2, 3, 5, 4], 4), Ordered::Unknown);
        let mut report = FileReport::default();
        for (line, start) in [(3, 30), (1, 12), (3, 28), (1, 10)] {
            report.add(reported(line, Some((start, b"x"))), 9);
        }
        let place = |line, start| Approximate {
            line,
            start,
            text: b"x".to_vec(),
        };
        let places = vec![place(1, 10), place(3, 28)];
        assert_eq!(report.into_wanted(), Ordered::Places(places));
    }

    #[test]
    fn a_report_counts_for_the_file_that_it_names() {
        let names: Vec<OsString> = ["/b", "/a", "/c"].map(OsString::from).to_vec();
        let mut reports = Reports::new(&names, 9);
        for (path, line) in [("/c", 1), ("/a", 7), ("/b", 3), ("/a", 2), ("/c", 1)] {
            let reported = LineReport {
                path: path.as_bytes(),
                line,
                place: None,
            };
            assert_eq!(reports.add(reported), Ok(true));
        }
        assert_eq!(reports.count(), 5);
        let unknown = LineReport {
            path: b"/d",
            line: 1,
            place: None,
        };
        assert!(reports.add(unknown).is_err());
        let found: Vec<(usize, Ordered)> = reports
            .into_files()
            .map(|(file, report)| (file, report.into_wanted()))
            .collect();
        let expected = [
            (0, lines(&[3], false)),
            (1, lines(&[2, 7], false)),
            (2, lines(&[1], false)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_of_all_files_together_are_limited() {
        let names = ["/a", "/b"].map(OsString::from);
        let mut reports = Reports::new(&names, u64::MAX);
        for (path, count) in [("/a", LINES_LIMIT as u64 - 2), ("/b", 5)] {
            for line in 1..=count {
                let reported = LineReport {
                    path: path.as_bytes(),
                    line,
                    place: None,
                };
                reports.add(reported).unwrap();
            }
        }
        let found: Vec<Ordered> = reports
            .into_files()
            .map(|(_, report)| report.into_wanted())
            .collect();
        assert!(matches!(&found[0], Ordered::Lines(all) if !all.and_rest));
        assert_eq!(found[1], lines(&[1, 2], true));
    }
}
