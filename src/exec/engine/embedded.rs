//! The embedded engine: ripgrep's own searcher, in process. The default engine.
//!
//! This module owns how a file is read and decoded, and which part of it is searched. The matcher
//! decides which lines match, and `LineSink` which of them are reported.

mod as_ripgrep;
mod reading;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use encoding_rs_io::DecodeReaderBytesBuilder;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};

use crate::exec::answer::line_sink::{FirstMatch, LineSink, LineTaker, PartTaker};
use crate::exec::answer::outcome::{FileOutcome, Line};
use crate::exec::engine::{Batching, Engine, EngineError, EngineId, Prepared, Worker};
use crate::exec::external::confirm::{ApproximateLines, LineSelection, ReportedLines};
use crate::exec::matching::matcher::{LineMatcher, WorkerMatcher};
use crate::exec::matching::prefilter::{self, PROBE_FROM};
use crate::exec::question::query::{BinaryRule, Query};
use crate::exec::sources::eligible::{CandidateSpans, EligibleFile};
use crate::exec::stop::Stop;
use crate::index::text::{self, Region, RegionOptions, RegionReader};
use reading::{EndedLines, StoppableReader, note_binary, read_whole, search_reader, search_slice};

/// The largest file that is read as a whole. Larger ones are streamed.
const WHOLE_FILE_LIMIT: u64 = 4 << 20;

/// The longest line of a streamed file, in bytes.
const STREAMED_LINE_LIMIT: usize = 256 << 20;

/// The largest file that is searched if it must be read as a whole. That is the case for
/// approximate matches of another program, and for rules under which a byte at the end decides
/// whether the file is searched.
const LARGE_FILE_LIMIT: u64 = 256 << 20;

/// Larger buffers are freed after the file that needed them.
const KEPT_BUFFER: usize = 4 << 20;

/// The engine that runs ripgrep's matching and searching libraries in this process.
#[derive(Debug)]
pub struct Embedded {
    id: EngineId,
}

impl Default for Embedded {
    fn default() -> Embedded {
        Embedded {
            id: EngineId("embedded".to_string()),
        }
    }
}

impl Engine for Embedded {
    fn id(&self) -> &EngineId {
        &self.id
    }

    fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, EngineError> {
        let matcher = LineMatcher::of(&query)?;
        Ok(Arc::new(PreparedEmbedded { query, matcher }))
    }
}

struct PreparedEmbedded {
    query: Arc<Query>,
    matcher: LineMatcher,
}

impl Prepared for PreparedEmbedded {
    fn batching(&self) -> Batching {
        Batching {
            min_files: 1,
            max_files: 32,
        }
    }

    fn worker(&self, stop: Stop) -> Box<dyn Worker> {
        Box::new(FileSearcher::new(self.query.clone(), &self.matcher, stop))
    }
}

/// Searches files one after the other. Owned by one thread.
pub struct FileSearcher {
    query: Arc<Query>,
    matcher: WorkerMatcher,
    searcher: Searcher,
    /// A searcher without context and line numbers, to find out whether any line matches.
    plain: Searcher,
    buffer: Vec<u8>,
    stop: Stop,
}

/// The options for searching one file.
#[derive(Clone, Copy)]
pub(crate) struct FileSearch<'a> {
    /// The lines to look at.
    pub(crate) wanted: LineSelection<'a>,
    /// Whether the request names this file. A named file is searched although it is binary.
    pub(crate) is_named: bool,
    /// Receives the lines of a large file, all but the last ones, as they are found.
    pub(crate) parts: Option<&'a PartTaker<'a>>,
}

impl FileSearch<'_> {
    /// Returns the options for all lines of a file that a walk found.
    pub(crate) fn all() -> FileSearch<'static> {
        FileSearch {
            wanted: LineSelection::All,
            is_named: false,
            parts: None,
        }
    }
}

impl FileSearcher {
    /// Creates a searcher for `query`.
    pub fn new(query: Arc<Query>, matcher: &LineMatcher, stop: Stop) -> FileSearcher {
        let mut builder = SearcherBuilder::new();
        builder
            .line_number(false)
            .bom_sniffing(false)
            .binary_detection(BinaryDetection::none())
            .memory_map(MmapChoice::never())
            .heap_limit(Some(STREAMED_LINE_LIMIT + (1 << 20)));
        let plain = builder.build();
        let searcher = builder
            .line_number(true)
            .before_context(query.before)
            .after_context(query.after)
            .build();
        FileSearcher {
            matcher: matcher.worker(stop.clone()),
            query,
            searcher,
            plain,
            buffer: Vec::new(),
            stop,
        }
    }

    /// Searches one file. The outcome depends only on the file and the query.
    pub fn search_file(&mut self, file: &EligibleFile) -> FileOutcome {
        self.search_lines(file, LineSelection::All)
    }

    /// Searches one file for matches among the lines in `wanted`. If these include every matching
    /// line, the outcome is that of [`FileSearcher::search_file`].
    pub(crate) fn search_lines(
        &mut self,
        file: &EligibleFile,
        wanted: LineSelection<'_>,
    ) -> FileOutcome {
        self.search_in_parts(file, wanted, None)
    }

    /// Searches one file like `search_lines`, but passes the lines of a large file to `parts`, all
    /// but the last ones. The outcome has the last lines, and counts all.
    fn search_in_parts(
        &mut self,
        file: &EligibleFile,
        wanted: LineSelection<'_>,
        parts: Option<&PartTaker<'_>>,
    ) -> FileOutcome {
        let outcome = match file.open() {
            Ok((_, meta)) if self.query.leaves_out(file, &meta) => Ok(FileOutcome::nothing()),
            Ok((mut opened, meta)) => {
                let within = file.within.as_deref().filter(|within| within.holds(&meta));
                let asked = FileSearch {
                    wanted,
                    is_named: file.is_named,
                    parts,
                };
                self.search_open(&mut opened, meta.len, asked, within)
            }
            Err(error) => Err(error),
        };
        if self.buffer.len() > KEPT_BUFFER {
            self.buffer = Vec::new();
        }
        match outcome {
            Ok(outcome) => outcome,
            Err(error) => FileOutcome::failed(error.to_string()),
        }
    }

    fn search_open(
        &mut self,
        file: &mut File,
        size: u64,
        asked: FileSearch<'_>,
        within: Option<&CandidateSpans>,
    ) -> io::Result<FileOutcome> {
        if size > self.query.max_file_size {
            return Ok(FileOutcome::too_large(size));
        }
        // A file with reported lines most likely has matches, so it is not probed. In a named one,
        // ripgrep may find other matches than the probe.
        let is_ripgreps = self.query.binary.is_ripgreps();
        if matches!(asked.wanted, LineSelection::All) && !(is_ripgreps && asked.is_named) {
            let strip = self.query.sees_carriage_return();
            let (matcher, buffer) = (&self.matcher, &mut self.buffer);
            let probed = match within {
                Some(within) => Some(prefilter::may_match_within(
                    file,
                    within.spans(),
                    matcher,
                    strip,
                    buffer,
                )?),
                None if size >= PROBE_FROM => {
                    Some(prefilter::may_match(file, matcher, strip, buffer)?)
                }
                None => None,
            };
            match probed {
                Some(false) => return Ok(FileOutcome::nothing()),
                Some(true) => file.rewind()?,
                None => {}
            }
        }
        let whole = match (asked.wanted, self.query.binary) {
            (LineSelection::Approximate(_), _) | (_, BinaryRule::SkipNonText) => LARGE_FILE_LIMIT,
            _ => WHOLE_FILE_LIMIT,
        };
        if size > whole {
            return self.search_large(file, asked);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = match read_whole(file, size as usize, whole as usize + 1, &mut buffer) {
            Ok(n) if n as u64 > self.query.max_file_size => Ok(FileOutcome::too_large(n as u64)),
            Ok(n) if n as u64 > whole => {
                file.rewind().and_then(|()| self.search_large(file, asked))
            }
            Ok(n) => Ok(self.search_text(&buffer[..n], asked)),
            Err(error) => Err(error),
        };
        self.buffer = buffer;
        outcome
    }

    /// Searches a file that is too large to be read as a whole.
    fn search_large(&mut self, file: &mut File, asked: FileSearch<'_>) -> io::Result<FileOutcome> {
        let at_once = matches!(asked.wanted, LineSelection::Approximate(_))
            || self.query.binary == BinaryRule::SkipNonText;
        if at_once {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("larger than {LARGE_FILE_LIMIT} bytes, the limit of such searches"),
            ));
        }
        if let BinaryRule::AsRipgrep { maps } = self.query.binary {
            return self.search_file_as_ripgrep(file, asked.is_named, maps);
        }
        let text = self.decoder(file.try_clone()?);
        self.search_stream(text, asked, None)
    }

    /// Searches an input that is not a file of the tree, such as standard input, and passes its
    /// lines to `taker` as they are found. The search ends if `taker` returns false.
    pub fn search_input(
        &mut self,
        input: impl Read,
        taker: &mut dyn FnMut(Line) -> bool,
    ) -> FileOutcome {
        if self.query.binary.is_ripgreps() {
            return self.search_input_as_ripgrep(input, taker);
        }
        let text = self.decoder(input);
        let asked = FileSearch {
            is_named: true,
            ..FileSearch::all()
        };
        match self.search_stream(text, asked, Some(taker)) {
            Ok(outcome) => outcome,
            Err(error) => FileOutcome::failed(error.to_string()),
        }
    }

    /// Searches the bytes of a whole file.
    pub fn search_bytes(&mut self, bytes: &[u8]) -> FileOutcome {
        self.search_text(bytes, FileSearch::all())
    }

    /// Searches the bytes of a whole file for matches among the lines in `asked`.
    pub(crate) fn search_text(&mut self, bytes: &[u8], asked: FileSearch<'_>) -> FileOutcome {
        if self.query.binary == BinaryRule::SkipNonText
            && let Some(at) = end_of_text(bytes)
        {
            return self.pass_over(bytes, at, asked.is_named);
        }
        if let BinaryRule::AsRipgrep { maps } = self.query.binary {
            return self.search_bytes_as_ripgrep(bytes, asked.is_named, maps);
        }
        let decoded = text::decode(bytes);
        let (end, nul) = match text::region(&decoded) {
            Region::Whole => (decoded.len(), None),
            Region::Binary if !asked.is_named => return FileOutcome::nothing(),
            Region::Binary => (0, memchr::memchr(0, &decoded)),
            Region::Until { end, nul } => (end, Some(nul)),
        };
        let (region, rest) = decoded.split_at(end);
        let (mut outcome, limited) = self.search_region(region, asked);
        outcome.searched_bytes = region.len() as u64;
        if let Some(nul) = nul
            && outcome.complete
            && !limited
        {
            let behind = match asked.wanted {
                LineSelection::Approximate(places) => {
                    Ok(places.iter().any(|place| place.start >= end))
                }
                LineSelection::All | LineSelection::Reported(_) => self.any_line_matches(rest),
            };
            note_binary(&mut outcome, nul as u64, behind);
        }
        outcome
    }

    /// Skips a file that is text only up to byte `at`. The outcome has a gap if the tool `Search`
    /// would show or report a match in the file.
    fn pass_over(&mut self, bytes: &[u8], at: usize, is_named: bool) -> FileOutcome {
        let mut outcome = FileOutcome::nothing();
        let decoded = text::decode(bytes);
        if text::region(&decoded) == Region::Binary && !is_named {
            return outcome;
        }
        match self.any_line_matches(&decoded) {
            Ok(true) => outcome.gaps.not_text = Some(at as u64),
            Ok(false) => {}
            // The stop flag was raised.
            Err(_) => outcome.complete = false,
        }
        outcome
    }

    /// Returns true if a line of a text in memory matches, binary or not.
    fn any_line_matches(&mut self, text: &[u8]) -> io::Result<bool> {
        let options = RegionOptions {
            strip_carriage_returns: self.query.sees_carriage_return(),
            max_line: usize::MAX,
            ends_at_nul: false,
        };
        any_match(&mut self.plain, &self.matcher, text, options)
    }

    /// Searches the text part of a file, line by line. Also returns whether a limit ended the
    /// search before the end of the part.
    fn search_region(&mut self, region: &[u8], asked: FileSearch<'_>) -> (FileOutcome, bool) {
        let (searcher, query) = (&mut self.searcher, &self.query);
        let parts = asked.parts;
        if let LineSelection::Approximate(reported) = asked.wanted {
            // The reported places refer to the text with its carriage returns.
            let lines = ApproximateLines::new(region, reported, &self.stop);
            let sink = LineSink::new(query, &lines, false).in_parts(parts);
            return search_slice(searcher, sink, region);
        }
        if query.places && query.sees_carriage_return() {
            let lines = EndedLines(&self.matcher);
            let sink = LineSink::new(query, &lines, false).in_parts(parts);
            return search_slice(searcher, sink, region);
        }
        let strip = query.sees_carriage_return();
        let stripped = match strip {
            true => text::strip_carriage_returns(region),
            false => region.into(),
        };
        match asked.wanted {
            LineSelection::Reported(reported) => {
                let lines = ReportedLines::new(&self.matcher, &stripped, reported);
                let sink = LineSink::new(query, &lines, strip).in_parts(parts);
                search_slice(searcher, sink, &stripped)
            }
            _ => {
                let sink = LineSink::new(query, &self.matcher, strip).in_parts(parts);
                search_slice(searcher, sink, &stripped)
            }
        }
    }

    /// Returns a reader of the decoded text of an input.
    fn decoder<R: Read>(&self, input: R) -> impl Read + use<R> {
        DecodeReaderBytesBuilder::new()
            .utf8_passthru(true)
            .strip_bom(true)
            .build(StoppableReader {
                input,
                stop: self.stop.clone(),
            })
    }

    /// Searches a text that is streamed.
    fn search_stream<'s>(
        &'s mut self,
        mut text: impl Read,
        asked: FileSearch<'s>,
        taker: Option<&'s mut LineTaker<'s>>,
    ) -> io::Result<FileOutcome> {
        let mut probe = Vec::new();
        if taker.is_none() {
            text.by_ref()
                .take(text::BINARY_PROBE_BYTES as u64)
                .read_to_end(&mut probe)?;
        }
        let early = memchr::memchr(0, &probe);
        if early.is_some() && !asked.is_named {
            return Ok(FileOutcome::nothing());
        }
        let sees_carriage_return = self.query.sees_carriage_return();
        // No positions are needed to find out whether any line matches.
        let plain = RegionOptions {
            strip_carriage_returns: sees_carriage_return,
            max_line: STREAMED_LINE_LIMIT,
            ends_at_nul: false,
        };
        let text = io::Cursor::new(probe).chain(text);
        if let Some(nul) = early {
            let mut outcome = FileOutcome::nothing();
            let behind = any_match(&mut self.plain, &self.matcher, text, plain);
            note_binary(&mut outcome, nul as u64, behind);
            return Ok(outcome);
        }
        let is_ended = self.query.places && sees_carriage_return;
        let strip = sees_carriage_return && !is_ended;
        let options = RegionOptions {
            strip_carriage_returns: strip,
            ends_at_nul: true,
            ..plain
        };
        let mut region = RegionReader::new(text, options);
        let (searcher, lines) = (&mut self.searcher, EndedLines(&self.matcher));
        let (mut outcome, limited, result) = if is_ended {
            let taker = taker.map(|taker| taker as _);
            let sink = LineSink::new(&self.query, &lines, false).handing_to(taker);
            search_reader(searcher, sink.in_parts(asked.parts), &mut region)
        } else {
            let sink = LineSink::new(&self.query, &self.matcher, strip).handing_to(taker);
            search_reader(searcher, sink.in_parts(asked.parts), &mut region)
        };
        outcome.searched_bytes = region.handed_out();
        match (result, region.nul()) {
            (Ok(()), Some(nul)) if outcome.complete && !limited => {
                let rest = region.into_rest();
                let behind = any_match(&mut self.plain, &self.matcher, rest, plain);
                note_binary(&mut outcome, nul, behind);
            }
            (Ok(()), _) => {}
            (Err(_), _) if self.stop.is_raised() => {}
            (Err(error), _) => {
                // The lines before the error are valid.
                outcome.complete = true;
                outcome.error = Some(error.to_string());
            }
        }
        Ok(outcome)
    }
}

/// Returns the end of the text in a file: its first NUL byte, or its first byte that is not UTF-8.
/// `None` if all of it is text.
fn end_of_text(bytes: &[u8]) -> Option<usize> {
    let valid = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    let nul = memchr::memchr(0, &bytes[..valid]);
    nul.or((valid < bytes.len()).then_some(valid))
}

/// Returns true if a line of a text matches, binary or not.
fn any_match(
    searcher: &mut Searcher,
    matcher: &WorkerMatcher,
    text: impl Read,
    options: RegionOptions,
) -> io::Result<bool> {
    let mut first = FirstMatch::default();
    let region: &mut dyn Read = &mut RegionReader::new(text, options);
    searcher.search_reader(matcher, region, &mut first)?;
    Ok(first.found)
}

impl Worker for FileSearcher {
    fn search(
        &mut self,
        files: &[EligibleFile],
        emit: &mut dyn FnMut(usize, FileOutcome),
    ) -> Result<(), EngineError> {
        for (n, file) in files.iter().enumerate() {
            if self.stop.is_raised() {
                break;
            }
            if !self.query.in_parts {
                emit(n, self.search_file(file));
                continue;
            }
            let taken = RefCell::new((&mut *emit, (0, 0)));
            let part = |lines| {
                let (emit, (matched_lines, matches)) = &mut *taken.borrow_mut();
                let part = FileOutcome::part(lines);
                *matched_lines += part.matched_lines;
                *matches += part.matches;
                emit(n, part);
            };
            let mut outcome = self.search_in_parts(file, LineSelection::All, Some(&part));
            let (emit, (matched_lines, matches)) = taken.into_inner();
            // The last outcome counts its own lines only, like the parts before it.
            outcome.matched_lines -= matched_lines;
            outcome.matches -= matches;
            emit(n, outcome);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
