//! Opens and checks the indexes of a store.
//!
//! This module owns the readers' side of the locks, and finds the storage mode of an existing
//! index. Nothing here changes an index.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::storage_format::StorageFormat;
use super::{DATABASE, FORMS, Store, is_there, refused};
use crate::format::error::{FormatError, FormatErrorKind};
use crate::format::lock::{DirLock, LockFile, go_on_after};
use crate::format::manifest::{KeyParts, Manifest};
use crate::index::inputs::Inputs;
use crate::index::root_dir::metadata_following;
use crate::index::segment::Segment;
use crate::index::snapshot::Snapshot;
use crate::index::stamp::Stamp;

impl Store {
    /// Opens the index with a key; `None` if there is no such index. Opening mapped files takes
    /// constant time, except for the list of eligibility inputs. A database is read into memory.
    ///
    /// # Errors
    ///
    /// [`FormatError`], which [is corrupt](FormatError::is_corrupt) if the index should be rebuilt.
    pub fn load(
        &self,
        key: &KeyParts,
        pause: &mut dyn FnMut(Duration),
    ) -> Result<Option<Snapshot>, FormatError> {
        self.load_within(key, Duration::MAX, &mut go_on_after(pause))
    }

    /// Returns the longest wait for a lock (`index_lock_timeout_ms`).
    pub fn lock_timeout(&self) -> Duration {
        self.settings.lock_timeout
    }

    /// Opens an index like [`Store::load`]. Stops waiting for a lock after `patience`, or when
    /// `pause` returns false.
    ///
    /// # Errors
    ///
    /// Those of [`Store::load`]; [`FormatError::is_locked`] if the wait for the lock ended.
    pub fn load_within(
        &self,
        key: &KeyParts,
        patience: Duration,
        pause: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<Option<Snapshot>, FormatError> {
        let settings = &self.waiting(patience).settings;
        let dir = self.dir_of(key);
        let lock = match self.lock_shared(&dir, settings.lock_timeout, pause) {
            Ok(lock) => lock,
            Err(_) if !dir.exists() => return Ok(None),
            Err(error) => return Err(error),
        };
        // Two keys may have the same hash: the hash names the directory, but does not identify the
        // key (FR-LSI-IDX-KEY-02).
        let opened = match self.form.open(settings, &dir, &|found| found == key) {
            Err(error) if error.is_not_found() && !is_there(self.form, &dir) => None,
            opened => opened?,
        };
        drop(lock);
        let Some((manifest, segment)) = opened else {
            return Ok(None);
        };
        let handle = self.settings.handles.take();
        let handle = handle.map_err(|many| FormatError::io("open", io::Error::other(many)))?;
        Ok(Some(
            snapshot_of(self.form, manifest, segment).counted(handle),
        ))
    }

    /// Opens the segment of an unfinished build with this key, so that the next build can continue
    /// it. `None` if there is no sound segment: the build then starts from zero.
    pub fn unfinished(&self, key: &KeyParts, pause: &mut dyn FnMut(Duration)) -> Option<Segment> {
        let dir = self.dir_of(key);
        let lock = self
            .lock_shared(&dir, self.settings.lock_timeout, &mut go_on_after(pause))
            .ok()?;
        let segment = self.form.unfinished(&self.settings, &dir, key);
        drop(lock);
        segment
    }

    /// Returns a stamp that differs between publications of an index; `None` without an index.
    /// Costs one system call.
    pub fn publication(&self, key: &KeyParts) -> Option<Stamp> {
        let meta = metadata_following(&self.dir_of(key).join(self.form.file())).ok()?;
        Stamp::of(&meta)
    }

    /// Returns true if the index certainly does not exist. False if its directory can't be read.
    /// Costs one system call.
    pub fn is_gone(&self, key: &KeyParts) -> bool {
        let found = metadata_following(&self.dir_of(key).join(self.form.file()));
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Opens the index in `dir`, with any key and storage mode, and checks that its key belongs to
    /// that directory.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for the problem found.
    pub fn open_at(
        &self,
        dir: &Path,
        pause: &mut dyn FnMut(Duration),
    ) -> Result<Snapshot, FormatError> {
        if !self.has(dir) {
            return Err(refused(dir));
        }
        let timeout = self.settings.lock_timeout;
        let lock = self.lock_shared(dir, timeout, &mut go_on_after(pause))?;
        let form = self.form_of(dir)?;
        let in_place = |key: &KeyParts| self.dir_of(key) == dir;
        let opened = form.open(&self.settings, dir, &in_place)?;
        drop(lock);
        match opened {
            Some((manifest, segment)) => Ok(snapshot_of(form, manifest, segment)),
            None => Err(misplaced(&dir.join(form.file()))),
        }
    }

    /// Checks the index in `dir`, with any key and storage mode: it can be opened, and its key
    /// belongs to that directory. Verifies all of it if `deep`.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for the problem found.
    pub fn check(
        &self,
        dir: &Path,
        deep: bool,
        pause: &mut dyn FnMut(Duration),
    ) -> Result<(), FormatError> {
        if !self.has(dir) {
            return Err(refused(dir));
        }
        let timeout = self.settings.lock_timeout;
        let _lock = self.lock_shared(dir, timeout, &mut go_on_after(pause))?;
        let form = self.form_of(dir)?;
        let manifest = form.check(&self.settings, dir, deep)?;
        match self.dir_of(&manifest.key) == dir {
            true => Ok(()),
            false => Err(misplaced(&dir.join(form.file()))),
        }
    }

    pub(super) fn lock_shared(
        &self,
        dir: &Path,
        timeout: Duration,
        pause: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<DirLock, FormatError> {
        let lock = (LockFile::Readers, false);
        DirLock::acquire_while(&*self.settings.disk, dir, lock, timeout, pause)
    }

    pub(super) fn read_manifest(&self, dir: &Path) -> Result<Manifest, FormatError> {
        self.form_of(dir)?.manifest(&self.settings, dir)
    }

    /// Returns the storage mode of the index in a directory. With several indexes or without any,
    /// it is the mode of the store.
    fn form_of(&self, dir: &Path) -> Result<&'static dyn StorageFormat, FormatError> {
        if is_there(self.form, dir) {
            return Ok(self.form);
        }
        let others = FORMS.iter().copied();
        match others.into_iter().find(|form| is_there(*form, dir)) {
            Some(form) => Ok(form),
            None if cfg!(not(feature = "sqlite")) && dir.join(DATABASE).exists() => {
                let problem =
                    "the index is in an SQLite database, and this build lacks the feature `sqlite`";
                let kind = FormatErrorKind::Refused { problem };
                Err(FormatError::new(kind).in_file(&dir.join(DATABASE)))
            }
            None => Ok(self.form),
        }
    }
}

pub(super) fn snapshot_of(
    form: &dyn StorageFormat,
    manifest: Manifest,
    segment: Segment,
) -> Snapshot {
    Snapshot::new(
        manifest.key,
        form.mode(),
        segment,
        Inputs::from_list(manifest.inputs),
        manifest.state.enumeration_errors,
    )
    .published_as(manifest.state.sequence, manifest.state.updated_ms)
}

fn misplaced(path: &Path) -> FormatError {
    let problem = "its key belongs to another directory";
    FormatError::inconsistent("the manifest", 0, problem).in_file(path)
}
