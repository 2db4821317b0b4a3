//! The store: where indexes are kept, and how one comes to be there and away again.
//!
//! Owns the cache root and the directories in it, one for each key. Publishing and removing happen under the
//! directory's lock; readers share a lock only while they open files. It does not know how a key comes about
//! or what a segment holds.
//!
//! ```text
//! <cache root>/<hash of the key>/manifest          names the segment
//!                               /segment-<n>.seg
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::format::disk::{Disk, RealDisk};
use crate::format::error::{FormatError, FormatErrorKind};
use crate::format::lock::{DirLock, LockFile, create_private_dir};
use crate::format::manifest::{FileRef, IndexState, KeyParts, Manifest, SegmentRef};
use crate::format::publish::{publish, remove_leftovers};
use crate::format::storage::{Privacy, Storage};
use crate::index::beneath::metadata_following;
use crate::index::bloom::BloomParams;
use crate::index::builder::{BuildError, BuildHost, Built, Phase, Progress};
use crate::index::inputs::Inputs;
use crate::index::key::{bloom_parts, hash_of};
use crate::index::segment::Segment;
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::stamp::Stamp;

/// The name of the manifest in an index's directory.
const MANIFEST: &str = "manifest";

/// The longest manifest that is read, in bytes.
const MAX_MANIFEST: usize = 1 << 30;

/// A place for indexes.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    privacy: Privacy,
    lock_timeout: Duration,
}

/// What the store has under one key.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The directory.
    pub dir: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// What the manifest says; or why it can't be read.
    pub manifest: Result<Arc<Manifest>, String>,
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
    /// Opens the store at `root`, an absolute path; makes the directory where there is none.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the directory can't be made, or other users could reach into it and `privacy` is not
    /// waived (SEC-LSI-STORE-01).
    pub fn open(
        root: PathBuf,
        privacy: Privacy,
        lock_timeout: Duration,
    ) -> Result<Store, FormatError> {
        create_private_dir(&root, privacy)?;
        Ok(Store {
            root,
            privacy,
            lock_timeout,
        })
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
    /// Until that is done, readers see what was there before.
    ///
    /// # Errors
    ///
    /// Those of `build`, and [`BuildError::Format`] if the index is locked by another writer for longer than the
    /// store waits, or can't be written.
    pub fn publish(
        &self,
        publication: &Publication<'_>,
        host: &dyn BuildHost,
        build: impl FnOnce(&mut dyn io::Write) -> Result<Built, BuildError>,
    ) -> Result<(Built, Snapshot), BuildError> {
        let dir = self.dir_of(publication.key);
        create_private_dir(&dir, self.privacy)?;
        let mut wait = |time| host.pause(time);
        let lock = DirLock::exclusive(&dir, LockFile::Writers, self.lock_timeout, &mut wait)?;
        let disk = RealDisk;
        remove_leftovers(&disk, &lock)?;
        // What can't be read is replaced like anything else.
        let before = self.read_manifest(&dir).ok();
        let sequence = before
            .as_ref()
            .map_or(0, |manifest| manifest.state.sequence)
            + 1;
        // A name of its own: readers may still be about to open the one before.
        let name = self.free_name(&dir, sequence);
        let built = publish(&disk, &lock, &name, |out| build(out))?;
        host.progress(Progress {
            phase: Phase::Activate,
            files_done: u64::from(built.meta.files),
            files_total: u64::from(built.meta.files),
            bytes_done: built.summary.len,
            bytes_total: built.summary.len,
        });
        let manifest = manifest_of(publication, &built, sequence, name, before.as_ref());
        let encoded = manifest.encode()?;
        publish(&disk, &lock, MANIFEST, |out| {
            out.write_all(&encoded).map_err(BuildError::Output)
        })?;
        remove_unnamed(&disk, &dir, &manifest);
        let snapshot = self.open_index(&dir, manifest)?;
        Ok((built, snapshot))
    }

    /// Opens the index with a key; `None` if there is none. The time it takes does not depend on its size, but for
    /// the list of eligibility inputs.
    ///
    /// # Errors
    ///
    /// [`FormatError`], which [is corrupt](FormatError::is_corrupt) where the index should be built anew.
    pub fn load(
        &self,
        key: &KeyParts,
        pause: &mut dyn FnMut(Duration),
    ) -> Result<Option<Snapshot>, FormatError> {
        let dir = self.dir_of(key);
        let lock = match DirLock::shared(&dir, LockFile::Readers, self.lock_timeout, pause) {
            Ok(lock) => lock,
            Err(_) if !dir.exists() => return Ok(None),
            Err(error) => return Err(error),
        };
        let manifest = match self.read_manifest(&dir) {
            Err(error) if error.is_not_found() => return Ok(None),
            manifest => manifest?,
        };
        if manifest.key != *key {
            // Another key with the same hash: the hash is a name, not an identity (FR-LSI-IDX-KEY-02).
            return Ok(None);
        }
        let snapshot = self.open_index(&dir, manifest)?;
        drop(lock);
        Ok(Some(snapshot))
    }

    /// Lists what the store has, ordered by directory.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the directory can't be listed; what is wrong with a single index is part of the list.
    pub fn list(&self) -> Result<Vec<Listed>, FormatError> {
        let names = RealDisk
            .names(&self.root)
            .map_err(|error| FormatError::io("list the directory", error).in_file(&self.root))?;
        let mut listed: Vec<Listed> = names
            .into_iter()
            .map(|name| self.root.join(name))
            .filter(|dir| self.has(dir))
            .map(|dir| self.look_at(&dir))
            .collect();
        listed.sort_by(|a, b| a.dir.cmp(&b.dir));
        Ok(listed)
    }

    /// Returns what the store has in one of its directories.
    pub fn look_at(&self, dir: &Path) -> Listed {
        Listed {
            bytes: size_of_dir(dir),
            manifest: self
                .read_manifest(dir)
                .map(Arc::new)
                .map_err(|error| error.to_string()),
            dir: dir.to_path_buf(),
        }
    }

    /// Returns what tells one publication of an index from the next; `None` if there is none. One look at one
    /// file.
    pub fn publication(&self, key: &KeyParts) -> Option<Stamp> {
        let meta = metadata_following(&self.dir_of(key).join(MANIFEST)).ok()?;
        Stamp::of(&meta)
    }

    /// Opens the index in one of the directories, whatever its key, and checks that it is in its place.
    ///
    /// # Errors
    ///
    /// [`FormatError`], which says what is wrong with it.
    pub fn open_at(
        &self,
        dir: &Path,
        pause: &mut dyn FnMut(Duration),
    ) -> Result<Snapshot, FormatError> {
        if !self.has(dir) {
            return Err(refused(dir));
        }
        let lock = DirLock::shared(dir, LockFile::Readers, self.lock_timeout, pause)?;
        let manifest = self.read_manifest(dir)?;
        if self.dir_of(&manifest.key) != dir {
            let problem = "its key belongs into another directory";
            let error = FormatError::inconsistent("the manifest", 0, problem);
            return Err(error.in_file(&dir.join(MANIFEST)));
        }
        let snapshot = self.open_index(dir, manifest)?;
        drop(lock);
        Ok(snapshot)
    }

    /// Removes an index. Those who have it open keep what they have.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if it is locked by a writer for longer than the store waits, or can't be removed.
    pub fn remove(&self, dir: &Path, pause: &mut dyn FnMut(Duration)) -> Result<(), FormatError> {
        if !self.has(dir) {
            return Err(refused(dir));
        }
        let lock = DirLock::exclusive(dir, LockFile::Writers, self.lock_timeout, pause)?;
        let disk = RealDisk;
        let fail = |error| FormatError::io("remove the index", error).in_file(dir);
        // The manifest first: an index without one is none.
        match disk.remove(&dir.join(MANIFEST)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        std::fs::remove_dir_all(dir).map_err(fail)?;
        drop(lock);
        Ok(())
    }

    /// Returns true for the directory of an index: one of ours by its name, and no link to somewhere else.
    fn has(&self, dir: &Path) -> bool {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let meta = std::fs::symlink_metadata(dir);
        dir.parent() == Some(&self.root) && is_hash(&name) && meta.is_ok_and(|meta| meta.is_dir())
    }

    fn read_manifest(&self, dir: &Path) -> Result<Manifest, FormatError> {
        let path = dir.join(MANIFEST);
        let storage = Storage::read(&path, MAX_MANIFEST, self.privacy)?;
        Manifest::decode(storage).map_err(|error| error.in_file(&path))
    }

    fn open_index(&self, dir: &Path, manifest: Manifest) -> Result<Snapshot, FormatError> {
        let [segment] = &manifest.segments[..] else {
            return Err(FormatError::inconsistent(
                "the manifest",
                0,
                "it does not name exactly one segment",
            )
            .in_file(&dir.join(MANIFEST)));
        };
        let path = dir.join(&segment.file.name);
        let in_file = |error: FormatError| error.in_file(&path);
        let storage = match self.privacy {
            Privacy::Required => Storage::map(&path)?,
            Privacy::Waived => Storage::read(&path, usize::MAX, self.privacy)?,
        };
        let opened = Segment::open(storage).map_err(in_file)?;
        let summary = opened.summary();
        let bloom = &manifest.bloom;
        let meta = opened.meta();
        if (summary.len, summary.checksum) != (segment.file.len, segment.file.checksum)
            || (meta.bloom_bits, meta.bloom_hashes) != (bloom.bits, bloom.hashes)
            || u64::from(meta.files) != segment.files
        {
            return Err(in_file(FormatError::inconsistent(
                "the segment",
                0,
                "it is not the one that the manifest names",
            )));
        }
        Ok(Snapshot::new(
            manifest.key,
            StorageMode::Mmap,
            opened,
            Inputs::from_list(manifest.inputs),
            manifest.state.enumeration_errors,
        ))
    }

    /// Returns a name that no file has.
    fn free_name(&self, dir: &Path, sequence: u64) -> String {
        let name = |n: u64| format!("segment-{n}.seg");
        let mut n = sequence;
        while dir.join(name(n)).exists() {
            n += 1;
        }
        name(n)
    }
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

/// Removes segments that the manifest does not name. Those who have one open keep it.
fn remove_unnamed(disk: &dyn Disk, dir: &Path, manifest: &Manifest) {
    for name in disk.names(dir).unwrap_or_default() {
        let text = name.to_string_lossy();
        let named = manifest
            .segments
            .iter()
            .any(|segment| *segment.file.name == *text);
        if text.starts_with("segment-") && !named {
            // What can't be removed, because it is open or is no file, is in nobody's way, and the new index is
            // published already: the next publication tries again.
            let _left_behind = disk.remove(&dir.join(&name));
        }
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
    let sizes = entries.filter_map(|entry| entry.ok()?.metadata().ok());
    sizes.map(|meta| meta.len()).sum()
}
