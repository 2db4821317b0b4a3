//! A snapshot: one published state of an index, pinned by whoever searches with it.
//!
//! Owns what belongs together: a segment, how the tree differs from it, what decided about eligibility, and answers that
//! only depend on them.
//! A snapshot never changes; a later state is another snapshot. Whether it still is the state of the tree is asked
//! here too, without any memory of the answer: until changes are tracked, every call has to ask.

use std::collections::{BTreeMap, VecDeque};
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
    /// The comparison was ended early: nobody knows.
    Unfinished,
}

/// What in a tree is not as a snapshot has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Ignore files and the like, by their absolute paths.
    pub inputs: Vec<PathBuf>,
    /// Directories, relative to the index root.
    pub dirs: Vec<PathBuf>,
}

impl Differences {
    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.dirs.is_empty()
    }
}

/// What a look at a directory and at some of its files came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirLook {
    /// Whether the directory is as it was.
    pub(crate) is_same: bool,
    /// The same for each of the files, in their order.
    pub(crate) files: Vec<bool>,
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
        self.stale_while(&|| true, root, base, scope)
    }

    /// Compares as [`Snapshot::stale`] does, as long as `go_on` returns true. It is asked before
    /// each look at a directory; when it returns false, the answer is [`Stale::Unfinished`], unless
    /// a directory before has changed.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub fn stale_while(
        &self,
        go_on: &(dyn Fn() -> bool + Sync),
        root: &RootDir,
        base: &Path,
        scope: &Path,
    ) -> Result<Option<Stale>, FormatError> {
        if !go_on() {
            return Ok(Some(Stale::Unfinished));
        }
        if let Some(path) = self.inputs.changed() {
            return Ok(Some(Stale::Input(path)));
        }
        let changed = (0..self.segment.dir_count())
            .into_par_iter()
            .find_map_first(|number| {
                let stale = self.dir_is_stale(number, go_on, root, base, scope);
                stale.transpose()
            });
        changed.transpose()
    }

    /// Finds everything that decides about eligibility below `scope` and is not as it was, as
    /// [`Snapshot::stale`] finds the first. `None` if `go_on` returned false meanwhile.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub fn differences(
        &self,
        go_on: &(dyn Fn() -> bool + Sync),
        root: &RootDir,
        base: &Path,
        scope: &Path,
    ) -> Result<Option<Differences>, FormatError> {
        // The directories in each directory, which is opened once for all of them.
        let mut by_parent: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
        for number in 0..self.segment.dir_count() {
            let path = self.segment.dir_path(number)?;
            if path.starts_with(scope) || scope.starts_with(path) {
                let above = (number > 0).then_some(self.segment.dir(number)?.parent);
                by_parent.entry(above).or_default().push(number);
            }
        }
        let groups: Vec<(Option<u32>, Vec<u32>)> = by_parent.into_iter().collect();
        let found = groups.par_iter().map(|(above, dirs)| match above {
            Some(above) => self.stale_dirs_in(*above, dirs, go_on, root, base),
            None => {
                let stale = self.dir_is_stale(0, go_on, root, base, scope)?;
                Ok(stale.map(|stale| (0, stale)).into_iter().collect())
            }
        });
        let found: Vec<Vec<(u32, Stale)>> = found.collect::<Result<_, FormatError>>()?;
        let mut found: Vec<(u32, Stale)> = found.into_iter().flatten().collect();
        found.sort_by_key(|(number, _)| *number);
        let mut differences = Differences {
            inputs: self.inputs.all_changed(),
            dirs: Vec::with_capacity(found.len()),
        };
        for (_, stale) in found {
            match stale {
                Stale::Dir(path) | Stale::Untimed(path) => differences.dirs.push(path),
                Stale::Unfinished | Stale::EnumerationErrors(_) | Stale::Input(_) => {
                    return Ok(None);
                }
            }
        }
        Ok(Some(differences))
    }

    /// Finds those of some directories, all directly in the one with the number `above`, that are not as they were.
    fn stale_dirs_in(
        &self,
        above: u32,
        dirs: &[u32],
        go_on: &(dyn Fn() -> bool + Sync),
        root: &RootDir,
        base: &Path,
    ) -> Result<Vec<(u32, Stale)>, FormatError> {
        let mut names = Vec::with_capacity(dirs.len());
        for &number in dirs {
            if !go_on() {
                return Ok(vec![(number, Stale::Unfinished)]);
            }
            names.push(self.segment.name(self.segment.dir(number)?.name)?);
        }
        let real = join(base, self.segment.dir_path(above)?);
        let stat = root.stat_entries(&real, names.iter().map(|name| &**name));
        let mut now = stat.ok().map(|stat| stat.entries.into_iter());
        let mut stale = Vec::new();
        for &number in dirs {
            // Where the directory above can't be opened, none in it can be looked at.
            let meta = now.as_mut().and_then(|entries| entries.next()?.ok());
            let path = || self.segment.dir_path(number).map(Path::to_path_buf);
            let kept = Stamp::from_record(self.segment.dir(number)?.stamp);
            match meta.map(|meta| Stamp::of(&meta)) {
                Some(Some(now)) if now == kept => {}
                Some(None) => stale.push((number, Stale::Untimed(path()?))),
                _ => stale.push((number, Stale::Dir(path()?))),
            }
        }
        Ok(stale)
    }

    fn dir_is_stale(
        &self,
        number: u32,
        go_on: &(dyn Fn() -> bool + Sync),
        root: &RootDir,
        base: &Path,
        scope: &Path,
    ) -> Result<Option<Stale>, FormatError> {
        let path = self.segment.dir_path(number)?;
        if !path.starts_with(scope) && !scope.starts_with(path) {
            return Ok(None);
        }
        if !go_on() {
            return Ok(Some(Stale::Unfinished));
        }
        let kept = Stamp::from_record(self.segment.dir(number)?.stamp);
        let real = join(base, path);
        Ok(match root.metadata(&real).map(|meta| Stamp::of(&meta)) {
            Ok(Some(now)) if now == kept => None,
            Ok(None) => Some(Stale::Untimed(path.to_path_buf())),
            _ => Some(Stale::Dir(path.to_path_buf())),
        })
    }

    /// Returns true if a directory is as it was. One that can't be looked at is not.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub(crate) fn is_same_dir(
        &self,
        root: &RootDir,
        base: &Path,
        dir: u32,
    ) -> Result<bool, FormatError> {
        Ok(self.stale_dir(root, base, dir)?.is_none())
    }

    /// Says how a directory is not as it was; `None` if it is.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub(crate) fn stale_dir(
        &self,
        root: &RootDir,
        base: &Path,
        dir: u32,
    ) -> Result<Option<Stale>, FormatError> {
        // Each directory lies below the index root.
        self.dir_is_stale(dir, &|| true, root, base, Path::new(""))
    }

    /// Returns true if a directory, given by its path relative to the index root, and those above it
    /// are in the catalog and are as they were.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub(crate) fn is_same_down_to(
        &self,
        root: &RootDir,
        base: &Path,
        path: &Path,
    ) -> Result<bool, FormatError> {
        for path in path.ancestors() {
            let is_same = match self.segment.find_dir(path)? {
                Some(dir) => self.is_same_dir(root, base, dir)?,
                None => false,
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
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
        Ok(self.look_into(root, base, dir, ranks)?.files)
    }

    /// Looks at a directory and some of its files, as [`Snapshot::is_same_dir`] and
    /// [`Snapshot::unchanged`] do, and opens the directory once for both.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub(crate) fn look_into(
        &self,
        root: &RootDir,
        base: &Path,
        dir: u32,
        ranks: &[u32],
    ) -> Result<DirLook, FormatError> {
        let mut names = Vec::with_capacity(ranks.len());
        let mut kept = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            let file = self.segment.file(rank)?;
            names.push(self.segment.name(file.name)?);
            kept.push(Stamp::from_record(file.stamp));
        }
        let dir_kept = Stamp::from_record(self.segment.dir(dir)?.stamp);
        let real = join(base, self.segment.dir_path(dir)?);
        let Ok(stat) = root.stat_entries(&real, names.iter().map(|name| &**name)) else {
            return Ok(DirLook {
                is_same: false,
                files: vec![false; ranks.len()],
            });
        };
        let now = |meta: io::Result<_>| meta.ok().and_then(|meta| Stamp::of(&meta));
        let pairs = stat.entries.into_iter().zip(kept);
        Ok(DirLook {
            is_same: Stamp::of(&stat.dir) == Some(dir_kept),
            files: pairs.map(|(meta, kept)| now(meta) == Some(kept)).collect(),
        })
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
