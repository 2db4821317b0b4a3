//! Paths of files, with or without counts.

use std::io::{self, Write};

use super::{Output, ShownFile, Style, shown_bytes};

/// Writes the path of a file. With `raw` or `null`, writes its exact bytes.
fn write_path(style: &Style, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()> {
    match style.raw || style.null {
        true => out.write_all(&shown_bytes(shown.path)),
        false => style.path(shown, 1, 1, out),
    }
}

/// Prints the path of each matching file.
pub(in super::super) struct Names {
    style: Style,
}

impl Names {
    pub(in super::super) fn new(style: Style) -> Names {
        Names { style }
    }
}

impl Output for Names {
    fn file(&mut self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()> {
        if !shown.file.outcome.has_match() {
            return Ok(());
        }
        write_path(&self.style, shown, out)?;
        out.write_all(if self.style.null { b"\0" } else { b"\n" })
    }

    fn tells_of_binary(&self) -> bool {
        true
    }
}

/// Prints the number of matching lines, or of matches, for each file.
pub(in super::super) struct Counts {
    style: Style,
    of_matches: bool,
}

impl Counts {
    pub(in super::super) fn new(style: Style, of_matches: bool) -> Counts {
        Counts { style, of_matches }
    }
}

impl Output for Counts {
    fn file(&mut self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()> {
        let outcome = &shown.file.outcome;
        let count = match self.of_matches {
            true => outcome.matches,
            false => outcome.matched_lines,
        };
        if count == 0 {
            return Ok(());
        }
        let has_path = !self.style.no_paths && !shown.path.as_os_str().is_empty();
        if has_path {
            write_path(&self.style, shown, out)?;
            out.write_all(if self.style.null { b"\0" } else { b":" })?;
        }
        writeln!(out, "{count}")
    }
}
