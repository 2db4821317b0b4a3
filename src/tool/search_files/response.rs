//! The response of the `search_files` tool: its fields, and how it is fitted into a number of
//! bytes.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::found::{Shape, matches};
use crate::exec::answer::outcome::FileAnswer;
use crate::tool::config::{Case, Mode};
use crate::tool::error::ToolError;
use crate::tool::fit::{Draft, Extent, Piece, fit};
use crate::tool::response::{BuildStats, ErrorEntry, IndexUse, json_len_of};

/// A response of the `search_files` tool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FilesResponse {
    /// The requested path, with forward slashes.
    pub path: String,
    /// The requested query.
    pub query: String,
    /// The mode of the search that gave these matches: `fuzzy` if fuzzy fallback found them.
    pub mode: Mode,
    /// The case mode of the search.
    pub case: Case,
    /// The matches, sorted by path, line and column.
    pub matches: Vec<FilesMatch>,
    /// The number of matches in the response.
    pub returned: usize,
    /// The limit on `returned`.
    pub max_results: usize,
    /// Whether matches are missing because of a limit.
    pub truncated: bool,
    /// The limit that cut the response.
    pub truncated_reason: Option<TruncatedReason>,
    /// Counts for diagnostics.
    pub stats: FilesStats,
    /// The files and directories that could not be searched, sorted by path.
    pub errors: Vec<ErrorEntry>,
}

/// The limit that cut a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TruncatedReason {
    /// There are more matches than `max_results`.
    MaxResults,
    /// The response would be larger than `max_output_bytes`.
    MaxOutputBytes,
    /// There are more eligible files than `max_files`.
    MaxFiles,
    /// At least one file has more matches than `max_matches_per_file`.
    MaxMatchesPerFile,
    /// At least one eligible file is deeper than `max_depth`.
    MaxDepth,
}

/// A single match.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FilesMatch {
    /// The path of the file relative to the requested directory, with forward slashes.
    pub path: String,
    /// The line number, starting at 1.
    pub line: u64,
    /// The byte column, starting at 1.
    pub column: u64,
    /// The text that matched.
    pub match_text: String,
    /// The line without its line terminator.
    pub line_text: String,
    /// The context lines before the line.
    pub before: Vec<String>,
    /// The context lines after the line.
    pub after: Vec<String>,
    /// The similarity to the query in fuzzy mode, from 0 to 1.
    pub score: Option<f64>,
    /// The numbers of the lines of this match that are shown in part.
    #[serde(skip)]
    pub shortened: Vec<u64>,
}

/// Diagnostics of a response. Consumers must tolerate further fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FilesStats {
    /// The number of eligible files up to and including the one in which the search ended.
    pub files_scanned: u64,
    /// The number of files with matches, including those omitted to fit the byte limit.
    pub files_matched: u64,
    /// The number of matches, including those omitted to fit the byte limit. With the reason
    /// `max_results`, there are more.
    pub matches_total: u64,
    /// Wall-clock time of the call in milliseconds; best effort.
    pub elapsed_ms: u64,
    /// The number of lines shown in part because they are longer than `max_line_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_shortened: Option<u64>,
    /// The number of errors omitted from `errors` to fit the byte limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors_left_out: Option<u64>,
    /// The number of files larger than `max_file_size_bytes`. Each has an entry in `errors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_too_large: Option<u64>,
    /// The outcome of fuzzy fallback, if it was tried.
    #[serde(flatten)]
    pub fallback: Option<FallbackStats>,
    /// How the search used an index, if configured.
    #[serde(flatten)]
    pub index: Option<IndexStats>,
}

/// The outcome of fuzzy fallback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FallbackStats {
    /// The requested mode: `exact`.
    pub initial_mode: Mode,
    /// Whether at least one pass ran.
    pub fallback_used: bool,
    /// The number of passes that ran.
    pub fuzzy_passes_used: u64,
    /// Why fuzzy fallback ended early, unless a pass found matches or all passes ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_ended: Option<FallbackEnd>,
}

/// Why fuzzy fallback ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum FallbackEnd {
    /// The time limit was reached.
    Timeout,
    /// The query is too long for a fuzzy search.
    QueryTooLong,
    /// The fuzzy search failed.
    Failed,
}

/// How a search used an index. These fields are the same as in the `stats` of the tool `Search`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct IndexStats {
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
    /// The number of eligible files up to where the search ended.
    pub candidates_total: u64,
    /// How many of these files the index excluded.
    pub candidates_excluded: u64,
    /// How many of these files were not excluded.
    pub candidates_scanned: u64,
    /// The progress of an index build; its fields are absent if none is running.
    #[serde(flatten)]
    pub build: Option<BuildStats>,
}

impl IndexStats {
    /// Builds the index fields of a search with `total` eligible files, of which `excluded` were
    /// excluded.
    pub(super) fn new(index: IndexUse, total: u64, excluded: u64) -> IndexStats {
        IndexStats {
            index_safety_state: index.index_state.state().as_str().to_string(),
            index_uncertain_reason: index.index_state.reason().map(str::to_string),
            index_exclusion_used: index.exclusion_used,
            storage_mode: index.storage_mode,
            storage_fallback_reason: index.storage_fallback_reason,
            candidates_total: total,
            candidates_excluded: excluded,
            candidates_scanned: total.saturating_sub(excluded),
            build: index.build.map(BuildStats::from),
        }
    }
}

/// Limit on the bytes of a response as JSON, regardless of the configuration. Each match has its
/// line, and a line can be as long as a file.
pub(super) const LARGEST: usize = 64 << 20;

impl FilesResponse {
    /// Returns the response as one line of JSON.
    pub fn to_json(&self) -> String {
        // Serialising strings and numbers cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A response without its matches, and the files for these matches.
pub(super) struct FilesDraft<'a> {
    /// All fields except `matches` and `returned`.
    pub(super) response: FilesResponse,
    /// The files with matches.
    pub(super) files: &'a [FileAnswer],
    /// The display options of matches.
    pub(super) shape: Shape,
    /// The byte limit that excluded further files with matches, if any.
    pub(super) limit: Option<usize>,
}

impl FilesDraft<'_> {
    /// Builds the response, in at most `max_bytes` bytes of JSON.
    ///
    /// # Errors
    ///
    /// `DenialReason::LimitsExceeded` if not even a response without matches fits the limit.
    pub(super) fn fit(self, max_bytes: usize) -> Result<FilesResponse, ToolError> {
        let extent = fit(&self, Some(max_bytes))?;
        let mut shortened = 0;
        let matches = self.matches(extent.line).take(extent.results);
        let matches = matches.map(|(one, lines)| {
            shortened += lines;
            one
        });
        let matches = matches.collect();
        let bare = self.bare(extent, shortened);
        Ok(FilesResponse { matches, ..bare })
    }

    /// Iterates over the matches. Each comes with the number of lines that are shortened in it but
    /// in no earlier match. Takes time in proportion to the lines of the consumed matches.
    fn matches(&self, line: Option<usize>) -> impl Iterator<Item = (FilesMatch, u64)> + '_ {
        let shape = Shape {
            max_line_bytes: line,
            ..self.shape
        };
        let (mut file, mut lines) = (0, BTreeSet::new());
        matches(self.files, shape).map(move |(of, one)| {
            if of != file {
                file = of;
                lines.clear();
            }
            let new = one.shortened.iter().filter(|line| lines.insert(**line));
            let new = new.count() as u64;
            (one, new)
        })
    }

    /// Returns the response without its matches.
    fn bare(&self, extent: Extent, shortened: u64) -> FilesResponse {
        let whole = &self.response;
        let left_out = whole.errors.len().saturating_sub(extent.errors) as u64;
        let reason = extent.limit.map(|_| TruncatedReason::MaxOutputBytes);
        FilesResponse {
            path: whole.path.clone(),
            query: whole.query.clone(),
            matches: Vec::new(),
            returned: extent.results,
            truncated: whole.truncated || reason.is_some(),
            truncated_reason: reason.or(whole.truncated_reason),
            stats: FilesStats {
                lines_shortened: Some(shortened).filter(|lines| *lines > 0),
                errors_left_out: Some(left_out).filter(|errors| *errors > 0),
                ..whole.stats.clone()
            },
            errors: whole.errors.iter().take(extent.errors).cloned().collect(),
            ..*whole
        }
    }
}

impl Draft for FilesDraft<'_> {
    const RESULTS: &'static str = "matches";

    fn whole(&self) -> Extent {
        let lines = self.files.iter().flat_map(|file| &file.outcome.lines);
        Extent {
            line: self.shape.max_line_bytes,
            results: lines.map(|line| line.spans.len()).sum(),
            errors: self.response.errors.len(),
            limit: self.limit,
        }
    }

    fn pieces(&self, line: Option<usize>) -> impl Iterator<Item = Piece> + '_ {
        let matches = self.matches(line).enumerate();
        matches.map(|(nth, (one, shortened))| Piece {
            bytes: json_len_of(&one) + usize::from(nth > 0),
            shortened,
        })
    }

    fn frame(&self, extent: Extent, shortened: u64) -> usize {
        json_len_of(&self.bare(extent, shortened))
    }
}
