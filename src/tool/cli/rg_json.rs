//! `--rg-json`: what ripgrep prints with `--json`.
//!
//! Owns which files and how much of each. The format is that of ripgrep's own library, which looks into each file with a match once more: it
//! says where in the file each line begins, and of each line every match.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use grep_matcher::{LineTerminator, Match, Matcher, NoCaptures};
use grep_printer::{JSON, Stats};
use grep_searcher::{BinaryDetection, SearcherBuilder};
use serde_json::json;

use super::again::open;
use super::complain;
use super::printer::every_match;
use super::shapes::files;
use crate::exec::matcher::WorkerMatcher;
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;
use crate::tool::request::SearchRequest;
use crate::tool::response::SearchResponse;

/// Prints a response. `root` is what its paths are relative to. Returns false if a file with a match could not be looked into again.
///
/// # Errors
///
/// A request that ripgrep could not have answered, and those of the output.
pub(super) fn print(
    response: &SearchResponse,
    request: &SearchRequest,
    context: (usize, usize),
    root: &Path,
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
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut is_whole = true;
    let mut stats = Stats::new();
    let mut printer = JSON::new(&mut *out);
    for records in files(response) {
        let path = &records[0].data.path.text;
        let lines = records.iter().filter(|record| record.is_match()).count();
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(context.0)
            .after_context(context.1)
            .binary_detection(BinaryDetection::quit(0))
            .max_matches(Some(lines as u64))
            .build();
        let searched = open(&root, path, request.follow).and_then(|(name, file)| {
            let mut sink = printer.sink_with_path(&matcher, &name);
            let searched = searcher.search_file(&matcher, &file, &mut sink);
            stats += sink.stats();
            searched
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

impl Matcher for PerLine {
    type Captures = NoCaptures;
    type Error = <WorkerMatcher as Matcher>::Error;

    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, Self::Error> {
        let mut start = memchr::memrchr(b'\n', &haystack[..at]).map_or(0, |end| end + 1);
        let mut at = at;
        loop {
            let end =
                memchr::memchr(b'\n', &haystack[start..]).map_or(haystack.len(), |n| start + n);
            let line = &haystack[start..end];
            if let Some(found) = self.0.find_at(line, (at - start).min(line.len()))? {
                return Ok(Some(found.offset(start)));
            }
            if end == haystack.len() {
                return Ok(None);
            }
            start = end + 1;
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
