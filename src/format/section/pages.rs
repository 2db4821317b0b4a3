//! The page cache of a container on paged storage.
//!
//! [`Container`](super::Container) asks for byte ranges, and passes in the function that reads and
//! checks pages. This module owns the bytes that were read: pages are kept after their checksums
//! matched, and never change. Pages are read in runs of [`RUN`], but those of rows one by one. A
//! range that crosses the border between two runs is kept as a second copy of the two pages at the
//! border. A longer range is kept as a copy of its section, so that every range is contiguous.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use super::layout::{PAGE_SHIFT, PAGE_SIZE};
use crate::format::error::FormatError;

/// The number of pages that are read together. A search reads most of the catalog, and reading one
/// page takes about as long as the memory for it.
const RUN: usize = u16::BITS as usize;

/// The cached pages of one file.
#[derive(Debug)]
pub(super) struct Pages {
    count: usize,
    runs: Vec<Run>,
    /// The last page of each run together with the first one of the next run.
    borders: Vec<OnceLock<Vec<u8>>>,
    /// Whole sections, by position in the section table.
    sections: Vec<OnceLock<Vec<u8>>>,
}

/// Some pages that follow each other.
#[derive(Debug, Default)]
struct Run {
    whole: OnceLock<Vec<u8>>,
    /// One bit for each page that was needed for a row.
    needed: AtomicU16,
    /// Pages that were needed for rows more than once.
    of_rows: OnceLock<Box<[OnceLock<Vec<u8>>; RUN]>>,
}

fn empty(count: usize) -> Vec<OnceLock<Vec<u8>>> {
    (0..count).map(|_| OnceLock::new()).collect()
}

impl Pages {
    pub(super) fn new(pages: usize, sections: usize) -> Self {
        let runs = pages.div_ceil(RUN);
        Self {
            count: pages,
            runs: (0..runs).map(|_| Run::default()).collect(),
            borders: empty(runs.saturating_sub(1)),
            sections: empty(sections),
        }
    }

    /// Returns a page with rows, which is read into `room` the first time, and kept from the second
    /// time on. `read` does the same as for [`bytes`](Self::bytes).
    pub(super) fn of_row<'r>(
        &'r self,
        page: usize,
        room: &'r mut Vec<u8>,
        read: impl Fn(usize, usize) -> Result<Vec<u8>, FormatError>,
    ) -> Result<&'r [u8], FormatError> {
        let start = page << PAGE_SHIFT;
        let at = page % RUN;
        let run = self.runs.get(page / RUN).ok_or_else(|| outside(start))?;
        if let Some(whole) = run.whole.get() {
            let own = whole.get(at << PAGE_SHIFT..).unwrap_or_default();
            return Ok(own.get(..PAGE_SIZE).unwrap_or(own));
        }
        let bit = 1 << at;
        if run.needed.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            *room = read(page, page + 1)?;
            return Ok(room);
        }
        let of_rows = run.of_rows.get_or_init(Box::default);
        let kept = kept(of_rows.get(at), || read(page, page + 1))?;
        kept.ok_or_else(|| outside(start))
    }

    /// Returns a non-empty range of bytes within the pages. `read` reads and checks the pages from
    /// its first argument up to, but not including, its second. `section` returns the position in
    /// the table and the range of the section that contains the bytes.
    pub(super) fn bytes(
        &self,
        start: usize,
        len: usize,
        section: impl Fn() -> Option<(usize, usize, usize)>,
        read: impl Fn(usize, usize) -> Result<Vec<u8>, FormatError>,
    ) -> Result<&[u8], FormatError> {
        let (first, last) = (start >> PAGE_SHIFT, (start + len - 1) >> PAGE_SHIFT);
        let run = first / RUN;
        let (kept, from) = if run == last / RUN {
            let (from, to) = (run * RUN, ((run + 1) * RUN).min(self.count));
            let whole = self.runs.get(run).map(|run| &run.whole);
            (kept(whole, || read(from, to))?, from)
        } else if last == first + 1 {
            (
                kept(self.borders.get(run), || read(first, last + 1))?,
                first,
            )
        } else {
            let Some((number, at, section_len)) = section() else {
                return Err(outside(start));
            };
            let (from, to) = (at >> PAGE_SHIFT, (at + section_len).div_ceil(PAGE_SIZE));
            (kept(self.sections.get(number), || read(from, to))?, from)
        };
        let at = start - (from << PAGE_SHIFT);
        kept.and_then(|bytes| bytes.get(at..at + len))
            .ok_or_else(|| outside(start))
    }
}

/// Returns the content of a cell, and fills an empty cell first.
fn kept(
    place: Option<&OnceLock<Vec<u8>>>,
    read: impl Fn() -> Result<Vec<u8>, FormatError>,
) -> Result<Option<&[u8]>, FormatError> {
    let Some(place) = place else {
        return Ok(None);
    };
    if let Some(bytes) = place.get() {
        return Ok(Some(bytes));
    }
    let bytes = read()?;
    Ok(Some(place.get_or_init(|| bytes)))
}

fn outside(start: usize) -> FormatError {
    FormatError::inconsistent(
        "the file",
        start as u64,
        "a range reaches beyond its section",
    )
}
