//! Live indexes: each is built in the background and then follows every change of its tree.
//!
//! A long-running process starts them with [`Indexes::live_as`]. This module owns the threads,
//! clocks and directories that each live index gets. The layer `index::live` below builds the index
//! and follows the tree; [`TreeIndexHost`] is the connection to it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rayon::ThreadPool;

use super::host::{Background, BuildMonitor, BuildReport, WallClock, system_wall_clock};
use super::index_storage::{IndexStorage, above, walk};
use super::process_status::StatusFile;
use super::roots::{IndexRoot, Waits};
use super::{Indexes, Report};
use crate::exec::sources::reach::Reach;
use crate::exec::stop::CancelHandle;
use crate::format::error::FormatError;
use crate::format::mutex::lock;
use crate::index::builder::{
    BuildError, BuildHost, BuildOptions, BuildRequest, BuiltSegment, Progress,
};
use crate::index::inputs::Inputs;
use crate::index::key::hash_of;
use crate::index::live::{IndexHost, LiveIndex, LiveOptions, OpenOutcome};
use crate::index::pace::{
    Activity, BudgetError, BuildBudget, Pace, Piece, SystemClock, background_pool,
};
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::state::IndexState;
use crate::index::walk::Walk;
use crate::index::watch::filesystem::{Reliability, reliability};
use crate::index::watch::limits::too_many;
use crate::index::watch::{Barrier, FsEvent, FsEventHandler, NativeWatchers, WatcherFactory};

/// How often a whole tree is compared with its index even if no problem is known. This detects
/// changes that raise no event.
const RECONCILE_EVERY: Duration = Duration::from_secs(15 * 60);

/// How long a worker waits for its watcher's thread, while no search waits for either of them.
const WATCHER_PATIENCE: Duration = Duration::from_secs(2);

/// The number of files outside of the segment that every search can read instead. Building a new
/// segment copies the whole segment.
const MERGE_FILES: usize = 2_048;

/// The time between the start of a process and its first search, or between two searches, that does
/// not count as a pause.
const SEARCH_PAUSE_MS: u64 = 20;

/// The longest time that the test of a watcher may take.
const PROOF: Duration = Duration::from_secs(2);

/// An event handler that handles only cookies: files that are created to test whether the watcher
/// reports them.
struct Cookies(Arc<Barrier>);

impl FsEventHandler for Cookies {
    fn handle(&self, event: FsEvent) {
        match event {
            FsEvent::Cookie(number) => self.0.cookie_arrived(number),
            FsEvent::Down(_) => self.0.down(),
            FsEvent::File(_) | FsEvent::Subtree(_) | FsEvent::Overflow | FsEvent::Moved => {}
        }
    }
}

/// How live indexes are kept up to date, and how much of the machine their maintenance may use.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    /// When an index is built, compared, merged and abandoned.
    pub live_options: LiveOptions,
    /// How much of the machine a build may use while searches run.
    pub pace: Pace,
    /// When a build is abandoned.
    pub budget: BuildBudget,
    /// Whether a build that is stopped keeps its finished part.
    pub keeps_unfinished: bool,
}

/// The environment that the program provides for its live indexes.
#[derive(Clone)]
pub struct LiveEnvironment {
    /// The allowed roots and denied patterns. They are the same as in the settings of the indexes.
    pub reach: Arc<Reach>,
    /// Reports running searches, and a monotonic time.
    pub activity: Arc<Activity>,
    /// The wall clock, with which timestamps of files are compared.
    pub wall: WallClock,
    /// Creates watchers for trees.
    pub watchers: Arc<dyn WatcherFactory>,
    /// How often a whole tree is compared with its index even if no problem is known.
    pub reconcile_every: Duration,
    /// How long a worker waits for its watcher's thread.
    pub watcher_patience: Duration,
    /// How many files may be deleted or changed before a new segment is built, unless they are only
    /// a small share of all files.
    pub merge_files: usize,
}

impl LiveEnvironment {
    /// Creates an environment with the clocks and watchers of the system.
    pub fn new(reach: Arc<Reach>) -> LiveEnvironment {
        LiveEnvironment {
            reach,
            activity: Arc::new(Activity::new(Arc::new(SystemClock))),
            wall: system_wall_clock(),
            watchers: Arc::new(NativeWatchers),
            reconcile_every: RECONCILE_EVERY,
            watcher_patience: WATCHER_PATIENCE,
            merge_files: MERGE_FILES,
        }
    }
}

impl std::fmt::Debug for LiveEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveEnvironment")
            .field("reach", &self.reach)
            .finish_non_exhaustive()
    }
}

/// The live index of one root.
#[derive(Debug)]
pub(super) struct LiveRoot {
    pub(super) root: PathBuf,
    pub(super) index: LiveIndex,
    pub(super) activity: Arc<Activity>,
    building: Building,
}

/// The progress of a live index's build, for any thread.
#[derive(Clone, Debug, Default)]
struct Building(Arc<Mutex<Option<Arc<BuildMonitor>>>>);

impl Building {
    /// Shows a build until it has ended.
    fn show(&self, monitor: Arc<BuildMonitor>) {
        *lock(&self.0) = Some(monitor);
    }

    /// Returns the progress of the build; `None` if no build runs.
    fn report(&self) -> Option<BuildReport> {
        let report = lock(&self.0).as_ref()?.report();
        (!report.ended).then_some(report)
    }
}

impl Indexes {
    /// Starts a live index for each root. A thread of its own opens or builds it and follows every
    /// change of the tree until this value is dropped. Calls never wait for a build. Does nothing
    /// if the indexes are live already, if the tree is frozen, if links are followed, or if indexes
    /// can't be stored anywhere.
    ///
    /// # Errors
    ///
    /// The system's error if no more threads can be created.
    pub fn live_as(
        &self,
        settings: &LiveSettings,
        environment: &LiveEnvironment,
    ) -> std::io::Result<()> {
        if self.frozen || self.untracked().is_some() || self.index_storage.nowhere().is_some() {
            return Ok(());
        }
        if self.living.get().is_some() {
            return Ok(());
        }
        self.index_storage.log_exposed();
        let mut all = Vec::new();
        for root in &self.roots {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let pool = background_pool(processors).map_err(std::io::Error::other)?;
            let cancel = CancelHandle::new();
            let building = Building::default();
            let index_host = TreeIndexHost {
                root: root.clone(),
                index_storage: self.index_storage.clone(),
                environment: environment.clone(),
                host: background(settings, environment, &cancel),
                cancel,
                pool,
                cookies: self.side_dirs("cookies").collect(),
                building: building.clone(),
                status_file: StatusFile::new(
                    self.status_dirs(),
                    root.path.clone(),
                    hash_of(&root.key),
                ),
                settings: settings.clone(),
            };
            let index = LiveIndex::start(
                Arc::new(index_host),
                settings.live_options,
                environment.watchers.clone(),
            )?;
            all.push(LiveRoot {
                root: root.path.clone(),
                index,
                activity: environment.activity.clone(),
                building,
            });
        }
        // If another thread was faster, the indexes of this call end here.
        let _others = self.living.set(all);
        Ok(())
    }

    /// Returns the report of a root's live index; `None` if the root has no live index.
    pub fn live_report(&self, root: &Path) -> Option<Report> {
        Some(self.living_at(root)?.index.report())
    }

    /// Returns the published snapshot of a root's live index; `None` if no snapshot is in use.
    pub fn live_snapshot(&self, root: &Path) -> Option<Arc<Snapshot>> {
        self.living_at(root)?.index.published()
    }

    /// Returns the progress of the build of a root's live index. Returns `None` if
    /// the root has no live index, or if no build runs. A merge does not count as a build, since
    /// the index stays in use while the new segment is written.
    pub fn live_build(&self, root: &Path) -> Option<BuildReport> {
        self.living_at(root)?.building.report()
    }

    /// Waits until the live index of a root can be used, or until it can't become usable by itself.
    /// Returns its state, or `Some(None)` after `timeout`. Returns `None` if the root has no live
    /// index.
    pub fn wait_live(&self, root: &Path, timeout: Duration) -> Option<Option<IndexState>> {
        Some(self.living_at(root)?.index.wait(timeout))
    }

    /// Wakes the workers of the live indexes, so that they check the clock again. For hosts with a
    /// clock that jumps, as in tests.
    pub fn wake_living(&self) {
        for living in self.living.get().into_iter().flatten() {
            living.index.wake();
        }
    }

    /// Returns why a live index of a root could not follow its tree, and what to do; each search
    /// compares the index with the tree then. Watches the root for a moment to test this. Returns
    /// `None` if the tree can be followed or is frozen.
    pub fn unwatchable(&self, root: &Path) -> Option<String> {
        let root = self.root_at(root)?;
        if self.frozen {
            return None;
        }
        if let Reliability::Unreliable(kind) = reliability(&root.path) {
            return Some(format!(
                "it is on a filesystem ({kind}) that does not report every change, so each search \
                 compares the index with the tree"
            ));
        }
        // As nothing is built here, nothing is created in the cache directory.
        let Some(cookies) = self.temporary_dir("cookies") else {
            return Some(
                "there is no directory outside of the tree for the cookie files, which \
                 prove that all changes were reported; set index_path in [tools.search]"
                    .to_string(),
            );
        };
        let barrier = Arc::new(Barrier::new());
        let handler = Arc::new(Cookies(barrier.clone()));
        let watched = NativeWatchers
            .start(&root.path, &cookies, handler)
            .and_then(|watcher| {
                watcher.watch(Path::new(""))?;
                Ok(watcher)
            });
        match watched {
            Err(error) => Some(format!("it can't be watched: {error}")),
            Ok(watcher) if !watcher.is_ordered() => Some(
                "this system reports changes in no fixed order, so each search compares the index \
                 with the tree"
                    .to_string(),
            ),
            Ok(watcher) => match barrier.pass(&*watcher, PROOF) {
                Err(error) => Some(error.to_string()),
                Ok(()) => match root.state(self.store(), Waits::default()) {
                    OpenOutcome::Open(snapshot) => {
                        too_many(&root.path, snapshot.segment().dir_count().into())
                    }
                    _ => None,
                },
            },
        }
    }

    /// Stops the live indexes and waits for their threads, as long as configured.
    /// Returns false if a thread did not end in time.
    pub fn shut_down(&self) -> bool {
        let living = self.living.get().into_iter().flatten();
        // Every index is stopped, even if an earlier one did not end in time.
        living
            .map(|living| living.index.shut_down())
            .fold(true, |all, one| all & one)
    }

    pub(super) fn living_at(&self, root: &Path) -> Option<&LiveRoot> {
        let mut living = self.living.get()?.iter();
        living.find(|living| living.root == root)
    }

    /// Returns the directories for status files of live indexes, in order of preference.
    pub(super) fn status_dirs(&self) -> Vec<PathBuf> {
        self.side_dirs("living").collect()
    }

    /// Returns directories for files that belong to no single index, outside of all roots: one in
    /// the directory of the indexes, and one for temporary files.
    fn side_dirs(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let kept = self.store().map(|store| store.root().join(name));
        let kept = kept.filter(|dir| self.is_outside(dir));
        kept.into_iter().chain(self.temporary_dir(name))
    }

    fn temporary_dir(&self, name: &str) -> Option<PathBuf> {
        let dir = std::env::temp_dir().canonicalize().ok()?;
        let dir = dir.join(format!("forge-search-{name}-{}", user()));
        self.is_outside(&dir).then_some(dir)
    }

    fn is_outside(&self, dir: &Path) -> bool {
        self.roots().all(|root| !dir.starts_with(root))
    }
}

/// Creates the host of one build, or of the other background work for an index.
fn background(
    settings: &LiveSettings,
    environment: &LiveEnvironment,
    cancel: &CancelHandle,
) -> Background {
    let activity = environment.activity.clone();
    Background::within(settings.pace, settings.budget, activity, cancel.clone())
        .on_wall_clock(environment.wall.clone())
}

/// Returns a text that distinguishes users who share a directory for temporary files.
fn user() -> String {
    #[cfg(unix)]
    {
        rustix::process::geteuid().as_raw().to_string()
    }
    #[cfg(not(unix))]
    {
        String::from("user")
    }
}

/// Connects the live index of one root with the stored index, the clocks and the threads.
struct TreeIndexHost {
    root: Arc<IndexRoot>,
    index_storage: Arc<IndexStorage>,
    environment: LiveEnvironment,
    host: Background,
    cancel: CancelHandle,
    pool: ThreadPool,
    cookies: Vec<PathBuf>,
    building: Building,
    status_file: StatusFile,
    settings: LiveSettings,
}

impl IndexHost for TreeIndexHost {
    fn root(&self) -> &Path {
        &self.root.path
    }

    fn walk(&self) -> Result<Walk, String> {
        walk(&self.root, &self.environment.reach).ok_or_else(|| match self.root.path.is_dir() {
            true => "the index root lies outside of the allowed roots".to_string(),
            false => "the index root is gone".to_string(),
        })
    }

    fn inputs_above(&self) -> Inputs {
        above(&self.root, &self.host)
    }

    fn open(&self) -> OpenOutcome {
        // Read before other indexes are removed: their existence is the reason for the next state.
        let waits = Waits::of(&self.host);
        let state = self.root.state(self.index_storage.store(), waits);
        let store = self.index_storage.store();
        if let Some(store) = store {
            // Processes that use the removed indexes notice that they are gone.
            store.purge_laxer(&self.root.key);
        }
        state
    }

    fn build(
        &self,
        enter: &(dyn Fn(&Path) + Sync),
        progressed: &(dyn Fn() + Sync),
        request: BuildRequest<'_>,
    ) -> Result<(BuiltSegment, Arc<Snapshot>), BuildError> {
        // A new host for each build, since the time budget starts with the host.
        let host = background(&self.settings, &self.environment, &self.cancel);
        if request.earlier.is_none() {
            self.building.show(host.monitor());
        }
        let kept = request.keep && self.index_storage.storage() == StorageMode::Mmap;
        let host = ReportingHost {
            host: &host,
            enter,
            progressed,
            // A stopped merge loses nothing: the segment that it started from still exists.
            keeps_unfinished: kept && request.earlier.is_none() && self.settings.keeps_unfinished,
        };
        let reach = &self.environment.reach;
        self.index_storage
            .build(&self.root, reach, &host, request, Duration::MAX)
    }

    fn keeps(&self) -> bool {
        self.index_storage.store().is_some()
    }

    fn may_write(&self) -> Result<(), FormatError> {
        match self.index_storage.store() {
            Some(store) => store.may_publish(&self.root.key, &self.host),
            None => Ok(()),
        }
    }

    fn is_kept(&self) -> bool {
        let store = self.index_storage.store();
        store.is_none_or(|store| !store.is_gone(&self.root.key))
    }

    fn close(&self) {
        self.root.forget();
    }

    fn write_status(&self, report: &Report) {
        let now_ms = self.host.now_ns() / 1_000_000;
        self.status_file.put(report, self.building.report(), now_ms);
    }

    fn ended(&self) {
        self.status_file.remove();
    }

    fn options(&self) -> &BuildOptions {
        self.index_storage.options()
    }

    fn host(&self) -> &dyn BuildHost {
        &self.host
    }

    fn now_ms(&self) -> u64 {
        self.environment.activity.now_ms()
    }

    fn is_searching(&self) -> bool {
        !self.environment.activity.is_idle(SEARCH_PAUSE_MS)
    }

    fn stop(&self) {
        self.cancel.cancel();
    }

    fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    fn cookie_dirs(&self) -> Vec<PathBuf> {
        self.cookies.clone()
    }
}

/// A host that reports the directories that a build enters, and its progress.
struct ReportingHost<'a> {
    host: &'a Background,
    enter: &'a (dyn Fn(&Path) + Sync),
    progressed: &'a (dyn Fn() + Sync),
    keeps_unfinished: bool,
}

impl BuildHost for ReportingHost<'_> {
    fn now_ns(&self) -> i64 {
        self.host.now_ns()
    }

    fn pause(&self, time: Duration) {
        self.host.pause(time);
    }

    fn progress(&self, progress: Progress) {
        self.host.progress(progress);
        (self.progressed)();
    }

    fn entering(&self, dir: &Path) {
        (self.enter)(dir);
    }

    fn waiting(&self) {
        self.host.waiting();
        (self.progressed)();
    }

    fn stopped(&self) -> bool {
        self.host.stopped()
    }

    fn keeps_unfinished(&self) -> bool {
        self.keeps_unfinished
    }

    fn threads(&self, most: usize) -> usize {
        self.host.threads(most)
    }

    fn worked(&self, threads: usize, piece: Piece) {
        self.host.worked(threads, piece);
    }

    fn may_go_on(&self, files: u64, bytes: u64) -> Result<(), BudgetError> {
        self.host.may_go_on(files, bytes)
    }
}
