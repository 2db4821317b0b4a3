//! Searching files in the way ripgrep does, for `--rg-json`.
//!
//! This module owns the treatment of NUL bytes, which decide in ripgrep whether a file is binary.
//! ripgrep's decision depends on the blocks that it reads. So ripgrep's own searcher reads the raw
//! file here, and sees the same blocks.

use std::fs::File;
use std::io::{self, Read, Seek};

use grep_searcher::{BinaryDetection, MmapChoice, SearcherBuilder};

use super::{EndedLines, FileSearcher, STREAMED_LINE_LIMIT, StoppableReader, any_match};
use crate::exec::answer::line_sink::{LineSink, LineTaker};
use crate::exec::answer::outcome::{BinaryCut, FileOutcome, Line};
use crate::exec::external::confirm::Lines;
use crate::index::text::{self, BINARY_PROBE_BYTES, RegionOptions};

/// The number of bytes at the start of a mapped file in which ripgrep looks for a NUL byte.
const LOOKED_AT: usize = 64 << 10;

/// How ripgrep reads a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Block by block, up to the block with the first NUL byte.
    UntilNul,
    /// Block by block; a NUL byte ends a line.
    Converted,
    /// As a whole. A NUL byte is detected among the first bytes and in reported lines.
    Mapped,
}

impl Reading {
    fn of(head: &[u8], is_named: bool, maps: bool) -> Reading {
        match (is_named, maps && !text::is_marked(head)) {
            (false, _) => Reading::UntilNul,
            (true, false) => Reading::Converted,
            (true, true) => Reading::Mapped,
        }
    }

    fn detection(self) -> BinaryDetection {
        match self {
            Reading::UntilNul => BinaryDetection::quit(0),
            Reading::Converted => BinaryDetection::convert(0),
            Reading::Mapped => BinaryDetection::none(),
        }
    }
}

/// An outcome, and where ripgrep's search ended at a NUL byte.
struct Searched {
    outcome: FileOutcome,
    ended: Option<EndedAt>,
}

/// A place after which lines are not searched.
#[derive(Clone, Copy, Debug)]
struct EndedAt {
    nul: u64,
    /// The start of the first line that was not searched.
    rest: u64,
}

impl FileSearcher {
    /// Searches the bytes of a whole file.
    pub(super) fn search_bytes_as_ripgrep(
        &mut self,
        bytes: &[u8],
        is_named: bool,
        maps: bool,
    ) -> FileOutcome {
        let reading = Reading::of(bytes, is_named, maps);
        let has_returns = memchr::memchr(b'\r', bytes).is_some();
        let head = &bytes[..bytes.len().min(LOOKED_AT)];
        let searched = self.search_reading(reading, head, bytes, has_returns, None);
        self.and_rest(searched, || Ok(bytes))
    }

    /// Searches a file that is too large to be read into memory.
    pub(super) fn search_file_as_ripgrep(
        &mut self,
        file: &mut File,
        is_named: bool,
        maps: bool,
    ) -> io::Result<FileOutcome> {
        let mut head = Vec::new();
        file.by_ref()
            .take(LOOKED_AT as u64)
            .read_to_end(&mut head)?;
        file.rewind()?;
        let reading = Reading::of(&head, is_named, maps);
        let searched = self.search_reading(reading, &head, &mut *file, true, None);
        Ok(self.and_rest(searched, || file.rewind().map(|()| &mut *file)))
    }

    /// Searches an input that is not a file, such as standard input.
    pub(super) fn search_input_as_ripgrep(
        &mut self,
        input: impl Read,
        taker: &mut dyn FnMut(Line) -> bool,
    ) -> FileOutcome {
        let searched = self.search_reading(Reading::Converted, &[], input, true, Some(taker));
        searched.outcome
    }

    fn search_reading<'s>(
        &'s self,
        reading: Reading,
        head: &[u8],
        input: impl Read,
        has_returns: bool,
        taker: Option<&'s mut LineTaker<'s>>,
    ) -> Searched {
        let input: &mut dyn Read = &mut StoppableReader {
            input,
            stop: self.stop.clone(),
        };
        let lines = EndedLines(&self.matcher);
        match has_returns && self.query.sees_carriage_return() {
            true => {
                self.search_lines_of(&lines, reading, head, input, taker.map(|taker| taker as _))
            }
            false => self.search_lines_of(&self.matcher, reading, head, input, taker),
        }
    }

    fn search_lines_of<'s, L: Lines>(
        &'s self,
        lines: &'s L,
        reading: Reading,
        head: &[u8],
        input: &mut dyn Read,
        taker: Option<&'s mut LineTaker<'s>>,
    ) -> Searched {
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(self.query.before)
            .after_context(self.query.after)
            .binary_detection(reading.detection())
            .memory_map(MmapChoice::never())
            .heap_limit(Some(STREAMED_LINE_LIMIT + (1 << 20)))
            .build();
        let mut sink = LineSink::new(&self.query, lines, false).handing_to(taker);
        let result = searcher.search_reader(lines, input, &mut sink);
        let (limited, searched, nul) = (sink.is_limited(), sink.searched(), sink.nul());
        let mut outcome = sink.outcome(result.is_ok());
        match result {
            Err(error) if !self.stop.is_raised() => {
                // The lines before the error stay valid.
                outcome.complete = true;
                outcome.error = Some(error.to_string());
            }
            _ => {}
        }
        let nul = match reading {
            Reading::Mapped => first_nul(head, &outcome.lines),
            Reading::UntilNul | Reading::Converted => nul,
        };
        outcome.searched_bytes = match (reading, nul) {
            (Reading::Mapped, Some(nul)) => nul.min(searched),
            _ => searched,
        };
        if let Some(nul) = nul.filter(|_| outcome.matched_lines > 0) {
            let matches = false;
            outcome.gaps.binary = Some(BinaryCut { nul, matches });
        }
        let is_cut = reading == Reading::UntilNul && outcome.complete && !limited;
        let rest = searched;
        Searched {
            outcome,
            ended: nul.filter(|_| is_cut).map(|nul| EndedAt { nul, rest }),
        }
    }

    /// Adds to an outcome whether a line that ripgrep does not search matches. Does nothing for
    /// files that are binary from their start.
    fn and_rest<R: Read>(
        &mut self,
        searched: Searched,
        again: impl FnOnce() -> io::Result<R>,
    ) -> FileOutcome {
        let Searched { mut outcome, ended } = searched;
        let Some(ended) = ended.filter(|ended| ended.nul >= BINARY_PROBE_BYTES as u64) else {
            return outcome;
        };
        let options = RegionOptions {
            strip_carriage_returns: self.query.sees_carriage_return(),
            max_line: STREAMED_LINE_LIMIT,
            ends_at_nul: false,
        };
        let matches = again().and_then(|input| {
            let mut text = self.decoder(input);
            io::copy(&mut text.by_ref().take(ended.rest), &mut io::sink())?;
            any_match(&mut self.plain, &self.matcher, text, options)
        });
        match matches {
            Ok(true) => {
                let (nul, matches) = (ended.nul, true);
                outcome.gaps.binary = Some(BinaryCut { nul, matches });
            }
            Ok(false) => {}
            Err(_) => outcome.complete = false,
        }
        outcome
    }
}

/// Returns the offset of the NUL byte that ripgrep detects in a mapped file.
fn first_nul(head: &[u8], lines: &[Line]) -> Option<u64> {
    let in_line = |line: &Line| {
        let at = memchr::memchr(0, &line.text)?;
        Some(line.place?.offset + at as u64)
    };
    let in_head = memchr::memchr(0, head).map(|at| at as u64);
    in_head.or_else(|| lines.iter().find_map(in_line))
}
