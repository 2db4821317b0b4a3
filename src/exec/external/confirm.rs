//! Confirms the reports of another program: from line numbers to matching lines.
//!
//! A program only reports which lines of a file may match. This module decides whether they match
//! and where, and finds their context lines. It uses the same matcher, searcher and limits as a
//! search without reports. So a wrong report costs time, but never shows a line that does not
//! match.
//!
//! Approximate matches are the exception: they can't be found in process. For them this module only
//! checks that the reported text stands at the reported place. It does not know which program
//! reported a line.

use std::cell::Cell;

use grep_matcher::{LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use memchr::{memchr, memchr_iter};

use crate::exec::answer::outcome::{LineSpans, Span};
use crate::exec::matching::matcher::{Stopped, WorkerMatcher};
use crate::exec::question::query::Spans;
use crate::exec::stop::Stop;
use crate::index::text::without_terminator;

/// A matcher that decides which lines of a text match.
pub(crate) trait Lines: Matcher<Error = Stopped> {
    /// Finds at most `most` matches of the wanted kind in a line without its terminator.
    fn matches(
        &self,
        line_number: u64,
        line: &[u8],
        wanted: Spans,
        most: usize,
    ) -> Result<LineSpans, Stopped>;
}

impl Lines for WorkerMatcher {
    fn matches(
        &self,
        _: u64,
        line: &[u8],
        wanted: Spans,
        most: usize,
    ) -> Result<LineSpans, Stopped> {
        self.spans_in_line(line, wanted, most)
    }
}

/// The lines of a file to look at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LineSelection<'a> {
    /// All lines of the file.
    All,
    /// The lines that were reported to match.
    Reported(&'a Reported),
    /// The places that were reported to match approximately, ascending by line.
    Approximate(&'a [Approximate]),
}

/// Lines of a file that may match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reported {
    /// Their 1-based numbers, ascending.
    pub(crate) lines: Vec<u64>,
    /// Whether every line after the last of them may match too.
    pub(crate) and_rest: bool,
}

/// A place in a file that was reported to match approximately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Approximate {
    /// The 1-based number of the line.
    pub(crate) line: u64,
    /// The start of the match, in bytes of the decoded text.
    pub(crate) start: usize,
    /// The text of the match.
    pub(crate) text: Vec<u8>,
}

/// Finds the starts of lines, in ascending order, in one pass.
#[derive(Debug)]
struct LineStarts<'a> {
    text: &'a [u8],
    line: Cell<u64>,
    start: Cell<usize>,
}

impl<'a> LineStarts<'a> {
    fn new(text: &'a [u8]) -> LineStarts<'a> {
        LineStarts {
            text,
            line: Cell::new(1),
            start: Cell::new(0),
        }
    }

    /// Returns the start of line `number`. Returns the text's length if there is no such line, or
    /// if a later line was looked for before.
    fn seek(&self, number: u64) -> usize {
        let Some(skip) = number.checked_sub(self.line.get()) else {
            return self.text.len();
        };
        if skip > 0 {
            let rest = self.text.get(self.start.get()..).unwrap_or_default();
            let feed = usize::try_from(skip - 1)
                .ok()
                .and_then(|nth| memchr_iter(b'\n', rest).nth(nth));
            self.line.set(number);
            self.start.set(match feed {
                Some(feed) => self.start.get() + feed + 1,
                None => self.text.len(),
            });
        }
        self.start.get()
    }

    /// Returns the line that starts at `start`, without its line feed.
    fn line_at(&self, start: usize) -> &'a [u8] {
        let rest = self.text.get(start..).unwrap_or_default();
        &rest[..memchr(b'\n', rest).unwrap_or(rest.len())]
    }
}

/// A matcher that looks only at reported lines.
///
/// A searcher passes the rest of the text to a matcher. The length of the rest shows where the
/// searcher is.
#[derive(Debug)]
pub(crate) struct ReportedLines<'a> {
    matcher: &'a WorkerMatcher,
    text: &'a [u8],
    reported: &'a Reported,
    starts: LineStarts<'a>,
    next: Cell<usize>,
}

impl<'a> ReportedLines<'a> {
    /// Creates a matcher for `text`, the searched region of a file.
    pub(crate) fn new(
        matcher: &'a WorkerMatcher,
        text: &'a [u8],
        reported: &'a Reported,
    ) -> ReportedLines<'a> {
        ReportedLines {
            matcher,
            text,
            reported,
            starts: LineStarts::new(text),
            next: Cell::new(0),
        }
    }
}

impl Lines for ReportedLines<'_> {
    fn matches(
        &self,
        _: u64,
        line: &[u8],
        wanted: Spans,
        most: usize,
    ) -> Result<LineSpans, Stopped> {
        self.matcher.spans_in_line(line, wanted, most)
    }
}

impl Matcher for ReportedLines<'_> {
    type Captures = NoCaptures;
    type Error = Stopped;

    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, Stopped> {
        self.matcher.find_at(haystack, at)
    }

    fn new_captures(&self) -> Result<NoCaptures, Stopped> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, haystack: &[u8], at: usize) -> Result<Option<usize>, Stopped> {
        self.matcher.shortest_match_at(haystack, at)
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.matcher.line_terminator()
    }

    fn find_candidate_line(&self, haystack: &[u8]) -> Result<Option<LineMatchKind>, Stopped> {
        let from = self.text.len().saturating_sub(haystack.len());
        while let Some(&number) = self.reported.lines.get(self.next.get()) {
            let start = self.starts.seek(number);
            if start >= self.text.len() {
                return Ok(None);
            }
            self.next.set(self.next.get() + 1);
            if start < from {
                continue;
            }
            let line = self.starts.line_at(start);
            if let Some(span) = self.matcher.find_in_line(line)? {
                return Ok(Some(LineMatchKind::Confirmed(start + span.start - from)));
            }
        }
        if !self.reported.and_rest {
            return Ok(None);
        }
        let last = self.reported.lines.last().copied().unwrap_or(0);
        let skip = self.starts.seek(last + 1).saturating_sub(from);
        let rest = haystack.get(skip..).unwrap_or_default();
        Ok(match self.matcher.find_candidate_line(rest)? {
            Some(LineMatchKind::Confirmed(at)) => Some(LineMatchKind::Confirmed(skip + at)),
            Some(LineMatchKind::Candidate(at)) => Some(LineMatchKind::Candidate(skip + at)),
            None => None,
        })
    }
}

/// Reported approximate matches whose text stands at the reported place.
#[derive(Debug)]
pub(crate) struct ApproximateLines<'a> {
    text: &'a [u8],
    matches: Vec<PlacedMatch>,
    next: Cell<usize>,
    stop: &'a Stop,
}

#[derive(Clone, Copy, Debug)]
struct PlacedMatch {
    line: u64,
    line_start: usize,
    start: usize,
    end: usize,
}

impl<'a> ApproximateLines<'a> {
    /// Creates a matcher for `text`, the searched region of a file. Keeps the reports whose text
    /// stands in `text` where they say, at most one for each line, the first. A match that reaches
    /// into a line's terminator is cut before it.
    pub(crate) fn new(
        text: &'a [u8],
        reported: &[Approximate],
        stop: &'a Stop,
    ) -> ApproximateLines<'a> {
        let starts = LineStarts::new(text);
        let mut matches: Vec<PlacedMatch> = Vec::with_capacity(reported.len());
        for report in reported {
            let line_start = starts.seek(report.line);
            let line = without_terminator(starts.line_at(line_start));
            let end = report.start.saturating_add(report.text.len());
            let true_to_text = line_start <= report.start
                && text.get(report.start..end) == Some(report.text.as_slice());
            let placed = PlacedMatch {
                line: report.line,
                line_start,
                start: report.start.saturating_sub(line_start),
                end: end.saturating_sub(line_start).min(line.len()),
            };
            // A match that contains the line feed belongs to no single line.
            let within = end <= line_start + starts.line_at(line_start).len();
            let is_new = matches.last().is_none_or(|last| last.line < report.line);
            if true_to_text && within && is_new && placed.start < placed.end {
                matches.push(placed);
            }
        }
        ApproximateLines {
            text,
            matches,
            next: Cell::new(0),
            stop,
        }
    }

    fn on_line(&self, number: u64) -> Option<PlacedMatch> {
        let at = self
            .matches
            .binary_search_by_key(&number, |placed| placed.line)
            .ok()?;
        self.matches.get(at).copied()
    }
}

impl Lines for ApproximateLines<'_> {
    /// The program reports one match for each line, and no number of edits.
    fn matches(&self, number: u64, _: &[u8], _: Spans, _: usize) -> Result<LineSpans, Stopped> {
        let span = self.on_line(number).map(|placed| Span {
            start: placed.start,
            end: placed.end,
            edits: 0,
        });
        Ok(span.into_iter().collect())
    }
}

impl Matcher for ApproximateLines<'_> {
    type Captures = NoCaptures;
    type Error = Stopped;

    /// Never called: a searcher looks for candidate lines, and gets confirmed ones.
    fn find_at(&self, _: &[u8], _: usize) -> Result<Option<Match>, Stopped> {
        Ok(None)
    }

    fn new_captures(&self) -> Result<NoCaptures, Stopped> {
        Ok(NoCaptures::new())
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        Some(LineTerminator::byte(b'\n'))
    }

    fn find_candidate_line(&self, haystack: &[u8]) -> Result<Option<LineMatchKind>, Stopped> {
        if self.stop.is_raised() {
            return Err(Stopped);
        }
        let from = self.text.len().saturating_sub(haystack.len());
        while let Some(placed) = self.matches.get(self.next.get()) {
            self.next.set(self.next.get() + 1);
            if placed.line_start >= from {
                let at = placed.line_start + placed.start - from;
                return Ok(Some(LineMatchKind::Confirmed(at)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::exec::engine::embedded::{FileSearch, FileSearcher};
    use crate::exec::matching::matcher::LineMatcher;
    use crate::exec::question::query::{Case, Query, QueryOptions};

    fn query(pattern: &str, before: usize, after: usize, matches: u64, events: usize) -> Query {
        let options = QueryOptions {
            case: Case::Sensitive,
            before,
            after,
            max_results: events,
            max_matches_per_file: matches,
            ..QueryOptions::default()
        };
        Query::new(&[pattern], &options).unwrap()
    }

    fn asked(wanted: LineSelection<'_>) -> FileSearch<'_> {
        FileSearch {
            wanted,
            ..FileSearch::all()
        }
    }

    fn searcher(query: &Query) -> FileSearcher {
        let matcher = LineMatcher::new(&query.pattern).unwrap();
        FileSearcher::new(Arc::new(query.clone()), &matcher, Stop::new())
    }

    proptest! {
        /// Reports of any superset of the matching lines lead to the outcome of the full search.
        #[test]
        fn a_superset_of_lines_yields_the_same_events(
            bytes in prop::collection::vec(prop::sample::select(b"ab \r\n\n\n\xC3\xA9".to_vec()), 0..120),
            pattern in prop::sample::select(vec!["a", "b$", "^$", "^", r"\s", "[^a]", "ab|é", r"a\b"]),
            before in 0usize..3,
            after in 0usize..3,
            matches in 1u64..6,
            events in 1usize..12,
            extra in prop::collection::vec(1u64..60, 0..10),
            cut in prop::option::of(0u64..20),
        ) {
            let query = query(pattern, before, after, matches, events);
            let whole = searcher(&query).search_bytes(&bytes);
            let all = self::query(pattern, 0, 0, u64::MAX, usize::MAX - 1);
            let matching = searcher(&all).search_bytes(&bytes);
            let mut lines: Vec<u64> = matching.lines.iter().map(|line| line.number).collect();
            lines.extend(extra);
            lines.sort_unstable();
            lines.dedup();
            if let Some(cut) = cut {
                lines.retain(|&line| line <= cut);
            }
            let reported = Reported { lines, and_rest: cut.is_some() };
            let some = searcher(&query).search_text(&bytes, asked(LineSelection::Reported(&reported)));
            prop_assert_eq!(some, whole);
        }
    }

    #[test]
    fn lines_that_were_not_reported_are_not_looked_at() {
        let query = query("a", 0, 0, 10, 10);
        let reported = Reported {
            lines: vec![2, 3, 9],
            and_rest: false,
        };
        let wanted = LineSelection::Reported(&reported);
        let outcome = searcher(&query).search_text(b"a\na\nb\na\n", asked(wanted));
        let lines: Vec<u64> = outcome.lines.iter().map(|line| line.number).collect();
        assert_eq!(lines, [2]);
        assert!(outcome.complete);
    }

    #[test]
    fn approximate_matches_must_stand_where_they_were_reported() {
        let text = b"\xEF\xBB\xBFhalo welt\r\nhullo\r\nx\nhell\r";
        let place = |line, start, text: &[u8]| Approximate {
            line,
            start,
            text: text.to_vec(),
        };
        let query = query("hallo", 0, 1, 10, 10);
        let outcome = |reported: &[Approximate]| {
            let outcome =
                searcher(&query).search_text(text, asked(LineSelection::Approximate(reported)));
            let shown = outcome.lines.iter().map(|line| match line.spans.first() {
                Some(span) => {
                    let text = String::from_utf8_lossy(&line.text[span.start..span.end]);
                    format!("{}:{}:{text}", line.number, span.start + 1)
                }
                None => format!("{}-", line.number),
            });
            shown.collect::<Vec<_>>()
        };
        assert_eq!(
            outcome(&[place(1, 0, b"halo"), place(2, 11, b"hullo")]),
            ["1:1:halo", "2:1:hullo", "3-"]
        );
        // Only the first match of a line counts, without the terminator.
        assert_eq!(
            outcome(&[
                place(1, 1, b"alo"),
                place(1, 5, b"welt"),
                place(4, 20, b"hell\r")
            ]),
            ["1:2:alo", "2-", "4:1:hell"]
        );
        for wrong in [
            place(1, 0, b"hallo"),
            place(1, 1, b"halo"),
            place(2, 0, b"halo"),
            place(1, 5, b"welt\r\nhullo"),
            place(9, 0, b"halo"),
            place(1, usize::MAX, b"halo"),
            place(3, 18, b""),
            place(0, 0, b"halo"),
        ] {
            assert_eq!(outcome(std::slice::from_ref(&wrong)), [""; 0], "{wrong:?}");
        }
    }
}
