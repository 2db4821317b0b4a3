//! The page cache of a container on paged storage.
//!
//! [`Container`](super::Container) asks for byte ranges, and passes in the function that reads and
//! checks pages. This module owns the bytes that were read: a page is kept after its checksum
//! matched, and never changes. A range in two pages is kept as a second copy of both. A longer
//! range is kept as a copy of its section, so that every range is contiguous.

use std::sync::OnceLock;

use super::layout::{PAGE_SHIFT, PAGE_SIZE};
use crate::format::error::FormatError;

/// The cached pages of one file.
#[derive(Debug)]
pub(super) struct Pages {
    single: Vec<OnceLock<Vec<u8>>>,
    /// Each page together with the next one.
    pairs: Vec<OnceLock<Vec<u8>>>,
    /// Whole sections, by position in the section table.
    sections: Vec<OnceLock<Vec<u8>>>,
}

fn empty(count: usize) -> Vec<OnceLock<Vec<u8>>> {
    (0..count).map(|_| OnceLock::new()).collect()
}

impl Pages {
    pub(super) fn new(pages: usize, sections: usize) -> Self {
        Self {
            single: empty(pages),
            pairs: empty(pages.saturating_sub(1)),
            sections: empty(sections),
        }
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
        let (kept, from) = if first == last {
            (
                kept(self.single.get(first), || read(first, first + 1))?,
                first,
            )
        } else if last == first + 1 {
            (
                kept(self.pairs.get(first), || read(first, last + 1))?,
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
