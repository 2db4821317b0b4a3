//! `--rg-json`: the messages that ripgrep prints with `--json`, byte for byte.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use grep_printer::Stats;
use serde::Serialize;
use serde_json::json;

use super::{End, Output, ShownFile, shown_bytes};
use crate::exec::answer::line_sink::lossy;
use crate::exec::answer::outcome::{BinaryCut, Line};

/// Prints the messages of ripgrep's `--json`.
#[derive(Default)]
pub(in super::super) struct RgJson {
    /// The file in progress; its last part has not arrived yet.
    open: Option<OpenFile>,
    all: Stats,
    notes: Vec<String>,
}

struct OpenFile {
    path: PathBuf,
    stats: Stats,
    binary: Option<BinaryCut>,
}

/// A message. Its fields, and those of its data, are in ripgrep's order.
#[derive(Serialize)]
struct Message<T> {
    #[serde(rename = "type")]
    kind: &'static str,
    data: T,
}

#[derive(Serialize)]
struct Begin<'a> {
    path: Bytes<'a>,
}

#[derive(Serialize)]
struct OneLine<'a> {
    path: Bytes<'a>,
    lines: Bytes<'a>,
    line_number: u64,
    absolute_offset: u64,
    submatches: Vec<SubMatch<'a>>,
}

#[derive(Serialize)]
struct SubMatch<'a> {
    #[serde(rename = "match")]
    found: Bytes<'a>,
    start: usize,
    end: usize,
}

#[derive(Serialize)]
struct Ended<'a> {
    path: Bytes<'a>,
    binary_offset: Option<u64>,
    stats: Stats,
}

/// Bytes in ripgrep's notation: text, or base64 if they are not UTF-8.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Bytes<'a> {
    Text(&'a str),
    Bytes(String),
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Bytes<'a> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Bytes::Text(text),
            Err(_) => Bytes::Bytes(STANDARD.encode(bytes)),
        }
    }
}

/// Writes a message and returns its length in bytes.
fn write(kind: &'static str, data: impl Serialize, out: &mut dyn Write) -> io::Result<u64> {
    let mut message = serde_json::to_vec(&Message { kind, data })?;
    message.push(b'\n');
    out.write_all(&message)?;
    Ok(message.len() as u64)
}

impl RgJson {
    fn is_open(&self, path: &Path) -> bool {
        self.open.as_ref().is_some_and(|open| open.path == path)
    }

    /// Returns the open file for a path. Closes the previous file first.
    fn open(&mut self, path: &Path, out: &mut dyn Write) -> io::Result<&mut OpenFile> {
        let mut stats = Stats::new();
        stats.add_searches(1);
        stats.add_searches_with_match(1);
        if !self.is_open(path) {
            self.close(out)?;
            let path: &[u8] = &shown_bytes(path);
            let path = path.into();
            stats.add_bytes_printed(write("begin", Begin { path }, out)?);
        }
        Ok(self.open.get_or_insert_with(|| OpenFile {
            path: path.to_path_buf(),
            stats,
            binary: None,
        }))
    }

    fn close(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let path: &[u8] = &shown_bytes(&open.path);
        self.all += &open.stats;
        let end = Ended {
            path: path.into(),
            binary_offset: open.binary.map(|binary| binary.nul),
            stats: open.stats,
        };
        write("end", end, out).map(|_| ())
    }
}

impl OpenFile {
    fn line(&mut self, line: &Line, out: &mut dyn Write) -> io::Result<()> {
        let place = line.place.unwrap_or_default();
        let whole: &[u8] = &[&line.text, place.end.bytes()].concat();
        let submatches = line.spans.iter().map(|span| SubMatch {
            found: line
                .text
                .get(span.start..span.end)
                .unwrap_or_default()
                .into(),
            start: span.start,
            end: span.end,
        });
        let path: &[u8] = &shown_bytes(&self.path);
        let data = OneLine {
            path: path.into(),
            lines: whole.into(),
            line_number: line.number,
            absolute_offset: place.offset,
            submatches: submatches.collect(),
        };
        let kind = if line.is_match() { "match" } else { "context" };
        self.stats.add_bytes_printed(write(kind, data, out)?);
        if line.is_match() {
            self.stats.add_matched_lines(1);
            self.stats.add_matches(line.spans.len() as u64);
        }
        Ok(())
    }
}

impl Output for RgJson {
    fn file(&mut self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()> {
        let outcome = &shown.file.outcome;
        // The last part of standard input has no lines.
        if outcome.lines.is_empty() && !self.is_open(shown.path) {
            if let Some(binary) = outcome.gaps.binary.filter(|binary| binary.matches) {
                // ripgrep prints no message about such a file.
                let path = lossy(&shown_bytes(shown.path));
                self.notes.push(format!(
                    "{path}: binary file matches (found a zero byte at offset {}); its lines are not shown, as by ripgrep",
                    binary.nul
                ));
            }
            return Ok(());
        }
        let open = self.open(shown.path, out)?;
        open.stats.add_bytes_searched(outcome.searched_bytes);
        open.binary = open.binary.or(outcome.gaps.binary);
        for line in &outcome.lines {
            open.line(line, out)?;
        }
        Ok(())
    }

    fn note(&mut self, text: &str, _: &mut dyn Write) -> io::Result<bool> {
        self.notes.push(text.to_string());
        Ok(true)
    }

    fn end(&mut self, end: &End<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.close(out)?;
        let totals = &end.run.totals;
        let all = &mut self.all;
        all.add_elapsed(end.took);
        all.add_searches(totals.files_scanned.saturating_sub(all.searches()));
        all.add_bytes_searched(totals.searched_bytes.saturating_sub(all.bytes_searched()));
        // ripgrep writes this message with its fields in alphabetical order.
        let stats = serde_json::to_value(all)?;
        let mut summary = json!({"type": "summary", "data": {
            "elapsed_total": stats["elapsed"],
            "stats": stats,
        }});
        if !self.notes.is_empty() {
            // A field that ripgrep does not have. It says why ripgrep's answer may be longer.
            summary["data"]["notes"] = self.notes.clone().into();
        }
        writeln!(out, "{summary}")
    }

    fn tells_of_binary(&self) -> bool {
        true
    }
}
