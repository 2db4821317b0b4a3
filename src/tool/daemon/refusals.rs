//! Refusals of queries because too many are waiting.
//!
//! This module owns the delays of clients that retry too early, and the rate at which refusals are
//! logged. It has no clock: callers pass the time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::admission::Client;

/// How many clients are remembered.
const CLIENTS: usize = 1_024;

/// The longest retry delay, in milliseconds.
const LONGEST_MS: u64 = 5_000;

/// The longest time for which a refusal is delayed.
const HELD: Duration = Duration::from_secs(1);

/// The shortest interval between log lines about refusals.
const LOGGED: Duration = Duration::from_secs(10);

/// The last refusal of a client: the end of its delay, and the delay that it got.
#[derive(Clone, Copy, Debug)]
struct LastRefusal {
    until: Instant,
    retry_after_ms: u64,
}

/// The refusal of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The delay before a retry is worthwhile, in milliseconds.
    pub(super) retry_after_ms: u64,
    /// How long the refusal is delayed, so that a client that retried too early has to wait.
    pub(super) held: Duration,
}

/// The refusals of a daemon.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    last_refusals: BTreeMap<Client, LastRefusal>,
    logged: Option<Instant>,
    unlogged: u64,
}

impl Refusals {
    /// Refuses a query. A client that retried too early gets twice its last delay, and gets the
    /// refusal only after the rest of that delay, up to [`HELD`].
    pub(super) fn refuse(&mut self, client: &Client, retry_after_ms: u64, now: Instant) -> Refusal {
        let before = self
            .last_refusals
            .get(client)
            .filter(|told| now < told.until);
        let refusal = match before {
            None => Refusal {
                retry_after_ms,
                held: Duration::ZERO,
            },
            Some(told) => Refusal {
                retry_after_ms: (told.retry_after_ms * 2)
                    .max(retry_after_ms)
                    .min(LONGEST_MS),
                held: told.until.saturating_duration_since(now).min(HELD),
            },
        };
        if self.last_refusals.len() >= CLIENTS {
            self.last_refusals.retain(|_, told| now < told.until);
        }
        if self.last_refusals.len() < CLIENTS || self.last_refusals.contains_key(client) {
            let until = now + refusal.held + Duration::from_millis(refusal.retry_after_ms);
            let told = LastRefusal {
                until,
                retry_after_ms: refusal.retry_after_ms,
            };
            self.last_refusals.insert(client.clone(), told);
        }
        refusal
    }

    /// Counts a refusal. Returns the number of unlogged refusals if they are to be logged now.
    pub(super) fn count(&mut self, now: Instant) -> Option<u64> {
        self.unlogged += 1;
        self.due(now)
    }

    /// Returns the number of unlogged refusals if they are to be logged now.
    pub(super) fn due(&mut self, now: Instant) -> Option<u64> {
        let since = self.logged.map(|at| now.saturating_duration_since(at));
        if self.unlogged == 0 || since.is_some_and(|since| since < LOGGED) {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::stop::{Clock, SystemClock};

    fn named(name: &str) -> Client {
        Client::Named(name.to_string())
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_client_that_retries_too_early_is_answered_later_and_told_to_wait_longer() {
        let mut refusals = Refusals::default();
        let mut now = SystemClock.now();
        let refused = |retry_after_ms, held| Refusal {
            retry_after_ms,
            held,
        };
        let me = named("me");
        assert_eq!(refusals.refuse(&me, 100, now), refused(100, ms(0)));
        now += ms(40);
        assert_eq!(refusals.refuse(&me, 100, now), refused(200, ms(60)));
        assert_eq!(
            refusals.refuse(&named("other"), 100, now),
            refused(100, ms(0))
        );
        // The client gets that refusal 60 ms later, and retries at once.
        now += ms(60);
        assert_eq!(refusals.refuse(&me, 100, now), refused(400, ms(200)));
        for _ in 0..10 {
            now += HELD;
            let refusal = refusals.refuse(&me, 100, now);
            assert!(refusal.held <= HELD && refusal.retry_after_ms <= LONGEST_MS);
        }
        // A client that has waited is treated like a new one.
        now += ms(LONGEST_MS) + HELD;
        assert_eq!(refusals.refuse(&me, 100, now), refused(100, ms(0)));
    }

    #[test]
    fn no_more_refused_clients_are_remembered_than_there_is_room_for() {
        let mut refusals = Refusals::default();
        let now = SystemClock.now();
        for client in 0..3 * CLIENTS {
            refusals.refuse(&named(&client.to_string()), 25, now);
        }
        assert_eq!(refusals.last_refusals.len(), CLIENTS);
        refusals.refuse(&named("late"), 25, now + ms(25));
        assert_eq!(refusals.last_refusals.len(), 1);
    }

    #[test]
    fn refusals_are_logged_once_and_then_counted() {
        let mut refusals = Refusals::default();
        let began = SystemClock.now();
        assert_eq!(refusals.due(began), None);
        assert_eq!(refusals.count(began), Some(1), "the first one at once");
        for n in 1..1_000 {
            assert_eq!(refusals.count(began + ms(n)), None);
        }
        assert_eq!(refusals.due(began + LOGGED - ms(1)), None);
        assert_eq!(refusals.due(began + LOGGED), Some(999));
        assert_eq!(refusals.due(began + 3 * LOGGED), None, "there are none");
        assert_eq!(refusals.count(began + 3 * LOGGED), Some(1));
    }
}
