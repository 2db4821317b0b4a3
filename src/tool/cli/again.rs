//! Files that were found, looked into once more.
//!
//! Owns that only the file is opened that was meant: what has come to its place since may lead anywhere.

use std::borrow::Cow;
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

/// What the paths of an answer are relative to, and where all of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roots {
    /// Relative paths start here.
    first: PathBuf,
    /// Absolute paths are in one of these.
    others: Vec<PathBuf>,
}

impl Roots {
    /// Relative paths start at `first`; absolute ones are there or in one of `others`.
    pub(super) fn new(first: &Path, others: &[PathBuf]) -> Roots {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let first = real(first);
        let others = others.iter().map(|other| real(&first.join(other)));
        Roots {
            others: others.collect(),
            first,
        }
    }

    /// Opens a file that was found. Only with `follow` a link may lead there, within a root.
    ///
    /// # Errors
    ///
    /// It is none any more.
    pub(super) fn open(&self, path: &Path, follow: bool) -> io::Result<File> {
        let whole = self.first.join(path);
        let real = match follow {
            true => whole.canonicalize()?,
            false => whole,
        };
        let within = |root: &PathBuf| {
            let rel = real.strip_prefix(root).ok()?;
            Some((root.clone(), rel.to_path_buf()))
        };
        let all = [&self.first].into_iter().chain(&self.others);
        let Some((root, rel)) = all.filter_map(within).next() else {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "leads out of where was searched by now",
            ));
        };
        RootDir::open(&root)?.open_file(&rel)
    }

    /// Opens a file by what its name is shown as, and returns the name, too.
    ///
    /// # Errors
    ///
    /// It is none any more, or it can't be told which one was meant.
    pub(super) fn find(&self, shown: &str) -> io::Result<(PathBuf, File)> {
        let name = name(&self.first, shown)?;
        let file = self.open(&name, false)?;
        Ok((name, file))
    }
}

/// Returns what is searched of a file: its text, decoded if it begins with a byte order mark.
pub(super) fn text(file: File) -> impl Read {
    DecodeReaderBytesBuilder::new()
        .utf8_passthru(true)
        .strip_bom(true)
        .build(file)
}

/// Returns the name, relative to `root`, that is shown as `path`; it is another one if it is not UTF-8. Costs a look into each directory of such a name.
///
/// # Errors
///
/// There is none any more, or there are several.
fn name(root: &Path, path: &str) -> io::Result<PathBuf> {
    let mut whole = PathBuf::new();
    if !path.contains(char::REPLACEMENT_CHARACTER) {
        whole.push(path);
        return Ok(whole);
    }
    for component in Path::new(path).components() {
        let shown = component.as_os_str().to_string_lossy();
        if !shown.contains(char::REPLACEMENT_CHARACTER) {
            whole.push(component);
            continue;
        }
        let mut meant: Option<OsString> = None;
        for entry in fs::read_dir(root.join(&whole))? {
            let entry = entry?;
            let is_same = entry.file_name().to_string_lossy() == shown;
            if !is_same || entry.file_type()?.is_symlink() {
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
pub(super) struct Hit<'l> {
    /// The 1-based byte offset in the line as the file has it.
    pub(super) column: u64,
    /// Its text, of which bytes that are not UTF-8 are replaced.
    pub(super) text: Cow<'l, str>,
}

/// Finds every match of lines that were found; an answer names only the first of each.
pub(super) struct EveryMatch<'a> {
    /// None for what is approximate, of which each line has one.
    matcher: Option<WorkerMatcher>,
    roots: &'a Roots,
    follow: bool,
}

impl EveryMatch<'_> {
    /// Of the answers to a request.
    pub(super) fn new<'a>(request: &SearchRequest, roots: &'a Roots) -> EveryMatch<'a> {
        EveryMatch {
            matcher: every_match(request),
            roots,
            follow: request.follow,
        }
    }

    /// Tells of the matches of each of a file's lines that match, which are whole. Costs a search of the lines; and reading the file, if some are not UTF-8.
    ///
    /// # Errors
    ///
    /// Those of `tell`.
    pub(super) fn of(
        &self,
        records: &[Record],
        mut tell: impl FnMut(&Record, &Hit<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = Reread::default();
        for record in records.iter().filter(|record| record.is_match()) {
            // How many bytes what is no UTF-8 has, only the file says.
            let line = match record.data.lines.text.contains(char::REPLACEMENT_CHARACTER) {
                true => file.line(record, self),
                false => None,
            };
            self.in_line(record, line.as_deref(), &mut |hit| tell(record, hit))?;
        }
        Ok(())
    }

    fn in_line(
        &self,
        record: &Record,
        bytes: Option<&[u8]>,
        tell: &mut dyn FnMut(&Hit<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let text = record.data.lines.text.as_str();
        let line = bytes.unwrap_or(text.as_bytes());
        // Of a line that has changed since, what stands before is as it was.
        let known = match bytes {
            None => text.find(char::REPLACEMENT_CHARACTER).unwrap_or(text.len()),
            Some(bytes) => bytes.len(),
        };
        let mut told = false;
        if let Some(matcher) = &self.matcher {
            let searched = matcher.try_find_iter(line, |found| {
                if found.end() > known {
                    return Ok(false);
                }
                told = true;
                tell(&Hit {
                    column: found.start() as u64 + 1,
                    text: String::from_utf8_lossy(&line[found]),
                })
                .map(|()| true)
            });
            // It was not told to stop.
            searched.unwrap_or(Ok(()))?;
        }
        match told {
            true => Ok(()),
            // It is known that there is one, also where it is approximate.
            false => tell(&Hit {
                column: record.data.column.unwrap_or(1),
                text: record.data.match_text.as_deref().unwrap_or_default().into(),
            }),
        }
    }
}

/// A file that is read once more, for lines in ascending order.
#[derive(Default)]
struct Reread {
    reader: Option<Box<dyn BufRead>>,
    /// Nothing more comes of it.
    ended: bool,
    /// Lines that were read.
    at: u64,
}

impl Reread {
    /// Returns the line of a record, if it is as it was found.
    fn line(&mut self, record: &Record, each: &EveryMatch<'_>) -> Option<Vec<u8>> {
        if self.reader.is_none() && !self.ended {
            match each.roots.open(record.name(), each.follow) {
                Ok(file) => self.reader = Some(Box::new(BufReader::new(text(file)))),
                Err(_) => self.ended = true,
            }
        }
        let reader = self.reader.as_mut()?;
        while self.at + 1 < record.data.line_number {
            reader.skip_until(b'\n').ok()?;
            self.at += 1;
        }
        self.at += 1;
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).ok()?;
        for end in [b'\n', b'\r'] {
            if line.last() == Some(&end) {
                line.pop();
            }
            if String::from_utf8_lossy(&line) == record.data.lines.text {
                return Some(line);
            }
        }
        None
    }
}
