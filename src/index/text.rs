//! The definition of text, and of the part of a file that is searched.
//!
//! This module owns the rules for byte-order marks, binary content and line terminators. Matching
//! and indexing share them: if they read a file differently, the index could exclude a file that
//! matches.

use std::borrow::Cow;
use std::io::{self, Read};

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use memchr::{memchr, memmem, memrchr};

/// A NUL byte among this many first bytes makes a file binary: it yields no events.
pub const BINARY_PROBE_BYTES: usize = 65_536;

const UTF8_BOM: &[u8] = b"\xEF\xBB\xBF";

/// Returns the encoding of a UTF-16 byte-order mark at the start.
pub fn utf16_mark(head: &[u8]) -> Option<&'static Encoding> {
    match head {
        [0xFF, 0xFE, ..] => Some(UTF_16LE),
        [0xFE, 0xFF, ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// Returns true if a text starts with a byte-order mark, of UTF-8 or UTF-16.
pub(crate) fn is_marked(head: &[u8]) -> bool {
    head.starts_with(UTF8_BOM) || utf16_mark(head).is_some()
}

/// Returns the text of a whole file. UTF-16 with a byte-order mark becomes UTF-8, with U+FFFD for
/// invalid units. Any other text only loses a UTF-8 byte-order mark.
pub fn decode(bytes: &[u8]) -> Cow<'_, [u8]> {
    if let Some(encoding) = utf16_mark(bytes) {
        let (text, _) = encoding.decode_with_bom_removal(bytes);
        return Cow::Owned(text.into_owned().into_bytes());
    }
    Cow::Borrowed(bytes.strip_prefix(UTF8_BOM).unwrap_or(bytes))
}

/// The searched part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// The whole text.
    Whole,
    /// No part: the first [`BINARY_PROBE_BYTES`] contain a NUL byte.
    Binary,
    /// The first `end` bytes: all lines before the one with the first NUL byte, at `nul`.
    Until {
        /// The end of the searched part, in bytes of the text.
        end: usize,
        /// The position of the first NUL byte, in bytes of the text.
        nul: usize,
    },
}

/// Returns the searched part of a text. Costs one pass for the NUL byte.
pub fn region(text: &[u8]) -> Region {
    match memchr(0, text) {
        None => Region::Whole,
        Some(nul) if nul < BINARY_PROBE_BYTES => Region::Binary,
        Some(nul) => Region::Until {
            end: line_start(text, nul),
            nul,
        },
    }
}

/// Returns the start of the line that contains position `at`.
fn line_start(text: &[u8], at: usize) -> usize {
    memrchr(b'\n', text.get(..at).unwrap_or(text)).map_or(0, |feed| feed + 1)
}

/// Removes the carriage returns of line terminators, which are those before a line feed. One at the
/// very end of the text terminates the last line too; it becomes a line feed. Borrows the text if
/// there is nothing to change.
pub fn strip_carriage_returns(text: &[u8]) -> Cow<'_, [u8]> {
    let mut stripped = strip_inside(text);
    if stripped.last() == Some(&b'\r')
        && let Some(last) = stripped.to_mut().last_mut()
    {
        *last = b'\n';
    }
    stripped
}

/// Removes carriage returns before line feeds.
fn strip_inside(text: &[u8]) -> Cow<'_, [u8]> {
    let mut ends = memmem::find_iter(text, b"\r\n").peekable();
    if ends.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let mut stripped = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in ends {
        stripped.extend_from_slice(&text[from..at]);
        from = at + 1;
    }
    stripped.extend_from_slice(&text[from..]);
    Cow::Owned(stripped)
}

/// Returns a line without its terminator: `\n`, `\r\n`, or a single `\r` at the end of the file.
pub fn without_terminator(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Reads the searched part of a stream, for files too large to hold in memory.
///
/// Returns whole lines, stops before the line with the first NUL byte, and optionally removes the
/// carriage returns of line terminators. Memory: the longest line plus one block.
#[derive(Debug)]
pub struct RegionReader<R> {
    inner: R,
    options: RegionOptions,
    /// Bytes that were read and not yet returned. Those from `at` to `ready` may be returned.
    held: Vec<u8>,
    at: usize,
    ready: usize,
    /// The number of bytes of the stream before `held`.
    consumed: u64,
    nul: Option<u64>,
    done: bool,
    handed_out: u64,
    /// The bytes read so far from the line with the first NUL byte on.
    rest: Vec<u8>,
}

/// The options of a [`RegionReader`].
#[derive(Clone, Copy, Debug)]
pub struct RegionOptions {
    /// Whether to remove carriage returns before line feeds, and one at the very end.
    pub strip_carriage_returns: bool,
    /// The limit for the length of a line, in bytes; a longer line is an error.
    pub max_line: usize,
    /// Whether the region ends before the line with the first NUL byte, or at the end of the
    /// stream.
    pub ends_at_nul: bool,
}

const BLOCK: usize = 64 << 10;

impl<R: Read> RegionReader<R> {
    /// Creates a reader over decoded text.
    pub fn new(inner: R, options: RegionOptions) -> RegionReader<R> {
        RegionReader {
            inner,
            options,
            held: Vec::new(),
            at: 0,
            ready: 0,
            consumed: 0,
            nul: None,
            done: false,
            handed_out: 0,
            rest: Vec::new(),
        }
    }

    /// Returns a reader of the text from the line with the first NUL byte on.
    pub fn into_rest(self) -> impl Read {
        io::Cursor::new(self.rest).chain(self.inner)
    }

    /// Returns the number of bytes that were returned so far.
    pub fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// Returns the offset of the NUL byte that ended the region, in bytes of the text. `None` until
    /// the reader has reached it.
    pub fn nul(&self) -> Option<u64> {
        self.nul
    }

    /// Reads until at least one whole line, or the rest of the stream, can be returned.
    fn refill(&mut self) -> io::Result<()> {
        self.consumed += self.at as u64;
        self.held.drain(..self.at);
        self.at = 0;
        self.ready = 0;
        // `held` contains no line feed here: only whole lines were ready before.
        while self.ready == 0 && !self.done {
            let known = self.held.len();
            if known > self.options.max_line {
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!("a line is longer than {} bytes", self.options.max_line),
                ));
            }
            // One read at a time: a pipe is searched while it is written.
            self.held.resize(known + BLOCK, 0);
            let read = self.inner.read(&mut self.held[known..]);
            self.held
                .truncate(known + read.as_ref().copied().unwrap_or_default());
            let read = match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                self.done = true;
                self.ready = self.held.len();
            } else if self.options.ends_at_nul
                && let Some(found) = memchr(0, &self.held[known..])
            {
                let nul = known + found;
                self.nul = Some(self.consumed + nul as u64);
                self.done = true;
                self.ready = line_start(&self.held, nul);
                self.rest = self.held.split_off(self.ready);
            } else {
                self.ready = memrchr(b'\n', &self.held[known..]).map_or(0, |feed| known + feed + 1);
            }
        }
        if self.options.strip_carriage_returns
            && let Cow::Owned(stripped) = strip_inside(&self.held[..self.ready])
        {
            // The offset of a later NUL byte counts the bytes of the file, so removed bytes still
            // count.
            self.consumed += (self.ready - stripped.len()) as u64;
            self.held.splice(..self.ready, stripped.iter().copied());
            self.ready = stripped.len();
        }
        if self.done {
            self.held.truncate(self.ready);
            // A region before a NUL byte ends in a line feed, so a `\r` here is at the end of the
            // stream.
            if self.options.strip_carriage_returns
                && let Some(last @ b'\r') = self.held.last_mut()
            {
                *last = b'\n';
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for RegionReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.ready && !self.done {
            self.refill()?;
        }
        let n = out.len().min(self.ready - self.at);
        out[..n].copy_from_slice(&self.held[self.at..self.at + n]);
        self.at += n;
        self.handed_out += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(bytes: &[u8], strip: bool) -> (Vec<u8>, Option<u64>) {
        /// Returns at most seven bytes per read.
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let n = out.len().min(7);
                self.0.read(&mut out[..n])
            }
        }
        let options = RegionOptions {
            strip_carriage_returns: strip,
            max_line: 1 << 20,
            ends_at_nul: true,
        };
        let mut reader = RegionReader::new(Slow(bytes), options);
        let mut out = Vec::new();
        reader.read_to_end(&mut out).unwrap();
        (out, reader.nul())
    }

    #[test]
    fn a_nul_byte_decides_by_its_place() {
        assert_eq!(region(b"a\nb\n"), Region::Whole);
        assert_eq!(region(b"a\0b"), Region::Binary);
        let mut late = vec![b'x'; BINARY_PROBE_BYTES];
        late.extend_from_slice(b"\nabc\0def\n");
        let nul = BINARY_PROBE_BYTES + 4;
        assert_eq!(
            region(&late),
            Region::Until {
                end: BINARY_PROBE_BYTES + 1,
                nul
            }
        );
        late[BINARY_PROBE_BYTES - 1] = 0;
        assert_eq!(region(&late), Region::Binary);
    }

    #[test]
    fn byte_order_marks_are_no_text() {
        assert_eq!(&*decode(b"\xEF\xBB\xBFab"), b"ab");
        assert_eq!(&*decode(b"\xFF\xFEa\0\xE9\0"), "aé".as_bytes());
        assert_eq!(&*decode(b"\xFE\xFF\0a\xD8\0"), "a\u{FFFD}".as_bytes());
        assert_eq!(&*decode(b"plain"), b"plain");
    }

    #[test]
    fn a_line_that_outgrows_the_limit_is_an_error() {
        let options = RegionOptions {
            strip_carriage_returns: false,
            max_line: 1000,
            ends_at_nul: true,
        };
        let long = vec![b'a'; BLOCK * 2];
        let error = RegionReader::new(&long[..], options)
            .read_to_end(&mut Vec::new())
            .unwrap_err();
        assert!(
            error.to_string().contains("longer than 1000 bytes"),
            "{error}"
        );
    }

    #[test]
    fn only_one_carriage_return_belongs_to_a_line_end() {
        for (bytes, expected) in [
            (&b"a\r\r\n"[..], &b"a\r\n"[..]),
            (b"\r\r", b"\r\n"),
            (b"\r", b"\n"),
            (b"a\n\r", b"a\n\n"),
            (b"a\rb", b"a\rb"),
        ] {
            assert_eq!(&*strip_carriage_returns(bytes), expected);
            assert_eq!(stream(bytes, true).0, expected);
        }
    }

    proptest! {
        #[test]
        fn the_stream_reads_what_the_whole_text_holds(
            bytes in prop::collection::vec(prop::sample::select(b"ab\r\n\0".to_vec()), 0..60),
            strip: bool,
        ) {
            // The reader does not probe for binary content, so a NUL byte anywhere just ends the
            // region.
            let (end, nul) = match memchr(0, &bytes) {
                None => (bytes.len(), None),
                Some(nul) => (line_start(&bytes, nul), Some(nul as u64)),
            };
            let text = &bytes[..end];
            let expected = if strip { strip_carriage_returns(text) } else { Cow::Borrowed(text) };
            let (read, found) = stream(&bytes, strip);
            prop_assert_eq!(&read[..], &*expected);
            prop_assert_eq!(found, nul);
        }

        #[test]
        fn stripping_keeps_every_line(
            bytes in prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 0..60),
        ) {
            let stripped = strip_carriage_returns(&bytes);
            let lines = |text: &[u8]| -> Vec<Vec<u8>> {
                text.split_inclusive(|&b| b == b'\n').map(|l| without_terminator(l).to_vec()).collect()
            };
            let expected: Vec<Vec<u8>> = lines(&bytes);
            let found: Vec<Vec<u8>> = stripped
                .split_inclusive(|&b| b == b'\n')
                .map(|l| l.strip_suffix(b"\n").unwrap_or(l).to_vec())
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
