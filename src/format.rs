//! The lowest layer: ordering of paths, and the files of a persisted index.
//!
//! This module owns the ordering key of paths (`sort_key`), by which all files are enumerated and
//! shown. It owns the files of an index: the container with its checksums (`section`), the records
//! (`segment`, `manifest`), opening (`storage`), locking (`lock`) and atomic replacement
//! (`publish`). `docs/format.md` describes every byte. Two small helpers are here because all
//! layers use them: enums with a name for each value (`choices`), and locking (`mutex`).
//!
//! `index` builds and reads indexes with this layer. The layer knows nothing of file contents or
//! searches. It reads no configuration, no environment and no clock.

pub(crate) mod choices;
pub mod disk;
pub mod error;
pub mod lock;
pub mod lock_dir;
pub mod manifest;
mod mmap;
pub(crate) mod mutex;
pub(crate) mod nfc;
mod paged;
pub mod publish;
pub mod section;
pub mod segment;
pub mod sort_key;
pub mod storage;
pub(crate) mod sys;
pub mod wire;
