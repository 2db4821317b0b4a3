//! The barrier: proves that all changes before a call were reported.
//!
//! This module assigns the numbers of cookies and decides which caller touches one. It does not
//! know how a cookie's event arrives.

use std::io;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use thiserror::Error;

use super::{Watcher, lock};

/// Lets callers wait until all changes before their call were reported. Each caller needs a cookie
/// touched after its call began. Callers that arrive while a cookie is being touched share the next
/// one.
#[derive(Debug, Default)]
pub struct Barrier {
    state: Mutex<State>,
    changed: Condvar,
}

/// The state of the cookies. Numbers are never reused, not even after a failed touch.
#[derive(Debug, Default)]
struct State {
    /// The number of the last cookie that a caller began to touch.
    begun: u64,
    /// A caller is touching that cookie.
    is_touching: bool,
    /// The highest number that was touched successfully.
    touched: u64,
    /// The highest number that arrived.
    heard: u64,
    is_down: bool,
}

/// The reason why a caller did not get through.
#[derive(Debug, Error)]
pub enum BarrierError {
    /// The cookie did not arrive in time.
    #[error("the watcher did not catch up in time")]
    Late,
    /// The watcher is down.
    #[error("the watcher is down")]
    Down,
    /// The watcher's events have no common order.
    #[error(
        "this system reports changes in no fixed order, so the watcher can't tell when it has \
         seen all of them"
    )]
    Unordered,
    /// The cookie could not be touched.
    #[error("cannot touch the cookie: {0}")]
    Touch(#[source] io::Error),
}

impl Barrier {
    /// Creates a barrier for one watcher.
    pub fn new() -> Barrier {
        Barrier::default()
    }

    /// Records that the event of cookie `n` arrived.
    pub fn cookie_arrived(&self, n: u64) {
        let mut state = lock(&self.state);
        state.heard = state.heard.max(n);
        drop(state);
        self.changed.notify_all();
    }

    /// Records that no more events will arrive. All current and later callers fail.
    pub fn down(&self) {
        lock(&self.state).is_down = true;
        self.changed.notify_all();
    }

    /// Returns once all changes before the call were reported to the
    /// [`FsEventHandler`](super::FsEventHandler) of `watcher`, which passes the numbers of cookies
    /// to [`cookie_arrived`](Barrier::cookie_arrived).
    ///
    /// Waits at most `budget` for the cookie, and before that at most `budget` for another caller's
    /// system call.
    ///
    /// # Errors
    ///
    /// [`BarrierError`]; nothing is proven then.
    pub fn pass(&self, watcher: &dyn Watcher, budget: Duration) -> Result<(), BarrierError> {
        if !watcher.is_ordered() {
            return Err(BarrierError::Unordered);
        }
        let mut state = lock(&self.state);
        // The cookie `begun` may have been touched before this call.
        let needed = state.begun + 1;
        loop {
            if state.is_down {
                return Err(BarrierError::Down);
            }
            if state.heard >= needed {
                return Ok(());
            }
            if state.may_touch(needed) {
                state.begun += 1;
                state.is_touching = true;
                let n = state.begun;
                drop(state);
                let touched = watcher.touch(n);
                state = lock(&self.state);
                state.is_touching = false;
                if touched.is_ok() {
                    state.touched = n;
                }
                // The next caller may touch a cookie.
                self.changed.notify_all();
                touched.map_err(BarrierError::Touch)?;
                continue;
            }
            let waits = |state: &mut State| {
                !state.is_down && state.heard < needed && !state.may_touch(needed)
            };
            let waited = self.changed.wait_timeout_while(state, budget, waits);
            let (after, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            state = after;
            if timeout.timed_out() {
                return Err(BarrierError::Late);
            }
        }
    }
}

impl State {
    /// Returns true if a caller that needs at least cookie `needed` has to touch one.
    fn may_touch(&self, needed: u64) -> bool {
        !self.is_touching && self.touched < needed
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::mpsc;

    use super::super::WatchError;
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Passes touches to the test, which decides when and how they end.
    struct Slow {
        touches: mpsc::SyncSender<u64>,
        answers: Mutex<mpsc::Receiver<io::Result<()>>>,
    }

    impl Watcher for Slow {
        fn watch(&self, _dir: &Path) -> Result<(), WatchError> {
            Ok(())
        }
        fn watched(&self) -> usize {
            0
        }
        fn touch(&self, n: u64) -> io::Result<()> {
            self.touches.send(n).unwrap();
            lock(&self.answers).recv().unwrap()
        }
        fn is_ordered(&self) -> bool {
            true
        }
        fn mounts_changed(&self) -> bool {
            false
        }
    }

    fn slow() -> (Slow, mpsc::Receiver<u64>, mpsc::SyncSender<io::Result<()>>) {
        let (touches, touched) = mpsc::sync_channel(100);
        let (answer, answers) = mpsc::sync_channel(100);
        let answers = Mutex::new(answers);
        (Slow { touches, answers }, touched, answer)
    }

    #[test]
    fn a_caller_waits_for_a_cookie_of_its_own_time() {
        let (watcher, touched, answer) = slow();
        let barrier = Barrier::new();
        answer.send(Ok(())).unwrap();
        let late = barrier.pass(&watcher, Duration::ZERO);
        assert!(matches!(late, Err(BarrierError::Late)), "{late:?}");
        assert_eq!(touched.recv().unwrap(), 1);
        // Cookie 1 arrives now. It proves nothing to callers that came after its touch.
        barrier.cookie_arrived(1);
        answer.send(Ok(())).unwrap();
        let late = barrier.pass(&watcher, Duration::ZERO);
        assert!(matches!(late, Err(BarrierError::Late)), "{late:?}");
        assert_eq!(touched.recv().unwrap(), 2);
        // A later cookie serves as well, in case one is lost.
        std::thread::scope(|scope| {
            let caller = scope.spawn(|| barrier.pass(&watcher, LONG));
            assert_eq!(touched.recv().unwrap(), 3);
            answer.send(Ok(())).unwrap();
            barrier.cookie_arrived(4);
            caller.join().unwrap().unwrap();
        });
    }

    #[test]
    fn those_who_come_during_a_touch_share_the_next_cookie() {
        let (watcher, touched, answer) = slow();
        let barrier = Barrier::new();
        let came = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| barrier.pass(&watcher, LONG));
            assert_eq!(touched.recv().unwrap(), 1);
            let others: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        came.fetch_add(1, Ordering::SeqCst);
                        barrier.pass(&watcher, LONG)
                    })
                })
                .collect();
            while came.load(Ordering::SeqCst) < 8 {
                std::thread::yield_now();
            }
            answer.send(Ok(())).unwrap();
            barrier.cookie_arrived(1);
            first.join().unwrap().unwrap();
            // The callers that came in time share one touch; each late caller needs at most one
            // more.
            let mut last = 1;
            while others.iter().any(|other| !other.is_finished()) {
                if let Ok(n) = touched.recv_timeout(Duration::from_millis(1)) {
                    assert_eq!(n, last + 1, "one after the other");
                    last = n;
                    answer.send(Ok(())).unwrap();
                    barrier.cookie_arrived(n);
                }
            }
            for other in others {
                other.join().unwrap().unwrap();
            }
            assert!((2..=9).contains(&last), "{last}");
        });
    }

    #[test]
    fn a_failed_touch_fails_the_one_who_touched_and_the_next_takes_over() {
        let (watcher, touched, answer) = slow();
        let barrier = Barrier::new();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| barrier.pass(&watcher, LONG));
            assert_eq!(touched.recv().unwrap(), 1);
            let second = scope.spawn(|| barrier.pass(&watcher, LONG));
            answer.send(Err(io::ErrorKind::NotFound.into())).unwrap();
            let error = first.join().unwrap().unwrap_err();
            assert!(matches!(error, BarrierError::Touch(_)), "{error:?}");
            assert_eq!(touched.recv().unwrap(), 2, "no number is used twice");
            answer.send(Ok(())).unwrap();
            barrier.cookie_arrived(2);
            second.join().unwrap().unwrap();
        });
    }

    #[test]
    fn nobody_gets_through_when_the_watcher_is_down() {
        let (watcher, touched, answer) = slow();
        let barrier = Barrier::new();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| barrier.pass(&watcher, LONG));
            assert_eq!(touched.recv().unwrap(), 1);
            answer.send(Ok(())).unwrap();
            barrier.down();
            let error = waiting.join().unwrap().unwrap_err();
            assert!(matches!(error, BarrierError::Down), "{error:?}");
        });
        let error = barrier.pass(&watcher, LONG).unwrap_err();
        assert!(matches!(error, BarrierError::Down), "{error:?}");
    }

    /// Many callers against a real queue: all changes of a caller are reported before it gets
    /// through.
    #[test]
    fn callers_at_once_each_get_their_proof() {
        struct Queue {
            sender: mpsc::Sender<u64>,
            touches: AtomicU64,
            ordered: AtomicBool,
        }
        impl Watcher for Queue {
            fn watch(&self, _dir: &Path) -> Result<(), WatchError> {
                Ok(())
            }
            fn watched(&self) -> usize {
                0
            }
            fn touch(&self, n: u64) -> io::Result<()> {
                self.touches.fetch_add(1, Ordering::SeqCst);
                self.sender.send(n).map_err(io::Error::other)
            }
            fn is_ordered(&self) -> bool {
                self.ordered.load(Ordering::SeqCst)
            }
            fn mounts_changed(&self) -> bool {
                false
            }
        }
        const EVENT: u64 = 1 << 32;
        let (sender, receiver) = mpsc::channel::<u64>();
        let queue = Queue {
            sender,
            touches: AtomicU64::new(0),
            ordered: AtomicBool::new(true),
        };
        let heard: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        let barrier = Barrier::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for message in receiver {
                    match message.checked_sub(EVENT) {
                        Some(from) => {
                            heard[(from % 8) as usize].fetch_add(1, Ordering::SeqCst);
                        }
                        None if message == 0 => break,
                        None => barrier.cookie_arrived(message),
                    }
                }
            });
            let callers: Vec<_> = (0..8u64)
                .map(|caller| {
                    let (queue, heard, barrier) = (&queue, &heard, &barrier);
                    scope.spawn(move || {
                        for round in 1..=1_000 {
                            queue.sender.send(EVENT + caller).unwrap();
                            barrier.pass(queue, LONG).unwrap();
                            let got = heard[caller as usize].load(Ordering::SeqCst);
                            assert_eq!(got, round);
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
            queue.sender.send(0).unwrap();
            assert!(ended.iter().all(Result::is_ok));
        });
        assert!(queue.touches.load(Ordering::SeqCst) <= 8_000);
        queue.ordered.store(false, Ordering::SeqCst);
        let error = barrier.pass(&queue, LONG).unwrap_err();
        assert!(matches!(error, BarrierError::Unordered), "{error:?}");
    }
}
