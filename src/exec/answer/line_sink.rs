//! Turns the matching lines of one text into a [`FileOutcome`].
//!
//! This module owns the limits for each file: where reporting stops, which context lines follow,
//! and which matches are counted. The searcher of the `grep-searcher` crate calls `LineSink` for
//! each line, in order.

use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use crate::exec::answer::outcome::{FileOutcome, Line, LineEnd, LineKind, LineSpans, Place};
use crate::exec::external::confirm::Lines;
use crate::exec::question::query::{Query, Report};

/// Receives a found line. Returning false ends the search.
pub(crate) type LineTaker<'a> = dyn FnMut(Line) -> bool + 'a;

/// Receives the lines of a large file in parts, all but the last ones.
pub(crate) type PartTaker<'a> = dyn Fn(Vec<Line>) + 'a;

/// The bytes of lines that make a part.
const PART_BYTES: usize = 256 << 10;

/// Collects the lines of one file.
pub(crate) struct LineSink<'a, L> {
    lines: &'a L,
    query: &'a Query,
    /// Whether carriage returns of line ends were removed from the text before the search.
    stripped: bool,
    /// The number of matches after which reporting ends, apart from context.
    enough: u64,
    out: Vec<Line>,
    /// The number of reported lines.
    reported: usize,
    /// Receives lines as they are found, instead of `out`. Returning false ends the search.
    taker: Option<&'a mut LineTaker<'a>>,
    /// Receives the lines in `out` each time that they are many.
    parts: Option<&'a PartTaker<'a>>,
    /// The bytes of the lines in `out`, if they go to `parts`.
    out_bytes: usize,
    matched_lines: u64,
    matches: u64,
    /// The number of the last line that can still be reported, once there are enough matches.
    last_line: Option<u64>,
    /// The number of the last line that the searcher passed.
    seen: u64,
    /// The offset of the first NUL byte that the searcher found before a limit ended reporting.
    nul: Option<u64>,
    /// The number of bytes that the searcher has read.
    searched: u64,
    /// The offset after the last line with a reported match, once there are enough matches.
    enough_at: u64,
    /// Whether more lines match than `max_matches_per_file` permits.
    more_matches: bool,
    /// Whether a limit ended the search before the end of the text.
    limited: bool,
    /// Whether the stop flag ended the search.
    stopped: bool,
}

impl<'a, L: Lines> LineSink<'a, L> {
    /// Creates a sink for one text.
    pub(crate) fn new(query: &'a Query, lines: &'a L, stripped: bool) -> LineSink<'a, L> {
        let answer_full = match query.report {
            Report::Matches => query.max_results_per_file() as u64,
            Report::Lines | Report::Counts | Report::Presence => u64::MAX,
        };
        LineSink {
            lines,
            query,
            stripped,
            enough: query.max_matches_per_file.min(answer_full),
            out: Vec::new(),
            reported: 0,
            taker: None,
            parts: None,
            out_bytes: 0,
            matched_lines: 0,
            matches: 0,
            last_line: None,
            seen: 0,
            nul: None,
            searched: 0,
            enough_at: 0,
            more_matches: false,
            limited: false,
            stopped: false,
        }
    }

    /// Passes lines to a taker as they are found, instead of keeping them for the outcome.
    pub(crate) fn handing_to(self, taker: Option<&'a mut LineTaker<'a>>) -> LineSink<'a, L> {
        LineSink { taker, ..self }
    }

    /// Passes many lines on in parts. The outcome has the last lines, and counts all.
    pub(crate) fn in_parts(self, parts: Option<&'a PartTaker<'a>>) -> LineSink<'a, L> {
        LineSink { parts, ..self }
    }

    /// Returns the matcher that decides which lines match.
    pub(crate) fn lines(&self) -> &'a L {
        self.lines
    }

    /// Returns true if a limit ended the search before the end of the text.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    /// Returns the offset of the first NUL byte, if the searcher looks for one.
    pub(crate) fn nul(&self) -> Option<u64> {
        self.nul
    }

    /// Returns the number of bytes that were searched until the last possible report.
    pub(crate) fn searched(&self) -> u64 {
        match self.last_line {
            Some(last) if self.seen >= last => self.enough_at,
            _ => self.searched,
        }
    }

    /// Returns the outcome. `finished` is false if the searcher ended with an error.
    pub(crate) fn outcome(self, finished: bool) -> FileOutcome {
        let mut outcome = FileOutcome {
            lines: self.out,
            matched_lines: self.matched_lines,
            matches: self.matches,
            complete: finished && !self.stopped,
            ..FileOutcome::default()
        };
        outcome.gaps.more_matches = self.more_matches;
        outcome
    }

    /// Splits a line from the searcher into its text and its end.
    fn split<'l>(&self, line: &'l [u8]) -> (&'l [u8], LineEnd) {
        if !self.stripped {
            return LineEnd::split(line);
        }
        // Here a carriage return before the line feed is part of the line.
        match line {
            [text @ .., b'\n'] => (text, LineEnd::Lf),
            text => (text, LineEnd::None),
        }
    }

    fn push(&mut self, line: Line) {
        self.reported += 1;
        match (&mut self.taker, self.parts) {
            (Some(taker), _) => self.limited |= !taker(line),
            (None, None) => self.out.push(line),
            (None, Some(parts)) => {
                self.out_bytes += line.footprint();
                self.out.push(line);
                if self.out_bytes >= PART_BYTES {
                    self.out_bytes = 0;
                    parts(std::mem::take(&mut self.out));
                }
            }
        }
        if self.query.report == Report::Lines {
            self.limited |= self.reported >= self.query.max_results_per_file();
        }
    }

    /// Finds the wanted matches of a line, at most `left`. Also returns whether the line has more.
    fn spans(&self, number: u64, text: &[u8], left: u64) -> Result<(LineSpans, bool), ()> {
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let one_more = most.saturating_add(1);
        let found = self
            .lines
            .matches(number, text, self.query.spans, one_more)
            .map_err(|_| ())?;
        let more = found.len() > most;
        let mut found = found;
        found.truncate(most);
        Ok((found, more))
    }

    /// Handles a matching line after there are enough matches.
    fn beyond(&mut self, number: u64, text: &[u8], place: Option<Place>) -> bool {
        let Ok((spans, _)) = self.spans(number, text, u64::MAX - 1) else {
            self.stopped = true;
            return false;
        };
        let is_match = !spans.is_empty();
        self.more_matches |= is_match && self.is_capped();
        let is_near = self.last_line.is_some_and(|last| number <= last);
        let is_shown = match self.query.report {
            Report::Lines => self.query.matching_context || !is_match,
            Report::Matches => true,
            Report::Counts | Report::Presence => false,
        };
        if is_near && is_shown {
            let mut line = context(number, text, place);
            if is_match && self.query.report == Report::Lines {
                self.matched_lines += 1;
                self.matches += spans.len() as u64;
                (line.kind, line.spans) = (LineKind::Match, spans);
            }
            self.push(line);
        }
        self.goes_on_after(number)
    }

    /// Returns true if `max_matches_per_file`, and not the size of the answer, ended reporting.
    fn is_capped(&self) -> bool {
        let counted = match self.query.report {
            Report::Matches => self.matches,
            Report::Lines | Report::Counts | Report::Presence => self.matched_lines,
        };
        counted >= self.query.max_matches_per_file
    }

    fn reports_lines(&self) -> bool {
        matches!(self.query.report, Report::Lines | Report::Matches)
    }

    /// Returns true if a line after `number` can still change the outcome.
    fn goes_on_after(&mut self, number: u64) -> bool {
        let Some(last) = self.last_line else {
            return !self.limited;
        };
        // From here on the search continues only to find out whether one more line matches.
        let is_known = self.more_matches || !self.is_capped();
        self.limited |= number >= last && is_known;
        !self.limited
    }

    fn matched_line(&mut self, number: u64, text: &[u8], place: Option<Place>) -> bool {
        if self.query.report == Report::Presence {
            self.matched_lines = 1;
            self.limited = true;
            return false;
        }
        let left = match self.query.report {
            Report::Matches => self.enough - self.matches,
            _ => u64::MAX - 1,
        };
        let Ok((spans, more)) = self.spans(number, text, left) else {
            self.stopped = true;
            return false;
        };
        if spans.is_empty() {
            // An external program reported a line that does not match.
            return true;
        }
        self.matched_lines += 1;
        self.matches += spans.len() as u64;
        self.more_matches |= more && self.is_capped();
        let counted = match self.query.report {
            Report::Matches => self.matches,
            _ => self.matched_lines,
        };
        if counted >= self.enough {
            self.last_line = Some(number.saturating_add(self.query.after as u64));
        }
        if self.reports_lines() {
            self.push(Line {
                kind: LineKind::Match,
                number,
                text: text.into(),
                spans,
                place,
            });
        }
        self.goes_on_after(number)
    }
}

impl<L: Lines> Sink for LineSink<'_, L> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let number = found.line_number().unwrap_or(0);
        self.seen = number;
        let (text, end) = self.split(found.bytes());
        let place = self.query.places.then_some(Place {
            offset: found.absolute_byte_offset(),
            end,
        });
        let goes_on = match self.last_line {
            Some(_) => self.beyond(number, text, place),
            None => self.matched_line(number, text, place),
        };
        if self.last_line.is_some_and(|last| number <= last) {
            self.enough_at = found.absolute_byte_offset() + found.bytes().len() as u64;
        }
        Ok(goes_on)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        let number = found.line_number().unwrap_or(0);
        self.seen = number;
        if self.last_line.is_none_or(|last| number <= last) && self.reports_lines() {
            let (text, end) = self.split(found.bytes());
            let place = self.query.places.then_some(Place {
                offset: found.absolute_byte_offset(),
                end,
            });
            self.push(context(number, text, place));
        }
        Ok(self.goes_on_after(number))
    }

    fn binary_data(&mut self, _: &Searcher, offset: u64) -> io::Result<bool> {
        // ripgrep stops reading when it stops reporting. This search continues, to find out whether
        // more lines match.
        if self.last_line.is_none_or(|last| self.seen < last) {
            self.nul.get_or_insert(offset);
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.searched = finish.byte_count();
        Ok(())
    }
}

fn context(number: u64, text: &[u8], place: Option<Place>) -> Line {
    Line {
        kind: LineKind::Context,
        number,
        text: text.into(),
        spans: LineSpans::new(),
        place,
    }
}

/// A sink that stops at the first matching line.
#[derive(Debug, Default)]
pub(crate) struct FirstMatch {
    /// Whether a line matches.
    pub(crate) found: bool,
}

impl Sink for FirstMatch {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
        self.found = true;
        Ok(false)
    }
}

/// Returns the bytes of a line as text; invalid UTF-8 becomes U+FFFD.
pub fn lossy(bytes: &[u8]) -> String {
    // Nearly all lines are valid UTF-8, for which this way is faster.
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
