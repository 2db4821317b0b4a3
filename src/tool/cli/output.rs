//! Output: one [`Output`] for each mode of a search that flags select, and the formats that all
//! commands share.
//!
//! A search passes files to the output as it finds them. The output formats them, and decides
//! nothing about matches. `show` formats values, `here` paths and `links` hyperlinks; `progress`
//! has the progress bar, and `stats` the diagnostics.

#[cfg(unix)]
pub(in crate::tool::cli) mod here;
mod json;
mod lines;
pub(in crate::tool::cli) mod links;
mod names;
pub(in crate::tool::cli) mod progress;
mod rg_json;
pub(in crate::tool::cli) mod show;
pub(in crate::tool::cli) mod stats;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::{AnsiColor, Style as Ansi};

use crate::exec::answer::outcome::FileAnswer;
use crate::exec::as_text::shown;
use crate::exec::schedule::Run;
use crate::tool::cli::args::question::SearchedPath;
use crate::tool::cli::output::links::HyperlinkFormat;
use crate::tool::render::escape_controls;
use crate::tool::response::{ErrorEntry, Stats};

pub(super) use json::Json;
pub(super) use lines::{Lines, Matches};
pub(super) use names::{Counts, Names};
pub(super) use rg_json::RgJson;

/// A file of an answer, with its path in the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownFile<'a> {
    /// The path; empty for standard input.
    pub(super) path: &'a Path,
    /// The searched path that contains the file; `None` for standard input.
    pub(super) searched: Option<&'a SearchedPath>,
    /// The results of the file.
    pub(super) file: &'a FileAnswer,
}

impl ShownFile<'_> {
    /// Returns the canonical path, for links.
    fn absolute(&self) -> PathBuf {
        self.searched.map_or_else(PathBuf::new, |searched| {
            joined(&searched.absolute, &self.file.path, searched.is_file)
        })
    }
}

/// The data for the end of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    /// The outcome of the search.
    pub(super) run: &'a Run,
    /// Whether the deadline passed.
    pub(super) timed_out: bool,
    /// The errors about single files, in order.
    pub(super) errors: &'a [ErrorEntry],
    /// Diagnostics, if the user asked for them.
    pub(super) stats: Option<&'a Stats>,
    /// The duration of the search.
    pub(super) took: Duration,
    /// The exit status.
    pub(super) status: u8,
}

/// An output mode of a search.
pub(super) trait Output {
    /// Prints a file. Large files arrive in several consecutive parts.
    fn file(&mut self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Prints a note about the answer as a whole, after the last file and before the end. Returns
    /// false if the mode has no place for notes.
    fn note(&mut self, _: &str, _: &mut dyn Write) -> io::Result<bool> {
        Ok(false)
    }

    /// Prints the end of the output, after the last file.
    fn end(&mut self, _: &End<'_>, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether the mode reports binary files with matches itself.
    fn tells_of_binary(&self) -> bool {
        false
    }
}

/// The output mode that prints nothing.
pub(super) struct Quiet;

impl Output for Quiet {
    fn file(&mut self, _: &ShownFile<'_>, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn tells_of_binary(&self) -> bool {
        true
    }
}

/// Options for the appearance of text.
#[derive(Clone, Debug, Default)]
pub(super) struct Style {
    /// Whether to print colours.
    pub(super) color: bool,
    /// Whether to print the path on a line of its own, above the lines of the file.
    pub(super) headings: bool,
    /// The format of hyperlinks and the name of this machine, if paths are hyperlinks.
    pub(super) links: Option<(HyperlinkFormat, String)>,
    /// Whether to print control characters unescaped.
    pub(super) raw: bool,
    /// Whether the output is a terminal, on which invalid bytes become U+FFFD.
    pub(super) terminal: bool,
    /// Whether to omit paths.
    pub(super) no_paths: bool,
    /// Whether to omit line numbers and columns.
    pub(super) no_numbers: bool,
    /// Whether to omit columns.
    pub(super) no_columns: bool,
    /// Whether to end each path with a zero byte.
    pub(super) null: bool,
    /// Maximum bytes of a line to print.
    pub(super) max_line_bytes: Option<usize>,
    /// Whether to omit leading white space.
    pub(super) trim: bool,
    /// Whether context lines are shown, so that a separator goes between groups.
    pub(super) has_context: bool,
}

pub(super) const PATH: Ansi = AnsiColor::Magenta.on_default();
pub(super) const NUMBER: Ansi = AnsiColor::Green.on_default();
pub(super) const MATCH: Ansi = AnsiColor::Red.on_default().bold();

impl Style {
    /// Writes bytes as text. Escapes control characters unless `raw`. Replaces invalid bytes only
    /// on a terminal.
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
    pub(super) fn painted(
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

    /// Writes the path of a file, with a hyperlink if enabled.
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

/// Returns whether a text consists of printable ASCII and tabs, which need no escaping. Nearly all
/// source lines do, and this check is the cheapest one.
fn is_plain(bytes: &[u8]) -> bool {
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    // Avoid a branch per byte, so that the compiler vectorizes the loop.
    let all = |chunk: &[u8]| {
        chunk
            .iter()
            .fold(true, |all, byte| all & is_printable(byte))
    };
    let (chunks, rest) = bytes.as_chunks::<32>();
    chunks.iter().all(|chunk| all(chunk)) && all(rest)
}

/// Returns the bytes of a path with forward slashes; standard input becomes `<stdin>`.
pub(super) fn shown_bytes(path: &Path) -> Cow<'_, [u8]> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() {
        return Cow::Borrowed(b"<stdin>");
    }
    match cfg!(windows) {
        true => Cow::Owned(shown(path).into_owned().into_bytes()),
        false => Cow::Borrowed(bytes),
    }
}

/// Returns the path of a file in the output.
pub(super) fn joined(prefix: &Path, path: &Path, is_file: bool) -> PathBuf {
    match is_file || path.as_os_str().is_empty() {
        true => prefix.to_path_buf(),
        false => prefix.join(path),
    }
}
