//! The queue of inotify.
//!
//! Owns the queue, the thread that reads it, and which path each watch is on. It tells what the crate `notify` would tell,
//! and drops watches as that does; but whenever a directory goes, `notify` looks at all watches of the tree, so that removing
//! 10,000 of 30,000 directories keeps a processor busy for minutes and overflows the queue meanwhile. Here that costs the
//! logarithm of their number, and what is below the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use notify::event::{
    CreateKind, DataChange, Flag, MetadataKind, ModifyKind, RemoveKind, RenameMode,
};
use notify::{ErrorKind, Event, EventHandler, EventKind};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::limits;
use super::listener::Listener;
use super::lock;
use super::source::Source;

/// Bytes that are read at once: some hundred events.
const BUFFER: usize = 64 << 10;

/// What is asked of the kernel: all that changes something. That a file is closed to which could be written is the only sign of what was
/// written through a mapping, or by the kernel's older way to write without waiting.
const MASK: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// What is asked about a directory above the root: whether its name stays, and the root thereby where it is. That of its entries
/// is no matter. It may be watched otherwise too, by another path.
const MASK_ABOVE: WatchFlags = WatchFlags::MOVE_SELF
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW)
    .union(WatchFlags::MASK_ADD);

/// A queue, and the thread that reads it. Dropping it ends the thread, which is not waited for.
pub(super) struct Queue {
    watches: Arc<Mutex<Watches>>,
    end: Arc<OwnedFd>,
}

/// Which paths each watch is on. A directory that is renamed keeps its watch, and may have been watched under the new name
/// before the rename is read. Or one of its paths leads there by a symbolic link that took the place of a directory. Which path
/// is right is not known here, so events are told of under each.
struct Watches {
    queue: Arc<OwnedFd>,
    dirs: BTreeMap<PathBuf, i32>,
    paths: BTreeMap<i32, Vec<PathBuf>>,
    /// Canonical.
    root: PathBuf,
    /// Those of the directories above the root, and of such that were above it until now.
    above: BTreeSet<i32>,
}

impl Queue {
    pub(super) fn start(listener: Listener) -> notify::Result<Queue> {
        let system = |errno: Errno| notify::Error::io(errno.into());
        let queue = open().map_err(system)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?;
        let (queue, end) = (Arc::new(queue), Arc::new(end));
        let mut watches = Watches {
            queue: Arc::clone(&queue),
            dirs: BTreeMap::new(),
            paths: BTreeMap::new(),
            root: listener.root.clone(),
            above: BTreeSet::new(),
        };
        watches.watch_above().map_err(told)?;
        let watches = Arc::new(Mutex::new(watches));
        let mut reader = Reader {
            queue,
            end: Arc::clone(&end),
            watches: Arc::clone(&watches),
            listener,
        };
        std::thread::Builder::new()
            .name("forge-watch".to_string())
            .spawn(move || reader.run())
            .map_err(notify::Error::io)?;
        Ok(Queue { watches, end })
    }
}

/// The library's words for why something can't be watched.
fn told(errno: Errno) -> notify::Error {
    match errno {
        Errno::NOSPC => notify::Error::new(ErrorKind::MaxFilesWatch),
        Errno::NOENT => notify::Error::new(ErrorKind::PathNotFound),
        errno => notify::Error::io(errno.into()),
    }
}

fn open() -> Result<OwnedFd, Errno> {
    inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
}

impl Source for Queue {
    fn watch(&mut self, path: &Path) -> notify::Result<()> {
        let watched = lock(&self.watches).watch(path);
        watched.map_err(|errno| told(errno).add_path(path.to_path_buf()))
    }

    fn renew(&mut self, path: &Path) -> notify::Result<()> {
        // The kernel knows by itself what is watched. A watch that stays loses no event, such as tell which watches below have
        // moved elsewhere.
        self.watch(path)
    }

    fn unwatch(&mut self, path: &Path) {
        lock(&self.watches).drop_one(path);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // It can't be full: nobody else writes to it.
        let _always_room = rustix::io::write(&*self.end, &1u64.to_ne_bytes());
    }
}

impl Watches {
    /// The lock is held until the watch has its path: its first event may be read before this returns.
    fn watch(&mut self, path: &Path) -> Result<(), Errno> {
        let id = inotify::add_watch(&*self.queue, path, MASK)?;
        self.add(path, id);
        match path == self.root {
            true => self.watch_above(),
            false => Ok(()),
        }
    }

    /// Watches the directories that are above the root now, as far as this user may. Fails where a limit is reached.
    fn watch_above(&mut self) -> Result<(), Errno> {
        let mut now = BTreeSet::new();
        let mut are_all_there = true;
        for dir in self.root.ancestors().skip(1) {
            match inotify::add_watch(&*self.queue, dir, MASK_ABOVE) {
                Ok(id) => {
                    now.insert(id);
                }
                // Who may not list one can't watch it. The root is looked at before each search all the same, so that what goes
                // unnoticed is only that it was away in between.
                Err(Errno::ACCESS) => {}
                Err(Errno::NOSPC) => return Err(Errno::NOSPC),
                Err(_) => are_all_there = false,
            }
        }
        self.above.extend(&now);
        // Until the root is where it was, those from before tell of what brings it back.
        if are_all_there {
            for &id in self.above.difference(&now) {
                if !self.paths.contains_key(&id) {
                    // What it has told until now still counts: it stays in the set until the kernel says that it has ended.
                    let _may_be_gone = inotify::remove_watch(&*self.queue, id);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, id: i32) {
        match self.dirs.insert(path.to_path_buf(), id) {
            Some(before) if before != id => self.release(before, path),
            _ => {}
        }
        // Nearly all have one.
        let paths = self.paths.entry(id);
        let paths = paths.or_insert_with(|| Vec::with_capacity(1));
        paths.retain(|other| other != path);
        paths.push(path.to_path_buf());
    }

    /// The paths that a watch is on; none of one that was dropped.
    fn paths(&self, id: i32) -> Vec<PathBuf> {
        self.paths.get(&id).cloned().unwrap_or_default()
    }

    /// Ends the watch of a path, unless it is on another path too.
    fn drop_one(&mut self, path: &Path) {
        if let Some(id) = self.dirs.remove(path) {
            self.release(id, path);
        }
    }

    /// Ends the watches of a path and of all below it. Logarithmic in all watches, linear in those.
    fn drop_below(&mut self, path: &Path) {
        loop {
            // What is below a path follows it without a gap: paths are ordered by their components.
            let from = (Bound::Included(path), Bound::Unbounded);
            let first = self.dirs.range::<Path, _>(from).next();
            let Some((first, _)) = first.filter(|(first, _)| first.starts_with(path)) else {
                return;
            };
            let first = first.clone();
            self.drop_one(&first);
        }
    }

    fn release(&mut self, id: i32, path: &Path) {
        let Some(paths) = self.paths.get_mut(&id) else {
            return;
        };
        paths.retain(|other| other != path);
        if paths.is_empty() {
            self.paths.remove(&id);
            // The kernel drops those of directories that are gone by itself.
            let _may_be_gone = inotify::remove_watch(&*self.queue, id);
        }
    }

    /// Takes note that the kernel has dropped a watch.
    fn ended(&mut self, id: i32) {
        self.above.remove(&id);
        for path in self.paths.remove(&id).unwrap_or_default() {
            if self.dirs.get(&path) == Some(&id) {
                self.dirs.remove(&path);
            }
        }
    }
}

/// The thread that reads.
struct Reader {
    queue: Arc<OwnedFd>,
    end: Arc<OwnedFd>,
    watches: Arc<Mutex<Watches>>,
    listener: Listener,
}

impl Reader {
    fn run(&mut self) {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        while !self.is_over() {
            let queue = Arc::clone(&self.queue);
            let mut events = inotify::Reader::new(&*queue, &mut buffer);
            loop {
                match events.next() {
                    Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                        drop(queue);
                        self.lost();
                        break;
                    }
                    Ok(event) => self.take(&event),
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => {}
                    Err(errno) => self.fail(errno),
                }
                // Whether to end is asked again even if there is always more to be read.
                if self.is_down() || events.is_buffer_empty() {
                    break;
                }
            }
        }
    }

    /// Waits for something to read; returns true if there will be nothing more.
    fn is_over(&mut self) -> bool {
        let mut both = [
            PollFd::new(&*self.queue, PollFlags::IN),
            PollFd::new(&*self.end, PollFlags::IN),
        ];
        let failed = match poll(&mut both, None) {
            Ok(_) | Err(Errno::INTR) => None,
            Err(errno) => Some(errno),
        };
        let told_to_end = !both[1].revents().is_empty();
        if let Some(errno) = failed {
            self.fail(errno);
        }
        told_to_end || self.is_down()
    }

    fn is_down(&self) -> bool {
        self.listener.shared.is_down.load(Ordering::Acquire)
    }

    fn fail(&mut self, errno: Errno) {
        let error = notify::Error::io(io::Error::from(errno));
        self.listener.handle_event(Err(error));
    }

    /// Tells that events were lost. Among them may have been such that say which path a watch is on, or that it has ended,
    /// so no watch is of use any more: another queue takes the place of this one. (Ending the watches one by one would
    /// fill the queue again, with an event each.)
    fn lost(&mut self) {
        if let Err(errno) = self.begin_anew() {
            let why = io::Error::from(errno);
            self.listener.down(format!(
                "events were lost, and watching can't begin anew: {why}"
            ));
            return;
        }
        // Before it is heard: whoever hears it watches again.
        lock(&self.listener.shared.known).dropped(Path::new(""));
        // A cookie that was touched before the queue was there is not in it, and whoever waits for it may know now. Not one that is
        // touched after the loss was heard: what happened before that one may be in the queue.
        let cookies = std::fs::read_dir(&self.listener.cookies);
        let cookies: Vec<PathBuf> = cookies
            .into_iter()
            .flatten()
            .flatten()
            .map(|cookie| cookie.path())
            .collect();
        self.rescan();
        for cookie in cookies {
            let there = Event::new(EventKind::Create(CreateKind::File)).add_path(cookie);
            self.listener.handle_event(Ok(there));
        }
    }

    /// Tells that anything may have changed.
    fn rescan(&mut self) {
        let anything = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        self.listener.handle_event(Ok(anything));
    }

    /// Watches nothing but the cookies, and what is above the root, by an empty queue.
    fn begin_anew(&mut self) -> Result<(), Errno> {
        let queue = Arc::new(open()?);
        let mut watches = lock(&self.watches);
        watches.dirs.clear();
        watches.paths.clear();
        // That closes the other one, with its watches, before there are new ones: their number is limited.
        watches.queue = Arc::clone(&queue);
        self.queue = queue;
        watches.above.clear();
        watches.watch_above()?;
        watches.watch(&self.listener.cookies)
    }

    /// Tells of an event, after what follows from it for the watches.
    fn take(&mut self, event: &inotify::Event<'_>) {
        let (id, what) = (event.wd(), event.events());
        let mut watches = lock(&self.watches);
        if what.contains(ReadFlags::IGNORED) {
            watches.ended(id);
            return;
        }
        if watches.above.contains(&id) && what.contains(ReadFlags::MOVE_SELF) {
            // Others may be above the root now.
            let watched = watches.watch_above();
            let dir = watches.root.parent().map(Path::to_path_buf);
            drop(watches);
            let moved = EventKind::Modify(ModifyKind::Name(RenameMode::Any));
            let moved = Event::new(moved).add_path(dir.unwrap_or_default());
            self.listener.handle_event(Ok(moved));
            if watched.is_err() {
                let why = limits::reached(limits::WATCHES);
                self.listener.down(why.to_string());
                return;
            }
            watches = lock(&self.watches);
        }
        let Some(kind) = kind_of(what) else {
            return;
        };
        let name = event
            .file_name()
            .map(|name| OsStr::from_bytes(name.to_bytes()));
        // Of a watch that was dropped: whoever did that has told of all below its path.
        let mut paths = watches.paths(id);
        for path in &mut paths {
            if let Some(name) = name {
                path.push(name);
            }
            match kind {
                // The directory itself is gone, and need not be the one that has the path now.
                EventKind::Remove(_) if name.is_none() && watches.dirs.get(path) != Some(&id) => {}
                EventKind::Remove(_) => watches.drop_below(path),
                EventKind::Modify(ModifyKind::Name(RenameMode::From)) if name.is_some() => {
                    watches.drop_below(path);
                }
                _ => {}
            }
        }
        drop(watches);
        for path in paths {
            let mut told = Event::new(kind).add_path(path);
            if what.intersects(ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO) {
                told = told.set_tracker(event.cookie() as usize);
            }
            self.listener.handle_event(Ok(told));
        }
    }
}

/// What an event is of; `None` for what changes nothing.
fn kind_of(what: ReadFlags) -> Option<EventKind> {
    let is_dir = what.contains(ReadFlags::ISDIR);
    let rename = |mode| EventKind::Modify(ModifyKind::Name(mode));
    let kinds = [
        (
            ReadFlags::CREATE,
            EventKind::Create(match is_dir {
                true => CreateKind::Folder,
                false => CreateKind::File,
            }),
        ),
        (
            ReadFlags::DELETE,
            EventKind::Remove(match is_dir {
                true => RemoveKind::Folder,
                false => RemoveKind::File,
            }),
        ),
        (
            ReadFlags::DELETE_SELF,
            EventKind::Remove(RemoveKind::Folder),
        ),
        (ReadFlags::UNMOUNT, EventKind::Remove(RemoveKind::Other)),
        (ReadFlags::MOVED_FROM, rename(RenameMode::From)),
        (ReadFlags::MOVED_TO, rename(RenameMode::To)),
        (ReadFlags::MOVE_SELF, rename(RenameMode::From)),
        (
            ReadFlags::MODIFY,
            EventKind::Modify(ModifyKind::Data(DataChange::Any)),
        ),
        (
            ReadFlags::CLOSE_WRITE,
            EventKind::Modify(ModifyKind::Data(DataChange::Any)),
        ),
        (
            ReadFlags::ATTRIB,
            EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)),
        ),
    ];
    let mut kinds = kinds.into_iter();
    kinds.find_map(|(flag, kind)| what.contains(flag).then_some(kind))
}
