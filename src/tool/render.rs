//! The `content` of a response: records as human-readable text.
//!
//! This module owns the line format. It escapes control characters, so that the text of a file
//! can't send commands to a terminal. The structured data stay unescaped.

use std::borrow::Cow;
use std::fmt::Write;

use crate::tool::response::{Record, RecordKind};

/// Returns true if a character can control a terminal or change the order of displayed text:
/// control characters, line separators and direction marks.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{061c}' | '\u{200e}' | '\u{200f}'
        )
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes [unsafe](is_unsafe) characters in a line, for example as `\x1b`, `\n` or `\u{202e}`.
/// Keeps tabs.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\t', push_escaped)
}

/// Escapes [unsafe](is_unsafe) characters in a name, including tabs.
pub fn escape_name(text: &str) -> Cow<'_, str> {
    escape(text, |_| false, push_escaped)
}

/// Escapes [unsafe](is_unsafe) characters in text of several lines. Keeps tabs and line feeds.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\t' | '\n'), push_escaped)
}

/// Escapes [unsafe](is_unsafe) characters in JSON without line ends, where they occur only in
/// strings. The JSON value stays the same.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    escape(
        json,
        |_| false,
        |out, c| {
            let _ = write!(out, "\\u{:04x}", c as u32);
        },
    )
}

fn push_escaped(out: &mut String, c: char) {
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\r' => write!(out, "\\r"),
        '\t' => write!(out, "\\t"),
        c if (c as u32) < 0x100 => write!(out, "\\x{:02x}", c as u32),
        c => write!(out, "\\u{{{:x}}}", c as u32),
    };
}

fn escape(
    text: &str,
    keeps: impl Fn(char) -> bool,
    push: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    // Nearly all text is printable ASCII. This check has no branch per byte, so the compiler can
    // vectorize it.
    let plain = |byte: u8| (byte.wrapping_sub(b' ') <= b'~' - b' ') | keeps(char::from(byte));
    if text.bytes().fold(true, |all, byte| all & plain(byte)) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| is_unsafe(c) && !keeps(c);
    if !text.contains(escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match escaped(c) {
            true => push(&mut out, c),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Appends a record as one line: `path:line:column:text` for a match, `path-line-text` for context.
pub fn push_line(out: &mut String, record: &Record) {
    let data = &record.data;
    out.push_str(&escape_controls(&data.path.text));
    let _ = match record.kind {
        RecordKind::Match => write!(out, ":{}:{}:", data.line_number, data.column.unwrap_or(1)),
        RecordKind::Context => write!(out, "-{}-", data.line_number),
    };
    let (before, after) = left_out(record);
    out.push_str(&before);
    out.push_str(&escape_controls(&data.lines.text));
    out.push_str(&after);
    out.push('\n');
}

/// Returns markers for the hidden parts of a line before and after the shown part: `[+120 bytes]`.
/// Both are empty for a complete line.
pub fn left_out(record: &Record) -> (String, String) {
    let said = |bytes: usize| match bytes {
        0 => String::new(),
        bytes => format!("[+{bytes} bytes]"),
    };
    let left_out = record.left_out;
    left_out.map_or_else(Default::default, |left_out| {
        (said(left_out.before), said(left_out.after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_commands_are_escaped() {
        assert_eq!(
            escape_controls("a\x1b[31mb\tc\u{9b}\u{202e}"),
            "a\\x1b[31mb\tc\\x9b\\u{202e}"
        );
        assert_eq!(escape_controls("a\nb\r"), "a\\nb\\r");
        assert!(matches!(escape_controls("plain é"), Cow::Borrowed(_)));
    }

    #[test]
    fn unsafe_characters_are_escaped_in_names_lines_and_text() {
        let ranges = [
            0..=0x1f,
            0x7f..=0x9f,
            0x61c..=0x61c,
            0x200e..=0x200f,
            0x2028..=0x202e,
            0x2066..=0x2069,
        ];
        let is_listed = |c: char| ranges.iter().any(|range| range.contains(&(c as u32)));
        for c in '\0'..='\u{ffff}' {
            assert_eq!(is_unsafe(c), is_listed(c), "{c:?}");
            let text = c.to_string();
            let kept = |escaped: Cow<'_, str>| escaped == text;
            let is_safe = !is_listed(c);
            assert_eq!(kept(escape_name(&text)), is_safe, "{c:?}");
            assert_eq!(kept(escape_controls(&text)), is_safe || c == '\t', "{c:?}");
            let ends = matches!(c, '\t' | '\n');
            assert_eq!(kept(escape_lines(&text)), is_safe || ends, "{c:?}");
        }
        assert_eq!(escape_name("a\tb\n\u{61c}"), "a\\tb\\n\\u{61c}");
    }

    #[test]
    fn printed_json_is_safe_for_terminals_and_means_the_same() {
        let text = "a\u{1b}[31m\u{9b}31m\u{7f}\u{202e}\u{200f}é".to_string();
        let json = serde_json::to_string(&text).unwrap();
        let safe = escape_json(&json);
        assert!(!safe.contains(is_unsafe), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
        assert!(matches!(escape_json("{\"a\":\"é\"}"), Cow::Borrowed(_)));
    }
}
