//! What a search produces: events of files, in the order of their lines.
//!
//! Owns the event and per-file outcome types. It must not know how a response is serialised; the
//! surfaces do that.

use std::path::PathBuf;

use crate::exec::query::Reports;

/// One line that a search reports (FR-LS-04, FR-LSI-PARSE-01).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What kind of line it is.
    pub kind: EventKind,
    /// The 1-based number of the line in its file.
    pub line_number: u64,
    /// The line without its terminator, invalid UTF-8 replaced by U+FFFD (FR-LS-ENC-01).
    pub line: String,
    /// All its matches, in their order, where each of them is reported; else nothing.
    pub each: Vec<Found>,
}

/// One match of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The 1-based byte offset in the line.
    pub column: u64,
    /// Its text.
    pub text: String,
    /// How many edits it is away from what the pattern matches.
    pub edits: u32,
}

/// Whether a line matched, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The line holds a match.
    Match {
        /// The 1-based byte offset of the first match in the line (FR-LS-04b).
        column: u64,
        /// The text of the first match, invalid UTF-8 replaced (FR-LS-04c).
        text: String,
    },
    /// The line is near a matching one.
    Context,
}

impl Event {
    /// Returns true for a line that matched.
    pub fn is_match(&self) -> bool {
        matches!(self.kind, EventKind::Match { .. })
    }

    /// Estimates the bytes that the event keeps in memory.
    pub(crate) fn footprint(&self) -> usize {
        let text = match &self.kind {
            EventKind::Match { text, .. } => text.len(),
            EventKind::Context => 0,
        };
        let each: usize = self.each.iter().map(|found| found.text.len()).sum();
        let each = each + std::mem::size_of_val(&*self.each);
        std::mem::size_of::<Self>() + self.line.len() + text + each
    }

    /// Returns how much the event counts by the limits of a call: an event, or, where each match is reported, so many matches.
    pub(crate) fn weight(&self, reports: Reports) -> usize {
        match reports {
            Reports::Lines => 1,
            Reports::Matches => self.each.len(),
        }
    }
}

/// What came out of one file: a pure function of the file's bytes and the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileOutcome {
    /// The events, ascending by line; for one line, context before match.
    pub events: Vec<Event>,
    /// What went wrong with this file, for the `errors` of the response (FR-LS-ERR-06).
    pub error: Option<String>,
    /// Whether the file was searched to its end, or to a limit of the request. False when the
    /// deadline or a cancellation came first; `events` is then a prefix.
    pub complete: bool,
}

impl FileOutcome {
    /// Returns the outcome of a file that yields nothing.
    pub fn nothing() -> FileOutcome {
        FileOutcome {
            complete: true,
            ..FileOutcome::default()
        }
    }

    /// Returns the outcome of a file that could not be searched.
    pub fn failed(message: String) -> FileOutcome {
        FileOutcome {
            error: Some(message),
            complete: true,
            ..FileOutcome::default()
        }
    }
}

/// The events of one file, as the search emits them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEvents {
    /// The file, relative to the search root.
    pub path: PathBuf,
    /// Its events.
    pub events: Vec<Event>,
    /// Whether they are only counted, since those of files before it are as much as is kept.
    pub is_left_out: bool,
}

/// A file or directory that could not be read (FR-LS-ERR-05, FR-LS-ERR-06).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The path relative to the search root; empty for the root itself.
    pub path: PathBuf,
    /// What went wrong.
    pub message: String,
}
