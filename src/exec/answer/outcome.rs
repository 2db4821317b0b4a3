//! The outcome of searching one file: its lines, its counts and its gaps.
//!
//! This module owns [`Line`] and [`FileOutcome`]. Text is kept as the bytes of the file, so that
//! every caller can print it exactly. This module does not know how a response is written.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::exec::as_text;

/// The approximate overhead of an allocation, in bytes.
const ROUNDING: usize = 8;

/// One match in a line, in bytes of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The offset of the start of the match.
    pub start: usize,
    /// The offset of the end of the match.
    pub end: usize,
    /// The number of edits between the match and the pattern, 0 for an exact match.
    #[serde(default, skip_serializing_if = "is_default")]
    pub edits: u32,
}

/// The matches of one line. A single match, the usual case, needs no allocation.
pub type LineSpans = SmallVec<[Span; 1]>;

/// Whether a line matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LineKind {
    /// The line contains a match.
    #[default]
    Match,
    /// The line is near a matching line.
    Context,
}

/// The bytes that end a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LineEnd {
    /// No byte: the last line of a text without a final line feed.
    None,
    /// A line feed, `\n`.
    #[default]
    Lf,
    /// A carriage return and a line feed, `\r\n`.
    CrLf,
    /// A lone `\r` at the end of the text.
    Cr,
}

impl LineEnd {
    /// Returns the bytes of the line end.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            LineEnd::None => b"",
            LineEnd::Lf => b"\n",
            LineEnd::CrLf => b"\r\n",
            LineEnd::Cr => b"\r",
        }
    }

    /// Splits a line into its text and its end.
    pub fn split(line: &[u8]) -> (&[u8], LineEnd) {
        match line {
            [text @ .., b'\r', b'\n'] => (text, LineEnd::CrLf),
            [text @ .., b'\n'] => (text, LineEnd::Lf),
            [text @ .., b'\r'] => (text, LineEnd::Cr),
            text => (text, LineEnd::None),
        }
    }
}

/// The position of a line in its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The offset of the line's first byte in the decoded text, without a byte-order mark.
    pub offset: u64,
    /// The bytes that end the line.
    pub end: LineEnd,
}

/// One line that a search reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Whether the line matches or is context.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: LineKind,
    /// The 1-based number of the line in its file.
    pub number: u64,
    /// The bytes of the line, without its terminator. Text in UTF-16 is transcoded to UTF-8.
    #[serde(with = "as_text::bytes")]
    pub text: Box<[u8]>,
    /// The matches, from left to right: only the first one, or all, depending on the query. Empty
    /// for context.
    pub spans: LineSpans,
    /// The position of the line, if the query asks for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub place: Option<Place>,
}

impl Line {
    /// Returns true for a line that matches.
    pub fn is_match(&self) -> bool {
        self.kind == LineKind::Match
    }

    /// Estimates the bytes that the line keeps in memory.
    pub(crate) fn footprint(&self) -> usize {
        let spans = match self.spans.spilled() {
            true => self.spans.capacity() * size_of::<Span>() + ROUNDING,
            false => 0,
        };
        size_of::<Self>() + self.text.len() + ROUNDING + spans
    }
}

/// Why lines of a binary file are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinaryCut {
    /// The offset of the first NUL byte in the decoded text.
    pub nul: u64,
    /// Whether a line that is not reported matches.
    pub matches: bool,
}

/// Gaps in a file's lines that a reader must know about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gaps {
    /// Set if the lines from a NUL byte on are missing.
    pub binary: Option<BinaryCut>,
    /// Whether more lines match than `max_matches_per_file` permits.
    pub more_matches: bool,
    /// The size of the file, in bytes, if it was not searched because it is larger than
    /// `max_file_size`.
    pub too_large: Option<u64>,
    /// The offset of the first byte that is not text, if the file was skipped for it although a
    /// line matches (`BinaryRule::SkipNonText`).
    pub not_text: Option<u64>,
}

impl Gaps {
    /// Returns whether a line of binary data matches. Such lines are not reported.
    pub(crate) fn hides_match(&self) -> bool {
        self.binary.is_some_and(|binary| binary.matches)
    }
}

/// The result of searching one file. Depends only on the file's bytes and the query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileOutcome {
    /// The lines, in ascending order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lines: Vec<Line>,
    /// The number of matching lines, reported or not, up to the end of the search.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matched_lines: u64,
    /// The number of matches in these lines, as far as they were looked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matches: u64,
    /// The bytes of text that were searched.
    #[serde(default, skip_serializing_if = "is_default")]
    pub searched_bytes: u64,
    /// The lines that are missing, and why.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gaps: Gaps,
    /// Why the file, or the rest of it, could not be searched.
    #[serde(default, skip_serializing_if = "is_default")]
    pub error: Option<String>,
    /// Whether more lines of the file follow in another outcome. Then the counts are those of the
    /// lines here, and the gaps, the error and `searched_bytes` come with the last outcome.
    #[serde(default, skip_serializing_if = "is_default")]
    pub continues: bool,
    /// Whether the file was searched to its end, or to a limit of the request. False if the
    /// deadline or a cancellation came first. `lines` is a prefix then.
    #[serde(default = "complete", skip_serializing_if = "is_complete")]
    pub complete: bool,
}

impl FileOutcome {
    /// Returns the outcome of a file without a match.
    pub fn nothing() -> FileOutcome {
        FileOutcome {
            complete: true,
            ..FileOutcome::default()
        }
    }

    /// Returns a part of a file's outcome: some of its lines, which more lines follow.
    pub(crate) fn part(lines: Vec<Line>) -> FileOutcome {
        FileOutcome {
            matched_lines: lines.iter().filter(|line| line.is_match()).count() as u64,
            matches: lines.iter().map(|line| line.spans.len() as u64).sum(),
            lines,
            continues: true,
            ..FileOutcome::nothing()
        }
    }

    /// Returns the outcome of a file that is listed without being opened, as if it matched.
    pub fn listed() -> FileOutcome {
        FileOutcome {
            matched_lines: 1,
            ..FileOutcome::nothing()
        }
    }

    /// Returns the outcome of a file that could not be searched.
    pub fn failed(message: String) -> FileOutcome {
        FileOutcome {
            error: Some(message),
            ..FileOutcome::nothing()
        }
    }

    /// Returns the outcome of a file with more than `max_file_size` bytes.
    pub fn too_large(size: u64) -> FileOutcome {
        FileOutcome {
            gaps: Gaps {
                too_large: Some(size),
                ..Gaps::default()
            },
            ..FileOutcome::nothing()
        }
    }

    /// Returns true if the file contains a match, reported or not.
    pub fn has_match(&self) -> bool {
        self.matched_lines > 0 || self.gaps.hides_match()
    }

    /// Estimates the bytes that the outcome keeps in memory.
    pub(crate) fn footprint(&self) -> usize {
        self.lines.iter().map(Line::footprint).sum()
    }
}

/// One file of an answer, in emission order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileAnswer {
    /// The index of the searched path that contains the file, from 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub target: usize,
    /// The path of the file relative to the searched path. Empty if the searched path is the file.
    #[serde(with = "as_text::path")]
    pub path: PathBuf,
    /// The outcome of the file. Its `error` is empty: errors are reported in their own list.
    pub outcome: FileOutcome,
}

/// A file or directory that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileError {
    /// The index of the searched path that contains the file or directory, from 0.
    pub target: usize,
    /// The path relative to the searched path. Empty for the searched path itself.
    #[serde(with = "as_text::path")]
    pub path: PathBuf,
    /// The error message.
    pub message: String,
}

/// Returns true for a value that is not sent, because a reader fills in the default for an absent
/// field.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn complete() -> bool {
    true
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_complete(complete: &bool) -> bool {
    *complete
}
