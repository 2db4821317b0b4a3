//! Results as JSON: one object per line, then a summary.

use std::io::{self, Write};

use serde_json::json;

use super::{End, Output, ShownFile, shown_bytes};
use crate::exec::answer::line_sink::lossy;
use crate::tool::cli::output::show::print_json;
use crate::tool::notes::{Note, Reader};
use crate::tool::response::{Record, Stats};

/// Prints records in the format of the tool `Search`.
#[derive(Default)]
pub(in super::super) struct Json {
    max_line_bytes: Option<usize>,
    count: u64,
    shortened: u64,
    notes: Vec<String>,
}

impl Json {
    pub(in super::super) fn new(max_line_bytes: Option<usize>) -> Json {
        Json {
            max_line_bytes,
            ..Json::default()
        }
    }
}

impl Output for Json {
    fn file(&mut self, shown: &ShownFile<'_>, out: &mut dyn Write) -> io::Result<()> {
        let path = lossy(&shown_bytes(shown.path));
        for line in &shown.file.outcome.lines {
            let record = Record::of(&path, line, self.max_line_bytes);
            self.shortened += u64::from(record.left_out.is_some());
            print_json(&record, out)?;
            self.count += 1;
        }
        Ok(())
    }

    fn note(&mut self, text: &str, _: &mut dyn Write) -> io::Result<bool> {
        self.notes.push(text.to_string());
        Ok(true)
    }

    fn end(&mut self, end: &End<'_>, out: &mut dyn Write) -> io::Result<()> {
        let totals = &end.run.totals;
        if let (1.., Some(most)) = (self.shortened, self.max_line_bytes) {
            let note = Note::LongLines {
                lines: self.shortened,
                limit: most as u64,
            };
            self.notes.push(note.text(Reader::Person));
        }
        let mut summary = json!({"type": "summary", "data": {
            "count": self.count,
            "truncated": end.run.cuts.any(),
            "timed_out": end.timed_out,
            "files_scanned": totals.files_scanned,
            "errors": end.errors,
            "exit_code": end.status,
        }});
        if !self.notes.is_empty() {
            summary["data"]["notes"] = self.notes.clone().into();
        }
        if totals.files_too_large > 0 {
            summary["data"]["files_too_large"] = totals.files_too_large.into();
        }
        if let Some(stats) = end.stats {
            let lines_shortened = self.shortened;
            summary["data"]["stats"] = serde_json::to_value(Stats {
                lines_shortened,
                ..stats.clone()
            })?;
        }
        print_json(&summary, out)
    }
}
