//! The embedded engine: ripgrep's own searcher over whole files in memory.
//!
//! Owns how a file becomes events: reading, decoding, the searched region, lines and context. What a
//! pattern matches is the matcher's; which files and where to cut is not decided here.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use encoding_rs_io::DecodeReaderBytesBuilder;
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch,
};

use crate::exec::confirm::{ApproximateLines, Lines, ReportedLines, Wanted};
use crate::exec::eligible::{EligibleFile, Within};
use crate::exec::engine::{
    Batching, Capabilities, Engine, EngineError, EngineId, Prepared, Worker,
};
use crate::exec::event::{Event, EventKind, FileOutcome, Found};
use crate::exec::matcher::{LineMatcher, WorkerMatcher};
use crate::exec::probe::{self, PROBE_FROM};
use crate::exec::query::{Query, Reports};
use crate::exec::stop::Stop;
use crate::index::text::{self, Region, RegionOptions, RegionReader};

/// Files up to this size are read at once; larger ones are streamed.
const WHOLE_FILE_LIMIT: u64 = 32 << 20;

/// The longest line of a streamed file, in bytes.
const STREAMED_LINE_LIMIT: usize = 256 << 20;

/// Files up to this size are searched where they have to be read at once: for lines that were matched approximately by another program, and
/// where a byte at the end decides whether a file is searched at all.
const LARGE_FILE_LIMIT: u64 = 256 << 20;

/// Buffers that grew beyond this are given back after the file that needed them.
const KEPT_BUFFER: usize = 4 << 20;

/// Ripgrep's matching and searching libraries, in process. The default engine.
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

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            full_regex: true,
            fuzzy: true,
            file_lists: true,
        }
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

/// Searches files one after the other; owned by one thread.
pub struct FileSearcher {
    query: Arc<Query>,
    matcher: WorkerMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
    stop: Stop,
}

impl FileSearcher {
    /// Creates a searcher for `query`.
    pub fn new(query: Arc<Query>, matcher: &LineMatcher, stop: Stop) -> FileSearcher {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(query.before)
            .after_context(query.after)
            .bom_sniffing(false)
            .binary_detection(BinaryDetection::none())
            .memory_map(MmapChoice::never())
            .heap_limit(Some(STREAMED_LINE_LIMIT + (1 << 20)))
            .build();
        FileSearcher {
            matcher: matcher.worker(stop.clone()),
            query,
            searcher,
            buffer: Vec::new(),
            stop,
        }
    }

    /// Searches one file. The outcome depends on nothing but the file and the query.
    pub fn search_file(&mut self, file: &EligibleFile) -> FileOutcome {
        self.search_lines(file, Wanted::All)
    }

    /// Searches one file for events among the lines that `wanted` names. For a set that holds every matching
    /// line the outcome is that of [`FileSearcher::search_file`].
    pub(crate) fn search_lines(&mut self, file: &EligibleFile, wanted: Wanted<'_>) -> FileOutcome {
        let outcome = match file.open() {
            Ok((mut opened, meta)) => {
                let within = file.within.as_deref().filter(|within| within.holds(&meta));
                self.search_open(&mut opened, meta.len, wanted, within)
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
        wanted: Wanted<'_>,
        within: Option<&Within>,
    ) -> io::Result<FileOutcome> {
        if size > self.query.max_file_size {
            return Ok(self.query.too_large());
        }
        // A file with lines that were reported most likely has events.
        if matches!(wanted, Wanted::All) {
            let strip = self.query.sees_carriage_return();
            let (matcher, buffer) = (&self.matcher, &mut self.buffer);
            let probed = match within {
                Some(within) => Some(probe::may_match_within(
                    file,
                    within.spans(),
                    matcher,
                    strip,
                    buffer,
                )?),
                None if size >= PROBE_FROM => Some(probe::may_match(file, matcher, strip, buffer)?),
                None => None,
            };
            match probed {
                Some(false) => return Ok(FileOutcome::nothing()),
                Some(true) => file.rewind()?,
                None => {}
            }
        }
        let whole = match (wanted, self.query.reports) {
            (Wanted::Approximate(_), _) | (_, Reports::Matches) => LARGE_FILE_LIMIT,
            _ => WHOLE_FILE_LIMIT,
        };
        if size > whole {
            return self.search_large(file, wanted);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = match read_whole(file, size as usize, whole as usize + 1, &mut buffer) {
            Ok(n) if n as u64 > self.query.max_file_size => Ok(self.query.too_large()),
            Ok(n) if n as u64 > whole => {
                file.rewind().and_then(|()| self.search_large(file, wanted))
            }
            Ok(n) => Ok(self.search_text(&buffer[..n], wanted)),
            Err(error) => Err(error),
        };
        self.buffer = buffer;
        outcome
    }

    /// Searches a file that is too large to be read at once.
    fn search_large(&mut self, file: &mut File, wanted: Wanted<'_>) -> io::Result<FileOutcome> {
        if matches!(wanted, Wanted::Approximate(_)) || self.query.reports == Reports::Matches {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("larger than {LARGE_FILE_LIMIT} bytes, the limit of such searches"),
            ));
        }
        self.search_stream(file)
    }

    /// Searches the bytes of a whole file.
    pub fn search_bytes(&mut self, bytes: &[u8]) -> FileOutcome {
        self.search_text(bytes, Wanted::All)
    }

    pub(crate) fn search_text(&mut self, bytes: &[u8], wanted: Wanted<'_>) -> FileOutcome {
        if self.query.reports == Reports::Matches
            && (memchr::memchr(0, bytes).is_some() || std::str::from_utf8(bytes).is_err())
        {
            return FileOutcome::nothing();
        }
        let decoded = text::decode(bytes);
        let (region, nul) = match text::region(&decoded) {
            Region::Whole => (&decoded[..], None),
            Region::Binary => return FileOutcome::nothing(),
            Region::Until { end, nul } => (&decoded[..end], Some(nul as u64)),
        };
        let (searcher, query) = (&mut self.searcher, &self.query);
        if let Wanted::Approximate(reported) = wanted {
            // Its places are those of the text as it is.
            let lines = ApproximateLines::new(region, reported, &self.stop);
            return search_region(searcher, Collect::new(query, &lines, false), region, nul);
        }
        let strip = query.sees_carriage_return();
        let stripped;
        let region = if strip {
            stripped = text::strip_carriage_returns(region);
            &stripped[..]
        } else {
            region
        };
        match wanted {
            Wanted::Reported(reported) => {
                let lines = ReportedLines::new(&self.matcher, region, reported);
                search_region(searcher, Collect::new(query, &lines, strip), region, nul)
            }
            _ => {
                let collect = Collect::new(query, &self.matcher, strip);
                search_region(searcher, collect, region, nul)
            }
        }
    }

    fn search_stream(&mut self, file: &mut File) -> io::Result<FileOutcome> {
        let mut decoder = DecodeReaderBytesBuilder::new()
            .utf8_passthru(true)
            .strip_bom(true)
            .build(StoppableReader {
                file,
                stop: &self.stop,
            });
        let mut probe = Vec::with_capacity(text::BINARY_PROBE_BYTES);
        decoder
            .by_ref()
            .take(text::BINARY_PROBE_BYTES as u64)
            .read_to_end(&mut probe)?;
        if memchr::memchr(0, &probe).is_some() {
            return Ok(FileOutcome::nothing());
        }
        let strip = self.query.sees_carriage_return();
        let options = RegionOptions {
            strip_carriage_returns: strip,
            max_line: STREAMED_LINE_LIMIT,
        };
        let mut region = RegionReader::new(io::Cursor::new(probe).chain(decoder), options);
        let mut collect = Collect::new(&self.query, &self.matcher, strip);
        let result = self
            .searcher
            .search_reader(&self.matcher, &mut region, &mut collect);
        match result {
            Ok(()) => Ok(collect.outcome(true, region.nul())),
            Err(_) if self.stop.is_raised() => Ok(collect.outcome(false, None)),
            Err(error) => {
                // What was found before the error stands, as it does for a file with a late NUL byte.
                let mut outcome = collect.outcome(true, None);
                outcome.error = Some(error.to_string());
                Ok(outcome)
            }
        }
    }
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
            let outcome = self.search_file(file);
            emit(n, outcome);
        }
        Ok(())
    }
}

/// Finds the events of a region among the lines that match.
fn search_region(
    searcher: &mut Searcher,
    mut collect: Collect<'_, impl Lines>,
    region: &[u8],
    nul: Option<u64>,
) -> FileOutcome {
    // The only error there is comes from the stop flag, and `Collect` can't fail.
    let finished = searcher
        .search_slice(collect.lines, region, &mut collect)
        .is_ok();
    collect.outcome(finished, nul)
}

/// Reads a file of about `size` bytes into `buffer`, whose length is only ever grown, and returns how much
/// was read. A file that grows meanwhile is read up to `most` bytes.
fn read_whole(
    file: &mut File,
    size: usize,
    most: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<usize> {
    let mut filled = 0;
    // One byte more than expected, so that the usual file is known to end without a second call.
    let mut want = (size + 1).min(most);
    loop {
        if buffer.len() < want {
            buffer.resize(want.next_power_of_two().max(64 << 10), 0);
        }
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

/// A reader that fails once the stop flag is raised, so that a huge file ends with the call.
struct StoppableReader<'a> {
    file: &'a mut File,
    stop: &'a Stop,
}

impl Read for StoppableReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_raised() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.file.read(out)
    }
}

/// Collects the events of one file, up to the limits that hold per file.
struct Collect<'a, L> {
    lines: &'a L,
    /// The carriage returns of line terminators were taken away; one before a line's end is its last byte.
    stripped: bool,
    reports: Reports,
    after: u64,
    max_matches: u64,
    max_events: usize,
    events: Vec<Event>,
    matches: u64,
    /// The last line that can still yield an event, known once the last match was counted.
    last_line: Option<u64>,
    /// A limit ended the search, so that the end of the region was not reached.
    limited: bool,
    stopped: bool,
}

impl<'a, L: Lines> Collect<'a, L> {
    fn new(query: &Query, lines: &'a L, stripped: bool) -> Collect<'a, L> {
        let max_matches = match query.reports {
            Reports::Lines => query.max_matches_per_file,
            // What comes after those is only looked at for the lines around them.
            Reports::Matches => query
                .max_matches_per_file
                .min(query.max_events_per_file as u64),
        };
        Collect {
            lines,
            stripped,
            reports: query.reports,
            after: query.after as u64,
            max_matches,
            max_events: query.max_events_per_file,
            events: Vec::new(),
            matches: 0,
            last_line: None,
            limited: false,
            stopped: false,
        }
    }

    /// Returns a line without its terminator.
    fn content<'l>(&self, line: &'l [u8]) -> &'l [u8] {
        if self.stripped {
            line.strip_suffix(b"\n").unwrap_or(line)
        } else {
            text::without_terminator(line)
        }
    }

    fn push(&mut self, event: Event) -> bool {
        self.events.push(event);
        if self.reports == Reports::Lines {
            self.limited = self.events.len() >= self.max_events;
        }
        !self.limited
    }

    /// Returns false once `line` lies beyond everything that can still be reported.
    fn wanted(&mut self, line: u64) -> bool {
        let wanted = self.last_line.is_none_or(|last| line <= last);
        self.limited |= !wanted;
        wanted
    }

    fn outcome(self, finished: bool, nul: Option<u64>) -> FileOutcome {
        let complete = finished && !self.stopped;
        let error = match nul {
            Some(nul) if complete && !self.limited && !self.events.is_empty() => Some(format!(
                "binary data (a NUL byte) at byte {nul}: lines from there on were not searched"
            )),
            _ => None,
        };
        FileOutcome {
            events: self.events,
            error,
            complete,
        }
    }
}

impl<L: Lines> Collect<'_, L> {
    /// Reports each match of a line, as far as they count. Returns false once there is nothing more to report.
    fn matched_each(&mut self, line_number: u64, line: &[u8]) -> bool {
        let left = self.max_matches.saturating_sub(self.matches);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let spans = match self.lines.all_matches(line_number, line, left) {
            Ok(spans) => spans,
            Err(_) => {
                self.stopped = true;
                return false;
            }
        };
        let Some(first) = spans.first() else {
            return true;
        };
        let mut event = match_event(line_number, line, first.start, first.end);
        let found = spans.iter().map(|span| Found {
            column: span.start as u64 + 1,
            text: lossy(line.get(span.start..span.end).unwrap_or_default()),
            edits: span.edits,
        });
        event.each = found.collect();
        self.matches += spans.len() as u64;
        self.push(event);
        if self.matches >= self.max_matches {
            self.last_line = Some(line_number.saturating_add(self.after));
            self.limited = self.after == 0;
        }
        !self.limited
    }
}

impl<L: Lines> Sink for Collect<'_, L> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let line_number = found.line_number().unwrap_or(0);
        if !self.wanted(line_number) {
            return Ok(false);
        }
        let line = self.content(found.bytes());
        if self.last_line.is_some() {
            return Ok(match self.reports {
                // Beyond the limit of matches, and no context line either, because it matches.
                Reports::Lines => true,
                Reports::Matches => self.push(context_event(line_number, line)),
            });
        }
        if self.reports == Reports::Matches {
            return Ok(self.matched_each(line_number, line));
        }
        let (start, end) = match self.lines.first_match(line_number, line) {
            Ok(Some(span)) => span,
            Ok(None) => return Ok(true),
            Err(_) => {
                self.stopped = true;
                return Ok(false);
            }
        };
        self.matches += 1;
        if self.matches >= self.max_matches {
            self.last_line = Some(line_number.saturating_add(self.after));
        }
        let event = match_event(line_number, line, start, end);
        if !self.push(event) {
            return Ok(false);
        }
        if self.last_line == Some(line_number) {
            self.limited = true;
            return Ok(false);
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let line_number = context.line_number().unwrap_or(0);
        if !self.wanted(line_number) {
            return Ok(false);
        }
        let line = self.content(context.bytes());
        Ok(self.push(context_event(line_number, line)))
    }
}

/// Makes the event of a matching line from its bytes without the terminator.
pub(crate) fn match_event(line_number: u64, line: &[u8], start: usize, end: usize) -> Event {
    let text = lossy(line.get(start..end).unwrap_or_default());
    Event {
        kind: EventKind::Match {
            column: start as u64 + 1,
            text,
        },
        line_number,
        line: lossy(line),
        each: Vec::new(),
    }
}

/// Returns bytes as text. What is UTF-8, as nearly everything is, takes the faster of two ways.
fn lossy(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Makes the event of a context line from its bytes without the terminator.
pub(crate) fn context_event(line_number: u64, line: &[u8]) -> Event {
    Event {
        kind: EventKind::Context,
        line_number,
        line: lossy(line),
        each: Vec::new(),
    }
}
