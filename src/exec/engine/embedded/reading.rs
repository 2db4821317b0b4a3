//! Reading files in pieces, until the search is stopped.

use std::fs::File;
use std::io::{self, Read};

use grep_matcher::{Match, Matcher, NoCaptures};
use grep_searcher::Searcher;

use crate::exec::answer::line_sink::LineSink;
use crate::exec::answer::outcome::{BinaryCut, FileOutcome, LineSpans};
use crate::exec::external::confirm::Lines;
use crate::exec::matching::matcher::{Stopped, WorkerMatcher};
use crate::exec::matching::prefilter::lengthen;
use crate::exec::question::query::Spans;
use crate::exec::stop::Stop;

/// Searches a text in memory. Also returns whether a limit ended the search before the end of the
/// text.
pub(super) fn search_slice(
    searcher: &mut Searcher,
    mut sink: LineSink<'_, impl Lines>,
    text: &[u8],
) -> (FileOutcome, bool) {
    // The only possible error comes from the stop flag: the sink can't fail.
    let finished = searcher.search_slice(sink.lines(), text, &mut sink).is_ok();
    let limited = sink.is_limited();
    (sink.outcome(finished), limited)
}

/// Searches a text while it is read. Also returns whether a limit ended the search before the end
/// of the text, and how the searcher ended.
pub(super) fn search_reader(
    searcher: &mut Searcher,
    mut sink: LineSink<'_, impl Lines>,
    text: &mut dyn Read,
) -> (FileOutcome, bool, io::Result<()>) {
    let result = searcher.search_reader(sink.lines(), text, &mut sink);
    let limited = sink.is_limited();
    (sink.outcome(result.is_ok()), limited, result)
}

/// A matcher that ignores a carriage return at the end of a line, so that it need not be removed
/// from the text.
#[derive(Debug)]
pub(super) struct EndedLines<'a>(pub(super) &'a WorkerMatcher);

impl Lines for EndedLines<'_> {
    fn matches(
        &self,
        number: u64,
        line: &[u8],
        wanted: Spans,
        most: usize,
    ) -> Result<LineSpans, Stopped> {
        self.0.matches(number, line, wanted, most)
    }
}

impl Matcher for EndedLines<'_> {
    type Captures = NoCaptures;
    type Error = Stopped;

    /// A searcher passes one line at a time, because this matcher does not name a line terminator.
    fn find_at(&self, line: &[u8], at: usize) -> Result<Option<Match>, Stopped> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let found = self.0.find_in_line(line)?;
        let found = found.filter(|span| span.start >= at);
        Ok(found.map(|span| Match::new(span.start, span.end)))
    }

    fn new_captures(&self) -> Result<NoCaptures, Stopped> {
        Ok(NoCaptures::new())
    }
}

/// Records in an outcome that lines from a NUL byte on are not reported, if that leaves a gap: one
/// of them matches, or earlier lines are reported.
pub(super) fn note_binary(outcome: &mut FileOutcome, nul: u64, behind: io::Result<bool>) {
    match behind {
        Ok(matches) if matches || outcome.matched_lines > 0 => {
            outcome.gaps.binary = Some(BinaryCut { nul, matches });
        }
        Ok(_) => {}
        // The stop flag was raised, or the file can't be read to its end.
        Err(_) => outcome.complete = false,
    }
}

/// Reads a file of about `size` bytes into `buffer`, which only ever grows. Returns the number of
/// bytes that were read. If the file grows meanwhile, at most `most` bytes are read.
pub(super) fn read_whole(
    file: &mut File,
    size: usize,
    most: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<usize> {
    let mut filled = 0;
    // The read asks for one byte more than expected. If it gets only `size` bytes, the file has
    // ended, and no second call is needed.
    let mut want = (size + 1).min(most);
    loop {
        lengthen(buffer, want);
        match file.read(&mut buffer[filled..want]) {
            Ok(0) => return Ok(filled),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if filled == size || filled >= most {
            return Ok(filled);
        }
        if filled == want {
            want = (want * 2).min(most);
        }
    }
}

/// A reader that fails once the stop flag is raised, so that reading a huge file ends with the
/// call.
pub(super) struct StoppableReader<R> {
    pub(super) input: R,
    pub(super) stop: Stop,
}

impl<R: Read> Read for StoppableReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_raised() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.input.read(out)
    }
}
