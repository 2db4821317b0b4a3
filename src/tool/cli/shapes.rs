//! Answers in other shapes than lines: paths, counts, a line for each match; and in another order.
//!
//! Owns how they are printed. What was found is a response as ever.

use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use grep_matcher::Matcher;

use super::args::SortBy;
use super::patterns::types;
use super::printer::every_match;
use crate::tool::render::escape_controls;
use crate::tool::request::SearchRequest;
use crate::tool::response::{Record, SearchResponse};

/// Prints each path once, with the number of lines that match if that is wanted.
pub(super) fn print_paths(
    response: &SearchResponse,
    with_count: bool,
    ends_with_zero: bool,
    raw: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    for records in files(response) {
        let path = &records[0].data.path.text;
        // A name is one line, unless it is for a program that knows where it ends.
        match raw || ends_with_zero {
            true => out.write_all(path.as_bytes())?,
            false => out.write_all(escape_controls(path).as_bytes())?,
        }
        if ends_with_zero {
            out.write_all(b"\0")?;
        }
        if with_count {
            let count = records.iter().filter(|one| one.is_match()).count();
            let separator = if ends_with_zero { "" } else { ":" };
            writeln!(out, "{separator}{count}")?;
        } else if !ends_with_zero {
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Prints a line for each match.
pub(super) fn print_each_match(
    response: &SearchResponse,
    request: &SearchRequest,
    raw: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let matcher = every_match(request);
    let shown = |text: &str| match raw {
        true => text.to_string(),
        false => escape_controls(text).into_owned(),
    };
    for record in response.matches.iter().filter(|record| record.is_match()) {
        let data = &record.data;
        let mut columns = vec![data.column.unwrap_or(1)];
        if let Some(matcher) = &matcher {
            let mut further = Vec::new();
            // It was not told to stop.
            let _ = matcher.find_iter(data.lines.text.as_bytes(), |found| {
                further.push(found.start() as u64 + 1);
                true
            });
            // Of the first one the response says where it is in the file itself, where bytes that are no UTF-8 are shorter.
            columns.extend(further.into_iter().skip(1));
        }
        for column in columns {
            let (path, text) = (shown(&data.path.text), shown(&data.lines.text));
            writeln!(out, "{path}:{}:{column}:{text}", data.line_number)?;
        }
    }
    Ok(())
}

/// Prints the types of files, with their globs.
pub(super) fn print_types(out: &mut dyn Write) -> io::Result<()> {
    for one in types() {
        writeln!(out, "{}: {}", one.name(), one.globs().join(", "))?;
    }
    Ok(())
}

/// Puts the files of a response into another order, and leaves of it what there may be. Returns true if something was left out.
pub(super) fn sort(
    response: &mut SearchResponse,
    by: SortBy,
    reversed: bool,
    root: &Path,
    most: usize,
) -> bool {
    let mut groups: Vec<Vec<Record>> = files(response).map(<[Record]>::to_vec).collect();
    if by == SortBy::Modified {
        let modified = |records: &Vec<Record>| -> Option<SystemTime> {
            let path = root.join(&records[0].data.path.text);
            // One that is gone by now comes first.
            path.metadata().and_then(|meta| meta.modified()).ok()
        };
        groups.sort_by_cached_key(modified);
    }
    if reversed {
        groups.reverse();
    }
    response.matches = groups.into_iter().flatten().collect();
    let is_cut = response.matches.len() > most;
    response.matches.truncate(most);
    response.count = response.matches.len();
    is_cut
}

/// Returns the events of each file.
pub(super) fn files(response: &SearchResponse) -> impl Iterator<Item = &[Record]> {
    response.matches.chunk_by(|a, b| a.data.path == b.data.path)
}
