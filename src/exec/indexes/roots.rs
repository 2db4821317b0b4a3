//! Index roots: the cached state of each root's index.
//!
//! Every search asks its root for the open index ([`IndexRoot::state`]). This module owns the
//! cached result of opening an index, and the waiting of threads while one of them opens it. It
//! guarantees that only one thread at a time opens an index, and that an index which another
//! process replaced or removed is opened again. It does not decide which directories are roots, or
//! which requests use an index.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::host::wall_clock_ns;
use crate::exec::sources::reach::Reach;
use crate::exec::stop::Deadline;
use crate::format::error::{FormatError, FormatErrorKind};
use crate::format::manifest::KeyParts;
use crate::format::mutex::lock;
use crate::index::builder::BuildHost;
use crate::index::deny::is_withheld;
use crate::index::key::KeyInputs;
use crate::index::live::OpenOutcome;
use crate::index::root_dir::RootDir;
use crate::index::snapshot::Snapshot;
use crate::index::stamp::Stamp;
use crate::index::store::{AccessNotes, Store};
use crate::index::walk::{IgnoreRules, TraversalOptions};

/// A directory that is indexed.
#[derive(Debug)]
pub(super) struct IndexRoot {
    pub(super) path: PathBuf,
    pub(super) key: KeyParts,
    /// The traversal options of the one index of the root.
    pub(super) traversal: TraversalOptions,
    /// Git's global excludes.
    pub(super) global_excludes: Option<PathBuf>,
    /// Held only briefly: never while an index is opened.
    known: Mutex<CachedState>,
    /// Notified when a thread has opened the index or has failed to.
    opened: Condvar,
    /// When the use of the index was last recorded in the store.
    notes: AccessNotes,
}

/// How long a caller waits for threads that open an index and for processes that lock it. The
/// default is the configured lock timeout.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits<'a> {
    /// When the caller continues without the index.
    pub(super) deadline: Option<&'a Deadline>,
    /// The host of the caller's build, which may be asked to stop.
    pub(super) host: Option<&'a dyn BuildHost>,
}

impl<'a> Waits<'a> {
    /// Creates a wait that ends at a deadline.
    pub(super) fn until(deadline: &'a Deadline) -> Waits<'a> {
        Waits {
            deadline: Some(deadline),
            host: None,
        }
    }

    /// Creates a wait that ends when a host is asked to stop.
    pub(super) fn of(host: &'a dyn BuildHost) -> Waits<'a> {
        Waits {
            deadline: None,
            host: Some(host),
        }
    }

    /// Returns the longest time that the caller waits from now on.
    pub(super) fn left(&self) -> Duration {
        match self.host.is_some_and(BuildHost::stopped) {
            true => Duration::ZERO,
            false => self.deadline.map_or(Duration::MAX, Deadline::remaining),
        }
    }

    /// Sleeps, and returns true if the caller continues to wait.
    fn pause(&self, time: Duration) -> bool {
        match self.host {
            Some(host) => host.pause(time),
            None => std::thread::sleep(time),
        }
        !self.left().is_zero()
    }
}

/// How long a waiting thread sleeps before it checks its deadline again.
const TICK: Duration = Duration::from_millis(4);

/// Returns false if the file of an open index was modified or truncated in place.
fn is_unchanged(opened: &OpenOutcome) -> bool {
    match opened {
        OpenOutcome::Open(snapshot) => snapshot.segment().storage().is_unchanged(),
        _ => true,
    }
}

/// The cached state of an index, and the publication that it was opened from.
#[derive(Debug, Default)]
struct CachedState {
    state: Option<OpenOutcome>,
    publication: Option<Stamp>,
    /// Whether a thread is opening the index. Other threads wait for it.
    is_opening: bool,
    /// Incremented whenever the state is replaced. If it changed while a thread opened the index,
    /// the new state is more recent than the one that the thread has found.
    version: u64,
}

impl CachedState {
    /// Replaces the state.
    fn set(&mut self, state: Option<OpenOutcome>, publication: Option<Stamp>) {
        self.state = state;
        self.publication = publication;
        self.version += 1;
    }
}

/// Ends the opening of an index, also after a panic, and wakes the waiting threads.
struct OpeningGuard<'a>(&'a IndexRoot);

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        lock(&self.0.known).is_opening = false;
        self.0.opened.notify_all();
    }
}

impl IndexRoot {
    /// Creates the root at a canonical path.
    pub(super) fn new(path: PathBuf, inputs: &KeyInputs) -> IndexRoot {
        IndexRoot {
            key: inputs.key(&path),
            path,
            traversal: inputs.options,
            global_excludes: inputs.global_excludes.clone(),
            known: Mutex::default(),
            opened: Condvar::new(),
            notes: AccessNotes::default(),
        }
    }

    /// Returns a handle on a directory that contains the root, and the path of the root in it.
    /// Returns `None` if the root can't be opened. A root above the allowed roots is opened for its
    /// catalog only: a search reads only files in its allowed roots.
    pub(super) fn locate(&self, reach: &Reach) -> Option<(Arc<RootDir>, PathBuf)> {
        let open = || Some((Arc::new(RootDir::open(&self.path).ok()?), PathBuf::new()));
        reach.locate(&self.path).or_else(open)
    }

    /// Returns true if a search of `path` (relative to the root) finds the same files by the index
    /// as by a walk from an allowed root. They can differ because a walk does not check the names
    /// of the directories above its start.
    pub(super) fn answers_for(&self, path: &Path, reach: &Reach) -> bool {
        reach.locate(&self.path).is_some() || !(reach.withholds() && is_withheld(path))
    }

    /// Returns true if a request has the same denied patterns and global excludes as the index.
    /// `rules` are the ignore rules of the request: with no rules or with git's own rules, global
    /// excludes are not compared.
    pub(super) fn is_under(
        &self,
        reach: &Reach,
        rules: IgnoreRules,
        global_excludes: Option<&Path>,
    ) -> bool {
        let excludes_count = !matches!(rules, IgnoreRules::Git | IgnoreRules::None);
        let same_excludes = global_excludes == self.global_excludes.as_deref();
        reach.key_patterns() == self.key.deny_patterns && (same_excludes || !excludes_count)
    }

    /// Returns the state of the index. Opens the stored index if it is not open, or if another
    /// process has built or removed it since; otherwise reads only the metadata of one file.
    /// Records the use of the index in the store: on opening, and then at most once a minute.
    ///
    /// `waits` limits the waiting for threads that open the index and for locks of other processes.
    pub(super) fn state(&self, store: Option<&Store>, waits: Waits<'_>) -> OpenOutcome {
        let Some(store) = store else {
            return lock(&self.known)
                .state
                .clone()
                .unwrap_or(OpenOutcome::Absent);
        };
        let state = self.state_in(store, waits);
        if matches!(state, OpenOutcome::Open(_)) {
            let now_ms = wall_clock_ns() / 1_000_000;
            if self.notes.is_due(now_ms) {
                store.note_access(&self.key, now_ms);
            }
        }
        state
    }

    fn state_in(&self, store: &Store, waits: Waits<'_>) -> OpenOutcome {
        // Each sleep is subtracted too: a clock that stands still must not make a call wait
        // forever.
        let mut patience = waits.left();
        loop {
            // Read before opening: if the publication is replaced meanwhile, the next call opens
            // the index again.
            let publication = store.publication(&self.key);
            let mut known = lock(&self.known);
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
                    return OpenOutcome::OutOfTime(IS_OPENED.to_string());
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

    /// Opens the stored index. Only one thread at a time runs this. Waits no longer than `patience`
    /// for a lock.
    fn open(
        &self,
        store: &Store,
        publication: Option<Stamp>,
        version: u64,
        patience: Duration,
        waits: Waits<'_>,
    ) -> OpenOutcome {
        let _ends = OpeningGuard(self);
        let key = &self.key;
        let patience = patience.min(waits.left());
        let mut pause = |time| waits.pause(time);
        let (state, keep) = match store.load_within(key, patience, &mut pause) {
            Ok(Some(snapshot)) => (OpenOutcome::Open(Arc::new(snapshot)), true),
            Ok(None) => (
                match store.other_policies(key) {
                    None => OpenOutcome::Absent,
                    Some(false) => OpenOutcome::OtherPolicy(UNDER_MORE_PATTERNS.to_string()),
                    Some(true) => OpenOutcome::OtherPolicy(UNDER_FEWER_PATTERNS.to_string()),
                },
                true,
            ),
            Err(error) if error.is_corrupt() => (OpenOutcome::Damaged(error.to_string()), true),
            Err(error)
                if error.is_locked()
                    && (patience < store.lock_timeout() || waits.left().is_zero()) =>
            {
                (OpenOutcome::OutOfTime(IS_LOCKED.to_string()), false)
            }
            // An index that is locked or out of reach for now is not cached, so the next call tries
            // again.
            Err(error) => {
                let newer = matches!(error.kind(), FormatErrorKind::NewerVersion { .. });
                (OpenOutcome::Unavailable(error.to_string()), newer)
            }
        };
        let mut known = lock(&self.known);
        if known.version == version {
            known.set(keep.then(|| state.clone()), publication);
        }
        self.notes.reset();
        state
    }

    /// Returns true if [`IndexRoot::state`] would neither open an index nor wait.
    pub(super) fn is_known(&self, store: Option<&Store>) -> bool {
        let Some(store) = store else {
            return true;
        };
        let publication = store.publication(&self.key);
        let known = lock(&self.known);
        let unchanged = known.state.as_ref().is_some_and(is_unchanged);
        unchanged && known.publication == publication
    }

    /// Caches an index that was just built.
    pub(super) fn set_open(&self, store: Option<&Store>, snapshot: Arc<Snapshot>) {
        let publication = store.and_then(|store| store.publication(&self.key));
        lock(&self.known).set(Some(OpenOutcome::Open(snapshot)), publication);
    }

    /// Removes the cached index. The next use opens the index again.
    pub(super) fn forget(&self) {
        lock(&self.known).set(None, None);
    }

    /// Records damage that was detected during use. The index is not used again until it has been
    /// rebuilt.
    pub(super) fn set_damaged(&self, error: &FormatError) {
        let mut known = lock(&self.known);
        let publication = known.publication;
        known.set(Some(OpenOutcome::Damaged(error.to_string())), publication);
    }
}

/// Why there is no index although the root had one under other denied patterns.
const UNDER_MORE_PATTERNS: &str = "the index was built with other denied patterns; `forge-search \
     index build` builds one with the current patterns";
const UNDER_FEWER_PATTERNS: &str = "the index was built with other denied patterns, and has \
     entries for files that are denied now; `forge-search index build` builds one with the current \
     patterns, and removes the old one";

/// Why an index was not opened in time.
const IS_OPENED: &str = "another call is opening the index";
const IS_LOCKED: &str = "the index is locked by another process";
