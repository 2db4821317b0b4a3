//! The pages of a container whose file is read as it is looked at.
//!
//! Owns what was read: each page once, after it was found to have its checksum, and then it never changes. What lies in
//! two pages, or is a longer part of a section, is kept once more, in one piece.

use std::sync::OnceLock;

use super::layout::{PAGE_SHIFT, PAGE_SIZE};
use crate::format::error::FormatError;

/// Pages, by their numbers.
#[derive(Debug)]
pub(super) struct Pages {
    single: Vec<OnceLock<Vec<u8>>>,
    /// Those with the ones after them.
    pairs: Vec<OnceLock<Vec<u8>>>,
    /// Whole sections, by their place in the table.
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

    /// Returns a range of bytes, which is not empty and lies within the pages. `read` reads pages, from one to before
    /// another, and checks them. `section` is the place in the table and the range of the section that the bytes are in.
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

/// Returns what is in a place; puts it there if nobody has.
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
