//! Reads a container whose bytes are not trusted: no byte of a page is returned before its checksum
//! matched.

mod parts;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::{
    Entry, FileKind, HEADER_LEN, Header, PAGE_SHIFT, PAGE_SIZE, Summary, TRAILER_LEN, Trailer,
    check_version, file_checksum,
};
use super::pages::Pages;
use crate::format::error::{ChecksummedPart, FormatError, FormatErrorKind};
use crate::format::storage::Storage;
use parts::Parts;

/// An opened file: its sections, and a record of the pages that were checked.
///
/// Threads share it without a lock. The bytes that it returns match their stored checksums. (The
/// container assumes that a mapped page does not change after its check.)
#[derive(Debug)]
pub struct Container {
    storage: Storage,
    kind_version: u32,
    trailer: Trailer,
    entries: Vec<Entry>,
    /// The end of the pages, as an offset into the storage.
    pages_end: usize,
    /// One bit per page, set after the page matched its checksum. Empty for paged storage, which
    /// keeps only pages that matched.
    verified: Vec<AtomicU64>,
    /// For paged storage: the page cache, and the list of page checksums.
    read: Option<(Pages, Vec<u8>)>,
}

/// The position of a section, or of a part of one, in its file. Small, and without a lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionRange {
    start: usize,
    len: usize,
}

/// A view of the pages of a [`Container`] for tight loops. It looks the storage up only once.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pages: &'a [u8],
    verified: &'a [AtomicU64],
    container: &'a Container,
}

/// A section of a [`Container`].
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    view: View<'a>,
    id: u32,
    range: SectionRange,
}

impl Container {
    /// Opens a file of `kind`. The version of its content must be from 1 to `supported`.
    ///
    /// Checks the header, the trailer, the section table and the list of page checksums, and that
    /// they agree with the file's length. Allocates memory only for sizes that these checks have
    /// confirmed. Pages are checked when they are accessed.
    ///
    /// # Errors
    ///
    /// A kind that [is corrupt](FormatError::is_corrupt), or [`FormatErrorKind::NewerVersion`].
    /// Paged storage also returns [`FormatErrorKind::Io`].
    pub fn open(storage: Storage, kind: FileKind, supported: u32) -> Result<Self, FormatError> {
        let header = storage.part(0, storage.len().min(HEADER_LEN))?;
        let header = Header::decode(&header)?;
        if header.kind != kind.code() {
            return Err(FormatError::new(FormatErrorKind::WrongKind {
                expected: kind.code(),
                found: header.kind,
            }));
        }
        check_version("the content", header.kind_version, supported)?;
        let tail = match storage.len().checked_sub(TRAILER_LEN) {
            Some(at) => storage.part(at, TRAILER_LEN)?,
            None => Default::default(),
        };
        let trailer = Trailer::decode(&tail, storage.len() as u64)?;
        let parts = Parts::locate(&storage, &trailer)?;
        let entries = parts.check(&trailer)?;
        let (pages_end, page_count) = (parts.pages_end, parts.page_count);
        let read = storage.is_paged().then(|| {
            let pages = Pages::new(page_count, entries.len());
            (pages, parts.list.into_owned())
        });
        let words = match read {
            Some(_) => 0,
            None => page_count.div_ceil(64),
        };
        let verified = (0..words).map(|_| AtomicU64::new(0)).collect();
        Ok(Self {
            read,
            kind_version: header.kind_version,
            storage,
            trailer,
            entries,
            pages_end,
            verified,
        })
    }

    /// Opens a file that this process has just written to memory, as [`open`](Self::open) does. Its
    /// pages count as checked.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn open_own(storage: Storage, kind: FileKind, supported: u32) -> Result<Self, FormatError> {
        let mut container = Self::open(storage, kind, supported)?;
        for word in &mut container.verified {
            *word.get_mut() = u64::MAX;
        }
        Ok(container)
    }

    /// Returns the version of the content of the sections.
    pub fn kind_version(&self) -> u32 {
        self.kind_version
    }

    /// Returns the file's length and checksum, as
    /// [`SectionWriter::finish`](super::SectionWriter::finish) did.
    pub fn summary(&self) -> Summary {
        Summary {
            len: self.trailer.file_len,
            checksum: self.trailer.checksum,
        }
    }

    /// Returns the whole file.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Returns the ids of the sections, in file order.
    pub fn section_ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|entry| entry.id)
    }

    /// Returns the position of the section `id`, if it exists.
    pub fn find(&self, id: u32) -> Option<SectionRange> {
        let entry = self.entries.iter().find(|entry| entry.id == id)?;
        Some(SectionRange {
            // Both were checked against the length of the storage.
            start: entry.offset as usize,
            len: entry.len as usize,
        })
    }

    /// Returns a section.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Inconsistent`] if no section has that id.
    pub fn section(&self, id: u32) -> Result<Section<'_>, FormatError> {
        let Some(range) = self.find(id) else {
            let problem = "a section is missing";
            let offset = self.trailer.table_offset;
            return Err(FormatError::inconsistent(
                "the section table",
                offset,
                problem,
            ));
        };
        let view = self.view();
        Ok(Section { view, id, range })
    }

    /// Returns a view for reading in a loop.
    #[inline]
    pub fn view(&self) -> View<'_> {
        let bytes = match self.read {
            // Paged storage has no bytes without a read.
            Some(_) => &[],
            None => self.storage.as_bytes(),
        };
        View {
            pages: bytes.get(..self.pages_end).unwrap_or_default(),
            verified: &self.verified,
            container: self,
        }
    }

    /// Returns `len` bytes of the file from `start`. In a loop, [`View::bytes`] is faster.
    ///
    /// # Errors
    ///
    /// Those of [`View::bytes`].
    #[inline]
    pub fn bytes(&self, start: usize, len: usize) -> Result<&[u8], FormatError> {
        self.view().bytes(start, len)
    }

    /// Returns `len` bytes of the file from `start`, as [`bytes`](Self::bytes) does, but caches
    /// nothing of a paged file. For large ranges that are needed once.
    ///
    /// # Errors
    ///
    /// Those of [`View::bytes`].
    pub fn passing(&self, start: usize, len: usize) -> Result<Cow<'_, [u8]>, FormatError> {
        let Some((_, list)) = &self.read else {
            return self.bytes(start, len).map(Cow::Borrowed);
        };
        self.check_range(start, len)?;
        let (from, to) = (start >> PAGE_SHIFT, (start + len).div_ceil(PAGE_SIZE));
        let mut bytes = self.read_pages(list, from, to)?;
        bytes.drain(..(start - (from << PAGE_SHIFT)).min(bytes.len()));
        bytes.truncate(len);
        Ok(Cow::Owned(bytes))
    }

    /// Checks that a range lies within the pages.
    fn check_range(&self, start: usize, len: usize) -> Result<(), FormatError> {
        if start > self.pages_end || len > self.pages_end - start {
            let problem = "a range reaches beyond the sections";
            return Err(FormatError::inconsistent("the file", start as u64, problem));
        }
        Ok(())
    }

    /// Checks every page, also pages that were checked before, and the lists again.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Checksum`] for the first damaged page.
    pub fn verify_all(&self) -> Result<(), FormatError> {
        let header = self.storage.part(0, HEADER_LEN)?;
        let decoded = Header::decode(&header)?;
        debug_assert_eq!(decoded.kind_version, self.kind_version);
        let parts = Parts::locate(&self.storage, &self.trailer)?;
        parts.check(&self.trailer)?;
        if file_checksum(&header, &parts.list, &parts.table) != self.trailer.checksum {
            return Err(FormatError::new(FormatErrorKind::Checksum {
                what: ChecksummedPart::File,
                offset: 0,
                len: self.trailer.file_len,
            }));
        }
        (0..parts.page_count).try_for_each(|page| self.check_page(page))
    }

    /// Checks the pages of a range, and returns the range.
    #[cold]
    #[inline(never)]
    fn checked(&self, start: usize, len: usize) -> Result<&[u8], FormatError> {
        if let Some((pages, list)) = &self.read {
            return self.checked_as_read(pages, list, start, len);
        }
        let end = start.checked_add(len);
        let pages = self.view().pages;
        let Some(bytes) = end.and_then(|end| pages.get(start..end)) else {
            let problem = "a range reaches beyond the sections";
            return Err(FormatError::inconsistent("the file", start as u64, problem));
        };
        if len > 0 {
            for page in start >> PAGE_SHIFT..=(start + len - 1) >> PAGE_SHIFT {
                let word = self.verified.get(page / 64);
                if word.is_some_and(|word| word.load(Ordering::Relaxed) >> (page % 64) & 1 == 0) {
                    self.check_page(page)?;
                }
            }
        }
        Ok(bytes)
    }

    /// Does the same as [`checked`](Self::checked) for paged storage.
    fn checked_as_read<'a>(
        &'a self,
        pages: &'a Pages,
        list: &[u8],
        start: usize,
        len: usize,
    ) -> Result<&'a [u8], FormatError> {
        self.check_range(start, len)?;
        if len == 0 {
            return Ok(&[]);
        }
        let section = || {
            let holds = |entry: &Entry| {
                let within = (start as u64).checked_sub(entry.offset);
                within.is_some_and(|within| within + len as u64 <= entry.len)
            };
            let number = self.entries.iter().position(holds)?;
            let entry = self.entries.get(number)?;
            Some((number, entry.offset as usize, entry.len as usize))
        };
        pages.bytes(start, len, section, |from, to| {
            self.read_pages(list, from, to)
        })
    }

    /// Reads the pages `from..to` of paged storage, and checks them.
    fn read_pages(&self, list: &[u8], from: usize, to: usize) -> Result<Vec<u8>, FormatError> {
        let start = from << PAGE_SHIFT;
        let end = (to << PAGE_SHIFT).min(self.pages_end);
        let bytes = self.storage.part(start, end.saturating_sub(start))?;
        for (page, bytes) in (from..to).zip(bytes.chunks(PAGE_SIZE)) {
            self.check_sum(page, bytes, list.get(page * 4..page * 4 + 4))?;
        }
        Ok(bytes.into_owned())
    }

    /// Does the same as [`row`](View::row) for paged storage.
    fn row_as_read<'a>(
        &'a self,
        pages: &'a Pages,
        list: &[u8],
        (start, len): (usize, usize),
        room: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FormatError> {
        let page = start >> PAGE_SHIFT;
        let from = start % PAGE_SIZE;
        self.check_range(start, len)?;
        if len == 0 || from + len > PAGE_SIZE {
            return self.checked_as_read(pages, list, start, len);
        }
        let page = pages.of_row(page, room, |from, to| self.read_pages(list, from, to))?;
        let row = page.get(from..from + len);
        row.ok_or_else(|| beyond(SectionRange { start, len }, page.len()))
    }

    /// Checks a page, and records it if its checksum matches.
    fn check_page(&self, page: usize) -> Result<(), FormatError> {
        let start = page << PAGE_SHIFT;
        if let Some((_, list)) = &self.read {
            let len = PAGE_SIZE.min(self.pages_end.saturating_sub(start));
            let bytes = self.storage.part(start, len)?;
            return self.check_sum(page, &bytes, list.get(page * 4..page * 4 + 4));
        }
        let pages = self.view().pages;
        let bytes = pages.get(start..).unwrap_or_default();
        let bytes = bytes.get(..PAGE_SIZE).unwrap_or(bytes);
        let all = self.storage.as_bytes();
        let stored = self.pages_end.checked_add(page * 4);
        let stored = stored.and_then(|at| all.get(at..)?.get(..4));
        self.check_sum(page, bytes, stored)?;
        if let Some(word) = self.verified.get(page / 64) {
            // Relaxed suffices: the bit orders no other memory, because the page's bytes never
            // change.
            word.fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Compares a page with its checksum.
    fn check_sum(
        &self,
        page: usize,
        bytes: &[u8],
        stored: Option<&[u8]>,
    ) -> Result<(), FormatError> {
        if bytes.is_empty() || stored != Some(crc32fast::hash(bytes).to_le_bytes().as_slice()) {
            let at = (page << PAGE_SHIFT) as u64;
            let holds =
                |entry: &&Entry| at.checked_sub(entry.offset).is_some_and(|d| d < entry.len);
            let section = self.entries.iter().find(holds).map(|entry| entry.id);
            let index = page as u64;
            return Err(FormatError::new(FormatErrorKind::Checksum {
                what: ChecksummedPart::Page { index, section },
                offset: at,
                len: bytes.len() as u64,
            }));
        }
        Ok(())
    }
}

impl<'a> View<'a> {
    /// Returns `len` bytes of the file from `start`, after checking their pages.
    ///
    /// Costs one load and one bit test, besides the bounds, if the bytes are in one page that was
    /// checked before.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Checksum`] for a damaged page. [`FormatErrorKind::Inconsistent`] if the
    /// range exceeds the sections.
    #[inline]
    pub fn bytes(self, start: usize, len: usize) -> Result<&'a [u8], FormatError> {
        let page = start >> PAGE_SHIFT;
        // An end that wraps around fails the bounds check below.
        let end = start.wrapping_add(len);
        let last = end.wrapping_sub(1) >> PAGE_SHIFT;
        let word = self.verified.get(page >> 6);
        if let (Some(word), Some(bytes)) = (word, self.pages.get(start..end))
            && last == page
            && word.load(Ordering::Relaxed) >> (page & 63) & 1 == 1
        {
            return Ok(bytes);
        }
        self.container.checked(start, len)
    }

    /// Returns `len` bytes from `start`, as [`bytes`](Self::bytes) does. A paged file keeps the
    /// page of a short range only from the second call on, and puts it into `room` on the first.
    /// For rows: most pages are needed once, and keeping a page takes longer than reading it.
    ///
    /// # Errors
    ///
    /// Those of [`bytes`](Self::bytes).
    #[inline]
    pub fn row<'r>(
        self,
        start: usize,
        len: usize,
        room: &'r mut Vec<u8>,
    ) -> Result<&'r [u8], FormatError>
    where
        'a: 'r,
    {
        match &self.container.read {
            None => self.bytes(start, len),
            Some((pages, list)) => {
                let range = (start, len);
                self.container.row_as_read(pages, list, range, room)
            }
        }
    }

    /// Returns `len` bytes from `offset` in a section.
    ///
    /// # Errors
    ///
    /// Those of [`bytes`](Self::bytes), also if the range exceeds the section.
    #[inline]
    pub fn bytes_in(
        self,
        range: SectionRange,
        offset: usize,
        len: usize,
    ) -> Result<&'a [u8], FormatError> {
        if offset > range.len || len > range.len - offset {
            return Err(beyond(range, offset));
        }
        self.bytes(range.start + offset, len)
    }
}

impl SectionRange {
    /// Returns the offset of the range in the file, in bytes.
    #[inline]
    pub fn start(self) -> usize {
        self.start
    }

    /// Returns the length of the range in bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns true if the range is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns a part of the range.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Inconsistent`] if the part exceeds the range.
    pub fn part(self, offset: usize, len: usize) -> Result<Self, FormatError> {
        if offset > self.len || len > self.len - offset {
            return Err(beyond(self, offset));
        }
        let start = self.start + offset;
        Ok(Self { start, len })
    }
}

#[cold]
#[inline(never)]
fn beyond(range: SectionRange, offset: usize) -> FormatError {
    let at = (range.start as u64).saturating_add(offset as u64);
    FormatError::inconsistent("a section", at, "a range reaches beyond it")
}

impl<'a> Section<'a> {
    /// Returns the id of the section.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the position of the section in the file. It can be kept longer than the borrow.
    pub fn range(&self) -> SectionRange {
        self.range
    }

    /// Returns the length of the section in bytes.
    pub fn len(&self) -> usize {
        self.range.len
    }

    /// Returns true if the section is empty.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns `len` bytes from `offset` in the section.
    ///
    /// # Errors
    ///
    /// Those of [`View::bytes_in`].
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> Result<&'a [u8], FormatError> {
        self.view.bytes_in(self.range, offset, len)
    }

    /// Returns the whole section, after checking all of its pages.
    ///
    /// # Errors
    ///
    /// Those of [`View::bytes`].
    pub fn all(&self) -> Result<&'a [u8], FormatError> {
        self.view.bytes(self.range.start, self.range.len)
    }
}
