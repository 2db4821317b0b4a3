//! Bytes: how what is kept and compared is laid out.
//!
//! Owns the ordering key of paths, by which everything that has an order is ordered, and the files of a
//! persisted index: their container, their checks, how they come into memory and how they are replaced.
//! `docs/format.md` describes every byte. This layer knows nothing of files' contents or of searches; it reads no
//! configuration, no environment and no clock.

pub mod disk;
pub mod error;
pub mod lock;
pub mod manifest;
mod mmap;
pub(crate) mod nfc;
pub mod own_dir;
mod paged;
pub mod publish;
pub mod section;
pub mod segment;
pub mod sort_key;
pub mod storage;
pub mod wire;
