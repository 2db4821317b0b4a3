//! Deadlines and cancellation: a call returns in time wherever it is, with an exact prefix of the
//! full answer.
//!
//! Calls read clocks of the tests. One advances by a millisecond with each reading, and a waiting
//! call reads it every few real milliseconds. The other one jumps when the test says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_search::internal::exec::stop::{CancelHandle, Clock};
use forge_search::internal::tool::error::ToolError;
use forge_search::internal::tool::request::SearchRequest;
use forge_search::internal::tool::response::SearchResponse;
use serde_json::{Value, json};

use crate::clocks::{FakeClock, Gate, TickingClock, ends, until};
use crate::hooked_engines::Hooked;
use crate::support::{Setup, Tree, check_response};

/// The number of clock readings allowed after the deadline: the grace period of the workers, and
/// one or two for the answer.
const GRACE: u64 = 40;

/// Runs a request; panics if the call does not end within the time of [`ends`].
fn call(
    setup: &Setup,
    request: Value,
    clock: impl Clock + 'static,
) -> Result<SearchResponse, ToolError> {
    let request = SearchRequest::from_value(request).unwrap();
    let (tool, mut context) = (setup.tool(), setup.context());
    context.clock = Arc::new(clock);
    let asked = request.clone();
    let answer = ends(move || tool.search(&request, &context));
    if let Ok(response) = &answer {
        check_response(&asked, response);
    }
    answer
}

/// Runs a request that cannot finish within `timeout_ms`, and checks that it ended then.
#[track_caller]
fn times_out(what: &str, setup: &Setup, mut request: Value, timeout_ms: u64) -> SearchResponse {
    request["timeout_ms"] = timeout_ms.into();
    let clock = TickingClock::new();
    let response = call(setup, request, clock.clone()).unwrap();
    let looks = clock.looks();
    println!("{what}: asked for {timeout_ms} looks at the clock, took {looks}");
    assert!(response.timed_out, "{what} was finished in {looks}");
    assert!(response.content.contains("timed out after"));
    assert!(looks < timeout_ms + GRACE, "{what}: {looks}");
    response
}

/// One line of 64 MiB, which cheap and expensive expressions alike have to read to its end.
fn huge_line() -> Tree {
    let line = b"abaabbab".repeat(8 << 20);
    Tree::of([("huge", line)])
}

/// Expressions that take long on the huge line unless something stops them. No match needs a
/// literal that the line lacks, because its absence would end the search at once.
const PATHOLOGICAL: &[&str] = &[
    "(a*)*(a|aa)*[^a]{20}b",
    "(?:a|b|ab|ba|aab){50}[c-z]",
    "[ab]{200}[c-z]",
    r"(\w+\w+)+\d",
    "(.*a){12}[c-z]",
    "(x+x+)+y|(a?){40}(b?){40}[c-z]",
];

#[test]
fn expensive_expressions_on_one_huge_line_end_at_the_deadline() {
    let tree = huge_line();
    let setup = tree.setup().generous();
    for pattern in PATHOLOGICAL {
        let response = times_out(pattern, &setup, json!({"pattern": pattern}), 60);
        assert_eq!(response.count, 0);
    }
}

#[test]
fn words_in_a_huge_line_of_letters_beyond_ascii_end_at_the_deadline() {
    // The automaton that can be interrupted does not handle Unicode word boundaries next to such
    // letters.
    let tree = Tree::of([("huge", "éa".repeat(12 << 20))]);
    let setup = tree.setup().generous();
    for pattern in [r"\bx+\b|\b(é|a){3,40}x\b", r"(\w+\b\w*)+[^\p{L}]"] {
        times_out(pattern, &setup, json!({"pattern": pattern}), 100);
    }
    let request = json!({"pattern": "(é|a){3,40}[0-9]", "word_regexp": true});
    times_out("words", &setup, request, 100);
}

#[test]
fn a_search_of_a_large_file_of_short_lines_ends_at_the_deadline() {
    let tree = Tree::of([("large", "abaab abbab\n".repeat(4 << 20))]);
    let setup = tree.setup().generous();
    times_out(
        "short lines",
        &setup,
        json!({"pattern": "([ab]{1,5} ?){30}[c-z]"}),
        60,
    );
}

#[test]
fn an_expression_that_is_expensive_to_compile_ends_at_the_deadline() {
    // Compiling can't be interrupted, so every accepted expression must compile quickly.
    let tree = Tree::of([("a", "x\n")]);
    let setup = tree.setup().generous();
    for pattern in [
        r"\w{40}",
        r"(\w{10}|\d{10}|\s{10}){3}",
        r"[\p{L}\p{N}]{30}",
        r"\W{60}",
        "(?:[a-z]{1,100}){1,90}",
    ] {
        let clock = TickingClock::new();
        let request = json!({"pattern": pattern, "timeout_ms": 1});
        let outcome = call(&setup, request, clock.clone());
        println!("{pattern}: {} looks at the clock", clock.looks());
        assert!(clock.looks() < 1 + GRACE, "{pattern}");
        match outcome {
            Ok(response) => assert!(response.timed_out, "{pattern}"),
            Err(error) => assert_eq!(error.code(), "bad_args", "{error}"),
        }
    }
}

#[test]
fn a_pipe_in_the_tree_is_not_waited_for() {
    let tree = Tree::of([("a", "m\n"), ("z", "m\n")]);
    tree.fifo("p").fifo("d/.ignore").file("d/x", "m\n");
    let request = json!({"pattern": "m", "hidden": true, "follow": true});
    let response = call(&tree.setup(), request, FakeClock::new()).unwrap();
    assert_eq!((response.count, response.timed_out), (3, false));
}

/// Returns an engine that lets the clock jump at the file `name`, and blocks there until the gate
/// opens.
fn stuck_at(name: &'static str, clock: &FakeClock, gate: &Gate) -> Hooked {
    let (clock, gate) = (clock.clone(), gate.clone());
    Hooked::new(move |files| {
        if files.iter().any(|file| file.found.name == name) {
            clock.jump(Duration::from_secs(3_600));
            gate.wait();
        }
        Ok(())
    })
}

#[test]
fn many_files_at_the_deadline_yield_an_exact_prefix() {
    let tree = Tree::new();
    for n in 0..400 {
        tree.file(&format!("d{}/{n:03}", n % 5), "before\nneedle\nafter\n");
    }
    let request = json!({"pattern": "needle", "context": 1, "timeout_ms": 1_000});
    let setup = tree.setup().generous();
    let full = call(&setup, request.clone(), FakeClock::new()).unwrap();
    assert_eq!(full.count, 1200);
    // Files are searched in the order of their paths: `before` files precede the one in which the
    // time ends.
    for (name, before) in [("000", 0), ("035", 7), ("122", 184), ("399", 399)] {
        for threads in [1, 2, 8] {
            let (clock, gate) = (FakeClock::new(), Gate::default());
            let mut setup = tree.setup().generous().threads(threads);
            setup.engines = stuck_at(name, &clock, &gate).batching(1, 1).engines();
            let cut = call(&setup, request.clone(), clock).unwrap();
            gate.open();
            assert!(cut.timed_out && cut.content.contains("timed out after"));
            // With several threads, a file before that one may be unfinished. The answer ends at
            // such a gap, even if later files are finished.
            assert!(cut.count <= 3 * before, "{name}, {threads} threads");
            assert!(threads > 1 || cut.count == 3 * before, "{name}");
            assert_eq!(
                cut.matches,
                full.matches[..cut.count],
                "a prefix, without a gap"
            );
        }
    }
}

#[test]
fn a_worker_that_never_returns_is_abandoned() {
    let tree = Tree::of([("a", "m\n"), ("b/c", "m\n")]);
    let (clock, gate) = (FakeClock::new(), Gate::default());
    let mut setup = tree.setup().generous().threads(1);
    setup.engines = stuck_at("c", &clock, &gate).engines();
    let request = json!({"pattern": "m", "timeout_ms": 1_000});
    let response = call(&setup, request, clock).unwrap();
    assert!(response.timed_out && !gate.is_open());
    assert_eq!(response.count, 1, "what came before it is kept");
    gate.open();
}

/// A clock that cancels a call after a number of readings.
#[derive(Debug)]
struct Cancelling {
    clock: FakeClock,
    cancel: CancelHandle,
    after: u64,
}

impl Clock for Cancelling {
    fn now(&self) -> Instant {
        if self.clock.looks() >= self.after {
            self.cancel.cancel();
        }
        self.clock.now()
    }
}

/// Runs a request and cancels it once the clock has been read `after` times. Returns the outcome
/// and the number of readings until the call returned.
fn cancelled(
    setup: &Setup,
    request: Value,
    after: u64,
) -> (Result<SearchResponse, ToolError>, u64) {
    let (tool, mut context) = (setup.tool(), setup.context());
    let clock = FakeClock::new();
    context.clock = Arc::new(Cancelling {
        clock: clock.clone(),
        cancel: context.cancel.clone(),
        after,
    });
    let request = SearchRequest::from_value(request).unwrap();
    let outcome = ends(move || tool.search(&request, &context));
    (outcome, clock.looks())
}

#[test]
fn cancellation_ends_a_call_wherever_it_is() {
    let huge = huge_line();
    let gate = Gate::default();
    let held = gate.clone();
    let mut stuck = huge.setup().generous().threads(2);
    stuck.engines = Hooked::new(move |_| {
        held.wait();
        Ok(())
    })
    .engines();
    let expensive = json!({"pattern": PATHOLOGICAL[0]});
    for (what, setup, request) in [
        (
            "an expensive expression",
            huge.setup().generous(),
            expensive,
        ),
        ("a stuck worker", stuck, json!({"pattern": "x"})),
    ] {
        for after in [0, 5, 30] {
            let (outcome, looks) = cancelled(&setup, request.clone(), after);
            println!(
                "{what}: came back {} looks after it was cancelled",
                looks - after
            );
            assert_eq!(outcome.unwrap_err(), ToolError::Cancelled, "{what}");
            assert!(looks < after + GRACE, "{what}: {looks}");
        }
    }
    gate.open();
}

#[test]
fn a_call_that_was_cancelled_before_it_began_does_nothing() {
    let tree = Tree::of([("a", "m\n")]);
    let context = tree.setup().context();
    context.cancel.cancel();
    let gate = Gate::default();
    let held = gate.clone();
    let mut setup = tree.setup().threads(1);
    setup.engines = Hooked::new(move |_| {
        held.wait();
        Ok(())
    })
    .engines();
    let tool = setup.tool();
    let outcome = ends(move || tool.search(&SearchRequest::new("m"), &context));
    assert_eq!(outcome.unwrap_err(), ToolError::Cancelled);
    gate.open();
}

/// Returns an engine that lets the clock jump by `jump` before it searches the file `at`. Then it
/// waits until the call has noticed.
fn jumping(at: &'static str, jump: Duration, clock: &FakeClock, over: &Gate) -> Hooked {
    let (clock, over) = (clock.clone(), over.clone());
    let engine = Hooked::new(move |files| {
        if files.iter().any(|file| file.found.name == at) {
            clock.jump(jump);
            let looks = clock.looks();
            // A call that has its answer does not read the clock any more.
            until("the call has looked at the clock", || {
                clock.looks() > looks + 2 || over.is_open()
            });
        }
        Ok(())
    });
    engine.batching(1, 1)
}

/// Runs a request; the clock jumps by `jump` just before the file `at` is searched.
fn with_jump(tree: &Tree, at: &'static str, jump: Duration, request: Value) -> SearchResponse {
    let (clock, over) = (FakeClock::new(), Gate::default());
    let mut setup = tree.setup().threads(1);
    setup.engines = jumping(at, jump, &clock, &over).engines();
    let response = call(&setup, request, clock).unwrap();
    over.open();
    response
}

#[test]
fn the_deadline_is_measured_by_the_clock() {
    let tree = Tree::of([("d1/a", "m\n"), ("d2/b", "m\n"), ("d3/c", "m\n")]);
    let hour = Duration::from_secs(3600);
    let request = json!({"pattern": "m", "timeout_ms": 3_600_000});
    // A second before the deadline, the call is in time, however the hour passed.
    let response = with_jump(&tree, "b", hour - Duration::from_secs(1), request.clone());
    assert_eq!((response.count, response.timed_out), (3, false));
    // At the deadline, the call is over.
    let response = with_jump(&tree, "b", hour, request.clone());
    assert!(response.timed_out && response.count < 3);
    assert_eq!(response.matches[0].data.path.text, "d1/a");
    let response = with_jump(&tree, "a", hour, request);
    assert!(response.timed_out && response.count < 2);
}

#[test]
fn a_deadline_with_a_full_answer_sets_truncated() {
    // When the time ends, it is unknown whether one more event exists.
    let tree = Tree::of([("d1/a", "m\n"), ("d2/b", "x\n"), ("d3/c", "x\n")]);
    let request = json!({"pattern": "m", "timeout_ms": 1000, "max_results": 1});
    let response = with_jump(&tree, "b", Duration::from_secs(2), request);
    assert!(response.timed_out && response.truncated);
    assert_eq!(response.count, 1);
}

#[test]
fn a_known_answer_beats_the_deadline() {
    let tree = Tree::of([("d1/a", "m\nm\n"), ("d2/b", "m\n")]);
    let request = json!({"pattern": "m", "timeout_ms": 1000, "max_results": 1});
    let response = with_jump(&tree, "b", Duration::from_secs(2), request);
    assert!(
        response.truncated && !response.timed_out,
        "the cut was known before"
    );
    assert_eq!(response.files_scanned, 1);
}

#[test]
fn the_timeout_of_a_request_wins_over_the_default() {
    let tree = Tree::of([("d1/a", "m\n"), ("d2/b", "m\n")]);
    let is_cut = |timeout: Option<u64>, host: Option<u64>, configured: u64| {
        let (clock, over) = (FakeClock::new(), Gate::default());
        let mut setup = tree
            .setup()
            .threads(1)
            .config(|config| config.default_timeout_ms = configured);
        setup.engines = jumping("a", Duration::from_secs(1), &clock, &over).engines();
        let mut context = setup.context();
        context.default_timeout = host.map(Duration::from_millis);
        context.clock = Arc::new(clock);
        let mut request = SearchRequest::new("m");
        request.timeout_ms = timeout;
        let tool = setup.tool();
        let response = ends(move || tool.search(&request, &context).unwrap());
        over.open();
        response.timed_out
    };
    assert!(is_cut(None, None, 20), "the configured one");
    assert!(
        !is_cut(Some(60_000), None, 20),
        "the request's wins over the configured one"
    );
    assert!(
        is_cut(Some(20), Some(60_000), 60_000),
        "and over the host's"
    );
    assert!(
        is_cut(None, Some(20), 60_000),
        "the host's wins over the configured one"
    );
}
