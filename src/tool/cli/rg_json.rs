//! `--rg-json`: what ripgrep prints with `--json`.
//!
//! Owns which files and how much of each. The format is that of ripgrep's own library, which looks into each file with a match once more: it
//! says where in the file each line begins, and of each line every match.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use grep_matcher::{Match, Matcher, NoCaptures};
use grep_printer::{JSON, Stats};
use grep_searcher::{BinaryDetection, SearcherBuilder};
use serde_json::json;

use super::complain;
use super::printer::every_match;
use super::shapes::files;
use crate::exec::matcher::WorkerMatcher;
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;
use crate::tool::request::SearchRequest;
use crate::tool::response::SearchResponse;

/// Prints a response. `root` is what its paths are relative to.
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
) -> Result<(), super::Failure> {
    let Some(matcher) = every_match(request) else {
        return Err(ToolError::bad_args(
            "--rg-json has no words for approximate matches; use --json",
        )
        .into());
    };
    let matcher = PerLine(matcher);
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
        let mut sink = printer.sink_with_path(&matcher, path);
        let searched = File::open(root.join(path))
            .and_then(|file| searcher.search_file(&matcher, &file, &mut sink));
        stats += sink.stats();
        match searched {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error.into()),
            // It has gone since.
            Err(error) => complain(&format!("{}: {error}", escape_controls(path))),
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
    Ok(())
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

    fn new_captures(&self) -> Result<NoCaptures, Self::Error> {
        Ok(NoCaptures::new())
    }
}
