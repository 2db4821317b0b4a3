//! The container: named sections of bytes, with what is needed to trust them.
//!
//! Owns the frame that every file of an index has: a header that says what the file is, sections, a
//! checksum for every page of 4 KiB, a table of the sections, and a trailer. Whoever writes sections decides what
//! is in them; this module must not know.
//!
//! Files are written front to back by [`SectionWriter`], in memory that does not grow with them but for four
//! bytes a page. [`Container`] reads them from a [`Storage`](super::storage::Storage). Opening checks header, trailer, table and the
//! list of page checksums; the pages themselves are checked when they are first touched, and a page that was checked
//! costs a bit test from then on. So the time to open does not depend on the size of the sections, and damage is
//! found before it is believed.
//!
//! # Layout
//!
//! ```text
//! header (64) │ section │ section │ … │ page checksums │ section table │ trailer (64)
//!             └ each starts at a multiple of 64, zeros between them ┘
//! ```
//!
//! Nothing is optional and nothing may be left between the parts: of a file's bytes each one is determined by the
//! sections, or covered by a checksum. `docs/format.md` has the fields.

mod layout;
mod pages;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use layout::{CONTAINER_VERSION, FileKind, MAX_SECTIONS, PAGE_SIZE, Summary};
pub use reader::{Container, Section, SectionRange, View};
pub use writer::SectionWriter;
