//! Fitting a response into a number of bytes.
//!
//! Owns which events go when not all of them fit: those at the end, so that what is left is a prefix. It
//! knows nothing of how they were found.

use crate::tool::error::{DenialReason, ToolError};
use crate::tool::render::{Note, closing_note, push_line};
use crate::tool::response::{ErrorEntry, SearchResponse, json_len};

/// What is set aside for `stats` where there are any, in bytes: more than they ever have. Their real length depends on
/// the time that a search took and on the index, and which events fit must not.
const STATS_BYTES: usize = 1_024;

/// Writes `content`, and drops events from the end until the response fits `budget` bytes of JSON. Linear in
/// the size of the response.
pub(crate) fn fit(
    mut response: SearchResponse,
    notes: Vec<Note>,
    budget: Option<usize>,
) -> Result<SearchResponse, ToolError> {
    let stats = response.stats.take();
    let aside = if stats.is_some() { STATS_BYTES } else { 0 };
    let mut response = fit_beside(response, notes, budget, aside)?;
    response.stats = stats;
    Ok(response)
}

/// Fits what there is besides `aside` bytes.
fn fit_beside(
    mut response: SearchResponse,
    mut notes: Vec<Note>,
    budget: Option<usize>,
    aside: usize,
) -> Result<SearchResponse, ToolError> {
    let mut content = String::new();
    // Where the line of each event ends.
    let mut ends = Vec::with_capacity(response.matches.len());
    for record in &response.matches {
        push_line(&mut content, record);
        ends.push(content.len());
    }
    let note = closing_note(&notes);
    let Some(budget) = budget else {
        response.content = content + &note;
        return Ok(response);
    };
    let matches = std::mem::take(&mut response.matches);
    let mut start = 0;
    let sizes: Vec<usize> = matches
        .iter()
        .zip(&ends)
        .map(|(record, &end)| {
            let line = content.get(start..end).unwrap_or_default();
            start = end;
            let record = serde_json::to_string(record).map_or(usize::MAX / 4, |json| json.len());
            record + 1 + json_len(line)
        })
        .collect();
    // Everything but the events, with the count written as wide as it can become.
    let base = |response: &mut SearchResponse, note: &str| {
        response.content = note.to_string();
        response.to_json().len() + aside
    };
    // A comma stands between records, none before the first.
    let all = sizes.iter().sum::<usize>().saturating_sub(1);
    if base(&mut response, &note) + all <= budget {
        response.content = content + &note;
        response.matches = matches;
        return Ok(response);
    }
    notes.retain(|note| !matches!(note, Note::MaxResults(_)));
    notes.push(Note::Bytes(budget));
    let note = closing_note(&notes);
    response.truncated = true;
    let room = base(&mut response, &note);
    let mut room = without_errors(&mut response.errors, room, budget, "events")?;
    let mut kept = 0;
    while kept < sizes.len() && room + sizes[kept] <= budget {
        room += sizes[kept];
        kept += 1;
    }
    content.truncate(kept.checked_sub(1).map_or(0, |last| ends[last]));
    response.content = content + &note;
    response.matches = matches;
    response.matches.truncate(kept);
    response.count = kept;
    Ok(response)
}

/// Drops errors from the end until a response that takes `room` bytes without its `results` fits; returns what it takes then. They go only where
/// they alone are too much: without them an answer would look cleaner than it is. Linear in what is dropped.
///
/// # Errors
///
/// Not even without errors it fits.
pub(crate) fn without_errors(
    errors: &mut Vec<ErrorEntry>,
    mut room: usize,
    budget: usize,
    results: &str,
) -> Result<usize, ToolError> {
    while room > budget
        && let Some(error) = errors.pop()
    {
        let entry = serde_json::to_string(&error).map_or(0, |json| json.len());
        room -= entry + usize::from(!errors.is_empty());
    }
    if room > budget {
        return Err(DenialReason::LimitsExceeded {
            message: format!(
                "not even a response without {results} fits {budget} bytes; it needs {room}. Allow more output"
            ),
        }
        .into());
    }
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::response::{BuildStats, Stats};

    #[test]
    fn the_longest_stats_are_shorter_than_what_is_set_aside() {
        let longest = Stats {
            stats_version: u32::MAX,
            index_safety_state: "UNCERTAIN".repeat(2),
            index_uncertain_reason: Some("WATCHER_OVERFLOW_DURING_BUILD".repeat(2)),
            index_exclusion_used: false,
            storage_mode: "sqlite".repeat(2),
            storage_fallback_reason: Some("PERSISTENCE_NOT_PERMITTED".repeat(2)),
            fallback_used: false,
            fallback_reason: Some("PERSISTENCE_NOT_PERMITTED".repeat(2)),
            fuzzy_levels_tried: vec![1, 2, 3, 4],
            fallback_skipped_reason: Some("CAPABILITY_MISSING".repeat(2)),
            fallback_passes_skipped: 4,
            elapsed_ms: u64::MAX,
            candidates_total: u64::MAX,
            candidates_excluded: u64::MAX,
            candidates_scanned: u64::MAX,
            build: Some(BuildStats {
                build_phase: "ENUMERATE".repeat(2),
                build_files_total: u64::MAX,
                build_files_done: u64::MAX,
                build_elapsed_ms: u64::MAX,
            }),
        };
        let json = serde_json::to_string(&longest).unwrap();
        let len = r#""stats":,"#.len() + json.len();
        assert!(len < STATS_BYTES, "{len} bytes");
    }
}
