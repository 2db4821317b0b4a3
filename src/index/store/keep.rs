//! How indexes are kept: in files of their own, or in a database.
//!
//! Owns the seam between the store, which decides when an index is published, opened and removed, and the forms that
//! one can have in its directory.

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
use crate::index::builder::{BuildError, BuildHost, Built, Phase, Progress};
use crate::index::handles::Handles;
use crate::index::segment::Segment;
use crate::index::snapshot::StorageMode;
use crate::index::store::evict::Limits;

/// What holds for all indexes of a store.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// The filesystem.
    pub(super) disk: Arc<dyn Disk>,
    /// Who may be able to reach the files.
    pub(super) privacy: Privacy,
    /// How long locks are waited for.
    pub(super) lock_timeout: Duration,
    /// Whether files are mapped where they can be.
    pub(super) map: bool,
    /// Whether an index is checked as a whole when it is opened, where that says more than opening it.
    pub(super) check: bool,
    /// How much may be kept.
    pub(super) limits: Limits,
    /// How many segments are open.
    pub(super) handles: Handles,
}

impl Terms {
    /// Checks that an index of so many bytes can be kept at all.
    ///
    /// # Errors
    ///
    /// [`BuildError::OverLimit`] if it alone is more than one, or all together, may take.
    pub(super) fn check_size(&self, bytes: u64) -> Result<(), BuildError> {
        self.limits.check(bytes)
    }
}

/// Builds a segment: writes it to an output.
pub(super) type Build<'a> = Box<dyn FnOnce(&mut dyn Write) -> Result<Built, BuildError> + 'a>;

/// An index that is to be published.
pub(super) struct Publishing<'a> {
    /// The lock on the directory.
    pub(super) lock: &'a DirLock,
    /// The number of the publication.
    pub(super) sequence: u64,
    /// Whoever wants to know how far it is.
    pub(super) host: &'a dyn BuildHost,
    /// What the manifest says of a segment with this name.
    pub(super) describe: &'a dyn Fn(&Built, String) -> Manifest,
}

impl Publishing<'_> {
    /// Tells that the index is written and comes into use.
    pub(super) fn activating(&self, built: &Built) {
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

/// A form in which an index is kept in its directory. Whatever is done to an index, it is whole before and after.
pub(super) trait Keep: fmt::Debug + Send + Sync {
    /// Returns its name.
    fn mode(&self) -> StorageMode;

    /// Returns the name of the file without which there is no index of this form.
    fn file(&self) -> &'static str;

    /// Builds an index and puts it in the place of the one before. Returns it as it is used from now on. One that is not
    /// finished is put beside the one before; a form that does not keep such has none built.
    ///
    /// # Errors
    ///
    /// Those of `build`, [`BuildError::Format`] if it can't be written, and [`BuildError::OverLimit`] if it is too large;
    /// the one before is there then.
    fn publish(
        &self,
        terms: &Terms,
        to: &Publishing<'_>,
        build: Build<'_>,
    ) -> Result<(Built, Manifest, Segment), BuildError>;

    /// Reads what the index in a directory says about itself.
    ///
    /// # Errors
    ///
    /// [`FormatError`], which [is not found](FormatError::is_not_found) where there is no index of this form.
    fn manifest(&self, terms: &Terms, dir: &Path) -> Result<Manifest, FormatError>;

    /// Opens the index in a directory; nothing if it has another key than it is asked for.
    ///
    /// # Errors
    ///
    /// As [`Keep::manifest`].
    fn open(
        &self,
        terms: &Terms,
        dir: &Path,
        asked: &dyn Fn(&KeyParts) -> bool,
    ) -> Result<Option<(Manifest, Segment)>, FormatError>;

    /// Opens what an unfinished build with a key has left in a directory, if this form keeps that and it can be relied on.
    fn unfinished(&self, _terms: &Terms, _dir: &Path, _key: &KeyParts) -> Option<Segment> {
        None
    }

    /// Checks that the index in a directory can be read, or if `deep` everything of it. Returns what it says about
    /// itself.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    fn check(&self, terms: &Terms, dir: &Path, deep: bool) -> Result<Manifest, FormatError>;

    /// Returns whether a file of the directory belongs to the index with a manifest.
    fn owns(&self, manifest: &Manifest, name: &str) -> bool;
}
