//! Files that were found, looked into once more.
//!
//! Owns how the name that an answer shows leads to the file that was meant, and to no other one: what has come to its place since may lead anywhere.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use encoding_rs_io::DecodeReaderBytesBuilder;
use grep_matcher::Matcher;

use super::printer::every_match;
use crate::exec::matcher::WorkerMatcher;
use crate::index::beneath::RootDir;
use crate::tool::request::SearchRequest;
use crate::tool::response::Record;

/// What a byte that is not UTF-8 is shown as.
const REPLACED: char = '\u{fffd}';

/// Opens a file that was found; `root` is canonical. Only with `follow` a link may lead there, within the root. Returns its name, too.
///
/// # Errors
///
/// It is none any more, or it can't be told which file was meant.
pub(super) fn open(root: &Path, path: &str, follow: bool) -> io::Result<(PathBuf, File)> {
    let path = name(root, path, follow)?;
    let (dir, rel) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if path.is_absolute() => {
            (parent.canonicalize()?, PathBuf::from(name))
        }
        _ if follow => {
            let real = root.join(&path).canonicalize()?;
            let rel = real.strip_prefix(root).map_err(io::Error::other)?;
            (root.to_path_buf(), rel.to_path_buf())
        }
        _ => (root.to_path_buf(), path.clone()),
    };
    let file = RootDir::open(&dir)?.open_file(&rel)?;
    Ok((path, file))
}

/// Returns what is searched of a file: its text, decoded if it begins with a byte order mark.
pub(super) fn text(file: File) -> impl Read {
    DecodeReaderBytesBuilder::new()
        .utf8_passthru(true)
        .strip_bom(true)
        .build(file)
}

/// Returns the name that is shown as `path`, which is another one if it is not UTF-8.
///
/// # Errors
///
/// There is none any more, or there are several.
pub(super) fn name(root: &Path, path: &str, follow: bool) -> io::Result<PathBuf> {
    let mut whole = PathBuf::new();
    if !path.contains(REPLACED) {
        whole.push(path);
        return Ok(whole);
    }
    for component in Path::new(path).components() {
        let shown = component.as_os_str().to_string_lossy();
        if !shown.contains(REPLACED) {
            whole.push(component);
            continue;
        }
        let mut meant: Option<OsString> = None;
        for entry in fs::read_dir(root.join(&whole))? {
            let entry = entry?;
            let is_same = entry.file_name().to_string_lossy() == shown;
            if !is_same || (!follow && entry.file_type()?.is_symlink()) {
                continue;
            }
            if meant.is_some() {
                return Err(io::Error::other(
                    "its name is not UTF-8, and another one is shown in the same way",
                ));
            }
            meant = Some(entry.file_name());
        }
        whole.push(meant.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?);
    }
    Ok(whole)
}

/// A match in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// The 1-based byte offset in the line as the file has it.
    pub(super) column: u64,
    /// Its text, of which bytes that are not UTF-8 are replaced.
    pub(super) text: String,
}

/// Finds every match of lines that were found; an answer names only the first of each.
pub(super) struct EveryMatch<'a> {
    /// None for what is approximate, of which each line has one.
    matcher: Option<WorkerMatcher>,
    root: PathBuf,
    request: &'a SearchRequest,
}

impl EveryMatch<'_> {
    /// Of the answers to a request, whose paths are relative to `root`.
    pub(super) fn new<'a>(request: &'a SearchRequest, root: &Path) -> EveryMatch<'a> {
        EveryMatch {
            matcher: every_match(request),
            root: root.canonicalize().unwrap_or_else(|_| root.to_path_buf()),
            request,
        }
    }

    /// Returns the matches of each of a file's lines that match. Costs a search of the lines; and reading the file, if some are not UTF-8.
    pub(super) fn of<'r>(&self, records: &'r [Record]) -> Vec<(&'r Record, Vec<Hit>)> {
        let matching = || records.iter().filter(|record| record.is_match());
        // How many bytes what is no UTF-8 has, only the file says.
        let replaced = matching().filter(|record| record.data.lines.text.contains(REPLACED));
        let mut bytes = self.lines(replaced).into_iter();
        matching()
            .map(|record| {
                let is_replaced = record.data.lines.text.contains(REPLACED);
                let line = is_replaced.then(|| bytes.next().flatten()).flatten();
                (record, self.in_line(record, line.as_deref()))
            })
            .collect()
    }

    fn in_line(&self, record: &Record, bytes: Option<&[u8]>) -> Vec<Hit> {
        let text = record.data.lines.text.as_str();
        let first = Hit {
            column: record.data.column.unwrap_or(1),
            text: record.data.match_text.clone().unwrap_or_default(),
        };
        let Some(matcher) = &self.matcher else {
            return vec![first];
        };
        let line = bytes.unwrap_or(text.as_bytes());
        let mut hits = Vec::new();
        // It was not told to stop.
        let _ = matcher.find_iter(line, |found| {
            hits.push(Hit {
                column: found.start() as u64 + 1,
                text: String::from_utf8_lossy(&line[found]).into_owned(),
            });
            true
        });
        if bytes.is_none()
            && let Some(known) = text.find(REPLACED)
        {
            // It has changed since. What stands before is as it was.
            let is_known = |hit: &Hit| hit.column as usize + hit.text.len() <= known + 1;
            hits.retain(is_known);
            if hits.is_empty() {
                hits.push(first);
            }
        }
        hits
    }

    /// Reads the lines of records, ascending ones of one file: those that are as they were found.
    fn lines<'r>(&self, records: impl Iterator<Item = &'r Record>) -> Vec<Option<Vec<u8>>> {
        let mut reader = None;
        let mut at = 0;
        records
            .map(|record| {
                let data = &record.data;
                if reader.is_none() {
                    let opened = open(&self.root, &data.path.text, self.request.follow);
                    reader = opened.ok().map(|(_, file)| BufReader::new(text(file)));
                }
                let reader = reader.as_mut()?;
                while at + 1 < data.line_number {
                    reader.skip_until(b'\n').ok()?;
                    at += 1;
                }
                at += 1;
                let mut line = Vec::new();
                reader.read_until(b'\n', &mut line).ok()?;
                for end in [b'\n', b'\r'] {
                    if line.last() == Some(&end) {
                        line.pop();
                    }
                    if String::from_utf8_lossy(&line) == data.lines.text {
                        return Some(line);
                    }
                }
                None
            })
            .collect()
    }
}
