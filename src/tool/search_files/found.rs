//! Converts the lines of files to matches with context lines.

use std::ops::ControlFlow;

use crate::exec::answer::collect::Found;
use crate::exec::answer::line_sink::lossy;
use crate::exec::answer::outcome::{FileAnswer, Line, Span};
use crate::exec::matching::fuzzy::score;
use crate::tool::response::ErrorEntry;
use crate::tool::search_files::response::FilesMatch;
use crate::tool::searcher::slashed;
use crate::tool::shorten::part;

/// Limit on the bytes of files that are kept: several times the size of a response. Once a file
/// exceeds it, this file and all later ones are only counted.
const MOST_KEPT: usize = 256 << 20;

/// The parts of an answer, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct AnswerParts {
    files: Vec<FileAnswer>,
    /// Errors and skipped files, in their order.
    errors: Vec<Problem>,
    bytes: usize,
    is_full: bool,
}

#[derive(Debug)]
enum Problem {
    Error(ErrorEntry),
    TooLarge(String),
    /// The file is not text from this byte on.
    NotText(String, u64),
}

impl AnswerParts {
    /// Keeps a part, unless the limit is exceeded.
    pub(super) fn take(&mut self, found: Found) -> ControlFlow<()> {
        match found {
            Found::Error(error) => self.errors.push(Problem::Error(ErrorEntry {
                path: slashed(&error.path),
                error: error.message,
            })),
            // A search for a pattern lists no files.
            Found::Listed(_) => {}
            Found::File(file) => match (file.outcome.gaps.too_large, file.outcome.gaps.not_text) {
                (Some(_), _) => self.errors.push(Problem::TooLarge(slashed(&file.path))),
                (None, Some(at)) => self.errors.push(Problem::NotText(slashed(&file.path), at)),
                (None, None) => self.keep(file),
            },
        }
        ControlFlow::Continue(())
    }

    fn keep(&mut self, file: FileAnswer) {
        self.bytes = self.bytes.saturating_add(file.outcome.footprint());
        self.is_full |= self.bytes > MOST_KEPT;
        if !self.is_full {
            self.files.push(file);
        }
    }

    /// Returns why the searched directory itself could not be read, if it could not.
    pub(super) fn root_error(&self) -> Option<&str> {
        match self.errors.first() {
            Some(Problem::Error(entry)) if entry.path.is_empty() => Some(&entry.error),
            _ => None,
        }
    }

    /// Returns the entries of `errors`.
    pub(super) fn errors(&self, max_file_size: u64) -> Vec<ErrorEntry> {
        let entry = |problem: &Problem| match problem {
            Problem::Error(entry) => entry.clone(),
            Problem::TooLarge(path) => ErrorEntry {
                path: path.clone(),
                error: format!("not searched: larger than max_file_size_bytes = {max_file_size}"),
            },
            Problem::NotText(path, at) => ErrorEntry {
                path: path.clone(),
                error: format!(
                    "skipped: a line matches, but the file is not text (a NUL byte or invalid \
                     UTF-8 at byte {at})"
                ),
            },
        };
        self.errors.iter().map(entry).collect()
    }

    /// Returns the kept files, in order.
    pub(super) fn files(&self) -> &[FileAnswer] {
        &self.files
    }

    /// Returns true if all files with matches are kept.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_full
    }
}

/// The display options of matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The number of context lines before and after each match.
    pub(super) around: u64,
    /// Limit on the displayed bytes of a line.
    pub(super) max_line_bytes: Option<usize>,
    /// The number of characters of the query, if matches have a score.
    pub(super) scored: Option<usize>,
}

/// Iterates over the matches of files, each with the position of its file. Each match takes time in
/// proportion to its displayed lines.
pub(super) fn matches(
    files: &[FileAnswer],
    shape: Shape,
) -> impl Iterator<Item = (usize, FilesMatch)> + '_ {
    files.iter().enumerate().flat_map(move |(nth, file)| {
        let path = slashed(&file.path);
        let lines = file.outcome.lines.iter().enumerate();
        let spans = lines.flat_map(|(at, line)| line.spans.iter().map(move |span| (at, *span)));
        spans.map(move |(at, span)| (nth, one(&path, &file.outcome.lines, at, span, shape)))
    })
}

/// Builds the match at `span` of line `at` of a file.
fn one(path: &str, lines: &[Line], at: usize, span: Span, shape: Shape) -> FilesMatch {
    let number = lines[at].number;
    let mut shortened = Vec::new();
    // The lines are valid UTF-8: other files are skipped.
    let mut shown = |line: &Line, found: Option<(usize, usize)>| {
        let max = shape.max_line_bytes;
        let part = max.and_then(|max| part(&line.text, found, max));
        shortened.extend(part.is_some().then_some(line.number));
        lossy(match part {
            Some(part) => line.text.get(part).unwrap_or_default(),
            None => &line.text,
        })
    };
    let line_text = shown(&lines[at], Some((span.start, span.end)));
    let is_near = |other: &&Line| other.number.abs_diff(number) <= shape.around;
    let before = lines[..at].iter().rev().take_while(is_near);
    let mut before: Vec<String> = before.map(|line| shown(line, None)).collect();
    before.reverse();
    let after = lines[at + 1..].iter().take_while(is_near);
    let after = after.map(|line| shown(line, None)).collect();
    let found = lines[at].text.get(span.start..span.end).unwrap_or_default();
    let mut match_text = lossy(found);
    let chars = match_text.chars().count();
    if let Some(max) = shape.max_line_bytes {
        match_text.truncate(match_text.floor_char_boundary(max));
    }
    FilesMatch {
        path: path.to_string(),
        line: number,
        column: span.start as u64 + 1,
        match_text,
        line_text,
        before,
        after,
        shortened,
        score: shape.scored.map(|of_query| {
            // Four digits distinguish the scores of usual queries.
            (score(span.edits, of_query, chars) * 10_000.0).round() / 10_000.0
        }),
    }
}
