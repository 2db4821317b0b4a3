//! `--rg-json`: what ripgrep prints with `--json`.
//!
//! Owns which files and how much of each. The format is that of ripgrep's own library, which looks into each file with a match once more: it
//! says where in the file each line begins, and of each line every match.

use std::io::{self, Write};
use std::time::Duration;

use grep_matcher::{LineTerminator, Match, Matcher, NoCaptures};
use grep_printer::{JSON, Stats};
use grep_searcher::{BinaryDetection, SearcherBuilder};
use serde_json::json;

use super::again::Roots;
use super::complain;
use super::printer::every_match;
use super::shapes::files;
use crate::exec::matcher::WorkerMatcher;
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;
use crate::tool::request::SearchRequest;
use crate::tool::response::SearchResponse;

/// Prints a response. Returns false if a file with a match could not be looked into again.
///
/// # Errors
///
/// A request that ripgrep could not have answered, and those of the output.
pub(super) fn print(
    response: &SearchResponse,
    request: &SearchRequest,
    context: (usize, usize),
    roots: &Roots,
    took: Duration,
    out: &mut dyn Write,
) -> Result<bool, super::Failure> {
    let Some(matcher) = every_match(request) else {
        return Err(ToolError::bad_args(
            "--rg-json has no words for approximate matches; use --json",
        )
        .into());
    };
    let matcher = PerLine(matcher);
    let mut is_whole = true;
    let mut stats = Stats::new();
    let mut printer = JSON::new(&mut *out);
    for records in files(response) {
        let (path, name) = (&records[0].data.path.text, records[0].name());
        let lines = records.iter().filter(|record| record.is_match()).count();
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(context.0)
            .after_context(context.1)
            .binary_detection(BinaryDetection::quit(0))
            .max_matches(Some(lines as u64))
            .build();
        let searched = roots.open(name, request.follow).and_then(|file| {
            let mut sink = printer.sink_with_path(&matcher, name);
            searcher.search_file(&matcher, &file, &mut sink)?;
            let found = sink.stats().clone();
            let is_found = found.matched_lines() > 0;
            stats += &found;
            match is_found {
                true => Ok(()),
                false => Err(io::Error::other(
                    "what was found is not there any more, or is approximate; --json tells of it",
                )),
            }
        });
        match searched {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error.into()),
            // It has gone since, say.
            Err(error) => {
                is_whole = false;
                complain(&format!("{}: {error}", escape_controls(path)));
            }
        }
    }
    // What was searched without a match counts, too.
    stats.add_searches(response.files_scanned.saturating_sub(stats.searches()));
    stats.add_elapsed(took);
    let took = json!({
        "secs": took.as_secs(),
        "nanos": took.subsec_nanos(),
        "human": format!("{:.6}s", took.as_secs_f64()),
    });
    let summary = json!({"type": "summary", "data": {"elapsed_total": took, "stats": stats}});
    writeln!(out, "{summary}")?;
    Ok(is_whole)
}

/// Finds matches in lines, of which the library gives more than one.
struct PerLine(WorkerMatcher);

impl PerLine {
    /// Returns where the line around a place begins, and where it ends, without what ends it.
    fn around(haystack: &[u8], at: usize) -> (usize, usize, usize) {
        let start = memchr::memrchr(b'\n', &haystack[..at]).map_or(0, |end| end + 1);
        PerLine::from(haystack, start)
    }

    /// Returns the line that begins at a place, and where the next one does.
    fn from(haystack: &[u8], start: usize) -> (usize, usize, usize) {
        let rest = &haystack[start..];
        let (end, next) = match memchr::memchr(b'\n', rest) {
            Some(end) => (start + end, start + end + 1),
            None => (haystack.len(), haystack.len() + 1),
        };
        // As where it was searched (FR-LS-04a).
        let line = &haystack[start..end];
        let end = start + line.strip_suffix(b"\r").unwrap_or(line).len();
        (start, end, next)
    }
}

impl Matcher for PerLine {
    type Captures = NoCaptures;
    type Error = <WorkerMatcher as Matcher>::Error;

    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, Self::Error> {
        let mut first = None;
        let found = self.try_find_iter_at(haystack, at, |found| {
            first = Some(found);
            Ok::<bool, std::convert::Infallible>(false)
        })?;
        found.unwrap_or_else(|never| match never {});
        Ok(first)
    }

    /// Looks for the ends of each line once, where the default would do so for each match.
    fn try_find_iter_at<F, E>(
        &self,
        haystack: &[u8],
        at: usize,
        mut matched: F,
    ) -> Result<Result<(), E>, Self::Error>
    where
        F: FnMut(Match) -> Result<bool, E>,
    {
        let (mut start, mut end, mut next) = PerLine::around(haystack, at);
        let mut at = at;
        loop {
            let mut goes_on = true;
            let line = &haystack[start..end];
            let from = (at - start).min(line.len());
            let done = self.0.try_find_iter_at(line, from, |found| {
                goes_on = matched(found.offset(start))?;
                Ok(goes_on)
            })?;
            if done.is_err() || !goes_on || next > haystack.len() {
                return Ok(done);
            }
            (start, end, next) = PerLine::from(haystack, next);
            at = start;
        }
    }

    // What it looks at is a line in any case, which the library need not find out by itself.
    fn line_terminator(&self) -> Option<LineTerminator> {
        Some(LineTerminator::byte(b'\n'))
    }

    fn new_captures(&self) -> Result<NoCaptures, Self::Error> {
        Ok(NoCaptures::new())
    }
}
