//! The bytes of a file: in owned memory, in a mapping, or read on demand.
//!
//! This module owns opening index files, and the checks that make it safe: the file is a regular
//! file, and no other user can change it. The store opens a [`Storage`]; `section` and `manifest`
//! read bytes from it and don't know the variant. This module does not know the content of the
//! files.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::disk::{Disk, RealDisk};
use super::error::{FormatError, FormatErrorKind};
use super::mmap::Mapping;
use super::paged::Paged;
use super::sys::{check_file, is_link};

/// The alignment of sections and rows in a file, in bytes: the length of a cache line. [`Storage`]
/// starts at such an address, so an aligned offset in a file is aligned in memory.
pub const ALIGNMENT: usize = 64;

/// The bytes of a file that does not change. Clones are cheap and share the bytes.
#[derive(Clone, Debug)]
pub struct Storage {
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Owned {
        buffer: Arc<Vec<u8>>,
        /// The offset of the bytes in `buffer`; the bytes before it are padding.
        start: usize,
    },
    Mapped(Arc<Mapping>),
    Paged(Arc<Paged>),
}

/// Which users may have write access to a file, or any access to a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privacy {
    /// Only this user.
    #[default]
    Required,
    /// Any user, because this user accepted the risk (`index_allow_insecure_persistence`). Such
    /// files are read into memory and never mapped.
    Waived,
}

impl Storage {
    /// Maps the file at `path`.
    ///
    /// The file must be regular, belong to this user, and be writable to no other user. Symbolic
    /// links are not followed. The file must never be written to again, only be replaced by a
    /// rename, as [`publish`](super::publish) does.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Insecure`] for any other file, [`FormatErrorKind::Truncated`] for an
    /// empty one, [`FormatErrorKind::TooLarge`] for one beyond the address space,
    /// [`FormatErrorKind::Io`].
    pub fn map(path: &Path) -> Result<Self, FormatError> {
        Self::map_on(&RealDisk, path)
    }

    /// Maps a file as [`map`](Self::map) does, on a given disk.
    ///
    /// # Errors
    ///
    /// Those of [`map`](Self::map).
    pub fn map_on(disk: &dyn Disk, path: &Path) -> Result<Self, FormatError> {
        let in_file = |error: FormatError| error.in_file(path);
        let (file, len) = open(disk, path, Privacy::Required).map_err(in_file)?;
        if len == 0 {
            let kind = FormatErrorKind::Truncated {
                expected: 1,
                found: 0,
            };
            return Err(in_file(FormatError::new(kind)));
        }
        address_space(len).map_err(in_file)?;
        let mapping =
            Mapping::new(file).map_err(|e| in_file(FormatError::io("map the file", e)))?;
        let place = Place::Mapped(Arc::new(mapping));
        Ok(Self { place })
    }

    /// Opens the file at `path` for reading on demand. Unlike a mapping, a truncated file then
    /// causes an error and not a signal that ends the process. Accepts the files that
    /// [`map`](Self::map) accepts, and empty ones.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Insecure`], [`FormatErrorKind::TooLarge`], [`FormatErrorKind::Io`].
    pub fn paged_on(disk: &dyn Disk, path: &Path) -> Result<Self, FormatError> {
        let in_file = |error: FormatError| error.in_file(path);
        let (file, len) = open(disk, path, Privacy::Required).map_err(in_file)?;
        let len = address_space(len).map_err(in_file)?;
        let paged = Paged::new(file, len);
        let paged =
            paged.map_err(|e| in_file(FormatError::io("read the metadata of the file", e)))?;
        let place = Place::Paged(Arc::new(paged));
        Ok(Self { place })
    }

    /// Reads the file at `path` into memory: a small file, or one that can't be mapped.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::TooLarge`] for more than `max_len` bytes. [`FormatErrorKind::Insecure`]
    /// for anything but a regular file, and for a file that other users can write to unless
    /// `privacy` is waived. [`FormatErrorKind::Io`].
    pub fn read(path: &Path, max_len: usize, privacy: Privacy) -> Result<Self, FormatError> {
        Self::read_on(&RealDisk, path, max_len, privacy)
    }

    /// Reads a file as [`read`](Self::read) does, on a given disk.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn read_on(
        disk: &dyn Disk,
        path: &Path,
        max_len: usize,
        privacy: Privacy,
    ) -> Result<Self, FormatError> {
        let in_file = |error: FormatError| error.in_file(path);
        let (file, len) = open(disk, path, privacy).map_err(in_file)?;
        let len = address_space(len).map_err(in_file)?;
        let too_large = |found: usize| {
            in_file(FormatError::too_large(
                "the length of the file",
                found as u64,
                max_len as u64,
            ))
        };
        if len > max_len {
            return Err(too_large(len));
        }
        let mut bytes = Vec::with_capacity(len + ALIGNMENT);
        // The file may grow while it is read, although it should not.
        file.take((max_len as u64).saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| in_file(FormatError::io("read the file", e)))?;
        if bytes.len() > max_len {
            return Err(too_large(bytes.len()));
        }
        Ok(Self::from(bytes))
    }

    /// Returns the bytes. A paged file is read completely by this call; the result is empty if that
    /// fails. [`part`](Self::part) returns the error instead.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.place {
            Place::Owned { buffer, start } => buffer.get(*start..).unwrap_or_default(),
            Place::Mapped(mapping) => mapping.as_bytes(),
            Place::Paged(paged) => paged.whole(),
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match &self.place {
            Place::Paged(paged) => paged.len(),
            _ => self.as_bytes().len(),
        }
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the `len` bytes from `start`. A paged file is read by this call.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Truncated`] if there are fewer bytes; [`FormatErrorKind::Io`].
    pub fn part(&self, start: usize, len: usize) -> Result<Cow<'_, [u8]>, FormatError> {
        if let Place::Paged(paged) = &self.place {
            return paged.read(start, len).map(Cow::Owned);
        }
        let bytes = self.as_bytes();
        let part = start.checked_add(len).and_then(|end| bytes.get(start..end));
        part.map(Cow::Borrowed).ok_or_else(|| {
            FormatError::new(FormatErrorKind::Truncated {
                expected: (start as u64).saturating_add(len as u64),
                found: bytes.len() as u64,
            })
        })
    }

    /// Returns true if the file is paged: its bytes are read on demand.
    pub fn is_paged(&self) -> bool {
        matches!(self.place, Place::Paged(_))
    }

    /// Returns true if the bytes are those of a mapped file, which the kernel can drop and read
    /// again.
    pub fn is_mapped(&self) -> bool {
        matches!(self.place, Place::Mapped(_))
    }

    /// Returns false if a mapped or paged file has changed since it was opened: a program wrote to
    /// it in place or truncated it. Its bytes must then not be used. Costs one system call. Owned
    /// memory never changes.
    pub fn is_unchanged(&self) -> bool {
        match &self.place {
            Place::Owned { .. } => true,
            Place::Mapped(mapping) => mapping.is_unchanged(),
            Place::Paged(paged) => paged.is_unchanged(),
        }
    }
}

impl From<Vec<u8>> for Storage {
    /// Takes over `bytes`. Moves them within their buffer if they don't start at a multiple of
    /// [`ALIGNMENT`].
    fn from(mut bytes: Vec<u8>) -> Self {
        bytes.reserve_exact(ALIGNMENT - 1);
        let past = bytes.as_ptr().addr() % ALIGNMENT;
        let start = (ALIGNMENT - past) % ALIGNMENT;
        let len = bytes.len();
        // Within the reserved capacity, so the buffer is not reallocated.
        bytes.resize(len + start, 0);
        bytes.copy_within(..len, start);
        let buffer = Arc::new(bytes);
        let place = Place::Owned { buffer, start };
        Self { place }
    }
}

/// Checks the file at `path` as [`Storage::read`] does, and returns its length in bytes. For a file
/// that a library opens. The file is not opened here, because closing it would release the
/// library's locks.
///
/// # Errors
///
/// Those of [`Storage::read`].
pub fn check_private(path: &Path, privacy: Privacy) -> Result<u64, FormatError> {
    let look = || {
        let meta = std::fs::symlink_metadata(path)
            .map_err(|e| FormatError::io("read the metadata of the file", e))?;
        if meta.is_symlink() {
            return Err(FormatError::insecure("a symbolic link; delete it"));
        }
        check_file(&meta, privacy)?;
        Ok(meta.len())
    };
    look().map_err(|error: FormatError| error.in_file(path))
}

/// Checks that a file of `len` bytes fits into the address space.
fn address_space(len: u64) -> Result<usize, FormatError> {
    let limit = isize::MAX as u64 - ALIGNMENT as u64;
    match usize::try_from(len) {
        Ok(fits) if len <= limit => Ok(fits),
        _ => Err(FormatError::too_large("the length of the file", len, limit)),
    }
}

/// Opens a regular file for reading. Returns it with its length.
fn open(disk: &dyn Disk, path: &Path, privacy: Privacy) -> Result<(File, u64), FormatError> {
    let file = disk.open(path).map_err(|error| match is_link(&error) {
        true => FormatError::insecure("a symbolic link; delete it"),
        false => FormatError::io("open the file", error),
    })?;
    let meta = file
        .metadata()
        .map_err(|e| FormatError::io("read the metadata of the file", e))?;
    check_file(&meta, privacy)?;
    Ok((file, meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_keeps_its_bytes() {
        for len in [0, 1, 63, 64, 65, 1000] {
            for spare in [0, 7, 200] {
                let mut bytes = Vec::with_capacity(len + spare);
                bytes.extend((0..len).map(|i| (i % 251) as u8));
                let expected = bytes.clone();
                let storage = Storage::from(bytes);
                assert_eq!(storage.as_bytes(), expected);
                assert_eq!(storage.len(), len);
                assert_eq!(storage.is_empty(), len == 0);
                assert_eq!(storage.as_bytes().as_ptr().addr() % ALIGNMENT, 0);
                assert!(!storage.is_mapped());
            }
        }
    }

    #[test]
    fn clones_share_the_bytes() {
        let storage = Storage::from(vec![1, 2, 3]);
        assert_eq!(
            storage.as_bytes().as_ptr(),
            storage.clone().as_bytes().as_ptr()
        );
    }

    // These tests need files, which Miri does not provide.
    #[cfg(not(miri))]
    mod files {
        use std::fs;
        use std::path::PathBuf;

        use super::*;

        fn file(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
            let path = dir.path().join("file");
            fs::write(&path, bytes).unwrap();
            #[cfg(unix)]
            chmod(&path, 0o600);
            path
        }

        #[cfg(unix)]
        fn chmod(path: &Path, mode: u32) {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }

        #[test]
        fn maps_and_reads_the_same_bytes() {
            let dir = tempfile::tempdir().unwrap();
            let bytes: Vec<u8> = (0..10_000).map(|i| (i % 253) as u8).collect();
            let path = file(&dir, &bytes);
            let mapped = Storage::map(&path).unwrap();
            assert!(mapped.is_mapped());
            assert_eq!(mapped.as_bytes(), bytes);
            assert_eq!(mapped.as_bytes().as_ptr().addr() % ALIGNMENT, 0);
            let read = Storage::read(&path, 10_000, Privacy::Required).unwrap();
            assert!(!read.is_mapped());
            assert_eq!(read.as_bytes(), bytes);
        }

        #[test]
        fn a_mapping_outlives_the_replacement_of_its_file() {
            let dir = tempfile::tempdir().unwrap();
            let path = file(&dir, b"old");
            let mapped = Storage::map(&path).unwrap();
            let new = dir.path().join("new");
            fs::write(&new, b"newer").unwrap();
            // Some filesystems of Windows refuse to replace or remove a file in use.
            let is_done = |done: std::io::Result<()>| done.is_ok() || cfg!(windows);
            assert!(is_done(fs::rename(&new, &path)));
            assert_eq!(mapped.as_bytes(), b"old");
            assert!(is_done(fs::remove_file(&path)));
            assert_eq!(mapped.as_bytes(), b"old");
        }

        #[test]
        fn a_missing_file_is_not_found() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("none");
            let error = Storage::map(&path).unwrap_err();
            assert!(error.is_not_found() && !error.is_corrupt(), "{error}");
            assert_eq!(error.path(), Some(path.as_path()));
        }

        #[test]
        fn an_empty_file_is_cut_short() {
            let dir = tempfile::tempdir().unwrap();
            let error = Storage::map(&file(&dir, b"")).unwrap_err();
            assert!(
                matches!(error.kind(), FormatErrorKind::Truncated { .. }),
                "{error}"
            );
        }

        #[test]
        fn a_file_over_the_limit_is_not_read() {
            let dir = tempfile::tempdir().unwrap();
            let path = file(&dir, b"12345");
            let error = Storage::read(&path, 4, Privacy::Required).unwrap_err();
            let kind = error.kind();
            assert!(
                matches!(
                    kind,
                    FormatErrorKind::TooLarge {
                        found: 5,
                        limit: 4,
                        ..
                    }
                ),
                "{kind:?}"
            );
        }

        #[track_caller]
        fn check_insecure(path: &Path, needle: &str) {
            let read = Storage::read(path, 100, Privacy::Required).map(|_| ());
            for result in [Storage::map(path).map(|_| ()), read] {
                let error = result.unwrap_err();
                let kind = error.kind();
                assert!(matches!(kind, FormatErrorKind::Insecure { .. }), "{kind:?}");
                assert!(error.to_string().contains(needle), "{error}");
                assert!(!error.is_corrupt());
            }
        }

        #[cfg(unix)]
        #[test]
        fn what_others_can_write_to_is_never_mapped() {
            let dir = tempfile::tempdir().unwrap();
            let path = file(&dir, b"abc");
            for mode in [0o620, 0o602, 0o666] {
                chmod(&path, mode);
                check_insecure(&path, "other users can write");
                let read = Storage::read(&path, 100, Privacy::Waived).unwrap();
                assert_eq!(read.as_bytes(), b"abc");
            }
            chmod(&path, 0o644);
            assert_eq!(Storage::map(&path).unwrap().as_bytes(), b"abc");
        }

        #[cfg(target_os = "linux")]
        #[test]
        fn links_fifos_and_directories_are_refused() {
            let dir = tempfile::tempdir().unwrap();
            let path = file(&dir, b"abc");
            let link = dir.path().join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            check_insecure(&link, "symbolic link");
            check_insecure(dir.path(), "not a regular file");
            let fifo = dir.path().join("fifo");
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &fifo,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o600),
                0,
            )
            .unwrap();
            check_insecure(&fifo, "not a regular file");
        }
    }
}
