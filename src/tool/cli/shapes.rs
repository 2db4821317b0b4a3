//! Answers in other shapes than lines: paths, counts, a line for each match; and in another order.
//!
//! Owns how they are printed. What was found is a response as ever.

use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use super::again::{self, EveryMatch, Hit};
use super::args::SortBy;
use super::complain;
use super::patterns::types;
use crate::tool::render::escape_controls;
use crate::tool::response::{Record, SearchResponse};

/// What is counted in each file.
pub(super) enum Counted<'a, 'r> {
    /// Nothing.
    Nothing,
    /// The lines that match.
    Lines,
    /// The matches.
    Matches(&'a EveryMatch<'r>),
}

/// How the names of files are printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    /// What they are relative to.
    pub(super) root: &'a Path,
    /// Links may have led there.
    pub(super) follow: bool,
    /// Control characters, and bytes that are not UTF-8, are printed as they are.
    pub(super) raw: bool,
    /// So are they, and each ends with a zero byte: they are for a program.
    pub(super) null: bool,
}

impl Names<'_> {
    /// Prints one; returns false if it can't be told.
    fn print(&self, path: &str, out: &mut dyn Write) -> io::Result<bool> {
        let mut is_told = true;
        if self.raw || self.null {
            match again::name(self.root, path, self.follow) {
                Ok(name) => out.write_all(name.as_os_str().as_encoded_bytes())?,
                Err(error) => {
                    complain(&format!("{path}: {error}"));
                    out.write_all(path.as_bytes())?;
                    is_told = false;
                }
            }
        } else {
            // A name is one line.
            out.write_all(escape_controls(path).as_bytes())?;
        }
        if self.null {
            out.write_all(b"\0")?;
        }
        Ok(is_told)
    }
}

/// Prints each path once, with how much there is of what is counted. Returns false if not all could be told.
pub(super) fn print_paths(
    response: &SearchResponse,
    counted: &Counted<'_, '_>,
    names: &Names<'_>,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let mut is_whole = true;
    for records in files(response) {
        is_whole &= names.print(&records[0].data.path.text, out)?;
        let count = match counted {
            Counted::Nothing => None,
            Counted::Lines => Some(records.iter().filter(|one| one.is_match()).count()),
            Counted::Matches(each) => Some(each.of(records).iter().map(|(_, of)| of.len()).sum()),
        };
        match (count, names.null) {
            (Some(count), true) => writeln!(out, "{count}")?,
            (Some(count), false) => writeln!(out, ":{count}")?,
            (None, true) => {}
            (None, false) => writeln!(out)?,
        }
    }
    Ok(is_whole)
}

/// Prints a line for each match, with what `shown` takes of it.
pub(super) fn print_each_match(
    response: &SearchResponse,
    each: &EveryMatch<'_>,
    raw: bool,
    shown: impl for<'a> Fn(&'a Hit, &'a Record) -> &'a str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let printed = |text: &str| match raw {
        true => text.to_string(),
        false => escape_controls(text).into_owned(),
    };
    for records in files(response) {
        let path = printed(&records[0].data.path.text);
        for (record, hits) in each.of(records) {
            let number = record.data.line_number;
            for hit in &hits {
                let text = printed(shown(hit, record));
                writeln!(out, "{path}:{number}:{}:{text}", hit.column)?;
            }
        }
    }
    Ok(())
}

/// Prints the types of files, with their globs.
pub(super) fn print_types(out: &mut dyn Write) -> io::Result<()> {
    for one in types() {
        writeln!(out, "{}: {}", one.name(), one.globs().join(", "))?;
    }
    Ok(())
}

/// Puts the files of a response into another order, and leaves of it what there may be. Returns true if something was left out.
pub(super) fn sort(
    response: &mut SearchResponse,
    by: SortBy,
    reversed: bool,
    root: &Path,
    most: usize,
) -> bool {
    let mut groups: Vec<Vec<Record>> = files(response).map(<[Record]>::to_vec).collect();
    if by == SortBy::Modified {
        let modified = |records: &Vec<Record>| -> Option<SystemTime> {
            // One that is gone by now, or can't be told, comes first. Links count only where they were followed, as what they lead to.
            let path = again::name(root, &records[0].data.path.text, true).ok()?;
            let modified = root.join(path).metadata().and_then(|meta| meta.modified());
            modified.ok()
        };
        groups.sort_by_cached_key(modified);
    }
    if reversed {
        groups.reverse();
    }
    response.matches = groups.into_iter().flatten().collect();
    let is_cut = response.matches.len() > most;
    response.matches.truncate(most);
    response.count = response.matches.len();
    is_cut
}

/// Returns the events of each file.
pub(super) fn files(response: &SearchResponse) -> impl Iterator<Item = &[Record]> {
    response.matches.chunk_by(|a, b| a.data.path == b.data.path)
}
