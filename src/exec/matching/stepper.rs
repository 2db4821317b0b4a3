//! A lazily built automaton that processes a line byte by byte, so that it notices a deadline in
//! the middle of a line of any length. `matcher` uses it for lines that are longer than its window.

use std::fmt;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};

use crate::exec::matching::matcher::Stopped;
use crate::exec::matching::pattern::{Pattern, REGEX_SIZE_LIMIT};
use crate::exec::stop::Stop;

/// The bytes between two checks of the stop flag. A step may have to build a state, which takes
/// time in proportion to the expression.
const BYTES_BETWEEN_POLLS: usize = 1024;

/// Memory for the states of one direction, per worker.
const CACHE_BYTES: usize = 4 << 20;

/// The automata of one pattern: forward for a match's end, backward for its start.
pub struct Stepper {
    forward: DFA,
    backward: DFA,
}

/// The states that one worker has built so far.
pub struct StepperCache {
    forward: Cache,
    backward: Cache,
}

impl fmt::Debug for Stepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stepper").finish_non_exhaustive()
    }
}

impl fmt::Debug for StepperCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepperCache").finish_non_exhaustive()
    }
}

/// The result of a walk through a haystack.
enum Walk {
    /// A match ends (or, backward, starts) here.
    Found(usize),
    /// There is no match.
    Nothing,
    /// The automaton can't decide: a Unicode word boundary next to a byte that is not ASCII.
    Unknown,
}

impl Stepper {
    /// Builds the automata. `None` if the expression can't be built as lazy automata.
    pub fn new(pattern: &Pattern) -> Option<Stepper> {
        let hir = pattern.full_hir();
        let compile = |reverse: bool| {
            let config = thompson::Config::new()
                .reverse(reverse)
                .utf8(false)
                .nfa_size_limit(Some(REGEX_SIZE_LIMIT))
                .which_captures(thompson::WhichCaptures::None);
            let nfa = thompson::Compiler::new()
                .configure(config)
                .build_from_hir(&hir)
                .ok()?;
            let kind = if reverse {
                MatchKind::All
            } else {
                MatchKind::LeftmostFirst
            };
            let config = DFA::config()
                .match_kind(kind)
                .unicode_word_boundary(true)
                .cache_capacity(CACHE_BYTES)
                .skip_cache_capacity_check(true)
                .starts_for_each_pattern(false);
            DFA::builder().configure(config).build_from_nfa(nfa).ok()
        };
        Some(Stepper {
            forward: compile(false)?,
            backward: compile(true)?,
        })
    }

    /// Creates the state of one worker.
    pub fn create_cache(&self) -> StepperCache {
        StepperCache {
            forward: self.forward.create_cache(),
            backward: self.backward.create_cache(),
        }
    }

    /// Finds the leftmost match in `line`. The outer `None` means that the automaton can't decide,
    /// the inner one that there is no match. Takes time linear in the line, times the cost of
    /// building states.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the flag was raised before the result was known.
    pub fn find(
        &self,
        cache: &mut StepperCache,
        line: &[u8],
        stop: &Stop,
    ) -> Result<Option<Option<(usize, usize)>>, Stopped> {
        let (forward, backward) = (&mut cache.forward, &mut cache.backward);
        let state = self.forward.start_state_forward(forward, &Input::new(line));
        let bytes = line.iter().copied().enumerate();
        let end = match walk(&self.forward, forward, state.ok(), bytes, line.len(), stop)? {
            Walk::Unknown => return Ok(None),
            Walk::Nothing => return Ok(Some(None)),
            Walk::Found(end) => end,
        };
        let input = Input::new(line).range(..end).anchored(Anchored::Yes);
        let state = self.backward.start_state_reverse(backward, &input);
        let bytes = (0..end).rev().map(|at| (at + 1, line[at]));
        match walk(&self.backward, backward, state.ok(), bytes, 0, stop)? {
            Walk::Found(start) => Ok(Some(Some((start, end)))),
            Walk::Unknown | Walk::Nothing => Ok(None),
        }
    }
}

/// Walks through a haystack from a start state. `bytes` are its bytes in walking order, each with
/// the place at which the automaton is before it; `end` is the place after the last one.
fn walk(
    dfa: &DFA,
    cache: &mut Cache,
    start: Option<LazyStateID>,
    bytes: impl Iterator<Item = (usize, u8)>,
    end: usize,
    stop: &Stop,
) -> Result<Walk, Stopped> {
    let Some(mut state) = start else {
        return Ok(Walk::Unknown);
    };
    let mut last = None;
    for (at, byte) in bytes {
        if at % BYTES_BETWEEN_POLLS == 0 && stop.is_raised() {
            return Err(Stopped);
        }
        let Ok(next) = dfa.next_state(cache, state, byte) else {
            return Ok(Walk::Unknown);
        };
        state = next;
        if state.is_tagged() {
            // The automaton reports matches one byte late, so that it can decide look-ahead.
            if state.is_match() {
                last = Some(at);
            } else if state.is_dead() {
                return Ok(last.map_or(Walk::Nothing, Walk::Found));
            } else if state.is_quit() {
                return Ok(Walk::Unknown);
            }
        }
    }
    let Ok(state) = dfa.next_eoi_state(cache, state) else {
        return Ok(Walk::Unknown);
    };
    if state.is_match() {
        last = Some(end);
    } else if state.is_quit() {
        return Ok(Walk::Unknown);
    }
    Ok(last.map_or(Walk::Nothing, Walk::Found))
}
