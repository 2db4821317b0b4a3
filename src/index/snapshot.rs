//! A snapshot: one published state of an index, pinned by whoever searches with it.
//!
//! Owns what belongs together: a segment, how the tree differs from it, what decided about eligibility, and answers that
//! only depend on them.
//! A snapshot never changes; a later state is another snapshot. Whether it still is the state of the tree is asked
//! here too, without any memory of the answer: until changes are tracked, every call has to ask.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::format::error::FormatError;
use crate::format::manifest::KeyParts;
use crate::index::beneath::RootDir;
use crate::index::handles::Handle;
use crate::index::inputs::Inputs;
use crate::index::overlay::Overlay;
use crate::index::ranks::RankSet;
use crate::index::segment::Segment;
use crate::index::stamp::Stamp;
use crate::index::walk::join;

/// How many sets are kept that requests are likely to ask for again.
const KEPT_SETS: usize = 16;

/// Where an index is kept (`index_storage`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageMode {
    /// In memory of the process.
    Memory,
    /// In files that are mapped.
    Mmap,
    /// In an SQLite database.
    Sqlite,
}

impl StorageMode {
    /// Returns the name that is configured and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            StorageMode::Memory => "memory",
            StorageMode::Mmap => "mmap",
            StorageMode::Sqlite => "sqlite",
        }
    }
}

/// One state of an index.
#[derive(Debug)]
pub struct Snapshot {
    key: KeyParts,
    storage: StorageMode,
    /// The number of its publication, where it is kept in files.
    generation: Option<u64>,
    /// When that was, in milliseconds since 1970.
    published_ms: Option<i64>,
    /// How many states of the tree it has followed since its segment was opened or built.
    sequence: u64,
    segment: Arc<Segment>,
    overlay: Overlay,
    inputs: Arc<Inputs>,
    /// What the enumeration could not read: files may be hidden behind it.
    enumeration_errors: u64,
    /// Counts the segment as open for as long as any snapshot of it is in use.
    handle: Option<Arc<Handle>>,
    /// Sets of files of the segment; later snapshots with the same segment have them too.
    sets: Arc<KeptSets>,
    /// Sets of files beside the segment.
    extra_sets: KeptSets,
}

/// Sets that requests are likely to ask for again, the latest first.
#[derive(Debug, Default)]
struct KeptSets(Mutex<VecDeque<(String, Arc<RankSet>)>>);

/// Why a snapshot is not the state of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// Enumeration met errors, so files may be missing (FR-LSI-SAFE-COMPLETE-01).
    EnumerationErrors(u64),
    /// An ignore file or the like is not as it was (FR-LSI-TRK-07).
    Input(PathBuf),
    /// A directory is not as it was, or could not be looked at.
    Dir(PathBuf),
    /// A directory has a time of last change that a stamp can't hold.
    Untimed(PathBuf),
}

impl Snapshot {
    /// Puts a snapshot together.
    pub fn new(
        key: KeyParts,
        storage: StorageMode,
        segment: Segment,
        inputs: Inputs,
        enumeration_errors: u64,
    ) -> Snapshot {
        Snapshot {
            key,
            storage,
            generation: None,
            published_ms: None,
            sequence: 0,
            overlay: Overlay::none(&segment),
            segment: Arc::new(segment),
            inputs: Arc::new(inputs),
            enumeration_errors,
            handle: None,
            sets: Arc::default(),
            extra_sets: KeptSets::default(),
        }
    }

    /// Says which publication it is of, and when that was, in milliseconds since 1970.
    #[must_use]
    pub fn published_as(mut self, generation: u64, ms: i64) -> Snapshot {
        self.generation = Some(generation);
        self.published_ms = Some(ms);
        self
    }

    /// Counts the segment as open, from now until nobody uses it any more.
    #[must_use]
    pub fn counted(mut self, handle: Handle) -> Snapshot {
        self.handle = Some(Arc::new(handle));
        self
    }

    /// Returns the snapshot of a later state of the same tree, which differs from the segment as `overlay` says.
    #[must_use]
    pub fn later(
        &self,
        overlay: Overlay,
        inputs: Arc<Inputs>,
        enumeration_errors: u64,
    ) -> Snapshot {
        Snapshot {
            key: self.key.clone(),
            storage: self.storage,
            generation: self.generation,
            published_ms: self.published_ms,
            sequence: self.sequence + 1,
            segment: self.segment.clone(),
            overlay,
            inputs,
            enumeration_errors,
            handle: self.handle.clone(),
            sets: self.sets.clone(),
            extra_sets: KeptSets::default(),
        }
    }

    /// Returns the components of the key under which it was built.
    pub fn key(&self) -> &KeyParts {
        &self.key
    }

    /// Returns where it is kept.
    pub fn storage(&self) -> StorageMode {
        self.storage
    }

    /// Returns the number of the publication that it is of; `None` for one that is only in memory.
    pub fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Returns when its segment was published, in milliseconds since 1970; `None` for one that is only in memory.
    pub fn published_ms(&self) -> Option<i64> {
        self.published_ms
    }

    /// Returns how many states of the tree it has followed since its segment was opened or built by this process.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Returns how the tree differs from the segment.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Returns what decided about eligibility.
    pub fn inputs(&self) -> &Arc<Inputs> {
        &self.inputs
    }

    /// Returns how many errors the enumeration met.
    pub fn enumeration_errors(&self) -> u64 {
        self.enumeration_errors
    }

    /// Returns why nothing may be left out of any search, whatever the tree is like.
    pub fn incomplete(&self) -> Option<Stale> {
        (self.enumeration_errors > 0).then_some(Stale::EnumerationErrors(self.enumeration_errors))
    }

    /// Compares everything that decides about eligibility with how it was: one look at each input, at each directory
    /// below `scope` (relative to the index root), and at those above it. `base` is the index root beneath `root`.
    /// Directories are looked at on the threads of the current pool.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub fn stale(
        &self,
        root: &RootDir,
        base: &Path,
        scope: &Path,
    ) -> Result<Option<Stale>, FormatError> {
        if let Some(path) = self.inputs.changed() {
            return Ok(Some(Stale::Input(path)));
        }
        let changed = (0..self.segment.dir_count())
            .into_par_iter()
            .find_map_first(
                |number| match self.dir_is_stale(number, root, base, scope) {
                    Ok(None) => None,
                    Ok(Some(path)) => Some(Ok(path)),
                    Err(error) => Some(Err(error)),
                },
            );
        changed.transpose()
    }

    fn dir_is_stale(
        &self,
        number: u32,
        root: &RootDir,
        base: &Path,
        scope: &Path,
    ) -> Result<Option<Stale>, FormatError> {
        let path = self.segment.dir_path(number)?;
        if !path.starts_with(scope) && !scope.starts_with(path) {
            return Ok(None);
        }
        let kept = Stamp::from_record(self.segment.dir(number)?.stamp);
        let real = join(base, path);
        Ok(match root.metadata(&real).map(|meta| Stamp::of(&meta)) {
            Ok(Some(now)) if now == kept => None,
            Ok(None) => Some(Stale::Untimed(path.to_path_buf())),
            _ => Some(Stale::Dir(path.to_path_buf())),
        })
    }

    /// Tells for each of some files of one directory whether it is as it was. Files that can't be looked at are not.
    /// One system call a file, after the directory was opened.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub fn unchanged(
        &self,
        root: &RootDir,
        base: &Path,
        dir: u32,
        ranks: &[u32],
    ) -> Result<Vec<bool>, FormatError> {
        let mut names = Vec::with_capacity(ranks.len());
        let mut kept = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            let file = self.segment.file(rank)?;
            names.push(self.segment.name(file.name)?);
            kept.push(Stamp::from_record(file.stamp));
        }
        let real = join(base, self.segment.dir_path(dir)?);
        let Ok(stat) = root.stat_entries(&real, names.iter().map(|name| &**name)) else {
            return Ok(vec![false; ranks.len()]);
        };
        let now = |meta: io::Result<_>| meta.ok().and_then(|meta| Stamp::of(&meta));
        let pairs = stat.entries.into_iter().zip(kept);
        Ok(pairs.map(|(meta, kept)| now(meta) == Some(kept)).collect())
    }

    /// Returns how many sets are kept for requests to come.
    pub fn kept_sets(&self) -> usize {
        self.sets.lock().len() + self.extra_sets.lock().len()
    }

    /// Returns the set of files of the segment that is kept under `name`, made by `make` if there is none yet. A few sets
    /// are kept; the one that was not asked for the longest goes first.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub fn set(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<RankSet, FormatError>,
    ) -> Result<Arc<RankSet>, FormatError> {
        self.sets.get(name, make)
    }

    /// Does the same for files of the overlay, which are numbered by their places there.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub fn extra_set(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<RankSet, FormatError>,
    ) -> Result<Arc<RankSet>, FormatError> {
        self.extra_sets.get(name, make)
    }
}

impl KeptSets {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, Arc<RankSet>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<RankSet, FormatError>,
    ) -> Result<Arc<RankSet>, FormatError> {
        {
            let mut sets = self.lock();
            if let Some(at) = sets.iter().position(|(kept, _)| kept == name)
                && let Some(found) = sets.remove(at)
            {
                let set = found.1.clone();
                sets.push_front(found);
                return Ok(set);
            }
        }
        // Not under the lock: other searches need not wait for this.
        let set = Arc::new(make()?);
        let mut sets = self.lock();
        sets.push_front((name.to_string(), set.clone()));
        sets.truncate(KEPT_SETS);
        Ok(set)
    }
}
