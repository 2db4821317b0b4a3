//! Tests of admission.

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
    admission.arrive(&named(name), Share::Interactive, Kind::Search)
}

#[test]
fn a_client_with_several_queries_has_low_priority() {
    let mut admission = Admission::new(Bounds::new(4, 8));
    let first = ticket(arrive(&mut admission, "a"));
    assert!(!admission.is_low_priority(&named("a")), "one is no flood");
    let second = ticket(arrive(&mut admission, "a"));
    let third = ticket(arrive(&mut admission, "a"));
    ticket(arrive(&mut admission, "b"));
    assert!(admission.is_low_priority(&named("a")) && !admission.is_low_priority(&named("b")));
    admission.leave(first, 1);
    assert!(
        admission.is_low_priority(&named("a")),
        "one runs and one waits, or both run"
    );
    admission.leave(second, 1);
    assert!(!admission.is_low_priority(&named("a")));
    admission.leave(third, 1);
    assert!(!admission.is_low_priority(&named("a")) && !admission.is_low_priority(&named("c")));
}

#[test]
fn queries_run_up_to_the_bound_then_wait_then_are_busy() {
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
fn a_client_has_no_more_than_its_share_of_places() {
    let mut admission = Admission::new(Bounds::new(4, 10));
    for _ in 0..2 {
        assert!(matches!(arrive(&mut admission, "a"), Arrival::Admitted(_)));
    }
    assert!(matches!(
        arrive(&mut admission, "a"),
        Arrival::Queued { .. }
    ));
    // Another client's query runs, although one waits.
    assert!(matches!(arrive(&mut admission, "b"), Arrival::Admitted(_)));
}

#[test]
fn a_flood_delays_its_own_client_only() {
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
fn cancelled_queries_cost_their_client_nothing() {
    let mut admission = Admission::new(Bounds::new(1, 100));
    let running = ticket(arrive(&mut admission, "x"));
    // Like a search box that replaces each query by the next one.
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
fn the_shares_of_a_long_run_are_those_of_the_weights() {
    let mut admission = Admission::new(Bounds::new(1, 1000));
    let mut owner = BTreeMap::new();
    let first = ticket(arrive(&mut admission, "x"));
    for _ in 0..200 {
        let batch = admission.arrive(&named("batch"), Share::Batch, Kind::Search);
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
fn no_client_fills_the_queue_alone() {
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
    // Two waiting queries each are even.
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
fn busy_names_a_reasonable_time_to_retry() {
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
    fn admission_keeps_its_bounds_and_loses_no_query_whatever_happens(
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
        // Every waiting query runs in the end.
        while let Some(one) = running.pop() {
            let next = admission.leave(one, 1);
            waiting.retain(|one| !next.contains(one));
            running.extend(next);
        }
        prop_assert!(waiting.is_empty());
        prop_assert_eq!(admission.clients(), 0);
    }
}

/// A simulated machine: a query runs for as long as its kind takes. Its clock is a number.
struct Machine {
    admission: Admission,
    now_us: u64,
    /// The end of each running query.
    ends: BTreeMap<Ticket, u64>,
    /// The client, the kind and the start of each query.
    asked: BTreeMap<Ticket, (String, Kind, u64)>,
    /// How long tool calls waited.
    waits: Vec<u64>,
    answered: BTreeMap<String, u64>,
}

const QUESTION_US: u64 = 150_000;
const TOOL_US: u64 = 6_000;

fn takes(kind: Kind) -> u64 {
    match kind {
        Kind::Tool => TOOL_US,
        _ => QUESTION_US,
    }
}

impl Machine {
    fn new(bounds: Bounds) -> Machine {
        Machine {
            admission: Admission::new(bounds),
            now_us: 0,
            ends: BTreeMap::new(),
            asked: BTreeMap::new(),
            waits: Vec::new(),
            answered: BTreeMap::new(),
        }
    }

    fn ask(&mut self, client: &str, kind: Kind) {
        let arrival = self
            .admission
            .arrive(&named(client), Share::Interactive, kind);
        let runs = matches!(arrival, Arrival::Admitted(_));
        let ticket = ticket(arrival);
        self.asked
            .insert(ticket, (client.to_string(), kind, self.now_us));
        if runs {
            self.begin(ticket);
        }
    }

    fn begin(&mut self, ticket: Ticket) {
        let (_, kind, received_at) = &self.asked[&ticket];
        if *kind == Kind::Tool {
            self.waits.push(self.now_us - received_at);
        }
        self.ends.insert(ticket, self.now_us + takes(*kind));
    }

    /// Advances to the next end; the client repeats its query.
    fn step(&mut self) {
        let (ticket, end) = self
            .ends
            .iter()
            .min_by_key(|(ticket, end)| (**end, **ticket))
            .unwrap();
        let (ticket, end) = (*ticket, *end);
        self.ends.remove(&ticket);
        self.now_us = end;
        let (client, kind, _) = self.asked.remove(&ticket).unwrap();
        for next in self.admission.leave(ticket, takes(kind)) {
            self.begin(next);
        }
        *self.answered.entry(client.clone()).or_default() += 1;
        self.ask(&client, kind);
    }
}

#[test]
fn a_tool_call_waits_for_no_more_than_about_one_question() {
    for concurrent in [1, 2, 8] {
        let run = || {
            let mut machine = Machine::new(Bounds::new(concurrent, 1_000));
            for client in 0..64 {
                machine.ask(&format!("asks {client}"), Kind::Search);
            }
            machine.ask("tool", Kind::Tool);
            // Warm up until each kind was measured.
            while machine.answered.get("tool").is_none_or(|count| *count < 3) {
                machine.step();
            }
            machine.waits.clear();
            for _ in 0..5_000 {
                machine.step();
            }
            (machine.waits, machine.answered)
        };
        let (waits, answered) = run();
        let most = waits.iter().max().unwrap();
        assert!(*most <= QUESTION_US + TOOL_US, "{concurrent}: {most} us");
        // The other clients take turns equally.
        let of_questions = answered.iter().filter(|(client, _)| *client != "tool");
        let counts: Vec<u64> = of_questions.map(|(_, count)| *count).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(
            counts.len() == 64 && *least > 2 && most - least <= 2,
            "{counts:?}"
        );
        assert_eq!(run(), (waits, answered), "it is the same each time");
    }
}

#[test]
fn many_short_calls_do_not_keep_a_long_question_waiting() {
    let mut machine = Machine::new(Bounds::new(1, 1_000));
    for client in 0..20 {
        machine.ask(&format!("tool {client}"), Kind::Tool);
    }
    machine.ask("asks", Kind::Search);
    for _ in 0..4_000 {
        machine.step();
    }
    // One of 21 clients gets a share of the time, not of the turns.
    let share = machine.answered["asks"] * QUESTION_US * 100 / machine.now_us;
    assert!((3..=7).contains(&share), "{share} percent");
}

#[test]
fn questions_leave_one_place_free_and_the_last_of_them_waits() {
    let mut admission = Admission::new(Bounds {
        concurrent: 2,
        per_client: 2,
        depth: 1,
    });
    let ask = |admission: &mut Admission, name: &str, kind| {
        admission.arrive(&named(name), Share::Interactive, kind)
    };
    for (kind, took) in [(Kind::Search, QUESTION_US), (Kind::Tool, TOOL_US)] {
        let first = ticket(ask(&mut admission, "a", kind));
        admission.leave(first, took);
    }
    assert!(matches!(
        ask(&mut admission, "a", Kind::Search),
        Arrival::Admitted(_)
    ));
    let second = ask(&mut admission, "b", Kind::Search);
    assert!(
        matches!(second, Arrival::Queued { .. }),
        "the other place is not for it"
    );
    assert!(matches!(
        ask(&mut admission, "c", Kind::Tool),
        Arrival::Admitted(_)
    ));
    assert_eq!(ask(&mut admission, "d", Kind::Search), Arrival::Busy);
    match ask(&mut admission, "e", Kind::Tool) {
        Arrival::Queued { instead_of, .. } => assert_eq!(instead_of, Some(ticket(second))),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        ask(&mut admission, "f", Kind::Tool),
        Arrival::Busy,
        "none is longer"
    );
}
