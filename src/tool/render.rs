//! The `content` of a response: events as text that people can read.
//!
//! Owns the line format and the closing note. Control characters are escaped here, so that what a file
//! holds can't reach a terminal as commands (FR-LSI-ENC-02); the structured data stay untouched.

use std::borrow::Cow;
use std::fmt::Write;

use crate::tool::response::{Record, RecordKind};

/// Escapes control characters, line ends and bidirectional overrides as `\x1b`, `\n`, `\u{202e}`. A tab stays.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    // Nearly all text is plain ASCII, which a look at the bytes settles; without a branch, many at a time.
    let plain = |byte: u8| (byte.wrapping_sub(b' ') <= b'~' - b' ') | (byte == b'\t');
    if text.bytes().fold(true, |all, byte| all & plain(byte)) {
        return Cow::Borrowed(text);
    }
    let dangerous = |c: char| {
        (c.is_control() && c != '\t')
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(dangerous) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if dangerous(c) && (c as u32) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if dangerous(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Adds an event as one line: `path:line:column:text` for a match, `path-line-text` for context.
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

/// Says what is not shown of a line, before and after what is: `[+120 bytes]`. Nothing for a line that is whole.
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

/// What a reader of a response has to know: what is missing, or that it is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// No line has the text as it is: these are within so many edits of it (LSI §9).
    Approximate(u8),
    /// More events than `max_results`.
    MaxResults(usize),
    /// More eligible files than `max_files`.
    MaxFiles(u64),
    /// More bytes than the output may have.
    Bytes(usize),
    /// Some lines are longer than `max_line_bytes`, which is so many bytes.
    LongLines(u64),
    /// The deadline passed after so many milliseconds.
    Deadline(u64),
}

/// Writes the closing note: what cut the answer, and what to do about it. Empty when there is nothing to say.
pub fn closing_note(notes: &[Note]) -> String {
    let mut note = String::new();
    for about in notes {
        let _ = match about {
            Note::Approximate(level) => writeln!(
                note,
                "[no line has the text as it is; these are the lines within {level} {}, as with fuzzy = {level}]",
                if *level == 1 { "edit" } else { "edits" }
            ),
            Note::MaxResults(limit) => writeln!(
                note,
                "[truncated: more than max_results = {limit} events exist; further files were not searched. Narrow \
                 the pattern, path or globs, or raise max_results]"
            ),
            Note::MaxFiles(limit) => writeln!(
                note,
                "[truncated: max_files = {limit} files were searched and further eligible files were not. Narrow \
                 the path or globs, or raise max_files]"
            ),
            Note::Bytes(limit) => writeln!(
                note,
                "[truncated: the output was cut to fit {limit} bytes; events, or entries of `errors`, are missing. Narrow the \
                 search]"
            ),
            Note::LongLines(limit) => writeln!(
                note,
                "[lines longer than max_line_bytes = {limit} are shown in part, around the match; columns are those of the whole line]"
            ),
            Note::Deadline(limit) => writeln!(
                note,
                "[timed out after {limit} ms: these are the first events; further files were not searched. \
                 Narrow the search or raise timeout_ms]"
            ),
        };
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fr_lsi_enc_02_terminal_commands_are_escaped() {
        assert_eq!(
            escape_controls("a\x1b[31mb\tc\u{9b}\u{202e}"),
            "a\\x1b[31mb\tc\\x9b\\u{202e}"
        );
        assert_eq!(escape_controls("a\nb\r"), "a\\nb\\r");
        assert!(matches!(escape_controls("plain é"), Cow::Borrowed(_)));
    }

    #[test]
    fn the_note_names_every_limit() {
        let note = closing_note(&[Note::MaxResults(200), Note::Deadline(50)]);
        assert!(note.contains("max_results = 200") && note.contains("50 ms"));
        assert!(note.contains("not searched"));
        assert_eq!(closing_note(&[]), "");
    }
}
