//! The fixed parts of a container: what is where in header, table and trailer.

use crate::format::error::{Checked, FormatError, FormatErrorKind};
use crate::format::storage::ALIGNMENT;
use crate::format::wire::{Reader, Writer};

/// The version of the frame around the sections.
///
/// History: 1, the first.
pub const CONTAINER_VERSION: u32 = 1;

/// The bytes that share a checksum.
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;

/// The most sections a file has.
pub const MAX_SECTIONS: usize = 1024;

/// Binary logarithm of [`PAGE_SIZE`].
pub(super) const PAGE_SHIFT: u32 = 12;

/// The first bytes of every file. The first is no ASCII and no UTF-8, and the line ends and the end of file of
/// old are there so that a transfer in text mode is noticed at once.
pub(super) const MAGIC: [u8; 8] = *b"\x89FSX\r\n\x1a\n";

/// The last bytes of every file.
pub(super) const END_MAGIC: [u8; 8] = *b"\nend FSX";

/// Reads as this number only in the byte order it was written in.
pub(super) const ENDIANNESS_MARK: u32 = 0x0403_0201;

pub(super) const HEADER_LEN: usize = 64;
pub(super) const TRAILER_LEN: usize = 64;
pub(super) const ENTRY_LEN: usize = 24;

/// The smallest container: no section, one page.
pub(super) const MIN_LEN: usize = HEADER_LEN + 4 + TRAILER_LEN;

/// Where the header's own checksum is.
const HEADER_CRC_AT: usize = HEADER_LEN - 4;

/// Where the trailer's own checksum is.
const TRAILER_CRC_AT: usize = TRAILER_LEN - 12;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// An immutable part of an index.
    Segment,
    /// The file that names the live segments of an index.
    Manifest,
    /// Which entries of a segment are dead.
    Tombstones,
}

impl FileKind {
    /// Returns the number that stands for the kind in files.
    pub fn code(self) -> u32 {
        match self {
            Self::Segment => 1,
            Self::Manifest => 2,
            Self::Tombstones => 3,
        }
    }
}

/// What is known of a file once it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its length in bytes.
    pub len: u64,
    /// Stands for all of its bytes: others refer to the file by it. It depends on the header, on every page's
    /// checksum and on the section table.
    pub checksum: u64,
}

/// Returns the next multiple of [`ALIGNMENT`].
pub(super) fn align(offset: u64) -> Option<u64> {
    offset.checked_next_multiple_of(ALIGNMENT as u64)
}

/// Returns the checksum by which others refer to a file.
pub(super) fn file_checksum(header: &[u8], page_list: &[u8], table: &[u8]) -> u64 {
    let mut hash = xxhash_rust::xxh64::Xxh64::new(0);
    hash.update(header);
    hash.update(page_list);
    hash.update(table);
    hash.digest()
}

/// What a header says beyond that it is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) kind: u32,
    pub(super) kind_version: u32,
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER_LEN] {
        let mut out = Writer::new();
        out.bytes(&MAGIC);
        out.u32(ENDIANNESS_MARK);
        out.u32(CONTAINER_VERSION);
        out.u32(self.kind);
        out.u32(self.kind_version);
        fixed(out, HEADER_CRC_AT)
    }

    /// Takes the header of this version of the container.
    ///
    /// Every version has magic, mark and version at these places, and a checksum over as many bytes: a
    /// newer version can be told from damage.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let found = bytes.len() as u64;
        let mut input = Reader::new(bytes, "the header");
        let magic = bytes.get(..MAGIC.len()).unwrap_or(bytes);
        if !MAGIC.starts_with(magic) {
            return Err(FormatError::new(FormatErrorKind::NotOurs));
        }
        let Some(header) = bytes.get(..HEADER_LEN) else {
            let expected = HEADER_LEN as u64;
            return Err(FormatError::new(FormatErrorKind::Truncated {
                expected,
                found,
            }));
        };
        input.bytes(MAGIC.len())?;
        let mark = input.u32()?;
        if mark == ENDIANNESS_MARK.swap_bytes() {
            return Err(FormatError::new(FormatErrorKind::ForeignEndianness));
        }
        if !crc_holds(header, HEADER_CRC_AT) || mark != ENDIANNESS_MARK {
            let len = HEADER_LEN as u64;
            let what = Checked::Header;
            return Err(FormatError::new(FormatErrorKind::Checksum {
                what,
                offset: 0,
                len,
            }));
        }
        check_version("the container", input.u32()?, CONTAINER_VERSION)?;
        let kind = input.u32()?;
        let kind_version = input.u32()?;
        let reserved = input.bytes(HEADER_CRC_AT - input.position())?;
        if reserved.iter().any(|byte| *byte != 0) {
            return Err(input.inconsistent("reserved bytes are not zero"));
        }
        Ok(Self { kind, kind_version })
    }
}

/// Checks a version that is read up to `supported`.
pub(super) fn check_version(
    what: &'static str,
    found: u32,
    supported: u32,
) -> Result<(), FormatError> {
    let kind = if found > supported {
        FormatErrorKind::NewerVersion {
            what,
            found,
            supported,
        }
    } else if found == 0 {
        FormatErrorKind::UnknownVersion { what, found }
    } else {
        return Ok(());
    };
    Err(FormatError::new(kind))
}

/// One line of the section table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u32,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Entry {
    pub(super) fn encode(self, out: &mut Writer) {
        out.u32(self.id);
        out.u32(0);
        out.u64(self.offset);
        out.u64(self.len);
    }

    pub(super) fn decode(input: &mut Reader<'_>) -> Result<Self, FormatError> {
        let id = input.u32()?;
        if input.u32()? != 0 {
            return Err(input.inconsistent("reserved bytes are not zero"));
        }
        let offset = input.u64()?;
        let len = input.u64()?;
        Ok(Self { id, offset, len })
    }
}

/// What the trailer says: where the lists are, and their checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    /// Where the list of page checksums starts, which is where the pages end.
    pub(super) list_offset: u64,
    pub(super) table_offset: u64,
    pub(super) file_len: u64,
    pub(super) checksum: u64,
    pub(super) sections: u32,
    pub(super) list_crc: u32,
    pub(super) table_crc: u32,
}

impl Trailer {
    pub(super) fn encode(self) -> [u8; TRAILER_LEN] {
        let mut out = Writer::new();
        out.u64(self.list_offset);
        out.u64(self.table_offset);
        out.u64(self.file_len);
        out.u64(self.checksum);
        out.u32(self.sections);
        out.u32(self.list_crc);
        out.u32(self.table_crc);
        let mut trailer: [u8; TRAILER_LEN] = fixed(out, TRAILER_CRC_AT);
        trailer[TRAILER_CRC_AT + 4..].copy_from_slice(&END_MAGIC);
        trailer
    }

    /// Takes the trailer at the end of a file of `found` bytes.
    pub(super) fn decode(bytes: &[u8], found: u64) -> Result<Self, FormatError> {
        let offset = found.saturating_sub(TRAILER_LEN as u64);
        if bytes.len() != TRAILER_LEN {
            let expected = MIN_LEN as u64;
            return Err(FormatError::new(FormatErrorKind::Truncated {
                expected,
                found,
            }));
        }
        if !bytes.ends_with(&END_MAGIC) {
            // Most likely the end is missing. How long the file was is not known.
            let expected = found.saturating_add(1);
            return Err(FormatError::new(FormatErrorKind::Truncated {
                expected,
                found,
            }));
        }
        if !crc_holds(bytes, TRAILER_CRC_AT) {
            let what = Checked::Trailer;
            let len = TRAILER_LEN as u64;
            return Err(FormatError::new(FormatErrorKind::Checksum {
                what,
                offset,
                len,
            }));
        }
        let mut input = Reader::new(bytes, "the trailer");
        let trailer = Self {
            list_offset: input.u64()?,
            table_offset: input.u64()?,
            file_len: input.u64()?,
            checksum: input.u64()?,
            sections: input.u32()?,
            list_crc: input.u32()?,
            table_crc: input.u32()?,
        };
        let reserved = input.bytes(TRAILER_CRC_AT - input.position())?;
        if reserved.iter().any(|byte| *byte != 0) {
            return Err(input.inconsistent("reserved bytes are not zero"));
        }
        if trailer.file_len != found {
            let expected = trailer.file_len;
            return Err(FormatError::new(FormatErrorKind::Truncated {
                expected,
                found,
            }));
        }
        Ok(trailer)
    }
}

/// Fills up with zeros and puts the checksum of all bytes before `crc_at` there.
fn fixed<const N: usize>(out: Writer, crc_at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let written = out.as_bytes();
    bytes[..written.len()].copy_from_slice(written);
    let crc = crc32fast::hash(&bytes[..crc_at]);
    bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Whether the checksum at `crc_at` is that of all bytes before it.
fn crc_holds(bytes: &[u8], crc_at: usize) -> bool {
    let stored = bytes.get(crc_at..crc_at + 4);
    let covered = bytes.get(..crc_at).unwrap_or_default();
    stored == Some(crc32fast::hash(covered).to_le_bytes().as_slice())
}
