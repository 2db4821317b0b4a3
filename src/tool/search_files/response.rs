//! The response of the `search_files` tool: its fields, and how it is fitted into a byte budget.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::found::{Shape, matches};
use crate::exec::event::FileAnswer;
use crate::tool::budget::{Draft, Extent, Piece, fit};
use crate::tool::config::{Case, Mode};
use crate::tool::error::ToolError;
use crate::tool::response::{BuildStats, ErrorEntry, IndexUse, json_len_of};

/// A response of the `search_files` tool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FilesResponse {
    /// The path as requested, with forward slashes.
    pub path: String,
    /// The query as requested.
    pub query: String,
    /// How it was looked for: `fuzzy` if what was found is what fuzzy fallback has found (`FR-SFI-OUT-02`).
    pub mode: Mode,
    /// How letters were compared.
    pub case: Case,
    /// The matches, by path, line and column (`FR-SFI-PRE-04`).
    pub matches: Vec<FilesMatch>,
    /// Their number.
    pub returned: usize,
    /// How many there could be.
    pub max_results: usize,
    /// Whether something is missing because of a limit.
    pub truncated: bool,
    /// Because of which.
    pub truncated_reason: Option<TruncatedReason>,
    /// Diagnostics.
    pub stats: FilesStats,
    /// Files and directories that could not be searched, in the order of their paths.
    pub errors: Vec<ErrorEntry>,
}

/// Which limit cut a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TruncatedReason {
    /// There are more matches than that.
    MaxResults,
    /// More bytes than the output may have.
    MaxOutputBytes,
    /// There are more files than that.
    MaxFiles,
    /// In some file more matches exist than that.
    MaxMatchesPerFile,
    /// Some eligible file lies in a deeper directory than that.
    MaxDepth,
}

/// One match.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FilesMatch {
    /// The file, relative to the requested directory, with forward slashes.
    pub path: String,
    /// The 1-based number of the line.
    pub line: u64,
    /// The 1-based byte offset in the line.
    pub column: u64,
    /// What matched.
    pub match_text: String,
    /// The line without its terminator.
    pub line_text: String,
    /// The lines before it.
    pub before: Vec<String>,
    /// The lines after it.
    pub after: Vec<String>,
    /// The share of characters that need no edit, in fuzzy mode.
    pub score: Option<f64>,
    /// The numbers of those of its lines that are shown in part.
    #[serde(skip)]
    pub shortened: Vec<u64>,
}

/// Diagnostics. Consumers must tolerate further fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct FilesStats {
    /// Eligible files up to and including the one in which the search ended.
    pub files_scanned: u64,
    /// Files with matches, also such as did not fit the output.
    pub files_matched: u64,
    /// Matches, also such as did not fit the output; with the reason `max_results` there are more.
    pub matches_total: u64,
    /// Wall-clock time of the call in milliseconds; best effort.
    pub elapsed_ms: u64,
    /// Lines that are shown in part, since they are longer than `max_line_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_shortened: Option<u64>,
    /// Entries that `errors` would have, and that did not fit the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors_left_out: Option<u64>,
    /// Files that are larger than `max_file_size_bytes`, each with an entry in `errors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_too_large: Option<u64>,
    /// What came of fuzzy fallback, where it was tried (`FR-SFI-OUT-04`).
    #[serde(flatten)]
    pub fallback: Option<FallbackStats>,
    /// What an index had to do with it, when configured.
    #[serde(flatten)]
    pub index: Option<IndexStats>,
}

/// What came of fuzzy fallback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FallbackStats {
    /// The mode that was asked for: `exact`.
    pub initial_mode: Mode,
    /// Whether passes were run.
    pub fallback_used: bool,
    /// How many.
    pub fuzzy_passes_used: u64,
    /// Why there were no more, where that is not because of a match or of their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_ended: Option<FallbackEnd>,
}

/// Why fuzzy fallback ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FallbackEnd {
    /// No time was left.
    Timeout,
    /// The query is too long for it.
    QueryTooLong,
    /// It failed.
    Failed,
}

/// What an index had to do with a response; all but the fields of a build is as in the `stats` of the tool `Search`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexStats {
    /// The state of the index.
    pub index_safety_state: String,
    /// Why the index is uncertain or disabled.
    pub index_uncertain_reason: Option<String>,
    /// Whether the index was used to leave files out, even if in the end there were none.
    pub index_exclusion_used: bool,
    /// Where the index is kept: `none`, `memory`, `mmap` or `sqlite`.
    pub storage_mode: String,
    /// Why the index is kept elsewhere than configured.
    pub storage_fallback_reason: Option<String>,
    /// Eligible files up to where the search ended.
    pub candidates_total: u64,
    /// Of these, left out because of the index.
    pub candidates_excluded: u64,
    /// Of these, searched.
    pub candidates_scanned: u64,
    /// How far the build of the index is; all its fields are absent while none runs.
    #[serde(flatten)]
    pub build: Option<BuildStats>,
}

impl IndexStats {
    /// Builds the index fields of a search with `total` eligible files, of which `excluded` were
    /// excluded.
    pub(super) fn new(index: IndexUse, total: u64, excluded: u64) -> IndexStats {
        IndexStats {
            index_safety_state: index.standing.state().as_str().to_string(),
            index_uncertain_reason: index.standing.reason().map(str::to_string),
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
    /// Builds the response, in at most `budget` bytes of JSON.
    ///
    /// # Errors
    ///
    /// `DenialReason::LimitsExceeded` if not even a response without matches fits the budget.
    pub(super) fn fit(self, budget: usize) -> Result<FilesResponse, ToolError> {
        let extent = fit(&self, Some(budget))?;
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
