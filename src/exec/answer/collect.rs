//! The collector turns outcomes into the answer, in emission order, truncated exactly at the
//! limits.
//!
//! *Emission order* is the order of `format::sort_key` within each searched path. This module owns
//! counting and truncation. The scheduler passes files to the `Collector` strictly in emission
//! order. So the result depends neither on threads nor on the source of the files.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exec::answer::listed::ListedFiles;
use crate::exec::answer::outcome::{FileAnswer, FileError, FileOutcome, Line, LineKind};
use crate::exec::question::query::Report;
use crate::exec::sources::eligible::EligibleFile;

/// The limits of a whole call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most results of the answer.
    pub max_results: usize,
    /// The unit in which results are counted.
    pub report: Report,
    /// The most files that are searched.
    pub max_files: u64,
}

/// The limits that truncated an answer. Each one left out something that would otherwise be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cuts {
    /// Whether at least one more result than `max_results` exists, or could not be ruled out in
    /// time.
    pub max_results: bool,
    /// Whether eligible files beyond `max_files` were not searched.
    pub max_files: bool,
    /// Whether at least one file has more matching lines than `max_matches_per_file`.
    pub max_matches_per_file: bool,
    /// Whether at least one eligible file lies deeper than `max_depth`.
    pub max_depth: bool,
}

impl Cuts {
    /// Returns true if any limit truncated the answer.
    pub fn any(self) -> bool {
        self != Cuts::default()
    }
}

/// One part of an answer, in emission order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    /// A file with something to report.
    File(FileAnswer),
    /// Files that are listed without being opened, in order.
    Listed(ListedFiles),
    /// A file or directory that could not be read.
    Error(FileError),
}

/// Estimates the memory of an answered file, in bytes.
pub(crate) fn file_footprint(outcome: &FileOutcome, path_len: usize) -> usize {
    size_of::<Found>() + outcome.footprint() + path_len
}

/// Estimates the memory of an error, in bytes.
pub(crate) fn error_footprint(error: &FileError) -> usize {
    size_of::<Found>() + error.message.len() + error.path.as_os_str().len()
}

/// A part of an answer that is not handed out yet. The path of a file is built when the part is
/// handed out, outside of the lock that the workers share.
#[derive(Debug)]
enum Waiting {
    /// The outcome of the file with this index in the list.
    File(Arc<Vec<EligibleFile>>, usize, FileOutcome),
    Listed(ListedFiles),
    Error(FileError),
}

impl Waiting {
    /// Estimates the bytes that the part keeps in memory.
    fn footprint(&self) -> usize {
        match self {
            Waiting::File(files, at, outcome) => {
                file_footprint(outcome, files[*at].found.logical_len())
            }
            Waiting::Listed(files) => files.footprint(),
            Waiting::Error(error) => error_footprint(error),
        }
    }

    fn found(self) -> Found {
        match self {
            Waiting::File(files, at, outcome) => Found::File(FileAnswer {
                target: files[at].target,
                path: files[at].logical(),
                outcome,
            }),
            Waiting::Listed(files) => Found::Listed(files),
            Waiting::Error(error) => Found::Error(error),
        }
    }
}

/// Parts of an answer, in emission order, that a caller took out of a [`Collector`].
#[derive(Debug)]
pub(crate) struct Ready(VecDeque<Waiting>);

impl Ready {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Iterator for Ready {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        self.0.pop_front().map(Waiting::found)
    }
}

/// The counts of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Results, in the unit of [`Limits::report`].
    pub results: usize,
    /// Files with a match.
    pub matched_files: u64,
    /// Eligible files up to and including the one in which the search ended.
    pub files_scanned: u64,
    /// Files among these that the source skipped.
    pub files_excluded: u64,
    /// Files among these that are larger than `max_file_size`.
    pub files_too_large: u64,
    /// Bytes of text that were searched.
    pub searched_bytes: u64,
    /// Errors that were reported.
    pub errors: u64,
}

/// A file of which a part was added.
#[derive(Clone, Copy, Debug)]
struct OpenFile {
    /// Whether the file counts as one with a match.
    has_match: bool,
}

/// Collects outcomes in emission order.
#[derive(Debug)]
pub(crate) struct Collector {
    limits: Limits,
    /// Parts of the answer that are not handed out yet.
    ready: VecDeque<Waiting>,
    ready_bytes: usize,
    /// Errors that count only if no further file exceeds the limit of files.
    late_errors: Vec<FileError>,
    /// The file of which more outcomes follow.
    open: Option<OpenFile>,
    pub(crate) totals: Totals,
    pub(crate) cuts: Cuts,
    closed: bool,
}

impl Collector {
    pub(crate) fn new(limits: Limits) -> Collector {
        Collector {
            limits,
            ready: VecDeque::new(),
            ready_bytes: 0,
            late_errors: Vec::new(),
            open: None,
            totals: Totals::default(),
            cuts: Cuts::default(),
            closed: false,
        }
    }

    /// Returns the unit in which results are counted.
    pub(crate) fn report(&self) -> Report {
        self.limits.report
    }

    /// Returns true once no further outcome can change the answer.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns how many more results the answer can contain.
    pub(crate) fn room(&self) -> usize {
        self.limits.max_results - self.totals.results
    }

    /// Returns how many more files may be searched.
    pub(crate) fn files_left(&self) -> u64 {
        self.limits.max_files - self.totals.files_scanned
    }

    /// Takes all parts that are ready.
    pub(crate) fn take_ready(&mut self) -> Ready {
        self.ready_bytes = 0;
        Ready(std::mem::take(&mut self.ready))
    }

    /// Returns the bytes of the parts that are ready.
    pub(crate) fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    fn push(&mut self, part: Waiting) {
        self.ready_bytes = self.ready_bytes.saturating_add(part.footprint());
        self.ready.push_back(part);
    }

    fn push_error(&mut self, error: FileError) {
        self.totals.errors += 1;
        self.push(Waiting::Error(error));
    }

    /// Adds the next `count` eligible files, which the source skipped: they have neither matches
    /// nor errors.
    pub(crate) fn passed(&mut self, count: u64) {
        if self.closed {
            return;
        }
        let counted = count.min(self.files_left());
        self.totals.files_scanned += counted;
        self.totals.files_excluded += counted;
        if counted < count {
            self.close_at_file_limit();
        }
    }

    /// Announces the next file before it is searched. The collection closes if the file exceeds the
    /// limit.
    pub(crate) fn announce(&mut self, file: &EligibleFile) {
        if !self.closed && self.open.is_none() && file.passed_before >= self.files_left() {
            self.passed(file.passed_before);
            self.close_at_file_limit();
        }
    }

    /// Closes because an eligible file lies beyond the limit of files.
    fn close_at_file_limit(&mut self) {
        self.cuts.max_files = true;
        self.closed = true;
    }

    /// Adds the outcome of the next searched file, at index `at` of `files`, and the skipped files
    /// before it. Of a large file, several outcomes may be added in turn. An incomplete outcome
    /// closes the collection, because a gap follows it.
    pub(crate) fn file(
        &mut self,
        files: &Arc<Vec<EligibleFile>>,
        at: usize,
        mut outcome: FileOutcome,
    ) {
        let file = &files[at];
        self.announce(file);
        if self.closed {
            return;
        }
        let open = self.open.take();
        if open.is_none() {
            self.passed(file.passed_before);
            self.totals.files_scanned += 1;
        }
        self.totals.searched_bytes += outcome.searched_bytes;
        self.totals.files_too_large += u64::from(outcome.gaps.too_large.is_some());
        self.closed = !outcome.complete;
        let (report, room) = (self.limits.report, self.room());
        let weight = weight(&outcome, report);
        let was_counted = open.is_some_and(|open| open.has_match);
        let has_match = outcome.has_match() || was_counted;
        self.open = outcome.continues.then_some(OpenFile { has_match });
        if weight > room {
            cut(&mut outcome, room, report);
            self.cuts.max_results = true;
            self.closed = true;
        } else {
            self.cuts.max_matches_per_file |= outcome.gaps.more_matches;
        }
        let shown = weight.min(room);
        self.totals.results += shown;
        // A file without any result left is not mentioned.
        if weight > 0 && shown == 0 {
            return;
        }
        self.totals.matched_files += u64::from(has_match && !was_counted);
        let error = outcome.error.take();
        let gaps = &outcome.gaps;
        let has_gap = gaps.binary.is_some() || gaps.too_large.is_some() || gaps.not_text.is_some();
        // Lines without a result are context, of which the results come in another part.
        let is_context = weight == 0 && !outcome.lines.is_empty();
        if shown > 0 || has_gap || is_context {
            self.push(Waiting::File(files.clone(), at, outcome));
        }
        if let Some(message) = error {
            self.push_error(FileError {
                target: file.target,
                path: file.logical(),
                message,
            });
        }
    }

    /// Adds the next files of a list. Each counts as a file with one result.
    pub(crate) fn listed(&mut self, mut files: ListedFiles) {
        if self.closed {
            return;
        }
        let (count, room, left) = (files.len() as u64, self.room() as u64, self.files_left());
        let shown = count.min(room).min(left);
        self.totals.files_scanned += shown;
        self.totals.matched_files += shown;
        self.totals.results += shown as usize;
        if count > left && left <= room {
            self.close_at_file_limit();
        } else if count > shown {
            // The file that is one too many counts as searched.
            self.totals.files_scanned += 1;
            self.cuts.max_results = true;
            self.closed = true;
        }
        files.truncate(shown as usize);
        if !files.is_empty() {
            self.push(Waiting::Listed(files));
        }
    }

    /// Adds an error of enumeration at its place in the order.
    pub(crate) fn error(&mut self, error: FileError) {
        if self.closed {
            return;
        }
        if self.totals.files_scanned < self.limits.max_files {
            self.push_error(error);
        } else {
            self.late_errors.push(error);
        }
    }

    /// Ends the collection. All files were added, unless it was closed before.
    pub(crate) fn finish(&mut self) {
        if !self.closed {
            let late = std::mem::take(&mut self.late_errors);
            late.into_iter().for_each(|error| self.push_error(error));
        }
    }
}

/// Returns how many results an outcome has.
pub(crate) fn weight(outcome: &FileOutcome, report: Report) -> usize {
    match report {
        Report::Lines => outcome.lines.len(),
        Report::Matches => outcome.lines.iter().map(|line| line.spans.len()).sum(),
        Report::Counts | Report::Presence => usize::from(outcome.has_match()),
    }
}

/// Keeps the first `room` results. Under [`Report::Matches`], lines after the last kept match stay
/// as its context.
fn cut(outcome: &mut FileOutcome, room: usize, report: Report) {
    match report {
        Report::Matches if room > 0 => {
            let mut left = room;
            for line in &mut outcome.lines {
                line.spans.truncate(left);
                left -= line.spans.len();
                if line.spans.is_empty() {
                    line.kind = LineKind::Context;
                }
            }
        }
        _ => outcome.lines.truncate(room),
    }
    let matching = |line: &&Line| line.is_match();
    outcome.matched_lines = outcome.lines.iter().filter(matching).count() as u64;
    outcome.matches = outcome
        .lines
        .iter()
        .map(|line| line.spans.len() as u64)
        .sum();
    outcome.gaps.more_matches = false;
}
