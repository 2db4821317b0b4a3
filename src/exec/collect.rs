//! Emission: outcomes in order become the result, cut exactly where the limits say.
//!
//! Owns counting and truncation. It sees files strictly in emission order, so nothing here depends on
//! threads or on who found the files.

use crate::exec::eligible::EligibleFile;
use crate::exec::event::{Event, EventKind, FileError, FileEvents, FileOutcome};
use crate::exec::query::Reports;

/// The limits of a whole call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events that the result holds at most (FR-LS-06), or matches where each of them is reported.
    pub max_results: usize,
    /// Which of them it is.
    pub reports: Reports,
    /// Files that are searched at most (FR-LS-SRC-09).
    pub max_files: u64,
}

/// Which limit cut a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// At least one event more than `max_results` exists, or could not be ruled out in time.
    MaxResults,
    /// Eligible files beyond `max_files` were not searched.
    MaxFiles,
}

/// Collects outcomes in emission order.
#[derive(Debug)]
pub(crate) struct Collector {
    limits: Limits,
    pub(crate) files: Vec<FileEvents>,
    pub(crate) errors: Vec<FileError>,
    late_errors: Vec<FileError>,
    pub(crate) count: usize,
    pub(crate) files_scanned: u64,
    /// Of `files_scanned`, those that were passed over.
    pub(crate) files_excluded: u64,
    pub(crate) truncation: Option<Truncation>,
    closed: bool,
    /// Bytes that are kept of files, as far as there is a limit.
    kept: usize,
    most_kept: usize,
}

/// The bytes that are kept of files where each match is reported: several times what a response can have. What does not fit is counted and not
/// kept, from the first file on that does not.
const MOST_KEPT: usize = 256 << 20;

impl Collector {
    pub(crate) fn new(limits: Limits) -> Collector {
        Collector {
            limits,
            files: Vec::new(),
            errors: Vec::new(),
            late_errors: Vec::new(),
            count: 0,
            files_scanned: 0,
            files_excluded: 0,
            truncation: None,
            closed: false,
            kept: 0,
            most_kept: match limits.reports {
                Reports::Lines => usize::MAX,
                Reports::Matches => MOST_KEPT,
            },
        }
    }

    /// Returns what counts by the limit of results.
    pub(crate) fn reports(&self) -> Reports {
        self.limits.reports
    }

    /// Returns true once nothing more can change the result.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns how many events more the result can hold.
    pub(crate) fn room(&self) -> usize {
        self.limits.max_results - self.count
    }

    /// Returns how many files more may be searched.
    pub(crate) fn files_left(&self) -> u64 {
        self.limits.max_files - self.files_scanned
    }

    /// Takes the next `count` eligible files, all of them passed over: files without an event or an error.
    pub(crate) fn passed(&mut self, count: u64) {
        if self.closed {
            return;
        }
        let counted = count.min(self.files_left());
        self.files_scanned += counted;
        self.files_excluded += counted;
        if counted < count {
            self.close_at_file_limit();
        }
    }

    /// Hears of the next file that is to be searched, before it is: the collection may close without it.
    pub(crate) fn coming(&mut self, file: &EligibleFile) {
        if !self.closed && file.passed_before >= self.files_left() {
            self.passed(file.passed_before);
            self.close_at_file_limit();
        }
    }

    /// Closes because an eligible file lies beyond the limit of files.
    fn close_at_file_limit(&mut self) {
        self.truncation = Some(Truncation::MaxFiles);
        self.closed = true;
    }

    /// Takes the outcome of the next file that was searched, and the files passed over before it. A file whose
    /// outcome is incomplete closes the collection: what follows it lies beyond a gap.
    pub(crate) fn file(&mut self, file: &EligibleFile, outcome: FileOutcome) {
        self.coming(file);
        if self.closed {
            return;
        }
        self.passed(file.passed_before);
        self.files_scanned += 1;
        let room = self.room();
        let found = weight(&outcome.events, self.limits.reports);
        let mut events = outcome.events;
        if found > room {
            cut(&mut events, room, self.limits.reports);
            self.truncation = Some(Truncation::MaxResults);
            self.closed = true;
        }
        // An error that goes with a file's events is only said where some of them are shown.
        if let Some(message) = outcome.error
            && (found == 0 || !events.is_empty())
        {
            self.errors.push(FileError {
                path: file.logical(),
                message,
            });
        }
        if !events.is_empty() {
            self.count += weight(&events, self.limits.reports);
            let bytes: usize = events.iter().map(Event::footprint).sum();
            self.kept = self.kept.saturating_add(bytes);
            let is_left_out = self.kept > self.most_kept;
            self.files.push(FileEvents {
                path: file.logical(),
                events: if is_left_out { Vec::new() } else { events },
                is_left_out,
            });
        }
        if !outcome.complete {
            self.closed = true;
        }
    }

    /// Takes an error of enumeration at its place in the order.
    pub(crate) fn error(&mut self, error: FileError) {
        if self.closed {
            return;
        }
        if self.files_scanned < self.limits.max_files {
            self.errors.push(error);
        } else {
            // It counts only if no file follows that the limit leaves out.
            self.late_errors.push(error);
        }
    }

    /// Ends the collection: everything there is was handed over, unless it was closed before.
    pub(crate) fn finish(&mut self) {
        if !self.closed {
            self.errors.append(&mut self.late_errors);
        }
    }
}

/// Returns how much events count.
pub(crate) fn weight(events: &[Event], reports: Reports) -> usize {
    events.iter().map(|event| event.weight(reports)).sum()
}

/// Keeps the first events that count for `room`. What follows the last match that is kept stays as the lines around it.
fn cut(events: &mut Vec<Event>, room: usize, reports: Reports) {
    if reports == Reports::Lines || room == 0 {
        events.truncate(room);
        return;
    }
    let mut left = room;
    for event in events {
        event.each.truncate(left);
        left -= event.each.len();
        if event.each.is_empty() {
            event.kind = EventKind::Context;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use super::*;
    use crate::exec::event::Found;
    use crate::index::beneath::RootDir;
    use crate::index::walk::{FoundFile, Place};

    #[test]
    fn what_is_more_than_is_kept_is_counted_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let place = Arc::new(Place {
            root: Arc::new(RootDir::open(&dir.path().canonicalize().unwrap()).unwrap()),
            real: PathBuf::new(),
            logical: PathBuf::new(),
        });
        let event = |line: &str| Event {
            kind: EventKind::Match {
                column: 1,
                text: "x".into(),
            },
            line_number: 1,
            line: line.into(),
            each: vec![Found {
                column: 1,
                text: "x".into(),
                edits: 0,
            }],
        };
        let mut collector = Collector::new(Limits {
            max_results: 100,
            reports: Reports::Matches,
            max_files: 100,
        });
        collector.most_kept = 3 * event("").footprint() + 100;
        let lines = ["x", "x", &"x".repeat(200), "x"];
        for (name, line) in ["a", "b", "c", "d"].iter().zip(lines) {
            let file = FoundFile {
                dir: place.clone(),
                name: name.into(),
                target: None,
            };
            let outcome = FileOutcome {
                events: vec![event(line)],
                complete: true,
                ..FileOutcome::default()
            };
            collector.file(&file.into(), outcome);
        }
        assert_eq!((collector.count, collector.files_scanned), (4, 4));
        assert_eq!(collector.truncation, None);
        let kept = |name: &str| {
            let mut files = collector.files.iter();
            let file = files.find(|file| file.path == Path::new(name)).unwrap();
            (file.is_left_out, file.events.len())
        };
        assert_eq!((kept("a"), kept("b")), ((false, 1), (false, 1)));
        // Nothing after the first gap either: what is shown is a beginning.
        assert_eq!((kept("c"), kept("d")), ((true, 0), (true, 0)));
        let lines_only = Collector::new(Limits {
            reports: Reports::Lines,
            ..collector.limits
        });
        assert_eq!(lines_only.most_kept, usize::MAX);
    }
}
