//! A snapshot: one state of an index in memory, pinned by each search that uses it.
//!
//! This module owns the parts that belong to one state: the segment, the overlay of changes in the
//! tree, the eligibility inputs, and cached sets of files that depend only on these. A snapshot
//! never changes; a later state of the tree is another snapshot.
//!
//! This module also compares a snapshot with the tree. It does not cache the result of this
//! comparison: without change tracking, every call has to compare.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use rayon::prelude::*;

use crate::format::choices::choices;
use crate::format::error::FormatError;
use crate::format::manifest::KeyParts;
use crate::format::mutex::lock;
use crate::format::segment::StampRecord;
use crate::index::handles::Handle;
use crate::index::inputs::Inputs;
use crate::index::overlay::Overlay;
use crate::index::ranks::RankSet;
use crate::index::root_dir::RootDir;
use crate::index::segment::Segment;
use crate::index::stamp::Stamp;
use crate::index::walk::join;

/// The number of rank sets that a cache keeps.
const KEPT_SETS: usize = 16;

choices! {
    /// The place where an index is stored (`index_storage`).
    StorageMode {
        /// In the memory of the process.
        Memory = "memory",
        /// In memory-mapped files.
        Mmap = "mmap",
        /// In an SQLite database.
        Sqlite = "sqlite",
    }
}

/// One state of an index.
#[derive(Debug)]
pub struct Snapshot {
    key: KeyParts,
    storage: StorageMode,
    /// The publication number, for an index in files.
    generation: Option<u64>,
    /// The time of publication, in milliseconds since 1970.
    published_ms: Option<i64>,
    /// The number of overlay updates since the segment was opened or built.
    sequence: u64,
    segment: Arc<Segment>,
    overlay: Overlay,
    inputs: Arc<Inputs>,
    /// Whether ripgrep reads the same rules from the inputs, once that is known.
    as_ripgrep: Arc<OnceLock<bool>>,
    /// The number of enumeration errors: an unreadable directory may hide eligible files.
    enumeration_errors: u64,
    /// Counts the segment as open while any snapshot of it is in use.
    handle: Option<Arc<Handle>>,
    /// Cached sets of files of the segment, shared with later snapshots of the same segment.
    sets: Arc<KeptSets>,
    /// Cached sets of files of the overlay.
    extra_sets: KeptSets,
}

/// A cache of rank sets by name, the most recently used first.
#[derive(Debug, Default)]
struct KeptSets(Mutex<VecDeque<(String, Arc<RankSet>)>>);

/// The reason why a snapshot does not match the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// Enumeration met this many errors, so files may be missing.
    EnumerationErrors(u64),
    /// An eligibility input, such as an ignore file, changed.
    Input(PathBuf),
    /// A directory changed, or its metadata could not be read.
    Dir(PathBuf),
    /// A timestamp of a directory does not fit into a stamp.
    Untimed(PathBuf),
    /// The system does not report when files were last changed, so an unchanged stamp proves
    /// nothing.
    Unprovable,
    /// The comparison was cancelled before it found a difference.
    Unfinished,
}

/// The differences between a snapshot and the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// The changed eligibility inputs, by absolute path.
    pub inputs: Vec<PathBuf>,
    /// The changed directories, relative to the index root.
    pub dirs: Vec<PathBuf>,
}

impl Differences {
    /// Returns true if there are no differences.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.dirs.is_empty()
    }
}

/// The result of comparing a directory and some of its files with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirComparison {
    /// Whether the directory is unchanged.
    pub(crate) is_same: bool,
    /// Whether each file is unchanged, in the order of the given ranks.
    pub(crate) files: Vec<bool>,
}

impl Snapshot {
    /// Creates a snapshot of a segment, with an empty overlay.
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
            as_ripgrep: Arc::default(),
            enumeration_errors,
            handle: None,
            sets: Arc::default(),
            extra_sets: KeptSets::default(),
        }
    }

    /// Sets the publication number and its time, in milliseconds since 1970.
    #[must_use]
    pub fn published_as(mut self, generation: u64, ms: i64) -> Snapshot {
        self.generation = Some(generation);
        self.published_ms = Some(ms);
        self
    }

    /// Attaches a handle that counts the segment as open until the last snapshot of it is dropped.
    #[must_use]
    pub fn counted(mut self, handle: Handle) -> Snapshot {
        self.handle = Some(Arc::new(handle));
        self
    }

    /// Returns the snapshot of a later state of the same tree. `overlay` holds the differences
    /// between that state and the segment.
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
            as_ripgrep: match Arc::ptr_eq(&inputs, &self.inputs) {
                true => self.as_ripgrep.clone(),
                false => Arc::default(),
            },
            inputs,
            enumeration_errors,
            handle: self.handle.clone(),
            sets: self.sets.clone(),
            extra_sets: KeptSets::default(),
        }
    }

    /// Returns the components of the index key.
    pub fn key(&self) -> &KeyParts {
        &self.key
    }

    /// Returns the place where the index is stored.
    pub fn storage(&self) -> StorageMode {
        self.storage
    }

    /// Returns the publication number; `None` for an index that is only in memory.
    pub fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Returns the time of publication of the segment, in milliseconds since 1970; `None` for an
    /// index that is only in memory.
    pub fn published_ms(&self) -> Option<i64> {
        self.published_ms
    }

    /// Returns the number of overlay updates since this process opened or built the segment.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Returns the differences between the tree and the segment.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Returns the eligibility inputs.
    pub fn inputs(&self) -> &Arc<Inputs> {
        &self.inputs
    }

    /// Returns whether ripgrep reads the same rules from the eligibility inputs, and reports no
    /// problem of them. The first call reads all of them; later calls for the same inputs return
    /// its result.
    pub(crate) fn has_ripgreps_rules(&self) -> bool {
        *self
            .as_ripgrep
            .get_or_init(|| self.inputs.are_read_by_ripgrep())
    }

    /// Returns the number of enumeration errors.
    pub fn enumeration_errors(&self) -> u64 {
        self.enumeration_errors
    }

    /// Returns the reason why no search may skip files by this snapshot, independent of the state
    /// of the tree. `None` if enumeration met no errors.
    pub fn incomplete(&self) -> Option<Stale> {
        (self.enumeration_errors > 0).then_some(Stale::EnumerationErrors(self.enumeration_errors))
    }

    /// Returns [`Stale::Unprovable`] if comparing this snapshot with the tree could miss a change.
    /// `None` also if the root changed shortly before the build: then it counts as changed.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub fn unprovable(&self) -> Result<Option<Stale>, FormatError> {
        let root = self.segment.dir(0)?.stamp;
        let is_known = root != StampRecord::default();
        let misses = is_known && !Stamp::from_record(root).shows_all_changes();
        Ok(misses.then_some(Stale::Unprovable))
    }

    /// Returns the first difference in the eligibility inputs, in the directories below `subtree`
    /// (relative to the index root), or in the directories above `subtree`. `base` is the index
    /// root, relative to `root`.
    ///
    /// Costs one lookup per input and directory. Directories are compared on the threads of the
    /// current pool. `go_on` is called before each lookup of a directory. When it returns false,
    /// the result is [`Stale::Unfinished`], unless an earlier directory has changed.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub fn stale_while(
        &self,
        go_on: &(dyn Fn() -> bool + Sync),
        root: &RootDir,
        base: &Path,
        subtree: &Path,
    ) -> Result<Option<Stale>, FormatError> {
        if let Some(stale) = self.unprovable()? {
            return Ok(Some(stale));
        }
        if !go_on() {
            return Ok(Some(Stale::Unfinished));
        }
        if let Some(path) = self.inputs.changed() {
            return Ok(Some(Stale::Input(path)));
        }
        let changed = (0..self.segment.dir_count())
            .into_par_iter()
            .find_map_first(|number| {
                let stale = self.dir_is_stale(number, go_on, root, base, subtree);
                stale.transpose()
            });
        changed.transpose()
    }

    /// Returns all differences, where [`Snapshot::stale_while`] returns the first. `None` if
    /// `go_on` returned false before the comparison was complete.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub fn differences(
        &self,
        go_on: &(dyn Fn() -> bool + Sync),
        root: &RootDir,
        base: &Path,
        subtree: &Path,
    ) -> Result<Option<Differences>, FormatError> {
        // Grouped by parent, so that each parent is opened once.
        let mut by_parent: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
        for number in 0..self.segment.dir_count() {
            let path = self.segment.dir_path(number)?;
            if path.starts_with(subtree) || subtree.starts_with(path) {
                let above = (number > 0).then_some(self.segment.dir(number)?.parent);
                by_parent.entry(above).or_default().push(number);
            }
        }
        let groups: Vec<(Option<u32>, Vec<u32>)> = by_parent.into_iter().collect();
        let found = groups.par_iter().map(|(above, dirs)| match above {
            Some(above) => self.stale_dirs_in(*above, dirs, go_on, root, base),
            None => {
                let stale = self.dir_is_stale(0, go_on, root, base, subtree)?;
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
                Stale::Unfinished
                | Stale::Unprovable
                | Stale::EnumerationErrors(_)
                | Stale::Input(_) => {
                    return Ok(None);
                }
            }
        }
        Ok(Some(differences))
    }

    /// Returns the changed directories among `dirs`, which are all children of the directory
    /// `above`.
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
            // If the parent can't be opened, all its children count as changed.
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
        subtree: &Path,
    ) -> Result<Option<Stale>, FormatError> {
        let path = self.segment.dir_path(number)?;
        if !path.starts_with(subtree) && !subtree.starts_with(path) {
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

    /// Returns true if a directory is unchanged. A directory that can't be read counts as changed.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub(crate) fn is_same_dir(
        &self,
        root: &RootDir,
        base: &Path,
        dir: u32,
    ) -> Result<bool, FormatError> {
        Ok(self.stale_dir(root, base, dir)?.is_none())
    }

    /// Returns the way in which a directory differs from the snapshot; `None` if it is unchanged.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub(crate) fn stale_dir(
        &self,
        root: &RootDir,
        base: &Path,
        dir: u32,
    ) -> Result<Option<Stale>, FormatError> {
        // Each directory lies below the index root.
        self.dir_is_stale(dir, &|| true, root, base, Path::new(""))
    }

    /// Returns true if a directory (relative to the index root) and all its parents are in the
    /// catalog and unchanged.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
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

    /// Returns, for each file rank of one directory, whether the file is unchanged. A file that
    /// can't be read counts as changed. Costs one system call per file, plus opening the directory.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub fn unchanged(
        &self,
        root: &RootDir,
        base: &Path,
        dir: u32,
        ranks: &[u32],
    ) -> Result<Vec<bool>, FormatError> {
        Ok(self.look_into(root, base, dir, ranks)?.files)
    }

    /// Compares a directory and some of its files, like [`Snapshot::is_same_dir`] and
    /// [`Snapshot::unchanged`], and opens the directory only once.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the snapshot is unusable then.
    pub(crate) fn look_into(
        &self,
        root: &RootDir,
        base: &Path,
        dir: u32,
        ranks: &[u32],
    ) -> Result<DirComparison, FormatError> {
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
            return Ok(DirComparison {
                is_same: false,
                files: vec![false; ranks.len()],
            });
        };
        let now = |meta: io::Result<_>| meta.ok().and_then(|meta| Stamp::of(&meta));
        let pairs = stat.entries.into_iter().zip(kept);
        Ok(DirComparison {
            is_same: Stamp::of(&stat.dir) == Some(dir_kept),
            files: pairs.map(|(meta, kept)| now(meta) == Some(kept)).collect(),
        })
    }

    /// Returns the number of cached sets.
    pub fn kept_sets(&self) -> usize {
        lock(&self.sets.0).len() + lock(&self.extra_sets.0).len()
    }

    /// Returns the set of files of the segment that is cached under `name`, or calls `make` and
    /// caches its result. The cache evicts the least recently used set.
    ///
    /// # Errors
    ///
    /// Any error of `make`.
    pub fn set(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<RankSet, FormatError>,
    ) -> Result<Arc<RankSet>, FormatError> {
        self.sets.get(name, make)
    }

    /// Returns a cached set of files of the overlay, numbered by their positions there. Works like
    /// [`Snapshot::set`].
    ///
    /// # Errors
    ///
    /// Any error of `make`.
    pub fn extra_set(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<RankSet, FormatError>,
    ) -> Result<Arc<RankSet>, FormatError> {
        self.extra_sets.get(name, make)
    }
}

impl KeptSets {
    fn get(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<RankSet, FormatError>,
    ) -> Result<Arc<RankSet>, FormatError> {
        {
            let mut sets = lock(&self.0);
            if let Some(at) = sets.iter().position(|(kept, _)| kept == name)
                && let Some(found) = sets.remove(at)
            {
                let set = found.1.clone();
                sets.push_front(found);
                return Ok(set);
            }
        }
        // The lock is not held here, so that other searches do not wait for `make`.
        let set = Arc::new(make()?);
        let mut sets = lock(&self.0);
        sets.push_front((name.to_string(), set.clone()));
        sets.truncate(KEPT_SETS);
        Ok(set)
    }
}
