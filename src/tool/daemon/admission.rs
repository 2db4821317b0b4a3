//! Who is let in when.
//!
//! Owns the bounds on queries that run and that wait, and fairness between clients. It knows neither threads nor sockets nor clocks:
//! whoever uses it says what happens when, and is told who may go on.
//!
//! Clients take turns by *start-time fair queueing*: each query of a client starts, in a time of its own, where the one before it ends, and
//! the earliest start goes first. A client that asks for much waits behind itself; others pass. What asks for a place costs as much as the
//! number of clients that wait, at most the depth of the queue.

use std::collections::{BTreeMap, VecDeque};

use super::limits::{MAX_CONCURRENT_QUERIES, MAX_QUERY_QUEUE_DEPTH};

/// How far apart the starts of two queries of a client are whose share is one.
const UNIT: u64 = 720_720;

/// The shortest and the longest time after which a client is told to try again, in milliseconds.
const RETRY_MS: (u64, u64) = (25, 5_000);

/// Who asks. Clients that don't say share one name for each user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// One that gave itself a name.
    Named(String),
    /// One of a user, by number.
    OfUser(u32),
}

/// How large the share of a client is beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// Somebody waits for each answer.
    #[default]
    Interactive,
    /// Nobody does.
    Batch,
}

impl Share {
    fn weight(self) -> u64 {
        match self {
            Share::Interactive => 4,
            Share::Batch => 1,
        }
    }
}

/// A query that runs or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What becomes of a query that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It runs.
    Admitted(Ticket),
    /// It waits; if `instead_of` says so, in place of another one, which is now [busy](Arrival::Busy).
    Queued {
        /// The query.
        ticket: Ticket,
        /// The last one of the client that has most waiting.
        instead_of: Option<Ticket>,
    },
    /// It can neither run nor wait.
    Busy,
}

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Queries that run at once.
    pub concurrent: usize,
    /// Of these, queries of one client.
    pub per_client: usize,
    /// Queries that wait.
    pub depth: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Bounds::new(
            number(MAX_CONCURRENT_QUERIES.default),
            number(MAX_QUERY_QUEUE_DEPTH.default),
        )
    }
}

impl Bounds {
    /// Lets one client run half of all queries, but one at least.
    pub fn new(concurrent: usize, depth: usize) -> Bounds {
        let concurrent = concurrent.max(1);
        Bounds {
            concurrent,
            per_client: concurrent.div_ceil(2),
            depth,
        }
    }
}

/// A query that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Where it starts, in the time of the queue.
    start: u64,
    ticket: Ticket,
    /// How long it is, in that time.
    cost: u64,
}

#[derive(Debug, Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<Waiting>,
    /// Where the last query of this client ends, in the time of the queue.
    end: u64,
}

/// Lets queries in.
///
/// # Examples
///
/// ```
/// use forge_search::tool::daemon::admission::{Admission, Arrival, Bounds, Client, Share};
///
/// let mut admission = Admission::new(Bounds::new(1, 1));
/// let me = Client::Named("me".to_string());
/// let Arrival::Admitted(first) = admission.arrive(&me, Share::Interactive) else { panic!() };
/// let Arrival::Queued { ticket, .. } = admission.arrive(&me, Share::Interactive) else { panic!() };
/// assert_eq!(admission.arrive(&me, Share::Interactive), Arrival::Busy);
/// assert_eq!(admission.leave(first, 10), [ticket]);
/// ```
#[derive(Debug)]
pub struct Admission {
    bounds: Bounds,
    lanes: BTreeMap<Client, Lane>,
    running: BTreeMap<Ticket, Client>,
    waiting: BTreeMap<Ticket, Client>,
    /// The time of the queue: where the query started that was let in last.
    now: u64,
    next: u64,
    /// What a query takes, in microseconds: a mean that forgets.
    service_us: u64,
}

impl Admission {
    /// Begins with nobody.
    pub fn new(bounds: Bounds) -> Admission {
        Admission {
            bounds,
            lanes: BTreeMap::new(),
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            now: 0,
            next: 0,
            service_us: 50_000,
        }
    }

    /// Returns the bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Returns how many queries run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns how many queries wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns how many clients are known: those that have something running or waiting, or just had.
    pub fn clients(&self) -> usize {
        self.lanes.len()
    }

    /// Decides about a query that comes.
    pub fn arrive(&mut self, client: &Client, share: Share) -> Arrival {
        let mut instead_of = None;
        let may_run = self.running.len() < self.bounds.concurrent
            && self.lane(client).running < self.bounds.per_client;
        if !may_run && self.waiting.len() >= self.bounds.depth {
            match self.longest_but(client) {
                Some(victim) => {
                    self.give_up(victim);
                    instead_of = Some(victim);
                }
                None => {
                    self.forget();
                    return Arrival::Busy;
                }
            }
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        let now = self.now;
        let lane = self.lane(client);
        let (start, cost) = (lane.end.max(now), UNIT / share.weight());
        lane.end = start.saturating_add(cost);
        if may_run {
            lane.running += 1;
            self.now = start;
            self.running.insert(ticket, client.clone());
            return Arrival::Admitted(ticket);
        }
        lane.waiting.push_back(Waiting {
            start,
            ticket,
            cost,
        });
        self.waiting.insert(ticket, client.clone());
        Arrival::Queued { ticket, instead_of }
    }

    /// Notes that a query has ended that ran, after so many microseconds; returns those that run from now on.
    pub fn leave(&mut self, ticket: Ticket, took_us: u64) -> Vec<Ticket> {
        let Some(client) = self.running.remove(&ticket) else {
            return Vec::new();
        };
        self.service_us = (self.service_us.saturating_mul(15).saturating_add(took_us)) / 16;
        let lane = self.lane(&client);
        lane.running = lane.running.saturating_sub(1);
        let mut admitted = Vec::new();
        while self.running.len() < self.bounds.concurrent {
            let Some(next) = self.next_one() else { break };
            admitted.push(next);
        }
        self.forget();
        admitted
    }

    /// Notes that a query does not wait any more. Returns false if it did not. It has cost nothing, so those that its client asked after it
    /// come that much earlier.
    pub fn give_up(&mut self, ticket: Ticket) -> bool {
        let Some(client) = self.waiting.remove(&ticket) else {
            return false;
        };
        let lane = self.lane(&client);
        if let Some(at) = lane.waiting.iter().position(|one| one.ticket == ticket) {
            let cost = lane.waiting.remove(at).map_or(0, |one| one.cost);
            for later in lane.waiting.iter_mut().skip(at) {
                later.start = later.start.saturating_sub(cost);
            }
            lane.end = lane.end.saturating_sub(cost);
        }
        self.forget();
        true
    }

    /// Returns whether the queries of a client give way to those of others: it has several here.
    pub fn stands_back(&self, client: &Client) -> bool {
        let lane = self.lanes.get(client);
        lane.is_some_and(|lane| lane.running + lane.waiting.len() > 1)
    }

    /// Returns in how many milliseconds it is worth trying again.
    pub fn retry_after_ms(&self) -> u64 {
        let ahead = (self.waiting.len() + 1) as u64;
        let all = self.service_us.saturating_mul(ahead) / self.bounds.concurrent as u64;
        (all / 1000).clamp(RETRY_MS.0, RETRY_MS.1)
    }

    fn lane(&mut self, client: &Client) -> &mut Lane {
        // Not `entry`, which needs a key of its own each time.
        if !self.lanes.contains_key(client) {
            self.lanes.insert(client.clone(), Lane::default());
        }
        self.lanes.entry(client.clone()).or_default()
    }

    /// Lets in whoever is next: the earliest start, of those who may run another one.
    fn next_one(&mut self) -> Option<Ticket> {
        let most = self.bounds.per_client;
        let may = self.lanes.values_mut().filter(|lane| lane.running < most);
        let first = |lane: &&mut Lane| lane.waiting.front().map(|one| (one.start, one.ticket));
        let lane = may
            .filter(|lane| !lane.waiting.is_empty())
            .min_by_key(first)?;
        let Waiting { start, ticket, .. } = lane.waiting.pop_front()?;
        lane.running += 1;
        self.now = self.now.max(start);
        let client = self.waiting.remove(&ticket)?;
        self.running.insert(ticket, client);
        Some(ticket)
    }

    /// Returns the last waiting query of the client that has most of them, if that is more than this one would have: so nobody fills the
    /// queue alone.
    fn longest_but(&self, client: &Client) -> Option<Ticket> {
        let own = self.lanes.get(client).map_or(0, |lane| lane.waiting.len());
        let (_, longest) = self
            .lanes
            .iter()
            .max_by_key(|(_, lane)| lane.waiting.len())?;
        let more = longest.waiting.len() > own + 1;
        longest
            .waiting
            .back()
            .filter(|_| more)
            .map(|one| one.ticket)
    }

    /// Forgets clients that have nothing here and whose turn would not come later for what they had.
    fn forget(&mut self) {
        let (now, idle) = (self.now, self.running.is_empty() && self.waiting.is_empty());
        self.lanes.retain(|_, lane| {
            lane.running > 0 || !lane.waiting.is_empty() || (lane.end > now && !idle)
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str) -> Client {
        Client::Named(name.to_string())
    }

    fn ticket(arrival: Arrival) -> Ticket {
        match arrival {
            Arrival::Admitted(ticket) | Arrival::Queued { ticket, .. } => ticket,
            Arrival::Busy => panic!("busy"),
        }
    }

    fn arrive(admission: &mut Admission, name: &str) -> Arrival {
        admission.arrive(&named(name), Share::Interactive)
    }

    #[test]
    fn ggrep_whoever_has_several_queries_here_stands_back() {
        let mut admission = Admission::new(Bounds::new(4, 8));
        let first = ticket(arrive(&mut admission, "a"));
        assert!(!admission.stands_back(&named("a")), "one is no flood");
        let second = ticket(arrive(&mut admission, "a"));
        let third = ticket(arrive(&mut admission, "a"));
        ticket(arrive(&mut admission, "b"));
        assert!(admission.stands_back(&named("a")) && !admission.stands_back(&named("b")));
        admission.leave(first, 1);
        assert!(
            admission.stands_back(&named("a")),
            "one runs and one waits, or both run"
        );
        admission.leave(second, 1);
        assert!(!admission.stands_back(&named("a")));
        admission.leave(third, 1);
        assert!(!admission.stands_back(&named("a")) && !admission.stands_back(&named("c")));
    }

    #[test]
    fn ggrep_queries_run_up_to_the_bound_then_wait_then_are_busy() {
        let mut admission = Admission::new(Bounds {
            concurrent: 2,
            per_client: 2,
            depth: 2,
        });
        let first = ticket(arrive(&mut admission, "a"));
        assert!(matches!(arrive(&mut admission, "a"), Arrival::Admitted(_)));
        let third = arrive(&mut admission, "a");
        assert!(matches!(
            third,
            Arrival::Queued {
                instead_of: None,
                ..
            }
        ));
        arrive(&mut admission, "a");
        assert_eq!(arrive(&mut admission, "a"), Arrival::Busy);
        assert_eq!((admission.running(), admission.waiting()), (2, 2));
        assert_eq!(admission.leave(first, 1), [ticket(third)]);
        assert_eq!(admission.leave(first, 1), [], "twice is once");
        assert_eq!((admission.running(), admission.waiting()), (2, 1));
    }

    #[test]
    fn ggrep_a_client_has_no_more_than_its_share_of_places() {
        let mut admission = Admission::new(Bounds::new(4, 10));
        for _ in 0..2 {
            assert!(matches!(arrive(&mut admission, "a"), Arrival::Admitted(_)));
        }
        assert!(matches!(
            arrive(&mut admission, "a"),
            Arrival::Queued { .. }
        ));
        // Another one is let in, although one waits.
        assert!(matches!(arrive(&mut admission, "b"), Arrival::Admitted(_)));
    }

    #[test]
    fn ggrep_a_flood_delays_its_own_client_only() {
        let mut admission = Admission::new(Bounds::new(1, 100));
        let mut running = ticket(arrive(&mut admission, "flood"));
        for _ in 0..50 {
            arrive(&mut admission, "flood");
        }
        for _ in 0..20 {
            let polite = ticket(arrive(&mut admission, "polite"));
            let mut turns = 0;
            while running != polite {
                running = admission.leave(running, 1000)[0];
                turns += 1;
            }
            assert!(turns <= 2, "{turns} turns");
        }
    }

    #[test]
    fn ggrep_what_was_given_up_has_cost_nothing() {
        let mut admission = Admission::new(Bounds::new(1, 100));
        let running = ticket(arrive(&mut admission, "x"));
        // As somebody types who takes each question back for the next one.
        for _ in 0..50 {
            let given_up = ticket(arrive(&mut admission, "types"));
            assert!(admission.give_up(given_up));
        }
        let kept = ticket(arrive(&mut admission, "types"));
        let between = ticket(arrive(&mut admission, "types"));
        let last = ticket(arrive(&mut admission, "types"));
        let others: Vec<Ticket> = (0..2)
            .map(|_| ticket(arrive(&mut admission, "other")))
            .collect();
        assert!(admission.give_up(between));
        assert_eq!(admission.leave(running, 1), [kept]);
        assert_eq!(admission.leave(kept, 1), [others[0]]);
        assert_eq!(admission.leave(others[0], 1), [last]);
        assert_eq!(admission.leave(last, 1), [others[1]]);
    }

    #[test]
    fn ggrep_the_shares_of_a_long_run_are_those_of_the_weights() {
        let mut admission = Admission::new(Bounds::new(1, 1000));
        let mut owner = BTreeMap::new();
        let first = ticket(arrive(&mut admission, "x"));
        for _ in 0..200 {
            let batch = admission.arrive(&named("batch"), Share::Batch);
            owner.insert(ticket(batch), "batch");
            owner.insert(ticket(arrive(&mut admission, "asks")), "asks");
        }
        let mut running = first;
        let mut asks = 0;
        for _ in 0..100 {
            running = admission.leave(running, 1)[0];
            asks += usize::from(owner[&running] == "asks");
        }
        assert!((78..=82).contains(&asks), "{asks} of 100");
    }

    #[test]
    fn ggrep_nobody_fills_the_queue_alone() {
        let mut admission = Admission::new(Bounds::new(1, 4));
        arrive(&mut admission, "flood");
        let mut last = None;
        for _ in 0..4 {
            last = Some(ticket(arrive(&mut admission, "flood")));
        }
        assert_eq!(arrive(&mut admission, "flood"), Arrival::Busy);
        match arrive(&mut admission, "polite") {
            Arrival::Queued { instead_of, .. } => assert_eq!(instead_of, last),
            other => panic!("{other:?}"),
        }
        assert_eq!(admission.waiting(), 4);
        // Two against two is even.
        assert!(matches!(
            arrive(&mut admission, "polite"),
            Arrival::Queued { .. }
        ));
        assert_eq!(arrive(&mut admission, "polite"), Arrival::Busy);
    }

    #[test]
    fn what_gives_up_waits_no_more() {
        let mut admission = Admission::new(Bounds::new(1, 4));
        let first = ticket(arrive(&mut admission, "a"));
        let second = ticket(arrive(&mut admission, "a"));
        let third = ticket(arrive(&mut admission, "b"));
        assert!(admission.give_up(second));
        assert!(!admission.give_up(second));
        assert!(!admission.give_up(first), "it runs");
        assert_eq!(admission.leave(first, 1), [third]);
        assert_eq!(admission.leave(third, 1), []);
        assert_eq!(admission.clients(), 0);
    }

    #[test]
    fn ggrep_busy_says_when_to_come_again_within_reason() {
        let mut admission = Admission::new(Bounds::new(1, 100));
        let first = ticket(arrive(&mut admission, "a"));
        let idle = admission.retry_after_ms();
        for _ in 0..50 {
            arrive(&mut admission, "a");
        }
        assert!(admission.retry_after_ms() > idle);
        admission.leave(first, u64::MAX);
        assert_eq!(admission.retry_after_ms(), RETRY_MS.1);
    }

    proptest! {
        #[test]
        fn ggrep_whatever_happens_the_bounds_hold_and_nobody_is_lost(
            steps in prop::collection::vec((0u8..4, 0u8..5, any::<prop::sample::Index>()), 0..200),
            concurrent in 1usize..4,
            depth in 0usize..6,
        ) {
            let bounds = Bounds::new(concurrent, depth);
            let mut admission = Admission::new(bounds);
            let (mut running, mut waiting) = (Vec::new(), Vec::new());
            for (step, client, which) in steps {
                match step {
                    0 | 1 => match arrive(&mut admission, &client.to_string()) {
                        Arrival::Admitted(ticket) => running.push(ticket),
                        Arrival::Queued { ticket, instead_of } => {
                            waiting.retain(|one| Some(*one) != instead_of);
                            waiting.push(ticket);
                        }
                        Arrival::Busy => prop_assert_eq!(waiting.len(), depth),
                    },
                    2 if !running.is_empty() => {
                        let one = running.swap_remove(which.index(running.len()));
                        for next in admission.leave(one, 1000) {
                            prop_assert!(waiting.contains(&next));
                            waiting.retain(|one| *one != next);
                            running.push(next);
                        }
                    }
                    3 if !waiting.is_empty() => {
                        let one = waiting.swap_remove(which.index(waiting.len()));
                        prop_assert!(admission.give_up(one));
                    }
                    _ => {}
                }
                prop_assert_eq!(admission.running(), running.len());
                prop_assert_eq!(admission.waiting(), waiting.len());
                prop_assert!(running.len() <= concurrent && waiting.len() <= depth);
                prop_assert!(admission.clients() <= 5);
            }
            // Everybody who waits gets in.
            while let Some(one) = running.pop() {
                let next = admission.leave(one, 1);
                waiting.retain(|one| !next.contains(one));
                running.extend(next);
            }
            prop_assert!(waiting.is_empty());
            prop_assert_eq!(admission.clients(), 0);
        }
    }
}
