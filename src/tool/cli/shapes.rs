//! Answers in other shapes than lines: paths, counts, a line for each match; and in another order.
//!
//! Owns how they are printed. What was found is a response as ever.

use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use super::again::EveryMatch;
use super::args::SortBy;
use super::patterns::types;
use super::printer::Printer;
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
pub(super) struct Names<'a> {
    /// How they look to people.
    pub(super) printer: Printer<'a>,
    /// Control characters, and bytes that are not UTF-8, are printed as they are.
    pub(super) raw: bool,
    /// So are they, and each ends with a zero byte: they are for a program.
    pub(super) null: bool,
}

impl Names<'_> {
    fn print(&self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        match self.raw || self.null {
            true => out.write_all(record.name().as_os_str().as_encoded_bytes())?,
            false => out.write_all(self.printer.path(record).as_bytes())?,
        }
        if self.null {
            out.write_all(b"\0")?;
        }
        Ok(())
    }
}

/// Prints each path once, with how much there is of what is counted.
pub(super) fn print_paths(
    response: &SearchResponse,
    counted: &Counted<'_, '_>,
    names: &Names<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for records in files(response) {
        names.print(&records[0], out)?;
        let count = match counted {
            Counted::Nothing => None,
            Counted::Lines => Some(records.iter().filter(|one| one.is_match()).count()),
            Counted::Matches(each) => {
                let mut count = 0;
                each.of(records, |_, _| {
                    count += 1;
                    Ok(())
                })?;
                Some(count)
            }
        };
        match (count, names.null) {
            (Some(count), true) => writeln!(out, "{count}")?,
            (Some(count), false) => writeln!(out, ":{count}")?,
            (None, true) => {}
            (None, false) => writeln!(out)?,
        }
    }
    Ok(())
}

/// Prints a line for each match: with the whole line that it is in, or by itself.
pub(super) fn print_each_match(
    response: &SearchResponse,
    each: &EveryMatch<'_>,
    printer: &Printer<'_>,
    by_itself: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    for records in files(response) {
        each.of(records, |record, hit| {
            printer.place(record, hit.column, out)?;
            match by_itself {
                true => writeln!(out, "{}", printer.matched(&hit.text)),
                false => writeln!(out, "{}", printer.escaped(&record.data.lines.text)),
            }
        })?;
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
            // One that is gone by now comes first.
            let path = root.join(records[0].name());
            path.metadata().and_then(|meta| meta.modified()).ok()
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
    response.matches.chunk_by(Record::is_of_file_of)
}
