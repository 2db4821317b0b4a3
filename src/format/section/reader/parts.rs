//! The parts at the end of a container: trailer, list of sections, checksums.

use std::borrow::Cow;

use super::super::layout::{
    ENTRY_LEN, Entry, HEADER_LEN, MAX_SECTIONS, PAGE_SIZE, TRAILER_LEN, Trailer, align,
};
use crate::format::error::{ChecksummedPart, FormatError, FormatErrorKind};
use crate::format::storage::Storage;
use crate::format::wire::Reader;

/// The parts of a file, at the positions that its trailer gives.
pub(super) struct Parts<'a> {
    pub(super) pages_end: usize,
    pub(super) page_count: usize,
    pub(super) list: Cow<'a, [u8]>,
    pub(super) table: Cow<'a, [u8]>,
}

impl<'a> Parts<'a> {
    /// Splits a file into its parts. They are contiguous, so the two offsets and the number of
    /// sections must add up to the length.
    pub(super) fn locate(storage: &'a Storage, trailer: &Trailer) -> Result<Self, FormatError> {
        let wrong = |problem| {
            let offset = trailer.file_len.saturating_sub(TRAILER_LEN as u64);
            FormatError::inconsistent("the trailer", offset, problem)
        };
        if trailer.sections as usize > MAX_SECTIONS {
            let found = u64::from(trailer.sections);
            let limit = MAX_SECTIONS as u64;
            return Err(FormatError::too_large(
                "the number of sections",
                found,
                limit,
            ));
        }
        if trailer.list_offset < HEADER_LEN as u64
            || align(trailer.list_offset) != Some(trailer.list_offset)
        {
            return Err(wrong(
                "the list of page checksums starts at an invalid offset",
            ));
        }
        let cut = |from: u64, to: u64| {
            let from = usize::try_from(from).ok()?;
            let len = usize::try_from(to).ok()?.checked_sub(from)?;
            (len <= storage.len()).then_some((from, len))
        };
        let table_len = u64::from(trailer.sections) * ENTRY_LEN as u64;
        let table_end = trailer.table_offset.checked_add(table_len);
        let file_end = table_end.and_then(|end| end.checked_add(TRAILER_LEN as u64));
        if file_end != Some(storage.len() as u64) {
            return Err(wrong(
                "the section table does not end where the trailer starts",
            ));
        }
        let parts = cut(0, trailer.list_offset)
            .zip(cut(trailer.list_offset, trailer.table_offset))
            .zip(cut(trailer.table_offset, trailer.table_offset + table_len));
        let Some((((_, pages_end), list), table)) = parts else {
            return Err(wrong("the lists are not in order"));
        };
        let page_count = pages_end.div_ceil(PAGE_SIZE);
        if page_count.checked_mul(4) != Some(list.1) {
            return Err(wrong(
                "the number of checksums differs from the number of pages",
            ));
        }
        Ok(Self {
            pages_end,
            page_count,
            list: storage.part(list.0, list.1)?,
            table: storage.part(table.0, table.1)?,
        })
    }

    /// Checks the checksums of the lists, and returns the section entries in file order.
    pub(super) fn check(&self, trailer: &Trailer) -> Result<Vec<Entry>, FormatError> {
        for (what, bytes, offset, crc) in [
            (
                ChecksummedPart::PageList,
                &*self.list,
                trailer.list_offset,
                trailer.list_crc,
            ),
            (
                ChecksummedPart::SectionTable,
                &*self.table,
                trailer.table_offset,
                trailer.table_crc,
            ),
        ] {
            if crc32fast::hash(bytes) != crc {
                let len = bytes.len() as u64;
                return Err(FormatError::new(FormatErrorKind::Checksum {
                    what,
                    offset,
                    len,
                }));
            }
        }
        let mut input = Reader::new(&self.table, "the section table");
        let mut entries = Vec::with_capacity(trailer.sections as usize);
        // The required offset of the next section: the layout leaves no choice.
        let mut next = Some(HEADER_LEN as u64);
        for _ in 0..trailer.sections {
            let entry = Entry::decode(&mut input)?;
            if Some(entry.offset) != next {
                return Err(input.inconsistent("a section does not follow the one before it"));
            }
            next = entry.offset.checked_add(entry.len).and_then(align);
            entries.push(entry);
        }
        if next != Some(trailer.list_offset) {
            return Err(input.inconsistent("the last section does not end where the pages end"));
        }
        let mut ids: Vec<u32> = entries.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        if ids.first() == Some(&0) || ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(input.inconsistent("an id is 0 or occurs twice"));
        }
        input.finish()?;
        Ok(entries)
    }
}
