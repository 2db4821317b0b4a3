//! The response of the `Search` tool: its fields and their JSON form. Other tools have response
//! types of their own.
//!
//! This module owns the formats of records (lines and errors) and responses. It does not search and
//! decides nothing about order.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exec::answer::outcome::{Line, LineKind};
use crate::exec::indexes::BuildReport;
use crate::exec::indexes::Phase;
use crate::format::choices::choices;
use crate::tool::shorten::shown_line;

pub use crate::exec::indexes::IndexUse;

/// A response of the `Search` tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SearchResponse {
    /// The requested pattern.
    pub pattern: String,
    /// The search root: canonical, absolute, with forward slashes.
    pub path: String,
    /// The number of records in `matches`.
    pub count: usize,
    /// The records, in emission order: matches and context lines.
    pub matches: Vec<Record>,
    /// Whether a limit cut the response: `max_results`, `max_files`, `max_matches_per_file` or the
    /// limit in bytes.
    pub truncated: bool,
    /// Whether the time limit was reached; `matches` is then a prefix of the full answer.
    pub timed_out: bool,
    /// The number of eligible files up to and including the one in which the search ended.
    pub files_scanned: u64,
    /// Files and directories that could not be read, in emission order.
    pub errors: Vec<ErrorEntry>,
    /// The exit status: 0 with matches, 1 without, 2 if the engine failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The standard error of an engine that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The records as text for people, with a final note if something is missing.
    pub content: String,
    /// Diagnostics, if configured. Optional and forward-compatible; not read back.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub stats: Option<Stats>,
}

/// One record of a response: a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Record {
    /// `match` or `context`.
    #[serde(rename = "type")]
    pub kind: RecordKind,
    /// The line itself.
    pub data: RecordData,
    /// The size of the parts that are not shown, if the line is longer than `max_line_bytes`.
    #[serde(skip)]
    pub left_out: Option<LeftOut>,
}

/// The parts of a line that are not shown, in bytes of the displayed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The bytes before the shown part.
    pub before: usize,
    /// The bytes after the shown part.
    pub after: usize,
}

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RecordKind {
    /// A line that matches.
    Match,
    /// A line near a match.
    Context,
}

/// The line of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RecordData {
    /// The path of the file.
    pub path: Text,
    /// The line number, starting at 1.
    pub line_number: u64,
    /// The byte column of the first match, starting at 1; only in matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// The line without its line terminator.
    pub lines: Text,
    /// The text of the first match; only in matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_text: Option<String>,
}

/// A text, in the form of ripgrep's JSON output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Text {
    /// The text. U+FFFD replaces invalid UTF-8.
    pub text: String,
}

/// A file or directory that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ErrorEntry {
    /// The path, in the same form as in records.
    pub path: String,
    /// Why it failed.
    pub error: String,
}

/// Diagnostics of a response. Consumers must tolerate further fields.
///
/// Times and the fields of [`BuildStats`] are best effort. So are the index fields in a process
/// with a live index, or if the maintenance allowance was used up: the state of the index depends
/// on earlier work. These are `index_safety_state`, `index_uncertain_reason`,
/// `index_exclusion_used`, `storage_mode`, `storage_fallback_reason`, `candidates_excluded` and
/// `candidates_scanned`. All other fields are deterministic. In other processes, so are these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Stats {
    /// The version of this object: 1.
    pub stats_version: u32,
    /// The state of the index, such as `COMPLETE`, `ABSENT` or `BUILDING`.
    pub index_safety_state: String,
    /// Why the index is uncertain or disabled.
    pub index_uncertain_reason: Option<String>,
    /// Whether the index was used to exclude files, even if it excluded none.
    pub index_exclusion_used: bool,
    /// Where the index is stored: `none`, `memory`, `mmap` or `sqlite`.
    pub storage_mode: String,
    /// Why the index is not stored as configured.
    pub storage_fallback_reason: Option<String>,
    /// Whether fuzzy fallback ran.
    pub fallback_used: bool,
    /// Why fuzzy fallback ran.
    pub fallback_reason: Option<String>,
    /// The levels that fuzzy fallback tried.
    pub fuzzy_levels_tried: Vec<u8>,
    /// Why fuzzy fallback skipped some or all levels: `PATTERN_TOO_SHORT` or `CAPABILITY_MISSING`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_skipped_reason: Option<String>,
    /// The number of levels that fuzzy fallback skipped because the time ran out;
    /// best effort.
    #[serde(skip_serializing_if = "is_zero")]
    pub fallback_passes_skipped: u64,
    /// Wall-clock time of the call in milliseconds; best effort.
    pub elapsed_ms: u64,
    /// The number of eligible files up to where the search ended: the `files_scanned` of the
    /// response.
    pub candidates_total: u64,
    /// How many of these files the index excluded.
    pub candidates_excluded: u64,
    /// How many of these files were not excluded.
    pub candidates_scanned: u64,
    /// How many of these files were skipped because they are larger than `max_file_size_bytes`.
    #[serde(skip_serializing_if = "is_zero")]
    pub files_too_large: u64,
    /// The number of lines in the response that are shown in part.
    #[serde(skip_serializing_if = "is_zero")]
    pub lines_shortened: u64,
    /// The progress of an index build; its fields are absent if none is running.
    #[serde(flatten)]
    pub build: Option<BuildStats>,
}

/// The progress of a live index's build at the time of a search. All fields are
/// best effort: no search waits for a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct BuildStats {
    /// The phase: `ENUMERATE`, `TOKENIZE`, `PERSIST` or `ACTIVATE`.
    pub build_phase: String,
    /// The number of files to read; 0 during `ENUMERATE`, when it is not known yet.
    pub build_files_total: u64,
    /// How many of these files are done.
    pub build_files_done: u64,
    /// The time since the start of the build, in milliseconds.
    pub build_elapsed_ms: u64,
}

#[doc(hidden)]
impl From<BuildReport> for BuildStats {
    fn from(report: BuildReport) -> BuildStats {
        BuildStats {
            // A build without a phase is about to begin with this one.
            build_phase: report
                .phase
                .unwrap_or(Phase::Enumerate)
                .as_str()
                .to_string(),
            build_files_total: report.files_total,
            build_files_done: report.files_done,
            build_elapsed_ms: report.elapsed_ms,
        }
    }
}

choices! {
    /// The reason why approximate searches are skipped.
    FallbackSkipped {
        /// The pattern is shorter than `fuzzy_min_pattern_len`, or not longer than the number of
        /// edits of a level.
        PatternTooShort = "PATTERN_TOO_SHORT",
        /// The engine can't search approximately.
        CapabilityMissing = "CAPABILITY_MISSING",
    }
}

/// The outcome of approximate searches, for the `fallback_*` and `fuzzy_*` fields of
/// [`Stats`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FallbackUse {
    /// The levels that were tried, in order.
    pub tried: Vec<u8>,
    /// The reason why some or all levels were skipped.
    pub skipped: Option<FallbackSkipped>,
    /// The number of levels that were skipped because the time ran out.
    pub without_time: u64,
}

impl Stats {
    /// Creates the diagnostics of an answer. `total` is the number of eligible files, `excluded`
    /// the number of those that the index excluded.
    #[doc(hidden)]
    pub fn new(index: IndexUse, total: u64, excluded: u64, elapsed: Duration) -> Stats {
        Stats {
            stats_version: 1,
            index_safety_state: index.index_state.state().as_str().to_string(),
            index_uncertain_reason: index.index_state.reason().map(str::to_string),
            index_exclusion_used: index.exclusion_used,
            storage_mode: index.storage_mode,
            storage_fallback_reason: index.storage_fallback_reason,
            fallback_used: false,
            fallback_reason: None,
            fuzzy_levels_tried: Vec::new(),
            fallback_skipped_reason: None,
            fallback_passes_skipped: 0,
            files_too_large: 0,
            lines_shortened: 0,
            elapsed_ms: elapsed.as_millis().try_into().unwrap_or(u64::MAX),
            candidates_total: total,
            candidates_excluded: excluded,
            candidates_scanned: total.saturating_sub(excluded),
            build: index.build.map(BuildStats::from),
        }
    }

    /// Adds the outcome of approximate searches.
    #[must_use]
    #[doc(hidden)]
    pub fn with_fallback(self, fallback: FallbackUse) -> Stats {
        let used = !fallback.tried.is_empty();
        Stats {
            fallback_used: used,
            fallback_reason: used.then(|| "LITERAL_NO_MATCHES".to_string()),
            fuzzy_levels_tried: fallback.tried,
            fallback_skipped_reason: fallback.skipped.map(|why| why.as_str().to_string()),
            fallback_passes_skipped: fallback.without_time,
            ..self
        }
    }
}

impl Record {
    /// Creates the record of a line in the file shown as `path`. A line longer than
    /// `max_line_bytes` is shown in part.
    #[doc(hidden)]
    pub fn of(path: &str, line: &Line, max_line_bytes: Option<usize>) -> Record {
        let shown = shown_line(line, max_line_bytes);
        let first = line.spans.first().filter(|_| line.is_match());
        Record {
            kind: match line.kind {
                LineKind::Match => RecordKind::Match,
                LineKind::Context => RecordKind::Context,
            },
            data: RecordData {
                path: Text {
                    text: path.to_string(),
                },
                line_number: line.number,
                column: first.map(|span| span.start as u64 + 1),
                lines: Text { text: shown.text },
                match_text: first.map(|_| shown.found),
            },
            left_out: shown.left_out,
        }
    }

    /// Returns true for a line that matched.
    pub fn is_match(&self) -> bool {
        self.kind == RecordKind::Match
    }

    /// Returns the byte range of the match within the shown part of the line. The column counts
    /// bytes of the file, where invalid UTF-8 can be shorter than the U+FFFD that replaces it.
    #[cfg(all(unix, feature = "cli"))]
    pub(crate) fn place_of_match(&self) -> Option<(usize, usize)> {
        let (text, found) = (&self.data.lines.text, self.data.match_text.as_ref()?);
        let column = usize::try_from(self.data.column?).ok()?.checked_sub(1)?;
        let column = column.saturating_sub(self.left_out.map_or(0, |left_out| left_out.before));
        // Most invalid sequences are single bytes, each shown as three bytes (U+FFFD).
        let (mut at, mut bytes) = (0, 0);
        for c in text.chars() {
            if bytes >= column {
                break;
            }
            at += c.len_utf8();
            bytes += if c == char::REPLACEMENT_CHARACTER {
                1
            } else {
                c.len_utf8()
            };
        }
        if bytes == column && text.get(at..)?.starts_with(found.as_str()) {
            return Some((at, at + found.len()));
        }
        let from = (column..=text.len()).find(|&at| text.is_char_boundary(at))?;
        let start = from + text.get(from..)?.find(found.as_str())?;
        Some((start, start + found.len()))
    }
}

impl SearchResponse {
    /// Returns the response as a JSON value.
    pub fn to_value(&self) -> Value {
        // Serialising plain strings and numbers can't fail.
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// Returns the response as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Returns the length of a value as JSON.
pub(crate) fn json_len_of(value: &impl Serialize) -> usize {
    // Serialising plain strings and numbers can't fail.
    serde_json::to_string(value).map_or(usize::MAX / 4, |json| json.len())
}

/// Returns the length of a string in JSON, without its quotes.
pub(crate) fn json_len(text: &str) -> usize {
    serde_json::to_string(text).map_or(text.len() * 6, |json| json.len() - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_add_up() {
        let index = IndexUse {
            exclusion_used: true,
            ..IndexUse::not_used()
        };
        let stats = Stats::new(index, 100, 88, Duration::from_micros(1_999));
        assert_eq!(
            (
                stats.candidates_total,
                stats.candidates_excluded,
                stats.candidates_scanned
            ),
            (100, 88, 12)
        );
        assert!(stats.index_exclusion_used);
        assert_eq!(stats.elapsed_ms, 1);
    }
}
