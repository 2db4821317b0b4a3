//! Results for people: headings, colours and hyperlinks on a terminal, one plain line each in a pipe.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style as Ansi};
use grep_matcher::Matcher;

use super::links::HyperlinkFormat;
use crate::exec::matcher::{LineMatcher, WorkerMatcher};
use crate::exec::pattern::Pattern;
use crate::exec::query::CaseMode;
use crate::exec::stop::Stop;
use crate::tool::render::{escape_controls, left_out};
use crate::tool::request::SearchRequest;
use crate::tool::response::{Record, RecordKind, SearchResponse};

/// How results look: on a terminal, or in a pipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// Colours.
    pub(super) color: bool,
    /// The path on a line of its own above the lines of a file.
    pub(super) headings: bool,
    /// Paths are hyperlinks to these, on a machine of that name.
    pub(super) links: Option<(HyperlinkFormat, String)>,
    /// Control characters are printed as they are.
    pub(super) raw: bool,
}

const PATH: Ansi = AnsiColor::Magenta.on_default();
const LINE: Ansi = AnsiColor::Green.on_default();
const MATCH: Ansi = AnsiColor::Red.on_default().bold();

/// Prints responses.
pub(super) struct Printer<'a> {
    style: Style,
    has_context: bool,
    root: &'a Path,
    /// Finds every match in a line; a response names only the first.
    matcher: Option<WorkerMatcher>,
}

/// Returns what finds every match of a request in a line; nothing for one that is approximate, of which each line has one.
pub(super) fn every_match(request: &SearchRequest) -> Option<WorkerMatcher> {
    if request.fuzzy.is_some() {
        return None;
    }
    let fold = CaseMode::from(request.case).fold(&request.pattern);
    let pattern = Pattern::compile(
        &request.pattern,
        request.fixed_strings,
        fold,
        request.word_regexp,
    );
    let matcher = LineMatcher::new(&pattern.ok()?).ok()?;
    Some(matcher.worker(Stop::new()))
}

impl<'a> Printer<'a> {
    /// Creates a printer for the answers to `request`; `root` is what shown paths are relative to.
    pub(super) fn new(
        style: Style,
        request: &SearchRequest,
        has_context: bool,
        root: &'a Path,
    ) -> Printer<'a> {
        let matcher = style.color.then(|| every_match(request)).flatten();
        Printer {
            style,
            has_context,
            root,
            matcher,
        }
    }

    /// Prints the events of a response in order.
    pub(super) fn print(&self, response: &SearchResponse, out: &mut dyn Write) -> io::Result<()> {
        let mut last: Option<&Record> = None;
        for record in &response.matches {
            let same_file = last.is_some_and(|last| last.is_of_file_of(record));
            let adjacent = same_file
                && last.is_some_and(|last| last.data.line_number + 1 == record.data.line_number);
            if self.style.headings && !same_file {
                if last.is_some() {
                    writeln!(out)?;
                }
                writeln!(out, "{}", self.path(record))?;
            } else if self.has_context && last.is_some() && !adjacent {
                writeln!(out, "--")?;
            }
            self.line(record, out)?;
            last = Some(record);
        }
        Ok(())
    }

    fn line(&self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        let data = &record.data;
        let separator = if record.kind == RecordKind::Match {
            ':'
        } else {
            '-'
        };
        if !self.style.headings {
            write!(out, "{}{separator}", self.path(record))?;
        }
        write!(
            out,
            "{}{separator}",
            self.paint(LINE, &data.line_number.to_string())
        )?;
        match record.kind {
            RecordKind::Match => {
                if !self.style.headings {
                    write!(out, "{}{separator}", data.column.unwrap_or(1))?;
                }
                let (before, after) = left_out(record);
                writeln!(out, "{before}{}{after}", self.highlighted(record))
            }
            RecordKind::Context => {
                let (before, after) = left_out(record);
                writeln!(out, "{before}{}{after}", self.escaped(&data.lines.text))
            }
        }
    }

    /// Returns the text of a matching line with every match in colour, or the reported one where it is approximate.
    fn highlighted(&self, record: &Record) -> String {
        let text = &record.data.lines.text;
        let mut hits = Vec::new();
        // What matches a part of a line need not match in the whole line.
        if let Some(matcher) = self.matcher.as_ref().filter(|_| record.left_out.is_none()) {
            let _ = matcher.find_iter(text.as_bytes(), |found| {
                hits.push((found.start(), found.end()));
                true
            });
        }
        if hits.is_empty() && self.style.color {
            hits.extend(record.place_of_match());
        }
        let mut shown = String::new();
        let mut from = 0;
        // Offsets are of the decoded line; where they fall inside a character, nothing is coloured.
        for (start, end) in hits {
            if let (Some(before), Some(hit)) = (text.get(from..start), text.get(start..end))
                && !hit.is_empty()
            {
                shown.push_str(&self.escaped(before));
                shown.push_str(&self.paint(MATCH, &self.escaped(hit)));
                from = end;
            }
        }
        shown.push_str(&self.escaped(text.get(from..).unwrap_or_default()));
        shown
    }

    /// Prints where a match is, up to its text.
    pub(super) fn place(
        &self,
        record: &Record,
        column: u64,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let line = self.paint(LINE, &record.data.line_number.to_string());
        write!(out, "{}:{line}:{column}:", self.path(record))
    }

    /// Returns the text of a match as it is shown.
    pub(super) fn matched(&self, text: &str) -> String {
        self.paint(MATCH, &self.escaped(text))
    }

    pub(super) fn escaped<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.style.raw {
            Cow::Borrowed(text)
        } else {
            escape_controls(text)
        }
    }

    /// Returns the path of a line, which leads there.
    pub(super) fn path(&self, record: &Record) -> String {
        let path = &record.data.path.text;
        let painted = self.paint(PATH, &self.escaped(path));
        let Some((format, host)) = &self.style.links else {
            return painted;
        };
        let (line, column) = (record.data.line_number, record.data.column.unwrap_or(1));
        let url = format.url(&self.root.join(record.name()), host, line.max(1), column);
        format!("\x1b]8;;{url}\x1b\\{painted}\x1b]8;;\x1b\\")
    }

    fn paint(&self, style: Ansi, text: &str) -> String {
        if self.style.color {
            format!("{}{text}{}", style.render(), style.render_reset())
        } else {
            text.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::event::{Event, EventKind};

    #[test]
    fn an_approximate_match_is_in_colour_where_it_is() {
        let shown = |color: bool, line: &[u8], column: u64, text: &str| {
            let style = Style {
                color,
                headings: false,
                links: None,
                raw: false,
            };
            let request = SearchRequest {
                fuzzy: Some(1),
                ..SearchRequest::new("needle")
            };
            let printer = Printer::new(style, &request, false, Path::new("/"));
            let event = Event {
                kind: EventKind::Match {
                    column,
                    text: text.to_string(),
                },
                line_number: 1,
                line: String::from_utf8_lossy(line).into_owned(),
                each: Vec::new(),
            };
            printer.highlighted(&Record::new("a", event))
        };
        let painted = |text: &str| format!("{}{text}{}", MATCH.render(), MATCH.render_reset());
        assert_eq!(
            shown(true, b"neadle neadle", 8, "neadle"),
            format!("neadle {}", painted("neadle"))
        );
        assert_eq!(
            shown(true, b"\xFF\xFF neadle", 4, "neadle"),
            format!("\u{FFFD}\u{FFFD} {}", painted("neadle"))
        );
        assert_eq!(
            shown(true, "äöü nädle".as_bytes(), 8, "nädle"),
            format!("äöü {}", painted("nädle"))
        );
        assert_eq!(shown(false, b"a neadle", 3, "neadle"), "a neadle");
        assert_eq!(shown(true, b"short", 90, "gone"), "short");
    }
}
