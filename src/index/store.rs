//! The store: where indexes are kept, and how one comes to be there and away again.
//!
//! Owns the cache root and the directories in it, one for each key. Publishing and removing happen under the
//! directory's lock; readers share a lock only while they open files. It does not know how a key comes about
//! or what a segment holds.
//!
//! ```text
//! <cache root>/<hash of the key>/manifest          names the segment
//!                               /segment-<n>.seg
//!                               /index.sqlite      or all in one
//!                               /accessed          whose time is that of the last use
//! ```

mod access;
#[cfg(feature = "sqlite")]
mod database;
mod evict;
mod files;
mod keep;
mod open;
mod policy;

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
use crate::format::manifest::{FileRef, IndexState, KeyParts, Manifest, SegmentRef};
use crate::format::publish::remove_leftovers;
use crate::format::storage::Privacy;
use crate::index::bloom::BloomParams;
use crate::index::builder::{BuildError, BuildHost, Built};
use crate::index::handles::Handles;
use crate::index::inputs::Inputs;
use crate::index::key::{bloom_parts, hash_of};
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::store::evict::Bounded;
use crate::index::store::keep::{Keep, Publishing, Terms};
use crate::index::store::open::snapshot_of;

pub use access::AccessNotes;
pub use evict::{Evicted, Eviction, Limits, Spared};

/// The name of the manifest in an index's directory.
const MANIFEST: &str = "manifest";

/// The name of the manifest of a build that is not finished. What it names proves nothing to a search.
const UNFINISHED: &str = "unfinished";

/// The name of the database in an index's directory.
pub(super) const DATABASE: &str = "index.sqlite";

/// The forms in which this program can keep an index.
const FORMS: &[&dyn Keep] = &[
    &files::Files,
    #[cfg(feature = "sqlite")]
    &database::Database,
];

/// A place for indexes.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    terms: Terms,
    form: &'static dyn Keep,
}

/// What the store has under one key.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The directory.
    pub dir: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// What the manifest says; or why it can't be read.
    pub manifest: Result<Arc<Manifest>, Arc<FormatError>>,
    /// When it was last used, to within a minute, in milliseconds since the Unix epoch; where nobody has noted that, when it was
    /// built, and where that can't be read either, `None`.
    pub accessed_ms: Option<i64>,
}

/// What is to be published with a segment.
#[derive(Clone, Debug)]
pub struct Publication<'a> {
    /// The key.
    pub key: &'a KeyParts,
    /// The parameters of the logical filter.
    pub params: BloomParams,
    /// What decides about eligibility above the tree, as it was before the tree was listed.
    pub above: Inputs,
    /// The time, in milliseconds since the Unix epoch.
    pub now_ms: i64,
}

impl Store {
    /// Opens the store at `root`, an absolute path. A directory that is not there is made when something is published.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the directory could not be made, or other users could reach into it and `privacy` is not
    /// waived (SEC-LSI-STORE-01).
    pub fn open(
        root: PathBuf,
        privacy: Privacy,
        lock_timeout: Duration,
    ) -> Result<Store, FormatError> {
        check_private_dir(&root, privacy)?;
        let terms = Terms {
            disk: Arc::new(RealDisk),
            privacy,
            lock_timeout,
            map: true,
            check: false,
            limits: Limits::NONE,
            handles: Handles::default(),
        };
        let form = &files::Files;
        Ok(Store { root, terms, form })
    }

    /// Makes the directory of the store where there is none, for whoever is going to publish and wants to know now
    /// whether that can work.
    ///
    /// # Errors
    ///
    /// As [`Store::open`].
    pub fn make_root(&self) -> Result<(), FormatError> {
        create_private_dir_on(&*self.terms.disk, &self.root, self.terms.privacy)
    }

    /// Checks that indexes can be made and changed here, without changing anything.
    ///
    /// # Errors
    ///
    /// As [`check_writable`].
    pub fn check_writable(&self) -> Result<(), FormatError> {
        check_writable(&self.root)
    }

    /// Returns how other users can reach into the directory, where `privacy` was waived and they
    /// can (SEC-LSI-STORE-02). Nothing is known of a directory that is not there yet.
    pub fn exposure(&self) -> Option<FormatError> {
        match self.terms.privacy {
            Privacy::Required => None,
            Privacy::Waived => check_private_dir(&self.root, Privacy::Required).err(),
        }
    }

    /// Keeps indexes as `mode` says, instead of in mapped files. A store of the same directory that keeps them otherwise
    /// does not load them. `None` for what is not kept at all, or not in this build.
    pub fn kept_as(mut self, mode: StorageMode) -> Option<Store> {
        self.form = *FORMS.iter().find(|form| form.mode() == mode)?;
        Some(self)
    }

    /// Works on another disk than that of the system: one that fails, say, or that notes what is done to it. Whether files are
    /// there, and how large and how old they are, is still asked of the system.
    #[must_use]
    pub fn on(mut self, disk: Arc<dyn Disk>) -> Store {
        self.terms.disk = disk;
        self
    }

    /// Maps the files of indexes (the default), or reads them into memory when they are opened. Mapping takes no time and no
    /// memory of the process, but a program that cuts off a mapped file while a search looks at it ends the process with a
    /// signal (`SIGBUS`), which a library has no business to catch. What was read can't change any more.
    #[must_use]
    pub fn mapped(mut self, map: bool) -> Store {
        self.terms.map = map;
        self
    }

    /// Returns this store for a caller that waits no longer than `patience` for a lock.
    #[must_use]
    pub fn waiting(&self, patience: Duration) -> Store {
        let mut store = self.clone();
        store.terms.lock_timeout = store.terms.lock_timeout.min(patience);
        store
    }

    /// Checks an index as a whole when it is loaded (`index_integrity_check`). That of mapped files is checked page by
    /// page when it is read, and this changes nothing.
    #[must_use]
    pub fn checked(mut self, check: bool) -> Store {
        self.terms.check = check;
        self
    }

    /// Keeps no more than `limits` say: publishing an index makes room for it (`FR-LSI-IDX-RM-01`).
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Store {
        self.terms.limits = limits;
        self
    }

    /// Counts its open segments among others, and opens no more than there may be (`IPC.MUST.005`).
    #[must_use]
    pub fn counted(mut self, handles: Handles) -> Store {
        self.terms.handles = handles;
        self
    }

    /// Returns how indexes are kept.
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

    /// Builds an index by `build`, which writes a segment, and publishes it in the place of what has its key.
    /// Until that is done, readers see what was there before. Then other indexes make room for it, if they have to:
    /// [`Built::eviction`] says which.
    ///
    /// # Errors
    ///
    /// Those of `build`, [`BuildError::Format`] if the index is locked by another writer for longer than the
    /// store waits, or can't be written, and [`BuildError::OverLimit`] if it is larger than all may be together; it is given up
    /// as soon as that shows.
    pub fn publish(
        &self,
        publication: &Publication<'_>,
        host: &dyn BuildHost,
        build: impl FnOnce(&mut dyn io::Write) -> Result<Built, BuildError>,
    ) -> Result<(Built, Snapshot), BuildError> {
        // Before anything is done for it: the old one stays in use as long as there is no room for another.
        let handle = self.terms.handles.take()?;
        let dir = self.dir_of(publication.key);
        let lock = match self.lock_to_publish(&dir, host) {
            // Somebody has removed the index, with its directory, between its being made and its being locked.
            Err(error) if error.is_not_found() => self.lock_to_publish(&dir, host)?,
            // Nobody waits for a lock any more.
            Err(error) if error.is_locked() && host.stopped() => return Err(BuildError::Stopped),
            locked => locked?,
        };
        // First: files that are denied now are not to be found in any index, also if this build
        // fails.
        let purged = self.purge_laxer(publication.key);
        // There from the first build on: a reader that may not write has no other way to it. A reader who holds it does
        // no harm, and one who can't be shared with has made it already.
        let _made = self.lock_shared(&dir, Duration::ZERO, &mut |_| true);
        let disk = &*self.terms.disk;
        remove_leftovers(disk, &lock)?;
        // What can't be read is replaced like anything else.
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
        let build = |out: &mut dyn io::Write| Bounded::run(&self.terms, out, build);
        let (mut built, manifest, segment) =
            self.form.publish(&self.terms, &to, Box::new(build))?;
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

    /// Waits until nobody writes an index, as long as is configured (`index_lock_timeout_ms`).
    ///
    /// # Errors
    ///
    /// [`FormatError`]; [`FormatError::is_locked`] if somebody still does.
    pub fn may_publish(&self, key: &KeyParts, host: &dyn BuildHost) -> Result<(), FormatError> {
        let dir = self.dir_of(key);
        match dir.exists() {
            true => self.lock_writers(&dir, host).map(drop),
            false => Ok(()),
        }
    }

    /// Makes the directory of an index and locks it for writing.
    fn lock_to_publish(&self, dir: &Path, host: &dyn BuildHost) -> Result<DirLock, FormatError> {
        self.make_root()?;
        create_private_dir_on(&*self.terms.disk, dir, self.terms.privacy)?;
        self.lock_writers(dir, host)
    }

    fn lock_writers(&self, dir: &Path, host: &dyn BuildHost) -> Result<DirLock, FormatError> {
        let mut wait = |time| {
            host.waiting();
            host.pause(time);
            !host.stopped()
        };
        let (lock, timeout) = ((LockFile::Writers, true), self.terms.lock_timeout);
        DirLock::acquire_while(&*self.terms.disk, dir, lock, timeout, &mut wait)
    }

    /// Lists what the store has, ordered by directory. What a first build that came to nothing or is not finished left behind
    /// is no index.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the directory can't be listed; what is wrong with a single index is part of the list.
    pub fn list(&self) -> Result<Vec<Listed>, FormatError> {
        let mut listed = self.list_with_unfinished()?;
        listed.retain(|one| {
            let is_one = FORMS.iter().any(|form| is_there(*form, &one.dir));
            is_one || !one.dir.join(UNFINISHED).exists()
        });
        Ok(listed)
    }

    /// Lists what takes room: also what builds that are not finished left behind where there is no index.
    ///
    /// # Errors
    ///
    /// As [`Store::list`].
    pub fn list_with_unfinished(&self) -> Result<Vec<Listed>, FormatError> {
        let names = match self.terms.disk.names(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|error| {
                FormatError::io("list the directory", error).in_file(&self.root)
            })?,
        };
        let mut listed: Vec<Listed> = names
            .into_iter()
            .map(|name| self.root.join(name))
            .filter(|dir| self.has(dir) && self.holds_some(dir))
            .map(|dir| self.look_at(&dir))
            .collect();
        listed.sort_by(|a, b| a.dir.cmp(&b.dir));
        Ok(listed)
    }

    /// Returns what the store has in one of its directories.
    pub fn look_at(&self, dir: &Path) -> Listed {
        let manifest = self.read_manifest(dir).map(Arc::new).map_err(Arc::new);
        Listed {
            bytes: size_of_dir(dir),
            accessed_ms: access::last(dir)
                .or_else(|| Some(manifest.as_ref().ok()?.state.updated_ms)),
            manifest,
            dir: dir.to_path_buf(),
        }
    }

    /// Removes an index. Those who have it open keep what they have. Files in its directory that are not of an
    /// index stay, and then the directory does too.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if it is locked by a writer for longer than the store waits, or can't be removed.
    pub fn remove(&self, dir: &Path, pause: &mut dyn FnMut(Duration)) -> Result<(), FormatError> {
        if !self.has(dir) {
            return Err(refused(dir));
        }
        let timeout = self.terms.lock_timeout;
        let disk = &*self.terms.disk;
        let lock = DirLock::exclusive_on(disk, dir, LockFile::Writers, timeout, pause)?;
        empty(disk, &lock)
    }

    /// Returns true for the directory of an index: one of ours by its name and by the lock in it, and no link to
    /// somewhere else. The name alone would be that of many a cache, and a configured directory may hold anything.
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

    /// Returns whether there is anything of an index in a directory.
    fn holds_some(&self, dir: &Path) -> bool {
        let names = self.terms.disk.names(dir).unwrap_or_default();
        names
            .iter()
            .any(|name| is_of_an_index(&name.to_string_lossy()))
    }

    /// Returns the number of the next publication. Where the manifest before can't be read, the name of its segment still has
    /// its number, so that it is not given twice.
    fn next_sequence(&self, dir: &Path, before: Option<&Manifest>) -> u64 {
        let names = self.terms.disk.names(dir).unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        let last = names.filter_map(files::number_of).max().unwrap_or(0);
        let known = before.map_or(0, |manifest| manifest.state.sequence);
        known.max(last).saturating_add(1)
    }

    /// Removes what does not belong to indexes with these manifests: those before them, of whichever form; and a build that is not
    /// finished, unless that is to stay. Those who have one open keep it.
    fn remove_others(&self, disk: &dyn Disk, dir: &Path, kept: &[&Manifest], unfinished: bool) {
        for name in disk.names(dir).unwrap_or_default() {
            let text = name.to_string_lossy();
            let owned = kept.iter().any(|manifest| self.form.owns(manifest, &text))
                || (unfinished && text == UNFINISHED);
            if is_of_an_index(&text) && !owned {
                // What can't be removed, because it is open or is no file, is in nobody's way, and the new index is
                // published already: the next publication tries again.
                let _left_behind = disk.remove(&dir.join(&name));
            }
        }
    }
}

/// Removes an index whose directory is locked for writing, and the directory.
fn empty(disk: &dyn Disk, lock: &DirLock) -> Result<(), FormatError> {
    let dir = lock.dir();
    let fail = |error| FormatError::io("remove the index", error).in_file(dir);
    let remove = |name: &OsStr| {
        let path = dir.join(name);
        match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FormatError::io("remove it", error).in_file(&path))
            }
            _ => Ok(()),
        }
    };
    // These first: an index without one of them is none.
    for name in [MANIFEST, UNFINISHED, DATABASE] {
        remove(name.as_ref())?;
    }
    // Else a loss of power might bring it back without the rest, and that would be damage.
    let synced = disk.sync_dir(dir);
    synced.map_err(|error| {
        FormatError::io("sync the directory of what is removed", error).in_file(dir)
    })?;
    remove_leftovers(disk, lock)?;
    for name in disk.names(dir).map_err(fail)? {
        if is_of_an_index(&name.to_string_lossy()) {
            remove(&name)?;
        }
    }
    remove(access::ACCESSED.as_ref())?;
    // The locks last: as long as there is one, the directory is known as ours.
    for which in [LockFile::Readers, LockFile::Writers] {
        remove(which.name().as_ref())?;
    }
    // It stays if somebody else's files are in it, or if the next who builds has it already.
    match disk.remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(fail(error)),
        _ => Ok(()),
    }
}

/// Returns whether a file of this name, in a directory that is an index's, belongs to the index, whatever its form.
fn is_of_an_index(name: &str) -> bool {
    name.starts_with("segment-")
        || name == MANIFEST
        || name == UNFINISHED
        || name.starts_with(DATABASE)
}

/// Returns whether a directory has an index of a form.
fn is_there(form: &dyn Keep, dir: &Path) -> bool {
    dir.join(form.file()).exists()
}

/// Puts the manifest of a build together.
fn manifest_of(
    publication: &Publication<'_>,
    built: &Built,
    sequence: u64,
    name: String,
    before: Option<&Manifest>,
) -> Manifest {
    let mut inputs = publication.above.clone();
    inputs.append(built.inputs.clone());
    Manifest {
        key: publication.key.clone(),
        bloom: bloom_parts(&publication.params),
        state: IndexState {
            sequence,
            created_ms: before.map_or(publication.now_ms, |manifest| manifest.state.created_ms),
            updated_ms: publication.now_ms,
            coverage_epoch: before.map_or(0, |manifest| manifest.state.coverage_epoch) + 1,
            enumeration_errors: built.errors.len() as u64,
        },
        segments: vec![SegmentRef {
            file: FileRef {
                name,
                len: built.summary.len,
                checksum: built.summary.checksum,
            },
            files: u64::from(built.meta.files),
            tombstones: None,
        }],
        inputs: inputs.into_list(),
    }
}

fn refused(dir: &Path) -> FormatError {
    let problem = "no index of this store";
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
        // Who has a database open keeps these beside it; they come and go with the readers.
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let passing = name.starts_with(DATABASE) && name != DATABASE;
        (!passing).then(|| entry.metadata().ok())?
    });
    sizes.map(|meta| meta.len()).sum()
}
