//! The container: numbered sections of bytes, with checksums.
//!
//! This module owns the frame of every index file: a header with the file's kind, the sections, a
//! checksum for every page of 4 KiB, a table of the sections, and a trailer. This module does not
//! know the content of the sections; `segment` and `manifest` define it.
//!
//! [`SectionWriter`] writes a file front to back; it needs four bytes of memory per page.
//! [`Container`] reads a file from a [`Storage`](super::storage::Storage). Opening checks the
//! header, the trailer, the table and the list of page checksums. A page is checked at its first
//! access; later accesses cost a bit test. So the time to open does not depend on the size of the
//! sections, and no damaged byte is returned.
//!
//! # Layout
//!
//! ```text
//! header (64) │ section │ section │ … │ page checksums │ section table │ trailer (64)
//!             └ each starts at a multiple of 64, zeros between them ┘
//! ```
//!
//! No part is optional, and there are no gaps: every byte is determined by the sections or covered
//! by a checksum. `docs/format.md` has the fields.

mod layout;
mod pages;
mod reader;
mod writer;

pub use layout::{CONTAINER_VERSION, FileKind, MAX_SECTIONS, PAGE_SIZE, Summary};
pub use reader::{Container, Section, SectionRange, View};
pub use writer::SectionWriter;

#[cfg(test)]
mod tests;
