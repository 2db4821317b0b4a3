//! The living index of one tree: built in the background, kept up to date, and asked by searches.
//!
//! Owns the runtime of the [state machine](crate::index::state): it finds out what has happened, feeds it in, and carries out
//! what follows. Where an index is kept, what makes files eligible and how a build is paced is the [`Ground`]'s to say.
//!
//! # Who does what
//!
//! - The *watcher's thread* hears of changes and notes them: a mark in the dirty set, a trigger. It waits for nothing.
//! - The *worker* is one thread of low priority. It opens, builds, reconciles, works marks off once nothing more happens to
//!   their files, and reads what changed.
//! - A *search* pins a snapshot. It first makes sure by a cookie that everything that happened before it has been
//!   heard, and then looks at what is marked, within its budget: so an edit that was finished before the call is
//!   seen by it, whatever the worker is doing.
//!
//! # Locks
//!
//! There are two, taken in this order, and neither is held while files are read:
//!
//! - that of *what is known* (`Tracked`) for whoever finds out more of the tree: the worker, or a search that works marks off. Marks are
//!   worked off in small portions, and directories are listed in small batches.
//! - *status* (`Status`) for a moment at a time: the state, the marks, the published snapshot. The watcher's thread takes
//!   it, so nobody may wait for that thread while holding it.
//!
//! A new index is put into use with *status* alone: what is known of it is another `Tracked`, and whoever is at work on the old one goes on
//! to its end, publishes nothing any more, and takes off no marks. So no publication waits for a search, however many there are. A search
//! waits for whoever else is at work only where it has marks to work off itself, and for no longer than its budget.
//!
//! Whoever says how the index is holds a third one while that is written, before *status*: the worker, or threads that build for it.
//!
//! A search that runs holds none: it has its snapshot, which never changes.

mod apply;
mod building;
mod ear;
mod orphans;
mod pin;
mod reconcile;
mod saying;
mod status;
mod tokenize;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::format::error::FormatError;
use crate::index::builder::{BuildError, BuildHost, BuildOptions, Built, Earlier};
use crate::index::inputs::Inputs;
use crate::index::refresh::{Entered, Known};
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::state::{Standing, Trigger};
use crate::index::walk::Walk;
use crate::index::watch::{Barrier, Watcher, WatcherFactory};

use self::status::Status;

pub use self::pin::{Pin, Pinned};
pub use self::status::{Done, Report, Works};

/// What a living index needs of its surroundings.
pub trait Ground: Send + Sync {
    /// Returns the index root.
    fn root(&self) -> &Path;

    /// Prepares a walk by the rules as they are now.
    ///
    /// # Errors
    ///
    /// Says why there can be none.
    fn walk(&self) -> Result<Walk, String>;

    /// Looks at what decides about eligibility above the tree.
    fn inputs_above(&self) -> Inputs;

    /// Opens the index that is kept.
    fn open(&self) -> Opened;

    /// Returns whether what is built is kept, or in memory only.
    fn keeps(&self) -> bool;

    /// Waits until no other process writes what is kept, as long as is configured.
    ///
    /// # Errors
    ///
    /// [`FormatError`]; [`FormatError::is_locked`] if one still does.
    fn may_write(&self) -> Result<(), FormatError>;

    /// Builds the index and publishes it, whatever there is; without `keep` it stays in memory. `enter` is told of each directory (relative to the index root)
    /// before it is listed, and `progressed` is called whenever the build has come further. What `earlier`, a segment of this index,
    /// has of the tree as it is need not be read.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; what was there before stays.
    fn build(
        &self,
        enter: &(dyn Fn(&Path) + Sync),
        progressed: &(dyn Fn() + Sync),
        earlier: Option<Earlier<'_>>,
        keep: bool,
    ) -> Result<(Built, Arc<Snapshot>), BuildError>;

    /// Returns false if nothing is left of an open index in the directory where it is kept: others have removed it. One look at one
    /// file.
    fn is_kept(&self) -> bool;

    /// Lets go of the index in memory: it is not used for some time.
    fn close(&self);

    /// Says to other processes how the index is, as well as that can be done: whether it worked makes no difference to anything. Called
    /// when something about it has changed, and about once a second during a build; never by a search.
    fn noted(&self, report: &Report);

    /// Takes that back: the index has ended.
    fn ended(&self);

    /// Returns how files are tokenized.
    fn options(&self) -> &BuildOptions;

    /// Returns whoever paces the work, and knows the time of the wall.
    fn host(&self) -> &dyn BuildHost;

    /// Returns a time that never goes back, in milliseconds.
    fn now_ms(&self) -> u64;

    /// Ends whatever the host is pausing or building.
    fn stop(&self);

    /// Returns the threads that the worker works on.
    fn pool(&self) -> &rayon::ThreadPool;

    /// Returns directories for cookies, outside of every tree that is searched, the best first.
    fn cookie_dirs(&self) -> Vec<PathBuf>;
}

/// What is kept of an index.
#[derive(Clone, Debug)]
pub enum Opened {
    /// Nothing.
    Absent,
    /// Nothing for the denied patterns of now, but there were indexes for others: says so.
    OtherPolicy(String),
    /// This.
    Open(Arc<Snapshot>),
    /// It is damaged, and this is what is wrong: it has to be built anew.
    Damaged(String),
    /// It can't be opened for now, though it may be sound: why.
    Unavailable(String),
    /// It was not opened before the caller's deadline: why.
    OutOfTime(String),
}

/// How an index lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Whether the tree is watched (`index_watch`).
    pub watch: bool,
    /// How long nothing must happen to a file before it is read again (`index_watch_debounce_ms`).
    pub debounce: Duration,
    /// Files that one slice of a reconcile looks at (`reconcile_max_files`).
    pub reconcile_max_files: u64,
    /// How long one slice of a reconcile takes (`reconcile_max_ms`).
    pub reconcile_max: Duration,
    /// How often the whole tree is looked at although nothing is known to be amiss.
    pub reconcile_every: Duration,
    /// How long the worker waits for the watcher's thread.
    pub watcher_patience: Duration,
    /// How many files may be gone or beside the segment before a new one is built, if that is not a small share of all.
    pub merge_files: usize,
    /// The thresholds of `index_mode = "auto"`; `None` if the index is built whatever the size of the tree.
    pub thresholds: Option<Thresholds>,
    /// After how many searches the index is checked as a whole (`index_integrity_period_calls`); `None` for never.
    pub check_calls: Option<u64>,
    /// Whether a build that failed is tried again (`index_retry_on_failure`).
    pub retry: bool,
    /// How long the index stays disabled when its resources were exhausted (`index_cooldown_ms`); `None` for as long as it lives.
    pub cooldown: Option<Duration>,
    /// How long the end of the worker is waited for (`index_shutdown_timeout_ms`).
    pub shutdown: Duration,
}

/// Below which sizes a tree needs no index (FR-LSI-BG-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// `index_auto_threshold_files`.
    pub files: u64,
    /// `index_auto_threshold_bytes`.
    pub bytes: u64,
    /// `index_auto_reeval_calls`: after so many searches a small tree is measured again (FR-LSI-BG-06).
    pub reeval_calls: u64,
}

impl Habits {
    /// Returns true if there is something to be done after so many searches.
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

/// A living index. Dropping it ends its worker and its watcher.
pub struct LiveIndex {
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<()>>>,
    /// Whether somebody has waited for its end already. Whoever ends it as well waits for that.
    ending: Mutex<bool>,
}

/// What the threads share.
struct Shared {
    ground: Arc<dyn Ground>,
    habits: Habits,
    watchers: Arc<dyn WatcherFactory>,
    status: Arc<Mutex<Status>>,
    /// Told of whatever the worker may wait for.
    wake: Arc<Condvar>,
    /// Told of whatever somebody may wait for who waits for the index.
    settled: Condvar,
    /// What is known of the tree by the index in use. Locked for as long as it takes to copy or to replace a pointer.
    known: Mutex<Option<Arc<Mutex<Tracked>>>>,
    watching: Mutex<Option<Watching>>,
    /// Held by whoever says how the index is, so that what was seen last is said last.
    saying: Mutex<()>,
}

/// A watcher, and the barrier of its cookies.
#[derive(Clone)]
struct Watching {
    watcher: Arc<dyn Watcher>,
    barrier: Arc<Barrier>,
}

/// What is known of the tree, and how it is brought up to date.
struct Tracked {
    /// The number of the swap that put it into use. Once there was another one, it has nothing to say any more.
    swap: u64,
    snapshot: Arc<Snapshot>,
    known: Known,
    entered: Entered,
    walk: Walk,
    /// What decides about eligibility above the tree, as it was when the walk was prepared for a reconcile.
    inputs_above: Inputs,
}

impl LiveIndex {
    /// Starts the life of an index: its worker begins at once (FR-LSI-BG-02).
    ///
    /// # Errors
    ///
    /// That of the system if there can be no thread.
    pub fn start(
        ground: Arc<dyn Ground>,
        habits: Habits,
        watchers: Arc<dyn WatcherFactory>,
    ) -> std::io::Result<LiveIndex> {
        let shared = Arc::new(Shared {
            ground,
            habits,
            watchers,
            status: Arc::default(),
            wake: Arc::default(),
            settled: Condvar::new(),
            known: Mutex::default(),
            watching: Mutex::default(),
            saying: Mutex::default(),
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

    /// Says how the index is.
    pub fn report(&self) -> Report {
        self.shared.status().report()
    }

    /// Returns the state of the index that is in use, whether or not searches may rely on it. Looks at nothing.
    pub fn published(&self) -> Option<Arc<Snapshot>> {
        self.shared.status().published.clone()
    }

    /// Says how what is in use is kept; nothing if nothing is. Takes no time, unlike a report.
    pub fn storage(&self) -> Option<StorageMode> {
        self.shared.status().storage()
    }

    /// Waits until the index can be used, or it is certain that it will not come to that by itself: it is disabled, or a
    /// build failed. Returns the state then, or nothing after `timeout`. For tests and for `--wait-index`; searches never
    /// wait (FR-LSI-BG-10).
    pub fn wait(&self, timeout: Duration) -> Option<Standing> {
        let status = self.shared.status();
        let waiting = |status: &mut Status| !status.is_settled();
        let (status, timed_out) = self
            .shared
            .settled
            .wait_timeout_while(status, timeout, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        (!timed_out.timed_out()).then_some(status.standing)
    }

    /// Wakes the worker, which looks at the clock again. For hosts whose clock jumps, as in tests.
    pub fn wake(&self) {
        // A worker that has looked at the clock before the jump waits once the lock is free.
        drop(self.shared.status());
        self.shared.wake.notify_all();
    }

    /// Notes damage that showed while the index was used: it is not used again before it was built anew.
    pub fn report_damage(&self, error: &FormatError) {
        self.shared.damaged(error);
    }

    /// Notes the result of a search that compared a state of the index with a tree that is not
    /// watched. The index is built again where directories or rules are others than when it was
    /// built, or if something could not be listed then and can be now.
    pub fn report_comparison(&self, of: &Snapshot, is_outdated: bool) {
        let mut status = self.shared.status();
        // The worker may have compared it since, or built another one.
        let is_older = |published: &Arc<Snapshot>| match (of.generation(), published.generation()) {
            (Some(of), Some(published)) => of < published,
            _ => !Arc::ptr_eq(of.segment(), published.segment()),
        };
        if status.tracking || status.published.as_ref().is_some_and(is_older) {
            return;
        }
        let is_unknown = status.published.is_none() && status.standing == Standing::Absent;
        // Another process has built it meanwhile.
        status.open_wanted |= is_unknown;
        status.outdated = is_outdated && !is_unknown;
        drop(status);
        if is_outdated || is_unknown {
            self.shared.wake.notify_all();
        }
    }

    /// Ends the worker and the watcher, and waits for that as long as was configured (FR-LSI-BG-40, FR-LSI-BG-43). Returns
    /// false if the worker was left behind; it holds no lock then, and publishes nothing any more.
    pub fn shut_down(&self) -> bool {
        {
            let mut status = self.shared.status();
            status.stop = true;
        }
        self.shared.ground.stop();
        self.shared.wake.notify_all();
        self.shared.settled.notify_all();
        // Also the removal of the watcher: the process may end when the first of them returns.
        let mut was_waited_for = lock(&self.ending);
        let patience = match std::mem::replace(&mut *was_waited_for, true) {
            true => Duration::ZERO,
            false => self.shared.habits.shutdown,
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
            // It has nothing left to do but to return.
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
            .field("root", &self.shared.ground.root())
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, Status> {
        lock(&self.status)
    }

    /// Notes that something has ended that began at a time of the ground's clock.
    fn done(&self, begun_ms: u64, succeeded: bool) -> Done {
        Done {
            ended_ns: self.ground.host().now_ns(),
            took_ms: self.ground.now_ms().saturating_sub(begun_ms),
            succeeded,
        }
    }

    /// Ends the watcher. Closing a queue that holds much takes time, and no search waits for it.
    fn unwatch(&self) {
        let ended = lock(&self.watching).take();
        drop(ended);
    }

    fn watching(&self) -> Option<Watching> {
        lock(&self.watching).clone()
    }

    /// Returns what is known of the tree, to be locked by whoever finds out more.
    fn tracked(&self) -> Option<Arc<Mutex<Tracked>>> {
        lock(&self.known).clone()
    }

    /// Puts a new index into use, in one moment for everybody who asks for it: `status` is held by the caller.
    fn swap(&self, status: &mut Status, mut new: Tracked) {
        status.swaps += 1;
        new.swap = status.swaps;
        *lock(&self.known) = Some(Arc::new(Mutex::new(new)));
    }

    /// Feeds the state machine, and notes what follows for the worker.
    fn fire(&self, triggers: &[Trigger]) {
        self.status().fire(triggers);
        self.notify();
    }

    /// Does the same, and notes in words why.
    fn fire_because(&self, trigger: Trigger, why: impl Into<String>) {
        self.status().fire_because(trigger, why);
        self.notify();
    }

    /// Takes a damaged index out of use.
    fn damaged(&self, error: &FormatError) {
        self.fire_because(Trigger::IntegrityFailure, error.to_string());
    }

    /// Tells whoever waits for something to do, or for the index.
    fn notify(&self) {
        self.wake.notify_all();
        self.settled.notify_all();
    }
}

/// Locks, also after a thread panicked: what is left half done then is only worked off again.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
