//! The test doubles of the live tests: a watcher that reports injected events, and a clock that
//! tests control.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use forge_search::internal::index::pace::Clock;
use forge_search::internal::index::watch::{
    FsEvent, FsEventHandler, WatchError, Watcher, WatcherFactory,
};
use forge_search::internal::tool::indexing::{Indexes, wall_clock_ns};

/// The fate of cookies. A cookie is a marker that the index touches: when the watcher reports it,
/// all earlier events have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cookies {
    /// The watcher reports them, after the queued events.
    #[default]
    Heard,
    /// The watcher never reports them.
    Lost,
    /// The watcher reports them when the test calls [`Watchers::deliver_late`].
    Late,
    /// Touching them fails.
    Fail,
}

type OnWatch = Box<dyn Fn(&Path) + Send + Sync>;

/// The watchers of one tree. They report the events that a test injects.
#[derive(Default)]
pub(crate) struct Watchers {
    state: Mutex<State>,
    changed: Condvar,
    on_watch: Mutex<Option<Arc<OnWatch>>>,
    /// True if mounts have changed, for example over the root. Read once.
    pub(crate) mounts_changed: AtomicBool,
    pub(crate) unordered: AtomicBool,
}

#[derive(Default)]
struct State {
    handler: Option<Weak<dyn FsEventHandler>>,
    starts: usize,
    watched: BTreeSet<PathBuf>,
    /// Each call that watched a directory, in order, with repetitions.
    calls: Vec<PathBuf>,
    /// The number of directories that can be watched.
    limit: Option<usize>,
    /// The reason for which no watcher can be started.
    refuses: Option<String>,
    cookies: Cookies,
    /// The events that are reported before the next cookie.
    queue: Vec<FsEvent>,
    /// The cookies that were touched and not reported yet.
    late: Vec<u64>,
    /// A thread that watches this directory waits.
    hold: Option<PathBuf>,
    held: usize,
    /// True if a thread that drops a watcher waits.
    hold_ends: bool,
}

/// The remedy in the error of a watcher that has reached its limit.
pub(crate) const REMEDY: &str = "there can be no more watches; raise the limit of the test";

impl Watchers {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Reports an event now.
    pub(crate) fn handle(&self, event: FsEvent) {
        self.handler().handle(event);
    }

    /// Reports an event now if there is a watcher.
    pub(crate) fn hear_if_any(&self, event: FsEvent) {
        let handler = self.lock().handler.as_ref().and_then(Weak::upgrade);
        if let Some(handler) = handler {
            handler.handle(event);
        }
    }

    /// Returns the handler of the latest watcher's events.
    pub(crate) fn handler(&self) -> Arc<dyn FsEventHandler> {
        let handler = self.lock().handler.as_ref().and_then(Weak::upgrade);
        handler.expect("a watcher")
    }

    /// Reports an event right before the next cookie.
    pub(crate) fn queue(&self, event: FsEvent) {
        self.lock().queue.push(event);
    }

    pub(crate) fn set_cookies(&self, cookies: Cookies) {
        self.lock().cookies = cookies;
    }

    /// Returns the number of cookies that are late.
    pub(crate) fn late(&self) -> usize {
        self.lock().late.len()
    }

    /// Reports the late cookies.
    pub(crate) fn deliver_late(&self) {
        let late = std::mem::take(&mut self.lock().late);
        let handler = self.handler();
        late.into_iter()
            .for_each(|n| handler.handle(FsEvent::Cookie(n)));
    }

    pub(crate) fn set_limit(&self, limit: Option<usize>) {
        self.lock().limit = limit;
    }

    pub(crate) fn refuse(&self, why: Option<&str>) {
        self.lock().refuses = why.map(str::to_string);
    }

    /// From now on, a thread that watches this directory waits.
    pub(crate) fn hold(&self, dir: &str) {
        self.lock().hold = Some(PathBuf::from(dir));
    }

    /// From now on, a thread that drops a watcher waits.
    pub(crate) fn hold_ends(&self) {
        self.lock().hold_ends = true;
    }

    /// Lets all held threads go on.
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        (state.hold, state.hold_ends) = (None, false);
        drop(state);
        self.changed.notify_all();
    }

    /// Lets held threads go on, except those at the directory that is held now.
    pub(crate) fn nobody_waits(&self) {
        self.changed.notify_all();
    }

    pub(crate) fn is_held(&self) -> bool {
        self.lock().held > 0
    }

    /// Calls `act` whenever a directory is watched, before the watch takes effect.
    pub(crate) fn on_watch(&self, act: impl Fn(&Path) + Send + Sync + 'static) {
        *self.on_watch.lock().unwrap() = Some(Arc::new(Box::new(act)));
    }

    /// Returns true if the latest watcher's handler is alive.
    pub(crate) fn is_heard(&self) -> bool {
        let handler = self.lock().handler.as_ref().and_then(Weak::upgrade);
        handler.is_some()
    }

    /// Returns the number of watchers that were started.
    pub(crate) fn starts(&self) -> usize {
        self.lock().starts
    }

    /// Returns every call that watched a directory, in order.
    pub(crate) fn calls(&self) -> Vec<PathBuf> {
        self.lock().calls.clone()
    }

    pub(crate) fn watched(&self) -> BTreeSet<PathBuf> {
        self.lock().watched.clone()
    }
}

impl WatcherFactory for Hearing {
    fn start(
        &self,
        root: &Path,
        cookie_dir: &Path,
        handler: Arc<dyn FsEventHandler>,
    ) -> Result<Arc<dyn Watcher>, WatchError> {
        let watchers = &self.0;
        assert!(!cookie_dir.starts_with(root));
        let mut state = watchers.lock();
        if let Some(why) = &state.refuses {
            return Err(WatchError::Other(why.clone()));
        }
        state.starts += 1;
        state.handler = Some(Arc::downgrade(&handler));
        state.watched.clear();
        Ok(Arc::new(Double {
            watchers: watchers.clone(),
            root: root.to_path_buf(),
            handler,
        }))
    }
}

/// The factory of the watchers of a tree.
pub(crate) struct Hearing(pub(crate) Arc<Watchers>);

struct Double {
    watchers: Arc<Watchers>,
    root: PathBuf,
    handler: Arc<dyn FsEventHandler>,
}

impl Drop for Double {
    fn drop(&mut self) {
        let mut state = self.watchers.lock();
        while state.hold_ends {
            state.held += 1;
            state = self.watchers.changed.wait(state).unwrap();
            state.held -= 1;
        }
    }
}

impl Watcher for Double {
    fn watch(&self, dir: &Path) -> Result<(), WatchError> {
        let act = self.watchers.on_watch.lock().unwrap().clone();
        if let Some(act) = act {
            act(dir);
        }
        let mut state = self.watchers.lock();
        state.calls.push(dir.to_path_buf());
        while state.hold.as_deref() == Some(dir) {
            state.held += 1;
            state = self.watchers.changed.wait(state).unwrap();
            state.held -= 1;
        }
        if !self.root.join(dir).is_dir() {
            return Err(WatchError::Gone);
        }
        let is_new = !state.watched.contains(dir);
        if is_new
            && state
                .limit
                .is_some_and(|limit| state.watched.len() >= limit)
        {
            return Err(WatchError::Limit(REMEDY.to_string()));
        }
        state.watched.insert(dir.to_path_buf());
        Ok(())
    }

    fn watched(&self) -> usize {
        self.watchers.lock().watched.len()
    }

    fn touch(&self, n: u64) -> io::Result<()> {
        let (cookies, queue) = {
            let mut state = self.watchers.lock();
            (state.cookies, std::mem::take(&mut state.queue))
        };
        for event in queue {
            self.handler.handle(event);
        }
        match cookies {
            Cookies::Heard => self.handler.handle(FsEvent::Cookie(n)),
            Cookies::Lost => {}
            Cookies::Late => self.watchers.lock().late.push(n),
            Cookies::Fail => return Err(io::Error::other("the cookies are gone")),
        }
        Ok(())
    }

    fn is_ordered(&self) -> bool {
        !self.watchers.unordered.load(Ordering::SeqCst)
    }

    fn is_in_place(&self) -> bool {
        self.root.is_dir()
    }

    fn mounts_changed(&self) -> bool {
        self.watchers.mounts_changed.swap(false, Ordering::SeqCst)
    }
}

type OnJump = Box<dyn Fn() + Send + Sync>;

/// A clock that runs like the system's until a test stops it. A test can put it forward.
pub(crate) struct Hands {
    start: Instant,
    ahead_ms: AtomicU64,
    /// Called after each jump. Wakes the workers that wait for a time.
    on_jump: Mutex<Option<OnJump>>,
    stopped_ms: Mutex<Option<u64>>,
    /// The error of the wall clock.
    skew_ns: AtomicI64,
}

impl Default for Hands {
    fn default() -> Hands {
        Hands {
            start: Instant::now(),
            ahead_ms: AtomicU64::new(0),
            on_jump: Mutex::default(),
            stopped_ms: Mutex::default(),
            skew_ns: AtomicI64::new(0),
        }
    }
}

impl Hands {
    fn flowing_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Stops the clock.
    pub(crate) fn stop(&self) {
        let now_ms = self.flowing_ms();
        self.stopped_ms.lock().unwrap().get_or_insert(now_ms);
    }

    /// Sets the wall clock's error, in seconds: negative is behind, positive ahead.
    pub(crate) fn skew(&self, seconds: i64) {
        self.skew_ns
            .store(seconds * 1_000_000_000, Ordering::SeqCst);
    }

    /// Returns the wall-clock time, in nanoseconds since the Unix epoch.
    pub(crate) fn wall_ns(&self) -> i64 {
        wall_clock_ns().saturating_add(self.skew_ns.load(Ordering::SeqCst))
    }

    /// Puts the clock forward, and wakes the workers of the indexes that use it.
    pub(crate) fn put_forward(&self, ms: u64) {
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
        if let Some(on_jump) = &*self.on_jump.lock().unwrap() {
            on_jump();
        }
    }

    /// Makes jumps of this clock wake the workers of these indexes.
    pub(crate) fn wakes(&self, indexes: &Arc<Indexes>) {
        let indexes = Arc::downgrade(indexes);
        let wake = move || {
            if let Some(indexes) = indexes.upgrade() {
                indexes.wake_living();
            }
        };
        *self.on_jump.lock().unwrap() = Some(Box::new(wake));
    }
}

impl std::fmt::Debug for Hands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hands").finish_non_exhaustive()
    }
}

impl Clock for Hands {
    fn now(&self) -> Instant {
        let stopped_ms = *self.stopped_ms.lock().unwrap();
        let ahead_ms = self.ahead_ms.load(Ordering::SeqCst);
        let ms = stopped_ms.unwrap_or_else(|| self.flowing_ms()) + ahead_ms;
        self.start + Duration::from_millis(ms)
    }
}
