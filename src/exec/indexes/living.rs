//! Living indexes: those that are built in the background and follow every change (`FR-LSI-BG-01`).
//!
//! Owns the threads, clocks and directories that one gets. How it follows its tree is the lower layer's to know.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rayon::ThreadPool;

use super::host::{Background, BuildMonitor, BuildReport, WallClock, system_wall_clock};
use super::keeping::{Keeping, above, walk};
use super::notice::Notice;
use super::roots::{IndexRoot, Waits};
use super::{Indexes, Report};
use crate::exec::reach::Reach;
use crate::exec::stop::CancelHandle;
use crate::format::error::FormatError;
use crate::index::builder::{BuildError, BuildHost, BuildOptions, Built, Earlier, Progress};
use crate::index::inputs::Inputs;
use crate::index::key::hash_of;
use crate::index::live::{Ground, Habits, LiveIndex, Opened};
use crate::index::pace::{Activity, BuildBudget, Clock, Exceeded, Pace, Piece, background_pool};
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::state::Standing;
use crate::index::walk::Walk;
use crate::index::watch::filesystem::{Reliability, reliability};
use crate::index::watch::limits::too_many;
use crate::index::watch::{Barrier, Ear, Heard, NativeWatchers, WatcherFactory};

/// How often a whole tree is compared with its index although nothing is known to be amiss: what raises no event shows then.
const RECONCILE_EVERY: Duration = Duration::from_secs(15 * 60);

/// How long a worker waits for its watcher's thread, while no search waits for either.
const WATCHER_PATIENCE: Duration = Duration::from_secs(2);

/// Files beside a segment that each search can as well look through: building a new one copies all of it.
const MERGE_FILES: usize = 2_048;

/// How long the proof that watching works may take.
const PROOF: Duration = Duration::from_secs(2);

/// Hears of cookies only.
struct Cookies(Arc<Barrier>);

impl Ear for Cookies {
    fn hear(&self, heard: Heard) {
        match heard {
            Heard::Cookie(number) => self.0.heard(number),
            Heard::Down(_) => self.0.down(),
            Heard::File(_) | Heard::Subtree(_) | Heard::Overflow | Heard::Moved => {}
        }
    }
}

/// How living indexes are kept up to date, and how much of the machine that may take.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    /// When an index is built, compared, merged and given up.
    pub habits: Habits,
    /// What a build may take of the machine while searches run.
    pub pace: Pace,
    /// When a build is given up.
    pub budget: BuildBudget,
    /// Whether a build that is stopped keeps what it has read (`FR-LSI-BG-51`).
    pub keeps_unfinished: bool,
}

/// What living indexes need of the program that they live in.
#[derive(Clone)]
pub struct Surroundings {
    /// The directories that may be read, and the denied names: those that the indexes were set up with.
    pub reach: Arc<Reach>,
    /// Knows of running searches, and a time that never goes back.
    pub activity: Arc<Activity>,
    /// The clock of `activity`.
    pub clock: Arc<dyn Clock>,
    /// The time that files are stamped with.
    pub wall: WallClock,
    /// Watches trees.
    pub watchers: Arc<dyn WatcherFactory>,
    /// How often a whole tree is compared with its index although nothing is known to be amiss.
    pub reconcile_every: Duration,
    /// How long a worker waits for its watcher's thread.
    pub watcher_patience: Duration,
    /// How many files may be gone or changed before a new segment is built, if that is not a small share of all.
    pub merge_files: usize,
}

impl Surroundings {
    /// Lives on the clocks of the system, and watches as it can.
    pub fn new(reach: Arc<Reach>) -> Surroundings {
        let clock = super::host::monotonic(Arc::new(crate::exec::stop::SystemClock));
        Surroundings {
            reach,
            activity: Arc::new(Activity::new(clock.clone())),
            clock,
            wall: system_wall_clock(),
            watchers: Arc::new(NativeWatchers),
            reconcile_every: RECONCILE_EVERY,
            watcher_patience: WATCHER_PATIENCE,
            merge_files: MERGE_FILES,
        }
    }
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings")
            .field("reach", &self.reach)
            .finish_non_exhaustive()
    }
}

/// A living index of one root.
#[derive(Debug)]
pub(super) struct Living {
    pub(super) root: PathBuf,
    pub(super) index: LiveIndex,
    pub(super) activity: Arc<Activity>,
    building: Building,
}

/// Shows how far the build of a living index is, to whoever asks.
#[derive(Clone, Debug, Default)]
struct Building(Arc<Mutex<Option<Arc<BuildMonitor>>>>);

impl Building {
    /// Shows a build, until that has ended.
    fn show(&self, monitor: Arc<BuildMonitor>) {
        *self.lock() = Some(monitor);
    }

    /// Returns how far the build is; `None` if none runs.
    fn report(&self) -> Option<BuildReport> {
        let report = self.lock().as_ref()?.report();
        (!report.ended).then_some(report)
    }

    /// Locks even after a panic elsewhere: there is one value, which is replaced.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<BuildMonitor>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Indexes {
    /// Has the indexes of all roots live from now on: each is opened or built on a thread of its own, and follows every
    /// change of its tree until this value is dropped. Calls never wait for that (`FR-LSI-BG-02`, `FR-LSI-BG-10`). Does nothing if they live
    /// already, if the tree is frozen, if links are followed, or if there is no place for an index.
    ///
    /// # Errors
    ///
    /// That of the system if there can be no more threads.
    pub fn live_as(&self, settings: &LiveSettings, around: &Surroundings) -> std::io::Result<()> {
        if self.frozen || self.untracked().is_some() || self.keeping.nowhere().is_some() {
            return Ok(());
        }
        if self.living.get().is_some() {
            return Ok(());
        }
        self.keeping.log_exposed();
        let mut all = Vec::new();
        for root in &self.roots {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let pool = background_pool(processors).map_err(std::io::Error::other)?;
            let cancel = CancelHandle::new();
            let building = Building::default();
            let ground = TreeGround {
                root: root.clone(),
                keeping: self.keeping.clone(),
                around: around.clone(),
                host: background(settings, around, &cancel),
                cancel,
                pool,
                cookies: self.side_dirs("cookies").collect(),
                building: building.clone(),
                notice: Notice::new(
                    self.notice_dirs(),
                    root.path.clone(),
                    hash_of(root.key.parts()),
                ),
                settings: settings.clone(),
            };
            let index =
                LiveIndex::start(Arc::new(ground), settings.habits, around.watchers.clone())?;
            all.push(Living {
                root: root.path.clone(),
                index,
                activity: around.activity.clone(),
                building,
            });
        }
        // If another thread was faster, these end again.
        let _others = self.living.set(all);
        Ok(())
    }

    /// Says how the living index of a root is; `None` if none lives there.
    pub fn live_report(&self, root: &Path) -> Option<Report> {
        Some(self.living_at(root)?.index.report())
    }

    /// Returns the state of the living index of a root that is in use; `None` if none is.
    pub fn live_snapshot(&self, root: &Path) -> Option<Arc<Snapshot>> {
        self.living_at(root)?.index.published()
    }

    /// Says how far the build of the living index of a root is (`FR-LSI-BG-21`); `None` if none lives there, or none is being
    /// built. A merge, which makes a new segment while the index is in use, is no such build.
    pub fn live_build(&self, root: &Path) -> Option<BuildReport> {
        self.living_at(root)?.building.report()
    }

    /// Waits until the living index of a root can be used, or will not come to that by itself. Returns its state, or nothing if
    /// that took longer than `timeout`; `None` if none lives there.
    pub fn wait_live(&self, root: &Path, timeout: Duration) -> Option<Option<Standing>> {
        Some(self.living_at(root)?.index.wait(timeout))
    }

    /// Wakes the workers of the living indexes, which look at the clock again. For hosts whose
    /// clock jumps, as in tests.
    pub fn wake_living(&self) {
        for living in self.living.get().into_iter().flatten() {
            living.index.wake();
        }
    }

    /// Says why the living index of a root could not follow its tree, and what to do, so that each search would compare instead; finds out
    /// by watching the root for a moment. `None` if it could, or if the tree is frozen.
    pub fn unwatchable(&self, root: &Path) -> Option<String> {
        let root = self.root_at(root)?;
        if self.frozen {
            return None;
        }
        if let Reliability::Unreliable(kind) = reliability(&root.path) {
            return Some(format!(
                "it is on a filesystem ({kind}) on which files can be changed without a sign of it, so each search compares \
                 the index with the tree"
            ));
        }
        // Where nothing is built, nothing is made in the cache directory.
        let Some(cookies) = self.temporary_dir("cookies") else {
            return Some("there is no directory outside of the tree for the files that prove that all changes were heard; set \
                 index_path in [tools.search]".to_string());
        };
        let barrier = Arc::new(Barrier::new());
        let ear = Arc::new(Cookies(barrier.clone()));
        let watched = NativeWatchers
            .start(&root.path, &cookies, ear)
            .and_then(|watcher| {
                watcher.watch(Path::new(""))?;
                Ok(watcher)
            });
        match watched {
            Err(error) => Some(format!("it can't be watched: {error}")),
            Ok(watcher) if !watcher.is_ordered() => Some(
                "this system tells of changes in no order, so each search compares the index with the tree".to_string(),
            ),
            Ok(watcher) => match barrier.pass(&*watcher, PROOF) {
                Err(error) => Some(error.to_string()),
                Ok(()) => match root.state(self.store(), Waits::default()) {
                    Opened::Open(snapshot) => {
                        too_many(&root.path, snapshot.segment().dir_count().into())
                    }
                    _ => None,
                },
            },
        }
    }

    /// Ends the living indexes, and waits for that as long as is configured (`FR-LSI-BG-43`). Returns false if one was left
    /// behind.
    pub fn shut_down(&self) -> bool {
        let living = self.living.get().into_iter().flatten();
        // Each is told, whatever becomes of the others.
        living
            .map(|living| living.index.shut_down())
            .fold(true, |all, one| all & one)
    }

    pub(super) fn living_at(&self, root: &Path) -> Option<&Living> {
        let mut living = self.living.get()?.iter();
        living.find(|living| living.root == root)
    }

    /// Returns the directories in which indexes that live say how they are, the best first.
    pub(super) fn notice_dirs(&self) -> Vec<PathBuf> {
        self.side_dirs("living").collect()
    }

    /// Returns the directories for something that is not of one index: that of the indexes, and one for temporary files; outside of
    /// all roots.
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

/// Returns a host of one build, or of the rest of what is done for an index.
fn background(settings: &LiveSettings, around: &Surroundings, cancel: &CancelHandle) -> Background {
    let activity = around.activity.clone();
    Background::within(settings.pace, settings.budget, activity, cancel.clone())
        .on_wall_clock(around.wall.clone())
}

/// Tells users apart who share a directory for temporary files.
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

/// The ground of the index of one root.
struct TreeGround {
    root: Arc<IndexRoot>,
    keeping: Arc<Keeping>,
    around: Surroundings,
    host: Background,
    cancel: CancelHandle,
    pool: ThreadPool,
    cookies: Vec<PathBuf>,
    building: Building,
    notice: Notice,
    settings: LiveSettings,
}

impl Ground for TreeGround {
    fn root(&self) -> &Path {
        &self.root.path
    }

    fn walk(&self) -> Result<Walk, String> {
        walk(&self.root, &self.around.reach).ok_or_else(|| match self.root.path.is_dir() {
            true => "the index root lies outside of the allowed roots".to_string(),
            false => "the index root is gone".to_string(),
        })
    }

    fn inputs_above(&self) -> Inputs {
        above(&self.root, &self.host)
    }

    fn open(&self) -> Opened {
        // Before others are removed: that there were some is the reason for the next state.
        let waits = Waits::of(&self.host);
        let state = self.root.state(self.keeping.store(), waits);
        let store = self.keeping.store();
        if let Some(store) = store {
            // Who uses the others notices that they are gone.
            store.purge_laxer(self.root.key.parts());
        }
        state
    }

    fn build(
        &self,
        enter: &(dyn Fn(&Path) + Sync),
        progressed: &(dyn Fn() + Sync),
        earlier: Option<Earlier<'_>>,
        keep: bool,
    ) -> Result<(Built, Arc<Snapshot>), BuildError> {
        // One for each build: its budget begins with it.
        let host = background(&self.settings, &self.around, &self.cancel);
        if earlier.is_none() {
            self.building.show(host.monitor());
        }
        let kept = keep && self.keeping.storage() == StorageMode::Mmap;
        let host = Entering {
            host: &host,
            enter,
            progressed,
            // A merge has lost nothing when it ends: what it began from is still there.
            keeps_unfinished: kept && earlier.is_none() && self.settings.keeps_unfinished,
        };
        let reach = &self.around.reach;
        self.keeping
            .build(&self.root, reach, &host, earlier, keep, Duration::MAX)
    }

    fn keeps(&self) -> bool {
        self.keeping.store().is_some()
    }

    fn may_write(&self) -> Result<(), FormatError> {
        match self.keeping.store() {
            Some(store) => store.may_publish(self.root.key.parts(), &self.host),
            None => Ok(()),
        }
    }

    fn is_kept(&self) -> bool {
        let store = self.keeping.store();
        store.is_none_or(|store| !store.is_gone(self.root.key.parts()))
    }

    fn close(&self) {
        self.root.forget();
    }

    fn noted(&self, report: &Report) {
        let now_ms = self.host.now_ns() / 1_000_000;
        self.notice.put(report, self.building.report(), now_ms);
    }

    fn ended(&self) {
        self.notice.remove();
    }

    fn options(&self) -> &BuildOptions {
        self.keeping.options()
    }

    fn host(&self) -> &dyn BuildHost {
        &self.host
    }

    fn now_ms(&self) -> u64 {
        self.around.clock.now_ms()
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

/// A host that tells of the directories that are entered, and of progress.
struct Entering<'a> {
    host: &'a Background,
    enter: &'a (dyn Fn(&Path) + Sync),
    progressed: &'a (dyn Fn() + Sync),
    keeps_unfinished: bool,
}

impl BuildHost for Entering<'_> {
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

    fn may_go_on(&self, files: u64, bytes: u64) -> Result<(), Exceeded> {
        self.host.may_go_on(files, bytes)
    }
}
