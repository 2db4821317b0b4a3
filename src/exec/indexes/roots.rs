//! Index roots: what is known of the index of each.
//!
//! Owns the memory of what was found on disk, and how callers wait for each other while it is opened. It does not decide
//! which directories are roots, nor what is done with an index.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::host::wall_clock_ns;
use crate::exec::reach::Reach;
use crate::exec::stop::Deadline;
use crate::format::error::{FormatError, FormatErrorKind};
use crate::index::beneath::RootDir;
use crate::index::bloom::BloomParams;
use crate::index::builder::BuildHost;
use crate::index::casefold::Casefold;
use crate::index::deny::is_withheld;
use crate::index::key::{IndexKey, KeyInputs};
use crate::index::live::Opened;
use crate::index::snapshot::Snapshot;
use crate::index::stamp::Stamp;
use crate::index::store::{AccessNotes, Store};
use crate::index::walk::{IgnoreRules, TraversalOptions};

/// A directory that is indexed.
#[derive(Debug)]
pub(super) struct IndexRoot {
    pub(super) path: PathBuf,
    pub(super) key: IndexKey,
    /// The traversal options of the one index of the root (FR-LSI-IDX-SCHED-01).
    pub(super) traversal: TraversalOptions,
    /// Git's global excludes.
    pub(super) global_excludes: Option<PathBuf>,
    /// Locked for a moment at a time: never while something is opened.
    known: Mutex<Known>,
    /// Notified when a thread has opened the index, or given up.
    opened: Condvar,
    /// When its use was last noted in the store.
    notes: AccessNotes,
}

/// What the keys of all roots have in common.
#[derive(Clone, Debug)]
pub(super) struct RootKeys {
    pub(super) traversal: TraversalOptions,
    pub(super) backend: String,
    pub(super) max_tokenized_bytes: u64,
    pub(super) bloom: BloomParams,
    pub(super) deny: Vec<String>,
    pub(super) global_excludes: Option<PathBuf>,
    pub(super) access: String,
}

impl RootKeys {
    /// Makes the root at a canonical path.
    pub(super) fn root(&self, path: PathBuf) -> IndexRoot {
        let key = IndexKey::new(&KeyInputs {
            root: &path,
            options: self.traversal,
            backend: &self.backend,
            casefold: Casefold::Ascii,
            max_tokenized_bytes: self.max_tokenized_bytes,
            bloom: self.bloom,
            deny: &self.deny,
            global_excludes: self.global_excludes.as_deref(),
            access: &self.access,
        });
        IndexRoot {
            path,
            key,
            traversal: self.traversal,
            global_excludes: self.global_excludes.clone(),
            known: Mutex::default(),
            opened: Condvar::new(),
            notes: AccessNotes::default(),
        }
    }
}

/// How a caller waits for others that lock or open an index. By default as long as is configured.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits<'a> {
    /// When the caller does without.
    pub(super) budget: Option<&'a Deadline>,
    /// The caller's host, which may have to stop.
    pub(super) host: Option<&'a dyn BuildHost>,
}

impl<'a> Waits<'a> {
    /// Waits until a deadline.
    pub(super) fn until(budget: &'a Deadline) -> Waits<'a> {
        Waits {
            budget: Some(budget),
            host: None,
        }
    }

    /// Waits until a host has to stop.
    pub(super) fn of(host: &'a dyn BuildHost) -> Waits<'a> {
        Waits {
            budget: None,
            host: Some(host),
        }
    }

    /// Returns how long the caller waits from now on, at most.
    pub(super) fn left(&self) -> Duration {
        match self.host.is_some_and(BuildHost::stopped) {
            true => Duration::ZERO,
            false => self.budget.map_or(Duration::MAX, Deadline::remaining),
        }
    }

    /// Sleeps, and returns whether the caller goes on waiting.
    fn pause(&self, time: Duration) -> bool {
        match self.host {
            Some(host) => host.pause(time),
            None => std::thread::sleep(time),
        }
        !self.left().is_zero()
    }
}

/// How long a waiting thread sleeps before it looks at its deadline again.
const TICK: Duration = Duration::from_millis(4);

/// Returns false if the file of an open index was written to or cut off in its place.
fn is_unchanged(opened: &Opened) -> bool {
    match opened {
        Opened::Open(snapshot) => snapshot.segment().storage().is_unchanged(),
        _ => true,
    }
}

/// A state, and the publication that it is of.
#[derive(Debug, Default)]
struct Known {
    state: Option<Opened>,
    publication: Option<Stamp>,
    /// Whether a thread opens the index. The others wait for it.
    is_opening: bool,
    /// Counts the states that were set by others than the thread that opens: they are newer than
    /// the one that it finds.
    version: u64,
}

impl Known {
    /// Replaces the state.
    fn set(&mut self, state: Option<Opened>, publication: Option<Stamp>) {
        self.state = state;
        self.publication = publication;
        self.version += 1;
    }
}

/// Ends the opening of an index, also after a panic.
struct Opening<'a>(&'a IndexRoot);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.lock().is_opening = false;
        self.0.opened.notify_all();
    }
}

impl IndexRoot {
    /// Returns a handle on a directory that holds the root, and the root's path in it; `None` if it is
    /// not there. A root above the allowed ones is opened for its catalog alone: a search reads only
    /// what its allowed roots contain.
    pub(super) fn locate(&self, reach: &Reach) -> Option<(Arc<RootDir>, PathBuf)> {
        let open = || Some((Arc::new(RootDir::open(&self.path).ok()?), PathBuf::new()));
        reach.locate(&self.path).or_else(open)
    }

    /// Returns true if searches of a path below the root (relative to it) get the files that a walk
    /// from an allowed root finds. A walk does not look at the names above where it starts.
    pub(super) fn answers_for(&self, path: &Path, reach: &Reach) -> bool {
        reach.locate(&self.path).is_some() || !(reach.withholds() && is_withheld(path))
    }

    /// Returns true if denied patterns and global excludes are those that the index was made with, for a request by
    /// these ignore rules. Global excludes don't count where no rules do, nor among git's own.
    pub(super) fn is_under(
        &self,
        reach: &Reach,
        rules: IgnoreRules,
        global_excludes: Option<&Path>,
    ) -> bool {
        let excludes_count = !matches!(rules, IgnoreRules::Git | IgnoreRules::None);
        let same_excludes = global_excludes == self.global_excludes.as_deref();
        reach.key_patterns() == self.key.parts().deny_patterns && (same_excludes || !excludes_count)
    }

    /// Returns the state of the index. Opens the kept one if nobody has, or if another process has built or
    /// removed it since; otherwise costs one look at one file. Notes that it is in use: on opening, and then once a
    /// minute at most (`FR-LSI-IDX-RM-02`).
    ///
    /// `waits` says how other threads that open it, and locks of other processes, are waited for.
    pub(super) fn state(&self, store: Option<&Store>, waits: Waits<'_>) -> Opened {
        let Some(store) = store else {
            return self.lock().state.clone().unwrap_or(Opened::Absent);
        };
        let state = self.state_in(store, waits);
        if matches!(state, Opened::Open(_)) {
            let now_ms = wall_clock_ns() / 1_000_000;
            if self.notes.is_due(now_ms) {
                store.note_access(self.key.parts(), now_ms);
            }
        }
        state
    }

    fn state_in(&self, store: &Store, waits: Waits<'_>) -> Opened {
        // Also counted down by the naps: a clock that stands still must not keep a call waiting.
        let mut patience = waits.left();
        loop {
            // Looked at first: if it is replaced while it is opened, the next call opens it again.
            let publication = store.publication(self.key.parts());
            let mut known = self.lock();
            match &known.state {
                Some(state) if known.publication == publication && is_unchanged(state) => {
                    return state.clone();
                }
                _ if !known.is_opening => {
                    known.is_opening = true;
                    let version = known.version;
                    drop(known);
                    return self.open(store, publication, version, patience, waits);
                }
                _ if patience.min(waits.left()).is_zero() => {
                    return Opened::OutOfTime(IS_OPENED.to_string());
                }
                _ => {
                    let nap = TICK.min(patience);
                    let (_known, nap_over) = self
                        .opened
                        .wait_timeout(known, nap)
                        .unwrap_or_else(PoisonError::into_inner);
                    if nap_over.timed_out() {
                        patience = patience.saturating_sub(nap);
                    }
                }
            }
        }
    }

    /// Opens what is kept, as the one thread that does. Waits no longer than `patience` for a lock.
    fn open(
        &self,
        store: &Store,
        publication: Option<Stamp>,
        version: u64,
        patience: Duration,
        waits: Waits<'_>,
    ) -> Opened {
        let _ends = Opening(self);
        let key = self.key.parts();
        let patience = patience.min(waits.left());
        let mut pause = |time| waits.pause(time);
        let (state, keep) = match store.load_within(key, patience, &mut pause) {
            Ok(Some(snapshot)) => (Opened::Open(Arc::new(snapshot)), true),
            Ok(None) => (
                match store.other_policies(key) {
                    None => Opened::Absent,
                    Some(false) => Opened::OtherPolicy(UNDER_MORE_PATTERNS.to_string()),
                    Some(true) => Opened::OtherPolicy(UNDER_FEWER_PATTERNS.to_string()),
                },
                true,
            ),
            Err(error) if error.is_corrupt() => (Opened::Damaged(error.to_string()), true),
            Err(error)
                if error.is_locked()
                    && (patience < store.lock_timeout() || waits.left().is_zero()) =>
            {
                (Opened::OutOfTime(IS_LOCKED.to_string()), false)
            }
            // Where it is locked or out of reach for now, the next call tries again.
            Err(error) => {
                let newer = matches!(error.kind(), FormatErrorKind::NewerVersion { .. });
                (Opened::Unavailable(error.to_string()), newer)
            }
        };
        let mut known = self.lock();
        if known.version == version {
            known.set(keep.then(|| state.clone()), publication);
        }
        self.notes.reset();
        state
    }

    /// Returns true if [`IndexRoot::state`] would neither open anything nor wait.
    pub(super) fn is_known(&self, store: Option<&Store>) -> bool {
        let Some(store) = store else {
            return true;
        };
        let publication = store.publication(self.key.parts());
        let known = self.lock();
        let unchanged = known.state.as_ref().is_some_and(is_unchanged);
        unchanged && known.publication == publication
    }

    /// Notes what was just built.
    pub(super) fn set_open(&self, store: Option<&Store>, snapshot: Arc<Snapshot>) {
        let publication = store.and_then(|store| store.publication(self.key.parts()));
        self.lock().set(Some(Opened::Open(snapshot)), publication);
    }

    /// Lets go of what is open; it is opened again when it is needed.
    pub(super) fn forget(&self) {
        self.lock().set(None, None);
    }

    /// Notes damage that showed while the index was used: it is not used again before it was built anew.
    pub(super) fn set_damaged(&self, error: &FormatError) {
        let mut known = self.lock();
        let publication = known.publication;
        known.set(Some(Opened::Damaged(error.to_string())), publication);
    }

    /// Locks even after a panic elsewhere: the state is replaced as a whole.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why there is no index although there was one of the same root.
const UNDER_MORE_PATTERNS: &str = "the index was built under other denied patterns; `forge-search index build` makes one for those of now";
const UNDER_FEWER_PATTERNS: &str = "the index was built under other denied patterns, and has entries for files that \
     are denied now; `forge-search index build` makes one for the patterns of now, and removes the other one";

/// Why an index was not opened in time.
const IS_OPENED: &str = "another call opens the index";
const IS_LOCKED: &str = "the index is locked by another process";
