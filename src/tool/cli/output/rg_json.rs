//! `--rg-json`: the messages that ripgrep prints with `--json`, byte for byte.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::json;

use super::{End, Output, ShownFile, shown_bytes};
use crate::exec::answer::event::{BinaryCut, Line};
use crate::exec::answer::line_sink::lossy;

/// Prints the messages of ripgrep's `--json`.
#[derive(Default)]
pub(in super::super) struct RgJson {
    /// The file in progress; its last part has not arrived yet.
    open: Option<OpenFile>,
    all: Counts,
    notes: Vec<String>,
}

struct OpenFile {
    path: PathBuf,
    counts: Counts,
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

#[derive(Serialize)]
struct Stats {
    elapsed: Elapsed,
    #[serde(flatten)]
    counts: Counts,
}

/// The counters of ripgrep's `stats`.
#[derive(Clone, Copy, Default, Serialize)]
struct Counts {
    searches: u64,
    searches_with_match: u64,
    bytes_searched: u64,
    bytes_printed: u64,
    matched_lines: u64,
    matches: u64,
}

#[derive(Serialize)]
struct Elapsed {
    secs: u64,
    nanos: u32,
    human: String,
}

impl From<Duration> for Elapsed {
    fn from(time: Duration) -> Elapsed {
        Elapsed {
            secs: time.as_secs(),
            nanos: time.subsec_nanos(),
            human: format!("{:.6}s", time.as_secs_f64()),
        }
    }
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

impl Counts {
    fn add(&mut self, other: Counts) {
        self.searches += other.searches;
        self.searches_with_match += other.searches_with_match;
        self.bytes_searched += other.bytes_searched;
        self.bytes_printed += other.bytes_printed;
        self.matched_lines += other.matched_lines;
        self.matches += other.matches;
    }

    fn and_time(self, elapsed: Duration) -> Stats {
        Stats {
            elapsed: elapsed.into(),
            counts: self,
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
        let mut counts = Counts {
            searches: 1,
            searches_with_match: 1,
            ..Counts::default()
        };
        if !self.is_open(path) {
            self.close(out)?;
            let path: &[u8] = &shown_bytes(path);
            let path = path.into();
            counts.bytes_printed = write("begin", Begin { path }, out)?;
        }
        Ok(self.open.get_or_insert_with(|| OpenFile {
            path: path.to_path_buf(),
            counts,
            binary: None,
        }))
    }

    fn close(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let path: &[u8] = &shown_bytes(&open.path);
        let end = Ended {
            path: path.into(),
            binary_offset: open.binary.map(|binary| binary.nul),
            stats: open.counts.and_time(Duration::ZERO),
        };
        self.all.add(open.counts);
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
        self.counts.bytes_printed += write(kind, data, out)?;
        if line.is_match() {
            self.counts.matched_lines += 1;
            self.counts.matches += line.spans.len() as u64;
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
        open.counts.bytes_searched += outcome.searched_bytes;
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
        let mut all = self.all;
        all.searches = totals.files_scanned.max(all.searches);
        all.bytes_searched = totals.searched_bytes.max(all.bytes_searched);
        // ripgrep writes this message with its fields in alphabetical order.
        let elapsed = serde_json::to_value(Elapsed::from(end.took))?;
        let stats = serde_json::to_value(all.and_time(end.took))?;
        let mut summary = json!({"type": "summary", "data": {
            "elapsed_total": elapsed,
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
