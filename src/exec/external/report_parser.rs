//! Parser for the output of external programs: a sequence of reports, each about one line of a
//! file.
//!
//! This module owns the grammar of the output and its bounded parsing. Every report starts with the
//! path as it was given, ended by a NUL byte. No path contains NUL, so all names are unambiguous,
//! also with line feeds or invalid UTF-8. This module neither opens files nor interprets reports.

use memchr::memchr;

/// The longest report, in bytes. Only its path can be long.
const REPORT_LIMIT: usize = 256 << 10;

/// The part of a report after the path and the line number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `:`, a short text without a line feed, and a line feed.
    Noted,
    /// A line feed.
    Plain,
    /// The match, and a line feed. A match is its byte offset, length and text, each after a space.
    Placed,
}

/// One reported line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineReport<'a> {
    /// The path that the program was given.
    pub(crate) path: &'a [u8],
    /// The 1-based number of the line.
    pub(crate) line: u64,
    /// The start and the text of the match, if the format has them.
    pub(crate) place: Option<(usize, &'a [u8])>,
}

/// Output that is not a sequence of reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportError(pub(crate) String);

/// Splits a program's output into reports as it arrives. Keeps at most one incomplete report.
#[derive(Debug)]
pub(crate) struct ReportParser {
    format: Format,
    held: Vec<u8>,
}

impl ReportParser {
    /// Creates a parser.
    pub(crate) fn new(format: Format) -> ReportParser {
        ReportParser {
            format,
            held: Vec::new(),
        }
    }

    /// Adds bytes and passes the reports that they complete to `take`. Ends early, in the middle of
    /// the bytes, if `take` returns false.
    ///
    /// # Errors
    ///
    /// [`ReportError`] if the bytes are not reports. The parser is unusable then.
    pub(crate) fn add(
        &mut self,
        bytes: &[u8],
        take: &mut dyn FnMut(LineReport<'_>) -> Result<bool, ReportError>,
    ) -> Result<(), ReportError> {
        let joined;
        let mut rest = if self.held.is_empty() {
            bytes
        } else {
            self.held.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.held);
            &joined[..]
        };
        while let Some((report, used)) = parse(self.format, rest)? {
            if !take(report)? {
                return Ok(());
            }
            rest = &rest[used..];
        }
        if rest.len() > REPORT_LIMIT {
            return Err(garbled(rest, "a record without an end"));
        }
        self.held = rest.to_vec();
        Ok(())
    }

    /// Checks that the output ended after a whole report.
    ///
    /// # Errors
    ///
    /// [`ReportError`] if it ended in the middle of a report.
    pub(crate) fn finish(&self) -> Result<(), ReportError> {
        if self.held.is_empty() {
            Ok(())
        } else {
            Err(garbled(&self.held, "an incomplete record"))
        }
    }
}

fn garbled(bytes: &[u8], what: &str) -> ReportError {
    let start = &bytes[..bytes.len().min(120)];
    ReportError(format!("{what}: {:?}", String::from_utf8_lossy(start)))
}

/// Parses the first report. Returns `None` while it is incomplete.
fn parse(format: Format, bytes: &[u8]) -> Result<Option<(LineReport<'_>, usize)>, ReportError> {
    let Some(nul) = memchr(0, bytes) else {
        return Ok(None);
    };
    let path = &bytes[..nul];
    let Some((line, mut at)) = number(bytes, nul + 1)? else {
        return Ok(None);
    };
    let mut place = None;
    let wrong = || garbled(bytes, "not a record");
    match format {
        Format::Noted => {
            let Some(note) = bytes.get(at..) else {
                return Ok(None);
            };
            if note.first().is_some_and(|&first| first != b':') {
                return Err(wrong());
            }
            match memchr(b'\n', note) {
                Some(feed) => at += feed,
                None => return Ok(None),
            }
        }
        Format::Plain => {}
        Format::Placed => {
            let (start, length);
            match space_and_number(bytes, at)? {
                Some((number, next)) => (start, at) = (number, next),
                None => return Ok(None),
            }
            match space_and_number(bytes, at)? {
                Some((number, next)) => (length, at) = (number, next),
                None => return Ok(None),
            }
            if bytes.get(at).is_some_and(|&next| next != b' ') {
                return Err(wrong());
            }
            let (Ok(start), Ok(length)) = (usize::try_from(start), usize::try_from(length)) else {
                return Err(wrong());
            };
            if length > REPORT_LIMIT {
                return Err(wrong());
            }
            let Some(text) = bytes.get(at + 1..at + 1 + length) else {
                return Ok(None);
            };
            place = Some((start, text));
            at += 1 + length;
        }
    }
    match bytes.get(at) {
        Some(b'\n') if line > 0 => Ok(Some((LineReport { path, line, place }, at + 1))),
        Some(_) => Err(wrong()),
        None => Ok(None),
    }
}

fn space_and_number(bytes: &[u8], at: usize) -> Result<Option<(u64, usize)>, ReportError> {
    match bytes.get(at) {
        Some(b' ') => number(bytes, at + 1),
        Some(_) => Err(garbled(bytes, "not a record")),
        None => Ok(None),
    }
}

/// Parses a decimal number that is followed by another byte. Returns the number and the position of
/// that byte.
fn number(bytes: &[u8], from: usize) -> Result<Option<(u64, usize)>, ReportError> {
    let digits = bytes.get(from..).unwrap_or_default();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit());
    let length = end.unwrap_or(digits.len());
    if length > 19 || end == Some(0) {
        return Err(garbled(bytes, "not a record"));
    }
    let value = digits[..length]
        .iter()
        .fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    Ok(end.map(|end| (value, from + end)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (Vec<u8>, u64, Option<(usize, Vec<u8>)>);

    fn read(format: Format, pieces: &[&[u8]]) -> Result<Vec<Owned>, ReportError> {
        let mut found = Vec::new();
        let mut parser = ReportParser::new(format);
        for piece in pieces {
            parser.add(piece, &mut |report| {
                let place = report.place.map(|(start, text)| (start, text.to_vec()));
                found.push((report.path.to_vec(), report.line, place));
                Ok(true)
            })?;
        }
        parser.finish()?;
        Ok(found)
    }

    #[test]
    fn records_are_parsed_into_path_and_line_number() {
        let plain = |path: &[u8], line| (path.to_vec(), line, None);
        assert_eq!(
            read(
                Format::Noted,
                &[b"/a b\x007:[Omitted long matching line]\n/\n\xFF:3:\x0012:\0\n"]
            )
            .unwrap(),
            [plain(b"/a b", 7), plain(b"/\n\xFF:3:", 12)]
        );
        assert_eq!(
            read(Format::Plain, &[b"/a\x001\n/a\x002\n"]).unwrap(),
            [plain(b"/a", 1), plain(b"/a", 2)]
        );
        assert_eq!(
            read(Format::Placed, &[b"/a\x001 0 3 f\n \n/a\x002 17 1 \n\n"]).unwrap(),
            [
                (b"/a".to_vec(), 1, Some((0, b"f\n ".to_vec()))),
                (b"/a".to_vec(), 2, Some((17, b"\n".to_vec())))
            ]
        );
    }

    #[test]
    fn output_that_is_no_record_is_garbage() {
        for (format, bytes) in [
            (Format::Noted, &b"/a\0x:\n"[..]),
            (Format::Noted, b"/a\x001-x\n"),
            (Format::Noted, b"/a\x000:x\n"),
            (Format::Noted, b"/a\0:x\n"),
            (Format::Noted, b"/a:1:x\n"),
            (Format::Noted, b"{\"type\":\"begin\"}\n"),
            (Format::Plain, b"/a\x001 \n"),
            (Format::Plain, b"/a\x00123456789012345678901234567890\n"),
            (Format::Plain, b"/a\x001"),
            (Format::Placed, b"/a\x001 0 3 foo bar\n"),
            (Format::Placed, b"/a\x001 0 x foo\n"),
            (Format::Placed, b"/a\x001 0 9999999999 foo\n"),
            (Format::Placed, b"/a\x001 0 18446744073709551616 foo\n"),
            (Format::Placed, b"/a\x001\n"),
        ] {
            let error = read(format, &[bytes]).unwrap_err();
            assert!(error.0.contains("record"), "{error:?}");
        }
        let endless = vec![b'x'; REPORT_LIMIT + 1];
        let error = read(Format::Plain, &[&endless]).unwrap_err();
        assert!(error.0.len() < 300 && error.0.contains("without an end"));
    }

    proptest! {
        #[test]
        fn where_the_output_is_cut_makes_no_difference(
            records in prop::collection::vec(
                ("[a/\n :]{1,6}", 1u64..200, prop::collection::vec(any::<u8>(), 0..6)), 0..8),
            cuts in prop::collection::vec(0usize..120, 0..6),
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (path, line, text) in records {
                bytes.extend_from_slice(format!("{path}\0{line} 5 {} ", text.len()).as_bytes());
                bytes.extend_from_slice(&text);
                bytes.push(b'\n');
                expected.push((path.into_bytes(), line, Some((5, text))));
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(Format::Placed, &pieces).unwrap(), expected);
        }

        #[test]
        fn any_output_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            for format in [Format::Noted, Format::Plain, Format::Placed] {
                let _ = read(format, &[&bytes]);
            }
        }
    }
}
