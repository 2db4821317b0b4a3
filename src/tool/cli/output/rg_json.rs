//! `--rg-json`: the messages that ripgrep prints with `--json`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{End, Output, ShownFile, shown_bytes};
use crate::exec::event::{BinaryCut, Line};

/// Prints ripgrep's messages.
#[derive(Default)]
pub(in super::super) struct RgJson {
    /// The file whose messages are printed, until its last part has come.
    open: Option<OpenFile>,
    all: Counts,
    notes: Vec<String>,
}

struct OpenFile {
    path: PathBuf,
    shown: Value,
    counts: Counts,
    binary: Option<BinaryCut>,
}

/// The numbers of ripgrep's `stats`.
#[derive(Clone, Copy, Default)]
struct Counts {
    searches: u64,
    searches_with_match: u64,
    bytes_searched: u64,
    bytes_printed: u64,
    matched_lines: u64,
    matches: u64,
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

    fn to_json(self, elapsed: Duration) -> Value {
        json!({
            "elapsed": time(elapsed),
            "searches": self.searches,
            "searches_with_match": self.searches_with_match,
            "bytes_searched": self.bytes_searched,
            "bytes_printed": self.bytes_printed,
            "matched_lines": self.matched_lines,
            "matches": self.matches,
        })
    }
}

fn time(time: Duration) -> Value {
    json!({
        "secs": time.as_secs(),
        "nanos": time.subsec_nanos(),
        "human": format!("{:.6}s", time.as_secs_f64()),
    })
}

/// Writes bytes as ripgrep does: as text, or in base64 where they are not UTF-8.
fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "bytes": STANDARD.encode(bytes) }),
    }
}

impl RgJson {
    /// Returns the open file of a path, after closing another one.
    fn open(&mut self, path: &Path, out: &mut dyn Write) -> io::Result<&mut OpenFile> {
        if self.open.as_ref().is_none_or(|open| open.path != path) {
            self.close(out)?;
            let shown = bytes(&shown_bytes(path));
            let begin = json!({"type": "begin", "data": {"path": shown}});
            writeln!(out, "{begin}")?;
        }
        Ok(self.open.get_or_insert_with(|| OpenFile {
            path: path.to_path_buf(),
            shown: bytes(&shown_bytes(path)),
            counts: Counts {
                searches: 1,
                searches_with_match: 1,
                ..Counts::default()
            },
            binary: None,
        }))
    }

    fn close(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let end = json!({"type": "end", "data": {
            "path": open.shown,
            "binary_offset": open.binary.map(|binary| binary.nul),
            "stats": open.counts.to_json(Duration::ZERO),
        }});
        self.all.add(open.counts);
        writeln!(out, "{end}")
    }
}

impl OpenFile {
    fn line(&mut self, line: &Line, out: &mut dyn Write) -> io::Result<()> {
        let place = line.place.unwrap_or_default();
        let whole = [&line.text, place.end.bytes()].concat();
        let submatches: Vec<Value> = line
            .spans
            .iter()
            .map(|span| {
                let found = line.text.get(span.start..span.end).unwrap_or_default();
                json!({"match": bytes(found), "start": span.start, "end": span.end})
            })
            .collect();
        let kind = if line.is_match() { "match" } else { "context" };
        let message = json!({"type": kind, "data": {
            "path": self.shown,
            "lines": bytes(&whole),
            "line_number": line.number,
            "absolute_offset": place.offset,
            "submatches": submatches,
        }});
        let message = format!("{message}\n");
        self.counts.bytes_printed += message.len() as u64;
        if line.is_match() {
            self.counts.matched_lines += 1;
            self.counts.matches += line.spans.len() as u64;
        }
        out.write_all(message.as_bytes())
    }
}

impl Output for RgJson {
    fn file(&mut self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()> {
        let outcome = &shown.file.outcome;
        if !outcome.has_match() && outcome.lines.is_empty() {
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
        let mut summary = json!({"type": "summary", "data": {
            "elapsed_total": time(end.took),
            "stats": all.to_json(end.took),
        }});
        if !self.notes.is_empty() {
            // A member that ripgrep does not have, where an answer of ripgrep would be longer.
            summary["data"]["notes"] = self.notes.clone().into();
        }
        writeln!(out, "{summary}")
    }

    fn tells_of_binary(&self) -> bool {
        true
    }
}
