//! Writes the results of a ranked search, within the caps and within the budget of the query.

use super::super::limits::Remarks;
use super::super::reply::{Found, Score};
use super::super::request::{BYTES_PER_TOKEN, SearchQuery};
use crate::exec::rank::{Ranked, Reason, Selection, head_of};
use crate::tool::config::DaemonConfig;
use crate::tool::render::{escape_lines, escape_name};
use crate::tool::searcher::to_usize;

/// A result before it is written.
#[derive(Clone, Debug)]
pub(super) struct ResultDraft {
    pub(super) path: String,
    pub(super) lossy: bool,
    pub(super) text: String,
    /// The offset of the first hit in the text.
    pub(super) at: usize,
    pub(super) start_line: u64,
    pub(super) end_line: u64,
    pub(super) defines: bool,
    pub(super) why: Vec<Reason>,
    pub(super) is_anchor: bool,
    /// Whether its file has as many better places as the answer may have of a file.
    pub(super) is_surplus: bool,
}

impl ResultDraft {
    /// Escapes control characters in the path and the text.
    fn escaped(self) -> ResultDraft {
        let at = self
            .text
            .get(..self.at)
            .map_or(0, |text| escape_lines(text).len());
        ResultDraft {
            path: escape_name(&self.path).into_owned(),
            text: escape_lines(&self.text).into_owned(),
            at,
            ..self
        }
    }
}

/// Builds the results within the caps on snippets. Unless the query wants raw text, control
/// characters are escaped.
///
/// With a budget, results are whole as long as they fit. Of the first one that does not, the lines
/// from its head on are shown, as many as fit. The budget is spent then. So a larger budget never
/// shows less.
pub(super) fn written(
    selection: Selection<ResultDraft>,
    per_file: u64,
    query: &SearchQuery,
    caps: &DaemonConfig,
    remarks: &mut Remarks,
) -> Vec<Found> {
    let Selection {
        chosen,
        first_surplus,
    } = selection;
    let most = chosen.first().map_or(1, |one| one.score.max(1));
    let mut left = to_usize(caps.max_total_snippet_bytes);
    let each = to_usize(caps.max_snippet_bytes_per_result);
    let budget = query.budget.unwrap_or(u64::MAX);
    let mut unspent = to_usize(budget.saturating_mul(BYTES_PER_TOKEN));
    let mut results = Vec::with_capacity(chosen.len());
    for Ranked { score, item, .. } in chosen {
        let item = if query.raw { item } else { item.escaped() };
        if item.lossy {
            let message = "some bytes are not valid UTF-8 and are shown as U+FFFD";
            remarks.warn("invalid_utf8", message, Some(&item.path));
        }
        let whole = item.text.len();
        if whole > each {
            let (cap, seen) = (each as u64, Some(whole as u64));
            remarks.limit("max_snippet_bytes_per_result", cap, seen, Some(&item.path));
        }
        if whole.min(each) > left {
            let cap = caps.max_total_snippet_bytes;
            remarks.limit("max_total_snippet_bytes", cap, None, None);
        }
        let shown = char_window(&item.text, item.at, each.min(left));
        let feeds = |text: &str| text.matches('\n').count() as u64;
        let start_line = item.start_line + feeds(&item.text[..shown.start]);
        // Without a snippet the lines are those of the whole place.
        let end_line = match shown.is_empty() {
            true => item.end_line,
            false => item.end_line - feeds(&item.text[shown.end..]),
        };
        let content = item.text[shown].to_string();
        left -= content.len();
        let found = Found {
            path: item.path,
            score: Score(score),
            match_pct: score * 100 / most,
            content,
            chunk_type: match item.defines {
                true => "definition".to_string(),
                false => "content".to_string(),
            },
            why: item.why,
            start_line: start_line.min(end_line),
            end_line,
            is_anchor: item.is_anchor,
        };
        let (found, is_whole) = within(found, &mut unspent);
        results.extend(found);
        if !is_whole {
            remarks.limit("budget", budget, None, None);
            break;
        }
    }
    // The budget may have ended the answer before the first surplus place.
    if first_surplus.is_some_and(|at| at <= results.len()) {
        remarks.limit("per_file", per_file, None, None);
    }
    results
}

/// Returns a result whole, and true, if it fits the budget, and takes its bytes off. Otherwise
/// returns the lines from its head on that fit, if there are any, and false.
fn within(found: Found, unspent: &mut usize) -> (Option<Found>, bool) {
    let heading = found.path.len() + 1;
    let numbered = (found.start_line..).zip(found.content.lines());
    let whole: usize = numbered.map(|(number, line)| cost(number, line)).sum();
    if heading + whole <= *unspent {
        *unspent -= heading + whole;
        return (Some(found), true);
    }
    let room = unspent.checked_sub(heading);
    (room.and_then(|room| from_head(found, room)), false)
}

/// Returns the lines of a result from its head on that fit into some bytes, if there are any.
fn from_head(found: Found, mut room: usize) -> Option<Found> {
    let head = head_of(&found.content, &found.path);
    let first = found.start_line + head as u64;
    let mut kept: Vec<&str> = Vec::new();
    for (number, line) in (first..).zip(found.content.lines().skip(head)) {
        let Some(rest) = room.checked_sub(cost(number, line)) else {
            break;
        };
        room = rest;
        kept.push(line);
    }
    let last = first + (kept.len() as u64).checked_sub(1)?;
    Some(Found {
        content: kept.join("\n"),
        start_line: first,
        end_line: last,
        ..found
    })
}

/// Returns the bytes of a line with its number.
fn cost(number: u64, line: &str) -> usize {
    number.to_string().len() + 1 + line.len() + 1
}

/// Returns a range of at most `most` bytes around an offset, a quarter of it before the offset. It
/// begins and ends at character boundaries.
fn char_window(text: &str, at: usize, most: usize) -> std::ops::Range<usize> {
    if text.len() <= most {
        return 0..text.len();
    }
    let start = at.saturating_sub(most / 4).min(text.len() - most);
    let start = text.ceil_char_boundary(start);
    start
        ..text
            .floor_char_boundary(start.saturating_add(most).min(text.len()))
            .max(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::rank::Bucket;
    use crate::tool::config::Config;

    /// Writes one result of 21 bytes for a budget, and returns its content and whether the budget
    /// was reported.
    fn shown(budget: u64) -> (Vec<String>, bool) {
        let item = ResultDraft {
            path: "a.rs".to_string(),
            lossy: false,
            text: "fn a() {\n}".to_string(),
            at: 3,
            start_line: 9,
            end_line: 10,
            defines: true,
            why: vec![Reason::DefinedHere],
            is_anchor: true,
            is_surplus: false,
        };
        let one = Ranked {
            score: 1,
            lexical: 1,
            path_key: b"a.rs".to_vec(),
            start: 0,
            row: 0,
            bucket: Bucket::of("a.rs"),
            item,
        };
        let query = SearchQuery {
            budget: Some(budget),
            ..SearchQuery::new("a")
        };
        let config = Config::command_line_default().daemon;
        let mut remarks = Remarks::default();
        let selection = Selection {
            chosen: vec![one],
            first_surplus: None,
        };
        let found = written(selection, 3, &query, &config, &mut remarks);
        let (limits, _) = remarks.into_parts();
        assert!(limits.iter().all(|hit| hit.code == "budget"));
        let contents = found.into_iter().map(|one| one.content);
        (contents.collect(), !limits.is_empty())
    }

    #[test]
    fn a_result_that_fits_exactly_is_whole() {
        assert_eq!(shown(7), (vec!["fn a() {\n}".to_string()], false));
        assert_eq!(shown(6), (vec!["fn a() {".to_string()], true));
        assert_eq!(shown(5), (Vec::new(), true));
    }
}
