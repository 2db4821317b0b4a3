//! Printing the answer of a search: one [`Output`] for each form that flags can ask for.
//!
//! Owns the forms. An output gets the files of an answer one after the other, while the search goes
//! on, and decides nothing about what matched.

mod json;
mod lines;
mod names;
mod rg_json;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::{AnsiColor, Style as Ansi};

use super::links::HyperlinkFormat;
use super::question::SearchedPath;
use crate::exec::event::FileAnswer;
use crate::exec::schedule::Run;
use crate::tool::render::escape_controls;
use crate::tool::response::{ErrorEntry, Stats};

pub(super) use json::Json;
pub(super) use lines::{Lines, Matches};
pub(super) use names::{Counts, Names};
pub(super) use rg_json::RgJson;

/// A file of an answer, with the path that it is shown with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownFile<'a> {
    /// The path; empty for standard input.
    pub(super) path: &'a Path,
    /// The searched path that it lies in; none for standard input.
    pub(super) searched: Option<&'a SearchedPath>,
    /// The answer.
    pub(super) file: &'a FileAnswer,
}

impl ShownFile<'_> {
    /// Returns the real path, for links.
    fn absolute(&self) -> PathBuf {
        self.searched.map_or_else(PathBuf::new, |searched| {
            joined(&searched.absolute, &self.file.path, searched.is_file)
        })
    }
}

/// The end of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    /// How the search ended.
    pub(super) run: &'a Run,
    /// The deadline passed.
    pub(super) timed_out: bool,
    /// The errors of single files, in order.
    pub(super) errors: &'a [ErrorEntry],
    /// Diagnostics, if they are asked for.
    pub(super) stats: Option<&'a Stats>,
    /// How long the search took.
    pub(super) took: Duration,
    /// The exit status.
    pub(super) status: u8,
}

/// Prints an answer.
pub(super) trait Output {
    /// Prints a file of the answer. The parts of one file may come one after the other.
    fn file(&mut self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Prints something that the reader has to know about the answer as a whole, behind the last
    /// file and before the end. Returns false if this form has no place for it.
    fn note(&mut self, _: &str, _: &mut dyn Write) -> io::Result<bool> {
        Ok(false)
    }

    /// Prints what follows the last file.
    fn end(&mut self, _: &End<'_>, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Returns true if it says of a binary file with a match that there is one.
    fn tells_of_binary(&self) -> bool {
        false
    }
}

/// Prints nothing.
pub(super) struct Quiet;

impl Output for Quiet {
    fn file(&mut self, _: &ShownFile<'_>, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn tells_of_binary(&self) -> bool {
        true
    }
}

/// How text looks.
#[derive(Clone, Debug, Default)]
pub(super) struct Style {
    /// Colours.
    pub(super) color: bool,
    /// The path stands on a line of its own above the lines of a file.
    pub(super) headings: bool,
    /// Paths are hyperlinks of this format, on a machine of this name.
    pub(super) links: Option<(HyperlinkFormat, String)>,
    /// Control characters are printed as they are.
    pub(super) raw: bool,
    /// The output is a terminal, on which invalid bytes are printed as U+FFFD.
    pub(super) terminal: bool,
    /// Lines have no path.
    pub(super) no_paths: bool,
    /// Lines have neither numbers nor columns.
    pub(super) no_numbers: bool,
    /// Lines have no columns.
    pub(super) no_columns: bool,
    /// A zero byte ends each path.
    pub(super) null: bool,
    /// The most bytes of a line that are shown.
    pub(super) max_line_bytes: Option<usize>,
    /// White space at the start of a line is left out.
    pub(super) trim: bool,
    /// Context is shown, so that a line parts groups of lines.
    pub(super) has_context: bool,
}

const PATH: Ansi = AnsiColor::Magenta.on_default();
const NUMBER: Ansi = AnsiColor::Green.on_default();
const MATCH: Ansi = AnsiColor::Red.on_default().bold();

impl Style {
    /// Writes bytes as text: control characters are escaped unless they are wanted as they are, and
    /// invalid bytes are replaced on a terminal only.
    pub(super) fn text(&self, bytes: &[u8], out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        if self.raw || is_plain(bytes) {
            return out.write_all(bytes);
        }
        if let Ok(text) = std::str::from_utf8(bytes) {
            return out.write_all(escape_controls(text).as_bytes());
        }
        for chunk in bytes.utf8_chunks() {
            out.write_all(escape_controls(chunk.valid()).as_bytes())?;
            match self.terminal && !chunk.invalid().is_empty() {
                true => out.write_all("\u{FFFD}".as_bytes())?,
                false => out.write_all(chunk.invalid())?,
            }
        }
        Ok(())
    }

    /// Writes bytes in a colour.
    fn painted(
        &self,
        paint: Ansi,
        bytes: &[u8],
        out: &mut (impl Write + ?Sized),
    ) -> io::Result<()> {
        if !self.color {
            return self.text(bytes, out);
        }
        write!(out, "{}", paint.render())?;
        self.text(bytes, out)?;
        write!(out, "{}", paint.render_reset())
    }

    /// Writes a number in the colour of line numbers.
    fn number(&self, number: u64, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        match self.color {
            true => self.painted(NUMBER, digits, out),
            false => out.write_all(digits),
        }
    }

    /// Writes the path of a file, as a link to a place in it where links are wanted.
    pub(super) fn path(
        &self,
        shown: &ShownFile<'_>,
        line: u64,
        column: u64,
        out: &mut (impl Write + ?Sized),
    ) -> io::Result<()> {
        let bytes = shown_bytes(shown.path);
        let Some((format, host)) = &self.links else {
            return self.painted(PATH, &bytes, out);
        };
        let url = format.url(&shown.absolute(), host, line.max(1), column.max(1));
        write!(out, "\x1b]8;;{url}\x1b\\")?;
        self.painted(PATH, &bytes, out)?;
        write!(out, "\x1b]8;;\x1b\\")
    }
}

/// Returns true for text that is printed as it is everywhere: printable ASCII and tabs. Nearly all lines
/// of sources are, and this is the cheapest look at them.
fn is_plain(bytes: &[u8]) -> bool {
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    // Without a branch for each byte, so that many are looked at at once.
    let all = |chunk: &[u8]| {
        chunk
            .iter()
            .fold(true, |all, byte| all & is_printable(byte))
    };
    let (chunks, rest) = bytes.as_chunks::<32>();
    chunks.iter().all(|chunk| all(chunk)) && all(rest)
}

/// Returns the bytes of a path with forward slashes; those of standard input are `<stdin>`.
pub(super) fn shown_bytes(path: &Path) -> Cow<'_, [u8]> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() {
        return Cow::Borrowed(b"<stdin>");
    }
    match std::path::MAIN_SEPARATOR {
        '/' => Cow::Borrowed(bytes),
        _ => Cow::Owned(path.to_string_lossy().replace('\\', "/").into_bytes()),
    }
}

/// Returns the path that a file of an answer is shown with.
pub(super) fn joined(prefix: &Path, path: &Path, is_file: bool) -> PathBuf {
    match is_file || path.as_os_str().is_empty() {
        true => prefix.to_path_buf(),
        false => prefix.join(path),
    }
}
