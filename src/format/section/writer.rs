//! Writes a container from front to back, and computes the checksum of each page on the way.
//! Nothing that was written is read or changed again.

use std::io::{self, Write};

use super::layout::{
    ENTRY_LEN, Entry, FileKind, HEADER_LEN, Header, MAX_SECTIONS, PAGE_SIZE, Summary, TRAILER_LEN,
    Trailer, align, file_checksum,
};
use crate::format::wire::Writer;

/// Writes a container to `out`, one section after the other. Each section is a call of
/// [`begin`](Self::begin), any number of writes, and [`end`](Self::end).
///
/// Sections are stored in the order of writing; equal sections result in equal bytes. The writer
/// needs four bytes of memory for each page of [`PAGE_SIZE`]. It does not buffer: unless writes are
/// large, `out` should.
///
/// Calls in the wrong order return an error of kind [`io::ErrorKind::InvalidInput`] and write
/// nothing.
#[derive(Debug)]
pub struct SectionWriter<W: Write> {
    out: W,
    header: [u8; HEADER_LEN],
    at: u64,
    page: crc32fast::Hasher,
    /// The number of bytes of the incomplete page that `page` has hashed.
    in_page: usize,
    page_crcs: Writer,
    entries: Vec<Entry>,
    open: bool,
}

impl<W: Write> SectionWriter<W> {
    /// Starts a file of `kind`. `kind_version` is the version of its sections' content, from 1.
    ///
    /// # Errors
    ///
    /// Those of `out`, and [`io::ErrorKind::InvalidInput`] if `kind_version` is 0.
    pub fn new(out: W, kind: FileKind, kind_version: u32) -> io::Result<Self> {
        if kind_version == 0 {
            return Err(misuse("versions count from 1"));
        }
        let header = Header {
            kind: kind.code(),
            kind_version,
        };
        let mut writer = Self {
            out,
            header: header.encode(),
            at: 0,
            page: crc32fast::Hasher::new(),
            in_page: 0,
            page_crcs: Writer::new(),
            entries: Vec::new(),
            open: false,
        };
        let header = writer.header;
        writer.put(&header)?;
        Ok(writer)
    }

    /// Starts the section `id`, a number other than 0 that is unique in the file.
    ///
    /// # Errors
    ///
    /// Those of `out`, and [`io::ErrorKind::InvalidInput`] if a section is open, if `id` is 0 or
    /// was used, or if the file has [`MAX_SECTIONS`] sections.
    pub fn begin(&mut self, id: u32) -> io::Result<()> {
        if self.open {
            return Err(misuse("a section is begun while another is open"));
        }
        if id == 0 || self.entries.iter().any(|entry| entry.id == id) {
            return Err(misuse("a section is begun whose id is 0 or not unique"));
        }
        if self.entries.len() == MAX_SECTIONS {
            return Err(misuse("a file has no more sections than it can have"));
        }
        self.pad()?;
        let offset = self.at;
        self.entries.push(Entry { id, offset, len: 0 });
        self.open = true;
        Ok(())
    }

    /// Returns the number of bytes in the open section so far.
    pub fn section_len(&self) -> u64 {
        let last = self.entries.last().filter(|_| self.open);
        last.map_or(0, |entry| self.at - entry.offset)
    }

    /// Writes to the open section.
    ///
    /// # Errors
    ///
    /// Those of `out`, and [`io::ErrorKind::InvalidInput`] if no section is open. After an error of
    /// `out` the file is unusable.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.open {
            return Err(misuse("bytes are written outside of a section"));
        }
        self.put(bytes)
    }

    /// Ends the open section.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if no section is open.
    pub fn end(&mut self) -> io::Result<()> {
        let len = self.section_len();
        match self.entries.last_mut() {
            Some(entry) if self.open => entry.len = len,
            _ => return Err(misuse("a section is ended while none is open")),
        }
        self.open = false;
        Ok(())
    }

    /// Writes a whole section.
    ///
    /// # Errors
    ///
    /// Those of [`begin`](Self::begin) and [`write_all`](Self::write_all).
    pub fn section(&mut self, id: u32, bytes: &[u8]) -> io::Result<()> {
        self.begin(id)?;
        self.write_all(bytes)?;
        self.end()
    }

    /// Completes the file and flushes `out`.
    ///
    /// # Errors
    ///
    /// Those of `out`, and [`io::ErrorKind::InvalidInput`] if a section is open.
    pub fn finish(mut self) -> io::Result<Summary> {
        if self.open {
            return Err(misuse("the file is finished while a section is open"));
        }
        self.pad()?;
        if self.in_page > 0 {
            self.end_page();
        }
        let list_offset = self.at;
        let mut table = Writer::new();
        for entry in &self.entries {
            entry.encode(&mut table);
        }
        let list = self.page_crcs.as_bytes();
        let table = table.into_bytes();
        debug_assert_eq!(table.len(), self.entries.len() * ENTRY_LEN);
        let table_offset = list_offset + list.len() as u64;
        let summary = Summary {
            len: table_offset + table.len() as u64 + TRAILER_LEN as u64,
            checksum: file_checksum(&self.header, list, &table),
        };
        let trailer = Trailer {
            list_offset,
            table_offset,
            file_len: summary.len,
            checksum: summary.checksum,
            sections: self.entries.len() as u32,
            list_crc: crc32fast::hash(list),
            table_crc: crc32fast::hash(&table),
        };
        self.out.write_all(list)?;
        self.out.write_all(&table)?;
        self.out.write_all(&trailer.encode())?;
        self.out.flush()?;
        Ok(summary)
    }

    /// Writes zeros up to the next aligned offset.
    fn pad(&mut self) -> io::Result<()> {
        let aligned = align(self.at).ok_or_else(|| misuse("the file is too long"))?;
        let zeros = [0; crate::format::storage::ALIGNMENT];
        let missing = (aligned - self.at) as usize;
        self.put(&zeros[..missing])
    }

    /// Writes bytes that belong to the pages.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PAGE_SIZE - self.in_page));
            self.page.update(now);
            self.in_page += now.len();
            self.at += now.len() as u64;
            rest = later;
            if self.in_page == PAGE_SIZE {
                self.end_page();
            }
        }
        Ok(())
    }

    fn end_page(&mut self) {
        let page = std::mem::take(&mut self.page);
        self.page_crcs.u32(page.finalize());
        self.in_page = 0;
    }
}

fn misuse(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
