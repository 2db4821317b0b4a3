//! The text of a message: finds its parts line by line, and selects the ones to search.
//!
//! The library parses headers, encodings and character sets. The boundaries of headers and parts
//! are found here. The library would find boundaries in the middle of lines, and an unclosed inner
//! part would swallow the outer ones. Only the resulting text is copied.

use mail_parser::{ContentType, HeaderName, Message, MessageParser, MimeHeaders, PartType};
use memchr::memmem;

use super::head::{HeaderLimitError, Split};
use super::html;

/// The deepest nesting of parts.
const DEEPEST: usize = 100;

/// Appends the text of a message or part, in its order.
///
/// Of alternatives it takes the plain text, or else the visible text of HTML, or else other text.
/// Of related parts it takes the first. Attachments and enclosed messages are skipped. The time
/// grows with the length of the message and the nesting of its parts.
///
/// # Errors
///
/// [`HeaderLimitError`] if the nesting or the headers exceed a limit.
pub(super) fn write(message: &[u8], out: &mut String) -> Result<(), HeaderLimitError> {
    let part = Part {
        bytes: message,
        depth: 0,
        in_digest: false,
    };
    // Other headers of parts are not searched.
    let parser = MessageParser::new()
        .with_mime_headers()
        .default_header_ignore();
    part.write(&parser, out).map(|_| ())
}

/// The forms of a text, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Plain,
    Html,
    Other,
}

/// The relation between the parts of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Mixed,
    Alternative,
    Related,
}

/// A message, or a part of one: headers and body.
#[derive(Clone, Copy)]
struct Part<'a> {
    bytes: &'a [u8],
    depth: usize,
    /// Whether parts without a type are messages.
    in_digest: bool,
}

impl Part<'_> {
    /// Appends the text of the part, and returns its form, if it has any.
    fn write(
        self,
        parser: &MessageParser,
        out: &mut String,
    ) -> Result<Option<Form>, HeaderLimitError> {
        if self.depth > DEEPEST {
            return Err(HeaderLimitError);
        }
        let split = Split::of(self.bytes);
        let to_parse = split.to_parse()?;
        let headers = parser.parse_headers(&to_parse);
        let Some(headers) = headers.filter(|headers| !headers.headers().is_empty()) else {
            // Without headers the default type applies.
            if self.in_digest {
                return Ok(None);
            }
            add(&String::from_utf8_lossy(split.body), out);
            return Ok(Some(Form::Plain));
        };
        let is_attachment = headers
            .content_disposition()
            .is_some_and(ContentType::is_attachment);
        // An invalid type counts as no type, so the text is plain (RFC 2045).
        let content = headers
            .content_type()
            .filter(|content| content.subtype().is_some());
        let Some(content) = content else {
            if self.in_digest || is_attachment {
                return Ok(None);
            }
            write_text(parser, split, &headers, out);
            return Ok(Some(Form::Plain));
        };
        let subtype = content.subtype().unwrap_or_default();
        if content.ctype().eq_ignore_ascii_case("multipart") {
            // On the message as a whole, "attachment" has no meaning.
            if is_attachment && self.depth > 0 {
                return Ok(None);
            }
            // A boundary can't end with space, since lines may.
            let boundary = content.attribute("boundary").unwrap_or_default().trim_end();
            let like = Part {
                bytes: &[],
                depth: self.depth + 1,
                in_digest: subtype.eq_ignore_ascii_case("digest"),
            };
            let group = match subtype {
                _ if subtype.eq_ignore_ascii_case("alternative") => Group::Alternative,
                _ if subtype.eq_ignore_ascii_case("related") => Group::Related,
                _ => Group::Mixed,
            };
            return match Parts::of(split.body, boundary, like) {
                Some(parts) => write_parts(parts, group, parser, out),
                // Text before the first part is not part of the message.
                None => Ok(None),
            };
        }
        let form = match content.ctype().eq_ignore_ascii_case("text") {
            true if is_attachment => return Ok(None),
            true if subtype.eq_ignore_ascii_case("plain") => Form::Plain,
            true if subtype.eq_ignore_ascii_case("html") => Form::Html,
            true => Form::Other,
            false => return Ok(None),
        };
        write_text(parser, split, &headers, out);
        Ok(Some(form))
    }
}

/// Appends the decoded text of a part.
fn write_text(parser: &MessageParser, split: Split<'_>, headers: &Message<'_>, out: &mut String) {
    let encoding = headers.content_transfer_encoding().unwrap_or_default();
    // A comment may follow the encoding.
    let mut words = encoding.split([';', '(', ' ', '\t', '\r', '\n']);
    let name = words.find(|word| !word.is_empty()).unwrap_or_default();
    let content = headers.content_type();
    let is_typed = content.is_none_or(|content| content.subtype().is_some());
    let mut rewritten = Vec::new();
    let whole = split.whole().filter(|_| is_typed && name == encoding);
    let bytes = whole.unwrap_or_else(|| {
        // Rewritten so that the parser understands it.
        let raw = headers.raw_message();
        let typed = headers
            .headers()
            .iter()
            .find(|header| is_typed && header.name == HeaderName::ContentType);
        let value = typed
            .and_then(|header| raw.get(header.offset_start as usize..header.offset_end as usize));
        if let Some(value) = value {
            rewritten.extend_from_slice(b"Content-Type:");
            rewritten.extend_from_slice(value.trim_ascii_end());
            rewritten.push(b'\n');
        }
        for part in ["Content-Transfer-Encoding: ", name, "\n\n"] {
            rewritten.extend_from_slice(part.as_bytes());
        }
        rewritten.extend_from_slice(split.body);
        &rewritten
    });
    let message = parser.parse(bytes);
    let part = message.as_ref().and_then(|message| message.parts.first());
    match part.map(|part| &part.body) {
        Some(PartType::Text(text)) => add(text, out),
        Some(PartType::Html(text)) => add(&html::shown(text), out),
        _ => {}
    }
}

/// Appends the selected text of a group of parts.
fn write_parts(
    parts: Parts<'_>,
    group: Group,
    parser: &MessageParser,
    out: &mut String,
) -> Result<Option<Form>, HeaderLimitError> {
    let begin = out.len();
    let mut best = None;
    for part in parts {
        let start = out.len();
        let form = part.write(parser, out)?;
        match (group, best, form) {
            (_, _, None) => {}
            (Group::Related, ..) => return Ok(form),
            (_, None, _) => best = form,
            (Group::Mixed, Some(known), Some(form)) => best = Some(Form::min(known, form)),
            (Group::Alternative, Some(known), Some(form)) if form > known => out.truncate(start),
            (Group::Alternative, Some(known), Some(form)) => {
                if form < known {
                    out.drain(begin..start);
                }
                best = Some(form);
            }
        }
    }
    Ok(best)
}

/// Appends a text on a line of its own.
fn add(text: &str, out: &mut String) {
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(text);
}

/// The parts of a part, in order. An unclosed part ends with its enclosing part.
struct Parts<'a> {
    /// Two hyphens and the boundary.
    delimiter: Vec<u8>,
    /// The bytes after the last delimiter; `None` after the closing one.
    rest: Option<&'a [u8]>,
    /// The fields that all parts share.
    like: Part<'a>,
}

impl<'a> Parts<'a> {
    /// Builds the iterator; `None` without a delimiter in the body.
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
                // The line end before a delimiter belongs to the delimiter.
                let bytes = &rest[..start];
                let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
                bytes.strip_suffix(b"\r").unwrap_or(bytes)
            }
            None => rest,
        };
        Some(Part { bytes, ..self.like })
    }
}

/// Finds the next delimiter line: its start, its end, and whether it is the closing one.
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
