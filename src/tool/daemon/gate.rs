//! The gate: [`Admission`] for tasks that wait.
//!
//! Owns who is woken when. The decisions are admission's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use super::admission::{Admission, Arrival, Bounds, Client, Share, Ticket};
use super::reply::{ErrorCode, Failure};
use crate::exec::stop::Clock;

/// Why a query is refused.
const WAITING: &str = "too many queries are waiting";

/// What a query that waits is told.
enum Told {
    /// It may go on.
    Admitted,
    /// Another one waits in its place.
    Displaced,
}

struct Inside {
    admission: Admission,
    waiting: BTreeMap<Ticket, oneshot::Sender<Told>>,
}

/// Lets queries in, as many at once as there is room for.
#[derive(Clone)]
pub(super) struct Gate {
    inside: Arc<Mutex<Inside>>,
    clock: Arc<dyn Clock>,
}

/// A query that may run, until this is dropped.
pub(super) struct Permit {
    gate: Gate,
    ticket: Ticket,
    since: Instant,
    stands_back: bool,
    queued: bool,
}

impl Permit {
    /// Returns whether the query gives way to those of others, since its client has several here.
    pub(super) fn stands_back(&self) -> bool {
        self.stands_back
    }

    /// Returns whether the query had to wait for others.
    pub(super) fn was_queued(&self) -> bool {
        self.queued
    }
}

/// A query that waits; it gives up its place when this is dropped.
struct Place {
    gate: Gate,
    ticket: Option<Ticket>,
}

impl Gate {
    /// Opens a gate.
    pub(super) fn new(bounds: Bounds, clock: Arc<dyn Clock>) -> Gate {
        let inside = Inside {
            admission: Admission::new(bounds),
            waiting: BTreeMap::new(),
        };
        Gate {
            inside: Arc::new(Mutex::new(inside)),
            clock,
        }
    }

    /// Returns how many queries run, and how many wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let inside = self.lock();
        let admission = &inside.admission;
        (admission.running(), admission.waiting())
    }

    /// Waits until a query may run. Dropping the future gives up the place.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::Busy`], with the time after which it is worth trying again.
    pub(super) async fn enter(&self, client: &Client, share: Share) -> Result<Permit, Failure> {
        let (ticket, told) = {
            let mut inside = self.lock();
            match inside.admission.arrive(client, share) {
                Arrival::Admitted(ticket) => {
                    let stands_back = inside.admission.stands_back(client);
                    return Ok(self.permit(ticket, stands_back, false));
                }
                Arrival::Busy => return Err(inside.refuse(WAITING)),
                Arrival::Queued { ticket, instead_of } => {
                    if let Some(displaced) = instead_of.and_then(|one| inside.waiting.remove(&one))
                    {
                        // Whoever waited there may just have given up.
                        let _ = displaced.send(Told::Displaced);
                    }
                    let (sender, receiver) = oneshot::channel();
                    inside.waiting.insert(ticket, sender);
                    (ticket, receiver)
                }
            }
        };
        let mut place = Place {
            gate: self.clone(),
            ticket: Some(ticket),
        };
        match told.await {
            Ok(Told::Admitted) => {
                place.ticket = None;
                let stands_back = self.lock().admission.stands_back(client);
                Ok(self.permit(ticket, stands_back, true))
            }
            Ok(Told::Displaced) | Err(_) => {
                place.ticket = None;
                Err(self.lock().refuse(WAITING))
            }
        }
    }

    /// Returns the refusal of a query that did not even come this far.
    pub(super) fn refuse(&self, message: &str) -> Failure {
        self.lock().refuse(message)
    }

    fn permit(&self, ticket: Ticket, stands_back: bool, queued: bool) -> Permit {
        Permit {
            gate: self.clone(),
            ticket,
            since: self.clock.now(),
            stands_back,
            queued,
        }
    }

    fn leave(&self, ticket: Ticket, took_us: u64) {
        let mut inside = self.lock();
        let admitted = inside.admission.leave(ticket, took_us);
        for ticket in admitted {
            if let Some(waiting) = inside.waiting.remove(&ticket) {
                // Should it be gone, its place is given up, or left, when it notices.
                let _ = waiting.send(Told::Admitted);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn refuse(&self, message: &str) -> Failure {
        let mut failure = Failure::new(ErrorCode::Busy, message);
        failure.error.retry_after_ms = Some(self.admission.retry_after_ms());
        failure
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let took = self.gate.clock.now().saturating_duration_since(self.since);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.gate.leave(self.ticket, took_us);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let waited = {
            let mut inside = self.gate.lock();
            inside.waiting.remove(&ticket);
            inside.admission.give_up(ticket)
        };
        if !waited {
            // It was let in at this very moment.
            self.gate.leave(ticket, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::exec::stop::SystemClock;

    fn named(name: &str) -> Client {
        Client::Named(name.to_string())
    }

    fn run<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn ggrep_whoever_waits_goes_on_when_somebody_leaves() {
        run(async {
            let gate = Gate::new(Bounds::new(1, 1), Arc::new(SystemClock));
            let first = gate.enter(&named("a"), Share::Interactive).await.unwrap();
            let waiting = tokio::spawn({
                let gate = gate.clone();
                async move { gate.enter(&named("b"), Share::Interactive).await.is_ok() }
            });
            while gate.counts().1 == 0 {
                tokio::task::yield_now().await;
            }
            let busy = gate
                .enter(&named("c"), Share::Interactive)
                .await
                .err()
                .unwrap();
            assert_eq!(busy.error.code, ErrorCode::Busy);
            assert!(busy.error.retry_after_ms.is_some());
            drop(first);
            assert!(waiting.await.unwrap());
            assert_eq!(gate.counts(), (0, 0));
        });
    }

    #[test]
    fn ggrep_whoever_gives_up_takes_no_room() {
        run(async {
            let gate = Gate::new(Bounds::new(1, 1), Arc::new(SystemClock));
            let first = gate.enter(&named("a"), Share::Interactive).await.unwrap();
            let client = named("b");
            let late = tokio::time::timeout(
                Duration::from_millis(5),
                gate.enter(&client, Share::Interactive),
            );
            assert!(late.await.is_err());
            assert_eq!(gate.counts().1, 0);
            drop(first);
            assert_eq!(gate.counts().0, 0);
        });
    }

    #[test]
    fn ggrep_one_that_is_let_in_while_it_gives_up_leaves_again() {
        run(async {
            let gate = Gate::new(Bounds::new(1, 1), Arc::new(SystemClock));
            let first = gate.enter(&named("a"), Share::Interactive).await.unwrap();
            let client = named("b");
            let mut waiting = Box::pin(gate.enter(&client, Share::Interactive));
            let polled = tokio::time::timeout(Duration::from_millis(1), &mut waiting).await;
            assert!(polled.is_err());
            drop(first);
            assert_eq!(gate.counts().0, 1, "it was let in");
            drop(waiting);
            assert_eq!(gate.counts().0, 0);
        });
    }
}
