//! What of a message is its text: its parts, taken apart line by line, and what is chosen of them.
//!
//! The parser knows headers, encodings and character sets. Where parts begin and end is found here: it looks for boundaries in the middle of lines, and an
//! inner part that is not closed takes the outer ones with it. Nothing is copied but the text.

use mail_parser::decoders::html::html_to_text;
use mail_parser::{ContentType, MessageParser, MimeHeaders, PartType};
use memchr::memmem;

/// How deep parts may be in parts.
const DEEPEST: usize = 100;

/// Where parts are deeper in each other than anybody means them to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooDeep;

/// Writes the text of a message, or part, in the order in which it stands there: of alternatives the plain ones, or else what a reader would see of HTML,
/// or else the others; of what belongs together the first one. Attachments and other messages are no text.
pub(super) fn write(
    parser: &MessageParser,
    message: &[u8],
    out: &mut String,
) -> Result<(), TooDeep> {
    let part = Part {
        bytes: message,
        depth: 0,
        in_digest: false,
    };
    part.write(parser, out)
}

/// The forms that a text may have, those first that are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Plain,
    Html,
    Other,
}

/// What a part is.
enum Kind<'a> {
    Text(Form),
    /// A text without headers: as it stands.
    Raw(&'a [u8]),
    Parts(Parts<'a>, Group),
    Nothing,
}

/// How parts belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Mixed,
    Alternative,
    Related,
}

/// A message, or a part of one: headers, and what follows them.
#[derive(Clone, Copy)]
struct Part<'a> {
    bytes: &'a [u8],
    depth: usize,
    /// What says nothing else is a message there.
    in_digest: bool,
}

impl<'a> Part<'a> {
    fn kind(self, parser: &MessageParser) -> Result<Kind<'a>, TooDeep> {
        if self.depth > DEEPEST {
            return Err(TooDeep);
        }
        let headers = parser.parse_headers(self.bytes);
        let Some(headers) = headers.filter(|headers| !headers.headers().is_empty()) else {
            return Ok(match self.in_digest {
                true => Kind::Nothing,
                false => Kind::Raw(body(self.bytes, 0)),
            });
        };
        let is_attachment = headers
            .content_disposition()
            .is_some_and(ContentType::is_attachment);
        let Some(content) = headers.content_type() else {
            return Ok(match self.in_digest || is_attachment {
                true => Kind::Nothing,
                false => Kind::Text(Form::Plain),
            });
        };
        let subtype = content.subtype().unwrap_or_default();
        if content.ctype().eq_ignore_ascii_case("multipart") {
            // What a message as a whole is said to be is not what is attached to it.
            if is_attachment && self.depth > 0 {
                return Ok(Kind::Nothing);
            }
            let last = headers.headers().last();
            let body = body(
                self.bytes,
                last.map_or(0, |header| header.offset_end as usize),
            );
            // It can't end with space, which is how lines may end.
            let boundary = content.attribute("boundary").unwrap_or_default().trim_end();
            let like = Part {
                bytes: &[],
                depth: self.depth + 1,
                in_digest: subtype.eq_ignore_ascii_case("digest"),
            };
            let parts = Parts::of(body, boundary, like);
            let group = match subtype {
                _ if subtype.eq_ignore_ascii_case("alternative") => Group::Alternative,
                _ if subtype.eq_ignore_ascii_case("related") => Group::Related,
                _ => Group::Mixed,
            };
            return Ok(match parts {
                Some(parts) => Kind::Parts(parts, group),
                // What stands before the first part is no text.
                None => Kind::Nothing,
            });
        }
        Ok(match content.ctype().eq_ignore_ascii_case("text") {
            true if is_attachment => Kind::Nothing,
            true if subtype.eq_ignore_ascii_case("plain") => Kind::Text(Form::Plain),
            true if subtype.eq_ignore_ascii_case("html") => Kind::Text(Form::Html),
            true => Kind::Text(Form::Other),
            false => Kind::Nothing,
        })
    }

    /// Returns the best form of text that there is in a part, if there is any.
    fn form(self, parser: &MessageParser) -> Result<Option<Form>, TooDeep> {
        Ok(match self.kind(parser)? {
            Kind::Text(form) => Some(form),
            Kind::Raw(_) => Some(Form::Plain),
            Kind::Nothing => None,
            Kind::Parts(parts, _) => {
                let mut best = None;
                for part in parts {
                    let form = part.form(parser)?;
                    best = match (best, form) {
                        (Some(best), Some(form)) => Some(Form::min(best, form)),
                        (best, form) => best.or(form),
                    };
                }
                best
            }
        })
    }

    fn write(self, parser: &MessageParser, out: &mut String) -> Result<(), TooDeep> {
        match self.kind(parser)? {
            Kind::Nothing => {}
            Kind::Raw(text) => add(&String::from_utf8_lossy(text), out),
            Kind::Text(_) => {
                let parsed = parser.parse(self.bytes);
                let part = parsed.as_ref().and_then(|message| message.parts.first());
                match part.map(|part| &part.body) {
                    Some(PartType::Text(text)) => add(text, out),
                    Some(PartType::Html(html)) => add(&html_to_text(html), out),
                    _ => {}
                }
            }
            Kind::Parts(parts, Group::Mixed) => {
                for part in parts {
                    part.write(parser, out)?;
                }
            }
            Kind::Parts(parts, Group::Related) => {
                for part in parts {
                    if part.form(parser)?.is_some() {
                        return part.write(parser, out);
                    }
                }
            }
            Kind::Parts(parts, Group::Alternative) => {
                let best = self.form(parser)?;
                for part in parts {
                    if part.form(parser)? == best {
                        part.write(parser, out)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Adds a text on a line of its own.
fn add(text: &str, out: &mut String) {
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(text);
}

/// Returns what follows the empty line that ends the headers, which is looked for from somewhere in `bytes`. Without one, what is there is the text if
/// there are no headers.
fn body(bytes: &[u8], from: usize) -> &[u8] {
    let rest = bytes.get(from..).unwrap_or_default();
    let mut at = 0;
    while at < rest.len() {
        let end = memchr::memchr(b'\n', &rest[at..]).map_or(rest.len(), |end| at + end + 1);
        if rest[at..end].iter().all(u8::is_ascii_whitespace) {
            return &rest[end..];
        }
        at = end;
    }
    match from {
        0 => rest,
        _ => &[],
    }
}

/// The parts of a part, one after the other. One that is not closed ends where what it is in does.
struct Parts<'a> {
    /// Two hyphens and the boundary.
    delimiter: Vec<u8>,
    /// What follows the last delimiter; nothing after the one that closes.
    rest: Option<&'a [u8]>,
    /// What is alike for all.
    like: Part<'a>,
}

impl<'a> Parts<'a> {
    /// Makes them, unless nothing shows where they are.
    fn of(body: &'a [u8], boundary: &str, like: Part<'a>) -> Option<Parts<'a>> {
        if boundary.is_empty() {
            return None;
        }
        let delimiter = [b"--", boundary.as_bytes()].concat();
        let (_, end, closes) = find(body, &delimiter)?;
        Some(Parts {
            delimiter,
            rest: (!closes).then(|| &body[end..]),
            like,
        })
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let rest = self.rest.take()?;
        let bytes = match find(rest, &self.delimiter) {
            Some((start, end, closes)) => {
                self.rest = (!closes).then(|| &rest[end..]);
                // The end of the line before it belongs to a delimiter.
                let bytes = &rest[..start];
                let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
                bytes.strip_suffix(b"\r").unwrap_or(bytes)
            }
            None => rest,
        };
        Some(Part { bytes, ..self.like })
    }
}

/// Finds the next line that is a delimiter: where it starts and ends, and whether it closes.
fn find(bytes: &[u8], delimiter: &[u8]) -> Option<(usize, usize, bool)> {
    for start in memmem::find_iter(bytes, delimiter) {
        if start > 0 && bytes[start - 1] != b'\n' {
            continue;
        }
        let rest = &bytes[start + delimiter.len()..];
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let (line, closes) = match rest[..end].strip_prefix(b"--") {
            Some(line) => (line, true),
            None => (&rest[..end], false),
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return Some((start, start + delimiter.len() + end, closes));
        }
    }
    None
}
