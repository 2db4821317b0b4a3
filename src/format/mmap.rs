//! Read-only mappings of files.
//!
//! This module owns the only unsafe code of the crate. `storage` opens the files, and checks who
//! can write to them, before it maps them here.

#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::io;
use std::time::SystemTime;

use memmap2::Mmap;

use super::sys;

/// A whole file, mapped for reading.
#[derive(Debug)]
pub(super) struct Mapping {
    map: Mmap,
    file: File,
    state: State,
}

/// The metadata that changes when a file is written to or truncated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State {
    len: u64,
    modified: Option<SystemTime>,
    /// The time of the last change of content or metadata (ctime), in seconds and nanoseconds; zero
    /// if unavailable.
    changed: (i64, i64),
}

impl State {
    pub(super) fn of(meta: &Metadata) -> State {
        State {
            len: meta.len(),
            modified: meta.modified().ok(),
            changed: sys::changed(meta),
        }
    }
}

impl Mapping {
    /// Maps `file`. It must be a regular file that only this user can write to.
    ///
    /// Fails if the file is empty, or larger than the address space.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let state = State::of(&file.metadata()?);
        // SAFETY: a mapping is sound to read as a slice as long as its bytes do not change and the
        // file does not shrink below it. Invariant: the files of an index are written under another
        // name, synced, and renamed (`publish`); a file that has its final name is never written to
        // or truncated again, only replaced as a directory entry or unlinked, and both leave the
        // mapped inode alone. The caller has checked on the open descriptor that the file is
        // regular, belongs to the effective user and is writable to no other user, so other users
        // cannot break the invariant. Programs of the same user could, as they could write into
        // this process; published files are not writable even to them, and `is_unchanged` is
        // checked before each use. The mapping is private and read-only; nothing here ever writes
        // through it.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self { map, file, state })
    }

    /// Returns true if the file has not changed since it was mapped. One system call.
    pub(super) fn is_unchanged(&self) -> bool {
        let now = self.file.metadata();
        now.is_ok_and(|now| State::of(&now) == self.state)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.map
    }
}
