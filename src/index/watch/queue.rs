//! Reads the inotify queue.
//!
//! This module owns the queue, the thread that reads it, and the mapping from watches to paths. Its
//! events and its handling of watches equal those of the crate `notify`. It exists for speed:
//! whenever a directory is removed, `notify` checks all watches of the tree. Removing 10,000 of
//! 30,000 directories keeps a processor busy for minutes, and the queue overflows. Here a removal
//! costs logarithmic time in the number of watches, plus the watches below the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
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
use crate::index::below::paths_below;

/// The size of the read buffer in bytes: room for some hundred events.
const BUFFER: usize = 64 << 10;

/// The requested events: everything that changes a file or directory. `CLOSE_WRITE` is the only
/// event for writes through a mapping, or by the kernel's older asynchronous I/O.
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

/// The requested events for a directory above the root: renames of the directory, which move the
/// root. Events about its entries don't matter. `MASK_ADD` because the directory may also be
/// watched under another path.
const MASK_ABOVE: WatchFlags = WatchFlags::MOVE_SELF
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW)
    .union(WatchFlags::MASK_ADD);

/// A queue, and the thread that reads it. Dropping it ends the thread, without waiting for it.
pub(super) struct Queue {
    watches: Arc<Mutex<Watches>>,
    end: Arc<OwnedFd>,
}

/// The paths of each watch. A renamed directory keeps its watch, and may be watched under the new
/// name before the rename event is read. A path may also lead to another directory by a symbolic
/// link that replaced a directory. The right path is unknown here, so events are reported under
/// each.
struct Watches {
    queue: Arc<OwnedFd>,
    dirs: BTreeMap<PathBuf, i32>,
    paths: BTreeMap<i32, Vec<PathBuf>>,
    /// The canonical root.
    root: PathBuf,
    /// Watches of the directories that are above the root now, or were above it until now.
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
        watches.watch_above().map_err(to_notify_error)?;
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

/// Returns the error that the library would return.
fn to_notify_error(errno: Errno) -> notify::Error {
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
        watched.map_err(|errno| to_notify_error(errno).add_path(path.to_path_buf()))
    }

    fn renew(&mut self, path: &Path) -> notify::Result<()> {
        // The kernel knows which directories are watched. Keeping a watch loses no events, for
        // example about watches below that moved elsewhere.
        self.watch(path)
    }

    fn unwatch(&mut self, path: &Path) {
        lock(&self.watches).drop_one(path);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // The counter can't overflow: nothing else writes to it.
        let _always_room = rustix::io::write(&*self.end, &1u64.to_ne_bytes());
    }
}

impl Watches {
    /// The lock is held until the watch has its path, because its first event may be read before
    /// this returns.
    fn watch(&mut self, path: &Path) -> Result<(), Errno> {
        let id = inotify::add_watch(&*self.queue, path, MASK)?;
        self.add(path, id);
        match path == self.root {
            true => self.watch_above(),
            false => Ok(()),
        }
    }

    /// Watches the directories that are above the root now, as far as the user may. Fails if a
    /// limit is reached.
    fn watch_above(&mut self) -> Result<(), Errno> {
        let mut now = BTreeSet::new();
        let mut are_all_there = true;
        for dir in self.root.ancestors().skip(1) {
            match inotify::add_watch(&*self.queue, dir, MASK_ABOVE) {
                Ok(id) => {
                    now.insert(id);
                }
                // Unreadable directories can't be watched. The root is checked before each search
                // anyway, so only a temporary move of the root goes unnoticed.
                Err(Errno::ACCESS) => {}
                Err(Errno::NOSPC) => return Err(Errno::NOSPC),
                Err(_) => are_all_there = false,
            }
        }
        self.above.extend(&now);
        // Until the root is back in place, the old watches report the rename that brings it back.
        if are_all_there {
            for &id in self.above.difference(&now) {
                if !self.paths.contains_key(&id) {
                    // Its queued events still count, so the watch stays in the set until the kernel
                    // reports its end.
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
        // Nearly all watches have one path.
        let paths = self.paths.entry(id);
        let paths = paths.or_insert_with(|| Vec::with_capacity(1));
        paths.retain(|other| other != path);
        paths.push(path.to_path_buf());
    }

    /// Returns the paths of a watch; empty for a dropped one.
    fn paths(&self, id: i32) -> Vec<PathBuf> {
        self.paths.get(&id).cloned().unwrap_or_default()
    }

    /// Ends the watch of a path, unless the watch has another path too.
    fn drop_one(&mut self, path: &Path) {
        if let Some(id) = self.dirs.remove(path) {
            self.release(id, path);
        }
    }

    /// Ends the watches at and below a path. Takes logarithmic time in the number of all watches,
    /// and linear time in the ended ones.
    fn drop_below(&mut self, path: &Path) {
        for path in paths_below(&self.dirs, path) {
            self.drop_one(&path);
        }
    }

    fn release(&mut self, id: i32, path: &Path) {
        let Some(paths) = self.paths.get_mut(&id) else {
            return;
        };
        paths.retain(|other| other != path);
        if paths.is_empty() {
            self.paths.remove(&id);
            // The kernel itself drops the watches of removed directories.
            let _may_be_gone = inotify::remove_watch(&*self.queue, id);
        }
    }

    /// Handles the kernel's report that it dropped a watch.
    fn ended(&mut self, id: i32) {
        self.above.remove(&id);
        for path in self.paths.remove(&id).unwrap_or_default() {
            if self.dirs.get(&path) == Some(&id) {
                self.dirs.remove(&path);
            }
        }
    }
}

/// The thread that reads the queue.
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
                // Check for the end regularly, also if there is always more to read.
                if self.is_down() || events.is_buffer_empty() {
                    break;
                }
            }
        }
    }

    /// Waits for events; returns true if the thread has to end.
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

    /// Handles a queue overflow. The lost events may have been about the paths or the end of any
    /// watch, so all watches are useless. A new queue replaces this one. (Ending the watches one by
    /// one would fill the queue again with an event each.)
    fn lost(&mut self) {
        if let Err(errno) = self.begin_anew() {
            let why = io::Error::from(errno);
            self.listener.down(format!(
                "events were lost, and the watcher can't be restarted: {why}"
            ));
            return;
        }
        // Before the event is reported, since its handler may cause directories to be watched
        // again.
        lock(&self.listener.shared.known).dropped(Path::new(""));
        // Cookies touched before the new queue existed raise no event in it, so they are reported
        // here. Cookies touched after the loss was reported must not be: earlier changes may still
        // be in the queue.
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

    /// Reports that anything may have changed.
    fn rescan(&mut self) {
        let anything = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        self.listener.handle_event(Ok(anything));
    }

    /// Starts with an empty queue that watches only the cookies and the directories above the root.
    fn begin_anew(&mut self) -> Result<(), Errno> {
        let queue = Arc::new(open()?);
        let mut watches = lock(&self.watches);
        watches.dirs.clear();
        watches.paths.clear();
        // Closes the old queue with its watches before new ones are added, because their number is
        // limited.
        watches.queue = Arc::clone(&queue);
        self.queue = queue;
        watches.above.clear();
        watches.watch_above()?;
        watches.watch(&self.listener.cookies)
    }

    /// Updates the watches for an event, then reports it.
    fn take(&mut self, event: &inotify::Event<'_>) {
        let (id, what) = (event.wd(), event.events());
        let mut watches = lock(&self.watches);
        if what.contains(ReadFlags::IGNORED) {
            watches.ended(id);
            return;
        }
        if watches.above.contains(&id) && what.contains(ReadFlags::MOVE_SELF) {
            // Other directories may be above the root now.
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
        // A dropped watch has no paths. A change at or above its path was reported when it was
        // dropped.
        let mut paths = watches.paths(id);
        for path in &mut paths {
            if let Some(name) = name {
                path.push(name);
            }
            match kind {
                // The watched directory is gone; another one may have its path now.
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

/// Returns the kind of an event; `None` if the event changes nothing.
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
