//! The gate: lets tasks wait for [`Admission`].
//!
//! This module owns the wake-ups of waiting queries. The server asks it for a permit; the decisions
//! are made by `admission`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::admission::{Admission, Arrival, Bounds, Client, Kind, Share, Ticket};
use super::refusals::Refusals;
use super::reply::{ErrorCode, Failure};
use crate::exec::stop::Clock;
use crate::format::mutex::lock;

/// The message of a refusal.
const WAITING: &str = "too many queries are waiting";

/// The message that ends a wait.
enum WaitEnd {
    /// The query may run.
    Admitted,
    /// Another query has displaced it.
    Displaced,
}

struct GateState {
    admission: Admission,
    refusals: Refusals,
    waiting: BTreeMap<Ticket, oneshot::Sender<WaitEnd>>,
}

/// Lets as many queries run at once as the limits allow.
#[derive(Clone)]
pub(super) struct Gate {
    inside: Arc<Mutex<GateState>>,
    clock: Arc<dyn Clock>,
}

/// A permit to run a query. Dropping it ends the query for admission.
pub(super) struct Permit {
    gate: Gate,
    ticket: Ticket,
    since: Instant,
    is_low_priority: bool,
    queued: bool,
}

impl Permit {
    /// Returns whether the query gets low priority, since its client has several here.
    pub(super) fn is_low_priority(&self) -> bool {
        self.is_low_priority
    }

    /// Returns whether the query had to wait for others.
    pub(super) fn was_queued(&self) -> bool {
        self.queued
    }
}

/// The decision about a query that arrives at the gate.
enum GateDecision {
    At(Permit),
    Waits(Ticket, oneshot::Receiver<WaitEnd>),
    /// The query is refused after this delay.
    Refused(Failure, Duration),
}

/// The place of a waiting query. Dropping it gives the place up.
struct QueueSlot {
    gate: Gate,
    ticket: Option<Ticket>,
}

impl Gate {
    /// Builds a gate.
    pub(super) fn new(bounds: Bounds, clock: Arc<dyn Clock>) -> Gate {
        let inside = GateState {
            admission: Admission::new(bounds),
            refusals: Refusals::default(),
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
    /// [`ErrorCode::Busy`], with the delay before a retry is worthwhile.
    pub(super) async fn enter(
        &self,
        client: &Client,
        share: Share,
        kind: Kind,
    ) -> Result<Permit, Failure> {
        let arrived = self.arrive(client, share, kind);
        let (ticket, told) = match arrived {
            GateDecision::At(permit) => return Ok(permit),
            GateDecision::Refused(failure, held) => {
                if !held.is_zero() {
                    tokio::time::sleep(held).await;
                }
                return Err(failure);
            }
            GateDecision::Waits(ticket, told) => (ticket, told),
        };
        let mut place = QueueSlot {
            gate: self.clone(),
            ticket: Some(ticket),
        };
        match told.await {
            Ok(WaitEnd::Admitted) => {
                place.ticket = None;
                let is_low_priority = self.lock().admission.is_low_priority(client);
                Ok(self.permit(ticket, is_low_priority, true))
            }
            Ok(WaitEnd::Displaced) | Err(_) => {
                place.ticket = None;
                Err(self.lock().refuse(WAITING))
            }
        }
    }

    /// Asks admission for a decision about a new query.
    fn arrive(&self, client: &Client, share: Share, kind: Kind) -> GateDecision {
        let mut inside = self.lock();
        match inside.admission.arrive(client, share, kind) {
            Arrival::Admitted(ticket) => {
                let is_low_priority = inside.admission.is_low_priority(client);
                GateDecision::At(self.permit(ticket, is_low_priority, false))
            }
            Arrival::Busy => {
                let now = self.clock.now();
                let retry_after_ms = inside.admission.retry_after_ms();
                let refusal = inside.refusals.refuse(client, retry_after_ms, now);
                let mut failure = Failure::new(ErrorCode::Busy, WAITING);
                failure.error.retry_after_ms = Some(refusal.retry_after_ms);
                GateDecision::Refused(failure, refusal.held)
            }
            Arrival::Queued { ticket, instead_of } => {
                if let Some(displaced) = instead_of.and_then(|one| inside.waiting.remove(&one)) {
                    // The displaced query may have been given up just now.
                    let _ = displaced.send(WaitEnd::Displaced);
                }
                let (sender, receiver) = oneshot::channel();
                inside.waiting.insert(ticket, sender);
                GateDecision::Waits(ticket, receiver)
            }
        }
    }

    /// Counts a refusal; returns the number of refusals to log now, if that is due.
    pub(super) fn count_refusal(&self) -> Option<u64> {
        self.lock().refusals.count(self.clock.now())
    }

    /// Returns the number of unlogged refusals if it is time to log them.
    pub(super) fn due_refusals(&self) -> Option<u64> {
        self.lock().refusals.due(self.clock.now())
    }

    /// Returns the refusal of a request that never entered the gate.
    pub(super) fn refuse(&self, message: &str) -> Failure {
        self.lock().refuse(message)
    }

    fn permit(&self, ticket: Ticket, is_low_priority: bool, queued: bool) -> Permit {
        Permit {
            gate: self.clone(),
            ticket,
            since: self.clock.now(),
            is_low_priority,
            queued,
        }
    }

    fn leave(&self, ticket: Ticket, took_us: u64) {
        let mut inside = self.lock();
        let admitted = inside.admission.leave(ticket, took_us);
        for ticket in admitted {
            if let Some(waiting) = inside.waiting.remove(&ticket) {
                // If the receiver is gone, its `QueueSlot` leaves in the query's stead.
                let _ = waiting.send(WaitEnd::Admitted);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        lock(&self.inside)
    }
}

impl GateState {
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

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let waited = {
            let mut inside = self.gate.lock();
            inside.waiting.remove(&ticket);
            inside.admission.give_up(ticket)
        };
        if !waited {
            // The query was admitted at this very moment.
            self.gate.leave(ticket, 0);
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn a_waiting_query_starts_when_another_one_leaves() {
        run(async {
            let gate = Gate::new(Bounds::new(1, 1), Arc::new(SystemClock));
            let first = gate
                .enter(&named("a"), Share::Interactive, Kind::Search)
                .await
                .unwrap();
            let waiting = tokio::spawn({
                let gate = gate.clone();
                async move {
                    gate.enter(&named("b"), Share::Interactive, Kind::Search)
                        .await
                        .is_ok()
                }
            });
            while gate.counts().1 == 0 {
                tokio::task::yield_now().await;
            }
            let busy = gate
                .enter(&named("c"), Share::Interactive, Kind::Search)
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
    fn a_cancelled_query_takes_no_room() {
        run(async {
            let gate = Gate::new(Bounds::new(1, 1), Arc::new(SystemClock));
            let first = gate
                .enter(&named("a"), Share::Interactive, Kind::Search)
                .await
                .unwrap();
            let client = named("b");
            let late = tokio::time::timeout(
                Duration::from_millis(5),
                gate.enter(&client, Share::Interactive, Kind::Search),
            );
            assert!(late.await.is_err());
            assert_eq!(gate.counts().1, 0);
            drop(first);
            assert_eq!(gate.counts().0, 0);
        });
    }

    #[test]
    fn a_query_that_is_admitted_while_it_is_cancelled_leaves_again() {
        run(async {
            let gate = Gate::new(Bounds::new(1, 1), Arc::new(SystemClock));
            let first = gate
                .enter(&named("a"), Share::Interactive, Kind::Search)
                .await
                .unwrap();
            let client = named("b");
            let mut waiting = Box::pin(gate.enter(&client, Share::Interactive, Kind::Search));
            let polled = tokio::time::timeout(Duration::from_millis(1), &mut waiting).await;
            assert!(polled.is_err());
            drop(first);
            assert_eq!(gate.counts().0, 1, "it was let in");
            drop(waiting);
            assert_eq!(gate.counts().0, 0);
        });
    }
}
