//! The errors of index files.
//!
//! This module owns the error type of this layer, its messages, and [`FormatError::is_corrupt`].
//! Callers act on that distinction: a corrupt file is of no use to any program, and the index is
//! rebuilt.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::sys;

/// The reason why a file of an index could not be read, written or locked.
///
/// One word in size, so that results on hot paths stay in registers.
#[derive(Debug)]
pub struct FormatError {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: Option<PathBuf>,
    kind: FormatErrorKind,
}

/// The kinds of [`FormatError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatErrorKind {
    /// The file does not start with the magic bytes.
    #[error("not an index file: it does not start with the expected bytes")]
    NotOurs,
    /// A file of an index, but of another kind than expected.
    #[error("an index file of kind {found}, but kind {expected} was expected")]
    WrongKind {
        /// The code of the expected kind.
        expected: u32,
        /// The code in the file.
        found: u32,
    },
    /// Written by a newer program.
    #[error("{what} has version {found}, this program reads versions up to {supported}")]
    NewerVersion {
        /// The versioned thing: the container, or a kind of file.
        what: &'static str,
        /// The version in the file.
        found: u32,
        /// The newest version that this program reads.
        supported: u32,
    },
    /// A version that this program no longer reads, or that never existed.
    #[error("{what} has version {found}, which this program no longer reads")]
    UnknownVersion {
        /// The versioned thing.
        what: &'static str,
        /// The version in the file.
        found: u32,
    },
    /// Written with the other byte order.
    #[error("written with another byte order")]
    ForeignEndianness,
    /// Shorter than expected.
    #[error("cut short: {found} bytes instead of {expected}")]
    Truncated {
        /// The least number of bytes that were expected.
        expected: u64,
        /// The number of bytes found.
        found: u64,
    },
    /// The bytes do not have the checksum that was stored with them.
    #[error("{what}, {len} bytes at offset {offset}, does not match its checksum")]
    Checksum {
        /// The part of the file that the checksum covers.
        what: ChecksummedPart,
        /// The offset of that part in the file.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// Values that contradict each other, although their checksums match or could not be checked
    /// yet.
    #[error("{what} is inconsistent at offset {offset}: {problem}")]
    Inconsistent {
        /// The table or record.
        what: &'static str,
        /// The offset of the problem in the table or record; in the file, for tables of the
        /// container.
        offset: u64,
        /// The violated rule.
        problem: &'static str,
    },
    /// A database that SQLite reports as damaged, or that has unexpected content.
    #[error("the database is damaged: {problem}")]
    Database {
        /// The reported damage.
        problem: String,
    },
    /// A length or count beyond the limit of every writer.
    #[error("{what} is {found}, more than the limit of {limit}")]
    TooLarge {
        /// The name of the length or count.
        what: &'static str,
        /// The number in the file.
        found: u64,
        /// The largest number that is read.
        limit: u64,
    },
    /// A length or count to be written that could not be read back. Nothing was written.
    #[error("{what} is {found}, more than the limit of {limit} for what can be written")]
    OverLimit {
        /// The name of the length or count.
        what: &'static str,
        /// The number to be written.
        found: u64,
        /// The largest number that is written.
        limit: u64,
    },
    /// An operation that this layer does not support. Nothing was changed.
    #[error("{problem}")]
    Refused {
        /// The reason for the refusal.
        problem: &'static str,
    },
    /// Other users could read or change the file or directory, or it is not a regular file or a
    /// directory.
    #[error("{problem}")]
    Insecure {
        /// The problem, and the remedy.
        problem: String,
    },
    /// Another process, or another part of this one, holds the lock.
    #[error("locked by another process; gave up after {} ms", .waited.as_millis())]
    Locked {
        /// The time spent waiting for the lock.
        waited: Duration,
    },
    /// The system refused an operation.
    #[error("could not {operation}: {source}")]
    Io {
        /// The operation, as a verb with its object: `rename the new file`.
        operation: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// The part of a file that a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksummedPart {
    /// The fixed bytes at the start of the file.
    Header,
    /// The fixed bytes at the end of the file.
    Trailer,
    /// The list of sections.
    SectionTable,
    /// The list of page checksums.
    PageList,
    /// The lists and the header together: the checksum by which other files refer to this one.
    File,
    /// A page of the sections.
    Page {
        /// The page number, from 0.
        index: u64,
        /// The section at the start of the page, if the page starts in one.
        section: Option<u32>,
    },
}

impl fmt::Display for ChecksummedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("the header"),
            Self::Trailer => f.write_str("the trailer"),
            Self::SectionTable => f.write_str("the section table"),
            Self::PageList => f.write_str("the list of page checksums"),
            Self::File => f.write_str("the file as a whole"),
            Self::Page {
                index,
                section: Some(section),
            } => write!(f, "page {index} (section {section})"),
            Self::Page {
                index,
                section: None,
            } => write!(f, "page {index}"),
        }
    }
}

impl FormatError {
    pub(crate) fn new(kind: FormatErrorKind) -> Self {
        let inner = Box::new(Inner { path: None, kind });
        Self { inner }
    }

    /// Builds the error for an operation that the system refused. `operation` is a verb with its
    /// object.
    pub(crate) fn io(operation: &'static str, source: io::Error) -> Self {
        Self::new(FormatErrorKind::Io { operation, source })
    }

    pub(crate) fn inconsistent(what: &'static str, offset: u64, problem: &'static str) -> Self {
        Self::new(FormatErrorKind::Inconsistent {
            what,
            offset,
            problem,
        })
    }

    pub(crate) fn too_large(what: &'static str, found: u64, limit: u64) -> Self {
        Self::new(FormatErrorKind::TooLarge { what, found, limit })
    }

    pub(crate) fn over_limit(what: &'static str, found: u64, limit: u64) -> Self {
        Self::new(FormatErrorKind::OverLimit { what, found, limit })
    }

    pub(crate) fn insecure(problem: impl Into<String>) -> Self {
        Self::new(FormatErrorKind::Insecure {
            problem: problem.into(),
        })
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn database(problem: impl Into<String>) -> Self {
        Self::new(FormatErrorKind::Database {
            problem: problem.into(),
        })
    }

    /// Adds the path of the file or directory, unless the error has one: readers work on bytes and
    /// know no paths.
    #[must_use]
    pub fn in_file(mut self, path: &Path) -> Self {
        self.inner.path.get_or_insert_with(|| path.to_path_buf());
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> &FormatErrorKind {
        &self.inner.kind
    }

    /// Returns the file or directory the error is about, if known.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// Returns true if the file itself is unusable. The index must then be rebuilt, and the file
    /// may be replaced (`CORRUPT` of the index states).
    ///
    /// True for damage, for files of another program or of the wrong kind, and for formats that no
    /// current program reads. False
    /// - for a newer version: the file is sound, and belongs to a program that would lose its work;
    /// - for refused system calls, locks and permissions: a retry may find a sound file;
    /// - for files that were not written.
    pub fn is_corrupt(&self) -> bool {
        match self.inner.kind {
            FormatErrorKind::NotOurs
            | FormatErrorKind::WrongKind { .. }
            | FormatErrorKind::UnknownVersion { .. }
            | FormatErrorKind::ForeignEndianness
            | FormatErrorKind::Truncated { .. }
            | FormatErrorKind::Checksum { .. }
            | FormatErrorKind::Inconsistent { .. }
            | FormatErrorKind::Database { .. }
            | FormatErrorKind::TooLarge { .. } => true,
            FormatErrorKind::NewerVersion { .. }
            | FormatErrorKind::OverLimit { .. }
            | FormatErrorKind::Refused { .. }
            | FormatErrorKind::Insecure { .. }
            | FormatErrorKind::Locked { .. }
            | FormatErrorKind::Io { .. } => false,
        }
    }

    /// Returns true if the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(&self.inner.kind, FormatErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns true if another holder has the lock.
    pub fn is_locked(&self) -> bool {
        matches!(self.inner.kind, FormatErrorKind::Locked { .. })
    }

    /// Returns advice for the user, or an empty text.
    fn remedy(&self) -> &'static str {
        match self.inner.kind {
            FormatErrorKind::NewerVersion { .. } => {
                "; use the newer program, or delete the index with `forge-search index clear`"
            }
            FormatErrorKind::OverLimit { .. } => {
                "; exclude a part of the tree with ignore files or denied patterns"
            }
            FormatErrorKind::Io { ref source, .. } if is_in_the_way(source.kind()) => {
                "; this path does not belong to an index: move it out of the way"
            }
            FormatErrorKind::Io { ref source, .. } => remedy_of(source),
            // A bug of this program; the user can do nothing.
            FormatErrorKind::Refused { .. } => "",
            FormatErrorKind::Locked { .. } => "; try again when that process has finished",
            // The problem includes the remedy.
            FormatErrorKind::Insecure { .. } => "",
            _ => "; the next build replaces the index, `forge-search index clear` deletes it",
        }
    }
}

/// Returns advice about an error of the system.
fn remedy_of(error: &io::Error) -> &'static str {
    use io::ErrorKind as K;

    match error.kind() {
        K::StorageFull | K::QuotaExceeded => "; free some space there, or choose another directory",
        K::FileTooLarge => "; raise the limit on file size (`ulimit -f`)",
        K::ReadOnlyFilesystem | K::PermissionDenied => {
            "; allow this user to write there, or choose another directory"
        }
        K::Interrupted => "; try again",
        _ => sys::remedy_of_code(error),
    }
}

/// Returns true if an entry of another type is in the place of a file or directory of an index.
fn is_in_the_way(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory
    )
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.inner.path {
            write!(f, "{}: ", path.display())?;
        }
        write!(f, "{}{}", self.inner.kind, self.remedy())
    }
}

impl std::error::Error for FormatError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.inner.kind)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    fn io_error() -> io::Error {
        io::Error::new(io::ErrorKind::NotFound, "no such file")
    }

    /// One error of every kind, and whether it is corrupt.
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn all() -> Vec<(FormatErrorKind, bool)> {
        use FormatErrorKind as K;
        let what = "the list";
        vec![
            (K::NotOurs, true),
            (
                K::WrongKind {
                    expected: 1,
                    found: 2,
                },
                true,
            ),
            (
                K::NewerVersion {
                    what,
                    found: 9,
                    supported: 1,
                },
                false,
            ),
            (K::UnknownVersion { what, found: 0 }, true),
            (K::ForeignEndianness, true),
            (
                K::Truncated {
                    expected: 9,
                    found: 3,
                },
                true,
            ),
            (
                K::Checksum {
                    what: ChecksummedPart::Header,
                    offset: 0,
                    len: 64,
                },
                true,
            ),
            (
                K::Inconsistent {
                    what,
                    offset: 4,
                    problem: "no end",
                },
                true,
            ),
            (
                K::Database {
                    problem: "malformed".into(),
                },
                true,
            ),
            (
                K::TooLarge {
                    what,
                    found: 9,
                    limit: 3,
                },
                true,
            ),
            (
                K::OverLimit {
                    what,
                    found: 9,
                    limit: 3,
                },
                false,
            ),
            (
                K::Refused {
                    problem: "no such name",
                },
                false,
            ),
            (
                K::Insecure {
                    problem: "mode 0777; `chmod 700` mends it".into(),
                },
                false,
            ),
            (
                K::Locked {
                    waited: Duration::from_millis(5),
                },
                false,
            ),
            (
                K::Io {
                    operation: "open it",
                    source: io_error(),
                },
                false,
            ),
        ]
    }

    #[test]
    fn only_unusable_files_are_corrupt() {
        for (kind, corrupt) in all() {
            let error = FormatError::new(kind);
            assert_eq!(error.is_corrupt(), corrupt, "{error}");
        }
    }

    #[test]
    fn messages_say_where_what_and_what_to_do() {
        for (kind, corrupt) in all() {
            let what = kind.to_string();
            let error = FormatError::new(kind).in_file(Path::new("/cache/manifest"));
            let text = error.to_string();
            assert!(text.starts_with("/cache/manifest: "), "{text}");
            assert!(text.contains(&what), "{text}");
            // A system error does not always have a remedy, and this text also follows build
            // errors.
            let system = matches!(
                error.kind(),
                FormatErrorKind::Io { .. } | FormatErrorKind::Refused { .. }
            );
            assert!(system || text.contains(';'), "no remedy: {text}");
            assert!(!text.contains("searches run without"), "{text}");
            let remedy = "`forge-search index clear`";
            assert!(!corrupt || text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn what_is_in_the_way_of_a_file_is_to_be_moved() {
        for kind in [io::ErrorKind::IsADirectory, io::ErrorKind::NotADirectory] {
            let text = FormatError::io("rename the new file", kind.into()).to_string();
            assert!(text.ends_with("move it out of the way"), "{text}");
        }
    }

    #[test]
    fn the_first_path_stays() {
        let error = FormatError::new(FormatErrorKind::NotOurs);
        assert_eq!(error.path(), None);
        let error = error.in_file(Path::new("a")).in_file(Path::new("b"));
        assert_eq!(error.path(), Some(Path::new("a")));
    }

    #[test]
    fn io_errors_keep_their_source() {
        let error = FormatError::io("open it", io_error());
        assert!(error.is_not_found());
        assert_eq!(error.source().unwrap().to_string(), "no such file");
        assert!(!FormatError::new(FormatErrorKind::NotOurs).is_not_found());
    }

    #[test]
    fn an_error_is_one_word() {
        assert_eq!(size_of::<FormatError>(), size_of::<usize>());
        assert_eq!(
            size_of::<Result<&[u8], FormatError>>(),
            2 * size_of::<usize>()
        );
    }
}
