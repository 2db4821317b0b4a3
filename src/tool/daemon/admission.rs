//! Admission: decides which query runs, waits or is refused.
//!
//! This module owns the limits on running and waiting queries, and fairness between clients. It
//! knows neither threads nor sockets nor clocks: the gate reports arrivals and ends, and gets back
//! which queries run next.
//!
//! Clients take turns by *weighted fair queueing*. Each query has a start and an end in virtual
//! time: it starts where its client's previous query ends, and the earliest end runs first. The
//! length of a query is the mean duration of its kind, so a short query does not wait behind all
//! long ones. A client with many queries waits behind itself; others pass.
//!
//! If several queries may run at once, queries of long kinds never take all places. If a long query
//! is next, a short query of a client without other queries runs before it, but not twice in a row.
//! A decision takes time in proportion to the number of waiting clients, which is at most the depth
//! of the queue.

use std::collections::{BTreeMap, VecDeque};

use super::limits::{MAX_CONCURRENT_QUERIES, MAX_QUERY_QUEUE_DEPTH};
use crate::tool::searcher::to_usize;

/// The virtual time of one microsecond of a client with weight one.
const UNIT: u64 = 720;

/// The assumed duration of a kind that was not measured yet, in microseconds.
const UNKNOWN_US: u64 = 50_000;

/// The shortest and the longest duration that a query is expected to take, in microseconds.
const COST_US: (u64, u64) = (100, 60_000_000);

/// A kind is long if it takes more than this many times as long as the shortest one.
const LONG: u64 = 4;

/// The shortest and the longest retry delay, in milliseconds.
const RETRY_MS: (u64, u64) = (25, 5_000);

/// The client that a query belongs to. Unnamed clients of a user count as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// A client with a name that it chose.
    Named(String),
    /// All unnamed clients of a user, by user id.
    OfUser(u32),
}

/// The share that a client gets in proportion to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// A person or program waits for each answer.
    #[default]
    Interactive,
    /// Background work that can wait.
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

/// The kind of a query. Queries of one kind take about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call of a tool.
    Tool,
    /// A search of a person, answered in full.
    Person,
    /// A search with ranked results.
    Search,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Tool, Kind::Person, Kind::Search];
}

/// Identifies a query that runs or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The decision about a query that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The query runs.
    Admitted(Ticket),
    /// The query waits. It may displace another one, which is now [busy](Arrival::Busy).
    Queued {
        /// The query that waits.
        ticket: Ticket,
        /// The displaced query. It is the last one of the client with the most waiting queries, or
        /// the long query that ends last.
        instead_of: Option<Ticket>,
    },
    /// The query is refused: it can neither run nor wait.
    Busy,
}

/// The limits on queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Queries that run at once.
    pub concurrent: usize,
    /// Queries of one client that run at once.
    pub per_client: usize,
    /// Queries that wait.
    pub depth: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::new(
            to_usize(MAX_CONCURRENT_QUERIES.default),
            to_usize(MAX_QUERY_QUEUE_DEPTH.default),
        )
    }
}

impl Bounds {
    /// Builds limits that let one client run half of all queries, but at least one.
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
    /// The start, in virtual time.
    start: u64,
    ticket: Ticket,
    /// The length, in virtual time.
    cost: u64,
    kind: Kind,
}

impl Waiting {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.cost)
    }
}

#[derive(Debug, Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<Waiting>,
    /// The end of the client's last query, in virtual time.
    end: u64,
}

/// Decides which queries run.
///
/// # Examples
///
/// ```
/// use forge_search::internal::tool::daemon::admission::{
///     Admission, Arrival, Bounds, Client, Kind, Share,
/// };
///
/// let mut admission = Admission::new(Bounds::new(1, 1));
/// let me = Client::Named("me".to_string());
/// let mut ask = |admission: &mut Admission| {
///     admission.arrive(&me, Share::Interactive, Kind::Search)
/// };
/// let Arrival::Admitted(first) = ask(&mut admission) else { panic!() };
/// let Arrival::Queued { ticket, .. } = ask(&mut admission) else { panic!() };
/// assert_eq!(ask(&mut admission), Arrival::Busy);
/// assert_eq!(admission.leave(first, 10), [ticket]);
/// ```
#[derive(Debug)]
pub struct Admission {
    bounds: Bounds,
    lanes: BTreeMap<Client, Lane>,
    running: BTreeMap<Ticket, (Client, Kind)>,
    waiting: BTreeMap<Ticket, Client>,
    /// The virtual time: the service that each active client has received so far.
    now: u64,
    next: u64,
    /// Whether the query that was admitted last passed one that was due.
    passed: bool,
    /// The mean duration of a query in microseconds, weighted towards recent ones.
    service_us: u64,
    /// The mean duration of each kind, once one was measured.
    kind_us: [Option<u64>; Kind::ALL.len()],
}

impl Admission {
    /// Builds an admission without any clients.
    pub fn new(bounds: Bounds) -> Admission {
        Admission {
            bounds,
            lanes: BTreeMap::new(),
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            now: 0,
            next: 0,
            passed: false,
            service_us: UNKNOWN_US,
            kind_us: [None; Kind::ALL.len()],
        }
    }

    /// Returns the limits.
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

    /// Returns how many clients are remembered: those with running or waiting queries, and recent
    /// ones.
    pub fn clients(&self) -> usize {
        self.lanes.len()
    }

    /// Decides whether a new query runs, waits or is refused.
    pub fn arrive(&mut self, client: &Client, share: Share, kind: Kind) -> Arrival {
        let mut instead_of = None;
        let may_run = self.running.len() < self.bounds.concurrent
            && self.lane(client).running < self.bounds.per_client
            && self.has_place_for(kind);
        if !may_run && self.waiting.len() >= self.bounds.depth {
            match self
                .longest_but(client)
                .or_else(|| self.costlier(client, kind))
            {
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
        let cost = self.expected_us(kind) * UNIT / share.weight();
        let lane = self.lane(client);
        let start = lane.end.max(now);
        lane.end = start.saturating_add(cost);
        let query = Waiting {
            start,
            ticket,
            cost,
            kind,
        };
        if may_run {
            self.admit(client.clone(), query);
            return Arrival::Admitted(ticket);
        }
        lane.waiting.push_back(query);
        self.waiting.insert(ticket, client.clone());
        Arrival::Queued { ticket, instead_of }
    }

    /// Records that a running query has ended after `took_us` microseconds, zero if it did nothing;
    /// returns the queries that run from now on.
    pub fn leave(&mut self, ticket: Ticket, took_us: u64) -> Vec<Ticket> {
        let Some((client, kind)) = self.running.remove(&ticket) else {
            return Vec::new();
        };
        if took_us > 0 {
            self.service_us = mean(self.service_us, took_us);
            let of_kind = &mut self.kind_us[kind as usize];
            *of_kind = Some(of_kind.map_or(took_us, |so_far| mean(so_far, took_us)));
        }
        let lane = self.lane(&client);
        lane.running = lane.running.saturating_sub(1);
        let admitted = self.admit_all();
        self.forget();
        admitted
    }

    /// Admits every query that may run.
    fn admit_all(&mut self) -> Vec<Ticket> {
        let mut admitted = Vec::new();
        while self.running.len() < self.bounds.concurrent {
            let Some(next) = self.next_one() else { break };
            admitted.push(next);
        }
        admitted
    }

    /// Returns the expected duration of a query of a kind, in microseconds.
    fn expected_us(&self, kind: Kind) -> u64 {
        let measured = self.kind_us[kind as usize].unwrap_or(UNKNOWN_US);
        measured.clamp(COST_US.0, COST_US.1)
    }

    /// Returns whether queries of a kind are known to take much longer than others.
    fn takes_long(&self, kind: Kind) -> bool {
        let shortest = self.kind_us.iter().flatten().min();
        let own = self.kind_us[kind as usize];
        own.zip(shortest)
            .is_some_and(|(own, shortest)| own > shortest.saturating_mul(LONG))
    }

    /// Returns whether one more query of a kind may run. Long kinds always leave one place.
    fn has_place_for(&self, kind: Kind) -> bool {
        let most = self.bounds.concurrent.saturating_sub(1).max(1);
        let long = |kind: Kind| self.takes_long(kind);
        !long(kind)
            || self
                .running
                .values()
                .filter(|(_, kind)| long(*kind))
                .count()
                < most
    }

    /// Removes a waiting query; returns false if it did not wait. It has cost nothing, so later
    /// queries of its client move forward by its length.
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

    /// Returns whether the queries of a client get low priority, since it has several here.
    pub fn is_low_priority(&self, client: &Client) -> bool {
        let lane = self.lanes.get(client);
        lane.is_some_and(|lane| lane.running + lane.waiting.len() > 1)
    }

    /// Returns the delay before a retry is worthwhile, in milliseconds.
    pub fn retry_after_ms(&self) -> u64 {
        let ahead = (self.waiting.len() + 1) as u64;
        let all = self.service_us.saturating_mul(ahead) / self.bounds.concurrent as u64;
        (all / 1000).clamp(RETRY_MS.0, RETRY_MS.1)
    }

    fn lane(&mut self, client: &Client) -> &mut Lane {
        // Not `entry` alone, which needs an owned key each time.
        if !self.lanes.contains_key(client) {
            self.lanes.insert(client.clone(), Lane::default());
        }
        self.lanes.entry(client.clone()).or_default()
    }

    /// Admits the next query: the one with the earliest end, of the clients below their limit.
    fn next_one(&mut self) -> Option<Ticket> {
        let most = self.bounds.per_client;
        let has_place = Kind::ALL.map(|kind| self.has_place_for(kind));
        // Only the first query of a client that has a place is a candidate.
        let first = |lane: &Lane| {
            let mut queries = lane.waiting.iter().enumerate();
            let (at, query) = queries.find(|(_, one)| has_place[one.kind as usize])?;
            Some((query.end(), query.ticket, at))
        };
        let may = self.lanes.iter().filter(|(_, lane)| lane.running < most);
        let all = may.filter_map(|(client, lane)| Some((first(lane)?, client, lane)));
        let by_turn = all.clone().min_by_key(|(query, ..)| *query)?;
        // Every second time, the only query of a client passes a long one if it is short.
        let is_long = |(&(_, _, at), lane): (&(u64, Ticket, usize), &Lane)| {
            let query = lane.waiting.get(at);
            query.is_some_and(|query| self.takes_long(query.kind))
        };
        let is_single = |lane: &Lane| lane.running + lane.waiting.len() == 1;
        let mut short = all.filter(|(query, _, lane)| is_single(lane) && !is_long((query, lane)));
        let passes = match !self.passed && is_long((&by_turn.0, by_turn.2)) {
            true => short.by_ref().min_by_key(|(query, ..)| *query),
            false => None,
        };
        let passed = passes.is_some();
        let ((_, ticket, at), client, _) = passes.unwrap_or(by_turn);
        let client = client.clone();
        self.passed = passed;
        let query = self.lane(&client).waiting.remove(at)?;
        self.waiting.remove(&ticket)?;
        self.admit(client, query);
        Some(ticket)
    }

    /// Runs a query and advances the virtual time. It advances by the query's length divided by the
    /// number of active clients, and at least to the start of the first waiting query.
    fn admit(&mut self, client: Client, query: Waiting) {
        self.lane(&client).running += 1;
        self.running.insert(query.ticket, (client, query.kind));
        let asks = |lane: &&Lane| lane.running > 0 || !lane.waiting.is_empty();
        let asking = self.lanes.values().filter(asks).count().max(1) as u64;
        let heads = self.lanes.values().filter_map(|lane| lane.waiting.front());
        let first = heads.map(|one| one.start).min();
        let now = self.now.saturating_add(query.cost / asking);
        self.now = now.max(first.unwrap_or(0));
    }

    /// Returns the long query that a new one may displace: the one that ends last. Only short
    /// queries of clients without waiting queries displace another one.
    fn costlier(&self, client: &Client, kind: Kind) -> Option<Ticket> {
        let has_none = self
            .lanes
            .get(client)
            .is_none_or(|lane| lane.waiting.is_empty());
        if self.takes_long(kind) || !has_none {
            return None;
        }
        let all = self.lanes.values().flat_map(|lane| &lane.waiting);
        let long = all.filter(|one| self.takes_long(one.kind));
        long.max_by_key(|one| (one.end(), one.ticket))
            .map(|one| one.ticket)
    }

    /// Returns the last waiting query of the client with the most waiting ones, if that client has
    /// more than this one would have. So no client fills the queue alone.
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

    /// Forgets inactive clients that would not have to wait longer for their past queries.
    fn forget(&mut self) {
        let (now, idle) = (self.now, self.running.is_empty() && self.waiting.is_empty());
        self.lanes.retain(|_, lane| {
            lane.running > 0 || !lane.waiting.is_empty() || (lane.end > now && !idle)
        });
    }
}

/// Returns a running mean with one more value. Older values count less.
fn mean(so_far: u64, value: u64) -> u64 {
    so_far.saturating_mul(15).saturating_add(value) / 16
}

#[cfg(test)]
mod tests;
