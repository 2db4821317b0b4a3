//! Clocks that tests control, and functions that wait for a state or for the end of a call.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::support::GUARD;
use forge_search::internal::exec::stop::Clock;

/// Longer than any test.
pub(crate) const FOR_EVER_MS: u64 = 86_400_000;

/// A clock that moves only when a test makes it jump. It counts how often it is read.
#[derive(Clone, Debug)]
pub(crate) struct FakeClock(Arc<Mutex<(Instant, u64)>>);

impl FakeClock {
    pub(crate) fn new() -> FakeClock {
        FakeClock(Arc::new(Mutex::new((Instant::now(), 0))))
    }

    pub(crate) fn jump(&self, by: Duration) {
        self.0.lock().unwrap().0 += by;
    }

    /// Returns how often the clock was read.
    pub(crate) fn looks(&self) -> u64 {
        self.0.lock().unwrap().1
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instant {
        let mut state = self.0.lock().unwrap();
        state.1 += 1;
        state.0
    }
}

/// Blocks the threads that wait for it until it is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Waits until the gate is open.
    pub(crate) fn wait(&self) {
        let (is_open, changed) = &*self.0;
        let open = is_open.lock().unwrap();
        let (open, _) = changed
            .wait_timeout_while(open, GUARD, |is_open| !*is_open)
            .unwrap();
        assert!(*open, "nobody opened the gate");
    }

    /// Releases the waiting threads, and lets later ones pass.
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }
}

/// Waits until a condition holds; checks it every two milliseconds.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < GUARD, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A clock that advances by a millisecond each time it is read.
#[derive(Clone, Debug)]
pub(crate) struct TickingClock(FakeClock);

impl TickingClock {
    pub(crate) fn new() -> TickingClock {
        TickingClock(FakeClock::new())
    }

    /// Returns how often the clock was read, which is also the time since its start in
    /// milliseconds.
    pub(crate) fn looks(&self) -> u64 {
        self.0.looks()
    }
}

impl Clock for TickingClock {
    fn now(&self) -> Instant {
        self.0.jump(Duration::from_millis(1));
        self.0.now()
    }
}

/// Runs `act` on another thread and returns its value.
///
/// # Panics
///
/// Panics if `act` panics or does not end within [`GUARD`].
#[track_caller]
pub(crate) fn ends<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    let thread = std::thread::spawn(move || send.send(act()));
    match receive.recv_timeout(GUARD) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("it waits for something that does not come"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it ended without a value"))
        }
    }
}
