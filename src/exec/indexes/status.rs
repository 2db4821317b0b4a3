//! The state of indexes, as `index status` reports it.
//!
//! [`Condition`] says whether an index matches its tree, or why a request does not use it.
//! [`Indexes::status`] adds counts for people and programs. A search may still skip files by an
//! index that does not match: it first lists the changed directories again. This module builds no
//! index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rayon::prelude::*;

use super::Indexes;
use super::other_roots::OtherRootIndex;
use super::process_status::{ProcessIndexStatus, living_in};
use super::roots::{IndexRoot, Waits};
use crate::exec::indexes::IndexUse;
use crate::exec::sources::reach::Reach;
use crate::format::error::FormatError;
use crate::format::manifest::KeyParts;
use crate::format::segment::StampRecord;
use crate::index::builder::BuildHost;
use crate::index::live::OpenOutcome;
use crate::index::names::{shown, unlisted};
use crate::index::refresh::catch_up::differs_much;
use crate::index::root_dir::RootDir;
use crate::index::snapshot::{Snapshot, Stale, StorageMode};
use crate::index::state::{DisabledReason, IndexState, UncertainReason};
use crate::index::walk::Follow;

/// Whether the index of a root matches the tree as it is now, or why a request does not use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The index matches the tree: a search of the whole root may skip files at once.
    Usable,
    /// There is no index.
    Absent,
    /// There is no index, and a new one would exist only as long as the process that builds it.
    /// Holds the reason and what to do.
    Unkept(String),
    /// The index can't be opened, but it may be sound: it is locked, out of reach, or written by a
    /// newer version of the program.
    Unavailable(String),
    /// The index is damaged. Holds a description of the damage.
    Damaged(String),
    /// The index differs from the tree, or may differ from it. A search may still use it, once it
    /// has listed the changed directories again.
    Stale {
        /// The reason code.
        reason: UncertainReason,
        /// What changed, and what to do.
        why: String,
    },
    /// The index is of a tree in which symbolic links are followed. No search skips files by such
    /// an index.
    Untracked,
    /// The tree has a directory whose changes can't be detected, since its time of last change is
    /// out of range. Holds the directory and what to do. Building the index again does not help.
    Untimed(String),
    /// Indexes can neither be stored nor used in this environment.
    Disabled {
        /// The reason code.
        reason: DisabledReason,
        /// What is wrong, and what to do.
        why: String,
    },
    /// No index root contains the path. Holds an explanation.
    NoRoot(String),
    /// The request skips no files, independently of the state of the index.
    NotUsed {
        /// The state of the index, as far as the request examined it.
        index_state: IndexState,
        /// Why the request does not use the index.
        why: String,
    },
}

impl Condition {
    /// Returns the condition for a request that has no use for an index, when the index was not
    /// compared with the tree.
    pub(super) fn unchecked_condition(why: &str) -> Condition {
        Condition::NotUsed {
            index_state: IndexState::Uncertain(UncertainReason::OpenRequiresValidation),
            why: format!(
                "{why}; so the index was not compared with the tree. The state says only that: \
                 there is no need to build the index again"
            ),
        }
    }

    /// Returns the condition for a request with other traversal options than the index.
    /// No index is ever built for such a request.
    pub(super) fn other_key(why: &str) -> Condition {
        Condition::NotUsed {
            index_state: IndexState::Absent,
            why: why.to_string(),
        }
    }

    /// Returns the same state for a request that does not use the index, with another reason.
    pub(super) fn not_used(self, why: &str) -> Condition {
        Condition::NotUsed {
            index_state: self.index_state(),
            why: why.to_string(),
        }
    }

    /// Returns true if no index covers the path of the request.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Condition::Absent | Condition::NoRoot(_))
    }

    /// Returns the state of the index, with its reason code.
    pub fn index_state(&self) -> IndexState {
        match self {
            Condition::Usable => IndexState::Complete,
            Condition::Absent
            | Condition::NoRoot(_)
            | Condition::Unkept(_)
            | Condition::Unavailable(_) => IndexState::Absent,
            Condition::NotUsed { index_state, .. } => *index_state,
            Condition::Damaged(_) => IndexState::Corrupt,
            Condition::Stale { reason, .. } => IndexState::Uncertain(*reason),
            Condition::Untracked | Condition::Untimed(_) => {
                IndexState::Uncertain(UncertainReason::OpenRequiresValidation)
            }
            Condition::Disabled { reason, .. } => IndexState::Disabled(Some(*reason)),
        }
    }

    /// Returns an explanation why the index is not used; `None` if it is used.
    pub fn why(&self) -> Option<String> {
        match self {
            Condition::Usable => None,
            Condition::Absent => Some(
                "there is no index; run `forge-search index build`, or set index_mode = \"on\""
                    .to_string(),
            ),
            Condition::Unkept(why) => Some(format!(
                "there is no index, and `forge-search index build` builds none because it could \
                 not store it: {why}. With index_mode = \"on\", a search builds its own in memory"
            )),
            Condition::Unavailable(why) => Some(format!(
                "the index can't be opened, so searches run without it: {why}"
            )),
            Condition::Damaged(why) => {
                Some(format!("the index is damaged ({why}); build it again"))
            }
            Condition::Stale { why, .. }
            | Condition::Disabled { why, .. }
            | Condition::NotUsed { why, .. }
            | Condition::NoRoot(why)
            | Condition::Untimed(why) => Some(why.clone()),
            Condition::Untracked => Some(UNTRACKED.to_string()),
        }
    }

    /// Returns the condition of an index that is stale because its tree could not be watched: adds
    /// the reason why watching failed. Returns other conditions unchanged.
    pub(super) fn unwatched(self, unwatched: Option<String>) -> Condition {
        match (self, unwatched) {
            (
                Condition::Stale {
                    reason: UncertainReason::OpenRequiresValidation,
                    why,
                },
                Some(unwatched),
            ) => Condition::Stale {
                reason: UncertainReason::WatcherDown,
                why: format!("{why}. The tree is not watched: {unwatched}"),
            },
            (condition, _) => condition,
        }
    }

    /// Returns the condition for a call that used up its maintenance allowance. `why` names the
    /// step that was not finished.
    pub(super) fn out_of_time(why: &str) -> Condition {
        Condition::Stale {
            reason: UncertainReason::MaintBudgetExceeded,
            why: format!(
                "{why}; a call spends at most the share index_maint_budget_fraction of its \
                 timeout_ms on its index, then it searches without the index"
            ),
        }
    }

    /// Returns true if the index matches the tree. A search may use a stale one, too.
    pub fn is_usable(&self) -> bool {
        *self == Condition::Usable
    }
}

/// `storage_fallback_reason` of a live index that was built in memory because another process held
/// the write lock of the stored index for too long.
const LOCKED: &str = "LOCKED";

/// Why no search uses an index of a tree in which links are followed.
pub(super) const UNTRACKED: &str = "index_default_follow = true: the targets of symbolic links are \
     not tracked, so no search skips files by such an index; set index_default_follow = false in \
     [tools.search], build the index again, and follow links only in requests that need it";

/// Why no search skips files by an index on a system such as Windows.
pub(super) const UNPROVABLE: &str = "this system does not report when a file was last changed, so \
     an edit that keeps a file's length and time of writing could be missed, and each search reads \
     all files; if nothing changes the tree, set index_frozen = true in [tools.search]";

/// The part of a message about a time of last change that an index can't represent.
pub const OUT_OF_RANGE: &str = "before 1677 or after 2262, which an index can't store";

impl From<Stale> for Condition {
    fn from(stale: Stale) -> Condition {
        let again = "changed since the index was built, so each search lists the changed parts of \
             the tree again; building the index again makes searches faster";
        match stale {
            Stale::EnumerationErrors(count) => Condition::Stale {
                reason: UncertainReason::EnumerationError,
                why: format!(
                    "{}, and build the index again",
                    unlisted(count, " when the index was built")
                ),
            },
            Stale::Input(path) => Condition::Stale {
                reason: UncertainReason::EligibilityChanged,
                why: format!(
                    "{}, which decides which files are searched, {again}",
                    shown(&path)
                ),
            },
            Stale::Untimed(path) => Condition::Untimed(format!(
                "{} has a time of last change {OUT_OF_RANGE}, so new and deleted files in it can't \
                 be noticed; `touch` it and build the index again",
                match path.as_os_str().is_empty() {
                    true => "the index root".to_string(),
                    false => format!("the directory {}", shown(&path)),
                }
            )),
            Stale::Unprovable => Condition::Untimed(UNPROVABLE.to_string()),
            Stale::Unfinished => {
                Condition::out_of_time("comparing the index with the tree takes longer")
            }
            Stale::Dir(path) => Condition::Stale {
                reason: UncertainReason::OpenRequiresValidation,
                why: match path.as_os_str().is_empty() {
                    true => format!("the index root {again}"),
                    false => format!("the directory {} {again}", shown(&path)),
                },
            },
        }
    }
}

/// The status of one index root and its index, for people and programs.
#[derive(Clone, Debug)]
pub struct RootStatus {
    /// The index root.
    pub path: PathBuf,
    /// The directory that holds the index, or that would hold it; `None` if indexes are in memory.
    pub dir: Option<PathBuf>,
    /// Where the index is stored.
    pub storage: StorageMode,
    /// Whether the index can be used.
    pub condition: Condition,
    /// The index key: the settings that the index is built with.
    pub key: KeyParts,
    /// Counts of the content; `None` if the index can't be opened.
    pub contents: Option<Contents>,
    /// If there is no index for this root: an index of another root that the user may have meant.
    pub other_root_index: Option<OtherRootIndex>,
    /// The live indexes of this root in all processes, each as its status file describes it. Their
    /// states may differ from each other, since each process watches the tree for itself.
    pub living: Vec<ProcessIndexStatus>,
}

/// Counts of the content of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The size of all files of the index, in bytes.
    pub bytes: u64,
    /// When the index was built, in milliseconds since the Unix epoch; `None` for an index in
    /// memory.
    pub built_ms: Option<i64>,
    /// Files in the catalog.
    pub files: u64,
    /// Files that are not in the catalog because their names contain a line break. Every search
    /// searches them.
    pub side_files: u64,
    /// Directories in the catalog.
    pub dirs: u64,
    /// The size of the files that were tokenized, in bytes.
    pub text_bytes: u64,
    /// Files in the catalog that no search skips: too large, binary, or with text that the index
    /// can't represent reliably.
    pub always_searched: u64,
    /// Files in the catalog that were changed or deleted after the build. Searches search them too.
    pub changed_files: u64,
    /// Ignore files and similar files that decide which files are eligible.
    pub inputs: u64,
    /// Files and directories that could not be listed during the build.
    pub enumeration_errors: u64,
}

impl Indexes {
    /// Returns whether the index of the root at `path` can be used. Opens the index if necessary.
    /// Unless the tree is frozen, compares each directory of the catalog and each ignore file with
    /// the tree.
    ///
    /// Returns `None` if `path` is not an index root.
    pub fn condition(&self, path: &Path, reach: &Reach) -> Option<Condition> {
        let root = self.root_at(path)?;
        Some(self.condition_of(root, reach, Waits::default()).0)
    }

    /// Returns the status of each root. In addition to the check of [`Indexes::condition`] this
    /// examines each file of the catalog.
    pub fn status(&self, reach: &Reach) -> Vec<RootStatus> {
        let living = living_in(&self.status_dirs());
        let roots = self.roots.iter();
        let status = |root| RootStatus {
            living: living_at(&living, root),
            ..self.status_of(root, reach)
        };
        roots.map(|root| status(root)).collect()
    }

    /// Returns the live indexes of a root in all processes, as their status files describe them.
    /// Reads only these files and never waits. Returns `None` if `path` is not an index root.
    pub fn living(&self, path: &Path) -> Option<Vec<ProcessIndexStatus>> {
        let root = self.root_at(path)?;
        Some(living_at(&living_in(&self.status_dirs()), root))
    }

    fn status_of(&self, root: &IndexRoot, reach: &Reach) -> RootStatus {
        let (mut condition, snapshot) = self.condition_of(root, reach, Waits::default());
        let dir = self.store().map(|store| store.dir_of(&root.key));
        let mut contents = None;
        if let Some(snapshot) = snapshot {
            match self.contents(&snapshot, dir.as_deref(), root.locate(reach)) {
                Ok(found) => contents = Some(found),
                Err(error) => {
                    root.set_damaged(&error);
                    condition = Condition::Damaged(error.to_string());
                }
            }
        }
        RootStatus {
            path: root.path.clone(),
            dir,
            storage: self.storage(),
            other_root_index: match condition {
                Condition::Absent => self.index_of_other_root(&root.path, reach),
                _ => None,
            },
            condition,
            key: root.key.clone(),
            contents,
            living: Vec::new(),
        }
    }

    /// Opens the index of a root and compares it with the whole tree.
    pub(super) fn condition_of(
        &self,
        root: &IndexRoot,
        reach: &Reach,
        waits: Waits<'_>,
    ) -> (Condition, Option<Arc<Snapshot>>) {
        // The caller waits for the comparison, so no deadline ends it: only a request to stop does.
        let go_on = || !waits.host.is_some_and(BuildHost::stopped);
        self.condition_by(root, reach, waits, |snapshot, allowed, base| {
            self.staleness(snapshot, (allowed, base), Path::new(""), &go_on)
        })
    }

    /// Opens the index of a root and returns whether it should be built before a search. The search
    /// itself compares the index with the tree and catches up with differences. So this check
    /// examines only a part of a large tree ([`differs_much`]).
    pub(super) fn condition_before_search(
        &self,
        root: &IndexRoot,
        reach: &Reach,
        waits: Waits<'_>,
    ) -> Condition {
        let compare =
            |snapshot: &Snapshot, allowed: &RootDir, base: &Path| match snapshot.incomplete() {
                None if !self.frozen => differs_much(snapshot, allowed, base),
                incomplete => Ok(incomplete),
            };
        self.condition_by(root, reach, waits, compare).0
    }

    /// Opens the index of a root and returns whether it can be used. `compare` compares the index
    /// with the tree.
    fn condition_by(
        &self,
        root: &IndexRoot,
        reach: &Reach,
        waits: Waits<'_>,
        compare: impl FnOnce(&Snapshot, &RootDir, &Path) -> Result<Option<Stale>, FormatError>,
    ) -> (Condition, Option<Arc<Snapshot>>) {
        let snapshot = match self.open(root, waits) {
            Ok(snapshot) => snapshot,
            Err(condition) => return (condition, None),
        };
        let Some((allowed, base)) = root.locate(reach) else {
            return (outside(), Some(snapshot));
        };
        if root.traversal.follow != Follow::Never && snapshot.incomplete().is_none() {
            return (Condition::Untracked, Some(snapshot));
        }
        match compare(&snapshot, &allowed, &base) {
            Ok(None) => (Condition::Usable, Some(snapshot)),
            Ok(Some(stale)) => (stale.into(), Some(snapshot)),
            Err(error) => {
                root.set_damaged(&error);
                (Condition::Damaged(error.to_string()), None)
            }
        }
    }

    /// Opens the index of a root, or returns why no index can be used.
    pub(super) fn open(
        &self,
        root: &IndexRoot,
        waits: Waits<'_>,
    ) -> Result<Arc<Snapshot>, Condition> {
        if let Some(condition) = self.placeless() {
            return Err(condition);
        }
        match root.state(self.store(), waits) {
            OpenOutcome::Open(snapshot) => Ok(snapshot),
            OpenOutcome::Absent => Err(match self.unkept() {
                Some(why) => Condition::Unkept(why),
                None => Condition::Absent,
            }),
            OpenOutcome::OtherPolicy(why) => Err(Condition::Stale {
                reason: UncertainReason::PolicyChanged,
                why,
            }),
            OpenOutcome::Damaged(why) => Err(Condition::Damaged(why)),
            OpenOutcome::Unavailable(why) => Err(Condition::Unavailable(why)),
            OpenOutcome::OutOfTime(why) => Err(Condition::out_of_time(&why)),
        }
    }

    /// Returns the condition of every index if indexes can't be stored anywhere; otherwise `None`.
    pub(super) fn placeless(&self) -> Option<Condition> {
        self.index_storage
            .nowhere()
            .map(|nowhere| Condition::Disabled {
                reason: DisabledReason::PersistenceNotPermitted,
                why: nowhere.message.clone(),
            })
    }

    /// Compares an index with the tree, as far as a search below `subtree` depends on it. `subtree`
    /// is relative to the index root. `place` is an allowed root and the path of the index root in
    /// it. Ends early when `go_on` returns false.
    pub(super) fn staleness(
        &self,
        snapshot: &Snapshot,
        place: (&RootDir, &Path),
        subtree: &Path,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Stale>, FormatError> {
        let (allowed, base) = place;
        match snapshot.incomplete() {
            None if !self.frozen => snapshot.stale_while(go_on, allowed, base, subtree),
            incomplete => Ok(incomplete),
        }
    }

    /// Returns the index facts that `stats` reports, for a request that the index of a root may
    /// serve.
    pub(super) fn index_use(
        &self,
        root: Option<&Path>,
        index_state: IndexState,
        used: bool,
    ) -> IndexUse {
        let storage = self.storage();
        let living = root.and_then(|root| self.living_at(root)?.index.storage());
        let (storage, fallback) = match living.filter(|living| *living != storage) {
            Some(in_memory) => (in_memory, Some(LOCKED)),
            None => (storage, self.index_storage.fallback_code()),
        };
        IndexUse {
            index_state,
            exclusion_used: used,
            storage_mode: match self.index_storage.nowhere() {
                Some(_) => "none".to_string(),
                None => storage.as_str().to_string(),
            },
            storage_fallback_reason: fallback.map(str::to_string),
            spent: Duration::ZERO,
            build: root.and_then(|root| self.live_build(root)),
        }
    }

    fn contents(
        &self,
        snapshot: &Snapshot,
        dir: Option<&Path>,
        place: Option<(Arc<RootDir>, PathBuf)>,
    ) -> Result<Contents, FormatError> {
        let segment = snapshot.segment();
        let meta = segment.meta();
        let mut contents = Contents {
            bytes: segment.storage().len() as u64,
            built_ms: None,
            files: u64::from(meta.files),
            side_files: u64::from(meta.side),
            dirs: u64::from(meta.dirs),
            text_bytes: meta.text_bytes,
            always_searched: 0,
            changed_files: 0,
            inputs: snapshot.inputs().len() as u64,
            enumeration_errors: snapshot.enumeration_errors(),
        };
        if let (Some(store), Some(dir)) = (self.store(), dir) {
            let listed = store.look_at(dir);
            contents.bytes = listed.bytes;
            contents.built_ms = listed
                .manifest
                .ok()
                .map(|manifest| manifest.state.updated_ms);
        }
        let mut by_dir: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in 0..meta.files {
            let file = segment.file(rank)?;
            contents.always_searched += u64::from(!file.excludable);
            // A file without a stamp could not be read during the build, so it can't be compared.
            if file.stamp == StampRecord::default() {
                continue;
            }
            by_dir.entry(file.dir).or_default().push(rank);
        }
        if let Some((allowed, base)) = place
            && !self.frozen
        {
            let dirs: Vec<(u32, Vec<u32>)> = by_dir.into_iter().collect();
            let changed = dirs.par_iter().map(|(dir, ranks)| {
                let same = snapshot.unchanged(&allowed, &base, *dir, ranks)?;
                Ok(same.iter().filter(|same| !**same).count() as u64)
            });
            contents.changed_files = changed.sum::<Result<u64, FormatError>>()?;
        }
        Ok(contents)
    }
}

/// Returns the live indexes of one root.
fn living_at(all: &[ProcessIndexStatus], root: &IndexRoot) -> Vec<ProcessIndexStatus> {
    let of_root = all.iter().filter(|one| one.root == root.path);
    of_root.cloned().collect()
}

/// Returns the condition of an index root that the call can't reach.
pub(super) fn outside() -> Condition {
    Condition::Stale {
        reason: UncertainReason::PolicyChanged,
        why: "the index root is no longer in the sandbox".to_string(),
    }
}
