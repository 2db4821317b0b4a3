//! An answer as text for a model: lines grouped by file, in the format of `rg --heading -n`.
//!
//! This module owns the layout. If the text exceeds a number of bytes, `tool::fit` decides which
//! parts to cut. Notes below the lines report all missing parts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exec::answer::outcome::Line;
use crate::tool::error::ToolError;
use crate::tool::fit::{Draft, Extent, Piece, fit};
use crate::tool::notes::{Note, Reader};
use crate::tool::render::escape_controls;
use crate::tool::response::{ErrorEntry, json_len, json_len_of};
use crate::tool::shorten::shown_line;

/// The maximum number of listed errors; a note counts the others.
const ERRORS: usize = 20;

/// The text of a complete answer without lines.
const NOTHING: &str = "[no line matches]\n";

/// An answer as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextAnswer {
    /// The lines, followed by notes in brackets.
    pub(crate) text: String,
    /// Whether the deadline came first.
    pub(crate) timed_out: bool,
}

impl TextAnswer {
    /// Returns the answer as one line of JSON.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the size of the answer as JSON without its text and the text's quotes, in bytes.
    pub(crate) fn envelope() -> usize {
        let widest = TextAnswer {
            text: String::new(),
            timed_out: false,
        };
        widest.to_json().len() - 2
    }
}

/// The parts of an answer before they are written as text.
pub(crate) struct TextDraft {
    /// The lines with their displayed paths; lines of one file are adjacent.
    pub(crate) lines: Vec<(Arc<str>, Line)>,
    /// Files and directories that could not be searched.
    pub(crate) errors: Vec<ErrorEntry>,
    /// The notes for the reader.
    pub(crate) notes: Vec<Note>,
    /// The notes about limits that are at their cap.
    pub(crate) at_cap: Vec<Note>,
    /// Whether a line of a binary file matches but is not shown.
    pub(crate) has_match_unshown: bool,
    /// The failure of the engine, if it failed before its end.
    pub(crate) failure: Option<String>,
    /// Whether the request has context lines. If so, `--` separates groups of lines.
    pub(crate) has_context: bool,
    /// The maximum number of bytes per shown line, if limited.
    pub(crate) max_line_bytes: Option<usize>,
    /// Whether results are missing.
    pub(crate) is_cut: bool,
    /// The limit in bytes that already cut the lines, if any.
    pub(crate) limit: Option<usize>,
}

impl TextDraft {
    /// Returns the text, in at most `max_bytes` bytes of JSON.
    ///
    /// # Errors
    ///
    /// An error if not even the notes fit the limit.
    pub(crate) fn fit(self, max_bytes: Option<usize>) -> Result<String, ToolError> {
        let extent = fit(&self, max_bytes)?;
        Ok(self.write(extent))
    }

    /// Writes the parts of the answer within an extent.
    fn write(&self, extent: Extent) -> String {
        let (mut text, mut shortened) = (String::new(), 0);
        for (line, is_shortened) in self.written_lines(extent.line).take(extent.results) {
            text.push_str(&line);
            shortened += u64::from(is_shortened);
        }
        self.write_rest(&mut text, extent, shortened);
        text
    }

    /// Returns each line as text, with its path in front of the first line of a file. The flag is
    /// true for a line shown in part.
    fn written_lines(&self, most: Option<usize>) -> impl Iterator<Item = (String, bool)> + '_ {
        let mut before: Option<(&Arc<str>, u64)> = None;
        self.lines.iter().map(move |(path, line)| {
            let mut text = String::new();
            match before {
                Some((last, number)) if last == path => {
                    if self.has_context && number + 1 < line.number {
                        text.push_str("--\n");
                    }
                }
                other => {
                    text.push_str(if other.is_some() { "\n" } else { "" });
                    text.push_str(&escape_controls(path));
                    text.push('\n');
                }
            }
            before = Some((path, line.number));
            let shown = shown_line(line, most);
            let sign = if line.is_match() { ':' } else { '-' };
            let _ = write!(text, "{}{sign}", line.number);
            let left_out = shown.left_out;
            push_left_out(&mut text, left_out.map_or(0, |left_out| left_out.before));
            text.push_str(&escape_controls(&shown.text));
            push_left_out(&mut text, left_out.map_or(0, |left_out| left_out.after));
            text.push('\n');
            (text, left_out.is_some())
        })
    }

    /// Writes everything after the lines.
    fn write_rest(&self, text: &mut String, extent: Extent, shortened: u64) {
        let is_empty = self.lines.is_empty() && !self.has_match_unshown;
        if is_empty && !self.is_cut && extent.limit.is_none() && self.failure.is_none() {
            text.push_str(NOTHING);
        }
        if let Some(failure) = &self.failure {
            let _ = writeln!(text, "[the engine failed: {}]", escape_controls(failure));
        }
        for error in self.errors.iter().take(extent.errors) {
            let (path, why) = (escape_controls(&error.path), escape_controls(&error.error));
            let _ = writeln!(text, "[{path}: {why}]");
        }
        for note in extent.notes(&self.notes, self.errors.len(), shortened) {
            let at_cap = self.at_cap.contains(&note);
            let _ = writeln!(text, "[{}]", note.text(Reader::Model { at_cap }));
        }
    }
}

impl Draft for TextDraft {
    const RESULTS: &'static str = "lines";

    fn whole(&self) -> Extent {
        Extent {
            line: self.max_line_bytes,
            results: self.lines.len(),
            errors: self.errors.len().min(ERRORS),
            limit: self.limit,
        }
    }

    fn pieces(&self, line: Option<usize>) -> impl Iterator<Item = Piece> + '_ {
        self.written_lines(line).map(|(text, is_shortened)| Piece {
            bytes: json_len(&text),
            shortened: u64::from(is_shortened),
        })
    }

    fn frame(&self, extent: Extent, shortened: u64) -> usize {
        let mut text = String::new();
        self.write_rest(&mut text, extent, shortened);
        json_len_of(&text)
    }
}

/// Returns the notes with a limit that is at its cap.
pub(crate) fn at_cap(notes: &[Note], is_at_cap: impl Fn(&Note) -> bool) -> Vec<Note> {
    let capped = notes.iter().filter(|note| is_at_cap(note));
    capped.cloned().collect()
}

/// Appends the number of hidden bytes of a line.
fn push_left_out(text: &mut String, bytes: usize) {
    if bytes > 0 {
        let _ = write!(text, "[+{bytes} bytes]");
    }
}

/// Lowers the fields of a request that exceed their limits, and returns a note for each.
pub(crate) fn cap(fields: &mut [(&'static str, &mut Option<u64>, u64)]) -> Vec<Note> {
    let mut notes = BTreeMap::new();
    for (field, value, cap) in fields {
        if let Some(asked) = value.filter(|asked| asked > cap) {
            **value = Some(*cap);
            let cap = *cap;
            notes.insert(*field, Note::Capped { field, asked, cap });
        }
    }
    notes.into_values().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exec::answer::outcome::{LineKind, Span};

    fn line(number: u64, text: &str, is_match: bool) -> Line {
        let span = Span {
            start: 0,
            end: 1.min(text.len()),
            edits: 0,
        };
        Line {
            kind: if is_match {
                LineKind::Match
            } else {
                LineKind::Context
            },
            number,
            text: text.as_bytes().into(),
            spans: is_match.then_some(span).into_iter().collect(),
            place: None,
        }
    }

    fn draft(lines: &[(&str, u64, &str, bool)]) -> TextDraft {
        TextDraft {
            lines: lines
                .iter()
                .map(|(path, number, text, is_match)| {
                    (Arc::from(*path), line(*number, text, *is_match))
                })
                .collect(),
            errors: Vec::new(),
            notes: Vec::new(),
            at_cap: Vec::new(),
            has_match_unshown: false,
            failure: None,
            has_context: false,
            max_line_bytes: None,
            is_cut: false,
            limit: None,
        }
    }

    /// Returns the text of a draft without a limit.
    fn written(draft: &TextDraft) -> String {
        draft.write(draft.whole())
    }

    #[test]
    fn lines_are_grouped_by_file() {
        let mut draft = draft(&[
            ("a.c", 3, "int x;", true),
            ("a.c", 4, "four", false),
            ("a.c", 9, "x\u{1b}", true),
            ("b\n.c", 1, "x", true),
        ]);
        let plain = "a.c\n3:int x;\n4-four\n9:x\\x1b\n\nb\\n.c\n1:x\n";
        assert_eq!(written(&draft), plain);
        draft.has_context = true;
        let grouped = plain.replace("9:x", "--\n9:x");
        assert_eq!(written(&draft), grouped);
    }

    #[test]
    fn a_complete_answer_without_a_line_says_so_and_a_cut_one_does_not() {
        let mut empty = draft(&[]);
        assert_eq!(written(&empty), NOTHING);
        empty.is_cut = true;
        assert_eq!(written(&empty), "");
        empty.is_cut = false;
        empty.failure = Some("no memory".to_string());
        assert_eq!(written(&empty), "[the engine failed: no memory]\n");
    }

    #[test]
    fn errors_are_listed_and_further_ones_counted() {
        let mut draft = draft(&[]);
        draft.errors = (0..25)
            .map(|n| ErrorEntry {
                path: format!("d{n}"),
                error: "permission denied".to_string(),
            })
            .collect();
        let text = draft.fit(None).unwrap();
        assert!(text.starts_with(NOTHING), "{text}");
        assert!(text.contains("[d19: permission denied]\n[5 further"));
        assert_eq!(text.lines().count(), 22);
    }

    #[test]
    fn requests_above_a_limit_are_lowered_and_told() {
        let (mut high, mut low, mut unset) = (Some(500), Some(5), None);
        let notes = cap(&mut [
            ("max_results", &mut high, 200),
            ("max_files", &mut low, 10),
            ("max_depth", &mut unset, 3),
        ]);
        assert_eq!((high, low, unset), (Some(200), Some(5), None));
        let text = crate::tool::notes::closing_notes(&notes);
        let told = "[max_results = 500 is above the limit of 200, which was used instead]\n";
        assert_eq!(text, told);
    }

    #[test]
    fn lines_that_fit_in_part_are_all_there_and_a_note_counts_them() {
        let long = "a".repeat(200);
        let made = || {
            draft(&[
                ("a", 1, &long, true),
                ("a", 2, &long, true),
                ("a", 3, "b", true),
            ])
        };
        let whole = json_len_of(&written(&made()));
        let text = made().fit(Some(whole - 1)).unwrap();
        assert!(json_len_of(&text) < whole, "{text}");
        let numbers: Vec<_> = text.lines().filter(|line| line.contains(':')).collect();
        assert_eq!(numbers.len(), 3, "{text}");
        assert!(text.contains("[2 lines are longer than"), "{text}");
        assert!(text.contains("shown in part"), "{text}");
        assert!(!text.contains("truncated"), "{text}");
    }

    proptest! {
        #[test]
        fn a_text_fits_its_limit_exactly(
            lines in prop::collection::vec((0u8..3, "[a-z\"\u{1b}é]{0,40}", any::<bool>()), 0..12),
            max_bytes in 0usize..900,
        ) {
            let mut sorted = lines.clone();
            sorted.sort_by_key(|(file, ..)| *file);
            let names = ["a", "dir/b", "c\""];
            let made = || {
                let lines = sorted.iter().zip(1..);
                let lines: Vec<_> = lines
                    .map(|((file, text, is_match), number)| {
                        (names[usize::from(*file)], number, text.as_str(), *is_match)
                    })
                    .collect();
                draft(&lines)
            };
            let whole = made().fit(None).unwrap();
            match made().fit(Some(max_bytes)) {
                Ok(text) => {
                    prop_assert!(json_len_of(&text) <= max_bytes);
                    prop_assert_eq!(text == whole, json_len_of(&whole) <= max_bytes);
                    let is_told = text.contains("truncated: the output was cut")
                        || text.contains("shown in part");
                    prop_assert!(text == whole || is_told);
                }
                Err(error) => {
                    prop_assert!(json_len_of(&whole) > max_bytes);
                    prop_assert_eq!(error.code(), "limits_exceeded");
                }
            }
        }
    }
}
