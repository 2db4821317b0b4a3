//! The store of indexes: publishes, lists, opens and removes the indexes under one cache root.
//!
//! Owns the cache root and its directories, one per key. `exec::indexes` and the `index` commands
//! call [`Store`]. The trait `StorageFormat` hides the storage mode: files, or an SQLite database.
//! Child modules open indexes (`open`), evict them (`evict`), and purge indexes with weaker denied
//! patterns (`policy`). The store does not know how a key is computed or how a segment is laid out.
//!
//! Writers publish and remove an index under the exclusive lock of its directory. Readers hold a
//! shared lock only while they open files. A reader sees the previous index or the new one, never a
//! partial one.
//!
//! ```text
//! <cache root>/<hash of the key>/manifest          names the segment
//!                               /segment-<n>.seg
//!                               /index.sqlite      replaces both in the mode `sqlite`
//!                               /accessed          its modification time is the last use
//! ```

mod access;
#[cfg(feature = "sqlite")]
mod database;
mod evict;
mod files;
mod open;
mod policy;
mod storage_format;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::format::disk::{Disk, RealDisk};
use crate::format::error::{FormatError, FormatErrorKind};
use crate::format::lock::{
    DirLock, LockFile, check_private_dir, check_writable, create_private_dir_on,
};
use crate::format::manifest::{FileRef, KeyParts, Manifest, PublicationState, SegmentRef};
use crate::format::publish::remove_leftovers;
use crate::format::storage::Privacy;
use crate::index::bloom::BloomParams;
use crate::index::builder::{BuildError, BuildHost, BuiltSegment};
use crate::index::handles::Handles;
use crate::index::inputs::Inputs;
use crate::index::key::hash_of;
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::store::evict::Bounded;
use crate::index::store::open::snapshot_of;
use crate::index::store::storage_format::{Publishing, StorageFormat, StoreSettings};

pub use access::AccessNotes;
pub use evict::{Evicted, Eviction, Limits, NotEvicted};

/// The name of the manifest in an index's directory.
const MANIFEST: &str = "manifest";

/// The name of the manifest of an unfinished build. Searches never use it.
const UNFINISHED: &str = "unfinished";

/// The name of the database in an index's directory.
pub(super) const DATABASE: &str = "index.sqlite";

/// The storage modes of this build.
const FORMS: &[&dyn StorageFormat] = &[
    &files::Files,
    #[cfg(feature = "sqlite")]
    &database::Database,
];

/// A store of indexes in one directory.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    settings: StoreSettings,
    form: &'static dyn StorageFormat,
}

/// One index of the store, as [`Store::list`] returns it.
#[derive(Clone, Debug)]
pub struct StoredIndex {
    /// The directory of the index.
    pub dir: PathBuf,
    /// The size of the directory in bytes.
    pub bytes: u64,
    /// The manifest, or the error that reading it returned.
    pub manifest: Result<Arc<Manifest>, Arc<FormatError>>,
    /// The last use, accurate to about a minute, in milliseconds since the Unix epoch. Falls back
    /// to the build time; `None` if the manifest is not readable either.
    pub accessed_ms: Option<i64>,
}

/// The parts of a manifest that are known before the build.
#[derive(Clone, Debug)]
pub struct Publication<'a> {
    /// The key of the index.
    pub key: &'a KeyParts,
    /// The parameters of the logical filter.
    pub params: BloomParams,
    /// The eligibility inputs above the tree, read before the tree was listed.
    pub above: Inputs,
    /// The time of publication, in milliseconds since the Unix epoch.
    pub now_ms: i64,
}

impl Store {
    /// Opens the store at `root`, an absolute path. A missing directory is created by the first
    /// publication.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the directory is missing and could not be created, or if other users have
    /// access to it and `privacy` is not waived.
    pub fn open(
        root: PathBuf,
        privacy: Privacy,
        lock_timeout: Duration,
    ) -> Result<Store, FormatError> {
        check_private_dir(&root, privacy)?;
        let settings = StoreSettings {
            disk: Arc::new(RealDisk),
            privacy,
            lock_timeout,
            map: true,
            check: false,
            limits: Limits::NONE,
            handles: Handles::default(),
        };
        let form = &files::Files;
        Ok(Store {
            root,
            settings,
            form,
        })
    }

    /// Creates the directory of the store if it is missing. For callers that are about to publish
    /// and need an early error.
    ///
    /// # Errors
    ///
    /// Those of [`create_private_dir_on`].
    pub fn make_root(&self) -> Result<(), FormatError> {
        create_private_dir_on(&*self.settings.disk, &self.root, self.settings.privacy)
    }

    /// Checks that indexes can be created and changed here. Changes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`check_writable`].
    pub fn check_writable(&self) -> Result<(), FormatError> {
        check_writable(&self.root)
    }

    /// Returns the access that other users have to the directory, if `privacy` was waived. `None`
    /// if they have no access, or if the directory does not exist.
    pub fn exposure(&self) -> Option<FormatError> {
        match self.settings.privacy {
            Privacy::Required => None,
            Privacy::Waived => check_private_dir(&self.root, Privacy::Required).err(),
        }
    }

    /// Selects the storage mode; the default is mapped files. A store does not load indexes of
    /// another mode in the same directory. `None` if `mode` keeps no index, or if this build lacks
    /// it.
    pub fn kept_as(mut self, mode: StorageMode) -> Option<Store> {
        self.form = *FORMS.iter().find(|form| form.mode() == mode)?;
        Some(self)
    }

    /// Replaces the system's disk, for example by one that fails or records its operations. The
    /// existence, size and age of files are still read from the system.
    #[must_use]
    pub fn on(mut self, disk: Arc<dyn Disk>) -> Store {
        self.settings.disk = disk;
        self
    }

    /// Selects whether index files are mapped (the default) or read on demand. Mapping takes no
    /// time and no memory of the process. But if another program truncates a mapped file during a
    /// search, the signal `SIGBUS` ends this process, and a library must not catch it. A file that
    /// is read on demand returns an error instead.
    #[must_use]
    pub fn mapped(mut self, map: bool) -> Store {
        self.settings.map = map;
        self
    }

    /// Returns a copy of this store whose callers wait at most `patience` for a lock.
    #[must_use]
    pub fn waiting(&self, patience: Duration) -> Store {
        let mut store = self.clone();
        store.settings.lock_timeout = store.settings.lock_timeout.min(patience);
        store
    }

    /// Selects whether loading an index checks all of it (`index_integrity_check`). It has no
    /// effect on index files: their pages are checked when they are read.
    #[must_use]
    pub fn checked(mut self, check: bool) -> Store {
        self.settings.check = check;
        self
    }

    /// Sets limits. Publishing an index evicts others to stay within them.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Store {
        self.settings.limits = limits;
        self
    }

    /// Counts open segments in `handles`, which limits their number.
    #[must_use]
    pub fn counted(mut self, handles: Handles) -> Store {
        self.settings.handles = handles;
        self
    }

    /// Returns the storage mode.
    pub fn mode(&self) -> StorageMode {
        self.form.mode()
    }

    /// Returns the directory of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of an index.
    pub fn dir_of(&self, key: &KeyParts) -> PathBuf {
        self.root.join(hash_of(key))
    }

    /// Builds an index with `build`, which writes a segment, and replaces the index of the same
    /// key. Readers see the previous index until the new one is complete. Then other indexes are
    /// evicted if the limits require it; [`BuiltSegment::eviction`] lists them.
    ///
    /// # Errors
    ///
    /// Those of `build`. [`BuildError::Format`] if another writer holds the lock for longer than
    /// the store waits, or if the index can't be written. [`BuildError::OverLimit`] if the index
    /// alone exceeds a limit; the build stops as soon as that is known.
    pub fn publish(
        &self,
        publication: &Publication<'_>,
        host: &dyn BuildHost,
        build: impl FnOnce(&mut dyn io::Write) -> Result<BuiltSegment, BuildError>,
    ) -> Result<(BuiltSegment, Snapshot), BuildError> {
        // Before any other work: without a free handle, the old index stays in use.
        let handle = self.settings.handles.take()?;
        let dir = self.dir_of(publication.key);
        let lock = match self.lock_to_publish(&dir, host) {
            // Another process removed the directory between its creation and the lock.
            Err(error) if error.is_not_found() => self.lock_to_publish(&dir, host)?,
            // A cancelled caller no longer waits for the lock.
            Err(error) if error.is_locked() && host.stopped() => return Err(BuildError::Stopped),
            locked => locked?,
        };
        // First: no index may keep files that are denied now, even if this build fails.
        let purged = self.purge_laxer(publication.key);
        // Creates the readers' lock file, because a reader without write permission can't. A
        // failure is harmless: an exclusive holder of this lock has created the file already.
        let _made = self.lock_shared(&dir, Duration::ZERO, &mut |_| true);
        let disk = &*self.settings.disk;
        remove_leftovers(disk, &lock)?;
        // An unreadable manifest is replaced like a sound one.
        let before = self.read_manifest(&dir).ok();
        let sequence = self.next_sequence(&dir, before.as_ref());
        let to = Publishing {
            lock: &lock,
            sequence,
            host,
            describe: &|built, name| {
                manifest_of(publication, built, sequence, name, before.as_ref())
            },
        };
        let build = |out: &mut dyn io::Write| Bounded::run(&self.settings, out, build);
        let (mut built, manifest, segment) =
            self.form.publish(&self.settings, &to, Box::new(build))?;
        if let Some(why) = built.unfinished {
            let kept = before.iter().chain([&manifest]);
            self.remove_others(disk, &dir, &kept.collect::<Vec<_>>(), true);
            return Err(why.into());
        }
        self.remove_others(disk, &dir, &[&manifest], false);
        access::note_first(disk, &dir, host.now_ns() / 1_000_000);
        built.eviction = Eviction {
            purged: purged.purged,
            unpurged: purged.unpurged,
            ..self.make_room(Some(&dir))
        };
        let snapshot = snapshot_of(self.form, manifest, segment);
        Ok((built, snapshot.counted(handle)))
    }

    /// Waits until no process writes the index of `key`, at most for `index_lock_timeout_ms`.
    ///
    /// # Errors
    ///
    /// [`FormatError`]; [`FormatError::is_locked`] if a writer still holds the lock.
    pub fn may_publish(&self, key: &KeyParts, host: &dyn BuildHost) -> Result<(), FormatError> {
        let dir = self.dir_of(key);
        match dir.exists() {
            true => self.lock_writers(&dir, host).map(drop),
            false => Ok(()),
        }
    }

    /// Creates the directory of an index and locks it for writing.
    fn lock_to_publish(&self, dir: &Path, host: &dyn BuildHost) -> Result<DirLock, FormatError> {
        self.make_root()?;
        create_private_dir_on(&*self.settings.disk, dir, self.settings.privacy)?;
        self.lock_writers(dir, host)
    }

    fn lock_writers(&self, dir: &Path, host: &dyn BuildHost) -> Result<DirLock, FormatError> {
        let mut wait = |time| {
            host.waiting();
            host.pause(time);
            !host.stopped()
        };
        let (lock, timeout) = ((LockFile::Writers, true), self.settings.lock_timeout);
        DirLock::acquire_while(&*self.settings.disk, dir, lock, timeout, &mut wait)
    }

    /// Lists the indexes of the store, ordered by directory. Leftovers of an unfinished or failed
    /// first build are not listed.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the directory can't be listed. An error of one index is part of its
    /// entry.
    pub fn list(&self) -> Result<Vec<StoredIndex>, FormatError> {
        let mut listed = self.list_with_unfinished()?;
        listed.retain(|one| {
            let is_one = FORMS.iter().any(|form| is_there(*form, &one.dir));
            is_one || !one.dir.join(UNFINISHED).exists()
        });
        Ok(listed)
    }

    /// Lists every directory that takes space, including unfinished builds without an index.
    ///
    /// # Errors
    ///
    /// Those of [`Store::list`].
    pub fn list_with_unfinished(&self) -> Result<Vec<StoredIndex>, FormatError> {
        let names = match self.settings.disk.names(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|error| {
                FormatError::io("list the directory", error).in_file(&self.root)
            })?,
        };
        let mut listed: Vec<StoredIndex> = names
            .into_iter()
            .map(|name| self.root.join(name))
            .filter(|dir| self.has(dir) && self.holds_some(dir))
            .map(|dir| self.look_at(&dir))
            .collect();
        listed.sort_by(|a, b| a.dir.cmp(&b.dir));
        Ok(listed)
    }

    /// Describes the index in one directory of the store.
    pub fn look_at(&self, dir: &Path) -> StoredIndex {
        let manifest = self.read_manifest(dir).map(Arc::new).map_err(Arc::new);
        StoredIndex {
            bytes: size_of_dir(dir),
            accessed_ms: access::last(dir)
                .or_else(|| Some(manifest.as_ref().ok()?.state.updated_ms)),
            manifest,
            dir: dir.to_path_buf(),
        }
    }

    /// Removes an index. Processes that have it open keep it. Foreign files in its directory stay,
    /// and so does the directory then.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if a writer holds the lock for longer than the store waits, or if a file
    /// can't be removed.
    pub fn remove(&self, dir: &Path, pause: &mut dyn FnMut(Duration)) -> Result<(), FormatError> {
        if !self.has(dir) {
            return Err(refused(dir));
        }
        let timeout = self.settings.lock_timeout;
        let disk = &*self.settings.disk;
        let writers = DirLock::exclusive_on(disk, dir, LockFile::Writers, timeout, pause)?;
        empty(disk, writers, None)
    }

    /// Returns true for the directory of an index: its name is a hash, it has a lock file, and it
    /// is not a symbolic link. The name alone is not enough: other caches use such names, and a
    /// configured directory may contain anything.
    fn has(&self, dir: &Path) -> bool {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let meta = |path: &Path| std::fs::symlink_metadata(path);
        dir.parent() == Some(&self.root)
            && is_hash(&name)
            && meta(dir).is_ok_and(|meta| meta.is_dir())
            && [LockFile::Writers, LockFile::Readers]
                .iter()
                .any(|which| meta(&dir.join(which.name())).is_ok_and(|meta| meta.is_file()))
    }

    /// Returns true if a directory contains at least one file of an index.
    fn holds_some(&self, dir: &Path) -> bool {
        let names = self.settings.disk.names(dir).unwrap_or_default();
        names
            .iter()
            .any(|name| is_of_an_index(&name.to_string_lossy()))
    }

    /// Returns the number of the next publication. If the previous manifest can't be read, the name
    /// of its segment still has its number, so no number is used twice.
    fn next_sequence(&self, dir: &Path, before: Option<&Manifest>) -> u64 {
        let names = self.settings.disk.names(dir).unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        let last = names.filter_map(files::number_of).max().unwrap_or(0);
        let known = before.map_or(0, |manifest| manifest.state.sequence);
        known.max(last).saturating_add(1)
    }

    /// Removes index files that don't belong to the `kept` manifests: earlier indexes of any
    /// storage mode, and the manifest of an unfinished build unless `unfinished` is true. Processes
    /// that have such a file open keep it.
    fn remove_others(&self, disk: &dyn Disk, dir: &Path, kept: &[&Manifest], unfinished: bool) {
        for name in disk.names(dir).unwrap_or_default() {
            let text = name.to_string_lossy();
            let owned = kept.iter().any(|manifest| self.form.owns(manifest, &text))
                || (unfinished && text == UNFINISHED);
            if is_of_an_index(&text) && !owned {
                // A file that can't be removed, because it is open or is a directory, does no harm:
                // the new index is published, and the next publication tries again.
                let _left_behind = disk.remove(&dir.join(&name));
            }
        }
    }
}

/// Removes an index whose directory is locked for writing, and the directory.
fn empty(disk: &dyn Disk, writers: DirLock, readers: Option<DirLock>) -> Result<(), FormatError> {
    let dir = &writers.dir().to_path_buf();
    let fail = |error| FormatError::io("remove the index", error).in_file(dir);
    let remove = |name: &OsStr| {
        let path = dir.join(name);
        match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FormatError::io("remove the file", error).in_file(&path))
            }
            _ => Ok(()),
        }
    };
    // These first: without them, the directory has no index.
    for name in [MANIFEST, UNFINISHED, DATABASE] {
        remove(name.as_ref())?;
    }
    // Otherwise a power failure might restore these files without the rest, a damaged index.
    let synced = disk.sync_dir(dir);
    synced.map_err(|error| {
        FormatError::io("sync the directory of the removed index", error).in_file(dir)
    })?;
    remove_leftovers(disk, &writers)?;
    for name in disk.names(dir).map_err(fail)? {
        if is_of_an_index(&name.to_string_lossy()) {
            remove(&name)?;
        }
    }
    remove(access::ACCESSED.as_ref())?;
    // The locks last: a directory with a lock file is recognized as ours.
    for which in [LockFile::Readers, LockFile::Writers] {
        remove(which.name().as_ref())?;
    }
    // On some systems, removed lock files keep their names until they are closed.
    drop((readers, writers));
    // The directory stays if it has foreign files, or if the next writer has created it again.
    let stays = [io::ErrorKind::DirectoryNotEmpty, io::ErrorKind::NotFound];
    match disk.remove_dir(dir) {
        Err(error) if !stays.contains(&error.kind()) => Err(fail(error)),
        _ => Ok(()),
    }
}

/// Returns true if a file of this name belongs to an index, in any storage mode.
fn is_of_an_index(name: &str) -> bool {
    name.starts_with("segment-")
        || name == MANIFEST
        || name == UNFINISHED
        || name.starts_with(DATABASE)
}

/// Returns true if a directory has an index of this storage mode.
fn is_there(form: &dyn StorageFormat, dir: &Path) -> bool {
    dir.join(form.file()).exists()
}

/// Assembles the manifest of a build.
fn manifest_of(
    publication: &Publication<'_>,
    built: &BuiltSegment,
    sequence: u64,
    name: String,
    before: Option<&Manifest>,
) -> Manifest {
    let mut inputs = publication.above.clone();
    inputs.append(built.inputs.clone());
    Manifest {
        key: publication.key.clone(),
        bloom: publication.params,
        state: PublicationState {
            sequence,
            created_ms: before.map_or(publication.now_ms, |manifest| manifest.state.created_ms),
            updated_ms: publication.now_ms,
            coverage_epoch: before.map_or(0, |manifest| manifest.state.coverage_epoch) + 1,
            enumeration_errors: built.errors.len() as u64,
        },
        segment: SegmentRef {
            file: FileRef {
                name,
                len: built.summary.len,
                checksum: built.summary.checksum,
            },
            files: u64::from(built.meta.files),
        },
        inputs: inputs.into_list(),
    }
}

fn refused(dir: &Path) -> FormatError {
    let problem = "not an index of this store";
    FormatError::new(FormatErrorKind::Refused { problem }).in_file(dir)
}

fn is_hash(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn size_of_dir(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    let sizes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        // SQLite creates and removes these files while the database is open.
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let passing = name.starts_with(DATABASE) && name != DATABASE;
        (!passing).then(|| entry.metadata().ok())?
    });
    sizes.map(|meta| meta.len()).sum()
}
