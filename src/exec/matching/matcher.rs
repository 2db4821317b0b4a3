//! Matching with bounded latency: every confirmed line goes through this matcher, and it checks the
//! stop flag at least every few milliseconds.
//!
//! The fast engines of the `regex` crates can't be interrupted. So they get windows of whole lines,
//! and the windows shrink as the expression grows. A line longer than its window is matched byte by
//! byte, by a lazy automaton that polls the flag.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock};

use grep_matcher::{LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use memchr::memchr;
use regex_syntax::hir::{HirKind, Look};

use crate::exec::answer::outcome::{LineSpans, Span};
use crate::exec::matching::compiled::{Compiled, Finder};
use crate::exec::matching::fuzzy::{FuzzyMatcher, FuzzyWorker, SimilarMatcher, SimilarWorker};
use crate::exec::matching::literal_set::LiteralSet;
use crate::exec::matching::pattern::{Pattern, PatternError};
use crate::exec::matching::stepper::{Stepper, StepperCache};
use crate::exec::question::query::{Fuzziness, Query, Spans};
use crate::exec::stop::Stop;

/// The most states times bytes between two polls: a few milliseconds of the slowest engine.
const WORK_BETWEEN_POLLS: usize = 40_000_000;

/// Assertions that can hold in a window but not in the line alone. If a line starts with a stray
/// continuation byte, they take the line feed before the line as the character before that byte.
const LOOKS_ACROSS_LINES: [Look; 3] = [
    Look::WordUnicodeNegate,
    Look::WordStartHalfUnicode,
    Look::WordEndHalfUnicode,
];

/// A pattern compiled for matching, shared by the workers of a call.
#[derive(Clone, Debug)]
pub struct LineMatcher(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Exact(Exact),
    Set(Arc<LiteralSet>),
    Fuzzy(FuzzyMatcher),
    Similar(SimilarMatcher),
}

#[derive(Clone, Debug)]
struct Exact {
    compiled: Compiled,
    recheck: bool,
    stepper: Option<Arc<LazyStepper>>,
    window: usize,
}

impl LineMatcher {
    /// Compiles a pattern for exact matching.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if the automaton of the expression would exceed the size limit.
    pub fn new(pattern: &Pattern) -> Result<LineMatcher, PatternError> {
        Ok(LineMatcher(match pattern.literals() {
            Some(set) => Kind::Set(set.clone()),
            None => Kind::Exact(Exact::new(pattern)?),
        }))
    }

    /// Compiles the pattern of a query, for approximate matching if the query asks for it.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if the automaton would exceed the size limit, or if the pattern can't be
    /// searched for approximately.
    pub fn of(query: &Query) -> Result<LineMatcher, PatternError> {
        if query.fuzzy.is_some() && query.pattern.literals().is_some() {
            return Err(PatternError::new(
                "these are too many patterns for a fuzzy search; search for fewer at a time"
                    .to_string(),
            ));
        }
        match query.fuzzy {
            None => LineMatcher::new(&query.pattern),
            Some(Fuzziness::Edits(level)) => {
                let matcher = FuzzyMatcher::new(&query.pattern, level.into())?;
                Ok(LineMatcher(Kind::Fuzzy(matcher)))
            }
            Some(Fuzziness::Score(threshold)) => {
                let matcher = SimilarMatcher::new(&query.pattern, threshold)?;
                Ok(LineMatcher(Kind::Similar(matcher)))
            }
        }
    }

    /// Creates the matcher of one worker, with its own caches and the flag that it polls.
    pub fn worker(&self, stop: Stop) -> WorkerMatcher {
        WorkerMatcher(match &self.0 {
            Kind::Exact(exact) => WorkerKind::Exact(Box::new(exact.worker(stop))),
            Kind::Set(set) => WorkerKind::Set(set.clone(), stop),
            Kind::Fuzzy(fuzzy) => WorkerKind::Fuzzy(fuzzy.worker(stop)),
            Kind::Similar(similar) => WorkerKind::Similar(similar.worker(stop)),
        })
    }
}

impl Exact {
    fn new(pattern: &Pattern) -> Result<Exact, PatternError> {
        let compiled = Compiled::new(pattern)?;
        // Substring search finds literals, and its time is linear for every text.
        let linear = !pattern.word() && is_literal(pattern);
        let stepper = if linear {
            None
        } else {
            Some(Arc::new(LazyStepper::new(pattern)))
        };
        let window = if linear {
            1 << 20
        } else {
            (WORK_BETWEEN_POLLS / pattern.cost().max(1)).clamp(256, 256 << 10)
        };
        let looks = pattern.full_hir().properties().look_set();
        let recheck = LOOKS_ACROSS_LINES
            .into_iter()
            .any(|look| looks.contains(look));
        Ok(Exact {
            compiled,
            recheck,
            stepper,
            window,
        })
    }

    fn worker(&self, stop: Stop) -> ExactWorker {
        ExactWorker {
            finder: self.compiled.finder(),
            recheck: self.recheck,
            cache: RefCell::new(None),
            stepper: self.stepper.clone(),
            window: self.window,
            stop,
        }
    }
}

/// A stepper that is built when the first line needs it. Building takes twice as long as building
/// the plain matcher, up to most of a second for an expression at the limit. Most searches see no
/// long line.
#[derive(Debug)]
struct LazyStepper {
    pattern: Pattern,
    built: OnceLock<Option<Stepper>>,
}

impl LazyStepper {
    fn new(pattern: &Pattern) -> LazyStepper {
        LazyStepper {
            pattern: pattern.clone(),
            built: OnceLock::new(),
        }
    }

    /// Returns the stepper. `None` if it can't be built for the expression.
    fn get(&self) -> Option<&Stepper> {
        self.built
            .get_or_init(|| Stepper::new(&self.pattern))
            .as_ref()
    }
}

fn exact_span(start: usize, end: usize) -> Span {
    Span {
        start,
        end,
        edits: 0,
    }
}

fn is_literal(pattern: &Pattern) -> bool {
    matches!(pattern.hir().kind(), HirKind::Literal(_))
}

/// The error of a match that the stop flag interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the search was stopped")
    }
}

/// The matcher of one worker.
#[derive(Debug)]
pub struct WorkerMatcher(WorkerKind);

#[derive(Debug)]
enum WorkerKind {
    Exact(Box<ExactWorker>),
    Set(Arc<LiteralSet>, Stop),
    Fuzzy(FuzzyWorker),
    Similar(SimilarWorker),
}

impl WorkerMatcher {
    /// Finds the first match of a line without its terminator: the leftmost one, or with edits the
    /// one with the fewest.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the flag was raised before the result was known.
    pub fn find_in_line(&self, line: &[u8]) -> Result<Option<Span>, Stopped> {
        match &self.0 {
            WorkerKind::Exact(exact) => exact.find_in_line(line),
            WorkerKind::Set(set, _) => Ok(set.find(line, 0)),
            WorkerKind::Fuzzy(fuzzy) => fuzzy.find_in_line(line),
            WorkerKind::Similar(similar) => {
                let mut found = LineSpans::new();
                similar.find_in_line(line, 1, &mut found)?;
                Ok(found.first().copied())
            }
        }
    }

    /// Finds at most `most` matches of the wanted kind in a line without its terminator, from left
    /// to right. They do not overlap. With edits a line has one match, the one with the fewest.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the flag was raised before the result was known.
    pub fn spans_in_line(
        &self,
        line: &[u8],
        wanted: Spans,
        most: usize,
    ) -> Result<LineSpans, Stopped> {
        let mut found = LineSpans::new();
        match (&self.0, wanted) {
            (WorkerKind::Exact(exact), Spans::Each | Spans::Every) => {
                let first = exact.find_in_line(line)?;
                let next = |from| exact.find_from(line, from);
                all_matches(line, wanted, most, first, next, &mut found)?;
            }
            (WorkerKind::Set(set, _), Spans::Each | Spans::Every) => {
                let next = |from| Ok(set.find(line, from));
                all_matches(line, wanted, most, set.find(line, 0), next, &mut found)?;
            }
            (WorkerKind::Similar(similar), Spans::Each | Spans::Every) => {
                similar.find_in_line(line, most, &mut found)?;
            }
            (_, _) => found.extend(self.find_in_line(line)?),
        }
        Ok(found)
    }
}

impl Matcher for WorkerMatcher {
    type Captures = NoCaptures;
    type Error = Stopped;

    /// Searchers call this for a single line, from its start.
    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, Stopped> {
        match &self.0 {
            WorkerKind::Exact(exact) if at > 0 => Ok(exact.finder.find_at(haystack, at)),
            WorkerKind::Set(set, _) => {
                let found = set.find(haystack, at);
                Ok(found.map(|span| Match::new(span.start, span.end)))
            }
            _ => {
                let found = self.find_in_line(haystack)?;
                let found = found.filter(|span| span.start >= at);
                Ok(found.map(|span| Match::new(span.start, span.end)))
            }
        }
    }

    fn new_captures(&self) -> Result<NoCaptures, Stopped> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, haystack: &[u8], at: usize) -> Result<Option<usize>, Stopped> {
        match &self.0 {
            WorkerKind::Exact(exact) if at > 0 || haystack.len() <= exact.window => {
                Ok(exact.finder.shortest_match_at(haystack, at))
            }
            _ => Ok(self.find_at(haystack, at)?.map(|found| found.end())),
        }
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        // No match contains a line feed, and the only anchors of the normal form are those of
        // lines.
        Some(LineTerminator::byte(b'\n'))
    }

    fn find_candidate_line(&self, haystack: &[u8]) -> Result<Option<LineMatchKind>, Stopped> {
        match &self.0 {
            WorkerKind::Exact(exact) => exact.find_candidate_line(haystack),
            WorkerKind::Set(set, stop) => set.find_candidate_line(haystack, stop),
            WorkerKind::Fuzzy(fuzzy) => fuzzy.find_candidate_line(haystack),
            WorkerKind::Similar(similar) => similar.find_candidate_line(haystack),
        }
    }
}

/// Adds the matches of a line: those of [`Spans::Each`] or of [`Spans::Every`]. `next` finds the
/// leftmost match that starts at or after a position.
fn all_matches(
    line: &[u8],
    wanted: Spans,
    most: usize,
    first: Option<Span>,
    next: impl Fn(usize) -> Result<Option<Span>, Stopped>,
    out: &mut LineSpans,
) -> Result<(), Stopped> {
    match wanted {
        Spans::Every => every_match(line, most, first, next, out),
        Spans::First | Spans::Each => each_match(line, most, first, next, out),
    }
}

/// Adds the non-empty matches of a line. If all are empty, adds the first one.
fn each_match(
    line: &[u8],
    most: usize,
    first: Option<Span>,
    next: impl Fn(usize) -> Result<Option<Span>, Stopped>,
    out: &mut LineSpans,
) -> Result<(), Stopped> {
    let mut first_empty = None;
    let mut found = first;
    while out.len() < most
        && let Some(span) = found
    {
        let mut from = span.end;
        if span.start < span.end {
            out.push(span);
        } else {
            first_empty.get_or_insert(span);
            let (_, len) = bstr::decode_utf8(&line[span.end..]);
            from += len.max(1);
        }
        if from > line.len() {
            break;
        }
        found = next(from)?;
    }
    out.extend(first_empty.filter(|_| out.is_empty()));
    Ok(())
}

/// Adds the matches of a line, including empty ones. After an empty match, and after one directly
/// behind another match, the search continues one byte further, as in ripgrep.
fn every_match(
    line: &[u8],
    most: usize,
    first: Option<Span>,
    next: impl Fn(usize) -> Result<Option<Span>, Stopped>,
    out: &mut LineSpans,
) -> Result<(), Stopped> {
    let mut found = first;
    let mut last_end = None;
    while out.len() < most
        && let Some(span) = found
    {
        let is_empty = span.start == span.end;
        let from = span.end + usize::from(is_empty);
        if !(is_empty && last_end == Some(span.end)) {
            out.push(span);
            last_end = Some(span.end);
        }
        if from > line.len() {
            break;
        }
        found = next(from)?;
    }
    Ok(())
}

/// The matcher of one worker for exact matches of an expression.
#[derive(Debug)]
struct ExactWorker {
    finder: Finder,
    /// Whether a match in a window must be confirmed in its line alone.
    recheck: bool,
    stepper: Option<Arc<LazyStepper>>,
    cache: RefCell<Option<StepperCache>>,
    window: usize,
    stop: Stop,
}

impl ExactWorker {
    /// Finds the leftmost match in a line without its terminator.
    fn find_in_line(&self, line: &[u8]) -> Result<Option<Span>, Stopped> {
        if line.len() > self.window
            && let Some(stepper) = self.stepper.as_ref().and_then(|lazy| lazy.get())
            && let Some(found) = stepper.find(
                self.cache
                    .borrow_mut()
                    .get_or_insert_with(|| stepper.create_cache()),
                line,
                &self.stop,
            )?
        {
            return Ok(found.map(|(start, end)| exact_span(start, end)));
        }
        if self.stop.is_raised() {
            return Err(Stopped);
        }
        let found = self.finder.find_at(line, 0);
        Ok(found.map(|found| exact_span(found.start(), found.end())))
    }

    /// Finds the leftmost match that starts at or after `from`.
    fn find_from(&self, line: &[u8], from: usize) -> Result<Option<Span>, Stopped> {
        if self.stop.is_raised() {
            return Err(Stopped);
        }
        let found = self.finder.find_at(line, from);
        Ok(found.map(|found| exact_span(found.start(), found.end())))
    }

    /// Returns the end of the window of whole lines that starts at `from`, without the last line
    /// feed, and the start of the next window.
    fn window_end(&self, haystack: &[u8], from: usize) -> (usize, usize) {
        let probe = from.saturating_add(self.window).min(haystack.len());
        if probe == haystack.len() {
            let end = probe - usize::from(haystack.last() == Some(&b'\n'));
            return (end.max(from), probe);
        }
        // Ends after the last line that ends inside the window, or after the first line if that one
        // is longer.
        let feed = memchr::memrchr(b'\n', &haystack[from..probe])
            .map(|at| from + at)
            .or_else(|| memchr(b'\n', &haystack[probe..]).map(|at| probe + at));
        match feed {
            Some(feed) => (feed, feed + 1),
            None => (haystack.len(), haystack.len()),
        }
    }

    /// Looks for a line that may match, window by window. Takes time linear in the bytes that are
    /// read.
    fn find_candidate_line(&self, haystack: &[u8]) -> Result<Option<LineMatchKind>, Stopped> {
        let mut from = 0;
        while from < haystack.len() {
            if self.stop.is_raised() {
                return Err(Stopped);
            }
            let (end, next) = self.window_end(haystack, from);
            let window = &haystack[from..end];
            let found = if window.len() > self.window && self.stepper.is_some() {
                // A single long line is matched here, exactly.
                self.find_in_line(window)?
                    .map(|span| LineMatchKind::Confirmed(span.start))
            } else {
                match self.finder.find_candidate_line(window) {
                    Some(LineMatchKind::Confirmed(at)) if self.recheck => {
                        Some(LineMatchKind::Candidate(at))
                    }
                    found => found,
                }
            };
            match found {
                None => from = next,
                Some(LineMatchKind::Confirmed(at)) => {
                    return Ok(Some(LineMatchKind::Confirmed(from + at)));
                }
                Some(LineMatchKind::Candidate(at)) => {
                    return Ok(Some(LineMatchKind::Candidate(from + at)));
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exec::question::query::Fold;
    use crate::exec::stop::StopReason;

    fn matcher(text: &str, window: Option<usize>) -> ExactWorker {
        let pattern = Pattern::compile(text, false, Fold::Sensitive, false).unwrap();
        let mut matcher = Exact::new(&pattern).unwrap();
        if let Some(window) = window {
            matcher.window = window;
            if matcher.stepper.is_none() {
                matcher.stepper = Some(Arc::new(LazyStepper::new(&pattern)));
            }
        }
        matcher.worker(Stop::new())
    }

    /// Returns the numbers of the matching lines, found in the way a searcher finds them.
    fn lines_by_candidates(matcher: &ExactWorker, text: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut pos = 0;
        while pos < text.len() {
            let Some(kind) = matcher.find_candidate_line(&text[pos..]).unwrap() else {
                break;
            };
            let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = kind;
            let at = pos + at;
            let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |feed| feed + 1);
            if start >= text.len() {
                break;
            }
            let end = memchr(b'\n', &text[at..]).map_or(text.len(), |feed| at + feed);
            let confirmed = matches!(kind, LineMatchKind::Confirmed(_));
            if confirmed || matcher.find_in_line(&text[start..end]).unwrap().is_some() {
                found.push(memchr::memchr_iter(b'\n', &text[..start]).count() + 1);
            }
            pos = end + 1;
        }
        found
    }

    proptest! {
        /// Compares with the plain engine, one line at a time.
        #[test]
        fn windows_never_change_what_matches(
            text in prop::collection::vec(prop::sample::select(b"ab \n\xC3\xA9".to_vec()), 0..80),
            pattern in prop::sample::select(vec![
                "a", "ab+", "^$", "^", "$", "a$", "^b", r"\bb", "[^a]", "", "a|é", "(?-u:\\xC3)", "b.*a",
            ]),
            window in 1usize..20,
        ) {
            let plain = matcher(pattern, None);
            let windowed = matcher(pattern, Some(window));
            let expected: Vec<usize> = text
                .split_inclusive(|&b| b == b'\n')
                .enumerate()
                .filter(|(_, line)| {
                    let line = line.strip_suffix(b"\n").unwrap_or(line);
                    plain.finder.find_at(line, 0).is_some()
                })
                .map(|(n, _)| n + 1)
                .collect();
            prop_assert_eq!(lines_by_candidates(&plain, &text), expected.clone());
            prop_assert_eq!(lines_by_candidates(&windowed, &text), expected);
        }

        #[test]
        fn stepping_finds_the_same_match(
            line in prop::collection::vec(prop::sample::select(b"abc -\xC3\xA9\xFF".to_vec()), 1..60),
            pattern in prop::sample::select(vec![
                "a", "ab+?", "^a", "c$", r"\bb", "[^a]", "", "a|ab", "(a|ab)(c|bcd)?", "b.*a", "é+", ".",
                "(?-u:[\\x80-\\xFF])", "a{2,3}", "(?:a|b)*?c", r"\w\b", r"\B.",
            ]),
        ) {
            let plain = matcher(pattern, None);
            let stepping = matcher(pattern, Some(0));
            let expected = plain.finder.find_at(&line, 0).map(|m| (m.start(), m.end()));
            let found = stepping.find_in_line(&line).unwrap();
            prop_assert_eq!(found.map(|span| (span.start, span.end)), expected);
        }
    }

    #[test]
    fn a_raised_flag_stops_a_long_line() {
        let pattern = Pattern::compile("(a|b)*c", false, Fold::Sensitive, false).unwrap();
        let stop = Stop::new();
        let worker = LineMatcher::new(&pattern).unwrap().worker(stop.clone());
        let line = vec![b'a'; 4 << 20];
        stop.raise(StopReason::TimedOut);
        assert_eq!(worker.find_in_line(&line), Err(Stopped));
        assert_eq!(worker.find_candidate_line(&line).unwrap_err(), Stopped);
    }

    #[test]
    fn an_automaton_over_the_limit_is_refused_with_a_reason() {
        let pattern = Pattern::compile(r"\w{5000}", false, Fold::Sensitive, false).unwrap();
        let message = LineMatcher::new(&pattern).unwrap_err().message;
        assert!(
            message.contains("too large") && message.contains("repetitions"),
            "{message}"
        );
    }
}
