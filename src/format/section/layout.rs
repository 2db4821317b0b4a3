//! The fixed parts of a container: the fields of header, section table and trailer.

use crate::format::error::{ChecksummedPart, FormatError, FormatErrorKind};
use crate::format::storage::ALIGNMENT;
use crate::format::wire::{Reader, Writer};

/// The version of the frame around the sections.
///
/// History: 1, the first.
pub const CONTAINER_VERSION: u32 = 1;

/// The number of bytes that share a checksum.
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;

/// The largest number of sections in a file.
pub const MAX_SECTIONS: usize = 1024;

/// Binary logarithm of [`PAGE_SIZE`].
pub(super) const PAGE_SHIFT: u32 = 12;

/// The first bytes of every file. The first byte is neither ASCII nor UTF-8. The line endings and
/// the Ctrl-Z byte reveal a transfer in text mode.
pub(super) const MAGIC: [u8; 8] = *b"\x89FSX\r\n\x1a\n";

/// The last bytes of every file.
pub(super) const END_MAGIC: [u8; 8] = *b"\nend FSX";

/// A number that differs when it is read in another byte order.
pub(super) const ENDIANNESS_MARK: u32 = 0x0403_0201;

pub(super) const HEADER_LEN: usize = 64;
pub(super) const TRAILER_LEN: usize = 64;
pub(super) const ENTRY_LEN: usize = 24;

/// The smallest container: no section, one page.
pub(super) const MIN_LEN: usize = HEADER_LEN + 4 + TRAILER_LEN;

/// The offset of the header's own checksum.
const HEADER_CRC_AT: usize = HEADER_LEN - 4;

/// The offset of the trailer's own checksum.
const TRAILER_CRC_AT: usize = TRAILER_LEN - 12;

/// The purpose of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// An immutable part of an index.
    Segment,
    /// The manifest, which names the live segment of an index.
    Manifest,
}

impl FileKind {
    /// Returns the code of the kind in files.
    pub fn code(self) -> u32 {
        match self {
            Self::Segment => 1,
            Self::Manifest => 2,
        }
    }
}

/// The length and checksum of a complete file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The length of the file in bytes.
    pub len: u64,
    /// The checksum by which other files refer to this one. It covers the header, the checksum of
    /// every page, and the section table.
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

/// The variable fields of a header.
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

    /// Decodes a header of this version of the container.
    ///
    /// Every version has the magic bytes, the mark, the version and a checksum at these offsets. So
    /// a newer version can be distinguished from damage.
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
            let what = ChecksummedPart::Header;
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

/// Checks that a version is between 1 and `supported`.
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

/// One entry of the section table.
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

/// The content of the trailer: the positions and checksums of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    /// The offset of the list of page checksums, which is also the end of the pages.
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

    /// Decodes the trailer at the end of a file of `found` bytes.
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
            // Most likely the file was truncated. Its original length is unknown.
            let expected = found.saturating_add(1);
            return Err(FormatError::new(FormatErrorKind::Truncated {
                expected,
                found,
            }));
        }
        if !crc_holds(bytes, TRAILER_CRC_AT) {
            let what = ChecksummedPart::Trailer;
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

/// Pads with zeros, and stores the checksum of all bytes before `crc_at` at `crc_at`.
fn fixed<const N: usize>(out: Writer, crc_at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let written = out.as_bytes();
    bytes[..written.len()].copy_from_slice(written);
    let crc = crc32fast::hash(&bytes[..crc_at]);
    bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Returns true if the checksum at `crc_at` is that of all bytes before it.
fn crc_holds(bytes: &[u8], crc_at: usize) -> bool {
    let stored = bytes.get(crc_at..crc_at + 4);
    let covered = bytes.get(..crc_at).unwrap_or_default();
    stored == Some(crc32fast::hash(covered).to_le_bytes().as_slice())
}
