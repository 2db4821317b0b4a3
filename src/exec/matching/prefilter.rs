//! A prefilter for large files, in pieces that stay in the processor's cache.
//!
//! Most files contain no match, and reading a large file whole only to find that out costs more
//! memory traffic than searching it. The embedded engine asks this module before it reads a large
//! file whole. The answer is "certainly no result" or "maybe", nothing more exact.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use grep_matcher::Matcher;
use memchr::{memchr, memrchr};

use crate::exec::matching::matcher::WorkerMatcher;
use crate::index::text::{self, BINARY_PROBE_BYTES};

/// Files smaller than this are not worth the extra pass.
pub(crate) const PROBE_FROM: u64 = 256 << 10;

/// The size of a piece. Measured on two-core machines: 64 to 256 KiB do not differ.
const PIECE: usize = 128 << 10;

/// The longest line that is probed. The full search handles longer ones.
const LINE_LIMIT: usize = 4 << 20;

/// The length of the shortest buffer, in bytes.
const LEAST_BUFFER: usize = 64 << 10;

/// Makes `buffer` at least `len` bytes long and keeps its content.
pub(in crate::exec) fn lengthen(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() >= len {
        return;
    }
    let len = len.next_power_of_two().max(LEAST_BUFFER);
    if buffer.is_empty() {
        // The allocator provides zeroed memory faster than this process can write zeros.
        *buffer = vec![0; len];
    } else {
        buffer.resize(len, 0);
    }
}

/// Returns false if no line of the stream can match, so that the file has no result. Reads to the
/// first line that may match, or to the end. `buffer` is scratch space.
pub(crate) fn may_match(
    input: &mut dyn Read,
    matcher: &WorkerMatcher,
    strip_carriage_returns: bool,
    buffer: &mut Vec<u8>,
) -> io::Result<bool> {
    let mut held = 0;
    let mut passed = 0;
    loop {
        if held > LINE_LIMIT {
            return Ok(true);
        }
        let want = held + PIECE;
        lengthen(buffer, want);
        let read = match input.read(&mut buffer[held..want]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = held + read;
        // The full search decides whether these bytes are text. A byte-order mark shifts the range
        // in which a NUL byte makes a file binary by the mark's own length.
        if passed == 0 && text::utf16_mark(&buffer[..end]).is_some() {
            return Ok(true);
        }
        if passed + held < BINARY_PROBE_BYTES + 4 && memchr(0, &buffer[held..end]).is_some() {
            return Ok(true);
        }
        let lines = if read == 0 {
            end
        } else {
            memrchr(b'\n', &buffer[held..end]).map_or(0, |feed| held + feed + 1)
        };
        if lines > 0 {
            let piece = if passed == 0 {
                text::decode(&buffer[..lines])
            } else {
                buffer[..lines].into()
            };
            if piece_may_match(&piece, matcher, strip_carriage_returns) {
                return Ok(true);
            }
        }
        if read == 0 {
            return Ok(false);
        }
        buffer.copy_within(lines..end, 0);
        passed += lines;
        held = end - lines;
    }
}

/// Returns false if no line in the given parts of a file can match. Each part consists of whole
/// lines. `buffer` is scratch space.
///
/// Only these parts of the file may contain matches, and the file must be known to be text in ASCII
/// or UTF-8.
pub(crate) fn may_match_within(
    file: &mut (impl Read + Seek),
    spans: &[Range<u64>],
    matcher: &WorkerMatcher,
    strip_carriage_returns: bool,
    buffer: &mut Vec<u8>,
) -> io::Result<bool> {
    for span in spans {
        let Ok(len) = usize::try_from(span.end - span.start) else {
            return Ok(true);
        };
        if len > LINE_LIMIT {
            return Ok(true);
        }
        lengthen(buffer, len);
        file.seek(SeekFrom::Start(span.start))?;
        match file.read_exact(&mut buffer[..len]) {
            Ok(()) => {}
            // The file has just been truncated.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(true),
            Err(error) => return Err(error),
        }
        let piece = match span.start {
            0 => text::decode(&buffer[..len]),
            _ => buffer[..len].into(),
        };
        if piece_may_match(&piece, matcher, strip_carriage_returns) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns false if none of the given whole lines can match.
fn piece_may_match(lines: &[u8], matcher: &WorkerMatcher, strip_carriage_returns: bool) -> bool {
    let stripped;
    let lines = match strip_carriage_returns {
        true => {
            stripped = text::strip_carriage_returns(lines);
            &stripped[..]
        }
        false => lines,
    };
    // A stopped matcher returns no result, which counts as "maybe".
    !matches!(matcher.find_candidate_line(lines), Ok(None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::matching::matcher::LineMatcher;
    use crate::exec::matching::pattern::Pattern;
    use crate::exec::question::query::Fold;
    use crate::exec::stop::{Stop, StopReason};

    fn probe(pattern: &str, bytes: &[u8], stop: &Stop) -> bool {
        let pattern = Pattern::compile(pattern, false, Fold::Sensitive, false).unwrap();
        let matcher = LineMatcher::new(&pattern).unwrap().worker(stop.clone());
        let strip = pattern.sees_carriage_return();
        may_match(&mut &bytes[..], &matcher, strip, &mut Vec::new()).unwrap()
    }

    #[test]
    fn no_matching_line_is_missed_wherever_it_lies() {
        let filler = "some line without it\n".repeat(PIECE / 10);
        for at in [
            0,
            1,
            PIECE - 40,
            PIECE - 5,
            PIECE,
            PIECE + 1,
            filler.len() - 1,
            filler.len(),
        ] {
            let mut bytes = filler.clone().into_bytes();
            bytes.splice(at..at, b"needle".iter().copied());
            assert!(probe("needle", &bytes, &Stop::new()), "at {at}");
        }
        assert!(!probe("needle", filler.as_bytes(), &Stop::new()));
    }

    #[test]
    fn line_ends_are_seen_as_the_full_search_sees_them() {
        let filler = "x\r\n".repeat(PIECE);
        assert!(probe(
            "needle$",
            format!("{filler}needle\r\n{filler}").as_bytes(),
            &Stop::new()
        ));
        assert!(probe(
            "needle$",
            format!("{filler}needle\r").as_bytes(),
            &Stop::new()
        ));
        assert!(probe(
            "^needle",
            format!("\u{feff}needle\n{filler}").as_bytes(),
            &Stop::new()
        ));
        assert!(!probe("y$", filler.as_bytes(), &Stop::new()));
        assert!(probe("^$", format!("{filler}\n").as_bytes(), &Stop::new()));
    }

    #[test]
    fn what_it_can_not_tell_is_a_maybe() {
        let filler = "plain\n".repeat(PIECE);
        let mut utf16 = vec![0xFF, 0xFE];
        utf16.extend(filler.bytes().flat_map(|byte| [byte, 0]));
        assert!(probe("needle", &utf16, &Stop::new()));
        assert!(probe(
            "needle",
            format!("a\0b{filler}").as_bytes(),
            &Stop::new()
        ));
        let long = "a".repeat(LINE_LIMIT + 2 * PIECE);
        assert!(probe("needle", long.as_bytes(), &Stop::new()));
        let stop = Stop::new();
        stop.raise(StopReason::TimedOut);
        assert!(probe("needle", filler.as_bytes(), &stop));
    }
    #[test]
    fn only_the_parts_that_are_named_are_looked_at() {
        let text = b"\xEF\xBB\xBFfirst\r\nsecond\nthird\nfourth";
        let within = |pattern: &str, spans: &[Range<u64>]| {
            let pattern = Pattern::compile(pattern, false, Fold::Sensitive, false).unwrap();
            let matcher = LineMatcher::new(&pattern).unwrap().worker(Stop::new());
            let strip = pattern.sees_carriage_return();
            let mut file = io::Cursor::new(&text[..]);
            may_match_within(&mut file, spans, &matcher, strip, &mut Vec::new()).unwrap()
        };
        let len = text.len() as u64;
        for (pattern, at) in [("^first$", 0), ("second", 1), ("third", 2), ("fourth$", 3)] {
            let lines = [0..10, 10..17, 17..23, 23..len];
            for (n, line) in lines.iter().enumerate() {
                assert_eq!(
                    within(pattern, std::slice::from_ref(line)),
                    n == at,
                    "{pattern}"
                );
            }
            assert!(within(pattern, &lines), "{pattern}");
            assert!(!within(pattern, &[]), "{pattern}");
        }
        // A file that is truncated meanwhile is a maybe.
        assert!(within("absent", std::slice::from_ref(&(23..len + 1))));
    }
}
