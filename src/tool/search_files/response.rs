//! The response of the `search_files` tool: its fields, and how it fits a number of bytes.
//!
//! Owns which matches go when not all of them fit: those at the end. It does not search.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::found::{Shape, matches};
use crate::exec::event::FileAnswer;
use crate::tool::budget::{SHORTER, too_small};
use crate::tool::config::{Case, Mode};
use crate::tool::error::ToolError;
use crate::tool::response::{BuildStats, ErrorEntry, IndexUse};

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
    /// Makes the diagnostics of a search for which `total` eligible files counted, `excluded` of them left out.
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

/// The bytes of JSON that a response has at most, whatever is allowed: each match has its line, and a line can be as long as a file.
pub(super) const LARGEST: usize = 64 << 20;

impl FilesResponse {
    /// Returns the response as one line of JSON.
    pub fn to_json(&self) -> String {
        // Serialising plain strings and numbers can't fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the response with these matches.
    fn with(&self, matches: Vec<FilesMatch>) -> FilesResponse {
        let mut response = FilesResponse {
            returned: matches.len(),
            matches,
            path: self.path.clone(),
            query: self.query.clone(),
            stats: self.stats.clone(),
            errors: self.errors.clone(),
            ..*self
        };
        response.stats.lines_shortened = response.lines_shortened();
        response
    }

    /// Counts the lines that are shown in part, each once.
    fn lines_shortened(&self) -> Option<u64> {
        let lines: BTreeSet<(&str, u64)> = self
            .matches
            .iter()
            .flat_map(|one| one.shortened.iter().map(|line| (one.path.as_str(), *line)))
            .collect();
        Some(lines.len() as u64).filter(|lines| *lines > 0)
    }
}

/// Adds the matches of files to a response that has everything else, in at most `budget` bytes of
/// JSON. If they do not fit, first the ends of long lines give way, then the matches at the end.
/// Where errors are many, matches have three quarters of the room if they need it. `is_whole` is
/// false if there are more matches than those of the files. Linear in the response.
///
/// # Errors
///
/// A budget that not even a response without matches fits.
pub(super) fn fill(
    response: FilesResponse,
    files: &[FileAnswer],
    shape: Shape,
    is_whole: bool,
    budget: usize,
) -> Result<FilesResponse, ToolError> {
    let whole = shape.max_line_bytes;
    let shorter = SHORTER
        .into_iter()
        .filter(|most| whole.is_none_or(|whole| *most < whole));
    let mut bare = response.with(Vec::new());
    bare.errors.clear();
    let base = length(&bare);
    // The matches that fit, and the length of each as JSON.
    let (mut last, mut lens) = (Vec::new(), Vec::new());
    for most in [whole].into_iter().chain(shorter.map(Some)) {
        let shape = Shape {
            max_line_bytes: most,
            ..shape
        };
        let mut room = base;
        let mut is_all = is_whole;
        (last, lens) = (Vec::new(), Vec::new());
        for one in matches(files, shape) {
            let len = length(&one);
            let with_comma = len + usize::from(!last.is_empty());
            if room + with_comma > budget {
                is_all = false;
                break;
            }
            room += with_comma;
            last.push(one);
            lens.push(len);
        }
        if is_all {
            let filled = response.with(std::mem::take(&mut last));
            if length(&filled) <= budget {
                return Ok(filled);
            }
            last = filled.matches;
        }
        if !is_whole {
            break;
        }
    }
    cut(response, last, &lens, budget)
}

/// Adds as many of the matches, from the first on, as fit; `lens` are their lengths as JSON.
fn cut(
    mut response: FilesResponse,
    matches: Vec<FilesMatch>,
    lens: &[usize],
    budget: usize,
) -> Result<FilesResponse, ToolError> {
    response.truncated = true;
    response.truncated_reason = Some(TruncatedReason::MaxOutputBytes);
    let errors = std::mem::take(&mut response.errors);
    let base = length(&response.with(Vec::new()));
    if base > budget {
        return Err(too_small(budget, "matches", |_| base));
    }
    let room = budget - base;
    let comma = |len: usize| len + 1;
    let of_matches: usize = lens.iter().map(|len| comma(*len)).sum();
    let for_errors = room.div_ceil(4).max(room.saturating_sub(list(of_matches)));
    let kept = within(errors.iter().map(|error| comma(length(error))), for_errors);
    response.errors = errors.into_iter().take(kept).collect();
    let room = budget.saturating_sub(length(&response.with(Vec::new())));
    let mut kept = within(lens.iter().map(|len| comma(*len)), room);
    let mut matches = matches;
    loop {
        matches.truncate(kept);
        let filled = response.with(matches);
        // The number of matches, and of lines that are shortened, has digits too.
        if kept == 0 || length(&filled) <= budget {
            return Ok(filled);
        }
        kept -= 1;
        matches = filled.matches;
    }
}

/// Returns the bytes of the entries of a list, given those of all of them with a comma each.
fn list(with_commas: usize) -> usize {
    with_commas.saturating_sub(1)
}

/// Returns how many entries from the first on fit so many bytes.
fn within(lens: impl Iterator<Item = usize>, room: usize) -> usize {
    let mut taken = 0;
    lens.take_while(|len| {
        taken += len;
        list(taken) <= room
    })
    .count()
}

/// The length of a value as JSON.
fn length(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX / 4, |json| json.len())
}
