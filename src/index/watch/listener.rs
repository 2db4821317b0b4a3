//! Translates the watching library's events to [`FsEvent`].
//!
//! The listener runs on the library's thread. An event that is not understood is reported as a
//! larger change, never as a smaller one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{Event, EventHandler};

use super::watched_dirs::WatchedDirs;
use super::{FsEvent, FsEventHandler, cookie, lock};

/// The number of errors in a row, without an event between them, after which the watcher is down.
const MAX_FAILURES: u32 = 8;

/// The state that the watcher shares with its thread.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) known: Mutex<WatchedDirs>,
    /// No more events will be reported.
    pub(super) is_down: AtomicBool,
    /// The library's thread has ended.
    pub(super) has_ended: AtomicBool,
    /// The watcher is started and not being dropped, so its end has to be reported.
    pub(super) is_open: AtomicBool,
}

/// Handles the library's events.
pub(super) struct Listener {
    /// The canonical root, as passed to the library.
    pub(super) root: PathBuf,
    pub(super) cookies: PathBuf,
    pub(super) shared: Arc<Shared>,
    pub(super) handler: Arc<dyn FsEventHandler>,
    pub(super) failures: u32,
}

impl EventHandler for Listener {
    fn handle_event(&mut self, event: notify::Result<Event>) {
        if self.shared.is_down.load(Ordering::Acquire) {
            return;
        }
        match event {
            Ok(event) => {
                self.failures = 0;
                self.take(event);
            }
            Err(error) => {
                self.failures += 1;
                if self.failures >= MAX_FAILURES {
                    self.down(format!("watching fails repeatedly: {error}"));
                } else {
                    self.deliver(FsEvent::Overflow);
                }
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        if !self.shared.is_down.load(Ordering::Acquire) {
            self.down("the thread of the watcher has ended".to_owned());
        }
    }
}

/// The location of an event's path.
enum Place {
    Tree(PathBuf),
    Cookies(PathBuf),
    Elsewhere,
}

impl Listener {
    /// Records and reports that no more events will follow.
    pub(super) fn down(&self, why: String) {
        self.shared.is_down.store(true, Ordering::Release);
        if self.shared.is_open.load(Ordering::Acquire) {
            // After a second panic, there is no handler left to inform.
            let _panicked = self.attempt(FsEvent::Down(why));
        }
    }

    /// Passes an event to the handler. If the handler panics, it has not recorded the event, so
    /// later events prove nothing and the watcher goes down.
    fn deliver(&self, heard: FsEvent) {
        // Also drops the remaining parts of an event.
        if self.shared.is_down.load(Ordering::Acquire) {
            return;
        }
        if self.attempt(heard).is_err() {
            self.down("the event handler panicked".to_owned());
        }
    }

    /// Catches a panic of the handler. It could happen while this is dropped because of another
    /// panic, which would abort the process.
    fn attempt(&self, heard: FsEvent) -> std::thread::Result<()> {
        // Unwind safe: handlers protect their state by locks, and are told next that the watcher is
        // down.
        catch_unwind(AssertUnwindSafe(|| self.handler.handle(heard)))
    }

    fn place(&self, path: &Path) -> Place {
        if let Ok(below) = path.strip_prefix(&self.root) {
            return Place::Tree(below.to_path_buf());
        }
        match path.strip_prefix(&self.cookies) {
            Ok(below) => Place::Cookies(below.to_path_buf()),
            Err(_) => Place::Elsewhere,
        }
    }

    fn take(&self, event: Event) {
        // First, because an overflow has no paths.
        if event.need_rescan() {
            self.deliver(FsEvent::Overflow);
            return;
        }
        match event.kind {
            EventKind::Access(_) => return,
            // Both names were reported one by one.
            EventKind::Modify(ModifyKind::Name(RenameMode::Both)) if cfg!(target_os = "linux") => {
                return;
            }
            _ => {}
        }
        if event.paths.is_empty() {
            self.deliver(FsEvent::Overflow);
        }
        // The library numbers a name that left a directory, to match it with the name that
        // appeared. It reports the move of a watched directory the same way, but without a number.
        let is_numbered = event.tracker().is_some();
        for path in &event.paths {
            match self.place(path) {
                Place::Tree(path) => self.take_of_tree(event.kind, is_numbered, path),
                Place::Cookies(name) => self.take_of_cookies(event.kind, &name),
                Place::Elsewhere
                    if matches!(event.kind, EventKind::Modify(ModifyKind::Name(_))) =>
                {
                    self.deliver(FsEvent::Moved);
                }
                // The path is not a watched one, so it may stand for any of them.
                Place::Elsewhere => self.deliver(FsEvent::Subtree(PathBuf::new())),
            }
        }
    }

    fn take_of_tree(&self, kind: EventKind, is_numbered: bool, path: PathBuf) {
        let is_root = path.as_os_str().is_empty();
        match kind {
            EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any) => {
                self.deliver(FsEvent::File(path));
                return;
            }
            EventKind::Remove(_) if is_root => {
                self.down("the root was removed or unmounted".to_owned());
                return;
            }
            EventKind::Modify(ModifyKind::Name(_)) if is_root => {
                self.down("the root was renamed".to_owned());
                return;
            }
            // Before the event is reported, since its handler may cause the path to be watched
            // again.
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) if !is_numbered => {
                lock(&self.shared.known).moved(&path);
            }
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                lock(&self.shared.known).dropped(&path);
            }
            _ => {}
        }
        self.deliver(FsEvent::Subtree(path));
    }

    fn take_of_cookies(&self, kind: EventKind, name: &Path) {
        let is_self = name.as_os_str().is_empty();
        match kind {
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) if is_self => {
                self.down("the directory of the cookie files was removed or renamed".to_owned());
            }
            EventKind::Create(_)
            | EventKind::Modify(ModifyKind::Name(
                RenameMode::To | RenameMode::Any | RenameMode::Both,
            )) => {
                if let Some(n) = cookie::number(name) {
                    self.deliver(FsEvent::Cookie(n));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, CreateKind, DataChange, Flag, MetadataKind, RemoveKind};

    use super::*;

    #[derive(Default)]
    struct Notes(Mutex<Vec<FsEvent>>);

    impl FsEventHandler for Notes {
        fn handle(&self, heard: FsEvent) {
            lock(&self.0).push(heard);
        }
    }

    fn listener() -> (Listener, Arc<Notes>) {
        let notes = Arc::new(Notes::default());
        let shared = Arc::new(Shared::default());
        shared.is_open.store(true, Ordering::Release);
        let listener = Listener {
            root: "/root".into(),
            cookies: "/cookies".into(),
            shared,
            handler: notes.clone(),
            failures: 0,
        };
        (listener, notes)
    }

    const FROM: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::From));
    const TO: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));
    const DATA: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const META: EventKind = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));

    #[track_caller]
    fn check(event: notify::Result<Event>, expected: &[FsEvent]) {
        let (mut listener, notes) = listener();
        listener.handle_event(event);
        let heard = std::mem::take(&mut *lock(&notes.0));
        assert_eq!(heard, expected);
    }

    fn at(kind: EventKind, path: &str) -> notify::Result<Event> {
        Ok(Event::new(kind).add_path(path.into()))
    }

    fn file(path: &str) -> FsEvent {
        FsEvent::File(path.into())
    }

    fn subtree(path: &str) -> FsEvent {
        FsEvent::Subtree(path.into())
    }

    #[test]
    fn writes_are_of_files_and_all_else_of_subtrees() {
        check(at(DATA, "/root/a/b"), &[file("a/b")]);
        check(
            at(EventKind::Modify(ModifyKind::Any), "/root/a"),
            &[file("a")],
        );
        for kind in [
            FROM,
            TO,
            META,
            EventKind::Create(CreateKind::File),
            EventKind::Create(CreateKind::Folder),
            EventKind::Remove(RemoveKind::File),
            EventKind::Remove(RemoveKind::Other),
            EventKind::Modify(ModifyKind::Other),
            EventKind::Any,
            EventKind::Other,
        ] {
            check(at(kind, "/root/a/b"), &[subtree("a/b")]);
        }
        check(at(META, "/root"), &[subtree("")]);
        check(at(EventKind::Any, "/elsewhere/a"), &[subtree("")]);
        check(at(FROM, "/elsewhere/a"), &[FsEvent::Moved]);
        let both = Event::new(EventKind::Any)
            .add_path("/root/a".into())
            .add_path("/root/b".into());
        check(Ok(both), &[subtree("a"), subtree("b")]);
    }

    #[test]
    fn reading_is_not_heard_of() {
        for kind in [AccessKind::Any, AccessKind::Read] {
            check(at(EventKind::Access(kind), "/root/a"), &[]);
        }
    }

    #[test]
    fn lost_events_are_heard_of_whatever_else_the_event_says() {
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        check(Ok(lost), &[FsEvent::Overflow]);
        let lost = Event::new(EventKind::Access(AccessKind::Any))
            .add_path("/root/a".into())
            .set_flag(Flag::Rescan);
        check(Ok(lost), &[FsEvent::Overflow]);
        check(Ok(Event::new(EventKind::Other)), &[FsEvent::Overflow]);
        check(Err(notify::Error::generic("x")), &[FsEvent::Overflow]);
    }

    #[test]
    fn a_root_that_is_gone_ends_it() {
        for kind in [FROM, EventKind::Remove(RemoveKind::Folder)] {
            let (mut listener, notes) = listener();
            listener.handle_event(at(kind, "/root"));
            listener.handle_event(at(DATA, "/root/a"));
            drop(listener);
            let heard = lock(&notes.0);
            assert!(matches!(heard[..], [FsEvent::Down(_)]), "{heard:?}");
        }
    }

    #[test]
    fn a_thread_that_ends_is_news_unless_it_was_asked_to() {
        let (listener, notes) = listener();
        drop(listener);
        assert!(matches!(lock(&notes.0)[..], [FsEvent::Down(_)]));
        let (listener, notes) = self::listener();
        listener.shared.is_open.store(false, Ordering::Release);
        drop(listener);
        assert!(lock(&notes.0).is_empty());
    }

    /// Panics on a file event, and optionally on the final event.
    struct Panics {
        at_the_end: bool,
        heard: Mutex<Vec<FsEvent>>,
    }

    impl FsEventHandler for Panics {
        fn handle(&self, heard: FsEvent) {
            let is_end = matches!(heard, FsEvent::Down(_));
            let is_file = matches!(heard, FsEvent::File(_));
            lock(&self.heard).push(heard);
            let panics = is_file || is_end && self.at_the_end;
            assert!(!panics, "on purpose");
        }
    }

    #[test]
    fn an_ear_that_panics_ends_it() {
        for at_the_end in [false, true] {
            let handler = Arc::new(Panics {
                at_the_end,
                heard: Mutex::default(),
            });
            let (mut listener, _) = listener();
            listener.handler = handler.clone();
            let two = Event::new(DATA)
                .add_path("/root/a".into())
                .add_path("/root/b".into());
            listener.handle_event(Ok(two));
            listener.handle_event(at(TO, "/cookies/7.0"));
            assert!(listener.shared.is_down.load(Ordering::Acquire));
            drop(listener);
            let heard = lock(&handler.heard);
            assert!(matches!(heard[..], [FsEvent::File(_), FsEvent::Down(_)]));
        }
    }

    #[test]
    fn errors_without_end_are_the_end() {
        let (mut listener, notes) = listener();
        for _ in 0..3 {
            for _ in 1..MAX_FAILURES {
                listener.handle_event(Err(notify::Error::generic("x")));
            }
            listener.handle_event(at(DATA, "/root/a"));
        }
        assert!(
            !lock(&notes.0)
                .iter()
                .any(|heard| matches!(heard, FsEvent::Down(_)))
        );
        for _ in 0..2 * MAX_FAILURES {
            listener.handle_event(Err(notify::Error::generic("x")));
        }
        let heard = lock(&notes.0);
        let downs = heard
            .iter()
            .filter(|heard| matches!(heard, FsEvent::Down(_)));
        assert_eq!(downs.count(), 1);
        assert!(matches!(heard.last(), Some(FsEvent::Down(_))));
    }

    #[test]
    fn cookies_arrive_with_their_numbers() {
        check(at(TO, "/cookies/7.0"), &[FsEvent::Cookie(7)]);
        check(
            at(EventKind::Create(CreateKind::File), "/cookies/7.1"),
            &[FsEvent::Cookie(7)],
        );
        for (kind, path) in [
            (FROM, "/cookies/7.0"),
            (TO, "/cookies/other"),
            (META, "/cookies/7.0"),
            (META, "/cookies"),
            (EventKind::Remove(RemoveKind::File), "/cookies/7.0"),
        ] {
            check(at(kind, path), &[]);
        }
        for kind in [FROM, EventKind::Remove(RemoveKind::Folder)] {
            let (mut listener, notes) = listener();
            listener.handle_event(at(kind, "/cookies"));
            assert!(matches!(lock(&notes.0)[..], [FsEvent::Down(_)]));
        }
    }
}
