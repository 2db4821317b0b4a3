//! The lines of a file around a place, for the page.
//!
//! This module owns the request and the response. The sandbox resolves the path. `related` reads
//! its files in the same way, so both refuse the same files. The format is private: only the page
//! of the same program sends such a call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::RankedSearch;
use super::related::SourceLine;
use crate::exec::answer::line_sink::lossy;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::shorten::part;

/// The name of such a call. The number rises when a field gets another meaning.
pub(crate) const NAME: &str = "file_lines-1";

/// The most lines before, and after, the requested line.
const AROUND: u64 = 200;

/// The most bytes that are shown of the requested line, and of each other line.
const MAX_BYTES_OF_REQUESTED_LINE: usize = 64 << 10;
const MAX_LINE_BYTES: usize = 1_000;

/// A request for the lines around a place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLinesRequest {
    path: String,
    line: u64,
}

/// The lines around a place.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FileLines {
    /// The path as requested.
    path: String,
    /// The requested line; the last one if the file has fewer lines.
    line: u64,
    /// The number of the first line in `lines`.
    first_line: u64,
    /// The lines, without their ends.
    lines: Vec<String>,
    /// The numbers of the lines in `lines` that lack their end.
    cut_lines: Vec<u64>,
    /// How many lines the file has.
    total_lines: u64,
    /// Whether binary data follows, which has no lines.
    has_binary_rest: bool,
}

impl RankedSearch<'_> {
    /// Returns the lines around the place of a request, as JSON.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`] if the request is malformed, or the file does not exist, is too large
    /// or is no text. [`ToolError::SandboxViolation`] if the file must not be read.
    pub(super) fn file_lines(&self, request: Value) -> Result<String, ToolError> {
        if !self.tool.config().enabled {
            return Err(DenialReason::Disabled.into());
        }
        let request: FileLinesRequest = serde_json::from_value(request)
            .map_err(|error| ToolError::bad_args(error.to_string()))?;
        let source = SourceLine {
            file: self.context.sandbox.resolve(Some(&request.path))?,
            shown: request.path,
            line: request.line,
        };
        let refused = |message| ToolError::BadArgs { message };
        let text = self
            .text_of(&source)
            .map_err(|failure| failure.into_tool_error(NAME, refused))?;
        let lines = around(source.shown, source.line, &text.bytes, text.is_whole);
        serde_json::to_string(&lines).map_err(|error| ToolError::failed(NAME, error.to_string()))
    }
}

/// Selects the lines around a line.
fn around(path: String, line: u64, text: &[u8], is_whole: bool) -> FileLines {
    let text_without_last_end = text.strip_suffix(b"\n").unwrap_or(text);
    let total_lines = match text.is_empty() {
        true => 0,
        false => memchr::memchr_iter(b'\n', text_without_last_end).count() as u64 + 1,
    };
    let line = line.clamp(1, total_lines.max(1));
    let first_line = line.saturating_sub(AROUND).max(1);
    let last_line = total_lines.min(line.saturating_add(AROUND));
    let mut cut_lines = Vec::new();
    let lines = (1..=last_line)
        .zip(text_without_last_end.split(|byte| *byte == b'\n'))
        .skip_while(|(number, _)| *number < first_line)
        .map(|(number, bytes)| {
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            let most = match number == line {
                true => MAX_BYTES_OF_REQUESTED_LINE,
                false => MAX_LINE_BYTES,
            };
            let shown = part(bytes, None, most);
            if shown.is_some() {
                cut_lines.push(number);
            }
            lossy(shown.and_then(|range| bytes.get(range)).unwrap_or(bytes))
        })
        .collect();
    FileLines {
        path,
        line,
        first_line,
        lines,
        cut_lines,
        total_lines,
        has_binary_rest: !is_whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(line: u64, text: &[u8]) -> FileLines {
        around("a".to_string(), line, text, true)
    }

    #[test]
    fn web_lines_of_a_file_are_those_around_and_bounded() {
        let text: String = (1..=1_000).map(|n| format!("line {n}\r\n")).collect();
        for (asked, line, first, last) in [
            (500, 500, 300, 700),
            (0, 1, 1, 201),
            (201, 201, 1, 401),
            (202, 202, 2, 402),
            (999, 999, 799, 1_000),
            (u64::MAX, 1_000, 800, 1_000),
        ] {
            let got = lines(asked, text.as_bytes());
            assert_eq!((got.line, got.first_line), (line, first), "{asked}");
            assert_eq!(got.lines.first(), Some(&format!("line {first}")));
            assert_eq!(got.lines.last(), Some(&format!("line {last}")));
            assert_eq!(got.lines.len() as u64, last - first + 1);
            assert_eq!(got.total_lines, 1_000);
            assert!(got.cut_lines.is_empty());
        }
    }

    #[test]
    fn web_lines_are_counted_by_their_ends() {
        for (text, shown, total) in [
            ("", &[][..], 0),
            ("\n", &[""][..], 1),
            ("a", &["a"][..], 1),
            ("a\n\n", &["a", ""][..], 2),
            ("a\nb", &["a", "b"][..], 2),
        ] {
            let got = lines(1, text.as_bytes());
            assert_eq!(got.lines, shown, "{text:?}");
            assert_eq!(got.total_lines, total, "{text:?}");
        }
        assert_eq!(lines(1, b"\xff\xfe a").lines, ["\u{fffd}\u{fffd} a"]);
    }

    #[test]
    fn web_long_lines_of_a_file_are_cut_at_characters() {
        let long = format!("x{}\n", "\u{fc}".repeat(100_000));
        let got = lines(2, long.repeat(3).as_bytes());
        assert_eq!(got.cut_lines, [1, 2, 3]);
        assert_eq!(got.lines[0].len(), MAX_LINE_BYTES - 1);
        assert_eq!(got.lines[1].len(), MAX_BYTES_OF_REQUESTED_LINE - 1);
        for line in got.lines {
            assert!(long.starts_with(&line));
        }
    }
}
