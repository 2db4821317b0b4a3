//! From the events of files to matches with the lines around them.

use crate::exec::event::{Event, FileEvents, Found};
use crate::exec::fuzzy::score;
use crate::tool::search_files::response::FilesMatch;
use crate::tool::searcher::slashed;
use crate::tool::shorten::part;

/// How matches are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Lines before and after each of them.
    pub(super) around: u64,
    /// Bytes of a line that are shown, if not all are.
    pub(super) max_line_bytes: Option<usize>,
    /// The characters of the query, if matches have a score.
    pub(super) scored: Option<usize>,
}

/// Makes the matches of files one after the other, as far as these are kept; each takes time in proportion to the lines it shows.
pub(super) fn matches(files: &[FileEvents], shape: Shape) -> impl Iterator<Item = FilesMatch> + '_ {
    let kept = files.iter().take_while(|file| !file.is_left_out);
    let each = kept.flat_map(|file| {
        let events = file.events.iter().enumerate();
        events.flat_map(move |(at, event)| event.each.iter().map(move |found| (file, at, found)))
    });
    each.map(move |(file, at, found)| one(file, at, found, shape))
}

fn one(file: &FileEvents, at: usize, found: &Found, shape: Shape) -> FilesMatch {
    let event = &file.events[at];
    let number = event.line_number;
    let mut shortened = Vec::new();
    let mut shown = |event: &Event, found: Option<(usize, usize)>| {
        let line = &event.line;
        let part = shape.max_line_bytes.and_then(|max| part(line, found, max));
        shortened.extend(part.is_some().then_some(event.line_number));
        part.map_or_else(|| line.to_string(), |part| line[part].to_string())
    };
    let start = usize::try_from(found.column).map_or(0, |column| column.saturating_sub(1));
    let line_text = shown(event, Some((start, start + found.text.len())));
    let is_near = |other: &&Event| other.line_number.abs_diff(number) <= shape.around;
    let before = file.events[..at].iter().rev().take_while(is_near);
    let mut before: Vec<String> = before.map(|event| shown(event, None)).collect();
    before.reverse();
    let after = file.events[at + 1..].iter().take_while(is_near);
    let after = after.map(|event| shown(event, None)).collect();
    let mut match_text = found.text.clone();
    if let Some(max) = shape.max_line_bytes {
        match_text.truncate(match_text.floor_char_boundary(max));
    }
    FilesMatch {
        path: slashed(&file.path),
        line: number,
        column: found.column,
        match_text,
        line_text,
        before,
        after,
        shortened,
        score: shape.scored.map(|chars| {
            let score = score(found.edits, chars, found.text.chars().count());
            // Four digits are enough to tell scores of what people search for apart.
            (score * 10_000.0).round() / 10_000.0
        }),
    }
}
