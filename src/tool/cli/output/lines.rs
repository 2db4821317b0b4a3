//! Lines as text: with headings and colours on a terminal, one plain line each in a pipe.

use std::io::{self, Write};
use std::path::PathBuf;

use super::{MATCH, Output, ShownFile, Style};
use crate::exec::answer::outcome::{Line, LineKind, Span};
use crate::tool::render::escape_controls;
use crate::tool::shorten::part;

/// Prints matching lines and their context.
pub(in super::super) struct Lines {
    style: Style,
    /// The file and number of the last printed line.
    last: Option<(PathBuf, u64)>,
    /// The path as printed on each line of the file, without a hyperlink.
    path: Vec<u8>,
    /// A buffer for formatted lines that are not written yet.
    formatted: Vec<u8>,
}

/// Size at which the buffer is written, in bytes.
const FORMATTED: usize = 64 << 10;

impl Lines {
    pub(in super::super) fn new(style: Style) -> Lines {
        Lines {
            style,
            last: None,
            path: Vec::new(),
            formatted: Vec::new(),
        }
    }

    fn line(&self, shown: &ShownFile<'_>, line: &Line, out: &mut Vec<u8>) -> io::Result<()> {
        let style = &self.style;
        let separator: &[u8] = match line.kind {
            LineKind::Match => b":",
            LineKind::Context => b"-",
        };
        let column = line.spans.first().map_or(1, |span| span.start as u64 + 1);
        if !style.headings && !style.no_paths && !shown.path.as_os_str().is_empty() {
            match style.links {
                Some(_) => style.path(shown, line.number, column, out)?,
                None => out.write_all(&self.path)?,
            }
            out.write_all(if style.null { b"\0" } else { separator })?;
        }
        if !style.no_numbers {
            style.number(line.number, out)?;
            out.write_all(separator)?;
            if line.is_match() && !style.headings && !style.no_columns {
                out.write_all(itoa::Buffer::new().format(column).as_bytes())?;
                out.write_all(separator)?;
            }
        }
        write_line(style, line, out)?;
        out.write_all(b"\n")
    }
}

impl Output for Lines {
    fn file(&mut self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()> {
        if !shown.file.outcome.lines.is_empty() {
            let mut formatted = std::mem::take(&mut self.formatted);
            let printed = self.lines(shown, &mut formatted, out);
            formatted.clear();
            self.formatted = formatted;
            printed?;
        }
        self.binary(shown, out)
    }

    /// Prints the note in brackets to standard output. Programs that treat standard error as
    /// failure would discard the answer.
    fn note(&mut self, text: &str, out: &mut dyn Write) -> io::Result<bool> {
        writeln!(out, "[{}]", escape_controls(text))?;
        Ok(true)
    }

    fn tells_of_binary(&self) -> bool {
        true
    }
}

impl Lines {
    /// Prints the lines of a file. Formats them in `formatted` first.
    fn lines(
        &mut self,
        shown: &ShownFile<'_>,
        formatted: &mut Vec<u8>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut is_same = self
            .last
            .as_ref()
            .is_some_and(|(path, _)| path == shown.path);
        if !is_same && self.style.links.is_none() {
            self.path.clear();
            self.style.path(shown, 1, 1, &mut self.path)?;
        }
        let mut last = self.last.as_ref().map(|(_, number)| *number);
        for line in &shown.file.outcome.lines {
            let is_next = is_same && last.is_some_and(|number| number + 1 == line.number);
            if self.style.headings && !is_same && !self.style.no_paths {
                if last.is_some() {
                    formatted.push(b'\n');
                }
                let column = line.spans.first().map_or(1, |span| span.start as u64 + 1);
                self.style.path(shown, line.number, column, formatted)?;
                formatted.push(b'\n');
            } else if self.style.has_context && last.is_some() && !is_next {
                formatted.extend_from_slice(b"--\n");
            }
            self.line(shown, line, formatted)?;
            if formatted.len() >= FORMATTED {
                out.write_all(formatted)?;
                formatted.clear();
            }
            (is_same, last) = (true, Some(line.number));
        }
        if let Some(number) = last {
            self.last = Some((shown.path.to_path_buf(), number));
        }
        out.write_all(formatted)
    }

    /// Reports a binary file that has a match after the shown part.
    fn binary(&self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()> {
        let binary = shown.file.outcome.gaps.binary;
        if let Some(binary) = binary.filter(|binary| binary.matches) {
            if !shown.path.as_os_str().is_empty() {
                self.style.path(shown, 1, 1, out)?;
                out.write_all(b": ")?;
            }
            let nul = binary.nul;
            writeln!(
                out,
                "binary file matches (found a zero byte at offset {nul})"
            )?;
        }
        Ok(())
    }
}

/// Prints one line per match: only the match, or the whole line.
pub(in super::super) struct Matches {
    style: Style,
    by_itself: bool,
}

impl Matches {
    /// Creates the mode that prints only the matches.
    pub(in super::super) fn alone(style: Style) -> Matches {
        Matches {
            style,
            by_itself: true,
        }
    }

    /// Creates the mode that prints the line of each match, for editors.
    pub(in super::super) fn in_lines(style: Style) -> Matches {
        Matches {
            style,
            by_itself: false,
        }
    }
}

impl Output for Matches {
    fn file(&mut self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()> {
        let style = &self.style;
        for line in shown
            .file
            .outcome
            .lines
            .iter()
            .filter(|line| line.is_match())
        {
            for span in &line.spans {
                let column = span.start as u64 + 1;
                if !style.no_paths && !shown.path.as_os_str().is_empty() {
                    style.path(shown, line.number, column, out)?;
                    out.write_all(if style.null { b"\0" } else { b":" })?;
                }
                if !style.no_numbers {
                    style.number(line.number, out)?;
                    out.write_all(b":")?;
                    if !style.no_columns {
                        write!(out, "{column}:")?;
                    }
                }
                match self.by_itself {
                    true => {
                        let found = line.text.get(span.start..span.end).unwrap_or_default();
                        style.painted(MATCH, found, out)?;
                    }
                    false => style.text(&line.text, out)?,
                }
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    }
}

/// Writes a line with coloured matches. A long line is shortened.
fn write_line(style: &Style, line: &Line, out: &mut Vec<u8>) -> io::Result<()> {
    let first = line.spans.first();
    let found = first.map(|span| (span.start, span.end));
    let part = style
        .max_line_bytes
        .and_then(|most| part(&line.text, found, most));
    if let Some(part) = part {
        let left_out = |bytes: usize| match bytes {
            0 => String::new(),
            bytes => format!("[+{bytes} bytes]"),
        };
        out.write_all(left_out(part.start).as_bytes())?;
        // The part is cut around the first match, and may not contain others.
        let span = first.map(|span| Span {
            start: span.start.clamp(part.start, part.end) - part.start,
            end: span.end.clamp(part.start, part.end) - part.start,
            edits: span.edits,
        });
        let after = line.text.len() - part.end;
        let text = line.text.get(part).unwrap_or_default();
        highlighted(style, text, span.as_slice(), 0, out)?;
        return out.write_all(left_out(after).as_bytes());
    }
    let is_space = |byte: &&u8| byte.is_ascii_whitespace();
    let from = match style.trim {
        true => line.text.iter().take_while(is_space).count(),
        false => 0,
    };
    highlighted(style, &line.text, &line.spans, from, out)
}

/// Writes a text from an offset on, with coloured spans.
fn highlighted(
    style: &Style,
    text: &[u8],
    spans: &[Span],
    from: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let mut at = from;
    for span in spans.iter().filter(|_| style.color) {
        let start = span.start.max(at);
        if let (Some(before), Some(found)) = (text.get(at..start), text.get(start..span.end))
            && !found.is_empty()
        {
            style.text(before, out)?;
            style.painted(MATCH, found, out)?;
            at = span.end;
        }
    }
    style.text(text.get(at..).unwrap_or_default(), out)
}
