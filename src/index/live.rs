//! The live index of one tree: built in the background, kept up to date, and queried by searches.
//!
//! A long-running process creates one [`LiveIndex`] for each indexed tree, and calls
//! [`LiveIndex::pin`] at the start of each search. This module runs the [state
//! machine](crate::index::state): it collects events, feeds them in as triggers and carries out the
//! resulting actions. The [`IndexHost`] decides where the index is stored, which files are eligible
//! and how a build is paced.
//!
//! # Threads
//!
//! - The *watcher's thread* receives file system events. For each one it adds a mark to the dirty
//!   set or fires a trigger. It does not wait for the other threads' work.
//! - The *worker* is one thread. It opens, builds and reconciles the index, processes dirty marks
//!   once their files are quiet, and reads changed files. Most of the work runs on the thread pool
//!   of the [`IndexHost`], whose threads have a low priority.
//! - A *search* pins a snapshot. It first passes a barrier, which proves that all earlier events
//!   were received. Then it processes the dirty marks, within its budget. If the budget does not
//!   suffice, it does without the index. An edit that was finished before the call is therefore
//!   always visible to the search.
//!
//! # Locks
//!
//! The two main locks are acquired in this order. Neither is held while file content is read:
//!
//! - `TreeState`, the knowledge about the tree. The worker holds it while it reconciles, and a
//!   search while it processes dirty marks. The worker releases it after a small portion of marks
//!   or a small batch of directories. Searches that process marks take the lock first.
//! - `Status`, held for a moment at a time: the state, the dirty marks and the snapshot that
//!   searches get. The watcher's thread acquires it, so no thread may wait for the watcher's thread
//!   while it holds `Status`.
//!
//! Only `Status` is needed to swap in a new index, because a new index has a new `TreeState`. A
//! thread that still works on the old one finishes, but installs no snapshot and removes no marks.
//! So a swap never waits for a search. Each search waits at the barrier for the watcher's thread.
//! It waits for `TreeState` only if there are dirty marks. Each wait has a budget.
//!
//! Writing the status for other processes takes a third lock, `status_file`, acquired before
//! `Status`. Only the worker and the threads that build for it do that.
//!
//! A running search holds no lock: its snapshot is immutable.

mod apply;
mod building;
mod event_handler;
mod hidden;
mod orphans;
mod pin;
mod reconcile;
mod status;
mod status_file;
mod tokenize;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::format::error::FormatError;
use crate::format::mutex::lock;
use crate::index::builder::{BuildError, BuildHost, BuildOptions, BuildRequest, BuiltSegment};
use crate::index::inputs::Inputs;
use crate::index::refresh::{EnteredDirs, TreeKnowledge};
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::state::{DisabledReason, IndexState, Trigger};
use crate::index::walk::Walk;
use crate::index::watch::{Barrier, Watcher, WatcherFactory};

use self::status::Status;

pub use self::pin::{Pin, Pinned};
pub use self::status::{LastTasks, Report, TaskRun};

/// The state of an index that is not built because its tree is small.
const BELOW_THRESHOLD: IndexState = IndexState::Disabled(Some(DisabledReason::BelowThreshold));

/// The environment of a live index: storage, eligibility rules, pacing and clocks.
pub trait IndexHost: Send + Sync {
    /// Returns the index root.
    fn root(&self) -> &Path;

    /// Prepares a walk by the current rules.
    ///
    /// # Errors
    ///
    /// The reason, as text, if the tree can't be walked.
    fn walk(&self) -> Result<Walk, String>;

    /// Returns the current inputs above the tree that decide about eligibility, for example the
    /// ignore files in parent directories.
    fn inputs_above(&self) -> Inputs;

    /// Opens the stored index.
    fn open(&self) -> OpenOutcome;

    /// Returns true if a built index is stored on disk, false if it stays in memory.
    fn keeps(&self) -> bool;

    /// Waits until no other process writes the stored index, for at most the configured time.
    ///
    /// # Errors
    ///
    /// [`FormatError`]; [`FormatError::is_locked`] if another process still writes.
    fn may_write(&self) -> Result<(), FormatError>;

    /// Builds and publishes the index, also if one exists. `enter` is called with each directory
    /// (relative to the index root) before it is listed. `progressed` is called whenever the build
    /// has advanced.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; the index that existed before remains.
    fn build(
        &self,
        enter: &(dyn Fn(&Path) + Sync),
        progressed: &(dyn Fn() + Sync),
        request: BuildRequest<'_>,
    ) -> Result<(BuiltSegment, Arc<Snapshot>), BuildError>;

    /// Returns false if another process has removed the stored files of an open index. Costs one
    /// look at one file.
    fn is_kept(&self) -> bool;

    /// Closes the index in memory, because it will not be used for some time.
    fn close(&self);

    /// Publishes the status of the index for other processes. This is best effort: failures are
    /// ignored. Called when the status changes, and about once a second during a build; never by a
    /// search.
    fn write_status(&self, report: &Report);

    /// Withdraws the published status, because the live index has ended.
    fn ended(&self);

    /// Returns the options that decide how files are tokenized.
    fn options(&self) -> &BuildOptions;

    /// Returns the host, which paces the work and knows the wall-clock time.
    fn host(&self) -> &dyn BuildHost;

    /// Returns the time of a monotonic clock, in milliseconds.
    fn now_ms(&self) -> u64;

    /// Returns true if a search of this process runs, or is likely to begin within milliseconds.
    fn is_searching(&self) -> bool;

    /// Cancels the host's current pause or build.
    fn stop(&self);

    /// Returns the thread pool that the worker uses.
    fn pool(&self) -> &rayon::ThreadPool;

    /// Returns candidate directories for cookies, the best first. All are outside of every searched
    /// tree.
    fn cookie_dirs(&self) -> Vec<PathBuf>;
}

/// The result of opening the stored index.
#[derive(Clone, Debug)]
pub enum OpenOutcome {
    /// There is no stored index.
    Absent,
    /// There is no index for the current denied patterns, but there are indexes for others. Holds a
    /// message that says so.
    OtherPolicy(String),
    /// The index was opened.
    Open(Arc<Snapshot>),
    /// The index is damaged and has to be rebuilt. Holds the reason.
    Damaged(String),
    /// The index can't be opened for now, though it may be sound. Holds the reason.
    Unavailable(String),
    /// The caller's deadline passed before the index was opened. Holds the reason.
    OutOfTime(String),
}

/// The settings of a live index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// Whether the tree is watched (`index_watch`).
    pub watch: bool,
    /// How long a file must be unchanged before it is read again (`index_watch_debounce_ms`).
    pub debounce: Duration,
    /// The most files that one slice of a reconcile checks (`reconcile_max_files`).
    pub reconcile_max_files: u64,
    /// The longest time that one slice of a reconcile takes (`reconcile_max_ms`).
    pub reconcile_max: Duration,
    /// How often the whole tree is reconciled without a known loss, to find changes that raised no
    /// event.
    pub reconcile_every: Duration,
    /// How long the worker waits for the watcher's thread.
    pub watcher_patience: Duration,
    /// How many files may be deleted or extra (not in the segment) before a new segment is built.
    /// In large trees the limit is a share of all files instead.
    pub merge_files: usize,
    /// The thresholds of `index_mode = "auto"`; `None` if the index is built for trees of any size.
    pub thresholds: Option<Thresholds>,
    /// The number of searches after which the whole index is verified
    /// (`index_integrity_period_calls`); `None` for never.
    pub check_calls: Option<u64>,
    /// Whether a failed build is retried (`index_retry_on_failure`).
    pub retry: bool,
    /// How long the index stays disabled after its resources were exhausted (`index_cooldown_ms`);
    /// `None` for the rest of the process.
    pub cooldown: Option<Duration>,
    /// How long a shutdown waits for the worker (`index_shutdown_timeout_ms`).
    pub shutdown: Duration,
}

/// The sizes below which a tree needs no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The number of files (`index_auto_threshold_files`).
    pub files: u64,
    /// The total size in bytes (`index_auto_threshold_bytes`).
    pub bytes: u64,
    /// The number of searches after which a small tree is measured again
    /// (`index_auto_reeval_calls`).
    pub reeval_calls: u64,
}

impl LiveOptions {
    /// Returns true if the number of searches calls for a task of the worker.
    fn is_due(&self, status: &Status) -> bool {
        let measured = self
            .thresholds
            .is_some_and(|of| status.calls >= of.reeval_calls);
        measured
            || status.evicted
            || self
                .check_calls
                .is_some_and(|calls| status.unchecked_calls >= calls)
    }
}

/// A live index. Dropping it ends its worker and its watcher.
pub struct LiveIndex {
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<()>>>,
    /// Whether a caller has already waited for the shutdown. Locked during that wait, so that later
    /// callers wait for it too.
    ending: Mutex<bool>,
}

/// The state that all threads share.
struct Shared {
    index_host: Arc<dyn IndexHost>,
    live_options: LiveOptions,
    watchers: Arc<dyn WatcherFactory>,
    status: Arc<Mutex<Status>>,
    /// Notified when there may be work for the worker.
    wake: Arc<Condvar>,
    /// Notified when the index may have reached the state that a caller waits for.
    settled: Condvar,
    /// The knowledge about the tree that belongs to the current index. Locked only to copy or
    /// replace the pointer.
    known: Mutex<Option<Arc<Mutex<TreeState>>>>,
    watching: Mutex<Option<Watching>>,
    /// Held while the status is written for other processes, so that the last status seen is also
    /// the last one written.
    status_file: Mutex<()>,
}

/// A watcher, and the barrier of its cookies.
#[derive(Clone)]
struct Watching {
    watcher: Arc<dyn Watcher>,
    barrier: Arc<Barrier>,
}

/// The knowledge about the tree, and the means to update it.
struct TreeState {
    /// The number of the swap that put this index into use. After a later swap, it must not publish
    /// any more.
    swap: u64,
    snapshot: Arc<Snapshot>,
    known: TreeKnowledge,
    entered: EnteredDirs,
    walk: Walk,
    /// The inputs above the tree that decide about eligibility, as of the time when a reconcile
    /// prepared the walk.
    inputs_above: Inputs,
}

impl LiveIndex {
    /// Starts a live index: its worker begins at once.
    ///
    /// # Errors
    ///
    /// The operating system's error if the thread can't be started.
    pub fn start(
        index_host: Arc<dyn IndexHost>,
        live_options: LiveOptions,
        watchers: Arc<dyn WatcherFactory>,
    ) -> std::io::Result<LiveIndex> {
        let status = Status {
            open_wanted: true,
            ..Status::default()
        };
        let shared = Arc::new(Shared {
            index_host,
            live_options,
            watchers,
            status: Arc::new(Mutex::new(status)),
            wake: Arc::default(),
            settled: Condvar::new(),
            known: Mutex::default(),
            watching: Mutex::default(),
            status_file: Mutex::default(),
        });
        let own = shared.clone();
        let worker = std::thread::Builder::new()
            .name("forge-search-index".to_string())
            .spawn(move || worker::run(&own))?;
        Ok(LiveIndex {
            shared,
            worker: Mutex::new(Some(worker)),
            ending: Mutex::new(false),
        })
    }

    /// Returns a report about the index.
    pub fn report(&self) -> Report {
        self.shared.status().report()
    }

    /// Returns the snapshot in use, whether or not searches may rely on it. Checks nothing.
    pub fn published(&self) -> Option<Arc<Snapshot>> {
        self.shared.status().published.clone()
    }

    /// Returns how the index in use is stored; `None` if no index is in use. Takes constant time,
    /// unlike [`report`](Self::report).
    pub fn storage(&self) -> Option<StorageMode> {
        self.shared.status().storage()
    }

    /// Waits until the index is usable, or until it won't become usable on its own: it is disabled,
    /// or a build failed. Returns the state then, or `None` after `timeout`. For tests and
    /// `--wait-index`; searches never wait.
    pub fn wait(&self, timeout: Duration) -> Option<IndexState> {
        let status = self.shared.status();
        let waiting = |status: &mut Status| !status.is_settled();
        let (status, timed_out) = self
            .shared
            .settled
            .wait_timeout_while(status, timeout, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        (!timed_out.timed_out()).then_some(status.index_state)
    }

    /// Wakes the worker, so that it reads the clock again. For hosts whose clock jumps, as in
    /// tests.
    pub fn wake(&self) {
        // Once this thread gets the lock, a worker that read the clock before the jump waits
        // already.
        drop(self.shared.status());
        self.shared.wake.notify_all();
    }

    /// Reports damage that was found while the index was used. The index is not used again until it
    /// is rebuilt.
    pub fn report_damage(&self, error: &FormatError) {
        self.shared.damaged(error);
    }

    /// Asks for the words of files, which ranked questions look up. If there is no segment with
    /// words, one is built in the background, even if the tree is below the
    /// [thresholds](LiveOptions::thresholds): a ranked question reads whole files, so that an index
    /// pays for small trees, too.
    pub fn want_words(&self) {
        let mut status = self.shared.status();
        status.words_wanted = true;
        let now_ms = self.shared.index_host.now_ms();
        if building::lacks_words(&status, now_ms) || status.index_state == BELOW_THRESHOLD {
            drop(status);
            self.shared.wake.notify_all();
        }
    }

    /// Reports that a search opened an index snapshot of an unwatched tree, and whether it is
    /// outdated, if the search compared it first. The index is rebuilt if directories or rules
    /// differ from those at build time. It is also rebuilt if a directory that could not be listed
    /// then can be listed now.
    pub fn report_opened(&self, of: &Snapshot, is_outdated: Option<bool>) {
        let mut status = self.shared.status();
        // The worker may have compared or rebuilt it since.
        let is_older = |published: &Arc<Snapshot>| match (of.generation(), published.generation()) {
            (Some(of), Some(published)) => of < published,
            _ => !Arc::ptr_eq(of.segment(), published.segment()),
        };
        if status.tracking || status.published.as_ref().is_some_and(is_older) {
            return;
        }
        let is_unknown = status.published.is_none() && status.index_state == IndexState::Absent;
        // Another process has built the index meanwhile.
        status.open_wanted |= is_unknown && !status.busy;
        if let Some(is_outdated) = is_outdated {
            status.outdated = is_outdated && !is_unknown;
        }
        drop(status);
        if is_outdated == Some(true) || is_unknown {
            self.shared.wake.notify_all();
        }
    }

    /// Ends the worker and the watcher, and waits for at most the configured time. Returns false if
    /// the worker was still running. Such a worker holds no lock and publishes nothing any more.
    pub fn shut_down(&self) -> bool {
        {
            let mut status = self.shared.status();
            status.stop = true;
        }
        self.shared.index_host.stop();
        self.shared.wake.notify_all();
        self.shared.settled.notify_all();
        // Held until the watcher is removed too: the process may end when the first caller returns.
        let mut was_waited_for = lock(&self.ending);
        let patience = match std::mem::replace(&mut *was_waited_for, true) {
            true => Duration::ZERO,
            false => self.shared.live_options.shutdown,
        };
        let worker = lock(&self.worker).take();
        let status = self.shared.status();
        let (status, timeout) = self
            .shared
            .settled
            .wait_timeout_while(status, patience, |status| !status.ended)
            .unwrap_or_else(PoisonError::into_inner);
        drop(status);
        let ended = !timeout.timed_out();
        if ended && let Some(worker) = worker {
            // The worker has nothing left to do but return.
            let _panicked = worker.join();
        }
        self.shared.unwatch();
        ended
    }
}

impl Drop for LiveIndex {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl std::fmt::Debug for LiveIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveIndex")
            .field("root", &self.shared.index_host.root())
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, Status> {
        lock(&self.status)
    }

    /// Describes work that ended now and began at `begun_ms` of the clock of the [`IndexHost`].
    fn done(&self, begun_ms: u64, succeeded: bool) -> TaskRun {
        TaskRun {
            ended_ns: self.index_host.host().now_ns(),
            took_ms: self.index_host.now_ms().saturating_sub(begun_ms),
            succeeded,
        }
    }

    /// Ends the watcher. Closing a long queue takes time, but no search waits for that.
    fn unwatch(&self) {
        let ended = lock(&self.watching).take();
        drop(ended);
    }

    fn watching(&self) -> Option<Watching> {
        lock(&self.watching).clone()
    }

    /// Returns the knowledge about the tree. Callers lock it to extend it.
    fn tree_state(&self) -> Option<Arc<Mutex<TreeState>>> {
        lock(&self.known).clone()
    }

    /// Puts a new index into use. The caller holds `status`, so that all threads see the change at
    /// once.
    fn swap(&self, status: &mut Status, mut new: TreeState) {
        status.swaps += 1;
        new.swap = status.swaps;
        *lock(&self.known) = Some(Arc::new(Mutex::new(new)));
    }

    /// Feeds triggers to the state machine, and records the resulting actions for the worker.
    fn fire(&self, triggers: &[Trigger]) {
        self.status().fire(triggers);
        self.notify();
    }

    /// Like [`fire`](Self::fire), and records the reason as text.
    fn fire_because(&self, trigger: Trigger, why: impl Into<String>) {
        self.status().fire_because(trigger, why);
        self.notify();
    }

    /// Takes a damaged index out of use.
    fn damaged(&self, error: &FormatError) {
        self.fire_because(Trigger::IntegrityFailure, error.to_string());
    }

    /// Wakes the worker and all callers that wait for the index.
    fn notify(&self) {
        self.wake.notify_all();
        self.settled.notify_all();
    }
}
