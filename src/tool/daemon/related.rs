//! Questions about the code at a place: which code is like that of `src/a.rs:120`?
//!
//! This module owns the reading of the place, and the question that is made of its piece of code.
//! The question is answered as any other, but for one thing: the piece itself is no result.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use super::answer::{RankedSearch, internal, invalid, model};
use super::reply::Failure;
use super::request::SearchQuery;
use crate::exec::answer::collect::Limits;
use crate::exec::question::query::Report;
use crate::exec::rank::{Meaning, PieceWords, piece_at};
use crate::exec::retrieve::{Frequencies, NamedContent, SourcePiece, frequencies, named_content};
use crate::exec::schedule::RunError;
use crate::exec::sources::eligible::{EligibleFile, FileSource, PathUnit};
use crate::exec::sources::reach::{EntryKind, Resolved};
use crate::exec::stop::StopReason;

/// How many pieces above a piece without words are looked at, at most.
const MAX_ABOVE: usize = 4;

/// The part of a piece whose words count, in bytes. A line of a minified file is longer.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// A place of a form that is accepted.
pub(crate) const EXAMPLE: &str = "src/a.rs:120";

/// Reads a place, such as `src/a.rs:120`. Of a range of lines such as `src/a.rs:120-134`, the first
/// one counts.
pub(crate) fn place_of(text: &str) -> Option<(&str, u64)> {
    let (file, lines) = text.rsplit_once(':')?;
    let number = |digits: &str| {
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| digits.parse::<u64>().ok())?
    };
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (line, last) = (number(first)?, number(last)?);
    (!file.is_empty() && line > 0 && last >= line).then_some((file, line))
}

/// Returns the message about a text that is no place.
pub(crate) fn no_place(text: &str) -> String {
    format!("`{text}` is not a file and a line, such as {EXAMPLE}")
}

fn beginning(piece: &[u8]) -> &[u8] {
    &piece[..piece.len().min(MAX_PIECE_BYTES)]
}

/// A line of a file.
#[derive(Clone)]
pub(super) struct SourceLine {
    /// The file as resolved.
    pub(super) file: Resolved,
    /// The file as the caller names it.
    pub(super) shown: String,
    /// The number of the line, from 1.
    pub(super) line: u64,
}

/// The text of a file.
pub(super) struct SourceText {
    /// The decoded bytes, up to binary data.
    pub(super) bytes: Vec<u8>,
    /// Whether no binary data follows.
    pub(super) is_whole: bool,
}

/// The piece of code around a line, and the question that is made of it.
pub(super) struct RelatedPiece {
    /// The most telling words of the piece.
    pub(super) question: String,
    /// The meaning of the piece.
    pub(super) meaning: Option<Meaning>,
    /// The place of the piece.
    pub(super) piece: SourcePiece,
}

impl RankedSearch<'_> {
    /// Returns the piece that a query asks about, if it does.
    ///
    /// # Errors
    ///
    /// `invalid_request` if the file or the line does not exist, the file must not be read or is no
    /// text, or its piece has no words to ask for. `internal` if the tree can't be read.
    pub(super) fn related(&self, query: &SearchQuery) -> Result<Option<RelatedPiece>, Failure> {
        let source = match (&self.source, &query.related) {
            (Some(source), _) => source.clone(),
            (None, Some(place)) => self.source_of(place)?,
            (None, None) => return Ok(None),
        };
        let text = self.text_of(&source)?.bytes;
        let shown = &source.shown;
        let mut bytes = piece_at(&text, shown, source.line).map_err(|lines| {
            let lines = match lines {
                1 => "1 line".to_string(),
                lines => format!("{lines} lines"),
            };
            let line = source.line;
            invalid(format!(
                "`{shown}` has {lines}; line {line} is beyond its end"
            ))
        })?;
        // A line without words, such as the end of a long definition, belongs to the code above it.
        let mut words = PieceWords::of(beginning(&text[bytes.clone()]), shown);
        for _ in 0..MAX_ABOVE {
            if bytes.start == 0 || !words.keys().is_empty() {
                break;
            }
            let line_above = memchr::memchr_iter(b'\n', &text[..bytes.start]).count() as u64;
            bytes = piece_at(&text, shown, line_above).unwrap_or(0..0);
            words = PieceWords::of(beginning(&text[bytes.clone()]), shown);
        }
        let piece = beginning(&text[bytes.clone()]);
        let no_words = || {
            let line = source.line;
            invalid(format!(
                "`{shown}`: other files have no words of the code at line {line}"
            ))
        };
        let keys = words.keys();
        if keys.is_empty() {
            return Err(no_words());
        }
        let (counted, is_own_counted) = self.frequencies(query, &source.file, &keys)?;
        // A count that was stopped says nothing.
        self.go_on(&None)?;
        let with = |key: u32| {
            let nth = keys.binary_search(&key).ok();
            nth.and_then(|nth| counted.with.get(nth))
                .copied()
                .unwrap_or(0)
        };
        let question = words.question(counted.files, is_own_counted, with);
        let question = question.ok_or_else(no_words)?;
        let model = model(self.caps.embed);
        Ok(Some(RelatedPiece {
            question,
            meaning: model.and_then(|model| Meaning::of(model, &String::from_utf8_lossy(piece))),
            piece: SourcePiece {
                file: source.file.canonical,
                bytes,
            },
        }))
    }

    /// Resolves the place of a query, which is absolute and below the root.
    fn source_of(&self, place: &str) -> Result<SourceLine, Failure> {
        let (file, line) = place_of(place).ok_or_else(|| invalid(no_place(place)))?;
        let file = self.resolve_inside("related", file)?;
        let shown = file
            .canonical
            .strip_prefix(self.root)
            .unwrap_or(&file.canonical);
        Ok(SourceLine {
            shown: crate::exec::as_text::shown(shown).into_owned(),
            file,
            line,
        })
    }

    /// Reads the file of a place.
    ///
    /// # Errors
    ///
    /// `invalid_request` if the file does not exist, can't be read, is too large or is no text.
    pub(super) fn text_of(&self, source: &SourceLine) -> Result<SourceText, Failure> {
        let (file, shown) = (&source.file, &source.shown);
        let unread = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => Cow::Borrowed("does not exist"),
                _ => format!("can't be read: {error}").into(),
            };
            invalid(format!("`{shown}` {why}"))
        };
        let meta = file.root.metadata(&file.relative).map_err(unread)?;
        if meta.kind != EntryKind::File {
            let kind = match meta.kind {
                EntryKind::Dir => "a directory",
                _ => "no regular file",
            };
            let message = format!("`{shown}` is {kind}; name a file and a line, such as {EXAMPLE}");
            return Err(invalid(message));
        }
        let most = self.tool.config().max_file_size_bytes;
        match named_content(&EligibleFile::named(file), most).map_err(unread)? {
            NamedContent::Text { bytes, is_whole } => Ok(SourceText { bytes, is_whole }),
            NamedContent::Binary => Err(invalid(format!("`{shown}` is binary, and has no lines"))),
            NamedContent::TooLarge => {
                let why = format!("is larger than max_file_size_bytes ({most})");
                Err(invalid(format!("`{shown}` {why}")))
            }
        }
    }

    /// Counts the files of the searched directory that have each term. For a searched file, its
    /// directory counts. Also returns whether `source` is in that directory.
    fn frequencies(
        &self,
        query: &SearchQuery,
        source: &Resolved,
        keys: &[u32],
    ) -> Result<(Frequencies, bool), Failure> {
        let wanted = vec![true; keys.len()];
        let mut request = self.request(query, None, keys.to_vec(), wanted)?;
        let target = &mut request.target;
        let kind = target.root.metadata(&target.relative).map(|meta| meta.kind);
        if kind.is_ok_and(|kind| kind != EntryKind::Dir) {
            target.canonical = parent(&target.canonical).to_path_buf();
            target.relative = parent(&target.relative).to_path_buf();
        }
        let is_inside = source.canonical.starts_with(&target.canonical);
        let limits = Limits {
            max_results: 1,
            max_files: u64::MAX,
            report: Report::Lines,
        };
        let searcher = self.tool.searcher();
        let run = searcher.options(limits, self.deadline.clone(), &self.context.cancel);
        let most = self.tool.config().max_file_size_bytes;
        let count = |source: &dyn FileSource<Unit = PathUnit>| {
            let count = || frequencies(source, keys, most, self.stop);
            self.pool.install(count)
        };
        let without_time = || {
            self.stop.raise(StopReason::TimedOut);
            Frequencies::default()
        };
        match searcher.over_dir(&request, &run, &count, &without_time).0 {
            Ok(counted) => Ok((counted, is_inside)),
            Err(RunError::Cancelled) => {
                self.stop.raise(StopReason::Cancelled);
                Ok((Frequencies::default(), is_inside))
            }
            Err(RunError::NoWorkers(message)) => Err(internal(message)),
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_a_line_from_one() {
        assert_eq!(place_of("src/a.rs:120"), Some(("src/a.rs", 120)));
        assert_eq!(place_of("src/a.rs:120-134"), Some(("src/a.rs", 120)));
        assert_eq!(place_of("a:b.rs:1"), Some(("a:b.rs", 1)));
        for text in [
            "src/a.rs:9-3",
            "src/a.rs:9-x",
            "src/a.rs:+9",
            "",
            "src/a.rs",
            "a.rs:",
            "a.rs:0",
            "a.rs:-1",
            "a.rs:x",
            ":3",
        ] {
            assert_eq!(place_of(text), None, "{text}");
        }
        assert!(place_of(EXAMPLE).is_some());
    }
}
