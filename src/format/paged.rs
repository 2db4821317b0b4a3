//! Files whose pieces are read on demand.
//!
//! This module owns positioned reads of an open file. `storage` opens the file; the reader of a
//! section caches the pieces. Unlike a mapping, a file that is truncated meanwhile causes an error,
//! and does not end the process. This module does not know the content of the file.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use super::error::{FormatError, FormatErrorKind};
use super::mmap::State;
use super::sys::read_exact_at;

/// An open file.
#[derive(Debug)]
pub(super) struct Paged {
    file: File,
    len: usize,
    state: State,
    whole: OnceLock<Vec<u8>>,
}

impl Paged {
    /// Wraps an open regular file of `len` bytes.
    pub(super) fn new(file: File, len: usize) -> io::Result<Self> {
        let state = State::of(&file.metadata()?);
        let whole = OnceLock::new();
        Ok(Self {
            file,
            len,
            state,
            whole,
        })
    }

    /// Returns the length of the file when it was opened, in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the file is as it was when it was opened. One system call.
    pub(super) fn is_unchanged(&self) -> bool {
        let now = self.file.metadata();
        now.is_ok_and(|now| State::of(&now) == self.state)
    }

    /// Reads `len` bytes from `start`.
    pub(super) fn read(&self, start: usize, len: usize) -> Result<Vec<u8>, FormatError> {
        let missing = |found| {
            let expected = (start as u64).saturating_add(len as u64);
            FormatError::new(FormatErrorKind::Truncated { expected, found })
        };
        // Allocates nothing for a range that can't exist.
        if start > self.len || len > self.len - start {
            return Err(missing(self.len as u64));
        }
        let mut bytes = vec![0; len];
        match read_exact_at(&self.file, &mut bytes, start as u64) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let now = self.file.metadata().map_or(0, |meta| meta.len());
                Err(missing(now.min((start + len).saturating_sub(1) as u64)))
            }
            Err(error) => Err(FormatError::io("read the file", error)),
        }
    }

    /// Returns all bytes, and keeps them; empty if they can't be read.
    pub(super) fn whole(&self) -> &[u8] {
        self.whole
            .get_or_init(|| self.read(0, self.len).unwrap_or_default())
    }
}
