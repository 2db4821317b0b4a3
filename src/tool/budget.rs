//! Fitting a response into a number of bytes.
//!
//! Owns which events go when not all of them fit: those at the end, so that what is left is a prefix. It
//! knows nothing of how they were found.

use crate::tool::error::{DenialReason, ToolError};
use crate::tool::render::{Cut, closing_note, content_line};
use crate::tool::response::{SearchResponse, json_len};

/// Writes `content`, and drops events from the end until the response fits `budget` bytes of JSON. Linear in
/// the size of the response.
pub(crate) fn fit(
    mut response: SearchResponse,
    mut cuts: Vec<Cut>,
    budget: Option<usize>,
) -> Result<SearchResponse, ToolError> {
    let lines: Vec<String> = response.matches.iter().map(content_line).collect();
    let note = closing_note(&cuts);
    let compose = |lines: &[String], note: &str| {
        let mut content =
            String::with_capacity(lines.iter().map(String::len).sum::<usize>() + note.len());
        lines.iter().for_each(|line| content.push_str(line));
        content.push_str(note);
        content
    };
    let Some(budget) = budget else {
        response.content = compose(&lines, &note);
        return Ok(response);
    };
    let matches = std::mem::take(&mut response.matches);
    let sizes: Vec<usize> = matches
        .iter()
        .zip(&lines)
        .map(|(record, line)| {
            let record = serde_json::to_string(record).map_or(usize::MAX / 4, |json| json.len());
            record + 1 + json_len(line)
        })
        .collect();
    // Everything but the events, with the count written as wide as it can become.
    let base = |response: &mut SearchResponse, note: &str| {
        response.content = note.to_string();
        response.to_json().len()
    };
    // A comma stands between records, none before the first.
    let all = sizes.iter().sum::<usize>().saturating_sub(1);
    if base(&mut response, &note) + all <= budget {
        response.content = compose(&lines, &note);
        response.matches = matches;
        return Ok(response);
    }
    cuts.retain(|cut| !matches!(cut, Cut::MaxResults(_)));
    cuts.push(Cut::Bytes(budget));
    let note = closing_note(&cuts);
    response.truncated = true;
    let mut room = base(&mut response, &note);
    // Errors go only where they alone are too much: without them an answer would look cleaner than it is.
    while room > budget
        && let Some(error) = response.errors.pop()
    {
        let entry = serde_json::to_string(&error).map_or(0, |json| json.len());
        room -= entry + usize::from(!response.errors.is_empty());
    }
    if room > budget {
        return Err(DenialReason::LimitsExceeded {
            message: format!(
                "not even a response without events fits {budget} bytes; it needs {room}. Allow more output"
            ),
        }
        .into());
    }
    let mut kept = 0;
    while kept < sizes.len() && room + sizes[kept] <= budget {
        room += sizes[kept];
        kept += 1;
    }
    response.content = compose(&lines[..kept], &note);
    response.matches = matches;
    response.matches.truncate(kept);
    response.count = kept;
    Ok(response)
}
