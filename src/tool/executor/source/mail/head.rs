//! Splits a message, or a part of one, into headers and body, and limits the headers.
//!
//! This module owns the definition of a header. The parser's time and memory grow faster than some
//! headers do, so excessive headers never reach it.

use std::borrow::Cow;

use memchr::memmem;

/// The most bytes of all headers together.
const MOST: usize = 1 << 20;

/// The most headers; each takes at least one line.
const MOST_FIELDS: usize = 10_000;

/// The most bytes of a `Content-…` header.
const MOST_OF_TYPE: usize = 16 << 10;

/// The most bytes of an encoded word. RFC 2047 allows 75.
const WORD: usize = 1_000;

/// The most steps for finding the ends of unclosed encoded words.
const MOST_STEPS: usize = 1 << 24;

/// The headers exceed a limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeaderLimitError;

/// A message, or a part of one, split into headers and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split<'a> {
    all: &'a [u8],
    /// The headers, without the empty line after them.
    pub(super) head: &'a [u8],
    /// The bytes after the headers.
    pub(super) body: &'a [u8],
    /// Whether an empty line separates the two, as it should.
    pub(super) is_separate: bool,
}

impl<'a> Split<'a> {
    /// Splits bytes. Without an empty line, the headers end before the first line that is neither a
    /// header nor a continuation. A line in the middle of the headers that is neither is skipped.
    pub(super) fn of(all: &'a [u8]) -> Split<'a> {
        let (mut at, mut end, mut goes_on) = (0, 0, false);
        while at < all.len() {
            let next = memchr::memchr(b'\n', &all[at..]).map_or(all.len(), |end| at + end + 1);
            let line = &all[at..next];
            if line.iter().all(u8::is_ascii_whitespace) {
                let is_separate = end == at;
                let from = if is_separate { next } else { end };
                return Split {
                    all,
                    head: &all[..end],
                    body: &all[from..],
                    is_separate,
                };
            }
            let is_folded = line.starts_with(b" ") || line.starts_with(b"\t");
            // The separator line between messages of a mailbox.
            let is_between = at == 0 && (line.starts_with(b"From ") || line.starts_with(b">From "));
            goes_on = match is_folded {
                true => goes_on,
                false => is_field(line) || is_between,
            };
            if goes_on {
                end = next;
            } else if at == 0 {
                break;
            }
            at = next;
        }
        Split {
            all,
            head: &all[..end],
            body: &all[end..],
            is_separate: false,
        }
    }

    /// Returns the bytes for the header parser, with an empty line after the headers.
    ///
    /// # Errors
    ///
    /// [`HeaderLimitError`] if the headers exceed a limit.
    pub(super) fn to_parse(self) -> Result<Cow<'a, [u8]>, HeaderLimitError> {
        check(self.head)?;
        Ok(match self.is_separate {
            true => Cow::Borrowed(self.all),
            false => Cow::Owned([self.head, b"\n\n"].concat()),
        })
    }

    /// Returns all bytes if a parser can read them as they are.
    pub(super) fn whole(self) -> Option<&'a [u8]> {
        self.is_separate.then_some(self.all)
    }
}

/// Returns whether a line is a header: a name and a colon.
fn is_field(line: &[u8]) -> bool {
    let colon = memchr::memchr(b':', line).unwrap_or(0);
    let name = line[..colon].trim_ascii_end();
    !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

/// Checks that parsing the headers takes little time and memory. O(n).
fn check(head: &[u8]) -> Result<(), HeaderLimitError> {
    if head.len() > MOST {
        return Err(HeaderLimitError);
    }
    let (mut fields, mut at) = (0, 0);
    while at < head.len() {
        // A header with its continuation lines.
        let mut end = at;
        loop {
            end = memchr::memchr(b'\n', &head[end..]).map_or(head.len(), |next| end + next + 1);
            if !matches!(head.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        let field = &head[at..end];
        fields += 1;
        let is_type = field
            .get(..8)
            .is_some_and(|name| name.eq_ignore_ascii_case(b"content-"));
        if fields > MOST_FIELDS
            || (is_type && field.len() > MOST_OF_TYPE)
            || unended(field).saturating_mul(field.len()) > MOST_STEPS
        {
            return Err(HeaderLimitError);
        }
        at = end;
    }
    Ok(())
}

/// Counts beginnings of encoded words that have no end.
fn unended(field: &[u8]) -> usize {
    let mut count = 0;
    let mut ends = memmem::find_iter(field, b"?=").peekable();
    for start in memmem::find_iter(field, b"=?") {
        while ends.next_if(|end| *end < start + 2).is_some() {}
        if ends.peek().is_none_or(|end| end - start > WORD) {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (&str, &str, bool) {
        let split = Split::of(text.as_bytes());
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        (text(split.head), text(split.body), split.is_separate)
    }

    #[test]
    fn mail_headers_end_at_the_right_line() {
        assert_eq!(split("A: b\n c\n\nd\n"), ("A: b\n c\n", "d\n", true));
        assert_eq!(split("A: b\r\n\r\nd"), ("A: b\r\n", "d", true));
        assert_eq!(split("\nd\n\ne"), ("", "d\n\ne", true));
        // A message that ends within its headers.
        assert_eq!(split("A: b\nC: d"), ("A: b\nC: d", "", false));
        // No headers, judging by the first line.
        assert_eq!(
            split("first\nsecond\n\nthird"),
            ("", "first\nsecond\n\nthird", false)
        );
        assert_eq!(split(" a: b\n\nc"), ("", " a: b\n\nc", false));
        // Text right after the headers, and a malformed line in the middle of them.
        assert_eq!(
            split("A: b\nfirst\n\nthird"),
            ("A: b\n", "first\n\nthird", false)
        );
        assert_eq!(
            split("A: b\nno header\nC: d\n\ne"),
            ("A: b\nno header\nC: d\n", "e", true)
        );
        assert_eq!(
            split("From x y\nA : b\n\nc"),
            ("From x y\nA : b\n", "c", true)
        );
        assert_eq!(split(""), ("", "", false));
    }

    #[test]
    fn absurd_mail_headers_are_not_parsed() {
        let is_too_much = |head: String| Split::of(head.as_bytes()).to_parse().is_err();
        let unended = |n| format!("Subject: {}\n", "=?aa?q?x ".repeat(n));
        assert!(is_too_much(unended(20_000)));
        assert!(is_too_much(
            unended(10_000).replace("=?aa?q?x =?", "=?aa?q?x\n =?")
        ));
        assert!(is_too_much("To:\n".repeat(20_000)));
        assert!(is_too_much(format!(
            "Content-Type: text/plain{}\n",
            "; a*1=b".repeat(5_000)
        )));
        assert!(is_too_much(format!("To: {}\n", "g:a,".repeat(400_000))));
        // A large but realistic header.
        let word = "=?utf-8?q?J=C3=BCrgen?= <jj@example.org>,\n ";
        assert!(!is_too_much(format!("To: {}\n", word.repeat(5_000))));
        assert!(!is_too_much(unended(500)));
    }
}
