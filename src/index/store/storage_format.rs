//! Storage modes: the interface between the store and the representations of an index on disk.
//!
//! This module owns the trait `StorageFormat`, which `files` (a manifest and a segment) and
//! `database` (SQLite) implement. The store decides when an index is published, opened or removed;
//! an implementation does it in one directory.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::format::disk::Disk;
use crate::format::error::FormatError;
use crate::format::lock::DirLock;
use crate::format::manifest::{KeyParts, Manifest};
use crate::format::storage::Privacy;
use crate::index::builder::{BuildError, BuildHost, BuiltSegment, Phase, Progress};
use crate::index::handles::Handles;
use crate::index::segment::Segment;
use crate::index::snapshot::StorageMode;
use crate::index::store::evict::Limits;

/// Settings that all indexes of a store share.
#[derive(Clone, Debug)]
pub(super) struct StoreSettings {
    /// The filesystem that holds the store.
    pub(super) disk: Arc<dyn Disk>,
    /// Whether other users may have access to the files.
    pub(super) privacy: Privacy,
    /// The longest wait for a lock.
    pub(super) lock_timeout: Duration,
    /// Whether files are mapped if possible.
    pub(super) map: bool,
    /// Whether opening an index checks all of it, if opening alone does not.
    pub(super) check: bool,
    /// The limits on size and number.
    pub(super) limits: Limits,
    /// The limit on open segments.
    pub(super) handles: Handles,
}

impl StoreSettings {
    /// Checks that an index of `bytes` bytes can be kept at all.
    ///
    /// # Errors
    ///
    /// [`BuildError::OverLimit`] if the index alone exceeds a limit.
    pub(super) fn check_size(&self, bytes: u64) -> Result<(), BuildError> {
        self.limits.check(bytes)
    }
}

/// A function that builds a segment and writes it to an output.
pub(super) type Build<'a> =
    Box<dyn FnOnce(&mut dyn Write) -> Result<BuiltSegment, BuildError> + 'a>;

/// A publication in progress.
pub(super) struct Publishing<'a> {
    /// The lock on the directory.
    pub(super) lock: &'a DirLock,
    /// The sequence number of the publication.
    pub(super) sequence: u64,
    /// The receiver of progress.
    pub(super) host: &'a dyn BuildHost,
    /// Returns the manifest for a segment with this name.
    pub(super) describe: &'a dyn Fn(&BuiltSegment, String) -> Manifest,
}

impl Publishing<'_> {
    /// Reports that the index is written and is about to be activated.
    pub(super) fn activating(&self, built: &BuiltSegment) {
        let files = u64::from(built.meta.files);
        self.host.progress(Progress {
            phase: Phase::Activate,
            files_done: files,
            files_total: files,
            bytes_done: built.summary.len,
            bytes_total: built.summary.len,
        });
    }
}

/// A storage mode: writes and reads the index in one directory. Each operation is atomic: the index
/// is complete before and after it.
pub(super) trait StorageFormat: fmt::Debug + Send + Sync {
    /// Returns the storage mode.
    fn mode(&self) -> StorageMode;

    /// Returns the name of the file that every index of this mode has.
    fn file(&self) -> &'static str;

    /// Builds an index, replaces the previous one, and returns the new one opened. An unfinished
    /// build is stored next to the previous index, in a mode that supports it; in another mode no
    /// build ends unfinished.
    ///
    /// # Errors
    ///
    /// Those of `build`, [`BuildError::Format`] if the index can't be written, and
    /// [`BuildError::OverLimit`] if it is too large. The previous index then stays.
    fn publish(
        &self,
        settings: &StoreSettings,
        to: &Publishing<'_>,
        build: Build<'_>,
    ) -> Result<(BuiltSegment, Manifest, Segment), BuildError>;

    /// Reads the manifest of the index in a directory.
    ///
    /// # Errors
    ///
    /// [`FormatError`], which [is not found](FormatError::is_not_found) if there is no index of
    /// this mode.
    fn manifest(&self, settings: &StoreSettings, dir: &Path) -> Result<Manifest, FormatError>;

    /// Opens the index in a directory; `None` if `asked` rejects its key.
    ///
    /// # Errors
    ///
    /// Those of [`StorageFormat::manifest`].
    fn open(
        &self,
        settings: &StoreSettings,
        dir: &Path,
        asked: &dyn Fn(&KeyParts) -> bool,
    ) -> Result<Option<(Manifest, Segment)>, FormatError>;

    /// Opens the segment of an unfinished build with this key. `None` if this mode does not store
    /// such builds, or if the segment is not sound.
    fn unfinished(
        &self,
        _settings: &StoreSettings,
        _dir: &Path,
        _key: &KeyParts,
    ) -> Option<Segment> {
        None
    }

    /// Checks that the index in a directory can be opened, or verifies all of it if `deep`. Returns
    /// its manifest.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for the first problem found.
    fn check(
        &self,
        settings: &StoreSettings,
        dir: &Path,
        deep: bool,
    ) -> Result<Manifest, FormatError>;

    /// Returns true if a file of the directory belongs to the index with this manifest.
    fn owns(&self, manifest: &Manifest, name: &str) -> bool;
}
