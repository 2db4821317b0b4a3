//! Deadlines and cancellation: calls return in time from wherever they are, with an exact prefix.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forge_search::exec::stop::{CancelHandle, Clock};
use forge_search::tool::error::ToolError;
use forge_search::tool::request::SearchRequest;
use forge_search::tool::response::SearchResponse;
use serde_json::{Value, json};

use crate::hooked::Hooked;
use crate::support::{Setup, Tree, check_response};

/// What the promise of 50 ms may become on a machine that is busy with other tests.
const MARGIN: Duration = Duration::from_millis(500);

/// Runs a request that can't be finished in `timeout_ms`, and checks that it came back in time.
#[track_caller]
fn times_out(what: &str, setup: &Setup, mut request: Value, timeout_ms: u64) -> SearchResponse {
    request["timeout_ms"] = timeout_ms.into();
    let request = SearchRequest::from_value(request).unwrap();
    let (tool, context) = (setup.tool(), setup.context());
    let started = Instant::now();
    let response = tool.search(&request, &context).unwrap();
    let took = started.elapsed();
    check_response(&request, &response);
    println!("{what}: asked for {timeout_ms} ms, took {took:?}");
    assert!(response.timed_out, "{what} was finished in {took:?}");
    assert!(response.content.contains("timed out after"));
    let timeout = Duration::from_millis(timeout_ms);
    assert!(took < timeout + MARGIN, "{what}: {took:?} for {timeout:?}");
    response
}

/// One line of 64 MiB, which a cheap expression and an expensive one have to read to its end.
fn huge_line() -> Tree {
    let line = b"abaabbab".repeat(8 << 20);
    Tree::of([("huge", line)])
}

/// Expressions that take long on the huge line when nothing stops them: none has a literal whose absence would be found
/// out at once.
const PATHOLOGICAL: &[&str] = &[
    "(a*)*(a|aa)*[^a]{20}b",
    "(?:a|b|ab|ba|aab){50}[c-z]",
    "[ab]{200}[c-z]",
    r"(\w+\w+)+\d",
    "(.*a){12}[c-z]",
    "(x+x+)+y|(a?){40}(b?){40}[c-z]",
];

#[test]
fn fr_ls_07_one_huge_line_and_expensive_expressions() {
    let tree = huge_line();
    let setup = tree.setup().generous();
    for pattern in PATHOLOGICAL {
        let response = times_out(pattern, &setup, json!({"pattern": pattern}), 60);
        assert_eq!(response.count, 0);
    }
}

#[test]
fn fr_ls_07_words_in_a_huge_line_of_letters_beyond_ascii() {
    // Unicode word boundaries beside such letters are beyond the automaton that can be interrupted.
    let tree = Tree::of([("huge", "éa".repeat(12 << 20))]);
    let setup = tree.setup().generous();
    for pattern in [r"\bx+\b|\b(é|a){3,40}x\b", r"(\w+\b\w*)+[^\p{L}]"] {
        times_out(pattern, &setup, json!({"pattern": pattern}), 100);
    }
    let request = json!({"pattern": "(é|a){3,40}[0-9]", "word_regexp": true});
    times_out("words", &setup, request, 100);
}

#[test]
fn fr_ls_07_a_large_file_of_short_lines() {
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
fn fr_ls_07_an_expensive_expression_to_compile() {
    // Compiling can't be interrupted, so what is accepted must be cheap enough to compile.
    let tree = Tree::of([("a", "x\n")]);
    let setup = tree.setup().generous();
    for pattern in [
        r"\w{40}",
        r"(\w{10}|\d{10}|\s{10}){3}",
        r"[\p{L}\p{N}]{30}",
        r"\W{60}",
        "(?:[a-z]{1,100}){1,90}",
    ] {
        let started = Instant::now();
        let outcome = setup.call(json!({"pattern": pattern, "timeout_ms": 1}));
        let took = started.elapsed();
        println!("{pattern}: {took:?}");
        if let Err(error) = outcome {
            assert_eq!(error.code(), "bad_args", "{error}");
        }
        assert!(took < Duration::from_secs(5), "{pattern}: {took:?}");
    }
}

#[test]
fn fr_ls_07_a_pipe_in_the_tree_is_not_waited_for() {
    let tree = Tree::of([("a", "m\n"), ("z", "m\n")]);
    tree.fifo("p").fifo("d/.ignore").file("d/x", "m\n");
    let started = Instant::now();
    let response = tree.search(json!({"pattern": "m", "hidden": true, "follow": true}));
    assert_eq!((response.count, response.timed_out), (3, false));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn fr_ls_07_many_files_yield_an_exact_prefix() {
    let tree = Tree::new();
    for n in 0..400 {
        tree.file(&format!("d{}/{n:03}", n % 5), "before\nneedle\nafter\n");
    }
    let request = json!({"pattern": "needle", "context": 1});
    let full = tree.setup().generous().search(request.clone());
    assert_eq!(full.count, 1200);
    for (threads, timeout_ms) in [(1, 30), (2, 60), (8, 60)] {
        let mut setup = tree.setup().generous().threads(threads);
        setup.engines = Hooked::new(|_| {
            std::thread::sleep(Duration::from_millis(4));
            Ok(())
        })
        .batching(1, 1)
        .engines();
        let cut = times_out("many files", &setup, request.clone(), timeout_ms);
        assert!(cut.count < full.count);
        assert_eq!(
            cut.matches,
            full.matches[..cut.count],
            "a prefix, without a gap"
        );
        // Whole files, and no more of them than were searched in order; but the time may end within the last one, of which
        // there is what was found then.
        let missing = (3 * cut.files_scanned).checked_sub(cut.count as u64);
        assert!(missing.is_some_and(|events| events <= 3), "{missing:?}");
        println!(
            "{threads} threads: {} of 400 files in order",
            cut.files_scanned
        );
    }
}

#[test]
fn fr_ls_07_a_worker_that_never_returns_is_left_behind() {
    let tree = Tree::of([("a", "m\n"), ("b/c", "m\n")]);
    let mut setup = tree.setup().generous().threads(1);
    setup.engines = Hooked::new(|files| {
        if files.iter().any(|file| file.found.name == "c") {
            std::thread::sleep(Duration::from_secs(2));
        }
        Ok(())
    })
    .engines();
    let response = times_out("a stuck worker", &setup, json!({"pattern": "m"}), 50);
    assert_eq!(response.count, 1, "what came before it is kept");
}

/// Runs a request on another thread, cancels it after `delay`, and returns the outcome and how long it
/// took to come back after that.
fn cancelled(
    setup: &Setup,
    request: Value,
    delay: Duration,
) -> (Result<SearchResponse, ToolError>, Duration) {
    let context = setup.context();
    let cancel: CancelHandle = context.cancel.clone();
    let tool = setup.tool();
    let request = SearchRequest::from_value(request).unwrap();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| tool.search(&request, &context));
        std::thread::sleep(delay);
        let started = Instant::now();
        cancel.cancel();
        let outcome = call.join().unwrap();
        (outcome, started.elapsed())
    })
}

#[test]
fn cancellation_ends_a_call_wherever_it_is() {
    let huge = huge_line();
    let mut stuck = huge.setup().generous().threads(2);
    stuck.engines = Hooked::new(|_| {
        std::thread::sleep(Duration::from_secs(2));
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
        let (outcome, took) = cancelled(&setup, request, Duration::from_millis(100));
        println!("{what}: came back {took:?} after it was cancelled");
        assert_eq!(outcome.unwrap_err(), ToolError::Cancelled);
        assert!(took < MARGIN, "{what}: {took:?}");
    }
}

#[test]
fn a_call_that_was_cancelled_before_it_began_does_nothing() {
    let tree = Tree::of([("a", "m\n")]);
    let context = tree.setup().context();
    context.cancel.cancel();
    let mut setup = tree.setup().threads(1);
    setup.engines = Hooked::new(|_| {
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    })
    .engines();
    let outcome = setup.tool().search(&SearchRequest::new("m"), &context);
    assert_eq!(outcome.unwrap_err(), ToolError::Cancelled);
}

/// A clock that stands still until it is told to jump.
#[derive(Clone, Debug)]
pub(crate) struct FakeClock(Arc<Mutex<Instant>>);

impl FakeClock {
    pub(crate) fn new() -> FakeClock {
        FakeClock(Arc::new(Mutex::new(Instant::now())))
    }

    pub(crate) fn jump(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }
}

/// Runs a request whose clock jumps by `jump` when the file `at` is about to be searched.
fn with_jump(tree: &Tree, at: &'static str, jump: Duration, request: Value) -> SearchResponse {
    let clock = FakeClock::new();
    let hands = clock.clone();
    let mut setup = tree.setup().threads(1);
    setup.engines = Hooked::new(move |files| {
        if files.iter().any(|file| file.found.name == at) {
            hands.jump(jump);
            // Long enough for the waiting call to look at the clock.
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    })
    .batching(1, 1)
    .engines();
    let mut context = setup.context();
    context.clock = Arc::new(clock);
    let request = SearchRequest::from_value(request).unwrap();
    let response = setup.tool().search(&request, &context).unwrap();
    check_response(&request, &response);
    response
}

#[test]
fn fr_ls_07_the_deadline_is_the_clocks() {
    let tree = Tree::of([("d1/a", "m\n"), ("d2/b", "m\n"), ("d3/c", "m\n")]);
    let hour = Duration::from_secs(3600);
    let request = json!({"pattern": "m", "timeout_ms": 3_600_000});
    // A second before the deadline is in time, however the hour passed.
    let response = with_jump(&tree, "b", hour - Duration::from_secs(1), request.clone());
    assert_eq!((response.count, response.timed_out), (3, false));
    // At the deadline it is over.
    let response = with_jump(&tree, "b", hour, request.clone());
    assert!(response.timed_out && response.count < 3);
    assert_eq!(response.matches[0].data.path.text, "d1/a");
    let response = with_jump(&tree, "a", hour, request);
    assert!(response.timed_out && response.count < 2);
}

#[test]
fn fr_ls_07a_a_deadline_with_a_full_answer_says_truncated() {
    // One event more can be neither seen nor ruled out.
    let tree = Tree::of([("d1/a", "m\n"), ("d2/b", "x\n"), ("d3/c", "x\n")]);
    let request = json!({"pattern": "m", "timeout_ms": 1000, "max_results": 1});
    let response = with_jump(&tree, "b", Duration::from_secs(2), request);
    assert!(response.timed_out && response.truncated);
    assert_eq!(response.count, 1);
}

#[test]
fn fr_ls_07_an_answer_that_is_known_beats_the_deadline() {
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
fn cfg_ls_03_the_timeout_of_the_request_wins() {
    let tree = Tree::of([("d1/a", "m\n"), ("d2/b", "m\n")]);
    let slow = |timeout: Option<u64>, host: Option<u64>, configured: u64| {
        let mut setup = tree
            .setup()
            .threads(1)
            .config(|config| config.default_timeout_ms = configured);
        setup.engines = Hooked::new(|_| {
            std::thread::sleep(Duration::from_millis(150));
            Ok(())
        })
        .batching(1, 1)
        .engines();
        let mut context = setup.context();
        context.default_timeout = host.map(Duration::from_millis);
        let mut request = SearchRequest::new("m");
        request.timeout_ms = timeout;
        setup.tool().search(&request, &context).unwrap().timed_out
    };
    assert!(slow(None, None, 20), "the configured one");
    assert!(
        !slow(Some(60_000), None, 20),
        "the request's wins over the configured one"
    );
    assert!(slow(Some(20), Some(60_000), 60_000), "and over the host's");
    assert!(
        slow(None, Some(20), 60_000),
        "the host's wins over the configured one"
    );
}
